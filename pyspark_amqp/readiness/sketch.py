"""Histograms from which quantiles are read within one percent, also when they are rounded. Two of
them are added by adding the counts of equal buckets, so that executors count their own rows."""

import math
from collections.abc import Mapping

GROWTH = 1.01
"""Ratio of the upper bounds of neighbouring buckets."""
_LOG = math.log(GROWTH)


def bucket_of(value: float) -> int:
    """0 for nothing (and for less than one); else the smallest i with value <= GROWTH ** (i-1)."""
    return 0 if value < 1 else math.ceil(round(math.log(value) / _LOG, 9)) + 1


def value_of(bucket: int) -> float:
    """The value that is at most half a percent from all in the bucket."""
    return 0.0 if bucket == 0 else 2 * GROWTH ** (bucket - 1) / (1 + GROWTH)


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """The value that so many of all do not exceed (nearest rank), or ``None`` of nothing."""
    total = sum(counts.values())
    if not total:
        return None
    rank = max(1, math.ceil(round(share * total, 9)))
    for bucket in sorted(counts):
        rank -= counts[bucket]
        if rank <= 0:
            return value_of(bucket)
    return None
