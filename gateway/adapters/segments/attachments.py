"""Controls of sessions: attach, detach, numbers, completion.

A session keeps no state behind its detachment: the timeout that is granted is always 0. The names
of sessions are unique on one connection.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from gateway.adapters.segments.completion import SERIALS
from gateway.adapters.segments.frames import Frames
from gateway.adapters.segments.server import ANSWERS, BATCHED, SERVE
from gateway.adapters.segments.session import Session, SessionEngine, State
from gateway.adapters.segments.violation import framing_error
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import DetachCode
from gateway.errors import Condition
from gateway.operations import (
    BeginSession,
    DeleteQueue,
    Done,
    EndSession,
    Operation,
    Refused,
    SessionLost,
)

EMPTY_ARRAY = b"\xf0\0\0\0\0"


class AttachmentEngine(SessionEngine, Protocol):
    """The engine, as far as this part needs it."""

    frames: Frames

    @property
    def sessions(self) -> dict[int, Session]: ...

    def write_control(self, channel: int, record: Any) -> None: ...


class BeginToken(NamedTuple):
    """The token of ``BeginSession``."""

    session: Session

    def done(self, op: Done) -> None:
        """The peer knows it already: clients send commands behind the attach."""

    def refused(self, op: Refused) -> None:
        self.session.tell_exception(541, op.text)


class EndToken(NamedTuple):
    """The token of ``EndSession``."""

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
            handle = HANDLERS.get(name)
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
        for other in sessions.values():
            if other.name == name and other.state is State.ATTACHED:
                if not m.force:
                    code = DetachCode.SESSION_BUSY
                    self._engine.write_control(channel, w.SessionDetached(name, code))
                    return
                other.flush_unsafe(found)
                other.detach()
                text = "another attach has forced it"
                found.append(SessionLost(other.number, Condition.CONNECTION_FORCED, text))
        if old is not None:
            old.mark_ended()
            self._engine.frames.forget(channel)
        session = Session(channel, name, self._engine, SERVE, ANSWERS, BATCHED)
        sessions[channel] = session
        session.send_control(w.SessionAttached(name))
        session.send_control(w.SessionCommandPoint(0, 0))
        found.append(BeginSession(channel, BeginToken(session)))

    def _detach(self, session: Session, found: list[Operation]) -> None:
        """The client ends the session: its own queues go with it."""
        if session.state is not State.ATTACHED:
            if session.state is State.DETACHING:  # both sides at once
                session.send_control(w.SessionDetached(session.name, DetachCode.NORMAL))
                self._remove(session)
                session.mark_ended()
            return
        session.flush_unsafe(found)
        session.state = State.ENDING
        found += [DeleteQueue(session.number, None, name) for name in session.owned]
        found.append(EndSession(session.number, EndToken(self, session)))

    def detached(self, session: Session) -> None:
        """The broker has ended a session that the client has detached."""
        if session.state is State.ENDING:
            self._engine.tell_due()
            session.send_control(w.SessionDetached(session.name, DetachCode.NORMAL))
            self._remove(session)
            session.mark_ended()

    def _remove(self, session: Session) -> None:
        sessions = self._engine.sessions
        if sessions.get(session.number) is session:
            del sessions[session.number]
            self._engine.frames.forget(session.number)


# --- other controls ------------------------------------------------------------------------------


def _command_point(session: Session, m: w.SessionCommandPoint, found: list[Operation]) -> None:
    """Where the numbers of the client begin; later it may only repeat that number."""
    number = m.command_id or 0
    received = session.received
    if m.command_offset or (session.pointed and received.following & SERIALS != number):
        session.lose(found, DetachCode.UNKNOWN_IDS)
    elif not session.pointed:
        session.pointed = True
        received.skip_to(number)


def _flush(session: Session, m: w.SessionFlush, found: list[Operation]) -> None:
    """Every part is answered, also by an empty set."""
    session.flush_unsafe(found)
    received = session.received
    if m.expected:
        following = received.following & SERIALS
        session.send_control(w.SessionExpected(((following, following),), EMPTY_ARRAY))
    if m.confirmed:
        session.send_control(w.SessionConfirmed(received.complete_ranges(), EMPTY_ARRAY))
    if m.completed:
        received.wanted = received.following - 1
        session.tell_completed()


def _gap(session: Session, m: w.SessionGap, found: list[Operation]) -> None:
    """Commands that never come count as complete."""
    received = session.received
    for first, last in m.commands or ():
        if first != received.following & SERIALS:
            session.lose(found, DetachCode.UNKNOWN_IDS)
            return
        received.following += ((last - first) & SERIALS) + 1


def _known_completed(session: Session, m: w.SessionKnownCompleted, found: list[Operation]) -> None:
    session.received.known(m.commands)


def _request_timeout(session: Session, m: w.SessionRequestTimeout, found: list[Operation]) -> None:
    session.send_control(w.SessionTimeout(0))


def _completed(session: Session, m: w.SessionCompleted, found: list[Operation]) -> None:
    session.on_completed(m, found)


HANDLERS: Mapping[str, Callable[[Session, Any, list[Operation]], None]] = {
    "session.command-point": _command_point,
    "session.flush": _flush,
    "session.gap": _gap,
    "session.known-completed": _known_completed,
    "session.request-timeout": _request_timeout,
    "session.completed": _completed,
}
"""Other controls need no answer, as no session is resumed."""
