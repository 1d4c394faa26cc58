"""Output of a connection: pieces that gather until the owner of the socket takes them."""

from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.adapters.core.heartbeat import Heartbeat
from gateway.adapters.core.large_bodies import LargeBodyOutput, OutputChannel

JOIN_BELOW = 64 * 1024
"""Less output than this is joined into one piece."""

MOST_OCTETS = 8 << 20
"""Octets of messages waiting to be written that are enough for one turn."""

JOINED = 4 * 1024
"""Bodies up to this size are copied into one piece with their headers."""

CROWD = 16 * 1024
"""Pieces waiting to be written that are enough for one turn: more than one read can cause."""

HEAVY = 1024
"""Smallest body whose octets are counted for ``MOST_OCTETS``."""

WEIGHT = 512
"""Octets that a message without its body, or a reply, counts for ``MOST_OCTETS``."""


def take(pending: list[bytes]) -> list[bytes]:
    """Empty ``pending``; its pieces, joined if they are small."""
    if len(pending) > 1 and sum(map(len, pending)) < JOIN_BELOW:
        taken = [b"".join(pending)]
    else:
        taken = pending[:]
    pending.clear()
    return taken


def no_op() -> None:
    """The default of a callback that its owner has not set."""


class Wakeable(Protocol):
    """The adapter whose output this is."""

    wake: Callable[[], None]
    output_congested: Callable[[], None]


class OutputBuffer:
    """The output of one connection, large bodies included."""

    __slots__ = ("pending", "large", "receiving", "_adapter", "_heartbeat", "_channels", "_weight")

    def __init__(
        self, adapter: Wakeable, heartbeat: Heartbeat, channels: Mapping[int, OutputChannel]
    ) -> None:
        self.pending: list[bytes] = []
        self.large = LargeBodyOutput(self.pending)
        self.receiving = False
        """The adapter is inside ``receive``: its owner takes the output afterwards anyway."""
        self._adapter = adapter
        self._heartbeat = heartbeat
        self._channels = channels
        self._weight = 0

    def waken(self) -> None:
        """Tell the owner of the socket, before ``pending`` gets its first octets."""
        if not self.receiving:
            self._adapter.wake()

    def put(self, octets: bytes) -> None:
        """Whole frames, behind all others."""
        if not self.pending:
            self.waken()
        self.pending.append(octets)

    def put_on(self, channel: int, octets: bytes) -> None:
        """Whole frames of a channel, behind the large bodies that it is sending."""
        deferred = self.large.deferred.get(channel)
        if deferred is not None:
            deferred.append(octets)
            return
        if not self.pending:
            self.waken()
        self.pending.append(octets)

    def weigh(self, octets: int) -> None:
        """Count the octets of a message, to pause deliveries once there are many."""
        self._weight += octets
        if self._weight > MOST_OCTETS:
            self._adapter.output_congested()

    def crowd(self) -> None:
        """Pause deliveries: very many pieces wait to be written."""
        self._adapter.output_congested()

    def end_large(self) -> None:
        """Write no more of the large bodies."""
        self.large.end(self._channels)

    @property
    def more(self) -> int:
        """Octets that wait until the socket has taken the present output."""
        return self.large.more

    def take(self) -> list[bytes]:
        """The pieces to write; of large bodies a portion. Raises ``OSError``."""
        pending = self.pending
        if self.large.deferred:
            self.large.move(self._channels)
        if not pending:
            return []
        self._heartbeat.spoke = True
        self._weight = 0
        return take(pending)
