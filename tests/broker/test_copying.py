"""Consumers that get copies: everything from the head on, and nothing is taken out."""

from typing import Any

import pytest

from gateway.broker import dispatcher
from gateway.broker.lanes import Entry
from gateway.broker.suspension import give_up
from gateway.operations import Modify, Outcome
from gateway.selector import Selector
from tests.broker.fakes import House, consume, declare, fetch_all, limited, purge, put

PAGED: list[dict[str, Any]] = [{}, {"page_after_octets": 0, "keep_in_memory": 2}]


@pytest.mark.parametrize("limits", PAGED)
@pytest.mark.parametrize("no_ack", [False, True])
def test_present_and_future_messages(limits: dict[str, Any], no_ack: bool) -> None:
    house = House(**limits)
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"abcdef")
    consume(channel, copy=True, no_ack=no_ack)
    put(channel, *"gh")
    assert heard.bodies() == list("abcdefgh")
    assert fetch_all(house.channel()[0]) == list("abcdefgh")
    assert house.broker.state.octets == 0


def test_messages_come_while_copies_are_made(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"abc")
    other, deliver = house.channel()[0], heard.deliver

    def deliver_and_publish(*given: Any) -> None:
        deliver(*given)
        if len(heard.bodies()) < 3:
            put(other, f"{len(heard.bodies())}")

    monkeypatch.setattr(heard, "deliver", deliver_and_publish)
    consume(channel, copy=True)
    assert heard.bodies() == ["a", "b", "c", "1", "2"]


def test_a_place_in_a_deep_queue_is_looked_up_once_in_a_turn(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index into the middle of a deque takes the longer the more there are."""
    channel, heard = house.channel()
    declare(channel)
    put(channel, *map(str, range(300)))
    looked_up: list[int] = []

    def by_position(entry: Entry) -> int:
        looked_up.append(entry.position)
        return entry.position

    monkeypatch.setattr(dispatcher, "by_position", by_position)
    consume(channel, copy=True)
    assert len(heard.bodies()) == 300
    assert len(looked_up) < 50


@pytest.mark.parametrize("outcome", Outcome)
def test_settlement_has_no_effect(house: House, outcome: Outcome) -> None:
    channel, heard = house.channel()
    limited(channel, dead_letter_exchange="", dead_letter_routing_key="letters")
    declare(channel, "letters")
    put(channel, *"abc")
    consume(channel, copy=True)
    queue = house.client.vhost.queues["q"]
    assert (queue.depth, queue.unsettled, queue.delivered) == (3, 0, 0)
    channel.settlements.settle(1, False, outcome)
    channel.settlements.settle(0, True, outcome)
    assert heard.bodies() == list("abc")
    assert (queue.depth, queue.unsettled, queue.acked) == (3, 0, 0)
    assert house.client.vhost.queues["letters"].depth == 0
    assert not channel.window.unsettled


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("parked", [False, True])
def test_a_modified_copy_changes_nothing(house: House, elsewhere: bool, parked: bool) -> None:
    channel, heard = house.channel()
    limited(channel, dead_letter_exchange="", dead_letter_routing_key="letters")
    declare(channel, "letters")
    put(channel, "a")
    consume(channel, copy=True)
    modified = Modify(1, 1, True, elsewhere, {"x-note": 1})
    if parked:
        give_up(channel.links.park("c").values(), modified)
    else:
        channel.settlements.modify(modified)
    assert heard.bodies() == ["a"] and not channel.window.unsettled
    assert house.client.vhost.queues["letters"].depth == 0
    fetched = channel.fetch("q")
    assert fetched is not None and not fetched.message.added_headers


def test_settlement_in_a_transaction_and_recovery(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"ab")
    work, heard = house.channel()
    work.transactions.select()
    consume(work, copy=True)
    work.settlements.settle(1, False, Outcome.ACCEPT)
    work.transactions.rollback()
    assert len(work.window.unsettled) == 2
    work.settlements.recover(False)
    assert heard.bodies() == list("abab")
    work.settlements.recover(True)
    assert heard.bodies() == list("abab") and not work.window.unsettled
    work.close()
    assert fetch_all(channel) == list("ab")


def test_prefetch_holds_it_back(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"abcd")
    channel.prefetch(2)
    consume(channel, copy=True)
    assert heard.bodies() == list("ab")
    channel.settlements.settle(1, False, Outcome.RELEASE)
    assert heard.bodies() == list("abc")
    channel.settlements.settle(0, True, Outcome.ACCEPT)
    assert heard.bodies() == list("abcd")


def test_with_a_filter(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"ab")
    put(channel, *"cd", priority=9)
    consume(channel, copy=True, matches=Selector("JMSPriority > 5").matches)
    put(channel, "e", priority=8)
    put(channel, "f")
    assert heard.bodies() == list("cde")


def test_expired_is_not_copied(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, "a")
    put(channel, "b", ttl=10)
    put(channel, "c")
    house.broker.state.now += 20
    consume(channel, copy=True)
    assert heard.bodies() == list("ac")


def test_beside_ordinary_consumers(house: House) -> None:
    """Every message is copied, though it goes to somebody else at once."""
    channel, heard = house.channel()
    declare(channel)
    consume(channel, copy=True)
    other, taken = house.channel()
    consume(other, tag="simple", no_ack=True)
    consume(other, tag="acks", matches=Selector("JMSPriority = 4").matches)
    put(channel, *"abcd")
    assert heard.bodies() == list("abcd")
    assert sorted(taken.bodies()) == list("abcd")
    channel.unsubscribe("c")
    other.unsubscribe("acks")
    assert house.client.vhost.queues["q"].consumers[0].simple


def test_two_readers_keep_their_own_places(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"ab")
    consume(channel, tag="one", copy=True, credit=1)
    consume(channel, tag="two", copy=True)
    put(channel, "c")
    channel.credit("one", 1)
    assert heard.by_consumer("one") == list("ab")
    assert heard.by_consumer("two") == list("abc")


def test_it_is_no_competitor(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, single_active_consumer=True)
    consume(channel, tag="copy", copy=True)
    consume(channel, tag="active")
    put(channel, *"ab")
    assert heard.by_consumer("active") == heard.by_consumer("copy") == list("ab")
    channel.unsubscribe("active")
    consume(channel, tag="next")
    put(channel, "c")
    assert heard.by_consumer("next") == ["c"]


def test_a_requeued_message_is_not_copied_twice(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, copy=True)
    other, _ = house.channel()
    put(channel, *"ab")
    assert other.fetch("q") is not None
    other.settlements.settle(0, True, Outcome.RELEASE)
    put(channel, "c")
    assert heard.bodies() == list("abc")
    assert fetch_all(other) == list("abc")


@pytest.mark.parametrize("limits", PAGED)
def test_in_bounded_turns(limits: dict[str, Any]) -> None:
    house = House(max_looks=10, **limits)
    channel, heard = house.channel()
    declare(channel)
    bodies = [str(number) for number in range(35)]
    put(channel, *bodies)
    consume(channel, copy=True)
    assert len(heard.bodies()) == 10
    while house.broker.state.due() is not None:
        house.later(1)
    assert heard.bodies() == bodies
    assert not house.client.vhost.queues["q"].backlog.lanes[0].ahead


def test_purged_and_gone(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, auto_delete=True)
    put(channel, *"ab")
    consume(channel, copy=True)
    assert purge(channel, "q") == 2
    put(channel, "c")
    channel.unsubscribe("c")
    assert "q" not in house.client.vhost.queues
    channel.settlements.settle(0, True, Outcome.ACCEPT)
    assert heard.bodies() == list("abc") and house.broker.state.octets == 0
