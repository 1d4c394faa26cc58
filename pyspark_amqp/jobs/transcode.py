"""The job ``transcode``: archives of captured octets, and segments of journals, as messages of 1.0
or canonical rows.

The work is that of ``gateway.archive``. Spark hands bundles of an archive to its executors, and the
pool of ``gateway.archive.pool`` to processes of this machine; both call the same functions and
leave the same files.
"""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pyspark_amqp.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gateway.archive.reading import Bundle
    from gateway.archive.writing import Plan, Summary

POOL_MESSAGES = 2_000_000
"""About as many messages as processes of this machine read until Spark has started."""
BUNDLES = (
    "`number` INT, parts ARRAY<STRUCT<kind:STRING, path:STRING, `first`:INT, `last`:INT, "
    "`rows`:BIGINT, octets:BIGINT>>"
)
SUMMARIES = (
    "`number` INT, messages BIGINT, unreadable BIGINT, `rows` BIGINT, errors BIGINT, octets BIGINT"
)
POLL_SECONDS = 0.5

Engine = Literal["auto", "local", "spark"]
Form = Literal["canonical", "amqp10"]


# --- with Spark -----------------------------------------------------------------------------------


def archive(spark: "SparkSession", *paths: str | Path) -> "DataFrame":
    """The bundles of an archive, a row each. Executors must reach the same paths. Raises
    ``ArchiveError``."""
    from gateway.archive.reading import bundles_of, list_parts

    return bundles_frame(spark, bundles_of(list_parts(Path(one).absolute() for one in paths)))


def bundles_frame(spark: "SparkSession", bundles: "list[Bundle]") -> "DataFrame":
    """A row and a task for each bundle, the largest first."""
    rows = [
        (one.number, [tuple(part) for part in one.parts])
        for one in sorted(bundles, key=lambda one: -one.octets)
    ]
    spread = spark.sparkContext.parallelize(rows, len(rows))
    return spark.createDataFrame(spread, BUNDLES)


def transcode(
    frame: "DataFrame", columns: tuple[str, ...] | None = None, as_version: str | None = None
) -> "DataFrame":
    """The messages of these bundles (``archive``) with canonical columns, all or those named, and
    where each is from; and the errors, which have an ``error_code``."""
    from gateway.archive.batches import CANONICAL, ddl_of

    names = columns or CANONICAL
    return frame.mapInArrow(_rows(names, as_version), ddl_of(names))


def transcode_to(frame: "DataFrame", plan: "Plan") -> "DataFrame":
    """Write the messages and errors of these bundles into the files of ``plan``. A row with the
    counts of each bundle."""
    return frame.mapInArrow(_files(plan), SUMMARIES)


def _rows(names: tuple[str, ...], as_version: str | None) -> Callable[[Iterator[Any]], Any]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from gateway.archive.batches import transcode as transcode_batch
        from gateway.archive.reading import raw_batches
        from gateway.archive.recordings import Counts

        for bundle in bundles_in(batches):
            for part in bundle.parts:
                for raw in raw_batches(part, Counts(), as_version):
                    yield transcode_batch(raw, names)

    return run


def _files(plan: "Plan") -> Callable[[Iterator[Any]], Any]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from gateway.archive.writing import transcode_bundle

        for bundle in bundles_in(batches):
            summary = transcode_bundle(bundle, plan)
            values = {"number": bundle.number, **summary._asdict()}
            arrays = [
                pa.array([value], pa.int32() if name == "number" else pa.int64())
                for name, value in values.items()
            ]
            yield pa.record_batch(arrays, names=list(values))

    return run


def bundles_in(batches: Iterator[Any]) -> "Iterator[Bundle]":
    """The bundles in batches of ``BUNDLES``."""
    from gateway.archive.reading import Bundle, Part

    for batch in batches:
        for row in batch.to_pylist():
            yield Bundle(row["number"], tuple(Part(**part) for part in row["parts"]))


def transcode_with_spark(
    spark: "SparkSession",
    bundles: "list[Bundle]",
    plan: "Plan",
    done: Callable[[int], None] = lambda tasks: None,
) -> "list[Summary]":
    """The summaries of all bundles. ``done`` gets the number of tasks that are complete."""
    from gateway.archive.writing import Summary

    context = spark.sparkContext
    over = threading.Event()

    def watch() -> None:
        tracker = context.statusTracker()
        while not over.wait(POLL_SECONDS):
            for number in tracker.getActiveStageIds():
                info = tracker.getStageInfo(number)
                if info is not None:
                    done(info.numCompletedTasks)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        rows = transcode_to(bundles_frame(spark, bundles), plan).collect()
    finally:
        over.set()
        watcher.join()
    if len(rows) != len(bundles):
        raise RuntimeError(f"{len(rows)} of {len(bundles)} bundles came back")
    return [Summary(*row[1:]) for row in sorted(rows)]


# --- the command ----------------------------------------------------------------------------------


def engine_for(bundles: "list[Bundle]") -> str:
    """``local`` for few messages, or where there is no Spark or no Java."""
    if sum(one.messages for one in bundles) < POOL_MESSAGES:
        return "local"
    return "spark" if spark_is_here() else "local"


def spark_is_here() -> bool:
    from importlib.util import find_spec

    from pyspark_amqp.java import JavaError, prepare

    if find_spec("pyspark") is None or find_spec("pandas") is None:
        return False
    try:
        prepare()
    except JavaError:
        return False
    return True


def command(
    archive: Annotated[
        list[Path],
        typer.Argument(help="Recordings, segments of a journal, or directories of them."),
    ],
    output: Annotated[Path, typer.Option(help="Directory for the messages, as Parquet.")],
    errors: Annotated[
        Path | None, typer.Option(help="Directory for what cannot be read [OUTPUT-errors].")
    ] = None,
    form: Annotated[
        Form, typer.Option("--as", help="All canonical columns, or messages of 1.0 alone.")
    ] = "canonical",
    engine: Annotated[
        Engine, typer.Option(help="Spark, or processes of this machine (auto: by size).")
    ] = "auto",
    version: Annotated[
        str | None, typer.Option(help="Version of recordings that do not tell it.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes, with --engine local.")] = 0,
    overwrite: Annotated[bool, typer.Option(help="Replace what an earlier run has left.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Turn captured octets of any version, and journals, into messages of 1.0 or canonical rows."""
    from rich.console import Console

    from gateway.archive.batches import AMQP10, CANONICAL
    from gateway.archive.reading import bundles_of, list_parts
    from gateway.archive.writing import Plan, finish, prepare
    from gateway.inspect.versions import FAMILIES

    if version is not None and version not in FAMILIES:
        raise OptionError(f"--version: {version!r} is none of {', '.join(FAMILIES)}")
    errors = errors or output.with_name(f"{output.name}-errors")
    places = output.absolute(), errors.absolute()
    if places[0] == places[1] or places[0] in places[1].parents or places[1] in places[0].parents:
        raise OptionError("--errors: must be another directory than --output, and not inside it")
    bundles = bundles_of(list_parts(one.absolute() for one in archive))
    names = CANONICAL if form == "canonical" else AMQP10
    plan = Plan(str(places[0]), str(places[1]), names, version)
    chosen = engine if engine != "auto" else engine_for(bundles)
    prepare(plan, overwrite)
    summaries = _run(chosen, bundles, plan, workers, quiet=as_json)
    total = finish(plan, summaries)
    told = {"engine": chosen, "parts": len(bundles), **total._asdict()}
    told |= {"output": plan.output, "errors_in": plan.errors}
    out = Console(highlight=False, soft_wrap=True)
    if as_json:
        out.print_json(json.dumps(told))
    else:
        out.print(
            f"{total.messages} messages and {total.unreadable} unreadable stretches in "
            f"{total.octets} octets: {total.rows} rows in {plan.output}, "
            f"{total.errors} errors in {plan.errors} ({chosen})"
        )


def _run(
    engine: str, bundles: "list[Bundle]", plan: "Plan", workers: int, quiet: bool
) -> "list[Summary]":
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=quiet) as progress:
        task = progress.add_task("transcoding", total=len(bundles))
        if engine == "local":
            from gateway.archive.pool import transcode_locally

            return transcode_locally(
                bundles, plan, workers, lambda bundle, summary: progress.advance(task)
            )
        from pyspark_amqp.session import session

        spark = session("amqp-gateway transcode")
        return transcode_with_spark(
            spark, bundles, plan, lambda tasks: progress.update(task, completed=tasks)
        )
