"""Rows as messages: those with the column ``amqp10`` octet by octet, others from their columns.
Knows no Spark."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote
from uuid import UUID

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.decoding import FieldError
from gateway.adapters.performatives.sections import ANNOTATIONS, pieces, section_value, split
from gateway.crossing.bodies import holds
from gateway.journal.canonical import LEGACY
from gateway.message import UNFORESEEN, Properties
from gateway.values import Symbol, ULong
from pyspark_amqp.publishing import Fate, Ready, ReplayError

NEEDED = ("amqp10", "body")
"""Columns of which rows have one at least."""
PLACE = ("journal_id", "address", "offset")
"""Columns that make a key."""
NAMES = {
    "reply_to": "reply_to", "subject": "subject", "content_type": "content_type",
    "content_encoding": "content_encoding", "group_id": "group_id",
    "group_sequence": "group_sequence", "creation_ms": "creation_time",
    "expiry_ms": "absolute_expiry_time", "ttl_ms": "ttl", "priority": "priority",
    "durable": "durable",
}  # fmt: skip
"""Columns, and properties of the same meaning."""
IDS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "ulong": lambda text: ULong(int(text)),
    "uuid": UUID,
    "binary": str.encode,
}
USED = frozenset({
    *NEEDED, *PLACE, *NAMES, "vhost", "pos", "body_kind", "body_ref", "properties", "annotations",
    "message_id", "message_id_type", "correlation_id", "correlation_id_type",
})  # fmt: skip
"""Columns that are looked at."""

Row = Mapping[str, Any]


class Messages:
    """Makes messages of rows. ``target`` is empty if rows name it. ``place``: journal and address
    of rows that have none, whose offset is then their number."""

    def __init__(self, target: str, place: tuple[str, str] | None) -> None:
        self.target = target
        self.place = place
        self.rows = 0

    def of(self, row: Row) -> Ready | Fate:
        """The message; or why there is none."""
        journal, address, offset = self.key(row)
        pos = row.get("pos")
        ready = Ready(journal, address, offset, "", b"", -1 if pos is None else pos)
        try:
            octets = octets_of(row)
            return ready._replace(to=self.target_of(row, octets), octets=octets)
        except (*UNFORESEEN, ValueError) as error:
            return Fate(ready, "rejected", str(error))

    def key(self, row: Row) -> tuple[str, str, int]:
        """Raises ``ReplayError`` if the row has no key."""
        self.rows += 1
        if self.place is not None:
            return *self.place, self.rows - 1
        for name in PLACE:
            if row[name] is None:
                raise ReplayError(f"{name}: is null in row {self.rows} of a partition")
        vhost = row.get("vhost")
        address: str = row["address"]
        return row["journal_id"], (vhost if vhost and vhost != "/" else "") + address, row["offset"]

    def target_of(self, row: Row, octets: bytes) -> str:
        """A target without a routing key takes that of the row."""
        target = self.target
        if not target:
            address = row.get("address")
            if not address:
                raise ValueError("address: is null, and there is no option target")
            target = address.partition("?")[0]
        if target.startswith("/exchanges/") and target.count("/") == 2:
            return f"{target}/{quote(key_of(row, octets), safe='')}"
        return target


def key_of(row: Row, octets: bytes) -> str:
    """The routing key with which the message was published."""
    annotations = row.get("annotations")
    if annotations:
        found = dict(annotations).get(LEGACY[1])
        if found is not None:
            return str(found)
    if LEGACY[1].encode() in octets:
        span = split(octets).single.get(ANNOTATIONS)
        known = {} if span is None else section_value(octets, span)
        if isinstance(known.get(LEGACY[1]), str):
            return str(known[LEGACY[1]])
    return row.get("subject") or ""


def octets_of(row: Row) -> bytes:
    """The sections of the message. Raises ``ValueError``."""
    octets: bytes | None = row.get("amqp10")
    if octets is not None:
        return octets
    body = row.get("body")
    kind = row.get("body_kind")
    if body is None:
        if row.get("body_ref"):
            raise ValueError(f"the body is in the file {row['body_ref']} of the journal")
        if kind != "none":
            raise ValueError("amqp10 and body are null")
        body = b""
    if isinstance(body, str):
        body = body.encode()
    properties = properties_of(row)
    if kind in ("value", "sequence") and not holds(body, kind):
        raise ValueError(f"body: is not made of encoded amqp-{kind} sections")
    properties.body_kind = None if kind == "data" else kind
    header = SECTIONS.write(properties)
    try:
        return b"".join(bytes(one) for one in pieces(header, body))  # type: ignore[arg-type]
    except FieldError as error:
        raise ValueError(str(error)) from error


def properties_of(row: Row) -> Properties:
    """Raises ``ValueError`` that names the column."""
    found = Properties()
    for column, name in NAMES.items():
        value = row.get(column)
        if value is not None:
            setattr(found, name, value)
    if found.durable is None:
        found.durable = True
    for name in ("message_id", "correlation_id"):
        text = row.get(name)
        if text is not None:
            kind = row.get(f"{name}_type") or "string"
            if kind not in IDS:
                raise ValueError(f"{name}_type: string, ulong, uuid or binary, not {kind!r}")
            try:
                setattr(found, name, IDS[kind](text))
            except ValueError:
                raise ValueError(f"{name}: {text!r} is no {kind}") from None
    found.application = dict(row.get("properties") or {}) or None
    annotations = dict(row.get("annotations") or {})
    found.annotations = {
        Symbol(key): value for key, value in annotations.items() if key not in LEGACY
    } or None
    return found


def rows_of(batch: Any) -> Iterator[Row]:
    """The rows of an Arrow batch, with the columns that are looked at."""
    names = [name for name in batch.schema.names if name in USED]
    columns = [batch.column(name).to_pylist() for name in names]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))
