"""The data pipeline on Spark: reading a journal against native Parquet of the same rows, landing
it, and what a stream costs that waits. Needs the extra `spark` and Java."""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.rows import Row, compare
from gateway.adapters.methods.content import BASIC
from gateway.journal.entries import Entry, Publisher
from gateway.message import Message, Properties

GROUP = "pipeline"
READ_AIM = 0.5
IDLE_CEILING = 3.0
"""Percent of one processor, of all processes of a session whose stream has nothing to do."""
BODY = 1024
ADDRESSES = 1000
PLAIN = (
    "journal_id", "pos", "vhost", "address", "offset", "ingest_ts", "ingest_date",
    "address_bucket", "protocol", "user_id", "body",
)  # fmt: skip
"""Columns that a segment has, but for two: no properties are decoded for them."""
READS = {"all columns": (), "plain columns": PLAIN}


def fill(folder: Path, count: int) -> None:
    """Sealed segments of messages with 1 KiB of random octets, of which no two are alike."""
    from gateway.journal.segments import SegmentWriter

    publisher = Publisher("amqp-0-9-1", "guest", "1", "client", "pika", "1.3")
    for start in range(0, count, 65_536):
        end = min(count, start + 65_536)
        writer = SegmentWriter(folder, "00000000-0000-0000-0000-000000000001", start)
        for pos in range(start, end):
            name = f"q{pos % ADDRESSES}"
            given = Properties(
                durable=True, message_id=f"m-{pos}", content_type="application/json",
                correlation_id=os.urandom(8).hex(),
                application={"number": pos, "tenant": os.urandom(6).hex(), "kind": f"k{pos % 7}"},
            )  # fmt: skip
            header = BASIC.write(given)
            message = Message(BASIC, header, os.urandom(BODY), "", name, BASIC.essentials(header))
            writer.add(
                Entry(pos, 1_763_900_000_000 + pos, "/", f"/queues/{name}", pos // ADDRESSES,
                      publisher, message, BODY)
            )  # fmt: skip
        writer.finish(end)


def timed(count: int, action: Callable[[], Any]) -> float:
    """Rows a second."""
    start = time.perf_counter()
    action()
    return count / (time.perf_counter() - start)


def through(frame: Any) -> None:
    """Read every column of every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def reading(bench: "Bench", names: tuple[str, ...]) -> None:
    through(bench.source(names))


class Bench:
    """A session, a journal, and tables that are made from it."""

    def __init__(self, spark: Any, folder: Path, count: int) -> None:
        self.spark = spark
        self.folder = folder
        self.journal = folder / "journal"
        self.count = count
        self._tables = 0
        fill(self.journal, count)

    def table(self) -> Path:
        self._tables += 1
        return self.folder / f"table-{self._tables}"

    def land(self, path: Path, delta: bool = True, names: tuple[str, ...] = ()) -> None:
        from pyspark_amqp.jobs.land import Target, columns_of, land, stream, writing

        options = {"journal": str(self.journal), "maxRowsPerTrigger": "50000"}
        target = Target(path, delta, "bench", path / "_checkpoints" / "bench")
        frame = land(stream(self.spark, options, columns_of(",".join(names) or None)))
        writing(frame, target).trigger(availableNow=True).start().awaitTermination()

    def source(self, names: tuple[str, ...]) -> Any:
        from pyspark_amqp.jobs.inputs import Inputs

        return Inputs(journal=str(self.journal)).frame(self.spark, names)

    def idle(self, seconds: float) -> tuple[float, int]:
        """Percent of a processor, and batches, of a stream with a trigger of 1 s to which nothing
        comes."""
        from pyspark_amqp.jobs.land import Target, columns_of, land, stream, writing

        path = self.table()
        options = {"journal": str(self.journal), "maxRowsPerTrigger": "1000", "endPos": "1000"}
        target = Target(path, True, "bench", path / "_checkpoints" / "bench")
        frame = land(stream(self.spark, options, columns_of("address")))
        query = writing(frame, target).trigger(processingTime="1 second").start()
        try:
            commits = target.checkpoint / "commits"
            while not (commits / "0").exists():
                time.sleep(0.1)
            time.sleep(2)
            before, start = processor_seconds(), time.perf_counter()
            time.sleep(seconds)
            after, end = processor_seconds(), time.perf_counter()
            # A process that has ended meanwhile, as idle workers do, takes its total with it.
            spent = sum(now - before.get(one, 0.0) for one, now in after.items()) / (end - start)
            return spent * 100, sum(one.name.isdigit() for one in commits.iterdir()) - 1
        finally:
            query.stop()


def processor_seconds() -> dict[tuple[int, float], float]:
    """Of this process and each that it has begun, by number and time of start."""
    own = psutil.Process()
    total = {}
    for one in (own, *own.children(recursive=True)):
        try:
            found = one.cpu_times()
            total[one.pid, one.create_time()] = found.user + found.system
        except psutil.NoSuchProcess:
            continue
    return total


def rows(wanted: Callable[[str], bool], quick: bool, repeat: int) -> Iterator[Row]:
    names = [f"read, {label}" for label in READS] + ["land, Delta", "land, plain columns", "idle"]
    if not any(wanted(f"{GROUP} {name}") for name in names):
        return
    try:
        from pyspark_amqp.java import JavaError
        from pyspark_amqp.session import session

        spark = session("benchmarks")
    except ImportError as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
        return
    except JavaError as why:
        yield Row(GROUP, "all", note=f"skipped: {why}")
        return
    times = repeat or (1 if quick else 3)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as folder:
            bench = Bench(spark, Path(folder), 20_000 if quick else 200_000)
            yield from measured(bench, wanted, times, 10.0 if quick else 60.0)
    finally:
        spark.stop()


def measured(
    bench: Bench, wanted: Callable[[str], bool], times: int, seconds: float
) -> Iterator[Row]:
    """Each side once before it counts: the first query of a session pays for its workers."""
    count = bench.count
    for label, names in READS.items():
        if wanted(f"{GROUP} read, {label}"):
            native = bench.folder / f"native-{len(names)}"
            bench.source(names).write.parquet(str(native))
            parquet = bench.spark.read.parquet(str(native))
            through(bench.source(names))
            through(parquet)
            ours, theirs = [], []
            for _ in range(times):
                ours.append(timed(count, partial(reading, bench, names)))
                theirs.append(timed(count, partial(through, parquet)))
            row = Row(GROUP, f"read, {label}", "row/s", against="Parquet", aim=READ_AIM)
            yield compare(row, ours, theirs)
    for name, columns in (("land, Delta", ()), ("land, plain columns", PLAIN)):
        if wanted(f"{GROUP} {name}"):
            bench.land(bench.table(), names=PLAIN)
            ours, theirs = [], []
            for _ in range(times):
                for found, delta in ((ours, True), (theirs, False)):
                    path = bench.table()
                    found.append(timed(count, partial(bench.land, path, delta, columns)))
            row = Row(GROUP, name, "row/s", against="Parquet sink")
            yield compare(row, ours, theirs)
    if wanted(f"{GROUP} idle"):
        idle = [bench.idle(seconds) for _ in range(times)]
        row = Row(GROUP, "idle", "%", ceiling=IDLE_CEILING)
        row.ours = statistics.median(spent for spent, _ in idle)
        row.note = f"{max(batches for _, batches in idle)} empty batches in {seconds:.0f} s"
        row.detail = {"runs": json.dumps(idle)}
        yield row
