"""What links need of a channel (1.0 parts 2 to 4): outcomes beside accept, release and reject,
transactions by id, and deliveries that outlive their channel.
"""

import secrets
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from gateway.broker.consumers import Consumer
from gateway.broker.deliveries import Entry
from gateway.broker.exclusions import Exclusions
from gateway.broker.queues import Queue
from gateway.broker.settling import FAILED, Settling, count_failure, note, unknown_tag
from gateway.broker.undertakings import PORTION
from gateway.errors import Condition, Refusal
from gateway.message import Message
from gateway.operations import Modify, Outcome

if TYPE_CHECKING:
    from gateway.broker.client import Client

LEAST_SHEAVES = 1000
"""Settled deliveries that sheaves may hold numbers of before they are made anew."""

MOST_TRANSACTIONS = 255
"""Open at a time on one channel."""

Verdict = Outcome | Modify
Holding = list[tuple[int, Entry]]
"""Deliveries by number, ascending."""


class Work:
    """A transaction by id: messages posted, and deliveries retired (number, entry, verdict, and
    whether the peer has forgotten the delivery)."""

    __slots__ = ("posts", "retired", "octets")

    def __init__(self) -> None:
        self.posts: list[Message] = []
        self.retired: list[tuple[int, Entry, Verdict, bool]] = []
        self.octets = 0


class Sheaves:
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
        if self.count > 2 * len(unsettled) + LEAST_SHEAVES:
            self.clear()
        fresh = list(takewhile(lambda number: number > self.last, reversed(unsettled)))
        for number in reversed(fresh):
            holder = unsettled[number].consumer
            if holder is not None:
                self.numbers.setdefault(holder, []).append(number)
            self.last = number
        self.count += len(fresh)
        found = self.numbers.pop(consumer, [])
        self.count -= len(found)
        return found


class Linked(Settling):
    """The part of a channel that only versions with links use. ``works``: open transactions."""

    __slots__ = ("works", "sheaves")

    def __init__(self, client: "Client") -> None:
        super().__init__(client)
        self.works: dict[bytes, Work] = {}
        self.sheaves = Sheaves()

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
        """The same in portions, for ``Undertakings``. Where a queue may refuse, all is done at
        once: it could be full before the next."""
        work = self.work(transaction)
        del self.works[transaction]
        self.broker.octets -= work.octets
        if fail:
            self.undo(work)
            return
        obstacle = self.obstacle(work.posts)
        if obstacle:
            self.undo(work)
            raise Refusal(Condition.PRECONDITION_FAILED, obstacle)
        ways = [
            (message, self.vhost.route(self.vhost.exchanges[message.exchange], message))
            for message in work.posts
        ]
        refusing = any(queue.refuses_when_full for _, queues in ways for queue in queues)
        for count, (message, queues) in enumerate(ways, 1):
            for queue in queues:
                queue.put(message, self.client)
            if count % PORTION == 0 and not refusing:
                yield
        decided: list[tuple[Entry, Outcome]] = []
        for _, entry, verdict, _ in work.retired:
            if isinstance(verdict, Modify):
                self.note_failure(entry, verdict)
                verdict = Outcome.DECLINE if verdict.elsewhere else Outcome.RELEASE
            decided.append((entry, verdict))
        for first in range(0, len(decided), PORTION):
            self.conclude(decided[first : first + PORTION], whole=True)
            if not refusing:
                yield

    def obstacle(self, posts: list[Message]) -> str:
        """Why these cannot all be published, or nothing."""
        count: dict[Queue, int] = {}
        octets: dict[Queue, int] = {}
        for message in posts:
            exchange = self.vhost.exchanges.get(message.exchange)
            if exchange is None:
                return f"no {self.vhost.title('exchange', message.exchange)}"
            for queue in self.vhost.route(exchange, message):
                if queue.refuses_when_full:
                    count[queue] = count.get(queue, 0) + 1
                    octets[queue] = octets.get(queue, 0) + len(message.body)
        for queue, more in count.items():
            if queue.overflows(octets[queue], more):
                return f"{self.vhost.title('queue', queue.name)} is full"
        return ""

    def undo(self, work: Work) -> None:
        """Rolled back: what the peer still knows of is unsettled again, the rest goes back; so does
        what was on a link that is over."""
        live: list[tuple[int, Entry]] = []
        back: list[tuple[Entry, Outcome]] = []
        for number, entry, _, settled in work.retired:
            consumer = entry.consumer
            if settled or consumer is None or self.consumers.get(consumer.tag) is not consumer:
                back.append((entry, Outcome.RELEASE))
            else:
                live.append((number, entry))
        self.restore(live)
        self.conclude(back)

    def restore(self, found: Iterable[tuple[int, Entry]]) -> None:
        super().restore(found)
        self.sheaves.clear()

    def abandon(self) -> None:
        """The channel is over, and with it its transactions."""
        for work in self.works.values():
            self.broker.octets -= work.octets
            self.conclude([(entry, Outcome.RELEASE) for _, entry, _, _ in work.retired])
        self.works.clear()

    # --- deliveries that outlive their channel --------------------------------------------------

    def park(self, tag: str) -> Holding:
        """Stop a consumer and take what it holds out of the channel: still unsettled, and nobody's.
        Its queue stays, though it might have ended with its last consumer."""
        consumer = self.consumers.pop(tag, None)
        if consumer is None:
            return []
        unsettled = self.unsettled
        numbers = self.sheaves.take(consumer, unsettled)
        found = [(n, unsettled[n]) for n in numbers if n in unsettled]
        for number, entry in found:
            del self.unsettled[number]
            consumer.release(entry)
        consumer.queue.remove_consumer(consumer, spare=True)
        return found

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


def give_up(entries: Iterable[Entry], verdict: Verdict) -> None:
    """Parked deliveries, which are nobody's any more, have this outcome."""
    back: dict[Queue, list[Entry]] = {}
    for entry in entries:
        queue = entry.lane.queue
        if queue.gone:
            continue
        outcome, reason = verdict, "rejected"
        if isinstance(verdict, Modify):
            Linked.note_failure(entry, verdict)
            elsewhere = verdict.elsewhere and queue.vhost.buries(queue, entry.message)
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
    for queue, found in back.items():
        queue.put_back(found)


__all__ = ["FAILED", "Holding", "Linked", "Verdict", "give_up"]
