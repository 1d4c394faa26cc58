"""Contents of other classes than ``basic`` <-> the canonical properties: one dialect for each.

All classes have a choice of the properties that 0-9-1 has; those of the drafts have ``destination``
too, where the message goes. Properties that a class does not have go into its headers, under names
that begin with ``x-amqp09-``, as those that even 0-9-1 does not have go under ``x-amqp10-``;
reading takes them back. The drafts' peers write empty text for a property that is not set.

A content of the drafts may have child contents (``weight`` of them). They stand behind the
properties in the header of the message, each whole: class, weight, size of the body, size of the
properties, the properties, its own children, the body. In the canonical view they are one octet
string among the annotations, so that they survive every other version.
"""

import struct
from struct import Struct
from typing import Any

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.methods.content import canonical, legacy
from gateway.adapters.methods.contents.outline import Known, Outline, time_to_live
from gateway.adapters.methods.contents.tables import Entry, FieldTables
from gateway.adapters.methods.geometry import Content
from gateway.adapters.methods.tags import ALLOWANCE
from gateway.adapters.methods.wire.layouts import BasicProperties
from gateway.adapters.record import annotations
from gateway.bodies import Body
from gateway.message import Essentials, Message, Properties, Table

CHILDREN = "x-opt-amqp09-children"
"""The annotation that holds the child contents."""

CHILD = Struct(">HHQI")
"""The fields before a child: class, weight, octets of body and of properties."""

MOST_CHILDREN = 1024
DEEPEST = 16
"""How many children one message may have in all, and how far they may nest."""

HEADERS = 2048
"""How many headers each class of each version remembers."""

KEPT = "x-amqp09-"

PLAIN = (
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
NUMBERS = frozenset(["delivery_mode", "priority", "timestamp"])
FILE_NAME = KEPT + "file-name"
STAMP = KEPT + "timestamp"
"""A time that is text and no number (0-9a0)."""


class ClassDialect:
    """The ``Dialect`` of one class of content."""

    def __init__(
        self,
        version: str,
        content: Content,
        tables: FieldTables,
        *,
        routes: bool = False,
        nests: bool = False,
    ) -> None:
        """``routes``: the destination is the routing key of a publish (0-9a6). ``nests``: a content
        may have children."""
        self.name = f"{version}-{content.name}"
        self.group = content.name
        self.number = content.number
        self._content = content
        self.tables = tables
        self._nests = nests
        record = content.record()
        self._has = frozenset(name for name in PLAIN if hasattr(record, name))
        self._file = next((n for n in ("file_name", "filename") if hasattr(record, n)), "")
        self._destined = hasattr(record, "destination")
        self.routes = self._destined and routes
        self._headers = hasattr(record, "headers")
        self._stamped = str(annotations(content.record).get("timestamp")).startswith("str")
        """Its time is text (0-9a0)."""
        self._outline = Outline(content, tables)
        self.headers: BoundedCache[bytes, Known] = BoundedCache(HEADERS)

    def record(self, header: bytes) -> tuple[Any, bytes]:
        """The properties as they stand on the wire, and the children. Raises ``ValueError``."""
        try:
            found, end = self._content.read(header, 0)
        except (struct.error, IndexError) as error:
            raise ValueError("the properties are cut short") from error
        self._check_behind(header, end)
        return found, header[end:]

    def _check_behind(self, header: bytes, end: int) -> None:
        if not self._nests and end < len(header):
            raise ValueError("the properties do not end where the frame ends")
        try:
            if end > len(header):
                raise ValueError("the properties are cut short")
            check_children(header[end:])
        except struct.error as error:
            raise ValueError("a child content is cut short") from error

    def known(self, header: bytes) -> Known:
        """The parts that are read of every message. Raises ``ValueError``. Where it is hot, look
        into ``headers`` first."""
        found = self.headers.get(header)
        if found is None:
            found = self._outline.read(header)
            if found.end < len(found.header):
                self._check_behind(found.header, found.end)
            self.headers.keep(header, found)
        return found

    def arrived(self, header: bytes) -> Known:
        """The same of a message that a client publishes, whose headers may hold ``MOST_VALUES``."""
        if len(header) <= MOST_VALUES:  # each takes an octet at least
            return self.known(header)
        with ALLOWANCE.within():
            return self.known(header)

    def joined(self, record: Any, children: bytes) -> bytes:
        """The inverse of ``record``."""
        return self._content.write(record) + children

    def entries(self, record: Any) -> list[Entry]:
        """Its headers, not decoded. Raises ``FieldError``."""
        return self.tables.cut(getattr(record, "headers", None) or b"")

    def destination(self, header: bytes) -> str:
        """Where the sender wants it to go. Raises ``ValueError``."""
        return self.known(header).destination

    def essentials(self, header: bytes) -> Essentials:
        return self.known(header).essentials

    def headers_of(self, record: Any) -> Table | None:
        """Raises ``FieldError``."""
        entries = getattr(record, "headers", None)
        return None if entries is None else self.tables.read(entries)

    def read(self, header: bytes) -> Properties:
        record, children = self.record(header)
        headers = self.headers_of(record)
        some = bool(headers)
        wire = BasicProperties()
        for name in PLAIN:
            if name in self._has:
                self._take(wire, name, getattr(record, name))
            elif headers:
                _kept(wire, name, headers)
        stamp = getattr(record, "timestamp", None)
        if isinstance(stamp, str) and stamp and _number(stamp) is None:
            headers = {**(headers or {}), STAMP: stamp}
        if self._file and getattr(record, self._file) is not None:
            headers = {**(headers or {}), FILE_NAME: getattr(record, self._file)}
        found = canonical(wire, headers if headers or not some else None)
        destination = getattr(record, "destination", None)
        if destination:
            found.to = destination
        if children:
            found.annotations = {**(found.annotations or {}), CHILDREN: children}
        return found

    def _take(self, wire: BasicProperties, name: str, value: Any) -> None:
        if name == "timestamp":
            if isinstance(value, str):
                value = _number(value)
            wire.timestamp = value or None
        elif name == "expiration":
            wire.expiration = None if time_to_live(value) is None else value
        elif value != "":
            setattr(wire, name, value)

    def write(self, properties: Properties) -> bytes:
        given = Properties(**properties.given())
        to, given.to = given.to, None
        children = b""
        sections = ("annotations", "application") if self._nests else ()
        for section in sections:  # headers, if they were in 1.0 on the way
            table = getattr(given, section) or {}
            value = table.get(CHILDREN)
            if isinstance(value, bytes | str):  # 0.8a2 knows no octets
                children = _good_children(value)
                rest = {k: v for k, v in table.items() if k != CHILDREN}
                setattr(given, section, rest or None)
        wire, headers = legacy(given)
        headers = dict(headers or {})
        record = self._content.record()
        for name in PLAIN:
            value = getattr(wire, name)
            if value is None:
                continue
            if name not in self._has:
                headers[KEPT + name.replace("_", "-")] = value
            else:
                text = name == "timestamp" and self._stamped
                setattr(record, name, str(value) if text else value)
        if self._stamped and _fits(headers.get(STAMP)):
            record.timestamp = headers.pop(STAMP)
        if self._file and _fits(headers.get(FILE_NAME)):
            setattr(record, self._file, headers.pop(FILE_NAME))
        if self._destined and to and _fits(to):
            record.destination = to
        if self._headers and (headers or given.application is not None):
            record.headers = self.tables.write(headers)
        return self._content.write(record) + children

    def with_headers(self, header: bytes, added: Table) -> bytes:
        """Notes are headers, behind those of the sender."""
        record, children = self.record(header)
        if not self._headers:
            return header
        record.headers = self.tables.usual(record.headers or b"") + self.table(added)
        return self._content.write(record) + children

    def table(self, headers: Table) -> bytes:
        """Encoded headers. Raises ``FieldError``."""
        return self.tables.write(headers)

    def rewrite(self, header: bytes, properties: Properties) -> bytes:
        return self.write(properties)

    def everlasting(self, header: bytes) -> bytes:
        record, children = self.record(header)
        if getattr(record, "expiration", None) is None:
            return header
        record.expiration = None
        return self._content.write(record) + children

    def form_of(self, message: Message) -> tuple[bytes, Body]:
        """Header and body of any message for a reader of this class; the key of one that came
        otherwise is its destination. Raises ``ValueError``."""
        return self.outgoing(message)[:2]

    def outgoing(self, message: Message) -> tuple[bytes, Body, bool]:
        """The same, and whether contents stand behind the properties. Raises ``ValueError``.
        Hot."""
        if message.dialect is self and not message.added_headers:
            known = self.headers.get(message.header) or self.known(message.header)
            return message.header, message.body, known.end < len(message.header)
        header, body = message.form_for(self)
        begin, end, stop = self._outline.places(header)
        children = stop < len(header)
        if message.dialect is not self and self._destined and message.key and end - begin < 2:
            header = self._outline.sent_to(header, message.key, begin, end)  # it had no text there
        return header, body, children

    def sent_to(self, header: bytes, key: str) -> bytes:
        """The header with this destination. Raises ``ValueError``."""
        return self._outline.sent_to(header, key, *self._outline.places(header)[:2])


def _number(text: str) -> int | None:
    """A time that is written as a number (0-9a0)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _fits(text: Any) -> bool:
    """Can this be a short string?"""
    return isinstance(text, str) and len(text.encode("utf-8", "surrogateescape")) < 256


def _kept(wire: BasicProperties, name: str, headers: Table) -> None:
    """Take a property back that the class does not have."""
    kept = KEPT + name.replace("_", "-")
    value = headers.get(kept)
    if name in NUMBERS:
        good = isinstance(value, int) and 0 <= value < (1 << 64 if name == "timestamp" else 256)
    else:
        good = isinstance(value, str)
    if good:
        setattr(wire, name, value)
        del headers[kept]


# --- children ------------------------------------------------------------------------------------


def check_children(octets: bytes) -> int:
    """How many contents stand there, side by side. Raises ``ValueError``."""
    at = count = 0
    while at < len(octets):
        at = _skip(octets, at, 1)
        count += 1
    return count


def _skip(octets: bytes, at: int, depth: int) -> int:
    if depth > DEEPEST:
        raise ValueError("contents nest too deeply")
    _, weight, size, properties = CHILD.unpack_from(octets, at)
    at += CHILD.size + properties
    for _ in range(weight):
        at = _skip(octets, at, depth + 1)
    at += size
    if at > len(octets):
        raise ValueError("a child content is cut short")
    return at


def _good_children(value: bytes | str) -> bytes:
    octets = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    try:
        check_children(octets)
    except (ValueError, struct.error):
        return b""
    return octets


def split_children(octets: bytes) -> list[tuple[int, bytes, bytes, bytes]]:
    """Class, properties, children and body of each."""
    found = []
    at = 0
    while at < len(octets):
        number, _, size, properties = CHILD.unpack_from(octets, at)
        start = at + CHILD.size
        inner, end = start + properties, _skip(octets, at, 1)
        body = end - size
        found.append((number, octets[start:inner], octets[inner:body], octets[body:end]))
        at = end
    return found


def child(number: int, properties: bytes, children: list[bytes], body: bytes) -> bytes:
    """One content as it is kept among the children of another."""
    head = CHILD.pack(number, len(children), len(body), len(properties))
    return b"".join((head, properties, *children, body))
