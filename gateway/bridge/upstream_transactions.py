"""Transactions of a facade's clients, which its upstream commits.

The publishes of a transaction, its settlements and its commit go over one channel of the upstream:
that of the subscription whose deliveries it accepts, or one of a few that are kept for
transactions without deliveries. Before the commit nothing of it is at the upstream, so that a
client's rollback does not concern the upstream. A connection that is lost before the answer to a
commit leaves open whether it was made: the commit is refused, and not made again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, Protocol

from gateway.bridge.clock import now
from gateway.bridge.facade_publisher import BATCH
from gateway.bridge.feeds import Feed
from gateway.bridge.lifetime import for_rabbitmq
from gateway.bridge.places import SAME_PLACES, Places
from gateway.bridge.remote_ends import takes_dates
from gateway.bridge.upstream import Upstream
from gateway.bridge.waiting import Turn, quietly
from gateway.broker.answers import Answer
from gateway.broker.feed_queue import ReturnedMessage, UpstreamWork
from gateway.errors import Condition, GatewayError, LocalError, Lost, Refusal
from gateway.message import Message
from gateway.net.dialer import Remote
from gateway.operations import (
    BeginSession,
    Commit,
    EndSession,
    Outcome,
    Publish,
    Returned,
    Rollback,
    Select,
    Settle,
)

MOST_CHANNELS = 32
"""Transactions without deliveries that are committed at a time; further ones wait."""


class UnknownOutcome(Refusal):
    """A commit may have been made, or not."""


class TransactionOwner(Protocol):
    """The facade. ``connection`` waits for one to the upstream."""

    places: Places
    upstream: Upstream
    patience: float
    turn: Turn
    remote: Remote | None

    def run_soon(self, work: Any) -> None: ...

    async def connection(self) -> Remote: ...

    def free_channel(self) -> int: ...

    def sendable(self, message: Message) -> Message: ...

    def catch_up(self) -> None: ...

    def explain(self, error: Exception) -> Refusal: ...


class UpstreamTransactions:
    """Those of one facade and one upstream. ``returned`` are the messages that came back, by the
    channels that are in use for transactions."""

    def __init__(self, owner: TransactionOwner) -> None:
        self.returned: dict[int, list[ReturnedMessage]] = {}
        self._owner = owner
        self._idle: list[int] = []
        """Channels that are ready for the next transaction."""
        self._limit = asyncio.Semaphore(MOST_CHANNELS)
        self._allowed: Remote | None = None
        """The connection whose upstream has transactions."""

    def lose(self) -> None:
        """The connection is lost, with its channels."""
        self._idle.clear()
        self._allowed = None
        self.returned = {}

    def uses(self, channel: int) -> bool:
        return channel in self.returned or channel in self._idle

    # --- for the virtual host ---------------------------------------------------------------------

    def allow(self) -> Answer:
        answer = Answer()
        if self._allowed is not None:
            answer.resolve(None)
        else:
            self._owner.run_soon(self._perform(answer, lambda: self._commit_alone([])))
        return answer

    def transact(self, work: UpstreamWork) -> Answer:
        answer = Answer()
        feeds = {one.feed: None for one in work.accepted}
        if len(feeds) > 1:
            text = "deliveries of several subscriptions cannot be accepted in one transaction"
            answer.resolve(None, Refusal(Condition.NOT_IMPLEMENTED, text))
        elif feeds:
            (feed,) = feeds
            assert isinstance(feed, Feed)
            accepted = [one.delivery for one in work.accepted]
            feed.settlements.begin_commit(accepted)
            self._owner.run_soon(
                self._perform(answer, lambda: self._commit_with(feed, work.publishes, accepted))
            )
        elif work.publishes:
            self._owner.run_soon(self._perform(answer, lambda: self._commit_alone(work.publishes)))
        else:
            answer.resolve([])
        return answer

    async def _perform(
        self, answer: Answer, act: Callable[[], Awaitable[list[ReturnedMessage]]]
    ) -> None:
        result, refusal = None, None
        try:
            result = await act()
        except (OSError, TimeoutError, GatewayError) as error:
            refusal = self._owner.explain(error)
            if refusal.lost is Lost.CONNECTION:  # that of the upstream, and not the client's
                refusal = Refusal(Condition.RESOURCE_ERROR, f"the upstream: {refusal.text}")
        with self._owner.turn():
            answer.resolve(result, refusal)

    # --- channels ---------------------------------------------------------------------------------

    async def _commit_with(
        self, feed: Feed, publishes: list[tuple[Message, bool]], accepted: list[int]
    ) -> list[ReturnedMessage]:
        """Over the channel of a subscription."""
        async with feed.settlements.committing(accepted) as (remote, channel):
            try:
                return await self._commit(remote, channel, publishes, accepted)
            finally:
                self.returned.pop(channel, None)

    async def _commit_alone(self, publishes: list[tuple[Message, bool]]) -> list[ReturnedMessage]:
        """Over a channel of its own; over the next connection if one is lost before the commit."""
        async with self._limit:
            while True:
                async with asyncio.timeout(self._owner.patience):
                    remote = await self._owner.connection()
                try:
                    return await self._commit_over(remote, publishes)
                except UnknownOutcome:
                    raise
                except GatewayError:
                    if remote.closed is None:
                        raise

    async def _commit_over(
        self, remote: Remote, publishes: list[tuple[Message, bool]]
    ) -> list[ReturnedMessage]:
        new = not self._idle
        channel = self._owner.free_channel() if new else self._idle.pop()
        self.returned[channel] = []  # it is in use from now on
        try:
            if new:
                await remote.request(BeginSession(channel, None))
                await remote.request(Select(channel, None))
            returned = await self._commit(remote, channel, publishes, [])
        except BaseException:
            await self._end(remote, channel)
            raise
        if self._owner.remote is remote:
            self._allowed = remote
            self._idle.append(channel)
            del self.returned[channel]
        return returned

    async def _end(self, remote: Remote, channel: int) -> None:
        if self._owner.remote is remote and not remote.lost(channel):
            await quietly(end_session(remote, channel))
        if self._owner.remote is remote:
            self.returned.pop(channel, None)

    # --- the commit -------------------------------------------------------------------------------

    async def _commit(
        self,
        remote: Remote,
        channel: int,
        publishes: Sequence[tuple[Message, bool]],
        accepted: Sequence[int],
    ) -> list[ReturnedMessage]:
        """Raises ``Refusal``: then nothing of it is done, unless the connection was lost."""
        returned = self.returned[channel] = list[ReturnedMessage]()
        asked = False
        try:
            await self._publish(remote, channel, publishes)
            for count, delivery in enumerate(accepted, 1):
                remote.send(Settle(channel, delivery, False, Outcome.ACCEPT))
                if not count % BATCH:
                    await remote.drain()
            asked = True
            await remote.request(Commit(channel, None))
        except GatewayError as error:
            if asked and remote.closed is not None:
                text = "the connection to the upstream was lost: it is not known if it committed"
                raise UnknownOutcome(Condition.RESOURCE_ERROR, text) from error
            raise
        else:
            self._owner.catch_up()  # returned messages come before the answer
        return returned

    async def _publish(
        self, remote: Remote, channel: int, publishes: Sequence[tuple[Message, bool]]
    ) -> None:
        dated = takes_dates(remote)
        left = iter(publishes)
        try:
            while portion := list(islice(left, BATCH)):
                for given, mandatory in portion:
                    message = self._owner.sendable(given)
                    if message.essentials.expiry is not None and not dated:
                        message = for_rabbitmq(message, now())
                    remote.send(Publish(channel, message, mandatory, False))
                await remote.drain()
        except (LocalError, ValueError) as error:
            await remote.request(Rollback(channel, None))
            raise Refusal(Condition.PRECONDITION_FAILED, str(error)) from error

    def give_back(self, operation: Returned) -> None:
        """The upstream could not route a message of a transaction."""
        message, places = operation.message, self._owner.places
        if places is not SAME_PLACES:
            message = message.routed_as(*places.here(message.exchange, message.key))
        if operation.channel in self.returned:
            self.returned[operation.channel].append((message, operation.text))


async def end_session(remote: Remote, channel: int) -> None:
    await remote.request(EndSession(channel, None))
