"""One channel in the broker: what it publishes, consumes and settles.

``publish`` is the hottest function of the house. Its first branch handles what most messages are:
no confirms, no transaction, a known exchange and key, and a consumer who waits and settles at
once. Everything else goes through ``publish_with_care``, which says the same more slowly.
"""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from gateway.broker.browsing import Place, Seen, at, browse, pick, remove, take_past
from gateway.broker.confirms import SAFE, Confirms
from gateway.broker.consumers import Consumer
from gateway.broker.cursors import Copies, Cursor, Matches
from gateway.broker.deliveries import Entry
from gateway.broker.exchanges import Exchange
from gateway.broker.exclusions import Exclusions
from gateway.broker.limits import read_consumer_priority
from gateway.broker.linked import Linked
from gateway.broker.names import check_name
from gateway.broker.posting import ToAll, deliver_now, read_copies
from gateway.broker.queues import KEPT, REFUSED, Queue
from gateway.broker.replies import OCTETS, REPLY_TO, open_replies, with_reply_to
from gateway.broker.returning import handed
from gateway.broker.transactions import Transaction
from gateway.broker.undertakings import PORTION, forgetting
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Message, Table
from gateway.operations import STREAMS, Fetched, Outcome

if TYPE_CHECKING:
    from gateway.broker.client import Client


def nothing() -> None:
    """Nobody waits for the end of a channel."""


class Recipient(Protocol):
    """Whom the broker tells: the way out for one channel. Must not raise."""

    def deliver(
        self, consumer: str, delivery: int, redelivered: bool, message: Message, /
    ) -> None: ...

    def confirm(self, sequence: int, multiple: bool, accepted: bool, /) -> None: ...

    def returned(self, message: Message, condition: Condition, text: str, /) -> None: ...

    def cancelled(self, tag: str, /) -> None: ...


class Channel(Linked):
    """Made by ``Client.channel``. ``plain``: publishes need neither confirming nor holding
    back. ``harmless``: the last properties seen that ask for no direct reply; ``replies`` where
    such replies come in."""

    __slots__ = (
        "number", "recipient", "plain", "confirms", "new_limit", "new_size", "harmless", "replies",
    )  # fmt: skip

    def __init__(self, client: "Client", number: int, recipient: Recipient) -> None:
        super().__init__(client)
        self.number = number
        self.recipient = recipient
        self.confirms: Confirms | None = None
        self.plain = self.broker.limits.max_message is None
        self.new_limit = 0
        self.new_size = 0
        self.harmless = b""
        self.replies: Queue | None = None

    # --- publishing -----------------------------------------------------------------------------

    def publish(self, message: Message, mandatory: bool = False, immediate: bool = False) -> None:
        """Hot. Measured in benchmarks/: no calls but the recipient's on the direct way."""
        exchange = self.writable.get(message.exchange)
        _, _, _, user_id, has_headers, expiry = message.essentials
        if (
            exchange is None
            or user_id is not None
            or has_headers
            or expiry is not None
            or mandatory
            or immediate
            or not self.plain
            or (message.header is not self.harmless and self.wants_reply(message.header))
        ):
            self.publish_with_care(message, mandatory, immediate)
            return
        queues = exchange.routes.get(message.key)
        if queues is None:
            queues = self.routed(exchange, message)
            if not queues:
                self.vhost.unrouted += 1
                return
        for queue in queues:
            waiting = queue.waiting
            if waiting and not queue.depth:
                consumer = waiting[0]
                if consumer.simple:
                    if len(waiting) > 1:
                        waiting.rotate(-1)
                    queue.passed += 1
                    window = consumer.window
                    window.last = tag = window.last + 1
                    consumer.deliver(consumer.tag, tag, False, message)
                    continue
            queue.put(message, self.client)

    def wants_reply(self, header: bytes) -> bool:
        """Whether these properties may ask for a direct reply; if not, they need not be looked at
        when the next message has the same."""
        if header.find(OCTETS) >= 0:  # several times as fast as `in`
            return True
        self.harmless = header
        return False

    def publish_with_care(self, message: Message, mandatory: bool, immediate: bool) -> None:
        exchange = self.checked(message)
        if message.header is not self.harmless and self.wants_reply(message.header):
            message = with_reply_to(message, self.replies)
        if self.transaction is not None:
            if message.essentials.has_headers and b"CC" in message.header:
                read_copies(message)  # a refusal now is better than one in the middle of commit
            self.transaction.publish(message, mandatory, immediate)
            self.broker.octets += message.weight
            return
        fate = self.post(exchange, message, mandatory, immediate)
        if self.confirms is not None:
            self.confirms.add(self.broker.store.mark if fate == KEPT else SAFE, fate != REFUSED)
            self.broker.confirming[self] = None

    def post(self, exchange: Exchange, message: Message, mandatory: bool, immediate: bool) -> int:
        """Route and put; the worst fate among the queues."""
        copies: Iterable[str] = ()
        if message.__class__ is ToAll:
            return self.post_to_all(exchange, message)
        if message.essentials.has_headers and b"CC" in message.header:
            message, copies = read_copies(message)
        queues = exchange.routes.get(message.key)
        if queues is None:
            queues = self.routed(exchange, message)
        if copies:
            queues = self.vhost.route_copies(exchange, message, queues, copies)
        if not queues:
            self.vhost.unrouted += 1
            if mandatory or immediate:
                self.recipient.returned(message, Condition.NO_ROUTE, "NO_ROUTE")
            return 0
        if immediate:
            queues = deliver_now(queues, message, self.client)
            if not queues:
                self.recipient.returned(message, Condition.NO_CONSUMERS, "NO_CONSUMERS")
                return 0
        expiry = message.essentials.expiry
        if expiry is not None and expiry <= self.broker.now:
            for queue in queues:
                self.vhost.dead_letter(queue, message, "expired")
            return 0
        fate = 0
        for queue in queues:
            fate = max(fate, queue.put(message, self.client))
        return fate

    def post_to_all(self, exchange: Exchange, message: Message) -> int:
        queues = exchange.everywhere(message)
        if not queues:
            self.vhost.unrouted += 1
        return max((queue.put(message, self.client) for queue in queues), default=0)

    def publish_refused(self) -> None:
        """A publish was refused without harm to the channel: it counts, and is not accepted."""
        if self.confirms is not None:
            self.confirms.add(SAFE, False)
            self.broker.confirming[self] = None

    @property
    def sequence(self) -> int:
        """The number of the publish at hand, 0 if they are not confirmed."""
        return 0 if self.confirms is None else self.confirms.sequence + 1

    def select_confirms(self) -> None:
        """Publishes are numbered and confirmed from now on."""
        if self.transaction is not None:
            raise Refusal(Condition.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
        if self.confirms is None:
            self.confirms = Confirms()
            self.plain = False

    # --- transactions ---------------------------------------------------------------------------

    def select(self) -> None:
        """Publishes and settlements wait for ``commit`` from now on."""
        if self.confirms is not None:
            raise Refusal(Condition.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
        if self.transaction is None:
            self.transaction = Transaction()
            self.plain = False

    def needed_transaction(self) -> Transaction:
        if self.transaction is None:
            raise Refusal(Condition.PRECONDITION_FAILED, "channel is not transactional")
        return self.transaction

    def commit(self) -> None:
        """Do all that was held back, within one batch of the store. Refused (406) when a queue
        was too full to take a message; the rest is done then, as it is in RabbitMQ."""
        for _ in self.committing():
            pass

    def committing(self) -> Iterator[None]:
        """The same in portions, for ``Undertakings``."""
        transaction = self.needed_transaction()
        worst = 0
        self.broker.octets -= transaction.octets
        publishes, settlements = transaction.take_publishes(), transaction.take_settlements()
        for count, (message, mandatory, immediate) in enumerate(publishes, 1):
            exchange = self.vhost.exchanges.get(message.exchange)
            if exchange is not None:
                worst = max(worst, self.post(exchange, message, mandatory, immediate))
            if count % PORTION == 0:
                yield
        much = len(settlements) > PORTION
        settlements.reverse()
        # Each is let go of as it is taken: to free all at the end would take long.
        settled = (settlements.pop()[1:] for _ in range(len(settlements)))
        if much:
            yield from self.concluding(settled, whole=True)
        else:
            self.conclude(settled, whole=True)
        if worst == REFUSED:
            raise Refusal(Condition.PRECONDITION_FAILED, "partial tx completion")

    @property
    def much_to_commit(self) -> bool:
        """Whether committing, or rolling back, is more than a portion."""
        transaction = self.transaction
        return transaction is not None and (
            len(transaction.publishes) + len(transaction.settlements) > PORTION
        )

    def rollback(self) -> None:
        """Forget what was held back; what was settled is unsettled again."""
        for _ in self.rolling_back():
            pass

    def rolling_back(self) -> Iterator[None]:
        """The same in portions, for ``Undertakings``."""
        transaction = self.needed_transaction()
        self.broker.octets -= transaction.octets
        publishes, settlements = transaction.take_publishes(), transaction.take_settlements()
        if settlements:
            self.restore([tag for tag, _, _ in settlements], [entry for _, entry, _ in settlements])
        yield from forgetting(settlements)
        yield from forgetting(publishes)

    # --- consuming ------------------------------------------------------------------------------

    def subscribe(
        self,
        queue: str,
        tag: str = "",
        no_ack: bool = False,
        exclusive: bool = False,
        no_local: bool = False,
        arguments: Table | None = None,
        *,
        matches: Matches | None = None,
        copy: bool = False,
        credit: int | None = None,
        exclusions: Exclusions | None = None,
        ages: bool = False,
    ) -> str:
        """Make a consumer; nothing is delivered before ``start``. Answers with its tag.

        ``matches`` is its filter; what it does not want is left to others. With ``copy`` it takes
        nothing: it gets copies of what stands in the queue and of what is put later, and their
        settlement has no effect. ``credit``: see there. ``exclusions`` are those of the consumer
        whose place it takes. ``ages``: what has a time to live comes with what is left of it."""
        name = self.named(queue)
        arguments = arguments or {}
        check_name("consumer tag", tag)
        if tag in self.consumers:
            raise Refusal(
                Condition.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'", Lost.CONNECTION
            )
        if name == REPLY_TO:
            found = self.replies = open_replies(self.vhost, self.replies, no_ack)
            no_local, copy, arguments = False, False, {}
        else:
            self.need("read", "queue", name)
            found = self.vhost.queue(name, self.client)
        priority = read_consumer_priority(arguments, self.vhost.title("queue", name))
        others = found.consumers
        # One that is exclusive is alone.
        if (
            (exclusive and (others or found.limits.single_active))
            or (others and others[0].exclusive)
            or (STREAMS in arguments and any(STREAMS in other.arguments for other in others))
        ):
            what = self.vhost.title("queue", name)
            raise Refusal(Condition.ACCESS_REFUSED, f"{what} in exclusive use")
        tag = tag or "amq.ctag-" + urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if exclusions is not None and exclusions.queue is not found:
            exclusions = None
        if exclusions is None and self.excluded and not copy:
            exclusions = self.excluded.get(found)
        cursor = None
        if matches or copy or exclusions is not None:
            cursor = Cursor(matches, Copies() if copy else None, exclusions)
        consumer = Consumer(
            tag,
            found,
            self,
            self.recipient.deliver,
            self.recipient.cancelled,
            no_ack=no_ack,
            exclusive=exclusive,
            no_local=no_local,
            origin=self.client,
            priority=priority,
            limit=self.new_limit,
            size=self.new_size,
            arguments=arguments,
            credit=credit,
            cursor=cursor,
            ages=ages,
        )
        self.consumers[tag] = consumer
        found.touch()
        found.add_consumer(consumer)
        return tag

    def start(self, tag: str) -> None:
        """Deliveries may begin."""
        consumer = self.consumers.get(tag)
        if consumer is not None:
            consumer.started = True
            consumer.wake()

    def unsubscribe(self, tag: str, spare: bool = False) -> None:
        """Stop a consumer; an unknown tag is no error. What it holds stays with the channel.
        ``spare``: its leaving is no reason for an auto-delete queue to go."""
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            consumer.queue.remove_consumer(consumer, spare)
            exclusions = None if consumer.cursor is None else consumer.cursor.exclusions
            if exclusions is not None and not exclusions.shared:
                exclusions.clear()

    def credit(self, tag: str, count: int | None) -> None:
        """So many more deliveries are allowed to a consumer from now on, whether they are settled
        or not; 0 stops it, ``None`` is no limit. An unknown tag is no error: it may have been
        cancelled meanwhile. Ends a ``drain``."""
        consumer = self.consumers.get(tag)
        if consumer is None:
            return
        if consumer.draining is not None:
            consumer.drop_credit()
        changed = (consumer.credit is None) is not (count is None)
        consumer.credit = count
        if changed:
            consumer.queue.reconsider(consumer)
        if count == 0:
            consumer.rest()
        else:
            consumer.wake()

    def drain(self, tag: str, told: Callable[[int], None]) -> None:
        """Hand out what there is for the credit of a consumer and drop the rest; ``told`` how much
        that was. At once, unless not everything could be looked at in this turn or nothing may go
        out now; no later than when the consumer ends. No limit becomes a credit of 0."""
        consumer = self.consumers.get(tag)
        if consumer is None:
            told(0)
            return
        if consumer.draining is not None:
            consumer.drop_credit()
        consumer.draining = told
        consumer.wake()

    def fetch(self, queue: str, no_ack: bool = False) -> Fetched | None:
        """Take one message, or ``None`` if there is none."""
        found = self.readable(queue)
        exclusions = None if self.excluded is None else self.excluded.get(found)
        entry = found.take() if exclusions is None else take_past(found, exclusions)
        if entry is None:
            return None
        if no_ack:
            self.last += 1
            found.finish(entry)
            return Fetched(self.last, entry.deliveries > 0, entry.message, found.depth, queue)
        return self.hold(found, entry)

    def hold(self, queue: Queue, entry: Entry) -> Fetched:
        """What was taken is unsettled here."""
        self.last += 1
        redelivered = entry.deliveries > 0
        queue.hold(entry)
        self.unsettled[self.last] = entry
        return Fetched(self.last, redelivered, entry.message, queue.depth)

    def pick(self, queue: Queue, place: Place) -> Fetched | None:
        """Take the message at a place of a queue that ``readable`` gave, if it is ready there."""
        entry = pick(queue, place)
        if entry is None:
            return None
        queue.touch()
        queue.count_delivery(entry)
        return self.hold(queue, entry)

    def readable(self, queue: str) -> Queue:
        """Refuses with 403, 404, or 405 if it is another's."""
        name = self.named(queue)
        self.need("read", "queue", name)
        return self.vhost.queue(name, self.client)

    def browse(
        self, queue: str, after: Place | None = None, limit: int = 100, octets: int = 1 << 20
    ) -> list[Seen]:
        """What stands ready behind a place, left there (``browsing.browse``)."""
        return browse(self.readable(queue), after, limit, octets)

    def move(self, queue: str, place: Place, exchange: str, key: str) -> str:
        """Publish the ready message at a place elsewhere and take it out, both in one batch of the
        store: "moved", or why nothing was done: "gone", "unroutable" or "full"."""
        found = self.readable(queue)
        target = self.writable.get(exchange) or self.find_writable(exchange)
        old = at(found, place)
        if old is None:
            return "gone"
        message = Message(
            old.dialect,
            old.header,
            old.body,
            exchange,
            key,
            old.essentials._replace(expiry=None),
            old.notes,
        )
        queues = self.routed(target, message)
        if not queues:
            return "unroutable"
        if any(to.refuses_when_full and to.overflows(len(old.body)) for to in queues):
            return "full"
        for to in queues:
            to.put(message, self.client)
        remove(found, place)
        return "moved"

    def prefetch(self, count: int, size: int = 0, shared: bool = False) -> None:
        """Limit what may be unsettled: here, or for each consumer from now on. 0 is no limit.
        Rules may say that it is on all channels of the connection, or here."""
        if self.client.rules.channel_prefetch:
            channels = [self]
            if shared:
                self.client.prefetch = (count, size)
                channels = list(self.client.channels.values())
        elif shared:
            channels = [self]
        else:
            self.new_limit, self.new_size = count, size
            return
        for channel in channels:
            channel.limit, channel.size = count, size
            channel.wake()

    def flow(self, active: bool) -> None:
        """The peer stops deliveries, or lets them go on."""
        self.flowing = active
        self.reopen()

    def pause(self) -> None:
        """The peer's socket is full."""
        self.paused = True
        self.reopen()

    def resume(self) -> None:
        self.paused = False
        self.reopen()

    def gate(self, open_: bool) -> None:
        """The way out has no room for more deliveries, or has it again."""
        self.gated = not open_
        self.reopen()

    @property
    def much_to_give_back(self) -> bool:
        """Whether closing is more than a portion, or earlier settlements are still under way."""
        transaction = self.transaction
        held = len(self.unsettled)
        if transaction is not None:
            held += len(transaction.publishes) + len(transaction.settlements)
        for work in self.works.values():
            held += len(work.posts) + len(work.retired)
        return held > PORTION or self.busy > 0

    def close(self, then: Callable[[], None] = nothing) -> None:
        """The channel is over: consumers stop, what is unsettled goes back. ``then`` is called when
        it is there: now, or in a later turn if it is much."""
        if self.closed:
            then()
            return
        much = self.much_to_give_back
        self.closed = True
        self.reopen()
        posts, entries = self.abandon()
        if self.transaction is not None:
            self.broker.octets -= self.transaction.octets
            posts += [self.transaction.take_publishes()]
            entries += [entry for _, entry, _ in self.transaction.take_settlements()]
        for tag in list(self.consumers):
            self.unsubscribe(tag)
        for exclusions in (self.excluded or {}).values():
            exclusions.clear()
        self.excluded = None
        entries += self.unsettled.values()
        self.unsettled.clear()
        self.broker.confirming.pop(self, None)
        self.client.channels.pop(self.number, None)
        if much:
            steps = self.giving_back(posts, entries)
            self.broker.undertakings.begin(steps, lambda refusal: then(), whole=False)
        else:
            self.conclude((entry, Outcome.RELEASE) for entry in entries)
            then()

    def giving_back(self, posts: list[list[Any]], entries: list[Entry]) -> Iterator[None]:
        """Forget what was never published, and release the deliveries, in portions."""
        for some in posts:
            yield from forgetting(some)
        yield from self.concluding(handed(entries, Outcome.RELEASE))
