"""Classes dtx-demarcation and dtx-coordination, in both roles."""

from typing import Any

import pytest

from gateway.adapters.methods.transitional import branches, types
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.errors import LocalError
from gateway.operations import (
    BeginSession,
    BranchStatus,
    BranchTimeout,
    CommitBranch,
    DeclareQueue,
    EndBranch,
    Fetch,
    ForgetBranch,
    Outcome,
    PrepareBranch,
    Publish,
    RecoverBranches,
    Refused,
    RollbackBranch,
    Select,
    SelectBranches,
    SetBranchTimeout,
    Settle,
    StartBranch,
    Xid,
)
from tests.adapters.client_talk import message
from tests.adapters.methods.transitional.serving import Client, Said
from tests.adapters.methods.transitional.test_client import Talk
from tests.adapters.methods.transitional.test_server import (
    both,
    inline,
    messages_in,
    names,
    ready,
)

X, Y = Xid(11, b"gid", b"b1"), Xid(7, b"other")
XID = branches.write_xid(X)


def working(version: str) -> Client:
    """One of two messages is settled and one is published, in branch ``X``."""
    client = ready(version)
    for body in (b"1", b"2"):
        client.say(1, w.MessageTransfer(routing_key="q", body=inline(body)))
    client.say(1, w.DtxDemarcationSelect())
    (ok,) = client.say(1, w.DtxDemarcationStart(xid=XID))
    assert ok.record == w.DtxDemarcationStartOk(8)
    got, *_ = client.say(1, w.BasicGet(queue="q"))
    client.say(1, w.BasicAck(got.record.delivery_tag))
    client.say(1, w.MessageTransfer(routing_key="q", body=inline(b"3")))
    return client


def known(client: Client) -> dict[Xid, Any]:
    broker = client.served.broker
    return broker.branches(broker.vhosts["/"]).known


@both
@pytest.mark.parametrize("prepared", [True, False])
def test_committed(version: str, prepared: bool) -> None:
    client = working(version)
    assert messages_in(client) == 1
    assert client.say(1, w.DtxDemarcationEnd(xid=XID))[0].record.status == 8
    if prepared:
        assert client.say(1, w.DtxCoordinationPrepare(xid=XID))[0].record.status == 8
    commit = w.DtxCoordinationCommit(xid=XID, one_phase=not prepared)
    (ok,) = client.say(1, commit)
    assert ok.record == w.DtxCoordinationCommitOk(8)
    assert messages_in(client) == 2 and not known(client)


@both
def test_rolled_back(version: str) -> None:
    client = working(version)
    assert client.say(1, w.DtxDemarcationEnd(xid=XID, fail=True))[0].record.status == 1
    (ok,) = client.say(1, w.DtxCoordinationRollback(xid=XID))
    assert ok.record == w.DtxCoordinationRollbackOk(8)
    assert messages_in(client) == 2 and not known(client)


@both
def test_suspended_and_resumed(version: str) -> None:
    client = working(version)
    client.say(1, w.DtxDemarcationEnd(xid=XID, suspend=True))
    client.say(1, w.MessageTransfer(routing_key="q", body=inline(b"outside")))
    assert messages_in(client) == 2
    assert client.say(1, w.DtxDemarcationStart(xid=XID, resume=True))[0].record.status == 8
    client.say(1, w.DtxDemarcationEnd(xid=XID))
    client.say(1, w.DtxCoordinationCommit(xid=XID, one_phase=True))
    assert messages_in(client) == 3


@both
def test_it_ends_with_its_channel(version: str) -> None:
    client = working(version)
    assert names(client.say(1, w.ChannelClose(200, ""))) == ["channel.close-ok"]
    (branch,) = known(client).values()
    assert branch.status is BranchStatus.ROLLBACK and messages_in(client) == 2


@both
def test_timeouts(version: str) -> None:
    client = working(version)
    assert client.say(1, w.DtxCoordinationSetTimeout(xid=XID, timeout=30)) == []
    (ok,) = client.say(1, w.DtxCoordinationGetTimeout(XID))
    assert ok.record == w.DtxCoordinationGetTimeoutOk(30)


@both
@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([w.DtxDemarcationStart(xid=XID)], 503),
        ([w.TxSelect(), w.DtxDemarcationSelect()], 406),
        ([w.DtxDemarcationSelect(), w.DtxDemarcationStart(xid=XID, join=True)], 530),
        ([w.DtxDemarcationStart(xid=XID, join=True, resume=True)], 503),
        ([w.DtxDemarcationSelect(), w.DtxDemarcationEnd(xid=XID)], 503),
        ([w.DtxDemarcationEnd(xid=XID, fail=True, suspend=True)], 503),
        ([w.DtxCoordinationCommit(xid=XID)], 404),
        ([w.DtxCoordinationForget(xid=XID)], 404),
        ([w.DtxCoordinationGetTimeout(XID)], 404),
        ([w.DtxCoordinationPrepare(xid=XID)], 404),
        ([w.DtxCoordinationRollback(xid=XID)], 404),
        ([w.DtxCoordinationSetTimeout(xid=XID)], 404),
    ],
)
def test_refusals_close_the_channel(version: str, records: list[Any], code: int) -> None:
    client = Client(version).open()
    said = [item for record in records for item in client.say(1, record)]
    (close,) = said
    method = client.table.by_record[type(records[-1])].number
    assert (close.name, close.record.reply_code) == ("channel.close", code)
    assert (close.record.class_id << 16 | close.record.method_id) == method
    assert not client.served.adapter.closing


@both
@pytest.mark.parametrize(
    "record",
    [
        w.DtxDemarcationStart(xid=branches.write_xid(Y)),
        w.DtxCoordinationCommit(xid=XID, one_phase=True),
        w.DtxCoordinationForget(xid=XID),
        w.DtxCoordinationPrepare(xid=XID),
        w.DtxCoordinationRollback(xid=XID),
    ],
)
def test_while_a_channel_works_in_it_it_is_not_completed(version: str, record: Any) -> None:
    client = working(version)
    (close,) = client.say(1, record)
    assert (close.name, close.record.reply_code) == ("channel.close", 503)


@both
@pytest.mark.parametrize(
    "xid", [b"", XID[:5], XID[:-1], XID + b"x", b"\0\0\0\0\x81\0" + bytes(129)]
)
def test_an_xid_that_cannot_be_read(version: str, xid: bytes) -> None:
    (close,) = Client(version).open().say(1, w.DtxCoordinationPrepare(xid=xid))
    assert (close.name, close.record.reply_code) == ("connection.close", 502)


def prepared(client: Client, count: int) -> set[bytes]:
    """So many branches without work that are prepared."""
    client.say(1, w.DtxDemarcationSelect())
    xids = [branches.write_xid(Xid(0, bytes((at,)) * 64, b"\xff" * 64)) for at in range(count)]
    for xid in xids:
        client.say(1, w.DtxDemarcationStart(xid=xid))
        client.say(1, w.DtxDemarcationEnd(xid=xid))
        assert client.say(1, w.DtxCoordinationPrepare(xid=xid))[0].record.status == 8
    return set(xids)


def listed(said: list[Said]) -> list[bytes]:
    (ok,) = said
    text = types.read_table(ok.record.in_doubt)["xids"].encode("utf-8", "surrogateescape")
    found = []
    while text:
        end = 1 + text[0]
        found.append(text[1:end])
        text = text[end:]
    return found


@both
def test_a_scan_tells_as_many_as_fit_a_frame(version: str) -> None:
    client = Client(version).open()
    xids = prepared(client, 40)
    recover = w.DtxCoordinationRecover
    first = client.say(1, recover(startscan=True))
    assert len(first[0].record.in_doubt) < 4096
    found = listed(first) + listed(client.say(1, recover())) + listed(client.say(1, recover()))
    assert len(found) > len(xids) and set(found) == xids, "behind the last one it starts anew"
    assert listed(client.say(1, recover(endscan=True))) != listed(client.say(1, recover()))
    assert listed(client.say(1, recover(startscan=True, endscan=True))) == listed(first)


# --- our client ----------------------------------------------------------------------------------


def done(talk: Talk, *operations: Any) -> list[Any]:
    return [talk.done(operation) for operation in operations]


@both
def test_our_client_coordinates(version: str) -> None:
    talk = Talk(version)
    done(talk, DeclareQueue(1, 1, "q"), SelectBranches(1, 2))
    talk.tells(Publish(1, message(b"before"), False, False))
    assert done(talk, StartBranch(1, 3, X)) == [BranchStatus.OK]
    fetched = talk.done(Fetch(1, 4, "q"))
    talk.tells(
        Publish(1, message(b"in it"), False, False),
        Settle(1, fetched.delivery, False, Outcome.ACCEPT),
    )
    assert done(talk, EndBranch(1, 5, X, suspend=True), StartBranch(1, 6, X, resume=True)) == [
        BranchStatus.OK,
        BranchStatus.OK,
    ]
    assert done(talk, EndBranch(1, 7, X), SetBranchTimeout(1, 8, X, 60)) == [BranchStatus.OK, None]
    assert talk.done(BranchTimeout(1, 9, X)) == 60
    assert done(talk, PrepareBranch(1, 10, X), RecoverBranches(1, 11)) == [BranchStatus.OK, [X]]
    assert talk.done(Fetch(1, 12, "q")) is None
    assert done(talk, CommitBranch(1, 13, X), RecoverBranches(1, 14)) == [BranchStatus.OK, []]
    assert talk.done(Fetch(1, 15, "q", True)).message.body == b"in it"


@both
def test_our_client_rolls_back(version: str) -> None:
    talk = Talk(version)
    done(talk, DeclareQueue(1, 1, "q"), SelectBranches(1, 2), StartBranch(1, 3, Y))
    talk.tells(Publish(1, message(b"x"), False, False))
    assert done(talk, EndBranch(1, 4, Y, fail=True)) == [BranchStatus.ROLLBACK]
    assert done(talk, PrepareBranch(1, 5, Y)) == [BranchStatus.ROLLBACK]
    assert done(talk, RollbackBranch(1, 6, Y)) == [BranchStatus.OK]
    assert done(talk, StartBranch(1, 7, Y), EndBranch(1, 8, Y)) == [BranchStatus.OK] * 2
    assert done(talk, RollbackBranch(1, 9, Y), Fetch(1, 10, "q")) == [BranchStatus.OK, None]


@both
@pytest.mark.parametrize("request_", [ForgetBranch(2, "t", X), Select(2, "t")])
def test_our_client_is_refused(version: str, request_: Any) -> None:
    talk = Talk(version)
    done(talk, BeginSession(2, 1), SelectBranches(2, 2))
    refused = [op for op in talk.tells(request_) if isinstance(op, Refused)]
    assert [op.token for op in refused] == ["t"]


@both
def test_an_xid_that_has_no_form(version: str) -> None:
    talk = Talk(version)
    for xid in (Xid(0, bytes(100), bytes(29)), Xid(1 << 32, b"")):
        with pytest.raises(LocalError):
            talk.client.send(StartBranch(1, 1, xid))


@pytest.mark.parametrize("status", [0, 8])
def test_a_server_says_ok_as_the_definition_or_as_the_programs_do(status: int) -> None:
    told = branches.RESULTS["dtx-coordination.prepare-ok"]
    assert told(None, w.DtxCoordinationPrepareOk(status)) is BranchStatus.OK
    with pytest.raises(ValueError, match="9"):
        told(None, w.DtxCoordinationPrepareOk(9))


def test_a_list_of_xids_as_the_definition_has_it() -> None:
    item = b"\xa0" + len(XID).to_bytes(4, "big") + XID
    in_doubt = b"\x04xids\xa9" + len(item).to_bytes(4, "big") + item
    listed_ = branches.RESULTS["dtx-coordination.recover-ok"]
    assert listed_(None, w.DtxCoordinationRecoverOk(in_doubt)) == [X]
    assert listed_(None, w.DtxCoordinationRecoverOk(b"")) == []
    with pytest.raises(ValueError, match="no octets"):
        listed_(None, w.DtxCoordinationRecoverOk(types.write_table({"xids": 5})))
