"""What is due when: signs of life, the peer's silence (§2.4.5), handshake and close."""

from enum import Enum

from gateway.adapters.options import Limits


class Due(Enum):
    """What has to be done now."""

    NOTHING = 0
    BEAT = 1
    """An empty frame, so that the peer hears from us."""
    SILENT = 2
    """Nothing was heard for too long."""
    UNOPENED = 3
    """The handshake has taken too long."""
    UNCLOSED = 4
    """Our close was not answered in time."""


class Clock:
    """Seconds; looked at once in about a second. Our idle-time-out is half of what we bear, as
    §2.4.5 advises; of the peer's we use half."""

    def __init__(self, limits: Limits) -> None:
        self.idle_out = 0.0
        """The peer's idle-time-out in seconds, 0 if it has none."""
        self.heard = self.spoke = True
        """Since the last look."""
        self.patience = 2.0 * limits.heartbeat
        """Seconds of silence that we bear, 0: any."""
        self._limits = limits
        self._started = False
        self._since = self._closing_since = 0.0
        self._last_heard = self._last_spoke = self._last = 0.0

    def look(self, now: float, opened: bool, closing: bool) -> Due:
        """What is due at ``now``."""
        if not self._started:
            self._started = True
            self._since = self._last_heard = self._last_spoke = self._last = now
        if self.heard:
            self._last_heard, self.heard = now, False
        if self.spoke:
            # We only know that it was since the last look: take the worst for us.
            self._last_spoke, self.spoke = self._last, False
        self._last = now
        limits = self._limits
        if closing:
            self._closing_since = self._closing_since or now
            return (
                Due.UNCLOSED if now - self._closing_since >= limits.close_timeout else Due.NOTHING
            )
        if not opened:
            late = limits.handshake_timeout and now - self._since >= limits.handshake_timeout
            return Due.UNOPENED if late else Due.NOTHING
        if self.patience and now - self._last_heard >= self.patience:
            return Due.SILENT
        if self.idle_out and now - self._last_spoke >= self.idle_out / 2:
            return Due.BEAT
        return Due.NOTHING


__all__ = ["Clock", "Due"]
