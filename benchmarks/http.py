"""POST, one message or many, against a bare endpoint on the same HTTP server and against RabbitMQ's
management plugin."""

import base64
import contextlib
import functools
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.client import Client
from benchmarks.drivers import Driver, build
from benchmarks.peers import bare
from benchmarks.rows import Row, compare
from benchmarks.rules import Figures, ThirdParties, note_disturbance, undisturbed
from benchmarks.servers import Failed, Missing, Server, gateway, rabbitmq
from benchmarks.throughput import Starter, started

GROUP = "http"
AUTHORIZATION = "Authorization: Basic " + base64.b64encode(b"guest:guest").decode()
QUEUE = f"bench-http-{os.getpid()}"
POST_PATH = f"/v1/%2F/queues/{QUEUE}/messages"
RABBIT_PATH = "/api/exchanges/%2F/amq.default/publish"
BODY = 256
CONNECTIONS = 16
MANY = 100


@dataclass(frozen=True)
class Load:
    """A request that is repeated: ``messages`` in one request, to a queue that is ``durable``
    or not."""

    path: str
    kind: str
    body: bytes
    messages: int = 1
    durable: bool = False


def shown() -> str:
    return "x" * BODY


RAW = Load(POST_PATH, "application/octet-stream", shown().encode())
RABBIT = Load(
    RABBIT_PATH,
    "application/json",
    json.dumps(
        {
            "properties": {},
            "routing_key": QUEUE,
            "payload": shown(),
            "payload_encoding": "string",
        }
    ).encode(),
)
DURABLE = replace(RAW, durable=True)
"""The default: 201 means that the message is on disk."""
RABBIT_DURABLE = replace(
    RABBIT, body=RABBIT.body.replace(b'"properties": {}', b'"properties": {"delivery_mode": 2}'),
    durable=True,
)  # fmt: skip
BATCH = Load(
    POST_PATH,
    "application/vnd.amqp-gateway.batch+json",
    json.dumps({"messages": [{"body": shown()}] * MANY}).encode(),
    MANY,
)
LINES = Load(
    POST_PATH,
    "application/vnd.amqp-gateway.messages+ndjson",
    (json.dumps({"body": shown()}) + "\n").encode() * MANY,
    MANY,
)


@dataclass
class Side:
    """A server under a load. Without an AMQP port the arrival of messages is not checked."""

    server: Server
    load: Load

    def measure(self, seconds: float) -> Figures:
        server, load = self.server, self.load
        client = Client(server.amqp_port) if server.amqp_port else None
        with contextlib.ExitStack() as stack:
            if client is not None:
                stack.callback(client.close)
                client.declare_queue(QUEUE, load.durable)
                stack.callback(client.delete_queue, QUEUE)
            file = stack.enter_context(tempfile.NamedTemporaryFile())
            Path(file.name).write_bytes(load.body)
            headers = [AUTHORIZATION, f"Content-Type: {load.kind}"]
            third_parties, busy = ThirdParties(), server.cpu()
            driver = Driver(
                "http", server.http_port, load.path, file.name, CONNECTIONS, seconds, *headers
            )
            stack.callback(driver.stop)
            found = driver.result()
            busy = server.cpu() - busy
            others = third_parties.busy(busy + found["cpu"])
            if found["bad"] or not found["good"]:
                raise Failed(f"{found['bad']} answers were {found['bad_status']}, not 2xx")
            count = found["good"] * load.messages
            if client is not None and client.declare_queue(QUEUE, load.durable) != count:
                raise Failed(f"{server.name}: not all of {count} messages are in the queue")
        rate, server_us = count / found["seconds"], busy * 1e6 / count
        return Figures(found, rate=rate, server_us=server_us, others=others)


Sides = dict[str, Server | str]


@dataclass(frozen=True)
class Cell:
    """One row: our load and another server's."""

    name: str
    ours: Load
    against: str
    theirs: Load
    aim: float | None = None

    def row(self, servers: Sides, seconds: float, repeat: int) -> Row:
        row = Row(GROUP, self.name, "msg/s", against=self.against, aim=self.aim)
        ours, theirs = servers["gateway"], servers[self.against]
        if isinstance(ours, str):
            row.note = ours
            return row
        sides = [Side(ours, self.ours)]
        if isinstance(theirs, Server):
            sides.append(Side(theirs, self.theirs))
        else:
            row.note = theirs
        found: list[list[Figures]] = [[] for _ in sides]
        for side in sides:
            side.measure(min(seconds, 0.5))
        for _ in range(repeat):
            for side, runs in zip(sides, found, strict=True):
                runs.append(undisturbed(functools.partial(side.measure, seconds)))
        row.detail = {side.server.name: runs for side, runs in zip(sides, found, strict=True)}
        took = [statistics.median(run["server_us"] for run in runs) for runs in found]
        row.note += f"{'; ' * bool(row.note)}server: " + " against ".join(f"{x:.1f}" for x in took)
        row.note += f" us/msg; p99 {found[0][0]['p99_us'] / 1000:.1f} ms"
        note_disturbance(row, (run for runs in found for run in runs))
        rates = [[run["rate"] for run in runs] for runs in found]
        return compare(row, rates[0], rates[1] if len(rates) > 1 else [])


CELLS = [
    Cell(f"POST {BODY} B, {CONNECTIONS} connections", RAW, "bare uvicorn", RAW, 0.75),
    Cell(f"POST {BODY} B, durable, {CONNECTIONS} connections", DURABLE, "bare uvicorn", RAW),
    Cell(f"POST batch of {MANY} (JSON)", BATCH, "bare uvicorn", BATCH),
    Cell(f"POST batch of {MANY} (NDJSON)", LINES, "bare uvicorn", LINES),
    Cell(f"POST {BODY} B, {CONNECTIONS} connections", RAW, "RabbitMQ management", RABBIT),
    Cell(
        f"POST {BODY} B, durable, {CONNECTIONS} connections",
        DURABLE,
        "RabbitMQ management",
        RABBIT_DURABLE,
    ),
    Cell("POST in RabbitMQ's form", RABBIT, "RabbitMQ management", RABBIT),
    Cell(f"POST batch of {MANY} (JSON)", BATCH, "RabbitMQ management", RABBIT),
    Cell(f"POST batch of {MANY} (NDJSON)", LINES, "RabbitMQ management", RABBIT),
]
"""RabbitMQ takes one message per request, and the bare endpoint only reads the body."""


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    cells = [cell for cell in CELLS if wanted(f"{GROUP} {cell.name} {cell.against}")]
    if not cells:
        return
    seconds = 0.5 if quick else 3.0
    try:
        build("http")
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
        return
    managed = functools.partial(rabbitmq, management=True)
    starters: dict[str, Starter] = {
        "gateway": gateway,
        "bare uvicorn": bare,
        "RabbitMQ management": managed,
    }
    needed = {name: starters[name] for name in ["gateway", *(cell.against for cell in cells)]}
    with started(*needed.values()) as servers:
        sides = dict(zip(needed, servers, strict=True))
        for cell in cells:
            try:
                yield cell.row(sides, seconds, repeat)
            except Failed as why:
                yield Row(GROUP, cell.name, against=cell.against, note=str(why))
