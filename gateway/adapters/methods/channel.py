"""One channel: its state, the content under way on it, requests that are not answered yet."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from struct import Struct
from typing import Any, Protocol

from gateway.adapters.core.output import CROWD, HEAVY, JOINED
from gateway.adapters.methods import states
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.contents.classes import ClassEngine, ContentClasses
from gateway.adapters.methods.contents.methods import OutgoingMethod
from gateway.adapters.methods.contents.published import CONTENTS
from gateway.adapters.methods.essentials import count_arguments
from gateway.adapters.methods.frames import Frames
from gateway.adapters.methods.incoming_content import ContentEngine, IncomingContent
from gateway.adapters.methods.lifecycle import step
from gateway.adapters.methods.method_writer import MethodWriter
from gateway.adapters.methods.pending import NOTHING_AWAITED, Awaited
from gateway.bodies import Body, LargeBody, Spool
from gateway.errors import LocalError, Unwritable
from gateway.message import Message, Table
from gateway.operations import (
    Confirm,
    Operation,
    Outcome,
    Settle,
    Unsent,
    Xid,
)

ADDRESSES = 1024
"""Encoded consumer, exchange and key kept by a channel before it starts anew."""


BITS = ("0", "1", "2", "3")
"""Flags of a publish: mandatory, immediate."""
ALWAYS_FITS = 4096 - 8 - 12
"""Octets of a content header that the smallest frame holds, beside its fixed fields and the
frame."""


def _unowned(allowed: bool) -> None:
    """No-op."""


class ChannelEngine(ClassEngine, ContentEngine, Protocol):
    """The engine, as far as a channel needs it."""

    frames: Frames
    writer: MethodWriter
    tags: fields.Tags
    body_max: int
    """Room for body octets in one frame of the peer."""
    spool: Spool | None
    """Keeps larger bodies; ``None``: they stay in memory."""
    content_classes: frozenset[str]
    """Client: classes of content that the server says it has."""

    def write_content(
        self, channel: "Channel", record: Any, header: bytes, body: Body, group: int = 0
    ) -> None: ...


class Channel:
    """One channel of a connection; also its ``Outlet``.

    Repeated parts of its output are kept encoded (the method for each consumer, exchange and key),
    the header goes out as it came in, and a small message is one joined piece."""

    allow_deliveries: Callable[[bool], None]
    __slots__ = (
        "number", "state", "allow_deliveries", "awaited", "content", "ready", "tags", "_engine",
        "_addresses", "_buffer", "_pending", "_header_start", "_body_start", "_acks", "_end",
        "_basic", "branch", "classes",
    )  # fmt: skip

    def __init__(self, number: int, engine: ChannelEngine) -> None:
        self.number = number
        self.state = states.OPENING
        self.allow_deliveries = _unowned
        self._engine = engine
        self._addresses: dict[tuple[str, str, str], tuple[bytes, bytes]] = {}
        self._buffer = engine.buffer
        self._pending = engine.buffer.pending
        frames = engine.frames
        self._header_start = frames.pack_head(frames.header, number, 0)[:-4]
        self._body_start = frames.pack_head(frames.body, number, 0)[:-4]
        self._acks = tuple(
            frames.pack_head(frames.method, number, len(method.prefix) + 9) + method.prefix
            for method in (engine.table.by_name["basic.nack"], engine.table.by_name["basic.ack"])
        )
        self._end = frames.end
        self._basic = frames.basic
        self.ready = False
        self.tags = engine.tags
        self.awaited: deque[Awaited] = NOTHING_AWAITED
        self.content: IncomingContent | None = None
        self.branch: Xid | None = None
        """Started by dtx.start."""
        self.classes: ContentClasses | None = None
        """Consumers and files of other classes than ``basic``, once there are any."""

    # --- state -----------------------------------------------------------------------------------

    def move(self, word: str) -> None:
        """Take a step of the table. Raises ``PeerError`` if it is not allowed now."""
        self.state = step(self, word)
        self.ready = self.state is states.OPEN and self.content is None

    def opened(self) -> None:
        self.move("channel.open-ok")

    def mark_failed(self) -> None:
        """The peer violated a rule: nothing more is accepted. It is told behind the replies to its
        earlier requests."""
        self.forget_content()
        self.state = states.FAILED
        self.ready = False

    def mark_closing(self) -> None:
        """Discard everything but the answer to our close."""
        self.forget_content()
        self.move("lose")
        self._addresses.clear()

    def mark_closed(self) -> None:
        """The channel is closed; as an outlet it writes nothing more."""
        self.state = states.CLOSED
        self.ready = False
        self.forget_content()

    def forget_content(self) -> None:
        """Drop the content under way."""
        content, self.content = self.content, None
        if content is not None:
            self._engine.announced -= content.held
            content.drop()
        if self.classes is not None:
            self.classes.cut()

    # --- out -------------------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        """Hot. One joined piece: the method's ends are kept encoded per consumer, exchange and key,
        the header goes out as it came in."""
        if self.state is not states.OPEN:
            return
        address = self._addresses.get((consumer, message.exchange, message.key))
        header, body = message.header, message.body
        if (
            address is None
            or message.added_headers
            or message.dialect is not BASIC
            or len(header) > ALWAYS_FITS
        ):
            if (
                address is None
                and self.classes is not None
                and self.classes.deliver(consumer, delivery, redelivered, message)
            ):
                return
            try:
                if address is None:
                    address = self._address(consumer, message.exchange, message.key)
                header, body = self.form_of(message)
            except ValueError:
                self._engine.life.unsent(Unsent(self.number, consumer, delivery, message))
                return
        size = len(body)
        pending = self._pending
        if not pending:
            self._buffer.waken()
        elif len(pending) > CROWD:
            self._buffer.crowd()
        if size > HEAVY:
            self._buffer.weigh(size)
        if size <= self._engine.body_max and body.__class__ is bytes:
            if 0 < size <= JOINED:
                pending.append(
                    b"".join(
                        (
                            address[0],
                            _QB.pack(delivery, redelivered),
                            address[1],
                            _IHHQ.pack(len(header) + 12, self._basic, 0, size),
                            header,
                            self._end,
                            self._body_start,
                            _I.pack(size),
                            body,
                            self._end,
                        )
                    )
                )
                return
            start = b"".join(
                (
                    address[0],
                    _QB.pack(delivery, redelivered),
                    address[1],
                    _IHHQ.pack(len(header) + 12, self._basic, 0, size),
                    header,
                    self._end,
                )
            )
            if size:  # not copied: three pieces of a gathering write
                pending += start + self._body_start + _I.pack(size), body, self._end
            else:
                pending.append(start)
            return
        pending.append(
            b"".join(
                (
                    address[0],
                    _QB.pack(delivery, redelivered),
                    address[1][: -len(self._header_start)],
                )
            )
        )
        self.write_content(header, body)

    def deliver_run(self, consumer: str, first: int, messages: list[Message]) -> None:
        """``deliver`` for messages with tags in a row, from this one on. Hot."""
        done = 0
        while done < len(messages):
            done += self._write_run(consumer, first + done, messages, done)
            if done < len(messages):
                self.deliver(consumer, first + done, False, messages[done])
                done += 1

    def _write_run(self, consumer: str, delivery: int, messages: list[Message], done: int) -> int:
        """Write the deliveries from this message on that have one address, fit a frame and are not
        for ``deliver`` to decide about; large bodies are pieces of their own. How many these are.
        Hot."""
        exchange, key = messages[done].exchange, messages[done].key
        address = self._addresses.get((consumer, exchange, key))
        if address is None or self.state is not states.OPEN:
            return 0
        start, behind = address
        basic, end = self._basic, self._end
        pack, between, most = _Q.pack, end + self._body_start, self._engine.body_max
        pieces: list[bytes] = []
        parts: list[bytes] = []
        sizes, middle, tail = (-1, -1), b"", b""
        octets, begun = 0, delivery
        for message in islice(messages, done, None):
            if message.key is not key or message.exchange is not exchange:
                break
            header, body = message.header, message.body
            if message.dialect is not BASIC or message.added_headers or len(header) > ALWAYS_FITS:
                try:
                    header, body = message.form_for(BASIC)
                except ValueError:
                    break
                if len(header) > ALWAYS_FITS:
                    break
            size = len(body)
            if not 0 < size <= most or body.__class__ is not bytes:
                break
            if sizes != (len(header), size):
                sizes = len(header), size
                middle = b"\0" + behind + _IHHQ.pack(len(header) + 12, basic, 0, size)
                tail = between + _I.pack(size)
            parts += start, pack(delivery), middle, header, tail
            delivery += 1
            octets += size
            if size <= JOINED:
                parts += body, end
            else:  # not copied
                pieces += b"".join(parts), body
                parts = [end]
        if delivery > begun:
            if not self._pending:
                self._buffer.waken()
            pieces.append(b"".join(parts))
            self._pending += pieces
            self._buffer.weigh(octets)
        return delivery - begun

    def form_of(self, message: Message) -> tuple[bytes, Body]:
        """Header and body for the peer. Raises ``ValueError`` if there is no such form, or if the
        header is more than one frame of the peer holds: it cannot be cut (0-9-1 §4.2.6.1)."""
        header, body = message.form_for(BASIC)
        if len(header) > ALWAYS_FITS:
            self.check_header(header)
        return header, body

    def check_header(self, header: bytes) -> None:
        """Raise ``Unwritable`` if the properties do not fit a frame of the peer."""
        if len(header) + 12 > self._engine.body_max:
            raise Unwritable(f"properties of {len(header)} octets do not fit a frame of the peer")

    def write_content(self, header: bytes, body: Body, group: int = 0) -> None:
        """Content header and body, behind their method; of the class ``basic`` if none is given."""
        engine, number, group = self._engine, self.number, group or self._basic
        frames = engine.frames
        if isinstance(body, LargeBody):
            self._pending.append(frames.content_header(number, group, header, len(body)))
            engine.writer.write_large(self, body, engine.body_max)
        else:
            self._pending += frames.content(number, group, header, body, engine.body_max)

    def send_method(self, method: OutgoingMethod) -> None:
        """A method of any class, with its content. Raises ``ValueError`` before anything is
        written."""
        content = method.content
        if content is None:
            self._engine.writer.write(self.number, method.record)
        else:
            header, body = content.header, content.body
            self._engine.write_content(self, method.record, header, body, content.number)

    def read_arguments(self, entries: bytes) -> Table:
        """A table among the arguments of a method, which may hold ``MOST_VALUES``. Raises
        ``FieldError``."""
        count_arguments(entries)
        return fields.read_table(entries, self.tags)

    def other_classes(self) -> ContentClasses:
        """The consumers and files of other classes, which there are from now on."""
        if self.classes is None:
            contents = CONTENTS[self._engine.table.name].values()
            dialects = {dialect.group: dialect for dialect in contents}
            self.classes = ContentClasses(self, self._engine, dialects)
        return self.classes

    def forget_addresses(self) -> None:
        """A consumer of another class starts, perhaps with the tag of an earlier one."""
        self._addresses.clear()

    def divert(self, pending: list[bytes]) -> None:
        """Write there from now on."""
        self._pending = pending

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """Hot."""
        if self.state is not states.OPEN:
            return
        pending = self._pending
        if not pending:
            self._buffer.waken()
        pending.append(self._acks[accepted] + _QB.pack(sequence, multiple) + self._end)

    def publish(self, message: Message, mandatory: bool, immediate: bool) -> None:
        """Hot for a client: like ``deliver``, with the whole method frame kept encoded."""
        if self.state is not states.OPEN:
            raise LocalError(f"channel {self.number} is {self.state}")
        bits = BITS[mandatory | immediate << 1]
        address = self._addresses.get((bits, message.exchange, message.key))
        if address is None:
            address = self._publication(bits, message.exchange, message.key)
        header, body = message.header, message.body
        if message.added_headers or message.dialect is not BASIC:
            try:
                if self._publish_in_class(message, mandatory, immediate):
                    return
                header, body = message.form_for(BASIC)
            except ValueError as error:
                raise LocalError(f"the message cannot be written here: {error}") from error
        size = len(body)
        pending = self._pending
        if not pending:
            self._buffer.waken()
        if 0 < size <= self._engine.body_max and size <= JOINED:
            assert isinstance(body, bytes)
            pending.append(
                b"".join(
                    (
                        address[0],
                        _IHHQ.pack(len(header) + 12, self._basic, 0, size),
                        header,
                        self._end,
                        self._body_start,
                        _I.pack(size),
                        body,
                        self._end,
                    )
                )
            )
            return
        pending.append(address[1])
        self.write_content(header, body)

    def _publish_in_class(self, message: Message, mandatory: bool, immediate: bool) -> bool:
        """Publish a message in the class that it is of, if that is one that the server says it has.
        Others refuse these classes (540), and get basic messages."""
        group = getattr(message.dialect, "group", "")
        if group not in self._engine.content_classes:
            return False
        return self.other_classes().publish(message, mandatory, immediate)

    def _publication(self, bits: str, exchange: str, key: str) -> tuple[bytes, bytes]:
        """The frame of a publish with the beginning of the content header, and without."""
        method = self._engine.table.by_name["basic.publish"]
        frames = self._engine.frames
        octets = method.prefix + b"\0\0" + short(exchange) + short(key) + bytes((int(bits),))
        frame = frames.frame(frames.method, self.number, octets)
        return self._keep((bits, exchange, key), (frame + self._header_start, frame))

    def _keep(self, key: tuple[str, str, str], entry: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        if len(self._addresses) >= ADDRESSES:
            self._addresses.clear()
        self._addresses[key] = entry
        return entry

    def _address(self, consumer: str, exchange: str, key: str) -> tuple[bytes, bytes]:
        """The octets before the delivery tag, and those after the redelivered flag up to and
        with the beginning of the content header."""
        method = self._engine.table.by_name["basic.deliver"]
        frames = self._engine.frames
        tag = short(consumer)
        route = short(exchange) + short(key)
        arguments = len(method.prefix) + len(tag) + 9 + len(route)
        start = frames.pack_head(frames.method, self.number, arguments) + method.prefix + tag
        return self._keep(
            (consumer, exchange, key), (start, route + self._end + self._header_start)
        )


def settled(name: str, m: Any, channel: int) -> Operation:
    """ack, nack or reject of a consumer."""
    if name == "basic.ack":
        return Settle(channel, m.delivery_tag, m.multiple, Outcome.ACCEPT)
    outcome = Outcome.RELEASE if m.requeue else Outcome.REJECT
    return Settle(channel, m.delivery_tag, name == "basic.nack" and m.multiple, outcome)


def confirmed(name: str, m: Any, channel: int) -> Operation:
    """ack or nack of a broker."""
    return Confirm(channel, m.delivery_tag, m.multiple, name == "basic.ack")


def short(text: str) -> bytes:
    """A short string with its length. Raises ``Unwritable``, or ``UnicodeEncodeError``."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > 255:
        raise Unwritable(f"a short string holds 255 octets, not {len(raw)}")
    return bytes((len(raw),)) + raw


_Q = Struct(">Q")
_QB = Struct(">QB")
_I = Struct(">I")
_IHHQ = Struct(">IHHQ")
