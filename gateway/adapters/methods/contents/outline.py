"""The essentials of encoded properties of any class of content, without decoding the rest.

As ``methods/essentials.py`` does for the basic properties: which property stands where is worked
out once for each word of flags.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.methods.contents.tables import FieldTables
from gateway.adapters.methods.essentials import EPOCH_LIMIT, PERSISTENT, BadExpiration, expiration
from gateway.adapters.methods.geometry import Content
from gateway.adapters.record import annotations, short
from gateway.message import Essentials


class Known(NamedTuple):
    """One header, in one copy for all messages that have it. ``end``: where its own properties do;
    child contents follow."""

    header: bytes
    essentials: Essentials
    destination: str
    end: int


PASS, PASS_TEXT, TABLE, MODE, PRIORITY, DESTINATION, EXPIRATION, USER, ABSENT = range(9)
"""The action at a property: step over octets, or over a text, or read. ``ABSENT``: the destination
would stand here."""

WANTED = {
    "headers": TABLE,
    "delivery_mode": MODE,
    "priority": PRIORITY,
    "destination": DESTINATION,
    "expiration": EXPIRATION,
    "user_id": USER,
}

Step = tuple[int, int]
"""Action, and octets: of the value, or of the length before a table."""


class Layout(NamedTuple):
    """Where ``places`` are in all headers with these flags and the same octets of lengths."""

    lengths: Callable[[bytes], Any]
    expected: Any
    places: tuple[int, int, int]


class Outline:
    """Where the properties of one class of content stand."""

    def __init__(self, content: Content, tables: FieldTables) -> None:
        self._check_table = tables.check
        self._steps: list[Step] = [
            step(content, name, str(kind)) for name, kind in annotations(content.record).items()
        ]
        self._unknown = 0xFFFF >> len(self._steps)
        self._plans: BoundedCache[bytes, tuple[Step, ...]] = BoundedCache()
        self._places: BoundedCache[bytes, tuple[Step, ...]] = BoundedCache()
        destined = (0x8000 >> at for at, (kind, _) in enumerate(self._steps) if kind == DESTINATION)
        self._destined = next(destined, 0)
        """The flag of the destination."""
        self._layouts: BoundedCache[tuple[bytes, int], Layout | None] = BoundedCache()
        """By flags and size. ``None``: the last header had another layout than the one before, or
        was the first."""
        self._flagged: BoundedCache[bytes, bytes] = BoundedCache()
        """Flags with that of the destination, by those a header has."""
        self._shorts: BoundedCache[str, bytes] = BoundedCache()
        """Destinations as they are written."""

    def plan(self, flags: bytes) -> tuple[Step, ...]:
        """The properties that these flags name. Raises ``ValueError`` for others."""
        number = int.from_bytes(flags, "big")
        if len(flags) < 2:
            raise ValueError("the properties are cut short")
        if number & self._unknown:
            raise ValueError(f"flags {number:04x} name unknown properties")
        steps = tuple(step for at, step in enumerate(self._steps) if number & 0x8000 >> at)
        return self._plans.keep(flags, steps)

    def read(self, header: bytes) -> Known:
        """Raises ``ValueError``. Warm: steps over the others, checking lengths and tags.
        Behind the properties anything may stand."""
        header = one_word(header)
        flags = header[:2]
        try:
            return self._walk(header, self._plans.get(flags) or self.plan(flags))
        except IndexError as error:
            raise ValueError("the properties are cut short") from error

    def _walk(self, header: bytes, steps: tuple[Step, ...]) -> Known:
        at, size, destination = 2, len(header), ""
        durable, priority, ttl, user, headers = False, None, None, None, False
        for kind, width in steps:
            if kind == PASS_TEXT:
                at += 1 + header[at]
            elif kind == PASS:
                at += width
            elif kind == TABLE:
                start = at + width
                at = start + int.from_bytes(header[at:start], "big")
                if at > size:
                    raise ValueError("the headers run past the properties")
                self._check_table(header[start:at])
                headers = at > start
            elif kind == MODE:
                durable = header[at] == PERSISTENT
                at += 1
            elif kind == PRIORITY:
                priority = header[at]
                at += 1
            else:
                start, at = at + 1, at + 1 + header[at]
                text = header[start:at].decode("utf-8", "surrogateescape")
                if kind == DESTINATION:
                    destination = text
                elif kind == EXPIRATION:
                    ttl = time_to_live(text)
                else:
                    user = text or None
        if at > size:
            raise ValueError("the properties are cut short")
        if ttl is not None and ttl > EPOCH_LIMIT:
            ttl = None
        return Known(header, Essentials(durable, priority, ttl, user, headers), destination, at)

    def places(self, header: bytes) -> tuple[int, int, int]:
        """Where the destination begins and ends in a header that is known to be good, and where the
        properties end. Hot."""
        flags = header[:2]
        shape = flags, len(header)
        layout = self._layouts.get(shape)
        if layout is not None and layout.lengths(header) == layout.expected:
            return layout.places
        begin = end = 0
        at = 2
        lengths = [0]  # of the flags, so that there is one at least
        for kind, width in self._places.get(flags) or self._placed(flags):
            if kind == PASS_TEXT:
                lengths.append(at)
                at += 1 + header[at]
            elif kind == PASS:
                at += width
            elif kind == TABLE:
                start = at + width
                lengths += range(at, start)
                at = start + int.from_bytes(header[at:start], "big")
            else:
                begin = at
                if kind == DESTINATION:
                    lengths.append(at)
                    at += 1 + header[at]
                end = at
        if layout is None and shape in self._layouts:
            found = itemgetter(*lengths)
            self._layouts[shape] = Layout(found, found(header), (begin, end, at))
        else:
            self._layouts.keep(shape, None)
        return begin, end, at

    def _placed(self, flags: bytes) -> tuple[Step, ...]:
        """The steps of ``places`` for these flags."""
        number = int.from_bytes(flags, "big")
        found: list[Step] = []
        for at, (kind, width) in enumerate(self._steps):
            if number & 0x8000 >> at:
                if kind in (MODE, PRIORITY):
                    kind = PASS
                elif kind in (EXPIRATION, USER):
                    kind = PASS_TEXT
                found.append((kind, width))
            elif kind == DESTINATION:
                found.append((ABSENT, 0))
        return self._places.keep(flags, tuple(found))

    def sent_to(self, header: bytes, key: str, begin: int, end: int) -> bytes:
        """The header with this destination where it has one, or none. Raises ``ValueError``.
        Hot."""
        raw = self._shorts.get(key)
        if raw is None:
            octets = short(key, "destination")
            raw = self._shorts.keep(key, bytes((len(octets),)) + octets)
        before = header[:2]
        flags = self._flagged.get(before)
        if flags is None:
            number = int.from_bytes(before, "big") | self._destined
            flags = self._flagged.keep(before, number.to_bytes(2, "big"))
        return b"".join((flags, header[2:begin], raw, header[end:]))


def one_word(header: bytes) -> bytes:
    """The header with one word of flags: a further one may follow (0-9a0 §3.5.2, 0-9a6 "Content
    Header Frame Wire Format"), but no class has properties for it. Raises ``ValueError`` if it
    names any, because those cannot be read."""
    if len(header) < 2 or not header[1] & 1:
        return header
    at = 2
    while True:
        word = int.from_bytes(header[at : at + 2], "big")
        if at + 2 > len(header):
            raise ValueError("the property flags are cut short")
        if word & 0xFFFE:
            raise ValueError(f"further flags {word:04x} name unknown properties")
        at += 2
        if not word & 1:
            return bytes((header[0], header[1] & 0xFE)) + header[at:]


def step(content: Content, name: str, kind: str) -> Step:
    """The action at a property; its writer tells how wide it is."""
    empty: dict[str, object] = {"str": "", "bytes": b"", "int": 0}
    value = empty[kind.split(" ")[0]]
    width = len(content.write(content.record(**{name: value}))) - 2
    return WANTED.get(name, PASS_TEXT if value == "" else PASS), width


def time_to_live(text: str | None) -> int | None:
    """Milliseconds; these peers write "0" and "" for messages that never expire. Text that is no
    number is none."""
    try:
        return expiration(text or None) or None
    except BadExpiration:
        return None
