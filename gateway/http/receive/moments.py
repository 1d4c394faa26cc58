"""Waiting by the broker's clock: the only clock of this room, so that tests can set it."""

import asyncio

from gateway.broker.state import BrokerState
from gateway.http import problems
from gateway.http.dependencies import HttpDependencies
from gateway.http.problems import Problem


class Alarm:
    """A future that is done at a moment of the broker's clock, or when somebody rings."""

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


async def until_safe(dependencies: HttpDependencies, safe: asyncio.Future[None], what: str) -> None:
    """Wait for what ``safely`` promised. Raises ``Problem`` 504 if the disk takes too long."""
    if safe.done():
        return
    try:
        async with asyncio.timeout(dependencies.settings.confirm_seconds):
            await safe
    except TimeoutError:
        raise Problem(
            problems.UNKNOWN,
            f"{what} is done, but not yet safe on disk after "
            f"{dependencies.settings.confirm_seconds:g} s; asking again is harmless",
            safe_to_retry=True,
        ) from None


def safely(dependencies: HttpDependencies) -> asyncio.Future[None]:
    """Done when all that this turn has done so far is safe. Within a turn."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def safe() -> None:
        if not future.done():
            future.set_result(None)

    dependencies.broker.when_safe(safe)
    return future
