"""How streams begin and end: where from, over which route, for how long, and what a page learns."""

import asyncio
import json
import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from gateway.http.access.principal import Principal
from gateway.http.app import close
from gateway.http.events.opening import open_stream
from gateway.http.events.stream_request import Start, read_start
from gateway.http.problems import Problem
from gateway.operations import DeleteQueue
from tests.http.settings_words import shared_bearer
from tests.http.stream_words import ALL, TEXT, publish, read_query, texts

KEY = OctKey.import_key(b"k" * 32)
BEARER = shared_bearer(b"k" * 32, "alice")


def token(expires: float, subject: str = "s1", scope: str = "stream") -> str:
    claims = {
        "iss": "https://issuer",
        "aud": "gateway",
        "sub": subject,
        "exp": int(expires),
        "iat": int(time.time()),
        "scope": scope,
    }
    return jwt.encode({"alg": "HS256", "typ": "at+jwt"}, claims, KEY)


# --- where from ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("latest", Start("latest")),
        ("earliest", Start("earliest")),
        ("offset:17", Start("offset", 17)),
        ("time:1970-01-01T00:00:01.5Z", Start("time", 1500)),
        ("time:1970-01-01T01:00:00+01:00", Start("time", 0)),
        ("-PT5M", Start("ago", 300_000)),
        ("-P1DT2H3M4.5S", Start("ago", 93_784_500)),
        ("-P2D", Start("ago", 172_800_000)),
    ],
)
def test_starts(text: str, start: Start) -> None:
    assert read_start(text) == start


@pytest.mark.parametrize(
    "text",
    ["", "now", "offset:", "offset:-1", "time:", "time:2026-01-01", "time:2026-01-01T00:00:00",
     "time:2026-13-01T00:00:00Z", "PT5M", "-P", "-PT", "-P1W", "-PT5",
     "time:9999-12-31T23:59:59-23:59"],
)  # fmt: skip
def test_invalid_starts(text: str) -> None:
    with pytest.raises(Problem):
        read_start(text)


async def test_offsets(make_rig: Any, listener: Any) -> None:
    rig = make_rig(journal_events=4)
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL) as reader:
        first = (await reader.opened()).data["sources"][0]["offset"]
        for number in range(6):
            await publish(rig, "a", b"%d" % number, **TEXT)
            assert await texts(reader, 1) == [str(number)]
        async with listener(port, f"{ALL}&from=offset:{first + 4}") as other:
            assert (await other.opened()).data["sources"][0]["offset"] == first + 4
            assert await texts(other, 2) == ["4", "5"]
        async with listener(port, f"{ALL}&from=offset:{first}") as other:
            assert other.headers["amqp-resume"] == "gap"
            assert (await other.until("gateway.gap")).data["lost"] == 2
            assert await texts(other, 4) == list("2345")
        async with listener(port, f"{ALL}&from=offset:99999") as other:
            assert other.headers["amqp-resume"] == "fresh"
            await other.opened()
            await publish(rig, "a", b"6", **TEXT)
            assert await texts(other, 1) == ["6"]


async def test_times(make_rig: Any, listener: Any) -> None:
    rig = make_rig(journal_events=4)
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL) as reader:
        await reader.opened()
        for number in range(3):
            rig.ahead = number * 60_000
            await publish(rig, "a", b"%d" % number, **TEXT)
        await texts(reader, 3)
        async with listener(port, ALL + "&from=-PT1M30S") as other:
            assert other.headers["amqp-resume"] == "fresh"
            assert await texts(other, 2) == ["1", "2"]
        async with listener(port, ALL + "&from=-P1D") as other:
            assert other.headers["amqp-resume"] == "fresh"
            assert await texts(other, 3) == ["0", "1", "2"]
        async with listener(port, ALL + "&from=time:2000-01-01T00:00:00Z") as other:
            assert await texts(other, 3) == ["0", "1", "2"]
        await publish(rig, "a", b"3", b"4", **TEXT)
        async with listener(port, ALL + "&from=-P1D") as other:
            assert other.headers["amqp-resume"] == "gap"
            assert (await other.until("gateway.gap")).data["lost"] is None
            assert await texts(other, 4) == ["1", "2", "3", "4"]


# --- which way ----------------------------------------------------------------------------------


async def test_paths_name_the_source(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    rig.exchange("prices")
    async with rig.served() as port:
        async with listener(port, "", path="/v1/%2F/queues/orders/events") as reader:
            opened = await reader.opened()
            assert opened.data["sources"][0]["source"] == "queue:orders"
        path = "/v1/%2F/exchanges/prices/events"
        async with listener(port, "binding=eur.%23&filter=key%5E%3Deur.a", path=path) as reader:
            opened = await reader.opened()
            assert opened.data["sources"][0]["source"] == "exchange:prices?binding=eur.#"
            await publish(rig, "eur.b", b"1", **TEXT)
            await publish(rig, "eur.a", b"2", **TEXT)
            assert await texts(reader, 1) == ["2"]
        async with rig.http() as http:
            assert (await http.get(path + "?source=queue:orders")).status_code == 400
            assert (await http.get("/v1/%2F/queues/none/events")).status_code == 404
            assert (await http.get("/v1/%2F/exchanges/none/events")).status_code == 404


@pytest.mark.parametrize("method", ["POST", "QUERY"])
async def test_parameters_as_json(rig: Any, listener: Any, method: str) -> None:
    rig.exchange("prices")
    asked = {"source": ["exchange:prices?binding=#"], "filter": "key^=eur.", "heartbeat": 20}
    body = json.dumps(asked)
    async with rig.served() as port, listener(port, "", body=body, method=method) as reader:
        opened = await reader.opened()
        assert opened.data["heartbeat"] == 20
        await publish(rig, "usd", b"1", **TEXT)
        await publish(rig, "eur.", b"2", **TEXT)
        assert await texts(reader, 1) == ["2"]
    async with rig.http() as http:
        path = "/v1/%2F/events"
        for body, kind, status in (
            ("{", "application/json", 400),
            ("[]", "application/json", 400),
            ('{"source": [true]}', "application/json", 400),
            ('{"source": {"a": 1}}', "application/json", 400),
            ('{"source": "queue:\\ud800"}', "application/json", 400),
            ('{"source": "queue:a", "source": "queue:b"}', "application/json", 400),
            ('{"unheard": "x"}', "application/json", 422),
            ('{"source": "queue:a", "unheard": []}', "application/json", 422),
            ("source=queue:a", "application/x-www-form-urlencoded", 415),
            ('{"source": "' + "x" * 70_000 + '"}', "application/json", 413),
        ):
            headers = {"content-type": kind}
            answer = await http.post(path, content=body, headers=headers)
            assert answer.status_code == status, body[:40]
            assert answer.headers["content-type"] == "application/problem+json"


# --- in-band ------------------------------------------------------------------------------------


async def test_errors_inband(make_rig: Any, listener: Any) -> None:
    rig = make_rig()
    rig.dependencies.settings.max_streams_per_user = 0
    rig.exchange("prices")
    async with rig.served() as port:
        async with listener(port, "source=queue:none&errors=inband") as reader:
            assert reader.status == 200
            told = await reader.until("gateway.error")
            assert told.data["problem"]["status"] in (404, 429)
        async with listener(port, ALL + "&errors=inband") as reader:
            told = await reader.until("gateway.error")
            assert told.data["problem"]["type"].endswith("quota")
            closed = await reader.until("gateway.close")
            assert closed.data["reconnect"] is True and not closed.id
        async with listener(port, ALL + "&errors=inband", user="alice:wrong") as reader:
            assert reader.status == 200 and "www-authenticate" not in reader.headers
            assert (await reader.until("gateway.error")).data["problem"]["status"] == 401
            closed = await reader.until("gateway.close")
            assert closed.data["reconnect"] is False and closed.id == "b0.end"
            assert not await reader.chunk()
        async with listener(port, ALL + "&errors=inband", closed.id) as reader:
            assert reader.status == 204


async def test_an_ended_stream_stays_ended(rig: Any, listener: Any) -> None:
    rig.queue("orders")
    async with rig.served() as port, listener(port, "source=queue:orders") as reader:
        await reader.opened()
        rig.begin()
        rig.channel.topology.delete_queue(DeleteQueue(1, None, "orders"))
        rig.end()
        closed = await reader.until("gateway.close")
        assert closed.data["reconnect"] is False and closed.id == "b0.end"
        async with listener(port, "source=queue:orders", closed.id) as again:
            assert again.status == 204


async def test_a_browser_keeps_connections_for_its_page(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    browser = {"sec-fetch-mode": "cors", "user-agent": "Browser/1"}
    hub = rig.app.state.hub
    async with rig.served() as port:
        open_ones = [listener(port, ALL, headers=browser) for _ in range(4)]
        for number, reader in enumerate(open_ones, 1):
            async with asyncio.timeout(30):
                await reader.__aenter__()
            if number < 3:
                await reader.opened()
            else:
                warned = await reader.until("gateway.warn")
                assert warned.data == {"type": "browser-connections", "streams": number, "most": 4}
        async with listener(port, ALL, headers=browser) as fifth:
            assert fifth.status == 200
            assert (await fifth.until("gateway.error")).data["problem"]["status"] == 429
            assert (await fifth.until("gateway.close")).data["reconnect"] is True
            assert not await fifth.chunk()
        for others in ({"user-agent": "Browser/1"}, browser | {"via": "1.1 proxy"}):
            async with listener(port, ALL, headers=others) as other:
                await other.opened()
                assert other.status == 200
        async with listener(port, ALL, headers=browser, user="guest:guest") as other:
            await other.opened()
        open_ones[0].hang_up()
        await rig.until(lambda: max(hub.per_browser.values()) == 3)
        async with listener(port, ALL, headers=browser) as again:
            assert (await again.until("gateway.warn")).data["streams"] == 4
        for reader in open_ones:
            await reader.__aexit__()
    assert not hub.per_browser


# --- for how long -------------------------------------------------------------------------------


async def test_a_credential_runs_out(rig: Any) -> None:
    rig.exchange("prices")
    hub = rig.app.state.hub
    now = hub.clock()
    asked = read_query(ALL.encode(), None, 15)
    stream = open_stream(hub, "/", Principal("alice", expires=now + 100), asked)
    assert b'"expires_at":"' in bytes(stream.take())

    def said(seconds: float) -> bytes:
        stream.tick(stream.wrote_at, now + seconds)
        return bytes(stream.take())

    assert said(79) == b""
    reminder = said(81)
    assert b"event: gateway.reauth" in reminder
    assert f'"refresh":"/v1/%2F/streams/{stream.identity}"'.encode() in reminder
    assert said(82) == b""
    stream.renew(Principal("alice", expires=now + 200))
    assert said(101) == b""
    with pytest.raises(Problem):
        stream.renew(Principal("weak"))
    assert b"event: gateway.reauth" in said(190)
    ended = said(200)
    assert b"event: gateway.close" in ended and b'"reconnect":true' in ended
    assert stream.finished
    hub.leave(stream)
    await hub.close()


async def test_a_stream_has_a_longest_life(make_rig: Any) -> None:
    rig = make_rig(stream_seconds=1000.0)
    rig.exchange("prices")
    hub = rig.app.state.hub
    stream = open_stream(hub, "/", Principal("alice"), read_query(ALL.encode(), None, 15))
    stream.take()
    stream.tick(stream.wrote_at, hub.clock() + 999)
    assert not stream.finished
    stream.tick(stream.wrote_at, hub.clock() + 1001)
    said = bytes(stream.take())
    assert b"event: gateway.drain" in said and b"\nretry: " in b"\n" + said
    assert stream.finished
    hub.leave(stream)
    await hub.close()


async def test_a_withdrawn_credential_ends_its_streams(rig: Any) -> None:
    rig.exchange("prices")
    hub = rig.app.state.hub
    good = {"alice"}
    hub.still_good = lambda caller, now: caller.subject in good
    asked = read_query(ALL.encode(), None, 15)
    streams = [open_stream(hub, "/", Principal("alice", subject=s), asked) for s in ("alice", "b")]
    hub.prove(0.0)
    assert [stream.finished for stream in streams] == [False, True]
    for stream in streams:
        hub.leave(stream)
    await hub.close()


async def test_renewing_over_http(make_rig: Any, listener: Any) -> None:
    rig = make_rig(bearer=BEARER)
    rig.exchange("prices")
    hub = rig.app.state.hub
    now = time.time()
    first = {"authorization": "Bearer " + token(now + 100)}
    async with rig.served() as port, listener(port, ALL, user="", headers=first) as reader:
        opened = await reader.opened()
        path = f"/v1/%2F/streams/{opened.data['stream']}"
        async with rig.http(None) as http:
            state = (await http.get(path, headers=first)).json()
            assert state["expires_at"] == opened.data["expires_at"]
            assert state["sources"][0]["behind"] == 0
            for other in (token(now + 500, "s2"), token(now + 500, scope="publish")):
                headers = {"authorization": "Bearer " + other}
                assert (await http.patch(path, headers=headers)).status_code in (403, 404)
            later = {"authorization": "Bearer " + token(now + 500)}
            renewed = await http.patch(path, headers=later)
            assert renewed.status_code == 200
            assert renewed.json()["expires_at"] > state["expires_at"]
            (stream,) = hub.streams
            assert stream.caller.expires >= int(now + 500)
            assert (await http.delete(path, headers=later)).status_code == 204
        closed = await reader.until("gateway.close")
        assert closed.data["reconnect"] is False
        assert not await reader.chunk()


async def test_streams_of_others_are_not_there(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL) as reader:
        identity = (await reader.opened()).data["stream"]
        for user, status in (("weak:weak", 404), ("guest:guest", 200), ("alice:wonder", 200)):
            async with rig.http(user) as http:
                answer = await http.get(f"/v1/%2F/streams/{identity}")
                assert answer.status_code == status
                assert (await http.patch(f"/v1/%2F/streams/{identity}")).status_code == (
                    {"guest:guest": 403}.get(user, status)
                )
        async with rig.http() as http:
            assert (await http.get("/v1/%2F/streams/none")).status_code == 404


async def test_presence(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    rig.queue("orders")
    rig.begin()
    rig.channel.start(rig.channel.subscribe("orders", "mine"))
    rig.end()
    path = "/v1/%2F/subscriptions"
    async with rig.served() as port, listener(port, ALL + "&source=queue:orders") as reader:
        identity = (await reader.opened()).data["stream"]
        async with rig.http() as http:
            found = (await http.get(path)).json()["subscriptions"]
        assert {(one["protocol"], one["kind"], one["name"]) for one in found} == {
            ("http", "exchange", "prices"),
            ("http", "queue", "orders"),
            ("amqp", "queue", "orders"),
        }
        assert {one["stream"] for one in found if "stream" in one} == {identity}
        async with rig.http("weak:weak") as http:
            assert (await http.get(path)).json()["subscriptions"] == []


async def test_shutdown_spreads_reconnects(make_rig: Any, listener: Any) -> None:
    rig = make_rig(reconnect_ms=1000, drain_spread_ms=5000)
    rig.exchange("prices")
    async with rig.served() as port:
        readers = [listener(port, ALL) for _ in range(8)]
        retries = []
        for reader in readers:
            await reader.__aenter__()
            await reader.opened()
        await publish(rig, "a", b"1", **TEXT)
        await close(rig.app)
        for reader in readers:
            drained = await reader.until("gateway.drain")
            retries.append(drained.data["retry"])
            closed = await reader.until("gateway.close")
            assert closed.data["reconnect"] is True and closed.data["retry"] == retries[-1]
            assert not await reader.chunk()
            await reader.__aexit__()
    assert len(set(retries)) > 3
    assert all(1000 <= retry <= 6000 for retry in retries)


async def test_heartbeats_that_a_page_can_see(rig: Any, listener: Any) -> None:
    rig.exchange("prices")
    async with rig.served() as port, listener(port, ALL + "&keepalive=event") as reader:
        await reader.opened()
        (stream,) = rig.app.state.hub.streams
        stream.tick(stream.wrote_at + 15, 1_700_000_000.0)
        beat = await reader.until("gateway.keepalive")
        assert beat.data["time"] == "2023-11-14T22:13:20.000Z"
        assert beat.data["cursor"].startswith("b1.")
