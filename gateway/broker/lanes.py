"""A message at its place: entries, and the lanes of a queue in which they stand in order.

The head of a lane is in memory; when memory is short its tail is only in the store, and comes back
in portions as the head runs low.
"""

from bisect import bisect, bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Protocol

from gateway.broker.exclusions import ExcludingQueue
from gateway.broker.state import BrokerState
from gateway.broker.store import Depth, StoredMessage
from gateway.errors import Unstorable
from gateway.message import Message

LEAST_PORTION = 1
LARGEST_PORTION = 1024
FIRST_AHEAD = 16
MOST_AHEAD = 256
"""Messages read at once to search the paged-out ones: each time twice as many."""
AHEAD_OCTETS = 256 * 1024
"""About how much that may be."""

FEW = 64
"""So many entries are put back one by one; more are sorted in, which looks at all that stands
before the last of them."""

MOST_RUNS = 1000
"""Runs of messages that a purge removes from the store as such, because some between them are
unsettled."""

by_position = attrgetter("position")

Deliver = Callable[[str, int, bool, Message], None]
"""Consumer tag, delivery tag, whether it is redelivered, message."""

DeliverRun = Callable[[str, int, list[Message]], None]
"""Consumer tag, delivery tag of the first, messages, none of them redelivered."""


class Holder(Protocol):
    """The consumer that an unsettled delivery was made to."""

    tag: str
    started: bool
    waiting: bool
    deliver: Deliver

    @property
    def copies(self) -> bool: ...

    def release(self, entry: "Entry") -> None: ...
    def wake(self) -> None: ...
    def exclude(self, entry: "Entry") -> None: ...
    def check_exclusions(self) -> None: ...


class DeliverySource(ExcludingQueue, Protocol):
    """The queue of a delivery, or where consumers get copies a stand-in for it."""

    state: BrokerState
    keeps: bool
    gone: bool
    unsettled: int
    delivered: int
    redelivered: int
    most_deliveries: int | None

    @property
    def forfeited(self) -> bool: ...
    @property
    def has_dead_letter_exchange(self) -> bool: ...

    def would_dead_letter(self, message: Message) -> bool: ...
    def finish(self, entry: "Entry") -> None: ...
    def discard(self, entry: "Entry", reason: str) -> None: ...
    def reject(self, entry: "Entry", reason: str) -> None: ...
    def put_back(self, entries: "Iterable[Entry]") -> None: ...
    def taking_back(
        self, lanes: "list[tuple[Lane, list[Entry]]]", octets: int
    ) -> Iterator[None]: ...


class LaneBacklog(Protocol):
    """The backlog of a lane: ``depth`` messages are ready in all its lanes, of so many
    ``octets``."""

    state: BrokerState
    keeps: bool
    depth: int
    octets: int

    @property
    def queue(self) -> DeliverySource: ...

    def unstorable(self, message: Message, reason: Unstorable) -> None: ...


class Entry:
    """One message in one lane, ready or unsettled. ``origin`` is the connection that published
    it, if known; ``consumer`` holds it (``None`` when it was fetched); ``stored``: the store has
    it."""

    __slots__ = (
        "lane", "position", "message", "expires", "deliveries", "stored", "origin", "consumer",
    )  # fmt: skip

    def __init__(
        self,
        lane: "Lane",
        position: int,
        message: Message,
        expires: int | None,
        stored: bool,
        origin: object,
    ) -> None:
        self.lane = lane
        self.position = position
        self.message = message
        self.expires = expires
        self.deliveries = 0
        self.stored = stored
        self.origin = origin
        self.consumer: Holder | None = None


class Copy(Entry):
    """A copy for a consumer that browses; its ``lane`` is a stand-in. ``original``: the lane in
    which the message stands at the same position."""

    __slots__ = ("original",)

    def __init__(self, lane: "Lane", position: int, message: Message, original: "Lane") -> None:
        super().__init__(lane, position, message, None, False, None)
        self.original = original


class Lane:
    """Messages of equal priority. ``next`` is the position the next one gets; ``paged`` counts
    those that are only in the store, which stand at ``paged_from`` and after. Up to ``restored``,
    the queue counts the octets of a paged message as the store does, header included. What an
    earlier process may have delivered stands up to ``before``.

    ``out`` holds positions among the paged that somebody has picked and not settled: the store
    still has them. ``counts`` says how often a paged message was delivered before it went back.
    ``ahead`` was read from the store up to ``ahead_to``, to be looked at."""

    __slots__ = (
        "backlog", "queue", "number", "priority", "ready", "next", "paged", "paged_from",
        "delivered", "restored", "before", "out", "counts", "ahead", "ahead_from", "ahead_to",
        "portion",
    )  # fmt: skip

    def __init__(self, backlog: LaneBacklog, number: int, priority: int) -> None:
        self.backlog = backlog
        self.queue = backlog.queue
        """The backlog's own: one look-up less for each delivery."""
        self.number = number
        self.priority = priority
        self.ready: deque[Entry] = deque()
        self.next = 1
        self.paged = 0
        self.paged_from = 0
        self.delivered = 0
        self.restored = 0
        self.before = 0
        self.out: set[int] = set()
        self.counts: dict[int, int] = {}
        self.ahead: list[StoredMessage] = []
        self.ahead_from = self.ahead_to = 0
        self.portion = FIRST_AHEAD

    def restore(self, depth: Depth) -> None:
        """Take over the messages in the store: all of them are paged out."""
        self.next = max(depth.last, depth.delivered) + 1
        self.paged = depth.messages
        self.paged_from = depth.first
        self.delivered = depth.delivered
        self.restored = depth.last
        self.before = depth.delivered

    def page_in(self) -> None:
        """Bring back a portion of the tail."""
        state = self.backlog.state
        limits = state.limits
        average = max(1, self.backlog.octets // max(1, self.backlog.depth))
        portion = min(max(limits.page_in_octets // average, LEAST_PORTION), LARGEST_PORTION)
        portion = min(portion, max(1, limits.keep_in_memory), self.paged)
        found = state.store.read(self.number, self.paged_from, portion)
        self.forget_ahead()
        for kept in found:
            if kept.position in self.out:
                self.out.discard(kept.position)
            else:
                self.ready.append(self.bring(kept))
        if found:
            self.paged_from = found[-1].position + 1
        else:
            # The store has lost them; counting on would leave a queue that never ends.
            self.backlog.depth -= self.paged
            self.paged = 0
        if not self.paged:
            self.out.clear()

    def bring(self, kept: StoredMessage) -> Entry:
        """A paged message into memory."""
        position, message, expires = kept
        entry = Entry(self, position, message, expires, True, None)
        entry.deliveries = self.deliveries(position)
        self.counts.pop(position, None)
        if position <= self.restored:
            self.backlog.octets -= len(message.header)
        self.backlog.state.octets += message.weight
        self.paged -= 1
        return entry

    def deliveries(self, position: int) -> int:
        """How often a paged message was delivered."""
        return self.counts.get(position, 1 if position <= self.before else 0)

    def read_paged(self, start: int, limit: int) -> list[StoredMessage]:
        """Up to ``limit`` paged messages from a position on, fewer if some are picked, none if
        there are no more."""
        while True:
            found = self.backlog.state.store.read(self.number, start, limit)
            ready = [kept for kept in found if kept.position not in self.out]
            if ready or not found:
                return ready
            start = found[-1].position + 1

    def pick(self, position: int) -> Entry | None:
        """Take one out of the middle, if it stands here and has not expired."""
        state = self.backlog.state
        index = bisect(self.ready, position, key=by_position) - 1
        if index >= 0 and self.ready[index].position == position:
            entry = self.ready[index]
            if entry.expires is not None and entry.expires <= state.now:
                return None
            del self.ready[index]
            return entry
        if not self.paged or position < self.paged_from or position in self.out:
            return None
        found = state.store.read(self.number, position, 1)
        if not found or found[0].position != position:
            return None
        expires = found[0].expires
        if expires is not None and expires <= state.now:
            return None
        return self.lift(found[0])

    def lift(self, kept: StoredMessage) -> Entry:
        """Take one out of the middle of the paged."""
        entry = self.bring(kept)
        if self.paged:
            self.out.add(kept.position)
        else:
            self.out.clear()
        index = bisect_left(self.ahead, kept.position, key=by_position)
        if index < len(self.ahead) and self.ahead[index].position == kept.position:
            del self.ahead[index]
        return entry

    def purge(self) -> None:
        """Remove the ready messages from the store; unsettled ones must stay there. Nothing is
        read."""
        store = self.backlog.state.store
        ready = self.ready
        found: list[tuple[int, int]] = []
        if ready and (self.backlog.keeps or self.paged_from):
            few = runs(ready)
            if few is None:
                store.remove_all(self.number, [entry.position for entry in ready if entry.stored])
            else:
                found = few
        if self.paged:
            start = self.paged_from
            for position in sorted(self.out):
                if position > start:
                    found.append((start, position - 1))
                start = max(start, position + 1)
            if start < self.next:
                found.append((start, self.next - 1))
        if found:
            store.remove_ranges(self.number, found)
        self.out.clear()
        self.counts.clear()

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Insert entries (ascending by position) where they stood."""
        self.backlog.depth += len(entries)
        if self.paged and entries[-1].position >= self.paged_from:
            entries = [entry for entry in entries if not self.return_paged(entry)]
            if not entries:
                return
        ready = self.ready
        if not ready or entries[-1].position < ready[0].position:
            ready.extendleft(reversed(entries))
        elif len(entries) <= FEW:
            for entry in entries:
                ready.insert(bisect(ready, entry.position, key=by_position), entry)
        else:
            last = entries[-1].position
            among = list(entries)
            while ready and ready[0].position < last:
                among.append(ready.popleft())
            among.sort(key=by_position, reverse=True)
            ready.extendleft(among)

    def return_paged(self, entry: Entry) -> bool:
        """One that stood among the paged is paged again. One that was delivered as it was put has
        a place there too, but is not in the store unless it must be kept."""
        position, message = entry.position, entry.message
        if not self.paged or position < self.paged_from:
            return False
        state = self.backlog.state
        self.out.discard(position)
        if not entry.stored:
            try:
                state.store.append(self.number, position, message, entry.expires, False)
            except Unstorable as reason:
                self.backlog.unstorable(message, reason)
                self.backlog.depth -= 1
                self.backlog.octets -= len(message.body)
                state.octets -= message.weight
                return True
        self.paged += 1
        self.counts[position] = entry.deliveries
        if position <= self.restored:
            self.backlog.octets += len(message.header)
        state.octets -= message.weight
        self.forget_ahead()
        return True

    # --- looking through ------------------------------------------------------------------------

    def at(self, position: int) -> "Entry | StoredMessage | None":
        """The ready message at a position, if it still stands there."""
        index = bisect_left(self.ready, position, key=by_position)
        if index < len(self.ready) and self.ready[index].position == position:
            return self.ready[index]
        if not self.paged or position < self.paged_from or position in self.out:
            return None
        found = self.backlog.state.store.read(self.number, position, 1)
        return found[0] if found and found[0].position == position else None

    def paged_after(self, position: int) -> StoredMessage | None:
        """The first message behind a position that is paged out; it stays so."""
        start = max(position + 1, self.paged_from)
        while self.paged and start < self.next:
            if not self.ahead_from <= start < self.ahead_to:
                self.read_ahead(start)
            index = bisect_left(self.ahead, start, key=by_position)
            if index < len(self.ahead):
                return self.ahead[index]
            start = self.ahead_to
        return None

    def read_ahead(self, start: int) -> None:
        """Read a portion from the store; each is larger than the one before."""
        backlog = self.backlog
        average = max(1, backlog.octets // max(1, backlog.depth))
        portion = max(1, min(self.portion, AHEAD_OCTETS // average))
        self.portion = min(2 * self.portion, MOST_AHEAD)
        found = backlog.state.store.read(self.number, start, portion)
        self.ahead = [kept for kept in found if kept.position not in self.out]
        self.ahead_from = start
        self.ahead_to = found[-1].position + 1 if len(found) == portion else self.next

    def forget_ahead(self) -> None:
        """The messages read may be gone from the store by now, or are not needed."""
        if self.ahead_to:
            self.ahead = []
            self.ahead_from = self.ahead_to = 0
            self.portion = FIRST_AHEAD


def runs(ready: deque[Entry]) -> list[tuple[int, int]] | None:
    """The first and last positions of entries between which none is missing; ``None`` if these are
    too many to be looked for one by one."""
    if ready[-1].position - ready[0].position == len(ready) - 1:
        return [(ready[0].position, ready[-1].position)]
    entries = list(ready)  # which has its middle at hand
    found: list[tuple[int, int]] = []
    ahead = [(0, len(entries) - 1)]
    while ahead:
        if len(found) + len(ahead) > MOST_RUNS:
            return None
        low, high = ahead.pop()
        first, last = entries[low].position, entries[high].position
        if last - first == high - low:
            if found and found[-1][1] == first - 1:
                first = found.pop()[0]
            found.append((first, last))
        else:
            middle = (low + high) // 2
            ahead += ((middle + 1, high), (low, middle))
    return found


def in_lanes(entries: Iterable[Entry]) -> dict[Lane, list[Entry]]:
    """Sort entries into their lanes, ascending by position."""
    lanes: dict[Lane, list[Entry]] = {}
    for entry in entries:
        lanes.setdefault(entry.lane, []).append(entry)
    for found in lanes.values():
        found.sort(key=by_position)
    return lanes
