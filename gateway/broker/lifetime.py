"""How long a queue stays when nobody uses it: RabbitMQ's ``x-expires``, and the time that Qpid
gives an auto-delete queue after its last consumer."""

from collections.abc import Mapping
from typing import Any, Protocol

from gateway.broker.limits import QueueArguments
from gateway.broker.state import BrokerState


class LimitedQueue(Protocol):
    """The queue."""

    state: BrokerState
    limits: QueueArguments
    consumers: Mapping[Any, None]
    due: int | None

    def on_due(self) -> None: ...

    def end(self) -> None:
        """Delete it."""
        ...


class Lifetime:
    """Of one queue. ``abandoned``: it is auto-delete, and has had its last consumer."""

    __slots__ = ("queue", "used", "abandoned")

    def __init__(self, queue: LimitedQueue) -> None:
        self.queue = queue
        self.used = queue.state.now
        self.abandoned = False

    def touch(self) -> None:
        """The queue was used; its own expiry starts anew."""
        queue = self.queue
        self.used = queue.state.now
        if queue.limits.expires is not None:
            queue.state.schedule(queue, self.used + queue.limits.expires)

    def abandon(self) -> bool:
        """An auto-delete queue is not in use any more: it is deleted, now (true) or after the time
        that an argument says."""
        queue = self.queue
        timeout = queue.limits.auto_delete_timeout
        if timeout is None:
            queue.end()
            return True
        self.abandoned = True
        queue.state.schedule(queue, self.used + timeout)
        return False

    def over(self) -> bool:
        """Whether its time is over; it is deleted then. Otherwise it is looked at again in time."""
        queue = self.queue
        if queue.consumers:
            return False
        limits = queue.limits
        for milliseconds in (
            limits.expires,
            limits.auto_delete_timeout if self.abandoned else None,
        ):
            if milliseconds is None:
                continue
            if self.used + milliseconds <= queue.state.now:
                queue.end()
                return True
            queue.state.schedule(queue, self.used + milliseconds)
        return False
