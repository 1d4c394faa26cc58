"""References of a channel: bodies that come in parts, and the transfers that name them.

A body is in memory while it is small, then in a file. One with a checkpoint is kept by the
``PartialBodyStore``, for its sender (virtual host, user and identifier): if its channel ends before
the reference is closed, the sender may resume it on any connection of this process.
"""

from typing import Any

from gateway.bodies import Body, GrowingBody, Spool
from gateway.errors import Condition, Lost, PeerError
from gateway.partial_bodies import Key, PartialBody, PartialBodyStore

MOST_REFERENCES = 256
"""Open references of one channel."""


class Reference:
    """One body on its way: ``growing``, or with a checkpoint ``kept`` by the store."""

    __slots__ = ("growing", "kept", "transfers")

    def __init__(self, growing: GrowingBody, kept: PartialBody | None = None) -> None:
        self.growing = growing
        self.kept = kept
        self.transfers: list[Any] = []

    @property
    def size(self) -> int:
        """Octets that have come."""
        return self.growing.have if self.kept is None else self.kept.have

    @property
    def held(self) -> int:
        """Octets of it in memory; the store counts its own."""
        return self.growing.held if self.kept is None else 0


class References:
    """By name. All methods raise ``PeerError``: misuse closes the connection (503), a body that is
    too large or finds no room its channel (311)."""

    __slots__ = ("_most", "_spool", "_partials", "_owner", "_open", "held")

    def __init__(
        self, most: int, spool: Spool | None, partials: PartialBodyStore, owner: Key
    ) -> None:
        """``most``: octets of the largest message. ``owner``: of the checkpoints."""
        self._most = most
        self._spool = spool
        self._partials = partials
        self._owner = owner
        self._open: dict[bytes, Reference] = {}
        self.held = 0
        """Octets of all bodies in memory."""

    def open(self, name: bytes) -> None:
        self._add(name, Reference(GrowingBody(self._spool)))

    def _add(self, name: bytes, reference: Reference) -> None:
        self._check_closed(name)
        if len(self._open) >= MOST_REFERENCES:
            raise PeerError(
                Condition.RESOURCE_ERROR, f"more than {MOST_REFERENCES} open references"
            )
        self._open[name] = reference

    def _check_closed(self, name: bytes) -> None:
        if name in self._open:
            raise PeerError(Condition.COMMAND_INVALID, f"reference {name!r} is open already")

    def append(self, name: bytes, octets: bytes) -> None:
        reference = self._get(name)
        if reference.size + len(octets) > self._most:
            raise PeerError(
                Condition.CONTENT_TOO_LARGE,
                f"a reference of more than {self._most} octets",
                Lost.SESSION,
            )
        if octets:
            self.held -= reference.held
            try:
                (reference.kept or reference.growing).add(octets)
            except OSError as error:
                raise self._no_room(name, error) from error
            self.held += reference.held

    def transfer(self, name: bytes, transfer: Any) -> None:
        """A transfer whose body this is; it counts when the reference closes."""
        reference = self._get(name)
        if len(reference.transfers) >= MOST_REFERENCES:
            raise PeerError(
                Condition.RESOURCE_ERROR, f"more than {MOST_REFERENCES} transfers by {name!r}"
            )
        reference.transfers.append(transfer)

    def close(self, name: bytes) -> tuple[Body, list[Any]]:
        """The whole body, and the transfers."""
        reference = self._get(name)
        del self._open[name]
        self.held -= reference.held
        try:
            if reference.kept is None:
                body = reference.growing.finish()
            else:
                body = self._partials.finish(reference.kept)
        except OSError as error:
            raise self._no_room(name, error) from error
        return body, reference.transfers

    def checkpoint(self, name: bytes, identifier: str) -> None:
        """The received part of this body is kept under the identifier, and so is the rest of it
        from now on, until the reference is closed."""
        reference = self._get(name)
        key = (*self._owner, identifier)
        if reference.kept is not None:
            if reference.kept.key != key:
                self._partials.rename(reference.kept, key)
            return
        self.held -= reference.held
        try:
            if reference.size:
                reference.growing.spill()
            received = reference.growing.receiver
            reference.kept = self._partials.adopt(key, self._most, received)
        except OSError as error:
            raise self._no_room(name, error) from error

    def resume(self, name: bytes, identifier: str) -> int:
        """The reference is open, with as many octets as are kept of it."""
        self._check_closed(name)
        key = (*self._owner, identifier)
        reference = Reference(GrowingBody(self._spool))
        if key in self._partials.kept:
            try:
                reference.kept = self._partials.begin(key, self._most, lasting=False)
            except OSError as error:
                raise self._no_room(name, error) from error
        try:
            self._add(name, reference)
        except PeerError:
            self._leave(reference)
            raise
        return reference.size

    def clear(self) -> None:
        """The channel is over: those with a checkpoint wait for their senders."""
        for reference in self._open.values():
            self._leave(reference)
        self._open.clear()
        self.held = 0

    def _leave(self, reference: Reference) -> None:
        if reference.kept is None:
            reference.growing.abandon()
        else:
            self._partials.leave(reference.kept)

    def _get(self, name: bytes) -> Reference:
        reference = self._open.get(name)
        if reference is None:
            raise PeerError(Condition.COMMAND_INVALID, f"reference {name!r} is not open")
        return reference

    def _no_room(self, name: bytes, error: OSError) -> PeerError:
        """The disk is short, or a limit reached."""
        reference = self._open.pop(name, None)
        if reference is not None and reference.kept is not None:
            self._partials.drop(reference.kept)
        text = f"there is no room for reference {name!r}: {error.strerror}"
        return PeerError(Condition.CONTENT_TOO_LARGE, text, Lost.SESSION)
