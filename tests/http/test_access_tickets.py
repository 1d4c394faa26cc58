"""Stream tickets: what they are bound to, and what a second use may do."""

import json
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from gateway.http.access.sessions import read_principal

PAGE = "https://app.example"


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def streaming(make_rig: Any) -> Any:
    rig = make_rig(origins=(PAGE,))
    rig.clock = rig.app.state.context.authenticator.clock = Clock()
    rig.exchange("prices")
    rig.exchange("secret")
    return rig


SOURCE = "exchange:prices?binding=#"


async def ticket(rig: Any, **changed: Any) -> str:
    """The query of the URL."""
    async with rig.http() as http:
        body = {"sources": [SOURCE]} | changed
        answer = await http.post("/v1/stream-tickets", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.headers["cache-control"] == "no-store"
        made = answer.json()
        url = urlsplit(made["url"])
        assert url.path == "/v1/%2F/events"
        assert parse_qs(url.query)["ticket"] == [made["ticket"]]
        return str(url.query)


async def refused(rig: Any, query: str, status: int = 401, **headers: str) -> str:
    async with rig.http(None) as http:
        answer = await http.get(f"/v1/%2F/events?{query}", headers=headers)
        assert answer.status_code == status, answer.text
        return str(answer.text)


def stream(listener: Any, port: int, query: str, cursor: str = "") -> Any:
    """A reader without any other credential."""
    return listener(port, query, cursor, user="")


async def test_a_ticket_opens_and_resumes_its_stream(streaming: Any, listener: Any) -> None:
    query = await ticket(streaming)
    async with streaming.served() as port:
        async with stream(listener, port, query) as reader:
            assert reader.status == 200
            assert reader.headers["referrer-policy"] == "no-referrer"
            await reader.opened()
            cursor = reader.cursor
        async with stream(listener, port, query, cursor) as reader:
            assert reader.status == 200
            assert reader.headers["amqp-resume"] == "exact"


async def test_a_reload_without_cursor_starts_where_the_session_did(
    streaming: Any, listener: Any
) -> None:
    query = await ticket(streaming)
    async with streaming.served() as port:
        async with stream(listener, port, query) as reader:
            await reader.opened()
            await publish(streaming, "one")
            assert (await reader.until()).body == {"text": "one"}
        async with stream(listener, port, query + "&from=earliest") as reader:
            assert reader.headers["amqp-resume"] == "exact"
            assert (await reader.until()).body == {"text": "one"}


async def test_a_cursor_from_before_the_session_is_refused(streaming: Any, listener: Any) -> None:
    async with streaming.served() as port:
        async with listener(port, "source=exchange:prices?binding=%23") as reader:
            await reader.opened()
            early = reader.cursor
            await publish(streaming, "one")
            await reader.until()
        query = await ticket(streaming)
        async with stream(listener, port, query) as reader:
            await reader.opened()
        async with stream(listener, port, query, early) as reader:
            assert reader.status == 400


async def publish(rig: Any, text: str) -> None:
    async with rig.http() as http:
        path = "/v1/%2F/exchanges/prices/messages?routing_key=a"
        await http.post(path, content=text, headers={"content-type": "text/plain"})


async def test_one_connection_at_a_time_and_the_newer_wins(streaming: Any, listener: Any) -> None:
    query = await ticket(streaming)
    async with streaming.served() as port, stream(listener, port, query) as first:
        await first.opened()
        async with stream(listener, port, query) as second:
            assert second.status == 200
            await streaming.until(lambda: len(streaming.app.state.hub.streams) == 1)


async def test_a_ticket_is_for_its_sources_method_and_host(streaming: Any) -> None:
    query = await ticket(streaming)
    text = query.partition("ticket=")[2]
    for other in (
        f"ticket={text}",
        f"source=exchange:secret&ticket={text}",
        f"{query}&source=exchange:secret",
        f"source=exchange:prices&binding=x&ticket={text}",
        f"{query}&binding=x",
        f"{query}&ticket={text}",
        query.replace("prices", "Prices"),
    ):
        assert text not in await refused(streaming, other)
    async with streaming.http(None) as http:
        for method, path in (
            ("POST", "/v1/%2F/events"),
            ("GET", "/v1/other/events"),
            ("GET", "/v1/%2F/queues"),
            ("POST", "/v1/%2F/exchanges/prices/messages"),
            ("POST", "/v1/stream-tickets"),
        ):
            answer = await http.request(method, f"{path}?{query}")
            assert answer.status_code == 401, (method, path)
            assert text not in answer.text


async def test_a_ticket_is_for_its_origin(streaming: Any) -> None:
    query = await ticket(streaming, origin=PAGE)
    await refused(streaming, query)
    await refused(streaming, query, origin="https://evil.example")
    own = await ticket(streaming)
    await refused(streaming, own, origin=PAGE)
    async with streaming.http() as http:
        body = {"sources": [SOURCE], "origin": "https://evil.example"}
        assert (await http.post("/v1/stream-tickets", json=body)).status_code == 400


async def test_a_ticket_is_used_in_time_or_not_at_all(streaming: Any, listener: Any) -> None:
    query = await ticket(streaming)
    streaming.clock.now += 61
    await refused(streaming, query)
    query = await ticket(streaming, ttl=5)
    streaming.clock.now += 6
    await refused(streaming, query)
    query = await ticket(streaming, ttl=4000)
    streaming.clock.now += 61
    await refused(streaming, query)


async def test_a_session_ends_after_a_quarter_of_an_hour_alone(
    streaming: Any, listener: Any
) -> None:
    query = await ticket(streaming)
    async with streaming.served() as port:
        async with stream(listener, port, query) as reader:
            await reader.opened()
        await streaming.until(lambda: not streaming.app.state.context.authenticator.tickets.live)
        streaming.clock.now += 899
        async with stream(listener, port, query) as reader:
            assert reader.status == 200
            await reader.opened()
        await streaming.until(lambda: not streaming.app.state.context.authenticator.tickets.live)
        streaming.clock.now += 900
        async with stream(listener, port, query) as reader:
            assert reader.status == 401


async def test_a_ticket_dies_with_its_maker(streaming: Any, listener: Any) -> None:
    authenticator = streaming.app.state.context.authenticator
    query = await ticket(streaming)
    async with streaming.served() as port, stream(listener, port, query) as reader:
        await reader.opened()
        (digest,) = authenticator.tickets.records.found
        principal = read_principal(
            authenticator.tickets.records.get(digest), "ticket", f"ticket:{digest}"
        )
        assert authenticator.still_good(principal)
        streaming.broker.access.change_password("alice", "other")
        async with stream(listener, port, query) as again:
            assert again.status == 401
        assert not authenticator.still_good(principal)


async def test_rights_are_checked_when_a_ticket_is_made(streaming: Any) -> None:
    async with streaming.http("weak:weak") as http:
        body = {"sources": [SOURCE]}
        assert (await http.post("/v1/stream-tickets", json=body)).status_code == 403
    async with streaming.http() as http:
        mistakes: tuple[tuple[dict[str, Any], int], ...] = (
            ({"sources": []}, 422),
            ({"sources": ["prices"]}, 400),
            ({"sources": ["queue:"]}, 400),
            ({"sources": ["queue:" + "x" * 256]}, 400),
            ({"sources": [SOURCE] * 65}, 422),
            ({"sources": [SOURCE], "vhost": "other"}, 404),
            ({"sources": [SOURCE], "more": 1}, 422),
            ({"sources": [SOURCE], "ttl": -1}, 422),
        )
        for wrong, status in mistakes:
            assert (await http.post("/v1/stream-tickets", json=wrong)).status_code == status, wrong
    async with streaming.http(None) as http:
        answer = await http.post("/v1/stream-tickets", json={"sources": [SOURCE]})
        assert answer.status_code == 401


async def test_forged_tickets_are_401(streaming: Any) -> None:
    for text in ("", "A" * 43, "A" * 5000, "..%2F..", "%00", "%0d%0aset-cookie:x=1"):
        await refused(streaming, f"source=exchange:prices&ticket={text}")
    await refused(streaming, "source=exchange:prices&%74icket=" + "A" * 43, 401)


# --- what it was asked for ----------------------------------------------------------------------


async def test_a_ticket_is_for_its_way_of_accepting(streaming: Any, listener: Any) -> None:
    streaming.queue("orders")
    plain = await ticket(streaming, sources=["queue:orders"])
    explicit = await ticket(streaming, sources=["queue:orders"], ack="explicit")
    assert "ack=explicit" in explicit and "ack" not in plain
    for query in (
        f"{plain}&ack=explicit",
        f"{plain}&ack=on-next",
        explicit.replace("&ack=explicit", ""),
        explicit.replace("ack=explicit", "ack=on-next"),
    ):
        await refused(streaming, query)
    async with streaming.served() as port:
        for query, ack in ((f"{plain}&ack=none&heartbeat=20", "none"), (explicit, "explicit")):
            async with stream(listener, port, query) as reader:
                assert reader.status == 200
                assert (await reader.until("gateway.open")).data["ack"] == ack


async def test_a_ticket_is_for_its_filters_and_its_journal(streaming: Any, listener: Any) -> None:
    query = await ticket(streaming, filter=["key^=eur.", "property.kind"], journal="memory")
    assert parse_qs(query)["filter"] == ["key^=eur.", "property.kind"]
    for other in (
        query.replace("filter=property.kind&", ""),
        query.replace("property.kind", "property.Kind"),
        query.replace("journal=memory", "journal=durable"),
        query.replace("&journal=memory", ""),
    ):
        assert other != query
        await refused(streaming, other)
    narrower = query + "&filter=key=eur.a"
    async with streaming.served() as port, stream(listener, port, narrower) as reader:
        assert reader.status == 200
    async with streaming.http() as http:
        for body, status in (
            ({"ack": "all"}, 422),
            ({"filter": ["x"] * 17}, 422),
            ({"filter": ["x" * 1025]}, 422),
            ({"journal": "tape"}, 422),
        ):
            answer = await http.post("/v1/stream-tickets", json={"sources": [SOURCE]} | body)
            assert answer.status_code == status, body


async def test_a_ticket_is_for_its_selector(streaming: Any, listener: Any) -> None:
    query = await ticket(streaming, selector="kind = 'a&b'")
    assert parse_qs(query)["selector"] == ["kind = 'a&b'"]
    for other in (
        query.replace("kind", "sort"),
        "&".join(one for one in query.split("&") if not one.startswith("selector=")),
    ):
        assert other != query
        await refused(streaming, other)
    plain = await ticket(streaming)
    async with streaming.served() as port:
        for one in (query, plain + "&selector=" + quote("kind = 'a'")):
            async with stream(listener, port, one) as reader:
                assert reader.status == 200
    async with streaming.http() as http:
        for text in ("", "kind =", "x" * 4097, "kind = '\ud800'"):
            asked = {"sources": [SOURCE], "selector": text}
            answer = await http.post("/v1/stream-tickets", content=json.dumps(asked))
            assert answer.status_code == 422, text


async def test_no_cursor_leads_behind_the_session(streaming: Any, listener: Any) -> None:
    """Neither one that means nothing here, nor one of other sources, shows what was before."""
    streaming.exchange("other")
    everything = "source=exchange:prices?binding=%23"
    async with streaming.served() as port, listener(port, everything) as reader:
        await reader.opened()
        await publish(streaming, "before")
        await reader.until()
        query = await ticket(streaming)
        async with stream(listener, port, query) as first:
            await first.opened()
        async with listener(port, "source=exchange:other") as others:
            await others.opened()
            foreign = others.cursor
        for cursor in ("b9.unknown", "x", foreign):
            again = f"{query}&from=earliest"
            async with stream(listener, port, again, cursor) as resumed:
                if resumed.status == 400:
                    continue
                await resumed.opened()
                await publish(streaming, "after")
                assert (await resumed.until()).body == {"text": "after"}, cursor


async def test_a_page_hears_of_a_bad_ticket(streaming: Any, listener: Any) -> None:
    """As an event, and then no more: the browser asks once again and is told to stop."""
    query = await ticket(streaming) + "&errors=inband"
    streaming.clock.now += 61
    async with streaming.served() as port:
        for bad in (query, f"source={SOURCE}&ticket={'A' * 43}&errors=inband"):
            async with stream(listener, port, bad.replace("#", "%23")) as reader:
                assert reader.status == 200
                told = (await reader.until("gateway.error")).data["problem"]
                assert told["status"] == 401 and told["type"].endswith("unauthorized")
                closed = await reader.until("gateway.close")
                assert closed.data["reconnect"] is False
                assert not await reader.chunk()
            async with stream(listener, port, bad.replace("#", "%23"), closed.id) as again:
                assert again.status == 204


async def test_a_page_hears_of_a_session_that_has_ended(streaming: Any, listener: Any) -> None:
    headers = {"cookie": "__Host-amqp-gateway=" + "A" * 43, "sec-fetch-site": "same-origin"}
    query = "source=exchange:prices&errors=inband"
    async with streaming.served() as port:
        async with listener(port, query, user="", headers=headers) as reader:
            assert (await reader.until("gateway.error")).data["problem"]["status"] == 401
            closed = await reader.until("gateway.close")
            assert closed.data["reconnect"] is False
        async with listener(port, query, closed.id, user="", headers=headers) as again:
            assert again.status == 204
        # Without the parameter it is a status, as programs want it.
        async with listener(port, query[:-14], user="", headers=headers) as reader:
            assert reader.status == 401
