"""All the clients together."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Self

from tests.interop import brokers
from tests.interop.rehearsal.book import Book
from tests.interop.rehearsal.clients import (
    CONSUMERS,
    OVER_HTTP,
    PATIENCE,
    PRODUCERS,
    Consumer,
    PikaConsumer,
    PikaProducer,
    Producer,
    RemoteConsumer,
    RemoteProducer,
)
from tests.interop.rehearsal.topology import FLOWS, READERS, Flow, Reader
from tests.net.running import until


class Traffic:
    """Clients at a gateway. Use as a context manager: they begin, and are stopped at the end."""

    def __init__(
        self,
        port: int,
        http_port: int | None,
        flows: Sequence[Flow] = FLOWS,
        readers: Sequence[Reader] = READERS,
    ) -> None:
        self.book = Book()
        self.port = port
        ports = {version: http_port for version in OVER_HTTP}
        self.producers: list[Producer] = [
            PRODUCERS.get(one.version, RemoteProducer)(one, ports.get(one.version, port), self.book)
            for one in flows
        ]
        self.consumers: list[Consumer] = [
            CONSUMERS.get(one.version, RemoteConsumer)(one, ports.get(one.version, port), self.book)
            for one in map(possible, readers)
        ]
        counted = Counter(one.queue for one in readers)
        leased = {one.queue for one in readers if one.version == "lease"}
        self.single = {queue for queue, count in counted.items() if count == 1} - leased
        """Queues that one consumer alone reads. A receive that waits is a consumer of its own, and
        may give back what comes too late for its answer."""

    def __enter__(self) -> Self:
        for consumer in self.consumers:
            consumer.start()
        self.until(lambda: all(one.ready.is_set() for one in self.consumers), "consumers")
        for producer in self.producers:
            producer.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self.producers, *self.consumers):
            one.stop()
        for one in (*self.producers, *self.consumers):
            if one.is_alive():
                one.join(PATIENCE)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition, or for the first failure."""
        try:
            until(lambda: self.book.failures or condition(), what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.progress()}") from None
        assert not self.book.failures, self.book.failures

    def progress(self) -> str:
        confirmed, taken = self.book.counts()
        sent = {one.name: (one.sent, one.confirmed) for one in self.producers}
        return f"sent and confirmed {sent}, to come {confirmed}, taken {taken}"

    def goes_on(self, more: int = 5) -> None:
        """Each producer gets so many more confirms, and each queue so many more messages."""
        sent = [one.confirmed for one in self.producers]
        _, taken = self.book.counts()
        queues = {
            queue for one in self.producers for _, _, all_of in one.flow.places for queue in all_of
        }

        def further() -> bool:
            _, now = self.book.counts()
            return all(
                one.confirmed >= before + more
                for one, before in zip(self.producers, sent, strict=True)
            ) and all(
                now.get(queue, 0) >= taken.get(queue, 0) + more
                for queue in queues
                if any(one.queue == queue for one in self.consumers)
            )

        self.until(further, "traffic")

    def publish(self, queue: str, count: int) -> None:
        """So many messages to a queue, at once."""
        name = f"pika:{queue}"
        with PikaProducer.channel(self.port) as channel:
            for number in range(count):
                PikaProducer.publish(channel, "", queue, name, number)
                self.book.confirm(name, number, (queue,))

    def read(self, queue: str) -> None:
        """A further consumer."""
        reader = PikaConsumer(Reader(queue, "pika"), self.port, self.book)
        self.consumers.append(reader)
        self.single.add(queue)
        reader.start()

    def drain(self) -> None:
        """Stop the producers, and wait until everything that was confirmed has come."""
        for one in self.producers:
            one.stop()
        for one in self.producers:
            one.join(PATIENCE)
            assert not one.is_alive(), one.name
        with contextlib.suppress(AssertionError):  # the book says which have not come
            until(lambda: not self.book.missing(), "messages")

    def faults(self) -> list[str]:
        return self.book.faults(self.single)


def possible(reader: Reader) -> Reader:
    """The gateway's own client, where there is no JMS client."""
    if reader.version == "jms" and brokers.java_missing("qpid-client", "qpid-client"):
        return reader._replace(version="0-10")
    return reader
