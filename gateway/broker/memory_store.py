"""A store in memory: for tests, and for gateways without a disk.

It keeps paged-out messages and, unless ``volatile``, also durable ones; a test restarts a broker
with the ``survivors()``. Batches cost nothing.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from gateway.broker.store import (
    Batch,
    Depth,
    PackedEntries,
    Record,
    Recorded,
    RecordedRun,
    StoredMessage,
    WireEntries,
)
from gateway.message import Message


class MemoryBatch:
    """Only its number matters."""

    __slots__ = ("mark",)

    def __init__(self, mark: int) -> None:
        self.mark = mark


class QueueRows(NamedTuple):
    """The messages of one queue by position; ``passing`` ones do not survive."""

    kept: dict[int, StoredMessage]
    passing: set[int]


class MemoryStore:
    """Satisfies ``Store``. ``volatile``: nothing survives, so nothing is ever waited for."""

    def __init__(self, volatile: bool = True) -> None:
        self.volatile = volatile
        self.mark = 1
        self.dirty = False
        self.patient = False
        self.gathered_octets = 0
        self.pending_octets = 0
        self.appended = 0
        self.changed = 0
        self.apart = 1 << 14
        self._records: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}
        self._queues: dict[int, QueueRows] = {}
        self._delivered: dict[int, int] = {}
        self._fresh: set[tuple[int, int]] = set()
        self._octets: dict[tuple[int, int], bytearray] = {}
        self._other = False

    def records(self, *kinds: str) -> Iterable[Record]:
        return [
            (kind, key, dict(value))
            for (kind, key), value in self._records.items()
            if not kinds or kind in kinds
        ]

    def save(self, kind: str, key: tuple[str, ...], value: dict[str, Any]) -> None:
        self._records[kind, key] = value
        self.changed = self.mark
        self._touch()

    def forget(self, kind: str, key: tuple[str, ...]) -> None:
        self._records.pop((kind, key), None)
        self.changed = self.mark
        self._touch()

    def forget_under(self, kind: str, key: tuple[str, ...]) -> None:
        size = len(key)
        for one in [one for one in self._records if one[0] == kind and one[1][:size] == key]:
            if len(one[1]) > size:
                del self._records[one]
        self.changed = self.mark
        self._touch()

    def depths(self) -> dict[int, Depth]:
        return {
            number: Depth(
                len(rows.kept),
                sum(kept.message.size for kept in rows.kept.values()),
                min(rows.kept),
                max(rows.kept),
                self._delivered.get(number, 0),
            )
            for number, rows in self._queues.items()
            if rows.kept
        }

    def append(
        self, queue: int, position: int, message: Message, expires: int | None, keep: bool
    ) -> None:
        rows = self._queues.get(queue)
        if rows is None:
            rows = self._queues[queue] = QueueRows({}, set())
        kept = rows.kept
        back = bool(kept) and position < next(reversed(kept))
        kept[position] = StoredMessage(position, message, expires)
        if back:  # one that was taken out stands at its place again
            ordered = sorted(kept.items())
            kept.clear()
            kept.update(ordered)
        if not keep:
            rows.passing.add(position)
        elif not self.volatile:
            self._fresh.add((queue, position))
            self.dirty = True

    def check(self, message: Message) -> bytes | None:
        """Memory keeps anything."""
        return None

    def remove(self, queue: int, position: int) -> None:
        rows = self._queues.get(queue)
        if rows is None or rows.kept.pop(position, None) is None:
            return
        if position in rows.passing:
            rows.passing.discard(position)
        elif (queue, position) in self._fresh:
            self._fresh.discard((queue, position))
            self.dirty = self._other or bool(self._fresh)
        else:
            self._touch()

    def remove_all(self, queue: int, positions: list[int]) -> None:
        for position in positions:
            self.remove(queue, position)

    def remove_ranges(self, queue: int, ranges: list[tuple[int, int]]) -> None:
        rows = self._queues.get(queue)
        for first, last in ranges:
            kept = rows.kept if rows is not None else ()
            for position in [one for one in kept if first <= one <= last]:
                self.remove(queue, position)
        self.changed = self.mark

    def purge(self, queue: int) -> None:
        if self._queues.pop(queue, None) is not None:
            self.changed = self.mark
            self._touch()
        self._delivered.pop(queue, None)

    def drop(self, queue: int) -> None:
        self.purge(queue)

    def delivered(self, queue: int, position: int) -> None:
        self._delivered[queue] = max(position, self._delivered.get(queue, 0))

    def keep(self, queue: int, position: int, octets: bytearray) -> None:
        if not self.volatile:
            self._octets[queue, position] = octets
            self._touch()

    def record_under(self, queue: int) -> None:
        """The journal has no reader in memory."""

    def record(self, entries: Recorded) -> None:
        self._touch()

    def record_packed(self, entries: PackedEntries | WireEntries) -> None:
        """Nor do its entries survive."""

    def await_entries(self) -> None:
        """Nothing is written."""

    def recorded(self) -> Iterable[tuple[int, list[RecordedRun]]]:
        return ()

    def read(self, queue: int, start: int, limit: int) -> list[StoredMessage]:
        rows = self._queues.get(queue)
        if rows is None or not rows.kept:
            return []
        kept = rows.kept
        found: list[StoredMessage] = []
        position, last = max(start, next(iter(kept))), next(reversed(kept))
        while len(found) < limit and position <= last:
            if position in kept:
                found.append(kept[position])
            position += 1
        return found

    def take(self) -> Batch | None:
        if not self.dirty:
            return None
        batch = MemoryBatch(self.mark)
        self.mark += 1
        self.dirty = False
        self._other = False
        self._fresh.clear()
        return batch

    def write(self, batch: Batch) -> None:
        """Nothing is slower than memory here."""

    def close(self) -> None:
        """Nothing to let go of."""

    def survivors(self) -> "MemoryStore":
        """The store as the next process would find it."""
        later = MemoryStore(self.volatile)
        if self.volatile:
            return later
        later._records = dict(self._records)
        later._delivered = dict(self._delivered)
        for number, rows in self._queues.items():
            kept = {p: k for p, k in sorted(rows.kept.items()) if p not in rows.passing}
            if kept:
                later._queues[number] = QueueRows(kept, set())
        return later

    def _touch(self) -> None:
        if not self.volatile:
            self._other = True
            self.dirty = True
