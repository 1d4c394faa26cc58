"""Our client with class session in place of class channel."""

from typing import Any

import pytest

from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.errors import Condition
from gateway.operations import (
    BeginSession,
    Close,
    Closed,
    DeclareQueue,
    EndSession,
    Fetch,
    Flow,
    Operation,
    Publish,
    QueueState,
    Refused,
    Select,
    SessionLost,
)
from tests.adapters.client_talk import message
from tests.adapters.methods.transitional.test_client import Talk
from tests.adapters.methods.transitional.test_client_messages import Heard
from tests.adapters.methods.transitional.test_server import both


def talking(version: str, **options: Any) -> Talk:
    return Talk(version, class_session=True, **options)


@both
@pytest.mark.parametrize("class_message", [True, False])
def test_it_works_as_a_channel_does(version: str, class_message: bool) -> None:
    talk = talking(version, class_message=class_message)
    server = talk.served.adapter.channels[1]
    assert len(server.session) == 16 and talk.client.channels[1].session == server.session
    assert talk.done(DeclareQueue(1, 1, "q")) == QueueState("q", 0, 0)
    talk.tells(Publish(1, message(b"x"), False, False))
    assert talk.done(Fetch(1, 2, "q", True)).message.body == b"x"
    assert talk.done(Flow(1, 3, False)) is False
    assert talk.done(Flow(1, 4, True)) is True
    assert talk.done(Select(1, 5)) is None
    assert talk.done(EndSession(1, 6)) is None
    assert not talk.client.channels and not talk.served.adapter.channels
    assert talk.done(BeginSession(1, 7)) is None
    assert talk.served.adapter.channels[1].session != server.session


@both
def test_a_refusal_costs_the_session(version: str) -> None:
    talk = talking(version)
    refused, lost = talk.tells(DeclareQueue(1, 1, "none", passive=True))
    assert isinstance(refused, Refused) and refused.condition is Condition.NOT_FOUND
    assert isinstance(lost, SessionLost) and not talk.client.channels
    assert talk.done(BeginSession(1, 2)) is None
    assert talk.done(DeclareQueue(1, 3, "q")) == QueueState("q", 0, 0)


@both
def test_we_close(version: str) -> None:
    talk = talking(version)
    assert talk.tells(Close()) == [Closed(None, "", theirs=False)]


def heard(talk: Talk, record: Any) -> tuple[list[Operation], list[Any]]:
    """Of a request of the server on channel 1: what we find, and what we say."""
    engine, client = talk.served.adapter, talk.client
    engine.send_method(1, record)
    found = client.receive(b"".join(engine.output())) + client.found()
    said = Heard(client.table.name).read(b"".join(client.output()))
    return found, [each.record for each in said]


@both
def test_what_a_server_asks(version: str) -> None:
    talk = talking(version)
    assert heard(talk, w.SessionPing()) == ([], [w.SessionPong()])
    assert heard(talk, w.SessionPong()) == ([], [])
    assert heard(talk, w.SessionAck(1)) == ([], [])
    _, (acknowledged,) = heard(talk, w.SessionSolicitAck())
    assert isinstance(acknowledged, w.SessionAck) and acknowledged.cumulative_seen_mark > 1
    assert heard(talk, w.SessionFlow(False)) == ([], [w.SessionFlowOk(False)])
    (lost,), (closed,) = heard(talk, w.SessionClose())
    assert isinstance(lost, SessionLost) and lost.condition is Condition.CONNECTION_FORCED
    assert closed == w.SessionClosed(200, "ok") and not talk.client.channels


@both
@pytest.mark.parametrize(
    ("record", "session"),
    [
        (w.SessionDetached(), True),
        (w.SessionAttached(), True),
        (w.SessionFlowOk(True), True),
        (w.ChannelClose(200, ""), True),
        (w.SessionPing(), False),
        (w.SessionClosed(404, ""), False),
    ],
)
def test_what_a_server_may_not_say(version: str, record: Any, session: bool) -> None:
    talk = Talk(version, class_session=session)
    *_, closed = heard(talk, record)[0]
    assert isinstance(closed, Closed)
    assert closed.condition in (Condition.COMMAND_INVALID, Condition.CHANNEL_ERROR)


@both
def test_a_server_that_breaks_a_rule_costs_the_session(version: str) -> None:
    talk = talking(version)
    heard(talk, w.MessageOpen(b"r"))
    found, (close,) = heard(talk, w.MessageAppend(b"r", bytes(200_001)))
    assert isinstance(found[-1], SessionLost) and close == w.SessionClose()
