"""Confirms and transactions: what is said when, and what is held until then."""

from gateway.broker.confirms import SAFE, Confirms
from gateway.errors import Condition
from gateway.operations import Outcome
from tests.broker.fakes import (
    House,
    consume,
    declare,
    fetch_all,
    limited,
    message,
    put,
    refused,
)


def test_runs_are_told_together_and_in_order() -> None:
    confirms = Confirms()
    told: list[tuple[int, bool, bool]] = []

    def confirm(sequence: int, multiple: bool, accepted: bool) -> None:
        told.append((sequence, multiple, accepted))

    for mark, accepted in ((1, True), (SAFE, True), (1, True), (SAFE, False), (2, True)):
        confirms.add(mark, accepted)
    assert not confirms.tell(0, 0, confirm)
    assert told == []
    assert not confirms.tell(1, 0, confirm)
    assert told == [(3, True, True), (4, False, False)]
    assert confirms.tell(1, 2, confirm)
    assert told[2:] == [(5, False, True)]


def test_ranges_are_decided_in_any_order() -> None:
    confirms = Confirms()
    told: list[tuple[int, bool, bool]] = []

    def tell(safe: int = 0) -> bool:
        return confirms.tell(safe, 0, lambda *one: told.append(one))

    assert [confirms.wait() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    confirms.add(SAFE, True)  # it does not ride on those that wait
    assert confirms.wait() == 8
    confirms.decide(3, 4, SAFE, True)
    assert not tell() and told == []
    confirms.decide(1, 1, SAFE, True)
    assert not tell() and told == [(1, False, True)]
    confirms.decide(2, 2, 7, True)
    assert not tell(6) and told == [(1, False, True)]
    assert not tell(7) and told[1:] == [(4, True, True)]
    confirms.decide(8, 8, SAFE, False)
    confirms.decide(5, 6, SAFE, True)
    assert tell() and told[2:] == [(7, True, True), (8, False, False)]
    assert confirms.decided == {}


def test_transient_is_confirmed_at_the_end_of_the_turn(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.publish_path.select_confirms()
    put(channel, "a", "b", "c")
    assert heard.confirms == []
    house.broker.end_turn()
    assert heard.confirms == [(3, True, True)]
    house.broker.end_turn()
    assert heard.confirms == [(3, True, True)]


def test_durable_is_confirmed_when_committed(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True)
    channel.publish_path.select_confirms()
    put(channel, "a", durable=True)
    house.broker.end_turn()
    batch = house.store.take()
    assert batch is not None
    put(channel, "b", durable=True)
    house.broker.end_turn()
    assert heard.confirms == []
    house.broker.committed(batch.mark)
    house.broker.end_turn()
    assert heard.confirms == [(1, False, True)]
    house.commit()
    assert heard.confirms == [(1, False, True), (2, False, True)]


def test_durable_consumed_in_the_same_batch_needs_no_commit(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True)
    house.commit()
    channel.publish_path.select_confirms()
    consume(channel)
    put(channel, "a", durable=True)
    assert house.store.dirty
    channel.settlements.settle(1, False, Outcome.ACCEPT)
    assert not house.store.dirty
    house.broker.end_turn()
    assert heard.confirms == [(1, False, True)]


def test_returned_before_confirmed(house: House) -> None:
    channel, heard = house.channel()
    channel.publish_path.select_confirms()
    channel.publish(message("a", "nowhere"), mandatory=True)
    channel.publish(message("b", "nowhere"))
    house.commit()
    assert heard.log == ["returned", "confirm"]
    assert heard.confirms == [(2, True, True)]


def test_modes_exclude_each_other(house: House) -> None:
    channel, _ = house.channel()
    with refused(Condition.PRECONDITION_FAILED, "channel is not transactional"):
        channel.transactions.commit()
    with refused(Condition.PRECONDITION_FAILED, "channel is not transactional"):
        channel.transactions.rollback()
    channel.transactions.select()
    channel.transactions.select()
    with refused(Condition.PRECONDITION_FAILED, "cannot switch from tx to confirm mode"):
        channel.publish_path.select_confirms()
    other, _ = house.channel()
    other.publish_path.select_confirms()
    with refused(Condition.PRECONDITION_FAILED, "cannot switch from confirm to tx mode"):
        other.transactions.select()


def test_publishes_wait_for_commit(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.transactions.select()
    put(channel, "a", "b")
    channel.publish(message("c", "nowhere"), mandatory=True)
    with refused(Condition.NOT_FOUND, "no exchange 'none'"):
        channel.publish(message("d", "q", "none"))
    assert fetch_all(channel) == []
    assert heard.returns == []
    assert house.broker.state.octets == 3
    channel.transactions.commit()
    assert fetch_all(channel) == ["a", "b"]
    assert len(heard.returns) == 1
    put(channel, "e")
    channel.transactions.rollback()
    channel.transactions.commit()
    assert fetch_all(channel) == []


def test_settlements_wait_for_commit(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.prefetch(3)
    consume(channel)
    put(channel, *"abcd")
    channel.transactions.select()
    channel.settlements.settle(2, True, Outcome.ACCEPT)
    assert heard.bodies() == ["a", "b", "c"]
    with refused(Condition.PRECONDITION_FAILED, "unknown delivery tag 1"):
        channel.settlements.settle(1, False, Outcome.ACCEPT)
    channel.transactions.rollback()
    channel.settlements.settle(3, False, Outcome.ACCEPT)
    channel.settlements.settle(1, False, Outcome.RELEASE)
    channel.transactions.commit()
    assert heard.bodies() == ["a", "b", "c", "a", "d"]
    assert list(channel.window.unsettled) == [2, 4, 5]


def test_one_batch_for_a_commit(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, durable=True)
    put(channel, "old", durable=True)
    house.commit()
    channel.transactions.select()
    channel.fetch("q")
    channel.settlements.settle(1, False, Outcome.ACCEPT)
    put(channel, "new", durable=True)
    assert not house.store.dirty
    mark = house.store.mark
    channel.transactions.commit()
    assert (house.store.dirty, house.store.mark) == (True, mark)
    assert fetch_all(house.restart().channel()[0]) == ["new"]


def test_closing_rolls_back(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    put(channel, "a")
    channel.transactions.select()
    channel.fetch("q")
    channel.settlements.settle(1, False, Outcome.ACCEPT)
    put(channel, "b")
    channel.close()
    assert fetch_all(house.channel()[0]) == ["a"]
    assert house.broker.state.octets == 0


def test_commit_into_a_full_queue(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, max_length=1, overflow="reject-publish")
    channel.transactions.select()
    put(channel, "a", "b")
    with refused(Condition.PRECONDITION_FAILED, "partial tx completion"):
        channel.transactions.commit()
    assert fetch_all(channel) == ["a"]


def test_the_gathering_batch_is_never_safe(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, durable=True)
    channel.publish_path.select_confirms()
    put(channel, "a", durable=True)
    house.broker.committed(house.store.mark)
    house.broker.end_turn()
    assert heard.confirms == []
    house.commit()
    assert heard.confirms == [(1, False, True)]


def test_when_safe(house: House) -> None:
    calls: list[str] = []
    broker, store = house.broker, house.store
    broker.when_safe(lambda: calls.append("at once"))
    assert calls == ["at once"]
    channel, _ = house.channel()
    declare(channel, "one", durable=True)
    broker.when_safe(lambda: calls.append("one"))
    first = store.take()
    assert first is not None
    broker.when_safe(lambda: calls.append("behind one"))
    declare(channel, "two", durable=True)
    broker.when_safe(lambda: calls.append("two"))
    assert calls == ["at once"]
    broker.committed(first.mark)
    assert calls == ["at once", "one", "behind one"]
    house.commit()
    assert calls[-1] == "two"


def test_when_safe_after_everything_cancelled_out(house: House) -> None:
    calls: list[str] = []
    channel, _ = house.channel()
    declare(channel, durable=True)
    house.commit()
    put(channel, "a", durable=True)
    house.broker.when_safe(lambda: calls.append("safe"))
    assert calls == []
    fetch_all(channel)
    house.broker.end_turn()
    assert calls == ["safe"]
