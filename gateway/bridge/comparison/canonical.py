"""The canonical form of a message, in which those of two brokers can be compared.

It has the properties, headers and annotations by name, each with its type, without what brokers
change on the way and without the notes of the gateway; and a digest of the body.
"""

import hashlib
import json
from typing import Any, NamedTuple

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.bridge.migration.identity import (
    AGAIN,
    COUNT,
    NOTES,
    VOLATILE,
    add_body,
    notes_of,
    tables_of,
)
from gateway.bridge.repeats import NOTE as REPEATED
from gateway.crossing.natural import JMS_GROUP, JMS_SEQUENCE
from gateway.message import UNFORESEEN, Dialect, Message, Properties

FORMS: dict[str, Dialect] = {"0-9-1": BASIC, "1.0": SECTIONS}
"""Versions in which messages are compared; those of other versions are converted."""
OMITTED = frozenset({*VOLATILE, "to", "body_kind", "application", "annotations"})
SENT_BY_BROKERS = frozenset({COUNT, "x-routing-key", "x-exchange", "x-opt-jms-dest"})
LEFT_OUT = NOTES | SENT_BY_BROKERS | {REPEATED}
GROUPS = ((JMS_GROUP, "group_id"), (JMS_SEQUENCE, "group_sequence"))
"""Headers of JMS clients that mean properties of 1.0."""
UNREADABLE = "unreadable"


class Field(NamedTuple):
    """A property: ``header.n``, ``annotation.x``, ``content-type``."""

    name: str
    type: str
    value: str


class Entry(NamedTuple):
    """A message. ``id`` is the message-id, "" if it has none; ``again``: it has the flag of a
    message that may have come before."""

    id: str
    group: str
    again: bool
    body: bytes
    fields: list[Field]


def entry_of(message: Message, form: str) -> Entry:
    """``form`` is one of ``FORMS``, or "" for that of the message itself."""
    again = AGAIN in notes_of(message)
    body = hashlib.blake2b(digest_size=16)
    try:
        dialect = FORMS[form] if form else message.dialect
        header, octets = message.form_for(dialect)
        properties = dialect.read(header)
        headers, annotations = tables_of(properties)
        again = again or REPEATED in headers or REPEATED in annotations
    except (ValueError, *UNFORESEEN):
        add_body(body, message)
        shown = hashlib.blake2b(message.header, digest_size=16).hexdigest()
        return Entry("", "", again, body.digest(), [Field(UNREADABLE, "header", shown)])
    for name, attribute in GROUPS:
        if getattr(properties, attribute) is None and name in headers:
            setattr(properties, attribute, headers.pop(name))
    for at in range(0, len(octets), 1 << 20):
        body.update(bytes(octets[at : at + (1 << 20)]))
    fields = [
        typed(name.replace("_", "-"), value)
        for name, value in properties.given().items()
        if name not in OMITTED
    ]
    for kind, table in (("header", headers), ("annotation", annotations)):
        fields += [
            typed(f"{kind}.{name}", value)
            for name, value in table.items()
            if str(name) not in LEFT_OUT
        ]
    fields.sort()
    return Entry(id_of(properties), str(properties.group_id or ""), again, body.digest(), fields)


def id_of(properties: Properties) -> str:
    return "" if properties.message_id is None else str(properties.message_id)


def typed(name: str, value: Any) -> Field:
    return Field(name, type_of(value), text_of(value))


def type_of(value: Any) -> str:
    """The type, of a list or table with those of its values."""
    if isinstance(value, dict):
        pairs = sorted((str(key), type_of(each)) for key, each in value.items())
        return f"map{json.dumps(pairs)}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}{json.dumps([type_of(each) for each in value])}"
    return type(value).__name__


def text_of(value: Any) -> str:
    """The value as text, the same for equal values of different types."""
    if isinstance(value, dict):
        return json.dumps(sorted((str(key), text_of(each)) for key, each in value.items()))
    if isinstance(value, list | tuple):
        return json.dumps([text_of(each) for each in value])
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return repr(float(value)) if isinstance(value, float) else str(int(value))
    return str(value)
