"""An entry of the generated tables for a composite type."""

from collections.abc import Callable
from typing import Any, NamedTuple


class CompositeType(NamedTuple):
    """A composite type: both descriptors, its record and its layout."""

    name: str
    code: int
    symbol: str
    record: type[Any]
    read: Callable[..., tuple[Any, int]]
    write: Callable[[Any], bytes]
    provides: frozenset[str]
    section: str
