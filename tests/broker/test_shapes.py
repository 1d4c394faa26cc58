"""Arguments that shape a queue: what becomes of it when nobody uses it or it is full, and what its
consumers get."""

from gateway.errors import Condition
from tests.broker.fakes import House, consume, declare, limited, put, refused


def test_an_auto_delete_queue_stays_for_a_while(house: House) -> None:
    channel, heard = house.channel()
    declare(channel, auto_delete=True, arguments={"x-auto-delete-timeout": 1000})
    house.later(5000)
    consume(channel)
    channel.unsubscribe("c")
    put(channel, "a")
    house.later(900)
    consume(channel)
    assert heard.bodies() == ["a"]
    house.later(5000)
    channel.unsubscribe("c")
    house.later(900)
    assert "q" in channel.vhost.queues
    house.later(200)
    assert "q" not in channel.vhost.queues


def test_a_queue_that_is_too_long_is_deleted(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, max_length=2, overflow="self-destruct")
    consume(channel, credit=0)
    put(channel, *"ab")
    assert heard.cancels == []
    put(channel, *"cd")
    assert heard.cancels == ["c"] and "q" not in channel.vhost.queues
    assert house.broker.state.octets == 0


def test_a_queue_for_browsing(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, browse_only=True)
    put(channel, *"ab")
    consume(channel, no_ack=True)
    put(channel, "c")
    assert heard.bodies() == list("abc")
    assert channel.vhost.queues["q"].depth == 3


def test_a_queue_without_what_its_consumer_publishes(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, no_local=True)
    consume(channel)
    put(channel, "mine")
    other, _ = house.channel(house.another())
    put(other, "another's")
    assert heard.bodies() == ["another's"]


def test_arguments_have_types(house: House) -> None:
    channel, _ = house.channel()
    for name in ("auto_delete_timeout", "browse_only", "no_local", "group_key", "group_sticky"):
        with refused(Condition.PRECONDITION_FAILED, "x-" + name.replace("_", "-")):
            declare(channel, arguments={"x-" + name.replace("_", "-"): 1.5})
