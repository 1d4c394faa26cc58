"""The credit that a sender is granted, by its distance and by its messages (§2.6.7)."""

from typing import Any

import pytest

from gateway.adapters.performatives.credit_window import LEAST, MOST, NEAR, NEAR_OCTETS, near_window
from gateway.adapters.performatives.wire import layouts as w
from tests.adapters.performatives.peer import PLAIN, Peer

DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41" + PLAIN


def data(octets: int) -> bytes:
    return b"\x00\x53\x75\xb0" + octets.to_bytes(4, "big") + bytes(octets)


def granted(peer: Peer, count: int, payload: bytes, first: int = 0) -> list[int | None]:
    """The credit of each flow, while the peer sends so many messages."""
    found = []
    for number in range(first, first + count):
        peer.transfers(number, payload)
        found += [
            said.link_credit
            for said in peer.hears()
            if isinstance(said, w.Flow) and said.handle == 0
        ]
    return found


def test_a_near_sender_has_less_under_way() -> None:
    peer = Peer(near=True)
    peer.sends()
    assert [flow.link_credit for flow in peer.credit] == [MOST]
    assert granted(peer, MOST - NEAR // 2, PLAIN) == [NEAR]
    assert granted(peer, 5 * NEAR, PLAIN, MOST) == [NEAR] * 10


@pytest.mark.parametrize("octets", [16_384, 65_536, 120_000])
def test_large_messages(octets: int) -> None:
    """By octets, not by messages; and back once they are small again."""
    peer = Peer(near=True)
    peer.sends()
    payload = data(octets)
    window = max(LEAST, NEAR_OCTETS // len(payload))
    assert window < NEAR
    found = granted(peer, MOST, payload)
    assert found and set(found) == {window}
    (link,) = peer.session.links.values()
    left = link.credit
    found = granted(peer, left + 2 * NEAR, PLAIN, MOST)
    assert found[-1] == NEAR


@pytest.mark.parametrize(
    ("near", "payload", "fields"),
    [
        (False, PLAIN, {}),
        (True, DURABLE, {}),
        (True, PLAIN, {"rcv_settle_mode": 1}),
    ],
)  # fmt: skip
def test_all_others(near: bool, payload: bytes, fields: dict[str, Any]) -> None:
    """Far away, durable, or settled by the sender at last."""
    peer = Peer(near=near)
    peer.sends(**fields)
    found = granted(peer, 400, payload)
    for number in range(400, 600):
        peer.transfers(number, payload)
        found += [
            said.link_credit
            for said in peer.hears()
            if isinstance(said, w.Flow) and said.handle == 0
        ]
        if fields:
            peer.says(w.Disposition(False, 0, number, True))
    assert found == [MOST]


def test_confirmed_by_another_broker() -> None:
    peer = Peer(near=True)
    peer.sends()
    (link,) = peer.session.links.values()
    link.data.forwarded = True
    assert granted(peer, 600, PLAIN) == [MOST]


def test_the_window_by_octets() -> None:
    assert near_window(1, 300) == near_window(100, 600_000) == NEAR
    assert near_window(10, 10 * 16_384) == 100
    assert near_window(1, 1 << 30) == LEAST
