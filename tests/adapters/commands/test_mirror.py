"""Our client against our server for every command, bytes cut anywhere."""

import hashlib

import pytest

from gateway.adapters import Limits
from gateway.adapters.commands.frames import BY_RECORD
from gateway.adapters.commands.wire import layouts as w
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import (
    Acknowledge,
    BeginSession,
    Browse,
    Cancelled,
    Close,
    Closed,
    CloseDestination,
    Commit,
    Continue,
    DeclareQueue,
    EndSession,
    EndSubscription,
    GiveBack,
    Listen,
    PauseHandle,
    Prepare,
    Publish,
    Query,
    QueueState,
    Rollback,
    SendTo,
    Service,
    SessionLost,
    Settle,
    Subscribe,
)
from gateway.operations import Outcome as O
from tests.adapters.commands.connected_pair import ConnectedPair, message
from tests.adapters.commands.harness import VHOST, Harness
from tests.pair import Cut, single, sized, whole

cuts = pytest.mark.parametrize("cut", [whole, single, sized(7), sized(1500)])


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.queue("test")
    return made


def send(link: str, body: bytes, name: str = "", **properties: object) -> SendTo:
    return SendTo(1, "t", link, name, message(body, **properties), True)


def listen(link: str, window: int = 10, name: str = "", **options: object) -> Listen:
    return Listen(1, "t", link, link, name, window, **options)  # type: ignore[arg-type]


@cuts
def test_a_queue(harness: Harness, cut: Cut) -> None:
    pair = ConnectedPair(harness, cut=cut)
    assert pair.open("7", "te") == ""
    assert pair.ask(send("7", b"small", "st", message_id="1")) == ""
    large = bytes(range(250)) * 140
    assert pair.ask(send("7", large, "st", priority=3)) == ""
    assert pair.ask(listen("7", 1, "st")) == "st"
    (first,) = pair.delivered()
    assert (first.consumer, first.delivery, first.redelivered) == ("7", 1, False)
    assert first.message.body == b"small" and first.message.key == "test"
    assert first.message.properties.message_id == "1"
    pair.ask(Acknowledge(1, "t", 1))
    (second,) = pair.delivered()
    assert second.message.body == large and second.message.properties.priority == 3
    assert pair.ask(GiveBack(1, "t", "7", 2)) is True
    (again,) = pair.delivered()
    assert again.redelivered and again.delivery == 3 and again.message.body == large
    pair.ask(Acknowledge(1, "t", 999))
    pair.ask(CloseDestination(1, "t", "7"))
    pair.ask(EndSession(1, "t"))
    pair.say(Close())
    assert pair.told(Closed) == [Closed(None, "", False)]
    assert harness.broker.vhosts["/test"].queues["test"].depth == 0


@cuts
def test_transactions(harness: Harness, cut: Cut) -> None:
    pair = ConnectedPair(harness, cut=cut, transacted=True)
    pair.open("1", "test")
    pair.ask(send("1", b"forgotten"))
    pair.ask(Rollback(1, "t"))
    for body in (b"a", b"b", b"c"):
        pair.ask(send("1", body))
    pair.ask(listen("1", 1))
    assert pair.bodies() == []
    pair.ask(Commit(1, "t"))
    assert pair.bodies() == [b"a"]
    pair.ask(Acknowledge(1, "t", 1))
    assert pair.bodies() == [b"b"], "an acknowledgement frees a place at once"
    pair.ask(Rollback(1, "t"))
    assert pair.bodies() == [], "what is unsettled again is not sent again"
    pair.ask(Acknowledge(1, "t", 1))
    assert pair.bodies() == [], "nor does it free another place"
    pair.ask(Acknowledge(1, "t", 2))
    assert pair.bodies() == [b"c"]
    pair.ask(Commit(1, "t"))
    pair.leave()
    queue = harness.broker.vhosts["/test"].queues["test"]
    assert (queue.depth, queue.unsettled) == (0, 0), "what was sent is confirmed (§3.3.4)"


@cuts
def test_flow_and_windows(harness: Harness, cut: Cut) -> None:
    pair = ConnectedPair(harness, cut=cut)
    pair.open("1", "test")
    pair.ask(PauseHandle(1, "t", "1", True))
    pair.ask(listen("1", 2))
    for body in (b"a", b"b", b"c"):
        pair.ask(send("1", body))
    assert pair.bodies() == []
    pair.ask(PauseHandle(1, "t", "1", False))
    assert pair.bodies() == [b"a", b"b"]
    pair.ask(PauseHandle(1, "t", "1", True))
    pair.ask(Acknowledge(1, "t", 1))
    assert pair.bodies() == []
    pair.ask(PauseHandle(1, "t", "1", False))
    assert pair.bodies() == [b"c"]


@cuts
def test_unreliable(harness: Harness, cut: Cut) -> None:
    pair = ConnectedPair(harness, cut=cut)
    pair.open("1", "test")
    pair.ask(listen("1", 1, no_ack=True))
    for body in (b"a", b"b", b"c"):
        pair.ask(send("1", body))
    assert pair.bodies() == [b"a", b"b", b"c"]


@cuts
def test_looking(harness: Harness, cut: Cut) -> None:
    pair = ConnectedPair(harness, cut=cut)
    pair.open("1", "test")
    for number in range(7):
        pair.ask(send("1", b"%d" % number, application={"odd": number % 2}))
    index = pair.ask(Query(1, "t", "1", ""))
    assert (index.numbers, index.more) == ([0, 1, 2, 3, 4, 5, 6], 0)
    assert pair.ask(Query(1, "t", "1", "", 4)).numbers == [4, 5, 6]
    odd = pair.ask(Query(1, "t", "1", "", 0, "odd = 1", "text/x-sql"))
    assert odd.numbers == [1, 3, 5]
    looked = pair.ask(Browse(1, "t", "1", 3))
    assert (looked.number, looked.name, looked.message.body) == (3, "test", b"3")
    assert pair.ask(Browse(1, "t", "1", 77)) is None
    pair.ask(listen("1", 100))
    assert len(pair.bodies()) == 7
    assert pair.ask(Browse(1, "t", "1", 3)) is None


@cuts
def test_topics(harness: Harness, cut: Cut) -> None:
    one, two = ConnectedPair(harness, "one", cut), ConnectedPair(harness, "two", cut)
    for pair in (one, two):
        pair.open("1", "news.", Service.TOPIC)
    one.ask(listen("1", 5, "", no_local=True))
    two.ask(listen("1", 5, "sport", identifier="mine"))
    one.ask(send("1", b"goal", "sport"))
    one.ask(send("1", b"rain", "weather"))
    two.ask(send("1", b"win", "sport"))
    one.run()
    two.run()
    assert one.bodies() == [b"win"], "nothing of its own, and all of the hierarchy"
    (goal, win) = two.delivered()
    assert (goal.message.body, goal.message.exchange, goal.message.key) == (
        b"goal", "amq.topic", "news.sport",
    )  # fmt: skip
    two.say(Acknowledge(1, None, win.delivery))
    two.leave()
    one.ask(send("1", b"late", "sport"))
    two = ConnectedPair(harness, "two", cut)
    two.open("1", "news.", Service.TOPIC)
    two.ask(listen("1", 5, "sport", identifier="mine"))
    assert two.bodies() == [b"late"], "a durable subscription goes on"
    assert two.ask(EndSubscription(1, "t", "1", "sport", "mine")) == ""
    refused = two.ask(EndSubscription(1, "t", "1", "sport", "mine"))
    assert (refused.condition, refused.lost) == (Condition.NOT_FOUND, Lost.LINK)


@cuts
def test_temporary_destinations(harness: Harness, cut: Cut) -> None:
    one, two = ConnectedPair(harness, "one", cut), ConnectedPair(harness, "two", cut)
    name = one.open("1", "", temporary=True)
    assert name.startswith("tmp/") and len(name) == 13
    assert one.open("2", "mine", temporary=True) == "mine"
    two.open("1", name)
    two.ask(send("1", b"answer"))
    refused = two.ask(listen("1"))
    assert refused.condition is Condition.ACCESS_REFUSED
    assert two.open("2", "mine", temporary=True).condition is Condition.ACCESS_REFUSED
    one.ask(listen("1"))
    assert one.bodies() == [b"answer"]
    one.ask(send("2", b"purged"))
    one.open("3", "mine", temporary=True)
    one.ask(listen("3"))
    assert one.bodies() == []
    topic = one.open("4", "", Service.TOPIC, temporary=True)
    two.open("3", topic, Service.TOPIC)
    assert two.ask(listen("3")).condition is Condition.ACCESS_REFUSED
    refused = one.ask(listen("4", identifier="x"))
    assert refused.condition is Condition.NOT_ALLOWED
    one.leave()
    assert two.open("5", name).condition is Condition.NOT_FOUND


@cuts
def test_peers(harness: Harness, cut: Cut) -> None:
    """A request, its reader by queue service, and the answer to the private queue."""
    asker, server = ConnectedPair(harness, "asker", cut), ConnectedPair(harness, "server", cut)
    server.open("1", "test")
    server.ask(listen("1"))
    asker.open("1", "test", Service.PEER)
    asker.ask(send("1", b"what?", message_id="q1"))
    server.run()
    (request,) = server.delivered()
    properties = request.message.properties
    assert properties.correlation_id == "q1" and properties.reply_to
    server.open("2")
    server.ask(send("2", b"that", properties.reply_to, correlation_id="q1"))
    asker.run()
    (answer,) = asker.delivered()
    assert answer.message.body == b"that" and answer.consumer == "1"
    assert answer.message.properties.correlation_id == "q1"
    assert asker.open("2", "nobody", Service.PEER).condition is Condition.NOT_FOUND


@cuts
def test_messages_in_parts_and_over_connections(harness: Harness, cut: Cut) -> None:
    body = bytes(range(250)) * 200
    digest = hashlib.sha1(body).hexdigest()
    pair = ConnectedPair(harness, "sender", cut, restartable=True)
    pair.open("1", "test")
    start = message(body[:1000], message_id="large")
    assert pair.ask(Prepare(1, "t", "1", start, len(body), digest)) == 1000
    pair.say(Continue(1, None, "1", "", body[1000:30_000], False))
    pair.leave()
    pair = ConnectedPair(harness, "sender", cut, restartable=True)
    pair.open("1", "test")
    have = pair.ask(Prepare(1, "t", "1", start, len(body), digest))
    assert have == 30_000, "what came over the broken connection is there"
    assert pair.ask(Continue(1, "t", "1", "", body[have:], True, True)) == ""
    pair.open("2", "test")
    pair.ask(listen("2"))
    (large,) = pair.delivered()
    assert large.message.body == body, "prepared, and sent in parts, to the client too"
    assert large.message.properties.message_id == "large"
    assert harness.registry.partials.number == 0 == harness.registry.partials.octets


def test_contents_with_another_hash(harness: Harness) -> None:
    pair = ConnectedPair(harness, restartable=True)
    pair.open("1", "test")
    digest = hashlib.sha1(b"abcdef").hexdigest()
    pair.ask(Prepare(1, "t", "1", message(b"abc"), 6, digest))
    refused = pair.ask(Continue(1, "t", "1", "", b"xyz", True, True))
    assert refused.condition is Condition.PRECONDITION_FAILED, "542"
    assert harness.broker.vhosts["/test"].queues["test"].depth == 0
    assert harness.registry.partials.number == 0


def test_too_large_to_be_prepared_costs_the_channel(harness: Harness) -> None:
    harness.broker.state.limits.max_message = 1000
    pair = ConnectedPair(harness, restartable=True)
    pair.open("1", "test")
    refused = pair.ask(Prepare(1, "t", "1", message(b"abc"), 5000))
    assert refused.condition is Condition.CONTENT_TOO_LARGE and refused.lost is Lost.SESSION
    assert [lost.channel for lost in pair.told(SessionLost)] == [1]


@cuts
def test_the_words_of_other_versions(harness: Harness, cut: Cut) -> None:
    pair = ConnectedPair(harness, cut=cut)
    assert pair.ask(DeclareQueue(1, "t", "test", passive=True)) == QueueState("test", 0, 0)
    assert pair.ask(DeclareQueue(1, "t", "none", passive=True)).condition is Condition.NOT_FOUND
    made = pair.ask(DeclareQueue(1, "t", "", exclusive=True))
    assert made.name.startswith("tmp/")
    assert pair.ask(Subscribe(1, "t", "test", "reader")) == "reader"
    for body in (b"a", b"b", b"c"):
        sent = message(body)
        sent.key = "test"
        pair.say(Publish(1, sent, False, False))
    found = pair.delivered()
    assert [(op.consumer, op.message.body) for op in found] == [
        ("reader", b"a"), ("reader", b"b"), ("reader", b"c"),
    ]  # fmt: skip
    a, b, c = (op.delivery for op in found)
    pair.say(Settle(1, b, False, O.ACCEPT))
    queue = harness.broker.vhosts["/test"].queues["test"]
    assert queue.unsettled == 3, "accepted out of turn: not said yet"
    pair.say(Settle(1, a, False, O.ACCEPT))
    assert queue.unsettled == 1
    pair.say(Settle(1, c, False, O.RELEASE))
    (again,) = pair.delivered()
    assert again.redelivered
    with pytest.raises(LocalError):
        pair.client.send(DeclareQueue(1, "t", "x", durable=True))


def test_a_mistake_costs_the_handle_only(harness: Harness) -> None:
    pair = ConnectedPair(harness)
    pair.open("1")
    pair.open("2", "test")
    refused = pair.ask(send("1", b"x", "nowhere"))
    assert (refused.condition, refused.lost) == (Condition.NOT_FOUND, Lost.LINK)
    assert pair.ask(send("2", b"y")) == ""
    with pytest.raises(LocalError):
        pair.client.send(send("1", b"z"))


def test_as_in_the_original_server_it_costs_the_channel(harness: Harness) -> None:
    pair = ConnectedPair(harness, handle_errors="channel")
    pair.open("1")
    refused = pair.ask(send("1", b"x", "nowhere"))
    assert (refused.condition, refused.lost) == (Condition.NOT_FOUND, Lost.SESSION)
    assert [lost.condition for lost in pair.told(SessionLost)] == [Condition.NOT_FOUND]


def test_a_deleted_queue_closes_the_handles_that_listen(harness: Harness) -> None:
    pair = ConnectedPair(harness)
    pair.open("1", "test")
    pair.ask(listen("1"))
    vhost = harness.broker.vhosts["/test"]
    vhost.remove_queue(vhost.queues["test"])
    pair.run()
    assert pair.told(Cancelled) == [Cancelled(1, "1")]


def test_a_client_name_is_active_once(harness: Harness) -> None:
    one = ConnectedPair(harness, "same")
    second = harness.peer(mechanisms=("ANONYMOUS",))
    said = second.says(
        b"\x80\x01", w.ConnectionResponse("NONE"), w.ConnectionOpen(0, VHOST, "same")
    )
    assert said[-1].reply_code == 320
    second.disconnect()
    one.leave()
    ConnectedPair(harness, "same").leave()


def test_a_message_to_all_queues(harness: Harness) -> None:
    harness.queue("other")
    pair = ConnectedPair(harness)
    pair.open("1")
    pair.ask(send("1", b"all"))
    queues = harness.broker.vhosts["/test"].queues
    assert [queues[name].depth for name in ("test", "other")] == [1, 1]


def test_expiry_is_a_date(harness: Harness) -> None:
    pair = ConnectedPair(harness)
    pair.open("1", "test")
    now = harness.broker.state.now
    pair.ask(send("1", b"stale", absolute_expiry_time=now - 5000))
    pair.ask(send("1", b"fresh", absolute_expiry_time=now + 60_000))
    pair.ask(listen("1"))
    (fresh,) = pair.delivered()
    assert fresh.message.body == b"fresh"
    assert fresh.message.properties.absolute_expiry_time == now + 60_000


def test_several_channels_interleave(harness: Harness) -> None:
    pair = ConnectedPair(harness, limits=Limits(frame_max=1024))
    pair.ask(BeginSession(2, "t"))
    pair.open("1", "test")
    pair.ask(send("1", b"x" * 5000))
    pair.ask(EndSession(2, "t"))
    pair.ask(listen("1"))
    assert [len(body) for body in pair.bodies()] == [5000]


def test_every_command_was_said_by_one_of_us(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above, together, use all 28."""
    from gateway.adapters.commands import client_outbound, connection, server_channel
    from gateway.adapters.commands.frames import frame as real

    seen: set[str] = set()

    def frame(record: object) -> bytes:
        seen.add(BY_RECORD[type(record)].name)
        return real(record)

    for module in (connection, server_channel, client_outbound):
        monkeypatch.setattr(module, "frame", frame)
    for test in (
        test_a_queue,
        test_transactions,
        test_flow_and_windows,
        test_looking,
        test_topics,
        test_temporary_destinations,
        test_messages_in_parts_and_over_connections,
    ):
        fresh = Harness()
        fresh.queue("test")
        test(fresh, whole)
    pair = ConnectedPair(harness)
    pair.peer.says(b"\x00\x03\x0e\x01\xce")
    assert seen == {command.name for command in BY_RECORD.values()}
