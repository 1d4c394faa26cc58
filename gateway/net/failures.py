"""Numbers of failed logins, per peer, and per user and peer; kept over a restart.

A success clears the failures of its user from that peer, but not those of the peer: otherwise the
owner of one account could guess at the others between logins.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gateway.broker.store import Store
from gateway.net.buckets import Buckets, Rate

KIND = "failed-logins"
SHARE = 4
"""Factor by which a peer may fail more often than one user: it may have several users."""
MOST_KEPT = 10_000


@dataclass(eq=False)
class FailureRecords:
    """The figures among the records of a store. ``begin`` and ``end`` bracket a turn."""

    store: Store
    begin: Callable[[], None]
    end: Callable[[], None]

    def load(self) -> Iterable[tuple[str, dict[str, Any]]]:
        return [(key[0], value) for _, key, value in self.store.records(KIND)]

    def save(self, key: str, value: dict[str, Any]) -> None:
        self.begin()
        self.store.save(KIND, (key,), value)
        self.end()

    def forget(self, key: str) -> None:
        self.begin()
        self.store.forget(KIND, (key,))
        self.end()


class Failures:
    """Allows ``failures`` of one user from one peer in ``seconds``."""

    def __init__(
        self,
        clock: Callable[[], float],
        failures: int,
        seconds: float,
        kept: FailureRecords | None = None,
    ) -> None:
        self.by_peer = Buckets(Rate(failures * SHARE, seconds), clock)
        self.by_user = Buckets(Rate(failures, seconds), clock)
        self.clock = clock
        self.kept = kept
        self.saved: OrderedDict[str, Buckets] = OrderedDict()
        """The buckets that ``kept`` has records of, the last changed at the end."""
        if kept is not None:
            self.load(kept)

    def allow(self, failures: int, seconds: float) -> None:
        """Change the limit; what was counted stays."""
        self.by_peer.rate = Rate(failures * SHARE, seconds)
        self.by_user.rate = Rate(failures, seconds)

    def load(self, kept: FailureRecords) -> None:
        now = self.clock()
        for key, value in kept.load():
            buckets = self.by_user if value["of"] == "user" else self.by_peer
            level = min(float(value["level"]), buckets.rate.burst)
            # A clock that went back must not make the wait any longer.
            buckets.levels[key] = (level, min(float(value["at"]), now))
            self.saved[key] = buckets
        self.sweep(len(self.saved))

    def take(self, user: str, peer: str) -> int:
        """Count an attempt before its result is known. Returns 0, or the seconds until the next
        attempt is allowed."""
        whole, pair = keys(user, peer)
        left = self.by_user.look(pair)
        if left.allowed:
            left = self.by_peer.take(whole)
        if not left.allowed:
            return left.seconds
        self.by_user.take(pair)
        return 0

    def failed(self, user: str, peer: str) -> None:
        """The attempt was wrong."""
        whole, pair = keys(user, peer)
        self.save(whole, self.by_peer, "peer")
        self.save(pair, self.by_user, "user")
        self.sweep(2)

    def succeeded(self, user: str, peer: str) -> None:
        """The attempt was right: refund it, and clear the failures of this user from that peer."""
        whole, pair = keys(user, peer)
        self.by_peer.charge(whole, -1)
        self.by_user.levels.pop(pair, None)
        if self.saved.pop(pair, None) is not None and self.kept is not None:
            self.kept.forget(pair)

    def save(self, key: str, buckets: Buckets, of: str) -> None:
        if self.kept is None:
            return
        level, at = buckets.levels[key]
        self.kept.save(key, {"of": of, "level": level, "at": at})
        self.saved[key] = buckets
        self.saved.move_to_end(key)

    def sweep(self, most: int) -> None:
        """Delete records of full buckets, and the oldest ones above the bound."""
        now = self.clock()
        for key, buckets in list(islice(self.saved.items(), most)):
            full = buckets.level(key, now) >= buckets.rate.burst
            if (full or len(self.saved) > MOST_KEPT) and self.kept is not None:
                del self.saved[key]
                self.kept.forget(key)


def keys(user: str, peer: str) -> tuple[str, str]:
    """Keys of a peer, and of a user there: digests, because people type passwords as names."""
    return digest("peer", peer), digest("user", peer, user)


def digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:32]
