"""The frames of the drafts, both ways: one loop over any geometry.

0-9a0 has no end octet, a one-octet channel, and announces large frames and high channels by a meta
frame; 0-9a6 counts its end octet and has an octet between type and channel. A publish or a delivery
of which all has come, in one body frame and without children, is taken in one step;
others go frame by frame.
"""

from struct import Struct
from typing import Any, Protocol

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.frame_reader import ALL
from gateway.adapters.methods import states
from gateway.adapters.methods.contents.methods import ContentMethod
from gateway.adapters.methods.contents.outline import Known
from gateway.adapters.methods.frames import Link
from gateway.adapters.methods.geometry import Geometry, Method, Version
from gateway.errors import Condition, PeerError
from gateway.operations import Operation

EXTENDED = Struct(">BBHQ")
"""Type, flags, channel and size of the frame behind a meta frame (0-9a0)."""

PART = 64 * 1024
"""A larger body frame is passed on as it comes: 0-9a6 does not negotiate how large frames may
be."""


class BadFrame(PeerError):
    """The octets are no frame, so that the peer is disconnected without a reply: a type that is not
    defined, or no frame end where one is due (0-9a0 §3.4.4, 0-9a6 "The Frame Header Wire
    Format")."""

    def __init__(self, text: str) -> None:
        super().__init__(Condition.FRAME_ERROR, text)


class DraftLink(Link, Protocol):
    """Receiver of all frames, and of whole messages. All raise ``PeerError``."""

    def read_content_method(self, buf: bytes, at: int, end: int) -> ContentMethod | None: ...

    def on_message(
        self,
        channel: Any,
        method: ContentMethod,
        tag: int,
        redelivered: bool,
        known: Known,
        body: bytes,
        found: list[Operation],
    ) -> None: ...


METHODS = 2048
"""How many methods of each draft are remembered."""

_HOT: dict[tuple[str, bool], tuple[dict[bytes, int], BoundedCache[bytes, ContentMethod]]] = {}
"""By version, and whether it is the server: the methods that are taken in one step, and
methods with content by their octets.
Connections share them (one thread)."""


class DraftFrames:
    """The framing of one connection. ``limit``: the largest payload that is taken; ``body_limit``,
    of a body frame, of which no more than ``PART`` octets stand here at once."""

    def __init__(
        self,
        version: Version,
        link: DraftLink,
        server: bool = True,
        channels: dict[int, Any] | None = None,
        max_body: int = 0,
    ) -> None:
        """``server``: publishes are expected, else deliveries. ``max_body``: the largest body that
        is taken in one step."""
        geometry, numbers = version.geometry, version.constants
        self._geometry = geometry
        self._link = link
        self._server = server
        self._channels = {} if channels is None else channels
        self._max_body = max_body
        if (version.name, server) not in _HOT:
            _HOT[version.name, server] = (hot_of(version, server), BoundedCache(METHODS))
        self._hot, self._content_methods = _HOT[version.name, server]
        head = head_of(geometry)
        self.pack_head = head.pack
        self._unpack_head = head.unpack_from
        content = Struct(head.format + geometry.content.format.lstrip(">"))
        self.pack_content = content.pack
        self._unpack_content = content.unpack_from
        self.content_octets = geometry.content.size
        self._head, self._fixed = head.size, geometry.method.size
        self.tail = geometry.tail
        self._prefix = len(next(iter(version.methods.values())).prefix)
        self.counted = len(geometry.tail) if geometry.size_counts_tail else 0
        self.widest = 0xFFFF if geometry.meta else 0xFFFF_FFFF
        self.highest = 0xFF if geometry.meta else 0xFFFF
        self._meta = numbers.get("frame-meta", -1)
        self._kinds = {
            numbers[f"frame-{name}"]: name
            for name in (
                "method", "header", "body", "oob-method", "oob-header", "oob-body", "trace",
                "heartbeat",
            )
        }  # fmt: skip
        self.method = numbers["frame-method"]
        self.header = numbers["frame-header"]
        self.body = numbers["frame-body"]
        self.overhead = geometry.head.size + len(geometry.tail)
        self.limit = self.body_limit = 0
        self._under_way: tuple[int, int] | None = None
        """A body frame of which something is missing, and the rest was given on: its channel, and
        how many octets of its payload are to come."""
        self._kept = bytearray()
        self._needed = 0
        self._stopped = False
        self.most_at_once, self.unread = ALL, False
        self.waiting = False
        """Nothing is looked at until ``resume``."""

    def feed(self, data: bytes, found: list[Operation]) -> None:
        """All complete frames of the octets. Raises ``PeerError``; ``found`` keeps the operations
        before."""
        self._stopped = False
        kept = self._kept
        if self.waiting:
            kept += data
            return
        if kept:
            kept += data
            if len(kept) < self._needed:
                return
            data = bytes(kept)
            kept.clear()
        at = 0
        if self._under_way is not None:
            at = self._resume(data, found)
        if self._under_way is None:
            at = self._walk(data, found, at)
        if at < len(data) and not self._stopped:
            kept += data[at:]

    def _resume(self, data: bytes, found: list[Operation]) -> int:
        """Give on more of the body frame that is under way; where that ends. Its last octet waits
        for the frame end, as a whole frame does."""
        assert self._under_way is not None
        channel, left = self._under_way
        closing = len(self.tail)
        size = len(data)
        at = left if size >= left + closing else min(size, left - 1)
        self._needed = closing + 1
        if at < left:
            if at:
                self._under_way = channel, left - at
                self._link.on_body(channel, data, 0, at, found)
            return at
        if data[left : left + closing] != self.tail:
            raise BadFrame("the frame end octet is missing")
        self._under_way = None
        self._link.on_body(channel, data, 0, left, found)
        return left + closing

    def resume(self, found: list[Operation]) -> None:
        """Read the octets that came while ``waiting``."""
        self.waiting = self.unread = False
        data = bytes(self._kept)
        self._kept.clear()
        if data:
            self.feed(data, found)

    def stop(self) -> None:
        """Discard octets that have not been read."""
        self._kept.clear()
        self._under_way = None
        self._stopped = True

    @property
    def held(self) -> int:
        """Octets of the unfinished frame."""
        return len(self._kept)

    def _walk(self, buf: bytes, found: list[Operation], at: int = 0) -> int:
        """Where the first unfinished frame begins."""
        head, tail, counted = self._head, self.tail, self.counted
        unpack, prefix, hot = self._unpack_head, self._prefix, self._hot
        meta, method, closing = self._meta, self.method, len(tail)
        size = len(buf)
        ahead = self.most_at_once
        while True:
            if not ahead:
                self.waiting = self.unread = True
                return at
            ahead -= 1
            start = at + head
            if start > size:
                self._needed = head
                return at
            kind, channel, length = unpack(buf, at)
            if kind == meta:
                if channel or length:
                    raise PeerError(Condition.FRAME_ERROR, "a meta frame is not empty")
                start += EXTENDED.size
                self._needed = start - at
                if start > size:
                    return at
                kind, flags, channel, length = EXTENDED.unpack_from(buf, start - EXTENDED.size)
                if kind == meta or flags:
                    raise PeerError(Condition.FRAME_ERROR, "a meta frame announces no other frame")
            length -= counted
            if kind not in self._kinds:
                raise BadFrame(f"frame type {kind} is unknown")
            if length < 0 or length > self.limit:
                self._check_size(kind, length)
            end = start + length
            stop: int = end + closing
            if stop > size:
                if kind == self.body and length > PART:
                    # Only now: a frame that is whole is not taken apart.
                    self._under_way = channel, length
                    return start + self._resume(buf[start:], found)
                self._needed = stop - at
                if self._kinds[kind].startswith("oob"):
                    self._frame(kind, channel, buf, start, end, found)
                return at
            if buf[end:stop] != tail:
                raise BadFrame("the frame end octet is missing")
            if kind == method:
                varying = hot.get(buf[start : start + prefix])
                if varying is not None:
                    behind = self._message(channel, buf, start, end, varying, found)
                    if behind:
                        at = behind
                        continue
            self._frame(kind, channel, buf, start, end, found)
            at = stop
            if self.waiting:
                return at

    def _check_size(self, kind: int, length: int) -> None:
        """A frame is larger than others may be."""
        limit = self.body_limit if kind == self.body else self.limit
        if length < 0:
            raise BadFrame("a frame has no room for its end")
        if length > limit:
            text = f"a frame of {length} octets, {limit} are allowed"
            raise PeerError(Condition.FRAME_ERROR, text)

    def _message(
        self, channel: int, buf: bytes, start: int, end: int, varying: int, found: list[Operation]
    ) -> int:
        """Take the method at ``start`` and the content behind it, and return where that ends; 0
        if that cannot be done in one step. Hot: two look-ups save the decoding."""
        open_channel = self._channels.get(channel)
        if (
            open_channel is None
            or open_channel.state is not states.OPEN
            or open_channel.content is not None
        ):
            return 0
        size, tail, counted, limit = len(buf), self.tail, self.counted, self.limit
        closing = len(tail)
        at = end + closing
        properties = at + self._head + self.content_octets
        if properties >= size:
            return 0
        kind, other, length, _, weight, octets = self._unpack_content(buf, at)
        length -= counted
        behind = at + self._head + length
        last: int = behind + closing
        if (
            kind != self.header
            or other != channel
            or weight
            or length > limit
            or octets > limit
            or octets > self._max_body
            or last > size
            or buf[behind:last] != tail
        ):
            return 0
        body = b""
        if octets:
            begin = last + self._head
            stop = begin + octets
            at, last = last, stop + closing
            if last > size or buf[stop:last] != tail:
                return 0
            if self._unpack_head(buf, at) != (self.body, channel, octets + counted):
                return 0
            body = buf[begin:stop]
        raw = buf[start:end]
        tag, redelivered = 0, False
        if varying:
            at = start + self._fixed
            tag = int.from_bytes(buf[at : at + 8], "big")
            redelivered = varying > 8 and buf[at + 8] & 1 == 1
            raw = buf[start:at] + buf[at + varying : end]
        method = self._content_methods.get(raw)
        if method is None:
            method = self._link.read_content_method(buf, start, end)
            if method is None:
                return 0
            self._content_methods.keep(raw, method)
        raw = buf[properties:behind]
        known = method.dialect.headers.get(raw)
        if known is None:
            try:
                known = method.dialect.arrived(raw) if self._server else method.dialect.known(raw)
            except ValueError:
                return 0
        self._link.on_message(open_channel, method, tag, redelivered, known, body, found)
        return last

    def _frame(
        self, kind: int, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        name = self._kinds[kind]
        if name == "method":
            self._link.on_method(channel, buf, at, end, found)
        elif name == "header":
            self._link.on_header(channel, buf, at, end, found)
        elif name == "body":
            self._link.on_body(channel, buf, at, end, found)
        elif name == "heartbeat":
            if channel or end > at:
                raise PeerError(Condition.FRAME_ERROR, "a heartbeat with a channel or a body")
        elif name != "trace":
            raise PeerError(
                Condition.NOT_IMPLEMENTED, "an out-of-band frame, and no such transport is set up"
            )

    # --- writing ---------------------------------------------------------------------------------

    def frame(self, kind: int, channel: int, payload: bytes) -> bytes:
        """One frame, announced by a meta frame if it must be."""
        geometry = self._geometry
        if len(payload) > self.widest - self.counted or channel > self.highest:
            announced = geometry.head.pack(self._meta, 0, 0)
            return announced + EXTENDED.pack(kind, 0, channel, len(payload)) + payload
        head = self.pack_head(kind, channel, len(payload) + self.counted)
        return head + payload + self.tail

    def content_header(self, number: int, weight: int, size: int, properties: bytes) -> bytes:
        """The payload of a content header frame."""
        return self._geometry.content.pack(number, weight, size) + properties

    def bodies(self, channel: int, body: bytes, largest: int) -> list[bytes]:
        """Body frames with at most ``largest`` octets each; none for an empty body."""
        return [
            self.frame(self.body, channel, body[at : at + largest])
            for at in range(0, len(body), largest)
        ]


def head_of(geometry: Geometry) -> Struct:
    """The frame header as type, channel and size, without the fields between them."""
    letters = geometry.head.format.lstrip(">")
    kept = (letter if at in geometry.order else "x" for at, letter in enumerate(letters))
    return Struct(">" + "".join(kept))


def hot_of(version: Version, server: bool) -> dict[bytes, int]:
    """The methods that bring messages to this side, and how many octets of their arguments are
    another with each message."""
    return {
        method.prefix: varying(method)
        for method in version.methods.values()
        if method.content
        and method.name.endswith(".publish" if server else ".deliver")
        and (method.from_client if server else method.from_server)
    }


def varying(method: Method) -> int:
    """A delivery's tag has 8 octets, and whether it was delivered before one."""
    fields = method.record.__slots__[:2]
    if fields[:1] != ("delivery_tag",):
        return 0
    return 9 if fields[1:] == ("redelivered",) else 8
