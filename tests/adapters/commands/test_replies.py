"""A fatal error is reported behind the answers to earlier requests."""

from typing import Any

import pytest

from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import REPLIES
from tests.adapters.commands.harness import VHOST, Harness, Peer, parsed
from tests.adapters.commands.test_serving import content, entered

VIOLATIONS: dict[str, tuple[Any, str]] = {
    "a channel that is not open": (w.ChannelCommit(9, 1), "channel-error"),
    "a handle that is not open": (w.HandleCancel(9, 1, "x", "y"), "handle-error"),
    "no channel": (w.ChannelOpen(0), "syntax-error"),
    "a command of the server": (b"\x00\x05\x0a\x1f\x00\x01\x00", ""),
    "no command": (b"\x00\x02\xff\xff", ""),
}


@pytest.fixture
def harness() -> Harness:
    made = Harness()
    made.queue("test")
    return made


def octets(*records: Any) -> bytes:
    return b"".join(r if isinstance(r, bytes) else frame(r) for r in records)


def sending(tag: int) -> bytes:
    """A durable message with a receipt."""
    body = content(b"m", durable=True)
    return octets(w.HandleSend(1, tag, len(body))) + body


def hasty(peer: Peer, *asked: Any) -> list[Any]:
    """One read that the store has not committed yet; returns the answers so far."""
    peer.session.perform(peer.adapter.receive(octets(*asked)))
    peer.session.perform(peer.adapter.found())
    assert not peer.adapter.output(), "nothing overtakes the answer"
    assert not peer.adapter.closing
    peer.session.perform(peer.adapter.receive(octets(w.ChannelOpen(7, 3))))  # nobody hears it
    peer.turn()
    return [record for record, _ in parsed(b"".join(peer.adapter.output()))]


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_violation(harness: Harness, violation: str) -> None:
    peer = entered(harness)
    record, reply = VIOLATIONS[violation]
    answer, close = hasty(peer, sending(5), record)
    assert answer == w.HandleReply(1, 5, 200)
    assert isinstance(close, w.ConnectionClose) and close.reply_code != REPLIES["reply-success"]
    if reply:
        assert close.reply_code == REPLIES[reply] and close.reply_text
    assert peer.adapter.closing and peer.session.closed and not peer.session.peer_closed


def test_a_goodbye(harness: Harness) -> None:
    peer = entered(harness)
    answer, close = hasty(peer, sending(5), w.ConnectionClose(200, "bye"))
    assert answer == w.HandleReply(1, 5, 200) and close == w.ConnectionClose(200, "")
    assert peer.adapter.closing and peer.session.peer_closed


def test_they_hang_up_before_it_is_told(harness: Harness) -> None:
    peer = entered(harness)
    peer.session.perform(peer.adapter.receive(octets(sending(5), w.ChannelOpen(0))))
    peer.disconnect()
    assert peer.session.closed and harness.broker.vhosts[VHOST].queues["test"].depth == 1


def test_what_is_wrong_before_the_virtual_host_is_open(harness: Harness) -> None:
    peer = harness.peer(mechanisms=("PLAIN", "ANONYMOUS"))
    peer.says(b"\x80\x01", w.ConnectionResponse("NONE"))
    said = peer.says(w.ConnectionOpen(1, VHOST, "guest"), w.ChannelOpen(0))
    assert [type(record) for record in said] == [w.ConnectionReply, w.ConnectionClose]


def test_a_virtual_host_that_is_not_there_is_the_first_that_is_wrong(harness: Harness) -> None:
    peer = harness.peer(mechanisms=("PLAIN", "ANONYMOUS"))
    peer.says(b"\x80\x01", w.ConnectionResponse("NONE"))
    (close,) = peer.says(w.ConnectionOpen(1, "/none", "guest"), w.ChannelOpen(0))
    assert close.reply_code != REPLIES["syntax-error"] and "/none" in close.reply_text
