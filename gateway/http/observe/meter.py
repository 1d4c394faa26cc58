"""Counts and latencies of publishing: plain numbers, because every publish pays for them."""

from bisect import bisect_left
from collections import Counter

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the buckets in seconds; what is above counts in the last."""


class Histogram:
    """How long something took. ``counts`` has one more entry than there are bounds."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as Prometheus wants them."""
        shown: list[tuple[str, float]] = []
        total = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            total += count
            shown.append((bound, total))
        return shown


class Meter:
    """What became of messages that came over HTTP. ``outcomes``: accepted, unroutable, rejected,
    unknown; each message counts once, when its fate is known."""

    __slots__ = ("outcomes", "confirms")

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.confirms = Histogram()

    def confirmed(self, seconds: float, accepted: bool, returned: bool) -> None:
        self.confirms.add(seconds)
        outcome = "unroutable" if returned else "accepted" if accepted else "rejected"
        self.outcomes[outcome] += 1

    def lost(self) -> None:
        self.outcomes["unknown"] += 1
