"""Heartbeats both ways, and time limits of handshake and close."""

from enum import Enum

from gateway.adapters.options import Limits


class Due(Enum):
    """The action that is due."""

    NOTHING = 0
    BEAT = 1
    """Send a heartbeat, or the peer might give us up."""
    SILENT = 2
    """The peer has been silent for too long."""
    UNOPENED = 3
    """The handshake has taken too long."""
    UNCLOSED = 4
    """Our close was not answered in time."""


class Heartbeat:
    """Heartbeats of one connection, in seconds; ``look`` is called about once a second."""

    def __init__(self, limits: Limits) -> None:
        self.interval = 0.0
        """The peer expects a frame in each interval, 0: none. We send one after half of it."""
        self.patience = 0.0
        """Tolerated silence of the peer, 0: any."""
        self.heard = self.spoke = True
        """Whether frames were received and sent since the last look."""
        self._limits = limits
        self._started = False
        self._since = self._closing_since = 0.0
        self._last_heard = self._last_spoke = self._last = 0.0

    def excuse_silence(self) -> None:
        """We did not read: the peer counts as heard."""
        self.heard = True

    def elapsed(self, now: float) -> float:
        """Seconds since the last look, 0 before the first."""
        return now - self._last if self._started else 0.0

    def look(self, now: float, opened: bool, closing: bool) -> Due:
        """The action that is due at ``now`` (monotonic)."""
        if not self._started:
            self._started = True
            self._since = self._last_heard = self._last_spoke = self._last = now
        if self.heard:
            self._last_heard, self.heard = now, False
        if self.spoke:
            # The time is not known: assume the earliest, just after the last look.
            self._last_spoke, self.spoke = self._last, False
        self._last = now
        limits = self._limits
        if closing:
            self._closing_since = self._closing_since or now
            late = now - self._closing_since >= limits.close_timeout
            return Due.UNCLOSED if late else Due.NOTHING
        if not opened:
            expired = limits.handshake_timeout and now - self._since >= limits.handshake_timeout
            return Due.UNOPENED if expired else Due.NOTHING
        if self.patience and now - self._last_heard >= self.patience:
            return Due.SILENT
        if self.interval and now - self._last_spoke >= self.interval / 2:
            return Due.BEAT
        return Due.NOTHING
