"""Messages of 0-9a6, both ways and in both roles."""

import hashlib
from typing import Any

from gateway.adapters.v0_9.drafts.channel import Channel
from gateway.adapters.v0_9.drafts.contents import DraftDialect
from gateway.adapters.v0_9.drafts.second.names import (
    DIRECT,
    GROUPS,
    OURS,
    THEIRS,
    queue_name,
)
from gateway.adapters.v0_9.drafts.words import Content, Spoken, group_of
from gateway.adapters.v0_9.geometry import Method
from gateway.adapters.v0_9.wire import layouts_0_9a6 as w
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import (
    Deliver,
    Fetched,
    Operation,
    Publish,
    Returned,
)


class Tried(Message):
    """A publish to the exchange ``queue``, which may still go to the queue of that name."""

    __slots__ = ("mandatory", "immediate")

    mandatory: bool
    immediate: bool


def content_of(place: Channel, group: str, message: Message) -> Content:
    dialect = place.dialect(group)
    return Content(dialect.number, *dialect.form_of(message))


def published(
    place: Channel, m: Any, dialect: DraftDialect, header: bytes, body: bytes
) -> Operation:
    key = dialect.destination(header)
    essentials = dialect.essentials(header)
    exchange = OURS.get(m.exchange, m.exchange)
    mandatory = getattr(m, "mandatory", False)
    if dialect.name.endswith("-file") and not essentials.durable:
        essentials = essentials._replace(durable=True)  # files always are (message persistence)
    if exchange == DIRECT and not place.transacted:
        tried = Tried(dialect, header, body, exchange, key, essentials)
        tried.mandatory, tried.immediate = mandatory, m.immediate
        return Publish(place.number, tried, True, m.immediate)
    message = Message(dialect, header, body, exchange, key, essentials)
    return Publish(place.number, message, mandatory, m.immediate)


def received(place: Channel, method: Method, m: Any, header: bytes, body: bytes) -> list[Any]:
    name, group = method.name, group_of(method)
    dialect = place.dialect(group)
    if name == "file.stage":
        place.files.staged(header, body)
        return []
    if name.endswith(".publish"):
        place.ticket(m.ticket, "write")
        return [published(place, m, dialect, header, body)]
    key, essentials = dialect.destination(header), dialect.essentials(header)
    exchange = OURS.get(m.exchange, m.exchange)
    message = Message(dialect, header, body, exchange, key, essentials)
    if name.endswith(".bounce"):
        condition = place.owner.condition(m.reply_code)
        return [Returned(place.number, message, condition, m.reply_text)]
    if name.endswith(".browse-ok"):
        tag = getattr(m, "delivery_tag", 0)
        redelivered = getattr(m, "redelivered", False)
        return [Fetched(tag, redelivered, message, m.message_count)]
    return [delivery(place, group, m, message)]


def delivery(place: Channel, group: str, m: Any, message: Message) -> Operation:
    """Client: the consumer is the one on that queue."""
    name = queue_name(m.domain, m.queue)
    consumer = place.consumer_at(group, name)
    tag = getattr(m, "delivery_tag", 0)
    if tag:
        place.unsettled[tag] = None
    redelivered = getattr(m, "redelivered", False)
    return Deliver(place.number, consumer.tag if consumer else "", tag, redelivered, message)


def deliver(
    place: Channel, tag: str, delivery: int, redelivered: bool, message: Message
) -> list[Spoken]:
    consumer = place.consumers.get(tag)
    if consumer is None:
        return []
    group, domain, queue = consumer.group, consumer.domain, consumer.place
    exchange = THEIRS.get(message.exchange, message.exchange)
    content = content_of(place, group, message)
    if group == "basic":
        return [Spoken(w.BasicDeliver(exchange, domain, queue), content)]
    if group == "stream":
        return [Spoken(w.StreamDeliver(delivery, exchange, domain, queue), content)]
    if group == "jms":
        record = w.JmsDeliver(delivery, redelivered, exchange, domain, queue)
        return [Spoken(record, content)]
    # The same file has the same identifier, so that its transfer may go on after a lost
    # connection, anywhere in the file: it is read into memory.
    identifier = hashlib.sha256(content.header + b"\0" + content.body[:]).hexdigest()[:32]
    finish = w.FileDeliver(delivery, redelivered, exchange, domain, queue, identifier)
    return [place.files.offer(identifier, content, finish)]


def publish(place: Channel, message: Message, mandatory: bool, immediate: bool) -> list[Spoken]:
    """Client: in the class that the message is of, else as a JMS message. The default exchange is
    ``queue`` here, where each queue is bound by its name."""
    group = "jms"
    for name in GROUPS:
        if message.dialect is place.dialect(name):
            group = name
    exchange = THEIRS.get(message.exchange, message.exchange or "queue")
    content = content_of(place, group, message)
    if group == "basic":
        return [Spoken(w.BasicPublish(0, exchange, mandatory, immediate), content)]
    if group == "stream":
        return [Spoken(w.StreamPublish(0, exchange, immediate), content)]
    if group == "jms":
        return [Spoken(w.JmsPublish(0, exchange, mandatory, immediate), content)]
    digest = hashlib.sha256(content.header + b"\0" + content.body[:]).hexdigest()[:32]
    return [place.files.offer(digest, content, w.FilePublish(0, exchange, immediate, digest))]


def returned(place: Channel, op: Returned) -> list[Operation]:
    """Server: a publish comes back. From ``queue`` it goes on to the queue of that name; classes
    without bounce drop it."""
    message = op.message
    if isinstance(message, Tried) and op.condition is Condition.NO_ROUTE:
        again = Message(
            message.dialect, message.header, message.body, "", message.key, message.essentials
        )
        return [Publish(place.number, again, message.mandatory, message.immediate)]
    group = next((n for n in GROUPS if message.dialect is place.dialect(n)), "jms")
    bounce = {"basic": w.BasicBounce, "jms": w.JmsBounce}.get(group)
    if bounce is not None:
        code, name, _ = place.owner.table.codes[op.condition.value]
        exchange = THEIRS.get(message.exchange, message.exchange or "queue")
        place.speak(
            Spoken(bounce(code, op.text or name, exchange), content_of(place, group, message))
        )
    return []
