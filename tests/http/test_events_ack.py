"""When a message of a queue is accepted: on the next cursor, or by whoever holds its lease."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.access.principal import Principal
from gateway.http.events.leased_stream import open_leased
from gateway.operations import DeleteQueue
from tests.drawing import examples
from tests.http.receiving_words import RECEIVE
from tests.http.stream_peer import Peer, numbers
from tests.http.stream_peer import publish as put
from tests.http.stream_words import TEXT, publish, read_query, texts

ON_NEXT = "source=queue:orders&ack=on-next"
EXPLICIT = "source=queue:orders&ack=explicit"
DELIVERIES = "/v1/%2F/deliveries"


async def test_on_next_stays_behind_by_the_credit(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    async with rig.served() as port:
        async with listener(port, ON_NEXT + "&credit=3") as reader:
            opened = await reader.opened()
            assert opened.data["ack"] == "on-next"
            await publish(rig, "orders", *(b"%d" % n for n in range(10)), exchange="", **TEXT)
            assert await texts(reader, 10) == [str(n) for n in range(10)]
            await rig.until(lambda: rig.depth("orders") == (0, 3))
        hub = rig.app.state.hub
        (source,) = hub.sources.values()
        await rig.until(lambda: not source.readers)
        assert rig.depth("orders") == (0, 3)
        async with listener(port, ON_NEXT + "&credit=3", reader.cursor) as again:
            assert again.headers["amqp-resume"] == "exact"
            await rig.until(lambda: rig.depth("orders") == (0, 0))
            await publish(rig, "orders", b"10", exchange="", **TEXT)
            assert await texts(again, 1) == ["10"]


async def test_on_next_without_a_cursor_delivers_again(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    await publish(rig, "orders", b"1", b"2", exchange="", **TEXT)
    async with rig.served() as port:
        async with listener(port, ON_NEXT) as reader:
            assert await texts(reader, 2) == ["1", "2"]
        (source,) = rig.app.state.hub.sources.values()
        await rig.until(lambda: not source.readers)
        async with listener(port, ON_NEXT) as again:
            for number in ("1", "2"):
                event = await again.until()
                assert event.body == {"text": number} and event.data["redelivered"]


async def test_large_messages_do_not_wait_for_the_credit(make_rig: Any, listener: Any) -> None:
    rig = make_rig(journal_octets=30_000)
    rig.queue("orders")
    async with rig.served() as port, listener(port, ON_NEXT + "&credit=100") as reader:
        await reader.opened()
        await publish(rig, "orders", *([b"x" * 4000] * 20), exchange="", **TEXT)
        assert len(await texts(reader, 20)) == 20


ACTIONS = ("publish", "publish", "connect", "hang up", "forget", "let run", "let run", "clog")


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), max_size=40), st.integers(1, 4))
def test_on_next_is_at_least_once(rig_class: Any, play: list[str], credit: int) -> None:
    """What a reader has not confirmed with a cursor comes again; with its cursor nothing does."""

    async def run() -> None:
        rig = rig_class()
        rig.queue("orders")
        peer = Peer(rig, f"{ON_NEXT}&credit={credit}".encode())
        published, forgot = 0, False
        for action in play:
            if action == "publish":
                put(rig, "", "orders", published)
                published += 1
            elif action == "connect":
                peer.connect()
            elif action == "hang up":
                await peer.hang_up()
            elif action == "forget":
                await peer.hang_up()
                peer.cursor, forgot = None, True
            elif action == "clog":
                peer.clogged = peer.task is not None
            else:
                await asyncio.sleep(0)
        await peer.hang_up()
        peer.connect()
        for _ in range(10 + 2 * published):
            await asyncio.sleep(0)
        await peer.hang_up()
        got = numbers(peer.got)
        assert sorted(set(got)) == list(range(published))
        if not forgot:
            assert got == list(range(published))
        assert not peer.gaps
        peer.connect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert rig.depth("orders") == (0, 0), "the cursor has accepted the last ones"
        await peer.hang_up()
        await rig.app.state.hub.close()

    asyncio.run(run())


async def test_undeliverable_here_leaves_it_to_others(rig: Any, listener: Any) -> None:
    """A stream is a consumer of its own: it is not given the message again, and others are.
    Whatever a receive of the same user holds is another matter."""
    rig.queue("dead")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    rig.queue("buried", arguments=dead)
    rig.queue("orders")
    await publish(rig, "buried", b"0", exchange="", **TEXT)
    await publish(rig, "orders", b"1", b"2", exchange="", **TEXT)
    async with rig.served() as port, rig.http() as http:
        held = await http.post("/v1/%2F/queues/buried/deliveries", json={"max": 1})
        assert len(held.json()["deliveries"]) == 1
        async with listener(port, EXPLICIT + "&credit=1") as reader:
            event = await reader.until()
            assert event.body == {"text": "1"}
            token = event.data["lock"]["token"]
            where = f"{DELIVERIES}/{token}/modify"
            for repeated in (False, True):
                answer = await http.post(where, json={"undeliverable_here": True})
                assert answer.json()["outcome"] == "modified", answer.text
                assert answer.json()["repeated"] is repeated
            other = await reader.until()
            while other.kind.startswith("gateway."):
                other = await reader.until()
            assert other.body == {"text": "2"}
            assert rig.depth("orders") == (1, 1)
            assert rig.fetch("orders").body == b"1"
            assert rig.depth("dead") == (0, 0)
        # With a dead letter exchange it goes there.
        async with listener(port, EXPLICIT.replace("orders", "buried")) as reader:
            await publish(rig, "buried", b"3", exchange="", **TEXT)
            token = (await reader.until()).data["lock"]["token"]
            await http.post(f"{DELIVERIES}/{token}/modify", json={"undeliverable_here": True})
            assert rig.fetch("dead").body == b"3"


async def test_explicit_leases_each_event(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    await publish(rig, "orders", *(b"%d" % n for n in range(5)), exchange="", **TEXT)
    async with (
        rig.served() as port,
        rig.http() as http,
        listener(port, EXPLICIT + "&credit=2") as reader,
    ):
        assert reader.headers["amqp-resume"] == "fresh"
        opened = await reader.until("gateway.open")
        assert (opened.data["ack"], opened.data["credit"]) == ("explicit", 2)
        events = [await reader.until() for _ in range(2)]
        assert [event.body["text"] for event in events] == ["0", "1"]
        assert not any(event.id for event in events)
        assert rig.depth("orders") == (3, 2)
        first, second = (event.data["lock"]["token"] for event in events)
        assert events[0].data["lock"]["delivery_count"] == 1
        assert (await http.delete(f"{DELIVERIES}/{first}")).status_code == 200
        settled = await reader.until("gateway.settled")
        assert settled.data == {"token": first, "outcome": "accepted"}
        third = await reader.until()
        assert third.body == {"text": "2"}
        assert (await http.post(f"{DELIVERIES}/{second}/release")).status_code == 200
        again = await reader.until()
        assert again.body == {"text": "1"} and again.data["redelivered"]
        assert again.data["lock"]["delivery_count"] == 2
        items = [
            {"token": one.data["lock"]["token"], "outcome": "accepted"} for one in (third, again)
        ]
        answer = await http.post(f"{DELIVERIES}/settle", json=items)
        assert answer.status_code == 200
        assert [(await reader.until()).body["text"] for _ in range(2)] == ["3", "4"]


async def test_readers_with_explicit_acceptance_compete(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    async with (
        rig.served() as port,
        listener(port, EXPLICIT) as one,
        listener(port, EXPLICIT) as two,
    ):
        await one.until("gateway.open")
        await two.until("gateway.open")
        await publish(rig, "orders", b"1", b"2", exchange="", **TEXT)
        assert sorted((await texts(one, 1)) + (await texts(two, 1))) == ["1", "2"]


async def test_a_lease_that_runs_out_is_told(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    async with rig.served() as port, listener(port, EXPLICIT + "&lease_ms=1000") as reader:
        await publish(rig, "orders", b"1", exchange="", **TEXT)
        event = await reader.until()
        rig.ahead = 2000
        rig.begin()
        rig.broker.state.tick(rig.broker.state.now)
        rig.end()
        lost = await reader.until("gateway.lock-lost")
        assert lost.data == {"token": event.data["lock"]["token"]}
        assert (await reader.until()).data["redelivered"]


async def test_written_messages_stay_leased_when_the_stream_ends(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    hub = rig.app.state.hub
    async with rig.served() as port, rig.http() as http:
        async with listener(port, EXPLICIT) as reader:
            await publish(rig, "orders", b"1", exchange="", **TEXT)
            event = await reader.until()
        await rig.until(lambda: not hub.streams)
        assert rig.depth("orders") == (0, 1)
        clients = len(rig.broker.vhosts["/"].clients)
        token = event.data["lock"]["token"]
        assert (await http.delete(f"{DELIVERIES}/{token}")).status_code == 200
        assert rig.depth("orders") == (0, 0)
        assert len(rig.broker.vhosts["/"].clients) == clients - 1


async def test_unwritten_messages_go_back_at_once(rig: Any) -> None:
    rig.queue("orders")
    asked = read_query(EXPLICIT.encode(), None, 15)
    hub = rig.app.state.hub
    stream = open_leased(hub, "/", Principal("alice"), asked)
    put(rig, "", "orders", 1)
    put(rig, "", "orders", 2)
    assert rig.depth("orders") == (0, 2)
    hub.leave(stream)
    assert rig.depth("orders") == (2, 0)
    await hub.close()


async def test_a_deleted_queue_ends_an_explicit_stream(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    async with rig.served() as port, listener(port, EXPLICIT) as reader:
        await reader.until("gateway.open")
        rig.begin()
        rig.channel.topology.delete_queue(DeleteQueue(1, None, "orders"))
        rig.end()
        assert (await reader.until("gateway.close")).data["reconnect"] is False
        assert not await reader.chunk()
        async with listener(port, EXPLICIT) as again:
            assert again.status == 404


async def test_no_leases_without_the_right_to_read(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    async with rig.served() as port:
        async with listener(port, EXPLICIT, user="weak:weak") as reader:
            assert reader.status == 403
        async with listener(port, EXPLICIT + "&filter=key%3Dx") as reader:
            assert reader.status == 400


async def test_the_leases_of_a_user(make_rig: Any, listener: Any) -> None:
    """Two streams opened one after the other count with their credit before anything is leased."""
    rig = make_rig(max_leases_per_user=5)
    rig.queue("orders")
    counted = rig.app.state.hub.leases.per_owner
    async with rig.served() as port, rig.http() as http:
        async with listener(port, EXPLICIT + "&credit=3") as first:
            await first.until("gateway.open")
            async with listener(port, EXPLICIT + "&credit=3") as refused:
                assert refused.status == 429
            await publish(rig, "orders", *(b"%d" % n for n in range(8)), exchange="", **TEXT)
            for _ in range(3):
                token = (await first.until()).data["lock"]["token"]
            assert list(counted.values()) == [3]
            taken = await http.post(RECEIVE.format("orders"), json={"max": 8})
            assert len(taken.json()["deliveries"]) == 2
            assert (await http.post(RECEIVE.format("orders"), json={"max": 1})).status_code == 429
            assert list(counted.values()) == [5]
            await http.delete(f"/v1/%2F/deliveries/{token}")
            await first.until("gateway.settled")
            assert list(counted.values()) == [5], "the stream may lease the next one"
        await rig.until(lambda: list(counted.values()) in ([2 + 2], [2 + 3]))
