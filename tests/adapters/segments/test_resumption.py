"""Sessions of 0-10 that outlive their connection, as the server keeps them."""

import gc
from typing import Any

import pytest

from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.completion import SERIALS, ReceivedCommands
from gateway.adapters.segments.engine import Engine
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.replay import ReplayLog
from gateway.adapters.segments.session import Session
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import HEADER
from gateway.broker.channel import Channel
from gateway.errors import Condition
from gateway.operations import ReplayRoom, SessionLimits
from gateway.sessions.named import NamedSession, NamedSessions
from gateway.sessions.registry import SessionRegistry
from gateway.sessions.session import Session as ServedSession
from gateway.sessions.session_operations import SessionOperations
from tests.adapters.segments.serving import Client, Said, names
from tests.pair import Users

UNLIMITED = 0xFFFFFFFF
LEAVINGS = (Session, ServedSession, Channel, Engine, NamedSession, SessionOperations)
EMPTY_ARRAY = b"\xf0\0\0\0\0"


def connected(first: Client, user: str = "guest") -> Client:
    """Another connection to the same gateway, logged in."""
    passwords = {"guest": "guest", "other": "other"}
    client = Client(beside=first.served, authority=Users(passwords))
    client.served.receive(HEADER)
    client.control(0, w.ConnectionStartOk(b"", "PLAIN", f"\0{user}\0{user}".encode(), "en_US"))
    client.control(0, w.ConnectionTuneOk())
    client.control(0, w.ConnectionOpen())
    return client


def kept(seconds: int | None = 60, **options: Any) -> Client:
    """A client with a queue and a session that is kept."""
    client = Client(**options).open()
    client.say(w.QueueDeclare("q"))
    (said,) = client.control(1, w.SessionRequestTimeout(seconds))
    assert said.name == "session.timeout"
    return client


def timeout(client: Client, seconds: int | None = 60, channel: int = 1) -> int:
    (said,) = client.control(channel, w.SessionRequestTimeout(seconds))
    granted = said.record.timeout
    assert isinstance(granted, int)
    return granted


def subscribed(client: Client, accept: int = 0) -> None:
    client.say(
        w.MessageSubscribe("q", "d", accept, 0),
        w.MessageFlow("d", 1, UNLIMITED),
        w.MessageFlow("d", 0, UNLIMITED),
    )


def resumed(client: Client, expected: int, channel: int = 1, name: bytes = b"test") -> list[Said]:
    """Attach a kept session, expecting this command of the server next."""
    said = client.control(channel, w.SessionAttach(name))
    assert names(said) == ["session.attached", "session.flush"]
    assert said[1].record.expected and said[1].record.completed
    return client.control(channel, w.SessionExpected(((expected, expected),), EMPTY_ARRAY))


def bodies(said: list[Said]) -> list[Any]:
    return [each.body for each in said if each.name == "message.transfer"]


def heard(client: Client) -> list[Said]:
    """What the server says unasked."""
    client.served.session.follow()
    return client.served.read(client.served.output())


def depth(client: Client, queue: str = "q") -> int:
    return client.served.broker.vhosts["/"].queues[queue].depth


def pass_time(client: Client, seconds: int) -> None:
    state = client.served.broker.state
    state.tick(state.now + 1000 * seconds)


# --- numbers of commands -------------------------------------------------------------------------


def test_commands_that_are_repeated_are_not_performed_again() -> None:
    client = kept()
    client.transfer("q", b"a", sync=False)
    client.served.lose()
    other = connected(client)
    resumed(other, 0)
    (said,) = other.control(1, w.SessionFlush(expected=True))
    assert said.record.commands == ((2, 2),)  # the declaration and the transfer have come
    other.control(1, w.SessionCommandPoint(0, 0))
    octets = command(1, ops.write_command(w.QueueDeclare("other"), True))
    (said,) = other.served.receive(octets + other.transferred("q", b"a"))
    assert (said.name, said.record.commands) == ("session.completed", ((0, 1),))
    assert depth(other) == 1 and "other" not in other.served.broker.vhosts["/"].queues
    other.transfer("q", b"b")
    assert depth(other) == 2


def test_a_session_that_is_new_expects_nothing() -> None:
    client = Client().open()
    (said,) = client.control(1, w.SessionFlush(expected=True))
    assert said.record.commands == ()
    client.say(w.ExecutionSync())
    (said,) = client.control(1, w.SessionFlush(expected=True))
    assert said.record.commands == ((1, 1),)


def test_commands_may_not_be_left_out() -> None:
    client = kept()
    client.served.lose()
    other = connected(client)
    resumed(other, 0)
    (said,) = other.control(1, w.SessionCommandPoint(5, 0))
    assert (said.name, said.record.code) == ("session.detached", 4)


def test_a_gap_over_commands_to_come_and_over_those_that_have_come() -> None:
    client = Client().open()
    client.say(w.QueueDeclare("q"))
    assert not client.control(1, w.SessionGap(((0, 1), (3, 5))))  # 0 has come, 2 is next
    client.transfer("q", b"two")
    (said,) = client.transfer("q", b"six")
    assert said.record.commands == ((0, 6),) and depth(client) == 2


def test_a_gap_while_commands_are_repeated() -> None:
    received = ReceivedCommands()
    assert received.point(SERIALS)
    for _ in range(3):
        received.next()
    assert received.point(SERIALS) and not received.plain
    assert not received.admit()  # the first
    assert received.skip(((0, 3),))  # the second and third have come, 2 and 3 never will
    assert received.plain and received.following & SERIALS == 4
    assert not received.point(9), "commands before it are missing"


def test_gaps_have_a_limit() -> None:
    client = Client().open()
    gaps = tuple((number, number) for number in range(10, 4000, 2))
    (said,) = client.control(1, w.SessionGap(gaps))
    assert (said.name, said.record.code) == ("session.detached", 4)


# --- what the client lacks -----------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(4))
def test_transfers_are_sent_again(cut: int) -> None:
    client = kept()
    subscribed(client)
    for letter in (b"a", b"b", b"c"):
        client.transfer("q", letter)
    client.served.lose()
    assert depth(client) == 0  # they are still unsettled
    other = connected(client)
    said = resumed(other, cut, channel=7)
    assert said[0].name == "session.command-point" and said[0].record.command_id == cut
    assert bodies(said) == [b"a", b"b", b"c"][cut:]
    other.control(7, w.SessionCommandPoint(7, 0))
    other.say(w.MessageAccept(((0, 2),)), channel=7)
    assert not client.served.broker.vhosts["/"].queues["q"].unsettled
    octets = other.transferred("q", b"d").replace(b"\0\1\0\0\0\0", b"\0\7\0\0\0\0")
    assert bodies(other.served.receive(octets)) == [b"d"]


def test_messages_wait_while_the_session_is_away() -> None:
    client = kept()
    subscribed(client, accept=1)
    client.transfer("q", b"a")
    client.served.lose()
    third = connected(client)
    third.attach(1, b"third")
    third.transfer("q", b"b")
    assert depth(third) == 1
    other = connected(client)
    assert bodies(resumed(other, 1)) == [b"b"]


def test_results_and_fates_are_sent_again() -> None:
    client = kept()
    client.say(w.QueueQuery("q"))
    client.transfer("q", b"a", mode=0)
    client.transfer("nowhere", b"b", mode=0)
    client.served.lose()
    said = resumed(connected(client), 0)
    fates = ["execution.result", "message.accept", "message.reject"]
    assert names(said)[1:] == [*fates, "session.completed"], "completions come behind them"
    assert said[1].record.command_id == 1


def test_completed_commands_are_forgotten() -> None:
    client = kept()
    subscribed(client)
    room = client.served.registry.named.room
    for _ in range(3):
        client.transfer("q", b"x" * 1000)
    used = room.used
    assert used > 3000
    client.control(1, w.SessionCompleted(((0, 1),)))
    assert room.used * 3 == used
    client.served.lose()
    said = resumed(connected(client), 1)  # it says less than it has completed
    assert (said[0].name, said[0].record.code) == ("session.detached", 4)
    assert room.used == 0 and depth(client) == 3


def test_a_client_that_knows_nothing_of_the_session() -> None:
    """It would repeat numbers with other commands: the session is lost, and the next is new."""
    client = kept()
    client.served.lose()
    other = connected(client)
    other.control(1, w.SessionAttach(b"test"))
    (said,) = other.control(1, w.SessionExpected((), EMPTY_ARRAY))
    assert (said.name, said.record.code) == ("session.detached", 4)
    other.attach(2, b"test")


def test_a_part_of_a_command_is_sent_again_whole() -> None:
    log = ReplayLog(0, ReplayRoom())
    for number in range(3):
        log.add(bytes([number]))
    assert log.start(((2, 2),), True, 3) == 1
    assert log.start(((3, 3),), False, 3) == 3
    assert log.start((), False, 3) is None
    assert [segment for segment, _, _ in log.since(1)] == [b"\1", b"\2"]


@pytest.mark.parametrize(
    "limits",
    [SessionLimits(octets=5000), SessionLimits(all_octets=5000), SessionLimits(commands=4)],
)
def test_the_log_is_limited(limits: SessionLimits) -> None:
    """The oldest commands are dropped: a client that has them can go on."""
    registry = SessionRegistry(named=NamedSessions(limits))
    room = registry.named.room
    client = kept(registry=registry)
    subscribed(client)
    for number in range(20):
        client.transfer("q", b"%d" % number * 600)
        assert room.used <= 8000
    client.served.lose()
    said = resumed(connected(client), 17)
    assert bodies(said) == [b"%d" % number * 600 for number in (17, 18, 19)]
    client = connected(client)
    client.control(1, w.SessionAttach(b"test", force=True))
    lost = client.control(1, w.SessionExpected(((1, 1),), EMPTY_ARRAY))[0]
    assert (lost.name, lost.record.code) == ("session.detached", 4)
    assert depth(client) == 20


# --- who has a session ---------------------------------------------------------------------------


def test_a_session_that_another_connection_has_is_busy() -> None:
    client = kept()
    other = connected(client)
    (said,) = other.control(1, w.SessionAttach(b"test"))
    assert (said.name, said.record.code) == ("session.detached", 1)
    assert names(client.say(w.ExecutionSync())) == ["session.completed"]


def test_force_takes_it_over_with_its_state() -> None:
    client = kept()
    subscribed(client)
    client.transfer("q", b"a")
    other = connected(client)
    said = other.control(3, w.SessionAttach(b"test", force=True))
    assert names(said) == ["session.attached", "session.flush"]
    (gone,) = heard(client)
    assert (gone.channel, gone.name, gone.record.code) == (1, "session.detached", 1)
    said = other.control(3, w.SessionExpected(((0, 0),), EMPTY_ARRAY))
    assert bodies(said) == [b"a"]
    assert client.control(1, w.SessionDetach(b"test"))[0].record.code == 3


def test_force_moves_a_session_to_another_channel() -> None:
    client = kept()
    subscribed(client)
    client.transfer("q", b"a")
    said = client.control(2, w.SessionAttach(b"test", force=True))
    assert [(each.channel, each.name) for each in said] == [
        (1, "session.detached"),
        (2, "session.attached"),
        (2, "session.flush"),
    ]
    assert bodies(client.control(2, w.SessionExpected(((0, 0),), EMPTY_ARRAY))) == [b"a"]
    client.attach(1, b"fresh")


def test_force_takes_over_a_name_alone_without_a_timeout() -> None:
    client = Client().open()
    client.say(w.QueueDeclare("q"))
    subscribed(client)
    client.transfer("q", b"a")
    other = connected(client)
    said = other.control(3, w.SessionAttach(b"test", force=True))
    assert names(said) == ["session.attached", "session.command-point"]
    assert names(heard(client)) == ["session.detached"]
    assert depth(client) == 1


def test_names_are_apart_by_user() -> None:
    client = kept()
    client.served.lose()
    access = client.served.broker.access
    access.add_user("other", "other")
    access.set_permissions("other", "/", ".*", ".*", ".*")
    connected(client, "other").attach(1, b"test")
    resumed(connected(client), 0)


def test_detached_by_its_client_and_attached_elsewhere() -> None:
    client = kept()
    subscribed(client)
    client.transfer("q", b"a")
    (said,) = client.control(1, w.SessionDetach(b"test"))
    assert (said.name, said.record.code) == ("session.detached", 0)
    client.attach(1, b"fresh")  # the channel is free
    other = connected(client)
    assert bodies(resumed(other, 0, channel=1)) == [b"a"]
    (busy,) = client.control(2, w.SessionAttach(b"test"))
    assert busy.record.code == 1


def test_a_connection_that_is_closed_keeps_its_sessions() -> None:
    client = kept()
    subscribed(client)
    client.transfer("q", b"a")
    (said,) = client.control(0, w.ConnectionClose(200, ""))
    assert said.name == "connection.close-ok"
    assert depth(client) == 0
    assert bodies(resumed(connected(client), 0)) == [b"a"]


def test_commands_that_are_pipelined_behind_the_attach() -> None:
    client = kept()
    client.transfer("q", b"a")
    client.served.lose()
    other = connected(client)
    octets = b"".join(
        control(1, ops.write_control(record))
        for record in (
            w.SessionAttach(b"test"),
            w.SessionExpected(((0, 0),), EMPTY_ARRAY),
            w.SessionCommandPoint(1, 0),
        )
    )
    said = other.served.receive(octets + client.transferred("q") + client.transferred("q"))
    assert names(said) == [
        "session.attached",
        "session.flush",
        "session.command-point",
        "session.completed",
        "session.completed",
    ]
    assert depth(other) == 2


def test_a_session_lost_before_its_commands_are_stored() -> None:
    """They are completed although the connection has gone, and the session waits for that."""
    client = kept()
    served = client.served
    client.say(w.QueueDeclare("stored", durable=True))
    known = w.DeliveryProperties(delivery_mode=2, routing_key="stored")
    header = ops.coded(0x0401, w.write_delivery_properties(known))
    octets = command(1, ops.write_command(w.MessageTransfer("", 0), True), header, b"a") * 2
    other = connected(client)
    served.session.perform(served.adapter.receive(octets))
    served.session.peer_gone(served.adapter.lost())
    assert served.session.finish() and served.session.resting
    octets = control(1, ops.write_control(w.SessionAttach(b"test")))
    other.served.session.perform(other.served.adapter.receive(octets))
    assert other.served.session.has_pending
    assert not other.served.output()
    served.settle()
    assert not served.session.finish() and not other.served.session.has_pending
    assert names(heard(other)) == ["session.attached", "session.flush"]
    said = other.control(1, w.SessionExpected(((0, 0),), EMPTY_ARRAY))
    assert names(said) == ["session.command-point", "message.accept", "session.completed"]
    assert said[2].record.commands == ((0, 3),)


@pytest.mark.parametrize("way", ["force", "detach", "close", "shut"])
def test_a_session_given_up_before_its_commands_are_stored(way: str) -> None:
    """Its connection is lost while it waits for them: they are completed all the same."""
    client = kept()
    served = client.served
    client.say(w.QueueDeclare("stored", durable=True))
    known = w.DeliveryProperties(delivery_mode=2, routing_key="stored")
    header = ops.coded(0x0401, w.write_delivery_properties(known))
    octets = command(1, ops.write_command(w.MessageTransfer("", 0), True), header, b"a")
    other = connected(client)
    attach = control(1, ops.write_control(w.SessionAttach(b"test", force=way == "force")))
    if way == "detach":
        octets += control(1, ops.write_control(w.SessionDetach(b"test")))
    elif way == "close":
        octets += control(0, ops.write_control(w.ConnectionClose(200, "")))
    served.session.perform(served.adapter.receive(octets))
    if way == "force":
        other.served.session.perform(other.served.adapter.receive(attach))
    elif way == "shut":
        served.session.close(Condition.CONNECTION_FORCED, "the gateway stops")
        closed = control(0, ops.write_control(w.ConnectionCloseOk()))
        served.session.perform(served.adapter.receive(closed))
    served.session.peer_gone(served.adapter.lost())
    assert served.session.finish(), "the commands are not stored"
    if way != "force":
        other.served.session.perform(other.served.adapter.receive(attach))
    served.settle()
    assert not served.session.finish()
    assert names(heard(other)) == ["session.attached", "session.flush"]
    said = other.control(1, w.SessionExpected(((0, 0),), EMPTY_ARRAY))
    assert names(said) == ["session.command-point", "message.accept", "session.completed"]
    assert said[2].record.commands == ((0, 2),)


def test_a_transaction_goes_on() -> None:
    client = kept()
    client.say(w.TxSelect())
    client.transfer("q", b"a")
    client.served.lose()
    assert depth(client) == 0
    other = connected(client)
    resumed(other, 0)
    other.control(1, w.SessionCommandPoint(3, 0))
    other.transfer("q", b"b")
    other.say(w.TxCommit())
    assert depth(other) == 2


def test_a_flush_that_is_lost_with_its_connection() -> None:
    """A subscription whose messages wait for a full socket is flushed on the next connection."""
    client = kept()
    client.say(w.MessageSubscribe("q", "d", 1, 0), w.MessageFlow("d", 1, UNLIMITED))
    client.transfer("q", b"a")
    client.served.session.pause()
    client.say(w.MessageFlow("d", 0, 5), w.MessageFlush("d"))
    client.served.lose()
    other = connected(client)
    said = resumed(other, 0)
    assert bodies(said) == [b"a"]
    other.control(1, w.SessionCommandPoint(6, 0))
    assert names(other.say(w.ExecutionSync())) == ["session.completed"]
    assert other.say(w.MessageSetFlowMode("d", 0))  # no credit is left


# --- the end -------------------------------------------------------------------------------------


def test_the_timeout_ends_a_session() -> None:
    client = kept(30)
    client.say(w.QueueDeclare("mine", exclusive=True, auto_delete=True))
    client.say(w.QueueDeclare("ours", exclusive=True))
    subscribed(client)
    client.transfer("q", b"a")
    client.served.lose()
    queues, named = client.served.broker.vhosts["/"].queues, client.served.registry.named
    pass_time(client, 29)
    assert depth(client) == 0 and "mine" in queues and "ours" in queues
    assert [each.key.name for each in named.kept] == [b"test"]
    pass_time(client, 1)
    assert depth(client) == 1 and "mine" not in queues and queues["ours"].owner is None
    assert not named.kept and named.room.used == 0
    assert not client.served.broker.vhosts["/"].clients
    connected(client).attach(1, b"test")  # a new one


def test_a_session_that_was_attached_in_time_does_not_end() -> None:
    client = kept(30)
    client.served.lose()
    pass_time(client, 29)
    other = connected(client)
    resumed(other, 0)
    pass_time(client, 29)
    other.control(1, w.SessionCommandPoint(1, 0))
    assert names(other.say(w.ExecutionSync())) == ["session.completed"]


def test_a_timeout_of_0_ends_it_with_its_attachment() -> None:
    client = kept(0)
    client.served.lose()
    connected(client).attach(1, b"test")
    assert client.served.registry.named.room.used == 0


def test_timeouts_are_limited() -> None:
    client = Client(registry=SessionRegistry(named=NamedSessions(SessionLimits(40)))).open()
    assert [timeout(client, seconds) for seconds in (0, 7, 41, None)] == [0, 7, 40, 40]


def test_sessions_that_are_kept_are_limited() -> None:
    named = NamedSessions(SessionLimits(sessions=3, user_sessions=2))
    client = Client(registry=SessionRegistry(named=named)).open(b"1")
    for channel in (2, 3):
        client.attach(channel, b"%d" % channel)
    assert [timeout(client, channel=channel) for channel in (1, 2, 3)] == [60, 60, 0]
    client.control(2, w.SessionRequestTimeout(0))
    assert timeout(client, channel=3) == 60
    client.served.lose()
    assert sorted(each.key.name for each in named.kept) == [b"1", b"3"]
    other = connected(client)
    other.attach(1, b"4")
    assert timeout(other) == 0
    pass_time(client, 60)
    assert timeout(other) == 60


def test_all_sessions_that_are_kept_are_limited() -> None:
    client = Client(registry=SessionRegistry(named=NamedSessions(SessionLimits(sessions=1)))).open()
    client.attach(2, b"2")
    assert [timeout(client, channel=channel) for channel in (1, 2)] == [60, 0]


def test_a_queue_that_is_deleted_ends_a_kept_session_that_reads_it() -> None:
    client = kept()
    subscribed(client)
    client.served.lose()
    other = connected(client)
    other.attach(1, b"other")
    other.say(w.QueueDelete("q"))
    pass_time(client, 0)
    assert not client.served.registry.named.kept
    connected(client).attach(1, b"test")


def test_a_virtual_host_that_is_deleted_ends_its_sessions() -> None:
    client = kept()
    subscribed(client)
    client.served.lose()
    broker = client.served.broker
    broker.delete_vhost("/")
    broker.create_vhost("/")
    broker.access.set_permissions("guest", "/", ".*", ".*", ".*")
    connected(client).attach(1, b"test")


def test_a_user_who_is_deleted_has_no_sessions() -> None:
    client = kept()
    subscribed(client)
    client.transfer("q", b"a")
    client.served.lose()
    client.served.registry.user_removed("guest")
    assert not client.served.registry.named.kept and depth(client) == 1


def test_what_the_peer_has_completed_is_acknowledged() -> None:
    client = kept()
    subscribed(client, accept=1)
    (said,) = client.control(1, w.SessionCompleted((), timely_reply=True))
    assert said.name == "session.known-completed"


def test_a_thousand_completed_transfers_are_acknowledged_unasked() -> None:
    client = kept(0)
    subscribed(client, accept=1)
    octets = b"".join(client.transferred("q", sync=False) for _ in range(1200))
    assert len(bodies(client.served.receive(octets))) == 1200
    assert not client.control(1, w.SessionCompleted(((0, 998),)))
    (said,) = client.control(1, w.SessionCompleted(((0, 999),)))
    assert (said.name, said.record.commands) == ("session.known-completed", ((0, 999),))
    assert not client.control(1, w.SessionCompleted(((1000, 1199),)))


def test_a_kept_session_holds_no_output_of_its_connection() -> None:
    client = kept()
    subscribed(client)
    served = client.served
    served.session.perform(served.adapter.receive(client.transferred("q", b"x" * 10_000)))
    pending = served.adapter.buffer.pending
    assert len(b"".join(pending)) > 10_000
    served.lose()
    served.session.release()
    assert not pending
    assert bodies(resumed(connected(client), 0)) == [b"x" * 10_000]


def test_a_session_that_was_kept_leaves_no_garbage() -> None:
    client = kept(5)
    other = connected(client)

    def come_and_go() -> None:
        one = connected(other)
        one.attach(1, b"one")
        timeout(one, 5)
        one.say(w.MessageSubscribe("q", "d", 0, 0))
        one.served.lose()
        one.served.session.release()
        two = connected(other)
        resumed(two, 0, name=b"one")
        two.served.lose()
        two.served.session.release()
        pass_time(other, 5)

    come_and_go()
    gc.collect()
    gc.disable()
    try:
        come_and_go()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [each for each in gc.garbage if isinstance(each, LEAVINGS)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not left
