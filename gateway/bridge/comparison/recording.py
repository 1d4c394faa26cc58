"""Messages of a side, recorded in an SQLite file: a row for each, in the order of its queue."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gateway.bridge.comparison.canonical import Entry, Field, entry_of
from gateway.bridge.migration.sides import Browsed
from gateway.errors import ConfigError

FORM = 1
PORTION = 1000
SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE messages (queue TEXT, number INTEGER, id TEXT, again INTEGER, grouped TEXT, body BLOB,
    fields TEXT, PRIMARY KEY (queue, number)) WITHOUT ROWID;
"""


class Row(NamedTuple):
    """A recorded message; ``number`` counts from 1."""

    number: int
    entry: Entry


class Recording:
    """``form`` is the version in which messages are recorded, "" for their own."""

    def __init__(self, path: Path, form: str | None = None) -> None:
        """Open a recording, or with a ``form`` make one, in place of the file. Raises
        ``ConfigError``."""
        self.path = path
        try:
            if form is not None:
                path.unlink(missing_ok=True)
                path.touch(0o600)
            elif not path.exists():
                raise OSError("no such file")
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA synchronous = OFF")
            if form is not None:
                self._db.executescript(SCHEMA)
                facts = (("format", FORM), ("form", form))
                self._db.executemany("INSERT INTO facts VALUES (?, ?)", facts)
            found = dict(self._db.execute("SELECT name, value FROM facts").fetchall())
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"the recording {path}: {error}") from None
        if found.get("format") != FORM or not isinstance(found.get("form"), str):
            raise ConfigError(f"{path} is no recording of this version")
        self.form: str = found["form"]

    def close(self) -> None:
        self._db.close()

    async def record(
        self, queue: str, messages: AsyncIterator[Browsed], progress: Callable[[int], None]
    ) -> int:
        """Record a queue; how many messages it has."""
        number = 0
        rows: list[tuple[object, ...]] = []
        async for one in messages:
            number += 1
            entry = entry_of(one.message, self.form)
            fields = json.dumps(entry.fields)
            rows.append((queue, number, entry.id, entry.again, entry.group, entry.body, fields))
            if len(rows) >= PORTION:
                self._write(rows)
                progress(number)
        self._write(rows)
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (f"queue {queue}", number))
        progress(number)
        return number

    def _write(self, rows: list[tuple[object, ...]]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        self._db.execute("COMMIT")
        rows.clear()

    def has(self, queue: str) -> bool:
        query = "SELECT 1 FROM facts WHERE name = ?"
        return self._db.execute(query, (f"queue {queue}",)).fetchone() is not None

    def queues(self) -> list[str]:
        rows = self._db.execute("SELECT name FROM facts WHERE name LIKE 'queue %' ORDER BY name")
        return [name.removeprefix("queue ") for (name,) in rows]

    def rows(self, queue: str) -> Iterator[Row]:
        """Messages of a queue, in their order. Raises ``ConfigError`` if the file is damaged."""
        query = (
            "SELECT number, id, grouped, again, body, fields FROM messages"
            " WHERE queue = ? ORDER BY number"
        )
        with self._reading():
            for number, name, group, again, body, fields in self._db.execute(query, (queue,)):
                if not isinstance(body, bytes):
                    raise TypeError(f"the body of message {number} is no digest")
                entry = Entry(name, group, bool(again), body, read_fields(fields))
                yield Row(number, entry)

    def fields(self, queue: str, number: int) -> list[Field]:
        """The properties of one. Raises ``ConfigError``."""
        query = "SELECT fields FROM messages WHERE queue = ? AND number = ?"
        with self._reading():
            (fields,) = self._db.execute(query, (queue, number)).fetchone()
            return read_fields(fields)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, RecursionError) as error:
            raise ConfigError(f"the recording {self.path} is damaged: {error}") from None


def read_fields(text: str) -> list[Field]:
    """Raises ``ValueError`` and ``TypeError``."""
    return [Field(*map(str, one)) for one in json.loads(text)]
