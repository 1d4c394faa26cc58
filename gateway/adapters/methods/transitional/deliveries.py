"""Unsettled deliveries of a channel: the client names them by request or command, the broker counts
them from 1."""

from gateway.adapters.methods.transitional.types import SERIALS, after
from gateway.errors import Condition, PeerError
from gateway.operations import Outcome, Settle

FETCHED = 1 << 63
"""Added to the number of a delivery that was fetched (``basic.get`` of 24 July, whose reply is no
request)."""


class Deliveries:
    """By name, in the order in which they were sent."""

    __slots__ = ("_channel", "_numbers")

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, name: int, delivery: int) -> None:
        """A delivery was sent."""
        self._numbers[name] = delivery

    def clear(self) -> None:
        """All go back to their queues."""
        self._numbers.clear()

    def settle(self, name: int, outcome: Outcome = Outcome.ACCEPT) -> Settle:
        """One delivery. Raises ``PeerError``: the connection is closed (530)."""
        delivery = self._numbers.pop(name, None)
        if delivery is None:
            raise PeerError(Condition.NOT_ALLOWED, f"no unsettled delivery {name}")
        return Settle(self._channel, delivery, False, outcome)

    def taken(self, tag: int, multiple: bool) -> list[int]:
        """Client: take one delivery, or all up to it (0: all); their tags."""
        if not multiple:
            return [tag] if self._numbers.pop(tag, None) is not None else []
        tags = []
        for name in self._numbers:
            if 0 < tag < name < FETCHED:
                break
            tags.append(name)
            if name == tag:
                break
        for name in tags:
            del self._numbers[name]
        return tags

    def settle_range(self, first: int, count: int, outcome: Outcome) -> list[Settle]:
        """Those of ``count`` names from ``first`` on that are deliveries."""
        numbers = self._numbers
        if count <= len(numbers):
            names = [name for name in range(first, first + count) if name in numbers]
        else:
            names = [name for name in numbers if first <= name < first + count]
        return [self.settle(name, outcome) for name in names]

    def settle_up_to(self, tag: int) -> list[Settle]:
        """All that were sent up to the delivery with this tag; 0: all."""
        names = []
        for name, delivery in self._numbers.items():
            if tag & FETCHED:
                beyond = delivery > tag - FETCHED
            else:
                beyond = bool(tag) and tag < name < FETCHED
            if beyond:
                break
            names.append(name)
        return self._settle_all(names)

    def settle_through(self, mark: int) -> list[Settle]:
        """All up to a serial number."""
        names = []
        for name in self._numbers:
            if after(name % SERIALS, mark):
                break
            names.append(name)
        return self._settle_all(names)

    def _settle_all(self, names: list[int]) -> list[Settle]:
        """These, which are the first that were sent."""
        if not names:
            return []
        highest = max(self._numbers.pop(name) for name in names)
        return [Settle(self._channel, highest, True, Outcome.ACCEPT)]
