"""Turns of the event loop: at the end of each, one group commit and one write per connection.

Callers bracket every use of the broker with ``begin`` and ``end``. ``end`` lets the broker send
confirms and deliveries that are due, starts the group commit if none is running, and flushes every
connection that has output.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from gateway.broker.broker import Broker
from gateway.broker.store import Batch, Store
from gateway.errors import StoreError

log = logging.getLogger("gateway.store")

BETWEEN_SECONDS = 0.001
"""Delay between two portions of a request that takes several turns."""
PATIENCE_SECONDS = 0.02
PATIENCE_OCTETS = 4 << 20
"""How long, and up to how many octets, entries of the journal are gathered for which nothing waits.
Each commit takes the interpreter lock from the loop several times, for many entries no longer than
for a few."""
RETRY_SECONDS = 1.0
"""Delay before a failed commit is tried again."""


class Flushable(Protocol):
    """A connection with output."""

    def settle(self) -> None: ...

    def flush(self) -> None: ...

    def abort(self) -> None: ...


class LoopTurn:
    """Turns of the event loop. One per broker; not for use from other threads.

    ``on_pressure`` is called with true when the store has more unwritten octets than
    ``backlog_octets``, and with false when it has caught up to half of that.
    """

    def __init__(self, broker: Broker, store: Store, backlog_octets: int) -> None:
        self.broker = broker
        self.store = store
        self.commits = 0
        self.commit_seconds = 0.0
        self.pressed = False
        self.on_pressure: Callable[[bool], None] = lambda pressed: None
        self.on_broken: Callable[[BaseException], None] = lambda error: None
        """Called when the store cannot be written to any more; the process should end."""
        self.failing: str | None = None
        """Why the last commit failed; ``None`` if it did not."""
        self.backlog = backlog_octets
        self._dirty: list[Flushable] = []
        self._writing: asyncio.Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, "store")
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0
        self._patience: asyncio.TimerHandle | None = None
        """Ends the gathering of a batch for which nothing waits."""
        self._impatient = False
        """The batch has gathered for long enough."""
        self._working = False

    def wake(self, connection: Flushable) -> None:
        """This connection has output; it is flushed at the end of the turn."""
        self._dirty.append(connection)

    def begin(self) -> None:
        """Tell the broker the time."""
        self.broker.state.now = int(time.time() * 1000)

    def end(self) -> None:
        """Finish the turn. Never raises because of a peer or the disk."""
        broker = self.broker
        for connection in list(self._dirty):
            self._guarded(connection, connection.settle)
        broker.end_turn()
        if self._writing is None and self.store.dirty:
            self._commit_when_due()
        if broker.state.long_operations.waiting and not self._working:
            self._working = True
            self._loop.call_later(BETWEEN_SECONDS, self._work)
        dirty = self._dirty
        while dirty:
            self._dirty = []
            for connection in dirty:
                self._guarded(connection, connection.flush)
            dirty = self._dirty
        due = broker.state.due()
        if due is not None and (self._timer is None or due < self._timer_due):
            self._schedule(due)
        if self.store.pending_octets > self.backlog and not self.pressed:
            self.pressed = True
            self.on_pressure(True)

    def _guarded(self, connection: Flushable, step: Callable[[], None]) -> None:
        """Close a connection that raises, which is our bug; the others are flushed all the same."""
        try:
            step()
        except Exception:
            log.exception("internal error in writing, connection closed")
            connection.abort()

    # --- timers ---------------------------------------------------------------------------------

    def _schedule(self, due: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        delay = max(0.001, due / 1000 - time.time())
        self._timer = self._loop.call_later(delay, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self.begin()
        self.broker.state.tick(self.broker.state.now)
        self.end()

    # --- group commit ---------------------------------------------------------------------------

    def _work(self) -> None:
        """Perform the next portion of a request of several turns."""
        self._working = False
        self.begin()
        try:
            self.broker.state.long_operations.work()
        except Exception:
            log.exception("internal error in a request of several turns")
        self.end()

    def _commit_when_due(self) -> None:
        """Commit now, or after a while if nothing waits for the batch."""
        store = self.store
        if self._impatient or not store.patient or store.gathered_octets > PATIENCE_OCTETS:
            self._commit()
        elif self._patience is None:
            self._patience = self._loop.call_later(PATIENCE_SECONDS, self._end_patience)

    def _end_patience(self) -> None:
        self._patience = None
        self._impatient = True
        self.begin()
        self.end()

    def _commit(self) -> None:
        if self.broker.state.long_operations.holding:
            return
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._impatient = False
        # None: all that was gathered has cancelled out, and the broker knows that it is safe.
        batch = self.store.take()
        if batch is not None:
            self._write(batch)

    def _write(self, batch: Batch) -> None:
        started = time.perf_counter()
        future = self._loop.run_in_executor(self._pool, self.store.write, batch)
        self._writing = future

        def written(done: asyncio.Future[None]) -> None:
            self._writing = None
            error = done.exception()
            if error is None:
                self.commits += 1
                self.commit_seconds += time.perf_counter() - started
                self._recovered()
                self.begin()
                self.broker.committed(batch.mark)
                self._commit_when_due()
                self._relax()
                self.end()
            elif isinstance(error, StoreError):
                self._failed(batch, str(error))
            else:
                self._broken(error)

        future.add_done_callback(written)

    def _failed(self, batch: Batch, why: str) -> None:
        """Nothing is confirmed and publishers are held back until the disk works again."""
        if self.failing is None:
            log.error("commit failed, will be tried again: %s", why)
        self.failing = why
        self.broker.alarm("store", True)
        hold: asyncio.Future[None] = self._loop.create_future()
        self._writing = hold
        self._loop.call_later(RETRY_SECONDS, self._write, batch)

    def _broken(self, error: BaseException) -> None:
        """A bug of ours in the store's thread would recur with each batch, and nothing would be
        confirmed any more. The batch is not written, so a new process can start from the disk."""
        self.failing = f"internal error: {error}"
        self.broker.alarm("store", True)
        self._writing = self._loop.create_future()
        log.critical("internal error in the store's thread", exc_info=error)
        self.on_broken(error)

    def _recovered(self) -> None:
        if self.failing is not None:
            log.warning("commits work again")
            self.failing = None
            self.broker.alarm("store", False)

    def _relax(self) -> None:
        if self.pressed and self.store.pending_octets < self.backlog // 2:
            self.pressed = False
            self.on_pressure(False)

    async def drain(self) -> None:
        """Wait until nothing is unwritten (or the store is failing)."""
        self.broker.state.long_operations.finish()
        self.broker.state.journal.record_gathered()
        while self._writing is not None or self.store.dirty:
            if self.failing is not None:
                return
            if self._writing is None:
                self._impatient = True
                self.end()
            else:
                await asyncio.wait([self._writing], timeout=1)

    def close(self) -> None:
        for timer in (self._timer, self._patience):
            if timer is not None:
                timer.cancel()
        self._pool.shutdown(wait=True)
