"""Limits of one AMQP connection, and what it may log in with: declared once, for the adapters that
keep to them and for the configuration that sets them."""

from typing import Literal, NamedTuple

Mechanism = Literal["PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "EXTERNAL", "ANONYMOUS"]
MECHANISMS: tuple[Mechanism, ...] = ("PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "EXTERNAL", "ANONYMOUS")
"""All there are of SASL, in the order in which they are offered."""


class Limits(NamedTuple):
    """What we accept and propose. Sizes are octets, times seconds; 0 is no limit (or: never)."""

    frame_max: int = 131_072
    """Largest frame, counted with its header and end."""
    channel_max: int = 2_047
    heartbeat: int = 60
    """What we propose; the client decides."""
    max_message_octets: int = 128 * 1024 * 1024
    """Largest body; a larger one is refused before any of it is kept."""
    handshake_timeout: float = 10.0
    """From the first tick to an open connection."""
    close_timeout: float = 5.0
    """How long our close may wait for its answer."""
    synch: bool = False
    """Answer SYNCHREQ (0-9a0) with a method that the document names and does not number."""
