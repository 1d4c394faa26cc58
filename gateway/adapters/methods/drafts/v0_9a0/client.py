"""What our client asks of a server of 0-9a0."""

from typing import Any

from gateway.adapters.methods.drafts.channel import Channel, Consumer
from gateway.adapters.methods.drafts.methods import OutgoingMethod
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
from gateway.errors import LocalError
from gateway.operations import (
    BeginSession,
    Bind,
    DeclareQueue,
    DeleteQueue,
    EndSession,
    Fetch,
    Flow,
    Operation,
    Outcome,
    Prefetch,
    PurgeQueue,
    QueueState,
    Settle,
    Subscribe,
    Unsubscribe,
)


def _ask_queue(channel: Channel, op: DeclareQueue) -> list[OutgoingMethod]:
    """A subscription is defined when it is bound: only then is its topic known."""
    if op.name.startswith(SUBSCRIPTION):
        name = op.name.removeprefix(SUBSCRIPTION)
        if op.passive:
            return [OutgoingMethod(w.SubscriptionQuery(0, name))]
        channel.wanted[op.name] = op
        return []
    if op.passive:
        return [OutgoingMethod(w.DestinationQuery(0, QUEUE, op.name))]
    define = w.DestinationDefine(0, QUEUE, op.name, "", op.exclusive, _temporary(op))
    return [OutgoingMethod(define)]


def _ask_bind(channel: Channel, op: Bind) -> list[OutgoingMethod]:
    if op.source != TOPICS or op.to_exchange or not op.destination.startswith(SUBSCRIPTION):
        raise LocalError("0-9a0 binds subscriptions to topics, and nothing else")
    wanted = channel.wanted.pop(op.destination, None)
    private = wanted is not None and wanted.exclusive
    auto = wanted is not None and _temporary(wanted)
    name = op.destination.removeprefix(SUBSCRIPTION)
    kind = REGEXP if op.arguments.get("x-regexp") is True else SIMPLE
    selector = str(op.arguments.get("x-selector", "")).encode()
    define = w.SubscriptionDefine(0, name, "", op.key, kind, selector, 2, private, auto)
    return [OutgoingMethod(define)]


def _temporary(op: DeclareQueue) -> bool:
    """An exclusive queue goes with its connection; a private one would outlive it."""
    return op.auto_delete or op.exclusive


def _ask_delete(channel: Channel, op: DeleteQueue) -> list[OutgoingMethod]:
    if op.name.startswith(SUBSCRIPTION):
        name = op.name.removeprefix(SUBSCRIPTION)
        return [OutgoingMethod(w.SubscriptionCancel(0, name, op.if_empty))]
    return [OutgoingMethod(w.DestinationCancel(0, QUEUE, op.name, op.if_empty))]


def _ask_purge(channel: Channel, op: PurgeQueue) -> list[OutgoingMethod]:
    if op.name.startswith(SUBSCRIPTION):
        return [OutgoingMethod(w.SubscriptionPurge(0, op.name.removeprefix(SUBSCRIPTION)))]
    return [OutgoingMethod(w.DestinationPurge(0, QUEUE, op.name))]


def _ask_prefetch(channel: Channel, op: Prefetch) -> list[OutgoingMethod]:
    """It goes with the next consumer."""
    channel.prefetch = (min(op.count, 0xFFFF), min(op.size, 0xFFFF))
    return []


def _where(name: str) -> tuple[int, str, str]:
    """Service type, destination and subscription."""
    if name.startswith(SUBSCRIPTION):
        return TOPIC, "", name.removeprefix(SUBSCRIPTION)
    return QUEUE, name, ""


def _ask_consume(channel: Channel, op: Subscribe) -> list[OutgoingMethod]:
    count, size = channel.prefetch
    consume = w.JmsConsume(
        0, *_where(op.queue), size, count, op.no_local, op.no_ack, op.exclusive, b"", 2, 0
    )
    return [OutgoingMethod(consume)]


def _ask_cancel(channel: Channel, op: Unsubscribe) -> list[OutgoingMethod]:
    consumer = channel.consumers.pop(op.tag, None)
    if consumer is None:
        raise LocalError(f"no consumer '{op.tag}'")
    return [OutgoingMethod(w.JmsCancel(consumer.number))]


def settle(channel: Channel, op: Settle) -> list[OutgoingMethod]:
    tags = channel.covered(op.delivery, op.multiple)
    if op.outcome is Outcome.ACCEPT:
        return [OutgoingMethod(w.JmsAck(op.delivery, op.multiple))]
    requeue = op.outcome.returns
    return [OutgoingMethod(w.JmsReject(tag, requeue)) for tag in tags]


ASK: dict[type[Operation], Any] = {
    BeginSession: lambda channel, op: [OutgoingMethod(w.ChannelOpen(0, "", AUTOMATIC))],
    EndSession: lambda channel, op: [OutgoingMethod(w.ChannelClose(200, "Normal shutdown"))],
    Flow: lambda channel, op: [OutgoingMethod(w.ChannelFlow(not op.active))],
    DeclareQueue: _ask_queue,
    DeleteQueue: _ask_delete,
    PurgeQueue: _ask_purge,
    Bind: _ask_bind,
    Prefetch: _ask_prefetch,
    Subscribe: _ask_consume,
    Unsubscribe: _ask_cancel,
    Fetch: lambda channel, op: [
        OutgoingMethod(w.JmsBrowse(0, *_where(op.queue), False, op.no_ack))
    ],
}


def _result_consume(channel: Channel, op: Subscribe, m: w.JmsConsumeOk) -> str:
    tag = op.tag or str(m.consumer_tag)
    kind, destination, subscription = _where(op.queue)
    name = subscription or destination
    channel.consumers[tag] = Consumer("jms", name, m.consumer_tag, tag, kind == TOPIC)
    return tag


RESULT: dict[str, Any] = {
    "destination.define-ok": lambda channel, op, m: QueueState(m.destination, m.message_count, 0),
    "destination.query-ok": lambda channel, op, m: QueueState(
        m.destination, m.message_count, m.consumer_count
    ),
    "destination.purge-ok": lambda channel, op, m: m.message_count,
    "destination.cancel-ok": lambda channel, op, m: m.message_count,
    "subscription.query-ok": lambda channel, op, m: QueueState(
        SUBSCRIPTION + m.subscription, m.message_count, m.consumer_count
    ),
    "subscription.purge-ok": lambda channel, op, m: m.message_count,
    "subscription.cancel-ok": lambda channel, op, m: m.message_count,
    "jms.consume-ok": _result_consume,
}


def unsolicited(channel: Channel, method: Method, m: Any) -> list[Operation] | None:
    if method.name == "channel.flow":
        return [Flow(channel.number, None, not m.flow_pause)]
    return None
