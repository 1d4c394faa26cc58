"""Deliveries of one queue of an upstream to one consumer of a facade."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gateway.adapters.contract import Capability
from gateway.broker.facade import FacadeVirtualHost, FeedQueue
from gateway.errors import Condition, GatewayError, LocalError, Refusal
from gateway.net.dialer import Remote
from gateway.operations import (
    BeginSession,
    Credit,
    Deliver,
    EndSession,
    Fetch,
    Fetched,
    Outcome,
    Prefetch,
    Settle,
    Subscribe,
    Unsubscribe,
)

log = logging.getLogger("gateway.bridge")

MOST_AHEAD = 1000
"""Messages that are asked for before a consumer without a limit has got them."""


class FeedOwner(Protocol):
    """The facade of a feed."""

    vhost: str
    host: FacadeVirtualHost
    turn: Callable[[], AbstractContextManager[None]]
    feeds: "dict[int, Feed]"

    def run_soon(self, work: Coroutine[Any, Any, None]) -> None: ...


class Feed:
    """One channel of the upstream's connection, with one consumer or for fetches. Its credit there
    is the room that the consumer has here: by ``Credit`` where the version has it, else by the
    prefetch limit of the channel. ``lost``: it delivers no more, and settles nothing."""

    def __init__(self, owner: FeedOwner, remote: Remote, queue: FeedQueue, number: int) -> None:
        self.lost = False
        self._owner = owner
        self._remote = remote
        self._queue = queue
        self._number = number
        self._unsettled: dict[int, None] = {}
        self._accepted: list[int] = []
        self._settling = False
        self._tag: str | None = None
        self._limit = 0
        """Deliveries that the upstream may still send (``Credit``), or may leave unsettled."""
        self._by_credit = bool(
            remote.adapter.capabilities & (Capability.LINKS | Capability.SESSIONS)
        )
        self._opening: asyncio.Task[None] | None = None
        self._ending = False

    # --- credit -----------------------------------------------------------------------------------

    def adjust(self) -> None:
        """The consumer may take more or less, or has ended."""
        if self.lost or self._ending:
            return
        queue = self._queue
        if queue.gone:
            self._owner.run_soon(self._end())
        elif self._tag is None:
            if self._opening is None:
                self._opening = asyncio.ensure_future(self._open())
                self._opening.add_done_callback(self._opened)
        else:
            self._grant()

    def _grant(self) -> None:
        room = min(self._queue.room, MOST_AHEAD)
        if self._by_credit:
            if room > self._limit and (not self._limit or room >= 2 * self._limit):
                self._set(Credit(self._number, None, self._tag or "", room), room)
            elif room < self._limit and not room:
                self._set(Credit(self._number, None, self._tag or "", 0), 0)
            return
        limit = len(self._unsettled) + room
        if limit > self._limit or limit * 2 < self._limit:
            limit = min(max(limit, 1), 65535)
            if limit != self._limit:
                self._set(Prefetch(self._number, None, limit, shared=True), limit)

    def _set(self, request: Any, limit: int) -> None:
        self._limit = limit
        answer = self._remote.request(request)
        answer.add_done_callback(unheard)
        self._remote.wake()

    # --- opening and ending -----------------------------------------------------------------------

    async def _open(self) -> None:
        remote, queue, number = self._remote, self._queue, self._number
        consumer = queue.consumer
        await remote.request(BeginSession(number, None))
        if consumer is None:
            return
        room = min(queue.room, MOST_AHEAD)
        self._limit = room
        credit: int | None = None
        if self._by_credit:
            credit = 0
        else:
            await remote.request(Prefetch(number, None, min(max(room, 1), 65535), shared=True))
        tag = await remote.request(
            Subscribe(
                number,
                None,
                queue.name,
                exclusive=consumer.exclusive,
                arguments=consumer.arguments,
                credit=credit,
            )
        )
        self._tag = tag if isinstance(tag, str) else ""
        if self._by_credit:
            self._limit = 0
        self._grant()

    def _opened(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            if self._queue.gone:
                self.adjust()
        elif isinstance(error, Refusal):
            self._owner.run_soon(self._refused(error))
        elif not isinstance(error, LocalError):
            log.error("facade %s: %r", self._owner.vhost, error)

    async def _refused(self, refusal: Refusal) -> None:
        if self._remote.closed is None:
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
            with self._owner.turn():
                self._queue.release_ready()
            if not self._unsettled:
                await self._close()
        except (OSError, GatewayError) as error:
            log.debug("facade %s: %s", self._owner.vhost, error)

    async def _close(self) -> None:
        if self.lost:
            return
        self.lost = True
        await self._remote.request(EndSession(self._number, None))
        if self._owner.feeds.get(self._number) is self:
            del self._owner.feeds[self._number]

    def ended(self, condition: Condition, text: str) -> None:
        """The upstream has ended the subscription: its queue is gone, or it does not allow it."""
        if self.lost:
            return
        queue = self._queue
        self.lose()
        if self._owner.feeds.get(self._number) is self:
            del self._owner.feeds[self._number]
        if condition is Condition.NOT_FOUND:
            self._owner.host.lose_queue(queue.name)
        elif queue.consumer is not None and not queue.gone:
            log.warning("facade %s: %s: %s", self._owner.vhost, queue.name, text)
            consumer = queue.consumer
            consumer.window.consumers.pop(consumer.tag, None)
            queue.remove_consumer(consumer)
            consumer.cancelled(consumer.tag)

    def lose(self) -> None:
        """The upstream delivers again what was not settled."""
        self.lost = True
        self._queue.lose()

    # --- deliveries -------------------------------------------------------------------------------

    def deliver(self, operation: Deliver) -> None:
        """Hot."""
        if self.lost:
            return
        self._unsettled[operation.delivery] = None
        if self._by_credit:
            self._limit -= 1
        queue = self._queue
        if queue.gone:
            self.settle(operation.delivery, Outcome.RELEASE)
            return
        queue.arrive(self, operation.delivery, operation.redelivered, operation.message)
        if self._by_credit and not self._limit:
            queue.want()

    async def fetch(self) -> bool:
        """Take one message; whether there was one."""
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)
        fetched = await self._remote.request(Fetch(self._number, None, self._queue.name))
        if not isinstance(fetched, Fetched):
            return False
        with self._owner.turn():
            self._unsettled[fetched.delivery] = None
            self._queue.arrive(self, fetched.delivery, fetched.redelivered, fetched.message)
        return True

    def settle(self, delivery: int, outcome: Outcome) -> None:
        """Hot. Accepted deliveries are settled at the end of the turn, as many at once as stand
        in a row."""
        if self.lost:
            self._queue.want()  # its consumer may have room for the next feed now
            return
        if outcome is Outcome.ACCEPT:
            self._accepted.append(delivery)
            if not self._settling:
                self._settling = True
                asyncio.get_running_loop().call_soon(self._settle)
            return
        self._unsettled.pop(delivery, None)
        self._send([Settle(self._number, delivery, False, outcome)])

    def _settle(self) -> None:
        self._settling = False
        if self.lost:
            return
        accepted, unsettled = self._accepted, self._unsettled
        self._accepted = []
        done = set(accepted)
        front = 0
        for delivery in unsettled:
            if delivery not in done:
                break
            front = delivery
        settled = [Settle(self._number, front, True, Outcome.ACCEPT)] if front else []
        for delivery in accepted:
            unsettled.pop(delivery, None)
            if delivery > front:
                settled.append(Settle(self._number, delivery, False, Outcome.ACCEPT))
        self._send(settled)

    def _send(self, settled: list[Settle]) -> None:
        try:
            for one in settled:
                self._remote.send(one)
        except GatewayError as error:  # the connection is lost
            log.debug("facade %s: %s", self._owner.vhost, error)
            return
        self._remote.wake()
        if self._ending and not self._unsettled:
            self._owner.run_soon(self._close())
        elif not self._ending:
            self._queue.want()


def unheard(answer: "asyncio.Future[Any]") -> None:
    """The answer has no reader; a refusal ends the channel, which is noticed elsewhere."""
    if not answer.cancelled():
        answer.exception()
