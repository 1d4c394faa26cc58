"""The natural conversion between any two forms."""

from typing import Any, NamedTuple

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.decoding import FieldError
from gateway.bodies import Body
from gateway.crossing import bodies
from gateway.crossing.capsule import Capsule
from gateway.crossing.forms import SECTIONS_FORM, Form, Legacy
from gateway.crossing.natural import as_basic, to_sections
from gateway.crossing.references import References


class Hop(NamedTuple):
    """Additional inputs of a conversion. ``references`` are the ids that the text of a correlation
    id may refer to."""

    exchange: str | None
    key: str
    references: References = References()


NO_HOP = Hop(None, "")


class NaturalForm(NamedTuple):
    """Header and body. For a message of 1.0 also the kind of its body if it is not data, and the
    octets that preceded it. ``reference``: the text of an id that a reader may put into the
    correlation id of a reply, and the id that it stands for."""

    header: bytes
    body: Body
    flat_kind: str | None = None
    prefix: bytes = b""
    reference: tuple[str, Any] | None = None


def natural_form(
    source: Form,
    reader: Form,
    header: bytes,
    body: Body,
    hop: Hop = NO_HOP,
    flat: bool = False,
    exact: bool = False,
) -> NaturalForm:
    """The natural form of a message without a capsule. ``flat`` is that of ``to_sections``,
    ``exact`` that of ``jms.from_section``. Raises ``ValueError``."""
    if isinstance(reader, Legacy):
        if isinstance(source, Legacy):
            found = source.read(header)
            source.refer(found, hop.references)
            stated = reader.reference_to(found)
            natural = reader.without_capsule(reader.write(found))
            return NaturalForm(natural, body, reference=stated)
        return _from_sections(reader, header, body, exact)
    assert isinstance(source, Legacy)
    try:
        return NaturalForm(*_to_sections(source, header, body, hop, flat))
    except FieldError:  # nested more deeply than 1.0 allows
        return NaturalForm(*_to_sections(source, header, body, hop, True))


def _to_sections(
    source: Legacy, header: bytes, body: Body, hop: Hop, flat: bool
) -> tuple[bytes, Body]:
    found = source.for_sections(header)
    source.refer(found, hop.references)
    return to_sections(found, body, hop.exchange, hop.key, flat)


def _from_sections(reader: Legacy, header: bytes, body: Body, exact: bool) -> NaturalForm:
    found = SECTIONS.read(header)
    stated = reader.reference_to(found)
    flat_kind, octets, prefix = bodies.flatten(found, body, exact)
    natural = reader.from_sections(as_basic(found, flat_kind, reader.habits))
    return NaturalForm(natural, octets, flat_kind, prefix, stated)


def natural_form_of(
    home: Form, reader: Form, capsule: Capsule, body: Body, hop: Hop = NO_HOP
) -> tuple[bytes, Body]:
    """The natural form of the message in a capsule, without later changes. ``body`` is the present
    one, in the family form."""
    if home is SECTIONS_FORM and isinstance(reader, Legacy):
        found = as_basic(SECTIONS.read(capsule.header), capsule.flat_kind, reader.habits)
        return reader.from_sections(found), body
    return natural_form(home, reader, capsule.header, body, hop)[:2]
