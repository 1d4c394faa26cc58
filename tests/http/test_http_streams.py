"""The life of event streams: what is refused, limits, slow readers, how they end."""

from typing import Any

import pytest

from gateway.http.access.principal import Principal
from gateway.http.app import close
from gateway.http.events.opening import open_stream
from gateway.http.events.stream import EventStream
from gateway.http.problems import Problem
from gateway.operations import DeleteQueue
from tests.http.stream_words import ALL, TEXT, publish, read_query


async def test_bad_requests(make_rig: Any) -> None:
    rig = make_rig(max_sources_per_stream=2)
    rig.exchange("prices")
    rig.queue("orders")
    async with rig.http() as http:
        for query, status in (
            ("", 400),
            ("source=orders", 400),
            ("source=queue:", 400),
            ("source=topic:x", 400),
            ("binding=x", 400),
            ("source=queue:orders&binding=x", 400),
            ("source=queue:orders&heartbeat=4", 400),
            ("source=queue:orders&heartbeat=56", 400),
            ("source=queue:orders&heartbeat=x", 400),
            ("source=queue:orders&from=offset:x", 400),
            ("source=queue:orders&from=latest&from=latest", 400),
            ("source=queue:orders&unheard=1", 400),
            ("source=queue:%FF", 400),
            ("source=exchange:amq.direct", 400),
            ("source=queue:a&source=queue:b&source=queue:c", 400),
            ("source=queue:none", 404),
            ("source=exchange:none", 404),
            ("source=queue:orders&source=queue:none", 404),
        ):
            answer = await http.get(f"/v1/%2F/events?{query}")
            assert answer.status_code == status, query
            assert answer.headers["content-type"] == "application/problem+json"
    async with rig.http("weak:weak") as http:
        assert (await http.get(f"/v1/%2F/events?{ALL}")).status_code == 403
    hub = rig.app.state.hub
    assert not hub.streams and not any(source.readers for source in hub.sources.values())


async def test_a_shared_source_needs_the_right_of_each_reader(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        async with listener(port, ALL, user="weak:weak") as other:
            assert other.status == 403


async def test_streams_per_user_are_limited(make_rig: Any, listener: Any) -> None:
    rig = make_rig(max_streams_per_user=1)
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        async with listener(port, ALL) as second:
            assert second.status == 429
            assert second.headers["retry-after"]
        async with listener(port, ALL, user="guest:guest") as other:
            assert other.status == 200


async def test_a_deleted_queue_ends_the_stream(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    async with rig.served() as port, listener(port, "source=queue:orders") as reader:
        await reader.opened()
        rig.begin()
        rig.channel.topology.delete_queue(DeleteQueue(1, None, "orders"))
        rig.end()
        closed = await reader.until("gateway.close")
        assert closed.data["reconnect"] is False
        assert not await reader.chunk()


async def test_a_withdrawn_permission_ends_the_stream(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    hub = rig.app.state.hub
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        hub.review(0.0)
        rig.broker.access.set_permissions("alice", "/", ".*", ".*", "^other$")
        hub.review(0.0)
        closed = await reader.until("gateway.close")
        assert "permission" in closed.data["reason"]
        assert not next(iter(hub.sources.values())).readers


async def test_a_deleted_virtual_host_ends_the_stream(rig: Any) -> None:
    rig.broker.create_vhost("v")
    hub = rig.app.state.hub

    def make(name: str) -> EventStream:
        asked = read_query(b"source=exchange:amq.fanout", None, 15)
        return open_stream(hub, name, Principal("guest"), asked)

    stream = make("v")
    rig.broker.delete_vhost("v")
    hub.review(0.0)
    assert stream.finished and not hub.sources
    hub.leave(stream)
    rig.broker.create_vhost("v")
    hub.leave(make("v"))
    await hub.close()


async def test_lingering_sources_give_way(make_rig: Any) -> None:
    rig = make_rig(max_sources=2)
    hub = rig.app.state.hub

    def open_one(key: str) -> EventStream:
        asked = read_query(f"source=exchange:amq.topic&binding={key}".encode(), None, 15)
        return open_stream(hub, "/", Principal("alice"), asked)

    hub.leave(open_one("a"))
    kept = [open_one("b"), open_one("c")]
    assert [name.key for _, name in hub.sources] == ["b", "c"]
    with pytest.raises(Problem):
        open_one("d")
    assert len(kept) == len(hub.streams) == 2
    await hub.close()


async def test_heartbeats(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        stream = next(iter(rig.app.state.hub.streams))
        stream.tick(stream.wrote_at + 14, 0.0)
        stream.tick(stream.wrote_at + 15, 0.0)
        assert (await reader.event()).comment == "hb"


async def test_a_slow_reader_loses_count_not_the_stream(make_rig: Any, listener: Any) -> None:
    rig = make_rig(journal_octets=300_000, stall_seconds=5)
    rig.exchange("prices")
    body = b"x" * 30_000
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        for _ in range(12):
            # Far more than the socket buffers hold.
            await publish(rig, "a", *([body] * 50), **TEXT)
        await publish(rig, "a", b"end", **TEXT)
        seen = lost = 0
        while True:
            event = await reader.event()
            if event.kind == "gateway.gap":
                lost += event.data["lost"]
            elif event.kind == "message":
                if event.body == {"text": "end"}:
                    break
                seen += 1
        assert lost > 0
        assert seen + lost == 600


async def test_a_socket_that_takes_nothing_is_hung_up_on(make_rig: Any, listener: Any) -> None:
    rig = make_rig(stall_seconds=5)
    rig.exchange("prices")
    hub = rig.app.state.hub
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        stream = next(iter(hub.streams))
        while stream.writing_since is None:
            await publish(rig, "a", *([b"x" * 100_000] * 10))
        stream.tick(stream.writing_since + 6, 0.0)
        await rig.until(lambda: not hub.streams)


async def test_closing_says_goodbye(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    rig.queue("orders")
    async with rig.served() as port, listener(port, f"{ALL}&source=queue:orders") as reader:
        await reader.opened()
        await close(rig.app)
        closed = await reader.until("gateway.close")
        assert closed.data["reconnect"] is True
        assert not await reader.chunk()
        async with listener(port, ALL) as late:
            assert late.status == 503
