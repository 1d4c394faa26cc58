"""The parts of an archive, each of which a task reads by itself, and their messages as raw batches.

A recording is one part, as the frames of a connection stand in a row; a sealed segment of a journal
is one for every 65 536 entries or so. This module needs pyarrow.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from gateway.archive.batches import DAMAGED, RAW, RawRows, error_row
from gateway.archive.recordings import CLIENT, Counts, Item, read_recording
from gateway.archive.side import MOST_BODY, PUBLISHED, Bad
from gateway.broker.recorder import name_of
from gateway.errors import GatewayError
from gateway.inspect.sources import SERVER
from gateway.journal.canonical import clean
from gateway.journal.columns import KNOWN
from gateway.journal.reader import SEGMENTS
from gateway.journal.segments import BODIES, NAME

RECORDING, SEGMENT = "recording", "segment"
RECORDINGS = frozenset(
    [".json", ".pcap", ".pcapng", ".cap", ".hex", ".txt", ".raw", ".bin", ".amqp", CLIENT, SERVER]
)
"""Ends of the names of recordings in a directory. A file that is named is read in any case."""
PART_ROWS = 65_536
PART_OCTETS = 64 << 20
"""Entries of a segment, and octets of them, in one part, if a row group is no more."""
BATCH_ROWS = 1_000
BUNDLE_OCTETS = 16 << 20
BUNDLE_PARTS = 512
"""Octets and parts of one bundle, if the first part is no more."""
MESSAGE_OCTETS = 1_000
"""Of one message in a recording, where nobody has counted."""
GROUP_OCTETS = 1 << 30
GROUP_ROWS = 1 << 20
"""Octets and entries that a row group may have at most; one that says more is not read."""
REFERENCE = re.compile(rf"{BODIES}/\d+")
Batches = Iterator[Any]


class ArchiveError(GatewayError):
    """There is no archive; the text is shown to the user."""


class Part(NamedTuple):
    """A recording, or of a segment the row groups from ``first`` to ``last`` (not included)."""

    kind: str
    path: str
    first: int = 0
    last: int = 0
    rows: int = 0
    """0: not known before it is read."""
    octets: int = 0


class Bundle(NamedTuple):
    """The parts that one task reads, and whose messages are one file: a large part, or some small
    ones. ``number`` is its place in the archive."""

    number: int
    parts: tuple[Part, ...]

    @property
    def octets(self) -> int:
        return sum(one.octets for one in self.parts)

    @property
    def messages(self) -> int:
        """About how many there are."""
        return sum(one.rows or one.octets // MESSAGE_OCTETS for one in self.parts)


def bundles_of(parts: Iterable[Part]) -> list[Bundle]:
    """The same parts are always bundled in the same way."""
    found: list[tuple[Part, ...]] = []
    some: list[Part] = []
    octets = 0
    for part in parts:
        if some and (octets + part.octets > BUNDLE_OCTETS or len(some) >= BUNDLE_PARTS):
            found.append(tuple(some))
            some, octets = [], 0
        some.append(part)
        octets += part.octets
    if some:
        found.append(tuple(some))
    return [Bundle(number, parts) for number, parts in enumerate(found)]


def list_parts(paths: Iterable[Path]) -> list[Part]:
    """The parts of an archive, in the order of its files. Raises ``ArchiveError``."""
    found: list[Part] = []
    for path in dict.fromkeys(paths):
        files = [path] if path.is_file() else files_in(path)
        for file in files:
            found += _parts_of(file)
    if not found:
        raise ArchiveError("the archive has no recording and no segment of a journal")
    return found


def files_in(path: Path) -> list[Path]:
    """Recordings and segments below a directory. Raises ``ArchiveError``."""
    if not path.is_dir():
        raise ArchiveError(f"{path} is not there")
    if (path / SEGMENTS).is_dir() and (path / "gateway.db").exists():
        path = path / SEGMENTS  # the data directory of a gateway
    found = []
    for file in sorted(path.rglob("*")):
        wanted = file.suffix in RECORDINGS or NAME.fullmatch(file.name)
        if not wanted or not file.is_file() or file.name.startswith("."):
            continue
        if file.suffix == SERVER and file.with_suffix(CLIENT).exists():
            continue  # it is read with the octets of its client
        found.append(file)
    return found


def _parts_of(path: Path) -> list[Part]:
    octets = path.stat().st_size
    if path.suffix != ".parquet":
        return [Part(RECORDING, str(path), octets=octets)]
    try:
        metadata = parquet.read_metadata(path)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    except (OSError, pa.ArrowException):
        return [Part(SEGMENT, str(path), octets=octets)]
    found = []
    first = rows = size = 0
    for number, group in enumerate(groups):
        if rows and (rows + group.num_rows > PART_ROWS or size >= PART_OCTETS):
            found.append(Part(SEGMENT, str(path), first, number, rows, size))
            first, rows, size = number, 0, 0
        rows += group.num_rows
        size += group.total_byte_size
    found.append(Part(SEGMENT, str(path), first, len(groups), rows, size))
    return found


def raw_batches(
    part: Part,
    counts: Counts,
    as_version: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Batches:
    """The messages of a part, and its errors. ``counts`` is right at the end: as many as rows."""
    if part.kind == SEGMENT:
        return _segment_batches(part, counts)
    items = read_recording(Path(part.path), as_version, counts, progress)
    return _recording_batches(items)


def _recording_batches(items: Iterator[Item]) -> Batches:
    rows = RawRows()
    for item in items:
        rows.add(_row_of(item))
        if rows.full:
            yield rows.batch()
    if rows:
        yield rows.batch()


def _row_of(item: Item) -> dict[str, Any]:
    source, found = clean(str(item.source)), item.found
    protocol = f"amqp-{item.version}" if item.version else ""
    if isinstance(found, Bad):
        return error_row(source, found, connection=item.flow, protocol=protocol)
    exchange, key = found.exchange, found.key
    body = found.body if isinstance(found.body, bytes) else found.body[:]
    return {
        "pos": -1, "stamp": 0, "vhost": "", "offset": -1,
        "address": key if key.startswith("/") and not exchange else name_of(exchange, key),
        "protocol": protocol, "connection": item.flow,
        "dialect": found.dialect.name,
        "exchange": exchange.encode("utf-8", "surrogatepass"),
        "routing_key": key.encode("utf-8", "surrogatepass"),
        "header": found.header, "body": body, "size": len(body),
        "journal": "", "source": source, "direction": found.direction,
        "source_offset": found.offset,
    }  # fmt: skip


# --- segments -------------------------------------------------------------------------------------


def _segment_batches(part: Part, counts: Counts) -> Batches:
    path = Path(part.path)
    try:
        file = parquet.ParquetFile(path, memory_map=True)
        given = {key.decode(): value for key, value in (file.metadata.metadata or {}).items()}
        if given.get("version", b"").decode("latin-1") not in KNOWN:
            raise ValueError("it is not a segment of a journal of this version")
        journal = given["journal"].decode()
        names = {name for name in file.schema_arrow.names if name in RAW.names}
        if not {"pos", "dialect", "header", "body"} <= names:
            raise ValueError("a column is missing")
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        yield _unreadable(part, counts, max(part.rows, 1), 0, str(error))
        return
    with file:
        for number in range(part.first, part.last):
            group = file.metadata.row_group(number)
            try:
                if group.total_byte_size > GROUP_OCTETS or group.num_rows > GROUP_ROWS:
                    raise ValueError(f"a row group of {group.total_byte_size} octets")
                table = file.read_row_group(number, columns=sorted(names))
                fields = {name: pc.cast(table[name], RAW.field(name).type) for name in names}
                batches = pa.table(fields).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
            except (OSError, ValueError, pa.ArrowException) as error:
                yield _unreadable(part, counts, group.num_rows, number, str(error))
                continue
            counts.messages += group.num_rows
            for batch in batches:
                for portion in _portions(batch):
                    yield _raw_of(portion, path, journal)


def _unreadable(part: Part, counts: Counts, rows: int, group: int, text: str) -> Any:
    """A row for each message that is lost, as far as they are known."""
    rows = rows if 0 < rows <= GROUP_ROWS else 1
    counts.messages += rows
    found = RawRows()
    for number in range(rows):
        bad = Bad(number, PUBLISHED, 0, DAMAGED, f"row group {group}: {text[:400]}")
        found.add(error_row(clean(part.path), bad))
    return found.batch()


def _portions(batch: Any) -> Iterator[Any]:
    """Rows with a body in a file of its own one by one: all of them may be too much at once."""
    if "reference" not in batch.schema.names or not any(batch.column("reference").to_pylist()):
        yield batch
        return
    for at in range(batch.num_rows):
        yield batch.slice(at, 1)


def _raw_of(batch: Any, path: Path, journal: str) -> Any:
    """Rows of a segment with where they are from; large bodies are read."""
    count = batch.num_rows
    columns = {name: batch.column(name) for name in batch.schema.names}
    if "reference" in columns and any(columns["reference"].to_pylist()):
        columns["body"], columns["reference"] = _bodies(columns, path)
    columns |= {
        "journal": pa.repeat(journal, count),
        "source": pa.repeat(clean(str(path)), count),
        "direction": pa.repeat(PUBLISHED, count),
        "source_offset": columns["pos"],
    }
    arrays = []
    for field in RAW:
        column = columns.get(field.name)
        if column is None:
            column = pa.nulls(count, field.type)
        arrays.append(column)
    return pa.record_batch(arrays, schema=RAW)


def _bodies(columns: dict[str, Any], path: Path) -> tuple[Any, Any]:
    """Bodies with those that are in files of their own, and the references to those that are not
    there or too large."""
    bodies = columns["body"].to_pylist()
    references = columns["reference"].to_pylist()
    for at, reference in enumerate(references):
        if not reference or REFERENCE.fullmatch(reference) is None:
            continue
        file = path.parent / reference
        try:
            if file.stat().st_size <= MOST_BODY:
                bodies[at] = file.read_bytes()
                references[at] = None
        except OSError:
            continue
    return pa.array(bodies, pa.binary()), pa.array(references, pa.string())
