"""Forms of the older versions and their capsules: one for each content class of the drafts of 2005,
for files and streams of 0-8, 0-9 and the transitional 0-10, and for 0.8a2.

A capsule is a header or field of the same name as in 0-9-1. Headers of the drafts hold text, so
there the capsule is in base64. A class without headers cannot carry one.
"""

import binascii
import operator
from typing import Any

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import (
    COMMAND,
    MORE,
    SIZE_OCTETS,
    end_of_head,
    least,
    read_header,
)
from gateway.adapters.commands.wire.layouts import MessageProperties, write_message_properties
from gateway.adapters.methods.contents.dialect import CHILDREN, ClassDialect
from gateway.adapters.methods.contents.published import CONTENTS
from gateway.adapters.methods.drafts.content import CONTENTS as DRAFT_CONTENTS
from gateway.adapters.methods.transitional.contents import CONTENTS as TRANSITIONAL_CONTENTS
from gateway.crossing.capsule import Parts, digest
from gateway.crossing.forms import (
    BASIC_FORM,
    CARRIERS,
    CARRIERS_OCTETS,
    SECTIONS_FORM,
    Form,
    Legacy,
)
from gateway.crossing.natural import OUR_ORIGIN
from gateway.crossing.sameness import same, same_basic, unequal_keys, unequal_slots
from gateway.crossing.segment_forms import SEGMENTS_FORM
from gateway.message import Dialect, Properties

NOTHING = digest(b"")
EMPTY = {"timestamp": ("", "0", 0), "expiration": ("", "0")}
"""Values equivalent to absence; for every other property, the empty text."""


class ClassForm(Legacy):
    """A class of content of 0-9a0, 0-9a6, 0-8, 0-9 or the transitional 0-10."""

    def __init__(self, dialect: ClassDialect) -> None:
        super().__init__(dialect)
        self._class = dialect

    def read(self, header: bytes) -> Properties:
        """The properties, with child contents as a header, as 0-9-1 has such annotations."""
        found = super().read(header)
        if found.annotations and CHILDREN in found.annotations:
            children = found.annotations.pop(CHILDREN)
            found.application = {**(found.application or {}), CHILDREN: children}
            found.annotations = found.annotations or None
        return found

    def parts(self, header: bytes) -> Parts:
        """The fields, the destination, the headers and the child contents."""
        record, children = self._class.record(header)
        entries = [e.whole for e in self._class.entries(record) if e.name != self.marker]
        destination = getattr(record, "destination", None) or ""
        for name in ("headers", "destination"):
            if hasattr(record, name):
                setattr(record, name, None)
        stated = self._class.joined(record, b"")
        octets = destination.encode("utf-8", "surrogateescape")
        return stated if any(stated) else b"", octets, b"".join(entries), children

    def as_published(self, header: bytes, digests: tuple[bytes, ...]) -> bytes:
        """The header as the publisher wrote it. If no destination was written, the present one was
        added by the last hop."""
        if len(digests) < 2 or digests[1] != NOTHING:
            return header
        record, children = self._class.record(header)
        if not getattr(record, "destination", None):
            return header
        record.destination = None
        return self._class.joined(record, children)

    def capsule_in(self, header: bytes) -> bytes | None:
        for entry in self._class.entries(self._class.record(header)[0]):
            if entry.name == self.marker:
                try:
                    return binascii.a2b_base64(entry.text, strict_mode=True)
                except binascii.Error:
                    return b""
        return None

    def with_capsule(self, header: bytes, octets: bytes) -> bytes:
        record, children = self._class.record(header)
        if not hasattr(record, "headers"):
            raise ValueError(f"{self.name} has no headers")
        text = binascii.b2a_base64(octets, newline=False).decode()
        tables = self._class.tables
        record.headers = tables.usual(record.headers or b"") + tables.write({OUR_ORIGIN: text})
        return self._class.joined(record, children)

    def without_capsule(self, header: bytes) -> bytes:
        return self._without(header, (self.marker,)) if self.marker in header else header

    def native(self, header: bytes) -> bytes:
        return self._without(header, (self.marker, *CARRIERS_OCTETS))

    def _without(self, header: bytes, beginnings: tuple[bytes, ...]) -> bytes:
        """The header without application headers of these prefixes."""
        record, children = self._class.record(header)
        entries = self._class.entries(record)
        kept = [each.whole for each in entries if not each.name.startswith(beginnings)]
        if len(kept) == len(entries):
            return header
        record.headers = b"".join(kept) or None
        return self._class.joined(record, children)

    def same(self, one: bytes, other: bytes) -> bool:
        """Whether two headers are equal. Tables of different sizes are not; an empty table equals
        an absent one."""
        records = (self._class.record(each)[0] for each in (one, other))
        sizes = {len(getattr(each, "headers", None) or b"") for each in records}
        return len(sizes) == 1 and not self._differences(one, other)

    def unequal(self, one: bytes, other: bytes) -> list[str]:
        return self._differences(one, other) or ["headers"]

    def _differences(self, one: bytes, other: bytes) -> list[str]:
        (mine, my_children), (yours, your_children) = map(self._class.record, (one, other))
        found = [
            name.replace("_", "-")
            for name in mine.__slots__
            if name != "headers" and present(mine, name) != present(yours, name)
        ]
        found += ["children"] if my_children != your_children else []
        tables = (self._class.headers_of(each) or {} for each in (mine, yours))
        return found + unequal_keys("headers", *tables)


def present(record: Any, name: str) -> Any:
    """A property, or ``None`` if it is absent or has an empty value."""
    value = getattr(record, name)
    return None if value in EMPTY.get(name, ("",)) else value


class CommandForm(Legacy):
    """Message headers of 0.8a2. Fields that carry properties of other versions are compared by
    those properties."""

    def parts(self, header: bytes) -> Parts:
        """All members except the fields; then the fields."""
        stated = least(header)
        entries = header[len(stated) :]
        if self.marker in entries:
            named = cut(read_header(header))
            entries = b"".join([raw for name, raw in named if name != OUR_ORIGIN])
        return (b"" if stated == USUAL else stated), entries

    def capsule_in(self, header: bytes) -> bytes | None:
        for name, raw in cut(read_header(header)):
            if name == OUR_ORIGIN:
                at = 1 + raw[0]
                return raw[at + 3 :] if raw[at] == fields.STRING else b""
        return None

    def with_capsule(self, header: bytes, octets: bytes) -> bytes:
        at, _ = end_of_head(header, -SIZE_OCTETS)
        headers = header[at:] + fields.written(OUR_ORIGIN, octets)
        if len(headers) > fields.MOST_OCTETS:
            raise fields.FieldError("the fields leave no room for a capsule")
        return header[: at - 2] + len(headers).to_bytes(2) + headers

    def without_capsule(self, header: bytes) -> bytes:
        return self._without(header, (OUR_ORIGIN,)) if self.marker in header else header

    def native(self, header: bytes) -> bytes:
        return self._without(header, (OUR_ORIGIN, MORE, *CARRIERS))

    def _stated(self, header: bytes) -> bytes:
        return self._without(header, (MORE,)) if NO_MORE in header else header

    def _without(self, header: bytes, beginnings: tuple[str, ...]) -> bytes:
        record = read_header(header)
        kept = [raw for name, raw in cut(record) if not name.startswith(beginnings)]
        record.headers = b"".join(kept)
        return write_message_properties(record)[SIZE_OCTETS:]

    def same(self, one: bytes, other: bytes) -> bool:
        """Tables that differ in size have lost an entry; an empty table of other versions equals an
        absent one."""
        one, other = map(self._stated, (one, other))
        return len(one) == len(other) and not self._differences(one, other)

    def unequal(self, one: bytes, other: bytes) -> list[str]:
        return self._differences(one, other) or ["headers"]

    def _differences(self, one: bytes, other: bytes) -> list[str]:
        mine, yours = read_header(one), read_header(other)
        found = unequal_slots(mine, yours, operator.eq, "headers")
        tables = [fields.read_table(each.headers) for each in (mine, yours)]
        more = [each.get(MORE) for each in tables]
        if same_more(*more):
            tables[0].pop(MORE, None)
            tables[1].pop(MORE, None)
        return found + unequal_keys("headers", *tables)


def same_more(one: Any, other: Any) -> bool:
    """Whether two ``AMQP_MORE`` fields hold the same basic properties."""
    if not isinstance(one, bytes) or not isinstance(other, bytes):
        return same(one, other)
    try:
        return same_basic(one, other)
    except ValueError:
        return False


def cut(record: MessageProperties) -> list[tuple[str, bytes]]:
    """The name and the octets of each field."""
    found, at = [], 0
    for name, _, _, end in fields.entries_of(record.headers):
        found.append((name, record.headers[at:end]))
        at = end
    return found


NO_MORE = fields.written(MORE, BASIC_FORM.dialect.write(Properties(application={})))
"""The field of a message whose only property of other versions is an empty table."""

USUAL = COMMAND.write(Properties())
"""The header of a message without properties."""

FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        BASIC_FORM,
        SECTIONS_FORM,
        SEGMENTS_FORM,
        CommandForm(COMMAND),
        *map(ClassForm, {dialect.name: dialect for dialect in DRAFT_CONTENTS.values()}.values()),
        *map(ClassForm, CONTENTS["0-9"].values()),
        *map(ClassForm, TRANSITIONAL_CONTENTS.values()),
    )
}
"""Forms by name of the dialect."""


def form_of(dialect: Dialect) -> Form:
    """The form of a dialect. Raises ``ValueError`` if there is none."""
    try:
        return FORMS[dialect.name]
    except KeyError as error:
        raise ValueError(f"no form for the dialect {dialect.name}") from error
