"""The headers exchange looks at bindings that can match, and at no others."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gateway.broker import exchanges
from gateway.broker.deadletters import peek_properties
from gateway.broker.exchanges import Binding, HeadersExchange, headers_match
from gateway.broker.memory_store import MemoryStore
from gateway.values import Array, Float, Int, Map, Symbol
from tests.broker.fakes import House, bind, declare, exchange, message
from tests.drawing import examples

VALUES: list[Any] = [
    None, True, False, 0, 1, 1.0, Int(1), Float(0.0), Decimal(1), "1", b"1", Symbol("1"), "",
    b"\xff", "\udcff", [], {}, [1], [1.0], {"a": 1}, {"a": Int(1)}, Map([("a", 1)]), (1,),
    Array([1], 0x71), float("nan"),
]  # fmt: skip
NAMES = ["a", "b", "c", "x-d"]
tables = some.dictionaries(some.sampled_from(NAMES), some.sampled_from(VALUES), max_size=4)
words = some.sampled_from(["all", "any", "all-with-x", "any-with-x"])


@settings(max_examples=examples(400))
@given(some.lists(some.tuples(words, tables), max_size=12), tables, some.data())
def test_it_finds_the_same_as_a_full_scan(
    wanted: list[tuple[str, dict[str, Any]]], headers: dict[str, Any], data: Any
) -> None:
    house = House(MemoryStore())
    channel, _ = house.channel()
    exchange(channel, "x", "headers")
    there = house.broker.vhosts["/"].exchanges["x"]
    assert isinstance(there, HeadersExchange)
    bindings = []
    for number, (word, table) in enumerate(wanted):
        declare(channel, str(number))
        queue = house.broker.vhosts["/"].queues[str(number)]
        bindings.append(Binding(there, queue, "", {"x-match": word, **table}))
        there.index(bindings[-1])
    gone = data.draw(some.sets(some.sampled_from(bindings))) if bindings else set()
    for binding in gone:
        there.drop(binding)
    kept = [binding for binding in bindings if binding not in gone]
    sent = message("m", "", "x", application=headers)
    found = list(there.match(sent))
    # A value may have another type once it is written.
    written = peek_properties(sent).application or {}
    expected = [one.destination for one in kept if headers_match(one.arguments, written)]
    assert sorted(map(id, found)) == sorted(map(id, expected))
    for binding in kept:
        there.drop(binding)
    assert not there.by_header and not there.unconditional, "nothing is left behind"


def test_others_cost_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    channel, _ = house.channel()
    for number in range(500):
        declare(channel, str(number))
        word = "any" if number % 2 else "all"
        wanted = {"x-match": word, "tenant": 1 if word == "all" else -number, "id": number}
        bind(channel, str(number), "amq.headers", arguments=wanted)
    looked = []
    match = exchanges.headers_match

    def counted(wanted: Any, headers: Any) -> bool:
        looked.append(wanted)
        return match(wanted, headers)

    monkeypatch.setattr(exchanges, "headers_match", counted)
    channel.publish(message("m", "", "amq.headers", application={"tenant": 1, "id": 6}))
    channel.publish(message("m", "", "amq.headers", application={"tenant": 1, "id": 7}))
    queues = house.broker.vhosts["/"].queues
    assert [name for name, queue in queues.items() if queue.depth] == ["6", "7"]
    assert len(looked) <= 4
