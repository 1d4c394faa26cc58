"""Sessions with a name that may outlive their connection (0-10).

The adapter knows its numbers, and what it has sent and the peer may not have; the session layer
keeps that ``state``, which it does not look into, with the channel of the broker.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from gateway.operations.core import Operation, Request


class SessionLimits(NamedTuple):
    """Limits of sessions that are, or will be, kept without a connection; those of ``octets`` and
    ``commands`` are of one session, for commands that may have to be sent again."""

    seconds: int = 300
    sessions: int = 1000
    user_sessions: int = 100
    octets: int = 16 << 20
    all_octets: int = 256 << 20
    commands: int = 65536


class ReplayRoom:
    """The octets that all sessions ``used`` for commands that may have to be sent again."""

    __slots__ = ("limits", "used")

    def __init__(self, limits: SessionLimits = SessionLimits()) -> None:  # noqa: B008
        self.limits = limits
        self.used = 0


class KeptState(Protocol):
    """State of an adapter for a session that it is not attached to."""

    def mark_ended(self) -> Any:
        """The session has ended: give back the room."""
        ...


@dataclass(slots=True)
class AttachSession(Request):
    """Open a channel for the session of that name, or take over the one that is kept. Answered,
    before the channel is there, with the state that ``KeepSession`` had, or ``None`` if the session
    is new. Refused (405) if another connection of the user has it, unless ``force`` is set.

    To an adapter, in the client role: attach a session that the peer is to keep for so many
    ``seconds``; answered with the seconds that it grants. Or with the ``state`` that its
    ``KeepSession`` had, under whose name it is attached again; refused (404) if the peer has not
    kept it."""

    name: bytes = b""
    force: bool = False
    seconds: int = 0
    state: KeptState | None = None


@dataclass(slots=True)
class RequestTimeout(Request):
    """How long a session is to be kept when no connection has it, in seconds; ``None``: as long as
    possible. Answered with ``SessionTimeout``."""

    seconds: int | None


@dataclass(slots=True)
class SessionTimeout:
    """Result of ``RequestTimeout``: the ``seconds`` that are granted, 0 if the session ends with
    its attachment, and the room that it shares with others."""

    seconds: int
    room: ReplayRoom


@dataclass(slots=True)
class KeepSession(Request):
    """The session is not attached any more, and kept as long as was granted. Its earlier requests
    are answered first. In the client role the requests that
    are under way are answered when it is attached again."""

    state: KeptState


@dataclass(slots=True)
class DetachSession(Operation):
    """To an adapter: another connection takes the session over. ``KeepSession`` or ``SessionLost``
    follows."""

    channel: int
