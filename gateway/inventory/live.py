"""Shows the frames that pass through a proxy, decoded, while they pass.

Octets are forwarded first and shown then. Whatever they are, they are shown or counted, and the
connection goes on. Secrets of a login are counted by the readers of all versions; of a login that
cannot be read, and of HTTP, octets of the client are counted too.
"""

import asyncio
import signal
from collections.abc import Callable
from itertools import count
from typing import Any

from gateway.adapters.core.trace_lines import HEADER_OCTETS
from gateway.config.bridge import Address
from gateway.errors import ConfigError
from gateway.inspect.show import UNDECODED, Conversation, Shown, remark
from gateway.inspect.sources import InspectError, Piece
from gateway.inventory.inventory import Inventory
from gateway.inventory.proxy import Proxy
from gateway.net.tls import client_context

Sink = Callable[[str, str, Shown], None]
"""Shows a line: connection, version, line. Raises ``OSError`` if nobody reads any more."""

OPENS = ("connection.open", "open")
"""The first frames of a client behind its login, in the versions before 1.0 and in 1.0."""


class Watched:
    """The tap of one connection."""

    def __init__(self, live: "Live", name: str, client: str) -> None:
        self.name = name
        self.conversation = Conversation(live.as_version)
        self._live = live
        self._logged_in = self._stopped = False
        live.show(self, remark(f"connection of {client}"))

    @property
    def version(self) -> str:
        """Empty until it is known."""
        return self.conversation.version or ""

    def add(self, from_client: bool, data: bytes) -> None:
        """Show the frames that these octets complete."""
        if self._stopped:
            return
        try:
            for shown in self.conversation.show(Piece(self.name, from_client, data, "", "")):
                self._live.show(self, self._without_secrets(shown))
        except InspectError as error:
            self._stopped = True
            self._live.show(self, remark(f"decoded no further: {error}"))

    def end(self) -> None:
        """Show what is left, and that the connection has ended."""
        if not self._stopped:
            for shown in self.conversation.rest():
                self._live.show(self, self._without_secrets(shown))
        self._live.show(self, remark("connection closed"))

    def _without_secrets(self, shown: Shown) -> Shown:
        from_client, line = shown
        if not from_client:
            return shown
        if line.kind not in UNDECODED and line.text.partition(" ")[0] in OPENS:
            self._logged_in = True
        at_login = line.offset >= HEADER_OCTETS and not self._logged_in
        if self.version == "http" or (at_login and line.kind in (*UNDECODED, "octets")):
            text = f"{line.size} octets, not shown: they may hold a password"
            return Shown(from_client, line._replace(text=text))
        return shown


class Live:
    """All connections of a proxy. ``most``: frames that are shown before it stops."""

    def __init__(self, sink: Sink, as_version: str | None = None, most: int | None = None) -> None:
        self.as_version = as_version
        self.stopped = asyncio.Event()
        """Set after ``most`` frames, or when nobody reads what is shown."""
        self.undecoded = 0
        """Frames that were shown and could not be decoded."""
        self._sink = sink
        self._left = most
        self._numbers = count(1)

    def tap(self, transport: Any) -> Watched:
        """The tap for a client's connection."""
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        return Watched(self, str(next(self._numbers)), f"{host}:{port}")

    def show(self, watched: Watched, shown: Shown) -> None:
        """Show a line, unless enough were shown."""
        if self.stopped.is_set():
            return
        try:
            self._sink(watched.name, watched.version, shown)
        except OSError:
            self.stopped.set()
            return
        if shown.from_client is None:
            return
        self.undecoded += shown.line.kind in (*UNDECODED, "octets", "truncated")
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self.stopped.set()


async def follow(
    live: Live, host: str, port: int, upstream: Address, begun: Callable[[int], None]
) -> None:
    """Forward and show until SIGINT, SIGTERM, or the number of frames that were asked for.
    ``begun`` is told the port. Raises ``ConfigError``: the port cannot be opened."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, live.stopped.set)
    tls = client_context(None) if upstream.tls else None
    proxy = Proxy(upstream, Inventory(str(upstream)), upstream_tls=tls, tap=live.tap)
    try:
        begun(await proxy.listen(host, port))
        await live.stopped.wait()
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    finally:
        await proxy.close()
