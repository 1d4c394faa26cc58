"""The data source ``amqp``: batch and streaming readers over a journal, and the way to its
sinks."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from gateway.journal.entries import JournalError
from gateway.journal.reader import Overview
from pyspark_amqp.options import EARLIEST, LATEST, Options, read_options
from pyspark_amqp.places import done, kept_start, opened, wanted_by
from pyspark_amqp.rows import BATCH, SCHEMA, Plan, batches, check_schema, ranges


class Range(InputPartition):
    """Positions from ``start`` to ``end`` (not included)."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__((start, end))
        self.start = start
        self.end = end


class AmqpDataSource(DataSource):
    """``format("amqp")`` of ``read``, ``readStream``, ``write`` and ``writeStream``."""

    @classmethod
    def name(cls) -> str:
        return "amqp"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        options = read_options(self.options)
        check_schema(schema)
        plan = Plan(options, schema)
        return JournalBatchReader(plan)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        options = read_options(self.options)
        check_schema(schema)
        return JournalStreamReader(Plan(options, schema))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return sink_of(self.options).writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return sink_of(self.options).stream_writer(self.options, schema, overwrite)


def sink_of(options: Mapping[str, str]) -> Any:
    """The module of the sink that these options mean: a Delta table with ``table``, else a gateway.
    It has the functions ``writer`` and ``stream_writer``, with options, schema and whether the mode
    is overwrite."""
    lower = {name.lower() for name in options}
    return import_module("pyspark_amqp.table_sink" if "table" in lower else "pyspark_amqp.sink")


def overview_of(options: Options) -> Overview:
    journal = opened(options)
    try:
        return journal.overview()
    finally:
        journal.close()


class JournalBatchReader(DataSourceReader):
    """Reads the entries that are there when the query is planned. It takes no filters from Spark:
    4.3 gives the ranges of a filtered query to a later one of the same ``DataFrame`` that has no
    filter."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        options = self.plan.options
        overview = overview_of(options)
        start = overview.start if options.start is None else options.start
        if start < overview.start:
            if options.fail_on_loss:
                raise JournalError(
                    f"startPos: the journal begins at position {overview.start}, not {start}"
                )
            start = overview.start
        end = overview.end if options.end is None else min(options.end, overview.end)
        found: list[InputPartition] = [Range(*one) for one in ranges(options, start, end)]
        return found or [Range(end, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Range)
        return batches(self.plan, partition.start, partition.end)


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are ``{"epoch": journal, "pos": next position}``. The journal never changes below its
    end, so a range that is read again has the same rows."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._target: int | None = None

    def _offset(self, overview: Overview, pos: int) -> dict[str, Any]:
        return {"epoch": overview.id, "pos": pos}

    def initialOffset(self) -> dict[str, Any]:
        """The same each time that it is asked, if the consumer has a name."""
        options = self.plan.options
        if options.starting not in (EARLIEST, LATEST):
            found: dict[str, Any] = json.loads(options.starting)
            return found
        overview = overview_of(options)
        pos = overview.end if options.starting == LATEST else overview.start
        if options.start is not None and options.starting == EARLIEST:
            pos = max(pos, options.start)
        offset = self._offset(overview, pos)
        return kept_start(options, offset) if options.consumer else offset

    def _checked(self, start: dict[str, Any]) -> Overview:
        """Raises ``JournalError`` if the journal is another one, or has lost positions."""
        options = self.plan.options
        overview = overview_of(options)
        who = f"consumer {options.consumer or '(unnamed)'}"
        if start["epoch"] not in ("", overview.id):
            raise JournalError(
                f"{who}: wants position {start['pos']} of journal {start['epoch']}, and this is"
                f" journal {overview.id or '(empty)'}, positions {overview.start} to {overview.end}"
            )
        lost = start["pos"] < overview.start and options.fail_on_loss
        if start["pos"] > overview.end or lost:
            raise JournalError(
                f"{who}: wants position {start['pos']}, and the journal has positions"
                f" {overview.start} to {overview.end}"
            )
        return overview

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        overview = self._checked(start)
        end = overview.end if self._target is None else min(self._target, overview.end)
        if self.plan.options.end is not None:
            end = min(end, self.plan.options.end)
        begin = max(start["pos"], overview.start)
        if end <= begin:
            return dict(start)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            end = self._within(begin, end, limit.max_bytes)
        return self._offset(overview, end)

    def _within(self, start: int, end: int, octets: int) -> int:
        """The position up to which entries have so many octets; at least one entry."""
        options = self.plan.options
        question = BATCH._replace(wanted=wanted_by(options), bodies=False)
        journal = opened(options)
        first = True
        try:
            while start < end:
                portion = journal.read(start, question, end)
                for entry in portion.entries:
                    octets -= entry.size
                    if octets < 0 and not first:
                        return entry.pos
                    first = False
                if portion.next <= start:
                    break
                start = portion.next
        finally:
            journal.close()
        return end

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self.plan.options
        if options.most_rows is not None:
            return ReadMaxRows(options.most_rows)
        if options.most_octets is not None:
            return ReadMaxBytes(options.most_octets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = overview_of(self.plan.options).end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        overview = overview_of(self.plan.options)
        return self._offset(overview, overview.end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._checked(start)
        found = ranges(self.plan.options, start["pos"], end["pos"])
        return [Range(*one) for one in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Range)
        return batches(self.plan, partition.start, partition.end)

    def commit(self, end: dict[str, Any]) -> None:
        """Say how far the consumer is. That is told to people, so it fails no query."""
        if self.plan.options.consumer:
            with suppress(JournalError, OSError):
                done(self.plan.options, end)

    def stop(self) -> None:
        """Journals are closed after each look."""
