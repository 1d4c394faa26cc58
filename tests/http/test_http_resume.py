"""A client that comes, goes and comes back in any order gets everything, and nothing twice."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing import examples
from tests.http.stream_peer import Peer, numbers, publish

ACTIONS = ("publish", "publish", "connect", "hang up", "let run", "let run", "clog")


async def act(rig: Any, peer: Peer, actions: list[str], exchange: str, key: str) -> int:
    """Play the actions, then connect and read to the end; how many were published."""
    published = 0
    for action in actions:
        if action == "publish":
            publish(rig, exchange, key, published)
            published += 1
        elif action == "connect":
            peer.connect()
        elif action == "hang up":
            await peer.hang_up()
            if peer.forgetful:
                peer.cursor = None
        elif action == "clog":
            peer.clogged = True
        else:
            await asyncio.sleep(0)
    if peer.clogged:
        await peer.hang_up()
        if peer.forgetful:
            peer.cursor = None
    peer.clogged = False
    peer.connect()
    for _ in range(8 + 2 * published):
        await asyncio.sleep(0)
    await peer.hang_up()
    return published


plays = st.lists(st.sampled_from(ACTIONS), max_size=40)


@settings(max_examples=examples(40), deadline=None)
@given(plays, st.booleans())
def test_a_queue_loses_nothing_and_marks_possible_duplicates(
    rig_class: Any, play: Any, forgetful: bool
) -> None:
    async def run() -> None:
        rig = rig_class()
        rig.queue("orders")
        peer = Peer(rig, b"source=queue:orders", forgetful)
        published = await act(rig, peer, play, "", "orders")
        first_time = [event for event in peer.got if not event.get("redelivered")]
        assert len(set(numbers(first_time))) == len(first_time)
        assert sorted(set(numbers(peer.got))) == list(range(published))
        if not forgetful:
            assert numbers(peer.got) == list(range(published)), "with a cursor nothing is doubled"
        assert not peer.gaps
        assert rig.depth("orders") == (0, 0)

    asyncio.run(run())


@settings(max_examples=examples(40), deadline=None)
@given(plays)
def test_an_exchange_continues_exactly(rig_class: Any, play: Any) -> None:
    async def run() -> None:
        rig = rig_class()
        rig.exchange("prices")
        peer = Peer(rig, b"source=exchange:prices")
        peer.connect()
        await asyncio.sleep(0)
        published = await act(rig, peer, play, "prices", "a")
        assert numbers(peer.got) == list(range(published))
        assert not peer.gaps

    asyncio.run(run())


@settings(max_examples=examples(40), deadline=None)
@given(plays)
def test_with_a_small_ring_the_gap_is_counted(rig_class: Any, play: Any) -> None:
    async def run() -> None:
        rig = rig_class(journal_events=3)
        rig.exchange("prices")
        peer = Peer(rig, b"source=exchange:prices")
        peer.connect()
        await asyncio.sleep(0)
        published = await act(rig, peer, play, "prices", "a")
        got = numbers(peer.got)
        assert got == sorted(set(got))
        assert len(got) + sum(gap["lost"] for gap in peer.gaps) == published

    asyncio.run(run())
