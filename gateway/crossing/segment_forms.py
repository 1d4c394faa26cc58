"""The form of 0-10: header segments, with the capsule in an application header.

Two headers are the same if their properties are: how long a content is, whether a datetime counts
seconds or milliseconds, and the order of structs make no difference.
"""

from typing import Any
from urllib.parse import quote
from uuid import UUID

from gateway.adapters.segments.content import (
    BODY,
    EXCHANGES,
    JMS_ID,
    QUEUES,
    SEGMENTS,
    SUBJECT,
    TYPE,
    canonical,
    jms_uuid,
    uuid_of,
)
from gateway.adapters.segments.content import OURS as OURS_0_10
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
from gateway.crossing import jms
from gateway.crossing.capsule import Parts
from gateway.crossing.forms import CARRIERS_OCTETS, SECTIONS_FORM, Form, Legacy
from gateway.crossing.natural import ID_PREFIX, OUR_ORIGIN, Habits, queue_of
from gateway.crossing.references import References
from gateway.crossing.sameness import same
from gateway.crossing.types import SEGMENT_NATIVES, from_segments
from gateway.message import Properties
from gateway.values import Milliseconds

TABLES = ("application", "annotations", "delivery_annotations", "footer")

SUBJECT_OCTETS, TYPE_OCTETS = SUBJECT.encode(), TYPE.encode()

BINARIES = {0x90: 2, 0xA0: 4}
"""Types of binaries, and octets of their sizes."""


class SegmentForm(Legacy):
    """Header segments of 0-10. Readers of older versions get JMS ids and binding URLs. 1.0 has
    UUIDs, addresses and the types of 0-10 itself: nothing goes through basic properties."""

    habits = Habits(SEGMENT_NATIVES, segments=True)

    def read(self, header: bytes) -> Properties:
        found = self.dialect.read(header)
        if isinstance(found.message_id, UUID):
            found.message_id = f"{JMS_ID}{found.message_id}"
        found.correlation_id = jms.raw_id(found.correlation_id)
        found.reply_to = queue_of(jms.to_binding_url(found.reply_to))
        return found

    def write(self, found: Properties) -> bytes:
        found.message_id = jms_uuid(found.message_id) or found.message_id
        found.correlation_id = jms.octets_in(found.correlation_id)
        if found.reply_to is not None:
            found.reply_to = _address(found.reply_to)
        if found.body_kind == "none":
            found.application = found.application or None
        if isinstance(found.creation_time, Milliseconds):
            found.absolute_expiry_time = jms.in_milliseconds(found.absolute_expiry_time)
        return self.dialect.write(found)

    def for_sections(self, header: bytes) -> Properties:
        found = self.dialect.read(header)
        for name in TABLES:
            setattr(found, name, from_segments(getattr(found, name)))
        if found.subject is None and jms.short_text(found.type):
            found.subject = found.type
        if isinstance(found.message_id, UUID):
            found.annotations = {**(found.annotations or {}), ID_PREFIX: JMS_ID}
        return found

    def from_sections(self, found: Properties) -> bytes:
        headers = found.application or {}
        if headers.get(BODY) == "none":
            found.body_kind = headers.pop(BODY)
            found.application = headers or None
        return self.dialect.write(found)

    def reference_to(self, found: Properties) -> tuple[str, Any] | None:
        """JMS clients of 0-10 write "ID:" and the UUID."""
        id_ = found.message_id
        if id_ is None or found.reply_to is None:
            return None
        text = f"{JMS_ID}{uuid_of(id_)}"
        return None if text == id_ else (text, id_)

    def refer(self, found: Properties, references: References) -> None:
        """Other clients write the UUID alone."""
        text = found.correlation_id
        if type(text) is str:
            found.correlation_id = references.get(text, references.get(f"{JMS_ID}{text}", text))

    def unsettled(self, header: bytes, source: Form) -> tuple[str, ...]:
        """A correlation id of octets that are no text: older versions have it as it is; 1.0 has a
        binary, which becomes text before 1.0 (``AMQP_BINARY:80``). A subject without a type: it is
        the type before 1.0 if it comes from there by way of 1.0, else a header."""
        message = message_properties(header)[0]
        headers, id_ = message.application_headers or b"", message.correlation_id
        if source is not SECTIONS_FORM and jms.raw_id(id_) is not id_:
            return ("correlation-id",)
        if SUBJECT_OCTETS in headers:
            names = {name for name, _ in map_entries(headers)}
            if SUBJECT_OCTETS in names and TYPE_OCTETS not in names:
                return ("subject",)
        return ()

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


def _address(text: str) -> str | None:
    """The 1.0 address of a reply address of the versions before 0-10, where any other text than
    binding URLs and such addresses is the name of a queue."""
    address = jms.from_binding_url(text)
    if address != text or "/" not in text or text.startswith((EXCHANGES, QUEUES)):
        return address
    return f"{QUEUES}{quote(text, safe='', errors='surrogateescape')}"


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
    found = canonical(delivery, message)
    for name in ("creation_time", "absolute_expiry_time"):
        instant = getattr(found, name)
        setattr(found, name, None if instant is None else int(instant))
    return found, [delivery.resume_id, delivery.resume_ttl, others]


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
