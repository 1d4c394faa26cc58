"""Any JSON, XML or text gives findings or a clear error, and definitions that can be read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.definitions import Definitions
from gateway.importing import FORMATS, Document, ImportFailed, read_topology
from tests.importing.samples import document

NAMES = st.sampled_from(["q", "", "a.b", "amq.topic", "x" * 300, "#", "news.*", "\ud800"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES | st.text()
WORDS = st.sampled_from([
    "name", "type", "queues", "exchanges", "durableBindings", "destination", "bindingKey",
    "alternateBinding", "arguments", "virtualhostnodes", "virtualhosts", "modelVersion", "users",
    "authenticationproviders", "groupproviders", "groups", "groupmembers", "rules", "identity",
    "accesscontrolproviders", "virtualHostInitialConfiguration", "path", "password", "lvqKey",
    "maximumDeliveryAttempts", "maximumMessageTtl", "overflowPolicy", "maximumQueueDepthMessages",
    "messageGroupType", "lifetimePolicy", "priorities", "nodeAutoCreationPolicies", "context",
    "_schema_id", "_class_name", "_values", "altExchange", "queueRef", "exchangeRef", "durable",
    "policies", "bindings", "vhosts", "permissions", "parameters", "attributes", "outcome",
])  # fmt: skip
TYPES = st.sampled_from([
    "direct", "topic", "xml", "lvq", "priority", "Plain", "JSON", "AclFile", "SCRAM-SHA-256",
    "queue", "exchange", "binding", "RING", "REJECT",
])  # fmt: skip
VALUES = st.recursive(
    SCALARS | TYPES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=30,
)
TAGS = st.sampled_from([
    "core", "addresses", "address", "anycast", "multicast", "queue", "filter", "durable", "divert",
    "diverts", "address-settings", "address-setting", "max-size-bytes", "address-full-policy",
    "dead-letter-address", "max-delivery-attempts", "security-settings", "security-setting",
    "permission", "jms", "topic", "forwarding-address", "wildcard-addresses", "queues",
])  # fmt: skip
TEXTS = st.sampled_from(["", "a", "news.#", "10K", "-1", "FAIL", "true", "x" * 300, "&lt;", "5"])
LINES = st.sampled_from([
    "Queue Name  Attributes", "=====", "Type   Exchange Name  Attributes", "Queue 'a'",
    "Exchange 'x' (topic)", "    bind [k] => x {'a': 1}", "    bind [", "a --durable", "topic  x",
    "direct    --replicate=none", "  queue  dur  autoDel  excl", "  exchange  type  dur", "a Y Y",
    "a --max-queue-count=9 --order lvq --argument a", "Queue ''", "Exchange '' ()", "(", "a --x='",
])  # fmt: skip
SOURCES = st.sampled_from(["auto", *FORMATS])


def element(tag: str, attributes: dict[str, str], inner: list[str]) -> str:
    given = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{given}>{''.join(inner)}</{tag}>"


ELEMENTS = st.recursive(
    TEXTS,
    lambda inner: st.builds(
        element,
        TAGS,
        st.dictionaries(st.sampled_from(["name", "match", "type", "roles", "string"]), TEXTS),
        st.lists(inner, max_size=4),
    ),
    max_leaves=30,
)


def check(octets: bytes, source: str, *others: Document) -> None:
    try:
        result = read_topology([Document("x", octets), *others], source)
    except ImportFailed as failed:
        assert str(failed)
        return
    for one in result.findings:
        assert one.text and one.severity in ("info", "warning", "error")
    if result.format != "rabbitmq":  # whose entries are checked where they are applied
        Definitions.model_validate_json(json.dumps(result.definitions))


@given(VALUES, SOURCES)
def test_any_json(value: Any, source: str) -> None:
    check(json.dumps(value).encode(), source)


@given(ELEMENTS, SOURCES)
def test_any_xml(inner: str, source: str) -> None:
    roles = Document("artemis-roles.properties", b"a=u\n10K=u,v")
    users = Document("artemis-users.properties", b"u=p\nv=ENC(x)\n=\n!")
    others = (users, roles) if source == "artemis" else ()
    check(f"<configuration><core>{inner}</core>{inner}</configuration>".encode(), source, *others)


@given(st.lists(LINES, max_size=12), SOURCES)
def test_any_listing(lines: list[str], source: str) -> None:
    check("\n".join(lines).encode(), source)


@given(st.binary() | st.text().map(str.encode), SOURCES)
def test_any_octets(octets: bytes, source: str) -> None:
    check(octets, source)


RECORDED = ("broker-j.json", "broker-j-host.json", "artemis.xml", "qpid-config.txt", "qmf.json")


@given(st.sampled_from(RECORDED), st.integers(0, 9000), st.binary(max_size=3), st.integers(0, 40))
def test_recorded_files_with_a_mistake(name: str, at: int, put: bytes, cut: int) -> None:
    octets = document(name).octets
    check(octets[:at] + put + octets[at + cut :], "auto")


@given(st.text() | st.lists(st.sampled_from(
    ["ACL", "ALLOW", "DENY", "ALL", "GROUP", "a", 'name="x*"', "QUEUE", "\n", "\\\n", '"', "#"]
)).map(" ".join))  # fmt: skip
def test_any_rules(text: str) -> None:
    value = {
        "virtualhostnodes": [{"name": "h", "virtualhosts": [{}]}],
        "authenticationproviders": [{"type": "Plain", "users": [{"name": "a", "password": "p"}]}],
        "accesscontrolproviders": [{"type": "AclFile", "path": "x"}],
    }
    rules = Document("acl", text.encode())
    check(json.dumps(value).encode(), "broker-j", rules)


@pytest.mark.parametrize("source", ["auto", *FORMATS])
def test_deep_and_double(source: str) -> None:
    for octets in (b"[" * 100_000, b'{"a":' * 50 + b"1" + b"}" * 50, b'{"queues":[],"queues":[]}',
                   b'{"a": NaN}', b"\xff\xfe", b"<a>" * 10_000):  # fmt: skip
        with pytest.raises(ImportFailed):
            read_topology([Document("x", octets)], source)
