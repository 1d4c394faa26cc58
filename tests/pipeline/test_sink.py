"""Rows into a running gateway: ``format("amqp")`` of ``write`` and ``writeStream``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra `spark` (pyspark)")
pytest.importorskip("pyarrow", reason="needs the extra `spark` (pyarrow)")

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyspark_amqp.options import OptionError
from pyspark_amqp.publishing import Publishing
from pyspark_amqp.sink import check_columns, sink_options, stream_writer, writer
from tests.net.running import Running, until
from tests.pipeline.test_source import Filled, read

pytestmark = [pytest.mark.extras, pytest.mark.timeout(300)]

TYPES: dict[str, Any] = {
    "string": StringType(), "binary": BinaryType(), "int": IntegerType(), "bigint": LongType(),
    "map<string,int>": MapType(StringType(), IntegerType()),
}  # fmt: skip


def schema_of(text: str) -> StructType:
    """As ``StructType.fromDDL``, which needs a session."""
    pairs = [one.split(" ") for one in text.split(", ")]
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


GOOD = {"gateway": "http://h:1/", "user": "u", "password": "p"}


def test_options(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s\n")
    given = {"GATEWAY": "http://h:1/", "user": "u", "passwordfile": str(secret), "vhost": "v",
             "replayid": "r", "target": "orders", "MaxInFlight": "7", "rate": "2.5/s",
             "onReject": "skip", "rejects": "/x", "checkpointLocation": "/y"}  # fmt: skip
    assert sink_options(given) == Publishing(
        "http://h:1", "u", "s", "", "v", "r", "/queues/orders", 7, 2.5, True, "/x"
    )
    for target in ("/queues/a", "/exchanges/a", "/exchanges/a/b%2Fc"):
        assert sink_options({**GOOD, "target": target}).target == target


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"gatway": "x"}, "gatway"), ({"user": ""}, "user"), ({"target": "/x/y"}, "target"),
        ({"target": "/queues/a/b"}, "target"), ({"target": "/exchanges/"}, "target"),
        ({"replayId": ""}, "replayId"), ({"maxInFlight": "501"}, "maxInFlight"),
        ({"maxInFlight": "0"}, "maxInFlight"), ({"rate": "fast"}, "rate"), ({"rate": "0"}, "rate"),
        ({"onReject": "park"}, "onReject"), ({"rejects": "/x"}, "rejects"),
        ({"vhost": "*"}, "vhost"),
        ({"gateway": "h:1"}, "gateway"), ({"journal": "/x"}, "journal"),
        ({"dryRun": "1"}, "dryRun"),
    ],
)  # fmt: skip
def test_wrong_options(given: dict[str, str], name: str) -> None:
    with pytest.raises(OptionError, match=f"^{name}: "):
        sink_options({**GOOD, **given})


def test_missing_options() -> None:
    schema = schema_of("body string, address string")
    for given, name in (
        ({}, "gateway"), ({"gateway": "http://h"}, "user"),
        ({"gateway": "http://h", "user": "u"}, "user"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=f"^{name}: "):
            writer(given, schema, False)
    with pytest.raises(OptionError, match="^replayId: "):
        stream_writer(GOOD, schema, False)
    with pytest.raises(OptionError, match="^mode: "):
        writer(GOOD, schema, True)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("body binary, adress string", "'adress' is no column"),
        ("body int, address string", "'body' is binary, not int"),
        ("body binary, address string, properties map<string,int>", "'properties' is map"),
        ("body binary, address string, offset string", "'offset' is bigint"),
        ("address string", "'amqp10' or 'body'"),
        ("body binary", "^target: "),
    ],
)
def test_wrong_columns(schema: str, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        check_columns(schema_of(schema), "")


def test_columns() -> None:
    assert not check_columns(schema_of("body string"), "/queues/x")
    place = "journal_id string, address string, offset int"
    assert check_columns(schema_of(f"amqp10 binary, {place}"), "")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path / "target") as running:
        wire = running.wire(1)
        for queue in ("orders", "copies"):
            wire.declare(queue, durable=True)
        wire.close()
        yield running


def options(gateway: Running, **more: str) -> dict[str, str]:
    url = f"http://127.0.0.1:{gateway.http_port}"
    return {"gateway": url, "user": "guest", "password": "guest", **more}


def bodies(gateway: Running, queue: str) -> list[bytes]:
    wire = gateway.wire(1)
    found: list[bytes] = wire.everything(queue)
    wire.reset()
    return found


def once_failing(batches: Iterator[Any]) -> Iterator[Any]:
    """The rows, and a failure in the middle of the first attempt."""
    from pyspark import TaskContext

    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        if rows > 50 and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")


def test_a_small_frame(spark: Any, gateway: Running) -> None:
    """Two columns. A task that is repeated publishes once; another write publishes again."""
    frame = spark.createDataFrame(
        [("/queues/orders", f"body {n:03}") for n in range(100)], "address string, body string"
    ).coalesce(1)
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "10")
    try:
        failing = frame.mapInArrow(once_failing, frame.schema)
        given = options(gateway, maxInFlight="7")
        failing.write.format("amqp").mode("append").options(**given).save()
    finally:
        spark.conf.set(setting, before)
    expected = [b"body %03d" % n for n in range(100)]
    assert bodies(gateway, "orders") == expected
    again = options(gateway, replayId="again", target="/queues/copies")
    for _ in range(2):
        frame.write.format("amqp").mode("append").options(**again).save()
    assert bodies(gateway, "copies") == expected
    assert [one["name"] for one in gateway.asked("/v1/%2F/replays")["replays"]] == ["again"]


def test_rejected_rows(spark: Any, gateway: Running, tmp_path: Path) -> None:
    rows = [("/queues/orders", b"a"), ("/queues/missing", b"b"), ("/queues/orders", b"c")]
    frame = spark.createDataFrame(rows, "address string, body binary").coalesce(1)
    given = options(gateway, replayId="r")
    with pytest.raises(Exception, match=r"partition 0, row 1: .*no queue 'missing'"):
        frame.write.format("amqp").mode("append").options(**given).save()
    assert bodies(gateway, "orders") == [b"a"], "nothing comes behind it"
    given |= {"onReject": "skip", "rejects": str(tmp_path / "rejects")}
    frame.write.format("amqp").mode("append").options(**given).save()
    assert bodies(gateway, "orders") == [b"c"]
    (file,) = (tmp_path / "rejects").iterdir()
    assert "no queue 'missing'" in file.read_text()


def test_a_stream_that_fails_in_the_middle(spark: Any, gateway: Running, tmp_path: Path) -> None:
    """A journal into a queue. The gateway is killed in the middle; started again, it goes on, and
    so does the query after a failure."""
    filled = Filled(tmp_path / "source")
    filled.fill(0, 25)
    given = options(gateway, replayId="stream", checkpointLocation=str(tmp_path / "checkpoint"))

    def run() -> None:
        stream = spark.readStream.format("amqp").options(journal=str(filled.folder))
        frame = stream.option("maxRowsPerTrigger", "10").load()
        query = frame.writeStream.format("amqp").options(**given).trigger(availableNow=True)
        query.start().awaitTermination(120)

    # Every other message was published to this queue.
    with pytest.raises(
        Exception, match=r"position 1 \(/queues/more, offset 0\): .*no queue 'more'"
    ):
        run()
    wire = gateway.wire(1)
    wire.declare("more", durable=True)
    wire.close()
    gateway.kill()
    gateway.start()
    given["gateway"] = options(gateway)["gateway"]
    run()
    assert bodies(gateway, "orders") == [b"body %d" % n for n in range(0, 25, 2)]
    assert bodies(gateway, "more") == [b"body %d" % n for n in range(1, 25, 2)]
    again = read(spark, filled.folder).load()
    again.write.format("amqp").mode("append").options(**given).save()
    until(lambda: gateway.asked("/v1/%2F/replays/stream")["published"] == 25, "keys")
    assert bodies(gateway, "orders") == []
