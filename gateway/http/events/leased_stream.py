"""``ack=explicit``: a stream that competes for the messages of one queue and leases each of them.

Every event has a token, and is settled where all leases are: ``/v1/{vhost}/deliveries/{token}``. A
stream's credit is how many may be unsettled. Messages that were never written go back when the
stream ends; written ones stay leased, because the reader may be settling them right now. There is
no cursor: the queue decides which message comes next.
"""

from collections import deque
from typing import NamedTuple

from gateway.broker.local import LocalChannel, LocalClient
from gateway.errors import Refusal
from gateway.http import problems
from gateway.http.access.principal import Principal
from gateway.http.events.control_events import (
    CloseEvent,
    ControlEvent,
    LockLostEvent,
    SettledEvent,
)
from gateway.http.events.hub import Hub
from gateway.http.events.rendering import control, data_head, data_line
from gateway.http.events.sources import AT_ONCE, SourceName
from gateway.http.events.stream import CHUNK_OCTETS, EventStream, Resume
from gateway.http.events.stream_request import StreamRequest, invalid
from gateway.http.leases import Lease, LeaseState, tally
from gateway.http.message_json import BodyForm, compact
from gateway.http.octets import Octets, concatenated
from gateway.http.prepared_bodies import HEAVY, acquire
from gateway.http.problems import Problem
from gateway.http.redaction import redacted
from gateway.http.typed import moment
from gateway.message import Message, Table
from gateway.operations import Outcome


class Leased(NamedTuple):
    lease: Lease
    token: str


class LeasedStream(EventStream):
    """The stream, the channel's subscriber, and the holder of its unsettled deliveries."""

    def __init__(
        self,
        hub: Hub,
        caller: Principal,
        vhost: str,
        asked: StreamRequest,
        browser: tuple[str, ...],
    ) -> None:
        super().__init__(hub, caller, vhost, asked.options, browser)
        self.leases = hub.leases
        self.name = asked.names[0]
        self.lease_ms = asked.lease_ms
        self.aliases = asked.aliases
        self.alias = asked.aliases.get(self.name)
        self.shown = self.label(self.name)
        self.head = data_head(self.shown)
        self.unwritten: deque[tuple[int, Octets | None]] = deque()
        """Delivery and frame; ``None`` for one that is in ``unrendered``."""
        self.unrendered: dict[int, tuple[bytes, Message, bool]] = {}
        """Head, message and redelivered flag of larger messages, which are rendered when
        written."""
        self.held_leases: dict[int, Leased] = {}
        self.client: LocalClient | None = None
        self.channel: LocalChannel | None = None
        self.tag: str | None = None
        self.counted_for_route = self.counted_for_user = 0
        """Its share in the quota of its route; and in that of its user, besides its leases."""

    def open(self) -> None:
        """Raises ``Refusal`` and ``Problem``."""
        hub = self.hub
        self.need(self.vhost, self.name)
        name = f"HTTP events {self.name}"
        with hub.turn():
            client = self.client = LocalClient(hub.broker, self.vhost, self.user, name)
            try:
                self.channel = client.channel(self)
                self.channel.prefetch(self.options.credit, hub.settings.receive_octets)
                self.tag = self.channel.subscribe(self.name.name, permitted=True)
            except Refusal:
                client.close()
                raise
        self.announce(
            Resume.fresh,
            ack="explicit",
            credit=self.options.credit,
            sources=[{"source": self.shown, "resume": Resume.fresh.name}],
        )
        hub.enter(self, self.vhost, [], returning=False)
        self.update_quotas()
        with hub.turn():
            self.channel.start(self.tag)

    def names(self) -> list[SourceName]:
        return [self.name]

    # --- output ---------------------------------------------------------------------------------

    def take(self) -> Octets:
        pending, self.pending = self.pending, []
        octets = 0
        while self.unwritten and not self.finished and octets < CHUNK_OCTETS:
            delivery, frame = self.unwritten[0]
            if frame is None:
                if octets and len(self.unrendered[delivery][1].body) > HEAVY:
                    break  # its body is not ready yet
                frame = self.render(*self.unrendered.pop(delivery))
            self.unwritten.popleft()
            octets += len(frame)
            pending.append(frame)
        return concatenated(*pending)

    def more(self) -> bool:
        return bool(self.pending or self.unwritten)

    def tick(self, now: float, wall: float) -> None:
        super().tick(now, wall)
        if self.client is not None and self.client.closed and not self.finished:
            self.end(CloseEvent(reason="the virtual host was deleted", reconnect=False))
        try:
            self.need(self.vhost, self.name)
        except Problem:
            text = "the permission to read was withdrawn"
            self.end(CloseEvent(reason=text, reconnect=False))

    def part(self) -> None:
        """Within a turn."""
        channel = self.channel
        if channel is None or self.tag is None:
            return
        tag, self.tag = self.tag, None
        channel.unsubscribe(tag)
        while self.unwritten:
            delivery, _ = self.unwritten.popleft()
            self.unrendered.pop(delivery, None)
            leased = self.held_leases.get(delivery)
            if leased is not None:
                self.leases.settle(leased.lease, LeaseState.LOST, Outcome.RELEASE, None)
        self.update_quotas()
        self.close_channel()

    def update_quotas(self) -> None:
        """As long as it goes on its whole credit counts, taken or not; then what is still leased.
        So no quota is ever exceeded, and nothing that was begun is refused."""
        held = len(self.held_leases)
        counts = held if self.tag is None else self.options.credit
        leases, owner = self.leases, self.caller.identity
        tally(leases.per_owner, owner, counts - held - self.counted_for_user)
        self.counted_for_user = counts - held
        if self.alias is not None:
            place = (self.vhost, self.alias.route.name)
            tally(leases.per_route, place, counts - self.counted_for_route)
            self.counted_for_route = counts

    def close_channel(self) -> None:
        """When the stream has ended and nothing is unsettled any more."""
        if self.tag is None and not self.held_leases and self.client is not None:
            self.client.close()

    # --- holder ---------------------------------------------------------------------------------

    def held(self, delivery: int) -> Message | None:
        return None if self.channel is None else self.channel.unsettled(delivery)

    def undeliverable_here(self, delivery: int) -> Outcome | None:
        """The dead letters, or the queue for other consumers: this stream has one of its own, which
        is not given the message again."""
        if self.channel is not None:
            self.channel.check_declinable(delivery)
        return Outcome.DECLINE

    def settle(self, delivery: int, outcome: Outcome, notes: Table | None) -> None:
        leased = self.held_leases.pop(delivery, None)
        if self.channel is not None:
            self.channel.settle(delivery, outcome, notes)
        if leased is not None and self.tag is not None:
            state = leased.lease.state
            told: ControlEvent = LockLostEvent(token=leased.token)
            if state.settled:
                told = SettledEvent(token=leased.token, outcome=state.value)
            self.pending.append(control(told))
            self.wake()
        self.update_quotas()
        self.close_channel()

    # --- subscriber -----------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        assert self.channel is not None
        count = self.channel.delivery_count(delivery) + 1
        route = "" if self.alias is None else self.alias.route.name
        owner, queue = self.caller.identity, self.name.name
        lease = Lease(
            self.leases, self, self.vhost, queue, owner, delivery, count, self.lease_ms, route
        )
        self.leases.grant(lease)
        token = self.leases.token(lease)
        self.held_leases[delivery] = Leased(lease, token)
        self.update_quotas()
        lock = {"token": token, "until": moment(lease.until), "delivery_count": count}
        head = self.head + b',"lock":' + compact(lock)
        if self.alias is not None:
            message = redacted(message)
        if len(message.body) > AT_ONCE:
            self.unrendered[delivery] = head, message, redelivered
            self.unwritten.append((delivery, None))
        else:
            self.unwritten.append((delivery, self.render(head, message, redelivered)))
        self.wake()

    def render(self, head: bytes, message: Message, redelivered: bool) -> Octets:
        return data_line(head, message, redelivered, way=self.alias is None)

    @property
    def has_heavy(self) -> bool:
        return bool(self.unrendered)

    async def prepare(self) -> list[BodyForm | None]:
        if not self.unwritten or self.unwritten[0][1] is not None:
            return []
        _, message, _ = self.unrendered[self.unwritten[0][0]]
        return [await acquire(message, "json")]

    def cancelled(self, tag: str) -> None:
        self.tag = None
        self.update_quotas()
        self.end(CloseEvent(reason="it was deleted", source=self.shown, reconnect=False))


def open_leased(
    hub: Hub, vhost: str, caller: Principal, asked: StreamRequest, browser: tuple[str, ...] = ()
) -> LeasedStream:
    """Raises ``Problem`` and ``Refusal``."""
    leases = hub.leases
    if not asked.options.spec.plain:
        raise invalid(
            "ack=explicit takes no filter, selector, format or event: filtered messages would wait"
        )
    hub.admit(caller.user, vhost, asked.aliases.values())
    left = hub.settings.max_leases_per_user - leases.per_owner[caller.identity]
    if left < asked.options.credit:
        raise Problem(problems.QUOTA, f"{left} more deliveries can be leased by this user")
    for alias in asked.aliases.values():
        most = alias.route.quota.leases
        taken = leases.per_route[vhost, alias.route.name]
        if most is not None and taken + asked.options.credit > most:
            text = f"{most - taken} more deliveries can be leased by the route {alias.route.name!r}"
            raise Problem(problems.QUOTA, text, quota="leases")
    stream = LeasedStream(hub, caller, vhost, asked, browser)
    stream.open()
    return stream
