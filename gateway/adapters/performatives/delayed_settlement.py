"""Answers to receivers that wait for us to settle (§2.6.12, mode "second" of §2.8.3).

We settle when the store has the outcome: a settled delivery must not come again after a crash.
Outcomes of one read are settled together, if they are the same.
"""

from collections.abc import Iterable
from typing import Any

from gateway.adapters.performatives.pending import PendingReply
from gateway.adapters.performatives.session import Session
from gateway.operations import Assure, Operation


class DelayedSettlement:
    """Deliveries that have an outcome of the receiver and wait to be settled."""

    __slots__ = ("session", "runs", "assure")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.runs: list[tuple[int, int, Any]] = []
        """First, last and state of each."""
        self.assure = Assure(session.number, PendingReply(self.safe))

    def add(self, first: int, last: int, state: Any) -> None:
        runs = self.runs
        if runs and runs[-1][1] + 1 == first and runs[-1][2] == state:
            first = runs.pop()[0]
        runs.append((first, last, state))

    def safe(self, result: Any) -> None:
        for run in self.runs:
            self.session.unsettled.settle_sent(*run)
        self.runs.clear()


def delay_settlement(
    session: Session,
    last: DelayedSettlement | None,
    runs: Iterable[tuple[int, int]],
    state: Any,
    before: int,
    found: list[Operation],
) -> DelayedSettlement:
    """Settle these deliveries later (``SessionHandler.on_settlement_awaited``), together with
    ``last`` if that came right before, in the same read."""
    if last is not None and before and found[before - 1] is last.assure:
        delayed = last
        del found[before - 1]
    else:
        delayed = DelayedSettlement(session)
    for run in runs:
        delayed.add(*run, state)
    found.append(delayed.assure)
    return delayed
