"""The two revisions of July 2007, and how they carry methods."""

from typing import NamedTuple

from gateway.adapters.methods.wire.tables_0_10_07 import VERSIONS as REVISIONS

REQUESTS, METHODS = "0-10-07-24", "0-10-07-27"
"""24 July: every method is a request or a response. 27 July: plain methods."""

HEADERS = (REVISIONS[REQUESTS].header, b"AMQP\x01\x01\x63\x00")
"""That of the final 0-10, with which clients of July 2007 open. The second one named previews of
0-10 until the final one was there; it collides with nothing."""

__all__ = ["HEADERS", "METHODS", "REQUESTS", "REVISIONS", "Carried"]


class Carried(NamedTuple):
    """The numbers of a request or a response."""

    is_response: bool
    identifier: int
    """Of this request or response: per channel and direction, from 1."""
    other: int
    """Request: the highest response that was seen (response mark). Response: the request that it
    answers."""
    batch: int
    """Response: it answers so many requests more, behind the first. Request: reserved, zero."""
