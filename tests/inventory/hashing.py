"""Relays before and behind the proxy that digest what passes, so that tests can say that no octet
changed."""

import contextlib
import hashlib
import socket

from tests.bridge.relay import Relay, end


class HashingRelay(Relay):
    """A relay that has the digest and number of the octets of each direction that is over."""

    def __init__(self, target: int) -> None:
        self.digests: list[tuple[int, str]] = []
        super().__init__(target)

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        digest, octets = hashlib.sha256(), 0
        with contextlib.suppress(OSError):
            while data := here.recv(1 << 16):
                digest.update(data)
                octets += len(data)
                there.sendall(data)
        self.digests.append((octets, digest.hexdigest()))
        end(there)
        end(here)

    @property
    def seen(self) -> list[tuple[int, str]]:
        """Of all directions, in an order of their own."""
        return sorted(self.digests)
