"""Who is wrong, what dies with it, and whether it may be tried again.

    GatewayError
      LocalError     we broke a rule of a protocol: a bug of ours, never written to a wire
      PeerError      they broke a rule; carries the condition and what is lost
      Refusal        the broker says no: condition, text, what is lost
      StoreError     the disk failed; the peer learns "internal error", the log learns everything
      ConfigError    the configuration is wrong; raised before anything starts

A ``Condition`` is a neutral word. Each version's generated table turns it into that version's own
code (404, ``amqp:not-found``), and ``gateway.http.problems`` turns it into a status.
"""

from enum import Enum, IntEnum


class Lost(IntEnum):
    """How much dies with an error, smallest first."""

    NOTHING = 0
    LINK = 1
    SESSION = 2
    CONNECTION = 3


class Condition(Enum):
    """What went wrong, in words that every version can translate.

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
    """Root of everything this package raises on purpose."""


class LocalError(GatewayError):
    """We tried to say something the protocol forbids. Always a bug of ours."""


class Unwritable(LocalError, ValueError):
    """A value has no form in this version: a name is too long for its field, or a method for a
    frame of the peer. On the way out this costs the message (``Unsent``), never the connection."""


class ConfigError(GatewayError):
    """The configuration cannot be used. The text is for the person who wrote it."""


class StoreError(GatewayError):
    """The durable store could not read or write."""


class Unstorable(StoreError):
    """One record is of a kind that the store cannot keep; others are not touched by it."""


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
    """The broker says no. The text may be shown to the peer: it never contains internals.

    ``lost`` is what a legacy peer loses by it: ``Lost.SESSION`` closes the channel (soft errors),
    ``Lost.CONNECTION`` the connection (hard errors).
    """

    def __init__(self, condition: Condition, text: str, lost: Lost = Lost.SESSION) -> None:
        super().__init__(text)
        self.condition = condition
        self.text = text
        self.lost = lost
