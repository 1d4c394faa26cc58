"""Exchange types that the drafts of 2005 name, and bindings with a condition."""

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.broker.exchange_types import EXCHANGE_TYPES, LossyExchange, wild
from gateway.errors import Condition, StoreError
from gateway.selector import like, names
from gateway.selector.like import (
    EFFORT,
    LONGEST_TEXT,
    MOST_SHARED,
    MOST_STEPS,
    STEPS_OF_A_TERM,
)
from gateway.values import Scaled
from tests.broker.fakes import (
    House,
    bind,
    declare,
    exchange,
    fetch_all,
    message,
    refused,
    unbind,
)

INVALID = Condition.PRECONDITION_FAILED


def said(house: House, *queues: str) -> list[list[str]]:
    channel, _ = house.channel()
    return [fetch_all(channel, name) for name in queues]


def test_a_selector_exchange(house: House) -> None:
    channel, _ = house.channel()
    exchange(channel, "x", "x-selector")
    for name in ("red", "big", "both", "keyed"):
        declare(channel, name)
    bind(channel, "red", "x", arguments={"selector": "colour = 'red'"})
    bind(channel, "big", "x", arguments={"x-selector": "size > 3"})
    bind(channel, "both", "x", arguments={"selector": "colour = 'red' AND size > 3"})
    bind(channel, "keyed", "x", "JMSPriority >= 7")
    for body, priority, headers in (
        ("a", 4, {"colour": "red", "size": 1}),
        ("b", 7, {"colour": "blue", "size": 4}),
        ("c", None, {"colour": "red", "size": 9}),
        ("d", None, {}),
    ):
        channel.publish(message(body, "k", "x", priority=priority, application=headers or None))
    assert said(house, "red", "big", "both", "keyed") == [["a", "c"], ["b", "c"], ["c"], ["b"]]
    assert house.broker.snapshot().totals.unrouted == 1


@pytest.mark.parametrize("type", ["direct", "fanout", "topic", "headers"])
def test_a_condition_on_any_binding(house: House, type: str) -> None:
    """It narrows what the type decides; the answer is remembered again when it is gone."""
    channel, _ = house.channel()
    exchange(channel, "x", type)
    for name in ("all", "some"):
        declare(channel, name)
    bind(channel, "all", "x", "k", arguments={"n": None})
    wanted = {"x-selector": "n > 1", "x-match": "all-with-x", "n": None}
    bind(channel, "some", "x", "k", arguments=wanted)
    for number in (1, 2):
        channel.publish(message(str(number), "k", "x", application={"n": number}))
    channel.publish(message("elsewhere", "other", "x", application={"m": 3, "n": None}))
    everything = ["1", "2", "elsewhere"] if type in ("fanout", "headers") else ["1", "2"]
    assert said(house, "all", "some") == [everything, ["2"]]
    found = house.broker.vhosts["/"].exchanges["x"]
    assert not found.by_key and not found.routes
    unbind(channel, "some", "x", "k", arguments=wanted)
    assert found.by_key is (type != "headers") and not found.conditional
    channel.publish(message("2", "k", "x", application={"n": 2}))
    assert said(house, "all", "some") == [["2"], []]


def test_conditions_behind_another_exchange(house: House) -> None:
    """What the first remembers by its key is not what the second decides by headers."""
    channel, _ = house.channel()
    declare(channel, "q")
    exchange(channel, "y", "x-selector")
    channel.topology.bind(bound := bind_to("y", "amq.topic", "#"))
    assert bound.to_exchange
    channel.publish(message("lost", "k", "amq.topic"))
    bind(channel, "q", "y", arguments={"selector": "n = 1"})
    for number in (1, 2, 1):
        channel.publish(message(str(number), "k", "amq.topic", application={"n": number}))
    assert said(house, "q") == [["1", "1"]]


def bind_to(destination: str, source: str, key: str) -> Any:
    from gateway.operations import Bind

    return Bind(1, None, destination, source, key, {}, True)


@pytest.mark.parametrize(
    ("arguments", "key", "headers", "fits"),
    [
        ({"a": "x*"}, "", {"a": "xyz"}, True),
        ({"a": "x*"}, "", {"a": "ax"}, False),
        ({"a": "x?z", "b": "*"}, "", {"a": "xyz", "b": ""}, True),
        ({"a": "x?z", "b": "*"}, "", {"a": "xyz"}, False),
        ({"x-match": "any", "a": "1*", "b": "q"}, "", {"a": 17}, True),
        ({"a": "1*"}, "", {"a": True}, False),
        ({"a": "tr*"}, "", {"a": True}, True),
        ({"a": 17}, "", {"a": 17}, True),
        ({"a": 17}, "", {"a": "17"}, False),
        ({"a": None}, "", {"a": None}, True),
        ({"a": None}, "", {}, False),
        ({"a": r"\*%_"}, "", {"a": "*%_"}, True),
        ({"a": r"\*"}, "", {"a": "x"}, False),
        ({"content-type": "text/*"}, "", {}, True),
        ({"content-type": "image/*"}, "", {}, False),
        ({"content-type": "image/*"}, "", {"content-type": "image/png"}, True),
        ({"priority": "[!4]"}, "", {}, False),
        ({"destination": "a.*"}, "", {}, True),
        ({"group-id": None}, "", {}, False),
        ({}, "a.?", {}, True),
        ({}, "b*", {}, False),
        ({"x-match": "any"}, "", {"a": 1}, False),
        ({}, "", {}, True),
    ],
)
def test_a_matcher(
    house: House, arguments: dict[str, Any], key: str, headers: dict[str, Any], fits: bool
) -> None:
    channel, _ = house.channel()
    exchange(channel, "x", "x-matcher")
    declare(channel, "q")
    bind(channel, "q", "x", key, arguments=arguments)
    given = {"application": headers or None, "content_type": "text/plain"}
    channel.publish(message("m", "a.b", "x", **given))
    assert said(house, "q") == [["m"] if fits else []]
    unbind(channel, "q", "x", key, arguments=arguments)
    channel.publish(message("m", "a.b", "x", **given))
    assert said(house, "q") == [[]]


def test_wild_cards_never_backtrack() -> None:
    text = "a" * 16_000
    EFFORT.begin()
    assert not wild("*a" * 2000 + "b")(text) and wild("*a" * 2000)(text)


HOSTILE = 40


@pytest.mark.parametrize("kind", ["x-matcher", "fanout", "x-selector"])
@pytest.mark.parametrize("through", [False, True])
def test_steps_of_many_patterns_are_bounded_for_each_message(
    house: House, kind: str, through: bool
) -> None:
    """Not for each pattern alone; and those that take little match whatever the others do."""
    channel, _ = house.channel()
    names = ["x", "y"] if through else ["x"]
    for name in names:
        exchange(channel, name, kind)
        declare(channel, f"{name} first")
        plain = {"s": "short"} if kind == "x-matcher" else {"x-selector": "s LIKE 'sh%'"}
        bind(channel, f"{name} first", name, arguments=plain)
        for number in range(HOSTILE):
            tails = [f"{'a' * 40}b{number}{term}" for term in range(20)]
            declare(channel, f"{name} {number}")
            if kind == "x-matcher":
                arguments = {f"t{term}": f"*?{tail}*" for term, tail in enumerate(tails)}
                arguments["x-match"] = "any"
            else:
                arguments = {"x-selector": " OR ".join(f"t LIKE '%_{tail}%'" for tail in tails)}
            bind(channel, f"{name} {number}", name, arguments=arguments)
        declare(channel, f"{name} last")
        bind(channel, f"{name} last", name, arguments=plain | {"x-match": "any"})
    if through:
        bind(channel, "y", "x", to_exchange=True, arguments=plain | {"more": None})
    spent = EFFORT.steps
    text = ("a" * 39 + "b0123456789") * 320
    given = {"t": text, "s": "short", "more": 1} | {f"t{term}": text for term in range(20)}
    channel.publish(message("m", "", "x", application=given))
    assert EFFORT.steps - spent <= MOST_SHARED + (HOSTILE + 4) * len(names) * LONGEST_TEXT
    depths = {name: queue.depth for name, queue in house.broker.vhosts["/"].queues.items()}
    assert [name for name, depth in depths.items() if depth] == [
        f"{name} {place}" for name in names for place in ("first", "last")
    ]
    assert EFFORT.most == MOST_STEPS


@pytest.mark.parametrize("kind", ["fanout", "x-selector"])
@pytest.mark.parametrize(
    "text",
    [
        "n = {} OR " + " OR ".join(["a <> 1"] * 250),
        "n <> {} AND " + " AND ".join(["a = 1"] * 250),
        "n = {} OR " + " OR ".join(["(a <> 1 AND a = 2 OR a = 3)"] * 80),
        "n = {} + " + " + ".join(["a"] * 500),
        "n = {} OR " * 3 + "a BETWEEN 2 AND " + " + ".join(["a"] * 200),
    ],
    ids=["or", "and", "nested", "sum", "narrow"],
)
def test_steps_of_many_terms_are_bounded_for_each_message(
    house: House, kind: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A selector has 512 of them, and an exchange thousands of selectors: here fewer, and fewer
    steps for them."""
    monkeypatch.setattr(like, "MOST_SHARED", 40 * 50 * STEPS_OF_A_TERM)
    read: list[Any] = []

    def counted(value: Any) -> Any:
        read.append(value)
        return value

    monkeypatch.setattr(names, "plain", counted)
    channel, _ = house.channel()
    exchange(channel, "x", kind)
    declare(channel, "long")
    for place in ("first", "last"):
        if place == "last":
            for number in range(40):
                wanted = text.format(number, number, number)
                bind(channel, "long", "x", arguments={"x-selector": wanted})
        declare(channel, place)
        bind(channel, place, "x", arguments={"x-selector": f"s = 'short' AND '{place}' <> s"})
    channel.publish(message("m", "", "x", application={"a": 1, "n": -1, "s": "short"}))
    assert len(read) <= 40 * 50
    depths = {name: queue.depth for name, queue in house.broker.vhosts["/"].queues.items()}
    assert depths["first"] == depths["last"] == 1


def test_quick_decisions_take_few_steps(house: House) -> None:
    """Of many long selectors one has to look at all of its terms."""
    channel, _ = house.channel()
    exchange(channel, "x", "fanout")
    terms = " OR ".join(f"a = {each}" for each in range(200))
    for number in range(40):
        declare(channel, f"q{number}")
        wanted = {"x-selector": f"n = {number} AND ({terms})"}
        bind(channel, f"q{number}", "x", arguments=wanted)
    spent = EFFORT.steps
    channel.publish(message("m", "", "x", application={"a": 199, "n": 7}))
    assert said(house, "q6", "q7", "q39") == [[], ["m"], []]
    assert 400 * STEPS_OF_A_TERM <= EFFORT.steps - spent <= 2 * 400 * STEPS_OF_A_TERM


def test_a_lossy_exchange_drops_at_random_without_notice(house: House) -> None:
    channel, heard = house.channel()
    exchange(channel, "x", "x-lossy")
    for name in ("never", "usual", "always"):
        declare(channel, name)
    bind(channel, "never", "x", arguments={"x-loss": 0})
    bind(channel, "usual", "x")
    bind(channel, "always", "x", arguments={"loss": Scaled(1, 1000)})
    found = house.broker.vhosts["/"].exchanges["x"]
    assert isinstance(found, LossyExchange)
    chances: Iterator[float] = iter([0.1, 0.49, 0.99, 0.0, 0.5, 0.999])
    found.draw = chances.__next__
    channel.publish_path.select_confirms()
    for body in ("a", "b"):
        channel.publish(message(body, "", "x"), True)
    assert said(house, "never", "usual", "always") == [["a", "b"], ["b"], []]
    unbind(channel, "never", "x", arguments={"x-loss": 0})
    unbind(channel, "usual", "x")
    found.draw = lambda: 0.0
    channel.publish(message("c", "", "x"), True)
    channel.publish(message("d", "", "x"), False, True)
    house.commit()
    assert not heard.returns and heard.confirms[-1] == (4, True, True)
    assert house.broker.snapshot().totals.unrouted == 0


def test_a_lossy_exchange_between_two_others(house: House) -> None:
    """The document's picture: the exchange that knows names, the loss, the queue."""
    channel, heard = house.channel()
    exchange(channel, "x", "x-lossy", arguments={"loss": 100})
    channel.topology.bind(bind_to("x", "amq.direct", "k"))
    declare(channel, "q")
    bind(channel, "q", "x")
    channel.publish(message("a", "k", "amq.direct"), True)
    bind(channel, "q", "amq.direct", "k")
    channel.publish(message("b", "k", "amq.direct"), True)
    assert said(house, "q") == [["b"]] and not heard.returns


@pytest.mark.parametrize(
    ("type", "arguments", "key"),
    [
        ("x-selector", {}, ""),
        ("x-selector", {}, "#"),
        ("x-selector", {"selector": 7}, ""),
        ("x-selector", {"selector": "a ="}, ""),
        ("direct", {"x-selector": "("}, "k"),
        ("x-matcher", {"x-match": "some"}, ""),
        ("x-matcher", {"a": "*" * 5000}, ""),
        ("x-lossy", {"loss": "much"}, ""),
        ("x-lossy", {"loss": 101}, ""),
        ("x-lossy", {"loss": -1}, ""),
        ("x-lossy", {"loss": float("nan")}, ""),
        ("x-lossy", {"loss": True}, ""),
    ],
)
def test_bindings_that_mean_nothing(
    house: House, type: str, arguments: dict[str, Any], key: str
) -> None:
    channel, _ = house.channel()
    exchange(channel, "x", type)
    declare(channel, "q")
    with refused(INVALID):
        bind(channel, "q", "x", key, arguments=arguments)
    assert not house.broker.vhosts["/"].exchanges["x"].bindings


def test_an_exchange_that_loses_too_much(house: House) -> None:
    channel, _ = house.channel()
    with refused(INVALID):
        exchange(channel, "x", "x-lossy", arguments={"loss": 1000})


def test_they_are_there_after_a_restart(house: House) -> None:
    channel, _ = house.channel()
    arguments = {"x-selector": {"selector": "n = 1"}, "x-matcher": {"a": "b*"}, "x-lossy": {}}
    assert arguments.keys() < EXCHANGE_TYPES.keys()
    for type, given in arguments.items():
        declare(channel, type, durable=True)
        exchange(channel, type, type, durable=True, arguments={"loss": 0})
        bind(channel, type, type, arguments=given)
    declare(channel, "plain", durable=True)
    bind(channel, "plain", "amq.topic", "#", arguments={"x-selector": "n = 2"})
    house.commit()
    house = house.restart()
    channel, _ = house.channel()
    for number in (1, 2):
        for type in (*arguments, "amq.topic"):
            headers = {"n": number, "a": "bc" if number == 1 else "ab"}
            channel.publish(message(str(number), "", type, application=headers))
    assert said(house, *arguments, "plain") == [["1"], ["1"], ["1", "2"], ["2"]]


def test_topics_by_regular_expressions(house: House) -> None:
    channel, _ = house.channel()
    for name, key, given in (
        ("some", "^stock/.*(ibm|sun)", {"x-regexp": True}),
        ("big", "ibm", {"x-regexp": True, "x-selector": "n > 1"}),
        ("hang", "(.*)*(.*)*(.*)*x$", {"x-regexp": True}),
        ("dots", "stock.*", {"x-regexp": False}),
    ):
        declare(channel, name, durable=True)
        bind(channel, name, "amq.topic", key, arguments=given)
    found = house.broker.vhosts["/"].exchanges["amq.topic"]
    assert not found.by_key
    house.commit()
    house = house.restart()
    channel, _ = house.channel()
    keys = ("stock/us/ibm", "stock.sun", "nostock/ibm", "a" * 255, "\udcff")
    for number, key in enumerate(keys):
        channel.publish(message(str(number), key, "amq.topic", application={"n": number}))
    assert said(house, "some", "big", "hang", "dots") == [["0"], ["2"], [], ["1"]]
    given = {"x-regexp": True, "x-selector": "n > 1"}
    unbind(channel, "big", "amq.topic", "ibm", arguments=given)
    assert house.broker.vhosts["/"].exchanges["amq.topic"].by_key
    unbind(channel, "some", "amq.topic", "^stock/.*(ibm|sun)", arguments={"x-regexp": True})
    channel.publish(message("again", keys[0], "amq.topic"))
    assert said(house, "some", "big") == [[], []]


@pytest.mark.parametrize(
    ("key", "given"),
    [("(", True), (r"(a)\1", True), ("(?=a)", True), ("a{999}{999}", True), ("\udcff", True),
     ("a", "yes"), ("a", 1)],
)  # fmt: skip
def test_invalid_regular_expressions(house: House, key: str, given: Any) -> None:
    channel, _ = house.channel()
    declare(channel)
    with refused(INVALID):
        bind(channel, "q", "amq.topic", key, arguments={"x-regexp": given})


def test_without_an_engine_there_are_no_regular_expressions(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway does not start without those that it has promised."""
    channel, _ = house.channel()
    declare(channel, durable=True)
    bind(channel, "q", "amq.topic", "a", arguments={"x-regexp": True})
    house.commit()
    monkeypatch.setattr("gateway.selector.expressions.re2", None)
    with refused(INVALID, "google-re2"):
        bind(channel, "q", "amq.topic", "b", arguments={"x-regexp": True})
    with pytest.raises(StoreError, match="google-re2"):
        house.restart()


def test_a_durable_binding_does_not_depend_on_transient_parts(house: House) -> None:
    channel, _ = house.channel()
    for durable in (False, True):
        exchange(channel, f"x{durable:d}", "direct", durable=durable)
        declare(channel, f"q{durable:d}", durable=durable)
    for queue, source in (("q0", "x0"), ("q0", "x1"), ("q1", "x1")):
        bind(channel, queue, source, "k", lasting=True)
    with refused(INVALID, "transient"):
        bind(channel, "q1", "x0", "k", lasting=True)
    bind(channel, "q1", "x0", "k")
