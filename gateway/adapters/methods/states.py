"""States of connections and channels of the class-and-method family.

They do not depend on the role: a method has the same effect whether it is sent or received. States
are compared by ``is``.
"""

from typing import Final

State = str

# --- connection ----------------------------------------------------------------------------------

HEADER: Final = "header"
START: Final = "start"
SECURE: Final = "secure"
TUNE: Final = "tune"
UNOPENED: Final = "unopened"
"""Tuned; no virtual host yet."""
OPENING: Final = "opening"
OPEN: Final = "open"
CLOSING: Final = "closing"
"""We sent close and wait for close-ok; everything else is discarded (0-9-1 §2.2.4)."""
ENDING: Final = "ending"
"""The peer closed a channel; the broker has still to reply."""
LEAVING: Final = "leaving"
"""The peer closed the connection, or violated a rule that costs it; the broker has still to reply
to its earlier requests."""
FAILED: Final = "failed"
"""The peer violated a rule on a channel, and is told behind the replies to its earlier requests."""
CLOSED: Final = "closed"

CONNECTION: Final[dict[State, dict[str, State]]] = {
    HEADER: {"protocol-header": START},
    START: {"connection.start": START, "connection.start-ok": SECURE},
    SECURE: {
        "connection.secure": SECURE,
        "connection.secure-ok": SECURE,
        "connection.tune": TUNE,
    },
    TUNE: {"connection.tune-ok": UNOPENED},
    UNOPENED: {"connection.open": OPENING},
    OPENING: {"connection.open-ok": OPEN, "connection.redirect": OPENING},
    OPEN: {
        "connection.blocked": OPEN,
        "connection.unblocked": OPEN,
        "connection.update-secret": OPEN,
        "connection.update-secret-ok": OPEN,
        "connection.close": LEAVING,
    },
    CLOSING: {"connection.close": CLOSING, "connection.close-ok": CLOSED},
    LEAVING: {"connection.close-ok": CLOSED},
    CLOSED: {},
}
"""``connection.close`` may come in every state but the last, and is repeated here only where a
server answers it behind all that was asked before."""

# --- channel -------------------------------------------------------------------------------------

CHANNEL: Final[dict[State, dict[str, State]]] = {
    CLOSED: {"channel.open": OPENING},
    OPENING: {"channel.open-ok": OPEN, "channel.close": ENDING, "lose": CLOSING},
    OPEN: {"method": OPEN, "channel.close": ENDING, "lose": CLOSING},
    ENDING: {"channel.close-ok": CLOSED, "lose": CLOSING},
    FAILED: {"channel.close": FAILED, "lose": CLOSING},
    CLOSING: {"channel.close": CLOSING, "channel.close-ok": CLOSED, "lose": CLOSING},
}
"""``method`` is every other method, ``lose`` our own channel.close. A server takes a channel as
open when the client asks for it, since clients use it before they have received open-ok."""


def after(table: dict[State, dict[str, State]], state: State, word: str) -> State | None:
    """The next state, ``None`` if the step is not allowed."""
    return table[state].get(word)
