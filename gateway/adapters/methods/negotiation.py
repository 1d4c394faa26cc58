"""Rules of the handshake that all versions share."""

from typing import Any

from gateway.adapters.methods.geometry import Version
from gateway.errors import Condition, PeerError


def smaller(one: int, other: int) -> int:
    """The smaller limit, where 0 is none."""
    return min(one, other) if one and other else one or other


def check_server_version(start: Any, table: Version) -> None:
    """Client: raise ``PeerError`` if the server's connection.start has another version."""
    if (start.version_major, start.version_minor) != (table.major, table.minor):
        raise PeerError(
            Condition.NOT_IMPLEMENTED,
            f"the server speaks {start.version_major}-{start.version_minor}, not {table.name}",
        )
