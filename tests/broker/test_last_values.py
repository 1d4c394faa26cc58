"""Last-value queues: a message replaces the one before it with the same key."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import values
from gateway.broker.channel import Channel
from gateway.broker.keyed import KeyedQueue
from gateway.broker.memory_store import MemoryStore
from gateway.errors import Condition
from gateway.message import DIALECTS
from gateway.operations import Outcome
from gateway.store.sqlite import SqliteStore
from tests import in_memory
from tests.broker.fakes import (
    DIALECT,
    House,
    consume,
    declare,
    fetch_all,
    limited,
    message,
    purge,
    refused,
)
from tests.drawing import examples


def send(channel: Channel, key: Any, body: str, **given: Any) -> None:
    headers = {} if key is None else {"k": key}
    channel.publish(message(body, "q", application=headers, **given))


def ready(channel: Channel) -> list[str]:
    return [in_memory.text(seen.message) for seen in channel.browse("q", None, 1000)]


def values_of(house: House) -> KeyedQueue:
    queue = house.broker.vhosts["/"].queues["q"]
    assert isinstance(queue, KeyedQueue)
    return queue


@pytest.mark.parametrize("budget", [None, 0])
def test_the_newest_of_each_key_stands(budget: int | None) -> None:
    house = House(page_after_octets=budget, keep_in_memory=1)
    channel, _ = house.channel()
    limited(channel, last_value_key="k")
    for key, body in (("1", "a"), ("2", "b"), (None, "x"), ("1", "c"), (None, "y"), ("2", "d")):
        send(channel, key, body)
    assert ready(channel) == ["x", "c", "y", "d"]
    queue = values_of(house)
    assert (queue.depth, queue.published, queue.acked) == (4, 6, 2)
    assert fetch_all(channel) == ["x", "c", "y", "d"]
    assert queue.values is not None and not queue.values.newest and not queue.values.keys


def test_keys_of_different_kinds(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, last_value_key="k")
    kinds = [1, "1", True, b"1", 2.5, [1], {"a": 1}]
    for kind in kinds:
        send(channel, kind, str(kind))
    send(channel, values.ULong(1), "one")
    send(channel, values.ShortString("1"), "text")
    assert ready(channel) == [*map(str, kinds[2:]), "one", "text"]


def test_consumers_of_copies_see_each_value(house: House) -> None:
    channel, heard = house.channel()
    limited(channel, last_value_key="k")
    send(channel, "1", "a")
    consume(channel, copy=True)
    for body in "bcd":
        send(channel, "1", body)
    assert heard.bodies() == list("abcd")
    consume(channel, tag="late", copy=True)
    assert heard.by_consumer("late") == ["d"]


@pytest.mark.parametrize("taken", [False, True])
def test_what_a_consumer_holds_is_replaced_when_it_comes_back(house: House, taken: bool) -> None:
    channel, heard = house.channel()
    limited(channel, last_value_key="k")
    send(channel, "1", "old")
    send(channel, "2", "other")
    held = [channel.fetch("q"), channel.fetch("q")]
    send(channel, "1", "new")
    assert ready(channel) == ["new"]
    if taken:
        assert fetch_all(channel) == ["new"]
    for one in held:
        assert one is not None
        channel.settlements.settle(one.delivery, False, Outcome.RELEASE)
    assert ready(channel) == (["other"] if taken else ["other", "new"])
    queue = values_of(house)
    assert (queue.unsettled, queue.backlog.octets) == (0, sum(map(len, ready(channel))))


def test_a_full_queue_takes_a_newer_value(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, last_value_key="k", max_length=2, overflow="reject-publish")
    for key, body in (("1", "a"), ("2", "b"), ("1", "c"), ("3", "d")):
        send(channel, key, body)
    assert ready(channel) == ["b", "c"]
    assert values_of(house).values.newest.keys() == {("text", "1"), ("text", "2")}  # type: ignore[union-attr]


def test_a_value_that_does_not_fit_replaces_none(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, last_value_key="k", max_length_bytes=4, overflow="reject-publish")
    for key, body in (("1", "aa"), ("2", "bb"), ("1", "ccc"), ("1", "dd")):
        send(channel, key, body)
    assert ready(channel) == ["bb", "dd"]


def test_expired_and_purged(house: House) -> None:
    channel, _ = house.channel()
    limited(channel, last_value_key="k")
    send(channel, "1", "a", ttl=10)
    house.later(20)
    send(channel, "1", "b")
    assert ready(channel) == ["b"]
    assert purge(channel, "q") == 1
    send(channel, "1", "c")
    assert ready(channel) == ["c"]


def test_the_key_is_an_argument_like_others(house: House) -> None:
    channel, _ = house.channel()
    with refused(Condition.PRECONDITION_FAILED, "x-last-value-key"):
        limited(channel, last_value_key=5)
    limited(channel, last_value_key="k")
    with refused(Condition.PRECONDITION_FAILED, "x-last-value-key"):
        declare(channel)


class Model:
    """``ready`` and ``held`` have the number of each message with its key, ascending."""

    def __init__(self) -> None:
        self.ready: dict[int, str | None] = {}
        self.held: dict[int, str | None] = {}
        self.newest: dict[str, int] = {}
        self.outdated: set[int] = set()

    def put(self, number: int, key: str | None) -> None:
        if key is not None:
            old = self.newest.get(key)
            if old is not None and self.ready.pop(old, self) is self:
                self.outdated.add(old)
            self.newest[key] = number
        self.ready[number] = key

    def accept(self, number: int) -> None:
        key = self.held.pop(number)
        if key is not None and self.newest.get(key) == number:
            del self.newest[key]

    def release(self, number: int) -> None:
        key = self.held.pop(number)
        if number in self.outdated or (key is not None and self.newest.get(key, number) != number):
            return
        if key is not None:
            self.newest[key] = number
        self.ready[number] = key

    def restart(self) -> None:
        kept: dict[int, str | None] = dict(sorted((self.ready | self.held).items()))
        self.newest = {key: number for number, key in kept.items() if key is not None}
        self.ready = {n: key for n, key in kept.items() if key is None or self.newest[key] == n}
        self.held, self.outdated = {}, set()


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(), st.sampled_from([None, 0, 20]), st.sampled_from([0, 1, 4]))
def test_against_a_model(seed: int, budget: int | None, keep: int) -> None:
    chance = Random(seed)
    limits: dict[str, Any] = {"page_after_octets": budget, "keep_in_memory": keep}
    house = House(MemoryStore(volatile=False), **limits)
    channel, _ = house.channel()
    limited_durable(channel)
    model, held = Model(), dict[int, int]()
    for number in range(60):
        key = chance.choice(["1", "2", "3", None])
        send(channel, key, str(number), durable=True)
        model.put(number, key)
        for _ in range(chance.randrange(3)):
            match chance.randrange(8):
                case 0 | 1 | 2:
                    fetched = channel.fetch("q")
                    expected = min(model.ready, default=None)
                    if fetched is None:
                        assert expected is None
                    else:
                        got = int(in_memory.text(fetched.message))
                        assert got == expected
                        held[got] = fetched.delivery
                        model.held[got] = model.ready.pop(got)
                case 3 | 4 if held:
                    one = chance.choice(sorted(held))
                    channel.settlements.settle(held.pop(one), False, Outcome.ACCEPT)
                    model.accept(one)
                case 5 | 6 if held:
                    one = chance.choice(sorted(held))
                    channel.settlements.settle(held.pop(one), False, Outcome.RELEASE)
                    model.release(one)
                case 7 if chance.random() < 0.2:
                    house.commit()
                    house = house.restart(**limits)
                    channel, _ = house.channel()
                    held.clear()
                    model.restart()
        assert ready(channel) == [str(n) for n in sorted(model.ready)]
        assert values_of(house).depth == len(model.ready)
    for delivery in held.values():
        channel.settlements.settle(delivery, False, Outcome.ACCEPT)
    fetch_all(channel)
    queue = values_of(house)
    assert queue.values is not None
    assert not (queue.values.newest or queue.values.keys or queue.values.outdated)
    house.commit()
    assert house.store.depths() == {}


def limited_durable(channel: Channel) -> None:
    declare(channel, durable=True, arguments={"x-last-value-key": "k"})


def test_over_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is gone had one value with a consumer, and replaced it."""
    monkeypatch.setitem(DIALECTS, DIALECT.name, DIALECT)
    store = SqliteStore(tmp_path, synchronous="off")
    house = House(store)  # type: ignore[arg-type]
    channel, _ = house.channel()
    limited_durable(channel)
    for key, body in (("1", "held"), ("2", "b")):
        send(channel, key, body, durable=True)
    assert channel.fetch("q") is not None
    for key, body in (("2", "c"), ("1", "new")):
        send(channel, key, body, durable=True)
    send(channel, None, "x", durable=True)
    house.commit()
    store.close()
    store = SqliteStore(tmp_path, synchronous="off")
    house = House(store)  # type: ignore[arg-type]
    channel, _ = house.channel()
    assert ready(channel) == ["c", "new", "x"]
    send(channel, "1", "newest", durable=True)
    assert ready(channel) == ["c", "x", "newest"]
    assert fetch_all(channel) == ["c", "x", "newest"]
    house.commit()
    store.close()
    store = SqliteStore(tmp_path, synchronous="off")
    assert store.depths() == {}
    store.close()
