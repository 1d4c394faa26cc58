"""Messages of 0-9a0, both ways and in both roles."""

from typing import Any

from gateway.adapters.v0_9.drafts.channel import Channel
from gateway.adapters.v0_9.drafts.first.names import FUZZY, GROUPS, QUEUE, TOPIC, TOPICS
from gateway.adapters.v0_9.drafts.words import Content, Spoken, group_of
from gateway.adapters.v0_9.geometry import Method
from gateway.adapters.v0_9.wire import layouts_0_9a0 as w
from gateway.errors import Condition, LocalError
from gateway.message import Message
from gateway.operations import (
    Deliver,
    EndSession,
    Fetched,
    Operation,
    Publish,
    Returned,
)


class Fuzzy(Message):
    """A publish to a queue, or else to the topic of that name."""

    __slots__ = ()


class Topical(Message):
    """A publish to a topic."""

    __slots__ = ()


def service(place: Channel, kind: int, known: tuple[int, ...] = (QUEUE, TOPIC, FUZZY)) -> int:
    if kind not in known:
        raise place.fail(Condition.COMMAND_INVALID, f"service type {kind} is not valid here")
    return kind


def content_of(place: Channel, group: str, message: Message) -> Content:
    dialect = place.dialect(group)
    return Content(dialect.number, *dialect.form_of(message))


def received(place: Channel, method: Method, m: Any, header: bytes, body: bytes) -> list[Any]:
    name, group = method.name, group_of(method)
    dialect = place.dialect(group)
    essentials = dialect.essentials(header)
    if group == "file" and not essentials.durable:
        essentials = essentials._replace(durable=True)  # files always are
    number, key = place.number, m.destination
    if name.endswith(".publish"):
        place.ticket(m.ticket, "publish")
        kind = service(place, m.service_type)
        if kind == TOPIC:
            message: Message = Topical(dialect, header, body, TOPICS, key, essentials)
            return [Publish(number, message, m.immediate, False)]
        made = Fuzzy if kind == FUZZY else Message
        message = made(dialect, header, body, "", key, essentials)
        return [Publish(number, message, True, m.immediate)]
    tag = getattr(m, "delivery_tag", 0)
    redelivered = getattr(m, "redelivered", False)
    if tag:
        place.unsettled[tag] = None
    consumer = place.consumer_at(group, key)
    exchange = TOPICS if consumer is not None and consumer.keyed else ""
    message = Message(dialect, header, body, exchange, key, essentials)
    if name.endswith(".browse-ok"):
        return [Fetched(tag, redelivered, message, m.message_count)]
    return [Deliver(number, consumer.tag if consumer else "", tag, redelivered, message)]


def deliver(
    place: Channel, tag: str, delivery: int, redelivered: bool, message: Message
) -> list[Spoken]:
    consumer = place.consumers.get(tag)
    if consumer is None:
        return []
    name = message.key if consumer.keyed else consumer.place
    content = content_of(place, consumer.group, message)
    if consumer.group == "stream":
        return [Spoken(w.StreamDeliver(name), content)]
    record: Any = w.JmsDeliver if consumer.group == "jms" else w.FileDeliver
    return [Spoken(record(delivery, redelivered, name), content)]


def publish(place: Channel, message: Message, mandatory: bool, immediate: bool) -> list[Spoken]:
    """Client: to a queue by its name, or to a topic; in the class that the message is of."""
    if message.exchange not in ("", TOPICS):
        raise LocalError(f"0-9a0 has no exchange '{message.exchange}'")
    kind = TOPIC if message.exchange else QUEUE
    group = next((n for n in GROUPS if message.dialect is place.dialect(n)), "jms")
    record: Any = {"jms": w.JmsPublish, "file": w.FilePublish, "stream": w.StreamPublish}[group]
    said = record(0, kind, message.key, immediate)
    return [Spoken(said, content_of(place, group, message))]


def returned(place: Channel, op: Returned) -> list[Operation]:
    """Server: nobody has taken a publish."""
    message = op.message
    if isinstance(message, Fuzzy) and op.condition is Condition.NO_ROUTE:
        again = Topical(
            message.dialect, message.header, message.body, TOPICS, message.key, message.essentials
        )
        return [Publish(place.number, again, False, False)]
    text = f"'{message.key[:80]}' is not there"
    if isinstance(message, Topical) or op.condition is Condition.NO_CONSUMERS:
        text = f"'{message.key[:80]}' has no consumers"
    group, number = place.owner.table.by_name["jms.publish"], place.number
    place.owner.lose(number, op.condition, text, group.number)
    return [EndSession(number, None)]
