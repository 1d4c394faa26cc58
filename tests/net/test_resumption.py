"""A session of 0-10 over sockets that are cut again and again, while it publishes and consumes:
nothing is lost, nothing comes twice."""

import asyncio
import re
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from gateway.adapters.methods.content import BASIC
from gateway.errors import Condition, Refusal
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial, redial
from gateway.operations import (
    AttachSession,
    BeginSession,
    Closed,
    Confirm,
    DeclareQueue,
    Deliver,
    FindQueue,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    SelectConfirms,
    Settle,
    Subscribe,
)
from tests.in_memory import octets
from tests.net.running import PATIENCE, Running

MESSAGES = 400
LARGE = 100_000
"""Octets of every tenth message where some are large: the gateway has these in files."""


class Cutter(asyncio.Protocol):
    """One half of a connection that passes through here."""

    def __init__(self, passage: "Passage") -> None:
        self.passage = passage
        self.transport: Any = None
        self.other: Cutter | None = None
        self.early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self.early += data
            return
        passes = data[: self.passage.left]
        self.passage.left -= len(passes)
        self.other.transport.write(passes)
        if not self.passage.left:
            self.passage.cuts += 1
            for each in (self, self.other):
                if self.passage.random.random() < 0.5:
                    each.transport.abort()  # what was written may not arrive
                each.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Passage:
    """Listens, and passes a random number of octets of each connection on to the gateway."""

    def __init__(self, port: int, seed: int, most: int = 20_000) -> None:
        self.random = Random(seed)
        self.most = most
        self.left = 0
        self.cuts = 0
        self._to = port

    async def __aenter__(self) -> "Passage":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> Cutter:
        client = Cutter(self)
        self._task = asyncio.get_running_loop().create_task(self._connect(client))
        return client

    async def _connect(self, client: Cutter) -> None:
        loop = asyncio.get_running_loop()
        self.left = 1500 + self.random.randrange(self.most)  # the handshake takes some of them
        _, gateway = await loop.create_connection(lambda: Cutter(self), "127.0.0.1", self._to)
        gateway.other, client.other = client, gateway
        early, client.early = client.early, b""
        client.data_received(early)


class Worker:
    """Publishes numbers, and consumes them from the same queue."""

    def __init__(self, port: int, large: bool = False) -> None:
        self.large = large
        self.dial = partial(dial, ("127.0.0.1", port), version="0-10")
        self.remote: Remote
        self.next = 0
        self.confirmed = 0
        self.received: list[int] = []
        self.to_settle: list[int] = []

    async def begin(self) -> None:
        """Over a line that may be cut at once: until the session stands."""
        while True:
            try:
                self.remote = await redial(self.dial, first=0.01)
                assert await self.remote.request(AttachSession(1, None, seconds=60)) == 60
                return
            except Refusal as refusal:
                assert refusal.condition is Condition.CONNECTION_FORCED, refusal

    async def ask(self, operation: Any) -> Any:
        """A request, which is answered although its connection is lost."""
        while True:
            try:
                answer = self.remote.request(operation)
                break
            except Refusal:
                await self.resume()
        while not answer.done():
            await asyncio.wait([answer], timeout=0.05)
            if self.remote.closed is not None:
                await self.resume()
        return answer.result()

    async def resume(self) -> None:
        """Take what has come, and go on with another connection."""
        async for operation in self.remote:
            self.take(operation)
        while True:
            try:
                remote = await redial(self.dial, first=0.01)
                lost, self.remote = self.remote, remote
                await remote.resume(lost)
                return
            except Refusal as refusal:
                assert refusal.condition is Condition.CONNECTION_FORCED, refusal

    def take(self, operation: Operation) -> None:
        if isinstance(operation, Deliver):
            assert not operation.redelivered
            number, rest = octets(operation.message).split(b" ")
            self.received.append(int(number))
            assert len(rest) in (LARGE, self.received[-1] * 37 % 900)
            self.to_settle.append(operation.delivery)
        elif isinstance(operation, Confirm):
            assert operation.accepted
            self.confirmed = operation.sequence

    def send(self) -> None:
        """Settle what has come, and publish. Raises ``Refusal`` if the connection is gone."""
        while self.to_settle:
            self.remote.send(Settle(1, self.to_settle[0], False, Outcome.ACCEPT))
            self.to_settle.pop(0)
        while self.next < min(MESSAGES, self.confirmed + 25):
            size = LARGE if self.large and self.next % 10 == 0 else self.next * 37 % 900
            body = b"%d " % self.next + b"x" * size
            header = BASIC.write(Properties(durable=True))
            message = Message(BASIC, header, body, "", "q", BASIC.essentials(header))
            self.remote.send(Publish(1, message, False, False))
            self.next += 1

    async def work(self) -> None:
        while True:
            try:
                self.send()
                await self.remote.drain()
                # The last delivery may be the last that comes: after its confirm, if it was lost.
                if self.confirmed == MESSAGES and len(self.received) == MESSAGES:
                    return
                async with asyncio.timeout(PATIENCE):
                    self.take(await anext(self.remote))
            except (Refusal, StopAsyncIteration):
                await self.resume()


async def conversation(gateway: Running, seed: int, large: bool) -> None:
    most = 4 * LARGE if large else 20_000
    async with Passage(gateway.port, seed, most) as passage:
        worker = Worker(passage.port, large)
        await worker.begin()
        await worker.ask(DeclareQueue(1, None, "q", durable=True))
        await worker.ask(SelectConfirms(1, None))
        await worker.ask(Prefetch(1, None, 40))
        await worker.ask(Subscribe(1, None, "q", "c"))
        await worker.work()
        found = await worker.ask(FindQueue(1, None, "q"))
        assert sorted(worker.received) == list(range(MESSAGES))
        assert found.messages == 0
        assert passage.cuts > 10
        await worker.remote.close()


@pytest.mark.parametrize(("seed", "large"), [(0, False), (1, False), (2, False), (3, True)])
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, seed: int, large: bool) -> None:
    with Running(tmp_path, limits__large_octets=65536) as gateway:
        asyncio.run(asyncio.wait_for(conversation(gateway, seed, large), 4 * PATIENCE))
        queue = httpx.get(
            f"http://127.0.0.1:{gateway.http_port}/api/queues/%2F/q", auth=("guest", "guest")
        ).json()
        assert queue["messages"] == 0


async def over_http(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        where = f"http://127.0.0.1:{gateway.http_port}"
        async with httpx.AsyncClient(base_url=where, auth=("guest", "guest")) as http:
            remote = await dial(("127.0.0.1", gateway.port), version="0-10")
            await remote.request(AttachSession(1, None, b"mine\xff", seconds=60))
            await remote.request(DeclareQueue(1, None, "q"))
            await remote.request(Prefetch(1, None, 5))
            await remote.request(Subscribe(1, None, "q", "c"))
            header = BASIC.write(Properties())
            message = Message(BASIC, header, b"x" * 5000, "", "q", BASIC.essentials(header))
            remote.send(Publish(1, message, False, False))
            await remote.drain()
            assert isinstance(await anext(remote), Deliver)
            (one,) = (await http.get("/v1/admin/sessions")).json()["sessions"]
            connection = one.pop("connection")
            assert one == {
                "id": 1, "name": "mine\\xff", "user": "guest", "vhost": "/", "state": "attached",
                "timeout_seconds": 60, "left_seconds": None, "consumers": 1, "unacknowledged": 1,
            }  # fmt: skip
            refused = await http.delete("/v1/admin/sessions/1")
            assert refused.status_code == 409
            assert (await http.delete(f"/v1/admin/connections/{connection}")).status_code == 204
            async for operation in remote:
                assert isinstance(operation, Closed)
            found: list[dict[str, Any]] = [{"state": "attached"}]
            while found[0]["state"] != "kept":
                found = (await http.get("/v1/admin/sessions")).json()["sessions"]
            assert found[0]["connection"] is None and 0 < found[0]["left_seconds"] <= 60
            assert (found[0]["consumers"], found[0]["unacknowledged"]) == (1, 1)
            metrics = (await http.get("/metrics")).text
            assert "amqp_gateway_sessions_kept 1.0" in metrics
            (octets,) = re.findall(r"(?m)^amqp_gateway_session_replay_octets (\S+)$", metrics)
            assert float(octets) > 5000
            assert (await http.delete("/v1/admin/sessions/1")).status_code == 204
            assert (await http.get("/v1/admin/sessions")).json() == {"sessions": []}
            assert (await http.delete("/v1/admin/sessions/1")).status_code == 404
            queue = (await http.get("/api/queues/%2F/q")).json()
            assert (queue["messages_ready"], queue["messages_unacknowledged"]) == (1, 0)
            metrics = (await http.get("/metrics")).text
            assert "amqp_gateway_sessions_expired_total 1.0" in metrics
            assert "amqp_gateway_session_replay_octets 0.0" in metrics


def test_sessions_over_http(tmp_path: Path) -> None:
    asyncio.run(asyncio.wait_for(over_http(tmp_path), PATIENCE))


async def over_a_crash(gateway: Running) -> None:
    """The gateway forgets the session; what it has confirmed is there."""
    worker = Worker(gateway.port)
    await worker.begin()
    await worker.ask(DeclareQueue(1, None, "q", durable=True))
    await worker.ask(SelectConfirms(1, None))
    while worker.confirmed < 25:
        worker.send()
        worker.take(await anext(worker.remote))
    gateway.kill()
    async for operation in worker.remote:
        worker.take(operation)
    under_way = worker.next - worker.confirmed
    gateway.start()
    again = await dial(("127.0.0.1", gateway.port), version="0-10")
    with pytest.raises(Refusal, match="has not kept") as refused:
        await again.resume(worker.remote)
    assert refused.value.condition is Condition.NOT_FOUND
    await again.request(BeginSession(2, None))
    found = await again.request(FindQueue(2, None, "q"))
    assert 25 <= worker.confirmed <= found.messages <= worker.confirmed + under_way
    await again.close()


def test_a_gateway_that_is_killed(tmp_path: Path) -> None:
    with Running(tmp_path) as gateway:
        asyncio.run(asyncio.wait_for(over_a_crash(gateway), PATIENCE))
