"""Metrics of single queues, for Prometheus: only if they are asked for, and no more than that.

The names of queues are chosen by callers, so ``/metrics`` has none of them. The text is written
here: ``prometheus_client`` would make thousands of samples in one call, which holds the loop.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from gateway.broker.broker import Broker
from gateway.broker.counters import QueueSnapshot
from gateway.http.metrics import PREFIX
from gateway.http.portions import spread

MOST = 10_000
"""Queues in one answer."""
PRIVATE = "amq."
"""Names of queues of the gateway's own begin so."""


class Figure(NamedTuple):
    """A metric, and the member of ``QueueSnapshot`` that it shows."""

    name: str
    type: str
    member: str
    help: str


FIGURES = (
    Figure("queue_ready", "gauge", "ready", "Messages that wait."),
    Figure("queue_unsettled", "gauge", "unsettled", "Messages that consumers have not settled."),
    Figure("queue_octets", "gauge", "octets", "Octets of the bodies that wait."),
    Figure("queue_paged", "gauge", "paged", "Messages that wait and are only in the store."),
    Figure("queue_consumers", "gauge", "consumers", "Consumers."),
    Figure("queue_published_total", "counter", "published", "Messages put in."),
    Figure("queue_delivered_total", "counter", "delivered", "Messages delivered."),
    Figure("queue_acked_total", "counter", "acked", "Messages accepted by consumers."),
    Figure("queue_redelivered_total", "counter", "redelivered", "Messages delivered again."),
)
LEFT_OUT = "queues_left_out"


async def chosen_queues(
    broker: Broker, vhost: str | None, pattern: str, limit: int
) -> tuple[list[QueueSnapshot], int]:
    """The first ``limit`` queues by name whose names fit a pattern (``*`` is any text), in one
    virtual host or in all (``None``), and the number of the others that fit."""
    found: list[QueueSnapshot] = []
    others = 0
    async for queue in spread(broker.each_queue(vhost)):
        private = queue.name.startswith(PRIVATE) and not pattern.startswith(PRIVATE)
        if private or not fnmatchcase(queue.name, pattern):
            continue
        if len(found) < limit:
            found.append(queue)
        else:
            others += 1
    return found, others


def exposition(queues: list[QueueSnapshot], others: int) -> Iterator[bytes]:
    """The lines of Prometheus' text format, those of a metric together."""
    labels = [f'{{vhost="{escaped(one.vhost)}",queue="{escaped(one.name)}"}}' for one in queues]
    for figure in FIGURES:
        yield head(figure.name, figure.type, figure.help)
        for label, queue in zip(labels, queues, strict=True):
            yield f"{PREFIX}{figure.name}{label} {getattr(queue, figure.member)}\n".encode()
    yield head(LEFT_OUT, "gauge", "Queues that fit and are not shown: there were too many.")
    yield f"{PREFIX}{LEFT_OUT} {others}\n".encode()


def head(name: str, type: str, help: str) -> bytes:
    return f"# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {type}\n".encode()


def escaped(text: str) -> str:
    """The value of a label."""
    whole = text.encode("utf-8", "replace").decode()
    return whole.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
