"""Messages of 0-9a0, both ways and in both roles."""

from typing import Any

from gateway.adapters.methods.contents.methods import ContentMethod
from gateway.adapters.methods.contents.outline import Known
from gateway.adapters.methods.drafts.channel import Channel, Consumer
from gateway.adapters.methods.drafts.mapping import ContentHandler
from gateway.adapters.methods.drafts.v0_9a0.names import FUZZY, GROUPS, QUEUE, TOPIC, TOPICS
from gateway.adapters.methods.wire import layouts_0_9a0 as w
from gateway.bodies import Body
from gateway.errors import Condition, LocalError
from gateway.message import Essentials, Message
from gateway.operations import (
    Deliver,
    EndSession,
    Fetched,
    Operation,
    Publish,
    PublishMany,
    Returned,
)


class FuzzyPublish(Message):
    """A publish to a queue, or else to the topic of that name."""

    __slots__ = ()


class TopicPublish(Message):
    """A publish to a topic."""

    __slots__ = ()


def service(channel: Channel, kind: int, known: tuple[int, ...] = (QUEUE, TOPIC, FUZZY)) -> int:
    if kind not in known:
        raise channel.error(Condition.COMMAND_INVALID, f"service type {kind} is not valid here")
    return kind


def _essentials(method: ContentMethod, known: Known) -> Essentials:
    """Files are always durable."""
    found = known.essentials
    return found if method.dialect.group != "file" else found._replace(durable=True)


def published(
    channel: Channel, method: ContentMethod, tag: int, redelivered: bool, known: Known, body: Body
) -> Operation:
    """Hot."""
    m, essentials = method.record, _essentials(method, known)
    if m.ticket:
        channel.ticket(m.ticket, "publish")
    kind = service(channel, m.service_type)
    if kind == TOPIC:
        topical = TopicPublish(
            method.dialect, known.header, body, TOPICS, m.destination, essentials
        )
        return Publish(channel.number, topical, m.immediate, False)
    if kind == FUZZY:
        fuzzy = FuzzyPublish(method.dialect, known.header, body, "", m.destination, essentials)
        return Publish(channel.number, fuzzy, True, m.immediate)
    message = published_message(method, known, body)
    if m.immediate:
        return Publish(channel.number, message, True, True)
    return PublishMany(channel.number, [message], True)


def published_message(method: ContentMethod, known: Known, body: Body) -> Message:
    """One for a queue."""
    essentials = _essentials(method, known)
    return Message(method.dialect, known.header, body, "", method.record.destination, essentials)


def _arrived(
    channel: Channel, method: ContentMethod, tag: int, known: Known, body: Body
) -> tuple[str, Message]:
    """Tag of the consumer, and message; unsettled from now on if it must be acknowledged."""
    if tag:
        channel.unsettled[tag] = None
    key = method.record.destination
    consumer = channel.consumer_at(method.dialect.group, key)
    name, exchange = "", ""
    if consumer is not None:
        name, exchange = consumer.tag, TOPICS if consumer.keyed else ""
    essentials = _essentials(method, known)
    return name, Message(method.dialect, known.header, body, exchange, key, essentials)


def _browsed(
    channel: Channel, method: ContentMethod, tag: int, redelivered: bool, known: Known, body: Body
) -> Fetched:
    _, message = _arrived(channel, method, tag, known, body)
    return Fetched(tag, redelivered, message, method.record.message_count)


def delivered(
    channel: Channel, method: ContentMethod, tag: int, redelivered: bool, known: Known, body: Body
) -> Operation:
    """Client. Hot."""
    name, message = _arrived(channel, method, tag, known, body)
    return Deliver(channel.number, name, tag, redelivered, message)


CONTENT_HANDLERS: dict[str, ContentHandler] = {
    **{f"{group}.publish": published for group in GROUPS},
    **{f"{group}.deliver": delivered for group in GROUPS},
    "jms.browse-ok": _browsed,
    "file.browse-ok": _browsed,
}


def delivery_source(consumer: Consumer, message: Message) -> str:
    return message.key if consumer.keyed else consumer.source


def delivery_method(consumer: Consumer, name: str, tag: int, redelivered: bool) -> Any:
    if consumer.group == "stream":
        return w.StreamDeliver(name)
    record: Any = w.JmsDeliver if consumer.group == "jms" else w.FileDeliver
    return record(tag, redelivered, name)


def publish_method(group: str, message: Message, mandatory: bool, immediate: bool) -> Any:
    """Client: to a queue by its name, or to a topic."""
    if message.exchange not in ("", TOPICS):
        raise LocalError(f"0-9a0 has no exchange '{message.exchange}'")
    kind = TOPIC if message.exchange else QUEUE
    record: Any = {"jms": w.JmsPublish, "file": w.FilePublish, "stream": w.StreamPublish}[group]
    return record(0, kind, message.key, immediate)


def fallback(op: Returned) -> list[Operation]:
    """Server: a destination that is no queue is a topic."""
    message = op.message
    if not isinstance(message, FuzzyPublish) or op.condition is not Condition.NO_ROUTE:
        return []
    again = TopicPublish(
        message.dialect, message.header, message.body, TOPICS, message.key, message.essentials
    )
    return [Publish(op.channel, again, False, False)]


def returned(channel: Channel, op: Returned) -> list[Operation]:
    """Server: a publish was not routed, or had no consumers."""
    message = op.message
    if again := fallback(op):
        return again
    text = f"'{message.key[:80]}' is not there"
    if isinstance(message, TopicPublish) or op.condition is Condition.NO_CONSUMERS:
        text = f"'{message.key[:80]}' has no consumers"
    group, number = channel.engine.table.by_name["jms.publish"], channel.number
    channel.engine.life.close_channel(number, op.condition, text, group.number)
    return [EndSession(number, None)]
