"""Reading the journal for requests: on one thread, one request after the other."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gateway.http import problems
from gateway.http.problems import Problem
from gateway.journal.entries import JournalError, Trimmed
from gateway.journal.reader import JournalReader

T = TypeVar("T")


class JournalThread:
    """``make`` opens the journal; ``None``: the gateway is not durable and has none."""

    def __init__(self, make: Callable[[], JournalReader] | None) -> None:
        self.make = make
        self._pool = ThreadPoolExecutor(1, "journal-reader")
        self._reader: JournalReader | None = None
        self._closed = False

    async def run(self, work: Callable[[JournalReader], T]) -> T:
        """Do the work on the thread. Raises ``Problem``: 409 without a journal, or one that cannot
        be read, 410 for positions that retention has removed, 503 once it is closed."""
        make = self.make
        if make is None:
            raise Problem(problems.CONFLICT, "a gateway that is not durable has no journal")
        if self._closed:
            raise Problem(problems.DRAINING, "the gateway is shutting down")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, self._work, make, work)
        except Trimmed as error:
            raise Problem(problems.TRIMMED, str(error), start=error.start) from None
        except JournalError as error:
            raise Problem(problems.CONFLICT, str(error)) from None

    def _work(self, make: Callable[[], JournalReader], work: Callable[[JournalReader], T]) -> T:
        if self._reader is None:
            self._reader = make()
        return work(self._reader)

    async def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=True)
        if self._reader is not None:
            self._reader.close()
