"""Header segments of 0-10 <-> the canonical properties.

The header of a message is its header segment as it came; a message without a body segment has
``NO_BODY`` before it. Properties that 0-10 lacks go into application headers: the subject and
the JMS type where the clients of Qpid expect them, everything else under names that begin with
``x-amqp10-``; reading takes it back.
"""

from typing import Any
from uuid import UUID

from gateway.adapters.segments.decoding import read_map
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.essentials import (
    DELIVERY,
    MESSAGE,
    Arrived,
    milliseconds,
    read_arrived,
)
from gateway.adapters.segments.operations import coded, write_fields
from gateway.adapters.segments.splicing import (
    NO_BODY,
    delivered,
    delivery_properties,
    message_properties,
    with_headers,
    without_ttl,
)
from gateway.adapters.segments.wire.layouts import DeliveryProperties, MessageProperties, ReplyTo
from gateway.adapters.segments.wire.tables import STRUCTS, DeliveryMode
from gateway.bodies import Body
from gateway.message import DIALECTS, Essentials, ExpiringMessage, Message, Properties, Table

SUBJECT, TYPE = "qpid.subject", "x-jms-type"
OURS = "x-amqp10-"
MESSAGE_ID, CORRELATION_ID = OURS + "message-id", OURS + "correlation-id"
REPLY_TO = OURS + "reply-to"
CREATION, EXPIRY = OURS + "creation-time", OURS + "absolute-expiry"

IN_HEADERS: tuple[tuple[str, str, type[Any]], ...] = (
    (SUBJECT, "subject", str),
    (TYPE, "type", str),
    (OURS + "to", "to", str),
    (OURS + "group-id", "group_id", str),
    (OURS + "group-sequence", "group_sequence", int),
    (OURS + "reply-to-group-id", "reply_to_group_id", str),
    (OURS + "cluster-id", "cluster_id", str),
    (OURS + "annotations", "annotations", dict),
    (OURS + "delivery-annotations", "delivery_annotations", dict),
    (OURS + "footer", "footer", dict),
    (OURS + "body", "body_kind", str),
)
"""Application header, property and its type, where 0-10 has no property of its own."""


class SegmentDialect:
    """The ``Dialect`` of header segments."""

    name = "0-10"

    def essentials(self, header: bytes) -> Essentials:
        return read_arrived(header).essentials

    def read(self, header: bytes) -> Properties:
        return canonical(delivery_properties(header)[0], message_properties(header)[0])

    def write(self, properties: Properties) -> bytes:
        """delivery-properties first, as most readers expect; a struct without fields is left
        out."""
        header = b""
        for code, record in zip((DELIVERY, MESSAGE), packed(properties), strict=True):
            octets = write_fields(STRUCTS[code], record)
            if octets != b"\0\0":
                header += coded(code, octets)
        return header

    def with_headers(self, header: bytes, added: Table) -> bytes:
        """Notes are application headers, behind those of the sender."""
        return with_headers(header, added)

    def everlasting(self, header: bytes) -> bytes:
        return without_ttl(header)


def received(known: Arrived, body: Body | None, exchange: str) -> Message:
    """The message of a transfer, from the ``Arrived`` of its header segment. ``exchange`` is
    the destination of a publish; of a delivery, ``known.exchange``. Hot."""
    octets = known.header if body is not None else NO_BODY + known.header
    return Message(SEGMENTS, octets, body or b"", exchange, known.key, known.essentials)


def sent(
    message: Message, left: int | None = None, redelivered: bool = False
) -> tuple[bytes, Body | None]:
    """Header and body segments for a receiver; ``None`` if there is no body segment. ``left``: the
    milliseconds until the message expires. Raises ``ValueError`` for a message of another version
    that cannot be written. Hot."""
    header, body = message.form_for(SEGMENTS)
    absent = not body and header.startswith(NO_BODY)
    segment = delivered(header, message.exchange, message.key, left, redelivered)
    return segment, None if absent else body


def cost(message: Message) -> int:
    """Octets of the header and body segments for a receiver, which is what the message takes of a
    credit in octets. Nothing if it cannot be written."""
    left = message.left if message.__class__ is ExpiringMessage else None
    try:
        header, body = sent(message, left)
    except ValueError:
        return 0
    return len(header) + (0 if body is None else len(body))


# --- canonical properties -------------------------------------------------------------------------


def canonical(delivery: DeliveryProperties, message: MessageProperties) -> Properties:
    """The canonical view of the two structs. Raises ``FieldError``."""
    found = Properties()
    headers: Table | None = None
    if message.application_headers is not None:
        headers = read_map(message.application_headers)
    if delivery.delivery_mode in (DeliveryMode.NON_PERSISTENT, DeliveryMode.PERSISTENT):
        found.durable = delivery.delivery_mode == DeliveryMode.PERSISTENT
    found.priority = delivery.priority
    found.ttl = delivery.ttl
    found.creation_time = _instant(delivery.timestamp, headers, CREATION)
    found.absolute_expiry_time = _instant(delivery.expiration or None, headers, EXPIRY)
    found.content_type = message.content_type
    found.content_encoding = message.content_encoding
    found.user_id = message.user_id
    if message.app_id is not None:
        found.app_id = message.app_id.decode("utf-8", "surrogateescape")
    if message.reply_to is not None:
        found.reply_to = read_reply_to(message.reply_to)
    elif headers is not None and isinstance(headers.get(REPLY_TO), str):
        found.reply_to = plain(headers.pop(REPLY_TO))
    if message.message_id is not None:
        found.message_id = UUID(bytes=message.message_id)
    elif headers is not None and MESSAGE_ID in headers:
        found.message_id = headers.pop(MESSAGE_ID)
    found.correlation_id = _correlation_id(message.correlation_id, headers)
    if headers is not None:
        for header, name, kind in IN_HEADERS:
            value = headers.get(header)
            if isinstance(value, kind):
                setattr(found, name, plain(value))
                del headers[header]
        found.application = headers
    return found


def packed(properties: Properties) -> tuple[DeliveryProperties, MessageProperties]:
    """The inverse of ``canonical``."""
    delivery, message = DeliveryProperties(), MessageProperties()
    extra: Table = {}
    if properties.durable is not None:
        modes = (DeliveryMode.NON_PERSISTENT, DeliveryMode.PERSISTENT)
        delivery.delivery_mode = modes[properties.durable]
    if properties.priority is not None:
        delivery.priority = min(max(properties.priority, 0), 255)
    delivery.ttl = properties.ttl
    delivery.timestamp = _seconds(properties.creation_time, extra, CREATION)
    delivery.expiration = _seconds(properties.absolute_expiry_time, extra, EXPIRY)
    message.content_type = fitting(properties.content_type)
    message.content_encoding = fitting(properties.content_encoding)
    message.user_id = properties.user_id
    if properties.app_id is not None:
        message.app_id = properties.app_id.encode("utf-8", "surrogateescape")
    if properties.reply_to is not None:
        message.reply_to = write_reply_to(properties.reply_to)
        if message.reply_to is None:
            extra[REPLY_TO] = properties.reply_to
    if isinstance(properties.message_id, UUID):
        message.message_id = properties.message_id.bytes
    elif properties.message_id is not None:
        extra[MESSAGE_ID] = properties.message_id
    if properties.correlation_id is not None:
        message.correlation_id = octets_of(properties.correlation_id)
        if _read_id(message.correlation_id) != properties.correlation_id:
            extra[CORRELATION_ID] = properties.correlation_id
    for header, name, _ in IN_HEADERS:
        value = getattr(properties, name)
        if value is not None and (name, value) != ("body_kind", "data"):
            extra[header] = value
    if properties.application is not None or extra:
        message.application_headers = write_map({**(properties.application or {}), **extra})
    return delivery, message


def plain(value: Any) -> Any:
    """A value as the canonical properties have it, without the type that it had in a map."""
    if isinstance(value, str):
        return str(value)
    return int(value) if isinstance(value, int) else value


def fitting(text: str | None) -> str | None:
    """A property that is dropped rather than cut when it does not fit a str8."""
    if text is None or len(text.encode("utf-8", "surrogateescape")) < 256:
        return text
    return None


def read_reply_to(address: ReplyTo) -> str:
    """``exchange/key``, or the key alone of the default exchange; a slash before a key that has
    slashes itself."""
    exchange, key = address.exchange or "", address.routing_key or ""
    return f"{exchange}/{key}" if exchange or "/" in key else key


def write_reply_to(text: str) -> ReplyTo | None:
    """The inverse; ``None`` if a name does not fit a str8."""
    exchange, slash, key = text.partition("/")
    if not slash:
        exchange, key = "", text
    if fitting(exchange) is None or fitting(key) is None:
        return None
    return ReplyTo(exchange, key)


def _read_id(octets: bytes) -> str | bytes:
    """A correlation id: text if it is UTF-8, as clients write it."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


def octets_of(value: Any) -> bytes:
    """The octets of a correlation id of any type."""
    if isinstance(value, bytes):
        return bytes(value)
    return str(value).encode("utf-8", "surrogateescape")


def _correlation_id(octets: bytes | None, headers: Table | None) -> Any:
    """The id of the field; of the header that has its type, if it still stands for the field."""
    if octets is None:
        return None
    if headers is not None and CORRELATION_ID in headers:
        kept = headers.pop(CORRELATION_ID)
        if octets_of(kept) == octets:
            return kept
    return _read_id(octets)


def _instant(datetime: int | None, headers: Table | None, name: str) -> int | None:
    """A datetime in milliseconds; of the header that has all its digits, if it still agrees."""
    kept = headers.pop(name, None) if headers is not None else None
    if isinstance(kept, int) and (datetime is None or kept // 1000 == datetime):
        return int(kept)
    return None if datetime is None else milliseconds(datetime)


def _seconds(instant: int | None, extra: Table, name: str) -> int | None:
    """A datetime in seconds. A value that seconds cannot express goes to a header too."""
    if instant is None:
        return None
    if instant % 1000 or instant < 0 or instant // 1000 > 10**11:
        extra[name] = int(instant)
    return instant // 1000 if 0 <= instant // 1000 <= 10**11 else None


SEGMENTS = SegmentDialect()
DIALECTS[SEGMENTS.name] = SEGMENTS
