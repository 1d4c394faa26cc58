"""The capsule: what the natural mapping cannot say, for the way back.

An encoded map of AMQP 1.0, signed, so that nobody but who holds the key can make one:

====  ========  ================================================================================
key   type      content
====  ========  ================================================================================
v     ubyte     format, 1
p     symbol    where the message came from: ``0-9-1`` (all of the family) or ``1.0``
h     binary    its encoded properties; of 1.0, its stored header without delivery annotations
o     binary    octets that stood before a body that is one string or binary; absent if none
w     symbol    what kind of body the message had, if it was no data; absent if it was
n     list      names of properties whose natural form is inexact
s     binary    digests (16 octets of SHA-256) of the parts as written: header, properties,
                application properties, message annotations; or fields, headers; then the body
                (its size, its first and last 4096 octets)
k     binary    eight octets that name the key, and HMAC-SHA-256 over the map without ``k``
====  ========  ================================================================================
"""

import hashlib
import hmac
from typing import Any, NamedTuple

from gateway.adapters.v0_9.essentials import HEADERS
from gateway.adapters.v0_9.splicing import cut, place
from gateway.adapters.v1_0.encoding import write_value
from gateway.adapters.v1_0.fields import FieldError, decode
from gateway.adapters.v1_0.sections import (
    ANNOTATIONS,
    APPLICATION,
    HEADER,
    PROPERTIES,
    section_value,
    split_header,
)
from gateway.bodies import Body
from gateway.crossing.natural import EXCHANGE, KEY, ORIGIN, OUR_ORIGIN
from gateway.values import Symbol, UByte

FORMAT = 1
DIGEST, NAME = 16, 8
PASSING = frozenset({ORIGIN, EXCHANGE, KEY})
EDGE = 4096
LARGEST = 8192
"""Octets of a capsule. What would need more crosses with loss."""


class Capsule(NamedTuple):
    """One that was made here, or whose signature is right."""

    protocol: str
    header: bytes
    digests: tuple[bytes, ...]
    word: str | None = None
    lead: bytes = b""
    names: tuple[str, ...] = ()


class Seal:
    """Makes and opens capsules with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.name = hashlib.sha256(b"capsule key\0" + key).digest()[:NAME]

    def write(self, capsule: Capsule) -> bytes:
        said: dict[str, Any] = {"v": UByte(FORMAT), "p": Symbol(capsule.protocol)}
        said["h"] = capsule.header
        if capsule.lead:
            said["o"] = capsule.lead
        if capsule.word is not None:
            said["w"] = Symbol(capsule.word)
        if capsule.names:
            said["n"] = list(capsule.names)
        said["s"] = b"".join(capsule.digests)
        said["k"] = self.name + self._mac(said)
        return write_value(said)

    def read(self, octets: Any) -> Capsule | None:
        """``None`` if it is none of ours. Never raises."""
        if type(octets) is not bytes or len(octets) > LARGEST:
            return None
        try:
            said = decode(octets)
            if type(said) is not dict or write_value(said) != octets:
                return None
            signed = said.pop("k", None)
            if type(signed) is not bytes or signed[:NAME] != self.name:
                return None
            if not hmac.compare_digest(signed[NAME:], self._mac(said)):
                return None
        except FieldError:
            return None
        if said.get("v") != FORMAT:
            return None
        digests = said["s"]
        word = said.get("w")
        return Capsule(
            str(said["p"]),
            said["h"],
            tuple(digests[at : at + DIGEST] for at in range(0, len(digests), DIGEST)),
            None if word is None else str(word),
            said.get("o", b""),
            tuple(said.get("n", ())),
        )

    def _mac(self, said: dict[str, Any]) -> bytes:
        return hmac.digest(self._key, write_value(said), "sha256")


# --- digests ------------------------------------------------------------------------------------

Parts = tuple[bytes, ...]
"""What the digests are of; empty where a message has no such part."""


def digest(octets: bytes) -> bytes:
    return hashlib.sha256(octets).digest()[:DIGEST]


def parts_of_sections(header: bytes) -> Parts:
    """Header, properties, application properties and message annotations of a stored header. Of
    annotations, those that are not written anew by whoever is on the way."""
    single = split_header(header).single
    spans = [single.get(code) for code in (HEADER, PROPERTIES, APPLICATION)]
    parts = [b"" if span is None else header[span[0] : span[2]] for span in spans]
    span = single.get(ANNOTATIONS)
    annotations = {} if span is None else section_value(header, span)
    kept = [pair for pair in annotations.items() if pair[0] not in PASSING]
    return (*parts, write_value(kept) if kept else b"")


def parts_of_basic(header: bytes) -> Parts:
    """Fields, and headers without a capsule among them."""
    begin, end = place(header, HEADERS)
    fields = header[2:begin] + header[end:]
    flags = int.from_bytes(header[:2], "big") & ~HEADERS
    entries = [raw for name, raw in cut(header).entries or [] if name != OUR_ORIGIN.encode()]
    return (flags.to_bytes(2, "big") + fields if flags else b""), b"".join(entries)


def part_of_body(body: Body) -> bytes:
    """What tells a body from others, at a bounded cost."""
    if len(body) <= 2 * EDGE:
        return body[:]
    return b"%d:" % len(body) + body[:EDGE] + body[-EDGE:]


def digests_of(parts: Parts) -> tuple[bytes, ...]:
    return tuple(digest(part) for part in parts)


def speaks_for(told: tuple[bytes, ...], parts: Parts) -> bool:
    """Whether a capsule with these digests belongs to a message with these parts: at least one that
    is not empty is as it was written. On another message it means nothing."""
    if len(told) != len(parts):
        return False
    if not any(parts):
        return told == digests_of(parts)
    return any(part and digest(part) == one for part, one in zip(parts, told, strict=True))


__all__ = [
    "LARGEST", "Capsule", "Seal", "digests_of", "parts_of_basic",
    "part_of_body", "parts_of_sections", "speaks_for",
]  # fmt: skip
