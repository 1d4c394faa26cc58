"""Consumes a queue at the broker that is not its primary one: removes the copies there, and brings
everything else to the primary broker, where the consumers are."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from gateway.bridge.attempts import keep_attempting
from gateway.bridge.ends import Destination, Fate, Taken, first_of
from gateway.bridge.lifetime import expiring, left_of
from gateway.bridge.modes.copies import KEPT, Copies, Expected, copy_id
from gateway.bridge.remote_ends import RemoteSource, open_destination, open_source
from gateway.bridge.upstream import Upstream
from gateway.bridge.waiting import met, quietly
from gateway.errors import Condition, GatewayError, Refusal
from gateway.message import Message
from gateway.net.pauses import Pauses
from gateway.operations import Outcome

log = logging.getLogger("gateway.bridge")

WINDOW = 10_000
"""Deliveries that are not settled: copies whose messages are not, and messages on their way."""
QUIET_SECONDS = 0.2
"""Time without a delivery after which the broker is asked whether the queue is empty."""
AWAY_SECONDS = 10.0
"""Time without a connection to both brokers after which a queue cannot be emptied."""
CLOSE_SECONDS = 2.0
"""Time for messages under way to be confirmed at the end."""
UNTOLD_SECONDS = 2.0
"""The same, after which it counts as empty where the broker does not tell."""


class Follower:
    """Of one queue. ``kept``: copies stay until their messages are settled. ``brought`` messages
    were confirmed by the primary broker."""

    def __init__(
        self,
        vhost: str,
        source: tuple[Upstream, str],
        destination: tuple[Upstream, str],
        copies: Copies,
        expected: Expected,
        kept: bool,
    ) -> None:
        """The ends are upstreams with the name of the queue there."""
        self.brought = 0
        self.error = ""
        self._name = f"facade {vhost}: {source[1]}"
        self._from, self._from_queue = source
        self._to, self._to_queue = destination
        self._copies = copies
        self._expected = expected
        self._kept = kept
        self._source: RemoteSource | None = None
        self._under_way = 0
        self._arrived = self._copied = self._strange = 0.0
        """When the last delivery has come, the last copy, and the last message that is none."""
        self._emptying = self._closing = False
        self._reopening = asyncio.Event()
        self._reason = ""
        """Why both ends are opened again."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        # However long a broker was away, ``empty`` sees an attempt before it gives up.
        pauses = Pauses(longest=AWAY_SECONDS / 2)
        self._task = asyncio.create_task(
            keep_attempting(self._name, self._follow, self._failed, lambda: self.brought, pauses)
        )

    async def close(self) -> None:
        """Messages under way arrive, so that they do not come twice. Other deliveries go back to
        their queue."""
        self._closing = True
        if self._task is not None:
            await met(self._is_at_rest, 0.005, CLOSE_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._copies.take_held()

    def _is_at_rest(self) -> bool:
        return self._source is None or not self._under_way

    # --- settlements ------------------------------------------------------------------------------

    def settled(self, id: str) -> None:
        """A message with this copy is settled at the primary broker."""
        delivery = self._copies.settled(id)
        if delivery is not None:
            self._remove([delivery])

    def _remove(self, deliveries: list[int]) -> None:
        """Settle copies, or messages that the primary broker has."""
        if self._source is None or not deliveries:
            return
        try:
            self._source.settle(((one, False) for one in deliveries), Outcome.ACCEPT)
        except GatewayError as error:  # the connection is lost
            log.debug("%s: %s", self._name, error)

    async def empty(self, seconds: float) -> None:
        """Remove all copies and bring over everything else, until the queue is empty, or only
        messages come that somebody else publishes there. Raises
        ``Refusal`` if that takes longer, or if one of the brokers is away."""
        self._emptying = True
        self._arrived = self._copied = away = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if await self._is_empty():
                        return
                    if self._source is not None:
                        away = time.monotonic()
                    elif time.monotonic() - away > AWAY_SECONDS:
                        raise TimeoutError
                    await asyncio.sleep(QUIET_SECONDS / 2)
        except TimeoutError:
            place = f"{self._from.settings.name}: {self._from_queue}"
            text = f"{place}: {self.error or 'it did not become empty'}"
            self._reopen(text)  # no messages come after a drain of credit
            raise Refusal(Condition.RESOURCE_ERROR, text) from None
        finally:
            self._emptying = False

    async def idle(self, seconds: float) -> None:
        """Wait until everything has been brought over, whatever copies come; no longer than that,
        as others may go on to publish there."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    if await self._nothing_since(lambda: self._strange):
                        return
                    await asyncio.sleep(QUIET_SECONDS / 2)

    async def _is_empty(self) -> bool:
        if self._source is None:
            return False
        self._remove(self._copies.take_held())
        now = time.monotonic()
        if now - self._arrived < QUIET_SECONDS and now - self._copied >= UNTOLD_SECONDS:
            return True
        return await self._nothing_since(lambda: self._arrived)

    async def _nothing_since(self, last: Callable[[], float]) -> bool:
        """Whether the queue has nothing ready, and nothing is on its way; ``last``: when something
        has come that counts."""
        source = self._source
        quiet = time.monotonic() - last()
        if source is None or self._under_way or quiet < QUIET_SECONDS:
            return False
        if source.draws and not self._emptying:  # it goes on afterwards
            return quiet >= 3 * QUIET_SECONDS
        try:
            left = await source.remaining()
        except (OSError, GatewayError):
            return False
        if left is None:
            return quiet >= UNTOLD_SECONDS
        return left == 0 and time.monotonic() - last() >= QUIET_SECONDS

    # --- the loop ---------------------------------------------------------------------------------

    def _failed(self, text: str) -> None:
        if text != self.error:
            log.warning("%s: %s", self._name, text)
        self.error = text

    async def _follow(self) -> None:
        self._copies.take_held()
        self._under_way = 0
        self._reopening.clear()
        source = await open_source(self._from, self._name, self._from_queue, WINDOW)
        try:
            destination = await open_destination(self._to, self._name, self._report, "")
            try:
                self._source, self.error = source, ""
                self._arrived = self._strange = time.monotonic()
                await first_of(
                    source.watch(),
                    destination.watch(),
                    self._pass(source, destination),
                    self._until_reopening(),
                )
            finally:
                self._source = None
                await quietly(destination.close())
        finally:
            await quietly(source.close())

    async def _until_reopening(self) -> None:
        await self._reopening.wait()
        raise Refusal(Condition.RESOURCE_ERROR, self._reason)

    async def _pass(self, source: RemoteSource, destination: Destination) -> None:
        while True:
            batch = await source.batch()
            self._arrived = time.monotonic()
            strangers, removed = [], []
            for one in batch:
                id = copy_id(one.message)
                if not id:
                    strangers.append(one)
                    continue
                self._copied = self._arrived
                if not self._keeps(id, one):
                    removed.append(one.delivery)
            self._remove(removed)
            if strangers and not self._closing:
                self._strange = self._arrived
                self._under_way += len(strangers)
                destination.publish(
                    [(one.delivery, routed(one.message, self._to_queue)) for one in strangers]
                )
                await destination.drain()
            await asyncio.sleep(0)

    def _keeps(self, id: str, copy: Taken) -> bool:
        """Whether a copy stays until its message is settled. Others are compared."""
        if id.startswith(KEPT):
            return self._kept and not self._emptying and self._copies.hold(id, copy.delivery)
        message = self._expected.get(id)
        if message is not None:
            self._copies.compare(message, copy.message)
        return False

    def _report(self, delivery: int, fate: Fate, text: str) -> None:
        """A message that the primary broker does not take stays in its queue: both ends are opened
        again after a pause, and it is tried again."""
        self._under_way -= 1
        if fate is Fate.CONFIRMED:
            self.brought += 1
            self._remove([delivery])
        else:
            self._reopen(f"{self._to.settings.name} takes no message: {text or fate.value}")

    def _reopen(self, reason: str) -> None:
        self._reason = reason
        self._reopening.set()


def routed(message: Message, queue: str) -> Message:
    """As it is published to a queue of the other broker, with the rest of its time to live."""
    left = left_of(message)
    if left:
        with suppress(ValueError):  # a header that cannot be read goes as it is
            message = expiring(message, left)
    return message.routed_as("", queue)
