"""The journal over HTTP and on the command line, of a running gateway."""

import asyncio
import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.http import problems
from gateway.http.journal.thread import JournalThread
from gateway.http.problems import Problem
from gateway.journal.canonical import COLUMNS, COSTLY
from gateway.journal.reader import JournalReader
from tests.app.test_cli import run
from tests.net.running import PATIENCE, Running, until

SETTINGS = {"journal__recording": '[{"vhost": "/"}]'}
PATH = "/v1/%2F/journal"


class Asking(Running):
    """A gateway that records all, with the queues ``orders`` and ``private``."""

    def put(self, queue: str, *bodies: bytes, **headers: str) -> None:
        for body in bodies:
            url = f"http://127.0.0.1:{self.http_port}/v1/%2F/queues/{queue}/messages"
            answer = httpx.post(
                url, content=body, headers=headers, auth=("guest", "guest"), timeout=PATIENCE
            )
            assert answer.status_code == 201, answer.text

    def get(self, user: str = "guest", accept: str = "", **query: Any) -> httpx.Response:
        url = f"http://127.0.0.1:{self.http_port}{PATH}"
        headers = {"accept": accept} if accept else {}
        return httpx.get(url, params=query, headers=headers, auth=(user, user), timeout=PATIENCE)

    def body(self, position: int | str, user: str = "guest") -> httpx.Response:
        url = f"http://127.0.0.1:{self.http_port}{PATH}/bodies/{position}"
        return httpx.get(url, auth=(user, user), timeout=PATIENCE)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    with Asking(tmp_path_factory.mktemp("gateway"), **SETTINGS) as asking:
        wire = asking.wire(1)
        for queue in ("orders", "private"):
            wire.declare(queue, durable=True)
        wire.publish("orders", b"by amqp")
        wire.declare("orders", durable=True)
        asking.put("orders", b'{"n":1}', **{"content-type": "application/json"})
        asking.put("private", b"\xff\xfe", **{"amqp-message-id": '"m-1"'})
        done = run("user", "add", "reader", "--password", "reader", "--read", "^orders$",
                   "--data-dir", asking.data)  # fmt: skip
        assert done.returncode == 0, done
        until(lambda: asking.get("reader").status_code == 200, "the user")
        yield asking


def test_a_portion(gateway: Asking) -> None:
    shown = gateway.get().raise_for_status().json()
    assert (shown["start"], shown["end"], shown["next"]) == (0, 3, 3)
    assert shown["journal"] and shown["sealed"] == []
    first, second, third = shown["entries"]
    assert list(first) == [one.name for one in COLUMNS if one.name not in COSTLY]
    assert [one["pos"] for one in shown["entries"]] == [0, 1, 2]
    assert (first["address"], first["offset"], first["vhost"]) == ("/queues/orders", 0, "/")
    assert (first["protocol"], first["user_id"]) == ("amqp-0-9-1", "guest")
    assert second["protocol"] == "http"
    assert second["content_type"] == "application/json"
    assert base64.b64decode(second["body"]) == b'{"n":1}'
    assert (third["address"], third["offset"]) == ("/queues/private", 0)
    assert base64.b64decode(third["body"]) == b"\xff\xfe"
    assert (third["message_id"], third["message_id_type"]) == ("m-1", "string")
    assert third["annotations"]["x-routing-key"] == "private"


def test_pages(gateway: Asking) -> None:
    found, at = [], 0
    while at < 3:
        shown = gateway.get(start=at, limit=1, columns="pos").raise_for_status().json()
        found += shown["entries"]
        at = shown["next"]
    assert found == [{"pos": 0}, {"pos": 1}, {"pos": 2}]
    for beyond in (3, 1 << 40, (1 << 63) - 1):
        assert gateway.get(start=beyond).raise_for_status().json()["entries"] == []
    assert gateway.get(start=1, end=2, columns="pos").json()["entries"] == [{"pos": 1}]
    assert gateway.get(limit=0).json()["entries"] == []


def test_rights(gateway: Asking) -> None:
    """Only entries of addresses that the caller may read."""
    shown = gateway.get("reader").raise_for_status().json()
    assert [one["address"] for one in shown["entries"]] == ["/queues/orders"] * 2
    assert shown["next"] == 3
    assert gateway.get("reader", address="/queues/private").status_code == 403
    assert len(gateway.get("reader", address="/queues/*").json()["entries"]) == 2
    assert len(gateway.get(address="/queues/private").json()["entries"]) == 1


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"columns": "pos,never"}, "no column 'never'"),
        ({"columns": "pos,pos"}, "named twice"),
        ({"limit": 1001}, "limit"),
        ({"start": -1}, "start"),
        ({"begin": 1}, "begin"),
        ({"address": "orders"}, "/queues/NAME"),
    ],
)
def test_mistakes(gateway: Asking, query: dict[str, Any], words: str) -> None:
    answer = gateway.get(**query)
    assert answer.status_code == 400
    assert words in answer.json()["detail"]


def test_costly_columns(gateway: Asking) -> None:
    shown = gateway.get(columns="amqp10,lossy,body_sha256,hops").raise_for_status().json()
    first = shown["entries"][0]
    assert base64.b64decode(first["amqp10"]).endswith(b"by amqp")
    assert [one["hop"] for one in first["hops"]] == ["store"]


def test_arrow(gateway: Asking) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra `journal` (pyarrow)")
    from gateway.journal.columns import batches_of, to_entries

    answer = gateway.get(accept="application/vnd.apache.arrow.stream").raise_for_status()
    assert answer.headers["amqp-journal-next"] == answer.headers["amqp-journal-end"] == "3"
    found = [entry for batch in batches_of(answer.content) for entry in to_entries(batch)]
    assert [bytes(one.message.body[:]) for one in found] == [b"by amqp", b'{"n":1}', b"\xff\xfe"]


LARGE = b"large" * (9 << 20 >> 2)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_large_body(tmp_path: Path, sealed: bool) -> None:
    """It is not in portions, and has an address of its own."""
    if sealed:
        pytest.importorskip("pyarrow", reason="needs the extra `journal` (pyarrow)")
    sealing = {"journal__segment_messages": 3} if sealed else {"journal__seal": False}
    with Asking(tmp_path, **SETTINGS, **sealing) as gateway:
        gateway.wire(1).declare("orders", durable=True)
        gateway.put("orders", b"small", LARGE, b"last")
        if sealed:
            until(lambda: gateway.get(limit=0).json()["sealed"], "sealed")
        names = "pos,body,body_len,body_ref,body_sha256,amqp10"
        found = gateway.get(columns=names, start=1, limit=1).raise_for_status().json()
        (entry,) = found["entries"]
        assert entry == {
            "pos": 1, "body": None, "body_len": len(LARGE), "body_ref": f"bodies/{1:020d}",
            "body_sha256": None, "amqp10": None,
        }  # fmt: skip
        assert gateway.body(0).content == b"small"
        answer = gateway.body(1).raise_for_status()
        assert answer.content == LARGE
        assert answer.headers["content-length"] == str(len(LARGE))
        assert answer.headers["content-type"] == "application/octet-stream"
        if sealed:
            (tmp_path / "data" / "journal" / entry["body_ref"]).unlink()
            assert gateway.body(1).json()["type"] == "/problems/journal-trimmed"


def test_bodies_that_may_not_be_read(gateway: Asking) -> None:
    assert gateway.body(2).content == b"\xff\xfe"
    assert gateway.body(1, "reader").content == b'{"n":1}'
    for user, position in (("reader", 2), ("guest", 3), ("guest", (1 << 63) - 1)):
        answer = gateway.body(position, user)
        assert answer.status_code == 404
        assert f"no entry at position {position}" in answer.json()["detail"]
    for wrong in ("x", "-1", "1.5", "\N{SUPERSCRIPT TWO}", str(1 << 63), "9" * 200):
        answer = gateway.body(wrong)
        assert answer.status_code == 400, wrong
        assert answer.json()["detail"].startswith("position: a whole number")


def test_asked_while_the_gateway_stops(tmp_path: Path) -> None:
    """The server still answers when the reader is closed."""
    (tmp_path / "journal").mkdir()

    async def ask() -> None:
        thread = JournalThread(lambda: JournalReader(None, tmp_path / "journal"))
        assert (await thread.run(JournalReader.overview)).end == 0
        await thread.close()
        with pytest.raises(Problem) as found:
            await thread.run(JournalReader.overview)
        assert found.value.row is problems.DRAINING

    asyncio.run(ask())


def test_trimmed(tmp_path: Path) -> None:
    keeping = {"journal__keep_octets": 0, "journal__seal": False}
    with Asking(tmp_path, **SETTINGS, **keeping) as gateway:
        gateway.wire(1).declare("orders", durable=True)
        gateway.put("orders", b"x")
        until(lambda: gateway.get().json()["start"] == 1, "trimmed")
        answer = gateway.get(start=0)
        assert (answer.status_code, answer.json()["start"]) == (410, 1)
        assert answer.json()["type"] == "/problems/journal-trimmed"
        gateway.put("orders", b"y")
        assert gateway.get(start=1).json()["entries"][0]["offset"] == 1


def commanded(gateway: Asking, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run("journal", *arguments, "--data-dir", gateway.data)


def test_list(gateway: Asking) -> None:
    shown = json.loads(commanded(gateway, "list", "--json").stdout)
    assert (shown["start"], shown["end"], shown["segments"]) == (0, 3, [])
    assert {one["address"] for one in shown["addresses"]} == {"/queues/orders", "/queues/private"}
    assert "positions 0 to 2" in commanded(gateway, "list").stdout


def test_show(gateway: Asking) -> None:
    done = commanded(gateway, "show", "--json", "--columns", "pos,body", "--address", "/queues/o*")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["pos"] for one in lines] == [0, 1]
    assert base64.b64decode(lines[0]["body"]) == b"by amqp"
    assert "by amqp" in commanded(gateway, "show", "--columns", "pos,body").stdout
    done = commanded(gateway, "show", "--columns", "never")
    assert (done.returncode, "no column 'never'" in done.stderr) == (2, True)


def test_nothing_to_read(tmp_path: Path) -> None:
    done = run("journal", "list", "--data-dir", tmp_path)
    assert (done.returncode, "has no gateway.db" in done.stderr) == (2, True)
