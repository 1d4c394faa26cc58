"""Where to dial, how the two brokers are known to differ, and short words for the tests."""

import asyncio
import re
from typing import Any, NamedTuple

import pytest

from gateway.adapters import Product
from gateway.adapters.methods.content import BASIC
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Closed,
    DeclareQueue,
    Deliver,
    EndSession,
    Fetch,
    Fetched,
    Operation,
    Outcome,
    Publish,
    SessionLost,
    Settle,
    Subscribe,
)
from tests import in_memory
from tests.interop import servers


class Difference(NamedTuple):
    """What each broker does, where the tests know that they do not do the same."""

    rabbitmq: Any
    gateway: Any
    reason: str


FAILED, LOCKED = Condition.PRECONDITION_FAILED, Condition.RESOURCE_LOCKED
MISSING = Condition.NOT_FOUND
ABSENT = Condition.NOT_IMPLEMENTED

DIFFERENCES: dict[str, Difference] = {
    "product": Difference("RabbitMQ", "amqp-gateway (Qpid extensions)", "each says its name"),
    "recover without requeue": Difference(
        (ABSENT, "CONNECTION"), "Deliver", "RabbitMQ knows only recovery with requeueing"
    ),
    "prefetch in octets": Difference((ABSENT, "CONNECTION"), None, "RabbitMQ counts messages only"),
    "stop the server's flow": Difference(
        (ABSENT, "CONNECTION"), None, "RabbitMQ leaves that to prefetch"
    ),
    "passive declare without a name": Difference(
        MISSING,
        None,
        "0-9-1 lets an empty name stand for the last queue declared; for passive "
        "declaration RabbitMQ takes it literally",
    ),
    "durable differs on an exclusive queue": Difference(
        None, FAILED, "RabbitMQ forgets durability where a queue is exclusive"
    ),
}
"""By matter. ``None``: not refused."""

LACKS: dict[tuple[str, str], dict[str, str]] = {
    ("rabbitmq", "0-8"): dict.fromkeys(
        ("nack", "confirms", "update secret", "exchange to exchange"),
        "RabbitMQ has its extensions in 0-9-1 (and what it calls 0-9) only",
    ),
}
"""What cannot be tried at all, and why."""


class Place(NamedTuple):
    """A broker and a version."""

    server: servers.Server
    version: str

    @property
    def broker(self) -> str:
        return self.server.name

    @property
    def documented(self) -> bool:
        """Whether 0-8 and 0-9 follow their own documents here, where those differ from RabbitMQ
        (docs/versions.md)."""
        return self.broker == "gateway" and self.version in ("0-8", "0-9")

    def expected(self, what: str) -> Any:
        """What this broker does in a matter where they differ."""
        return getattr(DIFFERENCES[what], self.broker)

    def need(self, feature: str) -> None:
        """Skip the test if this broker does not have the feature in this version."""
        reason = LACKS.get((self.broker, self.version), {}).get(feature)
        if reason is not None:
            pytest.skip(reason)

    async def dial(self, **options: Any) -> Remote:
        """A connection as guest, unless told otherwise."""
        options.setdefault("product", Product(name="net_client"))
        return await dial(("127.0.0.1", self.server.port), version=self.version, **options)


class Talk:
    """One connection with channel 1, and the usual requests of tests."""

    def __init__(self, place: Place, test: str) -> None:
        self.place = place
        self.version = place.version
        self.broker = place.broker
        self.name = re.sub(r"\W+", ".", test)[:100]
        """A name for queues and exchanges that no other test uses."""
        self.remote: Remote
        self.others: list[Remote] = []

    async def open(self, **options: Any) -> Remote:
        self.remote = await self.another(**options)
        return self.remote

    async def another(self, **options: Any) -> Remote:
        """One more connection with channel 1 open; closed after the test."""
        remote = await self.place.dial(**options)
        self.others.append(remote)
        await remote.request(BeginSession(1, None))
        return remote

    async def close(self) -> None:
        for remote in self.others:
            await remote.close()

    # --- words ----------------------------------------------------------------------------------

    async def ask(self, operation: Operation) -> Any:
        return await self.remote.request(operation)

    async def queue(self, suffix: str = "", **options: Any) -> str:
        """Declare a queue that goes away with the connection."""
        options.setdefault("exclusive", True)
        state = await self.ask(DeclareQueue(1, None, f"{self.name}{suffix}", **options))
        return str(state.name)

    def publish(self, key: str, body: bytes, exchange: str = "", **options: Any) -> Message:
        """Publish on channel 1 and give the message back."""
        mandatory = options.pop("mandatory", False)
        sent = message(body, exchange, key, **options)
        self.remote.send(Publish(1, sent, mandatory, False))
        return sent

    async def fetch(self, queue: str, no_ack: bool = True) -> Fetched | None:
        found = await self.ask(Fetch(1, None, queue, no_ack))
        assert found is None or isinstance(found, Fetched)
        return found

    async def bodies(self, queue: str) -> list[bytes]:
        """Empty the queue."""
        found = []
        while (fetched := await self.fetch(queue)) is not None:
            found.append(in_memory.octets(fetched.message))
        return found

    async def settled(self, queue: str, count: int) -> None:
        """Wait until so many messages are ready: publishes have no answer."""
        for _ in range(1500):
            state = await self.ask(DeclareQueue(1, None, queue, passive=True))
            if state.messages == count:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{state.messages} messages, not {count}")

    async def subscribe(self, queue: str, **options: Any) -> str:
        return str(await self.ask(Subscribe(1, None, queue, **options)))

    async def next(self, kind: type[Any], seconds: float = 30.0) -> Any:
        """The next operation, which is of this kind."""
        return await following(self.remote, kind, seconds)

    async def delivery(self) -> Deliver:
        found: Deliver = await self.next(Deliver)
        return found

    def settle(self, delivery: int, outcome: Outcome, multiple: bool = False) -> None:
        self.remote.send(Settle(1, delivery, multiple, outcome))

    async def answered(self, operation: Operation, matter: str) -> None:
        """The brokers differ in whether they refuse this."""
        condition = self.place.expected(matter)
        if condition is None:
            await self.ask(operation)
        else:
            await self.refused(operation, condition, "")

    async def missing(self, operation: Operation, result: Any = None) -> None:
        """Something does not exist: the documents refuse that, RabbitMQ's way is a success."""
        if self.place.documented:
            await self.refused(operation, MISSING, "")
        else:
            assert await self.ask(operation) == result

    async def reopen(self, ended: bool = False) -> None:
        """Channel 1 anew."""
        if not ended:
            await self.ask(EndSession(1, None))
        await self.ask(BeginSession(1, None))

    async def refused(self, operation: Operation, condition: Condition, text: str) -> None:
        """This costs channel 1 and nothing else; afterwards channel 1 is open again."""
        refusal = await refusal_of(self.remote, operation)
        assert (refusal.condition, refusal.lost) == (condition, Lost.SESSION), refusal
        assert text in refusal.text
        lost = await self.next(SessionLost)
        assert (lost.channel, lost.condition) == (1, condition)
        await self.reopen(ended=True)


async def refusal_of(remote: Remote, operation: Operation) -> Refusal:
    try:
        result = await remote.request(operation)
    except Refusal as refusal:
        return refusal
    raise AssertionError(f"not refused, but answered with {result!r}")


async def following(remote: Remote, kind: type[Any], seconds: float = 30.0) -> Any:
    """The next operation, which is of this kind."""
    try:
        async with asyncio.timeout(seconds):
            found = await anext(remote)
    except TimeoutError:
        raise AssertionError(f"no {kind.__name__} within {seconds} s") from None
    assert isinstance(found, kind), found
    return found


async def ending(remote: Remote) -> Closed:
    """How the connection ended; operations before are skipped."""
    last = None
    async with asyncio.timeout(30):
        async for operation in remote:
            last = operation
    assert isinstance(last, Closed)
    return last


def message(body: bytes, exchange: str, key: str, **properties: Any) -> Message:
    header = BASIC.write(Properties(**properties))
    return Message(BASIC, header, body, exchange, key, BASIC.essentials(header))
