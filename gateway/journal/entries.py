"""One entry of the journal, and where entries are looked for."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from gateway.broker.store import RecordedRun
from gateway.message import Message
from gateway.store.blocks import Block

MOST_ENTRIES = 1000
MOST_OCTETS = 8 << 20
"""Entries, and octets of them, in one portion that is read."""

MOST_INLINE = 8 << 20
"""Octets of a body above which sealing puts it into a file of its own."""


class JournalError(Exception):
    """The journal cannot be read: it is damaged, or another one than was asked for."""


class Trimmed(JournalError):
    """Entries were asked for that retention has removed. ``start`` is the oldest there is."""

    def __init__(self, wanted: int, start: int) -> None:
        super().__init__(f"the journal begins at position {start}, behind position {wanted}")
        self.wanted = wanted
        self.start = start


class Vanished(JournalError):
    """Entries have left the store while they were looked for: they are in a segment, or trimmed."""


class Publisher(NamedTuple):
    """The connection that has published a message; "" is unknown."""

    protocol: str = ""
    user: str = ""
    connection: str = ""
    client_id: str = ""
    product: str = ""
    product_version: str = ""
    listener: str = ""


NOBODY = Publisher()


class Entry(NamedTuple):
    """``pos`` is the commit position, ``offset`` that at the address, ``stamp`` when the gateway
    took the message, ms since 1970. ``size`` are the octets of its body, which ``message`` lacks if
    it was not asked for, or if it is in the file ``reference`` of the journal's directory.
    ``entered``: if it was forwarded to an upstream, when that began, ms since 1970; ``stamp`` is
    when the upstream had it then. ``written``: when it was on disk, ms since 1970. Both are 0 if
    nobody knows."""

    pos: int
    stamp: int
    vhost: str
    address: str
    offset: int
    publisher: Publisher
    message: Message
    size: int
    reference: str = ""
    entered: int = 0
    written: int = 0


class Span(NamedTuple):
    """The positions from ``start`` up to ``end`` (not included)."""

    start: int
    end: int


class Portion(NamedTuple):
    """Entries in the order of their positions. ``next`` is where to go on; entries before it that
    are missing here do not fit the question, or are gone."""

    entries: list[Entry]
    next: int


class Question(NamedTuple):
    """Which entries are wanted: of addresses for which ``wanted`` says so, with or without their
    bodies, and how many at most."""

    wanted: Callable[[str, str], bool] = lambda vhost, address: True
    bodies: bool = True
    entries: int = MOST_ENTRIES
    octets: int = MOST_OCTETS


ALL = Question()


class Part(NamedTuple):
    """The entries of a block from index ``start`` up to ``end`` (not included)."""

    block: Block
    start: int
    end: int

    def runs(self) -> Iterator[tuple[RecordedRun, int, int, int]]:
        """Its runs, each with the indexes in the block at which its entries begin and end, and the
        offset of the first."""
        at = 0
        for run in self.block.runs:
            begun, at = at, at + run.entries
            first, last = max(begun, self.start), min(at, self.end)
            if first < last:
                yield run, first, last, run.offset + first - begun


class Names(NamedTuple):
    """What the numbers of runs stand for: virtual hosts and addresses, and publishers."""

    addresses: dict[int, tuple[str, str]]
    publishers: dict[int, Publisher]
