"""A bounded cache of decoded octets: most peers repeat themselves."""

from collections.abc import Hashable
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRIES = 8192
"""Entries at which a cache is emptied."""
LONGEST = 512
"""Most octets of a key, so that a cache has a few megabytes at most."""
TEXT = frozenset({bytes, str})


class BoundedCache(dict[K, V]):
    """Decoded values by octets, or by tuples with octets. Invalid octets are not kept, so that they
    are refused each time. Looked up with ``get``."""

    __slots__ = ("entries",)

    def __init__(self, entries: int = ENTRIES) -> None:
        super().__init__()
        self.entries = entries

    def keep(self, key: K, value: V) -> V:
        """Keep a value, unless its key is long; returns it."""
        if len(self) >= self.entries:
            self.clear()
        if (len(key) if key.__class__ is bytes else length(key)) <= LONGEST:  # type: ignore[arg-type]
            self[key] = value
        return value


def length(key: Any) -> int:
    """Octets or characters of a key; of a tuple, those of its parts."""
    if key.__class__ is tuple:
        octets = 0
        for part in key:  # three times as fast as ``sum`` of a generator
            octets += len(part) if part.__class__ in TEXT else length(part)
        return octets
    return len(key) if isinstance(key, (bytes, str)) else 1
