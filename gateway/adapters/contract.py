"""The contract of an adapter: one protocol connection, without its socket, clock or broker.

Rules every adapter keeps:

* ``receive`` never raises for a mistake of the peer. A violation appends the close that the
  specification names to the output, sets ``closing`` and ends the list with ``Closed``.
* A peer that closes normally is answered when the owner says so: the list ends with a ``Closed``
  that has a ``token``, nothing more is read, and ``Done`` with that token sends the answer. A
  mistake that costs one channel is the same, if ``SessionLost`` has a token: ``Refused`` answers.
* ``receive(b"")`` is the end of the stream. After ``closing``, ``receive`` returns ``[]``.
* ``send`` raises ``LocalError`` when *we* break the rules, before any octet is written.
* Output grows in ``output()``; whenever it becomes non-empty outside ``receive``, ``wake`` is
  called once, so that the owner of the socket knows.
"""

from collections.abc import Callable
from enum import Enum, Flag, auto
from typing import Protocol, runtime_checkable

from gateway.adapters.core.frame_reader import FrameReader
from gateway.message import Message
from gateway.operations import Operation


class Role(Enum):
    """Which side of the connection we are."""

    SERVER = "server"
    CLIENT = "client"


class Capability(Flag):
    """Differences between versions that matter to the owner of a connection."""

    NONE = 0
    LINKS = auto()
    """Has links (1.0): a message or link that is refused does not cost its channel."""
    HANDLES = auto()
    """Has handles (0.8a2): a message or handle that is refused does not cost its channel."""
    PATIENT = auto()
    """A peer waits for the answer to any error before a virtual host is open."""
    SASL_LAYER = auto()
    """Clients may open and end connections to find out whether SASL is required."""
    PARTIAL_BODIES = auto()
    """Bodies may be sent in parts, over several connections: the engine takes ``partials``."""
    CLASSES = auto()
    """A client may use class message in place of basic, and session in place of channel: the engine
    takes ``class_message`` and ``class_session``."""
    SESSIONS = auto()
    """Has sessions with names (0-10), which may outlive their connection."""
    COMPAT = auto()
    """May present the product of another broker: the engine takes ``annotates``."""


Answer = Callable[[bool], None]


class Authority(Protocol):
    """The users, as SASL needs them for one connection: ``gateway.net.login``.

    Checking a password takes a while, and other connections must not wait for it: an ``answer`` is
    called once, either before the method returns or later. Until then the adapter reads nothing
    more from the peer."""

    def password(self, user: str, password: str, answer: Answer) -> None:
        """Is this the user's password, and may the user log in with it?"""
        ...

    def scram(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        """Salt, stored key, server key and iteration count of SCRAM-SHA-256 (RFC 5802 §3). For an
        unknown user they match no password."""
        ...

    def proved(self, user: str, right: bool, answer: Answer) -> None:
        """The proof of a SCRAM exchange was right or wrong: may the user log in?"""
        ...

    def anonymous(self) -> str | None:
        """The user that ANONYMOUS becomes, or ``None`` if it is not allowed."""
        ...

    def external(self, subject: str) -> str | None:
        """The user that a TLS certificate's subject stands for, or ``None``."""
        ...


class Outlet(Protocol):
    """The output of one channel. The broker calls it for each message, without an operation object;
    same effect as ``send`` with the operation of that name. It may have a method ``deliver_run``
    as well: ``deliver`` for many messages to one consumer, numbered in a row, none redelivered."""

    allow_deliveries: Callable[[bool], None]
    """Set by the owner. Called with ``False`` when no more should be delivered on this channel,
    because its window is used up or a large body is being sent; with ``True`` when deliveries may
    continue."""

    def deliver(
        self, consumer: str, delivery: int, redelivered: bool, message: Message
    ) -> None: ...

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None: ...


class Adapter(Protocol):
    """One protocol connection."""

    version: str
    """As in ``specs/``: "0-9-1". Empty until known."""
    role: Role
    capabilities: Capability
    closing: bool
    """Nothing more will come: the owner writes the rest of the output and closes the socket."""
    wake: Callable[[], None]
    output_congested: Callable[[], None]
    """Called when deliveries have piled up in the output: the owner pauses them until it has
    written. Set by the owner; may be called more than once."""

    @property
    def frames(self) -> FrameReader: ...

    def receive(self, data: bytes) -> list[Operation]:
        """Octets from the peer, whole or cut anywhere."""
        ...

    def read_on(self) -> list[Operation]:
        """Go on where ``receive`` has stopped because of ``frames.most_at_once``."""
        ...

    def send(self, operation: Operation) -> None:
        """Encode an operation for the peer."""
        ...

    def outlet(self, channel: int) -> Outlet:
        """The output of an open channel, for deliveries and confirms."""
        ...

    def found(self) -> list[Operation]:
        """Take the operations found outside ``receive`` and ``tick``, which return all others."""
        ...

    def output(self) -> list[bytes]:
        """Take the octets to write; ``[]`` when idle. Of large bodies it returns a portion and sets
        ``more``. Raises ``OSError`` if such a body cannot be read; then the connection is lost."""
        ...

    @property
    def more(self) -> int:
        """Not 0 while more output waits until the socket has taken the present one: large bodies
        are sent in portions. The octets of other frames that wait behind them count."""
        ...

    def refill(self) -> None:
        """The socket has taken the output, and there was ``more``: prepare the next portion. This
        may resume deliveries."""
        ...

    def tick(self, now: float) -> list[Operation]:
        """Send heartbeats and give up silent peers. Called about once a second with the monotonic
        time in seconds."""
        ...

    def excuse_silence(self) -> None:
        """The owner did not read from the peer: its silence does not count."""
        ...

    def lost(self) -> list[Operation]:
        """The socket is gone. Returns the last operations, which end with ``Closed``."""
        ...

    def release(self) -> None:
        """The connection is over: drop all references; nothing more is received or sent. Engines
        and their parts refer to each other, and garbage is collected so seldom that short
        connections would fill the memory."""
        ...


@runtime_checkable
class Publisher(Protocol):
    """An adapter of a client that can publish without an operation object for each message."""

    def publisher(self, channel: int) -> Callable[[Message, bool, bool], None]:
        """Same effect as ``send`` with a ``Publish``: a message, mandatory and immediate or not.
        Raises ``LocalError`` if the channel is not open. The function raises that or ``ValueError``
        before any octet is written."""
        ...
