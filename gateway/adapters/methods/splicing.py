"""Changes to encoded basic properties that leave all other octets as they are."""

from typing import NamedTuple

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.essentials import (
    DELIVERY_MODE,
    EXPIRATION,
    HEADERS,
    PRIORITY,
    TIMESTAMP,
    check_value,
)
from gateway.adapters.methods.tags import FieldError
from gateway.message import Table

WIDTHS = {DELIVERY_MODE: 1, PRIORITY: 1, TIMESTAMP: 8}
"""Octets of the properties that are no short strings or tables."""


class Cut(NamedTuple):
    """Encoded properties cut around their headers. ``entries``: name, and the whole entry; ``None``
    if there are no headers."""

    flags: int
    before: bytes
    entries: list[tuple[bytes, bytes]] | None
    after: bytes


def property_span(header: bytes, wanted: int) -> tuple[int, int]:
    """Where a property begins and ends, or where it would begin, twice. Raises ``ValueError``."""
    flags = int.from_bytes(header[:2], "big")
    at, flag = 2, 0x8000
    try:
        while True:
            end = at
            if flags & flag:
                if flag == HEADERS:
                    end = at + 4 + int.from_bytes(header[at : at + 4], "big")
                else:
                    end = at + (WIDTHS.get(flag) or 1 + header[at])
            if flag == wanted:
                return at, end
            at, flag = end, flag >> 1
    except IndexError as error:
        raise FieldError("the properties are cut short") from error


def cut(header: bytes) -> Cut:
    """Raises ``ValueError``."""
    flags = int.from_bytes(header[:2], "big")
    at, end = property_span(header, HEADERS)
    entries: list[tuple[bytes, bytes]] | None = None
    if flags & HEADERS:
        entries = []
        here = at + 4
        try:
            while here < end:
                name = here + 1 + header[here]
                stop = check_value(header, name, end, 0)
                entries.append((header[here + 1 : name], header[here:stop]))
                here = stop
        except IndexError as error:
            raise FieldError("a field table is cut short") from error
    return Cut(flags, header[2:at], entries, header[end:])


def joined(parts: Cut) -> bytes:
    """The properties again; without entries, without headers."""
    if parts.entries is None:
        return (parts.flags & ~HEADERS).to_bytes(2, "big") + parts.before + parts.after
    table = b"".join([raw for _, raw in parts.entries])
    flags = (parts.flags | HEADERS).to_bytes(2, "big")
    return b"".join((flags, parts.before, len(table).to_bytes(4, "big"), table, parts.after))


def with_headers(header: bytes, added: Table) -> bytes:
    """These headers instead of those of the same name, behind all others."""
    parts = cut(header)
    names = {name.encode("utf-8", "surrogateescape") for name in added}
    kept = [entry for entry in parts.entries or [] if entry[0] not in names]
    kept.append((b"", fields.write_table(added)))
    return joined(parts._replace(entries=kept))


def without_header(header: bytes, name: bytes) -> bytes:
    """Without the headers of this name, and without a table if nothing else was in it."""
    parts = cut(header)
    kept = [entry for entry in parts.entries or [] if entry[0] != name]
    if len(kept) == len(parts.entries or []):
        return header
    return joined(parts._replace(entries=kept or None))


def with_expiration(header: bytes, left: int) -> bytes:
    """With the milliseconds that are left to live; properties without an expiration stay without
    one."""
    at, end = property_span(header, EXPIRATION)
    if at == end:
        return header
    text = str(left).encode()
    return b"".join((header[:at], bytes((len(text),)), text, header[end:]))


def without_expiration(header: bytes) -> bytes:
    """Without a time to live."""
    at, end = property_span(header, EXPIRATION)
    if at == end:
        return header
    flags = int.from_bytes(header[:2], "big") & ~EXPIRATION
    return flags.to_bytes(2, "big") + header[2:at] + header[end:]
