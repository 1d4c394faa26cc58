"""The credit that a sender is granted, by its distance and by its messages (§2.6.7)."""

from typing import Any

import pytest

from gateway.adapters.performatives.credit_window import LEAST, MOST, NEAR, NEAR_OCTETS, near_window
from gateway.adapters.performatives.wire import layouts as w
from tests.adapters.performatives.peer import PLAIN, Peer
from tests.adapters.performatives.wire import packed

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


def run(peer: Peer, first: int, count: int, settled: bool) -> None:
    """So many messages in one read."""
    numbers = range(first, first + count)
    peer.feed(
        b"".join(packed(w.Transfer(0, n, b"%04d" % n, 0, settled), payload=PLAIN) for n in numbers)
    )


@pytest.mark.parametrize("settled", [True, False])
def test_a_sender_of_settled_messages_goes_on_while_they_are_published(settled: bool) -> None:
    """It has half of the window, and its credit before they are published. All others have credit
    with their outcomes."""
    early: list[tuple[int | None, int]] = []

    def write_now() -> None:
        credit = [said.link_credit for said in peer.hears() if said.handle == 0]
        early.append((credit[-1], peer.broker.published[0]))

    peer = Peer(near=True, write_now=write_now)
    peer.sends()
    run(peer, 0, MOST - NEAR // 4, settled)
    peer.hears()
    del early[:]
    for turn in range(3):
        first = MOST + turn * 100
        published = peer.broker.published[0]
        run(peer, first, 100, settled)
        assert peer.broker.published[0] == published + 100
        assert early == ([(NEAR // 2, published)] if settled else [])
        del early[:]


def test_the_window_by_octets() -> None:
    assert near_window(1, 300, False) == near_window(100, 600_000, False) == NEAR
    assert near_window(1, 300, True) == NEAR // 2
    assert near_window(10, 10 * 16_384, False) == 2 * near_window(10, 10 * 16_384, True) == 100
    assert near_window(1, 1 << 30, False) == near_window(1, 1 << 30, True) == LEAST
