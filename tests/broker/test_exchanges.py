"""Exchanges through the channel: declaring, binding, routing, deleting."""

import pytest

from gateway.errors import Condition, Lost
from gateway.values import Short
from tests.broker.fakes import (
    House,
    bind,
    declare,
    delete_exchange,
    delete_queue,
    exchange,
    fetch_all,
    message,
    put,
    refused,
    unbind,
)


def test_default_exchange_leads_to_every_queue(house: House) -> None:
    channel, _ = house.channel()
    put(channel, "lost", key="q")
    declare(channel, "q")
    put(channel, "a", key="q")
    assert fetch_all(channel) == ["a"]
    delete_queue(channel, "q")
    put(channel, "b", key="q")
    declare(channel, "q")
    assert fetch_all(channel) == []
    assert house.broker.snapshot().totals.unrouted == 2


@pytest.mark.parametrize("type", ["direct", "fanout", "topic"])
def test_types(house: House, type: str) -> None:
    channel, _ = house.channel()
    for name in ("one", "two"):
        declare(channel, name)
    exchange(channel, "x", type)
    bind(channel, "one", "x", "a.b")
    bind(channel, "two", "x", "a.*")
    for key in ("a.b", "a.c", "z"):
        channel.publish(message(key, key, "x"))
    one, two = fetch_all(channel, "one"), fetch_all(channel, "two")
    expected = {
        "direct": (["a.b"], []),
        "fanout": (["a.b", "a.c", "z"], ["a.b", "a.c", "z"]),
        "topic": (["a.b"], ["a.b", "a.c"]),
    }
    assert (one, two) == expected[type]


@pytest.mark.parametrize(
    ("word", "headers", "matches"),
    [
        ("all", {"a": 1, "b": 2}, True),
        ("all", {"a": 1}, False),
        ("any", {"a": 1}, True),
        ("any", {"c": 1}, False),
        ("all-with-x", {"a": 1, "b": 2}, False),
        ("all-with-x", {"a": 1, "b": 2, "x-c": 3}, True),
        ("any-with-x", {"x-c": 3}, True),
        ("any", {"x-c": 3}, False),
        ("any", {"a": True}, False),
    ],
)
def test_headers(house: House, word: str, headers: dict[str, object], matches: bool) -> None:
    channel, _ = house.channel()
    declare(channel)
    wanted = {"x-match": word, "a": 1, "b": 2, "x-c": 3}
    bind(channel, "q", "amq.headers", arguments=wanted)
    channel.publish(message("m", "", "amq.headers", application=headers))
    assert fetch_all(channel) == (["m"] if matches else [])


def test_headers_presence_only_and_bad_word(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    bind(channel, "q", "amq.match", arguments={"a": None})
    channel.publish(message("m", "", "amq.match", application={"a": "whatever"}))
    assert fetch_all(channel) == ["m"]
    with refused(Condition.PRECONDITION_FAILED, "x-match"):
        bind(channel, "q", "amq.match", arguments={"x-match": "most"})


@pytest.mark.parametrize(
    ("wanted", "given", "matches"),
    [
        (1, Short(1), True),
        (1, True, False),
        (1, "1", False),
        ("1", b"1", True),
        (b"\xff", "\udcff", True),
        ({}, [], True),
        ([1], [1], True),
        ([1], [Short(1)], False),
        ([1], [1, 1], False),
        (["1"], [b"1"], False),
        ({"n": [1]}, {"n": [1]}, True),
        ({"n": 1}, {"n": True}, False),
        ({"n": {}}, {"n": []}, False),
        ({"n": 1}, {"m": 1}, False),
    ],
)
def test_header_values(house: House, wanted: object, given: object, matches: bool) -> None:
    """Types matter in what a value holds, not for the value itself, as in RabbitMQ."""
    channel, _ = house.channel()
    declare(channel)
    bind(channel, "q", "amq.headers", arguments={"a": wanted})
    channel.publish(message("x", "", "amq.headers", application={"a": given}))
    assert fetch_all(channel) == (["x"] if matches else [])


def test_two_ways_to_a_queue_are_one_message(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    bind(channel, "q", "amq.topic", "#")
    bind(channel, "q", "amq.topic", "a.*")
    channel.publish(message("m", "a.b", "amq.topic"))
    assert fetch_all(channel) == ["m"]
    unbind(channel, "q", "amq.topic", "#")
    channel.publish(message("m", "a.b", "amq.topic"))
    channel.publish(message("m", "z", "amq.topic"))
    assert fetch_all(channel) == ["m"]
    unbind(channel, "q", "amq.topic", "nothing")
    unbind(channel, "none", "amq.topic")
    unbind(channel, "q", "none")
    unbind(channel, "none", "amq.topic", to_exchange=True)


def test_exchanges_in_a_circle(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    for name in ("one", "two"):
        exchange(channel, name, "fanout")
    bind(channel, "one", "two", to_exchange=True)
    bind(channel, "two", "one", to_exchange=True)
    bind(channel, "q", "one")
    bind(channel, "q", "two")
    channel.publish(message("m", "", "one"))
    assert fetch_all(channel) == ["m"]
    delete_exchange(channel, "two")
    channel.publish(message("n", "", "one"))
    assert fetch_all(channel) == ["n"]
    with refused(Condition.NOT_FOUND, "no exchange 'two' in vhost '/'"):
        channel.publish(message("n", "", "two"))


def test_cached_routes_follow_later_bindings(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    exchange(channel, "front", "topic")
    exchange(channel, "back", "direct")
    bind(channel, "back", "front", "#", to_exchange=True)
    channel.publish(message("lost", "k", "front"))
    bind(channel, "q", "back", "k")
    channel.publish(message("m", "k", "front"))
    unbind(channel, "q", "back", "k")
    channel.publish(message("lost", "k", "front"))
    assert fetch_all(channel) == ["m"]


def test_alternate_exchange(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, "q")
    declare(channel, "rest")
    exchange(channel, "x", "direct", arguments={"alternate-exchange": "keep_queue"})
    channel.publish(message("too early", "other", "x"))
    exchange(channel, "keep_queue", "fanout")
    bind(channel, "rest", "keep_queue")
    bind(channel, "q", "x", "k")
    channel.publish(message("a", "k", "x"))
    channel.publish(message("b", "other", "x"))
    assert (fetch_all(channel), fetch_all(channel, "rest")) == (["a"], ["b"])


def test_auto_delete_goes_with_the_last_binding(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    exchange(channel, "x", auto_delete=True)
    assert "x" in house.client.vhost.exchanges
    bind(channel, "q", "x", "a")
    bind(channel, "q", "x", "b")
    unbind(channel, "q", "x", "a")
    assert "x" in house.client.vhost.exchanges
    delete_queue(channel, "q")
    assert "x" not in house.client.vhost.exchanges


def test_declaring_again(house: House) -> None:
    channel, _ = house.channel()
    exchange(channel, "x", durable=True)
    exchange(channel, "x", durable=True)
    exchange(channel, "x", "fanout", passive=True)
    exchange(channel, "amq.topic", "topic", durable=True)
    with refused(
        Condition.PRECONDITION_FAILED,
        "inequivalent arg 'durable' for exchange 'x' in vhost '/': "
        "received 'false' but current is 'true'",
    ):
        exchange(channel, "x")
    with refused(Condition.PRECONDITION_FAILED, "inequivalent arg 'type'"):
        exchange(channel, "x", "topic", durable=True)
    with refused(Condition.PRECONDITION_FAILED, "current is none"):
        exchange(channel, "x", durable=True, arguments={"alternate-exchange": "y"})


def test_refusals(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    with refused(Condition.NOT_FOUND, "no exchange 'x' in vhost '/'"):
        exchange(channel, "x", passive=True)
    with refused(Condition.ACCESS_REFUSED, "reserved prefix 'amq.*'"):
        exchange(channel, "amq.mine")
    with refused(Condition.COMMAND_INVALID, "unknown exchange type 'odd'", Lost.CONNECTION):
        exchange(channel, "x", "odd")
    with refused(Condition.COMMAND_INVALID, "'topci' (did you mean topic?)", Lost.CONNECTION):
        exchange(channel, "x", "topci")
    with refused(Condition.ACCESS_REFUSED):
        delete_exchange(channel, "amq.direct")
    with refused(Condition.ACCESS_REFUSED, "default exchange"):
        delete_exchange(channel, "")
    with refused(Condition.ACCESS_REFUSED, "default exchange"):
        bind(channel, "q", "", "k")
    with refused(Condition.NOT_FOUND, "no exchange 'x'"):
        bind(channel, "q", "x")
    with refused(Condition.NOT_FOUND, "no queue 'none'"):
        bind(channel, "none", "amq.direct")
    exchange(channel, "inner", internal=True)
    with refused(Condition.ACCESS_REFUSED, "internal exchange 'inner'"):
        channel.publish(message("m", "", "inner"))
    delete_exchange(channel, "never was")


def test_delete_if_unused(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    exchange(channel, "x")
    bind(channel, "q", "x", "k")
    with refused(Condition.PRECONDITION_FAILED, "exchange 'x' in vhost '/' in use"):
        delete_exchange(channel, "x", if_unused=True)
    unbind(channel, "q", "x", "k")
    delete_exchange(channel, "x", if_unused=True)
    vhost = house.client.vhost
    assert not vhost.bindings_to(vhost.queues["q"])


def test_an_exchange_declared_anew_is_asked_for_anew(house: House) -> None:
    channel, _ = house.channel()
    exchange(channel, "x")
    channel.publish(message("m", "", "x"))
    delete_exchange(channel, "x")
    exchange(channel, "x", internal=True)
    with refused(Condition.ACCESS_REFUSED, "internal"):
        channel.publish(message("m", "", "x"))


def test_copies(house: House) -> None:
    channel, _ = house.channel()
    for name in ("q", "cc", "bcc"):
        declare(channel, name)
    headers = {"CC": ["cc", "q"], "BCC": ["bcc"], "other": 1}
    channel.publish(message("m", "q", application=headers))
    for name in ("q", "cc", "bcc"):
        fetched = channel.fetch(name, True)
        assert fetched is not None
        assert fetched.message.properties.application == {"CC": ["cc", "q"], "other": 1}
        assert channel.fetch(name, True) is None
    with refused(Condition.PRECONDITION_FAILED, "CC"):
        channel.publish(message("m", "q", application={"CC": "cc"}))


def test_mandatory(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    channel.publish(message("m", "nowhere"), mandatory=True)
    channel.publish(message("m", "q"), mandatory=True)
    ((returned, condition, _),) = heard.returns
    assert (returned.key, condition) == ("nowhere", Condition.NO_ROUTE)


def test_route_cache_is_bounded() -> None:
    house = House(max_route_cache=3)
    channel, _ = house.channel()
    declare(channel)
    bind(channel, "q", "amq.topic", "#")
    for number in range(20):
        channel.publish(message("m", f"k{number}", "amq.topic"))
    assert len(house.client.vhost.exchanges["amq.topic"].routes) <= 3
    assert len(fetch_all(channel)) == 20


def test_binding_names_the_last_queue_declared(house: House) -> None:
    channel, _ = house.channel()
    with refused(Condition.NOT_FOUND, "no previously declared queue"):
        bind(channel, "", "amq.direct")
    name = declare(channel, "").name
    bind(channel, "", "amq.direct")
    channel.publish(message("m", name, "amq.direct"))
    assert fetch_all(channel, "") == ["m"]
