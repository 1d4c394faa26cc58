"""``/openapi.json`` is of use to tools: each schema has a type, each operation a name that stays,
the main ones have examples. ``interop/test_generated_clients.py`` has clients that tools make."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.http.journal.consumers import JournalConsumerInput
from tests.http.description_words import Operation, Schemas, examples, operations, resolved

NAMES = Path(__file__).with_name("operation_ids.txt")
ANY = {"$ref": "#/components/schemas/JsonValue"}
SAYS = ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const")
Place = tuple[str, dict[str, Any] | bool]
"""Where a schema stands, and the schema."""

ANY_JSON = {
    # The body of somebody's message.
    "//v1/{vhost}/requests/post/requestBody": {""},
    "//v1/{vhost}/requests/post/responses/200": {""},
    # Components, and which of their members may be any JSON: "[]" are items of a list, "*" the
    # members of an object that have no names.
    "AmqpValue": {"[]"},
    "Argument": {"[][]"},
    "JsonObject": {"*"},
    "ProblemDocument": {"*"},
    "MessageBody": {"json"},
    "ShownBody": {"json"},
    "NewMessage": {"redelivered", "delivery_count"},
    "TypedValue": {"value", "descriptor", "descriptors[]"},
    "CloudEvent": {"*"},
    "OperationResult": {"body"},
    "RabbitError": {"reason"},
    "RabbitMessage": {"properties[]"},
    # Arguments and definitions as RabbitMQ has them.
    "ExchangePart": {"arguments*"},
    "QueuePart": {"arguments*"},
    "BindingPart": {"arguments*"},
    "PolicyPart": {"definition*"},
    "Definitions": {"parameters[]*", "global_parameters[]*"},
    "ImportedTopology": {"definitions*"},
    "QueueDetail": {"effective_policy_definition*"},
    # Columns that are lists of structures.
    "JournalEntry": {"hops[]*", "lossy[]*"},
}
"""Members for which any JSON is right. Everything else has a schema of its own."""


@pytest.fixture(scope="module")
def told(rig_class: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(rig_class().app.api.openapi()))
    return found


async def test_the_description_is_for_everybody(rig: Any, told: dict[str, Any]) -> None:
    async with rig.http(None) as http:
        for _ in range(2):
            answer = await http.get("/openapi.json")
            assert answer.status_code == 200 and answer.json() == told


def outermost(part: Any, place: str) -> Iterator[Place]:
    """The schemas of a part that is none."""
    if isinstance(part, list):
        for index, one in enumerate(part):
            yield from outermost(one, f"{place}/{index}")
    elif isinstance(part, dict):
        for name, value in part.items():
            if name == "schema":
                yield f"{place}/{name}", value
            elif name not in ("example", "examples"):
                yield from outermost(value, f"{place}/{name}")


def within(schema: Any, place: str) -> Iterator[Place]:
    """A schema and all those in it."""
    yield place, schema
    if not isinstance(schema, dict):
        return
    for name, one in schema.get("properties", {}).items():
        yield from within(one, f"{place}.{name}")
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for one in schema.get(name, ()):
            yield from within(one, place)
    if "items" in schema:
        yield from within(schema["items"], f"{place}[]")
    if schema.get("additionalProperties") not in (None, False):
        yield from within(schema["additionalProperties"], f"{place}*")


def schemas(told: dict[str, Any]) -> Iterator[Place]:
    for name, schema in told["components"]["schemas"].items():
        yield from within(schema, name)
    for place, schema in outermost(resolved(told["paths"], told), ""):
        yield from within(schema, place)


def untyped(places: Iterator[Place]) -> Iterator[str]:
    for place, schema in places:
        if place == "JsonValue":
            continue
        if not isinstance(schema, dict) or not any(name in schema for name in SAYS):
            yield f"{place} says nothing: {schema}"
        elif schema.get("type") == "array" and not schema.keys() & {"items", "prefixItems"}:
            yield f"{place} is a list of anything"
        elif schema.get("type") == "object" and not schema.keys() & {
            "properties",
            "additionalProperties",
        }:
            yield f"{place} is any object"


def test_every_schema_says_something(told: dict[str, Any]) -> None:
    found = list(schemas(told))
    assert len(found) > 1000
    assert not list(untyped(iter(found)))


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"description": "something"},
        {"type": "object"},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "object", "additionalProperties": True},
        {"properties": {"a": {"title": "A"}}, "type": "object"},
    ],
)
def test_an_empty_schema_would_be_found(schema: Any) -> None:
    assert list(untyped(within(schema, "x")))


def test_any_json_stands_where_any_json_is_meant(told: dict[str, Any]) -> None:
    found: dict[str, set[str]] = {}
    for place, schema in schemas(told):
        if isinstance(schema, dict) and schema.get("$ref") == ANY["$ref"]:
            if place.startswith("/"):
                name, member = place.split("/content/")[0], ""
            else:
                cut = min(at for at in map(place.find, ".[*") if at > 0)
                name, member = place[:cut], place[cut:].removeprefix(".")
            found.setdefault(name, set()).add(member)
    assert found == ANY_JSON


@pytest.mark.parametrize(
    ("body", "position"),
    [('{"position": 17.0}', 17), ('{"position": 17}', 17), ('{"position": null}', None)],
)
def test_whole_numbers_are_integers_however_they_are_written(body: str, position: Any) -> None:
    """As JSON Schema 2020-12 has them (4.2.3)."""
    assert JournalConsumerInput.model_validate_json(body).position == position
    with pytest.raises(ValidationError):
        JournalConsumerInput.model_validate_json('{"position": 17.5}')


# --- names ----------------------------------------------------------------------------------------


def test_names_of_operations_stay(told: dict[str, Any]) -> None:
    """They are names in other people's programs: one that is gone or changed breaks them. A new
    operation adds its line."""
    found = sorted(f"{one.told['operationId']} {one}" for one in operations(told))
    assert found == NAMES.read_text().splitlines()


def test_names_of_operations_are_good_names(told: dict[str, Any]) -> None:
    names = [one.told["operationId"] for one in operations(told)]
    assert len(set(names)) == len(names)
    for name in names:
        assert name.isalnum() and name.isascii() and name[0].islower(), name
    lowered = [name.lower() for name in names]
    assert len(set(lowered)) == len(names), "some files do not know upper case"


def test_tags_have_descriptions(told: dict[str, Any]) -> None:
    known = [one["name"] for one in told["tags"] if one["description"]]
    used = {tag for one in operations(told) for tag in one.told["tags"]}
    assert used == set(known) and len(used) == len(known)


def test_servers_are_named(told: dict[str, Any]) -> None:
    assert [one["url"] for one in told["servers"]] == ["/"]


# --- examples -------------------------------------------------------------------------------------

MAIN = {
    # operation: the media types of its request and of its answer, by status
    "publishMessage": (
        "application/vnd.amqp-gateway.message+json",
        {"201": "application/vnd.amqp-gateway.receipt+json"},
    ),
    "publishToExchange": (
        "application/vnd.amqp-gateway.batch+json",
        {
            "201": "application/vnd.amqp-gateway.results+json",
            "207": "application/vnd.amqp-gateway.results+json",
        },
    ),
    "receiveMessages": ("application/json", {"200": "application/json"}),
    "settleDeliveries": ("application/json", {"200": "application/json"}),
    "acceptDelivery": (None, {"200": "application/json"}),
    "streamEvents": (None, {"200": "text/event-stream"}),
    "declareQueue": ("application/json", {"200": "application/json", "201": "application/json"}),
    "listQueues": (None, {"200": "application/json"}),
}


def by_name(told: dict[str, Any]) -> dict[str, Operation]:
    return {one.told["operationId"]: one for one in operations(told)}


@pytest.mark.parametrize("name", MAIN)
def test_the_main_operations_have_examples(told: dict[str, Any], name: str) -> None:
    """``test_descriptions_examples`` holds each against its schema, and sends those of requests."""
    operation, (asked, answered) = by_name(told)[name], MAIN[name]
    if asked is not None:
        assert examples(operation.bodies[asked])
    for status, media in answered.items():
        shown = examples(operation.told["responses"][status]["content"][media])
        assert shown and all(shown), (name, status)


def test_an_event_is_as_its_model_has_it(told: dict[str, Any]) -> None:
    stream = by_name(told)["streamEvents"].told["responses"]["200"]["content"]
    (example,) = examples(stream["text/event-stream"])
    data = json.loads(example["data"])
    model = {"$ref": "#/components/schemas/EventMessage"}
    assert not Schemas(told).errors(model, data)
    assert Schemas(told).errors(model, {"source": 17, "body": {}})
