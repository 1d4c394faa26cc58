"""Exchange sources whose journals outlive the gateway: after a restart, or ``kill -9``, a cursor
continues exactly where it was.

Three things make that so. The exchange is bound to a durable queue of the source's own, so that
nothing is missed while no reader is here. Its messages go into the store under the journal's
number in the same batch in which it leaves the queue, so that it is in one of them and not in both.
And a reader is shown nothing that is not safe yet, so that no position is ever given out twice.
"""

import logging
import os
from collections import deque
from typing import Any, NamedTuple

from gateway.broker.journal import SOURCE
from gateway.broker.local import LocalChannel, remove_private_queue
from gateway.broker.names import PRIVATE
from gateway.errors import Unstorable
from gateway.http.events.cursor import EPOCH_OCTETS, digest_of
from gateway.http.events.journal import Event
from gateway.http.events.past import History
from gateway.http.events.sources import AT_ONCE, Source, SourceName, SourceOwner, Stream
from gateway.http.prepared_bodies import HEAVY
from gateway.journal.by_offset import Which
from gateway.journal.tail import source_address
from gateway.message import Message
from gateway.operations import Outcome

log = logging.getLogger("gateway.http")

PREFIX = PRIVATE
PORTION = 1024


class Waiting(NamedTuple):
    """In the store, in a batch that is not written yet."""

    mark: int
    event: Event


class DurableSource(Source):
    """``number`` is where the store has the journal; ``used`` when it was last read, ms."""

    def __init__(
        self, hub: SourceOwner, vhost: str, name: SourceName, record: dict[str, Any] | None = None
    ) -> None:
        state = hub.broker.state
        known = record or {
            "number": state.number(),
            "epoch": os.urandom(EPOCH_OCTETS).hex(),
            "start": 1,
            "user": "",
            "used": 0,
            "since": state.journal.next,
        }
        super().__init__(hub, vhost, name, known["start"])
        self.store = state.store
        self.waiting: deque[Waiting] = deque()
        self.asked = 0
        """The batch that was last waited for."""
        self.queue = PREFIX + digest_of(vhost, f"{name}\0durable").hex()
        self.number: int = known["number"]
        self.since: int = known.get("since", 0)
        """The commit position before its first."""
        self.rows = self.journal.born
        """The first that may have a row in the store."""
        self.released = self.rows - 1
        """Rows up to here may go: the journal has the events elsewhere, or they are too old."""
        if hub.past is not None:
            address = source_address(name.name, name.key or "")
            which = Which(vhost, address, self.since)
            self.history = History(hub.past, which, self.journal)
            state.journal.sources[self.number] = self.release_rows
        self.epoch = bytes.fromhex(known["epoch"])
        self.user: str = known["user"]
        self.used: int = known["used"] or state.now
        self.key = self.digest + self.epoch
        self.renderer = self.make_renderer()
        self.next = self.journal.born
        if record is not None:
            self.restore()

    @property
    def record_key(self) -> tuple[str, ...]:
        return self.vhost, self.name.name, self.name.key or ""

    def save(self) -> None:
        """``used`` is 0 while it is being read."""
        self.store.save(
            SOURCE,
            self.record_key,
            {
                "number": self.number,
                "epoch": self.epoch.hex(),
                "start": self.journal.born,
                "user": self.user,
                "used": 0 if self.readers else self.used,
                "since": self.since,
            },
        )

    def restore(self) -> None:
        """Read the ring back. The frames are made when they are first read."""
        journal = self.journal
        rows = self.hub.broker.state.journal.source_rows.pop(self.number, None)
        if rows is not None and self.history is not None:
            self.released = min(rows.last, rows.indexed - 1)
            self.next = max(self.next, rows.last + 1 - journal.max_events)
        while kept := self.store.read(self.number, self.next, PORTION):
            for position, message, stamp in kept:
                if not len(journal):
                    # The oldest ones have gone; the ring begins here.
                    journal.first, journal.head = position, position - 1
                while journal.head + 1 < position:
                    journal.append(b"")
                journal.append(None, Event(message, False, stamp or 0, message.size))
                if len(message.body) > HEAVY:
                    self.mark_heavy(journal.head)
                self.next = position + 1
            self.drop_rows()

    def drop_rows(self) -> None:
        """Remove from the store the events that the ring has evicted, and that the journal has
        elsewhere."""
        end = self.journal.first
        if self.history is not None:
            end = min(end, self.released + 1)
        if end - self.rows > PORTION:
            self.store.remove_ranges(self.number, [(self.rows, end - 1)])
        else:
            for position in range(self.rows, end):
                self.store.remove(self.number, position)
        self.rows = max(self.rows, end)

    def release_rows(self, offset: int) -> None:
        """The journal needs the rows up to here no more. Within a turn."""
        self.released = max(self.released, offset)
        self.drop_rows()

    # --- the subscription -----------------------------------------------------------------------

    def open(self, user: str, returning: bool) -> None:
        self.user = self.user or user
        super().open(self.user, returning)

    def consume_exchange(self, channel: LocalChannel, key: str) -> None:
        """Make the missing ones of the queue, its binding and its only consumer."""
        queue, exchange = channel.bind_private_queue(self.name.name, key, durable=self.queue)
        tag = channel.subscribe(queue, exclusive=True, permitted=True)
        self.exchange = exchange
        self.save()
        channel.start(tag)

    def pause(self) -> None:
        """It goes on recording."""

    def join(self, reader: Stream) -> None:
        idle = not self.readers
        super().join(reader)
        if idle:
            self.save()

    def leave(self, reader: Stream, now: float) -> None:
        super().leave(reader, now)
        if not self.readers:
            self.used = self.hub.broker.state.now
            self.save()

    def idle_seconds(self) -> float:
        return max(0.0, (self.hub.broker.state.now - self.used) / 1000)

    def destroy(self) -> None:
        """Forget all of it. Within a turn."""
        self.detach()
        remove_private_queue(self.hub.broker, self.vhost, self.queue)
        self.give_up()

    def give_up(self) -> None:
        """It is read no more. The rows that the journal needs stay until it needs them no more.
        Within a turn."""
        last = self.next - 1
        released = last if self.history is None else self.released
        self.hub.broker.state.journal.end(self.number, self.record_key, last, released)

    # --- subscriber -----------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        store, broker = self.store, self.hub.broker
        event = Event(message, False, broker.state.now, message.size)
        # The field for the expiry has the time of arrival.
        try:
            store.append(self.number, self.next, message, event.stamp, True)
        except Unstorable as reason:
            log.error("%r is left out of the journal of %s: %s", message, self.name, reason)
            if self.channel is not None:
                self.channel.settle(delivery, Outcome.ACCEPT)
            return
        broker.state.journal.enter(self.number, self.next)
        self.next += 1
        self.waiting.append(Waiting(store.mark, event))
        if self.channel is not None:
            self.channel.settle(delivery, Outcome.ACCEPT)
        if self.asked != store.mark:
            self.asked = mark = store.mark
            broker.when_safe(lambda: self.safe(mark))

    def safe(self, mark: int) -> None:
        """Batches up to ``mark`` are on disk: their events may be shown."""
        waiting, journal = self.waiting, self.journal
        appended = False
        while waiting and waiting[0].mark <= mark:
            event = waiting.popleft().event
            octets = len(event.message.body)
            frame = self.rendered(journal.head + 1, event) if octets <= AT_ONCE else None
            position = journal.append(frame, event)
            if octets > HEAVY:
                self.mark_heavy(position)
            self.hub.appended(self)
            appended = True
        if appended:
            self.drop_rows()
