"""What a task reads of a segment equals what every other reader of the journal is shown."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import httpx
import pytest

pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")
pytest.importorskip("pyspark", reason="needs the extra `spark`")

from pyspark.sql import types

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import split
from gateway.adapters.segments.content import SEGMENTS
from gateway.bodies import Spool
from gateway.journal.canonical import COLUMNS, Rows
from gateway.journal.entries import ALL, Entry, Publisher
from gateway.journal.segments import Segment, SegmentWriter
from gateway.message import Message, Properties
from gateway.values import Timestamp
from pyspark_amqp.messages import octets_of
from pyspark_amqp.options import Options
from pyspark_amqp.rows import Plan, batches
from tests.journal.test_times import as_before
from tests.net.running import PATIENCE, Running, until
from tests.pipeline.traffic import Sent, entries_of, write_entries
from tests.test_bodies import spooled

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


@pytest.mark.parametrize("sample", [1.0, 0.5])
def test_all_columns_of_many_messages(tmp_path: Path, sample: float) -> None:
    """Of programs whose messages are made columns together, in several groups of rows."""
    draw = Random(sample)
    messages = []
    for dialect in (BASIC, SECTIONS, SEGMENTS):
        for number in range(2000):
            given = Properties(
                durable=True, message_id=UUID(int=number) if dialect is SEGMENTS else f"m-{number}",
                correlation_id=f"{number:016x}", content_type="text/plain",
                creation_time=1_700_000_000_000 + 1000 * number,
                application={"number": number - 500, "tenant": draw.randbytes(6).hex()},
            )  # fmt: skip
            header = dialect.write(given)
            body, key = draw.randbytes(draw.choice([0, 3, 300])), f"q{number % 30}"
            messages.append(Message(dialect, header, body, "", key, dialect.essentials(header)))
    draw.shuffle(messages)
    entries = [
        Entry(pos, 1_700_000_000_000 + pos, "/", f"/queues/{one.key}", pos, NEW, one, len(one.body),
              "", pos % 3, pos % 2)
        for pos, one in enumerate(messages)
    ]  # fmt: skip
    write_entries(tmp_path, entries, len(entries))
    expected = [
        dict(zip(NAMES, one, strict=True)) for one in Rows("known", NAMES, sample).of(entries)
    ]
    assert read(plan_of(tmp_path, NAMES, sample=sample), 0, len(entries)) == expected
    chosen = [one for one in expected if one["address"] == "/queues/q7" and 50 <= one["pos"] < 5000]
    plan = plan_of(tmp_path, NAMES, sample=sample, addresses=["/queues/q7"])
    assert read(plan, 50, 5000) == chosen


def test_filters(tmp_path: Path) -> None:
    entries = journal(tmp_path)
    names = ["pos", "hops", "features", "dedup_key", "body_sha256"]
    given = {"vhost": "other", "addresses": ["/exch*"], "since": entries[8].stamp}
    chosen = [one for one in entries if one.vhost == "other" and one.pos >= 8]
    assert read(plan_of(tmp_path, names, **given), 0, len(entries)) == shown(chosen, names)
    without = read(plan_of(tmp_path, names, body=False), 0, len(entries))
    assert [row["body_sha256"] for row in without] == [None] * len(entries)
    assert shown(entries[:1], ["ingest_ts"])[0]["ingest_ts"] == datetime(2026, 11, 22, tzinfo=UTC)


LARGE = (8 << 20) + 1
BODIES = ["body", "body_len", "body_ref", "amqp10", "message_id"]


def with_large_bodies(folder: Path, spool: Spool, publisher: Publisher) -> list[bytes]:
    """A segment in which some bodies stand in files; all bodies, as they were sent."""
    bodies = [b"%d" % at * (LARGE if at in (1, 2, 5) else 10) for at in range(7)]
    sent = [Sent(publisher, "/queues/q", given={"message_id": str(at)}) for at in range(7)]
    entries = entries_of(sent)
    for one, body in zip(entries, bodies, strict=True):
        one.message.body = spooled(spool, body) if len(body) > LARGE - 1 else body
    write_entries(folder, [one._replace(size=len(one.message.body)) for one in entries], 7)
    return bodies


@pytest.mark.parametrize("publisher", [OLD, NEW])
def test_large_bodies(tmp_path: Path, publisher: Publisher) -> None:
    """They are read from their files if asked for, a few at a time."""
    (tmp_path / "spool").mkdir()
    folder = tmp_path / "journal"
    bodies = with_large_bodies(folder, Spool(str(tmp_path / "spool")), publisher)
    plain = read(plan_of(folder, BODIES), 0, 7)
    apart = [at for at, one in enumerate(plain) if one["body_ref"]]
    assert apart == [1, 2, 5]
    assert {plain[at]["amqp10"] for at in apart} == {None}

    plan = plan_of(folder, BODIES, large_bodies=True)
    assert [one.num_rows for one in batches(plan, 0, 7)] == [2, 1, 3, 1]
    whole = read(plan, 0, 7)
    assert [one["body"] for one in whole] == bodies
    assert [one["body_ref"] for one in whole] == [None] * 7
    assert [one["body_len"] for one in whole] == [len(one) for one in bodies]
    assert [one["message_id"] for one in whole] == [str(at) for at in range(7)]
    for row, body in zip(whole, bodies, strict=True):
        assert octets_of(row) == row["amqp10"]
        assert body in row["amqp10"]
        assert split(row["amqp10"])
    # What is asked for without bodies is read without them.
    few = read(plan_of(folder, ["pos"], large_bodies=True), 0, 7)
    assert [one["pos"] for one in few] == list(range(7))


def test_large_bodies_across_segments(tmp_path: Path) -> None:
    """A task whose range was sealed after it was planned reads entry by entry."""
    (tmp_path / "spool").mkdir()
    folder = tmp_path / "journal"
    bodies = with_large_bodies(folder, Spool(str(tmp_path / "spool")), NEW)
    writer = SegmentWriter(folder, "known", 7)
    (entry,) = entries_of([Sent(NEW, "/queues/q", body=b"last")], 7)
    writer.add(entry)
    writer.finish(8)
    plan = plan_of(folder, BODIES, large_bodies=True)
    assert [one["body"] for one in read(plan, 0, 8)] == [*bodies, b"last"]


@pytest.mark.parametrize("end", [7, 8])
def test_a_large_body_that_is_gone(tmp_path: Path, end: int) -> None:
    (tmp_path / "spool").mkdir()
    folder = tmp_path / "journal"
    bodies = with_large_bodies(folder, Spool(str(tmp_path / "spool")), NEW)
    (folder / read(plan_of(folder, BODIES), 0, 7)[2]["body_ref"]).unlink()
    found = read(plan_of(folder, BODIES, large_bodies=True), 0, end)
    assert [one["body"] for one in found] == [*bodies[:2], None, *bodies[3:]]
    assert found[2]["body_ref"]
    with pytest.raises(ValueError, match="is in the file bodies/"):
        octets_of(found[2])


@pytest.mark.parametrize("sealed", [False, True])
def test_large_bodies_of_a_running_gateway(tmp_path: Path, sealed: bool) -> None:
    """They are asked for one by one, and are in batches that are not large."""
    sealing = {"journal__segment_messages": 4} if sealed else {"journal__seal": False}
    bodies = [b"first", b"a" * LARGE, b"b" * LARGE, b"last"]
    with Running(tmp_path, journal__recording="[{}]", **sealing) as gateway:
        gateway.wire(1).declare("orders", durable=True)
        base, auth = f"http://127.0.0.1:{gateway.http_port}", ("guest", "guest")
        for body in bodies:
            url = f"{base}/v1/%2F/queues/orders/messages"
            httpx.post(url, content=body, auth=auth, timeout=PATIENCE).raise_for_status()
        journal = f"{base}/v1/%2F/journal?limit=0"
        until(
            lambda: not sealed or httpx.get(journal, auth=auth, timeout=PATIENCE).json()["sealed"],
            "sealed",
        )
        options = Options(gateway=base, user="guest", password="guest", vhost="/")
        plan = plan_of(tmp_path, BODIES)._replace(options=options)
        plain = read(plan, 0, 4)
        assert [one["body"] for one in plain] == [b"first", None, None, b"last"]
        assert [one["body_ref"] for one in plain if one["body_ref"]] == [
            f"bodies/{at:020d}" for at in (1, 2)
        ]
        plan = plan._replace(options=options._replace(large_bodies=True))
        sizes = [one.num_rows for one in batches(plan, 0, 4)]
        assert sizes == ([2, 1, 1] if sealed else [1] * 4)
        whole = read(plan, 0, 4)
        assert [one["body"] for one in whole] == bodies
        assert [one["body_ref"] for one in whole] == [None] * 4
        assert [body in one["amqp10"] for body, one in zip(bodies, whole, strict=True)] == [
            True
        ] * 4
