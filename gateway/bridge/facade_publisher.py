"""Publishes the messages of a facade to its upstream, over a connection of its own.

Messages without a fate are published again over the next connection. When the upstream ends only
the channel, over a message, those under way are suspects: they are published again on another
channel of the same connection until that one is found, which is refused. A fresh channel takes the
messages of publishers without suspects; those of the others wait, which keeps their order.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from gateway.bridge.ends import Fate, first_of
from gateway.bridge.places import SAME_PLACES, Places
from gateway.bridge.remote_ends import CHANNEL, RemoteDestination, open_destination
from gateway.bridge.suspects import Suspect, Suspects
from gateway.bridge.upstream import Upstream
from gateway.bridge.waiting import Turn, quietly
from gateway.broker.deadletters import peek_properties, reencoded
from gateway.broker.facade import FacadeVirtualHost
from gateway.broker.outbound import Passage, PublishFate, Publishing
from gateway.errors import Condition, GatewayError, LocalError, Lost, Refusal
from gateway.message import Message
from gateway.operations import Confirm, SessionLost

log = logging.getLogger("gateway.bridge")

BATCH = 512
"""Messages that are published in one turn of the loop."""
TRIAL = CHANNEL + 1
"""The channel of suspects."""
APART_SECONDS = 60.0
"""For so long all messages of a publisher are suspects, after one that the upstream refused so."""
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
"""Reasons to end a connection that are in the octets sent: to send them again does not help."""

Conclude = Callable[[int, PublishFate, str], None]
"""Number of a message, its fate, and the reason that the upstream gives."""


class PublisherOwner(Protocol):
    """The facade of a publisher. ``side`` is its bit in ``Passage.awaits``; ``on_full`` is called
    when publishers have to be held back, ``on_lost`` when messages that are not in
    ``Outbound.under_way`` may be lost."""

    vhost: str
    host: FacadeVirtualHost
    upstream: Upstream
    places: Places
    turn: Turn
    side: int
    conclude: Conclude
    taken: Callable[[list[int]], None]
    """``conclude`` for messages that the upstream has taken."""
    on_full: Callable[[], None]
    on_lost: Callable[[], None]

    def failed(self, text: str) -> None:
        """Tell the administration about a fault."""
        ...


class FacadePublisher:
    """Messages are published at once while the channel for them is open and their publisher has no
    suspects; later otherwise."""

    def __init__(self, owner: PublisherOwner) -> None:
        self._owner = owner
        self._opened: RemoteDestination | None = None
        self._channels: dict[int, RemoteDestination] = {}
        """The open channels of the connection, by number."""
        self._destination: RemoteDestination | None = None
        """Where messages are published at once; ``None``: they wait."""
        self._batch: list[tuple[int, Message]] = []
        self._backlog: deque[int] = deque()
        """Messages that wait for the channel, in order."""
        self._reports: list[tuple[int, Fate, str] | list[int]] = []
        """Fates that were told in this turn of the loop; lists are of messages that are taken."""
        self._suspects = Suspects()
        self._tried: list[Suspect] = []
        """Those that are published again now."""
        self._reason: Refusal | None = None
        """Why the channel of suspects has ended meanwhile."""
        self._careful = False
        """The connection was lost over a message: suspects are published alone, one at a time."""
        self._apart: dict[Publishing, float] = {}
        """Publishers whose messages are all suspects, until a time of the loop's clock."""
        self._held: set[Publishing] = set()
        """Publishers that are apart, or whose messages wait for their suspects."""
        self._waiting: list[int] = []
        """Their messages, in order."""
        self._concluded = asyncio.Event()
        self._doubted = asyncio.Event()
        self._stopped = asyncio.Event()

    def publish(self, number: int, message: Message) -> None:
        """Hot."""
        if self._owner.host.outbound.full:
            self._owner.on_full()
        destination = self._destination
        if (destination is None or self._held) and self._keep(number):
            return
        if destination is not None and not destination.transactional:
            if self._owner.places is not SAME_PLACES or message.essentials.user_id is not None:
                message = self.sendable(message)
            try:
                destination.send(number, message)
            except GatewayError as error:  # the channel or the connection is lost, as is watched
                log.debug("facade %s: %s", self._owner.vhost, error)
            return
        if not self._batch:
            asyncio.get_running_loop().call_soon(self._send)
        self._batch.append((number, message))

    def _keep(self, number: int) -> bool:
        """Keep a message for later, if it has to wait."""
        passage = self._owner.host.outbound.under_way.get(number)
        if passage is not None and passage.path in self._held:
            self._waiting.append(number)
            self._doubted.set()
        elif self._destination is None:
            self._backlog.append(number)
        else:
            return False
        return True

    @property
    def ready(self) -> bool:
        """Whether it can publish now."""
        return self._destination is not None

    def under_way(self) -> dict[int, Passage]:
        """The messages that this upstream has to confirm, in order."""
        side, passages = self._owner.side, self._owner.host.outbound.under_way
        return {number: one for number, one in passages.items() if one.awaits & side}

    def _awaits(self, number: int) -> bool:
        """Whether this upstream has to confirm a message."""
        found = self._owner.host.outbound.under_way.get(number)
        return found is not None and bool(found.awaits & self._owner.side)

    # --- connecting -------------------------------------------------------------------------------

    async def open(self, name: str) -> None:
        """Connect. Raises ``OSError`` or ``Refusal``."""
        self._opened = await open_destination(self._owner.upstream, name, self._report, "")
        self._opened.on_confirmed = self._confirmed
        self._channels[CHANNEL] = self._opened

    async def run(self) -> None:
        """Publish until the connection is lost, which is raised."""
        assert self._opened is not None
        await first_of(self._watch(self._opened), self._search(), self._publish_waiting())

    def lose(self) -> None:
        """Publish nothing until the next connection."""
        self._channels.clear()
        self._destination = None
        tried, self._tried = self._tried, []
        self._suspects.put_back(self._without_fate(tried), "")
        self._wait_again()

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await quietly(opened.close())

    async def _channel(self, number: int) -> RemoteDestination:
        """A channel, which is opened if it is not open. Raises ``Refusal`` or ``LocalError``."""
        found = self._channels.get(number)
        if found is None:
            assert self._opened is not None
            found = self._channels[number] = await self._opened.beside(number)
        return found

    @property
    def _is_open(self) -> bool:
        return self._opened is not None and self._opened.remote.closed is None

    async def _watch(self, opened: RemoteDestination) -> None:
        """Raises when the connection for publishes is lost."""
        channels = self._channels
        try:
            while operations := await opened.remote.some(BATCH):
                for operation in operations:
                    if isinstance(operation, Confirm):
                        channel = channels.get(operation.channel)
                        if channel is not None:
                            channel.conclude(
                                operation.sequence, operation.multiple, operation.accepted
                            )
                    elif isinstance(operation, SessionLost):
                        self._end_channel(operation)
                    else:
                        number = getattr(operation, "channel", CHANNEL)
                        channels.get(number, opened).handle(operation)
        except Refusal as refusal:
            if refusal.lost is not Lost.CONNECTION or refusal.condition in FAULTS:
                self._doubt_all(refusal)
            raise

    def _end_channel(self, lost: SessionLost) -> None:
        """The upstream has ended a channel. Raises ``Refusal`` if it was not over a message."""
        ended = self._channels.pop(lost.channel, None)
        if ended is None:
            return
        reason = Refusal(lost.condition, lost.text)
        self._conclude()
        if lost.channel == self._trial:
            self._reason = reason
            return
        sent = ended.unconfirmed
        if not sent:
            raise reason
        self._destination = None
        self._doubt([number for number in self.under_way() if number in sent], reason.text)
        self._wait_again()
        self._owner.on_lost()
        self._stopped.set()

    # --- suspects ---------------------------------------------------------------------------------

    @property
    def _trial(self) -> int:
        """The channel of suspects. It is the only one after a connection was lost over a message:
        that would be lost again, with everything under way."""
        return CHANNEL if self._careful else TRIAL

    def _doubt(self, numbers: Iterable[int], reason: str) -> None:
        """Messages are suspects from now on, and later ones of their publishers wait."""
        under_way, found = self._owner.host.outbound.under_way, []
        for number in numbers:
            passage = under_way[number]
            found.append(Suspect(number, passage.path, self._place(passage.message)[0]))
        self._held.update(one.path for one in found)
        self._suspects.add(found, reason)
        self._doubted.set()

    def _doubt_all(self, refusal: Refusal) -> None:
        """The connection is lost over a message."""
        if self._careful and self._tried:
            self._refuse(self._tried[0], refusal)
            return
        self._careful = True
        self._tried = []
        self._suspects.clear()
        self._doubt(self.under_way(), refusal.text)

    def _without_fate(self, suspects: list[Suspect]) -> list[Suspect]:
        return [one for one in suspects if self._awaits(one.number)]

    def _wait_again(self) -> None:
        """Sort the messages that wait, when none is under way but suspects."""
        self._batch.clear()
        self._backlog.clear()
        self._waiting.clear()
        suspects = {one.number for one in (*self._suspects, *self._tried)}
        for number, passage in self.under_way().items():
            if number not in suspects:
                held = passage.path in self._held
                (self._waiting if held else self._backlog).append(number)

    async def _search(self) -> None:
        """Publish the suspects again, while there are any."""
        while True:
            if not self._suspects:
                self._release()
            if not self._suspects:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(min(self._apart.values(), default=None)):
                        await self._doubted.wait()
                self._doubted.clear()
                continue
            channel = await self._open_trial()
            found = self._suspects.take(1 if self._careful else BATCH)
            self._tried = self._without_fate(found)
            sent = await self._try(channel)
            tried, self._tried = self._tried, []
            left, reason = self._without_fate(tried), self._reason
            if not left or reason is None:
                self._suspects.passed()
            elif len(tried) == 1 and sent:
                self._refuse(tried[0], reason)
            else:
                self._suspects.put_back(left, reason.text)
            await self._open_trial()

    async def _open_trial(self) -> RemoteDestination:
        """Raises ``Refusal`` or ``LocalError``; if the upstream allows no second channel, one is
        used over the next connection."""
        try:
            return await self._channel(self._trial)
        except (LocalError, Refusal):
            self._careful = self._careful or self._is_open
            raise

    async def _try(self, channel: RemoteDestination) -> bool:
        """Publish suspects, until all have a fate or their channel has ended; whether they were
        sent before it ended."""
        self._reason = None
        sent = True
        try:
            channel.publish(self._portion(one.number for one in self._tried))
        except Refusal as error:
            log.debug("facade %s: %s", self._owner.vhost, error)
            sent = False
        while self._reason is None and (not sent or self._without_fate(self._tried)):
            self._concluded.clear()
            await self._concluded.wait()
        return sent

    def _refuse(self, guilty: Suspect, reason: Refusal) -> None:
        """The upstream does not take a message. If that is since it has no such exchange, it takes
        none of the others for that."""
        passage = self._owner.host.outbound.under_way.get(guilty.number)
        if passage is None:
            return
        self._owner.failed(f"the upstream does not take a message: {reason.text}")
        exchange, refused = passage.message.exchange, [guilty]
        missing = reason.condition is Condition.NOT_FOUND and exchange
        if missing:
            refused += self._suspects.drop(guilty.exchange)
        until = asyncio.get_running_loop().time() + APART_SECONDS
        self._apart.update((one.path, until) for one in refused)
        with self._owner.turn():
            if missing:
                self._owner.host.lose_exchange(exchange)
            for one in self._without_fate(refused):
                self._owner.conclude(one.number, PublishFate.REFUSED, reason.text)

    def _release(self) -> None:
        """There are no suspects any more: the messages that wait for these are published. Those of
        publishers that are apart become suspects."""
        time = asyncio.get_running_loop().time()
        self._apart = {
            path: until for path, until in self._apart.items() if until > time and not path.closed
        }
        self._careful = False
        self._suspects.clear()
        self._held = set(self._apart)
        waiting, self._waiting = self._waiting, []
        under_way = self._owner.host.outbound.under_way
        waiting = [number for number in waiting if self._awaits(number)]
        doubted = [number for number in waiting if under_way[number].path in self._held]
        if doubted:
            self._doubt(doubted, "")
        self._backlog += [one for one in waiting if under_way[one].path not in self._held]
        if self._backlog:
            self._send()
            self._destination = None
        self._stopped.set()

    # --- publishing -------------------------------------------------------------------------------

    async def _publish_waiting(self) -> None:
        """Publish the messages that have waited for the channel, whenever it is open."""
        while True:
            self._stopped.clear()
            if not self._careful:
                await self._open_up(await self._channel(CHANNEL))
            await self._stopped.wait()

    async def _open_up(self, destination: RemoteDestination) -> None:
        while self._channels.get(CHANNEL) is destination:
            if not self._backlog:
                self._destination = destination
                return
            numbers = [self._backlog.popleft() for _ in range(min(BATCH, len(self._backlog)))]
            try:
                destination.publish(self._portion(one for one in numbers if self._awaits(one)))
            except Refusal as error:  # the channel or the connection is lost, which is watched
                log.debug("facade %s: %s", self._owner.vhost, error)
                return
            await destination.drain()

    def _send(self) -> None:
        batch, self._batch = self._batch, []
        destination = self._destination
        if destination is None or not batch:
            return
        try:
            destination.publish([(number, self.sendable(message)) for number, message in batch])
        except GatewayError as error:  # the channel or the connection is lost, which is watched
            log.debug("facade %s: %s", self._owner.vhost, error)

    def _portion(self, numbers: Iterable[int]) -> list[tuple[int, Message]]:
        """Messages under way, as this upstream gets them."""
        side, under_way = self._owner.side, self._owner.host.outbound.under_way
        return [(one, self.sendable(under_way[one].message_for(side))) for one in numbers]

    def sendable(self, message: Message) -> Message:
        """As this upstream gets it. Brokers refuse a sender that is not the user of the connection;
        the gateway has checked it."""
        if self._owner.places is not SAME_PLACES:
            message = message.routed_as(*self._place(message))
        sender = message.essentials.user_id
        if sender is None or sender == self._owner.upstream.settings.user:
            return message
        properties = peek_properties(message)
        properties.user_id = None
        return reencoded(message, properties, message.exchange, message.key)

    def _place(self, message: Message) -> tuple[str, str]:
        """The exchange and the routing key at this upstream."""
        return self._owner.places.there(message.exchange, message.key)

    def _report(self, number: int, fate: Fate, text: str) -> None:
        """Hot."""
        if not self._reports:
            asyncio.get_running_loop().call_soon(self._conclude)
        self._reports.append((number, fate, text))

    def _confirmed(self, numbers: list[int]) -> None:
        """Hot."""
        if not self._reports:
            asyncio.get_running_loop().call_soon(self._conclude)
        self._reports.append(numbers)

    def _conclude(self) -> None:
        reports, self._reports = self._reports, []
        with self._owner.turn():
            for report in reports:
                if isinstance(report, list):
                    self._owner.taken(report)
                else:
                    number, fate, text = report
                    self._owner.conclude(number, FATES[fate], text)
        self._concluded.set()
