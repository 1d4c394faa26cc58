"""Several connections to one destination."""

from collections.abc import Awaitable, Callable, Iterable
from itertools import cycle

from gateway.bridge.ends import Destination, first_of
from gateway.message import Message


class Fan:
    """A ``Destination`` that spreads messages over others, a part of each batch to each. Their
    order is that of the confirms only."""

    def __init__(self, ends: list[Destination]) -> None:
        self.version = ends[0].version
        self._ends = ends
        self._turns = cycle(ends)

    def publish(self, messages: Iterable[tuple[int, Message]]) -> None:
        batch = list(messages)
        share = -(-len(batch) // len(self._ends))
        for at in range(0, len(batch), share or 1):
            next(self._turns).publish(batch[at : at + share])

    async def drain(self) -> None:
        for end in self._ends:
            await end.drain()

    async def watch(self) -> None:
        await first_of(*(end.watch() for end in self._ends))

    async def close(self) -> None:
        """Close all, whatever happens to one. Raises the first error."""
        await closed(self._ends)


async def fan(count: int, open_one: Callable[[], Awaitable[Destination]]) -> Destination:
    """So many connections, all or none. Raises the error of the first that cannot be opened."""
    ends: list[Destination] = []
    try:
        while len(ends) < count:
            ends.append(await open_one())
    except BaseException:
        await closed(ends)
        raise
    return ends[0] if count == 1 else Fan(ends)


async def closed(ends: list[Destination]) -> None:
    if ends:
        try:
            await ends[0].close()
        finally:
            await closed(ends[1:])
