"""Campaigns of the job ``transcode``: millions of messages with both engines, and an executor that
is killed. ``TRANSCODE_MESSAGES`` is how many there are; the figures are printed (``pytest -s``)."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("pyarrow", reason="needs the extra `journal`")

from gateway.archive.recordings import read_recording
from gateway.archive.side import Found
from gateway.journal.entries import Entry
from gateway.journal.segments import SegmentWriter
from gateway.message import Essentials, Message
from tests.archive.recorded import write_archive
from tests.pipeline.conftest import needs_spark
from tests.pipeline.test_transcode import PUBLISHER, message

pytestmark = [pytest.mark.long, pytest.mark.extras, pytest.mark.timeout(3600)]

MESSAGES = int(os.environ.get("TRANSCODE_MESSAGES", "5000000"))
SEGMENT = 65_536
UNIQUE = 2
"""Segments that are made; the others are the same under other names."""
SIZE = 330
"""Octets of a body; with its properties and its route a message has about 500."""

ENGINE = """
import os, sys, time
from pathlib import Path
from gateway.archive.batches import AMQP10
from gateway.archive.pool import transcode_locally
from gateway.archive.reading import bundles_of, list_parts
from gateway.archive.writing import Plan, finish, prepare
from pyspark_amqp.jobs.transcode import transcode_with_spark

if __name__ == "__main__":
    engine, archive, out, master = sys.argv[1:]
    bundles = bundles_of(list_parts([Path(archive)]))
    plan = Plan(f"{out}/out", f"{out}/errors", AMQP10)
    prepare(plan, False)
    if engine == "local":
        print("begun", flush=True)
        total = finish(plan, transcode_locally(bundles, plan, 2))
    else:
        from pyspark_amqp.session import session
        spark = session("campaign", **{"spark.master": master, "spark.task.maxFailures": "4"})
        spark.range(1).count()
        print("begun", flush=True)
        total = finish(plan, transcode_with_spark(spark, bundles, plan))
    print("done", *total, flush=True)
"""


def write_millions(folder: Path, count: int) -> None:
    """Segments with unique messages, among them each of the recordings."""
    recorded = [
        one.found
        for path in write_archive(folder / "recorded")
        for one in read_recording(path)
        if isinstance(one.found, Found)
    ]
    made: list[Path] = []
    (folder / "journal").mkdir()
    for number in range(-(-count // SEGMENT)):
        start = number * SEGMENT
        if number >= UNIQUE:
            name = f"{start:020d}-{start + SEGMENT:020d}.parquet"
            os.link(made[number % UNIQUE], folder / "journal" / name)
            continue
        writer = SegmentWriter(folder / "journal", "journal-1", start)
        for pos in range(start, start + SEGMENT):
            one = message(pos, SIZE)
            if pos % 20 == 7:
                found = recorded[pos // 20 % len(recorded)]
                one = Message(
                    found.dialect, found.header, found.body, found.exchange, found.key, Essentials()
                )
            writer.add(
                Entry(pos, pos, "/", "/exchanges/orders", pos, PUBLISHER, one, len(one.body))
            )
        segment = writer.finish(start + SEGMENT)
        assert segment is not None
        made.append(segment.path)


class Seconds:
    """Of the processors, in all processes below one."""

    def __init__(self, root: int) -> None:
        self._root = psutil.Process(root)
        self._seen: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Seconds":
        self._look()
        self._before = sum(self._seen.values())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self._look()

    def _look(self) -> None:
        with contextlib.suppress(psutil.Error):
            for one in [self._root, *self._root.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    times = one.cpu_times()
                    self._seen[one.pid] = times.user + times.system

    @property
    def spent(self) -> float:
        return sum(self._seen.values()) - self._before


@contextlib.contextmanager
def running(engine: str, archive: Path, out: Path, master: str) -> Iterator[Any]:
    """The engine in a process of its own, which has begun."""
    out.mkdir()
    script = out / "engine.py"
    script.write_text(ENGINE)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    command = [sys.executable, *map(str, (script, engine, archive, out, master))]
    with (
        (out / "log").open("wb") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
            start_new_session=True,
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("begun"):
                    break
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def ended(process: Any, out: Path) -> list[int]:
    """The summary."""
    for line in process.stdout:
        if line.startswith("done"):
            return [int(word) for word in line.split()[1:]]
    raise AssertionError((out / "log").read_text()[-3000:])


def octets(out: Path) -> dict[str, bytes]:
    places = sorted(out.glob("out/part-*")) + sorted(out.glob("errors/part-*"))
    return {str(path.relative_to(out)): path.read_bytes() for path in places}


def test_both_engines_with_millions_of_messages(tmp_path: Path) -> None:
    needs_spark()
    write_millions(tmp_path, MESSAGES)
    archive = tmp_path / "journal"
    totals = []
    for engine in ("local", "spark"):
        out = tmp_path / engine
        begun = time.monotonic()
        with running(engine, archive, out, "local[2,4]") as process:
            at_work = time.monotonic()
            with Seconds(process.pid) as seconds:
                total = ended(process, out)
        over = time.monotonic()
        totals.append(total)
        sys.stdout.write(
            f"\n{engine}: {total[0]} messages, {over - at_work:.1f} s after {at_work - begun:.1f} s"
            f" of beginning, {total[0] / (over - at_work):.0f}/s, processors {seconds.spent:.1f} s,"
            f" {total[0] / seconds.spent:.0f} a second of one\n"
        )
    assert totals[0] == totals[1] and totals[0][0] >= MESSAGES
    assert octets(tmp_path / "local") == octets(tmp_path / "spark")


def test_an_executor_is_killed(tmp_path: Path) -> None:
    """A cluster on this machine: two executors, of which one dies when files of both are there."""
    needs_spark()
    write_millions(tmp_path, min(MESSAGES, 16 * SEGMENT))
    archive = tmp_path / "journal"
    with running("local", archive, tmp_path / "local", "") as process:
        expected = ended(process, tmp_path / "local")
    with running("spark", archive, tmp_path / "spark", "local-cluster[2,1,1024]") as process:
        deadline = time.monotonic() + 300
        while len(list(tmp_path.glob("spark/out/part-*"))) < 2:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        executors = [one for one in children if "CoarseGrainedExecutorBackend" in str(command(one))]
        assert len(executors) == 2
        executors[0].kill()
        assert ended(process, tmp_path / "spark") == expected
    assert octets(tmp_path / "local") == octets(tmp_path / "spark")


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
