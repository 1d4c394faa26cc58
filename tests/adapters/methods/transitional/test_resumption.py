"""Sessions that outlive their channel: suspended, lost, resumed by another connection."""

from typing import Any

import pytest

from gateway.adapters.methods.transitional.resumption import UNBOUNDED
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.operations import SessionLimits
from gateway.sessions.registry import SessionRegistry
from tests.adapters.methods.transitional.serving import Client, Said
from tests.adapters.methods.transitional.test_server import (
    NEWER,
    OLDER,
    body_of,
    both,
    inline,
    names,
)

NUMBER = 5
WAYS = ("suspended", "lost", "closed", "violated")
ways = pytest.mark.parametrize("way", WAYS)


class Guest:
    """With a session on channel 5 that is kept for a minute, and a queue ``q`` with a message that
    is delivered and not settled."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.client = Client(version).open()
        (attached,) = self.client.say(NUMBER, w.SessionOpen(60))
        assert attached.record.detached_lifetime == 60
        if attached.carried is not None:
            assert attached.carried.is_response
        self.session: bytes = attached.record.session_id
        assert len(self.session) == 16
        self.client.say(NUMBER, w.QueueDeclare(queue="q", exclusive=True))
        self.publish(b"1")
        (self.delivered,) = self.client.say(NUMBER, w.MessageConsume(queue="q", destination="d"))

    def publish(self, body: bytes) -> list[Said]:
        return self.client.say(NUMBER, w.MessageTransfer(routing_key="q", body=inline(body)))

    def leave(self, way: str) -> None:
        client = self.client
        if way == "suspended":
            assert names(client.say(NUMBER, w.SessionSuspend())) == ["session.detached"]
            assert NUMBER not in client.served.adapter.channels
            return
        if way == "closed":
            assert names(client.say(0, w.ConnectionClose(200, ""))) == ["connection.close-ok"]
        elif way == "violated":
            (close,) = client.say(1, w.BasicAck(77))
            assert close.record.reply_code == 530
        client.served.lose()

    def another(self) -> Client:
        """A connection beside the first one."""
        return Client(self.version, beside=self.client.served).open()

    def resume(self, client: Client, number: int = 7) -> list[Said]:
        return client.say(number, w.SessionResume(self.session))


@both
@ways
def test_it_is_resumed_by_another_connection(version: str, way: str) -> None:
    guest = Guest(version)
    guest.leave(way)
    assert [len(s.channel.window.unsettled) for s in guest.client.served.registry.named.kept
            if s.channel] == [1]  # fmt: skip
    client = guest.another()
    first, *more = guest.resume(client)
    assert first.record == w.SessionAttached(guest.session, 60) and not more
    assert len(client.served.adapter.channels[7].deliveries) == 1
    said = client.say(7, w.MessageTransfer(routing_key="q", body=inline(b"2")))
    (second,) = [item for item in said if item.name == "message.transfer"]
    assert body_of(second).octets == b"2" and second.record.destination == "d"
    if version == OLDER:
        assert guest.delivered.carried is not None
        client.answer(7, w.MessageOk(), guest.delivered.carried.identifier)
    else:
        oldest = client.served.adapter.channels[7].deliveries.oldest()
        assert oldest is not None
        client.say(7, w.ExecutionComplete(oldest))
    assert len(client.served.adapter.channels[7].deliveries) == 1, "the second one"
    (closed,) = client.say(7, w.SessionClose())
    assert closed.record == w.SessionClosed(200, "ok")
    assert not list(client.served.registry.named)


@both
def test_deliveries_that_were_lost_come_again(version: str) -> None:
    guest = Guest(version)
    guest.leave("lost")
    client = guest.another()
    guest.resume(client)
    (again,) = client.say(7, w.MessageRecover(requeue=True))
    assert again.record.redelivered and body_of(again).octets == b"1"


@both
def test_a_transaction_goes_on(version: str) -> None:
    guest = Guest(version)
    guest.client.say(NUMBER, w.TxSelect())
    guest.publish(b"2")
    guest.leave("lost")
    client = guest.another()
    guest.resume(client)
    said = client.say(7, w.TxCommit())
    assert [body_of(item).octets for item in said] == [b"2"]


@both
def test_it_is_suspended_and_resumed_on_the_same_connection(version: str) -> None:
    guest = Guest(version)
    for number in (NUMBER, 7, NUMBER):
        guest.client.restarted(number)
        if number in guest.client.served.adapter.channels:
            guest.client.say(number, w.SessionSuspend())
        (attached,) = guest.resume(guest.client, number)
        assert attached.record == w.SessionAttached(guest.session, 60)
        assert names(guest.client.say(number, w.SessionSuspend())) == ["session.detached"]


@both
def test_its_time_is_over(version: str) -> None:
    guest = Guest(version)
    guest.leave("lost")
    broker = guest.client.served.broker
    broker.state.tick(broker.state.now + 61_000)
    client = guest.another()
    (closed,) = guest.resume(client)
    assert (closed.name, closed.record.reply_code) == ("session.closed", 404)
    assert "q" not in broker.vhosts["/"].queues
    client.restarted(7)
    assert names(client.say(7, w.SessionOpen(60))) == ["session.attached"]


@both
def test_another_connection_has_it(version: str) -> None:
    guest = Guest(version)
    client = guest.another()
    (closed,) = guest.resume(client)
    assert (closed.name, closed.record.reply_code) == ("session.closed", 405)
    assert NUMBER in guest.client.served.adapter.channels
    client.restarted(7)
    guest.leave("suspended")
    assert names(guest.resume(client)) == ["session.attached"]


@both
def test_what_is_sent_behind_a_resume_waits_for_it(version: str) -> None:
    guest = Guest(version)
    guest.leave("lost")
    client = guest.another()
    octets = client.octets(7, w.SessionResume(guest.session))
    said = client.served.receive(octets + client.octets(7, w.SessionPing()))
    assert names(said) == ["session.attached", "session.pong"]


@both
def test_an_error_ends_it(version: str) -> None:
    guest = Guest(version)
    (closed,) = guest.client.say(NUMBER, w.QueueDeclare(queue="none", passive=True))
    assert closed.record.reply_code == 404
    assert not list(guest.client.served.registry.named)
    (closed,) = guest.resume(guest.another())
    assert closed.record.reply_code == 404


@both
@pytest.mark.parametrize(
    ("wished", "granted"), [(0, 0), (1, 1), (299, 299), (5000, 300), (UNBOUNDED, 300)]
)
def test_lifetimes(version: str, wished: int, granted: int) -> None:
    client = Client(version).open()
    (attached,) = client.say(NUMBER, w.SessionOpen(wished))
    assert attached.record.detached_lifetime == granted


@both
def test_no_more_than_a_user_may_keep(version: str) -> None:
    client = Client(version).open()
    registry: SessionRegistry = client.served.registry
    registry.named.limits = SessionLimits(user_sessions=2)
    said: list[Any] = [client.say(number, w.SessionOpen(60))[0].record for number in (2, 3, 4)]
    assert [record.detached_lifetime for record in said] == [60, 60, 0]
    assert names(client.say(4, w.SessionSuspend())) == ["session.detached"]
    assert names(client.say(2, w.SessionSuspend())) == ["session.detached"]
    assert len(registry.named.kept) == 1


@pytest.mark.parametrize(("first", "second"), [(OLDER, NEWER), (NEWER, OLDER)])
def test_a_session_is_of_its_user_and_not_of_its_revision(first: str, second: str) -> None:
    guest = Guest(first)
    guest.leave("lost")
    guest.version = second
    client = guest.another()
    assert names(guest.resume(client)) == ["session.attached"]
    said = client.say(7, w.MessageTransfer(routing_key="q", body=inline(b"2")))
    assert "message.transfer" in names(said)


@both
def test_consumers_of_streams_go_on(version: str) -> None:
    guest = Guest(version)
    said = guest.client.say(NUMBER, w.StreamConsume(queue="q", consumer_tag="film"))
    assert names(said) == ["stream.consume-ok"]
    guest.client.say(NUMBER, w.MessageCancel("d"))
    guest.leave("lost")
    client = guest.another()
    guest.resume(client)
    said = client.say(7, w.MessageTransfer(routing_key="q", body=inline(b"2")))
    assert "stream.deliver" in names(said)
    assert {item.channel for item in said} == {7}
    assert client.say(7, w.StreamCancel("film"))[0].name == "stream.cancel-ok"
    said = client.say(7, w.MessageTransfer(routing_key="q", body=inline(b"3")))
    assert names(said) == (["message.ok"] if version == OLDER else [])
