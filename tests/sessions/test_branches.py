"""Requests on branches: their answers, and when they come."""

from typing import Any

import pytest

from gateway.broker.long_operations import PORTION
from gateway.errors import Condition, Lost
from gateway.operations import (
    BeginSession,
    BranchStatus,
    BranchTimeout,
    CommitBranch,
    DeclareQueue,
    Done,
    EndBranch,
    ForgetBranch,
    PrepareBranch,
    Publish,
    PurgeQueue,
    RecoverBranches,
    RollbackBranch,
    Select,
    SelectBranches,
    SetBranchTimeout,
    StartBranch,
    Xid,
)
from tests.broker.fakes import message
from tests.sessions.test_session import House, Peer

X = Xid(0, b"x")


@pytest.fixture
def peer() -> Peer:
    peer = House().enter()
    peer.done(BeginSession(1, "b"))
    peer.done(DeclareQueue(1, "q", "q", durable=True))
    peer.done(SelectBranches(1, "s"))
    return peer


def published(count: int) -> list[Any]:
    one = message("x", "q", durable=True)
    return [Publish(1, one, False, False) for _ in range(count)]


def test_the_way_of_a_branch(peer: Peer) -> None:
    assert peer.says(StartBranch(1, 1, X), *published(1), EndBranch(1, 2, X)) == [
        Done(1, 1, BranchStatus.OK),
        Done(1, 2, BranchStatus.OK),
    ]
    assert peer.done(BranchTimeout(1, 3, X)) == 3600
    assert peer.done(SetBranchTimeout(1, 4, X, 7)) is None
    assert peer.done(BranchTimeout(1, 5, X)) == 7
    assert peer.says(PrepareBranch(1, 6, X)) == [], "answered before it is safe"
    peer.house.commit()
    assert peer.heard() == [Done(1, 6, BranchStatus.OK)]
    assert peer.done(RecoverBranches(1, 7)) == [X]
    assert peer.says(CommitBranch(1, 8, X)) == [], "answered before it is safe"
    peer.house.commit()
    assert peer.heard() == [Done(1, 8, BranchStatus.OK)]
    assert peer.done(RecoverBranches(1, 9)) == []
    assert peer.done(PurgeQueue(1, 10, "q")) == 1


def test_a_large_branch_takes_turns(peer: Peer) -> None:
    count = 3 * PORTION
    peer.says(StartBranch(1, 1, X), *published(count), EndBranch(1, 2, X))
    for token, request in enumerate((PrepareBranch(1, 0, X), CommitBranch(1, 1, X))):
        said = peer.says(request, RecoverBranches(1, "behind"))
        work = peer.house.broker.state.long_operations
        turns = 0
        while work.waiting:
            turns += 1
            work.work()
        assert turns > 2
        assert said == []
        peer.house.commit()
        assert peer.heard() == [
            Done(1, token, BranchStatus.OK),
            Done(1, "behind", [X] if token == 0 else []),
        ]
    assert peer.done(PurgeQueue(1, 10, "q")) == count


def test_rolled_back(peer: Peer) -> None:
    peer.says(StartBranch(1, 1, X), *published(1), EndBranch(1, 2, X, fail=True))
    assert peer.done(RollbackBranch(1, 3, X)) is BranchStatus.OK
    assert peer.done(PurgeQueue(1, 4, "q")) == 0


def test_decided_by_hand(peer: Peer) -> None:
    peer.says(StartBranch(1, 1, X), *published(1), EndBranch(1, 2, X), PrepareBranch(1, 3, X))
    house = peer.house
    house.commit()
    peer.heard()
    _, steps = house.broker.branches(house.broker.vhosts["/"]).decide(X, True)
    assert not list(steps)
    house.commit()
    assert peer.done(RecoverBranches(1, 4)) == [X]
    assert peer.done(CommitBranch(1, 5, X)) is BranchStatus.HEURISTIC_COMMIT
    assert peer.says(ForgetBranch(1, 6, X)) == [], "answered before it is safe"
    house.commit()
    assert peer.heard() == [Done(1, 6)]
    assert peer.done(RecoverBranches(1, 7)) == []


@pytest.mark.parametrize(
    ("operation", "condition"),
    [
        (Select(1, "t"), Condition.PRECONDITION_FAILED),
        (StartBranch(1, "t", X, join=True), Condition.NOT_ALLOWED),
        (EndBranch(1, "t", X), Condition.CHANNEL_ERROR),
        (PrepareBranch(1, "t", X), Condition.NOT_FOUND),
        (CommitBranch(1, "t", X), Condition.NOT_FOUND),
        (RollbackBranch(1, "t", X), Condition.NOT_FOUND),
        (ForgetBranch(1, "t", X), Condition.NOT_FOUND),
        (BranchTimeout(1, "t", X), Condition.NOT_FOUND),
        (SetBranchTimeout(1, "t", X, 1), Condition.NOT_FOUND),
    ],
)
def test_refusals(peer: Peer, operation: Any, condition: Condition) -> None:
    answer = peer.refused(operation)
    assert (answer.token, answer.condition, answer.lost) == ("t", condition, Lost.SESSION)


def test_dtx_must_be_selected(peer: Peer) -> None:
    peer.done(BeginSession(2, "b"))
    assert peer.refused(StartBranch(2, "t", X)).condition is Condition.COMMAND_INVALID
