"""The natural conversion between any two forms."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.decoding import FieldError
from gateway.bodies import Body
from gateway.crossing import bodies
from gateway.crossing.capsule import Capsule
from gateway.crossing.forms import SECTIONS_FORM, Form, Legacy
from gateway.crossing.natural import as_basic, to_sections


class Hop(NamedTuple):
    """Additional inputs of the conversion to 1.0. ``references`` are long ids that a correlation-id
    may refer to."""

    exchange: str | None
    key: str
    references: Mapping[str, Any] = {}


NO_HOP = Hop(None, "")


class NaturalForm(NamedTuple):
    """Header and body. For a message of 1.0 also the kind of its body if it is not data, the octets
    that preceded it, and its id."""

    header: bytes
    body: Body
    flat_kind: str | None = None
    prefix: bytes = b""
    id: Any = None


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
            natural = reader.dialect.write(source.read(header))
            return NaturalForm(reader.without_capsule(natural), body)
        return _from_sections(reader, header, body, exact)
    assert isinstance(source, Legacy)
    basic = source.to_basic(header)
    try:
        return NaturalForm(*to_sections(basic, body, hop.exchange, hop.key, flat, hop.references))
    except FieldError:  # nested more deeply than 1.0 allows
        return NaturalForm(*to_sections(basic, body, hop.exchange, hop.key, True, hop.references))


def _from_sections(reader: Legacy, header: bytes, body: Body, exact: bool) -> NaturalForm:
    found = SECTIONS.read(header)
    id_ = found.message_id
    flat_kind, octets, prefix = bodies.flatten(found, body, exact)
    natural = reader.from_basic(BASIC.write(as_basic(found, flat_kind)))
    return NaturalForm(natural, octets, flat_kind, prefix, id_)


def natural_form_of(
    home: Form, reader: Form, capsule: Capsule, body: Body, hop: Hop = NO_HOP
) -> tuple[bytes, Body]:
    """The natural form of the message in a capsule, without later changes. ``body`` is the present
    one, in the family form."""
    if home is SECTIONS_FORM and isinstance(reader, Legacy):
        basic = BASIC.write(as_basic(SECTIONS.read(capsule.header), capsule.flat_kind))
        return reader.from_basic(basic), body
    return natural_form(home, reader, capsule.header, body, hop)[:2]
