"""A shovel whose source is a pattern of queues: a lane for each queue that matches.

The lanes are shovels of their own, which share the rate and the queue of parked messages. They come
and go with the queues.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from gateway.bridge.address_rules import Place
from gateway.bridge.clock import now
from gateway.bridge.ledger import Ledger
from gateway.bridge.pacing import Pace
from gateway.bridge.preparation import (
    Preparation,
    address_rules,
    check_rules,
    queue_pattern,
    translated,
)
from gateway.bridge.property_rules import Values
from gateway.bridge.shovel import LaneInfo, ShovelInfo, State, paced
from gateway.bridge.shovel import Shovel as Lane
from gateway.config.bridge import ShovelSettings
from gateway.errors import ConfigError, GatewayError

log = logging.getLogger("gateway.bridge")

Directory = Callable[[], Awaitable[Iterable[str]]]
"""The names of the queues at the source. Raises ``OSError`` or ``GatewayError``."""
MakeLane = Callable[[ShovelSettings, Preparation, Pace | None], Lane]


class Lanes:
    """Runs until it is cancelled."""

    def __init__(self, settings: ShovelSettings, directory: Directory, make: MakeLane) -> None:
        """Raises ``ConfigError`` if its rules are wrong."""
        self.settings = settings
        self.ledger = Ledger(settings.name)
        """Of lanes that have ended, and the errors of finding queues."""
        self.lanes: dict[str, Lane] = {}
        self._directory, self._make = directory, make
        self._pattern = queue_pattern(settings)
        self._rules = address_rules(settings.destination)
        self._pace = paced(settings)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._since = now()
        self._paused = False
        check_rules(settings)

    def pause(self) -> None:
        self._paused, self._since = True, now()
        for lane in self.lanes.values():
            lane.pause()

    def resume(self) -> None:
        self._paused, self._since = False, now()
        for lane in self.lanes.values():
            lane.resume()

    async def run(self) -> None:
        """Follow the queues."""
        try:
            while True:
                try:
                    await self._follow(await self._directory())
                except (OSError, GatewayError) as error:
                    self.ledger.failed(f"queues cannot be listed: {error}")
                except Exception as error:  # the lanes that run must not end with it
                    log.exception("shovel %s: internal error", self.settings.name)
                    self.ledger.failed(f"internal error: {error!r}")
                await asyncio.sleep(self.settings.source.follow_seconds)
        finally:
            await self._end(list(self.lanes))

    async def _follow(self, names: Iterable[str]) -> None:
        """Begin and end lanes, so that there is one for each of these queues that matches."""
        wanted = {name for name in names if self._pattern.match(name) is not None}
        await self._end([name for name in self.lanes if name not in wanted])
        most, error = self.settings.source.most_queues, ""
        for name in sorted(wanted - self.lanes.keys()):
            if len(self.lanes) >= most:
                error = f"more than {most} queues match: {name!r} and others have no lane"
                break
            try:
                self._begin(name)
            except ConfigError as refused:
                error = str(refused)
        if error:
            self.ledger.failed(error)
        else:
            self.ledger.error = ""

    def _begin(self, queue: str) -> None:
        """Raises ``ConfigError`` if the queue has no target."""
        settings, values = self._lane(queue)
        lane = self._make(settings, Preparation(settings, values), self._pace)
        if self._paused:
            lane.pause()
        self.lanes[queue] = lane
        self._tasks[queue] = asyncio.create_task(lane.run())

    def _lane(self, queue: str) -> tuple[ShovelSettings, Values]:
        values: Values = self._pattern.match(queue) or {}
        source, destination = self.settings.source, self.settings.destination
        update: dict[str, str] = {}
        if self._rules is not None:
            target, parts = translated(self._rules, Place("", queue), destination.inverse)
            if target is None:
                raise ConfigError(f"no address rule has a target for the queue {queue!r}")
            values = {**values, **parts}
            exchange, key = target.routing
            update = {"exchange": exchange, "key": key} if exchange else {"queue": key}
        elif not destination.queue and destination.exchange is None and destination.key is None:
            update = {"queue": queue}
        changed = {
            "source": source.model_copy(update={"queue": queue}),
            "destination": destination.model_copy(update=update),
        }
        return self.settings.model_copy(update=changed), values

    async def _end(self, names: list[str]) -> None:
        tasks = [self._tasks.pop(name) for name in names]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name in names:
            self.ledger.add(self.lanes.pop(name).ledger)

    def info(self) -> ShovelInfo:
        """The sums of all lanes, and each of them."""
        found = {queue: lane.info() for queue, lane in self.lanes.items()}
        ends = self.ledger
        errors = [
            (ends.error_at, ends.error),
            *((one.error_at, one.error) for one in found.values()),
        ]
        error_at, error = max(errors)
        settings = self.settings

        def total(name: str) -> int:
            counts: list[int] = [getattr(one, name) for one in found.values()]
            return sum(counts)

        return ShovelInfo(
            name=settings.name,
            state=self._state([one.state for one in found.values()]),
            source=settings.source.described,
            source_version=next((one.source_version for one in found.values()), ""),
            destination=settings.destination.described,
            destination_version=next((one.destination_version for one in found.values()), ""),
            under_way=total("under_way"),
            held=total("held"),
            connected=total("connected"),
            since=max([self._since, *(one.since for one in found.values())]),
            error=error,
            error_at=error_at,
            lanes=[
                LaneInfo(queue, one.state, one.destination, one.moved, one.parked, one.under_way,
                         one.error, one.error_at)
                for queue, one in sorted(found.items())
            ],
            **{name: count + total(name) for name, count in ends.counts().items()},
        )  # fmt: skip

    def _state(self, states: list[str]) -> str:
        if self._paused:
            return State.PAUSED.value
        if State.RUNNING.value in states:
            return State.RUNNING.value
        return states[0] if states else State.WAITING.value
