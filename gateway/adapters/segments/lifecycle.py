"""The life of one connection: protocol header, state, the end, and the clock.

A server that is asked to close, or whose peer has violated a rule, answers behind its replies to
the requests that came before: the operations end with a ``Closed`` that has a token.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

from gateway.adapters.core.heartbeat import Due, Heartbeat
from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.segments.frames import Frames
from gateway.adapters.segments.violation import Violation
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import CODES, HEADER, CloseCode
from gateway.errors import Condition
from gateway.operations import Closed, Done, Operation, Refused

CONDITIONS = {
    CloseCode.CONNECTION_FORCED: Condition.CONNECTION_FORCED,
    CloseCode.INVALID_PATH: Condition.INVALID_PATH,
    CloseCode.FRAMING_ERROR: Condition.FRAME_ERROR,
}
"""Of the codes of connection.close."""


class State(Enum):
    """The event that we wait for."""

    HEADER = "header"
    START = "start"
    SECURE = "secure"
    TUNE = "tune"
    UNOPENED = "unopened"
    OPENING = "opening"
    OPEN = "open"
    LEAVING = "leaving"
    """Server: for the answers to earlier requests, before it closes."""
    CLOSING = "closing"
    """For close-ok."""


class EndingSession(Protocol):
    """A session, when its connection ends."""

    def flush_unsafe(self, found: list[Operation]) -> None: ...

    def mark_ended(self) -> list[Operation]: ...


class LifecycleEngine(Protocol):
    """The engine, as far as its ``Lifecycle`` needs it."""

    server: bool
    closing: bool
    heartbeat: Heartbeat
    buffer: OutputBuffer
    frames: Frames

    @property
    def wake(self) -> Callable[[], None]: ...

    @property
    def sessions(self) -> Mapping[int, EndingSession]: ...

    def leave_sessions(self) -> list[Operation]: ...

    def forget_sessions(self) -> list[Operation]:
        """The connection ends."""
        ...

    def tell_due(self) -> None: ...

    def greet(self) -> None: ...

    def write_control(self, channel: int, record: Any) -> None: ...


class ClosingToken:
    """The token of the end of a connection that the peer has asked for or caused."""

    def __init__(self, life: "Lifecycle") -> None:
        self._life = life

    def done(self, op: Done) -> None:
        """Everything else is answered."""
        self._life.finish_close()

    def refused(self, op: Refused) -> None:
        self._life.finish_close()


class Lifecycle:
    """The life of one connection."""

    def __init__(self, engine: LifecycleEngine) -> None:
        self.state = State.HEADER
        self.later: list[Operation] = []
        """Operations found outside ``receive``, which the next one returns."""
        self._engine = engine
        self._reason: tuple[Condition | None, str] = (None, "")
        """Why the connection is being closed."""
        self._by_peer = False
        self._fault: Violation | None = None
        """The peer's violation, until the peer is told of it."""
        self._unanswered: list[Operation] = []
        """Refusals of the requests that were open when we began to close."""
        self._opening = b""

    def begin(self) -> None:
        """Client: send the protocol header."""
        self._engine.buffer.put(HEADER)

    # --- in --------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Operation]:
        """Octets from the peer, whole or cut anywhere; ``b""`` is the end of the stream."""
        engine = self._engine
        if engine.closing:
            return []
        found, self.later = self.later, []
        if not data:
            return found + self.lost()
        if self.state is State.LEAVING:
            return found
        engine.heartbeat.heard = True
        buffer = engine.buffer
        buffer.receiving = True
        try:
            if self.state is State.HEADER:
                data = self._protocol_header(data, found)
            if data and not engine.closing:
                self._feed(data, found)
        finally:
            buffer.receiving = False
        return found

    def _feed(self, data: bytes, found: list[Operation]) -> None:
        self._fed(self._engine.frames.feed(data, found), found)

    def _fed(self, violation: Violation | None, found: list[Operation]) -> None:
        engine = self._engine
        for session in engine.sessions.values():
            session.flush_unsafe(found)
        if violation is not None and not engine.closing:
            self.violated(violation, found)

    def resume(self, act: Callable[[list[Operation]], None]) -> None:
        """The peer waited for a result from elsewhere, and ``act`` acts on it; then the octets that
        the peer has sent since are read."""
        engine = self._engine
        if engine.closing:
            return
        found, self.later = self.later, []
        act(found)
        if not engine.closing:
            self._fed(engine.frames.resume(found), found)
        self.later = found + self.later
        engine.wake()

    def read_on(self) -> list[Operation]:
        """Operations of the octets that ``receive`` has left unread."""
        self.resume(lambda found: None)
        return self.found()

    def _protocol_header(self, data: bytes, found: list[Operation]) -> bytes:
        """Take the peer's header off; returns the octets behind it. A server answers with the
        same."""
        engine = self._engine
        data = self._opening + data
        head = data[:8]
        if head == HEADER:
            self._opening = b""
            self.state = State.START
            if engine.server:
                engine.buffer.put(HEADER)
                engine.greet()
            return data[8:]
        if HEADER.startswith(head):
            self._opening = data
            return b""
        if engine.server:
            engine.buffer.put(HEADER)
            text = "not the protocol header expected"
        else:
            text = f"the server does not speak 0-10, it answers {head!r}"
        found += self.ended(Condition.NOT_IMPLEMENTED, text)
        return b""

    def found(self) -> list[Operation]:
        """Take the operations found outside ``receive`` and ``tick``."""
        found, self.later = self.later, []
        return found

    def follow(self, *operations: Operation) -> None:
        """A reply or a delivery led to these operations, to be performed soon."""
        if operations:
            self.later += operations
            self._engine.buffer.waken()

    # --- the end ---------------------------------------------------------------------------------

    def on_close(self, m: w.ConnectionClose, found: list[Operation]) -> None:
        """The peer's close. If ours is under way too, both sides answer and that is that."""
        code = m.reply_code or 0
        condition = None if code == CloseCode.NORMAL else CONDITIONS.get(code)
        if condition is None and code not in (0, CloseCode.NORMAL):
            condition = Condition.INTERNAL_ERROR
        if self._engine.server and self.state in (State.OPENING, State.OPEN):
            found.append(self._leave(condition, m.reply_text or "", found))
            return
        if self.state is State.SECURE and condition is Condition.CONNECTION_FORCED:
            condition = Condition.ACCESS_REFUSED  # a login has no code of its own
        self._engine.write_control(0, w.ConnectionCloseOk())
        if self.state is State.CLOSING:
            found += self.ended(*self._reason, theirs=self._by_peer)
        else:
            found += self.ended(condition, m.reply_text or "")

    def on_close_ok(self, found: list[Operation]) -> None:
        """The answer to our close."""
        found += self.ended(*self._reason, theirs=self._by_peer)

    def _leave(
        self, condition: Condition | None, text: str, found: list[Operation], fault: bool = False
    ) -> Closed:
        """The connection ends behind our replies to earlier requests."""
        engine = self._engine
        found += engine.leave_sessions()
        self.state = State.LEAVING
        self._reason = condition, text
        self._by_peer = True
        engine.frames.stop()
        return Closed(condition, text, token=ClosingToken(self), fault=fault)

    def send_close(self, condition: Condition | None, text: str, theirs: bool = False) -> None:
        """Begin to close the connection, unless that is under way."""
        engine = self._engine
        if engine.closing or self.state is State.CLOSING:
            return
        code, hard = (CloseCode.NORMAL, True) if condition is None else CODES[condition.value]
        if not hard:
            code = CloseCode.CONNECTION_FORCED
        raw = text.encode("utf-8", "surrogateescape")[:255].decode("utf-8", "ignore")
        engine.buffer.end_large()
        engine.write_control(0, w.ConnectionClose(code, raw))
        self.state = State.CLOSING
        self._reason = condition, text
        self._by_peer = theirs
        self._unanswered = engine.forget_sessions()

    def violated(self, violation: Violation, found: list[Operation]) -> None:
        """A violation that costs the connection. A server closes it behind the answers to the
        requests that came before."""
        condition, text = violation.condition, violation.text
        if self._engine.server and self.state in (State.OPENING, State.OPEN):
            self._fault = violation
            found.append(self._leave(condition, text, found, fault=True))
            return
        self.send_close(condition, text, theirs=True)
        found += self.ended(condition, text)

    def finish_close(self) -> None:
        """The peer has closed the connection or broken a rule, and has its answers."""
        self._engine.tell_due()
        fault = self._fault
        if fault is not None:
            self.send_close(fault.condition, fault.text, theirs=True)
        else:
            self._engine.buffer.end_large()
            self._engine.write_control(0, w.ConnectionCloseOk())
        self.follow(*self.ended(*self._reason))

    def ended(self, condition: Condition | None, text: str, theirs: bool = True) -> list[Operation]:
        """The connection is over, for this reason: nothing more is received."""
        engine = self._engine
        engine.closing = True
        engine.buffer.end_large()
        engine.frames.stop()
        unanswered = self._unanswered + engine.forget_sessions()
        return [*unanswered, Closed(condition, text, theirs=theirs)]

    def lost(self) -> list[Operation]:
        """The socket is gone."""
        if self._engine.closing:
            return []
        if self.state in (State.CLOSING, State.LEAVING):
            return self.ended(*self._reason, theirs=self._by_peer)
        return self.ended(Condition.CONNECTION_FORCED, "the connection was lost")

    # --- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Operation]:
        """Send a heartbeat after half an interval without output, and give the peer up after two of
        its intervals of silence; a handshake and a close have their time-outs."""
        engine = self._engine
        if engine.closing:
            return []
        heartbeat, state = engine.heartbeat, self.state
        found, self.later = self.later, []
        due = heartbeat.look(now, state is State.OPEN, state is State.CLOSING)
        if state is State.LEAVING:
            return found
        if due is Due.BEAT:
            engine.write_control(0, w.ConnectionHeartbeat())
        elif due is Due.UNCLOSED:
            found += self.lost()
        elif due is Due.UNOPENED:
            found += self.ended(Condition.CONNECTION_FORCED, "the handshake took too long")
        elif due is Due.SILENT:
            silent = "client" if engine.server else "server"
            text = f"missed heartbeats from {silent}, timeout: {heartbeat.patience / 2:g}s"
            found += self.ended(Condition.CONNECTION_FORCED, text)
        return found
