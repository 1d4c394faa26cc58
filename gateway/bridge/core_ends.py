"""The core of this gateway as the source or the destination of a shovel."""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gateway.bridge.ends import Arrivals, Fate, Report, Taken
from gateway.bridge.waiting import Turn, until_answered
from gateway.broker.broker import Broker
from gateway.broker.local import DISK, NO_SUBSCRIBER, LocalChannel, LocalClient, Subscriber
from gateway.errors import Condition, Refusal
from gateway.message import ExpiringMessage, Message
from gateway.operations import Outcome

DELIVERIES = "x-delivery-count"
"""Header with the number of failed deliveries of a message."""
HELD_SECONDS = 0.05
"""Delay between two looks at whether publishers may go on."""


class Core(NamedTuple):
    """The broker of this process. ``turn`` brackets each use of it; ``held`` tells whether
    publishers are paused because memory, disk or store is short."""

    broker: Broker
    turn: Turn
    held: Callable[[], bool]


class CoreEnd:
    """A client of the core with one channel."""

    version = ""

    def __init__(self, core: Core, vhost: str, user: str, name: str) -> None:
        """Raises ``Refusal``: no such virtual host, or the user has no access to it."""
        self.core = core
        self._ended = asyncio.Event()
        with core.turn():
            self._client = LocalClient(core.broker, vhost, user, name, protocol="shovel")
        self._client.ended = self._ended.set
        self._reason = f"the virtual host {vhost!r} was deleted"

    def open_channel(self, subscriber: Subscriber = NO_SUBSCRIBER) -> LocalChannel:
        return self._client.channel(subscriber)

    def lose(self, reason: str) -> None:
        self._reason = reason
        self._ended.set()

    async def watch(self) -> None:
        await self._ended.wait()
        raise Refusal(Condition.NOT_FOUND, self._reason)

    async def close(self) -> None:
        """Unsettled deliveries are requeued."""
        self._client.ended = lambda: None
        with self.core.turn():
            self._client.close()


class CoreSource(CoreEnd):
    """A queue of this gateway; a ``Source``."""

    def __init__(
        self,
        core: Core,
        vhost: str,
        user: str,
        name: str,
        queue: str,
        window: int,
        matches: Callable[[Message], bool] | None = None,
        detailed: bool = False,
    ) -> None:
        """``matches``: the other messages stay in the queue. ``detailed``: messages come with their
        number of deliveries. Raises ``Refusal``, as a subscription does."""
        super().__init__(core, vhost, user, name)
        self.queue = queue
        self._detailed = detailed
        self._arrivals = Arrivals()
        with core.turn():
            try:
                self._channel = self.open_channel(self)
                self._channel.prefetch(window, 0)
                self._channel.start(
                    self._channel.subscribe(queue, matches=matches, remaining_ttl=True)
                )
            except Refusal:
                self._client.close()
                raise

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        if self._detailed:
            message = self._with_details(delivery, message)
        self._arrivals.add(delivery, message, redelivered)

    def _with_details(self, delivery: int, message: Message) -> Message:
        deliveries = self._channel.delivery_count(delivery)
        if deliveries:
            added = {**(message.added_headers or {}), DELIVERIES: deliveries}
            left = getattr(message, "left", None)
            message = message.routed_as(message.exchange, message.key, added_headers=added)
            if left is not None:
                message = ExpiringMessage(message, left)
        return message

    async def remaining(self) -> int:
        """Messages that are ready in the queue."""
        with self.core.turn():
            return self._channel.readable(self.queue).backlog.depth

    async def synchronize(self) -> None:
        safe = asyncio.get_running_loop().create_future()
        with self.core.turn():
            self.core.broker.when_safe(lambda: None if safe.done() else safe.set_result(None))
        await safe

    async def marked(self) -> None:
        await self.synchronize()

    def cancelled(self, tag: str) -> None:
        self.lose(f"the queue {self.queue!r} was deleted")

    async def batch(self) -> list[Taken]:
        return await self._arrivals.take()

    def settle(self, deliveries: Iterable[tuple[int, bool]], outcome: Outcome) -> None:
        with self.core.turn():
            for delivery, multiple in deliveries:
                if multiple:
                    self._channel.settle_up_to(delivery, outcome)
                else:
                    self._channel.settle(delivery, outcome)


class CorePublish:
    """One message on its way into the core; a ``PublishOutcome``."""

    __slots__ = ("_number", "_report", "_told")

    def __init__(self, number: int, report: Report) -> None:
        self._number = number
        self._report = report
        self._told = False

    def returned(self, condition: Condition, text: str) -> None:
        self._told = True
        self._report(self._number, Fate.UNROUTABLE, text)

    def settle(self, accepted: bool) -> None:
        if not self._told:
            text = "" if accepted else "a queue refused the message"
            self._report(self._number, Fate.CONFIRMED if accepted else Fate.REFUSED, text)

    def lose(self) -> None:
        """The end is lost, which ``watch`` tells."""


class CoreDestination(CoreEnd):
    """Exchanges of this gateway; a ``Destination``."""

    def __init__(self, core: Core, vhost: str, user: str, name: str, report: Report) -> None:
        super().__init__(core, vhost, user, name)
        self._report = report
        self.on_taken: Callable[[list[int], bool], None] | None = None
        with core.turn():
            self._channel = self.open_channel()

    async def declare(self, queue: str) -> None:
        """A durable queue, unless there is one of this name. Raises ``Refusal``."""

        def declared() -> None:
            if not self._channel.has_queue(queue):
                self._channel.declare_queue(queue, durable=True)

        await until_answered(self.core.turn, declared, lambda: self._channel)

    async def check(self, exchange: str | None, queue: str) -> None:
        """Raises ``Refusal`` if the exchange or queue is missing that all messages are for."""

        def checked() -> None:
            if exchange is not None:
                self._channel.check_writable(exchange)
            if queue and not self._channel.has_queue(queue):
                raise Refusal(Condition.NOT_FOUND, f"no queue {queue!r}")

        await until_answered(self.core.turn, checked, lambda: self._channel)

    def publish(self, messages: Iterable[tuple[int, Message]]) -> None:
        with self.core.turn():
            taken = [one for one in messages if self._publish(*one)]
            if self.on_taken is not None:
                kept: dict[bool, list[int]] = {True: [], False: []}
                for number, message in taken:
                    kept[self._channel.durability(message) == DISK].append(number)
                for lasting, numbers in kept.items():
                    self.on_taken(numbers, lasting)

    def _publish(self, number: int, message: Message) -> bool:
        """Whether all of its queues have taken the message."""
        try:
            return self._channel.publish(message, CorePublish(number, self._report))
        except Refusal as refusal:
            self._report(number, Fate.REFUSED, refusal.text)
            return False

    async def drain(self) -> None:
        while self.core.held():  # noqa: ASYNC110 - several causes, which end unannounced
            await asyncio.sleep(HELD_SECONDS)
