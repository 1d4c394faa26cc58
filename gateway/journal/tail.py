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
DENSE = 4
"""A run of keys is dense if it has one in so many."""
ROWS = 4096
"""Entries of the index that are looked at in one transaction."""


class Head(NamedTuple):
    """The journal's id, and the numbers of its index, its publishers and its messages."""

    id: str
    index_lane: int
    origin_lane: int
    lane: int


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
        self._unpacker = Unpacker(bare=True)
        self._names: dict[int, tuple[str, str]] = {}
        self._sources: set[int] = set()
        """Numbers of event sources, which have rows of their own."""
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
        return Head(value["id"], value["index"], value["origins"], value["lane"])

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
            number = read_plain(value)["number"]
            self._names[number] = vhost, text
            if kind == SOURCE:
                self._sources.add(number)
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
        """The batches in the store that end at or before a position."""
        start, last = self.span()
        if end >= last:
            return Span(start, last)
        with self._reading():
            head = self._head()
            assert head is not None
            base = head.index_lane << SHIFT
            sql = "SELECT max(id) FROM messages WHERE id BETWEEN ? AND ?"
            (found,) = self._connection.execute(sql, [base, base + end]).fetchone()
            return Span(start, start if found is None else int(found) - base)

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
            keys = [self._key(head, one) for one in known]
            sizes = self._sizes(keys)
            taken: list[tuple[int, Located]] = []
            octets = 0
            for key, one in zip(keys, known, strict=True):
                size = sizes.get(key)
                if size is None:
                    continue  # its event source has let go of it
                if taken and (len(taken) >= question.entries or octets + size > question.octets):
                    reached = one.pos
                    break
                taken.append((key, one))
                octets += size if question.bodies else 0
            return Portion(self._entries(head, taken, sizes, question.bodies), reached)

    def _key(self, head: Head, one: Located) -> int:
        """The key of the row with its message."""
        if one.number in self._sources:
            return one.number << SHIFT | one.offset
        return head.lane << SHIFT | one.pos

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
                for table in ("messages s", "journal s", "shares s"):
                    source, chosen = table, columns
                    if table.startswith("shares"):
                        source += " JOIN bodies b ON b.id = s.body"
                        chosen = columns.replace("s.body", "b.body")
                    sql = f"SELECT s.id, {chosen} FROM {source} WHERE {where}"
                    yield from self._connection.execute(sql, values)

    def _sizes(self, keys: list[int]) -> dict[int, int]:
        """Octets of header and body, by key."""
        return dict(self._rows(keys, "s.octets"))

    def _entries(
        self, head: Head, taken: list[tuple[int, Located]], sizes: dict[int, int], bodies: bool
    ) -> list[Entry]:
        columns = "s.head, s.body" if bodies else "s.head, NULL"
        keys = [key for key, _ in taken]
        rows = {key: (packed, body) for key, packed, body in self._rows(keys, columns)}
        found: list[Entry] = []
        for key, one in taken:
            row = rows.get(key)
            if row is None:
                continue
            packed, content = row
            try:
                body = self._body(content)
                message, stamp = self._unpacker.message(packed, body)
            except (StoreError, OSError):
                continue  # the store has reported it
            size = sizes[key] - len(message.header)
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
