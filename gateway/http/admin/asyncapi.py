"""``/asyncapi.json``: AsyncAPI 3 description of the channels that the caller may use.

One channel per queue and exchange, the same over AMQP and over HTTP, and one per direction of a
declared route; one operation per direction that the caller's permissions allow. Where queues and
exchanges cannot be named, they do not appear.
"""

from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from gateway import __version__
from gateway.broker.counters import ExchangeSnapshot, QueueSnapshot
from gateway.config.web import DeclaredRoute
from gateway.http.access.principal import Action
from gateway.http.access.security_schemes import security_schemes
from gateway.http.admin import asyncapi_routes
from gateway.http.admin.admin_endpoints import Call, Endpoint, Rank
from gateway.http.admin.asyncapi_routes import safe
from gateway.http.admin.topology import readable
from gateway.http.description import BINARY, REFERENCE
from gateway.http.events.control_events import CONTROL_EVENTS
from gateway.http.message_models import EventMessage
from gateway.http.portions import Portioned, encoded, portions
from gateway.http.prepared_content import PreparedContent
from gateway.http.schemas import ANY_JSON, JsonObject

WEBSOCKET = "/amqp"
MESSAGE = {"$ref": "#/components/messages/message"}
KINDS = {"direct", "fanout", "topic", "headers"}
LARGEST_KEPT = 1024 * 1024
PRIVATE = {"cache-control": "private, no-cache"}
"""Other callers may use other channels."""

Node = QueueSnapshot | ExchangeSnapshot


def channel_id(kind: str, vhost: str, name: str) -> str:
    return f"{kind}.{safe(f'{vhost}/{name}')}"


def path_of(kind: str, vhost: str, name: str) -> str:
    return f"/v1/{quote(vhost, '')}/{kind}s/{quote(name, '')}"


def node_channel(kind: str, one: Node) -> dict[str, Any]:
    own = {"exclusive": one.exclusive} if isinstance(one, QueueSnapshot) else {"type": one.type}
    return {
        "address": one.name,
        "description": f"{kind.capitalize()} '{one.name}' in virtual host '{one.vhost}'.",
        "messages": {"message": MESSAGE},
        "bindings": {
            "amqp": {
                "is": "queue" if kind == "queue" else "routingKey",
                kind: {
                    "name": one.name,
                    **own,
                    "durable": one.durable,
                    "autoDelete": one.auto_delete,
                    "vhost": one.vhost,
                },
                "bindingVersion": "0.3.0",
            }
        },
    }


HTTP_GET = {"http": {"method": "GET", "bindingVersion": "0.3.0"}}

Entry = tuple[str, str, dict[str, Any]]
"""An entry: its part ("channels", "operations"), its key and its value."""


class Document:
    """The document of one caller, entry by entry."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.access = call.context.broker.access
        self.streams_shown = False

    def allowed(self, right: str, action: Action, vhost: str, kind: str, name: str) -> bool:
        return self.access.allows(self.call.user, vhost, right, name) and self.call.principal.may(
            action, vhost, kind, name
        )

    def node(self, kind: str, one: Node, parameters: str = "") -> Iterator[Entry]:
        """Entries of a queue or an exchange, whose event stream has further ``parameters``.
        ``receive`` is the application's view: readers of this document send to us."""
        vhost, name = one.vhost, one.name
        key, path = channel_id(kind, vhost, name), path_of(kind, vhost, name)
        source = quote(f"{kind}:{name}", "")
        events = f"/v1/{quote(vhost, '')}/events?source={source}{parameters}"
        channel = node_channel(kind, one)
        ways = (
            ("send", "write", Action.PUBLISH, "POST", f"{path}/messages"),
            ("receive", "read", Action.STREAM, "GET", events),
        )
        for way, right, action, method, address in ways:
            if not self.allowed(right, action, vhost, kind, name):
                continue
            if way == "receive":
                yield from self.streams()
            http = {"http": {"method": method, "bindingVersion": "0.3.0"}}
            yield from self.put(way, key, channel, f"Over HTTP: {method} {address}", http, key)

    def streams(self) -> Iterator[Entry]:
        """The channel of event streams of any sources, once."""
        if not self.streams_shown:
            self.streams_shown = True
            channel = asyncapi_routes.STREAM
            summary = f"GET {channel['address']}"
            yield from self.put("receive", "events", channel, summary, HTTP_GET, "events")

    def route(self, route: DeclaredRoute) -> Iterator[Entry]:
        """Entries of a declared route."""
        key, node = channel_id("route", route.vhost, route.name), route.queue or route.exchange
        ways = (
            (route.publish, "send", "write", Action.PUBLISH, "POST",
             f"{key}.messages", asyncapi_routes.publish_channel),
            (route.stream, "receive", "read", Action.STREAM, "GET",
             f"{key}.events", asyncapi_routes.events_channel),
        )  # fmt: skip
        for declared, way, right, action, method, name, make in ways:
            may = self.call.principal.may(action, route.vhost, "route", route.name)
            if declared and may and self.access.allows(self.call.user, route.vhost, right, node):
                channel = make(route)
                summary = f"{method} {channel['address']}"
                bindings = asyncapi_routes.binding(route, method)
                yield from self.put(way, key, channel, summary, bindings, name)

    def put(
        self, way: str, key: str, channel: dict[str, Any], summary: str, bindings: Any, name: str
    ) -> Iterator[Entry]:
        """A channel of this name and its operations."""
        yield "channels", name, channel
        yield (
            "operations",
            f"{way}.{key}",
            {
                "action": way,
                "channel": {"$ref": f"#/channels/{name}"},
                "summary": summary,
                "messages": [
                    {"$ref": f"#/channels/{name}/messages/{one}"} for one in channel["messages"]
                ],
                "bindings": bindings,
            },
        )


def nodes(document: Document, call: Call) -> Iterator[Entry]:
    """Entries of queues and exchanges, for callers that can name them."""
    broker = call.context.broker
    for queue in broker.each_queue():
        if readable(call, queue.vhost) and not queue.exclusive:
            yield from document.node("queue", queue)
        else:
            yield "", "", {}  # a step of the search
    for exchange in broker.each_exchange():
        if readable(call, exchange.vhost) and exchange.name and exchange.type in KINDS:
            yield from document.node("exchange", exchange, "&binding=KEY")


def entries(call: Call) -> Iterator[Entry]:
    authenticator = call.context.authenticator
    document = Document(call)
    for route in authenticator.catalogue.routes.values():
        yield from document.route(route)
    if authenticator.names_nodes(call.request.scope):
        yield from nodes(document, call)


def section(call: Call, wanted: str) -> Iterator[bytes]:
    """The members of one part of the document, each once. Empty for entries of the other."""
    comma, latest = b"", ""
    for part, name, thing in entries(call):
        if part != wanted or name == latest:
            yield b""
            continue
        latest = name  # a channel is repeated for each of its operations
        yield comma + encoded(name) + b":" + encoded(thing)
        comma = b","


def whole(call: Call) -> Iterator[bytes]:
    yield encoded(frame(call))[:-1]
    for part in ("channels", "operations"):
        yield b',"%b":{' % part.encode()
        yield from section(call, part)
        yield b"}"
    yield b"}"


@cache
def event_schemas() -> dict[str, Any]:
    """The schemas of events, and those that they refer to."""
    models: tuple[type[BaseModel], ...] = (EventMessage, JsonObject, *CONTROL_EVENTS)
    _, told = models_json_schema([(one, "validation") for one in models], ref_template=REFERENCE)
    return {**told["$defs"], "JsonValue": ANY_JSON}


async def show_asyncapi(call: Call) -> Response:
    """Up to ``LARGEST_KEPT`` octets it has a validator and is compressed; a larger one is sent
    while it is made."""
    parts = whole(call)
    made: list[bytes] = []
    octets = 0
    async for portion in portions(parts):
        made.append(portion)
        octets += len(portion)
        if octets > LARGEST_KEPT:
            return Portioned(chain(made, parts), {"cache-control": "no-store"})
    content = PreparedContent(b"".join(made), "application/json", PRIVATE)
    return await content.answer(call.request)


def frame(call: Call) -> dict[str, Any]:
    """The document without channels and operations."""
    authenticator = call.context.authenticator
    host = call.request.headers.get("host", "localhost")
    schemes = security_schemes(authenticator)
    for scheme in schemes.values():
        if scheme["type"] == "apiKey":  # which has another meaning in AsyncAPI
            scheme["type"] = "httpApiKey"
    security = [{"$ref": f"#/components/securitySchemes/{name}"} for name in schemes]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "AMQP gateway",
            "version": __version__,
            "description": "The channels that this caller may use, over AMQP and HTTP.",
        },
        "defaultContentType": "application/octet-stream",
        "servers": {
            "http": {
                "host": host,
                "protocol": call.request.url.scheme,
                "security": security,
            },
            "amqp": {
                "host": host.rsplit(":", 1)[0] if not host.endswith("]") else host,
                "protocol": "amqp",
                "protocolVersion": "0.9.1",
                "security": [{"$ref": "#/components/securitySchemes/plain"}],
            },
            "websocket": {
                "host": host,
                "protocol": "wss" if call.request.url.scheme == "https" else "ws",
                "pathname": WEBSOCKET,
                "description": "AMQP of any version over WebSocket, subprotocol `amqp`. The first "
                "octets say which version, as over TCP.",
                "security": [{"$ref": "#/components/securitySchemes/plain"}],
            },
        },
        "components": {
            "messages": {
                "event": asyncapi_routes.EVENT,
                **asyncapi_routes.control_messages(),
                "message": {
                    "name": "message",
                    "title": "Any message",
                    "summary": "The body as the publisher sent it.",
                    "headers": {
                        "type": "object",
                        "properties": {
                            "traceparent": {"type": "string"},
                            "tracestate": {"type": "string"},
                        },
                    },
                    "payload": BINARY,
                },
            },
            "schemas": event_schemas(),
            "securitySchemes": schemes | {"plain": {"type": "plain"}},
        },
    }


ENDPOINTS = [
    Endpoint("GET", "/asyncapi.json", show_asyncapi, "AsyncAPI 3 description for the caller",
             Rank.USER, gives=JsonObject, tag="descriptions", action=Action.PRESENCE),
]  # fmt: skip
