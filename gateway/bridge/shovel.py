"""A shovel: moves the messages of one queue to another place, and settles each at its source only
after the destination has confirmed it.

If either end is lost, both are closed and opened again after a pause. What was not settled comes
again, so that a message may arrive twice, and never less than once. A message that the destination
does not take is tried again, then parked in a queue of this gateway, or rejected at its source.
"""

import asyncio
import contextlib
import hashlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from itertools import count
from typing import Any, NamedTuple

from gateway.bridge.ends import Destination, Fate, Report, Source, Taken
from gateway.config.bridge import ShovelSettings
from gateway.crossing.natural import restore_encoded
from gateway.errors import GatewayError
from gateway.message import Message, Properties
from gateway.operations import Outcome

log = logging.getLogger("gateway.bridge")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between two attempts to open the ends; doubled each time, and cut by up to a half."""
HOPS = "x-gateway-hops"
"""Header with the number of shovels that a message has passed."""
MOST_SUSPECTS = 1000
"""Messages that are remembered because a destination was lost over them."""


class State(Enum):
    """State of a shovel."""

    CONNECTING = "connecting"
    RUNNING = "running"
    WAITING = "waiting"
    """An end is lost or cannot be opened; the next attempt follows."""
    PAUSED = "paused"


class ShovelInfo(NamedTuple):
    """A shovel as the administration shows it. ``since`` is the time of the last change of state in
    ms since 1970, ``connected`` how often both ends were opened. ``error`` says why an end was
    lost, or the last message was not taken."""

    name: str
    state: str
    source: str
    source_version: str
    destination: str
    destination_version: str
    moved: int
    parked: int
    rejected: int
    retried: int
    under_way: int
    connected: int
    since: int
    error: str


class Ends(NamedTuple):
    """How a shovel opens its ends. All raise ``OSError`` or ``Refusal``."""

    source: Callable[[], Awaitable[Source]]
    destination: Callable[[Report], Awaitable[Destination]]
    parking: Callable[[Report], Awaitable[Destination]]
    """The queue of messages that the destination does not take."""


class Shovel:
    """Runs until it is cancelled; ``pause`` and ``resume`` stop and start it between."""

    def __init__(self, settings: ShovelSettings, ends: Ends) -> None:
        self.settings = settings
        self.moved = self.parked = self.rejected = self.retried = self.connected = 0
        self.error = ""
        self.suspects: dict[bytes, int] = {}
        """Digests of messages that were alone under way when the destination was lost, and how
        often that happened."""
        self.careful = 0
        """Messages that are still sent one at a time, since the destination was lost over one of
        them."""
        self._ends = ends
        self._state, self._since = State.CONNECTING, now()
        self._versions = "", ""
        self._passing: Passing | None = None
        self._wanted, self._unwanted = asyncio.Event(), asyncio.Event()
        self._wanted.set()

    def info(self) -> ShovelInfo:
        settings = self.settings
        return ShovelInfo(
            settings.name,
            self._state.value,
            settings.source.described,
            self._versions[0],
            settings.destination.described,
            self._versions[1],
            self.moved,
            self.parked,
            self.rejected,
            self.retried,
            0 if self._passing is None else len(self._passing.under_way),
            self.connected,
            self._since,
            self.error,
        )

    def pause(self) -> None:
        """Close both ends until ``resume``."""
        self._wanted.clear()
        self._unwanted.set()

    def resume(self) -> None:
        self._unwanted.clear()
        self._wanted.set()

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            if not self._wanted.is_set():
                self._enter(State.PAUSED)
                await self._wanted.wait()
            self._enter(State.CONNECTING)
            moved = self.moved
            try:
                await self._pass()
            except (OSError, GatewayError) as error:
                self.failed(str(error) or type(error).__name__)
            except Exception as error:  # the shovel must not end with its work undone
                log.exception("shovel %s: internal error", self.settings.name)
                self.failed(f"internal error: {error!r}")
            if not self._wanted.is_set():
                continue
            if self.moved > moved:
                pause = FIRST_PAUSE
            self._enter(State.WAITING)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause * random.uniform(0.5, 1.0)):
                    await self._unwanted.wait()
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _pass(self) -> None:
        """Open both ends and move messages until one is lost, or the shovel is paused."""
        self._passing = passing = Passing(self)
        try:
            await passing.open(self._ends)
            self._versions = passing.versions
            self.connected += 1
            self._enter(State.RUNNING)
            try:
                await first_of(*passing.work(), self._until_paused())
            finally:
                passing.settle()
        finally:
            self._passing = None
            await passing.close()

    async def _until_paused(self) -> None:
        await self._unwanted.wait()

    def failed(self, text: str) -> None:
        """Show why a message or an end was lost; log it if it is another reason than before."""
        if text != self.error:
            log.warning("shovel %s: %s", self.settings.name, text)
        self.error = text

    def suspect(self, message: Message) -> None:
        """The destination was lost while this message alone was under way."""
        digest = digest_of(message)
        self.suspects[digest] = self.suspects.pop(digest, 0) + 1
        if len(self.suspects) > MOST_SUSPECTS:
            del self.suspects[next(iter(self.suspects))]

    def _enter(self, state: State) -> None:
        if state is not self._state:
            self._state, self._since = state, now()


class Passage:
    """A message between its delivery and its settlement."""

    __slots__ = ("delivery", "message", "attempts", "parking", "done")

    def __init__(self, delivery: int, message: Message) -> None:
        self.delivery = delivery
        self.message = message
        self.attempts = 0
        self.parking = False
        self.done = False


class Passing:
    """The work of a shovel from the opening of its ends to the loss of one."""

    def __init__(self, shovel: Shovel) -> None:
        self.shovel = shovel
        self.settings = shovel.settings
        self.under_way: dict[int, Passage] = {}
        """Messages that are not settled, by number, in the order of their delivery."""
        self._numbers = count(1)
        self._done: list[int] = []
        self._settling = False
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._settled = asyncio.Event()
        self._opened: list[Source | Destination] = []
        self._loop = asyncio.get_running_loop()

    async def open(self, ends: Ends) -> None:
        self.destination = await ends.destination(self._report)
        self._opened.append(self.destination)
        if self.settings.refused == "park":
            self.parking = await ends.parking(self._report)
            self._opened.append(self.parking)
        self.source = await ends.source()
        self._opened.append(self.source)

    @property
    def versions(self) -> tuple[str, str]:
        return self.source.version, self.destination.version

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """The tasks while the ends are open; each raises when its end is lost."""
        watching = [end.watch() for end in self._opened if end is not self.destination]
        return [self._move(), self._watch_destination(), *watching]

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
            under_way = list(self.under_way.values())
            self.shovel.careful = max(self.shovel.careful, len(under_way))
            if len(under_way) == 1:
                self.shovel.suspect(under_way[0].message)
            raise

    async def _move(self) -> None:
        while True:
            batch = await self.source.batch()
            while batch and self.shovel.careful:
                await self._publish(batch[:1])
                del batch[0]
                while self.under_way:
                    self._settled.clear()
                    await self._settled.wait()
                self.shovel.careful -= 1
            if batch:
                await self._publish(batch)

    async def _publish(self, batch: list[Taken]) -> None:
        good: list[tuple[int, Message]] = []
        for delivery, message in batch:
            number = next(self._numbers)
            hops = hops_of(message)
            self.under_way[number] = Passage(delivery, self._addressed(message, hops + 1))
            if hops >= self.settings.max_hops:
                self._give_up(number, f"the message has passed {hops} shovels")
            elif self._suspected(message):
                self._give_up(number, f"the destination ends over it: {self.shovel.error}")
            else:
                good.append((number, self.under_way[number].message))
        self.destination.publish(good)
        await self.destination.drain()

    def _addressed(self, message: Message, hops: int) -> Message:
        exchange, key = self.settings.destination.place(message.exchange, message.key)
        added = {**(message.added_headers or {}), HOPS: hops}
        return message.routed_as(exchange, key, added_headers=added)

    def _suspected(self, message: Message) -> bool:
        suspects = self.shovel.suspects
        if not suspects:
            return False
        place = self._addressed(message, hops_of(message) + 1)
        return suspects.get(digest_of(place), 0) > self.settings.retries

    # --- fates ------------------------------------------------------------------------------------

    def _report(self, number: int, fate: Fate, text: str) -> None:
        """Hot."""
        passage = self.under_way.get(number)
        if passage is None or passage.done:
            return
        if fate is Fate.CONFIRMED:
            if passage.parking:
                self.shovel.parked += 1
            else:
                self.shovel.moved += 1
            passage.done = True
            self._done.append(number)
            if not self._settling:
                self._settling = True
                self._loop.call_soon(self.settle)
            return
        self.shovel.failed(f"{fate.value}: {text}")
        passage.attempts += 1
        if passage.parking or (
            passage.attempts <= self.settings.retries and fate is not Fate.UNWRITABLE
        ):
            self.shovel.retried += 1
            again = self._loop.call_later(self.settings.retry_seconds, self._again, number)
            self._timers[number] = again
        else:
            self._give_up(number, text)

    def _again(self, number: int) -> None:
        self._timers.pop(number, None)
        passage = self.under_way[number]
        end = self.parking if passage.parking else self.destination
        try:
            end.publish([(number, passage.message)])
        except GatewayError as error:  # the end is lost, which its watch raises
            log.debug("shovel %s: %s", self.settings.name, error)

    def _give_up(self, number: int, text: str) -> None:
        """The destination does not take a message: park or reject it."""
        self.shovel.failed(text)
        passage = self.under_way[number]
        if self.settings.refused == "reject":
            del self.under_way[number]
            self.shovel.rejected += 1
            self.source.settle([(passage.delivery, False)], Outcome.REJECT)
            self._settled.set()
            return
        passage.parking = True
        passage.message = passage.message.routed_as("", self.settings.parking)
        self.parking.publish([(number, passage.message)])

    def settle(self) -> None:
        """Settle confirmed messages at their source: all from the first that is not settled with
        one settlement, others one by one."""
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
        self._done.clear()
        self._settled.set()
        try:
            self.source.settle(settled, Outcome.ACCEPT)
        except GatewayError as error:  # the source is lost, which its watch raises
            log.debug("shovel %s: %s", self.settings.name, error)


def hops_of(message: Message) -> int:
    """How many shovels the message has passed. The count is a header, or an annotation of 1.0,
    which the other versions have encoded in a header."""
    if HOPS.encode() not in message.header and not message.added_headers:
        return 0
    try:
        properties = message.properties
        headers = dict(properties.application or {})
        annotations = dict(properties.annotations or {})
        restore_encoded(headers, annotations, Properties())
    except ValueError:
        return 0
    found = headers.get(HOPS, annotations.get(HOPS, 0))
    return int(found) if isinstance(found, int) else 0


def digest_of(message: Message) -> bytes:
    """The same for the same message, however often it comes."""
    digest = hashlib.blake2b(message.header, digest_size=16)
    digest.update(f"{message.exchange}\0{message.key}\0{len(message.body)}\0".encode())
    digest.update(bytes(message.body[: 1 << 16]))
    return digest.digest()


async def first_of(*work: Coroutine[Any, Any, None]) -> None:
    """Run all until the first ends, then cancel the others. Raises its error."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def now() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
