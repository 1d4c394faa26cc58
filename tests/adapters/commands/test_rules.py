"""Rules of the document, one by one, on a real broker. Sections are those of AMQ RFC 006 0.8a2."""

from typing import Any

import pytest

from gateway.adapters.commands.wire import layouts as w
from gateway.operations import Bind
from tests.adapters.commands.harness import Harness, Peer

HEADER = bytes(4) + b"\0\4" + bytes(8)
"""Of a message without anything: size, persistence, priority, expiration, three texts, a table."""


def opened(harness: Harness, name: str = "me", transacted: bool = False) -> Peer:
    peer = harness.peer()
    peer.feed(b"\x80\x01")
    peer.says(w.ConnectionResponse("NONE"), w.ConnectionOpen(0, "/test", name))
    peer.says(w.ChannelOpen(1, 0, transacted))
    return peer


def message(text: bytes) -> bytes:
    header = len(text).to_bytes(4, "big") + b"\0\4" + bytes(4) + b"\0\0\0" + b"\0\0"
    return header + text


def sent(handle: int, text: bytes, name: str = "", tag: int = 0, **more: Any) -> bytes:
    from gateway.adapters.commands.frames import frame

    octets = message(text)
    return frame(w.HandleSend(handle, tag, len(octets), dest_name=name, **more)) + octets


def notified(said: list[tuple[Any, bytes]]) -> list[bytes]:
    return [octets[15:] for record, octets in said if type(record) is w.HandleNotify]


@pytest.fixture
def harness() -> Harness:
    return Harness()


# --- transactions ---------------------------------------------------------------------------------


def test_a_commit_confirms_notified_messages(harness: Harness) -> None:
    """§3.3.4: "the transaction also confirms all messages sent to the client by HANDLE NOTIFY"."""
    queue = harness.queue("q")
    peer = opened(harness, transacted=True)
    peer.says(w.HandleOpen(1, 1, 1, 0, True, True, dest_name="q"))
    peer.says(sent(1, b"1"), sent(1, b"2"), sent(1, b"3"), w.ChannelCommit(1))
    peer.says(w.HandleConsume(1, 0, 2))
    assert (queue.depth, queue.unsettled) == (1, 2)
    (reply,) = [r for r in peer.says(w.ChannelCommit(1, 7)) if type(r) is w.ChannelReply]
    assert (reply.confirm_tag, reply.reply_code) == (7, 200)
    assert (queue.depth, queue.unsettled, queue.acked) == (0, 1, 2), "the next has come meanwhile"
    peer.disconnect()
    assert (queue.depth, queue.unsettled) == (1, 0)


def test_a_rollback_confirms_nothing(harness: Harness) -> None:
    queue = harness.queue("q")
    peer = opened(harness, transacted=True)
    peer.says(w.HandleOpen(1, 1, 1, 0, True, True, dest_name="q"))
    peer.says(sent(1, b"1"), w.ChannelCommit(1), w.HandleConsume(1, 0, 2))
    peer.says(w.ChannelRollback(1))
    assert queue.unsettled == 1
    peer.disconnect()
    assert queue.depth == 1


# --- names ----------------------------------------------------------------------------------------


def test_a_message_to_the_empty_name_goes_to_every_topic(harness: Harness) -> None:
    """§3.5.2.3: "how a client writes a message to all destinations"."""
    reader = opened(harness, "reader")
    reader.says(w.HandleOpen(1, 1, 2, 0, False, True))
    for name in ("alt.pets", "alt.", "rec"):
        reader.says(w.HandleConsume(1, 0, 10, dest_name=name))
    plain = harness.queue("plain")
    channel = reader.session.channels[1]
    channel.topology.bind(Bind(1, None, "plain", "amq.topic", "a.b.c"))
    channel.topology.bind(Bind(1, None, "plain", "amq.topic", "a.b"))
    writer = opened(harness, "writer")
    writer.says(w.HandleOpen(1, 1, 2, 0, True, False))
    (reply,) = writer.says(sent(1, b"to all", tag=9))
    assert (type(reply), reply.reply_code) == (w.HandleReply, 200)
    reader.turn()
    assert notified(reader.gets()) == [b"to all"] * 3
    assert plain.depth == 1, "once, however many topics it listens to"


def test_to_every_topic_in_a_transaction_and_with_a_selector(harness: Harness) -> None:
    reader = opened(harness, "reader")
    reader.says(w.HandleOpen(1, 1, 2, 0, False, True))
    reader.says(w.HandleConsume(1, 0, 10, dest_name="a", selector=b"JMSPriority > 8"))
    reader.says(w.HandleConsume(1, 0, 10, dest_name="b", selector=b"JMSPriority < 8"))
    writer = opened(harness, "writer", transacted=True)
    writer.says(w.HandleOpen(1, 1, 2, 0, True, False))
    writer.says(sent(1, b"to all"))
    reader.turn()
    assert notified(reader.gets()) == []
    writer.says(w.ChannelCommit(1))
    reader.turn()
    assert notified(reader.gets()) == [b"to all"]


# --- fragments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "between",
    [
        w.ChannelAck(1, 1, 1),
        w.HandleFlow(2, 1, True),
        w.HandleConsume(2, 1, 1),
        w.HandleQuery(2),
        w.HandleOpen(1, 3, 1, 1, True, True, dest_name="q"),
        w.ChannelCommit(1, 1),
        w.ChannelRollback(1, 1),
    ],
)
def test_nothing_comes_between_fragments(harness: Harness, between: Any) -> None:
    """§3.5.3, §2.2.8.4: "one after the other, with no interruption, on the channel"."""
    queue = harness.queue("q")
    peer = opened(harness, transacted=True)
    for handle in (1, 2):
        peer.says(w.HandleOpen(1, handle, 1, 0, True, True, dest_name="q"))
    octets = message(b"abcdef")
    first = w.HandleSend(1, 0, len(octets) - 3, partial=True)
    from gateway.adapters.commands.frames import frame

    (close,) = peer.says(frame(first) + octets[:-3], between)
    assert (type(close), close.reply_code) == (w.ChannelClose, 503)
    assert queue.depth == 0


def test_other_channels_and_closing_may_come_between(harness: Harness) -> None:
    queue = harness.queue("q")
    peer = opened(harness)
    peer.says(w.ChannelOpen(2, 0), w.HandleOpen(2, 2, 1, 0, True, True, dest_name="q"))
    peer.says(w.HandleOpen(1, 1, 1, 0, True, True, dest_name="q"))
    octets = message(b"abcdef")
    from gateway.adapters.commands.frames import frame

    half = frame(w.HandleSend(1, 0, len(octets) - 3, partial=True)) + octets[:-3]
    (reply,) = peer.says(half, sent(2, b"meanwhile", tag=5))
    assert (type(reply), reply.confirm_tag) == (w.HandleReply, 5)
    (ping,) = peer.says(w.ConnectionPing(True))
    assert type(ping) is w.ConnectionPing
    peer.says(frame(w.HandleSend(1, 0, 3)) + octets[-3:])
    assert queue.depth == 2
    (closed,) = peer.says(half, w.HandleClose(1, 200))
    assert (type(closed), closed.reply_code) == (w.HandleClose, 200)
    assert queue.depth == 2


# --- codes ----------------------------------------------------------------------------------------


def test_an_unknown_virtual_path(harness: Harness) -> None:
    """RFC 011: 402 is "invalid path"."""
    peer = harness.peer()
    peer.feed(b"\x80\x01")
    peer.gets()
    *_, close = peer.says(w.ConnectionResponse("NONE"), w.ConnectionOpen(1, "/nowhere", "x"))
    assert (type(close), close.reply_code) == (w.ConnectionClose, 402)
