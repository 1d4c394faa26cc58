"""Values in contents of the drafts of 2005, for conversion by shape: the ids, the timestamp, and
texts, numbers and times among the headers."""

from collections.abc import Callable, Container, Mapping
from struct import Struct

from gateway.adapters.core.templates import Check, is_text
from gateway.adapters.methods.contents.dialect import KEPT, ClassDialect
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.record import annotations
from gateway.crossing import basic_shapes as basic
from gateway.crossing.basic_shapes import (
    BASIC_NOTATION,
    EIGHT,
    NUMBERS,
    OCTETS,
    SECONDS,
    SHORT,
    SINGLE_TAG,
    TABLE,
    TEXT,
    TIME,
    WIDTHS,
    is_number,
    is_time,
    is_wide,
    short,
    wide_stand_in,
)
from gateway.crossing.plans import (
    CORRELATION,
    FIRST,
    FIRST_SECOND,
    LAST_SECOND,
    SPECIAL,
    TEN,
    TYPED_IDS,
    Key,
    Scanned,
    Write,
    end_group,
    id_token,
    letters,
)

_H = Struct(">H")

STAMP, CODED_TEXT = 53, 54
"""Tokens besides those of basic properties: a time in digits; a text in a table of 0-9a0, with its
tag."""

OCTET, WORD, ID, LONG_TIME, DIGITS, HEADERS = range(6)
"""What a property is: an octet, a text, an id, a time in eight octets or as a text, the headers."""

CLOSED = (KEPT.encode(), *basic.CLOSED)
DEEPEST = 8
"""How far tables nest that are looked into."""
SHORTER, LONGER, BINARY, NESTED, ARRAY = b"SLxFA"


def coded_text(raw: bytes) -> bytes:
    """A text in a table of 0-9a0, with the tag that holds it."""
    if len(raw) < 256:
        return b"S%c%b" % (len(raw), raw)
    return b"L" + _H.pack(len(raw)) + raw


def is_stamp(raw: bytes) -> bool:
    """Whether it is a number of seconds in ten digits, which no version takes for milliseconds."""
    return len(raw) == TEN and raw.isdigit() and FIRST_SECOND <= int(raw) < LAST_SECOND


def kind_of(name: str, type_: str) -> int:
    if name in ("message_id", "correlation_id"):
        return ID
    if name == "timestamp":
        return DIGITS if type_.startswith("str") else LONG_TIME
    return {"str": WORD, "bytes": HEADERS, "int": OCTET}[type_.split(" ")[0]]


class DraftNotation:
    """The ``Notation`` of one class of content."""

    writers: dict[int, Write] = {
        **BASIC_NOTATION.writers, STAMP: short, CODED_TEXT: coded_text,
    }  # fmt: skip
    texts = BASIC_NOTATION.texts | {STAMP, CODED_TEXT}
    narrowed: Mapping[int, Container[bytes]] = {}
    checks: dict[int, Check] = {
        **BASIC_NOTATION.checks, STAMP: is_stamp, CODED_TEXT: is_text, EIGHT: is_wide,
    }  # fmt: skip

    def __init__(self, dialect: ClassDialect) -> None:
        self._first = dialect.name.startswith("0-9a0")
        record = type(dialect.record(b"\0\0")[0])
        self._properties = [
            (0x8000 >> place, kind_of(name, str(type_)), CORRELATION * (name == "correlation_id"))
            for place, (name, type_) in enumerate(annotations(record).items())
        ]

    def scan(self, header: bytes) -> Scanned | None:
        return self._looked(header, True)

    def look(self, header: bytes) -> Scanned | None:
        return self._looked(header, False)

    def _looked(self, header: bytes, source: bool) -> Scanned | None:
        """``scan`` of a ``source``, else ``look``."""
        key: list[bytes | int] = []
        values: list[bytes] = []
        flags, at, last = header[0] << 8 | header[1], 2, 0
        for bit, kind, correlation in self._properties:
            if not flags & bit:
                continue
            if kind == OCTET:
                at += 1
                continue
            if kind == HEADERS:
                start = at + 4
                stop = start + int.from_bytes(header[at:start])
                key += (header[last:at], TABLE)
                if not self._entries(header, start, stop, key, values, source):
                    return None
                at = last = stop
                continue
            token, start = SHORT, at + 1
            if kind == LONG_TIME:
                start, stop = at, at + 8
            else:
                stop = start + header[at]
            raw = header[start:stop]
            if kind == LONG_TIME:
                token = SECONDS if not source or is_time(raw) else 0
            elif source:
                token = 0
                if kind == DIGITS:
                    token = STAMP if is_stamp(raw) else 0
                elif kind == ID and raw and not raw.startswith(TYPED_IDS) and is_text(raw):
                    token = id_token(raw) | correlation
            if token:
                key += (header[last:at], token)
                values.append(raw)
                last = stop
            at = stop
        if at != len(header) or source and not values:
            return None
        if last < at:
            key.append(header[last:])
        return tuple(key), values

    def _entries(
        self,
        header: bytes,
        at: int,
        end: int,
        key: list[bytes | int],
        values: list[bytes],
        source: bool,
        depth: int = 0,
    ) -> bool:
        """The values of a table, and the end of its group; whether it has the usual lengths and
        known types. Hot."""
        last = at
        first = self._first
        while at < end:
            begin = at + 1
            before = at = begin + header[at]
            tag = header[at]
            at += 1
            own = not source or header[begin] not in FIRST or not header.startswith(SPECIAL, begin)
            token = 0
            if tag in (SHORTER, LONGER, BINARY):
                start = at + 4
                if first and tag != BINARY:
                    start = at + (1 if tag == SHORTER else 2)
                stop = start + int.from_bytes(header[at:start])
                raw = header[start:stop]
                if tag == BINARY:
                    token, before = OCTETS, at
                elif source and not is_text(raw):
                    token = 0
                elif not first:
                    token, before = TEXT, at
                elif tag == SHORTER or stop - start > 255:
                    token = CODED_TEXT
            elif tag in NUMBERS:
                token, width = NUMBERS[tag]
                start = before = at
                stop = at + width
                raw = header[start:stop]
                if source and (
                    (tag == TIME and not is_time(raw))
                    or (tag == SINGLE_TAG and not is_number(raw))
                    or (token == EIGHT and not is_wide(raw))
                ):
                    token = 0
            elif tag in (NESTED, ARRAY):
                start = at + 4
                stop = start + int.from_bytes(header[at:start])
                if tag == NESTED and (
                    depth == DEEPEST
                    or not self._entries(header, start, stop, [], [], source, depth + 1)
                ):
                    return False
            elif tag in WIDTHS:
                stop = at + WIDTHS[tag]
            else:
                return False
            if own and token:
                key += (header[last:before], token)
                values.append(raw)
                last = stop
            at = stop
        end_group(key, header, last, end)
        return at == end

    def size(self, token: int) -> Callable[[int], bytes]:
        return BASIC_NOTATION.size(token)

    def stand_in(self, token: int, turn: int, place: int, narrow: bool) -> bytes:
        if token == STAMP:
            return b"%d" % ((1_700_000_123, 1_600_000_321)[turn] + place)
        if token == CODED_TEXT:
            return letters(turn, place, (23, 300)[turn])
        if token == EIGHT:
            return wide_stand_in(turn, place)
        return BASIC_NOTATION.stand_in(token, turn, place, narrow)

    def is_narrow(self, key: Key) -> bool:
        return False

    def is_closed(self, octets: bytes) -> bool:
        return any(name in octets for name in CLOSED)


DRAFT_NOTATIONS = {
    dialect.name: DraftNotation(dialect)
    for dialect in CONTENTS.values()
    if dialect.group != "test"  # its contents have no values
}
"""By name of the dialect."""
