"""The rows of sealed segments as Arrow batches: columns of a segment as they are, and others made
for all rows of a portion at once. This module needs numpy and pyarrow."""

from binascii import crc32
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.journal import columns as own
from gateway.journal.canonical import BUCKETS, BY_NAME
from gateway.journal.entries import Publisher
from gateway.journal.segments import Segment
from pyspark_amqp.arrays import batch_of
from pyspark_amqp.crossed_columns import NAMES as CROSSED
from pyspark_amqp.crossed_columns import CrossedColumns
from pyspark_amqp.header_groups import HeaderGroups
from pyspark_amqp.octets import binaries, content, in_order, one_chunk
from pyspark_amqp.options import Options
from pyspark_amqp.places import wanted_by
from pyspark_amqp.property_columns import PropertyColumns, is_learnable

MOST_ENTRIES, MOST_OCTETS = 1000, 8 << 20
"""Of a portion with bodies that stand in files."""
PUBLISHER = Publisher._fields
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
    return pa.repeat(pa.scalar(journal), table.num_rows)


def _keys(table: Any, journal: str) -> Any:
    return pc.binary_join_element_wise(journal, table["pos"].cast(pa.string()), "/")


def _buckets(table: Any, journal: str) -> Any:
    found = table["address"].combine_chunks().dictionary_encode()
    of_each = [crc32(one.encode()) % BUCKETS for one in found.dictionary.to_pylist()]
    return pa.array(of_each, pa.int32()).take(found.indices)


def _digests(table: Any, journal: str) -> Any:
    bodies = one_chunk(table["body"])
    starts, ends, octets = content(bodies)
    view = memoryview(octets)
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    found = b"".join([sha256(view[start:end]).digest() for start, end in spans])
    digests = binaries(np.frombuffer(found, np.uint8).reshape(-1, 32))
    return digests if bodies.null_count == 0 else pc.if_else(bodies.is_valid(), digests, None)


def _hops(table: Any, journal: str) -> Any:
    """As ``canonical`` makes them, for all rows at once."""
    stamp = one_chunk(table["stamp"])
    entered, written = (
        one_chunk(table[name]) if name in table.schema.names else pa.nulls(len(stamp), pa.int64())
        for name in ("entered", "written")
    )
    rows, parts = [], []
    for hop, given, enter, leave in (
        ("upstream", entered, entered, stamp), ("store", written, stamp, written),
    ):  # fmt: skip
        known = given.is_valid()
        rows.append(pc.indices_nonzero(known).to_numpy())
        times = [pc.multiply(one.filter(known).cast(pa.int64()), 1000) for one in (enter, leave)]
        names = pa.repeat(hop, len(rows[-1]))
        parts.append(pa.StructArray.from_arrays([names, *times], ["hop", "enter_us", "leave_us"]))
    each = pc.add(entered.is_valid().cast(pa.int32()), written.is_valid().cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(each)])
    return pa.ListArray.from_arrays(offsets, in_order(rows, parts))


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
    alike = HeaderGroups()
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
        kept = table if pc.all(mask).as_py() else table.filter(mask)
        # A group of rows is as many entries as a portion should have: what is done for all of them
        # at once costs less the more they are.
        parts = [kept] if kept.num_rows else []
        for part in with_large_bodies(kept, segment.path.parent) if options.large_bodies else parts:
            columns = {field.name: straight_column(part, field) for field in straight}
            for field in computed:
                values = MADE[field.name][0](part, journal).cast(field.type)
                if isinstance(values, pa.ChunkedArray):
                    values = one_chunk(values)
                columns[field.name] = values
            if others:
                groups, rest = alike.of(part)
            if learned.names:
                columns |= learned.of(part, groups, rest)
            if crossed.names:
                columns |= crossed.of(part, groups)
            yield batch_of(schema, columns, part.num_rows)


def with_large_bodies(table: Any, directory: Path) -> Iterator[Any]:
    """These rows in parts, with the bodies that stand in files of the directory of segments. A body
    whose file retention has removed stays away."""
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
        full = end - begin == MOST_ENTRIES or octets > MOST_OCTETS
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


def straight_column(table: Any, field: Any) -> Any:
    """A column as Spark's schema has it; null if it was not read."""
    name = STRAIGHT[field.name]
    if name not in table.schema.names:
        return pa.nulls(table.num_rows, field.type)
    found = table[name]
    if name == "stamp":
        found = found.cast(pa.timestamp("ms", "UTC"))
    if name in PUBLISHER:
        empty = pc.equal(found, "")
        if pc.any(empty).as_py():
            found = pc.if_else(empty, pa.scalar(None, pa.string()), found)
    return one_chunk(found.cast(field.type))
