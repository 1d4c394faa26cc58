"""Changes to a header segment that leave all other octets as they are."""

from itertools import count
from struct import Struct
from typing import Protocol

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.segments.decoding import map_entries
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.essentials import (
    BEFORE_EXCHANGE,
    DELIVERY,
    DISCARD_UNROUTABLE,
    EXCHANGE,
    IMMEDIATE,
    MESSAGE,
    REDELIVERED,
    RESUME_ID,
    RESUME_TTL,
    ROUTING_KEY,
    TIME_OCTETS,
    TIMESTAMP,
    TTL,
)
from gateway.adapters.segments.fields import text8
from gateway.adapters.segments.operations import coded, read_fields, structs, write_fields
from gateway.adapters.segments.wire.layouts import DeliveryProperties, MessageProperties
from gateway.adapters.segments.wire.tables import STRUCTS
from gateway.message import Table

NO_BODY = b"\0\0\0\2\xff\xff"
"""A struct without fields, of a code that is not assigned. The header of a message without a body
segment begins with it here; it is never sent."""

TIMESTAMP_AT = [8 + octets for octets in BEFORE_EXCHANGE[:8]]
"""Where the timestamp of delivery-properties stands that come first, by the flags of the fields
before it (from ``PRIORITY`` on)."""

_IH, _IHBB, _Q = Struct(">IH"), Struct(">IHBB"), Struct(">Q")

SELDOM = 15
"""A header that is not made of delivery-properties and the rest is kept at one miss of sixteen: it
may have an id of its own and not come again; one that does is missed a few times."""

_MISSES = count()


class Change(Protocol):
    """Makes the header segment for a peer, by exchange, key, milliseconds left, and flags."""

    def __call__(
        self, header: bytes, exchange: str, key: str, left: int | None = None, flags: int = 0
    ) -> bytes: ...


def found(header: bytes, wanted: int) -> tuple[int, int]:
    """Where a struct begins, with its size, and where it ends; 0, 0 if there is none. Raises
    ``FieldError``."""
    for code, at, end in structs(header):
        if code == wanted:
            return at - 6, end
    return 0, 0


def delivery_properties(header: bytes) -> tuple[DeliveryProperties, int, int]:
    """The record, and where it stands; 0, 0 if it is missing. Raises ``FieldError``."""
    at, end = found(header, DELIVERY)
    if not end:
        return DeliveryProperties(), 0, 0
    return read_fields(STRUCTS[DELIVERY], header, at + 6, end), at, end


def message_properties(header: bytes) -> tuple[MessageProperties, int, int]:
    """The same for message-properties; a missing one belongs at the end."""
    at, end = found(header, MESSAGE)
    if not end:
        return MessageProperties(), len(header), len(header)
    return read_fields(STRUCTS[MESSAGE], header, at + 6, end), at, end


def replaced(header: bytes, at: int, end: int, code: int, record: object) -> bytes:
    """The header with this struct in place of the octets between."""
    octets = coded(code, write_fields(STRUCTS[code], record))
    return b"".join((header[:at], octets, header[end:]))


def _remembered(change: Change) -> Change:
    """The same change of delivery-properties, with what becomes of them remembered. These come
    first with all known publishers and are the same in many messages but for the timestamp, which
    is not changed and has the same place afterwards. The structs behind them may have an id of
    their own and stay as they are."""
    known: BoundedCache[tuple[bytes, str, str, int], bytes] = BoundedCache()
    around: BoundedCache[tuple[bytes, bytes, str, str, int], tuple[bytes, bytes]] = BoundedCache()
    """Octets before and behind the timestamp."""

    def changed(
        header: bytes, exchange: str, key: str, left: int | None = None, flags: int = 0
    ) -> bytes:
        if left is not None:
            return change(header, exchange, key, left, flags)
        size = len(header)
        length, code = _IH.unpack_from(header) if size > 6 else (0, 0)
        end = length + 4 if code == DELIVERY else size
        if code == DELIVERY and header[6] & TIMESTAMP:
            place = TIMESTAMP_AT[header[6] >> 3 & 7]
            behind = place + TIME_OCTETS
            parts = header[:place], header[behind:end], exchange, key, flags
            octets = around.get(parts)
            if octets is None:
                made = change(header, exchange, key, None, flags)
                octets = made[:place], made[behind : len(made) - size + end]
                around.keep(parts, octets)
            before, after = octets
            return b"".join((before, header[place:behind], after, header[end:]))
        wanted = header[:end], exchange, key, flags
        found = known.get(wanted)
        if found is None:
            made = change(header, exchange, key, None, flags)
            found = made[: len(made) - size + end]
            if code == DELIVERY or not next(_MISSES) & SELDOM:
                known.keep(wanted, found)
        return found + header[end:] if end < size else found

    return changed


def _published(
    header: bytes, exchange: str, key: str, left: int | None = None, flags: int = 0
) -> bytes:
    octets = _delivered(header, exchange, key, left, False)
    at = found(octets, DELIVERY)[0] + 6
    return b"%s%c%s" % (
        octets[:at], octets[at] & ~(DISCARD_UNROUTABLE | IMMEDIATE) | flags, octets[at + 1 :]
    )  # fmt: skip


def _delivered(
    header: bytes, exchange: str, key: str, left: int | None = None, flags: int = 0
) -> bytes:
    header = header.removeprefix(NO_BODY)
    quick = _inserted(header, exchange, key, left, flags)
    if quick is not None:
        return quick
    record, at, end = delivery_properties(header)
    record.exchange, record.routing_key = exchange, key
    record.redelivered = bool(flags)
    if left is not None:
        record.ttl = left
    return replaced(header, at, end, DELIVERY, record)


def _inserted(
    header: bytes, exchange: str, key: str, left: int | None, redelivered: int
) -> bytes | None:
    """The same for headers of publishers: a routing key, and no exchange or the one of the Java
    client. ``None`` if it is anything else. Raises ``FieldError``."""
    at = code = end = 0
    size = len(header)
    while at < size and code != DELIVERY:
        length, code = _IH.unpack_from(header, at)
        at, end = at + 4 + length, at
    at, end = end, at
    if code != DELIVERY or end - at < 8:
        return None
    flags = header[at + 6] | header[at + 7] << 8
    if flags & (ROUTING_KEY | RESUME_ID | RESUME_TTL) != ROUTING_KEY:
        return None
    raw = key.encode("utf-8", "surrogateescape")
    place = behind = at + 8 + BEFORE_EXCHANGE[flags >> 3 & 31]
    if flags & EXCHANGE:
        behind += 1 + header[place]
    if behind + 1 + len(raw) != end or header[behind + 1 : end] != raw:
        return None
    before = header[at + 8 : place]
    if left is not None:
        if not flags & TTL:
            return None
        ttl = BEFORE_EXCHANGE[flags >> 3 & 3]
        before = b"".join((before[:ttl], _Q.pack(left), before[ttl + 8 :]))
    name = text8(exchange, "delivery-properties exchange") if exchange else b"\0"
    flags = (flags | EXCHANGE | REDELIVERED) if redelivered else (flags | EXCHANGE) & ~REDELIVERED
    size = end - at - 4 + place - behind + len(name)
    head = _IHBB.pack(size, DELIVERY, flags & 0xFF, flags >> 8)
    return b"".join((header[:at], head, before, name, header[behind:]))


delivered = _remembered(_delivered)
"""The header segment for a receiver: where the message was published, whether it was delivered
before (``flags``: 1), and how many milliseconds are left of its time to live, if it has one.
Hot."""

published = _remembered(_published)
"""The header segment for a server: as ``delivered``, with these flags out of ``DISCARD_UNROUTABLE``
and ``IMMEDIATE`` and no others of them. Hot."""


def with_headers(header: bytes, added: Table) -> bytes:
    """These application headers instead of those of the same name, behind all others. Raises
    ``FieldError``."""
    record, at, end = message_properties(header)
    names = {name.encode("utf-8", "surrogateescape") for name in added}
    kept = [
        raw for name, raw in map_entries(record.application_headers or b"") if name not in names
    ]
    entries = b"".join([*kept, write_map(added)[4:]])
    record.application_headers = (len(kept) + len(added)).to_bytes(4, "big") + entries
    return replaced(header, at, end, MESSAGE, record)


def without_ttl(header: bytes) -> bytes:
    """Without a time to live and a date of expiry. Raises ``FieldError``."""
    record, at, end = delivery_properties(header)
    if record.ttl is None and record.expiration is None:
        return header
    record.ttl = record.expiration = None
    return replaced(header, at, end, DELIVERY, record)
