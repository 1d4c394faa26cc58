"""Readers of either version: additions of the broker, and messages without a form for them."""

import pytest

from gateway.adapters import Role
from gateway.adapters.methods import states
from gateway.adapters.methods.channel import Channel
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.engine import Engine
from gateway.adapters.methods.splicing import without_expiration
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.sections import part, split_header
from gateway.errors import LocalError
from gateway.message import Dialect, Message, Properties
from gateway.operations import Unsent
from gateway.values import Array, Seconds, Symbol, ULong
from tests.broker.fakes import House, consume, declare, fetch_all, limited, put
from tests.crossing.messages import legacy, section

DEATH = {
    "count": 1, "reason": "rejected", "queue": "q", "time": Seconds(5), "exchange": "x",
    "routing-keys": ["k"],
}  # fmt: skip
NOTES = {
    "x-death": [DEATH],
    "x-first-death-queue": "q",
    "x-delivery-count": 2,
    "why": "because",
    "\u00e9": 1,
}
BARE = b"\x00\x53\x73\xc0\x04\x01\xa1\x01m" + section(0x74, {"n": ULong(1)})


def test_notes_leave_the_bare_message_of_1_0_alone() -> None:
    header, body = part(section(0x72, {Symbol("mine"): 1}) + BARE + section(0x75, b"b"))
    message = Message(SECTIONS, header, body, "", "q", SECTIONS.essentials(header), NOTES)
    found, _ = message.form_for(SECTIONS)
    assert found.endswith(BARE)
    read = SECTIONS.read(found)
    assert read.delivery_count == 2 and read.application == {"n": 1}
    annotations = read.annotations or {}
    assert annotations["mine"] == 1 and annotations["x-first-death-queue"] == "q"
    assert annotations["x-opt-why"] == "because" and isinstance(annotations["x-opt-deaths"], Array)
    assert "x-death" not in annotations


def test_notes_are_headers_behind_those_of_the_sender() -> None:
    octets = write_basic_properties(BasicProperties(headers=b"\x01aL" + bytes(8)))
    message = legacy(octets)
    message.added_headers = NOTES
    found, _ = message.form_for(BASIC)
    assert octets[2 + 4 :] in found
    assert BASIC.read(found).application == {"a": 0, **NOTES}
    message.added_headers = {"a": 7}
    assert BASIC.read(message.form_for(BASIC)[0]).application == {"a": 7}


def test_an_expiry_that_applies_once_leaves_other_fields() -> None:
    octets = write_basic_properties(
        BasicProperties(headers=b"\x01aL" + bytes(8), expiration="50", message_id="m", timestamp=5)
    )
    kept = BASIC.everlasting(octets)
    assert BASIC.read(kept).ttl is None and BASIC.read(kept).message_id == "m"
    assert without_expiration(kept) == kept and b"\x01aL" in kept
    header = SECTIONS.write(Properties(ttl=50, durable=True)) + BARE
    kept = SECTIONS.everlasting(header)
    assert kept.endswith(BARE) and SECTIONS.read(kept).ttl is None and SECTIONS.read(kept).durable
    assert SECTIONS.everlasting(BARE) == BARE
    assert sorted(split_header(kept).single) == [0x70, 0x73, 0x74]


class Formless(Message):
    """A message that has no form for anybody."""

    def form_for(self, dialect: Dialect) -> tuple[bytes, bytes]:
        raise ValueError("no")


FORMLESS = Formless(SECTIONS, b"", b"", "x", "k", SECTIONS.essentials(b""))


def opened() -> tuple[Engine, Channel]:
    engine = Engine("0-9-1", Role.SERVER)
    channel = Channel(1, engine)
    channel.state = states.OPEN
    engine.channels[1] = channel
    return engine, channel


def test_a_legacy_reader_gets_no_message_without_a_form() -> None:
    engine, channel = opened()
    channel.deliver("c", 7, False, FORMLESS)
    assert engine.output() == []
    assert engine.found() == [Unsent(1, "c", 7, FORMLESS)]
    with pytest.raises(LocalError):
        channel.publish(FORMLESS, False, False)


@pytest.mark.parametrize("no_ack", [False, True])
def test_an_unsent_message_is_dead_lettered(no_ack: bool) -> None:
    house = House()
    channel, heard = house.channel()
    declare(channel, "dead")
    limited(channel, "q", dead_letter_exchange="", dead_letter_routing_key="dead")
    consume(channel, "q", no_ack=no_ack)
    put(channel, "1")
    ((tag, delivery, _, message),) = heard.deliveries
    channel.settlements.unsent(tag, delivery, message)
    channel.settlements.unsent("nobody", 99, message)
    house.commit()
    assert fetch_all(channel, "dead") == ["1"] and not channel.window.unsettled
