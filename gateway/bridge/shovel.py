"""A shovel: moves the messages of one queue to another place, and settles each at its source only
after the destination has confirmed it.

If either end is lost, both are closed and opened again after a pause. What was not settled comes
again, so that a message may arrive twice, and never less than once. A message that the destination
does not take is tried again, then parked in a queue of this gateway, or rejected at its source.
"""

import asyncio
import contextlib
import time
from enum import Enum
from typing import NamedTuple

from gateway.bridge.attempts import attempt
from gateway.bridge.clock import now
from gateway.bridge.ends import Ends, first_of
from gateway.bridge.ledger import Ledger
from gateway.bridge.pacing import Pace
from gateway.bridge.passing import Passing
from gateway.bridge.preparation import Preparation
from gateway.bridge.seen import Seen
from gateway.config.bridge import ShovelSettings
from gateway.net.pauses import Pauses


class State(Enum):
    """State of a shovel."""

    CONNECTING = "connecting"
    RUNNING = "running"
    WAITING = "waiting"
    """An end is lost or cannot be opened; the next attempt follows."""
    PAUSED = "paused"


class LaneInfo(NamedTuple):
    """A queue of a shovel with a pattern, as the administration shows it."""

    queue: str
    state: str
    destination: str
    moved: int
    parked: int
    under_way: int
    error: str
    error_at: int


class ShovelInfo(NamedTuple):
    """A shovel as the administration shows it. ``since`` is the time of the last change of state in
    ms since 1970, ``connected`` how often both ends were opened. ``error`` says why an end was
    lost, or the last message was not taken, and ``error_at`` when that was; it stays after the
    shovel runs again."""

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
    dropped: int
    delayed: int
    duplicates: int
    repeated: int
    under_way: int
    held: int
    connected: int
    since: int
    error: str
    error_at: int
    lanes: list[LaneInfo]
    """Of a pattern of queues: each of these."""


class Shovel:
    """Runs until it is cancelled; ``pause`` and ``resume`` stop and start it between."""

    def __init__(
        self,
        settings: ShovelSettings,
        ends: Ends,
        preparation: Preparation | None = None,
        pace: Pace | None = None,
        seen: Seen | None = None,
    ) -> None:
        """``preparation`` and ``pace``: those of the settings, or shared with other shovels.
        ``seen``: ids of messages that are not moved again. Raises ``ConfigError`` if the rules
        are wrong."""
        self.settings = settings
        self._preparation = preparation or Preparation(settings)
        self._pace, self._seen = pace or paced(settings), seen
        self.ledger = Ledger(settings.name)
        self.connected = 0
        self._ends = ends
        self._state, self._since = State.CONNECTING, now()
        self._versions = "", ""
        self._passing: Passing | None = None
        self._wanted, self._unwanted = asyncio.Event(), asyncio.Event()
        self._wanted.set()

    def info(self) -> ShovelInfo:
        settings, ledger = self.settings, self.ledger
        return ShovelInfo(
            name=settings.name,
            state=self._state.value,
            source=settings.source.described,
            source_version=self._versions[0],
            destination=settings.destination.described,
            destination_version=self._versions[1],
            under_way=0 if self._passing is None else len(self._passing.under_way),
            held=0 if self._passing is None else self._passing.held,
            connected=self.connected,
            since=self._since,
            error=ledger.error,
            error_at=ledger.error_at,
            lanes=[],
            **ledger.counts(),
        )

    def pause(self) -> None:
        """Close both ends until ``resume``."""
        self._wanted.clear()
        self._unwanted.set()

    def resume(self) -> None:
        self._unwanted.clear()
        self._wanted.set()

    async def run(self) -> None:
        pauses = Pauses()
        while True:
            if not self._wanted.is_set():
                self._enter(State.PAUSED)
                await self._wanted.wait()
            self._enter(State.CONNECTING)
            moved = self.ledger.moved
            await attempt(f"shovel {self.settings.name}", self._pass(), self.ledger.failed)
            if not self._wanted.is_set():
                continue
            if self.ledger.moved > moved:
                pauses.reset()
            self._enter(State.WAITING)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pauses.next()):
                    await self._unwanted.wait()

    async def _pass(self) -> None:
        """Open both ends and move messages until one is lost, or the shovel is paused."""
        self._passing = passing = Passing(
            self.settings, self._preparation, self.ledger, self._pace, self._seen
        )
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

    def _enter(self, state: State) -> None:
        if state is not self._state:
            self._state, self._since = state, now()


def paced(settings: ShovelSettings) -> Pace | None:
    """The rate limit of a shovel, if it has one."""
    return None if settings.rate is None else Pace(settings.rate, time.monotonic)
