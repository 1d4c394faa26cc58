"""Loads beside one producer and one consumer: many connections, no consumer, latency, and
RabbitMQ's own PerfTest as the driver. 256 octets, and headers of their own in each message."""

import contextlib
import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.client import Client
from benchmarks.drivers import Driver, build
from benchmarks.rows import Row, compare
from benchmarks.rules import ThirdParties, alone, note_disturbance, undisturbed
from benchmarks.servers import HOST, Failed, Missing, Server, gateway, rabbitmq
from benchmarks.throughput import LIMIT_SECONDS, MOST_MESSAGES, QUEUES, started

GROUP = "loads"
SIZE = 256
TRIAL = 20_000
WINDOW = 1000
ACK_EVERY = 100
SAMPLE = 65
PERF_TEST = Path(__file__).parent.parent / ".peers" / "java" / "perf_test"
RECEIVED = re.compile(r"receiving rate avg: ([0-9]+) msg/s")


@dataclass
class Found:
    """One passage: messages in a second, or milliseconds, by name."""

    figures: dict[str, float]
    count: int = 0
    server_cpu: float = 0.0
    others: float = 0.0
    more: dict[str, float] = field(default_factory=dict)

    @property
    def server_us(self) -> float:
        """Microseconds of the server for each message."""
        return self.server_cpu * 1e6 / self.count


Passage = Callable[[Server, int], Found]


def watched(server: Server, work: Callable[[], tuple[Found, float]]) -> Found:
    """With the processor time of the server and of third parties; ``work`` tells that of the
    drivers."""
    third_parties, busy = ThirdParties(), server.cpu()
    found, drivers = work()
    found.server_cpu = server.cpu() - busy
    found.others = third_parties.busy(found.server_cpu + drivers)
    return found


def crowd(queues: int, writers: int, readers: int) -> Passage:
    """So many connections that write and that read, on so many queues."""

    def passage(server: Server, count: int) -> Found:
        def work() -> tuple[Found, float]:
            port, name = server.amqp_port, next(QUEUES)
            common = (port, name, queues)
            with contextlib.ExitStack() as stack:
                reading = Driver("crowd", "consume", *common, readers, SIZE, count, LIMIT_SECONDS)
                stack.callback(reading.stop)
                reading.wait_ready()
                writing = Driver(
                    "crowd", "publish", *common, writers, SIZE, count, LIMIT_SECONDS, 1
                )
                stack.callback(writing.stop)
                published, delivered = writing.result(), reading.result()
            seconds = (delivered["last"] - published["first"]) / 1e9
            return Found({"": count / seconds}, count), published["cpu"] + delivered["cpu"]

        return watched(server, work)

    return passage


def nobody_reads(server: Server, count: int) -> Found:
    """Durable messages, confirmed, into a durable queue."""

    def work() -> tuple[Found, float]:
        port, name = server.amqp_port, next(QUEUES)
        client = Client(port)
        try:
            client.declare_queue(name, durable=True)
            before = server.written()
            writing = Driver(
                "producer", port, "", name, SIZE, count, 1, WINDOW, 0, LIMIT_SECONDS, 1
            )
            try:
                published = writing.result()
            finally:
                writing.stop()
            written = (server.written() - before) / count
            kept = client.declare_queue(name, durable=True)
            if kept != count or published["refused"]:
                raise Failed(f"{server.name}: {kept} of {count} messages are in the queue")
            for number in range(min(SAMPLE, count)):
                if client.get(name) != f"{number:016x}".encode() + b"x" * (SIZE - 16):
                    raise Failed(f"{server.name}: order or content of message {number}")
            client.delete_queue(name)
        finally:
            client.close()
        rate = count / (published["last"] - published["first"]) * 1e9
        return Found({"": rate}, count, more={"written": written}), published["cpu"]

    return watched(server, work)


def latency(rate: float) -> Passage:
    """Transient messages, one by one: so many in a second, or as fast as the window allows."""

    def passage(server: Server, count: int) -> Found:
        def work() -> tuple[Found, float]:
            port, name = server.amqp_port, next(QUEUES)
            with contextlib.ExitStack() as stack:
                reading = Driver("consumer", port, name, SIZE, count, 0, 0, 0, LIMIT_SECONDS)
                stack.callback(reading.stop)
                reading.wait_ready()
                writing = Driver(
                    "producer", port, "amq.direct", name, SIZE, count, 0, WINDOW, rate,
                    LIMIT_SECONDS, 1,
                )  # fmt: skip
                stack.callback(writing.stop)
                published, delivered = writing.result(), reading.result()
            figures = {
                f"{what}, {name}": told[key] / 1e6
                for what, told in (("delivery", delivered), ("confirm", published))
                for name, key in (("median", "p50"), ("p99", "p99"))
            }
            rated = {"rate": count / (delivered["last"] - published["first"]) * 1e9}
            return Found(figures, count, more=rated), published["cpu"] + delivered["cpu"]

        return watched(server, work)

    return passage


def perf_test(
    seconds: int, size: int = SIZE, confirmed: bool = False, durable: bool = False
) -> Passage:
    """The driver that RabbitMQ's authors wrote. ``durable``: its consumer acknowledges, too."""

    def passage(server: Server, count: int) -> Found:
        def work() -> tuple[Found, float]:
            java = shutil.which("java")
            if java is None or not PERF_TEST.is_dir():
                raise Failed("PerfTest is not installed (run benchmarks/install-peers)")
            command = [java, "-cp", f"{PERF_TEST}/*", "com.rabbitmq.perf.PerfTest"]
            command += ["--uri", f"amqp://guest:guest@{HOST}:{server.amqp_port}"]
            command += ["--producers", "1", "--consumers", "1", "--size", str(size)]
            command += ["--time", str(seconds), "--queue", next(QUEUES)]
            command += ["--confirm", str(WINDOW)] if confirmed else []
            if durable:
                command += ["--flag", "persistent", "--qos", str(WINDOW)]
                command += ["--multi-ack-every", str(ACK_EVERY)]
            else:
                command += ["--autoack"]
            begun = children_cpu()
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds + 60, check=False
            )
            rates = RECEIVED.findall(done.stdout)
            if done.returncode or not rates or not int(rates[-1]):
                raise Failed(f"PerfTest: {(done.stderr or done.stdout).strip()[-200:]}")
            rate = float(rates[-1])
            return Found({"": rate}, int(rate * seconds)), children_cpu() - begun

        return watched(server, work)

    return passage


def children_cpu() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Load:
    """``count``: of messages; 0: as many as take the time of a cell."""

    name: str
    passage: Callable[[float], Passage]
    drivers: tuple[str, ...]
    unit: str = "msg/s"
    aim: float | None = 1.0
    count: Callable[[float], int] = lambda seconds: 0


def loads() -> Iterator[Load]:
    for each in (10, 100):
        for queues in (1, 10, 100):
            name = f"{each} connections each way on {queues} queue{'s' * (queues > 1)}"
            yield Load(name, lambda _, q=queues, n=each: crowd(q, n, n), ("crowd",))  # type: ignore[misc]
    yield Load("one queue shared by 10 consumers", lambda _: crowd(1, 1, 10), ("crowd",))
    yield Load("durable, confirmed, nobody reads", lambda _: nobody_reads, ("producer",))
    both = ("producer", "consumer")
    yield Load(
        "latency at 5,000/s", lambda _: latency(5000), both, "ms", None, lambda s: int(5000 * s)
    )
    yield Load("latency at full speed", lambda _: latency(-1), both, "ms", None)
    for confirmed, name in ((False, "auto-ack"), (True, "confirmed")):
        yield Load(
            f"PerfTest, {name}",
            lambda s, c=confirmed: perf_test(max(3, int(3 * s)), confirmed=c),  # type: ignore[misc]
            (),
            count=lambda s: 1,
        )


def measure(load: Load, servers: list[Server], seconds: float, repeat: int) -> Iterator[Row]:
    """Warm up, choose counts that take about ``seconds``, measure in turns."""
    passage = load.passage(seconds)
    runs: dict[str, list[Found]] = {server.name: [] for server in servers}
    counts: dict[str, int] = {}

    def run(server: Server, count: int) -> Found:
        with alone(server, servers):
            return passage(server, count)

    for server in servers:
        trial = run(server, load.count(seconds) or TRIAL)
        rate = trial.more.get("rate", trial.figures.get("", 0.0))
        count = int(min(max(rate * seconds, 1000), MOST_MESSAGES))
        counts[server.name] = load.count(seconds) or count
    for _ in range(repeat):
        for server in servers:
            found = undisturbed(partial(run, server, counts[server.name]))
            runs[server.name].append(found)
    every = [one for some in runs.values() for one in some]
    for figure in every[0].figures:
        name = f"{load.name}, {figure}" if figure else load.name
        row = Row(GROUP, name, load.unit, against="RabbitMQ", aim=load.aim)
        told = [[one.figures[figure] for one in runs.get(name, [])] for name in NAMES]
        compare(row, *told)
        row.note = note(runs, load.unit)
        note_disturbance(row, every)
        yield row


NAMES = ("gateway", "rabbitmq")


def note(runs: dict[str, list[Found]], unit: str) -> str:
    """Processor time and octets written for each message, ours / theirs."""

    def told(figure: Callable[[Found], float]) -> str:
        return " / ".join(f"{statistics.median(map(figure, some)):.0f}" for some in runs.values())

    parts = [f"server {told(lambda one: one.server_us)} us"]
    if all("written" in one.more for some in runs.values() for one in some):
        parts.append(f"{told(lambda one: one.more['written'])} octets written")
    if unit == "ms":
        parts.append("less is better")
    return "; ".join(parts)


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    chosen = [load for load in loads() if wanted(f"{GROUP} {load.name}")]
    if not chosen:
        return
    try:
        for name in {name for load in chosen for name in load.drivers}:
            build(name)
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
        return
    with started(gateway, rabbitmq) as found:
        servers = [one for one in found if isinstance(one, Server)]
        absent = "; ".join(one for one in found if isinstance(one, str))
        if not servers:
            yield Row(GROUP, "all", note=absent)
            return
        for load in chosen:
            try:
                for row in measure(load, servers, 0.4 if quick else 3.0, repeat):
                    row.note = f"{row.note}; {absent}".strip("; ")
                    yield row
            except Failed as why:
                yield Row(GROUP, load.name, load.unit, note=str(why))
