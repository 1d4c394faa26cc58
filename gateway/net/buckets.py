"""Token buckets: a burst at once, and a rate per second."""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple


class Rate(NamedTuple):
    """A bucket of ``burst`` that fills in ``seconds``."""

    burst: float
    seconds: float


class Left(NamedTuple):
    """``remaining`` can be used now; ``seconds`` until the bucket is full again, or, if the request
    was refused, until it would be allowed."""

    allowed: bool
    remaining: int
    seconds: int


class Buckets:
    """One bucket per key, at most ``most`` of them; the least recently used are dropped, as if they
    were full. ``clock`` returns seconds."""

    def __init__(self, rate: Rate, clock: Callable[[], float], most: int = 65_536) -> None:
        self.rate = rate
        self.clock = clock
        self.most = most
        self.levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """Level of each bucket, and the time of that level."""

    def level(self, key: Hashable, now: float) -> float:
        level, at = self.levels.get(key, (self.rate.burst, now))
        filled = (now - at) * self.rate.burst / self.rate.seconds
        return min(self.rate.burst, level + max(0.0, filled))

    def take(self, key: Hashable, amount: float = 1.0) -> Left:
        """Use ``amount`` if the bucket has it. An amount larger than the bucket needs a full one
        and leaves it in debt."""
        now = self.clock()
        level = self.level(key, now)
        if level < min(amount, self.rate.burst):
            return Left(False, int(level), self.wait(min(amount, self.rate.burst) - level))
        return self.keep(key, level - amount, now)

    def charge(self, key: Hashable, amount: float) -> Left:
        """Use ``amount`` even if less is left: it has been used already."""
        now = self.clock()
        return self.keep(key, max(self.level(key, now) - amount, -self.rate.burst), now)

    def keep(self, key: Hashable, level: float, now: float) -> Left:
        self.levels[key] = (level, now)
        self.levels.move_to_end(key)
        if len(self.levels) > self.most:
            self.levels.popitem(last=False)
        return Left(True, max(0, int(level)), self.wait(self.rate.burst - level))

    def look(self, key: Hashable, amount: float = 1.0) -> Left:
        """Whether ``amount`` would be allowed, without using it."""
        level = self.level(key, self.clock())
        needed = min(amount, self.rate.burst)
        return Left(level >= needed, max(0, int(level)), self.wait(needed - level))

    def wait(self, missing: float) -> int:
        return max(1, math.ceil(missing * self.rate.seconds / self.rate.burst))
