"""Through a running gateway: pika on one side, proton on the other, HTTP beside them, and clients
of 0.8a2 and 0-9a6 between."""

import asyncio
import decimal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest

from gateway.adapters import Product
from gateway.adapters.methods.contents.dialect import ClassDialect
from gateway.crossing.legacy_forms import FORMS
from gateway.message import Message
from gateway.net.dialer import dial
from gateway.operations import (
    BeginSession,
    Deliver,
    EndSession,
    Outcome,
    Publish,
    Settle,
    Subscribe,
)
from tests.needs import package
from tests.net.running import Running, until

proton = package("python-qpid-proton", "proton")
BlockingConnection = package("python-qpid-proton", "proton.utils").BlockingConnection

pytestmark = pytest.mark.interop


GUEST = ("guest", "guest")
HEADERS: dict[str, Any] = {
    "price": decimal.Decimal("123.45"), "n": 5, "t": {"a": [1, None, "x"]}, "b": b"\xff",
}  # fmt: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("crossing")
    with Running(folder, amqp__header_0_9="0-9a6") as running:
        yield running


@pytest.fixture
def channel(gateway: Running) -> Iterator[Any]:
    yield from channel_of(gateway)


def channel_of(gateway: Running) -> Iterator[Any]:
    login = pika.PlainCredentials(*GUEST)
    parameters = pika.ConnectionParameters("127.0.0.1", gateway.port, credentials=login)
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    connection.close()


@pytest.fixture
def links(gateway: Running) -> Iterator[Any]:
    connection = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{gateway.port}")
    yield connection
    connection.close()


def fetched(channel: Any, queue: str) -> tuple[Any, Any, bytes]:
    """The next message of a queue, as soon as it is there."""
    return until(  # type: ignore[no-any-return]
        lambda: (got := channel.basic_get(queue, True))[0] and got, f"a message in {queue}"
    )


def test_a_legacy_message_comes_home_through_proton(channel: Any, links: Any) -> None:
    for queue in ("there", "back"):
        channel.queue_declare(queue, durable=True)  # or it takes no durable message of 1.0
    sent = pika.BasicProperties(
        content_type="text/plain", headers=HEADERS, delivery_mode=2, priority=3, app_id="a",
        correlation_id=f"urn:uuid:{uuid.UUID(int=5)}", reply_to="answers", type="t",
        message_id="m", timestamp=1790000000, user_id="guest",
    )  # fmt: skip
    channel.basic_publish("", "there", b"hello", sent)
    message = links.create_receiver("/queues/there", credit=1).receive(timeout=30)
    assert (message.id, message.correlation_id, message.priority) == ("m", uuid.UUID(int=5), 3)
    assert (message.properties["price"], message.properties["n"]) == ("123.45", 5)
    assert bytes(message.body) == b"hello" and message.annotations["x-routing-key"] == "there"
    message.address = None
    links.create_sender("/queues/back").send(message)
    _, properties, body = fetched(channel, "back")
    assert (body, properties.headers) == (b"hello", HEADERS)
    assert vars(properties) == vars(sent)


def test_a_message_of_1_0_comes_home_through_pika(channel: Any, links: Any) -> None:
    for queue in ("out", "home"):
        channel.queue_declare(queue)
    sent = proton.Message(
        body="text", id=proton.ulong(7), correlation_id=uuid.UUID(int=9), subject="s",
        reply_to="/queues/back", group_id="g", group_sequence=4,
        properties={"u": proton.ulong(2**63 + 1), "y": proton.symbol("s"), "c": proton.char("c"),
                    "t": proton.timestamp(1790000000123)},
        annotations={proton.symbol("x-opt-a"): 1, proton.symbol("other"): "z"},
    )  # fmt: skip
    links.create_sender("/queues/out").send(sent)
    _, properties, body = fetched(channel, "out")
    assert body == b"text" and properties.message_id == "AMQP_ULONG:7"
    assert properties.reply_to == "back" and properties.headers["u"] == str(2**63 + 1)
    channel.basic_publish("", "home", body, properties)
    found = links.create_receiver("/queues/home", credit=1).receive(timeout=30)
    for name in ("body", "id", "correlation_id", "subject", "reply_to", "group_id", "properties"):
        assert getattr(found, name) == getattr(sent, name), name
        assert type(getattr(found, name)) is type(getattr(sent, name)), name
    for key, value in sent.properties.items():
        assert type(found.properties[key]) is type(value), key
    assert found.annotations == sent.annotations


def test_http_publishes_with_1_0_types(gateway: Running, channel: Any, links: Any) -> None:
    url = f"http://127.0.0.1:{gateway.http_port}/v1/%2F/queues"
    form = {
        "view": "full",
        "application_properties": {
            "u": {"$type": "ulong", "value": 5},
            "d": {"$type": "decimal64", "value": "1.50"},
        },
        "message_annotations": {"x-opt-a": {"$type": "array", "of": "int", "value": []}},
        "body": {"kind": "data", "base64": "aGVsbG8="},
    }
    for queue in ("rich", "poor"):
        channel.queue_declare(queue)
        answer = httpx.post(
            f"{url}/{queue}/messages",
            json=form,
            auth=GUEST,
            headers={"content-type": "application/vnd.amqp-gateway.message+json"},
        )
        assert answer.status_code == 201, answer.text
    found = links.create_receiver("/queues/rich", credit=1).receive(timeout=30)
    assert type(found.properties["u"]) is proton.ulong and bytes(found.body) == b"hello"
    assert type(found.properties["d"]) is proton.decimal64
    _, properties, body = fetched(channel, "poor")
    assert (properties.headers["u"], properties.headers["d"], body) == (5, "1.50", b"hello")


async def forward(gateway: Running, version: str, source: str, target: str) -> Message:
    """A peer that takes a message and sends it on as it is."""
    async with asyncio.timeout(60):
        where = ("127.0.0.1", gateway.port)
        remote = await dial(where, version=version, product=Product(name="forwarder"))
        await remote.request(BeginSession(1, None))
        await remote.request(Subscribe(1, None, source, "tag"))
        async for operation in remote:
            if isinstance(operation, Deliver):
                break
        assert isinstance(operation, Deliver)
        message = operation.message
        header = addressed(message, target)
        sent = Message(message.dialect, header, message.body, "", target, message.essentials)
        remote.send(Publish(1, sent, False, False))
        remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
        await remote.drain()
        await remote.request(EndSession(1, None))
        await remote.close()
        return message


def addressed(message: Message, target: str) -> bytes:
    """In the drafts the content says where it goes."""
    if not isinstance(message.dialect, ClassDialect):
        return message.header
    record, children = message.dialect.record(message.header)
    record.destination = target
    return message.dialect.joined(record, children)


def test_from_0_9_1_over_all_the_others_and_home(
    gateway: Running, channel: Any, links: Any
) -> None:
    sent = pika.BasicProperties(
        content_type="text/plain", headers=HEADERS, app_id="a", type="t", message_id="m",
        reply_to="answers", timestamp=1790000000, user_id="guest", correlation_id="AMQP_ULONG:7",
    )  # fmt: skip
    for queue in ("q1", "q2", "q3", "q4"):
        channel.queue_declare(queue)
    channel.basic_publish("", "q1", b"hello", sent)
    for version, source, target in (("0.8a2", "q1", "q2"), ("0-9a6", "q2", "q3")):
        there = asyncio.run(forward(gateway, version, source, target))
        assert there.dialect.name.startswith(version) and there.body == b"hello"
        assert bool(FORMS[there.dialect.name].capsule_in(there.header)) is (version == "0.8a2")
    message = links.create_receiver("/queues/q3", credit=1).receive(timeout=30)
    assert (message.id, bytes(message.body)) == ("m", b"hello")
    message.address = None
    links.create_sender("/queues/q4").send(message)
    _, properties, body = fetched(channel, "q4")
    # Removing its address was an edit: its form in 0-9a6 is passed on.
    del properties.headers["x-gateway-origin"]
    assert (body, properties.headers) == (b"hello", HEADERS)
    assert vars(properties) == vars(sent)


def test_strict_rejects_lossy_conversions(tmp_path: Path) -> None:
    with Running(tmp_path, crossing__mode="strict") as strict:
        for channel in channel_of(strict):
            letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            channel.queue_declare("dead")
            channel.queue_declare("q", arguments=letters)
            big = {"price": decimal.Decimal("1.5"), "big": "x" * 9000}
            channel.basic_publish("", "q", b"1", pika.BasicProperties(headers=big))
            channel.basic_publish("", "q", b"2")
            links = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{strict.port}")
            receiver = links.create_receiver("/queues/q", credit=2)
            assert bytes(receiver.receive(timeout=30).body) == b"2"
            _, properties, body = fetched(channel, "dead")
            assert body == b"1" and properties.headers["x-death"][0]["reason"] == "rejected"
            links.close()
