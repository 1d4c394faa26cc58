"""Conventions of JMS clients: Qpid's over 0-8 to 0-10, and the JMS mapping of 1.0.

Before 1.0 the kind of a message is its content type. In 1.0 it is the kind of its body together
with the annotation ``x-opt-jms-msg-type``. A body is converted only if the inverse restores it;
otherwise it stays as it is, and the reader sees a message of bytes. docs/jms.md has the
table.
"""

import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from gateway.adapters.performatives.decoding import FieldError, read_value
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.sections import SEQUENCE, VALUE, split
from gateway.adapters.segments.content import CORRELATION_ID, JMS_ID
from gateway.adapters.segments.decoding import read_list, read_map
from gateway.adapters.segments.encoding import write_list, write_map
from gateway.crossing.sameness import same
from gateway.message import Properties, Table
from gateway.values import Byte, Char, Float, Int, Milliseconds, Short, Symbol

MESSAGE_TYPE = Symbol("x-opt-jms-msg-type")
OBJECT, MAP, STREAM = Byte(1), Byte(2), Byte(4)

MAP_MESSAGE, STREAM_MESSAGE = "jms/map-message", "jms/stream-message"
OLD_OBJECT, OBJECT_TYPE = "application/java-object-stream", "application/x-java-serialized-object"
"""Content type of a serialized Java object, before 1.0 and in 1.0."""

NULL = "JMS_AMQP_NULL"
"""Header with which Qpid marks a text message without a text."""


class Kind(NamedTuple):
    """A kind of body that is encoded anew: its content type before 1.0, and the annotation that
    this implies in 1.0."""

    content_type: str
    annotation: Byte | None


KINDS = {
    "map": Kind("amqp/map", MAP),
    "list": Kind("amqp/list", STREAM),
    "stream": Kind(STREAM_MESSAGE, STREAM),
    "null": Kind("text/plain", None),
}
BY_TYPE = {kind.content_type: name for name, kind in KINDS.items() if name != "null"} | {
    MAP_MESSAGE: "map"
}
MARKS = tuple(mark.encode() for mark in (*BY_TYPE, NULL))
"""Octets in the header of every message whose body may be encoded anew for 1.0."""


# --- bodies -------------------------------------------------------------------------------------


def from_section(found: Properties, body: bytes, exact: bool = False) -> tuple[str, bytes] | None:
    """Kind and octets of a body of 1.0 for a reader of another version, or ``None``. ``found`` are
    the properties of the message. ``exact``: only if the inverse restores its octets; otherwise its
    values and their types are enough."""
    section = VALUE if found.body_kind == "value" else SEQUENCE
    sections = split(body).body
    if len(sections) != 1 or sections[0][0] != section:
        return None
    try:
        value, _ = read_value(body, *sections[0][1][1:])
        kind = _kind_of(value, section, found)
        if kind is None:
            return None
        octets = _written(kind, found.content_type, value)
        back = _read(kind, found.content_type, octets)
        restored = _section(kind, back) == body if exact else same(back, value)
    except (ValueError, struct.error, IndexError, RecursionError):
        return None
    return (kind, octets) if restored else None


def _kind_of(value: Any, section: int, found: Properties) -> str | None:
    content_type = found.content_type
    if section == SEQUENCE:
        if content_type is None and (found.annotations or {}).get(MESSAGE_TYPE) == STREAM:
            return "stream"
        return None
    if type(value) is dict and content_type in (None, MAP_MESSAGE):
        return "map"
    if content_type is not None:
        return None
    if type(value) is list:
        return "list"
    return "null" if value is None and NULL not in (found.application or {}) else None


def to_section(kind: str, content_type: str | None, octets: bytes) -> tuple[str, bytes] | None:
    """Kind and body of 1.0 for octets of one of the ``KINDS``, or ``None``."""
    try:
        value = _read(kind, content_type, octets)
        if _written(kind, content_type, value) != octets:
            return None
        return "sequence" if kind == "stream" else "value", _section(kind, value)
    except (ValueError, struct.error, IndexError, RecursionError, TypeError):
        return None


def _section(kind: str, value: Any) -> bytes:
    code = SEQUENCE if kind == "stream" else VALUE
    return b"\x00\x53" + bytes((code,)) + write_value(value)


def _read(kind: str, content_type: str | None, octets: bytes) -> Any:
    if kind == "null":
        if octets:
            raise FieldError("a text message without a text has no octets")
        return None
    if kind == "stream":
        return list(_typed_values(octets))
    if content_type == MAP_MESSAGE:
        return _read_map_message(octets)
    read = read_map if kind == "map" else read_list
    if int.from_bytes(octets[:4]) != len(octets) - 4:
        raise FieldError("the size of the map or list is wrong")
    return read(octets[4:])


def _written(kind: str, content_type: str | None, value: Any) -> bytes:
    if kind == "null":
        return b""
    if kind == "stream":
        return b"".join(map(_typed, value))
    if content_type == MAP_MESSAGE:
        names = (_terminated(name) + _typed(each) for name, each in value.items())
        return len(value).to_bytes(4) + b"".join(names)
    octets = write_map(value) if kind == "map" else write_list(value)
    return len(octets).to_bytes(4) + octets


# --- typed values of stream and map messages: an octet for the type, then the value -------------

BOOLEAN, BYTE, BYTES, SHORT, CHAR, INT, LONG, FLOAT, DOUBLE, STRING, NULL_STRING = range(1, 12)

FIXED: dict[int, tuple[struct.Struct, Callable[[Any], Any]]] = {
    BOOLEAN: (struct.Struct(">?"), bool),
    BYTE: (struct.Struct(">b"), Byte),
    SHORT: (struct.Struct(">h"), Short),
    CHAR: (struct.Struct(">H"), lambda unit: Char(chr(unit))),
    INT: (struct.Struct(">i"), Int),
    LONG: (struct.Struct(">q"), int),
    FLOAT: (struct.Struct(">f"), Float),
    DOUBLE: (struct.Struct(">d"), float),
}
CODES: dict[type[Any], int] = {
    bool: BOOLEAN, Byte: BYTE, Short: SHORT, Int: INT, int: LONG, Float: FLOAT, float: DOUBLE,
}  # fmt: skip


def _typed_values(octets: bytes) -> Iterator[Any]:
    at = 0
    while at < len(octets):
        value, at = _read_typed(octets, at)
        yield value


def _read_typed(octets: bytes, at: int) -> tuple[Any, int]:
    code = octets[at]
    at += 1
    if code in FIXED:
        layout, kind = FIXED[code]
        return kind(layout.unpack_from(octets, at)[0]), at + layout.size
    if code == STRING:
        return _read_terminated(octets, at)
    if code == NULL_STRING:
        return None, at
    if code != BYTES:
        raise FieldError(f"no type of a stream message has the code {code}")
    end = at + 4 + int.from_bytes(octets[at : at + 4])
    if end > len(octets):
        raise FieldError("the octets end early")
    return octets[at + 4 : end], end


def _typed(value: Any) -> bytes:
    kind = type(value)
    if kind in CODES:
        code = CODES[kind]
        return bytes((code, *FIXED[code][0].pack(value)))
    if value is None:
        return bytes((NULL_STRING,))
    if kind is str:
        return bytes((STRING,)) + _terminated(value)
    if kind is Char:
        return struct.pack(">BH", CHAR, ord(value))
    if kind is bytes:
        return bytes((BYTES,)) + len(value).to_bytes(4) + bytes(value)
    raise FieldError(f"a stream message has no {kind.__name__}")


def _terminated(text: str) -> bytes:
    return text.encode() + b"\0"


def _read_terminated(octets: bytes, at: int) -> tuple[str, int]:
    end = octets.index(0, at)
    return octets[at:end].decode(), end + 1


def _read_map_message(octets: bytes) -> Table:
    found: Table = {}
    at = 4
    for _ in range(int.from_bytes(octets[:4])):
        name, at = _read_terminated(octets, at)
        found[name], at = _read_typed(octets, at)
    if at != len(octets):
        raise FieldError("the map message is longer than its entries")
    return found


# --- properties ---------------------------------------------------------------------------------


def to_legacy(
    found: Properties, flat_kind: str | None, headers: Table, segments: bool
) -> str | None:
    """Change the properties of a message of 1.0 into those that JMS clients expect before 1.0;
    ``flat_kind`` is the kind of its body. ``segments``: in 0-10. Returns the kind that
    ``x-amqp10-body`` must name."""
    annotations = found.annotations or {}
    message_type = annotations.get(MESSAGE_TYPE)
    if found.subject is not None and found.subject == found.type:
        found.subject = None  # implied by the type, as 0-10 has it
    if segments:
        _to_segments(found, headers, message_type is not None)
    elif found.type is None and short_text(found.subject):
        found.type, found.subject = found.subject, None
    if message_type is not None and not segments:
        found.correlation_id = raw_id(found.correlation_id)
        found.reply_to = to_binding_url(found.reply_to)
    kind = KINDS.get(flat_kind or "")
    if kind is None:
        if flat_kind is None and found.content_type == OBJECT_TYPE and _is(message_type, OBJECT):
            found.content_type = OLD_OBJECT
            _drop_message_type(found)
        return flat_kind
    found.content_type = found.content_type or kind.content_type
    if flat_kind == "null":
        headers[NULL] = True
        return None
    if not _is(message_type, kind.annotation):
        return flat_kind
    _drop_message_type(found)
    return None


def short_text(text: str | None) -> bool:
    """Whether a text fits both a field before 1.0, which has 255 octets, and a string of 1.0."""
    try:
        return text is not None and len(text.encode()) < 256
    except UnicodeEncodeError:
        return False


def _is(found: Any, code: Byte | None) -> bool:
    return type(found) is Byte and found == code


def _drop_message_type(found: Properties) -> None:
    found.annotations = {
        name: value for name, value in (found.annotations or {}).items() if name != MESSAGE_TYPE
    }


def _to_segments(found: Properties, headers: Table, jms: bool) -> None:
    """The habits of 0-10: other clients than those of JMS have a subject and no type; those of JMS
    have times in milliseconds, and "ID:" before a UUID."""
    if not jms:
        return
    if found.type is None and found.subject is not None:
        found.type, found.subject = found.subject, None
    if isinstance(found.correlation_id, UUID):
        headers[CORRELATION_ID] = found.correlation_id
        found.correlation_id = f"{JMS_ID}{found.correlation_id}"
    found.creation_time = in_milliseconds(found.creation_time)
    found.absolute_expiry_time = in_milliseconds(found.absolute_expiry_time)


def in_milliseconds(instant: int | None) -> int | None:
    """A time as Qpid's Java clients write it."""
    return None if instant is None else Milliseconds(instant)


def raw_id(correlation: Any) -> Any:
    """A correlation id of octets that are no text: JMS clients before 1.0 write them as they
    are."""
    if not isinstance(correlation, bytes) or len(correlation) > 255:
        return correlation
    try:
        correlation.decode()
        return correlation
    except UnicodeDecodeError:
        return correlation.decode("utf-8", "surrogateescape")


def octets_in(correlation: Any) -> Any:
    """The inverse of ``raw_id``."""
    if not isinstance(correlation, str):
        return correlation
    try:
        correlation.encode()
        return correlation
    except UnicodeEncodeError:
        return correlation.encode("utf-8", "surrogateescape")


def to_sections(
    found: Properties, headers: Table, annotations: dict[Any, Any], marked: str | None, body: bytes
) -> tuple[str, bytes] | None:
    """The inverse of ``to_legacy``. ``marked`` is the kind that ``x-amqp10-body`` names. Returns
    kind and body of 1.0 if the body has to be encoded anew."""
    if found.subject is None and short_text(found.type):
        found.subject, found.type = found.type, None
    found.reply_to = from_binding_url(found.reply_to)
    content_type = found.content_type
    if marked is None and content_type == OLD_OBJECT and MESSAGE_TYPE not in annotations:
        found.content_type = OBJECT_TYPE
        annotations[MESSAGE_TYPE] = OBJECT
        return None
    if marked is not None:
        name = marked if marked in KINDS else None
    elif content_type == "text/plain" and headers.get(NULL) is True:
        name = "null"
    else:
        name = BY_TYPE.get(content_type or "")
    if name is None or name != BY_TYPE.get(content_type or "", "null"):
        return None
    kind = KINDS[name]
    if marked is None and kind.annotation is not None:
        if annotations.get(MESSAGE_TYPE, kind.annotation) != kind.annotation:
            return None
    elif name == "stream":
        return None
    converted = to_section(name, content_type, body)
    if converted is None:
        return None
    if name == "null":
        del headers[NULL]
    elif marked is None:
        annotations[MESSAGE_TYPE] = kind.annotation
    if content_type == kind.content_type:
        found.content_type = None
    return converted


# --- reply addresses ----------------------------------------------------------------------------

BINDING_URL = re.compile(
    r"(?P<type>direct|topic|fanout|headers)://(?P<exchange>[^/?]*)/(?P<name>[^/?]*)"
    r"(?:/(?P<queue>[^?]*))?(?:\?(?P<options>.*))?",
    re.DOTALL,
)
OPTION = re.compile(r"(\w+)='((?:[^'\\]|\\.)*)'")
EXCHANGES = "/exchanges/"
PLAIN = re.compile(r"[\w.\-:]+")


def from_binding_url(text: str | None) -> str | None:
    """The 1.0 address of a binding URL of Qpid
    (``direct://amq.direct/queue/queue?routingkey='key'``); any other text as it is. Replies go to
    the exchange by the key, as Qpid's clients publish them."""
    url = None if text is None else BINDING_URL.fullmatch(text)
    if url is None:
        return text
    options = dict(OPTION.findall(url["options"] or ""))
    key = options.get("routingkey") or url["queue"] or url["name"]
    exchange = url["exchange"]
    if not exchange:
        return key if PLAIN.fullmatch(key) else f"/queues/{_quoted(key)}"
    if url["type"] == "topic":
        key = options.get("routingkey") or url["name"]
    return f"{EXCHANGES}{_quoted(exchange)}/{_quoted(key)}"


def _quoted(name: str) -> str:
    """A part of an address; a name that is no UTF-8 has its octets there."""
    return quote(name, safe="", errors="surrogateescape")


def _unquoted(part: str) -> str:
    return unquote(part, errors="surrogateescape")


def to_binding_url(address: str | None) -> str | None:
    """The binding URL of a 1.0 address of an exchange and a key, for JMS clients before 1.0, whose
    clients would take any other text for the name of a queue."""
    if address is None:
        return None
    if address.startswith(EXCHANGES):
        exchange, slash, key = address.removeprefix(EXCHANGES).partition("/")
        exchange, key = _unquoted(exchange), _unquoted(key)
    else:
        exchange, slash, key = address.partition("/")
        if exchange != "amq.topic":
            return address
    if not slash or "'" in key or "\\" in key or not PLAIN.fullmatch(exchange):
        return address
    scheme = exchange.removeprefix("amq.")
    if scheme not in ("topic", "fanout", "headers"):
        scheme = "direct"
    return f"{scheme}://{exchange}//?routingkey='{key}'"
