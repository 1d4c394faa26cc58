"""A journal that clients of other people, and our client roles, have filled, read by Spark."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest

from gateway import __version__
from gateway.adapters import Product
from gateway.adapters.methods.content import BASIC
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import BeginSession, OpenDestination, Operation, Publish, Service
from tests.interop.servers import HOST
from tests.needs import package
from tests.net.running import PATIENCE, Running, until

proton = package("python-qpid-proton", "proton")
utils = package("python-qpid-proton", "proton.utils")

pytestmark = [pytest.mark.extras, pytest.mark.interop, pytest.mark.timeout(300)]

EXCHANGE, KEY = "amq.topic", "tour"
EACH = 3
COLUMNS = (
    "pos", "address", "protocol", "user_id", "client_id", "client_product", "client_version",
    "content_type", "message_id", "properties", "body", "body_len",
    "listener", "hops",
)  # fmt: skip


def body(who: str, number: int) -> bytes:
    return f"{who} {number} é\0".encode()


def of_pika(gateway: Running) -> None:
    """0-9-1."""
    parameters = pika.ConnectionParameters(HOST, gateway.port)
    parameters.client_properties = {"connection_name": "pika of the test"}
    with closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(EACH):
            properties = pika.BasicProperties(
                content_type="text/plain", message_id=f"pika-{number}", headers={"number": number}
            )
            channel.basic_publish(EXCHANGE, KEY, body("pika", number), properties)


def of_proton(gateway: Running) -> None:
    """1.0."""
    url = f"{HOST}:{gateway.port}"
    connection = utils.BlockingConnection(
        url, user="guest", password="guest", allowed_mechs="PLAIN", timeout=PATIENCE
    )
    with closing(connection):
        sender = connection.create_sender(f"/exchanges/{EXCHANGE}/{KEY}")
        for number in range(EACH):
            sender.send(
                proton.Message(
                    body=body("proton", number),
                    inferred=True,
                    content_type="text/plain",
                    id=f"proton-{number}",
                    properties={"number": number},
                )  # fmt: skip
            )


def over_http(gateway: Running) -> None:
    url = f"http://{HOST}:{gateway.http_port}/v1/%2F/exchanges/{EXCHANGE}/messages"
    with httpx.Client(auth=("guest", "guest"), timeout=PATIENCE) as client:
        for number in range(EACH):
            answer = client.post(
                url, params={"routing_key": KEY}, content=body("http", number),
                headers={"Content-Type": "text/plain"},
            )  # fmt: skip
            assert answer.status_code == 201, answer.text


def by_role(version: str) -> Any:
    """Our own client role, for versions of which no other client is left."""

    async def publish(port: int) -> None:
        product = Product(name=f"role of {version}")
        remote: Remote = await dial((HOST, port), version=version, product=product)
        await remote.request(BeginSession(1, None))
        if version == "0.8a2":  # topics are destinations there
            await remote.request(OpenDestination(1, None, "1", Service.TOPIC, KEY))
        header = BASIC.write(Properties(content_type="text/plain"))
        for number in range(EACH):
            content = Message(
                BASIC, header, body(version, number), EXCHANGE, KEY, BASIC.essentials(header)
            )
            sent: Operation = Publish(1, content, False, False)
            remote.send(sent)
        await remote.drain()
        await remote.close()

    def run(gateway: Running) -> None:
        asyncio.run(publish(gateway.port))

    return run


CLIENTS = {
    "pika": of_pika,
    "proton": of_proton,
    "http": over_http,
    "0.8a2": by_role("0.8a2"),
    "0-10": by_role("0-10"),
}
TOLD = {
    "pika": ("amqp-0-9-1", "pika of the test", "Pika Python Client Library", pika.__version__),
    "http": ("http", None, None, None),
    "0.8a2": ("amqp-0.8a2", "role of 0.8a2", None, None),
    "0-10": ("amqp-0-10", "role of 0-10", "amqp-gateway (Qpid extensions)", __version__),
}
"""Protocol, name, product and version of a client; 0.8a2 and HTTP say no product."""
ANYBODY = {"proton": ("amqp-1.0", None, None)}
"""Without the name, which Proton draws by lot. It says no product."""


def test_every_client_is_told_apart(spark: Any, tmp_path: Path) -> None:
    """Origin version, client and body of each message, over HTTP and from files."""
    with Running(tmp_path, journal__recording="[{}]", journal__segment_messages=10) as gateway:
        wire = gateway.wire(1)
        wire.declare("kept", durable=True)
        base = f"http://{HOST}:{gateway.http_port}"
        with httpx.Client(base_url=base, auth=("guest", "guest"), timeout=PATIENCE) as client:
            binding = {"source": EXCHANGE, "destination": "kept", "routing_key": KEY}
            made = client.post("/v1/admin/vhosts/%2F/bindings", json=binding)
            assert made.is_success, made.text
            for publish in CLIENTS.values():
                publish(gateway)

            def recorded() -> bool:
                shown = client.get("/v1/%2F/journal", params={"limit": 0}).json()
                return bool(shown["end"] == EACH * len(CLIENTS) and shown["sealed"])

            until(recorded, "all are recorded, and some sealed")
        options = {"gateway": base, "user": "guest", "password": "guest"}
        live = read(spark, **options)
        assert read(spark, journal=str(gateway.data)) == live
    assert [row["body"] for row in live] == [
        body(who, number) for who in CLIENTS for number in range(EACH)
    ]
    assert [row["pos"] for row in live] == list(range(len(live)))
    for at, who in enumerate(CLIENTS):
        for number, row in enumerate(live[at * EACH : (at + 1) * EACH]):
            found = tuple(
                row[name] for name in ("protocol", "client_id", "client_product", "client_version")
            )
            assert found == TOLD.get(who) or (found[0], *found[2:]) == ANYBODY.get(who), found
            assert (row["address"], row["user_id"]) == (f"/exchanges/{EXCHANGE}", "guest")
            assert (row["content_type"], row["body_len"]) == ("text/plain", len(row["body"]))
            assert row["listener"] == ("http" if who == "http" else "amqp")
            if who == "pika":  # others have come since
                (hop,) = row["hops"]
                assert hop["hop"] == "store" and hop["enter_us"] <= hop["leave_us"]
            if who in ("pika", "proton"):
                assert row["message_id"] == f"{who}-{number}"
                assert row["properties"] == {"number": str(number)}


def read(spark: Any, **options: str) -> list[dict[str, Any]]:
    frame = spark.read.format("amqp").options(**options).load().select(*COLUMNS)
    rows = [row.asDict() for row in frame.orderBy("pos").collect()]
    for row in rows:
        row["body"] = bytes(row["body"])
    return rows
