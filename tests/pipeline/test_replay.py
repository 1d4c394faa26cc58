"""The job ``replay``: an archive into a running gateway, by its command."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")

from gateway.bodies import Spool
from pyspark_amqp.__main__ import app
from pyspark_amqp.jobs.inputs import Inputs
from pyspark_amqp.jobs.replay import Given, document_of, grouped, publishing_of, replay
from pyspark_amqp.options import OptionError
from pyspark_amqp.publishing import Fate, Publishing, Ready
from tests.net.running import Running
from tests.pipeline.test_rows import NEW, with_large_bodies
from tests.pipeline.test_sink import bodies, gateway, options
from tests.pipeline.test_source import Filled, read

__all__ = ["gateway"]

pytestmark = [pytest.mark.extras, pytest.mark.timeout(300)]


def fate(pos: int, outcome: str = "published", problem: str = "", to: str = "/queues/q") -> Fate:
    return Fate(Ready("j", "/queues/a", pos, to, b"", pos), outcome, problem)


def test_groups() -> None:
    """One row for the messages of an address with the same fate; an exchange is one target."""
    found = grouped(iter([
        fate(3), fate(1), fate(2, "rejected", "no"), fate(4, to="/exchanges/x/a"),
        fate(5, to="/exchanges/x/b"),
    ]))  # fmt: skip
    assert {tuple(group): span for group, span in found.items()} == {
        ("/queues/a", "/queues/q", "published", ""): (2, 1, 3),
        ("/queues/a", "/queues/q", "rejected", "no"): (1, 2, 2),
        ("/queues/a", "/exchanges/x", "published", ""): (2, 4, 5),
    }
    many = grouped(fate(n, "rejected", str(n)) for n in range(5000))
    assert len(many) == 1001
    assert sum(span[0] for span in many.values()) == 5000


GIVEN = Given(None, None, None, None, None, None, "r", None, "fail", 500)


def test_where_to(tmp_path: Path) -> None:
    """To the gateway that is read, or to another with credentials of its own."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    source = Inputs(gateway="http://a:1", user="u", password_file=secret, vhost="v")
    found = publishing_of(source, GIVEN, False)
    assert (found.gateway, found.user, found.password, found.vhost) == ("http://a:1", "u", "s", "v")
    other = GIVEN._replace(gateway="http://b:1", token="t", rate="5/s")
    found = publishing_of(source, other, True)
    assert (found.gateway, found.user, found.token, found.vhost) == ("http://b:1", "", "t", "/")
    assert (found.rate, found.skip, found.dry_run) == (5.0, True, True)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "--to"), ({"gateway": "http://b:1"}, "--to-user"), ({"rate": "x"}, "--rate"),
        ({"replay_id": ""}, "--replay-id"), ({"target": "/x/y"}, "--target"),
        ({"on_reject": "park"}, "--on-reject"), ({"vhost": "*"}, "--to-vhost"),
        ({"max_in_flight": 0}, "--max-in-flight"),
    ],
)  # fmt: skip
def test_wrong_use(given: dict[str, Any], name: str) -> None:
    full = {"gateway": "http://b:1", "token": "t", **given}
    given = full if set(given) - {"gateway"} else given
    with pytest.raises(OptionError, match=f"^{name}: "):
        publishing_of(Inputs(journal="/x"), GIVEN._replace(**given), False)


def test_the_document() -> None:
    rows: list[dict[str, Any]] = [
        {"outcome": "published", "messages": 3}, {"outcome": "duplicate", "messages": 2},
        {"outcome": "published", "messages": 1},
    ]  # fmt: skip
    found = document_of(Publishing("http://h", replay="r"), 6, 2, rows)
    told = {
        name: found[name] for name in ("messages", "before", "published", "duplicates", "rejected")
    }
    assert told == {"messages": 6, "before": 2, "published": 4, "duplicates": 2, "rejected": 0}


def run(gateway: Running, folder: Path, *arguments: str) -> tuple[int, Any]:
    """The command, on the journal in a folder."""
    given = options(gateway)
    secret = folder / "secret"
    secret.write_text("guest")
    result = CliRunner().invoke(app, [
        "replay", "--journal", str(folder), "--to", given["gateway"], "--to-user", "guest",
        "--to-password-file", str(secret), "--replay-id", "again", *arguments,
    ])  # fmt: skip
    try:
        return result.exit_code, json.loads(result.stdout)
    except ValueError:
        return result.exit_code, result.output


def test_dry_run_then_replay(spark: Any, gateway: Running, tmp_path: Path) -> None:
    filled = Filled(tmp_path / "source")
    filled.fill(0, 25)
    filled.seal()
    status, dry = run(gateway, filled.folder, "--dry-run", "--json")
    assert (status, dry["published"], dry["rejected"], dry["messages"]) == (1, 13, 12, 25)
    groups = [(one["address"], one["outcome"], one["messages"]) for one in dry["groups"]]
    assert groups == [("/queues/more", "rejected", 12), ("/queues/orders", "published", 13)]
    assert "no queue 'more'" in dry["groups"][0]["problem"]
    spans = [(one["first_pos"], one["last_pos"]) for one in dry["groups"]]
    assert spans == [(1, 23), (0, 24)]
    assert bodies(gateway, "orders") == []
    arguments = ["--target", "/queues/copies", "--key", "property:kind", "--rate", "10000/s"]
    status, told = run(gateway, filled.folder, *arguments, "--json", "--end", "15")
    assert (status, told["published"], told["before"]) == (0, 15, 0)
    status, told = run(gateway, filled.folder, *arguments)
    assert (status, "10 published, 15 published before, 0 rejected" in told) == (0, True), told
    found = bodies(gateway, "copies")
    assert sorted(found) == sorted(b"body %d" % n for n in range(25))
    numbers = [int(one.split()[1]) for one in found]
    for kind in (0, 1):
        ordered = [n for n in numbers if n % 2 == kind]
        assert ordered == sorted(ordered), "one key, one order"
    status, told = run(gateway, filled.folder, "--forget")
    assert (status, told) == (0, "again: forgotten\n")
    with pytest.raises(OptionError, match="^key: "):
        replay(read(spark, filled.folder).load(), Publishing("http://h"), key="colour")


def test_large_bodies(spark: Any, gateway: Running, tmp_path: Path) -> None:
    """Those that stand in files beside the segments are published too, octet by octet."""
    (tmp_path / "spool").mkdir()
    sent = with_large_bodies(tmp_path / "old", Spool(str(tmp_path / "spool")), NEW)
    arguments = ["--target", "/queues/large", "--json"]
    gateway.wire(1).declare("large")
    status, told = run(gateway, tmp_path / "old", *arguments)
    assert (status, told["published"], told["rejected"]) == (0, 7, 0), told
    found = bodies(gateway, "large")
    assert [len(one) for one in found] == [len(one) for one in sent]
    assert found == sent
