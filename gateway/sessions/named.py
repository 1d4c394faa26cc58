"""Sessions with a name, of all connections (0-10): those that are attached, and those that are kept
for another connection.

A name belongs to one user in one virtual host. A session that is kept has its channel of the
broker, paused, with its consumers, unsettled deliveries and transaction, and the state of its
adapter.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from gateway.broker.channel import Channel
from gateway.errors import Condition, Lost, Refusal
from gateway.operations import AttachSession, KeepSession, ReplayRoom, SessionLimits
from gateway.sessions.recipient import ChannelRecipient


class Key(NamedTuple):
    """Identity of a session."""

    vhost: str
    user: str
    name: bytes


class Holder(Protocol):
    """The connection to which a session is attached."""

    leaving: bool
    """It is gone, and its sessions come to rest before they are kept."""

    @property
    def gone(self) -> bool: ...

    @property
    def connection(self) -> int: ...

    def detach(self, number: int) -> None:
        """Another connection takes a session over."""
        ...

    def go_on(self, op: AttachSession, first: bool) -> None:
        """A session that it waits for is free, or kept, for the ``first`` of those that wait."""
        ...


class NamedSession:
    """``holder`` and ``number`` (of its channel) are those of its connection; while it is kept,
    ``holder`` is ``None``, and ``kept`` is set."""

    def __init__(self, sessions: "NamedSessions", key: Key, number: int) -> None:
        self.sessions = sessions
        self.id = number
        """In this process."""
        self.key = key
        self.holder: Holder | None = None
        self.number = 0
        self.seconds = 0
        """How long it is kept."""
        self.channel: Channel | None = None
        self.kept: KeepSession | None = None
        self.since = 0
        """When it was last detached, in ms since 1970."""
        self.waiting: list[tuple[Holder, AttachSession]] = []
        """Connections that take it over as soon as its holder has let go of it."""
        self.due: int | None = None

    @property
    def consumers(self) -> int:
        """Number of its subscriptions."""
        return 0 if self.channel is None else len(self.channel.window.consumers)

    @property
    def unsettled(self) -> int:
        """Number of its unsettled deliveries."""
        return 0 if self.channel is None else len(self.channel.window.unsettled)

    def on_due(self) -> None:
        """Its timeout is over, unless it was attached again."""
        if self.kept is not None:
            self.sessions.end(self)

    def lost_queue(self, tag: str) -> None:
        """The queue of a subscription is deleted while the session is kept: it ends, after the
        queue."""
        if self.channel is not None:
            state = self.channel.broker.state
            state.schedule(self, state.now)


class NamedSessions:
    """The registry."""

    def __init__(self, limits: SessionLimits = SessionLimits()) -> None:  # noqa: B008
        self.room = ReplayRoom(limits)
        self.limit(limits)
        self._last = 0
        self.resumed = 0
        """Sessions ever attached again, by this process."""
        self.expired = 0
        """Sessions that ended while they were kept."""
        self._by_key: dict[Key, NamedSession] = {}
        self._granted: Counter[str] = Counter()
        """Number of sessions with a timeout, by user."""

    def limit(self, limits: SessionLimits) -> None:
        """Change the limits, for sessions that are attached from now on."""
        self.limits = self.room.limits = limits

    def __iter__(self) -> Iterator[NamedSession]:
        return iter(list(self._by_key.values()))

    @property
    def kept(self) -> list[NamedSession]:
        """Those that no connection has."""
        return [each for each in self if each.kept is not None]

    def find(self, key: Key) -> NamedSession | None:
        return self._by_key.get(key)

    # --- attached -------------------------------------------------------------------------------

    def hold(self, key: Key, holder: Holder, number: int) -> tuple[NamedSession, Any]:
        """A connection attaches a session that no other has: the session, and the state with which
        it was kept, ``None`` for a new one."""
        found = self._by_key.get(key)
        if found is not None and (found.channel is None or found.channel.window.closed):
            self.end(found)  # its virtual host was deleted
            found = None
        if found is None:
            self._last += 1
            found = self._by_key[key] = NamedSession(self, key, self._last)
        kept, found.kept = found.kept, None
        found.holder, found.number, found.due = holder, number, None
        if kept is None:
            return found, None
        self.resumed += 1
        return found, kept.state

    def grant(self, session: NamedSession, seconds: int | None) -> int:
        """The timeout that a session gets: as much as is allowed, 0 if too many have one."""
        limits, user = self.limits, session.key.user
        granted = limits.seconds if seconds is None else min(seconds, limits.seconds)
        if granted and not session.seconds:
            total, own = self._granted.total(), self._granted[user]
            full = total >= limits.sessions or own >= limits.user_sessions
            granted = 0 if full else granted
        self._granted[user] += bool(granted) - bool(session.seconds)
        if not self._granted[user]:
            del self._granted[user]
        session.seconds = granted
        return granted

    def keep(self, session: NamedSession, channel: Channel, op: KeepSession) -> None:
        """Its connection has let go of it: another may attach it until its timeout is over."""
        session.holder = None
        session.channel, session.kept = channel, op
        client, state = channel.client, channel.broker.state
        recipient = channel.recipient
        assert isinstance(recipient, ChannelRecipient)
        recipient.leave(session.lost_queue)
        client.keep(channel)
        session.since = state.now
        if session.waiting:
            self._hand_over(session)
        elif session.seconds and channel.broker.access.user(session.key.user) is not None:
            state.schedule(session, state.now + 1000 * session.seconds)
        else:
            self.end(session)

    def free(self, session: NamedSession) -> None:
        """It has ended on its connection."""
        if self._by_key.get(session.key) is session:
            del self._by_key[session.key]
        self.grant(session, 0)
        session.holder = session.channel = session.kept = session.due = None
        if session.waiting:
            self._hand_over(session)

    def _hand_over(self, session: NamedSession) -> None:
        """The first of those that wait has it; the others try again."""
        waiting, session.waiting = session.waiting, []
        alive = [(holder, op) for holder, op in waiting if not holder.gone]
        if not alive:
            if session.kept is not None:
                self.keep(session, session.channel, session.kept)  # type: ignore[arg-type]
            return
        for index, (holder, op) in enumerate(alive):
            holder.go_on(op, first=index == 0)

    # --- the end --------------------------------------------------------------------------------

    def end(self, session: NamedSession) -> None:
        """A session that is kept ends: its deliveries go back, its queues are deleted."""
        channel, kept = session.channel, session.kept
        self.expired += 1
        self.free(session)
        if channel is None or kept is None:
            return
        kept.state.mark_ended()
        channel.close()
        recipient = channel.recipient
        assert isinstance(recipient, ChannelRecipient)
        recipient.part()

    def user_removed(self, user: str) -> None:
        """End the kept sessions of a deleted user."""
        for session in self.kept:
            if session.key.user == user:
                self.end(session)


def busy(name: bytes) -> Refusal:
    """Another connection of the user has the session."""
    text = f"session {name!r} is attached to another connection"
    return Refusal(Condition.RESOURCE_LOCKED, text, Lost.NOTHING)
