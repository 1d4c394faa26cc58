"""All upstreams and shovels of one process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.adapters import Limits
from gateway.bodies import Spool
from gateway.bridge.address_inventory import compiled
from gateway.bridge.clock import now
from gateway.bridge.core_ends import Core, CoreDestination, CoreSource
from gateway.bridge.directories import directory_of
from gateway.bridge.discovery import Discovery
from gateway.bridge.ends import Destination, Ends, Report, Source
from gateway.bridge.facade import Facade
from gateway.bridge.fan import fan
from gateway.bridge.lanes import Lanes
from gateway.bridge.migration.in_gateway import GatewayMoves
from gateway.bridge.modes.address import Addresses
from gateway.bridge.modes.cutover import ModeChanges
from gateway.bridge.modes.mode import NEW
from gateway.bridge.modes.pair import UpstreamPair
from gateway.bridge.pacing import Pace
from gateway.bridge.places import SAME_PLACES, Places
from gateway.bridge.preparation import Preparation
from gateway.bridge.remote_ends import open_destination, open_source
from gateway.bridge.seen import SeenIds
from gateway.bridge.shovel import Shovel, paced
from gateway.bridge.upstream import Upstream
from gateway.bridge.waiting import know
from gateway.broker.facade import FacadeVirtualHost
from gateway.config.addresses import read_address_rules
from gateway.config.bridge import ShovelSettings, UpstreamSettings
from gateway.config.facade import FacadeSettings
from gateway.errors import ConfigError, Refusal
from gateway.selector import Selector


@dataclass(frozen=True)
class ShovelEnds:
    """Opens the ends of one shovel."""

    core: Core
    upstreams: dict[str, Upstream]
    settings: ShovelSettings

    @property
    def name(self) -> str:
        """Name of its connections."""
        return f"shovel {self.settings.name}"

    async def source(self) -> Source:
        source, window = self.settings.source, self.settings.window
        if source.upstream:
            upstream = self.upstreams[source.upstream]
            return await open_source(upstream, self.name, source.queue, window)
        user = self.settings.user
        await know(self.core.broker, self.core.turn, source.vhost, "queue", source.queue)
        matches = (
            Selector(self.settings.filter).matches if self.settings.filters_at_source else None
        )
        return CoreSource(self.core, source.vhost, user, self.name, source.queue, window, matches)

    async def destination(self, report: Report) -> Destination:
        settings = self.settings.destination
        if settings.upstream:
            upstream = self.upstreams[settings.upstream]
            return await fan(
                self.settings.connections,
                lambda: open_destination(upstream, self.name, report, settings.queue),
            )
        end = CoreDestination(self.core, settings.vhost, self.settings.user, self.name, report)
        async with closing_if_refused(end):
            await end.check("" if settings.queue else settings.exchange, settings.queue)
        return end

    async def parking(self, report: Report) -> Destination:
        vhost = self.settings.parking_vhost
        end = CoreDestination(self.core, vhost, self.settings.user, self.name, report)
        async with closing_if_refused(end):
            await end.declare(self.settings.parking)
        return end


@asynccontextmanager
async def closing_if_refused(end: CoreDestination) -> AsyncIterator[None]:
    try:
        yield
    except BaseException:
        await end.close()
        raise


class Bridge:
    """``async with Bridge(...) as bridge`` runs all shovels."""

    def __init__(
        self,
        core: Core,
        upstreams: Sequence[UpstreamSettings],
        shovels: Sequence[ShovelSettings],
        facades: Sequence[FacadeSettings],
        limits: Limits,
        spool: Spool | None,
    ) -> None:
        """Raises ``ConfigError``."""
        self.upstreams = {one.name: Upstream(one, limits, spool) for one in upstreams}
        self.discoveries = {name: Discovery(one) for name, one in self.upstreams.items()}
        self._seen = SeenIds(core.broker.state.store, core.turn, now)
        self.shovels = {one.name: self._shovel(core, one) for one in shovels}
        self._seen.forget_others(one.name for one in shovels if one.duplicates is not None)
        self.facades: dict[str, Facade] = {}
        self.successors: dict[str, Facade] = {}
        """Those of the facades that have one, by virtual host."""
        self.modes: dict[str, ModeChanges] = {}
        """Likewise."""
        self.moves: GatewayMoves | None = None
        for one in facades:
            self._add_facade(core, one)
        self._tasks: list[asyncio.Task[None]] = []

    def _shovel(self, core: Core, settings: ShovelSettings) -> Shovel | Lanes:
        def make(settings: ShovelSettings, preparation: Preparation, pace: Pace | None) -> Shovel:
            ends = ShovelEnds(core, self.upstreams, settings)
            opened = Ends(ends.source, ends.destination, ends.parking)
            seen, id_of = None, preparation.id_of
            if settings.duplicates is not None and id_of is not None:
                queue = settings.source.queue if settings.source.queues else ""
                seen = self._seen.of(settings.duplicates, id_of, (settings.name, queue))
            return Shovel(settings, opened, preparation, pace, seen)

        if not settings.source.queues:
            return make(settings, Preparation(settings), paced(settings))
        known = {name: one.settings for name, one in self.upstreams.items()}
        return Lanes(settings, directory_of(settings, core, known).queues, make)

    def _add_facade(self, core: Core, settings: FacadeSettings) -> None:
        vhost, state = settings.vhost, core.broker.state
        facade = Facade(settings, self.upstreams[settings.upstream], core.turn)
        self.facades[vhost] = facade
        if settings.successor:
            upstream, file = self.upstreams[settings.successor], settings.addresses_file
            places = SAME_PLACES if file is None else Places(compiled(read_address_rules(file)))
            successor = Facade(settings, upstream, core.turn, NEW, places)
            pair = UpstreamPair(facade, successor, Addresses(vhost, state.store, core.turn))
            successor.host = pair.host = facade.host = FacadeVirtualHost(vhost, state, pair)
            pair.host.on_settled = pair.on_settled
            self.successors[vhost] = successor
            self.modes[vhost] = ModeChanges(pair, lambda: self.moves, core.turn)
        else:
            facade.host = FacadeVirtualHost(vhost, state, facade)
        try:
            core.broker.adopt_vhost(facade.host)
        except Refusal as refusal:
            raise ConfigError(f"facades: {refusal.text}") from None

    @property
    def upstream_facades(self) -> list[Facade]:
        """All connections of facades to an upstream, or to its successor."""
        return [*self.facades.values(), *self.successors.values()]

    def note_blocked(self) -> None:
        """Tell the virtual hosts of facades why an upstream holds its publishers back."""
        for facade in self.facades.values():
            facade.host.blocked = None
        for facade in self.upstream_facades:
            facade.host.blocked = facade.host.blocked or facade.upstream.blocked

    def start(self) -> None:
        for facade in self.upstream_facades:
            facade.start()
        for changes in self.modes.values():
            changes.start()
        if self.moves is not None:
            self.moves.start()
        self._tasks = [asyncio.create_task(one.run()) for one in self.shovels.values()]

    async def close(self) -> None:
        """Close all connections. Messages that are not settled stay at their source."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for discovery in self.discoveries.values():
            await discovery.close()
        for changes in self.modes.values():
            await changes.close()
        for facade in self.upstream_facades:
            await facade.close()
        if self.moves is not None:
            await self.moves.close()
