"""Every operation of our client is what our server hears, and every answer comes back; the octets
between them are cut anywhere."""

import copy
from typing import Any

import pytest

from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.contents.dialect import CHILDREN, child
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.errors import Condition, LocalError, Lost
from gateway.message import Dialect, Message, Properties
from gateway.operations import (
    BeginSession,
    Bind,
    Close,
    Closed,
    Commit,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    Done,
    EndSession,
    Fetch,
    Fetched,
    FindQueue,
    Flow,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    PurgeQueue,
    QueueState,
    Refused,
    Returned,
    Rollback,
    Select,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
    Unsubscribe,
)
from tests.adapters.methods.drafts.talking import SIZES, VERSIONS, Both
from tests.pair import sized, without_token


def message(
    body: bytes, key: str = "k", exchange: str = "", properties: Properties | None = None
) -> Message:
    given = properties or Properties(durable=True, content_type="text/plain", priority=3)
    header = BASIC.write(given)
    return Message(BASIC, header, body, exchange, key, BASIC.essentials(header))


STATE = QueueState("q", 2, 1)

EXCHANGES: list[tuple[Operation, list[Operation], Any]] = [
    (
        DeclareExchange(1, 7, "x", kind, False, True, True, True),
        [DeclareExchange(1, None, "x", kind, False, True, True, True)],
        None,
    )
    for kind in (
        "fanout", "direct", "topic", "headers", "x-own", "x-selector", "x-matcher", "x-lossy",
    )
]  # fmt: skip
BOTH: list[tuple[Operation, list[Operation], Any]] = [
    (DeclareQueue(1, 7, "q", passive=True), [DeclareQueue(1, None, "q", passive=True)], STATE),
    (DeleteQueue(1, 7, "q", False, True), [DeleteQueue(1, None, "q", False, True)], 5),
    (PurgeQueue(1, 7, "q"), [PurgeQueue(1, None, "q")], 6),
    (Flow(1, 7, False), [Flow(1, None, False)], False),
    (EndSession(1, 7), [EndSession(1, None)], None),
    (BeginSession(2, 7), [BeginSession(2, None)], None),
]
"""The operation sent, the operation received, and the result."""

MADE = DeclareQueue(1, None, "q", durable=True, levels=2)
CONSUME = Subscribe(1, 7, "q", "1", True, True, True)
CONSUMED: list[Operation] = [
    Prefetch(1, None, 0), Subscribe(1, None, "q", "1", True, True, True),
]  # fmt: skip
SECOND: list[tuple[Operation, list[Operation], Any]] = [
    (CONSUME, CONSUMED, "1"),
    (Fetch(1, 7, "q", True), [Fetch(1, None, "q", True)], None),
    (DeclareQueue(1, 7, "q", durable=True), [FindQueue(1, None, "q"), MADE], STATE),
    (
        DeclareQueue(1, 7, "", exclusive=True, auto_delete=True),
        [DeclareQueue(1, None, "", exclusive=True, auto_delete=True, levels=2)],
        QueueState("made", 2, 1),
    ),
    (DeleteQueue(1, 7, "q", True, True), [DeleteQueue(1, None, "q", True, True)], 5),
    *EXCHANGES,
    (DeclareExchange(1, 7, "amq.topic", "topic"),
     [DeclareExchange(1, None, "amq.topic", passive=True)], None),
    (DeleteExchange(1, 7, "x", True), [DeleteExchange(1, None, "x", True)], None),
    (Bind(1, 7, "q", "amq.direct", "k"),
     [Bind(1, None, "q", "amq.direct", "k", lasting=True)], None),
    (Bind(1, 7, "q", "x", "k"), [Bind(1, None, "q", "x", "k", lasting=True)], None),
    (Bind(1, 7, "q", "x", "", {"a": "b"}),
     [Bind(1, None, "q", "x", "", {"a": "b"}, lasting=True)], None),
    (Bind(1, 7, "y", "x", "k", {}, True), [Bind(1, None, "y", "x", "k", {}, True, True)], None),
    (Select(1, 7), [Select(1, None)], None),
    (Commit(1, 7), [Commit(1, None)], None),
    (Rollback(1, 7), [Rollback(1, None)], None),
]  # fmt: skip
FIRST: list[tuple[Operation, list[Operation], Any]] = [
    (CONSUME, [FindQueue(1, None, "q"), *CONSUMED], "1"),
    (Fetch(1, 7, "q", True), [FindQueue(1, None, "q"), Fetch(1, None, "q", True)], None),
    (DeclareQueue(1, 7, "q"), [FindQueue(1, None, "q"), MADE], QueueState("q", 2, 0)),
    (
        DeclareQueue(1, 7, "", exclusive=True, auto_delete=True),
        [DeclareQueue(1, None, "", exclusive=True, auto_delete=True, levels=2)],
        QueueState("made", 2, 0),
    ),
    (
        Bind(1, 7, "subscription:s", "amq.topic", "a.#"),
        [
            FindQueue(1, None, "subscription:s"),
            DeclareQueue(1, None, "subscription:s", durable=True, levels=2),
            Bind(1, None, "subscription:s", "amq.topic", "a.#"),
        ],
        None,
    ),
    (
        Bind(1, 7, "subscription:s", "amq.topic", "^a", {"x-selector": "n = 1", "x-regexp": True}),
        [
            FindQueue(1, None, "subscription:s"),
            DeclareQueue(1, None, "subscription:s", durable=True, levels=2),
            Bind(
                1,
                None,
                "subscription:s",
                "amq.topic",
                "^a",
                {"x-regexp": True, "x-selector": "n = 1"},
            ),
        ],
        None,
    ),
    (DeclareQueue(1, 7, "subscription:s"), [], QueueState("subscription:s", 0, 0)),
    (
        DeclareQueue(1, 7, "subscription:s", passive=True),
        [DeclareQueue(1, None, "subscription:s", passive=True)],
        QueueState("subscription:s", 2, 1),
    ),
    (PurgeQueue(1, 7, "subscription:s"), [PurgeQueue(1, None, "subscription:s")], 6),
    (
        DeleteQueue(1, 7, "subscription:s", False, True),
        [DeleteQueue(1, None, "subscription:s", False, True)],
        5,
    ),
]
RESULTS = {DeleteQueue: 5, PurgeQueue: 6}

CASES = [
    (version, at)
    for version in VERSIONS
    for at in range(len(BOTH) + len(SECOND if version == "0-9a6" else FIRST))
]


@pytest.mark.parametrize(("version", "at"), CASES)
@pytest.mark.parametrize("size", [1, 7, 1 << 30])
def test_requests(version: str, at: int, size: int) -> None:
    said, heard, result = (BOTH + (SECOND if version == "0-9a6" else FIRST))[at]
    both = Both(version, sized(size), results=dict(RESULTS)).opened()
    expected = copy.deepcopy(heard)
    if isinstance(said, DeleteQueue) and version != "0-9a6":
        # Cancelling a missing consumer costs the connection (0-9a0 §4.5.7).
        both.queues = {said.name}
        expected.insert(0, FindQueue(1, None, said.name))
    both.client.send(copy.deepcopy(said))
    both.run()
    asked = [without_token(operation) for operation in both.asked]
    if version != "0-9a6":
        for operation in asked + expected:
            if isinstance(operation, DeclareQueue) and operation.name == "q":
                operation.durable = False  # a queue that is not private is durable there
    assert asked == expected
    assert both.heard == [Done(said.channel, 7, result)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", SIZES)
def test_publish_deliver_settle(version: str, size: int) -> None:
    both = Both(version, sized(size)).opened()
    both.client.send(Prefetch(1, None, 10, 2000))
    both.client.send(Subscribe(1, 1, "q", "mine"))
    both.run()
    asked = [o for o in both.asked if not isinstance(o, FindQueue)]
    assert asked[0] == Prefetch(1, None, 10, 2000)
    both.forget()
    for body in (b"", b"short", b"long" * 50_000):
        both.client.send(Publish(1, message(body, "q"), True, False))
    both.run()
    published = [operation for operation in both.asked if isinstance(operation, Publish)]
    assert len(published) == 3 == len(both.asked)
    exchange = "amq.direct" if version == "0-9a6" else ""
    for operation, body in zip(published, (b"", b"short", b"long" * 50_000), strict=True):
        got = operation.message
        assert (got.exchange, got.key, got.body) == (exchange, "q", body)
        assert operation.mandatory and not operation.immediate
        assert got.properties.content_type == "text/plain" and got.properties.priority == 3
        assert got.essentials.durable and got.essentials.priority == 3
    outlet = both.server.outlet(1)
    for number, sent in enumerate(published, 1):
        outlet.deliver("1", number, number == 2, sent.message)
    both.run()
    assert [type(o) for o in both.heard] == [Deliver] * 3
    for number, (heard, sent) in enumerate(zip(both.heard, published, strict=True), 1):
        assert isinstance(heard, Deliver)
        assert (heard.consumer, heard.delivery) == ("mine", number)
        assert heard.redelivered == (number == 2)
        assert heard.message.body == sent.message.body
        assert heard.message.header == sent.message.header
        assert heard.message.key == "q"
    both.forget()
    both.client.send(Settle(1, 1, False, Outcome.ACCEPT))
    both.client.send(Settle(1, 2, False, Outcome.REJECT))
    both.client.send(Settle(1, 0, True, Outcome.RELEASE))
    both.client.send(Settle(1, 9, True, Outcome.ACCEPT))
    both.run()
    assert both.asked == [
        Settle(1, 1, False, Outcome.ACCEPT),
        Settle(1, 2, False, Outcome.REJECT),
        Settle(1, 3, False, Outcome.REFUSE),
        Settle(1, 9, True, Outcome.ACCEPT),
    ]
    both.forget()
    both.client.send(Unsubscribe(1, 5, "mine"))
    both.run()
    assert [without_token(o) for o in both.asked] == [Unsubscribe(1, None, "1")]
    assert both.heard == [Done(1, 5, "mine")]
    outlet.deliver("1", 9, False, published[0].message)
    assert both.server.output() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_fetched(version: str) -> None:
    fetched = Fetched(4, True, message(b"taken", "q"), 8)
    both = Both(version, sized(3), results={Fetch: fetched}).opened()
    both.client.send(Fetch(1, 7, "q", False))
    both.run()
    (done,) = both.heard
    assert isinstance(done, Done)
    got = done.result
    assert (got.delivery, got.redelivered, got.remaining) == (4, True, 8)
    assert (got.message.body, got.message.key) == (b"taken", "q")


@pytest.mark.parametrize("version", VERSIONS)
def test_refusals_and_closes(version: str) -> None:
    both = Both(version).opened()
    both.client.send(DeclareQueue(1, 7, "q", passive=True))
    (asked,) = both.server.receive(b"".join(both.client.output()))
    token = asked.token  # type: ignore[attr-defined]
    both.server.send(Refused(1, token, Condition.NOT_FOUND, "no queue 'q'", Lost.SESSION))
    both.run()
    refused, lost = both.heard
    assert isinstance(refused, Refused) and isinstance(lost, SessionLost)
    assert refused.token == 7 and lost.condition is Condition.NOT_FOUND
    assert "no queue 'q'" in lost.text
    both.client.send(BeginSession(1, 8))  # the number is free again
    both.run()
    assert both.heard[-1] == Done(1, 8)
    both.server.send(Close(Condition.CONNECTION_FORCED, "bye"))
    both.run()
    closed = both.heard[-1]
    assert isinstance(closed, Closed) and closed.condition is Condition.INTERNAL_ERROR
    assert both.client.closing and both.server.closing
    assert both.asked[-1] == Closed(Condition.CONNECTION_FORCED, "bye", theirs=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_draft_cannot_say(version: str) -> None:
    both = Both(version).opened()
    with pytest.raises(LocalError):
        both.client.send(SelectConfirms(1, 7))
    with pytest.raises(LocalError):
        both.server.outlet(1).confirm(1, False, True)
    if version != "0-9a6":
        for operation in (
            DeclareExchange(1, 7, "x"),
            Bind(1, 7, "q", "x", "k"),
            Publish(1, message(b"", "k", "x"), False, False),
            Select(1, 7),
        ):
            with pytest.raises(LocalError):
                both.client.send(operation)
    assert both.client.output() == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", SIZES)
def test_children_are_carried(version: str, size: int) -> None:
    """A message with two children, one of which has a child: the same octets at the other end, and
    a stop at 0-9-1 on the way changes nothing."""
    number = 6 if version != "0-9a6" else 7
    dialect = CONTENTS[version, number]
    part = dialect.write(Properties(content_type="image/png"))
    plain = dialect.write(Properties())
    children = child(number, part, [child(number, plain, [], b"inner")], b"x" * 100) + child(
        number, plain, [], b""
    )
    header = dialect.write(Properties(content_type="multipart/mixed", to="q")) + children
    essentials = dialect.essentials(header)
    sent = Message(dialect, header, b"outer", "", "q", essentials)
    both = Both(version, sized(size)).opened()
    both.client.send(Publish(1, sent, False, False))
    both.run()
    (operation,) = both.asked
    assert isinstance(operation, Publish)
    assert operation.message.header == header and operation.message.body == b"outer"
    properties = operation.message.properties
    assert properties.annotations == {CHILDREN: children}
    crossed = BASIC.read(BASIC.write(properties))
    crossed.application = crossed.application or None  # the table was there for our own entries
    assert dialect.write(crossed) == header


@pytest.mark.parametrize("group", ["jms", "file", "stream", "basic"])
@pytest.mark.parametrize("version", VERSIONS)
def test_all_classes_of_content(version: str, group: str) -> None:
    """Published in its class, consumed in any other."""
    both = Both(version, sized(13)).opened()
    names = {content.name: n for n, content in both.server.table.contents.items()}
    if group not in names:
        assert version != "0-9a6" and group == "basic"
        return
    dialect = CONTENTS[version, names[group]]
    given = Properties(
        content_type="text/plain", priority=2, application={"n": 5, "t": "x", "b": True},
        message_id="id", to="q", creation_time=1_000_000,
    )  # fmt: skip
    header = dialect.write(given)
    assert dialect.read(header) == given
    sent = Message(dialect, header, b"body", "", "q", dialect.essentials(header))
    both.client.send(Publish(1, sent, False, False))
    both.run()
    (operation,) = (o for o in both.asked if isinstance(o, Publish))
    got = operation.message
    assert got.dialect is dialect and got.header == header and got.body == b"body"
    assert got.essentials.durable == (group == "file")
    for name in ("jms", "file", "stream", "basic"):
        if name in names:
            other = CONTENTS[version, names[name]]
            assert other.read(other.form_of(got)[0]) == given


@pytest.mark.parametrize("version", VERSIONS)
def test_returned(version: str) -> None:
    both = Both(version).opened()
    both.client.send(Publish(1, message(b"back", "q", "amq.topic"), True, True))
    both.run()
    (operation,) = both.asked
    assert isinstance(operation, Publish) and operation.mandatory
    both.server.send(Returned(1, operation.message, Condition.NO_CONSUMERS, "none"))
    both.perform(both.server.found())
    both.run()
    if version == "0-9a6":
        (returned,) = both.heard
        assert isinstance(returned, Returned) and returned.message.body == b"back"
        assert returned.message.exchange == "amq.topic"
    else:
        assert [type(o) for o in both.heard] == [SessionLost]
        assert both.asked[-1] == EndSession(1, None)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("to", [None, "k", "elsewhere"])
@pytest.mark.parametrize("own", [True, False])
def test_a_publish_goes_where_it_is_told(version: str, to: str | None, own: bool) -> None:
    """In 0-9a6 the destination of the content is the key, in place of that of the message."""
    both = Both(version).opened()
    both.queues.add("k")
    dialect: Dialect = both.client.channel(1).dialect("jms") if own else BASIC
    given = Properties(message_id="m-1", to=to, application={"a": "b"})
    header = dialect.write(given)
    sent = Message(dialect, header, b"x", "", "k", dialect.essentials(header))
    for _ in range(2):
        both.client.send(Publish(1, sent, False, False))
    both.run()
    heard = [op.message for op in both.asked if isinstance(op, Publish)]
    assert [m.key for m in heard] == ["k", "k"]
    found = heard[0].properties
    assert (found.message_id, found.application) == ("m-1", {"a": "b"})
    if version == "0-9a6":
        assert found.to == "k"
    if own and to == "k":
        assert heard[0].header == header, "as it came"
