"""A gateway with what the examples of ``/openapi.json`` are about; each example as a request."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from uuid import uuid4

import httpx

from gateway.adapters.segments.wire.layouts import Xid
from gateway.http.receive.openapi import TOKEN
from gateway.net.dialer import dial
from gateway.operations import AttachSession, BeginSession
from tests.http.description_words import Operation, examples
from tests.interop import servers
from tests.net.prepared import Coordinator

SETTINGS = """
[http]
failures = 100000
[http.bearer]
issuer = "https://issuer.example"
audience = "gateway"
resource = "https://gateway.example/"
secret_file = "{secret}"
user_claim = "name"
[[routes]]
name = "prices"
queue = "orders"
stream = true
content_types = [
    "application/json",
    "application/octet-stream",
    "application/vnd.amqp-gateway.message+json",
    "application/vnd.amqp-gateway.batch+json",
    "application/vnd.amqp-gateway.messages+ndjson",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "multipart/mixed",
]
[[journal.recording]]
address = "/queues/orders"
[[shovels]]
name = "in"
source = {{ queue = "not.yet" }}
destination = {{ queue = "not.yet" }}
[[upstreams]]
name = "old"
addresses = ["amqp://127.0.0.1:1"]
[[upstreams]]
name = "new"
addresses = ["amqp://127.0.0.1:1"]
[[facades]]
vhost = "moving"
upstream = "old"
successor = "new"
[[observe]]
name = "old"
port = 0
upstream = "amqp://127.0.0.1:1"
file = "{inventory}"
"""
RAW = "application/octet-stream"
DATA = "/v1/%2F"
ADMIN = "/v1/admin"
PLACE = f"{ADMIN}/vhosts/%2F"

BESIDE: dict[str, dict[str, Any]] = {
    "credit": {"ack": "on-next"},
    "lease_ms": {"ack": "explicit"},
    "binding": {"source": ["exchange:amq.topic"]},
    "journal": {"source": ["exchange:amq.topic"]},
}
"""Optional parameters that make sense only beside another."""


class House:
    """A running gateway, and how to get there what the examples are about."""

    def __init__(
        self, gateway: servers.Server, http: httpx.AsyncClient, stack: AsyncExitStack
    ) -> None:
        self.gateway = gateway
        self.http = http
        self.stack = stack
        self.path = ""
        """Of the operation whose examples are tried."""
        self.live: dict[str, Callable[[], Awaitable[str]]] = {
            "token": self.token,
            "stream": self.stream,
            "id": self.operation,
            "connection": self.connection,
            "connection_name": self.connection_name,
            "channel": self.channel,
            "binding": self.binding,
            "branch": self.branch,
            "session": self.session,
            "move": self.move,
            "properties_key": self.properties_key,
            "last_event_id": self.cursor,
            "Last-Event-ID": self.cursor,
            "Idempotency-Key": self.key,
        }
        """Parameters whose example only shows what they look like: each is good for one place."""

    async def do(self, method: str, path: str, **given: Any) -> httpx.Response:
        answer = await self.http.request(method, path, **given)
        assert answer.is_success, (method, path, answer.text)
        return answer

    async def furnish(self, path: str) -> None:
        """As new, whatever the example before has left; what costs time only if the path needs
        it."""
        self.path = path
        for one in (
            "queues/orders",
            "queues/rpc",
            "queues/invoices",
            "queues/doomed",
            "exchanges/shop",
        ):
            await self.http.delete(f"{PLACE}/{one}")
        await self.do("PUT", f"{ADMIN}/vhosts/%2F")
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        await self.do("PUT", f"{ADMIN}/users/guest/permissions/%2F", json=everything)
        if "{user}" in path:
            await self.do("PUT", f"{ADMIN}/users/carol", json={"password": "old", "tags": []})
            await self.do("PUT", f"{ADMIN}/users/carol/permissions/%2F", json=everything)
        if path.startswith("/api/topic-permissions/"):
            topics = {"exchange": "shop", "write": ".*", "read": ".*"}
            await self.do("PUT", "/api/topic-permissions/%2F/carol", json=topics)
        await self.do("PUT", f"{PLACE}/queues/orders", json={"durable": True})
        for one in ("rpc", "invoices"):
            await self.do("PUT", f"{PLACE}/queues/{one}", json={"durable": True})
        await self.do("PUT", f"{PLACE}/exchanges/shop", json={"type": "topic", "durable": True})
        for source, key in (("amq.topic", "#"), ("shop", "orders")):
            binding = {"source": source, "destination": "orders", "routing_key": key}
            await self.do("POST", f"{PLACE}/bindings", json=binding)
        onward = {"destination": "amq.fanout", "destination_type": "exchange"}
        onward |= {"source": "shop", "routing_key": "orders"}
        await self.do("POST", f"{PLACE}/bindings", json=onward)
        if "/dead-letters/" in path:
            await self.die()
        if "{replay}" in path:
            archived = {"journal": "j", "address": "a", "offset": 0, "to": "rpc", "amqp10": ""}
            await self.do(
                "POST", f"{DATA}/replays/orders-again/messages", json={"messages": [archived]}
            )
        for kind in ("policies", "operator-policies"):
            if path.startswith(f"/api/{kind}/"):
                limits = {"pattern": "^none$", "definition": {"max-length": 9}}
                await self.do("PUT", f"/api/{kind}/%2F/limits", json=limits)
        await self.do("POST", f"{DATA}/queues/orders/messages", json={"order": 17})

    async def die(self) -> None:
        """A dead letter in the queue of the examples."""
        onward = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
        await self.do("PUT", f"{PLACE}/queues/doomed", json={"durable": True, "arguments": onward})
        await self.do("POST", f"{DATA}/queues/doomed/messages", json={"order": 16})
        got = await self.do("POST", f"{DATA}/queues/doomed/deliveries")
        token = got.json()["deliveries"][0]["token"]
        await self.do("POST", f"{DATA}/deliveries/{token}/reject")

    async def serve(self) -> None:
        """Answers what comes into the queue ``rpc``."""
        got = await self.do(
            "POST", f"{DATA}/queues/rpc/deliveries", json={"wait_ms": 20_000, "view": "full"}
        )
        message = got.json()["deliveries"][0]["message"]["properties"]
        answer = {"correlation_id": message["correlation_id"], "body": {"json": {"reply": 17}}}
        await self.do(
            "POST",
            f"{DATA}/queues/{quote(message['reply_to'], safe='')}/messages",
            content=json.dumps(answer),
            headers={"content-type": "application/vnd.amqp-gateway.message+json"},
        )

    # --- what only an answer can give ---------------------------------------------------------

    async def token(self) -> str:
        await self.do("POST", f"{DATA}/queues/orders/messages", json={"order": 18})
        got = await self.do("POST", f"{DATA}/queues/orders/deliveries")
        found: str = got.json()["deliveries"][0]["token"]
        return found

    async def open(self, *queues: str) -> httpx.Response:
        path = f"{DATA}/events?" + urlencode([("source", f"queue:{one}") for one in queues])
        opened = await self.stack.enter_async_context(self.http.stream("GET", path))
        assert opened.status_code == 200
        return opened

    async def stream(self) -> str:
        return str((await self.open("orders", "invoices")).headers["amqp-stream-id"])

    async def cursor(self) -> str:
        async for line in (await self.open("orders")).aiter_lines():
            if line.startswith("id: "):
                return line.removeprefix("id: ")
        raise AssertionError("no cursor came")

    async def operation(self) -> str:
        # What waits for the disk is not done at once.
        later = {"prefer": "respond-async", "amqp-durable": "?1"}
        made = await self.do("POST", f"{DATA}/queues/orders/messages", json=1, headers=later)
        return str(made.headers["location"]).rpartition("/")[2]

    async def connection(self) -> str:
        remote = await dial((self.gateway.host, self.gateway.port), version="0-9-1")
        self.stack.push_async_callback(remote.close)
        await remote.request(BeginSession(1, None))
        found = (await self.do("GET", f"{ADMIN}/connections")).json()["connections"]
        return str(found[-1]["id"])

    async def connection_name(self) -> str:
        await self.connection()
        return str((await self.do("GET", "/api/connections")).json()[-1]["name"])

    async def channel(self) -> str:
        await self.connection()
        return str((await self.do("GET", "/api/channels")).json()[-1]["name"])

    async def binding(self) -> str:
        wanted = {"source": "shop", "destination": "orders", "routing_key": "orders"}
        return str((await self.do("POST", f"{PLACE}/bindings", json=wanted)).json()["id"])

    async def branch(self) -> str:
        """A prepared one; to be forgotten it must have been decided."""
        xid = Xid(1, uuid4().bytes, b"")
        with await asyncio.to_thread(Coordinator, self.gateway.port) as coordinator:
            await asyncio.to_thread(coordinator.prepare, xid, "orders")
        found = f"1:{(xid.global_id or b'').hex()}:"
        if self.path.endswith("/forget"):
            await self.do("POST", f"{PLACE}/branches/{quote(found, safe='')}/commit")
        return found

    async def session(self) -> str:
        """A session of 0-10 that has lost its connection."""
        remote = await dial(("127.0.0.1", self.gateway.port), version="0-10")
        await remote.request(AttachSession(1, None, seconds=60))
        await remote.close()
        while True:
            found = (await self.do("GET", f"{ADMIN}/sessions")).json()["sessions"]
            kept = [one for one in found if one["state"] == "kept"]
            if kept:
                return str(kept[-1]["id"])

    async def move(self) -> str:
        """One that is done."""
        wanted = {"queues": [{"source": "invoices", "destination": "rpc"}], "grace_seconds": 0}
        name = str((await self.do("POST", f"{ADMIN}/moves", json=wanted)).json()["name"])
        while (await self.do("GET", f"{ADMIN}/moves/{name}")).json()["state"] == "running":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return name

    async def key(self) -> str:
        return f'"{uuid4()}"'

    async def properties_key(self) -> str:
        found = (await self.do("GET", "/api/bindings/%2F/e/shop/q/orders")).json()
        return str(found[0]["properties_key"])


class Case(NamedTuple):
    """One request: an operation, a media type with its example, one optional parameter."""

    operation: Operation
    media: str
    body: Any
    extra: dict[str, Any] | None

    def __str__(self) -> str:
        extra = f" {self.extra['name']}" if self.extra else ""
        return f"{self.operation} {self.media}{extra}"


def cases(operation: Operation) -> Iterator[Case]:
    bodies = [(media, body) for media, told in operation.bodies.items() for body in examples(told)]
    if not operation.told.get("requestBody", {}).get("required"):
        bodies.append(("", None))
    for media, body in bodies:
        yield Case(operation, media, body, None)
    # Fields that describe a message stand beside its body, and not beside a document of messages.
    beside = next((body for body in bodies if body[0] == RAW), bodies[0])
    for place in ("query", "header"):
        for one in operation.parameters(place):
            if not one.get("required"):
                yield Case(operation, *beside, one)


@dataclass
class Request:
    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None


async def request_of(house: House, case: Case) -> Request:
    path = case.operation.path
    query: dict[str, Any] = {}
    headers: dict[str, str] = {}
    for one in case.operation.told.get("parameters", []):
        name = one["name"]
        if not one.get("required") and one is not case.extra:
            continue
        value = await house.live[name]() if name in house.live else one["example"]
        if one["in"] == "path":
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        elif one["in"] == "header":
            headers[name] = str(value)
        else:
            query[name] = str(value).lower() if isinstance(value, bool) else value
    if case.extra is not None:
        known = {one["name"] for one in case.operation.parameters("query")}
        beside = BESIDE.get(case.extra["name"], {})
        query |= {key: beside[key] for key in beside.keys() & known}
    if query:
        path += "?" + urlencode(query, doseq=True)
    made = Request(case.operation.method, path, headers)
    if case.media:
        made.headers["content-type"] = case.media
        text = case.body
        if not isinstance(text, str):
            text = json.dumps(text, separators=(",", ":"))
        if TOKEN in text:
            text = text.replace(TOKEN, await house.token())
        made.content = text.encode()
    if path.endswith("%2F/messages") and not re.search(b'"to"|amqp-to', made.content or b"", re.I):
        # Where each message says where to, and this one has no place for it.
        made.headers.setdefault("Amqp-To", '"orders"')
    return made


@contextmanager
def house_gateway(folder: Path) -> Iterator[servers.Server]:
    secret, file = folder / "secret", folder / "gateway.toml"
    secret.write_text("a shared secret that is long enough!")
    file.write_text(SETTINGS.format(secret=secret, inventory=file.with_name("inventory.json")))
    server = servers.start_gateway(folder, extra=["--config", str(file)])
    try:
        yield server
        assert "Traceback" not in server.tail(1_000_000), server.tail()
    finally:
        server.stop()


@asynccontextmanager
async def open_house(gateway: servers.Server) -> AsyncIterator[tuple[House, dict[str, Any]]]:
    base = f"http://127.0.0.1:{gateway.http_port}"
    async with (
        # A connection each: what is refused before it is read may close its own.
        httpx.AsyncClient(
            base_url=base,
            auth=("guest", "guest"),
            timeout=30,
            limits=httpx.Limits(max_keepalive_connections=0),
        ) as http,
        AsyncExitStack() as stack,
    ):
        document = (await http.get("/openapi.json")).json()
        yield House(gateway, http, stack), document
