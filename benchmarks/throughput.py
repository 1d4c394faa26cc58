"""Publish to consume over loopback: the same two client processes against both brokers."""

import contextlib
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from benchmarks.drivers import Driver, build
from benchmarks.rows import Row, compare
from benchmarks.rules import (
    HEADERS,
    TRIES,
    ThirdParties,
    alone,
    note_disturbance,
    undisturbed,
)
from benchmarks.servers import Failed, Missing, Server, gateway, rabbitmq

GROUP = "throughput"
SIZES = {"16 B": 16, "256 B": 256, "16 KiB": 16 << 10}
WARM_UP = {16: 20_000, 256: 20_000, 1024: 20_000, 16 << 10: 3_000}
LIMIT_SECONDS = 60
MOST_MESSAGES = 3_000_000


@dataclass(frozen=True)
class Mode:
    """How the two clients behave; `window` outstanding confirms, `every` messages per ack,
    `different`: no two messages have the same header."""

    name: str
    aim: float
    durable: bool = False
    window: int = 0
    every: int = 0
    prefetch: int = 0
    different: bool = False


MODES = [
    Mode("transient, auto-ack", aim=2.0),
    Mode("transient, confirmed", aim=1.0, window=1000),
    Mode("durable, confirmed", aim=1.0, durable=True, window=1000, every=100, prefetch=1000),
]


CELLS = [
    replace(mode, name=f"{mode.name}, {headers} headers", different=headers == "unique")
    for mode in MODES
    for headers in HEADERS
]


@dataclass
class Run:
    """One passage of `count` messages, first publish to last delivery and last confirm."""

    count: int
    seconds: float
    producer_cpu: float
    consumer_cpu: float
    server_cpu: float
    others: float  # processors kept busy meanwhile by other processes
    behind_cpu: float = 0.0  # of the broker behind the server

    @property
    def rate(self) -> float:
        return self.count / self.seconds


@dataclass
class Side:
    """One broker and its measurements; `behind` is the broker that it passes messages to, and
    `beside` runs something else meanwhile."""

    server: Server
    behind: Server | None = None
    beside: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    count: int = 0
    warm: set[str] = field(default_factory=set)
    runs: list[Run] = field(default_factory=list)


QUEUES = (f"bench-{os.getpid()}-{number}" for number in range(1_000_000))


def passage(server: Server, mode: Mode, size: int, count: int, behind: Server | None = None) -> Run:
    """Carry `count` messages of `size` octets through the server."""
    queue, durable = next(QUEUES), int(mode.durable)
    port = server.amqp_port
    third_parties, busy = ThirdParties(), server.cpu()
    behind_cpu = behind.cpu() if behind else 0.0
    with contextlib.ExitStack() as stack:
        consumer = Driver(
            "consumer", port, queue, size, count, durable, mode.every, mode.prefetch, LIMIT_SECONDS
        )
        stack.callback(consumer.stop)
        consumer.wait_ready()
        producer = Driver(
            "producer",
            *(port, "amq.direct", queue, size, count, durable, mode.window, 0, LIMIT_SECONDS),
            int(mode.different),
        )
        stack.callback(producer.stop)
        published, delivered = producer.result(), consumer.result()
    if published["refused"] or delivered["delivered"] != count:
        raise Failed(f"{published['refused']} refused, {delivered['delivered']} delivered")
    if not delivered["checked"]:
        raise Failed("no message was looked at")
    last = delivered["last"]
    if mode.window:
        last = max(last, published["last"])
    server_cpu = server.cpu() - busy
    behind_cpu = behind.cpu() - behind_cpu if behind else 0.0
    return Run(
        count,
        (last - published["first"]) / 1e9,
        published["cpu"],
        delivered["cpu"],
        server_cpu,
        third_parties.busy(server_cpu + behind_cpu + published["cpu"] + delivered["cpu"]),
        behind_cpu,
    )


def cell(sides: list[Side], mode: Mode, size: int, seconds: float, repeat: int) -> None:
    """Warm up, choose counts that take about `seconds`, then measure in turns."""

    def run(side: Side, count: int) -> Run:
        resting = [one.server for one in sides if one.server is not side.behind]
        with alone(side.server, resting), side.beside():
            return passage(side.server, mode, size, count, side.behind)

    for side in sides:
        trial = run(side, WARM_UP[size])
        side.count = int(min(max(trial.rate * seconds, 1000), MOST_MESSAGES))
        side.runs = []
    for _ in range(repeat):
        for side in sides:
            tries = TRIES if side.beside is contextlib.nullcontext else 1
            side.runs.append(undisturbed(partial(run, side, side.count), tries))


def describe(runs: list[Run]) -> dict[str, object]:
    """Medians of the processor time per message, in microseconds, beside the raw runs."""
    micro = {
        who: round(statistics.median(getattr(run, who) * 1e6 / run.count for run in runs), 3)
        for who in ("producer_cpu", "consumer_cpu", "server_cpu", "behind_cpu")
    }
    return {"us_per_message": micro, "runs": [asdict(run) for run in runs]}


Starter = Callable[[], contextlib.AbstractContextManager[Server]]


@contextlib.contextmanager
def started(*starters: Starter) -> Iterator[list[Server | str]]:
    """Each server, or why it is not there."""
    with contextlib.ExitStack() as stack:
        servers: list[Server | str] = []
        for starter in starters:
            try:
                servers.append(stack.enter_context(starter()))
            except (Missing, Failed) as why:
                servers.append(str(why))
        yield servers


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    """Eighteen cells; each is skipped with a reason when one side is missing."""
    cells = [
        (mode, label, size)
        for mode in CELLS
        for label, size in SIZES.items()
        if wanted(f"{GROUP} {mode.name} {label}")
    ]
    if not cells:
        return
    seconds = 0.4 if quick else 3.0
    try:
        for name in ("producer", "consumer"):
            build(name)
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
        return
    with started(gateway, rabbitmq) as (ours, theirs):
        sides = [Side(server) for server in (ours, theirs) if isinstance(server, Server)]
        absent = "; ".join(why for why in (ours, theirs) if isinstance(why, str))
        for mode, label, size in cells:
            row = Row(GROUP, f"{mode.name}, {label}", "msg/s", against="RabbitMQ", aim=mode.aim)
            row.note = absent
            try:
                cell(sides, mode, size, seconds, repeat)
            except Failed as why:
                row.note = f"{absent}; {why}".strip("; ")
                row.detail = {"logs": {side.server.name: side.server.log() for side in sides}}
                yield row
                continue
            mine = next((side.runs for side in sides if side.server is ours), [])
            other = next((side.runs for side in sides if side.server is theirs), [])
            compare(row, [run.rate for run in mine], [run.rate for run in other])
            note_disturbance(row, mine + other)
            row.detail = {"ours": describe(mine) if mine else None}
            row.detail["theirs"] = describe(other) if other else None
            yield row
