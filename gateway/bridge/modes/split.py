"""Lets some consumers of a queue be at the other broker while the rest is at its primary one.

Consumers that are chosen by client get as many messages of the primary broker as they have room
for, brought to theirs. When none of them is left, a follower brings back what is there. Consumers
that are chosen by key are at both brokers, once everything has been delivered that was at the
primary one before: a mark behind it tells.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from gateway.bridge.modes.address import Address
from gateway.bridge.modes.pair import UpstreamPair
from gateway.bridge.modes.supply import Supply
from gateway.bridge.waiting import met

AGAIN_SECONDS = 60.0
"""Time after which a mark that has not come is published again: it may be lost."""
READY_SECONDS = 0.5
"""Time between two looks at the connection of the primary broker."""
LINGER_SECONDS = 1.0
"""Time for which the messages of consumers that have gone wait for others."""


class SplitConsumers:
    """Of one queue whose share splits its consumers. ``follow`` and ``unfollow`` start and end the
    follower of its other side."""

    def __init__(
        self,
        pair: UpstreamPair,
        address: Address,
        follow: Callable[[], None],
        unfollow: Callable[[], Awaitable[None]],
    ) -> None:
        self.changed = asyncio.Event()
        self._pair, self._address = pair, address
        self._follow, self._unfollow = follow, unfollow
        self._supply: Supply | None = None
        self._brought = 0
        """By supplies that have ended."""
        self._task = asyncio.create_task(self._mark() if address.share.keys else self._serve())

    def _make_supply(self) -> Supply:
        pair, address = self._pair, self._address
        primary = pair.sides[address.arrangement.primary]
        other = pair.sides[address.arrangement.other]
        return Supply(
            pair.host.name,
            (primary.upstream, primary.places.queue(address.name)),
            (other.upstream, other.places.queue(address.name)),
            self,
        )

    @property
    def supplied(self) -> int:
        return self._brought + (0 if self._supply is None else self._supply.brought)

    @property
    def error(self) -> str:
        return "" if self._supply is None else self._supply.error

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._pair.forget_marks(self._address)

    # --- the demand of the consumers at the other broker ------------------------------------------

    def room(self) -> int:
        return sum(one.room for one in self._pair.other_queues(self._address))

    def arrived(self) -> int:
        return sum(one.published + one.passed for one in self._pair.other_queues(self._address))

    # --- by client --------------------------------------------------------------------------------

    async def _serve(self) -> None:
        while True:
            if not self._pair.other_queues(self._address):
                self._follow()
                await self._come()
                await self._unfollow()
            supply = self._supply = self._make_supply()
            try:
                await self._go()
            finally:
                await supply.close()
                self._brought, self._supply = self.supplied, None

    async def _come(self) -> None:
        """Wait until there is a consumer."""
        while not self._pair.other_queues(self._address):
            self.changed.clear()
            await self.changed.wait()

    async def _go(self) -> None:
        """Wait until there is none, and none has come within a while."""
        while True:
            self.changed.clear()
            if self._pair.other_queues(self._address):
                await self.changed.wait()
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(self._come(), LINGER_SECONDS)
                continue
            return

    # --- by key -----------------------------------------------------------------------------------

    async def _mark(self) -> None:
        pair, address = self._pair, self._address
        side = pair.sides[address.arrangement.primary]
        while not address.opened:
            seconds = AGAIN_SECONDS if pair.mark(address) else READY_SECONDS
            passed = partial(self._is_over, side.connected)
            await met(passed, READY_SECONDS, seconds)

    def _is_over(self, connected: int) -> bool:
        """Whether a mark has come, or may be lost: it was published over an earlier connection."""
        address = self._address
        side = self._pair.sides[address.arrangement.primary]
        return address.opened or side.connected != connected
