"""Values of the transitional 0-10: entries of tables, sets of serial numbers, message bodies.

The definition gives numeric codes to the values in tables (those of the final 0-10); the programs
of July 2007 wrote the letters of 0-9 instead. No code equals a letter: both are read, and letters
are written.
"""

import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from struct import Struct
from typing import Any, NamedTuple
from uuid import UUID

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.contents.tables import Entry, FieldTables
from gateway.adapters.methods.tags import ALLOWANCE, FieldError, Tags
from gateway.adapters.methods.types import DEPTH
from gateway.adapters.methods.wire.transitional import FIELD_TYPES
from gateway.message import Table
from gateway.values import (
    Byte,
    Char,
    Float,
    Int,
    Scaled,
    Seconds,
    Short,
    UByte,
    UInt,
    ULong,
    UShort,
)

LETTERS = Tags("transitional", integer="", short="", octets="x", narrow=True)
"""The letters that the programs of July read: S, I, D, T, F and x."""

_I, _II = Struct(">I"), Struct(">II")
_NESTED = ord("F")

# --- tables --------------------------------------------------------------------------------------


def read_table(entries: bytes) -> Table:
    """The table whose encoded entries (without their length) these are. Raises ``FieldError``."""
    try:
        return _entries(entries, 0, len(entries), 0)
    except (struct.error, IndexError) as error:
        raise FieldError("a field table is cut short") from error
    except (UnicodeDecodeError, OverflowError) as error:
        raise FieldError(f"a field holds no text: {error}") from error


def read_arguments(entries: bytes) -> Table:
    """The same of a method's arguments, which may hold ``MOST_VALUES``."""
    if len(entries) <= MOST_VALUES:  # each value takes an octet at least
        return read_table(entries)
    with ALLOWANCE.within():
        return read_table(entries)


def _entries(buf: bytes, at: int, end: int, depth: int) -> Table:
    if depth > DEPTH:
        raise FieldError(f"tables nest deeper than {DEPTH}")
    table: Table = {}
    while at < end:
        stop = at + 1 + buf[at]
        if stop >= end:
            raise FieldError("a field name runs past its table")
        name = buf[at + 1 : stop].decode("utf-8", "surrogateescape")
        ALLOWANCE.take(1)
        table[name], at = _value(buf, stop, depth)
    if at != end:
        raise FieldError("a field runs past its table")
    return table


def _value(buf: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The value whose code stands at ``at``, and where it stopped."""
    code = buf[at]
    if code == _NESTED:
        start, end = _span(buf, at + 1, 4)
        return _entries(buf, start, end, depth + 1), end
    if code in FIELD_TYPES or not _is_letter(code):
        return _of_code(code, buf, at + 1, depth)
    return fields.read_value(buf, at, depth)


def _is_letter(code: int) -> bool:
    """Whether a code that the definition does not have may be a letter of 0-9."""
    return chr(code).isascii() and chr(code).isalpha()


def _span(buf: bytes, at: int, width: int) -> tuple[int, int]:
    """Where the value begins and ends whose length, of ``width`` octets, stands at ``at``."""
    start = at + width
    end = start + int.from_bytes(buf[at:start], "big")
    if end > len(buf):
        raise FieldError("a field runs past its table")
    return start, end


def _of_code(code: int, buf: bytes, at: int, depth: int) -> tuple[Any, int]:
    """A value whose numeric code was read before ``at``. The width of a code without a type is
    known: it stands in the upper half of the code."""
    name, kind, width, length = FIELD_TYPES.get(code) or _unnamed(code)
    if length:
        start, end = _span(buf, at, length)
    else:
        start, end = at, at + width
        if end > len(buf):
            raise FieldError("a field runs past its table")
    reader = _NESTING.get(kind)
    if reader is not None:
        return reader(buf, start, end, depth), end
    return _PLAIN[kind](name, buf[start:end]), end


def _unnamed(code: int) -> tuple[str, str, int, int]:
    for known, (_, _, width, length) in FIELD_TYPES.items():
        if known >> 4 == code >> 4:
            return "", "octets" if length else "fixed", width, length
    raise FieldError(f"a field has the unknown type {code:#04x}")


def _read_list(buf: bytes, at: int, end: int, depth: int) -> list[Any]:
    """A sequence: values that have their types before them."""
    if depth >= DEPTH:
        raise FieldError(f"sequences nest deeper than {DEPTH}")
    found: list[Any] = []
    while at < end:
        ALLOWANCE.take(1)
        value, at = _value(buf, at, depth + 1)
        found.append(value)
    if at != end:
        raise FieldError("a value runs past its sequence")
    return found


def _read_array(buf: bytes, at: int, end: int, depth: int) -> list[Any]:
    """An array: one type, a count, and the values."""
    if depth >= DEPTH:
        raise FieldError(f"arrays nest deeper than {DEPTH}")
    if at == end:
        return []
    code = buf[at]
    (count,) = _I.unpack_from(buf, at + 1)
    at += 1 + _I.size
    if count > max(end - at, MOST_VALUES):  # void has no octets
        raise FieldError("an array is shorter than its count")
    ALLOWANCE.take(count)
    found: list[Any] = []
    for _ in range(count):
        value, at = _of_code(code, buf, at, depth + 1)
        found.append(value)
    if at != end:
        raise FieldError("a value runs past its array")
    return found


_NESTING: dict[str, Callable[[bytes, int, int, int], Any]] = {
    "table": lambda buf, at, end, depth: _entries(buf, at, end, depth + 1),
    "list": _read_list,
    "array": _read_array,
}

CHARSETS = {"utf8": "utf-8", "utf16": "utf-16-be", "utf32": "utf-32-be"}
"""Character sets by a word of the type's name; the others are ISO 8859-15."""
_SIGNED: dict[int, type[int]] = {1: Byte, 2: Short, 4: Int, 8: int}
_UNSIGNED: dict[int, type[int]] = {1: UByte, 2: UShort, 4: UInt, 8: ULong}


def _text(name: str, octets: bytes) -> str:
    for word, charset in CHARSETS.items():
        if word in name:
            errors = "surrogateescape" if word == "utf8" else "strict"
            return octets.decode(charset, errors)
    return octets.decode("iso8859-15")


def _character(name: str, octets: bytes) -> Char:
    return Char(_text(name, octets))


def _float(name: str, octets: bytes) -> float:
    if len(octets) == 4:
        return Float(struct.unpack(">f", octets)[0])
    return float(struct.unpack(">d", octets)[0])


def _decimal(name: str, octets: bytes) -> Scaled | Decimal:
    """Places, then a signed number. The long one has more digits than a decimal of 0-9."""
    value = int.from_bytes(octets[1:], "big", signed=True)
    scaled = Scaled(octets[0], value)
    return scaled if len(octets) == 5 else scaled.decimal()


_PLAIN: dict[str, Callable[[str, bytes], Any]] = {
    "fixed": lambda name, octets: octets,
    "octets": lambda name, octets: octets,
    "signed": lambda name, octets: _SIGNED[len(octets)](int.from_bytes(octets, "big", signed=True)),
    "unsigned": lambda name, octets: _UNSIGNED[len(octets)](int.from_bytes(octets, "big")),
    "character": _character,
    "boolean": lambda name, octets: octets != b"\0",
    "float": _float,
    "time": lambda name, octets: Seconds(int.from_bytes(octets, "big")),
    "uuid": lambda name, octets: UUID(bytes=octets),
    "text": _text,
    "decimal": _decimal,
    "null": lambda name, octets: None,
}


def write_table(table: Table) -> bytes:
    """The encoded entries, without their length: letters alone. Other values become text (wide
    numbers, fractions, lists), a number (booleans), or empty text (void). Raises ``FieldError``."""
    return fields.write_table(_lettered(table), LETTERS)


def _lettered(table: Table) -> Table:
    """The table without void values, for which the programs of July had no letter."""
    return {
        name: "" if value is None else _lettered(value) if isinstance(value, dict) else value
        for name, value in table.items()
    }


def cut(entries: bytes) -> list[Entry]:
    """The entries of a table, one by one. Raises ``FieldError``."""
    read_table(entries)
    found, at = [], 0
    while at < len(entries):
        tag = at + 1 + entries[at]
        value, stop = _value(entries, tag, 0)
        text = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        octets = text if isinstance(text, bytes) else b""
        found.append(Entry(entries[at + 1 : tag], octets, entries[at:stop]))
        at = stop
    return found


def _check(entries: bytes) -> None:
    read_table(entries)


def _usual(entries: bytes) -> bytes:
    """The same table in letters alone. Raises ``FieldError``."""
    try:
        fields.read_table(entries)
        return entries
    except FieldError:
        return write_table(read_table(entries))


TABLES = FieldTables(read_table, write_table, _check, cut, _usual)
"""The headers of files and streams."""

# --- sets of serial numbers ----------------------------------------------------------------------

SERIALS = 1 << 32
"""Serial numbers wrap here (RFC 1982)."""


def read_set(words: bytes) -> tuple[tuple[int, int], ...]:
    """The ranges of a set, each with its first and its last number. Raises ``ValueError`` for an
    odd count of numbers."""
    if len(words) % _II.size:
        raise ValueError("a set of ranges has an odd count of numbers")
    return tuple(_II.iter_unpack(words))


def write_set(ranges: Iterable[tuple[int, int]]) -> bytes:
    """The numbers of a set, without their count."""
    return b"".join(_II.pack(*pair) for pair in ranges)


# --- bodies --------------------------------------------------------------------------------------

INLINE, REFERENCE = 0, 1


class Body(NamedTuple):
    """The value of a field of type content: the octets themselves, or the name of the reference to
    which they were appended."""

    is_reference: bool
    octets: bytes


def read_body(content: bytes) -> Body:
    """Raises ``ValueError`` if it is carried in neither way."""
    carried = content[0]
    if carried not in (INLINE, REFERENCE):
        raise ValueError(f"a body is carried in way {carried}, which is neither inline nor by name")
    return Body(carried == REFERENCE, content[1:])


def write_body(body: Body) -> bytes:
    """The discriminator and the octets, without their length."""
    return bytes((body.is_reference,)) + body.octets
