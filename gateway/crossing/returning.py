"""Messages that return with a capsule: verification, and detection of changes."""

from collections.abc import Mapping
from typing import NamedTuple

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import split_header
from gateway.crossing import bodies, jms
from gateway.crossing.capsule import Capsule, Parts, belongs_to, digest, digests_of, part_of_body
from gateway.crossing.conversion import Hop, natural_form, natural_form_of
from gateway.crossing.forms import SECTIONS_FORM, Form
from gateway.crossing.overlay import overlay


class OpenedCapsule(NamedTuple):
    """A message with its capsule. ``home`` is its original form. ``flat`` is its body in the family
    form. ``flat_kind`` is the kind of that body, if it is not data."""

    home: Form
    source: Form
    capsule: Capsule
    header: bytes
    body: bytes
    flat: bytes
    flat_kind: str | None
    parts: Parts


def open_capsule(
    forms: Mapping[str, Form], source: Form, capsule: Capsule, header: bytes, body: bytes
) -> OpenedCapsule | None:
    """The opened message. ``None`` if the capsule belongs to another message, or to one that always
    had this form."""
    home = forms.get(capsule.protocol)
    if home is None or home is source:
        return None
    header = source.as_published(header, capsule.digests)
    flat, flat_kind = body, None
    if source is SECTIONS_FORM:
        flat_kind, octets, _ = bodies.flatten(SECTIONS.read(header), body)
        flat = octets[:]
    parts = (*source.parts(header), part_of_body(flat))
    if not belongs_to(capsule.digests, parts):
        return None
    return OpenedCapsule(home, source, capsule, header, body, flat, flat_kind, parts)


def original_of(found: OpenedCapsule) -> tuple[bytes, bytes] | None:
    """The original header and body; ``None`` if the message was changed. The body of a message of
    the family may have changed, since its header does not depend on it."""
    capsule, digests = found.capsule, digests_of(found.parts)
    if found.home is SECTIONS_FORM:
        same = digests == capsule.digests
    else:
        same = digests[:-1] == capsule.digests[:-1] and found.flat_kind is None
    return (capsule.header, original_body(capsule, found.flat)) if same else None


def original_body(capsule: Capsule, flat: bytes) -> bytes:
    """The body of a message of 1.0 as it came. Raises ``ValueError``."""
    if capsule.flat_kind not in jms.KINDS:
        return capsule.prefix + flat
    content_type = SECTIONS.read(capsule.header).content_type
    converted = jms.to_section(capsule.flat_kind, content_type, flat)
    if converted is None:
        raise ValueError("the body is no longer of its kind")
    return converted[1]


def form_of_body(header: bytes) -> bytes:
    """The form of the body in a stored header of 1.0."""
    found = split_header(header).body
    return header[found[0][1][0] : found[0][1][2]] if found else b""


def edited(found: OpenedCapsule, reader: Form, hop: Hop) -> tuple[bool, bytes, bytes, bytes]:
    """Whether there are changes; header and body with the changes applied to the original; and the
    header without them. Raises ``ValueError``."""
    home, source, capsule = found.home, found.source, found.capsule
    first = natural_form_of(home, source, capsule, found.flat)
    if home is reader:
        natural = capsule.header
    else:
        natural = natural_form_of(home, reader, capsule, found.flat, hop)[0]
    written = natural_form(source, reader, *first).header
    received = natural_form(source, reader, source.without_capsule(found.header), found.body)
    properties = reader.dialect.read(natural)
    old, new = reader.dialect.read(written), reader.dialect.read(received.header)
    body, form = received.body[:], b""
    if reader is SECTIONS_FORM:
        form = form_of_body(received.header)
    if home is reader is SECTIONS_FORM:
        kind = None if properties.body_kind == "data" else properties.body_kind
        whole = capsule.flat_kind is None or digest(found.parts[-1]) == capsule.digests[-1]
        if new.body_kind == kind and whole:
            body, form = original_body(capsule, found.flat), form_of_body(capsule.header)
    old.body_kind = new.body_kind = None
    changed = overlay(properties, old, new)
    anew = bool(changed) or home is SECTIONS_FORM
    return anew, reader.edited(natural, properties, changed, form), body, natural
