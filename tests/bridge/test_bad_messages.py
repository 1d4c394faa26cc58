"""The upstream of a facade ends its channel over a message: only the publisher of that notices."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from gateway.bridge.suspects import Suspect, Suspects
from gateway.broker.outbound import Nobody
from gateway.message import Message
from gateway.net.dialer import Remote
from gateway.operations import (
    Confirm,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    Publish,
    SelectConfirms,
    Subscribe,
)
from tests.bridge.steady import WINDOW, Steady
from tests.bridge.test_facade import entered, facade, message, run
from tests.net.running import Running, until

VERSIONS = ("0-9-1", "0-10", "0-8", "1.0")
ROUNDS = 3
COUNT = 200


class Listening(Protocol):
    @property
    def port(self) -> int: ...


Offence = Callable[[int, int], Awaitable[None]]
"""Of a publisher, with the ports of the facade and of its upstream."""
LARGEST = 4096
"""Octets of a body that the upstream takes."""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("old")
    with Running(folder, amqp__max_message_octets=LARGEST) as running:
        yield running


@pytest.fixture(scope="module", params=VERSIONS)
def front(
    request: pytest.FixtureRequest, old: Running, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("front")
    with facade(folder, old.port, request.param) as running:
        until(
            lambda: running.asked("/v1/admin/facades")["facades"][0]["state"] == "connected",
            "the facade",
        )
        yield running


def large(n: int, queue: str) -> Message:
    """A message that the upstream does not take, for a reason that names no exchange."""
    one = message(n, queue)
    one.body = bytes(LARGEST + 1)
    return one


def connections(old: Running, front: Running) -> set[str]:
    """Names of those that the facade has at the upstream; it has never connected again."""
    state = front.asked("/v1/admin/facades")["facades"][0]
    assert (state["state"], state["connected"]) == ("connected", 1)
    return {one["name"] for one in old.connections() if one["user"] == "guest"}


async def fates(remote: Remote, messages: list[Message]) -> list[bool]:
    """Of messages that are published with confirms."""
    await remote.request(SelectConfirms(1, None))
    for one in messages:
        remote.send(Publish(1, one, True, False))
    remote.wake()
    found: list[bool] = []
    async for operation in remote:
        if isinstance(operation, Confirm):
            found += [operation.accepted] * (operation.sequence - len(found))
            if len(found) == len(messages):
                break
    return found


async def to_a_lost_exchange(front: int, old: int) -> None:
    """Publish to an exchange that is deleted behind the back of the facade."""
    remote, behind = await entered(front), await entered(old)
    await remote.request(DeclareQueue(1, None, "others", durable=True))
    await remote.request(DeclareExchange(1, None, "doomed", "fanout"))
    assert await fates(remote, [message(0, "", "doomed")]) == [True]
    await behind.request(DeleteExchange(1, None, "doomed"))
    await remote.close()
    remote = await entered(front)
    good, bad = message(1, "others"), message(2, "", "doomed")
    assert await fates(remote, [good, bad, bad, good]) == [True, False, False, True]
    for one in (remote, behind):
        await one.close()


async def too_large(front: int, old: int) -> None:
    """Publish messages that the upstream does not take, among others."""
    remote = await entered(front)
    await remote.request(DeclareQueue(1, None, "others", durable=True))
    messages = [large(n, "others") if n % 5 == 2 else message(n, "others") for n in range(20)]
    assert await fates(remote, messages) == [n % 5 != 2 for n in range(20)]
    await remote.close()


def offend_others(
    front: Listening, old: int, offend: Offence, connections: Callable[[], set[str]]
) -> None:
    """Offend the upstream, while another publishes at full rate. ``connections`` tells the names of
    those at the upstream."""

    async def use() -> None:
        remote = await entered(front.port)
        await remote.request(DeclareQueue(1, None, "steady", durable=True))
        await remote.close()
        before = await asyncio.to_thread(connections)
        steady = Steady(front.port, "steady")

        async def offences() -> None:
            for _ in range(ROUNDS):
                await steady.some_more()
                await offend(front.port, old)
            await steady.some_more()

        await steady.during(offences())
        assert steady.refused == steady.redelivered == 0
        assert steady.in_order
        assert max(Counter(steady.taken).values()) <= 2
        assert steady.repeated <= ROUNDS * WINDOW
        assert await asyncio.to_thread(connections) == before

    run(use())


@pytest.mark.parametrize("offend", [to_a_lost_exchange, too_large])
def test_only_its_publisher_notices(old: Running, front: Running, offend: Offence) -> None:
    """Another at full rate has nothing refused, and in order; messages under way come twice at
    most, and its consumer and the connections stay."""

    offend_others(front, old.port, offend, lambda: connections(old, front))


def test_the_others_of_its_publisher_keep_their_order(old: Running, front: Running) -> None:
    async def use() -> None:
        remote = await entered(front.port)
        await remote.request(DeclareQueue(1, None, "ordered", durable=True))
        bad = {3, 4, 70, 150, 199}
        messages = [
            large(n, "ordered") if n in bad else message(n, "ordered") for n in range(COUNT)
        ]
        assert await fates(remote, messages) == [n not in bad for n in range(COUNT)]
        await remote.request(Subscribe(1, None, "ordered"))
        first: dict[int, None] = {}
        async for operation in remote:
            if isinstance(operation, Deliver):
                first.setdefault(int(operation.message.body[:].removeprefix(b"body ")))
                if len(first) == COUNT - len(bad):
                    break
        assert list(first) == [n for n in range(COUNT) if n not in bad]
        await remote.request(DeleteQueue(1, None, "ordered"))
        await remote.close()

    run(use())


def test_an_upstream_that_allows_one_channel(tmp_path: Path) -> None:
    """The message is looked for over another connection."""

    async def use(front: int, old: int) -> None:
        await to_a_lost_exchange(front, old)
        await too_large(front, old)

    with (
        Running(tmp_path / "old", amqp__channel_max=1, amqp__max_message_octets=LARGEST) as old,
        facade(tmp_path / "front", old.port, "0-9-1") as front,
    ):
        run(use(front.port, old.port))


def test_batches_of_suspects() -> None:
    """Each is of one publisher, unless the reason names an exchange."""
    one, other = Nobody(), Nobody()
    found = [Suspect(n, one if n % 2 else other, "orders" if n == 4 else "") for n in range(8)]
    suspects = Suspects()
    suspects.add(found, "too large")
    assert numbers(suspects.take(100)) == [0, 2, 4, 6]
    suspects.put_back(found[::2], "too large")
    assert numbers(suspects.take(100)) == [0, 2]
    suspects.passed()
    assert numbers(suspects.take(100)) == [4, 6]
    suspects.put_back(found[4:7:2], "no exchange 'orders'")
    assert numbers(suspects.take(100)) == [1]
    suspects.passed()
    assert numbers(suspects.take(100)) == [3, 5]
    suspects.passed()
    assert [numbers(suspects.take(100)) for _ in range(3)] == [[7], [4], [6]]
    assert not suspects


def numbers(batch: list[Suspect]) -> list[int]:
    return [one.number for one in batch]
