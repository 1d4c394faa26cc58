"""Plans: what nodes become on other brokers, and that what is written can be read again."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.bridge.address_inventory import compiled
from gateway.bridge.planning.nodes import Planned
from gateway.bridge.planning.plan import Plan, make_plan
from gateway.bridge.planning.targets import TARGETS
from gateway.config.addresses import AddressRuleSettings
from gateway.importing import Document, read_topology
from tests.app.test_cli import refused, run
from tests.importing.samples import DATA, imported

DEFINITIONS: dict[str, Any] = {
    "vhosts": [{"name": "/"}],
    "users": [{"name": "ann", "password": "p", "tags": [], "scram_sha_256": {}}],
    "policies": [
        {"vhost": "/", "name": "low", "pattern": "", "definition": {"max-length": 50},
         "apply-to": "queues", "priority": 0},
        {"vhost": "/", "name": "orders", "pattern": "^orders", "priority": 5,
         "definition": {"max-length": 100, "overflow": "reject-publish", "message-ttl": 9000}},
        {"vhost": "/", "name": "spare", "pattern": "^shop$", "apply-to": "exchanges",
         "definition": {"alternate-exchange": "amq.fanout"}},
        {"vhost": "/", "name": "bad", "pattern": "(", "definition": {"max-length": 1}},
    ],
    "parameters": [
        {"component": "operator_policy", "name": "top", "vhost": "/",
         "value": {"pattern": "", "definition": {"max-length": 80}, "apply-to": "queues"}},
    ],
    "queues": [
        {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {
            "x-message-ttl": 10_000, "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "dead", "x-queue-type": "quorum", "x-delivery-limit": 4}},
        {"name": "dead", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}},
        {"name": "last", "vhost": "/", "durable": False, "auto_delete": True,
         "arguments": {"x-last-value-key": "k", "x-group-key": "g"}},
    ],
    "exchanges": [
        {"name": "shop", "vhost": "/", "type": "topic", "durable": True, "arguments": {}},
        {"name": "match", "vhost": "/", "type": "headers", "durable": True, "arguments": {}},
    ],
    "bindings": [
        {"source": "shop", "vhost": "/", "destination": "orders", "destination_type": "queue",
         "routing_key": "order.new", "arguments": {"x-selector": "a > 1"}},
        {"source": "shop", "vhost": "/", "destination": "orders", "destination_type": "queue",
         "routing_key": "order.#", "arguments": {}},
    ],
}  # fmt: skip


def planned(target: str) -> tuple[Plan, dict[tuple[str, str], Planned]]:
    made = make_plan(DEFINITIONS, target, None)
    return made, {(one.node.kind, one.node.name): one for one in made.planned}


def missing(one: Planned) -> set[str]:
    return {loss.argument for loss in one.losses}


def test_arguments_with_those_of_policies() -> None:
    _, nodes = planned("artemis")
    arguments = nodes["queue", "orders"].node.arguments
    assert (arguments["x-max-length"], arguments["x-message-ttl"]) == (80, 9000)
    assert arguments["x-overflow"] == "reject-publish"
    assert nodes["queue", "dead"].node.arguments == {"x-max-length": 50}
    assert nodes["exchange", "shop"].node.arguments == {"alternate-exchange": "amq.fanout"}


def test_rabbitmq() -> None:
    made, nodes = planned("rabbitmq")
    assert made.good
    assert missing(nodes["queue", "last"]) == {"x-last-value-key", "x-group-key"}
    assert nodes["queue", "orders"].risk == "none"
    written = json.loads(made.document)
    queues = {one["name"]: one["arguments"] for one in written["queues"]}
    assert queues["last"] == {}
    assert queues["orders"] == DEFINITIONS["queues"][0]["arguments"]
    assert written["policies"] == DEFINITIONS["policies"]
    assert {tuple(one["arguments"]) for one in written["bindings"]} == {()}
    assert "scram_sha_256" not in written["users"][0]


def test_artemis() -> None:
    made, nodes = planned("artemis")
    assert [one.node.name for one in made.unmatched] == ["match"]
    assert not made.good
    assert missing(nodes["queue", "last"]) == {"x-group-key", "auto_delete"}
    back = read_topology([Document("broker.xml", made.document.encode())])
    queues = {one["name"]: one for one in back.definitions["queues"]}
    assert set(queues) == {"orders", "dead", "last"}
    assert not queues["last"]["durable"]
    assert queues["last"]["arguments"] == {
        "x-last-value-key": "k", "x-max-length": 50, "x-overflow": "drop-head",
    }  # fmt: skip
    (policy,) = back.definitions["policies"]
    assert policy["definition"] == {
        "dead-letter-exchange": "", "dead-letter-routing-key": "dead", "delivery-limit": 4,
        "max-length": 80, "overflow": "reject-publish", "message-ttl": 9000,
    }  # fmt: skip
    ways = [
        (one["source"], one["destination"], one["arguments"].get("x-selector"))
        for one in back.definitions["bindings"]
        if one["source"] != "amq.topic"
    ]
    assert ("shop.order.new", "orders", "a > 1") in ways


def test_broker_j() -> None:
    made, nodes = planned("broker-j")
    assert made.good
    assert missing(nodes["queue", "orders"]) == {"x-queue-type"}
    calls = json.loads(made.document)
    assert calls[0] == {
        "method": "PUT",
        "path": "/api/latest/queue/default/default/orders",
        "body": {
            "name": "orders", "durable": True, "maximumMessageTtl": 9000,
            "maximumDeliveryAttempts": 5, "maximumQueueDepthMessages": 80,
            "overflowPolicy": "REJECT", "alternateBinding": {"destination": "dead"},
            "expiryPolicy": "ROUTE_TO_ALTERNATE",
        },
    }  # fmt: skip
    assert calls[-2] == {
        "method": "POST",
        "path": "/api/latest/exchange/default/default/shop/bind",
        "body": {
            "destination": "orders", "bindingKey": "order.new",
            "arguments": {"x-filter-jms-selector": "a > 1"},
        },
    }  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("file", ["broker-j-host.json", "artemis.xml", "qpid-config.txt"])
def test_what_was_imported_has_a_plan(target: str, file: str) -> None:
    definitions = imported(file).definitions
    made = make_plan(definitions, target, None)
    assert made.good
    nodes = sum(len(definitions[kind]) for kind in ("queues", "exchanges", "bindings"))
    assert len(made.planned) == nodes


def test_a_round_trip_by_broker_j() -> None:
    """Its own virtual host, planned and put together from the requests, is imported as before."""
    before = imported("broker-j-host.json").definitions
    calls = json.loads(make_plan(before, "broker-j", None).document)
    host: dict[str, Any] = {"name": "default", "type": "DERBY", "queues": [], "exchanges": []}
    for call in calls:
        kind = call["path"].split("/")[3]
        if call["method"] == "PUT":
            host[f"{kind}s"].append(call["body"])
            continue
        name = call["path"].split("/")[6]
        found = [one for one in host["exchanges"] if one["name"] == name]
        if not found:
            found = [{"name": name, "type": name.removeprefix("amq.")}]
            host["exchanges"] += found
        found[0].setdefault("durableBindings", []).append(call["body"])
    after = read_topology([Document("x", json.dumps(host).encode())]).definitions

    def plain(definitions: dict[str, Any]) -> dict[tuple[str, str], Any]:
        """Without what only the first import adds."""
        return {
            (kind, one.get("name") or one["destination"]): {
                key: value
                for key, value in sorted(one["arguments"].items())
                if key != "x-dead-letter-on-delete"
            }
            for kind in ("queues", "exchanges", "bindings")
            for one in definitions[kind]
        }

    assert plain(after) == plain(before)


RULES = AddressRuleSettings.model_validate(
    {"rules": [
        {"match": {"exchange": "", "key": "{name}"}, "to": "vh.{name}"},
        {"match": {"exchange": "shop", "key": "{key*}"}, "to": "topic.{key*}"},
    ]}
)  # fmt: skip


def test_rules() -> None:
    rules = compiled(RULES)
    made = make_plan(DEFINITIONS, "artemis", rules)
    targets = {(one.node.kind, one.node.place.name): one.target for one in made.planned}
    assert targets["queue", "orders"] == "vh.orders"
    assert targets["binding", "order.new"] == "topic.order.new"
    assert [one.node.name for one in made.unmatched] == ["match"]
    assert "<dead-letter-address>vh.dead</dead-letter-address>" in made.document
    rule = {"match": {"exchange": "", "key": "dead"}, "to": {"exchange": "", "key": "last"}}
    both = AddressRuleSettings.model_validate({"default": "keep", "rules": [rule]})
    made = make_plan(DEFINITIONS, "rabbitmq", compiled(both))
    assert made.collisions == {"last": ["/ dead", "/ last"]}
    assert not made.good
    arguments = json.loads(made.document)["queues"][0]["arguments"]
    assert arguments["x-dead-letter-routing-key"] == "last"


def test_the_command(tmp_path: Path) -> None:
    file, output = tmp_path / "definitions.json", tmp_path / "out.xml"
    file.write_text(json.dumps(DEFINITIONS | {"users": []}))
    done = run("bridge", "plan", "--from", file, "--target", "artemis", "-o", output)
    assert done.returncode == 1
    assert "7 nodes, 1 without a target" in done.stdout
    assert output.read_text().startswith("<configuration")
    source = DATA / "artemis.xml"
    done = run("bridge", "plan", "--from", source, "--target", "broker-j", "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["unmatched"] == 0 and told["collisions"] == {}
    refused(run("bridge", "plan", "--from", file, "--target", "odd"), "no target 'odd'")
    refused(run("bridge", "plan", "--from", tmp_path / "none", "--target", "artemis"), "No such")
    file.write_text('{"queues": [{"vhost": "/"}]}')
    refused(run("bridge", "plan", "--from", file, "--target", "artemis"), "queues.0.name")


def test_exchanges_with_other_names() -> None:
    given = {
        "queues": [
            {"name": "q", "arguments": {"x-dead-letter-exchange": "orders.de"}},
            {"name": "dead", "arguments": {}},
        ],
        "exchanges": [
            {"name": "orders.de", "type": "topic", "arguments": {}},
            {"name": "all", "type": "fanout", "arguments": {"alternate-exchange": "orders.de"}},
        ],
        "bindings": [
            {"source": "orders.de", "destination": "q", "routing_key": "new", "arguments": {}},
            {"source": "all", "destination": "orders.de", "destination_type": "exchange"},
        ],
    }
    rule = {"match": {"exchange": "orders.{land}"}, "to": {"exchange": "{land}.orders"}}
    rules = AddressRuleSettings.model_validate({"default": "keep", "rules": [rule]})
    made = make_plan(given, "rabbitmq", compiled(rules))
    assert made.good
    written = json.loads(made.document)
    assert [one["name"] for one in written["exchanges"]] == ["de.orders", "all"]
    assert written["exchanges"][1]["arguments"] == {"alternate-exchange": "de.orders"}
    assert written["queues"][0]["arguments"] == {"x-dead-letter-exchange": "de.orders"}
    ways = [(one["source"], one["destination"]) for one in written["bindings"]]
    assert ways == [("de.orders", "q"), ("all", "de.orders")]
    calls = json.loads(make_plan(given, "broker-j", compiled(rules)).document)
    assert calls[0]["body"]["alternateBinding"] == {"destination": "de.orders"}
    assert calls[3]["body"]["alternateBinding"] == {"destination": "de.orders"}
    assert calls[4]["path"].endswith("/de.orders/bind")
    assert calls[5]["body"]["destination"] == "de.orders"
    into = {"match": {"exchange": "all", "key": "{k*}"}, "to": {"exchange": "", "key": "dead"}}
    rules = AddressRuleSettings.model_validate({"default": "keep", "rules": [into]})
    found = make_plan(given, "rabbitmq", compiled(rules)).unmatched
    assert [one.node.kind for one in found] == ["exchange", "binding"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-max-priority", "high"), ("x-delivery-limit", "5"), ("x-overflow", ["drop-head"]),
        ("x-max-length", '1" x="'), ("x-dead-letter-routing-key", {}), ("x-message-ttl", 1.5),
    ],
)  # fmt: skip
def test_values_that_no_broker_takes(target: str, name: str, value: Any) -> None:
    arguments = {"x-dead-letter-exchange": "", name: value}
    made = make_plan({"queues": [{"name": "q", "arguments": arguments}]}, target, None)
    (one,) = made.unmatched
    assert (one.target, [loss.argument for loss in one.losses]) == (None, [name])
