"""Values in message headers of 0.8a2, for conversion by shape: the expiry, the ids, and texts,
numbers and times among the fields; and the values of the basic properties in ``AMQP_MORE``."""

from collections.abc import Callable, Container, Mapping
from struct import Struct

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import FIXED, MORE, NAMED, SIZE_OCTETS
from gateway.adapters.core.templates import Both, Check, Range, is_text
from gateway.adapters.methods.contents.dialect import KEPT
from gateway.adapters.methods.essentials import EPOCH_LIMIT, read_essentials
from gateway.crossing import basic_shapes as basic
from gateway.crossing.basic_shapes import BASIC_NOTATION, FOUR, SHORT, is_wide, short, wide_stand_in
from gateway.crossing.plans import (
    CLOSE,
    CORRELATION,
    FIRST,
    GROUP,
    IDS,
    SPECIAL,
    TYPED_IDS,
    Key,
    Scanned,
    Write,
    end_group,
    has_room,
    id_token,
    is_soon,
    letters,
    text_id_check,
    tokens,
)

_H, _I = Struct(">H"), Struct(">I")

TEXT, SECONDS, EXPIRY = 50, 51, 52
"""Tokens besides those of basic properties: a string; a time in a field; when it expires."""
FIELDS = GROUP | 1
"""Fields, and the basic properties in one of them: their size has two octets."""
EXPIRY_AT = FIXED - SIZE_OCTETS - 4
MORE_NAME = MORE.encode()
HAS_CORRELATION = 4
"""In the first octet of basic properties."""
OWN_NAMES = {name.encode(): attribute for name, attribute in NAMED}
CLOSED = (KEPT.encode(), *basic.CLOSED)


def string(raw: bytes) -> bytes:
    return _H.pack(len(raw)) + raw


is_time = Range(_I.pack(EPOCH_LIMIT // 1000 + 1), _I.pack((1 << 32) - 1))
"""Whether it is a number of seconds, in 32 bits, that no version takes for milliseconds."""


class CommandNotation:
    """The ``Notation`` of 0.8a2."""

    writers: dict[int, Write] = {
        **BASIC_NOTATION.writers,
        **{token: string if token & CORRELATION else short for token in IDS},
        TEXT: string, SECONDS: bytes, EXPIRY: bytes,
    }  # fmt: skip
    texts = BASIC_NOTATION.texts | {TEXT}
    narrowed: Mapping[int, Container[bytes]] = {}
    checks: dict[int, Check] = {
        **BASIC_NOTATION.checks, basic.EIGHT: is_wide, basic.SECONDS: is_soon,
        TEXT: is_text, SECONDS: is_time, EXPIRY: is_time,
        **{token: Both(text_id_check(token), has_room) for token in IDS},
    }  # fmt: skip

    def scan(self, header: bytes) -> Scanned | None:
        key: list[bytes | int] = []
        values: list[bytes] = []
        last = 0
        at = EXPIRY_AT + 4
        raw = header[EXPIRY_AT:at]
        if is_time(raw) and MORE_NAME not in header:  # which may have it with parts of a second
            key += (header[:EXPIRY_AT], EXPIRY)
            values.append(raw)
            last = at
        at += 1 + header[at]  # type
        at += 1 + header[at]  # encoding
        begin = at + 1
        at = begin + header[at]
        raw = header[begin:at]
        if plain_id(raw):
            key += (header[last : begin - 1], id_token(raw))
            values.append(raw)
            last = at
        if last < at:
            key.append(header[last:at])
        key.append(FIELDS)
        if not entries(header, at + 2, len(header), key, values, True) or not values:
            return None
        return tuple(key), values

    def look(self, header: bytes) -> Scanned | None:
        at = EXPIRY_AT + 4
        key: list[bytes | int] = [header[:EXPIRY_AT], EXPIRY]
        values = [header[EXPIRY_AT:at]]
        for _ in range(3):  # type, encoding, identifier
            begin = at + 1
            at = begin + header[at]
            key.append(SHORT)
            values.append(header[begin:at])
        key.append(FIELDS)
        if not entries(header, at + 2, len(header), key, values, False):
            return None
        return tuple(key), values

    def size(self, token: int) -> Callable[[int], bytes]:
        return _H.pack if token == FIELDS else _I.pack

    def stand_in(self, token: int, turn: int, place: int, narrow: bool) -> bytes:
        if token in (SECONDS, EXPIRY):
            return _I.pack((1_700_000_123, 1_600_000_321)[turn] + place)
        if token == basic.EIGHT:
            return wide_stand_in(turn, place)
        if token == TEXT:
            return letters(turn, place, (23, 300)[turn])
        return BASIC_NOTATION.stand_in(token, turn, place, narrow)

    def is_narrow(self, key: Key) -> bool:
        return False

    def is_closed(self, octets: bytes) -> bool:
        return any(name in octets for name in CLOSED)


def plain_id(raw: bytes) -> bool:
    """Whether this is the text of an id that does not name another type."""
    return has_room(raw) and not raw.startswith(TYPED_IDS) and is_text(raw)


def entries(
    header: bytes, at: int, end: int, key: list[bytes | int], values: list[bytes], source: bool
) -> bool:
    """The values of the fields, and the end of their group; whether all could be told. Hot."""
    last = at
    while at < end:
        begin = at + 1
        at = begin + header[at]
        letter = header[at]
        name = header[begin:at]
        at += 1
        own = not source or header[begin] not in FIRST or not name.startswith(SPECIAL)
        token = 0
        if letter == fields.STRING:
            start = at + 2
            stop = start + (header[at] << 8 | header[at + 1])
            raw = header[start:stop]
            if name == MORE_NAME:
                if source and raw[0] & HAS_CORRELATION:
                    return False
                found = more(raw) if source else BASIC_NOTATION.look(raw)
                if found is not None:
                    key += (header[last:at], FIELDS, *found[0], CLOSE)
                    values += found[1]
                    last = stop
                elif not source:
                    return False
            elif not source:
                token = TEXT
            elif name in OWN_NAMES:
                if OWN_NAMES[name] == "correlation_id" and len(raw) < 256 and plain_id(raw):
                    token = id_token(raw) | CORRELATION
            elif own and is_text(raw):
                token = TEXT
        else:
            width = fields.WIDTHS.get(letter)
            if width is None:
                return False
            start, stop = at, at + width
            raw = header[start:stop]
            if letter == fields.INTEGER:
                token = FOUR
            elif letter == fields.TIME:
                token = SECONDS if not source or is_time(raw) else 0
        if own and token:
            key += (header[last:at], token)
            values.append(raw)
            last = stop
        at = stop
    end_group(key, header, last, end)
    return at == end


def more(raw: bytes) -> Scanned | None:
    """The values of basic properties that stand in a field; ``None`` if they have none, or may be
    no such properties."""
    try:
        read_essentials(raw)
    except (ValueError, IndexError):
        return None
    found = BASIC_NOTATION.scan(raw)
    if found is None:
        return None
    checks = CommandNotation.checks
    for token, value in zip(tokens(found[0]), found[1], strict=True):
        check = checks.get(token)
        if check is not None and not check(value):
            return None
    return found


COMMAND_NOTATION = CommandNotation()
