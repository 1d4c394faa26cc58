"""Operations of consumers: subscribing, credit, flow, and messages fetched one at a time."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, cast

from gateway.broker.channel import Channel
from gateway.operations import (
    Cancelled,
    Credit,
    Done,
    Fetch,
    FindQueue,
    Flow,
    FoundQueue,
    Subscribe,
    Unsubscribe,
)
from gateway.sessions.context import SessionContext
from gateway.sessions.recipient import ChannelRecipient
from gateway.sessions.replies import Replies

MOST_BINDINGS = 16
"""Bindings of a queue that an adapter is told about."""


class ConsumerOperations:
    """Performs the operations of consumers for one session. ``follow`` performs the
    operations that the adapter has found since it last received."""

    def __init__(
        self, context: SessionContext, replies: Replies, follow: Callable[[], None]
    ) -> None:
        self._context = context
        self._replies = replies
        self._follow = follow

    def flow(self, channel: Channel, operation: Flow) -> None:
        if operation.active:
            # The deliveries that it allows do not overtake the answer.
            then = partial(channel.flow, True)
        else:
            channel.flow(False)
            then = None
        self._replies.answer(operation.channel, operation.token, operation.active, then)

    def subscribe(self, channel: Channel, operation: Subscribe) -> None:
        if not operation.copy and operation.filter is None:
            channel.prepare_consumer(
                operation.queue,
                operation.no_ack,
                operation.exclusive,
                operation.arguments or {},
                operation.credit,
            )
        tag = channel.subscribe(
            operation.queue,
            operation.tag,
            operation.no_ack,
            operation.exclusive,
            operation.no_local,
            operation.arguments,
            matches=operation.filter,
            copy=operation.copy,
            credit=operation.credit,
            remaining_ttl=operation.remaining_ttl,
            measure=operation.measure,
        )
        # The first delivery must not overtake the answer.
        start = partial(self._start, operation.channel, channel, tag, operation.ends)
        self._replies.answer(operation.channel, operation.token, tag, start)

    def _start(self, number: int, channel: Channel, tag: str, ends: bool) -> None:
        """Deliveries begin. With ``ends`` the consumer ends after those that are ready."""
        channel.start(tag)
        if not ends:
            return

        def ended(left: int) -> None:
            if self._context.has(number, channel):
                channel.unsubscribe(tag)
                self._replies.notify(Cancelled(number, tag, True))

        channel.drain(tag, ended)

    def unsubscribe(self, channel: Channel, operation: Unsubscribe) -> None:
        channel.unsubscribe(operation.tag)
        self._replies.answer(operation.channel, operation.token, operation.tag)

    def credit(self, channel: Channel, operation: Credit) -> None:
        """Set the credit of a consumer; with ``drain`` it is used up first."""
        token = operation.token
        channel.credit(operation.tag, operation.count, operation.octets)
        if not operation.drain:
            self._replies.answer(operation.channel, token, 0)
            return

        def drained(left: int) -> None:
            # Perhaps turns later, where the recipient is then.
            cast(ChannelRecipient, channel.recipient).answer(channel, token, left)

        channel.drain(operation.tag, drained)

    def fetch(self, channel: Channel, operation: Fetch) -> None:
        fetched = channel.fetch(operation.queue, operation.no_ack)
        self._replies.answer(operation.channel, operation.token, fetched)

    def find_queue(self, channel: Channel, operation: FindQueue) -> None:
        queue = channel.vhost.queues.get(operation.name)
        state = None
        if queue is not None:
            bindings = tuple(
                (b.source.name, b.key, b.arguments)
                for b in islice(channel.vhost.bindings_to(queue), MOST_BINDINGS)
            )
            state = FoundQueue(
                queue.name,
                queue.depth,
                len(queue.consumers),
                queue.arguments,
                bindings,
                queue.durable,
                queue.owner is not None,
                queue.auto_delete,
            )
        # At once, not behind earlier answers: the next request of the adapter depends on it.
        self._context.adapter.send(Done(operation.channel, operation.token, state))
        self._follow()


CONSUMING: dict[type[Any], Callable[[ConsumerOperations, Channel, Any], None]] = {
    Flow: ConsumerOperations.flow,
    Subscribe: ConsumerOperations.subscribe,
    Unsubscribe: ConsumerOperations.unsubscribe,
    Credit: ConsumerOperations.credit,
    Fetch: ConsumerOperations.fetch,
    FindQueue: ConsumerOperations.find_queue,
}
"""By operation."""
