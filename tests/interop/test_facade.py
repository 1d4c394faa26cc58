"""Facades before brokers nobody here wrote, with clients nobody here wrote."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.test_facade import run
from tests.bridge.test_facade_faults import VERSIONS, busy, declared, with_faults
from tests.bridge.traffic import Traffic
from tests.interop import brokers, servers
from tests.interop.rehearsal.book import Book
from tests.interop.rehearsal.clients import HttpProducer, LeaseConsumer
from tests.interop.rehearsal.topology import Reader, plain
from tests.interop.restarts import LINES, Restartable, checks, compare, java
from tests.interop.servers import Server
from tests.interop.test_qpid_jms import EXPECTED as QPID_JMS
from tests.interop.test_qpid_jms import SOURCE

pytestmark = pytest.mark.interop

COUNT = 30
PATIENCE = 60.0


@pytest.fixture(scope="module")
def front(rabbitmq: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A facade before RabbitMQ."""
    server = servers.start_facade(tmp_path_factory.mktemp("front"), rabbitmq)
    try:
        yield server
        assert "Traceback" not in server.log.read_text()
    finally:
        server.stop()


def soon(attempt: Callable[[], Any]) -> Any:
    """Try until there is something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := attempt()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


class Talk:
    """A conversation of pika with a broker, each step on a connection of its own; ``refused`` are
    what the steps that should fail were told."""

    def __init__(self, server: Server, prefix: str) -> None:
        self.server = server
        self.prefix = prefix

    def step(self, act: Callable[[Any], Any]) -> Any:
        """What a step on a channel gives, or how the broker ended it; prefixes of names are left
        out."""
        import pika
        from pika import exceptions

        parameters = pika.ConnectionParameters(self.server.host, self.server.port)
        connection = pika.BlockingConnection(parameters)
        try:
            found = act(connection.channel())
        except (exceptions.ChannelClosedByBroker, exceptions.ConnectionClosedByBroker) as error:
            found = type(error).__name__, error.reply_code, error.reply_text
        finally:
            if connection.is_open:
                connection.close()
        return re.sub(rf"{self.prefix}|gen-[\w-]+|amq\.gen-[\w-]+", "", repr(found))

    def name(self, kind: str) -> str:
        return f"{self.prefix}{kind}"

    def prepare(self, channel: Any) -> Any:
        dead, letters = self.name("dead"), self.name("letters")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        made = channel.queue_declare(self.name("queue"), durable=True).method
        channel.queue_declare(dead, durable=True)
        channel.queue_declare(letters, durable=True, arguments=arguments)
        channel.exchange_declare(self.name("topics"), "topic", durable=True)
        channel.queue_bind(letters, self.name("topics"), "a.*.b")
        return made.message_count, made.consumer_count

    def publish(self, channel: Any) -> Any:
        import pika

        channel.confirm_delivery()
        for n in range(COUNT):
            properties = pika.BasicProperties(delivery_mode=2, headers={"n": n, "t": f"ü{n}"})
            channel.basic_publish("", self.name("queue"), b"%d" % n, properties, mandatory=True)
        for n in range(3):
            channel.basic_publish(self.name("topics"), f"a.{n}.b", b"%d" % n, mandatory=True)
        again = channel.queue_declare(self.name("queue"), passive=True).method
        return again.message_count, again.consumer_count

    def return_unroutable(self, channel: Any) -> Any:
        from pika.exceptions import UnroutableError

        channel.confirm_delivery()
        with pytest.raises(UnroutableError) as found:
            channel.basic_publish("", self.name("nowhere"), b"x", mandatory=True)
        returned = found.value.messages[0]
        return returned.method.reply_code, returned.method.reply_text, returned.body

    def get(self, channel: Any) -> Any:
        first, _, body = channel.basic_get(self.name("queue"))
        channel.basic_nack(first.delivery_tag, requeue=True)
        again, properties, same = channel.basic_get(self.name("queue"), auto_ack=True)
        counts = first.redelivered, first.message_count, again.redelivered, again.message_count
        return counts, body, same, properties.headers, again.exchange, again.routing_key

    def consume(self, channel: Any) -> Any:
        channel.basic_qos(prefetch_count=4)
        found = []
        for method, properties, body in channel.consume(self.name("queue"), inactivity_timeout=60):
            found.append((body, method.redelivered, properties.headers))
            if len(found) == 3:
                channel.basic_reject(method.delivery_tag, requeue=False)
            else:
                channel.basic_ack(method.delivery_tag)
            if len(found) == COUNT - 1:
                break
        channel.cancel()
        return found, channel.basic_get(self.name("queue"))

    def dead_letter(self, channel: Any) -> Any:
        method, _, _ = channel.basic_get(self.name("letters"))
        channel.basic_reject(method.delivery_tag, requeue=False)
        found = soon(lambda: channel.basic_get(self.name("dead"))[0] and True)
        channel.basic_recover(requeue=True)
        _, properties, body = soon(lambda: taken(channel, self.name("dead")))
        death = properties.headers["x-death"][0]
        return found, body, death["reason"], death["queue"], death["routing-keys"], death["count"]

    def transaction(self, channel: Any) -> Any:
        """Publishes and acknowledgements are there after the commit, and not before."""
        returned: list[Any] = []
        work, done = self.name("work"), self.name("done")
        for name in (work, done):
            channel.queue_declare(name, durable=True)

        def counts() -> list[int]:
            found = [channel.queue_declare(name, passive=True).method for name in (work, done)]
            return [one.message_count for one in found]

        channel.add_on_return_callback(lambda *found: returned.append((found[1], found[3])))
        channel.tx_select()
        channel.basic_publish("", work, b"never")
        channel.tx_rollback()
        for n in range(3):
            channel.basic_publish("", work, b"%d" % n, mandatory=True)
        channel.basic_publish("", self.name("nowhere"), b"back", mandatory=True)
        seen = [counts()]
        channel.tx_commit()
        seen.append(counts())
        found: list[bytes] = []
        for method, _, body in channel.consume(work, inactivity_timeout=60):
            channel.basic_publish("", done, body)
            channel.basic_ack(method.delivery_tag)
            if not found:
                channel.tx_rollback()
                channel.basic_publish("", done, body)
                channel.basic_ack(method.delivery_tag)
            channel.tx_commit()
            found.append(body)
            if len(found) == 3:
                break
        channel.cancel()
        channel.tx_commit()
        seen.append(counts())
        method, _, body = channel.basic_get(done)
        channel.basic_nack(method.delivery_tag, requeue=False)
        channel.tx_commit()
        seen.append(counts())
        channel.connection.process_data_events(0)
        told = [(one.reply_code, one.reply_text, one.routing_key, what) for one, what in returned]
        return (
            seen,
            found,
            told,
            [channel.queue_delete(name).method.message_count for name in (work, done)],
        )

    def own_queue(self, channel: Any) -> Any:
        """An exclusive queue named by the broker, which others may not use."""
        name = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(name, "amq.fanout")
        channel.basic_publish("amq.fanout", "k", b"f")
        method, _, body = soon(lambda: taken(channel, name))
        told = [
            self.step(lambda other: other.queue_declare(name, passive=True)),
            self.step(lambda other: other.basic_consume(name, print)),
            self.step(lambda other: other.queue_delete(name)),
        ]
        return method.exchange, method.routing_key, body, [one.replace(name, "") for one in told]

    def exclusive_consumer(self, channel: Any) -> Any:
        channel.basic_consume(self.name("queue"), print, exclusive=True)
        return self.step(lambda other: other.basic_consume(self.name("queue"), print))

    def cancelled(self, channel: Any) -> Any:
        """The queue is deleted by another connection."""
        told: list[str] = []
        name = self.name("doomed")
        channel.queue_declare(name)
        channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
        channel.basic_consume(name, print, consumer_tag="tag")
        self.step(lambda other: other.queue_delete(name))
        soon(lambda: channel.connection.process_data_events(0.05) or told)
        return told

    def clean(self, channel: Any) -> Any:
        purged = channel.queue_purge(self.name("dead")).method.message_count
        left = [
            channel.queue_delete(self.name(kind)).method.message_count
            for kind in ("queue", "dead", "letters")
        ]
        channel.exchange_delete(self.name("topics"))
        return purged, left


def taken(channel: Any, queue: str) -> Any:
    found = channel.basic_get(queue, auto_ack=True)
    return found if found[0] is not None else None


STEPS = (
    "prepare", "publish", "return_unroutable", "get", "consume", "dead_letter", "own_queue",
    "exclusive_consumer", "cancelled", "transaction",
)  # fmt: skip
REFUSED: dict[str, Callable[[Talk, Any], Any]] = {
    "passive queue": lambda t, ch: ch.queue_declare(t.name("missing"), passive=True),
    "passive exchange": lambda t, ch: ch.exchange_declare(t.name("missing"), passive=True),
    "other queue": lambda t, ch: ch.queue_declare(t.name("queue")),
    "other exchange": lambda t, ch: ch.exchange_declare(t.name("topics"), "fanout", durable=True),
    "other arguments": lambda t, ch: ch.queue_declare(
        t.name("queue"), durable=True, arguments={"x-max-length": 3}
    ),
    "wrong arguments": lambda t, ch: ch.queue_declare("w", arguments={"x-max-length": -3}),
    "reserved queue": lambda t, ch: ch.queue_declare("amq.mine"),
    "reserved exchange": lambda t, ch: ch.exchange_declare("amq.mine"),
    "unknown type": lambda t, ch: ch.exchange_declare(t.name("new"), "nonesuch"),
    "consume": lambda t, ch: ch.basic_consume(t.name("missing"), print),
    "get": lambda t, ch: ch.basic_get(t.name("missing")),
    "bind queue": lambda t, ch: ch.queue_bind(t.name("missing"), "amq.topic", "k"),
    "bind exchange": lambda t, ch: ch.queue_bind(t.name("queue"), t.name("missing"), "k"),
    "bind default": lambda t, ch: ch.queue_bind(t.name("queue"), "", "k"),
    "purge": lambda t, ch: ch.queue_purge(t.name("missing")),
    "commit without select": lambda t, ch: ch.tx_commit(),
    "confirms in a transaction": lambda t, ch: (ch.tx_select(), ch.confirm_delivery()),
    "a transaction with confirms": lambda t, ch: (ch.confirm_delivery(), ch.tx_select()),
    "exchange in a transaction": lambda t, ch: (
        ch.tx_select(),
        ch.basic_publish(t.name("missing"), "k", b"x"),
        ch.tx_commit(),
    ),
    "delete full": lambda t, ch: ch.queue_delete(t.name("letters"), if_empty=True),
    "delete default": lambda t, ch: ch.exchange_delete(""),
}


def test_pika_sees_what_it_sees_at_rabbitmq(rabbitmq: Server, front: Server) -> None:
    """The same conversation with both: deliveries, counts, codes and texts."""
    pytest.importorskip("pika")
    direct, over = Talk(rabbitmq, "direct-"), Talk(front, "facade-")
    for step in STEPS:
        seen = [talk.step(getattr(talk, step)) for talk in (direct, over)]
        assert seen[1] == seen[0], step
    for what, act in REFUSED.items():
        told = [talk.step(partial(act, talk)) for talk in (direct, over)]
        assert "Closed" in told[0], what
        assert told[1] == told[0], what
    assert over.step(over.clean) == direct.step(direct.clean)


def test_a_refused_type_of_exchange_costs_nobody_else(front: Server) -> None:
    """RabbitMQ ends the connection over it; a consumer keeps its unsettled delivery."""
    pytest.importorskip("pika")
    talk = Talk(front, "kept-")

    def hold(channel: Any) -> Any:
        channel.queue_declare("kept", exclusive=True)
        channel.basic_publish("", "kept", b"x")
        method, _, _ = next(channel.consume("kept", inactivity_timeout=PATIENCE))
        refused = talk.step(lambda other: other.exchange_declare("kept", "x-nonesuch"))
        channel.basic_ack(method.delivery_tag)
        channel.cancel()
        return refused, channel.basic_get("kept")

    assert "503" in (told := talk.step(hold))
    assert told.endswith("(None, None, None))")


def test_the_upstream_over_tls(tmp_path: Path) -> None:
    pytest.importorskip("pika")
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    broker = servers.start_rabbitmq(tmp_path / "broker", tls=True)
    try:
        assert broker.certificates is not None
        address = f'addresses = ["amqps://localhost:{broker.amqps_port}"]'
        front = servers.start_facade(
            tmp_path / "front", broker, more=f'{address}\nca = "{broker.certificates.ca}"'
        )
        try:
            talk = Talk(front, "tls-")
            talk.step(talk.prepare)
            assert talk.step(talk.publish) == f"({COUNT}, 0)"
        finally:
            front.stop()
    finally:
        broker.stop()


# --- Qpid's clients and brokers ------------------------------------------------------------------

JMS = ("properties", "kinds", "client_acknowledge", "transactions", "request_reply", "many")
"""What Qpid's client for 0-x can do over a facade."""


@pytest.mark.timeout(400)
def test_qpid_jms_before_broker_j(tmp_path: Path) -> None:
    if reason := brokers.broker_j_missing():
        pytest.skip(reason)
    command = java("qpid-client", "qpid-client", [SOURCE, LINES])
    command[1:1] = ["-Dqpid.amqp.version=0-10", "-Dqpid.sync_op_timeout=10000"]
    broker = brokers.start_broker_j(tmp_path / "broker")
    try:
        front = servers.start_facade(tmp_path / "front", broker, more='version = "0-10"')
        try:
            target = Restartable(front, lambda before: before)
            seen = checks([*command, front.host, str(front.port)], target, tmp_path)
            for check in JMS:
                compare(seen, check, QPID_JMS[check])
        finally:
            front.stop()
    finally:
        broker.stop()


def test_pika_before_broker_j_in_0_9(tmp_path: Path) -> None:
    pytest.importorskip("pika")
    if reason := brokers.broker_j_missing():
        pytest.skip(reason)
    broker = brokers.start_broker_j(tmp_path / "broker")
    try:
        front = servers.start_facade(tmp_path / "front", broker, more='version = "0-9"')
        try:

            def use(channel: Any) -> Any:
                channel.confirm_delivery()
                channel.queue_declare("plain", durable=True)
                channel.exchange_declare("topics", "topic")
                channel.queue_bind("plain", "topics", "a.#")
                for n in range(COUNT):
                    channel.basic_publish("topics", "a.b", b"%d" % n, mandatory=True)
                channel.basic_qos(prefetch_count=3)
                found = []
                for method, _, body in channel.consume("plain", inactivity_timeout=PATIENCE):
                    channel.basic_ack(method.delivery_tag)
                    found.append(body)
                    if len(found) == COUNT:
                        break
                channel.cancel()
                return found, channel.queue_delete("plain").method.message_count

            talk = Talk(front, "none-")
            assert talk.step(use) == repr(([b"%d" % n for n in range(COUNT)], 0))
        finally:
            front.stop()
    finally:
        broker.stop()


def test_pika_and_proton_before_artemis(tmp_path: Path) -> None:
    """Published with pika, received with Proton, and back; the queue is one of Artemis."""
    pytest.importorskip("pika")
    proton = pytest.importorskip("proton")
    from proton.utils import BlockingConnection

    if reason := brokers.artemis_missing():
        pytest.skip(reason)
    broker = brokers.start_artemis(tmp_path / "broker")
    try:
        front = servers.start_facade(tmp_path / "front", broker, more='version = "1.0"')
        try:
            talk = Talk(front, "queue.")
            url = f"amqp://guest:guest@{front.host}:{front.port}"
            wire = BlockingConnection(url, timeout=PATIENCE, allowed_mechs="PLAIN")

            def publish(channel: Any) -> Any:
                channel.confirm_delivery()
                for n in range(COUNT):
                    channel.basic_publish("", "queue.over", b"%d" % n)

            talk.step(publish)
            receiver = wire.create_receiver("queue.over", credit=5)
            for n in range(COUNT):
                assert bytes(receiver.receive(PATIENCE).body) == b"%d" % n
                receiver.accept()
            sender = wire.create_sender("queue.back")
            for n in range(COUNT):
                sender.send(proton.Message(body=b"%d" % n, durable=True))
            wire.close()

            def consume(channel: Any) -> list[bytes]:
                found = []
                channel.basic_qos(prefetch_count=7)
                for method, _, body in channel.consume("queue.back", inactivity_timeout=PATIENCE):
                    found.append(body)
                    channel.basic_ack(method.delivery_tag)
                    if len(found) == COUNT:
                        return found
                return found

            assert talk.step(consume) == repr([b"%d" % n for n in range(COUNT)])
        finally:
            front.stop()
    finally:
        broker.stop()


def test_leases_before_artemis(tmp_path: Path) -> None:
    """Each receive that waits has a subscription of its own there, whose message may be settled
    before its end."""
    if reason := brokers.artemis_missing():
        pytest.skip(reason)
    broker = brokers.start_artemis(tmp_path / "broker")
    try:
        front = servers.start_facade(tmp_path / "front", broker, more='version = "1.0"')
        try:
            reader = LeaseConsumer(Reader("leased", "lease"), front.http_port or 0, Book())
            producer = HttpProducer(plain("http", "leased"), front.http_port or 0, reader.book)
            for one in (reader, producer):
                one.start()
            soon(lambda: reader.book.failures or len(reader.book.taken["leased"]) >= 3 * COUNT)
            for one in (producer, reader):
                one.stop()
                one.join(PATIENCE)
            # A message that comes when its receive has just ended goes back, behind the next.
            assert reader.book.faults(set()) == []
            assert "WARNING" not in front.log.read_text()
        finally:
            front.stop()
    finally:
        broker.stop()


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_rabbitmq_is_killed(tmp_path: Path) -> None:
    """With publishers and consumers of 0-9-1 and 1.0, which stay connected; nothing confirmed is
    lost."""
    if reason := servers.rabbitmq_missing():
        pytest.skip(reason)
    broker = servers.start_rabbitmq(tmp_path / "broker")
    front = servers.start_facade(tmp_path / "front", broker)
    found = [broker]
    try:
        traffic = Traffic("work", [front.port], VERSIONS)

        async def faults() -> int:
            await busy(traffic)
            await asyncio.to_thread(broker.kill)
            found[0] = await asyncio.to_thread(
                servers.start_rabbitmq, tmp_path / "broker", port=broker.port
            )
            await busy(traffic)
            return 1

        run(declared(front.port, "work"))
        with_faults(traffic, faults)
        assert traffic.reconnects == 0
        assert "Traceback" not in front.log.read_text()
    finally:
        front.stop()
        found[0].stop()
