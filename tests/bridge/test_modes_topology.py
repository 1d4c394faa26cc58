"""Queues, exchanges and bindings that one of two brokers has later than the other."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.net.dialer import Remote
from gateway.operations import (
    Bind,
    Confirm,
    DeclareExchange,
    DeclareQueue,
    Publish,
    SelectConfirms,
    Subscribe,
)
from tests.bridge.relay import Relay
from tests.bridge.test_facade import deliveries, depth, entered, message, run
from tests.bridge.test_modes import ask, between, change, made, modes, post, settled
from tests.net.running import Running, until

SOON = 0.5
"""Seconds for an answer that does not wait for both brokers."""


class Front:
    """A facade, and the network before its new broker."""

    def __init__(self, gateway: Running, relay: Relay) -> None:
        self.gateway = gateway
        self.relay = relay

    def hold(self) -> None:
        """The first connection, which is for topology, reaches the new broker later."""
        self.relay.held.add(self.relay.ends()[0])

    def let_go(self) -> None:
        self.relay.held.clear()


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("old")) as running:
        yield running


@pytest.fixture
def front(old: Running, tmp_path: Path) -> Iterator[Front]:
    with (
        Running(tmp_path / "new") as new,
        Relay(new.port) as relay,
        between(tmp_path, old.port, relay.port) as gateway,
    ):
        until(lambda: connected(gateway), "it is connected")
        yield Front(gateway, relay)
        relay.held.clear()


def connected(gateway: Running) -> bool:
    """Whether the facade has its connections to the new broker."""
    (told,) = gateway.asked("/v1/admin/facades")["facades"]
    return bool(told["successor_state"] == "connected")


async def answered(front: Front, remote: Remote, request: Any) -> None:
    """Make a request whose way to the new broker is held until the client has its answer, if it
    gets one before."""
    front.hold()
    asking = asyncio.ensure_future(remote.request(request))
    await asyncio.wait([asking], timeout=SOON)
    if not asking.done():
        front.let_go()
    await asking


async def fate(remote: Remote, key: str, exchange: str = "") -> type:
    """What is told first about a publish."""
    await remote.request(SelectConfirms(1, None))
    remote.send(Publish(1, message(0, key, exchange), True, False))
    remote.wake()
    return type(await anext(remote))


def test_a_change_waits_for_declarations(front: Front) -> None:
    """No copy of a message is published where its queue is not yet."""
    gateway, queue = front.gateway, "late"

    async def scenario() -> None:
        front.hold()
        await made(gateway, queue)
        assert ask(gateway, "shadow", queue).status_code == 202
        remote = await entered(gateway.port)
        remote.send(Publish(1, message(0, queue), True, False))
        remote.wake()

        def told() -> bool:
            one = modes(gateway)[queue]
            return bool(one["held"] or one["error"])

        await asyncio.to_thread(until, told, "the publish waits, or the change has failed")
        assert modes(gateway)[queue]["error"] == ""
        front.let_go()
        await asyncio.to_thread(settled, gateway, queue)
        await asyncio.to_thread(until, lambda: modes(gateway)[queue]["compared"] == 1, "a copy")
        one = modes(gateway)[queue]
        assert (one["mode"], one["error"], one["copies_lost"]) == ("shadow", "", 0)
        await remote.close()

    run(scenario())


@pytest.mark.parametrize("more", [{"mode": "mirror"}, {"mode": "old-only", "percent": 100}])
def test_a_declaration_waits_where_publishes_go(
    front: Front, old: Running, more: dict[str, Any]
) -> None:
    """A queue is declared when its mode is set already, and its publishes, or their copies, go to
    the other broker too."""
    gateway, queue = front.gateway, f"before {more['mode']}"

    async def scenario() -> None:
        assert post(gateway, {**more, "queues": [queue]}).status_code == 202
        await asyncio.to_thread(settled, gateway, queue)
        remote = await entered(gateway.port)
        await answered(front, remote, DeclareQueue(1, None, queue, durable=True))
        assert await fate(remote, queue) is Confirm
        front.let_go()
        await asyncio.to_thread(until, lambda: depth(old, queue) == 1, "the message is there")
        assert modes(gateway)[queue]["copies_lost"] == 0
        await remote.close()

    run(scenario())


def test_a_binding_waits_where_its_exchange_is(front: Front) -> None:
    """The queue of an exchange at the new broker is still at the old one."""
    gateway, queue, exchange = front.gateway, "bound", "gone ahead"

    async def scenario() -> None:
        remote = await entered(gateway.port)
        await remote.request(DeclareExchange(1, None, exchange, "topic", durable=True))
        await remote.request(DeclareQueue(1, None, queue, durable=True))
        await asyncio.to_thread(change, gateway, "shadow", queue)
        await asyncio.to_thread(change, gateway, "new-primary", exchanges=(exchange,))
        await answered(front, remote, Bind(1, None, queue, exchange, "k"))
        assert await fate(remote, "k", exchange) is Confirm
        front.let_go()
        await remote.request(Subscribe(1, None, queue))
        (found,) = await deliveries(remote, 1)
        assert bytes(found.message.body[:]) == b"body 0"
        await remote.close()

    run(scenario())


def test_nobody_waits_for_a_broker_that_is_away(front: Front, old: Running) -> None:
    """What it has missed is made before the messages are published that wait for it."""
    gateway, relay, queue = front.gateway, front.relay, "away"

    async def scenario() -> None:
        assert ask(gateway, "mirror", queue).status_code == 202
        await asyncio.to_thread(settled, gateway, queue)
        relay.open = False
        relay.cut()
        await asyncio.to_thread(until, lambda: not connected(gateway), "it is away")
        remote = await entered(gateway.port)
        await remote.request(DeclareQueue(1, None, queue, durable=True))
        publishing = asyncio.ensure_future(fate(remote, queue))
        await asyncio.to_thread(until, lambda: depth(old, queue) == 1, "the message is there")
        relay.open = True
        assert await publishing is Confirm
        assert modes(gateway)[queue]["copies_lost"] == 0
        await remote.close()

    run(scenario())
