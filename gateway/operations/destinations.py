"""What is said by versions whose clients work on destinations through handles (0.8a2, §3.5).

A handle is named by the text its adapter gives it (``link``, unique on its connection); a refusal
costs that handle. The performer knows of each handle what it was opened for, so later words bring
only what refines its name.
"""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from gateway.errors import Lost
from gateway.message import Message
from gateway.operations.core import Request
from gateway.operations.links import LinkOperation


class Service(Enum):
    """What a destination is."""

    QUEUE = "queue"
    """Each message goes to one reader."""
    TOPIC = "topic"
    """Each message goes to everybody who has subscribed."""
    PEER = "peer"
    """Requests go to whoever serves them, answers come back to the handle."""


@dataclass(slots=True)
class OpenDestination(LinkOperation):
    """Work with a destination, or with all whose names begin with ``name``. Answered with the name
    of a ``temporary`` one, else "". ``client`` is the name that its subscriptions go by.
    ``produce``, ``consume``, ``browse``: what it is to be used for."""

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
    """Its consumers end; what they hold unsettled stays with the channel."""


@dataclass(slots=True)
class SendTo(LinkOperation):
    """A message. The token is there for a refusal; ``answered``: it is wanted when it is safe.
    ``expires``: wall clock milliseconds from which nobody needs it."""

    name: str
    message: Message
    answered: bool = False
    expires: int | None = None


@dataclass(slots=True)
class Listen(LinkOperation):
    """Deliver from a destination, ``window`` messages ahead of their acknowledgement, as consumer
    ``tag``. A topic's subscription outlives the connection if it has an ``identifier``. Answered
    with the full name before the first delivery."""

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
    """A durable subscription is over for good."""

    name: str
    identifier: str


@dataclass(slots=True)
class PauseHandle(LinkOperation):
    """Nothing is delivered through this handle until it is told otherwise."""

    paused: bool


@dataclass(slots=True)
class Acknowledge(Request):
    """Accept all that is unsettled on the channel up to a number, which need not exist. Places in
    windows are free at once, also if it waits for a commit."""

    scope: ClassVar[Lost] = Lost.SESSION
    up_to: int


@dataclass(slots=True)
class GiveBack(LinkOperation):
    """One delivery goes back to its queue. Answered with whether there was one of that number."""

    delivery: int


@dataclass(slots=True)
class Index:
    """Result of ``Query``: numbers that ``Browse`` takes, ascending. ``more``: the highest number
    looked at, if there may be further ones behind it, else 0."""

    numbers: list[int]
    more: int = 0


@dataclass(slots=True)
class Query(LinkOperation):
    """What stands in a destination. Answered with ``Index``; ``start`` is the first number wanted,
    0 begins anew."""

    name: str
    start: int = 0
    selector: str = ""
    selector_type: str = ""


@dataclass(slots=True)
class Browse(LinkOperation):
    """Look at one message of the last ``Query``. Answered with ``Looked``, or ``None`` if it is
    gone."""

    number: int


@dataclass(slots=True)
class Looked:
    """Result of ``Browse``: a message left where it is."""

    number: int
    name: str
    message: Message


@dataclass(slots=True)
class Prepare(LinkOperation):
    """A large message will be sent in parts: ``message`` has its header and the beginning of its
    body, ``size`` is the whole of it, ``digest`` its SHA-1 in hexadecimal or "". Answered with how
    many octets of the body are here, which may be from an earlier connection."""

    message: Message
    size: int
    digest: str = ""
    expires: int | None = None


@dataclass(slots=True)
class Continue(LinkOperation):
    """The next octets of what was prepared. With ``last`` the message is sent to ``name``, and
    that is answered: "" if it is complete and what its digest says, else why not."""

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
    "SendTo",
    "Service",
]
