"""Lines of a readable trace, as the readers of all families write them, and the octets of a peer in
lines that people read."""

from collections.abc import Callable, Container, Iterator
from typing import Any, NamedTuple, Protocol

from gateway.adapters.record import Record

HEADER_OCTETS = 8
"""Length of a protocol header; that of 0.8a2 has two octets."""


class Line(NamedTuple):
    """One frame. ``offset`` and ``size`` are octets from the beginning; ``kind`` is "protocol
    header", "method", "header", "body", "heartbeat", "meta", "unknown" for a method that does not
    exist, "broken", or "cut" for a last frame of which more is to come."""

    offset: int
    size: int
    channel: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.offset:8d}  {self.channel:5d}  {self.kind:<15}  {self.text}"


class Reader(Protocol):
    """Describes one direction of a connection. Every family has one, by this name, in its module
    ``trace``, made with the name of a version."""

    def frames(self, data: bytes) -> Iterator[Line]:
        """Describe everything in ``data``, which begins with a protocol header or a frame."""
        ...


def header_line(data: bytes, at: int) -> Line | None:
    """The line of a protocol header of eight octets, if one begins there."""
    left = len(data) - at
    if data[at : at + 4] != b"AMQP"[:left]:
        return None
    if left < HEADER_OCTETS:
        return Line(at, left, 0, "cut", "the last protocol header is cut")
    numerals = ".".join(map(str, data[at + 4 : at + HEADER_OCTETS]))
    return Line(at, HEADER_OCTETS, 0, "protocol header", f"AMQP {numerals}")


def given_fields(
    record: Record, secrets: Container[str], text_of: Callable[[str, Any], str]
) -> str:
    """The fields that differ from their defaults. Secrets are counted, not shown."""
    return " ".join(
        f"{name}=<{len(value)} octets>" if name in secrets else f"{name}={text_of(name, value)}"
        for name, default in record.defaults().items()
        if (value := getattr(record, name)) is not None and value != default
    )


PREVIEW = 48
"""Octets that are shown."""


def preview(octets: bytes) -> str:
    """The beginning of some octets, as text if it is text."""
    shown = octets[:PREVIEW]
    more = "..." if len(octets) > PREVIEW else ""
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        return shown.hex(" ") + more
    return repr(text) + more if text.isprintable() or not text else shown.hex(" ") + more
