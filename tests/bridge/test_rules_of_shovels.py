"""Shovels that change addresses and properties, and keep the time to live."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from gateway.__main__ import cli
from gateway.adapters.methods.content import BASIC, read_header
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import part, pieces
from gateway.adapters.segments.content import SEGMENTS
from gateway.bridge.lifetime import expiring, for_rabbitmq, left_of
from gateway.bridge.preparation import Preparation
from gateway.broker.deadletters import reencoded
from gateway.config.bridge import ShovelDestination
from gateway.errors import ConfigError
from gateway.message import Dialect, ExpiringMessage, Message, Properties
from gateway.operations import Confirm, Publish, SelectConfirms
from tests.bridge.fake_ends import basic, running, settings
from tests.bridge.moving import declare, entered, shovels, taken
from tests.in_memory import joined
from tests.net.running import Running, until

ADDRESSES = {
    "rules": [
        {"match": {"exchange": "orders.{land}"}, "to": {"exchange": "{land}"}},
        {"match": {"key": "reply.{who}"}, "to": "/queues/replies.{who}"},
    ]
}


def prepared(message: Message, **given: Any) -> Message:
    return Preparation(settings(**given)).prepared(message, 1)


def changed(message: Message, *rules: dict[str, Any], **given: Any) -> Properties:
    return prepared(message, properties=list(rules), **given).properties


# --- properties -----------------------------------------------------------------------------------


def test_rename_remove_set_in_this_order() -> None:
    message = basic("", type="t", app_id="old", application={"a": 1, "b": 2, "c": 3})
    found = changed(
        message,
        {
            "rename": {"headers.a": "headers.b", "type": "subject", "app_id": "headers.app"},
            "remove": ["headers.c"],
            "set": {"app_id": "new", "headers.d": True},
        },
    )
    assert found.application == {"b": 1, "app": "old", "d": True, "x-gateway-hops": 1}
    assert (found.type, found.subject, found.app_id) == (None, "t", "new")
    assert message.properties.app_id == "old", "the message at the source stays as it is"


@pytest.mark.parametrize(
    "name, value, attribute, expected",
    [
        ("priority", 7, "priority", 7),
        ("priority", "7", "priority", 7),
        ("expiration", 5000, "ttl", 5000),
        ("delivery_mode", "transient", "durable", False),
        ("delivery_mode", 2, "durable", True),
        ("user_id", "guest", "user_id", b"guest"),
        ("content_type", "text/plain", "content_type", "text/plain"),
        ("reply_to", "there", "reply_to", "there"),
        ("headers.n", 1.5, "application", {"n": 1.5, "x-gateway-hops": 1}),
    ],
)
@pytest.mark.parametrize("dialect", [BASIC, SECTIONS, SEGMENTS], ids=["0-9-1", "1.0", "0-10"])
def test_standard_properties(
    dialect: Dialect, name: str, value: object, attribute: str, expected: object
) -> None:
    """In all forms; the essentials that the broker reads follow."""
    header = dialect.write(Properties(durable=True, message_id="m"))
    message = Message(dialect, header, b"", "", "q", dialect.essentials(header))
    made = prepared(message, properties=[{"set": {name: value}}])
    assert getattr(made.properties, attribute) == expected
    assert made.essentials == dialect.essentials(made.header)
    assert made.properties.message_id == "m"


@pytest.mark.parametrize(
    "old, new, value",
    [
        ("user_id", "headers.user", "guest"),
        ("delivery_mode", "headers.mode", 2),
        ("message_id", "correlation_id", "7"),
        ("message_id", "headers.id", "7"),
        ("priority", "type", "5"),
        ("headers.n", "priority", 8),
    ],
)
def test_values_take_the_type_of_their_new_name(old: str, new: str, value: object) -> None:
    message = basic("", user_id=b"guest", durable=True, message_id="7", priority=5,
                    application={"n": 8})  # fmt: skip
    found = changed(message, {"rename": {old: new}})
    name = new.removeprefix("headers.")
    assert (found.application or {}).get(name, getattr(found, name, None)) == value


BODIES = {
    "data": b"\x00\x53\x75\xa0\x02ab",
    "several data sections": b"\x00\x53\x75\xa0\x02ab\x00\x53\x75\xa0\x01c",
    "long data": b"\x00\x53\x75\xb0\x00\x00\x00\x02ab",
    "value": b"\x00\x53\x77\xa1\x02ab",
    "sequence": b"\x00\x53\x76\x45",
    "none": b"",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_of_1_0_keeps_its_octets(body: bytes) -> None:
    octets = b"\x00\x53\x74\xc1\x07\x02\xa1\x01n\xa1\x01m" + body
    header, payload = part(octets)
    message = Message(SECTIONS, header, payload, "", "q", SECTIONS.essentials(header))
    made = prepared(message, properties=[{"set": {"headers.n": "m", "app_id": "x"}}])
    assert made.properties.app_id == "x"
    assert joined(pieces(made.header, made.body)).endswith(body)
    plain = prepared(message, properties=[{"set": {"headers.n": "m"}}])
    whole = joined(pieces(plain.header, plain.body))
    assert whole == octets


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_message_that_is_written_anew_keeps_its_body(body: bytes) -> None:
    """As a dead letter with further keys, or without the name of its sender."""
    header, payload = part(b"\x00\x53\x74\xc1\x07\x02\xa1\x01n\xa1\x01m" + body)
    message = Message(SECTIONS, header, payload, "", "q", SECTIONS.essentials(header))
    made = reencoded(message, message.properties, "", "other")
    assert joined(pieces(made.header, made.body)).endswith(body)


def test_the_publisher_stays_known() -> None:
    message = basic("", ttl=5000)
    message.user = "guest"
    assert prepared(message, properties=[{"set": {"app_id": "x"}}]).user == "guest"
    assert expiring(message, 1).user == "guest"


def test_rules_apply_where_their_selector_matches() -> None:
    """Each sees what those before it have done; a message that none matches keeps its octets."""
    rules = (
        {"when": "n > 1", "set": {"headers.big": True}},
        {"when": "big", "set": {"priority": 9}},
    )
    assert changed(basic("", application={"n": 2}), *rules).priority == 9
    small = basic("", application={"n": 1})
    made = prepared(small, properties=list(rules))
    assert made.header is small.header


def test_values_have_parts_of_the_address() -> None:
    rule = {"set": {"headers.from": "{queue}: {exchange}/{key}", "app_id": "{land}{{}}"}}
    destination = ShovelDestination.model_validate({"addresses": ADDRESSES})
    message = basic("", "new", "orders.de")
    found = changed(message, rule, destination=destination)
    assert (found.application or {})["from"] == "q: orders.de/new"
    assert found.app_id == "de{}"


def test_headers_of_the_broker_may_be_removed() -> None:
    message = basic("").routed_as("", "q", added_headers={"x-death": [], "x-kept": 1})
    found = changed(message, {"remove": ["headers.x-death"]})
    assert found.application == {"x-kept": 1, "x-gateway-hops": 1}


@pytest.mark.parametrize(
    "rule, told",
    [
        ({"set": {"colour": "red"}}, "neither headers.NAME"),
        ({"remove": ["headers."]}, "neither headers.NAME"),
        ({"set": {"priority": 256}}, "not between 0 and 255"),
        ({"set": {"priority": "high"}}, "invalid literal"),
        ({"set": {"delivery_mode": 3}}, "not 1, 2, persistent"),
        ({"set": {"app_id": "{land}"}}, "no part is called 'land'"),
        ({"rename": {"priority": "colour"}}, "neither headers.NAME"),
    ],
)
def test_wrong_property_rules_are_told(rule: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"shovel a: property rule 1: .*{told}"):
        Preparation(settings(properties=[rule]))


def test_the_command_check_finds_wrong_rules(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(SLOWLY.replace("app_id", "colour"))
    done = CliRunner().invoke(cli, ["check", str(file)])
    assert done.exit_code == 2
    assert "property rule 1: 'colour'" in done.output


def test_a_message_whose_property_cannot_be_set_is_parked() -> None:
    async def run() -> None:
        rule = {"set": {"priority": "{key}"}}
        messages = [basic("good", "5"), basic("bad", "many")]
        async with running(messages, properties=[rule]) as rig:
            await rig.emptied()
            assert rig.destination.bodies == ["good"]
            assert rig.destination.taken[0].essentials.priority == 5
            assert rig.parking.bodies == ["bad"]
            assert "invalid literal" in rig.shovel.info().error

    asyncio.run(run())


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inverse, place, target, reply_to, replies",
    [
        (False, ("orders.de", "k"), ("de", "k"), "reply.me", "/queues/replies.me"),
        (False, ("", "reply.me"), ("", "replies.me"), "elsewhere", "elsewhere"),
        (False, ("orders.de", ""), ("de", ""), "/queues/reply.me", "/queues/replies.me"),
        (True, ("de", "k"), ("orders.de", "k"), "/queues/replies.me", "reply.me"),
        (True, ("", "replies.me"), ("", "reply.me"), "replies.me", "reply.me"),
    ],
)
def test_addresses_and_replies_follow_the_rules(
    inverse: bool, place: tuple[str, str], target: tuple[str, str], reply_to: str, replies: str
) -> None:
    destination = ShovelDestination.model_validate({"addresses": ADDRESSES, "inverse": inverse})
    message = basic("", place[1], place[0], reply_to=reply_to)
    made = prepared(message, destination=destination)
    assert (made.exchange, made.key) == target
    assert made.properties.reply_to == replies


def test_a_message_without_a_target_is_parked() -> None:
    async def run() -> None:
        destination = ShovelDestination.model_validate({"addresses": ADDRESSES})
        messages = [basic("one", "k", "orders.de"), basic("two", "k", "invoices")]
        async with running(messages, destination=destination) as rig:
            await rig.emptied()
            assert rig.destination.bodies == ["one"]
            assert rig.parking.bodies == ["two"]
            assert "no address rule has a target for exchange 'invoices'" in rig.shovel.info().error

    asyncio.run(run())


def test_rules_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('default = "keep"\n[[rules]]\nmatch = { key = "a" }\nto = { key = "b" }\n')
    destination = ShovelDestination(addresses_file=file)
    assert prepared(basic("", "a"), destination=destination).key == "b"
    assert prepared(basic("", "c", "x"), destination=destination).exchange == "x"
    file.write_text('[[rules]]\nmatch = { key = "{" }\nto = { key = "b" }\n')
    with pytest.raises(ConfigError, match="address rule 1"):
        prepared(basic("", "a"), destination=destination)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"addresses": ADDRESSES, "queue": "q"}, "take the place of queue"),
        ({"addresses": ADDRESSES, "addresses_file": "f"}, "in the settings or in a file"),
        ({"inverse": True}, "without address rules"),
    ],
)
def test_wrong_destinations_are_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        ShovelDestination.model_validate(given)


# --- time to live ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [BASIC, SECTIONS, SEGMENTS], ids=["0-9-1", "1.0", "0-10"])
def test_the_remaining_time_is_written(dialect: Dialect) -> None:
    header = dialect.write(Properties(ttl=60_000, message_id="m", priority=3))
    message = Message(dialect, header, b"body", "x", "k", dialect.essentials(header))
    assert left_of(message) == 60_000
    assert left_of(ExpiringMessage(message, 999)) == 999
    made = expiring(message, 1234)
    assert (made.properties.ttl, made.essentials.ttl) == (1234, 1234)
    assert (made.properties.message_id, made.properties.priority) == ("m", 3)
    assert expiring(message, -5).properties.ttl == 1


def test_rabbitmq_gets_no_date_as_an_expiration() -> None:
    """It refuses one that is longer than 32 bits of milliseconds, and would take a date so."""
    now, soon = 1_700_000_000_000, 60_000
    for date, left in ((now + soon, "60000"), (now - soon, "1"), (now * 2, None)):
        header = SECTIONS.write(Properties(absolute_expiry_time=date, message_id="m"))
        message = Message(SECTIONS, header, b"body", "x", "k", SECTIONS.essentials(header))
        made = for_rabbitmq(message, now)
        assert read_header(made.header).expiration == left
        assert (made.exchange, made.key, made.body) == ("x", "k", b"body")
        assert made.properties.absolute_expiry_time == date
        assert made.properties.message_id == "m"
    lively = basic("", ttl=5)
    assert for_rabbitmq(lively, now) is lively


SLOWLY = """
[[shovels]]
name = "slow"
source = { queue = "leaving" }
destination = { queue = "arrived" }

[[shovels.properties]]
when = "n = 0"
set = { app_id = "{queue}" }
"""


def test_the_time_goes_on_behind_a_shovel(tmp_path: Path) -> None:
    """Over queues of this gateway: less is left at the end than the sender gave."""
    file = tmp_path / "gateway.toml"
    file.write_text(SLOWLY)
    given = Properties(ttl=600_000, durable=True, application={"n": 0})
    message = basic("body", "leaving", **given.given())
    with Running(tmp_path, "--config", file) as gateway:
        declare(gateway, "leaving")
        asyncio.run(sent(gateway.port, message))
        until(lambda: "arrived" in shovels(gateway)["slow"]["error"], "waits for its queue")
        declare(gateway, "arrived")
        (found,) = taken(gateway.port, "arrived", 1)
        left = found.message.properties.ttl
        assert left is not None
        assert 0 < left < 600_000
        assert found.message.properties.app_id == "leaving"


async def sent(port: int, message: Message) -> None:
    remote = await entered(port)
    await remote.request(SelectConfirms(1, None))
    remote.send(Publish(1, message, True, False))
    remote.wake()
    assert isinstance(await anext(remote), Confirm)
    await remote.close()
