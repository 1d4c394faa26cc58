"""Operations that are performed by one call to a channel."""

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
    FindBindings,
    FindExchange,
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
    Select: lambda channel, _: channel.select_transactions(),
    SelectConfirms: lambda channel, _: channel.publish_path.select_confirms(),
}
"""Answered at once, in order, without a result."""

TOPOLOGY: dict[type[Operation], Call] = {
    Bind: lambda channel, op: channel.topology.bind(op),
    CancelTopic: cancel_topic,
    DeclareExchange: lambda channel, op: channel.topology.declare_exchange(op),
    DeclareQueue: lambda channel, op: channel.topology.declare_queue(op),
    DeleteExchange: lambda channel, op: channel.topology.delete_exchange(op),
    DeleteQueue: lambda channel, op: channel.topology.delete_queue(op),
    FindBindings: lambda channel, op: channel.topology.find_bindings(op),
    FindExchange: lambda channel, op: channel.topology.find_exchange(op),
    PurgeQueue: lambda channel, op: channel.topology.purge_queue(op),
    PurgeTopic: purge_topic,
    Unbind: lambda channel, op: channel.topology.unbind(op),
}
"""Answered with their result when the store has committed them."""
