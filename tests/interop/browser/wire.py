"""A TCP proxy of the test's own: the network between a browser and the gateway, which can break.

It runs a loop in a thread of its own. What the gateway sends may be cut off after so many octets,
may vanish on the way, or may get stuck; a cut resets every connection and refuses new ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from tests.interop.servers import HOST, free_ports

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
PIECE = 4096
PATIENCE = 30.0


class Wire:
    """Listens on ``port`` and forwards to a port of this machine. Use as a context manager."""

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self.port = free_ports(1)[0]
        self.cuts = 0
        self.forwarded = 0
        """Octets that reached the browser's side."""
        self.lost = 0
        """Octets of the gateway that vanished on the way."""
        self.requests: list[str] = []
        """What the browser really asked, heads only (each comes in one piece)."""
        self._losing = False
        self._remaining: int | None = None
        self._flowing = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Wire:
        self._thread.start()
        self._do(self._mend)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._cut)
        self._do(self._wait_for_pumps)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    # --- what a test does -----------------------------------------------------------------------

    def cut(self) -> None:
        """Reset all connections now and refuse new ones."""
        self._do(self._cut)

    def cut_after(self, octets: int) -> None:
        """Cut by itself once so many more octets have reached the browser."""
        self._remaining = octets

    def lose(self) -> None:
        """From now on what the gateway sends is taken and thrown away."""
        self._losing = True

    def freeze(self) -> None:
        """From now on nothing of the gateway is taken: its socket fills up."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def mend(self) -> None:
        """The network is back."""
        self._do(self._mend)

    @property
    def whole(self) -> bool:
        return self._listener is not None

    # --- within the loop ------------------------------------------------------------------------

    def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self._loop).result(PATIENCE)

    async def _mend(self) -> None:
        self._losing, self._remaining = False, None
        self._flowing.set()
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, HOST, self.port)

    async def _cut(self) -> None:
        self._break()

    def _break(self) -> None:
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self.cuts += 1
        listener.close()
        for end in self._ends:
            end.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE
            )
            end.transport.abort()
        self._flowing.set()

    async def _wait_for_pumps(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=PATIENCE)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(HOST, self.behind)
        except OSError:
            writer.close()
            return
        ends = {writer, inner_writer}
        self._ends |= ends
        try:
            up = asyncio.create_task(self._pump_up(reader, inner_writer))
            await self._pump_down(inner_reader, writer)
            await up
        finally:
            self._ends -= ends

    async def _pump_up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while octets := await reader.read(PIECE):
                if octets.startswith(b"GET "):
                    self.requests.append(octets.decode("latin-1"))
                writer.write(octets)
                await writer.drain()
        writer.close()

    async def _pump_down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                await self._flowing.wait()
                octets = await reader.read(PIECE)
                if not octets:
                    break
                if self._losing:
                    self.lost += len(octets)
                    continue
                left = self._remaining
                if left is not None:
                    octets = octets[:left]
                    self._remaining = left - len(octets)
                writer.write(octets)
                await writer.drain()
                self.forwarded += len(octets)
                if self._remaining == 0:
                    # the end of the piece shall arrive: an orderly end, in the middle of an event
                    writer.close()
                    await asyncio.sleep(0.02)
                    self._break()
        writer.close()
