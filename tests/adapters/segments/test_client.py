"""The client role: against our server with a broker."""

from typing import Any

import pytest

from gateway.adapters import Credentials, Limits, Role
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.content import SEGMENTS
from gateway.adapters.segments.encoding import write_texts
from gateway.adapters.segments.engine import Engine
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.splicing import delivery_properties
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import BY_RECORD, HEADER
from gateway.bodies import File, Spool, SpooledBody, unnamed
from gateway.errors import Condition, LocalError, Lost
from gateway.message import Message
from gateway.operations import (
    Acquire,
    BeginSession,
    Bind,
    BranchStatus,
    BranchTimeout,
    Close,
    Closed,
    Commit,
    CommitBranch,
    Confirm,
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
    Fetched,
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
    Prefetch,
    PrepareBranch,
    Publish,
    PurgeQueue,
    QueueState,
    Recover,
    RecoverBranches,
    Refused,
    Returned,
    Rollback,
    RollbackBranch,
    Select,
    SelectBranches,
    SelectConfirms,
    SessionLost,
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
from tests.adapters.client_talk import ClientTalk, message
from tests.adapters.segments.serving import LIMITS, Decoder, Said, Served, names


class Talk(ClientTalk):
    """A client of ours, and our server with a broker."""

    def __init__(self, beside: "Talk | None" = None, **options: Any) -> None:
        options.setdefault("limits", LIMITS)
        served = None if beside is None else beside.served
        self.served: Served = Served(beside=served, **options)
        limits = options["limits"]
        engine = Engine("0-10", Role.CLIENT, credentials=Credentials(), limits=limits)
        super().__init__(engine, self._answer)

    def _answer(self, asked: bytes) -> bytes:
        return self.served.octets(asked) if asked else self.served.rest()

    def publish(self, *bodies: bytes, key: str = "q", **given: Any) -> list[Operation]:
        return self.tells(*(Publish(1, message(b, key, **given), False, False) for b in bodies))

    def bodies(self, queue: str = "q") -> list[bytes]:
        """Empty a queue."""
        found = []
        while (fetched := self.done(Fetch(1, "f", queue, True))) is not None:
            found.append(fetched.message.body)
        return found

    @property
    def session(self) -> Any:
        return self.client.sessions[1]

    def ready(self, queue: str = "q") -> int:
        return int(self.done(DeclareQueue(1, "ready", queue, passive=True)).messages)


def delivered(heard: list[Operation]) -> list[Deliver]:
    found = [each for each in heard if isinstance(each, Deliver)]
    assert len(found) == len(heard), heard
    return found


def bodies(heard: list[Operation]) -> list[Any]:
    return [each.message.body for each in delivered(heard)]


# --- topology ------------------------------------------------------------------------------------


def test_topology() -> None:
    talk = Talk()
    alternate = {"alternate-exchange": "amq.fanout"}
    assert talk.done(DeclareExchange(1, 1, "x", "topic", arguments=alternate)) is None
    assert talk.done(FindExchange(1, 2, "x")) == FoundExchange("x", "topic", False, alternate)
    assert talk.done(FindExchange(1, 3, "none")) is None
    assert talk.done(DeclareExchange(1, 3, "x", passive=True)) is None
    assert talk.done(DeclareQueue(1, 4, "q")) == QueueState("q", 0, 0)
    asked = FindBindings(1, 5, "x", "q", "a")
    assert talk.done(asked).queue_not_matched
    assert talk.done(Bind(1, 6, "q", "x", "a")) is None
    assert talk.done(asked) == FoundBindings("q", bindings=True)
    assert talk.done(Unbind(1, 7, "q", "x", "a")) is None
    talk.publish(b"1", b"2")
    assert talk.done(PurgeQueue(1, 8, "q")) == 2
    talk.publish(b"3")
    assert talk.done(DeleteQueue(1, 9, "q")) == 1
    assert talk.done(DeleteExchange(1, 10, "x")) is None
    assert talk.done(Flow(1, 11, False)) is False
    assert talk.done(Synchronize(1, 12)) is None
    assert talk.tells(DeclareQueue(1, None, "silent")) == []
    assert talk.done(DeclareQueue(1, 13, "silent", passive=True)) == QueueState("silent", 0, 0)
    assert talk.done(FindQueue(1, 14, "silent")) == FoundQueue("silent", 0, 0)
    assert talk.done(FindQueue(1, 15, "none")) is None
    assert talk.done(EndSession(1, 16)) is None
    assert talk.done(BeginSession(1, 17)) is None


def test_arguments_of_queues_have_qpids_names_on_the_wire() -> None:
    talk = Talk()
    talk.done(DeclareExchange(1, 0, "x", "fanout"))
    talk.done(DeclareQueue(1, 0, "dead"))
    talk.done(Bind(1, 0, "dead", "x"))
    given = {"x-max-length": 2, "x-dead-letter-exchange": "x", "x-max-priority": 9}
    talk.done(DeclareQueue(1, 1, "q", arguments=given))
    found = talk.done(FindQueue(1, 2, "q"))
    assert {name: found.arguments[name] for name in given} == given
    assert found.arguments["qpid.policy_type"] == "ring"
    talk.publish(b"1", b"2", b"3")
    assert talk.bodies("dead") == [b"1"] and talk.ready() == 2
    reject = {"x-max-length": 1, "x-overflow": "reject-publish"}
    talk.done(DeclareQueue(1, 3, "r", arguments=reject))
    talk.publish(b"1", b"2", key="r")
    assert talk.bodies("r") == [b"1"]


def test_an_empty_name_is_the_last_queue() -> None:
    talk = Talk()
    first = talk.done(DeclareQueue(1, 1, "")).name
    second = talk.done(DeclareQueue(1, 2, "")).name
    assert first and first != second and not first.startswith("amq.")
    talk.done(Bind(1, 3, "", "amq.direct", "k"))
    talk.tells(Publish(1, message(b"x", "k", "amq.direct"), False, False))
    assert talk.done(DeclareQueue(1, 4, "", passive=True)) == QueueState(second, 1, 0)
    assert talk.done(Fetch(1, 5, "", True)).message.body == b"x"


# --- publishes -----------------------------------------------------------------------------------


def test_publishes_are_confirmed_by_one_sync_a_turn() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.done(SelectConfirms(1, 2))
    before = talk.session.sent
    assert talk.publish(*[b"x"] * 10, durable=True) == [Confirm(1, 10, True, True)]
    assert talk.session.sent - before == 11
    assert talk.publish(b"y") == [Confirm(1, 11, False, True)]
    assert not len(talk.session.publishes.sent) and not len(talk.session.awaited)


def test_publishes_that_nobody_asks_about_are_not_followed() -> None:
    talk = Talk()
    before = talk.session.sent
    assert talk.publish(b"x", key="nowhere") == []
    assert talk.session.sent - before == 1 and not len(talk.session.publishes.sent)


def test_returned() -> None:
    talk = Talk()
    lost = message(b"lost", "nowhere")
    back = Returned(1, lost, Condition.NO_ROUTE, "NO_ROUTE")
    (found,) = talk.tells(Publish(1, lost, True, False))
    assert isinstance(found, Returned) and found.message is lost
    assert (found.condition, found.sequence) == (back.condition, 0)
    talk.done(SelectConfirms(1, 1))
    talk.done(DeclareQueue(1, 2, "q"))
    heard = talk.tells(
        Publish(1, message(b"1"), True, False),
        Publish(1, lost, True, False),
        Publish(1, message(b"3", "nowhere"), False, False),
        Publish(1, message(b"4"), False, True),
    )
    one, two, three, confirm = heard
    assert isinstance(one, Returned) and one.message is lost and one.sequence == 2
    assert isinstance(two, Returned) and two.sequence == 3
    assert isinstance(three, Returned) and three.condition is Condition.NO_CONSUMERS
    assert (three.message.body, three.sequence) == (b"4", 4)
    assert confirm == Confirm(1, 4, True, True)


@pytest.mark.parametrize("mandatory", [True, False])
def test_a_publish_that_a_full_queue_refuses(mandatory: bool) -> None:
    talk = Talk()
    limits = {"x-max-length": 2, "x-overflow": "reject-publish"}
    talk.done(DeclareQueue(1, 1, "q", arguments=limits))
    (refused,) = talk.tells(*(Publish(1, message(b"x"), True, False) for _ in range(3)))
    assert isinstance(refused, Returned) and refused.condition is Condition.PRECONDITION_FAILED
    talk.done(PurgeQueue(1, 2, "q"))
    talk.done(SelectConfirms(1, 3))
    heard = talk.tells(*(Publish(1, message(b"x"), mandatory, False) for _ in range(4)))
    assert heard == [Confirm(1, 2, True, True), Confirm(1, 4, True, False)]


def test_flags_of_another_publisher_are_not_passed_on() -> None:
    """A message that came with discard-unroutable is returned if that is asked for now."""
    header = ops.coded(
        0x0401, w.write_delivery_properties(w.DeliveryProperties(True, routing_key="nowhere"))
    )
    lost = Message(SEGMENTS, header, b"x", "", "nowhere", SEGMENTS.essentials(header))
    talk = Talk()
    (found,) = talk.tells(Publish(1, lost, True, False))
    assert isinstance(found, Returned)


@pytest.mark.parametrize("spooled", [True, False])
def test_large_bodies_both_ways(spooled: bool) -> None:
    talk = Talk(spool=Spool(threshold=1000) if spooled else None)
    talk.done(DeclareQueue(1, 1, "q"))
    talk.done(SelectConfirms(1, 1))
    body = bytes(range(256)) * 700
    assert talk.publish(body, b"small") == [Confirm(1, 2, True, True)]
    first, second = (talk.done(Fetch(1, 2, "q", no_ack=True)).message.body for _ in range(2))
    assert first[:] == body and second[:] == b"small"


def test_a_large_body_of_ours_goes_in_portions() -> None:
    """A body in a file is not read into memory as a whole; what comes behind it, waits."""
    limits = Limits(channel_max=0, heartbeat=0, max_message_octets=4 << 20)
    talk = Talk(limits=limits, spool=Spool(threshold=1000))
    talk.done(DeclareQueue(1, 1, "q"))
    body = b"0123456789abcdef" * (3 << 16)
    spooled = SpooledBody(Spool(threshold=1000), File(unnamed(None)))
    spooled.add(body)
    sent = message(b"")
    sent.body = spooled.finish()
    talk.client.send(Publish(1, sent, False, False))
    talk.client.send(Publish(1, message(b"next"), False, False))
    octets = talk.client.output()
    assert (1 << 20) <= sum(map(len, octets)) <= (1 << 20) + 100_000 and talk.client.more
    talk.served.octets(b"".join(octets))
    talk.client.refill()
    talk.carry()
    assert not talk.client.more and not talk.heard, talk.heard
    first, second = (talk.done(Fetch(1, 2, "q", no_ack=True)).message.body for _ in range(2))
    assert first[:] == body and second == b"next"


def test_empty_and_absent_bodies() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"")
    fetched = talk.done(Fetch(1, 2, "q"))
    absent = fetched.message
    assert not absent.header.startswith(b"\0\0\0\2\xff\xff")
    header = b"\0\0\0\2\xff\xff" + absent.header
    talk.tells(Publish(1, Message(SEGMENTS, header, b"", "", "q", absent.essentials), False, False))
    again = talk.done(Fetch(1, 3, "q")).message
    assert again.header == header


# --- consumers -----------------------------------------------------------------------------------


def test_messages_come_and_go() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    given = message(b"one", content_type="text/plain", application={"a": "b"}, durable=True)
    assert talk.tells(Publish(1, given, False, False)) == []
    fetched = talk.done(Fetch(1, 2, "q"))
    assert (fetched.message.body, fetched.remaining) == (b"one", 0)
    assert fetched.message.properties == given.properties
    assert (fetched.message.exchange, fetched.message.key) == ("", "q")
    assert talk.done(Fetch(1, 3, "q")) is None
    talk.tells(Settle(1, fetched.delivery, False, Outcome.RELEASE))
    assert talk.done(Prefetch(1, 4, 10)) is None
    subscribed, again = talk.tells(Subscribe(1, 5, "q", "tag"))
    assert subscribed == Done(1, 5, "tag")
    assert isinstance(again, Deliver) and again.redelivered
    talk.tells(Settle(1, again.delivery, False, Outcome.ACCEPT))
    for body in (b"2", b"3", b"4"):
        (each,) = delivered(talk.publish(body))
        assert each.message.body == body
    talk.tells(Settle(1, each.delivery, True, Outcome.ACCEPT))
    assert talk.done(Unsubscribe(1, 6, "tag")) == "tag"
    assert talk.done(Unsubscribe(1, 7, "nobody")) == "nobody"
    assert not talk.session.deliveries.unsettled and not talk.session.consumers
    assert not len(talk.served.adapter.sessions[1].unsettled)
    assert talk.done(DeleteQueue(1, 8, "q")) == 0


def test_a_consumer_that_leaves_early_gets_nothing() -> None:
    """Its credit would come behind its end, which costs the session."""
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"1")
    asked = (
        Subscribe(1, 2, "q", "tag"), Credit(1, 3, "tag", 0), Unsubscribe(1, 4, "tag"),
        Credit(1, 5, "tag", 10), Flow(1, 6, False), Unsubscribe(1, 7, "tag"), Flow(1, 8, True),
    )  # fmt: skip
    heard = talk.tells(*asked)
    assert {each.token for each in heard if isinstance(each, Done)} == {2, 3, 4, 5, 6, 7, 8}
    assert len(heard) == len(asked) and not talk.session.consumers
    heard = talk.tells(Subscribe(1, 2, "q", "tag"), Unsubscribe(1, 3, "tag"))
    assert heard == [Done(1, 2, "tag"), Done(1, 3, "tag")]
    assert talk.bodies() == [b"1"]


def test_a_prefetch_is_a_window() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"1", b"2", b"3", b"4", b"5")
    talk.done(Prefetch(1, 2, 2))
    _, *first = talk.tells(Subscribe(1, 3, "q", "tag"))
    assert bodies(first) == [b"1", b"2"]
    assert bodies(talk.tells(Settle(1, 2, False, Outcome.ACCEPT))) == [b"3"]
    assert bodies(talk.tells(Settle(1, 3, True, Outcome.ACCEPT))) == [b"4", b"5"]
    assert talk.done(Unsubscribe(1, 4, "tag")) == "tag"
    assert talk.tells(Settle(1, 0, True, Outcome.RELEASE)) == []
    assert talk.bodies() == [b"4", b"5"]


def test_a_prefetch_in_octets() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(*[bytes(400)] * 5)
    talk.done(Prefetch(1, 2, 0, 1000))
    _, *first = talk.tells(Subscribe(1, 3, "q", "tag"))
    assert len(first) == 2
    assert len(talk.tells(Settle(1, 1, False, Outcome.ACCEPT))) == 1


def test_credit() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"1", b"2", b"3", b"4", b"5")
    assert talk.done(Subscribe(1, 2, "q", "tag", credit=0)) == "tag"
    *first, done = talk.tells(Credit(1, 3, "tag", 2))
    assert bodies(first) == [b"1", b"2"] and isinstance(done, Done)
    assert talk.tells(Settle(1, 0, True, Outcome.ACCEPT)) == []
    assert talk.done(Credit(1, 4, "tag", 0)) == 0
    *rest, drained = talk.tells(Credit(1, 5, "tag", 10, True))
    assert bodies(rest) == [b"3", b"4", b"5"] and drained == Done(1, 5, 7)
    assert talk.publish(b"6") == []
    *last, _ = talk.tells(Credit(1, 6, "tag", None))
    assert bodies(last) == [b"6"]
    with pytest.raises(LocalError):
        talk.client.send(Credit(1, 7, "nobody", 1))


def test_flow() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.done(Subscribe(1, 2, "q", "tag", no_ack=True))
    assert talk.done(Flow(1, 3, False)) is False
    assert talk.publish(b"1") == []
    talk.done(DeclareQueue(1, 4, "other"))
    talk.publish(b"2", key="other")
    assert talk.done(Subscribe(1, 5, "other", "more", no_ack=True)) == "more"
    heard = talk.tells(Flow(1, 6, True))
    assert bodies(heard[:2]) == [b"1", b"2"] and heard[2] == Done(1, 6, True)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_outcomes(outcome: Outcome) -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "dead"))
    talk.done(DeclareExchange(1, 2, "x", "fanout"))
    talk.done(Bind(1, 3, "dead", "x"))
    talk.done(DeclareQueue(1, 4, "q", arguments={"x-dead-letter-exchange": "x"}))
    talk.publish(b"1", b"2", b"3")
    held = [talk.done(Fetch(1, 5, "q")).delivery for _ in range(3)]
    talk.tells(Settle(1, held[1], True, outcome), SettleMany(1, held[2:], outcome))
    talk.done(Synchronize(1, 6))
    there = [b"1", b"2", b"3"]
    assert talk.bodies("dead") == (there if outcome is Outcome.REJECT else [])
    assert talk.bodies() == (there if outcome.returns else [])
    assert not talk.session.deliveries.unsettled


def test_accepts_of_a_turn_are_one_command() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(*[b"x"] * 9)
    _, *got = talk.tells(Subscribe(1, 2, "q", "tag"))
    before = talk.session.sent
    talk.tells(*(Settle(1, each.delivery, False, Outcome.ACCEPT) for each in delivered(got)))
    assert talk.session.sent - before == 1
    assert talk.ready() == 0 and not len(talk.served.adapter.sessions[1].unsettled)


def test_recover() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"1", b"2")
    _, *_ = talk.tells(Subscribe(1, 2, "q", "tag"))
    *again, done = sorted(talk.tells(Recover(1, 3, True)), key=lambda each: isinstance(each, Done))
    assert bodies(again) == [b"1", b"2"] and all(each.redelivered for each in delivered(again))
    assert done == Done(1, 3)


def test_browsed_messages_are_acquired() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"1", b"2", b"3")
    _, one, two, _ = talk.tells(Subscribe(1, 2, "q", "tag", copy=True))
    assert isinstance(one, Deliver) and isinstance(two, Deliver)
    talk.tells(Settle(1, one.delivery, False, Outcome.ACCEPT))
    assert talk.ready() == 3, "a copy was settled"
    assert talk.done(Acquire(1, 3, [two.delivery, 99])) == [two.delivery]
    assert talk.done(Acquire(1, 4, [99])) == []
    talk.tells(Settle(1, two.delivery, False, Outcome.ACCEPT))
    assert talk.bodies() == [b"1", b"3"]


def test_selectors_and_no_local() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    arguments = {"x-filter-jms-selector": "n > 1"}
    assert talk.done(Subscribe(1, 2, "q", "some", True, arguments=arguments)) == "some"
    talk.publish(b"no", application={"n": 1})
    assert bodies(talk.publish(b"yes", application={"n": 2})) == [b"yes"]
    assert talk.bodies() == [b"no"]
    talk.done(Unsubscribe(1, 3, "some"))
    assert talk.done(Subscribe(1, 4, "q", "mine", True, no_local=True)) == "mine"
    assert talk.publish(b"own") == []
    other = Talk(talk)
    assert other.publish(b"theirs") == []
    talk.carry()
    assert bodies(talk.heard) == [b"theirs"]


# --- transactions --------------------------------------------------------------------------------


def test_transactions() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.done(Select(1, 2))
    talk.publish(b"x")
    talk.done(Rollback(1, 3))
    assert talk.ready() == 0
    talk.publish(b"x")
    talk.done(Commit(1, 5))
    assert talk.ready() == 1


def test_accepts_are_rolled_back() -> None:
    """The messages stay with their consumer, and can be accepted again."""
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"1", b"2", b"3")
    talk.done(Select(1, 2))
    _, one, two, three = talk.tells(Subscribe(1, 3, "q", "tag"))
    assert isinstance(two, Deliver) and isinstance(three, Deliver)
    talk.tells(Settle(1, three.delivery, False, Outcome.ACCEPT))
    talk.tells(Settle(1, two.delivery, True, Outcome.ACCEPT))
    assert not talk.session.deliveries.unsettled
    talk.done(Rollback(1, 4))
    assert list(talk.session.deliveries.unsettled) == [1, 2, 3]
    talk.tells(Settle(1, two.delivery, True, Outcome.ACCEPT))
    talk.done(Commit(1, 5))
    talk.done(EndSession(1, 6))
    talk.done(BeginSession(1, 7))
    assert talk.bodies() == [b"3"]


# --- the end -------------------------------------------------------------------------------------


def test_a_refusal_costs_the_session() -> None:
    talk = Talk()
    refused, late, lost = talk.tells(
        DeclareQueue(1, 1, "none", passive=True), DeclareQueue(1, 2, "q")
    )
    assert isinstance(refused, Refused) and refused.condition is Condition.NOT_FOUND
    assert refused.lost is Lost.SESSION and refused.token == 1 and "none" in refused.text
    assert isinstance(late, Refused) and late.token == 2
    assert isinstance(lost, SessionLost) and lost.condition is Condition.NOT_FOUND
    assert not talk.client.sessions and not talk.served.adapter.sessions
    assert talk.done(BeginSession(1, 3)) is None
    assert talk.done(DeclareQueue(1, 4, "q")) == QueueState("q", 0, 0)


@pytest.mark.parametrize(
    ("operation", "condition"),
    [
        (Subscribe(1, 1, "none"), Condition.NOT_FOUND),
        (Fetch(1, 1, "none"), Condition.NOT_FOUND),
        (Bind(1, 1, "q", "none"), Condition.NOT_FOUND),
        (PurgeQueue(1, 1, "none"), Condition.NOT_FOUND),
        (DeclareExchange(1, 1, "amq.direct", "topic"), Condition.NOT_ALLOWED),
        (Commit(1, 1), Condition.CHANNEL_ERROR),
        (DeleteQueue(1, 1, "q", if_unused=True), Condition.PRECONDITION_FAILED),
        (Publish(1, message(b"x", "k", "none"), False, False), Condition.NOT_FOUND),
    ],
)
def test_conditions(operation: Operation, condition: Condition) -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.done(Subscribe(1, 2, "q", "tag"))
    *refused, lost = talk.tells(operation)
    assert isinstance(lost, SessionLost) and lost.condition is condition, lost
    expected = 0 if isinstance(operation, Publish) else 1
    assert [each.token for each in refused if isinstance(each, Refused)] == [1] * expected


def test_a_deleted_queue_costs_the_session_of_its_consumer() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.done(Subscribe(1, 2, "q", "tag"))
    other = Talk(talk)
    other.done(DeleteQueue(1, 1, "q"))
    talk.carry()
    (lost,) = talk.heard
    assert isinstance(lost, SessionLost) and lost.condition is Condition.NOT_FOUND
    assert "tag" in lost.text


def test_exclusive_use_is_refused() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.done(Subscribe(1, 2, "q", "tag", exclusive=True))
    refused, lost = Talk(talk).tells(Subscribe(1, 3, "q", "more"))
    assert isinstance(refused, Refused) and refused.condition is Condition.RESOURCE_LOCKED
    assert isinstance(lost, SessionLost)


def test_we_close() -> None:
    talk = Talk()
    talk.client.send(DeclareQueue(1, 1, "q"))
    heard = talk.tells(Close())
    refused, closed = heard
    assert isinstance(refused, Refused) and refused.lost is Lost.CONNECTION
    assert closed == Closed(None, "", theirs=False) and talk.client.closing
    assert talk.client.receive(b"more") == [] and talk.client.lost() == []


def test_accepts_are_written_before_a_close() -> None:
    talk = Talk()
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"1")
    _, one = talk.tells(Subscribe(1, 2, "q", "tag"))
    assert isinstance(one, Deliver)
    talk.tells(Settle(1, one.delivery, False, Outcome.ACCEPT), Close())
    talk.served.lose()
    assert Talk(talk).ready() == 0


def test_the_server_closes() -> None:
    talk = Talk()
    talk.served.adapter.send(Close(Condition.RESOURCE_ERROR, "no more"))
    talk.client.send(DeclareQueue(1, 1, "q"))
    talk.heard += talk.client.receive(b"".join(talk.served.adapter.output()))
    refused, closed = talk.heard
    assert isinstance(refused, Refused) and refused.token == 1
    assert closed == Closed(Condition.CONNECTION_FORCED, "no more")
    assert b"".join(talk.client.output()).endswith(b"\x01\x0c\0\0"), "close-ok"


def test_the_socket_is_lost() -> None:
    talk = Talk()
    talk.client.send(DeclareQueue(1, 1, "q"))
    refused, closed = talk.client.lost()
    assert isinstance(refused, Refused) and isinstance(closed, Closed)
    assert closed.condition is Condition.CONNECTION_FORCED


def test_what_cannot_be_said() -> None:
    talk = Talk()
    for operation in (
        Bind(1, 1, "x", "y", to_exchange=True),
        DeclareExchange(1, 1, "x", internal=True),
        Deliver(1, "t", 1, False, message(b"")),
        BeginSession(1, 2),
        BeginSession(0, 2),
        DeclareQueue(7, 1, "q"),
        DeclareQueue(1, 1, "q" * 256),
        Publish(1, message(b"", "q" * 256), True, False),
    ):
        with pytest.raises(LocalError):
            talk.client.send(operation)
        assert talk.client.output() == []
    assert talk.done(DeclareQueue(1, 1, "q")) == QueueState("q", 0, 0), "numbers are still right"


# --- a server in octets --------------------------------------------------------------------------


class Server:
    """Writes the frames of a server, and reads those of our client."""

    def __init__(self, opened: bool = True, **options: Any) -> None:
        options.setdefault("credentials", Credentials())
        self.client = Engine("0-10", Role.CLIENT, **options)
        self._decoder = Decoder(from_client=True)
        self.heard: list[Operation] = []
        assert self.hears() == []
        self.heard += self.client.receive(HEADER)
        if opened:
            self.client.send(Open("open", "/", "guest"))
            self.says(0, self.start("PLAIN"))
            assert names(self.hears()) == ["connection.start-ok"]
            self.says(0, w.ConnectionTune(256, 65535, 0, 65535))
            assert names(self.hears()) == ["connection.tune-ok", "connection.open"]
            assert self.says(0, w.ConnectionOpenOk()) == [
                Done(0, "open", self.client.handshake.peer)
            ]
            self.client.send(BeginSession(1, "begin"))
            attach, timeout, point = self.hears()
            assert (attach.name, timeout.record.timeout) == ("session.attach", 0)
            assert point.record.command_id == 0
            self.name = attach.record.name
            assert self.says(1, w.SessionAttached(self.name)) == [Done(1, "begin")]
            assert self.says(1, w.SessionCommandPoint(0, 0)) == []

    @staticmethod
    def start(*mechanisms: str) -> Any:
        return w.ConnectionStart(None, write_texts(mechanisms), write_texts(["en_US"]))

    def says(self, channel: int, *records: Any) -> list[Operation]:
        """Controls and commands."""
        octets = b""
        for record in records:
            if BY_RECORD[type(record)].control:
                octets += control(channel, ops.write_control(record))
            else:
                octets += command(channel, ops.write_command(record))
        return self.client.receive(octets) + self.client.found()

    def hears(self) -> list[Said]:
        return self._decoder.read(b"".join(self.client.output()))


def test_login_by_challenges() -> None:
    server = Server(opened=False)
    server.says(0, server.start("PLAIN", "EXTERNAL"))
    (started,) = server.hears()
    assert started.record.mechanism == "PLAIN" and started.record.response == b"\0guest\0guest"
    server.says(0, w.ConnectionSecure())
    (secured,) = server.hears()
    assert secured.record.response == b"\0guest\0guest"
    server.says(0, w.ConnectionTune(10, 5000, 0, 30))
    server.client.send(Open("open", "there", "guest"))
    tuned, opened = server.hears()
    assert (tuned.record.channel_max, tuned.record.max_frame_size) == (10, 5000)
    assert opened.record.virtual_host == "there" and opened.record.insist


@pytest.mark.parametrize(
    ("limit", "least", "most", "agreed"),
    [(60, 0, 120, 60), (60, 0, 30, 30), (0, 0, 120, 120), (60, 90, 120, 90), (60, 0, None, 60)],
)
def test_heartbeats_are_agreed(limit: int, least: int, most: int | None, agreed: int) -> None:
    server = Server(opened=False, limits=Limits(heartbeat=limit))
    server.says(0, server.start("PLAIN"), w.ConnectionTune(10, None, least, most))
    _, tuned = server.hears()
    assert tuned.record.heartbeat == agreed
    assert server.client.heartbeat.interval == agreed


def test_heartbeats() -> None:
    server = Server(limits=Limits(heartbeat=10))
    for now, beats in ((0, 0), (5, 1), (10, 1), (15, 1)):
        server.client.excuse_silence()
        assert server.client.tick(now) == []
        assert names(server.hears()) == ["connection.heartbeat"] * beats
    assert server.says(0, w.ConnectionHeartbeat()) == []
    *_, closed = [each for now in (20, 30, 40, 50) for each in server.client.tick(now)]
    assert isinstance(closed, Closed) and "missed heartbeats from server" in closed.text


@pytest.mark.parametrize(
    ("control", "condition", "text"),
    [
        (Server.start("GSSAPI"), Condition.NOT_ALLOWED, "GSSAPI"),
        (w.ConnectionTune(), Condition.FRAME_ERROR, "start"),
        (w.ConnectionStartOk(), Condition.FRAME_ERROR, "of a server is unknown"),
        (w.ConnectionClose(402, "no"), Condition.INVALID_PATH, "no"),
    ],
)
def test_handshakes_that_fail(control: Any, condition: Condition, text: str) -> None:
    server = Server(opened=False)
    (closed,) = server.says(0, control)
    assert isinstance(closed, Closed) and closed.condition is condition and text in closed.text
    assert server.client.closing and len(server.hears()) == 1


def test_a_wrong_password() -> None:
    server = Server(opened=False)
    server.says(0, server.start("PLAIN"))
    (closed,) = server.says(0, w.ConnectionClose(320, "Authentication failed"))
    assert isinstance(closed, Closed) and closed.condition is Condition.ACCESS_REFUSED


def test_frames_that_are_too_small() -> None:
    server = Server(opened=False)
    server.says(0, server.start("PLAIN"))
    (closed,) = server.says(0, w.ConnectionTune(10, 100))
    assert isinstance(closed, Closed) and closed.condition is Condition.FRAME_ERROR


def test_a_server_that_has_not_proved_itself() -> None:
    server = Server(opened=False, credentials=Credentials(mechanism="SCRAM-SHA-256"))
    server.says(0, server.start("SCRAM-SHA-256"))
    (closed,) = server.says(0, w.ConnectionTune(10))
    assert isinstance(closed, Closed) and closed.condition is Condition.ACCESS_REFUSED


def test_a_redirect_is_a_refusal() -> None:
    server = Server(opened=False)
    server.client.send(Open("open", "/", "guest"))
    server.says(0, server.start("PLAIN"), w.ConnectionTune(10))
    (closed,) = server.says(0, w.ConnectionRedirect("other:5672"))
    assert isinstance(closed, Closed) and closed.text == "redirected to other:5672"
    assert names(server.hears())[-1] == "connection.close"


@pytest.mark.parametrize("octets", [b"AMQP\0\0\x09\x01", b"HTTP/1.1 400"])
def test_another_protocol(octets: bytes) -> None:
    for cut in (1, 3, 20):
        client = Engine("0-10", Role.CLIENT, credentials=Credentials())
        assert b"".join(client.output()) == HEADER
        found = [
            each
            for at in range(0, len(octets), cut)
            for each in client.receive(octets[at : at + cut])
        ]
        (closed,) = found
        assert isinstance(closed, Closed) and closed.condition is Condition.NOT_IMPLEMENTED


@pytest.mark.parametrize("code", range(5))
def test_an_attach_that_is_refused(code: int) -> None:
    server = Server()
    server.client.send(BeginSession(2, "two"))
    server.hears()
    refused, lost = server.says(2, w.SessionDetached(b"any", code))
    assert isinstance(refused, Refused) and refused.token == "two"
    assert isinstance(lost, SessionLost) and lost.channel == 2
    assert list(server.client.sessions) == [1]


def test_an_exception_as_broker_j_sends_it() -> None:
    server = Server()
    server.client.send(DeclareQueue(1, "q", "none", passive=True))
    assert names(server.hears()) == ["queue.declare", "queue.query"]
    found = server.says(
        1,
        w.ExecutionException(404, 0, description="Queue: none not found"),
        w.SessionFlush(completed=True),
        w.SessionRequestTimeout(0),
        w.SessionDetach(server.name),
    )
    refused, lost = found
    assert isinstance(refused, Refused) and refused.condition is Condition.NOT_FOUND
    assert lost == SessionLost(1, Condition.NOT_FOUND, "Queue: none not found")
    completed, timeout, detached = server.hears()
    assert completed.record.commands == ((0, 0),) and timeout.record.timeout == 0
    assert detached.name == "session.detached" and detached.record.name == server.name


def test_both_sides_detach_at_once() -> None:
    server = Server()
    server.client.send(EndSession(1, "end"))
    assert server.says(1, w.SessionDetach(server.name)) == [Done(1, "end")]
    assert names(server.hears()) == ["session.detach", "session.detached"]
    assert server.says(1, w.SessionDetached(server.name, 0)) == []
    server.client.send(BeginSession(1, "again"))
    assert names(server.hears())[0] == "session.attach"


def test_numbers_wrap_around() -> None:
    server = Server()
    session = server.client.sessions[1]
    session.sent = (1 << 32) - 1
    server.client.send(Select(1, "select"))
    server.client.send(Synchronize(1, "sync"))
    server.hears()
    found = server.says(1, w.SessionCompleted((((1 << 32) - 1, 0),), timely_reply=True))
    assert found == [Done(1, "select"), Done(1, "sync")]
    (known,) = server.hears()
    assert known.name == "session.known-completed"


def test_completions_in_any_order() -> None:
    """Publishes are confirmed in order, each once."""
    server = Server()
    server.client.send(SelectConfirms(1, None))
    for _ in range(4):
        server.client.send(Publish(1, message(b"x"), False, False))
    server.hears()
    assert server.says(1, w.SessionCompleted(((2, 2),))) == []
    assert server.says(1, w.MessageReject(((1, 1),), 0, "full")) == []
    assert server.says(1, w.SessionCompleted(((0, 0), (2, 2)))) == [Confirm(1, 1, False, True)]
    assert server.says(1, w.SessionCompleted(((0, 3),))) == [
        Confirm(1, 2, False, False),
        Confirm(1, 4, True, True),
    ]
    assert server.says(1, w.SessionCompleted(((0, 4),))) == []


def test_producers_are_stopped() -> None:
    """As Broker-J does while a queue is too long."""
    server = Server()
    stop = (w.MessageSetFlowMode("", 0), w.MessageStop(""))
    assert server.says(1, *stop) == [Flow(1, None, False)]
    assert server.says(1, w.MessageFlow("", 0, 0xFFFFFFFF)) == [Flow(1, None, True)]
    server.client.send(Done(1, None, True))
    (completed,) = server.hears()
    assert completed.record.commands == ((0, 2),)


def test_a_delivery_that_nobody_waits_for_goes_back() -> None:
    server = Server()
    assert server.says(1, w.MessageTransfer("nobody", 0)) == []
    released, completed = server.hears()
    assert released.record.transfers == ((0, 0),) and completed.record.commands == ((0, 0),)


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (w.FileDeliver(), 540),
        (w.StreamDeliver(), 540),
        (w.MessageResume("x", "y"), 404),
        (w.QueueDeclare("q"), 503),
        (w.ExecutionResult(0, b"\x04"), 503),
    ],
)
def test_commands_that_cost_the_session(record: Any, code: int) -> None:
    server = Server()
    server.client.send(DeclareQueue(1, "q", "q"))
    server.hears()
    refused, lost = server.says(1, record)
    assert isinstance(refused, Refused) and isinstance(lost, SessionLost)
    exception, detach = server.hears()
    assert exception.record.error_code == code and detach.name == "session.detach"
    assert server.says(1, w.MessageTransfer("c", 0)) == []
    assert server.says(1, w.SessionDetached(server.name)) == []
    assert not server.client.sessions and not server.client.closing


def test_an_interrupted_transfer_starts_over() -> None:
    server = Server()
    server.client.send(Subscribe(1, "subscribe", "q", "c"))
    server.hears()
    assert server.says(1, w.MessageResume("c", "unknown")) == []
    result, completed = server.hears()
    assert ops.read_struct(result.record.value).offset == 0
    assert (result.record.command_id, completed.record.commands) == (0, ((0, 0),))


def test_a_command_before_the_numbers_begin() -> None:
    server = Server()
    server.client.send(BeginSession(2, "two"))
    server.hears()
    server.says(2, w.SessionAttached(b"two"))
    (lost,) = server.says(2, w.ExecutionSync())
    assert isinstance(lost, SessionLost)
    assert server.hears()[0].record.code == 4


def test_result_of_another_kind_costs_the_connection() -> None:
    server = Server()
    server.client.send(FindQueue(1, "q", "q"))
    server.hears()
    *_, closed = server.says(1, w.SessionCompleted(((0, 0),)))
    assert isinstance(closed, Closed) and "QueueQueryResult" in closed.text


def test_headers_of_publishes() -> None:
    """Where it goes, and only the flags that are meant."""
    server = Server()
    session = server.client.sessions[1]
    for mandatory, immediate, confirming, flags in (
        (False, False, False, (False, False)),
        (True, False, False, (False, False)),
        (False, True, False, (True, True)),
        (True, True, False, (False, True)),
        (False, False, True, (False, False)),
    ):
        session.publishes.confirming = confirming
        server.client.send(Publish(1, message(b"x", "k", "e"), mandatory, immediate))
        said = server.hears()
        record = delivery_properties(said[0].header or b"")[0]
        assert (record.exchange, record.routing_key, record.redelivered) == ("e", "k", False)
        assert (record.discard_unroutable, record.immediate) == flags
        explicit = mandatory or immediate or confirming
        assert said[0].record.accept_mode == (0 if explicit else 1)
        assert names(said[1:]) == ["execution.sync"] * explicit


def test_fetched_is_of_its_queue() -> None:
    """Fetches are asked for in a row, and do not see each other's messages."""
    talk = Talk()
    for name in ("a", "b", "c"):
        talk.done(DeclareQueue(1, 1, name))
    talk.publish(b"1", key="a")
    talk.publish(b"3", key="c")
    heard = talk.tells(*(Fetch(1, name, name) for name in ("a", "b", "c")))
    results = {each.token: each.result for each in heard if isinstance(each, Done)}
    assert results["b"] is None
    assert isinstance(results["a"], Fetched) and results["a"].message.body == b"1"
    assert results["c"].message.body == b"3"
    assert not talk.session.consumers


# --- branches ------------------------------------------------------------------------------------


def test_a_branch_is_the_work_of_the_session() -> None:
    talk, xid = Talk(), Xid(1, b"x", b"y")
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"before")
    talk.done(SelectBranches(1, 2))
    assert talk.done(StartBranch(1, 3, xid)) is BranchStatus.OK
    fetched = talk.done(Fetch(1, 4, "q"))
    talk.tells(Settle(1, fetched.delivery, False, Outcome.ACCEPT))
    talk.publish(b"within")
    assert talk.done(EndBranch(1, 5, xid)) is BranchStatus.OK
    assert talk.done(SetBranchTimeout(1, 6, xid, 20)) is None
    assert talk.done(BranchTimeout(1, 7, xid)) == 20
    assert talk.done(PrepareBranch(1, 8, xid)) is BranchStatus.OK
    assert talk.done(RecoverBranches(1, 9)) == [xid]
    assert talk.ready() == 0
    assert talk.done(CommitBranch(1, 10, xid)) is BranchStatus.OK
    assert talk.done(RecoverBranches(1, 11)) == []
    assert talk.bodies() == [b"within"]


def test_a_branch_is_rolled_back() -> None:
    talk, xid = Talk(), Xid(1, b"x")
    talk.done(DeclareQueue(1, 1, "q"))
    talk.publish(b"before")
    talk.done(SelectBranches(1, 2))
    talk.done(StartBranch(1, 3, xid))
    fetched = talk.done(Fetch(1, 4, "q"))
    talk.tells(Settle(1, fetched.delivery, False, Outcome.ACCEPT))
    talk.publish(b"within")
    talk.done(EndBranch(1, 5, xid, suspend=True))
    talk.done(StartBranch(1, 6, xid, resume=True))
    assert talk.done(EndBranch(1, 7, xid, fail=True)) is BranchStatus.ROLLBACK
    assert talk.done(RollbackBranch(1, 8, xid)) is BranchStatus.OK
    again = talk.done(Fetch(1, 9, "q"))
    assert again.redelivered and again.message.body == b"before"
    refused = [each for each in talk.tells(ForgetBranch(1, 10, xid)) if isinstance(each, Refused)]
    assert [each.condition for each in refused] == [Condition.NOT_FOUND]
