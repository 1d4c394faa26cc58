"""What standing still costs: an idle connection, a queued message, and the time to be there."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

from benchmarks.client import Client
from benchmarks.drivers import Driver
from benchmarks.rows import Row, compare
from benchmarks.servers import Failed, Missing, Server, gateway, rabbitmq

GROUP = "memory"
IDLE = 500
QUEUED = 1_000_000
QUICK_QUEUED = 50_000
BODY = 256
CEILING = 1 << 30
START_SECONDS = 0.6
"""The aim for a start."""


def settled_rss(server: Server, patience: float = 3.0) -> int:
    """RSS once it stops growing."""
    before, deadline = server.rss(), time.monotonic() + patience
    while time.monotonic() < deadline:
        time.sleep(0.3)
        now = server.rss()
        if abs(now - before) < 256 << 10:
            return now
        before = now
    return before


def idle_connection(server: Server) -> float:
    """Octets of RSS per connection that is logged in and silent."""
    for _ in range(5):
        Client(server.amqp_port).close()
    before = settled_rss(server)
    with ExitStack() as stack:
        for _ in range(IDLE):
            client = Client(server.amqp_port)
            stack.callback(client.close)
        return (settled_rss(server) - before) / IDLE


def queued_messages(server: Server, count: int) -> tuple[float, int]:
    """Octets per message waiting in a transient queue, and the whole RSS with all of them."""
    name = f"bench-memory-{os.getpid()}"
    client = Client(server.amqp_port)
    try:
        client.declare_queue(name)
        before = settled_rss(server)
        producer = Driver("producer", server.amqp_port, "", name, BODY, count, 0, 1000, 0, 120)
        try:
            producer.result()
        finally:
            producer.stop()
        total = settled_rss(server)
        client.delete_queue(name)
    finally:
        client.close()
    return (total - before) / count, total


def side(
    starter: Callable[[], AbstractContextManager[Server]], names: set[str], count: int, repeat: int
) -> dict[str, list[float]]:
    """The figures asked for, from one fresh server, whose own start is not
    counted, as it fills the system's cache."""
    found: dict[str, list[float]] = {}
    with starter() as server:
        if "idle" in names:
            found["idle"] = [idle_connection(server)]
        if "queued" in names:
            each, whole = queued_messages(server, count)
            found["queued"], found["total"] = [each], [whole]
    if "start" in names:
        found["start"] = []
        for _ in range(repeat):
            with starter() as server:
                found["start"].append(server.started_in)
    return found


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    names = {name for name in ("start", "idle", "queued") if wanted(f"{GROUP} {name}")}
    if not names:
        return
    count = QUICK_QUEUED if quick else QUEUED
    results: list[dict[str, list[float]]] = []
    reasons: list[str] = []
    for starter in (gateway, rabbitmq):
        try:
            results.append(side(starter, names, count, repeat))
        except (Missing, Failed) as why:
            results.append({})
            reasons.append(str(why))
    ours, theirs = results
    labels = [
        ("start", "start-up until ready", "s", START_SECONDS),
        ("idle", f"per idle connection ({IDLE})", "B", None),
        ("queued", f"per queued {BODY} B message ({count:,})", "B", None),
        ("total", f"whole process, {count:,} queued", "B", CEILING),
    ]
    for key, label, unit, ceiling in labels:
        if key not in names and not (key == "total" and "queued" in names):
            continue
        row = Row(GROUP, label, unit, against="RabbitMQ", ceiling=ceiling)
        compare(row, ours.get(key, []), theirs.get(key, []))
        row.note = "; ".join(reasons) or "less is better"
        yield row
