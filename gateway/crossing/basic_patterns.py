"""The parts of one message alone in a header of 0-8 to 0-9-1: its ids, and texts and numbers in its
headers. They stand in 1.0 with the same octets.

A pattern (``patterns``) is for headers whose values have the same names, types and lengths. A value
that may mean more than itself belongs to the pattern: a name that begins with "x-", "CC", or a name
of JMS; a number that 1.0 writes in one octet; an id that names its own type.
"""

import struct
from hashlib import shake_128
from struct import Struct

from gateway.adapters.methods.content import OURS
from gateway.crossing.patterns import Varied
from gateway.crossing.references import References

_I = Struct(">I")
SHORTEST = 4
"""Octets of a text that is worth a place of its own; a shorter one is found in too many places."""
SPECIAL = (b"x-", b"X-", b"JMS", b"CC", b"BCC", b"qpid", b"amqp")
"""Beginnings of names that may have a field of their own."""
TYPED_IDS = (b"AMQP_", b"urn:uuid:", b"ID:")
OURS_OCTETS = OURS.encode()
TEXT, INT = b"SI"
NUMBERS = b"Il"
WIDTHS = {
    ord(tag): width
    for tag, width in {"t": 1, "b": 1, "B": 1, "s": 2, "u": 2, "i": 4, "f": 4, "d": 8, "D": 5,
                       "T": 8, "V": 0}.items()
}  # fmt: skip
LONG_ONES = b"xAF"
"""Tags of values with a length before them."""


def varied(header: bytes, references: References) -> Varied | None:
    """``None`` if a header that was accepted has no octets of its own, or depends on more than
    itself. Warm."""
    if OURS_OCTETS in header:
        return None
    try:
        places = places_in(header, references)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    kind, own, last = b"", [], 0
    for at in range(0, len(places), 2):
        begin = places[at]
        kind += header[last:begin]
        last = places[at + 1]
        own.append(header[begin:last])
    return (kind + header[last:], tuple(places), tuple(own)) if own else None


def with_stand_ins(header: bytes, turn: int) -> tuple[bytes, tuple[bytes, ...]]:
    """As that of 0-10. Those of this version are as long as what they stand for, and letters:
    valid as text, as an id without a type, and as a large number."""
    places = places_in(header, References())
    found, taken, last = b"", [], 0
    for begin, end in zip(places[::2], places[1::2], strict=True):
        digest = shake_128(f"{turn} {begin} {end}".encode()).digest(end - begin)
        taken.append(bytes(97 + octet % 26 for octet in digest))
        found += header[last:begin] + taken[-1]
        last = end
    return found + header[last:], tuple(taken)


def places_in(header: bytes, references: References) -> list[int]:
    """Begin and end of each value of its own, in turns; none if the header depends on more than
    itself. Raises ``struct.error``, ``IndexError`` or ``UnicodeDecodeError``."""
    flags, at = header[0] << 8 | header[1], 2
    found: list[int] = []
    if flags & 1:
        return found
    if flags & 0x8000:  # content-type
        at += 1 + header[at]
    if flags & 0x4000:  # content-encoding
        at += 1 + header[at]
    if flags & 0x2000:
        end = at + 4 + _I.unpack_from(header, at)[0]
        if not look_into(header, at + 4, end, found):
            return []
        at = end
    at += (flags >> 12 & 1) + (flags >> 11 & 1)  # delivery-mode, priority
    if flags & 0x0400:  # correlation-id
        end = at + 1 + header[at]
        text = is_own(header, at + 1, end, found)
        if text is not None and references.get(text) is not None:
            return []
        at = end
    if flags & 0x0200:  # reply-to
        at += 1 + header[at]
    if flags & 0x0100:  # expiration
        at += 1 + header[at]
    if flags & 0x0080:  # message-id
        is_own(header, at + 1, at + 1 + header[at], found)
    return found


def is_own(header: bytes, at: int, end: int, found: list[int]) -> str | None:
    """An id, which is its message's own unless it is short or names its type. Its text."""
    octets = header[at:end]
    text = octets.decode()
    if end - at >= SHORTEST and not octets.startswith(TYPED_IDS):
        found += (at, end)
    return text


def look_into(header: bytes, at: int, end: int, found: list[int]) -> bool:
    """The values of a table; whether all of their types are known."""
    while at < end:
        begin = at + 1
        at = begin + header[at]
        special = header.startswith(SPECIAL, begin, at)
        tag = header[at]
        at += 1
        if tag == TEXT:
            size = _I.unpack_from(header, at)[0]
            at += 4
            if size >= SHORTEST and not special:
                header[at : at + size].decode()
                found += (at, at + size)
            at += size
        elif tag in NUMBERS:
            width = 4 if tag == INT else 8
            if not special and not -128 <= int.from_bytes(
                header[at : at + width], signed=True
            ) < 128:  # fmt: skip
                found += (at, at + width)
            at += width
        elif tag in WIDTHS:
            at += WIDTHS[tag]
        elif tag in LONG_ONES:
            at += 4 + int(_I.unpack_from(header, at)[0])
        else:
            return False
    return at == end
