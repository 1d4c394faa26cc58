"""Landing exactly once, with drivers that are killed. Campaigns of minutes."""

import contextlib
import json
import logging
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("deltalake", reason="needs the extra `spark` (deltalake)")

import pyarrow.parquet as parquet
from deltalake import DeltaTable

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.wire import layouts as w
from gateway.journal.entries import Entry, Publisher
from gateway.journal.segments import SegmentWriter
from gateway.message import Message, Properties
from pyspark_amqp import delta
from pyspark_amqp.jobs import maintain
from tests.interop.servers import free_ports
from tests.net.preloaded import ROOT
from tests.net.running import Running, until
from tests.net.wire import PERSISTENT
from tests.pipeline.faulty import kill_tree

pytestmark = [pytest.mark.extras, pytest.mark.long, pytest.mark.timeout(3600)]

JOURNAL = "11111111-1111-1111-1111-111111111111"
log = logging.getLogger(__name__)
PATIENCE = 600.0
SEGMENT = 65_536
KILLS = 10


def fill(folder: Path, count: int, addresses: int, size: int = 20) -> None:
    """Sealed segments, of messages that all differ."""
    writer = None
    publisher = Publisher("amqp-0-9-1", "guest", "1", "client", "pika", "1.3")
    for pos in range(count):
        if pos % SEGMENT == 0:
            if writer is not None:
                writer.finish(pos)
            writer = SegmentWriter(folder, JOURNAL, pos)
        given = Properties(durable=True, message_id=f"m-{pos}", application={"number": pos})
        header = BASIC.write(given)
        name = f"q{pos % addresses}"
        body = b"%d " % pos + os.urandom(size)
        message = Message(BASIC, header, body, "", name, BASIC.essentials(header))
        assert writer is not None
        writer.add(
            Entry(pos, 1_763_900_000_000 + pos, "/", f"/queues/{name}", pos // addresses,
                  publisher, message, len(body))
        )  # fmt: skip
    assert writer is not None
    writer.finish(count)


class Driver:
    """A process that lands, and all that it begins."""

    def __init__(self, folder: Path, source: dict[str, str], **given: Any) -> None:
        self.folder = folder
        self.checkpoint = Path(given.pop("checkpoint", folder / "checkpoint"))
        faults = given.pop("faults", folder)
        settings = {
            "source": source,
            "table": str(folder / "table"),
            "checkpoint": str(self.checkpoint),
            "columns": "address,offset",
            **given,
        }
        self.log = folder / f"driver-{time.monotonic_ns()}.log"
        text = (
            "import os; os.environ['LANDING_DRIVER'] = str(os.getpid());"
            "from tests.pipeline.landing_driver import main; main()"
        )
        python = str(ROOT)
        with self.log.open("wb") as sink:
            self.process = psutil.Popen(
                [sys.executable, "-c", text, json.dumps(settings)],
                stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=python,
                env={**os.environ, "PYTHONPATH": python, "LANDING_FAULTS": str(faults)},
            )  # fmt: skip

    def kill(self) -> None:
        kill_tree(psutil.Process(self.process.pid))
        self.process.wait(60)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def finished(self) -> int:
        """Its exit status, when it has ended by itself."""
        status: int = self.process.wait(PATIENCE)
        return status

    @property
    def too_late(self) -> bool:
        """Whether it has ended because a worker took more than the ten seconds that Spark gives
        it to start, on a machine that is too busy."""
        return self.ended and "worker failed to connect back" in self.said()

    def lands(self, goal: int) -> bool:
        """Wait until the table has this version; false if it has ended ``too_late``."""
        table = self.folder / "table"
        until(lambda: version(table) >= goal or self.ended, f"version {goal}", PATIENCE)
        assert not self.ended or self.too_late, self.said()
        return not self.ended

    def lands_up_to(self, pos: int) -> None:
        """Wait until the table has the entry at this position."""
        table = self.folder / "table"
        journal = journal_of(table)
        until(
            lambda: self.ended or delta.landed_position(table, journal, "c") >= pos,
            f"position {pos}", PATIENCE,
        )  # fmt: skip
        assert not self.ended, self.said()

    def batches(self) -> tuple[int, int]:
        """The last batch that was begun, and the last that Spark has committed; -1 for none."""

        def last(name: str) -> int:
            folder = self.checkpoint / name
            names = os.listdir(folder) if folder.is_dir() else []
            return max((int(one) for one in names if one.isdigit()), default=-1)

        return last("offsets"), last("commits")

    def planned(self, batch: int) -> int:
        """The position before which a batch ends."""
        line = (self.checkpoint / "offsets" / str(batch)).read_text().strip().splitlines()[-1]
        found: int = json.loads(line)["pos"]
        return found


@contextlib.contextmanager
def driver(*arguments: Any, **given: Any) -> Iterator[Driver]:
    found = Driver(*arguments, **given)
    try:
        yield found
    finally:
        if not found.ended:
            found.kill()


def version(table: Path) -> int:
    """Of the table; cheaply, as it is asked often."""
    log = table / "_delta_log"
    names = os.listdir(log) if log.is_dir() else []
    return max((int(one[:20]) for one in names if one.endswith(".json")), default=0)


def journal_of(table: Path) -> str:
    """The journal whose rows a table has."""
    file = next(iter(delta.live_files(DeltaTable(table))))
    found = parquet.ParquetFile(table / file).read(["journal_id"])["journal_id"][0].as_py()
    return str(found)


def exact(table: Path, count: int, addresses: int) -> None:
    """Each position once, and no gap at any address."""
    positions: list[int] = []
    offsets: dict[str, list[int]] = {}
    for file in delta.live_files(DeltaTable(table)):
        rows = parquet.ParquetFile(table / file).read()
        positions += rows["pos"].to_pylist()
        for address, offset in zip(
            rows["address"].to_pylist(), rows["offset"].to_pylist(), strict=True
        ):
            offsets.setdefault(address, []).append(offset)
    assert len(positions) == count
    assert sorted(positions) == list(range(count))
    assert len(offsets) == addresses
    for found in offsets.values():
        assert sorted(found) == list(range(len(found)))


def on_disk(table: Path) -> set[str]:
    return {str(one.relative_to(table)) for one in table.glob("*=*/*=*/*")}


def test_ten_kills(tmp_path: Path) -> None:
    """Each after two more batches were seen in the table, one between the table's commit and
    Spark's. In the middle the checkpoint is lost and batches get another size."""
    count, addresses = 400_000, 40
    chance = random.Random(5)
    fill(tmp_path / "journal", count, addresses)
    table = tmp_path / "table"
    source = {"journal": str(tmp_path / "journal"), "maxRowsPerTrigger": "5000"}
    in_flight = between = kills = 0
    for _ in range(3 * KILLS):
        source["maxRowsPerTrigger"] = "5000" if kills < 6 else "7000"
        checkpoint = tmp_path / ("first" if kills < 6 else "second")
        with driver(tmp_path, source, checkpoint=checkpoint) as one:
            if kills == KILLS:
                assert one.finished() == 0 or one.too_late, one.said()
                if not one.too_late:
                    break
            if not one.lands(version(table) + 2):
                continue
            kills += 1
            if kills in (4, 9):
                (tmp_path / "kill").touch()
                one.process.wait(PATIENCE)
                (tmp_path / "kill.done").unlink(missing_ok=True)
            else:
                time.sleep(chance.uniform(0, 0.6))
                one.kill()
            begun, committed = one.batches()
            if begun > committed:
                in_flight += 1
                landed = delta.landed_position(table, JOURNAL, "c") + 1
                between += landed >= one.planned(begun)
            log.info("kill %d: in flight %d, between %d", kills, in_flight, between)
    orphans = len(on_disk(table) - delta.live_files(DeltaTable(table)))
    log.info("in flight %d, between %d, orphans %d", in_flight, between, orphans)
    exact(table, count, addresses)
    assert in_flight >= 5
    assert between >= 1
    maintain.vacuum(table, 0)
    assert on_disk(table) == delta.live_files(DeltaTable(table))
    exact(table, count, addresses)


def test_two_drivers_for_one_consumer(tmp_path: Path) -> None:
    """With checkpoints of their own. One has written a batch that the other lands first: it fails
    and says why. The other lands all."""
    count, addresses = 40_000, 10
    fill(tmp_path / "journal", count, addresses)
    source = {"journal": str(tmp_path / "journal"), "maxRowsPerTrigger": "5000"}
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "wait").touch()
    with driver(tmp_path, source, checkpoint=tmp_path / "b", faults=tmp_path / "faults") as second:
        until(lambda: (tmp_path / "faults" / "wait.done").exists(), "written", PATIENCE)
        with driver(tmp_path, source, checkpoint=tmp_path / "a") as first:
            assert second.finished() != 0
            assert "consumer c: another query lands it into" in second.said()
            assert "Let one query run for each consumer" in second.said()
            assert first.finished() == 0, first.said()
    exact(tmp_path / "table", count, addresses)
    assert on_disk(tmp_path / "table") == delta.live_files(DeltaTable(tmp_path / "table"))


@pytest.mark.parametrize("place", ["gateway", "journal"])
def test_a_gateway_killed_in_the_middle(tmp_path: Path, place: str) -> None:
    """While it takes messages that land, over HTTP and from its store. Its write-ahead log stays
    small, and what it has confirmed has landed once."""
    given = {"journal__recording": "[{}]", "journal__segment_messages": 5000}
    port = free_ports(1)[0]  # The same after a kill.
    with Running(tmp_path / "gateway", "--http-port", port, **given) as gateway:
        gateway.wire(1).declare("orders", durable=True)
        source = {"maxRowsPerTrigger": "2000"}
        if place == "gateway":
            source |= {"gateway": f"http://127.0.0.1:{port}"}
            source |= {"user": "guest", "password": "guest"}
        else:
            source |= {"journal": str(gateway.data)}
        table = tmp_path / "table"
        confirmed: list[int] = []
        wal = [0]

        def watch() -> None:
            file = gateway.data / "gateway.db-wal"
            while not stop.wait(0.05):
                with contextlib.suppress(FileNotFoundError):
                    wal.append(file.stat().st_size)

        stop = threading.Event()
        watching = threading.Thread(target=watch)
        watching.start()
        try:
            with driver(tmp_path, source, columns="address,offset,body", every="1 second") as one:
                for part in range(4):
                    before = version(table)
                    publish(gateway, confirmed, part, 10_000)
                    assert one.lands(before + 1), one.said()
                    if part in (1, 2):
                        gateway.kill()
                        gateway.start()
                one.lands_up_to(len(confirmed) - 1)
        finally:
            stop.set()
            watching.join()
    exact(table, len(confirmed), 1)
    log.info("most octets of the write-ahead log: %d", max(wal))
    assert max(wal) < 64 << 20


def publish(gateway: Running, confirmed: list[int], part: int, count: int) -> None:
    """Messages with confirms; returns when the gateway has confirmed all."""
    wire = gateway.wire(1)
    wire.call(1, w.ConfirmSelect(), w.ConfirmSelectOk)
    numbers = range(part * count, (part + 1) * count)
    for first in numbers[::500]:
        chunk = range(first, first + 500)
        wire.send(b"".join(wire.message("orders", b"%d" % one, PERSISTENT) for one in chunk))
        while wire.heard(w.BasicAck).delivery_tag < chunk.stop - numbers.start:
            pass
    confirmed += numbers
