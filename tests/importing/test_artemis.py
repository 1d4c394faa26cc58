"""broker.xml of Artemis."""

from typing import Any

import pytest

from gateway.importing import Document, ImportFailed, Result, read_topology
from gateway.importing.artemis_settings import Wildcards, octets_of
from tests.importing.samples import arguments, bindings, by_name, imported, told


def core(inside: str, *others: Document) -> Result:
    text = f'<configuration><core xmlns="urn:activemq:core">{inside}</core></configuration>'
    return read_topology([Document("broker.xml", text.encode()), *others])


def settings(inside: str, match: str = "#") -> str:
    return (
        f'<address-settings><address-setting match="{match}">{inside}</address-setting>'
        "</address-settings>"
    )


ORDERS = '<addresses><address name="o"><anycast><queue name="o"/></anycast></address></addresses>'


def test_a_whole_file() -> None:
    users, roles = "artemis-users.properties", "artemis-roles.properties"
    result = imported("artemis.xml", users, roles)
    assert result.format == "artemis"
    policies = by_name(result, "policies")
    assert policies["orders.#"]["pattern"] == r"^orders(\..*)?$"
    assert policies["orders.#"]["definition"] == {
        "dead-letter-exchange": "", "dead-letter-routing-key": "DLQ", "delivery-limit": 4,
        "max-length-bytes": 10 * 2**20, "overflow": "reject-publish",
    }  # fmt: skip
    assert policies["#"]["priority"] < policies["orders.#"]["priority"]
    assert policies["prices.*"]["definition"]["message-ttl"] == 5000
    assert arguments(result, "prices.x") == {"x-last-value-key": "_AMQ_LVQ_NAME"}
    assert arguments(result, "allnews") == {"x-max-length": 5, "x-overflow": "drop-head"}
    assert not by_name(result, "queues")["sub2"]["durable"]
    found = bindings(result)
    for one in (
        ("news.eu", "queue", "sub1", ""), ("amq.topic", "exchange", "news.eu", "news.eu"),
        ("amq.topic", "queue", "allnews", "news.#"), ("news.eu", "queue", "allnews", ""),
        ("orders.all", "exchange", "news.eu", ""), ("orders.all", "queue", "orders.all", ""),
    ):  # fmt: skip
        assert one in found
    conditions = {one["arguments"].get("x-selector") for one in result.definitions["bindings"]}
    assert conditions == {None, "a > 1", "x=1"}
    rights = {one["user"]: one for one in result.definitions["permissions"]}
    assert rights["admin"]["write"] == ".*"
    assert rights["ann"]["write"] == r"^orders(\..*)?$|^amq\.topic$"
    assert by_name(result, "users")["admin"]["password"] == "secret"
    assert "user 'ann' needs a new password" in told(result, "error")


def test_permissions_without_their_files_are_named() -> None:
    result = imported("artemis.xml")
    assert not result.definitions["permissions"]
    assert "line 9: permissions are left out" in told(result, "error")


@pytest.mark.parametrize(
    ("inside", "definition", "text"),
    [
        ("<max-size-bytes>1K</max-size-bytes>", {}, ""),
        ("<max-size-bytes>1K</max-size-bytes><address-full-policy>BLOCK</address-full-policy>",
         {"max-length-bytes": 1024, "overflow": "reject-publish"}, "refused"),
        ("<max-size-messages>7</max-size-messages><address-full-policy>DROP</address-full-policy>",
         {"max-length": 7, "overflow": "drop-head"}, "the oldest"),
        ("<default-ring-size>3</default-ring-size>",
         {"max-length": 3, "overflow": "drop-head"}, ""),
        ("<max-expiry-delay>9</max-expiry-delay>", {"message-ttl": 9}, ""),
        ("<max-delivery-attempts>-1</max-delivery-attempts>", {}, ""),
        ("<redelivery-delay>100</redelivery-delay>", {}, "delivered again at once"),
        ("<odd>1</odd>", {}, "odd of '#' has no equal"),
    ],
)  # fmt: skip
def test_settings(inside: str, definition: dict[str, Any], text: str) -> None:
    result = core(settings(inside))
    found = [one["definition"] for one in result.definitions["policies"]]
    assert found == ([definition] if definition else [])
    assert text in told(result)


def test_queues_by_address_and_by_name() -> None:
    """A policy is found by the name of a queue; its address may have other settings."""
    result = core(
        settings("<max-expiry-delay>5</max-expiry-delay>", "news.#")
        + '<addresses><address name="news.a"><multicast><queue name="sub"/></multicast></address>'
        "</addresses>"
    )
    assert arguments(result, "sub") == {"x-message-ttl": 5}
    assert "'sub': what is set for 'news.a' became its arguments" in told(result)


def test_an_exclusive_divert_and_a_transformer() -> None:
    result = core(
        ORDERS + '<diverts><divert name="d"><address>o</address><forwarding-address>p'
        "</forwarding-address><exclusive>true</exclusive><filter string=\"a=1\"/>"
        "<transformer-class-name>X</transformer-class-name></divert>"
        "<divert><address>news.*</address><forwarding-address>p</forwarding-address></divert></diverts>"
    )  # fmt: skip
    assert ("o", "queue", "p", "") in bindings(result)
    findings = told(result)
    for part in ("is exclusive", "transformer is left out", "queue 'p' is made", "left out"):
        assert part in findings


def test_an_old_configuration() -> None:
    jms = '<jms xmlns="urn:activemq:jms"><queue name="a"/><topic name="t"/></jms>'
    text = f"<configuration>{jms}</configuration>"
    result = read_topology([Document("x", text.encode())], vhost="v")
    assert [(one["vhost"], one["name"]) for one in result.definitions["queues"]] == [("v", "a")]
    assert bindings(result) == {("amq.topic", "exchange", "t", "t")}


WILDCARDS = Wildcards()


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("#", ["a", "a.b"], []),
        ("a.#", ["a", "a.b", "a.b.c"], ["ab", "b.a"]),
        ("a.*", ["a.b"], ["a", "a.b.c"]),
        ("a.*.c", ["a.b.c"], ["a.c", "a.b.b.c"]),
        ("a.#.c", ["a.c", "a.b.c", "a.b.b.c"], ["a", "ac", "a.b"]),
        ("#.c", ["c", "a.c", "a.b.c"], ["xc", "c.a"]),
        ("a.b", ["a.b"], ["aXb"]),
    ],
)
def test_patterns_of_addresses(pattern: str, yes: list[str], no: list[str]) -> None:
    from gateway.broker.policy_patterns import compile_pattern

    expression = compile_pattern(WILDCARDS.expression(pattern))
    for name in (*yes, *no):
        assert expression.matches(name) == (name in yes), name
        assert WILDCARDS.covers(pattern, name) == (name in yes), name


@pytest.mark.parametrize(
    ("text", "octets"),
    [("10", 10), ("10K", 10240), ("1 MiB", 2**20), ("2gb", 2**31), ("-1", None), ("x", None)],
)
def test_sizes(text: str, octets: int | None) -> None:
    assert octets_of(text) == octets


BILLION = (
    '<!DOCTYPE b [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><configuration><core>&c;</core></configuration>'
)
FILES = '<!DOCTYPE b SYSTEM "file:///etc/passwd"><configuration/>'


@pytest.mark.parametrize("text", [BILLION, FILES])
def test_entities_are_refused(text: str) -> None:
    with pytest.raises(ImportFailed, match="document type declaration is refused"):
        read_topology([Document("x", text.encode())])


@pytest.mark.parametrize(
    "text",
    ["<a", "<a/>", "<configuration/>", "<a>" * 100 + "</a>" * 100, "<a>&b;</a>", "<a></b>",
     '<?xml version="1.0" encoding="x"?><a/>', "<"],
)  # fmt: skip
def test_something_else(text: str) -> None:
    with pytest.raises(ImportFailed):
        read_topology([Document("x", text.encode())], "artemis")


LONG = ".".join(["word"] * 100)


def test_names_that_are_too_long_are_not_compared() -> None:
    """The comparison costs the product of their words."""
    users = Document("artemis-users.properties", b"ann = pw")
    roles = Document("artemis-roles.properties", b"r = ann")
    rights = '<permission type="send" roles="r"/>'
    found = core(
        settings("<expiry-delay>1</expiry-delay>", LONG)
        + f'<queues><queue name="q" address="{LONG}"/></queues>'
        + f'<security-settings><security-setting match="{LONG}">{rights}</security-setting>'
        "</security-settings>",
        users,
        roles,
    )
    assert told(found).count("more than 255 octets") == 3
    assert (found.definitions["queues"], found.definitions["policies"]) == ([], [])
    assert found.definitions["permissions"] == []


@pytest.mark.parametrize(
    "inside",
    [
        "<address-settings>{}</address-settings>".format('<address-setting match="a"/>' * 1001),
        "<security-settings>{}</security-settings>".format('<security-setting match="a"/>' * 1001),
        f'<addresses><address name="{"a" * 2_000_000}"/></addresses>',
        f"<!--{'a' * 2_000_000}-->",
    ],
    ids=["settings", "rights", "tag", "comment"],
)
def test_limits(inside: str) -> None:
    with pytest.raises(ImportFailed, match="more than"):
        core(inside)


def test_a_long_text_is_no_tag() -> None:
    assert core(f"<name>{'a' * 2_000_000}</name>").definitions["queues"] == []
