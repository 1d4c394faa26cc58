"""The work of a shovel while both of its ends are open.

A message is *under way* from its delivery to its settlement. It is screened, sent, perhaps sent
again, perhaps parked, and settled at its source when it is done with.
"""

import asyncio
import logging
from collections.abc import Coroutine
from itertools import count
from typing import Any

from gateway.bridge.ends import Destination, Ends, Fate, Marking, Recording, Source, Taken
from gateway.bridge.ledger import Ledger
from gateway.bridge.lifetime import expiring, left_of
from gateway.bridge.notes import hops_of
from gateway.bridge.ordering import KeyOrder
from gateway.bridge.pacing import Pace
from gateway.bridge.preparation import Preparation
from gateway.bridge.repeats import Repeats, doubtful
from gateway.bridge.seen import Seen
from gateway.config.bridge import ShovelSettings
from gateway.errors import GatewayError
from gateway.message import Message
from gateway.operations import Outcome

log = logging.getLogger("gateway.bridge")


class Passage:
    """A message between its delivery and its settlement."""

    __slots__ = ("delivery", "message", "expires", "attempts", "sent", "parking", "done")

    def __init__(self, delivery: int, message: Message) -> None:
        self.delivery = delivery
        self.message = message
        self.expires: float | None = None
        """When its time to live ends, on the clock of the loop."""
        self.attempts = 0
        self.sent = False
        """It was given to the destination."""
        self.parking = False
        self.done = False


class Passing:
    """From the opening of the ends to the loss of one."""

    def __init__(
        self,
        settings: ShovelSettings,
        preparation: Preparation,
        ledger: Ledger,
        pace: Pace | None,
        seen: Seen | None,
    ) -> None:
        self.settings = settings
        self.preparation = preparation
        self.ledger = ledger
        self.under_way: dict[int, Passage] = {}
        """Messages that are not settled, by number, in the order of their delivery."""
        self._numbers = count(1)
        self._done: list[int] = []
        self._settling = False
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._settled = asyncio.Event()
        self._opened: list[Source | Destination] = []
        self._loop = asyncio.get_running_loop()
        self._pace, self._seen = pace, seen
        self._repeats: Repeats | None = None
        self._marking: Marking | None = None
        """The source, if messages wait until it knows that they were delivered."""
        key_of = preparation.key_of
        self._order = None if key_of is None else KeyOrder(key_of)
        self._next: list[int] = []
        """Messages that have waited for one of their key, and may go now."""
        self._some_next = asyncio.Event()

    async def open(self, ends: Ends) -> None:
        self.destination = await ends.destination(self._report)
        self._opened.append(self.destination)
        if self.settings.parks:
            self.parking = await ends.parking(self._report)
            self._opened.append(self.parking)
        if self._seen is not None:
            self._repeats = repeats = Repeats(self._seen, isinstance(self.destination, Recording))
            if isinstance(self.destination, Recording):
                self.destination.on_taken = repeats.taken
        self.source = await ends.source()
        if self._repeats is not None and not self._repeats.exact:
            self._marking = self.source if isinstance(self.source, Marking) else None
        self._opened.append(self.source)

    @property
    def versions(self) -> tuple[str, str]:
        return self.source.version, self.destination.version

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """The tasks while the ends are open; each raises when its end is lost."""
        watching = [end.watch() for end in self._opened if end is not self.destination]
        moving = [self._move()] if self._order is None else [self._move(), self._move_held()]
        return [*moving, self._watch_destination(), *watching]

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for end in reversed(self._opened):
            try:
                await end.close()
            except (OSError, GatewayError) as error:
                log.debug("shovel %s: %s", self.settings.name, error)

    async def _watch_destination(self) -> None:
        try:
            await self.destination.watch()
        except GatewayError:
            sent = [one for one in self.under_way.values() if one.sent and not one.done]
            self.ledger.careful = max(self.ledger.careful, len(sent))
            if len(sent) == 1:
                self.ledger.suspect(sent[0].message)
            raise

    async def _move(self) -> None:
        ledger = self.ledger
        while True:
            batch = await self.source.batch()
            if self._marking is not None:
                await self._marking.marked()
            while batch and ledger.careful:
                await self._send(self._screen(batch[:1]))
                del batch[0]
                while self.under_way:
                    self._settled.clear()
                    await self._settled.wait()
                ledger.careful -= 1
            if batch:
                await self._send(self._screen(batch))

    async def _move_held(self) -> None:
        """Send messages that have waited for one of their key."""
        while True:
            await self._some_next.wait()
            self._some_next.clear()
            numbers, self._next = self._next, []
            await self._send([(one, self.under_way[one].message) for one in numbers])

    @property
    def held(self) -> int:
        """Messages that wait for one of their key."""
        return 0 if self._order is None else self._order.held

    # --- on the way to the destination ------------------------------------------------------------

    def _screen(self, batch: list[Taken]) -> list[tuple[int, Message]]:
        """The messages that are to be published, as they are published. The others are parked,
        rejected or settled."""
        wanted: list[tuple[int, Message]] = []
        preparation, most, ledger = self.preparation, self.settings.max_hops, self.ledger
        matches, order, repeats = preparation.matches, self._order, self._repeats
        for delivery, message, redelivered in batch:
            number = next(self._numbers)
            hops = hops_of(message)
            if matches is not None and not matches(message):
                self.under_way[number] = Passage(delivery, preparation.noted(message, hops + 1))
                self._exclude(number)
                continue
            if repeats is not None and not repeats.admit(number, message):
                self.under_way[number] = Passage(delivery, message)
                ledger.duplicates += 1
                self._finish(number)
                continue
            if redelivered and (repeats is None or repeats.is_doubtful(number)):
                ledger.repeated += 1
                message = doubtful(message)
            try:
                prepared = preparation.prepared(message, hops + 1)
            except ValueError as error:
                self.under_way[number] = Passage(delivery, preparation.noted(message, hops + 1))
                self._give_up(number, str(error))
                continue
            self.under_way[number] = passage = Passage(delivery, prepared)
            if message.essentials.ttl is not None:
                passage.expires = self._loop.time() + left_of(message) / 1000
            if hops >= most:
                self._give_up(number, f"the message has passed {hops} shovels")
            elif ledger.suspects and ledger.losses(prepared) > self.settings.retries:
                self._give_up(number, f"the destination ends over it: {ledger.error}")
            elif order is None or order.admit(number, message):
                wanted.append((number, prepared))
        return wanted

    def _exclude(self, number: int) -> None:
        """The filter does not match a message."""
        if self.settings.unmatched == "park":
            self._park(number)
        else:
            self.ledger.dropped += 1
            self._finish(number)

    async def _send(self, wanted: list[tuple[int, Message]]) -> None:
        pace = self._pace
        while pace is not None and wanted:
            admitted, pause = pace.admit(message for _, message in wanted)
            if admitted:
                await self._publish(wanted[:admitted])
                del wanted[:admitted]
            if wanted:
                self.ledger.delayed += len(wanted) if admitted else 0
                await asyncio.sleep(pause)
        await self._publish(wanted)

    async def _publish(self, messages: list[tuple[int, Message]]) -> None:
        under_way = self.under_way
        for at, (number, _) in enumerate(messages):
            passage = under_way[number]
            passage.sent = True
            if passage.expires is not None:
                messages[at] = number, self._remaining(passage)
        self.destination.publish(messages)
        await self.destination.drain()

    def _remaining(self, passage: Passage) -> Message:
        """A message with a time to live, with what is left of it."""
        if passage.expires is None:
            return passage.message
        return expiring(passage.message, int((passage.expires - self._loop.time()) * 1000))

    # --- fates ------------------------------------------------------------------------------------

    def _report(self, number: int, fate: Fate, text: str) -> None:
        """Hot."""
        passage = self.under_way.get(number)
        if passage is None or passage.done:
            return
        if fate is Fate.CONFIRMED:
            if passage.parking:
                self.ledger.parked += 1
            else:
                self.ledger.moved += 1
                if self._repeats is not None:
                    self._repeats.confirmed(number)
                if self._order is not None:
                    self._release(number)
            passage.done = True
            self._done.append(number)
            if not self._settling:
                self._settling = True
                self._loop.call_soon(self.settle)
            return
        self.ledger.failed(f"{fate.value}: {text}")
        if self._repeats is not None:
            self._repeats.refused(number)
        passage.attempts += 1
        if passage.parking or (
            passage.attempts <= self.settings.retries and fate is not Fate.UNWRITABLE
        ):
            self.ledger.retried += 1
            again = self._loop.call_later(self.settings.retry_seconds, self._again, number)
            self._timers[number] = again
        else:
            self._give_up(number, text)

    def _release(self, number: int) -> None:
        """A message is no longer on its way to the destination: the next of its key may go."""
        following = None if self._order is None else self._order.done(number)
        if following is not None:
            self._next.append(following)
            self._some_next.set()

    def _finish(self, number: int) -> None:
        """Nothing more is done with a message but to settle it."""
        self.under_way[number].done = True
        self._done.append(number)
        if not self._settling:
            self._settling = True
            self._loop.call_soon(self.settle)

    def _again(self, number: int) -> None:
        self._timers.pop(number, None)
        passage = self.under_way[number]
        end = self.parking if passage.parking else self.destination
        try:
            end.publish([(number, self._remaining(passage))])
        except GatewayError as error:  # the end is lost, which its watch raises
            log.debug("shovel %s: %s", self.settings.name, error)

    def _give_up(self, number: int, text: str) -> None:
        """The destination does not take a message: park or reject it."""
        self.ledger.failed(text)
        self._release(number)
        if self.settings.refused == "reject":
            passage = self.under_way.pop(number)
            if self._repeats is not None:
                self._repeats.done(number)
            self.ledger.rejected += 1
            self.source.settle([(passage.delivery, False)], Outcome.REJECT)
            self._settled.set()
            return
        self._park(number)

    def _park(self, number: int) -> None:
        passage = self.under_way[number]
        passage.parking = True
        passage.message = passage.message.routed_as("", self.settings.parking)
        self.parking.publish([(number, passage.message)])

    def settle(self) -> None:
        """Settle messages that are done with at their source: all from the first that is not
        settled with one settlement, others one by one."""
        self._settling = False
        under_way = self.under_way
        through = 0
        front = 0
        for number, passage in under_way.items():
            if not passage.done:
                break
            front, through = number, passage.delivery
        settled = [(through, True)] if front else []
        for number in self._done:
            passage = under_way.pop(number)
            if number > front:
                settled.append((passage.delivery, False))
        done, self._done = self._done, []
        self._settled.set()
        repeats = self._repeats
        try:
            if repeats is None:
                self.source.settle(settled, Outcome.ACCEPT)
                return
            for number in done:
                repeats.done(number)
            with repeats.turn():
                repeats.save()
                self.source.settle(settled, Outcome.ACCEPT)
        except GatewayError as error:  # the source is lost, which its watch raises
            log.debug("shovel %s: %s", self.settings.name, error)
