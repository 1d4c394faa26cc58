"""Seals older entries and removes those that are too old, beside a running gateway.

What takes long runs on a thread of its own; the loop only removes rows, in portions.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from gateway.broker.journal import Journal
from gateway.config.journal import JournalSettings
from gateway.journal.entries import ALL, JournalError, Question, Span
from gateway.journal.reader import SEGMENTS
from gateway.journal.segments import (
    SegmentWriter,
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
PORTION = ALL._replace(entries=2048)
FIRST = Question(bodies=False, entries=1)


class Keeper:
    """Keeps the journal of a data directory within its settings. ``turn`` is a turn of the loop."""

    def __init__(
        self,
        journal: Journal,
        settings: JournalSettings,
        data_dir: Path,
        turn: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.journal = journal
        self.settings = settings
        self.data_dir = data_dir
        self.directory = settings.directory or data_dir / SEGMENTS
        self.failing = ""
        """Why the last look failed; "" if it did not."""
        wanted = settings.seal and any(one.record for one in settings.recording)
        self.sealing = wanted and arrow_is_here()
        self.rounds = 0
        self._turn = turn
        self._pool = ThreadPoolExecutor(1, "journal")
        self._tail: Tail | None = None
        self._tidy()
        if wanted and not self.sealing:
            log.warning(
                "the journal stays in the store: sealing needs pyarrow (pip install"
                " 'amqp-gateway[journal]')"
            )

    def _tidy(self) -> None:
        """Remove the files that an earlier process has not finished."""
        if self.directory.is_dir():
            for path in self.directory.glob("*.part"):
                path.unlink(missing_ok=True)

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
            trimming = await loop.run_in_executor(self._pool, self._work)
            await self._trim(trimming)
        except (OSError, JournalError) as error:
            if str(error) != self.failing:
                log.error("the journal cannot be sealed or trimmed: %s", error)
            self.failing = str(error)
        else:
            self.failing = ""
        self.rounds += 1

    async def _trim(self, trimming: Span) -> None:
        """Remove rows from the store in portions, and the index at last: what a crash leaves is
        found by it."""
        first, end = trimming
        if first >= end:
            return
        while first < end:
            last = min(end, first + ROWS) - 1
            with self._turn():
                self.journal.remove(first, last)
            first = last + 1
            await asyncio.sleep(0)
        with self._turn():
            self.journal.trim(end)

    async def close(self) -> None:
        self._pool.shutdown(wait=True)
        if self._tail is not None:
            self._tail.close()

    # --- on the thread --------------------------------------------------------------------------

    def _work(self) -> Span:
        """The positions that may leave the store."""
        if self._tail is None:
            self._tail = Tail(self.data_dir)
        tail = self._tail
        while self.sealing and self._seal(tail):
            pass
        self._retire(tail)
        gone = span_of(list_segments(self.directory)).end
        if not self.sealing and self.rounds % SLOWLY == 0:
            gone = max(gone, self._outdated(tail))
        return tail.batches(max(gone, self._first(tail)))

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
        writer = SegmentWriter(self.directory, head.id, start)
        try:
            at = start
            while at < end and writer.octets < settings.segment_octets:
                portion = tail.read(at, PORTION, end)
                for entry in portion.entries:
                    writer.add(entry)
                if portion.next <= at:
                    break
                at = portion.next
            made = writer.finish(at)
        except BaseException:
            writer.give_up()
            raise
        if made is not None:
            log.debug("sealed %s", made.path.name)
        return made is not None and at < span.end and full

    def _age(self, tail: Tail, start: int) -> float:
        """Seconds since the oldest entry there came."""
        found = tail.read(start, FIRST).entries
        return time.time() - found[0].stamp / 1000 if found else 0.0

    def _retire(self, tail: Tail) -> None:
        """Remove segments that are too old, or too many."""
        segments = list_segments(self.directory)
        left = tail.span().start
        octets = sum(one.octets for one in segments)
        if octets > self.settings.keep_octets or self.rounds % SLOWLY == 0:
            oldest = (time.time() - self.settings.keep_seconds) * 1000
            # One whose entries are still in the store would be sealed again.
            for one in [one for one in segments if one.end <= left]:
                with suppress(FileNotFoundError):
                    if octets <= self.settings.keep_octets and one.notes.newest >= oldest:
                        break
                octets -= one.octets
                remove_segment(one)
            for one in segments:
                one.close()

    def _outdated(self, tail: Tail) -> int:
        """Without sealing: the position up to which the store has too old entries, or too many."""
        oldest = (time.time() - self.settings.keep_seconds) * 1000
        excess = tail.octets() - self.settings.keep_octets
        at, end = tail.span()
        question = PORTION._replace(bodies=False)
        while at < end:
            portion = tail.read(at, question)
            for entry in portion.entries:
                if entry.stamp >= oldest and excess <= 0:
                    return entry.pos
                excess -= entry.size + len(entry.message.header)
            if portion.next <= at:
                break
            at = portion.next
        return at
