"""Publishing over HTTP: one long-lived confirming broker channel per virtual host and user.

The outcome of a publish is a ``PendingPublish``. The broker tells it of a return, always before the
confirm of the same message, and of the confirm. Most confirms of messages that need no disk come
before ``end_turn`` returns; only the others are awaited.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter

from gateway.broker.broker import Broker
from gateway.broker.local import MEMORY, LocalClient
from gateway.errors import Condition
from gateway.http import problems
from gateway.http.observe.meter import PublishMeter
from gateway.http.observe.trace import CURRENT, stamp
from gateway.http.problems import Problem
from gateway.message import Message


class PendingPublish:
    """The outcome of one publish. ``accepted`` is ``None`` until the broker has confirmed it or
    rejected it; ``taken`` is false where it is known before that that it will not be accepted.
    ``waiter`` is called once, when the outcome is known or will never be."""

    __slots__ = (
        "accepted", "condition", "text", "waiter", "lost", "taken", "began", "durability", "meter",
    )  # fmt: skip

    def __init__(self, meter: PublishMeter | None = None) -> None:
        """``meter`` measures the publish; ``None`` for an outcome of something else."""
        self.accepted: bool | None = None
        self.lost = False
        self.condition: Condition | None = None
        self.text = ""
        self.waiter: Callable[[], None] | None = None
        self.taken = True
        self.durability = MEMORY
        self.meter = meter
        if meter is not None:
            self.began = perf_counter()

    def returned(self, condition: Condition, text: str) -> None:
        """The message was routed to no queue."""
        self.condition = condition
        self.text = text

    def settle(self, accepted: bool) -> None:
        """The broker has confirmed or rejected it."""
        if self.meter is not None:
            seconds = perf_counter() - self.began
            self.meter.confirmed(seconds, accepted, self.condition is not None)
        self.conclude(accepted)

    def conclude(self, accepted: bool) -> None:
        """The outcome is final."""
        self.accepted = accepted
        if self.waiter is not None:
            self.wake()

    def lose(self) -> None:
        """The outcome will never be known."""
        if self.meter is not None:
            self.meter.lost()
        self.lost = True
        self.wake()

    def wake(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter()


class PublishChannel:
    """One confirming channel, whose publishes are measured and carry the trace of their request."""

    __slots__ = ("client", "channel", "meter")

    def __init__(self, client: LocalClient, meter: PublishMeter) -> None:
        self.client = client
        self.channel = client.channel()
        self.meter = meter

    def publish(self, message: Message, pending: PendingPublish) -> PendingPublish:
        """Hand it to the broker. Raises ``Refusal``; then ``pending`` has no outcome. Hot."""
        if CURRENT.get() is not None:
            stamp(message)
        channel = self.channel
        pending.taken = channel.publish(message, pending)
        pending.durability = channel.durability(message)
        return pending


class Publisher:
    """All of these channels. ``begin`` and ``end`` bracket a turn of the broker."""

    def __init__(
        self, broker: Broker, begin: Callable[[], None], end: Callable[[], None], seconds: float
    ) -> None:
        self.broker = broker
        self.begin = begin
        self.end = end
        self.seconds = seconds
        self.meter = PublishMeter()
        self.channels: dict[tuple[str, str], PublishChannel] = {}
        self.closed = False

    def channel(self, vhost: str, user: str) -> PublishChannel:
        """Within a turn. Raises ``Refusal``."""
        found = self.channels.get((vhost, user))
        # The virtual host may have been deleted, and another one of its name made since.
        if found is None or found.client.closed:
            client = LocalClient(self.broker, vhost, user, f"HTTP publisher of {user}")
            found = self.channels[vhost, user] = PublishChannel(client, self.meter)
        return found

    def check_open(self, vhost: str = "") -> None:
        """Raises ``Problem`` (503) while nothing can be published, there or anywhere."""
        if self.closed:
            raise Problem(problems.DRAINING, "the gateway is shutting down")
        broker = self.broker
        if broker.alarms:
            raise Problem(problems.BACKPRESSURE, f"publishers are paused: {broker.blocked}")
        found = broker.vhosts.get(vhost)
        if found is not None and found.outbound is not None and found.outbound.full:
            raise Problem(problems.BACKPRESSURE, "publishers are paused: the upstream is behind")

    def publish(self, vhost: str, user: str, message: Message) -> PendingPublish:
        """Publish in a turn of its own, after which most outcomes are known. Raises ``Refusal``."""
        self.begin()
        try:
            return self.channel(vhost, user).publish(message, PendingPublish(self.meter))
        finally:
            self.end()

    async def wait(self, pending: PendingPublish, seconds: float) -> None:
        """Until the outcome is known, or the time is up. For one waiter at a time."""
        if pending.accepted is not None or pending.condition is not None or pending.lost:
            return
        known = asyncio.Event()
        pending.waiter = known.set
        try:
            async with asyncio.timeout(seconds):
                await known.wait()
        except TimeoutError:
            pass

    async def drain(self, seconds: float) -> None:
        """Refuse new publishes and wait for the confirms of those under way."""
        self.closed = True
        if not self.waiting():
            return
        pending = PendingPublish()
        self.begin()
        try:
            self.broker.when_safe(lambda: pending.settle(True))
        finally:
            self.end()
        await self.wait(pending, seconds)

    def close(self) -> None:
        self.closed = True
        for channel in self.channels.values():
            channel.client.close()
        self.channels.clear()

    def waiting(self) -> int:
        """The number of unconfirmed publishes."""
        return sum(len(one.channel.under_way) for one in self.channels.values())
