"""Frames of the transitional 0-10: the receive loop with the three carriers, and the write side.

A method comes in a method frame (27 July), or in a request or response frame (24 July), which has a
head of 20 octets before class and method. Programs of either day send both. A publish of which all
has come, in one body frame, is taken in one step. An unfinished frame is kept as a list of pieces
and not looked at again before it is complete.
"""

from typing import Protocol

from gateway.adapters.core.frame_reader import ALL
from gateway.adapters.core.output import JOINED
from gateway.adapters.methods.frames import compiled
from gateway.adapters.methods.geometry import Version
from gateway.adapters.methods.transitional.versions import Carried
from gateway.adapters.methods.wire.transitional import (
    REQUEST,
    REQUEST_HEAD,
    RESPONSE,
    RESPONSE_HEAD,
)
from gateway.errors import Condition, PeerError
from gateway.operations import Operation

LEAST_METHOD = 4
"""Octets of class and method."""


class Link(Protocol):
    """The receiver of complete frames. All of its methods raise ``PeerError``."""

    def on_method(
        self,
        channel: int,
        carried: Carried | None,
        buf: bytes,
        at: int,
        end: int,
        found: list[Operation],
    ) -> None:
        """``carried``: the head of a request or response; ``None`` for a plain method."""
        ...

    def on_header(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None: ...

    def on_body(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None: ...


class Hot(Protocol):
    """The receiver of whole messages: those whose method begins with ``prefix``, whose content is
    of the class ``group``, and whose body has ``most`` octets."""

    prefix: bytes
    group: int
    most: int

    def take(
        self, number: int, method: bytes, properties: bytes, body: bytes, found: list[Operation]
    ) -> bool:
        """Whether it was taken; if not, its frames are received one by one."""
        ...


class Frames:
    """The framing of one connection, both ways."""

    def __init__(self, version: Version, link: Link, limit: int, hot: Hot | None = None) -> None:
        """``limit``: octets of the largest payload that is received. It has to hold a whole message
        of a client that does not split messages, even beyond the negotiated frame size."""
        geometry, numbers = version.geometry, version.constants
        self._link = link
        self._hot = hot
        self._head = geometry.head
        self._end = geometry.tail
        self._content = geometry.content
        content = compiled(geometry.head.format + geometry.content.format.lstrip(">"))
        self._pack_content, self._unpack_content = content.pack, content.unpack_from
        self.method = numbers["frame-method"]
        self.header = numbers["frame-header"]
        self.body = numbers["frame-body"]
        self.heartbeat = numbers["frame-heartbeat"]
        self.overhead = geometry.head.size + len(geometry.tail)
        self.limit = limit
        self.most_at_once, self.unread = ALL, False
        self.waiting = False
        """Nothing is read until ``resume``."""
        self._behind = b""
        """Octets that came meanwhile."""
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._needed = 0

    # --- reading ---------------------------------------------------------------------------------

    def feed(self, data: bytes, found: list[Operation]) -> None:
        """All complete frames of these octets. Raises ``PeerError``; ``found`` keeps the operations
        of the frames before the one that is wrong."""
        waiting = self.waiting
        if waiting:
            self._behind += data
            return
        at = 0
        pieces = self._pieces
        while pieces:
            missing = self._needed - self._gathered
            pieces.append(data[at : at + missing])
            self._gathered += len(pieces[-1])
            if len(pieces[-1]) < missing:
                return
            at += missing
            frame = b"".join(pieces)
            pieces.clear()
            if self._walk(frame, 0, found) < len(frame):
                pieces.append(frame)  # only its length is known by now
                self._gathered = len(frame)
            elif self.waiting:
                self._behind = data[at:]
                return
        at = self._walk(data, at, found)
        if self.waiting:
            self._behind = data[at:]
        elif at < len(data):
            pieces.append(data[at:])
            self._gathered = len(data) - at

    def resume(self, found: list[Operation]) -> None:
        """Read the octets that came while ``waiting``."""
        self.waiting = self.unread = False
        data, self._behind = self._behind, b""
        if data:
            self.feed(data, found)

    def stop(self) -> None:
        """Forget the octets that have not been read."""
        self._behind = b""
        self._pieces.clear()
        self._gathered = 0

    @property
    def held(self) -> int:
        """Octets of the unfinished frame."""
        return self._gathered if self._pieces else 0

    def _walk(self, buf: bytes, at: int, found: list[Operation]) -> int:
        """Where the first unfinished frame begins."""
        size, head = len(buf), self._head.size
        unpack, end_octet = self._head.unpack_from, self._end[0]
        method, behind = self.method, head + REQUEST_HEAD.size
        prefix = b"" if self._hot is None else self._hot.prefix
        ahead = self.most_at_once
        while True:
            if not ahead:
                self.waiting = self.unread = True
                return at
            ahead -= 1
            if size - at < head:
                self._needed = head
                return at
            kind, channel, length = unpack(buf, at)
            if length > self.limit:
                raise PeerError(
                    Condition.FRAME_ERROR, f"a frame of {length} octets, {self.limit} are allowed"
                )
            end = at + head + length
            if end >= size:
                self._needed = end + 1 - at
                return at
            if buf[end] != end_octet:
                raise PeerError(Condition.FRAME_ERROR, "the frame end octet is missing")
            if prefix and kind in (method, REQUEST):
                start = at + (head if kind == method else behind)
                if buf.startswith(prefix, start):
                    stop = self._message(channel, buf, start, end, found)
                    if stop:
                        at = stop
                        continue
            self._frame(kind, channel, buf, at + head, end, found)
            at = end + 1
            if self.waiting:
                return at

    def _message(self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]) -> int:
        """Take the method at ``at`` and the content behind it, and return where that ends; 0 if
        that cannot be done in one step. Hot."""
        hot, size, head, end_octet = self._hot, len(buf), self._head.size, self._end[0]
        assert hot is not None
        properties = end + 1 + head + self._content.size
        if properties >= size:
            return 0
        kind, other, length, group, _, octets = self._unpack_content(buf, end + 1)
        last: int = end + 1 + head + length
        if (
            kind != self.header
            or other != channel
            or group != hot.group
            or last >= size
            or last < properties
            or buf[last] != end_octet
            or length > self.limit
            or octets > hot.most
            or octets > self.limit
        ):
            return 0
        body, stop = b"", last
        if octets:
            begin = last + 1 + head
            stop = begin + octets
            if stop >= size or buf[stop] != end_octet:
                return 0
            if self._head.unpack_from(buf, last + 1) != (self.body, channel, octets):
                return 0
            body = buf[begin:stop]
        if not hot.take(channel, buf[at:end], buf[properties:last], body, found):
            return 0
        return stop + 1

    def _frame(
        self, kind: int, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """One complete frame whose payload is ``buf[at:end]``."""
        link = self._link
        if kind in (REQUEST, RESPONSE):
            if end - at < REQUEST_HEAD.size + LEAST_METHOD:
                raise PeerError(Condition.FRAME_ERROR, "a request or response without a method")
            identifier, other, batch = REQUEST_HEAD.unpack_from(buf, at)
            carried = Carried(kind == RESPONSE, identifier, other, batch)
            link.on_method(channel, carried, buf, at + REQUEST_HEAD.size, end, found)
        elif kind == self.method:
            if end - at < LEAST_METHOD:
                raise PeerError(Condition.FRAME_ERROR, "a method frame without a method")
            link.on_method(channel, None, buf, at, end, found)
        elif kind == self.header:
            if end - at < self._content.size:
                raise PeerError(Condition.FRAME_ERROR, "a content header is cut short")
            link.on_header(channel, buf, at, end, found)
        elif kind == self.body:
            link.on_body(channel, buf, at, end, found)
        elif kind == self.heartbeat:
            if channel:
                raise PeerError(Condition.FRAME_ERROR, "a heartbeat on a channel")
        else:
            raise PeerError(Condition.FRAME_ERROR, f"frame type {kind} is unknown")

    # --- writing ---------------------------------------------------------------------------------

    def frame(self, kind: int, channel: int, payload: bytes) -> bytes:
        """One frame."""
        return self._head.pack(kind, channel, len(payload)) + payload + self._end

    def method_frame(self, channel: int, carried: Carried | None, payload: bytes) -> bytes:
        """The frame of a method; ``payload`` begins with class and method."""
        if carried is None:
            return self.frame(self.method, channel, payload)
        kind = RESPONSE if carried.is_response else REQUEST
        head = RESPONSE_HEAD.pack(carried.identifier, carried.other, carried.batch)
        return self.frame(kind, channel, head + payload)

    def content_header(self, channel: int, group: int, header: bytes, size: int) -> bytes:
        """The frame before a body of so many octets; ``header``: property flags and properties."""
        return self.frame(self.header, channel, self._content.pack(group, 0, size) + header)

    def message(
        self,
        channel: int,
        carried: Carried | None,
        method: bytes,
        group: int,
        header: bytes,
        body: bytes,
    ) -> tuple[bytes, ...]:
        """The frames of a method with its content, whose body fits a frame and is not empty. A body
        that is not small is a piece of its own and not copied. Hot."""
        pack, end, size = self._head.pack, self._end, len(body)
        kind, head = self.method, b""
        if carried is not None:
            kind = RESPONSE if carried.is_response else REQUEST
            head = RESPONSE_HEAD.pack(carried.identifier, carried.other, carried.batch)
        octets = self._content.size + len(header)
        pieces = (
            pack(kind, channel, len(head) + len(method)), head, method, end,
            self._pack_content(self.header, channel, octets, group, 0, size), header, end,
            pack(self.body, channel, size),
        )  # fmt: skip
        if size <= JOINED:
            return (b"".join((*pieces, body, end)),)
        return b"".join(pieces), body, end
