"""Accepts connections, plain or TLS by their first octet, and keeps track of them.

The first octet is peeked at, not read: 0x16 begins a TLS handshake, so one port serves both. The
header with which 1.0 requests TLS (§5.2) is read and answered here.
"""

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Coroutine, Iterator
from typing import Any, NamedTuple

from gateway.adapters import VERSIONS, Adapter, Capability, Product, Role, adapter_for
from gateway.adapters.performatives.wire.tables import TLS_HEADER
from gateway.adapters.sniff import TLS_HANDSHAKE
from gateway.bodies import Spool
from gateway.broker.broker import Broker
from gateway.config.amqp import AmqpSettings
from gateway.errors import ConfigError
from gateway.net.connection import Connection
from gateway.net.listener_rules import ListenerRules, rules_of
from gateway.net.loop_turn import LoopTurn
from gateway.net.passwords import Passwords
from gateway.sessions.management_requests import NODE
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session

log = logging.getLogger("gateway.net")

COMPAT = {"": Product(), "rabbitmq-4": Product("RabbitMQ", "4.2.0", node=NODE)}
"""Product that is presented to clients of 1.0, by the setting ``compat``."""


STALL_MS = 30_000
"""Time in milliseconds that sent octets may stay unacknowledged on an HTTP connection."""


class ListenAddress(NamedTuple):
    """Address to listen on. ``tls``: "never", "always", or "detect" by the first octet. ``rules``
    apply to its connections."""

    host: str
    port: int
    tls: str
    rules: ListenerRules


class Listener:
    """All AMQP sockets of the process."""

    def __init__(
        self,
        turn: LoopTurn,
        broker: Broker,
        registry: SessionRegistry,
        *,
        settings: AmqpSettings,
        passwords: Passwords,
        context: ssl.SSLContext | None,
        spool: Spool | None = None,
    ) -> None:
        """``spool`` stores bodies that are too large for memory."""
        self.turn = turn
        self.broker = broker
        self.registry = registry
        self.settings = settings
        self.limits = settings.limits()
        self.holding = False
        self.held_vhosts: set[str] = set()
        """Facades whose upstream does not take messages: their publishers are held back."""
        self.closing = False
        self.hangups = 0
        """Connections that their peer has closed, but not yet the socket."""
        self.sockets: list[socket.socket] = []
        self.passwords = passwords
        self.rules = rules_of(settings)._replace(name="websocket")
        """For WebSockets, which come without a ``ListenAddress``."""
        self.context = context
        """For connections that come from now on; those that are open keep theirs."""
        self._spool = spool
        registry.partials.tick(broker.state.now)
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._arriving = 0
        """Number of accepted sockets without a ``Connection``: silent, or in a TLS handshake."""
        self._empty = asyncio.Event()
        self._empty.set()

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._connections))

    # --- accepting ------------------------------------------------------------------------------

    def listen(self, address: ListenAddress) -> int:
        """Open a port and accept on it; returns the port. Raises ``ConfigError`` if it is taken."""
        opened = open_port(address.host, address.port, 1024)
        opened.setblocking(False)
        self.sockets.append(opened)
        port = int(opened.getsockname()[1])
        if not address.rules.name:
            name = name_of(address.host, port)
            address = address._replace(rules=address.rules._replace(name=name))
        self._spawn(self._accept(opened, address))
        return port

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, opened: socket.socket, address: ListenAddress) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(opened)
            except OSError as error:
                # Out of file descriptors: the backlog holds the rest until some are closed.
                log.warning("cannot accept: %s", error.strerror)
                await asyncio.sleep(0.1)
                continue
            if not self.room:
                accepted.close()
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._arriving += 1
            self._spawn(self._greet(accepted, address))

    @property
    def room(self) -> bool:
        """Whether another connection may be accepted."""
        present = len(self._connections) + self._arriving
        if self.closing or present >= self.settings.max_connections:
            log.warning("connection refused: %d are open", present)
            return False
        return True

    async def _greet(self, accepted: socket.socket, address: ListenAddress) -> None:
        """Choose plain or TLS, then hand the socket to a ``Connection``."""
        loop = asyncio.get_running_loop()
        context = self.context if address.tls == "always" else None
        try:
            if address.tls == "detect" and self.context is not None:
                async with asyncio.timeout(self.settings.handshake_seconds):
                    if await wants_tls(accepted):
                        context = self.context
            await loop.connect_accepted_socket(
                lambda: Connection(self, address.rules),
                accepted,
                ssl=context,
                ssl_handshake_timeout=self.settings.handshake_seconds if context else None,
            )
        except (OSError, TimeoutError, ConnectionError) as error:
            log.info("connection not established: %s", error or "no greeting in time")
            accepted.close()
        finally:
            self._arriving -= 1

    def adapter(self, version: str, connection: Connection) -> Adapter:
        """The server-role adapter for a detected version."""
        more: dict[str, Any] = {}
        capabilities = VERSIONS[version].capabilities
        if Capability.COMPAT in capabilities:
            compat = self.settings.compat
            more = {"product": COMPAT[compat], "annotates": bool(compat)}
        if Capability.LINKS in capabilities:
            more["near"] = connection.near
            more["write_now"] = connection.write_now
        if Capability.PARTIAL_BODIES in capabilities:
            more["partials"] = self.registry.partials
        return adapter_for(
            version,
            Role.SERVER,
            authority=connection.login,
            limits=self.limits,
            external_subject=connection.subject,
            mechanisms=connection.mechanisms,
            wake=connection.wake,
            spool=self._spool,
            **more,
        )

    def enter(self, connection: Connection) -> None:
        self._connections.add(connection)
        self._empty.clear()

    def leave(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    # --- all of them ----------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Once a second (monotonic seconds)."""
        self.registry.partials.tick(self.broker.state.now)
        for connection in self:
            try:
                connection.tick(now)
            except Exception:
                # As in reading: our own bugs cost one connection, not the clock of all.
                log.exception("connection %s: internal error, closed", connection.address)
                connection.abort()

    def hold(self, holding: bool) -> None:
        """Stop or resume reading from all publishers."""
        if holding == self.holding or self.closing:
            return
        self.holding = holding
        self._hold_publishers()

    def hold_vhost(self, vhost: str, holding: bool) -> None:
        """Likewise for the publishers of one virtual host."""
        if holding != (vhost in self.held_vhosts):
            (self.held_vhosts.add if holding else self.held_vhosts.discard)(vhost)
            self._hold_publishers()

    def holds(self, session: Session) -> bool:
        """Whether nothing is read from the peer of this session."""
        return session.publisher and (self.holding or session.vhost in self.held_vhosts)

    def _hold_publishers(self) -> None:
        for connection in self:
            session = connection.session
            if session is not None and self.holds(session):
                connection.hold()
            else:
                connection.let_go()

    def announce(self) -> None:
        """Tell every peer that publishers are held back, or no longer."""
        for session in self.registry:
            session.tell_blocked()

    async def close(self, text: str, seconds: float) -> None:
        """Stop accepting, close all connections, and drop those that take over ``seconds``."""
        for task in list(self._tasks):
            task.cancel()
        for opened in self.sockets:
            opened.close()
        # Publishers that are held back have to be read from, for their answers to our close.
        self.held_vhosts.clear()
        self.hold(False)
        self.closing = True
        self.turn.begin()
        for connection in self:
            connection.shut(text)
        self.turn.end()
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            log.warning("%d connections have not answered the goodbye", len(self._connections))
            for connection in self:
                connection.abort()
            await asyncio.sleep(0)


async def wants_tls(accepted: socket.socket) -> bool:
    """Whether the peer starts a TLS handshake. Reads only the header that requests one."""
    head = await first_octets(accepted)
    if head[:1] == bytes((TLS_HANDSHAKE,)):
        return True
    pause = 0.005
    while head and len(head) < len(TLS_HEADER) and TLS_HEADER.startswith(head):
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.5)
        head = accepted.recv(len(TLS_HEADER), socket.MSG_PEEK)
    if head != TLS_HEADER:
        return False
    accepted.recv(len(TLS_HEADER))
    await asyncio.get_running_loop().sock_sendall(accepted, TLS_HEADER)
    return True


async def first_octets(accepted: socket.socket) -> bytes:
    """Wait for the first octets and peek at them; empty if the peer has hung up."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(accepted.fileno(), readable)
    try:
        await ready
    finally:
        loop.remove_reader(accepted.fileno())
    return accepted.recv(len(TLS_HEADER), socket.MSG_PEEK)


def name_of(host: str, port: int) -> str:
    """The name of a listener that has no other."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def open_port(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens. Raises ``ConfigError`` if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        hint = LISTEN_HINTS.get(error.errno or 0, "")
        raise ConfigError(f"cannot listen on {host}:{port}: {why}{hint}") from None


LISTEN_HINTS = {
    errno.EADDRINUSE: "; another program has this port: stop it, or set another port "
    "(--amqp-port, --http-port)",
    errno.EACCES: "; ports below 1024 may need a privilege: set another port",
    errno.EADDRNOTAVAIL: "; this machine does not have this address: 0.0.0.0 is all of its own",
}
"""What to try, by the error of the system."""


def listen_http(host: str, port: int) -> socket.socket:
    """The HTTP socket. Raises ``ConfigError`` if the address is taken."""
    listening = open_port(host, port, 2048)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # An event stream to a peer that has vanished ends by this; accepted sockets inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALL_MS)
    return listening
