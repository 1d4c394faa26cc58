"""One moment of a data directory that a gateway may be using: transactions that read its databases,
and the files that these name, held open.

The gateway syncs a file of ``large`` or ``blocks`` before the commit that names it, and removes it
after the commit that no longer does. So while nobody can commit, all files that the database names
are there. They are opened in two steps: most of them beside the gateway, and those that have come
meanwhile under the write lock, for some milliseconds. What is open can be read when it has been
removed.
"""

import errno
import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from gateway.backup.files import BackupError
from gateway.bodies import LargeBody
from gateway.store.large import opened_body
from gateway.store.schema import APPLICATION, FORMAT, LOCK

DATABASE = "gateway.db"
MOVES = "moves.db"
"""The journal of moves between brokers (``gateway.bridge.migration.journal``)."""
LARGE, BLOCKS = "large", "blocks"
LOCK_SECONDS = 60.0
"""Time to wait for the write lock between two commits of a gateway."""
HELD_SECONDS = 0.01
"""Time for which the write lock is held at most, with the opening of one file more. A commit
that has found it held comes again within 20 ms."""
ROUNDS = 50


def connect(file: Path, mode: str = "mode=rw") -> sqlite3.Connection:
    """A connection to a database that exists. Raises ``sqlite3.Error``."""
    where = f"file:{quote(str(file))}?{mode}"
    return sqlite3.connect(where, uri=True, isolation_level=None, timeout=LOCK_SECONDS)


class Moment:
    """``begin`` chooses the moment; ``database`` and ``moves`` (``None`` if there is no such file)
    show it until ``end``, and ``files`` until ``close``. All methods raise ``BackupError``,
    ``sqlite3.Error`` and ``OSError``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files: dict[str, LargeBody] = {}
        """Open files by their names below the directory: all that the database names, and
        others."""
        self.taken = 0.0
        """Seconds since 1970."""
        file = directory / DATABASE
        if not file.is_file():
            raise BackupError(f"{directory} is not the data directory of a gateway: no {DATABASE}")
        self._connections: list[sqlite3.Connection] = []
        try:
            self._writing = self._connect(file)
            self._check(file)
            self.database = self._connect(file)
            moves = directory / MOVES
            self.moves = self._connect(moves) if moves.is_file() else None
        except BaseException:
            self.close()
            raise

    def _connect(self, file: Path) -> sqlite3.Connection:
        made = connect(file)
        self._connections.append(made)
        return made

    def _check(self, file: Path) -> None:
        application, version = (
            self._writing.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        )
        if application != APPLICATION:
            raise BackupError(f"{file} is not the database of a gateway")
        if version != FORMAT:
            advice = (
                "use the newer gateway that wrote it"
                if version > FORMAT
                else "start it once with this gateway, or copy the directory of the stopped gateway"
            )
            raise BackupError(
                f"{file} has store format {version}; this gateway makes backups of format"
                f" {FORMAT}: {advice}"
            )

    def begin(self) -> None:
        """Now. Stops the commits of a gateway for some milliseconds, or for some and again."""
        for _ in range(ROUNDS):
            life = self._life()
            known = self._open_all()
            self._writing.execute("BEGIN IMMEDIATE")
            try:
                if self._life() != life:
                    # Another gateway has begun, which may have used the same numbers again.
                    self.files.clear()
                elif self._open_since(known, time.monotonic() + HELD_SECONDS):
                    for one in (self.database, self.moves):
                        if one is not None:
                            one.execute("BEGIN")
                            one.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                    self.taken = time.time()
                    return
            finally:
                self._writing.execute("ROLLBACK")
        raise BackupError("large messages come and go too fast: try again when there is less load")

    def _life(self) -> tuple[int, int] | None:
        """Names of the parts that differ after another gateway has begun to use the directory."""
        try:
            found = (self.directory / LOCK).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _open_all(self) -> int:
        """Open the files there are; the number of the last body before."""
        (known,) = self._writing.execute("SELECT ifnull(max(id), 0) FROM bodies").fetchone()
        for folder in (LARGE, BLOCKS):
            self._open_in(folder)
        return int(known)

    def _open_in(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            for name in os.listdir(self.directory / folder):
                if name.isdigit():
                    self._open(f"{folder}/{name}")

    def _open_since(self, known: int, deadline: float) -> bool:
        """Open the files that have come since. Whether that was done in time."""
        self._open_in(BLOCKS)  # few, and 64 MiB each
        sql = f"SELECT id FROM bodies WHERE id > {known} AND typeof(body) = 'integer'"
        for (number,) in self._writing.execute(sql):
            self._open(f"{LARGE}/{number}")
            if time.monotonic() > deadline:
                return False
        return True

    def _open(self, name: str) -> None:
        if name in self.files:
            return
        try:
            self.files[name] = opened_body(self.directory / name)
        except FileNotFoundError:
            pass  # it has been removed meanwhile, or is missed later
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise BackupError(
                    f"a backup opens all {len(self.files)} files of large messages and more: allow"
                    " the process more open files (ulimit -n)"
                ) from None
            raise

    def file(self, name: str) -> LargeBody:
        """A file that the database names."""
        if name not in self.files:
            raise BackupError(
                f"{self.directory / name} is missing: this store is damaged; its gateway goes on"
                " without the messages that were in it"
            )
        return self.files[name]

    def end(self) -> None:
        """The databases were copied: the gateway can empty their write-ahead logs again."""
        for one in (self.database, self.moves):
            if one is not None:
                one.execute("ROLLBACK")

    def close(self) -> None:
        self.files.clear()
        for one in self._connections:
            one.close()
