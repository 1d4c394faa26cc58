"""Pauses between attempts to connect."""

import random


class Pauses:
    """Seconds to wait before the next attempt. They double from ``first`` to ``longest``, each cut
    by up to a half at random so that many do not come at once."""

    def __init__(self, first: float = 0.5, longest: float = 30.0) -> None:
        self._first = self._pause = first
        self._longest = longest

    def reset(self) -> None:
        """An attempt has worked: the next pause is the first again."""
        self._pause = self._first

    def next(self) -> float:
        pause = self._pause
        self._pause = min(self._longest, pause * 2)
        return pause * random.uniform(0.5, 1.0)
