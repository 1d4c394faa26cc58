"""A receive that wants certain messages only: of a filter, of a group, or not delivered too often.

Ready messages are searched in portions, one per turn, from the head of the queue on; a message that
matches is taken from its place, any other stays there. Then each message that becomes ready is
checked, and taken if it matches, until the time is up.
"""

from typing import NamedTuple, Protocol

from gateway.broker.browsing import Place, browse
from gateway.broker.queues import Queue
from gateway.broker.state import BrokerState
from gateway.http.filters import Filter
from gateway.http.receive.requests import LONGEST_WAIT, Receive
from gateway.http.receive.waiting import Alarm, Taken
from gateway.message import Message
from gateway.selector.like import EFFORT

PORTION = 500
"""Messages looked at in one turn."""
PORTION_OCTETS = 4 * 1024 * 1024
PORTION_STEPS = 4_000_000
"""Steps of a selector's patterns in one turn, after which no other message is looked at."""


class Wanted(NamedTuple):
    """What passes ``filter``. ``most_deliveries``: of what was delivered so often already, no
    more."""

    filter: Filter
    most_deliveries: int | None

    def takes(self, message: Message) -> bool:
        return not self.filter or self.filter.passes(message)

    def poisoned(self, deliveries: int) -> bool:
        return self.most_deliveries is not None and deliveries >= self.most_deliveries


def wanted_of(asked: Receive) -> Wanted | None:
    """``None`` if anything will do."""
    conditions = asked.wanted()
    if not conditions and asked.max_deliveries is None:
        return None
    return Wanted(conditions, asked.max_deliveries)


class Channel(Protocol):
    """The part of a ``ReceiveChannel`` that a search uses."""

    @property
    def state(self) -> BrokerState: ...

    @property
    def dead(self) -> bool: ...

    def readable(self, queue: str) -> Queue: ...

    def pick(self, queue: Queue, place: Place) -> Taken | None: ...

    def dead_letter(self, queue: Queue, place: Place) -> None: ...


class Seeking:
    """A caller who seeks up to ``most`` messages and ``octets`` of bodies (but one in any case).
    A watcher of the queue. Use within a turn; ``ReceiveChannel.stop`` ends it."""

    def __init__(
        self,
        receive_channel: Channel,
        queue: str,
        wanted: Wanted,
        most: int,
        octets: int,
        wait_ms: int,
    ) -> None:
        """Raises ``Refusal``."""
        self.receive_channel = receive_channel
        self.wanted = wanted
        self.most = most
        self.octets = octets
        state = receive_channel.state
        self.until = state.now + wait_ms
        self.taken: list[Taken] = []
        self.gone = False
        self.searching = True
        self.after: Place | None = None
        self.queue = receive_channel.readable(queue)
        self.left = self.queue.depth
        self.queue.touch()
        self.queue.watchers[self] = None
        # A search is not cut by the wait: what is far behind would never be found.
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
        if not self.wanted.takes(message):
            return
        if self.wanted.poisoned(deliveries):
            self.receive_channel.dead_letter(self.queue, place)
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
            return  # the search will come to it
        self.consider(place, message, deliveries)
        if self.taken:
            self.alarm.ring()

    def queue_gone(self) -> None:
        self.gone = True
        self.alarm.ring()


def behind(place: Place, other: Place) -> bool:
    return (-place.priority, place.position) > (-other.priority, other.position)
