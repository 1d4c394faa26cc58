"""The proxy by itself: octets, ends, back-pressure, and peers that mean no good."""

import asyncio
import gc
import random
import socket
import ssl
import struct
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.bridge import Address
from gateway.inventory import tap
from gateway.inventory.inventory import BOUNDS, Inventory
from gateway.inventory.observer import Observer
from gateway.inventory.proxy import HIGH_WATER, Proxy
from gateway.inventory.tap import Decoding, Tap
from tests.inventory.replay import Pieces, replayed

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
PATIENCE = 60
HEADER = b"AMQP\x00\x00\x09\x01"


@asynccontextmanager
async def proxied(serve: Serve, **options: Any) -> AsyncIterator[tuple[Proxy, int]]:
    """A proxy before a server that does this."""
    async with asyncio.timeout(PATIENCE):
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        proxy = Proxy(Address("127.0.0.1", port, False), Inventory("test"), **options)
        listening = await proxy.listen("127.0.0.1", 0)
        try:
            yield proxy, listening
        finally:
            await proxy.close()
            server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back what comes, and the end."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def until(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def test_octets_and_the_end_go_both_ways() -> None:
    octets = random.Random(7).randbytes(3 << 20)

    async def work() -> None:
        async with proxied(echo) as (proxy, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)

            async def send() -> None:
                for at in range(0, len(octets), 40_000):
                    writer.write(octets[at : at + 40_000])
                    await writer.drain()
                writer.write_eof()

            sending = asyncio.create_task(send())
            assert await reader.read(-1) == octets  # to the end, which the server sends after ours
            await sending
            writer.close()
            await until(lambda: not proxy.connections)
            (client,) = proxy.inventory.clients.values()
            assert client.octets_in == client.octets_out == len(octets)

    asyncio.run(work())


def test_half_a_connection_stays_open() -> None:
    """The server answers after the client's end."""

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await reader.read(-1)
        writer.write(b"heard " + heard)
        writer.close()

    async def work() -> None:
        async with proxied(late) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"all")
            writer.write_eof()
            assert await reader.read(-1) == b"heard all"
            writer.close()

    asyncio.run(work())


@pytest.mark.parametrize("slow", ["client", "server"])
def test_the_slower_side_sets_the_pace(slow: str) -> None:
    """A side that does not read stops the other; nothing gathers in the proxy."""
    sent = 0
    go = asyncio.Event()

    async def pour(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(200):
            writer.write(bytes(100_000))
            await writer.drain()
            sent += 100_000
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if slow == "client":
            await pour(writer)
        else:
            await go.wait()
            while data := await reader.read(1 << 16):
                got.append(len(data))
            writer.close()

    got: list[int] = []

    async def work() -> None:
        async with proxied(serve, decode=False) as (proxy, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
            pouring = asyncio.create_task(pour(writer)) if slow == "server" else None
            await until(lambda: proxy._pairs and next(iter(proxy._pairs)).client.other)
            (pair,) = proxy._pairs
            to = pair.client if slow == "client" else pair.broker
            await until(lambda: to.transport.get_write_buffer_size() > HIGH_WATER)
            last = -1
            while last != sent:
                last = sent
                await asyncio.sleep(0.2)
            assert sent < 20_000_000
            assert to.transport.get_write_buffer_size() < HIGH_WATER + (1 << 20)
            go.set()
            if slow == "client":
                while data := await reader.read(1 << 16):
                    got.append(len(data))
            if pouring is not None:
                await pouring
            await until(lambda: sum(got) == 20_000_000)
            writer.close()

    asyncio.run(work())


def test_a_broker_that_is_not_there() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        proxy = Proxy(Address("127.0.0.1", port, False), Inventory("test"))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", await proxy.listen("127.0.0.1", 0)
        )
        with suppress(ConnectionResetError):
            assert await reader.read(10) == b""
        writer.close()
        await until(lambda: not proxy.connections)
        assert proxy.inventory.counts["refused"] == 1
        await proxy.close()

    asyncio.run(asyncio.wait_for(work(), PATIENCE))


def test_a_client_that_leaves_before_the_broker_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker's connection is closed, and nothing is left of the pair."""
    go, served, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    connect = asyncio.BaseEventLoop.create_connection

    async def late(loop: Any, make: Any, host: Any, port: Any, **given: Any) -> Any:
        if isinstance(given.get("ssl", ""), str):
            return await connect(loop, make, host, port, **given)
        await go.wait()
        return await connect(loop, make, host, port, **given)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.set()
        with suppress(ConnectionResetError):
            assert await reader.read(-1) == b""
        writer.close()
        ended.set()

    async def work() -> None:
        async with proxied(serve) as (proxy, port):
            monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", late)
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda: proxy.connections)
            (pair,) = [weakref.ref(one) for one in proxy._pairs]
            writer.transport.abort()
            go.set()
            await served.wait()
            await ended.wait()
            await until(lambda: not proxy.connections)
            gc.disable()
            try:
                await until(lambda: pair() is None)
            finally:
                gc.enable()

    asyncio.run(work())


def test_tls_on_both_sides(tmp_path: Path) -> None:
    authority = trustme.CA()
    pair = authority.issue_cert("localhost", "127.0.0.1")
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    pair.configure_cert(server_tls)
    client_tls = ssl.create_default_context()
    authority.configure_trust(client_tls)

    async def work() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server_tls)
        port = server.sockets[0].getsockname()[1]
        inventory = Inventory("test")
        proxy = Proxy(Address("127.0.0.1", port, True), inventory, upstream_tls=client_tls)
        listening = await proxy.listen("127.0.0.1", 0, server_tls)
        reader, writer = await asyncio.open_connection("127.0.0.1", listening, ssl=client_tls)
        writer.write(HEADER + bytes(500_000))
        assert await reader.readexactly(500_008) == HEADER + bytes(500_000)
        writer.close()
        await until(lambda: not proxy.connections)
        await proxy.close()
        server.close()
        (client,) = inventory.clients
        assert client.tls

    asyncio.run(asyncio.wait_for(work(), PATIENCE))


def test_tls_that_goes_through_is_said_to_be_unread() -> None:
    async def work() -> None:
        async with proxied(echo) as (proxy, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\x16\x03\x01\x02\x00")
            assert await reader.readexactly(5)
            writer.close()
            await until(lambda: not proxy.connections)
            assert [one.reason for one in proxy.inventory.failures] == ["TLS goes through"]

    asyncio.run(work())


def test_a_tap_that_falls_behind_stops_and_forwarding_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tap, "MOST_BEHIND", 100_000)
    monkeypatch.setattr(tap.Tap, "step", lambda self: True)  # decodes nothing
    octets = bytes(300_000)

    async def work() -> None:
        inventory = Inventory("test")
        decoding = Decoding()
        observer = Observer(inventory, lambda: 1.0, "here", 1, False)
        one = Tap(observer, decoding)
        for at in range(0, len(octets), 1000):
            one.add(True, octets[at : at + 1000])
        assert [found.reason for found in inventory.failures] == ["decoding fell behind"]
        assert one.behind == decoding.waiting == 0
        (client,) = inventory.clients.values()
        assert client.octets_in == len(octets)
        assert "undecoded" in client.features.used

    asyncio.run(work())


# --- peers that mean no good ----------------------------------------------------------------------

OPENINGS = [
    b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x00\x09",
    b"AMQP\x01\x01\x00\x0a", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"\x01\x01",
]  # fmt: skip
ANSWERS = [
    bytes.fromhex("01000000000100000a000a"), bytes.fromhex("0000000a"), *OPENINGS,
    bytes.fromhex("090000000001 0000000000000000 0000000000000000 00000000 000a000a"),
    bytes.fromhex("0100000001000101 00010001"), b"\x01\x00\x00\x00\x01\x01\0\0\0\0\0\0\x00\x09",
]  # fmt: skip
PIECES = st.lists(st.tuples(st.booleans(), st.binary(max_size=400)), max_size=30)


@given(st.sampled_from(OPENINGS), st.sampled_from(ANSWERS), PIECES)
def test_taps_survive_anything(opening: bytes, answer: bytes, pieces: Pieces) -> None:
    inventory = replayed([(True, opening), (False, answer), *pieces])
    assert len(inventory.clients) == 1
    assert not [one for one in inventory.failures if one.reason.startswith("internal")]
    assert Inventory.read(inventory.written()).written() == inventory.written()
    (client,) = inventory.clients.values()
    assert client.octets_in == len(opening) + sum(len(data) for one, data in pieces if one)


def frame(channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"


def declare(number: int) -> bytes:
    name = b"%d" % number * 20
    arguments = b"".join(b"\x05%05dV" % one for one in range(50))
    return (
        b"\x00\x32\x00\x0a\x00\x00" + bytes((len(name),)) + name + b"\x02"
        + len(arguments).to_bytes(4, "big") + arguments
    )  # fmt: skip


def test_a_client_with_endless_names_is_bounded() -> None:
    bounds = BOUNDS._replace(nodes=100, octets=200_000)
    octets = b"".join(frame(number % 60_000, declare(number)) for number in range(3000))
    start = frame(0, b"\x00\x0a\x00\x0a\x00\x09" + bytes(12))
    inventory = replayed([(True, HEADER), (False, start), (True, octets)], bounds)
    assert not inventory.failures
    assert len(inventory.nodes) <= 100
    assert inventory.counts["cut_nodes"] >= 2900
    assert len("".join(inventory.pieces())) < 400_000


def test_a_frame_of_a_gigabyte_is_skipped_and_not_kept() -> None:
    """A body that is announced as one frame: nothing of it is held."""
    start = frame(0, b"\x00\x0a\x00\x0a\x00\x09" + bytes(12))
    huge = b"\x03\x00\x01" + (1 << 30).to_bytes(4, "big")
    inventory = Inventory("test")
    observer = Observer(inventory, lambda: 1.0, "here", 1, False)

    async def work() -> None:
        one = Tap(observer, Decoding())
        for from_client, data in ((True, HEADER), (False, start), (True, huge)):
            one.add(from_client, data)
        for _ in range(100):
            one.add(True, bytes(1 << 16))
            while one.step():
                pass
        direction = one._sides[0]
        assert direction.held == 0
        assert direction._skip == (1 << 30) + 1 - 100 * (1 << 16)

    asyncio.run(work())
    assert not inventory.failures


def test_all_connections_share_what_they_may_hold() -> None:
    """Unfinished frames and consumers of many connections: the room is not exceeded, and is whole
    again when they end."""
    inventory = Inventory("test", BOUNDS._replace(connection_octets=500_000))
    room = inventory.connection_room
    unfinished = struct.pack(">BHI", 1, 1, 60_000) + bytes(50_000)
    consume = b"\x00\x3c\x00\x14\x00\x00\x01q%b\x00\0\0\0\0"
    tags = (b"\x08" + b"%08d" % number for number in range(60))
    octets = b"".join(frame(number + 1, consume % tag) for number, tag in enumerate(tags))
    start = frame(0, b"\x00\x0a\x00\x0a\x00\x09" + bytes(12))

    async def work() -> None:
        taps = []
        for _ in range(20):
            one = Tap(Observer(inventory, lambda: 1.0, "here", 1, False), Decoding())
            taps.append(one)
            for from_client, data in ((True, HEADER), (False, start), (True, octets + unfinished)):
                one.add(from_client, data)
                while one.step():
                    pass
            assert room.left >= 0
        assert room.left < 100_000
        assert 5 < len(inventory.failures) < 20
        for one in taps:
            one.end()

    asyncio.run(work())
    assert room.left == 500_000
    (client,) = inventory.clients.values()
    assert client.open == 0


def test_large_messages_are_named() -> None:
    """By what their header says: the body has not come."""
    start = frame(0, b"\x00\x0a\x00\x0a\x00\x09" + bytes(12))
    publish = frame(1, b"\x00\x3c\x00\x28\x00\x00\x00\x06orders\x00")
    for size, named in ((1 << 24, False), ((1 << 24) + 1, True)):
        header = struct.pack(">HHQH", 60, 0, size, 0)
        content = struct.pack(">BHI", 2, 1, len(header)) + header + b"\xce"
        inventory = replayed([(True, HEADER), (False, start), (True, publish + content)])
        (node,) = inventory.nodes.values()
        assert node.key[1:] == ("queue", "orders")
        assert node.published.largest == size
        assert ("large-message" in node.features.used) == named


def test_a_large_method_is_counted_and_not_kept() -> None:
    start = frame(0, b"\x00\x0a\x00\x0a\x00\x09" + bytes(12))
    large = frame(1, b"\x00\x32\x00\x0a" + bytes(200_000))
    octets = large + frame(1, b"\x00\x5a\x00\x0a")
    inventory = replayed([(True, HEADER), (False, start), (True, octets)])
    (client,) = inventory.clients.values()
    assert {"frame-too-large-to-decode", "transactions"} <= set(client.features.used)
