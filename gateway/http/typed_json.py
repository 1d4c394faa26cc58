"""Typed JSON: any AMQP value as JSON that reads back to the identical value.

Text, booleans, null, integers within 2^53 (long), fractions (double), objects (string keys) and
arrays stand for themselves. Everything else is ``{"$type": ..., "value": ...}``. The reader takes
all that the writer makes, and what a person would write by hand for the same types.
"""

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from gateway import values
from gateway.http.typed import EPOCH, KINDS, SAFE, BadValue, moment
from gateway.http.typed import READ as SCALARS
from gateway.strict_json import once, refuse

DECODER = json.JSONDecoder(object_pairs_hook=once, parse_constant=refuse)
"""Made once: ``json.loads`` makes one each time."""
WHITE_SPACE = " \t\n\r"
MARK = "$type"
DEPTH = 32
DECIMAL = re.compile(r"(-?)(\d{1,20})(?:\.(\d{1,255}))?", re.ASCII)
FLOATS = {"double": (">d", float), "float": (">f", values.Float)}
TEXTS: dict[str, type] = {
    "symbol": values.Symbol,
    "char": values.Char,
    "short-string": values.ShortString,
}


class BadForm(Exception):
    """The value at ``pointer`` (RFC 6901) cannot be read."""

    def __init__(self, pointer: str, text: str) -> None:
        super().__init__(f"{pointer or '/'}: {text}")
        self.pointer = pointer
        self.text = text

    def under(self, name: object) -> "BadForm":
        escaped = str(name).replace("~", "~0").replace("/", "~1")
        return BadForm(f"/{escaped}{self.pointer}", self.text)


def strange(name: str) -> BadForm:
    """A member that is not known here. It is never ignored: it may be a misspelt one that is, or
    one that only a later version keeps."""
    return BadForm("", "unknown member").under(name)


def loads(text: bytes | str) -> Any:
    """JSON as RFC 8259 has it: no NaN, no member twice. Raises ``BadForm``."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        if not text.startswith("{"):
            return DECODER.decode(text)
        # Without the regular expressions of ``decode``, a tenth of what a small message costs.
        found, end = DECODER.raw_decode(text)
        if rest := text[end:].lstrip(WHITE_SPACE):
            raise json.JSONDecodeError("Extra data", text, len(text) - len(rest))
        return found
    except UnicodeDecodeError:
        raise BadForm("", "is not UTF-8") from None
    except RecursionError:
        raise BadForm("", "nests too deeply") from None
    except ValueError as error:
        raise BadForm("", f"is not JSON: {error}") from None


# --- writing ------------------------------------------------------------------------------------


def write_json(value: Any) -> Any:
    """Something ``json.dumps`` takes; ``read_json`` undoes it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return write_float(value)
    if isinstance(value, int):
        return write_integer(value)
    if isinstance(value, str):
        return write_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return typed("binary", base64.b64encode(bytes(value)).decode())
    if isinstance(value, UUID):
        return typed("uuid", str(value))
    if isinstance(value, values.Scaled):
        return typed("decimal", decimal_text(value))
    if isinstance(value, values.Described):
        descriptor = write_json(value.descriptor)
        return {MARK: "described", "descriptor": descriptor, "value": write_json(value.value)}
    if isinstance(value, values.IeeeDecimal):
        kind = type(value).__name__.lower()
        return {MARK: kind, "value": str(value), "bits": value.octets.hex()}
    if isinstance(value, dict):
        return write_map(value)
    if isinstance(value, values.Array):
        return write_array(value)
    if isinstance(value, list | tuple):
        return [write_json(each) for each in value]
    raise TypeError(f"no AMQP value: {type(value).__name__}")


def typed(kind: str, value: Any) -> dict[str, Any]:
    return {MARK: kind, "value": value}


def write_float(value: float) -> Any:
    kind = "float" if isinstance(value, values.Float) else "double"
    if math.isnan(value):
        octets = struct.pack(FLOATS[kind][0], value)
        return {MARK: kind, "value": "NaN", "bits": octets.hex()}
    if math.isinf(value):
        return typed(kind, "Infinity" if value > 0 else "-Infinity")
    if kind == "double" and not value.is_integer():
        return float(value)
    # Many readers of JSON take a number without a fraction for an integer.
    return typed(kind, repr(float(value)))


def write_integer(value: int) -> Any:
    if isinstance(value, values.Timestamp):
        return typed("timestamp", moment(value))
    if isinstance(value, values.Seconds):
        return {MARK: "timestamp", "value": int(value), "unit": "s"}
    kind = KINDS.get(type(value))
    if kind is None:
        return int(value) if -SAFE <= value <= SAFE else typed("long", str(int(value)))
    return typed(kind, int(value) if -SAFE <= value <= SAFE else str(int(value)))


def write_text(value: str) -> Any:
    kind = next((name for name, made in TEXTS.items() if type(value) is made), None)
    if not encodable(value):
        octets = base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()
        return {MARK: kind or "string", "base64": octets}
    return str(value) if kind is None else typed(kind, str(value))


def encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def write_array(value: values.Array) -> Any:
    """An array of 1.0 is of one type, even an empty one: ``of`` names it, or the octets of its
    constructor and ``descriptors`` do, where that says more."""
    shown: dict[str, Any] = {MARK: "array", "value": [write_json(each) for each in value]}
    if value.code is not None:
        shown["constructor"] = f"{value.code:02x}"
    if value.descriptors:
        shown["descriptors"] = [write_json(each) for each in value.descriptors]
    return shown


def write_map(value: dict[Any, Any]) -> Any:
    pairs = value.pairs if isinstance(value, values.Map) else None
    if pairs or MARK in value or not all(type(k) is str and encodable(k) for k in value):
        found = value.items() if pairs is None else pairs
        return typed("map", [[write_json(key), write_json(each)] for key, each in found])
    return {key: write_json(each) for key, each in value.items()}


def decimal_text(value: values.Scaled) -> str:
    digits = str(abs(value.value)).rjust(value.places + 1, "0")
    sign = "-" if value.value < 0 else ""
    if not value.places:
        return sign + digits
    return f"{sign}{digits[: -value.places]}.{digits[-value.places :]}"


# --- reading ------------------------------------------------------------------------------------


def read_json(value: Any, depth: int = 0) -> Any:
    """The AMQP value. Raises ``BadForm``."""
    if depth > DEPTH:
        raise BadForm("", f"nests deeper than {DEPTH}")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if not encodable(value):
            raise BadForm("", "has a lone surrogate")
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise BadForm("", "is outside 64 bits; write it as text with its $type")
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise BadForm("", "is larger than a double")
        return value
    if isinstance(value, list):
        return [each_read(index, each, depth) for index, each in enumerate(value)]
    if MARK in value:
        return read_typed(value, depth)
    for key in value:
        if not encodable(key):
            raise BadForm("", "has a key with a lone surrogate")
    return {key: each_read(key, each, depth) for key, each in value.items()}


def each_read(name: object, value: Any, depth: int) -> Any:
    try:
        return read_json(value, depth + 1)
    except BadForm as error:
        raise error.under(name) from None


def read_typed(found: dict[str, Any], depth: int) -> Any:
    kind = found[MARK]
    reader = READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise BadForm(f"/{MARK}", "is no type known here")
    allowed = {MARK, *MEMBERS.get(str(kind), ("value",))}
    strange = next((name for name in found if name not in allowed), None)
    if strange is not None:
        raise BadForm("", f"has a member {strange!r} that {kind} does not take")
    try:
        return reader(found, depth)
    except BadValue as error:
        raise BadForm("/value", str(error)) from None
    except (KeyError, TypeError) as error:
        raise BadForm("", f"is no {kind}: {error}") from None


MEMBERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(FLOATS, ("value", "bits")),
    **dict.fromkeys(("string", *TEXTS), ("value", "base64")),
    "timestamp": ("value", "unit"),
    "described": ("value", "descriptor"),
    "array": ("value", "of", "constructor", "descriptors"),
    **dict.fromkeys(("decimal32", "decimal64", "decimal128"), ("value", "bits")),
}


def scalar(kind: str) -> Callable[[dict[str, Any], int], Any]:
    return lambda found, depth: SCALARS[kind](found["value"])


def read_float(found: dict[str, Any], depth: int) -> Any:
    layout, make = FLOATS[found[MARK]]
    if "bits" in found:
        try:
            octets = bytes.fromhex(found["bits"])
            return make(struct.unpack(layout, octets)[0])
        except (ValueError, struct.error):
            raise BadForm("/bits", "must be the octets in hexadecimal") from None
    value = found["value"]
    if isinstance(value, bool):
        raise BadValue("must be a number, or one in a string")
    if isinstance(value, float):
        value = repr(value)
    number = SCALARS[found[MARK]](value)
    if math.isinf(number) and "inf" not in str(value).lower():
        raise BadForm("/value", f"is larger than a {found[MARK]}")
    return number


def read_text(found: dict[str, Any], depth: int) -> Any:
    kind = found[MARK]
    if "base64" in found:
        text = read_base64(found["base64"]).decode("utf-8", "surrogateescape")
    else:
        text = found["value"]
        if not isinstance(text, str) or not encodable(text):
            raise BadValue("must be text")
    if kind in ("symbol", "char"):
        return SCALARS[kind](text)
    return TEXTS[kind](text) if kind in TEXTS else text


def read_base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise BadForm("", "must be base64 text")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadForm("", "is not base64") from None


def read_binary(found: dict[str, Any], depth: int) -> bytes:
    try:
        return read_base64(found["value"])
    except BadForm as error:
        raise error.under("value") from None


def read_timestamp(found: dict[str, Any], depth: int) -> Any:
    value = found["value"]
    if found.get("unit", "ms") == "s":
        if type(value) is not int or not 0 <= value < 2**64:
            raise BadValue("must be whole seconds since 1970")
        return values.Seconds(value)
    return values.Timestamp(read_moment(value))


def read_moment(value: Any) -> int:
    """Milliseconds since 1970: as a number, as text, or as RFC 3339. Raises ``BadValue``."""
    if isinstance(value, str) and "T" in value:
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            raise BadValue("is no RFC 3339 time") from None
        if found.tzinfo is None:
            raise BadValue("has no time zone")
        return (found - EPOCH) // timedelta(milliseconds=1)
    return int(SCALARS["timestamp"](value))


def read_decimal(found: dict[str, Any], depth: int) -> values.Scaled:
    match = DECIMAL.fullmatch(found["value"])
    if match is None:
        raise BadValue("must be decimal text")
    sign, whole, places = match[1], match[2], match[3] or ""
    number = int(whole + places)
    if number >= 2**32:
        raise BadValue("has more digits than a legacy decimal")
    return values.Scaled(len(places), -number if sign else number)


def read_described(found: dict[str, Any], depth: int) -> values.Described:
    descriptor = each_read("descriptor", found["descriptor"], depth)
    return values.Described(descriptor, each_read("value", found["value"], depth))


def read_map(found: dict[str, Any], depth: int) -> dict[Any, Any]:
    """Pairs; a ``Map`` if a ``dict`` cannot hold them."""
    given = found["value"]
    if not isinstance(given, list) or not all(isinstance(p, list) and len(p) == 2 for p in given):
        raise BadValue("must be a list of pairs")
    pairs = [
        (each_read(index, key, depth), each_read(index, value, depth))
        for index, (key, value) in enumerate(given)
    ]
    return values.mapped(pairs)


CONSTRUCTORS = {
    "null": 0x40, "boolean": 0x56, "ubyte": 0x50, "byte": 0x51, "ushort": 0x60, "short": 0x61,
    "uint": 0x70, "int": 0x71, "float": 0x72, "char": 0x73, "decimal32": 0x74, "ulong": 0x80,
    "long": 0x81, "double": 0x82, "timestamp": 0x83, "decimal64": 0x84, "decimal128": 0x94,
    "uuid": 0x98, "binary": 0xB0, "string": 0xB1, "symbol": 0xB3,
}  # fmt: skip
"""Of the elements of an array, by the name of their type (1.0 §1.6); the widest of each."""


def read_array(found: dict[str, Any], depth: int) -> values.Array:
    items = found["value"]
    if not isinstance(items, list):
        raise BadValue("must be a list")
    if "of" in found:
        kind = found["of"]
        if not isinstance(kind, str) or kind not in CONSTRUCTORS:
            raise BadForm("/of", "is no type of a simple value")
        read = [each_read(index, typed(kind, each), depth) for index, each in enumerate(items)]
        return values.Array(read, CONSTRUCTORS[kind])
    code = found.get("constructor")
    if code is not None and not (isinstance(code, str) and re.fullmatch("[0-9a-f]{2}", code)):
        raise BadForm("/constructor", "must be an octet in hexadecimal")
    descriptors = found.get("descriptors", [])
    if not isinstance(descriptors, list) or len(descriptors) > DEPTH:
        raise BadForm("/descriptors", "must be a short list")
    return values.Array(
        [each_read(index, each, depth) for index, each in enumerate(items)],
        None if code is None else int(code, 16),
        [each_read("descriptors", each, depth) for each in descriptors],
    )


IEEE: dict[str, type[values.IeeeDecimal]] = {
    kind.__name__.lower(): kind for kind in (values.Decimal32, values.Decimal64, values.Decimal128)
}


def read_ieee(found: dict[str, Any], depth: int) -> values.IeeeDecimal:
    kind = IEEE[found[MARK]]
    try:
        if "bits" in found:
            return kind(bytes.fromhex(found["bits"]))
        text = found["value"]
        if not isinstance(text, str) or len(text) > 64:
            raise BadValue("must be decimal text")
        number = Decimal(text)
        if number.is_finite() and not -7000 < number.adjusted() < 7000:
            raise BadValue("is out of range")
        return kind.of(number)
    except (ValueError, InvalidOperation) as error:
        raise BadValue(f"is no {found[MARK]}") from error


READERS: dict[str, Callable[[dict[str, Any], int], Any]] = {
    **{kind: scalar(kind) for kind in SCALARS},
    **dict.fromkeys(FLOATS, read_float),
    **dict.fromkeys(("string", *TEXTS), read_text),
    "binary": read_binary,
    "timestamp": read_timestamp,
    "decimal": read_decimal,
    "described": read_described,
    "map": read_map,
    "array": read_array,
    **dict.fromkeys(IEEE, read_ieee),
}
