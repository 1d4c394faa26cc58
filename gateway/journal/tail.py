"""The entries that are in the store, read beside the gateway that writes them.

Reads are short transactions of a connection of their own, so they show committed entries alone, and
never keep the write-ahead log from being reset.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from gateway.adapters import registry as _dialects
from gateway.bodies import Body
from gateway.broker.journal import ADDRESS, ENTRY, INDEX
from gateway.errors import StoreError
from gateway.journal.entries import NOBODY, Entry, JournalError, Portion, Publisher, Question, Span
from gateway.store.batch import POSITIONS, SHIFT
from gateway.store.large import open_large
from gateway.store.plain import read_plain
from gateway.store.rows import Unpacker
from gateway.store.schema import APPLICATION, FORMAT, disk_errors

assert _dialects  # registers the dialects of stored messages

SOURCE = "journal"
"""Kind of the records of durable event sources (``gateway.http.events.durable``)."""
ROWS = 4096
"""Entries of the index that are looked at in one transaction."""


class Head(NamedTuple):
    """The journal's id, and the numbers of its index and its origins."""

    id: str
    index_lane: int
    origin_lane: int


class Ranges(NamedTuple):
    """Rows of the store: the first and last offsets by number of the address, and the ``key`` of
    the index (the first position of a batch) before which none is needed; 0: nothing is to be
    removed."""

    offsets: dict[int, tuple[int, int]]
    key: int


class Located(NamedTuple):
    """An entry of the index: where its row is."""

    pos: int
    number: int
    offset: int
    origin: int


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
        self._unpacker = Unpacker()
        self._names: dict[int, tuple[str, str]] = {}
        self._publishers: dict[int, Publisher] = {}
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

    # --- what there is --------------------------------------------------------------------------

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
        return Head(value["id"], value["index"], value["origins"])

    def span(self) -> Span:
        """The positions in the store. The gateway has given out none from its end on, as far as
        readers may know."""
        with self._reading():
            head = self._head()
            return Span(0, 0) if head is None else self._span(head)

    def _span(self, head: Head) -> Span:
        base = head.index_lane << SHIFT
        first, last = self._connection.execute(
            "SELECT min(id), max(id) FROM messages WHERE id BETWEEN ? AND ?",
            [base, base + POSITIONS - 1],
        ).fetchone()
        if first is None:
            row = self._connection.execute(
                "SELECT value FROM records WHERE kind = ?", [INDEX]
            ).fetchone()
            end = read_plain(row[0])["next"]
            return Span(end, end)
        (octets,) = self._connection.execute(
            "SELECT length(body) FROM messages WHERE id = ?", [last]
        ).fetchone()
        return Span(first - base, last - base + octets // ENTRY.size)

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
            text = name[0] if kind == ADDRESS else source_address(*name)
            self._names[read_plain(value)["number"]] = vhost, text
        return self._names

    def octets(self) -> int:
        """Octets of all entries in the store."""
        with self._reading():
            total = 0
            for number in self._read_names():
                bounds = [number << SHIFT, (number + 1 << SHIFT) - 1]
                for table in ("messages", "shares"):
                    sql = f"SELECT ifnull(sum(octets), 0) FROM {table} WHERE id BETWEEN ? AND ?"
                    total += self._connection.execute(sql, bounds).fetchone()[0]
            return total

    def ranges(self, end: int) -> Ranges:
        """The rows of all batches that end before a position."""
        start, last = self.span()
        if end < last:
            end = self._batch(end)
        if end <= start:
            return Ranges({}, 0)
        key = end
        offsets: dict[int, tuple[int, int]] = {}
        while start < end:
            with self._reading():
                head = self._head()
                assert head is not None
                located, reached = self._locate(head, start, end)
            for one in located:
                low, high = offsets.get(one.number, (one.offset, one.offset))
                offsets[one.number] = min(low, one.offset), max(high, one.offset)
            if reached <= start:
                break
            start = reached
        return Ranges(offsets, key)

    def _batch(self, position: int) -> int:
        """The first position of the batch that has this one."""
        with self._reading():
            head = self._head()
            if head is None:
                return 0
            base = head.index_lane << SHIFT
            sql = "SELECT max(id) FROM messages WHERE id BETWEEN ? AND ?"
            (found,) = self._connection.execute(sql, [base, base + position]).fetchone()
            return 0 if found is None else int(found) - base

    # --- entries --------------------------------------------------------------------------------

    def read(self, start: int, question: Question, end: int | None = None) -> Portion:
        """Entries from a position on. ``next`` is beyond the last that was looked at."""
        with self._reading():
            head = self._head()
            if head is None:
                return Portion([], start)
            located, reached = self._locate(head, start, end)
            names = self._names
            if any(one.number not in names for one in located):
                names = self._read_names()
            known = [
                one
                for one in located
                if one.number in names and question.wanted(*names[one.number])
            ]
            sizes = self._sizes(known)
            taken: list[Located] = []
            octets = 0
            for one in known:
                size = sizes.get(one[1:3])
                if size is None:
                    continue  # its event source has let go of it
                if taken and (len(taken) >= question.entries or octets + size > question.octets):
                    reached = one.pos
                    break
                taken.append(one)
                octets += size if question.bodies else 0
            return Portion(self._entries(head, taken, sizes, question.bodies), reached)

    def _locate(self, head: Head, start: int, end: int | None) -> tuple[list[Located], int]:
        """Where the rows of entries are, and the position behind the last."""
        base = head.index_lane << SHIFT
        located: list[Located] = []
        reached = start
        sql = (
            "SELECT id, body FROM messages WHERE id >= ifnull((SELECT max(id) FROM messages"
            " WHERE id BETWEEN ? AND ?), ?) AND id < ? ORDER BY id"
        )
        bounds = [base, base + start, base, base + POSITIONS]
        with closing(self._connection.execute(sql, bounds)) as rows:
            for key, octets in rows:
                first = key - base
                if first > start and not located and first > reached:
                    reached = first
                for pos, entry in enumerate(ENTRY.iter_unpack(octets), first):
                    if pos < start:
                        continue
                    if len(located) >= ROWS or (end is not None and pos >= end):
                        return located, reached
                    located.append(Located(pos, *entry))
                    reached = pos + 1
        return located, reached

    def _ranges(self, located: list[Located]) -> Iterator[tuple[int, int]]:
        """First and last keys of rows: those between them belong to entries between these."""
        bounds: dict[int, tuple[int, int]] = {}
        for one in located:
            low, high = bounds.get(one.number, (one.offset, one.offset))
            bounds[one.number] = min(low, one.offset), max(high, one.offset)
        for number, (low, high) in bounds.items():
            yield number << SHIFT | low, number << SHIFT | high

    def _sizes(self, located: list[Located]) -> dict[tuple[int, ...], int]:
        """Octets of header and body, by number and offset."""
        found: dict[tuple[int, ...], int] = {}
        for bounds in self._ranges(located):
            for table in ("messages", "shares"):
                sql = f"SELECT id, octets FROM {table} WHERE id BETWEEN ? AND ?"
                for key, octets in self._connection.execute(sql, bounds):
                    found[key >> SHIFT, key % POSITIONS] = octets
        return found

    def _entries(
        self, head: Head, located: list[Located], sizes: dict[tuple[int, ...], int], bodies: bool
    ) -> list[Entry]:
        rows: dict[tuple[int, int], tuple[bytes, Any]] = {}
        for bounds in self._ranges(located):
            for sql in (
                f"SELECT id, head, {'body' if bodies else 'NULL'} FROM messages",
                f"SELECT s.id, s.head, {'b.body' if bodies else 'NULL'} FROM shares s"
                " JOIN bodies b ON b.id = s.body",
            ):
                where = (
                    " WHERE s.id BETWEEN ? AND ?" if " s" in sql else " WHERE id BETWEEN ? AND ?"
                )
                for key, packed, body in self._connection.execute(sql + where, bounds):
                    rows[key >> SHIFT, key % POSITIONS] = packed, body
        found: list[Entry] = []
        for one in located:
            row = rows.get((one.number, one.offset))
            if row is None:
                continue
            packed, content = row
            try:
                body = self._body(content)
                message, stamp = self._unpacker.message(packed, body)
            except (StoreError, OSError):
                continue  # the store has reported it
            size = sizes[one.number, one.offset] - len(message.header)
            vhost, address = self._names[one.number]
            publisher = self._publisher(head, one.origin)
            found.append(
                Entry(one.pos, stamp or 0, vhost, address, one.offset, publisher, message, size)
            )
        return found

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
