"""Limits of what a client of 0-10 can make the server hold, or do at once."""

from typing import Any

import pytest

from gateway.adapters import Limits
from gateway.adapters.segments import fields, server, session
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.frames import command, control
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import HEADER
from gateway.broker.long_operations import PORTION
from gateway.operations import Closed
from tests.adapters.segments.serving import LIMITS, Client, Said, Served, names

ALL = ((0, 1 << 20),)
UNLIMITED = 0xFFFFFFFF
MANY = 2 * PORTION + 5


def holding(count: int, acquire: int = 0, transactional: bool = False) -> Client:
    """A client with so many deliveries that it has not settled."""
    client = Client().open()
    client.say(w.QueueDeclare("q"))
    if transactional:
        client.say(w.TxSelect())
    octets = b"".join(client.transferred("q", b"x", sync=False) for _ in range(count))
    client.served.receive(octets)
    if transactional:
        client.say(w.TxCommit())
        worked(client)
    client.say(w.MessageSubscribe("q", "d", 0, acquire))
    client.say(w.MessageFlow("d", 1, UNLIMITED), w.MessageFlow("d", 0, UNLIMITED))
    held = client.served.adapter.sessions[1].unsettled
    while len(held) < count:
        client.say(w.ExecutionSync())
    return client


def worked(client: Client) -> tuple[int, list[Said]]:
    """How many turns the long operations took, and what was said when they were done."""
    served, turns = client.served, 0
    said: list[Said] = []
    operations = served.broker.state.long_operations
    while operations.jobs or operations.loose:
        operations.work()
        turns += 1
        said += client.say(w.ExecutionSync()) if served.adapter.sessions else []
    return turns, said


def ready(client: Client) -> int:
    return client.served.broker.vhosts["/"].queues["q"].depth


def unsettled(client: Client) -> int:
    return client.served.broker.vhosts["/"].queues["q"].unsettled


# --- large requests are done in portions ----------------------------------------------------------


def test_many_are_accepted_in_portions() -> None:
    client = holding(MANY)
    client.say(w.MessageAccept(ALL))
    assert worked(client)[0] > MANY // PORTION
    assert (ready(client), unsettled(client)) == (0, 0)


@pytest.mark.parametrize("end", [w.TxCommit, w.TxRollback])
def test_many_are_accepted_in_a_transaction(end: Any) -> None:
    client = holding(MANY, transactional=True)
    client.say(w.MessageAccept(ALL))
    assert worked(client)[0] > MANY // PORTION and unsettled(client) == MANY
    client.say(end())
    assert worked(client)[0] > MANY // PORTION
    assert unsettled(client) == (0 if end is w.TxCommit else MANY)
    client.say(w.MessageAccept(ALL), w.TxCommit())  # what was rolled back is still the client's
    worked(client)
    assert (ready(client), unsettled(client)) == (0, 0)


def test_a_release_is_no_part_of_a_transaction() -> None:
    client = holding(3, transactional=True)
    client.say(w.MessageStop("d"), w.MessageAccept(((0, 1),)), w.MessageRelease(((2, 2),)))
    assert (ready(client), unsettled(client)) == (1, 2)


def test_many_are_acquired_in_portions() -> None:
    client = holding(MANY, acquire=1)
    said = client.say(w.MessageAcquire(ALL))
    assert "execution.result" not in names(said)
    turns, said = worked(client)
    assert turns >= MANY // PORTION and "execution.result" in names(said)
    assert (ready(client), unsettled(client)) == (0, MANY)


def test_what_is_acquired_fits_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set has 8191 ranges: what would need more goes back to its queue."""
    for module in (fields, server):
        monkeypatch.setattr(module, "MOST_RANGES", 3, raising=False)
    client = Client().open()
    for name, accept, acquire in (("q", 0, 1), ("r", 1, 0)):
        client.say(w.QueueDeclare(name), w.MessageSubscribe(name, name, accept, acquire))
        client.say(w.MessageFlow(name, 1, UNLIMITED), w.MessageFlow(name, 0, UNLIMITED))
    for _ in range(9):
        client.transfer("q")
        client.transfer("r")
    said = client.say(w.MessageAcquire(ALL))
    (result,) = [each.record for each in said if each.name == "execution.result"]
    acquired = ops.read_struct(result.value).transfers
    assert len(acquired) == 3 and all(first == last for first, last in acquired)
    assert (ready(client), unsettled(client)) == (6, 3)


def test_acquires_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each could name all deliveries again, in a few octets."""
    monkeypatch.setattr(server, "MOST_ACQUIRED", 2 * MANY)
    client = holding(MANY, acquire=1)
    said = client.say(*[w.MessageAcquire(ALL)] * 4)
    _, more = worked(client)
    (exception,) = [each.record for each in said + more if each.name == "execution.exception"]
    assert exception.error_code == 506
    client = holding(MANY, acquire=1)
    for _ in range(4):
        client.say(w.MessageAcquire(ALL))
        assert "execution.result" in names(worked(client)[1])


# --- what waits is limited ------------------------------------------------------------------------


def refused(said: list[Said]) -> int:
    (code,) = [each.record.error_code for each in said if each.name == "execution.exception"]
    return int(code)


def flushing() -> Client:
    """A client whose flush does not come to its end: it does not take what it gets."""
    client = Client().open()
    client.say(w.QueueDeclare("q"), w.MessageSubscribe("q", "d"))
    client.say(w.MessageFlow("d", 1, UNLIMITED), w.MessageFlow("d", 0, UNLIMITED))
    client.served.session.pause()
    client.transfer("q")
    client.say(w.MessageFlush("d"))
    return client


def test_commands_behind_a_flush_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_BEHIND", 5)
    client = flushing()
    assert client.say(*[w.MessageFlow("d", 0, 1)] * 5) == []
    assert refused(client.say(w.MessageFlow("d", 0, 1))) == 506
    client = flushing()
    client.say(*[w.MessageFlow("d", 0, 1)] * 5)
    client.served.session.resume()
    said = client.say(w.ExecutionSync())
    assert names(said)[-1] == "session.completed" and "message.transfer" in names(said)


def test_commands_that_are_not_complete_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST_PENDING", 20)
    client = flushing()
    assert client.say(*[w.ExecutionSync()] * 18) == []
    assert refused(client.say(*[w.ExecutionSync()] * 3)) == 506


def test_flushes_of_a_read_are_answered_once() -> None:
    """Each would look at every command that is pending."""
    client = Client().open()
    flush = control(1, ops.write_control(w.SessionFlush(completed=True, confirmed=True)))
    octets = client.transferred("nowhere", sync=False) * 50 + flush * 50
    said = client.served.receive(octets)
    assert names(said) == ["session.confirmed", "session.completed"]
    assert said[0].record.commands == said[1].record.commands == ((0, 49),)


# --- what one command or message may hold ---------------------------------------------------------


def nested(depth: int) -> bytes:
    """A map in which lists nest so deep."""
    octets = (0).to_bytes(4)
    for _ in range(depth - 2):
        octets = (1).to_bytes(4) + b"\xa9" + len(octets).to_bytes(4) + octets
    return (1).to_bytes(4) + b"\1a\xa9" + len(octets).to_bytes(4) + octets


@pytest.mark.parametrize(
    "arguments, taken",
    [
        (nested(64), True),
        (nested(65), False),
        (write_map({"a": [None] * 8180}), True),
        (write_map({"a": [None] * 8200}), False),
    ],
    ids=["nested 64 deep", "nested deeper", "8180 values", "8200 values"],
)
def test_values_of_a_command_and_of_a_message(arguments: bytes, taken: bool) -> None:
    client = Client().open()
    message = w.MessageProperties(application_headers=arguments)
    header = ops.coded(0x0403, w.write_message_properties(message))
    transfer = ops.write_command(w.MessageTransfer("", 1), sync=True)
    for octets in (
        command(1, ops.write_command(w.QueueDeclare("q", arguments=arguments), sync=True)),
        command(1, transfer, header, b"", 4096),
    ):
        said = client.served.receive(octets)
        if taken:
            assert names(said) == ["session.completed"]
        else:
            assert refused(said) in (503, 506)
            client = Client().open()


def test_sessions_of_a_connection() -> None:
    """As many as channels were negotiated; one more costs the connection."""
    client = Client(limits=Limits(channel_max=3, heartbeat=0)).open()
    client.attach(0, b"zero")
    client.attach(2, b"two")
    said = client.control(3, w.SessionAttach(b"three"))
    assert names(said)[-1] == "connection.close" and len(client.served.adapter.sessions) == 0


def test_channels_and_frames_are_not_more_than_offered() -> None:
    served = Served(Limits(channel_max=5, frame_max=8192, heartbeat=7))
    served.receive(HEADER)
    start = w.ConnectionStartOk(b"", "PLAIN", b"\0guest\0guest")
    (tune,) = served.receive(control(0, ops.write_control(start)))
    offered = tune.record
    assert (offered.channel_max, offered.max_frame_size, offered.heartbeat_max) == (5, 8192, 7)
    served.receive(control(0, ops.write_control(w.ConnectionTuneOk(60000, 8192, 0))))
    assert served.adapter.frames.channels == 5
    other = Served(Limits(frame_max=8192))
    other.receive(HEADER + control(0, ops.write_control(start)))
    tuned = control(0, ops.write_control(w.ConnectionTuneOk(None, 8193, 0)))
    assert names(other.receive(tuned)) == ["connection.close"]


def test_steps_of_a_login() -> None:
    """A mechanism asks at most for what it needs; then it is decided."""
    served = Served()
    served.receive(HEADER)
    said = served.receive(control(0, ops.write_control(w.ConnectionStartOk(b"", "PLAIN"))))
    assert names(said) == ["connection.secure"]
    said = served.receive(control(0, ops.write_control(w.ConnectionSecureOk(b"nonsense"))))
    assert names(said) == ["connection.close"]
    served.receive(control(0, ops.write_control(w.ConnectionSecureOk(b"\0guest\0guest"))))
    assert served.adapter.closing and not served.session.authenticated


def test_a_handshake_and_a_close_have_their_time() -> None:
    served = Served()
    served.receive(HEADER)
    served.adapter.tick(100.0)
    assert not served.adapter.closing
    (closed,) = served.adapter.tick(100.0 + LIMITS.handshake_timeout)
    assert isinstance(closed, Closed) and served.adapter.closing


@pytest.mark.parametrize("name", ["q" * 255, "\N{SNOWMAN}" * 85])
def test_names_have_255_octets(name: str) -> None:
    client = Client().open()
    assert names(client.say(w.QueueDeclare(name))) == ["session.completed"]
    assert name in client.served.broker.vhosts["/"].queues
    with pytest.raises(ValueError):
        ops.write_command(w.QueueDeclare(name + "q"))
