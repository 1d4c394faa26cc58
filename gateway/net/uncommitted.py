"""Messages that one connection has published and the store has not committed.

All durable messages of a turn go into one batch, and a batch is confirmed as a whole. So are
entries of the journal for transient messages, of which only the octets are counted. A publisher
that sends a hundred thousand messages without a pause would make batches for which all others wait;
so nothing is read from a connection at its bound until some of its messages are on disk.
"""

from collections.abc import Callable
from functools import partial

from gateway.broker.broker import Broker
from gateway.broker.store import Store

MOST_MESSAGES = 8192
"""Uncommitted messages of one connection: about 25 ms of writing."""
MOST_OCTETS = 8 << 20
"""Octets of their bodies."""


class Uncommitted:
    """``full``: a bound is exceeded, and the owner of the socket should not read. ``freed`` is
    called when that ends, at half of the bounds."""

    __slots__ = ("full", "_broker", "_store", "_freed", "_messages", "_octets", "_mark", "_last")

    def __init__(self, broker: Broker, freed: Callable[[], None]) -> None:
        self.full = False
        self._broker = broker
        self._store: Store = broker.state.store
        self._freed = freed
        self._messages = self._octets = 0
        self._mark = 0
        self._last = [0, 0]
        """Messages and octets in the batch ``_mark``."""

    def add(self, messages: int, octets: int) -> None:
        """Count messages and octets that were appended in this turn."""
        store = self._store
        if store.mark != self._mark:
            self._mark = store.mark
            self._last = [0, 0]
            self._broker.when_written(partial(self._written, self._last))
        self._last[0] += messages
        self._last[1] += octets
        self._messages += messages
        self._octets += octets
        if self._messages > MOST_MESSAGES or self._octets > MOST_OCTETS:
            self.full = True

    def _written(self, batch: list[int]) -> None:
        """The store has committed a batch."""
        self._messages -= batch[0]
        self._octets -= batch[1]
        if batch is self._last:
            self._mark = 0  # more may come while the store still gathers under this mark
        if self.full and self._messages <= MOST_MESSAGES // 2 and self._octets <= MOST_OCTETS // 2:
            self.full = False
            self._freed()
