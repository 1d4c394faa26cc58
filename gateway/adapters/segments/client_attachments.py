"""Client role: sessions are attached and detached, under unique names."""

from collections.abc import Callable
from typing import Any, Protocol
from uuid import uuid4

from gateway.adapters.segments.attachments import HANDLERS
from gateway.adapters.segments.client_commands import TAKE
from gateway.adapters.segments.client_session import ClientEngine, ClientSession
from gateway.adapters.segments.frames import Frames
from gateway.adapters.segments.lifecycle import State as LifeState
from gateway.adapters.segments.replay import ReplayLog
from gateway.adapters.segments.resumption import replay
from gateway.adapters.segments.session_state import State
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import DetachCode
from gateway.errors import Condition, LocalError
from gateway.operations import (
    AttachSession,
    BeginSession,
    EndSession,
    KeepSession,
    Operation,
    Refused,
    ReplayRoom,
)

REASONS = {
    DetachCode.NORMAL: (Condition.CONNECTION_FORCED, "the server has detached the session"),
    DetachCode.SESSION_BUSY: (Condition.RESOURCE_LOCKED, "the session is attached elsewhere"),
    DetachCode.TRANSPORT_BUSY: (Condition.CHANNEL_ERROR, "the channel has a session"),
    DetachCode.NOT_ATTACHED: (Condition.CHANNEL_ERROR, "the channel has no session"),
    DetachCode.UNKNOWN_IDS: (Condition.CHANNEL_ERROR, "unknown command numbers"),
}
"""Of the codes of session.detached."""


class AttachingEngine(ClientEngine, Protocol):
    """The engine, as far as this part needs it."""

    frames: Frames

    @property
    def sessions(self) -> dict[int, Any]: ...

    def session(self, channel: int) -> Any: ...

    def write_control(self, channel: int, record: Any) -> None: ...


class ClientAttachments:
    """The sessions of one connection, as their controls need them."""

    def __init__(self, engine: AttachingEngine) -> None:
        self._engine = engine

    def begin(self, op: BeginSession) -> None:
        """Attach a session, which is to end with its connection."""
        self._attach(op, str(uuid4()).encode())

    def attach(self, op: AttachSession) -> None:
        """Attach a session that may outlive its connection, or one that has."""
        session = op.state
        if not isinstance(session, ClientSession):
            self._attach(op, op.name or str(uuid4()).encode(), op.force, op.seconds)
            return
        self._check(op.channel)
        session.rejoin(self._engine, op.channel, op.token)
        self._engine.sessions[op.channel] = session
        session.send_control(w.SessionAttach(session.name, op.force))
        session.send_control(w.SessionFlush(expected=True, completed=True))

    def _check(self, number: int) -> None:
        engine = self._engine
        if engine.life.state is not LifeState.OPEN:
            raise LocalError("the connection is not open")
        if number in engine.sessions or not 0 < number < engine.frames.channels:
            raise LocalError(f"channel {number} cannot be opened")

    def _attach(
        self, op: BeginSession | AttachSession, name: bytes, force: bool = False, seconds: int = 0
    ) -> None:
        engine, number = self._engine, op.channel
        self._check(number)
        session = ClientSession(number, name, engine, op.token, TAKE)
        if seconds:
            session.log = ReplayLog(0, ReplayRoom())
        engine.sessions[number] = session
        session.send_control(w.SessionAttach(name, force))
        session.send_control(w.SessionRequestTimeout(seconds))
        session.send_control(w.SessionCommandPoint(0, 0))

    def end(self, op: EndSession) -> None:
        """Detach a session."""
        session: ClientSession = self._engine.session(op.channel)
        if session.state is not State.ATTACHED:
            raise LocalError(f"channel {op.channel} is {session.state.value}")
        session.tell_due()
        session.ending = op
        session.state = State.ENDING
        session.send_control(w.SessionDetach(session.name))

    def leave(self, session: ClientSession) -> list[Operation]:
        """The connection ends: the operations that keep the session, if it is to be kept. Requests
        that are under way are answered when it is attached again."""
        if not session.timeout or session.state not in (State.ATTACHING, State.ATTACHED):
            return []
        found: list[Operation] = []
        if session.opening is not None:
            text = "the connection is gone"
            refused = session.number, session.opening, Condition.CONNECTION_FORCED, text
            found.append(Refused(*refused))
        session.leave()
        return [*found, KeepSession(session.number, None, session)]

    def not_attached(self, channel: int) -> None:
        """No-op: a command comes behind the end of its session."""

    def on_control(self, channel: int, m: Any, found: list[Operation]) -> None:
        """A control of a session."""
        name = m.NAME
        session: ClientSession | None = self._engine.sessions.get(channel)
        if session is None:
            if name in ("session.attach", "session.detach"):
                record = w.SessionDetached(m.name or b"", DetachCode.NOT_ATTACHED)
                self._engine.write_control(channel, record)
        elif name == "session.attached":
            if session.state is State.ATTACHING:
                session.state = State.ATTACHED
                if session.log is None:
                    session.opened(None, found)
        elif name == "session.timeout":
            session.granted(m.timeout or 0)
            session.opened(session.timeout, found)
        elif name == "session.expected" and not session.linked:
            self._expected(session, m, found)
        elif name in ("session.detach", "session.detached"):
            code = DetachCode.NORMAL
            if name == "session.detach":
                session.send_control(w.SessionDetached(session.name, code))
            else:
                code = m.code or code
            self._remove(session)
            session.detached(REASONS.get(code, REASONS[DetachCode.NORMAL]), found)
        elif name == "session.request-timeout":
            session.send_control(w.SessionTimeout(0))
        elif session.state is State.ATTACHED:
            handle: Callable[[Any, Any, list[Operation]], None] | None = HANDLERS.get(name)
            if handle is not None:
                handle(session, m, found)

    def _expected(self, session: ClientSession, m: Any, found: list[Operation]) -> None:
        """The server says which commands it lacks; none if it has forgotten the session."""
        if m.commands:
            replay(session, m, found)
        else:
            session.lose_state(found)
        if session.linked:
            session.opened(session.timeout, found)

    def _remove(self, session: ClientSession) -> None:
        del self._engine.sessions[session.number]
        self._engine.frames.forget(session.number)
