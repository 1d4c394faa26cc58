"""Entries as columns of Arrow: the form of sealed segments and of portions over HTTP.

A message stays as it came, so that writing costs little and loses nothing. What a reader sees of it
(``canonical``) is made when it is read. This module needs pyarrow (the extra ``journal``); it is
imported where that is known to be there.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute

from gateway.bodies import LargeBody
from gateway.errors import StoreError
from gateway.journal.entries import NOBODY, Entry, JournalError, Names, Part, Publisher
from gateway.message import DIALECTS, Essentials, Message
from gateway.store.plain import read_plain, write_plain

new = tuple.__new__
VERSION = "2"
KNOWN = ("1", VERSION)
"""Versions of the columns. A reader refuses others."""
LATER = ("listener", "entered", "written")
"""Columns that version 1 does not have."""
PUBLISHER = tuple(Publisher._fields)
OCTETS = pa.binary()
SCHEMA = pa.schema(
    [
        ("pos", pa.int64()),
        ("stamp", pa.int64()),
        ("vhost", pa.string()),
        ("address", pa.string()),
        ("offset", pa.int64()),
        *((name, pa.string()) for name in PUBLISHER),
        ("dialect", pa.string()),
        ("exchange", pa.binary()),
        ("routing_key", pa.binary()),
        ("header", pa.binary()),
        ("added", pa.binary()),
        ("body", pa.binary()),
        ("size", pa.int64()),
        ("reference", pa.string()),
        ("entered", pa.int64()),
        ("written", pa.int64()),
    ],
    {"version": VERSION},
)
"""``stamp`` is ms since 1970; ``header`` the properties as the publisher has encoded them, in the
``dialect`` of its version; ``added`` the headers of the gateway, as JSON; ``size`` octets of the
body, which is null if it was not asked for or stands in the file ``reference``; ``entered`` and
``written`` are as of an ``Entry``."""
LIGHT = [name for name in SCHEMA.names if name != "body"]


def to_batch(entries: list[Entry], bodies: bool = True) -> Any:
    """A ``RecordBatch`` of these entries."""
    columns: list[list[Any]] = [
        [one.pos for one in entries],
        [one.stamp for one in entries],
        [one.vhost for one in entries],
        [one.address for one in entries],
        [one.offset for one in entries],
        *([one.publisher[at] for one in entries] for at in range(len(PUBLISHER))),
        [one.message.dialect.name for one in entries],
        [one.message.exchange.encode("utf-8", "surrogatepass") for one in entries],
        [one.message.key.encode("utf-8", "surrogatepass") for one in entries],
        [one.message.header for one in entries],
        [_added(one.message) for one in entries],
        [_octets(one) if bodies else None for one in entries],
        [one.size for one in entries],
        [one.reference or None for one in entries],
        [one.entered or None for one in entries],
        [one.written or None for one in entries],
    ]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.record_batch(arrays, schema=SCHEMA)


def to_table(parts: list[Part], names: Names) -> Any:
    """A ``Table`` of the entries of whole blocks, whose octets are used as they are. Hot: no step
    for each entry but those of C, and few for each run."""
    starts: list[int] = []
    offsets: list[int] = []
    stamps: list[int] = []
    entries: list[int | None] = []
    writes: list[int | None] = []
    kinds: list[int] = []
    known: dict[tuple[int, int, str, str], int] = {}
    """What runs share with many others: number, origin, dialect and exchange."""
    which, count = array("i"), 0
    contents: tuple[list[Any], ...] = ([], [], [])
    notes: list[bytes | None] = []
    for part in parts:
        block, start, end = part
        for run, first, last, offset in part.runs():
            _, number, _, origin, stamp, dialect, exchange, entered = run
            which += array("i", [len(starts)]) * (last - first)
            starts.append(block.first + first - count)
            offsets.append(offset - count)
            count += last - first
            stamps.append(stamp)
            entries.append(entered or None)
            writes.append(block.written or None)
            kinds.append(known.setdefault((number, origin, dialect, exchange), len(known)))
        head, whole = pa.py_buffer(block.head), not start and end == block.count
        for made, ends, octets in (
            (contents[0], block.keys, head.slice(block.key_start)),
            (contents[1], block.headers, head.slice(block.header_start)),
            (contents[2], block.bodies, pa.py_buffer(block.body)),
        ):
            column = pa.Array.from_buffers(OCTETS, block.count, [None, pa.py_buffer(ends), octets])
            made.append(column if whole else column.slice(start, end - start))
        if block.added:
            notes += [block.added.get(index) for index in range(start, end)]
        else:
            notes += [None] * (end - start)
    key, header, body = (pa.chunked_array(one, OCTETS) for one in contents)
    run_of = _of_array(pa.int32(), which)
    kind_of = _spread(kinds, pa.int32(), run_of)
    rows = compute.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=-1)
    columns = {
        "pos": compute.add(rows, _spread(starts, pa.int64(), run_of)),
        "offset": compute.add(rows, _spread(offsets, pa.int64(), run_of)),
        "routing_key": key,
        "header": header,
        "added": pa.array(notes, OCTETS),
        "body": body,
        "size": compute.binary_length(body).cast(pa.int64()),
        "reference": pa.nulls(count, pa.string()),
    }
    for name, times in (("stamp", stamps), ("entered", entries), ("written", writes)):
        columns[name] = _spread(times, pa.int64(), run_of)
    shared = [
        (
            *names.addresses.get(number, ("", "")),
            *names.publishers.get(origin, NOBODY),
            dialect,
            exchange.encode("utf-8", "surrogatepass"),
        )
        for number, origin, dialect, exchange in known
    ]
    of_kinds = ("vhost", "address", *PUBLISHER, "dialect", "exchange")
    for name, of_each in zip(of_kinds, zip(*shared, strict=True), strict=True):
        columns[name] = _spread(of_each, SCHEMA.field(name).type, kind_of)
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _spread(values: Sequence[Any], kind: Any, index: Any) -> Any:
    """The value for each entry. ``index``: where among the values it is."""
    if values.count(values[0]) == len(values):
        return pa.repeat(pa.scalar(values[0], kind), len(index))
    return pa.array(values, kind).take(index)


def _of_array(kind: Any, values: "array[int]") -> Any:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _added(message: Message) -> bytes | None:
    return write_plain(message.added_headers).encode() if message.added_headers else None


def _octets(entry: Entry) -> bytes | None:
    if entry.reference:
        return None
    body = entry.message.body
    return b"".join(body.chunks()) if isinstance(body, LargeBody) else body


def to_entries(batch: Any, bodies: bool = True) -> list[Entry]:
    """The entries in a batch or table of these columns, of which ``body`` may be missing. Raises
    ``JournalError``."""
    given = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    count = batch.num_rows
    given |= {name: [None] * count for name in LATER if name not in given}
    missing = [name for name in LIGHT if name not in given]
    if missing:
        raise JournalError(f"a segment has no column {missing[0]!r}")
    contents = given.get("body") if bodies else None
    publishers: dict[tuple[str, ...], Publisher] = {}
    found: list[Entry] = []
    who = list(zip(*(given[name] for name in PUBLISHER), strict=True))
    for at in range(count):
        publisher = publishers.get(who[at])
        if publisher is None:
            publisher = publishers[who[at]] = Publisher(*(text or "" for text in who[at]))
        name = given["dialect"][at]
        dialect = DIALECTS.get(name)
        if dialect is None:
            raise JournalError(f"a segment has a message in the unknown dialect {name!r}")
        added = given["added"][at]
        headers = _headers(added) if added else None
        message = Message(
            dialect,
            given["header"][at],
            (contents[at] or b"") if contents is not None else b"",
            given["exchange"][at].decode("utf-8", "surrogatepass"),
            given["routing_key"][at].decode("utf-8", "surrogatepass"),
            NONE,
            headers,
            publisher.user,
        )
        found.append(
            Entry(
                given["pos"][at],
                given["stamp"][at],
                given["vhost"][at],
                given["address"][at],
                given["offset"][at],
                publisher,
                message,
                given["size"][at],
                given["reference"][at] or "",
                given["entered"][at] or 0,
                given["written"][at] or 0,
            )
        )
    return found


CONTENT = ("pos", "user", "dialect", "exchange", "routing_key", "header", "added", "size")
"""Columns that a message is made of, beside ``body``."""


def to_messages(batch: Any, bodies: bool = True) -> list[Entry]:
    """Entries with nothing but their positions and messages, from a batch or table with these
    columns: half the time of ``to_entries``. Raises ``JournalError``."""
    given = [batch.column(name).to_pylist() for name in (*CONTENT, "reference")]
    contents = batch.column("body").to_pylist() if bodies else repeat(b"")
    texts: dict[bytes, str] = {}
    found: list[Entry] = []
    for row, body in zip(zip(*given, strict=True), contents, strict=bodies):
        pos, user, name, exchange, key, header, added, size, reference = row
        dialect = DIALECTS.get(name)
        if dialect is None:
            raise JournalError(f"a segment has a message in the unknown dialect {name!r}")
        for octets in (exchange, key):
            if octets not in texts:
                texts[octets] = octets.decode("utf-8", "surrogatepass")
        message = Message(
            dialect, header, body or b"", texts[exchange], texts[key], NONE,
            _headers(added) if added else None, user,
        )  # fmt: skip
        found.append(new(Entry, (pos, 0, "", "", 0, NOBODY, message, size, reference or "", 0, 0)))
    return found


def _headers(added: bytes) -> Any:
    """Raises ``JournalError``."""
    try:
        return read_plain(added)
    except (ValueError, LookupError, TypeError, StoreError) as error:
        raise JournalError(f"a segment is damaged: {error}") from error


def of_this_version(table: Any) -> Any:
    """A table of a segment with all columns, also if an earlier version has written it."""
    for name in LATER:
        if name not in table.schema.names:
            field = SCHEMA.field(name)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(SCHEMA.names).cast(SCHEMA)


def rows_of(table: Any, start: int, end: int, chosen: list[tuple[str, str]] | None) -> Any:
    """The entries of a range of positions, at these addresses (``None``: all), with their indexes
    ``row`` in the table."""
    index = pa.array(range(table.num_rows), pa.int64())
    fits = compute.and_(compute.greater_equal(table["pos"], start), compute.less(table["pos"], end))
    if chosen is not None:
        fits = compute.and_(fits, at_addresses(table, chosen))
    return table.append_column("row", index).filter(fits)


def at_addresses(table: Any, chosen: list[tuple[str, str]]) -> Any:
    """Which rows are at these addresses."""
    places = compute.binary_join_element_wise(table["vhost"], table["address"], "\0")
    return compute.is_in(places, pa.array(["\0".join(one) for one in chosen], pa.string()))


def first_of(table: Any, vhost: str, address: str, least: dict[str, int]) -> tuple[int, int] | None:
    """The position and the offset of the first entry at an address that has at least these values
    in these columns."""
    fits = compute.and_(
        compute.equal(table["address"], address), compute.equal(table["vhost"], vhost)
    )
    for name, value in least.items():
        fits = compute.and_(fits, compute.greater_equal(table[name], value))
    at = compute.index(fits, True).as_py()
    return None if at < 0 else (table["pos"][at].as_py(), table["offset"][at].as_py())


NONE = Essentials()
"""Readers of the journal need none of them."""


def stream_of(batches: Iterable[Any]) -> bytes:
    """Batches as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(batch)
    octets: bytes = sink.getvalue().to_pybytes()
    return octets


def batches_of(stream: bytes) -> list[Any]:
    """The batches in an Arrow IPC stream. Raises ``JournalError``."""
    try:
        with pa.ipc.open_stream(stream) as reader:
            return list(reader)
    except pa.ArrowInvalid as error:
        raise JournalError(f"not a portion of a journal: {error}") from error
