"""Login, tuning, time, the end, our own mistakes, and answers without the broker."""

from typing import Any, cast

import pytest

from gateway.adapters import Credentials, Limits
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.methods.wire import layouts as w
from gateway.adapters.methods.wire.tables import VERSIONS as TABLES
from gateway.errors import Condition, LocalError
from gateway.message import Message, Properties
from gateway.operations import (
    BeginSession,
    Blocked,
    Cancelled,
    Close,
    Closed,
    DeclareQueue,
    Deliver,
    Done,
    EndSession,
    Fetch,
    Open,
    Publish,
    Refused,
    SessionLost,
    Settle,
    Unsent,
)
from tests.adapters.methods.closes import PUBLISH, connection_dies
from tests.pair import VERSIONS, Pair, opened
from tests.talk import Talk

# --- login, tune ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refused_login(version: str) -> None:
    talk = Talk(version).started()
    ok = w.ConnectionStartOk(talk.properties, "PLAIN", b"\0guest\0wrong", "en_US")
    close = connection_dies(talk, talk.says(0, ok), 403, Condition.ACCESS_REFUSED)
    assert close.reply_text.startswith(
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."
    )
    talk = Talk(version, capabilities=()).started()
    ok.client_properties = talk.properties
    (closed,) = talk.says(0, ok)
    assert isinstance(closed, Closed) and closed.condition is Condition.ACCESS_REFUSED
    assert talk.hears() == [] and talk.adapter.closing


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("frame_max", [4095, 131073])
def test_a_frame_max_out_of_bounds(version: str, frame_max: int) -> None:
    talk = Talk(version).logged_in()
    words = talk.says(0, w.ConnectionTuneOk(0, frame_max, 0))
    connection_dies(talk, words, 530, Condition.NOT_ALLOWED)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wrong_header(version: str) -> None:
    talk = Talk(version)
    assert talk.sends(b"AMQP") == []
    (closed,) = talk.sends(b"\x09\x09\x09\x09")
    assert isinstance(closed, Closed)
    assert talk.adapter.output() == [TABLES[version].header]


def test_the_header_of_amqplib() -> None:
    talk = Talk("0-8")
    assert talk.sends(b"AMQP\x01\x01\x09\x01") == []
    start = talk.heard(w.ConnectionStart)
    assert (start.version_major, start.version_minor) == (8, 0)


@pytest.mark.parametrize("text", ["", "x" * 300, "\udcff" * 300])
def test_texts_are_cut_to_fit(text: str) -> None:
    talk = Talk().opened(1)
    talk.adapter.send(SessionLost(1, Condition.NOT_FOUND, text))
    assert talk.heard(w.ChannelClose).reply_text.startswith("NOT_FOUND - ")


# --- other answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_access_is_a_formality(version: str) -> None:
    talk = Talk(version).opened(1)
    assert talk.says(1, w.AccessRequest("/data")) == []
    assert talk.heard(w.AccessRequestOk).ticket == (1 if version != "0-9-1" else 1)


def test_ping() -> None:
    talk = Talk("0-9").opened(1)
    assert talk.says(1, w.ChannelPing()) == []
    talk.heard(w.ChannelOk)
    words = talk.says(1, complete("0-9").by_name["channel.resume"].record())
    connection_dies(talk, words, 540, Condition.NOT_IMPLEMENTED)


def test_qpid_clients_of_0_8_hear_recover_ok() -> None:
    talk = Talk("0-8", product="qpid").opened(1)
    (word,) = talk.says(1, w.BasicRecover(True))
    talk.adapter.send(Done(1, word.token))  # type: ignore[attr-defined]
    talk.heard(w.BasicRecoverOk)
    talk = Talk("0-8").opened(1)
    (word,) = talk.says(1, w.BasicRecover(True))
    assert word.token is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_capable_are_told(version: str) -> None:
    for capabilities, count in (((), 0), (("consumer_cancel_notify", "connection.blocked"), 1)):
        talk = Talk(version, capabilities=capabilities).opened(1)
        talk.adapter.send(Cancelled(1, "tag"))
        assert len(talk.hears()) == count
        talk.adapter.send(Blocked("memory"))
        assert len(talk.hears()) == (count if version != "0-8" else 0)


# --- our own mistakes ----------------------------------------------------------------------------


def test_local_errors_write_nothing() -> None:
    pair = opened("0-9-1")
    message = Message(BASIC, b"\0\0", b"", "x" * 256, "k", BASIC.essentials(b"\0\0"))
    plain = Message(BASIC, b"\0\0", b"", "x", "k", BASIC.essentials(b"\0\0"))
    for word in (
        Publish(1, message, False, False),
        Publish(9, plain, False, False),
        Settle(9, 1, False, 0),  # type: ignore[arg-type]
        DeclareQueue(1, 1, "q" * 256),
        BeginSession(1, 1),
        BeginSession(0, 1),
        Open(1, "/", ""),
        Deliver(9, "t", 1, False, plain),
    ):
        with pytest.raises(LocalError):
            pair.client.send(word)
        assert pair.client.output() == []
    with pytest.raises(LocalError):
        pair.server.send(DeclareQueue(1, 1, "q"))
    with pytest.raises(LocalError):
        pair.server.send(Publish(1, plain, False, False))
    with pytest.raises(LocalError):
        Pair("0-9-1").client.send(DeclareQueue(1, 1, "q"))
    # A delivery that cannot be written costs the message: it is handed back.
    pair.server.send(Deliver(1, "t" * 256, 1, False, plain))
    assert pair.server.found() == [Unsent(1, "t" * 256, 1, plain)]
    assert pair.server.output() == []


# --- time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_heartbeats(version: str) -> None:
    talk = Talk(version, limits=Limits(heartbeat=10)).logged_in()
    (word,) = talk.says(0, w.ConnectionTuneOk(0, 0, 10), w.ConnectionOpen("/"))
    assert talk.adapter.tick(100.0) == []
    talk.adapter.send(Done(0, word.token))  # type: ignore[attr-defined]
    talk.hears()
    assert talk.adapter.tick(101.0) == []
    assert talk.adapter.tick(104.9) == [] and talk.adapter.output() == []
    assert talk.adapter.tick(105.0) == [], "half an interval after the tick before we last spoke"
    assert talk.adapter.output() == [TABLES[version].geometry.heartbeat]
    talk.sends(TABLES[version].geometry.heartbeat)
    assert talk.adapter.tick(107.0) == []
    assert talk.adapter.tick(126.9) == []
    (closed,) = talk.adapter.tick(127.0)
    assert isinstance(closed, Closed) and talk.adapter.closing


def test_a_handshake_takes_ten_seconds_at_most() -> None:
    talk = Talk().started()
    assert talk.adapter.tick(5.0) == []
    assert talk.adapter.tick(14.9) == []
    (closed,) = talk.adapter.tick(15.0)
    assert isinstance(closed, Closed) and talk.adapter.tick(16.0) == []


def test_a_close_that_is_not_answered() -> None:
    talk = Talk().opened(1)
    talk.adapter.send(Close(Condition.CONNECTION_FORCED, "down"))
    assert talk.heard(w.ConnectionClose).reply_code == 320
    assert talk.says(1, w.QueueDeclare(queue="q"), PUBLISH) == []
    assert talk.adapter.tick(1.0) == [] and talk.adapter.tick(5.9) == []
    assert talk.adapter.tick(6.0) == [Closed(Condition.CONNECTION_FORCED, "down", theirs=False)]


def test_the_end_of_the_stream() -> None:
    pair = opened("0-9-1")
    pair.client.send(Fetch(1, 7, "q"))
    words = pair.client.receive(b"")
    assert isinstance(words[0], Refused) and words[0].token == 7
    assert isinstance(words[1], Closed) and len(words) == 2
    assert pair.client.lost() == []
    (closed,) = pair.server.lost()
    assert isinstance(closed, Closed)


def test_an_outlet_of_a_closed_channel_is_silent() -> None:
    message = Message(BASIC, b"\0\0", b"1", "x", "k", BASIC.essentials(b"\0\0"))
    pair = opened("0-9-1")
    outlet = pair.server.outlet(1)
    pair.client.send(EndSession(1, 7))
    (ended,) = pair.to_server()
    pair.server.send(Done(1, ended.token))  # type: ignore[attr-defined]
    assert pair.to_client() == [Done(1, 7)]
    outlet.deliver("t", 1, False, message)
    assert pair.server.output() == []
    pair.begin(1)
    outlet = pair.server.outlet(1)
    pair.client.send(Close())
    assert pair.talk()[0]
    outlet.deliver("t", 1, False, message)
    outlet.confirm(1, False, True)
    assert pair.server.output() == []


def test_waking() -> None:
    woken: list[int] = []
    pair = opened("0-9-1")
    message = Message(BASIC, b"\0\0", b"1", "x", "k", BASIC.essentials(b"\0\0"))
    pair.server.wake = lambda: woken.append(1)
    outlet = pair.server.outlet(1)
    outlet.deliver("t", 1, False, message)
    outlet.deliver("t", 2, False, message)
    assert len(woken) == 1
    pair.server.output()
    outlet.confirm(1, False, True)
    assert len(woken) == 2
    assert len(pair.to_client()) == 1


def test_large_bodies_are_cut_to_the_peers_frames() -> None:
    pair = opened("0-9-1", client_limits=Limits(frame_max=4096))
    content = bytes(range(256)) * 100
    properties = BASIC.write(Properties())
    message = Message(BASIC, properties, content, "x", "k", BASIC.essentials(properties))
    pair.server.outlet(1).deliver("t", 1, False, message)
    data = b"".join(cast(Any, pair.server).pending)
    assert data.count(b"\xce\x03\0\x01\0\0\x0f\xf8") == len(content) // 4088
    (word,) = pair.to_client()
    assert isinstance(word, Deliver) and word.message.body == content
    pair.client.send(Publish(1, message, False, False))
    (heard,) = pair.to_server()
    assert isinstance(heard, Publish) and heard.message.body == content


@pytest.mark.parametrize(
    "mechanism", ["PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "ANONYMOUS", "EXTERNAL"]
)
def test_every_mechanism(mechanism: str) -> None:
    from tests.pair import Users

    pair = Pair(
        "0-9-1",
        credentials=Credentials("guest", "guest", mechanism),
        authority=Users(anonymous="guest"),
        external_subject="CN=guest",
    )
    assert pair.open().user == "guest"
