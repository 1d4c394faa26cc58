"""The JSON form carries all of 1.0, and messages published in it are stored without loss."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.crossing.crossing import Crossing, Fidelity
from gateway.http.publish.form_reader import read_form
from gateway.http.publish.form_writer import write_full, write_simple
from gateway.http.publish.templates import prepare, prepare_properties
from gateway.http.typed_json import loads, read_json, write_json
from gateway.message import Message, Properties
from gateway.values import Decimal64, Symbol, Timestamp, ULong
from tests import in_memory
from tests.adapters.performatives.amqp_values import same, values
from tests.crossing.messages import modern, sections
from tests.drawing import examples


@given(values)
@settings(max_examples=examples(200), deadline=None)
def test_values_of_1_0_come_back_identical(value: Any) -> None:
    written = json.dumps(write_json(value), allow_nan=False)
    assert same(read_json(loads(written), -64), value), written


def test_values_of_legacy_types_are_stored_as_before() -> None:
    plain = prepare(((b"amqp-property", b'"n";v=5, "s";v="x", "b";v=?1'),), 1)
    assert plain.dialect is BASIC
    typed = prepare(((b"amqp-property", b'"n";v=5;t=ulong'),), 1)
    assert typed.dialect is SECTIONS
    assert typed.properties().application == {"n": ULong(5)}
    assert typed.properties().message_id == typed.message_id


def test_rich_messages_keep_every_type_and_read_naturally_elsewhere() -> None:
    given = {
        "u": ULong(2**63), "y": Symbol("s"), "t": Timestamp(1), "d": Decimal64(b"\x31" + bytes(7)),
    }  # fmt: skip
    made = prepare_properties(Properties(message_id="m", application=given), 1)
    message = Message(made.dialect, made.header, b"body", "", "q", made.essentials)
    assert same(message.properties.application, given)
    header, body, fidelity, _ = Crossing(b"k" * 32).cross(message, BASIC)
    headers = BASIC.read(header).application or {}
    assert fidelity in (Fidelity.EXACT, Fidelity.EQUIVALENT, Fidelity.CAPSULE)
    assert (headers["u"], headers["y"], headers["t"], body) == (str(2**63), "s", 1, b"body")


@given(sections())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_message_of_1_0_can_be_shown(octets: bytes) -> None:
    message = modern(octets)
    properties = message.properties
    full = json.dumps(write_full(properties, message.body, "x", "k"), allow_nan=False)
    shown = loads(full)
    json.dumps(write_simple(properties, in_memory.octets(message)), allow_nan=False)
    shown.pop("application_properties", None)  # HTTP takes names of 1 to 255 octets only
    found = read_form(shown).properties
    for name, value in properties.given().items():
        if name in ("annotations", "footer"):
            assert same(getattr(found, name), value)
        elif name not in ("application", "body_kind"):
            assert getattr(found, name) == value
