"""Client role against server role: each gets the operations of the other, however they are cut."""

import random
from typing import Any, cast

import pytest

from gateway.adapters import Limits
from gateway.adapters.performatives import addresses as places
from gateway.adapters.performatives.sections import pieces
from gateway.adapters.performatives.wire import layouts as w
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import (
    Attached,
    AttachSource,
    AttachTarget,
    BeginSession,
    Bind,
    Blocked,
    Cancelled,
    Close,
    Closed,
    Commit,
    Confirm,
    Credit,
    DeclareExchange,
    DeclareQueue,
    DeclareTransaction,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    DetachLink,
    Discharge,
    Done,
    EndSession,
    Fetch,
    Fetched,
    Flow,
    Manage,
    Modify,
    Operation,
    Outcome,
    Peer,
    Post,
    Prefetch,
    Publish,
    PurgeQueue,
    QueueState,
    Recover,
    Refused,
    Resumed,
    Retire,
    Returned,
    Rollback,
    Select,
    SelectConfirms,
    SessionLost,
    Settle,
    SettleMany,
    Subscribe,
    Terminus,
    Unbind,
    Unblocked,
    Unsubscribe,
    UpdateSecret,
)
from gateway.values import ULong
from tests import in_memory
from tests.adapters.performatives.house import CHANNEL, House, message
from tests.adapters.performatives.wire import unpacked
from tests.pair import Cut, single, sized, whole

cuts = pytest.mark.parametrize("cut", [whole, single, sized(7), sized(4000)])

BODIES = [b"", b"sixteen octets..", b"long" * 100_000]


def octets(m: Any) -> bytes:
    return in_memory.joined(pieces(m.header, m.body))


def done(house: House, operation: Operation, result: Any = None) -> None:
    assert house.ask(operation) == Done(CHANNEL, 7, result)


def subscribed(house: House, no_ack: bool = False, prefetch: int = 0) -> None:
    if prefetch:
        done(house, Prefetch(CHANNEL, 7, prefetch))
    done(house, Subscribe(CHANNEL, 7, "q", "tag", no_ack), "tag")


# --- publishing --------------------------------------------------------------------------------


@cuts
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(("exchange", "key"), [("", "q"), ("x", "k"), ("x y", "k/é")])
def test_publishes(cut: Cut, body: bytes, exchange: str, key: str) -> None:
    house = House(cut)
    if exchange == "x y":
        house.client.connection.sessions[CHANNEL].handler.context.form = "plain"
    said = message(body, exchange, key, subject="s", durable=True)
    house.client.send(Publish(CHANNEL, said, True, False))
    house.run()
    (attach,) = house.asked(AttachTarget)
    assert attach.terminus.address == {
        "": "/queues/q", "x": "/exchanges/x/k", "x y": "x y/k/é",
    }[exchange]  # fmt: skip
    (heard,) = house.asked(Publish)
    assert (heard.message.header, heard.message.body) == (said.header, said.body)
    if exchange != "x y":
        assert (heard.message.exchange, heard.message.key) == (exchange, key)
    assert house.heard == []  # without confirms it goes settled, and nobody hears of it


@cuts
def test_confirms_come_in_order(cut: Cut) -> None:
    house = House(cut)
    done(house, SelectConfirms(CHANNEL, 7))
    house.refuse = {b"3": Condition.NO_ROUTE, b"5": Condition.NOT_ALLOWED}
    for number in range(1, 9):
        said = message(b"%d" % number, key="q" if number % 2 else "r")
        house.client.send(Publish(CHANNEL, said, True, False))
    house.run()
    assert len(house.asked(Publish)) == 8
    back = house.told(Returned)
    assert [(op.sequence, op.condition, op.message.body) for op in back] == [
        (3, Condition.NO_ROUTE, b"3"),
        (5, Condition.NOT_ALLOWED, b"5"),
    ]
    reached: dict[int, bool] = {}
    last = 0
    for op in house.told(Confirm):
        assert op.sequence > last
        for number in range(last + 1 if op.multiple else op.sequence, op.sequence + 1):
            reached[number] = op.accepted
        last = op.sequence
    assert reached == {number: number != 5 for number in range(1, 9)}
    assert house.heard == []


def test_a_run_of_confirms_is_one_word() -> None:
    house = House()
    done(house, SelectConfirms(CHANNEL, 7))
    house.client.send(Publish(CHANNEL, message(b"first"), True, False))
    house.run()
    house.heard.clear()
    for _ in range(500):
        house.client.send(Publish(CHANNEL, message(b"more"), True, False))
    house.run()
    assert house.heard == [Confirm(CHANNEL, 501, True, True)]


@cuts
@pytest.mark.parametrize("confirming", [False, True])
def test_a_place_that_is_not_there(cut: Cut, confirming: bool) -> None:
    house = House(cut)
    if confirming:
        done(house, SelectConfirms(CHANNEL, 7))
    said = message(b"x", key="missing")
    house.client.send(Publish(CHANNEL, said, True, False))
    house.run()
    returned, *rest = house.heard
    assert isinstance(returned, Returned)
    assert (returned.message, returned.condition) == (said, Condition.NOT_FOUND)
    assert returned.sequence == int(confirming)
    assert rest == ([Confirm(CHANNEL, 1, False, False)] if confirming else [])
    house.client.send(Publish(CHANNEL, message(b"y"), True, False))
    house.run()
    assert len(house.asked(Publish)) == 1


def test_more_than_the_credit() -> None:
    """Messages wait for credit; the owner is asked to pause, and to go on."""
    house = House()
    done(house, SelectConfirms(CHANNEL, 7))
    house.client.send(Publish(CHANNEL, message(b"0"), True, False))
    house.run()
    house.confirming = False
    for number in range(4000):
        house.client.send(Publish(CHANNEL, message(b"%d" % number), True, False))
    house.run()
    assert house.told(Flow) == [Flow(CHANNEL, None, False)]
    house.client.send(Done(CHANNEL, None, False))
    assert 900 < len(house.said) < 4000
    house.confirming = True
    house.server.outlet(CHANNEL).confirm(len(house.asked(Publish)), True, True)
    house.run()
    assert house.told(Flow) == [Flow(CHANNEL, None, True)]
    (*_, last) = house.told(Confirm)
    assert last.sequence == 4001


def test_blocked_publishers_get_no_credit() -> None:
    house = House()
    house.server.send(Blocked("memory"))
    house.client.send(Publish(CHANNEL, message(b"0"), True, False))
    house.run()
    assert house.asked(Publish) == []
    house.server.send(Unblocked())
    house.run()
    assert len(house.asked(Publish)) == 1


def test_many_places_share_few_links() -> None:
    house = House()
    for number in range(600):
        house.client.send(Publish(CHANNEL, message(b"x", key=f"q{number}"), True, False))
        house.run()
    assert len(house.asked(Publish)) == 600
    assert len(house.client.connection.sessions[CHANNEL].links) <= 257


def test_a_message_larger_than_the_server_takes() -> None:
    house = House(limits=Limits(max_message_octets=1000))
    done(house, SelectConfirms(CHANNEL, 7))
    house.client.send(Publish(CHANNEL, message(b"x" * 2000), True, False))
    house.client.send(Publish(CHANNEL, message(b"x"), True, False))
    house.run()
    (returned,) = house.told(Returned)
    assert (returned.sequence, returned.condition) == (1, Condition.CONTENT_TOO_LARGE)
    assert house.told(Confirm) == [
        Confirm(CHANNEL, 1, False, False),
        Confirm(CHANNEL, 2, False, True),
    ]


# --- consuming ---------------------------------------------------------------------------------


@cuts
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("no_ack", [False, True])
def test_deliveries(cut: Cut, body: bytes, no_ack: bool) -> None:
    house = House(cut)
    subscribed(house, no_ack)
    (attach,) = house.asked(AttachSource)
    assert (attach.terminus.address, attach.settled) == ("/queues/q", no_ack)
    said = message(body, subject="s")
    house.put("q", said, said)
    house.run()
    for number, op in enumerate(house.told(Deliver), 1):
        assert (op.consumer, op.delivery, op.redelivered) == ("tag", number, False)
        assert octets(op.message) == octets(said)
        assert (op.message.exchange, op.message.key) == ("", "q")
    house.client.send(Settle(CHANNEL, 2, True, Outcome.ACCEPT))
    house.run()
    expected = [] if no_ack else [1, 2]
    assert [op.delivery for op in house.asked(Settle)] == expected


def test_deliveries_before() -> None:
    house = House()
    subscribed(house)
    (attach,) = house.asked(AttachSource)
    house.server.send(Deliver(CHANNEL, attach.link, 1, True, message(b"again", subject="s")))
    house.run()
    (heard,) = house.told(Deliver)
    assert heard.redelivered is True


@cuts
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (Settle(CHANNEL, 2, False, Outcome.ACCEPT), [(2, Outcome.ACCEPT)]),
        (Settle(CHANNEL, 2, False, Outcome.RELEASE), [(2, Outcome.RELEASE)]),
        (Settle(CHANNEL, 2, False, Outcome.REJECT), [(2, Outcome.REJECT)]),
        (Settle(CHANNEL, 2, True, Outcome.REJECT), [(1, Outcome.REJECT), (2, Outcome.REJECT)]),
        (Settle(CHANNEL, 0, True, Outcome.ACCEPT), [(n, Outcome.ACCEPT) for n in (1, 2, 3)]),
        (Settle(CHANNEL, 9, False, Outcome.ACCEPT), []),
        (Modify(CHANNEL, 3, True, False, {"n": 1}), [Modify(CHANNEL, 3, True, False, {"n": 1})]),
        (Modify(CHANNEL, 1, False, True), [Modify(CHANNEL, 1, False, True)]),
        (Recover(CHANNEL, None), [(n, Outcome.RELEASE) for n in (1, 2, 3)]),
    ],
)
def test_outcomes(cut: Cut, word: Operation, expected: list[Any]) -> None:
    house = House(cut)
    subscribed(house)
    house.put("q", *[message(b"x")] * 3)
    house.run()
    assert len(house.told(Deliver)) == 3
    house.client.send(word)
    house.run()
    found = house.asked(Settle, Modify)
    assert [op if isinstance(op, Modify) else (op.delivery, op.outcome) for op in found] == expected
    house.client.send(word)  # nothing is settled twice
    house.run()
    assert house.asked(Settle, Modify) == []


def test_a_run_of_acceptances_is_one_frame() -> None:
    house = House()
    subscribed(house)
    house.put("q", *[message(b"x")] * 400)
    house.run()
    calls: list[int] = []
    house.client.wake = lambda: calls.append(1)
    for number in range(1, 401):
        house.client.send(Settle(CHANNEL, number, False, Outcome.ACCEPT))
    assert calls == [1]
    octets = b"".join(house.client.output())
    (frame,) = [f for f in unpacked(octets) if isinstance(f.record, w.Disposition)]
    assert (frame.record.first, frame.record.last) == (0, 399)
    house.server.receive(octets)
    assert calls == [1]


@pytest.mark.parametrize(
    "word",
    [
        Close(), EndSession(CHANNEL, None), Settle(CHANNEL, 2, False, Outcome.REJECT),
        Unsubscribe(CHANNEL, None, "tag"), Recover(CHANNEL, None), Select(CHANNEL, None),
    ],
    ids=lambda word: type(word).__name__,
)  # fmt: skip
def test_acceptances_are_sent_first(word: Operation) -> None:
    house = House()
    subscribed(house)
    house.put("q", *[message(b"x")] * 2)
    house.run()
    house.said.clear()
    house.client.send(Settle(CHANNEL, 1, False, Outcome.ACCEPT))
    house.client.send(word)
    house.run()
    assert house.said[0] == Settle(CHANNEL, 1, False, Outcome.ACCEPT)


def test_prefetch_is_a_window() -> None:
    house = House()
    subscribed(house, prefetch=3)
    house.put("q", *[message(b"%d" % n) for n in range(20)])
    house.run()
    assert [op.delivery for op in house.told(Deliver)] == [1, 2, 3]
    house.client.send(Settle(CHANNEL, 1, False, Outcome.ACCEPT))
    house.run()
    assert [op.delivery for op in house.told(Deliver)] == [4]
    house.client.send(Settle(CHANNEL, 4, True, Outcome.ACCEPT))
    house.run()
    assert [op.delivery for op in house.told(Deliver)] == [5, 6, 7]


def test_without_prefetch_credit_never_ends() -> None:
    house = House()
    subscribed(house)
    house.put("q", *[message(b"%d" % n) for n in range(5000)])
    house.run()
    assert [op.delivery for op in house.told(Deliver)] == list(range(1, 5001))


@cuts
def test_unsubscribing(cut: Cut) -> None:
    """What it holds stays with the channel, and can be settled."""
    house = House(cut)
    subscribed(house, prefetch=2)
    house.put("q", *[message(b"x")] * 5)
    house.run()
    assert len(house.told(Deliver)) == 2
    done(house, Unsubscribe(CHANNEL, 7, "tag"), "tag")
    house.put("q", message(b"late"))
    house.run()
    assert house.told(Deliver) == [] and house.asked(DetachLink) == []
    house.client.send(Settle(CHANNEL, 0, True, Outcome.ACCEPT))
    house.run()
    assert len(house.asked(Settle)) == 2
    (detach,) = house.asked(DetachLink)
    assert detach.closed
    subscribed(house)
    done(house, Unsubscribe(CHANNEL, 7, "nobody"), "nobody")


def test_unsubscribing_with_credit_left() -> None:
    house = House()
    subscribed(house)
    done(house, Unsubscribe(CHANNEL, 7, "tag"), "tag")
    (detach,) = house.asked(DetachLink)
    assert detach.closed
    assert house.asked(Credit)[-1].drain


@cuts
def test_fetching(cut: Cut) -> None:
    house = House(cut)
    done(house, Fetch(CHANNEL, 7, "q"))
    house.put("q", message(b"one"), message(b"two"))
    for number, body in enumerate([b"one", b"two"], 1):
        answer = house.ask(Fetch(CHANNEL, 7, "q"))
        assert isinstance(answer, Done) and isinstance(answer.result, Fetched)
        assert (answer.result.delivery, answer.result.message.body) == (number, body)
    done(house, Fetch(CHANNEL, 7, "q"))
    assert len(house.asked(AttachSource)) == 1
    house.client.send(Settle(CHANNEL, 2, True, Outcome.ACCEPT))
    house.run()
    assert len(house.asked(Settle)) == 2


def test_fetching_at_once() -> None:
    house = House()
    house.put("q", message(b"one"))
    for token in (1, 2, 3):
        house.client.send(Fetch(CHANNEL, token, "q", True))
    house.run()
    answers = house.told(Done)
    assert [op.token for op in answers] == [1, 2, 3]
    assert [op.result is None for op in answers] == [False, True, True]


@pytest.mark.parametrize(
    "word",
    [
        Subscribe(CHANNEL, 7, "missing"),
        Fetch(CHANNEL, 7, "missing"),
        AttachSource(CHANNEL, 7, "l", "name", "", Terminus("/queues/missing")),
        AttachTarget(CHANNEL, 7, "l", "name", "", Terminus("/queues/missing")),
        DeclareExchange(CHANNEL, 7, "missing", passive=True),
    ],
    ids=lambda word: type(word).__name__,
)
@cuts
def test_missing_nodes(cut: Cut, word: Operation) -> None:
    house = House(cut)
    expected = Refused(CHANNEL, 7, Condition.NOT_FOUND, "no such node", Lost.LINK)
    assert house.ask(word) == expected
    assert house.heard == []
    subscribed(house)


def test_a_consumer_whose_queue_is_gone() -> None:
    house = House()
    subscribed(house)
    house.put("q", message(b"x"))
    house.run()
    (attach,) = house.asked(AttachSource)
    house.heard.clear()
    house.server.send(Cancelled(CHANNEL, attach.link))
    house.run()
    assert house.heard == [Cancelled(CHANNEL, "tag")]
    house.client.send(Settle(CHANNEL, 1, False, Outcome.ACCEPT))
    house.run()
    assert house.asked(Settle) == []
    subscribed(house)


# --- links by name -----------------------------------------------------------------------------


@cuts
def test_a_source_by_name(cut: Cut) -> None:
    house = House(cut)
    terminus = Terminus(
        "/queues/q", 2, "never", 60, copy=True, filters={"f": (ULong(1), "x")},
        capabilities=("queue",),
    )  # fmt: skip
    word = AttachSource(CHANNEL, 7, "mine", "name", "", terminus, True)
    done(house, word, Attached(terminus))
    (asked,) = house.asked(AttachSource)
    assert (asked.name, asked.settled, asked.terminus) == ("name", True, terminus)
    assert asked.container == house.client.connection.name
    house.put("q", *[message(b"x")] * 5)
    house.run()
    assert house.told(Deliver) == []
    done(house, Credit(CHANNEL, 7, "mine", 2), 0)
    assert [op.consumer for op in house.told(Deliver)] == ["mine", "mine"]
    done(house, Credit(CHANNEL, 7, "mine", 10, True), 7)
    assert len(house.told(Deliver)) == 3
    house.put("q", *[message(b"x")] * 2000)
    done(house, Credit(CHANNEL, 7, "mine", None), 0)
    assert len(house.told(Deliver)) == 2000
    done(house, DetachLink(CHANNEL, 7, "mine", False))
    (detach,) = house.asked(DetachLink)
    assert not detach.closed and not detach.lost


@cuts
def test_a_target_by_name(cut: Cut) -> None:
    house = House(cut)
    terminus = Terminus("/queues/q")
    answer = house.ask(AttachTarget(CHANNEL, 7, "mine", "name", "", terminus))
    assert isinstance(answer, Done)
    assert (answer.result.exchange, answer.result.key) == ("", "/queues/q")
    house.client.send(Publish(CHANNEL, message(b"x", "", "/queues/q"), True, False))
    house.run()
    assert [op.message.key for op in house.asked(Publish)] == ["q"]
    assert len(house.asked(AttachTarget)) == 1
    done(house, DetachLink(CHANNEL, 7, "mine", True))
    (detach,) = house.asked(DetachLink)
    assert detach.closed


def target(name: str) -> AttachTarget:
    return AttachTarget(CHANNEL, 7, name, name, "", Terminus(name))


@pytest.mark.parametrize("closed", [False, True])
def test_detaching_with_unconfirmed_messages(closed: bool) -> None:
    """They are not accepted, and later ones of the session are confirmed."""
    house = House()
    done(house, SelectConfirms(CHANNEL, 7))
    for name in "ab":
        assert isinstance(house.ask(target(name)), Done)
    house.confirming = False
    for key in "aba":
        house.client.send(Publish(CHANNEL, message(b"x", "", key), True, False))
    house.run()
    assert len(house.asked(Publish)) == 3 and house.told(Confirm) == []
    done(house, DetachLink(CHANNEL, 7, "a", closed))
    assert house.told(Confirm, Returned) == [Confirm(CHANNEL, 1, False, False)]
    house.server.outlet(CHANNEL).confirm(2, True, True)
    house.confirming = True
    house.client.send(Publish(CHANNEL, message(b"x", "", "b"), True, False))
    house.run()
    assert house.told(Confirm, Returned) == [
        Confirm(CHANNEL, 2, False, True),
        Confirm(CHANNEL, 3, False, False),
        Confirm(CHANNEL, 4, False, True),
    ]
    assert not house.client.connection.sessions[CHANNEL].handler.senders._early


def test_detaching_with_messages_that_were_never_sent() -> None:
    """They are returned, without confirms too."""
    for confirming in (False, True):
        house = House()
        if confirming:
            done(house, SelectConfirms(CHANNEL, 7))
        assert isinstance(house.ask(target("b")), Done)
        house.server.send(Blocked("memory"))
        assert isinstance(house.ask(target("a")), Done)
        said = message(b"x", "", "a")
        house.client.send(Publish(CHANNEL, said, True, False))
        house.client.send(Publish(CHANNEL, message(b"y", "", "b"), True, False))
        done(house, DetachLink(CHANNEL, 7, "a", True))
        returned, *confirms = house.told(Returned, Confirm)
        assert (returned.message, returned.sequence) == (said, int(confirming))
        if confirming:
            assert confirms == [
                Confirm(CHANNEL, 1, False, False),
                Confirm(CHANNEL, 2, False, True),
            ]
        assert [op.message.key for op in house.asked(Publish)] == ["b"]


def test_a_commit_does_not_wait_for_a_link_that_was_detached() -> None:
    house = House()
    done(house, Select(CHANNEL, 7))
    house.server.send(Blocked("memory"))
    assert isinstance(house.ask(target("a")), Done)
    house.client.send(Publish(CHANNEL, message(b"x", "", "a"), True, False))
    house.run()
    done(house, DetachLink(CHANNEL, 7, "a", True))
    answer = house.ask(Commit(CHANNEL, 7))
    assert isinstance(answer, Refused) and answer.lost is Lost.LINK
    (discharge,) = house.asked(Discharge)
    assert discharge.fail and house.asked(Post) == []


def test_ending_the_session_leaves_messages_unconfirmed() -> None:
    house = House()
    done(house, SelectConfirms(CHANNEL, 7))
    assert isinstance(house.ask(target("a")), Done)
    house.confirming = False
    house.client.send(Publish(CHANNEL, message(b"x", "", "a"), True, False))
    house.run()
    done(house, EndSession(CHANNEL, 7))
    assert house.told(Confirm, Returned) == []


@cuts
def test_resuming_sends_known_outcomes(cut: Cut) -> None:
    house = House(cut)
    known = {b"one": Outcome.ACCEPT, b"two": None, b"three": Modify(CHANNEL, 0, True, False)}
    house.resumed = [Resumed(b"one", 0, Outcome.REJECT, None)]
    for kind in (AttachSource, AttachTarget):
        word = kind(CHANNEL, 7, f"{kind.__name__}", "name", "", Terminus("/queues/q"))
        word.unsettled = known
        answer = house.ask(word)
        assert isinstance(answer, Done), answer
        assert answer.result.resumed == house.resumed
        (asked,) = house.asked(kind)
        assert asked.unsettled == known


# --- transactions ------------------------------------------------------------------------------


@cuts
@pytest.mark.parametrize("end", [Commit(CHANNEL, 7), Rollback(CHANNEL, 7)])
def test_a_transactional_channel(cut: Cut, end: Operation) -> None:
    house = House(cut)
    subscribed(house)
    house.put("q", *[message(b"x")] * 2)
    house.run()
    done(house, Select(CHANNEL, 7))
    house.client.send(Publish(CHANNEL, message(b"in it"), True, False))
    house.client.send(Settle(CHANNEL, 1, False, Outcome.ACCEPT))
    house.run()
    (post,) = house.asked(Post)
    assert (post.transaction, post.message.body) == (b"work 1", b"in it")
    assert house.asked(Retire) == [Retire(CHANNEL, b"work 1", 1, Outcome.ACCEPT, True)]
    house.client.send(end)
    house.client.send(Settle(CHANNEL, 2, False, Outcome.REJECT))  # waits for the next
    house.run()
    (discharge,) = house.asked(Discharge)
    assert (discharge.transaction, discharge.fail) == (b"work 1", isinstance(end, Rollback))
    assert house.told(Done) == [Done(CHANNEL, 7)]
    assert house.asked(Retire) == [Retire(CHANNEL, b"work 2", 2, Outcome.REJECT, True)]
    assert house.asked(Publish, Settle) == []


@cuts
def test_transactions_by_name(cut: Cut) -> None:
    house = House(cut)
    house.refuse = {b"nowhere": Condition.NO_ROUTE}
    subscribed(house)
    house.put("q", message(b"x"))
    house.run()
    done(house, DeclareTransaction(CHANNEL, 7, ""), b"work 1")
    done(house, Post(CHANNEL, 7, "", b"work 1", message(b"here")), True)
    done(house, Post(CHANNEL, 7, "", b"work 1", message(b"nowhere")), False)
    word = Retire(CHANNEL, b"work 1", 1, Modify(CHANNEL, 1, True, False), False)
    house.client.send(word)
    house.run()
    assert house.asked(Retire) == [word]
    done(house, Discharge(CHANNEL, 7, "", b"work 1", False))
    (discharge,) = house.asked(Discharge)
    assert discharge.transaction == b"work 1"


@cuts
def test_the_end_does_not_overtake_messages_that_wait_for_credit(cut: Cut) -> None:
    house = House(cut)
    done(house, Select(CHANNEL, 7))
    for number in range(5):
        said = message(b"%d" % number, key=f"q{number}")
        house.client.send(Publish(CHANNEL, said, True, False))
    house.client.send(Commit(CHANNEL, 7))
    house.run()
    assert [type(op) for op in house.asked(Post, Discharge)] == [Post] * 5 + [Discharge]
    assert house.told(Done) == [Done(CHANNEL, 7)]


def test_committing_without_a_transaction() -> None:
    answer = House().ask(Commit(CHANNEL, 7))
    assert isinstance(answer, Refused) and answer.condition is Condition.PRECONDITION_FAILED


# --- topology ----------------------------------------------------------------------------------

ARGUMENTS = {"x-max-length": 5}
MANAGED: list[tuple[Operation, tuple[str, str, Any], tuple[int, Any], Any]] = [
    (
        DeclareQueue(CHANNEL, 7, "a/b", False, True, True, True, ARGUMENTS),
        (
            "PUT",
            "/queues/a%2Fb",
            {"durable": True, "exclusive": True, "auto_delete": True, "arguments": ARGUMENTS},
        ),
        (201, {"name": "a/b", "message_count": ULong(3), "consumer_count": ULong(1)}),
        QueueState("a/b", 3, 1),
    ),
    (
        DeclareQueue(CHANNEL, 7, "q", passive=True),
        ("GET", "/queues/q", None),
        (200, {"name": "q", "message_count": ULong(3)}),
        QueueState("q", 3, 0),
    ),
    (
        DeleteQueue(CHANNEL, 7, "q"),
        ("DELETE", "/queues/q", None),
        (200, {"message_count": ULong(12)}),
        12,
    ),
    (
        PurgeQueue(CHANNEL, 7, "q"),
        ("DELETE", "/queues/q/messages", None),
        (200, {"message_count": ULong(13)}),
        13,
    ),
    (
        DeclareExchange(CHANNEL, 7, "x", "topic", False, True, True, True, ARGUMENTS),
        (
            "PUT",
            "/exchanges/x",
            {
                "type": "topic", "durable": True, "auto_delete": True, "internal": True,
                "arguments": ARGUMENTS,
            },
        ),
        (204, None),
        None,
    ),
    (DeleteExchange(CHANNEL, 7, "x"), ("DELETE", "/exchanges/x", None), (204, None), None),
    (
        Bind(CHANNEL, 7, "q", "x", "k", ARGUMENTS),
        (
            "POST",
            "/bindings",
            {
                "source": "x", "destination_queue": "q", "binding_key": "k",
                "arguments": ARGUMENTS,
            },
        ),
        (204, None),
        None,
    ),
    (
        Unbind(CHANNEL, 7, "d", "x", "k k", to_exchange=True),
        ("DELETE", "/bindings/src=x;dste=d;key=k%20k;args=", None),
        (204, None),
        None,
    ),
    (UpdateSecret(7, b"new", "why"), ("PUT", "/auth/tokens", b"new"), (204, None), None),
]  # fmt: skip


def requested(house: House) -> list[tuple[Any, ...]]:
    from gateway.adapters.performatives.decoding import read_value

    found: list[tuple[Any, ...]] = []
    for op in house.asked(Manage):
        properties = op.message.properties
        body = read_value(op.message.body, 3, len(op.message.body))[0]
        found.append((properties.subject, properties.to, body))
        assert properties.reply_to == "$me" and properties.message_id
    return found


@cuts
@pytest.mark.parametrize(
    ("word", "request_", "response", "result"),
    MANAGED,
    ids=[type(word[0]).__name__ for word in MANAGED],
)
def test_requests(cut: Cut, word: Operation, request_: Any, response: Any, result: Any) -> None:
    house = House(cut)
    house.responses.append(response)
    done(house, word, result)
    assert requested(house) == [request_]


def test_unbinding_with_arguments() -> None:
    house = House()
    other = {"arguments": {"x": 1}, "location": "/bindings/no"}
    there = {"arguments": ARGUMENTS, "location": "/bindings/yes"}
    house.responses += [(200, [other, there]), (204, None), (200, [])]
    done(house, Unbind(CHANNEL, 7, "q", "x", "k", ARGUMENTS))
    assert requested(house) == [
        ("GET", "/bindings?src=x&dstq=q&key=k", None),
        ("DELETE", "/bindings/yes", None),
    ]
    done(house, Unbind(CHANNEL, 7, "q", "x", "k", ARGUMENTS))


def test_a_queue_that_the_server_names() -> None:
    house = House()
    house.responses.append((201, {}))
    answer = house.ask(DeclareQueue(CHANNEL, 7, ""))
    assert isinstance(answer, Done) and answer.result.name.startswith("client.gen-")
    ((_, path, _),) = requested(house)
    assert path == f"/queues/{answer.result.name}"


@pytest.mark.parametrize(
    ("status", "condition"),
    [
        (404, Condition.NOT_FOUND), (403, Condition.ACCESS_REFUSED),
        (409, Condition.PRECONDITION_FAILED), (500, Condition.INTERNAL_ERROR),
    ],
)  # fmt: skip
def test_requests_that_fail(status: int, condition: Condition) -> None:
    house = House()
    house.responses.append((status, "why"))
    expected = Refused(CHANNEL, 7, condition, "why", Lost.LINK)
    assert house.ask(PurgeQueue(CHANNEL, 7, "q")) == expected
    house.responses.append((200, {"message_count": ULong(0)}))
    done(house, PurgeQueue(CHANNEL, 7, "q"), 0)


@pytest.mark.parametrize(
    "word",
    [
        DeleteQueue(CHANNEL, 7, "q", if_empty=True), DeleteExchange(CHANNEL, 7, "x", True),
        Subscribe(CHANNEL, 7, "q", exclusive=True), Prefetch(CHANNEL, 7, 0, 5),
        Flow(CHANNEL, 7, False),
    ],
    ids=lambda word: type(word).__name__,
)  # fmt: skip
def test_operations_that_1_0_lacks(word: Operation) -> None:
    house = House()
    answer = house.ask(word)
    assert isinstance(answer, Refused)
    assert (answer.condition, answer.lost) == (Condition.NOT_IMPLEMENTED, Lost.LINK)
    assert house.said == []


def test_a_peer_without_management() -> None:
    house = House()
    house.client.connection.opened.offered_capabilities = None
    answer = house.ask(DeclareQueue(CHANNEL, 7, "q"))
    assert isinstance(answer, Refused) and answer.condition is Condition.NOT_IMPLEMENTED
    done(house, DeclareQueue(CHANNEL, 7, "q", passive=True), QueueState("q", 0, 0))
    assert [op.closed for op in house.asked(DetachLink)] == [True]
    answer = house.ask(DeclareQueue(CHANNEL, 7, "missing", passive=True))
    assert isinstance(answer, Refused) and answer.condition is Condition.NOT_FOUND


def test_addresses() -> None:
    for product, version, form in (
        ("RabbitMQ", "4.2.0", "v2"), ("RabbitMQ", "3.13.7", "v1"), ("RabbitMQ", "", "v1"),
        ("amqp-gateway", "0.1.0", "v2"), ("qpid", "9", "plain"),
    ):  # fmt: skip
        assert places.form_of(Peer(product=product, product_version=version)) == form
    assert places.exchange("v2", "x/y", "") == "/exchanges/x%2Fy"
    assert places.exchange("v2", "", "a b") == "/queues/a%20b"
    assert places.exchange("v1", "x", "k") == "/exchange/x/k"
    assert places.exchange("v1", "", "q") == "/amq/queue/q"
    assert places.exchange("plain", "x", "k") == "x/k"


# --- ends --------------------------------------------------------------------------------------


@cuts
def test_ending_a_session(cut: Cut) -> None:
    house = House(cut)
    subscribed(house)
    house.client.send(Publish(CHANNEL, message(b"x"), True, False))
    house.run()
    done(house, EndSession(CHANNEL, 7))
    assert len(house.asked(DetachLink)) == 2
    assert len(house.asked(EndSession)) == 1
    with pytest.raises(LocalError):
        house.client.outlet(CHANNEL)
    house.client.send(BeginSession(CHANNEL, 7))
    house.run()
    assert house.told(Done) == [Done(CHANNEL, 7)]
    subscribed(house)


@cuts
def test_losing_a_session(cut: Cut) -> None:
    house = House(cut)
    subscribed(house)
    house.server.send(SessionLost(0, Condition.RESOURCE_LOCKED, "locked"))
    house.client.send(Subscribe(CHANNEL, 7, "q", "other"))
    house.run()
    assert house.heard == [
        Refused(CHANNEL, 7, Condition.RESOURCE_LOCKED, "locked", Lost.SESSION),
        SessionLost(CHANNEL, Condition.RESOURCE_LOCKED, "locked"),
    ]
    house.heard.clear()
    house.client.send(BeginSession(CHANNEL, 7))
    house.run()
    assert house.told(Done) == [Done(CHANNEL, 7)]


@cuts
@pytest.mark.parametrize("by_server", [True, False])
def test_closing(cut: Cut, by_server: bool) -> None:
    house = House(cut)
    subscribed(house)
    one, other = (house.server, house.client) if by_server else (house.client, house.server)
    one.send(Close(None, ""))
    house.run()
    assert house.heard[-1] == Closed(None, "", theirs=by_server)
    assert house.said[-1] == Closed(None, "", theirs=not by_server)
    (detach,) = house.asked(DetachLink)
    assert detach.lost and not detach.closed
    assert one.closing and other.closing


def test_requests_under_way_when_the_connection_is_lost() -> None:
    house = House()
    words = [
        Subscribe(CHANNEL, 1, "q"), Fetch(CHANNEL, 2, "q"), Select(CHANNEL, 3),
        DeclareQueue(CHANNEL, 4, "q"), AttachTarget(CHANNEL, 5, "l", "n", "", Terminus("q")),
        AttachSource(CHANNEL, 6, "m", "o", "", Terminus("q")), EndSession(CHANNEL, 7),
    ]  # fmt: skip
    for word in words[:-1]:
        house.client.send(word)
    found = house.client.lost()
    assert sorted(op.token for op in found[:-1]) == [1, 2, 3, 4, 5, 6]
    assert {type(op) for op in found[:-1]} == {Refused}
    assert {op.lost for op in found[:-1]} == {Lost.CONNECTION}
    assert isinstance(found[-1], Closed)


def test_many_words_in_random_pieces() -> None:
    chance = random.Random("1.0")
    house = House(lambda: iter(lambda: chance.choice([1, 5, 30, 100, 5000]), 0))
    done(house, SelectConfirms(CHANNEL, 7))
    subscribed(house)
    published, delivered = [], []
    for _ in range(60):
        for _ in range(chance.randrange(20)):
            body = chance.randbytes(chance.choice([0, 10, 300, 5000]))
            if chance.random() < 0.5:
                published.append(body)
                said = message(body, key=chance.choice("qr"))
                house.client.send(Publish(CHANNEL, said, True, False))
            else:
                delivered.append(body)
                house.put("q", message(body))
        house.run()
    assert sorted(op.message.body for op in house.asked(Publish)) == sorted(published)
    assert [op.message.body for op in house.told(Deliver)] == delivered
    (*_, last) = house.told(Confirm)
    assert last.sequence == len(published)
    house.client.send(Settle(CHANNEL, 0, True, Outcome.ACCEPT))
    house.run()
    asked = [Settle(op.channel, n, False, cast(Outcome, op.outcome))
             if isinstance(op, SettleMany) else op
             for op in house.asked(Settle, SettleMany)
             for n in (op.deliveries if isinstance(op, SettleMany) else [0])]  # fmt: skip
    assert len(asked) == len(delivered) and {op.outcome for op in asked} == {Outcome.ACCEPT}
