"""Entries as Arrow batches with the columns that Spark asks for, and the ranges that tasks read."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from gateway.journal.canonical import BY_NAME, DDL, Rows
from gateway.journal.entries import ALL, Entry, Trimmed
from gateway.journal.reader import JournalReader
from pyspark_amqp.arrays import batch_of, columns_of
from pyspark_amqp.options import OptionError, Options
from pyspark_amqp.places import Journal, opened, wanted_by

BATCH = ALL._replace(entries=1000, octets=8 << 20)
LEAST = 1000
"""Positions that one task reads at least, if there are so many."""
SCHEMA = DDL


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

    from pyspark_amqp.segment_rows import segment_batches

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
            parts: Iterable[list[Entry]] = [entries] if entries else []
            if options.large_bodies and rows.needs_bodies:
                parts = with_large_bodies(journal, entries)
            for part in parts:
                yield batch_of(schema, columns_of(schema, rows, part), len(part))
            if portion.next <= start:
                return
            start = portion.next
    finally:
        journal.close()


def with_large_bodies(journal: Journal, entries: list[Entry]) -> Iterator[list[Entry]]:
    """These entries in parts, with the bodies that stand in files. A body that retention has
    removed stays away."""
    part: list[Entry] = []
    octets = 0
    for entry in entries:
        if entry.reference:
            with suppress(FileNotFoundError):
                entry.message.body = body = journal.body(entry)[:]
                octets += len(body)
                entry = entry._replace(reference="")
        part.append(entry)
        if octets > BATCH.octets:
            yield part
            part, octets = [], 0
    if part:
        yield part


def in_time(options: Options, entry: Entry) -> bool:
    return (options.since is None or entry.stamp >= options.since) and (
        options.until is None or entry.stamp < options.until
    )
