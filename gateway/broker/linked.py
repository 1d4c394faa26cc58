"""What links need of a channel (1.0 parts 2 to 4): outcomes beside accept, release and reject,
transactions by id, and deliveries that outlive their channel.
"""

import secrets
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice, repeat, takewhile
from typing import TYPE_CHECKING, Any

from gateway.broker.consumers import Consumer
from gateway.broker.deliveries import Entry
from gateway.broker.exclusions import Exclusions
from gateway.broker.queues import Queue
from gateway.broker.returning import Returned
from gateway.broker.settling import FAILED, Settling, count_failure, note, unknown_tag
from gateway.broker.undertakings import PORTION, forgetting
from gateway.errors import Condition, Refusal
from gateway.message import Message
from gateway.operations import Modify, Outcome

if TYPE_CHECKING:
    from gateway.broker.client import Client

MOST_STALE = 1000
"""Numbers of settled deliveries that an index may hold before it is rebuilt."""

MOST_TRANSACTIONS = 255
"""Open at a time on one channel."""

Verdict = Outcome | Modify
Holding = dict[int, Entry]
"""Deliveries by number, ascending."""


class Work:
    """A transaction by id: messages posted, and deliveries retired (number, entry, verdict, and
    whether the peer has forgotten the delivery)."""

    __slots__ = ("posts", "retired", "octets")

    def __init__(self) -> None:
        self.posts: list[Message] = []
        self.retired: list[tuple[int, Entry, Verdict, bool]] = []
        self.octets = 0


class UnsettledIndex:
    """Numbers of unsettled deliveries by consumer, gathered when a consumer is parked, so that a
    thousand of them do not look at everything a thousand times. Nobody else pays for it."""

    __slots__ = ("numbers", "last", "count")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.numbers: dict[Consumer, list[int]] = {}
        self.last = 0
        """Deliveries up to this one have been looked at."""
        self.count = 0

    def take(self, consumer: Consumer, unsettled: dict[int, Entry]) -> list[int]:
        """What may be of this consumer, ascending. ``unsettled`` is in the order of numbers."""
        if self.count > 2 * len(unsettled) + MOST_STALE:
            self.clear()
        fresh = list(takewhile(lambda number: number > self.last, reversed(unsettled)))
        for number in reversed(fresh):
            holder = unsettled[number].consumer
            if holder is not None:
                self.numbers.setdefault(holder, []).append(number)
            self.last = number
        self.count += len(fresh)
        return self.drop(consumer)

    def drop(self, consumer: Consumer) -> list[int]:
        """What was gathered of this consumer."""
        found = self.numbers.pop(consumer, [])
        self.count -= len(found)
        return found


class Linked(Settling):
    """The part of a channel that only versions with links use. ``works``: open transactions."""

    __slots__ = ("works", "unsettled_index")

    def __init__(self, client: "Client") -> None:
        super().__init__(client)
        self.works: dict[bytes, Work] = {}
        self.unsettled_index = UnsettledIndex()

    # --- outcomes -------------------------------------------------------------------------------

    def modify(self, op: Modify) -> None:
        """The outcome of §3.4.5. Refuses an unknown delivery with 406."""
        entry = self.unsettled.get(op.delivery)
        if entry is None:
            raise unknown_tag(op.delivery)
        if op.elsewhere:
            self.check_exclusions(entry)
        self.note_failure(entry, op)
        del self.unsettled[op.delivery]
        self.conclude([(entry, Outcome.DECLINE if op.elsewhere else Outcome.RELEASE)])

    def settling_many(self, deliveries: list[int], verdict: Verdict) -> Iterator[None] | None:
        """These have this outcome: now (``None``), or if they are many in portions for
        ``Undertakings``. They are taken now, and an unknown tag is refused (406) now."""
        entries = self.take(deliveries)
        settled = self.outcomes(entries, verdict)
        if len(entries) > PORTION or self.busy:
            return self.concluding(settled)
        self.conclude(settled)
        return None

    def take(self, deliveries: list[int]) -> list[Entry]:
        """Take these out of the channel. Refuses (406) an unknown tag before it takes any."""
        unsettled = self.unsettled
        if not all(map(unsettled.__contains__, deliveries)):
            raise unknown_tag(next(each for each in deliveries if each not in unsettled))
        return list(map(unsettled.pop, deliveries))

    def outcomes(self, entries: list[Entry], verdict: Verdict) -> Iterator[tuple[Entry, Outcome]]:
        """Deliveries of one outcome, as they come to be settled."""
        for entry in entries:
            if isinstance(verdict, Modify):
                self.note_failure(entry, verdict)
                yield entry, Outcome.RELEASE
            else:
                yield entry, verdict

    @staticmethod
    def note_failure(entry: Entry, op: Modify) -> None:
        """Write onto the message what its next reader shall know."""
        if op.annotations:
            note(entry, op.annotations)
        if op.failed:
            count_failure(entry)

    # --- transactions ---------------------------------------------------------------------------

    def declare_transaction(self) -> bytes:
        """A new transaction's id."""
        if len(self.works) >= MOST_TRANSACTIONS:
            raise Refusal(
                Condition.RESOURCE_ERROR, f"more than {MOST_TRANSACTIONS} transactions are open"
            )
        number = secrets.token_bytes(8)
        self.works[number] = Work()
        return number

    def work(self, transaction: bytes) -> Work:
        found = self.works.get(transaction)
        if found is None:
            raise Refusal(Condition.NOT_FOUND, f"no transaction {transaction.hex()}")
        return found

    def promise(self, transaction: bytes, message: Message) -> bool:
        """Publish when the transaction is discharged; whether it would be routed now. Refuses
        as a publish does."""
        work = self.work(transaction)
        exchange = self.checked(message)
        work.posts.append(message)
        size = message.weight
        work.octets += size
        self.broker.octets += size
        return bool(self.routed(exchange, message))

    def retire(self, transaction: bytes, delivery: int, verdict: Verdict, settled: bool) -> None:
        """Settle when the transaction is discharged. Until then nobody else can."""
        work = self.work(transaction)
        entry = self.unsettled.get(delivery)
        if entry is None:
            raise unknown_tag(delivery)
        if isinstance(verdict, Modify) and verdict.elsewhere:
            self.check_exclusions(entry)
        del self.unsettled[delivery]
        work.retired.append((delivery, entry, verdict, settled))

    def retire_many(
        self, transaction: bytes, deliveries: list[int], verdict: Verdict, settled: bool
    ) -> None:
        """Likewise, deliveries of one outcome."""
        work = self.work(transaction)
        entries = self.take(deliveries)
        work.retired += zip(deliveries, entries, repeat(verdict), repeat(settled))

    def discharge(self, transaction: bytes, fail: bool) -> None:
        """All of it in one batch of the store, or none of it. Refuses (406), rolled back, when a
        queue is too full to take a message or an exchange has gone."""
        for _ in self.discharging(transaction, fail):
            pass

    def much_to_discharge(self, transaction: bytes) -> bool:
        """Whether discharging is more than a portion."""
        work = self.works.get(transaction)
        return work is not None and len(work.posts) + len(work.retired) > PORTION

    def discharging(self, transaction: bytes, fail: bool) -> Iterator[None]:
        """The same in portions, for ``Undertakings``. A queue that may refuse keeps room for what
        is to come, as it could be full otherwise before the next portion."""
        work = self.work(transaction)
        del self.works[transaction]
        self.broker.octets -= work.octets
        if fail:
            yield from self.undoing(work)
            return
        ways: list[tuple[Queue, ...]] = []
        rooms: deque[tuple[Queue, int]] = deque()
        try:
            for count, message in enumerate(work.posts, 1):
                obstacle = self.find_way(message, ways, rooms)
                if obstacle:
                    yield from self.undoing(work)
                    raise Refusal(Condition.PRECONDITION_FAILED, obstacle)
                if count % PORTION == 0:
                    yield
            for count, (message, queues) in enumerate(zip(work.posts, ways, strict=True), 1):
                for queue in queues:
                    if queue.refuses_when_full:
                        _, size = rooms.popleft()
                        queue.reserve(-size, -1)
                    if not queue.gone:
                        queue.put(message, self.client)
                if count % PORTION == 0:
                    yield
        finally:
            for queue, size in rooms:
                queue.reserve(-size, -1)
        settled = self.decided(work)
        if len(work.retired) > PORTION:
            yield from self.concluding(settled, whole=True)
        else:
            self.conclude(settled, whole=True)

    def find_way(
        self, message: Message, ways: list[tuple[Queue, ...]], rooms: deque[tuple[Queue, int]]
    ) -> str:
        """Where a message of a transaction is to go, and room for it there; or why it cannot."""
        exchange = self.vhost.exchanges.get(message.exchange)
        if exchange is None:
            return f"no {self.vhost.title('exchange', message.exchange)}"
        queues = self.vhost.route(exchange, message)
        size = len(message.body)
        for queue in queues:
            if queue.refuses_when_full:
                if queue.overflows(size):
                    return f"{self.vhost.title('queue', queue.name)} is full"
                queue.reserve(size)
                rooms.append((queue, size))
        ways.append(queues)
        return ""

    def decided(self, work: Work) -> Iterator[tuple[Entry, Outcome]]:
        """Deliveries retired, as they come to be settled."""
        for _, entry, verdict, _ in work.retired:
            if isinstance(verdict, Modify):
                self.note_failure(entry, verdict)
                verdict = Outcome.DECLINE if verdict.elsewhere else Outcome.RELEASE
            yield entry, verdict

    def undoing(self, work: Work) -> Iterator[None]:
        """Rolled back: what the peer still knows of is unsettled again, the rest goes back; so does
        what was on a link that is over."""
        tags: list[int] = []
        live: list[Entry] = []
        back: list[Entry] = []
        for number, entry, _, settled in work.retired:
            consumer = entry.consumer
            if settled or consumer is None or self.consumers.get(consumer.tag) is not consumer:
                back.append(entry)
            else:
                tags.append(number)
                live.append(entry)
        self.restore(tags, live)
        released = ((entry, Outcome.RELEASE) for entry in back)
        if len(back) > PORTION:
            yield from self.concluding(released)
        else:
            self.conclude(released)
        yield from forgetting(work.retired)
        yield from forgetting(work.posts)

    def restore(self, tags: list[int], entries: list[Entry]) -> None:
        super().restore(tags, entries)
        self.unsettled_index.clear()

    def abandon(self) -> tuple[list[list[Any]], list[Entry]]:
        """The channel is over, and with it its transactions: what was to be published, and the
        deliveries that go back."""
        posts: list[list[Any]] = [work.posts for work in self.works.values()]
        entries = [entry for work in self.works.values() for _, entry, _, _ in work.retired]
        self.broker.octets -= sum(work.octets for work in self.works.values())
        self.works.clear()
        return posts, entries

    # --- deliveries that outlive their channel --------------------------------------------------

    def park(self, tag: str) -> Holding:
        """Stop a consumer and take what it holds out of the channel: still unsettled, and for the
        caller to give up or to keep, ``parted`` from the consumer. Its queue stays, though it might
        have ended with its last consumer. Of much, this is all that is done at once."""
        consumer = self.consumers.pop(tag, None)
        if consumer is None:
            return {}
        unsettled = self.unsettled
        if consumer.held > PORTION:
            self.unsettled_index.drop(consumer)
            found = {n: entry for n, entry in unsettled.items() if entry.consumer is consumer}
        else:
            numbers = self.unsettled_index.take(consumer, unsettled)
            found = {n: unsettled[n] for n in numbers if n in unsettled}
        if len(found) == len(unsettled):
            unsettled.clear()
        for number in found if unsettled else ():
            del unsettled[number]
        consumer.queue.remove_consumer(consumer, spare=True)
        return found

    def release(self, entries: list[Entry]) -> None:
        """Parked deliveries go back to their queues. Of many, a portion in each turn; no consumer
        of this channel is served until all are there."""
        if len(entries) <= PORTION:
            give_up(entries, Outcome.RELEASE)
            return

        def released(refusal: Refusal | None) -> None:
            self.busy -= 1
            self.reopen()

        self.busy += 1
        self.reopen()
        steps = giving_up(entries, Outcome.RELEASE)
        self.broker.undertakings.begin(steps, released, whole=False)

    def exclusions(self, tag: str) -> Exclusions | None:
        """What a consumer must not get: to be asked before it is parked, and given to the consumer
        that takes its place."""
        consumer = self.consumers.get(tag)
        cursor = None if consumer is None else consumer.cursor
        return None if cursor is None else cursor.exclusions

    def adopt(self, tag: str, entries: list[Entry]) -> list[int]:
        """Parked deliveries belong to this consumer now; their new numbers."""
        consumer = self.consumers[tag]
        numbers: list[int] = []
        for entry in entries:
            self.last += 1
            numbers.append(self.last)
            self.unsettled[self.last] = entry
            consumer.hold(entry)
        return numbers


def parted(entry: Entry) -> Entry:
    """A parked delivery is not its consumer's any more."""
    if entry.consumer is not None:
        entry.consumer.release(entry)
    return entry


def give_up(entries: Iterable[Entry], verdict: Verdict) -> None:
    """Parked deliveries have this outcome."""
    for _ in giving_up(entries, verdict):
        pass


def giving_up(entries: Iterable[Entry], verdict: Verdict) -> Iterator[None]:
    """The same in portions, for ``Undertakings``. Until the end what goes back to its queue is
    unsettled; then all of it stands in its place at once."""
    left = iter(entries)
    returns: dict[Queue, Returned] = {}
    while portion := list(islice(left, PORTION)):
        back: dict[Queue, list[Entry]] = {}
        _give_up(portion, verdict, back)
        for queue, found in back.items():
            returns.setdefault(queue, Returned()).add(found)
        yield
    for queue, returned in returns.items():
        yield from queue.taking_back(returned)
        yield


def _give_up(entries: list[Entry], verdict: Verdict, back: dict[Queue, list[Entry]]) -> None:
    for entry in entries:
        parted(entry)
        queue = entry.lane.queue
        if queue.gone:
            queue.unsettled -= 1
            queue.finish(entry)
            continue
        outcome, reason = verdict, "rejected"
        if isinstance(verdict, Modify):
            Linked.note_failure(entry, verdict)
            elsewhere = verdict.elsewhere and queue.vhost.would_dead_letter(queue, entry.message)
            outcome = Outcome.REJECT if elsewhere else Outcome.RELEASE
        elif verdict is Outcome.REJECT:
            count_failure(entry)
        if outcome is Outcome.RELEASE:
            most = queue.most_deliveries
            if most is None or entry.deliveries <= most:
                back.setdefault(queue, []).append(entry)
                continue
            outcome, reason = Outcome.REJECT, "delivery_limit"
        queue.unsettled -= 1
        if outcome is Outcome.REJECT:
            queue.reject(entry, reason)
        else:
            queue.finish(entry)


__all__ = ["FAILED", "Holding", "Linked", "Verdict", "give_up", "giving_up", "parted"]
