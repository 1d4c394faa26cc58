"""Delivery to consumers with a cursor: who has a filter or exclusions, or gets copies.

A message that is put is shown to those who have looked at everything before it. Those who have not
look at the messages one by one from where their cursor stands, whether they are in memory or paged
out, and take (or copy) what they want. One turn of the loop looks at ``Limits.max_looks`` messages
at most; who has not come to the end by then goes on in a later turn. A look that costs more, since
the filter has a hard pattern or the message many properties, counts as several.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from gateway.broker.consumers import SOON, Consumer
from gateway.broker.cursors import Cursor
from gateway.broker.deliveries import Entry, Lane, by_position
from gateway.broker.state import BrokerState
from gateway.broker.store import StoredMessage
from gateway.message import Message
from gateway.selector.like import EFFORT

if TYPE_CHECKING:
    from gateway.broker.queues import Queue

PAUSE = 2
"""Milliseconds until those go on who have not come to the end."""

STEPS_OF_A_LOOK = 11
"""So many steps of patterns, as a power of two, cost about as much as to look at a message."""
OCTETS_OF_A_LOOK = 9
"""So many octets of properties, as a power of two, cost that too."""


def may_look(queue: "Queue", cursor: Cursor) -> bool:
    """Whether one more message may be looked at in this turn; if not, it goes on later."""
    state = queue.state
    if state.looks >= state.limits.max_looks:
        cursor.behind = True
        state.schedule(queue, state.now + PAUSE)
        return False
    state.looks += 1
    return True


def wants(
    state: BrokerState, consumer: Consumer, cursor: Cursor, message: Message, origin: object
) -> bool:
    """Whether it asked for messages like this one."""
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
    """Whether the message at this place is not excluded for it."""
    return cursor.exclusions is None or (lane, position) not in cursor.exclusions.places


# --- one message for all ------------------------------------------------------------------------


def offer(
    queue: "Queue", lane: Lane, position: int, message: Message, origin: object, head: bool
) -> Consumer | None:
    """Who is to have this message: the head of the queue, or one that is being put. Consumers
    with a filter and those without take turns where both want it."""
    found = first_that_wants(queue, lane, position, message, origin, head)
    if queue.waiting and (head or not queue.depth):
        rank = queue.waiting[0].priority - found.priority if found is not None else 1
        if rank > 0 or (rank == 0 and queue.plain_turn):
            chosen = queue.choose(message, origin)
            if chosen is not None:
                queue.plain_turn = False
                return chosen
    if found is None:
        message.forget_properties()
        return None
    queue.plain_turn = True
    queue.seekers.remove(found)
    queue.stand(found)
    return found


def first_that_wants(
    queue: "Queue", lane: Lane, position: int, message: Message, origin: object, head: bool
) -> Consumer | None:
    """The next in line with a filter that this message passes and with credit for it."""
    for consumer in tuple(queue.seekers):
        cursor = consumer.cursor
        assert cursor is not None
        if cursor.copies is not None or not (
            cursor.unseen(lane, position) if head else not cursor.behind
        ):
            continue
        if not consumer.takes(message):
            consumer.rest()
        elif may_look(queue, cursor):
            cursor.looked(lane, position)
            if may_have(cursor, lane, position) and wants(
                queue.state, consumer, cursor, message, origin
            ):
                return consumer
    return None


def show(
    queue: "Queue", lane: Lane, position: int, message: Message, origin: object, head: bool
) -> None:
    """Copies of one message for those who have looked at all before it. It may have been given
    to a consumer already."""
    for consumer in tuple(queue.seekers):
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
        queue.state.looks += 1
        cursor.looked(lane, position)
        if wants(queue.state, consumer, cursor, message, origin):
            consumer.give(copied(cursor, position, message, 0))


def wanted_now(queue: "Queue", message: Message, origin: object) -> bool:
    """Whether somebody with a filter would take a message that is put now."""
    return any(
        (cursor := consumer.cursor) is not None
        and cursor.copies is None
        and not cursor.behind
        and consumer.takes(message)
        and wants(queue.state, consumer, cursor, message, origin)
        for consumer in queue.seekers
    )


# --- all messages for one -----------------------------------------------------------------------


def go_on(queue: "Queue") -> None:
    """A later turn has come."""
    state = queue.state
    if state.looks < state.limits.max_looks:
        queue.drain()
    else:
        state.schedule(queue, state.now + SOON)


def seek(queue: "Queue") -> None:
    """Let those look on who have not come to the end, one message each in turns."""
    behind = [c for c in queue.seekers if c.cursor is not None and c.cursor.behind]
    searched = list(behind)
    while behind:
        for consumer in tuple(behind):
            entry = find(queue, consumer)
            if entry is None:
                behind.remove(consumer)
            else:
                consumer.give(entry)
    for lane in queue.lanes:
        lane.forget_ahead()
    for consumer in searched:
        consumer.end_drain()


def find(queue: "Queue", consumer: Consumer) -> Entry | None:
    """The next message that it wants, taken out of its place or copied. ``None``: there is none,
    or no credit for it, or enough has been looked at for now."""
    cursor = consumer.cursor
    assert cursor is not None
    if consumer.waiting and consumer.blocked():
        consumer.rest()
    if not consumer.waiting:
        return None
    now = queue.state.now
    for lane in list(queue.lanes):
        for one in standing(lane, cursor):
            if not may_look(queue, cursor):
                return None
            position, message = one.position, one.message
            origin = one.origin if isinstance(one, Entry) else None
            if one.expires is not None and one.expires <= now:
                cursor.looked(lane, position)
            elif may_have(cursor, lane, position) and wants(
                queue.state, consumer, cursor, message, origin
            ):
                if not consumer.takes(message):
                    consumer.rest()
                    return None
                cursor.looked(lane, position)
                if cursor.copies is None:
                    return take(queue, lane, one)
                before = one.deliveries if isinstance(one, Entry) else lane.deliveries(position)
                return copied(cursor, position, message, before)
            else:
                cursor.looked(lane, position)
                message.forget_properties()
    cursor.behind = False
    return None


def standing(lane: Lane, cursor: Cursor) -> Iterator[Entry | StoredMessage]:
    """What it has not looked at in this lane, in order. To be left when anything is taken out."""
    for position in sorted(cursor.again.get(lane, ())):
        found = lane.at(position)
        if found is None:
            cursor.looked(lane, position)
        else:
            yield found
    ready = lane.ready
    index = bisect_right(ready, cursor.marks.get(lane, 0), key=by_position)
    while index < len(ready):
        yield ready[index]
        index += 1
    kept = lane.paged_after(cursor.marks.get(lane, 0))
    while kept is not None:
        yield kept
        kept = lane.paged_after(kept.position)


def take(queue: "Queue", lane: Lane, one: Entry | StoredMessage) -> Entry:
    """Take a ready message out of its place, wherever that is."""
    index = bisect_left(lane.ready, one.position, key=by_position)
    if isinstance(one, Entry) and index == 0:
        queue.pull(one)
        return one
    queue.depth -= 1
    queue.octets -= len(one.message.body)
    if not isinstance(one, Entry):
        return lane.lift(one)
    del lane.ready[index]
    return one


def copied(cursor: Cursor, position: int, message: Message, deliveries: int) -> Entry:
    """What a consumer of copies is given: nothing that becomes of it touches the queue."""
    entry = Entry(cast(Lane, cursor.copies), position, message, None, False, None)
    entry.deliveries = deliveries
    return entry
