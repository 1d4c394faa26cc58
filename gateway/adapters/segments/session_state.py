"""States of a session, in both roles."""

from enum import Enum


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
