"""Who may ask, the one error shape, health, metrics, description and console."""

import base64
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.errors import Condition
from gateway.http import api
from gateway.http.dependencies import ConnectionInfo
from gateway.http.problems import ROWS
from tests.http.description_words import resolved

QUEUE = "/v1/%2F/queues/orders/messages"


def basic(text: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def test_every_condition_has_a_status() -> None:
    assert set(ROWS) == set(Condition)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("alice:wrong"),
        basic("nobody:x"),
        basic("alice"),
        {"authorization": "Basic !"},
        {"authorization": "Bearer x"},
        {"authorization": "Basic"},
    ],
)
async def test_without_good_credentials_there_is_a_challenge(rig: Any, headers: Any) -> None:
    async with rig.http(None) as http:
        for method, path in (
            ("POST", QUEUE),
            ("GET", "/v1/%2F/events?source=queue:orders"),
            ("GET", "/v1/%2F/queues"),
            ("GET", "/v1/connections"),
            ("GET", "/asyncapi.json"),
            ("GET", "/"),
        ):
            answer = await http.request(method, path, headers=headers)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"].startswith("Basic ")
            assert answer.json()["outcome"] == "not-sent"


async def test_the_first_user_comes_from_this_machine_only(rig: Any) -> None:
    rig.queue("orders")
    for peer, status in (("127.0.0.1", 201), ("::1", 201), ("::ffff:127.0.0.1", 201),
                         ("192.0.2.7", 401), ("unknown", 401)):  # fmt: skip
        async with rig.http("guest:guest", peer) as http:
            assert (await http.post(QUEUE, content=b"x")).status_code == status, peer


async def test_pages_of_other_sites_change_nothing(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http() as http:
        for site, status in (("cross-site", 403), ("same-origin", 201), ("none", 201)):
            answer = await http.post(QUEUE, content=b"x", headers={"sec-fetch-site": site})
            assert answer.status_code == status


async def test_errors_outside_any_route_have_the_same_shape(rig: Any) -> None:
    async with rig.http() as http:
        for method, path, status in (
            ("GET", "/nothing", 404),
            ("GET", "/v1//queues", 404),
            ("DELETE", QUEUE, 405),
            ("PUT", "/v1/%2F/events", 405),
            ("HEAD", "/v1/%2F/events?source=queue:x", 405),
            ("POST", "/livez", 405),
            ("GET", "/v1/other/queues", 404),
            ("GET", "/redoc", 404),
        ):
            answer = await http.request(method, path)
            assert answer.status_code == status, path
            assert answer.headers["content-type"] == "application/problem+json"
            if method != "HEAD":
                assert {"type", "title", "status", "detail", "outcome", "safe_to_retry"} <= set(
                    answer.json()
                )
            assert status != 405 or answer.headers["allow"]


async def test_a_failure_tells_nothing_of_itself(rig: Any) -> None:
    def fail() -> dict[str, bool]:
        raise RuntimeError("secret")

    rig.dependencies.ready = fail
    async with rig.http() as http:
        answer = await http.get("/readyz")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text


async def test_health(rig: Any) -> None:
    async with rig.http(None) as http:
        assert (await http.get("/livez")).json()["status"] == "live"
        assert (await http.get("/readyz")).status_code == 200
        rig.ready["store"] = False
        answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"amqp": True, "store": False, "publish": False}


async def test_metrics(rig: Any) -> None:
    rig.queue("orders")
    rig.connections.append(ConnectionInfo(1, "127.0.0.1:5", "0-9-1"))
    rig.dependencies.figures = lambda: {"store_commits_total": 3.0, "store_backlog_octets": 7.0}
    async with rig.http() as http:
        await http.post(QUEUE, content=b"x")
        await http.post("/v1/%2F/queues/none/messages", content=b"x")
        await http.get("/nothing/1")
        answer = await http.get("/metrics")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    prefix = "amqp_gateway_"
    assert found[prefix + "messages_published_total", "/"] >= 1
    assert found[prefix + "http_messages_confirmed_total", "/"] == 1
    assert found[prefix + "http_messages_returned_total", "/"] == 1
    assert found[prefix + "ready", "/"] == 1
    assert found[prefix + "connections", "0-9-1"] == 1
    assert found[prefix + "store_commits_total",] == 3
    assert found[prefix + "store_backlog_octets",] == 7
    route = "/v1/{vhost}/queues/{queue}/messages"
    assert found[prefix + "http_requests_total", "POST", route, "201"] == 1
    assert found[prefix + "http_requests_total", "POST", route, "404"] == 1
    assert found[prefix + "http_requests_total", "", "other", "404"] == 1


async def test_metrics_from_elsewhere_need_a_monitor(rig: Any) -> None:
    rig.broker.access.add_user("mon", "itor", ["monitoring"])
    for user, status in ((None, 401), ("alice:wonder", 403), ("mon:itor", 200)):
        async with rig.http(user, "192.0.2.7") as http:
            assert (await http.get("/metrics")).status_code == status


async def test_queues_and_connections(rig: Any) -> None:
    rig.queue("orders", durable=True)
    rig.queue("a")
    info = ConnectionInfo(7, "192.0.2.1:5", "0-9-1", "pika", "1.3", "Python", "alice", "/", 2)
    rig.connections.append(info)
    async with rig.http() as http:
        await http.post(QUEUE, content=b"x")
        queues = (await http.get("/v1/%2F/queues")).json()["queues"]
        assert [one["name"] for one in queues] == ["a", "orders"]
        assert (queues[1]["ready"], queues[1]["durable"]) == (1, True)
        assert (await http.get("/v1/connections")).status_code == 403
    async with rig.http("guest:guest") as http:
        connections = (await http.get("/v1/connections")).json()["connections"]
        (shown,) = connections
        assert shown == {name: value for name, value in info._asdict().items() if name in shown}
        assert shown["product"] == "pika"
    rig.broker.access.add_user("stranger", "x")
    async with rig.http("stranger:x") as http:
        assert (await http.get("/v1/%2F/queues")).status_code == 403


async def test_the_description_is_complete(rig: Any) -> None:
    async with rig.http() as http:
        told = (await http.get("/openapi.json")).json()
    assert told["openapi"].startswith("3.1")
    assert set(told["paths"]) >= {
        "/v1/{vhost}/queues/{queue}/messages",
        "/v1/{vhost}/exchanges/{exchange}/messages",
        "/v1/{vhost}/events",
        "/v1/{vhost}/queues",
        "/v1/connections",
        "/livez",
        "/readyz",
        "/metrics",
    }
    ids = [one["operationId"] for path in told["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))
    references = set(re.findall(r"#/components/schemas/(\w+)", str(told)))
    assert references <= set(told["components"]["schemas"])
    publish = resolved(told["paths"]["/v1/{vhost}/queues/{queue}/messages"]["post"], told)
    assert {"201", "400", "401", "403", "404", "409", "413", "429", "503"} <= set(
        publish["responses"]
    )
    assert "Amqp-Property" in {one["name"] for one in publish["parameters"]}
    assert "see every event" in told["paths"]["/v1/{vhost}/events"]["get"]["description"]


async def test_the_console_is_static_and_strict(rig: Any) -> None:
    async with rig.http() as http:
        page = await http.get("/")
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        for inline in ("<style", " style=", "onclick", "http://", "https://"):
            assert inline not in page.text
        assert not re.search(r"<script(?![^>]* src=)", page.text)
        for path in re.findall(r'(?:src|href)="(/console/[^"]+)"', page.text):
            answer = await http.get(path)
            assert answer.status_code == 200
            assert "://" not in answer.text
            assert "innerHTML" not in answer.text


async def test_signing_out_refuses_all_but_nobody(rig: Any) -> None:
    """So a browser forgets a password: it was refused, and the page has named nobody instead."""
    for user, status in ((None, 401), ("alice:wonder", 401), ("signed out:-", 204)):
        async with rig.http(user) as http:
            answer = await http.get("/console/sign-out")
            assert answer.status_code == status
            assert ("www-authenticate" in answer.headers) is (status == 401)
    async with rig.http("signed out:-") as http:
        assert (await http.get("/")).status_code == 401
    async with rig.http(None) as http:
        odd = {"authorization": "Basic %%%"}
        assert (await http.get("/console/sign-out", headers=odd)).status_code == 401


async def test_rooms_stand_in_any_order(
    make_rig: Any, listener: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one room needs of another is there before either makes its routes."""
    monkeypatch.setattr(api, "ROOMS", api.ROOMS[::-1])
    rig = make_rig()
    rig.queue("orders")
    async with rig.served() as port, rig.http() as http:
        assert (await http.post(QUEUE, content=b"x")).status_code == 201
        later = await http.post(QUEUE, content=b"y", headers={"prefer": "respond-async, wait=5"})
        assert later.status_code == 201
        assert (await http.get(QUEUE)).status_code == 200
        query = "source=queue:orders&ack=explicit&credit=1"
        async with listener(port, query) as reader:
            token = (await reader.until()).data["lock"]["token"]
        assert (await http.delete(f"/v1/%2F/deliveries/{token}")).status_code in (200, 204)
