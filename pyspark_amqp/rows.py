"""Entries as Arrow batches with the columns that Spark asks for, and the ranges that tasks read."""

from binascii import crc32
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from gateway.journal.canonical import BUCKETS, BY_NAME, DDL, Rows
from gateway.journal.entries import ALL, Entry, Publisher, Trimmed
from gateway.journal.reader import JournalReader
from gateway.journal.segments import Segment
from pyspark_amqp.arrays import columns_of
from pyspark_amqp.crossed_columns import NAMES as CROSSED
from pyspark_amqp.crossed_columns import CrossedColumns
from pyspark_amqp.options import OptionError, Options
from pyspark_amqp.places import opened, wanted_by
from pyspark_amqp.property_columns import PropertyColumns, is_learnable

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
                segment.open()
                yield from segment_batches(options, schema, names, segment, start, end)
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
            if options.large_bodies and isinstance(journal, JournalReader):
                entries = [with_large_body(one, journal.directory) for one in entries]
            if entries:
                yield batch_of(schema, columns_of(schema, rows, entries), len(entries))
            if portion.next <= start:
                return
            start = portion.next
    finally:
        journal.close()


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


def _journal_ids(table: Any, journal: str) -> Any:
    import pyarrow as pa

    return pa.repeat(pa.scalar(journal), table.num_rows)


def _keys(table: Any, journal: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(journal, table["pos"].cast(pa.string()), "/")


def _buckets(table: Any, journal: str) -> Any:
    import pyarrow as pa

    found = table["address"].combine_chunks().dictionary_encode()
    of_each = [crc32(one.encode()) % BUCKETS for one in found.dictionary.to_pylist()]
    return pa.array(of_each, pa.int32()).take(found.indices)


def _digests(table: Any, journal: str) -> Any:
    import pyarrow as pa

    bodies = table["body"].to_pylist()
    return pa.array([None if one is None else sha256(one).digest() for one in bodies], pa.binary())


def _hops(table: Any, journal: str) -> Any:
    """As ``canonical`` makes them, for all rows at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    stamp = table["stamp"].combine_chunks()
    entered, written = (
        table[name].combine_chunks() if name in table.schema.names else pa.nulls(len(stamp))
        for name in ("entered", "written")
    )
    numbers = pa.array(range(len(stamp)), pa.int64())
    rows, parts = [], []
    for hop, given, enter, leave in (
        ("upstream", entered, entered, stamp), ("store", written, stamp, written),
    ):  # fmt: skip
        known = given.is_valid()
        rows.append(numbers.filter(known))
        times = [pc.multiply(one.filter(known).cast(pa.int64()), 1000) for one in (enter, leave)]
        names = pa.repeat(hop, len(rows[-1]))
        parts.append(pa.StructArray.from_arrays([names, *times], ["hop", "enter_us", "leave_us"]))
    each = pc.add(entered.is_valid().cast(pa.int32()), written.is_valid().cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(each)])
    # Sorting is stable.
    items = pa.concat_arrays(parts).take(pc.sort_indices(pa.concat_arrays(rows)))
    return pa.ListArray.from_arrays(offsets, items)


MADE: dict[str, tuple[Callable[[Any, str], Any], tuple[str, ...]]] = {
    "journal_id": (_journal_ids, ()), "dedup_key": (_keys, ()), "address_bucket": (_buckets, ()),
    "body_sha256": (_digests, ("body",)), "hops": (_hops, ("entered", "written")),
}  # fmt: skip
"""Columns that are made without an object for each entry, and the columns that they need."""


def segment_batches(
    options: Options, schema: Any, wished: list[str], segment: Segment, start: int, end: int
) -> Iterator[Any]:
    """Arrow batches of a range of a segment, with the columns ``wished``. Those that are
    ``STRAIGHT`` come as they are; an object of each entry is made only for those that need its
    body, or its conversion."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from gateway.journal import columns as own

    wanted = wanted_by(options)
    addresses = segment.notes.addresses
    chosen = [one for one in addresses if wanted(*one)]
    if not chosen:
        return
    straight = [one for one in schema if one.name in STRAIGHT]
    computed = [
        one for one in schema if one.name in MADE and (options.body or not BY_NAME[one.name].body)
    ]
    journal = segment.notes.journal
    others = [name for name in wished if name not in STRAIGHT and name not in MADE]
    learned = PropertyColumns(journal, [one for one in others if is_learnable(one)], schema)
    crossed = CrossedColumns(
        journal, [one for one in others if one in CROSSED], schema, options.sample
    )
    names = {STRAIGHT[field.name] for field in straight if options.body or field.name != "body"}
    names |= {"pos", "stamp", "vhost", "address"}
    names |= {name for field in computed for name in MADE[field.name][1]}
    if others:
        names |= {*own.CONTENT, "reference"} | ({"body"} if crossed.names else set())
    if options.large_bodies and "body" in names:
        names |= {"reference", "size"}
    for table in segment.tables(start, end, sorted(names)):
        mask = pc.and_(pc.greater_equal(table["pos"], start), pc.less(table["pos"], end))
        if len(chosen) < len(addresses):
            mask = pc.and_(mask, own.at_addresses(table, chosen))
        if options.since is not None:
            mask = pc.and_(mask, pc.greater_equal(table["stamp"], options.since))
        if options.until is not None:
            mask = pc.and_(mask, pc.less(table["stamp"], options.until))
        kept = table.filter(mask)
        if options.large_bodies:
            parts = with_large_bodies(kept, segment.path.parent)
        else:
            parts = (kept.slice(at, BATCH.entries) for at in range(0, kept.num_rows, BATCH.entries))
        for part in parts:
            columns = {field.name: straight_column(part, field) for field in straight}
            for field in computed:
                values = MADE[field.name][0](part, journal).cast(field.type)
                if isinstance(values, pa.ChunkedArray):
                    values = values.combine_chunks()
                columns[field.name] = values
            if learned.names:
                columns |= learned.of(part)
            if crossed.names:
                columns |= crossed.of(part)
            yield batch_of(schema, columns, part.num_rows)


def with_large_bodies(table: Any, directory: Path) -> Iterator[Any]:
    """These rows in parts, with the bodies that stand in files of the directory of segments. A body
    whose file retention has removed stays away."""
    import pyarrow as pa

    if "body" not in table.schema.names:
        references: list[str | None] = [None] * table.num_rows
    else:
        references = table["reference"].to_pylist()
    bodies: dict[int, bytes] = {}
    begin = octets = 0
    for end, reference in enumerate(references, 1):
        if reference is not None:
            with suppress(FileNotFoundError):
                bodies[end - 1] = (directory / reference).read_bytes()
                octets += len(bodies[end - 1])
        full = end - begin == BATCH.entries or octets > BATCH.octets
        if not full and end < table.num_rows:
            continue
        part = table.slice(begin, end - begin)
        if bodies:
            values = part["body"].to_pylist()
            names = part["reference"].to_pylist()
            for at, body in bodies.items():
                values[at - begin], names[at - begin] = body, None
            for name, found in (("body", values), ("reference", names)):
                at = part.schema.get_field_index(name)
                field = part.schema.field(at)
                part = part.set_column(at, field, pa.array(found, field.type))
        yield part
        begin, octets, bodies = end, 0, {}


def with_large_body(entry: Entry, directory: Path) -> Entry:
    """The same for one entry."""
    if not entry.reference:
        return entry
    try:
        entry.message.body = (directory / entry.reference).read_bytes()
    except FileNotFoundError:
        return entry
    return entry._replace(reference="")


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
