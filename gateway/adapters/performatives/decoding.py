"""The type system of AMQP 1.0 (part 1): reading. ``encoding`` writes, ``typed`` serves composites.

Plain Python values stand for the default types: ``int`` is long, ``float`` double, ``str`` string,
``bytes`` binary, ``list`` list, ``dict`` map, ``UUID`` uuid; everything else is a class of
``gateway.values``. A map whose keys a ``dict`` cannot tell apart is a ``Map``.

The readers of the table check no bounds: a value that runs past the end stops past the end, and
``struct.error`` and ``IndexError`` may escape. ``read_value``, ``decode`` and ``skip`` check.
"""

import struct
from collections.abc import Callable
from math import inf
from struct import Struct
from typing import Any
from uuid import UUID

from gateway.adapters.core.allowance import MOST_VALUES, Allowance
from gateway.values import (
    FEW_UNSALTED,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Map,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

DEPTH = 64
"""How deep compound and described values may nest."""

EMPTY, EMPTY_DESCRIBED = 255, 15
"""How many elements an array may have that take no octets: nothing but a count announces them."""

NULL = 0x40

TEXTS = frozenset((0xA0, 0xA1, 0xA3, 0xB0, 0xB1, 0xB3))
"""Constructors of octets, strings and symbols."""

_I = Struct(">I")
_II = Struct(">II")

Reader = Callable[[bytes, int, int], tuple[Any, int]]
"""Octets, offset behind the constructor, depth -> value, where it stopped."""


class FieldError(ValueError):
    """Octets that are no AMQP value, or a value that cannot be written (amqp:decode-error)."""


class TooManyValues(FieldError):
    """Nothing is wrong with them but their number (amqp:resource-limit-exceeded)."""

    def __init__(self) -> None:
        super().__init__(f"more than {MOST_VALUES} values in the sections of a message")


ALLOWANCE = Allowance(TooManyValues)
"""Limits the values in the sections of one incoming message. Only compound values are counted."""


# --- whole values -------------------------------------------------------------------------------


def read_value(
    buf: bytes, at: int = 0, end: int | None = None, read: Reader | None = None
) -> tuple[Any, int]:
    """The value at ``at`` and where it ends, at ``end`` at the latest. ``read`` takes it instead of
    the reader of its constructor. Raises ``FieldError``."""
    try:
        value, stop = READERS[buf[at]](buf, at + 1, 0) if read is None else read(buf, at, 0)
    except FieldError:
        raise
    except (struct.error, IndexError) as error:
        raise FieldError("a value is cut short") from error
    except UnicodeDecodeError as error:
        raise FieldError("a string is not valid") from error
    except ValueError as error:
        raise FieldError(str(error)) from error
    if stop > (len(buf) if end is None else end):
        raise FieldError("a value runs past its end")
    return value, stop


def decode(octets: bytes) -> Any:
    """The one value that these octets are. Raises ``FieldError``."""
    value, stop = read_value(octets)
    if stop != len(octets):
        raise FieldError("octets follow the value")
    return value


def skip(buf: bytes, at: int, end: int) -> int:
    """Where the value at ``at`` ends. Looks at constructors and sizes only, not into compounds."""
    wanted, described = 1, 0
    try:
        while wanted:
            code = buf[at]
            width = WIDTHS[code]
            if width >= 0:
                at += 1 + width
            elif width == -1:
                at += 2 + buf[at + 1]
            elif width == -4:
                at += 5 + _I.unpack_from(buf, at + 1)[0]
            elif code == 0 and described < DEPTH:
                at += 1
                wanted += 2  # the descriptor, and the value it describes
                described += 1
            else:
                raise FieldError(f"no value begins with {code:#04x}, or descriptors nest too deep")
            wanted -= 1
            if at > end:
                raise FieldError("a value runs past its end")
    except (struct.error, IndexError) as error:
        raise FieldError("a value is cut short") from error
    return at


# --- numbers and other values of fixed width ----------------------------------------------------


def fixed(layout: Struct, kind: Callable[[Any], Any] | None = None) -> Reader:
    """A reader of numbers, as plain ones or as ``kind``."""
    unpack, width = layout.unpack_from, layout.size

    def read_plain(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        return unpack(buf, at)[0], at + width

    def read_typed(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        assert kind is not None
        return kind(unpack(buf, at)[0]), at + width

    return read_plain if kind is None else read_typed


def constant(value: Any) -> Reader:
    """A reader of values that have no octets besides their constructor."""

    def read(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        return value, at

    return read


def read_boolean(buf: bytes, at: int, depth: int) -> tuple[bool, int]:
    if buf[at] > 1:
        raise FieldError(f"a boolean is 0 or 1, not {buf[at]}")
    return buf[at] == 1, at + 1


def _read_char(buf: bytes, at: int, depth: int) -> tuple[Char, int]:
    (point,) = _I.unpack_from(buf, at)
    if point > 0x10FFFF or 0xD800 <= point < 0xE000:
        raise FieldError(f"{point:#x} is no Unicode character")
    return Char(chr(point)), at + 4


def _octets(kind: Callable[[bytes], Any], width: int) -> Reader:
    def read(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        return kind(buf[at : at + width]), at + width

    return read


def _uuid(octets: bytes) -> UUID:
    return UUID(bytes=octets)


# --- values of variable width -------------------------------------------------------------------


def _read_binary8(buf: bytes, at: int, depth: int) -> tuple[bytes, int]:
    end = at + 1 + buf[at]
    return buf[at + 1 : end], end


def _read_binary32(buf: bytes, at: int, depth: int) -> tuple[bytes, int]:
    end = at + 4 + _I.unpack_from(buf, at)[0]
    return buf[at + 4 : end], end


def _read_string8(buf: bytes, at: int, depth: int) -> tuple[str, int]:
    end = at + 1 + buf[at]
    return buf[at + 1 : end].decode(), end


def _read_string32(buf: bytes, at: int, depth: int) -> tuple[str, int]:
    end = at + 4 + _I.unpack_from(buf, at)[0]
    return buf[at + 4 : end].decode(), end


_SYMBOLS: dict[bytes, Symbol] = {}
"""Symbols are few and come again (§1.6.21); the first thousand short ones are kept."""


def _read_symbol8(buf: bytes, at: int, depth: int) -> tuple[Symbol, int]:
    end = at + 1 + buf[at]
    raw = buf[at + 1 : end]
    symbol = _SYMBOLS.get(raw)
    if symbol is None:
        symbol = Symbol(raw.decode("ascii"))
        if len(_SYMBOLS) < 1024 and len(raw) < 65:
            _SYMBOLS[raw] = symbol
    return symbol, end


def _read_symbol32(buf: bytes, at: int, depth: int) -> tuple[Symbol, int]:
    end = at + 4 + _I.unpack_from(buf, at)[0]
    return Symbol(buf[at + 4 : end].decode("ascii")), end


# --- compounds ----------------------------------------------------------------------------------


def _items(buf: bytes, at: int, end: int, count: int, depth: int) -> list[Any]:
    """The items of a list or map, which must end where its size says."""
    if depth >= DEPTH:
        raise FieldError(f"values nest deeper than {DEPTH}")
    if count > end - at:
        raise FieldError("a compound value has less octets than items")
    if ALLOWANCE.left is not inf:
        ALLOWANCE.take(count + 1)
    depth += 1
    readers = READERS
    items: list[Any] = []
    for _ in range(count):
        item, at = readers[buf[at]](buf, at + 1, depth)
        items.append(item)
    if at != end:
        raise FieldError("the items of a compound value do not end where it does")
    return items


def _map(buf: bytes, at: int, end: int, count: int, depth: int) -> dict[Any, Any]:
    """The pairs of a map; a ``Map`` if a ``dict`` cannot hold them."""
    if count & 1:
        raise FieldError("a map has a key without a value")
    if depth >= DEPTH:
        raise FieldError(f"values nest deeper than {DEPTH}")
    if count > end - at:
        raise FieldError("a compound value has less octets than items")
    if ALLOWANCE.left is not inf:
        ALLOWANCE.take(count + 1)
    depth += 1
    readers = READERS
    keys: list[Any] = []
    values: list[Any] = []
    unsalted = 0
    for _ in range(count >> 1):
        code = buf[at]
        if code == 0xA1:  # short strings, as most keys are
            stop = at + 2 + buf[at + 1]
            keys.append(buf[at + 2 : stop].decode())
            at = stop
        else:
            key, at = readers[code](buf, at + 1, depth)
            keys.append(key)
            if code not in TEXTS:
                unsalted += 1
        value, at = readers[buf[at]](buf, at + 1, depth)
        values.append(value)
    if at != end:
        raise FieldError("the items of a compound value do not end where it does")
    if unsalted > FEW_UNSALTED:
        return Map(zip(keys, values, strict=True))
    try:
        found = dict(zip(keys, values, strict=True))
    except TypeError:  # a key without a hash
        return Map(zip(keys, values, strict=True))
    return found if len(found) == len(keys) else Map(zip(keys, values, strict=True))


def _read_list8(buf: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    end = at + 1 + buf[at]
    return _items(buf, at + 2, end, buf[at + 1], depth), end


def _read_list32(buf: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    size, count = _II.unpack_from(buf, at)
    end = at + 4 + size
    return _items(buf, at + 8, end, count, depth), end


def _read_list0(buf: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    return [], at


def _read_map8(buf: bytes, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    end = at + 1 + buf[at]
    return _map(buf, at + 2, end, buf[at + 1], depth), end


def _read_map32(buf: bytes, at: int, depth: int) -> tuple[dict[Any, Any], int]:
    size, count = _II.unpack_from(buf, at)
    end = at + 4 + size
    return _map(buf, at + 8, end, count, depth), end


def _read_array8(buf: bytes, at: int, depth: int) -> tuple[Array, int]:
    end = at + 1 + buf[at]
    return _array(buf, at + 2, end, buf[at + 1], depth), end


def _read_array32(buf: bytes, at: int, depth: int) -> tuple[Array, int]:
    size, count = _II.unpack_from(buf, at)
    end = at + 4 + size
    return _array(buf, at + 8, end, count, depth), end


def _array(buf: bytes, at: int, end: int, count: int, depth: int) -> Array:
    """The elements behind their one constructor, which may be described, even more than once."""
    if depth >= DEPTH:
        raise FieldError(f"values nest deeper than {DEPTH}")
    if ALLOWANCE.left is not inf:
        ALLOWANCE.take(count + 1)
    depth += 1
    descriptors: list[Any] = []
    while buf[at] == 0:
        if len(descriptors) >= DEPTH:
            raise FieldError(f"descriptors nest deeper than {DEPTH}")
        descriptor, at = READERS[buf[at + 1]](buf, at + 2, depth)
        descriptors.append(descriptor)
    code = buf[at]
    reader, width = READERS[code], WIDTHS[code]
    at += 1
    items: list[Any] = []
    if width == 0:
        if count > (EMPTY_DESCRIBED if descriptors else EMPTY):
            raise FieldError(f"an array has {count} elements without octets")
        if at == end and not descriptors:
            return _nothings(code, count)
        items = [reader(buf, at, depth)[0] for _ in range(count)]
    elif count > end - at:
        raise FieldError("an array has less octets than elements")
    elif count == 0 and width == UNKNOWN:
        raise FieldError(f"no value begins with {code:#04x}")
    else:
        for _ in range(count):
            item, at = reader(buf, at, depth)
            items.append(item)
    if at != end:
        raise FieldError("the elements of an array do not end where it does")
    return Array(items, code, descriptors)


_NOTHINGS: dict[tuple[int, int], Array] = {}


def _nothings(code: int, count: int) -> Array:
    """An array of elements without octets, shared: a few octets must not cost kilobytes."""
    found = _NOTHINGS.get((code, count))
    if found is None:
        items = [READERS[code](b"", 0, 0)[0]] * count
        found = _NOTHINGS[code, count] = Array(items, code)
    return found


def _read_described(buf: bytes, at: int, depth: int) -> tuple[Described, int]:
    if depth >= DEPTH:
        raise FieldError(f"values nest deeper than {DEPTH}")
    if ALLOWANCE.left is not inf:
        ALLOWANCE.take(2)
    descriptor, at = READERS[buf[at]](buf, at + 1, depth + 1)
    value, at = READERS[buf[at]](buf, at + 1, depth + 1)
    return Described(descriptor, value), at


def _unknown(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
    raise FieldError(f"no value begins with {buf[at - 1]:#04x}")


# --- the table ----------------------------------------------------------------------------------

_BY_CODE: dict[int, Reader] = {
    0x00: _read_described,
    0x40: constant(None),
    0x41: constant(True),
    0x42: constant(False),
    0x43: constant(UInt(0)),
    0x44: constant(ULong(0)),
    0x45: _read_list0,
    0x50: fixed(Struct(">B"), UByte),
    0x51: fixed(Struct(">b"), Byte),
    0x52: fixed(Struct(">B"), UInt),
    0x53: fixed(Struct(">B"), ULong),
    0x54: fixed(Struct(">b"), Int),
    0x55: fixed(Struct(">b")),
    0x56: read_boolean,
    0x60: fixed(Struct(">H"), UShort),
    0x61: fixed(Struct(">h"), Short),
    0x70: fixed(_I, UInt),
    0x71: fixed(Struct(">i"), Int),
    0x72: fixed(Struct(">f"), Float),
    0x73: _read_char,
    0x74: _octets(Decimal32, 4),
    0x80: fixed(Struct(">Q"), ULong),
    0x81: fixed(Struct(">q")),
    0x82: fixed(Struct(">d")),
    0x83: fixed(Struct(">q"), Timestamp),
    0x84: _octets(Decimal64, 8),
    0x94: _octets(Decimal128, 16),
    0x98: _octets(_uuid, 16),
    0xA0: _read_binary8,
    0xA1: _read_string8,
    0xA3: _read_symbol8,
    0xB0: _read_binary32,
    0xB1: _read_string32,
    0xB3: _read_symbol32,
    0xC0: _read_list8,
    0xC1: _read_map8,
    0xD0: _read_list32,
    0xD1: _read_map32,
    0xE0: _read_array8,
    0xF0: _read_array32,
}

READERS: list[Reader] = [_BY_CODE.get(code, _unknown) for code in range(256)]
"""A reader for every constructor octet."""

UNKNOWN = -9

_BY_NIBBLE = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16, **dict.fromkeys((0xA, 0xC, 0xE), -1)}

WIDTHS: list[int] = [
    _BY_NIBBLE.get(code >> 4, -4) if code and code in _BY_CODE else UNKNOWN for code in range(256)
]
"""Octets behind the constructor, or -1 and -4 if a size of so many octets precedes them (§1.2)."""
