"""The end of a socket behind the last octets of the gateway."""

import asyncio
from typing import Protocol

LINGER_SECONDS = 2.0
"""How long a peer may take to hang up after our last octets. Closing earlier, with octets of the
peer unread, would reset the connection and could lose our last octets (RFC 1122 §4.2.2.13)."""

HANGUP_SECONDS = 1.0
"""How long a peer that has closed the connection may take to hang up first: clients report an
aborted connection if the end of the stream comes with our answer."""
MOST_HANGUPS = 256
"""Connections of one listener that may wait that long at a time."""


class Owner(Protocol):
    """The listener of the connection."""

    closing: bool
    hangups: int
    """Connections that their peer has closed, but not yet the socket."""


class HangUp:
    """Ends our half of a connection after its last octets, and waits for the peer to end the other.

    ``begun``: nothing of the peer matters any more."""

    __slots__ = ("begun", "_owner", "_transport", "_hangup_timer", "_linger_timer")

    def __init__(self, owner: Owner) -> None:
        self.begun = False
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._hangup_timer: asyncio.TimerHandle | None = None
        """Ends our half of the connection, unless the peer hangs up before."""
        self._linger_timer: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport, peer_closed: bool) -> None:
        """End the connection. A peer that has closed it itself has a moment to hang up first."""
        self.begun = True
        self._transport = transport
        owner = self._owner
        if peer_closed and owner.hangups < MOST_HANGUPS and not owner.closing:
            owner.hangups += 1
            loop = asyncio.get_running_loop()
            self._hangup_timer = loop.call_later(HANGUP_SECONDS, self._end_output)
        else:
            self._end_output()

    def hurry(self) -> bool:
        """Whether the peer had that moment, which is over now."""
        waiting = self._hangup_timer is not None
        if waiting:
            self._end_output()
        return waiting

    def lost(self) -> None:
        """The socket has been closed."""
        self._stop_hangup_timer()
        self._transport = None
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _stop_hangup_timer(self) -> None:
        if self._hangup_timer is not None:
            self._hangup_timer.cancel()
            self._hangup_timer = None
            self._owner.hangups -= 1

    def _end_output(self) -> None:
        """Nothing more is written."""
        self._stop_hangup_timer()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        waiting, half = transport.get_write_buffer_size(), transport.can_write_eof()
        (transport.write_eof if half else transport.close)()
        if half or waiting:
            self._wait_for_end(waiting)

    def _wait_for_end(self, waiting: int) -> None:
        loop = asyncio.get_running_loop()
        self._linger_timer = loop.call_later(LINGER_SECONDS, self._end_linger, waiting)

    def _end_linger(self, waiting: int) -> None:
        """Drop a peer that has not hung up in time, unless it is still reading."""
        transport = self._transport
        if transport is None:
            return
        left = transport.get_write_buffer_size()
        if not left:
            transport.close()
        elif left < waiting:
            self._wait_for_end(left)
        else:
            transport.abort()
