"""Class dtx of 0-8 and 0-9: the work of a channel is a branch that its coordinator completes."""

from typing import Any

import pytest

from gateway.adapters.methods.requests import BY_METHOD
from gateway.adapters.methods.wire import layouts as w
from gateway.broker.branches import Branches
from gateway.errors import Unwritable
from gateway.operations import BranchStatus, StartBranch, Xid
from tests.sessions.wired import Wired, kinds
from tests.talk import body, header, method

VERSIONS = ["0-8", "0-9"]
X = Xid(0, "été".encode())


def published(version: str) -> bytes:
    return method(version, 1, w.BasicPublish(routing_key="q")) + header(1, 1) + body(1, b"m")


def answers(peer: Wired, *records: Any) -> list[Any]:
    peer.says(1, *records)
    peer.settle()
    return peer.hears()


def branches(peer: Wired) -> Branches:
    return peer.broker.branches(peer.broker.vhosts["/"])


def begun(version: str) -> Wired:
    """One of two messages is settled and one is published, in a transaction."""
    peer = Wired(version)
    answers(peer, w.QueueDeclare(queue="q"), published(version), published(version))
    select, start, *_ = answers(peer, w.DtxSelect(), w.DtxStart("été"))
    assert kinds([select, start]) == [w.DtxSelectOk, w.DtxStartOk]
    got = answers(peer, w.BasicGet(queue="q"))[0]
    answers(peer, w.BasicAck(got.delivery_tag, False), published(version))
    return peer


def depth(peer: Wired) -> int:
    return peer.broker.vhosts["/"].queues["q"].depth


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
def test_the_coordinator_completes_it_after_the_close(version: str, committed: bool) -> None:
    peer = begun(version)
    assert depth(peer) == 1
    assert kinds(answers(peer, w.ChannelClose(200, "", 0, 0))) == [w.ChannelCloseOk]
    assert depth(peer) == 1
    there = branches(peer)
    _, steps = there.prepare(X, "guest")
    assert not list(steps)
    assert there.recover("guest") == [X]
    _, steps = there.commit(X, "guest", False) if committed else there.rollback(X, "guest")
    assert not list(steps)
    assert depth(peer) == 2
    assert (there.known, peer.broker.vhosts["/"].queues["q"].unsettled) == ({}, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_rolled_back_with_a_connection_that_is_lost(version: str) -> None:
    peer = begun(version)
    peer.session.end()
    assert depth(peer) == 2
    (branch,) = branches(peer).known.values()
    assert branch.status is BranchStatus.ROLLBACK


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([w.DtxStart("x")], 503),
        ([w.DtxSelect(), w.DtxStart("")], 502),
        ([w.DtxSelect(), w.DtxStart("x"), w.DtxStart("y")], 504),
        ([w.TxSelect(), w.DtxSelect()], 406),
        ([w.DtxSelect(), w.TxSelect()], 406),
        ([w.DtxSelect(), w.TxCommit()], 406),
    ],
)
def test_refused(version: str, records: list[Any], code: int) -> None:
    """Failures in class dtx are channel exceptions."""
    peer = Wired(version)
    close = answers(peer, *records)[-1]
    assert isinstance(close, w.ChannelClose) and close.reply_code == code
    statuses = {branch.status for branch in branches(peer).known.values()}
    assert statuses <= {BranchStatus.ROLLBACK}


def test_a_branch_that_is_known() -> None:
    peer = begun("0-9")
    peer.says(2, w.ChannelOpen(), w.DtxSelect(), w.DtxStart("été"))
    peer.settle()
    close = peer.hears()[-1]
    assert isinstance(close, w.ChannelClose | w.ConnectionClose) and close.reply_code == 530
    assert branches(peer).find(X, "guest").status is BranchStatus.OK


def test_the_client_begins_a_transaction_by_one_identifier() -> None:
    verb: Any = BY_METHOD["dtx.start"]
    assert verb.write(None, StartBranch(1, None, X)).dtx_identifier == "été"
    odd = Xid(0, b"\xff")
    record = verb.write(None, StartBranch(1, None, odd))
    assert verb.read(RequestChannelOfTest(), record, None).xid == odd
    for wrong in (StartBranch(1, None, Xid(0, b"x", b"y")), StartBranch(1, None, X, join=True)):
        with pytest.raises(Unwritable):
            verb.write(None, wrong)


class RequestChannelOfTest:
    number = 1
