"""Positions in a queue of consumers that do not simply take its head: those with a filter, which
leave other messages to others, those that must not get some of the messages, and those that take
nothing and get copies.
"""

from collections.abc import Callable, Iterable, Iterator

from gateway.broker.exclusions import ExclusionIndex, Exclusions
from gateway.broker.lanes import Entry, Lane
from gateway.broker.state import BrokerState
from gateway.message import Message

MOST_AGAIN = 1024
"""Requeued messages that a cursor remembers one by one."""

Matches = Callable[[Message], bool]


class Cursor:
    """Positions by lane: everything up to a mark has been looked at, but for those in ``again``,
    which were requeued behind it. ``behind``: there may be something to look at."""

    __slots__ = ("matches", "copies", "exclusions", "marks", "again", "behind")

    def __init__(
        self,
        matches: Matches | None,
        copies: "Copies | None",
        exclusions: Exclusions | None = None,
    ) -> None:
        self.matches = matches
        self.copies = copies
        self.exclusions = exclusions
        self.marks: dict[Lane, int] = {}
        self.again: dict[Lane, set[int]] = {}
        self.behind = True

    def unseen(self, lane: Lane, position: int) -> bool:
        """Whether it has not looked at this place."""
        return position > self.marks.get(lane, 0) or position in self.again.get(lane, ())

    def looked(self, lane: Lane, position: int) -> None:
        """It has looked at this place, and at all that stands before it in the lane."""
        if position > self.marks.get(lane, 0):
            self.marks[lane] = position
        elif lane in self.again:
            self.again[lane].discard(position)

    def requeued(self, lane: Lane, positions: Iterable[int]) -> None:
        """Look there again. A copy that was sent is not sent twice."""
        if self.copies is not None:
            return
        mark = self.marks.get(lane, 0)
        again = self.again.setdefault(lane, set())
        again.update(position for position in positions if position <= mark)
        if len(again) > MOST_AGAIN:
            self.marks[lane] = min(again) - 1
            again.clear()
        self.behind = True


class Copies:
    """Stands for lane and queue of the copies that one consumer holds: their settlement has no
    effect on the queue of the originals."""

    __slots__ = (
        "state", "queue", "keeps", "gone", "unsettled", "delivered", "redelivered",
        "most_deliveries", "excluded",
    )  # fmt: skip

    forfeited = has_dead_letter_exchange = False

    def __init__(self, state: BrokerState) -> None:
        self.state = state
        self.queue = self
        self.keeps = False
        self.gone = False
        self.unsettled = 0
        self.delivered = 0
        self.redelivered = 0
        self.most_deliveries: int | None = None
        self.excluded = ExclusionIndex()

    def would_dead_letter(self, message: Message) -> bool:
        return False

    def finish(self, entry: Entry) -> None:
        """No-op: nothing is stored or counted for a copy."""

    def discard(self, entry: Entry, reason: str) -> None:
        """No-op: a copy has no dead letter exchange."""

    reject = discard

    def put_back(self, entries: Iterable[Entry]) -> None:
        self.unsettled -= sum(1 for _ in entries)

    def taking_back(self, lanes: list[tuple[Lane, list[Entry]]], octets: int) -> Iterator[None]:
        for _, entries in lanes:
            self.put_back(entries)
        yield
