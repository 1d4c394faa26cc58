"""What stands behind a declared route stays behind it; keys and quotas of routes."""

import asyncio
import json
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from gateway.config.web import DeclaredRoute, RouteQuota
from gateway.operations import DeleteExchange, DeleteQueue, Outcome
from tests.http.settings_words import shared_bearer

KEY = OctKey.import_key(b"k" * 32)
BEARER = shared_bearer(b"k" * 32, "alice")
NODES = ("hidden-ex", "hidden-queue", "hidden-dead")
ROUTES = (
    DeclaredRoute(
        name="feed", exchange="hidden-ex", key="eur.#", stream=True, content_types=["text/plain"]
    ),
    DeclaredRoute(
        name="ticks",
        exchange="hidden-ex",
        key="{market}.{symbol}",
        stream=True,
        content_types=["text/plain", "application/vnd.amqp-gateway.message+json"],
    ),
    DeclaredRoute(name="work", queue="hidden-queue", stream=True, content_types=["text/plain"]),
    DeclaredRoute(name="gone", queue="hidden-gone", stream=True, content_types=["text/plain"]),
    DeclaredRoute(name="lost", exchange="hidden-lost", key="x", stream=True),
)
TEXT = {"content-type": "text/plain"}


def token(scope: str, subject: str = "s", seconds: float = 100) -> dict[str, str]:
    claims = {"iss": "https://issuer", "aud": "gateway", "sub": subject, "scope": scope,
              "exp": int(time.time() + seconds), "iat": int(time.time())}  # fmt: skip
    made = jwt.encode({"alg": "HS256", "typ": "at+jwt"}, claims, KEY)
    return {"authorization": f"Bearer {made}"}


@pytest.fixture
def hiding(make_rig: Any) -> Any:
    rig = make_rig(raw_nodes=False, routes=ROUTES, bearer=BEARER)
    rig.exchange("hidden-ex")
    rig.exchange("hidden-dead")
    rig.queue("hidden-queue", arguments={"x-dead-letter-exchange": "hidden-ex"})
    return rig


def nothing_shown(*texts: str) -> None:
    for text in texts:
        assert "hidden-" not in text, text


class Watched:
    """Keeps all that a listener hears."""

    def __init__(self, reader: Any) -> None:
        self.reader = reader
        self.text = ""
        chunk = reader.chunk

        async def watching() -> bool:
            before = reader.text
            reader.text = ""
            more: bool = await chunk()
            self.text += reader.text
            reader.text = before + reader.text
            return more

        reader.chunk = watching


async def post(rig: Any, route: str, body: bytes = b"7", **headers: str) -> Any:
    async with rig.http() as http:
        path = f"/v1/%2F/routes/{route}"
        return await http.post(path, content=body, headers=TEXT | headers)


@pytest.mark.parametrize("form", ["json", "full", "cloudevents", "text"])
@pytest.mark.parametrize("route", ["feed", "work"])
async def test_events_show_the_route_and_nothing_else(
    hiding: Any, listener: Any, form: str, route: str
) -> None:
    query = f"source=route:{route}&format={form}&event=source"
    async with hiding.served() as port, listener(port, query) as reader:
        watched = Watched(reader)
        opened = (await reader.opened()).data
        assert [one["source"] for one in opened["sources"]] == [f"route:{route}"]
        to = "ticks/messages?market=eur&symbol=abc" if route == "feed" else "work/messages"
        answer = await post(hiding, to, b'{"n": 7}', **{"amqp-property": '"kind";v="a"'})
        assert answer.status_code == 201
        nothing_shown(answer.text, str(answer.headers))
        assert answer.json()["address"] == ("ticks" if route == "feed" else "work")
        event = await reader.until(f"route:{route}")
        if form == "json":
            assert event.data["source"] == f"route:{route}"
            assert event.data["properties"] == {"kind": "a"}
            assert event.data.get("routing_key") == ("eur.abc" if route == "feed" else None)
            assert "exchange" not in event.data
        elif form == "cloudevents":
            assert event.data["source"] == f"/v1/%2F/routes/{route}"
        async with hiding.http() as http:
            state = await http.get(f"/v1/%2F/streams/{opened['stream']}")
            assert state.json()["sources"][0]["source"] == f"route:{route}"
            present = await http.get("/v1/%2F/subscriptions")
            (one,) = present.json()["subscriptions"]
            assert (one["kind"], one["name"], one["binding"]) == ("route", route, None)
            nothing_shown(state.text, present.text)
        nothing_shown(watched.text, str(reader.headers))


async def test_a_cursor_is_no_hint(hiding: Any, listener: Any) -> None:
    """It can be read by whoever has it: what it has of the name is keyed."""
    from gateway.http.events.cursor import Cursors, digest_of

    async with hiding.served() as port, listener(port, "source=route:work") as reader:
        await reader.opened()
        plain = Cursors(hiding.dependencies.secret).sealing.open(reader.cursor[3:])
    assert not plain.startswith(digest_of("/", "queue:hidden-queue"))


async def test_history_and_destination_are_left_out(hiding: Any, listener: Any) -> None:
    """A dead letter that comes by a route says nothing of the queue it died in, and no message
    says where it was sent to."""
    everything = DeclaredRoute(name="all", exchange="hidden-ex", key="#", stream=True)
    hiding.app.state.context.authenticator.catalogue.routes["/", "all"] = everything
    form = {
        "view": "full",
        "legacy": {"routing_key": "other"},
        "properties": {"to": "/queues/hidden-queue", "subject": "s"},
        "application_properties": {"kind": "a", "x-first-death-queue": "hidden-queue"},
        "body": {"kind": "data", "base64": "Nw=="},
    }
    async with hiding.served() as port, listener(port, "source=route:all&format=full") as reader:
        watched = Watched(reader)
        await reader.opened()
        async with hiding.http() as http:
            answer = await http.post(
                "/v1/%2F/routes/ticks/messages?market=eur&symbol=abc",
                content=json.dumps(form),
                headers={"content-type": "application/vnd.amqp-gateway.message+json"},
            )
            assert answer.status_code == 201, answer.text
        event = (await reader.until()).data
        assert event["legacy"]["routing_key"] == "eur.abc"  # a route has its own
        assert event["properties"]["subject"] == "s" and "to" not in event["properties"]
        assert event["application_properties"] == {"kind": "a"}
        assert (await post(hiding, "work/messages")).status_code == 201
        hiding.begin()
        got = hiding.channel.fetch("hidden-queue", False)
        hiding.channel.settlements.settle(got.delivery, False, Outcome.REJECT)
        hiding.end()
        dead = (await reader.until()).data
        assert "application_properties" not in dead
        assert "routing_key" not in dead.get("legacy", {})
        nothing_shown(watched.text)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("feed&filter=exchange%5E%3Dhidden", "ticks/messages?market=eur&symbol=abc"),
        ("work&selector=amqp.to%20LIKE%20'hidden%25'", "work/messages"),
    ],
)
async def test_filters_cannot_name_hidden_fields(
    hiding: Any, listener: Any, query: str, path: str
) -> None:
    async with hiding.served() as port, listener(port, "source=route:" + query) as reader:
        await reader.opened()
        assert (await post(hiding, path)).status_code == 201
        (stream,) = hiding.app.state.hub.streams
        stream.tick(stream.wrote_at, 0.0)
        event = await reader.event()
        assert event.id and event.data == {"cursor": event.id}


async def test_errors_do_not_name_it(hiding: Any, listener: Any) -> None:
    async with hiding.served() as port:
        for query in ("source=route:gone", "source=route:lost", "source=route:work&slow=none"):
            async with listener(port, query + "&errors=inband") as reader:
                assert reader.status == 200
                told = await reader.until("gateway.error")
                assert told.data["problem"]["status"] in (400, 404)
                nothing_shown(json.dumps(told.data))
        await errors_over_http(hiding)


async def errors_over_http(hiding: Any) -> None:
    async with hiding.http() as http:
        for path in ("gone/events", "lost/events", "work/events?filter=%00%00"):
            answer = await http.get(f"/v1/%2F/routes/{path}")
            assert answer.status_code in (400, 404)
            nothing_shown(answer.text)
        for path, headers in (
            ("gone", TEXT),
            ("gone", TEXT | {"idempotency-key": '"1"'}),
            ("lost", {"content-type": "application/json"}),
            ("lost", {"content-type": "application/json", "prefer": "wait=1"}),
        ):
            answer = await http.post(f"/v1/%2F/routes/{path}/messages", content=b"1",
                                     headers=headers)  # fmt: skip
            assert answer.status_code == 404, (path, headers, answer.text)
            nothing_shown(answer.text)
    async with hiding.http("weak:weak") as http:
        for method, path in (("GET", "work/events"), ("POST", "ticks/messages?market=a&symbol=b")):
            answer = await http.request(method, f"/v1/%2F/routes/{path}", headers=TEXT)
            assert answer.status_code == 403
            nothing_shown(answer.text)


@pytest.mark.parametrize("query", ["source=route:feed", "source=route:work",
                                   "source=route:work&ack=explicit"])  # fmt: skip
async def test_a_reader_whose_source_goes_learns_no_name(
    hiding: Any, listener: Any, query: str
) -> None:
    async with hiding.served() as port, listener(port, query) as reader:
        await reader.until("gateway.open")
        hiding.begin()
        if "feed" in query:
            hiding.channel.topology.delete_exchange(DeleteExchange(1, None, "hidden-ex"))
        else:
            hiding.channel.topology.delete_queue(DeleteQueue(1, None, "hidden-queue"))
        hiding.end()
        closed = await reader.until("gateway.close")
        assert closed.data["source"].startswith("route:") and closed.data["reconnect"] is False
        nothing_shown(json.dumps(closed.data))


async def test_leases_by_a_route_are_settled_by_its_right(hiding: Any, listener: Any) -> None:
    rights = "stream:%2F/route/work settle:%2F/route/work publish:%2F/route/work"
    mine = token(rights)
    async with hiding.served() as port:
        query = "source=route:work&ack=explicit"
        async with listener(port, query, user="", headers=mine) as reader:
            watched = Watched(reader)
            await reader.until("gateway.open")
            async with hiding.http(None) as http:
                answer = await http.post(
                    "/v1/%2F/routes/work/messages", content=b"x", headers=mine | TEXT
                )
                assert answer.status_code == 201, answer.text
                event = await reader.until()
                path = f"/v1/%2F/deliveries/{event.data['lock']['token']}"
                shown = await http.get(path, headers=mine)
                assert shown.status_code == 200
                other = token("stream:%2F/route/work settle:%2F/queue/hidden-queue")
                assert (await http.delete(path, headers=other)).status_code == 403
                assert (await http.delete(path, headers=mine)).status_code == 200
            await reader.until("gateway.settled")
            nothing_shown(watched.text, shown.text)
    assert hiding.depth("hidden-queue") == (0, 0)


@pytest.mark.parametrize("query", ["source=route:work", "source=route:work&ack=explicit"])
async def test_renewing_asks_for_the_route(hiding: Any, listener: Any, query: str) -> None:
    mine = token("stream:%2F/route/work", seconds=50)
    async with (
        hiding.served() as port,
        listener(port, query, user="", headers=mine) as reader,
        hiding.http(None) as http,
    ):
        opened = await reader.until("gateway.open")
        path = f"/v1/%2F/streams/{opened.data['stream']}"
        later = token("stream:%2F/route/work", seconds=500)
        renewed = await http.patch(path, headers=later)
        assert renewed.status_code == 200, renewed.text
        assert renewed.json()["expires_at"] > opened.data["expires_at"]
        for scope in ("stream:%2F/route/feed", "stream:%2F/queue/hidden-queue", "publish"):
            refused = await http.patch(path, headers=token(scope))
            assert refused.status_code == 403
            nothing_shown(refused.text)
        assert (await http.get(path, headers=later)).json() == renewed.json()
        # What the broker permits stays the bound.
        hiding.broker.access.set_permissions("alice", "/", "^$", "^$", "^$")
        assert (await http.patch(path, headers=later)).status_code == 403
        hiding.app.state.hub.review(asyncio.get_running_loop().time())
        for stream in list(hiding.app.state.hub.streams):
            stream.tick(stream.wrote_at, time.time())
        closed = await reader.until("gateway.close")
        nothing_shown(json.dumps(closed.data))


async def test_a_route_with_parameters_by_ticket_and_path(hiding: Any, listener: Any) -> None:
    source = "route:ticks?symbol=abc&market=eur"
    async with hiding.http() as http:
        for wrong, status in (
            ("route:ticks", 400),
            ("route:ticks?market=eur", 400),
            ("route:ticks?market=%2A&symbol=a", 400),
            ("route:none", 404),
            ("exchange:hidden-ex", 404),
        ):
            body = {"sources": [wrong]}
            assert (await http.post("/v1/stream-tickets", json=body)).status_code == status, wrong
        made = (await http.post("/v1/stream-tickets", json={"sources": [source]})).json()
    url = urlsplit(made["url"])
    async with hiding.served() as port, listener(port, url.query, user="") as reader:
        opened = await reader.opened()
        assert opened.data["sources"][0]["source"] == "route:ticks?market=eur&symbol=abc"
        path = "/v1/%2F/routes/ticks/events"
        ticket = f"ticket={made['ticket']}"
        async with listener(
            port, f"market=eur&symbol=abc&{ticket}", reader.cursor, path=path, user=""
        ) as again:
            assert again.status == 200 and again.headers["amqp-resume"] == "exact"
            await again.opened()
            await post(hiding, "ticks/messages?market=eur&symbol=abc", b"8")
            assert (await again.until()).body == {"text": "8"}
        query = f"market=usd&symbol=abc&{ticket}"
        async with listener(port, query, path=path, user="") as other:
            assert other.status == 401
        asked = json.dumps({"market": "eur", "symbol": "abc", "heartbeat": 20})
        async with listener(port, "", path=path, body=asked) as posted:
            assert (await posted.opened()).data["heartbeat"] == 20


# --- keys and quotas ----------------------------------------------------------------------------


async def test_a_route_can_need_a_key(make_rig: Any) -> None:
    route = DeclaredRoute(
        name="pay", queue="orders", idempotency="required", content_types=["text/plain"]
    )
    rig = make_rig(routes=(route,))
    rig.queue("orders")
    async with rig.http() as http:
        path = "/v1/%2F/routes/pay/messages"
        answer = await http.post(path, content=b"1", headers=TEXT)
        assert answer.status_code == 400
        assert answer.json()["type"] == "/problems/idempotency-required"
        assert answer.json()["outcome"] == "not-sent"
        answer = await http.post(path, content=b"1", headers=TEXT | {"idempotency-key": "x"})
        assert answer.json()["type"] == "/problems/idempotency-key"
        for replayed in (None, "true"):
            answer = await http.post(path, content=b"1", headers=TEXT | {"idempotency-key": '"k"'})
            assert answer.status_code == 201
            assert answer.headers.get("idempotency-replayed") == replayed
    assert rig.depth("orders") == (1, 0)


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_quota_of_leases(make_rig: Any, listener: Any) -> None:
    """A route's streams count with their credit, and with what is leased when they have ended."""
    route = DeclaredRoute(name="a", queue="orders", stream=True, quota=RouteQuota(leases=5))
    rig = make_rig(routes=(route,))
    rig.queue("orders")
    counted = rig.app.state.hub.leases.per_route
    asked = "source=route:a&ack=explicit&credit="
    async with rig.served() as port, rig.http() as http:
        for number in range(4):
            path = "/v1/%2F/queues/orders/messages"
            assert (await http.post(path, content=b"%d" % number)).status_code == 201
        async with listener(port, asked + "3") as first:
            tokens = [(await first.until()).data["lock"]["token"] for _ in range(3)]
            async with listener(port, asked + "3") as refused:
                assert refused.status == 429
            async with listener(port, asked + "2") as second:
                await second.until()
                assert counted == {("/", "a"): 5}
                async with listener(port, "source=queue:orders&ack=explicit&credit=9") as other:
                    assert other.status == 200  # not by the route
            await rig.until(lambda: counted == {("/", "a"): 3 + 1})
            accepted = await http.delete(f"/v1/%2F/deliveries/{tokens[0]}")
            assert accepted.status_code == 200 and counted == {("/", "a"): 3 + 1}
        await rig.until(lambda: counted == {("/", "a"): 2 + 1})
        async with listener(port, asked + "3&errors=inband") as refused:
            told = (await refused.until("gateway.error")).data["problem"]
            assert told["status"] == 429 and told["quota"] == "leases"
        for token in tokens[1:]:
            await http.delete(f"/v1/%2F/deliveries/{token}")
        assert counted == {("/", "a"): 1}
        async with listener(port, asked + "4") as again:
            assert again.status == 200
            await rig.until(lambda: counted == {("/", "a"): 5})
            rig.begin()
            rig.channel.topology.delete_queue(DeleteQueue(1, None, "orders"))
            rig.end()
            await again.until("gateway.close")
        # What was leased of a queue that has gone is lost when somebody looks, or in its time.
        await rig.until(lambda: counted[("/", "a")] <= 1)


async def test_quotas_of_routes_and_virtual_hosts(make_rig: Any, listener: Any) -> None:
    kinds = ["text/plain"]
    routes = (
        DeclaredRoute(
            name="a", queue="orders", content_types=kinds, stream=True,
            quota=RouteQuota(
                requests=2, requests_seconds=20, octets=100, octets_seconds=10, streams=1
            ),
        ),
        DeclaredRoute(name="b", queue="orders", content_types=kinds),
    )  # fmt: skip
    rig = make_rig(
        routes=routes,
        quota={"requests": 100, "requests_seconds": 10},
        vhost_quota={"requests": 5, "requests_seconds": 50, "streams": 2},
    )
    clock = rig.app.state.context.authenticator.clock = Clock()
    rig.queue("orders")
    a, b = ("/v1/%2F/routes/a/messages", "/v1/%2F/routes/b/messages")
    async with rig.http() as alice, rig.http("guest:guest") as guest:
        answer = await alice.post(a, content=b"1", headers=TEXT)
        assert answer.status_code == 201
        assert answer.headers["ratelimit-policy"] == (
            '"requests";q=100;w=10, "vhost-requests";q=5;w=50, '
            '"route-requests";q=2;w=20, "route-octets";q=100;w=10'
        )
        assert '"vhost-requests";r=4;' in answer.headers["ratelimit"]
        assert '"route-requests";r=1;' in answer.headers["ratelimit"]
        assert (await guest.post(a, content=b"1", headers=TEXT)).status_code == 201
        answer = await guest.post(a, content=b"1", headers=TEXT)
        assert answer.status_code == 429
        assert answer.json()["quota"] == "route-requests"
        assert answer.headers["retry-after"] == "10"
        assert answer.json()["outcome"] == "not-sent"
        assert (await guest.post(b, content=b"1", headers=TEXT)).status_code == 201
        # Raw nodes count for the virtual host, too; other virtual hosts do not.
        path = "/v1/%2F/queues/orders/messages"
        assert (await alice.post(path, content=b"1")).status_code == 201
        answer = await alice.post(path, content=b"1")
        assert (answer.status_code, answer.json()["quota"]) == (429, "vhost-requests")
        for free in ("/v1/session", "/v1/nowhere/queues/orders/messages"):
            assert (await alice.get(free)).status_code != 429
        clock.now += 10
        answer = await alice.post(a, content=b"x" * 101, headers=TEXT)
        assert answer.status_code == 201
        clock.now += 10
        answer = await alice.post(a, content=b"x" * 101, headers=TEXT)
        assert (answer.status_code, answer.json()["quota"]) == (429, "route-octets")
        assert rig.depth("orders") == (5, 0)
    clock.now += 1000
    async with rig.served() as port, listener(port, "source=route:a") as first:
        await first.opened()
        async with listener(port, "source=route:a") as refused:
            assert refused.status == 429
        async with listener(port, "source=route:a&errors=inband") as refused:
            told = await refused.until("gateway.error")
            assert told.data["problem"]["quota"] in ("streams", "route-requests")
        async with listener(port, "source=queue:orders") as second:
            await second.opened()
            async with listener(port, "source=queue:orders") as third:
                assert third.status == 429
    assert not rig.app.state.hub.per_place
