"""Rows of a journal into a Delta table, each exactly once: the files of one task, and the commit.

The table's transaction entry ``JOURNAL/CONSUMER`` holds the greatest position that has landed. A
task leaves out rows up to it and says which one it saw; the commit adds the files and the new
position at once, and only if the position is still the one that all tasks saw. This module knows
no Spark.
"""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction

from gateway.errors import GatewayError

PARTITIONS = ("ingest_date", "address_bucket")
NEEDED = ("journal_id", "pos", *PARTITIONS)
"""Columns without which rows cannot land."""
ORDER = (*PARTITIONS, "vhost", "address", "offset", "pos")
"""Of rows in a row group."""
MEASURED = ("pos", "offset", "address")
"""Columns whose least and greatest values the table keeps for each file."""
REPEATED = frozenset(
    {
        "journal_id", "vhost", "address", "protocol", "client_id", "connection_id", "user_id",
        "client_product", "client_version", "listener", "message_id_type", "correlation_id_type",
        "reply_to", "subject", "content_type", "content_encoding", "group_id", "body_kind",
        *(f"{name}.key_value.key" for name in ("properties", "annotations")),
    }
)  # fmt: skip
"""Columns with a dictionary in each file: for others, making one is time lost."""
UNMEASURED = frozenset({"body", "body_sha256", "amqp10", "wire"})
"""Columns without least and greatest values."""
GROUP_OCTETS = 64 << 20
"""Of rows that a task keeps in memory before it writes them."""
MOST_OPEN = 48
"""Files that a task has open: three days of buckets. Rows for others close the oldest."""
NOTHING = -1
"""The position of a consumer that has landed nothing."""


class LandingError(GatewayError):
    """Rows cannot land in this table."""


class DataFile(NamedTuple):
    """A file that is written and not yet part of the table. ``path`` is relative to it."""

    path: str
    size: int
    partition: dict[str, str]
    stats: str


class Attempt(NamedTuple):
    """What one task has written. ``last``: the position of the consumer when it began; ``end``: the
    greatest position among its rows. A task without rows has no ``journal``."""

    journal: str = ""
    last: int = NOTHING
    end: int = NOTHING
    rows: int = 0
    files: tuple[DataFile, ...] = ()


def check_columns(schema: Any) -> None:
    """Raises ``LandingError`` if the rows lack a column that landing needs."""
    for name in NEEDED:
        if name not in schema.names:
            raise LandingError(f"the rows have no column {name!r}, which landing needs")


def make_table(path: Path, schema: Any) -> None:
    """The table, empty, unless it is there; it gets columns that it lacks. Raises ``LandingError``
    if it has a column of another type."""
    check_columns(schema)
    wanted = Schema.from_arrow(schema)
    try:
        table = DeltaTable.create(path, wanted, mode="ignore", partition_by=list(PARTITIONS))
    except CommitFailedError:
        table = DeltaTable(path)  # Another task was first.
    found = {field.name: field.type for field in table.schema().fields}
    for field in wanted.fields:
        kind = found.get(field.name, field.type)
        if kind != field.type:
            name = getattr(kind, "type", kind)
            raise LandingError(f"{path}: the column {field.name!r} of the table is {name}")
    partitions = tuple(table.metadata().partition_columns)
    if partitions != PARTITIONS:
        raise LandingError(
            f"{path}: the table is partitioned by {', '.join(partitions) or 'nothing'},"
            f" not by {', '.join(PARTITIONS)}"
        )
    new = [field for field in wanted.fields if field.name not in found]
    if new:
        try:
            table.alter.add_columns(new)
        except CommitFailedError:
            make_table(path, schema)  # Another query was first.


def name_of(journal: str, consumer: str) -> str:
    """Of the transaction entry."""
    return f"{journal}/{consumer}"


def position(table: DeltaTable, journal: str, consumer: str) -> int:
    """The greatest position that has landed, or ``NOTHING``."""
    found = table.transaction_version(name_of(journal, consumer))
    return NOTHING if found is None else found


def landed_position(path: Path, journal: str, consumer: str) -> int:
    """The same, also of a table that there is none of."""
    try:
        return position(DeltaTable(path), journal, consumer)
    except TableNotFoundError:
        return NOTHING


class Files:
    """The files of one task, one for each partition. Rows of a row group are in the order of
    addresses and offsets."""

    def __init__(self, path: Path, schema: Any) -> None:
        self.path = path
        self.schema = schema
        self.order = [(name, "ascending") for name in ORDER if name in schema.names]
        self._inner = pa.schema([one for one in schema if one.name not in PARTITIONS])
        self._waiting: list[Any] = []
        self._octets = 0
        self._open: dict[tuple[Any, ...], OpenFile] = {}
        self._done: list[DataFile] = []

    def add(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._octets += batch.nbytes
        if self._octets >= GROUP_OCTETS:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting, self.schema)
        self._waiting, self._octets = [], 0
        keys = table.select([name for name, _ in self.order])
        table = table.take(pc.sort_indices(keys, sort_keys=self.order))
        days, buckets = (table[name].to_pylist() for name in PARTITIONS)
        start = 0
        for end in range(1, len(days) + 1):
            key = (days[start], buckets[start])
            if end == len(days) or (days[end], buckets[end]) != key:
                rows = table.slice(start, end - start).select(self._inner.names)
                self._file(key).write(rows)
                start = end

    def _file(self, key: tuple[Any, ...]) -> "OpenFile":
        found = self._open.get(key)
        if found is None:
            if len(self._open) >= MOST_OPEN:
                self._done.append(self._open.pop(next(iter(self._open))).finish())
            partition = dict(zip(PARTITIONS, map(str, key), strict=True))
            found = self._open[key] = OpenFile(self.path, self._inner, partition)
        return found

    def finish(self) -> tuple[DataFile, ...]:
        self._flush()
        while self._open:
            self._done.append(self._open.popitem()[1].finish())
        return tuple(self._done)

    def give_up(self) -> None:
        """Leave no file behind."""
        for one in self._open.values():
            one.give_up()
        remove(self.path, self._done)


class OpenFile:
    """A file that is being written. Its name is its own."""

    def __init__(self, table: Path, schema: Any, partition: dict[str, str]) -> None:
        self.partition = partition
        folder = "/".join(f"{name}={value}" for name, value in partition.items())
        self.name = f"{folder}/part-{uuid4()}.zstd.parquet"
        self._path = table / self.name
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = parquet.ParquetWriter(
            self._path, schema, compression="zstd", compression_level=1,
            use_dictionary=sorted(REPEATED),
            write_statistics=[one.name for one in schema if one.name not in UNMEASURED],
        )  # fmt: skip
        self._rows = 0
        self._bounds: dict[str, tuple[Any, Any]] = {}

    def write(self, rows: Any) -> None:
        self._writer.write_table(rows)
        self._rows += rows.num_rows
        for name in MEASURED:
            if name in rows.schema.names:
                found = pc.min_max(rows[name]).as_py()
                low, high = self._bounds.get(name, (found["min"], found["max"]))
                if None not in (found["min"], low):
                    self._bounds[name] = (min(low, found["min"]), max(high, found["max"]))

    def finish(self) -> DataFile:
        self._writer.close()
        stats = {
            "numRecords": self._rows,
            "minValues": {name: low for name, (low, _) in self._bounds.items()},
            "maxValues": {name: high for name, (_, high) in self._bounds.items()},
        }
        size = self._path.stat().st_size
        return DataFile(self.name, size, self.partition, json.dumps(stats))

    def give_up(self) -> None:
        with suppress(Exception):
            self._writer.close()
        self._path.unlink(missing_ok=True)


def remove(path: Path, files: Iterable[DataFile]) -> None:
    for one in files:
        (path / one.path).unlink(missing_ok=True)


def write(path: Path, consumer: str, schema: Any, batches: Iterator[Any]) -> Attempt:
    """The rows of one task into files that the table does not have yet, but for those that have
    landed before. Raises ``LandingError``, and leaves no file then."""
    attempt = Attempt()
    files = Files(path, schema)
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if not batch.schema.equals(schema):
                batch = batch.cast(schema)
            attempt = checked(path, consumer, batch, attempt)
            bounds = pc.min_max(batch["pos"]).as_py()
            fresh = batch
            if bounds["min"] <= attempt.last:
                fresh = batch.filter(pc.greater(batch["pos"], attempt.last))
            if fresh.num_rows:
                files.add(fresh)
                end = max(attempt.end, bounds["max"])
                attempt = attempt._replace(end=end, rows=attempt.rows + fresh.num_rows)
        return attempt._replace(files=files.finish())
    except BaseException:
        files.give_up()
        raise


def checked(path: Path, consumer: str, batch: Any, attempt: Attempt) -> Attempt:
    """The attempt, with the journal of this batch and the position of the consumer."""
    for name in NEEDED:
        if batch[name].null_count:
            raise LandingError(f"a row has no {name}, which landing needs")
    journals = pc.unique(batch["journal_id"]).to_pylist()
    journal = attempt.journal or journals[0]
    if journals != [journal]:
        raise LandingError(f"rows of two journals in one batch: {', '.join({journal, *journals})}")
    if attempt.journal:
        return attempt
    return attempt._replace(journal=journal, last=landed_position(path, journal, consumer))


def commit(path: Path, consumer: str, attempts: list[Attempt]) -> int:
    """Adds the files of a batch and its position, at once. Returns how many rows have landed.
    Raises ``LandingError`` if another query has landed rows of this consumer meanwhile; then this
    batch has not, and its files are gone."""
    found = [one for one in attempts if one.journal]
    if not found:
        return 0
    files = [file for one in found for file in one.files]
    journal = found[0].journal
    table = DeltaTable(path)
    stored = position(table, journal, consumer)
    if any(one.journal != journal for one in found):
        discard(path, files)
        raise LandingError("rows of two journals in one batch")
    if any(one.last != stored for one in found):
        if files and not discard(path, files):
            return 0  # This very batch was committed before.
        raise raced(path, consumer, min(one.last for one in found), stored)
    if not files:
        return 0
    now = int(time.time() * 1000)
    rows = sum(one.rows for one in found)
    entry = Transaction(name_of(journal, consumer), max(one.end for one in found), now)
    properties = CommitProperties(
        app_transactions=[entry],
        custom_metadata={"consumer": name_of(journal, consumer), "rows": str(rows)},
    )
    actions = [AddAction(one.path, one.size, one.partition, now, True, one.stats) for one in files]
    try:
        table.create_write_transaction(
            actions, "append", table.schema(), list(PARTITIONS), commit_properties=properties
        )
    except CommitFailedError as error:
        reached = landed_position(path, journal, consumer)
        if reached == stored:
            raise
        if not discard(path, files):
            return rows  # The answer was lost, not the commit.
        raise raced(path, consumer, stored, reached) from error
    return rows


def raced(path: Path, consumer: str, before: int, now: int) -> LandingError:
    return LandingError(
        f"consumer {consumer}: another query lands it into {path}: the position was {before} when"
        f" this batch began, and is {now} now. Let one query run for each consumer"
    )


def discard(path: Path, files: list[DataFile]) -> int:
    """Removes those of a batch's files that are not part of the table, and returns how many. Files
    of a batch that was committed, although its query has failed after that, stay."""
    live = live_files(DeltaTable(path))
    gone = [one for one in files if one.path not in live]
    remove(path, gone)
    return len(gone)


def live_files(table: DeltaTable) -> set[str]:
    """Paths, relative to the table."""
    found = table.get_add_actions(flatten=True)
    return set(pa.table(found)["path"].to_pylist())
