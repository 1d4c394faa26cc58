"""Dead letters: where they go, what they carry, and that they come to rest."""

from typing import Any

import pytest

from gateway.errors import Condition
from gateway.operations import Fetched, Outcome
from gateway.values import Seconds
from tests.broker.fakes import (
    House,
    bind,
    declare,
    exchange,
    fetch_all,
    limited,
    message,
    put,
    refused,
)


def fetched(house: House, queue: str = "dead") -> Fetched:
    found = house.channel()[0].fetch(queue, True)
    assert found is not None
    return found


def headers(house: House, queue: str = "dead") -> dict[str, Any]:
    return fetched(house, queue).message.properties.application or {}


def to_dead(house: House, **arguments: Any) -> Any:
    channel, _ = house.channel()
    declare(channel, "dead")
    given = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead", **arguments}
    limited(channel, **given)
    return channel


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen"])
def test_reasons(house: House, reason: str) -> None:
    channel = to_dead(house, max_length=1)
    properties: dict[str, Any] = {"ttl": 50} if reason == "expired" else {}
    put(channel, "a", **properties)
    if reason == "rejected":
        channel.settlements.settle(channel.fetch("q").delivery, False, Outcome.REJECT)
    elif reason == "expired":
        house.later(50)
    else:
        put(channel, "b")
    found = fetched(house).message
    assert (found.exchange, found.key, found.body) == ("", "dead", b"a")
    death = {
        "count": 1,
        "reason": reason,
        "queue": "q",
        "time": Seconds(house.broker.state.now // 1000),
        "exchange": "",
        "routing-keys": ["q"],
    }
    if reason == "expired":
        death["original-expiration"] = "50"
    given = found.properties.application
    assert given == {
        "x-death": [death],
        "x-first-death-reason": reason,
        "x-first-death-queue": "q",
        "x-first-death-exchange": "",
    }
    assert type(given["x-death"][0]["time"]) is Seconds
    assert found.properties.ttl is None
    assert found.essentials.ttl is None
    assert found.form_for(found.dialect)[0] != b""


def test_keeps_its_key_without_another(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, "dead")
    exchange(channel, "letters", "topic")
    bind(channel, "dead", "letters", "q")
    limited(channel, max_length=0, dead_letter_exchange="letters")
    channel.publish(message("a", "q", application={"mine": 1}))
    found = fetched(house).message
    assert (found.exchange, found.key) == ("letters", "q")
    assert (found.properties.application or {})["mine"] == 1


def test_no_such_exchange(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, max_length=0, dead_letter_exchange="none")
    put(channel, "a")
    assert house.broker.state.octets == 0


def test_deaths_are_counted_per_queue_and_reason(house: House) -> None:
    channel = to_dead(house)
    put(channel, "a")
    for _ in range(3):
        channel.settlements.settle(channel.fetch("q").delivery, False, Outcome.REJECT)
        found = channel.fetch("dead", True)
        again = message("a", "q", application=found.message.properties.application)
        channel.publish(again)
    found = channel.fetch("q", True)
    (death,) = found.message.properties.application["x-death"]
    assert death["count"] == 3


def test_latest_death_first(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, "dead")
    limited(channel, "two", dead_letter_exchange="", dead_letter_routing_key="dead", message_ttl=5)
    limited(channel, "one", dead_letter_exchange="", dead_letter_routing_key="two")
    put(channel, "a", key="one")
    found = channel.fetch("one")
    assert found is not None
    channel.settlements.settle(found.delivery, False, Outcome.REJECT)
    house.later(5)
    given = headers(house)
    assert [(d["queue"], d["reason"]) for d in given["x-death"]] == [
        ("two", "expired"),
        ("one", "rejected"),
    ]
    assert given["x-first-death-queue"] == "one"


def test_a_circle_ends(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, "a", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="b")
    limited(channel, "b", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="a")
    put(channel, "x", key="a")
    for _ in range(6):
        house.later(10)
    assert house.broker.snapshot().ready == 0
    assert house.broker.state.octets == 0


def test_a_circle_with_a_rejection_goes_on(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, "work", dead_letter_exchange="", dead_letter_routing_key="wait")
    limited(
        channel, "wait", message_ttl=10, dead_letter_exchange="", dead_letter_routing_key="work"
    )
    put(channel, "x", key="work")
    for _ in range(5):
        found = channel.fetch("work")
        assert found is not None
        channel.settlements.settle(found.delivery, False, Outcome.REJECT)
        house.later(10)
    counts = {d["queue"]: d["count"] for d in headers(house, "work")["x-death"]}
    assert counts == {"work": 5, "wait": 5}


def test_reject_publish_dlx(house: House) -> None:
    channel = to_dead(house, max_length=1, overflow="reject-publish-dlx")
    put(channel, "a", "b")
    assert fetch_all(channel) == ["a"]
    assert headers(house)["x-death"][0]["reason"] == "maxlen"


def test_copies_and_keys(house: House) -> None:
    channel = to_dead(house)
    declare(channel, "copy")
    channel.publish(message("a", "q", application={"CC": ["copy"]}))
    assert fetch_all(channel, "copy") == ["a"]
    channel.settlements.settle(channel.fetch("q").delivery, False, Outcome.REJECT)
    given = headers(house)
    assert given["x-death"][0]["routing-keys"] == ["q", "copy"]
    assert "CC" not in given
    assert fetch_all(channel, "copy") == []


def test_durable_letters_are_kept(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, "dead", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(channel, durable=True, arguments=arguments)
    put(channel, "a", durable=True)
    found = channel.fetch("q")
    assert found is not None
    channel.settlements.settle(found.delivery, False, Outcome.REJECT)
    later = house.restart()
    assert fetch_all(later.channel()[0], "q") == []
    assert headers(later)["x-first-death-queue"] == "q"


def test_purged_and_deleted_are_no_dead_letters(house: House) -> None:
    channel = to_dead(house)
    put(channel, "a")
    channel.fetch("q")
    house.client.vhost.remove_queue(house.client.vhost.queues["q"])
    channel.settlements.settle(1, False, Outcome.REJECT)
    assert fetch_all(channel, "dead") == []
    assert house.broker.state.octets == 0


def test_headers_that_cannot_be_read(house: House) -> None:
    """They cost the sender nothing but what they would have said."""
    channel = to_dead(house, max_length=1)
    bind(channel, "q", "amq.headers", arguments={"a": 1})
    broken = message("a", "q")
    broken.header = b'{"CC'
    broken.essentials = broken.essentials._replace(has_headers=True)
    channel.publish(broken)
    elsewhere = message("b", "", "amq.headers")
    elsewhere.header = b"{"
    channel.publish(elsewhere)
    put(channel, "c")
    assert fetched(house).message.body == b"a"
    assert fetch_all(channel) == ["c"]


@pytest.mark.parametrize("deaths", ["text", [], [1], [{"queue": "elsewhere"}]])
def test_deaths_of_the_sender(house: House, deaths: Any) -> None:
    """A sender that says it has died before has had its first death."""
    channel = to_dead(house, max_length=0)
    channel.publish(message("a", "q", application={"x-death": deaths}))
    given = headers(house)
    assert given["x-death"][0]["queue"] == "q"
    assert "x-first-death-queue" not in given


def test_expired_behind_taken_messages(house: House) -> None:
    channel = to_dead(house)
    put(channel, "slow")
    put(channel, "fast", ttl=10)
    house.later(20)
    assert fetch_all(channel, "dead") == []
    assert channel.fetch("q", True) is not None
    house.later(0)
    assert fetch_all(channel, "dead") == ["fast"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [({"CC": "q"}, '"CC",longstr'), ({"CC": ["q"], "BCC": 1}, '"BCC",long')],
)
def test_copies_must_be_arrays(house: House, given: dict[str, Any], reason: str) -> None:
    channel, _ = house.channel()
    text = f"invalid message: {{unacceptable_type_in_header,{reason}}}"
    with refused(Condition.PRECONDITION_FAILED, text):
        channel.publish(message("a", "q", application=given))
