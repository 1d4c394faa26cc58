"""Sections of a 1.0 message <-> the canonical properties.

What the older versions have and 1.0 has not goes into message annotations, and comes back from
there: ``x-basic-type``, ``x-opt-app-id``, ``x-opt-cluster-id``; headers that are no simple values
into the map ``x-opt-gateway-headers``; values that do not fit their field (a time to live above 32
bits, text that is no UTF-8 or ASCII) into the map ``x-opt-gateway-properties``. Absent stays
absent.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.performatives.decoding import ALLOWANCE, FieldError
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.sections import (
    ANNOTATIONS,
    APPLICATION,
    DATA,
    DELIVERY,
    FOOTER,
    HEADER,
    NO_BODY,
    PROPERTIES,
    RAW_SEQUENCE,
    RAW_VALUE,
    SEQUENCE,
    Span,
    read_header,
)
from gateway.adapters.performatives.splicing import with_notes, without_ttl
from gateway.adapters.performatives.wire import layouts as w
from gateway.message import DIALECTS, Essentials, Properties, Table
from gateway.values import Described, IeeeDecimal, Scaled, Symbol, ULong

BASIC_TYPE, APP_ID, CLUSTER_ID = "x-basic-type", "x-opt-app-id", "x-opt-cluster-id"
NESTED, UNFIT = "x-opt-gateway-headers", "x-opt-gateway-properties"

LEGACY = ((BASIC_TYPE, "type"), (APP_ID, "app_id"), (CLUSTER_ID, "cluster_id"))

OURS = frozenset([BASIC_TYPE, APP_ID, CLUSTER_ID, NESTED, UNFIT])

TEXTS = ("to", "subject", "reply_to", "group_id", "reply_to_group_id")
SYMBOLS = ("content_type", "content_encoding")
RANGES = {
    "priority": (0, 1 << 8),
    "ttl": (0, 1 << 32),
    "delivery_count": (0, 1 << 32),
    "group_sequence": (0, 1 << 32),
    "absolute_expiry_time": (-1 << 63, 1 << 63),
    "creation_time": (-1 << 63, 1 << 63),
}

FORMS = {"none": NO_BODY, "sequence": RAW_SEQUENCE, "value": RAW_VALUE}
"""Kinds of body that are not data, and their marks in a header."""


class SectionsDialect:
    """The ``Dialect`` of 1.0. Its header is described in ``sections``."""

    name = "1.0"

    def essentials(self, header: bytes) -> Essentials:
        """Reads the whole header, so that a message that is accepted can always be read."""
        if len(header) <= MOST_VALUES:  # each takes an octet at least
            single, _ = read_header(header)
        else:
            with ALLOWANCE.within():
                single, _ = read_header(header)
        durable, priority, ttl, user, expiry = False, None, None, None, None
        if HEADER in single:
            transport = single[HEADER]
            durable, priority, ttl = transport.durable or False, transport.priority, transport.ttl
        if PROPERTIES in single:
            expiry = single[PROPERTIES].absolute_expiry_time
            if expiry is not None and expiry <= 0:
                expiry = None  # written by clients for messages without expiry
            user_id = single[PROPERTIES].user_id
            if user_id is not None:
                user = user_id.decode("utf-8", "surrogateescape")
        return Essentials(durable, priority, ttl, user, bool(single.get(APPLICATION)), expiry)

    def read(self, header: bytes) -> Properties:
        single, form = read_header(header)
        found = Properties()
        for code, value in single.items():
            if code == PROPERTIES:
                _take_standard(value, found)
            elif code == APPLICATION:
                found.application = value
            elif code == HEADER:
                found.durable = value.durable
                found.priority = value.priority
                found.ttl = value.ttl
                found.first_acquirer = value.first_acquirer
                found.delivery_count = value.delivery_count
            elif code == ANNOTATIONS:
                found.annotations = value
            elif code == DELIVERY:
                found.delivery_annotations = value
            else:
                found.footer = value
        if found.annotations is not None and OURS & found.annotations.keys():
            found.annotations = dict(found.annotations)
            _take_ours(found.annotations, found)
            found.annotations = found.annotations or None
        if form is not None:
            found.body_kind = body_kind(header, form)
        return found

    def write(self, properties: Properties) -> bytes:
        unfit: dict[Any, Any] = {}
        nested: dict[Any, Any] = {}
        transport = _header(properties, unfit)
        standard = _standard(properties, unfit)
        application = _application(properties.application, nested)
        annotations: dict[Any, Any] = dict(properties.annotations or {})
        for key, name in LEGACY:
            value = getattr(properties, name)
            if value is not None:
                annotations[key] = value
        if nested:
            annotations[NESTED] = nested
        if unfit:
            annotations[UNFIT] = unfit
        pieces = [
            FORMS.get(properties.body_kind or "", b""),
            _annotations(FOOTER, properties.footer),
            transport,
            _annotations(DELIVERY, properties.delivery_annotations),
            _annotations(ANNOTATIONS, annotations or None),
            standard,
            application,
        ]
        return b"".join(pieces)

    def with_headers(self, header: bytes, added: Table) -> bytes:
        """Notes are annotations, or in the header section."""
        return with_notes(header, added)

    def rewrite(self, header: bytes, properties: Properties) -> bytes:
        """A body in several data sections keeps them."""
        written = self.write(properties)
        if properties.body_kind != "data":
            return written
        _, form = read_header(header)
        return written if form is None else header[: form[2]] + written

    def everlasting(self, header: bytes) -> bytes:
        return without_ttl(header)


# --- reading ------------------------------------------------------------------------------------


def body_kind(header: bytes, form: Span) -> str:
    """The kind of a body by its form. "data": several sections, or one that is written oddly; an
    ordinary body, one data section, has no form."""
    code, start, _ = form
    if code == DATA:
        return "none" if header[start] == 0x40 else "data"
    return "sequence" if code == SEQUENCE else "value"


def _take_standard(wire: w.Properties, found: Properties) -> None:
    """The thirteen properties of §3.2.4, one by one: a loop over names costs as much as reading."""
    found.message_id = wire.message_id
    found.user_id = wire.user_id
    found.to = _address(wire.to)
    found.subject = wire.subject
    found.reply_to = _address(wire.reply_to)
    found.correlation_id = wire.correlation_id
    found.content_type = wire.content_type
    found.content_encoding = wire.content_encoding
    found.absolute_expiry_time = wire.absolute_expiry_time
    found.creation_time = wire.creation_time
    found.group_id = wire.group_id
    found.group_sequence = wire.group_sequence
    found.reply_to_group_id = wire.reply_to_group_id


def _address(value: Any) -> str | None:
    """An address as text; addresses of a private described type are shown, not understood."""
    return value if value is None or isinstance(value, str) else str(value)


def _take_ours(annotations: dict[Any, Any], found: Properties) -> None:
    """Move values that ``write`` has put into annotations back to their properties."""
    for key, name in LEGACY:
        if isinstance(annotations.get(key), str | bytes):
            setattr(found, name, _text(annotations.pop(key)))
    nested = annotations.get(NESTED)
    if isinstance(nested, dict):
        del annotations[NESTED]
        found.application = {
            **(found.application or {}),
            **{_text(k): v for k, v in nested.items()},
        }
    unfit = annotations.get(UNFIT)
    if isinstance(unfit, dict):
        del annotations[UNFIT]
        for key, value in unfit.items():
            name = str(key)
            if name in RANGES and isinstance(value, int):
                setattr(found, name, int(value))
            elif name in TEXTS + SYMBOLS + ("message_id", "correlation_id"):
                setattr(found, name, _text(value))


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


# --- writing ------------------------------------------------------------------------------------


def _number(properties: Properties, name: str, unfit: dict[Any, Any]) -> int | None:
    """A number that fits its field, or the nearest one that does; then the annotation has it."""
    value = getattr(properties, name)
    if value is None:
        return None
    low, high = RANGES[name]
    if low <= value < high:
        return int(value)
    unfit[Symbol(name)] = ULong(value) if value >= 1 << 63 else int(value)
    return high - 1 if value >= high else low


def _header(properties: Properties, unfit: dict[Any, Any]) -> bytes:
    record = w.Header(
        properties.durable,
        _number(properties, "priority", unfit),
        _number(properties, "ttl", unfit),
        properties.first_acquirer,
        _number(properties, "delivery_count", unfit),
    )
    octets = w.write_header(record)
    return b"" if octets[3:] == b"\x45" else octets


def _standard(properties: Properties, unfit: dict[Any, Any]) -> bytes:
    record = w.Properties()
    for name in TEXTS:
        setattr(record, name, _fitting(properties, name, "utf-8", unfit))
    for name in SYMBOLS:
        setattr(record, name, _fitting(properties, name, "ascii", unfit))
    record.message_id = _id(properties.message_id)
    record.correlation_id = _id(properties.correlation_id)
    record.user_id = properties.user_id
    record.absolute_expiry_time = _number(properties, "absolute_expiry_time", unfit)
    record.creation_time = _number(properties, "creation_time", unfit)
    record.group_sequence = _number(properties, "group_sequence", unfit)
    octets = w.write_properties(record)
    return b"" if octets[3:] == b"\x45" else octets


def _fitting(properties: Properties, name: str, coding: str, unfit: dict[Any, Any]) -> str | None:
    """Text that can be written in its field; otherwise the annotation has it."""
    value = getattr(properties, name)
    if value is None:
        return None
    try:
        value.encode(coding)
    except UnicodeEncodeError:
        unfit[Symbol(name)] = value
        return None
    return str(value)


def _id(value: Any) -> Any:
    """One of the four types of an id. Text that is not UTF-8 becomes binary by itself."""
    if value is None or isinstance(value, str | bytes | UUID):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int) and 0 <= value < 1 << 64:
        return ULong(value)
    return str(value)


SIMPLE = (str, int, float, bytes, UUID, Scaled, IeeeDecimal, type(None))


def _application(application: Mapping[Any, Any] | None, nested: dict[Any, Any]) -> bytes:
    """Simple values under keys that are text (§3.2.5); the others are put into ``nested``."""
    if application is None:
        return b""
    simple: dict[str, Any] = {}
    for key, value in application.items():
        if isinstance(key, str) and _simple(value) and _is_utf8(key):
            simple[str(key)] = value
        else:
            nested[key] = value
    return b"\x00\x53\x74" + write_value(simple) if simple or not application else b""


def _simple(value: Any) -> bool:
    if isinstance(value, Described):
        return _simple(value.value)
    return isinstance(value, Scaled) or (
        isinstance(value, SIMPLE) and not isinstance(value, tuple | list | dict)
    )


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _annotations(code: int, annotations: Mapping[Any, Any] | None) -> bytes:
    """A section whose keys are symbols or ulongs (§3.2.10)."""
    if annotations is None:
        return b""
    keyed: dict[Any, Any] = {}
    for key, value in annotations.items():
        if isinstance(key, str):
            keyed[Symbol(key)] = value
        elif isinstance(key, int):
            keyed[ULong(key)] = value
        else:
            raise FieldError("an annotation has a symbol or an unsigned number as its key")
    return b"\x00\x53" + bytes((code,)) + write_value(keyed)


SECTIONS = SectionsDialect()
DIALECTS[SECTIONS.name] = SECTIONS
