"""Requests of our client to a server of 0-9a0."""

from typing import Any

from gateway.adapters.methods.drafts import shared_methods
from gateway.adapters.methods.drafts.channel import Channel, Consumer
from gateway.adapters.methods.drafts.shared_methods import read_count, read_state
from gateway.adapters.methods.drafts.v0_9a0.names import (
    AUTOMATIC,
    QUEUE,
    REGEXP,
    SIMPLE,
    SUBSCRIPTION,
    TOPIC,
    TOPICS,
)
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.wire import layouts_0_9a0 as w
from gateway.adapters.record import Record
from gateway.errors import LocalError
from gateway.operations import (
    BeginSession,
    Bind,
    DeclareQueue,
    DeleteQueue,
    Fetch,
    Flow,
    Operation,
    Prefetch,
    PurgeQueue,
    QueueState,
    Subscribe,
    Unsubscribe,
)


def _ask_queue(channel: Channel, op: DeclareQueue) -> list[Record]:
    """A subscription is defined when it is bound: only then is its topic known."""
    if op.name.startswith(SUBSCRIPTION):
        name = op.name.removeprefix(SUBSCRIPTION)
        if op.passive:
            return [w.SubscriptionQuery(0, name)]
        channel.unbound_subscriptions[op.name] = op
        return []
    if op.passive:
        return [w.DestinationQuery(0, QUEUE, op.name)]
    define = w.DestinationDefine(0, QUEUE, op.name, "", op.exclusive, _temporary(op))
    return [define]


def _ask_bind(channel: Channel, op: Bind) -> list[Record]:
    if op.source != TOPICS or op.to_exchange or not op.destination.startswith(SUBSCRIPTION):
        raise LocalError("0-9a0 binds subscriptions to topics, and nothing else")
    wanted = channel.unbound_subscriptions.pop(op.destination, None)
    private = wanted is not None and wanted.exclusive
    auto = wanted is not None and _temporary(wanted)
    name = op.destination.removeprefix(SUBSCRIPTION)
    kind = REGEXP if op.arguments.get("x-regexp") is True else SIMPLE
    selector = str(op.arguments.get("x-selector", "")).encode()
    define = w.SubscriptionDefine(0, name, "", op.key, kind, selector, 2, private, auto)
    return [define]


def _temporary(op: DeclareQueue) -> bool:
    """An exclusive queue goes with its connection; a private one would outlive it."""
    return op.auto_delete or op.exclusive


def _ask_delete(channel: Channel, op: DeleteQueue) -> list[Record]:
    if op.name.startswith(SUBSCRIPTION):
        name = op.name.removeprefix(SUBSCRIPTION)
        return [w.SubscriptionCancel(0, name, op.if_empty)]
    return [w.DestinationCancel(0, QUEUE, op.name, op.if_empty)]


def _ask_purge(channel: Channel, op: PurgeQueue) -> list[Record]:
    if op.name.startswith(SUBSCRIPTION):
        return [w.SubscriptionPurge(0, op.name.removeprefix(SUBSCRIPTION))]
    return [w.DestinationPurge(0, QUEUE, op.name)]


def _ask_prefetch(channel: Channel, op: Prefetch) -> list[Record]:
    """It goes with the next consumer."""
    channel.prefetch = (min(op.count, 0xFFFF), min(op.size, 0xFFFF))
    return []


def _where(name: str) -> tuple[int, str, str]:
    """Service type, destination and subscription."""
    if name.startswith(SUBSCRIPTION):
        return TOPIC, "", name.removeprefix(SUBSCRIPTION)
    return QUEUE, name, ""


def _ask_consume(channel: Channel, op: Subscribe) -> list[Record]:
    count, size = channel.prefetch
    consume = w.JmsConsume(
        0, *_where(op.queue), size, count, op.no_local, op.no_ack, op.exclusive, b"", 2, 0
    )
    return [consume]


def _ask_cancel(channel: Channel, op: Unsubscribe) -> list[Record]:
    consumer = channel.consumers.pop(op.tag, None)
    if consumer is None:
        raise LocalError(f"no consumer '{op.tag}'")
    return [w.JmsCancel(consumer.number)]


REQUEST_ENCODERS: dict[type[Operation], Any] = {
    BeginSession: lambda channel, op: [w.ChannelOpen(0, "", AUTOMATIC)],
    **shared_methods.REQUEST_ENCODERS,
    DeclareQueue: _ask_queue,
    DeleteQueue: _ask_delete,
    PurgeQueue: _ask_purge,
    Bind: _ask_bind,
    Prefetch: _ask_prefetch,
    Subscribe: _ask_consume,
    Unsubscribe: _ask_cancel,
    Fetch: lambda channel, op: [w.JmsBrowse(0, *_where(op.queue), False, op.no_ack)],
}


def _result_consume(channel: Channel, op: Subscribe, m: w.JmsConsumeOk) -> str:
    tag = op.tag or str(m.consumer_tag)
    kind, destination, subscription = _where(op.queue)
    name = subscription or destination
    channel.consumers[tag] = Consumer("jms", name, m.consumer_tag, tag, kind == TOPIC)
    return tag


REPLY_READERS: dict[str, Any] = {
    "destination.define-ok": lambda channel, op, m: QueueState(m.destination, m.message_count, 0),
    "destination.query-ok": read_state("destination"),
    "destination.purge-ok": read_count,
    "destination.cancel-ok": read_count,
    "subscription.query-ok": lambda channel, op, m: QueueState(
        SUBSCRIPTION + m.subscription, m.message_count, m.consumer_count
    ),
    "subscription.purge-ok": read_count,
    "subscription.cancel-ok": read_count,
    "jms.consume-ok": _result_consume,
}


def unsolicited(channel: Channel, method: Method, m: Any) -> list[Operation] | None:
    if method.name == "channel.flow":
        return [Flow(channel.number, None, not m.flow_pause)]
    return None
