"""Rows of the table ``journal``: a *block* is a batch of entries, or a part of a large batch.

One row for many entries costs the writing thread a tenth of what one for each would, and its
columns are those of Arrow: sealing takes them as they are, without making an object for any entry.

    runs    what entries in a row share: for each run its fields, its dialect and its exchange
    head    four lengths u32 (keys, headers, added, number of bodies apart); then three lists of
            count + 1 offsets i32, of keys, headers and bodies; keys; headers; added headers as
            index u32, length u32, JSON; bodies apart as index u32, length u64
    body    the bodies, one after another

A run without entries is a note. The first block of each batch says when the batch before was on
disk, which nobody can know earlier: ms since 1970, or 0 if this process has written none before. A
run whose messages an upstream was waited for has a note before it: since when, in ms.

A block of messages *as they came* has no body: its head is how many pieces it has, the octets of
their layouts, 0, and 2**32 - 1; then the layouts (``Layout``, as u32 each, with the octets of the
routing key, which follow); then the pieces. ``Block`` makes the form above of them.

Numbers are little-endian. An entry of an event source has no message here: its run has no dialect,
and its message is a row under the source's number and the entry's offset. A body *apart* is a row
of ``shares`` under the journal's number and the entry's position.
"""

import sys
from array import array
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from operator import add
from struct import Struct, pack
from struct import error as StructError
from typing import Any, NamedTuple

from gateway.broker.store import MOST_ENTRIES, MOST_OCTETS, PackedEntries, Recorded, WireEntries
from gateway.broker.store import RecordedRun as Run
from gateway.errors import StoreError
from gateway.message import Message

_RUN = Struct("<IIQIqBH")
_HEAD = Struct("<IIII")
_ADDED = Struct("<II")
_APART = Struct("<IQ")
_LAYOUT = Struct("<IIIIII")
_ON_WIRE = 0xFFFFFFFF
_INT = 4
_WRITTEN, _ENTERED = 1, 2
"""Kinds of notes, in the place of the number of an address; the value is in that of the offset."""


class PackedBlock(NamedTuple):
    """The values of a row; head and body in pieces. ``first`` is a position."""

    first: int
    entries: int
    octets: int
    runs: bytes
    head: list[bytes | memoryview]
    body: list[bytes]


def pack_runs(runs: list[Run], written: int | None = None) -> bytes:
    """``written``: when the batch before was on disk."""
    parts: list[bytes] = []
    if written is not None:
        parts.append(_RUN.pack(0, _WRITTEN, written, 0, 0, 0, 0))
    for run in runs:
        if run.entered:
            parts.append(_RUN.pack(0, _ENTERED, run.entered, 0, 0, 0, 0))
        dialect = run.dialect.encode()
        exchange = run.exchange.encode("utf-8", "surrogatepass")
        parts += (_RUN.pack(*run[:5], len(dialect), len(exchange)), dialect, exchange)
    return b"".join(parts)


def unpack_runs(octets: bytes) -> list[Run]:
    """Raises ``StoreError``."""
    found: list[Run] = []
    at = entered = 0
    try:
        while at < len(octets):
            *fields, dialect, exchange = _RUN.unpack_from(octets, at)
            at += _RUN.size
            name = octets[at : at + dialect].decode()
            at += dialect + exchange
            text = octets[at - exchange : at].decode("utf-8", "surrogatepass")
            count, number, offset, origin, stamp = fields
            if count:
                found.append(Run(count, number, offset, origin, stamp, name, text, entered))
                entered = 0
            elif number == _ENTERED:
                entered = offset
    except (StructError, ValueError) as error:
        raise StoreError(f"a block of the journal is damaged: {error}") from error
    return found


def written_before(octets: bytes) -> int | None:
    """When the batch before that of this block was on disk, ms since 1970; 0 if nobody knows;
    ``None`` if it is the same batch."""
    if len(octets) < _RUN.size:
        return None
    count, kind, value = _RUN.unpack_from(octets)[:3]
    return value if not count and kind == _WRITTEN else None


def _starts(pieces: list[bytes]) -> list[int]:
    """Where each piece begins, and the end of the last."""
    return list(accumulate(map(len, pieces), initial=0))


def _numbers(starts: list[int]) -> bytes:
    # Several times as fast as an array of an iterator.
    return pack(f"<{len(starts)}i", *starts)


class _Columns(NamedTuple):
    """Keys, headers and bodies, and where each begins."""

    keys: list[bytes]
    headers: list[bytes]
    bodies: list[bytes]
    header_starts: list[int]
    body_starts: list[int]

    @property
    def octets(self) -> int:
        return self.header_starts[-1] + self.body_starts[-1]

    def pack(self, added: dict[int, bytes], apart: dict[int, int]) -> tuple[bytes, bytes]:
        """Head and body of a block. ``added`` and ``apart`` (octets of a body) are by index."""
        notes = [part for at, text in added.items() for part in (_ADDED.pack(at, len(text)), text)]
        key_starts, all_notes = _starts(self.keys), b"".join(notes)
        head = (
            _HEAD.pack(key_starts[-1], self.header_starts[-1], len(all_notes), len(apart)),
            _numbers(key_starts), _numbers(self.header_starts), _numbers(self.body_starts),
            *self.keys, *self.headers, all_notes,
            *(_APART.pack(*one) for one in apart.items()),
        )  # fmt: skip
        return b"".join(head), b"".join(self.bodies)


def _columns(keys: list[bytes], headers: list[bytes], bodies: list[bytes]) -> _Columns:
    return _Columns(keys, headers, bodies, _starts(headers), _starts(bodies))


def pack_columns(
    keys: list[bytes],
    headers: list[bytes],
    bodies: list[bytes],
    added: dict[int, bytes],
    apart: dict[int, int],
) -> tuple[bytes, bytes]:
    """Head and body of a block. ``added`` and ``apart`` (octets of a body) are by index."""
    return _columns(keys, headers, bodies).pack(added, apart)


def _keys(messages: list[Message]) -> list[bytes]:
    keys = [message.key for message in messages]
    encoded = {text: text.encode("utf-8", "surrogatepass") for text in set(keys)}
    return [encoded[text] for text in keys]


def pack_blocks(recorded: Recorded) -> Iterator[PackedBlock]:
    """The entries of a batch. Hot: no step for each entry but those of C, and comprehensions, which
    read an attribute in half of the time of ``attrgetter``."""
    messages, apart = recorded.messages, recorded.apart
    keys = _keys(messages)
    headers = [message.header for message in messages]
    bodies: list[Any] = [message.body for message in messages]
    for at in apart:
        bodies[at] = b""
    columns = _columns(keys, headers, bodies)
    count = len(messages)
    if count <= MOST_ENTRIES and columns.octets <= MOST_OCTETS:
        runs = [
            Run(until - run[0], *run[1:])
            for run, until in zip(recorded.runs, _ends(recorded.runs, count), strict=True)
        ]
        head, body = columns.pack(recorded.added, apart)
        packed = pack_runs(runs, recorded.before)
        yield PackedBlock(recorded.first, count, columns.octets, packed, [head], [body])
        return
    totals = list(map(add, columns.header_starts[1:], columns.body_starts[1:]))
    at = done = 0
    while at < count:
        end = min(max(bisect(totals, done + MOST_OCTETS), at + 1), at + MOST_ENTRIES)
        head, body = pack_columns(
            keys[at:end], headers[at:end], bodies[at:end],
            {one - at: text for one, text in recorded.added.items() if at <= one < end},
            {one - at: size for one, size in apart.items() if at <= one < end},
        )  # fmt: skip
        packed = pack_runs(_part(recorded, at, end), None if at else recorded.before)
        first, octets = recorded.first + at, totals[end - 1] - done
        yield PackedBlock(first, end - at, octets, packed, [head], [body])
        at, done = end, totals[end - 1]


def pack_entries(packed: PackedEntries | WireEntries) -> PackedBlock:
    """Packed entries, or those as they came, as a block."""
    count = len(packed)
    runs = [
        Run(until - run[0], *run[1:])
        for run, until in zip(packed.runs, _ends(packed.runs, count), strict=True)
    ]
    head: list[bytes | memoryview]
    if isinstance(packed, WireEntries):
        layouts = b"".join(
            _LAYOUT.pack(*layout[:-1], len(layout.key)) + layout.key for layout in packed.layouts
        )
        head = [_HEAD.pack(len(packed.layouts), len(layouts), 0, _ON_WIRE), layouts, *packed.pieces]
        runs_octets = pack_runs(runs, packed.before)
        return PackedBlock(packed.first, count, packed.octets, runs_octets, head, [])
    sizes = packed.key_sizes, packed.header_sizes, packed.body_sizes
    keys, headers, bodies = (list(accumulate(one, initial=0)) for one in sizes)
    head = [
        _HEAD.pack(keys[-1], headers[-1], 0, 0)
        + _numbers(keys)
        + _numbers(headers)
        + _numbers(bodies),
        *packed.keys,
        *packed.headers,
    ]
    return PackedBlock(
        packed.first, count, packed.octets, pack_runs(runs, packed.before), head, packed.bodies
    )


def _split_pieces(head: bytes, count: int) -> _Columns:
    """The messages of a block of messages as they came. Hot: two steps for each of them. Raises
    ``struct.error``, and ``StoreError`` if they do not fit."""
    pieces, layouts = _HEAD.unpack_from(head)[:2]
    layout_at, at = _HEAD.size, _HEAD.size + layouts
    keys: list[bytes] = []
    headers: list[bytes] = []
    bodies: list[bytes] = []
    for _ in range(pieces):
        number, octets, size, size_at, header, key = _LAYOUT.unpack_from(head, layout_at)
        layout_at += _LAYOUT.size + key
        keys += [head[layout_at - key : layout_at]] * min(number, count)
        unpack, end = Struct(f">{size_at}xQ{header}s").unpack_from, at + octets
        while at < end:
            body, properties = unpack(head, at)
            headers.append(properties)
            at += size
            bodies.append(head[at : at + body])
            at += body + 1
        if at != end:
            break
    counts = {count, len(keys), len(headers)}
    if at != len(head) or layout_at != _HEAD.size + layouts or len(counts) > 1:
        raise StoreError("a block of the journal is damaged")
    return _columns(keys, headers, bodies)


def _ends(runs: list[tuple[int, int, int, int, int, str, str, int]], count: int) -> list[int]:
    return [*(run[0] for run in runs[1:]), count]


def _part(recorded: Recorded, at: int, end: int) -> list[Run]:
    """The runs of the entries from one index to another."""
    found: list[Run] = []
    runs = recorded.runs
    for run, until in zip(runs, _ends(runs, len(recorded.messages)), strict=True):
        first, last = max(run[0], at), min(until, end)
        if first < last:
            found.append(Run(last - first, run[1], run[2] + first - run[0], *run[3:]))
    return found


class Block:
    """A row that is read. ``body`` is empty if it was not asked for. ``written``: when it was on
    disk, ms since 1970, or 0. Raises ``StoreError``."""

    __slots__ = ("first", "count", "runs", "head", "body", "keys", "headers", "bodies", "added",
                 "apart", "key_start", "header_start", "written")  # fmt: skip

    def __init__(
        self, first: int, count: int, runs: list[Run], head: bytes, body: bytes, written: int = 0
    ) -> None:
        self.first = first
        self.written = written
        self.count = count
        self.runs = runs
        self.head = head
        self.body = body
        try:
            keys, headers, added, apart = _HEAD.unpack_from(head)
            if apart == _ON_WIRE:
                self._take(_split_pieces(head, count))
                return
            numbers = array("i")
            at = _HEAD.size + 3 * (count + 1) * _INT
            numbers.frombytes(head[_HEAD.size : at])
            if sys.byteorder == "big":
                numbers.byteswap()
            self.keys = numbers[: count + 1]
            self.headers = numbers[count + 1 : 2 * count + 2]
            self.bodies = numbers[2 * count + 2 :]
            self.key_start = at
            self.header_start = at + keys
            at += keys + headers
            self.added: dict[int, bytes] = {}
            end = at + added
            while at < end:
                index, size = _ADDED.unpack_from(head, at)
                at += _ADDED.size
                self.added[index] = head[at : at + size]
                at += size
            self.apart = {
                index: size for index, size in _APART.iter_unpack(head[at:])
            }  # fmt: skip
            if len(self.apart) != apart or self.header_start + self.headers[-1] > len(head):
                raise StoreError("a block of the journal is damaged")
        except (StructError, ValueError, IndexError) as error:
            raise StoreError(f"a block of the journal is damaged: {error}") from error

    def _take(self, columns: _Columns) -> None:
        self.keys = array("i", _starts(columns.keys))
        self.headers = array("i", columns.header_starts)
        self.bodies = array("i", columns.body_starts)
        self.head = b"".join(columns.keys + columns.headers)
        self.body = b"".join(columns.bodies)
        self.key_start, self.header_start = 0, self.keys[-1]
        self.added, self.apart = {}, {}

    @property
    def whole(self) -> bool:
        """Whether it has all messages of its entries."""
        return not self.apart and all(run.dialect for run in self.runs)

    def key(self, index: int) -> str:
        start = self.key_start
        octets = self.head[start + self.keys[index] : start + self.keys[index + 1]]
        return octets.decode("utf-8", "surrogatepass")

    def header(self, index: int) -> bytes:
        start = self.header_start
        return self.head[start + self.headers[index] : start + self.headers[index + 1]]

    def content(self, index: int) -> bytes:
        return self.body[self.bodies[index] : self.bodies[index + 1]]

    def size(self, index: int) -> int:
        """Octets of the body, here or apart."""
        return self.apart.get(index, 0) or self.bodies[index + 1] - self.bodies[index]
