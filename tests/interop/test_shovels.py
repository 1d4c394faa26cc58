"""Shovels between brokers nobody here wrote, with clients nobody here wrote at both ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.interop import brokers, servers
from tests.interop.servers import Server

pytestmark = pytest.mark.interop

COUNT = 500
CONFIGURATION = """
[[upstreams]]
name = "rabbitmq"
addresses = ["amqp://127.0.0.1:{rabbitmq}"]

[[upstreams]]
name = "{other}"
addresses = ["amqp://127.0.0.1:{port}"]
version = "{version}"

[[shovels]]
name = "over"
source = {{ upstream = "rabbitmq", queue = "over" }}
destination = {{ upstream = "{other}", queue = "queue.over" }}

[[shovels]]
name = "back"
source = {{ upstream = "{other}", queue = "queue.over" }}
destination = {{ upstream = "rabbitmq", queue = "back" }}
"""


@pytest.fixture(scope="module", params=["artemis 1.0", "broker_j 0-10", "broker_j 0-9"])
def house(
    request: pytest.FixtureRequest, rabbitmq: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A gateway with a shovel from RabbitMQ to the other broker, and one back."""
    name, version = request.param.split()
    kind = brokers.KINDS[name]
    if reason := kind.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp(name)
    other = kind.start(folder / "other")
    try:
        brokers.declare(rabbitmq, "over")
        brokers.declare(rabbitmq, "back")
        if kind.declares:
            brokers.declare(other, "queue.over")
        file = folder / "gateway.toml"
        file.write_text(
            CONFIGURATION.format(
                rabbitmq=rabbitmq.port, other=name, port=other.port, version=version
            )
        )
        gateway = servers.start_gateway(folder / "gateway", extra=["--config", str(file)])
        try:
            yield gateway
            assert "Traceback" not in gateway.log.read_text()
        finally:
            gateway.stop()
    finally:
        other.stop()


def shovels(gateway: Server) -> dict[str, Any]:
    url = f"http://127.0.0.1:{gateway.http_port}/v1/admin/shovels"
    answer = httpx.get(url, auth=("guest", "guest")).raise_for_status().json()
    return {one["name"]: one for one in answer["shovels"]}


def test_messages_go_over_and_come_back(house: Server, rabbitmq: Server) -> None:
    """Published with pika, moved to the other broker and back, received with pika: all of them, in
    their order, with their bodies, properties and headers."""
    import pika

    with pika.BlockingConnection(pika.ConnectionParameters(rabbitmq.host, rabbitmq.port)) as wire:
        channel = wire.channel()
        channel.confirm_delivery()
        for n in range(COUNT):
            properties = pika.BasicProperties(
                delivery_mode=2,
                content_type="text/plain",
                correlation_id=f"c-{n}",
                priority=3,
                headers={"n": n, "text": f"ü {n}", "big": 1 << 40, "yes": True},
            )
            body = f"grün {n}".encode() + bytes(n % 300)
            channel.basic_publish("", "over", body, properties, mandatory=True)
        found: list[tuple[Any, bytes]] = []
        deadline = time.monotonic() + 120
        while len(found) < COUNT:
            assert time.monotonic() < deadline, (len(found), shovels(house))
            method, properties, body = channel.basic_get("back", auto_ack=True)
            if method is None:
                time.sleep(0.05)
                continue
            found.append((properties, body))
        for n, (properties, body) in enumerate(found):
            assert body == f"grün {n}".encode() + bytes(n % 300)
            headers = properties.headers
            assert {name: headers[name] for name in ("n", "text", "big", "yes")} == {
                "n": n, "text": f"ü {n}", "big": 1 << 40, "yes": True,
            }  # fmt: skip
            seen = (properties.content_type, properties.correlation_id, properties.priority)
            assert seen == ("text/plain", f"c-{n}", 3)
            assert properties.delivery_mode == 2
        told = shovels(house)
        assert told["over"]["moved"] == told["back"]["moved"] == COUNT
        assert told["over"]["parked"] == told["back"]["parked"] == 0
