"""The mapping between methods and operations, which each draft fills in for itself.

``v0_9a0`` and ``v0_9a6`` each have one ``MethodMapping``: which operation a method is, which method
an answer is, and the same from the client's side.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.adapters.methods.drafts.channel import Channel, Consumer
from gateway.adapters.methods.drafts.essentials import Known
from gateway.adapters.methods.drafts.methods import ContentMethod, OutgoingMethod
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.pending import PendingReply
from gateway.bodies import Body
from gateway.message import Message
from gateway.operations import Operation, Returned

Arrive = Callable[[Channel, ContentMethod, int, bool, Known, Body], Any]
"""Channel, method, the delivery's tag and whether it was delivered before, header, body -> an
operation, or what was asked for, or ``None``. Tag and flag of the record do not count: records are
shared by all deliveries that have the same otherwise. Hot."""
Serve = Callable[[Channel, Any, PendingReply], list[Operation]]
"""A method of a client, as operations. May raise ``PeerError`` and write by itself."""
Answer = Callable[[Channel, Any, Any], OutgoingMethod]
"""Channel, what was asked, result -> the answer."""
Ask = Callable[[Channel, Any], list[OutgoingMethod]]
"""An operation of ours, as methods; the last one is what the peer answers."""
Result = Callable[[Channel, Any, Any], Any]
"""Channel, what was asked, the answer's record -> result of the operation."""


class MethodMapping(NamedTuple):
    """One draft. Tables by names of methods and types of operations."""

    layouts: Any
    serve: dict[str, Serve]
    answer: dict[str, Answer]
    ask: dict[type[Operation], Ask]
    result: dict[str, Result]
    arrive: dict[str, Arrive]
    source: Callable[[Consumer, Message], str]
    """What a delivery to a consumer says of where the message comes from. Hot."""
    delivery: Callable[[Consumer, str, int, bool], Any]
    """Consumer, source, tag, delivered before -> the method. One that no content follows is about a
    file that is staged first."""
    publication: Callable[[str, Message, bool, bool], Any]
    """Likewise: class, message, mandatory, immediate."""
    returned: Callable[[Channel, Any], list[Operation]]
    """The second step of a publish that came back (``Returned``)."""
    second_step: Callable[[Returned], list[Operation]]
    """The publish that a returned one leads to, for a message with a second destination."""
    settle: Callable[[Channel, Any], list[OutgoingMethod]]
    unsolicited: Callable[[Channel, Method, Any], list[Operation] | None]
    """Client: a method of the server that answers nothing; ``None`` if it is not known."""
