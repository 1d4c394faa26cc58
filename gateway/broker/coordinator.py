"""Transactions of one channel: its own (0-9-1 class tx), and those that a peer declares and
discharges by id (1.0 part 4). Nothing of a transaction is visible before its commit.
"""

import secrets
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any, TypeVar

from gateway.broker.consumers import Window
from gateway.broker.lanes import Entry
from gateway.broker.long_operations import PORTION, freeing
from gateway.broker.names import check_key
from gateway.broker.publish_path import PublishPath
from gateway.broker.queues import REFUSED
from gateway.broker.returning import handed
from gateway.broker.settlements import ChannelSettlements, Verdict, add_modification
from gateway.broker.state import BrokerState
from gateway.broker.transactions import (
    DeclaredTransaction,
    PreparedPublishes,
    Retired,
    Transaction,
)
from gateway.broker.upstream_commits import UpstreamCommits
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition, Refusal
from gateway.message import Message
from gateway.operations import Modify, Outcome

T = TypeVar("T")
Portion = tuple[list[int], list[Entry]]
"""Tags and deliveries."""

MOST_TRANSACTIONS = 255
"""Declared transactions that may be open at a time on one channel."""


class TransactionCoordinator:
    """``own`` is the channel's own transaction, which begins anew with each commit; ``declared``
    are the open ones by id."""

    __slots__ = (
        "publish_path",
        "settlements",
        "window",
        "vhost",
        "state",
        "own",
        "declared",
        "upstream",
    )

    def __init__(self, publish_path: PublishPath, settlements: ChannelSettlements) -> None:
        self.publish_path = publish_path
        self.settlements = settlements
        self.window: Window = settlements.window
        self.vhost: VirtualHost = publish_path.vhost
        self.state: BrokerState = publish_path.state
        self.own: Transaction | None = None
        self.declared: dict[bytes, DeclaredTransaction] = {}
        facade = self.vhost.outbound is not None
        self.upstream = UpstreamCommits(publish_path) if facade else None
        """Of a facade, whose upstream commits."""

    @property
    def held(self) -> int:
        """Publishes and settlements that wait for a commit."""
        held = sum(len(one.posts) + len(one.retired) for one in self.declared.values())
        if self.own is not None:
            held += len(self.own.publishes) + len(self.own.settlements)
        return held

    def abandon(self) -> tuple[list[list[Any]], list[Entry]]:
        """The channel is over, and with it its transactions: the publishes to forget, and the
        deliveries that go back."""
        posts: list[list[Any]] = [one.posts for one in self.declared.values()]
        entries = [entry for one in self.declared.values() for _, entry, _, _ in one.retired]
        self.state.octets -= sum(one.octets for one in self.declared.values())
        self.declared.clear()
        if self.own is not None:
            self.state.octets -= self.own.octets
            posts += [self.own.take_publishes()]
            entries += [entry for _, entry, _ in self.own.take_settlements()]
        return posts, entries

    # --- the channel's own ----------------------------------------------------------------------

    def check_local(self) -> None:
        """Refuse (540) in a facade, whose upstream commits by itself."""
        if self.upstream is not None:
            raise Refusal(Condition.NOT_IMPLEMENTED, "not with messages of an upstream")

    def select(self) -> None:
        """Publishes and settlements wait for ``commit`` from now on."""
        if self.upstream is not None:
            self.upstream.allow()
        if self.own is None:
            own = Transaction()
            self.publish_path.begin_transaction(own)
            self.own = self.settlements.transaction = own

    def commit_upstream(self) -> None:
        """In a facade the upstream commits its part first; ``commit`` does the rest. Raises
        ``AwaitsUpstream``, or the refusal: ``rollback`` has to follow then."""
        if self.upstream is None:
            return
        own = self.needed_transaction()
        publishes, own.publishes = own.publishes, []
        self.upstream.commit(
            ((message, mandatory) for message, mandatory, _ in publishes),
            (entry for _, entry, outcome in own.settlements if outcome is Outcome.ACCEPT),
        )

    def needed_transaction(self) -> Transaction:
        if self.own is None:
            raise Refusal(Condition.PRECONDITION_FAILED, "channel is not transactional")
        return self.own

    def commit(self) -> None:
        """Perform all publishes and settlements, within one batch of the store. Refused (406) when
        a queue was too full to take a message; the rest is done then, as it is in RabbitMQ."""
        for _ in self.committing():
            pass

    def committing(self) -> Iterator[None]:
        """The same as a long operation."""
        transaction = self.needed_transaction()
        worst = 0
        self.state.octets -= transaction.octets
        publishes, settlements = transaction.take_publishes(), transaction.take_settlements()
        for count, (message, mandatory, immediate) in enumerate(publishes, 1):
            exchange = self.vhost.exchanges.get(message.exchange)
            if exchange is not None:
                worst = max(
                    worst, self.publish_path.enqueue(exchange, message, mandatory, immediate)
                )
            if count % PORTION == 0:
                yield
        much = len(settlements) > PORTION
        settlements.reverse()
        # Each is let go of as it is taken: to free all at the end would take long.
        settled = (settlements.pop()[1:] for _ in range(len(settlements)))
        if much:
            yield from self.settlements.concluding(settled, atomic=True)
        else:
            self.settlements.conclude(settled, atomic=True)
        if worst == REFUSED:
            raise Refusal(Condition.PRECONDITION_FAILED, "partial tx completion")

    @property
    def much_to_commit(self) -> bool:
        """Whether committing, or rolling back, is more than a portion."""
        transaction = self.own
        return transaction is not None and (
            len(transaction.publishes) + len(transaction.settlements) > PORTION
        )

    def rollback(self) -> None:
        """Forget the publishes; the deliveries that were settled are unsettled again."""
        for _ in self.rolling_back():
            pass

    def rolling_back(self) -> Iterator[None]:
        """The same as a long operation."""
        transaction = self.needed_transaction()
        self.state.octets -= transaction.octets
        publishes, settlements = transaction.take_publishes(), transaction.take_settlements()
        yield from self.unsettling(settlements, self.reverted)
        yield from freeing(publishes)

    def reverted(self, settled: list[tuple[int, Entry, Outcome]], back: list[Entry]) -> Portion:
        """Those that are unsettled again: none when the channel has been closed meanwhile, and
        ``back`` has them."""
        if self.window.closed:
            back += [entry for _, entry, _ in settled]
            return [], []
        return [tag for tag, _, _ in settled], [entry for _, entry, _ in settled]

    def unsettling(
        self, settled: list[T], live: Callable[[list[T], list[Entry]], Portion]
    ) -> Iterator[None]:
        """Deliveries that were settled in a transaction are unsettled again. ``live`` chooses among
        them and adds the others, which are released, to its second argument. If they are many, no
        consumer of this channel is served meanwhile."""
        back: list[Entry] = []
        window = self.window
        if len(settled) > PORTION:
            window.busy += 1
            window.reopen()
            try:
                yield from window.restoring(live(some, back) for some in batched(settled))
                yield from self.settlements.concluding(handed(back, Outcome.RELEASE))
            finally:
                window.busy -= 1
                window.reopen()
        else:
            window.restore(*live(settled, back))
            if back:
                self.settlements.conclude((entry, Outcome.RELEASE) for entry in back)
        yield from freeing(settled)

    # --- declared by id -------------------------------------------------------------------------

    def declare(self) -> bytes:
        """A new transaction's id."""
        if self.upstream is not None:
            self.upstream.allow()
        if len(self.declared) >= MOST_TRANSACTIONS:
            raise Refusal(
                Condition.RESOURCE_ERROR, f"more than {MOST_TRANSACTIONS} transactions are open"
            )
        number = secrets.token_bytes(8)
        self.declared[number] = DeclaredTransaction()
        return number

    def known(self, transaction: bytes) -> DeclaredTransaction:
        found = self.declared.get(transaction)
        if found is None:
            raise Refusal(Condition.NOT_FOUND, f"no transaction {transaction.hex()}")
        return found

    def post(self, transaction: bytes, message: Message) -> bool:
        """Publish when the transaction is discharged; whether it would be routed now. Refuses
        as a publish does."""
        declared = self.known(transaction)
        exchange = self.publish_path.checked(message)
        declared.posts.append(message)
        size = message.weight
        declared.octets += size
        self.state.octets += size
        if self.upstream is not None:
            check_key(message.key)
            return True  # it is known at the commit
        return bool(self.publish_path.routed(exchange, message))

    def retire(self, transaction: bytes, delivery: int, verdict: Verdict, settled: bool) -> None:
        """Settle a delivery when the transaction is discharged, and not otherwise before that."""
        declared = self.known(transaction)
        entry = self.window.unsettled_entry(delivery)
        if isinstance(verdict, Modify) and verdict.elsewhere:
            self.settlements.check_exclusions(entry)
        del self.window.unsettled[delivery]
        declared.retired.append((delivery, entry, verdict, settled))

    def retiring_many(
        self, transaction: bytes, deliveries: list[int], verdict: Verdict, settled: bool
    ) -> Iterator[None] | None:
        """Likewise, deliveries of one outcome: now (``None``), or if they are many a long
        operation. They are taken now, and an unknown tag is refused (406) now."""
        declared = self.known(transaction)
        entries = self.window.take(deliveries)
        retired = zip(deliveries, entries, repeat(verdict), repeat(settled))
        if len(entries) > PORTION:
            return self.retiring(transaction, declared, retired)
        declared.retired += retired
        return None

    def retiring(
        self, transaction: bytes, declared: DeclaredTransaction, retired: Iterator[Retired]
    ) -> Iterator[None]:
        """What is left when the transaction has ended meanwhile, with its channel, is released."""
        while portion := list(islice(retired, PORTION)):
            if self.declared.get(transaction) is not declared:
                left = [entry for _, entry, _, _ in (*portion, *retired)]
                yield from self.settlements.concluding(handed(left, Outcome.RELEASE))
                return
            declared.retired += portion
            yield

    def discharge_upstream(self, transaction: bytes) -> None:
        """In a facade the upstream commits its part first; ``discharge`` does the rest.
        Raises ``AwaitsUpstream``, or the refusal: the transaction has to fail then."""
        if self.upstream is None:
            return
        declared = self.known(transaction)
        posts, declared.posts = declared.posts, []
        self.upstream.commit(
            ((message, False) for message in posts),
            (entry for _, entry, verdict, _ in declared.retired if verdict is Outcome.ACCEPT),
        )

    def discharge(self, transaction: bytes, fail: bool) -> None:
        """All of it in one batch of the store, or none of it. Refuses (406), rolled back, when a
        queue is too full to take a message or an exchange has gone."""
        for _ in self.discharging(transaction, fail):
            pass

    def much_to_discharge(self, transaction: bytes) -> bool:
        """Whether discharging is more than a portion."""
        declared = self.declared.get(transaction)
        return declared is not None and len(declared.posts) + len(declared.retired) > PORTION

    def discharging(self, transaction: bytes, fail: bool) -> Iterator[None]:
        """The same as a long operation."""
        declared = self.known(transaction)
        del self.declared[transaction]
        self.state.octets -= declared.octets
        if fail:
            yield from self.undoing(declared)
            return
        publishes = PreparedPublishes(self.vhost, declared.posts)
        try:
            try:
                yield from publishes.preparing()
            except Refusal:
                yield from self.undoing(declared)
                raise
            yield from publishes.putting(self.publish_path.origin)
        finally:
            publishes.release()
        settled = self.decided(declared)
        if len(declared.retired) > PORTION:
            yield from self.settlements.concluding(settled, atomic=True)
        else:
            self.settlements.conclude(settled, atomic=True)

    def decided(self, declared: DeclaredTransaction) -> Iterator[tuple[Entry, Outcome]]:
        """The retired deliveries with their outcomes."""
        for _, entry, verdict, _ in declared.retired:
            if isinstance(verdict, Modify):
                add_modification(entry, verdict)
                verdict = Outcome.DECLINE if verdict.elsewhere else Outcome.RELEASE
            yield entry, verdict

    def undoing(self, declared: DeclaredTransaction) -> Iterator[None]:
        """Roll back. Deliveries that the peer still knows of are unsettled again. The others, and
        those of links that are over, are released."""
        yield from self.unsettling(declared.retired, self.still_known)
        yield from freeing(declared.posts)

    def still_known(self, retired: list[Retired], back: list[Entry]) -> Portion:
        """Those that the peer still knows of; the others are added to ``back``."""
        tags: list[int] = []
        live: list[Entry] = []
        consumers = self.window.consumers
        for number, entry, _, settled in retired:
            consumer = entry.consumer
            if settled or consumer is None or consumers.get(consumer.tag) is not consumer:
                back.append(entry)
            else:
                tags.append(number)
                live.append(entry)
        return tags, live


def batched(things: list[T]) -> Iterator[list[T]]:
    """A portion at a time."""
    return (things[first : first + PORTION] for first in range(0, len(things), PORTION))
