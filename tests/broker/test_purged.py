"""A purge is done at once for all to see, and memory is given back in portions."""

import pytest

from gateway.broker import lanes, state
from gateway.broker.browsing import Place
from gateway.operations import Outcome
from tests import in_memory
from tests.broker.fakes import (
    House,
    declare,
    delete_queue,
    fetch_all,
    purge,
    put,
)

PORTION = 500
COUNT = 2 * PORTION + 100


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_a_million_messages_go_in_portions(
    monkeypatch: pytest.MonkeyPatch, durable: bool, deleted: bool, held: bool
) -> None:
    monkeypatch.setattr(state, "FREED", PORTION)
    house = House(now=1_000)
    channel, _ = house.channel()
    declare(channel, "q", durable=durable)
    put(channel, *["body"] * COUNT, durable=True)
    if held:
        assert channel.fetch("q") is not None
    house.commit()
    broker = house.broker
    size = broker.state.octets // COUNT
    ready = COUNT - held
    assert (delete_queue if deleted else purge)(channel, "q") == ready
    house.commit()
    assert broker.state.octets == size * (COUNT - PORTION), "the first portion"
    if not deleted:
        assert broker.vhosts["/"].queues["q"].depth == 0
        put(channel, "new", durable=True)
        assert fetch_all(channel) == ["new"]
    elif not held:
        after = House(house.store.survivors(), broker.state.now).broker.vhosts["/"].queues
        assert "q" not in after
    for portion in (1, 0):
        due = broker.state.due()
        assert due is not None
        broker.state.tick(due)
        assert broker.state.octets == (size * (COUNT - 2 * PORTION) if portion else size * held)
    assert not broker.state.purged.heaps
    if not deleted:
        house.commit()
        queues = House(house.store.survivors(), broker.state.now).broker.vhosts["/"].queues
        assert ("q" in queues) is durable
        if durable:
            assert queues["q"].depth == held, "what is unsettled stays"


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("durable", [True, False])
def test_messages_in_the_store_are_not_read(
    monkeypatch: pytest.MonkeyPatch, durable: bool, deleted: bool
) -> None:
    house = House(page_after_octets=1, keep_in_memory=8, page_in_octets=1)
    channel, heard = house.channel()
    declare(channel, "q", durable=durable)
    put(channel, *map(str, range(COUNT)), durable=durable)
    held = [channel.fetch("q"), channel.fetch("q")]
    house.commit()
    queue = house.broker.vhosts["/"].queues["q"]
    lane = queue.backlog.lanes[0]
    assert lane.paged > COUNT // 2
    middle = channel.pick(queue, Place(0, lane.paged_from + 7))
    assert middle is not None and lane.out
    work: list[object] = []
    store = house.store
    for name in ("read", "remove", "remove_all", "remove_ranges", "purge", "drop"):
        real = getattr(store, name)

        def asked(*given: object, real: object = real, name: str = name) -> object:
            work.append(name if name != "remove_ranges" else (name, given[1]))
            return real(*given)  # type: ignore[operator]

        monkeypatch.setattr(store, name, asked)
    if deleted:
        assert delete_queue(channel, "q") == COUNT - 3
        assert work == ["drop", "purge"]
    else:
        assert purge(channel, "q") == COUNT - 3
        names = [one[0] for one in work if isinstance(one, tuple)]
        assert names == ["remove_ranges"]
        ranges = [one[1] for one in work if isinstance(one, tuple)][0]
        assert len(ranges) <= 3, "what is ready, and what is paged on both sides of one"
        assert "read" not in work
        monkeypatch.undo()
        put(channel, "new", durable=durable)
        assert fetch_all(channel) == ["new"]
        after = house.restart().broker.vhosts["/"].queues
        assert ("q" in after) is durable
        if durable:
            assert after["q"].depth == 3
        for one in (*held, middle):
            assert one is not None
            channel.settlements.settle(one.delivery, False, Outcome.RELEASE)
        back = fetch_all(channel)
        assert back == ["0", "1", in_memory.text(middle.message)]
        house.commit()
        if durable:
            assert house.restart().broker.vhosts["/"].queues["q"].depth == 0


@pytest.mark.parametrize("most", [1000, 2])
def test_unsettled_messages_stay_among_purged_ones(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(lanes, "MOST_RUNS", most)
    house = House()
    channel, heard = house.channel()
    declare(channel, "q", durable=True)
    put(channel, *map(str, range(100)), durable=True)
    channel.subscribe("q", "odd", matches=lambda m: m.body in (b"1", b"3", b"50", b"51", b"99"))
    channel.start("odd")
    house.commit()
    assert heard.bodies() == ["1", "3", "50", "51", "99"]
    assert purge(channel, "q") == 95
    house.commit()
    restarted = house.restart()
    other, _ = restarted.channel()
    assert fetch_all(other) == heard.bodies()


def test_runs_are_found_wherever_something_is_missing() -> None:
    house = House()
    channel, _ = house.channel()
    declare(channel, "q")
    for missing in ([], [0], [9], [4, 5], [1, 3, 8], list(range(0, 10, 2))):
        purge(channel, "q")
        put(channel, *map(str, range(10)))
        lane = house.broker.vhosts["/"].queues["q"].backlog.lanes[0]
        start = lane.ready[0].position
        for one in missing:
            assert lane.pick(start + one) is not None
        found = lanes.runs(lane.ready)
        assert found is not None
        inside = [at - start for first, last in found for at in range(first, last + 1)]
        assert inside == [at for at in range(10) if at not in missing]
        assert all(one[1] + 1 < other[0] for one, other in zip(found, found[1:], strict=False))


def test_a_purged_queue_goes_on_under_another_number() -> None:
    """So that what is left of the old one in the store is nobody's."""
    house = House()
    channel, _ = house.channel()
    declare(channel, "q", durable=True)
    put(channel, *map(str, range(5)), durable=True)
    house.commit()
    lane = house.broker.vhosts["/"].queues["q"].backlog.lanes[0]
    dropped: list[int] = []
    house.store.drop = dropped.append  # type: ignore[method-assign, assignment]
    old = lane.number
    assert purge(channel, "q") == 5
    assert dropped == [old] and lane.number != old
    put(channel, "new", durable=True)
    house.commit()
    # The process dies before anything is removed.
    after = house.restart()
    channel, _ = after.channel()
    assert fetch_all(channel) == ["new"]
    assert list(after.store.depths()) == []
