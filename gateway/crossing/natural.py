"""The natural mapping: the form that a reader of the other version expects, without a capsule.

``to_sections`` leads from basic properties to sections, ``as_basic`` from sections to basic
properties. Each is the inverse of the other for nearly all messages; ``crossing`` verifies it for
each.
"""

from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import UUID

from gateway.adapters.methods.content import (
    ANNOTATIONS,
    BODY,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    OURS,
)
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.splicing import COUNT, DEATHS, OUR_DEATHS, deaths_in, deaths_out
from gateway.adapters.segments.content import JMS_ID
from gateway.bodies import Body, LargeBody
from gateway.crossing import bodies, jms
from gateway.crossing.types import (
    TYPES,
    Natives,
    apply_notes,
    decoded_map,
    fits,
    to_field,
    write_notes,
)
from gateway.message import Properties, Table
from gateway.values import Int, Seconds, Symbol, ULong

ORIGIN, OUR_ORIGIN = "x-opt-gateway-origin", "x-gateway-origin"
"""Names of the capsule: as a message annotation, and as a header."""

EXCHANGE, KEY = "x-exchange", "x-routing-key"
COPIES, OUR_COPIES = "x-cc", "CC"
JMS_GROUP, JMS_SEQUENCE = "JMSXGroupID", "JMSXGroupSeq"
APPLICATION = OURS + "properties"
"""Application properties whose names cannot be header names."""

FIRST_DEATHS = tuple(
    f"x-{which}-death-{what}"
    for which in ("first", "last")
    for what in ("reason", "queue", "exchange")
)
KEYED = (
    (ANNOTATIONS, "annotations"),
    (DELIVERY_ANNOTATIONS, "delivery_annotations"),
    (FOOTER, "footer"),
)
ID_PREFIX = Symbol("x-opt-gateway-id-prefix")
"""Annotation beside a UUID as message id that comes from 0-10: the prefix that the id has before
1.0, where a UUID of 1.0 is an URN."""
UINT = 1 << 32
QUEUES = "/queues/"


class Habits(NamedTuple):
    """Conventions of the readers of a legacy form. ``native``: that of ``to_field``.
    ``segments``: the habits of 0-10, instead of those of the versions before it."""

    native: Natives = frozenset()
    segments: bool = False


FIELD_TABLES = Habits()


# --- basic properties -> sections ---------------------------------------------------------------


def to_sections(
    found: Properties,
    body: Body,
    exchange: str | None,
    key: str,
    flat: bool = False,
) -> tuple[bytes, Body]:
    """The 1.0 form of a message with these properties, which change. Without ``exchange``, exchange
    and key are omitted. ``flat`` removes tables and arrays from the headers and makes times plain
    numbers. Raises ``ValueError``."""
    body = as_sections(found, body)
    if flat:
        more = (found.delivery_annotations, found.footer)
        for table in (found.application, found.annotations, *more):
            flatten(table or {})
    if exchange is not None:
        annotations = found.annotations or {}
        annotations[Symbol(EXCHANGE)] = exchange
        annotations[Symbol(KEY)] = key
        found.annotations = annotations
    return SECTIONS.write(found), body


def flatten(table: dict[Any, Any]) -> None:
    """Remove tables and arrays, except known ones, and make times plain numbers."""
    for name, value in list(table.items()):
        if isinstance(value, dict | list | tuple) and name not in (COPIES, DEATHS):
            del table[name]
        elif isinstance(value, Seconds):
            table[name] = ULong(value)


def as_sections(found: Properties, body: Body) -> Body:
    """Change the properties of a legacy message into those of 1.0; its body in 1.0. Raises
    ``ValueError``."""
    headers: Table = found.application or {}
    for name, attribute in KEYED:
        table = getattr(found, attribute)
        if table and not all(isinstance(key, int) or key.isascii() for key in table):
            headers[name] = table  # not valid as keys in 1.0: unchanged
            setattr(found, attribute, None)
    annotations: dict[Any, Any] = dict(found.annotations or {})
    if headers:
        apply_notes(headers)
        headers.pop(OUR_ORIGIN, None)
        restore_encoded(headers, annotations, found)
        restore_known(headers, annotations, found)
        for name in list(headers):  # if they come from 1.0, names may be of any type
            if isinstance(name, str) and name.startswith("x-opt-") and name.isascii():
                annotations.setdefault(Symbol(name), headers.pop(name))
    flat_kind = found.body_kind
    converted = None
    if not isinstance(body, LargeBody):
        converted = jms.to_sections(found, headers, annotations, flat_kind, body)
    if found.type is not None and found.type == found.subject and jms.MESSAGE_TYPE in annotations:
        found.type = None  # implied
    found.application = headers or (None if found.application is None or annotations else {})
    found.annotations = annotations or None
    if converted is not None:
        found.body_kind, body = converted
        return body
    found.body_kind, body = bodies.unflatten(flat_kind, body)
    if found.body_kind and flat_kind and found.content_type == bodies.TYPES.get(flat_kind):
        found.content_type = None
    return body


def restore_encoded(headers: Table, annotations: dict[Any, Any], found: Properties) -> None:
    """Restore sections that are in headers as encoded maps."""
    for name in (ANNOTATIONS, FOOTER, APPLICATION):
        section = decoded_map(headers.get(name))
        if section is None:
            continue
        if name == APPLICATION:
            del headers[name]
            headers.update(section)
        elif all(isinstance(key, Symbol | ULong) for key in section):
            del headers[name]
            if name == FOOTER:
                found.footer = section
            else:
                annotations.update(section)


def restore_known(headers: Table, annotations: dict[Any, Any], found: Properties) -> None:
    """Move headers that have a field of their own in 1.0."""
    copies = headers.get(OUR_COPIES)
    if isinstance(copies, list) and all(type(each) is str for each in copies):
        annotations[Symbol(COPIES)] = headers.pop(OUR_COPIES)
    deaths = deaths_out(headers.get(OUR_DEATHS))
    if deaths is not None:
        annotations[Symbol(DEATHS)] = deaths
        del headers[OUR_DEATHS]
    for name in FIRST_DEATHS:
        if type(headers.get(name)) is str:
            annotations[Symbol(name)] = headers.pop(name)
    failed = headers.get(COUNT)
    if type(failed) is int and 0 <= failed < UINT:
        found.delivery_count = headers.pop(COUNT)
    if type(headers.get(JMS_GROUP)) is str and found.group_id is None:
        found.group_id = headers.pop(JMS_GROUP)
    sequence: Any = headers.get(JMS_SEQUENCE)
    if type(sequence) in (int, Int) and 0 <= sequence < UINT and found.group_sequence is None:
        found.group_sequence = int(headers.pop(JMS_SEQUENCE))


# --- sections -> basic properties ---------------------------------------------------------------


def as_basic(found: Properties, flat_kind: str | None, habits: Habits) -> Properties:
    """The properties of the legacy message. ``flat_kind`` is the kind of its body."""
    notes: dict[str, int] = {}
    headers: Table = {}
    rest: dict[Any, Any] = {}
    restore_id(found, habits.segments)
    marked = jms.to_legacy(found, flat_kind, headers, habits.segments)
    application_to_headers(found.application or {}, headers, notes, habits.native)
    annotations_to_headers(found.annotations or {}, headers, notes, rest, habits.native)
    if found.delivery_count is not None:
        headers.setdefault(COUNT, int(found.delivery_count))
    group_to_headers(found, headers)
    if rest:
        headers[ANNOTATIONS] = write_value(rest)
    if found.footer is not None:
        headers[FOOTER] = write_value(found.footer)
    if marked is not None:
        headers[BODY] = marked
        if found.content_type is None:
            found.content_type = bodies.TYPES.get(marked)
    if notes:
        headers[TYPES] = write_notes(notes)
    found.application = headers or (None if found.application is None else {})
    found.annotations = found.delivery_annotations = found.footer = found.body_kind = None
    if not habits.segments:
        found.reply_to = queue_of(found.reply_to)
    return found


def restore_id(found: Properties, segments: bool) -> None:
    """The message id as 0-10 (``segments``), or a version before 1.0, has it from a reader of 0-10
    itself."""
    annotations, id_ = found.annotations or {}, found.message_id
    if not isinstance(id_, UUID) or annotations.get(ID_PREFIX) != JMS_ID:
        return
    found.annotations = {name: each for name, each in annotations.items() if name != ID_PREFIX}
    if not segments:
        found.message_id = f"{JMS_ID}{id_}"


def application_to_headers(
    given: dict[Any, Any], headers: Table, notes: dict[str, int], native: Natives
) -> None:
    odd: dict[Any, Any] = {}
    pairs = getattr(given, "pairs", None)
    for name, value in given.items() if pairs is None else pairs:
        if not isinstance(name, str) or not fits(name) or name in headers:
            odd[name] = value
            continue
        if name in (OUR_ORIGIN, TYPES):
            continue  # written by us; the original is in the capsule
        headers[str(name)], code = to_field(value, native=native)
        if code is not None:
            notes[str(name)] = code
    if odd:
        headers[APPLICATION] = write_value(odd)


def annotations_to_headers(
    given: dict[Any, Any],
    headers: Table,
    notes: dict[str, int],
    rest: dict[Any, Any],
    native: Natives,
) -> None:
    """Annotations whose names begin with ``x-`` become headers; the others become one encoded
    header."""
    for name, value in given.items():
        if name in (ORIGIN, EXCHANGE, KEY):
            continue
        deaths = deaths_in(value) if name == DEATHS else None
        copies = name == COPIES and isinstance(value, list)
        if deaths is not None and OUR_DEATHS not in headers:
            headers[OUR_DEATHS] = deaths
        elif copies and OUR_COPIES not in headers and all(type(each) is str for each in value):
            headers[OUR_COPIES] = value
        elif (
            isinstance(name, str)
            and name.startswith("x-")
            and not name.startswith((OURS, "x-gateway-"))
            and name not in headers
            and fits(name)
        ):
            headers[str(name)], code = to_field(value, native=native)
            if code is not None:
                notes[str(name)] = code
        else:
            rest[name] = value


def group_to_headers(found: Properties, headers: Table) -> None:
    """Write the group properties under their JMS names, unless these are taken."""
    if found.group_id is not None and JMS_GROUP not in headers:
        headers[JMS_GROUP], found.group_id = found.group_id, None
    if found.group_sequence is not None and JMS_SEQUENCE not in headers:
        sequence = int(found.group_sequence)
        # JMS has an int here; larger values are kept as a long.
        headers[JMS_SEQUENCE] = Int(sequence) if sequence < UINT // 2 else sequence
        found.group_sequence = None


def queue_of(address: str | None) -> str | None:
    """A reply address: ``/queues/q`` is the queue ``q``; any other address stays as it is, as plain
    addresses name queues."""
    if address is None or not address.startswith(QUEUES) or "/" in address[len(QUEUES) :]:
        return address
    try:
        return unquote(address[len(QUEUES) :], errors="strict") or address
    except UnicodeDecodeError:
        return address
