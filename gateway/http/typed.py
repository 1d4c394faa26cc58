"""Typed values of application properties: Structured Field item <-> AMQP value <-> JSON.

A bare item stands for the default AMQP type (integer: long, decimal: double, string, byte sequence:
binary, boolean, date: timestamp). Anything else says its type; a number that would lose digits is
a string with a type.
"""

import base64
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from http_sf import DisplayString, Token

from gateway import values

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SAFE = 2**53
MAX_ITEM = 999_999_999_999_999


class BadValue(Exception):
    """The value does not fit its type. The text continues "value of 'key' ..."."""


def whole(low: int, high: int, make: Callable[[int], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is str and value.removeprefix("-").isdecimal() and value.isascii():
            value = int(value) if len(value) <= 20 else high + 1
        if type(value) is not int:
            raise BadValue("must be an integer, or one in a string")
        if not low <= value <= high:
            raise BadValue(f"must be from {low} to {high}")
        return make(value)

    return read


def fraction(make: Callable[[float], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is int or isinstance(value, Decimal):
            return make(float(value))
        if type(value) is not str or value != value.strip() or "_" in value:
            raise BadValue("must be a number, or one in a string")
        try:
            return make(float(value))
        except ValueError:
            raise BadValue("must be a number") from None

    return read


def string(value: Any) -> str:
    if isinstance(value, DisplayString):
        return str(value)
    if type(value) is not str:
        raise BadValue("must be a string")
    return value


def symbol(value: Any) -> values.Symbol:
    found = string(value)
    if not found.isascii():
        raise BadValue("must be ASCII")
    return values.Symbol(found)


def char(value: Any) -> values.Char:
    found = string(value)
    if len(found) != 1:
        raise BadValue("must be one character")
    return values.Char(found)


def uuid(value: Any) -> UUID:
    found = string(value)
    try:
        parsed = UUID(found)
    except ValueError:
        raise BadValue("must be a UUID") from None
    if str(parsed) != found.lower():
        raise BadValue("must be a UUID in canonical form")
    return parsed


def binary(value: Any) -> bytes:
    if type(value) is not bytes:
        raise BadValue("must be a byte sequence, :base64:")
    return value


def boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise BadValue("must be ?1 or ?0")
    return value


def null(value: Any) -> None:
    if value is not None:
        raise BadValue("must be left out")


def timestamp(value: Any) -> values.Timestamp:
    """Milliseconds as an integer, or a date item (whole seconds)."""
    if isinstance(value, datetime):
        return values.Timestamp((value - EPOCH) // timedelta(milliseconds=1))
    found: values.Timestamp = whole(-(2**63), 2**63 - 1, values.Timestamp)(value)
    return found


READ: dict[str, Callable[[Any], Any]] = {
    "boolean": boolean,
    "byte": whole(-(2**7), 2**7 - 1, values.Byte),
    "ubyte": whole(0, 2**8 - 1, values.UByte),
    "short": whole(-(2**15), 2**15 - 1, values.Short),
    "ushort": whole(0, 2**16 - 1, values.UShort),
    "int": whole(-(2**31), 2**31 - 1, values.Int),
    "uint": whole(0, 2**32 - 1, values.UInt),
    "long": whole(-(2**63), 2**63 - 1, int),
    "ulong": whole(0, 2**64 - 1, values.ULong),
    "float": fraction(values.Float),
    "double": fraction(float),
    "string": string,
    "symbol": symbol,
    "char": char,
    "uuid": uuid,
    "binary": binary,
    "timestamp": timestamp,
    "null": null,
}


def read_value(value: Any, kind: str | None) -> Any:
    """The AMQP value of a parsed item with the type its ``t`` names. Raises ``BadValue``."""
    if kind is not None:
        reader = READ.get(kind)
        if reader is None:
            raise BadValue(f"has an unknown type {kind!r}")
        return reader(value)
    if isinstance(value, Token):
        raise BadValue("is a bare word; strings stand in double quotes")
    if isinstance(value, DisplayString):
        return str(value)
    if isinstance(value, Decimal):
        return float(value)
    return timestamp(value) if isinstance(value, datetime) else value


KINDS: dict[type, str] = {
    values.Byte: "byte",
    values.UByte: "ubyte",
    values.Short: "short",
    values.UShort: "ushort",
    values.Int: "int",
    values.UInt: "uint",
    values.ULong: "ulong",
    values.Float: "float",
    values.Timestamp: "timestamp",
    values.Symbol: "symbol",
    values.Char: "char",
    UUID: "uuid",
}


def write_value(value: Any) -> tuple[Any, str | None] | None:
    """An item and its type name (``None``: the default), or ``None`` if it is not scalar."""
    kind = KINDS.get(type(value))
    if value is None:
        return None, "null"
    if isinstance(value, bool | bytes):
        return value, None
    if isinstance(value, values.Seconds):
        return int(value) * 1000, "timestamp"
    if isinstance(value, int):
        number = int(value)
        return (number, kind) if abs(number) <= MAX_ITEM else (str(number), kind or "long")
    if isinstance(value, float):
        return repr(float(value)), kind or "double"
    if isinstance(value, values.Scaled):
        return str(value.decimal()), "string"
    if isinstance(value, str | UUID):
        shown = str(value)
        plain = shown.isascii() and shown.isprintable()
        return shown if plain else DisplayString(shown), kind
    return None


# --- JSON ---------------------------------------------------------------------------------------


def moment(ms: int) -> str:
    """RFC 3339 with milliseconds, or the number as text when no calendar reaches it."""
    try:
        found = EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(int(ms))
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_value(value: Any) -> Any:
    """Something ``json.dumps`` takes as it is; types JSON lacks are ``{"$type", "value"}``."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, values.Timestamp):
        return {"$type": "timestamp", "value": moment(value)}
    if isinstance(value, values.Seconds):
        return {"$type": "timestamp", "value": moment(value * 1000)}
    if isinstance(value, int):
        plain = -SAFE <= value <= SAFE
        return int(value) if plain else {"$type": kind_of(value), "value": str(int(value))}
    if isinstance(value, float):
        finite = math.isfinite(value)
        return float(value) if finite else {"$type": kind_of(value), "value": str(float(value))}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return {"$type": "binary", "value": base64.b64encode(value).decode()}
    return json_compound(value)


def kind_of(value: Any) -> str:
    return KINDS.get(type(value)) or ("long" if isinstance(value, int) else "double")


def json_compound(value: Any) -> Any:
    if isinstance(value, UUID):
        return {"$type": "uuid", "value": str(value)}
    if isinstance(value, values.Scaled):
        return {"$type": "decimal", "value": str(value.decimal())}
    if isinstance(value, values.Described):
        return {
            "$type": "described",
            "descriptor": json_value(value.descriptor),
            "value": json_value(value.value),
        }
    if isinstance(value, dict):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    return {"$type": type(value).__name__.lower(), "value": str(value)}
