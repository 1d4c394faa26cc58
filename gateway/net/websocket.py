"""AMQP over WebSocket: the OASIS binding, subprotocol ``amqp``, at one path of the HTTP port.

A WebSocket is wrapped as a transport, so that a ``Connection`` carries it like any socket. Message
boundaries mean nothing (binding §2). All versions are recognized by their headers, as on a TCP
port.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol
from weakref import ReferenceType

from gateway.net.connection import HIGH_WATER, Connection
from gateway.net.listener import Listener
from gateway.net.loopback import is_address, is_local_name, peer_is_loopback

log = logging.getLogger("gateway.net")

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

PATH = "/amqp"
SUBPROTOCOL = "amqp"
FRAMES = "gateway.frames"
"""Key in a scope: a weak reference to the ``Frames`` of the connection."""
LOW_WATER = HIGH_WATER // 4
LARGEST_MESSAGE = 1 << 20
"""Maximum octets in one message that we send."""

NORMAL, UNACCEPTABLE = 1000, 1003


class Frames(Protocol):
    """The part of ``FrameByFrame`` (``websocket_frames.py``) that is needed here."""

    def widen(self) -> None: ...


class AmqpSockets:
    """Wraps an HTTP application: WebSockets at ``PATH`` become connections of a listener, all else
    is passed on. ``origins`` are other sites whose pages may connect: browsers name the page's
    origin, and a foreign page must not reach a gateway that trusts this machine. ``raw_nodes``:
    queues and exchanges may be named; without it there is no AMQP, which does nothing else."""

    def __init__(
        self, app: App, listener: Listener, origins: Iterable[str] = (), raw_nodes: bool = True
    ) -> None:
        self._app = app
        self._listener = listener
        self.origins = frozenset(origins)
        self._raw_nodes = raw_nodes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        await receive()
        if not self._acceptable(scope) or not self._listener.room:
            await send({"type": "websocket.close", "code": NORMAL})
            return
        await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL})
        await Transport(self._listener, scope, receive, send).run()

    def _acceptable(self, scope: Scope) -> bool:
        if scope["path"] != PATH or SUBPROTOCOL not in scope.get("subprotocols", ()):
            return False
        if not self._raw_nodes:
            return False
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if len(hosts) > 1 or len(origins) > 1:
            return False
        if origins and origins[0] not in self.origins and not is_own(origins[0], *hosts):
            log.info("websocket from a page of %s refused", origins[0][:200])
            return False
        return True


def is_own(origin: str, host: str = "") -> bool:
    """Whether a page is of this server. Under DNS rebinding, a foreign page has the same name in
    both fields, so only an address or a local name proves it: origins with names of the DNS have to
    be listed."""
    return origin.partition("://")[2] == host and (is_local_name(host) or is_address(host))


class Transport(asyncio.Transport):
    """One WebSocket as a transport."""

    def __init__(self, listener: Listener, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        super().__init__(
            {
                "peername": tuple(client) if client else None,
                "local": peer_is_loopback(scope),
                "encrypted": scope.get("scheme") in ("wss", "https"),
            }
        )
        self._connection = Connection(listener, listener.rules)
        self._receive, self._send = receive, send
        self._frames: ReferenceType[Frames] | None = scope.get(FRAMES)
        self._known = False
        self._out: list[bytes] = []
        self._waiting = 0
        self._paused = False
        self._ending = False
        self._gone = False
        self._readable = asyncio.Event()
        self._readable.set()
        self._writable = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Carry octets both ways until either side ends it."""
        self._connection.connection_made(self)
        self._reader = asyncio.ensure_future(self._read())
        writer = asyncio.ensure_future(self._write())
        try:
            await asyncio.wait((self._reader, writer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._gone = True
            for task in (self._reader, writer):
                task.cancel()
            await asyncio.gather(self._reader, writer, return_exceptions=True)
            self._connection.connection_lost(None)

    async def _read(self) -> None:
        while True:
            await self._readable.wait()
            event = await self._receive()
            if event["type"] != "websocket.receive":
                return
            data = event.get("bytes")
            if data is None:
                await self._send({"type": "websocket.close", "code": UNACCEPTABLE})
                return
            self._connection.data_received(data)
            if not self._known:
                self._widen_after_login()

    def _widen_after_login(self) -> None:
        """Accept large frames from a peer that has logged in."""
        session = self._connection.session
        if session is not None and session.opened:
            self._known = True
            if self._frames is not None and (frames := self._frames()) is not None:
                frames.widen()

    async def _write(self) -> None:
        while True:
            await self._writable.wait()
            self._writable.clear()
            while self._out:
                pieces, self._out = self._out, []
                data = b"".join(pieces)
                for at in range(0, len(data), LARGEST_MESSAGE):
                    piece = data[at : at + LARGEST_MESSAGE]
                    await self._send({"type": "websocket.send", "bytes": piece})
                    self._waiting -= len(piece)
                    if self._paused and self._waiting <= LOW_WATER:
                        self._paused = False
                        self._connection.resume_writing()
            if self._ending:
                await self._send({"type": "websocket.close", "code": NORMAL})
                return

    # --- asyncio.Transport, called by the connection --------------------------------------------

    def write(self, data: Any) -> None:
        """Queue octets for the writer."""
        if self._gone or self._ending:
            return
        self._out.append(bytes(data))
        self._waiting += len(data)
        self._writable.set()
        if not self._paused and self._waiting > HIGH_WATER:
            self._paused = True
            self._connection.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def get_write_buffer_size(self) -> int:
        return self._waiting

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """No-op: the limits are ours."""

    def pause_reading(self) -> None:
        self._readable.clear()

    def resume_reading(self) -> None:
        self._readable.set()

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._gone or self._ending

    def close(self) -> None:
        """Write the waiting octets, then close."""
        self._ending = True
        self._writable.set()

    def abort(self) -> None:
        self._out.clear()
        if self._reader is not None:
            self._reader.cancel()
