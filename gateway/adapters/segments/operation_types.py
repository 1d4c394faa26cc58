"""Entries of the generated tables for operations and structs."""

from collections.abc import Callable
from typing import Any, NamedTuple

Read = Callable[[bytes, int], tuple[Any, int]]
"""Octets and the offset of the presence flags -> record, where it stopped."""


class OperationType(NamedTuple):
    """A control or a command. ``header``: codes of the structs that may stand in the header segment
    of its content. ``result``: code of the struct that completes it, 0 if none does."""

    name: str
    code: int
    control: bool
    record: type[Any]
    read: Read
    write: Callable[[Any], bytes]
    from_client: bool
    from_server: bool
    replies: tuple[str, ...]
    content: bool
    header: tuple[int, ...]
    result: int


class StructType(NamedTuple):
    """A struct that has a code: one of a header segment, a result, or a xid."""

    name: str
    code: int
    record: type[Any]
    read: Read
    write: Callable[[Any], bytes]
