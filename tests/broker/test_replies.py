"""Direct reply-to: answers that need no queue."""

from typing import Any

import pytest

from gateway.broker.channel import Channel
from gateway.errors import Condition
from gateway.message import Message
from gateway.operations import DeclareQueue, Outcome, QueueState
from tests.broker.fakes import (
    Heard,
    House,
    consume,
    declare,
    delete_queue,
    message,
    put,
    refused,
)

REPLY_TO = "amq.rabbitmq.reply-to"
PRECONDITION = Condition.PRECONDITION_FAILED


def ask(channel: Channel, body: str = "ask", **given: Any) -> None:
    put(channel, body, reply_to=REPLY_TO, **given)


def asked(channel: Channel) -> Message:
    found = channel.fetch("q", True)
    assert found is not None
    return found.message


def passive(channel: Channel, name: str) -> QueueState:
    return channel.topology.declare_queue(DeclareQueue(channel.number, None, name, passive=True))


def asking(house: House) -> tuple[Channel, Heard, str]:
    """A channel that waits for replies, what it hears, and where to send them."""
    channel, heard = house.channel()
    declare(channel)
    consume(channel, REPLY_TO, "r", no_ack=True)
    ask(channel)
    name = asked(channel).properties.reply_to
    assert name is not None and name.startswith(REPLY_TO + ".")
    return channel, heard, name


def test_there_and_back(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, REPLY_TO, "r", no_ack=True)
    ask(channel, correlation_id="7", application={"mine": 1})
    found = asked(channel).properties
    assert (found.correlation_id, found.application) == ("7", {"mine": 1})
    assert found.reply_to is not None
    other, _ = house.channel(house.another())
    other.publish(message("answer", found.reply_to, correlation_id="7"), mandatory=True)
    other.publish(message("again", found.reply_to))
    assert heard.bodies() == ["answer", "again"]
    assert heard.tags() == [2, 3]
    assert heard.by_consumer("r") == ["answer", "again"]
    assert house.broker.state.octets == 0


def test_only_that_reply_to_is_changed(house: House) -> None:
    channel, _, name = asking(house)
    for kept in (name, "mine", REPLY_TO + "s"):
        put(channel, "a", reply_to=kept)
        assert asked(channel).properties.reply_to == kept
    channel.publish(message("a", "q", application={"x": REPLY_TO}))
    assert asked(channel).properties.application == {"x": REPLY_TO}


@pytest.mark.parametrize("careful", [False, True])
def test_no_waiting_consumer(house: House, careful: bool) -> None:
    channel, _ = house.channel()
    declare(channel)
    for _ in range(2):
        with refused(PRECONDITION, "fast reply consumer does not exist"):
            channel.publish(message("a", "q", reply_to=REPLY_TO), mandatory=careful)
        put(channel, "b")
    consume(channel, REPLY_TO, "r", no_ack=True)
    ask(channel)
    elsewhere, _ = house.channel()
    with refused(PRECONDITION, "fast reply consumer does not exist"):
        ask(elsewhere)
    channel.unsubscribe("r")
    with refused(PRECONDITION, "fast reply consumer does not exist"):
        ask(channel)


def test_one_consumer_that_settles_nothing(house: House) -> None:
    channel, _ = house.channel()
    with refused(PRECONDITION, "reply consumer cannot acknowledge"):
        consume(channel, REPLY_TO)
    consume(channel, REPLY_TO, no_ack=True)
    with refused(PRECONDITION, "reply consumer already set"):
        consume(channel, REPLY_TO, "d", no_ack=True)
    with refused(PRECONDITION, "reply consumer cannot acknowledge"):
        consume(channel, REPLY_TO, "d")
    consume(house.channel()[0], REPLY_TO, no_ack=True)


def test_another_consumer_has_another_name(house: House) -> None:
    channel, heard, name = asking(house)
    channel.unsubscribe("r")
    consume(channel, REPLY_TO, "r", no_ack=True)
    ask(channel)
    assert asked(channel).properties.reply_to != name
    put(channel, "late", key=name)
    assert heard.bodies() == []


@pytest.mark.parametrize("end", ["cancelled", "channel", "connection"])
def test_gone(house: House, end: str) -> None:
    channel, heard, name = asking(house)
    other, returns = house.channel(house.another())
    put(other, "first", key=name)
    assert passive(other, name) == QueueState(name, 0, 1)
    if end == "cancelled":
        channel.unsubscribe("r")
    elif end == "channel":
        channel.close()
    else:
        house.client.close()
    other.publish(message("late", name), mandatory=True)
    other.publish(message("later", name))
    ((found, condition, _),) = returns.returns
    assert (found.body, condition) == (b"late", Condition.NO_ROUTE)
    assert heard.bodies() == ["first"]
    with refused(Condition.NOT_FOUND, f"no queue '{name}' in vhost '/'"):
        passive(other, name)
    assert house.broker.snapshot().totals.published == 2  # the question, the first answer


def test_it_is_no_queue(house: House) -> None:
    channel, _, name = asking(house)
    assert passive(channel, REPLY_TO) == QueueState(REPLY_TO, 0, 1)
    assert declare(channel, name) == QueueState(name, 0, 1)
    for it in (REPLY_TO, name):
        with refused(Condition.NOT_FOUND, f"no queue '{it}'"):
            channel.fetch(it, True)
        assert delete_queue(channel, it) == 0
    with refused(Condition.NOT_FOUND, f"no queue '{name}'"):
        consume(house.channel()[0], name, no_ack=True)
    with refused(Condition.NOT_FOUND):
        passive(channel, REPLY_TO + ".guess")
    put(channel, "a", key=REPLY_TO)
    assert house.broker.snapshot().queues == 1


def test_a_full_socket_keeps_answers(house: House) -> None:
    channel, heard, name = asking(house)
    other, _ = house.channel(house.another())
    channel.pause()
    put(other, "a", "b", key=name, durable=True)
    assert heard.bodies() == []
    channel.resume()
    assert heard.bodies() == ["a", "b"]
    channel.pause()
    put(other, "c", key=name)
    channel.close()
    assert house.broker.state.octets == 0


def test_in_a_transaction(house: House) -> None:
    channel, heard, name = asking(house)
    channel.transactions.select()
    ask(channel)
    put(channel, "answer", key=name)
    assert (channel.fetch("q", True), heard.bodies()) == (None, [])
    channel.transactions.commit()
    assert (asked(channel).properties.reply_to, heard.bodies()) == (name, ["answer"])


def test_own_answers_count_as_others(house: House) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, REPLY_TO, "r", no_ack=True, no_local=True, arguments={"x-priority": "?"})
    ask(channel)
    reply_to = asked(channel).properties.reply_to
    assert reply_to is not None
    put(channel, "answer", key=reply_to)
    assert heard.bodies() == ["answer"]


def test_a_dead_letter_may_be_an_answer(house: House) -> None:
    channel, heard, name = asking(house)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
    declare(channel, "work", arguments=arguments)
    put(channel, "a", key="work")
    found = channel.fetch("work")
    assert found is not None
    channel.settlements.settle(found.delivery, False, Outcome.REJECT)
    assert heard.bodies() == ["a"]


@pytest.mark.parametrize(
    "arguments",
    [{"x-cancel-on-ha-failover": True}, {"x-priority": -1}, {"x-credit": {}}, {"mine": [1]}],
)
def test_arguments_that_are_fine(house: House, arguments: dict[str, Any]) -> None:
    channel, heard = house.channel()
    declare(channel)
    consume(channel, arguments=arguments)
    put(channel, "a")
    assert heard.bodies() == ["a"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-priority": "5"}, ': "expected integer, got longstr"'),
        ({"x-priority": True}, ': "expected integer, got bool"'),
        ({"x-priority": None}, ': "expected integer, got void"'),
        ({"x-cancel-on-ha-failover": "yes"}, ": {unacceptable_type,longstr}"),
        ({"x-stream-offset": "first"}, " of queue type rabbit_classic_queue"),
    ],
)
def test_arguments_that_are_not(house: House, arguments: dict[str, Any], reason: str) -> None:
    channel, _ = house.channel()
    declare(channel)
    with refused(PRECONDITION, f"invalid arg '{next(iter(arguments))}' for queue 'q' in"):
        consume(channel, arguments=arguments)
    with refused(PRECONDITION, reason):
        consume(channel, arguments=arguments)
