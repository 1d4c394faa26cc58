"""Publishes with the same ordering key are sent in the order in which they arrived.

Each takes a slot when it arrives, before its body is read, and is sent when the one before it has
been handed to the broker or has failed. It does not wait for that one's confirm.
"""

import asyncio
from types import TracebackType

from gateway.http import problems
from gateway.http.problems import Problem

Key = tuple[str, ...]


class SendSlot:
    """A slot behind ``before`` in the order of sending. Left at the end of its block."""

    def __init__(self, ordering: "Ordering", key: Key, before: asyncio.Future[None] | None) -> None:
        self.ordering = ordering
        self.key = key
        self.before = before
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def free(self) -> bool:
        """Whether all slots before it have been left."""
        return self.before is None or self.before.done()

    async def reached(self, seconds: float) -> None:
        """Wait for those before. Raises ``Problem`` (503) if they take too long."""
        if self.before is not None and not self.before.done():
            await asyncio.wait([self.before], timeout=seconds)
            if not self.before.done():
                raise Problem(
                    problems.BACKPRESSURE,
                    f"an earlier publish with the same ordering key was not sent in {seconds:g} s",
                )

    def leave(self) -> None:
        if self.left.done():
            return
        if self.before is not None and not self.before.done():
            # Gave up while waiting: the slot behind it now waits for the one before it.
            self.before.add_done_callback(lambda _: self.leave())
            return
        self.left.set_result(None)
        if self.ordering.tails.get(self.key) is self.left:
            del self.ordering.tails[self.key]

    def __enter__(self) -> "SendSlot":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()


class Ordering:
    """The last slot of each ordering key, while it has slots."""

    def __init__(self) -> None:
        self.tails: dict[Key, asyncio.Future[None]] = {}

    def enter(self, *key: str) -> SendSlot:
        slot = SendSlot(self, key, self.tails.get(key))
        self.tails[key] = slot.left
        return slot
