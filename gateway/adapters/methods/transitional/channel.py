"""One channel of the transitional 0-10; also its ``Outlet``."""

from collections import deque
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, NamedTuple, Protocol

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.large_bodies import PORTION, BodyFrames
from gateway.adapters.core.output import WEIGHT, OutputBuffer
from gateway.adapters.methods import states
from gateway.adapters.methods.contents.classes import ClassEngine, ContentClasses
from gateway.adapters.methods.contents.methods import OutgoingMethod
from gateway.adapters.methods.geometry import Method, Version
from gateway.adapters.methods.incoming_content import UNDER_WAY, IncomingContent
from gateway.adapters.methods.lifecycle import Lifecycle
from gateway.adapters.methods.pending import Awaited
from gateway.adapters.methods.transitional import content as messages
from gateway.adapters.methods.transitional.contents import BASIC_NUMBER, CONTENTS
from gateway.adapters.methods.transitional.deliveries import FETCHED, Deliveries
from gateway.adapters.methods.transitional.frames import Frames
from gateway.adapters.methods.transitional.numbering import Numbering
from gateway.adapters.methods.transitional.references import References
from gateway.adapters.methods.transitional.types import Body, read_arguments, write_body
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.bodies import Body as MessageBody
from gateway.bodies import LargeBody
from gateway.errors import Condition, PeerError, Unwritable
from gateway.message import Message, Table
from gateway.operations import Fetched, Returned, Unsent, Xid

ALWAYS_ROOM = 512
"""Octets in a frame of a reference besides the part of the body: heads, numbers and the name."""


class Consumer(NamedTuple):
    """``is_basic``: of class ``basic``, else of class ``message``."""

    is_basic: bool
    no_ack: bool


class ChannelEngine(ClassEngine, Protocol):
    """The engine, as far as its channels need it."""

    table: Version
    frames: Frames
    buffer: OutputBuffer
    life: Lifecycle
    requests: bool
    frame_max: int
    announced: int

    def send_method(self, channel: int, record: Any, request: int = 0) -> int: ...

    def send_octets(self, channel: int, method: Method, octets: bytes) -> int: ...

    def encoded(self, numbering: Numbering, channel: int, record: Any) -> bytes: ...


_I, _Q = Struct(">I"), Struct(">Q")
EMPTY = b"\0" + _I.pack(0)
"""A body without octets, inline."""
_DELIVERS: BoundedCache[tuple[str, bool, str, str], tuple[bytes, bytes]] = BoundedCache()
"""By consumer, whether it was delivered before, exchange and key: the octets of a delivery's method
around its tag."""


def around_tag(
    table: Version, consumer: str, redelivered: bool, exchange: str, key: str
) -> tuple[bytes, bytes]:
    """Raises ``ValueError`` if a name is too long."""
    method = table.by_record[w.BasicDeliver]
    octets = method.prefix + method.write(w.BasicDeliver(consumer, 0, redelivered, exchange, key))
    place = len(method.prefix) + 1 + octets[len(method.prefix)]
    around = octets[:place], octets[place + _Q.size :]
    return _DELIVERS.keep((consumer, redelivered, exchange, key), around)


def _unowned(allowed: bool) -> None:
    """No-op."""


class Channel:
    """One channel of a connection."""

    allow_deliveries: Callable[[bool], None]

    def __init__(self, number: int, engine: ChannelEngine) -> None:
        self.number = number
        self.state = states.OPENING
        self.allow_deliveries = _unowned
        self.awaited: deque[Awaited] = deque()
        self.content: IncomingContent | None = None
        self.numbering = Numbering()
        self.consumers: dict[str, Consumer] = {}
        self.deliveries = Deliveries(number)
        self.references = References(
            engine.max_message_octets, engine.spool, engine.partials, engine.owner
        )
        self.transfers: dict[int, Returned | None] = {}
        """Transfers that are not answered, by the identity of their messages; with the reason if
        the message came back."""
        self.session = b""
        """Identifier, if it was opened with class session."""
        self.classes: ContentClasses | None = None
        """Consumers and files of other classes than basic and message, once there are any."""
        self.lifetime = 0
        """Seconds for which the session outlives its channel."""
        self.left = False
        """It is a session that has left its channel, or is about to."""
        self.scan: list[Xid] = []
        """Prepared branches that the next ``recover`` tells."""
        # Client role: see ``client``.
        self.flushing = False
        """An ``execution.flush`` of ours has no answer yet."""
        self.confirming = False
        self.published = 0
        """Messages published since confirms were asked for."""
        self.unconfirmed: deque[tuple[int, int]] = deque()
        """Command and sequence of publishes that are not confirmed."""
        self.transferred: dict[int, Any] = {}
        """Publishes of class message that the server has to answer, by their requests."""
        self.fetched_message: Fetched | None = None
        """By class message; it counts when its request is done."""
        self._engine = engine
        self._sent_references = self._destinations = 0

    # --- state -----------------------------------------------------------------------------------

    def move(self, word: str) -> None:
        """Take a step of the table. Raises ``PeerError`` if it is not allowed now."""
        state = states.after(states.CHANNEL, self.state, word)
        if state is None:
            raise PeerError(
                Condition.CHANNEL_ERROR, f"{word!r} on channel {self.number}, which is {self.state}"
            )
        self.state = state

    def opened(self) -> None:
        self.move("channel.open-ok")

    def mark_failed(self) -> None:
        """The peer broke a rule: nothing more is taken from it."""
        self.forget_content()
        self.state = states.FAILED

    def mark_closing(self) -> None:
        """Discard everything but the answer to our close."""
        if self.left:
            return
        self.forget_content()
        self.move("lose")

    def mark_closed(self) -> None:
        """The channel has ended; as an outlet it sends nothing."""
        if self.left:
            return
        self.state = states.CLOSED
        self.forget_content()
        self.deliveries.clear()
        self.consumers.clear()

    def leave(self) -> None:
        """The session is kept without a channel; earlier requests are still answered."""
        classes, self.classes = self.classes, None
        self.forget_content()
        self.classes = classes
        if classes is not None:
            classes.leave()
        self.left, self.state = True, states.ENDING
        self.allow_deliveries(False)

    def rejoin(self, engine: ChannelEngine, number: int) -> None:
        """A channel of another connection has the session."""
        self._engine, self.number = engine, number
        self.deliveries.channel = number
        if self.classes is not None:
            self.classes.move(engine, number)
        self.left, self.state = False, states.OPEN

    def mark_ended(self) -> None:
        """The session has ended while it was kept. Its engine may be gone."""
        self.left, self.state = False, states.CLOSED
        self.deliveries.clear()
        self.consumers.clear()

    def forget_content(self) -> None:
        """Drop the unfinished content, and all references."""
        content, self.content = self.content, None
        if content is not None:
            self._engine.announced -= content.held
            content.drop()
        self._engine.announced -= self.references.held
        self.references.clear()
        if self.classes is not None:
            self.classes.cut()

    # --- bodies in parts -------------------------------------------------------------------------

    def take_part(self, m: Any, request: int) -> tuple[MessageBody, list[Any]] | None:
        """A method of the peer on a reference. Of one that is closed: the body, and the transfers
        that have it. Raises ``PeerError``."""
        engine, references = self._engine, self.references
        before, closed = references.held, None
        try:
            if isinstance(m, w.MessageAppend):
                references.append(m.reference, m.bytes)
            elif isinstance(m, w.MessageOpen):
                references.open(m.reference)
            elif isinstance(m, w.MessageClose):
                closed = references.close(m.reference)
            elif isinstance(m, w.MessageCheckpoint):
                references.checkpoint(m.reference, m.identifier)
            else:
                offset = references.resume(m.reference, m.identifier)
                engine.send_method(self.number, w.MessageOffset(offset), request)
        finally:
            engine.announced += references.held - before
        if engine.announced > UNDER_WAY * engine.max_message_octets:
            raise PeerError(Condition.RESOURCE_ERROR, "too many unfinished messages")
        return closed

    # --- messages out ----------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        """Deliver a message to a consumer, by its tag or destination."""
        if self.state is not states.OPEN:
            return
        kind = self.consumers.get(consumer)
        if (
            kind is None
            and self.classes is not None
            and self.classes.deliver(consumer, delivery, redelivered, message)
        ):
            return
        is_basic, no_ack = kind if kind is not None else (False, True)
        try:
            if is_basic:
                name = self._deliver_basic(consumer, redelivered, message)
            else:
                name = self._transfer(*messages.transfer_of(message, consumer, redelivered))
        except ValueError:
            self._engine.life.unsent(Unsent(self.number, consumer, delivery, message))
            return
        if not no_ack:
            self.deliveries.add(name, delivery)

    def divert(self, pending: list[bytes]) -> None:
        """No-op: nothing is written but through the output, which knows where it goes."""

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """Channels have no confirms: a transfer is answered when it is safe."""

    def _deliver_basic(self, consumer: str, redelivered: bool, message: Message) -> int:
        """The delivery tag. Raises ``ValueError``."""
        header, body = messages.form_of(message)
        engine, numbering = self._engine, self.numbering
        tag = self._next_name()
        room = (engine.frame_max or 1 << 31) - ALWAYS_ROOM
        size = len(body)
        if not 0 < size <= room or len(header) > room or body.__class__ is not bytes:
            record = w.BasicDeliver(consumer, tag, redelivered, message.exchange, message.key)
            self._write_content(record, header, body)
            return tag
        route = consumer, redelivered, message.exchange, message.key
        before, after = _DELIVERS.get(route) or around_tag(engine.table, *route)
        numbering.sent += 1
        carried = numbering.request() if engine.requests else None
        method = b"".join((before, _Q.pack(tag), after))
        for piece in engine.frames.message(
            self.number, carried, method, BASIC_NUMBER, header, body
        ):
            engine.buffer.put_on(self.number, piece)
        engine.buffer.weigh(size + WEIGHT)
        return tag

    def _next_name(self) -> int:
        """The name of the next method of ours, as a delivery tag."""
        numbering = self.numbering
        return numbering.requests + 1 if self._engine.requests else numbering.sent + 1

    def other_classes(self) -> ContentClasses:
        """The consumers and files of other classes, which there are from now on."""
        if self.classes is None:
            dialects = {dialect.group: dialect for dialect in CONTENTS.values()}
            self.classes = ContentClasses(self, self._engine, dialects)
        return self.classes

    def send_method(self, method: OutgoingMethod) -> None:
        """A method of these classes, with its content. A delivery gets its name as its tag."""
        record, content = method
        delivers = isinstance(record, w.FileDeliver | w.StreamDeliver)
        delivery = record.delivery_tag if delivers else 0
        if delivers:
            record.delivery_tag = self._next_name()
        if content is not None:
            self._write_content(record, content.header, content.body)
        else:
            self._engine.send_method(self.number, record)
        if delivers and self.other_classes().acknowledges(record.consumer_tag):
            self.deliveries.add(record.delivery_tag, delivery)

    def check_header(self, header: bytes) -> None:
        """Raise ``Unwritable`` if the properties do not fit a frame of the peer."""
        most = self._engine.frame_max
        if most and len(header) + ALWAYS_ROOM > most:
            raise Unwritable(f"properties of {len(header)} octets do not fit a frame of the peer")

    def read_arguments(self, entries: bytes) -> Table:
        """A table among the arguments of a method. Raises ``FieldError``."""
        return read_arguments(entries)

    def fetched(self, fetched: Fetched, request: int, no_ack: bool) -> None:
        """The reply to ``basic.get``. Raises ``ValueError``."""
        message = fetched.message
        header, body = messages.form_of(message)
        tag = FETCHED | fetched.delivery if request else self.numbering.sent + 1
        record = w.BasicGetOk(
            tag, fetched.redelivered, message.exchange, message.key, fetched.remaining
        )
        self._write_content(record, header, body, request)
        if not no_ack:
            self.deliveries.add(tag, fetched.delivery)

    def _write_content(
        self, record: Any, header: bytes, body: MessageBody, request: int = 0
    ) -> None:
        """A method with its content. Raises ``ValueError`` before anything is written."""
        engine, frames, number = self._engine, self._engine.frames, self.number
        group = engine.table.by_record[type(record)].number >> 16
        head = frames.content_header(number, group, header, len(body))
        largest = (engine.frame_max or 1 << 31) - frames.overhead
        if engine.frame_max and len(head) > engine.frame_max:
            raise Unwritable(f"a header of {len(head)} octets does not fit a frame of the peer")
        engine.send_method(number, record, request)
        buffer = engine.buffer
        buffer.put_on(number, head)
        make: Callable[[bytes], bytes] = partial(frames.frame, frames.body, number)
        if isinstance(body, LargeBody):
            buffer.large.add(self, BodyFrames(make, body, min(largest, PORTION)))
        else:
            for at in range(0, len(body), largest):
                buffer.put_on(number, make(body[at : at + largest]))
        buffer.weigh((0 if isinstance(body, LargeBody) else len(body)) + WEIGHT)

    def publish(self, message: Message, immediate: bool) -> None:
        """Client: a ``basic.publish``. Raises ``ValueError`` before anything is written."""
        header, body = messages.form_of(message)
        record = w.BasicPublish(
            exchange=message.exchange, routing_key=message.key, immediate=immediate
        )
        self._write_content(record, header, body)

    def publish_transfer(self, message: Message, mandatory: bool, immediate: bool) -> int:
        """Client: a ``message.transfer``, as ``transfer`` does it."""
        record, body = messages.transfer_of(message, message.exchange, False)
        record.exchange, record.reject_unroutable, record.immediate = "", mandatory, immediate
        return self._transfer(record, body)

    def new_destination(self) -> str:
        """Client: a name for a consumer."""
        self._destinations += 1
        return f"amqp-gateway-{self._destinations}"

    def transfer(self, destination: str, redelivered: bool, message: Message) -> int:
        """A message.transfer; a body that does not fit its frame goes by reference. Returns the
        name by which it is settled. Raises ``ValueError`` before anything is written."""
        return self._transfer(*messages.transfer_of(message, destination, redelivered))

    def _transfer(self, record: w.MessageTransfer, body: MessageBody) -> int:
        engine = self._engine
        engine.buffer.weigh((0 if isinstance(body, LargeBody) else len(body)) + WEIGHT)
        method = engine.table.by_record[w.MessageTransfer]
        arguments = method.write(record)  # the body comes last
        room = (engine.frame_max or 1 << 31) - ALWAYS_ROOM - len(arguments)
        if room < 0:
            raise Unwritable("the properties do not fit a frame of the peer")
        if isinstance(body, bytes) and len(body) <= room:
            before = arguments[: -len(EMPTY)]
            octets = b"".join((method.prefix, before, b"\0", _I.pack(len(body)), body))
            return engine.send_octets(self.number, method, octets)
        self._sent_references += 1
        name = f"amqp-gateway-{self._sent_references}".encode()
        record.body = write_body(Body(True, name))
        engine.send_method(self.number, w.MessageOpen(name))
        self._append(name, body)
        settled_by = engine.send_method(self.number, record)
        engine.send_method(self.number, w.MessageClose(name))
        return settled_by

    def _append(self, name: bytes, body: MessageBody) -> None:
        """The parts of a body. Those of a large one are made as the socket takes them, with the
        numbers that are reserved for them here."""
        engine, number = self._engine, self.number
        largest = min((engine.frame_max or PORTION) - ALWAYS_ROOM, PORTION)
        if isinstance(body, bytes):
            for at in range(0, len(body), largest):
                engine.send_method(number, w.MessageAppend(name, body[at : at + largest]))
            return
        reserved = self.numbering.reserve(-(-len(body) // largest), engine.requests)

        def make(octets: bytes) -> bytes:
            return engine.encoded(reserved, number, w.MessageAppend(name, octets))

        engine.buffer.large.add(self, BodyFrames(make, body, largest))
