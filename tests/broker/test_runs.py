"""Messages that are published together have the same effects as those that come one by one."""

import math
import random
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

import pytest

from gateway.broker.channel import Channel
from gateway.broker.publish_path import PublishPath
from gateway.broker.runs import MOST, publish_run
from gateway.errors import Refusal
from gateway.message import Essentials, Message
from gateway.operations import Outcome
from tests.broker.fakes import Heard, House, consume, declare, message
from tests.drawing import examples

QUEUES: list[dict[str, Any]] = [
    {},
    {"durable": True},
    {"levels": 2},
    {"arguments": {"x-max-length": 4}},
    {"arguments": {"x-max-length": 4, "x-overflow": "reject-publish"}},
    {"arguments": {"x-message-ttl": 60_000}},
    {"arguments": {"x-max-priority": 3}},
    {"arguments": {"x-last-value-key": "key"}},
    {"arguments": {"x-single-active-consumer": True}},
]
CONSUMERS: list[dict[str, Any]] = [
    {},
    {"no_ack": True},
    {"no_ack": True, "credit": 5},
    {"credit": 5},
    {"credit": 7, "no_local": True},
    {"copy": True},
    {"matches": lambda one: len(one.body) % 2 == 0},
    {"arguments": {"x-priority": 2}},
]
MESSAGES: list[dict[str, Any]] = [
    {},
    {"durable": True},
    {"priority": 1},
    {"ttl": 1000},
    {"application": {"a": 1}},
    {"application": {"key": "one"}},
    {"application": {"CC": ["other"]}},
    {"reply_to": "amq.rabbitmq.reply-to"},
]


def drawn(chance: random.Random) -> list[Message]:
    """Messages of a few kinds, mostly of one; those alike share what they have in common."""
    known: dict[bytes, Any] = {}
    kinds = [{}, {}, {}, *chance.sample(MESSAGES, 2)]
    found = []
    for number in range(40):
        kind = chance.choice(kinds) if chance.random() < 0.3 else kinds[0]
        key = "nowhere" if chance.random() < 0.05 else "q"
        one = message("x" * (number % 7), key, **kind)
        if number % 3:
            one.essentials = known.setdefault(one.header, one.essentials)
        found.append(one)
    return found


def publish(path: PublishPath, messages: list[Message], mandatory: bool, together: bool) -> int:
    """How many were published in a run."""
    at = runs = 0
    while at < len(messages):
        taken = 0
        if together:
            taken = publish_run(path, messages, at, perf_counter, math.inf)
        if not taken:
            try:
                path.publish(messages[at], mandatory)
            except Refusal:
                path.publish_refused()
        at += taken or 1
        runs += taken
    return runs


def in_a_row(taken: Heard, consumer: str, first: int, messages: list[Message]) -> None:
    for number, one in enumerate(messages, first):
        taken.deliver(consumer, number, False, one)


def outcome(seed: int, together: bool) -> tuple[list[Any], int]:
    """All that can be seen afterwards; and how many were published in a run."""
    chance = random.Random(seed)
    house = House()
    source, heard = house.channel()
    target, taken = house.channel()
    for name in ("q", "other"):
        declare(source, name, **chance.choice(QUEUES))
    if chance.random() < 0.8:
        source.publish_path.select_confirms()
    if chance.random() < 0.3:
        target.prefetch(chance.choice([3, 20]), chance.choice([0, 9]), chance.random() < 0.5)
    for n in range(chance.choice([0, 1, 1, 1, 1, 2])):
        consume(target, "q", f"c{n}", **chance.choice([{}, *CONSUMERS]))
    if seed % 2:
        for consumer in target.window.consumers.values():
            consumer.deliver_run = partial(in_a_row, taken)
    house.commit()
    mandatory = chance.random() < 0.5
    seen: list[Any] = []
    runs = 0
    for _ in range(3):
        runs += publish(source.publish_path, drawn(chance), mandatory, together)
        house.commit()
        tags = list(target.window.unsettled)
        accepted = chance.sample(tags, len(tags) // 2)
        # With two consumers the next message goes to the one that has room first.
        if together and len(target.window.consumers) < 2:
            assert target.settlements.settling_many(accepted, Outcome.ACCEPT) is None
        else:
            for tag in accepted:
                target.settlements.settle(tag, False, Outcome.ACCEPT)
        for consumer in target.window.consumers.values():
            if consumer.credit is not None:
                target.credit(consumer.tag, chance.choice([0, 3, 9]))
        house.commit()
        seen.append(state(house, target))
    seen += [heard.confirms, [(one.body, why) for one, why, _ in heard.returns]]
    seen.append([(tag, number, again, one.body) for tag, number, again, one in taken.deliveries])
    return seen, runs


def state(house: House, target: Channel) -> list[Any]:
    window = target.window
    found: list[Any] = [house.broker.state.octets, house.broker.snapshot().totals]
    found += [window.held, window.octets, window.last, window.open, list(window.unsettled)]
    for consumer in window.consumers.values():
        found.append([consumer.held, consumer.octets, consumer.credit, consumer.waiting])
    for queue in house.broker.vhosts["/"].queues.values():
        backlog = queue.backlog
        found.append([queue.published + queue.passed, queue.delivered + queue.passed])
        found.append([queue.acked + queue.passed, queue.unsettled, backlog.depth, backlog.octets])
        ready = [[entry.message.body for entry in lane.ready] for lane in backlog.lanes]
        found.append([ready, [(lane.priority, lane.next) for lane in backlog.lanes]])
    for entry in window.unsettled.values():
        assert entry.consumer is not None
        found.append([entry.message.body, entry.position, entry.deliveries, entry.stored])
        found.append(entry.consumer.tag)
    return found


@pytest.mark.parametrize("seed", range(examples(600)))
def test_together_is_as_one_by_one(seed: int) -> None:
    assert outcome(seed, True)[0] == outcome(seed, False)[0]


def test_some_of_those_are_published_in_runs() -> None:
    assert sum(outcome(seed, True)[1] for seed in range(60)) > 500


def waiting(house: House, **given: Any) -> tuple[PublishPath, Any]:
    """The path to a queue with a consumer."""
    source, _ = house.channel()
    target, heard = house.channel()
    declare(source, "q")
    consume(target, "q", **given)
    return source.publish_path, (target, heard)


def alike(number: int) -> list[Message]:
    first = message("0", "q")
    return [first, *(Message(first.dialect, b"", b"x", "", "q", first.essentials)
                     for _ in range(number - 1))]  # fmt: skip


def test_equal_essentials_are_alike(house: House) -> None:
    """Headers of several sizes have essentials of their own, though they say the same."""
    path, _ = waiting(house)
    path.publish(message("first", "q"))
    some, others = alike(3), alike(3)
    for one in others:
        one.essentials = Essentials(*one.essentials)
    priority = message("last", "q", priority=1)
    many = [*some, *others, priority, *alike(2)]
    assert publish_run(path, many, 0, perf_counter, math.inf) == 6


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_run_ends_in_time(house: House, no_ack: bool) -> None:
    """The clock is looked at after each message, as a reader may cost much."""
    path, (_, heard) = waiting(house, no_ack=no_ack)
    path.publish(message("first", "q"))
    ticks = count()
    assert publish_run(path, alike(50), 0, lambda: float(next(ticks)), 9.5) == 11
    assert len(heard.deliveries) == 12


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_run_ends_where_the_reader_is_full(house: House, no_ack: bool) -> None:
    path, (target, heard) = waiting(house, no_ack=no_ack)
    path.publish(message("first", "q"))
    deliver = heard.deliver

    def full(*given: Any) -> None:
        deliver(*given)
        if len(heard.deliveries) == 4:
            target.pause()

    target.window.consumers["c"].deliver = full
    many = alike(2 * MOST)
    assert publish_run(path, many, 0, perf_counter, math.inf) == 3
    assert publish_run(path, many, 3, perf_counter, math.inf) == 0
