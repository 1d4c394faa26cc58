"""Forms: how messages of a dialect are read and compared, and where they carry a capsule.

``Form`` is the interface of a dialect for conversion. The form of 1.0 is ``SECTIONS_FORM``. All
others are of one family, similar enough to the basic properties of 0-9-1 to be converted through
them (``Legacy``): 0-9-1 is here, the drafts of 2005 and 0.8a2 are in ``legacy_forms``.
"""

from abc import ABC, abstractmethod
from typing import Any

from gateway.adapters.methods.content import BASIC, OURS, reference
from gateway.adapters.methods.contents.dialect import CHILDREN, KEPT
from gateway.adapters.methods.essentials import HEADERS
from gateway.adapters.methods.splicing import (
    cut,
    joined,
    property_span,
    with_headers,
    without_header,
)
from gateway.adapters.performatives.content import NESTED, SECTIONS, UNFIT
from gateway.adapters.performatives.encoding import pairs_of, write_value
from gateway.adapters.performatives.sections import (
    ANNOTATIONS,
    APPLICATION,
    DELIVERY,
    HEADER,
    PROPERTIES,
    section_value,
    split_header,
)
from gateway.adapters.performatives.splicing import annotations_of, with_annotations, with_section
from gateway.crossing.capsule import LARGEST, Parts
from gateway.crossing.natural import EXCHANGE, FIELD_TABLES, ID_PREFIX, KEY, ORIGIN, OUR_ORIGIN
from gateway.crossing.overlay import rewritten
from gateway.crossing.references import References
from gateway.crossing.sameness import same_basic, same_sections, unequal_basic, unequal_sections
from gateway.crossing.types import TYPES
from gateway.message import Dialect, Properties
from gateway.values import Map, Symbol

HOP_BY_HOP = frozenset({ORIGIN, EXCHANGE, KEY})
HOP_BY_HOP_OCTETS = tuple(name.encode() for name in HOP_BY_HOP)

CARRIERS = (OURS, KEPT, TYPES, CHILDREN)
"""Prefixes of headers for properties that a form has no field for. Native peers do not write
them."""
CARRIERS_OCTETS = tuple(name.encode() for name in CARRIERS)


REFERRED = 60
"""An id of more characters may be written as a reference, as its text may be longer by far."""


class Form(ABC):
    """The form of one dialect. All methods raise ``ValueError`` for invalid octets."""

    marker = OUR_ORIGIN.encode()
    """Octets that every header with a capsule contains."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.name = dialect.name

    @abstractmethod
    def parts(self, header: bytes) -> Parts:
        """The digested parts of a header, without members that are rewritten on the way."""

    @abstractmethod
    def capsule_in(self, header: bytes) -> Any:
        """The value in the place of the capsule, or ``None``."""

    @abstractmethod
    def with_capsule(self, header: bytes, octets: bytes) -> bytes:
        """The header with this capsule. Raises ``ValueError`` if there is no room for it."""

    @abstractmethod
    def without_capsule(self, header: bytes) -> bytes:
        """The header without a capsule and without hop-by-hop members."""

    @abstractmethod
    def native(self, header: bytes) -> bytes:
        """The header without members that native peers do not write."""

    @abstractmethod
    def same(self, one: bytes, other: bytes) -> bool:
        """Whether two headers have the same names, types and values."""

    @abstractmethod
    def unequal(self, one: bytes, other: bytes) -> list[str]:
        """Names of the members that differ between two headers."""

    @abstractmethod
    def edited(self, header: bytes, found: Properties, changed: set[str], form: bytes) -> bytes:
        """The header with these properties. ``form`` is the form of the body, as in a header of
        1.0."""

    def unsettled(self, header: bytes, source: "Form") -> tuple[str, ...]:
        """Names of the properties that the version which wrote them would get back from this header
        itself, but not by way of a third version."""
        return ()

    def as_published(self, header: bytes, digests: tuple[bytes, ...]) -> bytes:
        """The header as the publisher wrote it, without additions of later hops. ``digests``: of
        its capsule."""
        return header


class Legacy(Form):
    """A form of the family: convertible to basic properties and back. ``habits`` are those of its
    readers."""

    habits = FIELD_TABLES

    def read(self, header: bytes) -> Properties:
        """The properties in the form that is common to the family."""
        return self.dialect.read(header)

    def write(self, found: Properties) -> bytes:
        """The inverse of ``read``."""
        return self.dialect.write(found)

    def reference_to(self, found: Properties) -> tuple[str, Any] | None:
        """The text that stands for the id of this message for a reader of this form, if it is not
        the id itself. Replies are correlated by it."""
        id_ = found.message_id
        if isinstance(id_, str | bytes) and REFERRED < len(id_) < LARGEST:
            return reference(id_), id_
        return None

    def refer(self, found: Properties, references: References) -> None:
        """Put the id that a correlation id of this form refers to in its place."""
        if type(found.correlation_id) is str:
            found.correlation_id = references.get(found.correlation_id, found.correlation_id)

    def for_sections(self, header: bytes) -> Properties:
        """The properties as the conversion to 1.0 starts from them: those of basic properties."""
        return BASIC.read(BASIC.write(self.read(header)))

    def from_sections(self, found: Properties) -> bytes:
        """The inverse: the header with what the conversion from 1.0 has left."""
        return self.write(BASIC.read(BASIC.write(found)))

    def edited(self, header: bytes, found: Properties, changed: set[str], form: bytes) -> bytes:
        return self.dialect.write(found) if changed else header


class BasicForm(Legacy):
    """0-8, 0-9 and 0-9-1: the capsule is a header."""

    def for_sections(self, header: bytes) -> Properties:
        return BASIC.read(header)

    def from_sections(self, found: Properties) -> bytes:
        return BASIC.write(found)

    def parts(self, header: bytes) -> Parts:
        """The fields, and the headers."""
        begin, end = property_span(header, HEADERS)
        fields = header[2:begin] + header[end:]
        flags = int.from_bytes(header[:2], "big") & ~HEADERS
        entries = [raw for name, raw in cut(header).entries or [] if name != self.marker]
        return (flags.to_bytes(2, "big") + fields if flags else b""), b"".join(entries)

    def capsule_in(self, header: bytes) -> bytes | None:
        """The capsule, which is a long string or binary."""
        for name, raw in cut(header).entries or []:
            if name == self.marker:
                tag = 1 + len(name)
                return raw[tag + 5 :] if raw[tag : tag + 1] in (b"x", b"S") else b""
        return None

    def with_capsule(self, header: bytes, octets: bytes) -> bytes:
        return with_headers(header, {OUR_ORIGIN: octets})

    def without_capsule(self, header: bytes) -> bytes:
        return without_header(header, self.marker) if self.marker in header else header

    def native(self, header: bytes) -> bytes:
        parts = cut(header)
        kept = [each for each in parts.entries or [] if not each[0].startswith(CARRIERS_OCTETS)]
        return joined(parts._replace(entries=kept or None))

    same = staticmethod(same_basic)
    unequal = staticmethod(unequal_basic)


class SectionsForm(Form):
    """1.0: the capsule is a message annotation."""

    marker = ORIGIN.encode()

    def parts(self, header: bytes) -> Parts:
        """Header, properties, application properties and message annotations of a stored header."""
        single = split_header(header).single
        spans = [single.get(code) for code in (HEADER, PROPERTIES, APPLICATION)]
        parts = [b"" if span is None else header[span[0] : span[2]] for span in spans]
        span = single.get(ANNOTATIONS)
        annotations = {} if span is None else section_value(header, span)
        kept = [pair for pair in annotations.items() if pair[0] not in HOP_BY_HOP]
        return (*parts, write_value(kept) if kept else b"")

    def capsule_in(self, header: bytes) -> Any:
        return annotations_of(header).get(ORIGIN)

    def with_capsule(self, header: bytes, octets: bytes) -> bytes:
        return with_annotations(header, {**annotations_of(header), Symbol(ORIGIN): octets})

    def without_capsule(self, header: bytes) -> bytes:
        return without_hop_by_hop(with_section(header, DELIVERY, b""))

    def native(self, header: bytes) -> bytes:
        annotations = annotations_of(header)
        ours = (NESTED, UNFIT, CHILDREN, ID_PREFIX)
        kept = {key: value for key, value in annotations.items() if key not in ours}
        return header if len(kept) == len(annotations) else with_annotations(header, kept)

    same = staticmethod(same_sections)
    unequal = staticmethod(unequal_sections)
    edited = staticmethod(rewritten)


def without_hop_by_hop(header: bytes) -> bytes:
    """The header without hop-by-hop annotations and capsules."""
    if not any(name in header for name in HOP_BY_HOP_OCTETS):
        return header
    annotations = annotations_of(header)
    kept = [pair for pair in pairs_of(annotations) if pair[0] not in HOP_BY_HOP]
    if len(kept) == len(pairs_of(annotations)):
        return header
    return with_annotations(header, Map(kept) if type(annotations) is Map else dict(kept))


BASIC_FORM = BasicForm(BASIC)
SECTIONS_FORM = SectionsForm(SECTIONS)
