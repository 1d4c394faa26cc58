"""Publishing over HTTP: one long-lived confirming broker channel per virtual host and user.

A publish ends in a ``Ticket``. The broker says what became of it through the channel's recipient: a
return always comes before the confirm of the same message. Most confirms of messages that need no
disk come before ``end_turn`` returns; only the others are awaited.
"""

import asyncio
import time
from collections.abc import Callable

from gateway.broker.broker import Broker
from gateway.broker.channel import Channel
from gateway.broker.client import Client
from gateway.errors import Condition, LocalError
from gateway.http.observe.meter import Meter
from gateway.http.observe.trace import stamp
from gateway.http.publish.durability import MEMORY, durability
from gateway.message import Message


class Ticket:
    """What became of one publish. ``accepted`` is ``None`` until the broker has said."""

    __slots__ = ("accepted", "condition", "text", "waiter", "lost", "began", "durability")

    def __init__(self) -> None:
        self.accepted: bool | None = None
        self.lost = False
        self.condition: Condition | None = None
        self.text = ""
        self.waiter: asyncio.Future[None] | None = None
        self.began = 0.0
        self.durability = MEMORY

    def settle(self, accepted: bool) -> None:
        self.accepted = accepted
        self.wake()

    def lose(self) -> None:
        """Nobody will ever say what became of it."""
        self.lost = True
        self.wake()

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class Line:
    """One confirming channel and the publishes it has under way. The channel's recipient."""

    __slots__ = ("client", "channel", "under_way", "sequence", "current", "meter")

    def __init__(self, client: Client, meter: Meter) -> None:
        self.client = client
        self.meter = meter
        self.under_way: dict[int, Ticket] = {}
        self.sequence = 0
        self.current: Ticket | None = None
        self.channel: Channel = client.channel(1, self)
        self.channel.publish_path.select_confirms()
        client.ended = self.abandon

    def publish(self, message: Message, ticket: Ticket | None = None) -> Ticket:
        """Hand it to the broker. Raises ``Refusal``: that publish is not counted then."""
        ticket = self.current = ticket or Ticket()
        stamp(message)
        ticket.began = time.perf_counter()
        try:
            self.channel.publish(message, True)
        finally:
            self.current = None
        self.sequence += 1
        self.under_way[self.sequence] = ticket
        ticket.durability = durability(self.channel.vhost, message)
        return ticket

    def took(self, ticket: Ticket) -> bool:
        """Whether the broker took what was published last, known before it is confirmed."""
        confirms = self.channel.publish_path.confirms
        assert confirms is not None
        # What was confirmed at once leaves no run, or one that it shares with others of its fate.
        refused = bool(confirms.runs) and not confirms.runs[-1].accepted
        return ticket.condition is None and not refused

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        if not multiple:
            self.settle(sequence, accepted)
            return
        for number in list(self.under_way):
            if number > sequence:
                break
            self.settle(number, accepted)

    def settle(self, sequence: int, accepted: bool) -> None:
        ticket = self.under_way.pop(sequence)
        returned = ticket.condition is not None
        self.meter.confirmed(time.perf_counter() - ticket.began, accepted, returned)
        ticket.settle(accepted)

    def returned(self, message: Message, condition: Condition, text: str) -> None:
        # The broker returns within publish or not at all.
        if self.current is not None:
            self.current.condition = condition
            self.current.text = text

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        raise LocalError("a publishing channel consumes nothing")

    def cancelled(self, tag: str) -> None:
        raise LocalError("a publishing channel consumes nothing")

    def abandon(self) -> None:
        """The channel is gone; what it had under way never hears of its fate."""
        for ticket in self.under_way.values():
            ticket.lose()
            self.meter.lost()
        self.under_way.clear()
        self.client.close()


class Publisher:
    """The pool of lines. ``begin`` and ``end`` bracket a turn of the broker."""

    def __init__(
        self, broker: Broker, begin: Callable[[], None], end: Callable[[], None], seconds: float
    ) -> None:
        self.broker = broker
        self.begin = begin
        self.end = end
        self.seconds = seconds
        self.meter = Meter()
        self.lines: dict[tuple[str, str], Line] = {}
        self.closed = False

    def line(self, vhost: str, user: str) -> Line:
        line = self.lines.get((vhost, user))
        if line is not None and line.client.closed:
            # The virtual host was deleted, and another one of its name made since.
            line.abandon()
            line = None
        if line is None:
            client = self.broker.attach(vhost, user, f"HTTP publisher of {user}")
            line = self.lines[vhost, user] = Line(client, self.meter)
        return line

    async def publish(self, vhost: str, user: str, message: Message) -> Ticket:
        """Publish and wait for the confirm. ``accepted`` stays ``None`` if none came in time.
        Raises ``Refusal``."""
        self.begin()
        try:
            ticket = self.line(vhost, user).publish(message)
        finally:
            self.end()
        if ticket.accepted is None and ticket.condition is None:
            await self.wait(ticket, self.seconds)
        return ticket

    async def wait(self, ticket: Ticket, seconds: float) -> None:
        """Until it is settled or lost, or the time is up. For one waiter at a time."""
        if ticket.accepted is not None or ticket.lost:
            return
        ticket.waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await ticket.waiter
        except TimeoutError:
            pass

    async def drain(self, seconds: float) -> None:
        """Nothing more is taken. Most of what is under way is confirmed in a moment."""
        self.closed = True
        if not self.waiting():
            return
        ticket = Ticket()
        self.begin()
        try:
            self.broker.when_safe(lambda: ticket.settle(True))
        finally:
            self.end()
        await self.wait(ticket, seconds)

    def close(self) -> None:
        self.closed = True
        for line in self.lines.values():
            line.client.close()
        self.lines.clear()

    def waiting(self) -> int:
        """Publishes whose confirm is still to come."""
        return sum(len(line.under_way) for line in self.lines.values())
