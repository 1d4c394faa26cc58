"""Settlement of deliveries: accepted, given back, rejected, modified, or delivered again."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from gateway.broker.consumers import ConsumedQueue, Consumer, Window, unknown_tag
from gateway.broker.exclusions import ExcludingQueue, Exclusions
from gateway.broker.handover import DELETED
from gateway.broker.lanes import DeliverySource, Entry, Holder
from gateway.broker.long_operations import PORTION
from gateway.broker.returning import Returned, handed
from gateway.broker.runs import finish_run
from gateway.broker.transactions import Transaction
from gateway.broker.vhost import VirtualHost
from gateway.errors import Unstorable
from gateway.message import Message, Table
from gateway.operations import Modify, Outcome

FAILED = "x-delivery-count"
"""Added header with the number of deliveries that failed; RabbitMQ's name for it."""

Verdict = Outcome | Modify
Back = dict[DeliverySource, list[Entry]]
"""Released deliveries by queue."""
T = TypeVar("T")


class ChannelSettlements:
    """Settles the deliveries in the window of one channel. While there is a ``transaction``,
    settlements wait in it."""

    __slots__ = ("window", "vhost", "unsettled", "transaction", "excluded", "counts_rejected")

    def __init__(self, window: Window, vhost: VirtualHost) -> None:
        self.window = window
        self.vhost = vhost
        self.unsettled = window.unsettled
        """The window's own table: one look-up less for each delivery that is settled."""
        self.transaction: Transaction | None = None
        self.counts_rejected = False
        """A rejected delivery counts as one that failed (1.0 §3.4.3)."""
        self.excluded: dict[ExcludingQueue, Exclusions] | None = None
        """Deliveries that this channel has declined, by queue: none of its consumers, present or to
        come, and no fetch gets them again (0-9a0 §4.7.10). ``None`` before it has."""

    def settle(self, delivery: int, multiple: bool, outcome: Outcome) -> None:
        """Hot for one accepted delivery. Refuses an unknown tag with 406."""
        if multiple:
            self.settle_all(*self.window.take_up_to(delivery), outcome)
            return
        entry = self.unsettled.pop(delivery, None)
        if entry is None:
            raise unknown_tag(delivery)
        if outcome is Outcome.ACCEPT and self.transaction is None:
            queue = entry.lane.queue
            queue.unsettled -= 1
            queue.finish(entry)
            consumer = entry.consumer
            if consumer is not None:
                consumer.release(entry)
                window = self.window
                if window.limit or window.size:
                    window.wake()
                elif not consumer.waiting:
                    consumer.wake()
            return
        if outcome is Outcome.REFUSE:
            self.exclude([delivery], [entry])
            outcome = Outcome.DECLINE
        if self.transaction is not None:
            self.transaction.settle(delivery, entry, outcome)
            return
        self.conclude([(entry, outcome)])

    @property
    def much_to_settle(self) -> bool:
        """Whether to settle everything unsettled is more than a portion, or earlier settlements
        are still under way."""
        return len(self.unsettled) > PORTION or self.window.busy > 0

    def settle_all(self, tags: list[int], entries: list[Entry], outcome: Outcome) -> None:
        """These have been taken out of the channel."""
        if outcome is Outcome.REFUSE:
            self.exclude(tags, entries)
            outcome = Outcome.DECLINE
        if self.transaction is None:
            if outcome is Outcome.ACCEPT:
                self.accept(entries)
            else:
                self.conclude((entry, outcome) for entry in entries)
            return
        for tag, entry in zip(tags, entries, strict=True):
            self.transaction.settle(tag, entry, outcome)

    def settling(self, delivery: int, outcome: Outcome) -> Iterator[None] | None:
        """Settle all up to a tag, 0 for all there are: now (``None``), or if it is much a long
        operation. They are taken now, and an unknown tag is refused (406) now."""
        tags, entries = self.window.take_up_to(delivery)
        if len(entries) <= PORTION and not self.window.busy:
            self.settle_all(tags, entries, outcome)
            return None
        if outcome is Outcome.REFUSE:
            self.exclude(tags, entries)
            outcome = Outcome.DECLINE
        if self.transaction is not None:
            return self.retiring(self.transaction, tags, entries, outcome)
        return self.concluding(handed(entries, outcome))

    def retiring(
        self, transaction: Transaction, tags: list[int], entries: list[Entry], outcome: Outcome
    ) -> Iterator[None]:
        """Settle many in a transaction, as a long operation. What is left when the channel ends
        meanwhile, and the transaction with it, is released."""
        for first in range(0, len(tags), PORTION):
            if self.window.closed:
                yield from self.concluding(handed(entries[first:], Outcome.RELEASE))
                return
            last = first + PORTION
            for tag, entry in zip(tags[first:last], entries[first:last], strict=True):
                transaction.settle(tag, entry, outcome)
            yield

    def conclude(self, settled: Iterable[tuple[Entry, Outcome]], atomic: bool = False) -> None:
        """Apply these outcomes. Credit is taken back first and used last, so that released messages
        stand in their places before any consumer is served. ``atomic``: all of it now, in one batch
        of the store, however many dead letters that makes."""
        woken: dict[Holder, None] = {}
        back: Back = {}
        self.part_with(settled, woken, back, atomic)
        for queue, found in back.items():
            queue.put_back(found)
        self.wake(woken)

    def concluding(
        self, settled: Iterable[tuple[Entry, Outcome]], atomic: bool = False
    ) -> Iterator[None]:
        """The same as a long operation. Until the end no consumer of this channel is served, and
        released messages count as unsettled; then all those of a queue are ready at once."""
        self.window.busy += 1
        self.window.reopen()
        try:
            yield from in_portions(
                settled, lambda portion, back: self.part_with(portion, {}, back, atomic)
            )
        finally:
            self.window.busy -= 1
            self.window.reopen()

    def part_with(
        self,
        settled: Iterable[tuple[Entry, Outcome]],
        woken: dict[Holder, None],
        back: Back,
        atomic: bool,
    ) -> None:
        """Deliveries leave the channel. Adds their consumers to ``woken``, and released messages to
        ``back``."""
        for entry, outcome in settled:
            queue = entry.lane.queue
            consumer = entry.consumer
            if consumer is not None:
                consumer.release(entry)
                woken[consumer] = None
            if outcome is Outcome.ACCEPT:
                queue.unsettled -= 1
                queue.finish(entry)
                continue
            if outcome is Outcome.DECLINE:
                outcome = self.declined(entry, consumer)
            elif outcome is Outcome.UNDO:
                entry.deliveries -= 1
                outcome = Outcome.RELEASE
            elif (
                outcome is Outcome.REJECT
                and self.counts_rejected
                and queue.has_dead_letter_exchange
            ):
                count_failure(entry)
            return_or_end(entry, outcome, back, atomic)

    def exclude(self, tags: list[int], entries: list[Entry]) -> None:
        """These deliveries are being declined by the channel as a whole. Refuses (506) too many;
        they are unsettled then."""
        for entry in entries:
            if entry.consumer is not None and entry.consumer.copies:
                continue
            exclusions = self.exclusions_from(entry.lane.queue)
            if exclusions.full:
                self.window.restore(tags, entries)
                exclusions.check()

    def exclusions_from(self, queue: ExcludingQueue) -> Exclusions:
        """The messages of a queue that this channel as a whole does not get."""
        if self.excluded is None:
            self.excluded = {}
        exclusions = self.excluded.get(queue)
        if exclusions is None:
            exclusions = self.excluded[queue] = Exclusions(queue.excluded)
            exclusions.shared = True
            for consumer in self.window.consumers.values():
                if consumer.queue is queue and not consumer.copies:
                    consumer.share_exclusions(exclusions)
        return exclusions

    def unsent(self, consumer: str, delivery: int, message: Message, queue: str = "") -> None:
        """A delivery that could not be written for its reader: others may be able to read it. So
        it is declined, also where it was accepted beforehand; then it stands at the end of its
        queue again. One that was fetched (accepted beforehand from ``queue``) is declined by the
        channel, or each fetch would find it."""
        entry = self.unsettled.get(delivery)
        reader = self.window.consumers.get(consumer)
        if entry is not None:
            if entry.consumer is None and not entry.lane.queue.would_dead_letter(message):
                self.exclude([delivery], [entry])
            self.check_exclusions(entry)
            del self.unsettled[delivery]
            self.conclude([(entry, Outcome.DECLINE)])
        elif reader is not None:
            if not reader.copies:
                self.put_again(reader.queue, reader, message)
        elif queue in self.vhost.queues:
            self.put_again(self.vhost.queues[queue], None, message)

    def declined(self, entry: Entry, consumer: Holder | None) -> Outcome:
        """The outcome of declining a message, which the consumer, or the whole channel, does not
        get again."""
        queue = entry.lane.queue
        whole = None if self.excluded is None else self.excluded.get(queue)
        if queue.gone or (consumer is not None and consumer.copies and whole is None):
            return Outcome.RELEASE
        if queue.would_dead_letter(entry.message):
            return Outcome.REJECT
        if whole is not None:
            whole.add(entry.lane, entry.position)
        elif consumer is not None and consumer.started:
            consumer.exclude(entry)
        return Outcome.RELEASE

    def put_again(self, queue: ConsumedQueue, consumer: Consumer | None, message: Message) -> None:
        """A message that was settled as it was given to a consumer, or fetched, which cannot have
        it."""
        if queue.would_dead_letter(message):
            queue.dead_letter(message, "rejected")
            return
        exclusions = self.exclusions_from(queue) if consumer is None else consumer.exclusions()
        if exclusions.full:
            if consumer is not None:
                consumer.stop()
            queue.put(message)
            exclusions.check()
        queue.put_excluded(message, exclusions)
        if consumer is None:
            self.window.wake()
        else:
            consumer.wake()

    def check_exclusions(self, entry: Entry) -> None:
        """Refuses (506) a delivery to be declined if its link declines too many."""
        if entry.consumer is not None:
            entry.consumer.check_exclusions()

    def recover(self, requeue: bool) -> None:
        """Everything unsettled is delivered again: from its queue, or to the same consumers."""
        if requeue:
            self.conclude((entry, Outcome.RELEASE) for entry in self.window.take_up_to(0)[1])
            return
        for _ in self.recovering(requeue):
            pass

    def recovering(self, requeue: bool) -> Iterator[None]:
        """The same as a long operation. It covers the deliveries that are unsettled
        now, and nothing else is delivered meanwhile."""
        return self._recovering(self.window.take_up_to(0)[1], requeue)

    def _recovering(self, entries: list[Entry], requeue: bool) -> Iterator[None]:
        self.window.busy += 1
        self.window.reopen()
        try:
            lost = [e for e in entries if requeue or e.consumer is None or not e.consumer.started]
            if not requeue:
                for first in range(0, len(entries), PORTION):
                    for entry in entries[first : first + PORTION]:
                        consumer = entry.consumer
                        if consumer is None or not consumer.started:
                            continue
                        entry.lane.queue.redelivered += 1
                        entry.deliveries += 1
                        tag = self.window.hold(entry)
                        consumer.deliver(consumer.tag, tag, True, entry.message)
                    yield
            yield from self.concluding(handed(lost, Outcome.RELEASE))
        finally:
            self.window.busy -= 1
            self.window.reopen()

    def modify(self, op: Modify) -> None:
        """The outcome of §3.4.5. Refuses an unknown delivery with 406."""
        entry = self.window.unsettled_entry(op.delivery)
        if op.elsewhere:
            self.check_exclusions(entry)
        add_modification(entry, op)
        del self.unsettled[op.delivery]
        self.conclude([(entry, Outcome.DECLINE if op.elsewhere else Outcome.RELEASE)])

    def settling_many(
        self, deliveries: list[int], verdict: Verdict, reason: Table | None = None
    ) -> Iterator[None] | None:
        """These have this outcome: now (``None``), or if they are many a long
        operation. They are taken now, and an unknown tag is refused (406) now. ``reason``: headers
        for the dead letters of rejected messages. In a transaction acceptances wait for its end."""
        entries = self.window.take(deliveries)
        if self.transaction is not None and verdict is Outcome.ACCEPT:
            steps = self.retiring(self.transaction, deliveries, entries, verdict)
            if len(entries) > PORTION:
                return steps
            for _ in steps:
                pass
            return None
        if len(entries) > PORTION or self.window.busy:
            return self.concluding(self.outcomes(entries, verdict, reason))
        if verdict is Outcome.ACCEPT:
            self.accept(entries)
        else:
            self.conclude(self.outcomes(entries, verdict, reason))
        return None

    def accept(self, entries: list[Entry]) -> None:
        """``conclude`` for deliveries that are all accepted. Hot."""
        woken: dict[Holder, None] = {}
        at = 0
        while at < len(entries):
            entry = entries[at]
            consumer = entry.consumer
            if consumer is not None:
                woken[consumer] = None
            count = finish_run(entries, at)
            if not count:
                if consumer is not None:
                    consumer.release(entry)
                queue = entry.lane.queue
                queue.unsettled -= 1
                queue.finish(entry)
            at += count or 1
        self.wake(woken)

    def wake(self, consumers: Iterable[Holder]) -> None:
        """Deliveries to these consumers are settled: they may get more."""
        window = self.window
        if window.limit or window.size or self.excluded:
            window.wake()
        else:
            for consumer in consumers:
                consumer.wake()

    def outcomes(
        self, entries: list[Entry], verdict: Verdict, reason: Table | None = None
    ) -> Iterator[tuple[Entry, Outcome]]:
        """Deliveries and the outcome that all of them have."""
        for entry in entries:
            if isinstance(verdict, Modify):
                add_modification(entry, verdict)
                yield entry, Outcome.RELEASE
            else:
                if reason and entry.lane.queue.has_dead_letter_exchange:
                    add_headers(entry, reason)
                yield entry, verdict

    def annotate(self, delivery: int, headers: Table) -> None:
        """Add headers to an unsettled message, for its next delivery. Refuses an unknown tag."""
        add_headers(self.window.unsettled_entry(delivery), headers)

    def delivery_count(self, delivery: int) -> int:
        """How often an unsettled delivery was delivered before; 0 if the tag is unknown."""
        entry = self.unsettled.get(delivery)
        return entry.deliveries - 1 if entry is not None else 0


def in_portions(settled: Iterable[T], part_with: Callable[[list[T], Back], None]) -> Iterator[None]:
    """A long operation: ``part_with`` takes a portion of deliveries in each turn, and adds released
    ones to the second argument. At the end all those of a queue are ready at once."""
    left = iter(settled)
    returns: dict[DeliverySource, Returned] = {}
    while portion := list(islice(left, PORTION)):
        back: Back = {}
        part_with(portion, back)
        for queue, found in back.items():
            returns.setdefault(queue, Returned()).add(found)
        del portion, back
        yield
    for queue, returned in returns.items():
        yield from returned.back_to(queue)
        yield


def return_or_end(entry: Entry, outcome: Outcome, back: Back, atomic: bool = False) -> None:
    """A delivery that no consumer holds any more is released (added to ``back``), unless it was
    delivered too often, or ends: rejected or accepted."""
    queue = entry.lane.queue
    reason = "rejected"
    if outcome is Outcome.RELEASE and not queue.gone:
        most = queue.most_deliveries
        if most is None or entry.deliveries <= most:
            back.setdefault(queue, []).append(entry)
            return
        outcome, reason = Outcome.REJECT, "delivery_limit"
    queue.unsettled -= 1
    if outcome is Outcome.REJECT:
        (queue.discard if atomic else queue.reject)(entry, reason)
    elif outcome is Outcome.RELEASE:
        queue.reject(entry, DELETED)
    else:
        queue.finish(entry)


def add_headers(entry: Entry, headers: Table) -> None:
    """Add headers to a message, in memory and in the store."""
    old = entry.message
    added = {**(old.added_headers or {}), **headers}
    new = old.routed_as(old.exchange, old.key, added_headers=added)
    lane = entry.lane
    queue = lane.queue
    try:
        queue.state.store.check(new)
    except Unstorable as reason:
        queue.state.report(f"{old} cannot take further headers: {reason}")
        return
    entry.message = new
    if entry.stored and not queue.gone:
        keep = old.essentials.durable and queue.keeps
        store = queue.state.store
        store.remove(lane.number, entry.position)
        store.append(lane.number, entry.position, entry.message, entry.expires, keep)


def count_failure(entry: Entry) -> None:
    """One more delivery that came to nothing (delivery-count of 1.0 §3.2.1)."""
    known = (entry.message.added_headers or {}).get(FAILED, 0)
    add_headers(entry, {FAILED: int(known) + 1})


def add_modification(entry: Entry, op: Modify) -> None:
    """Write the annotations and the failure of a modified delivery onto its message."""
    if op.annotations:
        add_headers(entry, op.annotations)
    if op.failed:
        count_failure(entry)
