"""Some consumers of a queue change their broker before the others: by client, or by key."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.adapters import Credentials
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Bind,
    Confirm,
    DeclareExchange,
    DeclareQueue,
    Deliver,
    Fetch,
    Fetched,
    Outcome,
    Prefetch,
    Publish,
    SelectConfirms,
    Settle,
    Subscribe,
)
from tests.bridge.test_facade import confirmed, deliveries, depth, entered, message, run
from tests.bridge.test_modes import PATH, ask, between, change, made, modes, post, settled
from tests.net.running import PATIENCE, Running, until

VERSIONS = [("0-9-1", "1.0"), ("0-10", "0-9-1"), ("1.0", "1.0"), ("0-8", "0-10")]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Running]]:
    with (
        Running(tmp_path_factory.mktemp("old")) as old,
        Running(tmp_path_factory.mktemp("new")) as new,
    ):
        yield old, new


@pytest.fixture(scope="module", params=VERSIONS, ids="-to-".join)
def front(
    request: pytest.FixtureRequest,
    brokers: tuple[Running, Running],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    old, new = brokers
    with between(tmp_path_factory.mktemp("front"), old.port, new.port, request.param) as running:
        add_user(running, "alice")
        yield running


def add_user(running: Running, name: str) -> None:
    base = f"http://127.0.0.1:{running.http_port}/api"
    body: dict[str, Any] = {"password": name, "tags": ""}
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    for path, given in ((f"/users/{name}", body), (f"/permissions/%2F/{name}", rights)):
        answer = httpx.put(base + path, json=given, auth=("guest", "guest"), trust_env=False)
        assert answer.status_code in (201, 204), answer.text


def split(front: Running, queue: str, **share: object) -> None:
    """Let some clients go first, and wait for the end of the change."""
    answer = post(front, {"mode": "old-only", "queues": [queue], **share})
    assert answer.status_code == 202, answer.text
    settled(front, queue)
    assert modes(front)[queue]["error"] == ""


def consumers(running: Running, queue: str) -> int:
    found = {one["name"]: one["consumers"] for one in running.asked("/api/queues")}
    return int(found.get(queue, 0))


class Reader:
    """A consumer that settles what it gets."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.got: list[int] = []
        self.keys: dict[str, list[int]] = {}
        self._task: asyncio.Task[None]

    @staticmethod
    async def begin(port: int, queue: str, user: str = "guest", version: str = "0-9-1") -> "Reader":
        remote = await dial(
            ("127.0.0.1", port), version=version, credentials=Credentials(user, user)
        )
        await remote.request(BeginSession(1, None))
        await remote.request(Prefetch(1, None, 20))
        await remote.request(Subscribe(1, None, queue))
        reader = Reader(remote)
        reader._task = asyncio.create_task(reader._read())
        return reader

    async def _read(self) -> None:
        async for operation in self.remote:
            assert isinstance(operation, Deliver), operation
            properties = operation.message.properties
            number = int((properties.application or {})["n"])
            assert bytes(operation.message.body[:]) == f"body {number}".encode()
            self.got.append(number)
            self.keys.setdefault(str(properties.group_id), []).append(number)
            self.remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
            self.remote.wake()

    async def end(self) -> None:
        assert not self._task.done(), self._task.exception()
        await self.leave()

    async def leave(self) -> None:
        """Also from a gateway that was killed."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.remote.close()


class Writer:
    """Publishes with seven keys all the time, or a number of messages at once."""

    def __init__(self, remote: Remote, queue: str) -> None:
        self.remote, self.queue = remote, queue
        self.sent = self.confirmed = 0
        self._tasks: list[asyncio.Task[None]] = []

    @staticmethod
    async def begin(port: int, queue: str) -> "Writer":
        remote = await entered(port)
        await remote.request(SelectConfirms(1, None))
        writer = Writer(remote, queue)
        writer._tasks.append(asyncio.create_task(writer._hear()))
        return writer

    async def _hear(self) -> None:
        async for operation in self.remote:
            assert isinstance(operation, Confirm) and operation.accepted, operation
            self.confirmed = operation.sequence

    def flow(self) -> None:
        self._tasks.append(asyncio.create_task(self._flow()))

    async def _flow(self) -> None:
        while True:
            self.publish(3)
            await asyncio.sleep(0.005)
            while True:
                if self.sent - self.confirmed <= 100:
                    break
                await asyncio.sleep(0.005)

    def publish(self, count: int) -> None:
        for _ in range(count):
            key = f"key {self.sent % 7}"
            one = message(self.sent, self.queue, group_id=key)
            self.remote.send(Publish(1, one, True, False))
            self.sent += 1
        self.remote.wake()

    async def end(self, *readers: Reader) -> None:
        """No more publishes; wait until all have come."""
        for task in self._tasks[1:]:
            task.cancel()
        await met(
            lambda: (
                self.confirmed == self.sent
                and len({n for one in readers for n in one.got}) == self.sent
            )
        )
        await self.leave()

    async def leave(self) -> None:
        """Also from a gateway that was killed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.remote.close()


async def met(condition: Any) -> None:
    await asyncio.to_thread(until, condition, "it holds")


@pytest.mark.parametrize("client", ["0-9-1", "1.0"])
def test_consumers_of_one_client_go_first(
    front: Running, brokers: tuple[Running, Running], client: str
) -> None:
    """They have their subscription at the new broker and get their part of the messages there,
    once; when they go, the others get what is left. Everybody stays connected."""
    old, new = brokers
    queue = f"clients {client} {front.port}"

    async def scenario() -> None:
        await made(front, queue)
        mine = await Reader.begin(front.port, queue, "guest", client)
        hers = await Reader.begin(front.port, queue, "alice", client)
        writer = await Writer.begin(front.port, queue)
        writer.flow()
        await met(lambda: mine.got and hers.got)
        await asyncio.to_thread(split, front, queue, consumers=["alice"])
        assert modes(front)[queue]["consumers"] == ["alice"]
        await met(lambda: consumers(new, queue) == 1)
        before = len(hers.got)
        await met(lambda: len(hers.got) > before + 20)
        assert modes(front)[queue]["supplied"] >= 20
        before = len(mine.got)
        await met(lambda: len(mine.got) > before + 20)
        await hers.end()
        await met(lambda: modes(front)[queue]["error"] == "" and len(mine.got) > before + 50)
        again = await Reader.begin(front.port, queue, "alice", client)
        await met(lambda: len(again.got) > 20)
        await asyncio.to_thread(split, front, queue)
        await met(lambda: consumers(old, queue) == 2 and consumers(new, queue) == 0)
        before = len(again.got)
        await met(lambda: len(again.got) > before + 20)
        await writer.end(mine, hers, again)
        # What alice had not settled when she went comes again.
        got = sorted(mine.got + hers.got + again.got)
        assert len(got) <= writer.sent + 20
        for one in (mine, again):
            assert len(set(one.got)) == len(one.got)
            await one.end()

    run(scenario())
    until(lambda: depth(old, queue) == depth(new, queue) == 0, "both are empty")


def test_keys_go_first(front: Running, brokers: tuple[Running, Running]) -> None:
    """One consumer is at both brokers, and gets the messages of each key in their order, also those
    that waited when the share changed."""
    old, new = brokers
    queue = f"keys {front.port}"

    async def scenario() -> None:
        await made(front, queue)
        writer = await Writer.begin(front.port, queue)
        writer.publish(200)
        await met(lambda: writer.confirmed == 200)
        reader = await Reader.begin(front.port, queue)
        writer.flow()
        for keys in (40, 100, 40, 0, 70):
            await asyncio.to_thread(split, front, queue, keys=keys)
            if keys:
                await met(lambda: modes(front)[queue]["opened"])
                await met(lambda: consumers(old, queue) == consumers(new, queue) == 1)
            before = len(reader.got)
            await met(lambda: len(reader.got) > before + 50)  # noqa: B023
        fetcher = await entered(front.port)
        for mode in ("new-primary", "old-only"):
            await asyncio.to_thread(change, front, mode, queue)
        await writer.end(reader)
        assert sorted(reader.got) == list(range(writer.sent))
        assert all(found == sorted(found) for found in reader.keys.values())
        await reader.end()
        await fetcher.close()

    run(scenario())
    until(lambda: depth(old, queue) == depth(new, queue) == 0, "both are empty")


def test_what_waits_at_both_brokers_is_fetched(
    front: Running, brokers: tuple[Running, Running]
) -> None:
    """One by one, and by the drain of a credit."""
    old, new = brokers
    queue = f"fetched {front.port}"

    async def scenario() -> None:
        await made(front, queue)
        await asyncio.to_thread(split, front, queue, keys=50)
        await met(lambda: modes(front)[queue]["opened"] or fetch_once(front, queue))
        for version in ("0-9-1", "1.0"):
            writer = await Writer.begin(front.port, queue)
            writer.publish(40)
            await met(lambda: depth(old, queue) > 0 and depth(new, queue) > 0)
            await met(lambda: depth(old, queue) + depth(new, queue) == 40)
            reader = await entered(front.port, version)
            found = []
            for _ in range(40):
                fetched = await reader.request(Fetch(1, None, queue, True))
                assert isinstance(fetched, Fetched)
                found.append((fetched.message.properties.application or {})["n"])
            assert await reader.request(Fetch(1, None, queue, True)) is None
            assert sorted(found) == list(range(40))
            await reader.close()
            await writer.leave()

    run(scenario())


def fetch_once(front: Running, queue: str) -> bool:
    """A mark is seen when somebody takes it."""
    url = f"http://127.0.0.1:{front.http_port}/api/queues/%2F/{queue}/get"
    body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    answer = httpx.post(url, json=body, auth=("guest", "guest"), trust_env=False, timeout=PATIENCE)
    assert answer.status_code == 200 and answer.json() == [], answer.text
    return False


def test_what_cannot_be_split_is_refused(front: Running, brokers: tuple[Running, Running]) -> None:
    queue = f"refused {front.port}"
    for share in (
        {"mode": "mirror", "consumers": ["alice"]},
        {"mode": "shadow", "keys": 10},
        {"mode": "old-only", "keys": 10, "percent": 5},
        {"mode": "old-only", "keys": 10, "consumers": ["alice"]},
    ):
        answer = post(front, {"queues": [queue], **share})
        assert answer.status_code == 409, answer.text
    assert post(front, {"mode": "old-only", "queues": [queue], "keys": 101}).status_code == 422
    assert post(front, {"mode": "old-only", "queues": [queue], "keys": "5"}).status_code == 422

    async def scenario() -> None:
        remote = await entered(front.port)
        for running in brokers[:1]:
            direct = await entered(running.port)
            await direct.request(DeclareQueue(1, None, queue, durable=True))
            await direct.close()
        answer = post(front, {"mode": "old-only", "queues": [queue], "keys": 10})
        assert answer.status_code == 202
        await asyncio.to_thread(settled, front, queue)
        told = modes(front)[queue]
        assert told["keys"] == 0 and told["error"]
        await remote.close()

    run(scenario())


def test_a_share_of_an_exchange_needs_readers(
    brokers: tuple[Running, Running], tmp_path: Path
) -> None:
    """Where nobody would read what its producers put into a queue at the other broker."""
    old, new = brokers

    async def scenario(front: Running) -> None:
        remote = await entered(front.port)
        await remote.request(DeclareExchange(1, None, "some", "topic", durable=True))
        await remote.request(DeclareQueue(1, None, "sum", durable=True))
        await remote.request(Bind(1, None, "sum", "some", "#"))
        body = {"mode": "old-only", "exchanges": ["some"], "percent": 100}
        answer = await asyncio.to_thread(post, front, body)
        assert answer.status_code == 409 and "'sum'" in answer.json()["detail"], answer.text
        body = {"mode": "old-only", "exchanges": ["some"], "queues": ["sum"], "keys": 100}
        assert (await asyncio.to_thread(post, front, body)).status_code == 202
        await asyncio.to_thread(settled, front, "some")
        reader = await entered(front.port)
        await reader.request(Subscribe(1, None, "sum"))
        await asyncio.to_thread(until, lambda: modes(front)["sum"]["opened"], "it is open")
        assert await confirmed(remote, [message(1, "k", "some")]) == 1
        (found,) = await deliveries(reader, 1)
        assert found.message.exchange == "some" and bytes(found.message.body[:]) == b"body 1"
        assert ask(front, "old-only", "sum").status_code == 409
        for one in (remote, reader):
            await one.close()

    with between(tmp_path, old.port, new.port) as front:
        run(scenario(front))


@pytest.mark.parametrize("share", [{"consumers": ["alice"]}, {"keys": 50}], ids=["client", "keys"])
def test_a_killed_gateway_keeps_its_shares(
    brokers: tuple[Running, Running], tmp_path: Path, share: dict[str, Any]
) -> None:
    """Nothing is lost, and consumers that come back are where they were."""
    old, new = brokers
    queue = f"killed {sorted(share)}"

    async def scenario(front: Running) -> None:
        await made(front, queue)
        await asyncio.to_thread(split, front, queue, **share)
        readers = [await Reader.begin(front.port, queue, name) for name in ("guest", "alice")]
        writer = await Writer.begin(front.port, queue)
        writer.flow()
        await met(lambda: consumers(new, queue) > 0 and readers[1].got)
        await met(lambda: len(readers[0].got) > 30)
        confirmed = writer.confirmed
        await asyncio.to_thread(front.kill)
        leaving: list[Reader | Writer] = [*readers, writer]
        for one in leaving:
            await one.leave()
        front.start()
        later = [await Reader.begin(front.port, queue, name) for name in ("guest", "alice")]
        await met(lambda: consumers(new, queue) > 0)
        every = (*readers, *later)
        await met(lambda: set(range(confirmed)) <= {n for one in every for n in one.got})
        # Some were published before the kill that had no confirm.
        await met(lambda: depth(old, queue) <= 0 and depth(new, queue) <= 0)
        for one in later:
            await one.end()

    with between(tmp_path, old.port, new.port) as front:
        add_user(front, "alice")
        run(scenario(front))


def test_the_share_is_shown(front: Running) -> None:
    (answer,) = [
        one for one in front.asked(PATH)["modes"] if one["name"] == f"keys {front.port}"
    ] or [{"keys": 0, "opened": False, "consumers": []}]
    assert answer["keys"] == 0 and answer["consumers"] == []
