"""A facade's clients that ask for what is ready and no more: fetches and drains of 1.0, and the
flush of 0-10."""

import asyncio
from pathlib import Path

import pytest

from gateway.bridge.feed_settlements import unheard
from gateway.net.dialer import Remote
from gateway.operations import (
    BeginSession,
    Credit,
    DeclareQueue,
    Deliver,
    EndSession,
    Fetch,
    Outcome,
    Settle,
    Subscribe,
)
from tests.bridge.relay import Relay
from tests.bridge.test_facade import (
    confirmed,
    deliveries,
    depth,
    entered,
    facade,
    message,
    run,
)
from tests.net.running import Running, until

ROUNDS = 20
CLIENTS = ("0-9-1", "0-10", "1.0")


async def filled(writer: Remote, queue: str, count: int) -> None:
    """So many messages are in the queue of the upstream."""
    await writer.request(EndSession(1, None))
    await writer.request(BeginSession(1, None))
    assert await confirmed(writer, [message(n, queue) for n in range(count)]) == count


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("version", CLIENTS)
def test_a_client_fetches_until_the_queue_is_empty(
    front: Running, old: Running, version: str, settled: bool
) -> None:
    """Each fetch follows the message of the one before at once, as does its drain in 1.0."""

    async def use() -> None:
        queue = f"fetched-{version}-{settled}-{front.port}"
        writer, reader = await entered(old.port), await entered(front.port, version)
        await writer.request(DeclareQueue(1, None, queue, durable=True))
        for _ in range(ROUNDS):
            await filled(writer, queue, 3)
            found = []
            while fetched := await reader.request(Fetch(1, None, queue, settled)):
                found.append(fetched.message.body)
                if not settled:
                    reader.send(Settle(1, fetched.delivery, False, Outcome.ACCEPT))
                    reader.wake()
            assert found == [b"body 0", b"body 1", b"body 2"]
        await writer.close()
        await reader.close()

    run(use())


@pytest.mark.parametrize("version", ["0-10", "1.0"])
def test_a_consumer_drains_its_credit(front: Running, old: Running, version: str) -> None:
    """It gets all that is ready before it is told so; one whose drain is followed by another gets
    an answer to each, and the queue keeps what it has no credit for."""

    async def use() -> None:
        queue = f"drained-{version}-{front.port}"
        writer, reader = await entered(old.port), await entered(front.port, version)
        await writer.request(DeclareQueue(1, None, queue, durable=True))
        tag = await reader.request(Subscribe(1, None, queue, no_ack=True, credit=0))
        for _ in range(ROUNDS):
            await filled(writer, queue, 3)
            assert await reader.request(Credit(1, None, tag, 2, drain=True)) == 0
            first = reader.request(Credit(1, None, tag, 5, drain=True))
            second = reader.request(Credit(1, None, tag, 5, drain=True))
            await first
            await second
            found = []
            while (operation := reader.waiting()) is not None:
                assert isinstance(operation, Deliver)
                found.append(operation.message.body)
            assert found == [b"body 0", b"body 1", b"body 2"]
        await filled(writer, queue, 3)
        assert await reader.request(Credit(1, None, tag, 1, drain=True)) == 0
        until(lambda: depth(old, queue) == 2, "the rest")
        await writer.close()
        await reader.close()

    run(use())


def test_a_client_fetches_over_0_8a2(old: Running, tmp_path: Path) -> None:
    """There nothing tells that all has come: what is late comes with the next fetch."""

    async def use(port: int) -> None:
        writer, reader = await entered(old.port), await entered(port, "1.0")
        await writer.request(DeclareQueue(1, None, "late", durable=True))
        await filled(writer, "late", 5)
        found: list[object] = []
        while len(found) < 5:
            fetched = await reader.request(Fetch(1, None, "late", True))
            if fetched is not None:
                found.append(fetched.message.body)
        assert found == [b"body %d" % n for n in range(5)]
        await writer.close()
        await reader.close()

    with facade(tmp_path, old.port, "0.8a2") as front:
        run(use(front.port))


@pytest.mark.parametrize("upstream", ["0-9-1", "0-10", "1.0"])
@pytest.mark.parametrize("version", CLIENTS)
def test_a_fetch_outlasts_the_connection(
    old: Running, tmp_path: Path, version: str, upstream: str
) -> None:
    """It is not told that the queue is empty when the connection is lost under its question."""

    async def use(port: int, relay: Relay) -> None:
        queue = f"outlasting-{version}-{upstream}"
        writer, reader = await entered(old.port), await entered(port, version)
        await writer.request(DeclareQueue(1, None, queue, durable=True))
        assert await reader.request(Fetch(1, None, queue, True)) is None
        await filled(writer, queue, 1)
        relay.deaf = True
        before = relay.lost
        fetch = reader.request(Fetch(1, None, queue, True))
        await asyncio.to_thread(until, lambda: relay.lost > before, "the question")
        relay.deaf = False
        relay.cut()
        fetched = await fetch
        assert fetched is not None and fetched.message.body == b"body 0"
        await writer.close()
        await reader.close()

    with Relay(old.port) as relay, facade(tmp_path, relay.port, upstream) as front:
        run(use(front.port, relay))


@pytest.mark.parametrize("version", ["0-10", "1.0"])
def test_credit_that_is_used_up_is_given_again(front: Running, old: Running, version: str) -> None:
    """Each grant brings the next message, without a settlement in between."""

    async def use() -> None:
        queue = f"granted-{version}-{front.port}"
        writer, reader = await entered(old.port), await entered(front.port, version)
        await writer.request(DeclareQueue(1, None, queue, durable=True))
        await filled(writer, queue, 4)
        tag = await reader.request(Subscribe(1, None, queue, no_ack=True, credit=0))
        for n in range(4):
            reader.request(Credit(1, None, tag, 1)).add_done_callback(unheard)
            (found,) = await deliveries(reader, 1)
            assert found.message.body == f"body {n}".encode()
        await writer.close()
        await reader.close()

    run(use())
