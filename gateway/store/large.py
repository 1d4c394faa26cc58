"""Large bodies of durable messages: one file each, in the directory ``large`` beside the database.

A file is named by the number of its row in ``bodies``, which holds that number in place of octets.
The file is synced before that row is committed, and removed after the commit that removes its last
message; files left by a crash in between are removed at the next start. It is a hard link to the
spool's file where the system supports that, otherwise a copy.
"""

import errno
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gateway.bodies import File, LargeBody
from gateway.store.batch import POSITIONS, SHIFT, Gathered, joined, within

DESCRIPTORS = "/proc/self/fd"
"""Path of an open file without a name, for linking it."""


class LargeBodyFiles:
    """The files of one store. ``open`` is called on the loop thread, all other methods on the
    writing thread. All methods raise ``OSError``."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        """Lists the files and removes those that no message refers to."""
        self.directory = directory / "large"
        self.rows: dict[int, dict[int, int]] = {}
        """Number of the file by queue and position."""
        self.uses: Counter[int] = Counter()
        self._placed: list[tuple[int, int, int]] = []
        """Rows of the batch that is being written."""
        self._named = False
        """Whether the name of the directory is on disk."""
        if not self.directory.is_dir():
            return
        for file in list(self.directory.iterdir()):
            number = int(file.name) if file.name.isdigit() else 0
            sql = "SELECT s.id FROM shares s JOIN bodies b ON b.id = s.body WHERE b.body = ?"
            rows = connection.execute(sql + " AND b.id = ?", (number, number)).fetchall()
            if not rows:
                file.unlink()
            for (key,) in rows:
                self._enter(key >> SHIFT, key % POSITIONS, number)

    def _enter(self, queue: int, position: int, number: int) -> None:
        self.rows.setdefault(queue, {})[position] = number
        self.uses[number] += 1

    # --- writing --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Called before a batch is written or written again."""
        self._placed.clear()

    def place(self, number: int, body: LargeBody, sync: bool) -> None:
        """Create the file of a body. It may exist already, from a failed attempt."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        file = self.directory / str(number)
        if not file.exists() or file.stat().st_size != len(body):
            file.unlink(missing_ok=True)
            if not linked(body, file):
                self._copy(body, file)
        if sync:
            descriptor = os.open(file, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _copy(self, body: LargeBody, file: Path) -> None:
        with file.open("xb") as sink:
            file.chmod(0o600)
            for piece in body.chunks(1 << 20):
                sink.write(piece)

    def put(self, queue: int, position: int, number: int) -> None:
        """Record that a message of the batch refers to this file."""
        self._placed.append((queue, position, number))

    def sync(self) -> None:
        """Sync the directory, so that file names are durable too."""
        if self._placed:
            sync_directories(self.directory, *([] if self._named else [self.directory.parent]))
            self._named = True

    def committed(self, batch: Gathered) -> None:
        """The batch is durable: remove files that no message refers to any more."""
        if self.rows:
            left: list[int] = []
            for queue in batch.purged | batch.dropped:
                left += self.rows.pop(queue, {}).values()
            for queue in batch.cuts.keys() & self.rows.keys():
                here = self.rows[queue]
                left += [here.pop(position) for position in batch.cuts[queue] & here.keys()]
                if not here:
                    del self.rows[queue]
            for queue in batch.ranges.keys() & self.rows.keys():
                here = self.rows[queue]
                ranges = joined(batch.ranges[queue])
                gone = [position for position in here if within(ranges, position)]
                left += [here.pop(position) for position in gone]
                if not here:
                    del self.rows[queue]
            self._drop(left)
        for placed in self._placed:
            self._enter(*placed)
        self._placed.clear()

    def _drop(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.uses[number] -= 1
            if not self.uses[number]:
                del self.uses[number]
                # A file that cannot be removed now is removed at the next start.
                with suppress(OSError):
                    (self.directory / str(number)).unlink()

    # --- reading --------------------------------------------------------------------------------

    def open(self, number: int) -> LargeBody:
        """The body in this file."""
        return opened_body(self.directory / str(number))


def open_large(directory: Path, number: int) -> LargeBody:
    """A large body of the store in a data directory. Raises ``OSError``."""
    return opened_body(directory / "large" / str(number))


def opened_body(path: Path) -> LargeBody:
    """The whole of a file as a body. Raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    file = File(descriptor, os.fstat(descriptor).st_size)
    return LargeBody(file, 0, file.size)


def sync_directories(*directories: Path) -> None:
    """The names in them are on disk. Raises ``OSError``."""
    for directory in directories if os.name == "posix" else ():
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def linked(body: LargeBody, name: Path) -> bool:
    """Link a body's file under this name. Returns false if the file contains anything else or the
    system does not support it."""
    descriptor = body.file.descriptor
    if body.start or len(body) != os.fstat(descriptor).st_size:
        return False
    try:
        place = os.open(DESCRIPTORS, os.O_RDONLY)
    except OSError:
        return False
    try:
        # With a directory this is linkat with AT_SYMLINK_FOLLOW, without one it is plain link.
        os.link(str(descriptor), name, src_dir_fd=place, follow_symlinks=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS):
            raise
        return False
    finally:
        os.close(place)
    return True
