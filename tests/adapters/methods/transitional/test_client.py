"""The client role: against our server with a broker, and against the recorded servers."""

import contextlib
import random
from typing import Any

import pytest

from gateway.adapters import Credentials, Limits, Role
from gateway.adapters.methods.transitional.engine import Engine
from gateway.bodies import Spool
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import (
    BeginSession,
    Bind,
    Close,
    Closed,
    Commit,
    Confirm,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Deliver,
    Done,
    EndSession,
    Fetch,
    FindBindings,
    FindExchange,
    Flow,
    FoundBindings,
    FoundExchange,
    Open,
    Operation,
    Outcome,
    Prefetch,
    Publish,
    PurgeQueue,
    QueueState,
    Recover,
    Refused,
    Rollback,
    Select,
    SelectConfirms,
    SessionLost,
    Settle,
    Subscribe,
    Synchronize,
    Unbind,
    Unsubscribe,
)
from tests.adapters.client_talk import ClientTalk, message
from tests.adapters.methods.transitional.recorded import NAMES, frames, octets
from tests.adapters.methods.transitional.serving import LIMITS, Served
from tests.adapters.test_fuzz import mutate

OLDER, NEWER = "0-10-07-24", "0-10-07-27"
both = pytest.mark.parametrize("version", [OLDER, NEWER])


class Talk(ClientTalk):
    """A client of ours, and our server with a broker."""

    def __init__(
        self,
        version: str,
        listener: str = "",
        class_message: bool = False,
        class_session: bool = False,
        **options: Any,
    ) -> None:
        self.served = Served(listener or version, **options)
        engine = Engine(
            version,
            Role.CLIENT,
            credentials=Credentials(),
            limits=LIMITS,
            class_message=class_message,
            class_session=class_session,
        )
        super().__init__(engine, lambda asked: self.served.octets(asked) if asked else b"")


@both
def test_topology(version: str) -> None:
    talk = Talk(version)
    alternate = {"alternate-exchange": "amq.fanout"}
    assert talk.done(DeclareExchange(1, 1, "x", "topic", arguments=alternate)) is None
    assert talk.done(FindExchange(1, 2, "x")) == FoundExchange("x", "topic", False, alternate)
    assert talk.done(FindExchange(1, 3, "none")) is None
    assert talk.done(DeclareQueue(1, 4, "q")) == QueueState("q", 0, 0)
    asked = FindBindings(1, 5, "x", "q", "a")
    assert talk.done(asked).queue_not_matched
    assert talk.done(Bind(1, 6, "q", "x", "a")) is None
    assert talk.done(asked) == FoundBindings("q", bindings=True)
    assert talk.done(Unbind(1, 7, "q", "x", "a")) is None
    assert talk.done(PurgeQueue(1, 8, "q")) == 0
    assert talk.done(DeleteQueue(1, 9, "q")) == 0
    assert talk.done(DeleteExchange(1, 10, "x")) is None
    assert talk.done(Flow(1, 11, False)) is False
    assert talk.done(Synchronize(1, 12)) is None
    assert talk.tells(DeclareQueue(1, None, "silent")) == []
    assert talk.done(DeclareQueue(1, 13, "silent", passive=True)) == QueueState("silent", 0, 0)
    assert talk.done(EndSession(1, 14)) is None
    assert talk.done(BeginSession(1, 15)) is None


@both
def test_messages_come_and_go(version: str) -> None:
    talk = Talk(version)
    talk.done(DeclareQueue(1, 1, "q"))
    given = message(b"one", content_type="text/plain", application={"a": "b"}, durable=True)
    assert talk.tells(Publish(1, given, False, False)) == []
    fetched = talk.done(Fetch(1, 2, "q"))
    assert (fetched.message.body, fetched.remaining) == (b"one", 0)
    assert fetched.message.properties == given.properties
    assert talk.done(Fetch(1, 3, "q")) is None
    talk.tells(Settle(1, fetched.delivery, False, Outcome.RELEASE))
    assert talk.done(Prefetch(1, 4, 10)) is None
    subscribed, delivered = talk.tells(Subscribe(1, 5, "q", "tag"))
    assert subscribed == Done(1, 5, "tag")
    assert isinstance(delivered, Deliver) and delivered.redelivered
    talk.tells(Settle(1, delivered.delivery, False, Outcome.ACCEPT))
    for body in (b"2", b"3", b"4"):
        (delivered,) = talk.tells(Publish(1, message(body), False, False))
        assert isinstance(delivered, Deliver) and delivered.message.body == body
    talk.tells(Settle(1, delivered.delivery, True, Outcome.ACCEPT))
    assert talk.done(Unsubscribe(1, 6, "tag")) == "tag"
    assert not talk.served.adapter.channels[1].deliveries
    assert not talk.client.channels[1].deliveries
    assert talk.done(DeleteQueue(1, 7, "q")) == 0


@both
def test_many_are_given_back_one_by_one(version: str) -> None:
    talk = Talk(version)
    talk.done(DeclareQueue(1, 1, "q"))
    talk.tells(*(Publish(1, message(body), False, False) for body in (b"1", b"2", b"3")))
    _, first, second, _ = talk.tells(Subscribe(1, 2, "q", "tag"))
    assert isinstance(second, Deliver)
    talk.tells(Settle(1, second.delivery, True, Outcome.REJECT))
    assert len(talk.served.adapter.channels[1].deliveries) == 1
    (again,) = talk.tells(Recover(1, None, True))
    assert isinstance(again, Deliver) and again.message.body == b"3" and again.redelivered


@both
def test_dead_letters_through_the_default_exchange(version: str) -> None:
    talk = Talk(version)
    talk.done(DeclareQueue(1, 1, "dead"))
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    talk.done(DeclareQueue(1, 2, "q", arguments=arguments))
    talk.tells(Publish(1, message(b"x"), False, False))
    fetched = talk.done(Fetch(1, 3, "q"))
    talk.tells(Settle(1, fetched.delivery, False, Outcome.REJECT))
    assert talk.done(Fetch(1, 4, "dead")).message.body == b"x"


@both
def test_transactions(version: str) -> None:
    talk = Talk(version)
    talk.done(DeclareQueue(1, 1, "q"))
    talk.done(Select(1, 2))
    talk.tells(Publish(1, message(b"x"), False, False))
    talk.done(Rollback(1, 3))
    assert talk.done(DeclareQueue(1, 4, "q", passive=True)).messages == 0
    talk.tells(Publish(1, message(b"x"), False, False))
    talk.done(Commit(1, 5))
    assert talk.done(DeclareQueue(1, 6, "q", passive=True)).messages == 1


@both
def test_publishes_are_confirmed_with_few_questions(version: str) -> None:
    talk = Talk(version)
    talk.done(DeclareQueue(1, 1, "q"))
    talk.done(SelectConfirms(1, 2))
    for _ in range(10):
        talk.client.send(Publish(1, message(b"x"), False, False))
    talk.carry()
    confirms = [heard for heard in talk.heard if isinstance(heard, Confirm)]
    assert confirms == talk.heard and confirms[-1] == Confirm(1, 10, True, True)
    assert len(confirms) == 2  # the first, and all that were sent before its answer


@both
@pytest.mark.parametrize("spooled", [True, False])
def test_large_bodies_both_ways(version: str, spooled: bool) -> None:
    talk = Talk(version, spool=Spool(threshold=1000) if spooled else None)
    talk.done(DeclareQueue(1, 1, "q"))
    body = bytes(range(256)) * 400
    talk.tells(Publish(1, message(body), False, False))
    assert talk.done(Fetch(1, 2, "q", no_ack=True)).message.body == body


@both
def test_a_refusal_costs_the_channel(version: str) -> None:
    talk = Talk(version)
    refused, lost = talk.tells(DeclareQueue(1, 1, "none", passive=True))
    assert isinstance(refused, Refused) and refused.condition is Condition.NOT_FOUND
    assert refused.lost is Lost.SESSION and refused.token == 1
    assert isinstance(lost, SessionLost) and not talk.client.channels
    assert talk.done(BeginSession(1, 2)) is None
    assert talk.done(DeclareQueue(1, 3, "q")) == QueueState("q", 0, 0)


@both
def test_a_refusal_costs_the_connection(version: str) -> None:
    talk = Talk(version)
    heard = talk.tells(DeclareExchange(1, 1, "amq.direct", "topic"))
    refused, closed = heard
    assert isinstance(refused, Refused) and refused.lost is Lost.CONNECTION
    assert isinstance(closed, Closed) and closed.condition is Condition.NOT_ALLOWED
    assert talk.client.closing


@both
def test_we_close(version: str) -> None:
    talk = Talk(version)
    heard = talk.tells(Close())
    assert heard == [Closed(None, "", theirs=False)] and talk.client.closing


@pytest.mark.parametrize(("version", "listener"), [(OLDER, NEWER), (NEWER, OLDER)])
def test_the_server_decides_in_which_frames_methods_go(version: str, listener: str) -> None:
    talk = Talk(version, listener)
    assert talk.client.requests == talk.served.adapter.requests == (listener == OLDER)
    assert talk.done(DeclareQueue(1, 1, "q")) == QueueState("q", 0, 0)


@both
def test_what_cannot_be_said(version: str) -> None:
    talk = Talk(version)
    for operation in (
        Bind(1, 1, "x", "y", to_exchange=True),
        DeclareExchange(1, 1, "x", internal=True),
        Deliver(1, "t", 1, False, message(b"")),
        BeginSession(1, 2),
        DeclareQueue(7, 1, "q"),
        DeclareQueue(1, 1, "q" * 256),
    ):
        with pytest.raises(LocalError):
            talk.client.send(operation)
        assert talk.client.output() == []


@both
def test_a_final_server_is_told_by_its_first_octets(version: str) -> None:
    client = Engine(version, Role.CLIENT, credentials=Credentials())
    assert b"".join(client.output()) == b"AMQP\1\1\0\x0a"
    (closed,) = client.receive(b"AMQP\1\1\0\x0a")
    assert isinstance(closed, Closed) and closed.condition is Condition.NOT_IMPLEMENTED


# --- recorded servers ----------------------------------------------------------------------------


def unmarked(data: bytes) -> bytes:
    """Frames without response marks, which the recorded Python client leaves zero."""
    found, at = b"", 0
    if data[:4] == b"AMQP":
        return data
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at + 3 : at + 7], "big")
        is_request = data[at] == 9
        found += data[at : at + 15] + bytes(8) + data[at + 23 : end] if is_request else data[at:end]
        at = end
    return found


class Script:
    """Our client and the server's half of a recording. Octets that we send have to be those of the
    recorded client, unless the test ``skips`` them."""

    def __init__(self, name: str, size: int) -> None:
        self._recorded = iter(frames(name))
        self._size = size
        self.client = Engine(name[:10], Role.CLIENT, credentials=Credentials(), limits=Limits(0))
        self.heard: list[Operation] = []

    def hear(self, *meanings: str) -> None:
        """The next frames of the server."""
        for meaning in meanings:
            frame = next(frame for frame in self._recorded if not frame.from_client)
            assert meaning in frame.meaning, frame.meaning
            for at in range(0, len(frame.octets), self._size):
                self.heard += self.client.receive(frame.octets[at : at + self._size])
            self.heard += self.client.found()

    def says(self, *meanings: str) -> None:
        """We send what the recorded client sent next."""
        said = b"".join(self.client.output())
        expected = b""
        for meaning in meanings:
            frame = next(frame for frame in self._recorded if frame.from_client)
            assert meaning in frame.meaning, frame.meaning
            expected += frame.octets
        assert unmarked(said) == unmarked(expected)

    def skips(self, *meanings: str) -> None:
        """We send something else than the recorded client did."""
        assert self.client.output()
        for meaning in meanings:
            frame = next(frame for frame in self._recorded if frame.from_client)
            assert meaning in frame.meaning, frame.meaning

    def login(self) -> None:
        self.says("protocol header")
        self.client.send(Open("open", "/", "guest"))
        self.hear("connection.start ")
        self.skips("connection.start-ok")
        self.hear("connection.tune ")
        self.skips("connection.tune-ok", "connection.open ")
        self.hear("connection.open-ok")
        self.client.send(BeginSession(1, "begin"))
        self.says("channel.open")
        self.hear("channel.open-ok")
        assert [done.token for done in self.heard if isinstance(done, Done)] == ["open", "begin"]
        self.heard.clear()

    def done(self, token: Any) -> Any:
        (answer,) = self.heard
        self.heard = []
        assert isinstance(answer, Done) and answer.token == token
        return answer.result


@pytest.mark.parametrize("size", [1, 9, 1 << 20])
def test_a_recorded_server_of_24_july(size: int) -> None:
    script = Script("0-10-07-24-basic", size)
    client = script.client
    script.login()
    client.send(DeclareQueue(1, "q", "cap.b", exclusive=True, auto_delete=True))
    script.says("queue.declare")
    script.hear("queue.declare-ok")
    assert script.done("q") == QueueState("cap.b", 0, 0)
    sent = message(
        b"hello basic", "cap.b", content_type="text/plain", application={"a": "b"},
        durable=False, message_id="m1",
    )  # fmt: skip
    client.send(Publish(1, sent, False, False))
    client.send(Synchronize(1, "flushed"))
    script.says("basic.publish", "content header", "content body", "execution.flush")
    script.hear("execution.complete")
    assert script.done("flushed") is None
    client.send(Subscribe(1, "c", "cap.b"))
    script.says("basic.consume")
    script.hear("basic.consume-ok", "basic.deliver", "content header", "content body")
    consuming, delivered = script.heard
    script.heard = []
    assert consuming == Done(1, "c", "sgen1")
    assert isinstance(delivered, Deliver) and delivered.message.body == b"hello basic"
    assert delivered.message.header == sent.header
    client.send(Settle(1, delivered.delivery, False, Outcome.ACCEPT))
    client.send(Synchronize(1, "acknowledged"))
    script.says("basic.ack", "execution.flush")
    script.hear("execution.complete")
    assert script.done("acknowledged") is None
    client.send(Unsubscribe(1, "u", "sgen1"))
    script.says("basic.cancel")
    script.hear("basic.cancel-ok")
    assert script.done("u") == "sgen1"
    client.send(Publish(1, message(b"", "cap.b"), False, False))
    client.send(Synchronize(1, "again"))
    script.says("basic.publish", "content header", "execution.flush")
    script.hear("execution.complete")
    assert script.done("again") is None
    client.send(EndSession(1, "end"))
    script.skips("channel.close")
    script.hear("channel.close-ok")
    assert script.done("end") is None
    client.send(Close())
    assert not client.closing
    script.skips("connection.close")
    script.hear("connection.close-ok")
    assert script.heard == [Closed(None, "", theirs=False)] and client.closing


@pytest.mark.parametrize("size", [1, 9, 1 << 20])
def test_a_recorded_server_of_27_july(size: int) -> None:
    script = Script("0-10-07-27-cplusplus-client", size)
    client = script.client
    script.login()
    client.send(DeclareExchange(1, "x", "MyExchange", "topic"))
    script.says("exchange.declare", "execution.flush")
    script.hear("execution.complete")
    assert script.done("x") is None
    client.send(DeclareQueue(1, "q", "MyQueue", exclusive=True, auto_delete=True))
    script.says("queue.declare")
    script.hear("queue.declare-ok")
    assert script.done("q") == QueueState("MyQueue", 0, 0)
    client.send(Bind(1, "b", "MyQueue", "MyExchange", "MyTopic"))
    client.send(Subscribe(1, "c", "MyQueue", "MyTag", no_ack=True))
    script.says("queue.bind", "execution.flush", "basic.consume")
    script.hear("execution.complete", "basic.consume-ok")
    assert script.heard == [Done(1, "b"), Done(1, "c", "MyTag")]
    script.heard = []
    client.send(Publish(1, message(b"Hello, 27"[:9], "MyTopic", "MyExchange"), False, False))
    script.skips("basic.publish", "content header", "content body")
    script.hear("basic.deliver", "content header", "content body")
    (delivered,) = script.heard
    assert isinstance(delivered, Deliver) and delivered.delivery == 4
    assert len(client.channels[1].deliveries) == 0


def test_a_recorded_server_closes_a_channel_and_the_connection() -> None:
    script = Script("0-10-07-27-error", 1 << 20)
    client = script.client
    script.login()
    client.send(DeclareQueue(1, "q", "no-such-queue", passive=True))
    script.says("queue.declare")
    script.hear("channel.close")
    refused, lost = script.heard
    assert isinstance(refused, Refused) and refused.condition is Condition.NOT_FOUND
    assert isinstance(lost, SessionLost)
    script.heard = []
    assert client.output()  # close-ok, which the recorded client did not send
    client.send(BeginSession(2, "begin"))
    script.says("channel.open")
    script.hear("channel.open-ok")
    assert script.done("begin") is None
    client.send(DeclareExchange(2, "x", "amq.direct", "topic"))
    script.says("exchange.declare", "execution.flush")
    script.hear("connection.close")
    refused, closed = script.heard
    assert isinstance(refused, Refused) and refused.token == "x"
    assert isinstance(closed, Closed) and closed.condition is Condition.NOT_ALLOWED


# --- noise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_mutated_servers(name: str) -> None:
    """Nothing is raised, and nothing grows."""
    chance = random.Random(name)
    whole = octets(name, False)
    limits = Limits(8192, 100, 0, 20_000)
    for _ in range(60):
        client = Engine(name[:10], Role.CLIENT, credentials=Credentials(), limits=limits)
        client.send(Open("open", "/", "guest"))
        data, size = mutate(whole, chance), chance.choice([7, 60, 500, 1 << 20])
        for at in range(0, len(data), size):
            heard = client.receive(data[at : at + size]) + client.found()
            if not client.closing:
                assert client.frames.held <= limits.max_message_octets + (1 << 16) + 8
                assert client.announced <= 4 * limits.max_message_octets
            for operation in heard:
                if isinstance(operation, Done) and not client.closing:
                    ask(client, operation.token)
            client.output()
        client.lost()
        assert client.closing and not client.channels


def ask(client: Engine, token: Any) -> None:
    """Go on with what the recorded clients asked for."""
    asked: dict[str, Operation] = {
        "open": BeginSession(1, "begin"),
        "begin": DeclareQueue(1, "declare", "q"),
        "declare": Subscribe(1, "subscribe", "q", "MyTag"),
        "subscribe": Fetch(1, "fetch", "q"),
    }
    operation = asked.get(token)
    if operation is not None:
        with contextlib.suppress(LocalError):  # the channel may have been closed
            client.send(operation)
