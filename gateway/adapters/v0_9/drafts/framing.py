"""The frames of the drafts, both ways: one plain loop over any geometry.

0-9a0 has no end octet, a one-octet channel, and announces large frames and high channels by a meta
frame; 0-9a6 counts its end octet and has an octet between type and channel. Neither has traffic
that would want the other loop's short cuts.
"""

from struct import Struct
from typing import Protocol

from gateway.adapters.v0_9.geometry import Version
from gateway.errors import Condition, PeerError
from gateway.operations import Operation

EXTENDED = Struct(">BBHQ")
"""Type, flags, channel and size of the frame behind a meta frame (0-9a0)."""


class Link(Protocol):
    """Where frames go. All raise ``PeerError``."""

    def on_method(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None: ...

    def on_header(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None: ...

    def on_body(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None: ...


class DraftFrames:
    """The framing of one connection. ``limit``: the largest payload that is taken."""

    def __init__(self, version: Version, link: Link) -> None:
        geometry, numbers = version.geometry, version.constants
        self._geometry = geometry
        self._link = link
        self._counted = len(geometry.tail) if geometry.size_counts_tail else 0
        self._widest = 0xFFFF if geometry.meta else 0xFFFF_FFFF
        self._highest = 0xFF if geometry.meta else 0xFFFF
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
        self.limit = 0
        self._kept = bytearray()
        self._needed = 0
        self._stopped = False

    def feed(self, data: bytes, found: list[Operation]) -> None:
        """All complete frames of what came. Raises ``PeerError``; ``found`` keeps what was good."""
        self._stopped = False
        kept = self._kept
        if kept:
            kept += data
            if len(kept) < self._needed:
                return
            data = bytes(kept)
            kept.clear()
        at = self._walk(data, found)
        if at < len(data) and not self._stopped:
            kept += data[at:]

    def stop(self) -> None:
        """Forget what has not been looked at."""
        self._kept.clear()
        self._stopped = True

    @property
    def held(self) -> int:
        """Octets of the unfinished frame."""
        return len(self._kept)

    def _walk(self, buf: bytes, found: list[Operation]) -> int:
        """Where the first unfinished frame begins."""
        geometry = self._geometry
        head, tail, order = geometry.head.size, geometry.tail, geometry.order
        at, size = 0, len(buf)
        while True:
            start = at + head
            self._needed = start - at
            if start > size:
                return at
            parts = geometry.head.unpack_from(buf, at)
            kind, channel, length = (parts[place] for place in order)
            if kind == self._meta:
                if channel or length:
                    raise PeerError(Condition.FRAME_ERROR, "a meta frame is not empty")
                start += EXTENDED.size
                self._needed = start - at
                if start > size:
                    return at
                kind, flags, channel, length = EXTENDED.unpack_from(buf, start - EXTENDED.size)
                if kind == self._meta or flags:
                    raise PeerError(Condition.FRAME_ERROR, "a meta frame announces no other frame")
            length -= self._counted
            if length < 0 or length > self.limit:
                raise PeerError(
                    Condition.FRAME_ERROR, f"a frame of {length} octets, {self.limit} are allowed"
                )
            end = start + length
            if kind not in self._kinds:
                raise PeerError(Condition.FRAME_ERROR, f"frame type {kind} is unknown")
            self._needed = end + len(tail) - at
            if end + len(tail) > size:
                if self._kinds[kind].startswith("oob"):
                    self._frame(kind, channel, buf, start, end, found)
                return at
            if buf[end : end + len(tail)] != tail:
                raise PeerError(Condition.FRAME_ERROR, "the frame end octet is missing")
            self._frame(kind, channel, buf, start, end, found)
            at = end + len(tail)

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
        if len(payload) > self._widest - self._counted or channel > self._highest:
            announced = geometry.head.pack(self._meta, 0, 0)
            return announced + EXTENDED.pack(kind, 0, channel, len(payload)) + payload
        parts = [0] * (3 if len(geometry.heartbeat) == 4 else 4)
        for place, value in zip(
            geometry.order, (kind, channel, len(payload) + self._counted), strict=True
        ):
            parts[place] = value
        return geometry.head.pack(*parts) + payload + geometry.tail

    def content_header(self, number: int, weight: int, size: int, properties: bytes) -> bytes:
        """The payload of a content header frame."""
        return self._geometry.content.pack(number, weight, size) + properties

    def bodies(self, channel: int, body: bytes, largest: int) -> list[bytes]:
        """Body frames with at most ``largest`` octets each; none for an empty body."""
        return [
            self.frame(self.body, channel, body[at : at + largest])
            for at in range(0, len(body), largest)
        ]
