"""All event sources and streams of the gateway, and the ticker that they share.

Streams are woken at most once per round of the loop however many events came, and the heartbeat of
every stream, the lingering of sources and stalled sockets are handled by one ticker.
"""

import asyncio
import contextlib
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from gateway.broker.broker import Broker
from gateway.broker.journal import SOURCE
from gateway.config.web import HttpSettings
from gateway.errors import Condition, Refusal
from gateway.http import problems
from gateway.http.access.catalogue import Filled
from gateway.http.access.principal import Principal
from gateway.http.dependencies import HttpDependencies
from gateway.http.events.cursor import EPOCH_OCTETS, Cursors
from gateway.http.events.durable import DurableSource
from gateway.http.events.past import Past
from gateway.http.events.sources import Source, SourceName, Stream
from gateway.http.events.stream_queue import StreamQueueSource
from gateway.http.leases import LeaseTable, tally
from gateway.http.problems import Problem

log = logging.getLogger("gateway.http")

QuotaScope = tuple[str, str]
"""A virtual host and a declared route in it, or ""."""
TICK_SECONDS = 0.5
PROOF_TICKS = 4
EARLY_READERS = 16


class Hub:
    """Made once per gateway, inside or outside a running loop."""

    def __init__(
        self,
        dependencies: HttpDependencies,
        cursors: Cursors,
        leases: LeaseTable,
        still_good: Callable[[Principal, float], bool],
    ) -> None:
        """``still_good`` says whether a caller may go on at a time in seconds since 1970."""
        self.broker: Broker = dependencies.broker
        self.turn = dependencies.turn
        self.clock: Callable[[], float] = dependencies.clock
        self.settings: HttpSettings = dependencies.settings
        self.cursors = cursors
        self.leases = leases
        self.still_good = still_good
        self.epoch = os.urandom(EPOCH_OCTETS)
        """Of the journals that are in memory only."""
        self.sources: dict[tuple[str, SourceName], Source] = {}
        self.streams: set[Stream] = set()
        self.per_user: Counter[str] = Counter()
        self.per_browser: Counter[tuple[str, ...]] = Counter()
        self.per_place: Counter[QuotaScope] = Counter()
        self.places: dict[Stream, list[QuotaScope]] = {}
        """Where each stream counts: its virtual host and its declared routes."""
        self.closing = False
        self.events = 0
        """Events appended to journals since the start."""
        self.gaps = 0
        self.dropped = 0
        """Events left out for slow readers with ``slow=latest``."""
        make = dependencies.journal
        self.past = None if make is None else Past(make)
        """The journal of a gateway that is durable."""
        self._high = 0
        self._fresh: set[Source] = set()
        self._settle: dict[Source, int] = {}
        self._scheduled = False
        """Whether a round comes."""
        self._calm = False
        self._early: Source | None = None
        """Its event was written before this round."""
        self._counted = 0
        """How many events there had been at the last round."""
        self._ticker: asyncio.Task[None] | None = None
        self._restore()

    def _restore(self) -> None:
        """Durable sources go on from the start, with or without readers."""
        with self.turn():
            for _, key, record in list(self.broker.state.store.records(SOURCE)):
                if "ended" in record:
                    continue
                vhost, exchange, binding = key
                name = SourceName("exchange", exchange, binding, True)
                source = DurableSource(self, vhost, name, record)
                try:
                    if vhost not in self.broker.vhosts:
                        raise Refusal(Condition.NOT_FOUND, f"no vhost '{vhost}'")
                    source.open(source.user, True)
                    self.sources[vhost, name] = source
                except Refusal:
                    # Its exchange is gone: a cursor of it will be an honest gap.
                    source.give_up()
        if self.sources:
            with contextlib.suppress(RuntimeError):  # built before the loop runs
                self.start_ticker()

    # --- streams --------------------------------------------------------------------------------

    def admit(self, user: str, vhost: str, aliases: Iterable[Filled]) -> None:
        """Raises ``Problem`` if this user may not have one more stream, or there are too many in
        the virtual host or of a declared route."""
        settings = self.settings
        if self.closing:
            raise Problem(problems.DRAINING, "the gateway is shutting down")
        if len(self.streams) >= settings.max_streams:
            raise Problem(problems.QUOTA, f"{settings.max_streams} streams are open already")
        if self.per_user[user] >= settings.max_streams_per_user:
            raise Problem(
                problems.QUOTA, f"user {user!r} has {settings.max_streams_per_user} streams open"
            )
        self.admit_to((vhost, ""), settings.vhost_quota.streams)
        for one in aliases:
            self.admit_to((vhost, one.route.name), one.route.quota.streams)

    def admit_to(self, place: QuotaScope, most: int | None) -> None:
        """Raises ``Problem``."""
        if most is not None and self.per_place[place] >= most:
            what = f"the route {place[1]!r}" if place[1] else f"the virtual host {place[0]!r}"
            raise Problem(problems.QUOTA, f"{what} has {most} streams open", quota="streams")

    def count(self, stream: Stream, vhost: str) -> None:
        """Where it counts from now on."""
        self.uncount(stream)
        routes = {one.route.name for one in stream.aliases.values()}
        self.places[stream] = [(vhost, ""), *((vhost, route) for route in routes)]
        self.per_place.update(self.places[stream])

    def uncount(self, stream: Stream) -> None:
        for place in self.places.pop(stream, ()):
            tally(self.per_place, place, -1)

    def enter(self, stream: Stream, vhost: str, names: list[SourceName], returning: bool) -> None:
        """A new stream with its sources. Raises ``Refusal`` or ``Problem``; then it is not
        there."""
        self.join(stream, vhost, names, returning)
        self.streams.add(stream)
        self.count(stream, vhost)
        self.per_user[stream.user] += 1
        if stream.browser:
            self.per_browser[stream.browser] += 1
        self.start_ticker()

    def join(
        self, stream: Stream, vhost: str, names: list[SourceName], returning: bool
    ) -> list[Source]:
        """Join a stream to sources, opening those that are not open. Raises ``Refusal`` or
        ``Problem``; then the stream has joined none of them."""
        joined: list[Source] = []
        with self.turn():
            try:
                for name in names:
                    stream.need(vhost, name)
                    source = self.source(vhost, name, stream, returning)
                    stream.sources.append(source)
                    source.join(stream)
                    joined.append(source)
            except (Refusal, Problem):
                for source in joined:
                    self.leave_source(stream, source)
                raise
        return joined

    def leave_source(self, stream: Stream, source: Source) -> None:
        """A stream ends, or goes on without one of its sources. Within a turn."""
        stream.sources.remove(source)
        position = self._settle.pop(source, None)
        if position is not None:
            source.settle(position)
        source.leave(stream, asyncio.get_running_loop().time())
        if source.name.reader:
            self._remove(source)

    def start_ticker(self) -> None:
        loop = asyncio.get_running_loop()
        if self._ticker is None:
            self._ticker = loop.create_task(self._tick())

    def source(self, vhost: str, name: SourceName, reader: Stream, returning: bool) -> Source:
        """The one there is, or a new one; whether its reader may read it has been asked."""
        source = self.sources.get((vhost, name))
        if source is not None and (why := source.dead()):
            self._forget(source, why)
            source = None
        if source is None:
            self.make_room(name)
            if name.reader:
                place = reader.places[name]
                source = StreamQueueSource(self, vhost, name, reader.label(name), place)
            elif name.durable:
                source = DurableSource(self, vhost, name)
            else:
                # No position of an earlier journal of this source may look valid in the new one.
                source = Source(self, vhost, name, self._high + 2)
        source.open(reader.user, returning)
        self.sources[vhost, name] = source
        return source

    def make_room(self, name: SourceName) -> None:
        """For one more source, by dropping the one without readers for the longest time."""
        if name.durable:
            durable = sum(known.durable for _, known in self.sources)
            if durable >= self.settings.max_durable_sources:
                most = self.settings.max_durable_sources
                raise Problem(problems.QUOTA, f"{most} durable journals are kept already")
        if len(self.sources) < self.settings.max_sources:
            return
        idle = [
            source
            for source in self.sources.values()
            if source.idle_since is not None and not source.name.durable
        ]
        if not idle:
            raise Problem(problems.QUOTA, f"{self.settings.max_sources} sources are open already")
        self.drop(min(idle, key=lambda source: source.idle_since or 0.0))

    def complete(self, vhost: str, name: SourceName, durable: bool | None) -> SourceName:
        """The name with its defaults: the key of an exchange source without one (everything), and
        where its journal is (``durable``; ``None`` leaves it to the settings)."""
        if name.kind != "exchange":
            return name
        exchange = self.broker.vhosts[vhost].exchanges.get(name.name)
        if name.key is None:
            if exchange is not None and exchange.type == "direct":
                raise Problem(problems.INVALID, f"exchange:{name.name} needs ?binding=KEY")
            name = name._replace(key="#" if exchange and exchange.type == "topic" else "")
        possible = exchange is not None and exchange.durable and not self.broker.state.volatile
        if durable is None:
            wanted = any(fnmatchcase(str(name), one) for one in self.settings.durable_sources)
            return name._replace(durable=wanted and possible)
        if durable and exchange is not None and not possible:
            raise Problem(
                problems.INVALID,
                "the journal cannot be durable: the exchange or the gateway is not",
            )
        return name._replace(durable=durable)

    def head(self, vhost: str, name: SourceName) -> int | None:
        """Newest position of a source's journal, ``None`` if it has none yet."""
        source = self.sources.get((vhost, name))
        return None if source is None else source.journal.head

    def leave(self, stream: Stream) -> None:
        if stream in self.streams:
            self.streams.discard(stream)
            self.uncount(stream)
            tally(self.per_user, stream.user, -1)
            if stream.browser:
                tally(self.per_browser, stream.browser, -1)
        with self.turn():
            stream.part()
            for source in list(stream.sources):
                self.leave_source(stream, source)

    def find(self, identity: str) -> Stream | None:
        return next((one for one in self.streams if one.identity == identity), None)

    # --- called by sources ----------------------------------------------------------------------

    def appended(self, source: Source) -> None:
        """Wake the readers, once, when this round of the loop is over. A lone event for a few of
        them is written at once, before its publisher's turn goes on: not if there were several in
        the last round, because those are written together. Hot."""
        self.events += 1
        readers = source.readers
        if not readers:
            return
        if self._calm and len(readers) <= EARLY_READERS:
            self._calm = False
            self._early = source
            self._wake(source)
        else:
            self._fresh.add(source)
        if not self._scheduled:
            self._schedule()

    def settle_later(self, source: Source, position: int) -> None:
        self._schedule()
        if self._settle.get(source, -1) < position:
            self._settle[source] = position

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        self._scheduled = False
        self._calm = self.events - self._counted <= 1
        self._counted = self.events
        settle, self._settle = self._settle, {}
        if settle:
            with self.turn():
                for source, position in settle.items():
                    source.settle(position)
        fresh, self._fresh = self._fresh, set()
        for source in fresh:
            self._wake(source)
        early, self._early = self._early, None
        if early is not None and self._calm:
            early.look_ahead()

    def _wake(self, source: Source) -> None:
        for reader in source.readers:
            try:
                reader.wake()
            except Exception:  # it costs neither the others nor a publisher
                log.exception("internal error in an event stream")

    def lost(self, source: Source, text: str) -> None:
        """The broker ended a subscription (its queue is gone). Its readers are told and part."""
        asyncio.get_running_loop().call_soon(self._forget, source, text)

    def _forget(self, source: Source, text: str) -> None:
        self.drop(source)
        for reader in list(source.readers):
            reader.source_lost(source, text)

    def drop(self, source: Source) -> None:
        """Forget a source and its journal."""
        self._remove(source)
        with self.turn():
            source.destroy()

    def _remove(self, source: Source) -> None:
        key = (source.vhost, source.name)
        if self.sources.get(key) is source:
            del self.sources[key]
        if not source.name.reader:
            self._high = max(self._high, source.journal.head)

    # --- time -----------------------------------------------------------------------------------

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        ticks = 0
        while self.sources or self.streams:
            await asyncio.sleep(TICK_SECONDS)
            now, wall = loop.time(), self.clock()
            for stream in list(self.streams):
                stream.tick(now, wall)
            ticks += 1
            if ticks % PROOF_TICKS == 0:
                self.prove(wall)
            self.review(now)
            self.expire(now)
        self._ticker = None

    def prove(self, wall: float) -> None:
        """End the streams whose credential was withdrawn: a password changed, a session ended."""
        good: dict[Principal, bool] = {}
        for stream in list(self.streams):
            caller = stream.caller
            if caller not in good:
                good[caller] = self.still_good(caller, wall)
            if not good[caller]:
                stream.close("the credential was withdrawn")

    def review(self, now: float) -> None:
        """Part streams from sources that are dead or that their caller may no longer read."""
        for source in list(self.sources.values()):
            why = source.dead()
            if why:
                self._forget(source, why)
                continue
            for reader in self.barred(source):
                with self.turn():
                    source.leave(reader, now)
                reader.source_lost(source, "the permission to read was withdrawn")

    def barred(self, source: Source) -> list[Stream]:
        """Readers without permission to read this any more."""
        may: dict[Principal, bool] = {}
        for reader in source.readers:
            if reader.caller not in may:
                may[reader.caller] = True
                try:
                    reader.need(source.vhost, source.name)
                except Problem:
                    may[reader.caller] = False
        return [reader for reader in source.readers if not may[reader.caller]]

    def expire(self, now: float) -> None:
        """Drop sources that had no readers for the linger time."""
        for source in list(self.sources.values()):
            linger = (
                self.settings.durable_linger_seconds
                if source.name.durable
                else self.settings.linger_seconds
            )
            if source.readers:
                continue
            if source.idle_since is None:
                source.idle_since = now - source.idle_seconds()
            if now - source.idle_since >= linger:
                self.drop(source)

    async def close(self) -> None:
        """End all streams with a goodbye, spread over time when they come back, then let go of
        all sources; durable journals stay."""
        self.closing = True
        settings = self.settings
        for stream in list(self.streams):
            retry = settings.reconnect_ms + random.randrange(settings.drain_spread_ms + 1)
            stream.close("the gateway is shutting down", True, retry)
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
            self._ticker = None
        for source in list(self.sources.values()):
            self._remove(source)
            with self.turn():
                source.detach()
        if self.past is not None:
            await self.past.close()
