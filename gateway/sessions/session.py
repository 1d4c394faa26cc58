"""One connected peer: carries its operations to a virtual host and brings the answers back.

Requests that change durable topology are answered when the store has them; ``Replies`` keeps the
order of the answers.
"""

import math
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, cast

from gateway.adapters.contract import Adapter, Capability, release
from gateway.broker.broker import Broker
from gateway.broker.channel import Channel, nothing
from gateway.broker.client import Client
from gateway.errors import Condition, LocalError, Lost, Refusal
from gateway.operations import (
    BeginSession,
    Blocked,
    Cancelled,
    Close,
    Closed,
    Done,
    EndSession,
    EnterRealm,
    Fetch,
    Open,
    Operation,
    Peer,
    Publish,
    Refused,
    SessionLost,
    Settle,
    Synchronize,
    Unblocked,
    Unsent,
    UpdateSecret,
)
from gateway.sessions.channel_calls import PLAIN, TOPOLOGY
from gateway.sessions.consumers import ConsumerOperations
from gateway.sessions.handles import HandleOperations
from gateway.sessions.link_operations import LinkOperations
from gateway.sessions.links import Link
from gateway.sessions.long_requests import LongRequests
from gateway.sessions.recipient import ChannelRecipient
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.replies import Replies


def nothing_metered() -> tuple[int, int]:
    """Octets of a connection whose owner does not count them, or is gone."""
    return 0, 0


def nothing_again() -> None:
    """There is nothing that could go on."""


class Session:
    """Operations of one adapter (server role) performed on one broker.

    ``loopback`` tells whether the peer is on this machine: some users may only come from there.
    ``publisher`` turns true with the first publish; the owner of the socket looks at it to know
    whom to hold back.
    """

    def __init__(
        self,
        broker: Broker,
        adapter: Adapter,
        registry: SessionRegistry,
        *,
        address: str,
        loopback: bool,
        since: float,
    ) -> None:
        self.broker = broker
        self.adapter = adapter
        self.address = address
        self.local = ""
        """Address of ours that the peer came to; set by the owner of the socket."""
        self.loopback = loopback
        self.since = since
        self.peer = Peer()
        self.user = ""
        self.vhost = ""
        self.publisher = False
        self.ending = ""
        """Why it ended, unless normally; for the log."""
        self.authenticated = False
        self.opened = False
        self.closed = False
        self.channels: dict[int, Channel] = {}
        self._client: Client | None = None
        self._replies = Replies(broker, self._ready)
        self.again: Callable[[], None] = self.go_on
        """Called when ``go_on`` has something to do; the owner of the socket may do it later."""
        self.parted = False
        """The peer has asked for the end and was answered."""
        self._parting: Closed | None = None
        """The peer has asked for the end or broken a rule, and is answered behind all else."""
        self._notices: list[Cancelled] | None = None
        """Gathers what a request brings about besides its answer, while it is performed."""
        self._paused = False
        self._rest: list[Operation] = []
        """Received, and not yet performed."""
        self.share = math.inf
        """Seconds for which operations are performed at once; the rest waits for ``go_on``. Set by
        the owner of the socket, so that no connection holds up the others."""
        self._until = math.inf
        self._resting = False
        """The rest waits for ``go_on``, which was asked for; else for ``resume``."""
        self._going_on = self._more = False
        """``go_on`` is at work, and was asked for meanwhile."""
        self._linking: LinkOperations | None = None
        self.meter: Callable[[], tuple[int, int]] = nothing_metered
        """Octets in and out; set by the owner of the socket."""
        self.registry = registry
        self.number = registry.enter(self)
        self._handling = HandleOperations(self)
        self.consuming = ConsumerOperations(self)
        self.portions = LongRequests(self, self._replies)
        self._on_connection: dict[type[Operation], Callable[[Any], None]] = {
            Open: self._open,
            Closed: self._on_closed,
            UpdateSecret: self._update_secret,
            BeginSession: self._begin,
            EndSession: self._end,
            SessionLost: self._on_session_lost,
        }
        self._on_channel: dict[type[Operation], Callable[[Channel, Any], None]] = {
            **dict.fromkeys(PLAIN, self._plain),
            **self.portions.handlers,
            **dict.fromkeys(TOPOLOGY, self._topology),
            **self.consuming.handlers,
            EnterRealm: self._enter_realm,
            Unsent: lambda channel, op: channel.settlements.unsent(
                op.consumer, op.delivery, op.message, op.queue
            ),
            Synchronize: self._synchronize,
            Publish: self._publish,
        }
        if Capability.LINKS in adapter.capabilities:
            self._linking = LinkOperations(self)
            self._on_channel.update(self._linking.handlers)
            self._on_channel.update(self._handling.handlers)

    # --- the loop -------------------------------------------------------------------------------

    def perform(self, operations: list[Operation]) -> None:
        """Act on what the adapter received, in order. Hot: publishes and settlements first.

        A peer that asks for messages faster than it takes them is served at its own pace: what
        follows such a request waits for ``resume``. What takes longer than the share of time of a
        connection goes on in ``go_on``."""
        if self._rest:
            self._rest += operations
            if self._resting or not self.adapter.closing:
                return
            operations, self._rest = self._rest, []
        clock = perf_counter
        until = self._until = clock() + self.share
        waiting = self._replies.lines
        if waiting:
            self._perform_in_order(operations)
            return
        channels = self.channels
        for operation in operations:
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
                        self.publisher = True
                elif kind is Settle and not operation.multiple:  # type: ignore[attr-defined]
                    channel = channels.get(operation.channel)  # type: ignore[attr-defined]
                    if channel is not None:
                        channel.settlements.settle(
                            operation.delivery,  # type: ignore[attr-defined]
                            False,
                            operation.outcome,  # type: ignore[attr-defined]
                        )
                else:
                    self._act(operation)
                    if waiting or (self._paused and kind is Fetch):
                        at = next(i for i, o in enumerate(operations) if o is operation)
                        rest = operations[at + 1 :]
                        if self._paused and kind is Fetch and not self.adapter.closing:
                            self._rest = rest
                        else:
                            self._perform_in_order(rest)
                        return
            except Refusal as refusal:
                self.refuse(operation, refusal)
            if clock() > until:
                at = next(i for i, o in enumerate(operations) if o is operation)
                self._put_off(operations[at + 1 :])
                return

    def _put_off(self, operations: list[Operation]) -> None:
        """The share of time is used up."""
        if operations:
            self._rest = operations + self._rest
            if not self._resting:
                self._resting = True
                self.again()

    def _perform_in_order(self, operations: list[Operation]) -> None:
        """Act on what does not have to wait for answers that are outstanding."""
        for at, operation in enumerate(operations):
            if self._replies.defer(operation, self.channels):
                continue
            try:
                self._act(operation)
            except Refusal as refusal:
                self.refuse(operation, refusal)
            if self._paused and operation.__class__ is Fetch and not self.adapter.closing:
                self._rest = operations[at + 1 :]
                return
            if perf_counter() > self._until:
                self._put_off(operations[at + 1 :])
                return

    def _act(self, operation: Any) -> None:
        """Perform one operation. Raises ``Refusal``."""
        kind = operation.__class__
        do = self._on_channel.get(kind)
        if do is None:
            self._on_connection[kind](operation)
            return
        channel = self.channels.get(operation.channel)
        if channel is not None:
            do(channel, operation)

    def _publish(self, channel: Channel, operation: Publish) -> None:
        channel.publish_path.publish(operation.message, operation.mandatory, operation.immediate)
        self.publisher = True

    def _ready(self) -> None:
        if self._replies.deferred or self._parting is not None:
            self.again()

    def go_on(self) -> None:
        """Perform what had to wait for answers that have been given by now, or for its turn."""
        self._more = True
        if self._going_on:
            return  # an answer was due at once: the call that is at work sees to it
        self._going_on = True
        try:
            while self._more:
                self._more = False
                self._perform_waiting()
        finally:
            self._going_on = False
        self._part()

    def _perform_waiting(self) -> None:
        operations = self._replies.take()
        rest, self._rest = self._rest, []
        resting, self._resting = self._resting, False
        if operations:
            # They are older than the rest.
            self.perform(operations)
        if self._rest or (self._paused and not resting and not self.adapter.closing):
            self._rest += rest
        elif rest:
            self.perform(rest)

    def refuse(self, operation: Any, refusal: Refusal) -> None:
        number = getattr(operation, "channel", 0)
        if self._linking is not None and operation.__class__ is Publish:
            # With links, a message that is refused costs the message only.
            channel = self.channels[number]
            channel.recipient.returned(operation.message, refusal.condition, refusal.text)
            channel.publish_path.publish_refused()
            return
        if self._linking is not None and self._linking.late(operation):
            return
        if refusal.lost is not Lost.NOTHING and operation.scope is Lost.LINK:
            refusal.lost = Lost.LINK
            self._handling.drop(self.channels[number], operation.link)
        if refusal.lost in (Lost.SESSION, Lost.CONNECTION):
            self.drop(number)  # nothing that was asked behind it is done
        refused = Refused(
            number,
            getattr(operation, "token", None),
            refusal.condition,
            refusal.text,
            refusal.lost,
        )
        self.say(number, refused)

    # --- answers --------------------------------------------------------------------------------

    def say(self, number: int, operation: Operation, octets: int = 0) -> None:
        """Tell the peer, behind whatever this channel is still waiting for."""
        self._replies.in_order(number, partial(self.adapter.send, operation), octets)

    def answer(
        self, number: int, token: Any, result: Any = None, then: Callable[[], None] | None = None
    ) -> None:
        """Say ``Done`` behind whatever this channel is still waiting for, and do ``then``."""
        if token is not None or then is not None:
            self._replies.in_order(number, partial(self._done, number, token, result, then))

    def answer_when_safe(
        self,
        number: int,
        token: Any,
        result: Any = None,
        then: Callable[[], None] | None = None,
        *,
        holds: bool = True,
    ) -> None:
        """Likewise, as soon as the store has everything that was asked so far. ``holds``: what is
        asked later may have to wait for this answer."""
        say = partial(self._done, number, token, result, then)
        self._replies.when_safe(number, say, holds)

    def _done(self, number: int, token: Any, result: Any, then: Callable[[], None] | None) -> None:
        if token is not None:
            self.adapter.send(Done(number, token, result))
        if then is not None:
            then()

    # --- connection -----------------------------------------------------------------------------

    def _open(self, operation: Open) -> None:
        self.authenticated = True
        access = self.broker.access
        user = access.user(operation.user)
        if user is not None and user.loopback_only and not self.loopback:
            raise Refusal(
                Condition.ACCESS_REFUSED,
                f"user '{operation.user}' may only connect from this machine",
                Lost.CONNECTION,
            )
        if operation.client:
            self.registry.claim(operation.vhost, operation.user, operation.client, self)
        self.peer = operation.peer
        self.user = operation.user
        name = f"{self.address} #{self.number}"
        self._client = self.broker.attach(operation.vhost, operation.user, name, operation.rules)
        self.vhost = operation.vhost
        self.opened = True
        self.adapter.send(Done(0, operation.token))
        if self.broker.blocked is not None:
            self.adapter.send(Blocked(self.broker.blocked))

    def _update_secret(self, operation: UpdateSecret) -> None:
        """Passwords do not expire: there is nothing to renew, and RabbitMQ accepts the word too.
        Only a user that does not exist any more is refused."""
        if self.broker.access.user(self.user) is None:
            text = f"there is no user '{self.user}' whose secret could be updated"
            raise Refusal(Condition.NOT_ALLOWED, text, Lost.CONNECTION)
        self.adapter.send(Done(0, operation.token))

    def _on_closed(self, operation: Closed) -> None:
        if operation.condition is not None:
            self.ending = f"{operation.condition.value}: {operation.text}"
        if operation.token is None or self.adapter.closing:
            self.end()
        else:
            self._parting = operation
            for number, channel in list(self.channels.items()):
                channel.flow(False)
                if channel.much_to_give_back and number not in self._replies.lines:
                    self.portions.give_back(number, None)
            self._part()

    def _part(self) -> None:
        """Answer the peer that wants to leave, or has to, unless other answers come first."""
        parting = self._parting
        if parting is None or self._rest or self._replies.lines or self.closed or self._going_on:
            return
        self._parting = None
        self.parted = not parting.fault
        self.adapter.send(Done(0, parting.token))
        self.follow()
        self.end()

    def leave(self, operations: list[Operation]) -> None:
        """The peer is gone; these are the last operations. Call ``leaving`` until it says no."""
        self._rest += operations

    def leaving(self) -> bool:
        """Perform what the peer asked for before it left, for the share of time of a connection.
        Whether some of it is left; if not, the connection has ended."""
        rest, self._rest = [*self._replies.forget_all(), *self._rest], []
        until = perf_counter() + self.share
        for at, operation in enumerate(rest):
            try:
                self._act(operation)
            except Refusal:
                continue  # nobody will hear of it
            if perf_counter() > until:
                self._rest = rest[at + 1 :]
                break
        if self._rest:
            return True
        self.end()
        return False

    def end(self) -> None:
        """The connection is over: give back what it held. May be called twice."""
        if self.closed:
            return
        deferred = self._replies.forget_all()
        if deferred or self._rest:
            # It was asked before the end; nobody will hear the answers.
            deferred, self._rest = deferred + self._rest, []
            for operation in deferred:
                try:
                    self._act(operation)
                except Refusal:
                    continue
            self._replies.forget_all()
        self.closed = True
        self.registry.leave(self.number)
        if self._linking is not None:
            self._linking.closed()
        self._handling.closed()
        channels = list(self.channels.values())
        for channel in channels:
            self.registry.realms.leave(channel)
        self.channels.clear()
        if self._client is not None:
            self._client.close()
        for channel in channels:
            cast(ChannelRecipient, channel.recipient).part()

    def release(self) -> None:
        """It has ended and nobody performs with it any more. Its parts know it and it them: let
        go, so that a connection leaves nothing for the garbage collector, which looks seldom."""
        release(self.adapter)
        self.meter = nothing_metered
        self.again = nothing_again
        self._replies = Replies(self.broker, nothing_again)
        vars(self.portions).clear()
        self._rest = []
        self._on_connection.clear()
        self._on_channel.clear()
        vars(self._handling).clear()
        vars(self.consuming).clear()
        if self._linking is not None:
            self._linking.handlers.clear()
            self._linking = None

    def close(self, condition: Condition, text: str) -> None:
        """End the connection from our side, politely."""
        if not self.closed:
            self.adapter.send(Close(condition, text))

    def block(self, reason: str | None) -> None:
        """Tell the peer that publishers are held back (a reason) or may go on (``None``)."""
        if self.opened and not self.closed:
            self.adapter.send(Unblocked() if reason is None else Blocked(reason))

    def stolen(self, link: Link) -> None:
        """Another connection has attached by the name of a link of ours."""
        if self._linking is not None:
            self._linking.stolen(link)

    @property
    def behind(self) -> bool:
        """Whether operations wait to be performed: more should not be received meanwhile."""
        return bool(self._rest) or self._replies.deferred > 0

    def pause(self) -> None:
        """The peer's socket is full: no deliveries until ``resume``."""
        self._paused = True
        for channel in self.channels.values():
            channel.pause()

    def resume(self) -> None:
        self._paused = False
        for channel in list(self.channels.values()):
            channel.resume()
        if self._rest and not (self._paused or self._resting):
            rest, self._rest = self._rest, []
            self.perform(rest)
            self._part()

    # --- channels -------------------------------------------------------------------------------

    def _begin(self, operation: BeginSession) -> None:
        number = operation.channel
        if self.adapter.closing or self._client is None:
            # Asked for in the same read in which the connection was refused, or was lost by a
            # mistake.
            return
        try:
            recipient = ChannelRecipient(self, number)
        except LocalError:
            return  # it was put off, and has been lost by a mistake meanwhile
        channel = self._client.channel(number, recipient)
        recipient.join(channel)
        if self._paused:
            channel.pause()
        self.channels[number] = channel
        channel.settlements.counts_rejected = Capability.LINKS in self.adapter.capabilities
        if operation.transacted:
            channel.transactions.select()
        self.answer(number, operation.token)

    def drop(self, number: int, then: Callable[[], None] = nothing) -> None:
        """``then`` is called when what the channel held has gone back."""
        channel = self.channels.get(number)
        if channel is not None:
            self._handling.ended(number)
            del self.channels[number]
            if self._linking is not None:
                self._linking.ended(number)
            self.registry.realms.leave(channel)
            channel.close(then)
            cast(ChannelRecipient, channel.recipient).part()

    def _end(self, operation: EndSession) -> None:
        number = operation.channel
        channel = self.channels.get(number)
        if channel is not None and channel.much_to_give_back:
            self.portions.give_back(number, operation.token)
        else:
            self.drop(number)
            self.answer(number, operation.token)

    def _on_session_lost(self, operation: SessionLost) -> None:
        """What was asked on it before is done first; answers that wait can not be given any more,
        unless the adapter waits for them before it says why the channel is closed."""
        number, token = operation.channel, operation.token
        if token is None:
            for earlier in self._replies.forget(number):
                try:
                    self._act(earlier)
                except Refusal:
                    break
            self._replies.forget(number)
        self.drop(number)
        if token is not None:
            self.say(number, Refused(number, token, operation.condition, operation.text))

    def _plain(self, channel: Channel, operation: Any) -> None:
        PLAIN[operation.__class__](channel, operation)
        self.answer(operation.channel, operation.token)

    def _topology(self, channel: Channel, operation: Any) -> None:
        notices: list[Cancelled] = []
        self._notices = notices
        try:
            result = TOPOLOGY[operation.__class__](channel, operation)
        finally:
            self._notices = None
        if self.broker.topology_alone_is_safe:
            self.answer(operation.channel, operation.token, result)
        else:
            self.answer_when_safe(operation.channel, operation.token, result)
        for notice in notices:
            self.notify(notice)

    def notify(self, notice: Cancelled) -> None:
        """Tell the peer what it did not ask for, but not between its request and the answer."""
        if self._notices is not None:
            self._notices.append(notice)
        elif not self.closed and notice.channel in self.channels:
            self.say(notice.channel, notice)

    def _enter_realm(self, channel: Channel, operation: EnterRealm) -> None:
        self.registry.realms.enter(channel, operation.name, operation.exclusive)
        self.answer(operation.channel, operation.token)

    def follow(self) -> None:
        """Perform what the adapter asks because of what it was just told."""
        self.perform(self.adapter.found())

    def _synchronize(self, channel: Channel, operation: Synchronize) -> None:
        self.answer_when_safe(operation.channel, operation.token, holds=False)
