"""Methods with their contents, and requests with their replies, as the parts of a draft pass them.

What they mean is in ``mapping``; here they are only carried.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.adapters.methods.drafts.content import DraftDialect
from gateway.adapters.methods.geometry import Method
from gateway.bodies import Body
from gateway.operations import Operation, Token


def group_of(method: Method) -> str:
    """The class of a method."""
    return method.name.partition(".")[0]


class PendingReply(NamedTuple):
    """The token of a request that came from the peer. ``then``: what to do with the answer instead
    of saying it; more operations may come of it."""

    method: Method
    record: Any
    then: Callable[[Any], list[Operation]] | None = None


class Awaited(NamedTuple):
    """A request of ours that the peer has to answer."""

    method: Method
    operation: Any

    @property
    def token(self) -> Token:
        token: Token = self.operation.token
        return token


class Content(NamedTuple):
    """What follows a record, where content does: class, header and body."""

    number: int
    header: bytes
    body: Body


class OutgoingMethod(NamedTuple):
    """A record to be sent, and its content."""

    record: Any
    content: Content | None = None


class ContentMethod(NamedTuple):
    """A method that a content follows, as the peer has said it. ``dialect`` is that of its class,
    ``arrive`` what it means with its content (``None``: nothing by itself)."""

    method: Method
    record: Any
    dialect: DraftDialect
    arrive: Callable[..., Any] | None
