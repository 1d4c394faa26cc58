"""Counts and latencies of publishing: plain numbers, since every publish updates them."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets in seconds; larger values count in the last bucket."""


@dataclass(slots=True)
class Histogram:
    """A histogram of durations. ``counts`` has one more entry than there are bounds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """The buckets, cumulative as in Prometheus."""
        shown: list[tuple[str, float]] = []
        total = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            total += count
            shown.append((bound, total))
        return shown


@dataclass(slots=True)
class PublishMeter:
    """Outcomes of messages published over HTTP: accepted, unroutable, rejected, unknown. Each
    message counts once, when its outcome is known."""

    outcomes: Counter[str] = field(default_factory=Counter)
    confirms: Histogram = field(default_factory=Histogram)

    def confirmed(self, seconds: float, accepted: bool, returned: bool) -> None:
        self.confirms.add(seconds)
        outcome = "unroutable" if returned else "accepted" if accepted else "rejected"
        self.outcomes[outcome] += 1

    def lost(self) -> None:
        self.outcomes["unknown"] += 1
