"""The message header of 0.8a2 (document §3.4.4) <-> the canonical properties.

The dialect's octets are the header without its first field, the size of the body. It has room for
little: persistence, priority, expiry in seconds, type, encoding, identifier, and fields of four
types. What a message of another version has besides goes into one field, ``AMQP_MORE``, written as
the basic properties of 0-9-1 are; reading takes it back. Where even that is too large it is left
out: the message itself must reach its reader.
"""

import struct

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.wire.layouts import (
    MessageProperties,
    read_message_properties,
    write_message_properties,
)
from gateway.adapters.methods.content import BASIC
from gateway.message import DIALECTS, Essentials, Properties, Table

SIZE_OCTETS = 4
FIXED = 10
"""Octets of size, persistence, priority and expiry."""
MORE = "AMQP_MORE"
NAMED = (("REPLY_TO", "reply_to"), ("CORRELATION_ID", "correlation_id"))
"""Fields for the properties that a reply depends on; the document has none for them."""
OURS = frozenset([MORE, *(name for name, _ in NAMED)])

NORMAL_PRIORITY = 4
HIGHEST_PRIORITY = 9
LAST_SECOND = (1 << 32) - 1

HERE = frozenset(
    ["durable", "priority", "absolute_expiry_time", "content_type", "content_encoding",
     "message_id", "application", "body_kind", "reply_to", "correlation_id"]
)  # fmt: skip
"""Properties that have a field of their own, for values that fit it."""


def read_head(octets: bytes, at: int = 0) -> tuple[MessageProperties, int]:
    """The header at the beginning of a first fragment, and where the body begins. Raises
    ``ValueError``."""
    try:
        record, end = read_message_properties(octets, at)
    except (struct.error, IndexError) as error:
        raise ValueError("the message header is cut short") from error
    if end > len(octets):
        raise ValueError("the message header is cut short")
    return record, end


def read_header(header: bytes) -> MessageProperties:
    """Decode the dialect's octets. Raises ``ValueError``."""
    record, end = read_head(b"\0" * SIZE_OCTETS + header)
    if end != len(header) + SIZE_OCTETS:
        raise ValueError("octets follow the message header")
    return record


def end_of_head(octets: bytes, at: int = 0) -> tuple[int, int]:
    """Where the fields of the header at the beginning of a first fragment stand, and where the body
    does. Raises ``ValueError``. Decodes nothing."""
    try:
        at += FIXED
        at += 1 + octets[at]  # type
        at += 1 + octets[at]  # encoding
        at += 1 + octets[at]  # identifier
        start = at + 2
        end = start + (octets[at] << 8 | octets[at + 1])
    except IndexError:
        raise ValueError("the message header is cut short") from None
    if end > len(octets):
        raise ValueError("the message header is cut short")
    return start, end


class CommandDialect:
    """The ``Dialect`` of message headers of 0.8a2."""

    name = "0.8a2"

    def essentials(self, header: bytes) -> Essentials:
        """Expiry is a date here; the broker, which has a clock, turns it into a time to live."""
        start, end = end_of_head(header, -SIZE_OCTETS)
        if end != len(header):
            raise ValueError("octets follow the message header")
        some = end > start
        if some:
            table = header[start:]
            fields.check_table(table)
            # CC and BCC are lists in other versions; here they are ordinary fields.
            some = b"\x02CC" not in table and b"\x03BCC" not in table
        return Essentials(header[0] & 1 != 0, header[1], None, None, some)

    def read(self, header: bytes) -> Properties:
        record = read_header(header)
        table = fields.read_table(record.headers)
        found = self._more(table)
        found.durable = record.persistent
        if found.priority is None or min(found.priority, HIGHEST_PRIORITY) != record.priority:
            found.priority = record.priority
        if record.expiration:
            exact = found.absolute_expiry_time
            if exact is None or exact // 1000 != record.expiration:
                found.absolute_expiry_time = record.expiration * 1000
        if record.mime_type:
            found.content_type = record.mime_type
        if record.encoding:
            found.content_encoding = record.encoding
        if record.identifier and found.message_id is None:
            found.message_id = record.identifier
        for name, attribute in NAMED:
            value = table.get(name)
            if isinstance(value, str) and getattr(found, attribute) is None:
                setattr(found, attribute, table.pop(name))
        if table or found.application is not None:
            found.application = {**table, **(found.application or {})}
        return found

    def _more(self, table: Table) -> Properties:
        """Properties of another version; a field of that name that we did not write stays a
        field."""
        more = table.get(MORE)
        octets = more.encode("utf-8", "surrogateescape") if isinstance(more, str) else more
        if isinstance(octets, bytes):
            try:
                found = BASIC.read(octets)
            except ValueError:
                return Properties()
            del table[MORE]
            return found
        return Properties()

    def write(self, properties: Properties) -> bytes:
        rest = Properties()
        for name, value in properties.given().items():
            if name not in HERE and value != {}:
                setattr(rest, name, value)
        if properties.body_kind not in (None, "data"):
            rest.body_kind = properties.body_kind
        record = MessageProperties(0, bool(properties.durable))
        priority = properties.priority
        record.priority = NORMAL_PRIORITY if priority is None else min(priority, HIGHEST_PRIORITY)
        if priority is not None and priority > HIGHEST_PRIORITY:
            rest.priority = priority
        write_expiry(properties, record, rest)
        record.mime_type = short(properties.content_type, "content_type", rest)
        record.encoding = short(properties.content_encoding, "content_encoding", rest)
        if type(properties.message_id) is str:
            record.identifier = short(properties.message_id, "message_id", rest)
        else:
            rest.message_id = properties.message_id
        named: Table = {}
        for name, attribute in NAMED:
            value = getattr(properties, attribute)
            if type(value) is str and len(value) < fields.MOST_SHORT:
                named[name] = value
            elif value is not None:
                setattr(rest, attribute, value)
        record.headers = write_fields(properties.application, named, rest)
        return write_message_properties(record)[SIZE_OCTETS:]

    def with_headers(self, header: bytes, added: Table) -> bytes:
        """Notes are fields, or in ``AMQP_MORE``."""
        properties = self.read(header)
        properties.application = {**(properties.application or {}), **added}
        return self.write(properties)

    def rewrite(self, header: bytes, properties: Properties) -> bytes:
        return self.write(properties)

    def everlasting(self, header: bytes) -> bytes:
        if MORE.encode() not in header:
            return header[:2] + bytes(4) + header[6:]
        properties = self.read(header)
        properties.ttl = properties.absolute_expiry_time = None
        return self.write(properties)


def write_expiry(properties: Properties, record: MessageProperties, rest: Properties) -> None:
    """Write the expiry date: the given one, or creation time plus time to live."""
    expiry = properties.absolute_expiry_time
    if expiry is None and properties.ttl is not None and properties.creation_time is not None:
        expiry = properties.creation_time + properties.ttl
    elif expiry is not None and (expiry % 1000 or not 0 < expiry // 1000 <= LAST_SECOND):
        rest.absolute_expiry_time = expiry
    if expiry is not None and 0 < expiry // 1000 <= LAST_SECOND:
        record.expiration = int(expiry // 1000)


def short(text: str | None, name: str, rest: Properties) -> str:
    """The text if a short string can hold it; otherwise it goes to ``rest``."""
    if text is None:
        return ""
    if text and len(text.encode("utf-8", "surrogateescape")) < 256 and "\0" not in text:
        return text
    setattr(rest, name, text)
    return ""


def write_fields(application: Table | None, named: Table, rest: Properties) -> bytes:
    """The field table: application properties that fit, and ``AMQP_MORE`` for everything else."""
    entries = [fields.written(name, value) for name, value in named.items()]
    beyond: Table = {}
    for name, value in (application or {}).items():
        try:
            if name in OURS:
                raise fields.FieldError("that name is taken")
            entries.append(fields.written(name, value))
        except fields.FieldError:
            beyond[name] = value
    if beyond or application == {}:
        rest.application = beyond
    table = b"".join(entries)
    if rest.given():
        try:
            more = fields.written(MORE, BASIC.write(rest))
        except (ValueError, TypeError):
            more = b""
        if len(table) + len(more) <= fields.MOST_OCTETS:
            table += more
    return table if len(table) <= fields.MOST_OCTETS else b""


def fitting(header: bytes, limit: int) -> bytes:
    """The header within a limit of octets: fields are dropped from the end, where other versions'
    properties are."""
    record = read_header(header)
    room = limit - (len(header) - len(record.headers))
    ends = [end for _, _, _, end in fields.entries_of(record.headers) if end <= room]
    record.headers = record.headers[: max(ends, default=0)]
    return write_message_properties(record)[SIZE_OCTETS:]


def least(header: bytes) -> bytes:
    """The header without fields."""
    at, _ = end_of_head(header, -SIZE_OCTETS)
    return b"%c%b\0\0" % (header[0] & 1, header[1 : at - 2])


COMMAND = CommandDialect()
DIALECTS[COMMAND.name] = COMMAND
