"""One command of 0.8a2, a row of the generated ``wire/tables.py``."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command; its number is the type of its frame (document §3.1.1)."""

    name: str  # "handle.open"
    number: int
    record: type[Any]
    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]
    from_client: bool  # a client may send it
    from_server: bool
    fragment: bool  # octets of a message follow the frame
    section: str
