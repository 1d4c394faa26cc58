"""Field tables of the drafts.

They know S, L, I, D, T and F. In 0-9a0 S has a length of one octet and L one of two; 0-9a6 has
grown both to four in every program, though not in its text, so a table is read in the way that
takes up its octets exactly. Other values go out with the tag that 0-9-1 has for
them: nothing is lost, and peers that know more than the drafts can read them.
"""

import struct
from functools import partial
from typing import Any

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.contents.tables import Entry, FieldTables
from gateway.adapters.methods.essentials import FEW, check_value
from gateway.adapters.methods.tags import ALLOWANCE, RABBITMQ, FieldError, TooManyValues
from gateway.adapters.methods.types import DEPTH
from gateway.message import Table
from gateway.values import Int, Short

SIGNED_32 = 1 << 31
SHORTER, LONGER, NESTED = b"SLF"

Lengths = tuple[int, int]
"""Octets that hold the length of S, and of L."""

LENGTHS_0_9A0: Lengths = (1, 2)
LENGTHS_0_9A6: Lengths = (4, 4)
AS_WRITTEN: Lengths = (1, 4)
"""0-9a6 as its text has it."""

READINGS: dict[bool, tuple[Lengths, Lengths]] = {
    True: (LENGTHS_0_9A0, LENGTHS_0_9A6),
    False: (LENGTHS_0_9A6, AS_WRITTEN),
}


def read_table(entries: bytes, is_0_9a0: bool) -> Table:
    """The table whose entries these are; ``is_0_9a0``: in 0-9a0. Raises ``FieldError``."""
    return _fit(entries, is_0_9a0)[1]


def read_arguments(entries: bytes, is_0_9a0: bool) -> Table:
    """The same of a method's arguments, which may hold ``MOST_VALUES``."""
    if len(entries) > MOST_VALUES:  # each takes an octet at least
        with ALLOWANCE.within():
            check_table(entries, is_0_9a0)
    return read_table(entries, is_0_9a0)


def _read(entries: bytes, lengths: Lengths) -> Table:
    try:
        return _entries(entries, lengths, 0)
    except (struct.error, IndexError) as error:
        raise FieldError("a field table is cut short") from error


def _entries(buf: bytes, lengths: Lengths, depth: int) -> Table:
    """The first of several entries with one name counts (0-9a0, 0-9a6: field tables)."""
    if depth > DEPTH:
        raise FieldError(f"tables nest deeper than {DEPTH}")
    table: Table = {}
    at, end = 0, len(buf)
    while at < end:
        stop = at + 1 + buf[at]
        name = buf[at + 1 : stop].decode("utf-8", "surrogateescape")
        tag = buf[stop : stop + 1]
        if tag in (b"S", b"L"):
            octets, at = _octets(buf, stop + 1, lengths[tag == b"L"])
            value: Any = octets.decode("utf-8", "surrogateescape")
        elif tag == b"F":
            octets, at = _octets(buf, stop + 1, 4)
            value = _entries(octets, lengths, depth + 1)
        else:
            value, at = fields.read_value(buf, stop, depth)
        table.setdefault(name, value)
    if at != end:
        raise FieldError("a field runs past its table")
    return table


def _octets(buf: bytes, at: int, width: int) -> tuple[bytes, int]:
    start = at + width
    end = start + int.from_bytes(buf[at:start], "big")
    if end > len(buf):
        raise FieldError("a field runs past its table")
    return buf[start:end], end


def check_table(entries: bytes, is_0_9a0: bool) -> None:
    """Raise ``FieldError`` unless ``read_table`` can read it. Decodes nothing."""
    usual, other = READINGS[is_0_9a0]
    try:
        _walk(entries, 0, len(entries), usual, 0)
    except TooManyValues:
        raise
    except (FieldError, IndexError):
        try:
            _walk(entries, 0, len(entries), other, 0)
        except IndexError as error:
            raise FieldError("a field table is cut short") from error


def _walk(buf: bytes, at: int, end: int, lengths: Lengths, depth: int) -> None:
    if depth > DEPTH:
        raise FieldError(f"tables nest deeper than {DEPTH}")
    count, most = 0, ALLOWANCE.left
    while at < end:
        count += 1
        if count > most:
            raise TooManyValues
        stop = at + 1 + buf[at]
        if stop >= end:
            raise FieldError("a field name runs past its table")
        tag = buf[stop]
        if tag in (SHORTER, LONGER):
            start = stop + 1 + lengths[tag == LONGER]
            at = start + int.from_bytes(buf[stop + 1 : start], "big")
        elif tag == NESTED:
            start = stop + 5
            at = start + int.from_bytes(buf[stop + 1 : start], "big")
            if at > end:
                raise FieldError("a field runs past its table")
            _walk(buf, start, at, lengths, depth + 1)
        else:
            at = check_value(buf, stop, end, depth)
    if at != end:
        raise FieldError("a field runs past its table")
    if count > FEW:
        ALLOWANCE.take(count)


def write_table(table: Table, is_0_9a0: bool, depth: int = 0) -> bytes:
    """The encoded entries. Raises ``FieldError``."""
    if depth > DEPTH:
        raise FieldError(f"tables nest deeper than {DEPTH}")
    pieces: list[bytes] = []
    for key, value in table.items():
        name = str(key).encode("utf-8", "surrogateescape")
        if len(name) > 255:
            raise FieldError("a field name holds 255 octets at most")
        pieces += (bytes((len(name),)), name, _value(value, is_0_9a0, depth))
    return b"".join(pieces)


def _value(value: Any, is_0_9a0: bool, depth: int) -> bytes:
    if isinstance(value, dict):
        inner = write_table(value, is_0_9a0, depth + 1)
        return b"F" + len(inner).to_bytes(4, "big") + inner
    if type(value) in (int, Short) and -SIGNED_32 <= value < SIGNED_32:
        return fields.write_value(Int(value), RABBITMQ, depth)
    encoded = fields.write_value(value, RABBITMQ, depth)
    if not is_0_9a0 or encoded[:1] != b"S":
        return encoded
    raw = encoded[5:]
    if len(raw) <= 0xFF:
        return b"S" + bytes((len(raw),)) + raw
    if len(raw) <= 0xFFFF:
        return b"L" + len(raw).to_bytes(2, "big") + raw
    return b"C" + encoded[1:]


def cut(entries: bytes, is_0_9a0: bool) -> list[Entry]:
    """The entries of a table, in the reading that ``read_table`` finds. Raises ``FieldError``."""
    return _cut(entries, _fit(entries, is_0_9a0)[0])


def usual(entries: bytes, is_0_9a0: bool) -> bytes:
    """The same table in the reading that is written here, so that others can follow. Raises
    ``FieldError``."""
    lengths, table = _fit(entries, is_0_9a0)
    return entries if lengths is READINGS[is_0_9a0][0] else write_table(table, is_0_9a0)


def _fit(entries: bytes, is_0_9a0: bool) -> tuple[Lengths, Table]:
    """The reading that takes up these octets, and the table."""
    usual, other = READINGS[is_0_9a0]
    try:
        return usual, _read(entries, usual)
    except FieldError:
        return other, _read(entries, other)


def _cut(entries: bytes, lengths: Lengths) -> list[Entry]:
    found = []
    at, end = 0, len(entries)
    while at < end:
        begin, stop = at, at + 1 + entries[at]
        tag, text = entries[stop : stop + 1], b""
        if tag in (b"S", b"L"):
            text, at = _octets(entries, stop + 1, lengths[tag == b"L"])
        elif tag in (b"x", b"C"):
            text, at = _octets(entries, stop + 1, 4)
        elif tag == b"F":
            _, at = _octets(entries, stop + 1, 4)
        else:
            _, at = fields.read_value(entries, stop, 0)
        found.append(Entry(entries[begin + 1 : stop], text, entries[begin:at]))
    return found


def field_tables(is_0_9a0: bool) -> FieldTables:
    """The tables of a draft."""
    return FieldTables(
        partial(read_table, is_0_9a0=is_0_9a0),
        partial(write_table, is_0_9a0=is_0_9a0),
        partial(check_table, is_0_9a0=is_0_9a0),
        partial(cut, is_0_9a0=is_0_9a0),
        partial(usual, is_0_9a0=is_0_9a0),
    )
