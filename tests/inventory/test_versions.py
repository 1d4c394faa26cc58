"""Our own clients of every version, through the proxy to our own gateway: they work, no octet
changes, and the inventory has what they did."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters import Product
from gateway.adapters.methods.content import BASIC
from gateway.config.bridge import read_address
from gateway.inventory.inventory import InventoryError
from gateway.inventory.observing import Observing, Plan
from gateway.inventory.tap import Tap
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Bind,
    Commit,
    DeclareExchange,
    DeclareQueue,
    Deliver,
    Fetch,
    Outcome,
    Publish,
    Rollback,
    Select,
    SelectConfirms,
    Settle,
    Subscribe,
)
from tests.drawing import examples
from tests.inventory.hashing import HashingRelay
from tests.inventory.observed import Observed
from tests.inventory.replay import Pieces, replayed
from tests.net.running import PATIENCE, Running
from tests.net.test_every_pair import LISTENERS, VERSIONS, port_of

GIVEN: dict[str, Any] = {
    "durable": True, "priority": 7, "content_type": "text/plain", "reply_to": "answers",
    "application": {"text": "grün", "number": 7},
}  # fmt: skip
BODY = bytes(range(256)) * 1200
"""Larger than what the proxy keeps of a frame."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("observed")
    file = folder / "gateway.toml"
    file.write_text(LISTENERS)
    with Running(folder, "--config", file) as running:
        yield running


def message(body: bytes, exchange: str, key: str, **given: Any) -> Message:
    header = BASIC.write(Properties(**given))
    return Message(BASIC, header, body, exchange, key, BASIC.essentials(header))


@asynccontextmanager
async def entered(port: int, version: str) -> AsyncIterator[Remote]:
    async with asyncio.timeout(PATIENCE):
        product = Product(name="billing 4711")
        remote = await dial(("127.0.0.1", port), version=version, product=product)
        try:
            await remote.request(BeginSession(1, None))
            yield remote
        finally:
            await remote.close()


async def heard(remote: Remote) -> Deliver:
    async for operation in remote:
        if isinstance(operation, Deliver):
            remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
            return operation
    raise AssertionError(f"the connection ended: {remote.closed}")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_of_every_version(gateway: Running, version: str, tmp_path: Path) -> None:
    queue = f"orders-{version}"

    async def work(port: int) -> None:
        async with entered(gateway.port, "0-9-1") as maker:
            await maker.request(DeclareQueue(1, None, queue, durable=True))
        async with entered(port, version) as remote:
            await remote.request(Subscribe(1, None, queue, "mine"))
            for number in range(3):
                remote.send(Publish(1, message(BODY, "", queue, **GIVEN), False, False))
                assert (await heard(remote)).message.body == BODY, number

    with Observed(port_of(gateway, version), tmp_path / "inventory.json") as observed:
        asyncio.run(work(observed.port))
    assert observed.unchanged
    (client,) = observed.inventory.clients.values()
    assert client.identity.version == version
    assert client.identity.user == "guest"
    assert observed.inventory.counts["undecoded"] == 0, observed.inventory.failures
    assert f"version-{version}" in client.features.used
    assert client.published.usage.count == 3
    assert client.published.largest == len(BODY)
    assert client.delivered.usage.count == 3
    nodes = [one for one in observed.inventory.nodes.values() if queue in one.key[2]]
    assert sum(one.published.usage.count for one in nodes) == 3
    assert {name for one in nodes for name in one.consumers.counts} == {"c1"}
    assert sum(one.durable for one in nodes) == 3
    (published,) = [one for one in nodes if one.published.usage.count]
    assert published.content_types.counts == {"text/plain": 3}
    assert "string" in published.header_types.counts
    assert "guest" not in str(observed.inventory.written()).replace("'user': 'guest'", "")


@pytest.mark.parametrize("version", VERSIONS)
def test_conversations_with_mistakes(
    gateway: Running, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real conversation with octets changed, lost and repeated: no mistake is the tap's own."""
    queue = f"broken-{version}"
    pieces: Pieces = []
    add = Tap.add

    def record(one: Tap, from_client: bool, data: bytes) -> None:
        pieces.append((from_client, data))
        add(one, from_client, data)

    async def work(port: int) -> None:
        async with entered(gateway.port, "0-9-1") as maker:
            await maker.request(DeclareQueue(1, None, queue, durable=True))
        async with entered(port, version) as remote:
            await remote.request(Subscribe(1, None, queue, "mine"))
            remote.send(Publish(1, message(BODY[:20_000], "", queue, **GIVEN), False, False))
            await heard(remote)

    monkeypatch.setattr(Tap, "add", record)
    with Observed(port_of(gateway, version), tmp_path / "inventory.json") as observed:
        asyncio.run(work(observed.port))
    monkeypatch.undo()
    whole = replayed(pieces)
    assert not whole.failures
    assert next(iter(whole.clients.values())).delivered.usage.count == 1
    octets = sum(len(data) for _, data in pieces)
    for size in (1, 7, 100, 5000):
        cut = [
            (one, data[at : at + size]) for one, data in pieces for at in range(0, len(data), size)
        ]
        assert replayed(cut).written() == whole.written(), (size, octets)
    chance = random.Random(None if os.environ.get("FUZZ") else version)
    for _ in range(examples(1600)):
        changed = [(one, mutated(data, chance)) for one, data in pieces]
        inventory = replayed(changed)
        reasons = [one.reason for one in inventory.failures]
        assert not [one for one in reasons if one.startswith("internal")], changed


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The octets with a mistake, or as they are."""
    octets = bytearray(data)
    at = chance.randrange(len(octets))
    match chance.randrange(12):
        case 0:
            octets[at] = chance.randrange(256)
        case 1:
            octets[at] ^= 1 << chance.randrange(8)
        case 2:
            del octets[at]
        case 3:
            octets[at:at] = octets[: chance.randrange(40)]
        case 4:
            octets[at] = 255
    return bytes(octets)


USED = {
    "0-9-1": {"confirms", "mandatory", "basic-get", "exclusive-queue", "queue-message-ttl",
              "dead-letter-exchange", "priority-queue", "transactions", "transaction-rollback",
              "server-named-queue", "auto-delete-queue", "header-map", "consumer-priority",
              "consumer-without-ack", "expiration"},
}  # fmt: skip


def test_features_of_0_9_1(gateway: Running, tmp_path: Path) -> None:
    async def work(port: int) -> None:
        async with entered(port, "0-9-1") as remote:
            arguments = {"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-max-priority": 5}
            await remote.request(DeclareExchange(1, None, "things", "topic", durable=True))
            await remote.request(DeclareQueue(1, None, "used", durable=True, arguments=arguments))
            await remote.request(Bind(1, None, "used", "things", "a.#"))
            await remote.request(DeclareQueue(1, None, "", exclusive=True, auto_delete=True))
            await remote.request(SelectConfirms(1, None))
            given = {"application": {"map": {"a": 1}}, "ttl": 5000}
            remote.send(Publish(1, message(b"1", "things", "a.b", **given), True, False))
            await remote.request(Fetch(1, None, "used", True))
            await remote.request(
                Subscribe(1, None, "used", "t", no_ack=True, arguments={"x-priority": 3})
            )
            await remote.request(BeginSession(2, None))
            await remote.request(Select(2, None))
            await remote.request(Commit(2, None))
            await remote.request(Rollback(2, None))

    with Observed(gateway.port, tmp_path / "inventory.json") as observed:
        asyncio.run(work(observed.port))
    assert observed.unchanged
    assert USED["0-9-1"] <= observed.features()
    used = observed.node("queue", "used")
    assert "x-message-ttl=60000" in used.arguments.counts
    assert used.bindings.counts == {"things a.#": 1}
    assert used.declared.counts == {"durable": 1}
    things = observed.node("exchange", "things")
    assert things.declared.counts == {"type=topic": 1, "durable": 1}
    assert things.publishers.counts == {"c1": 1}
    (client,) = observed.inventory.clients.values()
    assert client.identity.name == "billing *"


OF_OTHERS = {
    "0.8a2": {"transactions", "consumer-without-ack", "password-without-tls"},
    "0-8": {"transactions", "transaction-rollback", "basic-get", "consumer-without-ack"},
    "0-9": {"transactions", "transaction-rollback", "basic-get", "consumer-without-ack"},
    "0-10": {"transactions", "transaction-rollback", "browse", "consumer-without-ack"},
    "1.0": {"transactions", "v2-address", "drain", "browse"},
}
"""Features by versions, of the operations below."""


@pytest.mark.parametrize("version", OF_OTHERS)
def test_features_of_other_versions(gateway: Running, version: str, tmp_path: Path) -> None:
    queue = f"others-{version}"

    async def work(port: int) -> None:
        async with entered(gateway.port, "0-9-1") as maker:
            await maker.request(DeclareQueue(1, None, queue, durable=True))
        async with entered(port, version) as remote:
            if version in ("0-8", "0-9", "1.0"):
                await remote.request(Fetch(1, None, queue, True))
            copy = version in ("0-10", "1.0")
            await remote.request(Subscribe(1, None, queue, "t", no_ack=True, copy=copy))
            transacted = version == "0.8a2"
            await remote.request(BeginSession(2, None, transacted=transacted))
            if not transacted:
                await remote.request(Select(2, None))
            remote.send(Publish(2, message(b"1", "", queue, **GIVEN), False, False))
            await remote.request(Commit(2, None))
            remote.send(Publish(2, message(b"1", "", queue, **GIVEN), False, False))
            await remote.request(Rollback(2, None))

    with Observed(gateway.port, tmp_path / "inventory.json") as observed:
        asyncio.run(work(observed.port))
    assert observed.unchanged
    assert not observed.inventory.failures
    assert OF_OTHERS[version] <= observed.features()


def test_an_inventory_is_gone_on_with(gateway: Running, tmp_path: Path) -> None:
    async def work(port: int) -> None:
        async with entered(port, "0-9-1") as remote:
            remote.send(Publish(1, message(b"1", "", "again", **GIVEN), False, False))
            await remote.drain()

    file = tmp_path / "inventory.json"
    with HashingRelay(gateway.port) as behind:
        for times in (1, 2):
            with Observed(gateway.port, file, behind=behind) as observed:
                asyncio.run(work(observed.port))
            (client,) = observed.inventory.clients.values()
            assert client.connections.count == client.published.usage.count == times
    with pytest.raises(InventoryError, match="is the inventory of"):
        Observing(Plan("127.0.0.1", 0, read_address("amqp://localhost"), file))
