"""Entries as Arrow batches with the columns that Spark asks for, and the ranges that tasks read."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from gateway.journal.canonical import BY_NAME, DDL, Rows
from gateway.journal.entries import ALL, Entry, Trimmed
from pyspark_amqp.options import OptionError, Options
from pyspark_amqp.places import opened, wanted_by

BATCH = ALL._replace(entries=1000, octets=8 << 20)
LEAST_TAIL = 1000
"""Positions of the store that one task reads at least, if there are so many."""
SCHEMA = DDL


class Plan(NamedTuple):
    """What every task needs: small, and made once. ``columns``: names and types, in
    order."""

    options: Options
    schema: Any


def check_schema(schema: Any) -> None:
    """Raises ``OptionError`` for a column that there is none of, or that has another type."""
    for field in schema.fields:
        column = BY_NAME.get(field.name)
        if column is None:
            raise OptionError(f"schema: there is no column {field.name!r}")
        own = column.type.lower()
        if field.dataType.simpleString() != own:
            raise OptionError(f"schema: the column {field.name!r} is {own}")


def ranges(options: Options, start: int, end: int) -> list[tuple[int, int]]:
    """Positions for each task: segments whole, the store in a few parts."""
    journal = opened(options)
    try:
        overview = journal.overview()
    finally:
        journal.close()
    found = []
    for span in overview.segments:
        low, high = max(start, span.start), min(end, span.end)
        if low < high:
            found.append((low, high))
    low = max(start, overview.sealed)
    left = end - low
    if left > 0:
        size = max(LEAST_TAIL, -(-left // options.partitions))
        found += [(at, min(end, at + size)) for at in range(low, end, size)]
    return found


def batches(plan: Plan, start: int, end: int) -> Iterator[Any]:
    """Arrow batches of the entries in a range. Runs in a task."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    options = plan.options
    schema = to_arrow_schema(plan.schema, timezone="UTC")
    names = [field.name for field in plan.schema.fields]
    shown = [name for name in names if options.body or not BY_NAME[name].body]
    maps = {at for at, name in enumerate(shown) if BY_NAME[name].type.startswith("MAP")}
    journal = opened(options)
    try:
        rows = Rows(journal.overview().id, shown)
        question = BATCH._replace(wanted=wanted_by(options), bodies=rows.needs_bodies)
        while start < end:
            try:
                portion = journal.read(start, question, end)
            except Trimmed as error:
                if options.fail_on_loss:
                    raise
                start = max(error.start, start + 1)
                continue
            entries = [one for one in portion.entries if one.pos < end and in_time(options, one)]
            if entries:
                columns: dict[str, list[Any]] = {name: [] for name in shown}
                for values in rows.of(entries):
                    for at, (name, value) in enumerate(zip(shown, values, strict=True)):
                        columns[name].append(list(value.items()) if at in maps else value)
                nothing = [None] * len(entries)
                arrays = [
                    pa.array(columns.get(field.name, nothing), field.type) for field in schema
                ]
                yield pa.record_batch(arrays, schema=schema)
            if portion.next <= start:
                return
            start = portion.next
    finally:
        journal.close()


def in_time(options: Options, entry: Entry) -> bool:
    return (options.since is None or entry.stamp >= options.since) and (
        options.until is None or entry.stamp < options.until
    )
