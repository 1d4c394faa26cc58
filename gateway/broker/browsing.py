"""Browsing a queue, which leaves its messages in place, and taking one out of its middle.

A place is a priority and a position: it does not change while others come and go, so that a reader
can go on from there. Paged-out messages are read from the store and stay there.
"""

from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

from gateway.broker.exclusions import Exclusions
from gateway.broker.lanes import Entry, Lane, by_position
from gateway.broker.queues import Queue
from gateway.message import Message

AHEAD = 64
AHEAD_OCTETS = 1 << 20
"""Messages looked at together, and about how many octets, to fetch one that is not excluded."""


class Place(NamedTuple):
    """Where a ready message stands."""

    priority: int
    position: int


class Seen(NamedTuple):
    """A ready message, left where it is. ``deliveries``: how often it was delivered before."""

    place: Place
    message: Message
    deliveries: int
    expires: int | None


def browse(queue: Queue, after: Place | None, limit: int, octets: int) -> list[Seen]:
    """Up to ``limit`` messages in the order they would be delivered in, from behind ``after``; at
    most ``octets`` of bodies, but one message in any case."""
    found: list[Seen] = []
    left = octets
    for lane in queue.backlog.lanes:
        if after is not None and lane.priority > after.priority:
            continue
        same = after is not None and lane.priority == after.priority
        start = after.position + 1 if after is not None and same else 0
        left = browse_lane(lane, start, limit, left, found)
        if len(found) >= limit or left <= 0:
            break
    return found


def browse_lane(lane: Lane, start: int, limit: int, left: int, found: list[Seen]) -> int:
    """Add the messages from ``start`` on; how many octets are left."""
    backlog = lane.backlog
    now = backlog.state.now
    first = bisect_left(lane.ready, start, key=by_position)
    for entry in islice(lane.ready, first, None):
        if len(found) >= limit or (found and left < len(entry.message.body)):
            return 0
        if entry.expires is None or entry.expires > now:
            place = Place(lane.priority, entry.position)
            found.append(Seen(place, entry.message, entry.deliveries, entry.expires))
            left -= len(entry.message.body)
    if not lane.paged:
        return left
    start = max(start, lane.paged_from)
    average = max(1, backlog.octets // max(1, backlog.depth))
    portion = max(1, min(limit, backlog.state.limits.page_in_octets // average))
    while len(found) < limit:
        kept = lane.read_paged(start, portion)
        for position, message, expires in kept:
            if len(found) >= limit or (found and left < len(message.body)):
                return 0
            if expires is None or expires > now:
                deliveries = lane.deliveries(position)
                found.append(Seen(Place(lane.priority, position), message, deliveries, expires))
                left -= len(message.body)
        if not kept:
            return left
        start = kept[-1].position + 1
    return left


def at(queue: Queue, place: Place) -> Message | None:
    """The ready message at a place, if it still stands there."""
    before = Place(place.priority, place.position - 1)
    found = browse(queue, before, 1, 0)
    return found[0].message if found and found[0].place == place else None


def discard(queue: Queue, place: Place, reason: str) -> bool:
    """Send the ready message at a place to the dead letters. False if it stands there no more."""
    entry = queue.backlog.pick(*place)
    if entry is not None:
        queue.discard(entry, reason)
    return entry is not None


def remove(queue: Queue, place: Place) -> bool:
    """Take the ready message at a place out for good. False if it stands there no more."""
    entry = queue.backlog.pick(*place)
    if entry is not None:
        queue.finish(entry)
    return entry is not None


def take_past(queue: Queue, exclusions: Exclusions) -> Entry | None:
    """Fetch the first message that is not excluded; it counts as delivered."""
    queue.lifetime.touch()
    queue.sweep()
    after: Place | None = None
    lanes = {lane.priority: lane for lane in queue.backlog.lanes}
    while True:
        seen = browse(queue, after, AHEAD, AHEAD_OCTETS)
        for one in seen:
            after = one.place
            if (lanes[after.priority], after.position) not in exclusions.places:
                entry = queue.backlog.pick(*after)
                if entry is not None:
                    queue.count_delivery(entry)
                    return entry
        if not seen:
            return None
