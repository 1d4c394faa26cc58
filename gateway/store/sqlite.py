"""``SqliteStore``: the broker's durable store.

Two threads meet here. The loop thread gathers (``save`` to ``delivered``), closes batches
(``take``) and reads; one other thread at a time runs ``write``. They share frozen batches only: a
batch stays in ``taken`` until the loop thread has seen that it is written, so a reader finds there
everything that is not in the database yet.

About marks: ``mark`` is the number of the gathering batch. ``take`` returns that batch and raises
``mark`` by one, or returns ``None`` and leaves ``mark`` as it is: then all changes under ``mark``
have cancelled out and are as durable as batch ``mark - 1``. Batches are written in the order in
which they were taken; a failed ``write`` is repeated with the same batch.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal

from gateway.bodies import Body
from gateway.broker.store import (
    Batch,
    Depth,
    PackedEntries,
    Record,
    Recorded,
    RecordedRun,
    StoredMessage,
    WireEntries,
)
from gateway.errors import LocalError, StoreError, Unstorable
from gateway.message import Message
from gateway.store import reserve
from gateway.store.batch import (
    POSITIONS,
    QUEUES,
    SHIFT,
    UNDER,
    Gathered,
    Put,
    Ranges,
    joined,
    waiting,
    within,
)
from gateway.store.block_files import BlockFiles
from gateway.store.blocks import unpack_runs
from gateway.store.large import LargeBodyFiles
from gateway.store.plain import write_plain
from gateway.store.records import beginning, count_edits, decode_records, read_records
from gateway.store.rows import LONGEST_NAME, MOST_OCTETS, Unpacker
from gateway.store.schema import (
    attach_paged,
    connect,
    disk_errors,
    forget_paged,
    take_lock,
)
from gateway.store.writer import Writer

Synchronous = Literal["full", "normal", "off"]

APART = 1 << 14
"""Octets of a body of the journal that has a row of its own, in which a queue has part if it still
has the message: smaller ones are copied for less than that row costs."""


NO_FAULT_OF_THE_DISK = (
    sqlite3.DataError, sqlite3.InterfaceError, sqlite3.NotSupportedError, sqlite3.ProgrammingError,
)  # fmt: skip


class SqliteStore:
    """Durable store in the directory ``path``, which belongs to one process at a time.

    ``synchronous``: "full" syncs at every commit; "normal" survives a crash of the process but may
    lose the last commits when the machine crashes; "off" is for tests. Raises ``StoreError`` if the
    directory is in use, damaged, or of a newer format.
    """

    def __init__(self, path: Path | str, *, synchronous: Synchronous = "full") -> None:
        self.mark = 1
        self.dirty = False
        self.apart = APART
        self.appended = 0
        self.changed = 0
        self.pending_octets = 0
        """Octets waiting to be written. Decreases when ``take`` (or ``read``) notices that a batch
        is written."""
        self._taken_octets = 0
        """Those of them that are in taken batches."""
        self.safe = 0
        """Mark of the last batch written."""
        self.gathering = Gathered(self.mark)
        self.taken: list[Gathered] = []
        self.unnamed: dict[int, Body] = {}
        """Large bodies of paged-out messages, by key. They stay in their files."""
        self.unpacker = Unpacker()
        self.damaged: set[int] = set()
        """Keys of unreadable rows, each of which has been logged once."""
        self.report: Callable[[str], None] = lambda text: None
        """Reports lost messages to the operator. Called by both threads."""
        self.closed = False
        self.directory = directory = Path(path)
        self.paged = directory / "paged.db"
        self.lock = take_lock(directory)
        try:
            try:
                self._open(directory, synchronous)
            except StoreError:
                self._disconnect()
                if not reserve.release_space(directory):
                    raise
                self._open(directory, synchronous)
        except BaseException:
            self._let_go()
            raise
        reserve.reserve_space(directory)

    def _open(self, directory: Path, synchronous: Synchronous) -> None:
        self._connections: list[sqlite3.Connection] = []
        for fresh in (True, False):
            connection = connect(directory / "gateway.db")
            self._connections.append(connection)
            try:
                attach_paged(connection, self.paged, fresh)
            except StoreError:
                if not fresh:
                    raise
                # The disk is full. The content is temporary, so the file may be anywhere.
                self.paged = Path(tempfile.mkdtemp(prefix="amqp-gateway-")) / self.paged.name
                with suppress(sqlite3.Error):
                    connection.execute("DETACH paged")
                attach_paged(connection, self.paged, fresh)
        with disk_errors(f"cannot open {directory}"):
            self.large_files = LargeBodyFiles(directory, self._connections[0])
            self.block_files = BlockFiles(directory, self._connections[0])
            self.writer = Writer(
                self._connections[0], synchronous, self.large_files, self.block_files, self._report
            )
            self.reader = self._connections[1]
            self.reader.execute("PRAGMA query_only=ON")
            self.edits = count_edits(self.reader)
            self.found = self._measure()

    def _report(self, text: str) -> None:
        self.report(text)

    def _measure(self) -> dict[int, Depth]:
        """Scan all queues and lower delivered marks to the last message left, where positions
        start."""
        connection = self.writer.connection
        marks: dict[int, int] = dict(connection.execute("SELECT id, delivered FROM queues"))
        depths: dict[int, Depth] = {}
        for table in ("messages", "shares"):
            key = 0
            while row := connection.execute(
                f"SELECT id FROM {table} WHERE id >= ? LIMIT 1", (key,)
            ).fetchone():
                queue = row[0] >> SHIFT
                key = queue + 1 << SHIFT
                count, octets, first, last = connection.execute(
                    f"SELECT count(*), sum(octets), min(id), max(id) FROM {table}"
                    " WHERE id BETWEEN ? AND ?",
                    (queue << SHIFT, key - 1),
                ).fetchone()
                if table == "shares":
                    self.writer.sharing.add(queue)
                here = Depth(count, octets, first % POSITIONS, last % POSITIONS, 0)
                depths[queue] = _joined(depths[queue], here) if queue in depths else here
                if key >> SHIFT >= QUEUES:
                    break
        for queue, depth in depths.items():
            depths[queue] = depth._replace(delivered=min(marks.get(queue, 0), depth.last))
        changed = {
            queue: depths[queue].delivered if queue in depths else 0
            for queue, mark in marks.items()
            if queue not in depths or depths[queue].delivered < mark
        }
        if changed:
            # This may fail on a full disk: a mark that is too high only sets redelivered on a
            # message.
            with suppress(sqlite3.OperationalError):
                self._lower(connection, changed)
        return depths

    def _lower(self, connection: sqlite3.Connection, marks: dict[int, int]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(
                "INSERT OR REPLACE INTO queues VALUES (?, ?)",
                [(queue, mark) for queue, mark in marks.items() if mark],
            )
            connection.executemany(
                "DELETE FROM queues WHERE id = ?",
                [(queue,) for queue, mark in marks.items() if not mark],
            )
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    # --- gathering, on the loop thread ----------------------------------------------------------

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None:
        """Insert or replace a record. The value is encoded at once and keeps its types."""
        self._change(kind, write_plain(list(key)), write_plain(value))

    def forget(self, kind: str, key: tuple[str, ...]) -> None:
        """Delete a record."""
        self._change(kind, write_plain(list(key)), None)

    def forget_under(self, kind: str, key: tuple[str, ...]) -> None:
        """Delete all records whose keys extend these fields. Costs as much as one deletion."""
        self._change(kind, beginning(key), UNDER)

    def _change(self, kind: str, key: str, value: str | Literal[False] | None) -> None:
        records = self.gathering.records
        records.pop((kind, key), None)  # it moves to the end of the order
        records[kind, key] = value
        self.changed = self.mark
        self.dirty = True

    def append(
        self, queue: int, position: int, message: Message, expires: int | None, keep: bool
    ) -> None:
        """Add a message. A position must be removed before it is used again. Raises ``Unstorable``
        and then has no effect.

        Durable bodies of 1 KiB and more are stored once for all queues of this batch.
        """
        added = None
        if (
            message.added_headers
            or len(message.exchange) > LONGEST_NAME
            or len(message.key) > LONGEST_NAME
            or len(message.body) > MOST_OCTETS
        ):
            added = self.check(message)
        puts = self.gathering.puts.get(queue)
        if puts is None:
            if not 0 <= queue < QUEUES:
                raise Unstorable(f"queue number {queue} is out of range")
            puts = self.gathering.puts[queue] = {}
        if position >= POSITIONS:
            raise Unstorable(f"queue number {queue} has no more positions")
        puts[position] = (message, expires, keep, added)
        self.appended += 1
        body = message.body
        if body.__class__ is bytes:
            self.pending_octets += len(body)
        elif not keep:
            self.unnamed[queue << SHIFT | position] = body
        self.dirty = True

    def check(self, message: Message) -> bytes | None:
        """The added headers of a message, encoded. Raises ``Unstorable`` for a message that does
        not fit a row."""
        if len(message.exchange) > LONGEST_NAME or len(message.key) > LONGEST_NAME:
            raise Unstorable("the exchange's name or the routing key is too long to be stored")
        if len(message.body) > MOST_OCTETS and message.body.__class__ is bytes:
            raise Unstorable("the body is too large to be stored in one row")
        try:
            return write_plain(message.added_headers).encode() if message.added_headers else None
        except (LocalError, ValueError, RecursionError) as error:
            raise Unstorable(f"headers added by the broker cannot be stored: {error}") from error

    def keep(self, queue: int, position: int, octets: bytearray) -> None:
        """Put octets that are no message. They may be added to until the batch is taken."""
        self.gathering.octets[queue << SHIFT | position] = octets
        self.dirty = True

    def record_under(self, queue: int) -> None:
        """The journal's blocks have a table of their own, which is only appended to: in
        ``messages`` they would stand between the rows of queues."""
        self.writer.journal = queue

    def record(self, entries: Recorded) -> None:
        """Append to the journal. Entries may be added until the batch is taken."""
        self.gathering.recorded = entries
        self.dirty = True

    def record_packed(self, entries: PackedEntries | WireEntries) -> None:
        """The same for packed entries, any number of times."""
        self.gathering.packed.append(entries)
        self.dirty = True

    def await_entries(self) -> None:
        """Some of the packed entries of this batch are of durable messages."""
        self.gathering.awaited = True

    def recorded(self) -> Iterator[tuple[int, list[RecordedRun]]]:
        """The first position and the runs of each block of the journal, in order."""
        base = self.writer.journal << SHIFT
        sql = "SELECT id, runs FROM journal ORDER BY id"
        with disk_errors("cannot read the journal"), closing(self.reader.execute(sql)) as rows:
            for key, runs in rows:
                yield key - base, unpack_runs(runs)

    def remove(self, queue: int, position: int) -> None:
        """Delete a message, written or not. A message of the gathering batch costs no statement."""
        batch = self.gathering
        puts = batch.puts.get(queue)
        put = puts.pop(position, None) if puts else None
        if self.unnamed:
            self.unnamed.pop(queue << SHIFT | position, None)
        if put is None:
            batch.cuts[queue].add(position)
            self.dirty = True
            return
        self.pending_octets -= waiting(put[0])
        if not puts:
            del batch.puts[queue]
            self.dirty = bool(batch or self.writer.doomed)

    def remove_all(self, queue: int, positions: list[int]) -> None:
        """Delete many messages of one queue."""
        puts = self.gathering.puts.get(queue)
        if puts or self.unnamed:
            for position in positions:
                self.remove(queue, position)
        elif positions:
            self.gathering.cuts[queue].update(positions)
            self.dirty = True
        self.changed = self.mark

    def remove_ranges(self, queue: int, ranges: Ranges) -> None:
        """Delete ranges of positions, first to last, without reading the messages."""
        puts = self.gathering.puts.get(queue, {})
        for position in [position for position in puts if within(ranges, position)]:
            self.pending_octets -= waiting(puts.pop(position)[0])
        if not puts:
            self.gathering.puts.pop(queue, None)
        for key in [key for key in self.unnamed if key >> SHIFT == queue]:
            if within(ranges, key % POSITIONS):
                del self.unnamed[key]
        self.gathering.ranges[queue] += ranges
        self.changed = self.mark
        self.dirty = True

    def purge(self, queue: int) -> None:
        """Delete all messages of a queue and its delivered mark."""
        self._discard(queue)
        self.gathering.purged.add(queue)

    def drop(self, queue: int) -> None:
        """Delete all messages of a queue number that is never used again, in portions, one with
        each batch. After a crash the rest is listed in ``depths``."""
        self._discard(queue)
        self.gathering.dropped.add(queue)

    def _discard(self, queue: int) -> None:
        """Forget the pending changes of a queue."""
        self.pending_octets -= self.gathering.drop_queue(queue)
        for key in [key for key in self.unnamed if key >> SHIFT == queue]:
            del self.unnamed[key]
        self.changed = self.mark
        self.dirty = True

    def delivered(self, queue: int, position: int) -> None:
        """Raise the delivered mark. A batch with only such marks is written without a sync."""
        marks = self.gathering.delivered
        if position > marks.get(queue, 0):
            marks[queue] = position
            self.dirty = True

    # --- batches --------------------------------------------------------------------------------

    @property
    def patient(self) -> bool:
        """Whether the gathering batch holds nothing but packed entries of transient messages."""
        return self.gathering.packed_only and not self.writer.doomed

    @property
    def gathered_octets(self) -> int:
        """Octets in it."""
        return self.pending_octets - self._taken_octets

    def take(self) -> Gathered | None:
        """Close the gathering batch; ``None`` if it is empty (see above for marks)."""
        self._settle_written()
        if not self.dirty:
            return None
        batch = self.gathering
        batch.waiting = self.pending_octets - self._taken_octets
        self._taken_octets += batch.waiting
        self.taken.append(batch)
        self.mark += 1
        self.gathering = Gathered(self.mark)
        # Each portion of a dropped queue is removed with a batch, an empty one if necessary.
        self.dirty = bool(batch.dropped or self.writer.doomed)
        return batch

    def write(self, batch: Batch) -> None:
        """Make the oldest taken batch durable. On ``StoreError`` nothing is written, and the same
        batch may be written again. Any other exception is a bug, and a retry does not help."""
        if not isinstance(batch, Gathered):
            raise LocalError("not a batch of this store")
        if batch.mark != self.safe + 1:
            raise LocalError("batches are written once and in order")
        with disk_errors("cannot write"):
            try:
                self.writer.write(batch)
            except NO_FAULT_OF_THE_DISK as error:
                raise LocalError(f"a statement of ours is wrong: {error}") from error
        self.safe = batch.mark
        batch.written = True

    def _settle_written(self) -> None:
        while self.taken and self.taken[0].written:
            batch = self.taken.pop(0)
            self.pending_octets -= batch.waiting
            self._taken_octets -= batch.waiting

    # --- reading, on the loop thread ------------------------------------------------------------

    def depths(self) -> dict[int, Depth]:
        """The depth of each queue when the store was opened; empty queues are absent."""
        return self.found

    def records(self, *kinds: str) -> list[Record]:
        """All current records, or those of the given kinds, sorted by kind and key, including those
        not written yet. 25 records take about a millisecond."""
        self._settle_written()  # written records may have been changed by a tool since
        layers = [*self.taken, self.gathering]
        with disk_errors("cannot read records"):
            found = read_records(self.reader, kinds)
        for batch in layers:
            for key, value in batch.records.items():
                if kinds and key[0] not in kinds:
                    continue
                if value is None:
                    found.pop(key, None)
                elif value is UNDER:
                    for under in [k for k in found if k[0] == key[0] and k[1].startswith(key[1])]:
                        del found[under]
                else:
                    found[key] = value
        return decode_records(found)

    def changed_elsewhere(self) -> bool:
        """Whether a tool has changed records since the last call. Cheap: reads one row."""
        with disk_errors("cannot read records"):
            edits = count_edits(self.reader)
        changed, self.edits = edits != self.edits, edits
        return changed

    def read(self, queue: int, start: int, limit: int) -> list[StoredMessage]:
        """Messages from ``start`` on. Messages that are not written yet are the appended
        objects."""
        # the layers first: a batch that is committed meanwhile is seen twice, which is harmless
        self._settle_written()
        hidden: set[int] = set()
        ranges: Ranges = []
        waiting: dict[int, Put] = {}
        stored = True
        for batch in [*self.taken, self.gathering]:
            if queue in batch.purged:
                stored = False
                waiting.clear()
            cuts = batch.cuts.get(queue)
            if cuts:
                hidden |= cuts
                for position in cuts & waiting.keys():
                    del waiting[position]
            if queue in batch.ranges:
                ranges += batch.ranges[queue]
                more = joined(batch.ranges[queue])
                for position in [position for position in waiting if within(more, position)]:
                    del waiting[position]
            waiting.update(batch.puts.get(queue, ()))
        found: dict[int, StoredMessage] = {}
        if stored:
            begin = start
            ranges = joined(ranges)
            for first, last in ranges:
                if first <= begin <= last:
                    begin = last + 1
            with disk_errors(f"cannot read queue {queue}"):
                for table in self.writer.tables({queue}):
                    self._read_table(table, queue, begin, limit, (hidden, ranges), found)
        for position, (message, expires, _, _) in waiting.items():
            if position >= start:
                found[position] = StoredMessage(position, message, expires)
        return [found[position] for position in sorted(found)[:limit]]

    def _read_table(
        self, table: str, queue: int, start: int, limit: int,
        removed: tuple[set[int], Ranges], found: dict[int, StoredMessage],
    ) -> None:  # fmt: skip
        """Add up to ``limit`` visible rows. The cursor is closed early, because an open one keeps
        the WAL from being reset."""
        base = queue << SHIFT
        hidden, ranges = removed
        source = "shares s JOIN bodies b ON b.id = s.body" if table == "shares" else f"{table} s"
        body = "b.body" if table == "shares" else "s.body"
        sql = f"SELECT s.id, s.head, {body} FROM {source} WHERE s.id BETWEEN ? AND ? ORDER BY s.id"
        left = limit
        with closing(self.reader.execute(sql, (base + start, base + POSITIONS - 1))) as rows:
            for key, head, content in rows:
                position = key - base
                if position in hidden or (ranges and within(ranges, position)):
                    continue
                if left <= 0:
                    break
                try:
                    if content.__class__ is int:
                        # The number of a file, or the marker of a file without a name.
                        content = (
                            self.unnamed[key] if not content else self.large_files.open(content)
                        )
                    message, expires = self.unpacker.message(head, content)
                except (StoreError, FileNotFoundError, KeyError) as error:
                    self._pass_over(key, error)
                    continue
                found[position] = StoredMessage(position, message, expires)
                left -= 1

    def _pass_over(self, key: int, error: Exception) -> None:
        """Skip a message that cannot be read. It stays in the store for inspection, or for the
        newer gateway that wrote it."""
        if key not in self.damaged:
            self.damaged.add(key)
            where = f"message {key % POSITIONS} of queue number {key >> SHIFT}"
            self.report(f"{where} is skipped: {error}")

    # --- the end --------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Checkpoint the WAL and return unused pages, for a few milliseconds. Called when idle, on
        the thread of ``write`` and never concurrently with it."""
        with disk_errors("cannot tidy"):
            self.writer.shrink()
            self.writer.checkpoint()

    def close(self) -> None:
        """Write pending changes, checkpoint the WAL and unlock the directory. Must not run during a
        ``write``. Raises ``StoreError`` if pending changes could not be written; the directory is
        unlocked in any case."""
        if self.closed:
            return
        try:
            self.take()
            for batch in self.taken:
                if not batch.written:
                    self.write(batch)
            self._settle_written()
            with disk_errors("cannot close"):
                self.block_files.close()
                self.writer.checkpoint("TRUNCATE")
        finally:
            self._let_go()
        forget_paged(self.paged)
        if self.paged.parent != self.directory:
            self.paged.parent.rmdir()

    def abandon(self) -> None:
        """Release all resources without writing, like a crash of the process."""
        self._let_go()

    def _let_go(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._disconnect()
        files = getattr(self, "block_files", None)
        if files is not None:
            with suppress(OSError):
                files.close()
        os.close(self.lock)

    def _disconnect(self) -> None:
        for connection in reversed(getattr(self, "_connections", ())):
            with suppress(sqlite3.Error):
                connection.close()


def _joined(one: Depth, other: Depth) -> Depth:
    return Depth(
        one.messages + other.messages,
        one.octets + other.octets,
        min(one.first, other.first),
        max(one.last, other.last),
        0,
    )
