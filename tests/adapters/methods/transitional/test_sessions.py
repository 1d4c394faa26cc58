"""Class session in place of class channel, and tickets of class access."""

from typing import Any

import pytest

from gateway.adapters.methods.wire import layouts_0_10_07 as w
from tests.adapters.methods.transitional.serving import Client
from tests.adapters.methods.transitional.test_server import both, inline, messages_in, names

NUMBER = 5
"""A channel that is not open."""


def in_session(version: str) -> Client:
    """With a session on channel ``NUMBER``, and a queue ``q``."""
    client = Client(version).open()
    (attached,) = client.say(NUMBER, w.SessionOpen(0))
    assert len(attached.record.session_id) == 16
    assert attached.record == w.SessionAttached(attached.record.session_id, 0)
    if attached.carried is not None:
        assert attached.carried.is_response
    assert names(client.say(NUMBER, w.QueueDeclare(queue="q"))) == ["queue.declare-ok"]
    return client


@both
def test_a_session_works_as_a_channel_does(version: str) -> None:
    client = in_session(version)
    client.say(NUMBER, w.MessageTransfer(routing_key="q", body=inline(b"x")))
    (transfer,) = client.say(NUMBER, w.MessageConsume(queue="q", destination="d"))
    assert transfer.name == "message.transfer"
    assert client.say(NUMBER, w.SessionFlow(False))[0].record == w.SessionFlowOk(False)
    (closed,) = client.say(NUMBER, w.SessionClose())
    assert closed.record == w.SessionClosed(200, "ok")
    if closed.carried is not None:
        assert closed.carried.is_response
    assert messages_in(client) == 1, "the delivery was not settled"
    assert NUMBER not in client.served.adapter.channels
    client.restarted(NUMBER)
    assert names(client.say(NUMBER, w.SessionOpen())) == ["session.attached"]


@both
def test_names_of_sessions_differ(version: str) -> None:
    client = Client(version).open()
    said = [client.say(number, w.SessionOpen())[0].record.session_id for number in (2, 3)]
    assert said[0] != said[1]


@both
def test_a_ping_is_followed_by_a_request(version: str) -> None:
    client = in_session(version)
    (pong,) = client.say(NUMBER, w.SessionPing())
    assert pong.name == "session.pong"
    if pong.carried is not None:
        assert not pong.carried.is_response
    assert client.say(NUMBER, w.SessionPong()) == []


@both
def test_commands_are_acknowledged(version: str) -> None:
    client = in_session(version)
    assert client.say(NUMBER, w.SessionSolicitAck())[0].record == w.SessionAck(3)
    assert client.say(NUMBER, w.SessionHighWaterMark(4))[0].record == w.SessionAck(4)
    assert client.say(NUMBER, w.SessionAck(1)) == []


@both
def test_a_session_without_a_lifetime_that_is_suspended_has_ended(version: str) -> None:
    client = in_session(version)
    attached = client.served.adapter.channels[NUMBER].session
    assert names(client.say(NUMBER, w.SessionSuspend())) == ["session.detached"]
    assert NUMBER not in client.served.adapter.channels
    client.restarted(NUMBER)
    (closed,) = client.say(NUMBER, w.SessionResume(attached))
    assert (closed.name, closed.record.reply_code) == ("session.closed", 404)
    client.restarted(NUMBER)
    assert names(client.say(NUMBER, w.SessionOpen())) == ["session.attached"]


@both
def test_an_error_closes_the_session(version: str) -> None:
    client = in_session(version)
    (closed,) = client.say(NUMBER, w.QueueDeclare(queue="none", passive=True))
    assert (closed.name, closed.record.reply_code) == ("session.closed", 404)
    if closed.carried is not None:
        assert not closed.carried.is_response
    assert client.say(NUMBER, w.SessionPing()) == [], "it was on its way"
    assert client.say(NUMBER, w.SessionClose()) == []
    client.restarted(NUMBER)
    assert names(client.say(NUMBER, w.SessionOpen())) == ["session.attached"]
    assert names(client.say(NUMBER, w.QueueDeclare(queue="q"))) == ["queue.declare-ok"]


@both
def test_a_close_behind_an_error_in_the_same_read(version: str) -> None:
    client = in_session(version)
    failing = client.octets(NUMBER, w.MessageOpen(b"r"))
    failing += client.octets(NUMBER, w.MessageAppend(b"r", bytes(200_001)))
    said = client.served.receive(failing + client.octets(NUMBER, w.SessionClose()))
    assert [(item.name, item.record.reply_code) for item in said] == [("session.closed", 311)]


@both
@pytest.mark.parametrize(
    ("number", "record", "code"),
    [
        (NUMBER, w.SessionOpen(), 504),
        (NUMBER, w.ChannelOpen(), 503),
        (NUMBER, w.ChannelClose(200, ""), 503),
        (NUMBER, w.ChannelFlow(False), 503),
        (1, w.SessionClose(), 503),
        (1, w.SessionPing(), 503),
        (9, w.SessionPing(), 504),
        (9, w.SessionClose(), 504),
    ],
)
def test_misuse_closes_the_connection(version: str, number: int, record: Any, code: int) -> None:
    (close,) = in_session(version).say(number, record)
    assert (close.name, close.record.reply_code) == ("connection.close", code)


@both
def test_a_ticket_is_granted(version: str) -> None:
    client = in_session(version)
    (ok,) = client.say(NUMBER, w.AccessRequest("/data", write=True))
    assert ok.record == w.AccessRequestOk(1)
    if ok.carried is not None:
        assert ok.carried.is_response
    (declared,) = client.say(NUMBER, w.QueueDeclare(ok.record.ticket, "q2"))
    assert declared.name == "queue.declare-ok"
