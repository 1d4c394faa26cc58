"""Facades while their upstream, the network or a gateway dies."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.errors import Condition, Refusal
from gateway.operations import (
    BeginSession,
    Confirm,
    DeclareQueue,
    DeleteQueue,
    Publish,
    SelectConfirms,
    Subscribe,
)
from tests.bridge.relay import Relay
from tests.bridge.test_facade import (
    confirmed,
    deliveries,
    entered,
    facade,
    message,
    numbers,
    run,
    state,
)
from tests.bridge.traffic import WINDOW, Traffic
from tests.net.running import PATIENCE, Running, until

VERSIONS = ("0-9-1", "1.0")
SEED = 12
ROUNDS = 1200


async def declared(port: int, queue: str, **arguments: object) -> None:
    remote = await entered(port)
    await remote.request(DeclareQueue(1, None, queue, durable=True, arguments=arguments))
    await remote.close()


async def busy(traffic: Traffic) -> None:
    """Wait until some more messages are confirmed and taken."""
    confirmed, taken = len(traffic.confirmed), len(traffic.taken)
    for _ in range(ROUNDS):
        if len(traffic.confirmed) >= confirmed + 50 and len(traffic.taken) >= taken + 50:
            return
        await asyncio.sleep(0.05)
    raise AssertionError((len(traffic.confirmed), len(traffic.taken)))


def waiting(front: Running) -> int:
    """Messages that the upstream has not confirmed."""
    return int(front.asked("/v1/admin/facades")["facades"][0]["under_way"])


def with_faults(traffic: Traffic, faults: Callable[[], Awaitable[int]]) -> None:
    """Run the traffic until the faults are over; nothing confirmed is lost. Messages that come
    twice are marked, but for those without a confirm at a fault (``faults`` tells how many)."""

    async def all_of_it() -> None:
        counted = asyncio.create_task(told())
        await asyncio.wait_for(traffic.run(counted), 4 * PATIENCE)
        assert traffic.confirmed
        assert traffic.unmarked <= counts[0] * WINDOW * len(traffic.versions)

    counts = [0]

    async def told() -> None:
        counts[0] = await faults()

    asyncio.run(all_of_it())


@pytest.mark.parametrize("fault", ["kill", "cut"])
def test_clients_stay_connected(fault: str, tmp_path: Path) -> None:
    """While the upstream is killed and started again, or the network cut."""
    with (
        Running(tmp_path / "old") as old,
        Relay(old.port) as relay,
        facade(tmp_path / "front", relay.port) as front,
    ):
        traffic = Traffic("work", [front.port], VERSIONS)

        async def faults() -> int:
            rounds = 2 if fault == "kill" else 4
            for _ in range(rounds):
                await busy(traffic)
                if fault == "kill":
                    await asyncio.to_thread(old.kill)
                    relay.cut()
                    await asyncio.to_thread(old.start)
                    relay.target = old.port
                else:
                    await asyncio.sleep(random.Random(SEED).uniform(0, 0.05))
                    relay.cut()
            await busy(traffic)
            return rounds

        run(declared(front.port, "work"))
        with_faults(traffic, faults)
        assert traffic.reconnects == 0


def test_the_clients_of_a_killed_gateway_go_on_at_another(tmp_path: Path) -> None:
    with (
        Running(tmp_path / "old") as old,
        facade(tmp_path / "1", old.port) as one,
        facade(tmp_path / "2", old.port) as two,
    ):
        traffic = Traffic("work", [one.port, two.port], VERSIONS)

        async def faults() -> int:
            await busy(traffic)
            one.kill()
            await busy(traffic)
            return 1

        run(declared(two.port, "work"))
        with_faults(traffic, faults)
        assert traffic.reconnects == 2 * len(VERSIONS)


def test_a_full_queue_refuses_only_its_messages(tmp_path: Path) -> None:
    async def use(port: int) -> None:
        await declared(port, "full", **{"x-max-length": 3, "x-overflow": "reject-publish"})
        await declared(port, "free")
        remote = await entered(port)
        await remote.request(SelectConfirms(1, None))
        for n in range(10):
            remote.send(Publish(1, message(n, "full"), True, False))
            remote.send(Publish(1, message(n, "free"), True, False))
        remote.wake()
        accepted = told = 0
        while told < 20:
            operation = await anext(remote)
            if isinstance(operation, Confirm):
                accepted += operation.accepted * (operation.sequence - told)
                told = operation.sequence
        assert accepted == 13
        await remote.close()

    with Running(tmp_path / "old") as old, facade(tmp_path / "front", old.port) as front:
        run(use(front.port))


def test_publishers_are_held_while_the_upstream_is_away(tmp_path: Path) -> None:
    """They are read no more when enough waits, which has a bound; other clients are served."""
    size, most = 1 << 17, 512

    async def use(old: Running, front: Running, relay: Relay) -> None:
        await declared(front.port, "work")
        relay.open = False
        relay.cut()
        until(lambda: state(front) != "connected", "loss")
        remote = await entered(front.port)
        await remote.request(SelectConfirms(1, None))
        for n in range(2 * most):
            one = message(n, "work")
            one.body = bytes(size)
            remote.send(Publish(1, one, True, False))
        remote.wake()
        await asyncio.to_thread(until, lambda: waiting(front) >= most - 1, "messages that wait")
        other = await entered(front.port)  # a connection that only asks is served
        await other.close()
        assert await asyncio.to_thread(waiting, front) <= most + 16
        relay.open = True
        told = 0
        while told < 2 * most:
            operation = await anext(remote)
            if isinstance(operation, Confirm):
                assert operation.accepted
                told = operation.sequence
        reader = await entered(front.port)
        assert waiting(front) == 0
        await reader.close()
        await remote.close()

    with (
        Running(tmp_path / "old") as old,
        Relay(old.port) as relay,
        facade(tmp_path / "front", relay.port) as front,
    ):
        run(use(old, front, relay))


def test_a_consumer_that_does_not_read_costs_no_other(tmp_path: Path) -> None:
    """One without a limit, which never reads: so many messages wait for it at the gateway, and
    another consumer of the same upstream gets its own."""

    async def use(old: Running, port: int) -> None:
        await declared(port, "much")
        await declared(port, "little")
        publisher = await entered(old.port)
        for n in range(6000):
            one = message(n, "much")
            one.body = bytes(4096)
            publisher.send(Publish(1, one, True, False))
            await publisher.drain()
        publisher.wake()
        deaf = await entered(port)
        assert deaf._transport is not None
        await deaf.request(Subscribe(1, None, "much", no_ack=True))
        deaf._transport.pause_reading()
        reader = await entered(port)
        await reader.request(Subscribe(1, None, "little"))
        for n in range(20):
            publisher.send(Publish(1, message(n, "little"), True, False))
        publisher.wake()
        assert numbers(await deliveries(reader, 20)) == list(range(20))
        left = [q["messages"] for q in old.asked("/api/queues") if q["name"] == "much"]
        assert left[0] > 1000
        for remote in (deaf, reader, publisher):
            await remote.close(1)

    with Running(tmp_path / "old") as old, facade(tmp_path / "front", old.port) as front:
        run(use(old, front.port))


def test_more_consumers_than_the_upstream_has_channels(tmp_path: Path) -> None:
    """One too many is refused; the others go on, and a place that is free is used again."""

    async def use(port: int) -> None:
        await declared(port, "work")
        remote = await entered(port)
        made = 0
        with pytest.raises(Refusal, match="allows no further consumer") as refused:
            for _ in range(20):
                await remote.request(Subscribe(1, None, "work"))
                made += 1
        assert refused.value.condition is Condition.RESOURCE_ERROR
        assert made == 7  # and one channel for requests
        other = await entered(port)
        for _ in range(ROUNDS):
            try:
                await other.request(Subscribe(1, None, "work"))
                break
            except Refusal:  # the channels of the consumers that ended are being closed
                await asyncio.sleep(0.05)
                await other.request(BeginSession(1, None))
        publisher = await entered(port)
        publisher.send(Publish(1, message(1, "work"), True, False))
        publisher.wake()
        assert numbers(await deliveries(other, 1)) == [1]
        for one in (remote, other, publisher):
            await one.close()

    with (
        Running(tmp_path / "old", amqp__channel_max=8) as old,
        facade(tmp_path / "front", old.port, "0-9-1") as front,
    ):
        run(use(front.port))


def test_a_queue_that_is_recovered_late(tmp_path: Path) -> None:
    """A broker that was killed may take connections before it knows its queues again."""

    async def use(old: Running, front: Running, relay: Relay) -> None:
        writer, reader = await entered(old.port), await entered(front.port)
        await writer.request(DeclareQueue(1, None, "late", durable=True))
        await reader.request(Subscribe(1, None, "late", no_ack=True))
        relay.open = False
        relay.cut()
        await writer.request(DeleteQueue(1, None, "late"))
        relay.open = True
        await asyncio.to_thread(
            until,
            lambda: front.asked("/v1/admin/facades")["facades"][0]["connected"] == 2,
            "connected again",
        )
        await asyncio.sleep(0.2)
        await writer.request(DeclareQueue(1, None, "late", durable=True))
        assert await confirmed(writer, [message(1, "late")]) == 1
        (found,) = await deliveries(reader, 1)
        assert found.message.body == b"body 1"
        await reader.close()
        await writer.close()

    (tmp_path / "old").mkdir()
    with (
        Running(tmp_path / "old") as old,
        Relay(old.port) as relay,
        facade(tmp_path / "front", relay.port, "0-9-1") as front,
    ):
        run(use(old, front, relay))
