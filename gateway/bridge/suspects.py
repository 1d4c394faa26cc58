"""Messages that are published again since the upstream has ended its channel over one of them."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gateway.broker.outbound import Publishing

MOST = 512
"""Messages that are published again at a time."""


class Suspect(NamedTuple):
    """``exchange`` as the upstream knows it. ``path`` is that of its publisher."""

    number: int
    path: Publishing
    exchange: str


class Suspects:
    """They are published again in batches, each of one publisher, in its order. When the channel
    ends over a batch it is halved, until it is one message; after one that was taken the next may
    have twice as many. So the others of its publisher alone come more than twice.

    If the reason of the upstream names an exchange, the messages for that are published one at a
    time, after all others, which need no batches by publisher then."""

    def __init__(self) -> None:
        self._others: deque[Suspect] = deque()
        self._named: deque[Suspect] = deque()
        """Those for an exchange that was named, and the later ones of their publishers."""
        self._exchanges: set[str] = set()
        """That were named."""
        self._together = False
        """Batches may have messages of several publishers."""
        self._size = MOST

    def __len__(self) -> int:
        return len(self._others) + len(self._named)

    def __iter__(self) -> Iterator[Suspect]:
        yield from self._others
        yield from self._named

    def add(self, found: Iterable[Suspect], reason: str) -> None:
        """``reason`` of the upstream to end the channel that they were published on; empty: they
        were not published yet."""
        self._sort([*self, *found], reason)

    def take(self, most: int) -> list[Suspect]:
        """The next ones to publish; they have a fate, or are put back, before others are taken."""
        queue = self._others or self._named
        batch: list[Suspect] = []
        while queue and len(batch) < min(most, self._size):
            one = queue[0]
            alone = one.exchange in self._exchanges
            if batch and (alone or not (self._together or one.path is batch[0].path)):
                break
            batch.append(queue.popleft())
            if alone:
                break
        return batch

    def passed(self) -> None:
        """A batch has been taken."""
        self._size = min(2 * self._size, MOST)

    def put_back(self, batch: list[Suspect], reason: str) -> None:
        """The channel has ended over one of a batch."""
        self._size = max(1, len(batch) // 2)
        self._sort([*batch, *self], reason)

    def drop(self, exchange: str) -> list[Suspect]:
        """Take out the messages for an exchange."""
        dropped = [one for one in self if one.exchange == exchange]
        self._sort([one for one in self if one.exchange != exchange], "")
        return dropped

    def clear(self) -> None:
        self._others.clear()
        self._named.clear()
        self._exchanges.clear()
        self._together = False
        self._size = MOST

    def _sort(self, found: list[Suspect], reason: str) -> None:
        if reason:
            exchanges = {one.exchange for one in found if one.exchange}
            named = {one for one in exchanges if names(reason, one)} - self._exchanges
            self._together = bool(named)
            self._exchanges |= named
        paths: dict[Publishing, list[Suspect]] = {}
        for one in found:
            paths.setdefault(one.path, []).append(one)
        self._others.clear()
        self._named.clear()
        for of_one in paths.values():
            behind = False
            for one in of_one:
                behind = behind or one.exchange in self._exchanges
                (self._named if behind else self._others).append(one)


def names(reason: str, exchange: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(exchange)}(?![\w.-])", reason) is not None
