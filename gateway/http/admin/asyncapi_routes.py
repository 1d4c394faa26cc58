"""Declared routes in ``/asyncapi.json``: two channels each, one to publish to and one to read from.

Their address is the HTTP path. The target of a route is not disclosed.
"""

import re
from typing import Any
from urllib.parse import quote

from gateway.config.web import DeclaredRoute
from gateway.http.access.catalogue import PARAMETER

DRAFT = re.compile(r"draft[-/]([0-9]{2,4}(?:-[0-9]{2})?)")
HTTP = [{"$ref": "#/servers/http"}]


def safe(name: str) -> str:
    """A stable and unique key of the allowed characters."""
    return re.sub(r"[^A-Za-z0-9.-]", lambda found: f"_{ord(found.group()):x}_", name)


def path_of(route: DeclaredRoute) -> str:
    return f"/v1/{quote(route.vhost, '')}/routes/{quote(route.name, '')}"


def publish_channel(route: DeclaredRoute) -> dict[str, Any]:
    """The channel to publish to, with one message for each accepted content type."""
    return {
        "address": f"{path_of(route)}/messages",
        "title": f"Publish by {route.name}",
        "description": f"Bodies of at most {route.max_body_octets} octets.",
        "servers": HTTP,
        "messages": {safe(kind): publish_message(route, kind) for kind in route.content_types},
    }


def publish_message(route: DeclaredRoute, kind: str) -> dict[str, Any]:
    key: dict[str, Any] = {"type": "string", "description": "makes retries safe"}
    headers: dict[str, Any] = {"type": "object", "properties": {"Idempotency-Key": key}}
    if route.idempotency == "required":
        headers["required"] = ["Idempotency-Key"]
    payload: Any = {}
    if route.schema_document is not None:
        payload = {"schemaFormat": schema_format(route.schema_document), "schema": anchored(route)}
    return {"name": route.name, "contentType": kind, "headers": headers, "payload": payload}


def schema_format(schema: dict[str, Any]) -> str:
    found = DRAFT.search(str(schema.get("$schema", "")))
    return f"application/schema+json;version=draft-{found[1] if found else '2020-12'}"


def anchored(route: DeclaredRoute) -> dict[str, Any]:
    """The schema with an id, so that its references resolve within itself and not in the enclosing
    document."""
    name = f"urn:amqp-gateway:route:{quote(route.vhost, '')}:{quote(route.name, '')}"
    return {"$id": name, **(route.schema_document or {})}


def events_channel(route: DeclaredRoute) -> dict[str, Any]:
    return {
        "address": f"{path_of(route)}/events",
        "title": f"Events of {route.name}",
        "servers": HTTP,
        "messages": {"event": {"$ref": "#/components/messages/event"}},
    }


def binding(route: DeclaredRoute, method: str) -> dict[str, Any]:
    """The HTTP binding, with the parameters of the route in the query."""
    made: dict[str, Any] = {"method": method, "bindingVersion": "0.3.0"}
    names = sorted(set(PARAMETER.findall(route.key)))
    if names:
        word = {"type": "string", "pattern": "^[^.*#]+$", "description": "one word"}
        made["query"] = {
            "type": "object",
            "required": names,
            "properties": {name: word for name in names},
        }
    return {"http": made}


EVENT: dict[str, Any] = {
    "name": "event",
    "title": "A server-sent event",
    "summary": "The `data:` line of an event, unless another `format` is asked for.",
    "contentType": "application/json",
    "payload": {
        "type": "object",
        "required": ["source", "body"],
        "properties": {
            "source": {"type": "string"},
            **{
                name: {"type": "string"}
                for name in (
                    *("subject", "to", "reply_to", "content_type", "type"),
                    *("content_encoding", "app_id", "time", "expires_at", "exchange"),
                    *("routing_key", "traceparent", "tracestate"),
                )
            },
            "id": {"description": "a string, or typed: `$type` and `value`"},
            "correlation_id": {"description": "as `id`"},
            "durable": {"type": "boolean"},
            "redelivered": {"type": "boolean"},
            "priority": {"type": "integer"},
            "ttl_ms": {"type": "integer"},
            "group": {"type": "object"},
            "properties": {"type": "object"},
            "body": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "properties": {
                    "json": {"description": "the body, if it is JSON and says so"},
                    "text": {"type": "string"},
                    "base64": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
    },
}
