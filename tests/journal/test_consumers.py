"""Who reads the journal: in files, over HTTP, on the command line and among the metrics."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.journal import consumers as consumers_module
from gateway.journal.consumers import Consumer, Consumers, TooMany
from gateway.journal.entries import JournalError
from tests.app.test_cli import run
from tests.journal.test_over_http import SETTINGS, Asking
from tests.net.running import PATIENCE, until

ONE = Consumer("report", "j", 3, 3, 1000)


def test_a_consumer_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Consumers(tmp_path)
    assert kept.all() == [] and kept.get("report") is None
    assert kept.begin(ONE) == ONE
    assert kept.begin(ONE._replace(start=9, position=9)) == ONE
    assert kept.advance("report", 7, seen=2000) == ONE._replace(position=7, seen=2000)
    assert kept.advance("report", 5, seen=3000).position == 7
    other = kept.begin(ONE._replace(vhost="a/b", user="ann"))
    assert kept.all() == [ONE._replace(position=7, seen=3000), other]
    assert other.lag("j", 10) == 7 and other.lag("k", 10) is None and other.lag("j", 1) == 0
    monkeypatch.setattr(consumers_module, "MOST", 2)
    with pytest.raises(TooMany):
        kept.begin(ONE._replace(name="more"))
    assert kept.remove("report", "a/b") and not kept.remove("report", "a/b")
    for name in ("../x", ".x", "", "x" * 129, "a b"):
        with pytest.raises(JournalError, match="consumer: letters"):
            kept.get(name)
    with pytest.raises(JournalError, match="no consumer"):
        kept.advance("nobody", 1)
    # As readers of the first version have written it.
    (tmp_path / "consumers" / "old.json").write_text('{"epoch": "j", "pos": 4}')
    assert kept.get("old") == Consumer("old", "j", 4, 4)
    (tmp_path / "consumers" / "bad.json").write_text("{")
    assert [one.name for one in kept.all()] == ["old", "report"]


class Reading(Asking):
    """A gateway with five entries, and a user ``reader`` who may read the queue ``orders``."""

    def ask(self, method: str, path: str, user: str = "guest", **more: Any) -> httpx.Response:
        url = f"http://127.0.0.1:{self.http_port}/v1/%2F/journal{path}"
        return httpx.request(method, url, auth=(user, user), timeout=PATIENCE, **more)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    with Reading(tmp_path_factory.mktemp("gateway"), **SETTINGS) as reading:
        wire = reading.wire(1)
        for queue in ("orders", "private"):
            wire.declare(queue, durable=True)
        reading.put("orders", b"0", b"1", b"2")
        reading.put("private", b"3", b"4")
        done = run("user", "add", "reader", "--password", "reader", "--read", "^orders$",
                   "--data-dir", reading.data)  # fmt: skip
        assert done.returncode == 0, done
        until(lambda: reading.get("reader").status_code == 200, "the user")
        yield reading


def test_positions_over_http(gateway: Reading) -> None:
    made = gateway.ask("PUT", "/consumers/late", json={"start": "latest"})
    assert made.status_code == 201, made.text
    assert (made.json()["start"], made.json()["position"], made.json()["lag"]) == (5, 5, 0)
    again = gateway.ask("PUT", "/consumers/late", json={"start": "earliest"})
    assert again.status_code == 200 and again.json()["start"] == 5
    assert gateway.ask("PUT", "/consumers/early").json()["position"] == 0
    moved = gateway.ask("PUT", "/consumers/early", json={"position": 2})
    assert (moved.json()["start"], moved.json()["position"], moved.json()["lag"]) == (0, 2, 3)
    assert gateway.ask("PUT", "/consumers/early", json={"position": 1}).json()["position"] == 2
    shown = gateway.get(consumer="early").json()
    assert [one["pos"] for one in shown["entries"]] == [2, 3, 4]
    assert [one["pos"] for one in gateway.get(consumer="early", start=1).json()["entries"]][0] == 1
    listed = gateway.ask("GET", "/consumers").json()["consumers"]
    assert [(one["name"], one["user"]) for one in listed] == [("early", "guest"), ("late", "guest")]
    for name in ("early", "late"):
        assert gateway.ask("DELETE", f"/consumers/{name}").status_code == 204
    assert gateway.ask("DELETE", "/consumers/early").status_code == 404
    assert gateway.get(consumer="early").status_code == 404


def test_mistakes_and_rights(gateway: Reading) -> None:
    for body, status in (
        ({"position": 6}, 409), ({"start": 6}, 409), ({"start": -1}, 409),
        ({"start": "newest"}, 422), ({"position": -1}, 422), ({"pos": 1}, 422),
    ):  # fmt: skip
        answer = gateway.ask("PUT", "/consumers/x", json=body)
        assert answer.status_code == status, (body, answer.text)
    assert gateway.ask("PUT", "/consumers/.x").status_code == 400
    assert gateway.ask("PUT", "/consumers/mine").status_code == 201
    refused = gateway.ask("PUT", "/consumers/mine", "reader", json={"position": 1})
    assert refused.status_code == 403, refused.text
    assert gateway.ask("DELETE", "/consumers/mine", "reader").status_code == 403
    assert gateway.get("reader", consumer="mine").status_code == 403
    assert gateway.ask("PUT", "/consumers/theirs", "reader").status_code == 201
    assert gateway.ask("DELETE", "/consumers/theirs").status_code == 204
    assert gateway.ask("DELETE", "/consumers/mine").status_code == 204


def test_the_whole(gateway: Reading) -> None:
    Consumers(gateway.data / "journal").begin(
        Consumer("files", gateway.get().json()["journal"], 1, 1)
    )
    shown = gateway.ask("GET", "/overview").json()
    assert (shown["start"], shown["sealed"], shown["end"]) == (0, 0, 5)
    assert shown["recording"] and shown["keep_seconds"] == 604800
    addresses = [(one["address"], one["entries"], one["last"]) for one in shown["addresses"]]
    assert addresses == [("/queues/orders", 3, 2), ("/queues/private", 2, 1)]
    assert [one["name"] for one in shown["consumers"]] == ["files"]
    seen = gateway.ask("GET", "/overview", "reader").json()
    assert [one["address"] for one in seen["addresses"]] == ["/queues/orders"]
    assert seen["consumers"] == []
    done = run("journal", "list", "--consumers", "--json", "--data-dir", gateway.data)
    assert json.loads(done.stdout)["lag"] == 4
    assert "files" in run("journal", "list", "--consumers", "--data-dir", gateway.data).stdout
    url = f"http://127.0.0.1:{gateway.http_port}/metrics"
    lines = httpx.get(url, auth=("guest", "guest"), timeout=PATIENCE).text.splitlines()
    for line in (
        "amqp_gateway_journal_entries_total 5.0",
        "amqp_gateway_journal_end_position 5.0",
        "amqp_gateway_journal_unsealed_entries 5.0",
        "amqp_gateway_journal_segments 0.0",
        "amqp_gateway_journal_failures_total 0.0",
        'amqp_gateway_journal_consumer_lag{consumer="files",vhost=""} 4.0',
    ):
        assert line in lines, line
    assert Consumers(gateway.data / "journal").remove("files")
