"""Bounds the number of values in one message or method: they are read at once, and a value of one
octet takes a hundred nanoseconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

MOST_VALUES = 8192
"""Reading them takes some milliseconds. Values in fewer octets are not counted."""


class Allowance:
    """Counts the values that may still be read. The bound applies only ``within``: our own values,
    and those of messages accepted before, are not bounded."""

    __slots__ = ("left", "_error")

    def __init__(self, error: Callable[[], Exception]) -> None:
        """``error`` makes the exception for too many values."""
        self.left: float = inf
        self._error = error

    def take(self, count: int) -> None:
        """Count values that are about to be read."""
        self.left -= count
        if self.left < 0:
            raise self._error()

    @contextmanager
    def within(self) -> Iterator[None]:
        """In this block at most ``MOST_VALUES`` may be read."""
        self.left = MOST_VALUES
        try:
            yield
        finally:
            self.left = inf
