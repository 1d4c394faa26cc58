"""The changes of one turn: plain dicts, written by ``write`` as one transaction.

A batch is filled on the loop thread, frozen by ``take`` and read-only from then on. The order of
changes is resolved while gathering, so the database applies purges first, then removals, then
messages.
"""

from bisect import bisect
from collections import defaultdict
from typing import Literal

from gateway.broker.store import PackedEntries, Recorded, WireEntries
from gateway.message import Message

SHIFT = 40
"""Messages are rows with the key ``queue << 40 | position``: 8 million queue numbers, and 127 days
of 100 000 messages a second before one queue runs out of positions."""
POSITIONS = 1 << SHIFT
QUEUES = 1 << (63 - SHIFT)

SHARE_FROM = 1024
"""Minimum body size, in octets, for one stored copy to serve several queues. Below it, a reference
(a row, an index entry, a lookup on read) costs as much as a copy."""


Put = tuple[Message, int | None, bool, bytes | None]
"""An appended message: the message, its expiry, whether it is durable, and its added headers, which
are encoded at once because the broker may change them. A plain tuple, since one is created per
message."""


def waiting(message: Message) -> int:
    """Octets of a body that are buffered in memory until written; 0 for a large body, which is in a
    file."""
    body = message.body
    return len(body) if isinstance(body, bytes) else 0


UNDER: Literal[False] = False
"""In place of a record's value: delete all records with this key prefix."""

Ranges = list[tuple[int, int]]
"""First and last positions."""


def joined(ranges: Ranges) -> Ranges:
    """The ranges in order, with overlapping and adjacent ones merged."""
    found: Ranges = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def within(ranges: Ranges, position: int) -> bool:
    """Whether a position is in one of the ranges, which are ``joined``."""
    at = bisect(ranges, (position, POSITIONS))
    return at > 0 and position <= ranges[at - 1][1]


SHORT_RUN = 64
"""Minimum length of a run of positions that is deleted by a range statement."""


class Gathered:
    """One batch. ``records`` are in the order in which they were saved or deleted. The writing
    thread sets ``written`` when the batch is durable."""

    __slots__ = (
        "mark", "puts", "cuts", "ranges", "purged", "dropped", "records", "delivered", "written",
        "bodies", "octets", "waiting", "recorded", "packed", "awaited",
    )  # fmt: skip

    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.puts: dict[int, dict[int, Put]] = {}
        self.cuts: defaultdict[int, set[int]] = defaultdict(set)
        self.ranges: defaultdict[int, Ranges] = defaultdict(list)
        """Further removals: ranges from a first to a last position."""
        self.purged: set[int] = set()
        self.dropped: set[int] = set()
        """Queue numbers that are no longer used; their messages are removed later."""
        self.records: dict[tuple[str, str], str | Literal[False] | None] = {}
        self.delivered: dict[int, int] = {}
        self.written = False
        self.bodies: dict[int, int] = {}
        """Number of the shared body by ``id(message)``; a retried write uses the same number."""
        self.waiting = 0
        """Octets of bodies that are in memory until it is written, counted when it is taken."""
        self.octets: dict[int, bytearray] = {}
        """By key: rows that are no messages, durable as these are."""
        self.recorded: Recorded | None = None
        self.packed: list[PackedEntries | WireEntries] = []
        """Entries of the journal."""
        self.awaited = False
        """Whether some of the packed entries are of durable messages."""

    def __bool__(self) -> bool:
        return bool(
            self.puts
            or self.cuts
            or self.ranges
            or self.purged
            or self.dropped
            or self.records
            or self.delivered
            or self.octets
            or self.recorded
            or self.packed
        )

    @property
    def packed_only(self) -> bool:
        """Whether the batch has only packed entries of the journal, of transient messages."""
        return bool(self.packed) and not (
            self.awaited
            or self.puts
            or self.cuts
            or self.ranges
            or self.purged
            or self.dropped
            or self.records
            or self.octets
            or self.recorded
        )

    @property
    def marks_only(self) -> bool:
        """Whether the batch has only delivered marks, which are written without a sync."""
        return not (
            self.puts
            or self.cuts
            or self.ranges
            or self.purged
            or self.records
            or self.octets
            or self.recorded
            or self.packed
        )

    def drop_queue(self, queue: int) -> int:
        """Discard pending changes of a purged queue. Returns the octets of the discarded bodies."""
        puts = self.puts.pop(queue, {})
        self.cuts.pop(queue, None)
        self.ranges.pop(queue, None)
        self.delivered.pop(queue, None)
        return sum(waiting(put[0]) for put in puts.values())

    def shared(self) -> set[int]:
        """``id`` of each durable message that is in several queues and has a body of at least the
        shared size, or is in the journal and has a body apart."""
        recorded = self.recorded
        twice: set[int] = set()
        if recorded is not None and recorded.apart:
            twice = {id(recorded.messages[at]) for at in recorded.apart}
        if len(self.puts) < 2:
            return twice
        once: set[int] = set()
        for puts in self.puts.values():
            for message, _, keep, _ in puts.values():
                if keep and len(message.body) >= SHARE_FROM:
                    which = id(message)
                    (twice if which in once else once).add(which)
        return twice

    def removals(self) -> tuple[list[tuple[int, int]], list[int]]:
        """Keys to delete: long runs as (first, last), all others one by one."""
        runs = [
            ((queue << SHIFT) + first, (queue << SHIFT) + last)
            for queue, ranges in self.ranges.items()
            for first, last in ranges
        ]
        singles: list[int] = []
        for queue, positions in self.cuts.items():
            ordered = sorted(positions)
            base = queue << SHIFT
            if ordered[-1] - ordered[0] + 1 == len(ordered):
                runs_here = [(ordered[0], ordered[-1])]
            else:
                runs_here = _runs(ordered)
            for first, last in runs_here:
                if last - first < SHORT_RUN:
                    singles.extend(range(base + first, base + last + 1))
                else:
                    runs.append((base + first, base + last))
        return runs, singles


def _runs(ordered: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    first = last = ordered[0]
    for position in ordered[1:]:
        if position != last + 1:
            found.append((first, last))
            first = position
        last = position
    found.append((first, last))
    return found
