"""Limits of what a client of 0-10 can make the server hold, or do at once."""

from typing import Any

import pytest

from gateway.adapters.segments import fields, server, session
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.frames import control
from gateway.adapters.segments.wire import layouts as w
from gateway.broker.long_operations import PORTION
from tests.adapters.segments.serving import Client, Said, names

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
