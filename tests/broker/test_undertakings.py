"""A large commit is done in portions, and is one thing in the store."""

from collections.abc import Iterator

import pytest

from gateway.broker import channel as channels
from gateway.broker import linked, settling, transactions, undertakings
from gateway.broker.undertakings import Undertakings
from gateway.errors import Condition, Refusal
from gateway.operations import Outcome
from tests.broker.fakes import House, consume, declare, fetch_all, limited, message, put

PORTION = 10


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (channels, linked, settling, transactions):
        monkeypatch.setattr(module, "PORTION", PORTION)
    monkeypatch.setattr(undertakings, "FREED", PORTION)


def test_a_commit_is_done_in_portions_and_kept_as_a_whole(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, "q", durable=True)
    declare(channel, "taken", durable=True)
    put(channel, *map(str, range(3 * PORTION)), key="taken", durable=True)
    consume(channel, "taken")
    house.commit()
    channel.select()
    put(channel, *map(str, range(5 * PORTION)), durable=True)
    channel.settle(0, True, Outcome.ACCEPT)
    assert channel.much_to_commit
    told: list[Refusal | None] = []
    undertakings = house.broker.undertakings
    undertakings.begin(channel.committing(), told.append)
    queue = house.broker.vhosts["/"].queues["q"]
    turns = 1
    while undertakings.jobs:
        assert queue.depth <= turns * PORTION
        assert undertakings.holding and not told
        undertakings.work()
        turns += 1
    assert turns >= 8
    assert told == [None]
    house.commit()
    after = House(house.store.survivors(), house.broker.now).broker.vhosts["/"].queues
    assert (after["q"].depth, after["taken"].depth) == (5 * PORTION, 0)
    assert fetch_all(channel) == list(map(str, range(5 * PORTION)))
    assert house.broker.octets == 0
    assert len(heard.deliveries) == 3 * PORTION


def test_a_refusal_comes_at_the_end(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, "q", max_length=1, overflow="reject-publish")
    channel.select()
    put(channel, *map(str, range(3 * PORTION)))
    told: list[Refusal | None] = []
    house.broker.undertakings.begin(channel.committing(), told.append)
    while not told:
        house.broker.undertakings.work()
    assert told[0] is not None and told[0].condition is Condition.PRECONDITION_FAILED
    assert not house.broker.undertakings.holding


def test_each_undertaking_has_a_batch_of_its_own(house: House) -> None:
    """Or one batch would grow as long as somebody commits."""
    channel, _ = house.channel()
    declare(channel, "q", durable=True)
    house.commit()
    undertakings = Undertakings(house.store)
    log: list[str] = []

    def steps(name: str) -> Iterator[None]:
        for _ in range(3):
            put(channel, name, durable=True)
            log.append(name)
            yield

    for name in ("a", "b"):
        undertakings.begin(steps(name), lambda refusal: log.append("done"))
    for _ in range(10):
        undertakings.work()
    assert log == ["a", "a", "a", "done"], "the second waits for a batch"
    house.commit()
    for _ in range(10):
        undertakings.work()
    assert log[4:] == ["b", "b", "b", "done"]


def test_a_mistake_of_ours_does_not_hold_the_store(house: House) -> None:
    def steps() -> Iterator[None]:
        yield
        raise TypeError("a bug")

    undertakings = Undertakings(house.store)
    undertakings.begin(steps(), lambda refusal: None)
    with pytest.raises(TypeError):
        undertakings.work()
    assert not undertakings.holding and not undertakings.jobs


def test_a_discharge_is_done_in_portions(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "PORTION", PORTION)
    channel, _ = house.channel()
    declare(channel, "q", durable=True)
    number = channel.declare_transaction()
    for body in range(5 * PORTION):
        channel.promise(number, message(str(body), "q", durable=True))
    assert channel.much_to_discharge(number)
    told: list[Refusal | None] = []
    house.broker.undertakings.begin(channel.discharging(number, False), told.append)
    turns = 1
    while not told:
        assert house.broker.undertakings.holding
        house.broker.undertakings.work()
        turns += 1
    assert turns >= 5 and told == [None]
    assert fetch_all(channel) == list(map(str, range(5 * PORTION)))


def test_a_queue_that_refuses_keeps_room_for_what_is_being_discharged(house: House) -> None:
    channel, _ = house.channel()
    other, heard = house.channel(house.another())
    other.select_confirms()
    limited(channel, "q", max_length=5 * PORTION + 6, overflow="reject-publish")
    number = channel.declare_transaction()
    for body in range(5 * PORTION):
        channel.promise(number, message(str(body), "q"))
    told: list[Refusal | None] = []
    house.broker.undertakings.begin(channel.discharging(number, False), told.append)
    queue = house.broker.vhosts["/"].queues["q"]
    turns = 1
    while not told:
        before = queue.depth
        put(other, "late")
        house.broker.undertakings.work()
        assert queue.depth - before <= PORTION + 1
        turns += 1
    assert turns >= 9 and told == [None]
    house.commit()
    assert any(not accepted for _, _, accepted in heard.confirms)
    assert queue.reserved == 0 and queue.reserved_octets == 0
    bodies = fetch_all(channel)
    assert bodies.count("late") == 6
    assert [body for body in bodies if body != "late"] == list(map(str, range(5 * PORTION)))
