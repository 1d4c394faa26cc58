"""One accepted socket: first octets, adapter, session, output, back-pressure."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from gateway.adapters.contract import Adapter
from gateway.adapters.sniff import TLS_1_0, detect
from gateway.errors import Condition
from gateway.net.listener_rules import ListenerRules
from gateway.net.login import Login
from gateway.net.loopback import LOCAL, is_loopback
from gateway.net.uncommitted import Uncommitted
from gateway.sessions.session import Session

if TYPE_CHECKING:
    from gateway.net.listener import Listener

log = logging.getLogger("gateway.net")

HIGH_WATER = 1 << 20
"""Octets waiting in a socket's buffer at which deliveries to it stop."""
TOO_MUCH = 8 << 20
"""Octets waiting at which nothing more is read from the peer: whoever asks and asks and takes no
answer would fill the memory with them."""
JOIN_BELOW = 1 << 16
"""Output smaller than this is joined into one write; larger goes out as it lies."""


LARGE_PIECE = 2048
"""Octets per piece, on average, from which on pieces are not joined."""
MOST_PIECES = 512
"""Pieces in one gathering write."""
LINGER_SECONDS = 2.0
"""How long a peer may take to hang up after our last word. Closing earlier, with octets of theirs
unread, would reset the connection and our last word could be lost with it (RFC 1122 §4.2.2.13)."""

PARTING_SECONDS = 1.0
"""How long a peer that has said goodbye may take to hang up first: clients report an aborted
connection if the end of the stream comes with our answer."""
MOST_PARTING = 256
"""Connections of one listener that may be given that time."""

SHARE_SECONDS = 0.01
"""How long operations of one connection are performed before others are looked at."""

LONG_READ = 0.005
"""Seconds that the octets of one read may take before others are read from."""

REFUSALS = {
    "tls": b"AMQP\x00\x00\x09\x01",
    "http": b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: 50\r\n\r\nThis port speaks AMQP. HTTP has a port of its own.",
}
"""What is said to peers that do not speak AMQP."""


def address_of(found: Any) -> str:
    """A socket's name, or its peer's, as text; "" if there is none."""
    return f"{found[0]}:{found[1]}" if isinstance(found, tuple) else str(found or "")


class Connection(asyncio.Protocol):
    """Carries octets between one socket and one session. Owned by a ``Listener``."""

    __slots__ = (
        "listener", "transport", "adapter", "session", "address", "local", "loopback", "subject",
        "octets_in", "octets_out", "host", "rules", "encrypted", "mechanisms", "login", "_first",
        "_awake", "_held", "_full", "_stuffed", "_share", "_asking", "_pausing", "_crowded",
        "_leaving", "_deadline", "_gone", "_timer", "_parting",
    )  # fmt: skip

    def __init__(self, listener: "Listener", rules: ListenerRules) -> None:
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
        self._first = b""
        self._awake = False
        self._share: Uncommitted | None = None
        """Of the store's batches; for those who publish."""
        self._held = False
        """A publisher that is held back."""
        self._full = False
        """More than ``HIGH_WATER`` is waiting to be taken by the peer."""
        self._stuffed = False
        """More than ``TOO_MUCH`` is, and we do not read."""
        self._asking = False
        """A password is being checked, and we do not read."""
        self._pausing: bool | None = None
        """The login has failed, and the peer is not told yet; false when that is over."""
        self._crowded = False
        """One turn has brought more deliveries than are written at once."""
        self._leaving = False
        self._parting: asyncio.TimerHandle | None = None
        """When our half ends, unless the peer hangs up before."""
        self._deadline = 0.0
        self._gone = False
        self._timer: asyncio.TimerHandle | None = None

    # --- asyncio calls these --------------------------------------------------------------------

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

    def data_received(self, data: bytes) -> None:
        self.octets_in += len(data)
        if self._leaving:
            return
        begun = time.perf_counter()
        turn = self.listener.turn
        turn.begin()
        try:
            adapter = self.adapter
            if adapter is None:
                self._detect(data)
            else:
                self._perform(adapter, data)
        except Exception:
            # The one place for our own bugs: this connection dies, the others live on.
            log.exception("connection %s: internal error, closed", self.address)
            self._abort()
        turn.end()
        if time.perf_counter() - begun > LONG_READ:
            self._let_others()

    def _let_others(self) -> None:
        """What was read took long. The loop would read on from this socket, up to 32 times, before
        it looks at the others."""
        transport = self.transport
        if transport is not None and not (self._gone or self._leaving):
            transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._after_others)

    def _after_others(self) -> None:
        if not self._pausing:
            self._read_again()

    def eof_received(self) -> bool | None:
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self._gone = True
        self._stop_parting()
        turn = self.listener.turn
        turn.begin()
        self.listener.leave(self)
        try:
            if self.session is not None and self.adapter is not None:
                self.session.peer_gone(self.adapter.lost())
        except Exception:
            log.exception("connection %s: internal error at its end", self.address)
        self._end(error)
        turn.end()

    def _end(self, error: Exception | None) -> None:
        """Perform what is left, a share of time after the other, and end."""
        try:
            if self.session is not None and self.session.finish():
                asyncio.get_running_loop().call_soon(self._go_on_ending, error)
                return
            self._log_end(error)
        except Exception:
            log.exception("connection %s: internal error at its end", self.address)
        self._let_go()

    def _go_on_ending(self, error: Exception | None) -> None:
        self.listener.turn.begin()
        self._end(error)
        self.listener.turn.end()

    def _log_end(self, error: Exception | None) -> None:
        session = self.session
        if session is None:
            return
        log.info(
            "connection #%d %s: %s closed: %s",
            session.number,
            self.address,
            f"{session.adapter.version} user {session.user or '-'}",
            error or session.ending or "normal end",
        )

    def _let_go(self) -> None:
        """Break the circles in which a connection and its parts know each other."""
        session = self.session
        self.session = self.adapter = self.transport = self._share = None
        self.login.leave()
        del self.login
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if session is not None:
            session.release()

    def pause_writing(self) -> None:
        self._full = True
        if self.session is not None:
            self.session.pause()

    def resume_writing(self) -> None:
        self._full = False
        self._go_on()

    def crowded(self) -> None:
        """Enough deliveries for one turn: the rest waits in its queues until these are written, so
        that a long queue is not poured into memory."""
        if not self._crowded and self.session is not None:
            self._crowded = True
            self.session.pause()

    def catch_up(self) -> None:
        """The session may go on with what had to wait: in a turn of its own, for it is told so
        while the store tells what is safe."""
        asyncio.get_running_loop().call_soon(self._caught_up)

    def _caught_up(self) -> None:
        if self.session is None or self._gone:
            return
        self.listener.turn.begin()
        try:
            self._counted(self.session.perform_pending)
        except Exception:
            log.exception("connection %s: internal error, closed", self.address)
            self._abort()
        self.wake()
        self.listener.turn.end()
        self._read_on()

    def _go_on(self) -> None:
        """The peer takes what we write: large bodies, deliveries, and reading, may go on."""
        if self._full or self._gone:
            return
        if self.session is not None:
            self.listener.turn.begin()
            adapter = self.session.adapter
            if adapter.more:
                adapter.refill()
                self.wake()
            self._counted(self.session.resume)
            self.listener.turn.end()
        self._read_on()

    def _read_on(self) -> None:
        """Read again, unless it still asks for more than it takes."""
        if self._stuffed and not (self._full or self._behind() or self._waiting() > TOO_MUCH):
            self._stuffed = False
            self._read_again()

    def _waiting(self) -> int:
        """Octets that wait behind large bodies."""
        return 0 if self.adapter is None else self.adapter.more

    def _behind(self) -> bool:
        return self.session is not None and self.session.has_pending

    def _stuff(self) -> None:
        """It asks for more than it takes: read no more from it."""
        self._stuffed = True
        if self.transport is not None and not (self._held or self._ahead):
            self.transport.pause_reading()

    # --- octets ---------------------------------------------------------------------------------

    def _detect(self, data: bytes) -> None:
        self._first += data
        found = detect(self._first, self.rules.meanings)
        if found is None:
            return
        if found.protocol != "amqp":
            log.info("connection %s: not AMQP (%s), refused", self.address, found.protocol)
            answer = found.answer or REFUSALS.get(found.protocol, b"")
            if answer:
                self._write([answer])
            self._hang_up()
            return
        if self.rules.require_tls == "yes" and not self.encrypted:
            log.info("connection %s: %s without TLS, refused", self.address, found.version)
            if found.version == "1.0":
                self._write([TLS_1_0])  # what it should open with (§2.2, §5.2.1)
            self._hang_up()
            return
        self.adapter = adapter = self.listener.adapter(found.version, self)
        adapter.crowded = self.crowded
        self.session = Session(
            self.listener.broker,
            adapter,
            self.listener.registry,
            address=self.address,
            loopback=self.loopback,
            since=time.time(),
        )
        self.session.local = self.local
        self.session.meter = self.meter
        self.session.on_pending = self.catch_up
        self.session.time_slice = SHARE_SECONDS
        first, self._first = self._first, b""
        self._perform(adapter, first)

    def _perform(self, adapter: Adapter, data: bytes) -> None:
        session = self.session
        assert session is not None
        self._counted(lambda: session.perform(adapter.receive(data)))
        if not self._awake:
            self.wake()
        if session.has_pending and not self._stuffed:
            self._stuff()
        if session.publisher and not self._held and self.listener.holding:
            self.hold()

    def _counted(self, act: Callable[[], None]) -> None:
        """Act for the peer, and count what that puts into the store."""
        store = self.listener.turn.store
        appended, octets = store.appended, store.pending_octets
        act()
        if store.appended != appended:
            self._give(store.appended - appended, max(0, store.pending_octets - octets))

    def _give(self, messages: int, octets: int) -> None:
        """It has put messages that wait for the disk."""
        share = self._share
        if share is None:
            share = self._share = Uncommitted(self.listener.broker, self._read_again)
        reading = not (self._held or self._stuffed or share.full)
        share.add(messages, octets)
        if share.full and reading and self.transport is not None and not self._leaving:
            self.transport.pause_reading()

    @property
    def _ahead(self) -> bool:
        """It has said more than is written."""
        return self._share is not None and self._share.full

    def wake(self) -> None:
        """There is output: be flushed at the end of this turn."""
        if not self._awake:
            self._awake = True
            self.listener.turn.wake(self)

    def settle(self) -> None:
        """Act on what the adapter has found while it spoke."""
        if self.adapter is not None and self.session is not None and not self._gone:
            found = self.adapter.found()
            if found:
                self.session.perform(found)

    def flush(self) -> None:
        """Write everything there is in one go, but of large bodies a portion: the next one when the
        peer has taken this."""
        self._awake = False
        adapter = self.adapter
        if adapter is None or self._gone or self._pausing:
            return
        session = self.session
        early = adapter.closing or (session is not None and not session.opened)
        may_pause = self._pausing is None and self.listener.settings.failure_pause_seconds
        if early and may_pause and self.login.suspect(adapter, session):
            self._pause()
            return
        try:
            pieces = adapter.output()
        except OSError as error:
            log.error("connection %s: a large body cannot be read: %s", self.address, error)
            self._abort()
            return
        if pieces:
            self._write(pieces)
        more = adapter.more
        if self._crowded or more:
            self._crowded = False
            asyncio.get_running_loop().call_soon(self._go_on)
        if adapter.closing:
            self._hang_up()
        elif self._full:
            transport = self.transport
            if (
                not self._stuffed
                and transport is not None
                and transport.get_write_buffer_size() + more > TOO_MUCH
            ):
                self._stuff()

    def _pause(self) -> None:
        """Keep the peer waiting before it hears that its login failed."""
        self._pausing = True
        if self.transport is not None:
            self.transport.pause_reading()
        pause = self.listener.settings.failure_pause_seconds
        asyncio.get_running_loop().call_later(pause, self._end_pause)

    def _end_pause(self) -> None:
        self._pausing = False
        if not self._gone:
            self.listener.turn.begin()
            self.wake()
            self.listener.turn.end()

    def _write(self, pieces: list[bytes]) -> None:
        """Small pieces are joined, large ones go out as they lie: copying costs more than a
        gathering write. But not many at once, which the kernel (and uvloop) do not bear."""
        transport = self.transport
        assert transport is not None
        size = sum(map(len, pieces))
        self.octets_out += size
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif size <= JOIN_BELOW or size < LARGE_PIECE * len(pieces):
            transport.write(b"".join(pieces))
        elif len(pieces) <= MOST_PIECES:
            transport.writelines(pieces)
        else:
            for at in range(0, len(pieces), MOST_PIECES):
                transport.write(b"".join(pieces[at : at + MOST_PIECES]))

    def _hang_up(self) -> None:
        """After our last word: end our half, let the peer end the other. One that has said goodbye
        first is given a moment to hang up by itself."""
        transport = self.transport
        if self._leaving or transport is None or transport.is_closing():
            return
        self._leaving = True
        self._held = self._stuffed = False
        self._share = None
        transport.resume_reading()
        parted = self.session is not None and self.session.peer_closed
        if parted and self.listener.parting < MOST_PARTING and not self.listener.closing:
            self.listener.parting += 1
            loop = asyncio.get_running_loop()
            self._parting = loop.call_later(PARTING_SECONDS, self._end_half)
        else:
            self._end_half()

    def _stop_parting(self) -> None:
        if self._parting is not None:
            self._parting.cancel()
            self._parting = None
            self.listener.parting -= 1

    def _end_half(self) -> None:
        """Nothing more is written."""
        self._stop_parting()
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if transport.can_write_eof():
            waiting = transport.get_write_buffer_size()
            transport.write_eof()
            self._wait_for_end(waiting)
        else:
            transport.close()

    def _wait_for_end(self, waiting: int) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LINGER_SECONDS, self._linger, waiting)

    def _linger(self, waiting: int) -> None:
        """The time is over for a peer that has not hung up; unless it is still busy reading."""
        transport = self.transport
        if transport is None or self._gone:
            return
        left = transport.get_write_buffer_size()
        if not left:
            transport.close()
        elif left < waiting:
            self._wait_for_end(left)
        else:
            transport.abort()

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    # --- called by the listener -----------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Once a second: heartbeats, and peers that never finish their greeting."""
        session, adapter = self.session, self.adapter
        if session is None or adapter is None or not session.opened:
            if now > self._deadline:
                log.info("connection %s: no greeting in time, closed", self.address)
                self._abort()
            return
        if self._held or self._stuffed or self._ahead:
            # We do not read from it, so its silence is our doing.
            adapter.excuse_silence()
        session.perform(adapter.tick(now))
        self.wake()

    def hold(self) -> None:
        """Stop reading from this publisher."""
        if not self._held and self.transport is not None and not self._gone:
            self._held = True
            if not (self._stuffed or self._ahead):
                self.transport.pause_reading()

    def let_go(self) -> None:
        """Read again."""
        if self._held and self.transport is not None and not self._gone:
            self._held = False
            self._read_again()

    def _read_again(self) -> None:
        if self._gone or self._leaving or self._asking:
            return
        if self.transport is not None and not (self._held or self._stuffed or self._ahead):
            self.transport.resume_reading()

    def hold_for_login(self) -> None:
        """Read nothing until ``settled`` is called."""
        self._asking = True
        if self.transport is not None and not self._gone:
            self.transport.pause_reading()

    def settled(self, answer: Callable[[], None]) -> None:
        """Call ``answer`` within a turn, and read again."""
        self._asking = False
        if self._gone:
            return
        turn = self.listener.turn
        turn.begin()
        try:
            answer()
        except Exception:
            log.exception("connection %s: internal error, closed", self.address)
            self._abort()
        turn.end()
        if not self._pausing:
            self._read_again()

    def shut(self, text: str) -> None:
        """The gateway stops: say so politely."""
        if self._parting is not None:
            self._end_half()
        elif self.session is not None and self.session.opened:
            self.session.close(Condition.CONNECTION_FORCED, text)
            self.wake()
        else:
            self._hang_up()

    def abort(self) -> None:
        """Drop the socket without another word."""
        self._abort()

    def meter(self) -> tuple[int, int]:
        """Octets received and sent."""
        return self.octets_in, self.octets_out


def common_name(certificate: dict[str, Any]) -> str | None:
    """The common name in a peer certificate's subject, for SASL EXTERNAL."""
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName":
                return str(value)
    return None
