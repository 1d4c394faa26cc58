"""The job ``transcode``: with Spark and without, the same files; whatever is in the archive."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs the extra `journal`")

import pyarrow.parquet as parquet  # noqa: E402

from gateway.adapters.methods.content import BASIC  # noqa: E402
from gateway.archive import pool  # noqa: E402
from gateway.archive.batches import AMQP10, CANONICAL  # noqa: E402
from gateway.archive.reading import ArchiveError, Bundle, list_parts  # noqa: E402
from gateway.archive.writing import Plan, Summary, finish, prepare, transcode_bundle  # noqa: E402
from gateway.journal.canonical import Rows  # noqa: E402
from gateway.journal.entries import Entry, Publisher  # noqa: E402
from gateway.journal.segments import Segment, SegmentWriter, list_segments  # noqa: E402
from gateway.message import Essentials, Message, Properties  # noqa: E402
from pyspark_amqp.jobs import transcode as job  # noqa: E402
from tests.archive.recorded import write_archive  # noqa: E402
from tests.archive.test_damage import OPEN, publish  # noqa: E402
from tests.journal.test_times import as_before  # noqa: E402

PUBLISHER = Publisher("amqp-0-9-1", "guest", "c1", "client", "pika", "1.3", listener="plant")


def message(number: int, size: int = 300) -> Message:
    properties = Properties(
        message_id=f"m-{number:08d}", content_type="text/plain", application={"n": number % 50}
    )
    body = random.Random(number).randbytes(size)
    return Message(BASIC, BASIC.write(properties), body, "orders", f"k{number % 9}", Essentials())


def write_segments(folder: Path, count: int, each: int) -> list[Segment]:
    """Sealed segments of a journal."""
    found = []
    for start in range(0, count, each):
        writer = SegmentWriter(folder, "journal-1", start)
        for pos in range(start, start + each):
            one = message(pos)
            writer.add(
                Entry(pos, 1_700_000_000_000 + pos, "/", "/exchanges/orders", pos, PUBLISHER, one,
                      len(one.body), entered=1_699_999_999_990 + pos % 7,
                      written=1_700_000_000_005 + pos if pos % 3 else 0)
            )  # fmt: skip
        segment = writer.finish(start + each)
        assert segment is not None
        found.append(segment)
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of all versions, octets with damage, and segments of a journal."""
    folder = tmp_path_factory.mktemp("archive")
    write_archive(folder)
    octets = bytearray(OPEN + b"".join(sum((publish(number) for number in range(2_000)), [])))
    draw = random.Random(7)
    for _ in range(80):
        octets[draw.randrange(8, len(octets))] ^= 0xFF
    (folder / "damaged.client").write_bytes(octets)
    write_segments(folder / "journal", 6_000, 3_000)
    return folder


def some(archive: Path) -> list[Bundle]:
    """Bundles of a few parts: as they are, all of a small archive are one."""
    parts = list_parts([archive])
    return [
        Bundle(number, tuple(parts[at : at + 16]))
        for number, at in enumerate(range(0, len(parts), 16))
    ]


def run(archive: Path, folder: Path, names: tuple[str, ...] = AMQP10) -> tuple[Plan, Summary]:
    """In this process."""
    plan = Plan(str(folder / "out"), str(folder / "errors"), names)
    prepare(plan, False)
    bundles = some(archive)
    return plan, finish(plan, [transcode_bundle(one, plan) for one in bundles])


def files(plan: Plan) -> dict[str, bytes]:
    return {
        f"{Path(place).name}/{path.name}": path.read_bytes()
        for place in (plan.output, plan.errors)
        for path in sorted(Path(place).iterdir())
    }


def rows(place: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(Path(place).glob("part-*.parquet")):
        found += parquet.read_table(path).to_pylist()
    return found


def test_counts_add_up_and_errors_have_their_places(archive: Path, tmp_path: Path) -> None:
    plan, total = run(archive, tmp_path)
    assert total.adds_up and total.errors > 20 and total.rows > 8_000
    assert total.rows == len(rows(plan.output)) and total.errors == len(rows(plan.errors))
    for row in rows(plan.errors):
        assert row["error_code"] and row["error_text"] and row["source"]
        assert row["error_position"] is not None and row["source_offset"] is not None
    keys = [row["dedup_key"] for row in rows(plan.output)]
    assert len(set(keys)) == len(keys)


def test_segments_come_out_as_the_journal_shows_them(archive: Path, tmp_path: Path) -> None:
    plan, total = run(archive / "journal", tmp_path, CANONICAL)
    assert total == (6_000, 0, 6_000, 0, total.octets)
    shown = Rows("journal-1", list(CANONICAL))
    for segment, path in zip(
        list_segments(archive / "journal"), [Path(plan.output, "part-000000.parquet")], strict=False
    ):
        expected = shown.of(segment.read(segment.start, _all()).entries[:500])
        table = parquet.read_table(path).slice(0, 500)
        for name, column in zip(CANONICAL, zip(*expected, strict=True), strict=True):
            values = table[name].to_pylist()
            if table.schema.field(name).type == pa.map_(pa.string(), pa.string()):
                values = [dict(value) for value in values]
            assert values == list(column), name


def test_segments_of_before(tmp_path: Path) -> None:
    (segment,) = write_segments(tmp_path / "in", 10, 10)
    as_before(segment.path)
    plan, total = run(tmp_path / "in", tmp_path, CANONICAL)
    assert total == (10, 0, 10, 0, total.octets)
    assert {row["listener"] for row in rows(plan.output)} == {None}
    assert [row["hops"] for row in rows(plan.output)] == [[]] * 10


def _all() -> Any:
    from gateway.journal.entries import ALL

    return ALL._replace(entries=10_000, octets=1 << 30)


def test_processes_leave_the_same_files(archive: Path, tmp_path: Path) -> None:
    plan, total = run(archive, tmp_path / "one")
    other = Plan(str(tmp_path / "two" / "out"), str(tmp_path / "two" / "errors"), AMQP10)
    prepare(other, False)
    done: list[int] = []
    bundles = some(archive)
    summaries = pool.transcode_locally(bundles, other, 2, lambda one, _: done.append(one.number))
    assert finish(other, summaries) == total
    assert sorted(done) == [one.number for one in bundles]
    assert files(plan) == files(other)


def test_a_damaged_segment(tmp_path: Path) -> None:
    (segment,) = write_segments(tmp_path / "in", 9_000, 9_000)
    octets = bytearray(segment.path.read_bytes())
    for at in range(len(octets) // 2, len(octets) // 2 + 4_000):
        octets[at] = 0xA5
    segment.path.write_bytes(octets)
    (tmp_path / "in" / f"{0:020d}-{9:020d}.parquet").write_bytes(b"PAR1 and no more")
    plan, total = run(tmp_path / "in", tmp_path)
    assert total.adds_up and total.messages == 9_001
    assert {row["error_code"] for row in rows(plan.errors)} == {"segment-damaged"}
    assert 1 < total.errors < 9_000


def test_damaged_rows_of_a_segment_are_errors(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "in", "j", 0)
    for pos in range(100):
        one = message(pos)
        if pos % 10 == 3:
            one.header = b"\xff\xff" + one.header[2:5]
        writer.add(Entry(pos, 1, "/", "/exchanges/orders", pos, PUBLISHER, one, len(one.body)))
    writer.finish(100)
    plan, total = run(tmp_path / "in", tmp_path)
    assert total == (100, 0, 90, 10, total.octets)
    found = rows(plan.errors)
    assert [row["source_offset"] for row in found] == list(range(3, 100, 10))
    assert {row["error_code"] for row in found} == {"content-broken"}
    assert [row["pos"] for row in found] == [row["source_offset"] for row in found]


def test_large_bodies_in_files_of_their_own(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path / "in", "j", 0)
    from gateway.bodies import Spool

    spool = Spool(str(tmp_path), threshold=1)
    for pos in range(3):
        sink = spool.start(9 << 20)
        assert sink is not None
        sink.add(bytes([pos]) * (9 << 20))
        large = sink.finish()
        one = message(pos)
        one.body = large
        writer.add(Entry(pos, 1, "/", "/exchanges/orders", pos, PUBLISHER, one, len(large)))
    writer.finish(3)
    next((tmp_path / "in" / "bodies").glob("*2")).unlink()
    plan, total = run(tmp_path / "in", tmp_path)
    assert total == (3, 0, 2, 1, total.octets)
    assert [row["amqp10"][-(9 << 20) :][:3] for row in rows(plan.output)] == [b"\0" * 3, b"\1" * 3]


class TestCommand:
    """``amqp-gateway pipeline transcode``."""

    def call(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gateway", "pipeline", "transcode", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    def test_without_spark(self, archive: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        done = self.call(archive, "--output", out, "--as", "amqp10", "--json", "--workers", 1)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["engine"] == "local"
        assert told["messages"] + told["unreadable"] == told["rows"] + told["errors"]
        assert json.loads((out / "_SUCCESS").read_text())["rows"] == told["rows"]
        again = self.call(archive, "--output", out, "--as", "amqp10")
        assert again.returncode == 1 and "--overwrite" in again.stderr
        (out / "mine.txt").write_text("mine")
        never = self.call(archive, "--output", out, "--overwrite")
        assert never.returncode == 1 and (out / "mine.txt").exists()

    def test_wrong_use(self, archive: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        assert self.call(archive, "--output", out, "--version", "0-7").returncode == 2
        assert self.call(archive, "--output", out, "--errors", out / "e").returncode == 2
        nothing = self.call(tmp_path / "nothing", "--output", out)
        assert nothing.returncode == 1 and "is not there" in nothing.stderr


def test_small_archives_and_those_without_java_are_read_here(
    monkeypatch: pytest.MonkeyPatch, archive: Path
) -> None:
    small = some(archive)
    assert job.engine_for(small) == "local"
    large = [one._replace(parts=one.parts * 400) for one in small]
    monkeypatch.setattr(job, "spark_is_here", lambda: True)
    assert job.engine_for(large) == "spark"
    monkeypatch.setattr(job, "spark_is_here", lambda: False)
    assert job.engine_for(large) == "local"


def test_a_process_that_dies_is_replaced(
    monkeypatch: pytest.MonkeyPatch, archive: Path, tmp_path: Path
) -> None:
    plan, total = run(archive, tmp_path / "one")
    other = Plan(str(tmp_path / "two" / "out"), str(tmp_path / "two" / "errors"), AMQP10)
    prepare(other, False)
    (tmp_path / "kill").touch()
    monkeypatch.setenv("KILL_ONCE", str(tmp_path / "kill"))
    monkeypatch.setattr(pool, "transcode_bundle", dies_once)
    summaries = pool.transcode_locally(some(archive), other, 2)
    assert not (tmp_path / "kill").exists()
    assert finish(other, summaries) == total and files(plan) == files(other)


def dies_once(bundle: Any, plan: Plan) -> Summary:
    """The process that comes first ends without a word, in the middle."""
    mark = Path(os.environ["KILL_ONCE"])
    try:
        mark.unlink()
    except FileNotFoundError:
        return transcode_bundle(bundle, plan)
    Path(plan.output, f".part-{bundle.number:06d}.parquet.x").write_bytes(b"half")
    os._exit(9)


def test_an_archive_that_kills_every_process_is_told(
    monkeypatch: pytest.MonkeyPatch, archive: Path, tmp_path: Path
) -> None:
    plan = Plan(str(tmp_path / "out"), str(tmp_path / "errors"), AMQP10)
    prepare(plan, False)
    monkeypatch.setattr(pool, "transcode_bundle", always_dies)
    monkeypatch.setattr(pool, "ATTEMPTS", 2)
    with pytest.raises(ArchiveError, match="ended the process"):
        pool.transcode_locally(some(archive), plan, 2)


def always_dies(bundle: Any, plan: Plan) -> Summary:
    os._exit(9)


# --- with Spark -----------------------------------------------------------------------------------


@pytest.mark.extras
def test_spark_leaves_the_files_that_processes_leave(
    spark: Any, archive: Path, tmp_path: Path
) -> None:
    plan, total = run(archive, tmp_path / "one")
    other = Plan(str(tmp_path / "two" / "out"), str(tmp_path / "two" / "errors"), AMQP10)
    prepare(other, False)
    summaries = job.transcode_with_spark(spark, some(archive), other)
    assert finish(other, summaries) == total
    assert files(plan) == files(other)


@pytest.mark.extras
def test_the_frame_has_the_rows_of_the_files(spark: Any, archive: Path, tmp_path: Path) -> None:
    plan, total = run(archive, tmp_path)
    frame = job.transcode(job.archive(spark, archive), AMQP10)
    found = frame.select("error_code", "source", "source_offset", "direction", "amqp10").collect()
    assert len(found) == total.rows + total.errors
    good = {tuple(row[1:]) for row in found if row[0] is None}
    assert good == {
        (row["source"], row["source_offset"], row["direction"], row["amqp10"])
        for row in rows(plan.output)
    }
    canonical = job.transcode(job.archive(spark, archive / "journal"))
    assert canonical.where("error_code is null").count() == 6_000


@pytest.mark.extras
def test_a_worker_of_spark_that_dies_is_replaced(spark: Any, archive: Path, tmp_path: Path) -> None:
    plan, total = run(archive, tmp_path / "one")
    other = Plan(str(tmp_path / "two" / "out"), str(tmp_path / "two" / "errors"), AMQP10)
    prepare(other, False)
    mark = tmp_path / "kill"
    mark.touch()
    bundles = some(archive)

    def dies(batches: Any) -> Any:
        for at, batch in enumerate(job._files(other)(batches)):
            if mark.exists() and not at:
                mark.unlink()
                os._exit(9)  # its file is there, its row is lost
            yield batch

    found = job.bundles_frame(spark, bundles).mapInArrow(dies, job.SUMMARIES).collect()
    assert not mark.exists()
    assert finish(other, [Summary(*row[1:]) for row in found]) == total
    assert files(plan) == files(other)


def test_nothing_is_left_of_a_bundle_that_fails(archive: Path, tmp_path: Path) -> None:
    plan = Plan(str(tmp_path / "out"), str(tmp_path / "errors"), AMQP10)
    prepare(plan, False)
    bundle = Bundle(0, tuple(list_parts([archive])))
    shutil.rmtree(plan.errors)
    with pytest.raises(OSError):
        transcode_bundle(bundle, plan)
    assert list(Path(plan.output).iterdir()) == []
