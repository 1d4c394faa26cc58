"""Entries as Arrow batches with the columns that Spark asks for, and the ranges that tasks read."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gateway.journal.canonical import BY_NAME, DDL, Rows
from gateway.journal.entries import ALL, Entry, Publisher, Trimmed
from gateway.journal.reader import JournalReader
from gateway.journal.segments import Segment
from pyspark_amqp.options import OptionError, Options
from pyspark_amqp.places import opened, wanted_by

BATCH = ALL._replace(entries=1000, octets=8 << 20)
LEAST = 1000
"""Positions that one task reads at least, if there are so many."""
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
    """Positions for each task: segments and the store, in parts if there would be few tasks."""
    journal = opened(options)
    try:
        overview = journal.overview()
    finally:
        journal.close()
    most = max(LEAST, -(-(end - start) // options.partitions))
    spans = [(max(start, one.start), min(end, one.end)) for one in overview.segments]
    spans.append((max(start, overview.sealed), end))
    found = []
    for low, high in spans:
        if low < high:
            size = -(-(high - low) // -(-(high - low) // most))
            found += [(at, min(high, at + size)) for at in range(low, high, size)]
    return found


def batches(plan: Plan, start: int, end: int) -> Iterator[Any]:
    """Arrow batches of the entries in a range. Runs in a task."""
    from pyspark.sql.pandas.types import to_arrow_schema

    options = plan.options
    schema = to_arrow_schema(plan.schema, timezone="UTC")
    journal = opened(options)
    try:
        names = [name for name in schema.names if options.body or not BY_NAME[name].body]
        if isinstance(journal, JournalReader):
            segment = next(
                (one for one in journal.segments() if one.start <= start < one.end), None
            )
            if segment is not None and end <= segment.end:
                others = [name for name in names if name not in STRAIGHT]
                made = Rows(segment.notes.journal, others, options.sample)
                yield from segment_batches(options, schema, made, segment, start, end)
                return
        rows = Rows(journal.overview().id, names, options.sample)
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
                yield batch_of(schema, columns_of(schema, rows, entries), len(entries))
            if portion.next <= start:
                return
            start = portion.next
    finally:
        journal.close()


@contextmanager
def no_collection() -> Iterator[None]:
    """While many objects are made that all live: looking for garbage among them took a fifth of
    the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def columns_of(schema: Any, rows: Rows, entries: list[Entry]) -> dict[str, Any]:
    """The columns of ``rows`` for these entries, as Arrow has them."""
    import pyarrow as pa

    with no_collection():
        found = {}
        for column, values in zip(rows.columns, rows.by_column(entries), strict=True):
            if column.type.startswith("MAP"):
                values = [list(one.items()) for one in values]
            found[column.name] = pa.array(values, schema.field(column.name).type)
        return found


def batch_of(schema: Any, columns: dict[str, Any], count: int) -> Any:
    """A record batch; columns that were not made are null."""
    import pyarrow as pa

    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)


STRAIGHT = {
    "pos": "pos", "vhost": "vhost", "address": "address", "offset": "offset",
    "ingest_ts": "stamp", "ingest_date": "stamp",
    "protocol": "protocol", "client_id": "client_id", "connection_id": "connection",
    "user_id": "user", "client_product": "product", "client_version": "product_version",
    "listener": "listener", "wire": "header",
    "body": "body", "body_len": "size", "body_ref": "reference",
}  # fmt: skip
"""Columns that a segment has as they are, and their names there."""


def segment_batches(
    options: Options, schema: Any, made: Rows, segment: Segment, start: int, end: int
) -> Iterator[Any]:
    """Arrow batches of a range of a segment. Columns that are ``STRAIGHT`` come as they are; only
    for others is an object made of each entry."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from gateway.journal import columns as own

    wanted = wanted_by(options)
    addresses = segment.notes.addresses
    chosen = [one for one in addresses if wanted(*one)]
    if not chosen:
        return
    straight = [one for one in schema if one.name in STRAIGHT]
    names = {STRAIGHT[field.name] for field in straight if options.body or field.name != "body"}
    names |= {"pos", "stamp", "vhost", "address"}
    if made.columns:
        names |= {*own.SCHEMA.names} if made.needs_bodies else {*own.LIGHT}
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
        for first in range(0, kept.num_rows, BATCH.entries):
            part = kept.slice(first, BATCH.entries)
            columns = {field.name: straight_column(part, field) for field in straight}
            if made.columns:
                with no_collection():
                    entries = own.to_entries(part, made.needs_bodies)
                columns |= columns_of(schema, made, entries)
            yield batch_of(schema, columns, part.num_rows)


def straight_column(table: Any, field: Any) -> Any:
    """A column as Spark's schema has it; null if it was not read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    name = STRAIGHT[field.name]
    if name not in table.schema.names:
        return pa.nulls(table.num_rows, field.type)
    found = table[name]
    if name == "stamp":
        found = found.cast(pa.timestamp("ms", "UTC"))
    if name in PUBLISHER:
        found = pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)
    return found.cast(field.type).combine_chunks()


def in_time(options: Options, entry: Entry) -> bool:
    return (options.since is None or entry.stamp >= options.since) and (
        options.until is None or entry.stamp < options.until
    )
