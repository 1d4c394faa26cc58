"""The entries of one address by their offsets: in sealed segments, then in the store."""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from gateway.journal.entries import Portion, Question
from gateway.journal.reader import JournalReader
from gateway.journal.segments import Segment
from gateway.journal.tail import Tail

COLUMNS = ["pos", "stamp", "vhost", "address", "offset"]


class Which(NamedTuple):
    """An address. ``since`` is the commit position from which on its offsets rise by one: an
    event source that was given up and made anew begins again."""

    vhost: str
    address: str
    since: int = 0

    def is_of(self, vhost: str, address: str) -> bool:
        return address == self.address and vhost == self.vhost


class Place(NamedTuple):
    """Where an entry is: its commit position, and its offset."""

    pos: int
    offset: int


class Total(NamedTuple):
    """All entries of an address that there are: how many, the octets of the bodies of those in
    segments, and the first and the last offset."""

    entries: int
    octets: int
    first: int
    last: int


def totals(reader: JournalReader) -> dict[tuple[str, str], Total]:
    """By virtual host and address. Raises ``JournalError``."""
    found: dict[tuple[str, str], Total] = {}

    def add(key: tuple[str, str], more: Total) -> None:
        known = found.get(key)
        if known is not None:
            entries, octets = known.entries + more.entries, known.octets + more.octets
            more = Total(entries, octets, min(known.first, more.first), max(known.last, more.last))
        found[key] = more

    # The store first: what leaves it meanwhile is in a segment before.
    span = None if reader.tail is None else reader.tail.span()
    segments = reader.segments()
    for one in segments:
        with suppress(FileNotFoundError):
            for key, share in one.notes.shares.items():
                add(key, Total(share.entries, share.octets, share.first, share.last))
    if reader.tail is None or span is None:
        return found
    at = max(span.start, segments[-1].end if segments else 0)
    while at < span.end:
        runs, at = reader.tail.runs(at, span.end)
        for run in runs:
            last = run.offset + run.entries - 1
            add(run.address, Total(run.entries, 0, run.offset, last))
    return found


class Offsets:
    """Not for several threads at once. Raises ``JournalError``."""

    def __init__(self, reader: JournalReader) -> None:
        self.reader = reader

    def find(self, which: Which, offset: int = 0, stamp: int = 0) -> Place | None:
        """The first entry whose offset and time are at least these; ``None`` if there is none."""
        # The store first: what leaves it meanwhile is in a segment before.
        tail = self.reader.tail
        span = None if tail is None else tail.span()
        for one in self._segments(which, offset, stamp):
            try:
                found = in_segment(one, which, offset, stamp)
            except FileNotFoundError:
                continue  # retention has removed it
            if found is not None:
                return found
        if tail is None or span is None:
            return None
        sealed = self.reader.overview().sealed
        at = max(span.start, sealed, which.since)
        while at < span.end:
            runs, at = tail.runs(at, span.end)
            for run in runs:
                if run.address != which[:2] or run.offset + run.entries <= offset:
                    continue
                skipped = max(0, offset - run.offset)
                place = Place(run.pos + skipped, run.offset + skipped)
                if not stamp:
                    return place
                found = self._young(tail, which, place.pos, run.pos + run.entries, stamp)
                if found is not None:
                    return found
        return None

    def _young(self, tail: Tail, which: Which, pos: int, end: int, stamp: int) -> Place | None:
        """The first in a range of the store that came at or after a time."""
        question = Question(which.is_of, False)
        while pos < end:
            portion = tail.read(pos, question, end)
            for entry in portion.entries:
                if entry.stamp >= stamp:
                    return Place(entry.pos, entry.offset)
            pos = max(portion.next, pos + 1)
        return None

    def _segments(self, which: Which, offset: int, stamp: int) -> Iterator[Segment]:
        """Those that may have it, in order. Recent entries are wanted most, so looking begins at
        the end and opens no older file than it must."""
        found: list[Segment] = []
        for one in reversed(self.reader.segments()):
            if one.end <= which.since:
                break
            try:
                notes = one.notes
            except FileNotFoundError:
                break
            share = notes.shares.get((which.vhost, which.address))
            if share is None:
                continue
            # In the segment of its first entry there may be others from before.
            if (share.last < offset or notes.newest < stamp) and one.start >= which.since:
                break
            found.append(one)
        return reversed(found)

    def read(self, which: Which, pos: int, question: Question) -> Portion:
        """Entries from a commit position on. A portion may be empty, and have others behind it."""
        return self.reader.read(pos, question._replace(wanted=which.is_of))


def in_segment(segment: Segment, which: Which, offset: int, stamp: int) -> Place | None:
    from gateway.journal.columns import first_of

    start = max(segment.start, which.since)
    for table in segment.tables(start, segment.end, COLUMNS):
        least = {"pos": start, "offset": offset, "stamp": stamp}
        found = first_of(table, which.vhost, which.address, least)
        if found is not None:
            return Place(*found)
    return None
