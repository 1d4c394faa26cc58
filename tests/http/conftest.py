"""A gateway without sockets for AMQP: the real broker in memory, and the HTTP application on it."""

import asyncio
import base64
import inspect
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

import gateway.adapters  # noqa: F401  (registers the dialects)
from gateway.broker.broker import Broker
from gateway.broker.limits import Limits
from gateway.broker.memory_store import MemoryStore
from gateway.broker.store import Batch
from gateway.config.web import DeclaredRoute, HttpListenerSettings, HttpSettings
from gateway.http.access.protocol import bounded
from gateway.http.app import build, close
from gateway.http.dependencies import ConnectionInfo, HttpDependencies
from gateway.http.direct_protocol import answering
from gateway.operations import Bind, DeclareExchange, DeclareQueue

SECRET = b"s" * 32


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Coroutine tests run in a loop of their own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


class Recorder:
    """A consumer that remembers what it got."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Any) -> None:
        self.got.append((delivery, redelivered, message))

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        raise AssertionError("publishes nothing")

    def returned(self, message: Any, condition: Any, text: str) -> None:
        raise AssertionError("publishes nothing")

    def cancelled(self, tag: str) -> None:
        pass


class Rig:
    """The broker, a channel of guest for the test's own hands, and the application."""

    def __init__(
        self,
        volatile: bool = True,
        store: MemoryStore | None = None,
        routes: Sequence[DeclaredRoute] = (),
        admin_apart: bool = False,
        **settings: Any,
    ) -> None:
        """``settings`` are those of the table ``[http]`` that are not what is shipped."""
        self.store = store or MemoryStore(volatile)
        self.ahead = 0
        self.held = False
        self.broker = Broker(self.store, Limits(), now=int(time.time() * 1000))
        access = self.broker.access
        access.iterations = 4096
        for name in ("alice", "weak"):
            if access.user(name) is not None:
                access.remove_user(name)
        access.add_user("alice", "wonder", ())
        access.set_permissions("alice", "/", ".*", ".*", ".*")
        access.add_user("weak", "weak", ())
        access.set_permissions("weak", "/", "^$", "^$", "^$")
        self.turns = 0
        self.ready = {"amqp": True, "store": True}
        self.connections: list[ConnectionInfo] = []
        self.dependencies = HttpDependencies(
            broker=self.broker,
            begin_turn=self.begin,
            end_turn=self.end,
            secret=SECRET,
            connections=lambda: self.connections,
            ready=lambda: self.ready,
            settings=HttpSettings(**settings),
            routes=routes,
            admin_apart=admin_apart,
        )
        self.app = build(self.dependencies)
        self.recorder = Recorder()
        self.client = self.broker.attach("/", "alice", "the test")
        self.channel = self.client.channel(1, self.recorder)

    def begin(self) -> None:
        self.broker.state.now = int(time.time() * 1000) + self.ahead

    def end(self) -> None:
        self.turns += 1
        self.broker.end_turn()
        if self.held:
            return
        batch: Batch | None = self.store.take() if self.store.dirty else None
        if batch is not None:
            self.store.write(batch)
            self.broker.committed(batch.mark)
            self.broker.end_turn()

    def release(self) -> None:
        """The disk that was slow (``held``) is done."""
        self.held = False
        self.end()

    def queue(self, name: str, **options: Any) -> None:
        self.begin()
        self.channel.topology.declare_queue(DeclareQueue(1, None, name, **options))
        self.end()

    def exchange(self, name: str, kind: str = "topic") -> None:
        self.begin()
        self.channel.topology.declare_exchange(DeclareExchange(1, None, name, kind))
        self.end()

    def bind(self, queue: str, exchange: str, key: str) -> None:
        self.begin()
        self.channel.topology.bind(Bind(1, None, queue, exchange, key))
        self.end()

    def fetch(self, queue: str) -> Any:
        self.begin()
        found = self.channel.fetch(queue, True)
        self.end()
        return found.message if found else None

    def depth(self, queue: str) -> tuple[int, int]:
        (found,) = (one for one in list(self.broker.each_queue("/")) if one.name == queue)
        return found.ready, found.unsettled

    @staticmethod
    async def until(condition: Callable[[], object]) -> None:
        """Wait for what the loop is about to do."""
        for _ in range(6000):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("it did not come to pass")

    @asynccontextmanager
    async def http(
        self, user: str | None = "alice:wonder", peer: str = "127.0.0.1"
    ) -> AsyncIterator[httpx.AsyncClient]:
        """A client over ASGI. ``raise_app_exceptions`` is off: 500 is an answer."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=(peer, 4711))
        name, _, password = (user or "").partition(":")
        auth = (name, password) if user else None
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", auth=auth
        ) as client:
            yield client

    @asynccontextmanager
    async def served(self, ws: Any = "none") -> AsyncIterator[int]:
        """The application on a real socket, with the parser that is shipped; gives the port."""
        config = uvicorn.Config(
            self.app,
            host="127.0.0.1",
            port=0,
            http=answering(bounded(HttpListenerSettings()), self.app),
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws=ws,
        )
        server = Server(config)
        task = asyncio.create_task(server.serve())
        await self.until(lambda: server.started)
        try:
            yield server.servers[0].sockets[0].getsockname()[1]
        finally:
            await close(self.app)
            server.should_exit = True
            await task


class Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Event:
    """One block of a stream."""

    def __init__(self, block: str) -> None:
        self.kind, self.id, self.comment = "", "", ""
        self.data: Any = None
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            if name == "event":
                self.kind = value
            elif name == "data":
                assert self.data is None, "one data line per event"
                self.data = json.loads(value)
                self.kind = self.kind or "message"
            elif name == "id":
                self.id = value
            elif name == "":
                self.comment = value

    @property
    def body(self) -> Any:
        return self.data["body"]


class Listener:
    """A client of one event stream on a real socket, which reads when the test says so."""

    def __init__(
        self,
        port: int,
        query: str,
        cursor: str = "",
        user: str = "alice:wonder",
        path: str = "/v1/%2F/events",
        headers: dict[str, str] | None = None,
        body: str | None = None,
        method: str = "POST",
    ) -> None:
        """``method``: of a request with a body."""
        self.port = port
        self.method = method
        self.path = path
        self.extra = headers or {}
        self.body = body
        self.query = query
        self.cursor = cursor
        self.user = user
        self.status = 0
        self.headers: dict[str, str] = {}
        self.text = ""

    async def __aenter__(self) -> "Listener":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        token = base64.b64encode(self.user.encode()).decode()
        lines = [
            f"{'GET' if self.body is None else self.method} {self.path}?{self.query} HTTP/1.1",
            "Host: localhost",
            *([f"Authorization: Basic {token}"] if self.user else []),
            *(f"{name}: {value}" for name, value in self.extra.items()),
        ]
        if self.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.body)}"]
        if self.cursor:
            lines.append(f"Last-Event-ID: {self.cursor}")
        self.writer.write("\r\n".join([*lines, "", self.body or ""]).encode())
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)).decode()
        self.status = int(head.split()[1])
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(": ")
            self.headers[name.lower()] = value
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def hang_up(self) -> None:
        self.writer.transport.abort()

    async def chunk(self) -> bool:
        size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), 30), 16)
        data = await self.reader.readexactly(size + 2)
        self.text += data[:-2].decode()
        return size > 0

    async def event(self) -> Event:
        """The next block, or comment."""
        while "\n\n" not in self.text and not self.text.startswith(":"):
            assert await self.chunk(), "the stream ended"
        end = "\n" if self.text.startswith(":") else "\n\n"  # a comment ends no block
        block, _, self.text = self.text.partition(end)
        event = Event(block)
        if event.id:
            self.cursor = event.id
        return event

    async def until(self, kind: str = "message") -> Event:
        while True:
            event = await self.event()
            if event.kind == kind:
                return event

    async def opened(self) -> Event:
        """Reads up to the first cursor: behind gaps, if there are any."""
        event = opened = await self.until("gateway.open")
        while not event.id:
            event = await self.event()
        return opened


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def make_rig() -> type[Rig]:
    return Rig


@pytest.fixture
def listener() -> type[Listener]:
    return Listener


@pytest.fixture(scope="session")
def rig_class() -> type[Rig]:
    """For tests that make one per example."""
    return Rig
