"""Values in header segments of 0-10, for conversion by shape: the ids and times, where it goes
to, and texts and numbers among the application headers."""

from collections.abc import Callable, Container, Mapping
from struct import Struct

from gateway.adapters.core.templates import Both, Check, is_text
from gateway.adapters.segments.essentials import (
    APPLICATION_HEADERS,
    CONTENT_LENGTH,
    CORRELATION_ID,
    DELIVERY,
    EXCHANGE,
    EXPIRATION,
    MESSAGE,
    MESSAGE_ID,
    ROUTING_KEY,
    TIMESTAMP,
    TTL,
)
from gateway.adapters.segments.splicing import NO_BODY
from gateway.adapters.segments.types import LATEST_SECONDS
from gateway.adapters.segments.types import WIDTHS as WIDTHS_OF
from gateway.crossing.plans import (
    CLOSE,
    CORRELATION,
    FIRST,
    GROUP,
    ID,
    IDS,
    KEPT,
    KEPT_LONG,
    LARGE,
    LONG,
    MADE,
    MADE_LONG,
    SHORT_ID,
    SPECIAL,
    TYPED_IDS,
    Key,
    Scanned,
    Write,
    digest,
    end_group,
    has_room,
    id_stand_in,
    id_token,
    letters,
    text_id_check,
)

_H, _I, _IH, _Q = (Struct(f">{code}") for code in ("H", "I", "IH", "Q"))

TEXT, OCTETS, NAME, SECONDS, MILLISECONDS, ID_OCTETS = 1, 2, 3, 4, 5, 6
"""Tokens of fields: a str16 or vbin16 in a map; a str8; a time; a message id."""
FIELD = 7
KEPT_ID = b"\x13x-amqp10-message-id"
STRUCT = GROUP

NUMBERS = {
    0x01: (16, 1), 0x02: (17, 1), 0x11: (18, 2), 0x12: (19, 2), 0x21: (20, 4), 0x22: (21, 4),
    0x23: (22, 4), 0x31: (23, 8), 0x33: (24, 8), 0x48: (25, 16),
}  # fmt: skip
"""Tokens and widths of values in a map by type code."""
LONG_INT = NUMBERS[0x31][0]
SINGLE, TIME, STR16, VBIN16 = 0x23, 0x38, 0x95, 0x90
TIMES = (SECONDS, MILLISECONDS, 28)
TIMES_IN_MAP = (26, 27, 29)
"""Tokens of times: in seconds, in milliseconds with parts of a second and without; the same in a
map."""
WIDTH = {token: width for token, width in NUMBERS.values()}
LATEST = 1 << 43
CLOSED = (b"x-amqp10-", b"x-gateway-", b"x-amqp09-", b"x-opt-gateway", b"x-opt-amqp09")
"""Names of headers that say how other values are to be understood."""


def coded(code: int) -> Write:
    octet = bytes((code,))
    return lambda raw: octet + raw


def name(raw: bytes) -> bytes:
    return bytes((len(raw),)) + raw


def field(raw: bytes) -> bytes:
    return _H.pack(len(raw)) + raw


def moment(raw: bytes, times: tuple[int, int, int]) -> int:
    """The token of a time: one of these, or 0 if it is out of range."""
    time = int.from_bytes(raw)
    if time <= LATEST_SECONDS:
        return times[0] if time > LATEST_SECONDS // 1000 else 0
    if time >= LATEST:
        return 0
    return times[1] if time % 1000 else times[2]


def is_moment(token: int, times: tuple[int, int, int]) -> Check:
    return lambda raw: moment(raw, times) == token


is_kept = Both(text_id_check(ID), has_room)
"""Whether an id is the same text for all readers."""


def is_number(raw: bytes) -> bool:
    """Whether a float is a number: there are many that are none."""
    return raw[0] & 0x7F != 0x7F


class SegmentNotation:
    """The ``Notation`` of 0-10."""

    writers: dict[int, Write] = {
        TEXT: lambda raw: b"\x95" + field(raw), OCTETS: lambda raw: b"\x90" + field(raw),
        NAME: name, FIELD: field, **dict.fromkeys(IDS, field),
        **dict.fromkeys((KEPT, KEPT_LONG), lambda raw: b"\x95" + field(raw)),
        **dict.fromkeys((*TIMES, ID_OCTETS, MADE, MADE_LONG), bytes),
        **{token: coded(code) for code, (token, _) in NUMBERS.items()},
        **dict.fromkeys(TIMES_IN_MAP, coded(TIME)),
    }  # fmt: skip
    texts = frozenset((TEXT, OCTETS, NAME, FIELD, KEPT, KEPT_LONG, *IDS))
    narrowed: Mapping[int, Container[bytes]] = {}
    checks: dict[int, Check] = {
        TEXT: is_text, NUMBERS[SINGLE][0]: is_number, KEPT: is_kept, KEPT_LONG: is_kept,
        **{token: text_id_check(token) for token in IDS},
        **{token: is_moment(token, times) for times in (TIMES, TIMES_IN_MAP) for token in times},
    }  # fmt: skip

    def scan(self, header: bytes) -> Scanned | None:
        return segments(header, True)

    def look(self, header: bytes) -> Scanned | None:
        return segments(header, False)

    def size(self, token: int) -> Callable[[int], bytes]:
        return _I.pack

    def stand_in(self, token: int, turn: int, place: int, narrow: bool) -> bytes:
        if token in IDS:
            return id_stand_in(token, turn, place)
        if KEPT <= token <= MADE_LONG:  # the two have the same text
            text = id_stand_in(ID | LONG if token in (KEPT_LONG, MADE_LONG) else ID, turn, 0)
            return text if token <= KEPT_LONG else digest(text)
        if token in self.texts:
            return letters(turn, place, (23, 50 if token == NAME else 300)[turn])
        if token in (*TIMES, *TIMES_IN_MAP):
            seconds = (1_700_000_123, 1_600_000_321)[turn] + place
            if token in (TIMES[0], TIMES_IN_MAP[0]):
                return _Q.pack(seconds)
            return _Q.pack(seconds * 1000 + (0 if token in (TIMES[2], TIMES_IN_MAP[2]) else 789))
        width = 16 if token == ID_OCTETS else WIDTH[token]
        first = 5 if turn else LARGE >> 128 - 8 * width
        return (first + place).to_bytes(width)

    def is_narrow(self, key: Key) -> bool:
        return False

    def is_closed(self, octets: bytes) -> bool:
        octets = octets.removesuffix(KEPT_ID)
        return any(each in octets for each in CLOSED)


def segments(header: bytes, source: bool) -> Scanned | None:
    """``scan`` of a ``source``, else ``look``."""
    if header.startswith(NO_BODY):
        return None
    key: list[bytes | int] = []
    values: list[bytes] = []
    at, size = 0, len(header)
    while at < size:
        length, code = _IH.unpack_from(header, at)
        end = at + 4 + length
        flags = header[at + 6] | header[at + 7] << 8
        key.append(STRUCT)
        last = at + 4
        if code == DELIVERY:
            last = delivery_values(header, at, flags, key, values, source)
        elif code == MESSAGE:
            last = message_values(header, at, flags, key, values, source)
            if last < 0:
                return None
        end_group(key, header, last, end)
        at = end
    return (tuple(key), values) if values or not source else None


def delivery_values(
    header: bytes,
    begin: int,
    flags: int,
    key: list[bytes | int],
    values: list[bytes],
    source: bool,
) -> int:
    """The times, the exchange and the routing key, which are of one hop. Where the last one ends.
    Hot."""
    last, at = begin + 4, begin + 8 + (flags >> 3 & 1) + (flags >> 4 & 1)
    if flags & TTL:
        at += 8
    for bit in (TIMESTAMP, EXPIRATION):
        if flags & bit:
            raw = header[at : at + 8]
            token = moment(raw, TIMES) if source else SECONDS
            if token:
                if last < at:
                    key.append(header[last:at])
                key.append(token)
                values.append(raw)
                last = at + 8
            at += 8
    for bit in (EXCHANGE, ROUTING_KEY):
        if flags & bit:
            stop = at + 1 + header[at]
            if last < at:
                key.append(header[last:at])
            key.append(NAME)
            values.append(header[at + 1 : stop])
            at = last = stop
    return last


def message_values(
    header: bytes,
    begin: int,
    flags: int,
    key: list[bytes | int],
    values: list[bytes],
    source: bool,
) -> int:
    """The ids and the values of the application headers. Where the last one ends, -1 if they cannot
    be told. Hot."""
    last, at = begin + 4, begin + 8
    if flags & CONTENT_LENGTH:
        at += 8
    kept = kept_token = 0
    if flags & MESSAGE_ID:
        raw = header[at : at + 16]
        if source and KEPT_ID in header:
            kept, kept_token = kept_id(header, raw)
        key += (header[last:at], kept_token + MADE - KEPT if kept else ID_OCTETS)
        last = at = at + 16
        values.append(raw)
    if flags & CORRELATION_ID:
        stop = at + 2 + (header[at] << 8 | header[at + 1])
        raw = header[at + 2 : stop]
        if not source:
            token = FIELD
        else:
            token = 0
            if len(raw) < 256 and not raw.startswith(TYPED_IDS) and is_text(raw):
                token = id_token(raw) | CORRELATION
        if token:
            if last < at:
                key.append(header[last:at])
            key.append(token)
            values.append(raw)
            last = stop
        at = stop
    if not flags & APPLICATION_HEADERS:
        return last
    if flags & 0x08:  # reply-to
        at += 2 + (header[at] << 8 | header[at + 1])
    if flags & 0x10:  # content-type
        at += 1 + header[at]
    if flags & 0x20:  # content-encoding
        at += 1 + header[at]
    if flags & 0x40:  # user-id
        at += 2 + (header[at] << 8 | header[at + 1])
    if flags & 0x80:  # app-id
        at += 2 + (header[at] << 8 | header[at + 1])
    if last < at:
        key.append(header[last:at])
    key.append(STRUCT)
    end = at + 4 + _I.unpack_from(header, at)[0]
    last = entries(header, at + 4, end, key, values, source, kept, kept_token)
    if 0 <= last < end:
        key.append(header[last:end])
    key.append(CLOSE)
    return end if last >= 0 else -1


def kept_id(header: bytes, made: bytes) -> tuple[int, int]:
    """Where the name of the header with the id stands of which a UUID is made, and the token of the
    id; 0 if it is none that is the same text for all readers."""
    at = header.index(KEPT_ID) + len(KEPT_ID)
    if header[at] != STR16:
        return 0, 0
    start = at + 3
    stop = start + (header[at + 1] << 8 | header[at + 2])
    raw = header[start:stop]
    if len(raw) > 255 or not is_kept(raw) or digest(raw) != made:
        return 0, 0
    return at - len(KEPT_ID) + 1, KEPT_LONG if len(raw) > SHORT_ID else KEPT


def entries(
    header: bytes,
    at: int,
    end: int,
    key: list[bytes | int],
    values: list[bytes],
    source: bool,
    kept: int,
    kept_token: int,
) -> int:
    """The values of a map. ``kept``: where the name of a header stands whose value has this token.
    Where the last one ends, -1 for a type that is not known. Hot."""
    last = at
    at += 4
    while at < end:
        begin = at + 1
        at = begin + header[at]
        code = header[at]
        special = source and header[begin] in FIRST and header.startswith(SPECIAL, begin)
        token = 0
        start = at + 1
        if code == STR16:
            start += 2
            stop = start + (header[at + 1] << 8 | header[at + 2])
            token = TEXT if not source or is_text(header[start:stop]) else 0
        elif code in NUMBERS:
            token, width = NUMBERS[code]
            stop = start + width
            if code == SINGLE and not is_number(header[start:stop]):
                token = 0
        elif code == TIME:
            stop = start + 8
            token = TIMES_IN_MAP[0]
            if source:
                token = moment(header[start:stop], TIMES_IN_MAP)
        elif code == VBIN16:
            start += 2
            stop = start + (header[at + 1] << 8 | header[at + 2])
            token = OCTETS
        else:
            width = WIDTHS_OF[code]
            if width >= 0:
                stop = start + width
            elif width in (-1, -2, -4):
                start -= width
                stop = start + int.from_bytes(header[at + 1 : start])
            else:
                return -1
        if token and (not special or begin == kept):
            key += (header[last:at], kept_token if special else token)
            values.append(header[start:stop])
            last = stop
        at = stop
    return last


SEGMENT_NOTATION = SegmentNotation()
