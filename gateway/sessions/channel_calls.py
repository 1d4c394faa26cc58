"""Operations that are performed by one call to a channel, and their answers."""

from collections.abc import Callable
from typing import Any

from gateway.broker.channel import Channel
from gateway.operations import (
    Assure,
    Bind,
    CancelTopic,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    EnterRealm,
    FindBindings,
    FindExchange,
    Operation,
    Prefetch,
    PurgeQueue,
    PurgeTopic,
    Select,
    SelectConfirms,
    Synchronize,
    Unbind,
    Unsent,
)
from gateway.sessions.context import SessionContext
from gateway.sessions.realms import Realms
from gateway.sessions.replies import Replies
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


class ChannelCalls:
    """Performs them for one connection, and answers in order."""

    def __init__(self, context: SessionContext, replies: Replies, realms: Realms) -> None:
        self._context = context
        self._replies = replies
        self._realms = realms

    def plain(self, channel: Channel, operation: Any) -> None:
        PLAIN[operation.__class__](channel, operation)
        self._replies.answer(operation.channel, operation.token)

    def topology(self, channel: Channel, operation: Any) -> None:
        replies = self._replies
        replies.begin_request()
        try:
            result = TOPOLOGY[operation.__class__](channel, operation)
        finally:
            notices = replies.end_request()
        if self._context.broker.topology_alone_is_safe:
            replies.answer(operation.channel, operation.token, result)
        else:
            replies.answer_when_safe(operation.channel, operation.token, result)
        for notice in notices:
            replies.notify(notice)

    def enter_realm(self, channel: Channel, operation: EnterRealm) -> None:
        self._realms.enter(channel, operation.name, operation.exclusive)
        self._replies.answer(operation.channel, operation.token)

    def answer_when_safe(self, channel: Channel, operation: Assure | Synchronize) -> None:
        self._replies.answer_when_safe(operation.channel, operation.token, holds=False)


CALLS: dict[type[Any], Callable[[ChannelCalls, Channel, Any], None]] = {
    **dict.fromkeys(PLAIN, ChannelCalls.plain),
    **dict.fromkeys(TOPOLOGY, ChannelCalls.topology),
    **dict.fromkeys((Assure, Synchronize), ChannelCalls.answer_when_safe),
    EnterRealm: ChannelCalls.enter_realm,
    Unsent: lambda _, channel, op: channel.settlements.unsent(
        op.consumer, op.delivery, op.message, op.queue
    ),
}
"""By operation."""
