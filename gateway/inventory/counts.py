"""Counts of the inventory: how often, since when, how large, how fast. All of them are bounded, can
be written as JSON and read again."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

SIZES = (64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20, 128 << 20)
"""Upper bounds of the histogram's buckets, octets; one more bucket holds larger ones."""
MINUTE = 60
LONGEST_NAME = 200
"""Characters of a name, a value or a reason that are kept."""

GENERATED = re.compile(
    r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
    r"|(?<![0-9a-z])[0-9a-f]{16,}(?![0-9a-z])"
)
NUMBERS = re.compile(r"\d{2,}")


def clipped(text: object) -> str:
    """A peer's text, no longer than we keep, and printable."""
    shown = str(text)[: LONGEST_NAME + 1]
    if len(shown) <= LONGEST_NAME and shown.isprintable():
        return shown
    shown = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in shown)
    return shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 1] + "…"


def pattern_of(name: str) -> str:
    """A name with its generated parts (UUIDs, long hexadecimal numbers) as ``*``, so that names
    made for each run are one."""
    return clipped(GENERATED.sub("*", name[: 4 * LONGEST_NAME]))


def identity_of(name: str) -> str:
    """The same for the name of a client, in which numbers are generated too (process, time)."""
    return NUMBERS.sub("*", pattern_of(name))


class Usage:
    """How often something was seen, and when first and last (seconds since 1970)."""

    __slots__ = ("count", "first", "last")

    def __init__(self, count: int = 0, first: float = 0.0, last: float = 0.0) -> None:
        self.count, self.first, self.last = count, first, last

    def add(self, now: float, times: int = 1) -> None:
        if not self.count:
            self.first = now
        self.count += times
        self.last = now

    def merge(self, other: "Usage") -> None:
        if other.count:
            self.first = min(self.first, other.first) if self.count else other.first
            self.last = max(self.last, other.last)
            self.count += other.count

    def written(self) -> dict[str, Any]:
        return {"count": self.count, "first": round(self.first, 3), "last": round(self.last, 3)}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Usage":
        return cls(int(data["count"]), float(data["first"]), float(data["last"]))


class Traffic:
    """Messages one way: number, octets, time, the busiest minute, and a histogram of sizes."""

    __slots__ = ("usage", "octets", "largest", "peak", "_minute", "_in_minute", "buckets")

    def __init__(self) -> None:
        self.usage = Usage()
        self.octets = 0
        self.largest = 0
        self.peak = 0
        """Messages of the busiest minute."""
        self.buckets = [0] * (len(SIZES) + 1)
        self._minute = 0
        self._in_minute = 0

    def add(self, now: float, size: int) -> None:
        self.usage.add(now)
        self.octets += size
        if size > self.largest:
            self.largest = size
        self.buckets[bisect_left(SIZES, size)] += 1
        minute = int(now) // MINUTE
        if minute != self._minute:
            self._minute, self._in_minute = minute, 0
        self._in_minute += 1
        if self._in_minute > self.peak:
            self.peak = self._in_minute

    @property
    def per_second(self) -> float:
        """Messages per second between the first and the last."""
        span = self.usage.last - self.usage.first
        return self.usage.count / span if span >= 1 else float(self.usage.count)

    def written(self) -> dict[str, Any]:
        return {
            **self.usage.written(), "octets": self.octets, "largest": self.largest,
            "peak_per_minute": self.peak, "sizes": list(self.buckets),
        }  # fmt: skip

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Traffic":
        made = cls()
        made.usage = Usage.read(data)
        made.octets, made.largest = int(data["octets"]), int(data["largest"])
        made.peak = int(data["peak_per_minute"])
        buckets = [int(one) for one in data["sizes"]]
        if len(buckets) == len(made.buckets):
            made.buckets = buckets
        return made


class Room:
    """The memory that all names and values of an inventory may take, in octets, about."""

    ENTRY = 200
    """Octets of memory of a value besides its text."""

    __slots__ = ("left",)

    def __init__(self, octets: int) -> None:
        self.left = octets

    def take(self, text: str, entry: int = ENTRY) -> bool:
        """Whether there is room for one more value; if so, it is taken."""
        wanted = len(text) + entry
        if wanted > self.left:
            return False
        self.left -= wanted
        return True


K = TypeVar("K")
V = TypeVar("V")


class Share:
    """The share of one connection in the memory that all connections may have, and gives back when
    it ends."""

    __slots__ = ("_room", "_taken", "_held")
    OCTETS = 512
    """Of one entry, about: a name has 255 octets at most, or is clipped."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._taken = 0
        self._held = 0

    def take(self) -> bool:
        """Whether there is room for one more entry; if so, it is taken."""
        if self._room.left < self.OCTETS:
            return False
        self._room.left -= self.OCTETS
        self._taken += 1
        return True

    def give(self, entries: int = 1) -> None:
        self._room.left += entries * self.OCTETS
        self._taken -= entries

    def hold(self, octets: int) -> bool:
        """Whether the connection may hold so many octets of unfinished frames, in all."""
        more = octets - self._held
        if more > self._room.left:
            return False
        self._room.left -= more
        self._held = octets
        return True

    def close(self) -> None:
        self.give(self._taken)
        self.hold(0)


class Remembered(dict[K, V]):
    """What is remembered of a connection while it lasts, such as the queues of its consumers. What
    does not fit is not remembered, and is not told apart then."""

    __slots__ = ("_share",)

    def __init__(self, share: Share) -> None:
        super().__init__()
        self._share = share

    def put(self, key: K, value: V) -> None:
        if key in self or self._share.take():
            self[key] = value

    def drop(self, key: K) -> V | None:
        if key not in self:
            return None
        self._share.give()
        return self.pop(key)

    def drop_all(self) -> None:
        self._share.give(len(self))
        self.clear()


class Tally:
    """How often each of some values was seen. No more than ``most`` values are told apart, and as
    many as there is room for; sightings of others are counted as ``cut``."""

    __slots__ = ("most", "counts", "cut", "_room")

    def __init__(self, most: int, room: Room) -> None:
        self.most = most
        self._room = room
        self.counts: dict[str, int] = {}
        self.cut = 0

    def add(self, value: str, times: int = 1) -> None:
        found = self.counts.get(value)
        if found is None:
            value = clipped(value)
            found = self.counts.get(value)
        if found is not None:
            self.counts[value] = found + times
        elif len(self.counts) < self.most and self._room.take(value):
            self.counts[value] = times
        else:
            self.cut += times

    def add_all(self, values: Iterable[str]) -> None:
        for value in values:
            self.add(value)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def written(self) -> dict[str, Any]:
        cut = {"cut": self.cut} if self.cut else {}
        return {"values": dict(self.counts), **cut}

    @classmethod
    def read(cls, data: Mapping[str, Any], most: int, room: Room) -> "Tally":
        made = cls(most, room)
        made.cut = int(data.get("cut", 0))
        for name, count in data.get("values", {}).items():
            made.add(str(name), int(count))
        return made
