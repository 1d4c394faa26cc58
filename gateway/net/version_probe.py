"""Opens client connections until the server speaks one of the requested versions."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from gateway.adapters.contract import Adapter
from gateway.adapters.search import Search
from gateway.errors import Refusal

Take = Callable[[asyncio.Transport, Adapter, bytes], None]
"""Takes over a connection: its transport, its adapter, and the octets received."""


class VersionProbe(asyncio.Protocol):
    """Sends a header and reads the answer, then hands the connection over."""

    def __init__(self, search: Search, take: Take) -> None:
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the connection is handed over; raises ``Refusal`` if that cannot be."""
        self._search = search
        self._take = take
        self._header = search.begin()
        self._octets = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's; they do the same.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._header)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or self.taken.done():
            return
        self._octets += data
        try:
            adapter = self._search.hear(self._octets)
        except Refusal as refusal:
            self.taken.set_exception(refusal)
            transport.abort()
            return
        if adapter is not None:
            self.taken.set_result(None)
            self._take(transport, adapter, self._octets)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.taken.done():
            self.taken.set_exception(self._search.hung_up(self._octets))

    def drop(self) -> None:
        """Abort the connection: its caller has given up."""
        self.taken.cancel()
        if self._transport is not None:
            self._transport.abort()


async def probe(
    search: Search, address: tuple[str, int], tls: ssl.SSLContext | None, take: Take
) -> None:
    """Connect until the server speaks one of the versions of the ``search``; then ``take`` gets the
    connection.

    Raises ``OSError`` if the server cannot be reached, ``Refusal`` if no version is left to try.
    """
    loop = asyncio.get_running_loop()
    while True:
        opening = VersionProbe(search, take)
        try:
            await loop.create_connection(lambda now=opening: now, *address, ssl=tls)
            return await opening.taken
        except Refusal:
            if not search.more:
                raise
        except BaseException:
            opening.drop()
            raise
