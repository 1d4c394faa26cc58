"""Processes that land a journal in the order of Spark's batches, and are killed: each row once.

Without Spark, so that a life takes a second. The order is Spark's: the range of a batch is written
down, its tasks write files, the table gets them, the batch is written down as committed; a range
that was written down is done again as it is. ``test_land_killed`` does the same with Spark.
"""

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("deltalake", reason="needs the extra `spark` (deltalake)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")

from deltalake import DeltaTable

from pyspark_amqp import delta
from pyspark_amqp.jobs import maintain
from tests.net.preloaded import ROOT
from tests.net.running import PATIENCE, until
from tests.pipeline.test_delta import JOURNAL, SCHEMA, Landing, batch

pytestmark = [pytest.mark.extras, pytest.mark.timeout(600)]

COUNT = 8000
KILLS = 10
LIFE = "import sys; from tests.pipeline.test_delta_killed import live; live(*sys.argv[1:])"


def last(folder: Path) -> int:
    """The last batch that a checkpoint has in this folder, or -1."""
    return max((int(one) for one in os.listdir(folder) if one.isdigit()), default=-1)


def note(file: Path, text: str) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(file)


def planned(checkpoint: Path, number: int) -> tuple[int, int]:
    start, end = (checkpoint / "offsets" / str(number)).read_text().split()
    return int(start), int(end)


def live(table: str, checkpoint: str, size: str, fault: str) -> None:
    """Land batches until all of the journal has landed."""
    folder = Path(checkpoint)
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    number = last(folder / "commits") + 1
    start = planned(folder, number - 1)[1] if number else 0
    while start < COUNT:
        if number > last(folder / "offsets"):
            note(folder / "offsets" / str(number), f"{start} {min(COUNT, start + int(size))}")
        start, end = planned(folder, number)
        middle = (start + end) // 2
        tasks = [
            delta.write(Path(table), "c", SCHEMA, iter([batch(*range(low, high))]))
            for low, high in ((start, middle), (middle, end))
        ]
        delta.commit(Path(table), "c", tasks)
        if os.path.exists(fault):
            os.unlink(fault)
            os.kill(os.getpid(), signal.SIGKILL)
        note(folder / "commits" / str(number), "")
        start, number = end, number + 1


def version(table: Path) -> int:
    return max(int(one[:20]) for one in os.listdir(table / "_delta_log") if one.endswith(".json"))


def begun_or_ended(process: "subprocess.Popen[bytes]", table: Path, goal: int) -> bool:
    return version(table) >= goal or process.poll() is not None


def test_ten_kills(tmp_path: Path) -> None:
    """Three of them between the table's commit and the batch's; in the middle the checkpoint is
    lost, and batches get another size."""
    chance = random.Random(21)
    landing = Landing(tmp_path)
    in_flight = between = 0
    for kill in range(KILLS + 1):
        checkpoint = tmp_path / ("first" if kill < 6 else "second")
        fault = tmp_path / "fault"
        before = version(landing.path)
        process = subprocess.Popen(
            [sys.executable, "-c", LIFE, str(landing.path), str(checkpoint),
             "100" if kill < 6 else "140", str(fault)],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            if kill == KILLS:
                assert process.wait(PATIENCE) == 0
                break
            until(partial(begun_or_ended, process, landing.path, before + 2), "two batches")
            assert process.poll() is None
            if kill % 3 == 1:
                fault.touch()
                assert process.wait(PATIENCE) == -signal.SIGKILL
            else:
                time.sleep(chance.uniform(0, 0.2))
        finally:
            process.kill()
            process.wait()
        begun = last(checkpoint / "offsets")
        if begun > last(checkpoint / "commits"):
            in_flight += 1
            landed = delta.landed_position(landing.path, JOURNAL, "c") + 1
            between += landed >= planned(checkpoint, begun)[1]
    assert in_flight >= 5
    assert between >= 3
    rows = landing.rows()
    assert len(rows) == COUNT
    assert landing.positions() == list(range(COUNT))
    offsets: dict[str, list[int]] = {}
    for one in rows:
        offsets.setdefault(one["address"], []).append(one["offset"])
    assert all(sorted(found) == list(range(len(found))) for found in offsets.values())
    maintain.vacuum(landing.path, 0)
    assert landing.on_disk() == landing.live()
    assert len(DeltaTable(landing.path).file_uris()) == len(landing.live())
    assert landing.positions() == list(range(COUNT))
