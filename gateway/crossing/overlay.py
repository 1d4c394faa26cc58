"""Applies the changes that were made on the way to the original message."""

from typing import Any

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import (
    ANNOTATIONS,
    APPLICATION,
    FOOTER,
    HEADER,
    PROPERTIES,
    split_header,
)
from gateway.crossing.sameness import same
from gateway.message import Properties

MAPS = frozenset({"application", "annotations", "footer"})
SECTION_OF = {
    **dict.fromkeys(
        ("durable", "priority", "ttl", "first_acquirer", "delivery_count"), HEADER
    ),
    **dict.fromkeys(("annotations", "type", "app_id", "cluster_id"), ANNOTATIONS),
    "application": APPLICATION,
    "footer": FOOTER,
}  # fmt: skip
"""The section of a property in 1.0; properties that are not listed are in the properties
section."""


def overlay(original: Properties, written: Properties, received: Properties) -> set[str]:
    """Add to ``original`` the members of ``received`` that were not ``written``, and remove missing
    ones. Returns the names of changed properties."""
    changed: set[str] = set()
    for name in Properties.__slots__:
        old, new = getattr(written, name), getattr(received, name)
        if name == "delivery_annotations" or same(old, new):
            continue
        if name in MAPS:
            table = dict(getattr(original, name) or {})
            if overlay_map(table, old or {}, new or {}):
                setattr(original, name, table)
                changed.add(name)
        else:
            setattr(original, name, new)
            changed.add(name)
    return changed


def overlay_map(table: dict[Any, Any], old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    changed = False
    for key, value in new.items():
        if key not in old or not same(old[key], value):
            table[key] = value
            changed = True
    for key in old:
        if key not in new:
            changed |= table.pop(key, old) is not old
    return changed


def rewritten(header: bytes, found: Properties, changed: set[str], form: bytes) -> bytes:
    """A stored header of 1.0 in which only sections with changed properties are rewritten. ``form``
    is the form of the body, as in a header. Raises ``ValueError``."""
    sections = {SECTION_OF.get(name, PROPERTIES) for name in changed}
    anew = SECTIONS.write(found)
    if PROPERTIES in sections or HEADER in sections:
        sections.add(ANNOTATIONS)  # holds values that do not fit their field
    old, new = split_header(header).single, split_header(anew).single
    pieces = [form]
    for code in (FOOTER, HEADER, ANNOTATIONS, PROPERTIES, APPLICATION):
        octets, span = (anew, new.get(code)) if code in sections else (header, old.get(code))
        if span is not None:
            pieces.append(octets[span[0] : span[2]])
    return b"".join(pieces)
