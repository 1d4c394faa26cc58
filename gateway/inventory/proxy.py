"""A transparent proxy in front of a broker: octets go both ways as they come, at the speed of the
slower side, and a tap sees them."""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Callable
from typing import Any, Protocol

from gateway.config.bridge import Address
from gateway.inventory.inventory import Inventory
from gateway.inventory.observer import Observer
from gateway.inventory.tap import Decoding, Tap

log = logging.getLogger("gateway.inventory")

HIGH_WATER = 256 << 10
"""Octets that wait for a side above which the other is not read."""
MOST_CONNECTIONS = 10_000
CONNECT_SECONDS = 10.0
STOP_SECONDS = 5.0
LINGER_SECONDS = 60.0
"""Time in which a side takes the last octets of the other."""


class Tapped(Protocol):
    """Sees the octets of a connection that were forwarded."""

    def add(self, from_client: bool, data: bytes, /) -> None: ...

    def end(self) -> None:
        """The connection has ended."""
        ...


class Side(asyncio.Protocol):
    """One socket of a pair. Octets that it receives are written to the other."""

    def __init__(self, pair: "Pair", is_client: bool) -> None:
        self._pair = pair
        self._is_client = is_client
        self.transport: Any = None
        self.other: Side | None = None
        self.ended = False
        """It sends nothing more."""
        self.half_closes = False
        self._early = bytearray()
        """Octets that came before the other side was there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.set_write_buffer_limits(high=HIGH_WATER)
        self.half_closes = self.transport.can_write_eof()
        self._pair.made(self)

    def data_received(self, data: bytes) -> None:
        other = self.other
        if other is None:
            # uvloop may read once more after it was told to pause.
            self._early += data
            self.transport.pause_reading()
            return
        other.transport.write(data)
        self._pair.tap.add(self._is_client, data)

    def join(self, other: "Side") -> None:
        """The other side is there."""
        self.other = other
        if self._early:
            early, self._early = bytes(self._early), bytearray()
            self.data_received(early)
        if self.ended:
            self.eof_received()

    def eof_received(self) -> bool:
        """Pass the end on. TLS has no half of a connection to keep."""
        self.ended = True
        other = self.other
        if other is None:
            return self.half_closes
        if not other.half_closes or not self.half_closes:
            other.transport.close()
            return False
        if other.ended:
            other.transport.close()
            return False
        other.transport.write_eof()
        return True

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        other = self.other
        if other is not None and not other.transport.is_closing():
            # What the other side has still to be given is written first, if it reads.
            other.transport.close()
            loop = asyncio.get_running_loop()
            loop.call_later(LINGER_SECONDS, other.transport.abort)
        self._pair.lost()


class Pair:
    """A client's connection and the one to the broker."""

    def __init__(self, proxy: "Proxy") -> None:
        self._proxy = proxy
        self.client = Side(self, True)
        self.broker = Side(self, False)
        self.tap: Tapped
        self._connecting: asyncio.Task[None] | None = None
        self._open = 0

    def made(self, side: Side) -> None:
        """One of the two has a connection."""
        self._open += 1
        if side is self.client:
            side.transport.pause_reading()
            self.tap = self._proxy.tap(side.transport)
            self._connecting = asyncio.create_task(self._connect(), name="upstream")

    async def _connect(self) -> None:
        try:
            await self._reach()
        except (OSError, TimeoutError) as error:
            log.warning("no connection to %s: %s", self._proxy.upstream, error or "timed out")
            self._proxy.inventory.counts["refused"] += 1
            self.abort()
        finally:
            self._connecting = None
            self._check_end()

    async def _reach(self) -> None:
        """Connect to the broker, and join both. Raises ``OSError`` (``ssl.SSLError`` is one)."""
        to, tls = self._proxy.upstream, self._proxy.upstream_tls
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_SECONDS):
            await loop.create_connection(
                lambda: self.broker, to.host, to.port, ssl=tls,
                server_hostname=to.host if tls else None,
            )  # fmt: skip
        if self.client.transport.is_closing():
            self.broker.transport.abort()
            return
        self.broker.join(self.client)
        self.client.join(self.broker)
        self.client.transport.resume_reading()

    def lost(self) -> None:
        """One of the two is closed."""
        self._open -= 1
        self._check_end()

    def _check_end(self) -> None:
        if self._open or self._connecting is not None:
            return
        self.tap.end()
        self._proxy.ended(self)
        # Ended connections leave no circles: the collector is set to run rarely.
        self.client.other = self.broker.other = None
        del self.client, self.broker

    def close(self) -> None:
        """Write the waiting octets, and close both."""
        if self._connecting is not None:
            self._connecting.cancel()
        for side in (self.client, self.broker):
            if side.transport is not None:
                side.transport.close()

    def abort(self) -> None:
        for side in (self.client, self.broker):
            if side.transport is not None:
                side.transport.abort()


class Proxy:
    """Listens, and joins each client with the broker."""

    def __init__(
        self,
        upstream: Address,
        inventory: Inventory,
        *,
        upstream_tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.time,
        decode: bool = True,
        tap: Callable[[Any], Tapped] | None = None,
    ) -> None:
        """``decode``: false forwards only, and counts connections. ``tap`` makes the tap for a
        client's transport; ``None``: one that writes the inventory."""
        self.upstream = upstream
        self.upstream_tls = upstream_tls
        self.inventory = inventory
        self._clock = clock
        self._decode = decode
        self.tap = tap or self.tap_for
        self._decoding = Decoding()
        self._pairs: set[Pair] = set()
        self._server: asyncio.Server | None = None
        self._idle = asyncio.Event()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Begin; the port. Raises ``OSError``."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port, ssl=tls)
        self._decoding.start()
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def _accept(self) -> asyncio.Protocol:
        if len(self._pairs) >= MOST_CONNECTIONS:
            self.inventory.counts["refused"] += 1
            return Refusing()
        pair = Pair(self)
        self._pairs.add(pair)
        self.inventory.counts["connections"] += 1
        return pair.client

    def tap_for(self, transport: Any) -> Tap:
        """A tap for a client's connection."""
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        tls = transport.get_extra_info("ssl_object") is not None
        observer = Observer(self.inventory, self._clock, str(host), int(port), tls)
        tap = Tap(observer, self._decoding)
        if not self._decode:
            tap.ignore()
        return tap

    def ended(self, pair: Pair) -> None:
        """Both connections of a pair are closed."""
        self._pairs.discard(pair)
        if not self._pairs:
            self._idle.set()

    @property
    def connections(self) -> int:
        """Clients now."""
        return len(self._pairs)

    async def close(self) -> None:
        """Accept nothing more, write the waiting octets, and close all connections."""
        if self._server is not None:
            self._server.close()
        for pair in [*self._pairs]:
            pair.close()
        self._idle.clear()
        if self._pairs:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._idle.wait()
        for pair in [*self._pairs]:
            pair.abort()
        await self._decoding.close()


class Refusing(asyncio.Protocol):
    """Closes at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
