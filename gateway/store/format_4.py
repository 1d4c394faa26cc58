"""The journal of format 4, which had a row for each entry, and an index.

A row of the index had its first position as key, and for each entry the number of its address, its
offset and its origin. The row of a message had a head as in ``rows``, whose time was that of its
arrival. Bodies that queues had too were in ``shares`` already, and stay there.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from struct import Struct
from typing import Any

from gateway.broker.store import RecordedRun
from gateway.store.batch import POSITIONS, SHIFT
from gateway.store.blocks import pack_columns, pack_runs
from gateway.store.plain import read_plain
from gateway.store.rows import split_head

_ENTRY = Struct(">IQI")
_ENTRIES = 256
"""In one block."""
_TABLE = """CREATE TABLE journal
  (id INTEGER PRIMARY KEY, count INTEGER, octets INTEGER, runs BLOB, head BLOB, body BLOB)"""


def entries_to_blocks(connection: sqlite3.Connection) -> None:
    """Write the rows of the index and of the entries as blocks."""
    connection.execute("ALTER TABLE journal RENAME TO entries")
    connection.execute(_TABLE)
    row = connection.execute("SELECT value FROM records WHERE kind = 'journal-index'").fetchone()
    if row is not None:
        head = read_plain(row[0])
        base = head["index"] << SHIFT
        bounds = [base, base + POSITIONS - 1]
        sql = "SELECT id, body FROM messages WHERE id BETWEEN ? AND ? ORDER BY id"
        with closing(connection.execute(sql, bounds)) as batches:
            for key, index in batches:
                for block in _blocks(connection, head["lane"] << SHIFT, key - base, index):
                    connection.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?)", block)
        connection.execute("DELETE FROM messages WHERE id BETWEEN ? AND ?", bounds)
    connection.execute("DROP TABLE entries")


def _blocks(
    connection: sqlite3.Connection, lane: int, first: int, index: bytes
) -> Iterator[tuple[Any, ...]]:
    entries = list(_ENTRY.iter_unpack(index))
    for at in range(0, len(entries), _ENTRIES):
        yield _block(connection, lane + first + at, entries[at : at + _ENTRIES])


def _block(
    connection: sqlite3.Connection, key: int, entries: list[tuple[int, int, int]]
) -> tuple[Any, ...]:
    bounds = [key, key + len(entries) - 1]
    rows = {
        one: (octets, head, body)
        for table, column in (("entries", "body"), ("shares", "NULL"))
        for one, octets, head, body in connection.execute(
            f"SELECT id, octets, head, {column} FROM {table} WHERE id BETWEEN ? AND ?", bounds
        )
    }
    keys: list[bytes] = []
    headers: list[bytes] = []
    bodies: list[bytes] = []
    added: dict[int, bytes] = {}
    apart: dict[int, int] = {}
    runs: list[RecordedRun] = []
    for at, (number, offset, origin) in enumerate(entries):
        octets, head, body = rows.get(key + at, (0, None, None))
        if head is None:  # of an event source
            run = RecordedRun(1, number, offset, origin, 0, "", "")
            routing_key = header = b""
        else:
            dialect, exchange, routing_key, stamp, note, header = split_head(bytes(head))
            run = RecordedRun(1, number, offset, origin, stamp or 0, dialect, exchange)
            if note is not None:
                added[at] = note
            if body is None:
                apart[at] = octets - len(header)
        keys.append(routing_key)
        headers.append(header)
        bodies.append(bytes(body or b""))
        _extend(runs, run)
    head, body = pack_columns(keys, headers, bodies, added, apart)
    octets = sum(map(len, headers)) + len(body)
    return key, len(entries), octets, pack_runs(runs), head, body


def _extend(runs: list[RecordedRun], run: RecordedRun) -> None:
    """Add a run of one entry, to the last one if it fits."""
    if runs:
        last = runs[-1]
        if run == last._replace(entries=1, offset=last.offset + last.entries):
            runs[-1] = last._replace(entries=last.entries + 1)
            return
    runs.append(run)
