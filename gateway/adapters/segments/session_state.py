"""States of a session, in both roles, and its port to its engine."""

from enum import Enum
from typing import Any, Protocol

from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.segments.lifecycle import Lifecycle


class State(Enum):
    """Of a session."""

    ATTACHING = "attaching"
    """Client: the server has not answered."""
    ATTACHED = "attached"
    ENDING = "ending"
    """The peer has detached; it is answered when the broker has ended the session."""
    FAILED = "failed"
    """The peer has broken a rule, and is told behind the answers to earlier commands."""
    DETACHING = "detaching"
    """We have detached: everything until the answer is ignored."""
    LEFT = "left"
    """Kept without a connection, or about to be: our commands wait."""
    ENDED = "ended"


ATTACHED = State.ATTACHED


class SessionEngine(Protocol):
    """The engine, as far as its sessions need it."""

    buffer: OutputBuffer
    life: Lifecycle
    frame_limit: int

    def tell_soon(self, session: Any) -> None:
        """Call its ``tell_due`` when the output is taken."""
        ...

    def tell_due(self) -> None:
        """Tell it now, before something that must not come first."""
        ...
