"""Entries as rows of canonical columns: one table for REST, the command line and Spark.

``COLUMNS`` says what each column is called, its type as Spark writes it, and what is in it. What a
row does not need is not made: properties are decoded for columns that show them, and the message is
converted to 1.0 for those that need that.
"""

import json
from binascii import crc32
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache, cached_property
from hashlib import sha256
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple
from uuid import UUID

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import pieces
from gateway.bodies import LargeBody
from gateway.crossing.crossing import Crossed, Crossing, Fidelity
from gateway.inventory.message_features import features_of
from gateway.journal.entries import Entry
from gateway.message import UNFORESEEN, Properties, Table
from gateway.values import Described, IeeeDecimal, ULong

BUCKETS = 16
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNSIGNED = (1 << 63) - 1
ODD = (*UNFORESEEN, ValueError)
"""Errors of messages whose properties cannot be decoded or converted: their columns are null."""
LEGACY = ("x-exchange", "x-routing-key")
ARCHIVE_KEY = bytes(32)
"""The key of the capsules in ``amqp10``, which is known to everybody: a replay opens them, and
messages of clients are not opened with it."""
EMPTY = Properties()


class Row:
    """One entry, of which parts are decoded when a column needs them."""

    def __init__(self, journal: str, entry: Entry, crossing: Crossing) -> None:
        self.journal = journal
        self.entry = entry
        self.crossing = crossing

    @cached_property
    def properties(self) -> Properties:
        try:
            return self.entry.message.properties
        except ODD:
            return EMPTY

    @cached_property
    def body(self) -> bytes | None:
        """``None`` if it is in a file of its own."""
        if self.entry.reference:
            return None
        body = self.entry.message.body
        return b"".join(body.chunks()) if isinstance(body, LargeBody) else body

    @cached_property
    def crossed(self) -> Crossed | None:
        """As a reader of 1.0 gets it; ``None`` if there is no such form."""
        message = self.entry.message
        try:
            if message.dialect is SECTIONS:
                header, body = message.form_for(SECTIONS)
                return Crossed(header, body, Fidelity.EXACT)
            message.dialect.essentials(message.header)  # octets of a file may be anything
            crossed = self.crossing.cross(message, SECTIONS)
        except ODD:
            return None
        if message.added_headers:
            header = SECTIONS.with_headers(crossed.header, message.added_headers)
            return crossed._replace(header=header)
        return crossed

    @property
    def annotations(self) -> Table:
        message = self.entry.message
        found: Table = {LEGACY[0]: message.exchange, LEGACY[1]: message.key}
        own = self.properties.annotations
        return found | own if own else found

    def day(self) -> date:
        return (EPOCH + timedelta(milliseconds=self.entry.stamp)).date()


def text_of(value: Any) -> str | None:
    """A value in a readable form."""
    kind = value.__class__
    if kind is str:
        return value if value.isascii() else clean(value)
    return _writer_of(kind)(value)


@cache
def _writer_of(kind: type) -> Callable[[Any], str | None]:
    """How values of a class are written."""
    if kind is NoneType:
        return lambda value: None
    if issubclass(kind, bool):
        return lambda value: "true" if value else "false"
    if issubclass(kind, bytes):
        return _octets_text
    if issubclass(kind, int):
        return str
    if issubclass(kind, str | float | UUID | IeeeDecimal):
        return lambda value: clean(str(value))
    return lambda value: clean(json.dumps(plain(value), ensure_ascii=False))


def _octets_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()


def plain(value: Any) -> Any:
    """The form of a value in JSON."""
    match value:
        case None | bool() | int() | float():
            return value
        case list() | tuple():
            return [plain(one) for one in value]
        case dict():
            return {clean(str(key)): plain(one) for key, one in value.items()}
        case Described():
            return plain(value.value)
        case _:
            return text_of(value) if not isinstance(value, LargeBody) else None


def clean(text: str) -> str:
    """Without surrogates, which UTF-8 does not have."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def _number(value: Any) -> int | None:
    if not isinstance(value, int):
        return None
    return max(-UNSIGNED - 1, min(int(value), UNSIGNED))


def _kind(value: Any) -> str | None:
    match value:
        case None:
            return None
        case UUID():
            return "uuid"
        case bytes():
            return "binary"
        case ULong() | int():
            return "ulong"
        case _:
            return "string"


def texts(table: Table | None) -> dict[str, str | None]:
    if not table:
        return {}
    return {
        key if key.__class__ is str and key.isascii() else clean(str(key)): text_of(value)
        for key, value in table.items()
    }


def _priority(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 15 else None


def _body_kind(value: Any) -> str:
    return value or "data"


def _sections(row: Row) -> bytes | None:
    crossed = row.crossed
    if crossed is None or row.entry.reference:
        return None
    try:
        found = pieces(crossed.header, crossed.body)
    except ODD:
        return None
    if crossed.body.__class__ is bytes:
        return b"".join(found)  # type: ignore[arg-type]
    return b"".join(
        b"".join(one.chunks()) if isinstance(one, LargeBody) else bytes(one) for one in found
    )


def _lossy(row: Row) -> list[dict[str, str]]:
    crossed = row.crossed
    if crossed is None:
        return [{"feature": "message", "detail": "has no form in 1.0", "severity": "error"}]
    return [
        {"feature": clean(name), "detail": "not natural in 1.0", "severity": "warning"}
        for name in crossed.inexact
    ]


def _features(row: Row) -> list[str]:
    try:
        return [
            clean(name)
            for name in features_of(row.properties, row.entry.message.dialect, row.entry.size)
        ]
    except ODD:
        return []


def _hops(row: Row) -> list[dict[str, Any]]:
    """Times that nobody knows are left out."""
    entry = row.entry
    taken = entry.stamp * 1000
    found: list[dict[str, Any]] = []
    if entry.entered:
        found.append({"hop": "upstream", "enter_us": entry.entered * 1000, "leave_us": taken})
    if entry.written:
        found.append({"hop": "store", "enter_us": taken, "leave_us": entry.written * 1000})
    return found


def _origin(name: str) -> Callable[[Row], str | None]:
    return lambda row: getattr(row.entry.publisher, name) or None


class Column(NamedTuple):
    """``type`` is Spark's, ``description`` is for documents. ``body``: it needs the message's
    body. ``of_property``: it is made of this property alone, by ``made``."""

    name: str
    type: str
    value: Callable[[Row], Any]
    description: str
    body: bool = False
    of_property: str = ""
    made: Callable[[Any], Any] = text_of


def _property(
    name: str, type: str, key: str, made: Callable[[Any], Any], description: str
) -> Column:
    def value(row: Row) -> Any:
        return made(getattr(row.properties, key))

    return Column(name, type, value, description, False, key, made)


def _text(name: str, description: str) -> Column:
    return _property(name, STRING, name, text_of, description)


STRING, BIGINT, BINARY = "STRING", "BIGINT", "BINARY"
TEXTS = "MAP<STRING,STRING>"
FEATURES = "ARRAY<STRING>"
LOSSES = "ARRAY<STRUCT<feature:STRING,detail:STRING,severity:STRING>>"
HOPS = "ARRAY<STRUCT<hop:STRING,enter_us:BIGINT,leave_us:BIGINT>>"

COLUMNS = (
    Column("journal_id", STRING, lambda row: row.journal, "the journal; another one has another"),
    Column("pos", BIGINT, lambda row: row.entry.pos, "commit position, rising"),
    Column("vhost", STRING, lambda row: row.entry.vhost, "virtual host"),
    Column("address", STRING, lambda row: row.entry.address, "such as `/queues/orders`"),
    Column("offset", BIGINT, lambda row: row.entry.offset, "at the address, rising by one"),
    Column("ingest_ts", "TIMESTAMP",
           lambda row: EPOCH + timedelta(milliseconds=row.entry.stamp), "when it was taken"),
    Column("ingest_date", "DATE", Row.day, "the same as a date, UTC"),
    Column("address_bucket", "INT", lambda row: crc32(row.entry.address.encode()) % BUCKETS,
           "CRC-32 of the address, modulo 16"),
    Column("protocol", STRING, _origin("protocol"), "such as `amqp-0-9-1`, `http` or `shovel`"),
    Column("client_id", STRING, _origin("client_id"), "name that the client gave itself"),
    Column("connection_id", STRING, _origin("connection"), "connection of the publisher"),
    Column("user_id", STRING, _origin("user"), "user of the publisher"),
    Column("client_product", STRING, _origin("product"), "product of the client"),
    Column("client_version", STRING, _origin("product_version"), "and its version"),
    Column("listener", STRING, _origin("listener"), "by which the publisher came"),
    _text("message_id", "message id, as text"),
    _property("message_id_type", STRING, "message_id", _kind, "string, ulong, uuid or binary"),
    _text("correlation_id", "correlation id, as text"),
    _property("correlation_id_type", STRING, "correlation_id", _kind, "as of the message id"),
    _text("reply_to", "reply-to"),
    _text("subject", "subject"),
    _text("content_type", "content type"),
    _text("content_encoding", "content encoding"),
    _text("group_id", "group id"),
    _property("group_sequence", BIGINT, "group_sequence", _number, "sequence in its group"),
    _property("creation_ms", BIGINT, "creation_time", _number, "creation time, ms since 1970"),
    _property("expiry_ms", BIGINT, "absolute_expiry_time", _number, "expiry time, ms since 1970"),
    _property("ttl_ms", BIGINT, "ttl", _number, "time to live"),
    _property("durable", "BOOLEAN", "durable", bool, "durable"),
    _property("priority", "SMALLINT", "priority", _priority, "priority"),
    _property("delivery_count", BIGINT, "delivery_count", _number, "deliveries before"),
    _property("properties", TEXTS, "application", texts,
              "application properties (headers), as text"),
    Column("annotations", TEXTS, lambda row: texts(row.annotations),
           "message annotations, with `x-exchange` and `x-routing-key`, as text"),
    _property("body_kind", STRING, "body_kind", _body_kind,
              "data, sequence, value or none"),
    Column("body", BINARY, lambda row: row.body, "null if `body_ref` is set", True),
    Column("body_len", BIGINT, lambda row: row.entry.size, "octets of the body"),
    Column("body_sha256", BINARY,
           lambda row: None if row.body is None else sha256(row.body).digest(),
           "digest of the body", True),
    Column("body_ref", STRING, lambda row: row.entry.reference or None,
           "file with the body in the directory of segments, if it has more than 8 MiB; over HTTP "
           "`journal/bodies/{pos}` has it"),
    Column("amqp10", BINARY, _sections, "all sections of the message in 1.0", True),
    Column("wire", BINARY, lambda row: row.entry.message.header,
           "its properties as they came, in the form of its version"),
    Column("features", FEATURES, _features,
           "features of its version that it uses, by the names of an inventory"),
    Column("lossy", LOSSES, _lossy, "what 1.0 expresses with a capsule alone", True),
    Column("hops", HOPS, _hops, "time at the upstream and in the store, each if it is known"),
    Column("dedup_key", STRING,
           lambda row: f"{row.journal}/{row.entry.pos}" if row.journal else None,
           "key that no other entry has"),
)  # fmt: skip

BY_NAME = {one.name: one for one in COLUMNS}
DDL = ", ".join(f"`{one.name}` {one.type}" for one in COLUMNS)
LOSSY = "lossy"
SAMPLE_PARTS = 1_000_000
"""A share of entries is exact to one of so many parts."""
COSTLY = frozenset({"amqp10", "features", LOSSY, "body_sha256", "wire"})
"""Columns that are made only if they are asked for by name."""


def is_sampled(pos: int, share: float) -> bool:
    """Whether an entry is in a sample of this share: the same entries each time."""
    return crc32(b"%d" % pos) % SAMPLE_PARTS < int(share * SAMPLE_PARTS)


class Rows:
    """Makes rows of some columns. For one thread at a time."""

    def __init__(self, journal: str, names: list[str], sample: float = 1.0) -> None:
        """``lossy`` is null but for a ``sample`` of this share of the entries. Raises ``KeyError``
        for a column that there is none of."""
        self.journal = journal
        self.sample = sample
        self.columns = [BY_NAME[name] for name in names]
        self.needs_bodies = any(one.body for one in self.columns)
        self._properties = sorted({one.of_property for one in self.columns} - {""})
        # Of one name alone it would give no tuple.
        self._read = attrgetter(*self._properties, "durable", "durable")
        self.crossing = Crossing(ARCHIVE_KEY, "lossless", "values")

    def of(self, entries: list[Entry]) -> list[list[Any]]:
        """The values of the columns, for each entry."""
        if not self.columns:
            return [[] for _ in entries]
        return [list(one) for one in zip(*self.by_column(entries), strict=True)]

    def by_column(self, entries: list[Entry]) -> list[list[Any]]:
        """The same for each column."""
        rows = [Row(self.journal, entry, self.crossing) for entry in entries]
        found: dict[str, tuple[Any, ...]] = {}
        if self._properties:
            each = zip(*map(self._read, [row.properties for row in rows]), strict=True)
            found = dict(zip(self._properties, each, strict=False))
        return [self._values(one, rows, found) for one in self.columns]

    def _values(
        self, column: Column, rows: list[Row], found: dict[str, tuple[Any, ...]]
    ) -> list[Any]:
        if column.of_property and rows:
            given, made = found[column.of_property], column.made
            absent = made(None)
            if given.count(None) == len(given):
                return [absent] * len(given)
            return [absent if one is None else made(one) for one in given]
        value = column.value
        if column.name != LOSSY or self.sample >= 1:
            return [value(row) for row in rows]
        return [value(row) if is_sampled(row.entry.pos, self.sample) else None for row in rows]
