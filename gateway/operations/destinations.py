"""Operations on destinations through handles (0.8a2 §3.5).

``link`` is a text that the adapter gives the handle, unique on its connection; a refusal costs that
handle. ``name`` is appended to the name with which the handle was opened.
"""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from gateway.errors import Lost
from gateway.message import Message
from gateway.operations.core import PublishMany, Request
from gateway.operations.links import LinkOperation


class Service(Enum):
    """Kind of a destination."""

    QUEUE = "queue"
    """Each message goes to one reader."""
    TOPIC = "topic"
    """Each message goes to every subscriber."""
    PEER = "peer"
    """Requests go to a serving peer, answers come back to the handle."""


@dataclass(slots=True)
class OpenDestination(LinkOperation):
    """Open a handle for a destination, or for all whose names begin with ``name``. Answered with
    the name of a ``temporary`` destination, otherwise "". ``client`` identifies the owner of its
    durable subscriptions. ``produce``, ``consume`` and ``browse`` are its uses."""

    service: Service
    name: str
    temporary: bool = False
    client: str = ""
    produce: bool = True
    consume: bool = True
    browse: bool = True
    content_type: str = ""
    content_encoding: str = ""


@dataclass(slots=True)
class CloseDestination(LinkOperation):
    """Close a handle and end its consumers; their unsettled deliveries stay with the channel."""


@dataclass(slots=True)
class SendTo(LinkOperation):
    """Send a message. A refusal always carries the token; with ``answered``, success is answered
    too, when it is committed. ``expires``: when the message expires, in milliseconds since 1970.
    Refused with 403, 404 or 406."""

    name: str
    message: Message
    answered: bool = False
    expires: int | None = None


@dataclass(slots=True)
class SendMany(LinkOperation):
    """Send messages in this order, each as ``SendTo`` would that is not answered and without an
    expiry. A refusal is that of the first message that is left, and of all behind it."""

    name: str
    many: PublishMany


@dataclass(slots=True)
class Listen(LinkOperation):
    """Start a consumer, with at most ``window`` unacknowledged messages. A subscription to a topic
    outlives the connection if it has an ``identifier``. Answered with the full name of the
    destination, before the first delivery."""

    tag: str
    name: str
    window: int
    no_local: bool = False
    no_ack: bool = False
    identifier: str = ""
    selector: str = ""
    selector_type: str = ""


@dataclass(slots=True)
class EndSubscription(LinkOperation):
    """Delete a durable subscription. Refused with 403 or 404."""

    name: str
    identifier: str


@dataclass(slots=True)
class PauseHandle(LinkOperation):
    """Pause the deliveries of a handle, or resume them."""

    paused: bool


@dataclass(slots=True)
class Acknowledge(Request):
    """Accept all unsettled deliveries of the channel up to a number, which need not exist. They
    leave their consumers' windows at once, also in a transaction."""

    scope: ClassVar[Lost] = Lost.SESSION
    up_to: int


@dataclass(slots=True)
class GiveBack(LinkOperation):
    """Requeue one delivery. Answered with whether there was one of that number."""

    delivery: int


@dataclass(slots=True)
class Index:
    """Result of ``Query``: message numbers for ``Browse``, ascending. ``more``: the highest number
    examined if there may be matches behind it, otherwise 0."""

    numbers: list[int]
    more: int = 0


@dataclass(slots=True)
class Query(LinkOperation):
    """List the messages of a destination. Answered with ``Index``; ``start`` is the first number to
    list, 0 starts a new listing."""

    name: str
    start: int = 0
    selector: str = ""
    selector_type: str = ""


@dataclass(slots=True)
class Browse(LinkOperation):
    """Browse one message of the last ``Query``. Answered with ``Looked``, or ``None`` if it is
    not in the queue any more."""

    number: int


@dataclass(slots=True)
class Looked:
    """Result of ``Browse``: a message, which stays in its queue."""

    number: int
    name: str
    message: Message


@dataclass(slots=True)
class Prepare(LinkOperation):
    """Announce a large message that is sent in parts: ``message`` has its header and the beginning
    of its body, ``size`` is the length of the body in octets, ``digest`` its SHA-1 in hexadecimal
    or "". Answered with the number of octets received so far, perhaps over an earlier connection.
    Refused with 311 (content too large)."""

    message: Message
    size: int
    digest: str = ""
    expires: int | None = None


@dataclass(slots=True)
class Continue(LinkOperation):
    """The next octets of the announced message. With ``last`` the message is sent to ``name``.
    Answered then with "" if length and digest are right, otherwise with the reason."""

    name: str
    octets: bytes
    last: bool
    answered: bool = False


__all__ = [
    "Acknowledge",
    "Browse",
    "CloseDestination",
    "Continue",
    "EndSubscription",
    "GiveBack",
    "Index",
    "Listen",
    "Looked",
    "OpenDestination",
    "PauseHandle",
    "Prepare",
    "Query",
    "SendMany",
    "SendTo",
    "Service",
]
