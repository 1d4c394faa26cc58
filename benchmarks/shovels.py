"""Messages of RabbitMQ (0-9-1) moved to Artemis (1.0): by our shovel, by RabbitMQ's own, by Camel.

No two messages have the same header. All three confirm before they settle.
"""

import contextlib
import shutil
import struct
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from json import dumps
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.client import Client, method, short
from benchmarks.codec import frame
from benchmarks.drivers import Driver, build
from benchmarks.rows import Row, compare
from benchmarks.rules import ThirdParties, note_disturbance, undisturbed
from benchmarks.servers import HOST, Failed, Missing
from benchmarks.throughput_1_0 import Peer, running
from gateway.adapters.methods.content import BASIC
from gateway.message import Properties
from tests.interop import brokers, servers

GROUP = "shovel"
SIZE = 256
WINDOW = 1000
RATE = 500
"""Messages in a second while delays are measured."""
LIMIT_SECONDS = 120
SETTLED_SECONDS = 0.5
"""After the last message has arrived, all are settled at their source."""
CONSUMERS = 10
"""Of Camel, which waits for each message: more are faster, and do not keep the order."""
RIVALS = {"rabbitmq": "RabbitMQ's shovel", "camel": "Camel"}

CONFIGURATION = """
[[upstreams]]
name = "old"
addresses = ["amqp://{host}:{old}"]
version = "0-9-1"

[[upstreams]]
name = "new"
addresses = ["amqp://{host}:{new}"]
version = "1.0"

[[shovels]]
name = "over"
source = {{ upstream = "old", queue = "gateway" }}
destination = {{ upstream = "new", queue = "queue.gateway" }}
window = {window}
"""


class Mover(Protocol):
    """Something that moves messages from the queue of its name to ``queue.NAME``."""

    name: str

    def start(self) -> None: ...

    def stop(self) -> None:
        """Leave what comes now where it is."""
        ...


def request(port: int | None, verb: str, path: str, body: object = None) -> bytes:
    data = dumps(body).encode() if body is not None else b""
    asked = urllib.request.Request(f"http://{HOST}:{port}{path}", data, method=verb)
    asked.add_header("Authorization", "Basic " + b64encode(b"guest:guest").decode())
    asked.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return bytes(answer.read())


@dataclass
class Ours:
    port: int | None
    name = "gateway"

    def start(self) -> None:
        request(self.port, "POST", "/v1/admin/shovels/over/resume")

    def stop(self) -> None:
        request(self.port, "POST", "/v1/admin/shovels/over/pause")
        while b'"paused"' not in request(self.port, "GET", "/v1/admin/shovels"):
            time.sleep(0.02)


@dataclass
class Theirs:
    """RabbitMQ's shovel, which is made and deleted."""

    port: int | None
    old: int
    new: int
    name = "rabbitmq"

    @property
    def path(self) -> str:
        return f"/api/parameters/shovel/{urllib.parse.quote('/', safe='')}/over"

    def start(self) -> None:
        value = {
            "src-protocol": "amqp091",
            "src-uri": f"amqp://guest:guest@{HOST}:{self.old}",
            "src-queue": self.name,
            "src-prefetch-count": WINDOW,
            "dest-protocol": "amqp10",
            "dest-uri": f"amqp://guest:guest@{HOST}:{self.new}?sasl=plain",
            "dest-address": f"queue.{self.name}",
            "ack-mode": "on-confirm",
        }
        request(self.port, "PUT", self.path, {"value": value})

    def stop(self) -> None:
        request(self.port, "DELETE", self.path)


@dataclass
class Camel:
    process: subprocess.Popen[str]
    name = "camel"

    def say(self, word: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        self.hear(word)

    def hear(self, word: str) -> None:
        assert self.process.stdout is not None
        if (line := self.process.stdout.readline()).strip() != word:
            raise Failed(f"Camel: {line.strip() or 'ended without a word'}")

    def start(self) -> None:
        self.say("start")

    def stop(self) -> None:
        self.say("stop")


@contextlib.contextmanager
def ours(old: int, new: int) -> Iterator[tuple[Mover, list[Peer]]]:
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as name:
        file = Path(name) / "gateway.toml"
        file.write_text(CONFIGURATION.format(host=HOST, old=old, new=new, window=WINDOW))
        server = servers.start_gateway(Path(name), extra=["--config", str(file)])
        try:
            mover = Ours(server.http_port)
            mover.stop()
            process = server.processes[0]
            yield mover, [Peer("gateway", process, Path(name), kind="gateway", started=server)]
        finally:
            server.kill()


@contextlib.contextmanager
def camel(old: int, new: int) -> Iterator[tuple[Mover, list[Peer]]]:
    if reason := brokers.java_missing("camel", "camel-amqp"):
        raise Missing(reason.replace("tests/interop", "benchmarks"))
    source = str(Path(__file__).parent / "camel" / "Mover.java")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    words = [str(old), "camel", str(new), "queue.camel", str(CONSUMERS)]
    command = ["java", "-Xmx1g", quiet, "-cp", brokers.classpath("camel"), source, *words]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        mover = Camel(process)
        mover.hear("ready")
        started = servers.Server("camel", 0, Path(), Path("/dev/null"), processes=[process])
        yield mover, [Peer("Camel", process, Path(), kind="camel", started=started)]
    finally:
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


# --- messages ------------------------------------------------------------------------------------


def properties(number: int) -> Properties:
    return Properties(
        durable=True, priority=4, message_id=f"message-{number}", correlation_id=f"c-{number}",
        content_type="text/plain", application={"number": number, "text": f"value {number}"},
    )  # fmt: skip


def header_of(number: int) -> bytes:
    return frame(2, struct.pack(">HHQ", 60, 0, SIZE) + BASIC.write(properties(number)))


def publication(queue: str) -> bytes:
    return method(1, (60, 40), b"\0\0" + short("") + short(queue) + b"\0")


def fill(client: Client, queue: str, first: int, count: int) -> None:
    """Publish, and wait until the queue has them all."""
    head, body = publication(queue), frame(3, b"x" * SIZE)
    for begun in range(first, first + count, 1000):
        numbers = range(begun, min(begun + 1000, first + count))
        client.socket.sendall(b"".join(head + header_of(n) + body for n in numbers))
    wait_for(client, queue, count)


def wait_for(client: Client, queue: str, count: int) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while (found := client.declare_queue(queue, durable=True)) != count:
        if time.monotonic() > deadline:
            raise Failed(f"{found} of {count} messages in {queue}")
        time.sleep(0.05)


def pace(client: Client, queue: str, first: int, count: int) -> None:
    """Publish one by one at a fixed rate, each with the time in its body."""
    head = publication(queue)
    begun = time.monotonic()
    for at in range(count):
        octets = header_of(first + at)
        if (wait := begun + at / RATE - time.monotonic()) > 0:
            time.sleep(wait)
        body = b"@%019d" % time.monotonic_ns()
        client.socket.sendall(head + octets + frame(3, body.ljust(SIZE, b"x")))


# --- measurements --------------------------------------------------------------------------------


@dataclass
class Side:
    """A mover, with its processes, and what was measured of it."""

    mover: Mover
    processes: list[Peer]
    count: int = 0
    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)
    tails: list[float] = field(default_factory=list)
    others: float = 0.0


class Carried(NamedTuple):
    """Messages in a second from the first to the last that arrives, processor seconds of brokers
    and mover for each, and how many processors others kept busy."""

    rate: float
    cost: float
    others: float


@dataclass
class House:
    """Both brokers, with a client of the old one."""

    old: Peer
    new: Peer
    client: Client
    number: int = 0

    def numbers(self, count: int) -> int:
        """The first of so many that were never used."""
        self.number += count
        return self.number - count

    def receiver(self, queue: str, count: int) -> Driver:
        return Driver(
            "receiver", self.new.amqp_port, f"queue.{queue}", SIZE, count, 0, WINDOW, 100,
            LIMIT_SECONDS,
        )  # fmt: skip

    def rest(self, side: Side) -> None:
        """Stop the mover when it has settled all, or some would come again."""
        wait_for(self.client, side.mover.name, 0)
        time.sleep(SETTLED_SECONDS)
        side.mover.stop()

    def carry(self, side: Side, count: int) -> Carried:
        """Move so many messages that lie in the queue."""
        queue = side.mover.name
        fill(self.client, queue, self.numbers(count), count)
        with contextlib.ExitStack() as stack:
            receiver = self.receiver(queue, count)
            stack.callback(receiver.stop)
            receiver.wait_ready()
            all_of_them = [self.old, self.new, *side.processes]
            third_parties = ThirdParties()
            busy = sum(one.cpu() for one in all_of_them)
            side.mover.start()
            found = receiver.result()
            busy = sum(one.cpu() for one in all_of_them) - busy
            others = third_parties.busy(busy + found["cpu"])
        self.rest(side)
        if found["delivered"] != count:
            raise Failed(f"{found['delivered']} of {count} delivered")
        rate = count * 1e9 / (found["last"] - found["first"])
        return Carried(rate, busy / count, others)

    def delays(self, side: Side, count: int) -> tuple[float, float]:
        """Median and 99th percentile of milliseconds from publish to receipt."""
        queue = side.mover.name
        side.mover.start()
        with contextlib.ExitStack() as stack:
            warm = 200
            receiver = self.receiver(queue, warm)
            stack.callback(receiver.stop)
            receiver.wait_ready()
            pace(self.client, queue, self.numbers(warm), warm)
            receiver.result()
            receiver = self.receiver(queue, count)
            stack.callback(receiver.stop)
            receiver.wait_ready()
            pace(self.client, queue, self.numbers(count), count)
            found = receiver.result()
        self.rest(side)
        return found["p50"] / 1e6, found["p99"] / 1e6


@contextlib.contextmanager
def source() -> Iterator[tuple[Peer, int | None]]:
    if reason := servers.rabbitmq_missing():
        raise Missing(reason)
    home = Path(tempfile.mkdtemp(prefix="bench-rabbitmq-"))
    plugins = ("rabbitmq_management", "rabbitmq_shovel")
    server = servers.start_rabbitmq(home, plugins=plugins)
    try:
        yield (
            Peer("RabbitMQ", server.processes[0], home, server.port, kind="", started=server),
            server.http_port,
        )
    finally:
        server.kill()
        shutil.rmtree(home, ignore_errors=True)


def measure(house: House, sides: dict[str, Side], quick: bool, repeat: int) -> None:
    """Warm up, then measure in turns."""
    seconds = 1.0 if quick else 4.0
    for side in sides.values():
        house.client.declare_queue(side.mover.name, durable=True)
        rate = max(house.carry(side, 2000)[0], house.carry(side, 4000)[0])
        side.count = int(min(max(rate * seconds, 1000), 100_000))
    for _ in range(repeat):
        for side in sides.values():
            carried = undisturbed(partial(house.carry, side, side.count))
            side.rates.append(carried.rate)
            side.costs.append(carried.cost)
            side.others = max(side.others, carried.others)
    for _ in range(repeat):
        for side in sides.values():
            median, tail = house.delays(side, 500 if quick else 2500)
            side.medians.append(median)
            side.tails.append(tail)


def compared(sides: dict[str, Side], name: str) -> Iterator[Row]:
    mine, theirs = sides["gateway"], sides[name]
    row = Row(GROUP, "0-9-1 to 1.0, new headers", "msg/s", against=RIVALS[name], aim=1.0)
    compare(row, mine.rates, theirs.rates)
    costs = [sum(side.costs) * 1e6 / len(side.costs) for side in (mine, theirs)]
    row.note = f"brokers and mover {costs[0]:.0f} / {costs[1]:.0f} us"
    note_disturbance(row, (mine, theirs))
    yield row
    for what, one, other in (
        ("median", mine.medians, theirs.medians),
        ("p99", mine.tails, theirs.tails),
    ):
        row = Row(GROUP, f"{what} at {RATE} msg/s", "ms", against=RIVALS[name])
        yield compare(row, one, other)


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    """Rates and delays against each rival; one that is missing is named."""
    if not wanted(f"{GROUP} 0-9-1 to 1.0 new headers"):
        return
    with contextlib.ExitStack() as stack:
        try:
            build("receiver")
            old, management = stack.enter_context(source())
            new = stack.enter_context(running("artemis"))
            client = Client(old.amqp_port)
            stack.callback(client.close)
            ports = old.amqp_port, new.amqp_port
            sides = {"gateway": Side(*stack.enter_context(ours(*ports)))}
        except (Missing, Failed) as why:
            yield Row(GROUP, "all", note=f"skipped: {why}")
            return
        sides["rabbitmq"] = Side(Theirs(management, *ports), [])
        try:
            sides["camel"] = Side(*stack.enter_context(camel(*ports)))
        except (Missing, Failed) as why:
            yield Row(GROUP, RIVALS["camel"], note=f"skipped: {why}")
        try:
            measure(House(old, new, client), sides, quick, repeat)
        except Failed as why:
            yield Row(GROUP, "all", note=str(why))
            return
        for name in RIVALS:
            if name in sides:
                yield from compared(sides, name)
