"""The server's side by section of AMQ RFC 006 0.8a2: what is refused, with which code, and what
dies of it."""

from typing import Any

import pytest

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import read_head
from gateway.adapters.commands.frames import frame, sized
from gateway.adapters.commands.streams import PART, STREAM
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import COMMANDS
from gateway.values import Int
from tests.adapters.commands.connected_pair import message
from tests.adapters.commands.harness import VHOST, Harness, Peer

START = b"\x80\x01"


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.queue("test")
    return made


def entered(harness: Harness, transacted: bool = False, restartable: bool = False) -> Peer:
    """A guest with channel 1 open, and handle 1 on the queue."""
    peer = harness.peer(mechanisms=("PLAIN", "ANONYMOUS"))
    peer.says(START, w.ConnectionResponse("NONE"), w.ConnectionOpen(0, VHOST, "guest"))
    peer.says(w.ChannelOpen(1, 0, transacted, restartable))
    assert peer.says(opened(1, dest_name="test")) == [w.HandleReply(1, 9, 200)]
    return peer


def opened(number: int, service: int = 1, **fields_: Any) -> w.HandleOpen:
    bits = {"producer": True, "consumer": service != 3, "browser": service != 3}
    return w.HandleOpen(1, number, service, 9, **{**bits, **fields_})


def content(body: bytes, **properties: Any) -> bytes:
    sent = message(body, **properties)
    return len(body).to_bytes(4, "big") + sent.header + body


def code(said: list[Any], kind: type[Any]) -> int:
    """The code of the one close of this kind that was said."""
    (close,) = [record for record in said if type(record) is kind]
    return int(close.reply_code)


# --- connection ---------------------------------------------------------------------------------


@pytest.mark.parametrize("octets", [b"\x80\x00", b"\x81\x01", b"AMQP", b"\x80\x01"[1:]])
def test_another_initiation_is_hung_up_on_without_a_word(harness: Harness, octets: bytes) -> None:
    peer = harness.peer()
    assert peer.says(octets) == [] and peer.adapter.closing


@pytest.mark.parametrize(
    ("table", "good"),
    [
        ({"LOGIN": "guest", "PASSWORD": "guest"}, True),
        ({"LOGIN": "guest\0", "PASSWORD": "guest\0"}, True),
        ({"LOGIN": "guest", "PASSWORD": "wrong"}, False),
        ({"LOGIN": "guest"}, False),
        ({}, True),
    ],
)
@pytest.mark.parametrize("mechanism", ["PLAIN", "plain", "NONE", ""])
def test_logins(harness: Harness, table: Any, good: bool, mechanism: str) -> None:
    peer = harness.peer(mechanisms=("PLAIN", "ANONYMOUS"))
    assert peer.says(START) == [w.ConnectionChallenge(1, "PLAIN NONE")]
    said = peer.says(w.ConnectionResponse(mechanism, fields.write_table(table)))
    if good:
        options = fields.read_table(said[0].options)
        assert list(options) == [
            "FRAME_MAX", "CHANNEL_MAX", "HANDLE_MAX", "HEARTBEAT", "TXN_LIMIT",
        ]  # fmt: skip
        assert options["FRAME_MAX"] == 32768
    else:
        assert code(said, w.ConnectionClose) == 403 and peer.adapter.closing


def test_nobody_may_come_in_where_everybody_has_a_name() -> None:
    peer = Harness(anonymous=False).peer(mechanisms=("PLAIN", "ANONYMOUS"))
    assert peer.says(START) == [w.ConnectionChallenge(1, "PLAIN")]
    assert code(peer.says(w.ConnectionResponse("NONE")), w.ConnectionClose) == 403


@pytest.mark.parametrize(
    ("options", "fine"),
    [
        ({"FRAME_MAX": Int(1024)}, True),
        ({"FRAME_MAX": Int(1023)}, False),
        ({"FRAME_MAX": Int(32769)}, False),
        ({"FRAME_MAX": "much"}, False),
        ({"HEARTBEAT": Int(0)}, True),
        ({"HEARTBEAT": Int(-1)}, False),
        ({"UNHEARD_OF": "x"}, True),
    ],
)
def test_tuning(harness: Harness, options: Any, fine: bool) -> None:
    peer = harness.peer(mechanisms=("ANONYMOUS",))
    peer.says(START, w.ConnectionResponse("NONE"))
    said = peer.says(w.ConnectionTune(fields.write_table(options)))
    assert said == [] if fine else code(said, w.ConnectionClose) == 502


def test_dictionaries_name_fields_both_ways(harness: Harness) -> None:
    """§3.2.5.2: short names on the wire, full names elsewhere."""
    peer = harness.peer(mechanisms=("ANONYMOUS",))
    aliases = fields.write_table({"ET": "Expiration-Time"})
    more = fields.write_table({"C": "COLOUR"})
    peer.says(
        START,
        w.ConnectionResponse("NONE"),
        w.ConnectionTune(dictionary=aliases),
        w.ConnectionTune(dictionary=more),
        w.ConnectionOpen(0, VHOST, "short"),
        w.ChannelOpen(1),
        opened(1, dest_name="test"),
    )
    sent = content(b"x", application={"ET": "soon", "C": "red", "OTHER": Int(1)})
    peer.says(w.HandleSend(1, 0, len(sent)), sent)
    other = entered(harness)
    index = other.says(w.HandleQuery(1, 0, "", b"COLOUR = 'red'"))
    assert index == [w.HandleIndex(1, 0, b"0")]
    other.feed(frame(w.HandleBrowse(1, 1, 0)))
    ((_, whole),) = other.gets()
    assert b"Expiration-Time" in whole and b"COLOUR" in whole
    peer.feed(frame(w.HandleConsume(1, 0, 1)))
    ((_, back),) = peer.gets()
    assert back == sent


def test_an_unknown_virtual_path(harness: Harness) -> None:
    peer = harness.peer(mechanisms=("ANONYMOUS",))
    said = peer.says(START, w.ConnectionResponse("NONE"), w.ConnectionOpen(1, "/no", "x"))
    assert code(said, w.ConnectionClose) in (402, 403, 507)


def test_ping_is_answered_but_never_asked_back(harness: Harness) -> None:
    peer = entered(harness)
    assert peer.says(w.ConnectionPing(True)) == [w.ConnectionPing(False)]
    assert peer.says(w.ConnectionPing(False)) == []


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if not c.from_client], ids=lambda c: c.name
)
def test_what_a_client_never_says_costs_the_connection(harness: Harness, command: Any) -> None:
    """§3.2.10, §3.3.9, §3.5.17: never expected."""
    peer = entered(harness)
    assert code(peer.says(command.record()), w.ConnectionClose) == 503
    assert peer.adapter.closing


@pytest.mark.parametrize(
    "octets",
    [
        b"\x00\x03\x63\x01\xce",
        b"\x00\x03\x0e\x01\x00",
        b"\x00\x02\x0e\x01",
        b"\x00\x00",
        b"\xff\xff\x00\x00\xff\xff",
        sized(frame(w.HandleFlow(1))[2:-3]),
    ],
)
def test_frames_that_are_none(harness: Harness, octets: bytes) -> None:
    peer = entered(harness)
    assert code(peer.says(octets), w.ConnectionClose) == 501


def test_long_sizes_and_octets_behind_the_end(harness: Harness) -> None:
    peer = entered(harness)
    assert peer.says(b"\xff\xff\0\0\0\x03\x0e\x01\xce") == [w.ConnectionPing(False)]
    assert peer.says(b"\0\x05\x0e\x01\xce\0\0") == [w.ConnectionPing(False)]


def test_handshake_frames_have_4096_octets_at_most(harness: Harness) -> None:
    peer = harness.peer(mechanisms=("ANONYMOUS",))
    peer.says(START)
    table = fields.write_table({"LOGIN": "x" * 5000})
    assert code(peer.says(w.ConnectionResponse("PLAIN", table)), w.ConnectionClose) == 501


# --- channels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kind", "wanted"),
    [
        (w.ChannelOpen(0), w.ConnectionClose, 502),
        (w.ChannelOpen(1), w.ChannelClose, 503),
        (w.ChannelOpen(2, out_of_band="shm:1"), w.ChannelClose, 540),
        (w.ChannelAck(5), w.ConnectionClose, 504),
        (w.ChannelCommit(1), w.ChannelClose, 503),
        (w.ChannelRollback(1), w.ChannelClose, 503),
        (w.ChannelClose(5), w.ConnectionClose, 504),
        (w.HandleOpen(5, 5, 1), w.ConnectionClose, 504),
        (w.HandleOpen(1, 0, 1), w.ConnectionClose, 502),
    ],
)
def test_mistakes_of_channels(harness: Harness, said: Any, kind: Any, wanted: int) -> None:
    assert code(entered(harness).says(said), kind) == wanted


def test_a_closing_channel_says_so_again_until_it_is_closed(harness: Harness) -> None:
    peer = entered(harness)
    assert code(peer.says(w.ChannelCommit(1)), w.ChannelClose) == 503
    assert code(peer.says(w.ChannelAck(1, 3, 1)), w.ChannelClose) == 503
    assert code(peer.says(w.HandleFlow(1, 3)), w.ChannelClose) == 503
    assert peer.says(w.ChannelClose(1, 200)) == []
    assert peer.says(w.ChannelOpen(1, 4)) == [w.ChannelReply(1, 4, 200)]


def test_a_transaction_has_a_limit(harness: Harness) -> None:
    peer = entered(harness, transacted=True)
    sent = content(b"")
    one = frame(w.HandleSend(1, 0, len(sent))) + sent
    assert peer.says(one * 1000) == []
    assert code(peer.says(one), w.ChannelClose) == 506


# --- handles ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (opened(1), 503),
        (opened(2, service=4), 401),
        (opened(2, service=0), 401),
        (opened(2, dest_name="nothing"), 404),
        (opened(2, service=3, dest_name="nothing"), 404),
        (opened(2, service=3, consumer=True), 502),
        (opened(2, service=3, temporary=True), 502),
        (opened(2, temporary=True, dest_name="test"), 403),
        (w.HandleConsume(1, 1, 1, dest_name="-nothing"), 404),
        (w.HandleConsume(1, 1, 1, identifier="x"), 502),
        (w.HandleConsume(1, 1, 1, selector=b"a ="), 502),
        (w.HandleConsume(1, 1, 1, selector=b"\xff"), 502),
        (w.HandleConsume(1, 1, 1, selector=b"a = 1", mime_type="text/regex"), 540),
        (w.HandleCancel(1, 1, "", "x"), 503),
        (w.HandleUnget(1, 1, 5), 310),
        (w.HandleQuery(1, 0, "-nothing"), 404),
        (w.HandleQuery(1, 0, "", b"a = 1", "text/regex"), 540),
        (w.HandleReady(1, 5), 503),
    ],
)
def test_mistakes_of_handles(harness: Harness, said: Any, wanted: int) -> None:
    peer = entered(harness)
    assert code(peer.says(said), w.HandleClose) == wanted
    assert peer.says(w.HandleFlow(said.handle_id)) == [], "discarded while it is closing"
    assert peer.says(w.HandleClose(said.handle_id, 200)) == []
    assert peer.says(opened(said.handle_id, dest_name="test")) != []


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        ({"producer": False}, w.HandleSend(2, 1, 15)),
        ({"consumer": False}, w.HandleConsume(2, 1, 1)),
        ({"consumer": False, "browser": False}, w.HandleQuery(2)),
        ({"consumer": False, "browser": False}, w.HandleBrowse(2)),
    ],
)
def test_what_was_not_asked_for_is_refused(harness: Harness, bits: Any, said: Any) -> None:
    peer = entered(harness)
    peer.says(opened(2, dest_name="test", **bits))
    fragment = content(b"") if isinstance(said, w.HandleSend) else b""
    assert code(peer.says(said, fragment), w.HandleClose) == 403


@pytest.mark.parametrize(
    "said",
    [w.HandleConsume(2, 1, 1), w.HandleCancel(2, 1, "", "x"), w.HandleFlow(2, 1),
     w.HandleUnget(2, 1, 1), w.HandleQuery(2), w.HandleBrowse(2, 1, 1)],
    ids=lambda record: record.NAME,
)  # fmt: skip
def test_not_valid_for_peers(harness: Harness, said: Any) -> None:
    """§3.5.4 to §3.5.9."""
    peer = entered(harness)
    peer.says(opened(2, 3, dest_name="test"))
    assert code(peer.says(said), w.HandleClose) == 503


def test_unget_is_for_queues_only(harness: Harness) -> None:
    peer = entered(harness)
    peer.says(opened(2, 2, dest_name="news"))
    assert code(peer.says(w.HandleUnget(2, 1, 1)), w.HandleClose) == 503


def test_255_handles(harness: Harness) -> None:
    peer = entered(harness)
    for number in range(2, 256):
        peer.says(opened(number, dest_name="test"))
    assert code(peer.says(opened(256, dest_name="test")), w.HandleClose) == 506


@pytest.mark.parametrize("name", ["x" * 255, "subscription:x"])
def test_a_durable_subscription_needs_a_client_name(harness: Harness, name: str) -> None:
    peer = harness.peer(mechanisms=("ANONYMOUS",))
    peer.says(START, w.ConnectionResponse("NONE"), w.ConnectionOpen(0, VHOST, ""))
    peer.says(w.ChannelOpen(1), opened(1, 2, dest_name="news"))
    said = peer.says(w.HandleConsume(1, 1, 1, identifier=name))
    assert code(said, w.HandleClose) == 502


# --- messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "fragment", "kind", "wanted"),
    [
        (w.HandleSend(1, 1, out_of_band=True), b"", w.HandleClose, 540),
        (w.HandleSend(1, 1, recovery=True), b"", w.HandleClose, 503),
        (w.HandleSend(1, 1, recovery=True, streaming=True), b"", w.HandleClose, 502),
        (w.HandleSend(1, 1, streaming=True, partial=True), content(b""), w.HandleClose, 503),
        (w.HandleSend(1, 1), b"short", w.HandleClose, 542),
        (w.HandleSend(1, 1), content(b"abc")[:-1], w.HandleClose, 542),
        (w.HandleSend(1, 1), content(b"abc") + b"d", w.HandleClose, 542),
        (w.HandlePrepare(1), content(b"abc"), w.HandleClose, 503),
        (w.HandleSend(1, 1), b"\xff\xff\xff\xff" + content(b"")[4:], w.ChannelClose, 311),
    ],
)
def test_messages_that_are_refused(
    harness: Harness, said: Any, fragment: bytes, kind: Any, wanted: int
) -> None:
    peer = entered(harness)
    said.fragment_size = len(fragment)
    assert code(peer.says(said, fragment), kind) == wanted


@pytest.mark.parametrize("digest", ["xyz", "0" * 39, "0" * 41])
def test_hashes_that_are_none(harness: Harness, digest: str) -> None:
    peer = entered(harness, restartable=True)
    sent = content(b"abc")
    said = peer.says(w.HandlePrepare(1, len(sent), digest), sent)
    assert code(said, w.HandleClose) == 502


def test_fragments_of_two_handles_do_not_mix(harness: Harness) -> None:
    peer = entered(harness)
    peer.says(opened(2, dest_name="test"))
    sent = content(b"abcdef")
    peer.says(w.HandleSend(1, 1, 18, partial=True), sent[:18])
    said = peer.says(w.HandleSend(2, 1, len(sent)), sent)
    assert code(said, w.ChannelClose) == 503
    assert peer.adapter.connection.incoming_octets == 0


def test_fragments_too_large_cost_the_connection(harness: Harness) -> None:
    """What follows cannot be told from commands."""
    assert code(entered(harness).says(w.HandleSend(1, 1, 40_000)), w.ConnectionClose) == 501


def test_defaults_of_a_handle(harness: Harness) -> None:
    """§3.4.4: type and encoding of the handle, where the message says nothing."""
    peer = entered(harness)
    peer.says(opened(2, dest_name="test", mime_type="text/plain", encoding="utf-8"))
    for sent in (content(b"a"), content(b"b", content_type="image/png")):
        peer.says(w.HandleSend(2, 0, len(sent)), sent)
    peer.feed(frame(w.HandleConsume(1, 0, 2)))
    (_, first), (_, second) = peer.gets()
    assert first == content(b"a", content_type="text/plain", content_encoding="utf-8")
    assert second == content(b"b", content_type="image/png", content_encoding="utf-8")


def test_a_field_that_no_fragment_holds_is_left_out(harness: Harness) -> None:
    sender = entered(harness)
    sent = content(b"body", application={"LONG": "x" * 5000})
    sender.says(w.HandleSend(1, 0, len(sent)), sent)
    sender.disconnect()
    reader = harness.peer(mechanisms=("ANONYMOUS",))
    tune = w.ConnectionTune(fields.write_table({"FRAME_MAX": Int(1024)}))
    reader.says(START, w.ConnectionResponse("NONE"), tune, w.ConnectionOpen(0, VHOST, "r"))
    reader.says(w.ChannelOpen(1), opened(1, dest_name="test"))
    reader.feed(frame(w.HandleConsume(1, 0, 2)))
    ((_, got),) = reader.gets()
    assert got == content(b"body")


# --- streams ------------------------------------------------------------------------------------


def test_streams_between_peers(harness: Harness) -> None:
    """§3.5.3.1: to a peer's private queue, and out of it as a stream again."""
    viewer, camera = entered(harness), harness.peer(mechanisms=("ANONYMOUS",))
    viewer.says(w.HandleClose(1, 200))
    viewer.says(opened(7, 3, dest_name="test"))
    queues = harness.broker.vhosts[VHOST].queues
    (private,) = [name for name in queues if name.startswith("amq.gen-")]
    camera.says(START, w.ConnectionResponse("NONE"), w.ConnectionOpen(0, VHOST, "camera"))
    camera.says(w.ChannelOpen(1), opened(1, 3, dest_name=private))
    first = content(b"", content_type="video/x") + b"frame 1 "
    for fragment in (first, b"frame 2 ", b"frame 3"):
        record = w.HandleSend(1, 5, len(fragment), True, streaming=True)
        assert camera.says(record, fragment) == [w.HandleReply(1, 5, 200)]
    got = viewer.gets()
    assert all(record.streaming and record.partial and record.delivered for record, _ in got)
    octets = b"".join(fragment for _, fragment in got)
    head, start = read_head(octets)
    assert (head.body_size, head.mime_type) == (0, "video/x")
    assert octets[start:] == b"frame 1 frame 2 frame 3"
    assert b"X_STREAM" not in octets
    plain = content(b"message")
    said = camera.says(w.HandleSend(1, 5, len(plain)), plain)
    assert code(said, w.ChannelClose) == 503, "nothing else may be sent on the channel"


def test_the_end_of_a_stream_is_told(harness: Harness) -> None:
    viewer, camera = entered(harness), harness.peer(mechanisms=("ANONYMOUS",))
    viewer.says(w.HandleClose(1, 200), opened(7, 3, dest_name="test"))
    queues = harness.broker.vhosts[VHOST].queues
    (private,) = [name for name in queues if name.startswith("amq.gen-")]
    camera.says(START, w.ConnectionResponse("NONE"), w.ConnectionOpen(0, VHOST, "camera"))
    camera.says(w.ChannelOpen(1), opened(1, 3, dest_name=private))
    first = content(b"") + b"x"
    camera.says(w.HandleSend(1, 0, len(first), True, streaming=True), first)
    camera.says(w.HandleClose(1, 200))
    viewer.turn()
    assert [record.NAME for record, _ in viewer.gets()] == ["handle.notify", "handle.close"]


def test_a_stream_to_a_queue_is_messages(harness: Harness) -> None:
    camera = entered(harness)
    camera.says(opened(2, 3, dest_name="test"))
    first = content(b"") + b"one"
    camera.says(w.HandleSend(2, 0, len(first), True, streaming=True), first)
    camera.says(w.HandleSend(2, 0, 3, True, streaming=True), b"two")
    reader = harness.peer(mechanisms=("ANONYMOUS",))
    reader.says(START, w.ConnectionResponse("NONE"), w.ConnectionOpen(0, VHOST, "reader"))
    reader.says(w.ChannelOpen(1), opened(1, dest_name="test"))
    reader.feed(frame(w.HandleConsume(1, 0, 5)))
    (_, one), (_, two) = reader.gets()
    assert one.endswith(b"one") and two.endswith(b"two")
    assert STREAM.encode() in one and PART.encode() in two
