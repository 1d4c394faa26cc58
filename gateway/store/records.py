"""Topology records, and direct access to them for command line tools.

The server keeps all records in memory and writes changes. A tool may change users while the server
runs: it increments an edit counter in the same transaction, and the server polls that counter
(``SqliteStore.changed_elsewhere``).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gateway.broker.store import Record
from gateway.errors import StoreError
from gateway.store.plain import read_plain, write_plain
from gateway.store.schema import connect, disk_errors


def read_records(
    connection: sqlite3.Connection, kinds: tuple[str, ...] = ()
) -> dict[tuple[str, str], str]:
    """All records of the given kinds, or of all kinds, still encoded."""
    which = f" WHERE kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
    rows = connection.execute(f"SELECT kind, key, value FROM records{which}", kinds).fetchall()
    return {(kind, key): value for kind, key, value in rows}


def decode_records(found: dict[tuple[str, str], str]) -> list[Record]:
    """Decoded records, sorted by kind and key. Raises ``StoreError`` if a record is damaged."""
    try:
        records: list[Record] = [
            (kind, tuple(read_plain(key)), read_plain(value))
            for (kind, key), value in found.items()
        ]
    except (ValueError, LookupError, TypeError) as error:
        raise StoreError(f"a topology record is damaged: {error}") from error
    return sorted(records, key=lambda record: record[:2])


def beginning(key: tuple[str, ...]) -> str:
    """The common prefix of all encoded keys that extend this one by further fields."""
    return write_plain(list(key))[:-1] + ","


def behind(start: str) -> str:
    """The least text that sorts after every text with this prefix."""
    return start[:-1] + chr(ord(start[-1]) + 1)


def count_edits(connection: sqlite3.Connection) -> int:
    """Number of edits by tools since the database was created."""
    row: tuple[int] = connection.execute("SELECT count FROM edits").fetchone()
    return row[0]


class RecordBook:
    """Records within one transaction of a tool. Works while a gateway uses the directory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.edited = False

    def records(self, *kinds: str) -> list[Record]:
        with disk_errors("cannot read records"):
            return decode_records(read_records(self.connection, kinds))

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None:
        """Insert or replace a record."""
        row = (kind, write_plain(list(key)), write_plain(value))
        with disk_errors("cannot write records"):
            self.connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", row)
        self.edited = True

    def forget(self, kind: str, key: tuple[str, ...]) -> None:
        """Delete a record. No-op if it does not exist."""
        row = (kind, write_plain(list(key)))
        with disk_errors("cannot write records"):
            self.connection.execute("DELETE FROM records WHERE kind = ? AND key = ?", row)
        self.edited = True


@contextmanager
def open_records(path: Path | str) -> Iterator[RecordBook]:
    """Read and change records of a data directory, in use or not; created if it is missing.

    The block is one transaction: committed at its end, rolled back by an exception. Waits up to ten
    seconds for the gateway to finish a commit, then raises ``StoreError``.
    """
    directory = Path(path)
    with disk_errors(f"cannot use {directory}"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(connect(directory / "gateway.db")) as connection:
        with disk_errors("cannot begin to change records"):
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
        book = RecordBook(connection)
        try:
            yield book
            with disk_errors("cannot write records"):
                if book.edited:
                    connection.execute("UPDATE edits SET count = count + 1")
                connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
