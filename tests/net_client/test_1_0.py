"""The client role in AMQP 1.0, with independent brokers: Artemis, Broker-J, RabbitMQ 3.10.

A publish goes to the default exchange, with a queue's name as its key.
"""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.adapters import Credentials
from gateway.adapters.performatives.content import SECTIONS
from gateway.errors import Condition, Refusal
from gateway.message import Message, Properties
from gateway.net.dialer import Remote
from gateway.operations import (
    BeginSession,
    Closed,
    Commit,
    Confirm,
    Deliver,
    EndSession,
    Fetch,
    Fetched,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    Returned,
    Rollback,
    Select,
    SelectConfirms,
    Settle,
    Subscribe,
    Unsubscribe,
)
from gateway.values import Byte, Float, Int, Short, Symbol, Timestamp, UByte, UInt, ULong, UShort
from tests import in_memory
from tests.interop import brokers, servers
from tests.net_client.places import Place, following

pytestmark = pytest.mark.interop

ACCEPT, RELEASE, REJECT = Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT
PLAIN = ("artemis", "broker_j")
"""Where a queue's name is its address; for others the client role makes one of the other."""
NO_TRANSACTIONS = {
    "rabbitmq_1_0": "RabbitMQ 3.10 has no transactions in 1.0",
    "facade": "a facade has no transactions",
}
CHANGED = {
    "rabbitmq_1_0": "RabbitMQ 3.10 reads sections and writes them anew",
}


@pytest.fixture(scope="session", params=list(brokers.KINDS))
def server_1_0(
    request: pytest.FixtureRequest,
    running: dict[str, servers.Server],
    tmp_path_factory: pytest.TempPathFactory,
) -> servers.Server:
    name = request.param
    kind = brokers.KINDS[name]
    if reason := kind.missing():
        pytest.skip(reason)
    if name not in running:
        running[name] = kind.start(tmp_path_factory.mktemp(name))
    return running[name]


class Wire:
    """A connection with channel 1 open, publishes confirmed, and the test's own queue."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.broker = place.server.name
        self.address = ""
        self.remotes: list[Remote] = []

    async def open(self, confirms: bool = True, **options: Any) -> Remote:
        name = f"net.{uuid.uuid4().hex[:12]}"
        address = await asyncio.to_thread(brokers.queue_address, self.place.server, name)
        self.address = address if self.broker in PLAIN else name
        if self.broker == "rabbitmq_1_0":
            await asyncio.to_thread(brokers.declare, self.place.server, name)
        self.remote = await self.another(**options)
        if confirms:
            await self.ask(SelectConfirms(1, None))
        return self.remote

    async def another(self, **options: Any) -> Remote:
        remote = await self.place.dial(**options)
        self.remotes.append(remote)
        await remote.request(BeginSession(1, None))
        return remote

    async def close(self) -> None:
        for remote in self.remotes:
            await remote.close()

    async def ask(self, operation: Operation) -> Any:
        return await self.remote.request(operation)

    async def next(self, kind: type[Any]) -> Any:
        return await following(self.remote, kind)

    def say(
        self, body: bytes, key: str | None = None, exchange: str = "", **properties: Any
    ) -> Message:
        header = SECTIONS.write(Properties(**properties))
        key = self.address if key is None else key
        sent = Message(SECTIONS, header, body, exchange, key, SECTIONS.essentials(header))
        self.remote.send(Publish(1, sent, True, False))
        return sent

    async def publish(self, *bodies: bytes, **properties: Any) -> list[Message]:
        """Publish, and wait until the broker has them all."""
        sent = [self.say(body, **properties) for body in bodies]
        confirmed = 0
        while confirmed < len(sent):
            confirm = await self.next(Confirm)
            assert confirm.accepted
            confirmed = confirm.sequence if confirm.multiple else confirmed + 1
        return sent

    async def take(self) -> Message:
        """The next message by a consumer of its own, settled."""
        tag = await self.ask(Subscribe(1, None, self.address))
        delivered: Deliver = await self.next(Deliver)
        self.remote.send(Settle(1, delivered.delivery, False, ACCEPT))
        await self.ask(Unsubscribe(1, None, tag))
        return delivered.message

    async def fetch(self, no_ack: bool = True) -> Fetched | None:
        found = await self.ask(Fetch(1, None, self.address, no_ack))
        assert found is None or isinstance(found, Fetched)
        return found

    async def left(self) -> list[bytes]:
        found = []
        while (fetched := await self.fetch()) is not None:
            found.append(in_memory.octets(fetched.message))
        return found

    async def comes_back(self, body: bytes) -> None:
        """Artemis puts what is given back into its queue a moment after it was told, and may say
        before that the queue is empty."""
        found: list[bytes] = []
        for _ in range(500):
            found = await self.left()
            if found:
                break
            await asyncio.sleep(0.05)
        assert found == [body]


@pytest.fixture
def wire(server_1_0: servers.Server) -> Iterator[Wire]:
    yield Wire(Place(server_1_0, "1.0"))


# --- logging in ----------------------------------------------------------------------------------


async def test_login(wire: Wire) -> None:
    remote = await wire.place.dial(credentials=Credentials(mechanism="PLAIN"))
    assert remote.closed is None
    await remote.request(BeginSession(1, None))
    await remote.request(EndSession(1, None))
    await remote.close()
    assert remote.closed == Closed(None, "", theirs=False)


async def test_wrong_password(wire: Wire) -> None:
    with pytest.raises(Refusal) as caught:
        await wire.place.dial(credentials=Credentials("guest", "wrong", "PLAIN"))
    assert caught.value.condition is Condition.ACCESS_REFUSED


# --- messages ------------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "boolean": True,
    "byte": Byte(-128),
    "ubyte": UByte(255),
    "short": Short(-32768),
    "ushort": UShort(65535),
    "int": Int(-(1 << 31)),
    "uint": UInt((1 << 32) - 1),
    "long": -(1 << 63),
    "ulong": ULong((1 << 64) - 1),
    "float": Float(0.5),
    "double": 1e300,
    "text": "grün ✓",
    "symbol": Symbol("a:b"),
    "octets": b"\x00\xff\xfe",
    "time": Timestamp(1_700_000_000_123),
    "uuid": uuid.UUID(int=5),
    "void": None,
}

PROPERTIES: dict[str, Any] = {
    "message_id": "m-1",
    "user_id": b"guest",
    "to": "somewhere",
    "subject": "the subject",
    "reply_to": "replies",
    "correlation_id": ULong(5),
    "content_type": "text/plain",
    "content_encoding": "identity",
    "absolute_expiry_time": 4_000_000_000_123,
    "creation_time": 1_700_000_000_123,
    "group_id": "group",
    "group_sequence": 7,
    "reply_to_group_id": "reply group",
    "application": VALUES,
}


async def test_properties(wire: Wire) -> None:
    if reason := CHANGED.get(wire.broker):
        pytest.skip(reason)
    await wire.open()
    (sent,) = await wire.publish(b"body", durable=True, priority=7, **PROPERTIES)
    found = (await wire.take()).properties
    for name in (*PROPERTIES, "durable", "priority"):
        assert getattr(found, name) == getattr(sent.properties, name), name
    for name, value in VALUES.items():
        assert type((found.application or {})[name]) is type(value), name


@pytest.mark.parametrize("size", [0, 1, 511, 512, 100_000, 1 << 20, 10 << 20])
async def test_body(wire: Wire, size: int) -> None:
    await wire.open()
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    await wire.publish(body, b"the next one", durable=True)
    await wire.ask(Subscribe(1, None, wire.address, no_ack=True))
    first, second = await wire.next(Deliver), await wire.next(Deliver)
    assert first.message.body == body
    assert second.message.body == b"the next one"


async def test_many_in_order(wire: Wire) -> None:
    await wire.open()
    wanted = [b"%d" % number for number in range(2000)]
    await wire.ask(Subscribe(1, None, wire.address, no_ack=True))
    for body in wanted:
        wire.say(body)
    got: list[Any] = []
    confirmed = 0
    while len(got) < len(wanted) or confirmed < len(wanted):
        async with asyncio.timeout(10):
            found = await anext(wire.remote)
        if isinstance(found, Deliver):
            got.append(found.message.body)
        else:
            assert isinstance(found, Confirm) and found.accepted
            confirmed = found.sequence if found.multiple else confirmed + 1
    assert got == wanted


# --- consuming -----------------------------------------------------------------------------------


async def test_fetch(wire: Wire) -> None:
    await wire.open()
    assert await wire.fetch() is None
    await wire.publish(b"a", b"b")
    assert await wire.left() == [b"a", b"b"]


async def test_outcomes(wire: Wire) -> None:
    await wire.open()
    await wire.publish(b"again")
    await wire.ask(Prefetch(1, None, 1))
    tag = await wire.ask(Subscribe(1, None, wire.address))
    first: Deliver = await wire.next(Deliver)
    wire.remote.send(Settle(1, first.delivery, False, RELEASE))
    second: Deliver = await wire.next(Deliver)
    assert second.message.body == b"again"
    wire.remote.send(Settle(1, second.delivery, False, REJECT))
    await wire.ask(Unsubscribe(1, None, tag))
    assert await wire.fetch() is None


async def test_prefetch(wire: Wire) -> None:
    """No more come than may be unsettled; each settlement lets another one come."""
    await wire.open()
    await wire.publish(*(b"%d" % number for number in range(5)))
    await wire.ask(Prefetch(1, None, 2))
    await wire.ask(Subscribe(1, None, wire.address))
    held = [await wire.next(Deliver) for _ in range(2)]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await anext(wire.remote)
    wire.remote.send(Settle(1, held[0].delivery, False, ACCEPT))
    third: Deliver = await wire.next(Deliver)
    assert third.message.body == b"2"


async def test_what_is_unsettled_comes_again(wire: Wire) -> None:
    await wire.open()
    await wire.publish(b"kept", durable=True)
    await wire.ask(Subscribe(1, None, wire.address))
    await wire.next(Deliver)
    await wire.remote.close()
    wire.remote = await wire.another()
    assert (await wire.take()).body == b"kept"


async def test_missing_node(wire: Wire) -> None:
    """Costs the scope that the broker closes, never the connection."""
    if wire.broker in ("artemis", "rabbitmq_1_0"):
        pytest.skip("here a queue appears when it is first used")
    await wire.open()
    with pytest.raises(Refusal) as caught:
        await wire.ask(Subscribe(1, None, f"none-{uuid.uuid4().hex}"))
    assert caught.value.condition is Condition.NOT_FOUND
    await wire.publish(b"alive")
    assert await wire.left() == [b"alive"]


async def test_unroutable_comes_back(wire: Wire) -> None:
    if wire.broker != "gateway":
        pytest.skip("these brokers release nothing that has an address")
    await wire.open()
    wire.say(b"lost", "nobody", "amq.direct")
    back = await wire.next(Returned)
    assert back.condition is Condition.NO_ROUTE


# --- transactions --------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
async def test_transaction(wire: Wire, commit: bool) -> None:
    if reason := NO_TRANSACTIONS.get(wire.broker):
        pytest.skip(reason)
    await wire.open()
    await wire.publish(b"old")
    await wire.ask(EndSession(1, None))
    await wire.ask(BeginSession(1, None))
    await wire.ask(Select(1, None))
    tag = await wire.ask(Subscribe(1, None, wire.address))
    taken: Deliver = await wire.next(Deliver)
    wire.remote.send(Settle(1, taken.delivery, False, ACCEPT))
    wire.say(b"new")
    await wire.ask(Commit(1, None) if commit else Rollback(1, None))
    await wire.ask(Unsubscribe(1, None, tag))
    await wire.ask(EndSession(1, None))
    wire.remote = await wire.another()
    if commit:
        assert await wire.left() == [b"new"]
    else:
        await wire.comes_back(b"old")


async def test_transaction_lost(wire: Wire) -> None:
    """The connection goes in the middle: nothing of it has happened."""
    if reason := NO_TRANSACTIONS.get(wire.broker):
        pytest.skip(reason)
    await wire.open(confirms=False)
    await wire.ask(Select(1, None))
    wire.say(b"never")
    await wire.remote.drain()
    assert wire.remote._transport is not None
    wire.remote._transport.abort()
    wire.remote = await wire.another()
    assert await wire.fetch() is None
