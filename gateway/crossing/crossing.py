"""From one dialect to the other: natural, looked at from behind, and with a capsule if need be.

``Crossing`` is set up once (``message.cross_with``). For each message it writes the natural form,
runs the inverse in memory, and if that is not the same message attaches a capsule; a message that
comes back with one of ours gets its own octets back, as far as nobody has changed it.
"""

import struct
from collections import Counter
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from gateway.adapters.v0_9.content import BASIC, BODY, OURS, REFERENCE, reference
from gateway.adapters.v0_9.splicing import cut, joined, with_headers, without_header
from gateway.adapters.v1_0.content import FORMS, NESTED, SECTIONS, UNFIT
from gateway.adapters.v1_0.encoding import pairs_of
from gateway.adapters.v1_0.fields import FieldError
from gateway.adapters.v1_0.sections import DELIVERY, is_plain, split_header
from gateway.adapters.v1_0.splicing import annotations_of, with_annotations, with_section
from gateway.bodies import Body, LargeBody
from gateway.crossing import bodies
from gateway.crossing.capsule import (
    LARGEST,
    PASSING,
    Capsule,
    Parts,
    Seal,
    digest,
    digests_of,
    part_of_body,
    parts_of_basic,
    parts_of_sections,
    speaks_for,
)
from gateway.crossing.natural import ORIGIN, OUR_ORIGIN, rise, risen, sink, sunk
from gateway.crossing.overlay import overlay, rewritten
from gateway.crossing.sameness import (
    same_basic,
    same_body,
    same_sections,
    unequal_basic,
    unequal_sections,
)
from gateway.crossing.types import TYPES
from gateway.message import Dialect, Message, plainly
from gateway.values import Map, Symbol

Mode = Literal["natural", "lossless", "strict", "lenient"]

CACHED, LONGEST = 4096, 512
"""Entries of the cache before it is emptied, and octets of a header that is kept in it."""

REFERENCES, REFERRED = 1024, 60
"""Long ids that are remembered for replies, the oldest forgotten first; and the length above which
an id may be one (its text may be several times as long)."""

NAMED = 8
"""Names of what is inexact that a capsule tells, for those who look into it."""

ORIGIN_OCTETS, OUR_ORIGIN_OCTETS, BODY_OCTETS = (
    name.encode() for name in (ORIGIN, OUR_ORIGIN, BODY)
)

NOT_KEPT = (BODY_OCTETS, REFERENCE.encode())
"""What makes a conversion depend on more than the header."""

PASSING_OCTETS = tuple(name.encode() for name in PASSING)


class Fidelity(StrEnum):
    """What became of a message on its way to another dialect."""

    EXACT = "exact"
    EQUIVALENT = "equivalent"
    CAPSULE = "capsule"
    EDITED = "edited"
    LOSSY = "lossy"
    NATURAL = "natural"
    """Nobody has looked."""


class Crossed(NamedTuple):
    """Header and body for the reader. ``inexact``: names of what the natural form does not say."""

    header: bytes
    body: Body
    fidelity: Fidelity
    inexact: tuple[str, ...] = ()


class Draft(NamedTuple):
    """The same before a capsule is made; good for all messages with this header if their body is
    data."""

    header: bytes
    body: Body
    fidelity: Fidelity
    inexact: tuple[str, ...] = ()
    capsule: Capsule | None = None


MOST_READ = 128 << 20
"""Octets of a large body that is read because it is not data."""


def with_body(message: Message, body: bytes) -> Message:
    """The same message with another body."""
    return Message(
        message.dialect, message.header, body, message.exchange, message.key, message.essentials
    )


class Crossing:
    """How messages cross in this process; counts what becomes of them."""

    def __init__(
        self,
        key: bytes,
        mode: Mode = "lossless",
        fidelity: Literal["values", "bytes"] = "values",
    ) -> None:
        self.mode: Mode = mode
        self.octets = fidelity == "bytes"
        self.seal = Seal(key)
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """Messages by dialect of the sender, of the reader, and fidelity."""
        self.forged = 0
        """Capsules that were not ours, or not of their message."""
        self.refused = 0
        """Messages that could not be given to a reader."""
        self._risen: dict[tuple[bytes, str, str], Draft] = {}
        self._references: dict[str, Any] = {}
        self._sunk: dict[bytes, Draft] = {}

    def __call__(self, message: Message, dialect: Dialect) -> tuple[bytes, Body]:
        """The crosser of ``message.cross_with``. Raises ``ValueError``."""
        try:
            crossed = self.cross(message, dialect)
        except (ValueError, struct.error, OverflowError, RecursionError) as error:
            self.refused += 1
            raise ValueError(str(error)) from error
        self.counts[message.dialect.name, dialect.name, crossed.fidelity] += 1
        return crossed.header, crossed.body

    def cross(self, message: Message, dialect: Dialect) -> Crossed:
        """Raises ``ValueError`` if the message has no form for this reader, or none that is good
        enough."""
        header, body = message.header, message.body
        if isinstance(body, LargeBody):
            return self._large(message, body, dialect)
        if message.dialect is BASIC and dialect is SECTIONS:
            return self._rise(header, body, message.exchange, message.key)
        if message.dialect is SECTIONS and dialect is BASIC:
            return self._sink(header, body)
        if dialect is SECTIONS:
            # All others are near 0-9-1, and go by its way.
            header = BASIC.write(message.dialect.read(header))
            return self._rise(header, body, message.exchange, message.key)
        if message.dialect is SECTIONS:
            crossed = self._sink(header, body)
            return crossed._replace(header=dialect.write(BASIC.read(crossed.header)))
        return Crossed(*plainly(message, dialect), Fidelity.NATURAL)

    def _large(self, message: Message, body: LargeBody, dialect: Dialect) -> Crossed:
        """A body of data goes over as it is, and a capsule is not bound to it; whatever else has to
        be read."""
        if message.dialect is SECTIONS:
            data = is_plain(message.header)
        else:
            data = BODY_OCTETS not in message.header
        if data:
            crossed = self.cross(with_body(message, b""), dialect)
            if not crossed.body:
                return crossed._replace(body=body)
        if len(body) > MOST_READ:
            raise ValueError(f"a body of {len(body)} octets that is not data")
        return self.cross(with_body(message, body[:]), dialect)

    # --- 0-9-1 -> 1.0 ---------------------------------------------------------------------------

    def _rise(self, header: bytes, body: Body, exchange: str, key: str) -> Crossed:
        draft = self._risen.get((header, exchange, key))
        if draft is not None:
            return self._finished(draft, body, body)
        capsuled = OUR_ORIGIN_OCTETS in header
        if capsuled:
            restored = self._restore_sections(header, body)
            if restored is not None:
                return restored
            header = without_header(header, OUR_ORIGIN_OCTETS)
        draft = self._draft_of_sections(header, body, exchange, key)
        if len(header) <= LONGEST and not (capsuled or any(o in header for o in NOT_KEPT)):
            if len(self._risen) >= CACHED:
                self._risen.clear()
            self._risen[header, exchange, key] = draft._replace(body=b"")
        return self._finished(draft, body, draft.body)

    def _draft_of_sections(self, header: bytes, body: Body, exchange: str, key: str) -> Draft:
        flat = self.mode == "lenient"
        try:
            natural, inner = rise(header, body, exchange, key, flat, self._references)
        except FieldError:
            natural, inner = rise(header, body, exchange, key, True, self._references)
        if self.mode == "natural":
            return Draft(natural, inner, Fidelity.NATURAL)
        if flat:
            natural = without_carriers(natural)
        back, outer = sink(natural, inner)
        if back == header and outer == body:
            return Draft(natural, inner, Fidelity.EXACT)
        if not self.octets and outer == body and same_basic(back, header):
            return Draft(natural, inner, Fidelity.EQUIVALENT)
        inexact = tuple(unequal_basic(back, header))
        if self.mode == "lenient":
            return Draft(natural, inner, Fidelity.LOSSY, inexact)
        capsule = Capsule(
            BASIC.name, header, digests_of(parts_of_sections(natural)), names=inexact[:NAMED]
        )
        return Draft(natural, inner, Fidelity.CAPSULE, inexact, capsule)

    def _restore_sections(self, header: bytes, body: Body) -> Crossed | None:
        """A message of 1.0 that has come back, or ``None``."""
        parts = (*parts_of_basic(header), part_of_body(body))
        capsule = self._open(carried_by(header), SECTIONS.name, parts)
        if capsule is None:
            return None
        if not isinstance(body, LargeBody):
            inner: Body = capsule.lead + body
        elif capsule.lead or capsule.word is not None:
            return None
        else:
            inner = body
        if digests_of(parts) == capsule.digests:
            return Crossed(capsule.header, inner, Fidelity.EXACT)
        found = SECTIONS.read(capsule.header)
        kind = None if found.body_kind == "data" else found.body_kind
        expected = BASIC.write(sunk(SECTIONS.read(capsule.header), capsule.word))
        written, _ = risen(expected, body)
        received, anew = risen(header, body)
        untouched = capsule.word is None or digest(parts[-1]) == capsule.digests[-1]
        if received.body_kind == kind and untouched:
            form = form_of(capsule.header)
        else:
            inner, form = anew, FORMS.get(received.body_kind or "", b"")
        written.body_kind = received.body_kind = None
        changed = overlay(found, written, received)
        restored = rewritten(capsule.header, found, changed, form)
        return Crossed(restored, inner, Fidelity.EDITED)

    # --- 1.0 -> 0-9-1 ---------------------------------------------------------------------------

    def _sink(self, header: bytes, body: Body) -> Crossed:
        draft = self._sunk.get(header)
        if draft is not None:
            return self._finished(draft, body, body)
        capsuled = ORIGIN_OCTETS in header
        if capsuled:
            restored = self._restore_basic(header, body)
            if restored is not None:
                return restored
        draft = self._draft_of_basic(header, body)
        referred = NOT_KEPT[1] in draft.header
        if len(header) <= LONGEST and is_plain(header) and not (capsuled or referred):
            if len(self._sunk) >= CACHED:
                self._sunk.clear()
            self._sunk[header] = draft._replace(body=b"")
        return self._finished(draft, draft.body, draft.body)

    def _draft_of_basic(self, header: bytes, body: Body) -> Draft:
        found = SECTIONS.read(header)
        kind = found.body_kind
        self._remember(found.message_id)
        flat = bodies.flatten(kind, body)
        natural = BASIC.write(sunk(found, flat.word))
        if self.mode == "natural":
            return Draft(natural, flat.octets, Fidelity.NATURAL)
        if self.mode == "lenient":
            natural = without_ours(natural)
        original = without_passing(with_section(header, DELIVERY, b""))
        back, inner = risen(natural, flat.octets)
        again = SECTIONS.write(back)
        if again == original and inner == body:
            return Draft(natural, flat.octets, Fidelity.EXACT)
        encoded = kind in ("value", "sequence")
        if not self.octets and same_sections(again, original) and same_body(inner, body, encoded):
            return Draft(natural, flat.octets, Fidelity.EQUIVALENT)
        inexact = tuple(unequal_sections(again, original)) or ("body",)
        if self.mode == "lenient":
            return Draft(natural, flat.octets, Fidelity.LOSSY, inexact)
        digests = digests_of(parts_of_basic(natural))
        capsule = Capsule(SECTIONS.name, original, digests, flat.word, flat.lead, inexact[:NAMED])
        return Draft(natural, flat.octets, Fidelity.CAPSULE, inexact, capsule)

    def _remember(self, id_: Any) -> None:
        """A legacy reader is given a reference for an id of this length, and may answer with it."""
        if isinstance(id_, str | bytes) and REFERRED < len(id_) < LARGEST:
            if len(self._references) >= REFERENCES:
                self._references.pop(next(iter(self._references)))
            self._references[reference(id_)] = id_

    def _restore_basic(self, header: bytes, body: Body) -> Crossed | None:
        """A legacy message that has come back, or ``None``."""
        flat = bodies.flatten(SECTIONS.read(header).body_kind, body)
        parts = (*parts_of_sections(header), part_of_body(flat.octets))
        capsule = self._open(annotations_of(header).get(ORIGIN), BASIC.name, parts)
        if capsule is None:
            return None
        if flat.word is None and digests_of(parts[:-1]) == capsule.digests[:-1]:
            return Crossed(capsule.header, flat.octets, Fidelity.EXACT)
        found = BASIC.read(capsule.header)
        written = BASIC.read(sink(*rise(capsule.header, body, "", ""))[0])
        received = BASIC.read(sink(header, body)[0])
        if not overlay(found, written, received):
            return Crossed(capsule.header, flat.octets, Fidelity.EXACT)
        return Crossed(BASIC.write(found), flat.octets, Fidelity.EDITED)

    # --- capsules -------------------------------------------------------------------------------

    def _open(self, octets: Any, protocol: str, parts: Parts) -> Capsule | None:
        """A capsule that may be used for a message of these parts, if there is one."""
        if octets is None or self.mode == "natural":
            return None
        capsule = self.seal.read(octets)
        if (
            capsule is None
            or capsule.protocol != protocol
            or not speaks_for(capsule.digests, parts)
        ):
            self.forged += 1
            return None
        return capsule

    def _finished(self, draft: Draft, told: Body, body: Body) -> Crossed:
        """For a body: ``told`` is what a capsule speaks of, ``body`` what is sent."""
        header, _, fidelity, inexact, capsule = draft
        if capsule is None:
            return Crossed(header, body, fidelity, inexact)
        digests = (*capsule.digests, digest(part_of_body(told)))
        octets = self.seal.write(capsule._replace(digests=digests))
        if len(octets) > LARGEST:
            return self._lossy(header, body, inexact)
        if capsule.protocol == BASIC.name:
            header = with_annotations(header, {**annotations_of(header), Symbol(ORIGIN): octets})
        else:
            header = with_headers(header, {OUR_ORIGIN: octets})
        return Crossed(header, body, fidelity, inexact)

    def _lossy(self, header: bytes, body: Body, inexact: tuple[str, ...]) -> Crossed:
        """What would need a capsule that is too large."""
        if self.mode == "strict":
            raise ValueError(f"cannot be carried exactly: {', '.join(inexact)[:200]}")
        return Crossed(header, body, Fidelity.LOSSY, inexact)


def carried_by(header: bytes) -> bytes | None:
    """The capsule among these headers, if it is one long string or binary."""
    for name, raw in cut(header).entries or []:
        if name == OUR_ORIGIN_OCTETS:
            tag = 1 + len(name)
            return raw[tag + 5 :] if raw[tag : tag + 1] in (b"x", b"S") else b""
    return None


def form_of(header: bytes) -> bytes:
    """The form of the body in a stored header."""
    found = split_header(header).body
    return header[found[0][1][0] : found[0][1][2]] if found else b""


def without_passing(header: bytes) -> bytes:
    """Without annotations that tell of one hop only, and without capsules."""
    if not any(name in header for name in PASSING_OCTETS):
        return header
    annotations = annotations_of(header)
    kept = [pair for pair in pairs_of(annotations) if pair[0] not in PASSING]
    if len(kept) == len(pairs_of(annotations)):
        return header
    return with_annotations(header, Map(kept) if type(annotations) is Map else dict(kept))


def without_carriers(header: bytes) -> bytes:
    """Without what carries legacy values that 1.0 has no place for."""
    annotations = annotations_of(header)
    kept = {key: value for key, value in annotations.items() if key not in (NESTED, UNFIT)}
    return header if len(kept) == len(annotations) else with_annotations(header, kept)


def without_ours(header: bytes) -> bytes:
    """Without headers that carry what the older versions have no place for."""
    parts = cut(header)
    ours = (OURS.encode(), TYPES.encode())
    kept = [entry for entry in parts.entries or [] if not entry[0].startswith(ours)]
    return joined(parts._replace(entries=kept or None))
