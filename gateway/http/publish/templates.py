"""From request headers to encoded properties, without doing the same work twice.

A publisher sends the same metadata with every message but its id. When the gateway generates the
id, the encoding of the rest is cached, split where the id goes.
"""

from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from gateway import values
from gateway.http import problems
from gateway.http.fields import READERS, read_properties
from gateway.http.identifiers import uuid7
from gateway.http.problems import Problem
from gateway.message import DIALECTS, Dialect, Essentials, Properties

DIALECT, RICH = "0-9-1", "1.0"
MODERN = frozenset(
    {
        values.ULong, values.Timestamp, values.Symbol, values.Char, values.Described, values.Array,
        values.Map, values.Decimal32, values.Decimal64, values.Decimal128, UUID,
    }
)  # fmt: skip
"""Types of values that field tables lack."""
STAND_IN = "5a1d3c7e-0b42-7e96-8f4d-c2b7a9e61f03"
"""As long as a generated id. Metadata that contain it have no template."""
MESSAGE_ID = b"amqp-message-id"
ORDINARY = frozenset(
    {
        b"host", b"authorization", b"content-length", b"connection", b"user-agent", b"accept",
        b"accept-encoding", b"x-request-id", b"traceparent",
    }
)  # fmt: skip
"""Fields of most requests that are no metadata of messages: these are passed over quickly."""

Pairs = tuple[tuple[bytes, bytes], ...]


class Prepared(NamedTuple):
    """The properties of a message, encoded."""

    message_id: Any
    header: bytes
    essentials: Essentials
    dialect: Dialect

    def properties(self) -> Properties:
        return self.dialect.read(self.header)


class Template(NamedTuple):
    """Encoded properties before and after the message id."""

    before: bytes
    after: bytes
    essentials: Essentials
    dialect: Dialect


def metadata_of(headers: list[tuple[bytes, bytes]]) -> Pairs:
    """Those of lower-case request headers that are metadata of a message."""
    return tuple(
        [
            pair
            for pair in headers
            if pair[0] not in ORDINARY and (pair[0] in READERS or pair[0].startswith(b"amqp-"))
        ]
    )


def prepare(given: Pairs, now: int) -> Prepared:
    """Read the metadata of a message. Raises ``BadField`` and ``Problem``. Hot."""
    for name, _ in given:
        if name == MESSAGE_ID:
            properties = lasting(read_properties(given))
            return Prepared(properties.message_id, *encode_exactly(properties))
    message_id = uuid7(now)
    template = make_template(given)
    if template is None:
        properties = lasting(read_properties(given))
        properties.message_id = message_id
        return Prepared(message_id, *encode_exactly(properties))
    header = template.before + message_id.encode() + template.after
    return Prepared(message_id, header, template.essentials, template.dialect)


def prepare_properties(properties: Properties, now: int) -> Prepared:
    """Properties with a generated id if they have none. Raises ``Problem``."""
    if properties.message_id is None:
        properties.message_id = uuid7(now)
    return Prepared(properties.message_id, *encode_exactly(lasting(properties)))


def lasting(properties: Properties) -> Properties:
    """Durable, unless the caller says otherwise."""
    if properties.durable is None:
        properties.durable = True
    return properties


@lru_cache(256)
def make_template(given: Pairs) -> Template | None:
    return template_of(read_properties(given))


def template_of(properties: Properties) -> Template | None:
    """Raises ``Problem``."""
    properties = lasting(properties)
    properties.message_id = STAND_IN
    header, essentials, dialect = encode_exactly(properties)
    parts = header.split(STAND_IN.encode())
    return Template(parts[0], parts[1], essentials, dialect) if len(parts) == 2 else None


@lru_cache(1024)
def shared_essentials(*values: Any) -> Essentials:
    """Equal essentials are one object, since queues hold very many."""
    return Essentials(*values)


def encode_exactly(properties: Properties) -> tuple[bytes, Essentials, Dialect]:
    """Encoded for the older versions if they can express everything, else as sections of 1.0.
    Raises ``Problem``."""
    dialect = DIALECTS[DIALECT if legacy_can_say(properties) else RICH]
    return *encode(properties, dialect), dialect


def legacy_can_say(properties: Properties) -> bool:
    """Whether the older versions have a type for every value."""
    if properties.annotations or properties.footer or properties.delivery_annotations:
        return False
    if properties.body_kind not in (None, "data"):
        return False
    return properties.application is None or all(map(is_legacy, properties.application.values()))


def is_legacy(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return all(type(key) is str and is_legacy(each) for key, each in value.items())
    return all(map(is_legacy, value)) if kind is list else kind not in MODERN


def encode(properties: Properties, dialect: Dialect | None = None) -> tuple[bytes, Essentials]:
    """The encoded properties, by default in the form of the older versions. Raises ``Problem``."""
    dialect = dialect or DIALECTS[DIALECT]
    try:
        header = dialect.write(properties)
        return header, shared_essentials(*dialect.essentials(header))
    except (ValueError, OverflowError) as error:
        text = f"the properties cannot be encoded: {error}"
        raise Problem(problems.INVALID_FIELD, text) from None
