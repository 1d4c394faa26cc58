"""A session between two connections: it is kept, attached again, and what the peer lacks is sent
again."""

from collections.abc import Iterator
from typing import Any, Protocol

from gateway.adapters.segments.completion import SERIALS
from gateway.adapters.segments.decoding import read_array
from gateway.adapters.segments.replay import ReplayLog
from gateway.adapters.segments.session import Session
from gateway.adapters.segments.session_state import ATTACHED, SessionEngine, State
from gateway.adapters.segments.wire import layouts as w
from gateway.bodies import Body
from gateway.operations import KeepSession, Operation, SessionTimeout


def grant(session: Session, granted: SessionTimeout) -> None:
    """It is kept so long when it is not attached; commands are logged from now on."""
    session.timeout = granted.seconds
    if not granted.seconds and session.log is not None:
        session.log.end()
        session.log = None
    elif granted.seconds and session.log is None:
        session.log = ReplayLog(session.sent, granted.room)


def leave(session: Session, token: Any = None) -> list[Operation]:
    """Let go of the connection: the operations that keep the session, none if it has no timeout.
    Earlier requests are still answered."""
    if not session.timeout or session.state is not ATTACHED:
        return []
    found: list[Operation] = []
    session.flush_unsafe(found)
    session.state = State.LEFT
    session.pointed = session.linked = False
    session.allow_deliveries(False)
    found.append(KeepSession(session.number, token, session))
    return found


def rejoin(session: Session, engine: SessionEngine, number: int) -> None:
    """A connection has attached it. Our commands wait until the peer says what it expects."""
    session.state = ATTACHED
    session.received.repeated = None
    session.move(engine, number)
    for subscription in session.subscriptions.values():
        subscription.attach(number)
    session.send_control(w.SessionAttached(session.name))
    session.send_control(w.SessionFlush(expected=True, completed=True))


class ReplayingSession(Protocol):
    """A session of either role, as far as ``replay`` needs it."""

    log: ReplayLog | None
    linked: bool
    sent: int

    def lose(self, found: list[Operation], code: int = ...) -> None: ...

    def send_control(self, record: Any) -> None: ...

    def repeat(self, commands: Iterator[tuple[bytes, bytes | None, Body | None]]) -> None: ...

    def tell_completed(self) -> None: ...


def replay(session: ReplayingSession, m: w.SessionExpected, found: list[Operation]) -> None:
    """The peer has said what it expects: send it again, then everything new."""
    log = session.log
    if session.linked or log is None:
        return
    partial = m.fragments is not None and len(read_array(m.fragments)) > 0
    start = log.start(m.commands, partial, session.sent)
    if start is None:
        session.lose(found)
        return
    session.send_control(w.SessionCommandPoint(start & SERIALS, 0))
    session.linked = True
    session.repeat(log.since(start))
    session.tell_completed()
