"""What readers of the other version see, case by case."""

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.wire.layouts import BasicProperties, write_basic_properties
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.encoding import write_value
from gateway.crossing.natural import as_sections, to_sections
from gateway.crossing.types import READ, TYPES, apply_notes, from_field
from gateway.message import Properties
from gateway.values import (
    Array,
    Byte,
    Char,
    Decimal64,
    Described,
    Float,
    Int,
    Scaled,
    Seconds,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tests.adapters.performatives.amqp_values import same
from tests.crossing.messages import to_basic


def up(**given: Any) -> Properties:
    """Basic properties as a reader of 1.0 sees them."""
    if "headers" in given:
        given["headers"] = fields.write_table(given["headers"])
    header, _ = to_sections(
        BASIC.read(write_basic_properties(BasicProperties(**given))), b"", "x", "k"
    )
    return SECTIONS.read(header)


def down(**given: Any) -> Properties:
    """Sections as a reader of 0-9-1 sees them."""
    header, _ = to_basic(SECTIONS.write(Properties(**given)), b"")
    return BASIC.read(header)


@pytest.mark.parametrize(
    ("legacy", "name", "modern"),
    [
        ({"content_type": "text/plain"}, "content_type", "text/plain"),
        ({"content_type": "t\u00e9xt"}, "content_type", "t\u00e9xt"),
        ({"content_encoding": "gzip"}, "content_encoding", "gzip"),
        ({"delivery_mode": 2}, "durable", True),
        ({"delivery_mode": 1}, "durable", False),
        ({}, "durable", None),
        ({}, "priority", None),
        ({"priority": 7}, "priority", 7),
        ({"correlation_id": "c"}, "correlation_id", "c"),
        ({"correlation_id": f"urn:uuid:{UUID(int=7)}"}, "correlation_id", UUID(int=7)),
        ({"message_id": "AMQP_ULONG:7"}, "message_id", ULong(7)),
        ({"message_id": "AMQP_BINARY:00ff"}, "message_id", b"\0\xff"),
        ({"message_id": "AMQP_STRING:AMQP_ULONG:7"}, "message_id", "AMQP_ULONG:7"),
        ({"reply_to": "q"}, "reply_to", "q"),
        ({"expiration": "60000"}, "ttl", 60000),
        ({"expiration": "1790000000123"}, "absolute_expiry_time", 1790000000123),
        ({"timestamp": 1790000000}, "creation_time", 1790000000000),
        ({"timestamp": 1790000000123}, "creation_time", 1790000000123),
        ({"type": "t"}, "subject", "t"),
        ({"user_id": "u"}, "user_id", b"u"),
        ({"app_id": "a"}, "app_id", "a"),
        ({"cluster_id": "c"}, "cluster_id", "c"),
        ({"headers": {"JMSXGroupID": "g"}}, "group_id", "g"),
        ({"headers": {"JMSXGroupSeq": 4}}, "group_sequence", 4),
        ({"headers": {"x-delivery-count": 2}}, "delivery_count", 2),
        ({"headers": {"x-amqp10-subject": "s"}}, "subject", "s"),
    ],
)
def test_fields_rise(legacy: dict[str, Any], name: str, modern: Any) -> None:
    assert getattr(up(**legacy), name) == modern


@pytest.mark.parametrize(
    ("modern", "name", "legacy"),
    [
        ({"durable": True}, "durable", True),
        ({}, "durable", None),
        ({"ttl": 5}, "ttl", 5),
        ({"message_id": UUID(int=7)}, "message_id", UUID(int=7)),
        ({"reply_to": "/queues/a%2Fb"}, "reply_to", "a/b"),
        ({"reply_to": "/exchanges/x/k"}, "reply_to", "/exchanges/x/k"),
        ({"subject": "s"}, "type", "s"),
        ({"to": "t"}, "to", "t"),
        ({"creation_time": 1790000000123}, "creation_time", 1790000000123),
        ({"reply_to_group_id": "g"}, "reply_to_group_id", "g"),
        ({"group_id": "g"}, "application", {"JMSXGroupID": "g"}),
        ({"group_sequence": 3}, "application", {"JMSXGroupSeq": 3}),
        ({"delivery_count": 3}, "application", {"x-delivery-count": 3}),
        ({"annotations": {"x-opt-a": 1, "x-b": "c"}}, "application", {"x-opt-a": 1, "x-b": "c"}),
        ({"annotations": {"x-cc": ["a"]}}, "application", {"CC": ["a"]}),
        ({"annotations": {"x-exchange": "x", "x-routing-key": "k"}}, "application", None),
    ],
)
def test_sections_sink(modern: dict[str, Any], name: str, legacy: Any) -> None:
    assert getattr(down(**modern), name) == legacy


VALUES: list[tuple[Any, Any]] = [
    (True, True), (Byte(-1), Byte(-1)), (UByte(1), UByte(1)), (Short(-1), Short(-1)),
    (UShort(1), UShort(1)), (Int(-1), Int(-1)), (UInt(1), UInt(1)), (5, 5), (ULong(5), 5),
    (ULong(2**63), str(2**63)), (Float(1.5), Float(1.5)), (2.5, 2.5), ("t", "t"), (b"x", b"x"),
    (Symbol("s"), "s"), (Char("c"), "c"), (UUID(int=1), str(UUID(int=1))), (None, None),
    (Timestamp(5000), Seconds(5)), (Timestamp(5001), 5001), (Timestamp(-1000), -1000),
    (Decimal64.of(Decimal("1.5")), "1.5"),
    (Described(ULong(1), 2), b"\x00\x53\x01\x55\x02"),
    ([1, "a", None], [1, "a", None]), ({"k": UInt(1)}, {"k": UInt(1)}),
    (Array([1, 2], 0x55), [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("modern", "legacy"), VALUES)
def test_values_sink_and_rise(modern: Any, legacy: Any) -> None:
    header, _ = to_basic(SECTIONS.write(Properties(application={"k": modern})), b"")
    found = dict(BASIC.read(header).application or {})
    assert same(found["k"], legacy) or found["k"] == legacy and type(modern) is Array
    read = BASIC.read(header)
    as_sections(read, b"")
    back = SECTIONS.read(SECTIONS.write(read))
    if not isinstance(modern, Array):
        assert same((back.application or {})["k"], modern)


@pytest.mark.parametrize(
    ("legacy", "modern"),
    [
        (Scaled(2, 12345), "123.45"),
        (Seconds(5), Timestamp(5000)),
        (b"\xff", b"\xff"),
        ("t", "t"),
        (Short(3), Short(3)),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_header_values_rise(legacy: Any, modern: Any) -> None:
    assert same((up(headers={"k": legacy}).application or {})["k"], modern)


def test_dead_letters_map_one_for_one() -> None:
    death = {
        "count": 2, "reason": "expired", "queue": "q", "time": Seconds(5), "exchange": "x",
        "routing-keys": ["k"], "original-expiration": "50",
    }  # fmt: skip
    found = up(headers={"x-death": [death], "x-first-death-queue": "q"})
    assert found.annotations is not None
    deaths = found.annotations["x-opt-deaths"]
    assert isinstance(deaths, Array) and same(deaths[0][Symbol("count")], ULong(2))
    assert same(deaths[0]["ttl"], UInt(50)) and same(deaths[0]["first-time"], Timestamp(5000))
    back = down(annotations=found.annotations).application or {}
    assert back == {"x-death": [death], "x-first-death-queue": "q"}


HOSTILE: list[Any] = [
    5, -1, 2**63, "x", "\u00b2", "9" * 5000, "NaN", "1E+9999999", b"", b"\x00", b"\xc1\x01\x00",
    None, 1.5, [1], {"a": 1}, True, "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("code", [*READ, 1, 255])
def test_notes_that_do_not_fit_change_nothing(code: int) -> None:
    for value in HOSTILE:
        found = from_field(value, code)
        assert same(found, value) or type(found) is not type(value)
    headers: dict[str, Any] = {"a": 5, TYPES: write_value({"a": UByte(code), "b": UByte(0)})}
    apply_notes(headers)
    assert headers.keys() == {"a"}
    for octets in HOSTILE:
        headers = {"a": 5, TYPES: octets}
        apply_notes(headers)
        assert headers == {"a": 5}
