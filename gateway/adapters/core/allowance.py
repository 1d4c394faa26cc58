"""How many values one message, or one method, may hold: what a peer sends is read in one go, and
what takes an octet on the wire takes a hundred nanoseconds to look at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

MOST_VALUES = 8192
"""Some milliseconds of reading. Values in fewer octets are not counted."""


class Allowance:
    """How many values may still be read. It always counts, and refuses only ``within``: values of
    our own, and of messages taken before, are read in any number."""

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
