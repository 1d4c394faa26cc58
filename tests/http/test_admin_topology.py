"""Virtual hosts, exchanges, queues, bindings, users, permissions, connections over HTTP."""

from typing import Any

import pytest

from gateway.http.dependencies import ConnectionInfo

HOST = "/v1/admin/vhosts/%2F"
QUEUE = HOST + "/queues/orders"
PLAIN = HOST + "/queues/plain"
ADMIN = "guest:guest"


def message_of(seen: Any) -> Any:
    return seen["message"]


def is_problem(answer: Any, status: int, kind: str) -> bool:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return bool(answer.json()["type"] == f"/problems/{kind}")


async def test_a_queue_lives_and_dies(rig: Any) -> None:
    async with rig.http() as http:
        made = await http.put(QUEUE, json={"arguments": {"x-max-length": 3}})
        assert made.status_code == 201
        assert made.json()["durable"] is True
        assert made.json()["arguments"] == {"x-max-length": 3}
        again = await http.put(QUEUE, json={"arguments": {"x-max-length": 3}})
        assert again.status_code == 200
        other = await http.put(QUEUE, json={"arguments": {"x-max-length": 4}})
        assert is_problem(other, 409, "conflict")
        assert "inequivalent arg 'x-max-length'" in other.json()["detail"]
        wrong = await http.put(QUEUE, json={"arguments": {"x-max-length": "many"}})
        assert is_problem(wrong, 422, "invalid-argument")
        await http.post("/v1/%2F/queues/orders/messages", content=b"x")
        told = (await http.get(QUEUE)).json()
        assert (told["ready"], told["published"], told["octets"] > 0) == (1, 1, True)
        assert [one["name"] for one in (await http.get(HOST + "/queues")).json()["queues"]] == [
            "orders"
        ]
        assert is_problem(await http.delete(QUEUE + "?if_empty=true"), 409, "conflict")
        assert is_problem(await http.delete(QUEUE + "?if_empty=what"), 400, "invalid-request")
        assert (await http.delete(QUEUE + "/messages")).json() == {"messages": 1}
        assert (await http.delete(QUEUE + "?if_empty=true&if_unused=true")).json() == {
            "messages": 0
        }
        for method in ("GET", "DELETE"):
            assert is_problem(await http.request(method, QUEUE), 404, "address-not-found")


async def test_a_queue_for_clients_that_expect_levels_of_priority(rig: Any) -> None:
    """0.8a2 makes no lasting queues: who makes them for its clients says how many levels."""
    async with rig.http() as http:
        made = await http.put(QUEUE, json={"priority_levels": 2})
        assert (made.status_code, made.json()["priority_levels"]) == (201, 2)
        assert made.json()["arguments"] == {}
        again = await http.put(QUEUE, json={"priority_levels": 10})
        assert (again.status_code, again.json()["priority_levels"]) == (200, 2)
        assert is_problem(await http.put(QUEUE, json={"priority_levels": 3}), 422, "schema")


async def test_a_queue_needs_no_body(rig: Any) -> None:
    async with rig.http() as http:
        assert (await http.put(QUEUE)).status_code == 201


async def test_a_declaration_is_answered_after_its_commit(make_rig: Any) -> None:
    rig = make_rig(volatile=False, confirm_seconds=0.05)
    rig.held = True
    async with rig.http() as http:
        assert is_problem(await http.put(QUEUE), 504, "outcome-unknown")
        rig.release()
        assert (await http.put(QUEUE)).status_code == 200


async def test_names_are_one_segment_each(rig: Any) -> None:
    path = HOST + "/queues/a%2F..%2Fb%20%C3%A9"
    async with rig.http() as http:
        assert (await http.put(path)).json()["name"] == "a/../b é"
        assert (await http.get(path)).json()["name"] == "a/../b é"
        assert is_problem(await http.put(HOST + "/queues/%FF"), 400, "invalid-request")


@pytest.mark.parametrize("kind", ["x-selector", "x-matcher", "x-lossy"])
async def test_our_own_types_of_exchanges_too(rig: Any, kind: str) -> None:
    async with rig.http() as http:
        answer = await http.put(HOST + "/exchanges/mine", json={"type": kind})
        assert (answer.status_code, answer.json()["type"]) == (201, kind), answer.text


async def test_exchanges_and_bindings(rig: Any) -> None:
    exchange = HOST + "/exchanges/shop"
    async with rig.http() as http:
        assert (await http.put(exchange, json={"type": "headers"})).status_code == 201
        assert (await http.put(exchange, json={"type": "headers"})).status_code == 200
        assert is_problem(await http.put(exchange, json={"type": "fanout"}), 409, "conflict")
        assert is_problem(await http.put(exchange, json={"type": "odd"}), 422, "schema")
        assert is_problem(await http.put(HOST + "/exchanges/amq.mine"), 403, "forbidden")
        await http.put(QUEUE)
        asked = {
            "source": "shop",
            "destination": "orders",
            "routing_key": "k",
            "arguments": {"x-match": "any", "at": {"$type": "timestamp", "value": 5}},
        }
        bound = await http.post(HOST + "/bindings", json=asked)
        assert bound.status_code == 201
        assert (await http.post(HOST + "/bindings", json=asked)).status_code == 200
        listed = (await http.get(HOST + "/bindings")).json()["bindings"]
        assert listed == [bound.json()]
        assert (await http.get(exchange)).json()["bindings"] == 1
        assert is_problem(await http.delete(exchange + "?if_unused=true"), 409, "conflict")
        one = HOST + "/bindings/" + bound.json()["id"]
        assert (await http.delete(one)).status_code == 204
        assert is_problem(await http.delete(one), 404, "address-not-found")
        lost = await http.post(HOST + "/bindings", json=asked | {"destination": "none"})
        assert is_problem(lost, 404, "address-not-found")
        wrong = await http.post(HOST + "/bindings", json=asked | {"arguments": {"x-match": 3}})
        assert is_problem(wrong, 422, "invalid-argument")
        assert (await http.delete(exchange)).status_code == 204
        names = {one["name"] for one in (await http.get(HOST + "/exchanges")).json()["exchanges"]}
        assert "amq.topic" in names
        assert "shop" not in names


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"{", 400, "invalid-request"),
        (b'{"arguments":{"x":NaN}}', 400, "invalid-request"),
        (b"[" * 100_000, 400, "invalid-request"),
        (b'{"arguments":' + b'{"a":' * 40 + b"1" + b"}" * 41, 400, "invalid-request"),
        (b'{"durable":"yes"}', 422, "schema"),
        (b'{"durable":1}', 422, "schema"),
        (b'{"lasting":true}', 422, "schema"),
        (b'{"arguments":{"x":9223372036854775808}}', 422, "invalid-argument"),
        (b'{"arguments":{"x":{"$type":"wat","value":1}}}', 422, "invalid-argument"),
        (b'{"arguments":{"' + b"x" * 300 + b'":1}}', 422, "invalid-argument"),
        (b" " * (1 << 20) + b"{}", 413, "too-large"),
    ],
)
async def test_bodies_are_read_strictly(rig: Any, body: bytes, status: int, kind: str) -> None:
    async with rig.http() as http:
        headers = {"content-type": "application/json"}
        assert is_problem(await http.put(QUEUE, content=body, headers=headers), status, kind)
        form = {"content-type": "application/x-www-form-urlencoded"}
        answer = await http.put(QUEUE, content=b"{}", headers=form)
        assert is_problem(answer, 415, "unsupported-media-type")


async def test_permissions_bind_the_administration_too(rig: Any) -> None:
    rig.queue("orders")
    async with rig.http("weak:weak") as http:
        assert is_problem(await http.put(HOST + "/queues/mine"), 403, "forbidden")
        assert is_problem(await http.delete(QUEUE), 403, "forbidden")
        assert is_problem(await http.delete(QUEUE + "/messages"), 403, "forbidden")
        assert (await http.get(QUEUE)).status_code == 200
        for path in ("users", "permissions", "overview", "connections"):
            assert is_problem(await http.get("/v1/admin/" + path), 403, "forbidden")
        assert is_problem(await http.put("/v1/admin/vhosts/x"), 403, "forbidden")
        assert (await http.get("/v1/admin/vhosts")).json()["vhosts"][0]["name"] == "/"
    rig.broker.access.add_user("stranger", "x")
    async with rig.http("stranger:x") as http:
        assert is_problem(await http.get(QUEUE), 403, "forbidden")
        assert (await http.get("/v1/admin/vhosts")).json() == {"vhosts": []}


async def test_virtual_hosts(rig: Any) -> None:
    rig.connections.append(ConnectionInfo(7, "192.0.2.1:5", "0-9-1", vhost="shop"))
    closed: list[int] = []

    def close(number: int, reason: str) -> bool:
        closed.append(number)
        return True

    rig.dependencies.close_connection = close
    async with rig.http(ADMIN) as http:
        assert (await http.put("/v1/admin/vhosts/shop")).status_code == 201
        assert (await http.put("/v1/admin/vhosts/shop")).status_code == 200
        assert (await http.put("/v1/admin/vhosts/shop/queues/q")).status_code == 201
        assert (await http.get("/v1/admin/vhosts/shop")).json()["queues"] == 1
        assert (await http.delete("/v1/admin/vhosts/shop")).status_code == 204
        assert closed == [7]
        for method in ("GET", "DELETE"):
            answer = await http.request(method, "/v1/admin/vhosts/shop")
            assert is_problem(answer, 404, "address-not-found")
        assert (await http.get("/v1/admin/overview")).json()["vhosts"] == 1


async def test_users(rig: Any) -> None:
    carol = "/v1/admin/users/carol"
    async with rig.http(ADMIN) as http:
        assert is_problem(await http.put(carol, json={}), 409, "conflict")
        assert is_problem(await http.put(carol, json={"tags": ["king"]}), 422, "schema")
        made = await http.put(carol, json={"password": "first", "tags": ["monitoring"]})
        assert made.status_code == 201
        assert made.json() == {"name": "carol", "tags": ["monitoring"], "loopback_only": False}
        rights = carol + "/permissions/%2F"
        given = {"configure": "", "write": ".*", "read": "^q"}
        assert (await http.put(rights, json=given)).status_code == 201
        assert (await http.put(rights, json=given)).status_code == 200
        wrong = await http.put(rights, json=given | {"read": "("})
        assert is_problem(wrong, 422, "invalid-argument")
        view = {"user": "carol", "vhost": "/"} | given
        assert (await http.get(rights)).json() == view
        assert (await http.get(carol + "/permissions")).json() == {"permissions": [view]}
        assert view in (await http.get("/v1/admin/permissions")).json()["permissions"]
        async with rig.http("carol:first") as hers:
            assert (await hers.get("/v1/admin/overview")).status_code == 200
            assert (await http.put(carol, json={"password": "second"})).status_code == 200
            assert (await hers.get("/v1/admin/overview")).status_code == 401
        assert (await http.get(carol)).json()["tags"] == ["monitoring"]
        assert (await http.delete(rights)).status_code == 204
        assert is_problem(await http.get(rights), 404, "address-not-found")
        assert (await http.delete(carol)).status_code == 204
        assert is_problem(await http.delete(carol), 404, "address-not-found")
        assert "password" not in (await http.get("/v1/admin/users")).text


async def test_one_administrator_stays(rig: Any) -> None:
    async with rig.http(ADMIN) as http:
        guest = "/v1/admin/users/guest"
        assert is_problem(await http.delete(guest), 409, "conflict")
        assert is_problem(await http.put(guest, json={"tags": []}), 409, "conflict")
        await http.put("/v1/admin/users/root", json={"password": "p", "tags": ["administrator"]})
        assert (await http.delete(guest)).status_code == 204


async def test_connections_and_consumers(rig: Any) -> None:
    rig.queue("orders")
    rig.channel.start(rig.channel.subscribe("orders", "tag"))
    rig.connections.append(ConnectionInfo(7, "192.0.2.1:5", "0-9-1", "pika"))
    closed: list[tuple[int, str]] = []

    def close(number: int, reason: str) -> bool:
        closed.append((number, reason))
        return True

    rig.dependencies.close_connection = close
    async with rig.http(ADMIN) as http:
        (one,) = (await http.get("/v1/admin/connections")).json()["connections"]
        assert (await http.get("/v1/admin/connections/7")).json() == one
        assert (await http.delete("/v1/admin/connections/7")).status_code == 204
        assert closed == [(7, "closed by guest over HTTP")]
        for number in ("8", "x"):
            answer = await http.delete(f"/v1/admin/connections/{number}")
            assert is_problem(answer, 404, "address-not-found")
        for path in ("/v1/admin/consumers", HOST + "/consumers"):
            (consumer,) = (await http.get(path)).json()["consumers"]
            assert (consumer["queue"], consumer["tag"]) == ("orders", "tag")


async def test_arguments_without_effect_are_named(rig: Any) -> None:
    """Wherever details of the queue are shown."""
    arguments = {"x-queue-type": "quorum", "x-max-length": 3, "x-wat": 1, "mine": 2}
    warnings = [
        "x-queue-type 'quorum': kept on this node only, without replicas",
        "x-wat is not known and has no effect",
    ]
    async with rig.http() as http:
        made = await http.put(QUEUE, json={"arguments": arguments})
        assert made.json()["warnings"] == warnings
        await http.put(PLAIN, json={"arguments": {"x-max-length": 3}})
        for path in (HOST + "/queues", "/api/queues/%2F"):
            for name, said in (("orders", warnings), ("plain", [])):
                told = await http.get(f"{path}/{name}")
                assert told.json()["warnings"] == said, path
        listed = {one["name"]: one["warnings"] for one in (await http.get("/api/queues")).json()}
        assert listed == {"orders": warnings, "plain": []}


async def test_a_queue_of_last_values(rig: Any) -> None:
    """It is declared, written and read over HTTP like any other."""
    async with rig.http() as http:
        made = await http.put(QUEUE, json={"arguments": {"x-last-value-key": "ticker"}})
        assert made.status_code == 201
        for ticker, price in (("a", "1"), ("b", "2"), ("a", "3")):
            sent = {"routing_key": "orders", "payload": price, "payload_encoding": "string"}
            sent["properties"] = {"headers": {"ticker": ticker}}  # type: ignore[assignment]
            said = await http.post("/api/exchanges/%2F/amq.default/publish", json=sent)
            assert said.json() == {"routed": True}
        told = (await http.get(QUEUE)).json()
        assert told["arguments"] == {"x-last-value-key": "ticker"}
        assert (told["ready"], told["published"], told["warnings"]) == (2, 3, [])
        seen = (await http.get("/v1/%2F/queues/orders/messages")).json()["messages"]
        found = [(m["properties"]["ticker"], m["body"]["base64"]) for m in map(message_of, seen)]
        assert found == [("b", "Mg=="), ("a", "Mw==")]
        wrong = await http.put(PLAIN, json={"arguments": {"x-last-value-key": 5}})
        assert is_problem(wrong, 422, "invalid-argument")
