"""The type system of 0-10: reading values, and looking whether they can be read.

Plain Python values stand for the types that clients use most: ``int`` is int64, ``float`` double,
``str`` str16, ``bytes`` vbin16 (vbin32 if it is longer), ``list`` list, ``dict`` map, ``UUID``
uuid, ``None`` void. Every other type has a class of ``gateway.values`` or of ``types``, so that
``encoding`` writes a value in the type in which it came. An unknown type code tells the
width of its values; they are kept as ``CodedOctets``.

Octets of a map, list or array are here always without their size. The readers of the table check no
bounds: a value that runs past the end stops there, and ``struct.error`` and ``IndexError`` may
escape. ``read_map``, ``read_list``, ``read_array`` and ``check_map`` check.
"""

import struct
from collections.abc import Callable
from math import inf
from struct import Struct
from typing import Any
from uuid import UUID

from gateway.adapters.core.templates import Place
from gateway.adapters.segments.fields import exactly
from gateway.adapters.segments.types import (
    ALLOWANCE,
    DEPTH,
    LATEST_SECONDS,
    MOST_EMPTY,
    UNASSIGNED,
    WIDTHS,
    FieldError,
)
from gateway.message import Table
from gateway.values import (
    Byte,
    Char,
    CodedOctets,
    CodedText,
    Float,
    Int,
    LongScaled,
    Map,
    Milliseconds,
    Scaled,
    Seconds,
    Short,
    ShortString,
    TypedArray,
    UByte,
    UInt,
    ULong,
    UShort,
)

_B, _H, _I, _Q, _b, _h, _i, _q, _f, _d = (Struct(f">{code}") for code in "BHIQbhiqfd")
_Bi, _Bq = Struct(">Bi"), Struct(">Bq")

Reader = Callable[[bytes, int, int], tuple[Any, int]]
"""Octets, offset behind the type code, depth -> value, where it stopped."""


# --- the octets of whole containers ---------------------------------------------------------------


def read_map(octets: bytes) -> Table:
    """The map whose octets these are. Raises ``FieldError``."""
    return _whole(_map, octets)  # type: ignore[no-any-return]


def read_list(octets: bytes) -> list[Any]:
    """The list whose octets these are. Raises ``FieldError``."""
    return _whole(_list, octets)  # type: ignore[no-any-return]


def read_array(octets: bytes) -> TypedArray:
    """The array whose octets these are. Raises ``FieldError``."""
    return _whole(_array, octets)  # type: ignore[no-any-return]


def read_texts(octets: bytes) -> tuple[str, ...]:
    """The texts of an array of str16. Raises ``FieldError``."""
    items = read_array(octets)
    for item in items:
        if not isinstance(item, str):
            raise FieldError(f"an array of texts holds a {type(item).__name__}")
    return tuple(items)


def _whole(reader: Callable[[bytes, int, int, int], Any], octets: bytes) -> Any:
    try:
        return reader(octets, 0, len(octets), 0)
    except (struct.error, IndexError) as error:
        raise FieldError("a value is cut short") from error


def deeper(depth: int) -> int:
    if depth >= DEPTH:
        raise FieldError(f"values nest deeper than {DEPTH}")
    return depth + 1


def _map(buf: bytes, at: int, end: int, depth: int) -> Table:
    if at == end:
        return {}  # without even a count
    depth = deeper(depth)
    (count,) = _I.unpack_from(buf, at)
    at += 4
    if count > end - at:
        raise FieldError("a map has less octets than entries")
    if ALLOWANCE.left is not inf:
        ALLOWANCE.take(count + 1)
    readers = READERS
    keys: list[str] = []
    values: list[Any] = []
    for _ in range(count):
        stop = at + 1 + buf[at]
        keys.append(buf[at + 1 : stop].decode("utf-8", "surrogateescape"))
        value, at = readers[buf[stop]](buf, stop + 1, depth)
        values.append(value)
    if at != end:
        raise FieldError("the entries of a map do not end where it does")
    found = dict(zip(keys, values, strict=True))
    return found if len(found) == count else Map(zip(keys, values, strict=True))


def _list(buf: bytes, at: int, end: int, depth: int) -> list[Any]:
    if at == end:
        return []
    depth = deeper(depth)
    (count,) = _I.unpack_from(buf, at)
    at += 4
    if count > end - at:
        raise FieldError("a list has less octets than items")
    if ALLOWANCE.left is not inf:
        ALLOWANCE.take(count + 1)
    items: list[Any] = []
    for _ in range(count):
        value, at = READERS[buf[at]](buf, at + 1, depth)
        items.append(value)
    if at != end:
        raise FieldError("the items of a list do not end where it does")
    return items


def _array(buf: bytes, at: int, end: int, depth: int) -> TypedArray:
    if at == end:
        return TypedArray()
    depth = deeper(depth)
    code = buf[at]
    (count,) = _I.unpack_from(buf, at + 1)
    at += 5
    if count > (MOST_EMPTY if WIDTHS[code] == 0 else end - at):
        raise FieldError("an array has less octets than elements")
    if ALLOWANCE.left is not inf:
        ALLOWANCE.take(count + 1)
    reader = READERS[code]
    if WIDTHS[code] == UNASSIGNED:
        raise FieldError(f"type code {code:#04x} is not assigned")
    items: list[Any] = []
    for _ in range(count):
        value, at = reader(buf, at, depth)
        items.append(value)
    if at != end:
        raise FieldError("the elements of an array do not end where it does")
    return TypedArray(items, code)


# --- single values --------------------------------------------------------------------------------


def _fixed(layout: Struct, kind: Callable[[Any], Any] | None = None) -> Reader:
    unpack, width = layout.unpack_from, layout.size

    def read_plain(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        return unpack(buf, at)[0], at + width

    def read_typed(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        assert kind is not None
        return kind(unpack(buf, at)[0]), at + width

    return read_plain if kind is None else read_typed


def _coded(code: int) -> Reader:
    """A reader of octets that keep their type code."""
    width = WIDTHS[code]

    def read_fixed(buf: bytes, at: int, depth: int) -> tuple[CodedOctets, int]:
        return CodedOctets(exactly(buf, at, width), code), at + width

    def read_variable(buf: bytes, at: int, depth: int) -> tuple[CodedOctets, int]:
        start = at - width
        end = start + int.from_bytes(buf[at:start], "big")
        return CodedOctets(buf[start:end], code), end

    def read_unassigned(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        raise FieldError(f"type code {code:#04x} is not assigned")

    if width == UNASSIGNED:
        return read_unassigned
    return read_fixed if width >= 0 else read_variable


def _text(code: int, encoding: str) -> Reader:
    """A reader of text in another encoding than UTF-8. Invalid text stays octets."""
    octets = _coded(code)

    def read(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        raw, at = octets(buf, at, depth)
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            return raw, at
        return (CodedText(text, code) if text.encode(encoding) == raw else raw), at

    return read


def _read_boolean(buf: bytes, at: int, depth: int) -> tuple[bool, int]:
    return buf[at] != 0, at + 1


def _read_float(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
    (value,) = _f.unpack_from(buf, at)
    if value != value:  # converting a NaN to a double may change its octets
        return CodedOctets(buf[at : at + 4], 0x23), at + 4
    return Float(value), at + 4


def _read_char32(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
    (point,) = _I.unpack_from(buf, at)
    if point > 0x10FFFF or 0xD800 <= point < 0xE000:
        return CodedOctets(buf[at : at + 4], 0x27), at + 4
    return Char(chr(point)), at + 4


def _read_datetime(buf: bytes, at: int, depth: int) -> tuple[int, int]:
    (value,) = _Q.unpack_from(buf, at)
    return (Seconds(value) if value <= LATEST_SECONDS else Milliseconds(value)), at + 8


def _read_uuid(buf: bytes, at: int, depth: int) -> tuple[UUID, int]:
    return UUID(bytes=exactly(buf, at, 16)), at + 16


def _read_dec32(buf: bytes, at: int, depth: int) -> tuple[Scaled, int]:
    return Scaled(*_Bi.unpack_from(buf, at)), at + 5


def _read_dec64(buf: bytes, at: int, depth: int) -> tuple[Scaled, int]:
    return LongScaled(*_Bq.unpack_from(buf, at)), at + 9


def _read_str8(buf: bytes, at: int, depth: int) -> tuple[str, int]:
    end = at + 1 + buf[at]
    return ShortString(buf[at + 1 : end].decode("utf-8", "surrogateescape")), end


def _read_str16(buf: bytes, at: int, depth: int) -> tuple[str, int]:
    end = at + 2 + (buf[at] << 8 | buf[at + 1])
    return buf[at + 2 : end].decode("utf-8", "surrogateescape"), end


def _read_vbin16(buf: bytes, at: int, depth: int) -> tuple[bytes, int]:
    end = at + 2 + (buf[at] << 8 | buf[at + 1])
    return buf[at + 2 : end], end


def _read_vbin32(buf: bytes, at: int, depth: int) -> tuple[bytes, int]:
    end = at + 4 + _I.unpack_from(buf, at)[0]
    octets = buf[at + 4 : end]
    return (octets if len(octets) > 0xFFFF else CodedOctets(octets, 0xA0)), end


def _read_void(buf: bytes, at: int, depth: int) -> tuple[None, int]:
    return None, at


def _container(inner: Callable[[bytes, int, int, int], Any]) -> Reader:
    def read(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        start = at + 4
        end = start + _I.unpack_from(buf, at)[0]
        if end > len(buf):
            # Or its size would stand for octets that are not there, in the checks of counts.
            raise FieldError("a container runs past its end")
        return inner(buf, start, end, depth), end

    return read


_BY_CODE: dict[int, Reader] = {
    0x01: _fixed(_b, Byte),
    0x02: _fixed(_B, UByte),
    0x04: _text(0x04, "iso8859-15"),
    0x08: _read_boolean,
    0x11: _fixed(_h, Short),
    0x12: _fixed(_H, UShort),
    0x21: _fixed(_i, Int),
    0x22: _fixed(_I, UInt),
    0x23: _read_float,
    0x27: _read_char32,
    0x31: _fixed(_q),
    0x32: _fixed(_Q, ULong),
    0x33: _fixed(_d),
    0x38: _read_datetime,
    0x48: _read_uuid,
    0x84: _text(0x84, "iso8859-15"),
    0x85: _read_str8,
    0x86: _text(0x86, "utf-16-be"),
    0x90: _read_vbin16,
    0x94: _text(0x94, "iso8859-15"),
    0x95: _read_str16,
    0x96: _text(0x96, "utf-16-be"),
    0xA0: _read_vbin32,
    0xA8: _container(_map),
    0xA9: _container(_list),
    0xAA: _container(_array),
    0xC8: _read_dec32,
    0xD8: _read_dec64,
    0xF0: _read_void,
}

READERS: list[Reader] = [_BY_CODE.get(code) or _coded(code) for code in range(256)]
"""A reader for every type code."""


# --- looking without reading ----------------------------------------------------------------------


def check_map(buf: bytes, at: int, end: int, depth: int = 0) -> None:
    """Raise ``FieldError`` or ``IndexError`` unless the map between these offsets can be read.
    Decodes nothing."""
    if at == end:
        return
    depth = deeper(depth)
    count = int.from_bytes(buf[at : at + 4], "big")
    at += 4
    if count > end - at:
        raise FieldError("a map has less octets than entries")
    if ALLOWANCE.left is not inf:
        ALLOWANCE.take(count + 1)
    for _ in range(count):
        at += 1 + buf[at]
        code = buf[at]
        width = WIDTHS[code]
        if width >= 0:
            at += 1 + width
        elif width == -2:
            at += 3 + (buf[at + 1] << 8 | buf[at + 2])
        else:
            at = check_value(buf, at + 1, end, code, depth)
        if at > end:
            raise FieldError("an entry runs past its map")
    if at != end:
        raise FieldError("the entries of a map do not end where it does")


_CONTAINERS = (0xA8, 0xA9, 0xAA)


def map_places(buf: bytes, at: int, end: int) -> list[Place]:
    """The places of the values of a checked map, but for those with values inside."""
    found: list[Place] = []
    at += 4
    while at < end:
        at += 1 + buf[at]
        code = buf[at]
        stop = check_value(buf, at + 1, end, code, 0)
        if code not in _CONTAINERS:
            found.append(Place(at + 1 + max(0, -WIDTHS[code]), stop))
        at = stop
    return found


def check_value(buf: bytes, at: int, end: int, code: int, depth: int) -> int:
    """Where the value with this type code ends."""
    width = WIDTHS[code]
    if width >= 0:
        return at + width
    if width == UNASSIGNED:
        raise FieldError(f"type code {code:#04x} is not assigned")
    start = at - width
    stop = start + int.from_bytes(buf[at:start], "big")
    if stop > end:
        raise FieldError("a value runs past its end")
    if code == 0xA8:
        check_map(buf, start, stop, depth)
    elif code == 0xA9 or code == 0xAA:
        _check_items(buf, start, stop, code == 0xAA, depth)
    return stop


def _check_items(buf: bytes, at: int, end: int, array: bool, depth: int) -> None:
    """The same for a list or an array."""
    if at == end:
        return
    depth = deeper(depth)
    code = 0
    if array:
        code = buf[at]
        at += 1
    count = int.from_bytes(buf[at : at + 4], "big")
    at += 4
    if array and WIDTHS[code] == UNASSIGNED:
        raise FieldError(f"type code {code:#04x} is not assigned")
    if count > (MOST_EMPTY if array and WIDTHS[code] == 0 else end - at):
        raise FieldError("less octets than items")
    if ALLOWANCE.left is not inf:
        ALLOWANCE.take(count + 1)
    for _ in range(count):
        if not array:
            code = buf[at]
            at += 1
        at = check_value(buf, at, end, code, depth)
        if at > end:
            raise FieldError("an item runs past its end")
    if at != end:
        raise FieldError("the items do not end where they should")


def map_entries(octets: bytes) -> list[tuple[bytes, bytes]]:
    """The entries of a map: name, and the octets of the whole entry. Raises ``FieldError``."""
    found: list[tuple[bytes, bytes]] = []
    at, end = 4, len(octets)
    try:
        check_map(octets, 0, end)
        while at < end:
            name = at + 1 + octets[at]
            stop = check_value(octets, name + 1, end, octets[name], 0)
            found.append((octets[at + 1 : name], octets[at:stop]))
            at = stop
    except IndexError as error:
        raise FieldError("a value is cut short") from error
    return found
