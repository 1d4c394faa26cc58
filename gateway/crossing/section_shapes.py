"""Values in the sections of 1.0, for conversion by shape: the ids and times of the properties;
texts and numbers of the application properties, and of annotations that begin with "x-opt-"."""

from collections.abc import Callable, Container, Mapping
from struct import Struct

from gateway.adapters.core.templates import Both, Check, Range
from gateway.adapters.methods.essentials import EPOCH_LIMIT
from gateway.adapters.performatives.encoding import sized
from gateway.adapters.performatives.sections import (
    ANNOTATIONS,
    DATA,
    DELIVERY,
    HEADER,
    PROPERTIES,
)
from gateway.crossing.plans import (
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
    id_check,
    id_stand_in,
    id_token,
    is_whole,
    letters,
)

_I, _Q = Struct(">I"), Struct(">Q")

STRING, BINARY, WHOLE, PARTED, EXPIRY, UUID = 1, 2, 3, 4, 5, 6
INT, UINT, LONG_INT, SINGLE, DOUBLE = 7, 16, 17, 18, 19
BYTE, UBYTE, SHORT, USHORT, PARTED_EXPIRY = 20, 21, 22, 23, 24
"""Tokens: texts, octets; times: of whole seconds, with parts of one, of expiries; numbers."""

TIMES = (WHOLE, PARTED, EXPIRY, PARTED_EXPIRY)
LATEST = 1 << 43
"""Times in milliseconds that have the same form in all versions end here."""

FIXED = {
    0x71: (INT, 4), 0x81: (LONG_INT, 8), 0x70: (UINT, 4), 0x72: (SINGLE, 4), 0x82: (DOUBLE, 8),
    0x83: (WHOLE, 8), 0x98: (UUID, 16), 0x51: (BYTE, 1), 0x50: (UBYTE, 1), 0x61: (SHORT, 2),
    0x60: (USHORT, 2),
}  # fmt: skip
"""Token and width by constructor."""
SMALL = {0x54: (INT, 4), 0x55: (LONG_INT, 8), 0x52: (UINT, 4)}
"""Numbers that are written in one octet: their token and width if they are larger."""
ZERO = 0x43
WIDTHS = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
"""Octets of a value by the upper half of its constructor."""

WIDE = 1 << 8
"""In the token of a group: the longer constructor, where the shorter would do."""

OPTIONAL = b"x-opt-"
KNOWN = (
    b"x-opt-gateway", b"x-opt-app-id", b"x-opt-cluster-id", b"x-opt-deaths", b"x-opt-jms",
    b"x-opt-amqp09",
)  # fmt: skip
"""Beginnings of annotations with a meaning."""
HOP = frozenset((b"x-exchange", b"x-routing-key"))
CLOSED = (b"x-opt-gateway", b"x-opt-amqp09", b"x-gateway-", b"x-amqp10-", b"x-amqp09-")
"""Names that say how other values are to be understood."""


def short_forms(small: int, width: int, signed: bool) -> dict[bytes, bytes]:
    """Numbers of so many octets that are written in one."""
    short = {
        value.to_bytes(width, signed=signed): bytes((small,)) + value.to_bytes(1, signed=signed)
        for value in (range(-128, 128) if signed else range(1, 256))
    }
    if not signed:
        short[bytes(width)] = bytes((ZERO,))
    return short


SHORT_FORMS = {
    INT: short_forms(0x54, 4, True),
    LONG_INT: short_forms(0x55, 8, True),
    UINT: short_forms(0x52, 4, False),
}


def number(code: int, short: dict[bytes, bytes]) -> Callable[[bytes], bytes]:
    """Writes a number in one octet if that is enough."""
    octet = bytes((code,))
    return lambda raw: short.get(raw) or octet + raw


def fixed(code: int) -> Callable[[bytes], bytes]:
    octet = bytes((code,))
    return lambda raw: octet + raw


def string(raw: bytes) -> bytes:
    return b"\xa1%c%b" % (len(raw), raw) if len(raw) < 256 else sized(0xA1, raw)


def binary(raw: bytes) -> bytes:
    return sized(0xA0, raw)


def moment(raw: bytes, expiry: bool) -> int:
    """The token of a time, 0 if it has none."""
    time = int.from_bytes(raw)
    if not EPOCH_LIMIT < time < LATEST:
        return 0
    if expiry:
        return PARTED_EXPIRY if time % 1000 else EXPIRY
    return PARTED if time % 1000 else WHOLE


CHECKED = frozenset((INT, LONG_INT, UINT, WHOLE, SINGLE))


def checked(token: int, raw: bytes) -> int:
    """The token of a number or time, 0 if it has none: it is written in another width than it
    needs, is out of range, or not a number."""
    if token == WHOLE:
        return moment(raw, False)
    if token == SINGLE:
        return 0 if raw[0] & 0x7F == 0x7F else token
    if token == UINT:
        return 0 if raw < b"\0\0\1" else token
    return 0 if -128 <= int.from_bytes(raw, signed=True) < 128 else token


def is_large(width: int) -> Check:
    """Whether a signed number of so many octets needs more than one."""
    return Range((1 << 7).to_bytes(width), (-129).to_bytes(width, signed=True))


def is_checked(token: int) -> Check:
    return lambda raw: checked(token, raw) == token


class SectionsNotation:
    """The ``Notation`` of 1.0."""

    writers: dict[int, Write] = {
        **dict.fromkeys((STRING, *IDS), string), BINARY: binary,
        **dict.fromkeys((WHOLE, PARTED, EXPIRY, PARTED_EXPIRY), fixed(0x83)), UUID: fixed(0x98),
        INT: number(0x71, SHORT_FORMS[INT]), LONG_INT: number(0x81, SHORT_FORMS[LONG_INT]),
        UINT: number(0x70, SHORT_FORMS[UINT]), SINGLE: fixed(0x72), DOUBLE: fixed(0x82),
        BYTE: fixed(0x51), UBYTE: fixed(0x50), SHORT: fixed(0x61), USHORT: fixed(0x60),
    }  # fmt: skip
    texts = frozenset((STRING, BINARY, *IDS))
    narrowed: Mapping[int, Container[bytes]] = SHORT_FORMS
    checks: dict[int, Check] = {
        **{token: id_check(token) for token in IDS},
        INT: is_large(4),
        LONG_INT: is_large(8),
        UINT: Range(_I.pack(1 << 8), _I.pack((1 << 32) - 1)),
        SINGLE: is_checked(SINGLE),
        WHOLE: Both(Range(_Q.pack(EPOCH_LIMIT + 1), _Q.pack(LATEST - 1)), is_whole),
        PARTED: lambda raw: moment(raw, False) == PARTED,
        EXPIRY: lambda raw: moment(raw, True) == EXPIRY,
        PARTED_EXPIRY: lambda raw: moment(raw, True) == PARTED_EXPIRY,
    }

    def scan(self, header: bytes) -> Scanned | None:
        return sections(header, True)

    def look(self, header: bytes) -> Scanned | None:
        return sections(header, False)

    def size(self, token: int) -> Callable[[int], bytes]:
        code, wide, count = token >> 9 & 0xFF, token & WIDE, token & 0xFF

        def write(size: int) -> bytes:
            if size < 255 and not wide:
                return bytes((code, size + 1, count))
            return bytes((code + 16,)) + _I.pack(size + 4) + _I.pack(count)

        return write

    def stand_in(self, token: int, turn: int, place: int, narrow: bool) -> bytes:
        if token in IDS:
            return id_stand_in(token, turn, place)
        if token in (STRING, BINARY):
            return letters(turn, place, 300 if turn and not narrow else 23 - 2 * turn)
        if token in (WHOLE, PARTED, EXPIRY, PARTED_EXPIRY):
            seconds = (1_700_000_123, 1_600_000_321)[turn] + place
            return _Q.pack(seconds * 1000 + (789 if token in (PARTED, PARTED_EXPIRY) else 0))
        width = WIDTH[token]
        first = 5 if turn else LARGE >> 128 - 8 * width
        return (first + place).to_bytes(width)

    def is_narrow(self, key: Key) -> bool:
        return any(isinstance(each, int) and each >= GROUP and each & WIDE for each in key)

    def is_closed(self, octets: bytes) -> bool:
        return any(name in octets for name in CLOSED)


WIDTH = {token: width for token, width in FIXED.values()}


def sections(header: bytes, source: bool) -> Scanned | None:
    """``scan`` of a ``source``, else ``look``."""
    key: list[bytes | int] = []
    values: list[bytes] = []
    at, last, size = 0, 0, len(header)
    while at < size:
        if header[at] or header[at + 1] != 0x53:
            return None
        section, code = header[at + 2], header[at + 3]
        if section >= DATA:
            return None
        if code == 0x45:
            at += 4
            continue
        start = at + 6
        end = at + 5 + header[at + 4]
        if code & 0xF0 == 0xD0:
            end = at + 8 + _I.unpack_from(header, at + 4)[0]
            start = at + 12
        if section in (HEADER, DELIVERY):
            at = end
            continue
        if code & 0xF0 == 0xC0:
            token = GROUP | code << 9 | header[at + 5]
        else:
            count = _I.unpack_from(header, at + 8)[0]
            if count > 255:
                return None
            token = GROUP | code - 16 << 9 | (WIDE if end - start < 255 else 0) | count
        key += (header[last : at + 3], token)
        if section == PROPERTIES:
            last = properties(header, start, end, key, values, source)
        else:
            last = pairs(header, start, end, key, values, source, section == ANNOTATIONS)
        if last < 0:
            return None
        end_group(key, header, last, end)
        at = last = end
    if source and not values:
        return None
    if last < size:
        key.append(header[last:])
    return tuple(key), values


def skipped(header: bytes, at: int) -> int:
    """Where the value at ``at`` ends, which has no token. Raises ``IndexError`` for one of many
    parts that are not looked at."""
    code = header[at]
    if code & 0xF0 in (0xA0, 0xC0, 0xE0):
        return at + 2 + header[at + 1]
    if code & 0xF0 in (0xB0, 0xD0, 0xF0):
        return at + 5 + int(_I.unpack_from(header, at + 1)[0])
    width = WIDTHS.get(code >> 4)
    if width is None:
        raise IndexError("a described value")
    return at + 1 + width


def properties(
    header: bytes, at: int, end: int, key: list[bytes | int], values: list[bytes], source: bool
) -> int:
    """The values of the properties section. Where the last one ends. Hot."""
    last, field = at, 0
    while at < end:
        code = header[at]
        if code == 0x40:
            at += 1
        elif code == 0xA1:
            start = at + 2
            stop = start + header[at + 1]
            if not source or field in (0, 2, 5):  # message-id, to, correlation-id
                raw = header[start:stop]
                token = STRING
                if source and field != 2:
                    token = 0 if raw.startswith(TYPED_IDS) else id_token(raw)
                if token:
                    if last < at:
                        key.append(header[last:at])
                    key.append(token)
                    values.append(raw)
                    last = stop
            at = stop
        elif code == 0x83:
            stop = at + 9
            raw = header[at + 1 : stop]
            token = moment(raw, field == 8) if source else WHOLE
            if token:
                if last < at:
                    key.append(header[last:at])
                key.append(token)
                values.append(raw)
                last = stop
            at = stop
        elif code == 0xB1 and not source:
            stop = at + 5 + _I.unpack_from(header, at + 1)[0]
            key += (header[last:at], STRING)
            values.append(header[at + 5 : stop])
            at = last = stop
        elif code == 0x98 and (not source or field in (0, 5)):
            stop = at + 17
            key += (header[last:at], UUID)
            values.append(header[at + 1 : stop])
            at = last = stop
        else:
            at = skipped(header, at)
        field += 1
    return last


def pairs(
    header: bytes,
    at: int,
    end: int,
    key: list[bytes | int],
    values: list[bytes],
    source: bool,
    annotations: bool,
) -> int:
    """The values of a map. Where the last one ends, -1 if its keys are unusual. Hot."""
    last = at
    while at < end:
        code = header[at]
        if code != 0xA1 and code != 0xA3:
            return -1
        begin = at + 2
        at = begin + header[at + 1]
        if not source:
            own = True
        elif annotations:
            own = header.startswith(OPTIONAL, begin) and not header.startswith(KNOWN, begin)
            own = own or header[begin:at] in HOP
        else:
            own = header[begin] not in FIRST or not header.startswith(SPECIAL, begin)
        code = header[at]
        if own:
            token = 0
            if code == 0xA1:
                stop = at + 2 + header[at + 1]
                raw = header[at + 2 : stop]
                token = STRING
            elif code in FIXED:
                token, width = FIXED[code]
                stop = at + 1 + width
                raw = header[at + 1 : stop]
                if source and token in CHECKED:
                    token = checked(token, raw)
            elif code in SMALL:
                token, width = SMALL[code]
                stop = at + 2
                octet = header[at + 1]
                raw = (
                    b"\xff" * (width - 1) if octet > 127 and token != UINT else bytes(width - 1)
                ) + header[at + 1 : stop]
                if token == UINT and not octet:
                    token = 0
            elif code == ZERO:
                token, stop, raw = UINT, at + 1, bytes(4)
            elif code in (0xB1, 0xA0, 0xB0):
                start = at + (2 if code == 0xA0 else 5)
                stop = skipped(header, at)
                raw = header[start:stop]
                if code == 0xA0 or stop - start > 255:
                    token = STRING if code == 0xB1 else BINARY
            if token:
                key += (header[last:at], token)
                values.append(raw)
                at = last = stop
                continue
        at = skipped(header, at)
    return last


SECTIONS_NOTATION = SectionsNotation()
