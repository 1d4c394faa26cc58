"""What HTTP counts itself; ``metrics.py`` shows it.

The counts are plain dictionaries, because a labelled ``prometheus_client`` counter costs more than
the rest of a publish.
"""

from collections import Counter

from gateway.http.observe.meter import Histogram


class Counters:
    """Since the start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        """By method, route template and status."""
        self.published: Counter[str] = Counter()
        """Messages confirmed to HTTP callers, by virtual host."""
        self.returned: Counter[str] = Counter()
        """Messages that found no queue, by virtual host."""
        self.durations: dict[str, Histogram] = {}
        """Until the answer begins, by route template."""
