"""States of a connection of 0.8a2; a channel or handle is ``OPEN``, or ``CLOSING`` once we have
closed it. Compared by ``is``."""

from typing import Final

State = str

HEADING: Final = "heading"
"""Waiting for the two octets of the initiation."""
GREETING: Final = "greeting"
"""Challenge, response, tune, open."""
OPENING: Final = "opening"
OPEN: Final = "open"
CLOSING: Final = "closing"
"""We have sent a close and wait for the peer's."""
LEAVING: Final = "leaving"
"""The peer has closed or broken a rule; our owner still has to answer earlier requests."""
