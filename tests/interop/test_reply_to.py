"""Direct reply-to with an unmodified client (pika), on the gateway and on RabbitMQ alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.interop.servers import Server

pika = pytest.importorskip("pika")

REPLY_TO = "amq.rabbitmq.reply-to"
Connect = Callable[[], Any]

pytestmark = pytest.mark.interop


@pytest.fixture(params=["gateway", "rabbitmq"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    server: Server = request.getfixturevalue(request.param)
    parameters = pika.ConnectionParameters(server.host, server.port)
    made = []

    def connect() -> Any:
        made.append(pika.BlockingConnection(parameters))
        return made[-1]

    yield connect
    for one in made:
        with suppress(pika.exceptions.AMQPError):
            one.close()


class Asking:
    """A connection that waits for replies; ``question`` sends one and says where to answer."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.channel = connection.channel()
        self.queue = self.channel.queue_declare("", exclusive=True).method.queue
        self.replies: list[tuple[str, bytes]] = []
        self.tag = self.channel.basic_consume(REPLY_TO, self.on_reply, auto_ack=True)

    def on_reply(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.replies.append((properties.correlation_id, body))

    def question(self, body: bytes = b"?") -> str:
        properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id="7")
        self.channel.basic_publish("", self.queue, body, properties)
        _, found, _ = self.channel.basic_get(self.queue, auto_ack=True)
        assert found.correlation_id == "7"
        return str(found.reply_to)

    def wait(self, count: int) -> list[tuple[str, bytes]]:
        for _ in range(300):
            if len(self.replies) >= count:
                break
            self.connection.process_data_events(0.1)
        return self.replies


def closed(channel: Any, act: Callable[[], Any]) -> tuple[int, str]:
    """Why the server closes the channel over this."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        act()
        channel.queue_declare("", exclusive=True)
    return caught.value.reply_code, caught.value.reply_text


def test_question_and_answers(connect: Connect) -> None:
    asking, other = Asking(connect()), connect().channel()
    where = asking.question()
    assert where.startswith(REPLY_TO + ".")
    for number in range(3):
        properties = pika.BasicProperties(correlation_id=str(number))
        other.basic_publish("", where, b"!", properties)
    assert asking.wait(3) == [("0", b"!"), ("1", b"!"), ("2", b"!")]
    assert asking.question() == where


def test_passive_declare(connect: Connect) -> None:
    asking, channel = Asking(connect()), connect().channel()
    where = asking.question()
    found = channel.queue_declare(where, passive=True).method
    assert (found.queue, found.message_count, found.consumer_count) == (where, 0, 1)
    asking.channel.basic_cancel(asking.tag)
    assert closed(channel, lambda: channel.queue_declare(where, passive=True)) == (
        404,
        f"NOT_FOUND - no queue '{where}' in vhost '/'",
    )


@pytest.mark.parametrize("end", ["cancel", "channel", "connection"])
def test_the_requester_is_gone(connect: Connect, end: str) -> None:
    asking, channel = Asking(connect()), connect().channel()
    where = asking.question()
    if end == "cancel":
        asking.channel.basic_cancel(asking.tag)
    elif end == "channel":
        asking.channel.close()
    else:
        asking.connection.close()
    channel.confirm_delivery()
    channel.basic_publish("", where, b"late")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", where, b"late", mandatory=True)


@pytest.mark.parametrize(
    ("first", "no_ack", "text"),
    [
        (False, False, "reply consumer cannot acknowledge"),
        (True, False, "reply consumer cannot acknowledge"),
        (True, True, "reply consumer already set"),
    ],
)
def test_wrong_consumers(connect: Connect, first: bool, no_ack: bool, text: str) -> None:
    channel = connect().channel()
    if first:
        channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)
    assert closed(
        channel, lambda: channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=no_ack)
    ) == (406, f"PRECONDITION_FAILED - {text}")


def test_no_requester(connect: Connect) -> None:
    asking = Asking(connect())
    channel = asking.connection.channel()
    properties = pika.BasicProperties(reply_to=REPLY_TO)
    assert closed(channel, lambda: channel.basic_publish("", asking.queue, b"?", properties)) == (
        406,
        "PRECONDITION_FAILED - fast reply consumer does not exist",
    )


def test_names_of_others_are_no_queues(connect: Connect) -> None:
    asking = Asking(connect())
    where = asking.question()
    for name in (REPLY_TO, where):
        channel = connect().channel()
        code, text = closed(channel, lambda: channel.basic_get(name))  # noqa: B023
        assert (code, text) == (404, f"NOT_FOUND - no queue '{name}' in vhost '/'")
