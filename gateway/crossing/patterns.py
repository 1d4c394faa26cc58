"""Headers of 0-10 that differ in the values of some fields alone, on their way to 1.0: in their
message id and times.

Clients give each message an id of its own, so a cache by header never helps. These fields stand
unchanged in the header of 1.0. So a header is converted twice with other octets in their place, and
where both results agree but for these octets, they are a pattern for all headers of this kind.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.segments.content import OURS
from gateway.adapters.segments.essentials import (
    BEFORE_EXCHANGE,
    CONTENT_LENGTH,
    DELIVERY,
    EXPIRATION,
    ID_OCTETS,
    LENGTH_OCTETS,
    MESSAGE,
    MESSAGE_ID,
    TIME_OCTETS,
    TIMESTAMP,
    place_of_id,
)

_IH, _IHB, _Q = Struct(">IH"), Struct(">IHB"), Struct(">Q")

EARLIEST, LATEST = 10**11 + 1, 1 << 43
"""Times in milliseconds: smaller numbers count seconds."""
OURS_OCTETS = OURS.encode()
"""Begins the names of application headers that may stand for a field, if they agree with it."""

STAND_INS = (
    (bytes.fromhex("6f1d83c2a9e54b7f8c03d15e92b7a468"), 1_700_000_123_000, 1_701_000_777_000),
    (bytes.fromhex("d2957bee04f1063a01c86b5d37e90c1f"), 1_702_000_345_678, 1_703_000_999_321),
)
"""An id, a timestamp and an expiration, twice; with and without parts of a second."""

ID, TIME, END = 1, 2, 4
"""Fields: message id, timestamp, expiration."""
STOOD = [
    {ID: id_, TIME: _Q.pack(timestamp), END: _Q.pack(expiration)}
    for id_, timestamp, expiration in STAND_INS
]
"""The octets of the stand-ins by field."""


Varied = tuple[bytes, int | tuple[int, ...], tuple[bytes, ...]]
"""A header without the fields of its own: the octets between them, joined; the fields, in their
order (in 0-10 as one number, three bits for each), without which two kinds might have the same
octets; and the octets of the fields."""


def places(header: bytes) -> list[tuple[int, int, int]]:
    """Where the fields of its own stand, with their size, and which they are."""
    at, size = 0, len(header)
    found: list[tuple[int, int, int]] = []
    while at < size:
        length, code = _IH.unpack_from(header, at)
        if code == DELIVERY:
            flags = header[at + 6]
            if flags & (TIMESTAMP | EXPIRATION):
                place = at + 8 + BEFORE_EXCHANGE[flags >> 3 & 7]
                for which, flag in ((TIME, TIMESTAMP), (END, EXPIRATION)):
                    if flags & flag:
                        if EARLIEST <= _Q.unpack_from(header, place)[0] < LATEST:
                            found.append((place, TIME_OCTETS, which))
                        place += TIME_OCTETS
        elif code == MESSAGE:
            flags = header[at + 6]
            if flags & MESSAGE_ID:
                before = LENGTH_OCTETS if flags & CONTENT_LENGTH else 0
                found.append((at + 8 + before, ID_OCTETS, ID))
        at += 4 + length
    return found


def varied(header: bytes) -> Varied | None:
    """``None`` if a header that was accepted has no field of its own, or depends on one. Hot."""
    if header.find(OURS_OCTETS) >= 0:
        return None
    size = len(header)
    if size > _IHB.size:
        # Most have an id and no times: delivery-properties, and message-properties behind them.
        length, code, flags = _IHB.unpack_from(header)
        at = length + 4
        if code == DELIVERY and not flags & (TIMESTAMP | EXPIRATION) and at + _IHB.size <= size:
            length, code, flags = _IHB.unpack_from(header, at)
            if code == MESSAGE and flags & MESSAGE_ID and at + 4 + length == size:
                place = at + 8 + (LENGTH_OCTETS if flags & CONTENT_LENGTH else 0)
                end = place + ID_OCTETS
                return header[:place] + header[end:], ID, (header[place:end],)
    found = places(header)
    if len(found) == 1:
        ((place, octets, which),) = found
        end = place + octets
        return header[:place] + header[end:], which, (header[place:end],)
    kind, own = b"", []
    last = fields = 0
    for place, octets, which in found:
        kind += header[last:place]
        last = place + octets
        own.append(header[place:last])
        fields = fields << 3 | which
    return (kind + header[last:], fields, tuple(own)) if own else None


def with_stand_ins(header: bytes, turn: int) -> tuple[bytes, tuple[bytes, ...]]:
    """The header with other octets in the place of its own, and those that it took, in order.
    ``turn``: which of the two."""
    stood = STOOD[turn]
    found, taken, last = b"", [], 0
    for place, octets, which in places(header):
        found += header[last:place] + stood[which]
        last = place + octets
        taken.append(stood[which])
    return found + header[last:], tuple(taken)


class Pattern(NamedTuple):
    """A header of 1.0: its pieces, and which of the values stands behind each but the last."""

    pieces: tuple[bytes, ...]
    order: tuple[int, ...]

    def filled(self, own: tuple[bytes, ...]) -> bytes:
        """The header with these values. Hot."""
        pieces = self.pieces
        if len(own) == 1:
            return pieces[0] + own[0] + pieces[1]
        found = [pieces[0]]
        for index, piece in zip(self.order, pieces[1:], strict=True):
            found.append(own[index])
            found.append(piece)
        return b"".join(found)


class Last(NamedTuple):
    """Headers of 0-10 that differ in the message id alone. ``size``: their octets; ``place`` and
    ``end``: where the id stands between ``before`` and ``behind``; ``opening``, ``ending``: what
    stands around it in 1.0."""

    exchange: str
    key: str
    size: int
    before: bytes
    behind: bytes
    place: int
    end: int
    opening: bytes
    ending: bytes


NOTHING = Last("", "", -1, b"", b"", 0, 0, b"", b"")
"""No header."""


Replace = Callable[[bytes, int], tuple[bytes, tuple[bytes, ...]]]
"""As ``with_stand_ins``."""


def pattern(
    convert: Callable[[bytes], bytes | None], header: bytes, replace: Replace
) -> Pattern | None:
    """The pattern of a kind of headers, if there is one. ``convert``: to the natural form, ``None``
    if that says less."""
    one, values = replace(header, 0)
    other, others = replace(header, 1)
    made, again = convert(one), convert(other)
    if made is None or again is None:
        return None
    found = sorted((made.find(value), index) for index, value in enumerate(values))
    if found[0][0] < 0 or any(made.count(value) != 1 for value in values):
        return None
    pieces: list[bytes] = []
    last = 0
    for place, index in found:
        pieces.append(made[last:place])
        last = place + len(values[index])
    result = Pattern((*pieces, made[last:]), tuple(index for _, index in found))
    return result if result.filled(others) == again else None


class Patterns:
    """Those that were found, by kind of header, exchange and key. A kind is looked at when it comes
    for the second time. ``vary`` and ``replace`` are those of a dialect, as ``varied`` and
    ``with_stand_ins`` are those of 0-10; ``convert``: to the natural form for an exchange and key,
    ``None`` if that says less."""

    def __init__(
        self,
        convert: Callable[[bytes, str, str], bytes | None],
        vary: Callable[[bytes], Varied | None] = varied,
        replace: Replace = with_stand_ins,
    ) -> None:
        self._convert, self._vary, self._replace = convert, vary, replace
        self._known: BoundedCache[Any, Pattern | bool] = BoundedCache()
        self._last = NOTHING
        self._before: Pattern | None = None
        """That of the header before."""

    def filled(self, header: bytes, exchange: str, key: str) -> bytes | None:
        """The header of 1.0, if there is a pattern for it. Hot."""
        last_exchange, last_key, size, before, behind, place, end, opening, ending = self._last
        if (
            len(header) == size
            and header.startswith(before)
            and header.endswith(behind)
            and key == last_key
            and exchange == last_exchange
        ):
            return b"".join((opening, header[place:end], ending))
        parts = self._vary(header)
        if parts is None:
            return None
        kind, fields, own = parts
        wanted = kind, fields, exchange, key
        known = self._known.get(wanted)
        if known is None:
            self._known.keep(wanted, True)
            return None
        if known is True:
            convert = self._convert
            found = pattern(lambda one: convert(one, exchange, key), header, self._replace)
            known = self._known.keep(wanted, found or False)
        if not isinstance(known, Pattern):
            return None
        if fields == ID and known is self._before:
            self._remember(known, header, kind, exchange, key)
        self._before = known
        return known.filled(own)

    def _remember(
        self, known: Pattern, header: bytes, kind: bytes, exchange: str, key: str
    ) -> None:
        """This pattern serves a second header in turn: the next may be like it but for the message
        id, which is seen without looking at its fields."""
        place = place_of_id(header)
        before, behind = header[:place], header[place + ID_OCTETS :]
        if place and before + behind == kind:
            opening, ending = known.pieces
            self._last = Last(
                exchange, key, len(header), before, behind, place, place + ID_OCTETS, opening,
                ending,
            )  # fmt: skip
