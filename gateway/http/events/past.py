"""The past of durable sources: events that their rings have evicted, read from the journal.

A ring is the recent end of its address in the journal. A reader that is behind it gets portions of
the journal, each as a ring of its own, until it has come up. The journal is read on one thread for
all readers, a portion at a time.
"""

import asyncio
import logging
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gateway.http.events.journal import Event, Gap, Journal
from gateway.http.events.views import View
from gateway.http.octets import Octets
from gateway.http.prepared_bodies import HEAVY
from gateway.journal.by_offset import Offsets, Place, Which
from gateway.journal.entries import Entry, JournalError, Portion, Question, Trimmed
from gateway.journal.reader import JournalReader
from gateway.message import Essentials, Message
from gateway.store.large import opened_body

log = logging.getLogger("gateway.http")

PORTION = Question(entries=1000, octets=1 << 20)
"""Entries, and octets of their bodies, that a reader has in memory at once, or one entry."""
AGAIN = 3
"""Times that a place is looked for that was removed meanwhile."""


class PastClosed(Exception):
    """The gateway stops: nobody learns more of the past."""


class Past:
    """The journal, for all readers of event streams. Raises ``PastClosed`` once it is closed."""

    def __init__(self, make: Callable[[], JournalReader]) -> None:
        self._make = make
        self.closed = False
        self._pool = ThreadPoolExecutor(1, "journal-past")
        self._reader: JournalReader | None = None

    async def find(self, which: Which, offset: int = 0, stamp: int = 0) -> Place | None:
        """Where the first entry is whose offset and time are at least these."""
        if self.closed:
            raise PastClosed
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._find, which, offset, stamp)

    async def read(self, which: Which, pos: int) -> tuple[Portion, list[Event]]:
        """Entries from a commit position on, and their events."""
        if self.closed:
            raise PastClosed
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._read, which, pos)

    async def close(self) -> None:
        self.closed = True
        self._pool.shutdown(wait=True)
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # --- on the thread --------------------------------------------------------------------------

    def _opened(self) -> JournalReader:
        if self._reader is None:
            self._reader = self._make()
        return self._reader

    def _find(self, which: Which, offset: int, stamp: int) -> Place | None:
        return Offsets(self._opened()).find(which, offset, stamp)

    def _read(self, which: Which, pos: int) -> tuple[Portion, list[Event]]:
        reader = self._opened()
        portion = Offsets(reader).read(which, pos, PORTION)
        return portion, [self._event(reader, one) for one in portion.entries]

    def _event(self, reader: JournalReader, entry: Entry) -> Event:
        message = entry.message
        if entry.reference:
            try:
                message.body = opened_body(reader.directory / entry.reference)
            except OSError as error:
                raise JournalError(f"{reader.directory / entry.reference}: {error}") from error
        message.essentials = essentials_of(message)
        return Event(message, False, entry.stamp, message.size)


def essentials_of(message: Message) -> Essentials:
    """Selectors read them."""
    try:
        return message.dialect.essentials(message.header)
    except (ValueError, LookupError, struct.error):
        return Essentials(durable=True)


class History:
    """The events of one source that the journal has. ``oldest`` is the position from which on it
    is known to have them; ``None``: of none behind the ring."""

    def __init__(self, past: Past, which: Which, ring: Journal) -> None:
        self.past = past
        self.which = which
        self.ring = ring
        self.oldest: int | None = None

    @property
    def reach(self) -> int:
        """The oldest position that can be read, as far as is known."""
        first = self.ring.first
        return first if self.oldest is None else min(first, self.oldest)

    def gap(self, after: int) -> Gap | None:
        """As ``Journal.gap``, with the events behind the ring."""
        ring = self.ring
        if after + 1 >= ring.first:
            return ring.gap(after)
        if after + 1 >= self.reach:
            return None
        end = self.reach - 1
        return Gap(after + 1, end, end - after if after + 1 >= ring.born else None)

    async def has(self, position: int) -> bool:
        """Whether an event can be read. ``reach`` is right for this position then."""
        if position >= self.ring.first:
            return position <= self.ring.head
        place = await self.locate(position)
        return place is not None and place.offset == position

    async def since(self, stamp: int) -> int | None:
        """The position before the first event that came at or after a time, which the ring may
        have evicted; ``None`` if there may have been earlier ones, which are lost."""
        place = await self.locate(0, stamp)
        first = self.ring.first if place is None else place.offset
        if first == self.ring.born or await self.has(first - 1):
            return first - 1
        return None

    async def locate(self, offset: int = 0, stamp: int = 0) -> Place | None:
        """Where the first event is whose position and time are at least these, if it is behind the
        ring."""
        if offset >= self.ring.first:
            return None
        try:
            place = await self.past.find(self.which, offset, stamp)
        except JournalError as error:
            log.error("the journal of %s cannot be read: %s", self.which.address, error)
            place = None
        except PastClosed:
            return None
        if place is None or place.offset >= self.ring.first:
            if not stamp:
                self.oldest = None
            return None
        if place.offset == offset or stamp:
            self.oldest = place.offset if self.oldest is None else min(self.oldest, place.offset)
        else:
            self.oldest = place.offset  # all before it has been removed
        return place


class Backlog:
    """One reader's way through the past of a source. ``part`` are the events that have been read
    for it."""

    def __init__(
        self, history: History, view: View | None, render: Callable[[int, Event], Octets]
    ) -> None:
        self.history = history
        self.part: Journal | None = None
        self.view: View | None = None
        self.heavy: list[int] = []
        """Positions of its large messages."""
        self._shape = view
        self._render = render
        self._pos: int | None = None
        """Commit position from which the next portion is read."""

    def covers(self, position: int) -> bool:
        """Whether the event behind a position is in ``part``, and not in the ring."""
        part = self.part
        if part is None:
            return False
        if position + 1 >= self.history.ring.first:
            self._let_go()
            return False
        return part.first <= position + 1 <= part.head

    def lacks(self, position: int) -> bool:
        """Whether the event behind a position is in neither."""
        return position + 1 < self.history.ring.first and not self.covers(position)

    def _let_go(self) -> None:
        self.part = self.view = self._pos = None
        self.heavy = []

    async def load(self, position: int) -> None:
        """Read the events behind a position. Where some are missing, ``reach`` says so."""
        history = self.history
        following = position + 1 if self.part is None else self.part.head + 1
        pos = self._pos if following == position + 1 else None
        self._let_go()
        for _ in range(AGAIN):
            if pos is None:
                place = await history.locate(position + 1)
                if place is None:
                    return
                pos = place.pos
            try:
                while pos is not None:
                    portion, events = await history.past.read(history.which, pos)
                    if self._fill(position, portion, events):
                        return
                    pos = portion.next if portion.next > pos else None
                    if position + 1 >= history.ring.first:
                        return
            except PastClosed:
                return
            except Trimmed:
                pos = None
            except JournalError as error:
                log.error("the journal of %s cannot be read: %s", history.which.address, error)
                break
        history.oldest = None

    def _fill(self, position: int, portion: Portion, events: list[Event]) -> bool:
        """Make a ring of the events behind a position, up to the first that is missing. Returns
        whether there are any."""
        history = self.history
        part: Journal | None = None
        for entry, event in zip(portion.entries, events, strict=True):
            if entry.offset <= position or entry.pos < history.which.since:
                continue
            if part is None:
                # Nothing is evicted: a portion is bounded.
                part = Journal(len(events), 1 << 62, entry.offset)
                part.render = self._render
            elif entry.offset != part.head + 1:
                break
            part.append(None, event)
            if len(event.message.body) > HEAVY:
                self.heavy.append(part.head)
            self._pos = entry.pos + 1
        if part is None:
            return False
        if part.head == portion.entries[-1].offset:
            self._pos = portion.next
        if part.first > position + 1:
            history.oldest = part.first
        self.part = part
        view = self._shape
        if view is not None:
            self.view = View(part, view.spec, view.shown, view.renderer, view.id_line, view.offset)
        return True
