"""A gateway, and a RabbitMQ whose plugins talk to it: what those tests need of either."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import pika

from gateway.operations import Deliver
from tests import in_memory
from tests.bridge import moving
from tests.interop import servers
from tests.interop.restarts import Restartable
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


DEEP = {"list": [1, "two", True]}


def properties(**headers: Any) -> pika.BasicProperties:
    return pika.BasicProperties(
        content_type="text/plain",
        delivery_mode=2,
        priority=3,
        correlation_id="c-1",
        message_id="m-1",
        type="kind",
        app_id="app",
        timestamp=1700000000,
        headers={"n": 7, "s": "grün", **headers},
    )


@dataclass
class Pair:
    """The gateway under test, and a RabbitMQ with its plugins."""

    restartable: Restartable
    rabbit: Server
    api: Api

    @property
    def gateway(self) -> Server:
        return self.restartable.server

    def shovel(self, name: str, **value: Any) -> None:
        """Start a shovel and wait until it runs."""
        whole = {"reconnect-delay": 1, "ack-mode": "on-confirm", **value}
        self.api.set_parameter("shovel", name, whole)
        until(lambda: self.state(name) == "running", lambda: self.told(name))

    def state(self, name: str) -> str:
        shovels = self.api.get("shovels")
        return next((one["state"] for one in shovels if one["name"] == name), "unknown")

    def told(self, name: str) -> str:
        return f"{name}: {self.api.get('shovels')}\n{self.rabbit.tail()}\n{self.gateway.tail()}"

    def links(self) -> str:
        links = self.api.get("federation-links")
        return f"{links}\n{self.rabbit.tail()}\n{self.gateway.tail()}"


@contextmanager
def plugged(restartable: Restartable, folder: Path) -> Iterator[Pair]:
    """A RabbitMQ with its plugins beside the gateway."""
    rabbit = servers.start_rabbitmq(folder, plugins=PLUGINS)
    try:
        api = Api(rabbit)
        yield Pair(restartable, rabbit, api)
        api.close()
    finally:
        rabbit.stop()


def declare(server: Server, *queues: str) -> None:
    with connect(server) as wire:
        for queue in queues:
            wire.channel().queue_declare(queue, durable=True)


def bodies(found: list[tuple[Any, Any, bytes]]) -> list[str]:
    return [body.decode() for _, _, body in found]


def count(server: Server, queue: str) -> int:
    with connect(server) as wire:
        return int(wire.channel().queue_declare(queue, passive=True).method.message_count)


def until_after(server: Server, queue: str) -> list[str]:
    """What comes until "after" does: what was taken and not acknowledged comes once more."""
    found: list[str] = []
    while "after" not in found:
        one = take(server, queue, 1)
        assert one, f"after {found} nothing came"
        found += bodies(one)
    return found


def told(found: pika.BasicProperties) -> dict[str, Any]:
    return {name: value for name, value in vars(found).items() if value is not None}


ENOUGH, WINDOW = 4000, 50
"""Messages that are under way while the gateway is killed, and the prefetch of who moves them."""


def all_arrive(
    pair: Pair, source: Callable[[], Server], destination: Callable[[], Server], queue: str
) -> None:
    """``ENOUGH`` messages of `moving.publish` lie in the queue of this name at the source: kill the
    gateway while they move, and take them at the destination. Each arrives, some twice."""
    kills = 3
    for turn in range(kills):
        begun = ENOUGH * turn // (kills + 1)
        until(lambda begun=begun: count(destination(), queue) > begun, lambda: pair.told(queue))  # type: ignore[misc]
        pair.restartable.restart()
    all_are_in(moving.taken(destination().port, queue, ENOUGH))
    until(lambda: count(source(), queue) == 0, lambda: pair.told(queue))


def all_are_in(found: list[Deliver]) -> None:
    assert {in_memory.text(one.message) for one in found} == {f"body {n}" for n in range(ENOUGH)}
