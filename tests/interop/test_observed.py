"""Clients and brokers nobody here wrote, with the proxy between them: they work as before, no octet
changes, and the inventory names what they did."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers, servers
from tests.interop.restarts import LINES, Restartable, Seen, checks, java
from tests.interop.servers import Server
from tests.interop.test_qpid_jms import EXPECTED, SOURCE
from tests.inventory.observed import Observed

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
FOLDER = Path(__file__).parent / "clients/jms"


def started(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    kind = brokers.KINDS[name]
    if reason := kind.missing():
        pytest.skip(reason)
    server = kind.start(tmp_path_factory.mktemp(name))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def broker_j(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from started("broker_j", tmp_path_factory)


@pytest.fixture(scope="module")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from started("artemis", tmp_path_factory)


def in_front(server: Server, observed: Observed) -> Server:
    """The server as a client sees it through the proxy."""
    return Server(server.name, observed.port, server.folder, server.log)


# --- pika -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rabbitmq", "gateway"])
def test_pika(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    import pika

    server: Server = request.getfixturevalue(name)
    with Observed(server.port, tmp_path / "inventory.json") as observed:
        given = pika.ConnectionParameters(
            server.host, observed.port, client_properties={"connection_name": "billing"}
        )
        with pika.BlockingConnection(given) as wire:
            channel = wire.channel()
            arguments = {"x-message-ttl": 60_000, "x-max-priority": 5}
            channel.queue_declare("observed", durable=True, arguments=arguments)
            channel.exchange_declare("observed.in", "topic")
            channel.queue_bind("observed", "observed.in", "a.#")
            replies = channel.queue_declare("", exclusive=True).method.queue
            channel.confirm_delivery()
            channel.basic_qos(prefetch_count=10, global_qos=True)
            headers = {"n": 1, "map": {"deep": [Decimal("1.5")]}, "none": None}
            properties = pika.BasicProperties(
                headers=headers, delivery_mode=2, reply_to=replies, expiration="30000",
                user_id="guest", content_type="application/json",
            )  # fmt: skip
            for number in range(50):
                channel.basic_publish(
                    "observed.in", "a.b", bytes(number * 100), properties, mandatory=True
                )
            method, _, _ = channel.basic_get("observed")
            channel.basic_nack(method.delivery_tag, requeue=True)
            taken = channel.consume("observed", arguments={"x-priority": 3})
            sizes = []
            for _ in range(50):
                method, _, body = next(taken)
                channel.basic_ack(method.delivery_tag)
                sizes.append(len(body))
            channel.cancel()
            other = wire.channel()
            other.tx_select()
            other.basic_publish("", "observed", b"", properties)
            other.tx_rollback()
            direct = wire.channel()
            direct.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    assert sorted(sizes) == [number * 100 for number in range(50)]
    assert observed.unchanged
    assert observed.inventory.counts["undecoded"] == 0, observed.inventory.failures
    (client,) = observed.inventory.clients.values()
    who = client.identity
    assert (who.version, who.user, who.vhost, who.name) == ("0-9-1", "guest", "/", "billing")
    assert who.product == "Pika Python Client Library" and who.product_version
    assert {
        "queue-message-ttl", "priority-queue", "server-named-queue", "exclusive-queue", "confirms",
        "global-qos", "header-map", "header-list", "header-decimal", "header-null", "expiration",
        "reply-to", "user-id", "mandatory", "basic-get", "nack", "consumer-priority",
        "transactions", "transaction-rollback", "direct-reply-to",
    } <= set(client.features.used)  # fmt: skip
    assert client.features.used["mandatory"].count == 50
    queue, exchange = observed.node("queue", "observed"), observed.node("exchange", "observed.in")
    assert queue.bindings.counts == {"observed.in a.#": 1}
    assert exchange.published.usage.count == exchange.durable == 50
    assert exchange.published.largest == 4900
    assert exchange.content_types.counts == {"application/json": 50}
    assert queue.delivered.usage.count == 51


# --- Qpid's client for 0-8 to 0-10 ----------------------------------------------------------------


@pytest.mark.parametrize(
    "version",
    # The client says the same in 0-8 and 0-9 as in 0-9-1, but for its header and a few fields.
    [*(pytest.param(one, marks=pytest.mark.long) for one in ("0-8", "0-9")), "0-9-1", "0-10"],
)
def test_qpid_jms_0_x(version: str, broker_j: Server, tmp_path: Path) -> None:
    """All that the client's own test does, with the same results."""
    command = java("qpid-client", "qpid-client", [SOURCE, LINES])
    command[1:1] = [f"-Dqpid.amqp.version={version}", "-Dqpid.sync_op_timeout=10000"]
    with Observed(broker_j.port, tmp_path / "inventory.json") as observed:
        target = Restartable(in_front(broker_j, observed), lambda before: before)
        seen = checks([*command, broker_j.host, str(observed.port)], target, tmp_path)
    assert {name: seen.get(name, seen[""]).get("got") for name in EXPECTED} == EXPECTED
    assert observed.unchanged
    assert observed.inventory.counts["undecoded"] == 0, observed.inventory.failures
    clients = [one for one in observed.inventory.clients.values() if one.identity.user]
    assert {one.identity.version for one in clients} == {version}
    assert {one.identity.user for one in clients} == {"guest"}
    features = observed.features()
    assert {"selector", "transactions", "priority", "expiration", "exclusive-queue"} <= features
    if version == "0-10":
        assert {"browse", "last-value-queue", "message-group"} <= features
    document = json.dumps(observed.inventory.written())
    assert "unknown-method" not in document


# --- clients for 1.0 ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["artemis", "broker_j", "gateway"])
def test_proton(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if importlib.util.find_spec("proton") is None:
        pytest.skip(f"Proton is not installed; {servers.INSTALL}")
    from proton import Message, symbol
    from proton.reactor import Copy, Selector
    from proton.utils import BlockingConnection

    server: Server = request.getfixturevalue(name)
    address = brokers.queue_address(server, f"proton.{name}")
    with Observed(server.port, tmp_path / "inventory.json") as observed:
        url = f"amqp://guest:guest@{server.host}:{observed.port}"
        wire = BlockingConnection(url, timeout=30, allowed_mechs="PLAIN")
        sender = wire.create_sender(address)
        for number in range(20):
            message = Message(
                body=b"x" * (number * 1000), durable=True, priority=9, ttl=60.0, inferred=True,
                properties={"n": number, "kind": symbol("s")}, content_type="text/plain",
                reply_to="answers",
            )  # fmt: skip
            sender.send(message)
        browser = wire.create_receiver(address, options=Copy(), credit=1)
        browser.receive(timeout=30)
        browser.close()
        receiver = wire.create_receiver(address, credit=20)
        sizes = []
        for _ in range(20):
            sizes.append(len(receiver.receive(timeout=30).body))
            receiver.accept()
        receiver.close()
        wire.create_receiver(address, options=Selector("n > 3")).close()
        wire.create_receiver(None, dynamic=True).close()
        wire.close()
    assert sorted(sizes) == [number * 1000 for number in range(20)]
    assert observed.unchanged
    assert observed.inventory.counts["undecoded"] == 0, observed.inventory.failures
    (client,) = observed.inventory.clients.values()
    assert (client.identity.version, client.identity.user) == ("1.0", "guest")
    assert {"browse", "filter-selector", "dynamic-node", "priority", "expiration"} <= set(
        client.features.used
    )
    node = observed.node("address", address)
    assert node.published.usage.count == node.durable == 20
    assert node.published.largest == 19_000
    assert node.content_types.counts == {"text/plain": 20}
    assert {"int64", "symbol"} <= set(node.header_types.counts)
    assert node.delivered.usage.count >= 21


@pytest.mark.parametrize("name", ["artemis", "gateway"])
def test_qpid_jms_1_0(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server: Server = request.getfixturevalue(name)
    source = tmp_path / "JmsPeer.java"
    source.write_text((FOLDER / source.name).read_text().replace("PACKAGE", "jakarta.jms"))
    sources = [source, FOLDER / "modern/Dial.java", LINES]
    command = java("qpid-jms", "qpid-jms-client", sources)
    queue = f"queue.jms.{name}"
    if brokers.KINDS[name].declares:
        brokers.declare(server, queue)
    seen: list[Seen] = []
    with Observed(server.port, tmp_path / "inventory.json") as observed:
        target = Restartable(in_front(server, observed), lambda before: before)
        for verb in ("send", "receive"):
            words = [server.host, str(observed.port), verb, queue]
            seen.append(checks([*command, *words], target, tmp_path))
    assert seen[1]["text"]["got"]["body"] == "grün ✓", seen
    assert observed.unchanged
    assert observed.inventory.counts["undecoded"] == 0, observed.inventory.failures
    for client in observed.inventory.clients.values():
        assert client.identity.version == "1.0"
        assert client.identity.product == "QpidJMS"
    nodes: list[Any] = [one for one in observed.inventory.nodes.values() if queue in one.key[2]]
    (node,) = nodes
    assert node.published.usage.count == node.delivered.usage.count > 10
    assert "jms-annotations" in observed.features()
    assert "message-group" in observed.features()
