"""Operations that are one call to a channel, by what answers them."""

from collections.abc import Callable
from typing import Any

from gateway.broker.channel import Channel
from gateway.operations import (
    Bind,
    CancelTopic,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Operation,
    Prefetch,
    PurgeQueue,
    PurgeTopic,
    Select,
    SelectConfirms,
    Unbind,
)
from gateway.sessions.subscriptions import cancel_topic, purge_topic

Call = Callable[[Channel, Any], Any]

PLAIN: dict[type[Operation], Call] = {
    Prefetch: lambda channel, op: channel.prefetch(op.count, op.size, op.shared),
    Select: lambda channel, _: channel.select(),
    SelectConfirms: lambda channel, _: channel.select_confirms(),
}
"""Answered at once, in their order, with nothing."""

TOPOLOGY: dict[type[Operation], Call] = {
    Bind: Channel.bind,
    CancelTopic: cancel_topic,
    DeclareExchange: Channel.declare_exchange,
    DeclareQueue: Channel.declare_queue,
    DeleteExchange: Channel.delete_exchange,
    DeleteQueue: Channel.delete_queue,
    PurgeQueue: Channel.purge_queue,
    PurgeTopic: purge_topic,
    Unbind: Channel.unbind,
}
"""Answered with their result when it is safe."""
