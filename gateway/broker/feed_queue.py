"""The messages of an upstream's queue on their way to one consumer of a facade."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, cast

from gateway.broker.answers import Answer
from gateway.broker.consumers import Consumer
from gateway.broker.dispatcher import DispatchedQueue, Dispatcher
from gateway.broker.handover import DELETED
from gateway.broker.lanes import Entry, Lane
from gateway.broker.outbound import OutboundSender
from gateway.broker.queues import Queue, QueueHost
from gateway.broker.stream_queues import OFFSET, STREAM, Place, QueueType
from gateway.message import Message, Table
from gateway.operations import Outcome

MOST_AHEAD = 1000
"""Messages that are ready here for a consumer without a limit that has not got them yet."""


class Feed(Protocol):
    """The deliveries of one subscription at the upstream, while its connection lives."""

    def settle(self, delivery: int, outcome: Outcome) -> None: ...

    def accept(self, delivery: int) -> None:
        """``settle`` one that is accepted."""
        ...

    def modify(self, delivery: int, elsewhere: bool, added: Table | None) -> None:
        """Release one that is not for this consumer (``elsewhere``), or to which headers were
        added here."""
        ...


ReturnedMessage = tuple[Message, str]
"""One that the upstream could not route, and its reason."""


class UpstreamWork(NamedTuple):
    """The part of an upstream in a transaction: messages, and whether they are mandatory; and
    accepted deliveries."""

    publishes: list[tuple[Message, bool]]
    accepted: list["Borrowed"]


class UpstreamPort(OutboundSender, Protocol):
    """The connections of a facade to its upstream."""

    def ask(self, operation: Any) -> Answer:
        """A request, in order with others."""
        ...

    def wanted(self, queue: "FeedQueue") -> None:
        """The consumer of a feed may take more, or less, or has ended."""
        ...

    def fetch(self, queue: "FeedQueue") -> Answer:
        """Take one message: true if one has come, which is ready in the queue then."""
        ...

    def open(self, queue: "FeedQueue") -> Answer:
        """Subscribe for a consumer to come."""
        ...

    def seek(self, queue: "FeedQueue") -> Answer:
        """Get as many messages as the consumer has room for, or all that the upstream has."""
        ...

    def allow_transactions(self) -> Answer:
        """Find out whether the upstream has transactions. The answer refuses if not."""
        ...

    def transact(self, work: UpstreamWork) -> Answer:
        """Commit this at once or not at all; the answer is a list of ``ReturnedMessage``. Its
        deliveries, if accepted afterwards, are settled already."""
        ...

    def open_replies(self, name: str) -> Answer:
        """Make a queue whose messages go to a place for direct replies. The answer is its name, or
        "" if the upstream cannot have such queues."""
        ...

    def close_replies(self, name: str) -> None:
        """The client has gone."""
        ...


class FeedHost(Protocol):
    """The virtual host of a facade."""

    on_settled: Callable[[str, Message, Outcome], None] | None
    """Is told the queue of each delivery that is settled, its message and its outcome."""

    @property
    def upstream(self) -> UpstreamPort: ...


class Home(Protocol):
    """The queue as clients know it."""

    type: QueueType
    name: str
    gone: bool
    vhost: QueueHost

    @property
    def host(self) -> FeedHost: ...

    def put(self, message: Message, origin: object = None) -> int: ...

    def consumer_gone(self, consumer: Consumer, keep_queue: bool) -> None: ...


class Borrowed(Entry):
    """A message of the upstream that is here under a delivery of a feed."""

    __slots__ = ("feed", "delivery")

    def __init__(
        self, lane: Lane, position: int, message: Message, feed: Feed, delivery: int
    ) -> None:
        self.lane = lane  # as ``Entry`` does, without a call
        self.position = position
        self.message = message
        self.expires = None
        self.deliveries = 0
        self.stored = False
        self.origin = None
        self.consumer = None
        self.feed = feed
        self.delivery = delivery


class Subscription(NamedTuple):
    """A consumer as the upstream gets it. ``paused``: it begins without credit. ``limit``: the
    most deliveries that it may have unsettled; ``lasting``: that does not change."""

    exclusive: bool
    arguments: Table
    paused: bool
    limit: int
    lasting: bool = False


class FeedDispatcher(Dispatcher):
    """Tells the feed when its consumer gets credit or loses it."""

    __slots__ = ()

    def enlist(self, consumer: Consumer) -> None:
        super().enlist(consumer)
        cast(FeedQueue, self.queue).want()

    def delist(self, consumer: Consumer) -> None:
        super().delist(consumer)
        cast(FeedQueue, self.queue).want()

    def drain(self) -> None:
        super().drain()
        self.rest_if_spent()

    def rest_if_spent(self) -> None:
        """A consumer that has used up its credit leaves the line at once, so that it is noticed
        when it gets credit again."""
        if self.waiting and (self.waiting[0].credit == 0 or self.waiting[0].octet_credit == 0):
            self.waiting[0].rest()


class FeedQueue(Queue):
    """Messages of an upstream's queue on their way to one consumer, or (without one) to fetches.
    ``home`` is the queue that clients know."""

    __slots__ = (
        "home",
        "_subscription",
        "consumer",
        "client",
        "feeds",
        "remaining",
        "place",
        "_sought",
        "_drain",
        "_exhausted",
    )

    def __init__(
        self, home: Home, subscription: Subscription | None, client: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(home.vhost, home.name, 0)
        self.home = home
        self.client = client
        """The user and the client id of the consumer's connection."""
        self._subscription = subscription
        self.consumer: Consumer | None = None
        """``None`` before the upstream has agreed."""
        self.remaining = 0
        """Messages that were left at the upstream by the last fetch."""
        self._sought: Answer | None = None
        """A look for ready messages of the upstream, and the drain for which it began."""
        self._drain: Callable[[int], None] | None = None
        self._exhausted = False
        self.place = Place(home.type)
        self.feeds: dict[int, Any] = {}
        """Those that the owners of the connections keep for it, by their side."""
        self.dispatcher: FeedDispatcher = FeedDispatcher(cast(DispatchedQueue, self), False, True)
        self.consumers = self.dispatcher.consumers
        self.waiting = self.dispatcher.waiting
        self.filtered_waiting = self.dispatcher.filtered_waiting

    @property
    def subscription(self) -> Subscription | None:
        """With the place where it goes on in a stream queue."""
        given, offset = self._subscription, self.place.following
        if given is None or offset is None:
            return given
        return given._replace(arguments={**given.arguments, OFFSET: offset})

    def want(self) -> None:
        self.home.host.upstream.wanted(self)

    @property
    def room(self) -> int:
        """Deliveries that the consumer may get before any of them is settled, without those that
        are ready here."""
        consumer = self.consumer
        if consumer is None or not consumer.started or self.gone:
            return 0
        window = consumer.window
        room = MOST_AHEAD if consumer.credit is None else consumer.credit
        if not consumer.no_ack:
            if consumer.limit:
                room = min(room, consumer.limit - consumer.held)
            if window.limit:
                room = min(room, window.limit - window.held)
        return max(0, room - self.backlog.depth)

    # --- in -------------------------------------------------------------------------------------

    def arrive(self, feed: Feed, delivery: int, redelivered: bool, message: Message) -> None:
        """The upstream has delivered a message. Hot: one for a consumer that settles at once is not
        even here."""
        waiting = self.waiting
        if waiting and not self.backlog.depth:
            consumer = waiting[0]
            if consumer.simple and self.home.host.on_settled is None and self.place.offset is None:
                self.passed += 1
                self.redelivered += redelivered
                window = consumer.window
                window.last = tag = window.last + 1
                feed.accept(delivery)
                consumer.deliver(consumer.tag, tag, redelivered, message)
                return
        lane = self.backlog.lanes[0]
        position = lane.next
        lane.next = position + 1
        entry = Borrowed(lane, position, message, feed, delivery)
        if redelivered:
            entry.deliveries = 1
        self.published += 1
        body = message.body  # its weight, without a call
        self.state.octets += len(message.header) + (len(body) if body.__class__ is bytes else 0)
        if self.place.offset is not None:
            self.place.note(message)
        if waiting and not self.backlog.depth and (consumer := waiting[0]).takes(message):
            consumer.give(entry)
            if consumer.credit is not None:
                self.dispatcher.rest_if_spent()
            return
        lane.ready.append(entry)
        self.backlog.depth += 1
        self.backlog.octets += len(message.body)
        if self.waiting:
            self.dispatcher.drain()

    @property
    def draining(self) -> bool:
        """The consumer gets the ready messages of the upstream for its credit, then no more."""
        return self.consumer is not None and self.consumer.draining is not None

    def more(self) -> bool:
        """Whether the upstream may have more for the consumer, which drains it."""
        consumer = self.consumer
        if self._exhausted or consumer is None or not self.room:
            return False
        if self._sought is None:
            self._drain = consumer.draining
            self._sought = self.home.host.upstream.seek(self)
            self._sought.then(self._found_all)
        return True

    def _found_all(self) -> None:
        """A look has ended. A drain that has begun meanwhile gets a look of its own."""
        self._sought = None
        consumer = self.consumer
        if consumer is not None and consumer.draining is not None:
            self._exhausted = consumer.draining is self._drain
            consumer.end_drain()
            self._exhausted = False

    def put(self, message: Message, origin: object = None) -> int:
        """A message that its consumer could not have goes back to the upstream's queue."""
        return self.home.put(message, origin)

    # --- out ------------------------------------------------------------------------------------

    def finish(self, entry: Entry) -> None:
        """Hot: ``conclude`` of one that is accepted."""
        Queue.finish(self, entry)
        on_settled = self.home.host.on_settled
        if on_settled is not None:
            on_settled(self.name, entry.message, Outcome.ACCEPT)
        entry.feed.accept(entry.delivery)  # type: ignore[attr-defined]

    def discard(self, entry: Entry, reason: str) -> None:
        self.conclude(entry, Outcome.REJECT)

    def reject(self, entry: Entry, reason: str) -> None:
        # Deleted is this queue, with its consumer, and not that of the upstream.
        self.conclude(entry, Outcome.RELEASE if reason == DELETED else Outcome.REJECT)

    def conclude(self, entry: Entry, outcome: Outcome) -> None:
        elsewhere = bool(self.excluded) and (entry.lane, entry.position) in self.excluded
        super().finish(entry)
        on_settled = self.home.host.on_settled
        if on_settled is not None:
            on_settled(self.name, entry.message, outcome)
        borrowed = cast(Borrowed, entry)
        added = entry.message.added_headers
        if outcome is Outcome.RELEASE and (elsewhere or added):
            borrowed.feed.modify(borrowed.delivery, elsewhere, added)
        else:
            borrowed.feed.settle(borrowed.delivery, outcome)

    def put_back(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.unsettled -= 1
            self.conclude(entry, Outcome.RELEASE)

    def taking_back(self, lanes: list[tuple[Lane, list[Entry]]], octets: int) -> Iterator[None]:
        for _, entries in lanes:
            self.put_back(entries)
            yield

    def take_ready(self) -> list[Borrowed]:
        """Take out the ready messages: they go back, or their feed is lost."""
        backlog = self.backlog
        found: list[Borrowed] = []
        while backlog.lanes[0].ready:
            entry = backlog.lanes[0].ready[0]
            backlog.pull(entry)
            found.append(cast(Borrowed, entry))
        return found

    def release_to_others(self) -> None:
        """Give them back if other consumers could get them, as in any queue but a stream."""
        if self.home.type.name != STREAM:
            self.release_ready()

    def release_ready(self) -> None:
        """Give back the messages that no consumer has got."""
        for entry in self.take_ready():
            self.conclude(entry, Outcome.RELEASE)

    def lose(self, feed: Feed) -> None:
        """The connection of a feed is lost, and the upstream delivers its messages again."""
        lane = self.backlog.lanes[0]
        lost = [one for one in lane.ready if cast(Borrowed, one).feed is feed]
        if lost:
            self.place.rewind(lost[0].message)
        for entry in lost:
            super().finish(self.backlog.take(lane, entry))

    def remove_consumer(self, consumer: Consumer, keep_queue: bool = False) -> None:
        consumer.stop()
        self.dispatcher.remove(consumer)
        self.gone = True
        self.release_ready()
        self.want()
        self.home.consumer_gone(consumer, keep_queue)

    @property
    def forfeited(self) -> bool:
        """A consumer that has ended has its unsettled deliveries yet."""
        return self.home.gone

    @property
    def has_dead_letter_exchange(self) -> bool:
        """The upstream may have one."""
        return True

    def would_dead_letter(self, message: Message) -> bool:
        return False
