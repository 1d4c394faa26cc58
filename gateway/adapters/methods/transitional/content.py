"""Messages of the transitional 0-10 <-> basic properties, in which all versions of the family keep
their messages.

``message.transfer`` has its properties among its arguments: empty text and 0 stand for those that
are not set. The class ``basic`` has the properties of 0-9-1 without the last one. Headers go out in
the letters that the programs of July 2007 read.
"""

from typing import Any

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC, read_header
from gateway.adapters.methods.essentials import EPOCH_LIMIT, arrived, expiration
from gateway.adapters.methods.tags import FieldError, TooManyValues
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.bodies import Body
from gateway.message import Essentials, Message

ALIKE = (
    "content_type", "content_encoding", "priority", "correlation_id", "reply_to", "message_id",
    "timestamp", "type", "user_id", "app_id", "delivery_mode",
)  # fmt: skip
"""Properties that have the same name and type in a transfer."""

_HEADERS: BoundedCache[bytes, bytes] = BoundedCache()
"""Properties as they came -> as this version has them."""


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
    if m.ttl:
        properties.expiration = str(m.ttl)
    elif m.expiration * 1000 > EPOCH_LIMIT:
        properties.expiration = str(m.expiration * 1000)  # an absolute time
    return arrived_header(write_basic_properties(properties))


def form_of(message: Message) -> tuple[bytes, Body]:
    """Basic properties and body of any message for the class ``basic``. Raises ``ValueError``."""
    header, body = message.form_for(BASIC)
    known = _HEADERS.get(header)
    if known is None:
        properties = read_header(header)
        properties.cluster_id = None
        if properties.headers is not None:
            properties.headers = lettered(properties.headers)
        known = _HEADERS.keep(header, write_basic_properties(properties))
    return known, body


def lettered(entries: bytes) -> bytes:
    """Headers in the letters of July 2007; unchanged if they are. Raises ``FieldError``."""
    return types.write_table(fields.read_table(entries))


def transfer_of(
    message: Message, destination: str, redelivered: bool
) -> tuple[w.MessageTransfer, Body]:
    """The transfer of a message to a consumer, without its body. Raises ``ValueError``."""
    header, body = form_of(message)
    properties = read_header(header)
    m = w.MessageTransfer(
        destination=destination,
        redelivered=redelivered,
        exchange=message.exchange,
        routing_key=message.key,
        application_headers=properties.headers or b"",
    )
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
