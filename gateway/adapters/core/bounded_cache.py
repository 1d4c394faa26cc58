"""What was read once is kept by its octets, within bounds: most peers repeat themselves."""

from collections.abc import Hashable
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRIES = 8192
"""Entries before one is emptied."""
LONGEST = 512
"""Octets of a key that is kept, so that all of it is a few megabytes at most."""
TEXT = frozenset({bytes, str})


class BoundedCache(dict[K, V]):
    """Meanings by octets, or by something that holds them. What is bad is not kept, so that it is
    refused each time. Looked up with ``get``."""

    __slots__ = ("entries",)

    def __init__(self, entries: int = ENTRIES) -> None:
        super().__init__()
        self.entries = entries

    def keep(self, key: K, meaning: V) -> V:
        """Keep it, unless the key is long."""
        if len(self) >= self.entries:
            self.clear()
        if (len(key) if key.__class__ is bytes else length(key)) <= LONGEST:  # type: ignore[arg-type]
            self[key] = meaning
        return meaning


def length(key: Any) -> int:
    """Octets or characters of a key; of a tuple, those of its parts."""
    if key.__class__ is tuple:
        octets = 0
        for part in key:  # three times as fast as ``sum`` of a generator
            octets += len(part) if part.__class__ in TEXT else length(part)
        return octets
    return len(key) if isinstance(key, (bytes, str)) else 1
