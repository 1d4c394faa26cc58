"""Transactions of unmodified clients over a facade, committed by brokers nobody here wrote."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers, servers
from tests.interop.servers import Server
from tests.net.running import PATIENCE

pytestmark = pytest.mark.interop

MISSING = {"broker-j": brokers.broker_j_missing, "artemis": brokers.artemis_missing}
START: dict[str, Callable[[Path], Server]] = {
    "broker-j": brokers.start_broker_j,
    "artemis": brokers.start_artemis,
}
COUNT = 20


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[str, Server]]:
    pytest.importorskip("pika", reason="pika, the client, is not installed")
    if reason := MISSING[request.param]():
        pytest.skip(reason)
    server = START[request.param](tmp_path_factory.mktemp(request.param))
    try:
        yield request.param, server
    finally:
        server.stop()


@contextlib.contextmanager
def connected(server: Server) -> Iterator[Any]:
    import pika

    connection = pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


@contextlib.contextmanager
def facade(folder: Path, upstream: Server, version: str) -> Iterator[Server]:
    front = servers.start_facade(folder, upstream, more=f'version = "{version}"')
    try:
        yield front
        assert "Traceback" not in front.log.read_text()
    finally:
        front.stop()


def left(channel: Any, queue: str, count: int = 0) -> list[bytes]:
    """All messages of a queue, of which there are so many at least. A busy Artemis has answered
    a drain with nothing while messages were there: it is asked again."""
    found: list[bytes] = []
    until = time.monotonic() + PATIENCE
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            found.append(body)
        elif len(found) >= count or time.monotonic() > until:
            return found
        else:
            channel.connection.sleep(0.1)


@pytest.mark.parametrize(
    ("broker", "version"),
    [("broker-j", "0-9-1"), ("broker-j", "0-10"), ("broker-j", "1.0"), ("artemis", "1.0")],
    indirect=["broker"],
)
def test_pika_answers_messages(broker: tuple[str, Server], version: str, tmp_path: Path) -> None:
    """Each message is accepted and answered in one transaction, or neither."""
    name, upstream = broker
    work, done = f"work-{version}", f"done-{version}"
    if name == "broker-j":  # over 1.0 nobody can declare queues there
        with connected(upstream) as channel:
            for queue in (work, done):
                channel.queue_declare(queue, durable=True)
    with facade(tmp_path, upstream, version) as front:
        with connected(front) as channel:
            channel.tx_select()
            for _ in range(COUNT):
                channel.basic_publish("", work, b"never")
            channel.tx_rollback()
            for n in range(COUNT):
                channel.basic_publish("", work, b"%d" % n)
            channel.tx_commit()
        with connected(front) as channel:
            channel.basic_qos(prefetch_count=3)
            channel.tx_select()
            found = channel.consume(work, inactivity_timeout=60)
            for count, (method, _, body) in enumerate(found, 1):
                channel.basic_publish("", done, b"for " + body)
                channel.basic_ack(method.delivery_tag)
                if not count % 2:
                    channel.tx_rollback()
                    channel.basic_publish("", done, b"again " + body)
                    channel.basic_ack(method.delivery_tag)
                channel.tx_commit()
                if count == COUNT:
                    break
            # One more answer, which is never committed.
            channel.basic_publish("", done, b"never")
        with connected(front) as channel:
            expected = [b"again %d" % n if n % 2 else b"for %d" % n for n in range(COUNT)]
            assert left(channel, done, COUNT) == expected
            assert left(channel, work) == []


def test_an_upstream_without_transactions(rabbitmq: Server, tmp_path: Path) -> None:
    """RabbitMQ 3 has none over 1.0: a client is told when it asks for the first, and stays."""
    import pika

    broker = brokers.start_rabbitmq_1_0(tmp_path / "broker")
    try:
        with facade(tmp_path / "front", broker, "1.0") as front, connected(front) as channel:
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
                channel.tx_select()
            assert refused.value.reply_code == 540
            again = channel.connection.channel()
            again.confirm_delivery()
    finally:
        broker.stop()
