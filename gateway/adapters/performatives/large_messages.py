"""Messages that are too large for memory, in and out.

In: ``Unpacking`` takes a message apart as its transfers come. The sections before the body and
behind it stay in memory, the payload of the body goes to a file. It knows bodies of data sections,
of sequences, and a value that begins with its length; all others are gathered in memory.

Out: a ``Rope`` is the whole message, of which frames are cut.
"""

from bisect import bisect_right
from typing import Any, NamedTuple, Protocol

from gateway.adapters.performatives.decoding import FieldError
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.sections import (
    DATA,
    DELIVERY,
    FOOTER,
    NO_BODY,
    RAW_SEQUENCE,
    RAW_VALUE,
    SEQUENCE,
    VALUE,
    data_prefix,
    part,
    section,
    section_at,
)
from gateway.bodies import Body, LargeBody, Spool, SpooledBody
from gateway.values import ULong

PORTION = 1 << 20
"""Octets of large messages in one output."""

IN_MEMORY = 128 << 20
"""A message that cannot go to a file has at most so many octets, and so have all of a connection
that are half sent, four times."""

LONGEST_START = 64
"""Octets in which the start of a section must be complete."""

LONGEST_TAIL = 1 << 20
"""Octets of the sections behind the body."""

MOST_SECTIONS = 1 << 16
"""Data sections in one large message."""

_WIDTHS = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
"""Octets of a value by the upper half of its constructor, where these are fixed (§1.6)."""


class NotStored(Exception):
    """The message cannot be stored; the text has the reason."""


class SpooledMessage(NamedTuple):
    """A large message, taken apart; or the error that it has instead."""

    header: bytes
    body: LargeBody | None
    error: Exception | None = None

    def parts(self) -> tuple[bytes, LargeBody]:
        """Raises ``FieldError`` and ``NotStored``."""
        if self.error is not None or self.body is None:
            raise self.error or FieldError("the message has no body")
        return self.header, self.body


class Unpacking:
    """A large message that is coming in."""

    __slots__ = ("head", "tail", "spooled", "code", "_prefixes", "_left", "_rest", "_late")

    def __init__(self, head: bytes, code: int, spooled: SpooledBody) -> None:
        self.head = head
        self.tail = b""
        self.spooled = spooled
        self.code = code
        self._prefixes: list[Any] = []
        self._left = 0
        """Octets of the body section that is coming in."""
        self._rest = b""
        """The start of a section, of which more must come."""
        self._late = False

    def add(self, octets: bytes) -> None:
        """Add the next octets. Raises ``FieldError`` and ``OSError``."""
        at, end = 0, len(octets)
        while at < end:
            if self._left:
                stop = min(at + self._left, end)
                self.spooled.add(octets[at:stop])
                self._left -= stop - at
                at = stop
            elif self._late:
                self.tail += octets[at:]
                if len(self.tail) > LONGEST_TAIL:
                    raise FieldError(f"more than {LONGEST_TAIL} octets behind the body")
                return
            else:
                octets, at = self._rest + octets[at:], 0
                begun = self._begin(octets)
                if begun is None:
                    self._rest = octets
                    return
                self._rest, at, end = b"", begun, len(octets)

    def _begin(self, octets: bytes) -> int | None:
        """The next section; how many octets of it have been dealt with, ``None`` if too few have
        come to tell. Raises ``FieldError``."""
        try:
            code, start = section_at(octets, 0, len(octets))
            if code in (FOOTER, DELIVERY):
                self._late = True
                return 0
            if code != self.code or (code == VALUE and self._prefixes):
                raise Invalid("a body is made of sections of one kind")
            inner, size = body_extent(octets, code, start)
        except Invalid:
            raise
        except (FieldError, IndexError):
            if len(octets) < LONGEST_START:
                return None
            raise
        if len(self._prefixes) >= 2 * MOST_SECTIONS:
            raise FieldError(f"a large message of more than {MOST_SECTIONS} sections")
        if code == DATA:
            self._prefixes += [octets[:inner], ULong(size)]
            self._left = size
            return inner
        self._prefixes = [b"", ULong(0)]
        self._left = inner + size
        return 0

    def finish(self) -> SpooledMessage:
        """All of it has come. Raises ``FieldError`` and ``OSError``."""
        if self._left or self._rest:
            raise FieldError("a section is cut short")
        header, _ = part(self.head + self.tail)
        return SpooledMessage(self._form() + header.removeprefix(NO_BODY), self.spooled.finish())

    def _form(self) -> bytes:
        if self.code != DATA:
            return RAW_SEQUENCE if self.code == SEQUENCE else RAW_VALUE
        prefixes = self._prefixes
        if len(prefixes) == 2 and prefixes[0] == data_prefix(prefixes[1]):
            return b""
        return b"\x00\x53\x75" + write_value(prefixes)


class Invalid(FieldError):
    """More octets cannot make it valid."""


def body_extent(octets: bytes, code: int, start: int) -> tuple[int, int]:
    """Where the payload of a body section begins, and its octets. Raises ``IndexError`` if too few
    have come, ``FieldError`` if it cannot be told."""
    kind = octets[start]
    if code == DATA and kind not in (0xA0, 0xB0):
        raise Invalid(f"section data holds constructor {kind:#04x}")
    if code == SEQUENCE and kind not in (0x45, 0xC0, 0xD0):
        raise Invalid(f"section amqp-sequence holds constructor {kind:#04x}")
    upper = kind >> 4
    if upper in (0xA, 0xC, 0xE):
        return start + 2, octets[start + 1]
    if upper in (0xB, 0xD, 0xF):
        octets[start + 4]  # or too few
        return start + 5, int.from_bytes(octets[start + 1 : start + 5], "big")
    if upper in _WIDTHS:
        return start + 1, _WIDTHS[upper]
    raise Invalid(f"a value with constructor {kind:#04x} has no length")


def unpack(octets: bytes, spool: Spool) -> Unpacking | None:
    """Begin to take a message apart whose first octets these are; ``None`` if it has to stay in
    memory. Raises ``FieldError`` and ``OSError``."""
    at, end = 0, len(octets)
    try:
        code, start = section_at(octets, at, end)
        while code < DATA:
            _, _, at = section(octets, at, end)
            code, start = section_at(octets, at, end)
        if code > VALUE:
            return None
        body_extent(octets, code, start)
    except (FieldError, IndexError):
        return None
    spooled = spool.start()
    if spooled is None:
        return None
    unpacking = Unpacking(octets[:at], code, spooled)
    unpacking.add(octets[at:])
    return unpacking


class Rope:
    """Octets of a whole message, in pieces."""

    __slots__ = ("pieces", "ends")

    def __init__(self, pieces: list[Body]) -> None:
        self.pieces = pieces
        self.ends: list[int] = []
        size = 0
        for piece in pieces:
            size += len(piece)
            self.ends.append(size)

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, wanted: slice) -> bytes:
        """Raises ``OSError``."""
        at, stop, _ = wanted.indices(len(self))
        index = bisect_right(self.ends, at)
        found: list[bytes] = []
        while at < stop:
            end = self.ends[index]
            piece = self.pieces[index]
            begin = end - len(piece)
            found.append(piece[at - begin : min(stop, end) - begin])
            at, index = min(stop, end), index + 1
        return found[0] if len(found) == 1 else b"".join(found)


class StalledSession(Protocol):
    """A session that waits for the socket."""

    def go_on(self) -> None: ...


class Portions:
    """The share of large messages in the next output of a connection, and the sessions that have
    more to write."""

    __slots__ = ("octets", "stalled")

    def __init__(self) -> None:
        self.octets = 0
        self.stalled: dict[StalledSession, None] = {}

    @property
    def full(self) -> bool:
        return self.octets >= PORTION

    def stall(self, session: StalledSession) -> None:
        """Resume the session as soon as the socket has taken that output."""
        self.stalled[session] = None

    def refill(self) -> None:
        """The socket has taken it: resume the stalled sessions, in turn."""
        self.octets = 0
        stalled, self.stalled = self.stalled, {}
        for session in stalled:
            session.go_on()
