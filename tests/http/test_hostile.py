"""Input that means harm: names that would be paths, octets that would end lines, everything too
large, too deep or too many, and tokens that are somebody else's."""

import asyncio
import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.http.access.principal import Principal
from gateway.http.events.opening import open_stream
from gateway.http.sealing import Purpose, Seal
from gateway.message import DIALECTS, Essentials, Message, Properties
from tests.drawing import examples
from tests.http.settings_words import route_with_schema
from tests.http.stream_peer import publish as put
from tests.http.stream_words import ALL, publish, read_query

JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/vnd.amqp-gateway.message+json"}

# --- names --------------------------------------------------------------------------------------

NOT_UTF8 = ["%C0%AF", "%C0%AE%C0%AE", "%E0%80%AF", "%F0%80%80%AF", "%FF", "%ED%A0%80", "a%80"]
PLACES = [
    "/v1/{}/queues/orders/messages",
    "/v1/%2F/queues/{}/messages",
    "/v1/%2F/queues/{}/deliveries",
    "/v1/%2F/queues/{}/events",
    "/v1/%2F/exchanges/{}/messages",
    "/v1/%2F/exchanges/{}/events",
    "/v1/%2F/addresses/{}/messages",
    "/v1/%2F/routes/{}/messages",
    "/v1/%2F/routes/{}/events",
    "/v1/%2F/dead-letters/{}",
    "/v1/admin/vhosts/{}",
    "/v1/admin/vhosts/%2F/queues/{}",
    "/v1/admin/users/{}",
    "/api/queues/%2F/{}",
]


@pytest.mark.parametrize("name", NOT_UTF8)
async def test_names_that_are_not_utf8_are_refused_everywhere(rig: Any, name: str) -> None:
    """Overlong forms most of all: they are no other spelling of what they would decode to."""
    rig.queue("orders")
    async with rig.http("guest:guest") as http:
        for place in PLACES:
            for method in ("GET", "POST"):
                answer = await http.request(method, place.format(name), content=b"{}", headers=JSON)
                assert answer.status_code in (400, 404, 405), (method, place, answer.text)
    assert rig.depth("orders") == (0, 0)


@pytest.mark.parametrize(
    "name", ["%2e%2e", "..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "a%00b", "%0d%0a", "*",
             "%5c..%5c", "~", "%23", "%3f", "%25%32%65", "x" * 255]
)  # fmt: skip
async def test_names_are_never_paths(rig: Any, name: str) -> None:
    """Nothing is found by a name that nobody has made, and nothing outside is looked at."""
    async with rig.http("guest:guest") as http:
        for place in PLACES:
            answer = await http.get(place.format(name))
            assert answer.status_code in (400, 404, 405), (place, answer.text)
            assert "root:" not in answer.text
        for place in ("/v1/%2F/streams/{}", "/v1/%2F/operations/{}", "/v1/%2F/deliveries/{}",
                      "/problems/{}", "/client/{}", "/console/{}", "/.well-known/{}"):  # fmt: skip
            answer = await http.get(place.format(name))
            assert answer.status_code in (400, 404), (place, answer.text)
            assert "root:" not in answer.text


async def test_one_segment_is_one_name(rig: Any) -> None:
    rig.queue("a/b")
    async with rig.http() as http:
        answer = await http.post("/v1/%2F/queues/a%2Fb/messages", content=b"x")
        assert answer.status_code == 201 and answer.json()["address"] == "a/b"
        for other in ("/v1/%2F/queues/a/b/messages", "/v1///queues/a%2Fb/messages",
                      "/v1/%2F/queues/a%252Fb/messages", "/v1/%2F/queues/a%2Fb/messages/",
                      "/V1/%2F/queues/a%2Fb/messages"):  # fmt: skip
            answer = await http.request("POST", other, content=b"x")
            assert answer.status_code in (404, 405), other
    assert rig.depth("a/b") == (1, 0)


# --- lines --------------------------------------------------------------------------------------

HOSTILE = st.text(st.sampled_from('a:\r\n\0 \ufeff\u2028\u0085{}"\\é\x1b')) | st.sampled_from(
    [
        "x\ndata: forged",
        "x\r\rid: b0.end\r\revent: gateway.close",
        "\n\nevent: gateway.error\ndata: {}\n\n",
        *("gateway.close", "open", "error", "retry: 1"),
    ]
)


def fields_of(stream: bytes) -> list[list[tuple[str, str]]]:
    """Blocks of (field, value), by the WHATWG's rules: CR, LF and CR LF end a line."""
    text = stream.decode()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    blocks: list[list[tuple[str, str]]] = [[]]
    for line in lines:
        if not line:
            blocks.append([])
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            blocks[-1].append((name, value.removeprefix(" ")))
    return [block for block in blocks if block]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: HOSTILE
            for name in ("message_id", "correlation_id", "type", "app_id", "content_type",
                         "reply_to", "content_encoding")
        },
    ),
    st.dictionaries(HOSTILE.filter(lambda name: len(name.encode()) < 128), HOSTILE, max_size=3),
    HOSTILE,
    HOSTILE.filter(lambda key: len(key.encode()) < 200),
    st.sampled_from(["json", "full", "cloudevents", "text"]),
    st.sampled_from(["none", "type", "subject", "source"]),
)  # fmt: skip
def test_no_property_breaks_out_of_its_event(
    rig_class: Any,
    properties: dict[str, str],
    application: dict[str, str],
    body: str,
    key: str,
    form: str,
    event: str,
) -> None:
    """Whatever a message holds, its reader gets one event with one id, and no control event."""

    async def run() -> None:
        rig = rig_class()
        rig.exchange("prices")
        hub = rig.app.state.hub
        asked = read_query(f"{ALL}&format={form}&event={event}".encode(), None, 15)
        stream = open_stream(hub, "/", Principal("alice"), asked)
        stream.take()
        dialect = DIALECTS["0-9-1"]
        header = dialect.write(Properties(**properties, application=application))
        message = Message(dialect, header, body.encode(), "prices", key, Essentials())
        rig.begin()
        rig.channel.publish(message)
        rig.end()
        blocks = fields_of(bytes(stream.take()))
        names = [dict(block).get("event", "message") for block in blocks]
        assert len(blocks) == 1, blocks
        ids = [value for name, value in blocks[0] if name == "id"]
        assert len(ids) == 1 and ids[0].startswith("b1.")
        assert {name for name, _ in blocks[0]} <= {"id", "event", "data"}
        if names[0].startswith("gateway.") or names[0] in ("open", "error"):
            assert names[0] == "gateway.warn" and form == "text"
        if form != "text":
            (data,) = [value for name, value in blocks[0] if name == "data"]
            json.loads(data)
        hub.leave(stream)
        await hub.close()

    asyncio.run(run())


@pytest.mark.parametrize("evil", ["x\r\nset-cookie: a=b", "x\nx: y", "x\0y", "x\r"])
async def test_no_property_breaks_out_of_its_field(rig: Any, evil: str) -> None:
    """A raw answer carries properties in fields of the head."""
    rig.queue("orders")
    dialect = DIALECTS["0-9-1"]
    given = {name: evil for name in ("message_id", "correlation_id", "type", "app_id", "reply_to",
                                     "content_type", "content_encoding")}  # fmt: skip
    header = dialect.write(Properties(**given, application={evil: evil, "traceparent": evil}))
    rig.begin()
    rig.channel.publish(Message(dialect, header, b"body", "", "orders", Essentials()))
    rig.end()
    async with rig.http() as http:
        answer = await http.post(
            "/v1/%2F/queues/orders/deliveries", json={}, headers={"accept": "text/plain"}
        )
        assert answer.status_code == 200, answer.text
        assert "set-cookie" not in answer.headers
        for name, value in answer.headers.raw:
            assert not set(b"\r\n\0") & set(name + value), (name, value)


# --- too much -----------------------------------------------------------------------------------


async def test_streams_ask_for_so_much(rig: Any) -> None:
    rig.exchange("prices")
    sources = "&".join(f"source=exchange:prices?binding={n}" for n in range(65))
    async with rig.http() as http:
        for query, status in (
            (sources, 400),
            ("source=queue:" + "x" * 256, 400),
            ("source=exchange:prices?binding=" + "x" * 256, 400),
            (ALL + "".join(f"&filter=key={n}" for n in range(17)), 400),
            (ALL + "&filter=key=" + "x" * 1025, 400),
            (ALL + "&x=1" * 300, 400),
            (ALL + "&heartbeat=" + "9" * 5000, 400),
            (ALL + "&last_event_id=b1." + "A" * 5000, 400),
            (ALL + "&from=offset:" + "9" * 13, 400),
            (ALL + "&from=-P" + "9" * 5000 + "D", 400),
            (ALL + "&%00=1", 400),
        ):
            answer = await http.get(f"/v1/%2F/events?{query}")
            assert answer.status_code == status, query[:60]
            assert answer.headers["content-type"] == "application/problem+json"
    assert not rig.app.state.hub.streams


DEEP = b"[" * 100_000
DEEP_OBJECT = b'{"a":' * 100_000
TOO_DEEP = (DEEP, DEEP_OBJECT, DEEP + b"]" * 100_000)
READERS = [
    ("POST", "/v1/%2F/queues/orders/messages", "application/vnd.amqp-gateway.message+json"),
    ("POST", "/v1/%2F/queues/orders/messages", "application/vnd.amqp-gateway.batch+json"),
    ("POST", "/v1/%2F/queues/orders/messages", "application/cloudevents+json"),
    ("POST", "/v1/%2F/queues/orders/messages", "application/cloudevents-batch+json"),
    ("POST", "/v1/%2F/routes/checked/messages", "application/json"),
    ("POST", "/v1/%2F/queues/orders/deliveries", "application/json"),
    ("POST", "/v1/%2F/deliveries/settle", "application/json"),
    ("POST", "/v1/%2F/events", "application/json"),
    ("POST", "/v1/stream-tickets", "application/json"),
    ("PUT", "/v1/admin/vhosts/%2F/queues/new", "application/json"),
    ("POST", "/v1/admin/vhosts/%2F/bindings", "application/json"),
    ("POST", "/v1/admin/definitions", "application/json"),
    ("POST", "/api/queues/%2F/orders/get", "application/json"),
]


@pytest.mark.parametrize(("method", "path", "kind"), READERS)
async def test_json_is_never_too_deep(make_rig: Any, method: str, path: str, kind: str) -> None:
    pytest.importorskip("jsonschema")
    route = route_with_schema({"type": "object"}, name="checked", queue="orders")
    rig = make_rig(routes=(route,))
    rig.queue("orders")
    async with rig.http("guest:guest") as http:
        for body in (
            *TOO_DEEP,
            b'"' + b"\\u0000" * 9,
            b"\xff",
            b"1e999",
            b"9" * 5000,
            b'{"a":NaN}',
        ):
            answer = await http.request(method, path, content=body, headers={"content-type": kind})
            assert 400 <= answer.status_code < 500, (body[:20], answer.status_code, answer.text)
            assert rig.depth("orders")[0] == 0


async def test_deep_lines_and_parts_are_refused_one_by_one(rig: Any) -> None:
    rig.queue("orders")
    kind = {"content-type": "application/vnd.amqp-gateway.messages+ndjson"}
    async with rig.http() as http:
        path = "/v1/%2F/queues/orders/messages"
        body = b"\n".join([DEEP, DEEP_OBJECT, b'{"body":"x"}', b""])
        answer = await http.post(path, content=body, headers=kind)
        receipts = [json.loads(line) for line in answer.text.splitlines()]
        assert [one["status"] for one in receipts] == [400, 400, 201]
    assert rig.depth("orders") == (1, 0)


async def test_messages_have_so_many_properties(rig: Any) -> None:
    rig.queue("orders")
    path = "/v1/%2F/queues/orders/messages"
    async with rig.http() as http:
        nested: Any = "x"
        for _ in range(200):
            nested = {"a": nested}
        for form in (
            {"application_properties": {"x" * 300: 1}, "view": "full"},
            {"properties": {"deep": nested}},
        ):
            answer = await http.post(path, content=json.dumps(form), headers=FORM)
            assert 400 <= answer.status_code < 500, answer.text
        items = [{"body": "x"}] * 1001
        answer = await http.post(
            path,
            content=json.dumps({"messages": items}),
            headers={"content-type": "application/vnd.amqp-gateway.batch+json"},
        )
        assert 400 <= answer.status_code < 500
        property_ = ", ".join(f'"p{n}";v={n}' for n in range(2000))
        answer = await http.post(path, content=b"x", headers={"amqp-property": property_})
        assert answer.status_code in (201, 400, 413, 431)
        for field in ("amqp-priority", "amqp-ttl", "amqp-creation-time"):
            answer = await http.post(path, content=b"x", headers={field: "9" * 400})
            assert answer.status_code == 400, field


# --- tokens of others ---------------------------------------------------------------------------


def changed(token: str) -> str:
    """Another token, in characters whose bits all count."""
    return token[:-4] + ("AA" if token[-4:-2] != "AA" else "BB") + token[-2:]


async def test_foreign_seals_open_nothing(rig: Any, listener: Any) -> None:
    """One secret seals cursors, leases and more; none passes for another, nor that of a
    neighbour."""
    rig.exchange("prices")
    rig.queue("orders")
    await publish(rig, "orders", b"1", exchange="")
    async with rig.http() as http:
        got = await http.post("/v1/%2F/queues/orders/deliveries", json={})
        lease = got.json()["deliveries"][0]["token"]
        async with rig.served() as port, listener(port, ALL) as reader:
            await reader.opened()
            cursor = reader.cursor
            for forged in (f"b1.{lease}", lease, changed(cursor), cursor + "A", cursor + "="):
                async with listener(port, ALL, forged) as other:
                    if other.status == 200:
                        assert other.headers["amqp-resume"] == "gap", forged
                    else:
                        assert other.status == 400
            neighbour = Seal(b"n" * 32, Purpose.CURSOR)
            for plain in (b"", b"x" * 14, b"x" * 15, b"x" * 15 * 80):
                foreign = "b1." + neighbour.seal(plain).decode()
                async with listener(port, ALL, foreign) as other:
                    assert other.status in (200, 400)
                    assert other.status == 400 or other.headers["amqp-resume"] == "gap"
            for token in (cursor[3:], cursor, changed(lease), "A" * 600, "%00", "b0.end"):
                answer = await http.delete(f"/v1/%2F/deliveries/{quote(token, safe='')}")
                assert answer.status_code in (404, 410), token
                assert rig.depth("orders") == (0, 1)
            async with rig.http("guest:guest") as stranger:
                answer = await stranger.delete(f"/v1/%2F/deliveries/{lease}")
                assert answer.status_code == 404


async def test_a_page_of_another_site_opens_no_stream(rig: Any) -> None:
    """``EventSource`` sends cookies and remembered passwords without being asked."""
    rig.queue("orders")
    put(rig, "", "orders", 1)
    async with rig.http() as http:
        cookie = (await http.post("/v1/session")).headers["set-cookie"].partition(";")[0]
    basic = "Basic " + base64.b64encode(b"alice:wonder").decode()
    async with rig.http(None) as http:
        for credential in ({"cookie": cookie}, {"authorization": basic}):
            for site in ({"origin": "https://evil.example"}, {"origin": "null"},
                         {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
                         {"sec-fetch-site": "same-site"}):  # fmt: skip
                for method, path in (
                    ("GET", "/v1/%2F/events?source=queue:orders"),
                    ("GET", "/v1/%2F/queues/orders/events"),
                    ("POST", "/v1/%2F/queues/orders/deliveries"),
                    ("POST", "/v1/stream-tickets"),
                    ("POST", "/v1/session"),
                    ("DELETE", "/v1/session"),
                    ("PATCH", "/v1/%2F/streams/x"),
                    ("GET", "/v1/%2F/subscriptions"),
                ):
                    answer = await http.request(method, path, headers=credential | site)
                    assert answer.status_code == 403, (credential, site, method, path)
    assert rig.depth("orders") == (1, 0)
