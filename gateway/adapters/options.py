"""Options of an adapter: limits, product, credentials."""

import platform
from typing import NamedTuple
from uuid import uuid4

from gateway import __version__
from gateway.limits import MECHANISMS as MECHANISMS
from gateway.limits import Limits as Limits

EXTENSIONS = " (Qpid extensions)"
"""Behind the name of our product in 0-8 to 0-10: clients of Qpid use the extensions of Qpid's
brokers only with a server that has Qpid in the name of its product."""


class Product(NamedTuple):
    """How we introduce ourselves. ``name`` names the connection, if we are the client; with
    ``shared`` several connections have it. ``node`` is the machine of a cluster that clients of
    RabbitMQ look for, "" where they do not."""

    product: str = "amqp-gateway"
    version: str = __version__
    platform: str = f"{platform.python_implementation()} {platform.python_version()}"
    information: str = ""
    name: str = ""
    node: str = ""
    shared: bool = False

    @property
    def identity(self) -> str:
        """Name of the container (1.0 §2.4.1) or client (0.8a2). It is the connection's, or one that
        nobody else has: a client has one connection, and a broker may detach a link when a
        container attaches one of the same name again (§2.6.1)."""
        if self.name and not self.shared:
            return self.name
        return f"{self.name[:200] or self.product}-{uuid4()}"


class Credentials(NamedTuple):
    """How a client-role adapter logs in."""

    user: str = "guest"
    password: str = "guest"
    mechanism: str = "PLAIN"
    identity: str = ""
    """Authorization identity for EXTERNAL, trace text for ANONYMOUS."""
