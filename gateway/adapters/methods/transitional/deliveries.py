"""Unsettled deliveries of a channel: the peer names them by request or command, the broker counts
them from 1."""

from bisect import bisect_left, bisect_right, insort

from gateway.errors import Condition, Lost, PeerError
from gateway.operations import Outcome, Settle

FETCHED = 1 << 63
"""Added to the number of a delivery that was fetched (``basic.get`` of 24 July, whose reply is no
request)."""
FEW = 64
"""Names of settled deliveries that are not worth removing."""


class Deliveries:
    """By name, in the order in which they were sent; names ascend, but for those of fetched ones,
    and those whose bodies come to a client in parts.

    A name that is settled alone stays in the list of names until a range passes it, or until most
    names are settled: no range costs more than the deliveries that it has to pass once."""

    __slots__ = ("channel", "_numbers", "_names", "_fetched")

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self._numbers: dict[int, int] = {}
        """Number of a delivery by its name."""
        self._names: list[int] = []
        self._fetched: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._numbers) + len(self._fetched)

    def add(self, name: int, delivery: int) -> None:
        """A delivery was sent."""
        if name & FETCHED:
            self._fetched[name] = delivery
            return
        self._numbers[name] = delivery
        names = self._names
        if names and name < names[-1]:  # its body came in parts, and others between them
            insort(names, name)
        else:
            names.append(name)
        if len(names) > 2 * len(self._numbers) + FEW:
            names[:] = sorted(self._numbers)

    def oldest(self) -> int | None:
        """The first name that is not settled, but for those of fetched ones."""
        names = self._names
        settled = next((at for at, name in enumerate(names) if name in self._numbers), len(names))
        del names[:settled]
        return names[0] if names else None

    def newest(self) -> int | None:
        """The last name that is not settled, but for those of fetched ones."""
        names = self._names
        while names and names[-1] not in self._numbers:
            names.pop()
        return names[-1] if names else None

    def clear(self) -> None:
        """All go back to their queues."""
        self._numbers.clear()
        self._names.clear()
        self._fetched.clear()

    def settle(
        self, name: int, outcome: Outcome = Outcome.ACCEPT, lost: Lost = Lost.SESSION
    ) -> Settle:
        """One delivery. Raises ``PeerError`` (530), which costs the channel if nothing else is
        said."""
        kept = self._fetched if name & FETCHED else self._numbers
        delivery = kept.pop(name, None)
        if delivery is None:
            raise PeerError(Condition.NOT_ALLOWED, f"no unsettled delivery {name}", lost)
        return Settle(self.channel, delivery, False, outcome)

    def discard(self, name: int) -> None:
        """Client: one delivery is settled, if it was not."""
        self._fetched.pop(name, None)
        self._numbers.pop(name, None)

    def settle_range(self, first: int, last: int, outcome: Outcome) -> list[Settle]:
        """Those with names in a range."""
        return [self.settle(name, outcome) for name in self._passed(first, last)]

    def settle_up_to(self, tag: int) -> list[Settle]:
        """All that were sent up to the delivery with this tag; 0: all."""
        names = self.up_to(tag)
        if not names:
            return []
        highest = max(self.settle(name).delivery for name in names)
        return [Settle(self.channel, highest, True, Outcome.ACCEPT)]

    def up_to(self, tag: int) -> list[int]:
        """The names of all that were sent up to the delivery with this tag; 0: of all."""
        numbers = self._numbers
        if not tag:
            return [*self._passed(0, FETCHED), *self._fetched]
        if tag & FETCHED:
            if tag not in self._fetched:
                return []
            highest, last = self._fetched[tag], 0
            for name in self._names:
                if numbers.get(name, 0) > highest:
                    break
                last = name
            names = self._passed(0, last)
        else:
            names = self._passed(0, tag)
            highest = max((numbers[name] for name in names), default=0)
        for name, delivery in self._fetched.items():
            if delivery > highest:
                break
            names.append(name)
        return names

    def _passed(self, first: int, last: int) -> list[int]:
        """The names of a range that are not settled. All of them leave the list of names, as the
        caller settles them."""
        names = self._names
        low, high = bisect_left(names, first), bisect_right(names, last)
        found = [name for name in names[low:high] if name in self._numbers]
        del names[low:high]
        return found
