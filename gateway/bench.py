"""A load of one publisher and one consumer on a broker, as a client in any version."""

import asyncio
import contextlib
import secrets
import time
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, TypeVar

from gateway.adapters import Credentials
from gateway.adapters.methods.content import BASIC
from gateway.errors import Condition, Refusal
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Closed,
    Confirm,
    DeclareQueue,
    DeleteQueue,
    Deliver,
    Outcome,
    Prefetch,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
)

STAMP = 8
"""Octets of a body that hold the time of its publishing, in nanoseconds."""
CHANNEL = 1
DRAIN_SECONDS = 30
"""Time for what was published to arrive."""
Kind = TypeVar("Kind")


@dataclass
class Result:
    """Counts, and latencies in seconds."""

    published: int = 0
    confirmed: int = 0
    refused: int = 0
    consumed: int = 0
    seconds: float = 0.0
    confirms: list[float] = field(default_factory=list)
    deliveries: list[float] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        return {
            "published": self.published,
            "confirmed": self.confirmed,
            "refused": self.refused,
            "consumed": self.consumed,
            "seconds": round(self.seconds, 3),
            "confirmed_per_second": round(self.confirmed / self.seconds, 1),
            "consumed_per_second": round(self.consumed / self.seconds, 1),
            "confirm_ms": percentiles(self.confirms),
            "delivery_ms": percentiles(self.deliveries),
        }


def percentiles(values: list[float]) -> dict[str, float]:
    """Milliseconds; empty without values."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        name: round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 3)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
    }


class Load:
    """One publisher and one consumer of a queue, each with a connection."""

    count = 0
    size = 0
    window = 0
    durable = True

    def __init__(
        self, address: tuple[str, int], version: str, vhost: str, credentials: Credentials
    ) -> None:
        self.address = address
        self.version = version
        self.vhost = vhost
        self.credentials = credentials
        self.queue = f"bench-{secrets.token_hex(4)}"
        self.result = Result()
        self.sent: dict[int, float] = {}
        """When the unconfirmed messages were sent, by their numbers, in order."""
        self.room = asyncio.Event()

    async def connect(self) -> Remote:
        remote = await dial(
            self.address, version=self.version, vhost=self.vhost, credentials=self.credentials
        )
        await remote.request(BeginSession(CHANNEL, None))
        return remote

    async def run(self) -> None:
        publisher, consumer, owner = [await self.connect() for _ in range(3)]
        try:
            await owner.request(DeclareQueue(CHANNEL, None, self.queue, durable=self.durable))
            begun = time.monotonic()
            await self.work(publisher, consumer)
            self.result.seconds = time.monotonic() - begun
        finally:
            await asyncio.gather(publisher.close(), consumer.close())
            await owner.request(DeleteQueue(CHANNEL, None, self.queue))
            await owner.close()

    async def work(self, publisher: Remote, consumer: Remote) -> None:
        """Raises ``Refusal`` if a connection or channel is lost, or a request is refused."""
        await consumer.request(Prefetch(CHANNEL, None, self.window))
        await consumer.request(Subscribe(CHANNEL, None, self.queue))
        await publisher.request(SelectConfirms(CHANNEL, None))
        tasks = [
            asyncio.create_task(self.publish(publisher)),
            asyncio.create_task(self.confirm(publisher)),
            asyncio.create_task(self.consume(consumer)),
        ]
        try:
            await asyncio.gather(*tasks[:2])
            # Of refused messages nothing comes.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(tasks[2], DRAIN_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def publish(self, remote: Remote) -> None:
        send = remote.publisher(CHANNEL)
        filling = bytes(self.size - STAMP)
        properties = Properties(durable=self.durable, content_type="application/octet-stream")
        header = BASIC.write(properties)
        essentials = BASIC.essentials(header)
        for _ in range(self.count):
            while len(self.sent) >= self.window:
                self.room.clear()
                await self.room.wait()
            body = time.monotonic_ns().to_bytes(STAMP) + filling
            send(Message(BASIC, header, body, "", self.queue, essentials), False, False)
            self.result.published += 1
            self.sent[self.result.published] = time.monotonic()
            await remote.drain()

    async def confirm(self, remote: Remote) -> None:
        result, sent = self.result, self.sent
        while result.confirmed + result.refused < self.count:
            for one in await self.some(remote, Confirm):
                now = time.monotonic()
                # A confirm is for the messages up to its number, or for that one alone.
                numbers = [one.sequence]
                if one.multiple:
                    numbers = list(takewhile(one.sequence.__ge__, sent))
                result.confirms += [now - sent.pop(number) for number in numbers]
                if one.accepted:
                    result.confirmed += len(numbers)
                else:
                    result.refused += len(numbers)
            self.room.set()

    async def consume(self, remote: Remote) -> None:
        result = self.result
        while result.consumed < self.count:
            found = await self.some(remote, Deliver)
            now = time.monotonic_ns()
            for one in found:
                stamp = int.from_bytes(bytes(one.message.body[:STAMP]))
                result.deliveries.append((now - stamp) / 1e9)
                remote.send(Settle(CHANNEL, one.delivery, False, Outcome.ACCEPT))
            result.consumed += len(found)

    async def some(self, remote: Remote, kind: type[Kind]) -> list[Kind]:
        """The next operations of this kind. Raises ``Refusal`` at the end of the connection or
        channel."""
        found = await remote.some(self.window)
        for one in found:
            if isinstance(one, SessionLost | Closed):
                raise Refusal(one.condition or Condition.CONNECTION_FORCED, one.text)
        if not found:
            raise Refusal(Condition.CONNECTION_FORCED, "the connection was lost")
        return [one for one in found if isinstance(one, kind)]
