"""How many values one message, or one method, may hold: what a peer sends is read in one go, and
what takes an octet on the wire takes a hundred nanoseconds to look at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

MOST_VALUES = 8192
"""Some milliseconds of reading. What has no more octets needs no count."""


class Allowance:
    """How many values may still be read. Counts always, and matters ``within`` alone: what is ours,
    or was taken before, is read whatever it holds."""

    __slots__ = ("left", "_error")

    def __init__(self, error: Callable[[], Exception]) -> None:
        """``error`` is what too many raise."""
        self.left: float = inf
        self._error = error

    def take(self, count: int) -> None:
        """So many more."""
        self.left -= count
        if self.left < 0:
            raise self._error()

    @contextmanager
    def within(self) -> Iterator[None]:
        """Within, ``MOST_VALUES`` are read at most."""
        self.left = MOST_VALUES
        try:
            yield
        finally:
            self.left = inf
