"""Class dtx of 0-10: work in branches, their states, and what is refused."""

from typing import Any

import pytest

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.decoding import read_array
from gateway.adapters.segments.frames import command
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import BY_RECORD, EXCEPTIONS
from gateway.broker.branches import Branches
from gateway.operations import BranchStatus, Xid
from tests.adapters.segments.serving import Client, Said, names
from tests.adapters.segments.test_resumption import connected, kept, pass_time, resumed
from tests.adapters.segments.test_server import bodies, exception, flow, ready, subscribe

X = w.Xid(7, b"global", b"branch")
OTHER = w.Xid(7, b"global", b"another")
OK, ROLLBACK, TIMEOUT = 0, 1, 2
STATES: dict[str, list[Any]] = {
    "start": [w.DtxStart(X)],
    "ended": [w.DtxStart(X), w.DtxEnd(X)],
    "suspended": [w.DtxStart(X), w.DtxEnd(X, suspend=True)],
    "prepared": [w.DtxStart(X), w.DtxEnd(X), w.DtxPrepare(X)],
}


@pytest.fixture
def client() -> Client:
    """With a queue ``q``, and class dtx selected."""
    client = Client().open()
    said = client.say(w.QueueDeclare("q"), w.DtxSelect())
    assert names(said) == ["session.completed"]
    return client


def results(said: list[Said]) -> list[Any]:
    return [ops.read_struct(each.record.value) for each in said if each.name == "execution.result"]


def statuses(said: list[Said]) -> list[int]:
    return [each.status for each in results(said)]


def begin(client: Client, *records: Any) -> None:
    assert statuses(client.say(*records)) == [OK] * len(records)


def branches(client: Client) -> Branches:
    broker = client.served.broker
    return broker.branches(broker.vhosts["/"])


def recovered(client: Client) -> list[w.Xid]:
    (result,) = results(client.say(w.DtxRecover()))
    doubtful: Any = read_array(result.in_doubt)
    return [ops.read_struct(bytes(each)) for each in doubtful]


def same(xid: Any, other: Any) -> bool:
    return (xid.format, xid.global_id, xid.branch_id) == (
        other.format,
        other.global_id,
        other.branch_id,
    )


# --- work ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("phases", [1, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_transfers_and_accepts_within_a_branch(
    client: Client, phases: int, committed: bool
) -> None:
    subscribe(client)
    flow(client)
    client.transfer("q", b"outside")
    begin(client, w.DtxStart(X))
    client.say(w.MessageAccept(((0, 0),)))
    client.transfer("q", b"inside")
    begin(client, w.DtxEnd(X))
    queue = client.served.broker.vhosts["/"].queues["q"]
    assert (queue.depth, queue.unsettled) == (0, 1)
    if phases == 2:
        assert statuses(client.say(w.DtxPrepare(X))) == [OK]
        assert (queue.depth, queue.unsettled) == (0, 1)
    end = w.DtxCommit(X, one_phase=phases == 1) if committed else w.DtxRollback(X)
    said = client.say(end)
    assert statuses(said) == [OK]
    (got,) = [each for each in said if each.name == "message.transfer"]
    properties = ops.structs(got.header or b"")
    assert got.body == (b"inside" if committed else b"outside")
    (at,) = [at for code, at, _ in properties if code == 0x0401]
    delivery = w.read_delivery_properties(got.header or b"", at)[0]
    assert delivery.redelivered is not committed
    assert (queue.depth, queue.unsettled) == (0, 1)
    assert recovered(client) == []


def test_what_comes_outside_of_an_association_is_done_at_once(client: Client) -> None:
    subscribe(client)
    flow(client)
    begin(client, w.DtxStart(X))
    begin(client, w.DtxEnd(X, suspend=True))
    assert bodies(client.transfer("q", b"a")) == [b"a"]
    client.say(w.MessageAccept(((2, 2),)))  # behind two results
    assert client.served.broker.vhosts["/"].queues["q"].unsettled == 0
    begin(client, w.DtxStart(X, resume=True))
    assert bodies(client.transfer("q", b"b")) == []
    begin(client, w.DtxEnd(X))
    assert bodies(client.say(w.DtxCommit(X, one_phase=True))) == [b"b"]


def test_many_accepts_of_one_command(client: Client) -> None:
    subscribe(client)
    flow(client)
    for letter in (b"a", b"b", b"c"):
        client.transfer("q", letter)
    begin(client, w.DtxStart(X))
    client.say(w.MessageAccept(((0, 2),)))
    begin(client, w.DtxEnd(X))
    assert bodies(client.say(w.DtxRollback(X))) == [b"a", b"b", b"c"]


def test_another_session_joins(client: Client) -> None:
    begin(client, w.DtxStart(X))
    client.attach(2, b"second")
    client.say(w.DtxSelect(), channel=2)
    assert statuses(client.say(w.DtxStart(X, join=True), channel=2)) == [OK]
    client.transfer("q")
    record = ops.write_command(w.MessageTransfer(), True)
    header = ops.coded(0x0401, w.write_delivery_properties(w.DeliveryProperties(routing_key="q")))
    client.served.receive(command(2, record, header, b"joined"))
    begin(client, w.DtxEnd(X))
    assert statuses(client.say(w.DtxEnd(X), channel=2)) == [OK]
    assert ready(client) == 0
    assert statuses(client.say(w.DtxPrepare(X), w.DtxCommit(X), channel=2)) == [OK, OK]
    assert ready(client) == 2


def test_a_branch_that_fails_can_only_be_rolled_back(client: Client) -> None:
    begin(client, w.DtxStart(X))
    client.transfer("q")
    assert statuses(client.say(w.DtxEnd(X, fail=True))) == [ROLLBACK]
    assert statuses(client.say(w.DtxPrepare(X))) == [ROLLBACK]
    assert statuses(client.say(w.DtxRollback(X))) == [OK]
    assert (ready(client), branches(client).known) == (0, {})


def test_a_session_that_ends_leaves_its_branch_to_be_rolled_back(client: Client) -> None:
    """dtx.end, rule "session-closed"."""
    subscribe(client)
    flow(client)
    client.transfer("q", b"a")
    begin(client, w.DtxStart(X))
    client.say(w.MessageAccept(((0, 0),)))
    client.control(1, w.SessionDetach(b"test"))
    assert ready(client) == 1
    client.attach(1, b"later")
    assert statuses(client.say(w.DtxPrepare(X))) == [ROLLBACK]
    assert statuses(client.say(w.DtxRollback(X))) == [OK]
    assert (ready(client), branches(client).known) == (1, {})


def test_a_branch_that_has_ended_outlives_its_connection(client: Client) -> None:
    begin(client, *STATES["prepared"])
    client.served.lose()
    later = Client(beside=client.served).open()
    (found,) = recovered(later)
    assert same(found, X)
    assert statuses(later.say(w.DtxCommit(X))) == [OK]
    assert recovered(later) == []


def test_time(client: Client) -> None:
    begin(client, w.DtxStart(X))
    (result,) = results(client.say(w.DtxSetTimeout(X, 20), w.DtxGetTimeout(X)))
    assert result.timeout == 20
    client.transfer("q")
    broker = client.served.broker
    broker.state.tick(broker.state.now + 20_000)
    assert statuses(client.say(w.DtxEnd(X))) == [TIMEOUT]
    assert statuses(client.say(w.DtxPrepare(X))) == [TIMEOUT]
    assert ready(client) == 0


def test_recover_has_all_prepared_branches(client: Client) -> None:
    assert recovered(client) == []
    xids = [w.Xid(number, b"g%d" % number) for number in range(300)]
    for xid in xids:
        begin(client, w.DtxStart(xid), w.DtxEnd(xid), w.DtxPrepare(xid))
    begin(client, w.DtxStart(X), w.DtxEnd(X))
    found = recovered(client)
    assert [(each.format, each.global_id) for each in found] == [
        (each.format, each.global_id) for each in xids
    ]


def test_absent_fields_of_an_xid_are_empty(client: Client) -> None:
    begin(client, w.DtxStart(w.Xid(None, b"g")))
    assert [*branches(client).known] == [Xid(0, b"g", b"")]


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "record", "rule"),
    [
        ("start", w.DtxStart(OTHER), "illegal-state"),
        ("ended", w.DtxStart(X), "already-known"),
        ("ended", w.DtxStart(X, join=True, resume=True), "join-and-resume"),
        ("ended", w.DtxStart(OTHER, join=True), "xid unknown-xid"),
        ("ended", w.DtxStart(OTHER, resume=True), "xid unknown-xid"),
        ("ended", w.DtxStart(X, resume=True), "illegal-state"),
        ("suspended", w.DtxStart(X, join=True), "illegal-state"),
        ("prepared", w.DtxStart(X, join=True), "illegal-state"),
        ("ended", w.DtxEnd(X), "xid not-associated"),
        ("start", w.DtxEnd(OTHER), "xid not-associated"),
        ("start", w.DtxEnd(X, fail=True, suspend=True), "suspend-and-fail"),
        ("ended", w.DtxCommit(OTHER), "xid unknown-xid"),
        ("start", w.DtxCommit(X, one_phase=True), "xid not-disassociated"),
        ("suspended", w.DtxCommit(X, one_phase=True), "xid not-disassociated"),
        ("prepared", w.DtxCommit(X, one_phase=True), "one-phase one-phase"),
        ("ended", w.DtxCommit(X), "one-phase two-phase"),
        ("ended", w.DtxForget(OTHER), "xid unknown-xid"),
        ("start", w.DtxForget(X), "xid not-disassociated"),
        ("prepared", w.DtxForget(X), "illegal-state"),
        ("ended", w.DtxGetTimeout(OTHER), "xid unknown-xid"),
        ("ended", w.DtxPrepare(OTHER), "xid unknown-xid"),
        ("start", w.DtxPrepare(X), "xid not-disassociated"),
        ("prepared", w.DtxPrepare(X), "illegal-state"),
        ("ended", w.DtxRollback(OTHER), "xid unknown-xid"),
        ("start", w.DtxRollback(X), "xid not-disassociated"),
        ("ended", w.DtxSetTimeout(OTHER, 5), "xid unknown-xid"),
    ],
)
def test_exceptions_are_those_of_the_definition(
    client: Client, state: str, record: Any, rule: str
) -> None:
    begin(client, *STATES[state])
    found = exception(client.say(record))
    kind = BY_RECORD[record.__class__]
    assert found.error_code == EXCEPTIONS[kind.name][rule]
    assert (found.class_code, found.command_code) == (kind.code >> 8, kind.code & 0xFF)


@pytest.mark.parametrize(
    "records",
    [
        [w.DtxStart(X)],
        [w.DtxEnd(X)],
        [w.TxSelect(), w.DtxSelect()],
        [w.DtxSelect(), w.TxSelect()],
        [w.DtxSelect(), w.TxCommit()],
    ],
)
def test_dtx_is_selected_first_and_alone(records: list[Any]) -> None:
    assert exception(Client().open().say(*records)).error_code == 409


@pytest.mark.parametrize("kind", [w.DtxStart, w.DtxEnd, w.DtxCommit, w.DtxPrepare, w.DtxRollback])
def test_a_branch_is_named(client: Client, kind: Any) -> None:
    assert exception(client.say(kind())).error_code == 542


# --- sessions that outlive their connection -------------------------------------------------------


def working() -> Client:
    """A session that is kept works in a branch when its connection is lost."""
    client = kept()
    client.say(w.DtxSelect())
    begin(client, w.DtxStart(X))
    client.transfer("q", b"before")
    client.served.lose()
    return connected(client)


def test_a_branch_goes_on_in_a_session_that_is_resumed() -> None:
    other = working()
    assert [*branches(other).known] == [Xid(7, b"global", b"branch")]
    resumed(other, 1)
    other.control(1, w.SessionCommandPoint(4, 0))
    other.transfer("q", b"after")
    begin(other, w.DtxEnd(X))
    assert ready(other) == 0
    begin(other, w.DtxCommit(X, one_phase=True))
    assert ready(other) == 2


def test_a_branch_ends_with_a_session_that_is_not_resumed() -> None:
    other = working()
    pass_time(other, 61)
    (branch,) = branches(other).known.values()
    assert (ready(other), branch.status) == (0, BranchStatus.ROLLBACK)
