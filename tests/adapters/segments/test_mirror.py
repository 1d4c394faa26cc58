"""Our client and our server back to back: every operation that both know, and every control and
command that either writes."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.adapters import Credentials, Limits
from gateway.adapters.methods.content import BASIC
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import OPERATIONS
from gateway.errors import Condition
from gateway.message import Message, Properties
from gateway.operations import (
    Acquire,
    AttachSession,
    BeginSession,
    Bind,
    BranchStatus,
    BranchTimeout,
    Cancelled,
    Close,
    Closed,
    Commit,
    CommitBranch,
    Credit,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    Done,
    EndBranch,
    EndSession,
    Fetch,
    FindBindings,
    FindExchange,
    FindQueue,
    Flow,
    ForgetBranch,
    FoundBindings,
    FoundExchange,
    FoundQueue,
    Open,
    Operation,
    Outcome,
    PrepareBranch,
    Publish,
    PublishMany,
    PurgeQueue,
    QueueState,
    RecoverBranches,
    Refused,
    ReplayRoom,
    RequestTimeout,
    Returned,
    Rollback,
    RollbackBranch,
    Select,
    SelectBranches,
    SelectConfirms,
    SessionLost,
    SessionTimeout,
    SetBranchTimeout,
    Settle,
    SettleMany,
    StartBranch,
    Subscribe,
    Synchronize,
    Unbind,
    Unsubscribe,
    Xid,
)
from tests.adapters.segments.serving import Decoder
from tests.pair import Cut, Pair, single, sized, whole

CUTS: dict[str, Cut] = {"whole": whole, "octets": single, "sevens": sized(7)}


def message(body: bytes, key: str = "k", exchange: str = "x") -> Message:
    properties = Properties(durable=True, content_type="text/plain", application={"n": "v", "i": 7})
    header = BASIC.write(properties)
    return Message(BASIC, header, body, exchange, key, BASIC.essentials(header))


class Mirror(Pair):
    """A pair whose server grants everything, with these ``results`` by the kind of operation."""

    client: Any
    server: Any

    def __init__(self, cut: Cut = whole, **options: Any) -> None:
        super().__init__("0-10", cut, **options)
        self.results: dict[type[Operation], Any] = {}
        self.timeout = SessionTimeout(0, ReplayRoom())
        self.refused: type[Operation] | None = None
        """The kind of operation that is not granted."""
        self.asked: list[Operation] = []
        self.written: set[str] = set()
        """Names of controls and commands, with the side that wrote them."""
        self._decoders = Decoder(from_client=True), Decoder()

    def _carry(self, one: Any, other: Any) -> list[Operation]:
        data = b"".join(one.output())
        one.refill()
        side = "client" if one is self.client else "server"
        said = self._decoders[one is self.server].read(data)
        self.written |= {f"{side} {each.name}" for each in said}
        self.carried += len(data)
        found: list[Operation] = []
        sizes: Iterator[int] = self.cut()
        at = 0
        while at < len(data):
            size = next(sizes)
            found += other.receive(data[at : at + size])
            at += size
        found += other.found()
        return found

    def exchange(self, *operations: Operation) -> list[Operation]:
        """The client sends these; what comes back."""
        for operation in operations:
            self.client.send(operation)
        heard: list[Operation] = self.client.found()
        while True:
            before = self.carried
            for operation in self.to_server():
                self._answer(operation)
            heard += self.to_client()
            if self.carried == before:
                return heard

    def _answer(self, operation: Any) -> None:
        self.asked.append(operation)
        token = getattr(operation, "token", None)
        if token is None:
            return
        channel = getattr(operation, "channel", 0)
        if isinstance(operation, SessionLost) or type(operation) is self.refused:
            condition = getattr(operation, "condition", Condition.NOT_FOUND)
            self.server.send(Refused(channel, token, condition, "no"))
        else:
            kind = type(operation)
            result = self.timeout if kind is RequestTimeout else self.results.get(kind)
            self.server.send(Done(channel, token, result))

    def taken(self) -> list[Operation]:
        """What the server was asked for, without tokens, completions and controls of sessions."""
        asked, self.asked = self.asked, []
        for operation in asked:
            if hasattr(operation, "token"):
                operation.token = None
        others = Synchronize | AttachSession | RequestTimeout
        return [each for each in asked if not isinstance(each, others)]


@pytest.fixture(params=CUTS)
def mirror(request: pytest.FixtureRequest) -> Mirror:
    return opened(CUTS[request.param])


def opened(cut: Cut = whole, **options: Any) -> Mirror:
    mirror = Mirror(cut, **options)
    (done,) = mirror.exchange(Open("open", "/", "guest"))
    assert isinstance(done, Done) and done.token == "open"
    assert mirror.exchange(BeginSession(1, "begin")) == [Done(1, "begin")]
    asked = mirror.taken()
    assert [type(each) for each in asked] == [Open]
    return mirror


TABLE = {"x-text": "ü", "x-nested": {"list": [1, "two", None, True]}}
QUEUE = FoundQueue("q", 5, 3, {"x-text": "ü"}, (), True, True, False)
EXCHANGE = FoundExchange("x", "topic", True, {"n": 1})
BOUND = FoundBindings("q", queue_not_matched=True, key_not_matched=True)

REQUESTS: list[tuple[Any, list[Operation], Any]] = [
    (
        DeclareExchange(1, 7, "x", "topic", False, True, True, False, TABLE),
        [DeclareExchange(1, None, "x", "topic", False, True, True, False, TABLE)],
        None,
    ),
    (
        DeclareExchange(1, 7, "x", passive=True),
        [DeclareExchange(1, None, "x", "", passive=True)],
        None,
    ),
    (
        DeclareExchange(1, 7, "x", arguments={"alternate-exchange": "y"}),
        [DeclareExchange(1, None, "x", arguments={"alternate-exchange": "y"})],
        None,
    ),
    (DeleteExchange(1, 7, "x", True), [DeleteExchange(1, None, "x", True)], None),
    (FindExchange(1, 7, "x"), [FindExchange(1, None, "x")], EXCHANGE),
    (
        DeclareQueue(1, 7, "q", False, True, True, False, TABLE),
        [DeclareQueue(1, None, "q", False, True, True, False, TABLE), FindQueue(1, None, "q")],
        QueueState("q", 5, 3),
    ),
    (
        DeclareQueue(1, 7, "q", arguments={"x-dead-letter-exchange": "y"}),
        [
            DeclareQueue(
                1,
                None,
                "q",
                arguments={"x-dead-letter-exchange": "y", "x-dead-letter-on-delete": True},
            ),
            FindQueue(1, None, "q"),
        ],
        QueueState("q", 5, 3),
    ),
    (FindQueue(1, 7, "q"), [FindQueue(1, None, "q")], QUEUE),
    (
        DeleteQueue(1, 7, "q", True, True),
        [FindQueue(1, None, "q"), DeleteQueue(1, None, "q", True, True)],
        5,
    ),
    (PurgeQueue(1, 7, "q"), [FindQueue(1, None, "q"), PurgeQueue(1, None, "q")], 5),
    (Bind(1, 7, "q", "x", "k", TABLE), [Bind(1, None, "q", "x", "k", TABLE)], None),
    (
        FindBindings(1, 7, "x", "q", "k", TABLE),
        [FindBindings(1, None, "x", "q", "k", TABLE)],
        BOUND,
    ),
    (FindBindings(1, 7, ""), [FindBindings(1, None, "")], BOUND),
    (Select(1, 7), [Select(1, None)], None),
    (Synchronize(1, 7), [], None),
    (SelectConfirms(1, 7), [], None),
]


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_requests(mirror: Mirror, number: int) -> None:
    operation, asked, result = REQUESTS[number]
    mirror.results = {FindQueue: QUEUE, FindExchange: EXCHANGE, FindBindings: BOUND}
    (done,) = mirror.exchange(operation)
    assert isinstance(done, Done) and done.token == 7
    assert mirror.taken() == asked
    assert repr(done.result).replace("queue=None", "queue='q'") == repr(result)


X = Xid(2**32 - 1, b"\0global", b"\xff" * 64)
BRANCHES: list[tuple[Any, Any]] = [
    (SelectBranches(1, 7), None),
    (StartBranch(1, 7, X), BranchStatus.OK),
    (StartBranch(1, 7, X, join=True), BranchStatus.ROLLBACK),
    (StartBranch(1, 7, Xid(0, b""), resume=True), BranchStatus.ROLLBACK_TIMEOUT),
    (EndBranch(1, 7, X), BranchStatus.OK),
    (EndBranch(1, 7, X, fail=True), BranchStatus.ROLLBACK),
    (EndBranch(1, 7, X, suspend=True), BranchStatus.OK),
    (PrepareBranch(1, 7, X), BranchStatus.READ_ONLY),
    (CommitBranch(1, 7, X), BranchStatus.HEURISTIC_COMMIT),
    (CommitBranch(1, 7, X, one_phase=True), BranchStatus.OK),
    (RollbackBranch(1, 7, X), BranchStatus.HEURISTIC_ROLLBACK),
    (ForgetBranch(1, 7, X), None),
    (RecoverBranches(1, 7), []),
    (RecoverBranches(1, 7), [X, Xid(0, b""), Xid(1, b"x", b"y")]),
    (BranchTimeout(1, 7, X), 20),
    (SetBranchTimeout(1, 7, X, 2**32 - 1), None),
]


def test_branches(mirror: Mirror) -> None:
    for operation, result in BRANCHES:
        mirror.results = {type(operation): result}
        assert mirror.exchange(operation) == [Done(1, 7, result)]
        assert mirror.taken() == [replace(operation, token=None)]


@pytest.mark.parametrize("octets", [w.XaResult(8), w.XaResult(99), w.GetTimeoutResult(1)])
def test_results_that_are_none_of_a_branch(octets: Any) -> None:
    """They cost the connection, and raise nothing."""
    mirror = opened()
    mirror.exchange(SelectBranches(1, 7))
    mirror.client.send(StartBranch(1, 8, X))
    mirror.to_server()
    session = mirror.server.sessions[1]
    session.send(w.ExecutionResult(1, ops.write_struct(octets)))
    session.received.complete(1)
    session.tell_completed()
    heard = mirror.to_client()
    assert any(isinstance(each, Refused) and each.token == 8 for each in heard), heard


def test_unbind(mirror: Mirror) -> None:
    """The server may name it in its own way; its exchange, queue and key arrive."""
    assert mirror.exchange(Unbind(1, 7, "q", "x", "k", TABLE)) == [Done(1, 7)]
    (asked,) = mirror.taken()
    assert isinstance(asked, Unbind)
    assert (asked.destination, asked.source, asked.key) == ("q", "x", "k")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"no_ack": True},
        {"exclusive": True},
        {"copy": True},
        {"arguments": TABLE},
    ],
)
def test_subscribe(mirror: Mirror, given: dict[str, Any]) -> None:
    assert mirror.exchange(Subscribe(1, 7, "q", "tag", **given)) == [Done(1, 7, "tag")]
    subscribed, *credits = mirror.taken()
    expected = Subscribe(1, None, "q", "tag", credit=0, remaining_ttl=True, **given)
    assert isinstance(subscribed, Subscribe)
    assert replace(subscribed, measure=None) == expected
    assert all(isinstance(each, Credit) for each in credits)
    last = credits[-1]
    assert isinstance(last, Credit) and last.count is None
    assert mirror.exchange(Unsubscribe(1, 8, "tag")) == [Done(1, 8, "tag")]
    assert mirror.taken() == [Unsubscribe(1, None, "tag")]


def test_publishes(mirror: Mirror) -> None:
    for body, mandatory, immediate in (
        (b"sixteen octets..", True, False),
        (b"", False, False),
        (b"long" * 50_000, False, True),
    ):
        sent = message(body)
        assert mirror.exchange(Publish(1, sent, mandatory, immediate)) == []
        (taken,) = mirror.taken()
        if mandatory or immediate:
            assert isinstance(taken, Publish)
            assert (taken.mandatory, taken.immediate) == (mandatory, immediate)
            got = taken.message
        else:
            assert isinstance(taken, PublishMany)
            (got,) = taken.messages
        assert (got.exchange, got.key, got.body) == ("x", "k", body)
        assert got.properties == sent.properties


def test_publishes_of_one_read_are_one_operation() -> None:
    mirror = opened()
    for body in (b"1", b"2", b"3", b"4", b"5"):
        mirror.client.send(Publish(1, message(body), body == b"3", False))
    first, third, rest = mirror.to_server()[:3]
    assert isinstance(first, PublishMany) and [m.body for m in first.messages] == [b"1", b"2"]
    assert isinstance(third, Publish) and third.message.body == b"3" and third.mandatory
    assert isinstance(rest, PublishMany) and [m.body for m in rest.messages] == [b"4", b"5"]


def test_returned(mirror: Mirror) -> None:
    sent = message(b"back")
    mirror.client.send(Publish(1, sent, True, False))
    publish, stored = mirror.to_server()[:2]
    assert isinstance(publish, Publish) and isinstance(stored, Synchronize)
    mirror.server.send(Returned(1, publish.message, Condition.NO_ROUTE, "nobody"))
    mirror.server.send(Done(1, stored.token))
    (returned,) = mirror.to_client()
    assert returned == Returned(1, sent, Condition.NO_ROUTE, "nobody")


def delivering(mirror: Mirror, **given: Any) -> list[Deliver]:
    """Three deliveries to a consumer."""
    mirror.exchange(Subscribe(1, 7, "q", "tag", **given))
    for number, body in enumerate((b"sixteen octets..", b"", b"long" * 50_000), 1):
        mirror.server.send(Deliver(1, "tag", number, number == 1, message(body)))
    heard = mirror.exchange()
    mirror.taken()
    return [each for each in heard if isinstance(each, Deliver)]


def test_deliveries(mirror: Mirror) -> None:
    heard = delivering(mirror)
    assert [each.message.body for each in heard] == [b"sixteen octets..", b"", b"long" * 50_000]
    assert [each.redelivered for each in heard] == [True, False, False]
    for number, each in enumerate(heard, 1):
        assert (each.channel, each.consumer, each.delivery) == (1, "tag", number)
        assert (each.message.exchange, each.message.key) == ("x", "k")
        assert each.message.properties == message(b"").properties


@pytest.mark.parametrize("outcome", list(Outcome))
def test_settlements(mirror: Mirror, outcome: Outcome) -> None:
    delivering(mirror)
    assert mirror.exchange(Settle(1, 2, True, outcome), Settle(1, 3, False, outcome)) == []
    settled: set[int] = set()
    kept = outcome is Outcome.UNDO or not outcome.returns
    for each in mirror.taken():
        assert isinstance(each, Settle | SettleMany)
        assert each.outcome is (outcome if kept else Outcome.RELEASE)
        settled.update([each.delivery] if isinstance(each, Settle) else each.deliveries)
    assert settled == {1, 2, 3}


def test_acquire(mirror: Mirror) -> None:
    delivering(mirror, copy=True)
    mirror.results = {Acquire: [1, 3]}
    (done,) = mirror.exchange(Acquire(1, 8, [1, 2, 3]))
    assert done == Done(1, 8, [1, 3])
    (acquired,) = mirror.taken()
    assert isinstance(acquired, Acquire) and acquired.deliveries == [1, 2, 3]


def test_transactions(mirror: Mirror) -> None:
    for operation in (Select(1, 7), Commit(1, 7), Rollback(1, 7)):
        assert mirror.exchange(operation) == [Done(1, 7)]
        assert mirror.taken() == [type(operation)(1, None)]


def test_fetch(mirror: Mirror) -> None:
    assert mirror.exchange(Fetch(1, 7, "q", True)) == [Done(1, 7)]
    subscribed, *_, cancelled = mirror.taken()
    assert isinstance(subscribed, Subscribe) and subscribed.no_ack
    assert isinstance(cancelled, Unsubscribe) and cancelled.tag == subscribed.tag


OF_FRAMES = (Condition.FRAME_ERROR, Condition.UNEXPECTED_FRAME)
"""Conditions that cost the connection in any case."""


@pytest.mark.parametrize("condition", [each for each in Condition if each not in OF_FRAMES])
def test_refusals(mirror: Mirror, condition: Condition) -> None:
    """Conditions for which 0-10 has one code are the same afterwards."""
    mirror.client.send(Select(1, 7))
    (asked,) = mirror.to_server()
    assert isinstance(asked, Select)
    mirror.server.send(Refused(1, asked.token, condition, "no such thing"))
    refused, lost = mirror.exchange()
    assert isinstance(refused, Refused) and refused.token == 7 and refused.text == "no such thing"
    assert isinstance(lost, SessionLost) and lost.condition is refused.condition
    same = {
        Condition.CONTENT_TOO_LARGE: Condition.RESOURCE_ERROR,
        Condition.NO_ROUTE: Condition.NOT_FOUND,
        Condition.NO_CONSUMERS: Condition.NOT_FOUND,
        Condition.SYNTAX_ERROR: Condition.COMMAND_INVALID,
    }
    assert refused.condition is same.get(condition, condition)
    assert not mirror.client.sessions and not mirror.server.sessions
    assert mirror.exchange(BeginSession(1, 8)) == [Done(1, 8)]


@pytest.mark.parametrize("by_server", [False, True])
def test_close(mirror: Mirror, by_server: bool) -> None:
    if by_server:
        mirror.server.send(Close(Condition.CONNECTION_FORCED, "going down"))
        assert mirror.exchange() == [Closed(Condition.CONNECTION_FORCED, "going down")]
    else:
        assert mirror.exchange(Close()) == [Closed(None, "", theirs=False)]
    assert mirror.client.closing and mirror.server.closing


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN", "SCRAM-SHA-256"])
def test_mechanisms(mechanism: str) -> None:
    mirror = opened(credentials=Credentials(mechanism=mechanism))
    assert mirror.client.handshake.peer.mechanism == mechanism
    assert mirror.server.handshake.peer.mechanism == mechanism


@pytest.mark.parametrize("frame_max", [4096, 5000])
def test_small_frames(frame_max: int) -> None:
    mirror = opened(limits=Limits(frame_max=frame_max))
    assert mirror.client.frame_limit == frame_max
    body = random.Random(1).randbytes(3 * frame_max)
    mirror.exchange(Publish(1, message(body), False, False))
    (taken,) = mirror.taken()
    assert isinstance(taken, PublishMany) and taken.messages[0].body == body


def test_every_control_and_command() -> None:
    """Whatever one of our roles writes, the other reads; and each writes what it is for."""
    mirror = opened(credentials=Credentials(mechanism="SCRAM-SHA-256"))
    mirror.results = {
        FindQueue: QUEUE, FindExchange: EXCHANGE, FindBindings: BOUND, Acquire: [1],
    }  # fmt: skip
    for operation, _, _ in REQUESTS:
        assert mirror.exchange(operation)
    mirror.exchange(Unbind(1, 7, "q", "x", "k"))
    mirror.exchange(Publish(1, message(b"x"), True, False))
    delivering(mirror, copy=True)
    mirror.exchange(Acquire(1, 7, [1]), Flow(1, 7, False), Flow(1, 7, True))
    mirror.exchange(Settle(1, 1, False, Outcome.ACCEPT))
    for outcome in (Outcome.RELEASE, Outcome.REJECT):
        mirror.exchange(Subscribe(1, 7, "q", f"{outcome}"))
        mirror.server.send(Deliver(1, f"{outcome}", 10 + outcome, False, message(b"")))
        (one,) = mirror.exchange()
        assert isinstance(one, Deliver)
        mirror.exchange(Settle(1, one.delivery, False, outcome))
    mirror.client.send(Publish(1, message(b"x"), True, False))
    publish, *rest = mirror.to_server()
    assert isinstance(publish, Publish)
    mirror.server.send(Returned(1, publish.message, Condition.NO_ROUTE, ""))
    for each in rest:
        mirror._answer(each)
    mirror.exchange(Commit(1, 7), Rollback(1, 7), Credit(1, 7, "tag", 5, True))
    mirror.exchange(Unsubscribe(1, 7, "tag"), EndSession(1, 7))
    mirror.exchange(BeginSession(1, 7))
    mirror.exchange(Subscribe(1, 7, "q", "tag"))
    mirror.server.send(Cancelled(1, "tag"))
    mirror.exchange()
    for now in (0.0, 100.0, 200.0):
        mirror.client.excuse_silence()
        mirror.server.excuse_silence()
        mirror.client.tick(now)
        mirror.server.tick(now)
        mirror.exchange()
    mirror.exchange(Close())
    closed = opened()
    closed.server.send(Close(Condition.CONNECTION_FORCED, "going down"))
    closed.exchange()
    branches = opened()
    branches.results = dict.fromkeys((StartBranch, EndBranch, PrepareBranch), BranchStatus.OK)
    branches.results |= dict.fromkeys((CommitBranch, RollbackBranch), BranchStatus.OK)
    branches.results |= {RecoverBranches: [X], BranchTimeout: 1}
    branches.exchange(*(operation for operation, _ in BRANCHES))
    written = mirror.written | closed.written | branches.written
    ours = {f"client {kind.name}" for kind in OPERATIONS.values() if kind.from_client}
    ours |= {f"server {kind.name}" for kind in OPERATIONS.values() if kind.from_server}
    silent = {each for each in ours - written if not each.split()[1].startswith(OTHERS)}
    assert silent == UNSAID


OTHERS = ("file.", "stream.")
"""Classes that nobody implements."""

UNSAID = {
    # Said to a peer that begins: an attach of a server, a detach of a client that failed.
    "server session.attach", "client session.attached", "server connection.redirect",
    # Sessions that are resumed, and commands that are replayed.
    "client session.flush", "server session.flush", "client session.expected",
    "server session.expected", "client session.confirmed", "server session.confirmed",
    "client session.gap", "server session.gap", "client message.resume", "server message.resume",
    "server session.request-timeout", "client session.timeout", "client session.known-completed",
    "server session.known-completed",
    # Results and mistakes of a client; credit and outcomes of a server that a client never uses.
    "client execution.result", "client execution.exception", "server execution.sync",
    "server message.release", "server message.set-flow-mode", "server message.flow",
    "server message.stop",
}  # fmt: skip
"""What our roles never write; that they read it is in ``test_server`` and ``test_client``."""
