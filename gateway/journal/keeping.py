"""Seals older entries and removes those that are too old, beside a running gateway.

Steps that take long run on a thread of their own, and sealing in a process of its own; the loop
only removes rows, in portions.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from gateway.broker.journal import Journal
from gateway.config.journal import JournalSettings
from gateway.journal.entries import JournalError, Question, Span
from gateway.journal.reader import SEGMENTS, JournalReader
from gateway.journal.rewriting import Retention, rewrite
from gateway.journal.sealing import PORTION, Job, Sealer
from gateway.journal.sealing_process import SealingProcess
from gateway.journal.segments import (
    all_segments,
    arrow_is_here,
    list_segments,
    remove_segment,
    span_of,
)
from gateway.journal.tail import Tail

log = logging.getLogger("gateway.journal")

LOOK_SECONDS = 2.0
"""Between two looks at the journal."""
ROWS = 4096
"""Rows removed in one batch of the store: a few milliseconds."""
SLOWLY = 30
"""Looks until the ages and octets of all there is are looked at again."""
BEHIND = 16
"""Segments' worth of entries in the store from which on sealing hurries."""
FIRST = Question(bodies=False, entries=1)


class Due(NamedTuple):
    """What may leave the store: positions, and offsets of event sources by their numbers."""

    positions: Span
    sources: dict[int, Span]


class Keeper:
    """Keeps the journal of a data directory within its settings. ``turn`` is a turn of the loop,
    ``sealer`` makes the ``Sealer`` that writes segments of a data directory into another."""

    def __init__(
        self,
        journal: Journal,
        settings: JournalSettings,
        data_dir: Path,
        turn: Callable[[], AbstractContextManager[None]],
        sealer: Callable[[Path, Path], Sealer] = SealingProcess,
    ) -> None:
        self.journal = journal
        self.settings = settings
        self.data_dir = data_dir
        self.directory = settings.directory or data_dir / SEGMENTS
        self.failures = 0
        """Looks that have failed."""
        self.failing = ""
        """Why the last look failed; "" if it did not."""
        self.sealing = settings.seal and arrow_is_here()
        self.rounds = 0
        self._turn = turn
        self._pool = ThreadPoolExecutor(1, "journal")
        self._sealer = sealer(data_dir, self.directory)
        self._tail: Tail | None = None
        self.retention = Retention(settings)
        self._reader = JournalReader(None, self.directory)
        """Knows the notes of the segments."""
        self._rewriting = False
        """Whether more segments must be written anew."""
        self._tidy()
        recorded = any(one.record for one in settings.recording)
        if self.retention.rules and not self.sealing:
            log.warning(
                "without sealing, which needs pyarrow, entries of an address with a retention of"
                " its own are removed when all before them are"
            )
        if settings.seal and recorded and not self.sealing:
            log.warning(
                "the journal stays in the store: sealing needs pyarrow (pip install"
                " 'amqp-gateway[journal]')"
            )

    def take_settings(self) -> None:
        """Use the times and sizes of the settings as they are now."""
        self.retention = Retention(self.settings)

    def _tidy(self) -> None:
        """Remove the files that an earlier process has not finished."""
        if self.directory.is_dir():
            for path in self.directory.glob("*.part"):
                path.unlink(missing_ok=True)
            last = {one.path for one in list_segments(self.directory)}
            for one in all_segments(self.directory):
                if one.path not in last:
                    one.path.unlink(missing_ok=True)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.journal.id:
                await self.look()

    async def look(self) -> None:
        """Seal, trim and remove the entries that are due."""
        loop = asyncio.get_running_loop()
        try:
            await self._trim(await loop.run_in_executor(self._pool, self._work))
        except (OSError, JournalError) as error:
            if str(error) != self.failing:
                log.error("the journal cannot be sealed or trimmed: %s", error)
            self.failing = str(error)
            self.failures += 1
        else:
            self.failing = ""
        self.rounds += 1

    async def _trim(self, due: Due) -> None:
        """Remove rows from the store in portions, and the index at last: what a crash leaves is
        found by it."""
        first, end = due.positions
        if first >= end:
            return
        for number, (start, behind) in due.sources.items():
            for at in range(start, behind, ROWS):
                with self._turn():
                    self.journal.release(number, min(at + ROWS, behind) - 1)
                await asyncio.sleep(0)
        while first < end:
            last = min(end, first + ROWS) - 1
            with self._turn():
                self.journal.remove(first, last)
            first = last + 1
            await asyncio.sleep(0)
        with self._turn():
            self.journal.trim(end)

    async def close(self) -> None:
        self._sealer.close()
        self._pool.shutdown(wait=True)
        self._reader.close()
        if self._tail is not None:
            self._tail.close()

    # --- on the thread --------------------------------------------------------------------------

    def _work(self) -> Due:
        """Seal what is due; the rest is for the loop."""
        if self._tail is None:
            self._tail = Tail(self.data_dir)
        tail = self._tail
        while self.sealing and self._seal(tail):
            pass
        self._retire(tail)
        gone = span_of(list_segments(self.directory)).end
        if not self.sealing and self.rounds % SLOWLY == 0:
            gone = max(gone, self._outdated(tail))
        positions = tail.batches(max(gone, self._first(tail)))
        return Due(positions, self._source_rows(tail, *positions))

    def _source_rows(self, tail: Tail, start: int, end: int) -> dict[int, Span]:
        """The offsets that event sources have in a range of positions, by their numbers."""
        found: dict[int, Span] = {}
        while start < end:
            runs, start = tail.runs(start, end)
            for run in runs:
                if run.source:
                    known = found.get(run.number, Span(run.offset, 0))
                    found[run.number] = Span(known.start, run.offset + run.entries)
        return found

    def _first(self, tail: Tail) -> int:
        """The position of the oldest entry that there is: event sources have let go of others."""
        start, end = tail.span()
        start = max(start, span_of(list_segments(self.directory)).end)
        while start < end:
            portion = tail.read(start, FIRST)
            if portion.entries:
                return portion.entries[0].pos
            if portion.next <= start:
                break
            start = portion.next
        return start

    def _seal(self, tail: Tail) -> bool:
        """Write one segment, if enough has come. Whether there may be another."""
        settings = self.settings
        head = tail.head()
        span = tail.span()
        start = max(span.start, span_of(list_segments(self.directory)).end)
        waiting = span.end - start
        if head is None or waiting <= 0:
            return False
        full = waiting >= settings.segment_messages
        if not full and self._age(tail, start) < settings.seal_seconds:
            large = waiting >= ROWS and tail.octets() >= settings.segment_octets
            if not large:
                return False
        end = min(span.end, start + settings.segment_messages)
        octets = tail.octets() * waiting // (span.end - span.start)  # others are sealed already
        hurry = (
            waiting > BEHIND * settings.segment_messages
            or octets > BEHIND * settings.segment_octets
        )
        job = Job(head.id, start, end, settings.segment_octets, hurry)
        reached, made = self._sealer.seal(job)
        if made:
            log.debug("sealed %s", made)
        return bool(made) and reached < span.end and full

    def _age(self, tail: Tail, start: int) -> float:
        """Seconds since the oldest entry there came."""
        found = tail.read(start, FIRST).entries
        return time.time() - found[0].stamp / 1000 if found else 0.0

    def _retire(self, tail: Tail) -> None:
        """Remove segments that are too old, or too many, and write one anew without addresses that
        are too old in it."""
        left = tail.span().start
        segments = self._reader.segments()
        octets = sum(one.octets for one in segments)
        # One whose entries are still in the store would be sealed again.
        while segments and octets > self.settings.keep_octets and segments[0].end <= left:
            octets -= segments[0].octets
            remove_segment(segments.pop(0))
        if not self._rewriting and self.rounds % SLOWLY:
            return
        self._rewriting = False
        for one in self.retention.outdated(segments, time.time()):
            if one.segment.end > left:
                break
            if one.whole:
                remove_segment(one.segment)
            elif self._rewriting:
                break  # in the next look
            else:
                self._rewriting = True
                rewrite(one)

    def _outdated(self, tail: Tail) -> int:
        """Without sealing: the position up to which the store has too old entries, or too many."""
        now = time.time()
        excess = tail.octets() - self.settings.keep_octets
        at, end = tail.span()
        question = PORTION._replace(bodies=False)
        while at < end:
            portion = tail.read(at, question)
            for entry in portion.entries:
                keep = self.retention.of((entry.vhost, entry.address))
                if entry.stamp >= (now - keep.seconds) * 1000 and excess <= 0:
                    return entry.pos
                excess -= entry.size + len(entry.message.header)
            if portion.next <= at:
                break
            at = portion.next
        return at
