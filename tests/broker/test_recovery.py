"""What is paged out, and what a restart brings back."""

import pytest

from gateway import values
from gateway.broker.memory_store import MemoryStore
from gateway.broker.plain import read_plain, write_plain
from gateway.operations import Outcome
from tests.broker.fakes import (
    House,
    bind,
    consume,
    declare,
    delete_exchange,
    delete_queue,
    exchange,
    fetch_all,
    limited,
    message,
    purge,
    put,
    unbind,
)

BODIES = [f"{number:03}" for number in range(100)]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("volatile", [True, False])
def test_tail_lives_in_the_store(durable: bool, volatile: bool) -> None:
    house = House(MemoryStore(volatile), page_after_octets=50, keep_in_memory=8)
    channel, _ = house.channel()
    declare(channel, durable=True)
    put(channel, *BODIES, durable=durable)
    (queue,) = list(house.broker.each_queue())
    assert (queue.ready, queue.octets) == (100, 300)
    assert queue.paged > 50
    assert house.broker.state.octets < 600
    held = [channel.fetch("q") for _ in range(30)]
    put(channel, "last")
    channel.settlements.recover(True)
    assert len([h for h in held if h is not None]) == 30
    assert fetch_all(channel) == [*BODIES, "last"]
    assert house.broker.state.octets == 0
    assert house.store.depths() == {}


def test_paged_to_a_consumer(house: House) -> None:
    house = House(page_after_octets=0, keep_in_memory=0)
    channel, heard = house.channel()
    declare(channel)
    put(channel, *BODIES)
    assert house.broker.state.octets <= 3
    channel.prefetch(7)
    consume(channel)
    while channel.window.unsettled:
        channel.settlements.settle(0, True, Outcome.ACCEPT)
    assert heard.bodies() == BODIES
    put(channel, "after")
    assert heard.bodies()[-1] == "after"


def test_purge_of_a_paged_queue() -> None:
    house = House(page_after_octets=10, keep_in_memory=4)
    channel, _ = house.channel()
    declare(channel)
    put(channel, *BODIES)
    channel.fetch("q")
    assert purge(channel, "q") == 99
    channel.settlements.recover(True)
    put(channel, "new")
    assert fetch_all(channel) == ["000", "new"]
    put(channel, *BODIES)
    assert delete_queue(channel, "q") == 100
    assert house.store.depths() == {}
    assert house.broker.state.octets == 0


def test_expiry_and_length_reach_into_the_tail() -> None:
    house = House(page_after_octets=10, keep_in_memory=4)
    channel, _ = house.channel()
    limited(channel, max_length=50)
    put(channel, *BODIES, ttl=100)
    assert house.client.vhost.queues["q"].depth == 50
    put(channel, "stays")
    house.later(100)
    assert house.client.vhost.queues["q"].depth == 1
    assert fetch_all(channel) == ["stays"]


def test_restart_restores_durable_messages(house: House) -> None:
    channel, _ = house.channel()
    arguments = {"x-message-ttl": values.Int(60_000), "custom": [b"\x00", {"a": None}]}
    declare(channel, "kept", durable=True, arguments=arguments)
    declare(channel, "transient")
    declare(channel, "mine", durable=True, exclusive=True)
    exchange(channel, "x", "topic", durable=True, arguments={"alternate-exchange": "y"})
    exchange(channel, "y", "fanout", durable=True, internal=True)
    exchange(channel, "z")
    bind(channel, "kept", "x", "a.#", arguments={"why": b"\xff"})
    bind(channel, "kept", "z", "k")
    bind(channel, "transient", "x", "a")
    bind(channel, "y", "x", "b", to_exchange=True)
    put(channel, "1", "2", "3", key="kept", durable=True)
    put(channel, "4", key="kept")
    first = channel.fetch("kept")
    assert first is not None
    channel.settlements.settle(first.delivery, False, Outcome.ACCEPT)
    channel.fetch("kept")

    later = house.restart()
    vhost = later.client.vhost
    assert list(vhost.queues) == ["kept"]
    assert vhost.queues["kept"].arguments == arguments
    assert {"x", "y"} <= set(vhost.exchanges)
    assert "z" not in vhost.exchanges
    bindings = {(b.source, b.destination, b.key) for b in list(later.broker.each_binding())}
    assert bindings == {("x", "kept", "a.#"), ("x", "y", "b")}
    again, heard = later.channel()
    declare(again, "kept", durable=True, arguments=arguments)
    again.publish(message("new", "a.b", "x", durable=True))
    consume(again, "kept")
    assert heard.bodies() == ["2", "3", "new"]
    assert [redelivered for _, _, redelivered, _ in heard.deliveries] == [True, False, False]
    unbind(again, "kept", "x", "a.#", arguments={"why": b"\xff"})
    delete_queue(again, "kept")
    delete_exchange(again, "x")
    last = later.restart()
    assert last.client.vhost.queues == {}
    assert list(last.broker.each_binding()) == []


def test_restart_keeps_time(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, "dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(channel, "a", durable=True, arguments=arguments)
    put(channel, "soon", key="a", ttl=100, durable=True)
    put(channel, "late", key="a", ttl=10_000, durable=True)
    house.broker.state.now += 500
    later = house.restart()
    again, _ = later.channel()
    assert fetch_all(again, "dead") == ["soon"]
    assert later.broker.state.due() == later.broker.state.now + 9_500
    later.later(9_500)
    assert fetch_all(again, "dead") == ["late"]


def test_restart_keeps_priorities(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, durable=True, arguments={"x-max-priority": 9})
    for priority in (0, 3, 9, 3):
        put(channel, f"p{priority}", priority=priority, durable=True)
    channel, _ = house.restart().channel()
    put(channel, "p5", priority=5, durable=True)
    assert fetch_all(channel) == ["p9", "p5", "p3", "p3", "p0"]


def test_numbers_are_never_given_twice(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, durable=True)
    put(channel, "a", durable=True)
    later = house.restart()
    channel, _ = later.channel()
    declare(channel, "new", durable=True)
    put(channel, "b", key="new", durable=True)
    channel, _ = later.restart().channel()
    assert (fetch_all(channel), fetch_all(channel, "new")) == (["a"], ["b"])


def test_nothing_survives_in_a_volatile_store() -> None:
    house = House(MemoryStore())
    channel, heard = house.channel()
    channel.publish_path.select_confirms()
    declare(channel, durable=True)
    put(channel, "a", durable=True)
    house.broker.end_turn()
    assert heard.confirms == [(1, False, True)]
    assert not house.store.dirty
    assert house.restart().client.vhost.queues == {}


def test_table_values_survive() -> None:
    table = {
        "$": "odd",
        "int": 1,
        "short": values.Short(2),
        "time": values.Seconds(3),
        "decimal": values.Scaled(2, 314),
        "described": values.Described("a:b", [1]),
        "bytes": b"\x00\xff",
        "inner": {"float": 1.5, "none": None, "list": [True, "x", values.Symbol("y")]},
    }
    again = read_plain(write_plain(table))
    assert again == table
    assert type(again["short"]) is values.Short
    assert type(again["inner"]["list"][2]) is values.Symbol
