"""Sealed tokens: text that the gateway hands out and takes back without keeping it.

One secret, one key per purpose (HKDF's expand step, RFC 5869 §2.3), so that a token that was sealed
as a cursor opens as nothing else. ``seal`` leaves the contents readable and proves where they came
from (HMAC-SHA256, 16 octets); ``hide`` also conceals them (AES-256-GCM). Neither knows what the
contents mean.

Every token names the secret in three octets: one that was made with another secret, as by a gateway
that kept none over its restart, is *foreign*; one of ours that has been changed is *forged*.
"""

import base64
import binascii
import hmac
import os
import secrets
from enum import Enum
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_OCTETS = 32
MAC_OCTETS = 16
SECRET_OCTETS = 3
HEAD_OCTETS = 1 + SECRET_OCTETS
BLOCK_OCTETS = 64
INNER = bytes([octet ^ 0x36 for octet in range(256)])
OUTER = bytes([octet ^ 0x5C for octet in range(256)])
NONCE_OCTETS = 12
URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Purpose(Enum):
    """Purpose of a token. The octet stands in front, the name goes into the key."""

    CURSOR = 1
    LEASE = 2


class Forged(Exception):
    """The text claims to be a token of ours and is not."""


class Foreign(Forged):
    """Made with another secret, or never: it means nothing here."""


def encode(octets: bytes) -> bytes:
    """Base64url without padding."""
    return binascii.b2a_base64(octets, newline=False).translate(URL_SAFE, b"=")


def decode(text: str | bytes) -> bytes:
    """Raises ``Forged``. Only the canonical spelling: one token has one text."""
    try:
        octets = text.encode("ascii") if isinstance(text, str) else text
        found = base64.b64decode(octets + b"=" * (-len(octets) % 4), b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raise Forged("not base64url") from None
    if encode(found) != octets:
        raise Forged("not the canonical spelling")
    return found


class Seal:
    """Seals for one purpose. Cheap to use, made once."""

    __slots__ = ("head", "_inner", "_outer", "_cipher")

    def __init__(self, secret: bytes, purpose: Purpose) -> None:
        label = b"amqp-gateway " + purpose.name.encode()
        named = hmac.digest(secret, label + b" name\x01", "sha256")[:SECRET_OCTETS]
        self.head = bytes([purpose.value]) + named
        key = hmac.digest(secret, label + b" seal\x01", "sha256").ljust(BLOCK_OCTETS, b"\0")
        # HMAC (RFC 2104) begun once: going on from here takes half the time of hmac.digest.
        self._inner = sha256(key.translate(INNER))
        self._outer = sha256(key.translate(OUTER))
        self._cipher = AESGCM(hmac.digest(secret, label + b" hide\x01", "sha256"))

    def mac(self, plain: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(plain)
        outer.update(inner.digest())
        return outer.digest()[:MAC_OCTETS]

    def seal(self, plain: bytes) -> bytes:
        """Readable, and protected against changes. Hot: as ``mac`` and ``encode``."""
        octets = self.head + plain
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(octets)
        outer.update(inner.digest())
        octets += outer.digest()[:MAC_OCTETS]
        return binascii.b2a_base64(octets, newline=False).translate(URL_SAFE, b"=")

    def open(self, text: str | bytes) -> bytes:
        """The sealed octets. Raises ``Forged`` (``Foreign``)."""
        octets = self.ours(text, MAC_OCTETS)
        plain, mac = octets[:-MAC_OCTETS], octets[-MAC_OCTETS:]
        if not hmac.compare_digest(mac, self.mac(plain)):
            raise Forged("the seal is broken")
        return plain[HEAD_OCTETS:]

    def ours(self, text: str | bytes, least: int) -> bytes:
        octets = decode(text)
        if octets[:1] != self.head[:1] or len(octets) < HEAD_OCTETS + least:
            raise Forged("of another kind")
        if octets[:HEAD_OCTETS] != self.head:
            raise Foreign("made elsewhere")
        return octets

    def hide(self, plain: bytes) -> bytes:
        """Unreadable, and protected against changes."""
        nonce = os.urandom(NONCE_OCTETS)
        return encode(self.head + nonce + self._cipher.encrypt(nonce, plain, self.head))

    def reveal(self, text: str | bytes) -> bytes:
        """The hidden octets. Raises ``Forged`` (``Foreign``)."""
        rest = self.ours(text, NONCE_OCTETS + MAC_OCTETS)[HEAD_OCTETS:]
        nonce, rest = rest[:NONCE_OCTETS], rest[NONCE_OCTETS:]
        try:
            return self._cipher.decrypt(nonce, rest, self.head)
        except InvalidTag:
            raise Forged("the seal is broken") from None


def kept_secret(path: Path) -> bytes:
    """The secret in a file that only its owner may read, made if there is none."""
    try:
        kept = path.read_bytes()
        if len(kept) == KEY_OCTETS:
            return kept
    except FileNotFoundError:
        pass
    made = secrets.token_bytes(KEY_OCTETS)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(made)
    return made
