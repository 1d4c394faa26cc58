"""Producers and consumers of every kind. Each works on a thread and one connection of its own until
it is told to stop; none connects again: a closed connection is a failure in the book."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from gateway.adapters.methods.content import BASIC
from gateway.broker.deadletters import peek_properties
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Cancelled,
    Closed,
    Confirm,
    Deliver,
    Outcome,
    Prefetch,
    Publish,
    Returned,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
)
from tests.interop import servers
from tests.interop.rehearsal.book import Book, priority
from tests.interop.rehearsal.topology import Flow, Reader, rejected
from tests.interop.restarts import LINES, java

HOST = "127.0.0.1"
PATIENCE = 60.0
PAUSE = 0.05
"""Seconds between two messages of a producer."""
WINDOW = 5
"""Messages without a confirm, of producers that do not wait for each."""
LOOK = 0.2
"""Seconds after which a waiting client looks whether it should stop."""
AUTH = ("guest", "guest")
UNKNOWN = 504
"""The answer to a publish that has no confirm in time."""
JMS = Path(__file__).parents[1] / "clients/jms"
MARKS = ("x-gateway-move-again", "x-gateway-duplicate")
"""Headers of messages that may have come before."""


def marked(headers: Mapping[Any, Any] | None) -> bool:
    return any(str(name) in MARKS for name in headers or ())


def headers_of(producer: str, number: int) -> dict[str, Any]:
    """No two messages have the same."""
    return {"producer": producer, "n": number, "text": f"ü {number}"}


class Client(threading.Thread):
    """``work`` runs until ``done`` is set; an exception before is a failure."""

    def __init__(self, name: str, port: int, book: Book) -> None:
        super().__init__(name=name, daemon=True)
        self.port = port
        self.book = book
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self.work()
            if not self.done.is_set():
                self.book.fail(self.name, "ended too early")
        except BaseException as error:
            self.book.fail(self.name, error)

    def work(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self.done.set()


# --- producers ------------------------------------------------------------------------------------


class Producer(Client):
    def __init__(self, flow: Flow, port: int, book: Book) -> None:
        super().__init__(f"producer {flow.producer}", port, book)
        self.flow = flow
        self.sent = 0
        self.confirmed = 0
        self.unconfirmed = 0
        """Messages that were not confirmed in time; they may come."""

    def messages(self, pause: float = PAUSE) -> Iterator[tuple[int, str, str, str]]:
        """Number, exchange, key and body of each, with a pause after it."""
        while not self.done.is_set():
            exchange, key, _ = self.flow.places[self.sent % len(self.flow.places)]
            number, self.sent = self.sent, self.sent + 1
            yield number, exchange, key, f"{self.flow.producer}:{number}"
            self.done.wait(pause)

    def confirm(self, number: int) -> None:
        self.confirmed += 1
        queues = self.flow.places[number % len(self.flow.places)][2]
        self.book.confirm(self.flow.producer, number, queues)


class PikaProducer(Producer):
    def work(self) -> None:
        with self.channel(self.port) as channel:
            for number, exchange, key, _ in self.messages():
                self.publish(channel, exchange, key, self.flow.producer, number)
                self.confirm(number)

    @staticmethod
    @contextlib.contextmanager
    def channel(port: int) -> Iterator[Any]:
        """One with confirms."""
        import pika

        with pika.BlockingConnection(pika.ConnectionParameters(HOST, port)) as wire:
            channel = wire.channel()
            channel.confirm_delivery()
            yield channel

    @staticmethod
    def publish(channel: Any, exchange: str, key: str, producer: str, number: int) -> None:
        """Returns when it is confirmed."""
        import pika

        properties = pika.BasicProperties(
            delivery_mode=2,
            content_type="text/plain",
            priority=priority(key, number),
            headers=headers_of(producer, number),
        )
        body = f"{producer}:{number}".encode()
        channel.basic_publish(exchange, key, body, properties, mandatory=True)


class ProtonProducer(Producer):
    def work(self) -> None:
        import proton
        from proton.utils import BlockingConnection

        url = f"amqp://guest:guest@{HOST}:{self.port}"
        wire = BlockingConnection(url, timeout=PATIENCE, allowed_mechs="PLAIN")
        sender = wire.create_sender(self.flow.places[0][1])
        for number, _, _, body in self.messages():
            headers = headers_of(self.flow.producer, number)
            sender.send(
                proton.Message(
                    body=body, durable=True, properties=headers, content_type="text/plain"
                )
            )
            self.confirm(number)
        wire.close()


class HttpProducer(Producer):
    """``port`` is that of HTTP. One connection for all requests."""

    def work(self) -> None:
        base = f"http://{HOST}:{self.port}"
        with httpx.Client(base_url=base, auth=AUTH, timeout=PATIENCE, trust_env=False) as client:
            for number, _, key, body in self.messages():
                answer = client.post(
                    f"/v1/%2F/queues/{key}/messages",
                    content=body,
                    headers={"content-type": "text/plain"},
                )
                if answer.status_code == UNKNOWN:
                    self.unconfirmed += 1
                    continue
                assert answer.status_code == 201, answer.text
                self.confirm(number)


class RemoteProducer(Producer):
    """The gateway's own client, with a window of messages without a confirm."""

    _come: asyncio.Event
    """Set when a confirm has come, or the last one."""
    _confirms: asyncio.Task[None]

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        remote = await entered(self.port, self.flow.version)
        await remote.request(SelectConfirms(1, None))
        self._come = asyncio.Event()
        self._confirms = asyncio.create_task(self._read(remote))
        for number, exchange, key, body in self.messages(0.0):
            properties = Properties(
                durable=True,
                content_type="text/plain",
                application=headers_of(self.flow.producer, number),
            )
            header = BASIC.write(properties)
            essentials = BASIC.essentials(header)
            message = Message(BASIC, header, body.encode(), exchange, key, essentials)
            remote.send(Publish(1, message, True, False))
            remote.wake()
            await asyncio.sleep(PAUSE)
            await self._confirmed_but(WINDOW - 1)
        await self._confirmed_but(0)
        self._confirms.cancel()
        await asyncio.wait([self._confirms])
        await remote.close()

    async def _confirmed_but(self, few: int) -> None:
        """Wait until no more than ``few`` messages have no confirm."""
        async with asyncio.timeout(PATIENCE):
            while self.sent - self.confirmed > few:
                if self._confirms.done():
                    self._confirms.result()
                    raise AssertionError("the connection was closed")
                self._come.clear()
                await self._come.wait()

    async def _read(self, remote: Remote) -> None:
        try:
            async for operation in remote:
                raise_if_over(operation)
                if isinstance(operation, Confirm):
                    assert operation.accepted, operation
                    while self.confirmed < operation.sequence:
                        self.confirm(self.confirmed)
                    self._come.set()
        finally:
            self._come.set()


def raise_if_over(operation: object) -> None:
    if isinstance(operation, Closed | SessionLost | Cancelled | Returned):
        raise AssertionError(operation)


async def entered(port: int, version: str) -> Remote:
    remote = await dial((HOST, port), version=version)
    await remote.request(BeginSession(1, None))
    return remote


# --- consumers ------------------------------------------------------------------------------------


class Consumer(Client):
    def __init__(self, reader: Reader, port: int, book: Book) -> None:
        super().__init__(f"consumer {reader.version}<{reader.queue}", port, book)
        self.reader = reader
        self.queue = reader.queue
        self.ready = threading.Event()
        """Set when the broker has agreed."""

    def take(self, body: bytes | str, flagged: bool) -> int:
        return self.book.take(self.queue, body, flagged, self.name)


class PikaConsumer(Consumer):
    def work(self) -> None:
        import pika

        with pika.BlockingConnection(pika.ConnectionParameters(HOST, self.port)) as wire:
            channel = wire.channel()
            channel.basic_qos(prefetch_count=10)
            for method, properties, body in channel.consume(self.queue, inactivity_timeout=LOOK):
                self.ready.set()
                if self.done.is_set():
                    break
                if method is not None:
                    self.take(body, method.redelivered or marked(properties.headers))
                    channel.basic_ack(method.delivery_tag)
            if not self.done.is_set():
                raise AssertionError("cancelled")
            channel.cancel()


class ProtonConsumer(Consumer):
    def work(self) -> None:
        from proton import Timeout
        from proton.utils import BlockingConnection

        url = f"amqp://guest:guest@{HOST}:{self.port}"
        wire = BlockingConnection(url, timeout=PATIENCE, allowed_mechs="PLAIN")
        receiver = wire.create_receiver(self.queue, credit=10)
        self.ready.set()
        while not self.done.is_set():
            try:
                message = receiver.receive(timeout=LOOK)
            except Timeout:
                continue
            again = message.delivery_count > 0 or not message.first_acquirer
            body = message.body
            self.take(
                body if isinstance(body, str) else bytes(body),
                again or marked(message.properties) or marked(message.annotations),
            )
            receiver.accept()
        wire.close()


class RemoteConsumer(Consumer):
    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        remote = await entered(self.port, self.reader.version)
        await remote.request(Prefetch(1, None, 10))
        await remote.request(Subscribe(1, None, self.queue))
        self.ready.set()
        while not self.done.is_set():
            try:
                operation = await asyncio.wait_for(anext(remote), LOOK)
            except TimeoutError:
                continue
            raise_if_over(operation)
            if isinstance(operation, Deliver):
                properties = peek_properties(operation.message)
                flagged = operation.redelivered or marked(properties.application)
                body = operation.message.body
                assert isinstance(body, bytes)
                number = self.take(body, flagged or marked(properties.annotations))
                outcome = Outcome.REJECT if rejected(self.queue, number) else Outcome.ACCEPT
                remote.send(Settle(1, operation.delivery, False, outcome))
                remote.wake()
        await remote.close()


class LeaseConsumer(Consumer):
    """Receives and settles over HTTP; ``port`` is that of HTTP."""

    def work(self) -> None:
        base = f"http://{HOST}:{self.port}/v1/%2F"
        asked = {"max": 10, "wait_ms": int(1000 * LOOK), "lease_ms": 60_000}
        with httpx.Client(base_url=base, auth=AUTH, timeout=PATIENCE, trust_env=False) as client:
            while not self.done.is_set():
                answer = client.post(f"/queues/{self.queue}/deliveries", json=asked)
                self.ready.set()
                assert answer.status_code in (200, 204), answer.text
                if answer.status_code == 204:
                    continue
                for one in answer.json()["deliveries"]:
                    shown = one["message"]
                    again = one.get("delivery_count", 1) > 1 or shown.get("redelivered", False)
                    self.take(text(shown), again or marked(shown.get("properties")))
                    settled = client.delete(f"/deliveries/{one['token']}")
                    assert settled.status_code < 300, settled.text


class EventConsumer(Consumer):
    """One event stream; ``port`` is that of HTTP."""

    _socket: socket.socket | None = None

    def work(self) -> None:
        base = f"http://{HOST}:{self.port}/v1/%2F"
        path = f"/queues/{self.queue}/events"
        fields = {"accept": "text/event-stream"}
        with (
            httpx.Client(base_url=base, auth=AUTH, timeout=PATIENCE, trust_env=False) as client,
            client.stream("GET", path, headers=fields) as stream,
        ):
            assert stream.status_code == 200
            self._socket = stream.extensions["network_stream"].get_extra_info("socket")
            try:
                for line in stream.iter_lines():
                    self.ready.set()
                    if line.startswith("data:"):
                        self._event(json.loads(line[5:]))
            except httpx.TransportError:
                if not self.done.is_set():
                    raise

    def _event(self, shown: dict[str, Any]) -> None:
        if "body" in shown:
            again = bool(shown.get("redelivered", False))
            self.take(text(shown), again or marked(shown.get("properties")))

    def stop(self) -> None:
        super().stop()
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)


class JmsConsumer(Consumer):
    """Qpid's JMS client for AMQP 0-10, in a process of its own."""

    _process: subprocess.Popen[str] | None = None

    def work(self) -> None:
        with subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as self._process:
            try:
                self._read(self._process)
            finally:
                servers.end_group(self._process)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if self.ready.is_set():
                found = json.loads(line)
                self.take(found["body"], bool(found["again"]))
            self.ready.set()
        assert process.wait(PATIENCE) == 0

    def _command(self) -> list[str]:
        sources = [JMS / "QueueReader.java", JMS / "legacy/Dial.java", LINES]
        program, *words = java("qpid-client", "qpid-client", sources)
        given = ["-Dqpid.amqp.version=0-10", "-Dmax_prefetch=10"]
        return [program, *given, *words, HOST, str(self.port), self.queue, *MARKS]

    def stop(self) -> None:
        super().stop()
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()


def text(shown: dict[str, Any]) -> str:
    body = shown["body"]
    found = body.get("text", body.get("value"))
    assert isinstance(found, str), shown
    return found


PRODUCERS: dict[str, Callable[..., Producer]] = {
    "pika": PikaProducer,
    "proton": ProtonProducer,
    "http": HttpProducer,
}
CONSUMERS: dict[str, Callable[..., Consumer]] = {
    "pika": PikaConsumer,
    "proton": ProtonConsumer,
    "lease": LeaseConsumer,
    "events": EventConsumer,
    "jms": JmsConsumer,
}
OVER_HTTP = ("http", "lease", "events")
"""Kinds of clients whose port is that of HTTP."""
