"""Consumers with filters, copies and credit against a model of one queue: a list and predicates."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gateway.broker.channel import Channel
from gateway.broker.memory_store import MemoryStore
from gateway.message import DIALECTS, Message
from gateway.operations import Outcome
from gateway.store.sqlite import SqliteStore
from tests import in_memory
from tests.broker.fakes import DIALECT, Heard, House, declare, message, purge
from tests.drawing import examples

FILTERS: dict[str, Callable[[int], bool]] = {
    "none": lambda number: number % 3 == 3,
    "thirds": lambda number: number % 3 == 0,
    "odd": lambda number: number % 2 == 1,
    "not thirds": lambda number: number % 3 != 0,
    "all": lambda number: True,
}
SLOTS = 4


@dataclass
class Party:
    """One consumer: what it asked for, and what it has got. ``looked`` is every message that its
    filter was asked about, in order; ``declined`` what it must not get again."""

    channel: Channel
    heard: Heard
    filter: str | None
    copy: bool
    no_ack: bool
    limit: int
    credit: int | None
    since: int
    told: int = 0
    looked: list[int] = field(default_factory=list)
    got: list[int] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    declined: set[int] = field(default_factory=set)

    def wants(self, number: int) -> bool:
        if number in self.declined:
            return False
        return self.filter is None or FILTERS[self.filter](number)

    def has_room(self) -> bool:
        full = not self.no_ack and 0 < self.limit <= len(self.held)
        return not self.channel.window.paused and not full and self.credit != 0


class OneQueue(RuleBasedStateMachine):
    """The model: ``ready`` and what each party holds. Messages are numbers, in order."""

    @initialize(
        budget=st.sampled_from([None, 0, 100]),
        keep=st.sampled_from([0, 1, 5]),
        looks=st.sampled_from([1, 3, 1000]),
        ranks=st.booleans(),
        durable=st.booleans(),
    )
    def begin(
        self,
        budget: int | None,
        keep: int,
        looks: int,
        ranks: bool,
        durable: bool,
        store: MemoryStore | None = None,
    ) -> None:
        self.house = House(store, page_after_octets=budget, keep_in_memory=keep, max_looks=looks)
        self.publisher, _ = self.house.channel()
        arguments = {"x-max-priority": 2} if ranks else {}
        declare(self.publisher, durable=durable, arguments=arguments)
        self.queue = self.house.client.vhost.queues["q"]
        self.number = 0
        self.ready: set[int] = set()
        self.priority: dict[int, int] = {}
        self.requeued: set[int] = set()
        self.ever_held: set[int] = set()
        self.parties: dict[int, Party] = {}

    def listen(self) -> None:
        """Take over what was delivered."""
        movers = [p for p in self.parties.values() if not p.copy]
        for party in movers:
            for number, tag in self.fresh(party):
                assert number in self.ready, f"{number} was delivered but is not ready"
                self.ready.discard(number)
                if not party.no_ack:
                    party.held[tag] = number
                    self.ever_held.add(number)
        for party in self.parties.values():
            if party.copy:
                for number, tag in self.fresh(party):
                    if not party.no_ack:
                        party.held[tag] = number

    def fresh(self, party: Party) -> list[tuple[int, int]]:
        found = []
        for _, tag, _, received in party.heard.deliveries[party.told :]:
            number = int(in_memory.octets(received))
            assert party.wants(number)
            assert not party.copy or number not in party.got, "copied twice"
            party.got.append(number)
            if party.credit is not None:
                assert party.credit > 0, "more than the credit"
                party.credit -= 1
            found.append((number, tag))
        party.told = len(party.heard.deliveries)
        return found

    def settle_down(self) -> None:
        """Turns pass until nobody has anything left to look at."""
        self.listen()
        for _ in range(10_000):
            if not any(
                c.cursor and c.cursor.behind for c in self.queue.dispatcher.filtered_waiting
            ):
                break
            self.house.later(1)
            self.listen()
        else:
            raise AssertionError("never comes to the end")

    @rule(
        durable=st.booleans(),
        count=st.integers(1, 8),
        priority=st.sampled_from([0, 1, 2]),
        settle=st.booleans(),
    )
    def publish(self, durable: bool, count: int, priority: int, settle: bool) -> None:
        for _ in range(count):
            self.number += 1
            self.ready.add(self.number)
            self.priority[self.number] = priority if self.queue.backlog.ranked else 0
            given = message(str(self.number), "q", durable=durable, priority=priority)
            self.publisher.publish(given)
        self.listen()
        if settle:
            self.settle_down()

    @rule(
        slot=st.integers(0, SLOTS - 1),
        filter=st.sampled_from([None, *FILTERS]),
        copy=st.booleans(),
        no_ack=st.booleans(),
        limit=st.integers(0, 3),
        credit=st.sampled_from([None, None, 0, 1, 5]),
    )
    def subscribe(
        self,
        slot: int,
        filter: str | None,
        copy: bool,
        no_ack: bool,
        limit: int,
        credit: int | None,
    ) -> None:
        if slot in self.parties:
            return
        channel, heard = self.house.channel()
        party = Party(channel, heard, filter, copy, no_ack, limit, credit, self.number)
        self.parties[slot] = party

        def matches(one: Message) -> bool:
            party.looked.append(int(in_memory.octets(one)))
            return party.wants(int(in_memory.octets(one)))

        channel.prefetch(limit)
        channel.subscribe(
            "q", "c", no_ack, matches=matches if filter else None, copy=copy, credit=credit
        )
        channel.start("c")
        self.listen()

    @precondition(lambda self: self.parties)
    @rule(pick=st.integers(0, 9), close=st.booleans())
    def leave(self, pick: int, close: bool) -> None:
        slot = sorted(self.parties)[pick % len(self.parties)]
        party = self.parties.pop(slot)
        if not close:
            party.channel.unsubscribe("c")
        if not party.copy:
            self.requeue(party.held.values())
        party.channel.close()
        self.listen()

    def requeue(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.ready.add(number)
            self.requeued.add(number)

    @precondition(lambda self: any(p.held for p in self.parties.values()))
    @rule(pick=st.integers(0, 9), outcome=st.sampled_from(Outcome), multiple=st.booleans())
    def settle(self, pick: int, outcome: Outcome, multiple: bool) -> None:
        slots = sorted(slot for slot, p in self.parties.items() if p.held)
        party = self.parties[slots[pick % len(slots)]]
        tag = sorted(party.held)[pick % len(party.held)]
        settled = [t for t in party.held if t == tag or (multiple and t < tag)]
        numbers = [party.held.pop(t) for t in settled]
        if outcome not in (Outcome.ACCEPT, Outcome.REJECT) and not party.copy:
            self.requeue(numbers)
        if outcome in (Outcome.DECLINE, Outcome.REFUSE) and not party.copy:
            party.declined.update(numbers)
        party.channel.settlements.settle(tag, multiple, outcome)
        self.listen()

    @precondition(lambda self: self.parties)
    @rule(pick=st.integers(0, 9), count=st.sampled_from([None, 0, 1, 4]))
    def credit(self, pick: int, count: int | None) -> None:
        party = self.parties[sorted(self.parties)[pick % len(self.parties)]]
        party.credit = count
        party.channel.credit("c", count)
        self.listen()

    @precondition(lambda self: self.parties)
    @rule(pick=st.integers(0, 9))
    def drain(self, pick: int) -> None:
        party = self.parties[sorted(self.parties)[pick % len(self.parties)]]
        left: list[int] = []

        def drained(count: int) -> None:
            self.listen()
            left.append(count)
            assert count == (party.credit or 0)
            if not party.copy and party.has_room():
                assert not [n for n in self.ready if party.wants(n)], "dropped credit too early"
            party.credit = 0

        party.channel.drain("c", drained)
        self.settle_down()
        if party.channel.window.paused:
            party.channel.resume()
            self.settle_down()
        assert len(left) == 1

    @precondition(lambda self: self.parties)
    @rule(pick=st.integers(0, 9))
    def pause(self, pick: int) -> None:
        party = self.parties[sorted(self.parties)[pick % len(self.parties)]]
        if party.channel.window.paused:
            party.channel.resume()
        else:
            party.channel.pause()
        self.listen()

    @rule(no_ack=st.booleans())
    def fetch(self, no_ack: bool) -> None:
        fetched = self.publisher.fetch("q", no_ack)
        if not self.ready:
            assert fetched is None
            return
        assert fetched is not None
        number = int(in_memory.octets(fetched.message))
        first = min(self.ready, key=lambda n: (-self.priority[n], n))
        assert number == first
        self.ready.discard(number)
        if not no_ack:
            self.ever_held.add(number)
            self.requeue([number])
            self.publisher.settlements.settle(fetched.delivery, False, Outcome.RELEASE)
            self.listen()

    @rule()
    def empty(self) -> None:
        assert purge(self.publisher, "q") == len(self.ready)
        self.ready.clear()

    @rule()
    def quiet(self) -> None:
        """In the end everybody has what they want, and has looked at everything once."""
        self.settle_down()
        for party in self.parties.values():
            if party.has_room():
                wanted = {n for n in self.ready if party.wants(n)}
                if party.copy:
                    wanted -= {*party.got, *self.ever_held}
                assert not wanted, f"waits in vain for {wanted}"

    @invariant()
    def nothing_lost(self) -> None:
        if not hasattr(self, "house"):
            return
        movers = [p for p in self.parties.values() if not p.copy]
        assert self.queue.depth == len(self.ready)
        assert self.queue.unsettled == sum(len(p.held) for p in movers)
        assert self.queue.backlog.octets == sum(len(str(n)) for n in self.ready)
        paged = sum(lane.paged for lane in self.queue.backlog.lanes)
        in_memory = sum(len(lane.ready) for lane in self.queue.backlog.lanes)
        assert in_memory + paged == self.queue.depth
        alive = self.ready.union(*(p.held.values() for p in movers))
        excluded = sum(len(links) for links in self.queue.excluded.values())
        assert excluded == sum(len(p.declined & alive) for p in movers)
        for lane in self.queue.backlog.lanes:
            places = [entry.position for entry in lane.ready]
            assert places == sorted(set(places))
            assert not (lane.paged and places and places[-1] >= lane.paged_from)

    @invariant()
    def looked_at_once(self) -> None:
        if not hasattr(self, "house"):
            return
        for party in self.parties.values():
            numbers = [n for n in party.looked if n not in self.requeued and not party.got.count(n)]
            assert party.copy or not party.no_ack or len(numbers) == len(set(numbers))
            for rank in range(3):
                order = [n for n in party.got if self.priority[n] == rank]
                order = [n for n in order if n not in self.requeued]
                assert order == sorted(order)

    def teardown(self) -> None:
        if not hasattr(self, "house"):
            return
        self.settle_down()
        for party in self.parties.values():
            if not party.copy:
                self.ready.update(party.held.values())
            party.channel.pause()
        for party in self.parties.values():
            party.channel.close()
        got = set()
        while (fetched := self.publisher.fetch("q", True)) is not None:
            got.add(int(in_memory.octets(fetched.message)))
        assert got == self.ready
        assert self.house.broker.state.octets == 0
        self.house.commit()
        if isinstance(self.house.store, MemoryStore):
            assert not any(rows.kept for rows in self.house.store._queues.values())


TestOneQueue = OneQueue.TestCase
TestOneQueue.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("seed", range(60))
def test_long_walks(seed: int) -> None:
    """Deep queues, mostly paged out, which short examples do not come to."""
    dice = Random(seed)
    walk(dice, dice.choice([None, 0, 0, 30]), None)


@pytest.mark.parametrize("seed", range(5))
def test_long_walks_over_a_disk(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with the store that programs run with, which must be empty in the end."""
    monkeypatch.setitem(DIALECTS, DIALECT.name, DIALECT)
    store = SqliteStore(tmp_path, synchronous="off")
    try:
        walk(Random(seed), 0, store)  # type: ignore[arg-type]
    finally:
        store.close()
    again = SqliteStore(tmp_path, synchronous="off")
    assert again.depths() == {}
    again.close()


def walk(dice: Random, budget: int | None, store: MemoryStore | None) -> None:
    one = OneQueue()
    one.begin(
        budget=budget,
        keep=dice.choice([0, 1, 5]),
        looks=dice.choice([1, 7, 1000]),
        ranks=dice.random() < 0.3,
        durable=dice.random() < 0.7,
        store=store,
    )
    for _ in range(150):
        step(one, dice)
        one.nothing_lost()
        if dice.random() < 0.2:
            one.house.commit()
    one.looked_at_once()
    one.quiet()
    one.teardown()


def step(one: OneQueue, dice: Random) -> None:
    pick, roll = dice.randrange(10), dice.random()
    if roll < 0.2:
        one.publish(dice.random() < 0.5, dice.randint(1, 8), dice.randrange(3), pick < 3)
    elif roll < 0.35:
        copy, no_ack = dice.random() < 0.3, dice.random() < 0.3
        filter = dice.choice([*FILTERS, "thirds", "odd"])
        credit = dice.choice([None, None, 5])
        limit = dice.choice([0, 3, 8])
        one.subscribe(pick % SLOTS, filter if pick else None, copy, no_ack, limit, credit)
    elif roll < 0.55 and any(party.held for party in one.parties.values()):
        outcome = dice.choice([*Outcome, Outcome.RELEASE])
        one.settle(pick, outcome, dice.random() < 0.3)
    elif roll < 0.7:
        one.quiet()
    elif roll < 0.73:
        one.empty()
    elif roll < 0.8:
        one.fetch(dice.random() < 0.5)
    elif one.parties and roll < 0.85:
        one.leave(pick, dice.random() < 0.5)
    elif one.parties and roll < 0.9:
        one.credit(pick, dice.choice([None, None, 0, 4]))
    elif one.parties and roll < 0.93:
        one.drain(pick)
    elif one.parties:
        one.pause(pick)
