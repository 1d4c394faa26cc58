"""Queues at the upstream of a facade for the direct replies to its clients."""

import asyncio
import logging
from itertools import islice
from typing import Protocol

from gateway.bridge.feed_settlements import unheard
from gateway.bridge.feeds import FeedOwner
from gateway.broker.answers import Answer
from gateway.errors import Condition, GatewayError, LocalError, Refusal
from gateway.net.dialer import Remote
from gateway.operations import (
    BeginSession,
    DeclareQueue,
    DeleteQueue,
    Deliver,
    EndSession,
    QueueState,
    Subscribe,
    Unsubscribe,
)

log = logging.getLogger("gateway.bridge")

PORTION = 100
"""Queues that are made at a time."""
ABANDONED_SECONDS = 5.0
"""Time after which a queue is removed whose client has gone before the upstream made it."""
UNUSED_MS = 60_000
"""Time after which RabbitMQ removes a queue without a consumer."""


class ReplyQueueOwner(FeedOwner, Protocol):
    """The facade."""

    patience: float

    def free_channel(self) -> int: ...

    def failed(self, text: str) -> None: ...


class ReplyQueues:
    """One channel of the upstream's connection. Each client that waits for direct replies has a
    queue there, and a consumer whose tag is the queue's name. So replies are published to the
    default exchange, at any gateway or at the upstream itself, and it tells publishers of those
    that come too late. The queues are not exclusive, so that anybody may ask whether they are there
    (Broker-J ends connections over such questions), and are made again after a connection is lost.
    """

    def __init__(self, owner: ReplyQueueOwner) -> None:
        self._owner = owner
        self._wanted: dict[str, Answer] = {}
        """By name of the queue, the answer to the client's request for it."""
        self._missing: dict[str, None] = {}
        """Those that the upstream does not have yet."""
        self._changed = asyncio.Event()
        self._remote: Remote | None = None
        self._channel = 0
        """0 before it has begun."""
        self._stale = False
        """The channel is to be begun again."""
        self._portion = PORTION

    # --- for clients ------------------------------------------------------------------------------

    def open(self, name: str) -> Answer:
        """Make a queue. The answer is its name, or "" if the upstream cannot have such queues."""
        answer = self._wanted[name] = Answer()
        self._want(name)
        asyncio.get_running_loop().call_later(self._owner.patience, self._expire, name, answer)
        return answer

    def close(self, name: str) -> None:
        """The client has gone."""
        self._missing.pop(name, None)
        if self._wanted.pop(name, None) is not None and self._remote is not None and self._channel:
            self._remove(self._remote, name)

    def _remove(self, remote: Remote, name: str) -> None:
        """The queue goes with its consumer."""
        try:
            remote.request(Unsubscribe(self._channel, None, name)).add_done_callback(unheard)
        except GatewayError as error:  # the channel or the connection is lost
            log.debug("facade %s: %s", self._owner.vhost, error)

    def _want(self, name: str) -> None:
        if name in self._wanted:
            self._missing[name] = None
            self._changed.set()

    def _expire(self, name: str, answer: Answer) -> None:
        if not answer.done:
            text = "the upstream cannot be reached for direct replies"
            self._resolve(name, "", Refusal(Condition.RESOURCE_ERROR, text))

    def _resolve(self, name: str, result: str, refusal: Refusal | None = None) -> None:
        answer = self._wanted.get(name)
        if answer is None or answer.done:
            return
        with self._owner.turn():
            answer.resolve(result, refusal)
        asyncio.get_running_loop().call_later(ABANDONED_SECONDS, self._remove_unused, name)

    def _remove_unused(self, name: str) -> None:
        if name not in self._owner.host.replies:
            self.close(name)

    # --- at the upstream --------------------------------------------------------------------------

    async def run(self, remote: Remote, possible: bool) -> None:
        """Make the queues that are wanted while a connection lives. ``possible``: clients can make
        queues there."""
        self._remote, self._missing = remote, dict.fromkeys(self._wanted)
        while True:
            if not self._missing:
                self._portion = PORTION
                self._changed.clear()
                await self._changed.wait()
            if possible:
                await self._make(remote)
                continue
            missing, self._missing = self._missing, {}
            for name in missing:
                self._resolve(name, "")

    async def _make(self, remote: Remote) -> None:
        """Make some queues. A refusal may end the channel, and so refuse the others: then they are
        made one by one. Raises ``Refusal`` if the connection is lost."""
        await self._begin(remote)
        names = list(islice(self._missing, self._portion))
        work = [self._make_one(remote, name) for name in names]
        results = await asyncio.gather(*work, return_exceptions=True)
        for name, result in zip(names, results, strict=True):
            if result is None:
                self._missing.pop(name, None)
                self._resolve(name, name)
                if name not in self._wanted:
                    self._remove(remote, name)
            elif remote.closed is not None or not isinstance(result, Refusal | LocalError):
                raise result
            elif len(names) > 1:
                self._portion = 1
            else:
                self._refused(name, result)

    async def _begin(self, remote: Remote) -> None:
        """A channel, if there is none or it was lost: then all queues are made again."""
        if not self._channel:
            self._channel = self._owner.free_channel()
            self._owner.feeds[self._channel] = self
        elif self._stale and not remote.lost(self._channel):
            await remote.request(EndSession(self._channel, None))
        elif not remote.lost(self._channel):
            return
        self._stale = False
        self._missing = dict.fromkeys(self._wanted)
        await remote.request(BeginSession(self._channel, None))

    async def _make_one(self, remote: Remote, name: str) -> None:
        """Later versions of RabbitMQ want queues of several connections to be durable."""
        channel, there = self._channel, self._owner.places.queue(name)
        declared = DeclareQueue(channel, None, there, auto_delete=True)
        if remote.peer.product == "RabbitMQ":
            declared.durable = not remote.peer.product_version.startswith("3.")
            declared.arguments = {"x-expires": UNUSED_MS}
        state = await remote.request(declared)
        if isinstance(state, QueueState) and state.consumers:
            # The consumer of a connection that is lost, which the upstream has not noticed.
            await remote.request(DeleteQueue(channel, None, there))
            await remote.request(declared)
        await remote.request(Subscribe(channel, None, there, tag=name, no_ack=True))

    def _refused(self, name: str, error: Refusal | LocalError) -> None:
        self._missing.pop(name, None)
        condition = error.condition if isinstance(error, Refusal) else Condition.NOT_IMPLEMENTED
        text = f"direct replies: {error}"
        self._owner.failed(text)
        self._resolve(name, "", Refusal(condition, text))
        replies = self._owner.host.replies.get(name)
        if replies is not None:
            with self._owner.turn():
                self._owner.host.remove_queue(replies)  # its client is told

    # --- as a feed --------------------------------------------------------------------------------

    def deliver(self, operation: Deliver) -> None:
        replies = self._owner.host.replies.get(operation.consumer)
        message, is_copy = operation.message, self._owner.is_copy
        if replies is None or (is_copy is not None and is_copy(message)):
            return
        replies.put(message.routed_as("", replies.name))

    def ended(self, condition: Condition, text: str) -> None:
        """The upstream has ended the channel, or a queue was deleted there: all are made again."""
        self._stale = True
        self._missing = dict.fromkeys(self._wanted)
        self._changed.set()

    def lose(self) -> None:
        """The connection is lost."""
        self._remote, self._channel = None, 0
