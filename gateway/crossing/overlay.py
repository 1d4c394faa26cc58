"""Edits win: what was changed on the way is put over the original, and nothing else of it."""

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
"""Where a property stands in 1.0; those that are not named, among the properties."""


def overlay(original: Properties, written: Properties, received: Properties) -> set[str]:
    """Put into ``original`` what is in ``received`` and was not ``written``, and take out what is
    missing. The names of what was changed."""
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


def rewritten(header: bytes, properties: Properties, changed: set[str], form: bytes) -> bytes:
    """A stored header of 1.0 in which only the sections with what was changed are written anew.
    ``form``: of the body, as a header has it. Raises ``ValueError``."""
    sections = {SECTION_OF.get(name, PROPERTIES) for name in changed}
    anew = SECTIONS.write(properties)
    if PROPERTIES in sections or HEADER in sections:
        sections.add(ANNOTATIONS)  # holds what does not fit its field
    old, new = split_header(header).single, split_header(anew).single
    pieces = [form]
    for code in (FOOTER, HEADER, ANNOTATIONS, PROPERTIES, APPLICATION):
        octets, span = (anew, new.get(code)) if code in sections else (header, old.get(code))
        if span is not None:
            pieces.append(octets[span[0] : span[2]])
    return b"".join(pieces)
