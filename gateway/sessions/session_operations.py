"""Operations of one connection on its named sessions (0-10)."""

from collections.abc import Callable
from typing import Any, Protocol

from gateway.broker.channel import Channel
from gateway.errors import Refusal
from gateway.operations import (
    AttachSession,
    BeginSession,
    DetachSession,
    Done,
    KeepSession,
    Operation,
    RequestTimeout,
    SessionTimeout,
)
from gateway.sessions.context import SessionContext
from gateway.sessions.live_channels import LiveChannels
from gateway.sessions.named import Key, NamedSession, NamedSessions, busy
from gateway.sessions.replies import Replies


class Connection(Protocol):
    """The session layer of the connection, as far as its named sessions need it."""

    on_pending: Callable[[], None]

    def follow(self) -> None: ...

    def refuse(self, operation: Any, refusal: Refusal) -> None: ...


class SessionOperations:
    """Attaches, keeps and ends the named sessions of one connection; their ``Holder``."""

    def __init__(
        self,
        context: SessionContext,
        replies: Replies,
        sessions: NamedSessions,
        connection: Connection,
        channels: LiveChannels,
    ) -> None:
        self.leaving = False
        self.waiting = 0
        """Sessions that it waits for: nothing more is read from the peer."""
        self._context = context
        self._replies = replies
        self._sessions = sessions
        self._connection = connection
        self._channels = channels
        self._held: dict[int, NamedSession] = {}
        """By channel."""
        self._resting: set[int] = set()
        """Channels to be kept, whose earlier requests are not answered yet."""

    @property
    def gone(self) -> bool:
        """The connection ends or has ended."""
        return self._context.closed or self._context.adapter.closing or self.leaving

    @property
    def connection(self) -> int:
        """Number of the connection."""
        return self._context.number

    def handlers(self) -> dict[type[Operation], Callable[[Channel, Any], object]]:
        """By operation on a channel: none."""
        return {}

    def on_connection(self) -> dict[type[Operation], Callable[[Any], None]]:
        """Made anew for its caller: kept here, it would be a reference cycle."""
        return {AttachSession: self.attach, KeepSession: self._keep, RequestTimeout: self._timeout}

    def release(self) -> None:
        """The connection is over."""
        del self._connection, self._channels

    # --- attach ---------------------------------------------------------------------------------

    def attach(self, op: AttachSession) -> None:
        """Attach a session, which may be kept. A connection that has it and is gone, or has to give
        it away (``force``), is waited for. Refuses (405) if another connection has it."""
        context = self._context
        found = self._sessions.find(Key(context.vhost, context.user, op.name))
        holder = None if found is None else found.holder
        if found is None or holder is None:
            self.take(op)
        elif holder.leaving or op.force:
            found.waiting.append((self, op))
            self.waiting += 1
            if not holder.leaving:
                holder.detach(found.number)
        else:
            self._connection.refuse(op, busy(op.name))

    def go_on(self, op: AttachSession, first: bool) -> None:
        """The session that was waited for is free, or for the ``first`` of those that wait."""
        self.waiting -= 1
        if first:
            self.take(op)
        else:
            self.attach(op)
        self._connection.on_pending()

    def take(self, op: AttachSession) -> None:
        """Attach a session that no connection has."""
        context, number = self._context, op.channel
        if context.adapter.closing or not context.vhost:
            return
        key = Key(context.vhost, context.user, op.name)
        session, state = self._sessions.hold(key, self, number)
        channel, session.channel = session.channel, None
        self._held[number] = session
        context.adapter.send(Done(number, op.token, state))
        if state is None or channel is None:
            self._channels.begin(BeginSession(number, None))
        elif not context.adapter.closing:
            self._channels.rejoin(number, channel)
        session.channel = context.channels.get(number)
        if session.channel is None:  # the octets behind the request were a violation
            self.ended(number)
            if channel is not None:
                channel.close()
        self._connection.follow()

    def _timeout(self, op: RequestTimeout) -> None:
        session = self._held.get(op.channel)
        seconds = 0 if session is None else self._sessions.grant(session, op.seconds)
        self._replies.answer(op.channel, op.token, SessionTimeout(seconds, self._sessions.room))

    # --- detach ---------------------------------------------------------------------------------

    def detach(self, number: int) -> None:
        self._context.adapter.send(DetachSession(number))
        self._connection.follow()

    def _keep(self, op: KeepSession) -> None:
        number = op.channel
        self._resting.discard(number)
        channel = self._context.channels.pop(number, None)
        session = self._held.pop(number, None)
        if session is not None and channel is not None and not channel.window.closed:
            self._sessions.keep(session, channel, op)
        elif session is not None:
            self._sessions.free(session)
        self._replies.answer(number, op.token)

    def ended(self, number: int) -> None:
        """A session has ended."""
        session = self._held.pop(number, None)
        if session is not None:
            self._sessions.free(session)

    def channel_ended(self, number: int, channel: Channel) -> None:
        """A session has ended with its channel."""
        self.ended(number)

    def closed(self) -> None:
        """The connection has ended, and all of its sessions that are not kept."""
        for number in list(self._held):
            self.ended(number)

    # --- a connection that is gone ---------------------------------------------------------------

    def lost(self, operations: list[Operation]) -> bool:
        """The connection ends; these are its last operations, besides those that are deferred.
        Whether it has to wait for answers to sessions that are to be kept."""
        self.leaving = True
        left = (*operations, *self._replies.all_deferred())
        self._resting |= {op.channel for op in left if isinstance(op, KeepSession)}
        return self.resting

    @property
    def resting(self) -> bool:
        """Earlier requests of sessions that are to be kept are not answered yet."""
        return bool(self._resting & self._context.channels.keys())
