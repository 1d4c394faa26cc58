"""The class-and-method family in recordings: 0-8, 0-9, 0-9-1, the drafts of 2005 and 2006, and the
transitional 0-10."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from gateway.adapters.core.trace_lines import HEADER_OCTETS
from gateway.adapters.methods.drafts.frames import EXTENDED
from gateway.adapters.methods.drafts.versions import DRAFTS, is_0_9a0
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.incoming_content import IncomingContent
from gateway.adapters.methods.trace import KINDS, decoding_of, record_of
from gateway.adapters.methods.wire.transitional import REQUEST_HEAD
from gateway.archive.method_messages import Composed, Staged, composer_of
from gateway.archive.references import PARTS, References
from gateway.archive.side import (
    DELIVERED,
    MOST_BODY,
    MOST_UNFINISHED,
    ODD,
    RETURNED,
    Broken,
    Side,
    text_of,
)
from gateway.bodies import Body, incoming_body
from gateway.errors import Condition, PeerError

CARRIED = ("request", "response")
LEAST_TAILLESS = 3
"""Frames in a row that end a lost stretch where no octet ends a frame."""
BETWEEN = (".ack", ".reject")
"""Methods that may stand between the frames of a content in the drafts."""
OURSELVES = ("test.content", "test.content-ok")
"""Contents that are no messages."""


class Unfinished(NamedTuple):
    """A content of which more is to come."""

    offset: int
    content: IncomingContent


class MethodSide(Side):
    """One direction of a connection."""

    def __init__(self, version: str, from_client: bool) -> None:
        super().__init__(from_client)
        self._table, read_table = decoding_of(version)
        self._draft = version in DRAFTS
        self._is_0_9a6 = self._draft and not is_0_9a0(version)
        geometry, numbers = self._table.geometry, self._table.constants
        self._kinds = {
            numbers[f"frame-{name}"]: name for name in KINDS if f"frame-{name}" in numbers
        }
        self._meta = numbers.get("frame-meta") if geometry.meta else None
        self._head, self._order = geometry.head, geometry.order
        self._tail = geometry.tail
        self._counted = len(geometry.tail) if geometry.size_counts_tail else 0
        self.ended = bool(self._tail)
        if not self.ended:
            self.chain = LEAST_TAILLESS
        self._composer = composer_of(version, read_table)
        self._references = References(self)
        self._staged = Staged(self)
        self._unfinished: dict[int, Unfinished | None] = {}
        """By channel. ``None``: the frames of this content are passed over."""
        self._open_octets = 0

    # --- frames -----------------------------------------------------------------------------------

    def _heading(self, buf: bytes, at: int) -> tuple[str, int, int, int] | None:
        """Kind, channel, begin of the payload and octets of it. Raises ``Broken``."""
        start = at + self._head.size
        if start > len(buf):
            return None
        parts = self._head.unpack_from(buf, at)
        kind, channel, size = (parts[place] for place in self._order)
        if kind == self._meta:
            if start + EXTENDED.size > len(buf):
                return None
            kind, _, channel, size = EXTENDED.unpack_from(buf, start)
            start += EXTENDED.size
        size -= self._counted
        name = self._kinds.get(kind)
        if name is None:
            whole = max(0, start + size + len(self._tail) - at)
            raise Broken(f"frame type {kind} is unknown", size=whole)
        if size < 0:
            raise Broken("a frame is smaller than its end")
        return name, channel, start, size

    def size(self, buf: bytes, at: int) -> int | None:
        if buf[at] == 0x41 and b"AMQP".startswith(buf[at : at + 4]):
            return HEADER_OCTETS
        heading = self._heading(buf, at)
        if heading is None:
            return None
        _, _, start, size = heading
        return start + size + len(self._tail) - at

    def likely(self, buf: bytes, at: int, end: int) -> bool:
        if buf[at] == 0x41:
            return buf[at : at + 5] == b"AMQP\0"
        heading = self._heading(buf, at)
        assert heading is not None
        name, _, start, size = heading
        if not buf.startswith(self._tail, end - len(self._tail)):
            return False
        if name in CARRIED:
            start, size = start + REQUEST_HEAD.size, size - REQUEST_HEAD.size
        if name == "method" or name in CARRIED:
            number = int.from_bytes(buf[start : start + 4], "big")
            if self._table.geometry.method.size != 4:
                number = buf[start] << 16 | buf[start + 1] if size > 1 else -1
            return size >= 4 and number in self._table.methods
        if name == "header":
            return size >= self._table.geometry.content.size
        return name in ("body", "heartbeat")

    def candidates(self, buf: bytes, at: int) -> Iterator[int]:
        if not self._tail:
            yield from range(at, len(buf))
            return
        while True:  # a frame begins where one ends
            at = buf.find(self._tail, at - 1 if at else 0) + 1
            if not at:
                return
            if at < len(buf):
                yield at
            at += 1

    def take(self, buf: bytes, at: int, end: int) -> None:
        heading = self._heading(buf, at) if buf[at] != 0x41 else None
        if heading is None:
            return
        name, channel, start, size = heading
        stop = start + size
        if buf[stop:end] != self._tail:
            text = f"a frame of {size} octets does not end with the frame end octet"
            raise Broken(text, size=end - at)
        offset = self.position(at)
        if name == "method":
            self._method(channel, buf[start:stop], offset, start - at)
        elif name in CARRIED:
            payload = buf[start + REQUEST_HEAD.size : stop]
            self._method(channel, payload, offset, start + REQUEST_HEAD.size - at)
        elif name == "header":
            self._content(channel, buf[start:stop], offset, True)
        elif name == "body":
            self._content(channel, buf[start:stop], offset, False)

    # --- methods ----------------------------------------------------------------------------------

    def _method(self, channel: int, payload: bytes, offset: int, before: int) -> None:
        layout = self._table.geometry.method
        if len(payload) < layout.size:
            raise ValueError("the method is cut short")
        group, number, *_ = layout.unpack_from(payload, 0)
        method = self._table.methods.get(group << 16 | number)
        if not (self._draft and method is not None and method.name.endswith(BETWEEN)):
            self._interrupted(channel, offset)
        if method is None:
            raise ValueError(f"method {group},{number} is unknown")
        try:
            name, record = record_of(self._table, method, payload, layout.size, self._is_0_9a6)
        except ODD as error:
            if not method.content or method.name in OURSELVES:
                raise
            self.messages += 1
            position = offset + before
            self.failed(offset, position, "method-broken", text_of(error), payload)
            self._unfinished[channel] = None
            return
        if method.content:
            self._begin(channel, method, record, offset)
        elif name in PARTS:
            self._references.take(channel, record, offset, self._compose_transfer)
        elif name.startswith("file."):
            self._staged.take(channel, method, record, offset, self._compose)

    def _begin(self, channel: int, method: Method, record: Any, offset: int) -> None:
        if method.name in OURSELVES:
            self._unfinished[channel] = None
            return
        if method.name != "file.stage":
            self.messages += 1
        check = self._composer.check(method)
        content = IncomingContent(method, record, MOST_BODY, partial(incoming_body, None), check)
        self._unfinished[channel] = Unfinished(offset, content)

    def _interrupted(self, channel: int, position: int) -> None:
        """A method where the rest of a content was due."""
        open_content = self._unfinished.pop(channel, None)
        if open_content is not None:
            self._give_up(open_content, position, "message-incomplete", "the rest did not come")

    # --- contents ---------------------------------------------------------------------------------

    def _content(self, channel: int, payload: bytes, offset: int, header: bool) -> None:
        if channel not in self._unfinished:
            self.messages += 1
            self._unfinished[channel] = None
            text = "a content whose method is not there"
            self.failed(offset, offset, "message-beginning-missing", text, payload)
            return
        unfinished = self._unfinished[channel]
        if unfinished is None:
            return
        content = unfinished.content
        try:
            if header:
                whole = content.on_header(self._table.geometry.content, payload)
            else:
                self._open_octets += len(payload)
                if self._open_octets > MOST_UNFINISHED:
                    text = "too many octets of unfinished messages"
                    raise PeerError(Condition.CONTENT_TOO_LARGE, text)
                whole = content.on_body(payload)
        except (PeerError, *ODD) as error:
            large = isinstance(error, PeerError) and error.condition is Condition.CONTENT_TOO_LARGE
            code = "message-too-large" if large else "content-broken"
            text = error.text if isinstance(error, PeerError) else text_of(error)
            self._unfinished[channel] = None
            self._give_up(unfinished, offset, code, text, payload)
            return
        if whole is not None:
            del self._unfinished[channel]
            self._open_octets = max(0, self._open_octets - len(whole[1]))
            self._complete(channel, unfinished, *whole)

    def _give_up(
        self, unfinished: Unfinished, position: int, code: str, text: str, wire: bytes = b""
    ) -> None:
        content = unfinished.content
        if content.sink is not None:
            self._open_octets = max(0, self._open_octets - getattr(content.sink, "have", 0))
        content.drop()
        if content.method.name == "file.stage":
            self._staged.spoiled(unfinished.offset, position, text)
        else:
            self.failed(unfinished.offset, position, code, text, wire)

    def _complete(self, channel: int, unfinished: Unfinished, header: bytes, body: Body) -> None:
        method, record = unfinished.content.method, unfinished.content.record
        known = unfinished.content.known
        if method.name == "file.stage":
            self._staged.staged(channel, header, body, self._compose)
            return
        self._compose(unfinished.offset, method, record, known, header, body)

    def _compose(
        self, offset: int, method: Method, record: Any, known: Any, header: bytes, body: Body
    ) -> None:
        """All of a message is here."""
        try:
            made = self._composer.compose(method, record, known, header, body)
        except (PeerError, *ODD) as error:
            text = error.text if isinstance(error, PeerError) else text_of(error)
            self.failed(offset, offset, "content-broken", text, header)
            return
        self._out(offset, method.name, made, body)

    def _compose_transfer(self, offset: int, record: Any, body: bytes) -> None:
        try:
            made = self._composer.transfer(record, self.from_client)
        except ODD as error:
            self.failed(offset, offset, "content-broken", text_of(error))
            return
        self._out(offset, "message.transfer", made, body)

    def _out(self, offset: int, name: str, made: Composed, body: Body) -> None:
        direction = self.direction
        if name.endswith((".return", ".bounce")):
            direction = RETURNED
        elif name.endswith((".deliver", "-ok")):
            direction = DELIVERED
        self.found(offset, direction, *made, body)

    def abandon(self, position: int, text: str) -> None:
        for channel, unfinished in self._unfinished.items():
            if unfinished is not None:
                self._give_up(unfinished, position, "message-incomplete", text)
                self._unfinished[channel] = None
        self._open_octets = 0
        self._references.abandon(position, text)
        self._staged.abandon(position, text)


def sides(version: str) -> tuple[Side, Side]:
    """The directions from the client and from the server."""
    return MethodSide(version, True), MethodSide(version, False)
