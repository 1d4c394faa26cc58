"""Configuration of Broker-J. The recorded files were written by Broker-J 9.2 itself."""

import base64
import json
from typing import Any

import pytest

from gateway.importing import Document, ImportFailed, Result, read_topology
from gateway.importing.access_rules import read_rules
from gateway.importing.topology import Topology
from tests.importing.samples import arguments, bindings, by_name, imported, told


def host(**given: Any) -> Result:
    value = {"name": "h", "type": "DERBY", "modelVersion": "9.1"} | given
    return read_topology([Document("h.json", json.dumps(value).encode())])


def queue(**given: Any) -> tuple[dict[str, Any], str]:
    """The definition of a queue, and the findings."""
    result = host(queues=[{"name": "q"} | given])
    return result.definitions["queues"][0], told(result)


def test_a_recorded_virtual_host() -> None:
    result = imported("broker-j-host.json")
    assert result.format == "broker-j"
    assert arguments(result, "orders") == {
        "x-max-length": 100,
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        "x-dead-letter-on-delete": True,
    }
    assert arguments(result, "prices") == {"x-last-value-key": "symbol"}
    assert arguments(result, "ranked") == {"x-priority-levels": 5}
    assert by_name(result, "queues")["ttl"]["auto_delete"]
    assert bindings(result) == {
        ("shop", "queue", "orders", "order.#"),
        ("amq.topic", "queue", "prices", "price.#"),
        ("shop.alternate", "queue", "dead", ""),
    }
    (selected,) = (one for one in result.definitions["bindings"] if one["source"] == "amq.topic")
    assert selected["arguments"] == {"x-selector": "a > 1"}
    shop = by_name(result, "exchanges")["shop"]
    assert (shop["type"], shop["arguments"]) == ("topic", {"alternate-exchange": "shop.alternate"})
    assert "/queues/4: queue 'sorted': sorted by the header 'k'" in told(result, "warning")


def test_a_recorded_broker_with_its_other_files() -> None:
    result = imported("broker-j.json", "broker-j-acl.txt", "broker-j-host.json")
    assert set(by_name(result, "queues")) == {
        "orders", "dead", "prices", "ranked", "sorted", "ttl",
    }  # fmt: skip
    users = by_name(result, "users")
    assert (users["guest"]["password"], users["ann"]["password"]) == ("guest", "open")
    rights = {one["user"]: one for one in result.definitions["permissions"]}
    assert rights["ann"] == {
        "user": "ann", "vhost": "default", "configure": ".*", "write": ".*", "read": ".*",
    }  # fmt: skip
    assert not told(result, "error")


def test_the_broker_alone_names_what_is_missing() -> None:
    errors = told(imported("broker-j.json"), "error")
    assert "/virtualhostnodes/0: the virtual host's queues are not in this file" in errors
    assert "/accesscontrolproviders/0: access rules are in" in errors


def test_a_virtual_host_within_its_node() -> None:
    inner = {"queues": [{"name": "q"}]}
    value = {"virtualhostnodes": [
        {"name": "a", "virtualHostInitialConfiguration": json.dumps(inner)},
        {"name": "b", "virtualhosts": [{"queues": [{"name": "r"}]}]},
        {"name": "c", "virtualHostInitialConfiguration": "{"},
    ]}  # fmt: skip
    result = read_topology([Document("x", json.dumps(value).encode())])
    found = {(one["vhost"], one["name"]) for one in result.definitions["queues"]}
    assert found == {("a", "q"), ("b", "r")}
    assert "/virtualhostnodes/2/virtualHostInitialConfiguration: not JSON" in told(result)


def test_verifiers_of_scram() -> None:
    salt, stored, server = (
        base64.b64encode(part).decode() for part in (b"s", b"k" * 32, b"v" * 32)
    )
    users = [{"name": "ann", "password": f"{salt},,{stored},{server},4096"}]
    other = [{"name": "bob", "password": "5f4dcc"}]
    value = {"authenticationproviders": [
        {"name": "s", "type": "SCRAM-SHA-256", "users": users},
        {"name": "m", "type": "MD5", "users": other},
    ]}  # fmt: skip
    result = read_topology([Document("x", json.dumps(value).encode())])
    ann = by_name(result, "users")["ann"]
    assert ann["scram_sha_256"] == {
        "salt": salt, "stored_key": stored, "server_key": server, "iterations": 4096,
    }  # fmt: skip
    assert "password" not in by_name(result, "users")["bob"]
    assert "user 'bob' needs a new password" in told(result, "error")


@pytest.mark.parametrize(
    ("given", "wanted", "text"),
    [
        ({"maximumQueueDepthBytes": 9, "overflowPolicy": "RING"},
         {"x-max-length-bytes": 9, "x-overflow": "drop-head"}, ""),
        ({"maximumQueueDepthBytes": 9}, {}, ""),
        ({"maximumQueueDepthBytes": 9, "overflowPolicy": "FLOW_TO_DISK"}, {}, "paged"),
        ({"maximumQueueDepthMessages": 9, "overflowPolicy": "PRODUCER_FLOW_CONTROL"}, {},
         "no limit"),
        ({"maximumMessageTtl": "5000"}, {"x-message-ttl": 5000}, ""),
        ({"maximumMessageTtl": 2**40}, {"x-message-ttl": 2**32 - 1}, ""),
        ({"maximumDeliveryAttempts": 3},
         {"x-queue-type": "quorum", "x-delivery-limit": 2}, "quorum"),
        ({"maximumDeliveryAttempts": 3, "type": "lvq"}, {"x-last-value-key": "qpid.LVQ_key"},
         "maximumDeliveryAttempts needs"),
        ({"messageGroupType": "SHARED_GROUPS"}, {"x-group-key": "JMSXGroupID"}, ""),
        ({"messageGroupKey": "g"}, {"x-group-key": "g", "x-group-sticky": True}, ""),
        ({"ensureNondestructiveConsumers": True, "noLocal": "true"},
         {"x-browse-only": True, "x-no-local": True}, ""),
        ({"maximumLiveConsumers": 1}, {"x-single-active-consumer": True}, ""),
        ({"exclusive": "CONTAINER"}, {}, "exclusive CONTAINER is left out"),
        ({"lifetimePolicy": "DELETE_ON_SESSION_END"}, {}, "last consumer"),
        ({"holdOnPublishEnabled": True}, {}, "holdOnPublishEnabled has no equal"),
        ({"alternateBinding": {"destination": "amq.fanout"}},
         {"x-dead-letter-exchange": "amq.fanout", "x-dead-letter-on-delete": True}, "expired"),
        ({"type": "odd"}, {}, "not known"),
    ],
)  # fmt: skip
def test_attributes_of_a_queue(given: dict[str, Any], wanted: dict[str, Any], text: str) -> None:
    made, findings = queue(**given)
    assert made["arguments"] == wanted
    assert text in findings


def test_an_alternate_of_a_predeclared_exchange_is_a_policy() -> None:
    result = host(
        queues=[{"name": "dead"}],
        exchanges=[
            {"name": "amq.topic", "type": "topic", "alternateBinding": {"destination": "dead"}}
        ],
    )
    (policy,) = result.definitions["policies"]
    assert policy["pattern"] == r"^amq\.topic$"
    assert policy["definition"] == {"alternate-exchange": "amq.topic.alternate"}


RULES = """
GROUP crew ann bob
group boss crew
ACL ALLOW ann CONSUME QUEUE name="orders.*"
ACL ALLOW crew PUBLISH EXCHANGE name="shop" \\
   routingKey="a"
ACL DENY bob CREATE QUEUE name="x"
ACL ALLOW bob CREATE QUEUE
acl allow ann access virtualhost
ACL ALLOW cid MANAGE BROKER
ACL DENY-LOG ALL ALL ALL
ACL ALLOW cid ALL ALL
nonsense
ACL ALLOW "open
"""


def test_access_rules() -> None:
    users = [{"name": name, "password": "p"} for name in ("ann", "bob", "cid")]
    value = {
        "virtualhostnodes": [{"name": "h", "virtualhosts": [{}]}],
        "authenticationproviders": [{"name": "p", "type": "Plain", "users": users}],
        "accesscontrolproviders": [
            {"type": "AclFile", "path": "data:;base64," + base64.b64encode(RULES.encode()).decode()}
        ],
    }
    result = read_topology([Document("x", json.dumps(value).encode())])
    rights = {one["user"]: one for one in result.definitions["permissions"]}
    assert rights["ann"]["read"] == r"^orders\..*$"
    assert (rights["ann"]["write"], rights["ann"]["configure"]) == ("^shop$", "")
    assert (rights["bob"]["write"], rights["bob"]["configure"]) == ("^shop$", ".*")
    assert "cid" not in rights
    findings = told(result)
    for part in (
        "a rule that forbids 'x' to bob",
        "not a rule: 'nonsense'",
        "not a rule: No closing",
    ):
        assert part in findings


def test_rules_that_allow_what_they_do_not_name() -> None:
    value = {
        "virtualhostnodes": [{"name": "h", "virtualhosts": [{}]}],
        "authenticationproviders": [{"type": "Plain", "users": [{"name": "a", "password": "p"}]}],
        "accesscontrolproviders": [{"type": "AclFile", "path": "x"}],
    }
    for text, read in (("CONFIG DEFAULTPERMIT=true", ".*"), ("CONFIG DEFAULTDENY=true", "^q$")):
        rules = Document("acl", f"{text}\nACL ALLOW a CONSUME QUEUE name=q\n".encode())
        result = read_topology([Document("x", json.dumps(value).encode()), rules])
        (right,) = result.definitions["permissions"]
        assert right["read"] == read


def test_rules_as_objects_and_no_rules() -> None:
    base = {
        "virtualhostnodes": [{"name": "h", "virtualhosts": [{}]}],
        "authenticationproviders": [
            {"name": "p", "type": "Plain", "users": [{"name": "ann", "password": "p"}]}
        ],
    }
    rule = {"identity": "ann", "objectType": "QUEUE", "operation": "CONSUME",
            "attributes": {"NAME": "q*"}, "outcome": "ALLOW_LOG"}  # fmt: skip
    for more, read in (
        ({}, ".*"),
        ({"accesscontrolproviders": [{"type": "AllowAll"}]}, ".*"),
        ({"accesscontrolproviders": [{"type": "RuleBased", "rules": [rule]}]}, "^q.*$"),
        (
            {
                "accesscontrolproviders": [
                    {"type": "RuleBased", "rules": [rule], "defaultResult": "ALLOWED"}
                ]
            },
            ".*",
        ),
    ):
        result = read_topology([Document("x", json.dumps(base | more).encode())])
        (right,) = result.definitions["permissions"]
        assert right["read"] == read


@pytest.mark.parametrize("value", [{"a": 1}, [], 5, {"queues": []}])
def test_something_else(value: Any) -> None:
    with pytest.raises(ImportFailed):
        read_topology([Document("x", json.dumps(value).encode())], "broker-j")


def test_rules_over_many_lines() -> None:
    """Each line is looked at once, however many go on."""
    topology = Topology()
    rules, _ = read_rules(topology, "ACL ALLOW ann \\\n" + "\\\n" * 200_000 + "ALL ALL", "rules")
    assert [(one.who, one.operation, one.kind) for one in rules] == [("ann", "all", "all")]
    assert topology.findings == []


def test_a_virtual_host_within_a_node_is_strict_json() -> None:
    for text in ('{"name": NaN}', '{"name": "a", "name": "b"}', "[" * 100 + "]" * 100, "[]"):
        node = {"name": "n", "type": "JSON", "virtualHostInitialConfiguration": text}
        value = {"virtualhostnodes": [node]}
        result = read_topology([Document("b.json", json.dumps(value).encode())])
        errors = [one for one in result.findings if one.severity == "error"]
        assert errors[0].place.endswith("virtualHostInitialConfiguration"), text
