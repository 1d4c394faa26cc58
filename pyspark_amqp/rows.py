"""Entries as Arrow batches with the columns that Spark asks for, and the ranges that tasks read."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from gateway.journal.canonical import BY_NAME, DDL, Rows
from gateway.journal.entries import ALL, Entry, Publisher, Trimmed
from gateway.journal.reader import JournalReader
from pyspark_amqp.options import OptionError, Options
from pyspark_amqp.places import opened, wanted_by

BATCH = ALL._replace(entries=1000, octets=8 << 20)
LEAST_TAIL = 1000
"""Positions of the store that one task reads at least, if there are so many."""
SCHEMA = DDL
PUBLISHER = Publisher._fields


class Plan(NamedTuple):
    """The settings of every task: small, and made once. ``columns``: names and types, in
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
        if isinstance(journal, JournalReader) and all(name in STRAIGHT for name in names):
            segment = next(
                (one for one in journal.segments() if one.start <= start < one.end), None
            )
            if segment is not None and end <= segment.end:
                yield from straight_batches(plan, schema, segment, start, end)
                return
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


STRAIGHT = {
    "pos": "pos", "vhost": "vhost", "address": "address", "offset": "offset",
    "ingest_ts": "stamp", "ingest_date": "stamp",
    "protocol": "protocol", "client_id": "client_id", "connection_id": "connection",
    "user_id": "user", "client_product": "product", "client_version": "product_version",
    "body": "body", "body_len": "size", "body_ref": "reference",
}  # fmt: skip
"""Columns that a segment has as they are, and their names there."""


def straight_batches(plan: Plan, schema: Any, segment: Any, start: int, end: int) -> Iterator[Any]:
    """Arrow batches of a range of a segment, whose columns are all ``STRAIGHT``: without making an
    object of any entry."""
    import pyarrow as pa
    import pyarrow.compute as pc

    options = plan.options
    wanted = wanted_by(options)
    addresses = segment.notes.addresses
    chosen = [one for one in addresses if wanted(*one)]
    if not chosen:
        return
    names = {STRAIGHT[field.name] for field in schema if options.body or field.name != "body"}
    names |= {"pos", "stamp", "vhost", "address"}
    keys = pa.array([f"{vhost}\0{address}" for vhost, address in chosen])
    for table in segment.tables(start, end, sorted(names)):
        mask = pc.and_(pc.greater_equal(table["pos"], start), pc.less(table["pos"], end))
        if len(chosen) < len(addresses):
            places = pc.binary_join_element_wise(table["vhost"], table["address"], "\0")
            mask = pc.and_(mask, pc.is_in(places, keys))
        if options.since is not None:
            mask = pc.and_(mask, pc.greater_equal(table["stamp"], options.since))
        if options.until is not None:
            mask = pc.and_(mask, pc.less(table["stamp"], options.until))
        kept = table.filter(mask)
        columns = [straight_column(kept, field) for field in schema]
        made = pa.table(columns, schema=schema)
        yield from made.to_batches(max_chunksize=BATCH.entries)


def straight_column(table: Any, field: Any) -> Any:
    """A column as Spark's schema has it; null if it was not read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    name = STRAIGHT[field.name]
    if name not in table.schema.names:
        return pa.nulls(table.num_rows, field.type)
    found = table[name]
    if name == "stamp":
        return found.cast(pa.timestamp("ms", "UTC")).cast(field.type)
    if name in PUBLISHER:
        found = pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)
    return found.cast(field.type)


def in_time(options: Options, entry: Entry) -> bool:
    return (options.since is None or entry.stamp >= options.since) and (
        options.until is None or entry.stamp < options.until
    )
