"""Reports and differences of inventories, by the command."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.__main__ import cli
from gateway.inventory.counts import Room, Tally, identity_of, pattern_of
from gateway.inventory.inventory import BOUNDS, Identity, Inventory
from gateway.inventory.observer import QUEUE, Content, Observer, user_of

TARGETS = ("rabbitmq-4", "artemis", "generic-1.0")


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def inventory_of(*features: str, name: str = "billing", vhost: str = "/") -> Inventory:
    """An inventory in which a client used these features on the queue ``orders``."""
    inventory = Inventory("amqp://old:5672")
    observer = Observer(inventory, Clock(), "192.0.2.7", 4711, False)
    observer.who.version, observer.who.vhost = "0-9-1", vhost
    observer.name(name)
    observer.known()
    node = observer.node(QUEUE, "orders")
    for feature in features:
        observer.feature(feature, node)
    observer.published(node, 1000, Content(header_types=("string",), durable=True))
    observer.closed()
    return inventory


def saved(inventory: Inventory, file: Path) -> Path:
    file.write_text("".join(inventory.pieces()))
    return file


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["inventory", *map(str, arguments)], env={"COLUMNS": "300"})
    return result.exit_code, result.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return saved(inventory_of("global-qos", "priority", "transactions"), tmp_path / "a.json")


def test_text(file: Path) -> None:
    status, text = run("report", file, "--target", "artemis")
    assert status == 0
    assert "1 connections" not in text  # nothing was accepted here
    assert "prefetch limit for a whole channel (global)" in text
    assert "c1: billing, 0-9-1, 192.0.2.7" in text
    assert "queue orders: 1 published (1 durable" in text


@pytest.mark.parametrize(
    ("target", "status", "severity"),
    [("rabbitmq-4", 1, "blocking"), ("artemis", 0, "none"), ("generic-1.0", 0, "major")],
)
def test_a_target_decides(file: Path, target: str, status: int, severity: str) -> None:
    found_status, text = run("report", file, "--target", target, "--format", "json")
    report: dict[str, Any] = json.loads(text)
    assert found_status == status
    found = {one["feature"]: one for one in report["findings"] if one["scope"] == "client"}
    assert found["transactions"]["severity"] == severity
    assert found["transactions"]["seen"] == 1
    assert found["transactions"]["first"] < found["transactions"]["last"] or True
    assert found["global-qos"]["need"] == "gateway"
    assert report["nodes"][0]["published"]["count"] == 1
    assert report["summary"]["blocking"] == (2 if status else 0)


def test_csv_has_no_formulas(tmp_path: Path) -> None:
    inventory = inventory_of("global-qos", name="=HYPERLINK(1)")
    status, text = run("report", saved(inventory, tmp_path / "a.json"), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert status == 0
    assert {row["feature"] for row in rows} == {"version-0-9-1", "global-qos"}
    assert all(not row["label"].startswith("=") for row in rows)


def test_html_is_escaped(tmp_path: Path) -> None:
    inventory = inventory_of("global-qos", name="<script>alert(1)</script>")
    status, text = run("report", saved(inventory, tmp_path / "a.json"), "--format", "html")
    assert status == 0
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_markup_in_names_is_text(tmp_path: Path) -> None:
    inventory = inventory_of("queue-argument-other", name="[red]x[/nothing]")
    file = saved(inventory, tmp_path / "a.json")
    assert "[red]x[/nothing]" in run("report", file)[1]


def test_difference(file: Path, tmp_path: Path) -> None:
    other = inventory_of("global-qos", "distributed-transaction", vhost="v")
    after = saved(other, tmp_path / "b.json")
    status, text = run("diff", file, after)
    assert status == 1  # something new is blocking
    assert "+ feature c1" not in text
    assert "+ feature billing, 0-9-1, 192.0.2.7: distributed transactions (dtx, XA) [blocking]" in (
        text
    )
    assert "- feature billing, 0-9-1, 192.0.2.7: local transactions [major]" in text
    assert "+ node queue orders in v" in text
    status, text = run("diff", after, file, "--format", "json")
    assert status == 0
    assert {one["change"] for one in json.loads(text)} == {"new", "gone"}
    assert run("diff", file, file) == (0, "no difference\n")


ENDLESS = '{"format": 1, "upstream": "", "started": 1, "counts": {"connections": 1e999}}'
WRONG = ["", "{}", "[]", '{"format": 2}', '{"format": 1, "clients": 3}', ENDLESS, "[" * 100_000]


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_files_that_are_no_inventory(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert run("report", file)[0] == 2
    assert run("report", tmp_path / "missing.json")[0] == 2


def test_a_document_comes_back() -> None:
    inventory = inventory_of("global-qos", "priority")
    assert Inventory.read(inventory.written()).written() == inventory.written()


def test_clients_and_nodes_beyond_the_bounds_are_counted() -> None:
    inventory = Inventory("amqp://old", BOUNDS._replace(clients=2, nodes=3))
    for number in range(5):
        inventory.client(Identity("0-9-1", name=f"client {number}"))
        inventory.node(("/", "queue", f"queue {number}"))
    assert len(inventory.clients) == 2 and len(inventory.nodes) == 3
    assert inventory.counts["cut_clients"] == 3 and inventory.counts["cut_nodes"] == 2


def test_the_room_is_shared() -> None:
    room = Room(10_000)
    tallies = [Tally(1000, room) for _ in range(10)]
    for number in range(1000):
        for tally in tallies:
            tally.add(f"value {number}")
    assert 0 < sum(len(tally.counts) for tally in tallies) < 60
    assert sum(sum(tally.counts.values()) + tally.cut for tally in tallies) == 10_000


def test_names_that_are_made_for_each_run_are_one() -> None:
    assert pattern_of("TempQueue550e8400-e29b-41d4-a716-446655440000") == "TempQueue*"
    assert pattern_of("orders-2024") == "orders-2024"
    assert identity_of("ID:host-36363-1699-0:1") == "ID:host-*-*-0:1"


@pytest.mark.parametrize(
    ("mechanism", "response", "user"),
    [
        ("PLAIN", b"\0ada\0secret", "ada"),
        ("PLAIN", b"\0ada\0sec\0ret", ""),
        ("PLAIN", b"ada", ""),
        ("AMQPLAIN", b"\x08PASSWORDS\0\0\0\x06secret\x05LOGINS\0\0\0\x03ada", "ada"),
        ("AMQPLAIN", b"\x05LOGINS\xff\xff\xff\xffada", ""),
        ("SCRAM-SHA-256", b"n,,n=ada,r=nonce", "ada"),
        ("XOAUTH2", b"user=ada\x01auth=Bearer secret\x01\x01", ""),
        ("ANONYMOUS", b"trace", "anonymous"),
    ],
)
def test_nothing_but_the_user_of_a_response(mechanism: str, response: bytes, user: str) -> None:
    assert user_of(mechanism, response) == user
