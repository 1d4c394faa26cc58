"""What becomes of readers that fall behind, and of those beside them."""

import asyncio
import base64
import contextlib
import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.access.principal import Principal
from gateway.http.events.opening import open_stream
from gateway.http.events.stream import EventStream
from gateway.http.octets import Chunks
from tests.drawing import examples
from tests.http.stream_peer import Peer, numbers
from tests.http.stream_peer import publish as put
from tests.http.stream_words import ALL, TEXT, publish, read_query, texts


def make(rig: Any, query: str, cursor: str | None = None) -> EventStream:
    asked = read_query(query.encode(), cursor, 15)
    stream = open_stream(rig.app.state.hub, "/", Principal("alice"), asked)
    stream.take()
    return stream


def bodies(chunk: bytes | Chunks) -> list[int]:
    return [int(part.split('"')[0]) for part in bytes(chunk).decode().split('"text":"')[1:]]


async def test_latest_gets_the_newest_per_key_and_is_told_how_many_are_left_out(rig: Any) -> None:
    rig.exchange("prices")
    stream = make(rig, ALL + "&slow=latest")
    for number, key in enumerate("abacabcb"):
        put(rig, "prices", key, number)
    assert bodies(stream.take()) == [4, 6, 7]
    stream.tick(stream.wrote_at, 0.0)
    lag = bytes(stream.take()).decode()
    assert "event: gateway.lag" in lag and '"dropped":5}' in lag
    put(rig, "prices", "a", 8)
    assert bodies(stream.take()) == [8]
    stream.tick(stream.wrote_at, 0.0)
    assert b"gateway.lag" not in bytes(stream.take())
    rig.app.state.hub.leave(stream)
    await rig.app.state.hub.close()


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "c", "take", "big a", "reconnect"]), max_size=30),
    st.booleans(),
)
def test_latest_always_ends_at_the_newest_of_each_key(
    rig_class: Any, play: list[str], filtered: bool
) -> None:
    async def run() -> None:
        rig = rig_class()
        rig.exchange("prices")
        query = ALL + "&slow=latest" + ("&filter=key!%3Dc" if filtered else "")
        peer = Peer(rig, query.encode())
        peer.connect()
        await asyncio.sleep(0)
        newest: dict[str, int] = {}
        for number, action in enumerate([*play, "reconnect"]):
            if action == "take":
                await asyncio.sleep(0)
            elif action == "reconnect":
                await peer.hang_up()
                peer.connect()
            else:
                key = action[-1]
                put(rig, "prices", key, number)
                if key != "c" or not filtered:
                    newest[key] = number
        for _ in range(10 + len(play)):
            await asyncio.sleep(0)
        await peer.hang_up()
        seen: dict[str, int] = {}
        for event in peer.got:
            number = int(event["body"]["text"])
            assert number > seen.get(event["routing_key"], -1)
            seen[event["routing_key"]] = number
        assert seen == newest
        assert not peer.gaps
        await rig.app.state.hub.close()

    asyncio.run(run())


async def test_close_ends_the_stream_and_the_next_one_is_told_the_gap(make_rig: Any) -> None:
    rig = make_rig(journal_events=3)
    rig.exchange("prices")
    stream = make(rig, ALL + "&slow=close")
    cursor = stream.cursor().decode()
    for number in range(5):
        put(rig, "prices", "a", number)
    said = bytes(stream.take()).decode()
    assert (
        "event: gateway.close" in said and '"reason":"slow"' in said and '"reconnect":true' in said
    )
    assert "id:" not in said and stream.finished
    hub = rig.app.state.hub
    hub.leave(stream)
    asked = read_query((ALL + "&slow=close").encode(), cursor, 15)
    again = open_stream(hub, "/", Principal("alice"), asked)
    assert dict(again.headers)[b"amqp-resume"] == b"gap"
    said = bytes(again.take()).decode()
    assert '"lost":2' in said and bodies(said.encode()) == [2, 3, 4]
    hub.leave(again)
    await hub.close()


async def test_a_queue_waits_for_every_reader_that_holds_it(make_rig: Any) -> None:
    rig = make_rig(journal_events=4, queue_prefetch=6)
    rig.queue("orders")
    hub = rig.app.state.hub
    fast = Peer(rig, b"source=queue:orders&slow=skip")
    slow = Peer(rig, b"source=queue:orders")
    fast.connect()
    slow.connect()
    await asyncio.sleep(0)
    slow.clogged = True
    for number in range(20):
        put(rig, "", "orders", number)
    for _ in range(20):
        await asyncio.sleep(0)
    (source,) = hub.sources.values()
    # One has arrived at the slow one, so seven have been taken; the rest waits in the queue.
    assert rig.depth("orders") == (14, 6)
    assert numbers(fast.got) == list(range(6))
    assert len(source.journal) >= 6
    await slow.hang_up()
    for _ in range(60):
        await asyncio.sleep(0)
    assert rig.depth("orders") == (0, 0)
    assert numbers(fast.got) == list(range(20))
    await fast.hang_up()
    await hub.close()


async def test_a_reader_who_skips_does_not_hold_the_queue(make_rig: Any) -> None:
    rig = make_rig(journal_events=4, queue_prefetch=6)
    rig.queue("orders")
    hub = rig.app.state.hub
    fast = Peer(rig, b"source=queue:orders")
    slow = Peer(rig, b"source=queue:orders&slow=skip")
    fast.connect()
    slow.connect()
    await asyncio.sleep(0)
    slow.clogged = True
    for number in range(20):
        put(rig, "", "orders", number)
    for _ in range(60):
        await asyncio.sleep(0)
    assert numbers(fast.got) == list(range(20))
    assert rig.depth("orders") == (0, 0)
    await slow.hang_up()
    await fast.hang_up()
    await hub.close()


@pytest.mark.parametrize(
    "query",
    ["slow=fast", "slow=pause", "ack=none&credit=3", "ack=on-next", "ack=explicit", "format=xml"],
)
async def test_invalid_values_are_refused(rig: Any, query: str) -> None:
    rig.exchange("prices")
    async with rig.http() as http:
        assert (await http.get(f"/v1/%2F/events?{ALL}&{query}")).status_code == 400


READERS = 500
BOUND = 1_000_000


async def test_one_stalled_reader_among_many(make_rig: Any, listener: Any) -> None:
    """It costs memory up to its bound and no more, and no work at all: nothing is rendered for it,
    nothing waits for it, and the others get everything in order."""
    rig = make_rig(journal_octets=BOUND, stall_seconds=60)
    rig.exchange("prices")
    rig.exchange("filler")
    hub = rig.app.state.hub
    loop = asyncio.get_running_loop()
    async with rig.served() as port, contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(listener(port, ALL)) for _ in range(READERS)]
        for reader in readers:
            await reader.opened()

        async def a_round(number: int) -> None:
            await publish(rig, "a", b"%d" % number, **TEXT)
            got = await asyncio.gather(*(texts(reader, 1) for reader in readers))
            assert got == [[str(number)]] * READERS

        await a_round(0)
        stalled = await stack.enter_async_context(listener(port, ALL + "&source=exchange:filler"))
        await stalled.opened()
        (stuck,) = [one for one in hub.streams if len(one.sources) == 2]
        filling = [b"x" * 100_000] * 20
        while stuck.writing_since is None:
            await publish(rig, "a", *filling, exchange="filler", **TEXT)
        since = stuck.writing_since
        taken: list[object] = []
        stuck.take = lambda: taken.append(None)
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(5):
                await publish(rig, "a", *filling, exchange="filler", **TEXT)
            gc.collect()
            grown, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # Ten megabytes went by. The journal was full before: what is new has replaced what was.
        assert grown < BOUND * 2
        for number in range(1, 10):
            await a_round(number)
        for source in hub.sources.values():
            assert source.journal.octets <= BOUND
        assert stuck.writing_since == since and not taken
        assert sum(map(len, stuck.pending)) < 1000
        # After its time it is hung up on, and nothing of it is left.
        stuck.tick(loop.time() + 61, 0.0)
        await rig.until(lambda: len(hub.streams) == READERS)
        assert stuck not in hub.streams and len(hub.places) == READERS
        await a_round(10)


async def test_a_reader_that_is_dead_without_a_word_is_let_go(rig: Any, listener: Any) -> None:
    """Its peer has vanished with the network: no octet comes back, not even a reset."""
    rig.exchange("prices")
    hub = rig.app.state.hub
    async with rig.served() as port, listener(port, ALL) as dead, listener(port, ALL) as alive:
        stuck = hub.find((await dead.opened()).data["stream"])
        await alive.opened()
        while stuck.writing_since is None:
            await publish(rig, "a", *([b"x" * 100_000] * 20), **TEXT)
            await texts(alive, 20)
        stuck.tick(stuck.writing_since + hub.settings.stall_seconds, 0.0)
        await rig.until(lambda: stuck not in hub.streams)
        await publish(rig, "a", b"1", **TEXT)
        assert await texts(alive, 1) == ["1"]
        assert len(hub.streams) == 1


async def test_a_stream_with_requests_behind_it_ends_with_its_connection(rig: Any) -> None:
    """They wait for its end. The server tells only the last request that the connection is lost."""
    rig.exchange("prices")
    hub = rig.app.state.hub
    token = base64.b64encode(b"alice:wonder").decode()
    request = f"GET {{}} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {token}\r\n\r\n"
    async with rig.served() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        stream, other = request.format(f"/v1/%2F/events?{ALL}"), request.format("/livez")
        writer.write((stream + other * 2).encode())
        await rig.until(lambda: len(hub.streams) == 1)
        writer.close()

        async def write() -> None:
            while hub.streams:  # its end is not read, as nothing is, but an answer to a write
                await publish(rig, "a", b"1", **TEXT)
                await asyncio.sleep(0.01)

        await asyncio.wait_for(write(), 10)
        assert not hub.streams and not hub.places
