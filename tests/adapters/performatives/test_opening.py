"""The connection endpoint by section: headers, SASL, open, limits, idle time-outs, close."""

import itertools
from typing import Any, cast

import pytest

from gateway.adapters import Credentials, Limits, Role, adapter_for
from gateway.adapters.performatives.engine import Engine
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import HEADER, SASL_HEADER, TLS_HEADER
from gateway.errors import Condition, LocalError, Lost
from gateway.net.listener import COMPAT
from gateway.operations import (
    BeginSession,
    Close,
    Closed,
    Done,
    Open,
    Operation,
    Refused,
    SelectConfirms,
    SessionLost,
)
from gateway.sessions.management_requests import NODE
from tests.adapters.performatives.house import message
from tests.adapters.performatives.wire import PLAIN, SASL, Heard, Wire, packed, unpacked
from tests.pair import Pair, Users, pieces, single, sized, whole

EMPTY = packed(None)


def ended(found: list[Operation], condition: Condition | None = None, theirs: bool = True) -> str:
    """What ended it is the last word; its text."""
    last = found[-1]
    assert isinstance(last, Closed), found
    assert (last.condition, last.theirs) == (condition, theirs)
    return last.text


def closed_with(wire: Wire, symbol: str) -> None:
    """The last frame is a close with this error, and an open stands before it."""
    records = [frame.record for frame in wire.heard() if frame.record is not None]
    assert isinstance(records[-1], w.Close)
    assert records[-1].error is not None and records[-1].error.condition == symbol
    assert wire.engine.closing


# --- §2.2 and §5: headers and layers -----------------------------------------------------------


def test_a_client_without_sasl_is_shown_the_layer() -> None:
    wire = Wire()
    ended(wire.feed(HEADER), Condition.ACCESS_REFUSED)
    assert wire.heard() == [Heard(-1, None, SASL_HEADER)]


def test_a_client_without_sasl_is_the_anonymous_user() -> None:
    wire = Wire(authority=Users(anonymous="guest"))
    (asked,) = wire.feed(HEADER + packed(w.Open("c")))
    assert isinstance(asked, Open) and asked.user == "guest"
    assert wire.heard() == [Heard(-1, None, HEADER)]


def test_nor_is_it_where_anonymous_is_not_allowed() -> None:
    wire = Wire(authority=Users(anonymous="guest"), mechanisms=("PLAIN",))
    ended(wire.feed(HEADER), Condition.ACCESS_REFUSED)


@pytest.mark.parametrize("header", [TLS_HEADER, b"AMQP\0\1\1\0", b"GET / HTTP/1.1\r\n", b"AMX"])
def test_other_headers_are_answered_with_one_of_ours(header: bytes) -> None:
    wire = Wire()
    ended(wire.feed(header), Condition.NOT_IMPLEMENTED)
    assert wire.heard() == [Heard(-1, None, SASL_HEADER)]


def test_inside_the_sasl_layer_is_amqp() -> None:
    wire = Wire()
    wire.feed(SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL))
    ended(wire.feed(SASL_HEADER), Condition.NOT_IMPLEMENTED)
    assert wire.heard()[-1] == Heard(-1, None, HEADER)


def test_mechanisms_come_in_decreasing_preference() -> None:
    wire = Wire(authority=Users(anonymous="guest"), external_subject="CN=guest")
    wire.feed(SASL_HEADER)
    header, mechanisms = wire.heard()
    assert header.payload == SASL_HEADER
    assert mechanisms.record.sasl_server_mechanisms == (
        "EXTERNAL", "SCRAM-SHA-256", "PLAIN", "AMQPLAIN", "ANONYMOUS",
    )  # fmt: skip


def test_everything_may_come_at_once() -> None:
    """§2.4.2: header, login, header and open in one read."""
    wire = Wire()
    octets = SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL) + HEADER
    (asked,) = wire.feed(octets + packed(w.Open("c", "vhost:other")))
    assert isinstance(asked, Open)
    assert (asked.vhost, asked.user, asked.peer.mechanism) == ("other", "guest", "PLAIN")
    wire.engine.send(Done(0, asked.token))
    records = wire.hears()
    assert [type(record) for record in records] == [
        type(None), w.SaslMechanisms, w.SaslOutcome, type(None), w.Open,
    ]  # fmt: skip
    assert records[2].code == 0


def test_a_wrong_password() -> None:
    wire = Wire()
    found = wire.feed(SASL_HEADER + packed(w.SaslInit("PLAIN", b"\0guest\0x"), kind=SASL))
    ended(found, Condition.ACCESS_REFUSED)
    assert wire.hears()[-1] == w.SaslOutcome(1)


def test_a_mechanism_that_was_not_offered() -> None:
    wire = Wire()
    ended(
        wire.feed(SASL_HEADER + packed(w.SaslInit("GSSAPI"), kind=SASL)), Condition.ACCESS_REFUSED
    )
    assert wire.hears()[-1] == w.SaslOutcome(1)


@pytest.mark.parametrize(
    "frame",
    [
        packed(None, kind=SASL),  # §5.3.1: an empty frame is an irrecoverable error
        packed(w.SaslInit("PLAIN", PLAIN), payload=b"\x40", kind=SASL),
        packed(w.SaslResponse(b"x"), kind=SASL),
        packed(w.SaslOutcome(0), kind=SASL),
        packed(w.Open("c")),
        packed(w.Open("c"), kind=SASL),
        packed(w.SaslInit("PLAIN", b"\0guest\0" + b"x" * 9000), kind=SASL),
        EMPTY,
        b"\0\0\0\x08\x02\x07\0\0",
        b"\0\0\0\x07\x02\x01\0\0",
    ],
)
def test_a_broken_dialog_ends_without_a_close(frame: bytes) -> None:
    wire = Wire()
    wire.feed(SASL_HEADER)
    wire.heard()
    found = wire.feed(frame)
    assert isinstance(found[-1], Closed) and found[-1].theirs
    assert wire.heard() == []
    assert wire.engine.closing and wire.feed(b"more") == []


# --- §2.3: frames ------------------------------------------------------------------------------


def test_an_extended_header_is_skipped() -> None:
    wire = Wire()
    wire.login()
    body = packed(w.Open("c"))[8:]
    octets = (len(body) + 16).to_bytes(4, "big") + b"\x04\0\0\0" + b"extended" + body
    (asked,) = wire.feed(octets)
    assert isinstance(asked, Open)


@pytest.mark.parametrize(
    "octets",
    [
        b"\0\0\0\x07\x02\0\0\0",
        b"\0\0\0\x08\x01\0\0\0",
        b"\0\0\0\x08\x03\0\0\0",
        b"\0\0\0\x08\x02\x01\0\0",
        b"\0\0\0\x08\x02\x02\0\0",
        b"\x00\x02\x00\x01\x02\0\0\0",
        b"\xff\xff\xff\xff\x02\0\0\0",
        b"\0\0\0\0\0\0\0\0",
    ],
)
def test_invalid_frames(octets: bytes) -> None:
    wire = Wire().opened()
    ended(wire.feed(octets), Condition.FRAME_ERROR)
    closed_with(wire, "amqp:connection:framing-error")


@pytest.mark.parametrize(
    ("body", "symbol"),
    [
        (b"\x40", "amqp:decode-error"),
        (b"\x00\x53\x16\xc0\x03\x01\x43", "amqp:decode-error"),
        (b"\x00\x53\x40\xc0\x04\x01\xa3\x01x", "amqp:decode-error"),
        (b"\x00\x53\x99\x45", "amqp:decode-error"),
        (b"\x00\x53\x16\x45", "amqp:invalid-field"),
        (b"\x00\x53\x11\xc0\x02\x01\x40", "amqp:invalid-field"),
    ],
)
def test_invalid_performatives(body: bytes, symbol: str) -> None:
    wire = Wire().opened()
    found = wire.feed((len(body) + 8).to_bytes(4, "big") + b"\x02\0\0\0" + body)
    assert isinstance(found[-1], Closed)
    closed_with(wire, symbol)


# --- §2.4.1 and §2.7.1: open -------------------------------------------------------------------


def test_our_open() -> None:
    wire = Wire(limits=Limits(frame_max=4096, channel_max=9, heartbeat=30))
    wire.login()
    wire.heard()
    (asked,) = wire.says(w.Open("c"))
    assert isinstance(asked, Open)
    wire.engine.send(Done(0, asked.token))
    ((channel, record, _),) = wire.heard()
    assert channel == 0
    assert (record.max_frame_size, record.channel_max, record.idle_time_out) == (4096, 9, 30_000)
    assert record.container_id == "amqp-gateway"
    assert record.properties["product"] == "amqp-gateway"
    assert "node" not in record.properties
    assert "ANONYMOUS-RELAY" in record.offered_capabilities


def test_clients_of_rabbitmq_are_told_a_node() -> None:
    """Its Java client gives up without one."""
    wire = Wire(product=COMPAT["rabbitmq-4"])
    wire.login()
    (asked,) = wire.says(w.Open("c"))
    assert isinstance(asked, Open)
    wire.engine.send(Done(0, asked.token))
    properties = wire.hears()[-1].properties
    assert (properties["product"], properties["node"]) == ("RabbitMQ", NODE)
    assert tuple(int(part) for part in properties["version"].split(".")) >= (4, 2, 0)


def test_no_limits_are_the_limit_of_messages() -> None:
    limits = Limits(frame_max=0, channel_max=0, heartbeat=0, max_message_octets=1 << 20)
    wire = Wire(limits=limits)
    wire.login()
    wire.heard()
    (asked,) = wire.says(w.Open("c"))
    assert isinstance(asked, Open)
    wire.engine.send(Done(0, asked.token))
    (record,) = wire.hears()
    assert (1 << 20) < record.max_frame_size < (1 << 21)
    assert (record.channel_max, record.idle_time_out) == (65535, None)


def test_identity_of_the_peer() -> None:
    wire = Wire()
    wire.login()
    properties: dict[Any, Any] = {"product": "p", "version": "1", "platform": 5}
    (asked,) = wire.says(w.Open("c", properties=properties))
    assert isinstance(asked, Open)
    peer = asked.peer
    assert (peer.product, peer.product_version, peer.platform) == ("p", "1", "")
    assert (peer.name, peer.version, wire.engine.connection.container) == ("c", "1.0", "c")


@pytest.mark.parametrize(
    ("hostname", "vhost"),
    [(None, "/"), ("example.com", "/"), ("vhost:a b", "a b"), ("vhost:", "/"), ("vhost:/", "/")],
)
def test_hosts(hostname: str | None, vhost: str) -> None:
    wire = Wire()
    wire.login()
    (asked,) = wire.says(w.Open("c", hostname))
    assert isinstance(asked, Open) and asked.vhost == vhost


@pytest.mark.parametrize(
    ("octets", "symbol"),
    [
        (packed(w.Begin(None, 0, 1, 1)), "amqp:illegal-state"),
        (EMPTY, "amqp:illegal-state"),
        (packed(w.Open("c"), 1), "amqp:not-allowed"),
        (packed(w.Open("c", max_frame_size=511)), "amqp:invalid-field"),
        (packed(w.Open("c", idle_time_out=999)), "amqp:not-implemented"),
        (packed(w.Open("c")) * 2, "amqp:illegal-state"),
    ],
)
def test_bad_opens(octets: bytes, symbol: str) -> None:
    """An error before our open is said with one in front of it (§2.4.1)."""
    wire = Wire()
    wire.login()
    wire.heard()
    found = wire.feed(octets)
    assert isinstance(found[-1], Closed)
    records = wire.hears()
    assert [type(record) for record in records] == [w.Open, w.Close]
    assert records[1].error.condition == symbol


def test_a_refused_host() -> None:
    wire = Wire()
    wire.login()
    wire.heard()
    (asked,) = wire.says(w.Open("c", "vhost:x"))
    assert isinstance(asked, Open)
    wire.engine.send(Refused(0, asked.token, Condition.NOT_FOUND, "no x", Lost.CONNECTION))
    first, last = wire.hears()
    assert first.properties["amqp:connection-establishment-failed"] is True
    assert (last.error.condition, last.error.description) == ("amqp:not-found", "no x")
    ended(wire.says(w.Close()), Condition.NOT_FOUND)


# --- channels ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("octets", "symbol"),
    [
        (packed(w.Begin(None, 0, 1, 1), 10), "amqp:connection:framing-error"),
        (packed(None, 10), "amqp:connection:framing-error"),
        (packed(w.End(), 10), "amqp:connection:framing-error"),
        (packed(w.End(), 3), "amqp:illegal-state"),
        (packed(w.Begin(5, 0, 1, 1), 3), "amqp:not-allowed"),
        (packed(w.Begin(None, 0, 1, 1), 3) * 2, "amqp:illegal-state"),
    ],
)
def test_channels(octets: bytes, symbol: str) -> None:
    wire = Wire(limits=Limits(channel_max=9)).opened()
    found = wire.feed(octets)
    assert isinstance(found[-1], Closed)
    closed_with(wire, symbol)


def test_no_more_sessions_than_the_peer_can_hear() -> None:
    wire = Wire().opened(channel_max=1)
    begin = w.Begin(None, 0, 1, 1)
    found = wire.feed(packed(begin, 0) + packed(begin, 1) + packed(begin, 2))
    assert isinstance(found[-1], Closed)
    closed_with(wire, "amqp:resource-limit-exceeded")


def test_a_session_that_is_over_before_it_is_performed() -> None:
    """The owner, which performs the operations, still asks for the outlet."""
    wire = Wire().opened()
    wrong = packed(w.Flow(0, 1, 0, 1, 9), 4)
    found = wire.feed(packed(w.Begin(None, 0, 1, 1), 4) + wrong + packed(w.End(), 4))
    assert [type(op) for op in found] == [BeginSession, SelectConfirms, SessionLost]
    wire.engine.outlet(0).deliver("1", 1, False, message(b"x"))
    wire.engine.send(Done(0, found[0].token))  # type: ignore[attr-defined]
    assert [type(record) for record in wire.hears()] == [w.Begin, w.End]
    again = wire.says(w.Begin(None, 0, 1, 1), 4)
    assert isinstance(again[0], BeginSession) and again[0].channel == 0


# --- §2.4.3 to §2.4.5: close, silence ----------------------------------------------------------


def test_their_close() -> None:
    wire = Wire().opened()
    error = w.Error("amqp:not-allowed", "why")
    assert ended(wire.says(w.Close(error)), Condition.NOT_ALLOWED) == "why"
    assert wire.hears() == [w.Close()]
    assert wire.engine.closing


def test_their_close_right_behind_the_open() -> None:
    wire = Wire()
    wire.login()
    wire.heard()
    found = wire.feed(packed(w.Open("c")) + packed(w.Close()))
    assert isinstance(found[0], Open)
    ended(found)
    assert [type(record) for record in wire.hears()] == [w.Open, w.Close]
    wire.engine.send(Done(0, found[0].token))
    assert wire.heard() == []


def test_our_close() -> None:
    """§2.4.6: frames before their answer are discarded."""
    wire = Wire().opened()
    wire.engine.send(Close(Condition.CONNECTION_FORCED, "over"))
    (record,) = wire.hears()
    assert (record.error.condition, record.error.description) == ("amqp:connection:forced", "over")
    assert wire.feed(packed(w.Begin(None, 0, 1, 1), 1) + EMPTY) == []
    assert not wire.engine.closing
    ended(wire.says(w.Close()), Condition.CONNECTION_FORCED, theirs=False)
    assert wire.heard() == []


def test_both_close() -> None:
    """§2.4.4: without an answer."""
    wire = Wire().opened()
    wire.engine.send(Close())
    assert wire.hears() == [w.Close()]
    ended(wire.says(w.Close(w.Error("amqp:internal-error"))), theirs=False)
    assert wire.heard() == []


def test_rubbish_after_our_close() -> None:
    wire = Wire().opened()
    wire.engine.send(Close())
    wire.heard()
    ended(wire.feed(b"\0" * 8), theirs=False)
    assert wire.heard() == []


def test_our_close_is_not_answered() -> None:
    wire = Wire(limits=Limits(close_timeout=5)).opened()
    wire.engine.tick(10)
    wire.engine.send(Close())
    assert wire.engine.tick(11) == []
    assert wire.engine.tick(15) == []
    ended(wire.engine.tick(16), theirs=False)


def test_long_reasons_fit_the_smallest_frame() -> None:
    wire = Wire().opened(max_frame_size=512)
    wire.engine.send(Close(Condition.INTERNAL_ERROR, "\N{SNOWMAN}" * 1000))
    (record,) = wire.hears()
    assert 80 < len(record.error.description) < 100


def test_the_end_of_the_stream() -> None:
    wire = Wire().opened()
    ended(wire.feed(b""), Condition.CONNECTION_FORCED)
    assert wire.engine.lost() == []


def test_their_idle_time_out() -> None:
    """Half of it after we last spoke, an empty frame on channel 0."""
    wire = Wire(limits=Limits(heartbeat=0)).opened(idle_time_out=4000)
    beats = []
    for now in range(9):
        assert wire.engine.tick(now) == []
        beats.append(len(wire.heard()))
    assert sum(beats) == 4 and max(beats) == 1


def test_our_idle_time_out() -> None:
    """The idle time-out that we announce is half of the one that we apply (§2.4.5)."""
    wire = Wire(limits=Limits(heartbeat=10)).opened()
    wire.engine.tick(0)
    for now in (10, 19):
        assert wire.engine.tick(now) == []
    wire.feed(EMPTY)
    for now in (20, 39):
        assert wire.engine.tick(now) == []
    wire.engine.excuse_silence()
    for now in (40, 59):
        assert wire.engine.tick(now) == []
    ended(wire.engine.tick(60), Condition.RESOURCE_ERROR)
    closed_with(wire, "amqp:resource-limit-exceeded")


def test_a_handshake_without_end() -> None:
    wire = Wire(limits=Limits(handshake_timeout=5))
    wire.engine.tick(0)
    wire.feed(SASL_HEADER)
    assert wire.engine.tick(4) == []
    ended(wire.engine.tick(5), Condition.CONNECTION_FORCED)


def test_wake_is_called_once() -> None:
    calls: list[int] = []
    wire = Wire(wake=lambda: calls.append(1))
    wire.opened(idle_time_out=2000)
    calls.clear()
    for now in range(5):
        wire.engine.tick(now)
    assert len(calls) == 1
    wire.heard()
    wire.engine.tick(9)
    assert len(calls) == 2


# --- both roles --------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [whole, single, sized(7), sized(100)])
@pytest.mark.parametrize(
    "mechanism", ["PLAIN", "SCRAM-SHA-256", "AMQPLAIN", "ANONYMOUS", "EXTERNAL"]
)
def test_every_mechanism(mechanism: str, cut: Any) -> None:
    pair = Pair(
        "1.0",
        cut,
        credentials=Credentials(mechanism=mechanism),
        authority=Users(anonymous="guest"),
        external_subject="CN=guest",
    )
    asked = pair.open("other")
    assert (asked.vhost, asked.user, asked.peer.mechanism) == ("other", "guest", mechanism)
    client, server = cast(Any, pair.client), cast(Any, pair.server)
    products = client.connection.peer.product, server.connection.peer.product
    assert products == ("amqp-gateway", "amqp-gateway")


def test_no_mechanism_is_no_layer() -> None:
    pair = Pair("1.0", credentials=Credentials(mechanism=""), authority=Users(anonymous="guest"))
    assert pair.open().user == "guest"


def client(**options: Any) -> Engine:
    engine = adapter_for("1.0", Role.CLIENT, **options)
    assert isinstance(engine, Engine)
    engine.send(Open("opening", "/", "guest"))
    return engine


def test_a_server_of_another_version() -> None:
    engine = client()
    found = engine.receive(b"AMQP\0\0\x09\x01")
    assert isinstance(found[0], Refused) and found[0].lost is Lost.CONNECTION
    ended(found, Condition.NOT_IMPLEMENTED)


def test_a_server_that_wants_sasl() -> None:
    engine = client(credentials=Credentials(mechanism=""))
    records = [frame.record for frame in unpacked(b"".join(engine.output()))]
    assert isinstance(records[1], w.Open)
    ended(engine.receive(SASL_HEADER), Condition.ACCESS_REFUSED)


def scram_answers(outcome: w.SaslOutcome) -> list[Operation]:
    """A server that knows no password and says this as soon as the client has said its proof."""
    engine = client(credentials=Credentials(mechanism="SCRAM-SHA-256"))
    engine.output()
    engine.receive(SASL_HEADER + packed(w.SaslMechanisms(("SCRAM-SHA-256",)), kind=SASL))
    (init,) = (frame.record for frame in unpacked(b"".join(engine.output())))
    nonce = init.initial_response.split(b"r=")[1]
    first = b"r=" + nonce + b"more,s=c2FsdHNhbHRzYWx0c2FsdA==,i=4096"
    assert engine.receive(packed(w.SaslChallenge(first), kind=SASL)) == []
    return engine.receive(packed(outcome, kind=SASL))


@pytest.mark.parametrize("data", [None, b"", b"v=AAAA", b"rubbish"])
def test_a_server_that_proves_nothing(data: bytes | None) -> None:
    """RFC 5802 §3: without the server's signature it is not the one that knows the password."""
    ended(scram_answers(w.SaslOutcome(0, data)), Condition.ACCESS_REFUSED)


@pytest.mark.parametrize(
    ("code", "condition"),
    [
        (1, Condition.ACCESS_REFUSED),
        (2, Condition.INTERNAL_ERROR),
        (3, Condition.NOT_ALLOWED),
        (4, Condition.CONNECTION_FORCED),
        (9, Condition.ACCESS_REFUSED),
    ],
)
def test_outcomes(code: int, condition: Condition) -> None:
    ended(scram_answers(w.SaslOutcome(code)), condition)


def test_a_refused_host_for_the_client() -> None:
    """The open that precedes the close is no answer yet."""
    pair = Pair("1.0")
    pair.client.send(Open("opening", "x", "guest"))
    for _ in range(4):
        found = pair.to_server()
        if found:
            break
        pair.to_client()
    (asked,) = found
    assert isinstance(asked, Open)
    pair.server.send(Refused(0, asked.token, Condition.NOT_FOUND, "no x", Lost.CONNECTION))
    refused, closed = pair.to_client()
    assert refused == Refused(0, "opening", Condition.NOT_FOUND, "no x", Lost.CONNECTION)
    assert closed == Closed(Condition.NOT_FOUND, "no x")
    assert pair.to_server() == [Closed(Condition.NOT_FOUND, "no x")]


def test_operations_that_cannot_be_sent() -> None:
    with pytest.raises(LocalError):
        client().send(Open("again", "/", "guest"))
    wire = Wire().opened()
    with pytest.raises(LocalError):
        wire.engine.send(Open(1, "/", "guest"))
    with pytest.raises(LocalError):
        wire.engine.outlet(0)


def test_cut_anywhere() -> None:
    octets = SASL_HEADER + packed(w.SaslInit("PLAIN", PLAIN), kind=SASL) + HEADER
    octets += packed(w.Open("c", "vhost:x")) + EMPTY + packed(w.Close())
    at_once = Wire()
    expected = at_once.feed(octets)
    said = at_once.heard()
    for size in (1, 2, 3, 7, 8, 9, 20):
        wire = Wire()
        found = [op for piece in pieces(octets, itertools.repeat(size)) for op in wire.feed(piece)]
        assert found == expected
        assert wire.heard() == said
