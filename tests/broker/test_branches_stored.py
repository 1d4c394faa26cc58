"""Prepared branches in the store on disk: bodies of every kind survive, and nothing else stays."""

from pathlib import Path

import pytest

from gateway.bodies import LargeBody, Spool
from gateway.operations import BranchStatus, Outcome, Xid
from tests.crash.branching import Moving
from tests.store.samples import message
from tests.test_bodies import spooled

X = Xid(1, b"x", b"y")
BODIES = [b"small", b"shared" * 500, b"large" * 50_000]


def held(moving: Moving) -> list[bytes]:
    """The bodies in both queues, which are then empty."""
    found: list[bytes] = []
    for queue in ("from", "to"):
        while (got := moving.channel.fetch(queue, True)) is not None:
            body = got.message.body
            found.append(b"".join(body.chunks()) if isinstance(body, LargeBody) else body)
    return found


@pytest.mark.parametrize("committed", [True, False])
def test_bodies_of_every_kind(tmp_path: Path, committed: bool) -> None:
    spool = Spool(str(tmp_path / "spool"))
    (tmp_path / "spool").mkdir()
    moving = Moving(tmp_path / "data")
    channel = moving.channel
    channel.select_branches()
    small, shared, large = BODIES
    for body in (small, shared, spooled(spool, large)):
        channel.publish(message(body, b"", "", "from"))
    mine = channel.needed_branches()
    mine.start(X)
    for body in (small, shared, spooled(spool, large)):
        got = channel.fetch("from")
        assert got is not None
        channel.settlements.settle(got.delivery, False, Outcome.ACCEPT)
        channel.publish(message(body, b"", "", "to"))
    mine.end(X)
    assert moving.complete(moving.branches.prepare(X, "guest")) is BranchStatus.OK
    for _ in range(2):
        moving.store.abandon()
        moving = Moving(tmp_path / "data")
        assert moving.branches.recover("guest") == [X]
        assert held(moving) == []
    end = moving.branches.commit(X, "guest", False) if committed else None
    end = end or moving.branches.rollback(X, "guest")
    assert moving.complete(end) is BranchStatus.OK
    moving.store.abandon()
    moving = Moving(tmp_path / "data")
    assert moving.branches.recover("guest") == []
    assert held(moving) == BODIES
    while moving.store.dirty:
        moving.turn()
    moving.store.close()
    last = Moving(tmp_path / "data")
    assert (held(last), last.store.depths()) == ([], {})
    assert not list((tmp_path / "data" / "large").iterdir())
    assert not last.store.records("branch")
    last.store.close()
