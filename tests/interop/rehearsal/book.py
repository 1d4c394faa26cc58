"""The messages confirmed to producers and taken by consumers, and their comparison."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from typing import NamedTuple

from tests.interop.rehearsal.topology import rejected


class Taken(NamedTuple):
    """A message that a consumer got. ``flagged``: it is marked as one that may have come before."""

    producer: str
    number: int
    flagged: bool
    consumer: str


class Book:
    """Written by all clients, each on a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.confirmed: dict[str, dict[tuple[str, int], None]] = defaultdict(dict)
        """Messages that must come, by queue."""
        self.taken: dict[str, list[Taken]] = defaultdict(list)
        self.failures: list[str] = []
        """Clients whose connection was closed, or who were refused something."""

    def confirm(self, producer: str, number: int, queues: tuple[str, ...]) -> None:
        with self._lock:
            for queue in queues:
                self.confirmed[queue][producer, number] = None

    def take(self, queue: str, body: bytes | str, flagged: bool, consumer: str) -> int:
        """Note a message; its number."""
        text = body if isinstance(body, str) else body.decode()
        producer, _, number = text.strip().rpartition(":")
        with self._lock:
            self.taken[queue].append(Taken(producer, int(number), flagged, consumer))
        return int(number)

    def fail(self, who: str, error: object) -> None:
        with self._lock:
            self.failures.append(f"{who}: {error!r}")

    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Messages confirmed, and taken, by queue."""
        with self._lock:
            return (
                {queue: len(found) for queue, found in self.confirmed.items()},
                {queue: len(found) for queue, found in self.taken.items()},
            )

    def missing(self) -> dict[str, list[tuple[str, int]]]:
        """Messages that were confirmed, or dead-lettered, and have not come, by queue."""
        with self._lock:
            found = {}
            for queue, expected in self.confirmed.items():
                seen = {(one.producer, one.number) for one in self.taken[queue]}
                if lost := [one for one in expected if one not in seen]:
                    found[queue] = lost
            letters = {(one.producer, one.number) for one in self.taken["jobs.dead"]}
            dead = {
                (one.producer, one.number)
                for one in self.taken["jobs"]
                if rejected("jobs", one.number)
            }
            if dead - letters:
                found["jobs.dead"] = sorted(dead - letters)
            return found

    def faults(self, single: set[str]) -> list[str]:
        """All faults. Queues of which one consumer alone reads (``single``) keep the order of each
        producer."""
        found = list(self.failures)
        for queue, lost in self.missing().items():
            found.append(f"{queue}: {len(lost)} lost, {lost[:5]}")
        for queue, taken in self.taken.items():
            found += unflagged(queue, taken)
            if queue in single:
                found += disordered(queue, taken)
        return found

    def repeated(self) -> int:
        """Messages that have come more than once."""
        found = 0
        for taken in self.taken.values():
            counts = Counter((one.producer, one.number) for one in taken)
            found += sum(count - 1 for count in counts.values())
        return found


def unflagged(queue: str, taken: list[Taken]) -> list[str]:
    """Messages that came again without a mark."""
    seen = set()
    found = []
    for one in taken:
        if (one.producer, one.number) in seen and not one.flagged:
            found.append(f"{queue}: {one} came again without a mark")
        seen.add((one.producer, one.number))
    return found


def disordered(queue: str, taken: list[Taken]) -> list[str]:
    """Messages that came behind a later one of their producer (and priority)."""
    last: dict[tuple[str, int], int] = {}
    seen = set()
    found = []
    for one in taken:
        if (one.producer, one.number) in seen:
            continue
        seen.add((one.producer, one.number))
        stream = one.producer, priority(queue, one.number)
        if one.number < last.get(stream, -1):
            found.append(f"{queue}: {one} came behind {last[stream]}")
        last[stream] = max(one.number, last.get(stream, -1))
    return found


def priority(queue: str, number: int) -> int:
    """Of the messages to the queue with priorities; others have the same."""
    return (0, 4, 9)[number % 3] if queue == "urgent" else 4
