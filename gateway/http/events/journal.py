"""The recent past of one source: a bounded ring of rendered events under one sequence.

Readers keep the position of their last event and read on from there; live and replay are the same
read. Pure: no clock, no loop, no broker.

A queue source may *pin*: events above the pin are not settled yet and are never evicted. When they
go back to the queue they become holes (``void``): their numbers are not given out again, because a
reader may have seen one just before it vanished.
"""

from collections.abc import Callable
from typing import NamedTuple

from gateway.http.octets import Octets, concatenated
from gateway.message import Message

NOTHING_ASKED = (-1, -1, 0)
FIRST_CAPACITY = 64


class Gap(NamedTuple):
    """Events ``start`` to ``end`` (inclusive) cannot be had. ``lost`` is ``None`` if unknown."""

    start: int
    end: int
    lost: int | None


class Event(NamedTuple):
    """Source of a frame. ``stamp`` is ms since 1970; ``size`` the octets of the message."""

    message: Message
    redelivered: bool
    stamp: int
    size: int


class Journal:
    """Bounded by events and octets; at least the newest event is kept.

    ``first`` is the position of the oldest kept event, ``head`` that of the newest one ever
    appended (``first - 1`` when none is kept). A slot whose frame is ``None`` is rendered when it
    is first read; until then it counts with an estimate.
    """

    __slots__ = (
        "slots", "events", "weights", "capacity", "max_events", "max_octets", "octets", "born",
        "first", "head", "pin", "chunk_asked", "chunk", "render",
    )  # fmt: skip

    def __init__(self, max_events: int, max_octets: int, start: int = 1) -> None:
        """``start`` is the position of the first event to come, at least 1."""
        if max_events < 1 or max_octets < 1 or start < 1:
            raise ValueError("a journal keeps at least one event, from position 1 on")
        self.max_events = max_events
        self.capacity = min(max_events, FIRST_CAPACITY)
        self.slots: list[Octets | None] = [b""] * self.capacity
        self.events: list[Event | None] = [None] * self.capacity
        self.weights: list[int] = [0] * self.capacity
        self.max_octets = max_octets
        self.octets = 0
        self.born = start
        self.first = start
        self.head = start - 1
        self.pin: int | None = None
        self.render: Callable[[int, Event], Octets] = lambda position, event: b""
        self.chunk_asked = NOTHING_ASKED
        self.chunk: tuple[Octets, int] = (b"", 0)

    def __len__(self) -> int:
        return self.head - self.first + 1

    def append(self, frame: Octets | None, event: Event | None = None) -> int:
        """Add one event at ``head + 1``, evicting the oldest as needed. Returns its position."""
        head = self.head + 1
        if head - self.first >= self.max_events and not self.pinned():
            self.evict()
        if head - self.first >= self.capacity:
            self.grow()
        at = head % self.capacity
        weight = 0 if event is None else event.size
        weight += len(frame) if frame is not None else weight + 256
        self.slots[at] = frame
        self.events[at] = event
        self.weights[at] = weight
        self.octets += weight
        self.head = head
        while self.octets > self.max_octets and self.first < head and not self.pinned():
            self.evict()
        return head

    def pinned(self) -> bool:
        """Whether the oldest event must stay."""
        return self.pin is not None and self.first > self.pin

    def evict(self) -> None:
        self.clear(self.first % self.capacity)
        self.first += 1

    def clear(self, at: int) -> None:
        self.octets -= self.weights[at]
        self.slots[at], self.events[at], self.weights[at] = b"", None, 0

    def grow(self) -> None:
        """Double the capacity: the journal is young, or full of pinned events."""
        old, self.capacity = self.capacity, self.capacity * 2
        for name, nothing in (("slots", b""), ("events", None), ("weights", 0)):
            before = getattr(self, name)
            after = [nothing] * self.capacity
            for position in range(self.first, self.head + 1):
                after[position % self.capacity] = before[position % old]
            setattr(self, name, after)

    def void(self, after: int) -> None:
        """The events after this position went back to where they came from."""
        for position in range(max(after + 1, self.first), self.head + 1):
            self.clear(position % self.capacity)
        self.chunk_asked = NOTHING_ASKED

    def has(self, position: int) -> bool:
        """Whether it is rendered."""
        return self.slots[position % self.capacity] is not None

    def event(self, position: int) -> Event | None:
        """The event at a position of the ring; ``None`` for a hole."""
        return self.events[position % self.capacity]

    def since(self, stamp: int) -> int:
        """The position before the first kept event that came at or after a time."""
        low, high = self.first, self.head + 1
        while low < high:
            middle = (low + high) // 2
            event = self.event(middle)
            # A hole has lost its time; taking it for late can only give more than was asked for.
            if event is not None and event.stamp < stamp:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def gap(self, after: int) -> Gap | None:
        """Evicted events that a reader at the position ``after`` has missed."""
        if after > self.head:
            return Gap(self.head + 1, after, None)
        if after + 1 >= self.first:
            return None
        known = after + 1 >= self.born
        return Gap(after + 1, self.first - 1, self.first - 1 - after if known else None)

    def read(self, after: int, max_octets: int = 256 * 1024) -> tuple[Octets, int]:
        """Frames after a position, joined, and the position reached. At least one frame.

        Readers that stand at the same place get the same object. Events that fell off the ring
        are skipped silently: ask ``gap`` before.
        """
        asked = (after, self.head, max_octets)
        if asked != self.chunk_asked:
            frames, reached = self.frames(after, max_octets)
            self.chunk = (frames[0] if len(frames) == 1 else concatenated(*frames), reached)
            self.chunk_asked = asked
        return self.chunk

    def frames(self, after: int, max_octets: int = 256 * 1024) -> tuple[list[Octets], int]:
        """As ``read``, one by one; holes are empty frames."""
        position = max(after, self.first - 1)
        frames: list[Octets] = []
        octets = 0
        while position < self.head and octets < max_octets:
            position += 1
            frame = self.slots[position % self.capacity]
            if frame is None:
                frame = self.render_now(position)
            octets += len(frame)
            frames.append(frame)
        return frames, position

    def frame(self, position: int) -> Octets:
        """That of a position of the ring."""
        found = self.slots[position % self.capacity]
        return self.render_now(position) if found is None else found

    def render_now(self, position: int) -> Octets:
        at = position % self.capacity
        event = self.events[at]
        frame = b"" if event is None else self.render(position, event)
        self.slots[at] = frame
        return frame
