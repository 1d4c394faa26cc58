"""``/openapi.json``: each room describes its own routes, and ``complete`` puts them together.

A room makes its routes as ``Described``, which is a Starlette route with an OpenAPI operation per
method and the pydantic models that those refer to as ``#/components/schemas/NAME``. Errors are
the same everywhere: ``row_responses`` describes those of a route.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute, Route

from gateway.http.access.security_schemes import Schemes, requirements
from gateway.http.problems import ALL_ROWS, BY_STATUS, PREFIX, Row
from gateway.http.schemas import ANY_JSON, JsonObject, ProblemDocument, Receipt
from gateway.http.shared_parts import share_parts

REFERENCE = "#/components/schemas/{model}"
JSON_VALUE = {"$ref": REFERENCE.format(model="JsonValue")}
BINARY = {"type": "string", "format": "binary"}
"""Octets, in OpenAPI's word that generators of clients know."""
SERVERS = [{"url": "/", "description": "The gateway that serves this description"}]

PROBLEM_REF = {"$ref": "#/components/schemas/ProblemDocument"}

PROBLEM_TITLES = {
    400: "A name, parameter or metadata field is malformed",
    401: "Credentials are missing or wrong",
    403: "The user lacks the permission",
    404: "No such virtual host, queue or exchange",
    409: "No queue takes the message (`unroutable`), or the queue is another connection's",
    413: "The body exceeds the limit; refused before it is read",
    422: "The broker refused the message",
    429: "The queue is full, or a quota is exhausted; see `Retry-After`",
    500: "Internal error; only the log has details",
    503: "Publishers are paused (`backpressure`); see `Retry-After`",
    504: "No confirmation in time: `outcome` is `unknown`",
}

FIELDS = (
    (
        "Amqp-Durable",
        "?1",
        "default `?1`: durable queues keep the message over a restart; `?0`: in memory only",
    ),
    ("Amqp-Priority", "4", "0 to 255"),
    ("Amqp-Ttl", "60000", "milliseconds until the message expires"),
    ("Amqp-Message-Id", '"0192f3c1-7a10-7c2e-9b1d-3f2a5c6d7e8f";t=uuid', "t: uuid, ulong, binary"),
    ("Amqp-Correlation-Id", '"order-17"', "as Amqp-Message-Id"),
    ("Amqp-User-Id", ":Z3Vlc3Q=:", "octets, or a string; checked by the broker"),
    ("Amqp-To", '"orders"', ""),
    ("Amqp-Subject", '"created"', ""),
    ("Amqp-Reply-To", '"answers"', ""),
    ("Amqp-Absolute-Expiry-Time", "4102444800000", "ms since 1970"),
    ("Amqp-Creation-Time", "1790000000123", "ms since 1970"),
    ("Amqp-Group-Id", '"a"', ""),
    ("Amqp-Group-Sequence", "1", ""),
    ("Amqp-Reply-To-Group-Id", '"a"', ""),
    ("Amqp-Type", '"OrderCreated"', ""),
    ("Amqp-App-Id", '"shop"', ""),
    ("Amqp-Cluster-Id", '"c"', "0-8 and 0-9"),
    ("Amqp-Content-Encoding", '"utf-8"', "for encodings that are not HTTP codings"),
    (
        "Amqp-Property",
        '"orderId";v="A-17", "attempt";v=3;t=ubyte',
        "application properties, repeatable; t: boolean byte ubyte short ushort int uint long "
        "ulong float double string symbol char uuid binary timestamp null",
    ),
)

TAGS = {
    "messages": "Publish, one or many, once with an idempotency key",
    "receiving": "Receive with a lease, settle, browse, dead letters, requests with a reply",
    "events": "Streams of server-sent events",
    "topology": "Queues and connections, for everybody who may see them",
    "administration": "Virtual hosts, queues, exchanges, bindings, users, and the bridge to others",
    "journal": "What was accepted, to be read again",
    "access": "Sessions and tickets for browsers",
    "descriptions": "AsyncAPI, problems, abilities of upstreams",
    "operation": "Probes and metrics",
    "RabbitMQ": "The paths of RabbitMQ's management that common tools use",
}
"""In the order of pages that are made of the description."""


def problem_response(status: int) -> dict[str, Any]:
    row = next(row for row in (*ALL_ROWS, *BY_STATUS.values()) if row.status == status)
    return one_problem(row, PROBLEM_TITLES.get(status, row.title))


def one_problem(row: Row, text: str) -> dict[str, Any]:
    example = {
        "type": PREFIX + row.kind,
        "title": row.title,
        "status": row.status,
        "detail": text,
        "outcome": row.outcome,
        "safe_to_retry": row.safe_to_retry,
    }
    return {
        "description": text,
        "content": {"application/problem+json": {"schema": PROBLEM_REF, "example": example}},
    }


def in_path(name: str, text: str, example: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": text,
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "example": example,
    }


def in_query(name: str, text: str, example: Any, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": text,
        "schema": schema or {"type": "string"},
        "example": example,
    }


def in_header(name: str, example: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "description": text,
        "schema": {"type": "string"},
        "example": example,
    }


def with_default(text: str, default: Any) -> str:
    """A description that says what is meant by absence. As a member of a schema it would be more:
    openapi-python-client sends it, and to openapi-typescript the member is a required one."""
    if default in (None, "", [], {}) or "default" in text:
        return text
    shown = f"default: `{json.dumps(default)}`"
    return f"{text}; {shown}" if text else shown


def in_queries(model: type[BaseModel]) -> list[dict[str, Any]]:
    """The members of a model as parameters of a query."""
    made = []
    for name, member in model.model_json_schema()["properties"].items():
        schema = {**member.get("anyOf", [member])[0]}
        for key in ("title", "description", "examples", "default"):
            schema.pop(key, None)
        text = with_default(member.get("description", "As in the body"), member.get("default"))
        example = member.get("examples", [member.get("default")])[0]
        one = in_query(name, text, example, **schema)
        made.append(one | LISTED if schema["type"] == "array" else one)
    return made


LISTED = {"explode": True, "style": "form"}
"""A parameter of a query that may be repeated."""
VHOST = in_path("vhost", "Virtual host; `/` is written `%2F`", "/")


class Described(Route):
    """A route with its OpenAPI description: an operation object per method, in lower case.

    ``models`` are the shapes that the operations refer to (``reference(Model)``); ``None`` for
    ``operations`` keeps a route out of the description.
    """

    def __init__(
        self,
        path: str,
        endpoint: Any,
        *,
        methods: Sequence[str],
        operations: Mapping[str, dict[str, Any]] | Callable[[], dict[str, dict[str, Any]]] | None,
        models: Iterable[type[BaseModel]] = (),
    ) -> None:
        super().__init__(path, endpoint, methods=list(methods))
        self.given = operations or {}
        self.models = tuple(models)

    @cached_property
    def operations(self) -> dict[str, dict[str, Any]]:
        """Made when the description is asked for, if a function was given."""
        return self.given() if callable(self.given) else dict(self.given)


def reference(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": REFERENCE.format(model=model.__name__)}


def example_of(model: type[BaseModel]) -> dict[str, Any]:
    """An example of a shape: the members that have one."""
    fields = model.model_fields.items()
    return {field.alias or name: field.examples[0] for name, field in fields if field.examples}


def json_content(
    schema: dict[str, Any], example: Any = None, media: str = "application/json"
) -> Any:
    """The ``content`` of a body."""
    shown: dict[str, Any] = {"schema": schema}
    if example is not None:
        shown["example"] = example
    return {media: shown}


def model_content(model: type[BaseModel], media: str = "application/json") -> Any:
    """As ``json_content``, with the examples of the members of the model."""
    return json_content(reference(model), example_of(model), media)


def row_responses(*rows: Row) -> dict[str, Any]:
    """Responses for these problems; several of one status become one response."""
    found: dict[str, Any] = {}
    for row in rows:
        known = found.get(str(row.status))
        if known is None:
            found[str(row.status)] = one_problem(row, row.title)
        elif row.title not in known["description"]:
            known["description"] += f"; {row.title}"
    return found


def complete(
    schema: dict[str, Any], routes: Iterable[BaseRoute], schemes: Schemes
) -> dict[str, Any]:
    """Add the routes that FastAPI does not know, credentials, and the problem document."""
    paths: dict[str, Any] = schema.setdefault("paths", {})
    models: set[type[BaseModel]] = {ProblemDocument, Receipt, JsonObject}
    for route in routes:
        if isinstance(route, Described):
            models.update(route.models)
            if route.operations:
                paths.setdefault(route.path, {}).update(route.operations)
    schema["servers"] = SERVERS
    schema["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    components = schema.setdefault("components", {})
    components["securitySchemes"] = schemes
    schema["security"] = requirements(schemes, "", "")
    shapes = components.setdefault("schemas", {})
    ordered = sorted(models, key=lambda model: model.__name__)
    _, told = models_json_schema(
        [(model, "validation") for model in ordered], ref_template=REFERENCE
    )
    shapes.update(told.get("$defs", {}))
    for unused in ("HTTPValidationError", "ValidationError"):
        shapes.pop(unused, None)
    for path, operations in paths.items():
        for method, operation in operations.items():
            finish(method, path, operation, schemes)
    # Pydantic has no word for "any JSON" but the empty schema.
    name_any_json(paths)
    components["schemas"] = {name: named(one) for name, one in shapes.items()}
    components["schemas"]["JsonValue"] = ANY_JSON
    share_parts(schema)
    return schema


ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated"})
INNER = ("items", "additionalProperties")
NAMED_INNER = ("properties", "$defs")
LISTED_INNER = ("anyOf", "oneOf", "allOf", "prefixItems")


def name_any_json(part: Any) -> None:
    """Make each schema that says nothing a reference to ``JsonValue``, wherever it stands in a part
    of the description."""
    if isinstance(part, list):
        for one in part:
            name_any_json(one)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name == "schema":
                part[name] = named(value)
            elif name not in ("example", "examples"):
                name_any_json(value)


def named(schema: Any) -> Any:
    """A schema, or a reference to any JSON if it says nothing, with its description."""
    if schema is True:
        return JSON_VALUE
    if not isinstance(schema, dict):
        return schema
    if not schema.keys() - ANNOTATIONS:
        return {name: text for name, text in schema.items() if name != "title"} | JSON_VALUE
    for name in INNER:
        if name in schema:
            schema[name] = named(schema[name])
    for name in NAMED_INNER:
        if name in schema:
            schema[name] = {key: member(named(one)) for key, one in schema[name].items()}
    for name in LISTED_INNER:
        if name in schema:
            schema[name] = [named(one) for one in schema[name]]
    return schema


def member(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a member, with its default in words."""
    if "default" not in schema:
        return schema
    told = {name: value for name, value in schema.items() if name != "default"}
    text = with_default(told.get("description", ""), schema["default"])
    return told | ({"description": text} if text else {})


def camel_case(name: str) -> str:
    """A name as generators of clients want it: ``publish_message`` is ``publishMessage``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


OPEN = ("/livez", "/readyz", "/startupz", "/.well-known/")
"""Prefixes of paths that need no credentials."""


def finish(method: str, path: str, operation: dict[str, Any], schemes: Schemes) -> None:
    """Add the parts that all operations share: problems, security, examples."""
    operation["operationId"] = camel_case(operation["operationId"])
    responses = operation["responses"]
    # FastAPI documents its own validation error shape; ours replaces it.
    if "HTTPValidationError" in str(responses.get("422", "")):
        responses["422"] = problem_response(422)
    if "parameters" in operation:
        operation["parameters"] = [shown(one) for one in operation["parameters"]]
    if path.startswith(OPEN):
        operation["security"] = []
    elif path.startswith("/metrics"):
        operation["security"] = [{}, *requirements(schemes, method, path)]
    elif (ways := requirements(schemes, method, path)) != requirements(schemes, "", ""):
        operation["security"] = ways
    always = {431, 500}
    if operation.get("security") != []:
        always |= {401, 403, 429}
    if operation.get("parameters") or "requestBody" in operation:
        always.add(400)
    if "requestBody" in operation:
        always |= {404, 408, 413}
    if "{" in path or path.startswith("/.well-known/"):
        always.add(404)
    for status in sorted(always):
        responses.setdefault(str(status), problem_response(status))
    for response in responses.values():
        events = response.get("content", {}).get("text/event-stream")
        if events is not None:
            # The schema is of one parsed event; its data differ by kind.
            events["schema"] = EVENT


def shown(parameter: dict[str, Any]) -> dict[str, Any]:
    """As ours are, if FastAPI described it: with an example."""
    if "example" in parameter:
        return parameter
    if (parameter["in"], parameter["name"]) == ("path", "vhost"):
        return VHOST
    examples = parameter["schema"].get("examples")
    return parameter | {"example": examples[0] if examples else parameter["schema"]["default"]}


EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "description": "absent for messages, unless it is asked for"},
        "data": {
            "type": "string",
            "description": "JSON: of a message as `EventMessage`, in the format `json`",
        },
        "id": {"type": "string", "description": "cursor for `Last-Event-ID`"},
        "retry": {"type": "integer", "description": "milliseconds"},
    },
}
