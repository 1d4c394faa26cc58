"""RabbitMQ's paths answer as RabbitMQ does. tests/interop compares them with a real one."""

import asyncio
import base64
from typing import Any

import pytest

from gateway.http.access.principal import Principal
from gateway.http.admin import rabbit_messages
from gateway.http.journal.rights import readable

PUBLISH = "/api/exchanges/%2F/amq.default/publish"
GET = "/api/queues/%2F/q/get"
PROPERTIES = {
    "delivery_mode": 2,
    "headers": {"a": 1, "b": "x", "f": 1.5, "l": [1, "a"], "t": {"x": True}},
    "timestamp": 1700000000,
    "expiration": "60000",
    "message_id": "m",
    "priority": 3,
    "user_id": "alice",
    "type": "t",
    "content_type": "text/plain",
}


def message(**given: Any) -> dict[str, Any]:
    return {
        "properties": {}, "routing_key": "q", "payload": "hi", "payload_encoding": "string",
    } | given  # fmt: skip


async def test_an_unroutable_message_waits_for_no_other(make_rig: Any) -> None:
    """A return is final while the confirms of earlier durable messages wait for the disk."""
    rig = make_rig(volatile=False)
    rig.queue("q", durable=True)
    rig.held = True
    async with rig.http() as http:
        durable = message(properties={"delivery_mode": 2})
        earlier = asyncio.create_task(http.post(PUBLISH, json=durable))
        await rig.until(lambda: rig.depth("q")[0])
        answer = await http.post(PUBLISH, json=message(routing_key="none"))
        assert (answer.status_code, answer.json()) == (200, {"routed": False})
        assert not earlier.done()
        rig.release()
        assert (await earlier).json() == {"routed": True}


async def test_publish_and_get(rig: Any) -> None:
    rig.queue("q")
    async with rig.http() as http:
        assert (await http.post(PUBLISH, json=message(routing_key="none"))).json() == {
            "routed": False
        }
        sent = await http.post(PUBLISH, json=message(properties=PROPERTIES))
        assert sent.json() == {"routed": True}
        binary = base64.b64encode(b"\xff\xfe").decode()
        await http.post(PUBLISH, json=message(payload=binary, payload_encoding="base64"))
        asked = {"count": 9, "ackmode": "ack_requeue_true", "encoding": "auto"}
        first, second = (await http.post(GET, json=asked)).json()
        assert first == {
            "payload_bytes": 2,
            "redelivered": False,
            "exchange": "",
            "routing_key": "q",
            "message_count": 1,
            "properties": PROPERTIES,
            "payload": "hi",
            "payload_encoding": "string",
        }
        assert (second["payload"], second["payload_encoding"]) == (binary, "base64")
        assert second["properties"] == []
        short = asked | {"truncate": 1, "count": "1", "ackmode": "ack_requeue_false"}
        (again,) = (await http.post(GET, json=short)).json()
        assert (again["redelivered"], again["payload"]) == (True, "h")
        rejected = {"count": 1, "ackmode": "reject_requeue_false", "encoding": "base64"}
        assert len((await http.post(GET, json=rejected)).json()) == 1
        assert (await http.post(GET, json=asked)).json() == []


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        (GET, b"{", 400, "not_json"),
        (GET, b"[]", 400, "not_json"),
        (GET, b'{"count":1}', 400, "[{key_missing,ackmode},{key_missing,encoding}]"),
        (
            GET,
            b'{"count":"x","ackmode":"ack_requeue_true","encoding":"auto"}',
            400,
            ["not_integer", "x"],
        ),
        (
            PUBLISH,
            b'{"properties":{"delivery_mode":"2"},"routing_key":"q","payload":"",'
            b'"payload_encoding":"string"}',
            400,
            ["not_int", "delivery_mode"],
        ),
        (
            PUBLISH,
            b'{"properties":{},"routing_key":"q","payload":"@","payload_encoding":"base64"}',
            400,
            ["not_base64", "@"],
        ),
        (
            "/api/exchanges/%2F/none/publish",
            None,
            400,
            "404 NOT_FOUND - no exchange 'none' in vhost '/'",
        ),
        ("/api/queues/%2F/none/get", None, 404, "no queue 'none' in vhost '/'"),
    ],
)
async def test_errors_are_rabbitmqs(
    rig: Any, path: str, body: bytes | None, status: int, reason: Any
) -> None:
    rig.queue("q")
    given = message() | {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    async with rig.http() as http:
        answer = await (
            http.post(path, json=given) if body is None else http.post(path, content=body)
        )
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["reason"] in (reason, f"NOT_FOUND - {reason}")


async def test_permissions(rig: Any) -> None:
    rig.queue("q")
    async with rig.http("weak:weak") as http:
        refused = await http.post(PUBLISH, json=message())
        assert refused.status_code == 401
        assert (await http.put("/api/queues/%2F/x", json={})).status_code == 401
    async with rig.http(None) as http:
        answer = await http.get("/api/overview")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic")


async def test_tools_read(rig: Any) -> None:
    rig.queue("q")
    rig.exchange("shop")
    rig.bind("q", "shop", "a.*")
    async with rig.http("guest:guest") as http:
        overview = (await http.get("/api/overview")).json()
        assert overview["object_totals"]["queues"] == 1
        (queue,) = (await http.get("/api/queues?columns=name")).json()
        assert (queue["name"], queue["messages"], queue["state"]) == ("q", 0, "running")
        assert (await http.get("/api/queues/%2F/q")).json()["vhost"] == "/"
        shown = (await http.get("/api/bindings/%2F")).json()
        assert [(one["source"], one["properties_key"]) for one in shown] == [
            ("", "q"),
            ("shop", "a.%2A"),
        ]
        for path in (
            "nodes", "whoami", "connections", "consumers", "vhosts", "vhosts/%2F", "exchanges",
            "exchanges/%2F", "exchanges/%2F/shop", "bindings", "users", "permissions",
            "definitions", "definitions/%2F", "aliveness-test/%2F", "healthchecks/node",
            "health/checks/alarms", "bindings/%2F/e/shop/q/q",
        ):  # fmt: skip
            assert (await http.get("/api/" + path)).status_code == 200, path
        for path in ("queues/%2F/none", "queues/none", "exchanges/%2F/none", "vhosts/none"):
            answer = await http.get("/api/" + path)
            assert answer.status_code == 404
            assert answer.json() == {"error": "Object Not Found", "reason": "Not Found"}


async def test_tools_change(rig: Any) -> None:
    queue, exchange, bind = (
        "/api/queues/%2F/q2", "/api/exchanges/%2F/x2", "/api/bindings/%2F/e/x2/q/q2",
    )  # fmt: skip
    async with rig.http("guest:guest") as http:
        for path, body in ((queue, {"durable": True}), (exchange, {"type": "topic"})):
            assert (await http.put(path, json=body)).status_code == 201
            assert (await http.put(path, json=body)).status_code == 204
        differs = await http.put(queue, json={"durable": False})
        assert differs.json() == {
            "error": "bad_request",
            "reason": "inequivalent arg 'durable' for queue 'q2' in vhost '/': received 'false' "
            "but current is 'true'",
        }
        odd = await http.put("/api/exchanges/%2F/y", json={"type": "odd"})
        assert odd.json()["reason"] == "unknown exchange type 'odd'"
        assert (await http.post(bind, json={"routing_key": "a.#"})).status_code == 201
        (shown,) = (await http.get(bind)).json()
        assert shown["properties_key"] == "a.%23"  # RabbitMQ quotes it within JSON, too
        assert (await http.delete(bind + "/a.%2523")).status_code == 204
        keys: list[tuple[str, dict[str, int]]] = [("b *", {}), ("b", {"why": 1})]
        for key, arguments in keys:
            made = await http.post(bind, json={"routing_key": key, "arguments": arguments})
            found = (await http.get(made.headers["location"])).json()
            assert (found["routing_key"], found["arguments"]) == (key, arguments)
            assert (await http.delete(made.headers["location"])).status_code == 204
        assert (await http.post(bind, json={"routing_key": "a.#"})).status_code == 201
        assert (await http.delete(bind + "/a.%23")).status_code == 204
        assert (await http.delete(bind + "/a.%23")).status_code == 404
        assert (await http.delete(queue + "/contents")).status_code == 204
        for path in (queue, exchange):
            assert (await http.delete(path)).status_code == 204
            assert (await http.delete(path)).status_code == 404
        assert (await http.put("/api/vhosts/v2")).status_code == 201
        user = {"password": "p", "tags": "monitoring,management"}
        assert (await http.put("/api/users/u2", json=user)).status_code == 201
        rights = {"configure": "", "write": "", "read": ""}
        assert (await http.put("/api/permissions/v2/u2", json=rights)).status_code == 201
        for status in (204, 404):
            assert (await http.delete("/api/permissions/v2/u2")).status_code == status
        assert (await http.delete("/api/users/u2")).status_code == 204
        for status in (204, 404):
            assert (await http.delete("/api/vhosts/v2")).status_code == status
        for none in ("policies", "operator-policies", "parameters", "vhost-limits"):
            assert (await http.get(f"/api/{none}")).json() == []
        given = {"queues": [{"name": "d", "vhost": "/", "durable": True, "arguments": {}}]}
        assert (await http.post("/api/definitions", json=given)).status_code == 204
        policy = {"policies": [{"name": "p", "vhost": "/"}]}
        told = await http.post("/api/definitions", json=policy)
        assert (told.status_code, len(told.json()["not_applied"])) == (200, 1)
        assert (
            await http.post("/api/definitions/%2F", json={"queues": [{"name": "e"}]})
        ).is_success


async def test_unhealthy_is_said(rig: Any) -> None:
    rig.broker.alarm("disk", True)
    async with rig.http("guest:guest") as http:
        answer = await http.get("/api/healthchecks/node")
    assert (answer.status_code, answer.json()["status"]) == (503, "failed")


async def test_headers_of_very_many_values_are_refused(rig: Any) -> None:
    """They would be written in one step."""
    rig.queue("orders")
    asked = {"routing_key": "orders", "payload": "x", "payload_encoding": "string"}
    async with rig.http() as http:
        for count, status in ((rabbit_messages.MOST_VALUES, 400), (100, 200)):
            tried: tuple[dict[str, Any], ...] = (
                {"a": [[]] * count},
                {str(n): n for n in range(count)},
            )
            for headers in tried:
                body = {**asked, "properties": {"headers": headers}}
                answer = await http.post("/api/exchanges/%2F/amq.default/publish", json=body)
                assert answer.status_code == status, answer.text
    assert rig.depth("orders") == (2, 0)


async def test_topic_permissions(rig: Any) -> None:
    given = {"exchange": "amq.topic", "write": "^a", "read": "^{username}"}
    path = "/api/topic-permissions/%2F/weak"
    async with rig.http("guest:guest") as http:
        assert (await http.get("/api/topic-permissions")).json() == []
        assert (await http.get(path)).status_code == 404
        assert (await http.put(path, json=given)).status_code == 201
        assert (await http.put(path, json=given)).status_code == 204
        shown = [{"user": "weak", "vhost": "/"} | given]
        for where in ("topic-permissions", "users/weak/topic-permissions",
                      "vhosts/%2F/topic-permissions", "topic-permissions/%2F/weak"):  # fmt: skip
            assert (await http.get("/api/" + where)).json() == shown, where
        assert (await http.get("/api/users/guest/topic-permissions")).json() == []
        for wrong in ({}, given | {"write": 5}, given | {"write": "("}):
            assert (await http.put(path, json=wrong)).status_code == 400, wrong
        for where in ("/api/topic-permissions/none/weak", "/api/topic-permissions/%2F/none"):
            assert (await http.put(where, json=given)).status_code == 404
        assert (await http.delete(path)).status_code == 204
        assert (await http.get("/api/topic-permissions")).json() == []
    async with rig.http("weak:weak") as http:
        assert (await http.put(path, json=given)).status_code == 401


async def test_topic_permissions_narrow_streams_and_the_journal(rig: Any) -> None:
    rig.exchange("shop")
    async with rig.http("guest:guest") as http:
        given = {"exchange": "shop", "write": "^a", "read": "^a"}
        answer = await http.put("/api/topic-permissions/%2F/guest", json=given)
        assert answer.status_code == 201
        for key, status in (("a.b", 201), ("b.a", 403)):
            sent = await http.post(
                f"/v1/%2F/exchanges/shop/messages?routing_key={key}", content=b"x"
            )
            # Nothing is bound, so an accepted message has no route.
            assert sent.status_code == (409 if status == 201 else status), sent.text
        answer = await http.get("/v1/%2F/events?source=exchange:shop%3Fbinding=b.%23")
        assert answer.status_code == 403
        assert "read access to topic 'b.#'" in answer.json()["detail"]
    principal = Principal("guest")
    for address, seen in (("/exchanges/shop", False), ("/exchanges/amq.topic", True)):
        assert readable(rig.broker, principal, "/")("/", address) is seen
