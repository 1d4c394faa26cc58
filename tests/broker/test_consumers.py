"""Consumers: credit, turns, priorities, exclusive and single active, no-local, recovery."""

import pytest

from gateway.errors import Condition, LocalError, Lost
from gateway.operations import Outcome
from tests.broker.fakes import (
    House,
    bind,
    consume,
    declare,
    delete_queue,
    fetch_all,
    limited,
    message,
    put,
    refused,
)


def test_nothing_before_start(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, "a")
    tag = channel.subscribe("q")
    assert tag.startswith("amq.ctag-")
    put(channel, "b")
    assert heard.bodies() == []
    channel.start(tag)
    assert heard.bodies() == ["a", "b"]
    assert heard.tags() == [1, 2]


@pytest.mark.parametrize("no_ack", [True, False])
def test_round_robin(house: House, no_ack: bool) -> None:
    channel, heard = house.channel()
    declare(channel)
    for tag in "abc":
        consume(channel, tag=tag, no_ack=no_ack)
    put(channel, *"123456")
    assert [heard.by_consumer(tag) for tag in "abc"] == [["1", "4"], ["2", "5"], ["3", "6"]]


def test_round_robin_of_mixed(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.prefetch(1)
    consume(channel, tag="slow")
    consume(channel, tag="fast", no_ack=True)
    put(channel, *"1234")
    assert heard.by_consumer("slow") == ["1"]
    assert heard.by_consumer("fast") == ["2", "3", "4"]
    channel.settlements.settle(1, False, Outcome.ACCEPT)
    put(channel, *"56")
    assert heard.by_consumer("slow") == ["1", "6"]


def test_prefetch_per_consumer(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.prefetch(2)
    consume(channel, tag="two")
    channel.prefetch(0)
    put(channel, *"abcd")
    assert heard.bodies() == ["a", "b"]
    channel.settlements.settle(2, False, Outcome.ACCEPT)
    assert heard.bodies() == ["a", "b", "c"]
    channel.settlements.settle(3, True, Outcome.ACCEPT)
    assert heard.bodies() == ["a", "b", "c", "d"]


def test_prefetch_shared(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.prefetch(2, 0, True)
    consume(channel, tag="one")
    consume(channel, tag="two")
    put(channel, *"abcd")
    assert heard.bodies() == ["a", "b"]
    channel.settlements.settle(1, False, Outcome.ACCEPT)
    assert heard.bodies() == ["a", "b", "c"]
    channel.prefetch(0, 0, True)
    assert heard.bodies() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("shared", [True, False])
def test_prefetch_size(house: House, shared: bool) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.prefetch(0, 10, shared)
    consume(channel)
    put(channel, "123456", "1234", "1", "larger than all of it")
    assert heard.bodies() == ["123456", "1234"]
    channel.settlements.settle(1, True, Outcome.ACCEPT)
    assert heard.bodies()[2:] == ["1"]
    channel.settlements.settle(3, True, Outcome.ACCEPT)
    assert heard.bodies()[3:] == ["larger than all of it"]


def test_no_ack_needs_no_credit(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.prefetch(1, 1, True)
    consume(channel, no_ack=True)
    put(channel, "aaa", "bbb")
    assert heard.bodies() == ["aaa", "bbb"]
    with refused(Condition.PRECONDITION_FAILED, "unknown delivery tag 1"):
        channel.settlements.settle(1, False, Outcome.ACCEPT)


def test_consumer_priorities(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.prefetch(1)
    consume(channel, tag="low")
    consume(channel, tag="high", arguments={"x-priority": 10})
    consume(channel, tag="also", arguments={"x-priority": 10})
    put(channel, *"123")
    assert [heard.by_consumer(t) for t in ("high", "also", "low")] == [["1"], ["2"], ["3"]]
    channel.settlements.settle(1, False, Outcome.ACCEPT)
    channel.settlements.settle(3, False, Outcome.ACCEPT)
    put(channel, "4")
    assert heard.by_consumer("high") == ["1", "4"]
    with refused(Condition.PRECONDITION_FAILED, "x-priority"):
        channel.subscribe("q", "odd", arguments={"x-priority": "high"})


def test_exclusive_consumer(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    consume(channel, tag="first")
    with refused(Condition.ACCESS_REFUSED, "queue 'q' in vhost '/' in exclusive use"):
        channel.subscribe("q", "second", exclusive=True)
    channel.unsubscribe("first")
    consume(channel, tag="alone", exclusive=True)
    with refused(Condition.ACCESS_REFUSED, "in exclusive use"):
        channel.subscribe("q", "second")


def test_single_active(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, single_active_consumer=True)
    for tag in ("first", "second"):
        consume(channel, tag=tag, no_ack=True)
    put(channel, "1", "2")
    channel.unsubscribe("first")
    put(channel, "3")
    assert (heard.by_consumer("first"), heard.by_consumer("second")) == (["1", "2"], ["3"])
    with refused(Condition.ACCESS_REFUSED):
        channel.subscribe("q", "third", exclusive=True)


def test_single_active_hands_over_waiting_messages(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, single_active_consumer=True)
    channel.prefetch(1)
    consume(channel, tag="first")
    consume(channel, tag="second")
    put(channel, "1", "2")
    assert heard.by_consumer("second") == []
    channel.unsubscribe("first")
    assert heard.by_consumer("second") == ["2"]


def test_tags(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    consume(channel, tag="t")
    with refused(Condition.NOT_ALLOWED, "attempt to reuse consumer tag 't'", Lost.CONNECTION):
        channel.subscribe("q", "t")
    channel.unsubscribe("t")
    channel.unsubscribe("t")
    consume(channel, tag="t")
    with refused(Condition.NOT_FOUND, "no queue 'none' in vhost '/'"):
        channel.subscribe("none")


def test_no_local(house: House) -> None:
    mine, heard = house.channel()
    theirs, other = house.channel(house.another())
    declare(mine)
    consume(mine, no_local=True)
    put(mine, "mine: nobody else wants it")
    put(theirs, "theirs")
    assert heard.bodies() == ["theirs"]
    consume(theirs)
    put(mine, "mine")
    assert other.bodies() == ["mine"]
    assert house.client.vhost.queues["q"].depth == 0


def test_no_local_waits_for_another_to_take_it(house: House) -> None:
    mine, heard = house.channel()
    theirs, other = house.channel(house.another())
    declare(mine)
    consume(mine, no_local=True)
    theirs.prefetch(1)
    consume(theirs)
    put(mine, "1", "2")
    assert (heard.bodies(), other.bodies()) == ([], ["1"])
    put(theirs, "3")
    theirs.unsubscribe("c")
    # Only those who refuse it are left: "2" is discarded, and "3" may pass.
    assert heard.bodies() == ["3"]
    assert house.client.vhost.queues["q"].depth == 0


def test_settle_outcomes(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"abcd")
    consume(channel)
    channel.settlements.settle(1, False, Outcome.ACCEPT)
    channel.settlements.settle(2, False, Outcome.REJECT)
    channel.unsubscribe("c")
    channel.settlements.settle(3, False, Outcome.RELEASE)
    for tag in (1, 3, 99):
        with refused(Condition.PRECONDITION_FAILED, f"unknown delivery tag {tag}"):
            channel.settlements.settle(tag, False, Outcome.ACCEPT)
    with refused(Condition.PRECONDITION_FAILED, "unknown delivery tag 99"):
        channel.settlements.settle(99, True, Outcome.ACCEPT)
    fetched = channel.fetch("q")
    assert fetched is not None
    assert (fetched.message.body, fetched.redelivered, fetched.remaining) == (b"c", True, 0)
    assert channel.settlements.delivery_count(fetched.delivery) == 1
    channel.settlements.settle(0, True, Outcome.ACCEPT)
    assert house.broker.state.octets == 0


def test_requeued_to_its_place(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    put(channel, *"abcdef")
    for _ in range(5):
        channel.fetch("q")
    channel.settlements.settle(3, False, Outcome.RELEASE)
    channel.settlements.settle(1, False, Outcome.RELEASE)
    channel.settlements.settle(5, False, Outcome.RELEASE)
    channel.settlements.settle(4, True, Outcome.RELEASE)
    assert fetch_all(channel) == list("abcdef")


def test_closing_gives_back(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"abc")
    channel.prefetch(2)
    consume(channel)
    channel.close()
    channel.close()
    other, later = house.channel()
    consume(other)
    assert later.bodies() == ["a", "b", "c"]
    assert [redelivered for _, _, redelivered, _ in later.deliveries] == [True, True, False]
    assert heard.cancels == []


@pytest.mark.parametrize("requeue", [True, False])
def test_recover(house: House, requeue: bool) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, "fetched", "a", "b")
    channel.fetch("q")
    consume(channel)
    other, elsewhere = house.channel()
    consume(other, tag="other")
    channel.settlements.recover(requeue)
    if requeue:
        assert sorted(heard.bodies()[2:] + elsewhere.bodies()) == ["a", "b", "fetched"]
        assert elsewhere.bodies()
    else:
        assert heard.bodies()[2:4] == ["a", "b"]
        assert heard.tags()[2:4] == [4, 5]
    assert all(again for _, _, again, _ in heard.deliveries[2:] + elsewhere.deliveries)
    channel.settlements.settle(0, True, Outcome.ACCEPT)
    other.settlements.settle(0, True, Outcome.ACCEPT)
    assert house.broker.state.octets == 0
    assert channel.window.held == other.window.held == 0


@pytest.mark.parametrize("no_ack", [True, False])
def test_flow_and_pause(house: House, no_ack: bool) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, no_ack=no_ack)
    channel.flow(False)
    put(channel, "a")
    channel.pause()
    channel.flow(True)
    put(channel, "b")
    assert heard.bodies() == []
    channel.resume()
    assert heard.bodies() == ["a", "b"]
    put(channel, "c")
    assert heard.bodies() == ["a", "b", "c"]


def test_pausing_within_deliver(house: House) -> None:
    """A recipient that is full says so while it is being served."""
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"abcd")
    deliver = heard.deliver

    def until_two(*given: object) -> None:
        deliver(*given)  # type: ignore[arg-type]
        if len(heard.deliveries) == 2:
            channel.pause()

    heard.deliver = until_two  # type: ignore[method-assign, assignment]
    consume(channel, no_ack=True)
    assert heard.bodies() == ["a", "b"]
    put(channel, "e")
    channel.resume()
    assert heard.bodies() == list("abcde")


def test_settling_within_deliver(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, *"abcd")
    deliver = heard.deliver

    def settled(consumer: str, delivery: int, *rest: object) -> None:
        deliver(consumer, delivery, *rest)  # type: ignore[arg-type]
        channel.settlements.settle(delivery, False, Outcome.ACCEPT)

    heard.deliver = settled  # type: ignore[method-assign, assignment]
    channel.prefetch(1)
    consume(channel)
    put(channel, "e")
    assert heard.bodies() == list("abcde")
    assert house.broker.state.octets == 0


def test_cancelled_when_the_queue_goes(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, tag="t")
    other, _ = house.channel()
    delete_queue(other, "q")
    assert heard.cancels == ["t"]
    assert channel.window.consumers == {}
    declare(channel)
    consume(channel, tag="t")


def test_immediate(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    declare(channel, "busy")
    for name in ("q", "busy"):
        bind(channel, name, "amq.fanout")
    channel.publish(message("a", "", "amq.fanout"), immediate=True)
    assert [condition for _, condition, _ in heard.returns] == [Condition.NO_CONSUMERS]
    channel.prefetch(1)
    consume(channel)
    channel.publish(message("b", "", "amq.fanout"), immediate=True)
    channel.publish(message("c", "", "amq.fanout"), immediate=True)
    assert heard.bodies() == ["b"]
    assert len(heard.returns) == 2
    assert fetch_all(channel, "busy") == []


def test_channel_numbers(house: House) -> None:
    channel, _ = house.channel()
    with pytest.raises(LocalError):
        house.client.channel(channel.number, house.channel()[1])
    channel.close()
    house.client.channel(channel.number, house.channel()[1])
    house.client.close()
    house.client.close()
    assert house.broker.snapshot().clients == 0
