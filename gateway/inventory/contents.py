"""Counted facts of a message's properties, in any version."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from uuid import UUID

from gateway.inventory.counts import clipped
from gateway.inventory.observer import Content
from gateway.values import (
    Array,
    Byte,
    Char,
    CodedOctets,
    CodedText,
    Described,
    Float,
    IeeeDecimal,
    Int,
    Scaled,
    Seconds,
    Short,
    ShortString,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

MOST_HEADERS = 64
"""Headers of one message whose types are looked at."""

TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "boolean"), (Byte, "int8"), (UByte, "uint8"), (Short, "int16"), (UShort, "uint16"),
    (Int, "int32"), (UInt, "uint32"), (ULong, "uint64"), ((Timestamp, Seconds), "timestamp"),
    (int, "int64"), (Float, "float"), (float, "double"), (Symbol, "symbol"), (Char, "char"),
    ((ShortString, CodedText, str), "string"), ((CodedOctets, bytes), "binary"),
    (Scaled, "decimal"), (IeeeDecimal, "decimal"), (UUID, "uuid"), (Described, "described"),
    (Array, "array"), (list, "list"), (dict, "map"),
)  # fmt: skip

TYPE_FEATURES = {
    "map": "header-map", "list": "header-list", "array": "header-list", "decimal": "header-decimal",
    "timestamp": "header-timestamp", "null": "header-null", "described": "header-described",
    "char": "header-char", "uuid": "header-uuid",
}  # fmt: skip

HEADER_FEATURES = {
    "CC": "cc-and-bcc", "BCC": "cc-and-bcc", "x-delay": "delayed-message",
    "JMSXGroupID": "message-group", "qpid.group_header_key": "message-group",
    "x-stream-filter-value": "stream-filter",
}  # fmt: skip
DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"


def type_of(value: Any) -> str:
    """The name of a header's type."""
    if value is None:
        return "null"
    return next((name for kind, name in TYPES if isinstance(value, kind)), type(value).__name__)


def types_in(headers: Mapping[Any, Any]) -> Iterator[str]:
    """The names of the types of headers, and of values inside of them."""
    left = [*islice(headers.values(), MOST_HEADERS)]
    for _ in range(MOST_HEADERS):
        if not left:
            return
        value = left.pop()
        yield type_of(value)
        if isinstance(value, Mapping):
            left += islice(value.values(), MOST_HEADERS)
        elif isinstance(value, list | Array):
            left += islice(value, MOST_HEADERS)


def content_of(
    headers: Mapping[Any, Any],
    *,
    durable: bool = False,
    priority: int = 0,
    expires: bool = False,
    content_type: Any = None,
    content_encoding: Any = None,
    reply_to: str = "",
    others: Mapping[str, Any] | None = None,
) -> Content:
    """Counted facts. ``others`` are features and the values that tell that they are used."""
    types: dict[str, None] = {}
    features: dict[tuple[str, str], None] = {}
    for name in islice(headers, MOST_HEADERS):
        special = HEADER_FEATURES.get(name) if isinstance(name, str) else None
        if special:
            features[special, ""] = None
    for kind in types_in(headers):
        types[kind] = None
        if kind in TYPE_FEATURES:
            features[TYPE_FEATURES[kind], ""] = None
    if priority:
        features["priority", str(priority)] = None
    if expires:
        features["expiration", ""] = None
    if content_encoding:
        features["content-encoding", clipped(content_encoding)] = None
    for name in reply_features(reply_to):
        features[name, ""] = None
    for name, value in (others or {}).items():
        if value:
            features[name, ""] = None
    return Content(tuple(features), tuple(types), clipped(content_type or ""), durable)


def reply_features(reply_to: str) -> Iterator[str]:
    """The kind of a reply address."""
    if reply_to.startswith(DIRECT_REPLY_TO):
        yield "direct-reply-to"
    elif "://" in reply_to:
        yield "reply-to-url"
    elif reply_to:
        yield "reply-to"
