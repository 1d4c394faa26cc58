"""``Upgrade`` fields that are ignored leave the request intact (RFC 9110 §7.8)."""

import asyncio
import base64
from typing import Any

import pytest

AUTH = b"Authorization: Basic " + base64.b64encode(b"alice:wonder") + b"\r\n"
H2C = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\n"
)


def post(body: bytes, more: bytes = H2C, chunked: bool = False, version: bytes = b"1.1") -> bytes:
    head = b"POST /v1/%2F/queues/orders/messages HTTP/" + version
    head += b"\r\nHost: localhost\r\n" + AUTH + more
    if chunked:
        half = len(body) // 2
        pieces = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (body[:half], body[half:]) if p)
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def answers(port: int, pieces: list[bytes], count: int) -> list[int]:
    """The statuses of ``count`` responses to what is written piece by piece."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found: list[int] = []
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        while len(found) < count:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            status = int(head.split()[1])
            if status != 100:
                found.append(status)
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(length)
    finally:
        writer.close()
    return found


def bodies(rig: Any, count: int) -> list[bytes]:
    return [bytes(rig.fetch("orders").body) for _ in range(count)]


UPGRADES = [
    H2C,
    b"Connection: close, upgrade\r\nUpgrade: h2c\r\n",
    b"Connection: upgrade\r\nUpgrade: TLS/1.0, HTTP/2.0\r\n",
    b"Connection: Upgrade\r\nUpgrade: anything\r\nUpgrade: h2c\r\n",
    b"Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\nSec-WebSocket-Version: 13\r\n",
]


@pytest.mark.parametrize("more", UPGRADES)
@pytest.mark.parametrize("chunked", [False, True])
async def test_an_ignored_upgrade_keeps_the_body(rig: Any, more: bytes, chunked: bool) -> None:
    rig.queue("orders")
    async with rig.served(ws="websockets-sansio") as port:
        assert await answers(port, [post(b"precious", more, chunked)], 1) == [201]
        assert bodies(rig, 1) == [b"precious"]
        assert rig.depth("orders") == (0, 0)


@pytest.mark.parametrize("step", [1, 7, 64])
async def test_in_pieces(rig: Any, step: int) -> None:
    """Wherever the head, or the body, is cut."""
    rig.queue("orders")
    whole = post(b"in pieces") + post(b"again", chunked=True)
    async with rig.served() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for at in range(0, len(whole), step):
            writer.write(whole[at : at + step])
            await asyncio.sleep(0)
        await rig.until(lambda: rig.depth("orders") == (2, 0))
        writer.close()
        assert bodies(rig, 2) == [b"in pieces", b"again"]


async def test_pipelined_and_kept_alive(rig: Any) -> None:
    rig.queue("orders")
    many = [post(b"%d" % n, H2C if n % 3 else b"", chunked=n % 2 == 0) for n in range(60)]
    async with rig.served() as port:
        assert await answers(port, [b"".join(many[:40]), *many[40:]], 60) == [201] * 60
        assert bodies(rig, 60) == [b"%d" % n for n in range(60)]


async def test_large_and_expected(rig: Any) -> None:
    """A body of many reads, and one that waits for 100."""
    rig.queue("orders")
    large = b"x" * 3_000_000
    async with rig.served() as port:
        assert await answers(port, [post(large)], 1) == [201]
        assert len(rig.fetch("orders").body) == len(large)
        head, _, body = post(b"late", H2C + b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + b"\r\n\r\n")
        assert b" 100 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        writer.write(body)
        assert b" 201 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        writer.close()
        assert bodies(rig, 1) == [b"late"]


async def test_http_1_0_has_no_upgrade(rig: Any) -> None:
    rig.queue("orders")
    async with rig.served() as port:
        assert await answers(port, [post(b"old", version=b"1.0")], 1) == [201]
        assert bodies(rig, 1) == [b"old"]


async def test_invalid_requests_are_refused_too(rig: Any) -> None:
    """The head is read twice; it may smuggle nothing the second time."""
    rig.queue("orders")
    both = b"Content-Length: 3\r\n"
    async with rig.served() as port:
        assert await answers(port, [post(b"abc", H2C + both, chunked=True)], 1) == [400]
        assert await answers(port, [post(b"abc", H2C + b"Content-Length: 4\r\n")], 1) == [400]
        connect = b"CONNECT example:443 HTTP/1.1\r\nHost: example:443\r\n\r\n"
        assert await answers(port, [connect + post(b"tunnel", b"")], 1) == [400]
        long = b"X-Long: " + b"x" * 70_000 + b"\r\n"
        assert await answers(port, [post(b"abc", H2C + long)], 1) == [431]
    assert rig.depth("orders") == (0, 0)
