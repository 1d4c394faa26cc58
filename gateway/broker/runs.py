"""Many messages in a row that are alike in what the broker reads of them, published together to one
queue, and handed together to the consumer that waits there.

The conditions that they share are checked once. Messages that are not plain are left to
``PublishPath.publish`` and ``Queue.put``.
"""

from collections.abc import Callable
from itertools import islice

from gateway.broker.consumers import Consumer
from gateway.broker.lanes import Entry, Lane
from gateway.broker.publish_path import COPIES, PublishPath
from gateway.broker.queues import Queue
from gateway.broker.replies import OCTETS
from gateway.message import Message

MOST = 128
"""Messages that are handed over together."""


def publish_run(
    path: PublishPath,
    messages: list[Message],
    start: int,
    clock: Callable[[], float],
    until: float,
) -> int:
    """Publish as many messages, from ``start`` on, as are alike and go straight to one consumer
    before the ``clock`` says ``until``. How many these are; 0 if the first of them is not plain.
    Hot."""
    first = messages[start]
    name, key, essentials = first.exchange, first.key, first.essentials
    durable, priority, ttl, user_id, has_headers, expiry = essentials
    exchange = path.writable.get(name)
    if (
        exchange is None
        or not path.plain
        or (path.recorder is not None and durable)
        or ttl is not None
        or user_id is not None
        or expiry is not None
    ):
        return 0
    queues = exchange.routes.get(key)
    if queues is None or len(queues) != 1:
        return 0
    queue = queues[0]
    room = room_at(queue, durable)
    if not room:
        return 0
    run: list[Message] = []
    user = path.user
    for message in islice(messages, start, start + room):
        header = message.header
        if (
            message.exchange is not name
            or (message.key is not key and message.key != key)
            or (message.essentials is not essentials and message.essentials != essentials)
            or message.__class__ is not Message
            or header.find(OCTETS) >= 0
            or (has_headers and header.find(COPIES) >= 0)
        ):
            break
        message.user = user
        message.key = key  # the same object, which those that write deliveries look for
        run.append(message)
    if not run:
        return 0
    consumer = queue.waiting[0]
    if consumer.no_ack:
        count = hand_settled(queue, consumer, run, clock, until)
    else:
        backlog = queue.backlog
        lane = backlog.lane(priority) if backlog.ranked else backlog.lanes[0]
        count = hand_unsettled(queue, lane, consumer, run, path.origin, clock, until)
    if path.confirms is not None:
        path.confirms.add_safe(count)
        path.confirming[path] = None
    return count


def room_at(queue: Queue, durable: bool) -> int:
    """How many messages without a time to live the only consumer in the line of a plain queue may
    have now, up to ``MOST``; 0 if there is more to decide."""
    waiting = queue.waiting
    if (
        len(waiting) != 1
        or queue.__class__ is not Queue
        or queue.backlog.depth
        or queue.filtered_waiting
        or queue.refuses_when_full
        or queue.ttl is not None
        or queue.gone
    ):
        return 0
    consumer = waiting[0]
    window, credit = consumer.window, consumer.credit
    if not window.open or consumer.no_local or consumer.draining is not None:
        return 0
    if consumer.simple:
        return MOST
    if consumer.counted:
        return min(credit or 0, MOST)
    if (
        consumer.no_ack
        or (durable and queue.keeps)
        or consumer.size
        or window.size
        or consumer.octet_credit is not None
    ):
        return 0
    room = MOST if credit is None else min(credit, MOST)
    if consumer.limit:
        room = min(room, consumer.limit - consumer.held)
    if window.limit:
        room = min(room, window.limit - window.held)
    return max(room, 0)


def hand_settled(
    queue: Queue,
    consumer: Consumer,
    messages: list[Message],
    clock: Callable[[], float],
    until: float,
) -> int:
    """Messages are settled as they go out."""
    window, deliver, name = consumer.window, consumer.deliver, consumer.tag
    tag = begun = window.last
    if consumer.deliver_run is not None:
        count = len(messages)
        window.last = tag + count
        queue.passed += count
        if consumer.credit is not None:
            consumer.credit -= count
        consumer.deliver_run(name, tag + 1, messages)
        return count
    try:
        for message in messages:
            window.last = tag = tag + 1
            deliver(name, tag, False, message)
            if not window.open or clock() > until:
                break
    finally:
        count = tag - begun
        queue.passed += count
        if consumer.credit is not None:
            consumer.credit -= count
    return count


def hand_unsettled(
    queue: Queue,
    lane: Lane,
    consumer: Consumer,
    messages: list[Message],
    origin: object,
    clock: Callable[[], float],
    until: float,
) -> int:
    """The consumer holds the messages, as after ``Queue.put`` and ``Consumer.give``."""
    window, name, deliver_run = consumer.window, consumer.tag, consumer.deliver_run
    deliver = consumer.deliver if deliver_run is None else None
    unsettled = window.unsettled
    tag = begun = window.last
    position = lane.next
    octets = weight = 0
    try:
        for message in messages:
            entry = Entry(lane, position, message, None, False, origin)
            entry.deliveries = 1
            entry.consumer = consumer
            position += 1
            window.last = tag = tag + 1
            unsettled[tag] = entry
            body = message.body
            size = len(body)
            octets += size
            weight += len(message.header) + (size if body.__class__ is bytes else 0)
            if deliver is not None:
                deliver(name, tag, False, message)
                if not window.open or clock() > until:
                    break
    finally:
        count = tag - begun
        lane.next = position
        queue.published += count
        queue.delivered += count
        queue.unsettled += count
        if consumer.credit is not None:
            consumer.credit -= count
        consumer.held += count
        window.held += count
        consumer.octets += octets
        window.octets += octets
        queue.state.octets += weight
    if deliver_run is not None:
        deliver_run(name, begun + 1, messages)
    return count


def finish_run(entries: list[Entry], start: int) -> int:
    """Finish the accepted deliveries from ``start`` on that one consumer had of one plain queue, as
    ``Consumer.release`` and ``Queue.finish`` do. How many these are; 0 if the first of them is not
    plain. Hot."""
    first = entries[start]
    lane, consumer = first.lane, first.consumer
    queue = lane.queue
    if (
        consumer.__class__ is not Consumer
        or queue.__class__ is not Queue
        or queue.excluded
        or queue.handover is not None
    ):
        return 0
    octets = weight = count = 0
    for entry in islice(entries, start, None):
        if entry.lane is not lane or entry.consumer is not consumer or entry.stored:
            break
        entry.consumer = None
        message = entry.message
        body = message.body
        size = len(body)
        octets += size
        weight += len(message.header) + (size if body.__class__ is bytes else 0)
        count += 1
    queue.unsettled -= count
    queue.acked += count
    queue.state.octets -= weight
    consumer.held -= count
    consumer.octets -= octets
    consumer.window.held -= count
    consumer.window.octets -= octets
    return count
