"""Errors by origin, by scope of the loss, and by whether a retry can succeed.

    GatewayError
      LocalError     the gateway broke a rule of a protocol: a bug, never sent to a peer
      PeerError      the peer broke a rule; carries the condition and the scope of the loss
      Refusal        the broker refuses: condition, text, scope of the loss
      StoreError     the disk failed; the peer gets "internal error", the log gets the details
      ConfigError    the configuration is wrong; raised before anything starts

A ``Condition`` is a neutral word. Each version's generated table turns it into that version's own
code (404, ``amqp:not-found``), and ``gateway.http.problems`` turns it into a status.
"""

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Protocol


class Lost(IntEnum):
    """The scope of the loss caused by an error, smallest first."""

    NOTHING = 0
    LINK = 1
    SESSION = 2
    CONNECTION = 3


class Condition(Enum):
    """A kind of error that every version can translate.

    The values are the names used in the ``conditions`` block of each file in ``specs/``.
    """

    CONTENT_TOO_LARGE = "content-too-large"
    NO_ROUTE = "no-route"
    NO_CONSUMERS = "no-consumers"
    CONNECTION_FORCED = "connection-forced"
    INVALID_PATH = "invalid-path"
    ACCESS_REFUSED = "access-refused"
    NOT_FOUND = "not-found"
    RESOURCE_LOCKED = "resource-locked"
    PRECONDITION_FAILED = "precondition-failed"
    FRAME_ERROR = "frame-error"
    SYNTAX_ERROR = "syntax-error"
    COMMAND_INVALID = "command-invalid"
    CHANNEL_ERROR = "channel-error"
    UNEXPECTED_FRAME = "unexpected-frame"
    RESOURCE_ERROR = "resource-error"
    NOT_ALLOWED = "not-allowed"
    NOT_IMPLEMENTED = "not-implemented"
    INTERNAL_ERROR = "internal-error"


class GatewayError(Exception):
    """Base class of all deliberate errors of this package."""


class LocalError(GatewayError):
    """The gateway tried to send something that the protocol forbids. Always a bug of the
    gateway."""


class Unwritable(LocalError, ValueError):
    """A value cannot be encoded in this version: a name is too long for its field, or a method for
    a frame of the peer. On output this loses the message (``Unsent``), never the connection."""


class ConfigError(GatewayError):
    """The configuration cannot be used. The text is for the person who wrote it."""


class StoreError(GatewayError):
    """The durable store could not read or write."""


class Unstorable(StoreError):
    """One record cannot be stored. Other records are not affected."""


class PeerError(GatewayError):
    """The peer broke a rule of the protocol.

    Raised inside an adapter and caught in its ``receive``, nowhere else. ``method`` is the number
    of the offending method (class << 16 | method), 0 if none.
    """

    def __init__(
        self,
        condition: Condition,
        text: str,
        lost: Lost = Lost.CONNECTION,
        method: int = 0,
        channel: int = 0,
    ) -> None:
        super().__init__(text)
        self.condition = condition
        self.text = text
        self.lost = lost
        self.method = method
        self.channel = channel


class Refusal(GatewayError):
    """The broker refuses an operation. The text may be shown to the peer and never contains
    internals.

    ``lost`` is the scope of the loss for a legacy peer: ``Lost.SESSION`` closes the channel (soft
    errors), ``Lost.CONNECTION`` the connection (hard errors).
    """

    def __init__(self, condition: Condition, text: str, lost: Lost = Lost.SESSION) -> None:
        super().__init__(text)
        self.condition = condition
        self.text = text
        self.lost = lost


class AwaitsUpstream(Refusal):
    """An operation needs an answer of another broker first. ``answer.then`` takes a function that
    is called when it has come; then the operation is performed again from its beginning. Peers are
    shown this as a refusal only where nobody waits."""

    def __init__(self, answer: "PendingAnswer") -> None:
        super().__init__(
            Condition.RESOURCE_ERROR, "the upstream has not answered yet", Lost.NOTHING
        )
        self.answer = answer


class PendingAnswer(Protocol):
    """An answer that has not come yet."""

    def then(self, callback: Callable[[], None]) -> None: ...
