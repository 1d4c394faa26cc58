"""RabbitMQ's management paths: the same requests to RabbitMQ and to the gateway, same answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from . import servers

pytestmark = pytest.mark.interop

Pair = tuple[httpx.Client, httpx.Client]

NUMBERS = {"message_count"}
PUBLISH = "/api/exchanges/%2F/amq.default/publish"
GET = "/api/queues/%2F/q/get"
PROPERTIES = {
    "delivery_mode": 2, "priority": 3, "timestamp": 1700000000, "expiration": "60000",
    "message_id": "m", "correlation_id": "c", "reply_to": "r", "type": "t", "app_id": "a",
    "user_id": "guest", "content_type": "text/plain", "content_encoding": "utf-8",
    "headers": {"a": 1, "b": "x", "f": 1.5, "l": [1, "a"], "t": {"x": True}, "big": 123456789012},
}  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """RabbitMQ with its management plugin, and the gateway."""
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("management")
    theirs = servers.start_rabbitmq(folder / "rabbitmq", plugins=["rabbitmq_management"])
    try:
        ours = servers.start_gateway(folder)
        try:
            with client(theirs) as one, client(ours) as other:
                yield one, other
        finally:
            ours.stop()
    finally:
        theirs.stop()


def client(server: servers.Server) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{server.http_port}", auth=("guest", "guest"), timeout=60
    )


def message(**given: Any) -> dict[str, Any]:
    return {
        "properties": {}, "routing_key": "q", "payload": "hi", "payload_encoding": "string",
    } | given  # fmt: skip


def got(**given: Any) -> dict[str, Any]:
    return {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"} | given


def same(pair: Pair, method: str, path: str, **given: Any) -> Any:
    """Send it to both; status and body are equal. The body."""
    theirs, ours = (one.request(method, path, **given) for one in pair)
    shown = f"{method} {path} {given}: {theirs.status_code} {theirs.text}"
    assert ours.status_code == theirs.status_code, f"{shown}; ours {ours.text}"
    if not theirs.content:
        assert not ours.content, shown
        return None
    assert ours.headers["content-type"] == theirs.headers["content-type"], shown
    assert ours.json() == theirs.json(), shown
    return theirs.json()


def test_publish_and_get(pair: Pair) -> None:
    binary = base64.b64encode(b"\xff\xfe\x00").decode()
    same(pair, "PUT", "/api/queues/%2F/q", json={"durable": True})
    for sent in (
        message(properties=PROPERTIES),
        message(payload="héé"),
        message(payload=binary, payload_encoding="base64"),
        message(properties={"delivery_mode": 1, "odd": "left out"}),
        message(routing_key="nowhere"),
    ):
        same(pair, "POST", PUBLISH, json=sent)
    same(pair, "POST", GET, json=got(ackmode="ack_requeue_true", truncate=2))
    same(pair, "POST", GET, json=got(ackmode="reject_requeue_true", count="2"))
    same(pair, "POST", GET, json=got(encoding="base64"))
    assert same(pair, "POST", GET, json=got()) == []


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"count":1}',
        b'{"count":"x","ackmode":"ack_requeue_true","encoding":"auto"}',
        b'{"count":1,"ackmode":"ack_requeue_true","encoding":"odd"}',
        b'{"count":-1,"ackmode":"ack_requeue_true","encoding":"auto"}',
        b'{"count":1,"ackmode":"ack_requeue_true","encoding":"auto","truncate":"x"}',
    ],
)
def test_a_bad_get(pair: Pair, body: bytes) -> None:
    same(pair, "PUT", "/api/queues/%2F/q", json={"durable": True})
    same(pair, "POST", GET, content=body)


def test_a_get_of_nothing(pair: Pair) -> None:
    same(pair, "POST", "/api/queues/%2F/none/get", json=got())


@pytest.mark.parametrize(
    "change",
    [
        {"payload": "@@", "payload_encoding": "base64"},
        {"payload_encoding": "odd"},
        {"payload": 5},
        {"properties": {"delivery_mode": "2"}},
        {"properties": {"priority": "x"}},
        {"properties": {"user_id": "nobody"}},
        {"properties": {"headers": {"gone": None}}},
        {"routing_key": 5},
    ],
)
def test_a_publish_that_is_odd(pair: Pair, change: dict[str, Any]) -> None:
    same(pair, "POST", PUBLISH, json=message(**change))


def test_a_publish_that_lacks_something(pair: Pair) -> None:
    for name in message():
        body = {key: value for key, value in message().items() if key != name}
        same(pair, "POST", PUBLISH, json=body)
    same(pair, "POST", "/api/exchanges/%2F/none/publish", json=message())


def test_topology(pair: Pair) -> None:
    queue, exchange = "/api/queues/%2F/q2", "/api/exchanges/%2F/x"
    bindings = "/api/bindings/%2F/e/x/q/q2"
    for _ in range(2):
        same(pair, "PUT", queue, json={"durable": True, "arguments": {"x-max-length": 5}})
        same(pair, "PUT", exchange, json={"type": "topic"})
    same(pair, "PUT", queue, json={"durable": False})
    same(pair, "PUT", "/api/queues/%2F/q3", json={"arguments": {"x-max-length": "x"}})
    same(pair, "PUT", "/api/queues/%2F/q4")
    same(pair, "PUT", "/api/queues/%2F/amq.x", json={})
    same(pair, "PUT", exchange, json={"type": "fanout"})
    for path in (queue, exchange, "/api/queues/%2F/q4"):
        theirs, ours = (one.get(path).json() for one in pair)
        for key in ("durable", "auto_delete", "arguments", "vhost", "name"):
            assert ours[key] == theirs[key], (path, key)
    same(pair, "PUT", "/api/exchanges/%2F/y", json={"type": "odd"})
    same(pair, "POST", bindings, json={"routing_key": "a.b"})
    same(pair, "GET", bindings)
    same(pair, "POST", "/api/bindings/%2F/e/none/q/q2", json={})
    same(pair, "POST", "/api/bindings/%2F/e/x/q/none", json={})
    same(pair, "DELETE", bindings + "/none")
    same(pair, "DELETE", bindings + "/a.b")
    for key, shown in (("a.*.#", "a.%252A.%2523"), ("ä b/c~_-", "%25C3%25A4+b%252Fc%257E_-")):
        same(pair, "POST", bindings, json={"routing_key": key})
        same(pair, "GET", bindings)
        same(pair, "DELETE", f"{bindings}/{shown}")
    for _ in range(2):
        same(pair, "DELETE", exchange)
    same(pair, "DELETE", queue + "/contents")
    same(pair, "DELETE", queue + "?if-empty=true")
    same(pair, "DELETE", queue)
    same(pair, "DELETE", queue + "/contents")


def test_people_and_virtual_hosts(pair: Pair) -> None:
    for _ in range(2):
        same(pair, "PUT", "/api/vhosts/v1")
        same(pair, "PUT", "/api/users/u1", json={"password": "p", "tags": "monitoring"})
    same(pair, "PUT", "/api/users/u2", json={})
    rights = {"configure": "", "write": ".*", "read": "^q"}
    same(pair, "PUT", "/api/permissions/v1/u1", json=rights)
    same(pair, "PUT", "/api/permissions/v1/u1", json={"configure": ""})
    for _ in range(2):
        same(pair, "DELETE", "/api/users/u1")
    same(pair, "GET", "/api/whoami")


@pytest.mark.parametrize(
    "path",
    [
        "/api/aliveness-test/%2F",
        "/api/aliveness-test/none",
        "/api/healthchecks/node",
        "/api/health/checks/alarms",
        "/api/health/checks/local-alarms",
        "/api/health/checks/virtual-hosts",
        "/api/queues/%2F/none",
        "/api/queues/none",
        "/api/exchanges/%2F/none",
    ],
)
def test_health_and_what_is_not_there(pair: Pair, path: str) -> None:
    same(pair, "GET", path)


@pytest.mark.parametrize("path", ["overview", "queues", "exchanges", "vhosts", "nodes"])
def test_what_is_shown_has_their_names_and_types(pair: Pair, path: str) -> None:
    """What both show is of the same type; RabbitMQ shows statistics only after a while."""
    theirs, ours = (one.get(f"/api/{path}").json() for one in pair)
    if isinstance(theirs, list):
        theirs, ours = theirs[0], ours[0]
    common = [key for key in ours if theirs.get(key) is not None and ours[key] is not None]
    assert len(common) >= 3
    for key in common:
        assert type(ours[key]) is type(theirs[key]), key


def test_definitions_go_there_and_back(pair: Pair) -> None:
    """RabbitMQ takes our export; we take RabbitMQ's; the topology is the same in both."""
    theirs, ours = pair
    for path, body in (
        ("/api/queues/%2F/kept", {"durable": True, "arguments": {"x-max-length": 7}}),
        ("/api/exchanges/%2F/kept", {"type": "headers", "durable": True}),
    ):
        assert theirs.put(path, json=body).is_success
    bound = {"routing_key": "k", "arguments": {"x-match": "any", "a": 1}}
    assert theirs.post("/api/bindings/%2F/e/kept/q/kept", json=bound).is_success
    exported = theirs.get("/api/definitions").json()
    told = ours.post("/v1/admin/definitions", json=exported).json()
    users = {one["name"]: one["login"] for one in told["users"]}
    assert users["guest"] == "kept"
    for line in told["not_applied"]:
        assert "global parameter 'internal_cluster_id'" in line or "permission of" in line, line
    again = ours.get("/api/definitions").json()
    for part in ("queues", "exchanges", "bindings"):
        for one in exported[part]:
            assert one in again[part]
    headers = {"content-type": "application/json"}
    # With users, it would lock out those that RabbitMQ has: our verifiers are no hashes of its.
    without = {key: value for key, value in again.items() if key != "users"}
    sent = theirs.post("/api/definitions", json=without, headers=headers)
    assert sent.is_success, sent.text
    final = theirs.get("/api/definitions").json()
    for part in ("queues", "exchanges", "bindings"):
        for one in again[part]:
            assert one in final[part]


def test_wrong_credentials(pair: Pair) -> None:
    for server in pair:
        answer = server.get("/api/overview", auth=("guest", "wrong"))
        assert answer.status_code == 401
        assert answer.json() == {"error": "not_authorized", "reason": "Login failed"}
        assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


def test_a_connection_is_closed_politely(gateway: servers.Server) -> None:
    """pika is told why, and is gone from the list."""
    pika = pytest.importorskip("pika")
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", gateway.port))
    ours = client(gateway)
    (shown,) = ours.get("/v1/admin/connections").json()["connections"]
    assert ours.delete(f"/v1/admin/connections/{shown['id']}").status_code == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="closed by guest"):
        while True:
            connection.process_data_events(1)
    for _ in range(500):
        if not ours.get("/v1/admin/connections").json()["connections"]:
            break
    else:
        pytest.fail("the connection is still listed")
    ours.close()
