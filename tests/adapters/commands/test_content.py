"""The message header and the canonical properties: nothing of other versions is lost in it."""

from typing import Any

import pytest
from hypothesis import given, settings

from gateway.adapters.commands import types as fields
from gateway.adapters.commands.content import COMMAND, MORE, fitting, least, read_header
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.adapters.performatives.content import SECTIONS
from gateway.crossing.crossing import Crossing
from gateway.message import DIALECTS, Essentials, Message, Properties
from gateway.values import Int, Scaled, Seconds
from tests.adapters.methods.test_content import FOREIGN, WIRE
from tests.drawing import examples


def plain(properties: Properties) -> Properties:
    """What this header cannot leave unsaid: persistence, and a priority."""
    properties.durable = bool(properties.durable)
    properties.priority = 4 if properties.priority is None else properties.priority
    if properties.body_kind == "data":
        properties.body_kind = None
    return properties


@given(FOREIGN)
@settings(max_examples=examples(100), deadline=None)
def test_foreign_properties_survive(properties: Properties) -> None:
    back = COMMAND.read(COMMAND.write(properties))
    expected = plain(Properties(**properties.given()))
    if expected.absolute_expiry_time is None and back.absolute_expiry_time is not None:
        # Created plus time to live is a date, which is all that this header has.
        assert expected.ttl is not None and expected.creation_time is not None
        back.absolute_expiry_time = None
    if not expected.application:
        expected.application = back.application = None
    assert back == expected


@given(WIRE)
@settings(max_examples=examples(80), deadline=None)
def test_headers_of_0_9_1_come_back(wire: BasicProperties) -> None:
    given_ = BASIC.read(write_basic_properties(wire))
    back = BASIC.read(BASIC.write(COMMAND.read(COMMAND.write(given_))))
    expected = plain(Properties(**given_.given()))
    for one in (back, expected):
        one.application = one.application or None
        if given_.absolute_expiry_time is None:
            one.absolute_expiry_time = None
    assert back == expected


def test_ours_goes_to_1_0_and_back() -> None:
    properties = Properties(
        durable=True,
        priority=9,
        content_type="text/plain",
        content_encoding="binary",
        message_id="m1",
        absolute_expiry_time=1_112_140_800_000,
        application={"TEXT": "x", "COUNT": Int(-7), "PRICE": Scaled(2, 19995), "WHEN": Seconds(5)},
    )
    header = COMMAND.write(properties)
    assert MORE.encode() not in header
    through = SECTIONS.read(SECTIONS.write(COMMAND.read(header)))
    back = COMMAND.read(COMMAND.write(through))
    for name in ("durable", "priority", "content_type", "message_id", "absolute_expiry_time"):
        assert getattr(back, name) == getattr(properties, name)
    assert back.application is not None and back.application["TEXT"] == "x"
    assert back.application["COUNT"] == -7


def test_essentials() -> None:
    assert DIALECTS["0.8a2"] is COMMAND
    header = COMMAND.write(Properties(durable=True, priority=9, application={"A": "x"}))
    assert COMMAND.essentials(header) == Essentials(True, 9, has_headers=True)
    assert COMMAND.essentials(COMMAND.write(Properties())) == Essentials(False, 4)
    copies = COMMAND.write(Properties(application={"CC": "nobody"}))
    assert not COMMAND.essentials(copies).has_headers, "a text of that name means no copies"


def test_what_a_peer_must_know_to_answer_is_named() -> None:
    header = COMMAND.write(Properties(reply_to="back", correlation_id="c"))
    table = fields.read_table(read_header(header).headers)
    assert table == {"REPLY_TO": "back", "CORRELATION_ID": "c"}
    clash = Properties(reply_to="back", application={"REPLY_TO": "theirs"})
    assert COMMAND.read(COMMAND.write(clash)) == plain(Properties(**clash.given()))


def test_least() -> None:
    header = COMMAND.write(Properties(message_id="m", application={"A": "x"}))
    assert COMMAND.read(least(header)) == Properties(durable=False, priority=4, message_id="m")


def test_the_last_fields_give_way_where_the_reader_has_no_room() -> None:
    header = COMMAND.write(Properties(message_id="m", application={"A": "x", "B": "y"}, ttl=5))
    for limit in range(len(least(header)), len(header) + 1):
        fit = fitting(header, limit)
        assert len(fit) <= limit and COMMAND.essentials(fit)
    shown = COMMAND.read(fitting(header, len(header) - 1))
    assert (shown.application, shown.ttl) == ({"A": "x", "B": "y"}, None)
    assert COMMAND.read(fitting(header, len(least(header)) + 7)).application == {"A": "x"}


def test_a_header_that_is_too_large_goes_without_its_fields() -> None:
    header = COMMAND.write(Properties(application={f"A{n}": "x" * 60_000 for n in range(3)}))
    assert COMMAND.read(header).application is None


@pytest.mark.parametrize("octets", [b"", bytes(10), bytes(14), b"\0\4" + bytes(8) + b"\5K"])
def test_broken_headers(octets: Any) -> None:
    with pytest.raises(ValueError):
        COMMAND.essentials(octets)
        COMMAND.read(octets)


def test_notes_and_lasting() -> None:
    """Additions of the broker, and fields that a dead letter loses."""
    header = COMMAND.write(Properties(message_id="m", absolute_expiry_time=5000))
    noted = COMMAND.read(COMMAND.with_headers(header, {"x-death": [{"count": 1}], "n": 7}))
    assert noted.application == {"x-death": [{"count": 1}], "n": 7}
    assert noted.message_id == "m"
    assert COMMAND.read(COMMAND.everlasting(header)).absolute_expiry_time is None
    foreign = COMMAND.write(Properties(ttl=1000, subject="s"))
    lasting = COMMAND.read(COMMAND.everlasting(foreign))
    assert lasting.ttl is None and lasting.subject == "s"


def test_text_of_1_0_is_read_as_text() -> None:
    """By way of 0-9-1: a string as the one value is its octets, and comes back as one."""
    crossing = Crossing(b"k" * 32)
    body = b"\x00\x53\x77\xa1\x05hello"
    header = SECTIONS.write(Properties(subject="s", body_kind="value"))
    message = Message(SECTIONS, header, body, "", "q", SECTIONS.essentials(header))
    crossed = crossing.cross(message, COMMAND)
    assert crossed.body == b"hello"
    ours = Message(COMMAND, crossed.header, crossed.body, "", "q", Essentials())
    back = crossing.cross(ours, SECTIONS)
    assert back.body == body and SECTIONS.read(back.header).subject == "s"
