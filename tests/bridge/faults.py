"""Faults at the ends of a shovel and in itself, while numbered messages move through it."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx

from gateway.errors import GatewayError
from gateway.operations import (
    Closed,
    DeclareQueue,
    Deliver,
    Outcome,
    Prefetch,
    SessionLost,
    Settle,
    Subscribe,
)
from tests import in_memory
from tests.bridge import moving
from tests.bridge.relay import Relay
from tests.net.running import PATIENCE, Running, until

SOURCE, TARGET = "leaving", "arrived"
ROOM = 200
"""Messages that the queue at the target takes."""
BATCH = 20
PAUSE = 0.02
"""Seconds between two batches of the publisher."""
CONFIGURATION = """
[[upstreams]]
name = "source"
addresses = ["amqp://127.0.0.1:{source}"]
version = "{of_source}"
user = "{user}"
password = "right"
connect_seconds = 5

[[upstreams]]
name = "target"
addresses = ["amqp://127.0.0.1:{target}"]
version = "{of_target}"
user = "{user}"
password = "right"
connect_seconds = 5

[[shovels]]
name = "over"
source = {{ upstream = "source", queue = "leaving" }}
destination = {{ upstream = "target", queue = "{queue}" }}
window = 100
retries = 1000000
retry_seconds = 0.05
"""


class Broker(Protocol):
    """One end; `Running` is one."""

    @property
    def port(self) -> int: ...

    def kill(self) -> None:
        """As a power cut would."""
        ...

    def start(self) -> None:
        """Again, with its data, perhaps on another port."""
        ...


class Traffic:
    """Publishes numbers at the source and takes them at the target, each in a thread of its own,
    whatever happens. ``confirmed`` are those that the source has confirmed; ``seen`` counts what
    has arrived, ``flagged`` how often it was marked as redelivered."""

    def __init__(
        self, source: Broker, take: "Callable[[Traffic], None]", version: str = "0-9-1"
    ) -> None:
        self.confirmed: set[int] = set()
        self.uncertain: set[int] = set()
        self.seen: Counter[int] = Counter()
        self.flagged: Counter[int] = Counter()
        self.slow = 0.0
        """Seconds that each message takes at the target."""
        self.ending = threading.Event()
        self.publishing = threading.Event()
        self._source = source
        self._take = take
        self._version = version
        self._threads = [
            threading.Thread(target=self._publish, daemon=True),
            threading.Thread(target=self._consume, daemon=True),
        ]
        self.errors: list[BaseException] = []

    def __enter__(self) -> "Traffic":
        self.publishing.set()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.publishing.clear()
        self.ending.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def stop_publishing(self) -> None:
        self.publishing.clear()
        self._threads[0].join(PATIENCE)

    def _publish(self) -> None:
        first = 0
        while self.publishing.is_set():
            numbers = range(first, first + BATCH)
            first += BATCH
            try:
                moving.publish(self._source.port, SOURCE, numbers, version=self._version)
            except (OSError, GatewayError, StopAsyncIteration, AssertionError, EOFError):
                self.uncertain.update(numbers)  # the source may have them, and did not say so
            except BaseException as error:
                self.errors.append(error)
                raise
            else:
                self.confirmed.update(numbers)
            time.sleep(PAUSE)

    def _consume(self) -> None:
        while not self.ending.is_set():
            with suppress(OSError, GatewayError, EOFError):
                self._take(self)
            time.sleep(0.02)

    def note(self, body: str, redelivered: bool) -> None:
        number = int(body.removeprefix("body "))
        self.seen[number] += 1
        self.flagged[number] += redelivered

    def missing(self) -> set[int]:
        return self.confirmed - self.seen.keys()


def taking(
    target: Broker, queue: str = TARGET, version: str = "0-9-1"
) -> Callable[[Traffic], None]:
    """Take from the target until the connection is lost, or there is nothing more to come."""

    async def take(traffic: Traffic) -> None:
        remote = await moving.entered(target.port, version)
        try:
            await remote.request(Prefetch(1, None, 50))
            await remote.request(Subscribe(1, None, queue))
            while not traffic.ending.is_set():
                try:
                    operation = await asyncio.wait_for(anext(remote), 0.2)
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    return
                if isinstance(operation, Closed | SessionLost):
                    return
                if isinstance(operation, Deliver):
                    if traffic.slow:
                        await asyncio.sleep(traffic.slow)
                    traffic.note(in_memory.text(operation.message), operation.redelivered)
                    remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
                    remote.wake()
        finally:
            await remote.close()

    return lambda traffic: asyncio.run(take(traffic))


def limited(port: int) -> None:
    """A queue that refuses messages while it is full."""

    async def declare() -> None:
        remote = await moving.entered(port)
        arguments = {"x-max-length": ROOM, "x-overflow": "reject-publish"}
        await remote.request(DeclareQueue(1, None, TARGET, durable=True, arguments=arguments))
        await remote.close()

    asyncio.run(declare())


Fault = Callable[[random.Random], None]
"""Makes a fault and mends it."""


def rest(dice: random.Random, longest: float = 0.3) -> None:
    time.sleep(dice.uniform(0.02, longest))


def kills(broker: Broker, relay: Relay | None = None) -> Fault:
    """``kill -9``, and a start with the same data; the relay before it leads there."""

    def fault(dice: random.Random) -> None:
        broker.kill()
        rest(dice)
        broker.start()
        if relay is not None:
            relay.target = broker.port

    return fault


def cuts(relay: Relay) -> Fault:
    """The network is cut, for a while."""

    def fault(dice: random.Random) -> None:
        relay.open = dice.random() < 0.5
        relay.cut()
        rest(dice)
        relay.open = True

    return fault


def delays(relay: Relay) -> Fault:
    def fault(dice: random.Random) -> None:
        relay.delay = dice.uniform(0.01, 0.1)
        rest(dice, 0.8)
        relay.delay = 0.0

    return fault


def slows(traffic: Traffic, seconds: float) -> Fault:
    """The consumer at the target hardly takes anything, so that its queue fills."""

    def fault(dice: random.Random) -> None:
        traffic.slow = seconds
        rest(dice, 1.5)
        traffic.slow = 0.0

    return fault


def forgets(broker: Running, relay: Relay) -> Fault:
    """The password of the shovel's user is another one, for a while."""

    def fault(dice: random.Random) -> None:
        password(broker, "other")
        relay.cut()
        rest(dice)
        password(broker, "right")

    return fault


def password(broker: Running, secret: str) -> None:
    body = {"password": secret, "tags": ""}
    put(broker, "/api/users/mover", body)


def permit(broker: Running) -> None:
    """A user for the shovel."""
    password(broker, "right")
    rights = {name: ".*" for name in ("configure", "write", "read")}
    put(broker, "/api/permissions/%2F/mover", rights)


def put(broker: Running, path: str, body: dict[str, Any]) -> None:
    url = f"http://127.0.0.1:{broker.http_port}{path}"
    httpx.put(url, json=body, auth=("guest", "guest"), timeout=PATIENCE).raise_for_status()


def configured(
    folder: Path, source: Relay, target: Relay, versions: tuple[str, str], user: str, queue: str
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "gateway.toml"
    file.write_text(
        CONFIGURATION.format(
            source=source.port,
            target=target.port,
            of_source=versions[0],
            of_target=versions[1],
            user=user,
            queue=queue,
        )  # fmt: skip
    )
    return file


def survive(
    known: dict[str, Fault], traffic: Traffic, bridge: Running, count: int, seed: int
) -> None:
    """So many faults, each kind as often as the others; then all that was confirmed arrives."""
    dice = random.Random(seed)
    names: list[str] = []
    while len(names) < count:
        names += dice.sample(list(known), k=len(known))
    happened: list[str] = []
    for name in names[:count]:
        happened.append(name)
        known[name](dice)
        before = traffic.seen.total()
        if dice.random() < 0.5:  # or the next one comes while the shovel is not over this one
            until(partial(more_than, traffic, before), f"messages arrive after {happened[-3:]}")
    traffic.stop_publishing()
    with suppress(AssertionError):
        until(lambda: not traffic.missing(), "all arrive", 2 * PATIENCE)
    assert not traffic.missing(), (happened, moving.shovels(bridge)["over"])
    told = moving.shovels(bridge)["over"]
    assert told["parked"] == told["rejected"] == 0
    assert not traffic.errors
    assert traffic.seen.keys() <= traffic.confirmed | traffic.uncertain
    assert len(traffic.confirmed) >= count


def more_than(traffic: Traffic, count: int) -> bool:
    return traffic.seen.total() > count
