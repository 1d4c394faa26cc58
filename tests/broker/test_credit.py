"""Credit: how many more deliveries a consumer may get, whatever becomes of them."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.channel import Channel
from gateway.message import ExpiringMessage, Message
from gateway.operations import Outcome
from gateway.selector import Selector
from tests import in_memory
from tests.broker.fakes import Heard, House, consume, declare, delete_queue, limited, put
from tests.drawing import examples

KINDS: list[dict[str, Any]] = [
    {},
    {"no_ack": True},
    {"matches": Selector("TRUE").matches},
    {"copy": True},
]


def drain(channel: Channel, tag: str = "c") -> list[int]:
    told: list[int] = []
    channel.drain(tag, told.append)
    return told


@pytest.mark.parametrize("kind", KINDS)
def test_so_many_and_no_more(house: House, kind: dict[str, Any]) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"abcdef")
    consume(channel, credit=0, **kind)
    assert heard.bodies() == []
    channel.credit("c", 2)
    assert heard.bodies() == list("ab")
    if not kind.get("no_ack"):
        channel.settlements.settle(0, True, Outcome.ACCEPT)
    assert heard.bodies() == list("ab"), "settling gives no credit"
    channel.credit("c", 3)
    assert heard.bodies() == list("abcde")
    channel.credit("c", 2)
    assert heard.bodies() == list("abcdef")
    put(channel, *"gh")
    assert heard.bodies() == list("abcdefg")
    channel.credit("c", None)
    put(channel, "i")
    assert heard.bodies() == list("abcdefghi")


@pytest.mark.parametrize("kind", KINDS)
def test_stopping(house: House, kind: dict[str, Any]) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, **kind)
    put(channel, "a")
    channel.credit("c", 0)
    put(channel, *"bc")
    assert heard.bodies() == ["a"]
    channel.credit("c", 1)
    assert heard.bodies() == list("ab")


def test_the_direct_way_is_not_for_credit(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    consume(channel, no_ack=True)
    (consumer,) = house.client.vhost.queues["q"].consumers
    assert consumer.simple
    channel.credit("c", 5)
    assert not consumer.simple
    channel.credit("c", None)
    assert consumer.simple
    assert drain(channel) == [0]
    assert not consumer.simple


def test_a_counted_consumer_gets_messages_without_a_place_in_the_queue(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, no_ack=True, credit=2, remaining_ttl=True)
    consume(channel, "q", "d", no_ack=True, credit=2)
    queue = house.client.vhost.queues["q"]
    put(channel, *"abc")
    assert queue.passed == 3 and queue.backlog.lanes[0].next == 1, "none of them had a place"
    put(channel, *"def")
    assert [heard.by_consumer(tag) for tag in "cd"] == [["a", "c"], ["b", "d"]]
    assert queue.passed == 4 and queue.depth == 2
    channel.credit("c", 4)
    put(channel, "g", ttl=1000)
    assert heard.by_consumer("c") == ["a", "c", "e", "f", "g"]
    assert queue.passed == 4, "the rest of a time to live is told"
    assert isinstance(heard.deliveries[-1][3], ExpiringMessage)
    put(channel, "h")
    assert queue.passed == 5
    channel.credit("c", 4, 2)
    put(channel, *"ijk")
    assert heard.by_consumer("c")[6:] == ["i", "j"] and queue.passed == 5, "octets are counted"


def test_prefetch_counts_too(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"abcd")
    channel.prefetch(1)
    consume(channel, credit=2)
    assert heard.bodies() == ["a"]
    assert drain(channel) == [1], "nothing more can go out at once"
    channel.settlements.settle(1, False, Outcome.ACCEPT)
    assert heard.bodies() == ["a"]


@pytest.mark.parametrize("kind", KINDS)
def test_drain(house: House, kind: dict[str, Any]) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, credit=0, **kind)
    put(channel, *"ab")
    channel.credit("c", 5)
    assert drain(channel) == [3]
    put(channel, "c")
    assert heard.bodies() == list("ab")
    channel.credit("c", 1)
    assert heard.bodies() == list("abc")
    assert drain(channel) == [0]


def test_drain_without_consumers(house: House) -> None:
    channel, _ = house.channel()
    channel.credit("nobody", 3)
    assert drain(channel, "nobody") == [0]


@pytest.mark.parametrize("limits", [{}, {"page_after_octets": 0, "keep_in_memory": 2}])
def test_drain_waits_until_all_has_been_looked_at(limits: dict[str, Any]) -> None:
    house = House(max_looks=10, **limits)
    channel, heard = house.channel()
    declare(channel)
    put(channel, *map(str, range(35)))
    put(channel, "wanted", priority=9)
    consume(channel, credit=5, matches=Selector("JMSPriority = 9").matches)
    told = drain(channel)
    assert told == []
    house.later(1)
    assert told == []
    while house.broker.state.due() is not None:
        house.later(1)
    assert heard.bodies() == ["wanted"] and told == [4]


def test_drain_waits_for_the_socket(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, credit=5)
    channel.pause()
    put(channel, "a")
    told = drain(channel)
    assert told == []
    channel.resume()
    assert heard.bodies() == ["a"] and told == [4]


ENDS: list[Callable[[Channel], object]] = [
    lambda channel: channel.unsubscribe("c"),
    lambda channel: channel.close(),
    lambda channel: delete_queue(channel, "q"),
]


@pytest.mark.parametrize("end", ENDS)
def test_drain_ends_with_the_consumer(house: House, end: Callable[[Channel], object]) -> None:
    channel, _ = house.channel()
    declare(channel)
    consume(channel, credit=5)
    channel.pause()
    told = drain(channel)
    end(channel)
    assert told == [5]


def test_new_credit_ends_a_drain(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, credit=5)
    channel.pause()
    told = drain(channel)
    channel.credit("c", 1)
    assert told == [5]
    channel.resume()
    put(channel, *"ab")
    assert heard.bodies() == ["a"]


def test_drain_of_an_inactive_consumer(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, single_active_consumer=True)
    consume(channel, tag="active", credit=0)
    consume(channel, tag="keep_queue", credit=3)
    put(channel, "a")
    assert drain(channel, "keep_queue") == [3]
    assert heard.bodies() == []
    channel.credit("active", 1)
    assert heard.by_consumer("active") == ["a"]


# --- in octets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_octets_are_not_exceeded(house: House, kind: dict[str, Any]) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, credit=0, **kind)
    put(channel, "aaa", "bbb", "ccc")
    channel.credit("c", 10, 5)
    assert heard.bodies() == ["aaa"]
    channel.credit("c", 10, 2)
    assert heard.bodies() == ["aaa"], "a message that does not fit waits"
    channel.credit("c", 1, 100)
    assert heard.bodies() == ["aaa", "bbb"], "both credits count"
    channel.credit("c", 10, 3)
    assert heard.bodies() == ["aaa", "bbb", "ccc"]
    put(channel, "d")
    assert heard.bodies() == ["aaa", "bbb", "ccc"]
    channel.credit("c", None)
    assert heard.bodies() == ["aaa", "bbb", "ccc", "d"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_drain_ends_at_a_message_that_does_not_fit(house: House, kind: dict[str, Any]) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, "a", "bbbb")
    consume(channel, credit=0, **kind)
    channel.credit("c", 10, 3)
    assert heard.bodies() == ["a"]
    assert drain(channel) == [9]
    put(channel, "c")
    assert heard.bodies() == ["a"]


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("other", ["fetch", "consumer"])
def test_the_next_message_may_fit(house: House, kind: dict[str, Any], other: str) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, credit=0, **kind)
    channel.credit("c", 10, 3)
    put(channel, "large", "b")
    assert heard.bodies() == []
    if other == "fetch":
        assert channel.fetch("q", True) is not None
        house.later(10)
    else:
        consume(channel, tag="d", credit=1)
        assert heard.by_consumer("d") == ["large"]
    assert heard.by_consumer("c") == ["b"]
    put(channel, "cc")
    assert heard.by_consumer("c") == ["b", "cc"]


def test_octets_are_counted_as_the_reader_counts_them(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, message_ttl=1000)
    seen = []

    def measure(message: Message) -> int:
        seen.append(getattr(message, "left", None))
        return 10

    channel.subscribe("q", "c", credit=0, measure=measure, remaining_ttl=True)
    channel.start("c")
    put(channel, *"abc")
    channel.credit("c", 10, 25)
    assert heard.bodies() == list("ab")
    assert None not in seen, "the rest of the time to live takes room too"


class Spender(Heard):
    """A consumer and what it may still get."""

    def __init__(self, house: House, name: str, kind: dict[str, Any]) -> None:
        super().__init__()
        self.name, self.copies = name, "copy" in kind
        self.channel = house.client.channel(ord(name), self)
        self.count = self.octets = 0
        self.got: list[str] = []
        consume(self.channel, tag=name, credit=0, **kind)

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        self.got.append(in_memory.text(message))
        self.count -= 1
        self.octets -= len(message.body)
        assert self.count >= 0 and self.octets >= 0

    def allow(self, count: int, octets: int) -> None:
        self.count, self.octets = count, octets
        self.channel.credit(self.name, count, octets)


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(), st.sampled_from([None, 0]), st.sampled_from([5, 1000]))
def test_octets_against_a_model(seed: int, budget: int | None, looks: int) -> None:
    """Nobody gets more than the credit, and the first message waits only if it fits nobody's."""
    chance = Random(seed)
    house = House(page_after_octets=budget, keep_in_memory=1, max_looks=looks)
    publisher, _ = house.channel()
    declare(publisher)
    spenders = [Spender(house, name, chance.choice(KINDS)) for name in "xyz"]
    takers = [each for each in spenders if not each.copies]
    sent: list[str] = []
    for number in range(40):
        match chance.randrange(5):
            case 0 | 1:
                body = f"{number:02}" + "." * chance.choice([0, 0, 3, 20])
                sent.append(body)
                put(publisher, body)
            case 2 | 3:
                chance.choice(spenders).allow(chance.randrange(4), chance.choice([0, 2, 5, 30]))
            case 4 if chance.random() < 0.3:
                publisher.fetch("q", True)
        for _ in range(40):
            house.later(5)
        waiting = publisher.browse("q", None, 1)
        if waiting:
            size = len(waiting[0].message.body)
            assert not any(each.count and each.octets >= size for each in takers)
    for each in spenders:
        assert each.got == sorted(each.got)
    taken = [body for each in takers for body in each.got]
    assert len(set(taken)) == len(taken)
    for each in spenders:
        each.allow(1000, 10**6)
    for _ in range(100):
        house.later(5)
    if takers:
        assert publisher.vhost.queues["q"].depth == 0
