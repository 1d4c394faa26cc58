"""Ends of a shovel in this process: a list of messages, and a destination that decides itself."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gateway.adapters.methods.content import BASIC
from gateway.bridge.ends import Arrivals, Destination, Ends, Fate, Report, Source, Taken
from gateway.bridge.seen import Seen
from gateway.bridge.shovel import Shovel
from gateway.config.bridge import ShovelDestination, ShovelSettings, ShovelSource
from gateway.message import Message, Properties
from gateway.operations import Outcome
from tests import in_memory
from tests.net.running import PATIENCE


def basic(body: str, key: str = "q", exchange: str = "", **properties: Any) -> Message:
    header = BASIC.write(Properties(**properties))
    return Message(BASIC, header, body.encode(), exchange, key, BASIC.essentials(header))


class ListSource:
    """Delivers messages, and those again that were not settled when it was closed."""

    version = ""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.left: dict[int, Message] = dict(enumerate(messages, 1))
        """Messages that are not settled, by delivery."""
        self.outcomes: dict[int, Outcome] = {}
        self.lost = asyncio.Event()
        self._arrivals = Arrivals()
        self._again = False

    async def open(self) -> Source:
        self.lost.clear()
        self._arrivals = Arrivals()
        for delivery, message in self.left.items():
            self._arrivals.add(delivery, message, self._again)
        self._again = True
        return self

    async def batch(self) -> list[Taken]:
        return await self._arrivals.take()

    def settle(self, deliveries: Iterable[tuple[int, bool]], outcome: Outcome) -> None:
        for delivery, multiple in deliveries:
            for one in [each for each in self.left if each <= delivery] if multiple else [delivery]:
                del self.left[one]
                self.outcomes[one] = outcome

    async def watch(self) -> None:
        await self.lost.wait()
        raise OSError("cut")

    async def close(self) -> None:
        """Nothing to close."""


class Taking:
    """A destination that confirms at once, unless ``fate`` says otherwise."""

    version = ""

    def __init__(self, fate: Callable[[Message], Fate | None] = lambda message: Fate.CONFIRMED):
        self.fate = fate
        self.taken: list[Message] = []
        """Messages that were confirmed."""
        self.held: list[tuple[int, Message]] = []
        """Messages without a fate as yet."""
        self.report: Report = lambda number, fate, text: None

    async def open(self, report: Report) -> Destination:
        self.report = report
        self.held.clear()
        return self

    @property
    def bodies(self) -> list[str]:
        return [in_memory.text(one) for one in self.taken]

    def publish(self, messages: Iterable[tuple[int, Message]]) -> None:
        for number, message in messages:
            self.decide(number, message, self.fate(message))

    def decide(self, number: int, message: Message, fate: Fate | None) -> None:
        if fate is None:
            self.held.append((number, message))
            return
        if fate is Fate.CONFIRMED:
            self.taken.append(message)
        self.report(number, fate, "" if fate is Fate.CONFIRMED else "no")

    async def drain(self) -> None:
        """Always ready."""

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing to close."""


def settings(**given: Any) -> ShovelSettings:
    given = {"source": ShovelSource(queue="q"), "destination": ShovelDestination(), **given}
    return ShovelSettings(name="a", **given)


class Rig:
    """A shovel with its ends."""

    def __init__(
        self, messages: Sequence[Message], to: Taking, seen: Seen | None = None, **given: Any
    ) -> None:
        self.source, self.destination, self.parking = ListSource(messages), to, Taking()
        ends = Ends(self.source.open, to.open, self.parking.open)
        self.shovel = Shovel(settings(**given), ends, seen=seen)

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - conditions of all kinds
                await asyncio.sleep(0.001)

    async def emptied(self) -> None:
        await self.until(lambda: not self.source.left)


@asynccontextmanager
async def running(
    messages: Sequence[Message], to: Taking | None = None, **given: Any
) -> AsyncIterator[Rig]:
    rig = Rig(messages, to or Taking(), **given)
    task = asyncio.create_task(rig.shovel.run())
    try:
        yield rig
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
