"""Frames of the drafts: geometries, meta and extended frames, what is discarded and what is not
forgiven; flags of methods in 0-9a0."""

import random
from typing import Any

import pytest

from gateway.adapters import Limits, Role, adapter_for
from gateway.adapters.methods.drafts.engine import DraftEngine
from gateway.adapters.methods.wire import layouts_0_9a0 as first
from gateway.adapters.methods.wire import layouts_0_9a6 as second
from gateway.errors import Condition
from gateway.operations import BeginSession, Closed, Done, Open, Publish, SessionLost
from tests.adapters.methods.drafts.talking import VERSIONS, Both, said
from tests.pair import Users, pieces, sized, told

FIRST = ("0-9a0", "0-9a0-7")


def test_frames_as_they_are_drawn() -> None:
    """Complete frames, put together by hand from the layouts of the documents."""
    server = adapter_for("0-9a0", Role.SERVER, authority=Users())
    server.receive(b"AMQP\x01\x01\x00\x09")
    # class 1, method 1, revision, flags, synchtag; 0, 9, "PLAIN"
    start = bytes.fromhex("01000010 01010000 00000000 0009 05504c41494e".replace(" ", ""))
    assert b"".join(server.output()) == start
    server = adapter_for("0-9a0-7", Role.SERVER, authority=Users())
    server.receive(b"AMQP\x01\x01\x00\x09")
    start = bytes.fromhex("0100000f 010100 00000000 0009 05504c41494e".replace(" ", ""))
    assert b"".join(server.output()) == start
    server = adapter_for("0-9a6", Role.SERVER, authority=Users())
    server.receive(b"AMQP\x01\x01\x00\x09")
    start = bytes.fromhex(
        "01000000 00000019 0001 0001 0009 00000005504c41494e 00000005656e5f5553 ce".replace(" ", "")
    )
    assert b"".join(server.output()) == start


@pytest.mark.parametrize("version", VERSIONS)
def test_another_header_gets_nothing_but_ours(version: str) -> None:
    server = adapter_for(version, Role.SERVER, authority=Users())
    (closed,) = server.receive(b"AMQP\x01\x01\x00\x0a")
    assert isinstance(closed, Closed) and server.closing


@pytest.mark.parametrize("version", VERSIONS)
def test_heartbeats_and_trace_frames(version: str) -> None:
    both = Both(version).opened()
    frames = both.client.frames
    assert both.server.receive(both.client.table.geometry.heartbeat) == []
    assert both.server.receive(frames.frame(7, 1, b"anything at all")) == []
    assert not both.server.closing and both.server.output() == []
    now = 100.0
    both.server.tick(now)
    beats: list[bytes] = []
    for _ in range(40):
        now += 1
        assert both.server.tick(now) == []
        beats += both.server.output()
    assert set(beats) == {both.client.table.geometry.heartbeat}
    for _ in range(120):
        now += 1
        found = both.server.tick(now)
        if found:
            break
    assert isinstance(found[-1], Closed) and both.server.closing


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [4, 5, 6])
def test_out_of_band_frames_are_refused(version: str, kind: int) -> None:
    """Their bodies are elsewhere: nothing behind the header is waited for."""
    both = Both(version).opened()
    head = both.client.frames.frame(kind, 1, b"elsewhere")[: both.client.table.geometry.head.size]
    (closed,) = told(both.server, both.server.receive(head))
    assert isinstance(closed, Closed) and closed.condition is Condition.NOT_IMPLEMENTED
    ((name, record),) = said(both.client, b"".join(both.server.output()))
    assert (name, record.reply_code) == ("connection.close", 540)


@pytest.mark.parametrize("version", VERSIONS)
def test_senseless_frames_end_it_without_a_word(version: str) -> None:
    both = Both(version).opened()
    (closed,) = told(both.server, both.server.receive(both.client.frames.frame(12, 1, b"")))
    assert isinstance(closed, Closed) and closed.condition is Condition.FRAME_ERROR
    assert both.server.closing and both.server.output() == []


def ended_with(both: Both, octets: bytes, code: int) -> None:
    """The connection is closed with the reason."""
    closed = told(both.server, both.server.receive(octets))[-1]
    assert isinstance(closed, Closed)
    ((name, record),) = said(both.client, b"".join(both.server.output()))
    assert (name, record.reply_code) == ("connection.close", code)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_on_a_channel_is_a_connection_exception(version: str) -> None:
    """0-9a0 §3.4.9."""
    both = Both(version).opened()
    ended_with(both, both.client.frames.frame(8, 1, b""), 501)


@pytest.mark.parametrize("version", FIRST)
def test_a_frame_larger_than_agreed_is_answered(version: str) -> None:
    """0-9a0 §3.4.2: "close the connection with a suitable error reply code"."""
    both = Both(version).opened()
    for kind in (1, 2, 3):
        both = Both(version).opened()
        ended_with(both, both.client.frames.frame(kind, 1, bytes(131_072)), 501)


def test_other_frames_of_0_9a6_have_a_limit_too() -> None:
    both = Both("0-9a6").opened()
    ended_with(both, both.client.frames.frame(2, 1, bytes((1 << 20) + 1)), 501)


@pytest.mark.parametrize("size", [1000, 70_001, 1 << 30])
@pytest.mark.parametrize("octets", [131_071, 131_072, 300_000, (1 << 20) + 7])
def test_a_body_frame_of_0_9a6_may_be_of_any_size(size: int, octets: int) -> None:
    """Tune has no frame-max, so "the maximum size is the remaining expected content" ("Multiplexed
    Channel Content"); what comes is given on, and not gathered."""
    both = Both("0-9a6", sized(size)).opened()
    frames, body = both.client.frames, bytes(range(256)) * (octets // 256 + 1)
    record = second.JmsPublish(0, "queue")
    head = frames.content_header(7, 0, octets, bytes(2))
    sent = both.client.encoded(1, record) + frames.frame(2, 1, head)
    sent += frames.frame(3, 1, body[:octets])
    sent += both.client.encoded(1, second.ChannelFlow(True))
    most = 0
    for at in range(0, len(sent), size):
        both.perform(both.server.receive(sent[at : at + size]))
        most = max(most, both.server.frames.held)
    publish, flow = both.asked
    assert isinstance(publish, Publish) and bytes(publish.message.body[:]) == body[:octets]
    assert type(flow).__name__ == "Flow"
    assert most <= 64 * 1024 + size


def test_a_large_body_frame_without_its_end_publishes_nothing() -> None:
    both = Both("0-9a6").opened()
    frames = both.client.frames
    head = frames.content_header(7, 0, 200_000, bytes(2))
    sent = both.client.encoded(1, second.JmsPublish(0, "queue")) + frames.frame(2, 1, head)
    sent += frames.frame(3, 1, bytes(200_000))[:-1] + b"!"
    for at in range(0, len(sent), 65_536):
        both.perform(both.server.receive(sent[at : at + 65_536]))
    (closed,) = both.asked
    assert isinstance(closed, Closed) and both.server.output() == []


# --- flags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("words", [(0x8001, 0), (0x8001, 1, 1, 0)])
def test_further_words_of_flags_may_say_nothing(version: str, words: tuple[int, ...]) -> None:
    """0-9a0 §3.5.2, 0-9a6 "Content Header Frame Wire Format"."""
    both = Both(version).opened()
    group = 7 if version == "0-9a6" else 6
    flags = b"".join(word.to_bytes(2, "big") for word in words)
    layouts: Any = second if version == "0-9a6" else first
    publish = (0, "queue") if version == "0-9a6" else (0, 1, "q")
    frames = both.client.frames
    sent = both.client.encoded(1, layouts.JmsPublish(*publish))
    sent += frames.frame(2, 1, frames.content_header(group, 0, 1, flags + b"\x04text"))
    both.perform(both.server.receive(sent + frames.frame(3, 1, b"x")))
    (published,) = both.asked
    assert isinstance(published, Publish)
    assert published.message.properties.content_type == "text"
    assert published.message.header == b"\x80\x00\x04text"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("words", [(0x8001, 0x8000), (0x8001,), (0x8001, 3, 0)])
def test_flags_of_unknown_properties_are_a_syntax_error(
    version: str, words: tuple[int, ...]
) -> None:
    both = Both(version).opened()
    group = 7 if version == "0-9a6" else 6
    flags = b"".join(word.to_bytes(2, "big") for word in words)
    layouts: Any = second if version == "0-9a6" else first
    publish = (0, "queue") if version == "0-9a6" else (0, 1, "q")
    sent = both.client.encoded(1, layouts.JmsPublish(*publish))
    header = both.client.frames.content_header(group, 0, 0, flags)
    ended_with(both, sent + both.client.frames.frame(2, 1, header), 502)


# --- tuning --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", FIRST)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("frame_max", 0),
        ("frame_max", 1023),
        ("frame_max", 131_073),
        ("channel_max", 0),
        ("channel_max", 2048),
        ("ticket_max", 0),
        ("ticket_max", 40_000),
    ],
)
def test_what_a_client_may_not_tune(version: str, field: str, value: int) -> None:
    """0-9a0 §4.2.6."""
    both = Both(version)
    both.server.receive(both.client.table.header)
    both.server.output()
    for record in (first.ConnectionStartOk("PLAIN"), first.ConnectionSecureOk(b"\0guest\0guest")):
        both.server.receive(both.client.encoded(0, record))
        (told,) = said(both.client, b"".join(both.server.output()))
    tune = told[1]
    assert (told[0], tune.access_max > 0, tune.consumer_max > 8) == ("connection.tune", True, True)
    good: dict[str, Any] = {"frame_max": 1024, "channel_max": 1, "ticket_max": 1}
    tuned = first.ConnectionTuneOk(**{**good, field: value})
    ended_with(both, both.client.encoded(0, tuned), 507)


def test_a_server_of_the_drafts_says_nothing_to_another_version() -> None:
    for version in VERSIONS:
        both = Both(version)
        (closed,) = told(both.server, both.server.receive(b"AMQP\x01\x01\x08\x00"))
        assert isinstance(closed, Closed) and both.server.output() == []


def test_a_wrong_end_octet_and_a_size_of_nothing() -> None:
    for octets in (
        bytes.fromhex("08000000 00000001 cf".replace(" ", "")),
        bytes.fromhex("08000000 00000000 ce".replace(" ", "")),
    ):
        both = Both("0-9a6").opened()
        (closed,) = told(both.server, both.server.receive(octets))
        assert isinstance(closed, Closed) and both.server.output() == []


def test_the_second_octet_of_0_9a6_is_not_looked_at() -> None:
    both = Both("0-9a6").opened()
    flow = bytearray(both.client.encoded(1, second.ChannelFlow(True)))
    flow[1] = 77
    assert [type(o).__name__ for o in both.server.receive(bytes(flow))] == ["Flow"]


# --- 0-9a0 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", FIRST)
@pytest.mark.parametrize("size", [1, 5, 1000, 1 << 30])
def test_large_frames_and_high_channels(version: str, size: int) -> None:
    """A meta frame announces the size that a frame header of four octets cannot hold."""
    limits = Limits(frame_max=1 << 20, channel_max=2000)
    both = Both(version, sized(size), limits=limits).opened()
    body = b"l" * 200_000
    frames = both.client.frames
    extended = frames.frame(3, 300, body)
    assert extended[:4] == bytes.fromhex("09000000")
    assert extended[4:16] == bytes.fromhex("0300012c0000000000030d40")
    both.client.send(BeginSession(300, 2))
    both.run()
    assert both.heard == [Done(300, 2)]
    both.forget()
    for record in (first.JmsPublish(0, 1, "q", False),):
        both.client.put(both.client.encoded(300, record))
    head = frames.content_header(6, 0, len(body), b"\0\0")
    both.client.put(frames.frame(2, 300, head))
    both.client.put(extended)
    both.run()
    (publish,) = both.asked
    assert isinstance(publish, Publish) and publish.message.body == body
    assert publish.channel == 300


@pytest.mark.parametrize(
    "octets",
    ["09010000", "09000001", "09000000" + "09" + "00" * 11, "09000000" + "0101" + "00" * 10],
)
def test_meta_frames_that_announce_nothing(octets: str) -> None:
    """A badly formed frame is a connection exception (0-9a0 §3.9.3)."""
    ended_with(Both("0-9a0").opened(), bytes.fromhex(octets), 501)


def method(engine: DraftEngine, record: Any, flags: int, channel: int = 1) -> bytes:
    found = engine.table.by_record[type(record)]
    payload = engine.writer.head_of(found, flags) + found.write(record)
    return engine.frames.frame(1, channel, payload)


@pytest.mark.parametrize("version", FIRST)
def test_an_unreal_method_is_only_echoed(version: str) -> None:
    both = Both(version).opened()
    octets = method(both.client, first.DestinationDefine(0, 1, "q", "", False, True), 0x40)
    assert both.server.receive(octets) == []
    assert b"".join(both.server.output()) == octets
    assert not both.server.closing


@pytest.mark.parametrize("version", FIRST)
def test_an_unreal_method_that_is_unknown(version: str) -> None:
    both = Both(version).opened()
    padding = both.client.table.geometry.method.size - 2 - 5
    payload = b"\x63\x21" + bytes(padding) + b"\x40" + b"\x00\x01\x02\x03"
    assert both.server.receive(both.client.frames.frame(1, 1, payload)) == []
    ((name, record),) = said(both.client, b"".join(both.server.output()))
    assert name == "connection.unknown"
    assert (record.class_, record.method, record.synchtag) == (0x63, 0x21, 0x0203)
    assert record.reply_code == 540
    payload = b"\x63\x21" + bytes(padding + 5)
    (closed,) = told(both.server, both.server.receive(both.client.frames.frame(1, 1, payload)))
    assert isinstance(closed, Closed) and closed.condition is Condition.NOT_IMPLEMENTED


@pytest.mark.parametrize("version", FIRST)
def test_an_answer_that_a_method_is_unknown_changes_nothing(version: str) -> None:
    both = Both(version).opened()
    unknown = first.ConnectionUnknown(0x63, 0x21, 0, 540, "NOT_IMPLEMENTED")
    payload = both.server.writer.head_of(both.server.writer.method_of(unknown))
    payload += both.server.writer.method_of(unknown).write(unknown)
    assert both.client.receive(both.server.frames.frame(1, 0, payload)) == []
    assert not both.client.closing


@pytest.mark.parametrize("flags", [0x80, 0x20, 0xA0])
def test_synchreq_and_tracer_change_nothing_for_a_server(flags: int) -> None:
    both = Both("0-9a0").opened()
    found = both.server.receive(method(both.client, first.ChannelFlow(True), flags))
    assert [type(o).__name__ for o in found] == ["Flow"]
    in_the_other_place = bytearray(method(both.client, first.ChannelFlow(False), 0))
    in_the_other_place[6] = flags
    assert len(both.server.receive(bytes(in_the_other_place))) == 1


def test_a_server_may_not_ask_for_synch() -> None:
    both = Both("0-9a0").opened()
    found = both.client.receive(method(both.server, first.ChannelFlow(True), 0x80))
    assert isinstance(found[-1], Closed) and both.client.closing


# --- anything ------------------------------------------------------------------------------------


OTHERS = (
    "file.open-ok",
    "file.stage",
    "test.integer-ok",
    "test.string-ok",
    "test.table-ok",
    "test.content-ok",
    "file.publish",
)
"""Said only in answer to something."""
SENSIBLE = {
    "dtx_identifier": "t",
    "service_type": 1, "operation": 1, "integer_op": 1, "string_op": 2, "topic_selector": "a.#",
    "topic_seltype": 1, "message_seltype": 2, "message_selector": b"a = 1", "class_": "fanout",
    "exchange": "x", "bind_to": "x", "queue": "q", "destination": "q", "identifier": "f",
}  # fmt: skip


def conversation(version: str) -> bytes:
    """Every request of a client, once."""
    both = Both(version).opened()
    octets: list[bytes] = []
    real = both.client.put

    def put(piece: bytes) -> None:
        octets.append(piece)
        real(piece)

    both.client.put = put  # type: ignore[assignment]
    w: Any = both.client.mapping.layouts
    for name in sorted(m.name for m in both.client.table.methods.values() if m.from_client):
        group = name.split(".")[0]
        if group in ("connection", "channel") or name in OTHERS:
            continue
        found = both.client.table.by_name[name]
        record = found.record()
        for field, value in SENSIBLE.items():
            if hasattr(record, field):
                setattr(record, field, value)
        octets.append(both.client.encoded(1, record))
        if found.content:
            number = found.number >> 16
            head = both.client.frames.content_header(number, 0, 3, b"\0\0")
            octets.append(both.client.frames.frame(2, 1, head))
            octets += both.client.frames.bodies(1, b"abc", 2)
    octets.append(both.client.encoded(1, w.ChannelFlow(True)))
    return b"".join(octets)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 3, 1 << 30])
def test_every_request_is_understood(version: str, size: int) -> None:
    """The same operations and answers, however the octets are cut."""
    data = conversation(version)
    both = Both(version).opened()
    both.queues = {"q", "subscription:"}
    for piece in pieces(data, sized(size)()):
        both.perform(both.server.receive(piece))
    assert not both.server.closing
    kinds = [type(o).__name__ for o in both.asked]
    assert not {"SessionLost", "Closed"} & set(kinds)
    names = [name for name, _ in said(both.client, b"".join(both.server.output()))]
    requests = {
        m.name for m in both.client.table.methods.values() if m.from_client and m.replies
    } - {*OTHERS}
    answered = {reply for m in requests for reply in both.client.table.by_name[m].replies}
    groups = ("connection.", "channel.")
    assert set(names) >= {
        name
        for name in answered
        if not name.startswith(groups) and name.endswith("-ok") and "browse-ok" not in name
    }
    assert "Publish" in kinds and "Settle" in kinds and "Subscribe" in kinds


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(60))
def test_mutated_conversations(version: str, seed: int) -> None:
    """Operations or a last ``Closed`` for any octets, and no more is kept than allowed."""
    chance = random.Random(f"{version}{seed}")
    data = bytearray(conversation(version))
    for _ in range(chance.randint(0, 5)):
        at = chance.randrange(len(data))
        kind = chance.random()
        if kind < 0.6:
            data[at] = chance.choice([0, 1, 2, 3, 9, 0x40, 0xCE, 0xFF, chance.randrange(256)])
        elif kind < 0.8:
            del data[at : at + chance.randint(1, 20)]
        else:
            data[at:at] = chance.randbytes(chance.randint(1, 20))
    limits = Limits(frame_max=8192, max_message_octets=20_000)
    both = Both(version, limits=limits).opened()
    for piece in pieces(bytes(data), iter(lambda: chance.choice([3, 50, 400, 100_000]), 0)):
        if both.server.closing:
            assert told(both.server, both.server.receive(piece)) == []
            break
        before = len(both.asked)
        both.perform(both.server.receive(piece))
        new = both.asked[before:]
        closed = [o for o in new if isinstance(o, Closed)]
        assert closed == (new[-1:] if both.server.closing else [])
        assert both.server.frames.held <= 8192 + 16
        assert both.server.announced <= 5 * 20_000
        lost = {o.channel for o in new if isinstance(o, SessionLost)}
        assert lost <= {0, 1} | set(range(1 << 16))
    both.server.output()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("seed", range(30))
def test_noise(version: str, role: Role, seed: int) -> None:
    chance = random.Random(f"{version}{role}{seed}")
    limits = Limits(frame_max=8192, max_message_octets=20_000)
    adapter = adapter_for(version, role, authority=Users(), limits=limits)
    found: list[Any] = []
    if role is Role.SERVER:
        found += adapter.receive(b"AMQP\x01\x01\x00\x09")
    else:
        adapter.send(Open("o", "/", "guest"))
    for _ in range(20):
        kind = chance.choice([1, 1, 2, 3, 8, chance.randrange(256)])
        payload = bytes([0, 1, 0, chance.randrange(12)]) + chance.randbytes(chance.randrange(40))
        frames: Any = adapter.frames
        found += adapter.receive(frames.frame(kind, chance.randrange(3), payload))
    found += adapter.lost()
    assert isinstance(found[-1], Closed)
