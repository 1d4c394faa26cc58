"""Options of an adapter: limits, product, credentials."""

import platform
from typing import NamedTuple

from gateway import __version__
from gateway.limits import MECHANISMS as MECHANISMS
from gateway.limits import Limits as Limits

EXTENSIONS = " (Qpid extensions)"
"""Behind the name of our product in 0-8 to 0-10: clients of Qpid use the extensions of Qpid's
brokers only with a server that has Qpid in the name of its product."""


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
