"""Streams over peers (document §3.5.3.1): octets without message boundaries.

The broker carries messages, so each fragment becomes one, with the stream's header and two more
fields: the stream and the part's number. A peer's handle that is alone on its channel gets them
back as a stream; all other receivers get the messages.
"""

import secrets
from dataclasses import dataclass, field

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import COMMAND, SIZE_OCTETS, read_header
from gateway.adapters.commands.wire.layouts import write_message_properties
from gateway.message import Message
from gateway.values import Int

STREAM, PART, END = "X_STREAM", "X_STREAM_PART", "X_STREAM_END"
MARK = STREAM.encode()


@dataclass(slots=True, eq=False)
class Stream:
    """A stream from a client. ``name``: its destination."""

    header: bytes
    number: str = field(default_factory=lambda: secrets.token_hex(8))
    part: int = 0
    name: str = ""

    def next(self, end: bool = False) -> bytes:
        """The header of the next part. Raises ``ValueError`` if the fields have no room."""
        record = read_header(self.header)
        marks: dict[str, object] = {STREAM: self.number, PART: Int(self.part)}
        if end:
            marks[END] = Int(1)
        table = fields.write_table(marks) + record.headers
        if len(table) > fields.MOST_OCTETS:
            raise fields.FieldError("the header has too many fields for a stream")
        record.headers = table
        self.part = (self.part + 1) & fields.MOST
        return write_message_properties(record)[SIZE_OCTETS:]


class StreamPart:
    """The stream fields of a message; ``number`` is "" if it is not part of a stream."""

    __slots__ = ("number", "part", "end")

    def __init__(self, message: Message) -> None:
        self.number, self.part, self.end = "", 0, False
        if message.dialect.name != COMMAND.name or MARK not in message.header:
            return
        table = fields.read_table(read_header(message.header).headers)
        number, part = table.get(STREAM), table.get(PART)
        if isinstance(number, str) and isinstance(part, int):
            self.number, self.part, self.end = number, part, END in table


def without_marks(header: bytes) -> bytes:
    """The original header of the stream."""
    record = read_header(header)
    pieces = [
        record.headers[start - 2 - len(name.encode("utf-8", "surrogateescape")) : end]
        for name, _, start, end in fields.entries_of(record.headers)
        if name not in (STREAM, PART, END)
    ]
    record.headers = b"".join(pieces)
    return write_message_properties(record)[SIZE_OCTETS:]
