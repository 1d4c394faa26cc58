"""Direct replies over two gateways before brokers nobody here wrote, and from their own clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop import brokers, servers
from tests.interop.servers import Server

pytestmark = pytest.mark.interop
pika = pytest.importorskip("pika", reason="pika, the client, is not installed")

PATIENCE = 60.0
REPLY_TO = "amq.rabbitmq.reply-to"


def start_rabbitmq(folder: Path) -> Server:
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    return servers.start_rabbitmq(folder)


def start_broker_j(folder: Path) -> Server:
    if reason := brokers.broker_j_missing():
        pytest.skip(reason)
    return brokers.start_broker_j(folder)


UPSTREAMS: dict[str, tuple[Callable[[Path], Server], str]] = {
    "RabbitMQ": (start_rabbitmq, "0-9-1"),
    "Broker-J": (start_broker_j, "0-10"),
    "Broker-J 0-9-1": (start_broker_j, "0-9-1"),
}


class House:
    """A broker and two gateways before it."""

    def __init__(self, broker: Server, front: Server, other: Server) -> None:
        self.broker, self.front, self.other = broker, front, other


@pytest.fixture(scope="module", params=UPSTREAMS)
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    start, version = UPSTREAMS[request.param]
    folder = tmp_path_factory.mktemp("house")
    started = [start(folder / "broker")]
    try:
        for name in ("one", "two"):
            more = f'version = "{version}"'
            started.append(servers.start_facade(folder / name, started[0], more=more))
        yield House(*started)
        for server in started[1:]:
            log = server.log.read_text()
            assert "Traceback" not in log, log[log.find("Traceback") :]
    finally:
        for server in reversed(started):
            server.stop()


def entered(server: Server) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port))


def soon(attempt: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := attempt()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def conversation(asking: Server, answering: Server, queue: str) -> list[Any]:
    """A request, its answer, and what an answerer is told whose client has gone."""
    asker, answerer = entered(asking), entered(answering)
    found: list[Any] = []
    channel = asker.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    replies: list[Any] = []
    channel.basic_consume(
        REPLY_TO, lambda _, __, given, body: replies.append((given, body)), auto_ack=True
    )
    wanted = pika.BasicProperties(reply_to=REPLY_TO, correlation_id="7")
    channel.basic_publish("", queue, b"ask", wanted, mandatory=True)
    there = answerer.channel()
    there.confirm_delivery()
    _, given, body = soon(lambda: taken(there, queue))
    place = given.reply_to
    found.append((body, place != REPLY_TO))
    found.append(there.queue_declare(place, passive=True).method.queue == place)
    for n in range(3):
        answer = pika.BasicProperties(correlation_id=given.correlation_id)
        # RabbitMQ itself takes no place for direct replies for a queue.
        there.basic_publish("", place, b"%d" % n, answer, mandatory=asking.name != "rabbitmq")
    deadline = time.monotonic() + PATIENCE
    while len(replies) < 3 and time.monotonic() < deadline:
        asker.process_data_events(0.1)
    found.append([(one.correlation_id, body) for one, body in replies])
    asker.close()
    soon(lambda: unroutable(there, place))
    # Broker-J routes no more to a queue that it still finds for a moment.
    found.append(soon(lambda: refusal(there, place)))
    answerer.close()
    return found


def refusal(channel: Any, place: str) -> int | None:
    """With what code a queue is refused; ``None`` if it is there."""
    try:
        channel.queue_declare(place, passive=True)
    except pika.exceptions.ChannelClosedByBroker as closed:
        return int(closed.reply_code)
    return None


def taken(channel: Any, queue: str) -> Any:
    got = channel.basic_get(queue, auto_ack=True)
    return got if got[0] is not None else None


def unroutable(channel: Any, place: str) -> bool:
    try:
        channel.basic_publish("", place, b"late", mandatory=True)
    except (pika.exceptions.UnroutableError, pika.exceptions.NackError):
        return True  # Broker-J refuses it in 0-9-1, by the end of the connection
    return False


def test_over_two_gateways(house: House) -> None:
    """As with RabbitMQ itself, also if the answerer is at the broker."""
    expected = [
        (b"ask", True),
        True,
        [("7", b"0"), ("7", b"1"), ("7", b"2")],
        404,
    ]
    assert conversation(house.front, house.other, "asked") == expected
    assert conversation(house.front, house.front, "asked") == expected
    if house.broker.name == "rabbitmq":
        assert conversation(house.front, house.broker, "asked") == expected
        assert conversation(house.broker, house.broker, "asked") == expected


def test_a_client_of_1_0_asks(house: House) -> None:
    """A dynamic source as RabbitMQ's clients of 1.0 ask for it; it is answered with pika."""
    pytest.importorskip("proton", reason="Proton, the client, is not installed")
    from proton import Link, Message, symbol
    from proton.reactor import ReceiverOption
    from proton.utils import BlockingConnection

    class Volatile(ReceiverOption):  # type: ignore[misc]
        def apply(self, receiver: Any) -> None:
            receiver.source.capabilities.put_symbol(symbol("rabbitmq:volatile-queue"))
            receiver.snd_settle_mode = Link.SND_SETTLED

    answerer = entered(house.other)
    channel = answerer.channel()
    channel.queue_declare("asked-1.0", durable=True)
    channel.confirm_delivery()
    url = f"amqp://guest:guest@{house.front.host}:{house.front.port}"
    asker = BlockingConnection(url, timeout=PATIENCE, allowed_mechs="PLAIN")
    receiver = asker.create_receiver(None, dynamic=True, credit=10, options=[Volatile()])
    address = receiver.link.remote_source.address
    sender = asker.create_sender("/queues/asked-1.0")
    sender.send(Message(body="ask", reply_to=address, durable=True))
    _, given, _ = soon(lambda: taken(channel, "asked-1.0"))
    place = given.reply_to.removeprefix("/queues/")
    channel.basic_publish("", place, b"answer", mandatory=True)
    assert bytes(receiver.receive(PATIENCE).body) == b"answer"
    receiver.close()
    asker.close()
    soon(lambda: unroutable(channel, place))
    answerer.close()
