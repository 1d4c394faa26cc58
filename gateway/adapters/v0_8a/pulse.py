"""The heartbeat of 0.8a2 (document §3.2.5.1, §3.2.7): optional on both sides.

Each side says what it would like. Nobody has to ping; who has pinged once must go on. So a peer
that never pings is never given up for its silence. We ping, as a server, a client that has asked
for it, and as a client a server that has pinged: original programs may not bear it.
"""

from gateway.adapters.options import Limits


class Pulse:
    """``wanted`` is what the peer asked for, in seconds; 0 is nothing."""

    def __init__(self, limits: Limits) -> None:
        self.wanted = 0
        self.heard = self.spoke = True
        self.pinged = False
        """The peer has sent a ping."""
        self._limits = limits
        self._since = self._heard_at = self._spoke_at = self._last = 0.0
        self._closing_since = 0.0
        self._ticking = False

    def look(self, now: float, is_open: bool, is_closing: bool) -> str:
        """Why the connection must be given up, or nothing."""
        limits = self._limits
        if not self._ticking:
            self._ticking = True
            self._since = self._heard_at = self._spoke_at = self._last = now
        if self.heard:
            self._heard_at, self.heard = now, False
        if self.spoke:
            # We only know that it was since the last tick: take the worst for us.
            self._spoke_at, self.spoke = self._last, False
        self._last = now
        if is_closing:
            self._closing_since = self._closing_since or now
            if now - self._closing_since >= limits.close_timeout:
                return "the close was not answered"
        elif not is_open:
            if limits.handshake_timeout and now - self._since >= limits.handshake_timeout:
                return "the handshake took too long"
        elif self.pinged and limits.heartbeat and now - self._heard_at >= 2 * limits.heartbeat:
            return f"nothing was heard for {2 * limits.heartbeat} s"
        return ""

    def due(self, now: float, server: bool) -> bool:
        """Whether a ping should go out now."""
        if not self.wanted or not (server or self.pinged):
            return False
        return now - self._spoke_at >= self.wanted / 2
