"""Event streams over real sockets: first bytes, resume, gaps, settlement, many sources."""

import asyncio
from typing import Any

from gateway.http.access.principal import Principal
from gateway.http.events.opening import open_stream
from tests.http.stream_words import ALL, TEXT, publish, read_query, texts


async def test_the_first_bytes(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL + "&heartbeat=20") as reader:
        assert reader.status == 200
        assert reader.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert reader.headers["cache-control"] == "no-store, no-transform"
        assert reader.headers["x-accel-buffering"] == "no"
        assert reader.headers["amqp-resume"] == "fresh"
        opened = await reader.event()
        assert opened.kind == "gateway.open"
        assert opened.data["heartbeat"] == 20
        assert opened.data["stream"] == reader.headers["amqp-stream-id"]
        (source,) = opened.data["sources"]
        assert source.pop("offset") > 0
        assert source == {
            "source": "exchange:prices?binding=#",
            "resume": "fresh",
            "journal": "memory",
        }
        assert opened.id.startswith("b1.")


async def test_bodies_by_the_binary_rule_and_one_line_each(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        json_type = {"Content-Type": "application/json"}
        await publish(rig, "a", b'{"a":\r\n[1, 12345678901234567890.10]}', **json_type)
        await publish(rig, "a", b"{broken", b'"\xff"', b"NaN", **json_type)
        await publish(rig, "a", b"line\r\ntwo\n", b"\xff\x00", **TEXT)
        await publish(rig, "a", b"raw")
        bodies = [(await reader.until()).body for _ in range(7)]
        assert bodies == [
            {"json": {"a": [1, 12345678901234567890.10]}},
            {"text": "{broken"},
            {"base64": "Iv8i"},
            {"text": "NaN"},
            {"text": "line\r\ntwo\n"},
            {"base64": "/wA="},
            {"base64": "cmF3"},
        ]
        headers = {"Amqp-Property": '"n";v="9007199254740993";t=long, "b";v=:AQ==:'}
        await publish(rig, "key.x", b"1", **{"Amqp-Message-Id": '"m"'}, **headers)
        event = await reader.until()
        assert event.data["source"] == "exchange:prices?binding=#"
        assert event.data["id"] == "m"
        assert event.data["routing_key"] == "key.x"
        assert event.data["properties"] == {
            "n": {"$type": "long", "value": "9007199254740993"},
            "b": {"$type": "binary", "value": "AQ=="},
        }


async def test_a_reconnect_continues_exactly_and_goes_live(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port:
        async with listener(port, ALL) as reader:
            await reader.opened()
            await publish(rig, "a", b"1", b"2", **TEXT)
            assert await texts(reader, 2) == ["1", "2"]
        await publish(rig, "a", b"3", b"4", **TEXT)
        async with listener(port, ALL, reader.cursor) as again:
            assert again.headers["amqp-resume"] == "exact"
            await publish(rig, "a", b"5", **TEXT)
            assert await texts(again, 3) == ["3", "4", "5"]
        query = f"{ALL}&last_event_id={again.cursor}"
        await publish(rig, "a", b"6", **TEXT)
        async with listener(port, query) as third:
            assert third.headers["amqp-resume"] == "exact"
            assert await texts(third, 1) == ["6"]


async def test_the_cursor_before_the_first_event_resumes_too(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port:
        async with listener(port, ALL) as reader:
            await reader.opened()
        await publish(rig, "a", b"1", **TEXT)
        async with listener(port, ALL, reader.cursor) as again:
            assert again.headers["amqp-resume"] == "exact"
            assert await texts(again, 1) == ["1"]


async def test_latest_and_earliest(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        await publish(rig, "a", b"1", **TEXT)
        assert await texts(reader, 1) == ["1"]
        async with listener(port, ALL + "&from=earliest") as early, listener(port, ALL) as late:
            await late.opened()
            await publish(rig, "a", b"2", **TEXT)
            assert await texts(early, 2) == ["1", "2"]
            assert await texts(late, 1) == ["2"]


async def test_events_dropped_from_the_ring_are_counted(make_rig: Any, listener: Any) -> None:
    rig = make_rig(journal_events=3)
    rig.exchange("prices")
    async with rig.served() as port:
        async with listener(port, ALL) as reader:
            await reader.opened()
        await publish(rig, "a", *(b"%d" % number for number in range(7)), **TEXT)
        async with listener(port, ALL, reader.cursor) as again:
            assert again.headers["amqp-resume"] == "gap"
            gap = await again.until("gateway.gap")
            assert gap.data["lost"] == 4
            assert gap.id
            assert await texts(again, 3) == ["4", "5", "6"]


async def test_a_journal_that_lingered_out_is_an_honest_gap(make_rig: Any, listener: Any) -> None:
    rig = make_rig(linger_seconds=0.0)
    rig.exchange("prices")
    hub = rig.app.state.hub
    async with rig.served() as port:
        async with listener(port, ALL) as reader:
            await reader.opened()
        await rig.until(lambda: not any(source.readers for source in hub.sources.values()))
        hub.expire(asyncio.get_running_loop().time() + 1)
        assert not hub.sources
        assert not [name for name in rig.broker.vhosts["/"].queues]
        async with listener(port, ALL, reader.cursor) as again:
            assert again.headers["amqp-resume"] == "gap"
            gap = await again.until("gateway.gap")
            assert gap.data["lost"] is None
            await publish(rig, "a", b"1", **TEXT)
            assert await texts(again, 1) == ["1"]


async def test_cursors_of_elsewhere_are_gaps_and_forged_ones_refused(
    rig: Any, listener: Any
) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        forged = reader.cursor[:-1] + ("A" if reader.cursor[-1] != "A" else "B")
        forged = forged[:30] + ("A" if forged[30] != "A" else "B") + forged[31:]
        async with listener(port, ALL, forged) as refused:
            assert refused.status == 400
        for unknown in ("17", "b2.xyz"):
            async with listener(port, ALL, unknown) as other:
                assert other.headers["amqp-resume"] == "gap"
                assert (await other.until("gateway.gap")).data["lost"] is None


async def test_a_queue_is_settled_when_a_reader_has_it(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    await publish(rig, "orders", b"1", b"2", exchange="", **TEXT)
    async with rig.served() as port:
        async with listener(port, "source=queue:orders") as one:
            assert await texts(one, 2) == ["1", "2"]
            async with listener(port, "source=queue:orders") as two:
                await two.opened()
                await publish(rig, "orders", b"3", exchange="", **TEXT)
                assert await texts(one, 1) == await texts(two, 1) == ["3"]
            await rig.until(lambda: rig.depth("orders") == (0, 0))
        source = next(iter(rig.app.state.hub.sources.values()))
        await rig.until(lambda: not source.readers)
        await publish(rig, "orders", b"4", exchange="", **TEXT)
        assert rig.depth("orders") == (1, 0), "without readers messages stay in the queue"
        async with listener(port, "source=queue:orders", one.cursor) as again:
            assert again.headers["amqp-resume"] == "exact"
            event = await again.until()
            assert event.body == {"text": "4"}
            assert "redelivered" not in event.data


async def test_unsent_messages_go_back_to_the_queue(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    hub = rig.app.state.hub
    async with rig.served() as port:
        reader = listener(port, "source=queue:orders")
        async with reader:
            await reader.opened()
            # The peer is gone, and the gateway does not know yet, when the messages come.
            reader.hang_up()
            rig.begin()
            source = next(iter(hub.sources.values()))
            stream = next(iter(source.readers))
            stream.gone = True
            rig.end()
            await publish(rig, "orders", b"1", b"2", exchange="", **TEXT)
            await rig.until(lambda: not source.readers)
        assert rig.depth("orders") == (2, 0)
        async with listener(port, "source=queue:orders", reader.cursor) as again:
            assert again.headers["amqp-resume"] == "exact"
            assert await texts(again, 2) == ["1", "2"]
            await publish(rig, "orders", b"3", exchange="", **TEXT)
            assert await texts(again, 1) == ["3"]


async def test_several_sources_share_one_cursor(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    rig.exchange("news", "fanout")
    rig.queue("orders")
    both = f"{ALL}&source=exchange:news&source=queue:orders"
    async with rig.served() as port:
        async with listener(port, both) as reader:
            assert len((await reader.opened()).data["sources"]) == 3
            await publish(rig, "a", b"p1", **TEXT)
            await publish(rig, "", b"n1", exchange="news", **TEXT)
            await publish(rig, "orders", b"o1", exchange="", **TEXT)
            assert sorted(await texts(reader, 3)) == ["n1", "o1", "p1"]
        await publish(rig, "", b"n2", exchange="news", **TEXT)
        await publish(rig, "a", b"p2", **TEXT)
        async with listener(port, both, reader.cursor) as again:
            assert again.headers["amqp-resume"] == "exact"
            assert sorted(await texts(again, 2)) == ["n2", "p2"]
        only_news = "source=exchange:news"
        await publish(rig, "", b"n3", exchange="news", **TEXT)
        async with listener(port, only_news, again.cursor) as fewer:
            assert fewer.headers["amqp-resume"] == "exact"
            assert await texts(fewer, 1) == ["n3"]


async def test_a_source_named_twice_is_read_once(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    twice = f"{ALL}&source=exchange:prices&source=exchange:prices&binding=%23"
    async with rig.served() as port, listener(port, twice) as reader:
        assert len((await reader.opened()).data["sources"]) == 1
        await publish(rig, "a", b"1", b"2", **TEXT)
        assert await texts(reader, 2) == ["1", "2"]


async def test_a_queue_source_holds_no_more_than_it_may(make_rig: Any, listener: Any) -> None:
    rig = make_rig(journal_octets=1000)
    rig.queue("orders")
    await publish(rig, "orders", *([b"x" * 400] * 5), exchange="", **TEXT)
    stream = open_stream(
        rig.app.state.hub, "/", Principal("alice"), read_query(b"source=queue:orders", None, 15)
    )
    assert rig.depth("orders") == (4, 1)
    rig.app.state.hub.leave(stream)
    assert rig.depth("orders") == (5, 0)


async def test_bindings_in_both_spellings(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port:
        for query in (
            "source=exchange:prices?binding=eur.%23",
            "source=exchange%3Aprices%3Fbinding%3Deur.%23",
            "source=exchange:prices&binding=eur.%23",
        ):
            async with listener(port, query) as reader:
                opened = await reader.opened()
                assert opened.data["sources"][0]["source"] == "exchange:prices?binding=eur.#"
                await publish(rig, "usd", b"no", **TEXT)
                await publish(rig, "eur.x", b"yes", **TEXT)
                assert await texts(reader, 1) == ["yes"]
    assert len(rig.app.state.hub.sources) == 0
