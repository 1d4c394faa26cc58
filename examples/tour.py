"""Everybody on one destination: each publishes one message, and each receives all.

.venv/bin/python examples/tour.py [--only NAME,NAME] [--seconds N]
.venv/bin/python examples/tour.py --amqp PORT --http PORT [--first PORT] [--second PORT]

Clients of 0.8a2, 0-9a0, 0-9a6, 0-8, 0-9, 0-9-1 and 1.0, a program over HTTP, a reader of events
(server-sent) and a page in a browser share the topic `tour`. Where a foreign client is installed
(pika, python-qpid-proton) it is taken, else the gateway's own client role. Without ports a gateway
is started and stopped. `--first` and `--second` are listeners on which AMQP 1 1 0 9 means 0-9a0 and
0-9a6. The exit status is 1 if anybody has missed a message, or has one twice.
"""

import argparse
import asyncio
import base64
import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import httpx

from gateway.adapters import Product
from gateway.adapters.methods.content import BASIC
from gateway.message import Message, Properties
from gateway.net.dialer import Remote, dial
from gateway.operations import (
    BeginSession,
    Bind,
    DeclareQueue,
    Deliver,
    Listen,
    OpenDestination,
    Outcome,
    Publish,
    Service,
    Settle,
    Subscribe,
)

HOST = "127.0.0.1"
AUTH = ("guest", "guest")
EXCHANGE, TOPIC = "amq.topic", "tour"
MARK = f"{os.getpid()}"
"""So that two tours on one gateway do not share queues."""
LISTENERS = """\
[[amqp.listeners]]
port = 0
header_0_9 = "0-9a0"
[[amqp.listeners]]
port = 0
header_0_9 = "0-9a6"
"""


class Ports(NamedTuple):
    """Where a gateway listens. ``first`` and ``second``: where 1 1 0 9 is 0-9a0 and 0-9a6."""

    amqp: int
    http: int
    first: int = 0
    second: int = 0

    @property
    def base(self) -> str:
        return f"http://{HOST}:{self.http}"


class Guest(Protocol):
    """Somebody on the tour. ``heard`` grows by the body of each message."""

    heard: list[str]
    reading: asyncio.Task[None]

    async def enter(self) -> None: ...
    async def say(self, text: str) -> None: ...
    async def leave(self) -> None: ...


class Ours:
    """The gateway's own client role, for versions of which no other client is left."""

    def __init__(self, version: str, port: int) -> None:
        self.version = version
        self.port = port
        self.heard: list[str] = []

    async def enter(self) -> None:
        product = Product(name=f"tour-{MARK}-{self.version}")
        self.remote: Remote = await dial((HOST, self.port), version=self.version, product=product)
        await self.remote.request(BeginSession(1, None))
        await self._subscribe()
        self.reading = asyncio.create_task(self._read())

    async def _subscribe(self) -> None:
        ask = self.remote.request
        if self.version == "0.8a2":  # topics are destinations; there are no queues to bind
            await ask(OpenDestination(1, None, "1", Service.TOPIC, TOPIC))
            await ask(Listen(1, None, "1", "1", "", 10))
            return
        prefix = "subscription:" if self.version == "0-9a0" else ""
        queue = f"{prefix}tour-{MARK}-{self.version}"
        await ask(DeclareQueue(1, None, queue, exclusive=True))
        await ask(Bind(1, None, queue, EXCHANGE, TOPIC))
        await ask(Subscribe(1, None, queue, "tour"))

    async def _read(self) -> None:
        async for operation in self.remote:
            if isinstance(operation, Deliver):
                self.heard.append(operation.message.body.decode())
                self.remote.send(Settle(1, operation.delivery, False, Outcome.ACCEPT))
                await self.remote.drain()

    async def say(self, text: str) -> None:
        header = BASIC.write(Properties(content_type="text/plain"))
        sent = Message(
            BASIC, header, text.encode(), EXCHANGE, TOPIC, BASIC.essentials(header)
        )  # each version makes its own header of it
        self.remote.send(Publish(1, sent, False, False))
        await self.remote.drain()

    async def leave(self) -> None:
        await self.remote.close()
        await self.reading


class Blocking:
    """A client library that waits: it works in a thread of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heard: list[str] = []
        self._thread = ThreadPoolExecutor(1)
        self._over = False

    async def _there(self, work: Callable[..., None], *given: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    async def enter(self) -> None:
        await self._there(self.open)
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while not self._over:
            await self._there(self.look)

    async def say(self, text: str) -> None:
        await self._there(self.send, text)

    async def leave(self) -> None:
        self._over = True
        await self.reading
        await self._there(self.close)
        self._thread.shutdown()

    def open(self) -> None:
        raise NotImplementedError

    def send(self, text: str) -> None:
        raise NotImplementedError

    def look(self) -> None:
        """Take what is there, and wait a little if nothing is."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Pika(Blocking):
    """0-9-1, as RabbitMQ's users have it."""

    def open(self) -> None:
        import pika

        self.connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, self.port))
        self.channel = self.connection.channel()
        queue = self.channel.queue_declare("", exclusive=True).method.queue
        self.channel.queue_bind(queue, EXCHANGE, TOPIC)
        self.channel.basic_consume(queue, self._take)

    def _take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.heard.append(body.decode())
        channel.basic_ack(method.delivery_tag)

    def send(self, text: str) -> None:
        self.channel.basic_publish(EXCHANGE, TOPIC, text.encode())

    def look(self) -> None:
        self.connection.process_data_events(time_limit=0.05)

    def close(self) -> None:
        self.connection.close()


class Proton(Blocking):
    """1.0, with Apache Qpid's client."""

    def open(self) -> None:
        import proton.utils

        self.proton = proton
        self.connection = proton.utils.BlockingConnection(
            f"{HOST}:{self.port}", user=AUTH[0], password=AUTH[1], allowed_mechs="PLAIN"
        )
        self.receiver = self.connection.create_receiver(f"/topic/{TOPIC}", credit=100)
        self.sender = self.connection.create_sender(f"/topic/{TOPIC}")

    def send(self, text: str) -> None:
        self.sender.send(self.proton.Message(body=text.encode(), inferred=True))

    def look(self) -> None:
        with contextlib.suppress(self.proton.Timeout):
            message = self.receiver.receive(timeout=0.05)
            self.heard.append(bytes(message.body).decode())  # a view of what the message owns
            self.receiver.accept()

    def close(self) -> None:
        self.connection.close()


class Web:
    """A program over HTTP: it publishes with POST and takes from a queue of its own."""

    def __init__(self, base: str) -> None:
        self.heard: list[str] = []
        self.http = httpx.AsyncClient(base_url=base, auth=AUTH, timeout=30, trust_env=False)
        self.queue = f"tour-{MARK}-http"

    async def enter(self) -> None:
        place = "/v1/admin/vhosts/%2F"
        binding = {"source": EXCHANGE, "destination": self.queue, "routing_key": TOPIC}
        good(await self.http.put(f"{place}/queues/{self.queue}", json={"auto_delete": True}))
        good(await self.http.post(f"{place}/bindings", json=binding))
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        wanted = {"max": 100, "mode": "auto", "wait_ms": 20000, "view": "full"}
        while True:
            path = f"/v1/%2F/queues/{self.queue}/deliveries"
            answer = good(await self.http.post(path, json=wanted))
            if answer.status_code == 200:
                self.heard += [body_of(one) for one in answer.json()["deliveries"]]

    async def say(self, text: str) -> None:
        path = f"/v1/%2F/exchanges/{EXCHANGE}/messages"
        good(await self.http.post(path, params={"routing_key": TOPIC}, content=text))

    async def leave(self) -> None:
        self.reading.cancel()
        await self.http.delete(f"/v1/admin/vhosts/%2F/queues/{self.queue}")
        await self.http.aclose()


class Events(Web):
    """A reader of server-sent events; what it says it says with POST, too."""

    async def enter(self) -> None:
        self._opened = asyncio.Event()
        self.reading = asyncio.create_task(self._read())
        opened = asyncio.create_task(self._opened.wait())
        await asyncio.wait([self.reading, opened], return_when=asyncio.FIRST_COMPLETED)
        if self.reading.done():
            await self.reading

    async def _read(self) -> None:
        source = f"exchange:{EXCHANGE}?binding={TOPIC}"
        where = {"source": source, "format": "text"}
        async with self.http.stream("GET", "/v1/%2F/events", params=where, timeout=None) as answer:
            good(answer)
            self._opened.set()
            event = "message"
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "data" and event == "message":
                    self.heard.append(value)
                elif not line:
                    event = "message"


class Page:
    """A page in a browser: its own EventSource, and fetch."""

    SCRIPT = """([source, path]) => new Promise((resolve, reject) => {
        window.heard = [];
        const events = new EventSource(
            `/v1/%2F/events?format=text&source=${encodeURIComponent(source)}`);
        events.onmessage = ({ data }) => window.heard.push(data);
        events.onopen = () => resolve();
        events.onerror = () => reject("the stream does not open");
        window.say = text => fetch(path, { method: "POST", body: text }).then(answer => {
            if (!answer.ok) throw new Error(`${answer.status}`); });
    })"""

    def __init__(self, base: str) -> None:
        self.base = base
        self.heard: list[str] = []

    async def enter(self) -> None:
        from playwright.async_api import async_playwright

        self.driver = await async_playwright().start()
        self.browser = await self.driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        login = {"username": AUTH[0], "password": AUTH[1]}
        self.page = await self.browser.new_page(http_credentials=login)
        await self.page.goto(f"{self.base}/healthz")
        path = f"/v1/%2F/exchanges/{EXCHANGE}/messages?routing_key={TOPIC}"
        await self.page.evaluate(self.SCRIPT, [f"exchange:{EXCHANGE}?binding={TOPIC}", path])
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            self.heard = await self.page.evaluate("window.heard")
            await asyncio.sleep(0.05)

    async def say(self, text: str) -> None:
        await self.page.evaluate("text => window.say(text)", text)

    async def leave(self) -> None:
        self.reading.cancel()
        await self.browser.close()
        await self.driver.stop()


def good(answer: httpx.Response) -> httpx.Response:
    if not answer.is_success:
        raise RuntimeError(f"{answer.request.url.path}: {answer.status_code}")
    return answer


def body_of(delivery: dict[str, Any]) -> str:
    body = delivery["message"]["body"]
    return str(body["text"]) if "text" in body else base64.b64decode(body["base64"]).decode()


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def party(ports: Ports) -> dict[str, Guest]:
    """All who can come."""
    guests: dict[str, Guest] = {"0.8a2": Ours("0.8a2", ports.amqp)}
    if ports.first:
        guests["0-9a0"] = Ours("0-9a0", ports.first)
    if ports.second:
        guests["0-9a6"] = Ours("0-9a6", ports.second)
    guests["0-8"] = Ours("0-8", ports.amqp)
    guests["0-9"] = Ours("0-9", ports.amqp)
    guests["0-9-1"] = Pika(ports.amqp) if installed("pika") else Ours("0-9-1", ports.amqp)
    guests["1.0"] = Proton(ports.amqp) if installed("proton") else Ours("1.0", ports.amqp)
    guests["http"] = Web(ports.base)
    guests["events"] = Events(ports.base)
    if installed("playwright") and shutil.which("chromium"):
        guests["browser"] = Page(ports.base)
    return guests


async def everybody(work: Callable[[Guest], Awaitable[None]], guests: dict[str, Guest]) -> None:
    for name, guest in guests.items():
        try:
            await work(guest)
        except Exception as error:
            raise SystemExit(f"{name}: {type(error).__name__}: {error}") from error


async def tour(guests: dict[str, Guest], seconds: float) -> bool:
    """Whether everybody has heard everybody once."""
    entered: dict[str, Guest] = {}
    try:
        for name, guest in guests.items():
            await everybody(lambda one: one.enter(), {name: guest})
            entered[name] = guest
        for name, guest in guests.items():
            await everybody(lambda one, name=name: one.say(name), {name: guest})  # type: ignore[misc]
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(
            len(guest.heard) < len(guests) for guest in guests.values()
        ):
            for name, guest in guests.items():
                if guest.reading.done():
                    print(f"{name}: stopped reading: {guest.reading.exception()}", file=sys.stderr)
                    deadline = 0
            await asyncio.sleep(0.05)
        return shown(guests)
    finally:
        for guest in entered.values():
            with contextlib.suppress(Exception):  # what went wrong is told above
                await guest.leave()


def shown(guests: dict[str, Guest]) -> bool:
    """Print who received what from whom; whether nothing is missing or doubled."""
    width = max(map(len, guests)) + 2
    print("receives".ljust(width) + "".join(name.rjust(width) for name in guests))
    complete = True
    for name, guest in guests.items():
        counts = [guest.heard.count(sender) for sender in guests]
        complete = complete and counts == [1] * len(guests)
        marks = ["yes" if count == 1 else f"{count}x" if count else "MISSING" for count in counts]
        print(name.ljust(width) + "".join(mark.rjust(width) for mark in marks))
    print(f"{len(guests)} guests, {sum(len(guest.heard) for guest in guests.values())} messages")
    return complete


@contextlib.contextmanager
def started() -> Iterator[Ports]:
    """A gateway of the tour's own, nothing kept on disk."""
    with tempfile.TemporaryDirectory() as folder:
        settings, log = Path(folder, "gateway.toml"), Path(folder, "log")
        settings.write_text(LISTENERS)
        command = [sys.executable, "-m", "gateway", "serve", "--config", str(settings)]
        command += ["--volatile", "--amqp-port", "0", "--http-port", "0"]
        with log.open("wb") as sink:
            process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + 60
            while "data in" not in log.read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the gateway does not start: {log.read_text()}")
                time.sleep(0.05)
            yield ports_of(log.read_text())
        finally:
            process.terminate()
            process.wait(30)


def ports_of(log: str) -> Ports:
    """What the gateway's log says."""

    def port(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found[1]) if found else 0

    return Ports(
        port(r"AMQP on \S+:(\d+)\s"),
        port(r"HTTP on http://\S+:(\d+)/"),
        port(r"AMQP on \S+:(\d+), where 1 1 0 9 is 0-9a0"),
        port(r"AMQP on \S+:(\d+), where 1 1 0 9 is 0-9a6"),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--amqp", type=int, default=0, help="AMQP port of a gateway that runs")
    parser.add_argument("--http", type=int, default=0, help="its HTTP port")
    parser.add_argument("--first", type=int, default=0, help="its port for 0-9a0")
    parser.add_argument("--second", type=int, default=0, help="its port for 0-9a6")
    parser.add_argument("--only", default="", help="guests, with commas between them")
    parser.add_argument("--seconds", type=float, default=30, help="to wait for all messages")
    given = parser.parse_args()
    if bool(given.amqp) != bool(given.http):
        parser.error("--amqp and --http go together")
    running = Ports(given.amqp, given.http, given.first, given.second)
    with contextlib.nullcontext(running) if given.amqp else started() as ports:
        guests = party(ports)
        chosen = given.only.split(",") if given.only else list(guests)
        if unknown := set(chosen) - set(guests):
            parser.error(f"not here: {', '.join(sorted(unknown))}")
        complete = asyncio.run(tour({name: guests[name] for name in chosen}, given.seconds))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
