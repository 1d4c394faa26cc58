"""What a task reads of a segment equals what every other reader of the journal is shown."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")
pytest.importorskip("pyspark", reason="needs the extra `spark`")

from pyspark.sql import types

from gateway.adapters.methods.content import BASIC
from gateway.journal.canonical import COLUMNS, Rows
from gateway.journal.entries import ALL, Entry, Publisher
from gateway.journal.segments import Segment
from gateway.message import Message
from gateway.values import Timestamp
from pyspark_amqp.options import Options
from pyspark_amqp.rows import Plan, batches
from tests.journal.test_times import as_before
from tests.pipeline.traffic import Sent, entries_of, write_entries

pytestmark = pytest.mark.extras

OLD = Publisher("amqp-0-9-1", "shop", "1", "till", "pika", "1.3", "plant")
NEW = Publisher("amqp-1.0", "iot")
GIVEN: list[dict[str, Any]] = [
    {},
    {"message_id": "ä", "priority": 3, "durable": True, "ttl": 5},
    {"application": {"n": 1, "t": True, "s": "ü", "b": b"\xff", "x": {"y": [1, None]}}},
    {"application": {"price": Decimal("1.5"), "at": Timestamp(1_000)}},
    {"application": {"CC": ["a"], "none": None}, "reply_to": "amq.rabbitmq.reply-to.1"},
    {"reply_to": "amqp://there", "creation_time": 1_000, "content_encoding": "gzip"},
]
NAMES = [one.name for one in COLUMNS]


def kind(text: str) -> Any:
    """Of Spark, for one of the types of columns; Spark itself asks Java."""
    simple = {
        "STRING": types.StringType(), "BIGINT": types.LongType(), "BINARY": types.BinaryType(),
        "INT": types.IntegerType(), "SMALLINT": types.ShortType(), "BOOLEAN": types.BooleanType(),
        "TIMESTAMP": types.TimestampType(), "DATE": types.DateType(),
    }  # fmt: skip
    name, _, inner = text.removesuffix(">").partition("<")
    match name:
        case "MAP":
            return types.MapType(types.StringType(), types.StringType())
        case "ARRAY":
            return types.ArrayType(kind(inner))
        case "STRUCT":
            fields = (one.partition(":") for one in inner.split(","))
            return types.StructType([types.StructField(one, kind(of)) for one, _, of in fields])
        case _:
            return simple[name]


def plan_of(folder: Path, names: list[str], **options: Any) -> Plan:
    fields = {one.name: types.StructField(one.name, kind(one.type)) for one in COLUMNS}
    given = Options(journal=str(folder), **options)
    return Plan(given, types.StructType([fields[name] for name in names]))


def journal(folder: Path) -> list[Entry]:
    """Of several versions, addresses and times, and with a header that cannot be read."""
    sent = [
        Sent(publisher, address, given=given, vhost=vhost)
        for publisher in (OLD, NEW)
        for address, vhost in (("/queues/orders", "/"), ("/exchanges/ä", "other"))
        for given in GIVEN
        if publisher is OLD or "price" not in given.get("application", {})
    ]
    found = entries_of(sent)
    broken = Message(BASIC, b"\xff", b"x", "", "orders", found[0].message.essentials)
    noted = Message(
        BASIC, b"\0\0", b"", "", "orders", found[0].message.essentials, {"x-death": [{"count": 1}]}
    )
    for message in (broken, noted):
        last = found[-1]
        found.append(
            last._replace(pos=last.pos + 1, message=message, publisher=OLD,
                          size=len(message.body))
        )  # fmt: skip
    found = [
        one._replace(
            entered=one.stamp - 3 if one.pos % 2 else 0, written=one.stamp + 5 if one.pos % 3 else 0
        )
        for one in found
    ]
    write_entries(folder, found, len(found))
    return found


def read(plan: Plan, start: int, end: int) -> list[dict[str, Any]]:
    rows = [row for batch in batches(plan, start, end) for row in batch.to_pylist()]
    for row in rows:
        for name in row.keys() & {"properties", "annotations"}:
            row[name] = dict(row[name])
    return rows


def shown(entries: list[Entry], names: list[str]) -> list[dict[str, Any]]:
    return [dict(zip(names, one, strict=True)) for one in Rows("known", names).of(entries)]


@pytest.mark.parametrize("before", [False, True])
def test_all_columns(tmp_path: Path, before: bool) -> None:
    count = len(journal(tmp_path))
    (path,) = tmp_path.glob("*.parquet")
    if before:
        as_before(path)
    entries = Segment(path).read(0, ALL).entries
    assert len(entries) == count
    assert before is not any(one.written for one in entries)
    assert read(plan_of(tmp_path, NAMES), 0, count) == shown(entries, NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_one_column(tmp_path: Path, name: str) -> None:
    entries = journal(tmp_path)
    assert read(plan_of(tmp_path, [name]), 2, 9) == shown(entries[2:9], [name])


def test_filters(tmp_path: Path) -> None:
    entries = journal(tmp_path)
    names = ["pos", "hops", "features", "dedup_key", "body_sha256"]
    given = {"vhost": "other", "addresses": ["/exch*"], "since": entries[8].stamp}
    chosen = [one for one in entries if one.vhost == "other" and one.pos >= 8]
    assert read(plan_of(tmp_path, names, **given), 0, len(entries)) == shown(chosen, names)
    without = read(plan_of(tmp_path, names, body=False), 0, len(entries))
    assert [row["body_sha256"] for row in without] == [None] * len(entries)
    assert shown(entries[:1], ["ingest_ts"])[0]["ingest_ts"] == datetime(2026, 11, 22, tzinfo=UTC)
