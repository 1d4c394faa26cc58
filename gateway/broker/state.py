"""State that all queues of a broker share: the time, the store, the octets in memory, the agenda.

Queues and virtual hosts know the broker as no more than that.
"""

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any, Protocol

from gateway.broker.journal import Journal, RecordingRule
from gateway.broker.limits import Limits
from gateway.broker.long_operations import LongOperations
from gateway.broker.store import Store

FREED = 16 * 1024
"""Purged messages that are freed in one turn of the loop: about 15 ms."""
SOON = 1
"""Milliseconds before retrying a queue that exhausted this turn's budget. Queues that had nothing
of it come first, or one long queue would keep all others waiting."""


class Timed(Protocol):
    """Something that is called at a time of its own."""

    due: int | None

    def on_due(self) -> None: ...


class PurgedMessages:
    """Messages that were purged: no longer in any queue, and freed in portions. They are counted
    until they are freed."""

    def __init__(self, state: "BrokerState") -> None:
        self.state = state
        self.heaps: deque[deque[Any]] = deque()
        """Entries that were purged together."""
        self.due: int | None = None

    def take(self, entries: deque[Any]) -> None:
        """Free these entries, to which there is no other reference: a few at once."""
        if entries:
            self.heaps.append(entries)
            if len(self.heaps) == 1:
                self.on_due()

    def on_due(self) -> None:
        left, octets = FREED, 0
        heaps = self.heaps
        while heaps and left:
            heap = heaps[0]
            while heap and left:
                octets += heap.pop().message.weight
                left -= 1
            if not heap:
                heaps.popleft()
        self.state.octets -= octets
        if heaps:
            self.state.schedule(self, self.state.now + SOON)


class BrokerState:
    """``now`` is wall clock ms, set from outside. ``octets`` counts bodies and headers in
    memory, once per queue that holds them (a large body is not in memory); ``looks`` counts the
    messages shown to filters in this turn, ``drops`` the work on unwanted messages, ``given`` the
    messages delivered from queues."""

    def __init__(
        self, store: Store, limits: Limits, now: int, recording: Iterable[RecordingRule] = ()
    ) -> None:
        self.store = store
        self.limits = limits
        self.now = now
        self.report: Callable[[str], None] = lambda text: None
        """Tells an operator about an error that no answer to a client reports."""
        self.warn: Callable[[str], None] = lambda text: None
        """Tells an operator about an argument that has no effect."""
        self.octets = 0
        self.looks = 0
        self.drops = 0
        self.given = 0
        self.volatile = bool(getattr(store, "volatile", False))
        self.next_number = 1
        self.journal = Journal(self, recording)
        self.purged = PurgedMessages(self)
        self.long_operations = LongOperations(store)
        self.agenda: list[tuple[int, int, Timed]] = []
        self.scheduled = 0

    def number(self) -> int:
        """A number for the store that no lane has had."""
        number = self.next_number
        self.next_number = number + 1
        return number

    def schedule(self, thing: Timed, when: int) -> None:
        """Call ``thing.on_due`` at ``when``, unless it is scheduled earlier already."""
        if thing.due is None or when < thing.due:
            thing.due = when
            self.scheduled += 1
            heappush(self.agenda, (when, self.scheduled, thing))

    def due(self) -> int | None:
        """When ``tick`` should be called next, ms, or ``None``."""
        agenda = self.agenda
        while agenda and agenda[0][2].due != agenda[0][0]:
            heappop(agenda)
        return agenda[0][0] if agenda else None

    def begin_turn(self) -> None:
        """Nothing of the turn's budgets is spent."""
        self.looks = self.drops = self.given = 0

    def tick(self, now: int) -> None:
        """Call everything that is due: messages and queues expire."""
        self.now = now
        self.begin_turn()
        agenda = self.agenda
        while agenda and agenda[0][0] <= now:
            when, _, thing = heappop(agenda)
            if thing.due == when:
                thing.due = None
                thing.on_due()
