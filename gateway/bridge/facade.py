"""The connections of a facade to its upstream: one for topology and consumers, one for publishes.

While the upstream is away, requests wait for up to ``patience_seconds``, messages without a
confirm are kept and published again, and consumers are subscribed again when it is back.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, NamedTuple, cast

from gateway.adapters.contract import Capability
from gateway.bridge.attempts import attempt
from gateway.bridge.clock import now
from gateway.bridge.ends import first_of
from gateway.bridge.facade_publisher import FAULTS, Conclude, FacadePublisher
from gateway.bridge.feeds import Feed
from gateway.bridge.places import SAME_PLACES, Places
from gateway.bridge.queue_types import find_queue
from gateway.bridge.remote_ends import begin, raise_if_lost
from gateway.bridge.reply_queues import ReplyQueues
from gateway.bridge.upstream import Upstream
from gateway.bridge.upstream_transactions import UpstreamTransactions
from gateway.bridge.waiting import Turn, quietly
from gateway.broker.answers import Answer
from gateway.broker.facade import FacadeVirtualHost, UpstreamQueue
from gateway.broker.feed_queue import FeedQueue, UpstreamWork
from gateway.broker.outbound import FIRST, PublishFate
from gateway.config.facade import FacadeSettings
from gateway.errors import Condition, GatewayError, LocalError, Refusal
from gateway.message import Message
from gateway.net.dialer import Remote
from gateway.net.pauses import Pauses
from gateway.operations import (
    BeginSession,
    Bind,
    Cancelled,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    FindQueue,
    FoundQueue,
    PurgeQueue,
    QueueState,
    Returned,
    SessionLost,
    Unbind,
)

log = logging.getLogger("gateway.bridge")

CONTROL = 1
"""Channel of requests about topology."""
BATCH = 512
"""Operations of the upstream that are handled in one turn of the loop."""
ABANDONED_SECONDS = 5.0
"""Time after which a subscription ends whose client has gone before the upstream agreed."""

PREFIX = re.compile(r"^[A-Z_]+ - ")
"""Reply texts of RabbitMQ begin with the name of the reply code, which is added again here."""
STANDARD_TYPES = frozenset({"", "direct", "fanout", "topic", "headers"})
ASSUMED: dict[type[Any], Callable[[Any], Any]] = {
    DeclareQueue: lambda op: QueueState(op.name, 0, 0),
    DeclareExchange: lambda op: None,
    DeleteQueue: lambda op: 0,
    FindQueue: lambda op: FoundQueue(op.name, 0, 0),
    DeleteExchange: lambda op: None,
    PurgeQueue: lambda op: 0,
    Bind: lambda op: None,
    Unbind: lambda op: None,
}
"""Answers where the upstream's topology cannot be changed or asked for over AMQP."""


class FacadeInfo(NamedTuple):
    """A facade as the administration shows it. ``since`` is the time of the last change of state in
    ms since 1970."""

    vhost: str
    upstream: str
    state: str
    version: str
    published: int
    refused: int
    under_way: int
    feeds: int
    connected: int
    since: int
    error: str


class Request(NamedTuple):
    """One that the upstream has not answered. ``expires`` by the clock of the loop."""

    operation: Any
    answer: Answer
    expires: float


class Facade:
    """Owns the connections; a port of its ``FacadeVirtualHost``. ``host`` is set after it is made.
    ``on_full`` is called when publishers have to be held back, or no longer. ``side`` is its bit in
    ``Passage.awaits``; ``serves`` tells whether the consumers of a queue have their subscriptions
    here; ``places`` are the names that queues and addresses have at this upstream."""

    def __init__(
        self,
        settings: FacadeSettings,
        upstream: Upstream,
        turn: Turn,
        side: int = FIRST,
        places: Places = SAME_PLACES,
    ) -> None:
        self.vhost = settings.vhost
        self.upstream = upstream
        self.side = side
        self.places = places
        self.serves: Callable[[str], bool] = lambda name: True
        self.conclude: Conclude = self._conclude_one
        self.taken: Callable[[list[int]], None] = self._taken
        self.on_lost: Callable[[], None] = lambda: None
        self.is_copy: Callable[[Message], bool] | None = None
        """Deliveries that are removed here, and go to no consumer."""
        self.host: FacadeVirtualHost
        self.patience = settings.patience_seconds
        self.on_full: Callable[[], None] = lambda: None
        self.turn = turn
        self.error = ""
        self.connected = 0
        self.connected_at = 0.0
        self.remote: Remote | None = None
        """The connection for topology and consumers, while it lives."""
        self.feeds: dict[int, Feed | ReplyQueues] = {}
        """By their channel at the upstream."""
        self.replies = ReplyQueues(self)
        self._assume = settings.topology == "assume"
        """The topology of the upstream is taken for granted."""
        self.publisher = FacadePublisher(self)
        self.transactions = UpstreamTransactions(self)
        self.publish = self.publisher.publish
        self._requests: deque[Request] = deque()
        self._requested = asyncio.Event()
        self._changed: dict[FeedQueue, None] = {}
        self._adjusting = False
        self._connected = asyncio.Event()
        self._state, self._since = "connecting", now()
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def info(self) -> FacadeInfo:
        outbound = self.host.outbound
        version = "" if self.remote is None else self.remote.adapter.version
        return FacadeInfo(
            self.vhost,
            self.upstream.settings.name,
            self._state,
            version,
            outbound.published,
            outbound.refused,
            len(outbound.under_way),
            len(self.feeds),
            self.connected,
            self._since,
            self.error,
        )

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        for task in (self._task, *self._tasks):
            if task is not None:
                task.cancel()
        await asyncio.gather(*filter(None, (self._task, *self._tasks)), return_exceptions=True)

    # --- the port of the virtual host -------------------------------------------------------------

    def ask(self, operation: Any) -> Answer:
        answer = Answer()
        expires = asyncio.get_running_loop().time() + self.patience
        self._requests.append(Request(operation, answer, expires))
        self._requested.set()
        return answer

    def _conclude_one(self, number: int, fate: PublishFate, text: str) -> None:
        self.host.outbound.conclude(number, fate, text)

    def _taken(self, numbers: list[int]) -> None:
        self.host.outbound.taken(numbers)

    def relieved(self) -> None:
        self.on_full()

    def wanted(self, queue: FeedQueue) -> None:
        if not self._adjusting:
            self._adjusting = True
            asyncio.get_running_loop().call_soon(self._adjust)
        self._changed[queue] = None

    def fetch(self, queue: FeedQueue) -> Answer:
        answer = Answer()
        self.run_soon(self._use_feed(queue, answer, Feed.fetch))
        return answer

    def seek(self, queue: FeedQueue) -> Answer:
        answer = Answer()
        self.run_soon(self._use_feed(queue, answer, Feed.seek))
        return answer

    def open(self, queue: FeedQueue) -> Answer:
        answer = Answer()
        self.run_soon(self._open(queue, answer))
        return answer

    def allow_transactions(self) -> Answer:
        return self.transactions.allow()

    def transact(self, work: UpstreamWork) -> Answer:
        return self.transactions.transact(work)

    def has(self, feed: object) -> bool:
        return feed in self.feeds.values()

    def open_replies(self, name: str) -> Answer:
        return self.replies.open(name)

    def close_replies(self, name: str) -> None:
        self.replies.close(name)

    def run_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- connecting -------------------------------------------------------------------------------

    async def _run(self) -> None:
        pauses = Pauses(first=0.2, longest=10.0)
        while True:
            connected = self.connected
            await attempt(f"facade {self.vhost}", self._serve(), self.failed)
            if self.connected > connected:
                pauses.reset()
            self._enter("waiting")
            self._expire()
            await asyncio.sleep(pauses.next())

    async def _serve(self) -> None:
        """Connect, and serve until a connection is lost."""
        name = f"facade {self.vhost}"
        remote = await begin(self.upstream, name)
        try:
            self._learn(remote)
            await self._restore(remote)
            await self._request_all(remote)  # messages may wait for what is declared now
            await self.publisher.open(name)
            self.remote = remote
            self.connected += 1
            self.connected_at = asyncio.get_running_loop().time()
            self.error = ""
            self._enter("connected")
            self._connected.set()
            self._attach_all()
            await first_of(
                self._request(remote),
                self._read(remote),
                self.replies.run(remote, self._declares),
                self.publisher.run(),
            )
        finally:
            lost, self.remote = self.remote, None
            self.publisher.lose()
            self._connected.clear()
            if lost is not None:
                self._lose_feeds()
                self.on_lost()
            await self.publisher.close()
            await quietly(self.upstream.disconnect(remote))

    def _learn(self, remote: Remote) -> None:
        """Which requests the upstream can answer."""
        linked = remote.adapter.capabilities & (Capability.LINKS | Capability.HANDLES)
        managed = remote.peer.product.startswith(("RabbitMQ", "amqp-gateway"))
        self._assumed = self._assume or bool(linked and not managed)
        handled = Capability.HANDLES in remote.adapter.capabilities
        self._declares = not (self._assumed or handled)
        self._per_session = Capability.SESSIONS in remote.adapter.capabilities

    def failed(self, text: str) -> None:
        if text != self.error:
            log.warning("facade %s: %s", self.vhost, text)
        self.error = text

    def _enter(self, state: str) -> None:
        if state != self._state:
            self._state, self._since = state, now()

    # --- topology ---------------------------------------------------------------------------------

    async def _restore(self, remote: Remote) -> None:
        """Declare again the queues that have ended with the last connection."""
        if self._assumed:
            return
        queues = cast(list[UpstreamQueue], list(self.host.queues.values()))
        for queue in filter(lambda queue: self.serves(queue.name), queues):
            for operation in list(queue.restore):
                try:
                    await remote.request(self._sendable_request(operation))
                except Refusal as refusal:
                    self.failed(f"{queue.name}: {refusal.text}")
                    await self._reopen(remote)
                    break

    def _sendable_request(self, operation: Any) -> Any:
        """A request as the upstream gets it. An exclusive queue of 0-10 belongs to one session, and
        consumers have their own: the queue is exclusive here only."""
        if self._per_session and isinstance(operation, DeclareQueue) and operation.exclusive:
            return replace(operation, channel=CONTROL, exclusive=False, auto_delete=False)
        return replace(operation, channel=CONTROL)

    async def _reopen(self, remote: Remote) -> None:
        """Begin the channel of requests again, if a refusal has ended it."""
        if remote.closed is None and remote.lost(CONTROL):
            await remote.request(BeginSession(CONTROL, None))

    async def _request(self, remote: Remote) -> None:
        while True:
            self._requested.clear()
            await self._request_all(remote)
            if remote.closed is not None:
                return
            await self._requested.wait()

    async def _request_all(self, remote: Remote) -> None:
        """Send the requests that wait now, one at a time: a refusal may end their channel."""
        for _ in range(len(self._requests)):
            request = self._requests[0]
            result, refusal = None, None
            if self._assumed:
                result = ASSUMED[request.operation.__class__](request.operation)
            else:
                try:
                    result = await self._answer_of(remote, request.operation)
                except (LocalError, Refusal) as error:
                    refusal = self.explain(error)
                if remote.closed is None:
                    await self._reopen(remote)
                elif refusal is None or refusal.condition not in FAULTS:
                    return  # asked again over the next connection
            self._requests.popleft()
            with self.turn():
                request.answer.resolve(result, refusal)

    async def _answer_of(self, remote: Remote, operation: Any) -> Any:
        """Raises ``Refusal``. A broker may end the connection over a type of exchange that it does
        not know: one that is not of the standard is asked for over a connection of its own."""
        if isinstance(operation, FindQueue):
            return await find_queue(remote, CONTROL, operation)
        if not isinstance(operation, DeclareExchange) or operation.type in STANDARD_TYPES:
            return await remote.request(self._sendable_request(operation))
        alone = await begin(self.upstream, f"facade {self.vhost}: exchange")
        try:
            return await alone.request(self._sendable_request(operation))
        finally:
            await quietly(self.upstream.disconnect(alone))

    def _expire(self) -> None:
        """Refuse the requests that have waited too long."""
        time_now = asyncio.get_running_loop().time()
        while self._requests and self._requests[0].expires <= time_now:
            request = self._requests.popleft()
            text = f"the upstream {self.upstream.settings.name} cannot be reached"
            with self.turn():
                request.answer.resolve(None, Refusal(Condition.RESOURCE_ERROR, text))

    # --- consuming --------------------------------------------------------------------------------

    async def _read(self, remote: Remote) -> None:
        while operations := await remote.some(BATCH):
            with self.turn():
                self._handle_all(operations)
            await asyncio.sleep(0)

    def _handle_all(self, operations: list[Any]) -> None:
        """Hot."""
        feeds = self.feeds
        for operation in operations:
            if operation.__class__ is Deliver:
                feed = feeds.get(operation.channel)
                if feed is not None:
                    feed.deliver(operation)
            else:
                self._handle(operation)

    def _handle(self, operation: Any) -> None:
        if isinstance(operation, SessionLost) and operation.channel != CONTROL:
            feed = self.feeds.get(operation.channel)
            if feed is not None:
                feed.ended(operation.condition, operation.text)
        elif isinstance(operation, Cancelled):
            feed = self.feeds.get(operation.channel)
            if feed is not None:
                feed.ended(Condition.NOT_FOUND, "the upstream ended the subscription")
        elif isinstance(operation, Returned):
            self.transactions.give_back(operation)
        elif not isinstance(operation, SessionLost):
            raise_if_lost(operation)

    def _attach_all(self) -> None:
        """Subscribe the consumers that are there, but of a queue that changes its broker now."""
        for queue in list(self.host.queues.values()):
            if self.serves(queue.name):
                for consumer in queue.consumers:
                    self.host.upstream.wanted(cast(FeedQueue, consumer.queue))

    def _adjust(self) -> None:
        self._adjusting = False
        changed, self._changed = self._changed, {}
        if self.remote is None:
            return
        for queue in changed:
            feed = queue.feeds.get(self.side)
            if feed is None or feed.lost:
                if queue.room <= 0 or queue.gone:
                    continue
                feed = self._feed(queue)
            try:
                feed.adjust()
            except GatewayError as error:  # the connection is lost
                log.debug("facade %s: %s", self.vhost, error)

    def _feed(self, queue: FeedQueue) -> Feed:
        assert self.remote is not None
        number = self.free_channel()
        feed = self.feeds[number] = Feed(self, self.remote, queue, number)
        queue.feeds[self.side] = feed
        return feed

    def free_channel(self) -> int:
        """The number of a channel that is not in use."""
        number = CONTROL + 1
        while number in self.feeds or self.transactions.uses(number):
            number += 1
        return number

    async def connection(self) -> Remote:
        """Wait until there is one."""
        while True:
            await self._connected.wait()
            if self.remote is not None and self.remote.closed is None:
                return self.remote
            await asyncio.sleep(0)  # it is being noticed

    def sendable(self, message: Message) -> Message:
        return self.publisher.sendable(message)

    async def _open(self, queue: FeedQueue, answer: Answer) -> None:
        async def opened(feed: Feed) -> FeedQueue:
            await feed.opened()
            return queue

        await self._use_feed(queue, answer, opened)
        await asyncio.sleep(ABANDONED_SECONDS)
        if queue.consumer is None and not queue.gone:
            queue.gone = True  # its client has gone meanwhile
            self.wanted(queue)

    async def _use_feed(
        self, queue: FeedQueue, answer: Answer, use: Callable[[Feed], Awaitable[Any]]
    ) -> None:
        """Let the feed of a queue do something when there is a connection."""
        result, refusal = None, None
        try:
            async with asyncio.timeout(self.patience):
                while True:
                    await self._connected.wait()
                    remote, feed = self.remote, queue.feeds.get(self.side)
                    if feed is None or feed.lost:
                        feed = self._feed(queue)
                    try:
                        result = await use(feed)
                        break
                    except Refusal as error:
                        fault = error.condition in FAULTS
                        if remote is None or remote.closed is None or fault:
                            raise
                    if self.remote is remote:  # again over the next connection
                        self._connected.clear()
        except (OSError, TimeoutError, GatewayError) as error:
            refusal = self.explain(error)
        with self.turn():
            answer.resolve(result, refusal)

    def explain(self, error: Exception) -> Refusal:
        """The refusal that a client is told for an error, or for the lack of an answer."""
        if isinstance(error, Refusal):
            return Refusal(error.condition, PREFIX.sub("", error.text), error.lost)
        if isinstance(error, LocalError):
            return Refusal(Condition.NOT_IMPLEMENTED, str(error))
        text = str(error) or f"no answer within {self.patience:g} s"
        return Refusal(Condition.RESOURCE_ERROR, f"the upstream: {text}")

    def catch_up(self) -> None:
        """Handle the deliveries that have come before an answer."""
        remote = self.remote
        with self.turn():
            while remote is not None and (operations := remote.waiting_some(BATCH)):
                self._handle_all(operations)

    def _lose_feeds(self) -> None:
        with self.turn():
            for feed in list(self.feeds.values()):
                feed.lose()
            self.feeds.clear()
        self.transactions.lose()
