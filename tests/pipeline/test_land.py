"""The job ``land``, and its table looked after by ``maintain``."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("deltalake", reason="needs the extra `spark` (deltalake)")

from deltalake import DeltaTable

from gateway.journal.canonical import BY_NAME, COLUMNS
from gateway.journal.segments import list_segments
from pyspark_amqp import delta
from pyspark_amqp.__main__ import app
from pyspark_amqp.jobs import maintain
from pyspark_amqp.jobs.inputs import Inputs
from pyspark_amqp.jobs.land import (
    Landed,
    Target,
    Watch,
    columns_of,
    land,
    milliseconds,
    start_of,
    stream,
    target_of,
    told,
    writing,
)
from pyspark_amqp.options import OptionError
from tests.pipeline.faulty import FaultySource
from tests.pipeline.test_source import Filled

pytestmark = [pytest.mark.extras, pytest.mark.timeout(300)]

FEW = ("journal_id", "pos", "address", "offset", "ingest_date", "address_bucket", "body")


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    """25 messages, of which 20 are sealed in two segments."""
    found = Filled(tmp_path / "data")
    found.fill(0, 25)
    found.seal()
    assert len(list_segments(found.folder / "journal")) == 2
    return found


def run(*arguments: str) -> dict[str, Any]:
    """The document that a job prints."""
    shown = CliRunner().invoke(app, [*arguments, "--json"])
    assert shown.exit_code == 0, shown.output
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def refused(*arguments: str) -> str:
    """What a job says that was used wrongly."""
    shown = CliRunner().invoke(app, [*arguments])
    assert shown.exit_code == 2, shown.output
    return shown.output.replace("\n", " ")


def live(table: Path) -> set[str]:
    return delta.live_files(DeltaTable(table))


def on_disk(table: Path) -> set[str]:
    return {str(one.relative_to(table)) for one in table.glob("*=*/*=*/*")}


def rows_of(spark: Any, **place: Any) -> list[Any]:
    frame = Inputs(**place).frame(spark, FEW)
    return sorted(frame.collect(), key=lambda row: row.pos)


def test_a_journal_lands_and_goes_on(spark: Any, filled: Filled, tmp_path: Path) -> None:
    table = tmp_path / "table"
    where = ("land", "--journal", str(filled.folder), "--table", str(table))
    first = run(*where, "--once", "--rows", "10")
    assert {name: first[name] for name in ("rows", "batches", "position", "end", "lag")} == {
        "rows": 25, "batches": 3, "position": 25, "end": 25, "lag": 0
    }  # fmt: skip
    assert first["version"] == 3
    assert first["files"] == len(live(table)) <= 3 * 2 * 2
    filled.fill(25, 35)
    second = run(*where, "--once", "--rows", "10")
    assert (second["rows"], second["position"], second["version"]) == (10, 35, 4)
    frame = Inputs(table=str(table)).frame(spark)
    source = spark.read.format("amqp").option("journal", str(filled.folder)).load()
    assert frame.columns == [one.name for one in COLUMNS]
    # When the last batch was on disk the next one tells, which had not come when it landed.
    landed, there = (sorted(map(str, one.drop("hops").collect())) for one in (frame, source))
    assert landed == there
    assert run("maintain", "--table", str(table), "--compact")["files"] == 2
    assert run(*where, "--once")["rows"] == 0
    assert [row.pos for row in rows_of(spark, table=str(table))] == list(range(35))


def query(
    spark: Any, filled: Filled, target: Target, rows: int, kind: str = "amqp", **given: str
) -> list[int]:
    """Land what there is, without the table telling where to begin; the sizes of batches."""
    options = {"journal": str(filled.folder), "maxRowsPerTrigger": str(rows)} | given
    writer = writing(land(stream(spark, options, FEW)), target)
    found = writer.format(kind).trigger(availableNow=True).start()
    try:
        found.awaitTermination()
    finally:
        found.stop()
    return [one.numInputRows for one in found.recentProgress if one.numInputRows]


def test_a_lost_checkpoint(spark: Any, filled: Filled, tmp_path: Path) -> None:
    """All is read again, in other batches: what has landed is left out, the rest lands. The command
    begins behind what has landed."""
    table = tmp_path / "table"
    first = Target(table, True, "c", tmp_path / "first")
    query(spark, filled, first, 10, endPos="14")
    assert [row.pos for row in rows_of(spark, table=str(table))] == list(range(14))
    second = Target(table, True, "c", tmp_path / "second")
    assert query(spark, filled, second, 8) == [8, 8, 8, 1]
    assert [row.pos for row in rows_of(spark, table=str(table))] == list(range(25))
    assert on_disk(table) == live(table)
    third = Target(table, True, "c", tmp_path / "third")
    begin = start_of({"journal": str(filled.folder)}, third)
    assert begin is not None and json.loads(begin)["pos"] == 25
    assert start_of({"journal": str(filled.folder)}, second) is None
    other = third._replace(consumer="other")
    assert start_of({"journal": str(filled.folder)}, other) is None


def test_the_commit_raises_after_the_table_had_it(
    spark: Any, filled: Filled, tmp_path: Path
) -> None:
    """Spark calls abort then, and begins the batch again in the next query."""
    spark.dataSource.register(FaultySource)
    target = Target(tmp_path / "table", True, "c", tmp_path / "checkpoint")
    (tmp_path / "raise").touch()
    with pytest.raises(Exception, match="after the commit"):
        query(spark, filled, target, 10, "amqp_faulty")
    assert [row.pos for row in rows_of(spark, table=str(target.path))] == list(range(10))
    query(spark, filled, target, 10, "amqp_faulty")
    assert [row.pos for row in rows_of(spark, table=str(target.path))] == list(range(25))
    assert on_disk(target.path) == live(target.path)


def test_native_parquet(spark: Any, filled: Filled, tmp_path: Path) -> None:
    where = ("land", "--journal", str(filled.folder), "--parquet", str(tmp_path / "rows"))
    columns = ("--columns", "address,offset,body", "--once")
    assert run(*where, *columns, "--rows", "10")["batches"] == 3
    assert [row.pos for row in rows_of(spark, parquet=str(tmp_path / "rows"))] == list(range(25))
    lost = ("--checkpoint", str(tmp_path / "another"))
    assert "Spark's file sink would leave out rows" in refused(*where, *columns, *lost)


def test_options() -> None:
    assert milliseconds("500ms") == 500
    assert milliseconds("2 m") == 120_000
    for text in ("0s", "5", "x", "1d", ""):
        with pytest.raises(OptionError, match="--every: a time such as"):
            milliseconds(text)
    assert columns_of(None) == tuple(BY_NAME)
    assert columns_of("body, address") == (
        "journal_id", "pos", "address", "ingest_date", "address_bucket", "body"
    )  # fmt: skip
    with pytest.raises(OptionError, match="--columns: there is no column 'never'"):
        columns_of("pos,never")


def test_mistakes(tmp_path: Path) -> None:
    given = ("land", "--journal", str(tmp_path))
    assert "--table: give the directory" in refused(*given)
    assert "--table: give the directory" in refused(*given, "--table", "a", "--parquet", "b")
    assert "--table: a directory, not 's3://b/t'" in refused(*given, "--table", "s3://b/t")
    assert "--consumer: letters" in refused(*given, "--table", "a", "--consumer", "a/b")
    assert "--every: a time" in refused(*given, "--table", "a", "--every", "x")
    assert "is not a Delta table" in refused("maintain", "--table", str(tmp_path))
    assert "--vacuum" in refused("maintain", "--table", str(tmp_path), "--vacuum", "0")


def test_a_target_keeps_its_checkpoint(tmp_path: Path) -> None:
    target = target_of(Inputs(table=f"file://{tmp_path}/t"), "c", None)
    assert target == Target(tmp_path / "t", True, "c", tmp_path / "t" / "_checkpoints" / "c")
    assert not target.begun
    (target.checkpoint / "offsets").mkdir(parents=True)
    assert not target.begun
    (target.checkpoint / "offsets" / "0").touch()
    assert target.begun


def report(batch: int, rows: int, position: int, latest: int) -> dict[str, Any]:
    offsets = {"endOffset": {"epoch": "e", "pos": position},
               "latestOffset": {"epoch": "e", "pos": latest}}  # fmt: skip
    return {"batchId": batch, "numInputRows": rows, "sources": [offsets]}


def test_each_batch_counts_once() -> None:
    watch = Watch()
    assert watch.landed.lag is None
    idle = report(0, 0, 0, 0)
    watch.look([idle])
    first = report(0, 10, 10, 25)
    assert watch.look([idle, first]) == Landed(10, 1, 10, 25)
    assert watch.landed.lag == 15
    found = watch.look([first, report(1, 10, 20, 25), report(2, 5, 25, 25)])
    assert found == Landed(25, 3, 25, 25)
    waiting = report(3, 0, 25, 25)
    assert watch.look([waiting, waiting]) == found
    assert told(found, 5) == "25 rows in 3 batches, position 25, 0 behind, 5 rows/s"


def test_files_of_a_killed_query_go_and_live_ones_stay(tmp_path: Path) -> None:
    """By vacuum; not those that are newer, of a batch that is being written."""
    from tests.pipeline.test_delta import Landing

    landing = Landing(tmp_path)
    kept = tmp_path / "table" / "_checkpoints" / "c" / "offsets" / "0"
    kept.parent.mkdir(parents=True)
    kept.write_text("v1")
    for start in range(0, 60, 20):
        landing.land(start, start + 20)
    orphans = {one.path for one in landing.task(*range(60, 80)).files}
    hours = time.time() - 3 * 3600
    for name in (*orphans, "_checkpoints/c/offsets/0"):
        os.utime(landing.path / name, (hours, hours))
    written = {one.path for one in landing.task(*range(60, 90)).files}
    before = landing.live()
    assert set(maintain.vacuum(landing.path, 1)) == orphans
    assert landing.on_disk() == before | written
    assert maintain.compact(landing.path)["files_removed"] == len(before)
    # Files before the compaction stay for readers of earlier versions.
    assert landing.on_disk() > before
    assert landing.land(60, 90) == 30
    maintain.vacuum(landing.path, 0)
    assert landing.on_disk() == landing.live()
    assert landing.positions() == list(range(90))
    assert kept.exists()
