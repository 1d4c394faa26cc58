"""Declared routes in ``/asyncapi.json``: two channels each, one to publish to and one to read from.

Their address is the HTTP path. The target of a route is not disclosed.
"""

import re
from typing import Any
from urllib.parse import quote

from gateway.config.web import DeclaredRoute
from gateway.http.access.catalogue import PARAMETER
from gateway.http.description import example_of, reference
from gateway.http.events.control_events import CONTROL_EVENTS

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
    made = {"name": route.name, "contentType": kind, "headers": headers}
    if route.schema_document is not None:
        form = schema_format(route.schema_document)
        made["payload"] = {"schemaFormat": form, "schema": anchored(route)}
    return made


def schema_format(schema: dict[str, Any]) -> str:
    found = DRAFT.search(str(schema.get("$schema", "")))
    return f"application/schema+json;version=draft-{found[1] if found else '2020-12'}"


def anchored(route: DeclaredRoute) -> dict[str, Any]:
    """The schema with an id, so that its references resolve within itself and not in the enclosing
    document."""
    name = f"urn:amqp-gateway:route:{quote(route.vhost, '')}:{quote(route.name, '')}"
    return {"$id": name, **(route.schema_document or {})}


def control_messages() -> dict[str, Any]:
    """A message for each kind of event in which a stream says something of itself."""
    return {
        one.kind: {
            "name": one.kind,
            "title": f"{one.kind} (event: line)",
            "summary": " ".join((one.__doc__ or "").split()),
            "contentType": "application/json",
            "payload": reference(one),
            "examples": [{"payload": example_of(one)}],
        }
        for one in CONTROL_EVENTS
    }


EVENTS = {
    name: {"$ref": f"#/components/messages/{name}"}
    for name in ("event", *(one.kind for one in CONTROL_EVENTS))
}
STREAM: dict[str, Any] = {
    "address": "/v1/{vhost}/events",
    "title": "Event streams",
    "description": "Server-sent events of the sources that the parameter `source` names. Messages "
    "have no `event:` line, unless the parameter `event` asks for one; events of the stream itself "
    "are named `gateway.…`. Comments (`: hb`) are signs of life.",
    "parameters": {"vhost": {"description": "virtual host, percent-encoded: `/` is `%2F`"}},
    "servers": HTTP,
    "messages": EVENTS,
}


def events_channel(route: DeclaredRoute) -> dict[str, Any]:
    return {
        "address": f"{path_of(route)}/events",
        "title": f"Events of {route.name}",
        "servers": HTTP,
        "messages": EVENTS,
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
    "payload": {"$ref": "#/components/schemas/EventMessage"},
}
