"""Through a running gateway: pika on one side, proton on the other, HTTP beside them."""

import decimal
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest

from tests.net.running import Running, until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    proton = pytest.importorskip(
        "proton", reason="python-qpid-proton is not installed: tests/interop/install-peers"
    )
    from proton.utils import BlockingConnection

GUEST = ("guest", "guest")
HEADERS: dict[str, Any] = {
    "price": decimal.Decimal("123.45"), "n": 5, "t": {"a": [1, None, "x"]}, "b": b"\xff",
}  # fmt: skip


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("crossing")) as running:
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
        channel.queue_declare(queue)
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


def test_what_http_publishes_with_1_0_types(gateway: Running, channel: Any, links: Any) -> None:
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


def test_strict_rejects_what_would_lose_something(tmp_path: Path) -> None:
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
