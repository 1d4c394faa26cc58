"""Declined deliveries: not to this consumer again, still for the others, and never lost."""

from typing import Any

import pytest

from gateway.broker import exclusions
from gateway.broker.channel import Channel
from gateway.broker.queues import Queue
from gateway.errors import Condition
from gateway.operations import Outcome
from tests import in_memory
from tests.broker.fakes import House, consume, declare, fetch_all, message, purge, put, refused


def queue_of(house: House, name: str = "q") -> Queue:
    return house.broker.vhosts["/"].queues[name]


def decline(channel: Channel, delivery: int) -> None:
    channel.settlements.settle(delivery, False, Outcome.DECLINE)


@pytest.fixture(params=[False, True], ids=["in memory", "paged"])
def house(request: Any) -> House:
    return House(page_after_octets=0, keep_in_memory=1) if request.param else House()


def test_a_declined_message_stays_for_the_others(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True)
    put(channel, "1", "2", "3", durable=True)
    consume(channel)
    assert heard.bodies() == ["1", "2", "3"]
    decline(channel, 2)
    decline(channel, 1)
    assert heard.bodies() == ["1", "2", "3"], "not to this consumer again"
    put(channel, "4", durable=True)
    assert heard.bodies() == ["1", "2", "3", "4"], "nor is it in the way"
    assert queue_of(house).depth == 2
    other, told = house.channel()
    consume(other, tag="other")
    assert told.bodies() == ["1", "2"], "in the order in which they stood"
    assert all(again for _, _, again, _ in told.deliveries)


def test_a_message_that_another_returns_is_still_excluded(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True)
    put(channel, "1", "2", durable=True)
    consume(channel)
    decline(channel, 1)
    other, told = house.channel()
    consume(other, tag="other")
    assert told.bodies() == ["1"]
    other.unsubscribe("other")
    other.settlements.settle(told.tags()[0], False, Outcome.RELEASE)
    assert heard.bodies() == ["1", "2"] and queue_of(house).depth == 1


def test_direct_delivery_continues_without_exclusions(house: House) -> None:
    """A consumer that may have all of it is served past a head that another excludes."""
    channel, heard = house.channel()
    declare(channel, durable=True)
    consume(channel, credit=1)
    put(channel, "1")
    decline(channel, 1)
    assert queue_of(house).depth == 1
    other, told = house.channel()
    consume(other, tag="other", no_ack=True)
    put(channel, "2", "3")
    assert told.bodies() == ["1", "2", "3"]
    channel.unsubscribe("c")
    assert other.window.consumers["other"].simple, "who excluded is gone, and with it the price"


def test_it_goes_when_the_consumer_goes(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True)
    put(channel, "1", durable=True)
    consume(channel)
    decline(channel, 1)
    channel.unsubscribe("c")
    assert not queue_of(house).excluded
    consume(channel, tag="again")
    assert heard.by_consumer("again") == ["1"]


@pytest.mark.parametrize("end", ["accept", "purge", "fetch", "expire"])
def test_nothing_is_remembered_of_messages_that_are_gone(house: House, end: str) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True)
    ttl: dict[str, Any] = {"ttl": 1000} if end == "expire" else {}
    put(channel, "1", "2", durable=True, **ttl)
    consume(channel)
    decline(channel, 1)
    decline(channel, 2)
    assert len(queue_of(house).excluded) == 2
    if end == "accept":
        other, told = house.channel()
        consume(other, tag="other")
        other.settlements.settle(0, True, Outcome.ACCEPT)
    elif end == "purge":
        assert purge(channel, "q") == 2
    elif end == "fetch":
        assert fetch_all(channel) == ["1", "2"]
    else:
        house.later(2000)
    assert queue_of(house).depth == 0
    assert not queue_of(house).excluded
    cursor = channel.window.consumers["c"].cursor
    assert cursor is not None and cursor.exclusions is not None
    assert not cursor.exclusions.places
    put(channel, "3", durable=True)
    assert heard.bodies()[-1] == "3"


def test_dead_letters_where_the_queue_says_so(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, "dead", durable=True)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(channel, durable=True, arguments=letters)
    put(channel, "1", durable=True)
    consume(channel)
    decline(channel, 1)
    assert (queue_of(house).depth, queue_of(house, "dead").depth) == (0, 1)


@pytest.mark.parametrize("exchange", ["gone", "amq.direct"])
def test_a_dead_letter_exchange_that_leads_nowhere_loses_nothing(
    house: House, exchange: str
) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True, arguments={"x-dead-letter-exchange": exchange})
    put(channel, "1", durable=True)
    consume(channel)
    decline(channel, 1)
    assert queue_of(house).depth == 1 and heard.bodies() == ["1"]


def test_a_copy_is_declined_without_harm(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True)
    put(channel, "1", durable=True)
    consume(channel, copy=True)
    decline(channel, 1)
    assert queue_of(house).depth == 1 and not queue_of(house).excluded
    assert heard.bodies() == ["1"]


@pytest.mark.parametrize("no_ack", [False, True])
def test_unwritable_messages_stay_for_others(house: House, no_ack: bool) -> None:
    """Also where it was settled as it was given out."""
    channel, heard = house.channel()
    declare(channel, durable=True)
    consume(channel, no_ack=no_ack)
    one = message("1", "q", durable=True)
    channel.publish(one)
    channel.settlements.unsent("c", 1, one)
    assert heard.bodies() == ["1"] and queue_of(house).depth == 1
    put(channel, "2")
    assert heard.bodies() == ["1", "2"]
    other, told = house.channel()
    consume(other, tag="other")
    assert told.bodies() == ["1"]


def test_fetched_messages_that_cannot_be_written_go_back(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, durable=True)
    put(channel, "1", durable=True)
    fetched = channel.fetch("q")
    assert fetched is not None
    channel.settlements.unsent("", fetched.delivery, fetched.message)
    assert queue_of(house).depth == 1


def test_a_full_queue_excludes_no_consumer_from_its_next_message(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    consume(channel, no_ack=True)
    channel.settlements.unsent("c", 1, message("1", "q"))
    assert not queue_of(house).excluded


def test_one_link_declines_so_many_and_no_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusions, "MOST", 2)
    channel, heard = house.channel()
    declare(channel, durable=True)
    put(channel, "1", "2", "3", durable=True)
    consume(channel)
    decline(channel, 1)
    decline(channel, 2)
    with refused(Condition.RESOURCE_ERROR, "undeliverable here"):
        channel.settlements.unsent("c", 3, heard.deliveries[2][3])
    assert 3 in channel.window.unsettled, "and it is not lost with the refusal"
    channel.close()
    assert queue_of(house).depth == 3 and not queue_of(house).excluded


def test_a_queue_has_its_delivery_limit_all_the_same(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True, arguments={"x-delivery-limit": 0, "x-queue-type": "quorum"})
    put(channel, "1", durable=True)
    consume(channel)
    decline(channel, 1)
    assert queue_of(house).depth == 0


@pytest.mark.parametrize("no_ack", [False, True])
def test_unfetchable_messages_stay_for_others(house: House, no_ack: bool) -> None:
    """It has no form for who fetches, who is not given it again; nothing is lost by that."""
    channel, heard = house.channel()
    declare(channel, durable=True)
    put(channel, "1", "2", "3", durable=True)
    got = []
    while fetched := channel.fetch("q", no_ack):
        body = in_memory.text(fetched.message)
        got.append(body)
        if body != "2":
            channel.settlements.unsent("", fetched.delivery, fetched.message, fetched.queue)
        elif not no_ack:
            channel.settlements.settle(fetched.delivery, False, Outcome.ACCEPT)
    assert got == ["1", "2", "3"] and queue_of(house).depth == 2
    consume(channel)
    assert heard.bodies() == [], "nor do the consumers of its channel have a form for it"
    other, _ = house.channel()
    assert fetch_all(other) == ["1", "3"]
    assert not queue_of(house).excluded


@pytest.mark.parametrize("no_ack", [False, True])
def test_unfetchable_messages_are_dead_lettered(house: House, no_ack: bool) -> None:
    channel, _ = house.channel()
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(channel, durable=True, arguments=letters)
    declare(channel, "dead", durable=True)
    put(channel, "1", durable=True)
    fetched = channel.fetch("q", no_ack)
    assert fetched is not None
    channel.settlements.unsent("", fetched.delivery, fetched.message, fetched.queue)
    assert channel.fetch("q") is None and queue_of(house, "dead").depth == 1
