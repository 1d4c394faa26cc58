"""Queues move between brokers nobody here wrote, over kills of the mover, and are compared."""

from __future__ import annotations

import datetime
import json
import random
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway.bridge.migration.journal import Journal
from gateway.errors import ConfigError
from tests.interop import brokers, servers
from tests.interop.servers import Server
from tests.net.commands import completed, running

pytestmark = pytest.mark.interop

COUNT = 10_000
PATIENCE = 300


@pytest.fixture(scope="module")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if reason := brokers.artemis_missing():
        pytest.skip(reason)
    server = brokers.start_artemis(tmp_path_factory.mktemp("artemis"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def broker_j(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if reason := brokers.broker_j_missing():
        pytest.skip(reason)
    server = brokers.start_broker_j(tmp_path_factory.mktemp("broker_j"))
    yield server
    server.stop()


def command(folder: Path, *words: object) -> list[str]:
    given = [str(word) for word in words]
    journal = ["--journal", str(folder / "journal.db")]
    return ["bridge", *given, *journal]


def run(folder: Path, *words: object, status: int = 0) -> Any:
    done = completed([*command(folder, *words), "--json"], servers.environment())
    told = json.loads(done.stdout or "{}")
    queues = told.get("queues")
    classes = [one.get("classes") for one in queues] if isinstance(queues, list) else queues
    assert done.returncode == status, f"{done.returncode} {classes} {done.stderr}"
    return told


def url(server: Server) -> str:
    return f"amqp://guest@{server.host}:{server.port}"


def ends(one: Server, version: str, other: Server, its: str) -> list[str]:
    return [
        "--from", url(one), "--from-version", version, "--to", url(other), "--to-version", its,
    ]  # fmt: skip


def progress(folder: Path) -> int:
    try:
        book = Journal(folder / "journal.db", reading=True)
    except ConfigError:
        return 0
    try:
        return sum(one.moved for move in book.moves() for one in book.queues(move.name))
    finally:
        book.close()


def kill_and_go_on(folder: Path, words: list[str], turns: int, enough: int) -> tuple[Any, int]:
    """Kill the mover at random times, until it has moved so many messages, then let it end; its
    JSON, and how often it was killed."""
    dice = random.Random(3)
    kills, start = 0, progress(folder)
    for _ in range(turns):
        before = progress(folder)
        if before - start > enough:
            break
        with running(command(folder, *words), servers.environment()) as mover:
            deadline = time.monotonic() + PATIENCE
            while mover.process.poll() is None and progress(folder) <= before:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(dice.uniform(0.0, 0.3))
            kills += mover.process.poll() is None
    return run(folder, *words), kills


HEADERS: list[Any] = [
    True, 0, -5, 1 << 40, "ü", b"\x00\xff", [1, "two", [3]], {"deep": {"er": [None]}}, None,
    Decimal("1.25"), datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
]  # fmt: skip


def publish(server: Server, queue: str, count: int, lasting: bool = False) -> None:
    """Messages of all kinds: no two have the same headers, every fifth has no id. ``lasting``: all
    are persistent."""
    import pika

    with pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port)) as wire:
        channel = wire.channel()
        for n in range(count):
            properties = pika.BasicProperties(
                delivery_mode=2 if lasting or n % 3 else 1,
                content_type=("text/plain", "application/json", None)[n % 3],
                content_encoding="identity" if n % 7 == 0 else None,
                correlation_id=f"c-{n}" if n % 2 else None,
                message_id=f"m-{n}" if n % 5 else None,
                reply_to="answers" if n % 11 == 0 else None,
                priority=4,  # Artemis delivers by priority
                timestamp=1_600_000_000 + n if n % 6 else None,
                type="kind" if n % 8 == 0 else None,
                app_id="app" if n % 9 == 0 else None,
                headers={"n": n, f"h{n % 11}": HEADERS[n % 11], "x-other": [n, HEADERS[n % 7]]},
            )
            channel.basic_publish("", queue, f"grün {n}".encode() * (n % 50), properties)
        for _ in range(100):
            if channel.queue_declare(queue, passive=True).method.message_count == count:
                return
            time.sleep(0.1)
        raise AssertionError("not all were published")


def depth(server: Server, queue: str) -> int:
    import pika

    with pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port)) as wire:
        found = wire.channel().queue_declare(queue, passive=True)
        return int(found.method.message_count)


ORIGINAL = "before.db"


def equal_but_for_flagged(told: Any) -> None:
    (one,) = told["queues"]
    assert told["equal"], one
    assert set(one["classes"]) <= {"flagged duplicate"}, one


@pytest.mark.timeout(600)
def test_rabbitmq_to_artemis_and_back(rabbitmq: Server, artemis: Server, tmp_path: Path) -> None:
    """0-9-1 to 1.0 over kills of the mover: nothing is lost, and what came twice has a flag. Then a
    rollback, after consumers have taken some."""
    brokers.declare(rabbitmq, "move.all")
    publish(rabbitmq, "move.all", COUNT)
    pair = ["-q", "move.all=queue.move.all"]
    before = tmp_path / ORIGINAL
    words = ["--from", url(rabbitmq), "-q", "move.all", "--record", str(before), "--taking"]
    assert run(tmp_path, "verify", *words)["queues"] == {"move.all": COUNT}
    began = time.monotonic()
    moving = [
        "move",
        *ends(rabbitmq, "0-9-1", artemis, "1.0"),
        *pair,
        "--rate",
        "2000",
        "--name",
        "out",
    ]
    told, kills = kill_and_go_on(tmp_path, moving, 5, COUNT // 2)
    print(f"{kills} kills, {time.monotonic() - began:.1f} s, {told}")
    assert kills >= 2
    assert (told["state"], told["moved"]) == ("done", COUNT)
    assert depth(rabbitmq, "move.all") == 0
    there = ["verify", "--from", str(before), "--to", url(artemis), "--to-version", "1.0", *pair]
    found = run(tmp_path, *there)
    equal_but_for_flagged(found)
    back = run(tmp_path, "rollback")
    assert back["state"] == "done"
    assert back["returned"] == back["moved"] >= COUNT
    here = ["verify", "--from", str(before), "--to", url(rabbitmq), "-q", "move.all", "--taking"]
    equal_but_for_flagged(run(tmp_path, *here))


@pytest.mark.long  # the short one is between RabbitMQ and Artemis
@pytest.mark.timeout(600)
def test_broker_j_to_rabbitmq_and_back(rabbitmq: Server, broker_j: Server, tmp_path: Path) -> None:
    """From RabbitMQ to Broker-J over 0-10, from there to RabbitMQ, and back by rollback.

    Broker-J lets transient messages overtake persistent ones, and changes decimals and times in
    headers, which the comparison finds."""
    tolerant = ["--ignore", "header.h9", "--ignore", "header.h10", "--key", "header.n"]
    count = 2000
    for name in ("move.first", "move.last"):
        brokers.declare(rabbitmq, name)
    publish(rabbitmq, "move.first", count, lasting=True)
    before = tmp_path / ORIGINAL
    words = ["--from", url(rabbitmq), "-q", "move.first", "--record", str(before), "--taking"]
    run(tmp_path, "verify", *words)
    over = ["move", *ends(rabbitmq, "0-9-1", broker_j, "0-10"), "-q", "move.first=queue.move"]
    slowly = ["--batch", "100", "--rate", "1000", "--name"]
    told, _ = kill_and_go_on(tmp_path, [*over, *slowly, "over"], 3, count // 2)
    assert told["moved"] == count
    out = ["move", *ends(broker_j, "0-10", rabbitmq, "0-9-1"), "-q", "queue.move=move.last"]
    told, _ = kill_and_go_on(tmp_path, [*out, *slowly, "back"], 3, count // 2)
    assert told["moved"] >= count
    here = ["verify", "--from", str(before), "--to", url(rabbitmq), "-q", "move.first=move.last"]
    here += ["--key", "header.n"]
    told_all = run(tmp_path, *here, "--taking", status=1)["queues"][0]["classes"]
    assert set(told_all) - {"flagged duplicate"} == {"property", "type"}, told_all
    equal_but_for_flagged(run(tmp_path, *here, "--taking", *tolerant[:4]))
    back = run(tmp_path, "rollback", told["name"])
    assert back["moved"] >= count
    there = ["verify", "--from", str(before), "--to", url(broker_j), "--to-version", "0-10"]
    equal_but_for_flagged(run(tmp_path, *there, "-q", "move.first=queue.move", *tolerant))


def test_a_change_at_artemis_is_named(rabbitmq: Server, artemis: Server, tmp_path: Path) -> None:
    """One message changed, one missing, one more at the other side: each has its class."""
    brokers.declare(rabbitmq, "move.one")
    brokers.declare(rabbitmq, "move.two")
    publish(rabbitmq, "move.one", 51)
    publish(rabbitmq, "move.two", 52)
    import pika

    where = pika.ConnectionParameters(rabbitmq.host, rabbitmq.port)
    with pika.BlockingConnection(where) as wire:
        method, _, _ = wire.channel().basic_get("move.two", auto_ack=True)
        assert method is not None
    with pika.BlockingConnection(where) as wire:
        channel = wire.channel()
        for n in range(1, 52):
            _, properties, body = channel.basic_get("move.two", auto_ack=True)
            if n == 7:
                body = b"other"
            if n == 8:
                properties.app_id = "another"
            if n == 9:
                properties.headers["n"] = str(n)
            channel.basic_publish("", "move.two", body, properties)
    run(tmp_path, "move", *ends(rabbitmq, "0-9-1", artemis, "1.0"), "-q", "move.two=queue.move.two")
    words = [*ends(rabbitmq, "0-9-1", artemis, "1.0"), "-q", "move.one=queue.move.two", "--taking"]
    told = run(tmp_path, "verify", *words, status=1)
    (one,) = told["queues"]
    assert {name: found["count"] for name, found in one["classes"].items()} == {
        "missing": 1,
        "extra": 1,
        "body": 1,
        "property": 1,
        "type": 1,
    }, one
