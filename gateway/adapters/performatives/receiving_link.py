"""Links over which we receive: their credit, the reassembly of transfers, unsettled deliveries.

A message of one transfer is not copied. Messages of several transfers are limited by
``max_message`` and, over the whole connection, by ``UNDER_WAY`` times that. A large message goes to
the spool as it arrives, if the handler of the link accepts spooled messages (``spools``).
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.adapters.performatives.decoding import FieldError
from gateway.adapters.performatives.deliveries import IncomingDelivery, UnsettledDeliveries
from gateway.adapters.performatives.large_messages import (
    IN_MEMORY,
    NotStored,
    SpooledMessage,
    Unpacking,
    unpack,
)
from gateway.adapters.performatives.links import (
    MASK,
    Link,
    LinkHandler,
    LinkSession,
    ahead,
)
from gateway.adapters.performatives.outcomes import TERMINAL, is_transactional
from gateway.adapters.performatives.transfer_template import Run
from gateway.adapters.performatives.violation import Violation
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import (
    DELIVERY_TAG_MAX,
    MESSAGE_FORMAT,
    AmqpError,
    LinkError,
    ReceiverSettleMode,
    SenderSettleMode,
)
from gateway.bodies import Pieces
from gateway.operations import Operation

UNLIKE = (SenderSettleMode.SETTLED, SenderSettleMode.UNSETTLED)
"""The mode of a link over which no unsettled, and no settled delivery may come."""

UNDER_WAY = 4
"""How many of the largest messages one connection may have partly received, over all its links."""


@dataclass(slots=True, eq=False)
class PartialDelivery:
    """A delivery of which transfers are still to come. ``ignored``: its octets are discarded.
    ``held``: its octets in memory; the others are in ``unpacking``, unless it has an ``error``."""

    arrival: IncomingDelivery
    format: int
    presettled: bool
    ignored: bool
    pieces: Pieces = field(default_factory=Pieces)
    size: int = 0
    held: int = 0
    unpacking: Unpacking | None = None
    error: Exception | None = None
    spool_attempted: bool = False


class ReceivingSession(LinkSession, Protocol):
    """A session as receiving links need it."""

    incoming_window: int
    next_incoming_id: int
    remote_outgoing_window: int

    @property
    def unsettled(self) -> UnsettledDeliveries: ...

    def renew_window(self) -> None:
        """Let more transfers come, if half of the incoming window is used."""
        ...

    def violated(self, symbol: str, text: str) -> Violation:
        """A mistake of the peer that costs the session."""
        ...

    def errant(self, link: Link) -> Violation:
        """A mistake of the peer: input for a link that was detached with an error."""
        ...


class ReceivingLink(Link):
    """One link over which we receive."""

    session: ReceivingSession

    __slots__ = (
        "window", "ignores_unsettled", "slack", "spools", "known", "partial", "messages", "octets",
        "settled",
    )  # fmt: skip

    receiver = True

    def __init__(
        self, session: ReceivingSession, name: str, handle: int, handler: LinkHandler
    ) -> None:
        super().__init__(session, name, handle, handler)
        self.window = 0
        """Deliveries the peer may have under way and unsettled: credit is topped up to that. 0:
        credit is granted by hand (``grant``)."""
        self.ignores_unsettled = False
        """Unsettled deliveries do not count against ``window``."""
        self.slack = 0
        """Deliveries beyond its credit that are borne."""
        self.spools = False
        """Large messages may come as ``SpooledMessage``."""
        self.known: dict[bytes, Any] = {}
        """Our states of deliveries from before the link was resumed, by tag."""
        self.partial: PartialDelivery | None = None
        self.messages = self.octets = 0
        """Messages, and their octets, since credit was granted."""
        self.settled = False
        """The last of them came settled."""

    def take(self, record: w.Attach) -> None:
        self.count = record.initial_delivery_count or 0  # Azure's clients leave it out

    def open(self) -> None:
        self.top_up()

    def stop(self) -> None:
        self._drop_partial()
        self.window = 0

    # --- credit ---------------------------------------------------------------------------------

    def grant(self, credit: int, drain: bool = False) -> None:
        """Let this many more come, counted from now. ``drain``: those that are there, at once."""
        self.credit, self.drain = credit, drain
        if drain:
            self.session.connection.drains[self] = 0.0
        self.session.write_flow(self)

    @property
    def draining(self) -> bool:
        """The peer was asked to drain, and has not answered."""
        return self.drain and self.credit > 0 and not (self.over or self.session.output_closed)

    def top_up(self) -> None:
        """Credit again, when half of the window is free; not while publishers are held back."""
        window = self.window
        if (
            not window
            or self.credit > window >> 1
            or self.over
            or not self.attach_sent
            or not self.attach_received
        ):
            return
        if self.session.connection.blocked:
            return
        window = self.window = self.handler.window(self)
        free = window if self.ignores_unsettled else window - len(self.unsettled)
        more = free - self.credit
        if more >= (window + 1) >> 1 or (self.credit <= 0 and more > 0):
            self.credit = free
            self.messages = self.octets = 0
            self.session.write_flow(self)

    def on_flow(self, record: w.Flow, found: list[Operation]) -> None:
        """The sender's count moves when it drops credit (§2.6.7)."""
        if record.delivery_count is not None:
            dropped = ahead(record.delivery_count, self.count)
            if dropped > 0:
                self.count = record.delivery_count
                self.credit = max(0, self.credit - dropped)
        self.handler.on_credit(self, record, found)
        if self.credit <= 0:
            self.drain = False
        self.top_up()

    # --- transfers ------------------------------------------------------------------------------

    def on_transfer(
        self, record: w.Transfer, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """Hot: most are whole messages in one transfer."""
        if (
            self.partial is None
            and record.delivery_id is not None
            and not record.more
            and self.credit > 0
            and record.rcv_settle_mode is None
            and not record.aborted
            and not record.resume
            and not record.message_format
            and (self.max_message == 0 or end - at <= self.max_message)
            and not self.over
            and not self.incomplete
        ):
            arrival = self._arrival(record)
            settled = bool(record.settled)
            if not settled:
                self._enter(arrival)
                if self.snd_mode == SenderSettleMode.SETTLED:
                    raise self._unlike_mode(settled)
            elif self.snd_mode == SenderSettleMode.UNSETTLED:
                raise self._unlike_mode(settled)
            self.credit -= 1
            self.count = self.count + 1 & MASK
            self.messages += 1
            self.octets += end - at
            self.settled = settled
            self.handler.on_whole(arrival, buf, at, end, found)
            if self.credit <= self.window >> 1:
                self.top_up()
            return
        if self.over:
            self._discard(record)
            return
        partial = self.partial
        if partial is None:
            partial = self._begin(record)
        else:
            self._continue(partial, record)
        if record.aborted:
            self._abort(partial)
            return
        self._gather(partial, buf[at:end])
        if not record.more:
            self._complete(partial, found)
        elif self.spools and not partial.spool_attempted:
            self._spool(partial)

    def room(self, settled: bool) -> tuple[int, int]:
        """How many whole messages may come in a run, and the octets of the largest. None, if each
        has to be looked at."""
        session = self.session
        if (
            self.partial is not None
            or self.over
            or session.output_closed
            or self.incomplete
            or self.snd_mode
            == (SenderSettleMode.UNSETTLED if settled else SenderSettleMode.SETTLED)
        ):
            return 0, 0
        return min(self.credit, session.incoming_window), self.max_message or MASK

    def on_run(self, run: Run, settled: bool, buf: bytes, found: list[Operation]) -> int:
        """Whole messages that came as one before, for which there is room. How many of them are
        taken; the next one has to be looked at. Hot: ``Session.on_transfer`` and ``on_transfer``
        for many."""
        session, handler = self.session, self.handler
        received = session.unsettled.received
        first, tags, spans = run
        count = len(spans)
        if received and not settled:
            ids = range(first, first + count)
            if not received.keys().isdisjoint(ids):
                count = next(n for n, number in enumerate(ids) if number in received)
                del spans[count:]
        second = self.rcv_mode == ReceiverSettleMode.SECOND
        taken = 0
        while taken < count:
            before = taken
            if settled or not second:
                taken = handler.on_run(self, run, settled, taken, buf, found)
            one_by_one = taken < count
            if one_by_one:
                arrival = IncomingDelivery(self, first + taken, tags[taken], settled, second, None)
                if not settled:
                    self._enter(arrival)
                taken += 1
            used = taken - before
            session.incoming_window -= used
            session.next_incoming_id = session.next_incoming_id + used & MASK
            session.remote_outgoing_window -= used
            self.credit -= used
            self.count = self.count + used & MASK
            self.messages += used
            self.octets += spans[taken - 1][1] - spans[before][0]
            if one_by_one:
                start, stop = spans[taken - 1]
                try:
                    handler.on_whole(arrival, buf, start, stop, found)
                except Violation as violated:
                    self.on_violation(violated, found)
                if self.over or session.output_closed:
                    break
        left, self.settled = self.credit, settled
        if left <= self.window >> 1:
            self.top_up()
            if settled and self.credit > left:
                session.connection.write_now()  # the sender goes on while these are published
        session.renew_window()
        return taken

    def _arrival(self, record: w.Transfer) -> IncomingDelivery:
        """The delivery that a first transfer begins (§2.7.5)."""
        tag, number = record.delivery_tag, record.delivery_id
        if tag is None or number is None:
            raise self.violated(AmqpError.INVALID_FIELD, "a delivery without its id and its tag")
        if len(tag) > DELIVERY_TAG_MAX:
            text = f"a delivery-tag of {len(tag)} octets, {DELIVERY_TAG_MAX} are the most"
            raise self.violated(AmqpError.INVALID_FIELD, text)
        mode = record.rcv_settle_mode
        if mode is None:
            mode = self.rcv_mode
        elif mode > self.rcv_mode and not record.settled:
            raise self.violated(
                AmqpError.INVALID_FIELD, "rcv-settle-mode second on a link of mode first"
            )
        return IncomingDelivery(
            self,
            number,
            tag,
            bool(record.settled),
            mode == ReceiverSettleMode.SECOND,
            record.state,
        )

    def _enter(self, arrival: IncomingDelivery) -> None:
        """It is unsettled from now on."""
        if arrival.id in self.session.unsettled.received:
            raise self.session.violated(
                AmqpError.NOT_ALLOWED, f"delivery-id {arrival.id} is unsettled already"
            )
        self.unsettled[arrival.id] = arrival
        self.session.unsettled.received[arrival.id] = arrival

    def _unlike_mode(self, settled: bool) -> Exception:
        mode = "settled" if settled else "unsettled"
        return self.violated(
            AmqpError.INVALID_FIELD, f"a delivery sent {mode}, against the link's snd-settle-mode"
        )

    def _begin(self, record: w.Transfer) -> PartialDelivery:
        """The first transfer of a delivery; takes credit."""
        if self.credit + self.slack <= 0:
            raise self.violated(LinkError.TRANSFER_LIMIT_EXCEEDED, "a delivery without credit")
        resume = bool(record.resume)
        if self.incomplete and not resume:
            text = "a new delivery, although the unsettled maps are incomplete"
            raise self.violated(AmqpError.NOT_ALLOWED, text)
        arrival = self._arrival(record)
        self.credit -= 1
        self.count = self.count + 1 & MASK
        # One that we do not know is ignored (§2.7.5 resume); of others we know the outcome.
        if not resume and not arrival.settled:
            self._enter(arrival)
        partial = self.partial = PartialDelivery(
            arrival, record.message_format or MESSAGE_FORMAT, arrival.settled, resume
        )
        return partial

    def _continue(self, partial: PartialDelivery, record: w.Transfer) -> None:
        """A later transfer of a delivery: fields that it repeats must be the same (§2.7.5)."""
        arrival = partial.arrival
        for name, given, begun in (
            ("delivery-id", record.delivery_id, arrival.id),
            ("delivery-tag", record.delivery_tag, arrival.tag),
            ("message-format", record.message_format, partial.format),
        ):
            if given is not None and given != begun:
                text = f"{name} differs from that of the first transfer"
                raise self.violated(AmqpError.INVALID_FIELD, text)
        if record.settled:
            partial.presettled = True
        state = record.state
        if state is not None:
            before = arrival.state
            if (
                is_transactional(before)
                and is_transactional(state)
                and before.txn_id != state.txn_id
            ):
                text = "transfers of one delivery belong to different transactions"
                raise self.violated(AmqpError.NOT_ALLOWED, text)
            arrival.state = state

    def _gather(self, partial: PartialDelivery, octets: bytes) -> None:
        size = len(octets)
        if self.max_message and partial.size + size > self.max_message:
            text = f"a message of more than {self.max_message} octets"
            raise self.violated(LinkError.MESSAGE_SIZE_EXCEEDED, text)
        if partial.ignored:
            return
        partial.size += size
        if partial.error is not None:
            return
        if partial.unpacking is not None:
            try:
                partial.unpacking.add(octets)
            except (FieldError, OSError) as error:
                self._not_stored(partial, error)
            return
        connection = self.session.connection
        connection.under_way += size
        partial.held += size
        partial.pieces.add(octets)
        most = connection.limits.max_message_octets
        if connection.spool is not None:
            most = min(most or IN_MEMORY, IN_MEMORY)
            if partial.held > most:
                text = f"a message of this shape with more than {most} octets"
                raise self.violated(LinkError.MESSAGE_SIZE_EXCEEDED, text)
        if most and connection.under_way > UNDER_WAY * most:
            raise self.violated(
                AmqpError.RESOURCE_LIMIT_EXCEEDED,
                "too many large messages are under way on this connection",
            )

    def _spool(self, partial: PartialDelivery) -> None:
        """As soon as it is known to be large it goes to a file, if that can be."""
        spool = self.session.connection.spool
        if spool is None or partial.size < spool.threshold or partial.ignored:
            return
        partial.spool_attempted = True
        octets = partial.pieces.joined()
        try:
            partial.unpacking = unpack(octets, spool)
        except (FieldError, OSError) as error:
            self._not_stored(partial, error)
        if partial.unpacking is not None or partial.error is not None:
            self._release(partial)

    def _not_stored(self, partial: PartialDelivery, error: Exception) -> None:
        """The message will be refused when it is complete; the octets until then are discarded."""
        if isinstance(error, OSError):
            error = NotStored(f"there is no room for the message: {error.strerror}")
        partial.error = error
        partial.unpacking = None

    def _release(self, partial: PartialDelivery) -> None:
        """Nothing of it is in memory any more."""
        self.session.connection.under_way -= partial.held
        partial.held = 0
        partial.pieces.clear()

    def _drop_partial(self) -> PartialDelivery | None:
        """Nothing of it is under way any more."""
        partial, self.partial = self.partial, None
        if partial is not None:
            self.session.connection.under_way -= partial.held
            partial.held = 0
        return partial

    def _abort(self, partial: PartialDelivery) -> None:
        """An aborted message is discarded and settled (§2.7.5)."""
        self._drop_partial()
        self.known.pop(partial.arrival.tag, None)
        self._settled(partial.arrival)
        self.top_up()

    def _settled(self, arrival: IncomingDelivery) -> None:
        """The sender has settled a delivery that may be entered."""
        arrival.settled = True
        if self.unsettled.get(arrival.id) is arrival:
            self.session.unsettled.forget_received([arrival])

    def _complete(self, partial: PartialDelivery, found: list[Operation]) -> None:
        """The last transfer has come."""
        self._drop_partial()
        self.messages += 1
        self.octets += partial.size
        arrival = partial.arrival
        if partial.ignored:
            self._resumed(partial)
            return
        if self.snd_mode == (
            SenderSettleMode.UNSETTLED if partial.presettled else SenderSettleMode.SETTLED
        ):
            raise self._unlike_mode(partial.presettled)
        if partial.presettled:
            self._settled(arrival)
        if partial.format != MESSAGE_FORMAT:
            self._unknown_format(arrival, partial.format)
            return
        self.handler.on_message(arrival, self._whole(partial), found)
        self.top_up()

    def _whole(self, partial: PartialDelivery) -> bytes | SpooledMessage:
        """The complete message: its octets, or its spooled form."""
        if partial.unpacking is not None:
            try:
                return partial.unpacking.finish()
            except (FieldError, OSError) as error:
                self._not_stored(partial, error)
        if partial.error is not None:
            return SpooledMessage(b"", None, partial.error)
        return partial.pieces.joined()

    def _unknown_format(self, arrival: IncomingDelivery, number: int) -> None:
        text = f"message-format {number:#x} is not known"
        if arrival.settled:
            raise self.violated(AmqpError.NOT_IMPLEMENTED, text)
        self.session.unsettled.settle_received(
            [arrival], w.Rejected(w.Error(AmqpError.NOT_IMPLEMENTED, text))
        )

    def _resumed(self, partial: PartialDelivery) -> None:
        """A delivery from before: we know its outcome, and its octets are not wanted (§2.6.13,
        §3.4.6). The outcome at the sender is the one that counts."""
        arrival = partial.arrival
        if arrival.tag in self.known:
            told = self.known.pop(arrival.tag)
            if not partial.presettled:
                self._enter(arrival)
                final = arrival.state if type(arrival.state) in TERMINAL else told
                self.session.unsettled.settle_received([arrival], final)
        self.top_up()

    def _discard(self, record: w.Transfer) -> None:
        """Input for a link that we have detached. Transfers within the credit at that moment may
        have been under way and are excused; later ones are an error (§2.6.5)."""
        if not record.more:
            self.excused -= 1
        if self.excused < 0 and self.fault is not None:
            raise self.session.errant(self)
