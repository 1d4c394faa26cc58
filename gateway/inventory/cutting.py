"""Octets of one direction, cut into frames without keeping those nobody looks at: of a frame of a
gigabyte the beginning is enough to count it."""

from abc import ABC, abstractmethod
from typing import NamedTuple

LARGEST = 64 << 10
"""Octets of one frame that are kept and decoded at most."""


class Undecodable(Exception):
    """The octets break the rules of the version."""


class Cut(NamedTuple):
    """A frame: its octets, and how many of them are wanted to describe it."""

    size: int
    wanted: int


class Frames(ABC):
    """Frames of one direction. A version's decoder overrides ``cut`` and ``take``."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._need = 0
        """Octets with which something can be done."""
        self._skip = 0
        """Octets of the last frame that are still to come and not looked at."""

    @property
    def held(self) -> int:
        """Octets of an unfinished frame."""
        return len(self._held)

    @abstractmethod
    def cut(self, buf: bytes, at: int) -> Cut | None:
        """The frame at ``at``; ``None`` if more octets are needed to tell. Raises
        ``Undecodable``."""

    @abstractmethod
    def take(self, buf: bytes, at: int, frame: Cut) -> None:
        """Describe a frame, of which the wanted octets are there. Raises ``Undecodable``,
        ``ValueError``, ``struct.error`` or ``IndexError`` for what cannot be read."""

    def feed(self, data: bytes) -> None:
        """Describe all frames of which enough is there. Raises as ``cut`` and ``take`` do."""
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
            if not data:
                return
        if self._held:
            self._held += data
            if len(self._held) < self._need:
                return
            data = bytes(self._held)
        at, end = 0, len(data)
        self._need = 0
        while at < end:
            frame = self.cut(data, at)
            if frame is None:
                self._need = end - at + 1
                break
            if at + frame.wanted > end:
                self._need = frame.wanted
                break
            self.take(data, at, frame)
            at += frame.size
        self._skip = max(0, at - end)
        self._held = bytearray(data[at:])
