"""Conversion from one dialect to another: the natural form, checked by its inverse, with a capsule
if necessary.

``Crossing`` is set up once (``message.cross_with``). For each message it writes the natural form,
runs the inverse in memory, and if that is not the same message attaches a capsule; a message that
returns with a capsule of ours gets its original octets back, except where it was changed.
"""

import struct
from collections import Counter
from enum import StrEnum
from functools import partial
from typing import Any, Literal, NamedTuple

from gateway.adapters.commands.content import COMMAND
from gateway.adapters.methods.content import BODY, REFERENCE
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import is_plain
from gateway.bodies import Body, LargeBody
from gateway.crossing import jms
from gateway.crossing.capsule import (
    LARGEST,
    Capsule,
    Seal,
    digest,
    digests_of,
    part_of_body,
)
from gateway.crossing.conversion import Hop, natural_form
from gateway.crossing.forms import Form
from gateway.crossing.legacy_forms import FORMS, form_of
from gateway.crossing.notations import NOTATIONS, source_for
from gateway.crossing.references import References
from gateway.crossing.returning import OpenedCapsule, edited, open_capsule, original_of
from gateway.crossing.sameness import same_body
from gateway.crossing.shapes import Shapes
from gateway.crossing.sized_plans import SizedPlan
from gateway.message import Dialect, Message, Plans

Mode = Literal["natural", "lossless", "strict", "lenient"]

CACHED, LONGEST = 8192, 512
"""Maximum entries of the cache before it is emptied, and maximum octets of a cached header."""

NAMED = 8
"""Maximum number of inexact names listed in a capsule, for inspection."""

BODY_OCTETS, REFERENCE_OCTETS = BODY.encode(), REFERENCE.encode()
DEPENDING = (BODY_OCTETS, REFERENCE_OCTETS, *jms.MARKS)
"""Properties that make a conversion to 1.0 depend on more than the header."""


class Fidelity(StrEnum):
    """Result of converting a message to another dialect."""

    EXACT = "exact"
    EQUIVALENT = "equivalent"
    CAPSULE = "capsule"
    EDITED = "edited"
    LOSSY = "lossy"
    NATURAL = "natural"
    """Not verified."""

    __hash__ = str.__hash__  # of Enum's, it would be a call for each message that is counted


Outcome = Fidelity | tuple[str, ...]
"""What a plan results in: the names of properties if it needs a capsule, as nearly all messages do
for readers of 0.8a2, which has no message without a priority."""


class Crossed(NamedTuple):
    """Header and body for the reader. ``inexact`` has the names of properties that the natural form
    does not express."""

    header: bytes
    body: Body
    fidelity: Fidelity
    inexact: tuple[str, ...] = ()


class Conversion(NamedTuple):
    """The result before a capsule is made. Valid for all messages with this header if their body is
    data, but for a ``reference``, which is remembered for the user of each (``NaturalForm``)."""

    header: bytes
    body: Body
    fidelity: Fidelity
    inexact: tuple[str, ...] = ()
    capsule: Capsule | None = None
    reference: tuple[str, Any] | None = None


MOST_READ = 128 << 20
"""Maximum octets of a large body that is read because it is not data."""


def with_body(message: Message, body: bytes) -> Message:
    """The same message with another body."""
    return Message(
        message.dialect, message.header, body, message.exchange, message.key, message.essentials,
        user=message.user,
    )  # fmt: skip


class Crossing:
    """The converter of this process, with counters of its results."""

    def __init__(
        self,
        key: bytes,
        mode: Mode = "lossless",
        fidelity: Literal["values", "bytes"] = "values",
    ) -> None:
        self.mode: Mode = mode
        self.octets = fidelity == "bytes"
        self.seal = Seal(key)
        self._counts: Counter[tuple[str, str, str]] = Counter()
        """Of ``counts``, messages that were not counted by a tally."""
        self.forged = 0
        """Number of capsules with a foreign signature, or of another message."""
        self.refused = 0
        """Number of messages that could not be converted for a reader."""
        self._conversions: dict[tuple[str | bytes, ...], Conversion] = {}
        self._references = References()
        self.plans: Plans = {}
        """Those that are complete."""
        self._shapes: dict[tuple[str, str], Shapes] = {
            (source, reader): Shapes(
                source_for(source, reader),
                NOTATIONS[reader],
                partial(self._plain_form, FORMS[source], FORMS[reader]),
                self._references,
                partial(self._changed, FORMS[source].dialect, FORMS[reader].dialect),
            )
            for source in NOTATIONS
            for reader in NOTATIONS
            if source != reader
        }
        """By name of the two dialects."""

    def __call__(self, message: Message, dialect: Dialect) -> tuple[bytes, Body]:
        """Convert a message that none of ``plans`` converts: the function of
        ``message.cross_with``. Raises ``ValueError``. Hot."""
        try:
            crossed = self.cross(message, dialect, True)
        except (ValueError, struct.error, OverflowError, RecursionError) as error:
            self.refused += 1
            raise ValueError(str(error)) from error
        self._counts[message.dialect.name, dialect.name, crossed.fidelity] += 1
        return crossed.header, crossed.body

    def _changed(self, source: Dialect, reader: Dialect, size: int, plan: SizedPlan) -> None:
        """There is another plan for headers of this size."""
        if plan.tally is None:
            self.plans.pop((source, reader, size), None)
        else:
            self.plans[source, reader, size] = plan

    @property
    def counts(self) -> Counter[tuple[str, str, str]]:
        """Number of messages by dialect of the sender, dialect of the reader, and fidelity."""
        found = self._counts.copy()
        for pair, shapes in self._shapes.items():
            for fidelity, tally in shapes.tallies.items():
                found[*pair, fidelity] += tally.number
        return found

    def shapes(self, source: str, reader: str) -> Shapes | None:
        """The plans from one dialect to another; ``None`` for two that have none."""
        return self._shapes.get((source, reader))

    def cross(self, message: Message, dialect: Dialect, tried: bool = False) -> Crossed:
        """Convert a message. Raises ``ValueError`` if it has no form for this reader, or no form of
        the configured precision. ``tried``: none of ``plans`` converts it. Hot."""
        shapes, body = self.shapes(message.dialect.name, dialect.name), message.body
        if shapes is not None and not isinstance(body, LargeBody):
            written = shapes.like(message.header, message.exchange, message.key, tried)
            if written is not None:
                return self._planned(message, dialect, body, *written)
        return self._unlike(message, dialect, shapes)

    def _unlike(self, message: Message, dialect: Dialect, shapes: Shapes | None) -> Crossed:
        """Convert a message that is not ``like`` one before. Hot."""
        header, body = message.header, message.body
        if isinstance(body, LargeBody):
            return self._large(message, body, dialect)
        cache_key: tuple[str | bytes, ...]
        if dialect is SECTIONS:
            cache_key = message.dialect.name, header, message.exchange, message.key
        else:
            cache_key = message.dialect.name, header, dialect.name
        conversion = self._conversions.get(cache_key)
        if conversion is None:
            if shapes is not None:
                written = shapes.filled(header, message.exchange, message.key)
                if written is not None:
                    return self._planned(message, dialect, body, *written)
            return self._convert_and_keep(message, header, body, dialect, cache_key)
        if conversion.capsule is None:
            return Crossed(conversion.header, body, conversion.fidelity, conversion.inexact)
        return self._sealed(form_of(dialect), conversion, body, digest(part_of_body(body)))

    def _planned(
        self, message: Message, dialect: Dialect, body: Body, header: bytes, outcome: Outcome
    ) -> Crossed:
        """The result of a plan, with a capsule if it needs one. Hot."""
        if isinstance(outcome, Fidelity):
            return Crossed(header, body, outcome)
        source, reader = FORMS[message.dialect.name], FORMS[dialect.name]
        original = source.without_capsule(message.header)
        digests = digests_of(reader.parts(header))
        capsule = Capsule(source.name, original, digests, names=outcome[:NAMED])
        conversion = Conversion(header, body, Fidelity.CAPSULE, outcome, capsule)
        return self._sealed(reader, conversion, body, digest(part_of_body(body)))

    def _large(self, message: Message, body: LargeBody, dialect: Dialect) -> Crossed:
        """A data body is passed on unread, and its capsule is not bound to it. Any other body has
        to be read."""
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

    # --- to another dialect -----------------------------------------------------------------------

    def _plain_form(
        self, source: Form, reader: Form, header: bytes, exchange: str, key: str
    ) -> tuple[bytes, Outcome] | None:
        """The natural form of a header, if it depends on the header alone, and its fidelity, or the
        names for its capsule."""
        if source.marker in header or REFERENCE_OCTETS in header:
            return None
        if reader.dialect is SECTIONS and depends(header):
            return None
        try:
            hop = Hop(exchange, key, self._references)
            found = self._convert(source, reader, header, b"", hop)
        except (ValueError, struct.error, OverflowError, RecursionError):
            return None
        if found.reference or found.body:
            return None
        capsule = found.capsule
        if capsule is None:
            return None if found.inexact else (found.header, found.fidelity)
        if reader.dialect is not COMMAND or capsule.flat_kind is not None or capsule.prefix:
            return None
        return found.header, found.inexact

    def _convert_and_keep(
        self, message: Message, header: bytes, body: bytes, dialect: Dialect, cache_key: Any
    ) -> Crossed:
        source, reader = form_of(message.dialect), form_of(dialect)
        capsuled = source.marker in header
        if capsuled:
            returned = self._returned(source, reader, message, body)
            if returned is not None:
                return returned
            header = source.without_capsule(header)
        hop = Hop(message.exchange, message.key, self._references)
        asked = self._references.asked
        conversion = self._convert(source, reader, header, body, hop)
        alone = self._references.asked == asked
        if conversion.reference is not None:
            user = message.user or message.essentials.user_id or ""
            self._references.remember(user, *conversion.reference)
        modern = message.dialect is SECTIONS
        steady = is_plain(header) if modern else dialect is not SECTIONS or not depends(header)
        alone = alone and not capsuled and conversion.reference is None
        if steady and alone and len(header) <= LONGEST:
            self._keep(cache_key, conversion)
        if conversion.capsule is None:
            return Crossed(*conversion[:4])
        family_body = conversion.body if modern else body
        return self._sealed(reader, conversion, conversion.body, digest(part_of_body(family_body)))

    def _keep(self, cache_key: Any, conversion: Conversion) -> None:
        if len(self._conversions) >= CACHED:
            self._conversions.clear()
        self._conversions[cache_key] = conversion._replace(body=b"")

    def _convert(
        self, source: Form, reader: Form, header: bytes, body: bytes, hop: Hop
    ) -> Conversion:
        lenient = self.mode == "lenient"
        natural, inner, flat_kind, prefix, stated = natural_form(
            source, reader, header, body, hop, lenient, self.octets
        )
        if self.mode == "natural":
            return Conversion(natural, inner, Fidelity.NATURAL, reference=stated)
        if lenient:
            natural = reader.native(natural)
        original = source.without_capsule(header)
        back, outer, *_ = natural_form(reader, source, natural, inner, exact=self.octets)
        unsettled: tuple[str, ...] = ()
        if not lenient:
            unsettled = reader.unsettled(natural, source)
        if back == original and outer == body and not unsettled:
            return Conversion(natural, inner, Fidelity.EXACT, reference=stated)
        encoded = flat_kind not in (None, "none")
        equal = source.same(back, original) and same_body(outer, body, encoded)
        if equal and not self.octets and not unsettled:
            return Conversion(natural, inner, Fidelity.EQUIVALENT, reference=stated)
        inexact = unsettled if equal and unsettled else tuple(source.unequal(back, original))
        inexact = inexact or ("body",)
        if lenient:
            return Conversion(natural, inner, Fidelity.LOSSY, inexact, reference=stated)
        digests = digests_of(reader.parts(natural))
        capsule = Capsule(source.name, original, digests, flat_kind, prefix, inexact[:NAMED])
        return Conversion(natural, inner, Fidelity.CAPSULE, inexact, capsule, stated)

    def _sealed(
        self, reader: Form, conversion: Conversion, body: Body, body_digest: bytes
    ) -> Crossed:
        """The result with its capsule. ``body_digest``: of the body in the family form."""
        header, _, fidelity, inexact, capsule, _ = conversion
        assert capsule is not None
        octets = self.seal.write(capsule._replace(digests=(*capsule.digests, body_digest)))
        try:
            if len(octets) > LARGEST:
                raise ValueError("too large for a capsule")
            return Crossed(reader.with_capsule(header, octets), body, fidelity, inexact)
        except ValueError as error:
            if self.mode == "strict":
                names = ", ".join(inexact)[:200]
                raise ValueError(f"cannot be carried exactly: {names}") from error
            return Crossed(header, body, Fidelity.LOSSY, inexact)

    # --- back from another dialect ----------------------------------------------------------------

    def _returned(
        self, source: Form, reader: Form, message: Message, body: bytes
    ) -> Crossed | None:
        """The original of a message with a capsule of ours, or ``None``. If the reader's dialect is
        a third one, the original is converted to it."""
        octets = source.capsule_in(message.header)
        if octets is None or self.mode == "natural":
            return None
        capsule = self.seal.read(octets)
        found = (
            None if capsule is None else open_capsule(FORMS, source, capsule, message.header, body)
        )
        if found is None:
            self.forged += 1
            return None
        original = original_of(found)
        if original is None:
            return self._edited(found, reader, message)
        if found.home is reader:
            return Crossed(*original, Fidelity.EXACT)
        own = Message(
            found.home.dialect, *original, message.exchange, message.key, message.essentials,
            user=message.user,
        )  # fmt: skip
        return self.cross(own, reader.dialect)

    def _edited(self, found: OpenedCapsule, reader: Form, message: Message) -> Crossed:
        """A changed message: changes take precedence. For a reader of a third dialect the capsule
        of the original is passed on."""
        home, capsule = found.home, found.capsule
        changed, header, body, natural = edited(found, reader, Hop(message.exchange, message.key))
        if home is reader:
            return Crossed(header, body, Fidelity.EDITED if changed else Fidelity.EXACT)
        if self.mode == "lenient":
            return Crossed(reader.native(header), body, Fidelity.EDITED)
        going = capsule._replace(digests=digests_of(reader.parts(natural)))
        conversion = Conversion(header, body, Fidelity.EDITED, capsule.names, going)
        return self._sealed(reader, conversion, body, capsule.digests[-1])


def depends(header: bytes) -> bool:
    """Whether the conversion of this header to 1.0 depends on more than the header."""
    return any(octets in header for octets in DEPENDING)
