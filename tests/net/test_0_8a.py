"""End to end through a running gateway: a client of 0.8a2 over a socket, and pika with 0-9-1."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from gateway.adapters import Product
from gateway.adapters.commands.content import COMMAND
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Confirm,
    Deliver,
    Index,
    Listen,
    OpenDestination,
    Operation,
    Outcome,
    Publish,
    Query,
    SelectConfirms,
    Service,
    Settle,
    Subscribe,
)
from tests.interop import servers

SECONDS = 20.0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    server = servers.start("gateway", folder)
    try:
        yield server.port
        assert server.alive, server.tail()
    finally:
        server.stop()


class Pika:
    """A blocking client of 0-9-1."""

    def __init__(self, port: int) -> None:
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        self.channel = self.connection.channel()

    def __enter__(self) -> Any:
        return self.channel

    def __exit__(self, *error: object) -> None:
        self.connection.close()


def message(key: str, body: bytes, exchange: str = "", **properties: Any) -> Message:
    header = COMMAND.write(Properties(**properties))
    return Message(COMMAND, header, body, exchange, key, COMMAND.essentials(header))


async def entered(port: int, name: str) -> Remote:
    remote = await dial(("127.0.0.1", port), version="0.8a2", product=Product(name=name))
    await remote.request(BeginSession(1, None))
    return remote


async def next_of(remote: Remote, kind: type[Any]) -> Any:
    async with asyncio.timeout(SECONDS):
        async for operation in remote:
            if isinstance(operation, kind):
                return operation
    raise AssertionError("the connection ended")


def test_published_by_0_8a2_and_consumed_by_0_9_1(port: int) -> None:
    large = bytes(range(256)) * 1000

    async def publishes() -> None:
        remote = await entered(port, "publisher")
        await remote.request(SelectConfirms(1, None))
        given: dict[str, Any] = {"content_type": "text/plain", "message_id": "m1", "priority": 7}
        sent = message("from-8", b"small", durable=True, application={"COLOUR": "red"}, **given)
        remote.send(Publish(1, sent, False, False))
        remote.send(Publish(1, message("from-8", large), False, False))
        found: list[Operation] = [await next_of(remote, Confirm) for _ in range(2)]
        assert found == [Confirm(1, 1, False, True), Confirm(1, 2, False, True)]
        await remote.close()

    with Pika(port) as channel:
        channel.queue_declare("from-8", durable=True)
        asyncio.run(publishes())
        _, properties, body = channel.basic_get("from-8", auto_ack=True)
        assert body == b"small"
        assert (properties.content_type, properties.message_id) == ("text/plain", "m1")
        assert (properties.priority, properties.delivery_mode) == (7, 2)
        assert properties.headers == {"COLOUR": "red"}
        _, _, body = channel.basic_get("from-8", auto_ack=True)
        assert body == large
        channel.queue_delete("from-8")


def test_published_by_0_9_1_and_consumed_by_0_8a2(port: int) -> None:
    headers = {"COLOUR": "red", "count": 7, "nested": {"a": [1, 2]}, "yes": True}

    async def consumes() -> list[Deliver]:
        remote = await entered(port, "consumer")
        await remote.request(Subscribe(1, None, "to-8", "reader"))
        found = [await next_of(remote, Deliver) for _ in range(2)]
        remote.send(Settle(1, found[1].delivery, True, Outcome.ACCEPT))
        await remote.close()
        return found

    with Pika(port) as channel:
        channel.queue_declare("to-8")
        properties = pika.BasicProperties(
            content_type="text/plain", headers=headers, correlation_id="c", reply_to="back"
        )
        channel.basic_publish("", "to-8", b"x" * 100_000, properties)
        channel.basic_publish("", "to-8", b"second")
        first, second = asyncio.run(consumes())
        assert first.message.body == b"x" * 100_000 and second.message.body == b"second"
        seen = first.message.properties
        assert (seen.content_type, seen.correlation_id, seen.reply_to) == (
            "text/plain", "c", "back",
        )  # fmt: skip
        # What 0.8a2 cannot say comes along, for the way back.
        assert seen.application is not None
        capsule = seen.application.pop("x-gateway-origin")
        assert type(capsule) is bytes and seen.application == headers
        assert channel.queue_declare("to-8", passive=True).method.message_count == 0
        channel.queue_delete("to-8")


def test_a_topic_is_shared(port: int) -> None:
    async def subscribes() -> Remote:
        remote = await entered(port, "subscriber")
        await remote.request(OpenDestination(1, None, "1", Service.TOPIC, "news."))
        await remote.request(Listen(1, None, "1", "1", "", 10, selector="COLOUR = 'red'"))
        return remote

    async def both() -> list[bytes]:
        remote = await subscribes()
        with Pika(port) as channel:
            for colour in ("blue", "red"):
                properties = pika.BasicProperties(headers={"COLOUR": colour})
                channel.basic_publish("amq.topic", "news.a", colour.encode(), properties)
        found = await next_of(remote, Deliver)
        await remote.close()
        return [found.message.body]

    assert asyncio.run(both()) == [b"red"]


def test_looking_at_a_queue_of_another_version(port: int) -> None:
    async def looks() -> Index:
        remote = await entered(port, "browser")
        await remote.request(OpenDestination(1, None, "1", Service.QUEUE, "looked-at"))
        index = await remote.request(Query(1, None, "1", ""))
        await remote.close()
        assert isinstance(index, Index)
        return index

    with Pika(port) as channel:
        channel.queue_declare("looked-at")
        for number in range(3):
            channel.basic_publish("", "looked-at", b"%d" % number)
        assert asyncio.run(looks()).numbers == [0, 1, 2]
        channel.queue_delete("looked-at")


def test_an_initiation_of_no_version_is_hung_up_on(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as wire:
        wire.sendall(b"\x80\x00")
        assert wire.recv(100) == b""


@pytest.mark.parametrize("highest", [2, 255])
def test_the_highest_version_of_ours_is_the_answer(port: int, highest: int) -> None:
    """§3.2.2: "the server responds with the highest version it can handle, up to the version
    specified by the client"."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as wire:
        wire.sendall(bytes((0x80, highest)))
        challenge = wire.recv(100)
        assert challenge[2:4] == bytes((10, 1))


def test_an_initiation_in_two_pieces(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as wire:
        wire.sendall(b"\x80")
        wire.sendall(b"\x01")
        head = wire.recv(3)
        assert head[2] == 10, "a challenge"
