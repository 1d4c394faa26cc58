"""A side of a move or of a comparison: another broker, or a virtual host of this gateway."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import NamedTuple, Protocol

from gateway.bridge.core_ends import Core, CoreDestination, CoreSource
from gateway.bridge.ends import Destination, FiniteSource, Report
from gateway.bridge.remote_ends import (
    CHANNEL,
    COUNTING,
    begin,
    can_browse,
    counted,
    draw,
    open_destination,
    open_source,
    raise_if_lost,
)
from gateway.bridge.upstream import Upstream
from gateway.errors import Condition, LocalError, Refusal
from gateway.message import Message
from gateway.net.dialer import Remote, refusal_of
from gateway.operations import (
    Cancelled,
    DeclareQueue,
    Deliver,
    Outcome,
    Prefetch,
    Settle,
    Subscribe,
)

PORTION = 200
PORTION_OCTETS = 1 << 20
QUIET_SECONDS = 0.3
"""Time without a message after which a reader asks whether it is at the end of the queue."""
PATIENCE_SECONDS = 5.0
"""Time without a message after which it is, for lack of a better sign."""


class Browsed(NamedTuple):
    """A message that stays in its queue."""

    message: Message
    redelivered: bool


class Side(Protocol):
    """One of the two. All methods raise ``OSError`` or ``Refusal``."""

    described: str

    async def source(self, queue: str, window: int) -> FiniteSource: ...

    async def destination(self, queue: str, report: Report) -> Destination: ...

    async def count(self, queue: str) -> int | None:
        """Ready messages; ``None``: the version does not tell."""
        ...

    async def consumers(self, queue: str) -> int | None:
        """Consumers of a queue; ``None``: the version does not tell."""
        ...

    async def browses(self) -> bool:
        """Whether messages can be read without being taken."""
        ...

    def browse(self, queue: str, taking: bool = False) -> AsyncIterator[Browsed]:
        """The ready messages, in their order. ``taking``: if there is no other way, take all of
        them and give them back, which marks them as redelivered; otherwise raises
        ``LocalError``."""
        ...


class LostSide:
    """A side of a recorded move that there is no more; ``error`` says why."""

    def __init__(self, described: str, error: str) -> None:
        self.described = described
        self._error = error

    async def source(self, queue: str, window: int) -> FiniteSource:
        raise self._refusal()

    async def destination(self, queue: str, report: Report) -> Destination:
        raise self._refusal()

    async def count(self, queue: str) -> int | None:
        raise self._refusal()

    async def consumers(self, queue: str) -> int | None:
        raise self._refusal()

    async def browses(self) -> bool:
        raise self._refusal()

    def browse(self, queue: str, taking: bool = False) -> AsyncIterator[Browsed]:
        raise self._refusal()

    def _refusal(self) -> Refusal:
        return Refusal(Condition.NOT_FOUND, self._error)


class CoreSide:
    """A virtual host of this gateway."""

    def __init__(self, core: Core, vhost: str, user: str, name: str) -> None:
        self.described = vhost
        self._core = core
        self._place = (core, vhost, user, name)

    async def source(self, queue: str, window: int) -> CoreSource:
        return CoreSource(*self._place, queue, window, detailed=True)

    async def destination(self, queue: str, report: Report) -> CoreDestination:
        end = CoreDestination(*self._place, report)
        try:
            await end.check("", queue)
        except Refusal:
            await end.close()
            raise
        return end

    async def count(self, queue: str) -> int:
        end = CoreDestination(*self._place, ignore)
        try:
            with self._core.turn():
                return end.open_channel().readable(queue).backlog.depth
        finally:
            await end.close()

    async def consumers(self, queue: str) -> int | None:
        return None

    async def browses(self) -> bool:
        return True

    async def browse(self, queue: str, taking: bool = False) -> AsyncIterator[Browsed]:
        end = CoreDestination(*self._place, ignore)
        try:
            channel, after = end.open_channel(), None
            while True:
                with self._core.turn():
                    seen = channel.browse(queue, after, PORTION, PORTION_OCTETS)
                for one in seen:
                    after = one.place
                    yield Browsed(one.message, one.deliveries > 0)
                if not seen:
                    return
                await asyncio.sleep(0)
        finally:
            await end.close()


class RemoteSide:
    """A virtual host of another broker."""

    def __init__(self, upstream: Upstream, name: str, described: str = "") -> None:
        self.described = described or upstream.settings.name
        self._upstream = upstream
        self._name = name

    async def source(self, queue: str, window: int) -> FiniteSource:
        return await open_source(self._upstream, self._name, queue, window)

    async def destination(self, queue: str, report: Report) -> Destination:
        return await open_destination(self._upstream, self._name, report, queue)

    async def count(self, queue: str) -> int | None:
        remote = await begin(self._upstream, self._name)
        try:
            return await counted(remote, queue)
        finally:
            await self._upstream.disconnect(remote)

    async def consumers(self, queue: str) -> int | None:
        remote = await begin(self._upstream, self._name)
        try:
            if remote.adapter.version not in COUNTING:
                return None
            found = await remote.request(DeclareQueue(CHANNEL, None, queue, passive=True))
            return int(found.consumers)
        finally:
            await self._upstream.disconnect(remote)

    async def browses(self) -> bool:
        remote = await begin(self._upstream, self._name)
        await self._upstream.disconnect(remote)
        return can_browse(remote)

    async def browse(self, queue: str, taking: bool = False) -> AsyncIterator[Browsed]:
        remote = await begin(self._upstream, self._name)
        try:
            copy = can_browse(remote)
            if not copy and not taking:
                version = remote.adapter.version
                raise LocalError(f"{self.described}: {version} reads a queue only by taking")
            reader = Reader(remote, queue, copy)
            async with aclosing(reader.read()) as found:
                async for one in found:
                    yield one
        finally:
            await self._upstream.disconnect(remote)


class Reader:
    """Reads a queue of another broker to its end: as copies, or without settling anything, so that
    the broker puts all back when the connection ends."""

    def __init__(self, remote: Remote, queue: str, copy: bool) -> None:
        self.remote = remote
        self.queue = queue
        self.copy = copy

    async def read(self) -> AsyncGenerator[Browsed]:
        remote, copy = self.remote, self.copy
        expected = None if copy else await counted(remote, self.queue)
        if copy:
            await remote.request(Prefetch(CHANNEL, None, PORTION))
        tag = await remote.request(Subscribe(CHANNEL, None, self.queue, copy=copy))
        read, ended = 0, False
        quiet = 0.0
        while True:
            wait = 0.0 if ended else QUIET_SECONDS
            try:
                async with asyncio.timeout(wait):
                    operation = await anext(remote)
            except TimeoutError:
                quiet += wait
                if ended or (expected is not None and read >= expected):
                    return
                if copy:
                    ended = await draw(remote, tag, PORTION) == 0
                elif quiet >= PATIENCE_SECONDS:
                    return
                continue
            except StopAsyncIteration:
                assert remote.closed is not None
                raise refusal_of(remote.closed) from None
            if isinstance(operation, Deliver):
                yield Browsed(operation.message, operation.redelivered)
                read, quiet = read + 1, 0.0
                if copy:
                    remote.send(Settle(CHANNEL, operation.delivery, False, Outcome.ACCEPT))
                    remote.wake()
                continue
            raise_if_lost(operation)
            if isinstance(operation, Cancelled):
                raise Refusal(Condition.NOT_FOUND, f"the queue {self.queue!r} is gone")


def ignore(number: int, fate: object, text: str) -> None:
    """The reports of an end that publishes nothing."""
