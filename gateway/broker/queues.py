"""One queue: its messages, their limits and their expiry.

The rule everything rests on: outside of ``Dispatcher.drain``, either nothing is ready or no
consumer that could take it is waiting. So a message that finds a consumer waiting and nothing ready
may go out directly. Consumers with a filter have looked at the ready messages and left them, or
will do so.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from gateway.broker.backlog import Backlog
from gateway.broker.consumers import Consumer
from gateway.broker.dispatcher import Dispatcher
from gateway.broker.exclusions import ExclusionIndex, Exclusions
from gateway.broker.handover import DELETED, Handover
from gateway.broker.lanes import Entry, Lane, in_lanes
from gateway.broker.lifetime import Lifetime
from gateway.broker.limits import LONGEST_TIMER, NO_POLICY, SELF_DESTRUCT, QueueArguments
from gateway.broker.long_operations import PORTION
from gateway.broker.state import SOON, BrokerState
from gateway.errors import Unstorable
from gateway.message import Message, Table


class DeadLetters(Protocol):
    """Takes the messages that die in a queue."""

    busy: bool

    def publish(
        self, queue: "Queue", message: Message, reason: str, origin: object = None
    ) -> None: ...
    def would_route(self, queue: "Queue", message: Message) -> bool: ...


class QueueHost(Protocol):
    """The virtual host of a queue."""

    name: str
    state: BrokerState

    @property
    def dead_letters(self) -> DeadLetters: ...

    def title(self, kind: str, name: str) -> str: ...
    def save_queue(self, queue: "Queue") -> None: ...
    def remove_queue(self, queue: "Queue") -> int: ...


class QueueOwner(Protocol):
    """The connection, or in 0-10 the session, that an exclusive queue belongs to. A queue of a
    connection ends with it."""

    exclusive: "dict[Queue, None]"
    is_session: bool
    """An auto-delete queue stays as long as it has this owner, and others outlive it."""


class Watcher(Protocol):
    """Is told of messages that become ready. It takes messages from their places
    (``browsing.pick``)."""

    def arrived(self, priority: int, position: int, message: Message, deliveries: int) -> None: ...

    def queue_gone(self) -> None: ...


class Sender(Protocol):
    """A link that sends to a queue, and ends with it."""

    def queue_gone(self) -> None: ...


TAKEN = 0
"""In memory, or with a consumer already."""
KEPT = 1
"""Given to the store, in the batch that is gathering."""
REFUSED = 2
"""The queue is full and says so."""

NO_ARGUMENTS = QueueArguments()

LEAST_DROPS = 2
"""So many messages are dropped for one that comes, however much was dropped in this turn: a full
queue must not grow faster than it is emptied."""


class Queue:
    """Made by its virtual host only. ``backlog`` has the messages that are ready,
    ``dispatcher`` the consumers.

    ``passed`` counts messages that went directly to a consumer that settles at once: they are
    published, delivered and acknowledged in one.
    """

    __slots__ = (
        "vhost", "state", "name", "durable", "owner", "auto_delete", "arguments", "limits",
        "keeps", "most_deliveries", "refuses_when_full", "capped", "ttl", "backlog", "unsettled",
        "passed", "published", "delivered", "acked", "redelivered", "due", "gone",
        "lifetime", "created", "watchers", "excluded", "senders", "pending_dead_letters",
        "handover", "reserved", "reserved_octets", "dispatcher", "consumers", "waiting",
        "filtered_waiting", "policy",
    )  # fmt: skip

    def __init__(
        self,
        vhost: QueueHost,
        name: str,
        number: int,
        *,
        durable: bool = False,
        owner: QueueOwner | None = None,
        auto_delete: bool = False,
        arguments: Table | None = None,
        limits: QueueArguments = NO_ARGUMENTS,
        levels: int = 0,
    ) -> None:
        """``levels`` of priority, 0 or one of ``RANKS``, unless an argument says how many."""
        self.vhost = vhost
        self.state: BrokerState = vhost.state
        self.name = name
        self.durable = durable
        self.owner = owner
        self.auto_delete = auto_delete
        self.arguments = arguments or {}
        self.limit(limits)
        self.policy = NO_POLICY
        self.keeps = durable and owner is None and not self.state.volatile
        self.due: int | None = None
        self.gone = False
        self.unsettled = 0
        self.passed = 0
        self.published = 0
        self.delivered = 0
        self.acked = 0
        self.redelivered = 0
        self.created = self.state.now
        self.lifetime = Lifetime(self)
        self.watchers: dict[Watcher, None] = {}
        self.senders: dict[Sender, None] = {}
        self.excluded = ExclusionIndex()
        self.pending_dead_letters: deque[tuple[Entry, str]] = deque()
        """Rejected deliveries for whose dead letters there was no time yet."""
        self.handover: Handover | None = None
        """It is deleted, and its messages are on their way to its dead letter exchange."""
        self.reserved = 0
        """Messages for which there must be room, though they are not there yet."""
        self.reserved_octets = 0
        most = limits.max_priority
        levels = 0 if most is not None else limits.priority_levels or levels
        self.backlog = Backlog(self, number, levels, most)
        self.dispatcher = Dispatcher(self, limits.single_active, not self.refuses_when_full)
        self.consumers = self.dispatcher.consumers
        self.waiting = self.dispatcher.waiting
        self.filtered_waiting = self.dispatcher.filtered_waiting
        """The dispatcher's own: one look-up less for each message."""
        self.lifetime.touch()

    def limit(self, limits: QueueArguments) -> None:
        """Keep to these limits from now on; messages that are there keep their expiry."""
        self.limits = limits
        self.ttl = limits.ttl
        self.most_deliveries = limits.delivery_limit
        self.capped = limits.max_length is not None or limits.max_octets is not None
        self.refuses_when_full = self.capped and limits.overflow.startswith("reject")

    @property
    def depth(self) -> int:
        """Messages that are ready. (Hot paths read ``backlog.depth``.)"""
        return self.backlog.depth

    at_hand = depth
    """Those that can be fetched without asking another broker."""

    @property
    def left(self) -> int:
        """Messages that a fetch has left."""
        return self.backlog.depth

    def more(self) -> bool:
        """Whether messages may still come for a consumer that drains, whose ``end_drain`` is called
        again then."""
        return False

    # --- in -------------------------------------------------------------------------------------

    def put(self, message: Message, origin: object = None) -> int:
        """Take a message: ``TAKEN``, ``KEPT`` or ``REFUSED``. Hot."""
        backlog = self.backlog
        if self.refuses_when_full and self.overflows(len(message.body)):
            if self.limits.overflow == "reject-publish-dlx":
                self.dead_letter(message, "maxlen")
            return REFUSED
        waiting = self.waiting
        if waiting and not backlog.depth and (consumer := waiting[0]).simple:
            if len(waiting) > 1:
                waiting.rotate(-1)
            self.passed += 1
            window = consumer.window
            window.last = tag = window.last + 1
            consumer.deliver(consumer.tag, tag, False, message)
            return TAKEN
        durable, priority, ttl, _, _, expiry = message.essentials
        if (
            waiting
            and not backlog.depth
            and consumer.counted
            and consumer.credit
            and ttl is expiry is self.ttl is None
        ):
            if len(waiting) > 1:
                waiting.rotate(-1)
            self.passed += 1
            consumer.credit -= 1
            window = consumer.window
            window.last = tag = window.last + 1
            consumer.deliver(consumer.tag, tag, False, message)
            return TAKEN
        state = self.state
        self.published += 1
        size = len(message.body)
        weight = len(message.header) + (size if message.body.__class__ is bytes else 0)
        expires = None
        if ttl is not None or self.ttl is not None:
            own = self.ttl
            ttl = LONGEST_TIMER if ttl is None else ttl
            expires = state.now + (ttl if own is None or ttl < own else own)
        if expiry is not None:
            latest = state.now + LONGEST_TIMER if expires is None else expires
            expires = min(expiry, latest)
        keep = durable and self.keeps
        lane = backlog.lane(priority) if backlog.ranked else backlog.lanes[0]
        position = lane.next
        filtered = self.filtered_waiting
        if filtered or (waiting and not backlog.depth):
            dispatcher = self.dispatcher
            if filtered:
                chosen = dispatcher.offer(lane, position, message, origin, False)
            elif len(waiting) > 1 or (chosen := waiting[0]).no_local or not chosen.takes(message):
                chosen = dispatcher.choose(message, origin)
            if chosen is not None:
                lane.next = position + 1
                # What is settled as it goes out was never here, as far as the store is concerned.
                keep = keep and not chosen.no_ack
                if keep:
                    try:
                        state.store.append(lane.number, position, message, expires, True)
                    except Unstorable as reason:
                        self.unstorable(message, reason)
                        return REFUSED
                    if lane.paged:
                        lane.out.add(position)
                state.octets += weight
                chosen.give(Entry(lane, position, message, expires, keep, origin))
                if filtered:
                    dispatcher.show_copies(lane, position, message, origin, False)
                return KEPT if keep else TAKEN
            if dispatcher.refused_by_all(origin):
                self.acked += 1
                return TAKEN
        if (
            expires is not None
            and expires <= state.now
            and (self.vhost.dead_letters.busy or state.drops < state.limits.max_drops)
        ):
            self.acked += 1
            self.dead_letter(message, "expired")
            return TAKEN
        lane.next = position + 1
        if keep:
            try:
                state.store.append(lane.number, position, message, expires, True)
            except Unstorable as reason:
                self.unstorable(message, reason)
                return REFUSED
        budget = state.limits.page_after_octets
        if lane.paged or (
            budget is not None
            and state.octets > budget
            and len(lane.ready) >= state.limits.keep_in_memory
        ):
            if not keep:
                try:
                    state.store.append(lane.number, position, message, expires, False)
                except Unstorable as reason:
                    self.unstorable(message, reason)
                    return REFUSED
            if not lane.paged:
                lane.paged_from = position
            lane.paged += 1
        else:
            lane.ready.append(Entry(lane, position, message, expires, keep, origin))
            state.octets += weight
        backlog.depth += 1
        backlog.octets += size
        if expires is not None:
            state.schedule(self, expires)
        if self.capped:
            self.drop_excess(LEAST_DROPS)
        if filtered:
            self.dispatcher.show_copies(lane, position, message, origin, False)
        if waiting or (filtered and self.dispatcher.short):
            self.dispatcher.drain()
        if self.watchers:
            self.tell(lane.priority, position, message, 0)
        return KEPT if keep else TAKEN

    def put_excluded(self, message: Message, exclusions: Exclusions) -> None:
        """Take a message that the link with these exclusions must not get."""
        backlog = self.backlog
        lane = backlog.lane(message.essentials.priority) if backlog.ranked else backlog.lanes[0]
        position = lane.next
        exclusions.add(lane, position)
        self.put(message)
        if lane.next == position:  # it has expired, or the queue is full
            self.excluded.forget(lane, position)

    def unstorable(self, message: Message, reason: Unstorable) -> None:
        """The store cannot keep this message; it is not taken, and no other pays for it."""
        self.published -= 1
        what = self.vhost.title("queue", self.name)
        self.state.report(f"{message} is refused by {what}: {reason}")

    def lanes_changed(self) -> None:
        """The record of the queue names its lanes."""
        if self.keeps:
            self.vhost.save_queue(self)

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Requeue at their places. Their credit has been taken back already."""
        entries = list(entries)
        self.backlog.octets += sum(len(entry.message.body) for entry in entries)
        self.take_back(in_lanes(entries).items())
        if self.watchers:
            self.tell_all(entries)

    def taking_back(self, lanes: list[tuple[Lane, list[Entry]]], octets: int) -> Iterator[None]:
        """The same as a long operation, of entries that are ascending by position and have so many
        octets of bodies: all of them stand in their places at once."""
        entries = [e for _, found in lanes for e in found] if self.gone or self.watchers else []
        if self.gone:  # meanwhile
            while entries:
                for entry in entries[-PORTION:]:
                    self.unsettled -= 1
                    self.reject(entry, DELETED)
                del entries[-PORTION:]
                yield
            return
        self.backlog.octets += octets
        self.take_back(lanes)
        for first in range(0, len(entries), PORTION):
            yield
            self.tell_all(entries[first : first + PORTION])

    def take_back(self, lanes: Iterable[tuple[Lane, list[Entry]]]) -> None:
        """Entries ascending by position stand in their lanes again."""
        for lane, found in lanes:
            lane.put_back(found)
            self.unsettled -= len(found)
            for consumer in self.dispatcher.filtered:
                assert consumer.cursor is not None
                consumer.cursor.requeued(lane, [entry.position for entry in found])
        self.sweep()
        if self.capped:
            self.drop_excess()
        self.dispatcher.drain()

    def tell_all(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.tell(entry.lane.priority, entry.position, entry.message, entry.deliveries)

    def tell(self, priority: int, position: int, message: Message, deliveries: int) -> None:
        """A message may be ready at this place, unless somebody has taken it meanwhile."""
        for watcher in list(self.watchers):
            watcher.arrived(priority, position, message, deliveries)

    # --- out ------------------------------------------------------------------------------------

    def head(self) -> Entry | None:
        """The next message to go; those that have expired before it are gone then. ``None`` also
        while more of them are left than one turn can drop."""
        backlog, now = self.backlog, self.state.now
        for lane in backlog.lanes:
            while True:
                if not lane.ready:
                    if not lane.paged:
                        break
                    lane.page_in()
                    continue
                entry = lane.ready[0]
                if entry.expires is None or entry.expires > now:
                    return entry
                if self.enough():
                    return None
                backlog.pull(entry)
                self.discard(entry, "expired")
        return None

    def enough(self) -> bool:
        """Whether so much was dropped in this turn that the rest waits for a later one."""
        state = self.state
        if state.drops < state.limits.max_drops:
            return False
        state.schedule(self, state.now + SOON)
        return True

    def take(self) -> Entry | None:
        """Fetch one message; it counts as delivered."""
        self.lifetime.touch()
        entry = self.head()
        if entry is None:
            return None
        self.backlog.pull(entry)
        self.count_delivery(entry)
        return entry

    def count_delivery(self, entry: Entry) -> None:
        """A message was taken past the consumers in line."""
        self.delivered += 1
        if entry.deliveries:
            self.redelivered += 1
        if self.dispatcher.short:
            self.state.schedule(self, self.state.now + SOON)

    def finish(self, entry: Entry) -> None:
        """It is over for this message: settled, or gone for good."""
        self.acked += 1
        message = entry.message
        body = message.body  # its weight, without a call
        self.state.octets -= len(message.header) + (len(body) if body.__class__ is bytes else 0)
        handover = self.handover
        if entry.stored and (not self.gone or handover is not None):
            lane = entry.lane
            self.state.store.remove(lane.number, entry.position)
            if lane.out:
                lane.out.discard(entry.position)
        if self.excluded:
            self.excluded.forget(entry.lane, entry.position)
        if handover is not None:
            handover.end_if_done()

    def discard(self, entry: Entry, reason: str) -> None:
        """It leaves unwanted: to the dead letters if there is such a place."""
        self.state.drops += 1
        wanted = not self.gone or self.handover is not None
        self.finish(entry)
        if wanted:
            origin = entry.origin if reason == DELETED else None
            self.vhost.dead_letters.publish(self, entry.message, reason, origin)

    @property
    def forfeited(self) -> bool:
        """Whether its unsettled messages are gone with it."""
        return self.gone

    @property
    def has_dead_letter_exchange(self) -> bool:
        return self.limits.dead_letter_exchange is not None

    def would_dead_letter(self, message: Message) -> bool:
        """Whether the dead letter exchange would lead a message to another queue."""
        return self.vhost.dead_letters.would_route(self, message)

    def dead_letter(self, message: Message, reason: str) -> None:
        """Publish a message to the dead letter exchange, if there is one."""
        self.vhost.dead_letters.publish(self, message, reason)

    def hold(self, entry: Entry) -> None:
        """A fetched message is unsettled."""
        self.unsettled += 1
        entry.deliveries += 1
        lane = entry.lane
        if entry.stored and entry.position > lane.delivered:
            lane.delivered = entry.position
            self.state.store.delivered(lane.number, entry.position)

    # --- consumers ------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        self.dispatcher.add(consumer)

    def remove_consumer(self, consumer: Consumer, keep_queue: bool = False) -> None:
        """Stop it; its unsettled deliveries stay. May delete the queue unless ``keep_queue``."""
        consumer.stop()
        self.dispatcher.remove(consumer)
        if not self.consumers:
            self.lifetime.touch()
            keep_queue = keep_queue or (self.owner is not None and self.owner.is_session)
            if self.auto_delete and not self.gone and not keep_queue and self.lifetime.abandon():
                return
        self.dispatcher.serve_others()

    # --- too much, too old ----------------------------------------------------------------------

    def overflows(self, size: int, count: int = 1) -> bool:
        """Whether more messages of this many octets in all would be too much."""
        most, octets = self.limits.max_length, self.limits.max_octets
        backlog = self.backlog
        return (most is not None and backlog.depth + self.reserved + count > most) or (
            octets is not None and backlog.octets + self.reserved_octets + size > octets
        )

    def reserve(self, size: int, count: int = 1) -> None:
        """Keep room for messages of this many octets in all that are going to be put; less than
        nothing, to give it free."""
        self.reserved += count
        self.reserved_octets += size

    def reject(self, entry: Entry, reason: str) -> None:
        """A delivery comes back unwanted. It may wait for a later turn, and is in the store as an
        unsettled one until then."""
        wanted = not self.gone or self.handover is not None
        if wanted and self.limits.dead_letter_exchange is not None and self.enough():
            self.pending_dead_letters.append((entry, reason))
        else:
            self.discard(entry, reason)

    def drop_excess(self, least: int = 0) -> None:
        """Drop from the head until the limits hold, or as much as one turn can."""
        most, octets, backlog = self.limits.max_length, self.limits.max_octets, self.backlog
        if self.refuses_when_full:
            return
        while (most is not None and backlog.depth > most) or (
            octets is not None and backlog.octets > octets
        ):
            if self.limits.overflow == SELF_DESTRUCT:
                self.vhost.remove_queue(self)
                return
            if least > 0:
                least -= 1
            elif self.enough():
                return
            entry = self.head()
            if entry is None:
                return
            backlog.pull(entry)
            self.discard(entry, "maxlen")

    def sweep(self) -> None:
        """Drop expired messages at the heads, and schedule the next look."""
        now = self.state.now
        for lane in self.backlog.lanes:
            while lane.ready or lane.paged:
                if not lane.ready:
                    lane.page_in()
                    continue
                entry = lane.ready[0]
                if entry.expires is None:
                    break
                if entry.expires > now:
                    self.state.schedule(self, entry.expires)
                    break
                if self.enough():
                    return
                self.backlog.pull(entry)
                self.discard(entry, "expired")

    def on_due(self) -> None:
        if self.gone:
            if self.handover is not None:
                self.handover.work(self.vhost.dead_letters.busy)
            return
        if self.lifetime.over():
            return
        while self.pending_dead_letters and not self.enough():
            self.discard(*self.pending_dead_letters.popleft())
        self.sweep()
        if self.capped:
            self.drop_excess()
        if self.backlog.depth and self.waiting:
            self.dispatcher.drain()
            for consumer in [c for c in self.consumers if c.draining is not None]:
                consumer.end_drain()
        if self.filtered_waiting:
            self.dispatcher.go_on()

    def end(self) -> None:
        """Delete it."""
        self.vhost.remove_queue(self)

    def purge(self) -> int:
        """Drop everything that is ready; how many there were."""
        for lane, position in list(self.excluded):
            assert isinstance(lane, Lane)
            if lane.at(position) is not None:
                self.excluded.forget(lane, position)
        count = self.backlog.purge()
        self.acked += count
        return count

    def could_deliver(self, message: Message, origin: object) -> bool:
        """Whether a message put now would go to a consumer at once."""
        if not self.backlog.depth and any(
            c.takes(message) and not c.refuses(origin) for c in self.waiting
        ):
            return True
        return self.dispatcher.wanted_now(message, origin)
