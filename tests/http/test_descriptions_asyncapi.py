"""AsyncAPI says what the caller may do, declared routes included, and is valid."""

import json
import re
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator  # type: ignore[import-untyped]

from gateway.config.web import DeclaredRoute
from gateway.http.access.front import admin_plane
from tests.http.settings_words import route_with_schema
from tests.interop import servers

OFFICIAL = servers.PEERS / "npm/node_modules/@asyncapi/specs/schemas/3.0.0.json"
PRICE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"amount": {"type": "number"}},
    "type": "object",
    "required": ["price"],
    "properties": {"price": {"$ref": "#/$defs/amount"}},
}
ROUTES = (
    route_with_schema(PRICE, name="orders", queue="orders", idempotency="required"),
    DeclaredRoute(
        name="prices",
        exchange="shop",
        key="{market}.{symbol}",
        stream=True,
        content_types=["application/json", "text/plain"],
    ),
    route_with_schema(
        {"$schema": "http://json-schema.org/draft-07/schema#"}, name="old", queue="orders"
    ),
)


def furnished(make_rig: Any, **access: Any) -> Any:
    rig = make_rig(**access)
    rig.queue("orders", durable=True)
    rig.queue("odd name/é")
    rig.exchange("shop")
    return rig


async def told(rig: Any, user: str = "alice:wonder") -> dict[str, Any]:
    async with rig.http(user) as http:
        found: dict[str, Any] = (await http.get("/asyncapi.json")).json()
    return found


def resolved(document: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What a reference leads to."""
    while "$ref" in given:
        whole: Any = document
        for part in given["$ref"].removeprefix("#/").split("/"):
            whole = whole[part]
        given = whole
    return given


def references(value: Any) -> list[str]:
    """All of a document but those within schemas in another language."""
    if isinstance(value, list):
        return [one for inner in value for one in references(inner)]
    if not isinstance(value, dict) or "schemaFormat" in value:
        return []
    found = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return found + [one for inner in value.values() for one in references(inner)]


@pytest.mark.parametrize("routes", [(), ROUTES], ids=["nodes", "routes"])
@pytest.mark.parametrize("user", ["alice:wonder", "weak:weak", "guest:guest"])
async def test_the_document_is_valid(make_rig: Any, routes: Any, user: str) -> None:
    if not OFFICIAL.exists():
        pytest.skip(servers.INSTALL)
    document = await told(furnished(make_rig, routes=routes), user)
    schema = json.loads(OFFICIAL.read_text())
    errors = [
        f"{one.json_path}: {one.message}" for one in Draft7Validator(schema).iter_errors(document)
    ]
    assert not errors, "\n".join(errors)[:4000]


async def test_the_schema_would_find_a_mistake(make_rig: Any) -> None:
    if not OFFICIAL.exists():
        pytest.skip(servers.INSTALL)
    validator = Draft7Validator(json.loads(OFFICIAL.read_text()))
    document = await told(furnished(make_rig, routes=ROUTES))
    document["operations"]["send.route._2f__2f_prices"]["action"] = "publish"
    assert not validator.is_valid(document)


async def test_references_lead_somewhere(make_rig: Any) -> None:
    document = await told(furnished(make_rig, routes=ROUTES))
    found = references(document)
    assert len(found) > 30
    for one in found:
        assert resolved(document, {"$ref": one})
    for name in (*document["channels"], *document["operations"]):
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)


async def test_nodes_are_shown_as_the_caller_may(make_rig: Any) -> None:
    rig = furnished(make_rig)
    document = await told(rig)
    async with rig.http() as http:
        answer = await http.post("/v1/%2F/queues/orders/messages", content=b"x")
        assert answer.status_code == 201
    key = "queue._2f__2f_orders"
    assert document["asyncapi"] == "3.0.0"
    assert document["channels"][key]["address"] == "orders"
    assert document["channels"][key]["bindings"]["amqp"]["queue"]["durable"] is True
    assert document["operations"][f"send.{key}"]["summary"].endswith(
        "POST /v1/%2F/queues/orders/messages"
    )
    assert f"receive.{key}" in document["operations"]
    assert (await told(rig, "weak:weak"))["channels"] == {}


async def test_no_two_names_are_one_channel(make_rig: Any) -> None:
    rig = make_rig()
    for name in ("a/b", "a_2f_b", "a_b", "a b"):
        rig.queue(name)
    channels = (await told(rig))["channels"]
    assert {"a/b", "a_2f_b", "a_b", "a b"} <= {one["address"] for one in channels.values()}


async def test_routes_are_shown_with_their_schemas(make_rig: Any) -> None:
    document = await told(furnished(make_rig, routes=ROUTES, raw_nodes=False))
    assert set(document["channels"]) == {
        "route._2f__2f_orders.messages",
        "route._2f__2f_prices.messages",
        "route._2f__2f_prices.events",
        "route._2f__2f_old.messages",
    }
    assert "shop" not in json.dumps(document), "what is behind a route stands nowhere"

    orders = document["channels"]["route._2f__2f_orders.messages"]
    assert orders["address"] == "/v1/%2F/routes/orders/messages"
    (message,) = orders["messages"].values()
    assert message["contentType"] == "application/json"
    assert message["headers"]["required"] == ["Idempotency-Key"]
    assert message["payload"]["schemaFormat"] == "application/schema+json;version=draft-2020-12"
    # Its references are to itself, wherever it stands.
    inner = {"properties": {"here": message["payload"]["schema"]}}
    assert Draft202012Validator(inner).is_valid({"here": {"price": 1}})
    assert not Draft202012Validator(inner).is_valid({"here": {"price": "1"}})

    (old,) = document["channels"]["route._2f__2f_old.messages"]["messages"].values()
    assert old["payload"]["schemaFormat"] == "application/schema+json;version=draft-07"

    prices = document["operations"]["send.route._2f__2f_prices"]
    kinds = {resolved(document, one)["contentType"] for one in prices["messages"]}
    assert kinds == {"application/json", "text/plain"}
    assert prices["bindings"]["http"]["query"]["required"] == ["market", "symbol"]
    reading = document["operations"]["receive.route._2f__2f_prices"]
    assert reading["summary"] == "GET /v1/%2F/routes/prices/events"


async def test_routes_are_listed_by_permission(make_rig: Any) -> None:
    rig = furnished(make_rig, routes=ROUTES, raw_nodes=False)
    assert (await told(rig, "weak:weak"))["channels"] == {}
    rig.broker.access.set_permissions("weak", "/", "", "", "^shop$")
    assert set((await told(rig, "weak:weak"))["channels"]) == {"route._2f__2f_prices.events"}
    rig.app = admin_plane(rig.app)
    assert "exchange._2f__2f_shop" in (await told(rig))["channels"]


async def test_events_are_as_described(make_rig: Any, listener: Any) -> None:
    rig = furnished(make_rig, routes=ROUTES)
    document = await told(rig)
    channel = document["channels"]["route._2f__2f_prices.events"]
    payload = resolved(document, channel["messages"]["event"])["payload"]
    shape = Draft202012Validator(payload | {"components": document["components"]})
    path = channel["address"]
    headers = {"content-type": "text/plain", "amqp-priority": "4", "amqp-ttl": "60000"}
    headers |= {"amqp-message-id": '"7";t=ulong', "amqp-type": '"price"'}
    async with rig.served() as port, listener(port, "market=eur&symbol=abc", path=path) as reader:
        await reader.opened()
        async with rig.http() as http:
            target = path.replace("events", "messages") + "?market=eur&symbol=abc"
            assert (await http.post(target, content=b"7", headers=headers)).status_code < 300
        event = await reader.until()
    assert event.data["body"] == {"text": "7"} and event.data["priority"] == 4
    shape.validate(event.data)
    assert not shape.is_valid(event.data | {"body": "7"})
