"""Live streams as resources: sources that come and go, and who is there."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.web import DeclaredRoute, RouteQuota
from gateway.http.app import close
from gateway.http.events import presence
from gateway.http.events.source_changes import Change, apply
from gateway.http.events.stream_request import Sources, Start, read_stream_request
from tests.drawing import examples
from tests.http.stream_peer import Peer
from tests.http.stream_peer import publish as put
from tests.http.stream_words import TEXT, publish, texts

A, B = "exchange:a?binding=#", "exchange:b?binding=#"


def query(*sources: str) -> str:
    return "&".join("source=" + one.replace("#", "%23") for one in sources)


async def patch(rig: Any, identity: str, user: str = "alice:wonder", **change: Any) -> Any:
    async with rig.http(user) as http:
        return await http.patch(f"/v1/%2F/streams/{identity}", json=change)


async def test_sources_come_and_go(rig: Any, listener: Any) -> None:
    rig.exchange("a")
    rig.exchange("b")
    rig.queue("orders")
    async with rig.served() as port, listener(port, query(A)) as reader:
        identity = (await reader.opened()).data["stream"]
        await publish(rig, "k", b"1", exchange="a", **TEXT)
        assert await texts(reader, 1) == ["1"]
        answer = await patch(rig, identity, add=[B, "queue:orders"])
        assert answer.status_code == 200
        assert [one["source"] for one in answer.json()["sources"]] == [A, B, "queue:orders"]
        told = (await reader.until("gateway.sources")).data
        assert [one["source"] for one in told["added"]] == [B, "queue:orders"]
        assert {one["resume"] for one in told["added"]} == {"fresh"}
        await publish(rig, "k", b"2", exchange="b", **TEXT)
        await publish(rig, "orders", b"3", exchange="", **TEXT)
        await publish(rig, "k", b"4", exchange="a", **TEXT)
        assert sorted(await texts(reader, 3)) == ["2", "3", "4"]
        # The cursor holds all three: a reconnect that names them loses nothing.
        async with listener(port, query(A, B, "queue:orders"), reader.cursor) as again:
            assert again.headers["amqp-resume"] == "exact"
            await again.opened()
        answer = await patch(rig, identity, remove=[A, "queue:orders", "queue:never"])
        assert [one["source"] for one in answer.json()["sources"]] == [B]
        told = (await reader.until("gateway.sources")).data
        assert told == {"added": [], "removed": [A, "queue:orders"]}
        await publish(rig, "k", b"5", exchange="a", **TEXT)
        await publish(rig, "k", b"6", exchange="b", **TEXT)
        assert await texts(reader, 1) == ["6"]
        # What left comes back where a cursor says.
        before = reader.cursor
        await patch(rig, identity, add=[A])
        await reader.until("gateway.sources")
        held = reader.cursor
        await patch(rig, identity, remove=[A])
        await reader.until("gateway.sources")
        await publish(rig, "k", b"7", exchange="a", **TEXT)
        answer = await patch(rig, identity, add=[A], last_event_id=held)
        told = (await reader.until("gateway.sources")).data
        assert told["added"][0]["resume"] == "exact"
        assert await texts(reader, 1) == ["7"]
        await patch(rig, identity, remove=[A])
        await patch(rig, identity, add=[A], **{"from": "earliest", "last_event_id": before})
        await reader.until("gateway.sources")
        told = (await reader.until("gateway.sources")).data
        assert told["added"][0]["resume"] == "fresh"
        assert await texts(reader, 4) == ["1", "4", "5", "7"]
        async with rig.http() as http:
            assert (await http.delete(f"/v1/%2F/streams/{identity}")).status_code == 204
        closed = await reader.until("gateway.close")
        assert closed.data["reconnect"] is False
        assert not await reader.chunk()
    assert not rig.app.state.hub.per_place


async def test_a_change_is_whole_or_not_at_all(make_rig: Any, listener: Any) -> None:
    routes = (
        DeclaredRoute(name="one", exchange="b", key="x", stream=True, quota=RouteQuota(streams=0)),
    )
    rig = make_rig(max_sources_per_stream=3, routes=routes)
    rig.exchange("a")
    rig.exchange("b")
    rig.broker.access.set_permissions("alice", "/", ".*", ".*", "^(a|b|none|orders)$")
    async with rig.served() as port, listener(port, query(A)) as reader:
        identity = (await reader.opened()).data["stream"]
        before = await patch(rig, identity)
        for change, status in (
            ({"add": [B, "exchange:none"]}, 404),
            ({"add": [B, "exchange:secret"]}, 403),
            ({"add": [B, "route:one"]}, 429),
            ({"add": ["route:none"]}, 404),
            ({"remove": [A]}, 400),
            ({"add": [f"exchange:b?binding={n}" for n in range(3)]}, 400),
            ({"add": [B], "remove": [B]}, 400),
            ({"add": ["b"]}, 400),
            ({"add": B}, 400),
            ({"add": [1]}, 400),
            ({"add": ["queue:\ud800"]}, 400),
            ({"add": [B], "last_event_id": "b1.AAAA"}, 400),
            ({"add": [B], "last_event_id": 7}, 400),
            ({"add": [B], "from": "yesterday"}, 400),
            ({"unheard": []}, 422),
        ):
            async with rig.http() as http:
                answer = await http.patch(
                    f"/v1/%2F/streams/{identity}",
                    content=json.dumps(change),
                    headers={"content-type": "application/json"},
                )
            assert answer.status_code == status, (change, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            assert (await patch(rig, identity)).json() == before.json()
            assert len(rig.app.state.hub.streams) == 1
        async with rig.http() as http:
            for content, kind, status in (
                (b"[]", "application/json", 400),
                (b"{", "application/json", 400),
                (b"[" * 60_000, "application/json", 400),
                (b" " * 70_000, "application/json", 413),
                (b"a=b", "application/x-www-form-urlencoded", 415),
            ):
                answer = await http.patch(
                    f"/v1/%2F/streams/{identity}", content=content, headers={"content-type": kind}
                )
                assert answer.status_code == status
        assert (await patch(rig, identity, "weak:weak", add=[B])).status_code == 404
        assert (await patch(rig, identity, "guest:guest", add=[B])).status_code == 403
        await publish(rig, "k", b"1", exchange="a", **TEXT)
        assert await texts(reader, 1) == ["1"]


async def test_unchangeable_parameters(rig: Any, listener: Any) -> None:
    rig.exchange("a")
    rig.queue("orders")
    async with rig.served() as port:
        for asked in ("source=queue:orders&ack=explicit", "source=queue:orders&ack=on-next",
                      "source=queue:orders&slow=pause"):  # fmt: skip
            async with listener(port, asked) as reader:
                opened = await reader.until("gateway.open")
                answer = await patch(rig, opened.data["stream"], add=[A])
                assert answer.status_code == 400, asked


async def test_a_public_listener_names_no_nodes(make_rig: Any, listener: Any) -> None:
    routes = tuple(
        DeclaredRoute(name=name, exchange="a", key=name, stream=True) for name in ("one", "two")
    )
    rig = make_rig(raw_nodes=False, routes=routes)
    rig.exchange("a")
    async with rig.served() as port, listener(port, "source=route:one") as reader:
        identity = (await reader.opened()).data["stream"]
        assert (await patch(rig, identity, add=[A])).status_code == 404
        answer = await patch(rig, identity, add=["route:two"], remove=["route:one"])
        assert [one["source"] for one in answer.json()["sources"]] == ["route:two"]
        assert rig.app.state.hub.per_place == {("/", ""): 1, ("/", "two"): 1}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "b", "a", "b", "add", "remove", "take", "reconnect"]), max_size=25
    )
)
def test_a_cursor_is_exact_under_all_changes(rig_class: Any, play: list[str]) -> None:
    """Of what is read all the time nothing is missing and nothing comes twice; of what comes and
    goes, nothing that was sent while it was there."""

    async def run() -> None:
        rig = rig_class()
        rig.exchange("a")
        rig.exchange("b")
        hub = rig.app.state.hub
        asked = read_stream_request([("source", B)], None, 15)
        change = Change(Sources(None), frozenset(), Start(), None)  # type: ignore[arg-type]
        peer = Peer(rig, query(A).encode())
        peer.connect()
        await asyncio.sleep(0)
        here = False
        wanted: list[int] = []
        for number, action in enumerate([*play, "reconnect"]):
            (stream,) = hub.streams
            if action == "take":
                await asyncio.sleep(0)
            elif action == "reconnect":
                await peer.hang_up()
                peer.query = query(A, B).encode() if here else query(A).encode()
                peer.connect()
            elif action == "add" and not here:
                sources = Sources(None)  # type: ignore[arg-type]
                sources.add(asked.names[0])
                apply(stream, change._replace(add=sources))
                here = True
                await drain(peer)
            elif action == "remove" and here:
                await drain(peer)
                apply(stream, change._replace(remove=frozenset({B})))
                here = False
            elif action in ("a", "b"):
                put(rig, action, "k", number)
                if action == "a" or here:
                    wanted.append(number)
        await drain(peer)
        await peer.hang_up()
        got = [int(event["body"]["text"]) for event in peer.got]
        assert sorted(got) == wanted
        assert not peer.gaps
        await hub.close()

    asyncio.run(run())


async def drain(peer: Peer) -> None:
    for _ in range(6):
        await asyncio.sleep(0)


# --- presence -----------------------------------------------------------------------------------


async def test_presence_as_a_stream(rig: Any, listener: Any) -> None:
    rig.exchange("a")
    rig.queue("orders")
    rig.broker.access.add_user("some", "some", ())
    rig.broker.access.set_permissions("some", "/", "^$", "^$", "^a$")
    path, accept = "/v1/%2F/subscriptions", {"accept": "text/event-stream"}
    hub = rig.app.state.hub

    def look() -> None:
        loop = asyncio.get_running_loop()
        for stream in list(hub.streams):
            if hasattr(stream, "presence"):
                stream.presence.seen.clear()
                stream.tick(loop.time() + 3, 0.0)
                stream.looked = 0.0

    async with rig.served() as port, listener(port, query(A)) as first:
        await first.opened()
        async with (
            listener(port, "", path=path, headers=accept) as all_of_it,
            listener(port, "", path=path, headers=accept, user="some:some") as some,
            listener(port, "", path=path, headers=accept, user="weak:weak") as none,
        ):
            for reader, count in ((all_of_it, 1), (some, 1), (none, 0)):
                opened = (await reader.until("gateway.open")).data
                assert len(opened["subscriptions"]) == count and not opened["truncated"]
            rig.begin()
            rig.channel.start(rig.channel.subscribe("orders", "mine"))
            rig.end()
            look()
            joined = (await all_of_it.until()).data
            assert joined["change"] == "joined"
            assert joined["subscription"]["consumer"] == "mine"
            first.hang_up()
            await rig.until(lambda: len(hub.streams) == 3)
            look()
            for reader in (all_of_it, some):
                left = (await reader.until()).data
                assert left["change"] == "left" and left["subscription"]["name"] == "a"
            assert '"joined"' not in some.text and '"left"' not in none.text
            rig.broker.access.clear_permissions("some", "/")
            look()
            assert (await some.until("gateway.close")).data["reconnect"] is False
            await close(rig.app)
            assert (await all_of_it.until("gateway.close")).data["reconnect"] is True
    assert not hub.streams


async def test_presence_is_bounded(
    rig: Any, listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "MOST_WATCHERS", 1)
    monkeypatch.setattr(presence, "MOST_SHOWN", 3)
    for number in range(5):
        rig.queue(f"q{number}")
        rig.begin()
        rig.channel.start(rig.channel.subscribe(f"q{number}", f"c{number}"))
        rig.end()
    async with rig.http() as http:
        found = (await http.get("/v1/%2F/subscriptions")).json()
        assert len(found["subscriptions"]) == 3 and found["truncated"] is True
        head = await http.head("/v1/%2F/subscriptions", headers={"accept": "text/event-stream"})
        assert head.status_code == 200
        path, accept = "/v1/%2F/subscriptions", {"accept": "text/event-stream"}
        async with rig.served() as port, listener(port, "", path=path, headers=accept) as first:
            assert len((await first.until("gateway.open")).data["subscriptions"]) == 3
            assert (await http.get(path, headers=accept)).status_code == 429
    async with rig.http(None) as http:
        assert (await http.get("/v1/%2F/subscriptions")).status_code == 401
