"""The drafts of 2005 beside our own 0-9-1: there is no other implementation.

Messages of 256 octets with content type, identifier and one header, each written as its version
does. *decode* is the work of the server's adapter for a publish, *encode* that for a
delivery to a client of the same version, *publish to consume* all of it in one process: client,
server, broker, server, client, with the octets between them but without sockets or disk. All
messages have the same header, or each has an identifier of its own: *varying*. That is more
headers than any cache holds.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any

from benchmarks.codec import BATCH, Anybody, Work, collector, rate
from benchmarks.rows import Row, compare
from benchmarks.servers import Failed

GROUP = "codec 2005"
VERSIONS = ("0.8a2", "0-9a0", "0-9a6", "0-8", "0-9", "0-10")
KINDS = (
    "decode",
    "decode varying",
    "encode",
    "publish to consume",
    "publish to consume varying",
)
BASE = "0-9-1"
BODY = bytes(256)
QUEUE = "bench"


OWN = {"0-9a0": "0-9a0-jms", "0-9a6": "0-9a6-jms", "0-8": "0-9-1", "0-9": "0-9-1"}
"""Dialects that are not called as their version is."""
JMS = ("0-9a0", "0-9a6")
"""Versions whose messages say where they go."""
TURNS = 10
"""Of each side in one repeat."""
BLOCKS = 40
"""Of varying messages."""


def messages(version: str, count: int) -> list[Any]:
    """So many messages of a client of this version, no two with the same header."""
    from gateway.message import DIALECTS, Message, Properties

    dialect = DIALECTS[OWN.get(version, version)]
    made = []
    for number in range(count):
        header = dialect.write(
            Properties(
                content_type="text/plain",
                message_id=f"m-{number}",
                application={"colour": "red"},
                to=QUEUE if version in JMS else None,
            )
        )
        made.append(Message(dialect, header, BODY, "", QUEUE, dialect.essentials(header)))
    return made


def batches(version: str, varying: bool) -> list[list[Any]]:
    if varying:
        made = messages(version, BLOCKS * BATCH)
        return [made[at : at + BATCH] for at in range(0, len(made), BATCH)]
    return [messages(version, 1) * BATCH]


class House:
    """A broker in memory with one queue, and a client of a version on it. The broker may be that of
    another house, which is ``beside`` it."""

    def __init__(self, version: str, beside: "House | None" = None) -> None:
        from gateway.adapters import Credentials, Product, Role, adapter_for
        from gateway.broker.broker import Broker
        from gateway.broker.memory_store import MemoryStore
        from gateway.operations import BeginSession, DeclareQueue, Open
        from gateway.sessions.registry import SessionRegistry
        from gateway.sessions.session import Session

        if beside is None:
            self.store = MemoryStore(False)
            self.broker = Broker(self.store, now=1)
            self.broker.access.set_permissions("guest", "/", ".*", ".*", ".*")
            self._make(DeclareQueue(1, None, QUEUE))
        else:
            self.store, self.broker = beside.store, beside.broker
        self.server = adapter_for(version, Role.SERVER, authority=Anybody())
        self.session = Session(
            self.broker,
            self.server,
            SessionRegistry(),
            address="bench",
            loopback=True,
            since=0,
        )
        self.client = adapter_for(
            version,
            Role.CLIENT,
            credentials=Credentials("guest", "guest"),
            product=Product(name="bench"),
        )
        self.ask(Open("open", "/", "guest"))
        self.ask(BeginSession(1, "begin"))

    def _make(self, declare: Any) -> None:
        client = self.broker.attach("/", "guest", "maker")
        client.channel(1, Nobody()).topology.declare_queue(declare)
        client.close()

    def turn(self) -> list[Any]:
        """Run until both are idle; the operations that the client has found."""
        found: list[Any] = []
        while True:
            up = b"".join(self.client.output())
            self.serve(up)
            down = b"".join(self.server.output())
            if down:
                found += self.client.receive(down)
            found += self.client.found()
            if not up and not down:
                return found

    def serve(self, octets: bytes) -> None:
        """One turn of the gateway with octets of the client."""
        if octets:
            self.session.perform(self.server.receive(octets))
        self.session.perform(self.server.found())
        self.broker.end_turn()
        batch = self.store.take()
        if batch is not None:
            self.broker.committed(batch.mark)

    def ask(self, operation: Any) -> None:
        from gateway.operations import Done

        self.client.send(operation)
        if not any(isinstance(one, Done) and one.token == operation.token for one in self.turn()):
            raise Failed(f"{self.client.version}: no answer to {type(operation).__name__}")


class Nobody:
    """Is told nothing that it cares for."""

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Any) -> None: ...

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None: ...

    def returned(self, message: Any, condition: Any, text: str) -> None: ...

    def cancelled(self, tag: str) -> None: ...


def published(operations: list[Any]) -> int:
    """Messages in these operations: an operation has one, or those of a run."""
    from gateway.operations import PublishMany, SendMany

    runs = [one.many if isinstance(one, SendMany) else one for one in operations]
    return sum(len(one.messages) if isinstance(one, PublishMany) else 1 for one in runs)


def decoding(version: str, varying: bool = False) -> Work:
    """Octets of publishes -> operations. The broker is not told."""
    from gateway.operations import Publish

    house = House(version)
    house.client.send(Publish(1, messages(version, 1)[0], False, False))
    house.turn()  # the first may open its links
    blocks = []
    for batch in batches(version, varying):
        for message in batch:
            house.client.send(Publish(1, message, False, False))
        blocks.append(b"".join(house.client.output()))
    receive, turns = house.server.receive, cycle(blocks)
    if published(receive(blocks[0])) < BATCH:
        raise Failed(f"{version}: not every publish was found")
    return lambda: receive(next(turns))


def encoding(version: str) -> Work:
    """Deliveries of a message that came in the same version -> octets."""
    from gateway.operations import Publish, Subscribe

    house = House(version)
    house.client.send(Publish(1, messages(version, 1)[0], False, False))
    house.turn()
    queue = house.broker.vhosts["/"].queues[QUEUE]
    consumer: list[tuple[str, Any]] = []
    deliver = house.server.outlet(1).deliver

    def spy(tag: str, delivery: int, redelivered: bool, found: Any) -> None:
        consumer.append((tag, found))
        deliver(tag, delivery, redelivered, found)

    house.session.channels[1].recipient.deliver = spy  # type: ignore[method-assign]
    house.ask(Subscribe(1, "consume", QUEUE, "mine", no_ack=True))
    if not consumer or queue.depth:
        raise Failed(f"{version}: nothing was delivered")
    tag, found = consumer[0]

    def work() -> list[bytes]:
        for number in range(1, BATCH + 1):
            deliver(tag, number, False, found)
        output: list[bytes] = house.server.output()
        return output

    return work


def passing(version: str, varying: bool = False) -> Work:
    """Published by a client, taken by the same client."""
    from gateway.operations import Deliver, Publish, Subscribe

    house = House(version)
    house.ask(Subscribe(1, "consume", QUEUE, "mine", no_ack=True))
    turns = cycle(batches(version, varying))
    send = house.client.send

    def work() -> None:
        for message in next(turns):
            send(Publish(1, message, False, False))
        found = house.turn()
        if sum(isinstance(one, Deliver) for one in found) != BATCH:
            raise Failed(f"{version}: not every message came back")

    return work


MAKERS: dict[str, Callable[[str], Work]] = dict(
    zip(
        KINDS,
        (
            decoding,
            partial(decoding, varying=True),
            encoding,
            passing,
            partial(passing, varying=True),
        ),
        strict=True,
    )
)


def row(kind: str, version: str, seconds: float, repeat: int) -> Row:
    found = Row(GROUP, f"{kind}, {version}", "msg/s", against=f"our {BASE}")
    rates: tuple[list[float], list[float]] = ([], [])
    try:
        works = MAKERS[kind](version), MAKERS[kind](BASE)
    except Failed as why:
        found.note = str(why)
        return found
    for _ in range(repeat):
        best = [0.0, 0.0]
        for turn in range(2 * TURNS):  # short ones, so that neighbours disturb both alike
            best[turn % 2] = max(best[turn % 2], rate(works[turn % 2], seconds / TURNS))
        for figure, figures in zip(best, rates, strict=True):
            figures.append(figure)
    return compare(found, *rates)


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    with collector():
        for kind in KINDS:
            for version in VERSIONS:
                if wanted(f"{GROUP} {kind} {version}"):
                    yield row(kind, version, 0.1 if quick else 0.5, repeat)
