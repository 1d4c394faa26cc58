"""Landing in a Delta table, without Spark: files of tasks, commits, aborts, and what races."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

pytest.importorskip("deltalake", reason="needs the extra `spark` (deltalake)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")

import pyarrow as pa
import pyarrow.parquet as parquet
from deltalake import DeltaTable

from pyspark_amqp import delta
from pyspark_amqp.delta import Attempt, DataFile, LandingError
from pyspark_amqp.jobs import maintain

pytestmark = pytest.mark.extras

JOURNAL = "11111111-1111-1111-1111-111111111111"
SCHEMA = pa.schema(
    [
        ("journal_id", pa.string()),
        ("pos", pa.int64()),
        ("vhost", pa.string()),
        ("address", pa.string()),
        ("offset", pa.int64()),
        ("ingest_ts", pa.timestamp("us", "UTC")),
        ("ingest_date", pa.date32()),
        ("address_bucket", pa.int32()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("body", pa.binary()),
    ]
)
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def row(pos: int, addresses: int = 3, journal: str = JOURNAL) -> dict[str, Any]:
    """Of a journal in which addresses take turns, and in which a day has 1000 entries."""
    address = f"/queues/q{pos % addresses}"
    return {
        "journal_id": journal,
        "pos": pos,
        "vhost": "/",
        "address": address,
        "offset": pos // addresses,
        "ingest_ts": NOON,
        "ingest_date": (NOON + timedelta(days=pos // 1000)).date(),
        "address_bucket": crc32(address.encode()) % 16,
        "properties": [("number", str(pos)), ("none", None)],
        "body": b"body %d" % pos,
    }


def batch(*positions: int, **given: Any) -> Any:
    return pa.RecordBatch.from_pylist([row(one, **given) for one in positions], SCHEMA)


class Landing:
    """A table, and a consumer that lands in it."""

    def __init__(self, folder: Path, consumer: str = "c") -> None:
        self.path = folder / "table"
        self.consumer = consumer
        delta.make_table(self.path, SCHEMA)

    def task(self, *positions: int, **given: Any) -> Attempt:
        batches = iter([batch(*positions, **given)] if positions else [])
        return delta.write(self.path, self.consumer, SCHEMA, batches)

    def commit(self, *attempts: Attempt) -> int:
        return delta.commit(self.path, self.consumer, list(attempts))

    def land(self, start: int, end: int) -> int:
        """In two tasks."""
        middle = (start + end) // 2
        tasks = self.task(*range(start, middle)), self.task(*range(middle, end))
        return self.commit(*tasks)

    def rows(self) -> list[dict[str, Any]]:
        return [one for file in sorted(self.live()) for one in self.read(file)]

    def read(self, file: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = parquet.ParquetFile(self.path / file).read().to_pylist()
        return found

    def positions(self) -> list[int]:
        return sorted(one["pos"] for one in self.rows())

    def live(self) -> set[str]:
        return delta.live_files(DeltaTable(self.path))

    def on_disk(self) -> set[str]:
        return {str(one.relative_to(self.path)) for one in self.path.glob("*=*/*=*/*")}

    @property
    def version(self) -> int:
        found: int = DeltaTable(self.path).version()
        return found


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)


def test_rows_land_as_they_are(landing: Landing) -> None:
    assert landing.land(995, 1005) == 10
    assert landing.positions() == list(range(995, 1005))
    wanted = {one: row(one) for one in range(995, 1005)}
    for found in landing.rows():
        expected = wanted[found["pos"]]
        assert found == {name: expected[name] for name in found}
    table = DeltaTable(landing.path)
    assert table.metadata().partition_columns == ["ingest_date", "address_bucket"]
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert {one["partition.ingest_date"] for one in actions} == {
        date(2026, 11, 23), date(2026, 11, 24)
    }  # fmt: skip
    for one in actions:
        rows = landing.read(one["path"])
        assert one["num_records"] == len(rows)
        assert one["size_bytes"] == (landing.path / one["path"]).stat().st_size
        for name in ("pos", "offset", "address"):
            values = [found[name] for found in rows]
            assert (one[f"min.{name}"], one[f"max.{name}"]) == (min(values), max(values))
        assert {crc32(found["address"].encode()) % 16 for found in rows} == {
            one["partition.address_bucket"]
        }
    assert delta.landed_position(landing.path, JOURNAL, "c") == 1004
    assert delta.landed_position(landing.path, JOURNAL, "other") == delta.NOTHING


def test_rows_of_a_file_are_in_order(landing: Landing) -> None:
    positions = [*range(100, 0, -1), *range(100, 200)]
    landing.commit(landing.task(*positions))
    for file in landing.live():
        rows = landing.read(file)
        assert rows == sorted(rows, key=lambda one: (one["address"], one["offset"]))


@pytest.mark.parametrize("size", [7, 10, 64])
def test_batches_of_another_size_after_a_lost_checkpoint(landing: Landing, size: int) -> None:
    for start in range(0, 40, 10):
        landing.land(start, start + 10)
    for start in range(0, 100, size):
        landing.land(start, min(100, start + size))
    assert landing.positions() == list(range(100))
    assert landing.on_disk() == landing.live()


def test_a_batch_again_after_its_commit(landing: Landing) -> None:
    """Spark was killed between the table's commit and its own, and begins the batch again."""
    landing.land(0, 10)
    before = landing.version
    assert landing.land(0, 10) == 0
    assert landing.version == before
    assert landing.positions() == list(range(10))
    assert landing.on_disk() == landing.live()


def test_tasks_without_rows(landing: Landing) -> None:
    empty = batch().slice(0)
    nothing = delta.write(landing.path, "c", SCHEMA, iter([empty]))
    assert nothing == Attempt() == landing.task()
    assert landing.commit(nothing, landing.task()) == 0
    assert landing.version == 0
    assert landing.commit(nothing, landing.task(5)) == 1
    assert landing.positions() == [5]


def test_the_commit_raises_after_the_table_had_it(landing: Landing) -> None:
    tasks = [landing.task(*range(10)), landing.task(*range(10, 20))]
    landing.commit(*tasks)
    # As Spark's abort does then.
    assert delta.discard(landing.path, [file for one in tasks for file in one.files]) == 0
    assert landing.positions() == list(range(20))
    assert landing.commit(*tasks) == 0
    assert landing.positions() == list(range(20))


def test_an_abort_before_the_commit_leaves_no_file(landing: Landing) -> None:
    landing.land(0, 10)
    task = landing.task(*range(10, 30))
    assert landing.on_disk() > landing.live()
    assert delta.discard(landing.path, list(task.files)) == len(task.files)
    assert landing.on_disk() == landing.live()
    assert landing.land(10, 30) == 20


def test_a_task_that_fails_leaves_no_file(landing: Landing, monkeypatch: Any) -> None:
    monkeypatch.setattr(delta, "GROUP_OCTETS", 1)

    def broken() -> Any:
        yield batch(*range(100))
        assert landing.on_disk()
        raise OSError("the source has gone")

    with pytest.raises(OSError, match="the source has gone"):
        delta.write(landing.path, "c", SCHEMA, broken())
    assert not landing.on_disk()


def test_two_queries_for_one_consumer(landing: Landing) -> None:
    """Both have written the same batch; or one, a batch that begins in the other's."""
    for first, second in ((range(10), range(10)), (range(10, 30), range(10, 20))):
        one, other = landing.task(*first), landing.task(*second)
        landing.commit(one)
        before = landing.version
        with pytest.raises(LandingError, match="consumer c: another query lands it into"):
            landing.commit(other)
        assert landing.version == before
        assert landing.positions() == list(range(first.stop))
        assert landing.on_disk() == landing.live()


def test_tasks_of_one_batch_see_another_query(landing: Landing) -> None:
    one = landing.task(*range(5))
    landing.land(0, 10)
    other = landing.task(*range(5, 12))
    with pytest.raises(LandingError, match=r"the position was -1 .* and is 9 now"):
        landing.commit(one, other)
    assert landing.positions() == list(range(10))
    assert landing.on_disk() == landing.live()


def test_two_commits_at_the_same_time(landing: Landing, monkeypatch: Any) -> None:
    """Both have looked at the position before one of them commits: delta-rs refuses the other."""
    one, other = landing.task(*range(10)), landing.task(*range(15))
    real = delta.position

    def looked(table: DeltaTable, journal: str, consumer: str) -> int:
        found = real(table, journal, consumer)
        monkeypatch.setattr(delta, "position", real)
        assert landing.commit(one) == 10
        return found

    monkeypatch.setattr(delta, "position", looked)
    with pytest.raises(LandingError, match="consumer c: another query"):
        landing.commit(other)
    assert landing.positions() == list(range(10))
    assert landing.on_disk() == landing.live()


def test_consumers_and_journals_are_apart(tmp_path: Path) -> None:
    first, second = Landing(tmp_path, "first"), Landing(tmp_path, "second")
    one, other = first.task(*range(10)), second.task(*range(10))
    assert first.commit(one) == second.commit(other) == 10
    again = first.task(*range(10), journal="another")
    assert first.commit(again) == 10
    assert first.positions() == sorted([*range(10)] * 3)
    mixed = [batch(1), batch(2, journal="another")]
    with pytest.raises(LandingError, match="two journals"):
        delta.write(first.path, "third", SCHEMA, iter(mixed))
    tasks = first.task(20), first.task(21, journal="another")
    with pytest.raises(LandingError, match="two journals"):
        first.commit(*tasks)
    assert first.on_disk() == first.live()


def test_a_thousand_addresses_are_few_files(landing: Landing) -> None:
    """Of one day: a file for each task and bucket."""
    given = {"addresses": 1000}
    tasks = landing.task(*range(500), **given), landing.task(*range(500, 1000), **given)
    assert landing.commit(*tasks) == 1000
    assert len(landing.live()) == 32
    assert landing.positions() == list(range(1000))


def test_days_need_few_open_files(landing: Landing, monkeypatch: Any) -> None:
    monkeypatch.setattr(delta, "MOST_OPEN", 4)
    monkeypatch.setattr(delta, "GROUP_OCTETS", 1)
    most = 0
    real = delta.Files._file

    def counted(self: Any, key: Any) -> Any:
        nonlocal most
        found = real(self, key)
        most = max(most, len(self._open))
        return found

    monkeypatch.setattr(delta.Files, "_file", counted)
    batches = (batch(start, start + 1, start + 2) for start in range(0, 9000, 500))
    attempt = delta.write(landing.path, "c", SCHEMA, batches)
    assert landing.commit(attempt) == 54
    assert len(landing.positions()) == 54
    assert most == 4


def test_wrong_columns(tmp_path: Path, landing: Landing) -> None:
    with pytest.raises(LandingError, match="no column 'pos'"):
        delta.make_table(tmp_path / "new", pa.schema([("journal_id", pa.string())]))
    other = SCHEMA.set(9, pa.field("body", pa.string()))
    with pytest.raises(LandingError, match="the column 'body' of the table is binary"):
        delta.make_table(landing.path, other)
    fewer = pa.schema([one for one in SCHEMA if one.name != "body"])
    delta.make_table(landing.path, fewer)
    missing = pa.RecordBatch.from_pylist([row(1) | {"ingest_date": None}], SCHEMA)
    with pytest.raises(LandingError, match="a row has no ingest_date"):
        delta.write(landing.path, "c", SCHEMA, iter([missing]))
    DeltaTable.create(tmp_path / "flat", SCHEMA)
    with pytest.raises(LandingError, match="partitioned by nothing, not by ingest_date"):
        delta.make_table(tmp_path / "flat", SCHEMA)


def test_columns_of_a_later_version(landing: Landing) -> None:
    """The table gets them; rows that landed before have none."""
    landing.land(0, 10)
    more = SCHEMA.append(pa.field("hops", pa.list_(pa.struct([("hop", pa.string())]))))
    delta.make_table(landing.path, more)
    rows = [row(one) | {"hops": [{"hop": "a"}]} for one in range(10, 20)]
    given = pa.RecordBatch.from_pylist(rows, more)
    assert landing.commit(delta.write(landing.path, "c", more, iter([given]))) == 10
    landing.land(20, 30)
    assert landing.positions() == list(range(30))
    table = DeltaTable(landing.path)
    assert [field.name for field in table.schema().fields] == more.names


def test_files_have_the_names_of_their_partitions(landing: Landing) -> None:
    (file, *_) = landing.task(0).files
    assert isinstance(file, DataFile)
    bucket = crc32(b"/queues/q0") % 16
    assert file.path.startswith(f"ingest_date=2026-11-23/address_bucket={bucket}/part-")


def test_a_compaction_while_rows_land(landing: Landing, monkeypatch: Any) -> None:
    """Between the look at the position and the commit: both are done."""
    landing.land(0, 20)
    landing.land(20, 40)
    task = landing.task(*range(40, 60))
    real = delta.position

    def looked(table: DeltaTable, journal: str, consumer: str) -> int:
        found = real(table, journal, consumer)
        monkeypatch.setattr(delta, "position", real)
        assert maintain.compact(landing.path)["files_removed"] > 0
        return found

    monkeypatch.setattr(delta, "position", looked)
    assert landing.commit(task) == 20
    assert landing.positions() == list(range(60))
    assert landing.land(60, 80) == 20
    assert landing.positions() == list(range(80))
    assert maintain.vacuum(landing.path, 0)
    assert landing.on_disk() == landing.live()
