"""Sealed segments: Parquet files, each with the entries of a range of positions.

The name of a file has its range, so the directory is the catalogue: a file is written under another
name, synced and renamed, and never changed. Bodies of more than 8 MiB are in files beside them.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from gateway.bodies import LargeBody
from gateway.journal.entries import MOST_INLINE, Entry, JournalError, Portion, Question, Span
from gateway.store.large import linked

NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")
BODIES = "bodies"
GROUP_ENTRIES, GROUP_OCTETS = 4096, 16 << 20
"""Entries, and octets of them, in one row group."""


def arrow_is_here() -> bool:
    """Whether segments can be written and read."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return False
    return True


class Notes(NamedTuple):
    """The description that a segment has of itself. Times are ms since 1970."""

    journal: str
    entries: int
    oldest: int
    newest: int
    addresses: frozenset[tuple[str, str]]


class Segment:
    """A file of the positions from ``start`` to ``end`` (not included)."""

    def __init__(self, path: Path) -> None:
        found = NAME.fullmatch(path.name)
        if found is None:
            raise JournalError(f"{path} is not the name of a segment")
        self.path = path
        self.start, self.end = int(found[1]), int(found[2])

    @cached_property
    def _file(self) -> Any:
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise JournalError("reading segments needs pyarrow (the extra `journal`)") from None
        try:
            return parquet.ParquetFile(self.path, memory_map=True)
        except FileNotFoundError:
            raise
        except (OSError, pyarrow.ArrowException) as error:
            raise JournalError(f"{self.path}: {error}") from error

    @cached_property
    def notes(self) -> Notes:
        """Raises ``JournalError``, or ``FileNotFoundError`` for one that retention has removed."""
        from gateway.journal.columns import VERSION

        given = {key.decode(): value for key, value in (self._file.metadata.metadata or {}).items()}
        if given.get("version") != VERSION.encode():
            raise JournalError(f"{self.path} is not a segment of a journal of this version")
        addresses = json.loads(given["addresses"])
        return Notes(
            given["journal"].decode(),
            self._file.metadata.num_rows,
            int(given["oldest"]),
            int(given["newest"]),
            frozenset((vhost, name) for vhost, name in addresses),
        )

    @property
    def octets(self) -> int:
        """Of its file; 0 for one that was removed."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self, start: int, question: Question, end: int | None = None) -> Portion:
        """Entries from a position on, up to the end of the segment. Row groups without any are
        not read."""
        from gateway.journal import columns

        until = self.end if end is None else min(end, self.end)
        if not any(question.wanted(*one) for one in self.notes.addresses):
            return Portion([], until)
        names = columns.SCHEMA.names if question.bodies else columns.LIGHT
        found: list[Entry] = []
        octets = 0
        for number in range(self._file.metadata.num_row_groups):
            low, high = self._bounds(number)
            if high < start or low >= until:
                continue
            table = self._file.read_row_group(number, columns=names)
            for one in columns.to_entries(table, question.bodies):
                if not start <= one.pos < until or not question.wanted(one.vhost, one.address):
                    continue
                size = one.size if question.bodies and not one.reference else 0
                if found and (len(found) >= question.entries or octets + size > question.octets):
                    return Portion(found, one.pos)
                found.append(one)
                octets += size
        return Portion(found, until)

    def tables(self, start: int, end: int, names: list[str]) -> Iterator[Any]:
        """These columns of a range of positions, as Arrow has them, a row group at a time and with
        rows outside of the range."""
        for number in range(self._file.metadata.num_row_groups):
            low, high = self._bounds(number)
            if high >= start and low < end:
                yield self._file.read_row_group(number, columns=names)

    def _bounds(self, number: int) -> tuple[int, int]:
        statistics = self._file.metadata.row_group(number).column(0).statistics
        return statistics.min, statistics.max

    def close(self) -> None:
        if "_file" in self.__dict__:
            self.__dict__.pop("_file").close()


def list_segments(directory: Path) -> list[Segment]:
    """Those of a journal, in order."""
    try:
        names = sorted(name for name in os.listdir(directory) if NAME.fullmatch(name))
    except FileNotFoundError:
        return []
    return [Segment(directory / name) for name in names]


def span_of(segments: list[Segment]) -> Span:
    return Span(segments[0].start, segments[-1].end) if segments else Span(0, 0)


class SegmentWriter:
    """Writes one segment. ``finish`` gives it its name, unless it has no entries."""

    def __init__(self, directory: Path, journal: str, start: int) -> None:
        import pyarrow.parquet as parquet

        from gateway.journal.columns import SCHEMA

        self.directory = directory
        self.journal = journal
        self.start = start
        self.entries = self.octets = 0
        self._oldest, self._newest = 0, 0
        self._addresses: set[tuple[str, str]] = set()
        self._group: list[Entry] = []
        self._group_octets = 0
        self._bodies: list[Path] = []
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = directory / f"{start:020d}.part"
        self._writer = parquet.ParquetWriter(
            self._path, SCHEMA, compression="zstd", compression_level=1,
            use_dictionary=["vhost", "address", "protocol", "user", "connection", "client_id",
                            "product", "product_version", "dialect", "exchange", "routing_key"],
            write_statistics=["pos", "stamp", "offset"],
        )  # fmt: skip

    def add(self, entry: Entry) -> None:
        body = entry.message.body
        if isinstance(body, LargeBody) and len(body) > MOST_INLINE:
            entry = entry._replace(reference=self._put_apart(entry.pos, body))
        else:
            self._group_octets += len(body)
        if not self.entries:
            self._oldest = self._newest = entry.stamp
        self._oldest, self._newest = (
            min(self._oldest, entry.stamp),
            max(self._newest, entry.stamp),
        )
        self._addresses.add((entry.vhost, entry.address))
        self.entries += 1
        self.octets += len(body) + len(entry.message.header)
        self._group.append(entry)
        if len(self._group) >= GROUP_ENTRIES or self._group_octets >= GROUP_OCTETS:
            self._flush()

    def _put_apart(self, pos: int, body: LargeBody) -> str:
        folder = self.directory / BODIES
        folder.mkdir(mode=0o700, exist_ok=True)
        file = folder / f"{pos:020d}"
        file.unlink(missing_ok=True)
        if not linked(body, file):
            with file.open("xb") as sink:
                for piece in body.chunks(1 << 20):
                    sink.write(piece)
        self._bodies.append(file)
        return f"{BODIES}/{file.name}"

    def _flush(self) -> None:
        if self._group:
            from gateway.journal.columns import to_batch

            self._writer.write_batch(to_batch(self._group), row_group_size=len(self._group))
            self._group, self._group_octets = [], 0

    def finish(self, end: int) -> Segment | None:
        """Raises ``OSError``."""
        self._flush()
        if not self.entries:
            self.give_up()
            return None
        self._writer.add_key_value_metadata(
            {
                "version": "1",
                "journal": self.journal,
                "oldest": str(self._oldest),
                "newest": str(self._newest),
                "addresses": json.dumps(sorted(self._addresses)),
            }
        )
        self._writer.close()
        for path in (*self._bodies, self._path):
            sync(path)
        name = self.directory / f"{self.start:020d}-{end:020d}.parquet"
        self._path.rename(name)
        sync(self.directory)
        return Segment(name)

    def give_up(self) -> None:
        """Leave nothing behind."""
        with suppress(Exception):
            self._writer.close()
        for path in (*self._bodies, self._path):
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_segment(segment: Segment) -> None:
    """With the bodies that only its entries have. Whoever has it open reads on."""
    segment.close()
    segment.path.unlink(missing_ok=True)
    folder = segment.path.parent / BODIES
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.name.isdigit() and int(file.name) < segment.end:
            file.unlink(missing_ok=True)
