"""Queues: declaring, limits, expiry, priorities, deleting."""

import pytest

from gateway import values
from gateway.errors import Condition, Refusal
from gateway.operations import Outcome
from tests.broker.fakes import (
    House,
    consume,
    declare,
    delete_queue,
    fetch_all,
    limited,
    message,
    purge,
    put,
    refused,
)


def test_declare_reports_messages_and_consumers(house: House) -> None:
    channel, _ = house.channel()
    assert declare(channel).messages == 0
    put(channel, "a", "b")
    other, _ = house.channel()
    state = declare(other, passive=True)
    assert (state.name, state.messages, state.consumers) == ("q", 2, 0)


def test_server_named(house: House) -> None:
    channel, _ = house.channel()
    names = {declare(channel, "").name for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("amq.gen-") and len(name) == 30 for name in names)


def test_declare_refusals(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, arguments={"x-max-length": 5})
    declare(channel, arguments={"x-max-length": values.Short(5), "unknown": 1})
    with refused(Condition.NOT_FOUND, "no queue 'x' in vhost '/'"):
        declare(channel, "x", passive=True)
    with refused(Condition.ACCESS_REFUSED, "queue name 'amq.x' contains reserved prefix"):
        declare(channel, "amq.x")
    with refused(
        Condition.PRECONDITION_FAILED,
        "inequivalent arg 'durable' for queue 'q' in vhost '/': "
        "received 'true' but current is 'false'",
    ):
        declare(channel, durable=True, arguments={"x-max-length": 5})
    with refused(
        Condition.PRECONDITION_FAILED,
        "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current is "
        "the value '5' of type 'long'",
    ):
        declare(channel)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", "1", "expected integer, got longstr"),
        ("x-message-ttl", True, "expected integer, got bool"),
        ("x-message-ttl", 2**32, "{value_too_large,4294967296}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-overflow", "spill", "invalid_overflow"),
        ("x-dead-letter-exchange", 1, "{unacceptable_type,long}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-single-active-consumer", 1, "{unacceptable_type,long}"),
        ("x-queue-type", "stream", "not supported"),
        ("x-queue-mode", "busy", "unsupported queue mode 'busy'"),
    ],
)
def test_bad_arguments(house: House, name: str, value: object, reason: str) -> None:
    channel, _ = house.channel()
    with pytest.raises(Refusal) as caught:
        declare(channel, arguments={name: value})
    assert caught.value.condition is Condition.PRECONDITION_FAILED
    assert f"invalid arg '{name}' for queue 'q' in vhost '/'" in caught.value.text
    assert reason in caught.value.text
    declare(channel, arguments={"x-queue-type": "classic", "x-queue-mode": "lazy"})


def test_a_quorum_queue_is_a_durable_one(house: House) -> None:
    channel, _ = house.channel()
    quorum = {"x-queue-type": "quorum"}
    with pytest.raises(Refusal, match="invalid property 'non-durable' for queue 'q'"):
        declare(channel, arguments=quorum)
    with pytest.raises(Refusal, match="invalid property 'exclusive' for queue 'q'"):
        declare(channel, durable=True, exclusive=True, arguments=quorum)
    declare(channel, durable=True, arguments=quorum)


def test_delivery_limit(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, "dead")
    arguments = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    declare(channel, durable=True, arguments=arguments)
    channel.publish(message("poison", "q"))
    for _ in range(3):
        fetched = channel.fetch("q")
        assert fetched is not None
        channel.settlements.settle(fetched.delivery, False, Outcome.RELEASE)
    assert channel.fetch("q") is None
    dead = channel.fetch("dead")
    assert dead is not None
    assert (dead.message.properties.application or {})["x-death"][0]["reason"] == "delivery_limit"


def test_exclusive(house: House) -> None:
    mine, _ = house.channel()
    declare(mine, exclusive=True)
    other = house.another()
    theirs, _ = house.channel(other)
    locked = "cannot obtain exclusive access to locked queue 'q' in vhost '/'"
    for attempt in (
        lambda: declare(theirs),
        lambda: declare(theirs, passive=True),
        lambda: theirs.fetch("q"),
        lambda: theirs.subscribe("q"),
        lambda: delete_queue(theirs, "q"),
        lambda: purge(theirs, "q"),
    ):
        with refused(Condition.RESOURCE_LOCKED, locked):
            attempt()
    put(theirs, "publishing is not locked")
    assert fetch_all(mine) == ["publishing is not locked"]
    house.client.close()
    assert "q" not in other.vhost.queues
    declare(theirs)


def test_auto_delete(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, auto_delete=True)
    put(channel, "a")
    consume(channel, tag="one")
    consume(channel, tag="two")
    channel.unsubscribe("one")
    assert "q" in house.client.vhost.queues
    channel.unsubscribe("two")
    assert "q" not in house.client.vhost.queues
    assert heard.cancels == []
    channel.settlements.settle(1, False, Outcome.ACCEPT)


def test_delete(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel)
    with refused(Condition.PRECONDITION_FAILED, "queue 'q' in vhost '/' in use"):
        delete_queue(channel, "q", if_unused=True)
    put(channel, "held")
    channel.prefetch(1, 0, True)
    put(channel, "ready")
    with refused(Condition.PRECONDITION_FAILED, "queue 'q' in vhost '/' not empty"):
        delete_queue(channel, "q", if_empty=True)
    assert delete_queue(channel, "q") == 1
    assert heard.cancels == ["c"]
    assert delete_queue(channel, "q") == 0
    channel.settlements.settle(1, False, Outcome.RELEASE)
    assert house.broker.state.octets == 0
    assert channel.window.held == 0


def test_purge_leaves_unsettled_messages(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, durable=True)
    put(channel, "a", "b", "c", durable=True)
    channel.fetch("q")
    assert purge(channel, "q") == 2
    assert house.restart().channel()[0].fetch("q") is not None
    channel.settlements.recover(True)
    assert fetch_all(channel) == ["a"]
    assert house.broker.state.octets == 0


def test_message_and_queue_ttl(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, message_ttl=1000)
    put(channel, "short", ttl=100)
    put(channel, "long", ttl=5000)
    put(channel, "plain")
    assert house.broker.state.due() == house.broker.state.now + 100
    house.later(100)
    assert fetch_all(channel) == ["long", "plain"]
    put(channel, "long", ttl=5000)
    house.later(999)
    assert house.client.vhost.queues["q"].depth == 1
    house.later(1)
    assert house.client.vhost.queues["q"].depth == 0
    assert house.broker.state.due() is None


def test_expired_is_not_delivered_even_without_a_tick(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    put(channel, "old", ttl=10)
    put(channel, "new")
    house.broker.state.now += 10
    consume(channel)
    assert heard.bodies() == ["new"]


def test_ttl_zero_is_now_or_never(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, message_ttl=0)
    put(channel, "nobody")
    consume(channel, no_ack=True)
    put(channel, "somebody")
    assert heard.bodies() == ["somebody"]


def test_expiry_behind_a_lasting_head(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    put(channel, "lasting")
    put(channel, "brief", ttl=10)
    house.later(20)
    assert fetch_all(channel) == ["lasting"]


def test_queue_expires_when_unused(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, expires=100)
    house.later(99)
    limited(channel, expires=100)
    house.later(99)
    channel.fetch("q")
    house.later(99)
    consume(channel)
    house.later(500)
    assert "q" in house.client.vhost.queues
    channel.unsubscribe("c")
    house.later(99)
    assert "q" in house.client.vhost.queues
    house.later(1)
    assert "q" not in house.client.vhost.queues


def test_max_length_drops_the_head(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, max_length=2)
    put(channel, "a", "b", "c")
    assert fetch_all(channel) == ["b", "c"]
    limited(channel, "octets", max_length_bytes=5)
    put(channel, "12", "34", "567", "toolong", key="octets")
    assert fetch_all(channel, "octets") == []
    put(channel, "12", "34", "5", key="octets")
    assert fetch_all(channel, "octets") == ["12", "34", "5"]


def test_reject_publish(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, max_length=1, overflow="reject-publish")
    channel.publish_path.select_confirms()
    put(channel, "a", "b")
    house.commit()
    assert heard.confirms == [(1, False, True), (2, False, False)]
    assert fetch_all(channel) == ["a"]
    put(channel, "c")
    house.commit()
    assert heard.confirms[2:] == [(3, False, True)]


def test_unsettled_do_not_count_for_length(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, max_length=1)
    consume(channel)
    put(channel, "a", "b")
    channel.settlements.settle(0, True, Outcome.RELEASE)
    assert heard.bodies() == ["a", "b", "b"]


def test_priorities(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, max_priority=5)
    for body, priority in (("a1", 1), ("b9", 9), ("c0", None), ("d5", 5), ("e1", 1)):
        channel.publish(message(body, "q", priority=priority))
    assert house.client.vhost.queues["q"].depth == 5
    first = channel.fetch("q")
    assert first is not None
    assert first.message.body == b"b9"
    channel.settlements.settle(first.delivery, False, Outcome.RELEASE)
    assert fetch_all(channel) == ["b9", "d5", "a1", "e1", "c0"]


def test_limits_of_the_broker() -> None:
    house = House(max_queues=1, max_exchanges=7, max_bindings=1, max_message=3)
    channel, _ = house.channel()
    declare(channel)
    with refused(Condition.PRECONDITION_FAILED, "more than 1 queues"):
        declare(channel, "more")
    with refused(Condition.PRECONDITION_FAILED, "message size 4 is larger"):
        put(channel, "long")
    put(channel, "abc")
    assert fetch_all(channel) == ["abc"]


def test_counters(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    put(channel, "a", "b")
    consume(channel)
    put(channel, "c")
    channel.settlements.settle(1, False, Outcome.ACCEPT)
    channel.settlements.settle(2, False, Outcome.RELEASE)
    (queue,) = list(house.broker.each_queue())
    assert (queue.published, queue.delivered, queue.acked, queue.redelivered) == (3, 4, 1, 1)
    assert (queue.ready, queue.unsettled, queue.consumers) == (0, 2, 1)
    (consumer,) = list(house.broker.each_consumer())
    assert (consumer.tag, consumer.held) == ("c", 2)
    delete_queue(channel, "q")
    assert house.broker.snapshot().totals.published == 3
    assert house.broker.snapshot().queues == 0
