"""A purge is done at once for all to see, and memory is given back in portions."""

import pytest

from gateway.broker import waste
from tests.broker.fakes import House, declare, delete_queue, fetch_all, purge, put

PORTION = 500
COUNT = 2 * PORTION + 100


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_a_million_messages_go_in_portions(
    monkeypatch: pytest.MonkeyPatch, durable: bool, deleted: bool, held: bool
) -> None:
    monkeypatch.setattr(waste, "PORTION", PORTION)
    house = House(now=1_000)
    channel, _ = house.channel()
    declare(channel, "q", durable=durable)
    put(channel, *["body"] * COUNT, durable=True)
    if held:
        assert channel.fetch("q") is not None
    house.commit()
    broker = house.broker
    size = broker.octets // COUNT
    ready = COUNT - held
    assert (delete_queue if deleted else purge)(channel, "q") == ready
    house.commit()
    assert broker.octets == size * (COUNT - PORTION), "the first portion"
    if not deleted:
        assert broker.vhosts["/"].queues["q"].depth == 0
        put(channel, "new", durable=True)
        assert fetch_all(channel) == ["new"]
    elif not held:
        after = House(house.store.survivors(), broker.now).broker.vhosts["/"].queues
        assert "q" not in after
    for portion in (1, 0):
        due = broker.due()
        assert due is not None
        broker.tick(due)
        assert broker.octets == (size * (COUNT - 2 * PORTION) if portion else size * held)
    assert not broker.waste.heaps
    if not deleted:
        house.commit()
        queues = House(house.store.survivors(), broker.now).broker.vhosts["/"].queues
        assert ("q" in queues) is durable
        if durable:
            assert queues["q"].depth == held, "what is unsettled stays"
