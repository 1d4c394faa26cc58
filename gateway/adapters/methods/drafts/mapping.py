"""The mapping between methods and operations, which each draft fills in for itself.

``v0_9a0`` and ``v0_9a6`` each have one ``MethodMapping``: which operation a method is, which method
an answer is, and the same from the client's side.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gateway.adapters.methods.contents.methods import ContentMethod, OutgoingMethod
from gateway.adapters.methods.contents.outline import Known
from gateway.adapters.methods.drafts.channel import Channel, Consumer
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.record import Record
from gateway.bodies import Body
from gateway.message import Message
from gateway.operations import Operation, Returned

ContentHandler = Callable[[Channel, ContentMethod, int, bool, Known, Body], Any]
"""Channel, method, the delivery's tag and whether it was delivered before, header, body -> an
operation, or the result of a request, or ``None``. Tag and flag of the record do not count: records
are shared by all deliveries that have the same otherwise. Hot."""
RequestHandler = Callable[[Channel, Any, PendingReply], list[Operation]]
"""A method of a client, as operations. May raise ``PeerError`` and write by itself."""
ReplyEncoder = Callable[[Channel, Any, Any], Record | OutgoingMethod]
"""Channel, record of the request, result -> the reply."""
RequestEncoder = Callable[[Channel, Any], list[Record]]
"""An operation of ours, as methods; the peer answers the last one."""
ReplyReader = Callable[[Channel, Any, Any], Any]
"""Channel, operation, record of the reply -> result of the operation."""


class MethodMapping(NamedTuple):
    """One draft. Tables by names of methods and types of operations."""

    layouts: Any
    request_handlers: dict[str, RequestHandler]
    reply_encoders: dict[str, ReplyEncoder]
    request_encoders: dict[type[Operation], RequestEncoder]
    reply_readers: dict[str, ReplyReader]
    content_handlers: dict[str, ContentHandler]
    published_message: Callable[[ContentMethod, Known, Body], Message]
    """Server: the message of a publish. Hot."""
    delivery_source: Callable[[Consumer, Message], str]
    """The source that a delivery to a consumer names. Hot."""
    delivery_method: Callable[[Consumer, str, int, bool], Any]
    """Consumer, source, tag, delivered before -> the method. One that no content follows is about a
    file that is staged first."""
    publish_method: Callable[[str, Message, bool, bool], Any]
    """Likewise: class, message, mandatory, immediate."""
    returned: Callable[[Channel, Any], list[Operation]]
    """The second step of a publish that came back (``Returned``)."""
    fallback: Callable[[Returned], list[Operation]]
    """The publish that a returned one leads to, for a message with a second destination."""
    unsolicited: Callable[[Channel, Method, Any], list[Operation] | None]
    """Client: a method of the server that answers nothing; ``None`` if it is not known."""
