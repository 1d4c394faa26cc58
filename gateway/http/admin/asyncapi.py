"""``/asyncapi.json``: AsyncAPI 3 of what this caller may publish to and read from.

One channel per queue, exchange and declared route, one operation per direction that the caller's
permissions allow; the same names over AMQP and over HTTP.
"""

import re
from typing import Any
from urllib.parse import quote

from gateway import __version__
from gateway.broker.counters import ExchangeSnapshot, QueueSnapshot
from gateway.http.access.principal import Action
from gateway.http.admin.desk import Call, Endpoint, Rank
from gateway.http.admin.topology import readable

MESSAGE = {"$ref": "#/components/messages/message"}
KINDS = {"direct", "fanout", "topic", "headers"}


def channel_id(kind: str, vhost: str, name: str) -> str:
    """A key of the allowed letters that is the same tomorrow; what it stands for is in it."""
    shown = re.sub(r"[^A-Za-z0-9._-]", lambda m: f"_{ord(m.group()):x}_", f"{vhost}/{name}")
    return f"{kind}.{shown}"


def path_of(kind: str, vhost: str, name: str) -> str:
    return f"/v1/{quote(vhost, '')}/{kind}s/{quote(name, '')}"


def queue_channel(one: QueueSnapshot) -> dict[str, Any]:
    return {
        "address": one.name,
        "description": f"Queue '{one.name}' in virtual host '{one.vhost}'.",
        "messages": {"message": MESSAGE},
        "bindings": {
            "amqp": {
                "is": "queue",
                "queue": {
                    "name": one.name,
                    "durable": one.durable,
                    "exclusive": one.exclusive,
                    "autoDelete": one.auto_delete,
                    "vhost": one.vhost,
                },
                "bindingVersion": "0.3.0",
            }
        },
    }


def exchange_channel(one: ExchangeSnapshot) -> dict[str, Any]:
    return {
        "address": one.name,
        "description": f"Exchange '{one.name}' in virtual host '{one.vhost}'.",
        "messages": {"message": MESSAGE},
        "bindings": {
            "amqp": {
                "is": "routingKey",
                "exchange": {
                    "name": one.name,
                    "type": one.type,
                    "durable": one.durable,
                    "autoDelete": one.auto_delete,
                    "vhost": one.vhost,
                },
                "bindingVersion": "0.3.0",
            }
        },
    }


class Document:
    """Grows channel by channel."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.access = call.context.broker.access
        self.channels: dict[str, Any] = {}
        self.operations: dict[str, Any] = {}

    def allowed(self, right: str, action: Action, vhost: str, kind: str, name: str) -> bool:
        return self.access.allows(self.call.user, vhost, right, name) and self.call.principal.may(
            action, vhost, kind, name
        )

    def add(self, kind: str, vhost: str, name: str, channel: dict[str, Any], events: str) -> None:
        """``receive`` is the application's view: who reads this document sends to us."""
        key = channel_id(kind, vhost, name)
        path = path_of(kind, vhost, name)
        ways = (
            ("send", "write", Action.PUBLISH, "POST", f"{path}/messages"),
            ("receive", "read", Action.STREAM, "GET", events),
        )
        for way, right, action, method, address in ways:
            if not self.allowed(right, action, vhost, kind, name):
                continue
            self.channels[key] = channel
            self.operations[f"{way}.{key}"] = {
                "action": way,
                "channel": {"$ref": f"#/channels/{key}"},
                "summary": f"Over HTTP: {method} {address}",
                "messages": [{"$ref": f"#/channels/{key}/messages/message"}],
                "bindings": {"http": {"method": method, "bindingVersion": "0.3.0"}},
            }


async def show_asyncapi(call: Call) -> dict[str, Any]:
    broker = call.context.broker
    document = Document(call)
    for queue in broker.queues_snapshot():
        if readable(call, queue.vhost) and not queue.exclusive:
            source = quote(f"queue:{queue.name}", "")
            events = f"/v1/{quote(queue.vhost, '')}/events?source={source}"
            document.add("queue", queue.vhost, queue.name, queue_channel(queue), events)
    for exchange in broker.exchanges_snapshot():
        if readable(call, exchange.vhost) and exchange.name and exchange.type in KINDS:
            source = quote(f"exchange:{exchange.name}", "")
            events = f"/v1/{quote(exchange.vhost, '')}/events?source={source}&binding=KEY"
            document.add(
                "exchange", exchange.vhost, exchange.name, exchange_channel(exchange), events
            )
    host = call.request.headers.get("host", "localhost")
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "AMQP gateway",
            "version": __version__,
            "description": "What this caller may publish to and read from, over AMQP and HTTP.",
        },
        "defaultContentType": "application/octet-stream",
        "servers": {
            "http": {
                "host": host,
                "protocol": call.request.url.scheme,
                "security": [{"$ref": "#/components/securitySchemes/basic"}],
            },
            "amqp": {
                "host": host.rsplit(":", 1)[0] if not host.endswith("]") else host,
                "protocol": "amqp",
                "protocolVersion": "0.9.1",
                "security": [{"$ref": "#/components/securitySchemes/plain"}],
            },
        },
        "channels": document.channels,
        "operations": document.operations,
        "components": {
            "messages": {
                "message": {
                    "name": "message",
                    "title": "Any message",
                    "summary": "The body is whatever the publisher sent.",
                    "headers": {
                        "type": "object",
                        "properties": {
                            "traceparent": {"type": "string"},
                            "tracestate": {"type": "string"},
                        },
                    },
                    "payload": {},
                }
            },
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "plain": {"type": "plain"},
            },
        },
    }


ENDPOINTS = [
    Endpoint("GET", "/asyncapi.json", show_asyncapi, "AsyncAPI 3 of what the caller may use",
             Rank.USER, gives=dict[str, Any], tag="descriptions", action=Action.PRESENCE),
]  # fmt: skip
