"""``request`` of the JavaScript client, in Node: replies come from pika and from our own client
role of 0-9-1, also over a gateway that is killed in between."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.broker.deadletters import peek_properties
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import BeginSession, Deliver, Outcome, Publish, Settle, Subscribe
from tests.interop.restarts import Restartable, Seen, checks, compare, running
from tests.interop.servers import HOST, Server, start_gateway
from tests.interop.test_javascript_client import needs_node

pika = pytest.importorskip("pika", reason="pika is the responder: tests/interop/install-peers")

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parent / "clients" / "javascript_requests.mjs"
TEXT = "text/plain"
WANTED: dict[str, Any] = {
    "pika replies": [{"text": "re: one"}, TEXT, True],
    "pika replies to many": [True, 1, 1],
    "ours replies": [{"text": "re: one"}, TEXT, True],
    "ours replies to many": [True, 1, 1],
    "no reply": [True, "enough", "AbortError", "address-not-found", "TypeError", "RangeError"],
    "the gateway is killed": [True, 1],
    "the stream breaks": [True, 5],
    "close": ["GatewayError", 0, "re: again", 0],
    "ends by itself": "re: last",
}


class Responder(threading.Thread):
    """Answers requests by ``reply_to`` until it is stopped; connects again after each failure."""

    def __init__(self, serve: Callable[[int, threading.Event], None], port: int) -> None:
        super().__init__(daemon=True)
        self.serve = serve
        self.port = port
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            # The gateway is not there, or its queue is not yet.
            with contextlib.suppress(Exception):
                self.serve(self.port, self.done)
            self.done.wait(0.2)

    def stop(self) -> None:
        self.done.set()
        self.join(20)
        assert not self.is_alive()


def with_pika(port: int, done: threading.Event) -> None:
    """``calls.pika`` at once; ``calls.later`` when a message in ``calls.go`` says so."""
    with pika.BlockingConnection(pika.ConnectionParameters(HOST, port)) as wire:
        channel = wire.channel()

        def answer(_: Any, method: Any, asked: Any, body: bytes) -> None:
            properties = pika.BasicProperties(
                correlation_id=asked.correlation_id, content_type=TEXT, delivery_mode=2
            )
            channel.basic_publish("", asked.reply_to, b"re: " + body, properties)
            channel.basic_ack(method.delivery_tag)

        def go(*_: Any) -> None:
            channel.basic_consume("calls.later", answer)

        channel.basic_consume("calls.pika", answer)
        channel.queue_declare("calls.go", durable=True)
        channel.basic_consume("calls.go", go, auto_ack=True)
        while not done.is_set():
            wire.process_data_events(0.2)


def with_ours(port: int, done: threading.Event) -> None:
    asyncio.run(answer_with_ours(port, done))


async def answer_with_ours(port: int, done: threading.Event) -> None:
    remote = await dial((HOST, port), version="0-9-1")
    try:
        await remote.request(BeginSession(1, None))
        await remote.request(Subscribe(1, None, "calls.ours"))
        answering = asyncio.create_task(answer_all(remote))
        while not (done.is_set() or answering.done()):
            await asyncio.wait((answering,), timeout=0.2)
        answering.cancel()
        await asyncio.wait((answering,))
    finally:
        await remote.close()


async def answer_all(remote: Remote) -> None:
    async for event in remote:
        if isinstance(event, Deliver):
            asked = peek_properties(event.message)
            told = Properties(correlation_id=asked.correlation_id, content_type=TEXT)
            header = BASIC.write(told)
            body = event.message.body
            assert isinstance(body, bytes)
            to = str(asked.reply_to)
            reply = Message(BASIC, header, b"re: " + body, "", to, BASIC.essentials(header))
            remote.send(Publish(1, reply, False, False))
            remote.send(Settle(1, event.delivery, False, Outcome.ACCEPT))
            remote.wake()


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    folder = tmp_path_factory.mktemp("mortal")

    def start(before: Server | None) -> Server:
        again = () if before is None else ("--http-port", str(before.http_port))
        return start_gateway(folder, port=before.port if before else None, extra=again)

    with running(start) as found:
        yield found


@pytest.fixture(scope="module")
def seen(mortal: Restartable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    needs_node()
    responders = [Responder(serve, mortal.server.port) for serve in (with_pika, with_ours)]
    for one in responders:
        one.start()
    try:
        here = f"http://{HOST}:{mortal.server.http_port}"
        yield checks(["node", str(PROGRAM), here], mortal, tmp_path_factory.mktemp("node"))
    finally:
        for one in responders:
            one.stop()


@pytest.mark.parametrize("check", WANTED)
def test_in_node(seen: Seen, check: str) -> None:
    compare(seen, check, WANTED[check])


def test_the_program_ended_by_itself(seen: Seen) -> None:
    assert "ended with 0" in seen[""]["error"]
