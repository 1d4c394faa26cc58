"""Waiting for messages, for a moment, or for the store.

The only clock is the broker's, so that tests can set it.
"""

import asyncio
from typing import NamedTuple

from gateway.broker.state import BrokerState
from gateway.http import problems
from gateway.http.dependencies import HttpDependencies
from gateway.http.problems import Problem
from gateway.message import Message


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


class Taken(NamedTuple):
    """One unsettled delivery. ``times``: which delivery of the message this is, from 1."""

    delivery: int
    times: int
    message: Message


class Waiting:
    """A caller who waits for up to ``most`` messages. ``alarm`` rings when some have come, when
    the time is up, or when there will be none."""

    __slots__ = ("tag", "alarm", "most", "taken", "gone")

    def __init__(self, tag: str, alarm: Alarm, most: int) -> None:
        self.tag = tag
        self.alarm = alarm
        self.most = most
        self.taken: list[Taken] = []
        self.gone = False


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
