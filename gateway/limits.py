"""Limits and login mechanisms of one AMQP connection, declared once for the adapters that enforce
them and the configuration that sets them."""

from typing import Literal, NamedTuple

Mechanism = Literal["PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "EXTERNAL", "ANONYMOUS"]
MECHANISMS: tuple[Mechanism, ...] = ("PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "EXTERNAL", "ANONYMOUS")
"""All supported SASL mechanisms, in the order in which they are offered."""


class Limits(NamedTuple):
    """Limits that are accepted and proposed. Sizes are octets, times are seconds; 0 means no limit
    (or never)."""

    frame_max: int = 131_072
    """Largest frame, including its header and end octet."""
    channel_max: int = 2_047
    heartbeat: int = 60
    """Proposed heartbeat interval; the client decides."""
    max_message_octets: int = 128 * 1024 * 1024
    """Largest body. A larger one is refused before any of it is stored."""
    handshake_timeout: float = 10.0
    """Time from the first tick to an open connection."""
    close_timeout: float = 5.0
    """Time to wait for the reply to a close that the gateway sent."""
    synch: bool = False
    """Answer SYNCHREQ (0-9a0) with a method that the specification names but does not number."""
