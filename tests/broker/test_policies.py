"""Policies: which one is in force, what it changes, and that declarations do not notice."""

from pathlib import Path
from typing import Any

import pytest

import gateway.adapters.registry  # noqa: F401  (the forms of messages)
from gateway.broker.broker import Broker
from gateway.broker.policies import (
    KINDS,
    MOST_POLICIES,
    OPERATOR_POLICY,
    POLICY,
    PORTION,
    make_policy,
)
from gateway.broker.policy_patterns import MOST_WAYS, ways_of
from gateway.broker.queues import Queue
from gateway.errors import Condition, Refusal
from gateway.operations import DeclareQueue, Outcome
from gateway.store import SqliteStore
from tests.broker.fakes import (
    House,
    bind,
    consume,
    declare,
    exchange,
    fetch_all,
    limited,
    message,
    put,
    refused,
)


def set_policy(
    house: House, name: str = "p", pattern: str = "^q", kind: str = POLICY, **given: Any
) -> None:
    options = {key: given.pop(key) for key in ("priority", "apply_to") if key in given}
    definition = {key.replace("_", "-"): value for key, value in given.items()}
    operator = kind == OPERATOR_POLICY
    policy = make_policy(name, pattern, definition, operator=operator, **options)
    house.client.vhost.policies.put(kind, policy)


def remove_policy(house: House, name: str = "p", kind: str = POLICY) -> bool:
    return house.client.vhost.policies.remove(kind, name)


def queue(house: House, name: str = "q") -> Queue:
    return house.client.vhost.queues[name]


def test_length_while_the_queue_is_in_use(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    declare(channel, "other")
    put(channel, "a", "b", "c")
    set_policy(house, max_length=2)
    assert queue(house).depth == 2
    put(channel, "d")
    assert fetch_all(channel) == ["c", "d"]
    assert queue(house).policy.policy == "p"
    assert queue(house, "other").policy.policy == ""
    set_policy(house, max_length=1)
    put(channel, "e", "f")
    assert fetch_all(channel) == ["f"]
    assert remove_policy(house)
    assert not remove_policy(house)
    put(channel, "g", "h")
    assert fetch_all(channel) == ["g", "h"]


def test_declarations_do_not_notice(house: House) -> None:
    channel, _ = house.channel()
    set_policy(house, max_length=1, message_ttl=1000, dead_letter_exchange="")
    limited(channel)
    assert (queue(house).limits.max_length, queue(house).ttl) == (1, 1000)
    assert queue(house).arguments == {}
    limited(channel)
    with refused(Condition.PRECONDITION_FAILED, "inequivalent arg 'x-max-length'"):
        limited(channel, max_length=1)


@pytest.mark.parametrize(
    ("arguments", "definition", "limit", "effective"),
    [
        ({"max_length": 5}, {"max_length": 7}, "max_length", 5),
        ({"max_length": 7}, {"max_length": 5}, "max_length", 5),
        ({"message_ttl": 7}, {"message_ttl": 5}, "ttl", 5),
        ({"expires": 7000}, {"expires": 9000}, "expires", 7000),
        ({"max_length_bytes": 7}, {"max_length": 5}, "max_octets", 7),
        ({"dead_letter_exchange": "a"}, {"dead_letter_exchange": "b"},
         "dead_letter_exchange", "a"),
        ({}, {"dead_letter_exchange": "b"}, "dead_letter_exchange", "b"),
        ({"overflow": "drop-head"}, {"overflow": "reject-publish"}, "overflow", "drop-head"),
        ({}, {"overflow": "reject-publish"}, "overflow", "reject-publish"),
        ({}, {"delivery_limit": 3}, "delivery_limit", None),
    ],
)  # fmt: skip
def test_arguments_and_policies(
    house: House, arguments: dict[str, Any], definition: dict[str, Any], limit: str, effective: Any
) -> None:
    channel, _ = house.channel()
    limited(channel, **arguments)
    set_policy(house, **definition)
    assert getattr(queue(house).limits, limit) == effective
    limited(channel, "q2", **arguments)
    assert getattr(queue(house, "q2").limits, limit) == effective


def test_the_smaller_of_policy_and_operator_policy(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    set_policy(house, max_length=5, message_ttl=10, dead_letter_exchange="dlx")
    set_policy(house, "o", kind=OPERATOR_POLICY, max_length=3, message_ttl=20, expires=9)
    applied = queue(house).policy
    assert (applied.policy, applied.operator) == ("p", "o")
    assert applied.definition == {
        "max-length": 3, "message-ttl": 10, "dead-letter-exchange": "dlx", "expires": 9,
    }  # fmt: skip
    remove_policy(house)
    assert (queue(house).policy.policy, queue(house).limits.max_length) == ("", 3)
    remove_policy(house, "o", OPERATOR_POLICY)
    assert queue(house).limits.max_length is None


def test_one_policy_is_in_force(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    set_policy(house, "low", ".*", max_length=1, priority=1)
    set_policy(house, "high", "q$", message_ttl=5, priority=2)
    assert queue(house).policy.definition == {"message-ttl": 5}
    set_policy(house, "exchanges", "", apply_to="exchanges", alternate_exchange="x", priority=9)
    assert queue(house).policy.policy == "high"
    remove_policy(house, "high")
    assert queue(house).policy.policy == "low"


@pytest.mark.parametrize(
    ("apply_to", "classic", "quorum"),
    [("all", 1, 1), ("queues", 1, 1), ("classic_queues", 1, None), ("quorum_queues", None, 1),
     ("streams", None, None), ("exchanges", None, None)],
)  # fmt: skip
def test_kinds_of_queues(
    house: House, apply_to: str, classic: int | None, quorum: int | None
) -> None:
    channel, _ = house.channel()
    set_policy(house, apply_to=apply_to, max_length=1)
    declare(channel)
    declare(channel, "qq", durable=True, arguments={"x-queue-type": "quorum"})
    assert queue(house).limits.max_length == classic
    assert queue(house, "qq").limits.max_length == quorum


def test_delivery_limit_of_a_quorum_queue(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, durable=True, arguments={"x-queue-type": "quorum"})
    declare(channel, "dead")
    set_policy(house, delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key="dead")
    put(channel, "poison")
    for _ in range(2):
        found = channel.fetch("q")
        assert found is not None
        channel.settlements.settle(found.delivery, False, Outcome.RELEASE)
    assert fetch_all(channel, "dead") == ["poison"]


def test_dead_letters(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    declare(channel, "dead")
    set_policy(house, "^q$", message_ttl=50, dead_letter_exchange="",
               dead_letter_routing_key="dead")  # fmt: skip
    put(channel, "a")
    house.later(50)
    assert fetch_all(channel, "dead") == ["a"]


def test_expiry_of_the_queue(house: House) -> None:
    channel, _ = house.channel()
    declare(channel)
    set_policy(house, expires=100)
    house.later(99)
    assert "q" in house.client.vhost.queues
    house.later(1)
    assert "q" not in house.client.vhost.queues


def test_refusing_and_again_not(house: House) -> None:
    """A consumer that settles at once is served past the queue only while that never refuses."""
    channel, heard = house.channel()
    channel.publish_path.select_confirms()
    declare(channel)
    consume(channel, no_ack=True)
    set_policy(house, max_length=0, overflow="reject-publish")
    put(channel, "refused")
    house.commit()
    assert heard.bodies() == [] and heard.confirms == [(1, False, False)]
    remove_policy(house)
    put(channel, "taken")
    house.commit()
    assert heard.bodies() == ["taken"]


def test_alternate_exchange(house: House) -> None:
    channel, _ = house.channel()
    exchange(channel, "main")
    exchange(channel, "spare", "fanout")
    declare(channel)
    bind(channel, "q", "spare")

    def publish(body: str) -> None:
        channel.publish(message(body, "nowhere", "main"))

    publish("lost")
    set_policy(house, pattern="^main$", alternate_exchange="spare")
    publish("kept")
    assert fetch_all(channel) == ["kept"]
    remove_policy(house)
    publish("lost again")
    assert fetch_all(channel) == []
    assert house.client.vhost.routers == 0
    exchange(channel, "main2", arguments={"alternate-exchange": "own"})
    set_policy(house, pattern="^main", apply_to="exchanges", alternate_exchange="spare")
    assert house.client.vhost.exchanges["main2"].alternate == "own"
    assert house.client.vhost.exchanges["main"].alternate == "spare"
    set_policy(house, pattern=".*", alternate_exchange="spare")
    assert house.client.vhost.exchanges[""].alternate is None
    assert house.client.vhost.exchanges["amq.topic"].alternate == "spare"


def test_after_a_restart(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, durable=True)
    exchange(channel, "main", durable=True)
    set_policy(house, max_length=2, overflow="reject-publish", expires=1000)
    set_policy(house, "a", "^(main|amq.topic)$", alternate_exchange="amq.fanout")
    set_policy(house, "o", kind=OPERATOR_POLICY, max_length=1)
    set_policy(house, "gone", message_ttl=1)
    remove_policy(house, "gone")
    house.commit()
    again = house.restart()
    found = queue(again)
    assert (found.limits.max_length, found.refuses_when_full) == (1, True)
    assert not found.dispatcher.direct
    assert found.policy.operator == "o"
    for name in ("main", "amq.topic"):
        assert again.client.vhost.exchanges[name].alternate == "amq.fanout"
    assert again.client.vhost.routers == 2
    again.later(1000)
    assert "q" not in again.client.vhost.queues


def test_dead_letters_of_a_deleted_queue_after_a_restart(house: House) -> None:
    channel, _ = house.channel()
    declare(channel, "dead", durable=True)
    set_policy(house, pattern="^q$", dead_letter_exchange="", dead_letter_routing_key="dead")
    declare(channel, durable=True, arguments={"x-dead-letter-on-delete": True})
    put(channel, "held", durable=True)
    assert channel.fetch("q") is not None
    house.client.vhost.remove_queue(queue(house))
    house.commit()
    again = house.restart()
    again.later(10)
    assert fetch_all(again.channel()[0], "dead") == ["held"]


def test_deleted_with_the_virtual_host(house: House) -> None:
    broker = house.broker
    broker.create_vhost("v").policies.put(POLICY, make_policy("p", "", {"max-length": 1}))
    broker.delete_vhost("v")
    assert not list(house.store.records(*KINDS))


def test_many_queues_in_portions(house: House) -> None:
    channel, _ = house.channel()
    count = 2 * PORTION + 10
    for number in range(count):
        declare(channel, f"q{number}")
    set_policy(house, max_length=1)
    done = sum(one.limits.max_length == 1 for one in house.client.vhost.queues.values())
    assert 0 < done <= PORTION
    steps = 0
    while house.broker.state.long_operations.waiting:
        house.broker.state.long_operations.work()
        steps += 1
    assert steps >= 2
    assert all(one.limits.max_length == 1 for one in house.client.vhost.queues.values())


def test_private_queues_are_left_alone(house: House) -> None:
    channel, _ = house.channel()
    set_policy(house, pattern=".*", max_length=1)
    house.client.vhost.make_queue(
        "amq.events-1", DeclareQueue(1, None, "amq.events-1"), house.client
    )
    assert queue(house, "amq.events-1").limits.max_length is None


@pytest.mark.parametrize(
    "given",
    [
        {"max_length": -1}, {"max_length": True}, {"max_length": "1"}, {"message_ttl": 2**32},
        {"expires": 0}, {"overflow": "explode"}, {"overflow": "self-destruct"},
        {"dead_letter_exchange": 1}, {"max_priority": 5}, {"no_such_key": 1},
        {"alternate_exchange": "x" * 256}, {"max_length": 1, "apply_to": "everything"},
        {"max_length": 1, "priority": "1"}, {"max_length": 1, "priority": True},
        {"max_length": 1, "pattern": "("}, {}, {"max_length": 1, "name": ""},
        {"kind": OPERATOR_POLICY, "dead_letter_exchange": "x"},
    ],
)  # fmt: skip
def test_refused(house: House, given: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        set_policy(house, **given)
    assert not house.client.vhost.policies


def test_not_too_many(house: House) -> None:
    for number in range(MOST_POLICIES):
        set_policy(house, f"p{number}", "^x", max_length=1)
    with refused(Condition.PRECONDITION_FAILED, "at most"):
        set_policy(house, "more", max_length=1)
    set_policy(house, "p0", "^x", max_length=2)


def test_not_too_costly(house: House) -> None:
    with refused(Condition.PRECONDITION_FAILED, "too long"):
        for number in range(1000):
            set_policy(house, f"p{number}", "a.*b", max_length=1)
    set_policy(house, "p0", "a.*b", max_length=2)


@pytest.mark.parametrize(
    ("pattern", "ways"),
    [
        ("^orders", 1), ("", 256), (".*", 256), (r"^(?!amq\.).*", 1), ("^(a|bc|d.*x)", 258),
        ("^a{2,5}b", 4), ("(?m)^a", 256), ("^(ab|cd){0,3}x", 15), ("^x(?=a+)", 255),
        ("(a+)+$", None), ("^(a|ab)*$", None), ("^" + "(a|aa)" * 40, None), ("[[:alpha:]]", None),
        ("^" + "a*" * 20 + "b", None), ("(?i)^a", None), ("^(?i:a)", None),
    ],
)  # fmt: skip
def test_ways_of_a_pattern(pattern: str, ways: int | None) -> None:
    assert ways_of(pattern) == ways
    assert ways is None or ways <= MOST_WAYS


@pytest.mark.parametrize("pattern", ["(a+)+(?!b)$", r"^(a|ab)*\1$", "(" * 2000, "(?=(a+)+)b"])
def test_patterns_that_could_take_too_long(pattern: str) -> None:
    """Neither engine may try them: one cannot, the other could not end."""
    with refused(Condition.PRECONDITION_FAILED):
        make_policy("p", pattern, {"max-length": 1})


def test_in_a_store_on_disk(tmp_path: Path) -> None:
    """Kept as records of kinds of their own, which a store of any age takes."""
    for start in range(2):
        store = SqliteStore(tmp_path, synchronous="off")
        broker = Broker(store)
        vhost = broker.vhosts["/"]
        if not start:
            vhost.policies.put(POLICY, make_policy("p", "^q", {"max-length": 1}, 3, "queues"))
            operator = make_policy("o", "", {"expires": 9000}, operator=True)
            vhost.policies.put(OPERATOR_POLICY, operator)
        (policy,), (operator,) = (vhost.policies.by_kind[kind].values() for kind in KINDS)
        assert (policy.name, policy.pattern.text, policy.priority) == ("p", "^q", 3)
        assert (policy.apply_to, policy.definition) == ("queues", {"max-length": 1})
        assert operator.definition == {"expires": 9000}
        broker.end_turn()
        while (batch := store.take()) is not None:
            store.write(batch)
        store.close()
