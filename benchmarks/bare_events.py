"""The yardstick for event streams: the least that a loop of Python on uvloop can do. A request is
searched for its length alone, and its body goes to all streams before it is answered: no parser, no
login, no routing, nothing that is kept."""

import asyncio
import gc
import re
import sys
from typing import cast

import uvloop

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
READY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)

streams: set[asyncio.Transport] = set()


class Bare(asyncio.Protocol):
    """One connection: a stream, or a publisher."""

    def __init__(self) -> None:
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data = self._unread + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(data, 0, end)
            stop = end + 4 + (int(length[1]) if length else 0)
            if stop > len(data):
                break
            self._answer(data[: end + 4], data[end + 4 : stop])
            data = data[stop:]
        self._unread = data

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"POST "):
            event = b"data: " + body + b"\n\n"
            chunk = b"%x\r\n%b\r\n" % (len(event), event)
            for stream in streams:
                stream.write(chunk)
            self._transport.write(CREATED)
        elif head.startswith(b"GET /readyz "):
            self._transport.write(READY)
        else:
            streams.add(self._transport)
            self._transport.write(STREAM)

    def connection_lost(self, error: Exception | None) -> None:
        streams.discard(self._transport)


async def serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Bare, "127.0.0.1", port)
    gc.freeze()
    gc.disable()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
