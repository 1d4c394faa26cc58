"""Messages that were purged: gone for everybody, and taken out of memory in portions."""

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.broker.deliveries import Entry
    from gateway.broker.state import BrokerState

PORTION = 16 * 1024
"""Messages let go of in one turn of the loop: about 15 ms."""
SOON = 1
"""Milliseconds until the next portion."""


class Waste:
    """Of one broker. ``BrokerState.octets`` counts them until they have really gone."""

    def __init__(self, state: "BrokerState") -> None:
        self.state = state
        self.heaps: deque[deque[Entry]] = deque()
        self.due: int | None = None

    def take(self, entries: "deque[Entry]") -> None:
        """Nobody else holds these; a few go at once."""
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
