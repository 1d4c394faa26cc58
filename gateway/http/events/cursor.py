"""Cursors: the ``id:`` of server-sent events, which a reconnect brings back.

``b1.`` and a sealed list of, per source, a digest of its name (5 octets), the epoch of its journal
(5) and a position (5). One source takes 51 characters, 64 take 1.3 KiB. The epoch changes when a
journal begins anew: a position of another epoch means nothing. A cursor that
was sealed with another secret, as by a gateway that kept none over its restart, is *unknown*; one
that was changed is *forged*.

A cursor is a position, not a right: rights are checked when it is presented. Clients can read
it, so the digest is keyed: the name behind a declared route cannot be guessed from it.

The position in a stream queue of an upstream is the offset of the next message there, which every
gateway before that upstream understands: ``s1.`` and a list of, per stream queue, the digest of the
source as its reader names it (5) and an offset (6), behind a checksum against damage (4). Where
other sources are read too, ``.`` and their sealed cursor follow.
"""

import hashlib
import hmac
from collections.abc import Iterable

from gateway.http.sealing import Foreign, Purpose, Seal, decode, encode
from gateway.http.sealing import Forged as Forged

PREFIX = "b1."
STREAM_PREFIX = "s1."
END = "b0.end"
"""The cursor of a stream that is over: a reconnect with it is answered with 204, which is the only
way to stop a browser's ``EventSource``."""
EPOCH_OCTETS = 5
DIGEST_OCTETS = 5
POSITION_OCTETS = 5
KEY_OCTETS = DIGEST_OCTETS + EPOCH_OCTETS
ENTRY_OCTETS = KEY_OCTETS + POSITION_OCTETS
OFFSET_OCTETS = 6
STREAM_ENTRY_OCTETS = DIGEST_OCTETS + OFFSET_OCTETS
CHECK_OCTETS = 4
MAX_TEXT = 1400

Positions = dict[bytes, int]
"""Position by key: digest of the source's name and epoch of its journal; for a stream queue the
digest alone. With the key ``ELSEWHERE``, there were other positions, which are not known here."""
ELSEWHERE = b""


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
        kept: list[bytes] = []
        offsets: list[bytes] = []
        for key, at in positions:
            if len(key) == DIGEST_OCTETS:
                offsets.append(key + at.to_bytes(OFFSET_OCTETS, "big"))
            else:
                kept.append(key + at.to_bytes(POSITION_OCTETS, "big"))
        if not offsets:
            return b"b1." + self.sealing.seal(b"".join(kept))
        text = stream_cursor(b"".join(offsets))
        return text + b".b1." + self.sealing.seal(b"".join(kept)) if kept else text

    def seal_one(self, key: bytes, position: int) -> bytes:
        """Hot: once per event."""
        return b"b1." + self.sealing.seal(key + position.to_bytes(POSITION_OCTETS, "big"))

    def open(self, text: str) -> Positions | None:
        """The positions; ``None`` for a cursor that was not made here. Raises ``Forged``."""
        if len(text) > MAX_TEXT:
            raise Forged("longer than any cursor")
        if text.startswith(STREAM_PREFIX):
            offsets, _, sealed = text[len(STREAM_PREFIX) :].partition(".")
            found = offsets_of(offsets)
            if sealed:
                found |= self.open_sealed(sealed) or {ELSEWHERE: 0}
            return found
        return self.open_sealed(text)

    def open_sealed(self, text: str) -> Positions | None:
        """Likewise for the positions in journals."""
        if not text.startswith(PREFIX):
            return None
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


def stream_cursor(entries: bytes) -> bytes:
    """The text for positions in stream queues."""
    return b"s1." + encode(hashlib.blake2b(entries, digest_size=CHECK_OCTETS).digest() + entries)


def offsets_of(text: str) -> Positions:
    """The positions in stream queues. Raises ``Forged``."""
    plain = decode(text)
    entries = plain[CHECK_OCTETS:]
    check = hashlib.blake2b(entries, digest_size=CHECK_OCTETS).digest()
    if not entries or len(entries) % STREAM_ENTRY_OCTETS or plain[:CHECK_OCTETS] != check:
        raise Forged("not the shape of a cursor")
    found: Positions = {}
    for at in range(0, len(entries), STREAM_ENTRY_OCTETS):
        split = at + DIGEST_OCTETS
        offset = entries[split : at + STREAM_ENTRY_OCTETS]
        found[entries[at:split]] = int.from_bytes(offset, "big")
    return found
