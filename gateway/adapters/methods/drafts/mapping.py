"""The mapping between methods and operations, which each draft fills in for itself.

``v0_9a0`` and ``v0_9a6`` each have one ``MethodMapping``: which operation a method is, which method
an answer is, and the same from the client's side.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.adapters.methods.drafts.content import DraftDialect
from gateway.adapters.methods.drafts.essentials import Known
from gateway.adapters.methods.geometry import Method
from gateway.bodies import Body
from gateway.message import Message
from gateway.operations import Operation, Returned, Token

if TYPE_CHECKING:
    from gateway.adapters.methods.drafts.channel import Channel, Consumer


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


class Spoken(NamedTuple):
    """A record to be sent, and its content."""

    record: Any
    content: Content | None = None


class Said(NamedTuple):
    """A method that a content follows, as the peer has said it. ``dialect`` is that of its class,
    ``arrive`` what it means with its content (``None``: nothing by itself)."""

    method: Method
    record: Any
    dialect: DraftDialect
    arrive: "Arrive | None"


Arrive = Callable[["Channel", Said, int, bool, Known, Body], Any]
"""Channel, method, the delivery's tag and whether it was delivered before, header, body -> an
operation, or what was asked for, or ``None``. Tag and flag of the record do not count: records are
shared by all deliveries that have the same otherwise. Hot."""
Serve = Callable[["Channel", Any, PendingReply], list[Operation]]
"""A method of a client, as operations. May raise ``PeerError`` and write by itself."""
Answer = Callable[["Channel", Any, Any], Spoken]
"""Channel, what was asked, result -> the answer."""
Ask = Callable[["Channel", Any], list[Spoken]]
"""An operation of ours, as methods; the last one is what the peer answers."""
Result = Callable[["Channel", Any, Any], Any]
"""Channel, what was asked, the answer's record -> result of the operation."""


class MethodMapping(NamedTuple):
    """One draft. Tables by names of methods and types of operations."""

    layouts: Any
    serve: dict[str, Serve]
    answer: dict[str, Answer]
    ask: dict[type[Operation], Ask]
    result: dict[str, Result]
    arrive: dict[str, Arrive]
    source: Callable[["Consumer", Message], str]
    """What a delivery to a consumer says of where the message comes from. Hot."""
    delivery: Callable[["Consumer", str, int, bool], Any]
    """Consumer, source, tag, delivered before -> the method. One that no content follows is about a
    file that is staged first."""
    publication: Callable[[str, Message, bool, bool], Any]
    """Likewise: class, message, mandatory, immediate."""
    returned: Callable[["Channel", Any], list[Operation]]
    """A publish came back (``Returned``); what is done about it."""
    second_step: Callable[[Returned], list[Operation]]
    """Where a publish goes that came back, if its first place was not its last."""
    settle: Callable[["Channel", Any], list[Spoken]]
    told: Callable[["Channel", Method, Any], list[Operation] | None]
    """Client: a method of the server that answers nothing; ``None`` if it is not known."""
