"""Operations of a connection, its channels and its consumers, in every AMQP version.

An adapter turns octets into operations and operations into octets; a session performs them on the
broker and sends the answers. ``channel`` is the number of the session (0-10, 1.0) or channel (0-8
to 0-9-1) on its connection. ``token`` is opaque: the adapter puts it into a request, and the answer
(``Done`` or ``Refused``) brings it back; ``None`` requests no answer.

Queues, exchanges and bindings are in ``topology``, links in ``links``, handles in ``destinations``.
The hot operations (``Publish``, ``PublishMany``, ``Deliver``, ``Settle``, ``Confirm``) are
constructed positionally.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from gateway.errors import Condition, Lost
from gateway.message import Message, Table, WireRun
from gateway.operations.rules import RABBITMQ, VersionRules

Token = Any


class Outcome(IntEnum):
    """Outcome of a delivery, as its consumer settles it."""

    ACCEPT = 0
    RELEASE = 1
    """Requeue it at its old position, marked redelivered."""
    REJECT = 2
    """Dead-letter it if the queue has a dead letter exchange, otherwise drop it."""
    DECLINE = 3
    """Dead-letter it if the queue has a dead letter exchange, otherwise leave it in the queue for
    other consumers; this link does not get it again."""
    REFUSE = 4
    """As ``DECLINE``, for the whole channel: no consumer and no fetch on it, now or later, gets the
    message again."""

    UNDO = 5
    """As ``RELEASE``, and this delivery counts as if it had not been: it does not mark the message
    as redelivered."""

    @property
    def returns(self) -> bool:
        """Whether the message goes back to its queue."""
        return self not in (Outcome.ACCEPT, Outcome.REJECT)


class Operation:
    """Base of all operations. ``scope`` is the smallest thing that a refusal costs: a link or a
    channel."""

    __slots__: tuple[str, ...] = ()

    scope: ClassVar[Lost] = Lost.SESSION


@dataclass(slots=True)
class Request(Operation):
    """An operation on a channel that is answered with ``Done`` or ``Refused``."""

    channel: int
    token: Token


# --- the hot ones -------------------------------------------------------------------------------


@dataclass(slots=True)
class Publish(Operation):
    """Publish a message to the exchange that it names. ``mandatory``: return it if no queue takes
    it. ``immediate``: return it if no consumer can take it at once."""

    channel: int
    message: Message
    mandatory: bool
    immediate: bool


@dataclass(slots=True)
class PublishMany(Operation):
    """Publish messages in this order, each to the exchange that it names. ``mandatory``: return
    those that no queue takes. Those that are published are taken out of ``messages``. ``wire``: all
    of them, as they came. ``alternate``: the exchange to which those go that no queue takes at
    their own."""

    channel: int
    messages: list[Message]
    mandatory: bool = False
    wire: WireRun | None = None
    alternate: str | None = None


@dataclass(slots=True)
class Deliver(Operation):
    """Deliver a message to a consumer, by its tag. ``delivery`` counts per channel from 1."""

    channel: int
    consumer: str
    delivery: int
    redelivered: bool
    message: Message


@dataclass(slots=True)
class Settle(Operation):
    """Settle one delivery, or with ``multiple`` all up to it (0: all that are unsettled)."""

    channel: int
    delivery: int
    multiple: bool
    outcome: Outcome


@dataclass(slots=True)
class Confirm(Operation):
    """The broker has accepted or refused a publish; with ``multiple`` all up to it. ``sequence``
    counts the publishes of a channel from 1."""

    channel: int
    sequence: int
    multiple: bool
    accepted: bool


# --- connection ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Peer:
    """The peer's description of itself. None of it is verified."""

    version: str = ""
    product: str = ""
    product_version: str = ""
    platform: str = ""
    name: str = ""
    mechanism: str = ""
    properties: Table = field(default_factory=dict)


@dataclass(slots=True)
class Open(Operation):
    """Use a virtual host. ``user`` is already authenticated by the adapter's SASL exchange.
    ``client`` is a name that one connection of the user to the virtual host may have at a time; ""
    is none. ``rules`` are those of the peer's version. Refused if the virtual host does not exist
    (``rules.unknown_vhost``), the user has no access to it (403), or the name is in use (405)."""

    token: Token
    vhost: str
    user: str
    peer: Peer = field(default_factory=Peer)
    client: str = ""
    rules: VersionRules = RABBITMQ


@dataclass(slots=True)
class Close(Operation):
    """To an adapter: close the connection. ``condition`` is ``None`` for a normal end."""

    condition: Condition | None = None
    text: str = ""


@dataclass(slots=True)
class Closed(Operation):
    """The connection has ended; the last operation of an adapter. ``theirs``: the peer closed it or
    caused the end by an error; false after our own ``Close``. ``token``: the peer waits for an
    answer (``Done`` with channel 0), which is sent after the answers to all earlier requests.
    ``fault``: the peer violated the protocol instead of closing; the answer is our close."""

    condition: Condition | None = None
    text: str = ""
    theirs: bool = True
    token: Token = field(default=None, compare=False)
    fault: bool = field(default=False, compare=False)


@dataclass(slots=True)
class Blocked(Operation):
    """Publishers are held back because memory or disk is short."""

    reason: str


@dataclass(slots=True)
class Unblocked(Operation):
    """Publishers are no longer held back."""


@dataclass(slots=True)
class UpdateSecret(Operation):
    """New credentials for a live connection. Refused if the user was deleted."""

    token: Token
    secret: bytes
    reason: str


# --- channel or session -------------------------------------------------------------------------


@dataclass(slots=True)
class BeginSession(Request):
    """Open a channel. ``transacted``: as after ``Select``. ``restartable``: see ``Prepare``."""

    transacted: bool = False
    restartable: bool = False


@dataclass(slots=True)
class EndSession(Request):
    """Close a channel normally, at the peer's request (in the client role: at ours)."""


@dataclass(slots=True)
class SessionLost(Operation):
    """An error has closed a channel. From an adapter: return its messages without an answer; with a
    ``token``, answer with ``Refused`` after the answers to all earlier requests. To an adapter
    (server role): close the channel with this condition."""

    channel: int
    condition: Condition
    text: str
    token: Token = field(default=None, compare=False)


@dataclass(slots=True)
class EnterRealm(Request):
    """Hold a ticket for an access realm until the channel ends; ``exclusive``: alone. Refused (403)
    if another channel has the realm alone, or is in the way of that (0-9a0 §4.4.1)."""

    name: str
    exclusive: bool = False


@dataclass(slots=True)
class Flow(Request):
    """Stop or resume deliveries on this channel. Answered with ``active``."""

    active: bool


# --- consuming ----------------------------------------------------------------------------------


STREAMS = "x-streams"
"""Argument of a consumer of streams. A queue has one such consumer at most, as each would get a
part of the stream (0-9a0 §4.9.1, 0-9a6 "The Stream Operational Model")."""


@dataclass(slots=True)
class Subscribe(Request):
    """Start a consumer. For an empty tag the server generates one. Answered with the tag. Refused
    with 403 (no permission, or exclusive use unless the version's rules say otherwise), 404 (no
    such queue), 405 (another connection's queue) or 406 (arguments).

    ``no_ack``: deliveries are settled when sent. ``filter``: deliver only messages for which it is
    true (``Selector.matches``). ``copy``: browse; the messages stay in the queue and settlement has
    no effect. ``credit``: number of deliveries before the next ``Credit``; ``None`` is no limit.
    ``ends``: when the messages that are ready have been delivered, the consumer ends (``Cancelled``
    with ``ended``). ``remaining_ttl``: a message that expires comes as ``ExpiringMessage``.
    ``measure``: octets that a message takes of a credit in octets; without it those of header and
    body.
    """

    queue: str
    tag: str = ""
    no_ack: bool = False
    exclusive: bool = False
    no_local: bool = False
    arguments: Table = field(default_factory=dict)
    filter: Callable[[Message], bool] | None = None
    copy: bool = False
    credit: int | None = None
    ends: bool = False
    remaining_ttl: bool = False
    measure: Callable[[Message], int] | None = None


@dataclass(slots=True)
class Unsubscribe(Request):
    """End a consumer; its unsettled deliveries stay with the channel. Answered with the tag."""

    tag: str


@dataclass(slots=True)
class Cancelled(Operation):
    """The broker has ended a consumer, or a link over which the peer sends, as its queue is
    deleted; or a consumer that was to end by itself (``ended``, see ``Subscribe``)."""

    channel: int
    tag: str
    ended: bool = False


@dataclass(slots=True)
class Prefetch(Request):
    """Limit unsettled deliveries: ``count`` messages and ``size`` octets, 0 is no limit.

    ``shared``: over the whole channel; otherwise for each consumer started from now on.
    """

    count: int
    size: int = 0
    shared: bool = False


@dataclass(slots=True)
class Credit(Request):
    """Set the credit of a consumer to ``count`` deliveries; ``None`` is no limit. With a ``count``
    these may have ``octets`` in all; a message goes out if both are enough for the whole of it.
    ``drain``: send the messages that are ready and drop the rest of the credit. Answered after
    those deliveries, with the number of dropped credits."""

    tag: str
    count: int | None
    drain: bool = False
    octets: int | None = None


@dataclass(slots=True)
class Fetch(Request):
    """Take one message. Answered with ``Fetched``, or ``None`` if the queue is empty. Refused with
    403, 404 or 405."""

    queue: str
    no_ack: bool = False


@dataclass(slots=True)
class Unsent(Operation):
    """A delivery that cannot be sent to this peer: its version has no form for the message, or the
    peer does not take messages of that size. The message stays for other consumers. ``consumer`` is
    empty if it was fetched; then ``queue`` is that of the ``Fetched``."""

    channel: int
    consumer: str
    delivery: int
    message: Message
    queue: str = ""


@dataclass(slots=True)
class Recover(Request):
    """Deliver all unsettled messages of the channel again: requeued, or without ``requeue`` to the
    same consumers."""

    requeue: bool = False


@dataclass(slots=True)
class Acquire(Request):
    """Hold the messages that these browsed deliveries are copies of, as far as they are still in
    their queue; their settlement has its effect then. Answered with the deliveries that are
    held."""

    deliveries: list[int]


@dataclass(slots=True)
class Synchronize(Request):
    """Answered when all earlier requests on this channel are performed and committed."""


# --- transactions and confirms ------------------------------------------------------------------


@dataclass(slots=True)
class Select(Request):
    """Make later publishes and settlements of this channel transactional."""


@dataclass(slots=True)
class Commit(Request):
    """Perform the publishes and settlements of the transaction. Answered when the store has
    committed them. A new transaction begins."""


@dataclass(slots=True)
class Rollback(Request):
    """Discard the publishes and settlements of the transaction. A new one begins."""


@dataclass(slots=True)
class SelectConfirms(Request):
    """Confirm later publishes of this channel."""


@dataclass(slots=True)
class Returned(Operation):
    """A published message that could not be routed, or not delivered at once. ``sequence`` is its
    number as in ``Confirm``, 0 on a channel without confirms."""

    channel: int
    message: Message
    condition: Condition
    text: str
    sequence: int = 0


# --- answers ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Fetched:
    """Result of ``Fetch``. ``remaining``: ready messages left in the queue. ``queue``: name of the
    queue, if the delivery is settled already; for ``Unsent``."""

    delivery: int
    redelivered: bool
    message: Message
    remaining: int
    queue: str = ""


@dataclass(slots=True)
class Done(Operation):
    """The request with this token succeeded; its docstring describes ``result``. ``channel`` is 0
    in answers to operations of the connection."""

    channel: int
    token: Token
    result: Any = None


@dataclass(slots=True)
class Refused(Operation):
    """The request with this token was refused. ``lost``: the link, channel or connection that the
    refusal costs. ``message``: that of a refused publish."""

    channel: int
    token: Token
    condition: Condition
    text: str
    lost: Lost = Lost.SESSION
    message: Message | None = field(default=None, repr=False, compare=False)
