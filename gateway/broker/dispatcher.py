"""Dispatch of the messages of one queue to its consumers, in turns.

A queue's consumers that may take a message now wait in a line, higher priorities first.

Consumers with a filter or exclusions, and those that get copies, have a cursor and a line of their
own. A message that is put is shown to those that have looked at everything before it. The others
look at the messages one by one from their cursor on, in memory or paged out, and take (or copy)
those that they want. One turn of the loop looks at ``Limits.max_looks`` messages at most, and the
rest in later turns. A look that costs more, since the filter has a hard pattern or the message many
properties, counts as several.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Protocol, cast

from gateway.broker.backlog import Backlog
from gateway.broker.consumers import Consumer
from gateway.broker.cursors import Cursor
from gateway.broker.groups import Groups
from gateway.broker.lanes import Copy, Entry, Lane, by_position
from gateway.broker.state import SOON, BrokerState, Timed
from gateway.broker.store import StoredMessage
from gateway.message import Message
from gateway.selector.like import EFFORT

PAUSE = 2
"""Milliseconds until the consumers that are behind continue."""

STEPS_OF_A_LOOK = 11
"""So many steps of patterns, as a power of two, cost about as much as to look at a message."""
OCTETS_OF_A_LOOK = 9
"""So many octets of properties, as a power of two, cost that too."""
INDEX_OF_A_LOOK = 19
"""And so does an index into the middle of a deque of so many messages."""


class DispatchedQueue(Timed, Protocol):
    """The queue whose messages are dispatched."""

    state: BrokerState
    backlog: Backlog

    def head(self) -> Entry | None: ...
    def finish(self, entry: Entry) -> None: ...


class Dispatcher:
    """``consumers`` are all of the queue; ``waiting`` those in line with credit. ``active`` is the
    only one served while there can be but one (``single_active``).

    Those with a cursor are ``filtered``, and wait in ``filtered_waiting``. ``plain_turn``: the last
    message that both lines wanted went to the line of the others. ``ranked``: some have a priority.
    ``direct``: consumers may be simple, as the queue never refuses a message. ``short``: some in
    line have too little credit in octets for the message that is ready."""

    __slots__ = (
        "queue", "backlog", "state", "single_active", "direct", "consumers", "waiting", "active",
        "ranked", "filtered", "filtered_waiting", "plain_turn", "short", "groups",
    )  # fmt: skip

    def __init__(self, queue: DispatchedQueue, single_active: bool, direct: bool) -> None:
        self.queue = queue
        self.backlog = queue.backlog
        self.state = queue.state
        self.single_active = single_active
        self.direct = direct
        self.consumers: list[Consumer] = []
        self.waiting: deque[Consumer] = deque()
        self.active: Consumer | None = None
        self.ranked = False
        self.filtered: list[Consumer] = []
        self.filtered_waiting: deque[Consumer] = deque()
        self.plain_turn = False
        self.short = False
        self.groups: Groups | None = None
        """If there are any, all consumers that take messages have a cursor."""

    # --- consumers ------------------------------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        if self.single_active and self.active is None and not consumer.copies:
            self.active = consumer
        self.reconsider(consumer)

    def remove(self, consumer: Consumer) -> None:
        """It has been stopped."""
        self.consumers.remove(consumer)
        if self.active is consumer:
            takers = (c for c in self.consumers if not c.copies)
            self.active = max(takers, key=lambda c: c.priority, default=None)
        self.reconsider(consumer)

    def serve_others(self) -> None:
        """A consumer has gone: the next may be active, and a message that only the one that left
        would have taken may be refused by all now."""
        if self.active is not None:
            self.active.wake()
        if self.backlog.depth and (self.waiting or self.filtered_waiting):
            self.drain()

    def reconsider(self, changed: Consumer) -> None:
        """A consumer has come or gone, or its messages have changed: decide which consumers are
        simple. It affects the others only by a priority or a cursor."""
        touched = [changed]
        if changed.priority or changed.cursor is not None:
            touched = self.consumers
            self.ranked = any(consumer.priority for consumer in touched)
            self.filtered = [consumer for consumer in touched if consumer.cursor is not None]
        simple = self.direct and not self.ranked and not self.filtered
        for consumer in touched:
            plain = simple and consumer.no_ack and not consumer.no_local
            limited = consumer.credit is not None
            consumer.simple = plain and not limited
            consumer.counted = plain and limited and consumer.octet_credit is None

    def set_direct(self, direct: bool) -> None:
        """Whether the queue never refuses a message, from now on."""
        if direct != self.direct:
            self.direct = direct
            for consumer in self.consumers:
                self.reconsider(consumer)

    # --- lines ----------------------------------------------------------------------------------

    def enlist(self, consumer: Consumer) -> None:
        """A consumer with credit wants to be served."""
        if self.active is not None and self.active is not consumer and not consumer.copies:
            return
        consumer.waiting = True
        self.stand(consumer)
        if consumer.cursor is not None:
            consumer.cursor.behind = self.backlog.depth > 0
        if self.backlog.depth:
            self.drain()

    def delist(self, consumer: Consumer) -> None:
        """A consumer leaves its line."""
        self.line(consumer).remove(consumer)

    def line(self, consumer: Consumer) -> deque[Consumer]:
        """The line in which a consumer waits."""
        return self.waiting if consumer.cursor is None else self.filtered_waiting

    def choose(self, message: Message, origin: object) -> Consumer | None:
        """The next in line that can take this message; it goes to the end of the line."""
        waiting = self.waiting
        refused: list[Consumer] = []
        chosen = None
        while waiting:
            consumer = waiting[0]
            if not consumer.takes(message):
                waiting.popleft()
                if self.wants_smaller(consumer):
                    refused.append(consumer)
                else:
                    consumer.waiting = False
            elif consumer.no_local and consumer.refuses(origin):
                refused.append(waiting.popleft())
            else:
                chosen = consumer
                break
        if chosen is not None:
            if self.ranked:
                waiting.popleft()
                self.stand(chosen)
            elif len(waiting) > 1:
                waiting.rotate(-1)
        for consumer in refused:
            self.stand(consumer)
        return chosen

    def wants_smaller(self, consumer: Consumer) -> bool:
        """Whether a consumer that cannot take a message stays in line: its credit in octets may be
        enough for the next one."""
        if consumer.octet_credit is None or consumer.draining is not None or consumer.blocked():
            return False
        self.short = True
        return True

    def stand(self, consumer: Consumer) -> None:
        """Line up behind the consumers of the same or a higher priority."""
        line = self.line(consumer)
        at = next((i for i, c in enumerate(line) if c.priority < consumer.priority), None)
        if at is None:
            line.append(consumer)
        else:
            line.insert(at, consumer)

    def refused_by_all(self, origin: object) -> bool:
        """Whether every consumer asked for no messages of this origin (no-local)."""
        takers = [consumer for consumer in self.consumers if not consumer.copies]
        return bool(takers) and all(consumer.refuses(origin) for consumer in takers)

    # --- dispatch -------------------------------------------------------------------------------

    def drain(self) -> None:
        """Give the ready messages to the consumers in line, or as many as one turn allows."""
        queue, backlog, state = self.queue, self.backlog, self.state
        self.short = False
        most = state.limits.max_deliveries
        while backlog.depth and self.waiting:
            if state.given >= most:
                state.schedule(queue, state.now + SOON)
                break
            state.given += 1
            entry = queue.head()
            if entry is None:
                return
            filtered = self.filtered_waiting
            if filtered:
                lane, message = entry.lane, entry.message
                consumer = self.offer(lane, entry.position, message, entry.origin, True)
            else:
                consumer = self.choose(entry.message, entry.origin)
            if consumer is not None:
                backlog.pull(entry)
                consumer.give(entry)
                if filtered:
                    self.show_copies(lane, entry.position, message, entry.origin, True)
            elif self.refused_by_all(entry.origin):
                backlog.pull(entry)
                queue.finish(entry)
            else:
                break
        if self.filtered_waiting:
            self.dispatch_filtered()

    def may_look(self, cursor: Cursor, deeper: int = 0) -> bool:
        """Whether one more message may be looked at in this turn; if not, it goes on later. It
        counts as so many more looks as it is ``deeper``."""
        state = self.state
        if state.looks >= state.limits.max_looks:
            cursor.behind = True
            state.schedule(self.queue, state.now + PAUSE)
            return False
        state.looks += 1 + deeper
        return True

    # --- one message for all ----------------------------------------------------------------------

    def offer(
        self, lane: Lane, position: int, message: Message, origin: object, head: bool
    ) -> Consumer | None:
        """The consumer for a message: for the head of the queue, or for one that is being put.
        Consumers with a filter and those without take turns where both want it."""
        found = self.first_filtered(lane, position, message, origin, head)
        if self.waiting and (head or not self.backlog.depth):
            rank = self.waiting[0].priority - found.priority if found is not None else 1
            if rank > 0 or (rank == 0 and self.plain_turn):
                chosen = self.choose(message, origin)
                if chosen is not None:
                    self.plain_turn = False
                    return chosen
        if found is None:
            message.forget_properties()
            return None
        self.plain_turn = True
        if self.groups is not None:
            self.groups.given(found, lane, position, message, found.no_ack)
        self.filtered_waiting.remove(found)
        self.stand(found)
        return found

    def first_filtered(
        self, lane: Lane, position: int, message: Message, origin: object, head: bool
    ) -> Consumer | None:
        """The next in line with a filter that this message passes and with credit for it."""
        for consumer in tuple(self.filtered_waiting):
            cursor = consumer.cursor
            assert cursor is not None
            if cursor.copies is not None or not (
                cursor.unseen(lane, position) if head else not cursor.behind
            ):
                continue
            if not consumer.takes(message):
                if self.wants_smaller(consumer):
                    cursor.behind = True
                else:
                    consumer.rest()
            elif self.may_look(cursor):
                cursor.looked(lane, position)
                if (
                    may_have(cursor, lane, position)
                    and wants(self.state, consumer, cursor, message, origin)
                    and (
                        self.groups is None or self.groups.admits(consumer, lane, position, message)
                    )
                ):
                    return consumer
        return None

    def show_copies(
        self, lane: Lane, position: int, message: Message, origin: object, head: bool
    ) -> None:
        """Copies of one message for the consumers that have looked at all before it. It may have
        been given to a consumer already."""
        for consumer in tuple(self.filtered_waiting):
            cursor = consumer.cursor
            assert cursor is not None
            if cursor.copies is None or not consumer.waiting:
                continue
            if not (cursor.unseen(lane, position) if head else not cursor.behind):
                continue
            if not consumer.takes(message):
                consumer.rest()
                continue
            # Not put off if there was much to look at: there may be no message to look at later.
            self.state.looks += 1
            cursor.looked(lane, position)
            if wants(self.state, consumer, cursor, message, origin):
                consumer.give(copied(cursor, lane, position, message, 0))

    def wanted_now(self, message: Message, origin: object) -> bool:
        """Whether somebody with a filter would take a message that is put now."""
        return any(
            (cursor := consumer.cursor) is not None
            and cursor.copies is None
            and not cursor.behind
            and consumer.takes(message)
            and wants(self.state, consumer, cursor, message, origin)
            for consumer in self.filtered_waiting
        )

    # --- all messages for one ---------------------------------------------------------------------

    def go_on(self) -> None:
        """Continue in a later turn."""
        state = self.state
        if state.looks < state.limits.max_looks:
            self.drain()
        else:
            state.schedule(self.queue, state.now + SOON)

    def dispatch_filtered(self) -> None:
        """Serve the consumers with a cursor that are behind, one message each in turns."""
        behind = [c for c in self.filtered_waiting if c.cursor is not None and c.cursor.behind]
        searches = [(consumer, self.search(consumer)) for consumer in behind]
        while searches:
            for one in tuple(searches):
                consumer, search = one
                entry = next(search, None)
                if entry is None:
                    searches.remove(one)
                else:
                    consumer.give(entry)
                    if self.short:  # the next message may fit
                        self.state.schedule(self.queue, self.state.now + SOON)
        for lane in self.backlog.lanes:
            lane.forget_ahead()
        for consumer in behind:
            consumer.end_drain()

    def search(self, consumer: Consumer) -> Iterator[Entry]:
        """The messages for a consumer with a cursor, each taken out of its place or copied when it
        is asked for. Ends when there is none, or no credit for it, or the turn's looks are used
        up."""
        cursor = consumer.cursor
        assert cursor is not None
        now, groups = self.state.now, self.groups
        found: Entry | None = None
        while goes_on(consumer):
            found = None
            for lane in list(self.backlog.lanes):
                deeper = 0 if cursor.copies is not None else len(lane.ready) >> INDEX_OF_A_LOOK
                for one in standing(lane, cursor):
                    if not self.may_look(cursor, deeper):
                        return
                    position, message = one.position, one.message
                    origin = one.origin if isinstance(one, Entry) else None
                    if one.expires is not None and one.expires <= now:
                        cursor.looked(lane, position)
                        continue
                    if not (
                        may_have(cursor, lane, position)
                        and wants(self.state, consumer, cursor, message, origin)
                        and (
                            groups is None
                            or cursor.copies is not None
                            or groups.admits(consumer, lane, position, message)
                        )
                    ):
                        cursor.looked(lane, position)
                        message.forget_properties()
                        continue
                    if not consumer.takes(message):
                        if not self.wants_smaller(consumer):
                            consumer.rest()
                        return
                    cursor.looked(lane, position)
                    if cursor.copies is None:
                        if groups is not None:
                            groups.given(consumer, lane, position, message, consumer.no_ack)
                        found = self.backlog.take(lane, one)
                        break
                    before = one.deliveries if isinstance(one, Entry) else lane.deliveries(position)
                    yield (found := copied(cursor, lane, position, message, before))
                    if not goes_on(consumer):
                        return
                if found is not None and cursor.copies is None:
                    yield found
                    break
            if found is None:
                cursor.behind = False
                return


def goes_on(consumer: Consumer) -> bool:
    """Whether it may have another message."""
    if consumer.waiting and consumer.blocked():
        consumer.rest()
    return consumer.waiting


def wants(
    state: BrokerState, consumer: Consumer, cursor: Cursor, message: Message, origin: object
) -> bool:
    """Whether a message passes the filter of a consumer."""
    if consumer.refuses(origin):
        return False
    if cursor.matches is None:
        return True
    before = EFFORT.steps
    wanted = cursor.matches(message)
    state.looks += (EFFORT.steps - before >> STEPS_OF_A_LOOK) + (
        len(message.header) >> OCTETS_OF_A_LOOK
    )
    return wanted


def may_have(cursor: Cursor, lane: Lane, position: int) -> bool:
    """Whether the message at this place is not excluded for the consumer of a cursor."""
    return cursor.exclusions is None or (lane, position) not in cursor.exclusions.places


def standing(lane: Lane, cursor: Cursor) -> Iterator[Entry | StoredMessage]:
    """The messages of a lane that a cursor has not looked at, in order. Valid until one of them is
    taken out, which a cursor of copies never does."""
    for position in sorted(cursor.again.get(lane, ())):
        found = lane.at(position)
        if found is None:
            cursor.looked(lane, position)
        else:
            yield found
    if cursor.copies is not None:
        yield from all_behind(lane, cursor)
    else:
        ready = lane.ready
        index = bisect_right(ready, cursor.marks.get(lane, 0), key=by_position)
        while index < len(ready):
            yield ready[index]
            index += 1
    kept = lane.paged_after(cursor.marks.get(lane, 0))
    while kept is not None:
        yield kept
        kept = lane.paged_after(kept.position)


def all_behind(lane: Lane, cursor: Cursor) -> Iterator[Entry]:
    """Those of ``ready``, also if it changes meanwhile. Each step takes as long in the middle of a
    million as at an end, which an index into a deque does not."""
    while True:
        index = bisect_right(lane.ready, cursor.marks.get(lane, 0), key=by_position)
        with suppress(RuntimeError):  # of a deque that has changed
            yield from islice(lane.ready, index, None)
            return


def copied(cursor: Cursor, lane: Lane, position: int, message: Message, deliveries: int) -> Entry:
    """A copy for a consumer of copies; its settlement does not touch the queue."""
    entry = Copy(cast(Lane, cursor.copies), position, message, lane)
    entry.deliveries = deliveries
    return entry
