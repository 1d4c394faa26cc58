"""Cursors: the ``id:`` of server-sent events, which a reconnect brings back.

``b1.`` and a sealed list of, per source, a digest of its name (5 octets), the epoch of its journal
(5) and a position (5). One source takes 51 characters, 64 take 1.3 KiB. The epoch changes when a
journal begins anew: a position of another epoch means nothing. A cursor that
was sealed with another secret, as by a gateway that kept none over its restart, is *unknown*; one
that was changed is *forged*.

A cursor is a position, not a right: rights are checked when it is presented. Clients can read
it, so the digest is keyed: the name behind a declared route cannot be guessed from it.
"""

import hashlib
import hmac
from collections.abc import Iterable

from gateway.http.sealing import Foreign, Purpose, Seal
from gateway.http.sealing import Forged as Forged

PREFIX = "b1."
END = "b0.end"
"""The cursor of a stream that is over: a reconnect with it is answered with 204, which is the only
way to stop a browser's ``EventSource``."""
EPOCH_OCTETS = 5
DIGEST_OCTETS = 5
POSITION_OCTETS = 5
KEY_OCTETS = DIGEST_OCTETS + EPOCH_OCTETS
ENTRY_OCTETS = KEY_OCTETS + POSITION_OCTETS
MAX_TEXT = 1400

Positions = dict[bytes, int]
"""Position by key: digest of the source's name and epoch of its journal."""


def digest_of(vhost: str, source: str, key: bytes = b"") -> bytes:
    """Names a source inside a cursor (with a key), or in a queue's name."""
    name = vhost.encode("utf-8", "surrogatepass") + b"\0" + source.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(name, digest_size=DIGEST_OCTETS, key=key).digest()


class Cursors:
    """Makes and opens them."""

    __slots__ = ("sealing", "naming")

    def __init__(self, secret: bytes) -> None:
        self.sealing = Seal(secret, Purpose.CURSOR)
        self.naming = hmac.digest(secret, b"amqp-gateway CURSOR sources\x01", "sha256")

    def digest(self, vhost: str, source: str) -> bytes:
        return digest_of(vhost, source, self.naming)

    def seal(self, positions: Iterable[tuple[bytes, int]]) -> bytes:
        """The text for (key, position) pairs."""
        return b"b1." + self.sealing.seal(
            b"".join([key + at.to_bytes(POSITION_OCTETS, "big") for key, at in positions])
        )

    def seal_one(self, key: bytes, position: int) -> bytes:
        """Hot: once per event."""
        return b"b1." + self.sealing.seal(key + position.to_bytes(POSITION_OCTETS, "big"))

    def open(self, text: str) -> Positions | None:
        """The positions; ``None`` for a cursor that was not made here. Raises ``Forged``."""
        if not text.startswith(PREFIX):
            return None
        if len(text) > MAX_TEXT:
            raise Forged("longer than any cursor")
        try:
            plain = self.sealing.open(text[len(PREFIX) :])
        except Foreign:
            return None
        if len(plain) % ENTRY_OCTETS:
            raise Forged("not the shape of a cursor")
        found: Positions = {}
        for at in range(0, len(plain), ENTRY_OCTETS):
            split = at + KEY_OCTETS
            found[plain[at:split]] = int.from_bytes(plain[split : at + ENTRY_OCTETS], "big")
        return found

    def known(self, text: str) -> Positions | None:
        """The positions; ``None`` for a cursor that is forged or was not made here."""
        try:
            return self.open(text)
        except Forged:
            return None
