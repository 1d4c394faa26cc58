"""The contract of an adapter: one protocol connection, without its socket, clock or broker.

Rules every adapter keeps:

* ``receive`` never raises for what the peer did. A violation appends the close that the
  specification names to the output, sets ``closing`` and ends the list with ``Closed``.
* A peer that closes normally is answered by its owner's word: the list ends with a ``Closed`` that
  has a ``token``, nothing more is taken, and ``Done`` with that token lets it go. So it is with a
  mistake that costs one channel, if ``SessionLost`` has a token: ``Refused`` brings it back.
* ``receive(b"")`` is the end of the stream. After ``closing``, ``receive`` returns ``[]``.
* ``send`` raises ``LocalError`` when *we* break the rules, before any octet is written.
* Output grows in ``output()``; whenever it becomes non-empty outside ``receive``, ``wake`` is
  called once, so that the owner of the socket knows.
"""

from collections.abc import Callable
from enum import Enum, Flag, auto
from typing import Protocol

from gateway.message import Message
from gateway.operations import Operation


class Role(Enum):
    """Which side of the connection we are."""

    SERVER = "server"
    CLIENT = "client"


class Capability(Flag):
    """Ways in which versions differ that the owner of a connection has to know."""

    NONE = 0
    LINKS = auto()
    """Has links or handles: a message or link that is refused does not cost its channel."""
    SILENT = auto()
    """A server disconnects without a reply from peers that open with another header."""
    PATIENT = auto()
    """A peer waits for the answer to whatever is wrong before a virtual host is open."""
    SASL_LAYER = auto()
    """Clients may open and end connections to find out whether SASL is wanted."""
    PARTIAL_BODIES = auto()
    """Bodies may be sent in parts, over several connections: the engine takes ``partials``."""
    COMPAT = auto()
    """May present the product of another broker: the engine takes ``annotates``."""


Answer = Callable[[bool], None]


class Authority(Protocol):
    """What SASL needs to know about users, for one connection: ``gateway.net.login``.

    To compute whether a password is right takes a while, and other connections want their turn: an
    ``answer`` is called once, either before the method returns or later. An adapter that has to
    wait for it looks at nothing of what the peer says meanwhile."""

    def password(self, user: str, password: str, answer: Answer) -> None:
        """Is this the user's password, and may the user come in by it?"""
        ...

    def scram(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        """Salt, stored key, server key and iteration count of SCRAM-SHA-256 (RFC 5802 §3). For a
        user nobody knows they fit no password."""
        ...

    def proved(self, user: str, right: bool, answer: Answer) -> None:
        """The proof of a SCRAM exchange was right or wrong: may the user come in?"""
        ...

    def anonymous(self) -> str | None:
        """The user that ANONYMOUS becomes, or ``None`` if it is not allowed."""
        ...

    def external(self, subject: str) -> str | None:
        """The user that a TLS certificate's subject stands for, or ``None``."""
        ...


class Outlet(Protocol):
    """The way out for one channel: what the broker calls for each message, without an operation
    object. Same effect as ``send`` with the operation of that name."""

    gate: Callable[[bool], None]
    """Set by the owner. Called with ``False`` when no more should be delivered on this channel,
    with ``True`` when deliveries may go on: for want of a window, or while a large body is
    said."""

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
    """Nothing more will come; write what is left and hang up."""
    wake: Callable[[], None]
    crowded: Callable[[], None]
    """Called when deliveries have piled up in the output: the owner pauses them until it has
    written. Set by the owner; may be called more than once."""

    def receive(self, data: bytes) -> list[Operation]:
        """Octets from the peer, whole or cut anywhere."""
        ...

    def send(self, operation: Operation) -> None:
        """Say this to the peer."""
        ...

    def outlet(self, channel: int) -> Outlet:
        """The hot way out for an open channel."""
        ...

    def found(self) -> list[Operation]:
        """Take what was found outside ``receive`` and ``tick``, which give it otherwise."""
        ...

    def output(self) -> list[bytes]:
        """Take what is to be written; ``[]`` when idle. Of large bodies it gives a portion and sets
        ``more``. Raises ``OSError`` if such a body cannot be read; then the connection is lost."""
        ...

    @property
    def more(self) -> int:
        """Octets, one at least, that wait until the socket has taken what ``output`` gave: large
        bodies are said in portions. 0: ``output`` gave all there is."""
        ...

    def refill(self) -> None:
        """The socket has taken what was written, and there was ``more``: make the next portion
        ready. It may ask the broker for deliveries."""
        ...

    def tick(self, now: float) -> list[Operation]:
        """Time passes (seconds, monotonic): heartbeats out, silent peers given up.

        Called about once a second."""
        ...

    def excuse_silence(self) -> None:
        """We did not read from the peer: that nothing was heard is not its fault."""
        ...

    def lost(self) -> list[Operation]:
        """The socket is gone: what must be undone (ends with ``Closed``)."""
        ...

    def release(self) -> None:
        """The connection is over: let go of everything, and receive and send nothing any more.
        Engines and their parts know each other; without this each connection would stay until
        garbage is collected, which is seldom: peers that come and go would fill the memory."""
        ...
