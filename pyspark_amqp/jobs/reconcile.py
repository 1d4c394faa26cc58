"""The job ``reconcile``: an old broker's archive against a new broker's, as ``bridge verify``
compares queues: its canonical form of a message, its digests, and its classes of difference.

Each message is read once, in executors. Messages are paired by joins on ids and digests, and only
differences go further; the order of an address is looked at in one task.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.bridge.comparison.comparing import EXAMPLES, Compared, Found, Rules, Summary
from gateway.migration_commands.options import ByGroup, Ignore, Key, Unordered
from pyspark_amqp.jobs.inputs import Inputs, with_inputs
from pyspark_amqp.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = (
    "vhost", "address", "pos", "offset", "annotations", "amqp10", "message_id", "group_id",
    "body_len",
)  # fmt: skip
"""The columns that ``reconcile`` reads."""
ENTRY = (
    "queue string, number bigint, id string, grouped string, again boolean, whole binary,"
    " body binary, rest binary, fields string, unread boolean"
)
"""A message, as ``bridge verify`` keeps it: ``whole`` is the digest of body and properties."""
DIFFERENCE = "queue string, class string, left bigint, right bigint, id string, what string"
"""A difference: its class, and the places (1 is the first) on both sides; 0: not there."""
CHAINED = "side string, queue string, digest string"
PLACES = "queue string, left bigint, right bigint"
KEYS = ("body", "rest")
"""Digests by which messages without an id are paired if their whole digests do not, one after the
other."""
PARTS = (1, 5, 9, 13)
"""Where the four parts of a digest begin, which are added up apart."""


# --- messages -------------------------------------------------------------------------------------


def entries(
    frame: "DataFrame",
    rules: Rules,
    form: str,
    names: Mapping[str, str] | None = None,
    any_vhost: bool = False,
) -> "DataFrame":
    """Rows with the columns ``COLUMNS`` as ``ENTRY``. ``names``: other names of queues."""
    from pyspark.sql import functions as f

    usual = f.col("vhost").isin("", "/") | f.lit(any_vhost)
    label = f.when(usual, f.col("address")).otherwise(f.concat_ws(" ", "vhost", "address"))
    if names:
        pairs = [f.lit(text) for pair in names.items() for text in pair]
        label = f.coalesce(f.create_map(*pairs)[label], label)
    rows = frame.select(
        label.alias("queue"),
        (f.coalesce("offset", "pos") + 1).alias("number"),
        f.coalesce(f.col("annotations")["x-exchange"], f.lit("")).alias("exchange"),
        f.coalesce(f.col("annotations")["x-routing-key"], f.lit("")).alias("key"),
        "amqp10",
        f.coalesce("message_id", f.lit("")).alias("id"),
        f.coalesce("group_id", f.lit("")).alias("grouped"),
        "body_len",
    )
    return rows.mapInArrow(reader(rules, form), ENTRY)


def reader(rules: Rules, form: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` that makes ``ENTRY`` of messages."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import hashlib

        import pyarrow as pa

        from gateway.bridge.comparison.canonical import UNREADABLE, Entry, Field, entry_of
        from gateway.bridge.comparison.comparing import digest_of
        from gateway.crossing.crossing import Crossing
        from gateway.message import UNFORESEEN, cross_with
        from pyspark_amqp.readiness.archives import KEY, message_of

        cross_with(Crossing(KEY))
        schema = arrow_schema(ENTRY)

        def digest(octets: bytes) -> bytes:
            return hashlib.blake2b(octets, digest_size=16).digest()

        def read(row: dict[str, Any]) -> tuple[Entry, bool]:
            octets = row["amqp10"]
            if octets is None:  # its body stands in a file of the journal
                size = str(row["body_len"])
                shown = [Field(UNREADABLE, "octets", size)]
                return Entry(row["id"], row["grouped"], False, digest(size.encode()), shown), True
            try:
                message = message_of(octets, row["exchange"], row["key"])
            except (ValueError, *UNFORESEEN):
                shown = [Field(UNREADABLE, "header", digest(octets).hex())]
                return Entry("", "", False, digest(octets), shown), True
            return entry_of(message, form), False

        for batch in batches:
            made: dict[str, list[Any]] = {name.split()[0]: [] for name in ENTRY.split(", ")}
            for row in batch.to_pylist():
                entry, unread = read(row)
                kept = rules.kept(entry.fields)
                rest = digest_of(kept)
                values = (
                    row["queue"], row["number"], rules.id_of(entry), entry.group, entry.again,
                    digest(entry.body + rest), entry.body, rest, json.dumps(kept), unread,
                )  # fmt: skip
                for column, value in zip(made.values(), values, strict=True):
                    column.append(value)
            yield pa.RecordBatch.from_pydict(made, schema=schema)

    return run


def arrow_schema(ddl: str) -> Any:
    import pyarrow as pa

    kinds = {"string": pa.string(), "bigint": pa.int64(), "boolean": pa.bool_(),
             "binary": pa.binary()}  # fmt: skip
    return pa.schema([(name, kinds[kind]) for name, kind in map(str.split, ddl.split(", "))])


# --- differences ----------------------------------------------------------------------------------


def reconcile(old: "DataFrame", new: "DataFrame", rules: Rules) -> "DataFrame":
    """The differences between two sides, which are ``ENTRY``, as ``DIFFERENCE``. Pairs are kept
    (``persist``) until the session's cache is cleared."""
    from pyspark.sql import functions as f

    named = f.col("id") != ""
    first = f.when(named, f.concat(f.lit("i"), "id")).otherwise(f.hex("whole"))
    pairs, left, right = paired(old, new, first)
    unnamed, missed = left.where(~named), right.where(~named)
    for key in KEYS:
        more, unnamed, missed = paired(unnamed, missed, f.col(key))
        pairs = pairs.union(more)
    left, right = left.where(named), right.where(named)
    missing = left.union(unnamed).select(
        "queue", f.lit("missing").alias("class"), f.col("number").alias("left"),
        f.lit(0).cast("bigint").alias("right"), "id", f.lit("").alias("what"),
    )  # fmt: skip
    found = [missing, unexpected(right.union(missed), old), *differing(pairs, old, new)]
    if rules.order != "none":
        found.append(reordered(pairs, rules.order == "group"))
    return reduce(lambda one, other: one.union(other), found)


def paired(
    old: "DataFrame", new: "DataFrame", key: "Column"
) -> tuple["DataFrame", "DataFrame", "DataFrame"]:
    """Pairs by a key, the first of one side with the first of the other; and what is left of the
    sides."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    kept = ("number", "id", "grouped", "again", "whole", "body", "rest")

    def keyed(frame: "DataFrame", side: str) -> "DataFrame":
        place = Window.partitionBy("queue", "k").orderBy("again", "number")
        return frame.withColumn("k", key).select(
            "queue", "k", f.row_number().over(place).alias("n"), f.struct(*kept).alias(side)
        )  # fmt: skip

    joined = keyed(old, "l").join(keyed(new, "r"), ["queue", "k", "n"], "full_outer").persist()
    left = joined.where(f.col("r").isNull()).select("queue", "l.*")
    right = joined.where(f.col("l").isNull()).select("queue", "r.*")
    both = joined.where(f.col("l").isNotNull() & f.col("r").isNotNull())
    return both.select("queue", "l", "r"), left, right


def unexpected(right: "DataFrame", old: "DataFrame") -> "DataFrame":
    """Messages on the new side alone: a duplicate of one that the old side has, or not."""
    from pyspark.sql import functions as f

    def known(key: str) -> "DataFrame":
        rows = old.where(f.col("id") != "") if key == "id" else old
        return rows.select("queue", key, f.lit(True).alias(f"known_{key}")).distinct()

    for key in ("id", "whole", "body"):
        right = right.join(known(key), ["queue", key], "left")
    unnamed = f.col("id") == ""
    seen = (
        f.col("known_id").isNotNull()
        | (unnamed & f.col("known_whole").isNotNull())
        | (unnamed & f.col("again") & f.col("known_body").isNotNull())
    )
    name = (
        f.when(~seen, "extra")
        .when(f.col("again"), "flagged duplicate")
        .otherwise("duplicate")
    )  # fmt: skip
    return right.select(
        "queue", name.alias("class"), f.lit(0).cast("bigint").alias("left"),
        f.col("number").alias("right"), "id", f.lit("").alias("what"),
    )  # fmt: skip


def differing(
    pairs: "DataFrame", old: "DataFrame", new: "DataFrame"
) -> tuple["DataFrame", "DataFrame"]:
    """Differences of bodies, and of properties, within pairs."""
    from pyspark.sql import functions as f

    unlike = pairs.where(f.col("l.whole") != f.col("r.whole"))
    places = (f.col("l.number").alias("left"), f.col("r.number").alias("right"))
    bodies = unlike.where(f.col("l.body") != f.col("r.body")).select(
        "queue", f.lit("body").alias("class"), *places, f.col("l.id").alias("id"),
        f.lit("").alias("what"),
    )  # fmt: skip
    rows = unlike.where(f.col("l.rest") != f.col("r.rest"))
    rows = rows.select("queue", *places, f.col("l.id").alias("id"))
    for frame, number, name in ((old, "left", "mine"), (new, "right", "yours")):
        fields = frame.select("queue", f.col("number").alias(number), f.col("fields").alias(name))
        rows = rows.join(fields, ["queue", number])
    return bodies, rows.mapInArrow(compare_fields, DIFFERENCE)


def compare_fields(batches: Iterator[Any]) -> Iterator[Any]:
    """For ``mapInArrow``: the properties that differ in value, and in type alone."""
    import pyarrow as pa

    from gateway.bridge.comparison.comparing import unequal
    from gateway.bridge.comparison.recording import read_fields

    for batch in batches:
        made = []
        for row in batch.to_pylist():
            found = unequal(read_fields(row["mine"]), read_fields(row["yours"]))
            made += [
                {
                    "queue": row["queue"], "class": name, "left": row["left"],
                    "right": row["right"], "id": row["id"], "what": ", ".join(names),
                }
                for name, names in zip(("property", "type"), found, strict=True)
                if names
            ]  # fmt: skip
        yield pa.RecordBatch.from_pylist(made, schema=arrow_schema(DIFFERENCE))


def reordered(pairs: "DataFrame", grouped: bool) -> "DataFrame":
    """The fewest messages of each queue, or of each group in it, that are out of order. A task
    keeps two numbers for each message of a queue."""
    from pyspark.sql import functions as f

    group: Column = f.col("l.grouped") if grouped else f.lit("")
    rows = pairs.select(
        "queue", group.alias("grouped"), f.col("l.number").alias("left"),
        f.col("r.number").alias("right"),
    )  # fmt: skip
    keys = ["queue", "grouped"]
    moved = (
        rows.repartition(*keys)
        .sortWithinPartitions(*keys, "left")
        .mapInArrow(find_disorder, PLACES)
    )
    ids = pairs.select(
        "queue", f.col("l.number").alias("left"), f.col("r.number").alias("right"),
        f.col("l.id").alias("id"),
    )  # fmt: skip
    return moved.join(ids, ["queue", "left", "right"]).select(
        "queue", f.lit("reordered").alias("class"), "left", "right", "id", f.lit("").alias("what")
    )


def find_disorder(batches: Iterator[Any]) -> Iterator[Any]:
    """For ``mapInArrow``, over rows that are sorted by queue, group and place."""
    from array import array

    import pyarrow as pa

    from gateway.bridge.comparison.comparing import out_of_order

    schema = arrow_schema(PLACES)
    now: tuple[str, str] | None = None
    mine: array[int] = array("q")
    yours: array[int] = array("q")

    def found(queue: str) -> Iterator[Any]:
        out = list(out_of_order(yours))
        for at in range(0, len(out), 10_000):
            part = out[at : at + 10_000]
            columns = [[queue] * len(part), [mine[n] for n in part], [yours[n] for n in part]]
            yield pa.RecordBatch.from_arrays(
                [pa.array(one, kind) for one, kind in zip(columns, schema.types, strict=True)],
                schema=schema,
            )

    for batch in batches:
        for queue, group, left, right in zip(
            *(batch.column(name).to_pylist() for name in ("queue", "grouped", "left", "right")),
            strict=True,
        ):
            if now != (queue, group):
                if now is not None:
                    yield from found(now[0])
                now, mine, yours = (queue, group), array("q"), array("q")
            mine.append(left)
            yours.append(right)
    if now is not None:
        yield from found(now[0])


# --- summaries ------------------------------------------------------------------------------------


def summaries(old: "DataFrame", new: "DataFrame") -> dict[tuple[str, str], tuple[Summary, int]]:
    """By side and queue: messages, digests in order and in any order; and how many messages have no
    octets."""
    from pyspark.sql import functions as f

    def part(at: int) -> "Column":
        return f.sum(f.conv(f.hex(f.substring("whole", at, 4)), 16, 10).cast("bigint"))

    wanted = ("queue", "number", "whole", "unread")
    both = old.select(f.lit("old").alias("side"), *wanted).union(
        new.select(f.lit("new").alias("side"), *wanted)
    )
    counts = both.groupBy("side", "queue").agg(
        f.count(f.lit(1)).alias("messages"),
        f.sum(f.col("unread").cast("bigint")).alias("unread"),
        *(part(at).alias(f"part{at}") for at in PARTS),
    )
    chained = (
        both.select("side", "queue", "number", "whole")
        .repartition("side", "queue")
        .sortWithinPartitions("side", "queue", "number")
        .mapInArrow(chain, CHAINED)
    )
    found = {}
    for row in counts.join(chained, ["side", "queue"]).toLocalIterator():
        total = sum(row[f"part{at}"] << (32 * (3 - n)) for n, at in enumerate(PARTS)) % (1 << 128)
        summary = Summary(row["messages"], row["digest"], f"{total:032x}")
        found[row["side"], row["queue"]] = summary, row["unread"]
    return found


def chain(batches: Iterator[Any]) -> Iterator[Any]:
    """For ``mapInArrow``, over rows that are sorted by side, queue and place: the digest of each
    queue."""
    import hashlib

    import pyarrow as pa

    names: list[tuple[str, str]] = []
    digests: list[Any] = []
    for batch in batches:
        sides, queues, wholes = (
            batch.column(name).to_pylist() for name in ("side", "queue", "whole")
        )
        for side, queue, whole in zip(sides, queues, wholes, strict=True):
            if not names or names[-1] != (side, queue):
                names.append((side, queue))
                digests.append(hashlib.blake2b(digest_size=16))
            digests[-1].update(whole)
    made = {
        "side": [side for side, _ in names],
        "queue": [queue for _, queue in names],
        "digest": [one.hexdigest() for one in digests],
    }
    yield pa.RecordBatch.from_pydict(made, schema=arrow_schema(CHAINED))


NOTHING = Summary(0, "", "0" * 32)


def compared(
    old: "DataFrame", new: "DataFrame", differences: "DataFrame"
) -> dict[str, tuple[Compared, int]]:
    """The result for each queue, with examples of each class; and how many messages were not
    read."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = Window.partitionBy("queue", "class").orderBy("left", "right")
    every = Window.partitionBy("queue", "class")
    shown = (
        differences.withColumn("at", f.row_number().over(place))
        .withColumn("number", f.count(f.lit(1)).over(every))
        .where(f.col("at") <= EXAMPLES)
    )
    classes: dict[str, dict[str, Found]] = {}
    for row in sorted(shown.toLocalIterator(), key=lambda one: one["at"]):
        known = classes.setdefault(row["queue"], {})
        one = known.setdefault(row["class"], Found(row["number"], []))
        one.examples.append((row["left"], row["right"], row["id"], row["what"]))
    told = summaries(old, new)
    found = {}
    for queue in sorted({queue for _, queue in told}):
        (mine, unread), (yours, more) = (
            told.get((side, queue), (NOTHING, 0)) for side in ("old", "new")
        )
        result = Compared(mine, yours, classes.get(queue, {}), frozenset())
        found[queue] = result, unread + more
    return found


# --- the command ----------------------------------------------------------------------------------


def side(inputs: Inputs, name: str, spark: "SparkSession") -> "DataFrame":
    """The rows of a side. Raises ``OptionError`` with the names that its options have."""
    try:
        return inputs.frame(spark, COLUMNS, **inputs.whole)
    except OptionError as error:
        raise OptionError(str(error).replace("--", f"--{name}-")) from None


def names_of(given: list[str]) -> dict[str, str]:
    """``OLD=NEW`` of addresses. Raises ``OptionError``."""
    found: dict[str, str] = {}
    for one in given:
        old, equals, new = one.partition("=")
        if not (old and equals and new):
            raise OptionError(f"--address: OLD=NEW, not {one!r}")
        if old in found or new in found.values():
            raise OptionError(f"--address: {one!r} names an address a second time")
        found[old] = new
    return found


@with_inputs
def command(
    old: Inputs,
    new: Inputs,
    address: Annotated[
        list[str] | None,
        typer.Option(help="OLD=NEW: an address that has another name on the new side; repeatable."),
    ] = None,
    any_vhost: Annotated[bool, typer.Option(help="Addresses without their virtual hosts.")] = False,
    ignore: Ignore = None,
    key: Key = "",
    unordered: Unordered = False,
    by_group: ByGroup = False,
    form: Annotated[
        str, typer.Option(help="Version in which they are compared: 0-9-1 or 1.0.")
    ] = "0-9-1",
    differences: Annotated[
        Path | None, typer.Option(help="Write all differences into this directory, as Parquet.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare an archive of an old broker with one of a new broker, as `bridge verify` compares
    queues. Status 0: equal; 1: not."""
    from rich.console import Console

    from gateway.migration_commands.verify import document, print_comparison
    from pyspark_amqp.session import session

    if form not in ("0-9-1", "1.0"):
        raise OptionError(f"--form: 0-9-1 or 1.0, not {form!r}")
    if unordered and by_group:
        raise OptionError("--by-group: not with --unordered")
    names = names_of(address or [])
    rules = Rules(tuple(ignore or ()), key, "none" if unordered else "group" if by_group else "all")
    err = Console(stderr=True, highlight=False)
    spark = session("reconcile")
    rows = side(old, "old", spark), side(new, "new", spark)
    with err.status("Reading both sides …", spinner="dots") as status:
        left = entries(rows[0], rules, form, names, any_vhost).persist()
        right = entries(rows[1], rules, form, None, any_vhost).persist()
        status.update("Comparing …")
        found = reconcile(left, right, rules).persist()
        if differences is not None:
            found.write.mode("overwrite").parquet(str(differences))
        results = compared(left, right, found)
        spark.catalog.clearCache()
    sources = {there: here for here, there in names.items()}
    told = []
    for queue, (result, unread) in results.items():
        pair = {"source": sources.get(queue, queue), "destination": queue}
        told.append({**document(pair, result, []), "unread": unread})
    equal = all(one["equal"] for one in told)
    if as_json:
        typer.echo(json.dumps({"equal": equal, "queues": told}, indent=2))
    else:
        for one in told:
            print_comparison(one)
            if one["unread"]:
                err.print(f"{one['unread']} messages have no octets here: only sizes were compared",
                          markup=False)  # fmt: skip
    if not equal:
        raise typer.Exit(1)
