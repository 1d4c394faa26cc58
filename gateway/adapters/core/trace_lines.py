"""Lines of a readable trace, as the readers of all families write them."""

from typing import NamedTuple

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
