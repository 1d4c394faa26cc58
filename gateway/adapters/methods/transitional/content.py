"""Messages of the transitional 0-10 <-> basic properties, in which all versions of the family keep
their messages.

``message.transfer`` has its properties among its arguments: empty text and 0 stand for those that
are not set. Those that basic properties do not have are kept in headers, and go out as they came.
The class ``basic`` has the properties of 0-9-1 without the last one. Headers go out in the letters
that the programs of July 2007 read.
"""

from typing import Any

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.templates import Templates, template
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC, read_header
from gateway.adapters.methods.contents.dialect import KEPT
from gateway.adapters.methods.essentials import EPOCH_LIMIT, arrived, expiration, value_places
from gateway.adapters.methods.splicing import with_headers, without_header
from gateway.adapters.methods.tags import FieldError, TooManyValues
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.bodies import Body
from gateway.message import Essentials, Message, Table

ALIKE = (
    "content_type", "content_encoding", "priority", "correlation_id", "reply_to", "message_id",
    "timestamp", "type", "user_id", "app_id", "delivery_mode",
)  # fmt: skip
"""Properties that have the same name and type in a transfer."""

TRANSACTION, TOKEN = KEPT + "transaction-id", KEPT + "security-token"
TTL, EXPIRATION, LENGTH = KEPT + "ttl", KEPT + "expiration", KEPT + "content-length"
NUMBERS = {TTL: "ttl", EXPIRATION: "expiration", LENGTH: "content_length"}
LAST_DATE = 10**19
"""Milliseconds from which on a date is too long for an expiration."""
KEPT_OCTETS = KEPT.encode()
DIGITS = 20
"""Of the largest number of a field."""

_HEADERS: BoundedCache[bytes, bytes] = BoundedCache()
"""Properties as they came -> as this version has them."""
_UNCHANGED: Templates[bool] = Templates()
"""Properties that are the same in this version."""


def arrived_header(header: bytes) -> tuple[bytes, Essentials]:
    """Basic properties of a client, with headers by letter. Raises ``ValueError``."""
    try:
        return header, arrived(header)
    except TooManyValues:
        raise
    except FieldError:
        properties = read_header(header)
        properties.headers = fields.write_table(types.read_arguments(properties.headers or b""))
        written = write_basic_properties(properties)
        return written, arrived(written)


def header_of(m: w.MessageTransfer) -> tuple[bytes, Essentials]:
    """The properties of a transfer. Raises ``ValueError``."""
    properties = BasicProperties(headers=m.application_headers or None)
    for name in ALIKE:
        value = getattr(m, name)
        if value:
            setattr(properties, name, value)
    ttl, expiration = m.ttl, m.expiration
    if ttl and ttl <= EPOCH_LIMIT:
        properties.expiration, ttl = str(ttl), 0
    elif expiration and not ttl and EPOCH_LIMIT < expiration * 1000 < LAST_DATE:
        properties.expiration, expiration = str(expiration * 1000), 0  # an absolute time
    header, essentials = arrived_header(write_basic_properties(properties))
    if ttl or expiration or m.content_length or m.transaction_id or m.security_token:
        header = with_headers(header, kept(m, ttl, expiration))
        essentials = arrived(header)
    return header, essentials


def kept(m: w.MessageTransfer, ttl: int, expiration: int) -> Table:
    """The properties that basic properties do not have, as headers; a ``ttl`` that is more than
    they take, and an ``expiration`` beside one. Numbers are text: no letter of July 2007 is wide
    enough."""
    found: Table = {}
    if ttl:
        found[TTL] = str(ttl)
    if expiration:
        found[EXPIRATION] = str(expiration)
    if m.content_length:
        found[LENGTH] = str(m.content_length)
    if m.transaction_id:
        found[TRANSACTION] = m.transaction_id
    if m.security_token:
        found[TOKEN] = m.security_token
    return found


def restore(m: w.MessageTransfer, header: bytes) -> bytes:
    """Set the properties that were kept; returns the header without them. Raises ``FieldError``."""
    headers = read_header(header).headers
    for name, value in fields.read_table(headers or b"").items():
        if name == TOKEN and isinstance(value, bytes):
            m.security_token = value
        elif name == TRANSACTION and isinstance(value, str) and fits(value):
            m.transaction_id = value
        elif name in NUMBERS and number(value) is not None:
            setattr(m, NUMBERS[name], int(value))
        else:
            continue
        header = without_header(header, name.encode())
    return header


def number(value: Any) -> int | None:
    """The number of a field, if a header has one."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= DIGITS:
        found = int(value)
        return None if found >> 64 else found
    return None


def fits(text: str) -> bool:
    """Whether it is a short string."""
    return len(text.encode("utf-8", "surrogateescape")) <= 255


def form_of(message: Message) -> tuple[bytes, Body]:
    """Basic properties and body of any message for the class ``basic``. Raises ``ValueError``."""
    header, body = message.form_for(BASIC)
    if _UNCHANGED.find(header):
        return header, body
    known = _HEADERS.get(header)
    if known is None:
        properties = read_header(header)
        properties.cluster_id = None
        if properties.headers is not None:
            properties.headers = lettered(properties.headers)
        known = _HEADERS.keep(header, write_basic_properties(properties))
        if known == header:  # so its headers have letters whose values are written as they are
            _UNCHANGED.keep(header, lambda: template(header, value_places(header), True))
    return known, body


def lettered(entries: bytes) -> bytes:
    """Headers in the letters of July 2007; unchanged if they are. Raises ``FieldError``."""
    return types.write_table(fields.read_table(entries))


def transfer_of(
    message: Message, destination: str, redelivered: bool
) -> tuple[w.MessageTransfer, Body]:
    """The transfer of a message to a consumer, without its body. Raises ``ValueError``."""
    header, body = form_of(message)
    m = w.MessageTransfer(
        destination=destination,
        redelivered=redelivered,
        exchange=message.exchange,
        routing_key=message.key,
    )
    if KEPT_OCTETS in header:
        header = restore(m, header)
    properties = read_header(header)
    m.application_headers = properties.headers or b""
    for name in ALIKE:
        value: Any = getattr(properties, name)
        if value is not None:
            setattr(m, name, value)
    when = expiration(properties.expiration)
    if when is not None and when > EPOCH_LIMIT:
        m.expiration = when // 1000
    elif when is not None:
        m.ttl = when
    return m, body
