"""Values in basic properties, for conversion by shape: the ids, the timestamp, and texts and
numbers among the headers."""

from collections.abc import Callable, Container, Mapping
from struct import Struct

from gateway.adapters.core.templates import Check, Range, is_text
from gateway.adapters.methods.content import OURS
from gateway.adapters.methods.essentials import EPOCH_LIMIT
from gateway.crossing.plans import (
    CORRELATION,
    FIRST,
    GROUP,
    IDS,
    LARGE,
    SPECIAL,
    TYPED_IDS,
    Key,
    Scanned,
    Write,
    end_group,
    id_stand_in,
    id_token,
    letters,
    text_id_check,
)
from gateway.crossing.types import TYPES

_I, _Q = Struct(">I"), Struct(">Q")

TEXT, OCTETS, SECONDS, TWO, FOUR, EIGHT, SINGLE, DOUBLE, ONE = 1, 2, 3, 4, 5, 6, 7, 16, 17
SHORT = 18
"""Tokens: long strings of text, and of octets; a time; numbers by their width; a short string."""
TABLE = GROUP

STRING, BINARY, SINGLE_TAG, TIME = b"SxfT"
NUMBERS = {
    ord(tag): (token, width)
    for tag, token, width in (
        ("I", FOUR, 4), ("l", EIGHT, 8), ("i", FOUR, 4), ("d", DOUBLE, 8), ("f", SINGLE, 4),
        ("T", SECONDS, 8), ("b", ONE, 1), ("B", ONE, 1), ("s", TWO, 2), ("u", TWO, 2),
        ("U", TWO, 2), ("L", EIGHT, 8),
    )
}  # fmt: skip
"""Tokens and widths by tag."""
WIDTHS = {ord(tag): width for tag, width in (("t", 1), ("D", 5), ("V", 0), ("k", 1))}
"""Values that have no token."""
SIGNED_32 = 1 << 31
CLOSED = (OURS.encode(), TYPES.encode())
"""Names of headers that say how other values are to be understood."""


def short(raw: bytes) -> bytes:
    return bytes((len(raw),)) + raw


def long(raw: bytes) -> bytes:
    return _I.pack(len(raw)) + raw


is_time = Range(_Q.pack(EPOCH_LIMIT // 1000 + 1), _Q.pack(EPOCH_LIMIT))
"""Whether it is a number of seconds that no version takes for milliseconds, nor counts as such."""


def is_number(raw: bytes) -> bool:
    """Whether a float is a number: there are many that are none."""
    return raw[0] & 0x7F != 0x7F


is_wide = Range(_Q.pack(SIGNED_32), _Q.pack((1 << 64) - 1 - SIGNED_32))
"""Whether an integer of 64 bits needs more than 32. The drafts of 2005 write it as one of 32
otherwise."""


def wide_stand_in(turn: int, place: int) -> bytes:
    return _Q.pack((LARGE >> 64) + (turn << 40) + place)


class BasicNotation:
    """The ``Notation`` of 0-8, 0-9 and 0-9-1."""

    writers: dict[int, Write] = {
        TEXT: long, OCTETS: long, SHORT: short, **dict.fromkeys(IDS, short),
        **dict.fromkeys((SECONDS, ONE, TWO, FOUR, EIGHT, SINGLE, DOUBLE), bytes),
    }  # fmt: skip
    texts = frozenset((TEXT, OCTETS, SHORT, *IDS))
    narrowed: Mapping[int, Container[bytes]] = {}
    checks: dict[int, Check] = {
        TEXT: is_text, SECONDS: is_time, SINGLE: is_number,
        **{token: text_id_check(token) for token in IDS},
    }  # fmt: skip

    def scan(self, header: bytes) -> Scanned | None:
        key: list[bytes | int] = []
        values: list[bytes] = []
        flags, at, last = header[0] << 8 | header[1], 2, 0
        if flags & 1:
            return None
        if flags & 0x8000:  # content-type
            at += 1 + header[at]
        if flags & 0x4000:  # content-encoding
            at += 1 + header[at]
        if flags & 0x2000:
            key += (header[:at], TABLE)
            last = at + 4
            at = last + int.from_bytes(header[at:last])
            if not entries(header, last, at, key, values, FIRST):
                return None
            last = at
        at += (flags >> 12 & 1) + (flags >> 11 & 1)  # delivery-mode, priority
        if flags & 0x0400:  # correlation-id
            size = header[at]
            raw = header[at + 1 : at + 1 + size]
            if not raw.startswith(TYPED_IDS) and is_text(raw):
                key += (header[last:at], id_token(raw) | CORRELATION)
                values.append(raw)
                last = at + 1 + size
            at += 1 + size
        if flags & 0x0200:  # reply-to
            at += 1 + header[at]
        if flags & 0x0100:  # expiration
            at += 1 + header[at]
        if flags & 0x0080:  # message-id
            size = header[at]
            raw = header[at + 1 : at + 1 + size]
            if not raw.startswith(TYPED_IDS) and is_text(raw):
                key += (header[last:at], id_token(raw))
                values.append(raw)
                last = at + 1 + size
            at += 1 + size
        if flags & 0x0040:  # timestamp
            raw = header[at : at + 8]
            if is_time(raw):
                key += (header[last:at], SECONDS)
                values.append(raw)
                last = at + 8
        if not values:
            return None
        key.append(header[last:])
        return tuple(key), values

    def look(self, header: bytes) -> Scanned | None:
        key: list[bytes | int] = [header[:2]]
        values: list[bytes] = []
        flags, at = header[0] << 8 | header[1], 2
        if flags & 1:
            return None
        for bit in range(15, 1, -1):
            if not flags >> bit & 1:
                continue
            if bit == 13:
                end = at + 4 + int.from_bytes(header[at : at + 4])
                key.append(TABLE)
                if not entries(header, at + 4, end, key, values, frozenset()):
                    return None
                at = end
            elif bit in (12, 11):  # delivery-mode, priority
                key.append(header[at : at + 1])
                at += 1
            else:
                size = 8 if bit == 6 else 1 + header[at]
                key.append(SECONDS if bit == 6 else SHORT)
                values.append(header[at : at + 8] if bit == 6 else header[at + 1 : at + size])
                at += size
        return tuple(key), values

    def size(self, token: int) -> Callable[[int], bytes]:
        return _I.pack

    def stand_in(self, token: int, turn: int, place: int, narrow: bool) -> bytes:
        if token in IDS:
            return id_stand_in(token, turn, place)
        if token in (TEXT, OCTETS):
            return letters(turn, place, (23, 300)[turn])
        if token == SECONDS:
            return _Q.pack((1_700_000_123, 1_600_000_321)[turn] + place)
        width = {ONE: 1, TWO: 2, FOUR: 4, EIGHT: 8, SINGLE: 4, DOUBLE: 8}[token]
        # Small numbers have another encoding in other versions, with as many octets as they need.
        first = 5 if turn else LARGE >> 128 - 8 * width
        return (first + place).to_bytes(width)

    def is_narrow(self, key: Key) -> bool:
        return False

    def is_closed(self, octets: bytes) -> bool:
        return any(name in octets for name in CLOSED)


def entries(
    header: bytes,
    at: int,
    end: int,
    key: list[bytes | int],
    values: list[bytes],
    first: frozenset[int],
) -> bool:
    """The values of a table, and the end of its group; whether all of their types are known. Names
    that begin with one of the octets ``first`` are looked at: are they special? Hot."""
    last = at
    while at < end:
        begin = at + 1
        at = begin + header[at]
        tag = header[at]
        at += 1
        own = header[begin] not in first or not header.startswith(SPECIAL, begin)
        if tag in (STRING, BINARY):
            start = at + 4
            stop = start + int.from_bytes(header[at:start])
            if own:
                raw = header[start:stop]
                if tag == BINARY or is_text(raw):
                    key += (header[last:at], TEXT if tag == STRING else OCTETS)
                    values.append(raw)
                    last = stop
            at = stop
        elif tag in NUMBERS:
            token, width = NUMBERS[tag]
            stop = at + width
            if own:
                raw = header[at:stop]
                if tag == TIME:
                    own = is_time(raw)
                elif tag == SINGLE_TAG:
                    own = is_number(raw)
                if own:
                    key += (header[last:at], token)
                    values.append(raw)
                    last = stop
            at = stop
        elif tag in WIDTHS:
            at += WIDTHS[tag]
        elif tag in b"AF":
            at += 4 + int.from_bytes(header[at : at + 4])
        else:
            return False
    end_group(key, header, last, end)
    return at == end


BASIC_NOTATION = BasicNotation()
