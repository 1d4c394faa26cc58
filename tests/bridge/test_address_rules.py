"""Address rules: both ways, what is ambiguous in them, and the dry run."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gateway.__main__ import cli
from gateway.bridge.address_inventory import compiled, read_inventory
from gateway.bridge.address_patterns import ADDRESS, FIELD, Pattern, common, read_twice
from gateway.bridge.address_rules import AddressRules, Finding, Place, PlacePattern, Rule
from gateway.bridge.places import Places
from gateway.config.addresses import AddressRuleSettings, read_address_rules
from gateway.errors import ConfigError


def rules(*given: dict[str, Any], default: str = "deny") -> AddressRules:
    return compiled(AddressRuleSettings.model_validate({"rules": given, "default": default}))


QUEUES = {"match": {"key": "{q*}"}, "to": "/queues/{q*}"}
TOPIC = {
    "match": {"exchange": "amq.topic", "key": "{k...}"},
    "to": "/exchanges/amq.topic/{k}",
}
ORDERS = {
    "match": {"exchange": "orders.{land}", "key": "{k...}"},
    "to": {"exchange": "{land}", "key": "orders.{k...}"},
}


@pytest.mark.parametrize(
    "rule, place, target",
    [
        (QUEUES, Place("", "orders"), Place(None, "/queues/orders")),
        (TOPIC, Place("amq.topic", "a/b c.ü"),
         Place(None, "/exchanges/amq.topic/a%2Fb%20c.%C3%BC")),
        (ORDERS, Place("orders.de", "new.big"), Place("de", "orders.new.big")),
        ({"match": "orders/{k...}", "to": "v2/{k...}"}, Place(None, "orders/a/b"),
         Place(None, "v2/a/b")),
        ({"match": {"key": "{q...}"}, "to": "app::{q...}", "encoded": False}, Place("", "a b%20/c"),
         Place(None, "app::a b%20/c")),
        ({"match": {"key": r"\{a\*\#{x}"}, "to": {"key": "{x}\\\\"}}, Place("", "{a*#1"),
         Place("", "1\\")),
    ],
)  # fmt: skip
def test_both_ways(rule: dict[str, Any], place: Place, target: Place) -> None:
    made = rules(rule)
    found = made.translate(place)
    assert found is not None
    assert found.target == target
    assert made.inverse(target) == place


@pytest.mark.parametrize(
    "rule, place",
    [
        (ORDERS, Place("orders.de.old", "k")),
        (ORDERS, Place("orders.de", "")),
        (ORDERS, Place(None, "orders.de")),
        ({"match": "orders/{k}", "to": "{k}"}, Place(None, "orders/a/b")),
        ({"match": "orders/{k}", "to": "{k}"}, Place(None, "orders/a b")),
        ({"match": "orders/{k}", "to": "{k}"}, Place(None, "orders/%61")),
        ({"match": "orders/{k}", "to": "{k}"}, Place(None, "orders/%ff")),
    ],
)
def test_what_does_not_match(rule: dict[str, Any], place: Place) -> None:
    assert rules(rule).translate(place) is None
    kept = rules(rule, default="keep")
    found = kept.translate(place)
    assert found is not None
    assert (found.target, found.rule) == (place, 0)
    assert kept.inverse(place) == place


@pytest.mark.parametrize(
    ("address", "place"),
    [("mails", ("", "mails")), ("topic.shop.new", ("shop", "new"))],
)
def test_clients_see_the_names_that_they_know(address: str, place: tuple[str, str]) -> None:
    """Of deliveries from a broker whose addresses are names."""
    places = Places(
        rules(
            {
                "match": {"exchange": "{exchange}", "key": "{key*}"},
                "to": "topic.{exchange}.{key*}",
                "encoded": False,
            },
            {"match": {"key": "{queue...}"}, "to": "{queue...}"},
        )
    )
    assert places.there(*place) == ("", address)
    assert places.here("", address) == place


def test_the_first_rule_wins_and_its_targets_only_lead_back() -> None:
    made = rules(
        {"match": {"key": "orders"}, "to": {"key": "bestellungen"}},
        {"match": {"key": "{q}"}, "to": {"key": "{q}"}},
    )
    assert made.inverse(Place("", "bestellungen")) == Place("", "orders")
    assert made.inverse(Place("", "invoices")) == Place("", "invoices")
    assert made.inverse(Place("", "orders")) is None, "orders leads elsewhere"
    assert [one.kind for one in made.check()] == ["overlap", "collision"]


@pytest.mark.parametrize(
    "made, kinds, told",
    [
        ([QUEUES, TOPIC, ORDERS], [], ""),
        ([{"match": {"key": "a.*"}, "to": {"key": "b"}}], ["one-way"], "* and #"),
        ([{"match": {"key": "a.{x}"}, "to": {"key": "b"}}], ["one-way"], "{x} is lost"),
        ([{"match": {"key": "{a}.{b}"}, "to": {"key": "{a}-{b}"}}], ["one-way"], "two ways"),
        ([{"match": {"key": "{k...}"}, "to": {"key": "x.{k}"}}], ["one-way"], "'a.b' cannot"),
        ([{"match": {"key": "{k*}"}, "to": "/q/{k}"}], ["one-way"], "'' cannot"),
        ([{"match": {"key": "a.{x}"}, "to": {"key": "{x}"}},
          {"match": {"key": "{y}.b"}, "to": {"exchange": "e", "key": "{y}"}}],
         ["overlap"], "both match a.b"),
        ([{"match": {"exchange": "a", "key": "{x}"}, "to": {"key": "{x}"}},
          {"match": {"exchange": "b", "key": "{x}"}, "to": {"key": "{x}"}}],
         ["collision"], "both may lead to a"),
    ],
)  # fmt: skip
def test_what_is_ambiguous(made: list[dict[str, Any]], kinds: list[str], told: str) -> None:
    found = rules(*made).check()
    assert [one.kind for one in found] == kinds
    assert all(told in one.text for one in found)


@pytest.mark.parametrize(
    "rule, told",
    [
        ({"match": {"key": "{a}"}, "to": {"key": "{b}"}}, "the target has {b}"),
        ({"match": {"key": "*"}, "to": {"key": "*"}}, "a part without a name"),
        ({"match": {"key": "{a"}, "to": {"key": "b"}}, "stands alone"),
        ({"match": {"key": "{a b}"}, "to": {"key": "b"}}, "should be"),
        ({"match": {"exchange": "{a}", "key": "{a}"}, "to": {"key": "b"}}, "same name"),
        ({"match": {"key": "{a}{a}"}, "to": {"key": "b"}}, "same name"),
        ({"match": {"key": "*" * 17}, "to": {"key": "b"}}, "more than 16 parts"),
    ],
)
def test_wrong_rules_are_told(rule: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match="rule 1: .*") as found:
        rules(rule)
    assert told in str(found.value)


@pytest.mark.parametrize(
    "address, routing",
    [
        ("/queues/a%2Fb", ("", "a/b")),
        ("/exchanges/x%20y/k", ("x y", "k")),
        ("/exchanges/x", ("x", "")),
        ("orders/eu", ("", "orders/eu")),
        ("/queues/a/b", ("", "/queues/a/b")),
    ],
)
def test_the_exchange_and_key_of_an_address(address: str, routing: tuple[str, str]) -> None:
    assert Place(None, address).routing == routing
    assert Place("x", "k").routing == ("x", "k")


# --- properties -----------------------------------------------------------------------------------

PART = st.sampled_from(["{a}", "{b...}", "{c*}", "{d}"])
LITERAL = st.sampled_from(["x", "a", ".", "-", "/", ":", "a.", "%41"])
TEXT = st.text("ax.-/%: ü", max_size=6)
NAMES = st.lists(PART | LITERAL, min_size=1, max_size=4, unique=True).map("".join)


@st.composite
def place_patterns(draw: st.DrawFn, parts: str = "") -> PlacePattern:
    exchange = draw(st.none() | st.sampled_from(["", "x", "x.a"]))
    name = parts or draw(NAMES)
    return PlacePattern(exchange, name, draw(st.booleans()))


@st.composite
def some_rules(draw: st.DrawFn) -> AddressRules:
    made = []
    for _ in range(draw(st.integers(1, 3))):
        match = draw(place_patterns())
        named = [
            one.replace("}", f"{suffix}}}")
            for one in (f"{{{name}}}" for name in match.parts)
            for suffix in [draw(st.sampled_from(["", "...", "*"]))]
        ]
        literals = draw(st.lists(LITERAL, max_size=len(named) + 1))
        pieces = draw(st.permutations(named + literals))
        made.append(Rule(match, draw(place_patterns("".join(pieces) or "t"))))
    return AddressRules(made, draw(st.booleans()))


@st.composite
def matching(draw: st.DrawFn, made: AddressRules) -> Place:
    """A place, likely one that a rule matches."""
    rule = draw(st.sampled_from(made.rules))
    return rule.match.write({name: draw(TEXT) for name in rule.match.parts})


@given(st.data())
def test_what_leads_back_is_where_it_came_from(data: st.DataObject) -> None:
    """Whatever the rules: a place that a target leads back to has that target. And if the check
    finds nothing ambiguous, all targets lead back."""
    made = data.draw(some_rules())
    place = data.draw(matching(made))
    found = made.translate(place)
    assume(found is not None)
    assert found is not None
    back = made.inverse(found.target)
    if back is not None:
        again = made.translate(back)
        assert again is not None
        assert again.target == found.target
    if not made.check() and not made.keep:
        assert back == place


@given(
    st.sampled_from(["{a}.{b}", "{a...}/{b}", "{a}/{b...}", "{a...}:{b...}", "{a}.{b*}"]),
    st.sampled_from(["", "-", ".", "/", ":"]),
    st.permutations(["{a}", "{b...}", "{b*}", "{a...}"]),
    st.booleans(),
    st.sampled_from([None, "x"]),
    st.lists(st.text("a-./:", min_size=1, max_size=3), min_size=2, max_size=2),
)
def test_a_rule_that_is_not_one_way_has_a_way_back(
    match: str,
    between: str,
    parts: list[str],
    encoded: bool,
    exchange: str | None,
    values: list[str],
) -> None:
    """With two parts, in all orders and separations."""
    first = parts[0]
    second = next(one for one in parts if one[1] != first[1])
    made = AddressRules(
        [Rule(PlacePattern("", match), PlacePattern(exchange, first + between + second, encoded))]
    )
    place = made.rules[0].match.write(dict(zip("ab", values, strict=True)))
    found = made.translate(place)
    if found is not None and not made.check():
        assert made.inverse(found.target) == place


@given(st.data())
def test_the_check_sees_every_overlap_and_collision(data: st.DataObject) -> None:
    made = data.draw(some_rules())
    place = data.draw(matching(made))
    takers = [n for n, rule in enumerate(made.rules, 1) if rule.match.match(place) is not None]
    seen = {one.rules for one in made.check() if one.kind == "overlap"}
    assert all((one, two) in seen for one in takers for two in takers if one < two)
    found = made.translate(place)
    if found is not None and found.rule:
        seen = {one.rules for one in made.check() if one.kind == "collision"}
        for number, rule in enumerate(made.rules, 1):
            if number != found.rule and rule.to.match(found.target) is not None:
                assert (min(number, found.rule), max(number, found.rule)) in seen


@given(NAMES, NAMES)
def test_a_common_text_is_matched_by_both(one: str, other: str) -> None:
    for form in (FIELD, ADDRESS):
        first, second = Pattern(one, form), Pattern(other, form)
        text = common(first, second)
        if text is not None and "%" not in text:
            assert first.match(text) is not None
            assert second.match(text) is not None


@given(NAMES, TEXT, TEXT)
def test_a_pattern_that_is_not_read_twice_gives_its_values_back(
    text: str, one: str, other: str
) -> None:
    pattern = Pattern(text, FIELD)
    values = dict(zip(pattern.parts, (one, other, one, other), strict=False))
    if read_twice(pattern) is None and all(pattern.takes(*each) for each in values.items()):
        assert pattern.match(pattern.write(values)) == values


# --- inventories and the command ------------------------------------------------------------------

DEFINITIONS = {
    "queues": [{"name": "orders", "vhost": "/"}, {"name": "a b", "vhost": "other"}],
    "exchanges": [{"name": "lonely", "vhost": "/"}, {"name": "amq.topic", "vhost": "/"}],
    "bindings": [
        {"source": "amq.topic", "vhost": "/", "destination": "orders", "routing_key": "new.#"}
    ],
}
RULES = """
[[rules]]
match = { key = "{q...}" }
to = "/queues/{q}"

[[rules]]
match = { exchange = "amq.topic", key = "{k...}" }
to = "/exchanges/amq.topic/{k}"
"""


def test_inventories(tmp_path: Path) -> None:
    file = tmp_path / "inventory.json"
    file.write_text(json.dumps(DEFINITIONS))
    found = [Place("", "orders"), Place("amq.topic", "new.#"), Place("lonely", "")]
    assert read_inventory(file, "/") == found
    assert Place("", "a b") in read_inventory(file)
    listed = ["orders/eu", {"queue": "q"}, {"exchange": "x", "key": "k"}, {"address": "/queues/z"}]
    file.write_text(json.dumps({"addresses": listed}))
    places = [Place(None, "orders/eu"), Place("", "q"), Place("x", "k"), Place(None, "/queues/z")]
    assert read_inventory(file) == places
    seen = [
        {"vhost": "/", "kind": "queue", "name": "q"},
        {"vhost": "/", "kind": "exchange", "name": "x"},
        {"vhost": "/", "kind": "exchange", "name": ""},
        {"vhost": "/", "kind": "queue", "name": "(named by the broker)"},
        {"vhost": "other", "kind": "address", "name": "orders/eu"},
    ]
    file.write_text(json.dumps({"format": 1, "nodes": seen}))
    assert read_inventory(file) == [Place("", "q"), Place("x", ""), Place(None, "orders/eu")]
    assert read_inventory(file, "other") == [Place(None, "orders/eu")]
    for wrong in ("{}", '{"nodes": [{}]}', "[1]", "[{}]", "nothing", '{"queues": [{"name": 5}]}'):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=r"inventory\.json"):
            read_inventory(file)


def ask(folder: Path, inventory: object, *options: str, rules: str = RULES) -> tuple[int, str]:
    (folder / "rules.toml").write_text(rules)
    (folder / "inventory.json").write_text(json.dumps(inventory))
    files = ["--rules", str(folder / "rules.toml"), "--against", str(folder / "inventory.json")]
    done = CliRunner().invoke(cli, ["bridge", "addresses", *files, *options])
    return done.exit_code, done.output


def test_the_command_shows_targets_and_fails_for_those_without(tmp_path: Path) -> None:
    code, output = ask(tmp_path, DEFINITIONS)
    assert code == 1
    assert "/queues/a%20b" in output
    assert "no target: exchange 'lonely' key ''" in output
    code, output = ask(tmp_path, [{"queue": "orders"}])
    assert code == 0
    assert "/queues/orders" in output


def test_the_command_as_json(tmp_path: Path) -> None:
    same = '[[rules]]\nmatch = { key = "{q}.*" }\nto = { key = "{q}" }\n'
    inventory = [{"queue": "a.b"}, {"queue": "a.c"}, {"queue": "d.e"}, "elsewhere"]
    code, output = ask(tmp_path, inventory, "--json", rules=same)
    found = json.loads(output)
    assert code == 1
    assert found["collisions"] == {"a": ["a.b", "a.c"]}
    assert found["unmatched"] == ["elsewhere"]
    assert [one["returns"] for one in found["addresses"]] == [False] * 3
    assert [one["kind"] for one in found["findings"]] == ["one-way"]


@pytest.mark.parametrize("wrong", ["[[rules]]\nmatch = 5", "rules = [", "misspelt = 1", None])
def test_a_wrong_file_of_rules_is_told(tmp_path: Path, wrong: str | None) -> None:
    file = tmp_path / "rules.toml"
    if wrong is not None:
        file.write_text(wrong)
    with pytest.raises(ConfigError, match=r"rules\.toml: "):
        read_address_rules(file)


def test_findings_are_as_documents() -> None:
    assert Finding("overlap", (1, 2), "text")._asdict()["rules"] == (1, 2)
