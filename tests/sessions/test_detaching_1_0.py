"""Links that end with very much unsettled: it is parked, or has its outcome, in portions."""

import pytest

from gateway.broker.lanes import Entry
from gateway.broker.long_operations import PORTION
from gateway.errors import Condition
from gateway.operations import (
    BeginSession,
    Closed,
    DeclareQueue,
    DeleteQueue,
    DetachLink,
    Done,
    EndSession,
    Modify,
    Operation,
    Outcome,
    SessionLost,
)
from tests.sessions.test_links import LinkPeer, declare, publish
from tests.sessions.test_session import House

MANY = 5 * PORTION


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def peer(house: House) -> LinkPeer:
    found = LinkPeer(house)
    declare(found, "q")
    publish(found, "q", *map(str, range(MANY)))
    return found


def tag(number: int) -> bytes:
    return number.to_bytes(8, "big")


def hold(peer: LinkPeer, **more: object) -> tuple[str, dict[int, bytes], list[Entry]]:
    """A link with everything unsettled, the tags, and the entries."""
    link, _ = peer.source("q", name="l", **more)
    got = peer.receives(link, MANY + 10)
    while len(got) < MANY:
        peer.house.broker.state.tick(peer.house.broker.state.now + 1)
        got += peer.heard()  # type: ignore[arg-type]
    tags = {said.delivery: tag(said.delivery) for said in got}
    return link, tags, list(peer.session.channels[1].window.unsettled.values())


def held(entries: list[Entry]) -> int:
    return sum(entry.consumer is not None for entry in entries)


def turn(house: House) -> None:
    house.broker.state.long_operations.work()
    house.commit()


def finish(house: House) -> None:
    """All turns that are left."""
    while house.broker.state.long_operations.waiting:
        turn(house)
    house.commit()


def work(peer: LinkPeer, entries: list[Entry]) -> list[Operation]:
    """All turns that it takes. What is said at the end; nothing is said before."""
    house = peer.house
    queue = entries[0].lane.queue
    turns = 1
    said: list[Operation] = []
    while house.broker.state.long_operations.waiting and not said:
        said += peer.heard()
        assert not (said and held(entries)), "answered when it is done"
        before = held(entries), queue.unsettled
        turn(house)
        assert before[0] - held(entries) <= PORTION
        assert before[1] - queue.unsettled in (*range(PORTION + 1), MANY)
        turns += 1
    assert turns >= 5
    return said + peer.heard()


@pytest.mark.parametrize(
    ("default", "left", "dead"),
    [
        (None, MANY, 0),
        (Outcome.ACCEPT, 0, 0),
        (Outcome.REJECT, 0, MANY),
        (Modify(1, 0, True, True), 0, MANY),
        (Modify(1, 0, False, False), MANY, 0),
    ],
)
def test_closing(
    house: House, peer: LinkPeer, default: Outcome | Modify | None, left: int, dead: int
) -> None:
    queue = house.broker.vhosts["/"].queues["q"]
    peer.done(DeclareQueue(1, "d", "dead"))
    queue.limits = queue.limits._replace(dead_letter_exchange="", dead_letter_key="dead")
    link, _, entries = hold(peer, default=default)
    asked = [DetachLink(1, "t", link, True), DeclareQueue(1, "next", "other")]
    assert peer.says(*asked) == []
    assert held(entries) == MANY - PORTION and "other" not in house.broker.vhosts["/"].queues
    answers = work(peer, entries)
    assert [said.token for said in answers if isinstance(said, Done)] == ["t", "next"]
    while queue.pending_dead_letters:
        house.broker.end_turn()
        house.broker.state.tick(house.broker.state.now + 1)
    assert (queue.depth, queue.unsettled) == (left, 0)
    assert house.broker.vhosts["/"].queues["dead"].depth == dead


def test_nothing_is_delivered_over_a_link_that_waits_for_its_turn(
    house: House, peer: LinkPeer
) -> None:
    """Another long operation is before it: what it held is taken from the channel all the same."""
    link, _, entries = hold(peer)
    house.broker.state.long_operations.begin(iter([None] * 3), lambda refusal: None, atomic=False)
    publish_other = LinkPeer(house, container="other")
    assert peer.says(DetachLink(1, "t", link, True)) == []
    publish(publish_other, "q", "new")
    assert peer.heard() == [] and not peer.session.channels[1].window.unsettled
    assert held(entries) == MANY
    (done,) = work(peer, entries)
    assert done == Done(1, "t")


def test_parked_deliveries_are_resumed(house: House, peer: LinkPeer) -> None:
    """A link is attached again at once, on another connection: that waits for what is parked."""
    link, tags, entries = hold(peer, expiry="never")
    other = LinkPeer(house)
    assert peer.says(DetachLink(1, "t", link, unsettled=tags)) == []
    unsettled = {tags[number]: Outcome.ACCEPT for number in list(tags)[:10]}
    again, attach = other.asking("q", name="l", expiry="never", unsettled=unsettled)
    assert other.says(attach) == []
    assert work(peer, entries) == [Done(1, "t")]
    finish(house)
    (attached,) = [said for said in other.heard() if isinstance(said, Done)]
    assert len(attached.result.resumed) == MANY
    queue = house.broker.vhosts["/"].queues["q"]
    assert (queue.depth, queue.unsettled) == (0, MANY - 10)


def suspended(house: House, peer: LinkPeer) -> tuple[dict[int, bytes], list[Entry]]:
    """A link that is detached, and can be resumed."""
    link, tags, entries = hold(peer, expiry="never")
    peer.says(DetachLink(1, "t", link, unsettled=tags))
    work(peer, entries)
    return tags, entries


def outcomes(tags: dict[int, bytes]) -> dict[bytes, Outcome | None]:
    """The peer has accepted every other delivery."""
    return {tag: Outcome.ACCEPT if number % 2 else None for number, tag in tags.items()}


def test_many_deliveries_are_resumed_in_portions(house: House, peer: LinkPeer) -> None:
    tags, entries = suspended(house, peer)
    other = LinkPeer(house)
    unsettled = outcomes(tags)
    _, attach = other.asking("q", name="l", expiry="never", unsettled=unsettled)
    said = other.says(attach, DeclareQueue(1, "next", "other"))
    turns = 0
    while house.broker.state.long_operations.waiting:
        assert said == [] and "other" not in house.broker.vhosts["/"].queues
        before = held(entries)
        turn(house)
        assert held(entries) - before <= PORTION
        said, turns = other.heard(), turns + 1
    house.commit()
    said += other.heard()
    attached, declared = [each for each in said if isinstance(each, Done)]
    assert turns >= 4 and declared.token == "next"
    resumed = attached.result.resumed
    assert {each.tag: each.outcome for each in resumed} == unsettled
    queue = house.broker.vhosts["/"].queues["q"]
    assert (queue.depth, queue.unsettled) == (0, MANY // 2)


@pytest.mark.parametrize(
    "end", [EndSession(1, None), SessionLost(1, Condition.INTERNAL_ERROR, ""), Closed(None, "")]
)
def test_a_channel_ends_while_its_link_is_resumed(
    house: House, peer: LinkPeer, end: Operation
) -> None:
    tags, entries = suspended(house, peer)
    other = LinkPeer(house)
    _, attach = other.asking("q", name="l", expiry="never", unsettled=outcomes(tags))
    assert other.says(attach) == []
    other.says(end)
    finish(house)
    queue = house.broker.vhosts["/"].queues["q"]
    assert queue.unsettled == 0 and MANY // 2 <= queue.depth < MANY


def test_a_queue_is_deleted_while_its_link_is_resumed(house: House, peer: LinkPeer) -> None:
    tags, entries = suspended(house, peer)
    other = LinkPeer(house)
    _, attach = other.asking("q", name="l", expiry="never", unsettled=outcomes(tags))
    assert other.says(attach) == []
    peer.done(DeleteQueue(1, "d", "q"))
    finish(house)
    (attached,) = [said for said in other.heard() if isinstance(said, Done)]
    resumed = attached.result.resumed
    assert 0 < len(resumed) <= PORTION
    open_ = [each for each in resumed if each.outcome is None]
    assert len(other.session.channels[1].window.unsettled) == len(open_)


def test_a_link_that_is_resumed_is_not_stolen_before_it_is_attached(
    house: House, peer: LinkPeer
) -> None:
    tags, entries = suspended(house, peer)
    other, third = LinkPeer(house), LinkPeer(house)
    _, attach = other.asking("q", name="l", expiry="never", unsettled=outcomes(tags))
    assert other.says(attach) == []
    _, attach = third.asking("q", name="l", expiry="never", unsettled={})
    assert third.says(attach) == []
    said: list[Operation] = []
    while house.broker.state.long_operations.waiting:
        turn(house)
        said += other.heard()
    house.commit()
    attached = [each for each in said if isinstance(each, Done)]
    assert len(attached[0].result.resumed) == MANY
    assert [each for each in third.heard() if isinstance(each, Done)]


def test_a_link_that_is_stolen_is_parked_first(house: House, peer: LinkPeer) -> None:
    _, tags, entries = hold(peer, expiry="never")
    peer.tags = tags
    thief = LinkPeer(house)
    _, attach = thief.asking("q", name="l", expiry="never", unsettled={})
    assert thief.says(attach) == []
    peer.heard()
    assert MANY - PORTION <= held(entries) < MANY
    work(peer, entries)
    house.commit()
    (attached,) = [said for said in thief.heard() if isinstance(said, Done)]
    assert len(attached.result.resumed) == MANY and not house.broker.state.long_operations.waiting


@pytest.mark.parametrize("end", [Closed(), SessionLost(1, None, "")])  # type: ignore[arg-type]
@pytest.mark.parametrize("expiry", ["never", "connection-close", "session-end"])
def test_the_end_comes_meanwhile(house: House, peer: LinkPeer, end: Operation, expiry: str) -> None:
    """Of the session or the connection: what was taken from it is parked or given up all the
    same."""
    link, tags, entries = hold(peer, expiry=expiry)
    peer.says(DetachLink(1, "t", link, unsettled=tags))
    turn(house)
    peer.says(end)
    while house.broker.state.long_operations.waiting:
        turn(house)
    queue = house.broker.vhosts["/"].queues["q"]
    keeps = expiry == "never" or (expiry == "connection-close" and not isinstance(end, Closed))
    assert (queue.depth, queue.unsettled) == ((0, MANY) if keeps else (MANY, 0))
    assert held(entries) == 0
    assert len(house.registry.links.by_key) == keeps
    peer.session.perform([Closed()])
    while house.broker.state.long_operations.waiting:
        turn(house)
    assert len(house.registry.links.by_key) == (expiry == "never")
    again = LinkPeer(house)
    _, attach = again.asking("q", name="l", expiry=expiry, unsettled={})
    said = again.says(attach)
    finish(house)
    (attached,) = [each.result for each in said + again.heard() if isinstance(each, Done)]
    assert len(attached.resumed) == (MANY if expiry == "never" else 0)


def test_expired_links_are_released_in_portions(house: House, peer: LinkPeer) -> None:
    link, tags, entries = hold(peer, expiry="session-end", default=Outcome.ACCEPT)
    peer.says(DetachLink(1, None, link, unsettled=tags), EndSession(1, "end"))
    queue = house.broker.vhosts["/"].queues["q"]
    least = queue.unsettled
    while house.broker.state.long_operations.waiting:
        turn(house)
        assert least - queue.unsettled <= PORTION
        least = queue.unsettled
    assert (queue.depth, queue.unsettled) == (0, 0)
    assert peer.heard() == [Done(1, "end")]


def test_unresumed_deliveries_are_released_before_the_link_is_served(
    house: House, peer: LinkPeer
) -> None:
    link, tags, entries = hold(peer, expiry="never")
    peer.says(DetachLink(1, "t", link, unsettled=tags))
    work(peer, entries)
    publish(peer, "q", "new")
    queue = house.broker.vhosts["/"].queues["q"]
    again, _ = peer.source("q", name="l", expiry="never")
    got = peer.receives(again, 1)
    while not got:
        assert (queue.depth, queue.unsettled) in [(1, MANY), (MANY + 1, 0)]
        turn(house)
        got += peer.heard()  # type: ignore[arg-type]
    assert got[0].message.body == b"0"
    assert (queue.depth, queue.unsettled) == (MANY, 1)


@pytest.mark.parametrize("count", [10, MANY])
@pytest.mark.parametrize("closed", [False, True])
def test_nothing_is_left_of_a_queue_that_is_gone(
    house: House, peer: LinkPeer, count: int, closed: bool
) -> None:
    """Parked, or to be given up in portions: what memory holds is counted off."""
    queue = house.broker.vhosts["/"].queues["q"]
    link, _ = peer.source("q", name="l", expiry="link-detach")
    if count == MANY:
        peer.says(DetachLink(1, None, link, True))
        link, tags, _ = hold(peer, expiry="session-end")
    else:
        tags = {said.delivery: tag(said.delivery) for said in peer.receives(link, count)}
    peer.says(DetachLink(1, None, link, closed, unsettled=tags))
    house.broker.vhosts["/"].remove_queue(queue)
    peer.says(EndSession(1, None))
    peer.says(BeginSession(1, None))
    while house.broker.state.long_operations.waiting:
        turn(house)
    peer.says(EndSession(1, None))
    house.broker.state.tick(house.broker.state.now + 1000)
    assert (queue.unsettled, house.broker.state.octets) == (0, 0)
