"""The store against plain dicts, with crashes and restarts at any point.

``live`` is what the broker believes; ``safe`` what the last written batch made durable. A crash
loses what is between them, and nothing else.
"""

import copy
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.errors import StoreError
from gateway.message import Message
from gateway.store import SqliteStore
from gateway.store.batch import Gathered
from tests.drawing import examples
from tests.store.samples import message, same

QUEUES = st.integers(1, 3)
BODIES = st.sampled_from([b"", b"small", b"x" * 1023, b"y" * 1024, b"z" * 20_000])


@dataclass
class Held:
    message: Message
    expires: int | None
    keep: bool


@dataclass
class Model:
    """Everything that a store knows at one moment."""

    queues: dict[int, dict[int, Held]] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)
    records: dict[tuple[str, tuple[str, ...]], dict[str, int]] = field(default_factory=dict)

    def copied(self) -> "Model":
        queues = {queue: dict(held) for queue, held in self.queues.items()}
        return Model(queues, dict(self.delivered), copy.deepcopy(self.records))

    def restarted(self) -> "Model":
        """What is found at the next start: kept messages only, marks no higher than the last."""
        queues: dict[int, dict[int, Held]] = {}
        for queue, held in self.queues.items():
            kept = {position: one for position, one in held.items() if one.keep}
            if kept:
                queues[queue] = kept
        delivered = {
            queue: min(self.delivered[queue], max(held))
            for queue, held in queues.items()
            if self.delivered.get(queue)
        }
        return Model(queues, delivered, self.records)


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.live = Model()
        self.open()

    def open(self) -> None:
        self.store = SqliteStore(self.directory, synchronous="off")
        self.live = self.live.restarted()
        self.safe = self.live.copied()
        self.taken: list[tuple[Gathered, Model]] = []
        expected = {}
        for queue, held in self.live.queues.items():
            octets = sum(one.message.size for one in held.values())
            mark = self.live.delivered.get(queue, 0)
            expected[queue] = (len(held), octets, min(held), max(held), mark)
        assert self.store.depths() == expected

    def next_position(self, queue: int) -> int:
        return max(self.live.queues.get(queue, ()), default=0) + 1

    def append_at(self, queue: int, position: int, held: Held) -> None:
        self.store.append(queue, position, held.message, held.expires, held.keep)
        self.live.queues.setdefault(queue, {})[position] = held

    @rule(
        queues=st.sets(QUEUES, min_size=1), body=BODIES, count=st.integers(1, 4),
        gap=st.integers(0, 1), expires=st.none() | st.integers(0, 2**50),
        keep=st.booleans(), notes=st.none() | st.just({"x-death": [1]}),
    )  # fmt: skip
    def append(
        self, queues: set[int], body: bytes, count: int, gap: int, expires: int | None,
        keep: bool, notes: dict[str, list[int]] | None,
    ) -> None:  # fmt: skip
        for _ in range(count):
            held = Held(message(body, notes=notes), expires, keep)
            for queue in queues:
                self.append_at(queue, self.next_position(queue) + gap, held)

    @precondition(lambda self: any(self.live.queues.values()))
    @rule(data=st.data(), again=st.booleans())
    def remove(self, data: st.DataObject, again: bool) -> None:
        places = [(q, p) for q, held in self.live.queues.items() for p in held]
        queue, first = data.draw(st.sampled_from(places))
        for position in range(first, first + data.draw(st.sampled_from([1, 2, 100]))):
            held = self.live.queues[queue].pop(position, None)
            if held is None:
                continue
            self.store.remove(queue, position)
            if again:  # a position is free as soon as its message is removed
                self.append_at(queue, position, Held(message(b"again"), None, held.keep))

    @rule(queue=QUEUES, first=st.integers(1, 8), sizes=st.lists(st.integers(0, 3), max_size=3))
    def remove_ranges(self, queue: int, first: int, sizes: list[int]) -> None:
        ranges = []
        for size in sizes:
            ranges.append((first, first + size))
            first += size + 2
        self.store.remove_ranges(queue, ranges)
        held = self.live.queues.get(queue, {})
        for position in [p for p in held if any(a <= p <= b for a, b in ranges)]:
            del held[position]

    @rule(queue=QUEUES)
    def purge(self, queue: int) -> None:
        self.store.purge(queue)
        self.live.queues.pop(queue, None)
        self.live.delivered.pop(queue, None)

    @rule(queue=QUEUES, position=st.integers(1, 20))
    def delivered(self, queue: int, position: int) -> None:
        self.store.delivered(queue, position)
        self.live.delivered[queue] = max(position, self.live.delivered.get(queue, 0))

    @rule(name=st.sampled_from("ab"), value=st.integers(0, 3))
    def save(self, name: str, value: int) -> None:
        self.store.save("queue", ("/", name), {"value": value})
        self.live.records["queue", ("/", name)] = {"value": value}

    @rule(name=st.sampled_from("ab"))
    def forget(self, name: str) -> None:
        self.store.forget("queue", ("/", name))
        self.live.records.pop(("queue", ("/", name)), None)

    @rule(vhost=st.sampled_from(["/", '/"']))
    def forget_under(self, vhost: str) -> None:
        self.store.forget_under("queue", (vhost,))
        for key in [key for key in self.live.records if key[1][0] == vhost]:
            del self.live.records[key]

    @rule()
    def take(self) -> None:
        mark, dirty = self.store.mark, self.store.dirty
        batch = self.store.take()
        assert dirty == (batch is not None)
        if batch is not None:
            assert batch.mark == mark == self.store.mark - 1
            self.taken.append((batch, self.live.copied()))

    @precondition(lambda self: self.taken)
    @rule()
    def write(self) -> None:
        batch, self.safe = self.taken.pop(0)
        self.store.write(batch)

    @precondition(lambda self: self.taken)
    @rule()
    def write_on_a_full_disk(self) -> None:
        batch, then = self.taken[0]
        connection = self.store.writer.connection
        for name in ("main", "paged"):
            connection.execute(f"PRAGMA {name}.max_page_count=1").fetchone()
        try:
            self.store.write(batch)
            self.taken.pop(0)
            self.safe = then
        except StoreError:
            pass
        for name in ("main", "paged"):
            connection.execute(f"PRAGMA {name}.max_page_count=1000000").fetchone()

    @rule()
    def crash(self) -> None:
        self.store.abandon()
        self.live = self.safe
        self.open()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def tidy(self) -> None:
        self.store.tidy()

    @rule(queue=QUEUES, start=st.integers(0, 12), limit=st.integers(0, 4))
    def read_some(self, queue: int, start: int, limit: int) -> None:
        self.check(queue, start, limit)

    @invariant()
    def everything_is_there(self) -> None:
        for queue in (1, 2, 3):
            self.check(queue, 0, 10_000)
        found = {(kind, key): value for kind, key, value in self.store.records()}
        assert found == self.live.records

    def check(self, queue: int, start: int, limit: int) -> None:
        held = self.live.queues.get(queue, {})
        expected = [position for position in sorted(held) if position >= start][:limit]
        found = self.store.read(queue, start, limit)
        assert [kept.position for kept in found] == expected
        for kept in found:
            assert kept.expires == held[kept.position].expires
            assert same(kept.message, held[kept.position].message)

    def teardown(self) -> None:
        self.store.close()
        assert self.store.pending_octets == 0
        self.open()
        stored, used = (
            self.store.reader.execute(f"SELECT DISTINCT {column} ORDER BY 1").fetchall()
            for column in ("id FROM bodies", "body FROM shares")
        )
        assert stored == used
        self.store.abandon()
        shutil.rmtree(self.directory)


TestStoreMachine = pytest.mark.timeout(400)(StoreMachine.TestCase)
TestStoreMachine.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
