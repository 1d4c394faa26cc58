"""The files of a data directory: lock, contents and format.

gateway.lock    held by the one gateway that uses the directory
gateway.db      topology and durable messages (WAL mode, synced at every commit)
reserve         deleted on a full disk so that the database can be opened
large/          large bodies of durable messages, one file each
blocks/         large blocks of the journal
paged.db        messages paged out of memory; discarded at every start, never synced
restoring       there while a backup is being restored: nothing else is used then
"""

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gateway.errors import StoreError
from gateway.store.format_4 import entries_to_blocks

if sys.platform != "win32":
    import fcntl

APPLICATION = 0x414D5147
FORMAT = 6
"""Format 2: a body may be the number of a file in ``large``. Format 3: records of kinds
"branch" and "deleted" own messages, which an earlier gateway would remove as those of a deleted
queue. Format 4: so do records of the kinds "journal-address" and "journal-index". Format 5: the
table ``journal`` has blocks of entries, and what stood in an index of its own. Format 6: some of
these blocks have messages as they came."""
PAGE = 8192
"""Octets. 4096, 8192 and 16384 write equally fast; 8192 deletes faster than 4096 and keeps
bodies of up to 8 KB on one page."""
CHECKPOINT_PAGES = 2000
"""Pages in the WAL (16 MB) at which a commit copies them into the database. Anything from 500 to
16 000 writes equally fast on average; that one commit takes 17 ms, 28 ms (here), 84 ms at 8000."""
FREED_PAGES = 1000
"""Unused pages returned to the file system in one idle step: 8 MB."""
BUSY_MILLISECONDS = 10_000

LOCK = "gateway.lock"
RESTORING = "restoring"

TABLES = """
CREATE TABLE messages (id INTEGER PRIMARY KEY, octets INTEGER, head BLOB, body BLOB);
CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE shares (id INTEGER PRIMARY KEY, octets INTEGER, head BLOB, body INTEGER);
CREATE INDEX shares_of_body ON shares (body);
CREATE TRIGGER last_share AFTER DELETE ON shares
  WHEN NOT EXISTS (SELECT 1 FROM shares WHERE body = OLD.body)
  BEGIN DELETE FROM bodies WHERE id = OLD.body; END;
CREATE TABLE journal
  (id INTEGER PRIMARY KEY, count INTEGER, octets INTEGER, runs BLOB, head BLOB, body BLOB);
CREATE TABLE queues (id INTEGER PRIMARY KEY, delivered INTEGER NOT NULL);
CREATE TABLE records (kind TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (kind, key))
  WITHOUT ROWID;
CREATE TABLE edits (id INTEGER PRIMARY KEY, count INTEGER NOT NULL);
INSERT INTO edits VALUES (1, 0);
"""


def _numbers_of_files(connection: sqlite3.Connection) -> None:
    """Format 1 to 2: no change, as format 1 has no large bodies."""


def _branches(connection: sqlite3.Connection) -> None:
    """Format 2 to 3: no change, as format 2 has no branches."""


def _journal(connection: sqlite3.Connection) -> None:
    """Format 3 to 4: a table for recorded messages, which are only appended. In ``messages`` they
    would stand between those of queues, and cost twice as much."""
    connection.execute(
        "CREATE TABLE journal (id INTEGER PRIMARY KEY, octets INTEGER, head BLOB, body BLOB)"
    )


def _messages_as_they_came(connection: sqlite3.Connection) -> None:
    """Format 5 to 6: no change, as format 5 has no such blocks."""


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {
    1: _numbers_of_files, 2: _branches, 3: _journal, 4: entries_to_blocks,
    5: _messages_as_they_came,
}  # fmt: skip
"""Step from format n to n + 1, by n; each runs inside the transaction that raises the number."""


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn errors of the database and the file system into ``StoreError``."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        damaged = type(error) is sqlite3.DatabaseError
        advice = (
            "; the file is damaged or not a database: restore it from a backup,"
            " or move it away to start empty"
            if damaged
            else ""
        )
        raise StoreError(f"{doing}: {error}{advice}") from error
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{doing}: {error}") from error


def take_lock(directory: Path) -> int:
    """Lock the directory until the returned descriptor is closed."""
    with disk_errors(f"cannot use {directory}"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    if sys.platform != "win32":
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(lock, 32).decode("ascii", "replace").strip()
            os.close(lock)
            known = f" (process {owner})" if owner else ""
            raise StoreError(
                f"another gateway uses this data directory{known}: {directory}; --data-dir names "
                "another directory"
            ) from error
    with suppress(OSError):  # the disk is full: the content is only informative
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
    return lock


def connect(file: Path) -> sqlite3.Connection:
    """A connection to ``gateway.db``, which is created or migrated if necessary."""
    if (file.parent / RESTORING).exists():
        raise StoreError(
            f"{file.parent}: the restoring of a backup has not ended: `amqp-gateway restore` it"
            " again"
        )
    with disk_errors(f"cannot open {file}"):
        connection = sqlite3.connect(
            file, timeout=BUSY_MILLISECONDS / 1000, isolation_level=None,
            check_same_thread=False, cached_statements=256,
        )  # fmt: skip
        try:
            _prepare(connection, file)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: sqlite3.Connection, file: Path) -> None:
    def pragma(text: str) -> int:
        row = connection.execute(f"PRAGMA {text}").fetchone()
        return row[0] if row else 0

    if pragma("application_id") != APPLICATION:
        # Only for an empty database. For an existing one it would write, and a full disk must not
        # prevent a start.
        pragma(f"page_size={PAGE}")
        # frees a drained backlog, and large bodies without reading them; writes cost the same
        pragma("auto_vacuum=INCREMENTAL")
    # some distributions build SQLite with secure_delete, which overwrites deleted content
    pragma("secure_delete=OFF")
    pragma("recursive_triggers=OFF")
    pragma("trusted_schema=OFF")
    pragma("temp_store=MEMORY")
    pragma("journal_mode=WAL")
    application, version = pragma("application_id"), pragma("user_version")
    if application == APPLICATION and version == FORMAT:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # again under the lock: another process may have migrated meanwhile
        application, version = pragma("application_id"), pragma("user_version")
        filled = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if application != APPLICATION and (filled or application):
            raise StoreError(f"{file} is a database, but not one of a gateway")
        if version > FORMAT:
            raise StoreError(
                f"{file} has store format {version}; this gateway knows formats up to {FORMAT}:"
                " use the newer gateway that wrote it"
            )
        if application != APPLICATION:
            for statement in _statements(TABLES):
                connection.execute(statement)
            pragma(f"application_id={APPLICATION}")
        else:
            for step in range(version, FORMAT):
                MIGRATIONS[step](connection)
        pragma(f"user_version={FORMAT}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. ``executescript`` would commit, and a trigger contains
    semicolons."""
    text = ""
    for line in script.strip().splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""


def attach_paged(connection: sqlite3.Connection, file: Path, fresh: bool) -> None:
    """Attach the table ``paged`` to a connection. With ``fresh``, the content of an earlier run is
    discarded."""
    with disk_errors(f"cannot open {file}"):
        if fresh:
            forget_paged(file)
        connection.execute("ATTACH ? AS paged", (str(file),))
        if fresh:
            connection.execute(f"PRAGMA paged.page_size={PAGE}")
            connection.execute("PRAGMA paged.journal_mode=WAL").fetchone()
            connection.execute(
                "CREATE TABLE paged.paged"
                " (id INTEGER PRIMARY KEY, octets INTEGER, head BLOB, body BLOB)"
            )
        connection.execute("PRAGMA paged.synchronous=OFF")


def forget_paged(file: Path) -> None:
    for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
        with suppress(FileNotFoundError):
            file.with_name(name).unlink()
