"""Simple readers of event streams get no empty messages: a block has data, or there is none.

``httpx-sse`` makes an event of every blank line once it has an id, and line readers such as
``sseclient-py`` do so for ``retry:`` or ``id:`` alone.
"""

from typing import Any
from urllib.parse import quote

import httpx
from httpx_sse import aconnect_sse

from tests.http.stream_words import ALL, TEXT, publish

AUTH = ("alice", "wonder")


def blocks(text: str) -> list[list[str]]:
    """What stands between blank lines, without comments."""
    found = [block.split("\n") for block in text.split("\n\n")]
    return [[line for line in block if line and not line.startswith(":")] for block in found]


async def test_every_block_has_data(make_rig: Any, listener: Any) -> None:
    rig = make_rig(journal_events=4, durable_linger_seconds=0)
    rig.exchange("prices")
    rig.exchange("news", "fanout")
    rig.queue("orders")
    # Cursors of events that are gone by then: with one gap, and with two.
    async with rig.served() as port:
        both = ALL + "&source=exchange:news"
        async with listener(port, both) as old:
            await old.opened()
            for number in range(9):
                await publish(rig, "k", b"%d" % number, **TEXT)
                await publish(rig, "k", b"%d" % number, exchange="news", **TEXT)
            cursor = old.cursor
        queries = [
            (ALL, ""),
            (both, cursor),
            (ALL, cursor),
            (ALL + "&filter=" + quote("key=wanted"), ""),
            (ALL + "&keepalive=event", ""),
            ("source=queue:orders&ack=explicit", ""),
            ("source=exchange:nowhere&errors=inband", ""),
        ]
        for query, last in queries:
            async with listener(port, query, last) as reader:
                told = ""
                inband = "inband" in query
                if not inband:
                    await reader.until("gateway.open")
                    told = "data: the opening was read block by block\n\n"
                    for stream in rig.app.state.hub.streams:
                        await publish(rig, "unwanted", b"x", **TEXT)
                        stream.tick(stream.wrote_at + 100, 0.0)
                        stream.close("enough", True, 10)
                while await reader.chunk():
                    pass
                told += reader.text
                for block in blocks(told.removesuffix("\n\n")):
                    assert any(line.startswith("data: ") for line in block), (query, block)


async def test_httpx_sse(rig: Any) -> None:
    rig.exchange("prices")
    path = "/v1/%2F/exchanges/prices/events?binding=%23"
    async with (
        rig.served() as port,
        httpx.AsyncClient(auth=AUTH, timeout=60) as http,
        aconnect_sse(http, "GET", f"http://127.0.0.1:{port}{path}") as source,
    ):
        stream = next(iter(rig.app.state.hub.streams))
        seen = []
        async for event in source.aiter_sse():
            assert event.data, event
            seen.append(event.event)
            if event.event == "gateway.open":
                assert event.retry and event.id
                stream.tick(stream.wrote_at + 100, 0.0)  # a heartbeat
                await rig.until(lambda: not stream.pending)
                await publish(rig, "k", b"1", **TEXT)
            elif event.json().get("body") == {"text": "1"}:
                stream.close("enough", False)
        assert seen == ["gateway.open", "message", "gateway.close"]
