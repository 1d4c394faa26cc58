"""Consumers with a filter: what they take, what they leave, and how often they look."""

from typing import Any

import pytest

from gateway.broker.channel import Channel
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import Outcome
from gateway.selector import Selector
from tests import in_memory
from tests.broker.fakes import (
    Heard,
    House,
    consume,
    declare,
    fetch_all,
    limited,
    message,
    purge,
    put,
    refused,
)


class Counting:
    """A filter by selector that counts what it was asked about."""

    def __init__(self, text: str) -> None:
        self.selector = Selector(text)
        self.asked: list[str] = []

    def __call__(self, one: Message) -> bool:
        self.asked.append(in_memory.text(one))
        return self.selector.matches(one)


def coloured(channel: Channel, *bodies: str, **properties: Any) -> None:
    """Bodies name their colour: "red 1"."""
    for body in bodies:
        put(channel, body, application={"colour": body.split()[0]}, **properties)


RED = "colour = 'red'"
ALL = ["red 1", "blue 2", "red 3", "green 4", "red 5"]


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("no_ack", [False, True])
def test_takes_matches_and_leaves_the_rest(paged: bool, no_ack: bool) -> None:
    house = House(page_after_octets=0, keep_in_memory=1) if paged else House()
    channel, heard = house.channel()
    declare(channel, durable=True)
    coloured(channel, *ALL, durable=True)
    consume(channel, no_ack=no_ack, matches=Selector(RED).matches)
    assert heard.bodies() == ["red 1", "red 3", "red 5"]
    coloured(channel, "blue 6", "red 7", durable=True)
    assert heard.bodies() == ["red 1", "red 3", "red 5", "red 7"]
    assert fetch_all(channel) == ["blue 2", "green 4", "blue 6"]
    if not no_ack:
        channel.settlements.settle(0, True, Outcome.ACCEPT)
    house.commit()
    assert house.store.depths() == {}
    assert house.broker.state.octets == 0


def test_the_rest_goes_to_consumers_without_a_filter(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    coloured(channel, *ALL)
    one, red = house.channel()
    consume(one, matches=Selector(RED).matches)
    two, rest = house.channel()
    consume(two)
    assert rest.bodies() == ["blue 2", "green 4"]
    coloured(channel, "red 6", "red 7", "red 8", "red 9", "blue 10")
    assert sorted(red.bodies()[3:] + rest.bodies()[2:-1]) == ["red 6", "red 7", "red 8", "red 9"]
    assert len(red.bodies()) == 5, "they take turns"
    assert rest.bodies()[-1] == "blue 10"


def test_two_filters_share_common_matches(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    parties = [house.channel() for _ in range(2)]
    for one, _ in parties:
        consume(one, matches=Selector("colour IN ('red', 'blue')").matches)
    coloured(channel, "red 1", "blue 2", "green 3", "red 4", "red 5")
    assert [heard.bodies() for _, heard in parties] == [["red 1", "red 4"], ["blue 2", "red 5"]]


@pytest.mark.parametrize("limits", [{}, {"page_after_octets": 0, "keep_in_memory": 2}])
def test_looks_at_every_message_once(limits: dict[str, Any]) -> None:
    house = House(**limits)
    channel, heard = house.channel()
    declare(channel, durable=True)
    coloured(channel, *(f"{'red' if n % 10 == 0 else 'blue'} {n}" for n in range(100)))
    matches = Counting(RED)
    channel.prefetch(1)
    consume(channel, matches=matches)
    for _ in range(12):
        if len(heard.tags()) and heard.tags()[-1] in channel.window.unsettled:
            channel.settlements.settle(heard.tags()[-1], False, Outcome.ACCEPT)
    coloured(channel, "blue 100")
    assert len(heard.bodies()) == 10
    # Out of credit, it had looked at the message it could not take: that one is looked at twice.
    assert len(matches.asked) <= 101 + 10
    assert len(set(matches.asked)) == 101


def test_requeued_behind_its_mark_is_looked_at_again_and_nothing_else(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    coloured(channel, "blue 1", "blue 2", "blue 3", "blue 4")
    other, _ = house.channel()
    fetched = other.fetch("q")
    assert fetched is not None
    matches = Counting("colour = 'blue' AND JMSXUserID IS NOT NULL")
    consume(channel, matches=matches)
    assert matches.asked == ["blue 2", "blue 3", "blue 4"]
    other.settlements.settle(fetched.delivery, False, Outcome.RELEASE)
    assert matches.asked == ["blue 2", "blue 3", "blue 4", "blue 1"]
    assert heard.bodies() == []


def test_released_comes_back_to_it(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    coloured(channel, *ALL)
    channel.prefetch(1)
    consume(channel, matches=Selector(RED).matches)
    channel.settlements.settle(1, False, Outcome.RELEASE)
    assert [(m.body, again) for _, _, again, m in heard.deliveries] == [
        (b"red 1", False),
        (b"red 1", True),
    ]
    assert house.client.vhost.queues["q"].depth == 4


@pytest.mark.parametrize("limits", [{}, {"page_after_octets": 0, "keep_in_memory": 2}])
def test_one_turn_looks_at_so_many(limits: dict[str, Any]) -> None:
    house = House(max_looks=10, **limits)
    channel, heard = house.channel()
    declare(channel)
    house.broker.end_turn()
    coloured(channel, *(f"blue {n}" for n in range(35)), "red 35")
    matches = Counting(RED)
    consume(channel, matches=matches)
    turns = [len(matches.asked)]
    while house.broker.state.due() is not None:
        house.later(2)
        turns.append(len(matches.asked))
    assert turns == [10, 20, 30, 36]
    assert heard.bodies() == ["red 35"]


HARD = " OR ".join([f"t LIKE '%_{'a' * 40}b%'"] * 50)
"""It takes some milliseconds to find that a text of nothing but a is not like this."""


def test_a_look_that_costs_more_counts_as_several() -> None:
    house = House(max_looks=200)
    channel, heard = house.channel()
    declare(channel)
    house.broker.end_turn()
    put(channel, *map(str, range(20)), application={"t": "a" * 16_000})
    put(channel, "wanted", application={"t": "a" * 41 + "b"})
    matches = Counting(HARD)
    consume(channel, matches=matches)
    assert len(matches.asked) == 1
    while house.broker.state.due() is not None:
        before = len(matches.asked)
        house.later(2)
        assert len(matches.asked) <= before + 2
    assert heard.bodies() == ["wanted"]


def test_many_properties_make_a_look_dear() -> None:
    house = House(max_looks=100)
    channel, heard = house.channel()
    declare(channel)
    house.broker.end_turn()
    put(channel, *map(str, range(20)), application={str(n): "x" * 20 for n in range(1000)})
    matches = Counting("JMSPriority = 9 AND t = 1")
    consume(channel, matches=matches)
    assert 1 <= len(matches.asked) <= 5 and not heard.bodies()


def test_to_take_out_of_the_middle_of_many_counts_as_several_looks() -> None:
    """A deque removes what is in its middle the slower the more there are."""
    house = House(max_looks=100_000)
    channel, heard = house.channel()
    declare(channel)
    for number in range(20_000):
        put(channel, "red" if number in (0, 10_000) else "blue", application={"n": number})
    state = house.broker.state
    state.begin_turn()
    consume(channel, matches=Selector("n = 0").matches, no_ack=True, credit=1, tag="head")
    at_head = state.looks
    state.begin_turn()
    consume(channel, matches=Selector("n = 10000").matches, no_ack=True, tag="middle")
    assert heard.bodies() == ["red", "red"]
    assert at_head == 1
    assert state.looks == 19_999 + (9_999 >> 12)


def test_a_long_queue_does_not_keep_the_others_waiting() -> None:
    house = House(max_looks=10)
    channel, heard = house.channel()
    for name, count in (("long", 500), ("short", 25), ("other", 25)):
        declare(channel, name)
        put(channel, *["no"] * count, key=name)
        put(channel, "yes", key=name, priority=9)
        consume(channel, name, name, matches=Selector("JMSPriority = 9").matches)
    turns = 0
    while len(heard.bodies()) < 2:
        house.later(1)
        turns += 1
        assert turns < 50
    assert not heard.by_consumer("long")


def test_publishing_is_bounded_too() -> None:
    house = House(max_looks=3)
    channel, heard = house.channel()
    declare(channel)
    matches = Counting(RED)
    consume(channel, matches=matches)
    house.broker.end_turn()
    coloured(channel, *(f"blue {n}" for n in range(7)), "red 7")
    assert len(matches.asked) == 3
    while house.broker.state.due() is not None:
        house.later(1)
    assert heard.bodies() == ["red 7"] and len(matches.asked) == 8


def test_priorities_of_messages_and_consumers(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, max_priority=5)
    coloured(channel, "red 1", "blue 2")
    coloured(channel, "red 3", "blue 4", priority=5)
    consume(channel, tag="low", matches=Selector(RED).matches)
    assert heard.bodies() == ["red 3", "red 1"]
    consume(channel, tag="high", matches=Selector(RED).matches, arguments={"x-priority": 7})
    coloured(channel, "red 5", "red 6")
    assert heard.by_consumer("high") == ["red 5", "red 6"]
    consume(channel, tag="plain", arguments={"x-priority": 9})
    coloured(channel, "red 7")
    assert heard.by_consumer("plain") == ["blue 4", "blue 2", "red 7"]


def test_single_active_with_filters(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, single_active_consumer=True)
    consume(channel, tag="one", matches=Selector(RED).matches)
    consume(channel, tag="two")
    coloured(channel, *ALL)
    assert heard.by_consumer("one") == ["red 1", "red 3", "red 5"]
    assert heard.by_consumer("two") == []
    channel.unsubscribe("one")
    assert heard.by_consumer("two") == ["blue 2", "green 4"]


def test_exclusive_and_auto_delete(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, auto_delete=True)
    consume(channel, matches=Selector(RED).matches, exclusive=True)
    with refused(Condition.ACCESS_REFUSED, "in exclusive use"):
        house.channel()[0].subscribe("q")
    channel.unsubscribe("c")
    assert "q" not in house.client.vhost.queues


def test_no_local_and_filter(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, no_local=True, matches=Selector(RED).matches)
    coloured(channel, "red 1")
    assert house.client.vhost.queues["q"].depth == 0, "refused by all who are there"
    other, _ = house.channel(house.another())
    coloured(other, "red 2", "blue 3")
    assert heard.bodies() == ["red 2"]


def test_expiry(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, message_ttl=100)
    other, _ = house.channel()
    coloured(channel, "blue 1", "red 2")
    house.later(50)
    coloured(channel, "blue 3", "red 4")
    house.broker.state.now += 60
    consume(channel, matches=Selector(RED).matches)
    assert heard.bodies() == ["red 4"]
    house.later(0)
    assert fetch_all(other) == ["blue 3"]


def test_ttl_zero_is_now_or_never_for_a_filter(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, message_ttl=0)
    consume(channel, matches=Selector(RED).matches)
    coloured(channel, "blue 1", "red 2")
    assert heard.bodies() == ["red 2"]
    assert house.client.vhost.queues["q"].depth == 0


def test_immediate(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    coloured(channel, "blue 0")
    consume(channel, matches=Selector(RED).matches)
    for colour in ("red", "blue"):
        one = message(f"{colour} 1", "q", application={"colour": colour})
        channel.publish(one, immediate=True)
    assert heard.bodies() == ["red 1"]
    assert [m.body for m, _, _ in heard.returns] == [b"blue 1"]


def test_dead_letters_and_transactions(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, "letters")
    limited(channel, dead_letter_exchange="", dead_letter_routing_key="letters")
    coloured(channel, *ALL)
    work, heard = house.channel()
    work.transactions.select()
    consume(work, matches=Selector(RED).matches)
    work.settlements.settle(1, False, Outcome.REJECT)
    work.settlements.settle(2, False, Outcome.ACCEPT)
    work.transactions.rollback()
    work.settlements.settle(1, False, Outcome.REJECT)
    work.transactions.commit()
    assert fetch_all(channel, "letters") == ["red 1"]
    work.close()
    assert fetch_all(channel) == ["blue 2", "red 3", "green 4", "red 5"]


def test_purge_while_it_holds_paged_out_messages() -> None:
    house = House(page_after_octets=0, keep_in_memory=1)
    channel, heard = house.channel()
    declare(channel, durable=True)
    coloured(channel, *ALL, durable=True)
    consume(channel, matches=Selector(RED).matches)
    assert purge(channel, "q") == 2
    house.commit()
    later = house.restart()
    assert fetch_all(later.channel()[0]) == ["red 1", "red 3", "red 5"]
    channel.close()
    assert fetch_all(house.channel()[0]) == ["red 1", "red 3", "red 5"]


def test_messages_returned_among_paged_out_ones_are_marked() -> None:
    house = House(page_after_octets=0, keep_in_memory=1)
    channel, _ = house.channel()
    declare(channel)
    coloured(channel, *ALL)
    other, _ = house.channel()
    consume(other, matches=Selector(RED).matches)
    other.close()
    found = []
    while (fetched := channel.fetch("q", True)) is not None:
        found.append((in_memory.text(fetched.message), fetched.redelivered))
    assert found == [(body, body.startswith("red")) for body in ALL]


def test_browsing_does_not_show_unsettled_messages() -> None:
    house = House(page_after_octets=0, keep_in_memory=1)
    channel, _ = house.channel()
    declare(channel)
    coloured(channel, *ALL)
    consume(channel, matches=Selector(RED).matches)
    assert [seen.message.body for seen in channel.browse("q")] == [b"blue 2", b"green 4"]


def test_messages_that_do_not_match_are_not_kept_decoded(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    consume(channel, matches=Selector(RED).matches)
    coloured(channel, "blue 1")
    lane = house.client.vhost.queues["q"].backlog.lanes[0]
    assert lane.ready[0].message._properties is None


@pytest.mark.parametrize("limits", [{}, {"page_after_octets": 0, "keep_in_memory": 2}])
def test_settling_within_deliver(limits: dict[str, Any]) -> None:
    house = House(**limits)
    channel, _ = house.channel()
    declare(channel)
    coloured(channel, *ALL * 10)

    class Settles(Heard):
        def deliver(self, consumer: str, delivery: int, redelivered: bool, m: Message) -> None:
            super().deliver(consumer, delivery, redelivered, m)
            work.settlements.settle(delivery, False, Outcome.ACCEPT)

    heard = Settles()
    work = house.client.channel(50, heard)
    work.prefetch(1)
    consume(work, matches=Selector(RED).matches)
    assert len(heard.bodies()) == 30
    assert house.client.vhost.queues["q"].depth == 20
