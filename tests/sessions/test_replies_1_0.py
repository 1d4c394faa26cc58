"""What costs the connection is told behind the answers to what was asked before."""

from typing import Any

import pytest

from gateway.adapters.performatives.wire import layouts as w
from tests.adapters.performatives.wire import packed, unpacked
from tests.sessions.test_session import House
from tests.sessions.test_wire_1_0 import Linked

VIOLATIONS: dict[str, tuple[bytes, str]] = {
    "a frame of no kind": (b"\0\0\0\x08\x02\x09\0\0", "amqp:connection:framing-error"),
    "a frame too small": (b"\0\0\0\x04\x02\0\0\0", "amqp:connection:framing-error"),
    "no performative": (b"\0\0\0\x0b\x02\0\0\0\0\x53\x01", "amqp:decode-error"),
    "a second open": (packed(w.Open("me")), "amqp:illegal-state"),
    "a channel without a session": (packed(w.Detach(0), 9), "amqp:illegal-state"),
    "a session on a channel in use": (packed(w.Begin(None, 0, 1, 1)), "amqp:illegal-state"),
}


@pytest.fixture
def peer() -> Linked:
    return Linked(House())


def attach(name: str) -> bytes:
    """A link to a new durable queue: the answer waits for the store."""
    target = w.Target("new")
    return packed(
        w.Attach(name, 0, False, source=w.Source(), target=target, initial_delivery_count=0)
    )


def hasty(peer: Linked, octets: bytes) -> list[Any]:
    """One read, behind which the store is not safe yet; what is said of it then."""
    peer.session.perform(peer.engine.receive(attach("in") + octets))
    peer.session.perform(peer.engine.found())
    assert unpacked(b"".join(peer.engine.output())) == [], "nothing overtakes the answer"
    assert not peer.engine.closing
    peer.session.perform(peer.engine.receive(packed(w.Begin(None, 0, 1, 1), 5)))  # nobody hears it
    peer.turn()
    return peer.hears()


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_a_violation(peer: Linked, violation: str) -> None:
    octets, symbol = VIOLATIONS[violation]
    attached, *rest, close = hasty(peer, octets)
    assert isinstance(attached, w.Attach) and attached.target.address
    assert all(isinstance(record, w.Flow) for record in rest)
    assert isinstance(close, w.Close) and close.error and close.error.condition == symbol
    assert peer.engine.closing and peer.session.closed and not peer.session.peer_closed


def test_a_goodbye(peer: Linked) -> None:
    attached, *_, close = hasty(peer, packed(w.Close()))
    assert isinstance(attached, w.Attach) and close == w.Close()
    assert peer.engine.closing and peer.session.peer_closed


def test_they_hang_up_before_it_is_told(peer: Linked) -> None:
    octets, _ = VIOLATIONS["a second open"]
    peer.session.perform(peer.engine.receive(attach("in") + octets))
    peer.disconnect()
    assert peer.session.closed and peer.engine.closing


def test_a_session_that_is_put_off_and_lost_meanwhile(peer: Linked) -> None:
    """Begun, lost by a mistake and ended in one read, of which no more than a part is performed in
    its turn."""
    due: list[bool] = []
    peer.session.on_pending = lambda: due.append(True)
    peer.session.time_slice = -1.0
    octets = attach("in") + packed(w.Begin(None, 0, 9, 9), 4)
    octets += packed(w.Begin(None, 0, 9, 9), 5) + packed(w.Detach(3), 5)
    peer.session.perform(peer.engine.receive(octets + packed(w.End(), 5)))
    peer.hears()
    while due:
        due.clear()
        peer.session.perform_pending()
        peer.turn()
    assert list(peer.session.channels) == [0, 1] and not peer.session.closed
    peer.session.time_slice = 10.0
    peer.hears()
    peer.feed(packed(w.Begin(None, 0, 9, 9), 5))
    assert [type(record) for record in peer.hears()] == [w.Begin]
