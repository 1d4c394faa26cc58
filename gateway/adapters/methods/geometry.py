"""The parts of a version of the class-and-method family: the geometry of its frames and its tables.

The data stand in the generated ``wire/tables.py``; the drafts of 2005, 0-8, 0-9 and 0-9-1 differ in
the frame itself, so the frame loop takes its numbers from a ``Geometry`` and tests no version.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from gateway.adapters.record import Record
from gateway.errors import LocalError


class Geometry(NamedTuple):
    """The shape of a frame."""

    head: Struct  # the frame header, all its fields in wire order
    order: tuple[int, int, int]  # where type, channel and size stand among the fields of ``head``
    tail: bytes  # the octets that close a frame, b"" if none do
    size_counts_tail: bool
    method: Struct  # before the arguments: class and method numbers first
    content: Struct  # class, weight and body size; the property flags follow
    longstr: int  # octets that hold the length of a long string
    heartbeat: bytes  # a complete heartbeat frame
    meta: bool  # large frames are announced by another frame (first draft of 2005)


class Method(NamedTuple):
    """A method as one version has it."""

    name: str  # "queue.declare"
    number: int  # class << 16 | method
    prefix: bytes  # the two numbers as they stand on the wire
    record: type[Any]
    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]
    from_client: bool  # a client may send it
    from_server: bool
    replies: tuple[str, ...]  # methods that answer it; none if it is asynchronous
    content: bool  # a content header and body follow
    extension: str  # its author, "" if the specification has it
    section: str
    extended: "Extended | None" = None

    @property
    def implemented(self) -> bool:
        """Whether it is more than a name to us. The others are answered with not-implemented."""
        return self.record is not Unread

    def encode(self, record: Any) -> bytes:
        """The arguments of a record, with a trailing field if it has a value."""
        extended = self.extended
        if extended is not None and getattr(record, extended.field):
            return extended.write(record)
        return self.write(record)


class Extended(NamedTuple):
    """The layout of a method with a last field that senders may leave out."""

    field: str  # its name in the record
    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]


class Unread(Record):
    """Arguments of a method that is not implemented, which are not read."""

    __slots__ = ()

    NAME = ""


class Content(NamedTuple):
    """The property list of a content class; reader and writer begin at the property flags."""

    name: str
    number: int
    record: type[Any]
    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]


class Version(NamedTuple):
    """Everything the adapter must know about one version."""

    name: str
    header: bytes  # the octets a client opens with
    major: int  # as connection.start says it
    minor: int
    revision: int
    geometry: Geometry
    methods: dict[int, Method]
    by_name: dict[str, Method]
    by_record: dict[type[Any], Method]
    contents: dict[int, Content]
    constants: dict[str, int]
    codes: dict[str, tuple[int, str, bool]]  # condition -> code, text, whether the connection dies


def version(
    name: str,
    header: bytes,
    numbers: tuple[int, int, int],
    geometry: Geometry,
    methods: tuple[Method, ...],
    contents: tuple[Content, ...],
    constants: dict[str, int],
    codes: dict[str, tuple[int, str, bool]],
) -> Version:
    """A version from its rows, with an index for every way in which a row is looked up."""
    return Version(
        name,
        header,
        *numbers,
        geometry=geometry,
        methods={method.number: method for method in methods},
        by_name={method.name: method for method in methods},
        by_record={method.record: method for method in methods if method.implemented},
        contents={content.number: content for content in contents},
        constants=constants,
        codes=codes,
    )


def unimplemented(
    name: str,
    number: int,
    from_client: bool,
    from_server: bool,
    *,
    replies: tuple[str, ...] = (),
    content: bool = False,
    extension: str = "",
) -> Method:
    """The row of a method that is answered with not-implemented. ``unimplemented.complete`` knows
    its arguments."""
    return Method(
        name,
        number,
        number.to_bytes(4, "big"),
        Unread,
        _unread,
        _unwritten,
        from_client,
        from_server,
        replies,
        content,
        extension,
        "",
    )


def _unread(buf: bytes, at: int) -> tuple[Any, int]:
    raise LocalError("the arguments of a method that is not implemented are not read")


def _unwritten(record: Any) -> bytes:
    raise LocalError("the arguments of a method that is not implemented are not written")
