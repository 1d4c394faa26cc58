"""From a client of one version to a client of another, for every ordered pair of versions.

What is counted is the processor time of the gateway alone: the server's adapter reads what a client
of one version has published, the broker routes it, and the adapter of another connection writes it
for a client of another version, with the octets between them but without sockets or disk. The
clients, which are ours too, are not counted. It is compared with the mean of what the two versions
cost among themselves, measured in turns with it.

No two messages are alike: each has a message id, a timestamp, a trace header and a number of its
own, and bodies differ in size and content. All values exist in every version (numbers have 32
bits), so that no message needs a capsule. Before the clock starts, more messages have passed than
it takes until their shape is known. The order and the content of every 64th are checked at the end.
"""

import statistics
from collections.abc import Callable, Iterator
from itertools import count
from time import process_time
from typing import Any
from uuid import UUID

from benchmarks.codec import collector
from benchmarks.codec_2005 import JMS, OWN, QUEUE, House
from benchmarks.crossing import BEGAN, trace
from benchmarks.rows import Row, compare
from benchmarks.servers import Failed

GROUP = "pairs"
VERSIONS = (
    "0.8a2", "0-9a0", "0-9a6", "0-8", "0-9", "0-9-1", "0-10-07-24", "0-10-07-27", "0-10", "1.0",
)  # fmt: skip
AIM = 0.5
"""A pair may cost twice as much as its versions cost among themselves."""
BLOCK = 200
"""Messages of one turn of the gateway: a read of 100 KiB or so."""
WARM_BLOCKS = 2
NUMBERS = count()
"""Of messages, in all passages: the caches of the adapters are those of the process."""
EVERY = 64
"""Of the messages, one in so many is compared with what was published."""
KEPT_AS = {"0-10-07-24": "0-9-1", "0-10-07-27": "0-9-1"}
"""Versions that keep their messages in the dialect of another."""


def dialect_of(version: str) -> Any:
    import gateway.adapters.registry  # noqa: F401
    from gateway.message import DIALECTS

    return DIALECTS[KEPT_AS.get(version, OWN.get(version, version))]


def message_of(version: str, number: int) -> Any:
    """A message of a client of this version, unlike all of other numbers."""
    from gateway.message import Message, Properties
    from gateway.values import Int

    dialect = dialect_of(version)
    uuid = identifier(number)
    header = dialect.write(
        Properties(
            durable=False,  # 0.8a2 has no message that does not say it
            priority=4,
            content_type="text/plain",
            message_id=uuid if version == "0-10" else str(uuid),
            creation_time=(BEGAN + number) * 1000,
            application={"number": Int(100_000 + number), "traceparent": trace(number)},
            to=QUEUE if version in JMS else None,
        )
    )
    return Message(dialect, header, body_of(number), "", QUEUE, dialect.essentials(header))


def identifier(number: int) -> UUID:
    return UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 & (1 << 128) - 1)


def body_of(number: int) -> bytes:
    """200 to 300 octets."""
    return (b"%d " % number * 100)[: 200 + number * 37 % 101]


def check(message: Any, number: int) -> None:
    """Raise ``Failed`` unless it is the message of this number."""
    properties = message.properties
    headers = properties.application or {}
    found = (
        bytes(message.body),
        str(properties.message_id).removeprefix("ID:"),
        properties.creation_time,
        headers.get("traceparent"),
        headers.get("number"),
    )
    times = (BEGAN + number) * 1000
    expected = (
        body_of(number), str(identifier(number)), times, trace(number), 100_000 + number,
    )  # fmt: skip
    if found != expected:
        raise Failed(f"{found} arrived in place of {expected}")


class Passage:
    """A publisher of one version, a consumer of another, and the broker between them."""

    def __init__(self, source: str, reader: str) -> None:
        from gateway.crossing.crossing import Crossing
        from gateway.operations import Subscribe

        self.source = source
        self.crossing = Crossing(b"k" * 32)
        self._publisher = House(source)
        self._consumer = House(reader, self._publisher)
        self._consumer.ask(Subscribe(1, "consume", QUEUE, "mine", no_ack=True))
        self.costs: list[float] = []
        """Seconds for each message, by block."""

    def run(self, blocks: int) -> None:
        """Pass so many blocks of messages. Raises ``Failed``."""
        from gateway.message import cross_with

        cross_with(self.crossing)
        self.costs += [self._block() / BLOCK for _ in range(blocks)]

    def _block(self) -> float:
        from gateway.operations import Deliver, Publish

        publisher, consumer = self._publisher, self._consumer
        numbers = [next(NUMBERS) for _ in range(BLOCK)]
        for number in numbers:
            message = message_of(self.source, number)
            publisher.client.send(Publish(1, message, False, False))
        spent = 0.0
        arrived: list[Any] = []
        while True:
            up = b"".join(publisher.client.output())
            back = b"".join(consumer.client.output())
            begun = process_time()
            publisher.serve(up)
            consumer.serve(back)
            down = b"".join(consumer.server.output())
            answer = b"".join(publisher.server.output())
            spent += process_time() - begun
            for house, octets in ((publisher, answer), (consumer, down)):
                found = house.client.receive(octets) if octets else []
                found += house.client.found()
                arrived += [one.message for one in found if isinstance(one, Deliver)]
            if not (up or back or down or answer):
                break
        if len(arrived) != BLOCK:
            raise Failed(f"{len(arrived)} of {BLOCK} messages arrived")
        for number, message in zip(numbers, arrived, strict=True):
            if not number % EVERY:
                check(message, number)
        return spent


def costs_of(pairs: list[tuple[str, str]], blocks: int, turns: int) -> dict[tuple[str, str], float]:
    """Seconds of the gateway for a message of each pair of versions, measured in turns: the least
    of all blocks. Raises ``Failed``."""
    passages = {pair: Passage(*pair) for pair in pairs}
    for passage in passages.values():
        passage.run(WARM_BLOCKS)
        passage.costs.clear()
    for _ in range(turns):
        for passage in passages.values():
            passage.run(blocks)
    return {pair: min(passage.costs) for pair, passage in passages.items()}


def row(source: str, versions: tuple[str, ...], blocks: int, repeat: int) -> Row:
    """The version that costs most as a reader of ``source``, with the ratios of all in the note."""
    pairs = [(source, reader) for reader in versions]
    pairs += [(reader, reader) for reader in versions if reader != source]
    found = Row(GROUP, f"from {source}", "msg/s", aim=AIM)
    try:
        runs = [costs_of(pairs, blocks, 3) for _ in range(repeat)]
    except Failed as why:
        found.note = str(why)
        return found
    others = [reader for reader in versions if reader != source]

    def own(costs: dict[tuple[str, str], float], reader: str) -> float:
        return (costs[source, source] + costs[reader, reader]) / 2

    def ratio(reader: str) -> float:
        return statistics.median(costs[source, reader] / own(costs, reader) for costs in runs)

    ratios = {reader: ratio(reader) for reader in others}
    worst = max(ratios, key=lambda reader: ratios[reader])
    found.against = "own dialects"
    found.name += f", worst to {worst}"
    times = ", ".join(f"{reader} {ratios[reader]:.2f}" for reader in others)
    found.note = f"times the cost of own dialects: {times}"
    found.detail = {
        reader: {"us": [1e6 * costs[source, reader] for costs in runs]} for reader in versions
    }
    return compare(
        found,
        [1 / costs[source, worst] for costs in runs],
        [1 / own(costs, worst) for costs in runs],
    )


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    with collector():
        for source in VERSIONS:
            if wanted(f"{GROUP} from {source}"):
                yield row(source, VERSIONS, 1 if quick else 3, repeat)
