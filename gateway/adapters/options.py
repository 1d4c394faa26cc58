"""What the owner of a connection tells its adapter: limits, who we say we are, how to log in."""

import platform
from typing import NamedTuple

from gateway import __version__

MECHANISMS = ("PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "ANONYMOUS", "EXTERNAL")
"""All there are of SASL."""


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


class Product(NamedTuple):
    """How we introduce ourselves. ``name`` names the connection, if we are the client; ``node`` is
    the machine of a cluster that clients of RabbitMQ look for, "" where they do not."""

    product: str = "amqp-gateway"
    version: str = __version__
    platform: str = f"{platform.python_implementation()} {platform.python_version()}"
    information: str = ""
    name: str = ""
    node: str = ""


class Credentials(NamedTuple):
    """How a client-role adapter logs in."""

    user: str = "guest"
    password: str = "guest"
    mechanism: str = "PLAIN"
    identity: str = ""
    """Authorization identity for EXTERNAL, trace text for ANONYMOUS."""
