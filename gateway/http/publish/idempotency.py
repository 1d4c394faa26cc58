"""Idempotency keys: a retry with the same key gets the first outcome and never a second message.

A key is *claimed* when its request is about to be sent, *sent* with the message, and *done* when
the broker has confirmed. The record of a key is saved in the same batch of the store as its
message: after a crash either both are there or neither. So the state at the start is known exactly:

* record and a message that lasts (durable, on a durable queue): it was stored. Replayed.
* record of a message that does not last: it was taken, and is gone with the process unless a
  consumer got it before. Sent once more with the same message id, ``"duplicate": "possible"``.
* no record: nothing was stored. Sent as if for the first time. (A consumer may have been handed
  the message in the moments before the crash, as it may be handed any message twice.)

A key whose message was refused, returned or rejected is free again: a retry may do better.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from gateway.broker.store import Record
from gateway.http import problems
from gateway.http.observe.meter import PublishMeter
from gateway.http.problems import Problem
from gateway.http.publish.publisher import PendingPublish

KIND = "idempotency"
LONGEST_SECONDS = 86_400

Key = tuple[str, ...]
"""User, subject, virtual host, target, key."""


class Records(Protocol):
    """The part of the store that is used here."""

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None: ...

    def forget(self, kind: str, key: tuple[str, ...]) -> None: ...


class Entry:
    """One key. ``receipt`` is the answer to replay; ``stale``: its message went with the process
    that had it. ``attempts`` counts how often the message was handed to the broker."""

    __slots__ = ("key", "fingerprint", "expires", "receipt", "done", "stale", "saved", "attempts")

    def __init__(self, key: Key, fingerprint: str, expires: int) -> None:
        self.key = key
        self.fingerprint = fingerprint
        self.expires = expires
        self.receipt: dict[str, Any] = {}
        self.done = False
        self.stale = False
        self.saved = False
        self.attempts = 0


class IdempotencyKeys:
    """All keys in the order in which they expire. Times are ms since 1970."""

    def __init__(self, store: Records, seconds: int, most: int) -> None:
        self.store = store
        self.limit(seconds, most)
        self.entries: OrderedDict[Key, Entry] = OrderedDict()
        self.counts: Counter[Key] = Counter()

    def limit(self, seconds: int, most: int) -> None:
        """How long new keys are kept, and how many of a caller."""
        self.keep = min(seconds, LONGEST_SECONDS) * 1000
        self.most = most

    def load(self, records: Iterable[Record]) -> None:
        """Load the records that earlier processes saved."""
        found = []
        for _, key, value in records:
            entry = Entry(tuple(key), value["fingerprint"], value["expires"])
            entry.receipt = value["receipt"]
            entry.attempts = value["attempts"]
            entry.saved = entry.done = True
            entry.stale = not value["lasts"]
            found.append(entry)
        for entry in sorted(found, key=lambda entry: entry.expires):
            self.entries[entry.key] = entry
            self.counts[entry.key[:2]] += 1

    def claim(self, key: Key, fingerprint: str, now: int) -> Entry:
        """The entry to go on with: new, or ``done`` and to be replayed, unless it is ``stale``.
        Raises ``Problem``: 409 under way, 422 another message, 429 too many keys. Within a turn."""
        self.sweep(now)
        entry = self.entries.get(key)
        if entry is not None:
            if entry.fingerprint != fingerprint:
                raise Problem(
                    problems.KEY_REUSED, f"the key {key[-1]!r} came with another message before"
                )
            if not entry.done:
                raise Problem(
                    problems.KEY_BUSY, f"the first request with the key {key[-1]!r} is under way"
                )
            if entry.stale:
                entry.done = False
            return entry
        owner = key[:2]
        if self.counts[owner] >= self.most:
            raise Problem(
                problems.QUOTA,
                f"{self.most} idempotency keys are kept for '{owner[0]}', each for "
                f"{self.keep // 1000} s",
            )
        entry = self.entries[key] = Entry(key, fingerprint, now + self.keep)
        self.counts[owner] += 1
        return entry

    def sent(self, entry: Entry, receipt: dict[str, Any], lasts: bool) -> None:
        """In the turn of the publish, so that both become durable at once."""
        entry.receipt = receipt
        entry.stale = False
        entry.saved = True
        value = {
            "fingerprint": entry.fingerprint,
            "expires": entry.expires,
            "receipt": receipt,
            "lasts": lasts,
            "attempts": entry.attempts,
        }
        self.store.save(KIND, entry.key, value)

    def abandon(self, entry: Entry) -> None:
        """The publish failed: the key is free again, or as it was before."""
        if entry.stale:
            entry.done = True
        else:
            self.release(entry)

    def release(self, entry: Entry) -> None:
        """Forget it."""
        if self.entries.get(entry.key) is not entry:
            return
        del self.entries[entry.key]
        owner = entry.key[:2]
        self.counts[owner] -= 1
        if not self.counts[owner]:
            del self.counts[owner]
        if entry.saved:
            self.store.forget(KIND, entry.key)

    def sweep(self, now: int) -> None:
        """Remove expired keys, except those under way."""
        while self.entries:
            entry = next(iter(self.entries.values()))
            if entry.expires > now or not entry.done:
                return
            self.release(entry)


class Claimed(Protocol):
    """A key whose message is being published. ``done``: it has been. ``saved``: the store has the
    record of it, or is about to have it."""

    done: bool

    @property
    def saved(self) -> bool: ...


E = TypeVar("E", bound=Claimed)
E_in = TypeVar("E_in", bound=Claimed, contravariant=True)


class Keys(Protocol[E_in]):
    """Keys, one of which was claimed."""

    def abandon(self, entry: E_in, /) -> None: ...


class KeyedPublish(PendingPublish, Generic[E]):
    """Settled when the broker has confirmed *and* the record of its key is safe. ``record``: saves
    it when the broker has confirmed, if it is not saved with the message."""

    __slots__ = ("keys", "entry", "record", "verdict", "safe", "over")

    def __init__(
        self,
        keys: Keys[E],
        entry: E,
        meter: PublishMeter | None = None,
        record: "Callable[[KeyedPublish[E]], None] | None" = None,
    ) -> None:
        super().__init__(meter)
        self.record = record
        self.keys = keys
        self.entry = entry
        self.verdict: bool | None = None
        self.safe = False
        self.over = False

    def refused(self) -> None:
        """The broker will reject it; known before the confirm."""
        self.over = True
        self.keys.abandon(self.entry)

    def conclude(self, accepted: bool) -> None:
        self.verdict = accepted
        if self.record is not None and accepted and self.condition is None:
            self.record(self)
        self.decide()

    def record_safe(self) -> None:
        self.safe = True
        self.decide()

    def decide(self) -> None:
        if self.verdict is None or self.accepted is not None:
            return
        if self.over:
            pass
        elif not self.verdict or self.condition is not None:
            self.keys.abandon(self.entry)
        elif self.safe:
            self.entry.done = True
        else:
            return
        super().conclude(self.verdict)

    def lose(self) -> None:
        """The virtual host was deleted with the message, or the gateway stops; the record that was
        saved with the message remains correct."""
        if self.over:
            pass
        elif not self.entry.saved:
            self.keys.abandon(self.entry)
        else:
            self.entry.done = True
        super().lose()
