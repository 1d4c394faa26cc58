"""RabbitMQ's stream queues over a facade: AMQP clients read them as at RabbitMQ."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika import exceptions

from tests.interop import servers
from tests.interop.servers import HOST, Server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

STREAM = {"x-queue-type": "stream"}


@pytest.fixture(scope="module")
def front(rabbitmq: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = servers.start_facade(tmp_path_factory.mktemp("front"), rabbitmq)
    try:
        yield server
        assert "Traceback" not in server.log.read_text()
    finally:
        server.stop()


def opened(port: int) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters(HOST, port)).channel()


def filled(port: int, queue: str, count: int, kind: str = "stream") -> None:
    """Declare a queue and publish numbers."""
    channel = opened(port)
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    channel.confirm_delivery()
    for n in range(count):
        channel.basic_publish("", queue, b"%d" % n, pika.BasicProperties(headers={"n": n}))
    channel.connection.close()


def read(port: int, queue: str, start: object, most: int, prefetch: int = 5) -> list[Any]:
    """Body and headers of messages from an offset on. Everything is acknowledged."""
    channel, found = opened(port), []
    channel.basic_qos(prefetch_count=prefetch)

    def on_message(_: Any, method: Any, properties: Any, body: bytes) -> None:
        found.append((body, properties.headers, method.redelivered))
        channel.basic_ack(method.delivery_tag)
        if len(found) == most:
            channel.stop_consuming()

    channel.basic_consume(queue, on_message, arguments={"x-stream-offset": start})
    with contextlib.suppress(exceptions.ConnectionClosedByBroker):
        # At the end pika gives back what has come behind, over which RabbitMQ ends the connection.
        channel.start_consuming()
        channel.connection.close()
    return found[:most]


@pytest.mark.parametrize("start", ["first", 7, "1h"])
def test_pika_reads_a_stream_as_at_rabbitmq(rabbitmq: Server, front: Server, start: object) -> None:
    queue = f"read-{start}"
    filled(front.port, queue, 40)
    over = read(front.port, queue, start, 33)
    assert over == read(rabbitmq.port, queue, start, 33)
    first = 7 if start == 7 else 0
    assert [int(body) for body, *_ in over] == list(range(first, first + 33))
    assert [headers["x-stream-offset"] for _, headers, _ in over] == [*range(first, first + 33)]


def test_quorum_queues_are_consumed(rabbitmq: Server, front: Server) -> None:
    """They take a prefetch limit of the consumer only, as streams do."""
    filled(rabbitmq.port, "a-quorum", 12, "quorum")
    channel = opened(front.port)
    channel.basic_qos(prefetch_count=3)
    found = []
    for method, _, body in channel.consume("a-quorum", inactivity_timeout=60):
        found.append(int(body))
        if len(found) == 2:
            channel.basic_nack(method.delivery_tag)
        else:
            channel.basic_ack(method.delivery_tag)
        if len(found) == 13:
            break
    channel.cancel()
    channel.connection.close()
    assert sorted(found) == sorted([*range(12), 1])


def step(port: int, act: Any) -> Any:
    """The code and the text with which the broker refuses."""
    channel = opened(port)
    closed = exceptions.ChannelClosedByBroker, exceptions.ConnectionClosedByBroker
    try:
        with pytest.raises(closed) as refused:
            act(channel)
    finally:
        if channel.connection.is_open:
            channel.connection.close()
    return refused.value.reply_code, refused.value.reply_text


REFUSED = {
    "get": lambda channel: channel.basic_get("stream-refusing"),
    "purge": lambda channel: channel.queue_purge("stream-refusing"),
    "declare": lambda channel: channel.queue_declare("stream-refusing", durable=True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_those_of_rabbitmq(rabbitmq: Server, front: Server, name: str) -> None:
    """A bystander's consumer goes on: the connection to RabbitMQ is not lost over them."""
    filled(rabbitmq.port, "stream-refusing", 3)
    bystander = opened(front.port)
    bystander.basic_qos(prefetch_count=1)
    seen = bystander.consume("stream-refusing", arguments={"x-stream-offset": "first"})
    method, _, first = next(seen)
    assert step(front.port, REFUSED[name]) == step(rabbitmq.port, REFUSED[name])
    bystander.basic_ack(method.delivery_tag)
    method, _, second = next(seen)
    assert (first, second, method.redelivered) == (b"0", b"1", False)
    bystander.connection.close()


def test_an_offset_that_would_end_the_connection_is_refused(front: Server) -> None:
    filled(front.port, "stream-bogus", 1)

    def consume(channel: Any) -> None:
        channel.basic_qos(prefetch_count=1)
        arguments = {"x-stream-offset": "bogus"}
        channel.basic_consume("stream-bogus", lambda *_: None, arguments=arguments)

    code, text = step(front.port, consume)
    assert code == 406 and "x-stream-offset" in text


def test_deliveries_that_are_given_back_stay_in_the_stream(front: Server) -> None:
    """RabbitMQ ends the connection, which all consumers of the facade share."""
    filled(front.port, "stream-returned", 9)
    channel = opened(front.port)
    channel.basic_qos(prefetch_count=2)
    found = []
    for method, _, body in channel.consume("stream-returned", arguments={"x-stream-offset": 0}):
        found.append(body)
        channel.basic_nack(method.delivery_tag, requeue=len(found) % 2 == 0)
        if len(found) == 5:
            break
    channel.connection.close()
    assert found == [b"0", b"1", b"2", b"3", b"4"]
    assert len(read(front.port, "stream-returned", "first", 9)) == 9
    assert "basic.nack" not in front.log.read_text()
