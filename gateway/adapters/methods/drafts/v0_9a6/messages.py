"""Messages of 0-9a6, both ways and in both roles."""

from typing import Any

from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.adapters.methods.contents.methods import ContentMethod
from gateway.adapters.methods.contents.outline import Known
from gateway.adapters.methods.drafts.channel import Channel, Consumer
from gateway.adapters.methods.drafts.mapping import ContentHandler
from gateway.adapters.methods.drafts.shared_methods import content_of
from gateway.adapters.methods.drafts.v0_9a6.names import (
    DIRECT,
    GROUPS,
    OURS,
    THEIRS,
    queue_name,
)
from gateway.adapters.methods.wire import layouts_0_9a6 as w
from gateway.bodies import Body
from gateway.errors import Condition
from gateway.message import Message, WithAlternate
from gateway.operations import (
    Deliver,
    Fetched,
    Operation,
    Publish,
    PublishMany,
    Returned,
)


def published(
    channel: Channel, method: ContentMethod, tag: int, redelivered: bool, known: Known, body: Body
) -> Operation:
    """What no binding of the exchange ``queue`` takes goes to the queue of that name. Hot."""
    m = method.record
    if m.ticket:
        channel.ticket(m.ticket, "write")
    mandatory = getattr(m, "mandatory", False)
    message = message_of(method, known, body)
    direct = message.exchange == DIRECT
    if not m.immediate:
        alternate = "" if direct else None
        return PublishMany(channel.number, [message], mandatory, None, alternate)
    if direct and not channel.transacted:
        return Publish(channel.number, WithAlternate(message, "", mandatory, True), True, True)
    return Publish(channel.number, message, mandatory, True)


def published_file(
    channel: Channel, m: Any, dialect: ClassDialect, header: bytes, body: Body
) -> Operation:
    """A file that was staged. Files are always durable (message persistence)."""
    known = dialect.known(header)
    known = known._replace(essentials=known.essentials._replace(durable=True))
    method = channel.engine.table.by_name["file.publish"]
    return published(channel, ContentMethod(method, m, dialect, None), 0, False, known, body)


def message_of(method: ContentMethod, known: Known, body: Body) -> Message:
    exchange = OURS.get(method.record.exchange, method.record.exchange)
    return Message(
        method.dialect, known.header, body, exchange, known.destination, known.essentials
    )


def _staged(
    channel: Channel, method: ContentMethod, tag: int, redelivered: bool, known: Known, body: Body
) -> None:
    channel.files.staged(known.header)


def _bounced(
    channel: Channel, method: ContentMethod, tag: int, redelivered: bool, known: Known, body: Body
) -> Operation:
    m = method.record
    condition = channel.engine.codes.condition(m.reply_code)
    return Returned(channel.number, message_of(method, known, body), condition, m.reply_text)


def _browsed(
    channel: Channel, method: ContentMethod, tag: int, redelivered: bool, known: Known, body: Body
) -> Fetched:
    return Fetched(tag, redelivered, message_of(method, known, body), method.record.message_count)


def delivered(
    channel: Channel, method: ContentMethod, tag: int, redelivered: bool, known: Known, body: Body
) -> Operation:
    """Client: the consumer is the one on that queue. Hot."""
    m = method.record
    consumer = channel.consumer_at(method.dialect.group, queue_name(m.domain, m.queue))
    if tag:
        channel.unsettled[tag] = None
    name = consumer.tag if consumer is not None else ""
    return Deliver(channel.number, name, tag, redelivered, message_of(method, known, body))


CONTENT_HANDLERS: dict[str, ContentHandler] = {
    **dict.fromkeys(["basic.publish", "jms.publish", "stream.publish"], published),
    **dict.fromkeys(["basic.deliver", "jms.deliver", "stream.deliver"], delivered),
    **dict.fromkeys(["basic.bounce", "jms.bounce"], _bounced),
    **dict.fromkeys(["basic.browse-ok", "jms.browse-ok"], _browsed),
    "file.stage": _staged,
}


def delivery_source(consumer: Consumer, message: Message) -> str:
    return THEIRS.get(message.exchange, message.exchange)


def delivery_method(consumer: Consumer, exchange: str, tag: int, redelivered: bool) -> Any:
    group, domain, queue = consumer.group, consumer.domain, consumer.source
    if group == "basic":
        return w.BasicDeliver(exchange, domain, queue)
    if group == "stream":
        return w.StreamDeliver(tag, exchange, domain, queue)
    record: Any = w.JmsDeliver if group == "jms" else w.FileDeliver
    return record(tag, redelivered, exchange, domain, queue)


def publish_method(group: str, message: Message, mandatory: bool, immediate: bool) -> Any:
    """Client: the default exchange is ``queue`` here, where each queue is bound by its name."""
    exchange = THEIRS.get(message.exchange, message.exchange or "queue")
    if group == "basic":
        return w.BasicPublish(0, exchange, mandatory, immediate)
    if group == "jms":
        return w.JmsPublish(0, exchange, mandatory, immediate)
    return (w.StreamPublish if group == "stream" else w.FilePublish)(0, exchange, immediate)


def fallback(op: Returned) -> list[Operation]:
    """Server: from ``queue`` it goes on to the queue of that name."""
    message = op.message
    if not isinstance(message, WithAlternate) or op.condition is not Condition.NO_ROUTE:
        return []
    again = message.routed_as(message.alternate, message.key)
    return [Publish(op.channel, again, message.mandatory, message.immediate)]


def returned(channel: Channel, op: Returned) -> list[Operation]:
    """Server: a publish comes back. Classes without bounce drop it."""
    message = op.message
    if again := fallback(op):
        return again
    group = next((n for n in GROUPS if message.dialect is channel.dialect(n)), "jms")
    bounce = {"basic": w.BasicBounce, "jms": w.JmsBounce}.get(group)
    if bounce is not None:
        code, name, _ = channel.engine.table.codes[op.condition.value]
        exchange = THEIRS.get(message.exchange, message.exchange or "queue")
        channel.send(bounce(code, op.text or name, exchange), content_of(channel, group, message))
    return []
