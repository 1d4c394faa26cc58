"""The type system of AMQP 1.0 (part 1): writing, always in the smallest encoding.

The exact type of a value decides, then its base classes. Values of older versions are written
as their natural partners: a legacy decimal as a string, seconds as a timestamp, text that is not
UTF-8 as binary.
"""

import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from struct import Struct
from typing import Any
from uuid import UUID

from gateway.adapters.performatives.decoding import DEPTH, EMPTY, EMPTY_DESCRIBED, FieldError
from gateway.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    IeeeDecimal,
    Int,
    Map,
    Scaled,
    Seconds,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

_B, _b, _H, _h, _I, _i = (Struct(f">{code}") for code in "BbHhIi")
_Q, _q, _f, _d = (Struct(f">{code}") for code in "Qqfd")

Writer = Callable[[Any, int], bytes]
"""Value, depth -> octets."""

OCTET = [bytes((value,)) for value in range(256)]


def write_value(value: Any, depth: int = 0) -> bytes:
    """The value with its constructor. Raises ``FieldError``."""
    try:
        writer = WRITERS.get(type(value))
        if writer is not None:
            return writer(value, depth)
        for kind, writer in WRITERS.items():
            if isinstance(value, kind):
                return writer(value, depth)
    except (struct.error, OverflowError) as error:
        raise FieldError(f"{value!r} does not fit its type") from error
    raise FieldError(f"AMQP 1.0 has no type for a {type(value).__name__}")


def deeper(depth: int) -> int:
    if depth >= DEPTH:
        raise FieldError(f"values nest deeper than {DEPTH}")
    return depth + 1


# --- scalars ------------------------------------------------------------------------------------


def _plain(code: int, layout: Struct) -> Writer:
    octet, pack = OCTET[code], layout.pack

    def write(value: Any, depth: int) -> bytes:
        return octet + pack(value)

    return write


def write_uint(value: int, depth: int = 0) -> bytes:
    if 0 < value < 256:
        return b"\x52" + OCTET[value]
    return b"\x70" + _I.pack(value) if value else b"\x43"


def write_ulong(value: int, depth: int = 0) -> bytes:
    if 0 < value < 256:
        return b"\x53" + OCTET[value]
    return b"\x80" + _Q.pack(value) if value else b"\x44"


def _write_int(value: int, depth: int) -> bytes:
    return b"\x54" + _b.pack(value) if -129 < value < 128 else b"\x71" + _i.pack(value)


def _write_long(value: int, depth: int) -> bytes:
    return b"\x55" + _b.pack(value) if -129 < value < 128 else b"\x81" + _q.pack(value)


def _boolean(value: bool, depth: int) -> bytes:
    return b"\x41" if value else b"\x42"


def _char(value: str) -> bytes:
    if len(value) != 1 or 0xD800 <= ord(value) < 0xE000:
        raise FieldError(f"{value!r} is not one Unicode character")
    return _I.pack(ord(value))


def sized(code: int, raw: bytes) -> bytes:
    """Octets behind the shorter constructor if they fit it, else the one 0x10 above."""
    if len(raw) < 256:
        return OCTET[code] + OCTET[len(raw)] + raw
    return OCTET[code + 16] + _I.pack(len(raw)) + raw


def _binary(value: bytes, depth: int) -> bytes:
    return sized(0xA0, bytes(value))


def _utf8(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise FieldError("text with lone surrogates has no UTF-8") from error


def write_string(value: str, depth: int = 0) -> bytes:
    """A string; octets that are not UTF-8 (surrogate escapes) are written as binary."""
    try:
        return sized(0xA1, value.encode())
    except UnicodeEncodeError:
        pass
    try:
        return sized(0xA0, value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise FieldError("text with lone surrogates has no UTF-8") from error


def _ascii(value: str) -> bytes:
    try:
        return value.encode("ascii")
    except UnicodeEncodeError as error:
        raise FieldError(f"symbol {value[:40]!r} is not ASCII") from error


def write_symbol(value: str, depth: int = 0) -> bytes:
    return sized(0xA3, _ascii(value))


def _decimal(value: Decimal, depth: int) -> bytes:
    for code, kind in ((0x74, Decimal32), (0x84, Decimal64), (0x94, Decimal128)):
        try:
            return OCTET[code] + kind.of(value).octets
        except ValueError:
            continue
    return write_string(str(value))


# --- compounds ----------------------------------------------------------------------------------


def compound(code: int, count: int, body: bytes) -> bytes:
    """A list or map behind the shorter constructor if it fits, else the one 0x10 above."""
    size = len(body)
    if size < 255 and count < 256:
        return OCTET[code] + OCTET[size + 1] + OCTET[count] + body
    return OCTET[code + 16] + _I.pack(size + 4) + _I.pack(count) + body


def _list(value: Iterable[Any], depth: int) -> bytes:
    depth = deeper(depth)
    pieces = [write_value(item, depth) for item in value]
    return compound(0xC0, len(pieces), b"".join(pieces)) if pieces else b"\x45"


def pairs_of(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """All pairs of a map, repeated keys too."""
    return list(value.pairs) if isinstance(value, Map) else list(value.items())


def _map(value: dict[Any, Any], depth: int) -> bytes:
    depth = deeper(depth)
    pieces = [write_value(each, depth) for pair in pairs_of(value) for each in pair]
    return compound(0xC1, len(pieces), b"".join(pieces))


def _described(value: Described, depth: int) -> bytes:
    depth = deeper(depth)
    return b"\x00" + write_value(value.descriptor, depth) + write_value(value.value, depth)


# --- arrays -------------------------------------------------------------------------------------


def _array(value: Array, depth: int) -> bytes:
    code, body = _elements(value, deeper(depth))
    return compound(0xE0, len(value), code + body)


def _elements(value: Array, depth: int) -> tuple[bytes, bytes]:
    """The constructor of the elements, and the elements without one."""
    head = b"".join([b"\x00" + write_value(each, depth) for each in value.descriptors])
    codes = (value.code,) if value.code is not None else _codes_for(value)
    if codes[0] < 0x50 and len(value) > (EMPTY_DESCRIBED if value.descriptors else EMPTY):
        raise FieldError(f"an array has {len(value)} elements without octets")
    try:
        contents: list[tuple[int, bytes]] = []
        if codes[0] >= 0xA0:  # written once, whatever the width of their sizes will be
            write_content = CONTENTS[codes[0] & 0xEF]
            contents = [write_content(item, depth) for item in value]
        failed: Exception | None = None
        for code in codes:
            try:
                if code >= 0xA0:
                    return head + OCTET[code], b"".join([_sized(code, *each) for each in contents])
                writer = ELEMENTS[code]
                return head + OCTET[code], b"".join([writer(item) for item in value])
            except (struct.error, OverflowError) as error:
                failed = error
    except KeyError as error:
        raise FieldError(f"no value begins with {codes[0]:#04x}") from error
    except (TypeError, AttributeError) as error:
        failed = error
    raise FieldError("the elements of an array do not fit its constructor") from failed


def _sized(code: int, count: int, content: bytes) -> bytes:
    """An element behind its size, and its count if it is compound."""
    layout = _I if code & 0x10 else _B
    if code < 0xC0:
        return layout.pack(len(content)) + content
    return layout.pack(len(content) + layout.size) + layout.pack(count) + content


def _codes_for(value: Array) -> tuple[int, ...]:
    """Constructors for these elements, the shortest first."""
    kinds = {type(item) for item in value}
    if not kinds:
        return (0x40,)
    if len(kinds) == 1:
        kind = kinds.pop()
        for known, codes in ARRAY_CODES.items():
            if issubclass(kind, known):
                return codes
    raise FieldError("the elements of an array must be of one type that arrays can hold")


Element = Callable[[Any], bytes]


def _must(expected: Any) -> Element:
    """Elements that have no octets besides their constructor."""

    def write(value: Any) -> bytes:
        if value != expected:
            raise TypeError(f"{value!r} differs from the value of the constructor")
        return b""

    return write


def _ieee(kind: type[IeeeDecimal]) -> Element:
    def write(value: IeeeDecimal) -> bytes:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is no {kind.__name__}")
        return value.octets

    return write


def _list_body(value: list[Any], depth: int) -> tuple[int, bytes]:
    depth = deeper(depth)
    return len(value), b"".join([write_value(item, depth) for item in value])


def _map_body(value: dict[Any, Any], depth: int) -> tuple[int, bytes]:
    depth = deeper(depth)
    pieces = [write_value(each, depth) for pair in pairs_of(value) for each in pair]
    return len(pieces), b"".join(pieces)


def _array_body(value: Array, depth: int) -> tuple[int, bytes]:
    code, content = _elements(value, deeper(depth))
    return len(value), code + content


ELEMENTS: dict[int, Element] = {
    0x40: _must(None), 0x41: _must(True), 0x42: _must(False), 0x43: _must(0), 0x44: _must(0),
    0x45: _must([]),
    0x50: _B.pack, 0x51: _b.pack, 0x52: _B.pack, 0x53: _B.pack, 0x54: _b.pack, 0x55: _b.pack,
    0x56: lambda value: OCTET[bool(value)],
    0x60: _H.pack, 0x61: _h.pack,
    0x70: _I.pack, 0x71: _i.pack, 0x72: _f.pack, 0x73: _char, 0x74: _ieee(Decimal32),
    0x80: _Q.pack, 0x81: _q.pack, 0x82: _d.pack, 0x83: _q.pack, 0x84: _ieee(Decimal64),
    0x94: _ieee(Decimal128), 0x98: lambda value: value.bytes,
}  # fmt: skip
"""Elements of fixed width, by the constructor that stands once before all of them."""

CONTENTS: dict[int, Callable[[Any, int], tuple[int, bytes]]] = {
    0xA0: lambda value, depth: (1, bytes(value)),
    0xA1: lambda value, depth: (1, _utf8(value)),
    0xA3: lambda value, depth: (1, _ascii(value)),
    0xC0: _list_body,
    0xC1: _map_body,
    0xE0: _array_body,
}
"""Elements of variable width, by the shorter of their two constructors: items and octets."""

ARRAY_CODES: dict[type[Any], tuple[int, ...]] = {
    type(None): (0x40,), bool: (0x56,), UByte: (0x50,), Byte: (0x51,), UShort: (0x60,),
    Short: (0x61,), UInt: (0x52, 0x70), Int: (0x54, 0x71), ULong: (0x53, 0x80),
    Timestamp: (0x83,), int: (0x55, 0x81), Float: (0x72,), float: (0x82,), Char: (0x73,),
    Symbol: (0xA3, 0xB3), str: (0xA1, 0xB1), bytes: (0xA0, 0xB0), UUID: (0x98,),
    Decimal32: (0x74,), Decimal64: (0x84,), Decimal128: (0x94,), Array: (0xE0, 0xF0),
    list: (0xC0, 0xD0), dict: (0xC1, 0xD1),
}  # fmt: skip

WRITERS: dict[type[Any], Writer] = {
    str: write_string,
    bool: _boolean,
    int: _write_long,
    type(None): lambda value, depth: b"\x40",
    Byte: _plain(0x51, _b),
    UByte: _plain(0x50, _B),
    Short: _plain(0x61, _h),
    UShort: _plain(0x60, _H),
    Int: _write_int,
    UInt: write_uint,
    ULong: write_ulong,
    Timestamp: _plain(0x83, _q),
    Seconds: lambda value, depth: b"\x83" + _q.pack(value * 1000),
    Float: _plain(0x72, _f),
    float: _plain(0x82, _d),
    Symbol: write_symbol,
    Char: lambda value, depth: b"\x73" + _char(value),
    bytes: _binary,
    bytearray: _binary,
    memoryview: _binary,
    UUID: lambda value, depth: b"\x98" + value.bytes,
    Decimal32: lambda value, depth: b"\x74" + value.octets,
    Decimal64: lambda value, depth: b"\x84" + value.octets,
    Decimal128: lambda value, depth: b"\x94" + value.octets,
    Decimal: _decimal,
    Scaled: lambda value, depth: write_string(str(value.decimal())),
    Described: _described,
    Array: _array,
    Map: _map,
    dict: _map,
    list: _list,
    tuple: _list,
}
"""Writers by type. The generated layouts add their records."""
