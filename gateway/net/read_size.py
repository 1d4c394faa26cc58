"""How much is read from a socket at once.

The octets of one read are performed together, and their output is written behind them. A read of
many small messages takes milliseconds: meanwhile receivers wait for the first of them, run out of
credit, and their messages have to be queued. A large body is copied once more if a read ends in
it. So the size of the reads of a connection follows the time that they take.
"""

LARGEST = 1 << 20
SMALLEST = 32 << 10
FIRST = 128 << 10

SHORT_SECONDS = 0.0012
"""A full read that takes less is followed by one of twice the size."""
LONG_SECONDS = 0.004
"""Two in turn that take more are followed by one of half the size: one may have had to wait for the
processor."""

_ROOM = memoryview(bytearray(LARGEST))
"""All connections read into these octets (one thread): a read is copied before anything else
is read."""


class ReadSize:
    """The size of the reads of one connection. ``room``: where the next one goes."""

    __slots__ = ("room", "octets", "_long")

    def __init__(self) -> None:
        self._long = False
        """The read before took long."""
        self._set(FIRST)

    def _set(self, octets: int) -> None:
        self.octets = octets
        self.room = _ROOM[:octets]

    def adapt(self, seconds: float) -> None:
        """A read that had as many octets as it could took so long to be performed."""
        if seconds <= LONG_SECONDS:
            self._long = False
            if seconds < SHORT_SECONDS and self.octets < LARGEST:
                self._set(self.octets * 2)
        elif not self._long:
            self._long = True
        elif self.octets > SMALLEST:
            self._long = False
            self._set(self.octets // 2)
