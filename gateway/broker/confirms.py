"""Confirmations of one channel: numbered, in order, many at once.

Publishes are kept as runs of equal fate. The runs are told to the peer from the front, so that one
confirmation with ``multiple`` covers a run however long; a run that waits for the store holds up
those behind it for one commit at most. Publishes that wait for an upstream are runs too, of which
ranges are decided in any order.
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
    """``sequence`` is the number of the latest publish, ``told`` of the latest confirmed.
    ``decided``: ranges of the undecided runs whose fate is known, by their first number: their last
    one, their mark and whether they are accepted."""

    __slots__ = ("sequence", "told", "runs", "decided")

    def __init__(self) -> None:
        self.sequence = 0
        self.told = 0
        self.runs: deque[Run] = deque()
        self.decided: dict[int, tuple[int, int, bool]] = {}

    def add(self, mark: int, accepted: bool) -> None:
        """One more publish, safe when the batch ``mark`` is. Hot."""
        self.sequence += 1
        runs = self.runs
        if runs:
            run = runs[-1]
            if run.accepted is accepted and (
                run.mark == mark or (mark == SAFE and run.mark != UNDECIDED)
            ):
                run.last = self.sequence
                return
        runs.append(Run(self.sequence, mark, accepted))

    def add_safe(self, count: int) -> None:
        """So many more publishes that are accepted and depend on no batch."""
        self.sequence += count
        runs = self.runs
        if runs and runs[-1].accepted and runs[-1].mark != UNDECIDED:
            runs[-1].last = self.sequence
        else:
            runs.append(Run(self.sequence, SAFE, True))

    def wait(self) -> int:
        """One more publish, whose fate is decided later; its number. Hot."""
        self.sequence = sequence = self.sequence + 1
        runs = self.runs
        if runs and runs[-1].mark == UNDECIDED:
            runs[-1].last = sequence
        else:
            runs.append(Run(sequence, UNDECIDED, True))
        return sequence

    def decide(self, first: int, last: int, mark: int, accepted: bool) -> None:
        """The mark and fate of publishes in a row that have waited for them."""
        self.decided[first] = last, mark, accepted

    def tell(self, safe: int, clean: int, confirm: Callable[[int, bool, bool], None]) -> bool:
        """Confirm the publishes of safe batches: those up to ``safe``, and ``clean`` (the gathering
        one, if it holds nothing any more; else 0). Whether nothing is left."""
        runs, fate, reached = self.runs, True, self.told
        while runs:
            run = runs[0]
            if run.mark == UNDECIDED:
                decided = self.decided.get(reached + 1)
                if decided is None:
                    break
                last, mark, accepted = decided
            else:
                last, mark, accepted = run.last, run.mark, run.accepted
            if mark > safe and mark != clean:
                break
            if last == run.last:
                runs.popleft()
            self.decided.pop(reached + 1, None)
            if accepted is not fate:
                self._confirm(reached, fate, confirm)
                fate = accepted
            reached = last
        self._confirm(reached, fate, confirm)
        return not runs

    def _confirm(
        self, last: int, accepted: bool, confirm: Callable[[int, bool, bool], None]
    ) -> None:
        """All that are not told yet, up to the last of equal fate."""
        many, self.told = last - self.told, last
        if many:
            confirm(last, many > 1, accepted)
