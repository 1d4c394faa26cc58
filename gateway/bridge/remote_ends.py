"""Another broker as the source or the destination of a shovel, over any version of AMQP."""

import asyncio
from collections.abc import Callable, Iterable

from gateway.adapters.contract import Capability
from gateway.bridge.clock import now
from gateway.bridge.ends import Arrivals, Fate, Report, Taken
from gateway.bridge.lifetime import for_rabbitmq
from gateway.bridge.upstream import Upstream
from gateway.errors import Condition, LocalError, Refusal
from gateway.message import Message
from gateway.net.dialer import Remote, refusal_of
from gateway.operations import (
    BeginSession,
    Cancelled,
    Closed,
    Commit,
    Confirm,
    Credit,
    DeclareQueue,
    Deliver,
    Operation,
    Outcome,
    Prefetch,
    Returned,
    Select,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
)

CHANNEL = 1
"""The first channel or session of a connection, and mostly the only one."""


def raise_if_lost(operation: Operation) -> None:
    """Raises ``Refusal`` for the end of the channel or connection."""
    if isinstance(operation, SessionLost):
        raise Refusal(operation.condition, operation.text)
    if isinstance(operation, Closed):
        raise refusal_of(operation)


async def begin(upstream: Upstream, purpose: str) -> Remote:
    """A connection with a channel. Raises ``OSError`` or ``Refusal``."""
    remote = await upstream.connect(purpose)
    try:
        await remote.request(BeginSession(CHANNEL, None))
    except BaseException:
        await upstream.disconnect(remote)
        raise
    return remote


class RemoteSource:
    """A queue of another broker; a ``Source``. Made by ``open_source``."""

    def __init__(
        self, upstream: Upstream, remote: Remote, queue: str, tag: str, window: int
    ) -> None:
        self.version = remote.adapter.version
        self._upstream = upstream
        self._remote = remote
        self._queue = queue
        self._tag = tag
        self._window = window
        self._arrivals = Arrivals()

    async def watch(self) -> None:
        arrived = self._arrivals.add
        async for operation in self._remote:
            if isinstance(operation, Deliver):
                arrived(operation.delivery, operation.message, operation.redelivered)
                continue
            raise_if_lost(operation)
            if isinstance(operation, Cancelled):
                text = f"the broker ended the subscription to {self._queue!r}"
                raise Refusal(Condition.NOT_FOUND, text)

    async def batch(self) -> list[Taken]:
        return await self._arrivals.take()

    def settle(self, deliveries: Iterable[tuple[int, bool]], outcome: Outcome) -> None:
        for delivery, multiple in deliveries:
            self._remote.send(Settle(CHANNEL, delivery, multiple, outcome))
        self._remote.wake()

    @property
    def draws(self) -> bool:
        """Whether ``remaining`` takes the messages that it counts; no others come after it."""
        return can_drain(self._remote)

    async def remaining(self) -> int | None:
        """0 in 1.0 means that none is ready; there are at least as many otherwise."""
        if self.draws:
            return await draw(self._remote, self._tag, self._window)
        return await counted(self._remote, self._queue)

    async def synchronize(self) -> None:
        await counted(self._remote, self._queue)

    async def close(self) -> None:
        await self._upstream.disconnect(self._remote)


COUNTING = frozenset({"0-8", "0-9", "0-9-1", "0-10"})
"""Versions in which a broker tells how many messages a queue has ready."""


def takes_dates(remote: Remote) -> bool:
    """Whether a message may have a date at which it expires. RabbitMQ would take it for a time."""
    return Capability.LINKS in remote.adapter.capabilities or remote.peer.product != "RabbitMQ"


def can_drain(remote: Remote) -> bool:
    """RabbitMQ 3 loses the session when a classic queue is drained."""
    peer = remote.peer
    old = peer.product == "RabbitMQ" and peer.product_version.startswith("3.")
    return Capability.LINKS in remote.adapter.capabilities and not old


def can_browse(remote: Remote) -> bool:
    """RabbitMQ gives each receiver of 1.0 the messages themselves, whatever it asks for."""
    if remote.peer.product == "RabbitMQ":
        return False
    return remote.adapter.version == "0-10" or Capability.LINKS in remote.adapter.capabilities


async def counted(remote: Remote, queue: str) -> int | None:
    """Ready messages of a queue; ``None``: the version does not tell. Raises ``Refusal`` if there
    is no such queue."""
    if Capability.HANDLES in remote.adapter.capabilities:
        return None  # each question would cost a handle
    try:
        found = await remote.request(DeclareQueue(CHANNEL, None, queue, passive=True))
    except LocalError:
        return None
    return int(found.messages) if remote.adapter.version in COUNTING else None


async def draw(remote: Remote, tag: str, window: int) -> int:
    """Let a consumer have up to so many messages more, or all that are ready; how many there were.
    They come before the answer (1.0 §2.6.7, 0-10 message.flush)."""
    return window - int(await remote.request(Credit(CHANNEL, None, tag, window, drain=True)))


async def open_source(upstream: Upstream, purpose: str, queue: str, window: int) -> RemoteSource:
    """Subscribe to a queue, with so many deliveries unsettled at a time. Raises ``OSError`` or
    ``Refusal``."""
    remote = await begin(upstream, purpose)
    try:
        await remote.request(Prefetch(CHANNEL, None, window))
        tag = await remote.request(Subscribe(CHANNEL, None, queue))
    except BaseException:
        await upstream.disconnect(remote)
        raise
    return RemoteSource(upstream, remote, queue, tag, window)


UNROUTED = frozenset({Condition.NO_ROUTE, Condition.NO_CONSUMERS})
"""Conditions of messages that are returned since no queue takes them."""


class RemoteDestination:
    """Exchanges or addresses of another broker; a ``Destination``. Made by ``open_destination``.

    A broker without confirms gets each batch as a transaction, whose commit confirms it."""

    def __init__(
        self,
        upstream: Upstream,
        remote: Remote,
        report: Report,
        transactional: bool,
        channel: int = CHANNEL,
    ) -> None:
        self.version = remote.adapter.version
        self.remote = remote
        self._upstream = upstream
        self._report = report
        self.transactional = transactional
        """A batch is committed as a whole."""
        self._channel = channel
        self.on_confirmed: Callable[[list[int]], None] | None = None
        """Is told the messages that one confirm covers, in place of ``report``."""
        self._write = remote.publisher(channel)
        self._sequence = 0
        self._told = 0
        """A confirm of many has come for all publishes up to this one."""
        self._sent: dict[int, tuple[int, Message]] = {}
        """Messages that have no fate yet and their numbers, by publish, in order."""
        self._takes_dates = takes_dates(remote)

    def publish(self, messages: Iterable[tuple[int, Message]]) -> None:
        for number, message in messages:
            self.send(number, message)
        if self.transactional:
            self._commit(self._sequence)
        self.remote.flush()

    def send(self, number: int, message: Message) -> None:
        """Publish one message of a batch, or of none if it is not ``transactional``. Hot."""
        try:
            if message.essentials.expiry is not None and not self._takes_dates:
                message = for_rabbitmq(message, now())
            self._write(message, True, False)
        except (LocalError, ValueError) as error:
            self._report(number, Fate.UNWRITABLE, str(error))
            return
        self._sequence = sequence = self._sequence + 1
        self._sent[sequence] = number, message

    def _commit(self, last: int) -> None:
        answer = self.remote.request(Commit(self._channel, None))

        def committed(answer: "asyncio.Future[object]") -> None:
            if not answer.cancelled() and answer.exception() is None:
                self.conclude(last, True, True)

        answer.add_done_callback(committed)

    def conclude(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """The broker has accepted or refused a publish; with ``multiple`` all up to it. Hot."""
        take, numbers = self._sent.pop, []
        first = sequence
        if multiple:
            first, sequence = self._told + 1, min(sequence, self._sequence)
            self._told = max(self._told, sequence)
        for one in range(first, sequence + 1):
            found = take(one, None)
            if found is not None:
                numbers.append(found[0])
        if accepted and self.on_confirmed is not None:
            self.on_confirmed(numbers)
            return
        fate, text = Fate.CONFIRMED, ""
        if not accepted:
            fate, text = Fate.REFUSED, "the broker refused the message"
        for number in numbers:
            self._report(number, fate, text)

    def _returned(self, operation: Returned) -> None:
        """Its confirm follows, and means nothing then. Raises ``Refusal`` if the message cannot be
        told among those sent: its confirm would count it as taken."""
        sequence = operation.sequence or self._find(operation.message)
        if sequence not in self._sent:
            raise Refusal(Condition.INTERNAL_ERROR, "the broker returned an unknown message")
        number, message = self._sent.pop(sequence)
        found = operation.condition
        missing = found is Condition.NOT_FOUND and not message.exchange  # in 1.0: no such queue
        fate = Fate.UNROUTABLE if missing or found in UNROUTED else Fate.REFUSED
        self._report(number, fate, operation.text)

    def _find(self, message: Message) -> int:
        """A publish with the same octets, or the same body if the broker has changed the header;
        most versions return a message without its number. 0 if there is none."""
        alike = 0
        for sequence, (_, sent) in self._sent.items():
            if (sent.exchange, sent.key) != (message.exchange, message.key):
                continue
            header, body = sent.form_for(message.dialect)
            if body[:] == message.body[:]:
                if header == message.header:
                    return sequence
                alike = alike or sequence
        return alike

    def handle(self, operation: Operation) -> None:
        """An operation of the other broker but for confirms. Raises ``Refusal`` when the channel or
        the connection is lost."""
        raise_if_lost(operation)
        if isinstance(operation, Returned):
            self._returned(operation)

    async def watch(self) -> None:
        async for operation in self.remote:
            if isinstance(operation, Confirm):
                self.conclude(operation.sequence, operation.multiple, operation.accepted)
            else:
                self.handle(operation)

    @property
    def unconfirmed(self) -> set[int]:
        """Numbers of the messages that were sent and have no fate yet."""
        return {number for number, _ in self._sent.values()}

    async def beside(self, channel: int) -> "RemoteDestination":
        """The same on another channel of the connection, or again on one that has ended. Raises
        ``Refusal`` or ``LocalError``."""
        await self.remote.request(BeginSession(channel, None))
        select = Select if self.transactional else SelectConfirms
        await self.remote.request(select(channel, None))
        other = RemoteDestination(
            self._upstream, self.remote, self._report, self.transactional, channel
        )
        other.on_confirmed = self.on_confirmed
        return other

    async def drain(self) -> None:
        await self.remote.drain()

    async def close(self) -> None:
        await self._upstream.disconnect(self.remote)


async def open_destination(
    upstream: Upstream, purpose: str, report: Report, queue: str
) -> RemoteDestination:
    """``queue`` is the one that all messages are for, if there is one. Raises ``OSError`` or
    ``Refusal``, also if that queue does not exist."""
    remote = await begin(upstream, purpose)
    try:
        if queue:
            await look_for(remote, queue)
        if not (confirming := await confirms(remote)):
            await upstream.disconnect(remote)
            remote = await begin(upstream, purpose)
            await remote.request(Select(CHANNEL, None))
    except BaseException:
        await upstream.disconnect(remote)
        raise
    return RemoteDestination(upstream, remote, report, not confirming)


async def look_for(remote: Remote, queue: str) -> None:
    """Raises ``Refusal`` if the queue does not exist. Versions with links attach one to look, which
    a user may lack the right to who may well publish: that is not held against the queue."""
    try:
        await remote.request(DeclareQueue(CHANNEL, None, queue, passive=True))
    except (LocalError, Refusal) as error:
        linked = remote.adapter.capabilities & (Capability.LINKS | Capability.HANDLES)
        missing = isinstance(error, Refusal) and error.condition is Condition.NOT_FOUND
        if missing or not linked:
            raise


async def confirms(remote: Remote) -> bool:
    """Whether the broker confirms publishes from now on. One of 0-8 or 0-9 may not know how, and
    close the connection."""
    try:
        await remote.request(SelectConfirms(CHANNEL, None))
    except (LocalError, Refusal):
        return False
    return True
