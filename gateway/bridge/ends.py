"""The two ends of a shovel, each of which is the core of this gateway or another broker.

A ``Source`` gives deliveries in batches and takes their outcomes. A ``Destination`` takes messages
under numbers of the shovel's, and reports the fate of each. ``watch`` runs while the end is open
and raises ``Refusal`` when it is lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from enum import Enum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gateway.message import Message
from gateway.operations import Outcome


class Fate(Enum):
    """Fate of a message at its destination."""

    CONFIRMED = "confirmed"
    UNROUTABLE = "unroutable"
    """No queue took it."""
    REFUSED = "refused"
    """The destination rejected it; it may take it later."""
    UNWRITABLE = "unwritable"
    """The version of the destination has no form for it."""


Report = Callable[[int, Fate, str], None]
"""Number of the message, its fate, and why it was not taken."""


class Taken(NamedTuple):
    """A message that a source delivered."""

    delivery: int
    message: Message
    redelivered: bool
    """It may have been delivered before."""


class Source(Protocol):
    """Where messages come from."""

    version: str
    """AMQP version of the connection; "" for this gateway."""

    async def batch(self) -> list[Taken]:
        """The deliveries that have come, one at least."""
        ...

    def settle(self, deliveries: Iterable[tuple[int, bool]], outcome: Outcome) -> None:
        """Give deliveries an outcome; with the flag, all unsettled ones up to it."""
        ...

    async def watch(self) -> None: ...

    async def close(self) -> None: ...


class FiniteSource(Source, Protocol):
    """A source that knows when its queue is empty."""

    async def remaining(self) -> int | None:
        """Messages that are ready in the queue, some of which may come before the answer; ``None``:
        the broker does not tell. Raises ``Refusal``."""
        ...

    async def synchronize(self) -> None:
        """Wait until the settlements given before are performed. Raises ``Refusal``."""
        ...


class Destination(Protocol):
    """Where messages go to."""

    version: str

    def publish(self, messages: Iterable[tuple[int, Message]]) -> None:
        """Publish messages; the fate of each is reported, perhaps at once."""
        ...

    async def drain(self) -> None:
        """Wait until the destination takes more."""
        ...

    async def watch(self) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class Marking(Protocol):
    """A source in the store of this gateway."""

    async def marked(self) -> None:
        """Wait until the store knows which messages were delivered: after a crash they come as
        redelivered."""
        ...


@runtime_checkable
class Recording(Protocol):
    """A destination in the store of this gateway."""

    on_taken: Callable[[list[int], bool], None] | None
    """Is told, in the turn that publishes them, the numbers of messages that were taken: of those
    that a restart does not lose (true), and of the others."""


class Ends(NamedTuple):
    """How a shovel opens its ends. All raise ``OSError`` or ``Refusal``."""

    source: Callable[[], Awaitable[Source]]
    destination: Callable[[Report], Awaitable[Destination]]
    parking: Callable[[Report], Awaitable[Destination]]
    """The queue of messages that the destination does not take."""


class Arrivals:
    """Deliveries that wait for the shovel. The window of the source bounds their number."""

    def __init__(self) -> None:
        self._taken: list[Taken] = []
        self._some = asyncio.Event()

    def add(self, delivery: int, message: Message, redelivered: bool) -> None:
        self._taken.append(Taken(delivery, message, redelivered))
        self._some.set()

    async def take(self) -> list[Taken]:
        """All that have come, one at least."""
        await self._some.wait()
        self._some.clear()
        taken, self._taken = self._taken, []
        return taken


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
