"""Consumers with their credit, and the window of unsettled deliveries shared by those of a channel.

A consumer that has run out of credit is found out when its turn comes and leaves its queue's line;
it is woken when one of its deliveries is settled.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice, takewhile
from operator import lt
from typing import Protocol

from gateway.broker.cursors import Cursor
from gateway.broker.exclusions import ExcludingQueue, Exclusions
from gateway.broker.lanes import Deliver, DeliverRun, Entry, Holder
from gateway.broker.long_operations import PORTION
from gateway.broker.state import SOON, BrokerState, Timed
from gateway.errors import Condition, Refusal
from gateway.message import ExpiringMessage, Message, Table

MOST_STALE = 1000
"""Numbers of settled deliveries that an index may hold before it is rebuilt."""


Measure = Callable[[Message], int]
"""Octets that a delivery of a message takes of the credit in octets."""


def weight(message: Message) -> int:
    """Octets of header and body."""
    return len(message.header) + len(message.body)


class ConsumerLines(Protocol):
    """The lines of consumers that wait for messages of a queue."""

    def enlist(self, consumer: "Consumer") -> None: ...
    def delist(self, consumer: "Consumer") -> None: ...
    def reconsider(self, changed: "Consumer") -> None: ...


class ConsumedQueue(ExcludingQueue, Timed, Protocol):
    """The queue of a consumer."""

    state: BrokerState
    ttl: int | None

    @property
    def depth(self) -> int: ...

    def more(self) -> bool: ...

    @property
    def dispatcher(self) -> ConsumerLines: ...

    def remove_consumer(self, consumer: "Consumer", keep_queue: bool = False) -> None: ...
    def put(self, message: Message) -> int: ...
    def put_excluded(self, message: Message, exclusions: Exclusions) -> None: ...
    def would_dead_letter(self, message: Message) -> bool: ...
    def dead_letter(self, message: Message, reason: str) -> None: ...


class Consumer:
    """One subscription. ``simple`` consumers settle each message when it is sent and take any
    message, so that the direct way needs no checks; ``counted`` ones have a credit in messages, and
    are as simple while they have some and no message expires. The dispatcher decides both.

    ``credit`` is how many deliveries it may still get, settled or not; ``None`` is no such limit.
    ``octet_credit``, which only counts beside a ``credit``, is how many octets these may have, as
    ``measure`` counts those of a message.
    ``draining``, set while it is using up its credit at once, is called with the credit left over.
    With a ``cursor`` it takes the messages that its filter passes, or gets copies."""

    __slots__ = (
        "tag", "queue", "window", "deliver", "cancelled", "no_ack", "exclusive", "no_local",
        "origin", "priority", "limit", "size", "held", "octets", "simple", "waiting", "started",
        "arguments", "credit", "octet_credit", "measure", "draining", "cursor", "remaining_ttl",
        "counted", "deliver_run",
    )  # fmt: skip

    def __init__(
        self,
        tag: str,
        queue: ConsumedQueue,
        window: "Window",
        deliver: Deliver,
        cancelled: Callable[[str], None],
        *,
        no_ack: bool,
        exclusive: bool,
        no_local: bool,
        origin: object,
        priority: int,
        limit: int,
        size: int,
        arguments: Table,
        credit: int | None = None,
        cursor: Cursor | None = None,
        remaining_ttl: bool = False,
        measure: Measure | None = None,
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.window = window
        self.deliver = deliver
        self.deliver_run: DeliverRun | None = None
        """Hands over many at once, where the recipient can."""
        self.cancelled = cancelled
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.no_local = no_local
        self.origin = origin
        self.priority = priority
        self.limit = limit
        self.size = size
        self.held = 0
        self.octets = 0
        self.simple = False
        self.counted = False
        self.waiting = False
        self.started = False
        self.arguments = arguments
        self.credit = credit
        self.octet_credit: int | None = None
        self.measure = measure or weight
        self.draining: Callable[[int], None] | None = None
        self.cursor = cursor
        self.remaining_ttl = remaining_ttl
        """Its messages come with the rest of their time to live."""

    @property
    def copies(self) -> bool:
        """It gets copies and takes nothing from others."""
        return self.cursor is not None and self.cursor.copies is not None

    def blocked(self) -> bool:
        """No credit for any message."""
        window, credit = self.window, self.credit
        if not window.open or credit == 0 or (credit is not None and self.octet_credit == 0):
            return True
        if self.no_ack:
            return False
        return (
            0 < self.limit <= self.held
            or 0 < window.limit <= window.held
            or 0 < self.size <= self.octets
            or 0 < window.size <= window.octets
        )

    def takes(self, message: Message) -> bool:
        """Whether there is credit for this message. Hot."""
        window, credit = self.window, self.credit
        if not window.open or credit == 0:
            return False
        if credit is not None and self.octet_credit is not None and not self.affords(message):
            return False
        if self.no_ack:
            return True
        if 0 < self.limit <= self.held or 0 < window.limit <= window.held:
            return False
        return not (self.size or window.size) or self.fits(message)

    def affords(self, message: Message) -> bool:
        """Whether the credit in octets is enough for the whole message."""
        if self.remaining_ttl and not self.copies:
            _, _, ttl, _, _, expiry = message.essentials
            if ttl is not None or expiry is not None or self.queue.ttl is not None:
                message = ExpiringMessage(message, 0)
        return self.measure(message) <= (self.octet_credit or 0)

    def fits(self, message: Message) -> bool:
        """Whether the octet limits allow this message. One that is larger than the limit goes
        out when nothing else is held, or it never would."""
        size = len(message.body)
        window = self.window
        if self.size and self.octets and self.octets + size > self.size:
            return False
        return not (window.size and window.octets and window.octets + size > window.size)

    def refuses(self, origin: object) -> bool:
        """Whether a message was published over its own connection and it is ``no_local``."""
        return self.no_local and origin is not None and origin is self.origin

    def give(self, entry: Entry) -> None:
        """Hand over; credit has been looked at. Hot: state is complete before ``deliver``."""
        window = self.window
        window.last = tag = window.last + 1
        lane = entry.lane
        queue = lane.queue
        queue.delivered += 1
        redelivered = entry.deliveries > 0
        if redelivered:
            queue.redelivered += 1
        message = entry.message
        size = len(message.body)
        if entry.expires is not None and self.remaining_ttl:
            message = ExpiringMessage(message, entry.expires - queue.state.now)
        if self.credit is not None:
            self.credit -= 1
            if self.octet_credit is not None:
                self.octet_credit = max(self.octet_credit - self.measure(message), 0)
        if self.no_ack:
            queue.finish(entry)
        else:
            if entry.stored and entry.position > lane.delivered:
                lane.delivered = entry.position
                queue.state.store.delivered(lane.number, entry.position)
            entry.deliveries += 1
            window.unsettled[tag] = entry
            entry.consumer = self  # ``hold``, without a call
            self.held += 1
            self.octets += size
            window.held += 1
            window.octets += size
            queue.unsettled += 1
        self.deliver(self.tag, tag, redelivered, message)

    def hold(self, entry: Entry) -> None:
        """Count a delivery that is unsettled."""
        entry.consumer = self
        size = len(entry.message.body)
        self.held += 1
        self.octets += size
        self.window.held += 1
        self.window.octets += size

    def release(self, entry: Entry) -> None:
        """Take back the credit of a delivery that is settled."""
        entry.consumer = None
        size = len(entry.message.body)
        self.held -= 1
        self.octets -= size
        self.window.held -= 1
        self.window.octets -= size

    def wake(self) -> None:
        """Stand in line if there is credit."""
        if self.started and not self.waiting and not self.blocked():
            self.queue.dispatcher.enlist(self)
        if self.draining is not None:
            self.end_drain()

    def rest(self) -> None:
        """Leave the line."""
        if self.waiting:
            self.waiting = False
            self.queue.dispatcher.delist(self)

    def stop(self) -> None:
        """It is over: nothing more is delivered."""
        self.started = False
        self.rest()
        if self.draining is not None:
            self.drop_credit()

    def end_drain(self) -> None:
        """Drop the credit left after ``drain``, unless something more may go out for it: while
        nothing goes out at all, or not everything has been looked at."""
        if self.draining is None or not self.window.open:
            return
        if not self.waiting or not (self.late() if self.cursor is None else self.cursor.behind):
            self.drop_credit()

    def late(self) -> bool:
        """Whether it may get more in a later turn, as this one has handed out enough."""
        queue = self.queue
        state = queue.state
        if not queue.depth or state.given < state.limits.max_deliveries:
            return queue.more()
        state.schedule(queue, state.now + SOON)
        return True

    def exclusions(self, given: Exclusions | None = None) -> Exclusions:
        """The messages that it does not get: it takes its messages with a cursor from now on.
        ``given`` are those that it is to have if it has none. It must be woken afterwards."""
        cursor = self.cursor
        if cursor is None:
            self.rest()
            cursor = self.cursor = Cursor(None, None)
            self.queue.dispatcher.reconsider(self)
        if cursor.exclusions is None:
            cursor.exclusions = given or Exclusions(self.queue.excluded)
        return cursor.exclusions

    def share_exclusions(self, whole: Exclusions) -> None:
        """It has these from now on; its earlier exclusions count for all that share them. It must
        be woken afterwards."""
        old = self.exclusions(whole)
        if old is not whole:
            for lane, position in old.places:
                whole.add(lane, position)
            old.clear()
            assert self.cursor is not None
            self.cursor.exclusions = whole

    def exclude(self, entry: Entry) -> None:
        """It does not get this message again."""
        self.exclusions().add(entry.lane, entry.position)

    def check_exclusions(self) -> None:
        """Refuses (506) one more exclusion if there are too many."""
        if self.cursor is not None and self.cursor.exclusions is not None:
            self.cursor.exclusions.check()

    def drop_credit(self) -> None:
        left, told = self.credit or 0, self.draining
        self.credit, self.octet_credit, self.draining = 0, None, None
        self.simple = False
        self.rest()
        if told is not None:
            told(left)


class UnsettledIndex:
    """Numbers of unsettled deliveries by consumer, gathered when a consumer gives up its
    deliveries, so that a thousand consumers that do so do not search all deliveries a thousand
    times. Channels whose consumers do not pay nothing for it."""

    __slots__ = ("numbers", "last", "count")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.numbers: dict[Holder, list[int]] = {}
        self.last = 0
        """Deliveries up to this one are indexed."""
        self.count = 0

    def take(self, consumer: Consumer, unsettled: dict[int, Entry]) -> list[int]:
        """Numbers of deliveries to this consumer, ascending; some may be settled. ``unsettled`` is
        in the order of numbers."""
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
        """Forget the numbers of this consumer, and give them to the caller."""
        found = self.numbers.pop(consumer, [])
        self.count -= len(found)
        return found


class Window:
    """Unsettled deliveries of one channel by tag, and the limits over all its consumers.

    ``held`` and ``octets`` count deliveries to consumers, not fetched messages. ``open``
    is false while the peer is ``paused`` or has stopped the flow, its channel's ``output_full``, or
    settlements that take several turns keep it ``busy`` (how many).
    """

    __slots__ = (
        "last", "unsettled", "held", "octets", "limit", "size", "open", "consumers",
        "flowing", "paused", "output_full", "closed", "busy", "index",
    )  # fmt: skip

    def __init__(self) -> None:
        self.last = 0
        self.unsettled: dict[int, Entry] = {}
        self.held = 0
        self.octets = 0
        self.limit = 0
        self.size = 0
        self.open = True
        self.flowing = True
        self.paused = self.output_full = self.closed = False
        self.busy = 0
        self.consumers: dict[str, Consumer] = {}
        self.index = UnsettledIndex()

    def reopen(self) -> None:
        """One of the conditions for ``open`` has changed."""
        shut = self.paused or self.output_full or self.closed or self.busy
        now_open = self.flowing and not shut
        if now_open == self.open:
            return
        self.open = now_open
        if now_open:
            self.wake()
        else:
            self.halt()

    def wake(self) -> None:
        """Deliveries may go out again."""
        for consumer in list(self.consumers.values()):
            consumer.wake()

    def halt(self) -> None:
        """No deliveries may go out: the direct way must find no consumer waiting."""
        for consumer in self.consumers.values():
            consumer.rest()

    def take_up_to(self, delivery: int) -> tuple[list[int], list[Entry]]:
        """Take all unsettled up to a tag, 0 for all there are. Two lists, as a pair for each would
        be garbage collected meanwhile."""
        unsettled = self.unsettled
        if delivery == 0 or delivery == next(reversed(unsettled), 0):
            tags, entries = list(unsettled), list(unsettled.values())
            unsettled.clear()
            return tags, entries
        if delivery not in unsettled:
            raise unknown_tag(delivery)
        tags = []
        for tag in unsettled:
            if tag > delivery:
                break
            tags.append(tag)
        return tags, [unsettled.pop(tag) for tag in tags]

    def take(self, deliveries: list[int]) -> list[Entry]:
        """Take these. Refuses (406) an unknown tag before it takes any."""
        unsettled = self.unsettled
        if not all(map(unsettled.__contains__, deliveries)):
            raise unknown_tag(next(each for each in deliveries if each not in unsettled))
        return list(map(unsettled.pop, deliveries))

    def take_from(self, consumer: Consumer) -> dict[int, Entry]:
        """Take all unsettled deliveries to one consumer, ascending; they still count for it."""
        unsettled = self.unsettled
        if consumer.held > PORTION:
            self.index.drop(consumer)
            found = {n: entry for n, entry in unsettled.items() if entry.consumer is consumer}
        else:
            numbers = self.index.take(consumer, unsettled)
            found = {n: unsettled[n] for n in numbers if n in unsettled}
        if len(found) == len(unsettled):
            unsettled.clear()
        for number in found if unsettled else ():
            del unsettled[number]
        return found

    def hold(self, entry: Entry) -> int:
        """One more unsettled delivery; its tag."""
        self.last = tag = self.last + 1
        self.unsettled[tag] = entry
        return tag

    def unsettled_entry(self, delivery: int) -> Entry:
        """Refuses an unknown tag with 406."""
        entry = self.unsettled.get(delivery)
        if entry is None:
            raise unknown_tag(delivery)
        return entry

    def restore(self, tags: list[int], entries: list[Entry]) -> None:
        """These are unsettled again. Settling up to a tag relies on ascending tags."""
        self.index.clear()
        unsettled = self.unsettled
        ascending = not unsettled or not tags or tags[-1] < next(iter(unsettled))
        if ascending:
            later = unsettled.copy()
            unsettled.clear()
            unsettled.update(zip(tags, entries, strict=True))
            unsettled.update(later)
            ascending = all(map(lt, tags, islice(tags, 1, None)))
        else:
            unsettled.update(zip(tags, entries, strict=True))
        if not ascending:
            sorted_tags = sorted(unsettled)
            found = [unsettled[tag] for tag in sorted_tags]
            unsettled.clear()
            unsettled.update(zip(sorted_tags, found, strict=True))

    def restoring(self, portions: Iterable[tuple[list[int], list[Entry]]]) -> Iterator[None]:
        """The same as a long operation: a portion is unsettled again as soon as it is taken from
        ``portions``, and at the end all tags are brought into order. Nothing is delivered
        meanwhile."""
        self.busy += 1
        self.reopen()
        try:
            self.index.clear()
            unsettled = self.unsettled
            runs = [list(unsettled)]
            for tags, entries in portions:
                unsettled.update(zip(tags, entries, strict=True))
                runs.append(sorted(tags))
                yield
            for count, tag in enumerate(merge(*runs), 1):
                entry = unsettled.pop(tag, None)
                if entry is not None:  # or it was settled meanwhile
                    unsettled[tag] = entry
                if count % PORTION == 0:
                    yield
        finally:
            self.busy -= 1
            self.reopen()


def unknown_tag(delivery: int) -> Refusal:
    return Refusal(Condition.PRECONDITION_FAILED, f"unknown delivery tag {delivery}")
