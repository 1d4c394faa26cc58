"""Channels of the gateway that take messages out of queues for HTTP callers.

There is one per virtual host and user. Ready messages are fetched at once. A consumer exists only
while a caller waits, with a prefetch of as many messages as the caller asked for, so that no
message is held here without a caller.

A receive that wants certain messages only (of a filter, of a group, or not delivered too often)
seeks them: ready messages are searched in portions, one per turn, from the head of the queue on; a
message that matches is taken from its place, any other stays there. Then each message that becomes
ready is checked, and taken if it matches, until the time is up.
"""

from collections import Counter
from dataclasses import dataclass, field

from gateway.broker.broker import Broker
from gateway.broker.browsing import Place, browse, discard
from gateway.broker.local import LocalClient
from gateway.broker.queues import Queue
from gateway.http.filters import Filter
from gateway.http.receive.requests import LONGEST_WAIT, Receive
from gateway.http.receive.waiting import Alarm
from gateway.message import Message, Table
from gateway.operations import Outcome
from gateway.selector.like import EFFORT

POISON = "delivery_limit"
"""Reason in ``x-death`` of a message that was delivered too often."""
PORTION = 500
"""Messages looked at in one turn."""
PORTION_OCTETS = 4 * 1024 * 1024
PORTION_STEPS = 4_000_000
"""Steps of a selector's patterns in one turn, after which no other message is looked at."""


@dataclass(slots=True, eq=False)
class TakenMessage:
    """One unsettled delivery. ``count``: which delivery of the message this is, from 1."""

    delivery: int
    count: int
    message: Message


@dataclass(slots=True, eq=False)
class PendingReceive:
    """A caller that waits for messages. ``alarm`` rings when some have come, when the time is up,
    or when there will be none."""

    tag: str
    alarm: Alarm
    taken: list[TakenMessage] = field(default_factory=list)
    gone: bool = False


@dataclass(slots=True, eq=False)
class FilteredReceive:
    """A caller that seeks up to ``most`` messages that pass ``filter``, and ``octets`` of bodies
    (but one in any case). Messages that were delivered ``most_deliveries`` times already are
    dead-lettered instead of being taken. A watcher of the queue. Use within a turn;
    ``ReceiveChannel.stop`` ends it."""

    receive_channel: "ReceiveChannel"
    queue: Queue
    filter: Filter
    most_deliveries: int | None
    most: int
    octets: int
    until: int
    taken: list[TakenMessage] = field(default_factory=list)
    gone: bool = False
    searching: bool = True
    after: Place | None = None
    left: int = field(init=False)
    alarm: Alarm = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.queue.depth
        self.queue.lifetime.touch()
        self.queue.watchers[self] = None
        state = self.receive_channel.state
        # A search is not cut by the wait: a message far behind would never be found.
        self.alarm = Alarm(state, max(self.until, state.now + LONGEST_WAIT))

    @property
    def full(self) -> bool:
        return len(self.taken) >= self.most or (self.octets <= 0 and bool(self.taken))

    def look(self) -> None:
        """At the next portion. Ends the search when something was found, or nothing is left."""
        if not self.searching or self.receive_channel.dead or self.gone:
            return
        most = min(PORTION, self.left)
        seen = browse(self.queue, self.after, most, PORTION_OCTETS) if most else []
        end = EFFORT.steps + PORTION_STEPS
        for one in seen:
            self.after = one.place
            self.left -= 1
            self.consider(one.place, one.message, one.deliveries)
            if self.full or EFFORT.steps > end:
                break
        if self.taken or not seen or self.left <= 0:
            self.searched()

    def searched(self) -> None:
        self.searching = False
        state = self.receive_channel.state
        if self.taken or state.now >= self.until:
            self.alarm.ring()
        else:
            self.alarm.when = self.until
            state.schedule(self.alarm, self.until)

    def consider(self, place: Place, message: Message, deliveries: int) -> None:
        if self.filter and not self.filter.passes(message):
            return
        if self.most_deliveries is not None and deliveries >= self.most_deliveries:
            if discard(self.queue, place, POISON):  # it has dead letters
                self.receive_channel.tally[POISON] += 1
        elif (taken := self.receive_channel.pick(self.queue, place)) is not None:
            self.taken.append(taken)
            self.octets -= len(message.body)

    def leave(self) -> None:
        self.queue.watchers.pop(self, None)

    # --- watcher --------------------------------------------------------------------------------

    def arrived(self, priority: int, position: int, message: Message, deliveries: int) -> None:
        if self.full or self.receive_channel.dead:
            return
        place = Place(priority, position)
        if self.searching and (self.after is None or behind(place, self.after)):
            self.left += 1  # the search will come to it
            return
        self.consider(place, message, deliveries)
        if self.taken:
            self.alarm.ring()

    def queue_gone(self) -> None:
        self.gone = True
        self.alarm.ring()


def behind(place: Place, other: Place) -> bool:
    return (-place.priority, place.position) > (-other.priority, other.position)


Wait = PendingReceive | FilteredReceive


class ReceiveChannel:
    """One channel, its deliveries and waiting callers. The channel's subscriber. Use within a
    turn."""

    def __init__(self, broker: Broker, vhost: str, user: str, tally: Counter[str]) -> None:
        self.state = broker.state
        self.tally = tally
        self.waiting: dict[str, PendingReceive] = {}
        self.seeking: dict[FilteredReceive, None] = {}
        self.client = LocalClient(broker, vhost, user, f"HTTP receiver of {user}")
        self.channel = self.client.channel(self)

    @property
    def dead(self) -> bool:
        """Ended with its virtual host."""
        return self.client.closed

    @property
    def waits(self) -> int:
        return len(self.waiting) + len(self.seeking)

    def fetch(self, queue: str, most: int, octets: int) -> list[TakenMessage]:
        """Messages at hand: up to so many, and so many octets but for the first. Raises
        ``Refusal``; then nothing was taken."""
        channel = self.channel
        found: list[TakenMessage] = []
        while len(found) < most and (octets > 0 or not found):
            if found and not channel.at_hand(queue):
                break  # a message that another broker is asked for would come behind the answer
            got = channel.fetch(queue)
            if got is None:
                break
            octets -= len(got.message.body)
            found.append(self.taken(got.delivery, got.message))
        return found

    def taken(self, delivery: int, message: Message) -> TakenMessage:
        return TakenMessage(delivery, self.channel.delivery_count(delivery) + 1, message)

    def wait(self, queue: str, most: int, octets: int, until: int) -> PendingReceive:
        """Become a consumer for as long as nothing has come. Raises ``Refusal``."""
        channel = self.channel
        channel.prefetch(most, octets)
        tag = channel.subscribe(queue)
        waiting = self.waiting[tag] = PendingReceive(tag, Alarm(self.state, until))
        channel.start(tag)
        return waiting

    def seek(
        self, queue: str, wanted: Filter, asked: Receive, most: int, octets: int
    ) -> FilteredReceive:
        """Look for certain messages, and wait for them. Raises ``Refusal``."""
        readable, until = self.channel.browsable(queue), self.state.now + asked.wait_ms
        seeking = FilteredReceive(self, readable, wanted, asked.max_deliveries, most, octets, until)
        self.seeking[seeking] = None
        seeking.look()
        return seeking

    def pick(self, queue: Queue, place: Place) -> TakenMessage | None:
        """The message at a place, if it is ready there."""
        got = self.channel.pick(queue, place)
        return None if got is None else self.taken(got.delivery, got.message)

    def stop(self, waiting: Wait) -> list[TakenMessage]:
        """End the wait; the messages that have come."""
        if isinstance(waiting, FilteredReceive):
            self.seeking.pop(waiting, None)
            waiting.leave()
        elif self.waiting.pop(waiting.tag, None) is not None and not self.dead:
            self.channel.unsubscribe(waiting.tag, keep_queue=True)
        return waiting.taken

    def settle(self, delivery: int, outcome: Outcome, notes: Table | None = None) -> None:
        """Nothing happens if the delivery is gone."""
        self.channel.settle(delivery, outcome, notes)

    def held(self, delivery: int) -> Message | None:
        return self.channel.unsettled(delivery)

    def undeliverable_here(self, delivery: int) -> Outcome | None:
        """The dead letters, if a rejected delivery would come to another queue. All receivers of
        a user take from this channel, so none of them can be excluded."""
        return Outcome.REJECT if self.channel.would_dead_letter(delivery) else None

    def close(self) -> None:
        """Everything unsettled goes back."""
        for waiting in self.waiting.values():
            waiting.alarm.ring()
        for seeking in self.seeking:
            seeking.leave()
            seeking.alarm.ring()
        self.client.close()

    # --- subscriber -----------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        waiting = self.waiting[consumer]
        waiting.taken.append(self.taken(delivery, message))
        waiting.alarm.ring()

    def cancelled(self, tag: str) -> None:
        waiting = self.waiting.pop(tag, None)
        if waiting is not None:
            waiting.gone = True
            waiting.alarm.ring()


class ReceiveChannels:
    """All of them, by virtual host and user."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.tally: Counter[str] = Counter()
        """How many messages were found to be poison since the start."""
        self.by_user: dict[tuple[str, str], ReceiveChannel] = {}

    def of(self, vhost: str, user: str) -> ReceiveChannel:
        """Within a turn. Raises ``Refusal``."""
        known = self.by_user.get((vhost, user))
        if known is not None and not known.dead:
            return known
        if known is not None:
            known.close()
        made = self.by_user[vhost, user] = ReceiveChannel(self.broker, vhost, user, self.tally)
        return made

    def waiting(self, user: str) -> int:
        """How many callers of a user wait now."""
        return sum(one.waits for (_, name), one in self.by_user.items() if name == user)

    def close(self) -> None:
        for receive_channel in self.by_user.values():
            receive_channel.close()
        self.by_user.clear()
