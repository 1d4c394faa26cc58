"""The capsule: the properties that the natural mapping cannot express, for the conversion back.

An encoded map of AMQP 1.0, signed so that only the holder of the key can create one:

====  ========  ================================================================================
key   type      content
====  ========  ================================================================================
v     ubyte     format, 1
p     symbol    where the message came from: the name of its dialect, such as ``0-9-1`` or ``1.0``
h     binary    its encoded properties; of 1.0, its stored header without delivery annotations
o     binary    octets that stood before a body that is one string or binary; absent if none
w     symbol    kind of the body that the message had; absent if it was data
n     list      names of properties whose natural form is inexact
s     binary    digests (16 octets of SHA-256) of the parts as written, which each form has for
                itself (``Form.parts``); then of the body (its size, its first and last 4096 octets)
k     binary    eight octets that name the key, and HMAC-SHA-256 over the map without ``k``
====  ========  ================================================================================
"""

import hashlib
import hmac
from functools import lru_cache
from typing import Any, NamedTuple

from gateway.adapters.performatives.decoding import FieldError, decode
from gateway.adapters.performatives.encoding import compound, sized, write_value
from gateway.bodies import Body
from gateway.values import Symbol, UByte

FORMAT = 1
DIGEST, NAME = 16, 8
EDGE = 4096
LARGEST = 8192
"""Maximum octets of a capsule. A message that needs more is converted with loss."""


class Capsule(NamedTuple):
    """A capsule that was made here, or that has a valid signature."""

    protocol: str
    header: bytes
    digests: tuple[bytes, ...]
    flat_kind: str | None = None
    prefix: bytes = b""
    names: tuple[str, ...] = ()


def entry(name: str, value: Any) -> bytes:
    """An entry of the map."""
    if value.__class__ is bytes:
        return b"\xa1\x01%b%b" % (name.encode(), sized(0xA0, value))
    return b"\xa1\x01%b%b" % (name.encode(), write_value(value))


@lru_cache(256)
def named(key: str, value: str | tuple[str, ...]) -> bytes:
    """An entry of a symbol, or of a list of names."""
    return entry(key, list(value) if isinstance(value, tuple) else Symbol(value))


def mapped(entries: list[bytes]) -> bytes:
    return compound(0xC1, 2 * len(entries), b"".join(entries))


FORMAT_ENTRY = entry("v", UByte(FORMAT))


class Seal:
    """Creates and opens capsules with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.name = hashlib.sha256(b"capsule key\0" + key).digest()[:NAME]

    def write(self, capsule: Capsule) -> bytes:
        """Warm: the map is written entry by entry."""
        entries = [FORMAT_ENTRY, named("p", capsule.protocol), entry("h", capsule.header)]
        if capsule.prefix:
            entries.append(entry("o", capsule.prefix))
        if capsule.flat_kind is not None:
            entries.append(named("w", capsule.flat_kind))
        if capsule.names:
            entries.append(named("n", capsule.names))
        entries.append(entry("s", b"".join(capsule.digests)))
        mac = hmac.digest(self._key, mapped(entries), "sha256")
        entries.append(entry("k", self.name + mac))
        return mapped(entries)

    def read(self, octets: Any) -> Capsule | None:
        """The decoded capsule; ``None`` if it is not one of ours. Never raises."""
        if type(octets) is not bytes or len(octets) > LARGEST:
            return None
        try:
            fields = decode(octets)
            if type(fields) is not dict or write_value(fields) != octets:
                return None
            signed = fields.pop("k", None)
            if type(signed) is not bytes or signed[:NAME] != self.name:
                return None
            if not hmac.compare_digest(signed[NAME:], self._mac(fields)):
                return None
        except FieldError:
            return None
        if fields.get("v") != FORMAT:
            return None
        protocol, flat_kind, names = fields.get("p"), fields.get("w"), fields.get("n", [])
        header, digests, prefix = fields.get("h"), fields.get("s"), fields.get("o", b"")
        # The key of archives is known to all, so that anything may be signed with it.
        if not (
            isinstance(protocol, str)
            and (flat_kind is None or isinstance(flat_kind, str))
            and type(header) is type(digests) is type(prefix) is bytes
            and type(names) is list
            and all(isinstance(name, str) for name in names)
        ):
            return None
        return Capsule(
            str(protocol),
            header,
            tuple(digests[at : at + DIGEST] for at in range(0, len(digests), DIGEST)),
            None if flat_kind is None else str(flat_kind),
            prefix,
            tuple(names),
        )

    def _mac(self, fields: dict[str, Any]) -> bytes:
        return hmac.digest(self._key, write_value(fields), "sha256")


# --- digests ------------------------------------------------------------------------------------

Parts = tuple[bytes, ...]
"""The digested parts; empty where a message has no such part."""


def digest(octets: bytes) -> bytes:
    return hashlib.sha256(octets).digest()[:DIGEST]


def part_of_body(body: Body) -> bytes:
    """The digested part of a body, of bounded size."""
    if len(body) <= 2 * EDGE:
        return body[:]
    return b"%d:" % len(body) + body[:EDGE] + body[-EDGE:]


def digests_of(parts: Parts) -> tuple[bytes, ...]:
    return tuple(digest(part) for part in parts)


def belongs_to(digests: tuple[bytes, ...], parts: Parts) -> bool:
    """Whether a capsule with these digests belongs to a message with these parts: at least one that
    is not empty is as it was written. On any other message the capsule is ignored."""
    if len(digests) != len(parts):
        return False
    if not any(parts):
        return digests == digests_of(parts)
    return any(part and digest(part) == one for part, one in zip(parts, digests, strict=True))
