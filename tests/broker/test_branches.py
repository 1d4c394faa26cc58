"""Branches of distributed transactions: their states, their work, their end, and restarts."""

from collections.abc import Iterator

import pytest

from gateway.broker.branches import Branches, Completing
from gateway.broker.channel import Channel
from gateway.broker.channel_branches import ChannelBranches
from gateway.broker.long_operations import PORTION
from gateway.broker.memory_store import MemoryStore
from gateway.errors import Condition
from gateway.operations import BranchStatus, Outcome, Xid
from tests.broker.fakes import (
    House,
    bind,
    consume,
    declare,
    delete_queue,
    exchange,
    fetch_all,
    limited,
    message,
    purge,
    put,
    refused,
)

X = Xid(1, b"global", b"branch")
Y = Xid(1, b"global", b"other")
OK = BranchStatus.OK
STATE = Condition.CHANNEL_ERROR


def selected(house: House) -> tuple[Channel, ChannelBranches]:
    channel, _ = house.channel()
    channel.select_branches()
    return channel, channel.needed_branches()


def branches(house: House) -> Branches:
    return house.broker.branches(house.client.vhost)


def all_of(work: tuple[bool, Completing]) -> BranchStatus:
    _, steps = work
    while True:
        try:
            next(steps)
        except StopIteration as end:
            status: BranchStatus = end.value
            return status


def prepare(house: House, xid: Xid = X, user: str = "guest") -> BranchStatus:
    return all_of(branches(house).prepare(xid, user))


def commit(house: House, xid: Xid = X, one_phase: bool = False) -> BranchStatus:
    return all_of(branches(house).commit(xid, "guest", one_phase))


def rollback(house: House, xid: Xid = X) -> BranchStatus:
    return all_of(branches(house).rollback(xid, "guest"))


def worked(house: House, channel: Channel, mine: ChannelBranches, xid: Xid = X) -> None:
    """One message of two is settled and one is published, in a branch that has ended."""
    put(channel, "a", "b", durable=True)
    assert mine.start(xid) is OK
    got = channel.fetch("q")
    assert got is not None
    channel.settlements.settle(got.delivery, False, Outcome.ACCEPT)
    put(channel, "new", durable=True)
    assert house.client.vhost.queues["q"].depth == 1
    assert mine.end(xid) is OK


def test_two_phases(house: House) -> None:
    channel, mine = selected(house)
    declare(channel, durable=True)
    worked(house, channel, mine)
    put(channel, "outside")
    assert prepare(house) is OK
    assert branches(house).recover("guest") == [X]
    assert house.client.vhost.queues["q"].depth == 2
    assert commit(house) is OK
    assert branches(house).recover("guest") == []
    assert fetch_all(channel) == ["b", "outside", "new"]
    assert (house.broker.state.octets, branches(house).octets) == (0, 0)
    assert house.client.vhost.queues["q"].unsettled == 0
    with refused(Condition.NOT_FOUND):
        rollback(house)


def test_one_phase(house: House) -> None:
    channel, mine = selected(house)
    declare(channel, durable=True)
    worked(house, channel, mine)
    assert commit(house, one_phase=True) is OK
    assert fetch_all(channel) == ["b", "new"]


@pytest.mark.parametrize("prepared", [False, True])
def test_rollback(house: House, prepared: bool) -> None:
    channel, mine = selected(house)
    declare(channel, durable=True)
    worked(house, channel, mine)
    if prepared:
        prepare(house)
    assert rollback(house) is OK
    first = channel.fetch("q")
    assert first is not None and first.redelivered
    assert fetch_all(channel) == ["b"]
    channel.settlements.settle(0, True, Outcome.ACCEPT)
    assert (house.broker.state.octets, branches(house).octets) == (0, 0)
    assert house.restart().broker.branches(house.client.vhost).known == {}


def test_a_branch_outlives_its_channel_once_ended(house: House) -> None:
    channel, mine = selected(house)
    declare(channel, durable=True)
    worked(house, channel, mine)
    channel.close()
    assert commit(house, one_phase=True) is OK
    other, _ = house.channel()
    assert fetch_all(other) == ["b", "new"]


@pytest.mark.parametrize("suspended", [False, True])
def test_an_active_branch_is_rolled_back_with_its_channel(house: House, suspended: bool) -> None:
    channel, mine = selected(house)
    declare(channel)
    put(channel, "a")
    mine.start(X)
    got = channel.fetch("q")
    assert got is not None
    channel.settlements.settle(got.delivery, False, Outcome.ACCEPT)
    put(channel, "new")
    if suspended:
        mine.end(X, suspend=True)
    channel.close()
    assert prepare(house) is BranchStatus.ROLLBACK
    other, _ = house.channel()
    first = other.fetch("q")
    assert first is not None and first.redelivered
    assert fetch_all(other) == []
    assert branches(house).octets == 0


def test_states_that_do_not_fit(house: House) -> None:
    channel, mine = selected(house)
    other, theirs = selected(house)
    plain, _ = house.channel()
    with refused(Condition.COMMAND_INVALID):
        plain.needed_branches()
    with refused(Condition.NOT_ALLOWED):
        mine.start(X, join=True)
    with refused(Condition.NOT_ALLOWED):
        mine.start(X, resume=True)
    with refused(STATE):
        mine.end(X)
    mine.start(X)
    with refused(STATE):
        mine.start(Y)
    with refused(Condition.NOT_ALLOWED):
        theirs.start(X)
    with refused(STATE):
        theirs.start(X, resume=True)
    with refused(Condition.NOT_ALLOWED):
        theirs.start(X, join=True, resume=True)
    with refused(Condition.NOT_ALLOWED):
        mine.end(X, fail=True, suspend=True)
    with refused(STATE):
        mine.end(Y)
    for completing in (prepare, commit, rollback):
        with refused(STATE):
            completing(house)
    with refused(STATE):
        branches(house).forget(X, "guest")
    mine.end(X)
    with refused(STATE):
        commit(house)  # in two phases, and not prepared
    prepare(house)
    with refused(STATE):
        commit(house, one_phase=True)
    with refused(STATE):
        prepare(house)
    with refused(STATE):
        theirs.start(X, join=True)
    with refused(STATE):
        branches(house).forget(X, "guest")
    assert commit(house) is OK
    for unknown in (prepare, commit, rollback):
        with refused(Condition.NOT_FOUND):
            unknown(house)
    with refused(Condition.NOT_FOUND):
        branches(house).forget(X, "guest")


def test_transactions_of_a_channel_and_branches_do_not_mix(house: House) -> None:
    channel, _ = selected(house)
    with refused(Condition.PRECONDITION_FAILED):
        channel.select_transactions()
    other, _ = house.channel()
    other.select_transactions()
    with refused(Condition.PRECONDITION_FAILED):
        other.select_branches()


def test_suspended_and_resumed(house: House) -> None:
    channel, mine = selected(house)
    declare(channel)
    mine.start(X)
    put(channel, "1")
    assert mine.end(X, suspend=True) is OK
    with refused(STATE):
        prepare(house)
    put(channel, "outside")
    mine.start(Y)
    put(channel, "3")
    mine.end(Y)
    assert mine.start(X, resume=True) is OK
    put(channel, "2")
    mine.end(X, suspend=True)
    mine.end(X)
    assert commit(house, one_phase=True) is OK
    assert fetch_all(channel) == ["outside", "1", "2"]
    assert commit(house, Y, one_phase=True) is OK
    assert fetch_all(channel) == ["3"]


def test_two_channels_in_one_branch(house: House) -> None:
    channel, mine = selected(house)
    other, theirs = selected(house)
    declare(channel)
    put(channel, "a", "b")
    mine.start(X)
    assert theirs.start(X, join=True) is OK
    for one in (channel, other):
        got = one.fetch("q")
        assert got is not None
        one.settlements.settle(got.delivery, False, Outcome.ACCEPT)
        put(one, "new")
    mine.end(X)
    with refused(STATE):
        prepare(house)
    theirs.end(X)
    assert prepare(house) is OK
    assert commit(house) is OK
    assert fetch_all(channel) == ["new", "new"]


def test_one_of_two_channels_is_lost(house: House) -> None:
    channel, mine = selected(house)
    other, theirs = selected(house)
    declare(channel)
    mine.start(X)
    theirs.start(X, join=True)
    put(channel, "1")
    put(other, "2")
    channel.close()
    put(other, "3")
    third, more = selected(house)
    assert more.start(X, join=True) is BranchStatus.ROLLBACK
    assert more.active is None
    assert theirs.end(X) is BranchStatus.ROLLBACK
    for _ in range(2):
        assert prepare(house) is BranchStatus.ROLLBACK
    assert fetch_all(third) == []
    assert rollback(house) is OK
    assert (branches(house).known, branches(house).octets) == ({}, 0)


def test_a_branch_whose_channel_is_lost_can_only_be_rolled_back(house: House) -> None:
    """AMQP 0-10, dtx.end, rule "session-closed". It holds nothing meanwhile."""
    channel, mine = selected(house)
    other, theirs = selected(house)
    declare(channel)
    put(channel, "a")
    mine.start(X)
    got = channel.fetch("q")
    assert got is not None
    channel.settlements.settle(got.delivery, False, Outcome.ACCEPT)
    put(channel, "new")
    channel.close()
    assert fetch_all(other) == ["a"]
    branch = branches(house).find(X, "guest")
    assert (branch.works, branches(house).octets, branches(house).recover("guest")) == ([], 0, [])
    with refused(Condition.NOT_ALLOWED):
        theirs.start(X)
    assert theirs.start(X, join=True) is BranchStatus.ROLLBACK
    branch.set_timeout(0)  # does not keep it
    assert commit(house, one_phase=True) is BranchStatus.ROLLBACK
    house.later(3_600_000)
    with refused(Condition.NOT_FOUND):
        rollback(house)
    assert (branches(house).known, branches(house).remembered) == ({}, {})


def test_lost_branches_make_room_for_others() -> None:
    house = House(max_branches=2)
    for number in range(5):
        channel, mine = selected(house)
        mine.start(Xid(number, b"lost"))
        channel.close()
    assert [xid.format for xid in branches(house).known] == [3, 4]
    channel, mine = selected(house)
    mine.start(X)
    other, theirs = selected(house)
    theirs.start(Y)
    third, more = selected(house)
    with refused(Condition.RESOURCE_ERROR):
        more.start(Xid(9, b"no room"))


def test_failed(house: House) -> None:
    channel, mine = selected(house)
    declare(channel)
    mine.start(X)
    put(channel, "1")
    assert mine.end(X, fail=True) is BranchStatus.ROLLBACK
    assert commit(house, one_phase=True) is BranchStatus.ROLLBACK
    assert fetch_all(channel) == []
    assert rollback(house) is OK
    mine.start(X)
    mine.end(X, fail=True)
    assert rollback(house) is OK


def test_time_is_over(house: House) -> None:
    channel, mine = selected(house)
    declare(channel)
    put(channel, "a")
    mine.start(X)
    branches(house).find(X, "guest").set_timeout(10)
    got = channel.fetch("q")
    assert got is not None
    channel.settlements.settle(got.delivery, False, Outcome.ACCEPT)
    put(channel, "new")
    house.later(9_999)
    assert house.client.vhost.queues["q"].depth == 0
    house.later(1)
    assert house.client.vhost.queues["q"].depth == 1
    put(channel, "later")
    assert mine.end(X) is BranchStatus.ROLLBACK_TIMEOUT
    assert prepare(house) is BranchStatus.ROLLBACK_TIMEOUT
    assert fetch_all(channel) == ["a"]
    mine.start(Y)
    mine.end(Y)
    assert branches(house).find(Y, "guest").seconds == 3600
    house.later(3_600_000)
    assert Y in branches(house).known
    house.later(3_600_000)
    assert branches(house).known == {}


def test_a_prepared_branch_has_time(house: House) -> None:
    _, mine = selected(house)
    mine.start(X)
    mine.end(X)
    branches(house).find(X, "guest").set_timeout(1)
    prepare(house)
    house.later(10_000_000)
    assert commit(house) is OK


def test_branches_of_another_user(house: House) -> None:
    _, mine = selected(house)
    mine.start(X)
    mine.end(X)
    with refused(Condition.ACCESS_REFUSED):
        prepare(house, user="eve")
    prepare(house)
    assert branches(house).recover("eve") == []
    with refused(Condition.ACCESS_REFUSED):
        all_of(branches(house).rollback(X, "eve"))


def test_number_and_octets_are_limited() -> None:
    house = House(max_branches=1, max_branch_octets=100)
    channel, mine = selected(house)
    declare(channel)
    mine.start(X)
    put(channel, "x" * 60)
    with refused(Condition.RESOURCE_ERROR):
        put(channel, "x" * 60)
    mine.end(X)
    with refused(Condition.RESOURCE_ERROR):
        mine.start(Y)
    rollback(house)
    mine.start(Y)
    put(channel, "x" * 60)


def test_a_full_queue_votes_for_rollback(house: House) -> None:
    channel, mine = selected(house)
    declare(channel, "other", durable=True)
    limited(channel, max_length=1, overflow="reject-publish")
    mine.start(X)
    put(channel, "1", "2")
    put(channel, "3", key="other", durable=True)
    mine.end(X)
    assert prepare(house) is BranchStatus.ROLLBACK
    assert rollback(house) is OK
    assert branches(house).known == {}
    assert fetch_all(channel) == fetch_all(channel, "other") == []
    mine.start(X)
    put(channel, "1")
    mine.end(X)
    assert prepare(house) is OK
    put(channel, "no room")
    assert commit(house) is OK
    assert fetch_all(channel) == ["1"]


def test_returned_copied_and_deleted(house: House) -> None:
    channel, heard = house.channel()
    channel.select_branches()
    mine = channel.needed_branches()
    declare(channel)
    declare(channel, "two")
    mine.start(X)
    channel.publish(message("lost", "nowhere"), mandatory=True)
    channel.publish(message("nobody", "q"), immediate=True)
    channel.publish(message("copied", "q", application={"CC": ["two"]}))
    mine.end(X)
    prepare(house)
    assert [(m.key, why) for m, why, _ in heard.returns] == [
        ("nowhere", Condition.NO_ROUTE),
        ("q", Condition.NO_CONSUMERS),
    ]
    delete_queue(channel, "two")
    commit(house)
    assert fetch_all(channel) == ["copied"]


def test_confirms_of_publishes_in_a_branch(house: House) -> None:
    channel, heard = house.channel()
    channel.publish_path.select_confirms()
    channel.select_branches()
    mine = channel.needed_branches()
    declare(channel)
    mine.start(X)
    put(channel, "1")
    mine.end(X)
    put(channel, "2")
    house.commit()
    assert heard.confirms in ([(2, True, True)], [(1, False, True), (2, False, True)])


@pytest.mark.parametrize("end", ["commit", "rollback", "neither"])
def test_restart(house: House, end: str) -> None:
    channel, mine = selected(house)
    declare(channel, durable=True)
    declare(channel, "transient")
    exchange(channel, "x", "fanout", durable=True)
    for name in ("q", "transient"):
        bind(channel, name, "x")
    worked(house, channel, mine)
    mine.start(X, join=True)
    channel.publish(message("everywhere", "", "x", durable=True))
    channel.publish(message("passing", "q"))
    rejected = channel.fetch("q")
    assert rejected is not None
    channel.settlements.settle(rejected.delivery, False, Outcome.REJECT)
    mine.end(X)
    put(channel, "c", durable=True)
    assert prepare(house) is OK
    later = house.restart()
    assert branches(later).recover("guest") == [X]
    queue = later.client.vhost.queues["q"]
    assert (queue.depth, queue.unsettled) == (1, 2)
    again, _ = later.channel()
    put(again, "d", durable=True)
    if end == "commit":
        assert commit(later) is OK
        expected = ["c", "d", "new", "everywhere"]
    elif end == "rollback":
        assert rollback(later) is OK
        expected = ["a", "b", "c", "d"]
        assert queue.depth == 4
    else:
        purge(again, "q")
        last = later.restart()
        assert branches(last).recover("guest") == [X]
        assert commit(last) is OK
        last_channel, _ = last.channel()
        assert fetch_all(last_channel) == ["new", "everywhere"]
        return
    assert queue.unsettled == 0
    once_more = later.restart()
    assert branches(once_more).recover("guest") == []
    channel, heard = once_more.channel()
    consume(channel)
    assert heard.bodies() == expected
    redelivered = [flag for _, _, flag, _ in heard.deliveries]
    if end == "rollback":
        assert redelivered[:2] == [True, True]
    channel.settlements.settle(0, True, Outcome.ACCEPT)
    assert once_more.broker.state.octets == 0


def test_nothing_of_a_settled_delivery_expires_before_the_commit(house: House) -> None:
    channel, mine = selected(house)
    declare(channel, "dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(channel, durable=True, arguments=arguments)
    put(channel, "a", ttl=100, durable=True)
    mine.start(X)
    got = channel.fetch("q")
    assert got is not None
    channel.settlements.settle(got.delivery, False, Outcome.ACCEPT)
    mine.end(X)
    prepare(house)
    house.broker.state.now += 1000
    later = house.restart()
    again, _ = later.channel()
    assert fetch_all(again, "dead") == []
    commit(later)
    assert fetch_all(again, "dead") == fetch_all(again) == []


def test_large(house: House) -> None:
    channel, mine = selected(house)
    declare(channel, durable=True)
    count = 2 * PORTION + 7
    put(channel, *map(str, range(count)), durable=True)
    mine.start(X)
    consume(channel)
    for _ in channel.settlements.settling(0, Outcome.ACCEPT) or ():
        pass
    put(channel, *map(str, range(count)), durable=True)
    mine.end(X)
    channel.unsubscribe("c")
    much, steps = branches(house).prepare(X, "guest")
    assert much
    assert len(list(steps)) > 3
    later = house.restart()
    assert later.client.vhost.queues["q"].unsettled == count
    again, heard = later.channel()
    much, steps = branches(later).commit(X, "guest", False)
    assert much
    assert len(list(steps)) > 3
    assert fetch_all(again) == list(map(str, range(count)))
    assert branches(later).known == {}


@pytest.fixture(params=[True, False])
def volatile(request: pytest.FixtureRequest) -> Iterator[bool]:
    yield request.param


def test_a_virtual_host_is_deleted_with_its_branches(volatile: bool) -> None:
    house = House(MemoryStore(volatile))
    channel, mine = selected(house)
    declare(channel, durable=True)
    worked(house, channel, mine)
    prepare(house)
    house.broker.create_vhost("other")
    house.broker.delete_vhost("/")
    while house.broker.state.long_operations.waiting:
        house.broker.state.long_operations.work()
    assert house.broker.state.octets == 0
    if not volatile:
        assert not [key for kind, key, _ in house.store.survivors().records() if kind == "branch"]
        assert house.store.depths() == {}


# --- decided by hand ------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_a_branch_that_was_decided_by_hand(house: House, committed: bool) -> None:
    """Its coordinator is told how, also after a restart, until it forgets the branch."""
    channel, mine = selected(house)
    declare(channel, durable=True)
    worked(house, channel, mine)
    with refused(STATE):
        branches(house).decide(X, committed)
    prepare(house)
    status = all_of(branches(house).decide(X, committed))
    wanted = BranchStatus.HEURISTIC_COMMIT if committed else BranchStatus.HEURISTIC_ROLLBACK
    assert status is wanted
    for now in (house, house.restart().restart()):
        there = branches(now)
        assert there.recover("guest") == [X]
        with refused(STATE):
            there.decide(X, not committed)
        assert commit(now) is rollback(now) is wanted
        with refused(STATE):
            prepare(now)
        fresh, other = selected(now)
        for flags in ({"join": True}, {}):
            with refused(STATE if flags else Condition.NOT_ALLOWED):
                other.start(X, **flags)
        assert fetch_all(fresh) == (["b", "new"] if committed else ["a", "b"])
        fresh.settlements.settle(0, True, Outcome.RELEASE)
        with refused(Condition.ACCESS_REFUSED):
            there.forget(X, "other")
    there.forget(X, "guest")
    assert branches(now).known == branches(now.restart()).known == {}


def test_only_prepared_branches_are_decided_by_hand(house: House) -> None:
    channel, mine = selected(house)
    declare(channel, durable=True)
    with refused(Condition.NOT_FOUND):
        branches(house).decide(X, True)
    worked(house, channel, mine)
    with refused(STATE):
        branches(house).forget(X, None)
    assert commit(house, one_phase=True) is OK
