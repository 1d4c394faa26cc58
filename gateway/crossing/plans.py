"""Shapes of headers, and plans that write headers of a shape.

A *shape* is the octets around the values of a header, and the kinds of these values. What a
``Notation`` takes for a value has the same outcome whatever it is. A value that may change
more than its own place (an id that names its type, a header that has a field in the other version,
a time that is out of range) is left among the octets of the shape, or makes it another shape.
"""

import re
import struct
from collections.abc import Callable, Container, Mapping, Sequence
from hashlib import md5
from struct import Struct
from typing import Any, NamedTuple, Protocol

from gateway.adapters.core.templates import Both, Check, Place, Range, Unlike, is_text

FIRST_SECOND, LAST_SECOND = 10**9, 1 << 32
TEN = 10
"""Digits of seconds between these."""

_Q, MOST = Struct(">Q"), (1 << 64) - 1
UUID_MASK, UUID_BITS = 0xF000 << 64 | 0xC0 << 56, 0x3000 << 64 | 0x80 << 56
"""Version and variant in a UUID."""

CLOSE = 0
GROUP = 1 << 16
"""From here on, tokens open a group."""
ID, JMS, LONG, CORRELATION, OF_UUID = 32, 1, 2, 4, 8
"""Tokens of ids, 32 to 47: a text that does not name another type. It begins with "ID:"; has more
than 60 octets; is a correlation id; has a UUID behind "ID:"."""
IDS = range(ID, ID + 16)
KEPT, KEPT_LONG, MADE, MADE_LONG = range(60, 64)
"""Tokens of a message id that stands in a header of its own, and of the UUID that is made of it."""
SHORT_ID = 60
SPECIAL = (b"x-", b"X-", b"JMS", b"CC", b"BCC", b"qpid", b"amqp")
"""Beginnings of names of headers that may have a field of their own elsewhere."""
FIRST = frozenset(name[0] for name in SPECIAL)
JMS_ID = re.compile(b"ID:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TYPED_IDS = (b"AMQP_", b"urn:uuid:")
"""Beginnings of texts that may stand for an id of another type."""
UNLIKE = (*TYPED_IDS, b"ID:")
"""Beginnings that a plain id has not."""

Key = tuple[bytes | int, ...]
"""A shape: octets that stand as they are, and tokens: of a value, or where a group begins and ends.
Before the content of a group stands its size."""
Scanned = tuple[Key, list[bytes]]
"""A shape, and the values of one header."""
Write = Callable[[bytes], bytes]
UNREAD = (IndexError, struct.error, ValueError, OverflowError)


class Notation(Protocol):
    """How a dialect writes values. All functions are given octets that the dialect has accepted,
    and raise one of ``UNREAD`` for what they do not look into."""

    writers: dict[int, Write]
    """By token: the octets of a value with its type and size."""
    texts: frozenset[int]
    """Tokens of values of any size."""
    narrowed: Mapping[int, Container[bytes]]
    """By token: values that are written with fewer octets than others of their size. All others
    stand unchanged behind octets that depend on their size alone."""
    checks: dict[int, Check]
    """By token: whether other octets of the same size have it too; always, if there is no entry."""

    def scan(self, header: bytes) -> Scanned | None:
        """The shape and the values of a header that is to be converted; ``None`` if it has no
        values, or its conversion depends on more than the header. Hot."""
        ...

    def look(self, header: bytes) -> Scanned | None:
        """The same of a header that was converted: all values that have a token."""
        ...

    def size(self, token: int) -> Callable[[int], bytes]:
        """The octets before a group of so many octets, for the token that opens it."""
        ...

    def stand_in(self, token: int, turn: int, place: int, narrow: bool) -> bytes:
        """A value for this token, unlike all others. ``turn`` 1 has other lengths than 0, long ones
        unless ``narrow``."""
        ...

    def is_narrow(self, key: Key) -> bool:
        """Whether a long value would make it another shape."""
        ...

    def is_closed(self, octets: bytes) -> bool:
        """Whether these octets of a shape make the outcome depend on its values."""
        ...


# --- from values of one notation to those of another ---------------------------------------------


def as_it_is(raw: bytes) -> bytes:
    return raw


def in_milliseconds(raw: bytes) -> bytes:
    return _Q.pack(int.from_bytes(raw) * 1000 & MOST)


def in_seconds(raw: bytes) -> bytes:
    return _Q.pack(int.from_bytes(raw) // 1000)


def is_whole(raw: bytes) -> bool:
    """Whether milliseconds are whole seconds."""
    return not int.from_bytes(raw) % 1000


def whole_in_seconds(raw: bytes) -> bytes:
    """``in_seconds`` of milliseconds that ``is_whole``. Raises ``ValueError`` for others."""
    milliseconds = int.from_bytes(raw)
    if milliseconds % 1000:
        raise ValueError("parts of a second")
    return _Q.pack(milliseconds // 1000)


def in_digits(raw: bytes) -> bytes:
    return b"%d" % int.from_bytes(raw)


def in_ten_digits(raw: bytes) -> bytes:
    """``in_digits`` of seconds, for readers of times in text. All have the same size, as only those
    that are ``is_soon`` are written by shape for these readers."""
    digits = b"%d" % int.from_bytes(raw)
    return digits if len(digits) == TEN else raw


def seconds_in_ten_digits(raw: bytes) -> bytes:
    """The same of milliseconds."""
    digits = b"%d" % (int.from_bytes(raw) // 1000)
    return digits if len(digits) == TEN else raw


def whole_seconds_in_ten_digits(raw: bytes) -> bytes:
    """The same of milliseconds that ``is_whole``. Raises ``ValueError`` for others."""
    milliseconds = int.from_bytes(raw)
    if milliseconds % 1000:
        raise ValueError("parts of a second")
    digits = b"%d" % (milliseconds // 1000)
    return digits if len(digits) == TEN else raw


OF_WHOLE: dict[Write, Write] = {
    in_seconds: whole_in_seconds,
    seconds_in_ten_digits: whole_seconds_in_ten_digits,
}
"""Transfers that check their value themselves, in place of those for which ``is_whole`` does."""


def milliseconds_in_digits(raw: bytes) -> bytes:
    return b"%d" % (int.from_bytes(raw) * 1000)


def widened(raw: bytes) -> bytes:
    return bytes(8 - len(raw)) + raw


def last_half(raw: bytes) -> bytes:
    """The inverse of ``widened``, for numbers of 32 bits."""
    return raw[4:]


def in_few_seconds(raw: bytes) -> bytes:
    """``in_seconds``, for numbers of 32 bits."""
    return in_seconds(raw)[4:]


def of_digits(raw: bytes) -> bytes:
    return _Q.pack(int(raw)) if raw.isdigit() else raw


def of_digits_in_milliseconds(raw: bytes) -> bytes:
    return _Q.pack(int(raw) * 1000) if raw.isdigit() else raw


def in_hexadecimal(raw: bytes) -> bytes:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}".encode()


def as_urn(raw: bytes) -> bytes:
    return b"urn:uuid:" + in_hexadecimal(raw)


def as_jms(raw: bytes) -> bytes:
    return b"ID:" + in_hexadecimal(raw)


def uuid_in(raw: bytes) -> bytes:
    """The inverse of ``as_jms``."""
    return bytes.fromhex(raw[3:].decode().replace("-", "")) if JMS_ID.fullmatch(raw) else raw


def digest(raw: bytes) -> bytes:
    """The UUID that is made of an id of another type."""
    found = int.from_bytes(md5(raw, usedforsecurity=False).digest())
    return (found & ~UUID_MASK | UUID_BITS).to_bytes(16)


TRANSFERS: dict[int, tuple[Write, ...]] = {
    4: (widened, in_milliseconds, milliseconds_in_digits),
    8: (
        in_milliseconds,
        in_seconds,
        in_ten_digits,
        seconds_in_ten_digits,
        in_digits,
        last_half,
        in_few_seconds,
    ),
    10: (of_digits, of_digits_in_milliseconds),
    16: (in_hexadecimal, as_urn, as_jms),
    39: (uuid_in,),
}
"""The results of a value besides itself, by its size."""
UNSIZED = (in_digits, milliseconds_in_digits, uuid_in)
"""Conversions whose results differ in size for values of equal size."""


# --- plans ----------------------------------------------------------------------------------------


class Slot(NamedTuple):
    """Place among the parts, which value, what becomes of it, and how that is written there:
    ``sized`` if it stands, for values of one size, behind always the same octets; all but those in
    ``few``, if there are any such values."""

    at: int
    value: int
    transfer: Write
    write: Write
    sized: bool
    few: Container[bytes] | None


class Group(NamedTuple):
    """Place of the size among the parts, and the parts that it counts."""

    at: int
    begin: int
    end: int
    size: Callable[[int], bytes]


class Plan:
    """Writes a header from values: ``parts`` are its octets, with room for values and sizes."""

    __slots__ = ("correlation", "fidelity", "groups", "made", "parts", "slots")

    def __init__(self, parts: list[bytes], slots: list[Slot], groups: list[Group]) -> None:
        self.parts, self.slots, self.groups = parts, slots, groups
        self.correlation = -1
        """Which value is the correlation id, if there is one that may refer to another id."""
        self.made: tuple[int, int] | None = None
        """Which value is a UUID that is made of another, and which is that."""
        self.fidelity: Any = None

    def filled(self, values: Sequence[bytes]) -> bytes:
        """The header with these values. Hot."""
        return b"".join(self.written(values))

    def written(self, values: Sequence[bytes]) -> list[bytes]:
        """The parts of the header with these values. Hot."""
        parts = self.parts.copy()
        for at, value, transfer, write, _, _ in self.slots:
            parts[at] = write(transfer(values[value]))
        for at, begin, end, size in self.groups:
            parts[at] = size(len(b"".join(parts[begin:end])))  # faster than a sum
        return parts

    def with_fixed(self, fixed: list[bytes | None]) -> "Plan":
        """The plan for headers of which some values are always these. It is given the others."""
        parts, slots = self.parts.copy(), []
        left = [place for place, value in enumerate(fixed) if value is None]
        left += len(fixed), len(fixed) + 1  # exchange and routing key
        for slot in self.slots:
            value = fixed[slot.value] if slot.value < len(fixed) else None
            if value is None:
                slots.append(slot._replace(value=left.index(slot.value)))
            else:
                parts[slot.at] = slot.write(slot.transfer(value))
        plan = Plan(parts, slots, self.groups)
        plan.fidelity = self.fidelity
        if self.correlation >= 0:
            plan.correlation = left.index(self.correlation)
        if self.made is not None:
            plan.made = left.index(self.made[0]), left.index(self.made[1])
        return plan


def both(first: Write, then: Write) -> Write:
    return then if first is as_it_is else lambda raw: then(first(raw))


Result = tuple[int, Write]
"""Which value, and its conversion."""


def plan_of(notation: Notation, key: Key, sources: list[Result | bytes]) -> Plan:
    """The plan that writes a shape. ``sources``, for each value of it: which of the given values it
    is and what becomes of that, or its octets if it is always the same."""
    parts: list[bytes] = []
    slots: list[Slot] = []
    groups: list[Group] = []
    open_groups: list[tuple[int, int]] = []
    given = iter(sources)
    for each in key:
        if isinstance(each, bytes):
            parts.append(each)
        elif each == CLOSE:
            at, token = open_groups.pop()
            size = notation.size(token)
            if slots and slots[-1].at > at:
                groups.append(Group(at, at + 1, len(parts), size))
            else:
                parts[at] = size(len(b"".join(parts[at + 1 :])))
        elif each >= GROUP:
            open_groups.append((len(parts), each))
            parts.append(b"")
        else:
            write, source = notation.writers[each], next(given)
            if isinstance(source, bytes):
                parts.append(write(source))
            else:
                value, first = source
                few = notation.narrowed.get(each)
                sized = few is None and first not in UNSIZED
                slots.append(Slot(len(parts), value, first, write, sized, few))
                parts.append(b"")
    return Plan(parts, slots, groups)


def places_in(
    notation: Notation, key: Key, values: list[bytes]
) -> tuple[bytes, list[Place | None]]:
    """The header of a shape with these values, and where each stands in it; ``None`` for one that
    is not written with all of its octets."""
    own: list[Result | bytes] = list(values)
    parts = plan_of(notation, key, own).parts
    found: list[Place | None] = []
    at = 0
    given = iter(values)
    for each, part in zip((each for each in key if each != CLOSE), parts, strict=True):
        at += len(part)
        if isinstance(each, int) and each < GROUP:
            value = next(given)
            place = Place(at - len(value), at, notation.checks.get(each))
            found.append(place if part.endswith(value) else None)
    return b"".join(parts), found


def end_group(key: list[bytes | int], header: bytes, last: int, end: int) -> None:
    """Add the octets behind the last value of a group, and its end."""
    if last < end:
        key.append(header[last:end])
    key.append(CLOSE)


def tokens(key: Key) -> list[int]:
    """Those of the values."""
    return [each for each in key if isinstance(each, int) and CLOSE < each < GROUP]


def letters(turn: int, place: int, size: int) -> bytes:
    """A text that stands in: as long, and unlike that of another place or turn."""
    text = b"%c%c-stand-in-%d-" % (97 + turn, 97 + place % 26, place)
    return (text * (size // len(text) + 1))[:size]


LARGE = 0x3F81C3A5B2D4E6110F1E2D3C4B5A6911
"""Begins as a number of any width that is large, and no odd one as a floating-point number."""


def id_token(raw: bytes) -> int:
    """The token of an id that does not name another type."""
    token = ID | LONG if len(raw) > SHORT_ID else ID
    if raw.startswith(b"ID:"):
        token |= JMS | OF_UUID if JMS_ID.fullmatch(raw) else JMS
    return token


is_soon = Range(_Q.pack(FIRST_SECOND), _Q.pack(LAST_SECOND - 1))
"""Whether a number of seconds, in 64 bits, has ten digits, and fits 32 bits."""
is_soon_in_milliseconds = Range(_Q.pack(FIRST_SECOND * 1000), _Q.pack(LAST_SECOND * 1000 - 1))


def has_room(raw: bytes) -> bool:
    """Whether the fields of all versions can hold an id: it is not empty, and without NUL."""
    return raw != b"" and b"\0" not in raw


is_no_other_id = Unlike(UNLIKE)
"""Whether octets do not begin as an id of another kind."""


def id_check(token: int) -> Check:
    """Whether other octets have this token of an id too, if they are text of the same size."""
    if token & OF_UUID:
        return lambda raw: JMS_ID.fullmatch(raw) is not None
    if token & JMS:
        return lambda raw: raw.startswith(b"ID:") and JMS_ID.fullmatch(raw) is None
    return is_no_other_id


def text_id_check(token: int) -> Check:
    """The same of octets that may be no text."""
    return Both(id_check(token), is_text)


def id_stand_in(token: int, turn: int, place: int) -> bytes:
    """An id that stands in."""
    if token & OF_UUID:
        return as_jms((LARGE + 10**9 * turn + place).to_bytes(16))
    size = (70, 61)[turn] if token & LONG else (21, 17)[turn]
    return (b"ID:" if token & JMS else b"") + letters(turn, place, size)
