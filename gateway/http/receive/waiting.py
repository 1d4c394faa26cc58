"""Waiting for a moment, or for the store.

The only clock is the broker's, so that tests can set it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.broker.state import BrokerState
from gateway.http import problems
from gateway.http.dependencies import HttpDependencies
from gateway.http.problems import Problem


class Alarm:
    """A future that is done at a moment of the broker's clock, or when ``ring`` is called."""

    __slots__ = ("state", "when", "due", "future")

    def __init__(self, state: BrokerState, when: int) -> None:
        """``when`` is ms since 1970. Within a turn."""
        self.state = state
        self.when = when
        self.due: int | None = None
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        state.schedule(self, when)

    def on_due(self) -> None:
        if self.state.now >= self.when:
            self.ring()
        elif not self.future.done():
            self.state.schedule(self, self.when)

    def ring(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


@asynccontextmanager
async def stored_turn(dependencies: HttpDependencies, what: str) -> AsyncIterator[None]:
    """A turn of the broker, and then a wait until all of it is on disk. Raises ``Problem`` 504 if
    the disk takes too long."""
    stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_disk() -> None:
        if not stored.done():
            stored.set_result(None)

    with dependencies.turn():
        yield
        dependencies.broker.when_safe(on_disk)
    if stored.done():
        return
    try:
        async with asyncio.timeout(dependencies.settings.confirm_seconds):
            await stored
    except TimeoutError:
        raise Problem(
            problems.UNKNOWN,
            f"{what} is done, but not yet safe on disk after "
            f"{dependencies.settings.confirm_seconds:g} s; asking again is harmless",
            safe_to_retry=True,
        ) from None
