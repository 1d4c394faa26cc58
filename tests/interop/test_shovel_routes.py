"""Shovels with rules, patterns and several connections, with RabbitMQ at the other end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.interop import servers
from tests.interop.rabbit_plugins import Api, connect, take, until
from tests.interop.servers import Server

pytestmark = pytest.mark.interop

COUNT = 300
CONFIGURATION = """
[[upstreams]]
name = "rabbitmq"
addresses = ["amqp://127.0.0.1:{port}"]
version = "0-9-1"

[[shovels]]
name = "all"
user = "guest"
source.upstream = "rabbitmq"
source.queues = "{{land}}.orders.#"
source.management = "{management}"
source.follow_seconds = 0.1
destination.addresses.rules = [
    {{ match = {{ key = "{{land}}.orders.{{kind}}" }}, to = {{ key = "{{kind}}.{{land}}" }} }},
]
duplicates = {{}}
filter = "n IS NULL OR n < 1000"
unmatched = "drop"

[[shovels.properties]]
set = {{ app_id = "{{kind}}" }}
remove = ["user_id"]

[[shovels]]
name = "back"
source = {{ queue = "new.de" }}
destination = {{ upstream = "rabbitmq", queue = "returned" }}
order_by = "headers.customer"
connections = 3
"""


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With its management API."""
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("rabbitmq")
    server = servers.start_rabbitmq(folder, plugins=["rabbitmq_management"])
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def gateway(rabbitmq: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("gateway")
    file = folder / "gateway.toml"
    management = f"http://127.0.0.1:{rabbitmq.http_port}"
    file.write_text(CONFIGURATION.format(port=rabbitmq.port, management=management))
    server = servers.start_gateway(folder / "data", extra=["--config", str(file)])
    try:
        yield server
        assert "Traceback" not in server.log.read_text()
    finally:
        server.stop()


def shovel(gateway: Server, name: str) -> Any:
    url = f"http://127.0.0.1:{gateway.http_port}/v1/admin/shovels/{name}"
    return httpx.get(url, auth=("guest", "guest")).raise_for_status().json()


def declare(server: Server, *queues: str) -> None:
    with connect(server) as wire:
        channel = wire.channel()
        for queue in queues:
            channel.queue_declare(queue, durable=True)


def test_orders_of_all_lands_go_over_and_one_comes_back(rabbitmq: Server, gateway: Server) -> None:
    """Queues of RabbitMQ are found by its management API, each leads to the queue that the rules
    say, twice the same id comes once, and the customers' orders stay in order on their way back
    over three connections. No message is lost or parked."""
    import pika

    declare(rabbitmq, "de.orders.new", "fr.orders.new", "other", "returned")
    declare(gateway, "new.de", "new.fr")
    with connect(rabbitmq) as wire:
        channel = wire.channel()
        channel.confirm_delivery()
        for n in range(COUNT):
            for queue in ("de.orders.new", "fr.orders.new", "other"):
                properties = pika.BasicProperties(
                    delivery_mode=2,
                    message_id=f"{queue} {n // 2}",
                    user_id="guest",
                    headers={"n": n, "customer": n // 2 % 7},
                )
                channel.basic_publish("", queue, f"{n // 2}".encode(), properties, mandatory=True)
    until(lambda: shovel(gateway, "back")["moved"] == COUNT // 2, lambda: str(told(gateway)))
    lanes = {one["queue"]: one["moved"] for one in shovel(gateway, "all")["lanes"]}
    assert lanes == {"de.orders.new": COUNT // 2, "fr.orders.new": COUNT // 2}
    everything = shovel(gateway, "all")
    assert (everything["duplicates"], everything["parked"], everything["dropped"]) == (COUNT, 0, 0)
    by_customer = defaultdict(list)
    for _, properties, body in take(rabbitmq, "returned", COUNT // 2):
        assert (properties.app_id, properties.user_id) == ("new", None)
        by_customer[properties.headers["customer"]].append(int(body))
    assert len(by_customer) == 7
    assert all(numbers == sorted(numbers) for numbers in by_customer.values())
    assert [int(body) for *_, body in take(gateway, "new.fr", COUNT // 2)] == [*range(COUNT // 2)]


def test_queues_that_come_later_are_found(rabbitmq: Server, gateway: Server) -> None:
    declare(gateway, "late.it")
    declare(rabbitmq, "it.orders.late")
    with connect(rabbitmq) as wire:
        wire.channel().basic_publish("", "it.orders.late", b"1")
    assert [body for *_, body in take(gateway, "late.it", 1)] == [b"1"]
    with connect(rabbitmq) as wire:
        wire.channel().queue_delete("it.orders.late")
    until(
        lambda: "it.orders.late" not in {one["queue"] for one in shovel(gateway, "all")["lanes"]},
        lambda: str(told(gateway)),
    )
    api = Api(rabbitmq)
    assert "it.orders.late" not in {one["name"] for one in api.get("queues/%2f?columns=name")}
    api.close()


def told(gateway: Server) -> Any:
    return [shovel(gateway, name) for name in ("all", "back")]
