"""Levels of priority by who makes a queue: two for 0.8a2 and the drafts, ten for links of 1.0, none
for a plain queue of 0-8 to 0-9-1."""

from typing import Any

import pytest

from gateway.adapters.commands.wire import layouts as handles
from gateway.adapters.core.qpid_queues import queue_arguments
from gateway.adapters.methods.contents.methods import OutgoingMethod
from gateway.broker.limits import RANKS
from gateway.message import Message
from gateway.operations import (
    DRAFT_LEVELS,
    LINK_LEVELS,
    DeclareQueue,
    Fetch,
    Listen,
    OpenDestination,
    Publish,
    QueueState,
    Service,
)
from tests.adapters.commands.harness import Harness
from tests.adapters.methods.drafts.house import Guest, bodies
from tests.adapters.methods.drafts.house import House as DraftHouse
from tests.broker.fakes import message
from tests.sessions.test_links import LinkPeer
from tests.sessions.test_session import House

PRIORITIES = (0, 9, 4, 5, None, 7)
IN_TWO = ["9", "5", "7", "0", "4", "None"]
IN_TEN = ["9", "7", "5", "4", "None", "0"]
IN_ORDER = [str(p) for p in PRIORITIES]


def of_priority(priority: int | None, key: str, exchange: str = "") -> Message:
    more = {} if priority is None else {"priority": priority}
    return message(str(priority), key, exchange, **more)


def taken(peer: LinkPeer, queue: str) -> list[str]:
    found = []
    while (fetched := peer.done(Fetch(1, "f", queue, True))) is not None:
        found.append(fetched.message.body.decode())
    return found


def filled(peer: LinkPeer, queue: str, key: str = "", exchange: str = "") -> list[str]:
    """What comes out of a queue into which all priorities have been put."""
    for priority in PRIORITIES:
        peer.says(Publish(1, of_priority(priority, key or queue, exchange), False, False))
    return taken(peer, queue)


@pytest.fixture
def peer() -> LinkPeer:
    return LinkPeer(House())


def test_how_priorities_fall_together() -> None:
    assert RANKS[2] == (0, 0, 0, 0, 0, 1, 1, 1, 1, 1)
    assert RANKS[10] == tuple(range(10))


def test_a_plain_queue_is_in_order(peer: LinkPeer) -> None:
    peer.done(DeclareQueue(1, "d", "plain"))
    assert filled(peer, "plain") == IN_ORDER
    assert not peer.house.broker.vhosts["/"].queues["plain"].backlog.ranked


def test_an_argument_counts_for_more(peer: LinkPeer) -> None:
    given = {"x-max-priority": 5}
    peer.done(DeclareQueue(1, "d", "q", arguments=given, levels=DRAFT_LEVELS))
    assert filled(peer, "q") == ["9", "5", "7", "4", "0", "None"]


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ({"x-qpid-priorities": 2}, IN_TWO),
        ({"qpid.priorities": 10}, IN_TEN),
        ({"qpid.priorities": 3}, ["9", "5", "7", "4", "None", "0"]),
        ({"qpid.priorities": 4}, ["9", "7", "5", "4", "None", "0"]),
        ({"qpid.priorities": 1}, IN_ORDER),
        ({"qpid.priorities": 2, "x-max-priority": 9}, ["9", "7", "5", "4", "0", "None"]),
    ],
    ids=str,
)
def test_levels_of_qpids_argument(peer: LinkPeer, given: dict[str, int], order: list[str]) -> None:
    """Of ten priorities as its brokers and 1.0 divide them; RabbitMQ's argument goes first, which
    has no priority as 0."""
    peer.done(DeclareQueue(1, "d", "q", arguments=queue_arguments(given)))
    assert filled(peer, "q") == order


@pytest.mark.parametrize(("levels", "order"), [(DRAFT_LEVELS, IN_TWO), (LINK_LEVELS, IN_TEN)])
def test_levels_and_declaring_again(peer: LinkPeer, levels: int, order: list[str]) -> None:
    peer.done(DeclareQueue(1, "d", "q", durable=True, levels=levels))
    assert filled(peer, "q") == order
    # 0-9-1 declares it as a plain queue: it is the same, and shows no argument.
    state = peer.done(DeclareQueue(1, "d", "q", durable=True))
    assert state == QueueState("q", 0, 0)
    assert peer.house.broker.vhosts["/"].queues["q"].arguments == {}
    assert filled(peer, "q") == order


@pytest.mark.parametrize("address", ["made", "amq.topic", None])
def test_levels_of_nodes_of_links(peer: LinkPeer, address: str | None) -> None:
    peer.house.registry.create_queues = True
    peer.source(address, dynamic=address is None)
    (queue,) = peer.house.broker.vhosts["/"].queues
    exchange = address if address == "amq.topic" else ""
    assert filled(peer, queue, "any" if exchange else queue, exchange) == IN_TEN
    assert list(peer.house.broker.each_queue("/"))[0].priority_levels == 10


def test_levels_of_nodes_of_handles(peer: LinkPeer) -> None:
    peer.done(OpenDestination(1, "o", "1", Service.QUEUE, "", temporary=True))
    peer.done(OpenDestination(1, "o", "2", Service.TOPIC, "a", client="me"))
    peer.done(Listen(1, "l", "2", "2/1", "", 1, identifier="news"))
    assert [q.backlog.levels for q in peer.house.broker.vhosts["/"].queues.values()] == [2, 2]


def test_a_topic_of_0_8a2_by_octets() -> None:
    harness = Harness()
    peer = harness.peer()
    w = handles
    peer.feed(b"\x80\x01")
    peer.says(w.ConnectionResponse("NONE"), w.ConnectionOpen(0, "/test", "c"))
    peer.says(w.ChannelOpen(1, 0), w.HandleOpen(1, 1, 1, 0, True, True, temporary=True,
               dest_name="mine"))  # fmt: skip
    assert harness.broker.vhosts["/test"].queues["mine"].backlog.levels == 2


@pytest.mark.parametrize("version", ["0-9a0", "0-9a6"])
def test_levels_of_nodes_of_the_drafts(version: str) -> None:
    house = DraftHouse()
    guest = Guest(house, version)
    w = guest.w
    if version == "0-9a0":
        guest.says(w.DestinationDefine(0, 1, "q"))
        guest.says(w.SubscriptionDefine(0, "s", "", "a.b", 1))
        made = ["q", "subscription:s"]

        def publish(priority: int | None) -> OutgoingMethod:
            content = guest.content(body=b"%r" % priority, priority=priority)
            return OutgoingMethod(w.JmsPublish(0, 1, "q"), content)
    else:
        guest.says(w.QueueDeclare(0, "", "q"))
        made = ["q"]

        def publish(priority: int | None) -> OutgoingMethod:
            content = guest.content(body=b"%r" % priority, priority=priority, destination="q")
            return OutgoingMethod(w.JmsPublish(0, "queue"), content)

    assert [(name, queue.backlog.levels) for name, queue in house.queues.items()] == [
        (name, 2) for name in made
    ]
    guest.says(*[publish(priority) for priority in PRIORITIES])
    assert house.queues["q"].depth == 6
    consume: dict[str, Any] = {"auto_ack": True}
    if version == "0-9a0":
        heard = guest.says(w.JmsConsume(0, 1, "q", **consume))
    else:
        heard = guest.says(w.JmsConsume(0, "", "q", **consume))
    assert [body.decode() for body in bodies(heard)] == IN_TWO


def test_levels_are_there_after_a_restart() -> None:
    from gateway.broker.recovery import restore_topology
    from gateway.broker.vhost import VirtualHost, queue_record

    peer = LinkPeer(House())
    peer.done(DeclareQueue(1, "d", "q", durable=True, levels=DRAFT_LEVELS))
    peer.done(DeclareQueue(1, "d", "plain", durable=True))
    for priority in (0, 9):
        peer.says(Publish(1, of_priority(priority, "q"), False, False))
    old = peer.house.broker.vhosts["/"]
    records: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
        ("queue", ("/", name), queue_record(queue)) for name, queue in old.queues.items()
    ]
    new = VirtualHost("/", old.state)
    restore_topology({"/": new}, records)
    assert {name: queue.backlog.levels for name, queue in new.queues.items()} == {
        "q": 2,
        "plain": 0,
    }
    assert [lane.priority for lane in new.queues["q"].backlog.lanes] == [1, 0]
    assert "levels" not in records[1][2]
