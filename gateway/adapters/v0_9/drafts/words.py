"""What the two drafts have to say for themselves, and what their common parts ask them.

``first`` (0-9a0) and ``second`` (0-9a6) each fill in one ``Words``: how a method of theirs is an
operation, how an answer is a method, and the same from the client's side.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.adapters.v0_9.geometry import Method
from gateway.bodies import Body
from gateway.message import Message
from gateway.operations import Operation

if TYPE_CHECKING:
    from gateway.adapters.v0_9.drafts.channel import Channel


def group_of(method: Method) -> str:
    """The class of a method."""
    return method.name.partition(".")[0]


class Asked(NamedTuple):
    """The token of a request that came from the peer. ``then``: what to do with the answer instead
    of saying it; more operations may come of it."""

    method: Method
    record: Any
    then: Callable[[Any], list[Operation]] | None = None


class Awaited(NamedTuple):
    """A request of ours that the peer has to answer."""

    method: Method
    operation: Any


class Content(NamedTuple):
    """What follows a record, where content does: class, header and body."""

    number: int
    header: bytes
    body: Body


class Spoken(NamedTuple):
    """A record to be sent, and its content."""

    record: Any
    content: Content | None = None


Serve = Callable[["Channel", Any, Asked], list[Operation]]
"""A method of a client, as operations. May raise ``PeerError`` and write by itself."""
Answer = Callable[["Channel", Any, Any], Spoken]
"""Channel, what was asked, result -> the answer."""
Ask = Callable[["Channel", Any], list[Spoken]]
"""An operation of ours, as methods; the last one is what the peer answers."""
Result = Callable[["Channel", Any, Any], Any]
"""Channel, what was asked, the answer's record -> result of the operation."""


class Words(NamedTuple):
    """One draft. Tables by names of methods and types of operations."""

    layouts: Any
    serve: dict[str, Serve]
    answer: dict[str, Answer]
    ask: dict[type[Operation], Ask]
    result: dict[str, Result]
    received: Callable[["Channel", Method, Any, bytes, bytes], list[Operation]]
    """Content is complete: header and body."""
    deliver: Callable[["Channel", str, int, bool, Message], list[Spoken]]
    publish: Callable[["Channel", Message, bool, bool], list[Spoken]]
    returned: Callable[["Channel", Any], list[Operation]]
    """A publish came back (``Returned``); what is done about it."""
    settle: Callable[["Channel", Any], list[Spoken]]
    told: Callable[["Channel", Method, Any], list[Operation] | None]
    """Client: a method of the server that answers nothing; ``None`` if it is not known."""
