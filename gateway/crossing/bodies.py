"""Bodies: kinds that 1.0 has and the older versions have not.

Data is the payload. A string or binary as the one value is its octets, other values and sequences
are their encoded sections. The header ``x-amqp10-body`` says which. A large body is data, whatever
a header says of it: it is not read for that.
"""

from typing import Any, NamedTuple

from gateway.adapters.performatives.decoding import FieldError, read_value
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.sections import SEQUENCE, VALUE, split
from gateway.bodies import Body, LargeBody

TEXT = "text/plain; charset=utf-8"
ENCODED = "application/vnd.amqp-gateway.amqp"
TYPES = {"string": TEXT, "value": ENCODED, "sequence": ENCODED}
"""Content types that a legacy reader is told if the message itself says none."""

START = b"\x00\x53\x77"


class Flat(NamedTuple):
    """A body for a legacy reader. ``lead``: the octets that were before the text of a value."""

    word: str | None
    octets: Body
    lead: bytes = b""


def flatten(kind: str | None, body: Body) -> Flat:
    """``kind`` as ``Properties.body_kind`` has it."""
    if kind in (None, "data") or isinstance(body, LargeBody):
        return Flat(None, body)
    if kind != "value":
        return Flat(kind, body)
    found = split(body).body
    if len(found) != 1 or found[0][0] != VALUE:
        return Flat("value", body)
    _, start, stop = found[0][1]
    constructor = body[start]
    word = {0xA1: "string", 0xB1: "string", 0xA0: "binary", 0xB0: "binary"}.get(constructor)
    if word is None:
        return Flat("value", body)
    at = start + (2 if constructor < 0xB0 else 5)
    return Flat(word, body[at:stop], body[:at])


def unflatten(word: Any, body: Body) -> tuple[str | None, Body]:
    """Kind and body again; what is no such thing is data."""
    if isinstance(body, LargeBody):
        return None, body
    if word == "none" and not body:
        return "none", b""
    if word == "string":
        try:
            return "value", START + write_value(body.decode())
        except UnicodeDecodeError:
            return None, body
    if word == "binary":
        return "value", START + write_value(body)
    if word in ("value", "sequence") and holds(body, word):
        return word, body
    return None, body


def holds(body: bytes, kind: str) -> bool:
    """Is this a body of sections of this kind, "value" or "sequence", and nothing else?"""
    code = VALUE if kind == "value" else SEQUENCE
    try:
        found = split(body)
        for _, (_, start, stop) in found.body:
            if read_value(body, start, stop)[1] != stop:
                return False
    except FieldError:
        return False
    return bool(found.body) and not found.single and found.body[0][0] == code
