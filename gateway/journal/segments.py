"""Sealed segments: Parquet files, each with the entries of a range of positions.

The name of a file has its range, so the directory is the catalogue: a file is written under another
name, synced and renamed, and never changed. One that was written anew without some addresses has
``-0001`` and so on behind its range; the last counts. Bodies of more than 8 MiB are in files beside
them.
"""

import importlib.util
import json
import os
import re
from collections.abc import Iterator, Set
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

from gateway.bodies import LargeBody
from gateway.journal.entries import (
    MOST_INLINE,
    Entry,
    JournalError,
    Names,
    Part,
    Portion,
    Question,
    Span,
)
from gateway.store.large import linked

NAME = re.compile(r"(\d{20})-(\d{20})(?:-(\d{4}))?\.parquet")
BODIES = "bodies"
SHARED = ["vhost", "address", "offset", "size"]
"""Columns of which shares are made."""
KEYS = ["pos", "vhost", "address", "size", "reference"]
"""Columns by which entries are chosen."""
GROUP_ENTRIES, GROUP_OCTETS = 8192, 16 << 20
"""Entries, and octets of them, in one row group."""


def arrow_is_here() -> bool:
    """Whether segments can be written and read. pyarrow is imported when the first one is: it takes
    as long as a fifth of the rest of a start."""
    return importlib.util.find_spec("pyarrow") is not None


def body_name(pos: int) -> str:
    """The file of the body of an entry, in the directory of segments."""
    return f"{BODIES}/{pos:020d}"


class Share(NamedTuple):
    """The entries of one address in a segment: how many, their first and last offset, and the
    octets of their bodies."""

    entries: int
    first: int
    last: int
    octets: int


class Notes(NamedTuple):
    """The description that a segment has of itself. Times are ms since 1970; ``shares`` are by
    virtual host and address."""

    journal: str
    entries: int
    oldest: int
    newest: int
    shares: dict[tuple[str, str], Share]

    @property
    def addresses(self) -> Set[tuple[str, str]]:
        return self.shares.keys()


_remembered: dict[tuple[str, int, int, int], Notes] = {}
MOST_REMEMBERED = 64


class Segment:
    """A file of the positions from ``start`` to ``end`` (not included)."""

    def __init__(self, path: Path) -> None:
        found = NAME.fullmatch(path.name)
        if found is None:
            raise JournalError(f"{path} is not the name of a segment")
        self.path = path
        self.start, self.end = int(found[1]), int(found[2])
        self.version = int(found[3] or 0)
        """How often it was written anew."""
        self._last: tuple[int, frozenset[str], Any] | None = None
        """The row group that was read last: its number, and its columns."""

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

    def open(self) -> None:
        """Before notes and entries are read: the file is opened once for both. Raises as
        ``notes``."""
        self._file  # noqa: B018

    @cached_property
    def notes(self) -> Notes:
        """Raises ``JournalError``, or ``FileNotFoundError`` for one that retention has removed.
        Those that this process has read last are remembered, as a file never changes."""
        found = self.path.stat()
        key = str(self.path), found.st_ino, found.st_mtime_ns, found.st_size
        notes = _remembered.get(key)
        if notes is not None:
            return notes
        opened = "_file" in self.__dict__
        try:
            notes = self._read_notes()
        finally:
            if not opened:
                self.close()
        while len(_remembered) >= MOST_REMEMBERED:
            _remembered.pop(next(iter(_remembered)), None)
        _remembered[key] = notes
        return notes

    def _read_notes(self) -> Notes:
        from gateway.journal.columns import KNOWN

        given = {key.decode(): value for key, value in (self._file.metadata.metadata or {}).items()}
        if given.get("version", b"").decode("latin-1") not in KNOWN:
            raise JournalError(f"{self.path} is not a segment of a journal of this version")
        if "shares" in given:
            listed = json.loads(given["shares"])
            shares = {(vhost, name): Share(*rest) for vhost, name, *rest in listed}
        else:
            shares = shares_of(self._file.read(columns=SHARED))
        return Notes(
            given["journal"].decode(),
            self._file.metadata.num_rows,
            int(given["oldest"]),
            int(given["newest"]),
            shares,
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
        not read, and of others no objects are made but for these entries."""
        from gateway.journal.columns import LIGHT, SCHEMA, rows_of, to_entries

        self.open()
        until = self.end if end is None else min(end, self.end)
        wanted = [one for one in self.notes.shares if question.wanted(*one)]
        chosen = None if len(wanted) == len(self.notes.shares) else wanted
        found: list[Entry] = []
        octets = 0
        for number in range(self._file.metadata.num_row_groups) if wanted else ():
            low, high = self._bounds(number)
            if high < start or low >= until:
                continue
            rows = rows_of(self._group(number, KEYS), start, until, chosen)
            room = max(question.entries - len(found), 0 if found else 1)
            sizes = rows.slice(0, room)["size"].to_pylist()
            if question.bodies:
                inline = rows.slice(0, room)["reference"].is_null().to_pylist()
                totals = accumulate(map(mul, sizes, inline), initial=octets)
                next(totals)
                fits = [total <= question.octets for total in totals]
                sizes = sizes[: max(sum(fits), 0 if found else 1)]
                octets += sum(map(mul, sizes, inline))
            if sizes:
                group = self._group(number, SCHEMA.names if question.bodies else LIGHT)
                taken = group.take(rows["row"].slice(0, len(sizes)))
                found += to_entries(taken, question.bodies)
            if len(sizes) < rows.num_rows:
                return Portion(found, rows["pos"][len(sizes)].as_py())
        return Portion(found, until)

    def _group(self, number: int, names: list[str]) -> Any:
        """A row group, with at least these columns. The last one is kept, as whoever reads goes on
        there."""
        last = self._last
        if last is not None and last[0] == number and last[1].issuperset(names):
            return last[2]
        table = self._file.read_row_group(number, columns=names)
        self._last = number, frozenset(names), table
        return table

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
        self._last = None
        if "_file" in self.__dict__:
            self.__dict__.pop("_file").close()


def shares_of(rows: Any) -> dict[tuple[str, str], Share]:
    """The shares in a batch or table that has these columns."""
    import pyarrow

    table = pyarrow.table({name: rows.column(name) for name in SHARED})
    kinds = [("offset", "count"), ("offset", "min"), ("offset", "max"), ("size", "sum")]
    found = table.group_by(["vhost", "address"], use_threads=False).aggregate(kinds).to_pydict()
    numbers = zip(*(found[f"{name}_{kind}"] for name, kind in kinds), strict=True)
    keys = zip(found["vhost"], found["address"], strict=True)
    return {key: Share(*values) for key, values in zip(keys, numbers, strict=True)}


def add_shares(known: dict[tuple[str, str], Share], more: dict[tuple[str, str], Share]) -> None:
    """Add those of later entries."""
    for key, one in more.items():
        before = known.get(key)
        known[key] = (
            one
            if before is None
            else Share(
                before.entries + one.entries,
                min(before.first, one.first),
                max(before.last, one.last),
                before.octets + one.octets,
            )
        )


def list_segments(directory: Path) -> list[Segment]:
    """Those of a journal, in order."""
    found: dict[int, Segment] = {}
    for one in all_segments(directory):
        known = found.get(one.start)
        if known is None or known.version < one.version:
            found[one.start] = one
    return [found[start] for start in sorted(found)]


def all_segments(directory: Path) -> list[Segment]:
    """With those that were written anew, and still are there for a moment, or after a crash."""
    try:
        return [Segment(directory / name) for name in os.listdir(directory) if NAME.fullmatch(name)]
    except FileNotFoundError:
        return []


def file_name(start: int, end: int, version: int = 0) -> str:
    return f"{start:020d}-{end:020d}{f'-{version:04d}' if version else ''}.parquet"


def open_writer(path: Path) -> Any:
    """A writer of the columns of segments."""
    import pyarrow.parquet as parquet

    from gateway.journal.columns import SCHEMA

    # What has few values, or numbers that rise, takes few bits as it is encoded. To compress it
    # would gain nothing, and cost a third of the time.
    numbers = ("pos", "stamp", "offset", "size")
    various = ("routing_key", "header", "added", "body", "reference")
    return parquet.ParquetWriter(
        path, SCHEMA,
        compression={name: "zstd" if name in various else "none" for name in SCHEMA.names},
        compression_level=dict.fromkeys(various, 1),
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        use_dictionary=["vhost", "address", "protocol", "user", "connection", "client_id",
                        "product", "product_version", "listener", "dialect", "exchange",
                        "routing_key", "entered", "written"],
        write_statistics=["pos", "stamp", "offset"],
    )  # fmt: skip


def close_writer(writer: Any, path: Path, notes: Notes, name: str) -> Segment:
    """Write the notes, and give the file its name. Raises ``OSError``."""
    from gateway.journal.columns import VERSION

    writer.add_key_value_metadata(
        {
            "version": VERSION,
            "journal": notes.journal,
            "oldest": str(notes.oldest),
            "newest": str(notes.newest),
            "shares": json.dumps([[*key, *one] for key, one in sorted(notes.shares.items())]),
        }
    )
    writer.close()
    sync(path)
    made = path.rename(path.with_name(name))
    try:
        sync(path.parent)
    except OSError:
        # With its name it counts, but the bodies beside it are given up, and it is written again.
        made.unlink()
        raise
    return Segment(made)


def span_of(segments: list[Segment]) -> Span:
    return Span(segments[0].start, segments[-1].end) if segments else Span(0, 0)


class SegmentWriter:
    """Writes one segment. ``finish`` gives it its name, unless it has no entries."""

    def __init__(self, directory: Path, journal: str, start: int) -> None:
        self.directory = directory
        self.journal = journal
        self.start = start
        self.entries = self.octets = 0
        self._oldest, self._newest = 0, 0
        self._shares: dict[tuple[str, str], Share] = {}
        self._group: list[Entry] = []
        self._parts: list[Part] = []
        self._names: Names | None = None
        self._group_entries = self._group_octets = 0
        self._bodies: list[Path] = []
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = directory / f"{start:020d}.part"
        self._writer = open_writer(self._path)

    def add_part(self, part: Part, names: Names) -> None:
        """Add entries as the store has them, with the names of what they have in common."""
        if self._group or self._names is not names:
            self._flush()
        block, start, end = part
        self._names = names
        stamps = []
        for run, first, last, offset in part.runs():
            stamps.append(run.stamp)
            octets = block.bodies[last] - block.bodies[first]
            share = Share(last - first, offset, offset + last - first - 1, octets)
            add_shares(self._shares, {names.addresses.get(run.number, ("", "")): share})
        self._note(min(stamps), max(stamps))
        self.entries += end - start
        octets = block.bodies[end] - block.bodies[start]
        self.octets += octets + block.headers[end] - block.headers[start]
        self._parts.append(part)
        self._grown(end - start, octets)

    def add(self, entry: Entry) -> None:
        if self._parts:
            self._flush()
        body = entry.message.body
        if isinstance(body, LargeBody) and len(body) > MOST_INLINE:
            entry = entry._replace(reference=self._put_apart(entry.pos, body))
        self._note(entry.stamp, entry.stamp)
        self.entries += 1
        self.octets += len(body) + len(entry.message.header)
        self._group.append(entry)
        self._grown(1, 0 if entry.reference else len(body))

    def _note(self, oldest: int, newest: int) -> None:
        if not self.entries:
            self._oldest, self._newest = oldest, newest
        self._oldest, self._newest = min(self._oldest, oldest), max(self._newest, newest)

    def _grown(self, entries: int, octets: int) -> None:
        self._group_entries += entries
        self._group_octets += octets
        if self._group_entries >= GROUP_ENTRIES or self._group_octets >= GROUP_OCTETS:
            self._flush()

    def _put_apart(self, pos: int, body: LargeBody) -> str:
        name = body_name(pos)
        file = self.directory / name
        file.parent.mkdir(mode=0o700, exist_ok=True)
        file.unlink(missing_ok=True)
        self._bodies.append(file)
        if not linked(body, file):
            with file.open("xb") as sink:
                for piece in body.chunks(1 << 20):
                    sink.write(piece)
        return name

    def _flush(self) -> None:
        import pyarrow

        from gateway.journal.columns import to_batch, to_table

        if self._parts:
            assert self._names is not None
            self._write(to_table(self._parts, self._names))
        elif self._group:
            table = pyarrow.Table.from_batches([to_batch(self._group)])
            add_shares(self._shares, shares_of(table))
            self._write(table)
        self._group, self._parts, self._names = [], [], None
        self._group_entries = self._group_octets = 0

    def _write(self, table: Any) -> None:
        self._writer.write_table(table, row_group_size=table.num_rows)

    def finish(self, end: int) -> Segment | None:
        """Raises ``OSError``."""
        self._flush()
        if not self.entries:
            self.give_up()
            return None
        notes = Notes(self.journal, self.entries, self._oldest, self._newest, self._shares)
        for path in (*self._bodies, *{path.parent for path in self._bodies}):
            sync(path)
        return close_writer(self._writer, self._path, notes, file_name(self.start, end))

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
        if file.name.isdigit() and segment.start <= int(file.name) < segment.end:
            file.unlink(missing_ok=True)
