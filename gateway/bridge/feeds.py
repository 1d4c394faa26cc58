"""Deliveries of one queue of an upstream to one consumer of a facade."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from gateway.adapters.contract import Capability
from gateway.bridge.feed_settlements import FeedSettlements, unheard
from gateway.bridge.places import SAME_PLACES, Places
from gateway.bridge.remote_ends import can_drain
from gateway.bridge.waiting import Turn
from gateway.broker.facade import FacadeVirtualHost
from gateway.broker.feed_queue import MOST_AHEAD, FeedQueue, Subscription
from gateway.broker.stream_queues import STREAM
from gateway.errors import Condition, GatewayError, LocalError, Refusal
from gateway.message import Message
from gateway.net.dialer import Remote
from gateway.operations import (
    BeginSession,
    Credit,
    DeclareQueue,
    Deliver,
    EndSession,
    Fetch,
    Fetched,
    Outcome,
    Prefetch,
    Subscribe,
    Unsubscribe,
)

log = logging.getLogger("gateway.bridge")

IDLE_SECONDS = 10.0
"""Time after which a channel for fetches is closed."""
MOST_FETCHES = 50
"""Messages that are fetched at a time for a consumer that drains."""


DOWN = " is down or inaccessible"
"""End of RabbitMQ's text (404) for a queue that exists, and cannot be used now."""
DOWN_SECONDS = 0.5
RECOVERY_SECONDS = 5.0
"""Time after connecting for which a queue that is not there may still come."""
FIXED_LIMIT = frozenset({"quorum", STREAM})
"""Types of queues at RabbitMQ that take a prefetch limit for each consumer only."""

UNLIMITED = 1 << 31


class FeedOwner(Protocol):
    """The facade of a feed."""

    vhost: str
    side: int
    host: FacadeVirtualHost
    places: Places
    is_copy: Callable[[Message], bool] | None
    turn: Turn
    feeds: dict[int, Any]
    """By their channel: a ``Feed`` or ``ReplyQueues``."""

    connected_at: float
    """By the clock of the loop."""

    def run_soon(self, work: Coroutine[Any, Any, None]) -> None: ...

    def catch_up(self) -> None: ...


class Feed:
    """One channel of the upstream's connection, with one consumer or for fetches. Its credit there
    is the room that the consumer has here: by ``Credit`` where the version has it, else by the
    prefetch limit of the channel, or of the consumer for the ``FIXED_LIMIT`` types and where that
    is enough: for each message under a limit of the channel RabbitMQ asks a process of its own.
    ``lost``: it delivers no more, and settles nothing."""

    def __init__(self, owner: FeedOwner, remote: Remote, queue: FeedQueue, number: int) -> None:
        self._owner = owner
        self._remote = remote
        self._queue = queue
        self._number = number
        self._name = owner.places.queue(queue.name)
        self.settlements = FeedSettlements(self, remote, number)
        self.unsettled = self.settlements.unsettled
        self.settle = self.settlements.settle
        self.accept = self.settlements.accept
        self.modify = self.settlements.modify
        self._tag: str | None = None
        self._limit = 0
        """Deliveries that the upstream may still send (``Credit``), or may leave unsettled."""
        self._enough = UNLIMITED
        """Unsettled deliveries with which the prefetch limit has to be raised."""
        self._by_credit = bool(
            remote.adapter.capabilities & (Capability.LINKS | Capability.SESSIONS)
        )
        self._simple = not self._by_credit and owner.is_copy is None and owner.places is SAME_PLACES
        """Deliveries are passed on as they come."""
        self._fixed = False
        """The limit cannot be changed while the subscription lives."""
        self._own = 0
        """The limit of the consumer at the upstream, if its channel needs one only below it."""
        self._shared = 0
        """The limit of the channel at the upstream."""
        self._unsubscribed = False
        """A channel that ends before its subscription has a broker that answers late (Artemis to
        a drain) answer on no channel."""
        self._drains = can_drain(remote) or Capability.SESSIONS in remote.adapter.capabilities
        """The upstream can be asked for all that is ready."""
        self._looks = Capability.HANDLES not in remote.adapter.capabilities
        """One can find out when all that is ready has come: not in 0.8a2."""
        self._opening: asyncio.Task[None] | None = None
        self._begun = self._ending = self._seeking = self._retired = self._removed = False
        self._fetching = 0
        self._resting: asyncio.TimerHandle | None = None

    @property
    def lost(self) -> bool:
        return self.settlements.lost

    # --- credit -----------------------------------------------------------------------------------

    def adjust(self) -> None:
        """The consumer may take more or less, or has ended."""
        if self.lost or self._ending:
            return
        queue = self._queue
        if queue.gone:
            self._owner.run_soon(self._end())
        elif self._opening is not None and not self._opening.done():
            pass  # credit is given when it is open
        elif self._tag is not None:
            self._grant()
        elif queue.room and not (self._seeking or queue.draining):
            self._start()

    def _start(self) -> "asyncio.Task[None]":
        self._opening = asyncio.ensure_future(self._open())
        self._opening.add_done_callback(self._opened)
        return self._opening

    async def opened(self) -> None:
        """Wait until the upstream has agreed to the subscription. Raises ``Refusal``."""
        await asyncio.shield(self._opening or self._start())

    def _grant(self) -> None:
        if self._seeking or (self._queue.draining and self._looks):
            return  # the look for what is ready gives credit
        room = min(self._queue.room, MOST_AHEAD)
        if self._by_credit:
            if room > self._limit and (not self._limit or room >= 2 * self._limit):
                self._set(Credit(self._number, None, self._tag or "", room), room)
            elif room < self._limit and not room:
                self._set(Credit(self._number, None, self._tag or "", 0), 0)
            return
        if self._fixed:
            return
        limit = len(self.unsettled) + room
        if self._own:
            consumer = self._queue.consumer
            if consumer is None or not consumer.started:
                return
            limit = min(limit, self._own)
        if limit > self._limit or limit * 2 < self._limit:
            limit = min(max(limit, 1), 65535)
            if limit != self._limit:
                self._shared = 0 if limit == self._own else limit
                self._set(Prefetch(self._number, None, self._shared, shared=True), limit)
                self._watch_limit(room)

    def _watch_limit(self, room: int) -> None:
        """A consumer without a limit gets more before it settles anything."""
        self._enough = self._limit - MOST_AHEAD // 2 if room == MOST_AHEAD else UNLIMITED

    def _set(self, request: Any, limit: int) -> None:
        self._limit = limit
        try:
            self._remote.request(request).add_done_callback(unheard)
        except GatewayError as error:  # the connection is lost
            log.debug("facade %s: %s", self._owner.vhost, error)
            return
        self._remote.wake()

    # --- opening and ending -----------------------------------------------------------------------

    async def _open(self) -> None:
        remote, queue, number = self._remote, self._queue, self._number
        subscription = queue.subscription
        if not self._begun:
            try:
                await remote.request(BeginSession(number, None))
            except LocalError as error:
                text = f"the upstream allows no further consumer: {error}"
                raise Refusal(Condition.RESOURCE_ERROR, text) from error
            self._begun = True
        if subscription is None:
            return
        paused = subscription.paused
        if queue.consumer is not None:
            drained = queue.draining and await self._can_fetch()
            paused = drained or not queue.room
        if paused and not self._by_credit and not subscription.exclusive:
            await remote.request(DeclareQueue(number, None, self._name, passive=True))
            return  # a prefetch limit cannot be 0
        room = min(queue.room, MOST_AHEAD)
        self._limit = room
        credit: int | None = None
        if self._by_credit:
            credit = 0
        else:
            kind = await self._type()
            self.settlements.keeps, self._fixed = kind == STREAM, kind in FIXED_LIMIT
            subscription = queue.subscription or subscription  # with the place in a stream
            if self._fixed or (subscription.lasting and self._free_of_others(subscription)):
                await self._limit_consumer(min(max(room, subscription.limit), MOST_AHEAD))
            else:
                self._own, self._shared = 0, max(room, 1)
                await remote.request(Prefetch(number, None, self._shared, shared=True))
                self._limit = self._shared
                self._watch_limit(room)
        tag = await remote.request(
            Subscribe(
                number,
                None,
                self._name,
                exclusive=subscription.exclusive,
                arguments=subscription.arguments,
                credit=credit,
            )
        )
        self._tag = tag if isinstance(tag, str) else ""
        if self.settlements.keeps:
            await self._catch_up()
        if self._by_credit:
            self._limit = 0
        self._grant()

    def _free_of_others(self, subscription: Subscription) -> bool:
        """Whether no deliveries of an earlier connection hold a part of the consumer's limit."""
        queue = self._queue
        return queue.consumer is None or queue.room >= subscription.limit

    async def _limit_consumer(self, limit: int) -> None:
        """The consumer that begins next may have so many deliveries unsettled."""
        if self._shared:
            self._shared = 0
            await self._remote.request(Prefetch(self._number, None, 0, shared=True))
        self._own = self._limit = max(limit, 1)
        await self._remote.request(Prefetch(self._number, None, self._own))

    def _opened(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.adjust()
        elif isinstance(error, Refusal):
            self._owner.run_soon(self._refused(error))
        elif not isinstance(error, LocalError):
            log.error("facade %s: %r", self._owner.vhost, error)

    async def _refused(self, refusal: Refusal) -> None:
        if self._remote.closed is not None:
            return
        with self._owner.turn():
            self.ended(refusal.condition, refusal.text)

    async def _end(self) -> None:
        """The consumer has ended: its deliveries may be settled later."""
        self._ending = True
        try:
            if self._opening is not None:
                await asyncio.wait([self._opening])
            if self._tag is not None:
                await self._remote.request(Unsubscribe(self._number, None, self._tag))
            self._unsubscribed = True
            with self._owner.turn():
                self._queue.release_ready()
            if self.settlements.complete:
                await self._close()
        except (OSError, GatewayError) as error:
            log.debug("facade %s: %s", self._owner.vhost, error)

    @property
    def queue(self) -> FeedQueue | None:
        """Its queue here, unless it is retired."""
        return None if self._retired else self._queue

    async def _rests(self) -> None:
        """Wait for the fetches under way."""
        while True:
            if not self._fetching and not self._seeking:
                return
            await asyncio.sleep(0.01)

    async def retire(self) -> None:
        """End the subscription while the consumer goes on with another upstream. Deliveries that
        the consumer has got are settled here when it settles them."""
        if self._queue.feeds.get(self._owner.side) is self:
            del self._queue.feeds[self._owner.side]
        await self._rests()
        self._retired, self._simple = True, False
        await self._end()

    async def _close(self) -> None:
        if not self.lost:
            self.settlements.lost = True
            await self._leave()

    async def _leave(self) -> None:
        """End the channel, unless the upstream has; its number may be used again then."""
        try:
            if self._begun and not self._remote.lost(self._number):
                await self._remote.request(EndSession(self._number, None))
        except (OSError, GatewayError) as error:
            log.debug("facade %s: %s", self._owner.vhost, error)
        if self._owner.feeds.get(self._number) is self:
            del self._owner.feeds[self._number]

    def ended(self, condition: Condition, text: str) -> None:
        """The upstream has ended the subscription: its queue is gone, or it does not allow it."""
        if self.lost:
            return
        queue = self._queue
        self.lose()
        if self._may_come_back(condition, text):
            self._owner.run_soon(self._subscribe_later())
            return
        self._owner.run_soon(self._leave())
        if self._retired:
            return
        if condition is Condition.NOT_FOUND:
            self._owner.host.lose_queue(queue.name)
        elif queue.consumer is not None and not queue.gone:
            log.warning("facade %s: %s: %s", self._owner.vhost, queue.name, text)
            consumer = queue.consumer
            consumer.window.consumers.pop(consumer.tag, None)
            queue.remove_consumer(consumer)
            consumer.cancelled(consumer.tag)

    def _may_come_back(self, condition: Condition, text: str) -> bool:
        """Whether the queue may only not be there yet: RabbitMQ, started again, takes connections
        before it has all durable queues."""
        if self._retired or self._queue.consumer is None or condition is not Condition.NOT_FOUND:
            return False
        connected = asyncio.get_running_loop().time() - self._owner.connected_at
        return DOWN in text or connected < RECOVERY_SECONDS

    async def _subscribe_later(self) -> None:
        await self._leave()
        await asyncio.sleep(DOWN_SECONDS)
        self._queue.want()

    def lose(self) -> None:
        """The upstream delivers unsettled messages again."""
        self.settlements.lost = True
        if not self._retired:
            self._queue.lose(self)

    # --- deliveries -------------------------------------------------------------------------------

    def deliver(self, operation: Deliver) -> None:
        """Hot."""
        if self.settlements.lost:
            return
        self.unsettled[operation.delivery] = None
        queue = self._queue
        if self._simple and not queue.gone:
            queue.arrive(self, operation.delivery, operation.redelivered, operation.message)
            if len(self.unsettled) > self._enough:
                queue.want()
            return
        if self._by_credit:
            self._limit -= 1
        elif len(self.unsettled) > self._enough:
            queue.want()
        if queue.gone or self._retired:
            self.settle(operation.delivery, Outcome.RELEASE)
            return
        is_copy = self._owner.is_copy
        if is_copy is not None and is_copy(operation.message):
            self._remove(operation.delivery)
            return
        message = self._named(operation.message)
        queue.arrive(self, operation.delivery, operation.redelivered, message)
        if self._by_credit and not self._limit:
            queue.want()

    async def fetch(self) -> bool:
        """Take one message; whether there was one."""
        self._fetching += 1
        try:
            await self.opened()
            while True:
                fetched = await self._remote.request(Fetch(self._number, None, self._name))
                if not isinstance(fetched, Fetched):
                    return False
                with self._owner.turn():
                    if self._fetched(fetched):
                        return True
        finally:
            self._fetching -= 1
            self._rest()

    def _rest(self) -> None:
        """A channel for fetches that is not used for a while is closed."""
        if self._resting is not None:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._rested)

    def _rested(self) -> None:
        self._resting = None
        if self.lost or self._queue.consumer is not None:
            return
        if self._fetching or not self.settlements.complete or self._queue.depth:
            self._rest()
        else:
            self._owner.run_soon(self._close())

    def _fetched(self, fetched: Fetched) -> bool:
        """Whether it is one for consumers."""
        queue, is_copy = self._queue, self._owner.is_copy
        queue.remaining = fetched.remaining
        self.unsettled[fetched.delivery] = None
        if is_copy is not None and is_copy(fetched.message):
            self._remove(fetched.delivery)
            return False
        if queue.gone:
            self.settle(fetched.delivery, Outcome.RELEASE)
        else:
            queue.arrive(self, fetched.delivery, fetched.redelivered, self._named(fetched.message))
        return True

    def _remove(self, delivery: int) -> None:
        """A copy goes to no consumer. Its credit is to be given again."""
        self._removed = True
        self.settle(delivery, Outcome.ACCEPT)

    def _named(self, message: Message) -> Message:
        """With the exchange and the key that clients know."""
        if self._owner.places is SAME_PLACES:
            return message
        return message.routed_as(*self._owner.places.here(message.exchange, message.key))

    async def seek(self) -> None:
        """Get messages for all of the consumer's room, or all that the upstream has ready: by a
        drain, or one by one at upstreams without it."""
        queue, remote = self._queue, self._remote
        self._seeking = True
        try:
            await self.opened()
            if self._tag is not None and self._drains:
                self._removed = True
                while self._removed and (room := queue.room):
                    self._limit, self._removed = room, False
                    await remote.request(Credit(self._number, None, self._tag, room, drain=True))
                    self._owner.catch_up()
                self._limit = 0
            elif await self._can_fetch():
                await self._unsubscribe()
                await self._fetch_all()
            else:
                await self._subscribe_again()
        finally:
            self._seeking = False
        if not queue.gone:
            with self._owner.turn():
                self._pause()

    async def _subscribe_again(self) -> None:
        """Without fetches: what a stream has for the consumer's room comes now. 0.8a2 does not tell
        when all has come, so that some of it is for the next drain."""
        if self._tag is None and self._queue.room:
            await self._start()
        elif self.settlements.keeps:
            await self._catch_up()

    async def _can_fetch(self) -> bool:
        """Whether messages can be taken one by one: neither from a stream, nor in 0.8a2."""
        return self._looks and await self._type() != STREAM

    async def _catch_up(self) -> None:
        """Handle the deliveries that a stream has at once, which come before the answer."""
        await self._remote.request(DeclareQueue(self._number, None, self._name, passive=True))
        self._owner.catch_up()

    async def _type(self) -> str:
        """The type of the queue, "" if the upstream does not tell it."""
        known, found = asyncio.Event(), self._queue.home.type
        found.then(known.set)
        await known.wait()
        return found.name or ""

    async def _unsubscribe(self) -> None:
        """Messages that a subscription holds would not be found by fetches. An exclusive one stays,
        as it keeps others away."""
        if self._tag is None or self._exclusive:
            return
        tag, self._tag, self._limit = self._tag, None, 0
        await self._remote.request(Unsubscribe(self._number, None, tag))
        self._owner.catch_up()

    @property
    def _exclusive(self) -> bool:
        subscription = self._queue.subscription
        return subscription is not None and subscription.exclusive

    async def _fetch_all(self) -> None:
        queue, found = self._queue, True
        while found and not queue.gone and (count := min(queue.room, MOST_FETCHES)):
            fetch = Fetch(self._number, None, self._name)
            answers = await asyncio.gather(*(self._remote.request(fetch) for _ in range(count)))
            self._owner.catch_up()
            with self._owner.turn():
                for fetched in answers:
                    if isinstance(fetched, Fetched):
                        self._fetched(fetched)
                    else:
                        found = False

    def _pause(self) -> None:
        """Unsubscribe, where the upstream would deliver a message to a consumer without room for
        it: a prefetch limit cannot be 0."""
        if self._by_credit or self._exclusive or self._tag is None or self._queue.room:
            return
        self._set(Unsubscribe(self._number, None, self._tag), 0)
        self._tag = None
        self._queue.release_to_others()

    # --- settlements ------------------------------------------------------------------------------

    def before_settling(self) -> None:
        """For its ``FeedSettlements``, as is ``after_settling``."""
        if not self.unsettled and self._queue.consumer is not None and not self._ending:
            self._pause()

    def after_settling(self) -> None:
        if self.lost:
            self._queue.want()  # its consumer may have room for the next feed now
            return
        if self._unsubscribed and self.settlements.complete:
            self._owner.run_soon(self._close())
        if not self._ending or self._retired:
            self._queue.want()
