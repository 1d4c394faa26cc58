"""The entries that are in the store, read beside the gateway that writes them.

Reads are short transactions of a connection of their own, so they show committed entries alone, and
never keep the write-ahead log from being reset.
"""

import json
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from gateway.adapters import registry as _dialects
from gateway.bodies import Body
from gateway.broker.journal import ADDRESS, INDEX, SOURCE
from gateway.broker.store import RecordedRun
from gateway.errors import StoreError
from gateway.journal.entries import (
    NOBODY,
    Entry,
    JournalError,
    Portion,
    Publisher,
    Question,
    Span,
    Vanished,
)
from gateway.message import DIALECTS, NO_ESSENTIALS, Message
from gateway.store.batch import POSITIONS, SHIFT
from gateway.store.block_files import read_block
from gateway.store.blocks import Block, unpack_runs, written_before
from gateway.store.large import open_large
from gateway.store.plain import read_plain
from gateway.store.rows import Unpacker
from gateway.store.schema import APPLICATION, FORMAT, disk_errors

assert _dialects  # registers the dialects of stored messages

DENSE = 4
"""A run of keys is dense if it has one in so many."""
AHEAD = 64
"""Blocks of one batch for which the next batch is looked for."""
ROWS = 4096
"""Entries that are looked at in one transaction, or one block of them."""


class Head(NamedTuple):
    """The journal's id, and the numbers of its publishers and of itself. ``written``: first
    position and end of a batch, and when it was on disk, ms since 1970."""

    id: str
    origin_lane: int
    lane: int
    written: tuple[int, int, int]

    def key(self, position: int) -> int:
        """Of the row of a position. All beyond those that a journal can have are as the last."""
        return (self.lane << SHIFT) + min(position, POSITIONS - 1)

    def time_of(self, first: int, written: int) -> int:
        """When a block was on disk, if the next batch has not told it (0)."""
        start, end, when = self.written
        return when if not written and start <= first < end else written


class Located(NamedTuple):
    """An entry: its index ``at`` in a block, its run, and its offset. ``key`` is of the row that
    has its message, or its body; 0 if that is the block. ``size`` are the octets of its body,
    ``octets`` with those of its header."""

    block: Block
    at: int
    run: RecordedRun
    offset: int
    key: int
    size: int
    octets: int

    @property
    def pos(self) -> int:
        return self.block.first + self.at


class Run(NamedTuple):
    """Entries of one address that follow each other: the position and the offset of the first, and
    how many they are. ``source``: of an event source, which has rows of its own under this
    number."""

    pos: int
    number: int
    offset: int
    entries: int
    address: tuple[str, str]
    source: bool


def source_address(exchange: str, binding: str) -> str:
    """The address of a durable event source."""
    return f"/exchanges/{quote(exchange, safe='')}?binding={quote(binding, safe='')}"


class Tail:
    """The store of a data directory. Not for several threads at once. Raises ``JournalError`` if
    there is none that this version knows."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        file = directory / "gateway.db"
        if not file.is_file():
            raise JournalError(f"{directory} has no gateway.db")
        try:
            self._connection = sqlite3.connect(
                f"file:{quote(str(file))}?mode=ro", uri=True, isolation_level=None,
                check_same_thread=False, timeout=10,
            )  # fmt: skip
        except sqlite3.Error as error:
            raise JournalError(f"{file}: {error}") from error
        self._unpacker = Unpacker(bare=True)
        self._names: dict[int, tuple[str, str]] = {}
        self._publishers: dict[int, Publisher] = {}
        self._last: tuple[int, bool, Block] | None = None
        """The block that was read last: its key, and whether with its bodies."""
        try:
            with self._reading():
                found = [
                    self._connection.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("application_id", "user_version")
                ]
        except JournalError:
            self._connection.close()
            raise
        if found != [APPLICATION, FORMAT]:
            self._connection.close()
            raise JournalError(f"{file} is not the store of a gateway of this version")

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """One transaction: what is read in it is of one moment."""
        try:
            with disk_errors(f"cannot read {self.directory}"):
                self._connection.execute("BEGIN")
                try:
                    yield
                finally:
                    self._connection.execute("COMMIT")
        except StoreError as error:
            raise JournalError(str(error)) from error

    # --- positions ------------------------------------------------------------------------------

    def head(self) -> Head | None:
        """``None`` before the first entry."""
        with self._reading():
            return self._head()

    def _head(self) -> Head | None:
        row = self._connection.execute(
            "SELECT value FROM records WHERE kind = ?", [INDEX]
        ).fetchone()
        if row is None:
            return None
        value = read_plain(row[0])
        start, end, when = value.get("written", (0, 0, 0))
        return Head(value["id"], value["origins"], value["lane"], (start, end, when))

    def span(self) -> Span:
        """The positions in the store. The gateway has given out none from its end on, as far as
        readers may know."""
        with self._reading():
            head = self._head()
            return Span(0, 0) if head is None else self._span(head)

    def _span(self, head: Head) -> Span:
        base = head.lane << SHIFT
        first, last = self._connection.execute("SELECT min(id), max(id) FROM journal").fetchone()
        if first is None:
            row = self._connection.execute(
                "SELECT value FROM records WHERE kind = ?", [INDEX]
            ).fetchone()
            end = read_plain(row[0])["next"]
            return Span(end, end)
        (count,) = self._connection.execute(
            "SELECT count FROM journal WHERE id = ?", [last]
        ).fetchone()
        return Span(first - base, last - base + count)

    def addresses(self) -> dict[int, tuple[str, str]]:
        """Virtual hosts and names of all addresses, by their numbers in the store."""
        with self._reading():
            return dict(self._read_names())

    def _read_names(self) -> dict[int, tuple[str, str]]:
        rows = self._connection.execute(
            "SELECT kind, key, value FROM records WHERE kind IN (?, ?)", [ADDRESS, SOURCE]
        )
        for kind, key, value in rows:
            vhost, *name = read_plain(key)
            # The key of a source that was given up has a number more.
            text = name[0] if kind == ADDRESS else source_address(*name[:2])
            number = read_plain(value)["number"]
            self._names[number] = vhost, text
        return self._names

    def octets(self) -> int:
        """Octets of all messages in the store that were recorded."""
        with self._reading():
            head = self._head()
            if head is None:
                return 0
            (total,) = self._connection.execute(
                "SELECT ifnull(sum(octets), 0) FROM journal"
            ).fetchone()
            bounds = [head.lane << SHIFT, (head.lane + 1 << SHIFT) - 1]
            sql = "SELECT ifnull(sum(octets), 0) FROM shares WHERE id BETWEEN ? AND ?"
            return int(total) + int(self._connection.execute(sql, bounds).fetchone()[0])

    def batches(self, end: int) -> Span:
        """The blocks in the store that end at or before a position."""
        start, last = self.span()
        if end >= last:
            return Span(start, last)
        with self._reading():
            head = self._head()
            assert head is not None
            base = head.lane << SHIFT
            sql = "SELECT max(id) FROM journal WHERE id <= ?"
            (found,) = self._connection.execute(sql, [head.key(end)]).fetchone()
            return Span(start, start if found is None else int(found) - base)

    def runs(self, start: int, end: int) -> tuple[list[Run], int]:
        """Where some entries from a position on are, and how far was looked."""
        found: list[Run] = []
        with self._reading():
            head = self._head()
            if head is None:
                return [], end
            base = head.lane << SHIFT
            names = self._read_names()
            for key, count, _, packed, _ in self._list(head.key(start)):
                at = key - base
                if found and (at >= end or at + count - found[0].pos > ROWS):
                    return found, at
                for run in unpack_runs(packed):
                    first, at = max(at, start), at + run.entries
                    entries = min(at, end) - first
                    if entries > 0:
                        offset = run.offset + first - (at - run.entries)
                        address = names.get(run.number, ("", ""))
                        source = not run.dialect
                        found.append(Run(first, run.number, offset, entries, address, source))
        return found, end

    # --- entries --------------------------------------------------------------------------------

    def blocks(self, start: int, end: int, octets: int) -> list[Block]:
        """The blocks from the one with a position on, and before another, as they are, up to so
        many octets or one."""
        with self._reading():
            head = self._head()
            if head is None:
                return []
            base = head.lane << SHIFT
            found: list[Block] = []
            for key, count, size, runs, packed, body, written in self._list(
                head.key(start), "head", "body"
            ):
                octets -= size
                if key - base >= end or (found and octets < 0):
                    break
                written = head.time_of(key - base, written)
                contents = self._contents(packed, body, True)
                found.append(Block(key - base, count, unpack_runs(runs), *contents, written))
            return found

    def publishers(self, numbers: Iterable[int]) -> dict[int, Publisher]:
        """Those with these numbers."""
        with self._reading():
            head = self._head()
            return {} if head is None else {one: self._publisher(head, one) for one in numbers}

    def read(self, start: int, question: Question, end: int | None = None) -> Portion:
        """Entries from a position on. ``next`` is beyond the last that was looked at."""
        with self._reading():
            head = self._head()
            if head is None:
                return Portion([], start)
            base = head.lane << SHIFT
            taken: list[Located] = []
            reached = start
            octets = looked = 0
            for key, count, _, packed, written in self._list(head.key(start)):
                first = key - base
                if looked and looked + count > ROWS or (end is not None and first >= end):
                    break
                looked += count
                runs = unpack_runs(packed)
                reached = max(reached, first)
                until = first + count if end is None else min(end, first + count)
                if self._any(runs, question):
                    written = head.time_of(first, written)
                    block = self._block(key, first, count, runs, question.bodies, written)
                    for one in self._locate(head, block, reached, until, question):
                        if taken and (
                            len(taken) >= question.entries or octets + one.octets > question.octets
                        ):
                            return Portion(self._entries(head, taken, question), one.pos)
                        taken.append(one)
                        octets += one.octets if question.bodies else 0
                reached = until
            return Portion(self._entries(head, taken, question), reached)

    def _list(self, key: int, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Keys, counts, octets, runs and further ``columns`` of the blocks from the one on that has
        an entry with this key, and when they were on disk, which the next batch says; 0 if there is
        none."""
        sql = (
            f"SELECT {', '.join(('id, count, octets, runs', *columns))} FROM journal"
            " WHERE id >= ifnull((SELECT max(id) FROM journal WHERE id <= ?), ?) ORDER BY id"
        )
        with closing(self._connection.execute(sql, [key, key])) as rows:
            waiting: deque[tuple[Any, ...]] = deque()
            for row in rows:
                written = written_before(row[3])
                while waiting and (written is not None or len(waiting) >= AHEAD):
                    yield (*waiting.popleft(), written or 0)
                if row[0] + row[1] > key:
                    waiting.append(row)
            for row in waiting:
                yield (*row, 0)

    def _block(
        self, key: int, first: int, count: int, runs: list[RecordedRun], bodies: bool, written: int
    ) -> Block:
        if self._last is not None and self._last[:2] == (key, bodies):
            self._last[2].written = written
            return self._last[2]
        columns = "head, body" if bodies else "head, iif(typeof(body) = 'integer', body, NULL)"
        head, body = self._connection.execute(
            f"SELECT {columns} FROM journal WHERE id = ?", [key]
        ).fetchone()
        contents = self._contents(head, body, bodies)
        block = Block(first, count, runs, *contents, written)
        self._last = key, bodies, block
        return block

    def _contents(self, head: Any, body: Any, bodies: bool) -> tuple[bytes, bytes]:
        """The head and the body of a block with these columns."""
        if not isinstance(head, int):
            return head, body or b""
        try:
            return read_block(self.directory, head, body, bodies)
        except FileNotFoundError as error:
            raise Vanished(f"a file of the journal has gone: {error}") from error

    def _any(self, runs: list[RecordedRun], question: Question) -> bool:
        """Whether any of these entries is wanted. Names that are not known are read."""
        names = self._names
        if any(run.number not in names for run in runs):
            names = self._read_names()
        return any(run.number in names and question.wanted(*names[run.number]) for run in runs)

    def _locate(
        self, head: Head, block: Block, start: int, end: int, question: Question
    ) -> list[Located]:
        """The wanted entries of a block that are there."""
        found: list[Located] = []
        at = 0
        for run in block.runs:
            first, at = at, at + run.entries
            known = self._names.get(run.number)
            if known is None or not question.wanted(*known):
                continue
            for index in range(max(first, start - block.first), min(at, end - block.first)):
                offset = run.offset + index - first
                size = block.size(index)
                octets = size + block.headers[index + 1] - block.headers[index]
                key = 0
                if not run.dialect:
                    key = run.number << SHIFT | offset
                elif index in block.apart:
                    key = head.lane << SHIFT | block.first + index
                found.append(Located(block, index, run, offset, key, size, octets))
        elsewhere = [one.key for one in found if one.key and not one.run.dialect]
        if elsewhere:
            sizes = dict(self._rows(elsewhere, "s.octets"))
            # Event sources have let go of others.
            found = [
                one._replace(octets=sizes[one.key]) if one.key in sizes else one
                for one in found
                if one.run.dialect or one.key in sizes
            ]
        return found

    def _rows(self, keys: list[int], columns: str) -> Iterator[Any]:
        """These columns of the rows with these keys, which ascend for each number. Runs that are
        dense are read as ranges, with rows that nobody has asked for."""
        lanes: dict[int, list[int]] = {}
        for key in keys:
            lanes.setdefault(key >> SHIFT, []).append(key)
        for found in lanes.values():
            dense = found[-1] - found[0] < DENSE * len(found)
            groups = (
                [found] if dense else [found[at : at + 500] for at in range(0, len(found), 500)]
            )
            for group in groups:
                marks = ", ".join("?" * len(group))
                where = "s.id BETWEEN ? AND ?" if dense else f"s.id IN ({marks})"
                values = [group[0], group[-1]] if dense else group
                for table in ("messages s", "shares s"):
                    source, chosen = table, columns
                    if table.startswith("shares"):
                        source += " JOIN bodies b ON b.id = s.body"
                        chosen = columns.replace("s.body", "b.body")
                    sql = f"SELECT s.id, {chosen} FROM {source} WHERE {where}"
                    yield from self._connection.execute(sql, values)

    def _entries(self, head: Head, taken: list[Located], question: Question) -> list[Entry]:
        columns = "s.head, s.body" if question.bodies else "s.head, NULL"
        keys = [one.key for one in taken if one.key and (question.bodies or not one.run.dialect)]
        rows = {key: (packed, body) for key, packed, body in self._rows(keys, columns)}
        found: list[Entry] = []
        for one in taken:
            block, run = one.block, one.run
            try:
                if run.dialect:
                    stamp, size = run.stamp, one.size
                    message = self._message(block, one.at, run)
                    if one.key and question.bodies:
                        message.body = self._body(rows[one.key][1])
                else:
                    packed, content = rows[one.key]
                    message, time = self._unpacker.message(packed, self._body(content))
                    stamp, size = time or 0, one.octets - len(message.header)
            except (StoreError, OSError, KeyError):
                continue  # the store has reported it
            vhost, address = self._names[run.number]
            publisher = self._publisher(head, run.origin)
            found.append(
                Entry(
                    one.pos, stamp, vhost, address, one.offset, publisher, message, size,
                    entered=run.entered, written=block.written,
                )
            )  # fmt: skip
        return found

    def _message(self, block: Block, index: int, run: RecordedRun) -> Message:
        dialect = DIALECTS.get(run.dialect)
        if dialect is None:
            raise StoreError(f"a message of the journal is in the unknown dialect {run.dialect!r}")
        added = block.added.get(index)
        return Message(
            dialect,
            block.header(index),
            block.content(index),
            run.exchange,
            block.key(index),
            NO_ESSENTIALS,
            None if added is None else read_plain(added),
        )

    def _body(self, content: Any) -> Body:
        if content is None:
            return b""
        if isinstance(content, int):
            return open_large(self.directory, content)
        return bytes(content)

    def _publisher(self, head: Head, number: int) -> Publisher:
        if not number:
            return NOBODY
        found = self._publishers.get(number)
        if found is None:
            row = self._connection.execute(
                "SELECT body FROM messages WHERE id = ?", [head.origin_lane << SHIFT | number]
            ).fetchone()
            given = {} if row is None else json.loads(bytes(row[0]))
            known = {name: str(given.get(name, "")) for name in Publisher._fields}
            found = Publisher(**known)
            if len(self._publishers) >= ROWS:
                self._publishers.clear()
            self._publishers[number] = found
        return found
