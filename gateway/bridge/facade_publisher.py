"""Publishes the messages of a facade to its upstream, over a connection of its own.

Messages without a fate are published again over the next connection, one at a time if the upstream
has ended the last one over one of these.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from gateway.bridge.ends import Fate, first_of
from gateway.bridge.places import SAME_PLACES, Places
from gateway.bridge.remote_ends import RemoteDestination, open_destination
from gateway.bridge.upstream import Upstream
from gateway.bridge.waiting import Turn, quietly
from gateway.broker.deadletters import peek_properties, reencoded
from gateway.broker.facade import FacadeVirtualHost
from gateway.broker.outbound import Passage, PublishFate
from gateway.errors import Condition, GatewayError, Lost, Refusal
from gateway.message import Message

log = logging.getLogger("gateway.bridge")

BATCH = 512
"""Messages of the last connection that are published in one turn of the loop."""
FATES = {
    Fate.CONFIRMED: PublishFate.TAKEN,
    Fate.UNROUTABLE: PublishFate.UNROUTABLE,
    Fate.REFUSED: PublishFate.REFUSED,
    Fate.UNWRITABLE: PublishFate.REFUSED,
}
FAULTS = frozenset(
    {
        Condition.FRAME_ERROR,
        Condition.SYNTAX_ERROR,
        Condition.COMMAND_INVALID,
        Condition.CHANNEL_ERROR,
        Condition.UNEXPECTED_FRAME,
        Condition.NOT_ALLOWED,
        Condition.NOT_IMPLEMENTED,
        Condition.INTERNAL_ERROR,
    }
)
"""Reasons to end a connection that are in what it was sent: to send it again does not help."""

Conclude = Callable[[int, PublishFate, str], None]
"""Number of a message, its fate, and the reason that the upstream gives."""


class PublisherOwner(Protocol):
    """The facade of a publisher. ``side`` is its bit in ``Passage.awaits``; ``on_full`` is called
    when publishers have to be held back."""

    vhost: str
    host: FacadeVirtualHost
    upstream: Upstream
    places: Places
    turn: Turn
    side: int
    conclude: Conclude
    on_full: Callable[[], None]

    def failed(self, text: str) -> None:
        """Tell the administration about a fault."""
        ...


class FacadePublisher:
    """Messages are published at once while the connection lives and none of them is a suspect;
    later otherwise."""

    def __init__(self, owner: PublisherOwner) -> None:
        self._owner = owner
        self._opened: RemoteDestination | None = None
        self._destination: RemoteDestination | None = None
        """The same, when the messages of the last connection have been published."""
        self._batch: list[tuple[int, Message]] = []
        self._reports: list[tuple[int, Fate, str]] = []
        self._careful = 0
        """Messages that are published one at a time, since the connection was lost over one."""
        self._suspect = 0
        """The one of these that is under way alone."""
        self._concluded = asyncio.Event()

    def publish(self, number: int, message: Message) -> None:
        """Hot."""
        if self._owner.host.outbound.full:
            self._owner.on_full()
        if self._destination is None or self._careful:
            return  # all that is under way is published when it is there
        if not self._batch:
            asyncio.get_running_loop().call_soon(self._send)
        self._batch.append((number, message))

    @property
    def ready(self) -> bool:
        """Whether it can publish now."""
        return self._destination is not None

    def under_way(self) -> dict[int, Passage]:
        """The messages that this upstream has to confirm, in order."""
        side, passages = self._owner.side, self._owner.host.outbound.under_way
        return {number: one for number, one in passages.items() if one.awaits & side}

    # --- connecting -------------------------------------------------------------------------------

    async def open(self, name: str) -> None:
        """Connect. Raises ``OSError`` or ``Refusal``."""
        self._opened = await open_destination(self._owner.upstream, name, self._report, "")

    async def run(self) -> None:
        """Publish until the connection is lost, which is raised."""
        destination = self._opened
        assert destination is not None
        await first_of(self._watch(destination), self._publish_all(destination))

    def lose(self) -> None:
        """Publish nothing until the next connection."""
        self._destination = None

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await quietly(opened.close())

    # --- publishing -------------------------------------------------------------------------------

    async def _watch(self, destination: RemoteDestination) -> None:
        """Raises when the connection for publishes is lost. If the upstream has ended its channel
        over a message, that is looked for, and refused."""
        try:
            await destination.watch()
        except Refusal as refusal:
            under_way = self.under_way()
            if refusal.lost is not Lost.CONNECTION or refusal.condition in FAULTS:
                found = under_way.get(self._suspect)
                self._careful = len(under_way)
                if found is not None:
                    self._owner.failed(f"the upstream does not take a message: {refusal.text}")
                    with self._owner.turn():
                        if refusal.condition is Condition.NOT_FOUND and found.message.exchange:
                            self._owner.host.lose_exchange(found.message.exchange)
                        text = refusal.text
                        self._owner.conclude(self._suspect, PublishFate.REFUSED, text)
            raise

    async def _publish_all(self, destination: RemoteDestination) -> None:
        """Publish the messages without a fate from the last connection, one at a time if it was
        lost over one of these; then everything as it comes."""
        side = self._owner.side
        while self._careful and (under_way := self.under_way()):
            number = next(iter(under_way))
            passage = under_way[number]
            self._careful -= 1
            self._suspect = number
            destination.publish([(number, self.sendable(passage.message_for(side)))])
            left = self._owner.host.outbound.under_way
            while passage.awaits & side and number in left:
                self._concluded.clear()
                await self._concluded.wait()
        self._careful = self._suspect = 0
        under_way = self.under_way()
        numbers = list(under_way)
        self._destination = destination
        for first in range(0, len(numbers), BATCH):
            portion = [
                (number, self.sendable(under_way[number].message_for(side)))
                for number in numbers[first : first + BATCH]
                if under_way[number].awaits & side
            ]
            destination.publish(portion)
            await destination.drain()
        await asyncio.Event().wait()

    def _send(self) -> None:
        batch, self._batch = self._batch, []
        destination = self._destination
        if destination is None:
            return
        try:
            destination.publish([(number, self.sendable(message)) for number, message in batch])
        except GatewayError as error:  # the connection is lost, which its watch raises
            log.debug("facade %s: %s", self._owner.vhost, error)

    def sendable(self, message: Message) -> Message:
        """As this upstream gets it. Brokers refuse a sender that is not the user of the connection;
        the gateway has checked it."""
        if self._owner.places is not SAME_PLACES:
            message = message.routed_as(*self._owner.places.there(message.exchange, message.key))
        sender = message.essentials.user_id
        if sender is None or sender == self._owner.upstream.settings.user:
            return message
        properties = peek_properties(message)
        properties.user_id = None
        return reencoded(message, properties, message.exchange, message.key)

    def _report(self, number: int, fate: Fate, text: str) -> None:
        """Hot."""
        if not self._reports:
            asyncio.get_running_loop().call_soon(self._conclude)
        self._reports.append((number, fate, text))

    def _conclude(self) -> None:
        reports, self._reports = self._reports, []
        conclude = self._owner.conclude
        with self._owner.turn():
            for number, fate, text in reports:
                conclude(number, FATES[fate], text)
        self._concluded.set()
