"""The journal of moves: an SQLite file that survives the death of the process.

It holds each move with its queues and counts, and the messages without an outcome. A mover writes
once per batch, before it publishes the batch; the write is on the disk when ``step`` returns.
"""

import fcntl
import json
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from gateway.bridge.clock import now
from gateway.bridge.migration.identity import Identity
from gateway.bridge.migration.recovery import Unfinished
from gateway.errors import ConfigError

FORM = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS moves (
    name TEXT PRIMARY KEY, settings TEXT NOT NULL, state TEXT NOT NULL, created INTEGER NOT NULL,
    changed INTEGER NOT NULL, error TEXT NOT NULL, reverses TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queues (
    move TEXT, queue INTEGER, source TEXT NOT NULL, destination TEXT NOT NULL,
    done INTEGER NOT NULL, expected INTEGER, next INTEGER NOT NULL, moved INTEGER NOT NULL,
    suppressed INTEGER NOT NULL, flagged INTEGER NOT NULL, rejected INTEGER NOT NULL,
    returned INTEGER NOT NULL, PRIMARY KEY (move, queue)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS under_way (
    move TEXT, queue INTEGER, number INTEGER, digest BLOB NOT NULL, id TEXT NOT NULL,
    settling INTEGER NOT NULL, PRIMARY KEY (move, queue, number)
) WITHOUT ROWID;
"""


class QueueRecord(NamedTuple):
    """One queue of a move. ``expected``: its messages at the beginning, ``None`` if the source does
    not tell. ``moved`` were confirmed by the destination; ``suppressed`` came again and were not
    published again; ``flagged`` were published again with a flag, each time counted; ``returned``:
    messages of the move that this one reverses."""

    queue: int
    source: str
    destination: str
    done: bool = False
    expected: int | None = None
    next: int = 1
    moved: int = 0
    suppressed: int = 0
    flagged: int = 0
    rejected: int = 0
    returned: int = 0


class MoveRecord(NamedTuple):
    """A move. Times are ms since 1970. ``reverses`` is the name of the move that it rolls back."""

    name: str
    settings: dict[str, Any]
    state: str
    created: int
    changed: int
    error: str
    reverses: str


class Journal:
    """Its methods may be called from any thread."""

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        """``reading``: beside a process that moves. Raises ``ConfigError`` if the file cannot be
        used, or another process moves with it."""
        self.path = path
        self._lock = threading.Lock()
        self._held = None
        try:
            if reading:
                if not path.exists():
                    raise OSError("no such file")
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._held = hold(path.with_name(path.name + ".lock"))
                path.touch(0o600)
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            if not reading:
                self._prepare()
            facts = dict(self._db.execute("SELECT name, value FROM facts").fetchall())
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"the journal {path}: {error}") from None
        if facts.get("form") != FORM:
            raise ConfigError(f"the journal {path} has the form {facts.get('form')}, not {FORM}")
        self.key: bytes = facts["key"]
        """Seals what messages carry of their first form; see docs/crossing.md."""

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self._writing():
            for statement in SCHEMA.split(";"):
                self._db.execute(statement)
            key = secrets.token_bytes(32)
            self._db.execute("INSERT OR IGNORE INTO facts VALUES ('key', ?)", (key,))
            self._db.execute("INSERT OR IGNORE INTO facts VALUES ('form', ?)", (FORM,))

    def close(self) -> None:
        with self._lock:
            self._db.close()
        if self._held is not None:
            self._held.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _ask(self, query: str, *values: object) -> list[Any]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    # --- moves ------------------------------------------------------------------------------------

    def add(self, move: MoveRecord, pairs: Iterable[tuple[str, str]]) -> None:
        """Record a new move before it begins."""
        with self._writing():
            given = (move.name, json.dumps(move.settings), *move[2:])
            self._db.execute("INSERT INTO moves VALUES (?, ?, ?, ?, ?, ?, ?)", given)
            for number, (source, destination) in enumerate(pairs, 1):
                self._db.execute(
                    "INSERT INTO queues VALUES (?, ?, ?, ?, 0, NULL, 1, 0, 0, 0, 0, 0)",
                    (move.name, number, source, destination),
                )

    def moves(self) -> list[MoveRecord]:
        """All moves, the oldest first."""
        rows = self._ask("SELECT * FROM moves ORDER BY created, name")
        return [MoveRecord(name, json.loads(given), *rest) for name, given, *rest in rows]

    def queues(self, move: str) -> list[QueueRecord]:
        query = (
            "SELECT queue, source, destination, done, expected, next, moved, suppressed, flagged,"
            " rejected, returned FROM queues WHERE move = ? ORDER BY queue"
        )
        rows = self._ask(query, move)
        return [QueueRecord._make((*row[:3], bool(row[3]), *row[4:])) for row in rows]

    def enter(self, move: str, state: str, error: str = "") -> None:
        """A move has another state now."""
        with self._writing():
            self._db.execute(
                "UPDATE moves SET state = ?, error = ?, changed = ? WHERE name = ?",
                (state, error, now(), move),
            )

    def forget(self, move: str) -> None:
        """Remove a move."""
        with self._writing():
            self._db.execute("DELETE FROM moves WHERE name = ?", (move,))
            for table in ("queues", "under_way"):
                self._db.execute(f"DELETE FROM {table} WHERE move = ?", (move,))

    # --- messages ---------------------------------------------------------------------------------

    def unfinished(self, move: str, queue: int) -> list[Unfinished]:
        """Messages without an outcome, in the order in which they came."""
        rows = self._ask(
            "SELECT number, digest, id, settling FROM under_way WHERE move = ? AND queue = ?"
            " ORDER BY settling DESC, number",
            move,
            queue,
        )
        return [
            Unfinished(number, Identity(digest, name), bool(settling))
            for number, digest, name, settling in rows
        ]

    def step(
        self,
        move: str,
        record: QueueRecord,
        sent: Iterable[tuple[int, Identity]],
        settling: Sequence[int],
        over: Sequence[int],
    ) -> None:
        """Write the counts of a queue; messages that will be published next; messages that the
        destination has confirmed, which will be settled next; and messages that are settled."""
        place = (move, record.queue)
        with self._writing():
            run = self._db.executemany
            run(
                "INSERT OR REPLACE INTO under_way VALUES (?, ?, ?, ?, ?, 0)",
                ((*place, number, one.digest, one.id) for number, one in sent),
            )
            run(
                "UPDATE under_way SET settling = 1 WHERE move = ? AND queue = ? AND number = ?",
                ((*place, number) for number in settling),
            )
            run(
                "DELETE FROM under_way WHERE move = ? AND queue = ? AND number = ?",
                ((*place, number) for number in over),
            )
            self._db.execute(
                "UPDATE queues SET done = ?, expected = ?, next = ?, moved = ?, suppressed = ?,"
                " flagged = ?, rejected = ?, returned = ? WHERE move = ? AND queue = ?",
                (*record[3:], *place),
            )


def hold(path: Path) -> IO[bytes]:
    """The open file, locked until it is closed or the process ends. Raises ``OSError``."""
    file = path.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise OSError("another process moves with it") from None
    return file
