"""Messages per second of each queue, from two looks at its counters some seconds apart."""

import time
from typing import NamedTuple

from gateway.broker.broker import Broker
from gateway.broker.counters import QueueSnapshot
from gateway.http.portions import spread

WINDOW_SECONDS = 3.0
LEAST_SECONDS = 0.5


class Rate(NamedTuple):
    """Per second."""

    published: float = 0.0
    delivered: float = 0.0


Key = tuple[str, str]
Counts = dict[Key, tuple[int, int]]


class Rates:
    """Samples are taken when queues are listed; two are kept, about ``WINDOW_SECONDS`` apart."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, Counts]] = []

    async def look(self, broker: Broker) -> None:
        """Take a sample, unless there is a fresh one."""
        now = time.monotonic()
        if self.samples and now - self.samples[-1][0] < LEAST_SECONDS:
            return
        counts: Counts = {}
        async for one in spread(broker.each_queue()):
            counts[one.vhost, one.name] = one.published, one.delivered
        self.add(now, counts)

    def add(self, now: float, counts: Counts) -> None:
        """``now`` is monotonic seconds."""
        if self.samples and now <= self.samples[-1][0]:
            return  # another look was faster
        self.samples.append((now, counts))
        while len(self.samples) > 2 and now - self.samples[1][0] >= WINDOW_SECONDS:
            del self.samples[0]

    def of(self, queue: QueueSnapshot) -> Rate:
        if len(self.samples) < 2:
            return Rate()
        then, before = self.samples[0]
        now, counts = self.samples[-1]
        key = queue.vhost, queue.name
        new = counts.get(key)
        if new is None:
            return Rate()
        # A smaller count is a new queue of the same name.
        old = before.get(key, new)
        seconds = now - then
        return Rate(
            round(max(0, new[0] - old[0]) / seconds, 1),
            round(max(0, new[1] - old[1]) / seconds, 1),
        )
