"""A RabbitMQ whose plugins talk to another server: its HTTP API, in what those tests need of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import pika

from tests.interop.servers import Server

PLUGINS = (
    "rabbitmq_management",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
    "rabbitmq_federation",
    "rabbitmq_federation_management",
)
PATIENCE = 60.0
Json = dict[str, Any]
T = TypeVar("T")


class Api:
    """RabbitMQ's HTTP API, as guest in the virtual host `/`."""

    def __init__(self, server: Server) -> None:
        self._client = httpx.Client(
            base_url=f"http://{server.host}:{server.http_port}/api/", auth=("guest", "guest")
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str) -> Any:
        answer = self._client.get(path)
        answer.raise_for_status()
        return answer.json()

    def set_parameter(self, component: str, name: str, value: Json) -> None:
        path = f"parameters/{component}/%2f/{quote(name, safe='')}"
        self._client.put(path, json={"value": value}).raise_for_status()

    def delete_parameter(self, component: str, name: str) -> None:
        path = f"parameters/{component}/%2f/{quote(name, safe='')}"
        self._client.delete(path).raise_for_status()

    def set_policy(self, name: str, value: Json) -> None:
        self._client.put(f"policies/%2f/{name}", json=value).raise_for_status()

    def delete_policy(self, name: str) -> None:
        self._client.delete(f"policies/%2f/{name}").raise_for_status()


def until(look: Callable[[], T], what: Callable[[], str]) -> T:
    """The first true answer."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(what())
        time.sleep(0.1)
    return found


def connect(server: Server) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port))


def amqp_url(server: Server, query: str = "") -> str:
    return f"amqp://guest:guest@{server.host}:{server.port}{query}"


def publish(
    server: Server,
    bodies: list[str],
    *,
    exchange: str = "",
    key: str,
    properties: pika.BasicProperties | None = None,
) -> None:
    """Confirmed, durable, and routed, or an exception."""
    with connect(server) as wire:
        channel = wire.channel()
        channel.confirm_delivery()
        for body in bodies:
            wanted = properties or pika.BasicProperties(delivery_mode=2)
            channel.basic_publish(exchange, key, body.encode(), wanted, mandatory=True)


def take(
    server: Server, queue: str, count: int
) -> list[tuple[pika.spec.Basic.Deliver, pika.BasicProperties, bytes]]:
    """`count` messages of a queue, acknowledged, or fewer if they do not come."""
    found = []
    with connect(server) as wire:
        channel = wire.channel()
        channel.basic_qos(prefetch_count=count)
        for method, properties, body in channel.consume(queue, inactivity_timeout=PATIENCE):
            if method is None:
                break
            found.append((method, properties, body))
            channel.basic_ack(method.delivery_tag)
            if len(found) == count:
                break
        channel.cancel()
    return found
