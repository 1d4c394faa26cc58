"""Opens ports."""

import socket

from gateway.errors import ConfigError

STALL_MS = 30_000
"""Time in milliseconds that sent octets may stay unacknowledged on an HTTP connection."""


def opened(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens. Raises ``ConfigError`` if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None


def listen_http(host: str, port: int) -> socket.socket:
    """The HTTP socket. Raises ``ConfigError`` if the address is taken."""
    listening = opened(host, port, 2048)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # An event stream to a peer that has vanished ends by this; accepted sockets inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALL_MS)
    return listening
