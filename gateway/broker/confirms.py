"""Confirmations of one channel: numbered, in order, many at once.

Publishes are kept as runs of equal fate. The runs are told to the peer from the front, so that one
confirmation with ``multiple`` covers a run however long; a run that waits for the store holds up
those behind it for one commit at most.
"""

import sys
from collections import deque
from collections.abc import Callable

SAFE = 0
"""Mark of a publish that depends on no batch."""
UNDECIDED = sys.maxsize
"""Mark of a publish whose fate is told later."""


class Run:
    """Publishes up to ``last`` that share a mark and a fate."""

    __slots__ = ("last", "mark", "accepted")

    def __init__(self, last: int, mark: int, accepted: bool) -> None:
        self.last = last
        self.mark = mark
        self.accepted = accepted


class Confirms:
    """``sequence`` is the number of the latest publish, ``told`` of the latest confirmed."""

    __slots__ = ("sequence", "told", "runs")

    def __init__(self) -> None:
        self.sequence = 0
        self.told = 0
        self.runs: deque[Run] = deque()

    def add(self, mark: int, accepted: bool) -> None:
        """One more publish, safe when the batch ``mark`` is. Hot."""
        self.sequence += 1
        runs = self.runs
        if runs:
            run = runs[-1]
            if run.accepted is accepted and (run.mark == mark or mark == SAFE):
                run.last = self.sequence
                return
        runs.append(Run(self.sequence, mark, accepted))

    def wait(self) -> Run:
        """One more publish. Its fate is decided later: by the mark ``SAFE``, and ``accepted``."""
        self.sequence += 1
        run = Run(self.sequence, UNDECIDED, True)
        self.runs.append(run)
        return run

    def tell(self, safe: int, clean: int, confirm: Callable[[int, bool, bool], None]) -> bool:
        """Confirm the publishes of safe batches: those up to ``safe``, and ``clean`` (the gathering
        one, if it holds nothing any more; else 0). Whether nothing is left."""
        runs = self.runs
        while runs:
            run = runs[0]
            if run.mark > safe and run.mark != clean:
                return False
            runs.popleft()
            following = runs[0] if runs else None
            if (
                following is not None
                and following.accepted is run.accepted
                and (following.mark <= safe or following.mark == clean)
            ):
                continue
            many = run.last - self.told > 1
            self.told = run.last
            confirm(run.last, many, run.accepted)
        return True
