"""Our client with class message: it publishes and settles as servers of either day answer."""

from typing import Any

import pytest

from gateway.adapters import Credentials, Role
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.transitional.client_messages import runs
from gateway.adapters.methods.transitional.engine import Engine
from gateway.adapters.methods.wire import layouts_0_10_07 as w
from gateway.bodies import LargeBody, Spool
from gateway.errors import Condition, LocalError
from gateway.operations import (
    Bind,
    Commit,
    Confirm,
    DeclareQueue,
    DeleteQueue,
    Deliver,
    Done,
    Fetch,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    Recover,
    Returned,
    Rollback,
    Select,
    SelectConfirms,
    Settle,
    Subscribe,
    Unsubscribe,
)
from tests.adapters.client_talk import message
from tests.adapters.methods.transitional.serving import Decoder
from tests.adapters.methods.transitional.test_client import Talk
from tests.adapters.methods.transitional.test_server import NEWER, OLDER, both


def talking(version: str, **options: Any) -> Talk:
    """With a queue ``q``."""
    talk = Talk(version, class_message=True, **options)
    talk.done(DeclareQueue(1, 1, "q"))
    return talk


def published(talk: Talk, *bodies: bytes) -> list[Operation]:
    return talk.tells(*(Publish(1, message(body), False, False) for body in bodies))


def consuming(talk: Talk, **options: Any) -> list[Deliver]:
    """Deliveries may come before the answer, as there is no reply to wait for."""
    heard = talk.tells(Subscribe(1, 2, "q", "tag", **options))
    assert Done(1, 2, "tag") in heard
    return [op for op in heard if isinstance(op, Deliver)]


def left(talk: Talk) -> tuple[int, int]:
    """Deliveries that are not settled, as the server and as the client have it."""
    return (
        len(talk.served.adapter.channels[1].deliveries),
        len(talk.client.channels[1].deliveries),
    )


def settled(talk: Talk, delivery: int, multiple: bool = False, how: Any = Outcome.ACCEPT) -> None:
    assert talk.tells(Settle(1, delivery, multiple, how)) == []


@both
def test_nothing_of_class_basic_is_said(version: str) -> None:
    talk = talking(version)
    spoken: list[str] = []
    sent, written = talk.client.send_method, talk.client.send_octets

    def listening(channel: int, record: Any, *more: int) -> int:
        spoken.append(record.NAME)
        number: int = sent(channel, record, *more)
        return number

    def hearing(channel: int, method: Method, octets: bytes) -> int:
        spoken.append(method.name)
        number: int = written(channel, method, octets)
        return number

    talk.client.send_method, talk.client.send_octets = listening, hearing
    published(talk, b"1", b"2")
    fetched = talk.done(Fetch(1, 3, "q"))
    settled(talk, fetched.delivery)
    talk.done(Prefetch(1, 4, 5))
    (delivered,) = consuming(talk)
    settled(talk, delivered.delivery)
    talk.done(Unsubscribe(1, 5, "tag"))
    talk.done(Recover(1, 6, True))
    assert left(talk) == (0, 0)
    assert not [name for name in spoken if name.startswith("basic.")]
    assert {"message.transfer", "message.get", "message.qos", "message.consume"} <= set(spoken)


@both
def test_messages_come_and_go(version: str) -> None:
    talk = talking(version)
    given = message(b"one", content_type="text/plain", application={"a": "b"}, durable=True)
    assert talk.tells(Publish(1, given, False, False)) == []
    fetched = talk.done(Fetch(1, 2, "q"))
    assert (fetched.message.body, fetched.message.key) == (b"one", "q")
    assert fetched.message.properties == given.properties
    assert talk.done(Fetch(1, 3, "q")) is None
    assert talk.done(Recover(1, 4, True)) is None
    (delivered,) = consuming(talk)
    assert delivered.redelivered and delivered.consumer == "tag"
    settled(talk, delivered.delivery)
    for body in (b"2", b"3", b"4"):
        (last,) = published(talk, body)
        assert isinstance(last, Deliver) and last.message.body == body
        settled(talk, last.delivery, multiple=True)
    assert left(talk) == (0, 0)
    assert talk.done(Unsubscribe(1, 6, "tag")) == "tag"
    assert published(talk, b"5") == []
    assert talk.done(DeleteQueue(1, 7, "q")) == 1


@both
def test_single_deliveries_are_accepted_out_of_order(version: str) -> None:
    talk = talking(version)
    published(talk, *[b"x"] * 5)
    names = [delivered.delivery for delivered in consuming(talk)]
    settled(talk, names[3])
    settled(talk, names[1])
    assert left(talk) == (3, 3)
    settled(talk, names[2], multiple=True)
    assert left(talk) == (1, 1)
    settled(talk, names[4])
    assert left(talk) == (0, 0)


@both
def test_settled_on_delivery(version: str) -> None:
    talk = talking(version)
    published(talk, b"1", b"2")
    assert len(consuming(talk, no_ack=True)) == 2
    assert left(talk) == (0, 0)
    published(talk, b"3")
    talk.done(Unsubscribe(1, 3, "tag"))
    published(talk, b"4")
    assert talk.done(Fetch(1, 4, "q", no_ack=True)).message.body == b"4"
    assert left(talk) == (0, 0)


@both
def test_a_consumer_without_a_tag_gets_one(version: str) -> None:
    talk = talking(version)
    tags = {talk.done(Subscribe(1, at, "q")) for at in (2, 3)}
    assert len(tags) == 2 and "" not in tags


@both
def test_all_are_given_back_but_no_single_one(version: str) -> None:
    talk = talking(version)
    published(talk, b"1", b"2")
    first, second = (delivered.delivery for delivered in consuming(talk))
    for delivery, multiple in ((first, False), (second, False), (first, True)):
        with pytest.raises(LocalError, match="single deliveries"):
            talk.client.send(Settle(1, delivery, multiple, Outcome.RELEASE))
    assert left(talk) == (2, 2) and talk.client.output() == []
    again = talk.tells(Settle(1, second, True, Outcome.RELEASE))
    assert [isinstance(op, Deliver) and op.redelivered for op in again] == [True, True]


def test_a_server_of_24_july_is_told_of_rejections() -> None:
    talk = talking(OLDER)
    talk.done(DeclareQueue(1, 2, "dead"))
    talk.done(Bind(1, 7, "dead", "amq.fanout"))
    dead = {"x-dead-letter-exchange": "amq.fanout"}
    talk.done(DeclareQueue(1, 3, "lettered", arguments=dead))
    for body in (b"1", b"2", b"3"):
        talk.tells(Publish(1, message(body, "lettered"), False, False))
    *delivered, _ = talk.tells(Subscribe(1, 4, "lettered", "tag"))
    assert isinstance(delivered[1], Deliver)
    settled(talk, delivered[1].delivery, multiple=True, how=Outcome.REJECT)
    assert left(talk) == (1, 1)
    assert talk.done(DeclareQueue(1, 5, "dead", passive=True)).messages == 2


def test_a_server_of_27_july_is_not() -> None:
    talk = talking(NEWER)
    published(talk, b"1")
    (delivered,) = consuming(talk)
    with pytest.raises(LocalError, match="reject"):
        talk.client.send(Settle(1, delivered.delivery, False, Outcome.REJECT))
    assert left(talk) == (1, 1)


# --- publishing ----------------------------------------------------------------------------------


def test_each_publish_is_confirmed_by_its_response() -> None:
    talk = talking(OLDER)
    talk.done(SelectConfirms(1, 2))
    confirmed = published(talk, b"1", b"2", b"3")
    assert confirmed == [Confirm(1, at, False, True) for at in (1, 2, 3)]
    assert not talk.client.channels[1].transferred


def test_publishes_are_confirmed_by_completion() -> None:
    talk = talking(NEWER)
    talk.done(SelectConfirms(1, 2))
    confirmed = published(talk, b"1", b"2", b"3")
    assert confirmed[-1] == Confirm(1, 3, True, True)


@pytest.mark.parametrize("confirming", [True, False])
def test_what_no_queue_takes_comes_back(confirming: bool) -> None:
    talk = talking(OLDER)
    if confirming:
        talk.done(SelectConfirms(1, 2))
    lost = message(b"x", "nowhere")
    published(talk, b"1")
    assert talk.tells(Publish(1, lost, False, False)) == [Confirm(1, 2, False, True)] * confirming
    for mandatory in (True, False):
        came_back, *confirms = talk.tells(Publish(1, lost, mandatory, not mandatory))
        assert isinstance(came_back, Returned) and came_back.message is lost
        assert came_back.condition is Condition.NO_ROUTE
        sequence = came_back.sequence
        assert (sequence > 0) is confirming
        assert confirms == [Confirm(1, sequence, False, True)] * confirming
    assert not talk.client.channels[1].transferred


@both
def test_transactions(version: str) -> None:
    talk = talking(version)
    talk.done(Select(1, 2))
    published(talk, b"x")
    talk.done(Rollback(1, 3))
    assert talk.done(Fetch(1, 4, "q")) is None
    published(talk, b"x")
    talk.done(Commit(1, 5))
    fetched = talk.done(Fetch(1, 6, "q"))
    settled(talk, fetched.delivery)
    talk.done(Commit(1, 7))
    assert talk.done(DeclareQueue(1, 8, "q", passive=True)).messages == 0


@both
@pytest.mark.parametrize("spooled", [True, False])
def test_large_bodies_both_ways(version: str, spooled: bool) -> None:
    talk = talking(version, spool=Spool(threshold=1000) if spooled else None)
    body = bytes(range(256)) * 700
    published(talk, body, b"small")
    (seen, _) = talk.served.session.channels[1].browse("q")
    assert isinstance(seen.message.body, LargeBody) is spooled
    large, small = consuming(talk)
    assert (large.message.body, small.message.body) == (body, b"small")
    assert large.delivery < small.delivery
    settled(talk, large.delivery)
    assert left(talk) == (1, 1)
    settled(talk, small.delivery, multiple=True)
    assert left(talk) == (0, 0)
    published(talk, body)
    talk.done(Unsubscribe(1, 3, "tag"))
    published(talk, body)
    assert talk.done(Fetch(1, 4, "q", no_ack=True)).message.body == body


# --- a server of another hand --------------------------------------------------------------------


class Server:
    """Writes the frames of a server to a client that is in the middle of its work."""

    def __init__(self, version: str) -> None:
        self.talk = talking(version)
        self.engine = self.talk.served.adapter

    def says(self, *records: Any) -> list[Operation]:
        """Methods on channel 1, as its next requests."""
        for record in records:
            self.engine.send_method(1, record)
        octets = b"".join(self.engine.output())
        found: list[Operation] = self.talk.client.receive(octets) + self.talk.client.found()
        return found

    def answers(self, record: Any, request: int, batch: int = 0) -> list[Operation]:
        self.engine.send_method(1, record, request, batch)
        found: list[Operation] = self.talk.client.receive(b"".join(self.engine.output()))
        return found

    def heard(self) -> list[Any]:
        """What the client has said since."""
        octets = b"".join(self.talk.client.output())
        return [said.record for said in Heard(self.talk.client.table.name).read(octets)]


class Heard(Decoder):
    """Reads frames of a client."""

    def on_method(
        self, channel: int, carried: Any, buf: bytes, at: int, end: int, found: Any
    ) -> None:
        method = self._table.methods[int.from_bytes(buf[at : at + 4], "big")]
        record, _ = method.read(buf, at + 4)
        self.keep(channel, carried, record)


def by_name(name: bytes) -> bytes:
    return types.write_body(types.Body(True, name))


def inline(octets: bytes) -> bytes:
    return types.write_body(types.Body(False, octets))


@both
def test_a_body_in_parts_that_others_overtake(version: str) -> None:
    server = Server(version)
    assert (
        server.says(
            w.MessageOpen(b"r"),
            w.MessageAppend(b"r", b"ab"),
            w.MessageTransfer(destination="t", body=by_name(b"r")),
        )
        == []
    )
    (small,) = server.says(w.MessageTransfer(destination="t", body=inline(b"small")))
    assert server.says(w.MessageAppend(b"r", b"cd")) == []
    (large,) = server.says(w.MessageClose(b"r"))
    assert isinstance(small, Deliver) and isinstance(large, Deliver)
    assert (small.message.body, large.message.body) == (b"small", b"abcd")
    assert large.delivery < small.delivery
    deliveries = server.talk.client.channels[1].deliveries
    assert deliveries.up_to(small.delivery) == [large.delivery, small.delivery]


@both
def test_checkpoints_of_a_server(version: str) -> None:
    server = Server(version)
    server.says(w.MessageOpen(b"r"), w.MessageAppend(b"r", b"abc"), w.MessageCheckpoint(b"r", "i"))
    server.talk.client.channels[1].forget_content()
    assert server.says(w.MessageResume(b"r", "i")) == []
    assert server.heard() == [w.MessageOffset(3)]


def test_completion_of_ours_stops_before_what_is_not_settled() -> None:
    """A server of 27 July takes it for an acknowledgement."""
    server = Server(NEWER)
    server.says(w.MessageTransfer(destination="t", body=inline(b"x")), w.ExecutionFlush())
    (complete,) = server.heard()
    (name,) = server.talk.client.channels[1].deliveries.up_to(0)
    assert complete.cumulative_execution_mark == name - 1


def test_a_response_to_several_transfers() -> None:
    server = Server(OLDER)
    client = server.talk.client
    client.send(SelectConfirms(1, None))
    for _ in range(4):
        client.send(Publish(1, message(b"x"), False, False))
    client.output()
    first = min(client.channels[1].transferred)
    assert server.answers(w.MessageOk(), first, 2) == [
        Confirm(1, at, False, True) for at in (1, 2, 3)
    ]
    assert server.answers(w.MessageReject(1, "no"), first + 3, 0xFFFF_FFFF) == [
        Confirm(1, 4, False, False)
    ]
    assert server.answers(w.MessageOk(), first, 5) == []


@both
@pytest.mark.parametrize(
    "record",
    [
        w.MessageTransfer(destination="amqp-gateway-fetched", body=inline(b"")),
        w.MessageTransfer(destination="t", body=by_name(b"r")),
        w.MessageTransfer(destination="t", body=b"\2"),
        w.MessageAppend(b"r", b"x"),
        w.MessageOffset(5),
    ],
)
def test_what_a_server_may_not_say(version: str, record: Any) -> None:
    server = Server(version)
    server.says(record)
    (close,) = server.heard()
    assert isinstance(close, w.ConnectionClose) and close.reply_code in (502, 503)


def test_runs() -> None:
    assert list(runs([])) == []
    assert list(runs([5])) == [(5, 5)]
    assert list(runs([1, 2, 3, 7, 9, 10])) == [(1, 3), (7, 7), (9, 10)]


@both
def test_it_has_to_be_asked_for(version: str) -> None:
    assert not Engine(version, Role.CLIENT, credentials=Credentials()).class_message
