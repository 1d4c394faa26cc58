"""Conversion by shape: headers that differ in the values of ids, times, texts and numbers alone.

Every real message has an identifier of its own, so a cache by header never helps. What two messages
of one program have in common is the *shape*: the octets around those values, and the kinds of the
values. A shape is converted twice, checked by the inverse, with other values in their place
(*stand-ins*); where each of them is found again in the result, a *plan* writes the result for every
header of the shape, by copying the octets of its values.

What a ``Notation`` takes for a value has the same outcome whatever it is. A value that may change
more than its own place (an id that names its type, a header that has a field in the other version,
a time that is out of range) is left among the octets of the shape, or makes it another shape.
"""

import re
import struct
from collections.abc import Callable, Sequence
from hashlib import md5
from struct import Struct
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from gateway.adapters.core.templates import Check, Place, Template, Templates, is_text, template
from gateway.crossing.references import References

_Q, MOST = Struct(">Q"), (1 << 64) - 1

CLOSE = 0
GROUP = 1 << 16
"""From here on, tokens open a group."""
ID, JMS, LONG, CORRELATION, OF_UUID = 32, 1, 2, 4, 8
"""Tokens of ids, 32 to 47: a text that does not name another type. It begins with "ID:"; has more
than 60 octets; is a correlation id; has a UUID behind "ID:"."""
IDS = range(ID, ID + 16)
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
        """What stands before a group of so many octets, for the token that opens it."""
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
    return UUID(bytes=md5(raw, usedforsecurity=False).digest(), version=3).bytes


TRANSFERS: dict[int, tuple[Write, ...]] = {
    8: (in_milliseconds, in_seconds, in_digits),
    16: (in_hexadecimal, as_urn, as_jms),
    39: (uuid_in,),
}
"""What may become of a value besides itself, by its size."""


# --- plans ----------------------------------------------------------------------------------------


class Slot(NamedTuple):
    """Place among the parts, which value, and how it is written there."""

    at: int
    value: int
    write: Write


class Group(NamedTuple):
    """Place of the size among the parts, and the parts that it counts."""

    at: int
    begin: int
    end: int
    size: Callable[[int], bytes]


class Plan:
    """Writes a header from values: ``parts`` are its octets, with room for values and sizes."""

    __slots__ = ("correlation", "fidelity", "groups", "parts", "slots")

    def __init__(self, parts: list[bytes], slots: list[Slot], groups: list[Group]) -> None:
        self.parts, self.slots, self.groups = parts, slots, groups
        self.correlation = -1
        """Which value is the correlation id, if there is one that may refer to another id."""
        self.fidelity: Any = None

    def filled(self, values: Sequence[bytes]) -> bytes:
        """The header with these values. Hot."""
        parts = self.parts.copy()
        for at, value, write in self.slots:
            parts[at] = write(values[value])
        for at, begin, end, size in self.groups:
            parts[at] = size(len(b"".join(parts[begin:end])))  # faster than a sum
        return b"".join(parts)

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
                parts[slot.at] = slot.write(value)
        plan = Plan(parts, slots, self.groups)
        plan.fidelity = self.fidelity
        if self.correlation >= 0:
            plan.correlation = left.index(self.correlation)
        return plan


def plan_of(notation: Notation, key: Key, sources: list[tuple[int, Write] | bytes]) -> Plan:
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
                slots.append(Slot(len(parts), source[0], both(source[1], write)))
                parts.append(b"")
    return Plan(parts, slots, groups)


def places_in(
    notation: Notation, key: Key, values: list[bytes]
) -> tuple[bytes, list[Place | None]]:
    """The header of a shape with these values, and where each stands in it; ``None`` for one that
    is not written with all of its octets."""
    own: list[tuple[int, Write] | bytes] = list(values)
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


def both(first: Write, then: Write) -> Write:
    return then if first is as_it_is else lambda raw: then(first(raw))


def tokens(key: Key) -> list[int]:
    """Those of the values."""
    return [each for each in key if isinstance(each, int) and CLOSE < each < GROUP]


class Made(NamedTuple):
    """A header that was converted, with values that stood in."""

    given: list[bytes]
    header: bytes
    fidelity: Any
    key: Key
    values: list[bytes]


Convert = Callable[[bytes, str, str], tuple[bytes, Any] | None]
"""Header, exchange and routing key, to the natural form and its fidelity; ``None`` if that says
less than the header."""

HOPS = (("stand-in-exchange", "stand.in.key"), ("e", "k" * 255))
"""Exchange and routing key that stand in, twice."""

MOST_PLANS = 512
MOST_SEEN = 4096
MANY_MISSES, SELDOM = 256, 7
"""After so many headers in turn without a plan, one in eight is looked at."""
WARM = 32
"""How often a shape must come before it has a plan, which costs as much as three conversions."""
LONGEST = 4096
"""Most octets of a header that is looked at."""


class Shapes:
    """The plans from one dialect to another. A peer chooses the shapes: plans are few, and shapes
    without one are counted by a number alone, so that nothing grows."""

    def __init__(
        self, source: Notation, reader: Notation, convert: Convert, references: References
    ) -> None:
        self._source, self._reader, self._convert = source, reader, convert
        self._references = references
        self._plans: dict[Key, Plan | None] = {}
        self._seen: dict[int, int] = {}
        self._misses = 0
        self._templates: Templates[Plan] = Templates()
        """Headers that came and had a plan: those of their size need not be scanned."""
        self.warm = WARM

    def filled(self, header: bytes, exchange: str, key: str) -> tuple[bytes, Any] | None:
        """The header in the other dialect and the fidelity, if there is a plan for it. Hot."""
        size = len(header)
        if size > LONGEST:
            return None
        try:
            known = self._templates.get(size)
            if known is not None:
                own = known.values(header)
                if own is not None:
                    return self._written(known.found, own, exchange, key)
            self._misses += 1
            if self._misses > MANY_MISSES and self._misses & SELDOM:
                return None
            scanned = self._source.scan(header)
            if scanned is None:
                return None
            shape, values = scanned
            plan = self._plans.get(shape)
            if plan is None:
                plan = self._planned(shape)
                if plan is None:
                    return None
            self._misses = 0
            self._templates.keep(header, lambda: self._template(header, shape, values, plan))
            return self._written(plan, values, exchange, key)
        except UNREAD:
            return None

    def _written(
        self, plan: Plan, values: Sequence[bytes], exchange: str, key: str
    ) -> tuple[bytes, Any] | None:
        """Hot."""
        if plan.correlation >= 0 and len(self._references):
            text = values[plan.correlation].decode()
            if self._references.get(text, self._references.get(f"ID:{text}")) is not None:
                return None
        return plan.filled((*values, exchange.encode(), key.encode())), plan.fidelity

    def _template(
        self, header: bytes, shape: Key, values: list[bytes], plan: Plan
    ) -> Template[Plan] | None:
        """The template of a header of this shape, with its values: for others that have values of
        the same sizes in the same places."""
        octets, found = places_in(self._source, shape, values)
        if octets != header or (plan.correlation >= 0 and found[plan.correlation] is None):
            return None
        fixed = [
            value if place is None else None for place, value in zip(found, values, strict=True)
        ]
        return template(
            header, [each for each in found if each is not None], plan.with_fixed(fixed)
        )

    def _planned(self, shape: Key) -> Plan | None:
        """The plan of a shape that was not there yet."""
        if shape in self._plans:
            return None
        number = hash(shape)
        count = self._seen.get(number, 0) + 1
        if count < self.warm:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen[number] = count
            return None
        self._seen.pop(number, None)
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        try:
            plan = self._compiled(shape)
        except UNREAD:
            plan = None
        self._plans[shape] = plan
        return plan

    def _compiled(self, shape: Key) -> Plan | None:
        """Convert the shape with other values, twice, and see where they are."""
        if any(self._source.is_closed(each) for each in shape if isinstance(each, bytes)):
            return None
        one, two = self._made(shape, 0), self._made(shape, 1)
        if one is None or two is None or (one.key, one.fidelity) != (two.key, two.fidelity):
            return None
        sources: list[tuple[int, Write] | bytes] = []
        for value, other in zip(one.values, two.values, strict=True):
            source = value if value == other else found(one.given, two.given, value, other)
            if source is None:
                return None
            sources.append(source)
        plan = plan_of(self._reader, one.key, sources)
        if any(plan.filled(made.given) != made.header for made in (one, two)):
            return None
        plan.fidelity = one.fidelity
        for place, token in enumerate(tokens(shape)):
            if token in IDS and token & CORRELATION:
                plan.correlation = place
        return plan

    def _made(self, shape: Key, turn: int) -> Made | None:
        source, narrow = self._source, self._source.is_narrow(shape)
        given = [
            source.stand_in(token, turn, place, narrow) for place, token in enumerate(tokens(shape))
        ]
        as_given: list[tuple[int, Write] | bytes] = list(given)
        header = plan_of(source, shape, as_given).filled([])
        if source.scan(header) != (shape, given):
            return None
        hop = HOPS[turn]
        converted = self._convert(header, *hop)
        if converted is None:
            return None
        looked = self._reader.look(converted[0])
        if looked is None:
            return None
        return Made([*given, *(each.encode() for each in hop)], *converted, *looked)


def found(
    given: list[bytes], others: list[bytes], value: bytes, other: bytes
) -> tuple[int, Write] | None:
    """Which of the values it is, and what became of that, in both."""
    for place, (one, two) in enumerate(zip(given, others, strict=True)):
        if (one, two) == (value, other):
            return place, as_it_is
        transfers = TRANSFERS.get(len(one), ()) if len(one) == len(two) else ()
        for transfer in (*transfers, digest):
            if transfer(one) == value and transfer(two) == other:
                return place, transfer
    return None


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


def id_check(token: int) -> Check:
    """Whether other octets have this token of an id too, if they are text of the same size."""
    if token & OF_UUID:
        return lambda raw: JMS_ID.fullmatch(raw) is not None
    if token & JMS:
        return lambda raw: raw.startswith(b"ID:") and JMS_ID.fullmatch(raw) is None
    return lambda raw: not raw.startswith(UNLIKE)


def text_id_check(token: int) -> Check:
    """The same of octets that may be no text."""
    check = id_check(token)
    return lambda raw: check(raw) and is_text(raw)


def id_stand_in(token: int, turn: int, place: int) -> bytes:
    """An id that stands in."""
    if token & OF_UUID:
        return as_jms((LARGE + 10**9 * turn + place).to_bytes(16))
    size = (70, 61)[turn] if token & LONG else (21, 17)[turn]
    return (b"ID:" if token & JMS else b"") + letters(turn, place, size)
