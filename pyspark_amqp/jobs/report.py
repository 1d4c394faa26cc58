"""The job ``report``: migration readiness, from rows with the canonical columns.

``report`` counts rows in one pass, by client, user, address and version of the protocol. What it
gives is small; ``pyspark_amqp.readiness`` weighs it for a target and shows it, in plain Python.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.inventory.counts import GENERATED, LONGEST_NAME, NUMBERS
from gateway.journal.canonical import LOSSY, SAMPLE_PARTS
from pyspark_amqp.jobs.inputs import Inputs, with_inputs
from pyspark_amqp.options import OptionError
from pyspark_amqp.readiness.counts import Counted, flows_of
from pyspark_amqp.readiness.sketch import GROWTH

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = (
    "pos", "vhost", "address", "ingest_ts", "protocol", "client_id", "user_id", "client_product",
    "client_version", "body_len", "features", LOSSY, "hops",
)  # fmt: skip
"""The columns that ``report`` reads."""
HOUR = 3600


def sampled(pos: "Column", share: float) -> "Column":
    """Whether a row is in the sample: the same rows each time, and in the source."""
    from pyspark.sql import functions as f

    part = f.pmod(f.crc32(pos.cast("string").cast("binary")), f.lit(SAMPLE_PARTS))
    return part < int(share * SAMPLE_PARTS)


def report(frame: "DataFrame") -> "DataFrame":
    """The counts of rows, as ``Counted`` names them. ``frame`` has the columns ``COLUMNS``; where
    ``lossy`` is null a message was not looked at, and ``looked`` does not count it."""
    from pyspark.sql import functions as f

    def named(column: "Column") -> "Column":
        cut = f.substring(f.coalesce(column, f.lit("")), 1, 4 * LONGEST_NAME)
        return f.regexp_replace(cut, GENERATED.pattern, "*")

    def identity(column: "Column") -> "Column":
        return f.regexp_replace(named(column), NUMBERS.pattern, "*")

    def bucket(column: "Column") -> "Column":
        number = f.ceil(f.round(f.log(column.cast("double")) / f.log(f.lit(GROWTH)), 9)) + 1
        return f.when(column < 1, f.lit(0)).otherwise(number).cast("int")

    def fact(kind: str, name: "Column", detail: Any, number: Any, hour: Any) -> "Column":
        return f.struct(
            f.lit(kind).alias("kind"),
            name.alias("name"),
            (f.lit("") if detail is None else detail).alias("detail"),
            (f.lit(None) if number is None else number).cast("int").alias("bucket"),
            (f.lit(None) if hour is None else hour).cast("bigint").alias("hour"),
        )

    micros = f.unix_micros(f.col("ingest_ts"))
    size = f.coalesce(f.col("body_len"), f.lit(0))
    used = f.array_join(f.array_sort(f.array_distinct(f.coalesce("features", f.array()))), ",")
    hour = (f.floor(micros / (HOUR * 1_000_000)) * HOUR).cast("bigint")
    losses = f.array_distinct(
        f.transform(
            f.coalesce(f.col("lossy"), f.array()),
            lambda one: fact("loss", named(one["feature"]), one["severity"], None, None),
        )
    )
    timed = f.filter(
        f.coalesce(f.col("hops"), f.array()),
        lambda one: one["enter_us"].isNotNull() & (one["leave_us"] >= one["enter_us"]),
    )
    hops = f.transform(
        timed,
        lambda one: fact("hop", one["hop"], None, bucket(one["leave_us"] - one["enter_us"]), None),
    )
    facts = f.concat(
        f.array(
            fact("messages", used, None, None, hour),
            fact("size", f.lit(""), None, bucket(size), None),
        ),
        losses,
        hops,
    )
    keys = {
        "vhost": f.coalesce("vhost", f.lit("")),
        "address": named(f.col("address")),
        "protocol": f.coalesce("protocol", f.lit("")),
        "client": identity(f.col("client_id")),
        "product": named(f.col("client_product")),
        "product_version": named(f.col("client_version")),
        "user": f.coalesce("user_id", f.lit("")),
    }
    rows = frame.select(
        *(column.alias(name) for name, column in keys.items()),
        size.alias("size"),
        micros.alias("at"),
        f.col("lossy").isNotNull().cast("bigint").alias("seen"),
        f.explode(facts).alias("fact"),
    ).select(*keys, "size", "at", "seen", "fact.*")
    return rows.groupBy(*keys, "kind", "name", "detail", "bucket", "hour").agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum("size").alias("octets"),
        f.max("size").alias("largest"),
        f.min("at").alias("first"),
        f.max("at").alias("last"),
        f.sum("seen").alias("looked"),
    )


def with_findings(frame: "DataFrame", share: float) -> "DataFrame":
    """Rows of an archive without ``amqp10``: where ``features`` or ``lossy`` is null it was found
    in that, in parallel; ``lossy`` of a sample."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    from pyspark_amqp.readiness.archives import finder

    need = f.col("features").isNull() | (f.col(LOSSY).isNull() & sampled(f.col("pos"), share))
    asked = frame.withColumn("amqp10", f.when(need, f.col("amqp10")))
    kept = StructType([field for field in frame.schema.fields if field.name != "amqp10"])
    return asked.mapInArrow(finder(share), kept)


def counted(frame: "DataFrame") -> list[Counted]:
    """The rows of ``report``: as many as there are flows, with their hours, sizes and features."""
    return [Counted(*row) for row in report(frame).select(*Counted._fields).toLocalIterator()]


def rows_of(inputs: Inputs, spark: "SparkSession", share: float) -> "DataFrame":
    """What ``report`` reads. Raises ``OptionError``."""
    from pyspark.sql import functions as f

    if inputs.journal is not None or inputs.gateway is not None:
        return inputs.frame(spark, COLUMNS, sample=str(share))
    frame = inputs.frame(spark, (*COLUMNS, "amqp10"))
    if frame.where(f.col("features").isNull() | f.col(LOSSY).isNull()).limit(1).count():
        return with_findings(frame, share)
    return frame.drop("amqp10")


@with_inputs
def command(
    inputs: Inputs,
    target: Annotated[
        str | None,
        typer.Option(help="rabbitmq-4, artemis or generic-1.0. [default: generic-1.0]"),
    ] = None,
    capabilities: Annotated[
        Path | None,
        typer.Option(help="An answer of GET /v1/capabilities of a gateway before the target."),
    ] = None,
    upstream: Annotated[
        str | None, typer.Option(help="Name of the target in --capabilities.")
    ] = None,
    sample: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of messages looked at for what 1.0 loses."),
    ] = 1.0,
    by: Annotated[str, typer.Option(help="Steps of the trend: hour, day or auto.")] = "auto",
    html: Annotated[Path | None, typer.Option(help="Write one page with drawings.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write tables into this directory.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Migration readiness of clients, users, addresses and versions. Status 1: a client cannot move
    before it is changed."""
    from rich.console import Console

    from gateway import __version__
    from pyspark_amqp.readiness.document import document_of
    from pyspark_amqp.readiness.forms import show, write_csv
    from pyspark_amqp.readiness.page import as_html
    from pyspark_amqp.readiness.weighing import weights_of
    from pyspark_amqp.session import session

    if by not in ("hour", "day", "auto"):
        raise OptionError(f"--by: hour, day or auto, not {by!r}")
    weights = weights_of(target, capabilities, upstream)
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    spark = session("report")
    with err.status("Counting messages …", spinner="dots"):
        found = counted(rows_of(inputs, spark, sample))
    document = document_of(flows_of(found), weights, sample, by)
    try:
        if html is not None:
            html.write_text(as_html(document, __version__), "utf-8")
        if csv is not None:
            write_csv(document, csv)
    except OSError as error:
        raise OptionError(f"{'--csv' if html is None else '--html'}: {error}") from None
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        show(document, out)
        for path in filter(None, (html, csv)):
            err.print(f"written: {path}", markup=False)
    if document["worst"] == "blocking":
        raise typer.Exit(1)
