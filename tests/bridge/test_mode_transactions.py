"""Transactions of clients while the modes of addresses change."""

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from gateway.errors import Refusal
from gateway.operations import Commit, Fetch, Fetched, Outcome, Publish, Rollback, Select, Settle
from tests.bridge.test_facade import depth, entered, message, run
from tests.bridge.test_modes import between, brokers, change, made, modes
from tests.net.running import Running, until

__all__ = ["brokers"]  # a fixture


@pytest.fixture(scope="module")
def front(
    brokers: tuple[Running, Running],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    old, new = brokers
    with between(tmp_path_factory.mktemp("front"), old.port, new.port) as running:
        yield running


def test_commits_wait_and_lose_nothing(
    front: Running,
    brokers: tuple[Running, Running],
) -> None:
    """A worker moves messages from one queue to another, while first the one and then the other
    changes its broker: what cannot be one commit is refused, and everything else is there once."""
    _, new = brokers
    count, refused = 0, 0
    stop = asyncio.Event()

    async def work() -> None:
        nonlocal count, refused
        while not stop.is_set():
            remote = await entered(front.port)
            try:
                await remote.request(Select(1, None))
                while not stop.is_set():
                    remote.send(Publish(1, message(count, "committed"), False, False))
                    await remote.request(Commit(1, None))
                    count += 1
            except Refusal:
                refused += 1
            await remote.close()

    def reached(least: int) -> bool:
        return count > least

    async def use() -> None:
        await made(front, "committed")
        worker = asyncio.ensure_future(work())
        for mode in ("new-primary", "old-only", "new-primary"):
            least = count + 20
            await asyncio.to_thread(until, partial(reached, least), "commits")
            await asyncio.to_thread(change, front, mode, "committed")
        stop.set()
        await worker
        assert not refused
        until(lambda: depth(new, "committed") == count, "all of them have moved")

    run(use())


def test_two_upstreams_in_one_transaction(front: Running) -> None:
    """Are refused, with nothing done."""

    async def use() -> None:
        await made(front, "stays")
        await made(front, "goes")
        await asyncio.to_thread(change, front, "new-primary", "goes")
        await asyncio.to_thread(change, front, "new-only", "goes")
        remote = await entered(front.port)
        await remote.request(Select(1, None))
        for queue in ("stays", "goes"):
            remote.send(Publish(1, message(1, queue), False, False))
        with pytest.raises(Refusal, match="two upstreams"):
            await remote.request(Commit(1, None))
        await remote.close()

        remote = await entered(front.port)
        await remote.request(Select(1, None))
        remote.send(Publish(1, message(2, "goes"), False, False))
        await remote.request(Commit(1, None))
        found = await remote.request(Fetch(1, None, "goes"))
        assert isinstance(found, Fetched) and found.message.body == b"body 2"
        remote.send(Settle(1, found.delivery, False, Outcome.ACCEPT))
        remote.send(Publish(1, message(3, "stays"), False, False))
        with pytest.raises(Refusal, match="two upstreams"):
            await remote.request(Commit(1, None))
        await remote.close()

        remote = await entered(front.port)
        again = await remote.request(Fetch(1, None, "goes", no_ack=True))
        assert isinstance(again, Fetched) and again.message.body == b"body 2"
        assert not isinstance(await remote.request(Fetch(1, None, "stays")), Fetched)
        await remote.close()

    run(use())


@pytest.mark.parametrize("mode", ("shadow", "mirror", "new-primary"))
def test_copied_messages(
    front: Running,
    brokers: tuple[Running, Running],
    mode: str,
) -> None:
    """Are copied when they are committed. A copy goes when its message is settled, or at once
    in shadow, where it is compared."""
    _, new = brokers
    queue = f"copied-{mode}"

    def told(kind: str) -> int:
        return int(modes(front)[queue][kind])

    def is_empty(broker: Running) -> bool:
        return depth(broker, queue) == 0

    async def use() -> None:
        await made(front, queue)
        await asyncio.to_thread(change, front, mode, queue)
        remote = await entered(front.port)
        await remote.request(Select(1, None))
        remote.send(Publish(1, message(0, queue), False, False))
        await remote.request(Rollback(1, None))
        for n in (1, 2):
            remote.send(Publish(1, message(n, queue), False, False))
        await remote.request(Commit(1, None))
        await asyncio.to_thread(until, lambda: told("copied") == 2, "both are copied")
        for n in (1, 2):
            found = await remote.request(Fetch(1, None, queue))
            assert isinstance(found, Fetched)
            assert found.message.body == f"body {n}".encode()
            remote.send(Settle(1, found.delivery, False, Outcome.ACCEPT))
            await remote.request(Commit(1, None))
        assert not isinstance(await remote.request(Fetch(1, None, queue)), Fetched)
        for broker in brokers:
            await asyncio.to_thread(until, partial(is_empty, broker), "copies are gone")
        assert told("copied") == 2 and not told("copies_lost")
        await remote.close()

    run(use())
