"""Builds routes and their descriptions from the table of endpoints."""

from collections.abc import Iterable
from functools import partial
from typing import Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter

from gateway.http import problems
from gateway.http.admin.admin_endpoints import Endpoint, PathEndpoint, Rank, is_model
from gateway.http.admin.rabbit_bodies import RabbitError
from gateway.http.admin.views import ArgumentMap
from gateway.http.context import Context
from gateway.http.description import Described, in_path, json_content, reference, row_responses
from gateway.http.schemas import JsonObject
from gateway.journal.consumers import NAME as CONSUMER_NAME

PATH_WORDS = {
    "vhost": ("Virtual host; `/` is written `%2F`", "/"),
    "queue": ("Queue, percent-encoded", "orders"),
    "exchange": ("Exchange, percent-encoded", "shop"),
    "binding": ("`id` of a binding, from the list", "AAAAAAAAAAAAAAAAAAAAAA"),
    "properties_key": ("`properties_key` of a binding, from the list", "orders"),
    "branch": ("`branch` of a branch, from the list", "0:64652d31:01"),
    "session": ("`id` of a session, from the list", "1"),
    "user": ("User", "carol"),
    "connection": ("`id` of a connection", "1"),
    "connection_name": ("`name` of a connection", "127.0.0.1:50000 -> 127.0.0.1:5672"),
    "channel": ("`name` of a channel", "127.0.0.1:50000 -> 127.0.0.1:5672 (1)"),
    "destination": ("Destination exchange of a binding", "amq.fanout"),
    "shovel": ("Shovel", "in"),
    "observer": ("Observer", "old"),
    "move": ("Move", "week"),
    "facade": ("Virtual host of a facade", "moving"),
    "policy": ("Policy, percent-encoded", "limits"),
    "name": ("Name", "unroutable"),
    "consumer": ("Consumer of the journal", "report"),
}

PATH_PATTERNS = {"consumer": f"^{CONSUMER_NAME.pattern}$"}


def make_routes(context: Context, endpoints: Iterable[Endpoint]) -> list[Described]:
    """One route per path, in the order given."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    return [
        Described(
            path,
            PathEndpoint(context, group),
            methods=[one.method for one in group],
            operations=partial(operations, group),
            models=[model for one in group for model in models_of(one)],
        )
        for path, group in by_path.items()
    ]


def operations(group: list[Endpoint]) -> dict[str, dict[str, Any]]:
    return {one.method.lower(): operation(one) for one in group if not one.hidden}


def operation(endpoint: Endpoint) -> dict[str, Any]:
    """The OpenAPI operation of an endpoint."""
    names = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    needs = "" if endpoint.rank is Rank.ANYBODY else f"Needs {endpoint.rank.value}."
    parameters = [in_path(name, *PATH_WORDS[name]) for name in names]
    for one in parameters:
        if one["name"] in PATH_PATTERNS:
            one["schema"]["pattern"] = PATH_PATTERNS[one["name"]]
    refusals = list(endpoint.refusals)
    if names or endpoint.query is not None or endpoint.takes is not None:
        refusals.append(problems.INVALID)
    if endpoint.query is not None:
        parameters += query_parameters(endpoint.query)
    told: dict[str, Any] = {
        "tags": [endpoint.tag],
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "description": " ".join(part for part in (endpoint.text, needs) if part),
        "parameters": parameters,
    }
    if endpoint.raw:
        shown = json_content({"type": "string"}, endpoint.example, endpoint.raw)
        told["requestBody"] = {"required": True, "content": shown}
        refusals += [problems.TOO_LARGE]
    if endpoint.takes is not None:
        told["requestBody"] = {
            "required": not endpoint.optional,
            "content": json_content(endpoint.schema or shape(endpoint.takes), endpoint.example),
        }
        refusals += [problems.TOO_LARGE, endpoint.wrong_shape]
        if not endpoint.any_type:
            refusals.append(problems.UNSUPPORTED_MEDIA)
    if endpoint.method not in ("GET", "HEAD"):
        refusals.append(problems.UNKNOWN)
    answer: dict[str, Any] = {"description": "Done"}
    if endpoint.gives is not None:
        answer["content"] = json_content(shape(endpoint.gives), endpoint.answer, endpoint.media)
    good = {str(endpoint.status): answer}
    for status, text in endpoint.also.items():
        good[str(status)] = {"description": text} | (
            {"content": answer["content"]} if status != 204 and "content" in answer else {}
        )
    told["responses"] = good | row_responses(*refusals)
    if endpoint.on_error is not None:
        told["responses"] = good | RABBIT_ERRORS
    if endpoint.rank is Rank.ANYBODY:
        told["security"] = []
    return told


RABBIT_ERRORS = {
    status: {
        "description": text,
        "content": json_content(reference(RabbitError)),
    }
    for status, text in (
        ("400", "Refused, as RabbitMQ does: `error` and `reason`"),
        ("401", "Not authenticated or not permitted"),
        ("403", "The credential does not permit the operation"),
        ("404", "Not found"),
        ("413", "Too large"),
        ("503", "Unavailable"),
        ("504", "Timeout"),
    )
}


def shape(kind: Any) -> dict[str, Any]:
    """The schema of a model, a list of them, any object, or another type."""
    if is_model(kind):
        return reference(kind)
    if get_origin(kind) is list:
        return {"type": "array", "items": shape(get_args(kind)[0])}
    if get_origin(kind) is dict:
        return reference(JsonObject)
    return TypeAdapter(kind).json_schema()


def models_of(endpoint: Endpoint) -> list[type[BaseModel]]:
    """Those that the operation of an endpoint refers to."""
    kinds = [endpoint.takes, endpoint.gives]
    kinds += [inner for kind in kinds for inner in get_args(kind)]
    errors = [] if endpoint.on_error is None else [RabbitError]
    return [*(kind for kind in kinds if is_model(kind)), *errors, ArgumentMap]


def query_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    properties = model.model_json_schema()["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "description": schema.pop("description", ""),
            "schema": {key: value for key, value in schema.items() if key != "title"},
            "example": schema["default"],
        }
        for name, schema in properties.items()
    ]
