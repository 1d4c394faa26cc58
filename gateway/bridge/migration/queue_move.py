"""Moves the messages of one queue, until it is empty, batch by batch.

Each batch is written to the journal before it is published. When the destination has confirmed all
of it, the next write says so, and then the batch is settled at its source: what the journal does
not know about is still at its source, unsettled.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing, suppress

from gateway.bridge.ends import Destination, Fate, FiniteSource, Taken, first_of
from gateway.bridge.lifetime import expiring, left_of
from gateway.bridge.migration import recovery
from gateway.bridge.migration.identity import (
    AGAIN,
    NOTE,
    NOTES,
    Identity,
    Origin,
    identify,
    origin_of,
)
from gateway.bridge.migration.journal import Journal, QueueRecord
from gateway.bridge.migration.recovery import Unfinished
from gateway.bridge.migration.returns import is_back
from gateway.bridge.migration.settings import MoveSettings
from gateway.bridge.migration.sides import Side
from gateway.bridge.waiting import quietly
from gateway.errors import GatewayError
from gateway.message import ExpiringMessage, Message
from gateway.operations import Outcome

log = logging.getLogger("gateway.bridge")

PORTION = 64
"""Messages that are converted in one step of the event loop."""
LOOK_SECONDS = 0.1
"""Time without a message after which the source is asked whether its queue is empty."""
RETURN_SECONDS = 0.2
"""Pause between two looks at whether the source has what was under way."""
SETTLE_SECONDS = 0.5
"""Pause before the destination is searched for what was under way, which may still arrive."""


class NotTaken(GatewayError):
    """The destination does not take a message."""


class Work:
    """The parts that all queues of a move share. ``rolls_back`` is the name of the move that is
    reversed, "" for a move forwards."""

    def __init__(
        self,
        name: str,
        settings: MoveSettings,
        journal: Journal,
        source: Side,
        destination: Side,
        rolls_back: str = "",
    ) -> None:
        self.name = name
        self.settings = settings
        self.journal = journal
        self.source = source
        self.destination = destination
        self.rolls_back = rolls_back
        self.stopping = False
        """Pause after the next batch."""
        self.moved: Callable[[], None] = lambda: None
        """Called after each batch."""


class Batch:
    """Messages that go to the destination together."""

    def __init__(self, numbered: list[tuple[int, Taken, Identity]], again: set[int]) -> None:
        self.taken = {number: taken for number, taken, _ in numbered}
        self.identities = {number: identity for number, _, identity in numbered}
        self.again = again
        """Numbers of messages that may be at the destination already."""
        self.open = set(self.taken)
        """Without a confirm."""
        self.refused: dict[int, str] = {}
        """Not taken at the last attempt, and why."""
        self.rejected: set[int] = set()
        self.told = asyncio.Event()

    @property
    def last(self) -> int:
        """The last delivery, 0 if there is none."""
        return max((one.delivery for one in self.taken.values()), default=0)


class QueueMove:
    """One queue of a move. ``record`` is its row in the journal."""

    def __init__(self, work: Work, record: QueueRecord) -> None:
        self.work = work
        self.record = record
        self.opened = False
        """Both ends were opened."""
        self._journal = work.journal
        self._batch = Batch([], set())
        self._waiting: list[Taken] = []
        self._late = recovery.Late([])
        self._next_at = 0.0
        self._ended = False

    async def run(self) -> bool:
        """Open both ends and move until the queue is empty: true; or until the move is to be
        paused: false. Raises ``OSError`` or ``Refusal`` if an end is lost, and ``NotTaken``."""
        work, record = self.work, self.record
        place = (work.name, record.queue)
        unfinished = await asyncio.to_thread(self._journal.unfinished, *place)
        await self._returned(unfinished)
        if work.stopping:
            return False
        there = await self._found([one.number for one in unfinished if not one.settling])
        if record.expected is None:
            expected = await work.source.count(record.source)
            self.record = record = record._replace(expected=expected)
        destination = await work.destination.destination(record.destination, self._report)
        try:
            source = await work.source.source(record.source, self._window(unfinished))
            try:
                self.opened = True
                working = self._work(source, destination, unfinished, there)
                await first_of(working, source.watch(), destination.watch())
            finally:
                await quietly(source.close())
        finally:
            await quietly(destination.close())
        return self.record.done

    async def _returned(self, unfinished: list[Unfinished]) -> None:
        """Wait until the source has what was under way, which others would overtake. A source that
        has not noticed for so long that the last connection is gone delivers the others first."""
        work, queue = self.work, self.record.source
        until = time.monotonic() + work.settings.wait_seconds
        while unfinished and not work.stopping:
            if time.monotonic() >= until:
                text = "messages that were under way are not back: others go before them"
                log.warning("move %s: %s: %s", work.name, queue, text)
                return
            if await is_back(work.source, queue, unfinished, self._window(unfinished)):
                return
            await asyncio.sleep(RETURN_SECONDS)

    def _window(self, unfinished: list[Unfinished]) -> int:
        """Messages that the source may deliver before any is settled."""
        return len(unfinished) + 3 * self.work.settings.batch

    async def _found(self, numbers: list[int]) -> set[int]:
        """Those messages that are at the destination, as far as it can be read."""
        work = self.work
        if not numbers or not work.settings.notes or not await work.destination.browses():
            return set()
        await asyncio.sleep(SETTLE_SECONDS)
        wanted = {Origin(work.name, self.record.queue, number) for number in numbers}
        found: set[int] = set()
        messages = work.destination.browse(self.record.destination)
        async with aclosing(messages) as browsing:  # type: ignore[type-var]
            async for one in browsing:
                origin = origin_of(one.message)
                if origin in wanted and origin is not None:
                    found.add(origin.number)
                    if len(found) == len(wanted):
                        break
        return found

    # --- the loop ---------------------------------------------------------------------------------

    async def _work(
        self,
        source: FiniteSource,
        destination: Destination,
        unfinished: list[Unfinished],
        there: set[int],
    ) -> None:
        batch, over, late = await self._recover(source, unfinished, there)
        settling: list[int] = []
        through = 0
        """The last delivery of the batch that is confirmed and not settled."""
        first = True
        while True:
            if not first:
                batch = await self._next(source, bool(settling))
            first = False
            self._batch = batch
            # Counted before they are sent: a mover that is killed then finds them at the
            # destination, and does not know any more that they have the flag.
            flagged = self.record.flagged + len(batch.again)
            self.record = self.record._replace(flagged=flagged)
            await self._write(batch, settling + late, over)
            late = []
            await self._publish(destination, list(batch.taken))
            self._settle(source, through)
            if through:
                await source.synchronize()
            await self._confirmed(source, destination, batch)
            over, settling, through = settling, list(batch.taken), batch.last
            self.work.moved()
            if self._ended:
                break
        if not self.work.stopping:
            self.record = self.record._replace(done=True)
            over = over + self._late.numbers
        await self._write(Batch([], set()), [], over)

    async def _write(self, batch: Batch, settling: list[int], over: list[int]) -> None:
        sent = list(batch.identities.items())
        place = (self.work.name, self.record)
        await asyncio.to_thread(self._journal.step, *place, sent, settling, over)

    def _settle(self, source: FiniteSource, through: int) -> None:
        """Rejected messages were settled before."""
        if through:
            source.settle([(through, True)], Outcome.ACCEPT)

    async def _next(self, source: FiniteSource, unsettled: bool) -> Batch:
        """The next batch. An empty one if there is none at the moment and the last one is
        ``unsettled``, when the queue is empty, or when the move is to be paused."""
        work = self.work
        if work.stopping:
            self._ended = True
            return Batch([], set())
        if work.settings.rate:
            await asyncio.sleep(max(0.0, self._next_at - time.monotonic()))
        most = self._most()
        if not self._waiting and not await self._more(source, unsettled):
            self._ended = not unsettled
            return Batch([], set())
        taken, self._waiting = self._waiting[:most], self._waiting[most:]
        if work.settings.rate:
            start = max(self._next_at, time.monotonic())
            self._next_at = start + len(taken) / work.settings.rate
        return self._numbered(list(zip(taken, await identities_of(taken), strict=True)))

    def _most(self) -> int:
        settings = self.work.settings
        return max(1, min(settings.batch, int(settings.rate) or settings.batch))

    async def _more(self, source: FiniteSource, unsettled: bool) -> bool:
        """Wait for messages; false if the queue is empty. It is if nothing came for the grace time,
        and the broker says so, or does not tell. While messages are ``unsettled``, nothing may come
        because of them: false soon."""
        quiet_since = time.monotonic()
        empty = False
        while not self._waiting:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    self._waiting += await source.batch()
            except TimeoutError:
                if self.work.stopping or unsettled:
                    return False
                ready = await source.remaining()
                empty = ready in (0, None)
                if empty and time.monotonic() - quiet_since >= self.work.settings.grace_seconds:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.0):
                            self._waiting += await source.batch()
                    return bool(self._waiting)
        return True

    def _numbered(self, taken: list[tuple[Taken, Identity]]) -> Batch:
        fresh, counted = self.record.next, 0
        numbered: list[tuple[int, Taken, Identity]] = []
        again: set[int] = set()
        for one, identity in taken:
            known = self._late.take(identity)
            if known is None:
                numbered.append((fresh, one, identity))
                fresh += 1
            else:
                numbered.append((known.number, one, identity))
                again.add(known.number)
                counted += known.settling
        self.record = self.record._replace(next=fresh, moved=self.record.moved - counted)
        return Batch(numbered, again)

    # --- publishing -------------------------------------------------------------------------------

    async def _publish(self, destination: Destination, numbers: list[int]) -> None:
        """In portions: conversions take time, in which the gateway must serve others."""
        taken = self._batch.taken
        for at in range(0, len(numbers), PORTION):
            part = numbers[at : at + PORTION]
            destination.publish([(n, self._addressed(n, taken[n].message)) for n in part])
            await asyncio.sleep(0)

    def _addressed(self, number: int, message: Message) -> Message:
        """Raises nothing: messages that cannot be written are reported."""
        work = self.work
        if message.__class__ is ExpiringMessage:
            with suppress(ValueError):
                message = expiring(message, left_of(message))
        given = message.added_headers or {}
        # What an earlier move may have published twice keeps its flag.
        added = {k: v for k, v in given.items() if k not in NOTES or k == AGAIN}
        if work.settings.notes:
            added[NOTE] = str(Origin(work.name, self.record.queue, number))
        if number in self._batch.again:
            added[AGAIN] = True
        return message.routed_as("", self.record.destination, added_headers=added)

    def _report(self, number: int, fate: Fate, text: str) -> None:
        """Hot."""
        batch = self._batch
        if number not in batch.open:
            return
        if fate is Fate.CONFIRMED:
            batch.open.discard(number)
        else:
            batch.refused[number] = f"{fate.value}: {text}"
        if len(batch.refused) == len(batch.open):
            batch.told.set()

    async def _confirmed(
        self, source: FiniteSource, destination: Destination, batch: Batch
    ) -> None:
        """Wait until the destination has taken all messages of a batch; try those again that it
        does not take. Raises ``NotTaken``."""
        settings = self.work.settings
        attempts = 0
        while batch.open:
            await destination.drain()
            batch.told.clear()
            if len(batch.refused) < len(batch.open):
                await batch.told.wait()
                continue
            refused, batch.refused = batch.refused, {}
            attempts += 1
            if attempts <= settings.retries:
                await asyncio.sleep(settings.delay_seconds)
                await self._publish(destination, list(refused))
            elif settings.refused == "stop":
                number, text = next(iter(refused.items()))
                await self._leave(source, batch)
                raise NotTaken(f"message {number}: {text}")
            else:
                batch.open.clear()
                batch.rejected = set(refused)
        for number in batch.rejected:
            source.settle([(batch.taken[number].delivery, False)], Outcome.REJECT)
        self._count(batch)

    async def _leave(self, source: FiniteSource, batch: Batch) -> None:
        """Settle those that were taken; the others stay at their source."""
        taken = [number for number in batch.taken if number not in batch.open]
        record = self.record = self.record._replace(moved=self.record.moved + len(taken))
        step, place = self._journal.step, (self.work.name, record)
        await asyncio.to_thread(step, *place, [], taken, list(batch.open))
        deliveries = [batch.taken[number].delivery for number in taken]
        source.settle([(one, False) for one in deliveries], Outcome.ACCEPT)
        await source.synchronize()
        await asyncio.to_thread(step, *place, [], [], taken)

    def _count(self, batch: Batch) -> None:
        record = self.record
        moved = len(batch.taken) - len(batch.rejected)
        returned = 0
        if self.work.rolls_back:
            origins = (origin_of(one.message) for one in batch.taken.values())
            returned = sum(one is not None and one.move == self.work.rolls_back for one in origins)
        self.record = record._replace(
            moved=record.moved + moved,
            rejected=record.rejected + len(batch.rejected),
            returned=record.returned + returned,
        )

    # --- after an interruption --------------------------------------------------------------------

    async def _recover(
        self, source: FiniteSource, unfinished: list[Unfinished], there: set[int]
    ) -> tuple[Batch, list[int], list[int]]:
        """The first batch, of the messages that were under way; the numbers in the journal that are
        settled; and those that are at the destination, and may still come."""
        if not unfinished:
            return await self._next(source, False), [], []
        arrived: list[Taken] = []
        while len(arrived) < len(unfinished) and await self._more(source, False):
            arrived, self._waiting = arrived + self._waiting, []
        most = 2 * len(unfinished)
        arrived, self._waiting = arrived[:most], arrived[most:]
        identities = await identities_of(arrived)
        verdicts = recovery.judge(unfinished, identities, there)
        numbered: list[tuple[int, Taken, Identity]] = []
        again: set[int] = set()
        known: set[int] = set()
        fresh = self.record.next
        settled = 0
        for taken, identity, verdict in zip(arrived, identities, verdicts, strict=True):
            if verdict.fate is recovery.Fate.THERE:
                known.add(verdict.number)
                source.settle([(taken.delivery, False)], Outcome.ACCEPT)
                settled += 1
                continue
            number = verdict.number or fresh
            fresh += not verdict.number
            numbered.append((number, taken, identity))
            if verdict.fate is recovery.Fate.DOUBTFUL:
                again.add(number)
        if settled:
            await source.synchronize()
        sent = {number for number, _, _ in numbered}
        late = [
            one._replace(settling=one.settling or one.number in there)
            for one in recovery.late(unfinished, sent | known)
        ]
        self._late = recovery.Late(late)
        kept = sent.union(one.number for one in late)
        over = [one.number for one in unfinished if one.number not in kept]
        # The journal counts messages that the destination has confirmed, not those found there.
        counted = sum(one.settling for one in unfinished if one.number in sent)
        uncounted = sum(not one.settling and one.number in there for one in unfinished)
        self.record = self.record._replace(
            next=fresh,
            moved=self.record.moved + uncounted - counted,
            suppressed=self.record.suppressed + settled,
        )
        log.info(
            "move %s: %d messages were under way; %d are at the destination, %d are sent again",
            self.work.name, len(unfinished), settled, len(again),
        )  # fmt: skip
        return Batch(numbered, again), over, [one.number for one in late if one.settling]


async def identities_of(taken: list[Taken]) -> list[Identity]:
    """In portions, as they are published."""
    found = []
    for n, one in enumerate(taken):
        found.append(identify(one.message))
        if n % PORTION == PORTION - 1:
            await asyncio.sleep(0)
    return found
