"""Header segments of 0-10 <-> the canonical properties.

The header of a message is its header segment as it came; a message without a body segment has
``NO_BODY`` before it: the kind of its body is "none". Properties that 0-10 lacks go into
application headers: the subject and the JMS type where the clients of Qpid expect them, everything
else under names that begin with ``x-amqp10-``; reading takes it back.
"""

from hashlib import md5
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from gateway.adapters.segments import splicing
from gateway.adapters.segments.decoding import read_map
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.essentials import (
    DELIVERY,
    MESSAGE,
    Arrived,
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
from gateway.adapters.segments.types import LATEST_SECONDS
from gateway.adapters.segments.wire.layouts import DeliveryProperties, MessageProperties, ReplyTo
from gateway.adapters.segments.wire.tables import STRUCTS, DeliveryMode
from gateway.bodies import Body
from gateway.message import DIALECTS, Essentials, ExpiringMessage, Message, Properties, Table
from gateway.values import Milliseconds

SUBJECT, TYPE = "qpid.subject", "x-jms-type"
OURS = "x-amqp10-"
BODY = OURS + "body"
MESSAGE_ID, CORRELATION_ID = OURS + "message-id", OURS + "correlation-id"
REPLY_TO = OURS + "reply-to"
JMS_ID = "ID:"
"""Before a UUID in the message ids that JMS clients see and copy into correlation ids."""
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
    (BODY, "body_kind", str),
)
"""Application header, property and its type, where 0-10 has no property of its own."""

NO_HEADER = (("body_kind", "data"), ("body_kind", "none"))
"""Properties that are seen in the segments."""

EXCHANGES, QUEUES = "/exchanges/", "/queues/"


class SegmentDialect:
    """The ``Dialect`` of header segments."""

    name = "0-10"

    def essentials(self, header: bytes) -> Essentials:
        return read_arrived(header).essentials

    def read(self, header: bytes) -> Properties:
        found = canonical(delivery_properties(header)[0], message_properties(header)[0])
        if header.startswith(NO_BODY):
            found.body_kind = "none"
        return found

    def write(self, properties: Properties) -> bytes:
        """delivery-properties first, as most readers expect; a struct without fields is left
        out."""
        header = NO_BODY if properties.body_kind == "none" else b""
        for code, record in zip((DELIVERY, MESSAGE), packed(properties), strict=True):
            octets = write_fields(STRUCTS[code], record)
            if octets != b"\0\0":
                header += coded(code, octets)
        return header

    def with_headers(self, header: bytes, added: Table) -> bytes:
        """Notes are application headers, behind those of the sender."""
        return with_headers(header, added)

    def rewrite(self, header: bytes, properties: Properties) -> bytes:
        return self.write(properties)

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
    if message.dialect is SEGMENTS and not message.added_headers:
        header, body = message.header, message.body
    else:
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


def published(
    message: Message, left: int | None = None, flags: int = 0
) -> tuple[bytes, Body | None]:
    """The same for a server, with ``flags`` as in ``splicing.published``. Hot."""
    header, body = message.form_for(SEGMENTS)
    absent = not body and header.startswith(NO_BODY)
    segment = splicing.published(header, message.exchange, message.key, left, flags)
    return segment, None if absent else body


# --- canonical properties -------------------------------------------------------------------------


def canonical(delivery: DeliveryProperties, message: MessageProperties) -> Properties:
    """The canonical view of the two structs. Raises ``FieldError``."""
    found = Properties()
    headers: Table | None = None
    if message.application_headers is not None:
        headers = read_map(message.application_headers)
    empty = not headers
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
    found.reply_to = _reply_to(message.reply_to, headers)
    found.message_id = _message_id(message.message_id, headers)
    found.correlation_id = _correlation_id(message.correlation_id, headers)
    if headers is not None:
        for header, name, kind in IN_HEADERS:
            value = headers.get(header)
            if isinstance(value, kind):
                setattr(found, name, plain(value))
                del headers[header]
        found.application = headers if headers or empty else None
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
        if message.reply_to is None or read_reply_to(message.reply_to) != properties.reply_to:
            extra[REPLY_TO] = properties.reply_to
    if properties.message_id is not None:
        message.message_id = uuid_of(properties.message_id).bytes
        if not isinstance(properties.message_id, UUID):
            extra[MESSAGE_ID] = properties.message_id
    if properties.correlation_id is not None:
        message.correlation_id = octets_of(properties.correlation_id)
        if _read_id(message.correlation_id) != properties.correlation_id:
            extra[CORRELATION_ID] = properties.correlation_id
    for header, name, _ in IN_HEADERS:
        value = getattr(properties, name)
        if value is not None and (name, value) not in NO_HEADER:
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


# --- reply addresses: in the forms of 1.0 that this gateway reads ---------------------------------


def read_reply_to(address: ReplyTo) -> str:
    """``/exchanges/exchange/key``; of the default exchange the key alone, or ``/queues/key`` if the
    key has slashes."""
    exchange, key = address.exchange or "", address.routing_key or ""
    if exchange:
        return f"{EXCHANGES}{_quoted(exchange)}/{_quoted(key)}"
    return f"{QUEUES}{_quoted(key)}" if "/" in key else key


def write_reply_to(text: str) -> ReplyTo | None:
    """The inverse, which reads ``exchange/key`` too; ``None`` if a name does not fit a str8."""
    if text.startswith(EXCHANGES):
        exchange, _, key = text.removeprefix(EXCHANGES).partition("/")
        exchange, key = _unquoted(exchange), _unquoted(key)
    elif text.startswith(QUEUES):
        exchange, key = "", _unquoted(text.removeprefix(QUEUES))
    else:
        exchange, slash, key = text.partition("/")
        if not slash:
            exchange, key = "", text
    if fitting(exchange) is None or fitting(key) is None:
        return None
    return ReplyTo(exchange, key)


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogateescape")


def _unquoted(name: str) -> str:
    return unquote(name, errors="surrogateescape")


def _reply_to(address: ReplyTo | None, headers: Table | None) -> str | None:
    """The address of the field; the text of the header, if it still stands for the field."""
    found = None if address is None else read_reply_to(address)
    if headers is None or not isinstance(headers.get(REPLY_TO), str):
        return found
    kept = str(headers[REPLY_TO])
    meant = write_reply_to(kept)
    if found is not None and (meant is None or read_reply_to(meant) != found):
        return found
    del headers[REPLY_TO]
    return kept


# --- ids ------------------------------------------------------------------------------------------


def uuid_of(value: Any) -> UUID:
    """The UUID of a message id; of any other id than a UUID one that is made of its octets, as
    Broker-J does it, for clients of 0-10 know no other ids."""
    known = value if isinstance(value, UUID) else jms_uuid(value)
    return known or UUID(bytes=md5(octets_of(value), usedforsecurity=False).digest(), version=3)


def jms_uuid(value: Any) -> UUID | None:
    """The UUID of a message id as JMS clients write it ("ID:" and the UUID)."""
    if not isinstance(value, str) or not value.startswith(JMS_ID):
        return None
    try:
        found = UUID(value.removeprefix(JMS_ID))
    except ValueError:
        return None
    return found if value == f"{JMS_ID}{found}" else None


def _message_id(octets: bytes | None, headers: Table | None) -> Any:
    """The id of the field; of the header, if it still stands for the field."""
    if headers is not None and MESSAGE_ID in headers:
        kept = headers[MESSAGE_ID]
        if octets is None or uuid_of(kept).bytes == octets:
            del headers[MESSAGE_ID]
            return kept
    return None if octets is None else UUID(bytes=octets)


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


def jms_id(value: Any) -> bytes | None:
    """The octets of a UUID as JMS clients write it in a correlation id."""
    return f"{JMS_ID}{value}".encode() if isinstance(value, UUID) else None


def _correlation_id(octets: bytes | None, headers: Table | None) -> Any:
    """The id of the field; of the header that has its type, if it still stands for the field."""
    if octets is None:
        return None
    if headers is not None and CORRELATION_ID in headers:
        kept = headers.pop(CORRELATION_ID)
        if octets in (octets_of(kept), jms_id(kept)):
            return kept
    return _read_id(octets)


def _instant(datetime: int | None, headers: Table | None, name: str) -> int | None:
    """A datetime in milliseconds; of the header that has all its digits, if it still agrees."""
    kept = headers.pop(name, None) if headers is not None else None
    if isinstance(kept, int) and (datetime is None or kept // 1000 == datetime):
        return int(kept)
    if datetime is not None and datetime > LATEST_SECONDS:
        return Milliseconds(datetime)
    return None if datetime is None else datetime * 1000


def _seconds(instant: int | None, extra: Table, name: str) -> int | None:
    """A datetime in seconds. A value that seconds cannot express goes to a header too."""
    if instant is None:
        return None
    if isinstance(instant, Milliseconds) and instant > LATEST_SECONDS:
        return int(instant)
    if instant % 1000 or instant < 0 or instant // 1000 > 10**11:
        extra[name] = int(instant)
    return instant // 1000 if 0 <= instant // 1000 <= 10**11 else None


SEGMENTS = SegmentDialect()
DIALECTS[SEGMENTS.name] = SEGMENTS
