"""What leaves queues unwanted does so in portions: no turn of the loop does more than its share,
and nothing is lost by waiting. Work is counted in what ``Limits.max_drops`` counts."""

import math

import pytest

from gateway.broker.limits import DEAD_LETTER_COST
from gateway.operations import Outcome
from tests.broker.fakes import House, bind, consume, declare, exchange, fetch_all, limited, put

DROPS = 2000
SLACK = 200
"""What one message may cost beyond."""


def turns(house: House) -> int:
    """Let time pass until nothing is due any more; how many turns that took."""
    broker = house.broker
    count = 0
    while (due := broker.state.due()) is not None:
        broker.state.tick(max(due, broker.state.now))
        assert broker.state.drops <= broker.state.limits.max_drops + SLACK
        house.commit()
        count += 1
        assert count < 10_000
    return count


def circle(house: House, queues: int) -> None:
    channel, _ = house.channel()
    exchange(channel, "round", "fanout")
    for number in range(queues):
        limited(channel, f"q{number}", message_ttl=0, dead_letter_exchange="round")
        bind(channel, f"q{number}", "round")
    declare(channel, "end")
    bind(channel, "end", "round")


@pytest.mark.parametrize("queues", [1, 2, 3, 4])
def test_a_small_circle_is_gone_round_by_every_way(house: House, queues: int) -> None:
    """As RabbitMQ does: a copy for each way through queues that it has not died in before."""
    circle(house, queues)
    channel, _ = house.channel()
    put(channel, "x", key="q0")
    ways = sum(math.factorial(queues - 1) // math.factorial(k) for k in range(queues))
    assert len(fetch_all(channel, "end")) == ways


@pytest.mark.parametrize("queues", [7, 12, 200])
def test_a_large_circle_comes_to_an_end(queues: int) -> None:
    house = House()
    told: list[str] = []
    house.broker.state.report = told.append
    circle(house, queues)
    channel, _ = house.channel()
    limits = house.broker.state.limits
    house.broker.state.drops = 0
    put(channel, "x", key="q0")
    assert house.broker.state.drops <= limits.max_cascade + DEAD_LETTER_COST + 2 * queues + SLACK
    assert len(told) == 1 and "multiply in a circle" in told[0]
    assert fetch_all(channel, "end")
    assert not house.broker.vhosts["/"].dead_letters.waiting


def test_many_messages_for_a_circle_share_turns() -> None:
    house = House(max_drops=DROPS)
    circle(house, 3)
    channel, _ = house.channel()
    put(channel, *map(str, range(500)), key="q0")
    assert house.broker.state.drops <= DROPS + SLACK, "what is too much stands in the queue"
    assert house.broker.vhosts["/"].queues["q0"].depth > 0
    assert fetch_all(channel, "q0") == [], "what has expired is not delivered"
    assert turns(house) > 5
    assert len(fetch_all(channel, "end")) == 500 * 5


def test_expired_messages_die_in_portions_and_others_are_served() -> None:
    house = House(max_drops=DROPS)
    channel, heard = house.channel()
    declare(channel, "letters", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    declare(channel, "q", durable=True, arguments=arguments)
    put(channel, *map(str, range(1000)), ttl=10, durable=True)
    put(channel, "lasting", durable=True)
    house.commit()
    house.later(20)
    vhost = house.broker.vhosts["/"]
    assert 0 < vhost.queues["letters"].depth < 1000
    # Wherever the process dies, a message is in one of the two queues.
    house.commit()
    after = House(house.store.survivors(), house.broker.state.now).broker.vhosts["/"]
    assert after.queues["q"].depth + after.queues["letters"].depth == 1001
    consume(channel, "q")
    assert heard.bodies() == [], "expired ones stand before it"
    assert turns(house) >= 1000 * DEAD_LETTER_COST // DROPS - 1
    assert heard.bodies() == ["lasting"]
    assert len(fetch_all(channel, "letters")) == 1000


def test_expired_messages_without_letters_are_dropped_in_portions() -> None:
    house = House(max_drops=DROPS)
    channel, _ = house.channel()
    declare(channel)
    put(channel, *map(str, range(3 * DROPS)), ttl=10)
    house.later(20)
    assert house.broker.state.drops <= DROPS + SLACK
    turns(house)
    assert house.broker.vhosts["/"].queues["q"].depth == 0


def test_rejections_die_in_portions() -> None:
    house = House(max_drops=DROPS)
    channel, _ = house.channel()
    declare(channel, "letters", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    declare(channel, "q", durable=True, arguments=arguments)
    put(channel, *map(str, range(1000)), durable=True)
    consume(channel, "q")
    house.commit()
    channel.settlements.settle(0, True, Outcome.REJECT)
    assert house.broker.state.drops <= DROPS + SLACK
    house.commit()
    after = House(house.store.survivors(), house.broker.state.now).broker.vhosts["/"]
    assert after.queues["q"].depth + after.queues["letters"].depth == 1000
    turns(house)
    assert fetch_all(channel, "letters") == [str(number) for number in range(1000)]


def test_a_commit_is_whole() -> None:
    """Rejections of a transaction are not put off: they are in the batch of its publishes."""
    house = House(max_drops=DROPS)
    channel, _ = house.channel()
    declare(channel, "letters", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    declare(channel, "q", durable=True, arguments=arguments)
    put(channel, *map(str, range(300)), durable=True)
    consume(channel, "q")
    channel.transactions.select()
    channel.settlements.settle(0, True, Outcome.REJECT)
    channel.transactions.commit()
    assert house.broker.vhosts["/"].queues["letters"].depth == 300


def test_a_full_queue_does_not_grow_however_busy_the_turn_is() -> None:
    house = House(max_drops=1)
    channel, _ = house.channel()
    limited(channel, "q", max_length=10, dead_letter_exchange="amq.fanout")
    put(channel, *map(str, range(500)))
    assert house.broker.vhosts["/"].queues["q"].depth == 10


def test_one_large_message_drops_many_small_ones_in_portions() -> None:
    house = House(max_drops=DROPS)
    channel, _ = house.channel()
    limited(channel, "q", max_length_bytes=10_000, dead_letter_exchange="amq.fanout")
    put(channel, *["x"] * 10_000)
    house.commit()
    put(channel, "y" * 10_000)
    queue = house.broker.vhosts["/"].queues["q"]
    assert house.broker.state.drops <= DROPS + SLACK
    assert queue.depth > 1
    turns(house)
    assert fetch_all(channel) == ["y" * 10_000]
