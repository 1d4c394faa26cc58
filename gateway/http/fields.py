"""Message metadata as HTTP fields (Structured Fields, RFC 9651) and back, types kept.

One ``Amqp-...`` field per property; application properties travel in the repeatable
``Amqp-Property: "key";v=value;t=type``. Parsing is strict: unknown fields and
malformed values are refused.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from uuid import UUID

import http_sf
from http_sf import DisplayString, StructuredFieldError, Token

from gateway.http.typed import BadValue, read_value, write_value
from gateway.message import Properties
from gateway.similar_names import did_you_mean

MAX_SHORT = 255
Short = TypeVar("Short", bound=bytes | str)
PLAIN = re.compile(r"[ !#-\[\]-~]*")
UNQUOTED = re.compile(rb"[ !#-\[\]-~]{1,80}")
HTTP_CODINGS = frozenset({"gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"})


class BadField(Exception):
    """A field cannot be read. ``name`` is the field's."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.reason = text


def parse_item(name: str, raw: bytes) -> tuple[Any, dict[str, Any]]:
    try:
        found: Any = http_sf.parse(raw, tltype="item")
    except StructuredFieldError as error:
        raise BadField(name, f"not a structured field item ({error})") from None
    value, parameters = found
    return value, parameters


def bare(name: str, raw: bytes) -> Any:
    value, parameters = parse_item(name, raw)
    if parameters:
        raise BadField(name, "takes no parameters")
    return value


def boolean(name: str, raw: bytes) -> bool:
    if raw == b"?1":
        return True
    if raw == b"?0":
        return False
    raise BadField(name, "must be ?1 or ?0")


def integer(low: int, high: int) -> Callable[[str, bytes], int]:
    def read(name: str, raw: bytes) -> int:
        value = bare(name, raw)
        if type(value) is not int or not low <= value <= high:
            raise BadField(name, f"must be an integer from {low} to {high}")
        return value

    return read


def string_value(name: str, value: Any) -> str:
    if isinstance(value, DisplayString):
        value = str(value)
    if type(value) is not str:
        raise BadField(name, "must be a string in double quotes")
    return value


def string(name: str, raw: bytes) -> str:
    try:
        return short(name, string_value(name, bare(name, raw)))
    except BadField as error:
        raise BadField(name, f"{error.reason}{in_quotes(name, raw)}") from None


def in_quotes(name: str, raw: bytes) -> str:
    """What to send instead of text without its quotes; "" if that is not what is wrong."""
    if not UNQUOTED.fullmatch(raw):
        return ""
    return f'; it came as {raw.decode()}, put it in double quotes: {name}: "{raw.decode()}"'


def identifier(name: str, raw: bytes) -> Any:
    """A message or correlation id: string, or ``t`` = uuid, ulong, binary."""
    try:
        value, parameters = parse_item(name, raw)
    except BadField as error:
        raise BadField(name, f"{error.reason}{in_quotes(name, raw)}") from None
    kind = parameters.pop("t", None)
    if parameters:
        raise BadField(name, "takes no parameter but t")
    if kind is None:
        if type(value) is bytes:
            return short(name, value)
        kind = Token("string")
    if not isinstance(kind, Token) or str(kind) not in ("string", "uuid", "ulong", "binary"):
        raise BadField(name, "t must be string, uuid, ulong or binary")
    try:
        found = read_value(value, str(kind))
    except BadValue as error:
        raise BadField(name, str(error)) from None
    return short(name, found) if isinstance(found, bytes | str) else found


def short(name: str, value: Short) -> Short:
    if len(value if isinstance(value, bytes) else value.encode()) > MAX_SHORT:
        raise BadField(name, f"must not be longer than {MAX_SHORT} octets")
    return value


def user_id(name: str, raw: bytes) -> bytes:
    value = bare(name, raw)
    return short(name, value if type(value) is bytes else string_value(name, value).encode())


def text(name: str, raw: bytes) -> str:
    """A plain HTTP field (not structured), such as Content-Type."""
    try:
        return short(name, raw).decode("ascii")
    except UnicodeDecodeError:
        raise BadField(name, "must be ASCII") from None


UINT = integer(0, 2**32 - 1)
MOMENT = integer(0, 999_999_999_999_999)

READERS: dict[bytes, tuple[str, Callable[[str, bytes], Any]]] = {
    b"content-type": ("content_type", text),
    b"content-encoding": ("content_encoding", text),
    b"amqp-content-encoding": ("content_encoding", string),
    b"amqp-durable": ("durable", boolean),
    b"amqp-priority": ("priority", integer(0, 255)),
    b"amqp-ttl": ("ttl", UINT),
    b"amqp-message-id": ("message_id", identifier),
    b"amqp-correlation-id": ("correlation_id", identifier),
    b"amqp-user-id": ("user_id", user_id),
    b"amqp-to": ("to", string),
    b"amqp-subject": ("subject", string),
    b"amqp-reply-to": ("reply_to", string),
    b"amqp-absolute-expiry-time": ("absolute_expiry_time", MOMENT),
    b"amqp-creation-time": ("creation_time", MOMENT),
    b"amqp-group-id": ("group_id", string),
    b"amqp-group-sequence": ("group_sequence", UINT),
    b"amqp-reply-to-group-id": ("reply_to_group_id", string),
    b"amqp-type": ("type", string),
    b"amqp-app-id": ("app_id", string),
    b"amqp-cluster-id": ("cluster_id", string),
}

PROPERTY = b"amqp-property"


def read_properties(headers: Iterable[tuple[bytes, bytes]]) -> Properties:
    """The properties that lower-case header pairs describe. Raises ``BadField``."""
    found: dict[str, Any] = {}
    listed: list[bytes] = []
    for name, raw in headers:
        reader = READERS.get(name)
        if reader is not None:
            attribute, read = reader
            if attribute in found:
                raise BadField(name.decode(), "given twice")
            found[attribute] = read(name.decode(), raw)
        elif name == PROPERTY:
            listed.append(raw)
        elif name.startswith(b"amqp-"):
            known = (one.decode() for one in (*READERS, PROPERTY) if one.startswith(b"amqp-"))
            meant = did_you_mean(name.decode("latin-1"), known)
            raise BadField(name.decode("latin-1"), f"no such metadata field{meant}")
    if listed:
        found["application"] = read_application(b", ".join(listed))
    return Properties(**found)


def read_application(raw: bytes) -> dict[str, Any]:
    name = "amqp-property"

    def twice(parameter: str, where: str) -> None:
        raise BadField(name, f"{where} {parameter} given twice")

    try:
        members: Any = http_sf.parse(raw, tltype="list", on_duplicate_key=twice)
    except StructuredFieldError as error:
        raise BadField(name, f"not a structured field list ({error})") from None
    table: dict[str, Any] = {}
    for value, parameters in members:
        if isinstance(value, list):
            raise BadField(name, "holds an inner list")
        key = string_value(name, value)
        if not key or len(key.encode()) > MAX_SHORT:
            raise BadField(name, f"a key has 1 to {MAX_SHORT} octets")
        if key in table:
            raise BadField(name, f"key {key!r} given twice")
        table[key] = read_member(name, key, parameters)
    return table


def read_member(name: str, key: str, parameters: dict[str, Any]) -> Any:
    kind = parameters.pop("t", None)
    if kind is not None and not isinstance(kind, Token):
        raise BadField(name, f"t of {key!r} must be a token")
    if "v" not in parameters and str(kind) != "null":
        raise BadField(name, f"{key!r} has no v")
    value = parameters.pop("v", None)
    if parameters:
        raise BadField(name, f"{key!r} has a parameter other than v and t")
    try:
        return read_value(value, None if kind is None else str(kind))
    except BadValue as error:
        raise BadField(name, f"value of {key!r} {error}") from None


# --- the other way ------------------------------------------------------------------------------


def sf_string(value: str) -> str | DisplayString:
    return value if value.isascii() and value.isprintable() else DisplayString(value)


def with_type(value: Any, kind: str) -> str:
    parameters: Any = {"t": Token(kind)}
    return http_sf.ser((value, parameters))


def write_identifier(value: Any) -> str:
    # Nearly every id needs no escapes; the general way costs 20 us.
    if type(value) is str and PLAIN.fullmatch(value):
        return f'"{value}"'
    if isinstance(value, UUID):
        return with_type(str(value), "uuid")
    if isinstance(value, int):
        return with_type(str(int(value)), "ulong")
    if isinstance(value, bytes):
        return with_type(value, "binary")
    return http_sf.ser(sf_string(str(value)))


def write_field(attribute: str, value: Any) -> str:
    if attribute in ("message_id", "correlation_id"):
        return write_identifier(value)
    if isinstance(value, bytes | bool):
        return http_sf.ser(value)
    if isinstance(value, int):
        return http_sf.ser(int(value))
    return http_sf.ser(sf_string(str(value)))


def write_application(table: dict[str, Any]) -> list[str]:
    """One ``Amqp-Property`` value per entry that fits one; nested values are left out."""
    lines = []
    for key, value in table.items():
        written = write_value(value)
        if written is None:
            continue
        shown, kind = written
        parameters: dict[str, Any] = {} if kind == "null" else {"v": shown}
        if kind is not None:
            parameters["t"] = Token(kind)
        lines.append(http_sf.ser((sf_string(key), parameters)))
    return lines


def write_headers(properties: Properties) -> list[tuple[str, str]]:
    """The fields of a message that goes out as an HTTP body; ``read_properties`` undoes it."""
    headers: list[tuple[str, str]] = []
    coding = properties.content_encoding
    for raw, (attribute, read) in READERS.items():
        value = getattr(properties, attribute)
        name = raw.decode()
        if value is None or (attribute == "content_encoding" and read is text) != (
            attribute == "content_encoding" and coding in HTTP_CODINGS
        ):
            continue
        headers.append((name, str(value) if read is text else write_field(attribute, value)))
    headers += [("amqp-property", line) for line in write_application(properties.application or {})]
    return headers
