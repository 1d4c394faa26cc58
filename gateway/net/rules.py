"""What goes for the connections of one listener."""

from typing import NamedTuple

from gateway.adapters.options import MECHANISMS
from gateway.adapters.registry import HeaderMeanings, header_meanings

IN_THE_CLEAR = frozenset({"PLAIN", "AMQPLAIN"})
"""Mechanisms that show the password to whoever listens."""


class Rules(NamedTuple):
    """``meanings``: versions by protocol header. ``anonymous_user``: who ANONYMOUS becomes.
    ``require_tls``: "no", "passwords" (none is asked for without TLS), or "yes" (connections
    without TLS are refused)."""

    meanings: HeaderMeanings = header_meanings()
    mechanisms: tuple[str, ...] = MECHANISMS
    anonymous_user: str | None = None
    require_tls: str = "no"

    def offered(self, encrypted: bool) -> tuple[str, ...]:
        """The mechanisms for a connection with TLS, or without."""
        if encrypted or self.require_tls == "no":
            return self.mechanisms
        return tuple(name for name in self.mechanisms if name not in IN_THE_CLEAR)
