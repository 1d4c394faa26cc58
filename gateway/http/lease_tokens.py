"""Lease tokens: sealed, opaque, and enough to say what became of a lease nobody remembers.

Inside: epoch of this process (8 octets), number of the lease (6), digest of virtual host and queue
(6), digest of the owner (8), first deadline in ms (6).
"""

import hashlib
from typing import NamedTuple

from gateway.http.sealing import Forged, Purpose, Seal

EPOCH_OCTETS = 8
SIZES = (EPOCH_OCTETS, 6, 6, 8, 6)
MOST_TEXT = 256


class Claim(NamedTuple):
    """What a genuine token says. ``number`` means something only if ``epoch`` is ours."""

    epoch: bytes
    number: int
    place: bytes
    owner: bytes
    until: int


def place_of(vhost: str, queue: str) -> bytes:
    return digest(vhost, queue, size=6)


def owner_of(owner: tuple[str, str]) -> bytes:
    return digest(*owner, size=8)


def digest(*names: str, size: int) -> bytes:
    joined = b"\0".join([name.encode("utf-8", "surrogatepass") for name in names])
    return hashlib.blake2b(joined, digest_size=size).digest()


class Tokens:
    """Makes and opens tokens. ``epoch`` is another one after each start of the gateway."""

    __slots__ = ("epoch", "sealer")

    def __init__(self, secret: bytes, epoch: bytes) -> None:
        if len(epoch) != EPOCH_OCTETS:
            raise ValueError(f"an epoch has {EPOCH_OCTETS} octets")
        self.epoch = epoch
        self.sealer = Seal(secret, Purpose.LEASE)

    def seal(self, number: int, place: bytes, owner: bytes, until: int) -> str:
        plain = (self.epoch, number.to_bytes(6, "big"), place, owner, until.to_bytes(6, "big"))
        return self.sealer.hide(b"".join(plain)).decode()

    def open(self, text: str) -> Claim:
        """Raises ``Forged`` (``Foreign`` if it was made with another secret)."""
        if len(text) > MOST_TEXT:
            raise Forged("longer than any token")
        plain = self.sealer.reveal(text)
        if len(plain) != sum(SIZES):
            raise Forged("not the shape of a lease")
        parts = []
        for size in SIZES:
            parts.append(plain[:size])
            plain = plain[size:]
        epoch, number, place, owner, until = parts
        return Claim(
            epoch, int.from_bytes(number, "big"), place, owner, int.from_bytes(until, "big")
        )
