"""Headers of 0-10 that differ in their message id and times alone, on their way to 1.0.

Clients give each message an id of its own, so a cache by header never helps. These fields stand
unchanged in the header of 1.0. So a header is converted twice with other octets in their place, and
where both results agree but for these octets, they are a pattern for all headers of this kind.
"""

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.segments.content import OURS
from gateway.adapters.segments.essentials import (
    DELIVERY,
    EXPIRATION,
    MESSAGE,
    MESSAGE_ID,
    TIMESTAMP,
)

_IH, _Q = Struct(">IH"), Struct(">Q")
_BEFORE_TIMES = [(bits & 1) + (bits >> 1 & 1) + 8 * (bits >> 2) for bits in range(8)]
"""Octets of priority, delivery-mode and ttl, by their flags."""

CONTENT_LENGTH_OCTETS, ID_OCTETS, TIME_OCTETS = 8, 16, 8
EARLIEST, LATEST = 10**11 + 1, 1 << 43
"""Times in milliseconds: smaller numbers count seconds."""
OURS_OCTETS = OURS.encode()
"""Begins the names of application headers that may stand for a field, if they agree with it."""

STAND_INS = (
    (bytes.fromhex("6f1d83c2a9e54b7f8c03d15e92b7a468"), 1_700_000_123_000, 1_701_000_777_000),
    (bytes.fromhex("d2957bee04f1063a01c86b5d37e90c1f"), 1_702_000_345_678, 1_703_000_999_321),
)
"""An id, a timestamp and an expiration, twice; with and without parts of a second."""


class Varied(NamedTuple):
    """A header in three forms: with each of the stand-ins, and the octets that are its own."""

    one: bytes
    other: bytes
    own: tuple[bytes, ...]
    stand_ins: tuple[tuple[bytes, ...], tuple[bytes, ...]]


def varied(header: bytes) -> Varied | None:
    """``None`` if a header that was accepted has no field of its own, or depends on one. Warm."""
    if OURS_OCTETS in header:
        return None
    at, size = 0, len(header)
    places: list[tuple[int, int, int]] = []
    while at < size:
        length, code = _IH.unpack_from(header, at)
        end = at + 4 + length
        if code == DELIVERY:
            flags = header[at + 6]
            place = at + 8 + _BEFORE_TIMES[flags >> 3 & 7]
            for which, flag in ((1, TIMESTAMP), (2, EXPIRATION)):
                if flags & flag:
                    if EARLIEST <= _Q.unpack_from(header, place)[0] < LATEST:
                        places.append((place, TIME_OCTETS, which))
                    place += TIME_OCTETS
        elif code == MESSAGE and header[at + 6] & MESSAGE_ID:
            before = CONTENT_LENGTH_OCTETS if header[at + 6] & 1 else 0
            places.append((at + 8 + before, ID_OCTETS, 0))
        at = end
    if not places:
        return None
    pieces: list[bytes] = []
    own: list[bytes] = []
    last = 0
    for place, octets, _ in places:
        pieces.append(header[last:place])
        last = place + octets
        own.append(header[place:last])
    pieces.append(header[last:])
    given = [tuple(STOOD[which][n] for _, _, which in places) for n in (0, 1)]
    return Varied(joined(pieces, given[0]), joined(pieces, given[1]), tuple(own), tuple(given))  # type: ignore[arg-type]


STOOD = [
    tuple(each[0] for each in STAND_INS),
    tuple(_Q.pack(each[1]) for each in STAND_INS),
    tuple(_Q.pack(each[2]) for each in STAND_INS),
]
"""The stand-ins of id, timestamp and expiration."""


def joined(pieces: list[bytes], values: tuple[bytes, ...]) -> bytes:
    """Pieces with values between them."""
    found = [pieces[0]]
    for value, piece in zip(values, pieces[1:], strict=True):
        found += (value, piece)
    return b"".join(found)


class Pattern(NamedTuple):
    """A header of 1.0: its pieces, and which of the values stands behind each but the last."""

    pieces: tuple[bytes, ...]
    order: tuple[int, ...]

    def filled(self, own: tuple[bytes, ...]) -> bytes:
        """The header with these values. Hot."""
        found = [self.pieces[0]]
        for index, piece in zip(self.order, self.pieces[1:], strict=True):
            found.append(own[index])
            found.append(piece)
        return b"".join(found)


def pattern(convert: Callable[[bytes], bytes | None], header: Varied) -> Pattern | None:
    """The pattern of a kind of headers, if there is one. ``convert``: to the natural form, ``None``
    if that says less."""
    one, other = convert(header.one), convert(header.other)
    if one is None or other is None:
        return None
    found = sorted((one.find(value), index) for index, value in enumerate(header.stand_ins[0]))
    if found[0][0] < 0 or any(one.count(value) != 1 for value in header.stand_ins[0]):
        return None
    pieces: list[bytes] = []
    last = 0
    for place, index in found:
        pieces.append(one[last:place])
        last = place + len(header.stand_ins[0][index])
    made = Pattern((*pieces, one[last:]), tuple(index for _, index in found))
    return made if made.filled(header.stand_ins[1]) == other else None


class Patterns:
    """Those that were found, by header, exchange and key. A kind of headers is looked at when it
    comes for the second time."""

    def __init__(self) -> None:
        self._known: BoundedCache[tuple[bytes, str, str], Pattern | bool] = BoundedCache()

    def filled(
        self,
        header: bytes,
        exchange: str,
        key: str,
        convert: Callable[[bytes], bytes | None],
    ) -> bytes | None:
        """The header of 1.0, if there is a pattern for it. Warm."""
        parts = varied(header)
        if parts is None:
            return None
        wanted = parts.one, exchange, key
        known = self._known.get(wanted)
        if known is None:
            self._known.keep(wanted, True)
            return None
        if known is True:
            known = self._known.keep(wanted, pattern(convert, parts) or False)
        return known.filled(parts.own) if isinstance(known, Pattern) else None
