"""RabbitMQ's federation plugin takes from the gateway."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.servers import INSTALL

if importlib.util.find_spec("pika") is None:
    pytest.skip(f"the Python package pika is not installed; {INSTALL}", allow_module_level=True)

import pika

from tests import in_memory
from tests.bridge import moving
from tests.interop.rabbit_plugins import (
    DEEP,
    ENOUGH,
    Pair,
    all_are_in,
    amqp_url,
    bodies,
    connect,
    count,
    declare,
    properties,
    publish,
    take,
    told,
    until,
    until_after,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(200)]

NUMBERS = [str(number) for number in range(100)]


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


def routed(pair: Pair, exchange: str, key: str, **headers: Any) -> bool:
    """Whether the gateway has somewhere to put it."""
    given = pika.BasicProperties(headers=headers)
    try:
        publish(pair.gateway, ["looked"], exchange=exchange, key=key, properties=given)
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


def federated(pair: Pair, upstream: str, exchange: str, kind: str, queue: str) -> None:
    """An exchange at both brokers, federated, and a queue at RabbitMQ that gets all of it."""
    for server in (pair.gateway, pair.rabbit):
        with connect(server) as wire:
            wire.channel().exchange_declare(exchange, kind, durable=True)
    declare(pair.rabbit, queue)
    with connect(pair.rabbit) as wire:
        wire.channel().queue_bind(queue, exchange, "k")
    federate(pair, upstream, exchange.replace(".", "\\."), "exchanges")
    until(lambda: running(pair), pair.links)


def test_nothing_goes_round_between_the_two(pair: Pair, upstream: str) -> None:
    """RabbitMQ takes from the gateway's exchange, and brings what it has to the same exchange: the
    gateway does not hand it out again, as the exchange that RabbitMQ asks for knows of hops."""
    exchange, queue = "federated.round", "federated-round"
    federated(pair, upstream, exchange, "fanout", queue)
    kinds = moving.asked(pair.gateway, "/api/exchanges")
    assert [one["type"] for one in kinds if exchange in one["name"] and one["internal"]] == [
        "x-federation-upstream"
    ]
    declare(pair.gateway, queue)
    with connect(pair.gateway) as wire:
        wire.channel().queue_bind(queue, exchange)
    back = {
        "src-uri": amqp_url(pair.rabbit),
        "src-exchange": exchange,
        "dest-uri": amqp_url(pair.gateway),
        "dest-exchange": exchange,
    }
    pair.shovel("back", **back)
    moving.publish(pair.gateway.port, "k", range(10), exchange)
    found = take(pair.gateway, queue, 20)
    assert sorted(bodies(found)) == sorted(2 * [f"body {n}" for n in range(10)])
    assert bodies(take(pair.rabbit, queue, 10)) == [f"body {n}" for n in range(10)]
    moving.publish(pair.gateway.port, "k", [10], exchange)
    assert bodies(take(pair.gateway, queue, 2)) == 2 * ["body 10"]
    assert bodies(take(pair.rabbit, queue, 1)) == ["body 10"]
    assert (count(pair.gateway, queue), count(pair.rabbit, queue)) == (0, 0)


def test_bindings_with_arguments_and_to_exchanges_come_to_the_gateway(
    pair: Pair, upstream: str
) -> None:
    exchange, queue = "federated.headers", "federated-headers"
    federated(pair, upstream, exchange, "headers", "federated-everything")
    declare(pair.rabbit, queue)
    with connect(pair.rabbit) as wire:
        channel = wire.channel()
        channel.queue_unbind("federated-everything", exchange, "k")
        channel.exchange_declare("behind", "fanout", durable=True)
        channel.queue_bind(queue, "behind")
        channel.exchange_bind("behind", exchange, "", {"x-match": "any", "colour": "red", "n": 7})
    until(lambda: routed(pair, exchange, "", colour="red", n=1), pair.links)
    until(lambda: not routed(pair, exchange, "", colour="blue", n=1), pair.links)
    assert len(take(pair.rabbit, queue, 1)) == 1
    publish(pair.gateway, ["seven"], exchange=exchange, key="", properties=properties())
    assert bodies(take(pair.rabbit, queue, 1)) == ["seven"]


def test_nothing_is_lost_when_the_upstream_of_an_exchange_is_killed(
    pair: Pair, upstream: str
) -> None:
    """Again and again, while messages come in and go on."""
    exchange, queue = "federated.kills", "federated-kills"
    federated(pair, upstream, exchange, "direct", queue)
    kills = 4
    for turn in range(kills):
        numbers = range(ENOUGH * turn // kills, ENOUGH * (turn + 1) // kills)
        moving.publish(pair.gateway.port, "k", numbers, exchange)
        pair.restartable.restart()
    all_are_in(moving.taken(pair.rabbit.port, queue, ENOUGH))


def test_nothing_is_lost_when_the_upstream_of_a_queue_is_killed(pair: Pair, upstream: str) -> None:
    """RabbitMQ fetches for its own consumer, and hands nothing out that it could lose."""
    queue = "federated.queue.kills"
    declare(pair.gateway, queue)
    declare(pair.rabbit, queue)
    moving.publish(pair.gateway.port, queue, range(ENOUGH))
    federate(pair, upstream, queue.replace(".", "\\."), "queues")
    found = []
    for _ in range(3):
        found += moving.taken(pair.rabbit.port, queue, ENOUGH // 8)
        pair.restartable.restart()
    while rest := ENOUGH - len({in_memory.text(one.message) for one in found}):
        found += moving.taken(pair.rabbit.port, queue, rest)
    all_are_in(found)
    until(lambda: count(pair.gateway, queue) == 0, pair.links)
