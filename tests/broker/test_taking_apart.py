"""What is deleted with very much in it is gone at once for all to see, and is taken apart in
portions. Work is counted in bindings and queues that are let go of in one turn."""

from collections.abc import Iterator

import pytest

from gateway.broker import vhost as vhosts
from gateway.broker.exchanges import Binding, Exchange
from gateway.broker.queues import Queue
from gateway.broker.vhost import VirtualHost
from gateway.errors import Condition
from tests.broker.fakes import (
    House,
    bind,
    consume,
    declare,
    delete_exchange,
    delete_queue,
    exchange,
    fetch_all,
    message,
    put,
    refused,
)

PORTION = 10
COUNT = 5 * PORTION + 3


@pytest.fixture(autouse=True)
def done(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Bindings and queues that are let go of; those of one turn are counted and taken away."""
    monkeypatch.setattr(vhosts, "PORTION", PORTION)
    found: list[object] = []
    unlink, take_apart = VirtualHost.unlink, VirtualHost.take_apart

    def unlinked(self: VirtualHost, binding: Binding) -> None:
        found.append(binding)
        unlink(self, binding)

    def taken_apart(self: VirtualHost, queue: Queue) -> int:
        found.append(queue)
        return take_apart(self, queue)

    monkeypatch.setattr(VirtualHost, "unlink", unlinked)
    monkeypatch.setattr(VirtualHost, "take_apart", taken_apart)
    yield found


def turns(house: House, done: list[object], slack: int = 1) -> int:
    """Until nothing is left to do; how many portions there were."""
    count = 0
    while True:
        assert len(done) <= PORTION + slack
        count += bool(done)
        done.clear()
        if not house.broker.state.long_operations.waiting:
            return count
        house.broker.state.long_operations.work()


def bound(house: House, source: str, kind: str = "direct", durable: bool = True) -> VirtualHost:
    """A queue with many bindings from one exchange, and one from another."""
    channel, _ = house.channel()
    exchange(channel, source, kind, durable=durable)
    declare(channel, "q", durable=durable)
    for number in range(COUNT):
        bind(channel, "q", source, f"key{number}")
    bind(channel, "q", "amq.fanout")
    house.commit()
    return house.broker.vhosts["/"]


def survivors(house: House) -> House:
    house.commit()
    return House(house.store.survivors(), house.broker.state.now)


@pytest.mark.parametrize("kind", ["direct", "topic", "headers", "fanout"])
@pytest.mark.parametrize("durable", [True, False])
def test_a_queue_with_many_bindings(
    house: House, done: list[object], kind: str, durable: bool
) -> None:
    vhost = bound(house, "x", kind, durable)
    channel, heard = house.channel()
    channel.publish(message("x", "key0", "x"))  # the way is remembered now
    house.commit()
    assert delete_queue(channel, "q") == 1
    old = vhost.exchanges["x"]
    assert len(old.bindings) == COUNT - PORTION + 1 or len(old.bindings) == COUNT - PORTION
    # Gone for all to see: nobody goes there, nobody finds it, and nothing of it is kept.
    channel.publish(message("lost", "key1", "x"), mandatory=True)
    channel.publish(message("lost", "key0", "x"), mandatory=True)
    channel.publish(message("lost", "", "amq.fanout"), mandatory=True)
    assert len(heard.returns) == 3
    assert not old.used and vhost.bindings == 0 and not list(house.broker.each_binding())
    after = survivors(house).broker.vhosts["/"]
    assert "q" not in after.queues and not after.bindings
    # Another of its name has nothing to do with it.
    declare(channel, "q", durable=durable)
    bind(channel, "q", "x", "key1")
    put(channel, "early", durable=True)
    channel.publish(message("new", "key1", "x", durable=True))
    assert turns(house, done) >= COUNT // PORTION
    assert not [binding for binding in old.bindings if binding.severed]
    assert len(list(house.broker.each_binding())) == vhost.bindings == 1
    after = survivors(house).broker.vhosts["/"]
    assert after.bindings == durable and ("q" in after.queues) is durable
    assert fetch_all(channel) == ["early", "new"]
    if durable:
        assert after.queues["q"].depth == 2


@pytest.mark.parametrize("kind", ["direct", "topic", "headers"])
def test_an_exchange_with_many_bindings(house: House, done: list[object], kind: str) -> None:
    vhost = bound(house, "x", kind)
    channel, heard = house.channel()
    delete_exchange(channel, "x")
    assert vhost.bindings == 1 and len(vhost.bindings_to(vhost.queues["q"])) > PORTION
    assert not survivors(house).broker.vhosts["/"].exchanges.get("x")
    exchange(channel, "x", kind, durable=True)
    bind(channel, "q", "x", "key1", arguments={"a": 1})
    # Its queue goes while its bindings to the old one are being taken apart.
    other = vhost.exchanges["x"]
    delete_queue(channel, "q")
    assert not other.used
    declare(channel, "q", durable=True)
    bind(channel, "q", "x", "key2")
    house.commit()
    assert turns(house, done, slack=2 * PORTION) >= COUNT // PORTION
    assert vhost.bindings == 1 and [b.key for b in vhost.bindings_to(vhost.queues["q"])] == ["key2"]
    after = survivors(house).broker.vhosts["/"]
    assert [b.key for b in after.bindings_to(after.queues["q"])] == ["key2"]


def test_an_exchange_that_many_lead_to(house: House, done: list[object]) -> None:
    channel, heard = house.channel()
    exchange(channel, "end", "fanout", durable=True)
    declare(channel, "q")
    bind(channel, "q", "end")
    for number in range(COUNT):
        bind(channel, "end", "amq.direct", str(number), to_exchange=True)
    channel.publish(message("before", "1", "amq.direct"))
    vhost = house.broker.vhosts["/"]
    delete_exchange(channel, "end")
    channel.publish(message("lost", "1", "amq.direct"), mandatory=True)
    assert len(heard.returns) == 1
    turns(house, done)
    assert vhost.routers == vhost.bindings == 0
    assert not survivors(house).broker.vhosts["/"].bindings


def test_unused_means_used_only_by_the_deleted_one(house: House, done: list[object]) -> None:
    bound(house, "x")
    channel, _ = house.channel()
    delete_queue(channel, "q")
    delete_exchange(channel, "x", if_unused=True)
    turns(house, done, slack=PORTION)
    assert "x" not in house.broker.vhosts["/"].exchanges


def test_an_exchange_that_lives_as_long_as_its_bindings(house: House, done: list[object]) -> None:
    channel, _ = house.channel()
    exchange(channel, "x", auto_delete=True)
    declare(channel, "q")
    for number in range(COUNT):
        bind(channel, "q", "x", str(number))
    delete_queue(channel, "q")
    assert "x" in house.broker.vhosts["/"].exchanges
    turns(house, done)
    assert "x" not in house.broker.vhosts["/"].exchanges


def test_exclusive_queues_go_in_portions(house: House, done: list[object]) -> None:
    client = house.another()
    channel, _ = house.channel(client)
    for number in range(COUNT):
        declare(channel, f"q{number}", exclusive=True)
        bind(channel, f"q{number}", "amq.fanout")
    consume(channel, "q3")
    other, heard = house.channel()
    other.publish(message("kept", "", "amq.fanout"))
    vhost = house.broker.vhosts["/"]
    octets = house.broker.state.octets
    assert octets
    client.close()
    assert not vhost.queues and len(done) == PORTION * 2
    done.clear()
    # The names are free, and nobody sends anything to the old ones.
    other.publish(message("lost", "", "amq.fanout"), mandatory=True)
    assert len(heard.returns) == 1
    declare(other, "q0", exclusive=True)
    bind(other, "q0", "amq.fanout")
    other.publish(message("new", "", "amq.fanout"))
    assert turns(house, done, slack=PORTION) >= COUNT // PORTION - 1
    assert fetch_all(other, "q0") == ["new"]
    assert vhost.bindings == 1 and list(vhost.queues) == ["q0"]
    while (due := house.broker.state.due()) is not None:
        house.broker.state.tick(due)
    assert house.broker.state.octets == 0


def test_a_virtual_host_goes_in_portions(house: House, done: list[object]) -> None:
    broker = house.broker
    broker.create_vhost("v")
    client = broker.attach("v", "guest", "v")
    channel, _ = house.channel(client)
    exchange(channel, "x", durable=True)
    for number in range(COUNT):
        declare(channel, f"q{number}", durable=True)
        bind(channel, f"q{number}", "x", "key")
        put(channel, "kept", key=f"q{number}", durable=True)
    house.commit()
    published = broker.snapshot().totals.published
    broker.delete_vhost("v")
    assert "v" not in broker.vhosts and broker.snapshot().totals.published == published
    after = survivors(house).broker
    assert list(after.vhosts) == ["/"]
    assert not after.state.store.depths() or after.state.store.take(), (
        "what it left is nobody's, and goes"
    )
    # Another of its name begins empty, and keeps what it is given.
    broker.create_vhost("v")
    anew, _ = house.channel(broker.attach("v", "guest", "v"))
    with refused(Condition.NOT_FOUND):
        declare(anew, "q0", passive=True)
    declare(anew, "q1", durable=True)
    put(anew, "new", key="q1", durable=True)
    assert turns(house, done, slack=PORTION) >= COUNT // PORTION
    assert broker.snapshot().totals.published == published + 1
    left = survivors(house).broker.vhosts["v"]
    assert list(left.queues) == ["q1"] and left.queues["q1"].depth == 1


def test_a_binding_made_again_is_another_one(house: House, done: list[object]) -> None:
    """Many in one source, none in another, and one that is severed twice."""
    vhost = bound(house, "x")
    channel, _ = house.channel()
    delete_exchange(channel, "x")
    delete_queue(channel, "q")
    assert vhost.bindings == 0
    turns(house, done, slack=2 * PORTION)
    assert vhost.bindings == 0
    assert all(not isinstance(e, Exchange) or not e.bindings for e in vhost.exchanges.values())
