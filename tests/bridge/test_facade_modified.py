"""The modified outcome of 1.0 (§3.4.5) before an upstream of the same version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.operations import DeclareQueue, Modify, Subscribe
from tests.bridge.test_facade import (
    confirmed,
    deliveries,
    depth,
    entered,
    facade,
    message,
    numbers,
    run,
)
from tests.net.running import Running, until


@pytest.fixture(scope="module")
def front(old: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with facade(tmp_path_factory.mktemp("front"), old.port, "1.0") as running:
        yield running


def test_annotations_and_failures_are_passed_on(front: Running, old: Running) -> None:
    async def talk() -> None:
        remote = await entered(front.port)
        await remote.request(DeclareQueue(1, None, "modified", durable=True))
        assert await confirmed(remote, [message(1, "modified")]) == 1
        reader = await entered(front.port, "1.0")
        await reader.request(Subscribe(1, None, "modified"))
        (first,) = await deliveries(reader, 1)
        reader.send(Modify(1, first.delivery, True, False, {"x-opt-note": "read"}))
        reader.wake()
        (again,) = await deliveries(reader, 1)
        assert (again.message.properties.annotations or {})["x-opt-note"] == "read"
        await reader.close()
        direct = await entered(old.port, "1.0")
        await direct.request(Subscribe(1, None, "modified"))
        (there,) = await deliveries(direct, 1)
        assert (there.message.properties.annotations or {})["x-opt-note"] == "read"
        for one in (direct, remote):
            await one.close()

    run(talk())


def test_one_that_is_for_others(front: Running, old: Running) -> None:
    """Its link does not get it again, and another does."""

    async def talk() -> None:
        remote = await entered(front.port)
        await remote.request(DeclareQueue(1, None, "declined", durable=True))
        reader = await entered(front.port, "1.0")
        await reader.request(Subscribe(1, None, "declined"))
        assert await confirmed(remote, [message(n, "declined") for n in range(2)]) == 2
        first, second = await deliveries(reader, 2)
        reader.send(Modify(1, first.delivery, False, True))
        reader.wake()
        until(lambda: depth(old, "declined") == 2, "release")
        other = await entered(front.port, "1.0")
        await other.request(Subscribe(1, None, "declined"))
        assert numbers(await deliveries(other, 1)) == numbers([first])
        assert reader.waiting() is None
        for one in (reader, other, remote):
            await one.close()

    run(talk())
