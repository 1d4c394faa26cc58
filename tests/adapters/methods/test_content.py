"""Basic properties <-> canonical properties: exact for what a native peer writes, nothing lost of
what comes from elsewhere."""

from typing import Any
from uuid import UUID

import pamqp.commands
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC, read_id, write_id
from gateway.adapters.methods.essentials import BadExpiration
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.message import DIALECTS, Essentials, Properties
from gateway.values import Seconds, UByte, ULong

SHORT = some.text(max_size=60)
HEADERS = some.dictionaries(
    some.text(max_size=10), some.text(max_size=10) | some.booleans() | some.none(), max_size=4
)
WIRE = some.builds(
    BasicProperties,
    content_type=some.none() | SHORT,
    content_encoding=some.none() | SHORT,
    headers=some.none() | HEADERS.map(fields.write_table),
    delivery_mode=some.sampled_from([None, 1, 2]),
    priority=some.none() | some.integers(0, 255),
    correlation_id=some.none() | SHORT | some.uuids().map(lambda u: f"urn:uuid:{u}"),
    reply_to=some.none() | SHORT,
    expiration=some.none() | some.integers(0, 10**14).map(str),
    message_id=some.none() | SHORT,
    timestamp=some.none() | some.integers(0, 10**14),
    type=some.none() | SHORT,
    user_id=some.none() | SHORT,
    app_id=some.none() | SHORT,
    cluster_id=some.none() | SHORT,
)


@given(WIRE)
def test_headers_come_back_exactly(wire: BasicProperties) -> None:
    header = write_basic_properties(wire)
    assert BASIC.write(BASIC.read(header)) == header


FOREIGN = some.builds(
    Properties,
    durable=some.none() | some.booleans(),
    priority=some.none() | some.integers(0, 255),
    ttl=some.none() | some.integers(0, 1 << 32),
    message_id=some.none()
    | some.text(max_size=300)
    | some.uuids()
    | some.binary(max_size=300)
    | some.builds(ULong, some.integers(0, (1 << 64) - 1)),
    user_id=some.none() | some.binary(max_size=300),
    to=some.none() | SHORT,
    subject=some.none() | SHORT,
    reply_to=some.none() | some.text(max_size=300),
    correlation_id=some.none() | some.uuids() | SHORT,
    absolute_expiry_time=some.none() | some.integers(0, 10**14),
    creation_time=some.none() | some.integers(-(10**12), 10**13),
    group_id=some.none() | SHORT,
    group_sequence=some.none() | some.integers(0, (1 << 32) - 1),
    reply_to_group_id=some.none() | SHORT,
    application=HEADERS,
    annotations=some.none() | some.just({"x-opt-a": [1, {"b": 2}]}),
    footer=some.none() | some.just({"f": b"\xff"}),
    body_kind=some.sampled_from([None, "value", "sequence"]),
)


@given(FOREIGN)
def test_foreign_properties_survive(properties: Properties) -> None:
    assert BASIC.read(BASIC.write(properties)) == properties


@given(some.text(max_size=40) | some.uuids() | some.binary() | some.builds(ULong, some.integers(0)))
def test_ids_say_their_type(value: Any) -> None:
    text = write_id(value)
    if isinstance(value, ULong) and value >= 1 << 64:
        return
    found = read_id(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("urn:uuid:00000000-0000-0000-0000-000000000005", UUID(int=5)),
        ("urn:uuid:00000000-0000-0000-0000-00000000000A", None),
        ("urn:uuid:nonsense", None),
        ("AMQP_ULONG:5", ULong(5)),
        ("AMQP_ULONG:05", None),
        ("AMQP_BINARY:00ff", b"\0\xff"),
        ("AMQP_BINARY:00FF", None),
        ("AMQP_BINARY:zz", None),
        ("AMQP_STRING:AMQP_ULONG:5", "AMQP_ULONG:5"),
        ("AMQP_STRING:plain", None),
        ("AMQP_STRING", None),
    ],
)
def test_canonical_ids(text: str, value: Any) -> None:
    assert read_id(text) == (text if value is None else value)
    assert write_id(read_id(text)) == text


def test_times() -> None:
    def read(**given: Any) -> Properties:
        return BASIC.read(write_basic_properties(BasicProperties(**given)))

    assert read(timestamp=1_700_000_000).creation_time == 1_700_000_000_000
    assert read(timestamp=1_700_000_000_123).creation_time == 1_700_000_000_123
    assert read(expiration="60000").ttl == 60000
    absolute = read(expiration="1700000000123")
    assert (absolute.ttl, absolute.absolute_expiry_time) == (None, 1_700_000_000_123)
    assert read(headers=fields.write_table({"when": Seconds(5), "n": UByte(5)})).application == {
        "when": Seconds(5),
        "n": UByte(5),
    }


def test_essentials() -> None:
    wire = BasicProperties(
        delivery_mode=2,
        priority=7,
        expiration="5000",
        user_id="u",
        headers=fields.write_table({"a": 1}),
    )
    found = BASIC.essentials(write_basic_properties(wire))
    assert found == Essentials(True, 7, 5000, "u", True)
    assert BASIC.essentials(b"\0\0") == Essentials()
    assert DIALECTS["0-9-1"] is BASIC


@pytest.mark.parametrize("text", ["", "abc", "-1", "1.5", " 1", "٣", "9" * 20])
def test_expirations_that_are_refused(text: str) -> None:
    header = write_basic_properties(BasicProperties(expiration=text))
    with pytest.raises(BadExpiration):
        BASIC.essentials(header)
    assert BASIC.read(header).ttl is None


@given(some.binary(max_size=100))
def test_any_octets_are_properties_or_a_value_error(raw: bytes) -> None:
    for read in (BASIC.essentials, BASIC.read):
        try:
            read(raw)
        except ValueError:
            continue


def test_pamqp_agrees() -> None:
    theirs = pamqp.commands.Basic.Properties(
        content_type="text/plain",
        headers={"a": "b"},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        message_id="m",
        expiration="1000",
        app_id="app",
        user_id="u",
    )
    flags, raw = theirs.encode_property, theirs.marshal()
    assert flags is not None
    found = BASIC.read(raw)
    assert found == Properties(
        content_type="text/plain",
        application={"a": "b"},
        durable=True,
        priority=3,
        correlation_id="c",
        message_id="m",
        ttl=1000,
        app_id="app",
        user_id=b"u",
    )
    assert BASIC.write(found) == raw


@given(WIRE, some.integers(0, 200), some.integers(0, 255))
def test_essentials_refuse_the_same_as_reading(
    wire: BasicProperties, place: int, octet: int
) -> None:
    header = bytearray(write_basic_properties(wire))
    header[place % len(header)] = octet
    raw = bytes(header)
    try:
        BASIC.read(raw)
    except ValueError:
        with pytest.raises(ValueError):
            BASIC.essentials(raw)
    else:
        try:
            BASIC.essentials(raw)
        except BadExpiration:
            return
