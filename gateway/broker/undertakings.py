"""Requests that are too much for one turn of the loop and are one thing in the store.

A commit of a hundred thousand messages is done in portions, a turn for each, and others are served
in between. Until it is complete the store's batch stays open, so that after a crash all of it is
there or nothing. Undertakings are done one after the other, each in a batch of its own.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gateway.broker.store import Store
from gateway.errors import Refusal

PORTION = 1000
"""Messages or settlements of a transaction that are committed in one turn of the loop."""

Done = Callable[[Refusal | None], None]


class Undertaking(NamedTuple):
    """``steps`` does one portion for each ``next``, and may end with a ``Refusal``."""

    steps: Iterator[None]
    done: Done


class Undertakings:
    """Of one broker. ``holding``: the gathering batch of the store must not be closed now."""

    def __init__(self, store: Store) -> None:
        self.jobs: deque[Undertaking] = deque()
        self.holding = False
        self._store = store
        self._sealed = 0
        """The batch that holds the undertaking before."""

    def begin(self, steps: Iterator[None], done: Done) -> None:
        """``done`` is called when all of it is done, in this turn or a later one."""
        self.jobs.append(Undertaking(steps, done))
        if len(self.jobs) == 1:
            self.work()

    def work(self) -> None:
        """One portion; once per turn."""
        if not self.jobs:
            return
        if not self.holding and self._store.dirty and self._store.mark == self._sealed:
            return  # or batches would grow as long as there are undertakings
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
        """Do all that is left of the one that has begun: the end is near."""
        while self.holding:
            self.work()
