"""Tokens of unanswered requests of a client."""

from typing import NamedTuple


class Opening(NamedTuple):
    """The token of ``Open``: the confirm tag, 0 for none."""

    tag: int


class PendingReply(NamedTuple):
    """The token of any other request: the command, its handle (0: none), the confirm tag (0: none),
    and the tag of a consumer that it starts."""

    name: str
    handle: int
    tag: int
    consumer: str = ""
