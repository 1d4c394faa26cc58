"""Tokens of requests that a client has made of us and that are still to be answered."""

from typing import NamedTuple


class Opening(NamedTuple):
    """The token of ``Open``: the tag that the client wants confirmed, 0 for none."""

    tag: int


class PendingReply(NamedTuple):
    """The token of any other request: the command, its handle (0: none), the confirm tag (0: none),
    and the consumer that it starts."""

    name: str
    handle: int
    tag: int
    consumer: str = ""
