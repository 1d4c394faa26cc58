"""The blocks of docs/pipeline.md in their order: a gateway has the page's settings, commands run in
this process with the one session of Spark, programs get what the page has before them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")
pytest.importorskip("deltalake", reason="needs the extra `spark` (deltalake)")

from gateway.journal.entries import Publisher
from pyspark_amqp.__main__ import app
from tests.archive.recorded import write_archive
from tests.examples.commands import environment
from tests.examples.not_run import check_listed, left_out
from tests.examples.reader import Block, blocks, guide
from tests.examples.test_shown_commands import lines
from tests.interop.servers import HOST
from tests.net.running import PATIENCE, Running
from tests.pipeline.traffic import Sent, write_journal

pytestmark = [pytest.mark.extras, pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = "pipeline"
BLOCKS = blocks(guide(PAGE))
SECRETS = {"secret": "guest", "pw": "of-ops"}
"""Files with passwords: of guest, and of ops."""
NAMED = (*SECRETS, "old/", "new/", "landed", "messages", "rows", "rows-errors")
"""Files and directories of commands that get their folder: Spark has the working directory in which
its session began."""
MESSAGES = 60
"""To each of two addresses; a position of the page is 100."""
ENDLESS = "--once"
"""The option without which the job `land` goes on until it is stopped."""


def prepared(running: Running) -> None:
    """The queues that messages go to, and the user of the page."""
    with httpx.Client(
        base_url=f"http://{HOST}:{running.http_port}/api", auth=("guest", "guest"), timeout=PATIENCE
    ) as client:
        user = {"password": SECRETS["pw"], "tags": "administrator"}
        client.put("/users/ops", json=user).raise_for_status()
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        client.put("/permissions/%2F/ops", json=rights).raise_for_status()
        client.put("/exchanges/%2F/orders", json={"type": "fanout"}).raise_for_status()
        for queue in ("copies", "audit"):
            client.put(f"/queues/%2F/{queue}", json={"durable": True}).raise_for_status()
        client.post("/bindings/%2F/e/orders/q/copies", json={}).raise_for_status()


def published(running: Running) -> None:
    with httpx.Client(auth=("guest", "guest"), timeout=PATIENCE) as client:
        for number in range(MESSAGES):
            for target in ("exchanges/orders", "queues/audit"):
                url = f"http://{HOST}:{running.http_port}/v1/%2F/{target}/messages"
                answer = client.post(url, content=b"%d" % number)
                assert answer.status_code == 201, answer.text


class Pasting:
    """Commands and programs of the page, with this test's places for those it names."""

    def __init__(self, folder: Path, spark: Any, gateway: Running, new: Running) -> None:
        self.folder, self.spark = folder, spark
        self.names: dict[str, Any] = {"spark": spark}
        here, there = (f"http://{HOST}:{one.http_port}" for one in (gateway, new))
        self.data_dir = str(gateway.data)
        self.places = {
            "/var/lib/amqp-gateway": self.data_dir,
            "/data/journal-table": str(folder / "journal-table"),
            "/data/checkpoints": str(folder / "checkpoints"),
            # What one of the commands before has landed.
            "/data/orders": str(folder / "landed"),
            "/data/old-journal": str(folder / "landed"),
            "/mnt/": f"{folder}/mnt/",
            "captures/": f"{folder}/mnt/captures/",
            "http://gateway.example:8080": here,
            "http://127.0.0.1:8080": here,
            "http://host:8080": there,
            "http://new:8080": there,
            'passwordFile="secret"': f'passwordFile="{folder / "secret"}"',
        }
        longest = sorted(self.places, key=len, reverse=True)
        self.shown = re.compile("|".join(rf"(?<!\w){re.escape(one)}" for one in longest))
        self.before: list[str] = []
        """The words of the command before."""

    def here(self, text: str) -> str:
        return self.shown.sub(lambda found: self.places[found[0]], text)

    def paste(self, block: Block) -> None:
        if block.language == "python":
            exec(compile(self.here(block.text), "docs/pipeline.md", "exec"), self.names)
            for query in self.spark.streams.active:
                query.processAllAvailable()
                query.stop()
            return
        for words in lines(self.here(block.text)):
            if words:
                self.run([str(self.folder / one) if one in NAMED else one for one in words])

    def run(self, words: list[str]) -> None:
        if "..." in words:  # the command before, with other options at its end
            kept = [one for one in self.before[3:] if one != "--dry-run"]
            words = [one for word in words for one in (kept if word == "..." else [word])]
        else:
            self.before = words
        if words[:3] == ["amqp-gateway", "pipeline", "land"] and ENDLESS not in words:
            words = [*words, ENDLESS]
        if words[:2] == ["amqp-gateway", "pipeline"]:
            done = CliRunner().invoke(app, words[2:])
            # Status 1 of a report: a client cannot move before it is changed.
            taken = (0, 1) if words[2] == "report" else (0,)
            assert done.exit_code in taken, (words, done.output, done.exception)
            assert done.exception is None or isinstance(done.exception, SystemExit), words
            return
        if words[0] == "amqp-gateway":
            words = [sys.executable, "-m", "gateway", *words[1:]]
        elif words[0] == "curl":
            words = ["curl", "--silent", "--fail-with-body", *words[1:]]
        else:
            raise AssertionError(f"a command that is not known here: {words}")
        done_ = subprocess.run(
            words, cwd=self.folder, env=environment(AMQP_GATEWAY_DATA_DIR=self.data_dir),
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done_.returncode == 0, (words, done_.stdout, done_.stderr)


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[tuple[Running, Running]]:
    """One that records what the page's settings name, and one that messages are replayed into."""
    settings = [one.text for one in BLOCKS if one.language == "toml"]
    file = tmp_path / "gateway.toml"
    file.write_text("\n".join(settings))
    with (
        Running(tmp_path / "gateway", "--config", file) as old,
        Running(tmp_path / "target") as new,
    ):
        for one in (old, new):
            prepared(one)
        published(old)
        yield old, new


def archives(folder: Path) -> None:
    """A directory of segments, and one of recordings."""
    publisher = Publisher("amqp-0-9-1", "guest", "c1", "client", "pika", "1.4")
    write_journal(folder / "journal", [Sent(publisher, "/queues/orders")] * 5)
    write_archive(folder / "captures")


def pair(spark: Any, folder: Path) -> None:
    """Archives of Parquet of an old queue, and of a new one with another name."""
    rows = spark.read.format("amqp").option("journal", str(folder / "mnt" / "journal")).load()
    from pyspark.sql.functions import lit

    for name, address in (("old", "/queues/bills"), ("new", "/queues/bills.new")):
        rows.withColumn("address", lit(address)).write.parquet(str(folder / name))


def test_the_blocks_of_the_page(
    spark: Any,
    gateways: tuple[Running, Running],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_listed(PAGE)
    old, new = gateways
    for name, secret in SECRETS.items():
        (tmp_path / name).write_text(secret)
    archives(tmp_path / "mnt")
    pair(spark, tmp_path)
    monkeypatch.chdir(tmp_path)
    page = Pasting(tmp_path, spark, old, new)
    unknown = [one for one in BLOCKS if one.language not in ("sh", "python", "toml")]
    assert unknown == []
    for block in BLOCKS:
        if block.language != "toml" and not left_out(PAGE, block.text):
            page.paste(block)
    # Each message was replayed once, by a program and by a command with the same name of a replay:
    # the program has those of both addresses.
    queues = {one["name"]: one["messages"] for one in new.asked("/api/queues")}
    assert queues["copies"] == 2 * MESSAGES
    assert "/queues/audit" in (tmp_path / "report.html").read_text()
    assert list((tmp_path / "tables").glob("*.csv"))
    for name in ("messages", "rows"):
        assert (tmp_path / name / "_SUCCESS").exists()
    assert page.names["rows"].where("error_code is null").count() > 0
