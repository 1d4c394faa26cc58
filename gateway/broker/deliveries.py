"""A message at its place: entries, and the lanes of a queue in which they stand in order.

A queue has one lane, or one per priority that was used. The head of a lane is in memory; when
memory is short its tail is only in the store, and comes back in portions as the head runs low.
"""

from bisect import bisect
from collections import deque
from collections.abc import Iterable, Sequence
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING

from gateway.broker.store import Depth
from gateway.message import Message

if TYPE_CHECKING:
    from gateway.broker.consumers import Consumer
    from gateway.broker.queues import Queue

LEAST_PORTION = 1
LARGEST_PORTION = 1024

by_position = attrgetter("position")


class Entry:
    """One message in one lane, ready or unsettled. ``origin`` is who published it, if known;
    ``consumer`` who holds it (``None`` when it was fetched); ``stored``: the store has it."""

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
        self.consumer: Consumer | None = None


class Lane:
    """Messages of equal priority. ``next`` is the position the next one gets; ``paged`` counts
    those that are only in the store, which stand at ``paged_from`` and after. Up to ``restored``,
    the queue counts the octets of a paged message as the store does, header included."""

    __slots__ = (
        "queue", "number", "priority", "ready", "next", "paged", "paged_from", "delivered",
        "restored",
    )  # fmt: skip

    def __init__(self, queue: "Queue", number: int, priority: int) -> None:
        self.queue = queue
        self.number = number
        self.priority = priority
        self.ready: deque[Entry] = deque()
        self.next = 1
        self.paged = 0
        self.paged_from = 0
        self.delivered = 0
        self.restored = 0

    def restore(self, depth: Depth) -> None:
        """Take over what the store has kept: all of it is paged out."""
        self.next = max(depth.last, depth.delivered) + 1
        self.paged = depth.messages
        self.paged_from = depth.first
        self.delivered = depth.delivered
        self.restored = depth.last

    def enter(self, entry: Entry) -> None:
        """Put at the end, in memory."""
        self.ready.append(entry)

    def page_in(self) -> None:
        """Bring back a portion of the tail."""
        ledger = self.queue.ledger
        limits = ledger.limits
        average = max(1, self.queue.octets // max(1, self.queue.depth))
        portion = min(max(limits.page_in_octets // average, LEAST_PORTION), LARGEST_PORTION)
        portion = min(portion, max(1, limits.keep_in_memory), self.paged)
        found = ledger.store.read(self.number, self.paged_from, portion)
        for position, message, expires in found:
            entry = Entry(self, position, message, expires, True, None)
            if position <= self.delivered:
                entry.deliveries = 1
            if position <= self.restored:
                self.queue.octets -= len(message.header)
            ledger.octets += len(message.body) + len(message.header)
            self.ready.append(entry)
        if found:
            self.paged -= len(found)
            self.paged_from = found[-1].position + 1
        else:
            # The store has lost them; counting on would leave a queue that never ends.
            self.queue.depth -= self.paged
            self.paged = 0

    def purge(self) -> None:
        """Remove what is ready from the store one by one: what is unsettled must stay there."""
        store = self.queue.ledger.store
        for entry in self.ready:
            if entry.stored:
                store.remove(self.number, entry.position)
        while self.paged:
            found = store.read(self.number, self.paged_from, min(self.paged, LARGEST_PORTION))
            if not found:
                break
            for position, _, _ in found:
                store.remove(self.number, position)
            self.paged -= len(found)
            self.paged_from = found[-1].position + 1

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Insert entries (ascending by position) where they stood."""
        ready = self.ready
        if not ready or entries[-1].position < ready[0].position:
            ready.extendleft(reversed(entries))
        elif len(entries) == 1:
            entry = entries[0]
            ready.insert(bisect(ready, entry.position, key=by_position), entry)
        else:
            self.ready = deque(merge(entries, ready, key=by_position))


def in_lanes(entries: Iterable[Entry]) -> dict[Lane, list[Entry]]:
    """Sort entries into their lanes, ascending by position."""
    lanes: dict[Lane, list[Entry]] = {}
    for entry in entries:
        lanes.setdefault(entry.lane, []).append(entry)
    for found in lanes.values():
        found.sort(key=by_position)
    return lanes
