"""Writes one sealed segment: entries of the store, from a position on."""

from pathlib import Path
from typing import NamedTuple, Protocol

from gateway.journal.entries import ALL, Names, Part
from gateway.journal.segments import SegmentWriter
from gateway.journal.tail import Tail

AT_ONCE = 8 << 20
"""Octets of entries that are read at once for a segment."""
PORTION = ALL._replace(entries=2048)


class Job(NamedTuple):
    """Positions from ``start`` to ``end`` (not included) of this journal that may be in the next
    segment, and about how many octets of entries it has at most. ``hurry``: so much waits that it
    should not wait for an idle processor."""

    journal: str
    start: int
    end: int
    octets: int
    hurry: bool = False


class Sealed(NamedTuple):
    """The position up to which entries were looked at, and the name of the segment; "" if there
    were none any more."""

    reached: int
    name: str


class Sealer(Protocol):
    """Writes segments. Raises ``OSError`` and ``JournalError``, and leaves no half segment then."""

    def seal(self, job: Job) -> Sealed: ...

    def close(self) -> None: ...


class LocalSealer:
    """Writes segments of the store in ``data_dir`` into ``directory``, on the thread that calls."""

    def __init__(self, data_dir: Path, directory: Path) -> None:
        self.data_dir = data_dir
        self.directory = directory
        self._tail: Tail | None = None

    def seal(self, job: Job) -> Sealed:
        if self._tail is None:
            self._tail = Tail(self.data_dir)
        writer = SegmentWriter(self.directory, job.journal, job.start)
        try:
            at = job.start
            while at < job.end and writer.octets < job.octets:
                reached = self._fill(writer, self._tail, at, job)
                if reached <= at:
                    break
                at = reached
            made = writer.finish(at)
        except BaseException:
            writer.give_up()
            raise
        return Sealed(at, "" if made is None else made.path.name)

    def _fill(self, writer: SegmentWriter, tail: Tail, at: int, job: Job) -> int:
        """Add some entries from a position on, and return where they end."""
        blocks = tail.blocks(at, job.end, AT_ONCE)
        addresses = tail.addresses()
        origins = {run.origin for block in blocks for run in block.runs}
        names = Names(addresses, tail.publishers(origins))
        for block in blocks:
            if writer.octets >= job.octets:
                break
            start, last = max(at, block.first), min(job.end, block.first + block.count)
            if block.whole:
                writer.add_part(Part(block, start - block.first, last - block.first), names)
                at = last
            else:
                at = self._fill_slowly(writer, tail, start, last, job.octets)
        return at

    def _fill_slowly(
        self, writer: SegmentWriter, tail: Tail, at: int, end: int, octets: int
    ) -> int:
        """The same for entries whose messages stand elsewhere."""
        while at < end and writer.octets < octets:
            portion = tail.read(at, PORTION, end)
            for entry in portion.entries:
                writer.add(entry)
            if portion.next <= at:
                break
            at = portion.next
        return at

    def close(self) -> None:
        if self._tail is not None:
            self._tail.close()
            self._tail = None
