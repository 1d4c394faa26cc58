"""A facade before RabbitMQ against RabbitMQ alone, with the same clients of 0-9-1."""

import contextlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.drivers import Driver, build
from benchmarks.rows import Row, compare
from benchmarks.rules import note_disturbance
from benchmarks.servers import Failed, Missing, Server, gateway, rabbitmq
from benchmarks.throughput import (
    LIMIT_SECONDS,
    MODES,
    QUEUES,
    Run,
    Side,
    cell,
    describe,
)

GROUP = "facade"
SIZE = 256
AIM = 0.8
RATE = 500
"""Messages in a second while delays are measured."""
DELAY = f"added at {RATE} msg/s"
MOST_ADDED = 1.0
"""Milliseconds that the facade may add at the median."""
CONFIRMED = [one for one in MODES if one.window]
CELLS = [
    *(replace(one, name=f"{one.name}, new headers", different=True) for one in CONFIRMED),
    *(replace(one, name=f"{one.name}, same header") for one in CONFIRMED),
]


def median_delay(server: Server, count: int) -> float:
    """Milliseconds from publish to receipt, of messages that are published one by one and have
    different headers."""
    queue = next(QUEUES)
    with contextlib.ExitStack() as stack:
        port = server.amqp_port
        consumer = Driver("consumer", port, queue, SIZE, count, 0, 1, 100, LIMIT_SECONDS)
        stack.callback(consumer.stop)
        consumer.wait_ready()
        producer = Driver(
            "producer", port, "amq.direct", queue, SIZE, count, 0, 100, RATE, LIMIT_SECONDS, 1
        )
        stack.callback(producer.stop)
        producer.result()
        return float(consumer.result()["p50"]) / 1e6


def added(ours: Server, theirs: Server, count: int, repeat: int) -> Row:
    """What the facade adds to the delay at the median."""
    for server in (ours, theirs):
        median_delay(server, min(count, 200))
    delays = [(median_delay(ours, count), median_delay(theirs, count)) for _ in range(repeat)]
    row = Row(GROUP, DELAY, "ms", ceiling=MOST_ADDED)
    row.ours = statistics.median(mine - other for mine, other in delays)
    mine, other = (statistics.median(column) for column in zip(*delays, strict=True))
    row.note = f"median {mine:.2f} ms, RabbitMQ alone {other:.2f} ms"
    row.detail = {"delays": delays}
    return row


def processor_time(ours: list[Run], theirs: list[Run]) -> str:
    """Microseconds of the servers for each message."""

    def median(runs: list[Run], what: str) -> float:
        found: float = statistics.median(getattr(run, what) * 1e6 / run.count for run in runs)
        return found

    facade, behind = median(ours, "server_cpu"), median(ours, "behind_cpu")
    note = f"facade {facade:.1f} us, RabbitMQ {behind:.1f} us"
    return f"{note} / alone {median(theirs, 'server_cpu'):.1f} us"


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    """Each mode with confirms, with headers that all differ and with the same one."""
    modes = [one for one in CELLS if wanted(f"{GROUP} {one.name}")]
    delays = wanted(f"{GROUP} {DELAY}")
    if not modes and not delays:
        return
    try:
        for name in ("producer", "consumer"):
            build(name)
        with (
            rabbitmq() as theirs,
            gateway("--upstream", f"amqp://127.0.0.1:{theirs.amqp_port}") as ours,
        ):
            for mode in modes:
                row = Row(GROUP, mode.name, "msg/s", against="RabbitMQ", aim=AIM)
                sides = [Side(ours, theirs), Side(theirs)]
                cell(sides, mode, SIZE, 0.4 if quick else 3.0, repeat)
                compare(row, *([run.rate for run in side.runs] for side in sides))
                row.detail = {"ours": describe(sides[0].runs), "theirs": describe(sides[1].runs)}
                row.note = processor_time(*(side.runs for side in sides))
                note_disturbance(row, sides[0].runs + sides[1].runs)
                yield row
            if delays:
                yield added(ours, theirs, 500 if quick else 2500, repeat)
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
