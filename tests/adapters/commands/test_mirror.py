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
from tests.adapters.commands.couple import Couple, message
from tests.adapters.commands.house import VHOST, House
from tests.pair import Cut, single, sized, whole

cuts = pytest.mark.parametrize("cut", [whole, single, sized(7), sized(1500)])


@pytest.fixture
def house() -> House:
    made = House()
    made.queue("test")
    return made


def send(link: str, body: bytes, name: str = "", **properties: object) -> SendTo:
    return SendTo(1, "t", link, name, message(body, **properties), True)


def listen(link: str, window: int = 10, name: str = "", **options: object) -> Listen:
    return Listen(1, "t", link, link, name, window, **options)  # type: ignore[arg-type]


@cuts
def test_a_queue(house: House, cut: Cut) -> None:
    couple = Couple(house, cut=cut)
    assert couple.open("7", "te") == ""
    assert couple.ask(send("7", b"small", "st", message_id="1")) == ""
    large = bytes(range(250)) * 140
    assert couple.ask(send("7", large, "st", priority=3)) == ""
    assert couple.ask(listen("7", 1, "st")) == "st"
    (first,) = couple.delivered()
    assert (first.consumer, first.delivery, first.redelivered) == ("7", 1, False)
    assert first.message.body == b"small" and first.message.key == "test"
    assert first.message.properties.message_id == "1"
    couple.ask(Acknowledge(1, "t", 1))
    (second,) = couple.delivered()
    assert second.message.body == large and second.message.properties.priority == 3
    assert couple.ask(GiveBack(1, "t", "7", 2)) is True
    (again,) = couple.delivered()
    assert again.redelivered and again.delivery == 3 and again.message.body == large
    couple.ask(Acknowledge(1, "t", 999))
    couple.ask(CloseDestination(1, "t", "7"))
    couple.ask(EndSession(1, "t"))
    couple.say(Close())
    assert couple.told(Closed) == [Closed(None, "", False)]
    assert house.broker.vhosts["/test"].queues["test"].depth == 0


@cuts
def test_transactions(house: House, cut: Cut) -> None:
    couple = Couple(house, cut=cut, transacted=True)
    couple.open("1", "test")
    couple.ask(send("1", b"forgotten"))
    couple.ask(Rollback(1, "t"))
    for body in (b"a", b"b", b"c"):
        couple.ask(send("1", body))
    couple.ask(listen("1", 1))
    assert couple.bodies() == []
    couple.ask(Commit(1, "t"))
    assert couple.bodies() == [b"a"]
    couple.ask(Acknowledge(1, "t", 1))
    assert couple.bodies() == [b"b"], "an acknowledgement frees a place at once"
    couple.ask(Rollback(1, "t"))
    assert couple.bodies() == [], "what is unsettled again is not sent again"
    couple.ask(Acknowledge(1, "t", 1))
    assert couple.bodies() == [], "nor does it free another place"
    couple.ask(Acknowledge(1, "t", 2))
    assert couple.bodies() == [b"c"]
    couple.ask(Commit(1, "t"))
    couple.leave()
    queue = house.broker.vhosts["/test"].queues["test"]
    assert (queue.depth, queue.unsettled) == (0, 0), "what was sent is confirmed (§3.3.4)"


@cuts
def test_flow_and_windows(house: House, cut: Cut) -> None:
    couple = Couple(house, cut=cut)
    couple.open("1", "test")
    couple.ask(PauseHandle(1, "t", "1", True))
    couple.ask(listen("1", 2))
    for body in (b"a", b"b", b"c"):
        couple.ask(send("1", body))
    assert couple.bodies() == []
    couple.ask(PauseHandle(1, "t", "1", False))
    assert couple.bodies() == [b"a", b"b"]
    couple.ask(PauseHandle(1, "t", "1", True))
    couple.ask(Acknowledge(1, "t", 1))
    assert couple.bodies() == []
    couple.ask(PauseHandle(1, "t", "1", False))
    assert couple.bodies() == [b"c"]


@cuts
def test_unreliable(house: House, cut: Cut) -> None:
    couple = Couple(house, cut=cut)
    couple.open("1", "test")
    couple.ask(listen("1", 1, no_ack=True))
    for body in (b"a", b"b", b"c"):
        couple.ask(send("1", body))
    assert couple.bodies() == [b"a", b"b", b"c"]


@cuts
def test_looking(house: House, cut: Cut) -> None:
    couple = Couple(house, cut=cut)
    couple.open("1", "test")
    for number in range(7):
        couple.ask(send("1", b"%d" % number, application={"odd": number % 2}))
    index = couple.ask(Query(1, "t", "1", ""))
    assert (index.numbers, index.more) == ([0, 1, 2, 3, 4, 5, 6], 0)
    assert couple.ask(Query(1, "t", "1", "", 4)).numbers == [4, 5, 6]
    odd = couple.ask(Query(1, "t", "1", "", 0, "odd = 1", "text/x-sql"))
    assert odd.numbers == [1, 3, 5]
    looked = couple.ask(Browse(1, "t", "1", 3))
    assert (looked.number, looked.name, looked.message.body) == (3, "test", b"3")
    assert couple.ask(Browse(1, "t", "1", 77)) is None
    couple.ask(listen("1", 100))
    assert len(couple.bodies()) == 7
    assert couple.ask(Browse(1, "t", "1", 3)) is None


@cuts
def test_topics(house: House, cut: Cut) -> None:
    one, two = Couple(house, "one", cut), Couple(house, "two", cut)
    for couple in (one, two):
        couple.open("1", "news.", Service.TOPIC)
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
    two = Couple(house, "two", cut)
    two.open("1", "news.", Service.TOPIC)
    two.ask(listen("1", 5, "sport", identifier="mine"))
    assert two.bodies() == [b"late"], "a durable subscription goes on"
    assert two.ask(EndSubscription(1, "t", "1", "sport", "mine")) == ""
    refused = two.ask(EndSubscription(1, "t", "1", "sport", "mine"))
    assert (refused.condition, refused.lost) == (Condition.NOT_FOUND, Lost.LINK)


@cuts
def test_temporary_destinations(house: House, cut: Cut) -> None:
    one, two = Couple(house, "one", cut), Couple(house, "two", cut)
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
def test_peers(house: House, cut: Cut) -> None:
    """A request, its reader by queue service, and the answer to the private queue."""
    asker, server = Couple(house, "asker", cut), Couple(house, "server", cut)
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
def test_messages_in_parts_and_over_connections(house: House, cut: Cut) -> None:
    body = bytes(range(250)) * 200
    digest = hashlib.sha1(body).hexdigest()
    couple = Couple(house, "sender", cut, restartable=True)
    couple.open("1", "test")
    start = message(body[:1000], message_id="large")
    assert couple.ask(Prepare(1, "t", "1", start, len(body), digest)) == 1000
    couple.say(Continue(1, None, "1", "", body[1000:30_000], False))
    couple.leave()
    couple = Couple(house, "sender", cut, restartable=True)
    couple.open("1", "test")
    have = couple.ask(Prepare(1, "t", "1", start, len(body), digest))
    assert have == 30_000, "what came over the broken connection is there"
    assert couple.ask(Continue(1, "t", "1", "", body[have:], True, True)) == ""
    couple.open("2", "test")
    couple.ask(listen("2"))
    (large,) = couple.delivered()
    assert large.message.body == body, "prepared, and sent in parts, to the client too"
    assert large.message.properties.message_id == "large"
    assert house.registry.partials.number == 0 == house.registry.partials.octets


def test_contents_that_are_not_what_was_hashed(house: House) -> None:
    couple = Couple(house, restartable=True)
    couple.open("1", "test")
    digest = hashlib.sha1(b"abcdef").hexdigest()
    couple.ask(Prepare(1, "t", "1", message(b"abc"), 6, digest))
    refused = couple.ask(Continue(1, "t", "1", "", b"xyz", True, True))
    assert refused.condition is Condition.PRECONDITION_FAILED, "542"
    assert house.broker.vhosts["/test"].queues["test"].depth == 0
    assert house.registry.partials.number == 0


def test_too_large_to_be_prepared_costs_the_channel(house: House) -> None:
    house.broker.state.limits.max_message = 1000
    couple = Couple(house, restartable=True)
    couple.open("1", "test")
    refused = couple.ask(Prepare(1, "t", "1", message(b"abc"), 5000))
    assert refused.condition is Condition.CONTENT_TOO_LARGE and refused.lost is Lost.SESSION
    assert [lost.channel for lost in couple.told(SessionLost)] == [1]


@cuts
def test_the_words_of_other_versions(house: House, cut: Cut) -> None:
    couple = Couple(house, cut=cut)
    assert couple.ask(DeclareQueue(1, "t", "test", passive=True)) == QueueState("test", 0, 0)
    assert couple.ask(DeclareQueue(1, "t", "none", passive=True)).condition is Condition.NOT_FOUND
    made = couple.ask(DeclareQueue(1, "t", "", exclusive=True))
    assert made.name.startswith("tmp/")
    assert couple.ask(Subscribe(1, "t", "test", "reader")) == "reader"
    for body in (b"a", b"b", b"c"):
        sent = message(body)
        sent.key = "test"
        couple.say(Publish(1, sent, False, False))
    found = couple.delivered()
    assert [(op.consumer, op.message.body) for op in found] == [
        ("reader", b"a"), ("reader", b"b"), ("reader", b"c"),
    ]  # fmt: skip
    a, b, c = (op.delivery for op in found)
    couple.say(Settle(1, b, False, O.ACCEPT))
    queue = house.broker.vhosts["/test"].queues["test"]
    assert queue.unsettled == 3, "accepted out of turn: not said yet"
    couple.say(Settle(1, a, False, O.ACCEPT))
    assert queue.unsettled == 1
    couple.say(Settle(1, c, False, O.RELEASE))
    (again,) = couple.delivered()
    assert again.redelivered
    with pytest.raises(LocalError):
        couple.client.send(DeclareQueue(1, "t", "x", durable=True))


def test_a_mistake_costs_the_handle_only(house: House) -> None:
    couple = Couple(house)
    couple.open("1")
    couple.open("2", "test")
    refused = couple.ask(send("1", b"x", "nowhere"))
    assert (refused.condition, refused.lost) == (Condition.NOT_FOUND, Lost.LINK)
    assert couple.ask(send("2", b"y")) == ""
    with pytest.raises(LocalError):
        couple.client.send(send("1", b"z"))


def test_as_in_the_original_server_it_costs_the_channel(house: House) -> None:
    couple = Couple(house, handle_errors="channel")
    couple.open("1")
    refused = couple.ask(send("1", b"x", "nowhere"))
    assert (refused.condition, refused.lost) == (Condition.NOT_FOUND, Lost.SESSION)
    assert [lost.condition for lost in couple.told(SessionLost)] == [Condition.NOT_FOUND]


def test_a_deleted_queue_closes_the_handles_that_listen(house: House) -> None:
    couple = Couple(house)
    couple.open("1", "test")
    couple.ask(listen("1"))
    vhost = house.broker.vhosts["/test"]
    vhost.remove_queue(vhost.queues["test"])
    couple.run()
    assert couple.told(Cancelled) == [Cancelled(1, "1")]


def test_a_client_name_is_active_once(house: House) -> None:
    one = Couple(house, "same")
    second = house.guest(mechanisms=("ANONYMOUS",))
    said = second.says(
        b"\x80\x01", w.ConnectionResponse("NONE"), w.ConnectionOpen(0, VHOST, "same")
    )
    assert said[-1].reply_code == 320
    second.leaves()
    one.leave()
    Couple(house, "same").leave()


def test_a_message_to_all_queues(house: House) -> None:
    house.queue("other")
    couple = Couple(house)
    couple.open("1")
    couple.ask(send("1", b"all"))
    queues = house.broker.vhosts["/test"].queues
    assert [queues[name].depth for name in ("test", "other")] == [1, 1]


def test_expiry_is_a_date(house: House) -> None:
    couple = Couple(house)
    couple.open("1", "test")
    now = house.broker.state.now
    couple.ask(send("1", b"stale", absolute_expiry_time=now - 5000))
    couple.ask(send("1", b"fresh", absolute_expiry_time=now + 60_000))
    couple.ask(listen("1"))
    (fresh,) = couple.delivered()
    assert fresh.message.body == b"fresh"
    assert fresh.message.properties.absolute_expiry_time == now + 60_000


def test_several_channels_interleave(house: House) -> None:
    couple = Couple(house, limits=Limits(frame_max=1024))
    couple.ask(BeginSession(2, "t"))
    couple.open("1", "test")
    couple.ask(send("1", b"x" * 5000))
    couple.ask(EndSession(2, "t"))
    couple.ask(listen("1"))
    assert [len(body) for body in couple.bodies()] == [5000]


def test_every_command_was_said_by_one_of_us(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
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
        fresh = House()
        fresh.queue("test")
        test(fresh, whole)
    couple = Couple(house)
    couple.guest.says(b"\x00\x03\x0e\x01\xce")
    assert seen == {command.name for command in BY_RECORD.values()}
