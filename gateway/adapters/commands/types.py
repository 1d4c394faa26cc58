"""Field tables of 0.8a2 (document §3.2.3.1): names, and values of four types.

A string is text if it is UTF-8, else octets. Integers have 32 bits and a sign, decimals a number of
places without one, times count seconds.
"""

from collections.abc import Iterator
from typing import Any

from gateway.message import Table
from gateway.values import Int, Scaled, Seconds

LEAST, MOST = -(1 << 31), (1 << 31) - 1
MOST_OCTETS = 0xFFFF
MOST_NAME = 128
MOST_SHORT = 1024
"""Characters of a text that gets a field of its own."""


class FieldError(ValueError):
    """The octets are no valid field table, or a value has no form in one."""


def entries_of(entries: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Each entry: its name, the letter of its type, where its value begins and ends. Raises
    ``FieldError``."""
    at, end = 0, len(entries)
    while at < end:
        start = at + 1 + entries[at]
        if start >= end:
            raise FieldError("a field name runs past its table")
        name = entries[at + 1 : start].decode("utf-8", "surrogateescape")
        letter = entries[start]
        start += 1
        width = WIDTHS.get(letter)
        if width is None:
            if letter != STRING:
                raise FieldError(f"a field has the unknown type {letter}")
            width = 2 + int.from_bytes(entries[start : start + 2], "big")
        at = start + width
        if at > end:
            raise FieldError("a field runs past its table")
        yield name, letter, start, at


STRING, INTEGER, DECIMAL, TIME = b"SIDT"
WIDTHS = {INTEGER: 4, DECIMAL: 5, TIME: 4}


def check_table(entries: bytes) -> None:
    """Raise ``FieldError`` unless it can be read. Warm: decodes nothing."""
    at, end = 0, len(entries)
    while at < end:
        start = at + 1 + entries[at]
        if start >= end:
            raise FieldError("a field name runs past its table")
        letter = entries[start]
        if letter == STRING:
            at = start + 3 + int.from_bytes(entries[start + 1 : start + 3], "big")
        elif letter in WIDTHS:
            at = start + 1 + WIDTHS[letter]
        else:
            raise FieldError(f"a field has the unknown type {letter}")
        if at > end:
            raise FieldError("a field runs past its table")


def read_table(entries: bytes) -> Table:
    """The first of several fields of one name counts (§3.2.3.1)."""
    table: Table = {}
    for name, letter, start, end in entries_of(entries):
        if name not in table:
            table[name] = read_value(letter, entries[start:end])
    return table


def read_value(letter: int, octets: bytes) -> Any:
    if letter == STRING:
        try:
            return octets[2:].decode()
        except UnicodeDecodeError:
            return octets[2:]
    if letter == DECIMAL:
        return Scaled(octets[0], int.from_bytes(octets[1:], "big", signed=True))
    number = int.from_bytes(octets, "big", signed=letter == INTEGER)
    return Int(number) if letter == INTEGER else Seconds(number)


def write_table(table: Table) -> bytes:
    """Encode a field table. Raises ``FieldError`` for values that it cannot hold."""
    octets = b"".join(written(name, value) for name, value in table.items())
    if len(octets) > MOST_OCTETS:
        raise FieldError(f"a field table holds {MOST_OCTETS} octets, not {len(octets)}")
    return octets


def written(name: str, value: Any) -> bytes:
    """Encode one entry."""
    raw = name.encode("utf-8", "surrogateescape")
    if not 0 < len(raw) <= MOST_NAME:
        raise FieldError(f"a field name has 1 to {MOST_NAME} octets, not {len(raw)}")
    return bytes((len(raw),)) + raw + write_value(value)


def write_value(value: Any) -> bytes:
    """Type and value. Raises ``FieldError`` where that would not be the same value."""
    kind = type(value)
    if kind is str or kind is bytes:
        raw: bytes = value.encode("utf-8", "surrogateescape") if kind is str else value
        if len(raw) > MOST_OCTETS:
            raise FieldError(f"a string holds {MOST_OCTETS} octets, not {len(raw)}")
        return b"S" + len(raw).to_bytes(2, "big") + raw
    if kind is Scaled and 0 <= value.places < 256 and LEAST <= value.value <= MOST:
        number: bytes = value.value.to_bytes(4, "big", signed=True)
        return b"D" + bytes((value.places,)) + number
    if kind is Seconds and 0 <= value < 1 << 32:
        return b"T" + int(value).to_bytes(4, "big")
    if (kind is int or kind is Int) and LEAST <= value <= MOST:
        return b"I" + int(value).to_bytes(4, "big", signed=True)
    raise FieldError(f"no field can hold a {kind.__name__} like this")


def renamed(entries: bytes, names: dict[str, str]) -> bytes:
    """The same table with other names for some fields (dictionaries, §3.2.5.2)."""
    pieces: list[bytes] = []
    for name, _, start, end in entries_of(entries):
        raw = names.get(name, name).encode("utf-8", "surrogateescape")
        pieces.append(bytes((len(raw),)) + raw + entries[start - 1 : end])
    return b"".join(pieces)


__all__ = ["FieldError", "check_table", "read_table", "renamed", "write_table"]
