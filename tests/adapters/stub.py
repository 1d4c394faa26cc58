"""The least broker that answers: enough to keep a conversation with an adapter going."""

from typing import Any

from gateway.errors import Condition
from gateway.operations import (
    Close,
    Closed,
    DeclareQueue,
    DeleteQueue,
    Fetch,
    Fetched,
    Flow,
    Operation,
    Publish,
    PurgeQueue,
    QueueState,
    Refused,
    Returned,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
    Unsubscribe,
)
from gateway.operations import Done as Answer
from tests.pair import told


class Stub:
    """Queues by name, the default exchange only, one connection."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter
        self.queues: dict[str, list[Any]] = {}
        self.confirming: dict[int, int] = {}
        self.tags: dict[int, int] = {}
        self.heard: list[Operation] = []

    def receive(self, data: bytes) -> None:
        for operation in self.adapter.receive(data):
            self.heard.append(operation)
            if not self.adapter.closing:
                self.perform(operation)

    def perform(self, operation: Operation) -> None:
        if isinstance(operation, SessionLost | Closed):
            told(self.adapter, [operation])
            return
        token = getattr(operation, "token", None)
        channel = getattr(operation, "channel", 0)
        if isinstance(operation, Publish):
            self._publish(operation)
        elif (missing := self._missing(operation)) is not None:
            text = f"no queue '{missing}' in vhost '/'"
            self.adapter.send(Refused(channel, token, Condition.NOT_FOUND, text))
        elif not isinstance(operation, Settle | Close) and token is not None:
            self.adapter.send(Answer(channel, token, self._result(operation)))
            if isinstance(operation, Subscribe):
                for message in self.queues[operation.queue]:
                    number = self.tags[channel] = self.tags.get(channel, 0) + 1
                    tag = operation.tag or "ctag-1"
                    self.adapter.outlet(channel).deliver(tag, number, False, message)
                self.queues[operation.queue].clear()

    def _missing(self, operation: Operation) -> str | None:
        """The queue that a request is about, if there is no such queue."""
        name = None
        if isinstance(operation, Fetch | Subscribe):
            name = operation.queue
        elif isinstance(operation, PurgeQueue):
            name = operation.name
        return None if name in self.queues else name

    def _publish(self, operation: Publish) -> None:
        channel, message = operation.channel, operation.message
        if message.key in self.queues:
            self.queues[message.key].append(message)
        elif operation.mandatory:
            self.adapter.send(Returned(channel, message, Condition.NO_ROUTE, ""))
        if channel in self.confirming:
            self.confirming[channel] += 1
            self.adapter.outlet(channel).confirm(self.confirming[channel], False, True)

    def _result(self, operation: Operation) -> Any:
        if isinstance(operation, DeclareQueue):
            name = operation.name or "amq.gen-1"
            return QueueState(name, len(self.queues.setdefault(name, [])), 0)
        if isinstance(operation, DeleteQueue):
            return len(self.queues.pop(operation.name, ()))
        if isinstance(operation, PurgeQueue):
            return len(self.queues[operation.name])
        if isinstance(operation, Subscribe):
            self.queues.setdefault(operation.queue, [])
            return operation.tag or "ctag-1"
        if isinstance(operation, Unsubscribe):
            return operation.tag
        if isinstance(operation, SelectConfirms):
            self.confirming[operation.channel] = 0
        if isinstance(operation, Flow):
            return operation.active
        if isinstance(operation, Fetch):
            queue = self.queues[operation.queue]
            if not queue:
                return None
            number = self.tags[operation.channel] = self.tags.get(operation.channel, 0) + 1
            return Fetched(number, False, queue.pop(0), len(queue))
        return None
