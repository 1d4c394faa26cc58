"""What a subscription to an exchange does not want never comes into its queue, by every door.

1.0 §3.5.3 (filter-set), JMS 2.0 §3.8 and §8.3.3, 0.8a2 §3.5.4.
"""

from typing import Any
from uuid import UUID

import pytest

from gateway.broker.channel import Channel
from gateway.broker.exchanges import Binding
from gateway.broker.queues import Queue
from gateway.errors import Condition
from gateway.operations import (
    LINK_LEVELS,
    Bind,
    Credit,
    DeclareQueue,
    Deliver,
    DetachLink,
    EndSubscription,
    Listen,
    OpenDestination,
    Publish,
    Service,
)
from gateway.sessions.subscriptions import CLIENT, PREFIX, USER
from gateway.values import Symbol
from tests import in_memory
from tests.broker.fakes import message
from tests.sessions.test_links import SELECTOR, LinkPeer
from tests.sessions.test_session import House

DURABLE: dict[str, Any] = {"durable": 1, "expiry": "never"}


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def peer(house: House) -> LinkPeer:
    return LinkPeer(house)


def the_queue(house: House) -> Queue:
    (queue,) = house.broker.vhosts["/"].queues.values()
    return queue


def bindings_to(queue: Queue, peer: LinkPeer) -> list[Binding]:
    return list(peer.house.broker.vhosts["/"].bindings_to(queue))


def jms(text: str) -> dict[str, Any]:
    return {"filters": {"jms": (Symbol(SELECTOR), text)}}


def publish(peer: LinkPeer, *numbers: int) -> None:
    for n in numbers:
        made = message(str(n), "a", exchange="amq.topic", application={"n": n})
        peer.says(Publish(1, made, False, False))


def bodies(said: list[Any]) -> list[str]:
    return [in_memory.text(one.message) for one in said if isinstance(one, Deliver)]


def test_a_selector_stands_before_the_queue(peer: LinkPeer) -> None:
    link, attached = peer.source("amq.topic", **jms("n > 2"))
    assert set(attached.terminus.filters) == {"jms"}
    publish(peer, 1, 2, 3, 4)
    queue = the_queue(peer.house)
    assert (queue.published, queue.depth) == (2, 2)
    assert bodies(peer.receives(link)) == ["3", "4"]
    assert queue.depth == 0
    assert not queue.dispatcher.filtered, (
        "who has its condition at the binding is served the direct way"
    )


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("amq:no such", {}),
        ("amqp:application-properties-filter", {"n": 3}),
        ("amqp:properties-filter", {"subject": "&p:ye"}),
    ],
)
def test_filters_of_properties_too(peer: LinkPeer, kind: str, wanted: dict[str, Any]) -> None:
    peer.source("amq.topic", filters={"f": (Symbol(kind), wanted)})
    for n, subject in ((3, "yes"), (4, "no")):
        made = message("x", "a", exchange="amq.topic", application={"n": n}, subject=subject)
        peer.says(Publish(1, made, False, False))
    assert the_queue(peer.house).depth == (1 if wanted else 2)


def test_several_conditions_are_all_asked(peer: LinkPeer) -> None:
    filters = {
        "one": (Symbol(SELECTOR), "n > 1 OR n < 0"),
        "two": (Symbol(SELECTOR), "n < 4"),
        "three": (Symbol("amqp:application-properties-filter"), {"n": 2}),
    }
    link, _ = peer.source("amq.topic", filters=filters)
    publish(peer, -1, 1, 2, 3, 4)
    assert bodies(peer.receives(link)) == ["2"]
    assert the_queue(peer.house).published == 1


def test_a_durable_subscription_gathers_only_matches(peer: LinkPeer) -> None:
    link, _ = peer.source("amq.topic", name="news", **DURABLE, **jms("n > 2"))
    peer.done(DetachLink(1, "t", link))
    publish(peer, 1, 2, 3, 4)
    assert the_queue(peer.house).depth == 2
    link, _ = peer.source("amq.topic", name="news", **DURABLE, **jms("n > 2"))
    assert bodies(peer.receives(link)) == ["3", "4"], "and nothing is lost by coming back"


def test_another_selector_begins_the_subscription_anew(peer: LinkPeer) -> None:
    link, _ = peer.source("amq.topic", name="news", **DURABLE, **jms("n > 2"))
    peer.done(DetachLink(1, "t", link))
    publish(peer, 3)
    link, _ = peer.source("amq.topic", name="news", **DURABLE, **jms("n < 2"))
    publish(peer, 1, 2, 3)
    assert bodies(peer.receives(link)) == ["1"]
    assert len(bindings_to(the_queue(peer.house), peer)) == 1


def test_a_shared_subscription_in_use_is_not_changed(peer: LinkPeer) -> None:
    more = {**DURABLE, "capabilities": ("shared",)}
    peer.source("amq.topic", name="news", **more, **jms("n > 2"))
    peer.source("amq.topic", name="news|2", **more, **jms("n > 2"))
    _, operation = peer.asking("amq.topic", name="news|3", **more, **jms("n < 2"))
    assert peer.refused(operation).condition is Condition.RESOURCE_LOCKED
    publish(peer, 1, 3)
    assert the_queue(peer.house).depth == 1


def test_one_that_is_resumed_may_ask_for_something_else(peer: LinkPeer) -> None:
    more: dict[str, Any] = {"name": "news", "expiry": "connection-close", "timeout": 60}
    link, _ = peer.source("amq.topic", **more, **jms("n > 2"))
    peer.done(DetachLink(1, "t", link))
    link, _ = peer.source("amq.topic", **more, **jms("n < 2"))
    publish(peer, 1, 3)
    queue = the_queue(peer.house)
    assert (queue.published, queue.depth) == (1, 1)
    assert bodies(peer.receives(link)) == ["1"]


def test_a_filter_of_a_queue_stays_with_its_consumer(peer: LinkPeer) -> None:
    peer.source("amq.topic", name="n")
    queue = the_queue(peer.house)
    link, _ = peer.source(queue.name, **jms("n > 2"))
    publish(peer, 1, 3)
    assert bodies(peer.says(Credit(1, None, link, 10))) == ["3"]
    assert queue.depth == 1


# --- 0.8a2 ----------------------------------------------------------------------------------------


def listens(peer: LinkPeer, selector: str, identifier: str = "", tag: str = "1/1") -> None:
    link = tag.partition("/")[0]
    peer.done(OpenDestination(1, "o", link, Service.TOPIC, "a", client="me"))
    peer.done(Listen(1, "l", link, tag, "", 1, selector=selector, identifier=identifier))


def test_topics_of_handles(peer: LinkPeer) -> None:
    listens(peer, "n > 2")
    publish(peer, 1, 2, 3, 4)
    queue = the_queue(peer.house)
    assert (queue.published, queue.depth, queue.unsettled) == (2, 1, 1)


def test_durable_subscriptions_of_handles(peer: LinkPeer) -> None:
    listens(peer, "n > 2", "news")
    peer.says(*[])
    channel: Channel = peer.session.channels[1]
    channel.unsubscribe("1/1")
    publish(peer, 1, 3)
    queue = the_queue(peer.house)
    assert queue.name.startswith(PREFIX) and queue.depth == 1
    listens(peer, "n < 2", "news", "2/1")
    publish(peer, 1, 3)
    assert (queue.depth, queue.unsettled) == (0, 1), "another selector begins anew"


# --- subscriptions that an earlier build made -----------------------------------------------------


def made_earlier(peer: LinkPeer, owned: bool = True) -> Queue:
    """A durable subscription of then: without the user in its name, without a condition at its
    binding; and what came in since."""
    name = "subscription:me:news"
    arguments = {USER: "guest", CLIENT: "me"} if owned else {}
    channel: Channel = peer.session.channels[1]
    channel.topology.declare_queue(
        DeclareQueue(1, None, name, durable=True, arguments=arguments, levels=LINK_LEVELS)
    )
    channel.topology.bind(Bind(1, None, name, "amq.topic", "a"))
    publish(peer, 1, 2, 3)
    return the_queue(peer.house)


@pytest.mark.parametrize("owned", [True, False])
def test_its_owner_finds_it_with_its_messages(peer: LinkPeer, owned: bool) -> None:
    made_earlier(peer, owned)
    link, _ = peer.source("/exchanges/amq.topic/a", name="news", **DURABLE)
    assert bodies(peer.receives(link)) == ["1", "2", "3"]
    queue = the_queue(peer.house)
    peer.done(DetachLink(1, "t", link))
    link, attached = peer.source(None, name="news")
    assert attached.terminus.address == queue.name
    peer.done(DetachLink(1, "t", link, closed=True))
    assert not peer.house.broker.vhosts["/"].queues


def test_another_user_neither_gets_it_nor_is_locked_out(house: House, peer: LinkPeer) -> None:
    old = made_earlier(peer)
    house.broker.access.add_user("other", "secret")
    house.broker.access.set_permissions("other", "/", ".*", ".*", ".*")
    other = LinkPeer(house, "other")
    link, _ = other.source("/exchanges/amq.topic/a", name="news", **DURABLE)
    assert bodies(other.receives(link)) == []
    assert old.depth == 3 and len(house.broker.vhosts["/"].queues) == 2


def test_its_condition_moves_to_the_binding(peer: LinkPeer) -> None:
    queue = made_earlier(peer)
    asked: dict[str, Any] = {"name": "news", **DURABLE}
    for _ in range(2):
        link, _ = peer.source("/exchanges/amq.topic/a", **asked, **jms("n > 1"))
        (binding,) = bindings_to(queue, peer)
        assert binding.arguments == {"x-selector": "n > 1"} and queue.depth == 3
        peer.done(DetachLink(1, "t", link))
    publish(peer, 0, 4)
    assert queue.depth == 4
    link, _ = peer.source("/exchanges/amq.topic/a", **asked, **jms("n > 1"))
    assert bodies(peer.receives(link)) == ["2", "3", "4"], "and not what it never wanted"
    peer.done(DetachLink(1, "t", link))
    link, _ = peer.source("/exchanges/amq.topic/a", **asked, **jms("n < 2"))
    assert bodies(peer.receives(link)) == [] and not queue.depth, "another condition begins anew"


def test_another_topic_begins_it_anew(peer: LinkPeer) -> None:
    queue = made_earlier(peer)
    peer.source("/exchanges/amq.topic/b", name="news", **DURABLE, **jms("n > 1"))
    assert not queue.depth and [binding.key for binding in bindings_to(queue, peer)] == ["b"]


def test_a_first_condition_begins_one_of_today_anew(peer: LinkPeer) -> None:
    link, _ = peer.source("/exchanges/amq.topic/a", name="news", **DURABLE)
    peer.done(DetachLink(1, "t", link))
    publish(peer, 1, 2, 3)
    peer.source("/exchanges/amq.topic/a", name="news", **DURABLE, **jms("n > 1"))
    assert not the_queue(peer.house).depth


def test_a_handle_finds_it_and_moves_its_condition(peer: LinkPeer) -> None:
    queue = made_earlier(peer)
    peer.done(OpenDestination(1, "o", "1", Service.TOPIC, "a", client="me"))
    listen = Listen(1, "l", "1", "1/1", "", 1, selector="n > 1", identifier="news")
    peer.session.perform([listen])
    peer.house.commit()
    assert bodies(peer.heard()) == ["2"] and (queue.depth, queue.unsettled) == (2, 1)
    (binding,) = bindings_to(queue, peer)
    assert binding.arguments == {"x-selector": "n > 1"}
    peer.done(EndSubscription(1, "e", "1", "", "news"))
    assert not peer.house.broker.vhosts["/"].queues


def test_a_binding_condition_survives_the_store() -> None:
    from gateway.broker.plain import read_plain, write_plain

    wanted = {"x-properties-filter": {"message-id": UUID(int=7), "subject": "s"}}
    assert read_plain(write_plain(wanted)) == wanted
