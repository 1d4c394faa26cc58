"""The files that come out: for each bundle of an archive one of messages, and one of errors if
there are any. This module needs pyarrow.

A file is written under another name and renamed, and depends on nothing but its bundle: a task that
is done twice leaves the same file.
"""

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from gateway.archive.batches import CANONICAL, ERRORS, PLACES, schema_of, transcode
from gateway.archive.reading import ArchiveError, Bundle, raw_batches
from gateway.archive.recordings import Counts

GROUP_ROWS, GROUP_OCTETS = 8_192, 16 << 20
"""Rows, and octets of them, in one row group."""
ABOUT = ("protocol", "connection_id", "address", "vhost", "journal_id", "pos")
"""Columns of errors beside their own, as far as they are known."""
DONE = "_SUCCESS"
OURS = re.compile(rf"\.?part-\d+\.parquet(\..*)?|{DONE}")


class Plan(NamedTuple):
    """The work of each task. ``output`` and ``errors`` are directories that all tasks can reach."""

    output: str
    errors: str
    names: tuple[str, ...] = CANONICAL
    as_version: str | None = None


class Summary(NamedTuple):
    """``messages`` that have begun and stretches that are ``unreadable`` are as many as ``rows``
    and ``errors``."""

    messages: int = 0
    unreadable: int = 0
    rows: int = 0
    errors: int = 0
    octets: int = 0
    """Of the archive."""

    def plus(self, other: "Summary") -> "Summary":
        return Summary(*(one + more for one, more in zip(self, other, strict=True)))

    @property
    def adds_up(self) -> bool:
        return self.messages + self.unreadable == self.rows + self.errors


class Output:
    """One file, which exists when it is complete, and only if it has rows."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self._schema = schema
        self._writer: Any = None
        self._batches: list[Any] = []
        self._rows = self._octets = 0
        self.rows = 0

    def add(self, batch: Any) -> None:
        """Raises ``OSError``."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._octets += batch.nbytes
        self.rows += batch.num_rows
        if self._rows >= GROUP_ROWS or self._octets >= GROUP_OCTETS:
            self._flush()

    def _flush(self) -> None:
        if not self._batches:
            return
        if self._writer is None:
            self._writer = parquet.ParquetWriter(
                self._part, self._schema, compression="zstd", compression_level=1
            )
        table = pa.Table.from_batches(self._batches, self._schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._batches, self._rows, self._octets = [], 0, 0

    def __enter__(self) -> "Output":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            if kind is None:
                self._flush()
        finally:
            if self._writer is not None:
                self._writer.close()
        if kind is None and self._writer is not None:
            os.replace(self._part, self._path)
        else:
            self._part.unlink(missing_ok=True)


def transcode_bundle(
    bundle: Bundle, plan: Plan, progress: Callable[[int], None] = lambda done: None
) -> Summary:
    """Write the files of a bundle. Raises ``OSError``."""
    schema = schema_of(plan.names)
    kept = [name for name in schema.names if name not in ERRORS]
    told = [name for name in (*PLACES, *ERRORS, *ABOUT) if name in schema.names]
    name = f"part-{bundle.number:06d}.parquet"
    counts = Counts()
    with (
        Output(Path(plan.output) / name, pa.schema([schema.field(one) for one in kept])) as good,
        Output(Path(plan.errors) / name, pa.schema([schema.field(one) for one in told])) as bad,
    ):
        for part in bundle.parts:
            for raw in raw_batches(part, counts, plan.as_version, progress):
                made = transcode(raw, plan.names)
                code = made.column("error_code")
                if code.null_count == made.num_rows:
                    good.add(made.select(kept))
                    continue
                fine = pc.is_null(code)
                rows = made.filter(fine)
                if rows.num_rows:
                    good.add(rows.select(kept))
                bad.add(made.filter(pc.invert(fine)).select(told))
    return Summary(counts.messages, counts.unreadable, good.rows, bad.rows, bundle.octets)


def prepare(plan: Plan, overwrite: bool) -> None:
    """Make the directories. Raises ``ArchiveError`` if there is something in them, unless it is to
    be overwritten and is ours."""
    for place in (plan.output, plan.errors):
        path = Path(place)
        try:
            path.mkdir(parents=True, exist_ok=True)
            files = [one for one in path.iterdir()]
            ours = [one for one in files if OURS.fullmatch(one.name)]
            strange = [one for one in files if one not in ours and str(one) != plan.errors]
            if strange or (ours and not overwrite):
                text = "holds other files" if strange else "is not empty (--overwrite)"
                raise ArchiveError(f"{place} {text}")
            for one in ours:
                one.unlink()
        except OSError as error:
            raise ArchiveError(f"{place}: {error.strerror}") from None


def finish(plan: Plan, summaries: Iterable[Summary]) -> Summary:
    """All bundles are there. Raises ``ArchiveError`` if the counts do not add up."""
    total = Summary()
    for one in summaries:
        total = total.plus(Summary(*one))
    if not total.adds_up:
        raise ArchiveError(f"the counts do not add up: {total}")
    for place in (plan.output, plan.errors):
        for half in Path(place).glob(".part-*"):  # of tasks that died
            half.unlink(missing_ok=True)
    Path(plan.output, DONE).write_text(json.dumps(total._asdict()) + "\n")
    return total
