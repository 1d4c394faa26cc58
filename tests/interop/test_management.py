"""RabbitMQ's management paths: the same requests to RabbitMQ and to the gateway, same answers."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.interop import servers

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


def eventually(condition: Callable[[], Any]) -> Any:
    """RabbitMQ's statistics are seconds old."""
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def pair(both: tuple[servers.Server, servers.Server]) -> Iterator[Pair]:
    theirs, ours = both
    with client(theirs) as one, client(ours) as other:
        yield one, other


@pytest.fixture(scope="module")
def ports(both: tuple[servers.Server, servers.Server]) -> tuple[int, int]:
    """Of AMQP."""
    return both[0].port, both[1].port


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[servers.Server, servers.Server]]:
    """RabbitMQ with its management plugin, and the gateway."""
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("management")
    theirs = servers.start_rabbitmq(folder / "rabbitmq", plugins=["rabbitmq_management"])
    try:
        ours = servers.start_gateway(folder)
        try:
            yield theirs, ours
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


def test_bindings_of_exchanges_and_queues(pair: Pair) -> None:
    for name in ("s1", "s2"):
        same(pair, "PUT", f"/api/exchanges/%2F/{name}", json={"type": "topic"})
    same(pair, "PUT", "/api/queues/%2F/b1", json={})
    same(pair, "POST", "/api/bindings/%2F/e/s1/q/b1", json={"routing_key": "a.b"})
    for _ in range(2):
        same(pair, "POST", "/api/bindings/%2F/e/s1/e/s2", json={"routing_key": "k"})
    for path in (
        "/api/exchanges/%2F/s1/bindings/source", "/api/exchanges/%2F/s1/bindings/destination",
        "/api/exchanges/%2F/s2/bindings/source", "/api/exchanges/%2F/s2/bindings/destination",
        "/api/exchanges/%2F/none/bindings/source", "/api/queues/%2F/b1/bindings",
        "/api/bindings/%2F/e/s1/e/s2", "/api/bindings/%2F/e/s1/e/s2/k",
        "/api/bindings/%2F/e/s1/q/b1", "/api/bindings/%2F/e/s1/q/b1/a.b",
        "/api/bindings/%2F/e/s1/q/b1/none", "/api/bindings/%2F/e/s1/e/s2/none",
    ):  # fmt: skip
        same(pair, "GET", path)
        same(pair, "GET", path + "/")
    same(pair, "DELETE", "/api/bindings/%2F/e/s1/e/s2/none")
    for _ in range(2):
        same(pair, "DELETE", "/api/bindings/%2F/e/s1/e/s2/k")
    same(pair, "GET", "/api/exchanges/%2F/s1/bindings/source")
    same(pair, "DELETE", "/api/queues/%2F/b1/")
    for name in ("s1", "s2"):
        same(pair, "DELETE", f"/api/exchanges/%2F/{name}/")


def test_users_and_their_permissions(pair: Pair) -> None:
    same(pair, "PUT", "/api/users/p1", json={"password": "p", "tags": "monitoring"})
    same(pair, "PUT", "/api/permissions/%2F/p1", json={"configure": "", "write": "", "read": "a"})
    for path in (
        "/api/users/p1/permissions", "/api/permissions/%2F/p1", "/api/users/none",
        "/api/users/none/permissions", "/api/permissions/%2F/none", "/api/policies/%2F",
    ):  # fmt: skip
        same(pair, "GET", path)
    for server in pair:
        listed = server.get("/api/vhosts/%2F/permissions").json()
        assert {"vhost": "/", "user": "p1", "configure": "", "write": "", "read": "a"} in listed
        shown = server.get("/api/users/p1").json()
        assert (shown["name"], shown["tags"]) == ("p1", ["monitoring"])
    same(pair, "DELETE", "/api/users/p1")


def test_a_connection_is_found_and_closed_by_its_name(pair: Pair, ports: tuple[int, int]) -> None:
    """As clients do that test their recovery: by ``name``, or by the name that they gave."""
    pika = pytest.importorskip("pika")
    given = {"connection_name": "recovering", "x": {"y": [1, 2]}}
    for server, port in zip(pair, ports, strict=True):
        parameters = pika.ConnectionParameters("127.0.0.1", port, client_properties=given)
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=7)
        channel.queue_declare("c1", exclusive=True)
        channel.basic_consume("c1", lambda *_: None)
        local = connection._impl._transport._sock.getsockname()[1]

        def mine(server: httpx.Client = server, connection: Any = connection) -> dict[str, Any]:
            connection.process_data_events(0.2)
            for one in server.get("/api/connections").json():
                if one.get("user_provided_name") == "recovering":
                    return dict(one)
            return {}

        shown = eventually(mine)
        assert shown["name"] == f"127.0.0.1:{local} -> 127.0.0.1:{port}"
        assert (shown["peer_host"], shown["peer_port"]) == ("127.0.0.1", local)
        assert (shown["host"], shown["port"]) == ("127.0.0.1", port)
        assert (shown["user"], shown["vhost"]) == ("guest", "/")
        assert (shown["protocol"], shown["auth_mechanism"]) == ("AMQP 0-9-1", "PLAIN")
        properties = shown["client_properties"]
        assert properties["connection_name"] == "recovering" and properties["x"] == {"y": [1, 2]}
        assert properties["product"] == "Pika Python Client Library"
        assert properties["capabilities"]["consumer_cancel_notify"] is True
        path = "/api/connections/" + quote(shown["name"], safe="")
        assert server.get(path).json()["name"] == shown["name"]

        def listed(
            server: httpx.Client = server, connection: Any = connection, path: str = path
        ) -> Any:
            connection.process_data_events(0.2)
            found = server.get(path + "/channels").json()
            return found if found and found[0].get("consumer_count") else None

        (one,) = eventually(listed)
        assert one["name"] == f"{shown['name']} (1)" and one["number"] == 1
        assert one["confirm"] is True and one["transactional"] is False
        assert one["prefetch_count"] == 7 and one["global_prefetch_count"] == 0
        assert one["connection_details"]["name"] == shown["name"]
        assert one["name"] in [each["name"] for each in server.get("/api/channels").json()]
        by_name = server.get("/api/channels/" + quote(one["name"], safe="")).json()
        assert by_name["number"] == 1
        assert server.get("/api/vhosts/%2F/channels").json()
        (consumer,) = server.get("/api/consumers/%2F").json()
        assert consumer["channel_details"]["connection_name"] == shown["name"]
        assert server.delete(path, headers={"X-Reason": "to see"}).status_code == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320.*to see"):
            while True:
                connection.process_data_events(1)
        eventually(lambda: server.get(path).status_code == 404)  # noqa: B023
        gone = server.delete(path)
        assert gone.json() == {"error": "Object Not Found", "reason": "Not Found"}


def test_errors_have_rabbitmqs_form(pair: Pair) -> None:
    _, ours = pair
    for method, path, status in (
        ("GET", "/api/nope", 404), ("PATCH", "/api/queues/%2F/q", 405),
        ("DELETE", "/api/overview", 405), ("GET", "/api/queues/%FF", 404),
        ("PUT", "/api/queues/none/q", 404), ("GET", "/api/connections/none", 404),
        ("GET", "/api/channels/none", 404),
    ):  # fmt: skip
        answer = ours.request(method, path)
        assert answer.headers["content-type"] == "application/json", path
        assert answer.json().keys() == {"error", "reason"}, (path, answer.text)
        assert answer.status_code in (status, 400), (path, answer.text)
        if status == 405:
            assert answer.headers["allow"]
    same(pair, "GET", "/api/nope")
    same(pair, "GET", "/api/connections/none")


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
def test_health_and_missing_things(pair: Pair, path: str) -> None:
    same(pair, "GET", path)


@pytest.mark.parametrize("path", ["overview", "queues", "exchanges", "vhosts", "nodes"])
def test_shown_fields_have_their_names_and_types(pair: Pair, path: str) -> None:
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


POLICY = {"pattern": "^pol", "definition": {"max-length": 5, "overflow": "reject-publish"}}
OPERATOR = {"pattern": "^pol", "definition": {"max-length": 3}, "apply-to": "queues"}


def test_policies(pair: Pair) -> None:
    """Set, listed, in force and deleted; the smaller number of policy, operator policy and argument
    counts, and declarations do not notice."""
    for given in (POLICY, POLICY | {"priority": 4}):
        same(pair, "PUT", "/api/policies/%2F/p", json=given)
    same(pair, "PUT", "/api/operator-policies/%2F/o", json=OPERATOR)
    for path in (
        "/api/policies", "/api/policies/%2F", "/api/policies/%2F/p", "/api/policies/%2F/none",
        "/api/operator-policies", "/api/operator-policies/%2F", "/api/operator-policies/%2F/o",
    ):  # fmt: skip
        same(pair, "GET", path)
    cases: dict[str, dict[str, Any]] = {
        "pol-plain": {}, "pol-less": {"x-max-length": 2}, "pol-more": {"x-max-length": 4},
        "pol-drop": {"x-max-length": 2, "x-overflow": "drop-head"},
    }  # fmt: skip
    for name, arguments in cases.items():
        for _ in range(2):
            same(pair, "PUT", f"/api/queues/%2F/{name}",
                 json={"durable": True, "arguments": arguments})  # fmt: skip
    for name in cases:
        for number in range(6):
            sent = message(routing_key=name, payload=str(number))
            for server in pair:
                server.post(PUBLISH, json=sent)  # a refusal is 400 there, and 200 here
        same(pair, "POST", f"/api/queues/%2F/{name}/get", json=got(count=9))
    for server in pair:

        def in_force(server: httpx.Client = server) -> Any:
            one = server.get("/api/queues/%2F/pol-plain").json()
            return one if one.get("policy") else None

        seen = eventually(in_force)
        assert (seen["policy"], seen["operator_policy"]) == ("p", "o")
        assert seen["effective_policy_definition"] == {
            "max-length": 3, "overflow": "reject-publish",
        }  # fmt: skip
    for path in ("/api/policies/%2F/p", "/api/operator-policies/%2F/o"):
        same(pair, "DELETE", path)
        same(pair, "DELETE", path)


@pytest.mark.parametrize(
    "given",
    [
        {}, {"pattern": "x"}, {"definition": {"max-length": 1}},
        {"pattern": "x", "definition": {}}, {"pattern": "x", "definition": {"none": 1}},
        {"pattern": "x", "definition": {"max-length": -1}},
        {"pattern": "x", "definition": {"max-length": "1"}},
        {"pattern": "(", "definition": {"max-length": 1}},
        {"pattern": "x", "definition": {"max-length": 1}, "priority": "x"},
        {"pattern": "x", "definition": {"max-length": 1}, "apply-to": "x"},
        {"pattern": "x", "definition": {"overflow": "x"}},
        {"pattern": "x", "definition": {"expires": 0}},
    ],
)  # fmt: skip
def test_policies_that_are_refused(pair: Pair, given: dict[str, Any]) -> None:
    theirs, ours = (one.put("/api/policies/%2F/bad", json=given) for one in pair)
    assert (ours.status_code, ours.json()["error"]) == (
        theirs.status_code, theirs.json()["error"],
    ), (theirs.text, ours.text)  # fmt: skip
