"""A publisher at full rate, and a consumer of its queue, under the load of others."""

import asyncio
from collections.abc import Awaitable
from itertools import pairwise

from gateway.net.dialer import Remote
from gateway.operations import (
    Confirm,
    Deliver,
    Outcome,
    Prefetch,
    Publish,
    SelectConfirms,
    Settle,
    Subscribe,
)
from tests.bridge.test_facade import entered, message

WINDOW = 100
"""Messages that the publisher has without a confirm at a time."""


class Steady:
    """Runs while something else does; ``published`` are numbered from 1, ``refused`` are those that
    were not confirmed, ``taken`` came in this order, and so did their ``redelivered`` flags."""

    def __init__(self, port: int, queue: str, version: str = "0-9-1") -> None:
        self.port = port
        self.queue = queue
        self.version = version
        self.published = self.confirmed = self.refused = 0
        self.taken: list[int] = []
        self.redelivered = 0
        self._wanted = 0
        self._enough = asyncio.Event()

    async def during(self, work: Awaitable[None]) -> None:
        """The work, and all that was published meanwhile taken."""
        publisher = await entered(self.port, self.version)
        consumer = await entered(self.port, self.version)
        stopping = asyncio.Event()
        tasks = [
            asyncio.create_task(self._publish(publisher, stopping)),
            asyncio.create_task(self._consume(consumer)),
        ]
        try:
            await work
            stopping.set()
            await tasks[0]
            while len(set(self.taken)) < self.confirmed:
                assert not tasks[1].done(), tasks[1].result()
                await asyncio.sleep(0.02)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for remote in (publisher, consumer):
                await remote.close()

    async def _publish(self, remote: Remote, stopping: asyncio.Event) -> None:
        await remote.request(SelectConfirms(1, None))
        told = 0
        while not stopping.is_set() or told < self.published:
            while self.published - told < WINDOW and not stopping.is_set():
                self.published += 1
                remote.send(Publish(1, message(self.published, self.queue), True, False))
            remote.wake()
            operation = await anext(remote)
            assert isinstance(operation, Confirm), operation
            if operation.accepted:
                self.confirmed += operation.sequence - told
            else:
                self.refused += operation.sequence - told
            told = operation.sequence
            if self.confirmed >= self._wanted:
                self._enough.set()

    async def _consume(self, remote: Remote) -> None:
        await remote.request(Prefetch(1, None, WINDOW))
        await remote.request(Subscribe(1, None, self.queue))
        async for operation in remote:
            assert isinstance(operation, Deliver), operation
            self.taken.append(int(operation.message.body[:].removeprefix(b"body ")))
            self.redelivered += operation.redelivered
            remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
            remote.wake()

    async def some_more(self, count: int = 3 * WINDOW) -> None:
        """Wait until the publisher has so many more confirms."""
        self._wanted = self.confirmed + count
        self._enough.clear()
        await self._enough.wait()

    @property
    def repeated(self) -> int:
        """Messages that came more than once."""
        return len(self.taken) - len(set(self.taken))

    @property
    def in_order(self) -> bool:
        first = list(dict.fromkeys(self.taken))
        return all(one < other for one, other in pairwise(first))
