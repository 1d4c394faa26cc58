"""The client role of 1.0 with four brokers: this gateway, RabbitMQ 3 with its plugin, Artemis and
Broker-J."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.adapters import Credentials, Product
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    AttachSource,
    BeginSession,
    Bind,
    Commit,
    Confirm,
    Credit,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    EndSession,
    Fetch,
    Fetched,
    Modify,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    PurgeQueue,
    QueueState,
    Returned,
    Rollback,
    Select,
    SelectConfirms,
    Settle,
    Subscribe,
    Terminus,
    Unbind,
    Unsubscribe,
)
from tests.interop import servers

pytestmark = pytest.mark.interop

BROKERS = ("gateway", "rabbitmq_1_0", "artemis", "broker_j")


@pytest.fixture(scope="module", params=BROKERS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[servers.Server]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "gateway":
        server = servers.start_gateway(folder)
    elif request.param == "rabbitmq_1_0":
        if reason := servers.rabbitmq_missing():
            pytest.skip(reason)
        server = servers.start_rabbitmq(folder, plugins=["rabbitmq_amqp1_0"])
        server.name = request.param
    else:
        brokers = pytest.importorskip("tests.interop.brokers", reason="no starter for it here")
        kind = brokers.KINDS[request.param]
        if reason := kind.missing():
            pytest.skip(reason)
        server = kind.start(folder)
    try:
        yield server
        assert server.alive, server.tail()
    finally:
        server.stop()


class Line:
    """One connection with channel 1, on a queue that no other test uses."""

    def __init__(self, broker: servers.Server, test: str) -> None:
        self.broker = broker
        self.queue = "queue." + re.sub(r"\W+", ".", test)[:80]
        self.remote: Remote

    async def __aenter__(self) -> "Line":
        self.remote = await self.dial()
        await self.remote.request(BeginSession(1, None))
        if self.broker.name == "gateway":
            await self.remote.request(DeclareQueue(1, None, self.queue, durable=True))
        elif self.broker.name == "rabbitmq_1_0":
            other = await self.dial("0-9-1")
            await other.request(BeginSession(1, None))
            await other.request(DeclareQueue(1, None, self.queue, durable=True))
            await other.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.remote.close()

    async def dial(self, version: str = "1.0", **options: Any) -> Remote:
        product = Product(name="links")
        address = "127.0.0.1", self.broker.port
        return await dial(address, version=version, product=product, **options)

    def publish(self, body: bytes, key: str | None = None, **properties: Any) -> None:
        header = SECTIONS.write(Properties(**properties))
        essentials = SECTIONS.essentials(header)
        message = Message(SECTIONS, header, body, "", key or self.queue, essentials)
        self.remote.send(Publish(1, message, True, False))

    async def fetch(self, channel: int = 1) -> Fetched | None:
        found = await self.remote.request(Fetch(channel, None, self.queue))
        assert found is None or isinstance(found, Fetched)
        return found

    async def fetch_again(self, channel: int = 1) -> Fetched:
        """What was just given back. Artemis puts it into its queue a moment after it was told, and
        may say before that the queue is empty."""
        for _ in range(500):
            found = await self.fetch(channel)
            if found is not None:
                return found
            await asyncio.sleep(0.05)
        raise AssertionError("it does not come back")

    def accept(self, found: Fetched, channel: int = 1) -> bytes:
        self.remote.send(Settle(channel, found.delivery, False, Outcome.ACCEPT))
        assert isinstance(found.message.body, bytes)
        return found.message.body

    async def taken(self, channel: int = 1) -> bytes | None:
        found = await self.fetch(channel)
        return None if found is None else self.accept(found, channel)

    async def confirmed(self, last: int) -> None:
        """All publishes up to this one."""
        async with asyncio.timeout(30):
            async for operation in self.remote:
                assert isinstance(operation, Confirm) and operation.accepted, operation
                if operation.sequence == last:
                    return

    async def deliveries(self, count: int) -> list[Deliver]:
        found: list[Deliver] = []
        async with asyncio.timeout(30):
            async for operation in self.remote:
                if isinstance(operation, Deliver):
                    found.append(operation)
                    if len(found) == count:
                        return found
        raise AssertionError(f"{len(found)} deliveries, not {count}")


@pytest.fixture
def line(broker: servers.Server, request: pytest.FixtureRequest) -> Line:
    return Line(broker, request.node.name)


async def refused(remote: Remote, operation: Operation) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await remote.request(operation)
    return caught.value


async def test_login(line: Line) -> None:
    for name, credentials in (
        ("password", Credentials("guest", "wrong")),
        ("user", Credentials("nobody", "guest")),
        ("mechanism", Credentials(mechanism="GSSAPI")),
    ):
        with pytest.raises(Refusal) as caught:
            await line.dial(credentials=credentials)
        assert caught.value.condition in (Condition.ACCESS_REFUSED, Condition.NOT_ALLOWED), name
    remote = await line.dial()
    assert remote.peer.version == "1.0" and remote.peer.product
    await remote.close()
    assert remote.closed is not None and remote.closed.condition is None


async def test_a_virtual_host_that_is_not_there(line: Line) -> None:
    if line.broker.name == "artemis":
        pytest.skip("Artemis has none")
    with pytest.raises(Refusal):
        remote = await line.dial(vhost="nowhere")
        await remote.request(BeginSession(1, None))


async def test_bodies_and_properties(line: Line) -> None:
    async with line:
        await line.remote.request(SelectConfirms(1, None))
        properties: dict[str, Any] = {
            "durable": True, "message_id": "m", "correlation_id": "c", "subject": "s",
            "content_type": "text/plain", "reply_to": "r",
            "application": {"text": "grün ✓", "number": 5, "yes": True},
        }  # fmt: skip
        bodies = [b"", b"x", b"y" * 70_000, b"z" * 1_000_000]
        for body in bodies:
            line.publish(body, **properties)
        await line.confirmed(len(bodies))
        await line.remote.request(Subscribe(1, None, line.queue, "tag"))
        for body, found in zip(bodies, await line.deliveries(len(bodies)), strict=True):
            assert found.message.body == body
            given = found.message.properties.given()
            assert {name: given.get(name) for name in properties} == properties


async def test_many_in_order(line: Line) -> None:
    async with line:
        await line.remote.request(SelectConfirms(1, None))
        for number in range(2500):
            line.publish(b"%d" % number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await line.confirmed(2500)
        await line.remote.request(Prefetch(1, None, 50))
        await line.remote.request(Subscribe(1, None, line.queue, "tag"))
        for number in range(2500):
            (found,) = await line.deliveries(1)
            assert found.message.body == b"%d" % number
            line.remote.send(Settle(1, found.delivery, False, Outcome.ACCEPT))
        assert await line.remote.request(Unsubscribe(1, None, "tag")) == "tag"
        assert await line.taken() is None


async def test_settled_both_ways(line: Line) -> None:
    """Without confirms publishes are settled, without acknowledgements deliveries are."""
    async with line:
        await line.remote.request(Subscribe(1, None, line.queue, "tag", no_ack=True))
        for number in range(1500):
            line.publish(b"%d" % number)
        found = await line.deliveries(1500)
        assert [each.message.body for each in found] == [b"%d" % n for n in range(1500)]


async def test_outcomes(line: Line) -> None:
    async with line:
        await line.remote.request(SelectConfirms(1, None))
        line.publish(b"once")
        await line.confirmed(1)
        found = await line.fetch()
        assert found is not None and not found.redelivered
        line.remote.send(Settle(1, found.delivery, False, Outcome.RELEASE))
        found = await line.fetch_again()
        assert found.message.body == b"once"
        line.remote.send(Modify(1, found.delivery, True, False))
        found = await line.fetch_again()
        assert found.message.body == b"once"
        # Broker-J gives back rejected messages, unless its queue has an alternate binding.
        last = Outcome.ACCEPT if line.broker.name == "broker_j" else Outcome.REJECT
        line.remote.send(Settle(1, found.delivery, False, last))
        assert await line.fetch() is None


async def test_credit_by_hand(line: Line) -> None:
    if line.broker.name == "rabbitmq_1_0":
        pytest.skip("RabbitMQ 3.10 loses the session when a classic queue is drained")
    async with line:
        await line.remote.request(SelectConfirms(1, None))
        for number in range(5):
            line.publish(b"%d" % number)
        await line.confirmed(5)
        address = f"/queues/{line.queue}" if line.broker.name == "gateway" else line.queue
        word = AttachSource(1, None, "l", "by hand", "", Terminus(address))
        assert (await line.remote.request(word)).terminus.address == address
        await line.remote.request(Credit(1, None, "l", 2))
        assert len(await line.deliveries(2)) == 2
        assert await line.remote.request(Credit(1, None, "l", 10, True)) == 7
        assert len(await line.deliveries(3)) == 3


async def test_missing_nodes(line: Line) -> None:
    if line.broker.name == "artemis":
        pytest.skip("Artemis makes what is not there")
    async with line:
        refusal = await refused(line.remote, Subscribe(1, None, "missing"))
        lost = Lost.SESSION if line.broker.name == "rabbitmq_1_0" else Lost.LINK
        assert (refusal.condition, refusal.lost) == (Condition.NOT_FOUND, lost)
        if lost is Lost.SESSION:
            return
        await line.remote.request(SelectConfirms(1, None))
        line.publish(b"x", "missing")
        returned, confirm = await anext(line.remote), await anext(line.remote)
        assert isinstance(returned, Returned) and returned.condition is Condition.NOT_FOUND
        assert confirm == Confirm(1, 1, False, False)


async def test_transactions(line: Line) -> None:
    async with line:
        await line.remote.request(BeginSession(2, None))
        if line.broker.name == "rabbitmq_1_0":
            assert (await refused(line.remote, Select(2, None))).text
            return
        await line.remote.request(Select(2, None))

        def publish(body: bytes) -> None:
            message = Message(SECTIONS, b"", body, "", line.queue, SECTIONS.essentials(b""))
            line.remote.send(Publish(2, message, True, False))

        publish(b"never")
        await line.remote.request(Rollback(2, None))
        assert await line.fetch() is None
        publish(b"once")
        await line.remote.request(Commit(2, None))
        assert await line.taken(2) == b"once"
        await line.remote.request(Rollback(2, None))
        assert line.accept(await line.fetch_again(2), 2) == b"once"
        await line.remote.request(Commit(2, None))
        assert await line.fetch() is None


async def test_a_message_of_another_version(line: Line) -> None:
    async with line:
        header = BASIC.write(Properties(content_type="a/b", application={"n": 1}))
        essentials = BASIC.essentials(header)
        message = Message(BASIC, header, b"body", "", line.queue, essentials)
        line.remote.send(Publish(1, message, True, False))
        await line.remote.request(Subscribe(1, None, line.queue, "tag"))
        (found,) = await line.deliveries(1)
        assert found.message.body == b"body"
        assert found.message.properties.content_type == "a/b"
        assert (found.message.properties.application or {})["n"] == 1


async def test_sessions_come_and_go(line: Line) -> None:
    async with line:
        for _ in range(3):
            for channel in (2, 3):
                await line.remote.request(BeginSession(channel, None))
                await line.remote.request(Subscribe(channel, None, line.queue, "tag"))
            for channel in (2, 3):
                await line.remote.request(EndSession(channel, None))
        line.publish(b"still here")
        assert await line.taken() in (b"still here", None)


async def test_topology(line: Line) -> None:
    """By requests to the management node, which the others do not have in this form."""
    async with line:
        word = DeclareQueue(1, None, line.queue + ".more", durable=True)
        if line.broker.name != "gateway":
            assert (await refused(line.remote, word)).condition is Condition.NOT_IMPLEMENTED
            return
        ask = line.remote.request
        assert await ask(word) == QueueState(word.name, 0, 0)
        exchange = line.queue + ".exchange"
        await ask(DeclareExchange(1, None, exchange, "topic"))
        await ask(DeclareExchange(1, None, exchange, passive=True))
        await ask(Bind(1, None, word.name, exchange, "a.#"))
        await ask(SelectConfirms(1, None))
        for key in ("a.b", "b"):
            message = Message(SECTIONS, b"", b"x", exchange, key, SECTIONS.essentials(b""))
            line.remote.send(Publish(1, message, True, False))
        async with asyncio.timeout(30):
            operation = await anext(line.remote)
            while not isinstance(operation, Returned):
                assert isinstance(operation, Confirm)
                operation = await anext(line.remote)
        assert (operation.message.key, operation.condition) == ("b", Condition.NO_ROUTE)
        assert (await ask(DeclareQueue(1, None, word.name, passive=True))).messages == 1
        assert await ask(PurgeQueue(1, None, word.name)) == 1
        await ask(Unbind(1, None, word.name, exchange, "a.#"))
        await ask(DeleteExchange(1, None, exchange))
        assert await ask(DeleteQueue(1, None, word.name)) == 0
        missing = await refused(line.remote, PurgeQueue(1, None, word.name))
        assert (missing.condition, missing.lost) == (Condition.NOT_FOUND, Lost.LINK)
