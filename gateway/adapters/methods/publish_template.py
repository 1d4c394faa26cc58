"""Publishes like one before: on the same channel, with the same method, and a header like its own.

Most publishers write all of their publishes alike. The octets that they share with one that was
read are compared, and only header and body are taken out (0-9-1 §2.3.5, §4.2.6).
"""

from struct import Struct

from gateway.adapters.core.templates import Template
from gateway.adapters.methods.content import BASIC
from gateway.message import Essentials, Message, WireRun

PATIENCE = 8
"""So many times none that is like it has followed, and another template is made."""

BODY_SIZE = 8
"""Octets of the size of a body, in front of the header."""
BODY_FRAME = 8
"""Octets from the end octet of the header to the body: that octet, type, channel and size."""

Route = tuple[str, str, bool, bool]
"""Exchange, key, mandatory, immediate."""


class PublishTemplate:
    """The frames of a publish up to its body, which is in one frame."""

    __slots__ = (
        "misses", "_around", "_before", "_between", "_counts", "_end_octet", "_essentials",
        "_header", "_route", "_size", "_unpack",
    )  # fmt: skip

    def __init__(
        self,
        head: bytes,
        header: bytes,
        counts: int,
        route: Route,
        essentials: Essentials,
        like: Template[Essentials] | None,
    ) -> None:
        """``head``: the octets up to the body. The size of a body frame counts ``counts`` octets
        more than the body. ``like``: headers like the one that ends ``head``; without it, or if
        that one is not like them, only equal ones are taken."""
        widths: tuple[int, ...] = (len(header),)
        around: tuple[bytes, ...] = (header,)
        if like is not None and like.unconditional and like.values(header) is not None:
            widths, around, essentials = like.widths, like.around, like.found
        self.misses = 0
        self._route, self._header, self._essentials = route, header, essentials
        self._around, self._counts, self._size = around, counts, len(head)
        self._before = head[: -BODY_FRAME - len(header) - BODY_SIZE]
        between = head[-BODY_FRAME:-4]
        self._between, self._end_octet = between, between[0]
        values = "".join(f"{width}s" for width in widths)
        self._unpack = Struct(f">{len(self._before)}sQ{values}{len(between)}sI").unpack_from

    def wire(self, buf: bytes, begin: int, end: int, count: int) -> WireRun:
        """So many publishes that are like it, and where they stand."""
        size_at = len(self._before)
        return WireRun(buf, begin, end, count, self._size, size_at, len(self._header))

    def run(self, buf: bytes, at: int, most: int, found: list[Message]) -> int:
        """Add the messages of the publishes from ``at`` on that are like it and whole, and have a
        body of ``most`` octets at most. Where the next frame begins. Hot."""
        unpack, before, between, around = self._unpack, self._before, self._between, self._around
        size, counts, end_octet = self._size, self._counts, self._end_octet
        exchange, key, _, _ = self._route
        header, essentials, add = self._header, self._essentials, found.append
        header_at = len(before) + BODY_SIZE
        header_end = header_at + len(header)
        end = len(buf)
        last = end - size - 1
        while at < last:
            parts = unpack(buf, at)
            octets = parts[1]
            start = at + size
            stop = start + octets
            if (
                parts[0] != before
                or parts[2:-2:2] != around
                or parts[-2] != between
                or parts[-1] != octets + counts
                or not 0 < octets <= most
                or stop >= end
                or buf[stop] != end_octet
            ):
                break
            if not buf.startswith(header, at + header_at):  # equal headers are kept once
                header = buf[at + header_at : at + header_end]
            add(Message(BASIC, header, buf[start:stop], exchange, key, essentials))
            at = stop + 1
        return at
