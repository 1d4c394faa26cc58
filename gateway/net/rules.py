"""What goes for the connections of one listener."""

from typing import NamedTuple

from gateway.adapters.options import MECHANISMS

IN_THE_CLEAR = frozenset({"PLAIN", "AMQPLAIN"})
"""Mechanisms that show the password to whoever listens."""


class Rules(NamedTuple):
    """``header_0_9``: the version that AMQP 1 1 0 9 means. ``anonymous_user``: who ANONYMOUS
    becomes. ``require_tls``: "no", "passwords" (none is asked for without TLS), or "yes" (who
    comes without TLS is refused)."""

    header_0_9: str = "0-9"
    mechanisms: tuple[str, ...] = MECHANISMS
    anonymous_user: str | None = None
    require_tls: str = "no"

    def offered(self, encrypted: bool) -> tuple[str, ...]:
        """The mechanisms for a connection with TLS, or without."""
        if encrypted or self.require_tls == "no":
            return self.mechanisms
        return tuple(name for name in self.mechanisms if name not in IN_THE_CLEAR)
