"""Consumers of one connection: subscribing, credit, flow, and messages fetched one at a time."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from gateway.broker.channel import Channel
from gateway.operations import (
    Credit,
    Done,
    Fetch,
    FindQueue,
    Flow,
    FoundQueue,
    Operation,
    Subscribe,
    Unsubscribe,
)

if TYPE_CHECKING:
    from gateway.sessions.session import Session

MOST_BINDINGS = 16
"""Bindings of a queue that are told to an adapter which asks for it."""


class ConsumerOperations:
    """Performs the requests of consumers for a session."""

    def __init__(self, session: "Session") -> None:
        self.session = session
        self.handlers: dict[type[Operation], Callable[[Channel, Any], None]] = {
            Flow: self._flow,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Credit: self.credit,
            Fetch: self._fetch,
            FindQueue: self._find_queue,
        }

    def _flow(self, channel: Channel, operation: Flow) -> None:
        if operation.active:
            # The deliveries that it allows do not overtake the answer.
            then = partial(channel.flow, True)
        else:
            channel.flow(False)
            then = None
        self.session.answer(operation.channel, operation.token, operation.active, then)

    def _subscribe(self, channel: Channel, operation: Subscribe) -> None:
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
        )
        # The first delivery must not overtake the answer.
        self.session.answer(operation.channel, operation.token, tag, partial(channel.start, tag))

    def _unsubscribe(self, channel: Channel, operation: Unsubscribe) -> None:
        channel.unsubscribe(operation.tag)
        self.session.answer(operation.channel, operation.token, operation.tag)

    def credit(self, channel: Channel, operation: Credit) -> None:
        """Credit of a consumer."""
        session, number, token = self.session, operation.channel, operation.token
        channel.credit(operation.tag, operation.count)
        if not operation.drain:
            self.session.answer(number, token, 0)
            return

        def drained(left: int) -> None:
            # Perhaps turns later: another channel may have the number by then.
            if not session.closed and session.channels.get(number) is channel:
                self.session.answer(number, token, left)

        channel.drain(operation.tag, drained)

    def _fetch(self, channel: Channel, operation: Fetch) -> None:
        fetched = channel.fetch(operation.queue, operation.no_ack)
        self.session.answer(operation.channel, operation.token, fetched)

    def _find_queue(self, channel: Channel, operation: FindQueue) -> None:
        queue = channel.vhost.queues.get(operation.name)
        state = None
        if queue is not None:
            bindings = tuple(
                (b.source.name, b.key, b.arguments) for b in islice(queue.bindings, MOST_BINDINGS)
            )
            state = FoundQueue(
                queue.name, queue.depth, len(queue.consumers), queue.arguments, bindings
            )
        # At once, not behind earlier answers: what the adapter asks next depends on it.
        self.session.adapter.send(Done(operation.channel, operation.token, state))
        self.session.follow()
