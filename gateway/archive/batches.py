"""Messages of archives as Arrow batches, and their conversion: ``transcode(batch) -> batch``.

``RAW`` are messages as they were read: the columns of a segment, and where each is from. A row has
a message or an error. The batch that comes out has the same rows: those with a message have the
canonical columns that were asked for, the others ``error_code`` and what belongs to it. A message
that cannot be decoded or converted becomes an error. This module needs pyarrow.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gateway.adapters.performatives.content import SECTIONS
from gateway.archive.side import Bad
from gateway.crossing.crossing import Crossing
from gateway.errors import StoreError
from gateway.journal.canonical import BY_NAME, COLUMNS, ODD, Row, clean
from gateway.journal.columns import NONE, SCHEMA
from gateway.journal.entries import Entry, Publisher
from gateway.message import DIALECTS, Message
from gateway.store.plain import read_plain

ERRORS = {
    "error_code": ("STRING", "what is wrong, for programs"),
    "error_text": ("STRING", "the same for people"),
    "error_position": ("BIGINT", "the octet of the direction at which it shows"),
    "error_octets": ("BIGINT", "how many octets are lost"),
    "error_wire": ("BINARY", "the first 4096 of them"),
}
PLACES = {
    "source": ("STRING", "file"),
    "direction": ("STRING", "published, delivered or returned"),
    "source_offset": (
        "BIGINT", "where it begins among the octets of its direction; of a segment, its pos",
    ),
}  # fmt: skip
RAW = pa.schema(
    [
        *SCHEMA,
        ("journal", pa.string()),
        ("source", pa.string()),
        ("direction", pa.string()),
        ("source_offset", pa.int64()),
        ("error_code", pa.string()),
        ("error_text", pa.string()),
        ("error_position", pa.int64()),
        ("error_octets", pa.int64()),
        ("error_wire", pa.binary()),
    ]
)
"""``journal`` is "" for messages of recordings, which have no ``pos`` (-1) and no time (0)."""

CANONICAL = tuple(one.name for one in COLUMNS)
AMQP10 = (
    "journal_id", "pos", "vhost", "address", "offset", "ingest_ts", "protocol", "connection_id",
    "amqp10", "dedup_key",
)  # fmt: skip
"""The columns of messages that are wanted in 1.0."""
NOT_CONVERTIBLE, BROKEN, DAMAGED = "not-convertible", "content-broken", "segment-damaged"


def arrow_type(kind: str) -> Any:
    """Arrow's type for one of Spark's."""
    if kind.startswith("ARRAY<"):
        return pa.list_(arrow_type(kind[6:-1]))
    if kind.startswith("MAP<"):
        key, _, value = kind[4:-1].partition(",")
        return pa.map_(arrow_type(key), arrow_type(value))
    if kind.startswith("STRUCT<"):
        fields = (one.partition(":") for one in kind[7:-1].split(","))
        return pa.struct([(name, arrow_type(inner)) for name, _, inner in fields])
    return {
        "STRING": pa.string(), "BIGINT": pa.int64(), "INT": pa.int32(), "SMALLINT": pa.int16(),
        "BINARY": pa.binary(), "BOOLEAN": pa.bool_(), "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
    }[kind]  # fmt: skip


def types_of(names: Sequence[str]) -> dict[str, str]:
    """Spark's types of the columns that come out. Raises ``KeyError``."""
    kinds = {name: BY_NAME[name].type for name in names}
    return kinds | {name: kind for name, (kind, _) in (PLACES | ERRORS).items()}


@cache
def schema_of(names: tuple[str, ...]) -> Any:
    """The same for Arrow."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in types_of(names).items()])


def ddl_of(names: tuple[str, ...]) -> str:
    """The same for Spark."""
    return ", ".join(f"`{name}` {kind}" for name, kind in types_of(names).items())


class Refused(NamedTuple):
    """The error that a row becomes; the columns of ``ERRORS``."""

    code: str | None = None
    text: str | None = None
    position: int | None = None
    octets: int | None = None
    wire: bytes | None = None


FINE = Refused()


class Odd(Exception):
    """A row whose message cannot be read or converted."""

    def __init__(self, code: str, text: str, wire: bytes = b"") -> None:
        super().__init__(text)
        self.code, self.text, self.wire = code, clean(text)[:500], wire


class Transcoder:
    """Makes some canonical columns. For one thread at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        """Raises ``KeyError`` for a column that there is none of."""
        self.schema = schema_of(tuple(names))
        self._columns = [BY_NAME[name] for name in names if name not in STRAIGHT]
        self._maps = [one.type.startswith("MAP<") for one in self._columns]
        self._only_sections = [one.name for one in self._columns] == ["amqp10"]
        self._crosses = any(one.name in ("amqp10", "lossy") for one in self._columns)
        # As in the journal: capsules are bound to their message, and no gateway opens these.
        self._crossing = Crossing(bytes(32), "lossless", "values")
        self._publishers: dict[tuple[Any, ...], Publisher] = {}

    def __call__(self, batch: Any) -> Any:
        """A batch with these columns, of one of ``RAW``. Row by row, the same count."""
        count = batch.num_rows
        made: list[list[Any]] = [[] for _ in self._columns]
        nothing = [None] * len(made)
        errors: list[Refused] = []
        for row in self._rows(batch):
            refused = FINE
            values: Sequence[Any] = nothing
            if isinstance(row, Row):
                try:
                    values = self._values(row)
                except Odd as odd:
                    refused = Refused(odd.code, odd.text, row.entry.offset, 0, odd.wire)
            else:
                refused = row
            errors.append(refused)
            for column, value in zip(made, values, strict=True):
                column.append(value)
        computed = dict(zip((one.name for one in self._columns), made, strict=True))
        told = dict(zip(ERRORS, zip(*errors, strict=True), strict=True)) if count else {}
        arrays = []
        for field in self.schema:
            if field.name in STRAIGHT:
                arrays.append(STRAIGHT[field.name](batch).cast(field.type, safe=False))
            else:
                values = computed.get(field.name, told.get(field.name, ()))
                arrays.append(pa.array(values, field.type))
        return pa.record_batch(arrays, schema=self.schema)

    def _rows(self, batch: Any) -> Iterator[Row | Refused]:
        """The messages; of a row that has none, the error. The ``offset`` of an entry is the place
        of its message here."""
        given = [batch.column(name).to_pylist() for name in CONTENT]
        who = zip(*(batch.column(name).to_pylist() for name in PUBLISHER), strict=True)
        places = zip(*(batch.column(name).to_pylist() for name in PLACE), strict=True)
        errors = zip(*(batch.column(name).to_pylist() for name in ERRORS), strict=True)
        publishers = self._publishers
        for content, by, place, error in zip(
            zip(*given, strict=True), who, places, errors, strict=True
        ):
            if error[0] is not None:
                yield Refused(*error)
                continue
            publisher = publishers.get(by)
            if publisher is None:
                if len(publishers) >= MOST_PUBLISHERS:
                    publishers.clear()
                publisher = publishers[by] = Publisher(*(text or "" for text in by))
            journal, pos, stamp, vhost, address, at, entered, written = place
            try:
                message = message_of(content, publisher.user)
            except Odd as odd:
                yield Refused(odd.code, odd.text, at, 0, odd.wire)
                continue
            entry = Entry(
                pos, stamp, vhost or "", address or "", at, publisher, message, len(message.body),
                entered=entered or 0, written=written or 0,
            )  # fmt: skip
            yield Row(journal or "", entry, self._crossing)

    def _values(self, row: Row) -> Sequence[Any]:
        """Raises ``Odd``."""
        message = row.entry.message
        try:
            if self._crosses and row.crossed is None:
                self._crossing.cross(message, SECTIONS)
            if self._only_sections:
                return (self._columns[0].value(row),)
            message.properties  # noqa: B018
            return [
                list(value.items()) if is_map and value is not None else value
                for is_map, value in zip(
                    self._maps, (one.value(row) for one in self._columns), strict=True
                )
            ]
        except ODD as error:
            code = NOT_CONVERTIBLE if readable(message) else BROKEN
            text = str(error) or type(error).__name__
            raise Odd(code, text, message.header[:4096]) from None


def readable(message: Message) -> bool:
    """Whether its properties can be decoded."""
    try:
        message.dialect.read(message.header)
    except ODD:
        return False
    return True


def message_of(content: tuple[Any, ...], user: str) -> Message:
    """The message in the columns ``CONTENT``. Raises ``Odd``."""
    name, header, body, exchange, key, added, reference = content
    dialect = DIALECTS.get(name)
    if dialect is None:
        raise Odd(DAMAGED, f"a message in the unknown dialect {name!r}")
    try:
        headers = read_plain(added) if added else None
        if reference or body is None or header is None:
            raise ValueError("its body is not there")
        if headers is not None and not isinstance(headers, dict):
            raise ValueError("its added headers are no table")
        return Message(
            dialect,
            header,
            body,
            exchange.decode("utf-8", "surrogatepass"),
            key.decode("utf-8", "surrogatepass"),
            NONE,
            headers,
            user,
        )
    except (*ODD, StoreError) as error:
        raise Odd(DAMAGED, f"the entry is damaged: {error}") from None


# --- columns that are there -----------------------------------------------------------------------


def _given(name: str, missing: Any = "") -> Callable[[Any], Any]:
    """A column of ``RAW``, null where it says nothing."""

    def read(batch: Any) -> Any:
        column = batch.column(name)
        return pc.if_else(pc.equal(column, missing), pa.scalar(None, column.type), column)

    return read


def _as_it_is(name: str) -> Callable[[Any], Any]:
    return lambda batch: batch.column(name)


def _time(batch: Any) -> Any:
    stamps = _given("stamp", 0)(batch)
    return stamps.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"), safe=False)


def _key(batch: Any) -> Any:
    """Of a journal its position, of a recording the place in it."""
    journal = batch.column("journal")
    kept = pc.binary_join_element_wise(journal, batch.column("pos").cast(pa.string()), "/")
    offset = batch.column("source_offset").cast(pa.string())
    found = pc.binary_join_element_wise(
        batch.column("source"), batch.column("connection"), batch.column("direction"), offset, "/"
    )
    return pc.if_else(pc.equal(journal, ""), found, kept)


STRAIGHT: dict[str, Callable[[Any], Any]] = {
    "journal_id": _given("journal"), "pos": _given("pos", -1), "vhost": _as_it_is("vhost"),
    "address": _as_it_is("address"), "offset": _given("offset", -1), "ingest_ts": _time,
    "ingest_date": lambda batch: _time(batch).cast(pa.date32(), safe=False),
    "protocol": _given("protocol"), "client_id": _given("client_id"),
    "connection_id": _given("connection"), "user_id": _given("user"),
    "client_product": _given("product"), "client_version": _given("product_version"),
    "listener": _given("listener"), "wire": _as_it_is("header"),
    "dedup_key": _key, **{name: _as_it_is(name) for name in PLACES},
}  # fmt: skip
"""Columns that need no message."""
CONTENT = ("dialect", "header", "body", "exchange", "routing_key", "added", "reference")
PUBLISHER = Publisher._fields
PLACE = ("journal", "pos", "stamp", "vhost", "address", "source_offset", "entered", "written")
MOST_PUBLISHERS = 10_000
"""Publishers that are remembered."""


@cache
def transcoder(names: tuple[str, ...]) -> Transcoder:
    """One for this process, whose conversions are remembered."""
    return Transcoder(names)


def transcode(batch: Any, names: tuple[str, ...] = CANONICAL) -> Any:
    """The batch with these canonical columns, of one of ``RAW``. Both engines call it."""
    return transcoder(names)(batch)


# --- raw batches ----------------------------------------------------------------------------------


class RawRows:
    """Rows of ``RAW`` that are gathered to batches."""

    MOST_ROWS = 1_000
    MOST_OCTETS = 8 << 20

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._octets = 0

    @property
    def full(self) -> bool:
        return len(self._rows) >= self.MOST_ROWS or self._octets >= self.MOST_OCTETS

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        self._octets += len(row.get("body") or b"") + len(row.get("error_wire") or b"")

    def batch(self) -> Any:
        rows, self._rows, self._octets = self._rows, [], 0
        arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in RAW]
        return pa.record_batch(arrays, schema=RAW)


def error_row(source: str, bad: Bad, **others: Any) -> dict[str, Any]:
    """A row of ``RAW`` with an error."""
    return {
        "source": source, "direction": bad.direction or None, "source_offset": bad.offset,
        "error_code": bad.code, "error_text": clean(bad.text), "error_position": bad.position,
        "error_octets": bad.octets, "error_wire": bad.wire, **others,
    }  # fmt: skip
