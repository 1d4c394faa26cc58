"""Publishers with confirms and consumers of one queue, whose messages are numbered."""

import asyncio
from collections import Counter

from gateway.adapters.methods.content import BASIC
from gateway.errors import GatewayError
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Confirm,
    Deliver,
    Outcome,
    Prefetch,
    Publish,
    SelectConfirms,
    Settle,
    Subscribe,
)

WINDOW = 20
"""Messages that a publisher has without a confirm at a time."""
ROUNDS = 400


class Traffic:
    """``confirmed`` and ``taken`` by number of the message. ``ports`` are gateways, of which a
    client uses the next when its connection is lost; ``reconnects`` counts that."""

    def __init__(self, queue: str, ports: list[int], versions: tuple[str, ...]) -> None:
        self.queue = queue
        self.ports = ports
        self.versions = versions
        self.confirmed: set[int] = set()
        self.taken: Counter[int] = Counter()
        self.unmarked = 0
        """Messages that came again and were not marked as redelivered."""
        self.repeated: set[int] = set()
        """Their numbers."""
        self.unconfirmed: set[int] = set()
        self.published = 0
        self.reconnects = 0
        self.stopping = False

    async def run(self, faults: "asyncio.Future[None]") -> None:
        """Until the faults are over and everything confirmed has been taken."""
        publishers = [asyncio.create_task(self._publisher(one)) for one in self.versions]
        consumers = [asyncio.create_task(self._consumer(one)) for one in self.versions]
        try:
            await faults
            self.stopping = True
            await asyncio.gather(*publishers)
            while not self.confirmed <= set(self.taken):
                for one in consumers:
                    if one.done():
                        one.result()
                await asyncio.sleep(0.05)
        finally:
            for task in (*publishers, *consumers):
                task.cancel()
            await asyncio.gather(*publishers, *consumers, return_exceptions=True)

    async def _connected(self, version: str) -> Remote:
        for attempt in range(ROUNDS):
            try:
                port = self.ports[attempt % len(self.ports)]
                remote = await dial(("127.0.0.1", port), version=version)
                await remote.request(BeginSession(1, None))
            except (OSError, GatewayError):
                await asyncio.sleep(0.1)
            else:
                return remote
        raise AssertionError("no gateway answers")

    async def _publisher(self, version: str) -> None:
        waiting: list[int] = []
        while not self.stopping or waiting:
            remote = await self._connected(version)
            try:
                await remote.request(SelectConfirms(1, None))
                await self._publish(remote, waiting)
            except GatewayError:
                self.reconnects += 1
            else:
                if remote.closed is not None:
                    self.reconnects += 1
            finally:
                await remote.close(1)

    async def _publish(self, remote: Remote, waiting: list[int]) -> None:
        """``waiting`` are those without a confirm: from an earlier connection at first."""
        sent: dict[int, int] = {}
        for sequence, number in enumerate(waiting, 1):
            remote.send(Publish(1, self._message(number), True, False))
            sent[sequence] = number
        sequence = len(sent)
        while True:
            while len(sent) < WINDOW and not self.stopping:
                self.published += 1
                sequence += 1
                sent[sequence] = self.published
                waiting.append(self.published)
                self.unconfirmed.add(self.published)
                remote.send(Publish(1, self._message(self.published), True, False))
            remote.wake()
            if not sent:
                return
            operation = await anext(remote, None)
            if operation is None:
                return
            if isinstance(operation, Confirm):
                first = min(sent) if operation.multiple else operation.sequence
                for one in range(first, operation.sequence + 1):
                    number = sent.pop(one, 0)
                    if number:
                        waiting.remove(number)
                        self.unconfirmed.discard(number)
                    if number and operation.accepted:
                        self.confirmed.add(number)

    def _message(self, number: int) -> Message:
        properties = Properties(durable=True, application={"n": number, "t": f"ü{number}"})
        header = BASIC.write(properties)
        essentials = BASIC.essentials(header)
        return Message(BASIC, header, b"%d" % number, "", self.queue, essentials)

    async def _consumer(self, version: str) -> None:
        while True:
            remote = await self._connected(version)
            try:
                await remote.request(Prefetch(1, None, 10))
                await remote.request(Subscribe(1, None, self.queue))
                async for operation in remote:
                    if isinstance(operation, Deliver):
                        number = int(operation.message.body[:])
                        if self.taken[number] and not operation.redelivered:
                            self.unmarked += 1
                            self.repeated.add(number)
                        self.taken[number] += 1
                        remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
                        remote.wake()
            except GatewayError:
                pass
            finally:
                await remote.close(1)
            self.reconnects += 1
