"""Fields of composites: readers and writers that know the type they want.

Readers begin at the constructor and give None for null; numbers come as plain ``int``, for their
type is known. Writers give the smallest encoding, null for None. The generated layouts are made of
these.
"""

import struct
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, NamedTuple

from gateway.adapters.performatives import encoding
from gateway.adapters.performatives.decoding import (
    NULL,
    READERS,
    FieldError,
    Reader,
    constant,
    fixed,
    read_boolean,
)
from gateway.adapters.performatives.encoding import (
    OCTET,
    compound,
    sized,
    write_symbol,
    write_value,
)
from gateway.values import Array

Field = Callable[[bytes, int, int], tuple[Any, int]]
"""Octets, offset of the constructor, depth -> value or None, where it stopped."""

_B, _H, _I, _Q, _q = (Struct(f">{code}") for code in "BHIQq")
_II = Struct(">II")


class CompositeType(NamedTuple):
    """A composite type: both descriptors, its record and its layout."""

    name: str
    code: int
    symbol: str
    record: type[Any]
    read: Callable[..., tuple[Any, int]]
    write: Callable[[Any], bytes]
    provides: frozenset[str]
    section: str


class MissingField(FieldError):
    """A field that must be there is not (amqp:invalid-field)."""


# --- reading ------------------------------------------------------------------------------------


def of_type(name: str, readers: dict[int, Reader]) -> Field:
    """A field of one type, or null."""

    def read(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        code = buf[at]
        reader = readers.get(code)
        if reader is not None:
            return reader(buf, at + 1, depth)
        if code == NULL:
            return None, at + 1
        raise FieldError(f"expected {name}, found constructor {code:#04x}")

    return read


def _codes(*codes: int) -> dict[int, Reader]:
    return {code: READERS[code] for code in codes}


BY_TYPE: dict[str, dict[int, Reader]] = {
    "boolean": {0x41: constant(True), 0x42: constant(False), 0x56: read_boolean},
    "ubyte": {0x50: fixed(_B)},
    "ushort": {0x60: fixed(_H)},
    "uint": {0x52: fixed(_B), 0x43: constant(0), 0x70: fixed(_I)},
    "ulong": {0x53: fixed(_B), 0x44: constant(0), 0x80: fixed(_Q)},
    "timestamp": {0x83: fixed(_q)},
    "binary": _codes(0xA0, 0xB0),
    "string": _codes(0xA1, 0xB1),
    "symbol": _codes(0xA3, 0xB3),
    "map": _codes(0xC1, 0xD1),
}

boolean, ubyte, ushort, uint, ulong, timestamp, binary, string, symbol, map_ = (
    of_type(name, readers) for name, readers in BY_TYPE.items()
)


def several(name: str) -> Field:
    """A field with ``multiple``: null, one value, or an array of them (§1.4)."""
    readers = BY_TYPE[name]
    one = of_type(name, readers)

    def read(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        code = buf[at]
        if code not in (0xE0, 0xF0):
            value, at = one(buf, at, depth)
            return (None if value is None else (value,)), at
        found, at = READERS[code](buf, at + 1, depth)
        if found and (found.code not in readers or found.descriptors):
            raise FieldError(f"expected an array of {name}, found one of {found.code:#04x}")
        return tuple(found), at

    return read


symbols = several("symbol")


def head(buf: bytes, at: int, depth: int) -> tuple[int, int, int]:
    """How many items the list at ``at`` has, where they begin and where they end."""
    code = buf[at]
    if code == 0xC0:
        return buf[at + 2], at + 3, at + 2 + buf[at + 1]
    if code == 0xD0:
        size, count = _II.unpack_from(buf, at + 1)
        return count, at + 9, at + 5 + size
    if code == 0x45:
        return 0, at + 1, at + 1
    raise FieldError(f"expected a list, found constructor {code:#04x}")


def read_fields(
    buf: bytes, at: int, depth: int, name: str, layout: tuple[Field, ...], required: tuple[int, ...]
) -> tuple[list[Any], int]:
    """The fields that are there, in order, and where the composite ends."""
    count, at, end = head(buf, at, depth)
    if count > len(layout):
        raise FieldError(f"{name} has {len(layout)} fields, not {count}")
    values: list[Any] = []
    depth += 1
    for field in layout[:count]:
        value, at = field(buf, at, depth)
        values.append(value)
    if at != end:
        raise FieldError(f"the fields of {name} do not end where it does")
    for place in required:
        if place >= count or values[place] is None or values[place] == ():
            raise MissingField(f"field {place + 1} of {name} is missing")
    return values, end


def missing(name: str) -> MissingField:
    return MissingField(f"a field of {name} that must be there is missing")


# --- writing ------------------------------------------------------------------------------------

UINTS = [b"\x43", *(b"\x52" + octet for octet in OCTET[1:])]
"""The smallest encodings of uint up to 255."""

ULONGS = [b"\x44", *(b"\x53" + octet for octet in OCTET[1:])]


def write_boolean(value: bool | None) -> bytes:
    return b"\x40" if value is None else b"\x41" if value else b"\x42"


def write_ubyte(value: int | None) -> bytes:
    return b"\x40" if value is None else b"\x50" + _B.pack(value)


def write_ushort(value: int | None) -> bytes:
    return b"\x40" if value is None else b"\x60" + _H.pack(value)


def write_uint(value: int | None) -> bytes:
    if value is None:
        return b"\x40"
    return UINTS[value] if 0 <= value < 256 else b"\x70" + _I.pack(value)


def write_ulong(value: int | None) -> bytes:
    if value is None:
        return b"\x40"
    return ULONGS[value] if 0 <= value < 256 else b"\x80" + _Q.pack(value)


def write_timestamp(value: int | None) -> bytes:
    return b"\x40" if value is None else b"\x83" + _q.pack(value)


def write_binary(value: bytes | None) -> bytes:
    return b"\x40" if value is None else sized(0xA0, value)


def write_string(value: str | None) -> bytes:
    if value is None:
        return b"\x40"
    try:
        return sized(0xA1, value.encode())
    except UnicodeEncodeError as error:
        raise FieldError("text with lone surrogates has no UTF-8") from error


def write_symbol_field(value: str | None) -> bytes:
    return b"\x40" if value is None else write_symbol(value)


def write_map_(value: dict[Any, Any] | None) -> bytes:
    return b"\x40" if value is None else write_value(value)


def write_any(value: Any) -> bytes:
    return write_value(value)


def write_symbols(value: Iterable[str] | None) -> bytes:
    """None is null; one symbol stands alone, others in an array (§1.4)."""
    if value is None:
        return b"\x40"
    items = tuple(value)
    if len(items) == 1:
        return write_symbol(items[0])
    short = all(len(item) < 256 for item in items)
    return write_value(Array(items, 0xA3 if short else 0xB3))


def compose(descriptor: bytes, pieces: list[bytes]) -> bytes:
    """A described list; nulls at its end are left out (§1.4)."""
    while pieces and pieces[-1] == b"\x40":
        pieces.pop()
    if not pieces:
        return descriptor + b"\x45"
    return descriptor + compound(0xC0, len(pieces), b"".join(pieces))


def fitting(write: Callable[[Any], bytes]) -> Callable[[Any, int], bytes]:
    """The writer of a record as one of values: numbers that do not fit raise ``FieldError``."""

    def write_record(value: Any, depth: int) -> bytes:
        encoding.deeper(depth)
        try:
            return write(value)
        except struct.error as error:
            raise FieldError(f"{value!r} does not fit its fields") from error

    return write_record
