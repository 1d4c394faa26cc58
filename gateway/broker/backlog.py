"""The messages of a queue that are ready, in lanes: one, or one for each priority that was used."""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from gateway.broker.lanes import DeliverySource, Entry, Lane, by_position
from gateway.broker.limits import RANKS
from gateway.broker.state import BrokerState, Timed
from gateway.broker.store import Depth, StoredMessage
from gateway.errors import Unstorable
from gateway.message import Message
from gateway.selector.names import NORMAL_PRIORITY

DEPTH_OF_A_LOOK = 12
"""To find and remove a message that so many, as a power of two, stand before and behind costs about
as much as to look at one."""


class BackloggedQueue(DeliverySource, Timed, Protocol):
    """The queue of a backlog."""

    def lanes_changed(self) -> None: ...
    def unstorable(self, message: Message, reason: Unstorable) -> None: ...


class Backlog:
    """``depth`` and ``octets`` (of bodies) count the ready messages, in memory or paged out. The
    lane of the highest priority stands first. ``levels``: the queue has one of the sets of levels
    in ``RANKS``; ``max_priority`` is its own highest; with neither it has one lane. ``Queue.put``
    adds messages itself, as a call more would cost too much."""

    __slots__ = (
        "queue", "state", "keeps", "levels", "max_priority", "ranked", "lanes", "depth", "octets",
    )  # fmt: skip

    def __init__(
        self, queue: BackloggedQueue, number: int, levels: int, max_priority: int | None
    ) -> None:
        """``number`` is that of the first lane in the store."""
        self.queue = queue
        self.state: BrokerState = queue.state
        self.keeps: bool = queue.keeps
        self.levels = levels
        self.max_priority = max_priority or 0
        self.ranked = levels > 0 or max_priority is not None
        self.lanes = [Lane(self, number, 0)]
        self.depth = 0
        self.octets = 0

    def restore(self, numbers: Mapping[int, int], depths: Mapping[int, Depth]) -> None:
        """Take over the messages in the store, in lanes of these numbers by priority."""
        self.lanes = [Lane(self, numbers[p], p) for p in sorted(numbers, reverse=True)]
        for lane in self.lanes:
            depth = depths.get(lane.number)
            if depth is not None:
                lane.restore(depth)
                self.depth += depth.messages
                self.octets += depth.octets

    def lane(self, priority: int | None) -> Lane:
        """The lane of a priority, made when first used."""
        if self.levels:
            wanted = RANKS[self.levels][NORMAL_PRIORITY if priority is None else min(priority, 9)]
        else:
            wanted = min(priority or 0, self.max_priority)
        index = 0
        for lane in self.lanes:
            if lane.priority == wanted:
                return lane
            if lane.priority < wanted:
                break
            index += 1
        lane = Lane(self, self.state.number(), wanted)
        self.lanes.insert(index, lane)
        self.queue.lanes_changed()
        return lane

    def unstorable(self, message: Message, reason: Unstorable) -> None:
        """The store has refused a message that was to be paged out."""
        self.queue.unstorable(message, reason)

    # --- out ------------------------------------------------------------------------------------

    def pull(self, entry: Entry) -> None:
        """Take the head out of its lane."""
        lane = entry.lane
        lane.ready.popleft()
        self.depth -= 1
        self.octets -= len(entry.message.body)
        if lane.paged and len(lane.ready) < self.state.limits.keep_in_memory // 4:
            lane.page_in()
        if lane.ready and (expires := lane.ready[0].expires) is not None:
            self.state.schedule(self.queue, expires)

    def take(self, lane: Lane, one: Entry | StoredMessage) -> Entry:
        """Take a ready message out of its place, wherever that is. What that costs in the middle of
        a deep lane counts as looks of this turn."""
        index = bisect_left(lane.ready, one.position, key=by_position)
        self.state.looks += min(index, len(lane.ready) - index) >> DEPTH_OF_A_LOOK
        if isinstance(one, Entry) and index == 0:
            self.pull(one)
            return one
        self.depth -= 1
        self.octets -= len(one.message.body)
        if not isinstance(one, Entry):
            return lane.lift(one)
        del lane.ready[index]
        return one

    def pick(self, priority: int, position: int) -> Entry | None:
        """Take the ready message at a position of a lane. ``None`` if it stands there no more, or
        has expired."""
        lane = next((lane for lane in self.lanes if lane.priority == priority), None)
        entry = None if lane is None else lane.pick(position)
        if entry is not None:
            self.depth -= 1
            self.octets -= len(entry.message.body)
        return entry

    def purge(self) -> int:
        """Drop everything that is ready; how many there were. Unsettled messages stay in the
        store."""
        count, queue, store = self.depth, self.queue, self.state.store
        held = queue.unsettled > 0
        for lane in self.lanes:
            if held and not queue.gone:
                lane.purge()
            elif self.keeps or lane.paged_from or held:
                # Others have never been in the store.
                store.drop(lane.number)
                lane.number = self.state.number()
            lane.ready, entries = deque(), lane.ready
            self.state.purged.take(entries)
            lane.paged = 0
            lane.counts.clear()
            lane.forget_ahead()
        if not (held or queue.gone):
            queue.lanes_changed()  # they have new numbers
        self.depth = 0
        self.octets = 0
        return count
