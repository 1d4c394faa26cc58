"""Requests that are too much for one turn of the loop.

A commit of a hundred thousand messages is done in portions, a turn for each, and others are served
in between. It is atomic in the store: until it is complete the store's batch stays open, so that
after a crash all of it is there or nothing. Such operations are done one after the other, each in a
batch of its own.

Others are not atomic, such as the settlement of a hundred thousand deliveries. They wait for no
batch and hold none, and have a line of their own.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gateway.broker.store import Store
from gateway.errors import Refusal

PORTION = 1000
"""Messages published, or deliveries settled, in one turn of the loop."""
FREED = 16 * PORTION
"""Messages let go of in one turn."""

Done = Callable[[Refusal | None], None]


def freeing(things: list[Any]) -> Iterator[None]:
    """Drop the last references in portions: to free a message takes time too."""
    while things:
        del things[-FREED:]
        yield


def unanswered(refusal: Refusal | None) -> None:
    """No-op: the operation has no answer."""


class LongOperation(NamedTuple):
    """``steps`` does one portion for each ``next``, and may end with a ``Refusal``."""

    steps: Iterator[None]
    done: Done


class LongOperations:
    """Of one broker. ``jobs`` are one thing in the store each, ``loose`` are not. ``holding``: the
    gathering batch of the store must not be closed now."""

    def __init__(self, store: Store) -> None:
        self.jobs: deque[LongOperation] = deque()
        self.loose: deque[LongOperation] = deque()
        self.holding = False
        self._store = store
        self._sealed = 0
        """The batch that holds the long operation before."""

    def begin(self, steps: Iterator[None], done: Done, atomic: bool = True) -> None:
        """``done`` is called when all of it is done, in this turn or a later one. ``atomic``: it is
        one thing in the store."""
        line = self.jobs if atomic else self.loose
        line.append(LongOperation(steps, done))
        if len(line) == 1:
            (self._work_whole if atomic else self._work_loose)()

    @property
    def waiting(self) -> bool:
        """Whether there is something to do in the next turn."""
        return bool(self.jobs or self.loose)

    def work(self) -> None:
        """One portion of each line; once per turn."""
        try:
            self._work_whole()
        finally:
            self._work_loose()

    def _work_loose(self) -> None:
        if not self.loose:
            return
        refused: Refusal | None = None
        try:
            next(self.loose[0].steps)
            return
        except StopIteration:
            pass
        except Refusal as refusal:
            refused = refusal
        except BaseException:
            self.loose.popleft()
            raise
        self.loose.popleft().done(refused)

    def _work_whole(self) -> None:
        if not self.jobs:
            return
        store = self._store
        if not self.holding and store.mark == self._sealed and store.dirty and not store.patient:
            return  # or batches would grow as long as there are long_operations
        self.holding = True
        refused: Refusal | None = None
        try:
            next(self.jobs[0].steps)
            return
        except StopIteration:
            pass
        except Refusal as refusal:
            refused = refusal
        except BaseException:
            self._finish()
            raise
        self._finish()(refused)

    def _finish(self) -> Done:
        self.holding = False
        self._sealed = self._store.mark
        return self.jobs.popleft().done

    def finish(self) -> None:
        """Do all that is left of the one that has begun, and of what was settled: the end is
        near."""
        while self.holding:
            self._work_whole()
        while self.loose:
            self._work_loose()
