"""How far a connection of 0.8a2 is; a channel or handle is open, or closing by our word. Compared
by ``is``."""

from typing import Final

State = str

HEADING: Final = "heading"
"""The two octets of the initiation are due."""
GREETING: Final = "greeting"
"""Challenge, response, tune, open."""
OPENING: Final = "opening"
OPEN: Final = "open"
CLOSING: Final = "closing"
"""We said close and wait for theirs."""
LEAVING: Final = "leaving"
"""They said close, or broke a rule that costs the connection; our owner has still to answer what
they asked before."""
