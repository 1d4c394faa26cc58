"""References of a channel: bodies that come in parts, and the transfers that name them."""

from typing import Any

from gateway.bodies import Pieces
from gateway.errors import Condition, Lost, PeerError

MOST_REFERENCES = 256
"""Open references of one channel."""


class Reference:
    """One body on its way."""

    __slots__ = ("pieces", "transfers")

    def __init__(self) -> None:
        self.pieces = Pieces()
        self.transfers: list[Any] = []


class References:
    """By name. All methods raise ``PeerError``: misuse closes the connection (503), a body that is
    too large its channel (311)."""

    __slots__ = ("_most", "_open", "held")

    def __init__(self, most: int) -> None:
        """``most``: octets of the largest message."""
        self._most = most
        self._open: dict[bytes, Reference] = {}
        self.held = 0
        """Octets of all bodies."""

    def open(self, name: bytes) -> None:
        if name in self._open:
            raise PeerError(Condition.COMMAND_INVALID, f"reference {name!r} is open already")
        if len(self._open) >= MOST_REFERENCES:
            raise PeerError(
                Condition.RESOURCE_ERROR, f"more than {MOST_REFERENCES} open references"
            )
        self._open[name] = Reference()

    def append(self, name: bytes, octets: bytes) -> None:
        reference = self._get(name)
        if self.held + len(octets) > self._most:
            raise PeerError(
                Condition.CONTENT_TOO_LARGE,
                f"references of more than {self._most} octets",
                Lost.SESSION,
            )
        if octets:
            reference.pieces.add(octets)
            self.held += len(octets)

    def transfer(self, name: bytes, transfer: Any) -> None:
        """A transfer whose body this is; it counts when the reference closes."""
        reference = self._get(name)
        if len(reference.transfers) >= MOST_REFERENCES:
            raise PeerError(
                Condition.RESOURCE_ERROR, f"more than {MOST_REFERENCES} transfers by {name!r}"
            )
        reference.transfers.append(transfer)

    def close(self, name: bytes) -> tuple[bytes, list[Any]]:
        """The whole body, and the transfers."""
        reference = self._get(name)
        del self._open[name]
        self.held -= reference.pieces.size
        return reference.pieces.joined(), reference.transfers

    def clear(self) -> None:
        """Forget all."""
        self._open.clear()
        self.held = 0

    def _get(self, name: bytes) -> Reference:
        reference = self._open.get(name)
        if reference is None:
            raise PeerError(Condition.COMMAND_INVALID, f"reference {name!r} is not open")
        return reference
