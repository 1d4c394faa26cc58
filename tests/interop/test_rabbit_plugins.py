"""RabbitMQ's shovel and federation plugins take from the gateway, and bring to it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.interop import servers
from tests.interop.conftest import TARGET
from tests.interop.restarts import Restartable
from tests.interop.servers import INSTALL, Server

if importlib.util.find_spec("pika") is None:
    pytest.skip(f"the Python package pika is not installed; {INSTALL}", allow_module_level=True)

import pika

from tests.interop import rabbit_plugins
from tests.interop.rabbit_plugins import Api, amqp_url, connect, publish, take, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(200)]

NUMBERS = [str(number) for number in range(100)]
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


@pytest.fixture(scope="module")
def pair(restartable: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    if TARGET != "gateway":
        pytest.skip("these are RabbitMQ's own")
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rabbit-plugins")
    rabbit = servers.start_rabbitmq(folder, plugins=rabbit_plugins.PLUGINS)
    try:
        api = Api(rabbit)
        yield Pair(restartable, rabbit, api)
        api.close()
    finally:
        rabbit.stop()


@pytest.fixture(autouse=True)
def no_shovel_is_left(pair: Pair) -> Iterator[None]:
    yield
    for shovel in pair.api.get("parameters/shovel"):
        pair.api.delete_parameter("shovel", shovel["name"])


def declare(server: Server, *queues: str) -> None:
    with connect(server) as wire:
        for queue in queues:
            wire.channel().queue_declare(queue, durable=True)


def bodies(found: list[tuple[Any, Any, bytes]]) -> list[str]:
    return [body.decode() for _, _, body in found]


def count(server: Server, queue: str) -> int:
    with connect(server) as wire:
        return int(wire.channel().queue_declare(queue, passive=True).method.message_count)


# --- shovels -------------------------------------------------------------------------------------


def source(protocol: str, server: Server, queue: str) -> dict[str, Any]:
    if protocol == "amqp10":
        return {
            "src-protocol": "amqp10",
            "src-uri": amqp_url(server, "?sasl=plain"),
            "src-address": f"/queues/{queue}",
            "src-prefetch-count": 20,
        }
    return {
        "src-protocol": "amqp091",
        "src-uri": amqp_url(server),
        "src-queue": queue,
        "src-prefetch-count": 20,
    }


def destination(protocol: str, server: Server, queue: str) -> dict[str, Any]:
    if protocol == "amqp10":
        return {
            "dest-protocol": "amqp10",
            "dest-uri": amqp_url(server, "?sasl=plain"),
            "dest-address": f"/queues/{queue}",
        }
    return {"dest-protocol": "amqp091", "dest-uri": amqp_url(server), "dest-queue": queue}


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_a_shovel_takes_from_the_gateway(pair: Pair, protocol: str) -> None:
    queue = f"shovel-from-{protocol}"
    declare(pair.gateway, queue)
    declare(pair.rabbit, queue)
    publish(pair.gateway, NUMBERS, key=queue, properties=properties(deep=DEEP))
    pair.shovel(
        queue,
        **source(protocol, pair.gateway, queue),
        **destination("amqp091", pair.rabbit, queue),
    )
    found = take(pair.rabbit, queue, len(NUMBERS))
    assert bodies(found) == NUMBERS, pair.told(queue)
    if protocol == "amqp091":  # from 1.0 this shovel takes bodies only
        assert told(found[0][1]) == told(properties(deep=DEEP))
    until(lambda: count(pair.gateway, queue) == 0, lambda: pair.told(queue))

    # the gateway dies and comes back: the shovel finds it again, and nothing is lost
    pair.restartable.restart()
    publish(pair.gateway, ["after"], key=queue)
    assert set(until_after(pair.rabbit, queue)) <= {*NUMBERS, "after"}, pair.told(queue)


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


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_a_shovel_brings_to_the_gateway(pair: Pair, protocol: str) -> None:
    queue = f"shovel-to-{protocol}"
    declare(pair.gateway, queue)
    declare(pair.rabbit, queue)
    # to 1.0 this shovel cannot carry lists, nor tables
    sent = properties(deep=DEEP) if protocol == "amqp091" else properties()
    publish(pair.rabbit, NUMBERS, key=queue, properties=sent)
    pair.shovel(
        queue,
        **source("amqp091", pair.rabbit, queue),
        **destination(protocol, pair.gateway, queue),
    )
    found = take(pair.gateway, queue, len(NUMBERS))
    assert bodies(found) == NUMBERS, pair.told(queue)
    if protocol == "amqp091":
        assert told(found[0][1]) == told(sent)
    else:
        came = found[0][1]
        assert (came.content_type, came.message_id) == ("text/plain", "m-1")
        assert (came.correlation_id, came.headers["s"]) == ("c-1", "grün")
    until(lambda: count(pair.rabbit, queue) == 0, lambda: pair.told(queue))


def test_a_shovel_of_some_messages_ends_by_itself(pair: Pair) -> None:
    """`queue-length`: what is there when it starts, and then the shovel deletes itself."""
    queue = "shovel-once"
    declare(pair.gateway, queue)
    declare(pair.rabbit, queue)
    publish(pair.gateway, NUMBERS, key=queue)
    value = {**source("amqp091", pair.gateway, queue), "src-delete-after": "queue-length"}
    pair.api.set_parameter("shovel", queue, {**value, **destination("amqp091", pair.rabbit, queue)})
    assert bodies(take(pair.rabbit, queue, len(NUMBERS))) == NUMBERS, pair.told(queue)

    def gone() -> bool:
        return queue not in [one["name"] for one in pair.api.get("parameters/shovel")]

    until(gone, lambda: pair.told(queue))


# --- federation ----------------------------------------------------------------------------------


@pytest.fixture
def upstream(pair: Pair) -> Iterator[str]:
    name = "upstream"
    value = {"uri": amqp_url(pair.gateway), "reconnect-delay": 1, "ack-mode": "on-confirm"}
    pair.api.set_parameter("federation-upstream", name, value)
    yield name
    pair.api.delete_policy("federated")
    pair.api.delete_parameter("federation-upstream", name)


def federate(pair: Pair, upstream: str, pattern: str, kind: str) -> None:
    definition = {"federation-upstream": upstream}
    policy = {"pattern": f"^{pattern}$", "definition": definition, "apply-to": kind}
    pair.api.set_policy("federated", policy)


def running(pair: Pair) -> bool:
    links = pair.api.get("federation-links")
    return bool(links) and all(link["status"] == "running" for link in links)


def test_an_exchange_of_rabbitmq_is_federated_with_one_of_the_gateway(
    pair: Pair, upstream: str
) -> None:
    """Bindings at RabbitMQ become bindings at the gateway, and go with them."""
    exchange, queue = "federated.exchange", "federated-downstream"
    for server in (pair.gateway, pair.rabbit):
        with connect(server) as wire:
            wire.channel().exchange_declare(exchange, "topic", durable=True)
    declare(pair.rabbit, queue)
    with connect(pair.rabbit) as wire:
        wire.channel().queue_bind(queue, exchange, "a.*")
    federate(pair, upstream, "federated\\.exchange", "exchanges")
    until(lambda: running(pair), pair.links)
    publish(pair.gateway, NUMBERS, exchange=exchange, key="a.b", properties=properties(deep=DEEP))
    found = take(pair.rabbit, queue, len(NUMBERS))
    assert bodies(found) == NUMBERS, pair.links()
    method, came, _ = found[0]
    assert (method.exchange, method.routing_key) == (exchange, "a.b")
    (hop,) = came.headers.pop("x-received-from")
    assert told(came) == told(properties(deep=DEEP))
    assert hop["exchange"] == exchange

    # a binding made later is made at the gateway too; one that goes, goes there
    with connect(pair.rabbit) as wire:
        channel = wire.channel()
        channel.queue_bind(queue, exchange, "later.#")
        until(lambda: routed(pair, exchange, "later.on"), pair.links)
        assert take(pair.rabbit, queue, 1)
        channel.queue_unbind(queue, exchange, "later.#")
        until(lambda: not routed(pair, exchange, "later.on"), pair.links)


def routed(pair: Pair, exchange: str, key: str) -> bool:
    """Whether the gateway has somewhere to put it."""
    try:
        publish(pair.gateway, ["looked"], exchange=exchange, key=key)
    except pika.exceptions.UnroutableError:
        return False
    return True


def test_federation_goes_on_when_the_gateway_was_killed(pair: Pair, upstream: str) -> None:
    """Messages published while RabbitMQ is not connected wait in its durable queue here."""
    exchange, queue = "federated.lasting", "federated-lasting"
    for server in (pair.gateway, pair.rabbit):
        with connect(server) as wire:
            wire.channel().exchange_declare(exchange, "direct", durable=True)
    declare(pair.rabbit, queue)
    with connect(pair.rabbit) as wire:
        wire.channel().queue_bind(queue, exchange, "k")
    federate(pair, upstream, "federated\\.lasting", "exchanges")
    until(lambda: running(pair), pair.links)
    publish(pair.gateway, ["before"], exchange=exchange, key="k")
    pair.restartable.restart()
    publish(pair.gateway, ["after"], exchange=exchange, key="k")
    assert set(until_after(pair.rabbit, queue)) == {"after", "before"}, pair.links()


def test_a_queue_of_rabbitmq_is_federated_with_one_of_the_gateway(
    pair: Pair, upstream: str
) -> None:
    """A consumer at RabbitMQ gets what lies at the gateway, when it has nothing of its own."""
    queue = "federated.queue"
    declare(pair.gateway, queue)
    declare(pair.rabbit, queue)
    publish(pair.gateway, NUMBERS, key=queue, properties=properties(deep=DEEP))
    federate(pair, upstream, "federated\\.queue", "queues")
    found = take(pair.rabbit, queue, len(NUMBERS))
    assert bodies(found) == NUMBERS, pair.links()
    until(lambda: count(pair.gateway, queue) == 0, pair.links)
