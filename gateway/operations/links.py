"""Operations on links: sources and targets, credit, outcomes and transactions (1.0 parts 2 to 4).

``link`` is a text that the adapter gives the link, unique on its channel; it is also the consumer's
tag in ``Deliver``. A refused operation costs its link, not its channel: ``Refused`` comes with
``Lost.LINK``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gateway.errors import Lost
from gateway.message import Message, Table
from gateway.operations.core import Operation, Outcome, Request


@dataclass(slots=True)
class Terminus:
    """One end of a link, as requested or as granted (§3.5.3, §3.5.4).

    ``durable``: 0 keeps nothing, 1 the terminus, 2 its unsettled deliveries too. ``expiry`` names
    the event after which the terminus begins to expire, ``timeout`` is the time that this takes, in
    seconds. ``filters`` are by name, each (descriptor, value). ``properties`` are those of a
    dynamic node.
    """

    address: str | None = None
    durable: int = 0
    expiry: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    properties: Table = field(default_factory=dict)
    copy: bool = False
    """Distribution mode "copy": browse."""
    default: Any = None
    """Default outcome of a source (§3.5.3): of deliveries without one when it is destroyed. An
    ``Outcome`` or a ``Modify``; ``None`` is release."""
    filters: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()


@dataclass(slots=True)
class Resumed:
    """A delivery of a resumed link: ``tag`` is its delivery tag, ``delivery`` its new number on the
    channel (0 if we have settled it, and the peer does not know), ``outcome`` our state of it,
    ``message`` the message to be sent again."""

    tag: bytes
    delivery: int
    outcome: Any
    message: Message | None


@dataclass(slots=True)
class Attached:
    """Result of ``AttachSource`` and ``AttachTarget``: the terminus that is granted.

    Messages to a target are published to ``exchange`` with ``key``. ``exchange`` is ``None`` for
    the anonymous terminus: then ``place`` returns exchange and key for a message's ``to`` and
    ``subject``, and whether it is durable; it raises ``Refusal`` if there is no such node.
    ``mandatory``: unroutable messages are returned, except on topics. ``node`` is "" or
    "management". ``transient``: the target does not outlive the broker, so that durable messages
    are not accepted (§3.2.1). ``forwarded``: messages are confirmed by another broker.
    ``resumed``: unsettled deliveries of a resumed link, in the order of their first sending.
    """

    terminus: Terminus
    exchange: str | None = None
    key: str = ""
    place: Callable[[str | None, str | None, bool], tuple[str, str]] | None = None
    node: str = ""
    mandatory: bool = True
    transient: bool = False
    forwarded: bool = False
    resumed: list[Resumed] = field(default_factory=list)


@dataclass(slots=True)
class LinkOperation(Request):
    """A request on one link."""

    scope: ClassVar[Lost] = Lost.LINK
    link: str


@dataclass(slots=True)
class AttachSource(LinkOperation):
    """Attach a link over which the peer receives. Answered with ``Attached``; deliveries begin with
    ``Credit``. Refused with 403, 404, 405, 406, or 506 if the user has too many suspended links.

    ``name`` and ``container`` identify the link across connections. ``settled``: deliveries are
    settled when sent. ``unsettled``: the peer's unsettled map of a resumed link, delivery tags with
    an outcome or ``None``; ``None`` for a new link.
    """

    name: str
    container: str
    terminus: Terminus
    settled: bool = False
    unsettled: dict[bytes, Any] | None = None


@dataclass(slots=True)
class AttachTarget(LinkOperation):
    """Attach a link over which the peer sends. Answered with ``Attached``, refused as
    ``AttachSource`` is. ``terminus.address`` is ``None`` for the anonymous terminus. ``unsettled``
    as in ``AttachSource``; ``Attached.resumed`` has our outcomes of those tags."""

    name: str
    container: str
    terminus: Terminus
    unsettled: dict[bytes, Any] | None = None


@dataclass(slots=True)
class DetachLink(LinkOperation):
    """Close a link (``closed``), or suspend it to be resumed. ``lost``: because its connection or
    session has ended. ``failed``: because of an error of the peer or of ours. ``unsettled``:
    delivery tags of a source's unsettled deliveries, by delivery number. ``outcomes``: outcomes
    that we sent for the unsettled deliveries of a target, by delivery tag.

    Closing the link of a durable subscription ends the subscription. That is refused with 405 while
    others receive from it, and with 403 if the user may not delete it; the link is closed all the
    same."""

    closed: bool = False
    lost: bool = False
    unsettled: dict[int, bytes] = field(default_factory=dict)
    outcomes: dict[bytes, Any] = field(default_factory=dict)
    failed: bool = False


@dataclass(slots=True)
class Modify(Operation):
    """Settle one delivery as "modified" (§3.4.5): requeue it. ``elsewhere``: not for this link
    (``Outcome.DECLINE``). ``failed``: count a failed delivery. ``annotations`` are merged into
    those of the message."""

    channel: int
    delivery: int
    failed: bool
    elsewhere: bool
    annotations: Table | None = None


@dataclass(slots=True)
class Assure(Request):
    """Answered when everything performed before on the channel is committed."""


@dataclass(slots=True)
class DeclareTransaction(LinkOperation):
    """Begin a transaction. Answered with its id, as octets. It is rolled back if its link ends."""


@dataclass(slots=True)
class Discharge(LinkOperation):
    """Commit a transaction, or with ``fail`` roll it back. Answered when that is committed."""

    transaction: bytes
    fail: bool


@dataclass(slots=True)
class Post(LinkOperation):
    """Publish a message within a transaction (§4.4.1). Answered at once, with whether a queue would
    take it now."""

    transaction: bytes
    message: Message


@dataclass(slots=True)
class Retire(Operation):
    """Give one delivery an outcome within a transaction (§4.4.2). ``settled``: the peer has
    forgotten the delivery; after a rollback it returns to its queue instead of staying with the
    link."""

    channel: int
    transaction: bytes
    delivery: int
    outcome: Outcome | Modify
    settled: bool


@dataclass(slots=True)
class SettleMany(Operation):
    """Settle many deliveries with one outcome, as ``Settle`` or ``Modify`` would each, but without
    ``elsewhere``; of a transaction only acceptances are a part. ``reason``: headers for the dead
    letters of rejected messages."""

    channel: int
    deliveries: list[int]
    outcome: Outcome | Modify
    reason: Table | None = None


@dataclass(slots=True)
class RetireMany(Operation):
    """Give many deliveries one outcome within a transaction, as ``Retire`` would each."""

    channel: int
    transaction: bytes
    deliveries: list[int]
    outcome: Outcome | Modify
    settled: bool


@dataclass(slots=True)
class Manage(LinkOperation):
    """A request to the management node, sent over ``link``. ``Done`` accepts it; the response is a
    message, ``Deliver`` with delivery number 0, on the link from the node with the same name.
    Refused with 406 without such a link, and with 506 if too many responses wait for credit."""

    message: Message


@dataclass(slots=True)
class Stolen(Operation):
    """To an adapter: another connection has attached a link of the same name (§2.6.1). The adapter
    detaches this one at once, with a ``DetachLink`` in ``Adapter.found``."""

    channel: int
    link: str
