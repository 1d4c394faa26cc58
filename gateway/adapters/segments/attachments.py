"""Controls of sessions: attach, detach, numbers, completion.

Whether a name is free, or its session kept, is known to the owner of the adapter: nothing is read
behind an attach until it has answered.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from gateway.adapters.segments.completion import OFTEN, SERIALS, unwrapped
from gateway.adapters.segments.frames import Frames
from gateway.adapters.segments.resumption import grant, leave, rejoin, replay
from gateway.adapters.segments.server import ANSWERS, BATCHED, SERVE
from gateway.adapters.segments.session import EMPTY_ARRAY, Session
from gateway.adapters.segments.session_state import SessionEngine, State
from gateway.adapters.segments.violation import framing_error
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import DetachCode
from gateway.errors import Condition
from gateway.operations import (
    AttachSession,
    Done,
    EndSession,
    Operation,
    Outcome,
    Refused,
    RequestTimeout,
    SessionLost,
    SettleMany,
)


class AttachmentEngine(SessionEngine, Protocol):
    """The engine, as far as this part needs it."""

    frames: Frames

    @property
    def sessions(self) -> dict[int, Session]: ...

    def write_control(self, channel: int, record: Any) -> None: ...


class AttachToken(NamedTuple):
    """The token of ``AttachSession``."""

    attachments: "Attachments"
    channel: int
    name: bytes

    def done(self, op: Done) -> None:
        self.attachments.resume(partial(self.attachments.attached, self, op.result))

    def refused(self, op: Refused) -> None:
        self.attachments.resume(partial(self.attachments.busy, self))


class TimeoutToken(NamedTuple):
    """The token of ``RequestTimeout``."""

    session: Session

    def done(self, op: Done) -> None:
        grant(self.session, op.result)
        if self.session.state is State.ATTACHED:
            self.session.send_control(w.SessionTimeout(op.result.seconds))

    def refused(self, op: Refused) -> None:
        """It has no channel any more."""


class EndToken(NamedTuple):
    """The token of ``EndSession`` and ``KeepSession``."""

    attachments: "Attachments"
    session: Session

    def done(self, op: Done) -> None:
        self.attachments.detached(self.session)

    def refused(self, op: Refused) -> None:
        self.attachments.detached(self.session)


class Attachments:
    """The sessions of one connection, as their controls need them."""

    def __init__(self, engine: AttachmentEngine) -> None:
        self._engine = engine

    def on_control(self, channel: int, m: Any, found: list[Operation]) -> None:
        """A control of a session."""
        name = m.NAME
        if name == "session.attach":
            self._attach(channel, m, found)
            return
        session = self._engine.sessions.get(channel)
        if session is None:
            if name == "session.detach":
                self.not_attached(channel, m.name or b"")
        elif name == "session.detached":
            self._remove(session)
            if session.state is not State.DETACHING:
                found.append(
                    SessionLost(channel, Condition.CONNECTION_FORCED, "the client has detached")
                )
            session.mark_ended()
        elif name == "session.detach":
            self._detach(session, found)
        elif session.state in (State.ATTACHED, State.ENDING):
            handle = SERVER_HANDLERS.get(name)
            if handle is not None:
                handle(session, m, found)

    def not_attached(self, channel: int, name: bytes = b"") -> None:
        """A command or a detach on a channel without a session."""
        self._engine.write_control(channel, w.SessionDetached(name, DetachCode.NOT_ATTACHED))

    def _attach(self, channel: int, m: w.SessionAttach, found: list[Operation]) -> None:
        engine = self._engine
        sessions, name = engine.sessions, m.name or b""
        if channel >= engine.frames.channels:
            violation = framing_error(f"channel {channel} of {engine.frames.channels}", channel)
            engine.frames.stop()
            engine.life.violated(violation, found)
            return
        old = sessions.get(channel)
        if old is not None and old.state is not State.DETACHING:
            if old.name == name and old.state is State.ATTACHED:
                old.send_control(w.SessionAttached(name))
                return
            code = DetachCode.TRANSPORT_BUSY
            self._engine.write_control(channel, w.SessionDetached(name, code))
            return
        engine.frames.waiting = True
        token = AttachToken(self, channel, name)
        found.append(AttachSession(channel, token, name, m.force))

    def resume(self, act: Callable[[list[Operation]], None]) -> None:
        """The answer to an attach: go on reading."""
        self._engine.life.resume(act)

    def busy(self, token: AttachToken, found: list[Operation]) -> None:
        """Another connection has the session."""
        code = DetachCode.SESSION_BUSY
        self._engine.write_control(token.channel, w.SessionDetached(token.name, code))

    def attached(self, token: AttachToken, kept: Any, found: list[Operation]) -> None:
        """The session belongs to this connection; ``kept`` is one that has been attached before."""
        engine, channel = self._engine, token.channel
        old = engine.sessions.get(channel)
        if old is not None:
            old.mark_ended()
            engine.frames.forget(channel)
        if isinstance(kept, Session):
            engine.sessions[channel] = kept
            rejoin(kept, engine, channel)
            return
        session = Session(channel, token.name, engine, SERVE, ANSWERS, BATCHED)
        engine.sessions[channel] = session
        session.send_control(w.SessionAttached(token.name))
        session.send_control(w.SessionCommandPoint(0, 0))

    def leave(self, session: Session) -> list[Operation]:
        """The connection ends: the operations that keep the session, if it is to be kept."""
        return leave(session)

    def give_up(self, session: Session) -> None:
        """Another connection attaches the session. One that ends already is free soon."""
        if session.state is not State.ATTACHED:
            return
        session.send_control(w.SessionDetached(session.name, DetachCode.SESSION_BUSY))
        found = leave(session)
        if not found:
            text = "another attach has forced it"
            session.flush_unsafe(found)
            found.append(SessionLost(session.number, Condition.CONNECTION_FORCED, text))
            session.mark_ended()
        self._remove(session)
        self._engine.life.follow(*found)

    def _detach(self, session: Session, found: list[Operation]) -> None:
        """The client ends the session: its own queues go with it."""
        if session.state is not State.ATTACHED:
            if session.state is State.DETACHING:  # both sides at once
                session.send_control(w.SessionDetached(session.name, DetachCode.NORMAL))
                self._remove(session)
                session.mark_ended()
            return
        token = EndToken(self, session)
        if kept := leave(session, token):
            found += kept
            return
        session.flush_unsafe(found)
        session.state = State.ENDING
        found.append(EndSession(session.number, token))

    def detached(self, session: Session) -> None:
        """The session that the client has detached has ended, or is kept; another connection may
        have it already."""
        engine, number = self._engine, session.number
        if session.state is State.ENDING:
            engine.tell_due()
            session.send_control(w.SessionDetached(session.name, DetachCode.NORMAL))
            self._remove(session)
            session.mark_ended()
        elif engine.sessions.get(number) is session:
            engine.write_control(number, w.SessionDetached(session.name, DetachCode.NORMAL))
            self._remove(session)

    def _remove(self, session: Session) -> None:
        sessions = self._engine.sessions
        if sessions.get(session.number) is session:
            del sessions[session.number]
            self._engine.frames.forget(session.number)


# --- other controls ------------------------------------------------------------------------------


def _command_point(session: Session, m: w.SessionCommandPoint, found: list[Operation]) -> None:
    """Where the numbers of the client go on. It may repeat commands that have come, but not leave
    out any."""
    if m.command_offset or not session.received.point(m.command_id or 0):
        session.lose(found, DetachCode.UNKNOWN_IDS)
    else:
        session.pointed = session.received.plain


def _flush(session: Session, m: w.SessionFlush, found: list[Operation]) -> None:
    """Every part is answered, also by an empty set."""
    session.flush_unsafe(found)
    received = session.received
    if m.expected:
        following = received.following & SERIALS
        known = received.any or session.sent or not session.linked
        commands = ((following, following),) if known else ()  # none: a new session
        session.send_control(w.SessionExpected(commands, EMPTY_ARRAY))
    if m.confirmed or m.completed:
        session.flushed(m.confirmed)


def _gap(session: Session, m: w.SessionGap, found: list[Operation]) -> None:
    """Commands that never come count as complete; those that have come are not affected."""
    if not session.received.skip(m.commands):
        session.lose(found, DetachCode.UNKNOWN_IDS)
    elif session.pointed:
        session.pointed = session.received.plain


def _known_completed(session: Session, m: w.SessionKnownCompleted, found: list[Operation]) -> None:
    session.received.known(m.commands)


def _request_timeout(session: Session, m: w.SessionRequestTimeout, found: list[Operation]) -> None:
    """The owner of the adapter decides how long the session is kept."""
    found.append(RequestTimeout(session.number, TimeoutToken(session), m.timeout))


def _completed(session: Session, m: w.SessionCompleted, found: list[Operation]) -> None:
    """The peer must hear sometime that we know it ("known-completed-reply"): when it asks, and
    when the set has grown."""
    session.on_completed(m, found)
    ranges = unwrapped(m.commands, session.sent)
    if m.timely_reply or (ranges and ranges[-1][1] - session.known >= OFTEN):
        session.known = max([session.known, *(last for _, last in ranges)])
        session.send_control(w.SessionKnownCompleted(m.commands))


def _completed_by_client(session: Session, m: w.SessionCompleted, found: list[Operation]) -> None:
    """It is also done with messages that it has browsed with accept-mode none."""
    if session.browsed is not None:
        seen = session.browsed.take(unwrapped(m.commands, session.sent))
        if seen:
            found.append(SettleMany(session.number, list(seen.values()), Outcome.UNDO))
    _completed(session, m, found)


HANDLERS: Mapping[str, Callable[[Session, Any, list[Operation]], None]] = {
    "session.command-point": _command_point,
    "session.flush": _flush,
    "session.gap": _gap,
    "session.known-completed": _known_completed,
    "session.completed": _completed,
    "session.expected": replay,
}
"""Other controls need no answer: session.confirmed promises less than the log of our commands
needs, session.timeout is about the peer."""
SERVER_HANDLERS: Mapping[str, Callable[[Session, Any, list[Operation]], None]] = {
    **HANDLERS,
    "session.completed": _completed_by_client,
    "session.request-timeout": _request_timeout,
}
