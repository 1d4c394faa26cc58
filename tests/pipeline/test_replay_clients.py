"""Messages of pika, Proton and HTTP are recorded, replayed to another gateway, and come to the same
client as the originals did."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.net.running import PATIENCE, Running, until

pytestmark = [pytest.mark.interop, pytest.mark.extras, pytest.mark.timeout(300)]

AUTH = ("guest", "guest")
RECORDING = {"journal__recording": '[{"address": "/queues/*"}, {"address": "/exchanges/*"}]'}


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Running]]:
    for module in ("pyspark", "pyarrow", "pandas"):
        pytest.importorskip(module, reason=f"needs the extra `spark` ({module})")
    old, new = (tmp_path_factory.mktemp(name) for name in ("old", "new"))
    with Running(old, **RECORDING) as source, Running(new) as target:
        for one in (source, target):
            wire = one.wire(1)
            for queue in ("pika", "proton", "http"):
                wire.declare(queue, durable=True)
            wire.close()
        yield source, target


# --- pika ---------------------------------------------------------------------------------------


def pika_channel(running: Running) -> Any:
    import pika

    credentials = pika.PlainCredentials(*AUTH)
    parameters = pika.ConnectionParameters("127.0.0.1", running.port, credentials=credentials)
    return pika.BlockingConnection(parameters).channel()


def pika_messages() -> list[tuple[Any, bytes]]:
    import pika

    headers = {
        "text": "täxt", "number": 5, "big": 1 << 40, "flag": True, "none": None,
        "octets": b"\x00\xff", "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "decimal": Decimal("12.34"),
        "table": {"a": [1, "x", {"deep": False}]},
    }  # fmt: skip
    full = pika.BasicProperties(
        content_type="text/plain", content_encoding="utf-8", headers=headers, delivery_mode=2,
        priority=7, correlation_id="c-1", reply_to="answers", expiration="86400000",
        message_id="m-1", timestamp=1767322800, type="order", user_id="guest", app_id="shop",
        cluster_id="",
    )  # fmt: skip
    return [
        (full, b"first"),
        (pika.BasicProperties(delivery_mode=2), b""),
        (pika.BasicProperties(delivery_mode=2, message_id="x" * 255, headers={}), bytes(100_000)),
    ]


def pika_received(running: Running) -> list[Any]:
    channel = pika_channel(running)
    found: list[Any] = []
    while True:
        _, properties, body = channel.basic_get("pika", auto_ack=True)
        if properties is None:
            channel.connection.close()
            return found
        types = {k: type(v) for k, v in (properties.headers or {}).items()}
        found.append((vars(properties), types, body))


# --- Proton -------------------------------------------------------------------------------------


def proton_connection(running: Running) -> Any:
    from proton.utils import BlockingConnection

    url = f"amqp://guest:guest@127.0.0.1:{running.port}"
    return BlockingConnection(url, timeout=PATIENCE, allowed_mechs="PLAIN")


def proton_messages() -> list[Any]:
    import proton

    properties = {
        "text": "täxt", "ubyte": proton.ubyte(5), "long": 1 << 40, "uuid": UUID(int=7),
        "when": proton.timestamp(1_767_322_800_123), "symbol": proton.symbol("s"), "float": 1.5,
        "octets": b"\x00\xff", "none": None,
    }  # fmt: skip
    full = proton.Message(
        id=proton.ulong(17), user_id=b"guest", subject="order", reply_to="answers", durable=True,
        priority=7, correlation_id=UUID(int=9), content_type="text/plain",
        content_encoding="utf-8", group_id="g", group_sequence=3, properties=properties,
        annotations={proton.symbol("x-opt-note"): [1, "two"]}, body={"map": [1, None, "x"]},
    )  # fmt: skip
    return [
        full,
        proton.Message(body=b"octets", durable=True, inferred=True),
        proton.Message(body=["a", 1], durable=True),
        proton.Message(durable=True, id=b"\x00\x01"),
    ]


def proton_received(running: Running, count: int) -> list[bytes]:
    connection = proton_connection(running)
    receiver = connection.create_receiver("/queues/proton")
    found = []
    for _ in range(count):
        message = receiver.receive(timeout=PATIENCE)
        receiver.accept()
        found.append(message.encode())
    connection.close()
    return found


# --- HTTP ---------------------------------------------------------------------------------------

HTTP_MESSAGES: list[dict[str, Any]] = [
    {
        "id": "m-1",
        "annotations": {"x-opt-note": [1, "two"]},
        "subject": "order",
        "properties": {"attempt": {"$type": "ubyte", "value": 3}, "text": "x"},
        "body": {"json": {"order": 17}},
    },
    {"id": "m-2", "durable": True, "body": {"text": "two"}},
]


def call(running: Running, path: str, document: Any, media: str = "application/json") -> Any:
    url = f"http://127.0.0.1:{running.http_port}/v1/%2F/{path}"
    answer = httpx.post(
        url, json=document, headers={"content-type": media}, auth=AUTH, timeout=PATIENCE
    )
    assert answer.is_success, answer.text
    return answer.json()


def http_received(running: Running) -> list[Any]:
    given = {"max": 100, "mode": "auto", "view": "full"}
    found = call(running, "queues/http/deliveries", given)["deliveries"]
    return [one["message"] for one in found]


# --- all ----------------------------------------------------------------------------------------


def test_the_same_messages_as_the_originals(
    spark: Any, gateways: tuple[Running, Running], tmp_path: Path
) -> None:
    pytest.importorskip("pika", reason="pika is not installed")
    pytest.importorskip("proton", reason="Proton is not installed")
    source, target = gateways
    channel = pika_channel(source)
    channel.confirm_delivery()
    for properties, body in pika_messages():
        channel.basic_publish("", "pika", body, properties)
    channel.connection.close()
    connection = proton_connection(source)
    sender = connection.create_sender("/queues/proton")
    for message in proton_messages():
        sender.send(message)
    connection.close()
    for one in HTTP_MESSAGES:
        call(source, "queues/http/messages", one, "application/vnd.amqp-gateway.message+json")
    count = len(pika_messages()) + len(proton_messages()) + len(HTTP_MESSAGES)
    until(lambda: source.asked("/v1/%2F/journal?limit=0")["end"] == count, "the journal")

    from pyspark_amqp.jobs.replay import replay
    from pyspark_amqp.publishing import Publishing

    url = f"http://127.0.0.1:{target.http_port}"
    frame = spark.read.format("amqp").option("journal", str(source.data)).load()
    rows = replay(frame, Publishing(url, *AUTH, replay="again")).collect()
    assert sum(row.messages for row in rows if row.outcome == "published") == count, rows

    assert pika_received(target) == pika_received(source)
    originals = proton_received(source, len(proton_messages()))
    assert proton_received(target, len(proton_messages())) == originals
    assert http_received(target) == http_received(source)
