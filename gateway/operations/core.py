"""What is said: one small vocabulary for every AMQP version, HTTP and the bridge.

An adapter turns bytes into these and these into bytes; a session carries them to the broker and
brings the answers back. ``channel`` is the number of the session (0-10, 1.0) or channel (0-8 to
0-9-1) on its connection; ``token`` is the adapter's secret: a request brings it, the answer
(``Done`` or ``Refused``) carries it back, ``None`` means that no answer is wanted.

What queues and exchanges there are is said in ``topology``, what only versions with links say in
``links``. The four hot words (``Publish``, ``Deliver``,
``Settle``, ``Confirm``) are constructed positionally.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from gateway.errors import Condition, Lost
from gateway.message import Message, Table
from gateway.operations.rules import RABBITMQ, VersionRules

Token = Any


class Outcome(IntEnum):
    """What a consumer did with a delivery."""

    ACCEPT = 0
    RELEASE = 1
    """Give it back: requeued at its place, marked redelivered."""
    REJECT = 2
    """Not wanted: dead-lettered where the queue says so, else dropped."""
    DECLINE = 3
    """Not to be delivered over this link again: dead-lettered where the queue says so, else left
    in the queue for other consumers."""
    REFUSE = 4
    """As ``DECLINE``, for the channel as a whole: none of its consumers, present or to come, and no
    fetch of its gets the message again."""

    @property
    def returns(self) -> bool:
        """The message goes back to its queue; who has no better word for it says that."""
        return self not in (Outcome.ACCEPT, Outcome.REJECT)


class Operation:
    """Root of the vocabulary; equality and repr over ``__slots__`` for the hot words. ``scope`` is
    the least that is lost when one is refused."""

    __slots__: tuple[str, ...] = ()

    scope: ClassVar[Lost] = Lost.SESSION

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({values})"

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class Request(Operation):
    """Asks something of a channel or session; answered with ``Done`` or ``Refused``."""

    channel: int
    token: Token


# --- the hot four -------------------------------------------------------------------------------


class Publish(Operation):
    """A message for an exchange (named in the message)."""

    __slots__ = ("channel", "message", "mandatory", "immediate")

    def __init__(self, channel: int, message: Message, mandatory: bool, immediate: bool) -> None:
        self.channel = channel
        self.message = message
        self.mandatory = mandatory
        self.immediate = immediate


class Deliver(Operation):
    """A message for a consumer. ``delivery`` counts per channel from 1."""

    __slots__ = ("channel", "consumer", "delivery", "redelivered", "message")

    def __init__(
        self, channel: int, consumer: str, delivery: int, redelivered: bool, message: Message
    ) -> None:
        self.channel = channel
        self.consumer = consumer
        self.delivery = delivery
        self.redelivered = redelivered
        self.message = message


class Settle(Operation):
    """Outcome of one delivery, or with ``multiple`` of all up to it (0: all there are)."""

    __slots__ = ("channel", "delivery", "multiple", "outcome")

    def __init__(self, channel: int, delivery: int, multiple: bool, outcome: Outcome) -> None:
        self.channel = channel
        self.delivery = delivery
        self.multiple = multiple
        self.outcome = outcome


class Confirm(Operation):
    """The broker has (or refuses) a publish. ``sequence`` counts per channel from 1."""

    __slots__ = ("channel", "sequence", "multiple", "accepted")

    def __init__(self, channel: int, sequence: int, multiple: bool, accepted: bool) -> None:
        self.channel = channel
        self.sequence = sequence
        self.multiple = multiple
        self.accepted = accepted


# --- connection ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Peer:
    """Who is at the other end, as it describes itself. Nothing here is to be trusted."""

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
    ``client`` is a name that only one connection to it may have at a time; "" is none. ``rules``:
    what its version demands of a broker."""

    token: Token
    vhost: str
    user: str
    peer: Peer = field(default_factory=Peer)
    client: str = ""
    rules: VersionRules = RABBITMQ


@dataclass(slots=True)
class Close(Operation):
    """End the connection; ``condition`` is ``None`` for a normal end. We say it."""

    condition: Condition | None = None
    text: str = ""


@dataclass(slots=True)
class Closed(Operation):
    """The connection has ended (last operation of an adapter). ``theirs``: the peer ended it or
    caused it by an error; ``False`` for our own ``Close``. ``token``: the peer waits for an answer
    (``Done`` with channel 0), which comes behind those to all that it asked before. ``fault``: it
    did not ask for the end but broke a rule; what answers the ``token`` is our close."""

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
    """Publishers may go on."""


@dataclass(slots=True)
class UpdateSecret(Operation):
    """New credentials for a live connection."""

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
    """Normal end of a channel, asked for by the peer (or, client role, by us)."""


@dataclass(slots=True)
class SessionLost(Operation):
    """A channel has died of an error. From an adapter: undo what it held, say nothing; with a
    ``token``, the peer is still to be told, by ``Refused`` behind the answers to all that it asked
    before. To an adapter (server role): close the channel with this condition."""

    channel: int
    condition: Condition
    text: str
    token: Token = field(default=None, compare=False)


@dataclass(slots=True)
class Flow(Request):
    """Stop (or go on) sending content on this channel."""

    active: bool


# --- consuming ----------------------------------------------------------------------------------


STREAMS = "x-streams"
"""Argument of a consumer: it takes a stream, and there is one such consumer of a queue at most, as
each would get a part (0-9a0 §4.9.1, 0-9a6 "The Stream Operational Model")."""


@dataclass(slots=True)
class Subscribe(Request):
    """Start a consumer. An empty tag asks for one of the server's. Answered with the tag.

    ``no_ack``: deliveries count as settled when sent. ``filter``: only messages for which it is
    true (``Selector.matches``). ``copy``: deliveries are copies, the messages stay where they are
    and settlement has no effect. ``credit``: deliveries allowed before more is said by ``Credit``.
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


@dataclass(slots=True)
class Unsubscribe(Request):
    """End a consumer; what it holds unsettled stays with the channel. Answered with the tag."""

    tag: str


@dataclass(slots=True)
class Cancelled(Operation):
    """The broker ended a consumer, or a link over which the peer sends (its queue is gone)."""

    channel: int
    tag: str


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
    """Allow a consumer ``count`` more deliveries from now on, ``None`` for any number. ``drain``:
    only what there is; the rest of the credit is dropped. Answered behind the deliveries with how
    much was dropped."""

    tag: str
    count: int | None
    drain: bool = False


@dataclass(slots=True)
class Fetch(Request):
    """Take one message. Answered with ``Fetched`` or, if there is none, with ``None``."""

    queue: str
    no_ack: bool = False


@dataclass(slots=True)
class Recover(Request):
    """Deliver everything unsettled again: requeued, or (not ``requeue``) to the same consumers."""

    requeue: bool = False


@dataclass(slots=True)
class Synchronize(Request):
    """Answered when all that was asked before on this channel is done, and safe."""


# --- transactions and confirms ------------------------------------------------------------------


@dataclass(slots=True)
class Select(Request):
    """Publishes and settlements of this channel are transactional from now on."""


@dataclass(slots=True)
class Commit(Request):
    """Do what was held back since the last one."""


@dataclass(slots=True)
class Rollback(Request):
    """Forget what was held back."""


@dataclass(slots=True)
class SelectConfirms(Request):
    """Publishes of this channel are confirmed from now on."""


@dataclass(slots=True)
class Returned(Operation):
    """A publish that could not be routed (or delivered at once) comes back. ``sequence`` is its
    number among the publishes that are confirmed, 0 if they are not."""

    channel: int
    message: Message
    condition: Condition
    text: str
    sequence: int = 0


# --- answers ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Fetched:
    """Result of ``Fetch``. ``queue``: where it was taken from, if it is settled already; for
    ``Unsent``."""

    delivery: int
    redelivered: bool
    message: Message
    remaining: int
    queue: str = ""


@dataclass(slots=True)
class Done(Operation):
    """The request with this token succeeded; ``result`` is what its docstring says. ``Open`` is
    answered with ``channel`` 0."""

    channel: int
    token: Token
    result: Any = None


@dataclass(slots=True)
class Refused(Operation):
    """The request with this token failed; ``lost`` says what goes down with it."""

    channel: int
    token: Token
    condition: Condition
    text: str
    lost: Lost = Lost.SESSION
