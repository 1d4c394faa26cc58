"""A move: queues of one side are emptied into the other, one after the other, once.

It outlives its process by its journal: ``Move`` made again from the same record goes on.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from gateway.bridge.clock import now
from gateway.bridge.migration.journal import Journal, MoveRecord, QueueRecord
from gateway.bridge.migration.queue_move import NotTaken, QueueMove, Work
from gateway.bridge.migration.settings import MoveSettings
from gateway.bridge.migration.sides import Side
from gateway.errors import GatewayError, Refusal
from gateway.net.pauses import Pauses

log = logging.getLogger("gateway.bridge")


class State(Enum):
    """State of a move."""

    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"
    """It has given up; ``resume`` lets it go on."""
    DONE = "done"


class MoveInfo(NamedTuple):
    """A move as the administration shows it. ``changed`` is the time of the last change of state in
    ms since 1970, ``rate`` in messages per second."""

    name: str
    state: str
    source: str
    destination: str
    reverses: str
    created: int
    changed: int
    error: str
    moved: int
    expected: int | None
    suppressed: int
    flagged: int
    rejected: int
    returned: int
    rate: float
    queues: list[QueueRecord]


class Move:
    """Runs until its queues are empty."""

    def __init__(
        self, record: MoveRecord, journal: Journal, source: Side, destination: Side
    ) -> None:
        self.name = record.name
        self.reverses = record.reverses
        self.settings = MoveSettings.model_validate(record.settings)
        self.created, self.changed = record.created, record.changed
        self.state = State(record.state)
        self.error = record.error
        self.queues = {one.queue: one for one in journal.queues(record.name)}
        self.progress: Callable[[], None] = lambda: None
        """Called when counts or the state have changed."""
        self._journal = journal
        self._sides = source, destination
        self._work = Work(record.name, self.settings, journal, source, destination, record.reverses)
        self._current: QueueMove | None = None
        self._task: asyncio.Task[None] | None = None
        self._began = 0.0
        self._moved_before = 0
        self._rate = 0.0

    # --- control ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Run in the background, unless it runs already or is done."""
        idle = self._task is None or self._task.done()
        if idle and self.state is not State.DONE:
            self._enter(State.RUNNING)
            self._task = asyncio.get_running_loop().create_task(self.run())

    async def pause(self) -> None:
        """Stop after the batch that is under way; at once, if an end is not open."""
        self._work.stopping = True
        if self._current is None:
            await self.close()
        elif self._task is not None:
            await asyncio.wait([self._task], timeout=self.settings.delay_seconds + 10)
            await self.close()
        if self.state is State.RUNNING:
            self._enter(State.PAUSED)

    async def ended(self) -> None:
        """Wait until it is done, paused or has given up. Started again, it may go on."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Stop at once; a later process goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run(self) -> None:
        """Move until all queues are empty. What stops it is in ``state`` and ``error``."""
        self._work.stopping = False
        self._work.moved = self._moved
        self._began, self._moved_before = time.monotonic(), self.moved
        try:
            for number, record in list(self.queues.items()):
                if not record.done and not await self._queue(number):
                    self._enter(State.PAUSED)
                    return
        except (OSError, GatewayError) as error:
            self._enter(State.FAILED, str(error) or type(error).__name__)
        except Exception as error:  # it must be seen that the move has ended
            log.exception("move %s: internal error", self.name)
            self._enter(State.FAILED, f"internal error: {error!r}")
        else:
            self._enter(State.DONE)

    async def _queue(self, number: int) -> bool:
        """Move one queue, over losses of the ends. False: the move is to be paused."""
        pauses, attempts = Pauses(), 0
        while True:
            record = self.queues[number]
            self._current = current = QueueMove(self._work, record)
            try:
                return await current.run()
            except NotTaken:
                raise
            except (OSError, GatewayError) as error:
                if current.record.next > record.next:
                    pauses.reset()
                    attempts = 0
                attempts += 1
                if attempts >= self.settings.attempts or never_opened(current, error):
                    raise
                self.error = str(error) or type(error).__name__
                log.warning("move %s: %s: %s", self.name, record.source, self.error)
            finally:
                self._moved()
                self._current = None
                self.queues = {one.queue: one for one in self._journal.queues(self.name)}
            self.progress()
            if self._work.stopping:
                return False
            await asyncio.sleep(pauses.next())

    def _moved(self) -> None:
        """The counts have changed."""
        if self._current is not None:
            self.queues[self._current.record.queue] = self._current.record
            if self._current.opened:
                self.error = ""
        # The first batch of a move with a limit goes at once: it is no rate.
        passed = max(time.monotonic() - self._began, 1.0)
        self._rate = (self.moved - self._moved_before) / passed
        self.progress()

    def _enter(self, state: State, error: str = "") -> None:
        self.state, self.error, self.changed = state, error, now()
        self._journal.enter(self.name, state.value, error)
        if error:
            log.warning("move %s: %s", self.name, error)
        self.progress()

    # --- what it tells ----------------------------------------------------------------------------

    @property
    def moved(self) -> int:
        return sum(one.moved for one in self.queues.values())

    def info(self) -> MoveInfo:
        queues = list(self.queues.values())
        source, destination = self._sides
        names = source.described, destination.described
        return info_of(self._record(), queues, *names, self._rate)

    def _record(self) -> MoveRecord:
        return MoveRecord(
            self.name,
            {},
            self.state.value,
            self.created,
            self.changed,
            self.error,
            self.reverses,
        )


def never_opened(queue: QueueMove, error: Exception) -> bool:
    """A queue that does not exist or a wrong password, at the first attempt: nobody is going to
    repair that while the operator waits."""
    return isinstance(error, Refusal) and not queue.opened and queue.record.next == 1


def info_of(
    move: MoveRecord,
    queues: Sequence[QueueRecord],
    source: str,
    destination: str,
    rate: float = 0.0,
) -> MoveInfo:
    """The record of a move, with sums over its queues."""
    expected = [one.expected for one in queues if one.expected is not None]
    return MoveInfo(
        move.name,
        move.state,
        source,
        destination,
        move.reverses,
        move.created,
        move.changed,
        move.error,
        sum(one.moved for one in queues),
        sum(expected) if expected else None,
        sum(one.suppressed for one in queues),
        sum(one.flagged for one in queues),
        sum(one.rejected for one in queues),
        sum(one.returned for one in queues),
        round(rate, 1),
        list(queues),
    )
