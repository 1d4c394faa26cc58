"""What is said of links: sources and targets, credit, outcomes and transactions (1.0 parts 2 to 4).

A link is named by the number its adapter gives it (``link``, a text, unique on its channel), which
is also the consumer's tag in ``Deliver``. Whatever is refused of a link costs that link, not its
channel: ``Refused`` comes with ``Lost.LINK``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gateway.errors import Lost
from gateway.message import Message, Table
from gateway.operations.core import Operation, Outcome, Request


@dataclass(slots=True)
class Terminus:
    """One end of a link, as asked for or as granted (§3.5.3, §3.5.4).

    ``durable``: 0 nothing, 1 the terminus, 2 its unsettled deliveries too are kept. ``expiry``
    says when the terminus begins to expire, ``timeout`` (seconds) how long that takes. ``filters``
    are by name, each (descriptor, value). ``properties`` are those of a dynamic node.
    """

    address: str | None = None
    durable: int = 0
    expiry: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    properties: Table = field(default_factory=dict)
    copy: bool = False
    """Distribution mode "copy": look, and take nothing."""
    default: Any = None
    """Of a source: the outcome of deliveries that have none when it is destroyed (§3.5.3), an
    ``Outcome`` or a ``Modify``; ``None`` is release."""
    filters: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()


@dataclass(slots=True)
class Resumed:
    """A delivery that outlived its link: ``tag`` as it was sent, ``delivery`` its new number on
    the channel (0: it was settled before, and only the peer does not know), ``outcome`` what we
    know of it, ``message`` to send it again."""

    tag: bytes
    delivery: int
    outcome: Any
    message: Message | None


@dataclass(slots=True)
class Attached:
    """Result of ``AttachSource`` and ``AttachTarget``: what is really in place.

    For a target, ``exchange`` and ``key`` are where its messages go. ``exchange`` is ``None``
    where that depends on the message: then ``place`` tells from its ``to`` and ``subject`` and
    whether it is durable; it raises ``Refusal`` for what is not there. ``mandatory``: a message
    that no queue takes comes back; on a topic that is nothing unusual. ``node`` is "" or
    "management".
    ``transient``: what is sent there does not outlive the broker, so that durable messages are not
    accepted (§3.2.1). ``resumed`` is what is unsettled from before, in order of first sending.
    """

    terminus: Terminus
    exchange: str | None = None
    key: str = ""
    place: Callable[[str | None, str | None, bool], tuple[str, str]] | None = None
    node: str = ""
    mandatory: bool = True
    transient: bool = False
    resumed: list[Resumed] = field(default_factory=list)


@dataclass(slots=True)
class LinkOperation(Request):
    """Of one link."""

    scope: ClassVar[Lost] = Lost.LINK
    link: str


@dataclass(slots=True)
class AttachSource(LinkOperation):
    """The peer wants to receive over this link. Answered with ``Attached``; nothing is delivered
    before there is ``Credit``.

    ``name`` and ``container`` identify the link over connections. ``settled``: what is sent is
    settled. ``unsettled``: the peer's tags and what it knows of each (an outcome or ``None``), if
    it resumes; ``None`` for a new link.
    """

    name: str
    container: str
    terminus: Terminus
    settled: bool = False
    unsettled: dict[bytes, Any] | None = None


@dataclass(slots=True)
class AttachTarget(LinkOperation):
    """The peer wants to send over this link. Answered with ``Attached``. ``terminus.address`` is
    ``None`` for the anonymous terminus. ``unsettled`` as in ``AttachSource``; ``resumed`` then
    has the outcomes that we know of those tags."""

    name: str
    container: str
    terminus: Terminus
    unsettled: dict[bytes, Any] | None = None


@dataclass(slots=True)
class DetachLink(LinkOperation):
    """The link is over: for good (``closed``), or to be resumed. ``lost``: because its connection
    or session is. ``unsettled`` has the tag of each delivery that is unsettled on it: for a source
    by delivery number; for a target, in ``outcomes``, by tag what we told the peer. ``failed``:
    because of an error, the peer's or ours, and not because the peer has no more use for it.

    Closing the link of a durable subscription ends the subscription. That is refused, and only the
    link is over, with 405 while others receive from it and with 403 where the user may not delete
    it."""

    closed: bool = False
    lost: bool = False
    unsettled: dict[int, bytes] = field(default_factory=dict)
    outcomes: dict[bytes, Any] = field(default_factory=dict)
    failed: bool = False


@dataclass(slots=True)
class Modify(Operation):
    """Outcome "modified" of one delivery (§3.4.5): it goes back. ``elsewhere``: not to be delivered
    over this link again (``Outcome.DECLINE``). ``failed`` counts as a delivery that failed;
    ``annotations`` are merged into those of the message."""

    channel: int
    delivery: int
    failed: bool
    elsewhere: bool
    annotations: Table | None = None


@dataclass(slots=True)
class Assure(Request):
    """Answered when all that was done before on the channel is safe."""


@dataclass(slots=True)
class Unsent(Operation):
    """A delivery that cannot be sent to this peer: it has no form in the peer's version, or is
    larger than the peer takes. It was not sent, and stays for others. ``consumer`` is empty if it
    was fetched; then ``queue`` is that of the ``Fetched``."""

    channel: int
    consumer: str
    delivery: int
    message: Message
    queue: str = ""


@dataclass(slots=True)
class DeclareTransaction(LinkOperation):
    """Answered with the transaction's id (octets). It ends with its link, rolled back."""


@dataclass(slots=True)
class Discharge(LinkOperation):
    """Commit, or with ``fail`` roll back. Answered when it is safe."""

    transaction: bytes
    fail: bool


@dataclass(slots=True)
class Post(LinkOperation):
    """A message within a transaction. Answered at once with whether it could be routed now."""

    transaction: bytes
    message: Message


@dataclass(slots=True)
class Retire(Operation):
    """An outcome within a transaction (§4.4.2). ``settled``: the peer has forgotten the delivery,
    so that after a rollback it goes back to its queue instead of staying with the link.
    ``outcome`` is an ``Outcome``, or a ``Modify`` for what that has no word for."""

    channel: int
    transaction: bytes
    delivery: int
    outcome: Outcome | Modify
    settled: bool


@dataclass(slots=True)
class SettleMany(Operation):
    """The outcome of many deliveries, said at once. They are settled as by ``Settle`` or ``Modify``
    each, whose ``elsewhere`` is not possible here."""

    channel: int
    deliveries: list[int]
    outcome: Outcome | Modify


@dataclass(slots=True)
class RetireMany(Operation):
    """Likewise within a transaction, as by ``Retire``."""

    channel: int
    transaction: bytes
    deliveries: list[int]
    outcome: Outcome | Modify
    settled: bool


@dataclass(slots=True)
class Manage(LinkOperation):
    """A request to the management node, sent over ``link``. The answer is a message that comes as
    ``Deliver`` with delivery number 0 on the link that the request's ``reply-to`` means; ``Done``
    says that it was taken."""

    message: Message


@dataclass(slots=True)
class Stolen(Operation):
    """Another connection has attached a link of the same name (§2.6.1): detach this one. To an
    adapter, which says ``DetachLink`` for it at once (``Adapter.found``)."""

    channel: int
    link: str
