"""Leases: deliveries that an HTTP caller holds for a time, and their outcomes.

A lease is open until it is settled, runs out, or is lost with its queue. After that it is
remembered for twice its time, so that settling it again tells the truth.

Its token is sealed, opaque, and enough to tell the fate of a lease that is forgotten. Inside:
epoch of this process (8 octets), number of the lease (6), digest of virtual host and queue (6),
digest of the owner (8), first deadline in ms (6).
"""

import hashlib
import os
import struct
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from gateway.broker.state import BrokerState
from gateway.http.sealing import Forged, Purpose, Seal
from gateway.message import Message, Table
from gateway.operations import Outcome

Owner = tuple[str, str]
"""User and subject: ``Principal.identity``."""

Key = TypeVar("Key")

MOST_CLOSED = 100_000
"""Leases that are over and still remembered."""


EPOCH_OCTETS = 8
LAYOUT = struct.Struct(f"{EPOCH_OCTETS}s6s6s8s6s")
MOST_TEXT = 256


class LeaseState(Enum):
    """State of a lease, open or ended."""

    OPEN = "leased"
    ACCEPTED = "accepted"
    RELEASED = "released"
    REJECTED = "rejected"
    MODIFIED = "modified"
    EXPIRED = "expired"
    LOST = "lost"

    @property
    def settled(self) -> bool:
        """The caller settled it."""
        return self not in (LeaseState.OPEN, LeaseState.EXPIRED, LeaseState.LOST)


class LeaseHolder(Protocol):
    """Holder of the unsettled delivery: a channel of this gateway in the broker."""

    def held(self, delivery: int) -> Message | None:
        """The message, unless it is gone with its queue."""
        ...

    def settle(self, delivery: int, outcome: Outcome, notes: Table | None) -> None:
        """Within a turn."""
        ...

    def undeliverable_here(self, delivery: int) -> Outcome | None:
        """The outcome that brings the message to another receiver; ``None``: there is none, since
        the next receive from this holder could be given it again."""
        ...


@dataclass(slots=True, eq=False, repr=False)
class Lease:
    """One delivery in the hands of a caller. Times are ms since 1970, ``length`` ms."""

    table: "LeaseTable"
    holder: LeaseHolder
    vhost: str
    queue: str
    owner: Owner
    delivery: int
    count: int
    length: int
    route: str = ""
    """The declared route that it came by: all that its owner knows of the queue."""
    state: LeaseState = LeaseState.OPEN
    forget: int = 0
    due: int | None = None
    number: int = field(init=False)
    since: int = field(init=False)
    until: int = field(init=False)

    @property
    def message(self) -> Message | None:
        """The message while the lease is open."""
        return self.holder.held(self.delivery) if self.state is LeaseState.OPEN else None

    def on_due(self) -> None:
        self.table.look_at(self)


class LeaseTable:
    """All leases of this process by number, and their tokens. Receives and event streams share
    one."""

    def __init__(self, state: BrokerState, secret: bytes) -> None:
        """``secret`` seals the tokens."""
        self.state = state
        self.tokens = Tokens(secret, os.urandom(EPOCH_OCTETS))
        self.leases: dict[int, Lease] = {}
        self.closed: dict[int, Lease] = {}
        self.per_owner: Counter[Owner] = Counter()
        """Open leases, and the unused credit of the streams of this owner."""
        self.per_route: Counter[tuple[str, str]] = Counter()
        """By virtual host and declared route: the credit of its streams, and the open leases of
        those that have ended."""
        self.ended: Counter[LeaseState] = Counter()
        """How many leases ended how since the start."""
        self.granted = 0

    def grant(self, lease: Lease) -> Lease:
        """It begins. Its delivery is unsettled with its holder, and goes back when it runs out."""
        self.granted += 1
        lease.number = self.granted
        lease.since = self.state.now
        self.leases[lease.number] = lease
        self.per_owner[lease.owner] += 1
        self.renew(lease, lease.length)
        return lease

    def token(self, lease: Lease) -> str:
        place = place_of(lease.vhost, lease.queue)
        return self.tokens.seal(lease.number, place, owner_of(lease.owner), lease.until)

    def find(self, number: int) -> Lease | None:
        """An open lease, or one that is over and remembered. Its time may end here."""
        lease = self.leases.get(number)
        if lease is not None and lease.state is LeaseState.OPEN:
            self.look_at(lease)
        return lease

    def settle(
        self, lease: Lease, state: LeaseState, outcome: Outcome, notes: Table | None
    ) -> None:
        """An open lease ends so. Within a turn."""
        self.close(lease, state)
        lease.holder.settle(lease.delivery, outcome, notes)

    def renew(self, lease: Lease, length: int) -> None:
        """An open lease runs ``length`` ms from now."""
        lease.length = length
        lease.until = self.state.now + length
        self.state.schedule(lease, lease.until)

    def look_at(self, lease: Lease) -> None:
        """Its time may have come: to go back to the queue, or to be forgotten."""
        now = self.state.now
        if lease.state is LeaseState.OPEN:
            if lease.message is None:
                self.settle(lease, LeaseState.LOST, Outcome.RELEASE, None)
            elif now >= lease.until:
                self.settle(lease, LeaseState.EXPIRED, Outcome.RELEASE, None)
            else:
                self.state.schedule(lease, lease.until)
        elif now >= lease.forget:
            self.leases.pop(lease.number, None)
            self.closed.pop(lease.number, None)
        elif lease.number in self.leases:
            self.state.schedule(lease, lease.forget)

    def close(self, lease: Lease, state: LeaseState) -> None:
        lease.state = state
        self.ended[state] += 1
        lease.forget = self.state.now + 2 * lease.length
        tally(self.per_owner, lease.owner, -1)
        self.closed[lease.number] = lease
        if len(self.closed) > MOST_CLOSED:
            oldest = next(iter(self.closed))
            del self.closed[oldest], self.leases[oldest]
        self.state.schedule(lease, lease.forget)

    def open(self) -> int:
        return len(self.leases) - len(self.closed)


def tally(counts: Counter[Key], key: Key, more: int) -> None:
    """Add to a count; one that is zero is not kept."""
    counts[key] += more
    if not counts[key]:
        del counts[key]


class Claim(NamedTuple):
    """Contents of a genuine token. ``number`` means something only if ``epoch`` is ours."""

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
        if len(plain) != LAYOUT.size:
            raise Forged("not the shape of a lease")
        epoch, number, place, owner, until = LAYOUT.unpack(plain)
        return Claim(
            epoch, int.from_bytes(number, "big"), place, owner, int.from_bytes(until, "big")
        )
