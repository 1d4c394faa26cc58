"""Writes batches: one transaction, as few statements as possible.

``sqlite3`` gives up the interpreter lock twice in every statement and has to win it back from the
loop thread, which a busy loop lets go of every 5 ms only (``sys.setswitchinterval``). So up to 2048
rows go into each statement, and a transaction of one statement is left to autocommit: beside a loop
that never rests a batch of 100 takes 7 ms (33 ms with BEGIN, COMMIT and rows in parts of 64, 8, 1).
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from gateway.bodies import Body, LargeBody
from gateway.message import Message
from gateway.store.batch import SHIFT, UNDER, Gathered
from gateway.store.block_files import FROM as BLOCK_FROM
from gateway.store.block_files import HALF, BlockFiles
from gateway.store.blocks import pack_blocks, pack_entries
from gateway.store.large import LargeBodyFiles
from gateway.store.records import behind
from gateway.store.rows import Packer
from gateway.store.schema import CHECKPOINT_PAGES, FREED_PAGES

MOST_ROWS = 2048
"""Rows in one statement, a power of two; four values each stay far below SQLite's 32 766."""

DROPPED_ROWS = 16_384
"""Messages of a deleted queue that are removed with one batch; this delays the batch by about 5
ms."""

Statement = tuple[str, list[Any]]

UNNAMED = 0
"""In place of a body that is in a file without a name."""


def chunks(start: str, unit: str, end: str, values: list[Any]) -> Iterator[Statement]:
    """Spread ``values`` over statements of 1, 2, 4 ... 2048 units, so that each is prepared once.

    The remainder is filled up with NULL, which the statements skip.
    """
    width = unit.count("?")
    at, left = 0, len(values) // width
    while left > 0:
        size = min(MOST_ROWS, 1 << (left - 1).bit_length())
        if left < size and left * 4 < size * 3:
            size >>= 1
        part = values[at : at + size * width]
        part += [None] * (size * width - len(part))
        yield f"{start}{', '.join([unit] * size)}{end}", part
        at, left = at + size * width, left - size


def inserts(table: str, columns: int, values: list[Any], end: str = "") -> Iterator[Statement]:
    """Insert rows given as one flat list; the first value of a row is never NULL."""
    # "or replace": when a commit failed in doubt, the same batch can be written again
    verb = "INSERT" if end else "INSERT OR REPLACE"
    return chunks(
        f"{verb} INTO {table} SELECT * FROM (VALUES ",
        f"({', '.join('?' * columns)})",
        f") WHERE column1 IS NOT NULL{end}",
        values,
    )


class Writer:
    """Owner of the connection that writes; used by one thread at a time."""

    def __init__(
        self, connection: sqlite3.Connection, synchronous: str, large_files: LargeBodyFiles,
        block_files: BlockFiles, report: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.connection = connection
        self.synchronous = synchronous
        self.large_files = large_files
        self.block_files = block_files
        self.report = report
        self.current = ""
        self.packer = Packer()
        # queues with rows outside ``messages``; only grows, and before the rows become visible
        self.doomed: deque[int] = deque()
        """Numbers of deleted queues whose messages are being removed."""
        self.paged: set[int] = set()
        self.sharing: set[int] = set()
        self.journal = -1
        """Number of the journal, whose blocks are in a table of their own; -1: there is none."""
        connection.execute("PRAGMA cache_size=-32768")
        connection.execute("PRAGMA journal_size_limit=67108864").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}").fetchone()
        highest = connection.execute("SELECT ifnull(max(id), 0) FROM bodies").fetchone()[0]
        self.next_body: int = highest + 1

    def write(self, batch: Gathered) -> None:
        """Write a batch in one commit. Raises ``sqlite3.Error`` and ``OSError``; then nothing is
        written and the call may be repeated."""
        self.large_files.begin()
        self.block_files.begin()
        statements = list(self._statements(batch))
        self.large_files.sync()
        if self.synchronous == "full":
            self.block_files.sync()
        self._commit(batch, statements)
        self.large_files.committed(batch)
        self.block_files.committed()
        if self.journal in batch.ranges:
            base = self.journal << SHIFT
            ranges = [(base + first, base + last) for first, last in batch.ranges[self.journal]]
            with suppress(
                OSError
            ):  # a file that cannot be removed now is removed at the next start
                self.block_files.removed(ranges)
        self.doomed.extend(batch.dropped)
        if self.doomed:
            self._remove_some()

    def _remove_some(self) -> None:
        """Remove a portion of the messages of a deleted queue, without a sync. Messages that a
        crash restores, or that cannot be removed now, are removed at the next start."""
        queue = self.doomed[0]
        bounds = [queue << SHIFT, (queue + 1 << SHIFT) - 1]
        left = DROPPED_ROWS
        try:
            for table in self.tables({queue}):
                some = f"SELECT id FROM {table} WHERE id BETWEEN ? AND ? LIMIT ?"
                sql = f"DELETE FROM {table} WHERE id IN ({some})"
                left -= self.connection.execute(sql, [*bounds, left]).rowcount
                if left <= 0:
                    return
            self.connection.execute("DELETE FROM queues WHERE id = ?", [queue])
        except sqlite3.Error as error:
            self.report(f"messages of a deleted queue will be removed at the next start: {error}")
        self.doomed.popleft()

    def _commit(self, batch: Gathered, statements: list[Statement]) -> None:
        # without a sync a commit survives a crash of the process, but not of the machine
        synchronous = "NORMAL" if batch.marks_only else self.synchronous
        execute = self.connection.execute
        if synchronous != self.current:
            execute(f"PRAGMA main.synchronous={synchronous}")
            self.current = synchronous
        if len(statements) == 1:
            execute(*statements[0])
            return
        execute("BEGIN IMMEDIATE")
        try:
            for sql, values in statements:
                execute(sql, values)
            execute("COMMIT")
        finally:
            if self.connection.in_transaction:
                execute("ROLLBACK")

    def _statements(self, batch: Gathered) -> Iterator[Statement]:
        for queue in batch.purged:
            bounds = [queue << SHIFT, (queue + 1 << SHIFT) - 1]
            for table in self.tables({queue}):
                yield f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", bounds
            yield "DELETE FROM queues WHERE id = ?", [queue]
        if batch.cuts or batch.ranges:
            runs, singles = batch.removals()
            for table in self.tables(batch.cuts.keys() | batch.ranges.keys()):
                for run in runs:
                    yield f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", list(run)
                yield from chunks(f"DELETE FROM {table} WHERE id IN (", "?", ")", singles)
        if batch.puts or batch.octets or batch.recorded:
            yield from self._puts(batch)
        if batch.delivered:
            marks = [value for pair in batch.delivered.items() for value in pair]
            yield from inserts(
                "queues", 2, marks,
                " ON CONFLICT (id) DO UPDATE SET delivered = max(delivered, excluded.delivered)",
            )  # fmt: skip
        for (kind, key), value in batch.records.items():
            if value is None:
                yield "DELETE FROM records WHERE kind = ? AND key = ?", [kind, key]
            elif value is UNDER:
                sql = "DELETE FROM records WHERE kind = ? AND key >= ? AND key < ?"
                yield sql, [kind, key, behind(key)]
            else:
                yield "INSERT OR REPLACE INTO records VALUES (?, ?, ?)", [kind, key, value]
        if batch.recorded is not None or batch.packed:
            yield from self._blocks(batch)

    def _blocks(self, batch: Gathered) -> Iterator[Statement]:
        """The entries of the journal; large blocks are in files then."""
        values: list[Any] = []
        blocks = [pack_entries(entries) for entries in batch.packed]
        if batch.recorded is not None:
            blocks += pack_blocks(batch.recorded)
        for first, entries, octets, runs, head, body in blocks:
            key = (self.journal << SHIFT) + first
            sizes = sum(map(len, head)), sum(map(len, body))
            if sum(sizes) >= BLOCK_FROM:
                place = self.block_files.append(key, [*head, *body], sum(sizes))
                values += (key, entries, octets, runs, place, sizes[0] << HALF | sizes[1])
            else:
                values += (key, entries, octets, runs, b"".join(head), b"".join(body))
        yield from inserts("journal", 6, values)

    def _puts(self, batch: Gathered) -> Iterator[Statement]:
        shared = batch.shared()
        head = self.packer.head
        kept: list[Any] = []
        paged: list[Any] = []
        sharing: list[Any] = []
        bodies: list[Any] = []
        placed: set[int] = set()
        for key, content in batch.octets.items():
            kept += (key, 0, b"", content)
        for queue, puts in batch.puts.items():
            base = queue << SHIFT
            for position, (message, expires, keep, added) in puts.items():
                body = message.body
                octets = len(message.header) + len(body)
                try:
                    packed = head(message, expires, added)
                except Exception as error:
                    # ``append`` should have refused it. The rest of the batch is not affected.
                    self.report(f"{message} cannot be written and is lost: {error!r}")
                    continue
                large = isinstance(body, LargeBody)
                if not keep:
                    self.paged.add(queue)
                    paged += (base + position, octets, packed, UNNAMED if large else body)
                elif large or (shared and id(message) in shared):
                    number = self._share(batch, message, queue, position, bodies, placed)
                    sharing += (base + position, octets, packed, number)
                else:
                    kept += (base + position, octets, packed, body)
        if batch.recorded is not None:
            first, base = batch.recorded.first, self.journal << SHIFT
            for at, size in batch.recorded.apart.items():
                message = batch.recorded.messages[at]
                number = self._share(batch, message, self.journal, first + at, bodies, placed)
                sharing += (base + first + at, size, b"", number)
        yield from inserts("messages", 4, kept)
        yield from inserts("bodies", 2, bodies)
        yield from inserts("shares", 4, sharing)
        yield from inserts("paged.paged", 4, paged)

    def _share(
        self, batch: Gathered, message: Message, queue: int, position: int,
        bodies: list[Any], placed: set[int],
    ) -> int:  # fmt: skip
        """The number of the body of a message, which is put at this position too."""
        self.sharing.add(queue)
        number = batch.bodies.get(id(message))
        if number is None:
            number = batch.bodies[id(message)] = self.next_body
            self.next_body += 1
        if number not in placed:
            placed.add(number)
            bodies += (number, self._content(number, message.body))
        if isinstance(message.body, LargeBody):
            self.large_files.put(queue, position, number)
        return number

    def _content(self, number: int, body: Body) -> bytes | int:
        """The column value of a body: its octets, or the number of its file."""
        if isinstance(body, LargeBody):
            self.large_files.place(number, body, self.synchronous == "full")
            return number
        return body

    def tables(self, queues: Any) -> list[str]:
        """The tables that may contain rows of these queues."""
        tables = ["messages"]
        if not self.sharing.isdisjoint(queues):
            tables.append("shares")
        if self.journal in queues:
            tables.append("journal")
        if not self.paged.isdisjoint(queues):
            tables.append("paged.paged")
        return tables

    def shrink(self) -> None:
        """Return some unused pages at the end of the file to the file system."""
        # the pragma frees one page a step, in rows without columns, of which execute makes one step
        self.connection.executescript(f"PRAGMA main.incremental_vacuum({FREED_PAGES})")

    def checkpoint(self, mode: str = "PASSIVE") -> None:
        """Checkpoint the WAL into the database, as far as readers allow."""
        self.connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
