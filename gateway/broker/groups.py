"""Message groups: the messages of one group, which have the same value in a header, go to one
consumer at a time, in order.

Consumers of such a queue have a cursor. A message that a consumer may not have is passed over, and
its group remembers where it stands. When it is its turn, the cursors that have passed it look there
again: that of the group's owner, or all if the group has none.
"""

from bisect import bisect_left, insort
from typing import Protocol
from zlib import crc32

from gateway.broker.consumers import Consumer
from gateway.broker.lanes import Lane
from gateway.broker.message_keys import Key, key_of
from gateway.broker.state import SOON, BrokerState, Timed
from gateway.message import Message

BUCKETS = 256
"""Groups that stay with their consumer share these, so that their number has an end."""

Place = tuple[Lane, int]


class GroupedConsumers(Protocol):
    """The consumers of a queue with a cursor."""

    filtered: list[Consumer]


class GroupedQueue(Timed, Protocol):
    """The queue whose messages are grouped."""

    state: BrokerState

    @property
    def dispatcher(self) -> GroupedConsumers: ...


class Fetching:
    """Stands for a consumer where a message was fetched."""

    __slots__ = ()
    started = False


Owner = Consumer | Fetching


class Group:
    """``held``: unsettled deliveries, all of the ``owner``. ``passed``: messages that some consumer
    has passed over, by lane and ascending."""

    __slots__ = ("owner", "held", "passed")

    def __init__(self) -> None:
        self.owner: Owner | None = None
        self.held: set[Place] = set()
        self.passed: dict[Lane, list[int]] = {}

    def first(self) -> Place | None:
        """The first that was passed over."""
        lane = max(self.passed, key=lambda lane: lane.priority, default=None)
        return None if lane is None else (lane, self.passed[lane][0])

    def forget(self, place: Place) -> None:
        """It is not, or no longer, passed over."""
        lane, position = place
        passed = self.passed.get(lane, [])
        at = bisect_left(passed, position)
        if at < len(passed) and passed[at] == position:
            del passed[at]
            if not passed:
                del self.passed[lane]


class Groups:
    """The groups of one queue, by the value of ``header``. One belongs to the consumer that has
    unsettled deliveries of it; a ``sticky`` one belongs to its consumer until that ends."""

    __slots__ = ("queue", "header", "sticky", "groups", "places")

    def __init__(self, queue: GroupedQueue, header: str, sticky: bool) -> None:
        self.queue = queue
        self.header = header
        self.sticky = sticky
        self.groups: dict[Key, Group] = {}
        self.places: dict[Place, Key] = {}
        """Messages that are held or were passed over."""

    def key_of(self, message: Message) -> Key | None:
        """``None`` for a message of no group."""
        key = key_of(message, self.header)
        if key is None or not self.sticky:
            return key
        return "bucket", crc32(repr(key).encode("utf-8", "surrogateescape")) % BUCKETS

    def admits(self, owner: Owner, lane: Lane, position: int, message: Message) -> bool:
        """Whether a consumer may have this message now; if not, it is passed over."""
        place = lane, position
        key = self.places.get(place) or self.key_of(message)
        group = None if key is None else self.groups.get(key)
        if key is None or group is None:
            return True
        if group.owner in (None, owner):
            return True
        if place not in self.places:
            self.places[place] = key
            insort(group.passed.setdefault(lane, []), position)
        return False

    def given(
        self, owner: Owner, lane: Lane, position: int, message: Message, settled: bool
    ) -> None:
        """A consumer gets this message; ``settled``: it holds nothing."""
        place = lane, position
        key = self.places.pop(place, None) or self.key_of(message)
        if key is None:
            return
        group = self.groups.setdefault(key, Group())
        group.owner = owner
        group.forget(place)
        if not settled:
            group.held.add(place)
            self.places[place] = key
        self.go_on(key, group)

    def over(self, place: Place) -> None:
        """A message is gone, or a delivery has come back to its place."""
        key = self.places.pop(place, None)
        if key is not None:
            group = self.groups[key]
            group.held.discard(place)
            group.forget(place)
            self.go_on(key, group)

    def left(self, consumer: Consumer) -> None:
        """A consumer has ended. Its unsettled deliveries keep their groups."""
        for key, group in list(self.groups.items()):
            if group.owner is consumer:
                self.go_on(key, group)

    def clear(self) -> None:
        """All messages that were ready are gone."""
        for key, group in list(self.groups.items()):
            group.passed.clear()
            self.go_on(key, group)
        held = {place for group in self.groups.values() for place in group.held}
        self.places = {place: key for place, key in self.places.items() if place in held}

    def go_on(self, key: Key, group: Group) -> None:
        """Something has changed: consumers for the next message of a group look there again."""
        owner = group.owner
        if not group.held and not (self.sticky and owner is not None and owner.started):
            owner = group.owner = None
        first = group.first()
        if first is None:
            if owner is None:
                del self.groups[key]
            return
        lane, position = first
        for consumer in self.queue.dispatcher.filtered:
            if owner in (None, consumer) and consumer.cursor is not None:
                consumer.cursor.requeued(lane, [position])
        state = self.queue.state
        state.schedule(self.queue, state.now + SOON)
