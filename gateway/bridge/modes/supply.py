"""Brings messages of a queue from its primary broker to consumers at the other one, as many as
they have room for."""

import asyncio
import logging
from typing import Protocol

from gateway.bridge.attempts import keep_attempting
from gateway.bridge.ends import Destination, Fate, Taken, first_of
from gateway.bridge.modes.follower import CLOSE_SECONDS, routed
from gateway.bridge.remote_ends import RemoteSource, open_destination, open_source
from gateway.bridge.upstream import Upstream
from gateway.bridge.waiting import met, quietly
from gateway.errors import Condition, GatewayError, Refusal
from gateway.net.pauses import Pauses
from gateway.operations import Outcome

log = logging.getLogger("gateway.bridge")

MOST = 256
"""Messages that are on their way at a time."""
HOLD_SECONDS = 1.0
"""Time without room after which messages that wait here go back to their queue."""
ARRIVAL_SECONDS = 0.25
"""Time for messages that the other broker has confirmed to come to the consumers there."""
LOOK_SECONDS = 0.005
IDLE_LOOK_SECONDS = 0.05


class Demand(Protocol):
    """Of the consumers at the other broker."""

    def room(self) -> int:
        """Messages that they can take now."""
        ...

    def arrived(self) -> int:
        """Messages that have come to them, in all."""
        ...


class Supply:
    """Of one queue. The ends are upstreams with the name of the queue there. ``brought`` messages
    were confirmed by the other broker."""

    def __init__(
        self,
        vhost: str,
        source: tuple[Upstream, str],
        destination: tuple[Upstream, str],
        demand: Demand,
    ) -> None:
        self.brought = 0
        self.error = ""
        self._name = f"facade {vhost}: {source[1]}"
        self._from, self._from_queue = source
        self._to, self._to_queue = destination
        self._demand = demand
        self._under_way: set[int] = set()
        self._source: RemoteSource | None = None
        self._reason = ""
        self._closing = False
        self._task = asyncio.create_task(
            keep_attempting(self._name, self._run, self._failed, lambda: self.brought, Pauses())
        )

    async def close(self) -> None:
        """Messages under way arrive, so that none comes twice. Other deliveries go back to
        their queue."""
        self._closing = True
        await met(lambda: not self._under_way, LOOK_SECONDS, CLOSE_SECONDS)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await met(self._room, IDLE_LOOK_SECONDS)
            await self._serve()

    def _failed(self, text: str) -> None:
        if text != self.error:
            log.warning("%s: %s", self._name, text)
        self.error = text

    async def _serve(self) -> None:
        """Bring messages until the consumers have had no room for a while."""
        window = min(self._demand.room() or 1, MOST)
        self._reason = ""
        source = await open_source(self._from, self._name, self._from_queue, window)
        try:
            destination = await open_destination(self._to, self._name, self._report, "")
            try:
                self._source, self.error = source, ""
                await first_of(source.watch(), destination.watch(), self._pass(source, destination))
            finally:
                self._source = None
                self._under_way.clear()
                await quietly(destination.close())
        finally:
            await quietly(source.close())

    async def _pass(self, source: RemoteSource, destination: Destination) -> None:
        while True:
            batch = await source.batch()
            while batch:
                if not await met(self._room, LOOK_SECONDS, HOLD_SECONDS):
                    return
                batch = await self._bring(batch, self._room(), destination)

    def _room(self) -> int:
        return 0 if self._closing else self._demand.room()

    async def _bring(self, batch: list[Taken], room: int, destination: Destination) -> list[Taken]:
        """Publish so many messages and wait until they are at their consumers; those left over."""
        some, rest = batch[:room], batch[room:]
        wanted = self._demand.arrived() + len(some)
        self._under_way = {one.delivery for one in some}
        queue = self._to_queue
        destination.publish([(one.delivery, routed(one.message, queue)) for one in some])
        await destination.drain()
        await met(lambda: self._reason or not self._under_way, LOOK_SECONDS)
        if self._reason:
            raise Refusal(Condition.RESOURCE_ERROR, self._reason)
        await met(lambda: self._demand.arrived() >= wanted, LOOK_SECONDS, ARRIVAL_SECONDS)
        return rest

    def _report(self, delivery: int, fate: Fate, text: str) -> None:
        """A message that the other broker does not take stays in its queue, and is tried again."""
        if fate is not Fate.CONFIRMED:
            self._reason = f"{self._to.settings.name} takes no message: {text or fate.value}"
            return
        self.brought += 1
        if self._source is not None:
            try:
                self._source.settle([(delivery, False)], Outcome.ACCEPT)
            except GatewayError as error:  # the connection is lost
                log.debug("%s: %s", self._name, error)
        self._under_way.discard(delivery)
