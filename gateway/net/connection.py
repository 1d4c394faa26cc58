"""One accepted socket: first octets, adapter, session, output, back-pressure."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from gateway.adapters.contract import Adapter
from gateway.adapters.registry import VERSIONS
from gateway.adapters.sniff import detect
from gateway.broker.broker import Broker
from gateway.config.amqp import AmqpSettings
from gateway.errors import Condition
from gateway.net.distance import is_near
from gateway.net.gathering import write
from gateway.net.hang_up import HangUp
from gateway.net.listener_rules import REFUSALS, ListenerRules
from gateway.net.login import Login
from gateway.net.loop_turn import LoopTurn
from gateway.net.loopback import LOCAL, is_loopback
from gateway.net.passwords import Passwords
from gateway.net.read_size import ReadSize
from gateway.net.tls import common_name
from gateway.net.uncommitted import Uncommitted
from gateway.operations import Operation
from gateway.sessions.session import Registrar, Session

log = logging.getLogger("gateway.net")

HIGH_WATER = 1 << 20
"""Octets waiting in a socket's buffer at which deliveries to it stop."""
READ_HIGH_WATER = 8 << 20
"""Octets waiting in a socket's buffer at which nothing more is read from the peer: requests whose
replies are not read would fill the memory."""
TIME_SLICE_SECONDS = 0.01
"""How long operations of one connection are performed before other connections have their turn."""

FRAMES_AT_ONCE = 2000
"""Frames that are read one by one before other connections have their turn: some ten milliseconds
of the most expensive ones."""

LONG_READ_SECONDS = 0.001
"""How long one read may take before other connections are read from."""


def address_of(found: Any) -> str:
    """The address of a socket or its peer as text; "" if there is none."""
    return f"{found[0]}:{found[1]}" if isinstance(found, tuple) else str(found or "")


class Owner(Protocol):
    """The listener of a connection, as the connection needs it."""

    turn: LoopTurn
    broker: Broker
    settings: AmqpSettings
    passwords: Passwords
    closing: bool
    hangups: int

    @property
    def registry(self) -> Registrar: ...

    def holds(self, session: Session) -> bool:
        """Whether nothing is read from the peer of this session."""
        ...

    def adapter(self, version: str, connection: "Connection") -> Adapter:
        """The server-role adapter for a detected version."""
        ...

    def enter(self, connection: "Connection") -> None: ...

    def leave(self, connection: "Connection") -> None: ...


class Connection(asyncio.BufferedProtocol):
    """Carries octets between one socket and one session."""

    __slots__ = (
        "listener", "transport", "adapter", "session", "address", "local", "loopback", "subject",
        "octets_in", "octets_out", "host", "rules", "encrypted", "mechanisms", "login", "_opening",
        "_flush_due", "_held_back", "_output_full", "_output_stalled", "_uncommitted",
        "_checking_login", "_login_pause", "_deliveries_paused", "_hang_up", "_deadline", "_lost",
        "_read_size", "_reading_on", "_aborted", "_error", "_taken",
    )  # fmt: skip

    def __init__(self, listener: Owner, rules: ListenerRules) -> None:
        self.listener = listener
        self.rules = rules
        self.encrypted = False
        self.mechanisms: tuple[str, ...] = ()
        self.host = LOCAL
        self.login = Login(self, listener.broker.access, listener.passwords, rules.anonymous_user)
        self.transport: asyncio.Transport | None = None
        self.adapter: Adapter | None = None
        self.session: Session | None = None
        self.address = ""
        self.local = ""
        self.loopback = False
        self.subject: str | None = None
        self.octets_in = 0
        self.octets_out = 0
        self._opening = b""
        self._read_size = ReadSize()
        self._reading_on = self._aborted = False
        self._flush_due = False
        self._uncommitted: Uncommitted | None = None
        """Messages in batches that are not committed; for publishers."""
        self._held_back = False
        """It is a publisher, and held back by an alarm."""
        self._output_full = False
        """More than ``HIGH_WATER`` waits for the peer: deliveries are paused."""
        self._output_stalled = False
        """More than ``READ_HIGH_WATER`` waits for the peer: nothing is read from it."""
        self._checking_login = False
        """A password is being checked: nothing is read from the peer."""
        self._login_pause: bool | None = None
        """True while a peer whose login has failed is not told yet; false after that."""
        self._deliveries_paused = False
        """One turn has brought more deliveries than are written at once: the rest waits."""
        self._hang_up = HangUp(listener)
        self._deadline = 0.0
        self._lost = False
        self._taken = 0
        """Octets that the peer had taken at the last ``tick``."""
        self._error: Exception | None = None
        """Why the socket was lost."""

    # --- asyncio.BufferedProtocol ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's; they do the same.
        self.transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=HIGH_WATER)
        peer: Any = transport.get_extra_info("peername")
        self.address = address_of(peer)
        self.local = address_of(transport.get_extra_info("sockname"))
        if isinstance(peer, tuple):
            self.host = peer[0]
        encrypted = transport.get_extra_info("encrypted")
        if encrypted is None:
            encrypted = transport.get_extra_info("sslcontext") is not None
        self.encrypted = encrypted
        self.mechanisms = self.rules.offered(encrypted)
        local = transport.get_extra_info("local")
        if local is None:
            local = isinstance(peer, tuple) and is_loopback(peer[0])
        self.loopback = local
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.subject = common_name(certificate)
        self._deadline = time.monotonic() + self.listener.settings.handshake_seconds
        self.listener.enter(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read_size.room

    def buffer_updated(self, count: int) -> None:
        self.data_received(bytes(self._read_size.room[:count]))

    def data_received(self, data: bytes) -> None:
        """Octets of the peer."""
        self.octets_in += len(data)
        if self._hang_up.begun:
            return
        begun = time.perf_counter()
        if self.adapter is None:
            self._in_turn(partial(self._detect, data))
        else:
            self._in_turn(partial(self._perform, self.adapter, data))
        seconds = time.perf_counter() - begun
        if len(data) >= self._read_size.octets:
            self._read_size.adapt(seconds)
        if seconds > LONG_READ_SECONDS or self._unread:
            self._yield_to_others()

    def _in_turn(self, act: Callable[[], None]) -> None:
        """Act within a turn. Our own bugs cost this connection only."""
        turn = self.listener.turn
        turn.begin()
        try:
            act()
        except Exception:
            log.exception("connection %s: internal error, closed", self.address)
            self.abort()
        turn.end()

    def _yield_to_others(self) -> None:
        """Let other connections be read from after a long read: the loop would read up to 32 times
        from this socket first."""
        if self._may_read:
            self._pause_reading()
            asyncio.get_running_loop().call_soon(self._read_after_others)

    @property
    def near(self) -> bool:
        """A round trip to the peer is known to be short."""
        return self.transport is not None and is_near(self.transport)

    @property
    def _may_read(self) -> bool:
        """The socket is there, and what the peer sends still matters."""
        return self.transport is not None and not (self._lost or self._hang_up.begun)

    def _pause_reading(self) -> None:
        """Read nothing from the socket until ``_read_again`` is called."""
        if self.transport is not None and self._may_read:
            self.transport.pause_reading()

    def _read_after_others(self) -> None:
        if not self._login_pause:
            self._read_again()

    @property
    def _unread(self) -> bool:
        """There are octets that have been read from the socket and wait for another turn."""
        adapter = self.adapter
        return adapter is not None and adapter.frames.unread and not adapter.closing

    def _read_on(self) -> None:
        """Perform the next of the octets that wait, before the socket is read from again."""
        self._reading_on = False
        if not (self._may_read and self._unread):
            return
        self._in_turn(self._perform_unread)
        self._read_after_others()

    def _perform_unread(self) -> None:
        assert self.adapter is not None
        self._perform_found(self.adapter.read_on)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._hang_up.lost()
        self._error = error
        self._end_when_read()

    def _end_when_read(self) -> None:
        """What the peer had sent is performed first."""
        if self._unread and not self._aborted:
            self._in_turn(self._perform_unread)
            asyncio.get_running_loop().call_soon(self._end_when_read)
        else:
            self._end_session()

    def _end_session(self) -> None:
        turn = self.listener.turn
        turn.begin()
        self.listener.leave(self)
        try:
            if self.session is not None and self.adapter is not None:
                self.session.peer_gone(self.adapter.lost())
        except Exception:
            log.exception("connection %s: internal error at its end", self.address)
        self._end(self._error)
        turn.end()

    def _end(self, error: Exception | None) -> None:
        """Perform the operations that are left, one time slice after the other, and end."""
        try:
            session = self.session
            if session is not None and session.finish():
                again = partial(self._in_turn, partial(self._end, error))
                soon: Callable[[], Any] = partial(asyncio.get_running_loop().call_soon, again)
                if session.resting:
                    session.on_pending = soon
                else:
                    soon()
                return
            self._log_end(error)
        except Exception:
            log.exception("connection %s: internal error at its end", self.address)
        self._release()

    def _log_end(self, error: Exception | None) -> None:
        session = self.session
        if session is None:
            return
        log.info(
            "connection #%d %s: %s closed: %s",
            session.number,
            self.address,
            f"{session.adapter.version} user {session.user or '-'}",
            (session.ending or "normal end") + (f" ({error})" if error else ""),
        )

    def _release(self) -> None:
        """Break the reference cycles of a connection that has ended."""
        session = self.session
        self.session = self.adapter = self.transport = self._uncommitted = None
        self.login.leave()
        del self.login
        if session is not None:
            session.release()

    def pause_writing(self) -> None:
        self._output_full = True
        if self.session is not None:
            self.session.pause()

    def resume_writing(self) -> None:
        self._output_full = False
        self._resume_output()

    def output_congested(self) -> None:
        """Pause deliveries until those of this turn are written, so that a long queue is not
        emptied into memory."""
        if not self._deliveries_paused and self.session is not None:
            self._deliveries_paused = True
            self.session.pause()

    def schedule_pending(self) -> None:
        """Perform the session's pending operations in a turn of their own: this is called while the
        store reports a commit."""
        asyncio.get_running_loop().call_soon(self._perform_pending)

    def _perform_pending(self) -> None:
        session = self.session
        if session is None or self._lost:
            return
        self._in_turn(partial(self._count_and_wake, session.perform_pending))
        self._read_unless_stalled()

    def _count_and_wake(self, act: Callable[[], None]) -> None:
        self._count_stored(act)
        self.wake()

    def _resume_output(self) -> None:
        """The peer takes octets again: go on with large bodies, deliveries and reading."""
        if self._output_full or self._lost:
            return
        if self.session is not None:
            self._in_turn(partial(self._resume_session, self.session))
        self._read_unless_stalled()

    def _resume_session(self, session: Session) -> None:
        if session.adapter.more:
            session.adapter.refill()
            self.wake()
        self._count_stored(session.resume)

    def _read_unless_stalled(self) -> None:
        """Read again, unless the peer still requests more than it takes."""
        if self._output_stalled and not (
            self._output_full or self._has_pending() or self._large_octets() > READ_HIGH_WATER
        ):
            self._output_stalled = False
            self._read_again()

    def _large_octets(self) -> int:
        """Octets of large bodies that wait for the socket."""
        return 0 if self.adapter is None else self.adapter.more

    def _has_pending(self) -> bool:
        return self.session is not None and self.session.has_pending

    def _stop_reading(self) -> None:
        """Stop reading from a peer that requests more than it takes."""
        self._output_stalled = True
        if not (self._held_back or self._commits_behind):
            self._pause_reading()

    # --- octets ---------------------------------------------------------------------------------

    def _detect(self, data: bytes) -> None:
        self._opening += data
        found = detect(self._opening, self.rules.meanings)
        if found is None:
            return
        if found.protocol != "amqp":
            log.info("connection %s: not AMQP (%s), refused", self.address, found.protocol)
            answer = found.answer or REFUSALS.get(found.protocol, b"")
            if answer:
                self._write([answer])
            self._end_socket()
            return
        if self.rules.require_tls == "yes" and not self.encrypted:
            log.info("connection %s: %s without TLS, refused", self.address, found.version)
            header = VERSIONS[found.version].tls_header
            if header:
                self._write([header])  # the header with which the client should open
            self._end_socket()
            return
        self.adapter = adapter = self.listener.adapter(found.version, self)
        adapter.output_congested = self.output_congested
        adapter.frames.most_at_once = FRAMES_AT_ONCE
        self.session = Session(
            self.listener.broker,
            adapter,
            self.listener.registry,
            address=self.address,
            loopback=self.loopback,
            since=time.time(),
            listener=self.rules.name,
        )
        self.session.local = self.local
        self.session.meter = self.meter
        self.session.on_pending = self.schedule_pending
        self.session.time_slice = TIME_SLICE_SECONDS
        first, self._opening = self._opening, b""
        self._perform(adapter, first)

    def _perform(self, adapter: Adapter, data: bytes) -> None:
        self._perform_found(partial(adapter.receive, data))

    def _perform_found(self, find: Callable[[], list[Operation]]) -> None:
        session = self.session
        assert session is not None
        self._count_stored(lambda: session.perform(find()))
        if not self._flush_due:
            self.wake()
        if session.has_pending and not self._output_stalled:
            self._stop_reading()
        if session.publisher and not self._held_back and self.listener.holds(session):
            self.hold()

    def _count_stored(self, act: Callable[[], None]) -> None:
        """Act for the peer, and count the messages that it appends to the store."""
        store = self.listener.turn.store
        appended, octets = store.appended, store.pending_octets
        act()
        self.listener.broker.state.journal.record_gathered()
        if store.appended != appended or store.pending_octets > octets:
            self._count_appended(store.appended - appended, max(0, store.pending_octets - octets))

    def _count_appended(self, messages: int, octets: int) -> None:
        """The peer has published messages that wait for the disk."""
        unwritten = self._uncommitted
        if unwritten is None:
            unwritten = self._uncommitted = Uncommitted(self.listener.broker, self._read_again)
        reading = not (self._held_back or self._output_stalled or unwritten.full)
        unwritten.add(messages, octets)
        if unwritten.full and reading:
            self._pause_reading()

    @property
    def _commits_behind(self) -> bool:
        """It has published more than is committed: nothing is read from it."""
        return self._uncommitted is not None and self._uncommitted.full

    def wake(self) -> None:
        """There is output: flush it at the end of this turn."""
        if not self._flush_due:
            self._flush_due = True
            self.listener.turn.wake(self)

    def write_now(self) -> None:
        """Write the output so far within ``receive``, but of large bodies nothing."""
        adapter = self.adapter
        if adapter is not None and not (adapter.more or self._lost or self._output_full):
            self._write(adapter.output())

    def settle(self) -> None:
        """Perform the operations that the adapter has found while it sent."""
        if self.adapter is not None and self.session is not None and not self._lost:
            found = self.adapter.found()
            if found:
                self.session.perform(found)

    def flush(self) -> None:
        """Write all output at once, but of large bodies a portion: the next one when the peer has
        taken this one."""
        self._flush_due = False
        adapter = self.adapter
        if adapter is None or self._lost or self._login_pause:
            return
        session = self.session
        early = adapter.closing or (session is not None and not session.opened)
        may_pause = self._login_pause is None and self.listener.settings.failure_pause_seconds
        if early and may_pause and self.login.suspect(adapter, session):
            self._begin_login_pause()
            return
        try:
            pieces = adapter.output()
        except OSError as error:
            log.error("connection %s: a large body cannot be read: %s", self.address, error)
            self.abort()
            return
        if pieces:
            self._write(pieces)
        more = adapter.more
        if self._deliveries_paused or more:
            self._deliveries_paused = False
            asyncio.get_running_loop().call_soon(self._resume_output)
        if adapter.closing:
            self._end_socket()
        elif self._output_full:
            transport = self.transport
            if (
                not self._output_stalled
                and transport is not None
                and transport.get_write_buffer_size() + more > READ_HIGH_WATER
            ):
                self._stop_reading()

    def _begin_login_pause(self) -> None:
        """Delay the answer to a login that has failed."""
        self._login_pause = True
        self._pause_reading()
        pause = self.listener.settings.failure_pause_seconds
        asyncio.get_running_loop().call_later(pause, self._end_login_pause)

    def _end_login_pause(self) -> None:
        self._login_pause = False
        if not self._lost:
            self._in_turn(self.wake)

    def _write(self, pieces: list[bytes]) -> None:
        assert self.transport is not None
        self.octets_out += write(self.transport, pieces)

    def _end_socket(self) -> None:
        """Close after our last octets."""
        transport = self.transport
        if self._hang_up.begun or transport is None or transport.is_closing():
            return
        self._held_back = self._output_stalled = False
        self._uncommitted = None
        transport.resume_reading()
        self._hang_up.begin(transport, self.session is not None and self.session.peer_closed)

    # --- called by the listener -----------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Once a second: heartbeats, and the deadline for the opening of the connection."""
        session, adapter = self.session, self.adapter
        if session is None or adapter is None or not session.opened:
            if now > self._deadline:
                log.info("connection %s: no greeting in time, closed", self.address)
                self.abort()
            return
        waiting = 0 if self.transport is None else self.transport.get_write_buffer_size()
        taken, self._taken = self._taken, self.octets_out - waiting
        stalled = self._output_stalled and (self._taken > taken or not waiting)
        if self._held_back or self._commits_behind or stalled:
            # We do not read from it, so its silence is not its fault. Output it takes none of is.
            adapter.excuse_silence()
        session.perform(adapter.tick(now))
        self.wake()

    def hold(self) -> None:
        """Stop reading from this publisher."""
        if not self._held_back and self.transport is not None and not self._lost:
            self._held_back = True
            if not (self._output_stalled or self._commits_behind):
                self._pause_reading()

    def let_go(self) -> None:
        """Read again."""
        if self._held_back and self.transport is not None and not self._lost:
            self._held_back = False
            self._read_again()

    def _read_again(self) -> None:
        if self._checking_login or self.transport is None or not self._may_read:
            return
        if self._held_back or self._output_stalled or self._commits_behind:
            return
        if not self._unread:
            self.transport.resume_reading()
        elif not self._reading_on:
            self._reading_on = True
            asyncio.get_running_loop().call_soon(self._read_on)

    def hold_for_login(self) -> None:
        """Read nothing until ``settled`` is called."""
        self._checking_login = True
        self._pause_reading()

    def settled(self, answer: Callable[[], None]) -> None:
        """Call ``answer`` within a turn, and read again."""
        self._checking_login = False
        if self._lost:
            return
        self._in_turn(answer)
        if not self._login_pause:
            self._read_again()

    def shut(self, text: str) -> None:
        """Close with the close handshake: the gateway stops."""
        if self._hang_up.hurry():
            return
        if self.session is not None and self.session.opened:
            self.session.close(Condition.CONNECTION_FORCED, text)
            self.wake()
        else:
            self._end_socket()

    def abort(self) -> None:
        """Drop the socket without a close."""
        self._aborted = True
        if self.transport is not None:
            self.transport.abort()

    def meter(self) -> tuple[int, int]:
        """Octets received and sent."""
        return self.octets_in, self.octets_out
