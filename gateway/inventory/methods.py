"""Frames of the class-and-method family: 0-8, 0-9, 0-9-1, the drafts of 2005 and 2006, and the
transitional 0-10."""

from functools import cache
from typing import Any, NamedTuple

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.trace_lines import HEADER_OCTETS
from gateway.adapters.methods.drafts.frames import EXTENDED
from gateway.adapters.methods.drafts.versions import DRAFTS, is_0_9a0
from gateway.adapters.methods.trace import KINDS, decoding_of, record_of
from gateway.adapters.methods.wire.transitional import REQUEST_HEAD
from gateway.inventory.counts import Remembered
from gateway.inventory.cutting import LARGEST, Cut, Frames, Undecodable
from gateway.inventory.method_facts import MethodFacts
from gateway.inventory.observer import Observer

CARRIED = ("request", "response")
DECODED = ("method", "header", *CARRIED)


class Pending(NamedTuple):
    """A method whose content follows."""

    name: str
    record: Any


LONGEST_PUBLISH = 1_024
"""Octets of a method that is remembered until its content comes. Two names of 255 octets are the
most that a publish has; a tunnel's may be larger, and its content is not counted then."""


@cache
def publishes_of(version: str) -> BoundedCache[bytes, Pending]:
    """Publishes by their octets, for all connections of a version."""
    return BoundedCache(1_024)


class Head(NamedTuple):
    """The header of a frame."""

    kind: str
    channel: int
    before: int
    """Octets before the payload."""
    size: int


class Direction(Frames):
    """One direction of a connection."""

    def __init__(self, version: str, facts: MethodFacts, from_client: bool) -> None:
        super().__init__()
        self._table, _ = decoding_of(version)
        self._facts = facts
        self._from_client = from_client
        self._is_0_9a6 = version in DRAFTS and not is_0_9a0(version)
        numbers = self._table.constants
        self._kinds = {
            numbers[f"frame-{name}"]: name for name in KINDS if f"frame-{name}" in numbers
        }
        geometry = self._table.geometry
        self._meta = numbers.get("frame-meta") if geometry.meta else None
        self._head_layout, self._head_octets = geometry.head, geometry.head.size
        self._of_kind, self._of_channel, self._of_size = geometry.order
        self._tail, self._tail_octets = geometry.tail, len(geometry.tail)
        self._counted = len(geometry.tail) if geometry.size_counts_tail else 0
        self._head = Head("", 0, 0, 0)
        """Of the frame that was cut last."""
        self._publishes = publishes_of(version)
        self._pending: Remembered[int, Pending] = Remembered(facts.share)

    def cut(self, buf: bytes, at: int) -> Cut | None:
        if buf[at] == ord("A"):
            if len(buf) - at < HEADER_OCTETS and b"AMQP".startswith(buf[at : at + 4]):
                return None
            if buf[at : at + 4] == b"AMQP":
                self._head = Head("", 0, 0, 0)
                return Cut(HEADER_OCTETS, HEADER_OCTETS)
        start = at + self._head_octets
        if start > len(buf):
            return None
        parts = self._head_layout.unpack_from(buf, at)
        kind, channel, size = parts[self._of_kind], parts[self._of_channel], parts[self._of_size]
        if kind == self._meta:
            if start + EXTENDED.size > len(buf):
                return None
            kind, _, channel, size = EXTENDED.unpack_from(buf, start)
            start += EXTENDED.size
        size -= self._counted
        if size < 0:
            raise Undecodable("a frame is smaller than its end")
        name = self._kinds.get(kind)
        if name is None:
            raise Undecodable(f"frame type {kind} is unknown")
        before = start - at
        whole = before + size + self._tail_octets
        self._head = Head(name, channel, before, size)
        return Cut(whole, whole if name in DECODED and size <= LARGEST else before)

    def take(self, buf: bytes, at: int, frame: Cut) -> None:
        name, channel, before, size = self._head
        if name not in DECODED:
            return
        if frame.wanted < frame.size:
            self._facts.too_large(name)
            return
        start = at + before
        stop = start + size
        if buf[stop : stop + self._tail_octets] != self._tail:
            raise Undecodable("a frame does not end with the frame end octet")
        payload = buf[start:stop]
        if name == "header":
            self._header(channel, payload)
            return
        self._method(channel, payload[REQUEST_HEAD.size :] if name in CARRIED else payload)

    def _method(self, channel: int, payload: bytes) -> None:
        known = self._publishes.get(payload)
        if known is not None:
            self._pending.put(channel, known)
            self._facts.method(self._from_client, channel, *known)
            return
        layout = self._table.geometry.method
        group, number, *_ = layout.unpack_from(payload, 0)
        method = self._table.methods.get(group << 16 | number)
        if method is None:
            self._facts.unknown(group, number)
            return
        name, record = record_of(self._table, method, payload, layout.size, self._is_0_9a6)
        name = name.partition(" ")[0]
        if method.content and len(payload) <= LONGEST_PUBLISH:
            pending = Pending(name, record)
            self._pending.put(channel, pending)
            if name.endswith(".publish"):
                self._publishes.keep(payload, pending)
        self._facts.method(self._from_client, channel, name, record)

    def _header(self, channel: int, payload: bytes) -> None:
        """A content header; those of children in the drafts have no method of their own."""
        pending = self._pending.drop(channel)
        if pending is None:
            return
        layout = self._table.geometry.content
        named, _, size = layout.unpack_from(payload, 0)
        method = self._table.by_name[pending.name]
        contents = self._table.contents
        content = contents.get(method.number >> 16) or contents.get(named)
        if content is None:
            return
        key = payload[layout.size :]
        self._facts.content(
            self._from_client, channel, *pending, size, key, lambda: content.read(key, 0)[0]
        )


def decoder(version: str, observer: Observer) -> tuple[Frames, Frames]:
    """The decoders of the client's octets and of the broker's."""
    facts = MethodFacts(observer, decoding_of(version)[1], version)
    return Direction(version, facts, True), Direction(version, facts, False)
