"""The job ``land``: a journal, as it grows, into a Delta table or into Parquet files."""

import json
import re
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from gateway.journal.canonical import BY_NAME, COLUMNS
from pyspark_amqp.jobs.inputs import Inputs, ddl_of, with_inputs
from pyspark_amqp.options import EARLIEST, OptionError, read_consumer, read_options
from pyspark_amqp.places import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

TASKS = 2
ROWS = 50_000
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
LOOK_SECONDS = 0.5
"""Between looks at the progress of a query."""


class Target(NamedTuple):
    """Where rows land, and how far a consumer has. ``checkpoint`` is Spark's."""

    path: Path
    delta: bool
    consumer: str
    checkpoint: Path

    @property
    def begun(self) -> bool:
        """Whether the checkpoint has a batch; then Spark goes on from it."""
        offsets = self.checkpoint / "offsets"
        return offsets.is_dir() and any(one.name.isdigit() for one in offsets.iterdir())


def land(frame: "DataFrame", tasks: int = TASKS) -> "DataFrame":
    """The rows of a stream as they land: by so many tasks, each of which writes one file for each
    day and bucket."""
    return frame.coalesce(tasks)


def writing(frame: "DataFrame", target: Target) -> "DataStreamWriter":
    """Each row of a stream once into the target."""
    writer = frame.writeStream.option("checkpointLocation", str(target.checkpoint))
    if target.delta:
        sink = writer.format("amqp").option("table", str(target.path))
        return sink.option("consumer", target.consumer)
    from pyspark_amqp.delta import PARTITIONS

    return writer.format("parquet").partitionBy(*PARTITIONS).option("path", str(target.path))


class Landed(NamedTuple):
    """Progress of a query: ``rows`` that it has read from the journal, and the next ``position``
    of it, of those up to ``end``."""

    rows: int = 0
    batches: int = 0
    position: int | None = None
    end: int | None = None

    @property
    def lag(self) -> int | None:
        """Positions that have not landed."""
        if self.position is None or self.end is None:
            return None
        return max(0, self.end - self.position)

    def after(self, progress: dict[str, Any]) -> "Landed":
        """With the progress of one more batch, as Spark reports it."""
        source = progress["sources"][0]
        rows = progress["numInputRows"]
        found = self._replace(
            rows=self.rows + rows, batches=self.batches + 1 if rows else self.batches
        )
        if source["endOffset"]:
            found = found._replace(position=source["endOffset"]["pos"])
        if source.get("latestOffset"):
            found = found._replace(end=source["latestOffset"]["pos"])
        return found


class Watch:
    """Adds up the batches of a query, each once."""

    def __init__(self) -> None:
        self.landed = Landed()
        self._seen = -1

    def look(self, recent: list[dict[str, Any]]) -> Landed:
        """``recent``: Spark's reports of the last batches."""
        for progress in recent:
            if progress["numInputRows"] and progress["batchId"] <= self._seen:
                continue
            if progress["numInputRows"]:
                self._seen = progress["batchId"]
            self.landed = self.landed.after(progress)
        return self.landed


def stream(spark: "SparkSession", options: dict[str, str], names: tuple[str, ...]) -> "DataFrame":
    """These columns of the journal, as a stream."""
    reader = spark.readStream.format("amqp").options(**options)
    return reader.schema(ddl_of(names)).load()


def columns_of(given: str | None) -> tuple[str, ...]:
    """All columns, or those named and the ones that landing needs. Raises ``OptionError``."""
    from pyspark_amqp.delta import NEEDED

    names = [one.strip() for one in (given or "").split(",") if one.strip()]
    for name in names:
        if name not in BY_NAME:
            raise OptionError(f"--columns: there is no column {name!r}")
    chosen = {*names, *NEEDED} if names else BY_NAME.keys()
    return tuple(one.name for one in COLUMNS if one.name in chosen)


def milliseconds(text: str) -> int:
    """Of a time such as ``5s``. Raises ``OptionError``."""
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|h)", text.strip())
    if found is None or not int(found[1]):
        raise OptionError(f"--every: a time such as 500ms, 5s or 10m, not {text!r}")
    return int(found[1]) * UNITS[found[2]]


def target_of(inputs: Inputs, consumer: str, checkpoint: Path | None) -> Target:
    """Raises ``OptionError``."""
    if (inputs.table is None) == (inputs.parquet is None):
        raise OptionError("--table: give the directory of a Delta table, or --parquet one of files")
    place = inputs.table or inputs.parquet or ""
    path = Path(place.removeprefix("file://")).absolute()
    if "://" in place.removeprefix("file://"):
        name = "table" if inputs.table else "parquet"
        raise OptionError(f"--{name}: a directory, not {place!r}")
    read_consumer("--consumer", consumer)
    kept = (checkpoint or path / "_checkpoints" / consumer).absolute()
    return Target(path, inputs.table is not None, consumer, kept)


def start_of(options: dict[str, str], target: Target) -> str | None:
    """The offset at which a query begins that has no checkpoint yet, or has lost it: behind what
    has landed. Raises ``OptionError``, ``JournalError``."""
    if target.begun:
        return None
    if not target.delta:
        if (target.path / "_spark_metadata").is_dir():
            raise OptionError(
                f"--checkpoint: {target.checkpoint} has no batch, but {target.path} has files of"
                " some: Spark's file sink would leave out rows. Give another directory"
            )
        return None
    from pyspark_amqp.delta import NOTHING, landed_position

    journal = opened(read_options(options))
    try:
        name = journal.overview().id
    finally:
        journal.close()
    last = landed_position(target.path, name, target.consumer)
    if last == NOTHING:
        return None
    start = max(last + 1, int(options.get("startPos", 0)))
    return json.dumps({"epoch": name, "pos": start}, sort_keys=True)


@contextmanager
def signals() -> "Iterator[Event]":
    """An event that Ctrl-C and SIGTERM set. A signal does not raise: the connection to Java would
    be torn in the middle of a call."""
    found = Event()

    def note(number: int, frame: Any) -> None:
        found.set()

    before = {one: signal.signal(one, note) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield found
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def told(landed: Landed, seconds: float) -> str:
    """One line of progress."""
    rate = landed.rows / seconds if seconds > 0 else 0.0
    where = "" if landed.position is None else f", position {landed.position:,}"
    lag = "" if landed.lag is None else f", {landed.lag:,} behind"
    return f"{landed.rows:,} rows in {landed.batches:,} batches{where}{lag}, {rate:,.0f} rows/s"


def follow(query: "StreamingQuery", quiet: bool) -> Landed:
    """Show progress until the query ends, or Ctrl-C or SIGTERM ends it; what has not landed lands
    next time. Raises what it has failed with."""
    watch = Watch()
    console = Console(stderr=True, highlight=False)
    began = time.monotonic()
    status = console.status("waiting for entries", spinner="dots")
    if not quiet:
        status.start()
    try:
        with signals() as stopping:
            while query.isActive and not stopping.is_set():
                query.awaitTermination(LOOK_SECONDS)
                watch.look(reports(query))
                status.update(told(watch.landed, time.monotonic() - began))
            if not stopping.is_set():
                query.awaitTermination()
        return watch.look(reports(query))
    finally:
        query.stop()
        status.stop()


def reports(query: "StreamingQuery") -> list[dict[str, Any]]:
    """Spark's reports of the last batches, of which it keeps 100."""
    return [json.loads(one.json) for one in query.recentProgress]


@with_inputs
def command(
    inputs: Inputs,
    consumer: Annotated[
        str, typer.Option(help="Name under which the table keeps how far it has come.")
    ] = "land",
    once: Annotated[bool, typer.Option("--once", help="Land what is there, and end.")] = False,
    every: Annotated[str, typer.Option(help="Time between batches, such as 500ms or 5s.")] = "5s",
    rows: Annotated[int, typer.Option(min=1, help="Rows in a batch at most.")] = ROWS,
    tasks: Annotated[
        int, typer.Option(min=1, help="Tasks; each writes 16 files a batch and day at most.")
    ] = TASKS,
    columns: Annotated[
        str | None, typer.Option(help="Columns, separated by commas; without it all.")
    ] = None,
    starting: Annotated[
        str, typer.Option(help="Where a new consumer begins: earliest, or latest.")
    ] = EARLIEST,
    skip_lost: Annotated[
        bool,
        typer.Option("--skip-lost", help="Go on if retention has removed entries before."),
    ] = False,
    large_bodies: Annotated[
        bool,
        typer.Option("--large-bodies", help="Bodies above 8 MiB too, not only the files' names."),
    ] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Directory of Spark's checkpoint; else in the table's.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Land a journal in a Delta table, each entry once."""
    names = columns_of(columns)
    target = target_of(inputs, consumer, checkpoint)
    trigger: dict[str, Any] = {"processingTime": f"{milliseconds(every)} milliseconds"}
    if once:
        trigger = {"availableNow": True}
    options = inputs.options() | {"maxRowsPerTrigger": str(rows), "startingOffsets": starting}
    options["largeBodies"] = "true" if large_bodies else "false"
    options["failOnDataLoss"] = "false" if skip_lost else "true"
    if inputs.journal and starting != EARLIEST:
        options["consumer"] = consumer
    read_options(options)
    begin = start_of(options, target)
    if begin is not None:
        options["startingOffsets"] = begin
    from pyspark_amqp.session import session

    frame = land(stream(session("land"), options, names), tasks)
    began = time.monotonic()
    landed = follow(writing(frame, target).trigger(**trigger).start(), as_json)
    if as_json:
        typer.echo(json.dumps(shown(target, landed)))
    else:
        typer.echo(f"{target.path}: {told(landed, time.monotonic() - began)}")


def shown(target: Target, landed: Landed) -> dict[str, Any]:
    """The document of ``--json``."""
    found: dict[str, Any] = {
        "format": "delta" if target.delta else "parquet",
        "path": str(target.path),
        "consumer": target.consumer,
        "rows": landed.rows,
        "batches": landed.batches,
        "position": landed.position,
        "end": landed.end,
        "lag": landed.lag,
    }
    if target.delta:
        from deltalake import DeltaTable

        table = DeltaTable(target.path)
        found |= {"version": table.version(), "files": len(table.file_uris())}
    return found
