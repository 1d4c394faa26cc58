"""Abilities of an upstream, found by probing it when somebody asks, and remembered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from gateway.bridge.clock import now
from gateway.bridge.probe import Abilities, find_abilities
from gateway.bridge.remote_ends import begin
from gateway.bridge.upstream import Upstream
from gateway.errors import GatewayError
from gateway.net.dialer import Remote

FAILED_MS = 10_000
"""A probe that has failed is not repeated sooner, however often somebody asks."""
FOUND_MS = 600_000
"""Findings are looked at again after this time: a broker may get other plugins or rights."""


class Discovered(NamedTuple):
    """``at``: time of the last probe that has ended, ms since 1970; 0: none. ``error``: why it
    failed; ``abilities`` are then those found before, if the broker is still the same."""

    at: int
    abilities: Abilities | None
    error: str


class Discovery:
    """Probes one upstream, one probe at a time."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self._found = Discovered(0, None, "")
        self._peer: tuple[str, str, str] | None = None
        """Version, product and its version, at the time of the probe."""
        self._task: asyncio.Task[None] | None = None

    @property
    def probing(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def found(self) -> Discovered:
        if self._peer != self._identity():
            return self._found._replace(abilities=None)
        return self._found

    async def look(self, patience: float) -> Discovered:
        """Probe if there is reason to, and wait for the end of it for so many seconds at most."""
        if not self.probing and self._due():
            self._task = asyncio.get_running_loop().create_task(self._probe())
        if self.probing and patience and self._task is not None:
            await asyncio.wait([self._task], timeout=patience)
        return self.found

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _identity(self) -> tuple[str, str, str]:
        info = self.upstream.info()
        return info.version, info.product, info.product_version

    def _due(self) -> bool:
        known = self.found
        good = known.abilities is not None and not known.error
        return now() - known.at >= (FOUND_MS if good else FAILED_MS if known.error else 0)

    async def _probe(self) -> None:
        before, error = self.found.abilities, ""
        try:
            before = await find_abilities(self._connect)
        except (OSError, GatewayError) as failure:
            error = str(failure) or type(failure).__name__
        self._peer = self._identity()
        self._found = Discovered(now(), before, error)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Remote]:
        remote = await begin(self.upstream, "probe")
        try:
            yield remote
        finally:
            await self.upstream.disconnect(remote)
