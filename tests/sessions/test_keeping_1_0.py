"""Whose a durable subscription is, and what ends it: its owner's word, and nothing else."""

from itertools import product
from typing import Any

import pytest

from gateway.adapters.performatives.composites import write
from gateway.adapters.performatives.wire import layouts as w
from gateway.errors import Condition, Lost
from gateway.operations import Closed, DeclareQueue, DetachLink, Publish, Refused
from gateway.sessions import links
from gateway.sessions.subscriptions import PREFIX
from tests.adapters.performatives.wire import packed
from tests.broker.fakes import message
from tests.sessions.test_links import LinkPeer, bodies
from tests.sessions.test_session import House
from tests.sessions.test_wire_1_0 import MESSAGE, Linked

DURABLE: dict[str, Any] = {"durable": 1, "expiry": "never"}
TOPIC: dict[str, Any] = {**DURABLE, "capabilities": ("topic",)}
EVERYBODYS: dict[str, Any] = {**DURABLE, "capabilities": ("topic", "shared", "global")}


@pytest.fixture
def house() -> House:
    found = House()
    access = found.broker.access
    access.add_user("reader", "secret")
    access.set_permissions("reader", "/", "", "", ".*")
    access.add_user("other", "secret")
    access.set_permissions("other", "/", ".*", ".*", ".*")
    return found


@pytest.fixture
def peer(house: House) -> LinkPeer:
    return LinkPeer(house)


def queues(house: House) -> list[str]:
    return sorted(house.broker.vhosts["/"].queues)


def publish(peer: LinkPeer, body: str) -> None:
    peer.says(Publish(1, message(body, "news", "amq.topic"), False, False))


# --- room -----------------------------------------------------------------------------------------


def test_one_users_links_cost_no_other_user_anything(
    house: House, peer: LinkPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MOST_SUSPENDED", 3)
    greedy = LinkPeer(house, "other", "greedy")
    for number in range(3):
        link, _ = greedy.source("news", name=f"s{number}", **TOPIC)
        greedy.says(DetachLink(1, None, link))
    _, operation = greedy.asking("news", name="s3", **TOPIC)
    refused = greedy.refused(operation)
    assert (refused.condition, refused.lost) == (Condition.RESOURCE_ERROR, Lost.LINK)
    assert greedy.session.channels, "one link is refused, not the session"

    link, _ = peer.source("news", name="mine", **TOPIC)
    publish(peer, "kept")
    peer.says(DetachLink(1, None, link, lost=True))
    peer.says(Closed())
    again = LinkPeer(house)
    link, _ = again.source("news", name="mine", **TOPIC)
    assert bodies(again.receives(link)) == ["kept"]

    back, _ = greedy.source("news", name="s0", **TOPIC)
    assert bodies(greedy.receives(back)) == ["kept"], "what waits can be resumed"


def test_a_durable_subscription_is_kept_where_its_link_cannot_be(
    house: House, peer: LinkPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links that were live already; their messages go back to the subscription."""
    live = [peer.source("news", name=f"s{number}", **TOPIC)[0] for number in range(4)]
    publish(peer, "kept")
    found = [peer.receives(link) for link in live]
    monkeypatch.setattr(links, "MOST_SUSPENDED", 1)
    for link, ((one,)) in zip(live, found, strict=True):
        peer.says(DetachLink(1, None, link, lost=True, unsettled={one.delivery: b"t"}))
    peer.says(Closed())
    assert len(queues(house)) == 4
    assert house.registry.links.suspended == {"guest": 1}
    again = LinkPeer(house)
    for number in range(4):
        link, _ = again.source("news", name=f"s{number}", **TOPIC)
        assert bodies(again.receives(link)) == ["kept"]


# --- what ends it ---------------------------------------------------------------------------------


def test_a_link_that_fails_does_not_end_its_subscription(house: House, peer: LinkPeer) -> None:
    link, _ = peer.source("news", name="s", **TOPIC)
    publish(peer, "kept")
    peer.says(DetachLink(1, None, link, closed=True, failed=True))
    again, _ = peer.source("news", name="s", **TOPIC)
    assert bodies(peer.receives(again)) == ["kept"]


def test_nor_does_an_attach_that_is_refused(house: House, peer: LinkPeer) -> None:
    link, _ = peer.source("news", name="s", **TOPIC)
    publish(peer, "kept")
    peer.says(DetachLink(1, None, link))
    bad = {"selector": (0x468C00000004, "n >")}
    _, operation = peer.asking("news", name="s", filters=bad, **TOPIC)
    peer.refused(operation)
    again, _ = peer.source("news", name="s", **TOPIC)
    assert bodies(peer.receives(again)) == ["kept"]


@pytest.mark.parametrize("word", ["error", "violation"])
def test_errors_on_a_link_leave_the_subscription(house: House, word: str) -> None:
    """A detach that says an error is no unsubscribe, nor is one of ours for a peer's mistake."""
    peer = Linked(house)
    topic = w.Source("news", durable=1, expiry_policy="never", capabilities=("topic",))
    peer.says(w.Attach("s", 0, True, source=topic))
    assert len(queues(house)) == 1
    if word == "error":
        peer.says(w.Detach(0, True, w.Error("amqp:internal-error", "a bug")))
    else:
        retired = w.TransactionalState(b"none", w.ACCEPTED)
        owner = Linked(house, "owner")
        owner.sender(0, "in", w.Target("news", capabilities=("topic",)))
        owner.says(w.Transfer(0, 0, b"t", 0), MESSAGE)
        peer.says(w.Flow(0, 1000, 0, 1000, 0, 0, 1))
        (detach,) = peer.says(w.Disposition(True, 0, None, False, retired))
        assert detach.error is not None and detach.error.condition == "amqp:transaction:unknown-id"
    assert len(queues(house)) == 1


def test_a_subscription_is_stolen_from_a_session_that_waits_for_the_store(house: House) -> None:
    """Its detach has to wait behind other answers; the thief has the subscription all the same."""
    topic = w.Source("news", durable=1, expiry_policy="never", capabilities=("topic",))
    victim, thief = Linked(house), Linked(house)
    victim.sender(0, "in", w.Target("news", capabilities=("topic",)))
    victim.says(w.Attach("s", 1, True, source=topic))
    victim.says(w.Flow(0, 1000, 0, 1000, 1, 0, 10))
    victim.says(w.Transfer(0, 0, b"0", 0), MESSAGE)
    (queue,) = house.broker.vhosts["/"].queues.values()
    assert queue.unsettled == 1
    waits = w.Attach("new", 2, False, source=w.Source(), target=w.Target("made"))
    waits.initial_delivery_count = 0
    octets = packed(waits) + packed(w.Transfer(0, 1, b"1", 0), payload=MESSAGE)
    victim.session.perform(victim.engine.receive(octets))
    thief.session.perform(thief.engine.receive(packed(w.Attach("s", 0, True, source=topic))))
    assert len(queue.consumers) == 1, "the thief's"
    victim.turn()
    thief.turn()
    thief.hears()
    heard = thief.says(w.Flow(0, 1000, 0, 1000, 0, 0, 10))
    assert len([one for one in heard if isinstance(one, w.Transfer)]) == 2
    assert queue.unsettled == 2 and not house.registry.links.suspended
    (detach,) = [one for one in victim.hears() if isinstance(one, w.Detach)]
    assert detach.error is not None and detach.error.condition == "amqp:link:stolen"


# --- rights ---------------------------------------------------------------------------------------


def test_the_right_to_read_ends_no_subscription(house: House, peer: LinkPeer) -> None:
    """A null source finds it (JMS unsubscribes so), but closing needs the right to delete."""
    link, _ = peer.source("news", name="s", **EVERYBODYS)
    peer.says(DetachLink(1, None, link))
    reader = LinkPeer(house, "reader", "another")
    link, _ = reader.source(None, name="s")
    refused = reader.refused(DetachLink(1, "t", link, closed=True))
    assert (refused.condition, refused.lost) == (Condition.ACCESS_REFUSED, Lost.LINK)
    assert queues(house) == [f"{PREFIX}:s"]
    other = LinkPeer(house, "other", "another")
    link, _ = other.source(None, name="s")
    other.done(DetachLink(1, "t", link, closed=True))
    assert queues(house) == []


def test_a_subscription_in_use_is_not_ended(house: House, peer: LinkPeer) -> None:
    one, _ = peer.source("news", name="s|1", **EVERYBODYS)
    two, _ = peer.source("news", name="s|2", **EVERYBODYS)
    for link in (two, peer.source(None, name="s")[0]):
        refused = peer.refused(DetachLink(1, "t", link, closed=True))
        assert (refused.condition, refused.lost) == (Condition.RESOURCE_LOCKED, Lost.LINK)
    publish(peer, "still")
    assert bodies(peer.receives(one)) == ["still"]
    peer.done(DetachLink(1, "t", one, closed=True))
    assert queues(house) == []


def test_the_peer_is_told_that_it_is_in_use(house: House) -> None:
    topic = w.Source(
        "news", durable=1, expiry_policy="never", capabilities=("topic", "shared", "global")
    )
    one, two = Linked(house, "one"), Linked(house, "two")
    for peer in (one, two):
        peer.says(w.Attach("s", 0, True, source=topic))
    (detach,) = one.says(w.Detach(0, True))
    assert detach.closed and detach.error.condition == "amqp:resource-locked"
    (detach,) = two.says(w.Detach(0, True))
    assert detach.closed and detach.error is None
    assert queues(house) == []


def test_durable_and_volatile_subscriptions_of_one_name_are_two(
    house: House, peer: LinkPeer
) -> None:
    """JMS 2.0 §8.3: they are not related."""
    volatile, _ = peer.source("news", name="s", capabilities=("topic", "shared"))
    lasting, _ = peer.source("news", name="s|1", **{**TOPIC, "capabilities": ("topic", "shared")})
    publish(peer, "both")
    assert len(queues(house)) == 2
    assert bodies(peer.receives(volatile)) == bodies(peer.receives(lasting)) == ["both"]
    peer.done(DetachLink(1, "t", volatile, closed=True))
    assert queues(house) == [f"{PREFIX}guest:me:s"]


# --- transactions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late", "settled", "closed"), list(product([False, True], repeat=3)), ids=str
)
@pytest.mark.parametrize("fail", [False, True])
def test_an_outcome_in_a_transaction_and_the_end_of_its_link(
    late: bool, settled: bool, closed: bool, fail: bool
) -> None:
    """§4.4.2: what was retired before the detach stays retired; what could not be any more is no
    part of a discharge that succeeds. In no case is it accepted and back in the queue."""
    house = House()
    owner = Linked(house, "owner")
    owner.session.channels[0].topology.declare_queue(DeclareQueue(0, None, "q", durable=True))
    owner.sender(0, "in", w.Target("/queues/q"))
    owner.says(w.Transfer(0, 0, b"t", 0), MESSAGE)
    queue = house.broker.vhosts["/"].queues["q"]

    peer = Linked(house)
    peer.sender(5, "txn", w.Coordinator())
    peer.receiver(0, 1)
    declare, discharge = b"\x00\x53\x77" + write(w.Declare()), b"\x00\x53\x77"
    (declared,) = peer.says(w.Transfer(5, 0, b"d", 0), declare)
    work = declared.state.txn_id
    retire = w.Disposition(True, 0, None, settled, w.TransactionalState(work, w.ACCEPTED))
    words = [retire, w.Detach(0, closed)]
    for word in reversed(words) if late else words:
        peer.feed(packed(word))
    peer.hears()
    discharge += write(w.Discharge(work, fail))
    told = peer.says(w.Transfer(5, 1, b"e", 0), discharge)
    (state,) = [one.state for one in told if isinstance(one, w.Disposition) and one.role is True]
    if late and not fail:
        assert isinstance(state, w.Rejected)
        assert state.error is not None and state.error.condition == "amqp:transaction:rollback"
    else:
        assert isinstance(state, w.Accepted)
    kept = late or fail
    assert queue.depth + queue.unsettled == kept
    if kept and (closed or not late):
        assert queue.depth == 1, "nobody holds it any more"


def test_a_refusal_is_not_sent_to_a_lost_connection(house: House, peer: LinkPeer) -> None:
    link, _ = peer.source("news", name="s", **EVERYBODYS)
    other, _ = peer.source("news", name="s|2", **EVERYBODYS)
    said = peer.says(DetachLink(1, None, link, closed=True, lost=True))
    assert all(isinstance(one, Refused) and one.token is None for one in said)
    assert other and len(queues(house)) == 1
