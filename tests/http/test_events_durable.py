"""Durable journals: a cursor of before a restart continues exactly; everything else says so."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.memory_store import MemoryStore
from gateway.http.access.principal import Principal
from gateway.http.admin.definition_export import members
from gateway.http.events.opening import open_stream
from gateway.message import DIALECTS, Essentials, Message, Properties
from gateway.operations import DeclareExchange, DeleteExchange
from tests.drawing import examples
from tests.http.stream_peer import Peer, numbers
from tests.http.stream_peer import publish as put
from tests.http.stream_words import TEXT, publish, read_query, texts

TOPIC = "source=" + quote("exchange:amq.topic?binding=#", safe="")
DURABLE = TOPIC + "&journal=durable"


def reborn(make_rig: Any, rig: Any, **settings: Any) -> Any:
    """The gateway after ``kill -9``: nothing but what the store has."""
    return make_rig(store=rig.store.survivors(), **settings)


def journals(rig: Any) -> list[Any]:
    return [record for kind, _, record in rig.store.records() if kind == "journal"]


async def test_a_cursor_survives_a_restart(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False)
    async with rig.served() as port, listener(port, DURABLE) as reader:
        opened = await reader.opened()
        assert opened.data["sources"][0]["journal"] == "durable"
        await publish(rig, "a", b"1", b"2", b"3", exchange="amq.topic", **TEXT)
        assert await texts(reader, 2) == ["1", "2"]
        cursor = reader.cursor
        rig = reborn(make_rig, rig)
    await publish(rig, "a", b"4", exchange="amq.topic", **TEXT)
    async with rig.served() as port, listener(port, DURABLE, cursor) as again:
        assert again.headers["amqp-resume"] == "exact"
        assert await texts(again, 2) == ["3", "4"]
        await publish(rig, "a", b"5", exchange="amq.topic", **TEXT)
        assert await texts(again, 1) == ["5"]


async def test_a_journal_in_memory_is_an_honest_gap(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False)
    async with rig.served() as port, listener(port, TOPIC) as reader:
        await reader.opened()
        await publish(rig, "a", b"1", exchange="amq.topic", **TEXT)
        await texts(reader, 1)
        cursor = reader.cursor
        rig = reborn(make_rig, rig)
    async with rig.served() as port, listener(port, TOPIC, cursor) as again:
        assert again.headers["amqp-resume"] == "gap"
        assert (await again.until("gateway.gap")).data["lost"] is None


async def test_nothing_is_shown_before_it_is_safe(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False)
    async with rig.served() as port, listener(port, DURABLE) as reader:
        await reader.opened()
        source = next(iter(rig.app.state.hub.sources.values()))
        rig.held = True
        rig.begin()
        rig.channel.publish(message(b"1"))
        rig.end()
        await asyncio.sleep(0)
        assert source.journal.head == 0
        rig.release()
        assert await texts(reader, 1) == ["1"]


def message(body: bytes) -> Any:
    dialect = DIALECTS["0-9-1"]
    header = dialect.write(Properties(content_type="text/plain"))
    return Message(dialect, header, body, "amq.topic", "a", Essentials())


async def test_the_ring_in_the_store_is_bounded_too(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False, journal_events=5)
    async with rig.served() as port, listener(port, DURABLE) as reader:
        await reader.opened()
        first = reader.cursor
        await publish(rig, "a", *(b"%d" % n for n in range(12)), exchange="amq.topic", **TEXT)
        await texts(reader, 5)
        (record,) = journals(rig)
        kept = rig.store.read(record["number"], 0, 100)
        assert [one.position for one in kept] == [8, 9, 10, 11, 12]
        rig = reborn(make_rig, rig, journal_events=3)
    (source,) = rig.app.state.hub.sources.values()
    assert (source.journal.first, source.journal.head) == (10, 12)
    async with rig.served() as port, listener(port, DURABLE, first) as again:
        assert again.headers["amqp-resume"] == "gap"
        gap = await again.until("gateway.gap")
        assert (gap.data["from"], gap.data["to"], gap.data["lost"]) == (1, 9, 9)
        assert await texts(again, 3) == ["9", "10", "11"]


async def test_a_journal_without_readers_is_deleted(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False, durable_linger_seconds=60.0)
    hub = rig.app.state.hub
    async with rig.served() as port:
        async with listener(port, DURABLE) as reader:
            await reader.opened()
            await publish(rig, "a", b"1", exchange="amq.topic", **TEXT)
            await texts(reader, 1)
            (record,) = journals(rig)
            assert record["used"] == 0
        await rig.until(lambda: journals(rig)[0]["used"])
        later = asyncio.get_running_loop().time() + 50
        hub.expire(later)
        assert hub.sources
        hub.expire(later + 20)
        assert not hub.sources and not journals(rig)
        assert not rig.store.read(record["number"], 0, 10)
        assert not [q for q in rig.broker.vhosts["/"].queues if q.startswith("amq.events-")]
        async with listener(port, DURABLE, reader.cursor) as again:
            assert again.headers["amqp-resume"] == "gap"


async def test_idle_time_counts_over_restarts(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False)
    async with rig.served() as port:
        async with listener(port, DURABLE) as reader:
            await reader.opened()
        await rig.until(lambda: journals(rig)[0]["used"])
        key = next(key for kind, key, _ in rig.store.records() if kind == "journal")
        record = journals(rig)[0]
        rig.store.save("journal", key, record | {"used": record["used"] - 90_000})
        rig = reborn(make_rig, rig, durable_linger_seconds=100.0)
    hub = rig.app.state.hub
    now = asyncio.get_running_loop().time()
    hub.expire(now)
    assert hub.sources
    hub.expire(now + 11)
    assert not hub.sources


async def test_without_its_exchange_a_journal_ends(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False)
    rig.begin()
    rig.channel.topology.declare_exchange(DeclareExchange(1, None, "prices", "topic", durable=True))
    rig.end()
    query = DURABLE.replace("amq.topic", "prices")
    hub = rig.app.state.hub
    async with rig.served() as port, listener(port, query) as reader:
        await reader.opened()
        rig.begin()
        rig.channel.topology.delete_exchange(DeleteExchange(1, None, "prices"))
        rig.end()
        hub.review(0.0)
        closed = await reader.until("gateway.close")
        assert closed.data["reconnect"] is False and closed.id == "b0.end"
        assert not journals(rig) and not hub.sources
        async with listener(port, query, closed.id) as again:
            assert again.status == 204


async def test_definitions_leave_the_journals_queue_out(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False)
    async with rig.served() as port, listener(port, DURABLE) as reader:
        await reader.opened()
        assert any(name.startswith("amq.events-") for name in rig.broker.vhosts["/"].queues)
        exported = {name: list(one) for name, one in members(rig.broker, None, True)}
        assert not exported["queues"] and not exported["bindings"]


async def test_sources_that_cannot_be_durable(make_rig: Any) -> None:
    rig = make_rig(volatile=False, max_durable_sources=1)
    rig.exchange("passing")
    hub = rig.app.state.hub
    async with rig.http() as http:
        for query, status in (
            ("source=exchange:passing&journal=durable", 400),
            ("source=exchange:none&journal=durable", 404),
            ("source=exchange:amq.topic&journal=disk", 400),
        ):
            answer = await http.get(f"/v1/%2F/events?{query}")
            assert answer.status_code == status, query
    volatile = make_rig()
    async with volatile.http() as http:
        assert (await http.get(f"/v1/%2F/events?{DURABLE}")).status_code == 400
    assert not hub.sources


async def test_settings_name_durable_sources(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False, durable_sources=("exchange:amq.t*",), max_durable_sources=1)
    async with rig.served() as port, listener(port, TOPIC) as reader:
        opened = await reader.opened()
        assert opened.data["sources"][0]["journal"] == "durable"
        async with listener(port, TOPIC + "&journal=memory") as other:
            opened = await other.opened()
            assert opened.data["sources"][0]["journal"] == "memory"
        async with listener(port, "source=exchange:amq.topic&binding=x") as more:
            assert more.status == 429
    volatile = make_rig(durable_sources=("*",))
    async with volatile.served() as port, listener(port, TOPIC) as reader:
        assert (await reader.opened()).data["sources"][0]["journal"] == "memory"


@pytest.mark.parametrize("seed", range(3))
async def test_confirmed_is_recorded(make_rig: Any, seed: int) -> None:
    """A persistent message is confirmed when the journal has it on disk."""
    rig = make_rig(volatile=False)
    hub = rig.app.state.hub
    stream = open_stream(hub, "/", Principal("alice"), read_query(DURABLE.encode(), None, 15))
    async with rig.http() as http:
        rig.held = True
        path = "/v1/%2F/exchanges/amq.topic/messages?routing_key=a"
        asked = asyncio.create_task(http.post(path, content=b"x", headers={"Amqp-Durable": "?1"}))
        for _ in range(20 + seed):
            await asyncio.sleep(0)
        assert not asked.done()
        lost = reborn(make_rig, rig)
        rig.release()
        assert (await asked).status_code == 201
        kept = reborn(make_rig, rig)
    hub.leave(stream)
    (source,) = kept.app.state.hub.sources.values()
    assert source.journal.head == 1
    assert lost is not kept


ACTIONS = ("publish", "publish", "connect", "hang up", "let run", "let run", "clog", "restart")


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), max_size=40))
def test_restarts_at_any_moment(rig_class: Any, play: list[str]) -> None:
    """Whatever happens and however often: everything, in order, once, and no gap."""

    async def run() -> None:
        rig = rig_class(volatile=False)
        peer = Peer(rig, DURABLE.encode())
        peer.connect()
        await asyncio.sleep(0)
        published = 0
        for action in [*play, "restart", "connect"]:
            if action == "publish":
                put(rig, "amq.topic", "a", published)
                published += 1
            elif action == "connect":
                peer.connect()
            elif action == "clog":
                peer.clogged = True
            elif action == "hang up":
                await peer.hang_up()
            elif action == "restart":
                await peer.hang_up()
                peer.clogged = False
                hub = rig.app.state.hub
                store: MemoryStore = rig.store.survivors()
                if hub._ticker is not None:
                    hub._ticker.cancel()
                peer.rig = rig = rig_class(store=store)
            else:
                await asyncio.sleep(0)
        for _ in range(8 + 2 * published):
            await asyncio.sleep(0)
        await peer.hang_up()
        assert numbers(peer.got) == list(range(published)), play
        assert not peer.gaps
        await rig.app.state.hub.close()

    asyncio.run(run())


async def test_a_redelivered_frame_is_made_when_it_is_read(make_rig: Any, listener: Any) -> None:
    rig = make_rig(volatile=False)
    async with rig.served() as port, listener(port, DURABLE) as reader:
        await reader.opened()
        await publish(rig, "a", b'{"n":1}', exchange="amq.topic", **{"Content-Type": "text/plain"})
        before = await reader.until()
        rig = reborn(make_rig, rig)
    (source,) = rig.app.state.hub.sources.values()
    assert source.journal.slots[1] is None
    async with rig.served() as port, listener(port, DURABLE + "&from=earliest") as again:
        assert again.headers["amqp-resume"] == "fresh"
        after = await again.until()
        assert json.dumps(after.data) == json.dumps(before.data)
        assert after.id == before.id
