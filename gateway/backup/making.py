"""Makes a backup of a data directory, beside the gateway that uses it or without one.

The order keeps what the parts say about each other true:

1. positions of the journal's consumers, which are not ahead of the database then;
2. one moment of the database, with the large bodies and the blocks that it names (``moment``);
3. sealed segments that end before that moment's end of the journal: what the database has no longer
   is in one of them, and what is in both is as after a crash;
4. the manifest, when all else is on disk and was read again.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from gateway import __version__
from gateway.backup.files import (
    PIECE,
    BackupError,
    Copied,
    checksum,
    sync_folders,
    write_file,
)
from gateway.backup.manifest import Manifest, write_manifest
from gateway.backup.moment import BLOCKS, DATABASE, LARGE, MOVES, Moment, connect
from gateway.bodies import LargeBody
from gateway.broker.journal import INDEX
from gateway.journal.consumers import FOLDER as CONSUMERS
from gateway.journal.consumers import Consumers
from gateway.journal.reader import SEGMENTS
from gateway.journal.segments import BODIES, list_segments
from gateway.journal.segments import NAME as SEGMENT
from gateway.store.batch import SHIFT
from gateway.store.block_files import HALF
from gateway.store.block_files import SHIFT as FILE_SHIFT
from gateway.store.large import linked, opened_body
from gateway.store.plain import read_plain
from gateway.store.schema import FORMAT, disk_errors

PAGES = 256
"""Pages of a database (2 MiB) that are copied before the copy is synced."""
SPARE = 16 << 20
"""Octets that are left free beside a backup."""
ROUNDS = 20
TABLES = ("messages", "shares", "bodies", "journal", "queues", "records")


class Content(NamedTuple):
    """What the database of a backup has: rows of its tables, id and end of the journal ("" and 0:
    none), files of large bodies, and the octets of each file of blocks that it names."""

    rows: dict[str, int]
    journal: str
    position: int
    large: list[int]
    blocks: dict[int, int]


def make_backup(data_dir: Path, journal_dir: Path, target: Path) -> Manifest:
    """Write a backup into a new or empty directory. ``journal_dir`` has the sealed segments. Raises
    ``BackupError`` and ``StoreError``; then nothing was written, or is left."""
    check_target(target, data_dir, journal_dir)
    with disk_errors(f"cannot make a backup of {data_dir}"), closing(Moment(data_dir)) as moment:
        consumers = dict(read_consumers(journal_dir))
        moment.begin()
        existed = target.is_dir()
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return Backup(moment, journal_dir, target).write(consumers)
        except BaseException:
            clear(target)
            if not existed:
                target.rmdir()
            raise


def check_target(target: Path, data_dir: Path, journal_dir: Path) -> None:
    """Raises ``BackupError``."""
    try:
        if target.exists() and (not target.is_dir() or os.listdir(target)):
            raise BackupError(
                f"{target} is not empty: a backup is written into a new or empty directory"
            )
    except OSError as error:
        raise BackupError(str(error)) from None
    where = target.resolve()
    for one in (data_dir, journal_dir):
        if where.is_relative_to(one.resolve()):
            raise BackupError(f"{target} is in {one}: a backup must be elsewhere")


def clear(directory: Path, *kept: str) -> None:
    """Remove everything in a directory, but these names. Raises ``OSError``."""
    for one in list(directory.iterdir()):
        if one.name in kept:
            continue
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink()


def read_consumers(journal_dir: Path) -> Iterator[tuple[str, bytes]]:
    """The files of the journal's consumers, by their names in a backup. Raises ``OSError``."""
    for file in Consumers(journal_dir).files():
        try:
            octets = file.read_bytes()
        except FileNotFoundError:
            continue  # it has been removed meanwhile
        name = file.relative_to(journal_dir / CONSUMERS).as_posix()
        yield f"{SEGMENTS}/{CONSUMERS}/{name}", octets


def size_of(file: Path) -> int:
    """0 for one that has been removed."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


class Backup:
    """A backup that is being written. All methods raise ``BackupError``, ``sqlite3.Error`` and
    ``OSError``."""

    def __init__(self, moment: Moment, journal_dir: Path, target: Path) -> None:
        self.moment = moment
        self.journal_dir = journal_dir
        self.target = target
        self.files: dict[str, Copied] = {}

    def write(self, consumers: dict[str, bytes]) -> Manifest:
        moment = self.moment
        self._check_room()
        self._copy_database(moment.database, DATABASE)
        if moment.moves is not None:
            self._copy_database(moment.moves, MOVES)
        moment.end()
        with opened_copy(self.target / DATABASE) as copy:
            content = content_of(copy)
        for number in content.large:
            self._keep(f"{LARGE}/{number}", moment.file(f"{LARGE}/{number}"))
        for number, end in content.blocks.items():
            name = f"{BLOCKS}/{number}"
            # It may be growing: what the database names of it is there.
            self._write(name, LargeBody(moment.file(name).file, 0, end))
        moment.files.clear()
        self._copy_segments(content.position if content.journal else None)
        for name, octets in consumers.items():
            self._create(name, [octets])
        for file in sorted(moment.directory.glob("*.key")):
            self._create(file.name, [file.read_bytes()])
        sync_folders(self.target)
        taken = datetime.fromtimestamp(moment.taken, UTC).isoformat(timespec="milliseconds")
        manifest = Manifest(
            __version__, FORMAT, taken, content.rows, content.journal, content.position, self.files
        )
        write_manifest(self.target, manifest)
        return manifest

    def _check_room(self) -> None:
        database = self.moment.database
        pages, page = (
            int(database.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "page_size")
        )
        needed = pages * page
        linked_large = self._same_disk(self.moment.directory)
        for name, body in self.moment.files.items():
            needed += 0 if linked_large and name.startswith(LARGE) else len(body)
        if not self._same_disk(self.journal_dir):
            needed += sum(map(size_of, self._segment_files(None).values()))
        free = shutil.disk_usage(self.target).free
        if free < needed + SPARE:
            raise BackupError(
                f"{self.target} has no room: the backup has {needed:,} octets,"
                f" and {free:,} are free there"
            )

    def _same_disk(self, directory: Path) -> bool:
        return directory.is_dir() and directory.stat().st_dev == self.target.stat().st_dev

    def _copy_database(self, source: sqlite3.Connection, name: str) -> None:
        file = self.target / name
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with closing(sqlite3.connect(file, isolation_level=None)) as copy:

                def sync(status: int, remaining: int, total: int) -> None:
                    os.fsync(descriptor)

                source.backup(copy, pages=PAGES, progress=sync)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.files[name] = checksum(file)

    def _place(self, name: str) -> Path:
        file = self.target / name
        for folder in reversed(file.relative_to(self.target).parents[:-1]):
            (self.target / folder).mkdir(mode=0o700, exist_ok=True)
        return file

    def _keep(self, name: str, body: LargeBody) -> None:
        """Add a file that never changes: as a link on the same disk."""
        file = self._place(name)
        if linked(body, file):
            self.files[name] = checksum(file)
        else:
            self._write(name, body)

    def _write(self, name: str, body: LargeBody) -> None:
        self._create(name, body.chunks(PIECE))

    def _create(self, name: str, pieces: Iterator[bytes] | list[bytes]) -> None:
        file = self._place(name)
        written = write_file(file, pieces)
        if checksum(file) != written:
            raise BackupError(f"{file} does not have what was written: its disk is damaged")
        self.files[name] = written

    def _segment_files(self, end: int | None) -> dict[str, Path]:
        """The segments that end there or before, and the bodies in files of theirs, by their names
        in a backup. A later one has entries that the database of the backup does not know;
        positions of others would be given to them."""
        segments = [one for one in list_segments(self.journal_dir) if end is None or one.end <= end]
        found = {f"{SEGMENTS}/{one.path.name}": one.path for one in segments}
        folder = self.journal_dir / BODIES
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            if file.name.isdigit() and any(
                one.start <= int(file.name) < one.end for one in segments
            ):
                found[f"{SEGMENTS}/{BODIES}/{file.name}"] = file
        return found

    def _copy_segments(self, end: int | None) -> None:
        """Some may be removed meanwhile, or written anew under another name: a segment first, and
        then the bodies that only it has."""
        for _ in range(ROUNDS):
            listed = self._segment_files(end)
            ours = [name for name in self.files if name.startswith(f"{SEGMENTS}/")]
            for name in [name for name in ours if name not in listed]:
                (self.target / name).unlink()
                del self.files[name]
            try:
                for name, path in listed.items():
                    if name not in self.files:
                        self._keep(name, opened_body(path))
            except FileNotFoundError:
                continue
            if all(path.exists() for path in listed.values() if SEGMENT.fullmatch(path.name)):
                return
        raise BackupError("segments of the journal come and go too fast: try again later")


@contextmanager
def opened_copy(file: Path) -> Iterator[sqlite3.Connection]:
    """The database of a backup, which nobody changes and in which nothing is written."""
    with closing(connect(file, "mode=ro&immutable=1")) as copy:
        yield copy


def content_of(copy: sqlite3.Connection) -> Content:
    """Check a database, and count what it has. Raises ``BackupError``."""
    (word,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    if word != "ok":
        raise BackupError(f"the database is damaged: {word}")
    rows = {
        table: int(copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0]) for table in TABLES
    }
    offset, half = (1 << FILE_SHIFT) - 1, (1 << HALF) - 1
    blocks = copy.execute(
        f"SELECT head >> {FILE_SHIFT}, max((head & {offset}) + (body >> {HALF}) + (body & {half}))"
        " FROM journal WHERE typeof(head) = 'integer' GROUP BY 1"
    )
    large = copy.execute("SELECT id FROM bodies WHERE typeof(body) = 'integer' ORDER BY id")
    found = Content(rows, "", 0, [number for (number,) in large], dict(blocks))
    row = copy.execute("SELECT value FROM records WHERE kind = ?", [INDEX]).fetchone()
    if row is None:
        return found
    value = read_plain(row[0])
    last = copy.execute("SELECT id + count FROM journal ORDER BY id DESC LIMIT 1").fetchone()
    end = value["next"] if last is None else max(value["next"], last[0] - (value["lane"] << SHIFT))
    return found._replace(journal=value["id"], position=end)
