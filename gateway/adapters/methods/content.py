"""Fourteen basic properties of the class-and-method family <-> the canonical properties.

0-8, 0-9 and 0-9-1 write them alike, so one dialect ("0-9-1") serves all three and a message crosses
between them untouched. Properties without a legacy field (subject, group, annotations, times
that are not whole seconds) go into headers that begin with ``x-amqp10-``; reading takes it back.
"""

import struct
from hashlib import sha256
from typing import Any
from uuid import UUID

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.essentials import (
    EPOCH_LIMIT,
    PERSISTENT,
    BadExpiration,
    expiration,
    read_essentials,
)
from gateway.adapters.methods.splicing import with_headers, without_expiration
from gateway.adapters.methods.wire.layouts import (
    BasicProperties,
    read_basic_properties,
    write_basic_properties,
)
from gateway.message import DIALECTS, Essentials, Properties, Table
from gateway.values import Milliseconds, ULong

OURS = "x-amqp10-"
SUBJECT, TO = OURS + "subject", OURS + "to"
REPLY_GROUP, GROUP = OURS + "reply-to-group-id", OURS + "group-id"
GROUP_SEQUENCE = OURS + "group-sequence"
EXPIRY, CREATION = OURS + "absolute-expiry", OURS + "creation-time"
ANNOTATIONS, DELIVERY_ANNOTATIONS = OURS + "annotations", OURS + "delivery-annotations"
FOOTER, BODY = OURS + "footer", OURS + "body"
MESSAGE_ID, CORRELATION_ID = OURS + "message-id", OURS + "correlation-id"
USER_ID, REPLY_TO = OURS + "user-id", OURS + "reply-to"

REFERENCE = "AMQP_REF:"
"""Before the digest of an id that stands in a header, because its field is too short for it."""

IN_HEADERS = (
    (SUBJECT, "subject"),
    (TO, "to"),
    (GROUP, "group_id"),
    (GROUP_SEQUENCE, "group_sequence"),
    (REPLY_GROUP, "reply_to_group_id"),
    (EXPIRY, "absolute_expiry_time"),
    (CREATION, "creation_time"),
    (ANNOTATIONS, "annotations"),
    (DELIVERY_ANNOTATIONS, "delivery_annotations"),
    (FOOTER, "footer"),
    (BODY, "body_kind"),
    (MESSAGE_ID, "message_id"),
    (CORRELATION_ID, "correlation_id"),
    (USER_ID, "user_id"),
    (REPLY_TO, "reply_to"),
)
"""Where a property goes that has no legacy field, or does not fit the one it has."""

KINDS: dict[str, type[Any] | tuple[type[Any], ...]] = {
    "group_sequence": int,
    "absolute_expiry_time": int,
    "creation_time": int,
    "annotations": dict,
    "delivery_annotations": dict,
    "footer": dict,
    "user_id": bytes,
    "message_id": (str, bytes),
    "correlation_id": (str, bytes),
}


def read_header(header: bytes) -> BasicProperties:
    """The properties as they stand on the wire. Raises ``ValueError``."""
    try:
        properties, end = read_basic_properties(header, 0)
    except (struct.error, IndexError) as error:
        raise ValueError("the properties are cut short") from error
    if end != len(header):
        raise ValueError("the properties do not end where the frame ends")
    return properties


class BasicDialect:
    """The ``Dialect`` of basic properties."""

    name = "0-9-1"

    def essentials(self, header: bytes) -> Essentials:
        return read_essentials(header)

    def read(self, header: bytes) -> Properties:
        wire = read_header(header)
        return canonical(wire, None if wire.headers is None else fields.read_table(wire.headers))

    def write(self, properties: Properties) -> bytes:
        wire, headers = legacy(properties)
        if headers is not None:
            wire.headers = fields.write_table(headers)
        return write_basic_properties(wire)

    def with_headers(self, header: bytes, added: Table) -> bytes:
        """Notes are headers, behind those of the sender."""
        return with_headers(header, added)

    def rewrite(self, header: bytes, properties: Properties) -> bytes:
        return self.write(properties)

    def everlasting(self, header: bytes) -> bytes:
        return without_expiration(header)


def canonical(wire: BasicProperties, headers: Table | None) -> Properties:
    """The canonical view of these; ``headers`` decoded."""
    found = Properties()
    if headers is not None:
        _take_ours(headers, found)
        found.application = headers
    if wire.delivery_mode in (1, PERSISTENT):
        found.durable = wire.delivery_mode == PERSISTENT
    found.priority = wire.priority
    _read_times(wire, found)
    found.content_type = wire.content_type
    found.content_encoding = wire.content_encoding
    if wire.correlation_id is not None:
        found.correlation_id = _id_of(wire.correlation_id, found.correlation_id)
    if wire.message_id is not None:
        found.message_id = _id_of(wire.message_id, found.message_id)
    if wire.reply_to is not None:
        found.reply_to = wire.reply_to
    found.type = wire.type
    if wire.user_id is not None:
        found.user_id = wire.user_id.encode("utf-8", "surrogateescape")
    found.app_id = wire.app_id
    found.cluster_id = wire.cluster_id
    return found


def legacy(properties: Properties) -> tuple[BasicProperties, Table | None]:
    """The inverse of ``canonical``."""
    wire = BasicProperties()
    extra: Table = {}
    if properties.durable is not None:
        wire.delivery_mode = PERSISTENT if properties.durable else 1
    if properties.priority is not None:
        wire.priority = min(max(properties.priority, 0), 255)
    _write_times(properties, wire, extra)
    wire.content_type = _short(properties.content_type)
    wire.content_encoding = _short(properties.content_encoding)
    wire.type = _short(properties.type)
    wire.app_id = _short(properties.app_id)
    wire.cluster_id = _short(properties.cluster_id)
    wire.reply_to = _text_or_header(properties.reply_to, REPLY_TO, extra)
    wire.correlation_id = _id_or_header(properties.correlation_id, CORRELATION_ID, extra)
    wire.message_id = _id_or_header(properties.message_id, MESSAGE_ID, extra)
    if properties.user_id is not None:
        if len(properties.user_id) < 256:
            wire.user_id = properties.user_id.decode("utf-8", "surrogateescape")
        else:
            extra[USER_ID] = properties.user_id
    for header, name in IN_HEADERS[:5]:
        value = getattr(properties, name)
        if value is not None:
            extra[header] = value
    for header, name in IN_HEADERS[7:11]:
        value = getattr(properties, name)
        if value is not None and value != "data":
            extra[header] = value
    if properties.application is not None or extra:
        return wire, {**(properties.application or {}), **extra}
    return wire, None


def _take_ours(headers: Table, found: Properties) -> None:
    """Move properties back that we once put into headers."""
    for header, name in IN_HEADERS:
        value = headers.get(header)
        if value is not None and isinstance(value, KINDS.get(name, str)):
            setattr(found, name, int(value) if isinstance(value, int) else value)
            del headers[header]


def _read_times(wire: BasicProperties, found: Properties) -> None:
    if wire.timestamp is not None and found.creation_time is None:
        stamp = wire.timestamp
        found.creation_time = Milliseconds(stamp) if stamp > EPOCH_LIMIT else stamp * 1000
    elif wire.timestamp is not None and found.creation_time // 1000 != wire.timestamp:  # type: ignore[operator]
        found.creation_time = wire.timestamp * 1000  # somebody wrote a new timestamp: theirs counts
    try:
        ttl = expiration(wire.expiration)
    except BadExpiration:
        ttl = None
    if ttl is not None and ttl > EPOCH_LIMIT:
        found.absolute_expiry_time = ttl
    else:
        found.ttl = ttl


def _write_times(properties: Properties, wire: BasicProperties, extra: Table) -> None:
    created = properties.creation_time
    if isinstance(created, Milliseconds):
        wire.timestamp = created
    elif created is not None and created >= 0:
        wire.timestamp = created // 1000
        if created % 1000:
            extra[CREATION] = int(created)
    elif created is not None:
        extra[CREATION] = int(created)
    expiry = properties.absolute_expiry_time
    if properties.ttl is not None:
        wire.expiration = str(properties.ttl)
        if expiry is not None:
            extra[EXPIRY] = int(expiry)
    elif expiry is not None and expiry > EPOCH_LIMIT:
        wire.expiration = str(expiry)
    elif expiry is not None:
        extra[EXPIRY] = int(expiry)


# --- ids: text that names its own type, because peers copy it into other messages -----------------


def read_id(text: str) -> Any:
    """The id of this text; text that is not canonical stays text."""
    if text.startswith("urn:uuid:"):
        try:
            uuid = UUID(text[9:])
        except ValueError:
            return text
        return uuid if text == f"urn:uuid:{uuid}" else text
    if not text.startswith("AMQP_"):
        return text
    kind, colon, rest = text.partition(":")
    if kind == "AMQP_ULONG" and rest.isascii() and rest.isdigit() and len(rest) < 21:
        number = int(rest)
        return ULong(number) if str(number) == rest and number < 1 << 64 else text
    if kind == "AMQP_BINARY":
        try:
            octets = bytes.fromhex(rest)
        except ValueError:
            return text
        return octets if octets.hex() == rest else text
    if kind == "AMQP_STRING" and colon and not _is_plain(rest):
        return rest
    return text


def _is_plain(text: str) -> bool:
    """Does this text stand for itself?"""
    value = read_id(text)
    return type(value) is str and value == text


def write_id(value: Any) -> str:
    """The inverse of ``read_id``."""
    if isinstance(value, str):
        return str(value) if _is_plain(value) else f"AMQP_STRING:{value}"
    if isinstance(value, UUID):
        return f"urn:uuid:{value}"
    if isinstance(value, int):
        return f"AMQP_ULONG:{int(value)}"
    if isinstance(value, bytes):
        return f"AMQP_BINARY:{value.hex()}"
    return str(value)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _short(text: str | None) -> str | None:
    """A property that is dropped rather than cut when it does not fit."""
    return text if text is None or _size(text) < 256 else None


def _text_or_header(text: str | None, header: str, extra: Table) -> str | None:
    if text is not None and _size(text) > 255:
        extra[header] = text
        return None
    return text


def reference(value: Any) -> str:
    """A digest in place of an id that is too long for its field."""
    octets = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
    return REFERENCE + sha256(octets).hexdigest()


def _id_of(text: str, kept: Any) -> Any:
    """The id of a field; ``kept`` is that of a header, which counts if the field refers to it."""
    if kept is not None and text.startswith(REFERENCE) and text == reference(kept):
        return kept
    return read_id(text)


def _id_or_header(value: Any, header: str, extra: Table) -> str | None:
    if value is None:
        return None
    text = write_id(value)
    if _size(text) > 255:
        extra[header] = value
        return reference(value)
    return text


BASIC = BasicDialect()
DIALECTS[BASIC.name] = BASIC
