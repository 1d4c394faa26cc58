"""Messages of a deleted queue on their way to its dead letter exchange.

An alternate exchange of 0-10 gets the rest of a queue when that is deleted (queue.declare,
alternate-exchange); a dead letter exchange of RabbitMQ gets nothing then. So the queue has the
argument ``x-dead-letter-on-delete``, which declarations of 0-10 set.

Ready messages go at once, in as many turns as that needs. Unsettled deliveries go when they are
released or rejected. Until all of it has gone the store has a record of kind "deleted" in place
of the queue's own: after a restart it all goes on from there.
"""

from collections import deque
from typing import Any, Protocol

from gateway.broker.backlog import Backlog
from gateway.broker.lanes import Entry
from gateway.broker.state import SOON, BrokerState

KIND = "deleted"
DELETED = "deleted"
"""The reason in the headers of such dead letters."""


class DeletedQueue(Protocol):
    """The queue that is deleted."""

    state: BrokerState
    durable: bool
    owner: Any
    unsettled: int
    due: int | None
    backlog: Backlog
    pending_dead_letters: deque[tuple[Entry, str]]
    handover: "Handover | None"

    def on_due(self) -> None: ...
    def enough(self) -> bool: ...
    def head(self) -> Entry | None: ...
    def discard(self, entry: Entry, reason: str) -> None: ...
    def purge(self) -> int: ...


class Handover:
    """Of one queue of a virtual host, whose name is the first of ``key``, the key of the record.
    ``others`` are all those of the virtual host; this one is among them until it is done."""

    def __init__(
        self,
        queue: DeletedQueue,
        key: tuple[str, str],
        others: "dict[Handover, str]",
        exchange: str,
    ) -> None:
        self.queue = queue
        self.key = key
        others[self] = exchange
        self.others = others
        queue.handover = self

    @property
    def ready(self) -> bool:
        """Whether there are messages that go without waiting for a consumer."""
        return self.queue.backlog.depth > 0 or bool(self.queue.pending_dead_letters)

    def work(self, busy: bool) -> None:
        """Hand over as much as this turn can. Nothing while dead letters are being published
        (``busy``): those of a long cascade are lost."""
        queue = self.queue
        state = queue.state
        if busy:
            state.schedule(queue, state.now + SOON)
            return
        pending = queue.pending_dead_letters
        while pending and not queue.enough():
            queue.discard(*pending.popleft())
        while queue.backlog.depth and not queue.enough():
            entry = queue.head()
            if entry is None:
                break
            queue.backlog.pull(entry)
            queue.discard(entry, DELETED)
        self.end_if_done()

    def end_if_done(self) -> None:
        """There may have been the last message."""
        queue = self.queue
        if queue.unsettled or self.ready or queue.handover is None:
            return
        self.end()
        queue.state.store.forget(KIND, self.key)

    def end(self) -> None:
        """Drop the rest, if there is any."""
        queue = self.queue
        queue.handover = None
        self.others.pop(self, None)
        queue.pending_dead_letters.clear()
        queue.purge()
