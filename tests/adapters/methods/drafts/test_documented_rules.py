"""Rules of the drafts, one by one, on a real broker. Sections are those of 0-9a0."""

from typing import Any

import pytest

from gateway.adapters.methods.contents.methods import OutgoingMethod
from tests.adapters.methods.drafts.house import Guest, House, bodies, named

DRAFTS = ("0-9a0", "0-9a6")


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def first(house: House) -> Guest:
    return Guest(house, "0-9a0")


@pytest.fixture
def second(house: House) -> Guest:
    return Guest(house, "0-9a6")


def closed_for(heard: list[tuple[str, Any]], what: str, code: int) -> None:
    (record,) = named(heard, f"{what}.close")
    assert record.reply_code == code


def published(guest: Guest, topic: str, *texts: bytes) -> list[tuple[str, Any]]:
    w = guest.w
    return guest.says(
        *[OutgoingMethod(w.JmsPublish(0, 2, topic), guest.content(body=text)) for text in texts]
    )


# --- subscriptions --------------------------------------------------------------------------------


@pytest.mark.parametrize("selector", [b"n = 1", b"n ="])
def test_a_selector_is_ignored_on_a_subscription(first: Guest, selector: bytes) -> None:
    """§4.7.1."""
    w = first.w
    first.says(w.SubscriptionDefine(0, "s", "", "a.b", 1))
    consume = w.JmsConsume(0, 2, "", "s", auto_ack=True)
    consume.message_selector, consume.message_seltype = selector, 2
    assert named(first.says(consume), "jms.consume-ok")
    assert bodies(published(first, "a.b", b"x")) == [b"x"]


def test_a_topic_is_purged(first: Guest, house: House) -> None:
    """§4.5.5: "the server SHOULD purge subscriptions that are unambiguously made on this topic"."""
    w = first.w
    for name, selector in (("s", "a.b"), ("t", "a.b"), ("wild", "a.*"), ("other", "a.c")):
        first.says(w.SubscriptionDefine(0, name, "", selector, 1))
    published(first, "a.b", b"1", b"2")
    published(first, "a.c", b"3")
    (purged,) = named(first.says(w.DestinationPurge(0, 2, "a.b")), "destination.purge-ok")
    assert purged.message_count == 4
    depths = {name: queue.depth for name, queue in house.queues.items()}
    assert depths == {
        "subscription:s": 0, "subscription:t": 0, "subscription:wild": 3, "subscription:other": 1,
    }  # fmt: skip


def test_a_topic_is_cancelled_with_its_subscriptions(first: Guest, house: House) -> None:
    """§4.5.7: "when a topic is cancelled, all subscriptions on that topic are also cancelled"."""
    w = first.w
    for name, selector in (("s", "a.b"), ("wild", "a.#")):
        first.says(w.SubscriptionDefine(0, name, "", selector, 1))
    first.says(w.JmsConsume(0, 2, "", "s", auto_ack=False))
    published(first, "a.b", b"1")
    (done,) = named(first.says(w.DestinationCancel(0, 2, "a.b")), "destination.cancel-ok")
    assert done.message_count == 0, "what was delivered is not waiting"
    assert set(house.queues) == {"subscription:wild"}


def test_a_topic_with_subscriptions_is_not_empty(first: Guest, house: House) -> None:
    """§4.5.7 ifempty: "if the destination is not empty the server raises a channel exception"."""
    w = first.w
    first.says(w.SubscriptionDefine(0, "s", "", "a.b", 1))
    closed_for(first.says(w.DestinationCancel(0, 2, "a.b", True)), "channel", 507)
    assert set(house.queues) == {"subscription:s"}


def test_what_is_another_users_stays(first: Guest, house: House) -> None:
    from gateway.operations import DRAFT_LEVELS, Bind, DeclareQueue
    from gateway.sessions.subscriptions import CLIENT, USER

    channel = first.session.channels[1]
    name = "subscription:them:news"
    given = {USER: "other", CLIENT: "them"}
    channel.topology.declare_queue(
        DeclareQueue(1, None, name, durable=True, arguments=given, levels=DRAFT_LEVELS)
    )
    channel.topology.bind(Bind(1, None, name, "amq.topic", "a.b"))
    w = first.w
    assert named(first.says(w.DestinationCancel(0, 2, "a.b")), "destination.cancel-ok")
    assert set(house.queues) == {name}


@pytest.mark.parametrize("kind", ["queue", "subscription"])
def test_cancelling_a_missing_consumer_costs_the_connection(first: Guest, kind: str) -> None:
    """§4.5.7, §4.6.7."""
    w = first.w
    record = {"queue": w.DestinationCancel(0, 1, "q"), "subscription": w.SubscriptionCancel(0, "s")}
    closed_for(first.says(record[kind]), "connection", 404)


# --- streams --------------------------------------------------------------------------------------


def streams(guest: Guest, channel: int = 1) -> list[tuple[str, Any]]:
    consume: Any = {
        "0-9a0": lambda: guest.w.StreamConsume(0, 2, "", "s"),
        "0-9a6": lambda: guest.w.StreamConsume(0, "", "q"),
    }[guest.version]
    return guest.says(consume(), channel=channel)


@pytest.mark.parametrize("version", DRAFTS)
def test_a_stream_has_one_consumer(house: House, version: str) -> None:
    """§4.9.1: "the server MUST not allow more than one Stream consumer per subscription"; 0-9a6:
    "streamed data sent to a queue cannot be shared between multiple consumers"."""
    guest, other = Guest(house, version), Guest(house, version)
    w = guest.w
    define = w.SubscriptionDefine(0, "s", "", "a", 1) if version == "0-9a0" else w.QueueDeclare(
        0, "", "q"
    )  # fmt: skip
    guest.says(define)
    assert named(streams(guest), "stream.consume-ok")
    closed_for(streams(other), "channel", 403)
    guest.says(w.ChannelClose())
    other.says(w.ChannelCloseOk())
    other.says(w.ChannelOpen())
    assert named(streams(other), "stream.consume-ok"), "when the first has gone"


# --- flow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", DRAFTS)
def test_producers_are_told_to_stop(house: House, version: str) -> None:
    """§3.8.7: "SHOULD use the Channel.Flow method to slow or stop a producer when necessary"."""
    guest = Guest(house, version)
    house.broker.alarm("disk", True)
    guest.session.tell_blocked()
    (flow,) = named(guest.hears(), "channel.flow")
    assert flow.flow_pause
    heard = guest.says(guest.w.ChannelOpen(), channel=2)
    assert [name for name, _ in heard] == ["channel.open-ok", "channel.flow"]
    house.broker.alarm("disk", False)
    guest.session.tell_blocked()
    flows = named(guest.hears(), "channel.flow")
    assert [flow.flow_pause for flow in flows] == [False, False]
    assert not named(guest.says(guest.w.ChannelOpen(), channel=3), "channel.flow")


# --- exchanges and templates ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["x-nothing", "nothing"])
def test_an_unknown_class_of_exchange_costs_the_channel(second: Guest, kind: str) -> None:
    heard = second.says(second.w.ExchangeDeclare(0, "mine", kind))
    closed_for(heard, "channel", 503)
    assert not second.server.closing and 1 not in second.session.channels
    second.says(second.w.ChannelCloseOk())
    assert named(second.says(second.w.ChannelOpen()), "channel.open-ok")


@pytest.mark.parametrize("version", DRAFTS)
def test_queues_are_made_by_template(house: House, version: str) -> None:
    """0-9a6 "On-demand wiring": "queues created at runtime can be configured by reference to a
    pre-configured template"; 0-9a0 §4.5.1, which ignores the template of what is there."""
    house.broker.templates = {"small": {"x-max-length": 1}}
    guest = Guest(house, version)
    w = guest.w

    def declare(name: str, template: str) -> None:
        if version == "0-9a0":
            record = w.DestinationDefine(0, 1, name, template)
            assert named(guest.says(record), "destination.define-ok")
        else:
            assert named(guest.says(w.QueueDeclare(0, "", name, template)), "queue.declare-ok")

    declare("plain", "")
    declare("small", "small")
    declare("unknown", "large")
    declare("plain", "small")
    limits = {name: queue.limits.max_length for name, queue in house.queues.items()}
    assert limits == {"plain": None, "small": 1, "unknown": None}
    if version == "0-9a0":
        guest.says(w.SubscriptionDefine(0, "s", "small", "a", 1))
        assert house.queues["subscription:s"].limits.max_length == 1


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", DRAFTS)
def test_an_unknown_virtual_host_is_402(house: House, version: str) -> None:
    """RFC 011, as the drafts' own reply codes have it."""
    from gateway.errors import Condition
    from gateway.operations import BeginSession, Closed, Open

    guest = Guest(house, version, open_=False)
    guest.client.send(Open("open", "nowhere", "guest"))
    found: list[Any] = []
    receive = guest.client.receive

    def listen(data: bytes) -> list[Any]:
        found.extend(receive(data))
        return []

    guest.client.receive = listen
    guest.carry()
    if version == "0-9a6":
        guest.client.send(BeginSession(1, "begin"))
        guest.carry()
    (closed,) = [one for one in found if isinstance(one, Closed)]
    assert closed.condition is Condition.INVALID_PATH
