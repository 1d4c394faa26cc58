"""A large commit is done in portions, and is one thing in the store."""

import weakref
from collections.abc import Iterator
from heapq import merge
from typing import Any

import pytest

from gateway.broker import channel as channels
from gateway.broker import (
    consumers,
    coordinator,
    long_operations,
    queues,
    returning,
    settlements,
    suspension,
    transactions,
)
from gateway.broker.channel import Channel
from gateway.broker.lanes import Entry, Lane
from gateway.broker.long_operations import LongOperations
from gateway.broker.queues import Queue
from gateway.errors import Condition, Refusal
from gateway.operations import Outcome, Xid
from tests.broker.fakes import Heard, House, consume, declare, fetch_all, limited, message, put

PORTION = 10


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (channels, consumers, coordinator, queues, settlements, suspension, transactions):
        monkeypatch.setattr(module, "PORTION", PORTION)
    monkeypatch.setattr(long_operations, "FREED", PORTION)


def test_a_commit_is_done_in_portions_and_kept_as_a_whole(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, "q", durable=True)
    declare(channel, "taken", durable=True)
    put(channel, *map(str, range(3 * PORTION)), key="taken", durable=True)
    consume(channel, "taken")
    house.commit()
    channel.transactions.select()
    put(channel, *map(str, range(5 * PORTION)), durable=True)
    channel.settlements.settle(0, True, Outcome.ACCEPT)
    assert channel.transactions.much_to_commit
    told: list[Refusal | None] = []
    long_operations = house.broker.state.long_operations
    long_operations.begin(channel.transactions.committing(), told.append)
    queue = house.broker.vhosts["/"].queues["q"]
    turns = 1
    while long_operations.jobs:
        assert queue.depth <= turns * PORTION
        assert long_operations.holding and not told
        long_operations.work()
        turns += 1
    assert turns >= 8
    assert told == [None]
    house.commit()
    after = House(house.store.survivors(), house.broker.state.now).broker.vhosts["/"].queues
    assert (after["q"].depth, after["taken"].depth) == (5 * PORTION, 0)
    assert fetch_all(channel) == list(map(str, range(5 * PORTION)))
    assert house.broker.state.octets == 0
    assert len(heard.deliveries) == 3 * PORTION


def test_a_refusal_comes_at_the_end(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, "q", max_length=1, overflow="reject-publish")
    channel.transactions.select()
    put(channel, *map(str, range(3 * PORTION)))
    told: list[Refusal | None] = []
    house.broker.state.long_operations.begin(channel.transactions.committing(), told.append)
    while not told:
        house.broker.state.long_operations.work()
    assert told[0] is not None and told[0].condition is Condition.PRECONDITION_FAILED
    assert not house.broker.state.long_operations.holding


def test_each_undertaking_has_a_batch_of_its_own(house: House) -> None:
    """Or one batch would grow as long as somebody commits."""
    channel, _ = house.channel()
    declare(channel, "q", durable=True)
    house.commit()
    long_operations = LongOperations(house.store)
    log: list[str] = []

    def steps(name: str) -> Iterator[None]:
        for _ in range(3):
            put(channel, name, durable=True)
            log.append(name)
            yield

    for name in ("a", "b"):
        long_operations.begin(steps(name), lambda refusal: log.append("done"))
    for _ in range(10):
        long_operations.work()
    assert log == ["a", "a", "a", "done"], "the second waits for a batch"
    house.commit()
    for _ in range(10):
        long_operations.work()
    assert log[4:] == ["b", "b", "b", "done"]


def test_a_mistake_of_ours_does_not_hold_the_store(house: House) -> None:
    def steps() -> Iterator[None]:
        yield
        raise TypeError("a bug")

    long_operations = LongOperations(house.store)
    long_operations.begin(steps(), lambda refusal: None)
    with pytest.raises(TypeError):
        long_operations.work()
    assert not long_operations.holding and not long_operations.jobs


def test_a_discharge_is_done_in_portions(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "PORTION", PORTION)
    channel, _ = house.channel()
    declare(channel, "q", durable=True)
    number = channel.transactions.declare()
    for body in range(5 * PORTION):
        channel.transactions.post(number, message(str(body), "q", durable=True))
    assert channel.transactions.much_to_discharge(number)
    told: list[Refusal | None] = []
    house.broker.state.long_operations.begin(
        channel.transactions.discharging(number, False), told.append
    )
    turns = 1
    while not told:
        assert house.broker.state.long_operations.holding
        house.broker.state.long_operations.work()
        turns += 1
    assert turns >= 5 and told == [None]
    assert fetch_all(channel) == list(map(str, range(5 * PORTION)))


def test_a_queue_that_refuses_keeps_room_for_a_discharge(house: House) -> None:
    channel, _ = house.channel()
    other, heard = house.channel(house.another())
    other.publish_path.select_confirms()
    limited(channel, "q", max_length=5 * PORTION + 6, overflow="reject-publish")
    number = channel.transactions.declare()
    for body in range(5 * PORTION):
        channel.transactions.post(number, message(str(body), "q"))
    told: list[Refusal | None] = []
    house.broker.state.long_operations.begin(
        channel.transactions.discharging(number, False), told.append
    )
    queue = house.broker.vhosts["/"].queues["q"]
    turns = 1
    while not told:
        before = queue.depth
        put(other, "late")
        house.broker.state.long_operations.work()
        assert queue.depth - before <= PORTION + 1
        turns += 1
    assert turns >= 9 and told == [None]
    house.commit()
    assert any(not accepted for _, _, accepted in heard.confirms)
    assert queue.reserved == 0 and queue.reserved_octets == 0
    bodies = fetch_all(channel)
    assert bodies.count("late") == 6
    assert [body for body in bodies if body != "late"] == list(map(str, range(5 * PORTION)))


# --- settling much ------------------------------------------------------------------------------


def begin(house: House, steps: Iterator[None] | None) -> list[Refusal | None]:
    """What is done in portions, as many-in-the-store; filled when it is complete."""
    told: list[Refusal | None] = []
    assert steps is not None
    house.broker.state.long_operations.begin(steps, told.append, atomic=False)
    return told


def holding(house: House, count: int, **given: Any) -> tuple[Channel, Heard, Queue]:
    """A channel whose consumer holds so many messages, with no room for more."""
    publisher, _ = house.channel()
    limited(publisher, "q", **given)
    put(publisher, *map(str, range(count)))
    channel, heard = house.channel()
    channel.prefetch(count, 0)
    consume(channel, "q")
    assert len(heard.deliveries) == len(channel.window.unsettled) == count
    house.commit()
    return channel, heard, house.broker.vhosts["/"].queues["q"]


@pytest.mark.parametrize("outcome", [Outcome.ACCEPT, Outcome.REJECT])
def test_settling_much_is_done_in_portions(house: House, outcome: Outcome) -> None:
    channel, _, queue = holding(house, 5 * PORTION)
    assert channel.settlements.much_to_settle
    told = begin(house, channel.settlements.settling(5 * PORTION, outcome))
    turns = 1
    while not told:
        assert queue.unsettled == (5 - turns) * PORTION, "one portion in each turn"
        assert not house.broker.state.long_operations.holding, "the store waits for nobody"
        house.broker.state.long_operations.work()
        turns += 1
    assert turns >= 6 and told == [None]
    assert (queue.unsettled, queue.depth, channel.window.held, house.broker.state.octets) == (
        0,
        0,
        0,
        0,
    )


def test_dead_letters_of_much_that_is_rejected_come_in_portions(house: House) -> None:
    channel, _, queue = holding(
        house, 5 * PORTION, dead_letter_exchange="", dead_letter_routing_key="dead"
    )
    declare(channel, "dead")
    dead = house.broker.vhosts["/"].queues["dead"]
    told = begin(house, channel.settlements.settling(0, Outcome.REJECT))
    while not told:
        before = dead.depth
        house.broker.state.long_operations.work()
        assert dead.depth - before <= PORTION
    assert fetch_all(channel, "dead") == list(map(str, range(5 * PORTION)))
    assert queue.unsettled == 0


def test_returned_messages_are_in_order_before_any_delivery(house: House) -> None:
    channel, heard, queue = holding(house, 5 * PORTION)
    put(channel, "later")
    other, overheard = house.channel()
    told = begin(house, channel.settlements.settling(0, Outcome.RELEASE))
    put(channel, "last")
    while not told:
        assert queue.depth in (2, 5 * PORTION + 2), "all of it at once"
        assert len(heard.deliveries) == 5 * PORTION, "credit comes back at the end"
        if queue.depth > 2 and not overheard.deliveries:
            consume(other, "q", "other", no_ack=True)
        house.broker.state.long_operations.work()
    assert overheard.bodies() == [*map(str, range(5 * PORTION)), "later", "last"]


def test_the_channel_is_served_again_at_the_end(house: House) -> None:
    channel, heard, _ = holding(house, 5 * PORTION)
    put(channel, "later")
    told = begin(house, channel.settlements.settling(0, Outcome.RELEASE))
    while not told:
        assert len(heard.deliveries) == 5 * PORTION
        house.broker.state.long_operations.work()
    assert heard.bodies()[5 * PORTION :] == list(map(str, range(5 * PORTION)))


def test_a_queue_that_goes_meanwhile_leaves_nothing(house: House) -> None:
    channel, _, queue = holding(house, 5 * PORTION)
    told = begin(house, channel.settlements.settling(0, Outcome.RELEASE))
    house.broker.vhosts["/"].remove_queue(queue)
    while not told:
        house.broker.state.long_operations.work()
    assert (queue.unsettled, house.broker.state.octets, channel.window.held) == (0, 0, 0)


def test_an_unknown_tag_is_refused_before_anything_begins(house: House) -> None:
    channel, _, _ = holding(house, 5 * PORTION)
    with pytest.raises(Refusal):
        channel.settlements.settling(7 * PORTION, Outcome.ACCEPT)
    assert len(channel.window.unsettled) == 5 * PORTION and channel.window.open


def test_recovery_is_done_in_portions_and_nothing_comes_between(house: House) -> None:
    channel, heard, _ = holding(house, 5 * PORTION)
    told = begin(house, channel.settlements.recovering(False))
    while not told:
        before = len(heard.deliveries)
        put(channel, "new")
        house.broker.state.long_operations.work()
        if not told:
            assert len(heard.deliveries) - before <= PORTION
    channel.settlements.settle(0, True, Outcome.ACCEPT)
    again = heard.bodies()[5 * PORTION :]
    assert again[: 5 * PORTION] == list(map(str, range(5 * PORTION)))
    assert set(again[5 * PORTION :]) == {"new"}


def test_a_rollback_is_done_in_portions(house: House) -> None:
    channel, _, queue = holding(house, 5 * PORTION)
    channel.transactions.select()
    told = begin(house, channel.settlements.settling(2 * PORTION, Outcome.ACCEPT))
    while not told:
        house.broker.state.long_operations.work()
    assert list(channel.window.unsettled) == list(range(2 * PORTION + 1, 5 * PORTION + 1))
    put(channel, *map(str, range(3 * PORTION)))
    told = begin(house, channel.transactions.rolling_back())
    turns = 1
    while not told:
        before = len(channel.window.unsettled)
        house.broker.state.long_operations.work()
        assert len(channel.window.unsettled) - before <= PORTION
        turns += 1
    assert turns >= 5
    assert list(channel.window.unsettled) == list(range(1, 5 * PORTION + 1)), "ascending again"
    assert queue.depth == 0 and queue.unsettled == 5 * PORTION


def test_closing_with_much_unsettled_gives_it_back_in_portions(house: House) -> None:
    channel, _, queue = holding(house, 5 * PORTION)
    ended: list[bool] = []
    channel.close(lambda: ended.append(True))
    turns = 1
    while not ended:
        assert queue.depth in (0, 5 * PORTION)
        house.broker.state.long_operations.work()
        turns += 1
    assert turns >= 6
    reader, _ = house.channel()
    assert fetch_all(reader) == list(map(str, range(5 * PORTION)))


def test_the_end_of_the_process_completes_settlements(house: House) -> None:
    channel, _, queue = holding(house, 5 * PORTION)
    told = begin(house, channel.settlements.settling(0, Outcome.ACCEPT))
    house.broker.state.long_operations.finish()
    assert told == [None] and queue.unsettled == 0


def test_one_turn_hands_out_so_many_and_no_more(house: House) -> None:
    house.broker.state.limits.max_deliveries = PORTION
    publisher, _ = house.channel()
    declare(publisher, "q")
    put(publisher, *map(str, range(5 * PORTION)))
    channel, heard = house.channel()
    consume(channel, "q")
    turns = 1
    while len(heard.deliveries) < 5 * PORTION:
        assert len(heard.deliveries) == turns * PORTION
        put(publisher, "new")
        assert len(heard.deliveries) == turns * PORTION, "not past those that stand in the queue"
        house.broker.end_turn()
        house.later(1)
        turns += 1
    while house.broker.vhosts["/"].queues["q"].depth:
        house.later(1)
    assert heard.bodies()[: 5 * PORTION] == list(map(str, range(5 * PORTION)))


def test_credit_to_be_used_up_lasts_until_a_later_turn(house: House) -> None:
    house.broker.state.limits.max_deliveries = PORTION
    publisher, _ = house.channel()
    declare(publisher, "q")
    put(publisher, *map(str, range(2 * PORTION)))
    channel, heard = house.channel()
    tag = channel.subscribe("q", credit=0)
    channel.start(tag)
    channel.credit(tag, 5 * PORTION)
    left: list[int] = []
    channel.drain(tag, left.append)
    assert len(heard.deliveries) == PORTION and not left
    house.later(1)
    house.later(1)
    assert len(heard.deliveries) == 2 * PORTION
    assert left == [3 * PORTION]


def test_a_discharge_that_fails_is_undone_in_portions(house: House) -> None:
    channel, _, queue = holding(house, 5 * PORTION)
    number = channel.transactions.declare()
    for tag in list(channel.window.unsettled):
        channel.transactions.retire(number, tag, Outcome.ACCEPT, tag > PORTION)
    for body in range(3 * PORTION):
        channel.transactions.post(number, message(str(body), "q"))
    told = begin(house, channel.transactions.discharging(number, True))
    turns = 1
    while not told:
        house.broker.state.long_operations.work()
        turns += 1
    assert turns >= 8 and channel.window.open
    assert list(channel.window.unsettled)[:PORTION] == list(range(1, PORTION + 1))
    assert (
        queue.depth + len(channel.window.unsettled) == queue.depth + queue.unsettled == 5 * PORTION
    )


def retire(house: House, channel: Channel, number: bytes, tags: list[int]) -> None:
    """In portions."""
    transactions = channel.transactions
    told = begin(house, transactions.retiring_many(number, tags, Outcome.ACCEPT, False))
    assert transactions.held == PORTION
    while not told:
        before = transactions.held
        house.broker.state.long_operations.work()
        assert transactions.held - before <= PORTION
    assert transactions.held == len(tags) and told == [None]


def test_a_channel_that_is_closed_while_it_retires_much_loses_nothing(house: House) -> None:
    channel, _, queue = holding(house, 5 * PORTION)
    number = channel.transactions.declare()
    tags = list(channel.window.unsettled)
    told = begin(
        house, channel.transactions.retiring_many(number, tags, Outcome.ACCEPT, settled=False)
    )
    with pytest.raises(Refusal):
        channel.transactions.retiring_many(number, tags, Outcome.ACCEPT, settled=False)
    channel.close()
    while house.broker.state.long_operations.waiting:
        house.broker.state.long_operations.work()
    assert told == [None] and (queue.unsettled, queue.depth) == (0, 5 * PORTION)
    reader, _ = house.channel()
    assert fetch_all(reader) == list(map(str, range(5 * PORTION)))


@pytest.mark.parametrize("declared", [True, False])
def test_deliveries_come_back_in_order_between_those_that_stayed(
    house: House, declared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, _, _ = holding(house, 5 * PORTION)
    monkeypatch.setattr(consumers, "merge", counted := Counted(merge))
    transactions = channel.transactions
    odd = [tag for tag in channel.window.unsettled if tag % 2]
    odd = odd[::-1] if declared else odd
    if declared:
        number = transactions.declare()
        retire(house, channel, number, odd)
        told = begin(house, transactions.discharging(number, True))
    else:
        transactions.select()
        for tag in odd:
            channel.settlements.settle(tag, False, Outcome.ACCEPT)
        told = begin(house, transactions.rolling_back())
    assert len(channel.window.unsettled) <= 3.5 * PORTION, "the first of three portions"
    while not told:
        before, moved = len(channel.window.unsettled), counted.count
        house.broker.state.long_operations.work()
        assert len(channel.window.unsettled) - before <= PORTION
        assert counted.count - moved <= PORTION
    assert counted.count == 5 * PORTION
    assert list(channel.window.unsettled) == list(range(1, 5 * PORTION + 1))


@pytest.mark.parametrize("declared", [True, False])
def test_a_channel_that_is_closed_while_it_rolls_back_loses_nothing(
    house: House, declared: bool
) -> None:
    channel, _, queue = holding(house, 5 * PORTION)
    transactions = channel.transactions
    if declared:
        number = transactions.declare()
        retire(house, channel, number, list(channel.window.unsettled))
        told = begin(house, transactions.discharging(number, True))
    else:
        transactions.select()
        begin(house, channel.settlements.settling(0, Outcome.ACCEPT))
        house.broker.state.long_operations.finish()
        told = begin(house, transactions.rolling_back())
    house.broker.state.long_operations.work()
    assert 0 < len(channel.window.unsettled) < 5 * PORTION
    channel.close()
    while house.broker.state.long_operations.waiting:
        house.broker.state.long_operations.work()
    assert told == [None] and not channel.window.unsettled
    assert (queue.unsettled, queue.depth) == (0, 5 * PORTION)
    reader, _ = house.channel()
    assert fetch_all(reader) == list(map(str, range(5 * PORTION)))


def test_a_queue_deleted_meanwhile_gets_nothing_of_a_discharge(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, "q", durable=True)
    number = channel.transactions.declare()
    for body in range(3 * PORTION):
        channel.transactions.post(number, message(str(body), "q", durable=True))
    told: list[Refusal | None] = []
    house.broker.state.long_operations.begin(
        channel.transactions.discharging(number, False), told.append
    )
    for _ in range(4):
        house.broker.state.long_operations.work()
    queue = house.broker.vhosts["/"].queues["q"]
    assert queue.depth
    house.broker.vhosts["/"].remove_queue(queue)
    house.broker.state.long_operations.finish()
    assert told == [None]
    house.later(1)
    assert house.broker.state.octets == 0 and queue.depth == 0
    house.commit()
    assert not house.store.depths()


def test_few_of_many_are_settled_at_once(house: House) -> None:
    channel, _, queue = holding(house, 5 * PORTION)
    assert channel.settlements.settling(PORTION, Outcome.ACCEPT) is None
    assert queue.unsettled == 4 * PORTION and not house.broker.state.long_operations.waiting


def test_returned_messages_are_sorted_before(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step, which cannot be divided, neither sorts nor adds up."""
    monkeypatch.setattr(returning, "SORTED", PORTION)
    channel, heard, queue = holding(house, 5 * PORTION)
    put(channel, "later")
    # Tags that do not ascend with the places in the queue, in five runs and more.
    entries = dict(channel.window.unsettled)
    channel.window.unsettled.clear()
    for tag in sorted(entries, key=lambda tag: (tag * 37) % (5 * PORTION + 1)):
        channel.window.unsettled[tag] = entries[tag]
    seen: list[int] = []
    real = Lane.put_back

    def put_back(self: Lane, found: list[Entry]) -> None:
        assert [entry.position for entry in found] == sorted(entry.position for entry in found)
        seen.append(len(found))
        real(self, found)

    monkeypatch.setattr(Lane, "put_back", put_back)
    monkeypatch.setattr(returning, "merge", counted := Counted(merge))
    told = begin(house, channel.settlements.settling(0, Outcome.RELEASE))
    while not told:
        before = counted.count
        assert queue.depth in (1, 5 * PORTION + 1)
        house.broker.state.long_operations.work()
        assert counted.count - before <= PORTION
    assert counted.count == 5 * PORTION and seen == [5 * PORTION]
    again = heard.bodies()[5 * PORTION :]
    assert again == list(map(str, range(5 * PORTION)))
    assert queue.unsettled == 5 * PORTION and queue.backlog.octets == len("later")


class Counted:
    """``merge``, and how many it has given."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.count = 0

    def __call__(self, *runs: Any, **given: Any) -> Iterator[Any]:
        for one in self.real(*runs, **given):
            self.count += 1
            yield one


def test_watchers_see_messages_that_return_in_portions(house: House) -> None:
    channel, _, queue = holding(house, 5 * PORTION)

    class Watcher:
        told = 0

        def arrived(self, priority: int, position: int, message: Any, deliveries: int) -> None:
            self.told += 1

        def queue_gone(self) -> None: ...

    watcher = Watcher()
    queue.watchers[watcher] = None
    channel.close()
    while house.broker.state.long_operations.waiting:
        before = watcher.told
        house.broker.state.long_operations.work()
        assert watcher.told - before <= PORTION
    assert watcher.told == 5 * PORTION


@pytest.mark.parametrize("committed", [True, False])
def test_settled_deliveries_are_released_at_once(house: House, committed: bool) -> None:
    """Or all of it would be freed in the last turn."""
    channel, heard, _ = holding(house, 5 * PORTION)
    places = [weakref.ref(Tracked.track(entry)) for entry in channel.window.unsettled.values()]
    heard.deliveries.clear()
    if committed:
        channel.transactions.select()
        begin(house, channel.settlements.settling(0, Outcome.ACCEPT))
        house.broker.state.long_operations.finish()
        told = begin(house, channel.transactions.committing())
    else:
        told = begin(house, channel.settlements.settling(0, Outcome.ACCEPT))
    gone = 0
    while not told:
        before = gone
        house.broker.state.long_operations.work()
        gone = sum(place() is None for place in places)
        assert gone - before <= 2 * PORTION
    assert gone == 5 * PORTION


class Tracked:
    """Lives as long as the entry that it is the publisher of."""

    @staticmethod
    def track(entry: Entry) -> "Tracked":
        entry.origin = Tracked()
        return entry.origin


@pytest.mark.parametrize("branch", [False, True])
def test_a_channel_ends_while_it_settles_much_in_a_transaction(branch: bool) -> None:
    house = House()
    channel, _ = house.channel()
    count = 3 * PORTION
    declare(channel)
    put(channel, *map(str, range(count)))
    if branch:
        channel.select_branches()
        channel.needed_branches().start(Xid(1, b"x"))
    else:
        channel.select_transactions()
    consume(channel)
    steps = channel.settlements.settling(0, Outcome.ACCEPT)
    assert steps is not None
    work = house.broker.state.long_operations
    work.begin(steps, lambda refusal: None, atomic=False)
    channel.close()
    while work.waiting:
        work.work()
    queue = house.client.vhost.queues["q"]
    assert (queue.depth, queue.unsettled) == (count, 0)
