"""The server role of 0-10: commands, completion, credit, settlement, mistakes."""

from itertools import count
from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments import server
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import HEADER, ErrorCode
from gateway.operations import Bind, Closed
from gateway.sessions import session as sessions
from tests.adapters.segments.serving import Client, Said, Served, names
from tests.broker.fakes import Heard

UNLIMITED = 0xFFFFFFFF


@pytest.fixture
def client() -> Client:
    """With a queue ``q``."""
    client = Client().open()
    client.say(w.QueueDeclare("q"))
    return client


def subscribe(client: Client, accept: int = 0, acquire: int = 0, **arguments: Any) -> None:
    octets = write_map(arguments) if arguments else None
    said = client.say(w.MessageSubscribe("q", "d", accept, acquire, arguments=octets))
    assert names(said) == ["session.completed"]


def flow(client: Client, messages: int = UNLIMITED, octets: int = UNLIMITED) -> list[Said]:
    return client.say(w.MessageFlow("d", 1, octets), w.MessageFlow("d", 0, messages))


def bodies(said: list[Said]) -> list[Any]:
    return [each.body for each in said if each.name == "message.transfer"]


def exception(said: list[Said]) -> w.ExecutionException:
    """The one that ends the session."""
    (found,) = [each.record for each in said if each.name == "execution.exception"]
    assert names(said)[-1] == "session.detach"
    return found  # type: ignore[no-any-return]


def ready(client: Client) -> int:
    broker = client.served.broker
    return broker.vhosts["/"].queues["q"].depth


# --- completion ----------------------------------------------------------------------------------


def test_completion_is_told_when_it_is_wanted(client: Client) -> None:
    assert client.transfer("q", sync=False) == []
    (said,) = client.transfer("q")
    assert said.record.commands == ((0, 2),)
    (said,) = client.control(1, w.SessionFlush(completed=True))
    assert said.record.commands == ((0, 2),)
    assert not client.control(1, w.SessionKnownCompleted(((0, 2),)))
    (said,) = client.control(1, w.SessionFlush(True, True, True))[-1:]
    assert said.record.commands == ()


def test_a_thousand_completions_are_told_unasked(client: Client) -> None:
    octets = b"".join(client.transferred("q", sync=False) for _ in range(1000))
    (said,) = client.served.receive(octets)
    assert said.name == "session.completed" and said.record.commands == ((0, 1000),)


def test_commands_in_one_read_have_one_completion(client: Client) -> None:
    said = client.say(*(w.QueueDeclare(f"q{number}") for number in range(50)))
    assert names(said) == ["session.completed"]


def test_numbers_wrap_around() -> None:
    client = Client().open()
    client.control(2, w.SessionAttach(b"other"))
    client.control(2, w.SessionCommandPoint(0xFFFFFFFF, 0))
    (said,) = client.say(w.QueueDeclare("q"), w.QueueDeclare("r"), channel=2)
    assert said.record.commands == ((0xFFFFFFFF, 0),)


def test_a_gap_counts_as_complete(client: Client) -> None:
    assert not client.control(1, w.SessionGap(((1, 9),)))
    (said,) = client.say(w.ExecutionSync())
    assert said.record.commands == ((0, 10),)


def test_publishers_hear_of_the_fate_if_they_ask(client: Client) -> None:
    assert names(client.transfer("q", mode=0)) == ["message.accept", "session.completed"]
    said = client.transfer("nowhere", mode=0)
    assert names(said) == ["message.reject", "session.completed"]
    assert (said[0].record.transfers, said[0].record.code) == (((2, 2),), 1)
    assert names(client.transfer("nowhere", mode=0, flags=1))[-1] == "session.completed"
    assert names(client.transfer("nowhere", mode=1)) == ["session.completed"]
    assert names(client.transfer("nowhere")) == ["session.completed"]


# --- credit --------------------------------------------------------------------------------------


def test_nothing_comes_without_credit_in_both_units(client: Client) -> None:
    subscribe(client)
    client.transfer("q", b"a")
    assert not bodies(client.say(w.MessageFlow("d", 0, 5)))
    assert bodies(client.say(w.MessageFlow("d", 1, UNLIMITED))) == [b"a"]


def test_a_window_moves_with_completion_alone(client: Client) -> None:
    subscribe(client)
    for letter in (b"a", b"b", b"c", b"d"):
        client.transfer("q", letter)
    assert bodies(flow(client, 2)) == [b"a", b"b"]
    assert not bodies(client.say(w.MessageAccept(((0, 1),))))
    assert bodies(client.control(1, w.SessionCompleted(((0, 0),)))) == [b"c"]
    assert bodies(client.control(1, w.SessionCompleted(((0, 0),)))) == []
    assert bodies(client.control(1, w.SessionCompleted(((0, 9),)))) == [b"d"]


def test_credit_of_the_other_mode_does_not_come_back(client: Client) -> None:
    subscribe(client)
    client.say(w.MessageSetFlowMode("d", 0))
    for letter in (b"a", b"b"):
        client.transfer("q", letter)
    assert bodies(flow(client, 1)) == [b"a"]
    assert not bodies(client.control(1, w.SessionCompleted(((0, 9),))))
    assert bodies(client.say(w.MessageFlow("d", 0, 1))) == [b"b"]


def test_flow_mode_is_set_where_no_credit_is_left(client: Client) -> None:
    subscribe(client)
    flow(client, 1)
    assert exception(client.say(w.MessageSetFlowMode("d", 0))).error_code == 409


def test_stop_drops_the_credit(client: Client) -> None:
    subscribe(client)
    flow(client)
    assert names(client.say(w.MessageStop("d"))) == ["session.completed"]
    assert not bodies(client.transfer("q", b"a"))
    assert ready(client) == 1


def test_a_flush_delivers_what_is_there_and_drops_the_rest(client: Client) -> None:
    client.transfer("q", b"a")
    subscribe(client)
    said = client.say(
        w.MessageFlow("d", 1, UNLIMITED), w.MessageFlow("d", 0, 5), w.MessageFlush("d")
    )
    assert names(said) == ["message.transfer", "session.completed"]
    assert not bodies(client.transfer("q", b"b"))
    said = client.say(w.MessageFlow("d", 1, UNLIMITED), w.MessageFlow("d", 0, 1))
    assert bodies(said) == [b"b"]


def test_credit_behind_a_flush_counts_anew(client: Client) -> None:
    for letter in (b"a", b"b", b"c"):
        client.transfer("q", letter)
    subscribe(client)
    said = client.say(
        w.MessageFlow("d", 1, UNLIMITED),
        w.MessageFlow("d", 0, 1),
        w.MessageFlush("d"),
        w.MessageFlow("d", 1, UNLIMITED),
        w.MessageFlow("d", 0, 1),
    )
    assert bodies(said) == [b"a", b"b"]


def test_octets_of_credit_end_deliveries(client: Client) -> None:
    subscribe(client)
    for _ in range(4):
        client.transfer("q", bytes(1000))
    assert len(bodies(flow(client, UNLIMITED, 1500))) == 1  # the second does not fit
    assert not bodies(client.say(w.MessageAccept(((0, 0),))))
    said = client.control(1, w.SessionCompleted(((0, 0),)))
    assert len(bodies(said)) == 1


def test_octets_of_credit_are_those_of_header_and_body(client: Client) -> None:
    """As the conformance tests of Qpid count them."""
    subscribe(client)
    client.say(w.MessageSetFlowMode("d", 0))
    for _ in range(10):
        client.transfer("q", b"abcdefgh")
    size = 19
    said = flow(client, UNLIMITED, 5 * size)
    assert len(bodies(said)) == 5 and len(said[0].header or b"") + 8 == size
    for _ in range(5):
        assert not bodies(client.say(w.MessageFlow("d", 1, size - 1)))
        assert len(bodies(client.say(w.MessageFlow("d", 1, 1)))) == 1


def test_a_flush_ends_at_a_message_that_does_not_fit(client: Client) -> None:
    client.transfer("q", bytes(1000))
    subscribe(client)
    assert not bodies(flow(client, 5, 500))
    assert names(client.say(w.MessageFlush("d"))) == ["session.completed"]
    assert not bodies(client.say(w.MessageFlow("d", 1, 5000)))
    assert len(bodies(client.say(w.MessageFlow("d", 0, 1)))) == 1


# --- settlement ----------------------------------------------------------------------------------


def test_what_is_released_comes_again(client: Client) -> None:
    subscribe(client)
    client.transfer("q", b"a")
    flow(client, 2)
    said = client.say(w.MessageRelease(((0, 0),), True))
    assert bodies(said) == [b"a"]
    assert b"\x04\x01" in (said[0].header or b"")
    client.say(w.MessageAccept(((1, 1),)))
    client.control(1, w.SessionDetach(b"test"))
    assert ready(client) == 0


def redelivered(said: list[Said]) -> list[bool]:
    found = []
    for each in said:
        if each.name == "message.transfer":
            assert each.header is not None
            at = each.header.index(b"\x04\x01")
            found.append(bool(each.header[at + 2] & 4))
    return found


def test_released_messages_are_redelivered_if_the_client_says_so(client: Client) -> None:
    subscribe(client)
    client.transfer("q", b"a")
    flow(client)
    said = client.say(w.MessageRelease(((0, 0),)))
    assert (bodies(said), redelivered(said)) == ([b"a"], [False])
    said = client.say(w.MessageRelease(((1, 1),), set_redelivered=True))
    assert redelivered(said) == [True]
    said = client.say(w.MessageRelease(((2, 2),)))
    assert redelivered(said) == [True]  # it keeps its mark
    client.control(1, w.SessionDetach(b"test"))
    client.attach(1, b"test")
    subscribe(client)
    assert redelivered(flow(client)) == [True]


def test_released_messages_come_back_to_their_places(client: Client) -> None:
    for letter in (b"a", b"b", b"c", b"d"):
        client.transfer("q", letter)
    subscribe(client)
    assert bodies(flow(client, 3)) == [b"a", b"b", b"c"]
    client.say(w.MessageRelease(((0, 0), (2, 2))))
    said = client.say(w.MessageFlow("d", 0, 9))
    assert bodies(said) == [b"a", b"c", b"d"]


def test_unknown_transfers_are_ignored(client: Client) -> None:
    subscribe(client)
    client.transfer("q", b"a")
    flow(client)
    for record in (w.MessageAccept(((0, 0),)), w.MessageRelease(((0, 7),)), w.MessageReject()):
        assert names(client.say(record)) == ["session.completed"]
    assert ready(client) == 0


def test_what_is_not_accepted_goes_back_with_the_session(client: Client) -> None:
    subscribe(client)
    client.transfer("q", b"a")
    assert bodies(flow(client)) == [b"a"]
    assert names(client.control(1, w.SessionDetach(b"test"))) == ["session.detached"]
    assert ready(client) == 1


def test_rejected_messages_go_to_the_alternate_exchange() -> None:
    client = Client().open()
    client.say(w.QueueDeclare("dead"), w.ExchangeBind("dead", "amq.fanout", ""))
    client.say(w.QueueDeclare("q", "amq.fanout"))
    subscribe(client)
    client.transfer("q", b"a")
    flow(client)
    client.say(w.MessageReject(((0, 0),)))
    assert client.served.broker.vhosts["/"].queues["dead"].depth == 1


def test_dead_letters_say_why_they_were_rejected() -> None:
    client = Client().open()
    client.say(w.QueueDeclare("dead"), w.ExchangeBind("dead", "amq.fanout", ""))
    client.say(w.QueueDeclare("q", "amq.fanout"))
    subscribe(client)
    for _ in range(2):
        client.transfer("q", b"a")
    flow(client)
    client.say(w.MessageReject(((0, 0),), 2, "nobody wants it"), w.MessageReject(((1, 1),)))
    dead = client.served.broker.vhosts["/"].queues["dead"]
    first, second = (entry.message.added_headers or {} for entry in dead.backlog.lanes[0].ready)
    assert (first["x-reject-code"], first["x-reject-text"]) == (2, "nobody wants it")
    assert first["x-death"][0]["reason"] == second["x-death"][0]["reason"] == "rejected"
    assert "x-reject-code" not in second


def test_browsed_messages_stay_until_they_are_acquired(client: Client) -> None:
    for letter in (b"a", b"b"):
        client.transfer("q", letter)
    subscribe(client, acquire=1)
    assert bodies(flow(client)) == [b"a", b"b"]
    client.say(w.MessageAccept(((5, 5),)))
    assert ready(client) == 2
    said = client.say(w.MessageAcquire(((1, 1),)))
    result = ops.read_struct(said[0].record.value)
    assert result.transfers == ((1, 1),) and ready(client) == 1
    client.say(w.MessageAccept(((0, 1),)))
    assert ready(client) == 1  # what was not acquired is not settled
    assert client.served.broker.vhosts["/"].queues["q"].unsettled == 0


def test_a_window_of_copies(client: Client) -> None:
    """Copies that wait for the window are those of messages that are there then."""
    for letter in (b"a", b"b", b"c", b"d"):
        client.transfer("q", letter)
    subscribe(client, acquire=1)
    assert bodies(flow(client, 2)) == [b"a", b"b"]
    client.say(w.MessageSubscribe("q", "taker", 1, 0), w.MessageFlow("taker", 1, UNLIMITED))
    said = client.say(w.MessageFlow("taker", 0, 3))
    assert bodies(said) == [b"a", b"b", b"c"]
    client.transfer("q", b"e")
    assert bodies(client.control(1, w.SessionCompleted(((0, 1),)))) == [b"d", b"e"]
    said = client.say(w.MessageAcquire(((0, 6),)))
    assert ops.read_struct(said[0].record.value).transfers == ((5, 6),)
    assert ready(client) == 0
    client.say(w.MessageRelease(((5, 6),)))
    assert ready(client) == 2


def test_copies_may_be_acquired_after_the_subscription(client: Client) -> None:
    for letter in (b"a", b"b"):
        client.transfer("q", letter)
    subscribe(client, acquire=1)
    assert bodies(flow(client)) == [b"a", b"b"]
    client.say(w.MessageCancel("d"))
    said = client.say(w.MessageAcquire(((1, 1),)))
    assert ops.read_struct(said[0].record.value).transfers == ((1, 1),)
    client.say(w.MessageAccept(((1, 1),)))
    assert ready(client) == 1 and client.served.broker.vhosts["/"].queues["q"].unsettled == 0


def acquired(said: list[Said]) -> Any:
    (result,) = [each.record for each in said if each.name == "execution.result"]
    return ops.read_struct(result.value).transfers


def test_what_is_acquired_with_accept_mode_none_is_gone(client: Client) -> None:
    for letter in (b"a", b"b", b"c", b"d"):
        client.transfer("q", letter)
    subscribe(client, accept=1, acquire=1)
    assert bodies(flow(client)) == [b"a", b"b", b"c", b"d"]
    queue = client.served.broker.vhosts["/"].queues["q"]
    assert (queue.depth, queue.unsettled) == (4, 0)
    said = client.say(w.MessageAcquire(((1, 2),)))
    assert acquired(said) == ((1, 2),) and (queue.depth, queue.unsettled) == (2, 0)
    client.say(w.MessageRelease(((0, 3),)))
    assert acquired(client.say(w.MessageAcquire(((1, 3),)))) == ((3, 3),)
    client.control(1, w.SessionDetach(b"test"))
    assert (queue.depth, queue.unsettled) == (1, 0)


def test_messages_that_were_seen_may_be_acquired_until_they_are_completed(client: Client) -> None:
    for letter in (b"a", b"b"):
        client.transfer("q", letter)
    subscribe(client, accept=1, acquire=1)
    assert bodies(flow(client, 2)) == [b"a", b"b"]
    client.control(1, w.SessionCompleted(((0, 0),)))
    assert len(client.served.session.channels[1].window.unsettled) == 1
    assert acquired(client.say(w.MessageAcquire(((0, 1),)))) == ((1, 1),)
    assert not client.served.session.channels[1].window.unsettled and ready(client) == 1


def test_the_oldest_that_were_seen_are_forgotten(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_BROWSED", 8)
    subscribe(client, accept=1, acquire=1)
    flow(client)
    for _ in range(100):
        client.transfer("q")
        assert len(client.served.session.channels[1].window.unsettled) <= 8
    first, end = acquired(client.say(w.MessageAcquire(((0, 99),))))[0]
    assert end == 99 and 4 <= end + 1 - first <= 8
    assert ready(client) == first


def test_only_one_acquires(client: Client) -> None:
    client.transfer("q", b"a")
    subscribe(client, acquire=1)
    flow(client)
    client.say(w.MessageSubscribe("q", "e", 1, 0))
    client.say(w.MessageFlow("e", 1, UNLIMITED), w.MessageFlow("e", 0, 1))
    said = client.say(w.MessageAcquire(((0, 0),)))
    assert ops.read_struct(said[0].record.value).transfers == ()


def test_acquired_messages_go_back(client: Client) -> None:
    client.transfer("q", b"a")
    subscribe(client, acquire=1)
    flow(client)
    client.say(w.MessageAcquire(((0, 0),)))
    assert ready(client) == 0
    client.control(1, w.SessionDetach(b"test"))
    assert ready(client) == 1


# --- queues of Qpid -------------------------------------------------------------------------------


def declare(client: Client, name: str, **arguments: Any) -> None:
    octets = write_map({name.replace("__", "."): value for name, value in arguments.items()})
    said = client.say(w.QueueDeclare(name, arguments=octets, exclusive=True, auto_delete=True))
    assert names(said) == ["session.completed"]


def test_a_last_value_queue(client: Client) -> None:
    declare(client, "values", qpid__last_value_queue=1)
    for value in (1, 2):
        properties = w.DeliveryProperties(routing_key="values")
        headers = w.MessageProperties(application_headers=write_map({"qpid.LVQ_key": "k"}))
        header = ops.coded(0x0401, w.write_delivery_properties(properties))
        header += ops.coded(0x0403, w.write_message_properties(headers))
        record = ops.write_command(w.MessageTransfer(""), True)
        client.served.receive(command(1, record, header, bytes([value])))
    client.say(w.MessageSubscribe("values", "d", 1, 0))
    assert bodies(flow(client)) == [b"\2"]


def test_a_queue_with_a_timeout_outlives_its_session(client: Client) -> None:
    declare(client, "lasting", qpid__auto_delete_timeout=5)
    declare(client, "passing", qpid__max_count=5)
    client.say(w.MessageSubscribe("lasting", "d", 1, 0))
    assert names(client.control(1, w.SessionDetach(b"test"))) == ["session.detached"]
    broker = client.served.broker
    queues = broker.vhosts["/"].queues
    assert "lasting" in queues and "passing" not in queues
    broker.state.tick(broker.state.now + 4000)
    assert "lasting" in queues
    broker.state.tick(broker.state.now + 2000)
    assert "lasting" not in queues


# --- bindings ------------------------------------------------------------------------------------


def bound(client: Client, key: str | None = None, **arguments: Any) -> set[str]:
    """What does not match, of the bindings of ``q``."""
    octets = write_map(arguments) if arguments else None
    said = client.say(w.ExchangeBound("amq.match", "q", key, octets))
    result = ops.read_struct(said[0].record.value)
    return {name for name in result.__slots__ if getattr(result, name) is True}


def bind(client: Client, key: str, **arguments: Any) -> None:
    octets = write_map(arguments) if arguments else None
    said = client.say(w.ExchangeBind("q", "amq.match", key, octets))
    assert names(said) == ["session.completed"]


def test_binding_again_changes_nothing(client: Client) -> None:
    bind(client, "k", a="1")
    bind(client, "k", a="2")
    bind(client, "k")
    assert bound(client, "k", a="1") == set()
    assert bound(client, "k", a="2") == bound(client, a="2") == {"args_not_matched"}
    assert bound(client, "other") == {"key_not_matched"}
    bind(client, "other", a="2")
    assert bound(client, "k", a="2") == {"args_not_matched"}, "both are those of one binding"


@pytest.mark.parametrize("channel", [1, 2])
def test_a_binding_is_removed_by_its_key(client: Client, channel: int) -> None:
    """Also by a session that has not made it, and all of those that others have made."""
    bind(client, "k", a="1")
    bind(client, "other", a="1")
    broker = client.served.broker
    other, heard = broker.attach("/", "guest", "another"), Heard()
    for letter in "12":
        op = Bind(1, None, "q", "amq.match", "k", {"b": letter})
        other.channel(1 if letter == "1" else 2, heard).topology.bind(op)
    client.attach(2, b"second")
    said = client.say(w.ExchangeUnbind("q", "amq.match", "k"), channel=channel)
    assert names(said) == ["session.completed"]
    assert bound(client, "k") == {"key_not_matched"}
    assert bound(client, "other") == set()
    vhost = broker.vhosts["/"]
    assert (vhost.bindings, len(vhost.qualified)) == (1, 1)
    said = client.say(w.ExchangeUnbind("q", "amq.match", "k"), channel=channel)
    assert exception(said).error_code == 404


@pytest.mark.parametrize("record", [w.ExchangeBind("q", "", "k"), w.ExchangeUnbind("q", "", "q")])
def test_nothing_is_bound_to_the_default_exchange(client: Client, record: Any) -> None:
    assert exception(client.say(record)).error_code == ErrorCode.INVALID_ARGUMENT


# --- transactions --------------------------------------------------------------------------------


def test_a_transaction_covers_transfers_and_accepts(client: Client) -> None:
    subscribe(client)
    client.transfer("q", b"a")
    flow(client, 1)
    client.say(w.TxSelect())
    client.say(w.MessageAccept(((0, 0),)))
    client.transfer("q", b"b")
    assert ready(client) == 0
    client.say(w.TxRollback())
    assert ready(client) == 0  # the client still holds "a"
    client.say(w.MessageRelease(((0, 0),)))
    assert ready(client) == 1
    client.transfer("q", b"c")
    client.say(w.TxCommit())
    assert ready(client) == 2


@pytest.mark.parametrize(("end", "left"), [(w.TxRollback(), 1), (w.TxCommit(), 0)])
def test_a_message_that_was_accepted_is_released_before_a_rollback(
    client: Client, end: Any, left: int
) -> None:
    """As the Python client rolls back; after a commit it stays accepted."""
    subscribe(client)
    client.transfer("q", b"a")
    flow(client, 1)
    client.say(w.TxSelect())
    client.say(w.MessageAccept(((0, 0),)))
    client.say(w.MessageRelease(((0, 0),), True), end)
    assert ready(client) == left
    client.say(w.MessageRelease(((0, 0),)), w.TxRollback())
    assert ready(client) == left
    (said,) = bodies(flow(client, 1)) or [b""]
    assert said == (b"a" if left else b"")


@pytest.mark.parametrize("record", [w.TxCommit(), w.TxRollback()])
def test_a_transaction_is_selected_first(client: Client, record: Any) -> None:
    assert exception(client.say(record)).error_code == 409


# --- sessions ------------------------------------------------------------------------------------


def test_names_of_sessions_are_unique(client: Client) -> None:
    (said,) = client.control(2, w.SessionAttach(b"test"))
    assert (said.name, said.record.code) == ("session.detached", 1)
    (said,) = client.control(1, w.SessionAttach(b"second"))
    assert (said.name, said.record.code) == ("session.detached", 2)
    said_to_both = client.control(2, w.SessionAttach(b"test", force=True))
    assert names(said_to_both) == ["session.detached", "session.attached", "session.command-point"]


def test_commands_need_a_session_and_a_number() -> None:
    client = Client().open()
    (said,) = client.say(w.QueueDeclare("q"), channel=7)
    assert (said.name, said.record.code) == ("session.detached", 3)
    client.control(7, w.SessionAttach(b"seven"))
    (said,) = client.say(w.QueueDeclare("q"), channel=7)
    assert (said.name, said.record.code) == ("session.detached", 4)
    assert "q" not in client.served.broker.vhosts["/"].queues


def test_a_session_may_be_attached_again_after_an_exception(client: Client) -> None:
    exception(client.say(w.QueueDelete("nowhere")))
    assert client.say(w.QueueDeclare("ignored")) == []
    client.control(1, w.SessionDetached(b"test", 0))
    client.attach(1, b"test")
    assert names(client.say(w.QueueDeclare("r"))) == ["session.completed"]
    assert "ignored" not in client.served.broker.vhosts["/"].queues


def another(client: Client, record: Any) -> list[Said]:
    """What another session of the connection is told."""
    client.attach(2, b"other")
    said = client.say(record, channel=2)
    client.control(2, w.SessionDetach(b"other"))
    return said


@pytest.mark.parametrize(
    "record",
    [
        w.QueueDeclare("mine", exclusive=True, auto_delete=True),
        w.QueueDeclare("mine"),
        w.QueueDelete("mine"),
        w.QueuePurge("mine"),
        w.MessageSubscribe("mine", "d", 0, 0),
        w.ExchangeBind("mine", "amq.direct", "key"),
        w.ExchangeUnbind("mine", "amq.fanout", ""),
    ],
    ids=lambda record: record.NAME,
)
def test_exclusive_queues_belong_to_one_session(client: Client, record: Any) -> None:
    """0-10, queue.declare, exclusive, exception "in-use"."""
    client.say(w.QueueDeclare("mine", exclusive=True, auto_delete=True))
    client.say(w.ExchangeBind("mine", "amq.fanout", ""))
    assert exception(another(client, record)).error_code == ErrorCode.RESOURCE_LOCKED
    assert names(client.say(w.QueueDeclare("mine", exclusive=True))) == ["session.completed"]


def test_a_passive_declaration_needs_no_exclusive_use(client: Client) -> None:
    """As with Qpid's broker, for queues of replies."""
    client.say(w.QueueDeclare("mine", exclusive=True, auto_delete=True))
    client.say(w.QueueDeclare("durable", exclusive=True, durable=True))
    passive = w.QueueDeclare("mine", passive=True)
    assert names(another(client, passive)) == ["session.completed"]
    for name, code in (("mine", 405), ("q", 405), ("durable", None)):
        said = another(client, w.QueueDeclare(name, passive=True, exclusive=True))
        failed = [each for each in said if each.name == "execution.exception"]
        assert [each.record.error_code for each in failed] == ([code] if code else [])


def test_a_queue_that_is_not_auto_delete_is_free_behind_its_session(client: Client) -> None:
    record = w.QueueDeclare("mine", exclusive=True)
    client.say(record)
    client.transfer("mine", b"a")
    assert exception(another(client, record)).error_code == ErrorCode.RESOURCE_LOCKED
    client.control(1, w.SessionDetach(b"test"))
    queue = client.served.broker.vhosts["/"].queues["mine"]
    assert queue.depth == 1 and queue.owner is None
    assert names(another(client, record)) == ["session.completed"]
    client.attach(1, b"again")
    client.say(w.MessageSubscribe("mine", "d", 0, 0))
    assert exception(another(client, record)).error_code == ErrorCode.RESOURCE_LOCKED


def test_the_delay_of_auto_delete_begins_with_the_end_of_the_session(client: Client) -> None:
    octets = write_map({"qpid.auto_delete_timeout": 5})
    record = w.QueueDeclare("mine", arguments=octets, exclusive=True, auto_delete=True)
    client.say(record)
    client.control(1, w.SessionDetach(b"test"))
    state, queues = client.served.broker.state, client.served.broker.vhosts["/"].queues
    client.attach(1, b"in time")
    client.say(record)
    state.tick(state.now + 6000)
    assert "mine" in queues
    client.control(1, w.SessionDetach(b"in time"))
    state.tick(state.now + 4000)
    assert "mine" in queues
    state.tick(state.now + 2000)
    assert "mine" not in queues


def test_exclusive_queues_end_with_their_session(client: Client) -> None:
    client.say(w.QueueDeclare("mine", exclusive=True, auto_delete=True))
    client.say(w.MessageSubscribe("mine", "m", 1, 0))
    assert names(client.control(1, w.SessionDetach(b"test"))) == ["session.detached"]
    assert "mine" not in client.served.broker.vhosts["/"].queues


def test_bound_asks_for_the_key_apart_from_a_queue_that_is_not_bound(client: Client) -> None:
    """As Qpid's broker answers."""
    client.say(w.ExchangeBind("q", "amq.direct", "used"), w.QueueDeclare("unused"))

    def missing(queue: str, key: str) -> tuple[bool, bool]:
        said = client.say(w.ExchangeBound("amq.direct", queue, key))
        (found,) = [each.record.value for each in said if each.name == "execution.result"]
        found = ops.read_struct(found) if isinstance(found, bytes) else found
        return found.queue_not_matched, found.key_not_matched

    assert missing("q", "used") == (False, False)
    assert missing("q", "other") == (False, True)
    assert missing("unused", "used") == (True, False)
    assert missing("unused", "other") == (True, True)


def test_a_deleted_queue_costs_the_session_of_its_subscriber(client: Client) -> None:
    subscribe(client)
    flow(client, 1)
    client.attach(2, b"two")
    said = client.say(w.QueueDelete("q"), channel=2)
    assert names([each for each in said if each.channel == 2]) == ["session.completed"]
    assert exception([each for each in said if each.channel == 1]).error_code == 408


def test_a_subscription_without_credit_hears_of_its_deleted_queue_later(client: Client) -> None:
    """The Python client deletes the queue of its last link first, and cancels the others then."""
    subscribe(client)
    assert names(client.say(w.QueueDelete("q"))) == ["session.completed"]
    for record in (w.MessageSetFlowMode("d", 0), w.MessageStop("d"), w.MessageFlush("d")):
        assert names(client.say(record)) == ["session.completed"]
    client.say(w.QueueDeclare("q"))
    assert names(client.say(w.MessageCancel("d"))) == ["session.completed"]
    subscribe(client)
    client.say(w.QueueDelete("q"))
    client.say(w.QueueDeclare("q"))
    subscribe(client)  # in the place of the deleted one
    client.say(w.QueueDelete("q"))
    assert exception(client.say(w.MessageFlow("d", 0, 1))).error_code == 408


@pytest.mark.parametrize(
    "record, code",
    [
        (w.QueueDelete("nowhere"), ErrorCode.NOT_FOUND),
        (w.QueueDeclare(""), ErrorCode.INVALID_ARGUMENT),
        (w.QueueDeclare("amq.q"), ErrorCode.NOT_ALLOWED),
        (w.QueueDeclare("none", passive=True), ErrorCode.NOT_FOUND),
        (w.ExchangeDeclare("amq.topic", "fanout"), ErrorCode.NOT_ALLOWED),
        (w.ExchangeDeclare("amq.topic", "fanout", passive=True), ErrorCode.NOT_ALLOWED),
        (w.ExchangeDeclare("e", "nosuch"), ErrorCode.NOT_FOUND),
        (w.ExchangeDeclare("e", "direct", "nowhere"), ErrorCode.NOT_FOUND),
        (w.QueueDeclare("other", "nowhere"), ErrorCode.NOT_FOUND),
        (w.ExchangeDelete("amq.topic"), ErrorCode.NOT_ALLOWED),
        (w.ExchangeBind("nowhere", "amq.topic", "k"), ErrorCode.NOT_FOUND),
        (w.MessageSubscribe("nowhere", "x", 0, 0), ErrorCode.NOT_FOUND),
        (w.MessageSubscribe("q", "x", 2, 0), ErrorCode.INVALID_ARGUMENT),
        (w.MessageSubscribe("q", "x", 0, 2), ErrorCode.INVALID_ARGUMENT),
        (w.MessageCancel("x"), ErrorCode.NOT_FOUND),
        (w.MessageFlow("x", 0, 1), ErrorCode.NOT_FOUND),
        (w.MessageResume("x", "r"), ErrorCode.NOT_FOUND),
        (w.FileQos(), ErrorCode.NOT_IMPLEMENTED),
        (w.StreamQos(), ErrorCode.NOT_IMPLEMENTED),
    ],
)
def test_refused_commands(client: Client, record: Any, code: int) -> None:
    found = exception(client.say(record))
    assert (found.error_code, found.command_id) == (code, 1)


@pytest.mark.parametrize("destination", [None, "amq.topic"])
def test_an_interrupted_transfer_starts_over(client: Client, destination: str | None) -> None:
    result, completed = client.say(w.MessageResume(destination, "unknown"))
    found = ops.read_struct(result.record.value)
    assert (found.offset, completed.record.commands) == (0, ((0, 1),))


def test_what_exists_is_declared_again(client: Client) -> None:
    limit = write_map({"qpid.max_count": 5})
    said = client.say(
        w.ExchangeDeclare("e", "direct", "amq.fanout"),
        w.ExchangeDeclare("e", "direct"),
        w.ExchangeDeclare("e", passive=True),
        w.QueueDeclare("r", "e"),
        w.QueueDeclare("r"),
        w.QueueDeclare("r", "e", arguments=limit),
        w.QueueDeclare("mine", exclusive=True, auto_delete=True),
        w.QueueDeclare("mine"),
    )
    assert names(said) == ["session.completed"]


@pytest.mark.parametrize(
    "record",
    [
        w.ExchangeDeclare("e", "direct", "amq.fanout"),
        w.QueueDeclare("r", "amq.fanout"),
        w.ExchangeDelete("amq.fanout"),
        w.ExchangeDelete("e"),
        w.ExchangeDelete("f"),
    ],
)
def test_alternates_stay(client: Client, record: Any) -> None:
    client.say(w.ExchangeDeclare("e", "direct"), w.ExchangeDeclare("f", "direct"))
    client.say(w.ExchangeDeclare("g", "direct", "f"), w.QueueDeclare("r", "e"))
    assert exception(client.say(record)).error_code == ErrorCode.NOT_ALLOWED


def test_an_unknown_exchange_costs_the_session(client: Client) -> None:
    assert exception(client.transfer("k", exchange="nowhere", mode=0)).error_code == 404


def test_a_refused_transfer_is_named(client: Client) -> None:
    """Those of one read are given to the broker together."""
    octets = [client.transferred("q", b"x", exchange) for exchange in ("", "", "nowhere", "")]
    accept = command(1, ops.write_command(w.MessageAccept(((0, 0),))))
    found = exception(client.served.receive(b"".join([octets[0], accept, *octets[1:]])))
    assert (found.error_code, found.command_id) == (404, 4)
    assert (found.class_code, found.command_code) == (4, 1)
    assert ready(client) == 2


def test_exclusive_use_is_locked(client: Client) -> None:
    client.say(w.MessageSubscribe("q", "d", 0, 0, exclusive=True))
    found = exception(client.say(w.MessageSubscribe("q", "e", 0, 0)))
    assert (found.error_code, found.command_id) == (ErrorCode.RESOURCE_LOCKED, 2)


def test_a_queue_in_use_is_not_given_to_one_alone(client: Client) -> None:
    subscribe(client)
    found = exception(client.say(w.MessageSubscribe("q", "e", 0, 0, exclusive=True)))
    assert found.error_code == ErrorCode.RESOURCE_LOCKED


def test_what_cannot_be_decoded_costs_the_session(client: Client) -> None:
    octets = command(1, b"\x08\x01\x01\x00\xff\xff")
    assert exception(client.served.receive(octets)).error_code == 503


def test_a_message_that_is_too_large_costs_the_session(client: Client) -> None:
    assert exception(client.transfer("q", bytes(200_001))).error_code == 506


# --- the connection ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "octets",
    [
        control(0, ops.write_control(w.ConnectionOpen())),
        control(1, ops.write_control(w.SessionAttach(b"s"))),
        command(1, ops.write_command(w.QueueDeclare("q"))),
        b"\xff" * 12,
    ],
)
def test_what_is_out_of_order_costs_the_connection(octets: bytes) -> None:
    served = Served()
    served.receive(HEADER)
    (said,) = served.receive(octets)
    assert (said.name, said.record.reply_code) == ("connection.close", 501)
    assert served.adapter.closing


def test_a_response_that_is_absent_is_asked_for() -> None:
    served = Served()
    served.receive(HEADER)
    octets = control(0, ops.write_control(w.ConnectionStartOk(None, "PLAIN")))
    (said,) = served.receive(octets)
    assert (said.name, said.record.challenge) == ("connection.secure", b"")
    octets = control(0, ops.write_control(w.ConnectionSecureOk(b"\0guest\0guest")))
    assert names(served.receive(octets)) == ["connection.tune"]


def test_a_wrong_password() -> None:
    served = Served()
    served.receive(HEADER)
    record = w.ConnectionStartOk(None, "PLAIN", b"\0guest\0wrong")
    (said,) = served.receive(control(0, ops.write_control(record)))
    assert (said.name, said.record.reply_code) == ("connection.close", 320)


def test_frames_below_the_least_are_refused() -> None:
    client = Client()
    served = client.served
    served.receive(HEADER)
    client.control(0, w.ConnectionStartOk(None, "PLAIN", b"\0guest\0guest"))
    (said,) = client.control(0, w.ConnectionTuneOk(max_frame_size=4095))
    assert (said.name, said.record.reply_code) == ("connection.close", 501)


def test_frames_of_the_peer_bound_ours() -> None:
    client = Client()
    served = client.served
    served.receive(HEADER)
    client.control(0, w.ConnectionStartOk(None, "PLAIN", b"\0guest\0guest"))
    client.control(0, w.ConnectionTuneOk(max_frame_size=4096))
    client.control(0, w.ConnectionOpen())
    client.attach(1, b"test")
    client.say(w.QueueDeclare("q"))
    record = ops.write_command(w.MessageTransfer(""), True)
    header = ops.coded(0x0401, w.write_delivery_properties(w.DeliveryProperties(routing_key="q")))
    served.octets(command(1, record, header, bytes(50_000), 4096))
    subscribe(client)
    client.say(w.MessageFlow("d", 1, UNLIMITED))
    octets = served.octets(command(1, ops.write_command(w.MessageFlow("d", 0, 1))))
    at = 0
    while at < len(octets):
        size = int.from_bytes(octets[at + 2 : at + 4], "big")
        assert 12 <= size <= 4096
        at += size
    assert len(octets) > 50_000


def test_a_time_slice_that_ends_behind_a_repeated_operation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The credit of a subscription is one operation, however often it is told in a read: what came
    between is not performed twice when the rest of the read waits for the next time slice."""
    client = Client().open()
    client.say(w.QueueDeclare("q"))
    subscribe(client)
    flow(client, 4)
    header = ops.coded(0x0401, w.write_delivery_properties(w.DeliveryProperties(routing_key="q")))
    record = ops.write_command(w.MessageTransfer(""))
    client.served.octets(command(1, record, header, b"x") * 4)
    octets = b""
    for number in (0, 1):
        taken = ((number, number),)
        octets += command(1, ops.write_command(w.MessageAccept(taken)))
        octets += control(1, ops.write_control(w.SessionCompleted(taken)))
    ticks = count()
    monkeypatch.setattr(sessions, "perf_counter", lambda: float(next(ticks)))
    client.served.session.time_slice = 3.5
    client.served.octets(octets)
    (channel,) = client.served.session.channels.values()
    assert len(channel.window.unsettled) == 2


def test_a_body_is_not_copied_on_its_way_out() -> None:
    client = Client().open()
    client.say(w.QueueDeclare("q"))
    record = ops.write_command(w.MessageTransfer(""), True)
    header = ops.coded(0x0401, w.write_delivery_properties(w.DeliveryProperties(routing_key="q")))
    client.served.octets(command(1, record, header, bytes(30_000)) * 4)
    subscribe(client)
    client.say(w.MessageFlow("d", 1, UNLIMITED))
    adapter, session = client.served.adapter, client.served.session
    session.perform(adapter.receive(command(1, ops.write_command(w.MessageFlow("d", 0, 4)))))
    assert [len(piece) for piece in adapter.output()].count(30_000) == 4


def test_sessions_stay_within_the_channels() -> None:
    client = Client(limits=Limits(channel_max=3)).open()
    client.attach(2, b"second")
    (said,) = client.control(3, w.SessionAttach(b"third"))
    assert (said.name, said.record.reply_code) == ("connection.close", 501)


def test_an_unknown_virtual_host() -> None:
    client = Client()
    client.served.receive(HEADER)
    client.control(0, w.ConnectionStartOk(None, "PLAIN", b"\0guest\0guest"))
    client.control(0, w.ConnectionTuneOk())
    (said,) = client.control(0, w.ConnectionOpen("nowhere"))
    assert (said.name, said.record.reply_code) == ("connection.close", 402)


def test_a_violation_is_told_behind_the_answers(client: Client) -> None:
    octets = command(1, ops.write_command(w.QueueQuery("q"))) + b"\xff" * 12
    assert names(client.served.receive(octets)) == ["execution.result", "connection.close"]


def test_heartbeats_and_silence() -> None:
    client = Client(limits=Limits(heartbeat=60))
    served = client.served
    (start,) = served.receive(HEADER)
    client.control(0, w.ConnectionStartOk(None, "PLAIN", b"\0guest\0guest"))
    client.control(0, w.ConnectionTuneOk(heartbeat=10))
    client.control(0, w.ConnectionOpen())
    adapter = served.adapter
    said: list[Said] = []
    closed: list[Any] = []
    for now in range(100, 130):
        closed += adapter.tick(float(now))
        said += served.read(b"".join(adapter.output()))
        if closed:
            break
    assert "connection.heartbeat" in names(said)
    assert isinstance(closed[-1], Closed)
    assert 119 <= now <= 122  # twice the interval
