"""Values in the sections of 1.0 that change nothing about how a message is received: neither
whether it can be read, nor its essentials, nor where it goes."""

from gateway.adapters.core.templates import Place, is_text
from gateway.adapters.performatives.decoding import WIDTHS, skip
from gateway.adapters.performatives.sections import (
    ANNOTATIONS,
    APPLICATION,
    PROPERTIES,
    is_plain,
    split_header,
)

IDS_AND_TIMES = frozenset((0, 4, 5, 9, 10, 11, 12))
"""Fields of the properties (§3.2.4) but for user-id, to, subject, the content's type and encoding,
and the expiry."""
KEYS = frozenset((0xA1, 0xA3))
OF_FEW_VALUES = frozenset((0x56, 0x73))
"""Constructors of fixed width with octets that are no value: boolean, char."""


def value_places(header: bytes) -> list[Place]:
    """The places of these values in a header that was read."""
    found: list[Place] = []
    if not is_plain(header):
        return found
    for code, (_, start, _) in split_header(header).single.items():
        if code == PROPERTIES:
            found += places_in_list(header, start)
        elif code in (ANNOTATIONS, APPLICATION):
            found += places_in_map(header, start)
    return found


def head(header: bytes, at: int) -> tuple[int, int]:
    """The number of items of the list or map at ``at``, and where they begin."""
    if header[at] == 0x45:
        return 0, at + 1
    if header[at] & 0xF0 == 0xC0:
        return header[at + 2], at + 3
    return int.from_bytes(header[at + 5 : at + 9]), at + 9


def places_in_list(header: bytes, at: int) -> list[Place]:
    found: list[Place] = []
    count, at = head(header, at)
    for field in range(count):
        stop = skip(header, at, len(header))
        if field in IDS_AND_TIMES:
            found += place_of(header, at, stop)
        at = stop
    return found


def places_in_map(header: bytes, at: int) -> list[Place]:
    found: list[Place] = []
    count, at = head(header, at)
    for _ in range(count >> 1):
        plain = header[at] in KEYS
        at = skip(header, at, len(header))
        stop = skip(header, at, len(header))
        if plain:
            found += place_of(header, at, stop)
        at = stop
    return found


def place_of(header: bytes, at: int, stop: int) -> list[Place]:
    """The place of the value from ``at`` to ``stop``, unless few octets are a value there."""
    code = header[at]
    width = WIDTHS[code]
    if width > 0:
        return [] if code in OF_FEW_VALUES else [Place(at + 1, stop)]
    if code in (0xA0, 0xB0):
        return [Place(at + (2 if code == 0xA0 else 5), stop)]
    if code in (0xA1, 0xB1):
        return [Place(at + (2 if code == 0xA1 else 5), stop, is_text)]
    return []
