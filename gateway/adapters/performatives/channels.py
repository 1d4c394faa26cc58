"""The sessions of one connection by channel number, in both directions (§2.5.1).

The numbers of the two directions have nothing to do with each other. ``sessions`` is by ours,
``by_remote`` by the peer's.
"""

import heapq
from collections.abc import Callable

from gateway.adapters.performatives.links import LinkConnection, SessionHandler
from gateway.adapters.performatives.receiving_link import ReceivingLink
from gateway.adapters.performatives.session import Session
from gateway.adapters.performatives.violation import Violation, framing_error, illegal_state
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import AmqpError
from gateway.errors import LocalError, Lost, PeerError
from gateway.operations import Operation

DRAIN_SECONDS = 1.0
"""Time after which a peer is asked to drain again."""


class Channels:
    """The sessions of a connection; ``new_handler`` makes the handler of each."""

    def __init__(
        self,
        connection: LinkConnection,
        new_handler: Callable[[Session], SessionHandler],
        limit: int,
    ) -> None:
        self.sessions: dict[int, Session] = {}
        self.by_remote: dict[int, Session] = {}
        self.limit = limit
        """The highest number the peer may use."""
        self.limit_out = 0
        """The highest it takes."""
        self.drains: dict[ReceivingLink, float] = {}
        """Links of ours that the peer was asked to drain, with the time to ask again (0: not
        known yet)."""
        self._connection = connection
        self._new_handler = new_handler
        self._remote: dict[int, int] = {}
        self._free: list[int] = []
        self._unused = 0
        self._ended: list[Session] = []
        """Sessions that both ends have ended, whose numbers are not free yet."""

    def open(self, number: int) -> Session:
        """The session on our channel. Raises ``LocalError`` if there is none."""
        session = self.sessions.get(number)
        if session is None:
            raise LocalError(f"channel {number} is not open")
        return session

    def check(self, channel: int) -> None:
        """Raises ``Violation`` for a number above our channel-max (§2.7.1)."""
        if channel > self.limit:
            raise framing_error(f"channel {channel} is above {self.limit}")

    def drain_again(self, now: float) -> None:
        """Ask again after a second: Artemis overhears a drain that comes while it ends the one
        before."""
        for link, due in list(self.drains.items()):
            if not link.draining:
                del self.drains[link]
            elif now >= due:
                self.drains[link] = now + DRAIN_SECONDS
                if due:
                    link.session.write_flow(link)

    def on_begin(self, channel: int, record: w.Begin, found: list[Operation]) -> None:
        """A session of theirs, or the answer to one of ours."""
        self.check(channel)
        if channel in self.by_remote:
            raise illegal_state(f"a session stands on channel {channel} already")
        if record.remote_channel is None:
            session = self.new()
        else:
            ours = self.sessions.get(record.remote_channel)
            if ours is None or record.remote_channel in self._remote:
                text = f"no session of channel {record.remote_channel} waits for a begin"
                raise Violation(AmqpError.NOT_ALLOWED, text)
            session = ours
        self.by_remote[channel] = session
        self._remote[session.number] = channel
        try:
            session.on_begin(record, channel, found)
        except PeerError as violated:
            if violated.lost is Lost.CONNECTION:
                raise
            self._connection.on_violation(violated, channel, found)

    def new(self, number: int | None = None) -> Session:
        """An endpoint on the lowest channel that is free, or on this one. Raises ``Violation`` if
        all are used, ``LocalError`` for one that cannot be."""
        if number is None:
            number = self._lowest()
        elif number in self.sessions or not 0 <= number <= min(self.limit, self.limit_out):
            raise LocalError(f"channel {number} cannot be opened")
        session = Session(self._connection, self, self._new_handler, number)
        self.sessions[number] = session
        return session

    def _lowest(self) -> int:
        while self._free:
            number = heapq.heappop(self._free)
            if number not in self.sessions:
                return number
        while self._unused in self.sessions:
            self._unused += 1
        number = self._unused
        if number > self.limit_out:
            text = f"sessions on more than {self.limit_out + 1} channels"
            raise Violation(AmqpError.RESOURCE_LIMIT_EXCEEDED, text)
        self._unused += 1
        return number

    def ended(self, session: Session) -> None:
        """The peer has ended: its number is free at once, ours is not yet (§2.5.5 END RCVD)."""
        if self.sessions.get(session.number) is session:
            remote = self._remote.pop(session.number, None)
            if remote is not None:
                self.by_remote.pop(remote, None)

    def gone(self, session: Session) -> None:
        """Both ends have ended: free the channel numbers; a server's only when the operations found
        of the session are performed."""
        if self._connection.server:
            self._ended.append(session)
        else:
            self._release(session)

    def release_ended(self) -> None:
        """Free the numbers of the sessions that have ended: the operations found of them are
        performed."""
        while self._ended:
            self._release(self._ended.pop())

    def _release(self, session: Session) -> None:
        self.ended(session)
        if self.sessions.get(session.number) is session:
            del self.sessions[session.number]
            heapq.heappush(self._free, session.number)
            session.retire()

    def mute(self) -> None:
        """Our close is written: nothing may follow it, and input for sessions is discarded."""
        self.by_remote.clear()
        for session in self.sessions.values():
            session.mute()

    def end(self, found: list[Operation]) -> None:
        """The connection is over, and all sessions with it."""
        sessions = list(self.sessions.values())
        self.sessions.clear()
        self._remote.clear()
        self.by_remote.clear()
        for session in sessions:
            session.lost(found)
