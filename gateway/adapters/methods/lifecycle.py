"""The life of a connection of the class-and-method family, from the protocol header to the end.

Both engines of the family, that of the published versions and that of the drafts, have one
``Lifecycle``. It feeds the frame loop, turns violations into closes, ends the connection and keeps
its clock.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from gateway.adapters.core.heartbeat import Due, Heartbeat
from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.methods import states
from gateway.adapters.methods.codes import ReplyCodes
from gateway.adapters.methods.geometry import Method, Version
from gateway.adapters.methods.pending import Awaited, PendingReply
from gateway.adapters.methods.states import CLOSING, LEAVING, OPEN, OPENING
from gateway.errors import Condition, Lost, PeerError
from gateway.operations import Closed, Operation, Refused, Unsent


class Ended(Exception):
    """The connection is over; the ``Closed`` is already among the operations."""


class AnyChannel(Protocol):
    """A channel of any version."""

    number: int
    state: states.State
    awaited: deque[Awaited]


class FrameLoop(Protocol):
    """The framing of a connection."""

    @property
    def held(self) -> int: ...

    def feed(self, data: bytes, found: list[Operation]) -> None: ...

    def resume(self, found: list[Operation]) -> None: ...

    def stop(self) -> None: ...


class Handshake(Protocol):
    """The methods of the class ``connection`` but close and close-ok."""

    steps: ClassVar[Mapping[str, Callable[[Any, Any, list[Operation]], None]]]
    """By name of the method, unbound."""

    def on_protocol_header(self) -> None: ...


class LifecycleEngine(Protocol):
    """The engine, as far as its ``Lifecycle`` needs it."""

    version: str
    server: bool
    table: Version
    closing: bool
    heartbeat: Heartbeat
    buffer: OutputBuffer
    codes: ReplyCodes

    @property
    def wake(self) -> Callable[[], None]: ...

    @property
    def layouts(self) -> Any:
        """The generated records of the version."""
        ...

    @property
    def channels(self) -> dict[int, Any]: ...

    @property
    def frames(self) -> FrameLoop: ...

    @property
    def connection(self) -> Handshake: ...

    def write(self, channel: int, record: Any) -> None: ...


class Lifecycle:
    """The life of one connection."""

    def __init__(
        self,
        engine: LifecycleEngine,
        headers: tuple[bytes, ...],
        refusal: bytes = b"",
        unannounced: tuple[type[PeerError], ...] = (),
        names_unknown: bool = True,
        keep: Callable[[], list[Operation]] = list,
    ) -> None:
        """``headers`` open the version. ``refusal`` answers any other header; empty where servers
        disconnect without a reply. Violations of the types ``unannounced`` are not told to the
        peer. ``names_unknown``: a close names the method that caused it even if the version does
        not have that method. ``keep`` lets go of channels that outlive the connection, and returns
        the operations for that."""
        self.state = states.HEADER
        self.close_reason: tuple[Condition | None, str] = (None, "")
        """While the connection is being closed."""
        self.caused_by_peer = False
        self.later: list[Operation] = []
        """Operations found outside ``receive``, which the next one returns."""
        self._engine = engine
        self._buffer = engine.buffer
        self._heartbeat = engine.heartbeat
        self._headers = headers
        self._refusal = refusal
        self._unannounced = unannounced
        self._names_unknown = names_unknown
        self._keep = keep
        self._fault: PeerError | None = None
        """The peer's violation, until the peer is told of it."""
        self._opening = b""
        """The first octets of a protocol header."""

    def begin(self) -> None:
        """Client: send the protocol header."""
        self.state = states.START
        self._buffer.put(self._engine.table.header)

    # --- in --------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Operation]:
        """Octets from the peer, whole or cut anywhere; ``b""`` is the end of the stream."""
        engine = self._engine
        if engine.closing:
            return []
        found, self.later = self.later, []
        if not data:
            return found + self.lost()
        state = self.state
        if state is LEAVING:
            return found
        self._heartbeat.heard = True
        buffer = self._buffer
        buffer.receiving = True
        try:
            if state is not OPEN:
                data = self._opening_octets(state, data, found)
            if data:
                engine.frames.feed(data, found)
        except PeerError as error:
            self._violated(error, found)
        except Ended:
            pass
        finally:
            buffer.receiving = False
        return found

    def resume(self, act: Callable[[list[Operation]], None]) -> None:
        """The peer waited for a result from elsewhere, and ``act`` acts on it; then the octets that
        the peer has sent since are read. Both add to the operations found."""
        engine = self._engine
        if engine.closing:
            return
        found, self.later = self.later, []
        try:
            act(found)
            engine.frames.resume(found)
        except PeerError as error:
            self._violated(error, found)
        except Ended:
            pass
        self.later = found + self.later
        engine.wake()

    def read_on(self) -> list[Operation]:
        """Operations of the octets that ``receive`` has left unread."""
        self.resume(lambda found: None)
        return self.found()

    def _opening_octets(self, state: states.State, data: bytes, found: list[Operation]) -> bytes:
        """Octets from the peer before the connection is open; returns those that are frames."""
        engine = self._engine
        if state is states.HEADER:
            return self._protocol_header(data, found)
        if (
            state is states.START
            and not engine.server
            and data[:4] == b"AMQP"
            and not engine.frames.held  # else it may be the middle of "PLAIN AMQPLAIN"
        ):
            self._other_version(data, found)
        return data

    def _protocol_header(self, data: bytes, found: list[Operation]) -> bytes:
        """Take the client's header off; returns the octets behind it."""
        data = self._opening + data
        head = data[:8]
        if head in self._headers:
            self._opening = b""
            self._engine.connection.on_protocol_header()
            return data[8:]
        if len(head) < 8 and any(header.startswith(head) for header in self._headers):
            self._opening = data
            return b""
        if self._refusal:
            self._engine.buffer.put(self._refusal)
        found += self.ended(Condition.NOT_IMPLEMENTED, "not the protocol header expected")
        raise Ended

    def _other_version(self, data: bytes, found: list[Operation]) -> None:
        """Client: the server answers our header with the one it would like (0-9-1 §2.2.4)."""
        text = f"the server does not speak {self._engine.version}, it answers {data[:8]!r}"
        found += self.ended(Condition.NOT_IMPLEMENTED, text)
        raise Ended

    def found(self) -> list[Operation]:
        """Take the operations found outside ``receive`` and ``tick``."""
        found, self.later = self.later, []
        return found

    def follow(self, operations: list[Operation]) -> None:
        """A reply or a delivery led to these operations, to be performed soon."""
        if operations:
            self.later += operations
            self._engine.buffer.waken()

    def unsent(self, delivery: Unsent) -> None:
        """A delivery has no form for the peer: the broker is told in this turn."""
        self.later.append(delivery)
        self._engine.buffer.waken()

    def on_connection_method(self, method: Method, m: Any, found: list[Operation]) -> None:
        """One method on channel 0."""
        name = method.name
        if name == "connection.unknown":
            return  # it only informs (0-9a0)
        if name == "connection.close":
            self._on_close(m, found)
        state = states.after(states.CONNECTION, self.state, name)
        if self.state is CLOSING and state is None:
            return
        connection = self._engine.connection
        step = connection.steps.get(name)
        if state is None or (step is None and name != "connection.close-ok"):
            raise PeerError(
                Condition.COMMAND_INVALID,
                f"{name} in connection state '{self.state}'",
                method=method.number,
            )
        self.state = state
        if step is None:
            found += self.ended(*self.close_reason, theirs=self.caused_by_peer)
            raise Ended
        step(connection, m, found)

    # --- the end ---------------------------------------------------------------------------------

    def _on_close(self, m: Any, found: list[Operation]) -> None:
        """The peer's close. If ours is under way too, both sides answer and that is that. A server
        answers behind its replies to earlier requests."""
        engine = self._engine
        if self.state is CLOSING:
            closed = Closed(*self.close_reason, theirs=self.caused_by_peer)
        elif m.reply_code <= engine.table.constants["reply-success"]:
            closed = Closed(None, m.reply_text)  # py-amqp and aioamqp send 0
        else:
            closed = Closed(engine.codes.condition(m.reply_code), m.reply_text)
        if engine.server and self.state in (OPENING, OPEN):
            found += self._keep()
            closed = self._leave(closed.condition, closed.text)
        else:
            engine.write(0, engine.layouts.ConnectionCloseOk())
            found += self.abandon()
        found.append(closed)
        raise Ended

    def _leave(self, condition: Condition | None, text: str, fault: bool = False) -> Closed:
        """Server: the connection ends behind our replies to earlier requests. ``fault``: the peer
        violated a rule."""
        self.state = LEAVING
        self.close_reason = condition, text
        self.caused_by_peer = True
        token = PendingReply(self._engine.table.by_name["connection.close"])
        return Closed(condition, text, token=token, fault=fault)

    def close_channel(self, channel: int, condition: Condition, text: str, method: int = 0) -> None:
        """Close a channel for an error."""
        engine = self._engine
        code, reason = engine.codes.reply(condition, text)
        engine.channels[channel].mark_closing()
        close = engine.layouts.ChannelClose
        engine.write(channel, close(code, reason, method >> 16, method & 0xFFFF))

    def send_close(
        self, condition: Condition | None, text: str, method: int = 0, theirs: bool = False
    ) -> None:
        """Begin to close the connection."""
        engine = self._engine
        if condition is None:
            code, reason = engine.table.constants["reply-success"], text or "Normal shutdown"
        else:
            code, reason = engine.codes.reply(condition, text)
        if not self._names_unknown and method not in engine.table.methods:
            method = 0
        close = engine.layouts.ConnectionClose
        self.later += self._keep()
        engine.write(0, close(code, reason, method >> 16, method & 0xFFFF))
        self.state = CLOSING
        self.close_reason = condition, text
        self.caused_by_peer = theirs
        engine.buffer.end_large()
        for channel in engine.channels.values():
            channel.mark_closing()

    def _violated(self, error: PeerError, found: list[Operation]) -> None:
        """A violation that ends the connection. A server closes behind its answers to the requests
        that came before it."""
        engine = self._engine
        if engine.server and self.state in (OPENING, OPEN):
            self._fault = error
            for channel in engine.channels.values():
                channel.forget_content()
            found += self._keep()
            found.append(self._leave(error.condition, error.text, fault=True))
            return
        self._report_fault(error)
        found += self.ended(error.condition, error.text)

    def violated(self, error: PeerError) -> list[Operation]:
        """A request of the peer's turns out to cost the connection."""
        found: list[Operation] = []
        if self.state is LEAVING:
            self._fault = self._fault or error
        else:
            self._violated(error, found)
        return found

    def _report_fault(self, error: PeerError) -> None:
        """Close the connection for the peer's error, unless it is being closed."""
        if isinstance(error, self._unannounced):
            return
        if self.state is not CLOSING:
            self.send_close(error.condition, error.text, error.method, theirs=True)

    def finish_close(self) -> None:
        """The peer has closed the connection or broken a rule, and has its answers: close-ok, or
        our close, is the last method."""
        engine = self._engine
        if self._fault is not None:
            self._report_fault(self._fault)
        else:
            engine.write(0, engine.layouts.ConnectionCloseOk())
        self.later += self.ended(*self.close_reason)

    def abandon(self) -> list[Operation]:
        """Nothing more is received. Refuses the requests that are still open."""
        engine = self._engine
        found = self._keep()
        engine.closing = True
        engine.buffer.end_large()
        engine.frames.stop()
        for channel in engine.channels.values():
            found += refused(
                channel, Condition.CONNECTION_FORCED, "the connection is gone", Lost.CONNECTION
            )
        for channel in engine.channels.values():
            channel.mark_closed()
        engine.channels.clear()
        return found

    def ended(self, condition: Condition | None, text: str, theirs: bool = True) -> list[Operation]:
        """The connection is over, for this reason."""
        return [*self.abandon(), Closed(condition, text, theirs=theirs)]

    def lost(self) -> list[Operation]:
        """The socket is gone."""
        engine = self._engine
        if engine.closing:
            return []
        if self.state in (CLOSING, LEAVING):
            return self.ended(*self.close_reason, theirs=self.caused_by_peer)
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
        due = heartbeat.look(now, state is OPEN, state is CLOSING)
        if state is LEAVING:
            return found
        if due is Due.BEAT:
            engine.buffer.put(engine.table.geometry.heartbeat)
        elif due is Due.UNCLOSED:
            found += self.lost()
        elif due is Due.UNOPENED:
            found += self.ended(Condition.CONNECTION_FORCED, "the handshake took too long")
        elif due is Due.SILENT:
            silent = "client" if engine.server else "server"
            text = f"missed heartbeats from {silent}, timeout: {heartbeat.patience / 2:g}s"
            found += self.ended(Condition.CONNECTION_FORCED, text)
        return found


def step(channel: AnyChannel, word: str) -> states.State:
    """The state of a channel after a method. Raises ``PeerError`` if it is not allowed now."""
    state = states.after(states.CHANNEL, channel.state, word)
    if state is None:
        text = f"{word!r} on channel {channel.number}, which is {channel.state}"
        raise PeerError(Condition.CHANNEL_ERROR, text)
    return state


def refused(channel: AnyChannel, condition: Condition, text: str, lost: Lost) -> list[Operation]:
    """Refuses the requests of a channel that the peer will not answer any more."""
    return [
        Refused(channel.number, request.token, condition, text, lost)
        for request in channel.awaited
        if request.token is not None
    ]
