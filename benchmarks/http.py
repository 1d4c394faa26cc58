"""POST against a bare endpoint on the same HTTP server, and event streams to many readers."""

import base64
import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator

from benchmarks.client import Client
from benchmarks.drivers import Driver, build
from benchmarks.rows import Row, compare
from benchmarks.servers import Failed, Missing, Server, answers_http, free_port, gateway, running

GROUP = "http"
AUTHORIZATION = "Authorization: Basic " + base64.b64encode(b"guest:guest").decode()
QUEUE = f"bench-http-{os.getpid()}"
POST_PATH = f"/v1/%2F/queues/{QUEUE}/messages"
BODY = 256
CONNECTIONS = 16
STREAMS = {1: 5_000, 100: 200, 1000: 20}  # readers: messages per second published


@contextlib.contextmanager
def bare() -> Iterator[Server]:
    for name in ("uvicorn", "starlette", "httptools", "uvloop"):
        if importlib.util.find_spec(name) is None:
            raise Missing(f"{name} is not installed")
    port = free_port()
    with running(
        "bare",
        [sys.executable, "-m", "benchmarks.bare", str(port)],
        lambda server: answers_http(server.url + "/readyz"),
        http_port=port,
    ) as server:
        yield server


def post(server: Server, seconds: float) -> dict[str, float]:
    driver = Driver("http", server.http_port, POST_PATH, BODY, CONNECTIONS, seconds, AUTHORIZATION)
    try:
        found = driver.result()
    finally:
        driver.stop()
    if found["bad"] or not found["good"]:
        raise Failed(f"{found['bad']} answers were {found['bad_status']}, not 2xx")
    return {**found, "rate": found["good"] / found["seconds"]}


def post_row(ours: Server, seconds: float, repeat: int) -> Row:
    row = Row(GROUP, f"POST {BODY} B, {CONNECTIONS} connections", "req/s", against="bare uvicorn")
    row.aim = 0.5
    client = Client(ours.amqp_port)
    try:
        client.declare_queue(QUEUE)
        with bare() as theirs:
            for server in (ours, theirs):
                post(server, min(seconds, 0.3))
            pairs = [(post(ours, seconds), post(theirs, seconds)) for _ in range(repeat)]
        client.delete_queue(QUEUE)
    finally:
        client.close()
    row.detail = {"ours": [a for a, _ in pairs], "theirs": [b for _, b in pairs]}
    row.note = f"p99 {pairs[0][0]['p99_us'] / 1000:.1f} ms"
    return compare(row, [a["rate"] for a, _ in pairs], [b["rate"] for _, b in pairs])


def stream_row(ours: Server, readers: int, seconds: float) -> Row:
    """`readers` streams on one queue; every one of them is sent every message."""
    row = Row(GROUP, f"SSE, {readers} readers", "events/s")
    name, rate = f"bench-sse-{os.getpid()}-{readers}", STREAMS[readers]
    count = max(int(rate * seconds), 1)
    wanted = count * readers
    path = f"/v1/%2F/events?source=queue:{name}"
    client = Client(ours.amqp_port)
    with contextlib.ExitStack() as stack:
        stack.callback(client.close)
        client.declare_queue(name)
        sse = Driver("sse", ours.http_port, path, readers, wanted, 60, AUTHORIZATION)
        stack.callback(sse.stop)
        sse.wait_ready()
        busy = ours.cpu()
        producer = Driver(
            "producer", ours.amqp_port, "", name, BODY, count, 0, 0, rate, int(seconds) + 20
        )
        stack.callback(producer.stop)
        producer.result()
        found = sse.result()
        busy = ours.cpu() - busy
    events = found["events"]
    row.ours = events / found["seconds"] if found["seconds"] else None
    row.note = f"p50 {found['p50_us'] / 1000:.1f} ms, p99 {found['p99_us'] / 1000:.1f} ms"
    row.note += f" at {rate * readers:,}/s offered; {busy * 1e6 / max(events, 1):.1f} us of server"
    if events < wanted:
        row.note += f"; only {events:,} of {wanted:,} events arrived"
    row.detail = {**found, "expected": wanted, "server_cpu": busy}
    return row


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    post_wanted = wanted(f"{GROUP} post")
    streams = [readers for readers in STREAMS if wanted(f"{GROUP} sse {readers} readers")]
    if not post_wanted and not streams:
        return
    seconds = 0.5 if quick else 3.0
    try:
        build("http")
        build("sse")
        with gateway() as ours:
            if post_wanted:
                try:
                    yield post_row(ours, seconds, repeat)
                except (Missing, Failed) as why:
                    yield Row(GROUP, f"POST {BODY} B", note=str(why))
            for readers in streams:
                try:
                    yield stream_row(ours, readers, seconds)
                except (Missing, Failed) as why:
                    yield Row(GROUP, f"SSE, {readers} readers", note=str(why))
    except (Missing, Failed) as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
