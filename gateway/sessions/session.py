"""One connected peer: performs the operations of its adapter on a virtual host.

``Session`` performs operations of the connection and dispatches those of a channel to its parts.
``Replies`` keeps the order of the answers, ``LongRequests`` performs large requests in portions.
"""

import math
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Protocol

from gateway.adapters.contract import Adapter, Capability
from gateway.broker.broker import Broker
from gateway.broker.channel import Channel, nothing
from gateway.errors import AwaitsUpstream, Condition, Lost, Refusal
from gateway.operations import (
    BeginSession,
    Blocked,
    Close,
    Closed,
    Done,
    EndSession,
    Fetch,
    KeepSession,
    Open,
    Operation,
    Peer,
    Publish,
    PublishMany,
    Refused,
    SendMany,
    SessionLost,
    Settle,
    Unblocked,
    UpdateSecret,
)
from gateway.sessions.channel_calls import ChannelCalls
from gateway.sessions.consumers import ConsumerOperations
from gateway.sessions.context import SessionContext
from gateway.sessions.dispatch import ON_CHANNEL
from gateway.sessions.handles import HandleOperations
from gateway.sessions.link_operations import LinkOperations
from gateway.sessions.links import Links
from gateway.sessions.live_channels import LiveChannels
from gateway.sessions.long_requests import LongRequests
from gateway.sessions.named import NamedSessions
from gateway.sessions.publishes import Publishes, one_by_one, refused_message
from gateway.sessions.realms import Realms
from gateway.sessions.replies import Replies
from gateway.sessions.retries import Retries
from gateway.sessions.session_operations import SessionOperations
from gateway.sessions.staging import Staging

NONE: Mapping[Any, Any] = {}


class Registrar(Protocol):
    """The registry of all sessions, as one session needs it."""

    links: Links
    named: NamedSessions
    create_queues: bool
    staging: Staging
    realms: Realms
    topics: dict[tuple[str, str], int]

    def enter(self, session: "Session") -> int: ...

    def claim(self, vhost: str, user: str, client: str, session: "Session") -> None: ...

    def leave(self, number: int) -> None: ...


def nothing_metered() -> tuple[int, int]:
    """No octets: the owner of the socket does not count them, or is gone."""
    return 0, 0


class Session:
    """Operations of one adapter (server role) performed on one broker.

    ``loopback``: the peer is on this machine, which some users have to be. ``since``: when the
    connection was accepted, in seconds since 1970; ``listener``: the name of that by which.
    """

    # More than 30 attributes: in a dictionary they would take four times the octets.
    __slots__ = (
        "_calls", "_close", "_consumers", "_context", "_handles", "_links", "_live",
        "_long_requests", "_more_pending", "_named", "_of_endpoints", "_pending",
        "_performing_pending", "_publishes", "_registry", "_replies", "_retries", "_scheduled",
        "_slice_end", "_told", "adapter", "address", "authenticated", "broker", "channels",
        "ending", "listener", "local", "loopback", "meter", "on_pending", "opened", "peer",
        "peer_closed", "since", "time_slice",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        adapter: Adapter,
        registry: Registrar,
        *,
        address: str,
        loopback: bool,
        since: float,
        listener: str = "",
    ) -> None:
        self.broker = broker
        self.adapter = adapter
        self.address = address
        self.local = ""
        """Our address, to which the peer has connected. Set by the owner of the socket."""
        self.loopback = loopback
        self.since, self.listener = since, listener
        self.peer = Peer()
        self.ending = ""
        """Reason for which the connection ended, for the log; "" for a normal end."""
        self.authenticated = self.opened = False
        self.peer_closed = False
        """The peer has asked for the end of the connection and was answered."""
        self.time_slice = math.inf
        """Seconds for which operations are performed at once; the others wait for
        ``perform_pending``. Set by the owner of the socket, so that no connection delays the
        others."""
        self.on_pending: Callable[[], None] = self.perform_pending
        """Called when ``perform_pending`` has operations to perform; the owner of the socket may
        call it later."""
        self.meter: Callable[[], tuple[int, int]] = nothing_metered
        """Octets received and sent. Set by the owner of the socket."""
        self._slice_end = math.inf
        """When the time slice is used up, by ``perf_counter``."""
        self._pending: list[Operation] = []
        """Operations that are received and not performed yet."""
        self._scheduled = False
        """``on_pending`` was called for the pending operations; otherwise they wait for
        ``resume``."""
        self._performing_pending = self._more_pending = False
        """``perform_pending`` is running, and was called again meanwhile."""
        self._close: Closed | None = None
        """The end of the connection that the peer has requested or caused. It is answered after
        everything else."""
        self._registry = registry
        self._context = context = SessionContext(broker, adapter)
        self.channels = context.channels
        context.number = registry.enter(self)
        self._replies = replies = Replies(context, self._on_replies_ready)
        self._calls = ChannelCalls(context, replies, registry.realms)
        self._retries = Retries(context, replies, self._act, self.refuse)
        self._consumers = ConsumerOperations(context, replies, self.follow)
        refuses_alone = bool(adapter.capabilities & (Capability.LINKS | Capability.HANDLES))
        self._publishes = Publishes(context, replies, refuses_alone)
        self._told: str | None = None
        """Why publishers are held back, as the peer has heard."""
        self._live = live = LiveChannels(
            context, replies, self.follow, registry.realms, refuses_alone
        )
        self._long_requests = LongRequests(context, replies, self.refuse, live.drop)
        self._links: LinkOperations | None = None
        self._handles: HandleOperations | None = None
        self._named: SessionOperations | None = None
        self._of_endpoints: Mapping[type[Operation], Callable[[Channel, Any], object]] = NONE
        """Operations on a channel that links, handles or sessions perform."""
        endpoints = live.endpoints
        if Capability.LINKS in adapter.capabilities:
            self._links = LinkOperations(
                context,
                replies,
                self._consumers,
                self._long_requests,
                self.follow,
                registry.links,
                registry.create_queues,
            )
            endpoints.append(self._links)
        if Capability.HANDLES in adapter.capabilities:
            self._handles = HandleOperations(
                context, replies, self._long_requests, self._publishes, registry
            )
            endpoints.append(self._handles)
        if Capability.SESSIONS in adapter.capabilities:
            self._named = SessionOperations(context, replies, registry.named, self, live)
            endpoints.append(self._named)
        if endpoints:
            self._of_endpoints = {
                kind: do for each in endpoints for kind, do in each.handlers().items()
            }

    @property
    def number(self) -> int:
        """Number of the connection in this process."""
        return self._context.number

    @property
    def user(self) -> str:
        """Name of the authenticated user; "" before ``Open``."""
        return self._context.user

    @property
    def vhost(self) -> str:
        """Name of the virtual host; "" before ``Open``."""
        return self._context.vhost

    @property
    def publisher(self) -> bool:
        """Whether the peer has published: publishers are held back during an alarm."""
        return self._context.publisher

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._context.closed

    @property
    def has_pending(self) -> bool:
        """Whether operations wait to be performed: no more should be received meanwhile."""
        waits = self._named is not None and self._named.waiting
        return bool(self._pending or waits) or self._replies.deferred > 0

    # --- performing -----------------------------------------------------------------------------

    def perform(self, operations: list[Operation]) -> None:
        """Perform the operations that the adapter received, in order. Hot: publishes and
        settlements come first.

        A peer that fetches messages faster than it takes them is served at its own pace: the
        operations behind such a fetch wait for ``resume``. Operations for which the time slice of
        the connection does not suffice wait for ``perform_pending``."""
        if self._pending:
            self._pending += operations
            if self._scheduled or not self.adapter.closing:
                return
            operations, self._pending = self._pending, []
        clock = perf_counter
        until = self._slice_end = clock() + self.time_slice
        waiting = self._replies.waiting
        if waiting:
            self._perform_in_order(operations)
            return
        context = self._context
        channels = context.channels
        left = iter(operations)
        for operation in left:
            kind = operation.__class__
            try:
                if kind is Publish:
                    channel = channels.get(operation.channel)  # type: ignore[attr-defined]
                    if channel is not None:
                        channel.publish_path.publish(
                            operation.message,  # type: ignore[attr-defined]
                            operation.mandatory,  # type: ignore[attr-defined]
                            operation.immediate,  # type: ignore[attr-defined]
                        )
                        context.publisher = True
                elif kind is Settle and not operation.multiple:  # type: ignore[attr-defined]
                    channel = channels.get(operation.channel)  # type: ignore[attr-defined]
                    if channel is not None:
                        channel.settlements.settle(
                            operation.delivery,  # type: ignore[attr-defined]
                            False,
                            operation.outcome,  # type: ignore[attr-defined]
                        )
                elif kind is PublishMany or kind is SendMany:
                    channel = channels.get(operation.channel)  # type: ignore[attr-defined]
                    if channel is not None and self._some(channel, operation, until):
                        self._postpone([operation, *left])
                        return
                    if waiting:
                        self._perform_in_order(list(left))
                        return
                else:
                    self._act(operation)
                    if waiting or (kind is Fetch and self._live.paused):
                        rest = list(left)
                        if kind is Fetch and self._live.paused and not self.adapter.closing:
                            self._pending = rest
                        else:
                            self._perform_in_order(rest)
                        return
            except Refusal as refusal:
                self.refuse(operation, refusal)
                if waiting:
                    self._perform_in_order(list(left))
                    return
            if clock() > until:
                self._postpone(list(left))
                return

    def _perform_in_order(self, operations: list[Operation]) -> None:
        """Perform the operations that need not wait for outstanding answers; defer the others."""
        for at, operation in enumerate(operations):
            if self._replies.defer(operation):
                continue
            try:
                if isinstance(operation, PublishMany | SendMany):
                    channel = self.channels.get(operation.channel)
                    if channel and self._some(channel, operation, self._slice_end):
                        self._postpone([operation, *operations[at + 1 :]])
                        return
                else:
                    self._act(operation)
            except Refusal as refusal:
                self.refuse(operation, refusal)
            if operation.__class__ is Fetch and self._live.paused and not self.adapter.closing:
                self._pending = operations[at + 1 :]
                return
            if perf_counter() > self._slice_end:
                self._postpone(operations[at + 1 :])
                return

    def _some(self, channel: Channel, operation: Any, until: float) -> bool:
        """Perform many publishes. True if some are left for another time slice."""
        if operation.__class__ is SendMany and self._handles is not None:
            return self._handles.send_many(channel, operation, until)
        return self._publishes.many(channel, operation, until)

    def _act(self, operation: Any) -> None:
        """Perform one operation. Raises ``Refusal``."""
        kind = operation.__class__
        do = self._of_endpoints.get(kind)
        performer = ON_CHANNEL.get(kind)
        if do is None and performer is None:
            if kind in ON_CONNECTION or self._named is None:
                ON_CONNECTION[kind](self, operation)
            else:
                self._named.on_connection()[kind](operation)
            return
        channel = self.channels.get(operation.channel)
        if channel is None:
            return
        if do is not None:
            do(channel, operation)
        elif performer is not None:
            performer.perform(getattr(self, performer.part), channel, operation)

    def follow(self) -> None:
        """Perform the operations that the adapter has found since it last received."""
        self.perform(self.adapter.found())

    def refuse(self, operation: Any, refusal: Refusal) -> None:
        """Tell the peer that an operation was refused, and end the scope that this costs."""
        if isinstance(refusal, AwaitsUpstream):
            self._retries.wait(operation, refusal)
            return
        number = getattr(operation, "channel", 0)
        if self._publishes.refuses_alone and operation.__class__ is Publish:
            self._publishes.refuse(number, operation.message, refusal)
            return
        if self._links is not None and self._links.late(operation):
            return
        if refusal.lost is not Lost.NOTHING and operation.scope is Lost.LINK:
            refusal.lost = Lost.LINK
            if self._handles is not None:
                self._handles.drop(self.channels[number], operation.link)
        if refusal.lost in (Lost.SESSION, Lost.CONNECTION):
            self._live.drop(number)  # operations behind it on the channel are not performed
        refused = Refused(
            number,
            getattr(operation, "token", None),
            refusal.condition,
            refusal.text,
            refusal.lost,
            refused_message(operation),
        )
        self._replies.send(number, refused)

    # --- pending operations ---------------------------------------------------------------------

    def _postpone(self, operations: list[Operation]) -> None:
        """Keep operations for the next time slice."""
        if operations:
            self._pending = operations + self._pending
            if not self._scheduled:
                self._scheduled = True
                self.on_pending()

    def _on_replies_ready(self) -> None:
        if self._replies.deferred or self._close is not None:
            self.on_pending()

    def perform_pending(self) -> None:
        """Perform operations that waited for answers or for their time slice."""
        self._more_pending = True
        if self._performing_pending:
            return  # an answer was due at once: the call that is running performs the rest
        self._performing_pending = True
        try:
            while self._more_pending:
                self._more_pending = False
                self._perform_pending_once()
        finally:
            self._performing_pending = False
        self._answer_close()

    def _perform_pending_once(self) -> None:
        operations = self._replies.take_deferred()
        pending, self._pending = self._pending, []
        scheduled, self._scheduled = self._scheduled, False
        if operations:
            # They are older than the pending ones.
            self.perform(operations)
        if self._pending or (self._live.paused and not scheduled and not self.adapter.closing):
            self._pending += pending
        elif pending:
            self.perform(pending)

    def pause(self) -> None:
        """The peer's socket is full: no deliveries until ``resume``."""
        self._live.pause()

    def resume(self) -> None:
        """The peer's socket takes octets again."""
        self._live.resume()
        if self._pending and not (self._live.paused or self._scheduled):
            pending, self._pending = self._pending, []
            self.perform(pending)
            self._answer_close()

    # --- connection -----------------------------------------------------------------------------

    def _open(self, operation: Open) -> None:
        self.authenticated = True
        access = self.broker.access
        user = access.user(operation.user)
        if user is not None and user.loopback_only and not self.loopback:
            text = f"user '{operation.user}' may only connect from this machine"
            raise Refusal(Condition.ACCESS_REFUSED, text, Lost.CONNECTION)
        if operation.client:
            self._registry.claim(operation.vhost, operation.user, operation.client, self)
        self.peer = operation.peer
        self._context.user = operation.user
        name = f"{self.address} #{self.number}"
        client = self.broker.attach(operation.vhost, operation.user, name, operation.rules)
        self._live.client = client
        client.origin = {
            "protocol": f"amqp-{self.adapter.version}",
            "client_id": operation.client or self.peer.name,
            "product": self.peer.product,
            "product_version": self.peer.product_version,
            "listener": self.listener,
        }
        self._context.vhost = operation.vhost
        self.opened = True
        self.adapter.send(Done(0, operation.token))
        self._told = self.broker.blocked_in(self.vhost)
        if self._told is not None:
            self.adapter.send(Blocked(self._told))

    def _update_secret(self, operation: UpdateSecret) -> None:
        """Passwords do not expire: like RabbitMQ, accept it unless the user was deleted."""
        if self.broker.access.user(self.user) is None:
            text = f"there is no user '{self.user}' whose secret could be updated"
            raise Refusal(Condition.NOT_ALLOWED, text, Lost.CONNECTION)
        self.adapter.send(Done(0, operation.token))

    def tell_blocked(self) -> None:
        """Tell the peer that publishers are held back, or no longer, if it has not heard."""
        reason = self.broker.blocked_in(self.vhost)
        if reason != self._told and self.opened and not self.closed:
            self._told = reason
            self.adapter.send(Unblocked() if reason is None else Blocked(reason))

    # --- end of the connection ------------------------------------------------------------------

    def close(self, condition: Condition, text: str) -> None:
        """Close the connection from our side, with the close handshake."""
        if not self.closed:
            self.adapter.send(Close(condition, text))

    def _on_closed(self, operation: Closed) -> None:
        if operation.condition is not None:
            self.ending = f"{operation.condition.value}: {operation.text}"
        if self._named is not None and operation.token is None and self._named.lost([]):
            return  # ``finish`` ends it
        if operation.token is None or self.adapter.closing:
            self.end()
        else:
            self._close = operation
            for number, channel in list(self.channels.items()):
                channel.flow(False)
                if channel.much_to_give_back and number not in self._replies.waiting:
                    self._long_requests.end_channel(number, None)
            self._answer_close()

    def _answer_close(self) -> None:
        """Answer the peer's close, or its violation, once nothing else has to be answered."""
        close = self._close
        if close is None or self._pending or self._replies.waiting or self.closed:
            return
        if self._performing_pending:
            return
        self._close = None
        self.peer_closed = not close.fault
        self.adapter.send(Done(0, close.token))
        self.follow()
        self.end()

    def peer_gone(self, operations: list[Operation]) -> None:
        """The socket is closed; these are the last operations. Call ``finish`` until it returns
        false."""
        self._pending += operations
        if self._named is not None:
            self._named.lost(self._pending)

    @property
    def resting(self) -> bool:
        """The peer is gone; sessions that are to be kept wait for answers, then ``on_pending``."""
        return self._named is not None and self._named.resting and not self._pending

    def finish(self) -> bool:
        """Perform the operations of a peer that is gone, for one time slice. True if some are left;
        otherwise the connection has ended."""
        replies, keeping = self._replies, self._named is not None and self._named.resting
        earlier = replies.take_deferred() if keeping else replies.forget_all()
        pending, self._pending = list(one_by_one([*earlier, *self._pending])), []
        until = perf_counter() + self.time_slice
        for at, operation in enumerate(pending):
            if keeping and replies.defer(operation):
                continue
            try:
                self._act(operation)
            except Refusal:
                continue  # the peer is gone
            if perf_counter() > until:
                self._pending = pending[at + 1 :]
                break
        if self._pending or self.resting:
            return True
        self.end()
        return False

    def end(self) -> None:
        """The connection has ended: return its messages and free its names. May be called twice."""
        if self.closed:
            return
        deferred = self._replies.forget_all()
        if deferred or self._pending:
            # They were requested before the end; the peer is gone.
            deferred, self._pending = deferred + self._pending, []
            for operation in one_by_one(deferred):
                try:
                    if operation.__class__ is not KeepSession:  # its answers go nowhere
                        self._act(operation)
                except Refusal:
                    continue
            self._replies.forget_all()
        self._context.closed = True
        self._registry.leave(self.number)
        self._live.close()

    def release(self) -> None:
        """Break the reference cycles of a session that has ended."""
        self.adapter.release()
        self.meter = nothing_metered
        self.on_pending = nothing
        self._replies.release()
        if self._named is not None:
            self._named.release()
        self._pending = []
        self._of_endpoints = NONE
        self._live.release()
        self._retries.close()
        for part in (self._calls, self._consumers, self._long_requests):
            vars(part).clear()
        self._links = self._handles = self._named = None

    # --- channels -------------------------------------------------------------------------------

    def _end(self, operation: EndSession) -> None:
        number = operation.channel
        channel = self.channels.get(number)
        if channel is not None and channel.much_to_give_back:
            self._long_requests.end_channel(number, operation.token)
            return
        self._live.drop(number)
        self._replies.answer(number, operation.token)

    def _on_session_lost(self, operation: SessionLost) -> None:
        """Earlier operations of the channel are performed first. Their answers cannot be sent any
        more, unless the adapter waits for them before it tells why the channel is closed."""
        number, token = operation.channel, operation.token
        if token is None:
            for earlier in self._replies.forget(number):
                try:
                    self._act(earlier)
                except Refusal:
                    break
            self._replies.forget(number)
        self._live.drop(number)
        if token is not None:
            self._replies.send(number, Refused(number, token, operation.condition, operation.text))


ON_CONNECTION: Mapping[type[Operation], Callable[[Session, Any], None]] = {
    Open: Session._open,
    Closed: Session._on_closed,
    UpdateSecret: Session._update_secret,
    BeginSession: lambda session, op: session._live.begin(op),
    EndSession: Session._end,
    SessionLost: Session._on_session_lost,
}
"""Operations on the connection."""
