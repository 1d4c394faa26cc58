"""Clients nobody here wrote share a queue of RabbitMQ, and go to Artemis one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.test_modes import between, change, modes
from tests.bridge.test_split_consumers import add_user, split
from tests.interop import brokers, servers
from tests.net.running import PATIENCE, Running, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

QUEUE = "shared"
KEYS = 5


class Pika:
    """Publishes and reads; ``client`` is the name that it gives its connection."""

    def __init__(self, port: int, client: str) -> None:
        self.pika = pytest.importorskip("pika", reason="pika is not installed")
        self.parameters = self.pika.URLParameters(f"amqp://guest:guest@127.0.0.1:{port}/%2F")
        self.parameters.client_properties = {"connection_name": client}
        self.got: list[tuple[str, int]] = []
        self._stopping = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        def read() -> None:
            connection = self.pika.BlockingConnection(self.parameters)
            channel = connection.channel()
            channel.basic_qos(prefetch_count=10)
            for method, properties, _ in channel.consume(QUEUE, inactivity_timeout=0.1):
                if method is not None:
                    headers = properties.headers
                    self.got.append((headers.get("JMSXGroupID"), headers["n"]))
                    channel.basic_ack(method.delivery_tag)
                if self._stopping:
                    break
            connection.close()

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            self._stopping = True
            thread.join(PATIENCE)
        assert not thread.is_alive()


class Writer(Pika):
    """Publishes with confirms, perhaps in groups as JMS has them. Artemis gives each group to one
    consumer."""

    groups = 0

    def __enter__(self) -> Writer:
        self.sent = 0
        self.connection = self.pika.BlockingConnection(self.parameters)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.channel.queue_declare(QUEUE, durable=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def write(self, count: int) -> None:
        for _ in range(count):
            headers: dict[str, Any] = {"n": self.sent}
            if self.groups:
                headers["JMSXGroupID"] = f"key {self.sent % self.groups}"
            properties = self.pika.BasicProperties(delivery_mode=2, headers=headers)
            self.channel.basic_publish("", QUEUE, b"work", properties, mandatory=True)
            self.sent += 1

    def write_until(self, condition: Callable[[], Any]) -> None:
        def met() -> Any:
            self.write(5)
            return condition()

        until(met, "it holds")


@contextmanager
def migrating(folder: Path) -> Iterator[Running]:
    for reason in (servers.rabbitmq_missing(), brokers.artemis_missing()):
        if reason:
            pytest.skip(reason)
    old = servers.start_rabbitmq(folder / "rabbitmq")
    try:
        new = brokers.start_artemis(folder / "artemis")
        try:
            with between(folder / "front", old.port, new.port) as front:
                add_user(front, "alice")
                yield front
        finally:
            new.stop()
    finally:
        old.stop()


def test_one_client_after_the_other(tmp_path: Path) -> None:
    with migrating(tmp_path) as front:
        port = front.port
        billing, shipping = Pika(port, "billing"), Pika(port, "shipping")
        with Writer(port, "shop") as writer, billing.reading(), shipping.reading():
            writer.write_until(lambda: billing.got and shipping.got)
            split(front, QUEUE, consumers=["billing"])
            before = len(billing.got)
            writer.write_until(lambda: len(billing.got) > before + 20)
            assert modes(front)[QUEUE]["supplied"] >= 20
            split(front, QUEUE, consumers=["billing", "shipping"])
            before = len(shipping.got)
            writer.write_until(lambda: len(shipping.got) > before + 20)
            change(front, "new-primary", QUEUE)
            writer.write(20)
            until(lambda: len(billing.got) + len(shipping.got) >= writer.sent, "all have come")
        assert sorted(n for _, n in billing.got + shipping.got) == list(range(writer.sent))


def test_keys_of_one_client(tmp_path: Path) -> None:
    """Each key keeps its order."""
    with migrating(tmp_path) as front:
        port = front.port
        reader = Pika(port, "billing")
        with Writer(port, "shop") as writer, reader.reading():
            writer.groups = KEYS
            for keys in (50, 100, 0):
                writer.write(50)
                split(front, QUEUE, keys=keys)
                before = len(reader.got)
                writer.write_until(lambda: len(reader.got) > before + 30)  # noqa: B023
                if keys:
                    writer.write_until(lambda: modes(front)[QUEUE]["opened"])
                    writer.write(50)
            until(lambda: len(reader.got) >= writer.sent, "all have come")
        assert sorted(n for _, n in reader.got) == list(range(writer.sent))
        for number in range(KEYS):
            found = [n for key, n in reader.got if key == f"key {number}"]
            assert found == sorted(found)
