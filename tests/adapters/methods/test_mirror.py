"""Every operation through a pair: the server gets the operations of the client, and back."""

import random
from typing import Any, cast

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.errors import Condition, Lost
from gateway.message import Message, Properties
from gateway.operations import (
    BeginSession,
    Bind,
    Blocked,
    Cancelled,
    Close,
    Closed,
    Commit,
    Confirm,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    Done,
    EndSession,
    Fetch,
    Fetched,
    Flow,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    PurgeQueue,
    QueueState,
    Recover,
    Refused,
    Returned,
    Rollback,
    Select,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
    Unbind,
    Unblocked,
    Unsubscribe,
    UpdateSecret,
)
from gateway.sessions.publishes import one_by_one
from gateway.values import Int
from tests.pair import VERSIONS, Cut, Pair, after, opened, single, sized, whole, without_token


def message(body: bytes, key: str = "k") -> Message:
    properties = Properties(durable=True, content_type="text/plain", application={"n": "v", "i": 7})
    header = BASIC.write(properties)
    return Message(BASIC, header, body, "x", key, BASIC.essentials(header))


TABLE = {"x-max-length": Int(5), "x-nested": {"list": [1, "two", None, True]}, "x-text": "ü"}

REQUESTS: list[tuple[Operation, object]] = [
    (DeclareExchange(1, 7, "x", "topic", False, True, True, True, TABLE), None),
    (DeclareExchange(1, 7, "x", "", passive=True), None),
    (DeleteExchange(1, 7, "x", True), None),
    (DeclareQueue(1, 7, "q", False, True, True, True, TABLE), QueueState("q", 5, 3)),
    (DeclareQueue(1, 7, ""), QueueState("amq.gen-1", 0, 0)),
    (DeleteQueue(1, 7, "q", True, True), 12),
    (PurgeQueue(1, 7, "q"), 13),
    (Bind(1, 7, "q", "x", "k", TABLE), None),
    (Bind(1, 7, "d", "x", "k", TABLE, True), None),
    (Unbind(1, 7, "q", "x", "k", TABLE), None),
    (Unbind(1, 7, "d", "x", "k", TABLE, True), None),
    (Subscribe(1, 7, "q", "tag", True, True, True), "tag"),
    (Unsubscribe(1, 7, "tag"), "tag"),
    (Prefetch(1, 7, 10, 2000, True), None),
    (Fetch(1, 7, "q", True), None),
    (Fetch(1, 7, "q", False), Fetched(3, True, message(b"fetched"), 8)),
    (Fetch(1, 7, "q", False), Fetched(3, True, message(b""), 8)),
    (Recover(1, 7, True), None),
    (Select(1, 7), None),
    (Commit(1, 7), None),
    (Rollback(1, 7), None),
    (SelectConfirms(1, 7), None),
    (Flow(1, 7, False), False),
    (EndSession(1, 7), None),
    (BeginSession(2, 7), None),
]

TO_SERVER: list[Operation] = [
    Publish(1, message(b"sixteen octets.."), True, False),
    Publish(1, message(b""), False, False),
    Publish(1, message(b"long" * 5000), False, False),
    Settle(1, 1 << 40, False, Outcome.ACCEPT),
    Settle(1, 5, True, Outcome.ACCEPT),
    Settle(1, 5, False, Outcome.RELEASE),
    Settle(1, 5, False, Outcome.REJECT),
    Settle(1, 5, True, Outcome.RELEASE),
    Settle(1, 0, True, Outcome.REJECT),
]
RETURNED = (Outcome.RELEASE, Outcome.DECLINE, Outcome.REFUSE)
"""Outcomes for which the family has one word."""

TO_CLIENT: list[Operation] = [
    Deliver(1, "tag", 1, True, message(b"sixteen octets..")),
    Deliver(1, "tag", 2, False, message(b"")),
    Deliver(1, "tag", 1 << 40, False, message(b"long" * 5000)),
    Confirm(1, 5, True, True),
    Confirm(1, 6, False, True),
    Confirm(1, 6, True, False),
    Returned(1, message(b"back"), Condition.NO_ROUTE, "NO_ROUTE"),
    Cancelled(1, "tag"),
]


def plain(operation: Operation) -> object:
    """An operation in a form that compares, messages and all."""
    carried = getattr(operation, "message", None)
    if isinstance(operation, Done) and isinstance(operation.result, Fetched):
        carried = operation.result.message
        operation.result.message = None  # type: ignore[assignment]
        found = repr(operation)
        operation.result.message = carried
        return found, _facts(carried)
    if carried is None:
        return operation
    names = [name for name in operation.__slots__ if name != "message"]
    return (type(operation), [getattr(operation, name) for name in names], _facts(carried))


def _facts(m: Message) -> tuple[object, ...]:
    return (m.dialect, m.header, m.body, m.exchange, m.key, m.essentials)


def ids(words: list[Operation]) -> list[str]:
    return [type(word).__name__ for word in words]


def same(heard: list[Operation], said: Operation) -> None:
    assert [plain(word) for word in heard] == [plain(said)]


CUTS: list[Cut] = [whole, single, sized(7), sized(4000)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    ("request_", "result"), REQUESTS, ids=[type(word).__name__ for word, _ in REQUESTS]
)
def test_requests_and_answers(version: str, cut: Cut, request_: Operation, result: object) -> None:
    pair = opened(version, cut)
    pair.client.send(request_)
    (heard,) = pair.to_server()
    token = heard.token  # type: ignore[attr-defined]
    channel = request_.channel  # type: ignore[attr-defined]
    expected = type(request_)(
        **{name: getattr(request_, name) for name in request_.__dataclass_fields__}  # type: ignore[attr-defined]
    )
    same([without_token(heard)], without_token(expected))
    if token is None:  # 0-8 does not answer basic.recover
        assert version == "0-8" and isinstance(request_, Recover)
        assert pair.client.tick(1.0) == [Done(channel, 7, None)]
        return
    answer = Done(channel, token, result)
    pair.server.send(answer)
    same(pair.to_client(), Done(channel, 7, result))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("word", TO_SERVER, ids=ids(TO_SERVER))
def test_words_to_the_server(version: str, cut: Cut, word: Operation) -> None:
    pair = opened(version, cut)
    pair.client.send(word)
    same(pair.to_server(), word)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("word", TO_CLIENT, ids=ids(TO_CLIENT))
def test_words_to_the_client(version: str, cut: Cut, word: Operation) -> None:
    pair = opened(version, cut)
    pair.server.send(word)
    same(pair.to_client(), word)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_cut_of_a_publish(version: str) -> None:
    pair = opened(version)
    word = Publish(1, message(b"sixteen octets.."), True, False)
    pair.client.send(word)
    size = len(b"".join(cast(Any, pair.client).pending))
    for position in range(1, size):
        pair.cut = after(position)
        if position > 1:
            pair.client.send(word)
        same(pair.to_server(), word)


@pytest.mark.parametrize("version", VERSIONS)
def test_many_words_in_random_pieces(version: str) -> None:
    chance = random.Random(version)
    pair = opened(version)
    pair.cut = lambda: iter(lambda: chance.choice([1, 5, 30, 100, 5000]), 0)
    pair.client.send(BeginSession(2, None))
    (begun,) = pair.to_server()
    pair.server.send(Done(2, begun.token))  # type: ignore[attr-defined]
    assert pair.to_client() == []
    said: list[Operation] = []
    for _ in range(300):
        word = chance.choice(TO_SERVER)
        said.append(word)
        pair.client.send(word)
    assert [plain(w) for w in one_by_one(pair.to_server())] == [plain(w) for w in said]
    said = [chance.choice(TO_CLIENT[:-1]) for _ in range(300)]
    for word in said:
        pair.server.send(word)
    assert [plain(w) for w in pair.to_client()] == [plain(w) for w in said]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_outlet_writes_the_same_as_send(version: str) -> None:
    for word in TO_CLIENT[:6]:
        one, two = opened(version), opened(version)
        one.server.send(word)
        outlet = two.server.outlet(1)
        if isinstance(word, Deliver):
            outlet.deliver(word.consumer, word.delivery, word.redelivered, word.message)
        else:
            assert isinstance(word, Confirm)
            outlet.confirm(word.sequence, word.multiple, word.accepted)
        assert b"".join(one.server.output()) == b"".join(two.server.output())


@pytest.mark.parametrize("version", VERSIONS)
def test_open_names_user_and_peer(version: str) -> None:
    pair = Pair(version)
    heard = pair.open("/v")
    assert (heard.vhost, heard.user) == ("/v", "guest")
    assert heard.peer.product == "amqp-gateway"
    assert heard.peer.mechanism == "PLAIN"
    assert heard.peer.version == version


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("lost", [Lost.SESSION, Lost.CONNECTION])
def test_refusals(version: str, lost: Lost) -> None:
    pair = opened(version)
    pair.client.send(DeleteQueue(1, 7, "q"))
    (asked,) = pair.to_server()
    text = "no queue 'q' in vhost '/'"
    refused = Refused(1, asked.token, Condition.NOT_FOUND, text, lost)  # type: ignore[attr-defined]
    pair.server.send(refused)
    heard = pair.to_client()
    full = f"NOT_FOUND - {text}"
    if lost is Lost.SESSION:
        assert heard == [
            Refused(1, 7, Condition.NOT_FOUND, full, lost),
            SessionLost(1, Condition.NOT_FOUND, full),
        ]
        assert pair.to_server() == []
        pair.begin(1)
    else:
        assert heard == [
            Refused(1, 7, Condition.CONNECTION_FORCED, "the connection is gone", lost),
            Closed(Condition.NOT_FOUND, full),
        ]
        assert pair.to_server() == [Closed(Condition.NOT_FOUND, text)]


@pytest.mark.parametrize("version", VERSIONS)
def test_losing_a_channel(version: str) -> None:
    pair = opened(version)
    pair.server.send(SessionLost(1, Condition.RESOURCE_LOCKED, "locked"))
    assert pair.to_client() == [
        SessionLost(1, Condition.RESOURCE_LOCKED, "RESOURCE_LOCKED - locked")
    ]
    assert pair.to_server() == []
    pair.begin(1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("by_server", [True, False])
def test_closing(version: str, by_server: bool) -> None:
    pair = opened(version)
    one, other = (pair.server, pair.client) if by_server else (pair.client, pair.server)
    one.send(Close(None, "bye"))
    heard = pair.talk()
    said = [Closed(None, "bye", theirs=False)], [Closed(None, "bye", theirs=True)]
    assert heard == (said if by_server else said[::-1])
    assert one.closing and other.closing
    assert one.receive(b"more") == []


@pytest.mark.parametrize("version", VERSIONS)
def test_closing_at_once(version: str) -> None:
    pair = opened(version)
    pair.server.send(Close(Condition.CONNECTION_FORCED, "down"))
    pair.client.send(Close())
    assert pair.to_server() == [Closed(Condition.CONNECTION_FORCED, "down", theirs=False)]
    assert pair.to_client() == [Closed(None, "", theirs=False)]


@pytest.mark.parametrize("version", ["0-9", "0-9-1"])
def test_blocked(version: str) -> None:
    pair = opened(version)
    pair.server.send(Blocked("low on memory"))
    pair.server.send(Unblocked())
    assert pair.to_client() == [Blocked("low on memory"), Unblocked()]


@pytest.mark.parametrize("version", VERSIONS)
def test_update_secret(version: str) -> None:
    pair = opened(version)
    pair.client.send(UpdateSecret(7, b"new", "expired"))
    (asked,) = pair.to_server()
    assert isinstance(asked, UpdateSecret) and (asked.secret, asked.reason) == (b"new", "expired")
    pair.server.send(Done(0, asked.token))
    assert pair.to_client() == [Done(0, 7)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("request_", [word for word, _ in REQUESTS[:8]])
def test_requests_that_want_no_answer(version: str, request_: Operation) -> None:
    pair = opened(version)
    values = {name: getattr(request_, name) for name in request_.__dataclass_fields__}  # type: ignore[attr-defined]
    pair.client.send(type(request_)(**{**values, "token": None}))
    (heard,) = pair.to_server()
    token = heard.token  # type: ignore[attr-defined]
    result = QueueState("q", 0, 0) if isinstance(heard, DeclareQueue) else None
    pair.server.send(Done(1, token, result))
    assert pair.to_client() == []


@pytest.mark.parametrize("outcome", RETURNED)
@pytest.mark.parametrize("multiple", [False, True])
def test_what_goes_back_is_requeued(outcome: Outcome, multiple: bool) -> None:
    """Never dropped for want of a better word."""
    pair = opened("0-9-1", whole)
    pair.client.send(Settle(1, 5, multiple, outcome))
    assert pair.to_server() == [Settle(1, 5, multiple, Outcome.RELEASE)]
