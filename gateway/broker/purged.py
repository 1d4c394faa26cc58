"""Messages that were purged: no longer in any queue, and freed in portions."""

from collections import deque
from typing import Protocol

from gateway.message import Message

PORTION = 16 * 1024
"""Messages let go of in one turn of the loop: about 15 ms."""
SOON = 1
"""Milliseconds until the next portion."""


class Purged(Protocol):
    """A message that stood in a queue."""

    @property
    def message(self) -> Message: ...


class Heap(Protocol):
    """Messages that were purged together."""

    def pop(self) -> Purged: ...

    def __len__(self) -> int: ...


class State(Protocol):
    """``octets`` counts the messages until they are freed."""

    octets: int
    now: int

    def schedule(self, thing: "PurgedMessages", when: int, /) -> None: ...


class PurgedMessages:
    """Of one broker."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.heaps: deque[Heap] = deque()
        self.due: int | None = None

    def take(self, entries: Heap) -> None:
        """Free these, which nobody else holds: a few at once."""
        if entries:
            self.heaps.append(entries)
            if len(self.heaps) == 1:
                self.on_due()

    def on_due(self) -> None:
        left, octets = PORTION, 0
        heaps = self.heaps
        while heaps and left:
            heap = heaps[0]
            while heap and left:
                octets += heap.pop().message.weight
                left -= 1
            if not heap:
                heaps.popleft()
        self.state.octets -= octets
        if heaps:
            self.state.schedule(self, self.state.now + SOON)
