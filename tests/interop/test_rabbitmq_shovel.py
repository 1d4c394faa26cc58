"""RabbitMQ's shovels take from the gateway, and bring to it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.servers import INSTALL, Server

if importlib.util.find_spec("pika") is None:
    pytest.skip(f"the Python package pika is not installed; {INSTALL}", allow_module_level=True)

from gateway import values
from gateway.message import Properties
from tests.bridge import moving
from tests.interop.rabbit_plugins import (
    DEEP,
    ENOUGH,
    WINDOW,
    Pair,
    all_arrive,
    amqp_url,
    bodies,
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


@pytest.fixture(autouse=True)
def no_shovel_is_left(pair: Pair) -> Iterator[None]:
    yield
    for shovel in pair.api.get("parameters/shovel"):
        pair.api.delete_parameter("shovel", shovel["name"])


def source(protocol: str, server: Server, queue: str) -> dict[str, Any]:
    if protocol == "amqp10":
        return {
            "src-protocol": "amqp10",
            "src-uri": amqp_url(server, "?sasl=plain"),
            "src-address": f"/queues/{queue}",
            "src-prefetch-count": WINDOW,
        }
    return {
        "src-protocol": "amqp091",
        "src-uri": amqp_url(server),
        "src-queue": queue,
        "src-prefetch-count": WINDOW,
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


@pytest.mark.parametrize("way", ["from", "to"])
@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_nothing_is_lost_when_the_gateway_is_killed(pair: Pair, protocol: str, way: str) -> None:
    """While RabbitMQ takes from it, and while RabbitMQ brings to it."""
    queue = f"kills-{way}-{protocol}"
    declare(pair.gateway, queue)
    declare(pair.rabbit, queue)

    def gateway() -> Server:
        return pair.gateway

    def rabbit() -> Server:
        return pair.rabbit

    if way == "from":
        moving.publish(pair.gateway.port, queue, range(ENOUGH))
        ends = gateway, rabbit
        value = {
            **source(protocol, pair.gateway, queue),
            **destination("amqp091", pair.rabbit, queue),
        }
    else:
        moving.publish(pair.rabbit.port, queue, range(ENOUGH))
        ends = rabbit, gateway
        value = {
            **source("amqp091", pair.rabbit, queue),
            **destination(protocol, pair.gateway, queue),
        }
    pair.shovel(queue, **value)
    all_arrive(pair, *ends, queue)


EVERY: dict[str, Any] = {
    "boolean": True,
    "byte": values.Byte(-7),
    "unsigned byte": values.UByte(200),
    "short": values.Short(-300),
    "unsigned short": values.UShort(60_000),
    "int": values.Int(-70_000),
    "unsigned int": values.UInt(4_000_000_000),
    "long": 1 << 40,
    "float": values.Float(0.5),
    "double": 0.1,
    "decimal": values.Scaled(2, 12345),
    "text": "grün",
    "octets": b"\x00\xff",
    "time": values.Seconds(1_700_000_000),
    "void": None,
    "list": [1, "two", [True, None], {"deep": values.Short(3)}],
    "table": {"list": [values.Byte(1)], "table": {}},
}
WHOLE: dict[str, Any] = dict(
    durable=True,
    priority=3,
    ttl=3_600_000,
    content_type="text/plain",
    content_encoding="identity",
    reply_to="answers",
    correlation_id="c-1",
    message_id="m-1",
    creation_time=1_700_000_000_000,
    type="kind",
    user_id=b"guest",
    app_id="app",
)


@pytest.mark.parametrize("way", ["from", "to"])
def test_all_properties_and_all_types_of_headers_arrive_as_they_were(pair: Pair, way: str) -> None:
    """Also with a body of several frames."""
    queue = f"types-{way}"
    declare(pair.gateway, queue)
    declare(pair.rabbit, queue)
    ends = (pair.gateway, pair.rabbit) if way == "from" else (pair.rabbit, pair.gateway)
    body = "grün ".encode() * 50_000
    sent = moving.with_properties(Properties(**WHOLE, application=EVERY), body, queue)
    moving.publish_all(ends[0].port, [sent])
    pair.shovel(
        queue,
        **source("amqp091", ends[0], queue),
        **destination("amqp091", ends[1], queue),
    )
    (came,) = moving.taken(ends[1].port, queue, 1)
    assert came.message.body[:] == body
    assert came.message.header == sent.header, came.message.properties
