"""Field tables, arrays and decimals of the class-and-method family, in named dialects.

The specifications and the programs disagree about some tags (``s`` is a 16-bit integer or a short
string, ``l`` is signed or not). All read the same way; a ``Tags`` has the differences. A canonical
encoding comes back octet by octet: ``write(read(x)) == x``. Octets of a string that are not UTF-8
are kept with surrogate escapes."""

import struct
from collections.abc import Callable
from decimal import Decimal
from struct import Struct
from typing import Any
from uuid import UUID

from gateway.adapters.methods.tags import (
    DIALECTS,
    QPID,
    RABBITMQ,
    SPEC_0_8,
    SPEC_0_9_1,
    AsciiString,
    FieldError,
    Tags,
    WideString,
)
from gateway.message import Table
from gateway.values import (
    Byte,
    Char,
    Described,
    Float,
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

DEPTH = 64
"""How deep tables and arrays may nest."""

SIGNED_32, SIGNED_64 = 1 << 31, 1 << 63

_b, _h, _H, _i, _I = (Struct(f">{code}") for code in "bhHiI")
_q, _Q, _f, _d, _Bi = (Struct(f">{code}") for code in ("q", "Q", "f", "d", "Bi"))

Reader = Callable[[bytes, int, int], tuple[Any, int]]
"""Octets, offset, depth -> value, where it stopped. Stops past the end if a length lies."""


# --- reading ------------------------------------------------------------------------------------


def read_table(entries: bytes, tags: Tags = RABBITMQ) -> Table:
    """The table of these encoded entries (without their length)."""
    try:
        return _entries(entries, 0, len(entries), 0, _READERS[tags.name])
    except (struct.error, IndexError) as error:
        raise FieldError("a field table is cut short") from error


def read_value(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
    """One value, whose tag stands at ``at``, and where it stopped. Raises ``FieldError``, and
    ``struct.error`` or ``IndexError`` if it is cut short."""
    reader = _READERS[RABBITMQ.name].get(buf[at])
    if reader is None:
        raise FieldError(f"a field has the unknown tag {buf[at]:#04x}")
    return reader(buf, at + 1, depth)


def _entries(buf: bytes, at: int, end: int, depth: int, readers: dict[int, Reader]) -> Table:
    if depth > DEPTH:
        raise FieldError(f"tables nest deeper than {DEPTH}")
    table: Table = {}
    while at < end:
        stop = at + 1 + buf[at]
        if stop >= end:
            raise FieldError("a field name runs past its table")
        name = buf[at + 1 : stop].decode("utf-8", "surrogateescape")
        reader = readers.get(buf[stop])
        if reader is None:
            raise FieldError(f"field {name!r} has the unknown tag {buf[stop]:#04x}")
        table[name], at = reader(buf, stop + 1, depth)
    if at != end:
        raise FieldError("a field runs past its table")
    return table


def _items(buf: bytes, at: int, end: int, depth: int, readers: dict[int, Reader]) -> list[Any]:
    if depth > DEPTH:
        raise FieldError(f"arrays nest deeper than {DEPTH}")
    items: list[Any] = []
    while at < end:
        reader = readers.get(buf[at])
        if reader is None:
            raise FieldError(f"an array holds the unknown tag {buf[at]:#04x}")
        item, at = reader(buf, at + 1, depth)
        items.append(item)
    if at != end:
        raise FieldError("an item runs past its array")
    return items


def _fixed(layout: Struct, kind: Callable[[Any], Any] | None = None) -> Reader:
    unpack, width = layout.unpack_from, layout.size

    def read_plain(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        return unpack(buf, at)[0], at + width

    def read_typed(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        assert kind is not None
        return kind(unpack(buf, at)[0]), at + width

    return read_plain if kind is None else read_typed


def _span(buf: bytes, at: int) -> tuple[int, int]:
    """Where the long string at ``at`` begins and ends."""
    end: int = at + 4 + _I.unpack_from(buf, at)[0]
    if end > len(buf):
        raise FieldError("a field runs past its table")
    return at + 4, end


def _text(kind: type[str]) -> Reader:
    def read(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
        start, end = _span(buf, at)
        text = buf[start:end].decode("utf-8", "surrogateescape")
        return (text if kind is str else kind(text)), end

    return read


def _read_octets(buf: bytes, at: int, depth: int) -> tuple[bytes, int]:
    start, end = _span(buf, at)
    return buf[start:end], end


def _read_short_string(buf: bytes, at: int, depth: int) -> tuple[ShortString, int]:
    end = at + 1 + buf[at]
    if end > len(buf):
        raise FieldError("a field runs past its table")
    return ShortString(buf[at + 1 : end].decode("utf-8", "surrogateescape")), end


def _read_boolean(buf: bytes, at: int, depth: int) -> tuple[bool, int]:
    return buf[at] != 0, at + 1


def _read_decimal(buf: bytes, at: int, depth: int) -> tuple[Scaled, int]:
    return Scaled(*_Bi.unpack_from(buf, at)), at + 5


def _read_char(buf: bytes, at: int, depth: int) -> tuple[Char, int]:
    return Char(chr(buf[at])), at + 1


def _read_void(buf: bytes, at: int, depth: int) -> tuple[None, int]:
    return None, at


def _readers(tags: Tags) -> dict[int, Reader]:
    def read_table_field(buf: bytes, at: int, depth: int) -> tuple[Table, int]:
        start, end = _span(buf, at)
        return _entries(buf, start, end, depth + 1, readers), end

    def read_array_field(buf: bytes, at: int, depth: int) -> tuple[list[Any], int]:
        start, end = _span(buf, at)
        return _items(buf, start, end, depth + 1, readers), end

    spec = tags.short_string == "s"
    by_tag: dict[str, Reader] = {
        "t": _read_boolean,
        "b": _fixed(_b, Byte),
        "B": _fixed(Struct(">B"), UByte),
        "s": _read_short_string if spec else _fixed(_h, Short),
        "U": _fixed(_h, Short),
        "u": _fixed(_H, UShort),
        "I": _fixed(_i, Int),
        "i": _fixed(_I, UInt),
        "l": _fixed(_Q, ULong) if spec else _fixed(_q),
        "L": _fixed(_q),
        "f": _fixed(_f, Float),
        "d": _fixed(_d),
        "D": _read_decimal,
        "S": _text(str),
        "c": _text(AsciiString),
        "C": _text(WideString),
        "k": _read_char,
        "x": _read_octets,
        "A": read_array_field,
        "T": _fixed(_Q, Seconds),
        "F": read_table_field,
        "V": _read_void,
    }
    readers = {ord(tag): reader for tag, reader in by_tag.items()}
    return readers


_READERS = {tags.name: _readers(tags) for tags in DIALECTS.values()}


# --- writing ------------------------------------------------------------------------------------


def write_table(table: Table, tags: Tags = RABBITMQ) -> bytes:
    """The encoded entries, without their length. Raises ``FieldError``."""
    return _write_entries(table, tags, 0)


def _write_entries(table: Table, tags: Tags, depth: int) -> bytes:
    if depth > DEPTH:
        raise FieldError(f"tables nest deeper than {DEPTH}")
    pieces: list[bytes] = []
    for key, value in table.items():
        name = str(key).encode("utf-8", "surrogateescape")
        if len(name) > 255:
            raise FieldError("a field name holds 255 octets at most")
        pieces.append(bytes((len(name),)) + name)
        pieces.append(write_value(value, tags, depth))
    return b"".join(pieces)


def _long(tag: bytes, octets: bytes) -> bytes:
    return tag + _I.pack(len(octets)) + octets


def _string(text: str) -> bytes:
    return _long(b"S", text.encode("utf-8", "surrogateescape"))


def write_value(value: Any, tags: Tags, depth: int) -> bytes:
    """One value with its tag: the exact type decides, then the first type that it is an instance
    of."""
    try:
        writer = _WRITERS.get(type(value))
        if writer is not None:
            return writer(value, tags, depth)
        for kind, writer in _WRITERS.items():
            if isinstance(value, kind):
                return writer(value, tags, depth)
    except (struct.error, OverflowError) as error:
        raise FieldError(f"{value!r} does not fit its field type") from error
    return _string(str(value))


def _write_boolean(value: bool, tags: Tags, depth: int) -> bytes:
    if tags.narrow:
        return b"I" + _i.pack(value)
    return b"t\x01" if value else b"t\x00"


def _write_integer(value: int, tags: Tags, depth: int) -> bytes:
    """An integer of no particular width, or one the dialect has no tag for."""
    if tags.narrow and -SIGNED_32 <= value < SIGNED_32:
        return b"I" + _i.pack(value)
    if not tags.narrow and -SIGNED_64 <= value < SIGNED_64:
        return tags.integer.encode() + _q.pack(value)
    return _string(str(int(value)))


def _sized(tag: str, layout: Struct) -> "Writer":
    octet = tag.encode()

    def write(value: int, tags: Tags, depth: int) -> bytes:
        if tags.narrow and tag != "I":
            return _write_integer(value, tags, depth)
        return octet + layout.pack(value)

    return write


def _write_short(value: int, tags: Tags, depth: int) -> bytes:
    if tags.narrow:
        return _write_integer(value, tags, depth)
    return tags.short.encode() + _h.pack(value)


def _write_ulong(value: int, tags: Tags, depth: int) -> bytes:
    if tags.ulong:
        return tags.ulong.encode() + _Q.pack(value)
    return _write_integer(value, tags, depth)


def _write_single(value: float, tags: Tags, depth: int) -> bytes:
    return _string(repr(float(value))) if tags.narrow else b"f" + _f.pack(value)


def _write_double(value: float, tags: Tags, depth: int) -> bytes:
    return _string(repr(value)) if tags.narrow else b"d" + _d.pack(value)


def _write_scaled(value: Scaled, tags: Tags, depth: int) -> bytes:
    return b"D" + _Bi.pack(value.places, value.value)


def _write_decimal(value: Decimal, tags: Tags, depth: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, int) and -255 <= exponent <= 0:
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        if -SIGNED_32 <= number < SIGNED_32:
            return b"D" + _Bi.pack(-exponent, number)
    return _string(str(value))


def _write_octets(value: bytes, tags: Tags, depth: int) -> bytes:
    return _long(tags.octets.encode() or b"S", bytes(value))


def _write_text(value: str, tags: Tags, depth: int) -> bytes:
    return _string(value)


def _write_short_string(value: str, tags: Tags, depth: int) -> bytes:
    raw = value.encode("utf-8", "surrogateescape")
    if tags.short_string and len(raw) < 256:
        return tags.short_string.encode() + bytes((len(raw),)) + raw
    return _long(b"S", raw)


def _marked(tag: bytes) -> "Writer":
    """Long strings of Qpid's own tags; only its dialect writes them."""

    def write(value: str, tags: Tags, depth: int) -> bytes:
        raw = value.encode("utf-8", "surrogateescape")
        return _long(tag if tags is QPID else b"S", raw)

    return write


def _write_char(value: str, tags: Tags, depth: int) -> bytes:
    if tags is QPID and len(value) == 1 and ord(value) < 256:
        return b"k" + bytes((ord(value),))
    return _string(value)


def _write_table_field(value: Table, tags: Tags, depth: int) -> bytes:
    return _long(b"F", _write_entries(value, tags, depth + 1))


def _write_array(value: list[Any], tags: Tags, depth: int) -> bytes:
    if depth >= DEPTH:
        raise FieldError(f"arrays nest deeper than {DEPTH}")
    if tags.narrow:
        return _string(repr(value))
    return _long(b"A", b"".join(write_value(item, tags, depth + 1) for item in value))


def _write_timestamp(value: Timestamp, tags: Tags, depth: int) -> bytes:
    return b"T" + _Q.pack(max(0, value // 1000))


Writer = Callable[[Any, Tags, int], bytes]

_WRITERS: dict[type[Any], Writer] = {
    bool: _write_boolean,
    Byte: _sized("b", _b),
    UByte: _sized("B", Struct(">B")),
    Short: _write_short,
    UShort: _sized("u", _H),
    Int: _sized("I", _i),
    UInt: _sized("i", _I),
    ULong: _write_ulong,
    Timestamp: _write_timestamp,
    Seconds: lambda value, tags, depth: b"T" + _Q.pack(value),
    int: _write_integer,
    Float: _write_single,
    float: _write_double,
    ShortString: _write_short_string,
    AsciiString: _marked(b"c"),
    WideString: _marked(b"C"),
    Char: _write_char,
    Symbol: _write_text,
    str: _write_text,
    bytes: _write_octets,
    bytearray: _write_octets,
    memoryview: _write_octets,
    Scaled: _write_scaled,
    Described: lambda value, tags, depth: write_value(value.value, tags, depth),
    Decimal: _write_decimal,
    UUID: lambda value, tags, depth: _string(str(value)),
    dict: _write_table_field,
    list: _write_array,
    tuple: _write_array,
    type(None): lambda value, tags, depth: b"V",
}

__all__ = [
    "DEPTH", "DIALECTS", "QPID", "RABBITMQ", "SPEC_0_8", "SPEC_0_9_1", "AsciiString",
    "FieldError", "Tags", "WideString", "read_table", "read_value", "write_table", "write_value",
]  # fmt: skip
