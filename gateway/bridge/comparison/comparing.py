"""Compares two recordings of a queue.

Messages are paired by their id (the message-id, or the header that the rules name), then by all of
their content, then by their body, then by their properties. The tables for that are in a temporary
SQLite file, so that memory does not grow with the queue, but for two numbers per message that are
needed for the order.
"""

import hashlib
import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from gateway.bridge.comparison.canonical import Entry, Field
from gateway.bridge.comparison.recording import Recording

EXAMPLES = 10
"""Differences of a class that are named."""
CLASSES = (
    "missing", "extra", "late", "reordered", "body", "property", "type", "duplicate",
    "flagged duplicate",
)  # fmt: skip
TOLERATED = frozenset({"late", "flagged duplicate"})
"""Classes that are no difference in the end: what came late is there, what came twice says so."""
SCHEMA = """
CREATE TABLE sides (side INTEGER, number INTEGER, id TEXT, grouped TEXT, again INTEGER, whole BLOB,
    body BLOB, rest BLOB, pair INTEGER, PRIMARY KEY (side, number)) WITHOUT ROWID;
"""
KEYED = """
CREATE TEMP TABLE keyed AS
SELECT side, number, {key} AS k,
    row_number() OVER (PARTITION BY side, {key} ORDER BY again, number) AS n
FROM sides WHERE pair IS NULL AND {only}
"""
FOUND = """
CREATE TEMP TABLE found AS
SELECT l.number AS mine, r.number AS yours FROM keyed AS l CROSS JOIN keyed AS r
ON r.side = 1 AND r.k = l.k AND r.n = l.n WHERE l.side = 0
"""
KEYS = (("id", "id != ''"), ("whole", "id = ''"), ("body", "id = ''"), ("rest", "id = ''"))


class Rules(NamedTuple):
    """Rules of the comparison. ``ignore``: patterns of property names, such as ``header.x-*``.
    ``key``: the property that tells messages apart, instead of the message-id. ``order``: "all",
    "group" (within a group-id) or "none"."""

    ignore: tuple[str, ...] = ()
    key: str = ""
    order: str = "all"

    def kept(self, fields: Iterable[Field]) -> list[Field]:
        return [
            one
            for one in fields
            if not any(fnmatchcase(one.name, pattern) for pattern in self.ignore)
        ]

    def id_of(self, entry: Entry) -> str:
        if not self.key:
            return entry.id
        return next((one.value for one in entry.fields if one.name == self.key), "")


class Found(NamedTuple):
    """Differences of one class: their ``number``, and the first. An example names the places of the
    message on both sides (0: not there), its id, and what differs."""

    number: int
    examples: list[tuple[int, int, str, str]]


class Summary(NamedTuple):
    """One side. ``digest`` is that of all messages in their order, ``content`` the same in any
    order."""

    messages: int
    digest: str
    content: str


class Compared(NamedTuple):
    """The result for one queue on each side. ``lost``: numbers of missing messages, for a second
    look."""

    left: Summary
    right: Summary
    classes: dict[str, Found]
    lost: frozenset[int]

    @property
    def equal(self) -> bool:
        return all(
            not found.number for name, found in self.classes.items() if name not in TOLERATED
        )


class Comparison:
    """Of one queue in each of two recordings."""

    def __init__(
        self, left: Recording, queue: str, right: Recording, other: str, rules: Rules
    ) -> None:
        self.rules = rules
        self._places = (left, queue), (right, other)
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA temp_store = FILE")
        self._db.executescript(SCHEMA)
        self._classes: dict[str, Found] = {name: Found(0, []) for name in CLASSES}

    def run(self) -> Compared:
        """May take a while: for a thread."""
        try:
            left, right = (self._load(side) for side in (0, 1))
            self._db.execute("CREATE INDEX by_id ON sides (side, id)")
            self._db.execute("CREATE INDEX by_whole ON sides (side, whole)")
            for key, only in KEYS:
                self._pair(key, only)
            lost = self._unpaired()
            self._differing()
            if self.rules.order != "none":
                self._reordered()
            return Compared(left, right, self._classes, frozenset(lost))
        finally:
            self._db.close()

    def _load(self, side: int) -> Summary:
        recording, queue = self._places[side]
        chain, total, count = hashlib.blake2b(digest_size=16), 0, 0
        self._db.execute("BEGIN")
        for number, entry in recording.rows(queue):
            rest = digest_of(self.rules.kept(entry.fields))
            whole = hashlib.blake2b(entry.body + rest, digest_size=16).digest()
            chain.update(whole)
            total = (total + int.from_bytes(whole)) % (1 << 128)
            count += 1
            row = (side, number, self.rules.id_of(entry), entry.group, entry.again)
            self._db.execute(
                "INSERT INTO sides VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (*row, whole, entry.body, rest),
            )
        self._db.execute("COMMIT")
        return Summary(count, chain.hexdigest(), f"{total:032x}")

    def _pair(self, key: str, only: str) -> None:
        run = self._db.execute
        run(KEYED.format(key=key, only=only))
        run("CREATE INDEX temp.by_key ON keyed (side, k, n)")
        run(FOUND)
        run("CREATE INDEX temp.mine ON found (mine)")
        run("CREATE INDEX temp.yours ON found (yours)")
        for side, mine, yours in ((0, "mine", "yours"), (1, "yours", "mine")):
            run(
                f"UPDATE sides SET pair = (SELECT {yours} FROM found WHERE {mine} = number)"
                f" WHERE side = {side} AND number IN (SELECT {mine} FROM found)"
            )
        run("DROP TABLE found")
        run("DROP TABLE keyed")

    # --- classes ----------------------------------------------------------------------------------

    def _note(self, name: str, mine: int, yours: int, id: str, what: str = "") -> None:
        count, examples = self._classes[name]
        if len(examples) < EXAMPLES:
            examples.append((mine, yours, id, what))
        self._classes[name] = Found(count + 1, examples)

    def _unpaired(self) -> list[int]:
        query = "SELECT number, id FROM sides WHERE side = 0 AND pair IS NULL ORDER BY number"
        lost = []
        for number, id in self._db.execute(query):
            self._note("missing", number, 0, id)
            lost.append(number)
        query = (
            "SELECT number, id, again, EXISTS (SELECT 1 FROM sides AS l WHERE l.side = 0 AND"
            " ((r.id != '' AND l.id = r.id) OR (r.id = '' AND l.whole = r.whole)"
            " OR (r.id = '' AND r.again AND l.body = r.body)))"
            " FROM sides AS r WHERE side = 1 AND pair IS NULL ORDER BY number"
        )
        for number, id, again, known in self._db.execute(query):
            name = ("flagged duplicate" if again else "duplicate") if known else "extra"
            self._note(name, 0, number, id)
        return lost

    def _differing(self) -> None:
        query = (
            "SELECT l.number, r.number, l.id, l.body = r.body FROM sides AS l JOIN sides AS r"
            " ON r.side = 1 AND r.number = l.pair"
            " WHERE l.side = 0 AND l.whole != r.whole ORDER BY l.number"
        )
        for mine, yours, id, same in self._db.execute(query):
            if not same:
                self._note("body", mine, yours, id)
            (left, queue), (right, other) = self._places
            kept = self.rules.kept
            values, types = unequal(
                kept(left.fields(queue, mine)), kept(right.fields(other, yours))
            )
            if values:
                self._note("property", mine, yours, id, ", ".join(values))
            if types:
                self._note("type", mine, yours, id, ", ".join(types))

    def _reordered(self) -> None:
        """The fewest messages that have to be moved for the same order."""
        grouped = self.rules.order == "group"
        order = "grouped, number" if grouped else "number"
        query = (
            "SELECT grouped, number, pair FROM sides WHERE side = 0 AND pair IS NOT NULL"
            f" ORDER BY {order}"
        )
        group: str | None = None
        places: array[int] = array("q")
        mine: array[int] = array("q")
        for name, number, pair in self._db.execute(query):
            if grouped and name != group:
                self._disordered(mine, places)
                mine, places = array("q"), array("q")
                group = name
            mine.append(number)
            places.append(pair)
        self._disordered(mine, places)

    def _disordered(self, mine: "array[int]", places: "array[int]") -> None:
        query = "SELECT id FROM sides WHERE side = 0 AND number = ?"
        for at in out_of_order(places):
            (id,) = self._db.execute(query, (mine[at],)).fetchone()
            self._note("reordered", mine[at], places[at], id)


def digest_of(fields: list[Field]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for one in fields:
        digest.update(repr(tuple(one)).encode("utf-8", "backslashreplace"))
    return digest.digest()


def unequal(mine: list[Field], yours: list[Field]) -> tuple[list[str], list[str]]:
    """Names of the properties with other values, and of those of another type only."""
    here = {one.name: one for one in mine}
    there = {one.name: one for one in yours}
    values, types = [], []
    for name in sorted(here.keys() | there.keys()):
        one, other = here.get(name), there.get(name)
        if one is None or other is None or one.value != other.value:
            values.append(name)
        elif one.type != other.type:
            types.append(name)
    return values, types


def out_of_order(places: "array[int]") -> Iterator[int]:
    """Indices of the places that are not in the longest ascending part of them."""
    ends: list[int] = []
    tops: array[int] = array("q")
    before: array[int] = array("q")
    for at, place in enumerate(places):
        length = bisect_left(tops, place)
        before.append(ends[length - 1] if length else -1)
        if length == len(tops):
            tops.append(place)
            ends.append(at)
        else:
            tops[length], ends[length] = place, at
    kept = ends[-1] if ends else -1
    out = array("q")
    for at in range(len(places) - 1, -1, -1):
        if at == kept:
            kept = before[at]
        else:
            out.append(at)
    yield from reversed(out)
