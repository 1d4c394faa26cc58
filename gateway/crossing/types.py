"""Values of 1.0 in field tables, and back.

Values whose type exists in field tables are converted directly. All others become values that a
legacy reader can use, with a *note* (a 1.0 constructor octet) of their original type. The notes of
a message are in the header ``x-gateway-types``: an encoded map from names to octets.
"""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar
from uuid import UUID

from gateway.adapters.performatives.decoding import FieldError, decode
from gateway.adapters.performatives.encoding import write_value
from gateway.message import Table
from gateway.values import (
    Array,
    Char,
    CodedOctets,
    CodedText,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    IeeeDecimal,
    Map,
    Milliseconds,
    Scaled,
    Seconds,
    ShortString,
    Symbol,
    Timestamp,
    UByte,
    ULong,
)

T = TypeVar("T")
Natives = frozenset[type[Any]]

TYPES = "x-gateway-types"
NESTED = 24
"""Maximum nesting of values that become tables and arrays; deeper ones are encoded."""

ENCODED, ULONG, TIMESTAMP, UUID_, CHAR, SYMBOL = 0x00, 0x80, 0x83, 0x98, 0x73, 0xA3
DECIMALS: dict[int, type[IeeeDecimal]] = {0x74: Decimal32, 0x84: Decimal64, 0x94: Decimal128}
DECIMAL_CODES = {kind: code for code, kind in DECIMALS.items()}


# --- 1.0 -> tables ------------------------------------------------------------------------------


def to_field(value: Any, depth: int = 0, native: Natives = frozenset()) -> tuple[Any, int | None]:
    """The field table form of a value, and the note for the conversion back. ``native``: types of
    1.0 that these tables have too, and field tables have not."""
    kind = type(value)
    if kind in native:
        return value, None
    if kind is ULong:
        return value, ULONG
    if kind is Timestamp:
        if value >= 0 and value % 1000 == 0:
            return Seconds(value // 1000), None
        return int(value), TIMESTAMP
    if kind is Symbol:
        return str(value), SYMBOL
    if kind is Char:
        return str(value), CHAR
    if kind is UUID:
        return str(value), UUID_
    if isinstance(value, IeeeDecimal):
        return str(value), DECIMAL_CODES[kind]
    if isinstance(value, Scaled):
        return value, None
    if isinstance(value, Described | dict | list | tuple):
        return compound(value, depth, native)
    return value, None


def compound(value: Any, depth: int, native: Natives) -> tuple[Any, int | None]:
    """Lists and maps as arrays and tables, or encoded if those cannot hold them."""
    if isinstance(value, Described | Map) or depth >= NESTED:
        return write_value(value), ENCODED
    if isinstance(value, dict):
        if not all(isinstance(key, str) and fits(key) for key in value):
            return write_value(value), ENCODED
        pairs = value.items()
        return {str(key): to_field(each, depth + 1, native)[0] for key, each in pairs}, None
    if isinstance(value, Array) and value.descriptors:
        return write_value(value), ENCODED
    return [to_field(each, depth + 1, native)[0] for each in value], None


def fits(name: str) -> bool:
    """Whether this can be the name of a field."""
    return len(name.encode("utf-8", "surrogateescape")) < 256


def write_notes(notes: dict[str, int]) -> bytes:
    return write_value({name: UByte(code) for name, code in notes.items()})


# --- maps of 0-10 -> 1.0 ------------------------------------------------------------------------

SEGMENT_NATIVES: Natives = frozenset({ULong, Char, UUID})


def from_segments(value: Any) -> Any:
    """A value of 0-10 without types that only 0-10 has."""
    if isinstance(value, Map):
        return Map([(str(key), from_segments(each)) for key, each in value.pairs])
    if isinstance(value, dict):
        return {str(key): from_segments(each) for key, each in value.items()}
    if isinstance(value, list | Array):
        return [from_segments(each) for each in value]
    if isinstance(value, CodedOctets):
        return bytes(value)
    if isinstance(value, CodedText | ShortString):
        return str(value)
    return Timestamp(value) if isinstance(value, Milliseconds) else value


# --- tables -> 1.0 ------------------------------------------------------------------------------


def apply_notes(headers: Table) -> None:
    """Convert values to the types of their notes. A note that does not fit its value is ignored."""
    notes = decoded_map(headers.pop(TYPES, None))
    for name, code in (notes or {}).items():
        if name in headers and type(code) is UByte:
            headers[name] = from_field(headers[name], int(code))


def from_field(value: Any, code: int) -> Any:
    read = READ.get(code)
    if read is None:
        return value
    try:
        return read(value)
    except (ValueError, TypeError, InvalidOperation):
        return value


def _typed(kind: type[T], value: Any) -> T:
    """The value, which must have exactly this type. Raises ``TypeError``."""
    if type(value) is not kind:
        raise TypeError(f"not {kind.__name__}")
    return value


def _ulong(value: Any) -> ULong:
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if type(number) is not int or not 0 <= number < 1 << 64:
        raise ValueError("no ulong")
    return ULong(number)


def _symbol(value: Any) -> Symbol:
    if not _typed(str, value).isascii():
        raise ValueError("no symbol")
    return Symbol(value)


def _char(value: Any) -> Char:
    if len(_typed(str, value)) != 1 or 0xD800 <= ord(value) < 0xE000:
        raise ValueError("no char")
    return Char(value)


def _uuid(value: Any) -> UUID:
    found = UUID(_typed(str, value))
    if str(found) != value:
        raise ValueError("no canonical UUID")
    return found


def _decimal(kind: type[IeeeDecimal]) -> Callable[[Any], Any]:
    def read(value: Any) -> IeeeDecimal:
        if len(_typed(str, value)) > 60:
            raise ValueError("no decimal")
        number = Decimal(value)
        if number.is_finite() and not -7000 < number.adjusted() < 7000:
            raise ValueError("no decimal of this size")
        return kind.of(number)

    return read


READ: dict[int, Callable[[Any], Any]] = {
    ENCODED: lambda value: decode(_typed(bytes, value)),
    ULONG: _ulong,
    TIMESTAMP: lambda value: Timestamp(_typed(int, value)),
    UUID_: _uuid,
    CHAR: _char,
    SYMBOL: _symbol,
    **{code: _decimal(kind) for code, kind in DECIMALS.items()},
}


def decoded_map(octets: Any) -> dict[Any, Any] | None:
    """The map in a binary header; ``None`` if there is none."""
    if type(octets) is not bytes:
        return None
    try:
        found = decode(octets)
    except FieldError:
        return None
    return found if isinstance(found, dict) else None
