"""Requests that wait for their replies, from either side."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.adapters.methods.geometry import Method
from gateway.operations import Operation, Token


class PendingReply(NamedTuple):
    """The token of a request from the peer. In the drafts replies depend on the request's
    ``record``, and ``then`` takes the result where a reply is not sent at once: it returns the
    operations that follow."""

    method: Method
    record: Any = None
    then: Callable[[Any], list[Operation]] | None = None


class Awaited(NamedTuple):
    """A request of ours that the peer has to answer."""

    method: Method
    operation: Any

    @property
    def token(self) -> Token:
        token: Token = self.operation.token
        return token


NOTHING_AWAITED: deque[Awaited] = deque(maxlen=0)
"""Of channels that have made no request: an empty deque of their own takes 700 octets."""
