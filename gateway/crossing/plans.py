"""Shapes of headers, and plans that write headers of a shape.

A *shape* is the octets around the values of a header, and the kinds of these values. What a
``Notation`` takes for a value has the same outcome whatever it is. A value that may change
more than its own place (an id that names its type, a header that has a field in the other version,
a time that is out of range) is left among the octets of the shape, or makes it another shape.
"""

import re
import struct
from collections.abc import Callable, Sequence
from hashlib import md5
from struct import Struct
from typing import Any, NamedTuple, Protocol, TypeVar

from gateway.adapters.core.templates import Check, Place, is_text

FIRST_SECOND, LAST_SECOND = 10**9, 1 << 32
TEN = 10
"""Digits of seconds between these."""

_Q, MOST = Struct(">Q"), (1 << 64) - 1

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
MOST_FRAMES = 32
"""Frames that a plan keeps, for other lengths of exchange and routing key."""
UNREAD = (IndexError, struct.error, ValueError, OverflowError)


class Notation(Protocol):
    """How a dialect writes values. All functions are given octets that the dialect has accepted,
    and raise one of ``UNREAD`` for what they do not look into."""

    writers: dict[int, Write]
    """By token: the octets of a value with its type and size."""
    texts: frozenset[int]
    """Tokens of values of any size."""
    narrowed: frozenset[int]
    """Tokens of values that are written with fewer octets if these are enough. All others stand
    unchanged behind octets that depend on their size alone."""
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
    found = md5(raw, usedforsecurity=False).digest()
    return b"%b%c%b%c%b" % (
        found[:6], found[6] & 0x0F | 0x30, found[7:8], found[8] & 0x3F | 0x80, found[9:]
    )  # fmt: skip


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
    ``sized`` if it stands, for values of one size, behind always the same octets."""

    at: int
    value: int
    transfer: Write
    write: Write
    sized: bool


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
        for at, value, transfer, write, _ in self.slots:
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


class Frame(NamedTuple):
    """The octets of a header around values of certain sizes: ``parts`` with room for values. These
    stand there ``unchanged`` (place, which value), after a ``transfer``, or were written already,
    as the ``narrowed`` ones that a header has (place, which of these)."""

    parts: list[bytes]
    unchanged: list[tuple[int, int]]
    transferred: list[tuple[int, int, Write]]
    narrowed: list[tuple[int, int]]


T = TypeVar("T")


class SizedPlan:
    """Writes headers from values of always the same sizes: only the values are left to be put in.
    Exchange and routing key are values too, unless messages with the same come one after the
    other."""

    __slots__ = (
        "correlation", "fidelity", "made", "_plan", "_count", "_narrowed", "_before", "_exchange",
        "_key", "_steady", "_frames",
    )  # fmt: skip

    def __init__(self, plan: Plan, count: int) -> None:
        """``count``: of the values."""
        self.correlation = plan.correlation
        self.made = plan.made
        self.fidelity = plan.fidelity
        self._plan = plan
        self._count = count
        self._narrowed = [
            (slot.value, both(slot.transfer, slot.write)) for slot in plan.slots if not slot.sized
        ]
        """Values whose size in the header depends on their own octets."""
        self._before: tuple[str | int, ...] = ()
        """Exchange, routing key and sizes of what was narrowed of the message before."""
        self._exchange = self._key = ""
        """Those in ``_steady``."""
        self._steady: dict[int, Frame] = {}
        """By the widths of narrowed values, an octet for each: these are not in it."""
        self._frames: dict[tuple[int, int, int], Frame] = {}
        """By the octets of exchange and routing key, and these widths: none of them is in it."""

    def filled(self, values: tuple[bytes, ...], exchange: str, key: str) -> bytes:
        """The header with these values. Hot."""
        narrowed: list[bytes] = []
        widths = 0
        for value, write in self._narrowed:
            octets = write(values[value])
            narrowed.append(octets)
            widths = widths << 8 | len(octets)
        if key == self._key and exchange == self._exchange:
            frame = self._steady.get(widths)
            if frame is None:
                frame = self._framed(values, exchange, key, self._count)
                keep(self._steady, widths, frame)
        else:
            if self._before == (exchange, key):
                self._exchange, self._key = exchange, key
                self._steady.clear()
            self._before = exchange, key
            given, values = values, (*values, exchange.encode(), key.encode())
            sizes = len(values[-2]), len(values[-1]), widths
            frame = self._frames.get(sizes)
            if frame is None:
                frame = self._framed(given, exchange, key, len(values))
                keep(self._frames, sizes, frame)
        parts = frame.parts.copy()
        for at, value in frame.unchanged:
            parts[at] = values[value]
        for at, value, transfer in frame.transferred:
            parts[at] = transfer(values[value])
        for at, value in frame.narrowed:
            parts[at] = narrowed[value]
        return b"".join(parts)

    def _framed(self, given: tuple[bytes, ...], exchange: str, key: str, count: int) -> Frame:
        """Join all parts but those of the first ``count`` values."""
        values = *given, exchange.encode(), key.encode()
        slots = {slot.at: slot for slot in self._plan.slots if slot.value < count}
        frame = Frame([], [], [], [])
        joined = b""
        for at, part in enumerate(self._plan.written(values)):
            slot = slots.get(at)
            if slot is None:
                joined += part
                continue
            place = len(frame.parts) + 1
            if not slot.sized:
                frame.narrowed.append((place, len(frame.narrowed)))
            else:
                joined += part[: len(part) - len(slot.transfer(values[slot.value]))]
                if slot.transfer is as_it_is:
                    frame.unchanged.append((place, slot.value))
                else:
                    frame.transferred.append((place, slot.value, slot.transfer))
            frame.parts.extend((joined, b""))
            joined = b""
        frame.parts.append(joined)
        return frame


def keep(frames: dict[T, Frame], sizes: T, frame: Frame) -> None:
    if len(frames) >= MOST_FRAMES:
        frames.clear()
    frames[sizes] = frame


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
                sized = each not in notation.narrowed and first not in UNSIZED
                slots.append(Slot(len(parts), value, first, write, sized))
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


def is_soon(raw: bytes) -> bool:
    """Whether a number of seconds has ten digits, and fits 32 bits."""
    return FIRST_SECOND <= int.from_bytes(raw) < LAST_SECOND


def is_soon_in_milliseconds(raw: bytes) -> bool:
    return FIRST_SECOND * 1000 <= int.from_bytes(raw) < LAST_SECOND * 1000


def has_room(raw: bytes) -> bool:
    """Whether the fields of all versions can hold an id: it is not empty, and without NUL."""
    return raw != b"" and b"\0" not in raw


def id_check(token: int) -> Check:
    """Whether other octets have this token of an id too, if they are text of the same size."""
    if token & OF_UUID:
        return lambda raw: JMS_ID.fullmatch(raw) is not None
    if token & JMS:
        return lambda raw: raw.startswith(b"ID:") and JMS_ID.fullmatch(raw) is None
    return lambda raw: not raw.startswith(UNLIKE)


def text_id_check(token: int) -> Check:
    """The same of octets that may be no text."""
    if not token & JMS:
        return is_plain_id
    check = id_check(token)
    return lambda raw: check(raw) and is_text(raw)


def is_plain_id(raw: bytes) -> bool:
    """Whether it is text that does not begin as an id of another kind. Hot."""
    return not raw.startswith(UNLIKE) and (raw.isascii() or is_text(raw))


def id_stand_in(token: int, turn: int, place: int) -> bytes:
    """An id that stands in."""
    if token & OF_UUID:
        return as_jms((LARGE + 10**9 * turn + place).to_bytes(16))
    size = (70, 61)[turn] if token & LONG else (21, 17)[turn]
    return (b"ID:" if token & JMS else b"") + letters(turn, place, size)
