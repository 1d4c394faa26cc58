"""Publishes of a session: one message, or many in a row, and what becomes of one that is
refused."""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from time import perf_counter

from gateway.broker.channel import Channel
from gateway.broker.publish_path import PublishPath
from gateway.broker.runs import publish_run
from gateway.errors import AwaitsUpstream, Refusal
from gateway.message import Message, WithAlternate
from gateway.operations import Operation, Publish, PublishMany, SendMany, SendTo
from gateway.sessions.context import SessionContext
from gateway.sessions.replies import Replies

ALONE = 16
"""Messages that are published one by one before the next run is tried."""


def refused_message(operation: Operation) -> Message | None:
    """The message that was refused, if the operation is a publish."""
    if isinstance(operation, PublishMany):
        return operation.messages[0]
    return operation.message if isinstance(operation, Publish) else None


def one_by_one(operations: Iterable[Operation]) -> Iterator[Operation]:
    """The operations, with a publish for each message of many."""
    for operation in operations:
        if isinstance(operation, SendMany):
            number, token, link, name = (
                operation.channel, operation.token, operation.link, operation.name,
            )  # fmt: skip
            for message in operation.many.messages:
                yield SendTo(number, token, link, name, message)
        elif isinstance(operation, PublishMany):
            number, mandatory, alternate = (
                operation.channel, operation.mandatory, operation.alternate,
            )  # fmt: skip
            for message in operation.messages:
                if alternate is None:
                    yield Publish(number, message, mandatory, False)
                else:
                    yield PublishMany(number, [message], mandatory, None, alternate)
        else:
            yield operation


def choose_exchanges(path: PublishPath, operation: PublishMany, alternate: str) -> None:
    """Address messages that no queue takes at their exchange to the ``alternate`` one. Those for an
    upstream, which alone knows its bindings, come back first. Refuses with 403 or 404."""
    messages = operation.messages
    if path.vhost.outbound is None:
        for message in messages:
            name, key = message.exchange, message.key
            exchange = path.writable.get(name) or path.find_writable(name)
            queues = exchange.routes.get(key)
            if not (path.routed(exchange, message) if queues is None else queues):
                message.exchange = alternate
    elif path.transaction is None:
        mandatory, operation.mandatory = operation.mandatory, True
        messages[:] = [WithAlternate(message, alternate, mandatory) for message in messages]
    operation.alternate = None


class Publishes:
    """``refuses_alone``: a message that is refused costs neither its channel nor its link."""

    __slots__ = ("refuses_alone", "_context", "_replies")

    def __init__(self, context: SessionContext, replies: Replies, refuses_alone: bool) -> None:
        self.refuses_alone = refuses_alone
        self._context = context
        self._replies = replies

    def one(self, channel: Channel, operation: Publish) -> None:
        """Publish a message. Raises ``Refusal``."""
        channel.publish_path.publish(operation.message, operation.mandatory, operation.immediate)
        self._context.publisher = True

    def many(
        self,
        channel: Channel,
        operation: PublishMany,
        until: float = math.inf,
        within: SendMany | None = None,
    ) -> bool:
        """Publish these messages, or as many as there is time for: true if some are left for
        another time slice. Raises ``Refusal`` for the first that is left, unless a message is
        refused alone: then the others go on. ``within``: the operation that this one is a part of,
        and that is refused or deferred as a whole."""
        self._context.publisher = True
        path, clock = channel.publish_path, perf_counter
        if operation.alternate is not None:
            choose_exchanges(path, operation, operation.alternate)
        messages, mandatory = operation.messages, operation.mandatory
        while messages:
            done = 0
            try:
                while done < len(messages):
                    count = publish_run(path, messages, done, clock, until)
                    if count:
                        if path.recorder is not None:
                            path.gather_run(messages, done, count, operation.wire)
                        done += count
                    else:
                        for message in islice(messages, done, done + ALONE):
                            path.publish(message, mandatory)
                            done += 1
                            if clock() > until or path.closed:
                                break
                    if path.closed:
                        return False  # what came back has ended the channel
                    if clock() > until:
                        break
            except Refusal as refusal:
                together = within is not None or not self.refuses_alone
                if together or isinstance(refusal, AwaitsUpstream):
                    raise
                self.refuse(operation.channel, messages[done], refusal)
                done += 1
            finally:
                del messages[:done]
                operation.wire = None
            waiting = self._replies.waiting.get(operation.channel)
            came_back = messages and waiting is not None and not waiting.busy
            if came_back and self._replies.defer(within or operation):
                return False  # the others may not overtake it
            if messages and clock() > until:
                return True
        return False

    def refuse(self, number: int, message: Message, refusal: Refusal) -> None:
        """A message is refused, and its channel goes on."""
        channel = self._context.channels[number]
        channel.recipient.returned(message, refusal.condition, refusal.text)
        channel.publish_path.publish_refused()
