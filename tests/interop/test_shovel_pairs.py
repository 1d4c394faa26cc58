"""Shovels between pairs of brokers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridge import moving
from tests.interop import brokers
from tests.interop.rabbit_plugins import connect, take
from tests.interop.restarts import Seen
from tests.interop.servers import Server
from tests.interop.test_jms_matrix import (
    BODIES,
    command,
    lines,
    programs,  # noqa: F401
    started,
    test_messages_arrive,
)
from tests.net.running import Running, until

pytestmark = pytest.mark.interop

COUNT = 400
CONFIGURATION = """
[[upstreams]]
name = "{name}"
addresses = ["amqp://127.0.0.1:{port}"]
version = "1.0"

[[shovels]]
name = "over"
source = {{ queue = "leaving" }}
destination = {{ upstream = "{name}", queue = "queue.over" }}
connections = 3

[[shovels]]
name = "back"
source = {{ upstream = "{name}", queues = "queue.#", known = ["queue.over", "queue.other"] }}
destination = {{ queue = "returned" }}
"""


@pytest.mark.parametrize("name", ["artemis", "broker_j"])
def test_connections_of_one_shovel(name: str, tmp_path: Path) -> None:
    """Their links have the same names, and none takes that of another."""
    kind = brokers.KINDS[name]
    if reason := kind.missing():
        pytest.skip(reason)
    other = kind.start(tmp_path / "other")
    try:
        file = tmp_path / "gateway.toml"
        file.write_text(CONFIGURATION.format(name=name, port=other.port))
        with Running(tmp_path / "gateway", "--config", file) as gateway:
            moving.declare(gateway, "leaving", "returned")
            moving.publish(gateway.port, "leaving", range(COUNT))
            assert len(moving.taken(gateway.port, "returned", COUNT)) == COUNT
            until(lambda: moving.shovels(gateway)["back"]["moved"] == COUNT, "all are settled")
            assert moving.shovels(gateway)["over"]["moved"] == COUNT
    finally:
        other.stop()


# --- Broker-J over 0-10, and RabbitMQ over its 1.0 ------------------------------------------------

BROKER_J_AND_RABBITMQ = """
[[upstreams]]
name = "broker-j"
addresses = ["amqp://127.0.0.1:{broker_j}"]
version = "0-10"

[[upstreams]]
name = "rabbitmq"
addresses = ["amqp://127.0.0.1:{rabbitmq}"]
version = "1.0"

[[shovels]]
name = "over"
source = {{ upstream = "broker-j", queue = "queue.leaving" }}
destination = {{ upstream = "rabbitmq", queue = "middle" }}

[[shovels]]
name = "and-back"
source = {{ upstream = "rabbitmq", queue = "middle" }}
destination = {{ upstream = "broker-j", queue = "queue.arrived" }}

[[shovels]]
name = "there"
source = {{ upstream = "broker-j", queue = "queue.sent" }}
destination = {{ upstream = "rabbitmq", queue = "arrived" }}

[[shovels]]
name = "here"
source = {{ upstream = "rabbitmq", queue = "leaving" }}
destination = {{ upstream = "broker-j", queue = "queue.seen" }}
"""


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Broker-J and RabbitMQ, with a gateway between them."""
    for name in ("broker_j", "rabbitmq_1_0"):
        if reason := brokers.KINDS[name].missing():
            pytest.skip(reason)
    folder = tmp_path_factory.mktemp("pair")
    with contextlib.ExitStack() as stack:
        old = brokers.start_broker_j(folder / "old")
        stack.callback(old.stop)
        new = brokers.start_rabbitmq_1_0(folder / "new")
        stack.callback(new.stop)
        moving.declare(new, "middle", "arrived", "leaving")
        moving.declare(old, *(f"queue.{name}" for name in ("leaving", "arrived", "seen", "sent")))
        file = folder / "gateway.toml"
        file.write_text(BROKER_J_AND_RABBITMQ.format(broker_j=old.port, rabbitmq=new.port))
        stack.enter_context(Running(folder / "gateway", "--config", file))
        yield old, new


@pytest.fixture(scope="module")
def received(
    programs: dict[str, list[str]],  # noqa: F811
    between: tuple[Server, Server],
) -> tuple[Seen, str]:
    """Of a JMS client of 0-10 at Broker-J, whose messages went to RabbitMQ and came back."""
    said = []
    for verb, queue in (("send", "queue.leaving"), ("receive", "queue.arrived")):
        with started([*command(programs, between[0], "0-10"), verb, queue]) as process:
            said.append(process.communicate(timeout=90)[0])
    return lines(said[1]), "".join(said)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", BODIES)
def test_jms_messages_go_to_rabbitmq_and_back(check: str, received: tuple[Seen, str]) -> None:
    test_messages_arrive(check, received)


def test_pika_takes_from_rabbitmq_and_proton_brings_back(
    between: tuple[Server, Server],
) -> None:
    """Of a client of 1.0 at Broker-J to one of 0-9-1 at RabbitMQ, over 0-10 and the 1.0 of
    RabbitMQ between; and back."""
    import pika
    from proton import Message
    from proton.utils import BlockingConnection

    old, new = between
    url = "amqp://guest:guest@{}:{}"
    wire = BlockingConnection(url.format(old.host, old.port), timeout=60, allowed_mechs="PLAIN")
    sender = wire.create_sender("queue.sent")
    for n in range(COUNT):
        properties = {"n": n, "text": f"ü {n}"}
        sender.send(Message(f"body {n}", durable=True, properties=properties))
    found = take(new, "arrived", COUNT)
    assert len(found) == COUNT
    for n, (_, properties, body) in enumerate(found):  # in the forms in which RabbitMQ keeps 1.0
        assert f"ü {n}".encode() in properties.headers["x-amqp-1.0-app-properties"]
        assert f"body {n}".encode() in body
    with connect(new) as pika_wire:
        channel = pika_wire.channel()
        channel.confirm_delivery()
        for n in range(COUNT):
            properties = pika.BasicProperties(
                delivery_mode=2,
                content_type="text/plain",
                correlation_id=f"c-{n}",  # its 1.0 leaves headers out
            )
            channel.basic_publish("", "leaving", b"%d" % n, properties, mandatory=True)
    receiver = wire.create_receiver("queue.seen", credit=COUNT)
    for n in range(COUNT):
        one = receiver.receive()
        receiver.accept()
        assert one.body == f"{n}"  # text, says its content type
        assert (one.content_type, one.correlation_id) == ("text/plain", f"c-{n}")
    wire.close()
