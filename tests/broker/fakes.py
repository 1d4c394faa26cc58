"""Small real things to test the broker with: a dialect, a recipient, a house to stand in."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from gateway.broker.broker import Broker
from gateway.broker.channel import Channel
from gateway.broker.client import Client
from gateway.broker.limits import Limits
from gateway.broker.memory_store import MemoryStore
from gateway.broker.plain import read_plain, write_plain
from gateway.errors import Condition, Lost, Refusal
from gateway.message import Essentials, Message, Properties, Table
from gateway.operations import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    QueueState,
    Unbind,
)
from tests import in_memory


class JsonDialect:
    """Writes properties as JSON: easy to look at when a test fails."""

    name = "json"

    def essentials(self, header: bytes) -> Essentials:
        given = self.read(header)
        return Essentials(
            durable=bool(given.durable),
            priority=given.priority,
            ttl=given.ttl,
            user_id=given.user_id.decode() if given.user_id is not None else None,
            has_headers=bool(given.application),
        )

    def read(self, header: bytes) -> Properties:
        return Properties(**{k: read_plain(v) for k, v in json.loads(header or b"{}").items()})

    def write(self, properties: Properties) -> bytes:
        given = {name: write_plain(value) for name, value in properties.given().items()}
        return json.dumps(given).encode() if given else b""

    def with_headers(self, header: bytes, added: Table) -> bytes:
        properties = self.read(header)
        properties.application = {**(properties.application or {}), **added}
        return self.write(properties)

    def rewrite(self, header: bytes, properties: Properties) -> bytes:
        return self.write(properties)

    def everlasting(self, header: bytes) -> bytes:
        properties = self.read(header)
        properties.ttl = None
        return self.write(properties)


DIALECT = JsonDialect()


def message(body: str = "x", key: str = "", exchange: str = "", **properties: Any) -> Message:
    header = DIALECT.write(Properties(**properties))
    return Message(DIALECT, header, body.encode(), exchange, key, DIALECT.essentials(header))


class Heard:
    """A recipient that remembers everything, in order."""

    def __init__(self) -> None:
        self.deliveries: list[tuple[str, int, bool, Message]] = []
        self.confirms: list[tuple[int, bool, bool]] = []
        self.returns: list[tuple[Message, Condition, str]] = []
        self.cancels: list[str] = []
        self.log: list[str] = []

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        self.deliveries.append((consumer, delivery, redelivered, message))
        self.log.append("deliver")

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        self.confirms.append((sequence, multiple, accepted))
        self.log.append("confirm")

    def returned(self, message: Message, condition: Condition, text: str) -> None:
        self.returns.append((message, condition, text))
        self.log.append("returned")

    def cancelled(self, tag: str) -> None:
        self.cancels.append(tag)
        self.log.append("cancelled")

    def bodies(self) -> list[str]:
        return [in_memory.text(m) for _, _, _, m in self.deliveries]

    def tags(self) -> list[int]:
        return [tag for _, tag, _, _ in self.deliveries]

    def by_consumer(self, tag: str) -> list[str]:
        return [in_memory.text(m) for c, _, _, m in self.deliveries if c == tag]


class House:
    """A broker with one client and as many channels as asked for."""

    def __init__(
        self, store: MemoryStore | None = None, now: int = 1_000_000, **limits: Any
    ) -> None:
        self.store = store if store is not None else MemoryStore(volatile=False)
        self.broker = Broker(self.store, Limits(**limits), now)
        self.client = self.broker.attach("/", "guest", "test")
        self.count = 0
        self.commit()

    def channel(self, client: Client | None = None) -> tuple[Channel, Heard]:
        self.count += 1
        heard = Heard()
        return (client or self.client).channel(self.count, heard), heard

    def another(self, user: str = "guest") -> Client:
        return self.broker.attach("/", user, "another")

    def commit(self) -> None:
        """One turn and its commit, as the net would do it."""
        self.broker.end_turn()
        batch = self.store.take()
        if batch is not None:
            self.store.write(batch)
            self.broker.committed(batch.mark)
        self.broker.end_turn()

    def later(self, milliseconds: int) -> None:
        self.broker.state.tick(self.broker.state.now + milliseconds)

    def restart(self, **limits: Any) -> "House":
        return House(self.store.survivors(), self.broker.state.now, **limits)


def declare(channel: Channel, name: str = "q", **given: Any) -> QueueState:
    return channel.topology.declare_queue(DeclareQueue(channel.number, None, name, **given))


def limited(channel: Channel, name: str = "q", **arguments: Any) -> QueueState:
    """Declare with arguments: ``max_length=1`` is ``x-max-length``."""
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    return declare(channel, name, arguments=table)


def exchange(channel: Channel, name: str, type: str = "direct", **given: Any) -> None:
    channel.topology.declare_exchange(DeclareExchange(channel.number, None, name, type, **given))


def bind(channel: Channel, to: str, source: str, key: str = "", **given: Any) -> None:
    channel.topology.bind(Bind(channel.number, None, to, source, key, **given))


def unbind(channel: Channel, to: str, source: str, key: str = "", **given: Any) -> None:
    channel.topology.unbind(Unbind(channel.number, None, to, source, key, **given))


def delete_queue(channel: Channel, name: str, **given: Any) -> int:
    return channel.topology.delete_queue(DeleteQueue(channel.number, None, name, **given))


def delete_exchange(channel: Channel, name: str, **given: Any) -> None:
    channel.topology.delete_exchange(DeleteExchange(channel.number, None, name, **given))


def purge(channel: Channel, name: str) -> int:
    return channel.topology.purge_queue(PurgeQueue(channel.number, None, name))


def consume(channel: Channel, queue: str = "q", tag: str = "c", **given: Any) -> str:
    tag = channel.subscribe(queue, tag, **given)
    channel.start(tag)
    return tag


def put(channel: Channel, *bodies: str, key: str = "q", **properties: Any) -> None:
    for body in bodies:
        channel.publish(message(body, key, **properties))


def fetch_all(channel: Channel, queue: str = "q") -> list[str]:
    bodies = []
    while (fetched := channel.fetch(queue, True)) is not None:
        bodies.append(in_memory.text(fetched.message))
    return bodies


@contextlib.contextmanager
def refused(condition: Condition, text: str = "", lost: Lost = Lost.SESSION) -> Iterator[None]:
    """What is inside must be refused so; ``text`` is part of the refusal's."""
    try:
        yield
    except Refusal as refusal:
        assert (refusal.condition, refusal.lost) == (condition, lost), refusal.text
        assert text in refusal.text
    else:
        raise AssertionError("not refused")
