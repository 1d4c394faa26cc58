"""AMQP 1.0 and 0-10 over loopback: small C programs against the gateway and other brokers."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks import segments_0_10
from benchmarks.drivers import Driver, build
from benchmarks.rows import Row, compare
from benchmarks.rules import (
    HEADERS,
    JAVA_WARM_UP,
    ThirdParties,
    alone,
    note_disturbance,
    undisturbed,
)
from benchmarks.servers import Failed, Missing, Server
from benchmarks.throughput import (
    LIMIT_SECONDS,
    MOST_MESSAGES,
    SIZES,
    Run,
    Side,
    describe,
)
from tests.interop import brokers
from tests.interop.servers import Server as InteropServer
from tests.interop.servers import ServerError

GROUP = "throughput 1.0"
WARM_UP = {16: 20_000, 256: 20_000, 16 << 10: 3_000}
JAVA = ("broker_j", "artemis")
CREDIT = 1000
EVERY = 100
NAMES = {"rabbitmq_1_0": "RabbitMQ", "broker_j": "Broker-J", "artemis": "Artemis"}


@dataclass(frozen=True)
class Way:
    """How messages go through: in and out by which version, and settled or not. ``unique``: each
    message has a message id, a timestamp and a trace header of its own."""

    settled: bool
    source: str = "1.0"
    target: str = "1.0"
    against: tuple[str, ...] = ("rabbitmq_1_0", "broker_j", "artemis")
    unique: bool = False

    @property
    def name(self) -> str:
        settled = "pre-settled" if self.settled else "unsettled"
        headers = "unique" if self.unique else "same"
        return f"{self.source} to {self.target}, {settled}, {headers} headers"

    @property
    def group(self) -> str:
        return "throughput 0-10" if self.source == "0-10" else GROUP


OLD = ("rabbitmq_1_0", "broker_j")
RABBITMQ = ("rabbitmq_1_0",)
DIRECT = {
    "gateway": "/exchanges/amq.direct/{}", "rabbitmq_1_0": "/exchange/amq.direct/{}",
}  # fmt: skip
"""Addresses of the exchange that receivers of 0-9-1 bind their queues to."""
SEGMENTS = ("broker_j",)
"""The only other broker of 0-10 that still runs."""
THROUGH: list[tuple[str, str, tuple[str, ...]]] = [
    ("1.0", "1.0", tuple(NAMES)),
    ("0-9-1", "1.0", OLD),
    ("1.0", "0-9-1", RABBITMQ),
    ("0-10", "0-10", SEGMENTS),
    ("0-10", "1.0", SEGMENTS),
]
WAYS = [
    Way(settled, source, target, against, headers == "unique")
    for source, target, against in THROUGH
    for headers in HEADERS
    for settled in (True, False)
]


@dataclass
class Peer(Server):
    """A broker with all its processes, and how its queues are made and called."""

    kind: str = ""
    started: InteropServer = field(kw_only=True)

    def family(self) -> list[int]:
        found: list[int] = []
        for process in self.started.processes:
            found += Server(self.name, process, self.directory).family()
        return found

    def log(self) -> str:
        return self.started.tail(2000) or "it said nothing"


@contextlib.contextmanager
def running(kind: str) -> Iterator[Peer]:
    """One broker, for as long as the block."""
    known = brokers.KINDS[kind]
    if reason := known.missing():
        raise Missing(reason)
    os.environ[brokers.THOROUGH] = "1"
    with tempfile.TemporaryDirectory(prefix=f"bench-{kind}-") as name:
        try:
            started = known.start(Path(name))
        except ServerError as error:
            raise Failed(str(error)) from error
        try:
            yield Peer(
                NAMES.get(kind, kind),
                started.processes[0],
                Path(name),
                started.port,
                kind=kind,
                started=started,
            )
        finally:
            started.kill()


QUEUES = (f"bench-{os.getpid()}-{number}" for number in range(1_000_000))


def passage(peer: Peer, way: Way, size: int, count: int) -> Run:
    """Carry ``count`` messages of ``size`` octets through the broker."""
    queue = next(QUEUES)
    if way.target == "0-9-1":  # its receiver declares the queue and binds it
        address = DIRECT[peer.kind].format(queue)
    else:
        address = brokers.queue_address(peer.started, queue)
    port, key = peer.amqp_port, address if peer.kind == "broker_j" else queue
    third_parties, busy = ThirdParties(), peer.cpu()
    with contextlib.ExitStack() as stack:
        settled, unique = int(way.settled), int(way.unique)
        if way.target == "0-10":
            receiver = segments_0_10.consumer(
                port, key, size, count, way.settled, CREDIT, EVERY, LIMIT_SECONDS
            )
        elif way.target == "0-9-1":
            every, prefetch = (0, 0) if way.settled else (EVERY, CREDIT)
            receiver = Driver(
                "consumer", port, queue, size, count, 0, every, prefetch, LIMIT_SECONDS
            )
        else:
            receiver = Driver(
                "receiver", port, address, size, count, settled, CREDIT, EVERY, LIMIT_SECONDS
            )
        stack.callback(receiver.stop)
        receiver.wait_ready()
        window = 0 if way.settled else CREDIT
        if way.source == "0-10":
            sender = segments_0_10.publisher(
                port, key, size, count, window, LIMIT_SECONDS, way.unique
            )
        elif way.source == "0-9-1":
            sender = Driver(
                "producer", port, "", key, size, count, 0, window, 0, LIMIT_SECONDS, unique
            )
        else:
            sender = Driver("sender", port, address, size, count, 0, settled, LIMIT_SECONDS, unique)
        stack.callback(sender.stop)
        published, delivered = sender.result(), receiver.result()
    if published["refused"] or delivered["delivered"] != count:
        raise Failed(f"{published['refused']} refused, {delivered['delivered']} delivered")
    if way.source != "0-10" and not delivered.get("checked"):
        raise Failed("no message was looked at")
    last = delivered["last"] if way.settled else max(delivered["last"], published["last"])
    server_cpu = peer.cpu() - busy
    return Run(
        count,
        (last - published["first"]) / 1e9,
        published["cpu"],
        delivered["cpu"],
        server_cpu,
        third_parties.busy(server_cpu + published["cpu"] + delivered["cpu"]),
    )


def cell(sides: dict[str, Side], way: Way, size: int, seconds: float, repeat: int) -> None:
    """Warm up, choose counts that take about ``seconds``, then measure in turns."""

    def run(side: Side, count: int) -> Run:
        assert isinstance(side.server, Peer)
        with alone(side.server, [one.server for one in sides.values()]):
            return passage(side.server, way, size, count)

    for kind, side in sides.items():
        first = way.name not in side.warm
        side.warm.add(way.name)
        if first and kind in JAVA and seconds >= 1:
            run(side, JAVA_WARM_UP)
        trial = run(side, WARM_UP[size])
        side.count = int(min(max(trial.rate * seconds, 1000), MOST_MESSAGES))
        side.runs = []
    for _ in range(repeat):
        for side in sides.values():
            side.runs.append(undisturbed(partial(run, side, side.count)))


def compared(way: Way, label: str, ours: Side, theirs: Side | None, name: str) -> Row:
    row = Row(way.group, f"{way.name}, {label}", "msg/s", against=NAMES[name], aim=1.0)
    other = theirs.runs if theirs is not None else []
    compare(row, [run.rate for run in ours.runs], [run.rate for run in other])
    row.detail = {"ours": describe(ours.runs), "theirs": describe(other) if other else None}
    cost = [
        f"{sum(run.server_cpu for run in runs) * 1e6 / sum(run.count for run in runs):.0f}"
        for runs in (ours.runs, other)
        if runs
    ]
    row.note = f"server {' / '.join(cost)} us"
    note_disturbance(row, ours.runs + other)
    return row


def drivers(ways: Iterable[Way]) -> set[str]:
    """The programs that these need."""
    found: set[str] = set()
    for way in ways:
        senders = {"1.0": "sender", "0-9-1": "producer", "0-10": "segments"}
        receivers = {"1.0": "receiver", "0-9-1": "consumer", "0-10": "segments"}
        found |= {senders[way.source], receivers[way.target]}
    return found


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    """A row for each way, size and broker; a broker that is missing is named."""
    cells = [
        (way, label, size)
        for way in WAYS
        for label, size in SIZES.items()
        if wanted(f"{way.group} {way.name} {label}")
    ]
    if not cells:
        return
    seconds = 0.4 if quick else 2.0
    try:
        for name in drivers(way for way, _, _ in cells):
            build(name)
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
        return
    with contextlib.ExitStack() as stack:
        sides: dict[str, Side] = {}
        absent: dict[str, str] = {}
        peers = {kind for way, _, _ in cells for kind in way.against}
        for kind in ("gateway", *(name for name in NAMES if name in peers)):
            try:
                sides[kind] = Side(stack.enter_context(running(kind)))
            except (Missing, Failed) as why:
                absent[kind] = str(why)
        if "gateway" not in sides:
            yield Row(GROUP, "all", note=absent["gateway"])
            return
        for way, label, size in cells:
            here = {kind: side for kind, side in sides.items() if kind in ("gateway", *way.against)}
            try:
                cell(here, way, size, seconds, repeat)
            except Failed as why:
                yield Row(way.group, f"{way.name}, {label}", "msg/s", note=str(why))
                continue
            for kind in way.against:
                row = compared(way, label, here["gateway"], here.get(kind), kind)
                row.note = "; ".join(filter(None, (row.note, absent.get(kind, ""))))
                yield row
