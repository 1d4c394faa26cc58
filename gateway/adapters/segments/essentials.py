"""The fields of a header segment that the broker needs, without decoding the rest.

Every message whose header has not been seen before comes through here, so lengths and type codes
are checked by stepping over them. A header that is accepted here can be read later.
"""

from struct import Struct
from typing import NamedTuple

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.templates import Place, Templates, template
from gateway.adapters.segments.decoding import check_map, map_places
from gateway.adapters.segments.operations import CUT
from gateway.adapters.segments.types import ALLOWANCE, LATEST_SECONDS, FieldError
from gateway.adapters.segments.wire.layouts import read_message_transfer, read_reply_to
from gateway.adapters.segments.wire.tables import DeliveryMode
from gateway.message import NO_ESSENTIALS, Essentials

DELIVERY, FRAGMENT, MESSAGE = 0x0401, 0x0402, 0x0403
"""Codes of the structs of a header segment."""

(
    DISCARD_UNROUTABLE, IMMEDIATE, REDELIVERED, PRIORITY, DELIVERY_MODE, TTL, TIMESTAMP, EXPIRATION,
    EXCHANGE, ROUTING_KEY, RESUME_ID, RESUME_TTL,
) = (1 << bit for bit in range(12))  # fmt: skip
"""Flags of delivery-properties."""

(
    CONTENT_LENGTH, MESSAGE_ID, CORRELATION_ID, REPLY_TO, CONTENT_TYPE, CONTENT_ENCODING, USER_ID,
    APP_ID, APPLICATION_HEADERS,
) = (1 << bit for bit in range(9))  # fmt: skip
"""Flags of message-properties."""

_new = tuple.__new__
_IH, _Q = Struct(">IH"), Struct(">Q")


class Arrived(NamedTuple):
    """A header segment, and its fields that the broker needs. ``exchange`` and ``key`` are those of
    delivery-properties; ``flags``, its presence flags with the three bits."""

    header: bytes
    essentials: Essentials
    exchange: str
    key: str
    flags: int


class Route(NamedTuple):
    """The arguments of a message.transfer. ``destination``: an exchange, or a subscription; a mode
    that is absent is ``None``, which both known brokers take for none (1) and pre-acquired (0)."""

    destination: str
    accept_mode: int | None
    acquire_mode: int | None


NOWHERE = Route("", None, None)

_LIKE: Templates[Arrived] = Templates()
_KNOWN: BoundedCache[bytes, Arrived] = BoundedCache()
ROUTES: BoundedCache[bytes, Route] = BoundedCache()
"""Connections share them (one thread)."""

NO_HEADER = Arrived(b"", NO_ESSENTIALS, "", "", 0)
"""A message without a header segment, or with an empty one."""

_FIRST = Struct(">IHB")
"""Of a struct: its size behind these four octets, its code, and the flags of its first fields."""
ID_OCTETS, TIME_OCTETS, LENGTH_OCTETS = 16, 8, 8

BEFORE_EXCHANGE = [
    (flags & 1) + (flags >> 1 & 1) + 8 * (flags & 0b11100).bit_count() for flags in range(32)
]
"""Octets of priority, delivery-mode, ttl, timestamp and expiration, by their flags (from
``PRIORITY`` on)."""


def arrived(header: bytes | None) -> Arrived:
    """A header segment that a peer sent. Raises ``FieldError``. Hot: only the first of a kind is
    walked over."""
    if not header:
        return NO_HEADER
    found = _LIKE.find(header)
    if found is not None:
        _, essentials, exchange, key, flags = found
        return _new(Arrived, (header, essentials, exchange, key, flags))
    found = _KNOWN.get(header)
    if found is not None:
        return found
    if len(header) > MOST_VALUES:  # each value takes an octet at least
        with ALLOWANCE.within():
            return read_arrived(header)
    read = read_arrived(header)
    _LIKE.keep(header, lambda: template(header, value_places(header), read))
    return _KNOWN.keep(header, read)


def value_places(header: bytes) -> list[Place]:
    """The places of values that change neither the fields of ``Arrived`` nor whether the header can
    be read: ids, the timestamp, application headers. It has been read."""
    found: list[Place] = []
    at = 0
    while at < len(header):
        length, code = _IH.unpack_from(header, at)
        end = at + 4 + length
        if code == DELIVERY and header[at + 6] & TIMESTAMP:
            start = at + 8 + BEFORE_EXCHANGE[header[at + 6] >> 3 & 7]
            found.append(Place(start, start + TIME_OCTETS))
        elif code == MESSAGE:  # others may have no flags
            flags = header[at + 6] | header[at + 7] << 8
            found += places_in_message(header, at + 8, flags)
        at = end
    return found


def places_in_message(header: bytes, at: int, flags: int) -> list[Place]:
    """The same in message-properties, whose fields begin at ``at``."""
    found: list[Place] = []
    at += LENGTH_OCTETS if flags & CONTENT_LENGTH else 0
    if flags & MESSAGE_ID:
        found.append(Place(at, at + ID_OCTETS))
        at += ID_OCTETS
    for field, width in (
        (CORRELATION_ID, 2), (REPLY_TO, 2), (CONTENT_TYPE, 1), (CONTENT_ENCODING, 1), (USER_ID, 2),
        (APP_ID, 2),
    ):  # fmt: skip
        if flags & field:
            start = at + width
            at = start + int.from_bytes(header[at:start])
            if field == CORRELATION_ID:
                found.append(Place(start, at))
    if flags & APPLICATION_HEADERS:
        found += map_places(header, at + 4, at + 4 + int.from_bytes(header[at : at + 4]))
    return found


def place_of_id(header: bytes) -> int:
    """Where the message id stands; 0 if there is none, or the structs are not delivery-properties
    (or any other) and behind it message-properties."""
    size = len(header)
    if size < 11:
        return 0
    at = _FIRST.unpack_from(header)[0] + 4
    if at + 8 + ID_OCTETS > size:
        return 0
    _, second, message_flags = _FIRST.unpack_from(header, at)
    if second != MESSAGE or not message_flags & MESSAGE_ID:
        return 0
    place: int = at + 8 + (LENGTH_OCTETS if message_flags & CONTENT_LENGTH else 0)
    return place if place + ID_OCTETS <= size else 0


def route(arguments: bytes) -> Route:
    """The arguments of a transfer. Raises ``FieldError``. Hot."""
    found = ROUTES.get(arguments)
    if found is not None:
        return found
    try:
        record, end = read_message_transfer(arguments, 0)
    except CUT as error:
        raise FieldError("message.transfer is cut short") from error
    if end != len(arguments):
        raise FieldError(f"message.transfer ends at {end} of {len(arguments)} octets")
    read = Route(record.destination or "", record.accept_mode, record.acquire_mode)
    return ROUTES.keep(arguments, read)


def milliseconds(datetime: int) -> int:
    """A datetime of 0-10, which counts seconds or, written by Java clients, milliseconds."""
    return datetime * 1000 if datetime <= LATEST_SECONDS else datetime


def read_arrived(header: bytes) -> Arrived:
    """The same without a limit on values. Raises ``FieldError``. Warm: steps over the rest,
    checking lengths and type codes only."""
    try:
        return _walk(header)
    except CUT as error:
        raise FieldError("the header segment is cut short") from error


def _walk(header: bytes) -> Arrived:
    at, size = 0, len(header)
    durable = has_headers = False
    priority: int | None = None
    ttl: int | None = None
    expiry: int | None = None
    user: str | None = None
    exchange = key = ""
    seen = kept = 0
    while at < size:
        length, code = _IH.unpack_from(header, at)
        end = at + 4 + length
        if length < 2 or end > size:
            raise FieldError("a struct runs past its header segment")
        if code != DELIVERY and code != MESSAGE:
            at = end
            continue
        if seen & 1 << (code & 3):
            raise FieldError("a struct stands in the header segment twice")
        seen |= 1 << (code & 3)
        flags = header[at + 6] | header[at + 7] << 8  # the first octet has the first fields
        at += 8
        if code == DELIVERY:
            kept = flags
            if flags > 0xFFF:
                raise FieldError("delivery-properties has no such fields")
            if flags & PRIORITY:
                priority = header[at]
                at += 1
            if flags & DELIVERY_MODE:
                durable = header[at] == DeliveryMode.PERSISTENT
                at += 1
            if flags & TTL:
                ttl = _Q.unpack_from(header, at)[0]
                at += 8
            if flags & TIMESTAMP:
                at += 8
            if flags & EXPIRATION:
                expiry = milliseconds(_Q.unpack_from(header, at)[0])
                at += 8
            if flags & EXCHANGE:
                stop = at + 1 + header[at]
                exchange = header[at + 1 : stop].decode("utf-8", "surrogateescape")
                at = stop
            if flags & ROUTING_KEY:
                stop = at + 1 + header[at]
                key = header[at + 1 : stop].decode("utf-8", "surrogateescape")
                at = stop
            if flags & RESUME_ID:
                at += 2 + (header[at] << 8 | header[at + 1])
            if flags & RESUME_TTL:
                at += 8
        else:
            if flags > 0x1FF:
                raise FieldError("message-properties has no such fields")
            if flags & CONTENT_LENGTH:
                at += 8
            if flags & MESSAGE_ID:
                at += 16
            if flags & CORRELATION_ID:
                at += 2 + (header[at] << 8 | header[at + 1])
            if flags & REPLY_TO:
                stop = at + 2 + (header[at] << 8 | header[at + 1])
                if read_reply_to(header, at + 2)[1] != stop:
                    raise FieldError("the fields of reply-to do not end where it does")
                at = stop
            if flags & CONTENT_TYPE:
                at += 1 + header[at]
            if flags & CONTENT_ENCODING:
                at += 1 + header[at]
            if flags & USER_ID:
                stop = at + 2 + (header[at] << 8 | header[at + 1])
                user = header[at + 2 : stop].decode("utf-8", "surrogateescape")
                at = stop
            if flags & APP_ID:
                at += 2 + (header[at] << 8 | header[at + 1])
            if flags & APPLICATION_HEADERS:
                stop = at + 4 + int.from_bytes(header[at : at + 4], "big")
                if stop > end:
                    raise FieldError("the headers run past message-properties")
                check_map(header, at + 4, stop)
                has_headers = stop > at + 8
                at = stop
        if at != end:
            raise FieldError("the fields of a struct do not end where it does")
    if ttl is not None or not expiry:
        expiry = None
    # Without the constructors, which are calls in Python.
    essentials = _new(Essentials, (durable, priority, ttl, user, has_headers, expiry))
    return _new(Arrived, (header, essentials, exchange, key, kept))
