"""Messages per second of each queue, from two looks at its counters some seconds apart."""

from collections.abc import Iterable
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from gateway.broker.counters import QueueSnapshot

WINDOW_SECONDS = 3.0


class Rate(NamedTuple):
    """Per second."""

    published: float = 0.0
    delivered: float = 0.0


Counts = dict[tuple[str, str], tuple[int, int]]


class Rates:
    """Whoever lists queues feeds it; it keeps two samples about ``WINDOW_SECONDS`` apart."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, Counts]] = []
        self.rates: dict[tuple[str, str], Rate] = {}

    def sample(self, now: float, queues: Iterable[QueueSnapshot]) -> None:
        """``now`` is monotonic seconds."""
        if self.samples and now - self.samples[-1][0] < 0.5:
            return
        counts = {(one.vhost, one.name): (one.published, one.delivered) for one in queues}
        self.samples.append((now, counts))
        while len(self.samples) > 2 and now - self.samples[1][0] >= WINDOW_SECONDS:
            del self.samples[0]
        then, before = self.samples[0]
        seconds = now - then
        if seconds <= 0:
            return
        self.rates = {}
        for key, (published, delivered) in counts.items():
            # A smaller count is a new queue of the same name.
            old = before.get(key, (published, delivered))
            self.rates[key] = Rate(
                round(max(0, published - old[0]) / seconds, 1),
                round(max(0, delivered - old[1]) / seconds, 1),
            )

    def of(self, queue: QueueSnapshot) -> Rate:
        return self.rates.get((queue.vhost, queue.name), Rate())


def get_rates(request: Request) -> Rates:
    rates: Rates = request.app.state.context.rates
    return rates


RatesIn = Annotated[Rates, Depends(get_rates)]
