"""The publish check behind readiness: a durable message passes through a turn of the broker to the
disk and is removed again, within a time limit.

It runs when readiness is requested and the last result is stale or not acceptable to the caller, so
it costs nothing otherwise. Only one check runs at a time: while the disk hangs, all callers share
the pending one.
"""

import asyncio
from dataclasses import dataclass

from gateway.http.dependencies import HttpDependencies
from gateway.message import DIALECTS, Message, Properties

DIALECT = "0-9-1"


@dataclass(slots=True)
class Canary:
    """The check. ``fresh_seconds`` is the time that a good result is valid. ``limit_seconds`` is
    the time limit of one check."""

    dependencies: HttpDependencies
    fresh_seconds: float
    limit_seconds: float
    number: int | None = None
    position: int = 0
    waiting: asyncio.Future[None] | None = None
    began: float = 0.0
    last_good: float | None = None
    """Time of the last success, by the clock of the loop."""
    last_seconds: float = 0.0
    ever: bool = False

    async def check(self, anew: bool = False) -> bool:
        """Whether a publish completes in time. ``anew`` requires one that begins after this call;
        such calls during a check share the next one."""
        if self.dependencies.broker.blocked is not None:
            return False
        if anew and self.waiting is not None and not await self.arrives(self.waiting):
            return False
        loop = asyncio.get_running_loop()
        if self.waiting is None:
            good = self.last_good
            if not anew and good is not None and loop.time() - good < self.fresh_seconds:
                return True
            self.send(loop)
        waiting = self.waiting
        return waiting is None or await self.arrives(waiting)

    async def arrives(self, waiting: "asyncio.Future[None]") -> bool:
        left = self.began + self.limit_seconds - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.wait([waiting], timeout=left)
        return waiting.done()

    def send(self, loop: asyncio.AbstractEventLoop) -> None:
        dependencies, broker = self.dependencies, self.dependencies.broker
        waiting = self.waiting = loop.create_future()
        self.began = loop.time()
        dependencies.begin_turn()
        try:
            if self.number is None:
                self.number = broker.state.number()
            number = self.number
            self.position += 1
            position = self.position
            broker.state.store.append(number, position, self.message(), None, True)

            def arrived() -> None:
                # A message that is removed in the same batch would cancel out and not reach the
                # disk.
                broker.state.store.remove(number, position)
                self.last_good = loop.time()
                self.last_seconds = self.last_good - self.began
                self.ever = True
                self.waiting = None
                if not waiting.done():
                    waiting.set_result(None)

            broker.when_safe(arrived)
        finally:
            dependencies.end_turn()

    @staticmethod
    def message() -> Message:
        dialect = DIALECTS[DIALECT]
        header = dialect.write(Properties(durable=True))
        return Message(dialect, header, b"canary", "", "", dialect.essentials(header))
