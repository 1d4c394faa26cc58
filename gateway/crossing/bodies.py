"""Bodies of kinds that only 1.0 has.

Data is the payload. A single string or binary value becomes its octets; other values and sequences
become their encoded sections. The header ``x-amqp10-body`` names the kind. A large body always
counts as data, because it is not read.
"""

from typing import Any, NamedTuple

from gateway.adapters.performatives.decoding import FieldError, read_value
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.sections import SEQUENCE, VALUE, split
from gateway.bodies import Body, LargeBody
from gateway.crossing import jms
from gateway.message import Properties

TEXT = "text/plain"
ENCODED = "application/vnd.amqp-gateway.amqp"
TYPES = {"string": TEXT, "value": ENCODED, "sequence": ENCODED}
"""Content types for a legacy reader if the message itself has none."""

START = b"\x00\x53\x77"


class Flat(NamedTuple):
    """A body for a legacy reader. ``prefix`` holds the octets that preceded the text of a value."""

    flat_kind: str | None
    octets: Body
    prefix: bytes = b""


def flatten(properties: Properties, body: Body, exact: bool = False) -> Flat:
    """The body of a message with these properties, in its legacy form. ``exact`` is that of
    ``jms.from_section``."""
    kind = properties.body_kind
    if kind in (None, "data") or isinstance(body, LargeBody):
        return Flat(None, body)
    if kind in ("value", "sequence"):
        converted = jms.from_section(properties, body, exact)
        if converted is not None:
            return Flat(*converted)
    if kind != "value":
        return Flat(kind, body)
    found = split(body).body
    if len(found) != 1 or found[0][0] != VALUE:
        return Flat("value", body)
    _, start, stop = found[0][1]
    constructor = body[start]
    flat_kind = {0xA1: "string", 0xB1: "string", 0xA0: "binary", 0xB0: "binary"}.get(constructor)
    if flat_kind is None:
        return Flat("value", body)
    at = start + (2 if constructor < 0xB0 else 5)
    return Flat(flat_kind, body[at:stop], body[:at])


def unflatten(flat_kind: Any, body: Body) -> tuple[str | None, Body]:
    """The inverse of ``flatten``: kind and body. An unknown kind is data."""
    if isinstance(body, LargeBody):
        return None, body
    if flat_kind == "none" and not body:
        return "none", b""
    if flat_kind == "string":
        try:
            return "value", START + write_value(body.decode())
        except UnicodeDecodeError:
            return None, body
    if flat_kind == "binary":
        return "value", START + write_value(body)
    if flat_kind in ("value", "sequence") and holds(body, flat_kind):
        return flat_kind, body
    return None, body


def holds(body: bytes, kind: str) -> bool:
    """Whether a body has only sections of this kind, "value" or "sequence"."""
    code = VALUE if kind == "value" else SEQUENCE
    try:
        found = split(body)
        for _, (_, start, stop) in found.body:
            if read_value(body, start, stop)[1] != stop:
                return False
    except FieldError:
        return False
    return bool(found.body) and not found.single and found.body[0][0] == code
