"""Links over which we send: credit, the transfers of a message, unsettled deliveries.

A message that fits one frame and may go at once is written in one piece (``deliver``): one
``struct`` of the link packs the head of its transfer. All others wait in ``held``, in order: for
the attach, for credit, or for the session's window.
"""

from collections import deque
from dataclasses import dataclass
from struct import Struct
from typing import Any, Protocol

from gateway.adapters.core.output import CROWD, HEAVY, JOINED
from gateway.adapters.performatives.composite_fields import write_uint
from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.decoding import FieldError
from gateway.adapters.performatives.deliveries import (
    AcquiredDelivery,
    OutgoingDelivery,
    UnsettledDeliveries,
)
from gateway.adapters.performatives.frames import HEAD
from gateway.adapters.performatives.large_messages import Rope
from gateway.adapters.performatives.links import (
    MASK,
    Link,
    LinkHandler,
    LinkSession,
    SessionHandler,
    ahead,
)
from gateway.adapters.performatives.outcomes import bare
from gateway.adapters.performatives.sections import (
    DATA,
    data_prefix,
    pieces,
    section,
)
from gateway.adapters.performatives.splicing import COUNT, annotated, redelivery, with_ttl
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import (
    FRAME_AMQP,
    MESSAGE_FORMAT,
    AmqpError,
    SenderSettleMode,
)
from gateway.bodies import Body
from gateway.message import ExpiringMessage, Message
from gateway.operations import Credit, Operation


@dataclass(slots=True, eq=False)
class QueuedDelivery:
    """A delivery that could not be sent in one piece, or not at once. ``begin``: the position up to
    which the receiver has the message already (§3.4.1). Without a message it carries only a
    state."""

    number: int
    message: Message | None
    redelivered: bool = False
    settled: bool = False
    tag: bytes | None = None
    state: Any = None
    resume: bool = False
    aborted: bool = False
    begin: w.Received | None = None
    octets: bytes | Rope = b""
    at: int = 0
    id: int | None = None
    """Its delivery-id, as soon as it has used credit."""
    started: bool = False


class SendingSession(LinkSession, Protocol):
    """A session as sending links need it."""

    window: int
    next_outgoing_id: int
    next_delivery_id: int

    @property
    def unsettled(self) -> UnsettledDeliveries: ...

    def wait(self, link: "SendingLink") -> None:
        """The link has something to send and there is no window."""
        ...

    def go_on(self) -> None:
        """There may be a window again."""
        ...

    @property
    def handler(self) -> SessionHandler: ...


class SendingLink(Link):
    """One link over which we send."""

    session: SendingSession

    __slots__ = (
        "initial", "held", "settles", "last_tag", "granted", "acquiring",
        "_live", "_quick", "_put", "_sent",
        "_connection", "_buffer", "_drain_due", "_heads", "_room", "_annotates",
    )  # fmt: skip

    def __init__(
        self, session: SendingSession, name: str, handle: int, handler: LinkHandler
    ) -> None:
        super().__init__(session, name, handle, handler)
        self.initial = 0
        """The initial-delivery-count of our attach."""
        self.held: deque[QueuedDelivery] = deque()
        self.settles = False
        """Deliveries are sent settled by default."""
        self.last_tag = 0
        """Our tags are numbers; they go on above those of a link that is resumed."""
        self.granted: Credit | None = None
        """The last credit that was passed on to the broker. Deliveries made before the broker has
        acted upon it use it too, and are subtracted from it."""
        self.acquiring: bytes | None = None
        """The transaction that deliveries are acquired in (§4.4.3)."""
        self._live = False
        self._quick = False
        """The link is attached, and a delivery needs nothing but its octets."""
        self._connection = connection = session.connection
        self._buffer = connection.buffer
        self._annotates = connection.annotates
        self._put = connection.buffer.put
        self._sent = session.unsettled.sent
        self._drain_due = False
        """A flow has to follow the queued deliveries: the credit was drained."""
        self._heads: tuple[tuple[Struct, bytes, bytes], ...] = ()
        self._room = 0

    def take(self, record: w.Attach) -> None:
        self.max_message = record.max_message_size or 0

    def open(self) -> None:
        self.settles = self.snd_mode == SenderSettleMode.SETTLED
        channel = HEAD.pack(0, 2, 0, self.session.number)[4:]
        handle = write_uint(self.handle)
        heads = []
        for count, tail in ((4, b"\x43"), (5, b"\x43\x41")):  # format 0, and settled
            size = 1 + len(handle) + 5 + 10 + len(tail)
            start = channel + b"\x00\x53\x14\xc0" + bytes((size, count)) + handle + b"\x70"
            heads.append((Struct(f">I{len(start)}sI2sQ{len(tail)}s"), start, tail))
        self._heads = tuple(heads)
        self._room = self._connection.frame_out - heads[1][0].size
        if self.max_message:
            self._room = min(self._room, self.max_message)
        self._live = True
        self.acquire(self.acquiring)
        self.flush()
        self.session.go_on()

    def stop(self) -> None:
        self.mute()
        self.held.clear()

    def mute(self) -> None:
        self._live = self._quick = False

    def acquire(self, txn_id: bytes | None) -> None:
        """Later deliveries are acquired in this transaction, or in none."""
        self.acquiring = txn_id
        self._quick = self._live and txn_id is None

    def release(self, txn_id: bytes) -> list[int]:
        """A transaction is rolled back: drop the queued deliveries that were acquired in it, and
        abort a partly sent one. Returns the numbers of these deliveries."""
        found: list[int] = []
        for queued in list(self.held):
            if type(queued.state) is w.TransactionalState and queued.state.txn_id == txn_id:
                found.append(queued.number)
                if queued.id is None:
                    self.held.remove(queued)
                else:
                    queued.octets, queued.at, queued.aborted = b"", 0, True
        return found

    # --- sending --------------------------------------------------------------------------------

    def deliver(
        self, number: int, message: Message, redelivered: bool = False, settled: bool | None = None
    ) -> None:
        """Send it as soon as that is possible. Hot."""
        session, granted = self.session, self.granted
        if granted is not None and granted.count:
            granted.count -= 1
        if settled is None:
            settled = self.settles
        if not self._quick or self.credit <= 0 or self.held or session.window <= 0 or redelivered:
            queued = QueuedDelivery(number, message, redelivered, settled)
            if self.acquiring is not None:
                queued.state = w.TransactionalState(self.acquiring)
            self.send(queued)
            return
        if (
            message.dialect is SECTIONS
            and not message.added_headers
            and not self._annotates
            and message.__class__ is Message
        ):
            header, body = message.header, message.body
        else:
            try:
                if self._annotates or message.__class__ is not Message:
                    header, body = in_sections(message, self._annotates)
                else:
                    header, body = message.form_for(SECTIONS)
            except ValueError as error:
                self.handler.on_unsent(self, number, message, str(error))
                return
        size = len(body)
        prefix = data_prefix(size)
        total = len(header) + len(prefix) + size
        if (
            total > self._room
            or (header and (header[1] != 0x53 or header[2] >= DATA))
            or body.__class__ is not bytes
        ):
            self.send(QueuedDelivery(number, message, redelivered, settled))
            return
        id_ = session.next_delivery_id
        session.next_delivery_id = id_ + 1 & MASK
        session.next_outgoing_id = session.next_outgoing_id + 1 & MASK
        session.window -= 1
        self.credit -= 1
        self.count = self.count + 1 & MASK
        self.last_tag = tag = self.last_tag + 1
        layout, start, tail = self._heads[settled]
        if not settled:
            self._sent[id_] = self.unsettled[id_] = OutgoingDelivery(self, id_, number, tag)
        head = layout.pack(layout.size + total, start, id_, b"\xa0\x08", tag, tail)
        buffer = self._buffer
        pending = buffer.pending
        if not pending:
            buffer.waken()
        if size <= JOINED:
            pending.append(b"".join((head, header, prefix, body)))
        else:
            pending += b"".join((head, header, prefix)), body
        if size > HEAVY:
            buffer.weigh(size)
        elif len(pending) > CROWD:
            buffer.crowd()

    def deliver_run(self, number: int, messages: list[Message]) -> None:
        """``deliver`` for messages with numbers in a row, from this one on. Hot."""
        done = self._send_run(number, messages)
        for index in range(done, len(messages)):
            self.deliver(number + index, messages[index])

    def _send_run(self, number: int, messages: list[Message]) -> int:
        """Send those at the begin of a run which go out as they are, in one frame each. How many
        these are. Hot."""
        session, granted = self.session, self.granted
        if not self._quick or self._annotates or self.held:
            return 0
        most = min(len(messages), self.credit, session.window)
        settled, room = self.settles, self._room
        layout, start, tail = self._heads[settled]
        pack, fixed = layout.pack, layout.size
        sent, unsettled = self._sent, self.unsettled
        id_, tag = session.next_delivery_id, self.last_tag
        parts: list[bytes] = []
        size, prefix = -1, b""
        octets = count = 0
        joined = True
        while count < most:
            message = messages[count]
            header, body = message.header, message.body
            if len(body) != size:
                size = len(body)
                prefix = data_prefix(size)
            total = len(header) + len(prefix) + size
            if (
                message.dialect is not SECTIONS
                or message.added_headers
                or message.__class__ is not Message
                or body.__class__ is not bytes
                or total > room
                or (header and (header[1] != 0x53 or header[2] >= DATA))
            ):
                break
            tag += 1
            head = pack(fixed + total, start, id_, b"\xa0\x08", tag, tail)
            if size <= JOINED:
                parts += head, header, prefix, body
            else:
                parts += b"".join((head, header, prefix)), body
                joined = False
            octets += total
            if not settled:
                sent[id_] = unsettled[id_] = OutgoingDelivery(self, id_, number + count, tag)
            id_ = id_ + 1 & MASK
            count += 1
        if count:
            session.next_delivery_id, self.last_tag = id_, tag
            session.next_outgoing_id = session.next_outgoing_id + count & MASK
            session.window -= count
            self.credit -= count
            self.count = self.count + count & MASK
            if granted is not None and granted.count:
                granted.count = max(granted.count - count, 0)
            buffer = self._buffer
            if not buffer.pending:
                buffer.waken()
            if joined:
                buffer.pending.append(b"".join(parts))
            else:
                buffer.pending += parts
            buffer.weigh(octets)
        return count

    def send(self, queued: QueuedDelivery) -> None:
        """Queue a delivery that ``deliver`` cannot send at once, and send it when that is
        possible."""
        if self.over:
            return
        self.held.append(queued)
        self.flush()

    def flush(self) -> None:
        """Write queued deliveries, as far as attach, credit and window allow."""
        held, session = self.held, self.session
        while held:
            if not self._live:
                session.wait(self)
                return
            queued = held[0]
            if queued.id is None and self.credit <= 0:
                return
            if session.window <= 0:
                session.wait(self)
                return
            if queued.id is None and not self._begin(queued):
                continue
            if not self._write(queued):
                if not self.over:
                    session.wait(self)
                return
            held.popleft()
        if self._drain_due and self._live:
            self._drain_due = False
            session.write_flow(self, available=0)

    def _begin(self, queued: QueuedDelivery) -> bool:
        """Make its octets and give it an id. False if it cannot be sent over this link, and is
        held no more."""
        message = queued.message
        if message is not None:
            try:
                queued.octets = encoded(message, queued.redelivered, self._annotates)
            except ValueError as error:
                self.held.popleft()
                self.handler.on_unsent(self, queued.number, message, str(error))
                return False
            if self.max_message and len(queued.octets) > self.max_message:
                self.held.popleft()
                text = f"the message is larger than the {self.max_message} octets the peer takes"
                self.handler.on_unsent(self, queued.number, message, text)
                return False
            if queued.begin is not None:
                queued.at = offset_of(queued.octets, queued.begin)
                queued.state = queued.begin if queued.at else None
        session = self.session
        queued.id = session.next_delivery_id
        session.next_delivery_id = queued.id + 1 & MASK
        self.credit -= 1
        self.count = self.count + 1 & MASK
        tag: int | bytes
        if queued.tag is None:
            self.last_tag = tag = self.last_tag + 1
            queued.tag = tag.to_bytes(8, "big")
        else:
            tag = queued.tag
        if not queued.settled and not queued.aborted:
            if type(queued.state) is w.TransactionalState:
                txn_id = queued.state.txn_id
                sent: OutgoingDelivery = AcquiredDelivery(
                    self, queued.id, queued.number, tag, txn_id
                )
            else:
                sent = OutgoingDelivery(self, queued.id, queued.number, tag)
            self._sent[queued.id] = self.unsettled[queued.id] = sent
        return True

    def _write(self, queued: QueuedDelivery) -> bool:
        """Write its frames while there is a window, and of a large message as many as the next
        output takes. False if some are left."""
        session, connection, octets = self.session, self._connection, queued.octets
        large = isinstance(octets, Rope)
        view = octets if isinstance(octets, Rope) else memoryview(octets)
        while session.window > 0:
            if large and connection.portions.full:
                connection.portions.stall(session)
                return False
            record = self._transfer(queued)
            room = connection.frame_out - 8 - len(write(record))
            try:
                chunk = view[queued.at : queued.at + room]
            except OSError as error:
                text = f"the message cannot be read: {error.strerror}"
                self.fail(AmqpError.INTERNAL_ERROR, text, connection.later)
                return False
            queued.at += len(chunk)
            over = queued.at == len(octets)
            record.more = None if over else True
            body = write(record)
            head = HEAD.pack(8 + len(body) + len(chunk), 2, FRAME_AMQP, session.number)
            self._put(b"".join((head, body, chunk)))
            if large:
                connection.portions.octets += len(chunk)
            elif len(chunk) > HEAVY:
                self._buffer.weigh(len(chunk))
            session.next_outgoing_id = session.next_outgoing_id + 1 & MASK
            session.window -= 1
            queued.started = True
            if over:
                return True
        return False

    def _transfer(self, queued: QueuedDelivery) -> w.Transfer:
        """The next transfer of a delivery: the first one has all fields, later ones the id."""
        if queued.started:
            return w.Transfer(
                handle=self.handle,
                delivery_id=queued.id,
                more=True,
                aborted=queued.aborted or None,
            )
        record = w.Transfer(
            handle=self.handle,
            delivery_id=queued.id,
            delivery_tag=queued.tag,
            message_format=MESSAGE_FORMAT,
            settled=queued.settled or None,
            more=True,
            state=queued.state,
            resume=queued.resume or None,
            aborted=queued.aborted or None,
        )
        if len(write(record)) > self._connection.frame_out - 8:
            record.state = bare(record.state)
        return record

    # --- credit ---------------------------------------------------------------------------------

    def on_flow(self, record: w.Flow, found: list[Operation]) -> None:
        """The receiver's limit as our credit (§2.6.7)."""
        if record.properties and "txn-id" in record.properties:
            self.session.handler.on_acquire(self, record.properties["txn-id"])
        if record.link_credit is None:
            return
        seen = self.initial if record.delivery_count is None else record.delivery_count
        self.credit = min(MASK, max(0, record.link_credit - ahead(self.count, seen)))
        self.drain = bool(record.drain)
        self.flush()
        self.handler.on_credit(self, record, found)

    @property
    def waiting(self) -> int:
        """Queued deliveries that will use credit."""
        held = self.held
        return len(held) - (1 if held and held[0].id is not None else 0)

    def drained(self, dropped: int) -> None:
        """Give up this much credit and tell the receiver, after the deliveries that wait for the
        window; not if the receiver has ended the drain meanwhile."""
        if not self.drain:
            return
        dropped = min(dropped, max(self.credit, 0))
        self.count = self.count + dropped & MASK
        self.credit -= dropped
        self._drain_due = True
        self.flush()


# --- messages as octets -------------------------------------------------------------------------


def in_sections(message: Message, annotates: bool = False) -> tuple[bytes, Body]:
    """Header and body in the form of this version. Raises ``ValueError``."""
    header, body = message.form_for(SECTIONS)
    if annotates:
        header = annotated(header, message)
    if isinstance(message, ExpiringMessage):
        header = with_ttl(header, message.left)
    return header, body


def encoded(message: Message, redelivered: bool, annotates: bool = False) -> bytes | Rope:
    """The whole message; a large one is read as it is written. Raises ``ValueError``."""
    header, body = in_sections(message, annotates)
    if redelivered:
        failed = (message.added_headers or {}).get(COUNT)
        header = redelivery(header, failed if isinstance(failed, int) else None)
    found = pieces(header, body)
    if isinstance(body, bytes):
        return b"".join(found)  # type: ignore[arg-type]
    return Rope(found)


def offset_of(octets: bytes | Rope, received: w.Received) -> int:
    """The offset of a position in a message (§3.4.1); 0 if it is none of it, so that all of it is
    sent again. That is done with large messages too."""
    if isinstance(octets, Rope):
        return 0
    at, end, number = 0, len(octets), 0
    try:
        while at < end:
            _, start, stop = section(octets, at, end)
            if number == received.section_number:
                return at + received.section_offset if at + received.section_offset <= stop else 0
            at, number = stop, number + 1
    except (FieldError, IndexError):
        return 0
    at_end = number == received.section_number and not received.section_offset
    return end if at_end else 0
