"""A message from its octets in 1.0, as an archive has it (column ``amqp10``).

The journal converts messages of other versions to 1.0, and what their natural form does not say is
in a capsule. Such a message is restored: its dialect, the octets of its properties, its body. One
without a capsule that tells the exchange and the key it came with is made a message of 0-9-1, if
that is the same in 1.0, octet by octet: its readers get the exchange and the key it has now.
"""

from functools import lru_cache
from typing import NamedTuple

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import part
from gateway.adapters.performatives.splicing import annotations_of
from gateway.crossing.capsule import Seal
from gateway.crossing.crossing import Crossing, Fidelity
from gateway.crossing.forms import SECTIONS_FORM
from gateway.crossing.legacy_forms import FORMS
from gateway.crossing.natural import EXCHANGE, KEY
from gateway.crossing.returning import open_capsule, original_of
from gateway.journal.canonical import ARCHIVE_KEY
from gateway.message import DIALECTS, UNFORESEEN, Dialect, Essentials, Message

CROSSING = Crossing(ARCHIVE_KEY)
HOP_BY_HOP = (EXCHANGE.encode(), KEY.encode())
SEAL = Seal(ARCHIVE_KEY)
"""Anybody can write capsules with this key: whoever may publish a message may publish any."""


class Archived(NamedTuple):
    """A message without its place."""

    dialect: Dialect
    header: bytes
    body: bytes
    essentials: Essentials


def restored(octets: bytes) -> Archived:
    """Raises ``ValueError``."""
    try:
        header, body = part(octets)
        dialect: Dialect = SECTIONS
        if SECTIONS_FORM.marker in header:
            dialect, header, body = opened(header, body)
        elif all(name in header for name in HOP_BY_HOP):
            dialect, header, body = legacy(header, body)
        return Archived(dialect, header, body, essentials_of(dialect.name, header))
    except UNFORESEEN as error:
        raise ValueError(f"the sections cannot be read: {error!r}") from error


def opened(header: bytes, body: bytes) -> tuple[Dialect, bytes, bytes]:
    """The message in its capsule; unchanged if that is not one of an archive."""
    capsule = SEAL.read(SECTIONS_FORM.capsule_in(header))
    if capsule is not None:
        found = open_capsule(FORMS, SECTIONS_FORM, capsule, header, body)
        original = None if found is None else original_of(found)
        if found is not None and original is not None:
            return found.home.dialect, *original
    return SECTIONS, header, body


def legacy(header: bytes, body: bytes) -> tuple[Dialect, bytes, bytes]:
    """The message in 0-9-1; unchanged if it has no such form that is the same in 1.0."""
    same = SECTIONS, header, body
    annotations = annotations_of(header)
    exchange, key = annotations.get(EXCHANGE), annotations.get(KEY)
    if not isinstance(exchange, str) or not isinstance(key, str):
        return same
    essentials = essentials_of(SECTIONS.name, header)
    there = CROSSING.cross(Message(*same, exchange, key, essentials), BASIC)
    if there.fidelity not in (Fidelity.EXACT, Fidelity.EQUIVALENT):
        return same
    found = BASIC, there.header, there.body[:]
    back = CROSSING.cross(Message(*found, exchange, key, essentials), SECTIONS)
    return found if (back.header, back.body) == (header, body) else same


@lru_cache(1024)
def essentials_of(dialect: str, header: bytes) -> Essentials:
    """Equal essentials are one object, since queues hold very many."""
    return DIALECTS[dialect].essentials(header)
