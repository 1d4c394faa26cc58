"""The type system of 0-10: writing values.

The exact type of a value decides, then its base type. Values of other versions are written
as their natural partners: a timestamp in seconds, a decimal of IEEE 754 as text, a described value
without its descriptor.
"""

import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from struct import Struct
from typing import Any
from uuid import UUID

from gateway.adapters.segments.decoding import deeper
from gateway.adapters.segments.fields import octets32, text8
from gateway.adapters.segments.types import UNASSIGNED, WIDTHS, FieldError
from gateway.message import Table
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
    LongScaled,
    Map,
    Milliseconds,
    Scaled,
    Seconds,
    Short,
    ShortString,
    Timestamp,
    TypedArray,
    UByte,
    UInt,
    ULong,
    UShort,
)

_B, _H, _I, _Q, _b, _h, _i, _q, _f, _d = (Struct(f">{code}") for code in "BHIQbhiqfd")
_Bi, _Bq = Struct(">Bi"), Struct(">Bq")

SIGNED_32, SIGNED_64 = 1 << 31, 1 << 63

Encoded = tuple[int, bytes]
"""Type code, and the octets behind it."""


def write_map(table: Table) -> bytes:
    """The octets of a map. Raises ``FieldError``."""
    return _write(_map_octets, table)


def write_list(items: Iterable[Any]) -> bytes:
    """The octets of a list. Raises ``FieldError``."""
    return _write(_list_octets, items)


def write_array(items: Iterable[Any]) -> bytes:
    """The octets of an array, in the common type of its items. Raises ``FieldError``."""
    return _write(_array_octets, items if isinstance(items, Array) else Array(items))


def write_texts(texts: Iterable[str]) -> bytes:
    """The octets of an array of str16. Raises ``FieldError``."""
    return _write(_array_octets, TypedArray(texts, 0x95))


def _write(writer: Callable[[Any, int], bytes], value: Any) -> bytes:
    try:
        return writer(value, 0)
    except (struct.error, OverflowError, UnicodeError) as error:
        raise FieldError("a value does not fit its type") from error


def encoded(value: Any, depth: int = 0) -> Encoded:
    """Type code and octets of a value. Raises ``FieldError``, and ``struct.error`` if a number does
    not fit its type."""
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value, depth)
    for kind, writer in _WRITERS.items():
        if isinstance(value, kind):
            return writer(value, depth)
    raise FieldError(f"AMQP 0-10 has no type for a {type(value).__name__}")


def _map_octets(table: Table, depth: int) -> bytes:
    depth = deeper(depth)
    pairs = table.pairs if isinstance(table, Map) else table.items()
    pieces: list[bytes] = [_I.pack(len(pairs))]
    for key, value in pairs:
        if not isinstance(key, str):
            raise FieldError(f"a key of a map is text, not a {type(key).__name__}")
        code, octets = encoded(value, depth)
        pieces += (text8(key, "a key of a map"), _B.pack(code), octets)
    return b"".join(pieces)


def _list_octets(items: Iterable[Any], depth: int) -> bytes:
    depth = deeper(depth)
    written = [encoded(item, depth) for item in items]
    pieces = [_I.pack(len(written))]
    for code, octets in written:
        pieces += (_B.pack(code), octets)
    return b"".join(pieces)


def _array_octets(array: Array, depth: int) -> bytes:
    depth = deeper(depth)
    element = array.element if isinstance(array, TypedArray) else None
    if not array:
        if element is None:
            return b"" if isinstance(array, TypedArray) else b"\xf0\0\0\0\0"
        return _B.pack(element) + bytes(4)
    written = [encoded(item, depth) for item in array]
    codes = {code for code, _ in written}
    if element is None:
        element = 0xA0 if codes == {0x90, 0xA0} else min(codes)
    if codes != {element}:
        written = [widened(code, octets, element) for code, octets in written]
    return _B.pack(element) + _I.pack(len(written)) + b"".join(octets for _, octets in written)


def widened(code: int, octets: bytes, wanted: int) -> Encoded:
    """The same value under another type code: octets and text with a length of another width."""
    have, want = WIDTHS[code], WIDTHS[wanted]
    if code == wanted:
        return code, octets
    if have < 0 and want < 0 and UNASSIGNED not in (have, want):
        content = octets[-have:]
        return wanted, len(content).to_bytes(-want, "big") + content
    raise FieldError("the elements of an array are of several types")


def _plain(code: int, layout: Struct) -> Callable[[Any, int], Encoded]:
    pack = layout.pack

    def write(value: Any, depth: int) -> Encoded:
        return code, pack(value)

    return write


def _int(value: int, depth: int) -> Encoded:
    if -SIGNED_64 <= value < SIGNED_64:
        return 0x31, _q.pack(value)
    return (0x32, _Q.pack(value)) if 0 <= value < 1 << 64 else _str(str(value), depth)


def _str(value: str, depth: int) -> Encoded:
    raw = value.encode("utf-8", "surrogateescape")
    if len(raw) > 0xFFFF:
        return 0xA0, octets32(raw)  # no type has longer texts
    return 0x95, _H.pack(len(raw)) + raw


def _short_string(value: str, depth: int) -> Encoded:
    raw = value.encode("utf-8", "surrogateescape")
    return (0x85, _B.pack(len(raw)) + raw) if len(raw) < 256 else _str(value, depth)


def _bytes(value: bytes, depth: int) -> Encoded:
    if len(value) > 0xFFFF:
        return 0xA0, octets32(value)
    return 0x90, _H.pack(len(value)) + value


def _coded_octets(value: CodedOctets, depth: int) -> Encoded:
    width = WIDTHS[value.code]
    if width >= 0:
        if len(value) != width:
            raise FieldError(f"type code {value.code:#04x} has {width} octets, not {len(value)}")
        return value.code, bytes(value)
    return value.code, len(value).to_bytes(-width, "big") + value


_ENCODINGS = {0x04: "iso8859-15", 0x84: "iso8859-15", 0x94: "iso8859-15", 0x86: "utf-16-be",
              0x96: "utf-16-be"}  # fmt: skip


def _coded_text(value: CodedText, depth: int) -> Encoded:
    return _coded_octets(CodedOctets(value.encode(_ENCODINGS[value.code]), value.code), depth)


def _seconds(value: int, depth: int) -> Encoded:
    return (0x38, _Q.pack(value)) if value >= 0 else (0x31, _q.pack(value))


def _timestamp(value: int, depth: int) -> Encoded:
    return _seconds(value // 1000, depth)


def _scaled(value: Scaled, depth: int) -> Encoded:
    if -SIGNED_32 <= value.value < SIGNED_32:
        return 0xC8, _Bi.pack(*value)
    return 0xD8, _Bq.pack(*value)


def _sized(code: int, writer: Callable[[Any, int], bytes]) -> Callable[[Any, int], Encoded]:
    def write(value: Any, depth: int) -> Encoded:
        octets = writer(value, depth)
        return code, _I.pack(len(octets)) + octets

    return write


_WRITERS: dict[type[Any], Callable[[Any, int], Encoded]] = {
    str: _str,
    int: _int,
    Decimal: lambda value, depth: _str(str(value), depth),
    bool: lambda value, depth: (0x08, b"\x01" if value else b"\x00"),
    type(None): lambda value, depth: (0xF0, b""),
    float: _plain(0x33, _d),
    bytes: _bytes,
    dict: _sized(0xA8, _map_octets),
    list: _sized(0xA9, _list_octets),
    CodedOctets: _coded_octets,
    CodedText: _coded_text,
    ShortString: _short_string,
    Byte: _plain(0x01, _b),
    UByte: _plain(0x02, _B),
    Short: _plain(0x11, _h),
    UShort: _plain(0x12, _H),
    Int: _plain(0x21, _i),
    UInt: _plain(0x22, _I),
    ULong: _plain(0x32, _Q),
    Float: _plain(0x23, _f),
    Char: lambda value, depth: (0x27, _I.pack(ord(value))),
    Seconds: _seconds,
    Timestamp: _timestamp,
    Milliseconds: lambda value, depth: (0x38, _Q.pack(value)),
    UUID: lambda value, depth: (0x48, value.bytes),
    LongScaled: lambda value, depth: (0xD8, _Bq.pack(*value)),
    Scaled: _scaled,
    IeeeDecimal: lambda value, depth: _str(str(value), depth),
    Described: lambda value, depth: encoded(value.value, depth),
    Array: _sized(0xAA, _array_octets),
}
"""By exact type; a value of another class is written as the first type that it is a kind of."""
