"""The form of 0-10: header segments, with the capsule in an application header.

Two headers are the same if their properties are: how long a content is, whether a datetime counts
seconds or milliseconds, and the order of structs make no difference.
"""

from gateway.adapters.segments.content import OURS as OURS_0_10
from gateway.adapters.segments.content import SEGMENTS, canonical
from gateway.adapters.segments.decoding import map_entries
from gateway.adapters.segments.essentials import DELIVERY, MESSAGE
from gateway.adapters.segments.operations import coded, structs, write_fields
from gateway.adapters.segments.splicing import (
    delivery_properties,
    message_properties,
    replaced,
    with_headers,
)
from gateway.adapters.segments.wire.layouts import DeliveryProperties, MessageProperties
from gateway.adapters.segments.wire.tables import STRUCTS
from gateway.crossing.capsule import Parts
from gateway.crossing.forms import CARRIERS_OCTETS, Legacy
from gateway.crossing.natural import OUR_ORIGIN
from gateway.crossing.sameness import same
from gateway.message import Properties

BINARIES = {0x90: 2, 0xA0: 4}
"""Types of binaries, and octets of their sizes."""


class SegmentForm(Legacy):
    """Header segments of 0-10."""

    def parts(self, header: bytes) -> Parts:
        """The fields but those that a broker writes anew, and the headers."""
        delivery, message = records(header)
        entries = [
            raw
            for name, raw in map_entries(message.application_headers or b"")
            if name != self.marker
        ]
        delivery.exchange = delivery.routing_key = delivery.ttl = None
        delivery.redelivered = False
        message.application_headers = None
        fields = b"".join(
            coded(code, octets)
            for code, record in ((DELIVERY, delivery), (MESSAGE, message))
            if (octets := write_fields(STRUCTS[code], record)) != b"\0\0"
        )
        return fields, b"".join(entries)

    def capsule_in(self, header: bytes) -> bytes | None:
        """The capsule, which is a binary."""
        message = message_properties(header)[0]
        for name, raw in map_entries(message.application_headers or b""):
            if name == self.marker:
                at = 1 + len(name)
                size = BINARIES.get(raw[at])
                return b"" if size is None else raw[at + 1 + size :]
        return None

    def with_capsule(self, header: bytes, octets: bytes) -> bytes:
        return with_headers(header, {OUR_ORIGIN: octets})

    def without_capsule(self, header: bytes) -> bytes:
        return without(header, (self.marker,)) if self.marker in header else header

    def native(self, header: bytes) -> bytes:
        return without(header, (self.marker, OURS_0_10.encode(), *CARRIERS_OCTETS))

    def same(self, one: bytes, other: bytes) -> bool:
        return one == other or not self._differences(one, other)

    def unequal(self, one: bytes, other: bytes) -> list[str]:
        return self._differences(one, other) or ["headers"]

    def _differences(self, one: bytes, other: bytes) -> list[str]:
        (mine, my_rest), (yours, your_rest) = view(one), view(other)
        found = [
            name
            for name in Properties.__slots__
            if not same(getattr(mine, name), getattr(yours, name))
        ]
        return found + (["structs"] if my_rest != your_rest else [])


def records(header: bytes) -> tuple[DeliveryProperties, MessageProperties]:
    """The two structs. Raises ``FieldError``."""
    return delivery_properties(header)[0], message_properties(header)[0]


def view(header: bytes) -> tuple[Properties, list[object]]:
    """The properties, and the other parts of the header: the fields for resuming, other structs,
    whether the body segment is absent. Raises ``FieldError``."""
    delivery, message = records(header)
    others = sorted(
        header[at - 2 : end] for code, at, end in structs(header) if code not in (DELIVERY, MESSAGE)
    )
    return canonical(delivery, message), [delivery.resume_id, delivery.resume_ttl, others]


def without(header: bytes, beginnings: tuple[bytes, ...]) -> bytes:
    """The header without application headers of these prefixes. Raises ``FieldError``."""
    record, at, end = message_properties(header)
    entries = map_entries(record.application_headers or b"")
    kept = [raw for name, raw in entries if not name.startswith(beginnings)]
    if len(kept) == len(entries):
        return header
    octets = len(kept).to_bytes(4, "big") + b"".join(kept)
    record.application_headers = octets if kept else None
    return replaced(header, at, end, MESSAGE, record)


SEGMENTS_FORM = SegmentForm(SEGMENTS)
