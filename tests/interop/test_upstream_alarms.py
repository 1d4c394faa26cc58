"""RabbitMQ runs short of memory while shovels and a facade use it: it reads nothing from its
publishers for a while. And it gets another password, and closes their connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Blocked,
    Confirm,
    Deliver,
    Prefetch,
    Publish,
    SelectConfirms,
    Subscribe,
    Unblocked,
)
from tests import in_memory
from tests.bridge import moving
from tests.interop import servers
from tests.interop.servers import Server, rabbitmq_memory_alarm
from tests.net.running import PATIENCE, Running, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(200)]

COUNT = 200
HEARTBEAT = 2
SILENCE = 4 * HEARTBEAT
"""Seconds after which either side would have given up the other."""
CONFIGURATION = """
[[upstreams]]
name = "rabbitmq"
addresses = ["amqp://127.0.0.1:{port}"]
version = "0-9-1"

[[upstreams]]
name = "links"
addresses = ["amqp://127.0.0.1:{port}"]
version = "1.0"

[[facades]]
vhost = "shown"
upstream = "rabbitmq"

[[shovels]]
name = "in"
source = {{ upstream = "rabbitmq", queue = "there" }}
destination = {{ queue = "here" }}

[[shovels]]
name = "out"
source = {{ queue = "leaving" }}
destination = {{ upstream = "rabbitmq", queue = "arrived" }}

[[shovels]]
name = "out-1-0"
source = {{ queue = "leaving.1.0" }}
destination = {{ upstream = "links", queue = "arrived.1.0" }}
"""
QUEUES = {"out": ("leaving", "arrived"), "out-1-0": ("leaving.1.0", "arrived.1.0")}


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rabbitmq")
    server = servers.start_rabbitmq(folder, plugins=["rabbitmq_amqp1_0"])
    try:
        moving.declare(server, "there", "arrived", "arrived.1.0", "work")
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def gateway(rabbit: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    file = folder / "gateway.toml"
    file.write_text(CONFIGURATION.format(port=rabbit.port))
    with Running(folder, "--config", file, amqp__heartbeat_seconds=HEARTBEAT) as running:
        moving.declare(running, "here", "leaving", "leaving.1.0")
        until(lambda: all(one["state"] == "running" for one in told(running)), "shovels run")
        yield running


def told(gateway: Running) -> list[Any]:
    return list(moving.shovels(gateway).values())


def blocked(gateway: Running) -> str:
    """The answer of RabbitMQ about its memory, as the administration shows it."""
    found = gateway.asked("/v1/admin/upstreams")["upstreams"]
    return str(next(one["blocked"] for one in found if one["name"] == "rabbitmq"))


@pytest.mark.parametrize("shovel", QUEUES)
def test_a_destination_without_memory(rabbit: Server, gateway: Running, shovel: str) -> None:
    """It is waited for, over the same connection, and every message comes once. (Its 1.0 plugin
    takes messages all the same.)"""
    leaving, arrived = QUEUES[shovel]
    before = moving.shovels(gateway)[shovel]
    moving.publish(gateway.port, leaving, range(COUNT))
    moving.taken(rabbit.port, arrived, COUNT)
    with rabbitmq_memory_alarm(rabbit):
        moving.publish(gateway.port, leaving, range(COUNT))
        if shovel == "out":
            until(lambda: "memory" in blocked(gateway), "it is told")
            until(lambda: moving.shovels(gateway)[shovel]["under_way"] == COUNT, "under way")
        time.sleep(SILENCE)
        assert moving.shovels(gateway)[shovel]["state"] == "running"
    found = moving.taken(rabbit.port, arrived, COUNT)
    assert [in_memory.text(one.message) for one in found] == [f"body {n}" for n in range(COUNT)]
    until(lambda: moving.shovels(gateway)[shovel]["moved"] == before["moved"] + 2 * COUNT, "moved")
    assert moving.shovels(gateway)[shovel]["connected"] == before["connected"]
    until(lambda: not blocked(gateway), "it is over")


def test_a_source_without_memory(rabbit: Server, gateway: Running) -> None:
    """It delivers all the same."""
    moving.publish(rabbit.port, "there", range(COUNT))
    with rabbitmq_memory_alarm(rabbit):
        assert len(moving.taken(gateway.port, "here", COUNT)) == COUNT
        until(lambda: moving.shovels(gateway)["in"]["under_way"] == 0, "all are settled")


class Client:
    """One of the facade's, and the operations that it has heard."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.bodies: list[str] = []
        self.confirmed = 0
        self.told: list[type[Any]] = []
        self._task = asyncio.create_task(self._hear())

    async def _hear(self) -> None:
        async for operation in self.remote:
            if isinstance(operation, Confirm):
                assert operation.accepted
                self.confirmed = operation.sequence
            elif isinstance(operation, Deliver):
                self.bodies.append(in_memory.text(operation.message))
            else:
                self.told.append(type(operation))

    async def publish(self, numbers: range) -> None:
        for n in numbers:
            self.remote.send(Publish(1, moving.message(n, "work"), True, False))
        self.remote.wake()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                assert not self._task.done(), self._task
                await asyncio.sleep(0.02)


async def entered(port: int) -> Client:
    remote = await dial(("127.0.0.1", port), version="0-9-1", vhost="shown")
    await remote.request(BeginSession(1, None))
    return Client(remote)


def test_the_upstream_of_a_facade_without_memory(rabbit: Server, gateway: Running) -> None:
    """Publishers hear of it, and so do those that come meanwhile; nothing is confirmed until it is
    over; consumers go on; every message comes once."""

    async def use() -> None:
        publisher, consumer = await entered(gateway.port), await entered(gateway.port)
        await publisher.remote.request(SelectConfirms(1, None))
        await consumer.remote.request(Prefetch(1, None, 3 * COUNT))
        await publisher.publish(range(COUNT))
        await publisher.until(lambda: publisher.confirmed == COUNT)
        alarm = rabbitmq_memory_alarm(rabbit)
        await asyncio.to_thread(alarm.__enter__)
        try:
            await publisher.publish(range(COUNT, 2 * COUNT))
            await publisher.until(lambda: Blocked in publisher.told)
            await consumer.remote.request(Subscribe(1, None, "work"))
            await consumer.until(lambda: len(consumer.bodies) == COUNT)
            late = await entered(gateway.port)
            await late.until(lambda: late.told == [Blocked])
            await asyncio.sleep(SILENCE)
            assert publisher.confirmed == COUNT
        finally:
            await asyncio.to_thread(alarm.__exit__, None, None, None)
        await publisher.until(lambda: publisher.confirmed == 2 * COUNT)
        await consumer.until(lambda: len(consumer.bodies) == 2 * COUNT)
        assert consumer.bodies == [f"body {n}" for n in range(2 * COUNT)]
        for client in (publisher, consumer, late):
            await client.until(lambda client=client: client.told == [Blocked, Unblocked])  # type: ignore[misc]
            await client.remote.close()

    asyncio.run(use())
    assert gateway.asked("/v1/admin/facades")["facades"][0]["connected"] == 1


def test_another_password(rabbit: Server, gateway: Running) -> None:
    """Each says that it is refused, and goes on when the password is right again."""
    servers.rabbitmqctl(rabbit, "change_password", "guest", "other")
    try:
        servers.rabbitmqctl(rabbit, "close_all_connections", "new password")
        until(lambda: all("refused" in error for error in errors(gateway)), "all are refused")
        moving.publish(gateway.port, "leaving", range(COUNT))
        moving.publish(gateway.port, "leaving.1.0", range(COUNT))
    finally:
        servers.rabbitmqctl(rabbit, "change_password", "guest", "guest")
    for _, arrived in QUEUES.values():
        assert len(moving.taken(rabbit.port, arrived, COUNT)) == COUNT
    until(lambda: gateway.asked("/v1/admin/facades")["facades"][0]["state"] == "connected", "it is")


def errors(gateway: Running) -> list[str]:
    facade = gateway.asked("/v1/admin/facades")["facades"][0]
    return [str(one["error"]) for one in (*told(gateway), facade)]
