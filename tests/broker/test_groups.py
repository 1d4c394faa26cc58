"""Message groups: messages of one group go to one consumer at a time, in order."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.channel import Channel
from gateway.broker.keyed import KeyedQueue
from gateway.message import Message
from gateway.operations import Outcome
from tests import in_memory
from tests.broker.fakes import Heard, House, consume, limited, message
from tests.drawing import examples


def send(channel: Channel, *bodies: str) -> None:
    """The first letter of a body is its group; a digit is none."""
    for body in bodies:
        headers = {} if body[0].isdigit() else {"g": body[0]}
        channel.publish(message(body, "q", application=headers))


def accept(channel: Channel, heard: Heard, body: str, outcome: Outcome = Outcome.ACCEPT) -> None:
    """The last delivery of this body."""
    tag = next(t for _, t, _, m in reversed(heard.deliveries) if in_memory.text(m) == body)
    channel.settlements.settle(tag, False, outcome)


def two(house: House, prefetch: int = 10, **given: Any) -> tuple[Channel, Heard, Channel, Heard]:
    """Consumers "c" and "d" on channels of their own."""
    one, heard = house.channel()
    limited(one, group_key="g", **given)
    other, heard_too = house.channel()
    one.prefetch(prefetch)
    other.prefetch(prefetch)
    consume(one)
    consume(other, tag="d")
    return one, heard, other, heard_too


@pytest.mark.parametrize("sticky", [False, True])
def test_a_group_stays_with_who_holds_some_of_it(house: House, sticky: bool) -> None:
    one, heard, other, heard_too = two(house, group_sticky=sticky)
    send(one, "a1", "a2", "b1", "a3", "b2", "1", "2")
    assert [each for each in heard.bodies() if each[0] == "a"] == ["a1", "a2", "a3"]
    assert [each for each in heard_too.bodies() if each[0] == "b"] == ["b1", "b2"]
    for body in ("a1", "a2", "a3"):
        accept(one, heard, body)
    one.credit("c", 0)
    send(one, "a4")
    house.later(10)
    assert ("a4" in heard_too.bodies()) is not sticky


def test_a_group_goes_on_when_nothing_of_it_is_held(house: House) -> None:
    one, heard, other, heard_too = two(house, prefetch=1)
    send(one, "a1", "a2", "a3", "b1")
    assert (heard.bodies(), heard_too.bodies()) == (["a1"], ["b1"])
    one.credit("c", 0)
    accept(one, heard, "a1")
    house.later(10)
    assert heard_too.bodies() == ["b1"]
    accept(other, heard_too, "b1")
    assert heard_too.bodies() == ["b1", "a2"]
    accept(other, heard_too, "a2")
    assert heard_too.bodies() == ["b1", "a2", "a3"]
    accept(other, heard_too, "a3")
    assert groups_of(house).groups == {}


def test_released_messages_come_before_later_ones(house: House) -> None:
    one, heard, other, heard_too = two(house, prefetch=1)
    send(one, "a1", "a2", "a3")
    one.credit("c", 0)
    accept(one, heard, "a1", Outcome.RELEASE)
    for body in ("a1", "a2", "a3"):
        assert heard_too.bodies()[-1] == body
        accept(other, heard_too, body)


def test_the_end_of_a_consumer_frees_its_groups(house: House) -> None:
    one, heard, other, heard_too = two(house, prefetch=2, group_sticky=True)
    send(one, "a1", "a2", "a3")
    one.unsubscribe("c")
    house.later(10)
    assert heard_too.bodies() == []
    for body in ("a1", "a2"):
        accept(one, heard, body)
    house.later(10)
    assert heard_too.bodies() == ["a3"]


def test_fetching_keeps_the_order_of_a_group(house: House) -> None:
    one, _ = house.channel()
    limited(one, group_key="g")
    send(one, "a1", "a2", "b1", "1")
    got = [one.fetch("q") for _ in range(4)]
    assert [in_memory.text(each.message) for each in got if each] == ["a1", "b1", "1"]
    assert got[0] is not None
    one.settlements.settle(got[0].delivery, False, Outcome.ACCEPT)
    last = one.fetch("q")
    assert last is not None and in_memory.text(last.message) == "a2"


def test_purge_and_expiry_hold_nothing_up(house: House) -> None:
    one, heard, other, heard_too = two(house, prefetch=1)
    send(one, "a1", "a2", "a3")
    assert one.vhost.queues["q"].purge() == 2
    send(one, "a4")
    accept(one, heard, "a1")
    house.later(10)
    assert heard.bodies() + heard_too.bodies() == ["a1", "a4"]


def groups_of(house: House) -> Any:
    queue = house.broker.vhosts["/"].queues["q"]
    assert isinstance(queue, KeyedQueue) and queue.groups is not None
    return queue.groups


class Party(Heard):
    """A channel with a consumer that comes and goes; each time it is another."""

    def __init__(self, house: House, name: str, prefetch: int, log: list[str]) -> None:
        super().__init__()
        self.channel = house.client.channel(ord(name), self)
        self.channel.prefetch(prefetch)
        self.name = name
        self.count = 0
        self.tag = ""
        self.log = log
        self.held: dict[int, tuple[str, str]] = {}
        """Consumer and body by delivery."""

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        self.held[delivery] = consumer, in_memory.text(message)
        self.log.append(in_memory.text(message))

    def come(self) -> None:
        self.count += 1
        self.tag = consume(self.channel, tag=f"{self.name}{self.count}")

    def leave(self) -> None:
        self.channel.unsubscribe(self.tag)
        self.tag = ""

    @property
    def has_room(self) -> bool:
        return bool(self.tag) and not self.channel.window.consumers[self.tag].blocked()


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(), st.booleans(), st.sampled_from([None, 0]), st.sampled_from([2, 1000]))
def test_order_and_progress(seed: int, sticky: bool, budget: int | None, looks: int) -> None:
    """Whatever consumers do, no group is held by two of them, nothing that could go out stands
    still, and everything arrives, in order unless it was released."""
    chance = Random(seed)
    house = House(page_after_octets=budget, keep_in_memory=1, max_looks=looks)
    publisher, _ = house.channel()
    limited(publisher, group_key="g", group_sticky=sticky)
    log: list[str] = []
    parties = [Party(house, name, chance.randrange(1, 4), log) for name in "xyz"]
    for party in parties:
        party.come()
    sent, released = 0, set[str]()
    done: list[str] = []

    def look() -> None:
        for _ in range(60):
            house.later(5)
        owners: dict[str, set[str]] = {}
        for party in parties:
            for tag, body in party.held.values():
                if not body[0].isdigit():
                    owners.setdefault(body[0], set()).add(tag)
        assert all(len(tags) == 1 for tags in owners.values()), owners
        seen = set[str]()
        for one in publisher.browse("q", None, 1000):
            body = in_memory.text(one.message)
            if not sticky and body[0] not in seen:
                able = {each.tag for each in parties if each.has_room}
                assert not able & owners.get(body[0], able), (body, able, owners)
            if not body[0].isdigit():
                seen.add(body[0])

    def settle(party: Party, number: int, outcome: Outcome) -> None:
        body = party.held.pop(number)[1]
        (done.append if outcome is Outcome.ACCEPT else released.add)(body)
        party.channel.settlements.settle(number, False, outcome)

    for _ in range(40):
        party = chance.choice(parties)
        match chance.randrange(8):
            case 0 | 1 | 2:
                send(publisher, f"{chance.choice('abc1')}{sent:03}")
                sent += 1
            case 3 | 4 | 5 if party.held:
                settle(party, chance.choice(sorted(party.held)), Outcome.ACCEPT)
            case 6 if party.held:
                settle(party, chance.choice(sorted(party.held)), Outcome.RELEASE)
            case 7:
                if party.tag:
                    party.leave()
                else:
                    party.come()
        look()
    for party in parties:
        if not party.tag:
            party.come()
    for _ in range(200):
        look()
        if not any(party.held for party in parties):
            break
        for party in parties:
            for number in sorted(party.held):
                settle(party, number, Outcome.ACCEPT)
    assert len(done) == sent and len(set(done)) == sent
    for group in "abc":
        order = [body for body in log if body[0] == group]
        if not released.intersection(order):
            assert order == sorted(order)
    groups = groups_of(house)
    assert not groups.places
    assert sticky or not groups.groups
