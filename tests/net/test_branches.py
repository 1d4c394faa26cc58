"""Branches of distributed transactions between the versions: one does the work, another is the
coordinator, and the gateway is killed between preparation and commit."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from gateway.adapters.methods.content import BASIC
from gateway.errors import Refusal
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Bind,
    BranchStatus,
    CommitBranch,
    DeclareQueue,
    EndBranch,
    EndSession,
    Fetch,
    ForgetBranch,
    Outcome,
    PrepareBranch,
    Publish,
    PurgeQueue,
    RecoverBranches,
    RollbackBranch,
    SelectBranches,
    Settle,
    StartBranch,
    Xid,
)
from tests.net.running import PATIENCE, Running
from tests.net.test_every_pair import LISTENERS, TRANSITIONAL, port_of

WHOLE = ("0-10", *TRANSITIONAL)
"""Versions with all requests; in others the end of the channel ends the association."""
QUEUE = "of-branches"
X = Xid(0, b"between")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("branches")
    file = folder / "gateway.toml"
    file.write_text(LISTENERS)
    with Running(folder, "--config", file) as running:
        yield running


@asynccontextmanager
async def entered(gateway: Running, version: str) -> AsyncIterator[Remote]:
    """A connection with channel 1 open."""
    async with asyncio.timeout(PATIENCE):
        remote = await dial(("127.0.0.1", port_of(gateway, version)), version=version)
        try:
            await remote.request(BeginSession(1, None))
            yield remote
        finally:
            await remote.close()


def message(body: bytes) -> Message:
    header = BASIC.write(Properties(durable=True))
    return Message(BASIC, header, body, "", QUEUE, BASIC.essentials(header))


async def work(gateway: Running, version: str) -> None:
    """Two messages are there. In a branch one is received, and one is published."""
    async with entered(gateway, "0-9-1") as maker:
        await maker.request(DeclareQueue(1, None, QUEUE, durable=True))
        await maker.request(PurgeQueue(1, None, QUEUE))
        # In a transaction of 0-9a6 the exchange of queues goes by bindings.
        await maker.request(Bind(1, None, QUEUE, "amq.direct", QUEUE))
        for body in (b"received", b"left"):
            maker.send(Publish(1, message(body), False, False))
        await maker.drain()
        await maker.request(DeclareQueue(1, None, QUEUE, passive=True))
    async with entered(gateway, version) as remote:
        await remote.request(SelectBranches(1, None))
        await remote.request(StartBranch(1, None, X))
        fetched = await remote.request(Fetch(1, None, QUEUE))
        remote.send(Settle(1, fetched.delivery, False, Outcome.ACCEPT))
        remote.send(Publish(1, message(b"published"), False, False))
        await remote.drain()
        if version in WHOLE:
            assert await remote.request(EndBranch(1, None, X)) is BranchStatus.OK
        await remote.request(EndSession(1, None))


async def rest(gateway: Running) -> list[bytes]:
    found: list[bytes] = []
    async with entered(gateway, "0-9-1") as remote:
        while (fetched := await remote.request(Fetch(1, None, QUEUE, True))) is not None:
            found.append(bytes(fetched.message.body[:]))
    return found


@pytest.mark.parametrize("coordinator", WHOLE)
@pytest.mark.parametrize("worker", ["0-9a6", "0-8", "0-9", *WHOLE])
def test_worker_and_coordinator(gateway: Running, worker: str, coordinator: str) -> None:
    committed = (WHOLE.index(coordinator) + len(worker)) % 2 == 0

    async def prepare() -> None:
        await work(gateway, worker)
        async with entered(gateway, coordinator) as remote:
            assert await remote.request(RecoverBranches(1, None)) == []
            assert await remote.request(PrepareBranch(1, None, X)) is BranchStatus.OK

    async def complete() -> None:
        assert await rest(gateway) == [b"left"]
        async with entered(gateway, coordinator) as remote:
            assert await remote.request(RecoverBranches(1, None)) == [X]
            end = CommitBranch(1, None, X) if committed else RollbackBranch(1, None, X)
            assert await remote.request(end) is BranchStatus.OK
            assert await remote.request(RecoverBranches(1, None)) == []
        left = [b"published"] if committed else [b"received"]
        assert await rest(gateway) == left

    asyncio.run(prepare())
    gateway.kill()
    gateway.start()
    asyncio.run(complete())


@pytest.mark.parametrize("coordinator", WHOLE)
def test_a_coordinator_hears_of_a_decision_by_hand(gateway: Running, coordinator: str) -> None:
    url = f"http://127.0.0.1:{gateway.http_port}/v1/admin/vhosts/%2F/branches/{quote(str(X))}"

    async def play() -> None:
        await work(gateway, "0-10")
        async with entered(gateway, coordinator) as remote:
            await remote.request(PrepareBranch(1, None, X))
            answer = await asyncio.to_thread(httpx.post, f"{url}/commit", auth=("guest", "guest"))
            assert answer.status_code == 200, answer.text
            for end in (CommitBranch(1, None, X), RollbackBranch(1, None, X)):
                assert await remote.request(end) is BranchStatus.HEURISTIC_COMMIT
            assert await remote.request(RecoverBranches(1, None)) == [X]
            assert await remote.request(ForgetBranch(1, None, X)) is None
            assert await remote.request(RecoverBranches(1, None)) == []
            with pytest.raises(Refusal):
                await remote.request(ForgetBranch(1, None, X))
        assert await rest(gateway) == [b"left", b"published"]

    asyncio.run(play())
