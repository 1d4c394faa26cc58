"""``format("amqp")`` over journals on disk and of a running gateway."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")

from gateway.adapters.methods.content import BASIC
from gateway.journal.canonical import BY_NAME, COLUMNS, Rows
from gateway.journal.reader import JournalReader
from gateway.journal.segments import list_segments
from gateway.message import Message, Properties
from pyspark_amqp.segment_rows import STRAIGHT
from tests.journal.test_sealing import Sealing
from tests.net.running import PATIENCE, Running

pytestmark = [pytest.mark.extras, pytest.mark.timeout(300)]


def basic(number: int, queue: str) -> Message:
    """A message of 0-9-1."""
    given = Properties(
        durable=True, message_id=f"m-{number}", content_type="text/plain",
        application={"number": number, "kind": "even" if number % 2 == 0 else "odd"},
    )  # fmt: skip
    header = BASIC.write(given)
    body = b"body %d" % number
    return Message(BASIC, header, body, "", queue, BASIC.essentials(header))


class Filled(Sealing):
    """Of messages to the queues ``orders`` and ``more`` in turns."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.declare("more")
        self.commit()

    def fill(self, first: int, end: int) -> None:
        for number in range(first, end):
            queue = "more" if number % 2 else "orders"
            self.channel.publish(basic(number, queue))
            if number % 3 == 0:
                self.commit()
        self.commit()

    def seal(self) -> None:
        asyncio.run(self.look())


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    """25 messages, of which 20 are sealed in two segments."""
    found = Filled(tmp_path)
    found.fill(0, 25)
    found.seal()
    assert len(list_segments(tmp_path / "journal")) == 2
    return found


def read(spark: Any, folder: Path, **options: Any) -> Any:
    return spark.read.format("amqp").options(journal=str(folder), **options)


def test_all_columns(spark: Any, filled: Filled) -> None:
    frame = read(spark, filled.folder).load()
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema.fields] == [
        (one.name, one.type.lower()) for one in COLUMNS
    ]
    assert all(field.nullable for field in frame.schema.fields)
    rows = sorted(frame.collect(), key=lambda row: row.pos)
    assert [row.pos for row in rows] == list(range(25))
    reader = JournalReader(filled.folder)
    names = [one.name for one in COLUMNS]
    entries: list[Any] = []
    while len(entries) < 25:
        entries += reader.read(len(entries)).entries
    wanted = Rows(reader.overview().id, names).of(entries)
    reader.close()
    for row, values in zip(rows, wanted, strict=True):
        expected = dict(zip(names, values, strict=True))
        found = row.asDict(recursive=True)
        expected["ingest_ts"] = expected["ingest_ts"].replace(tzinfo=None)
        for name in ("body", "amqp10", "body_sha256"):
            found[name] = bytes(found[name])
        assert found == expected
    assert rows[4].properties == {"number": "4", "kind": "even"}
    assert rows[4].message_id == "m-4"


def test_columns_in_any_order_without_bodies(spark: Any, filled: Filled) -> None:
    frame = read(spark, filled.folder).schema("address string, offset bigint").load()
    assert frame.columns == ["address", "offset"]
    assert sorted(map(tuple, frame.collect())) == sorted(
        [("/queues/orders", at) for at in range(13)] + [("/queues/more", at) for at in range(12)]
    )
    with pytest.raises(Exception, match="there is no column 'never'"):
        read(spark, filled.folder).schema("never string").load().collect()
    with pytest.raises(Exception, match="column 'pos' is bigint"):
        read(spark, filled.folder).schema("pos string").load().collect()


def test_columns_straight_from_segments(spark: Any, filled: Filled) -> None:
    """The same as when each entry is made for it."""
    for given in (
        {},
        {"addresses": "/queues/more", "startPos": 3, "endPos": 17},
        {"body": "false"},
    ):
        names = ", ".join(f"{name} {BY_NAME[name].type}" for name in STRAIGHT)
        straight = read(spark, filled.folder, **given).schema(names).load()
        made = read(spark, filled.folder, **given).load().select(*STRAIGHT)
        assert sorted(map(str, straight.collect())) == sorted(map(str, made.collect()))
        assert straight.count() == made.count()


def test_choices(spark: Any, filled: Filled) -> None:
    def positions(**options: Any) -> list[int]:
        frame = read(spark, filled.folder, **options).schema("pos bigint").load()
        return sorted(row.pos for row in frame.collect())

    assert positions(startPos=5, endPos=12) == list(range(5, 12))
    assert positions(addresses="/queues/more") == list(range(1, 25, 2))
    assert positions(addresses="/queues/m*,/queues/orders") == list(range(25))
    assert positions(until="2001-01-01") == []
    assert positions(startPos=3, endPos=14, addresses="/queues/more") == list(range(3, 14, 2))
    assert positions(since="2001-01-01T00:00:00+00:00") == list(range(25))
    bodies = read(spark, filled.folder, body="false", endPos=2).load().select("body", "body_len")
    assert [tuple(row) for row in bodies.collect()] == [(None, 6), (None, 6)]


def test_filters_of_spark(spark: Any, filled: Filled) -> None:
    """Also if Spark would push filters down: then a reader that took them would give the rows of
    this query to the next one."""
    setting = "spark.sql.python.filterPushdown.enabled"
    for pushing in ("false", "true"):
        spark.conf.set(setting, pushing)
        try:
            frame = read(spark, filled.folder).load()
            assert frame.filter("pos >= 20 and address = '/queues/more'").count() == 2
            assert frame.count() == 25
        finally:
            spark.conf.unset(setting)


def test_sql_and_a_mistake(spark: Any, filled: Filled) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW j USING amqp OPTIONS (journal '{filled.folder}')")
    try:
        found = spark.sql("SELECT address, count(*) n FROM j GROUP BY 1 ORDER BY 1").collect()
    finally:
        spark.sql("DROP VIEW j")
    assert [tuple(row) for row in found] == [("/queues/more", 12), ("/queues/orders", 13)]
    with pytest.raises(Exception, match="startPos: a whole number"):
        read(spark, filled.folder, startPos="x").load().collect()


def stream(spark: Any, folder: Path, sink: Path, **options: Any) -> list[int]:
    """Read all there is from the checkpoint on; the sizes of the batches that had rows."""
    frame = (
        spark.readStream.format("amqp")
        .options(journal=str(folder), **options)
        .schema("pos bigint, address string")
        .load()
    )
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(sink / "rows"))
        .option("checkpointLocation", str(sink / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [one.numInputRows for one in query.recentProgress if one.numInputRows]


def landed(spark: Any, sink: Path) -> list[int]:
    return sorted(row.pos for row in spark.read.parquet(str(sink / "rows")).collect())


def test_batches_of_a_stream(spark: Any, filled: Filled, tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    assert stream(spark, filled.folder, sink, maxRowsPerTrigger=10) == [10, 10, 5]
    filled.declare("new")
    filled.channel.publish(basic(25, "new"))
    filled.commit()
    assert stream(spark, filled.folder, sink, maxRowsPerTrigger=10) == [1]
    assert landed(spark, sink) == list(range(26))


def test_the_end_is_resolved_once(spark: Any, filled: Filled, tmp_path: Path) -> None:
    """Also if no batch was committed before the query began again."""
    options = {"startingOffsets": "latest", "consumer": "late"}
    assert stream(spark, filled.folder, tmp_path / "first", **options) == []
    filled.fill(25, 35)
    assert stream(spark, filled.folder, tmp_path / "second", **options) == [10]
    assert landed(spark, tmp_path / "second") == list(range(25, 35))


def test_another_journal_is_noticed(spark: Any, filled: Filled, tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    stream(spark, filled.folder, sink)
    other = Filled(tmp_path / "other")
    other.fill(0, 30)
    with pytest.raises(Exception, match=r"consumer \(unnamed\): wants position 25 of journal"):
        stream(spark, other.folder, sink)


def test_trimmed(spark: Any, filled: Filled, tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    stream(spark, filled.folder, sink, endPos=5)
    list_segments(filled.folder / "journal")[0].path.unlink()
    with pytest.raises(Exception, match="wants position 5, and the journal has positions 10 to 25"):
        stream(spark, filled.folder, sink)
    stream(spark, filled.folder, sink, failOnDataLoss="false")
    assert landed(spark, sink) == [*range(5), *range(10, 25)]


def test_a_running_gateway(spark: Any, tmp_path: Path) -> None:
    given = {"journal__recording": "[{}]", "journal__segment_messages": 10}
    with Running(tmp_path, **given) as gateway:
        gateway.wire(1).declare("orders", durable=True)
        base = f"http://127.0.0.1:{gateway.http_port}"
        for number in range(12):
            url = f"{base}/v1/%2F/queues/orders/messages"
            answer = httpx.post(
                url, content=b"%d" % number, auth=("guest", "guest"), timeout=PATIENCE
            )
            assert answer.status_code == 201, answer.text
        options = {"gateway": base, "user": "guest", "password": "guest"}
        frame = spark.read.format("amqp").options(**options).load()
        rows = sorted(frame.select("pos", "protocol", "body").collect())
        assert [(row.pos, row.protocol, bytes(row.body)) for row in rows] == [
            (number, "http", b"%d" % number) for number in range(12)
        ]
        only = spark.read.format("amqp").options(**options, addresses="/queues/none").load()
        with pytest.raises(Exception, match="user: .* 401"):
            wrong = options | {"password": "wrong"}
            spark.read.format("amqp").options(**wrong).load().count()
        assert only.count() == 0
