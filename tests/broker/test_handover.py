"""The messages of a deleted queue go to its dead letter exchange, if the queue is to have it so."""

from typing import Any

import pytest

from gateway.broker.channel import Channel
from gateway.broker.handover import KIND
from gateway.errors import Condition
from gateway.operations import Outcome
from gateway.operations.rules import FINAL_0_10
from tests.broker.fakes import (
    House,
    bind,
    declare,
    delete_exchange,
    delete_queue,
    exchange,
    fetch_all,
    put,
    refused,
)

ARGUMENTS: dict[str, Any] = {"x-dead-letter-exchange": "letters", "x-dead-letter-on-delete": True}
BODIES = [f"m{number}" for number in range(7)]


def furnished(house: House, durable: bool = True, **given: Any) -> Channel:
    """A queue, and another behind the exchange that it is to hand its messages to."""
    channel, _ = house.channel()
    exchange(channel, "letters", "fanout", durable=durable)
    declare(channel, "dead", durable=durable)
    bind(channel, "dead", "letters")
    given = {"durable": durable, "arguments": ARGUMENTS, **given}
    declare(channel, "q", **given)
    return channel


def held(channel: Channel) -> int:
    """A delivery that was fetched and is not settled."""
    found = channel.fetch("q")
    assert found is not None
    return found.delivery


def turns(house: House) -> int:
    """How many until there is nothing left to do."""
    count = 0
    while (due := house.broker.state.due()) is not None:
        house.broker.state.tick(due)
        house.commit()
        count += 1
        assert count < 100
    return count


def records(house: House) -> list[Any]:
    house.commit()
    return list(house.store.records(KIND))


@pytest.mark.parametrize("durable", [False, True])
def test_deleted(house: House, durable: bool) -> None:
    channel = furnished(house, durable)
    put(channel, *BODIES, durable=durable)
    assert delete_queue(channel, "q") == len(BODIES)
    assert fetch_all(channel, "dead") == BODIES
    assert not records(house)
    assert house.broker.vhosts["/"].handovers == {}
    assert house.broker.state.octets == 0


def test_headers_tell_that_the_queue_was_deleted(house: House) -> None:
    channel = furnished(house)
    put(channel, "a", ttl=1000)
    delete_queue(channel, "q")
    found = channel.fetch("dead", True)
    assert found is not None and found.message.properties.application is not None
    (death,) = found.message.properties.application["x-death"]
    assert (death["queue"], death["reason"]) == ("q", "deleted")


def test_not_without_the_argument(house: House) -> None:
    channel = furnished(house, arguments={"x-dead-letter-exchange": "letters"})
    put(channel, *BODIES)
    assert delete_queue(channel, "q") == len(BODIES)
    assert fetch_all(channel, "dead") == []


def test_a_declaration_need_not_repeat_it(house: House) -> None:
    channel = furnished(house, arguments={"x-dead-letter-exchange": "letters"})
    declare(channel, "q", durable=True, arguments=ARGUMENTS)


@pytest.mark.parametrize("how", ["unused", "expired", "exclusive", "too long"])
def test_deleted_by_itself(house: House, how: str) -> None:
    owner = house.another()
    limits: dict[str, dict[str, Any]] = {
        "expired": {"x-expires": 50},
        "too long": {"x-overflow": "self-destruct", "x-max-length": len(BODIES) - 1},
    }
    more = limits.get(how, {})
    channel = furnished(house, False, arguments=ARGUMENTS | more, auto_delete=how == "unused")
    if how == "exclusive":
        delete_queue(channel, "q")
        other, _ = house.channel(owner)
        declare(other, "q", exclusive=True, arguments=ARGUMENTS)
    put(channel, *BODIES)
    if how == "unused":
        channel.unsubscribe(channel.subscribe("q", "c"))
    elif how == "expired":
        house.later(50)
    elif how == "exclusive":
        owner.close()
    turns(house)
    assert "q" not in house.broker.vhosts["/"].queues
    assert fetch_all(channel, "dead") == BODIES


@pytest.mark.parametrize(
    "outcome", [Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT, Outcome.DECLINE]
)
@pytest.mark.parametrize("later", [False, True])
def test_unsettled_ones_go_when_they_come_back(house: House, outcome: Outcome, later: bool) -> None:
    """In their order if it is in the same turn."""
    channel = furnished(house)
    put(channel, "a", "b", durable=True)
    delivery = held(channel)
    assert delete_queue(channel, "q") == 1
    assert records(house)
    if later:
        assert turns(house) == 1
        assert fetch_all(channel, "dead") == ["b"]
        assert records(house)
    channel.settlements.settle(delivery, False, outcome)
    turns(house)
    given_back = [] if outcome is Outcome.ACCEPT else ["a"]
    assert fetch_all(channel, "dead") == given_back + ([] if later else ["b"])
    assert not records(house)
    assert fetch_all(house.restart().channel()[0], "dead") == []


def test_the_exchange_is_deleted_right_afterwards(house: House) -> None:
    channel = furnished(house)
    channel.topology.rules = FINAL_0_10
    put(channel, "a", "b")
    held(channel)
    delete_queue(channel, "q")
    delete_exchange(channel, "letters")
    assert fetch_all(channel, "dead") == ["b"]


def test_in_portions(house: House) -> None:
    house = House(max_drops=10)
    channel = furnished(house)
    put(channel, *BODIES, *BODIES, durable=True)
    house.commit()
    house.broker.state.begin_turn()
    delete_queue(channel, "q")
    channel.topology.rules = FINAL_0_10
    with refused(Condition.NOT_ALLOWED):
        delete_exchange(channel, "letters")
    assert house.broker.vhosts["/"].queues["dead"].depth < len(BODIES)
    assert turns(house) > 2
    assert fetch_all(channel, "dead") == BODIES * 2
    delete_exchange(channel, "letters")


@pytest.mark.parametrize("after", range(4))
def test_killed_on_the_way(after: int) -> None:
    """Each message is in one of the two queues, whenever the process dies. Another of its name,
    made meanwhile, has no part in it."""
    house = House(max_drops=10)
    channel = furnished(house)
    put(channel, *BODIES, durable=True)
    held(channel)
    house.commit()
    house.broker.state.begin_turn()
    delete_queue(channel, "q")
    declare(channel, "q", durable=True)
    put(channel, "new", durable=True)
    house.commit()
    for _ in range(after):
        due = house.broker.state.due()
        if due is not None:
            house.broker.state.tick(due)
            house.commit()
    again = house.restart(max_drops=10)
    turns(again)
    channel, _ = again.channel()
    assert sorted(fetch_all(channel, "dead")) == BODIES
    assert fetch_all(channel, "q") == ["new"]
    assert not records(again)
    assert fetch_all(again.restart().channel()[0], "dead") == []


def test_paged_out() -> None:
    house = House(page_after_octets=0, keep_in_memory=2)
    channel = furnished(house)
    put(channel, *BODIES[::2], durable=True)
    put(channel, *BODIES[1::2])
    delete_queue(channel, "q")
    turns(house)
    assert fetch_all(channel, "dead") == BODIES[::2] + BODIES[1::2]
    house.commit()
    assert not house.store.depths()


def test_a_queue_of_the_same_name_may_get_them(house: House) -> None:
    channel = furnished(house)
    bind(channel, "q", "letters")
    put(channel, "a")
    delivery = held(channel)
    delete_queue(channel, "q")
    declare(channel, "q")
    bind(channel, "q", "letters")
    channel.settlements.settle(delivery, False, Outcome.RELEASE)
    assert fetch_all(channel, "q") == fetch_all(channel, "dead") == ["a"]


def test_a_deleted_virtual_host_ends_it() -> None:
    house = House(max_drops=2)
    channel = furnished(house)
    put(channel, *BODIES, durable=True)
    house.commit()
    delete_queue(channel, "q")
    assert records(house)
    house.broker.vhosts["/"].forget()
    house.commit()
    assert not records(house)
    turns(house)
