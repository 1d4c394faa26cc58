"""What names stand for, in messages of every dialect."""

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from gateway.message import Essentials, Message, Properties, Table
from gateway.selector import Selector
from gateway.selector.like import EFFORT, MOST_STEPS
from gateway.selector.names import NAMES, plain
from gateway.values import (
    Byte,
    Char,
    Decimal64,
    Float,
    Scaled,
    Seconds,
    ShortString,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    UShort,
)

IDENTIFIER = UUID("12345678-1234-5678-1234-567812345678")


class Given:
    """A dialect whose properties are those it was made with. Counts how often it is read."""

    name = "given"

    def __init__(self, properties: Properties | None) -> None:
        self.properties = properties
        self.reads = 0

    def essentials(self, header: bytes) -> Essentials:
        raise AssertionError("not asked for")

    def read(self, header: bytes) -> Properties:
        self.reads += 1
        if self.properties is None:
            raise ValueError("not readable")
        return self.properties

    def write(self, properties: Properties) -> bytes:
        raise AssertionError("not asked for")

    def with_headers(self, header: bytes, added: Table) -> bytes:
        raise AssertionError("not asked for")

    def rewrite(self, header: bytes, properties: Properties) -> bytes:
        raise AssertionError("not asked for")

    def everlasting(self, header: bytes) -> bytes:
        raise AssertionError("not asked for")


def message(key: str = "key", notes: dict[str, Any] | None = None, **given: Any) -> Message:
    dialect = Given(Properties(**given))
    user = given.get("user_id")
    essentials = Essentials(
        bool(given.get("durable")),
        given.get("priority"),
        given.get("ttl"),
        user.decode() if user is not None else None,
        bool(given.get("application")),
    )
    return Message(dialect, b"", b"body", "exchange", key, essentials, notes)


FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("JMSMessageID = 'm1'", {"message_id": "m1"}),
    ("JMSMessageID = 'ID:AMQP_ULONG:7'", {"message_id": ULong(7)}),
    ("JMSMessageID = 'ID:AMQP_BINARY:00FF'", {"message_id": b"\x00\xff"}),
    (f"JMSMessageID = 'ID:AMQP_UUID:{IDENTIFIER}'", {"message_id": IDENTIFIER}),
    ("JMSMessageID IS NULL", {}),
    ("JMSCorrelationID = 'c1'", {"correlation_id": "c1"}),
    ("JMSType = 't'", {"type": "t"}),
    ("JMSType = 't'", {"subject": "t"}),
    ("JMSPriority = 4", {}),
    ("JMSPriority > 8", {"priority": 9}),
    ("JMSTimestamp = 1700000000000", {"creation_time": Timestamp(1700000000000)}),
    ("JMSTimestamp IS NULL", {}),
    ("JMSDeliveryMode = 'PERSISTENT'", {"durable": True}),
    ("JMSDeliveryMode = 'NON_PERSISTENT'", {}),
    ("JMSReplyTo = 'r'", {"reply_to": "r"}),
    ("JMSDestination = 'key'", {}),
    ("JMSDestination = 'to'", {"to": "to"}),
    ("JMSExpiration = 0", {}),
    ("JMSExpiration = 5", {"absolute_expiry_time": 5}),
    ("JMSExpiration = 15", {"ttl": 5, "creation_time": 10}),
    ("JMSExpiration IS NULL", {"ttl": 5}),
    ("JMSRedelivered", {"delivery_count": 1}),
    ("NOT JMSRedelivered", {}),
    ("JMSXGroupID = 'g' AND JMSXGroupSeq = 3", {"group_id": "g", "group_sequence": 3}),
    ("JMSXUserID = 'u'", {"user_id": b"u"}),
    ("JMSXDeliveryCount = 3", {"delivery_count": 2}),
    ("amqp.durable", {"durable": True}),
    ("NOT amqp.durable", {}),
    ("amqp.delivery_mode = 'PERSISTENT'", {"durable": True}),
    ("amqp.priority = 4", {}),
    ("amqp.ttl = 5", {"ttl": 5}),
    ("amqp.user_id = 'u'", {"user_id": b"u"}),
    ("amqp.to = 'to'", {"to": "to"}),
    ("amqp.subject = 's'", {"subject": "s", "type": "t"}),
    ("amqp.jms_type = 't'", {"subject": "s", "type": "t"}),
    ("amqp.redelivered", {"delivery_count": 1}),
    ("amqp.delivery_count = 0", {}),
    ("amqp.message_id = 7", {"message_id": ULong(7)}),
    (f"amqp.message_id = '{IDENTIFIER}'", {"message_id": IDENTIFIER}),
    ("amqp.correlation_id = 'c'", {"correlation_id": b"c"}),
    ("amqp.content_type = 'text/plain'", {"content_type": Symbol("text/plain")}),
    ("amqp.content_encoding = 'gzip'", {"content_encoding": "gzip"}),
    ("amqp.creation_time > 4", {"creation_time": Timestamp(5)}),
    ("amqp.absolute_expiry_time = 5", {"absolute_expiry_time": 5}),
    ("amqp.group_id LIKE 'g%'", {"group_id": "g1"}),
    ("amqp.group_sequence = 1", {"group_sequence": 1}),
    ("amqp.reply_to_group_id = 'g'", {"reply_to_group_id": "g"}),
    ("amqp.reply_to = 'r'", {"reply_to": "r"}),
    ("amqp.first_acquirer", {"first_acquirer": True}),
    ("amqp.nothing IS NULL", {}),
    ("colour = 'red'", {"application": {"colour": "red"}}),
    ("colour = 'blue'", {"application": {"colour": "red"}, "notes": {"colour": "blue"}}),
    ("colour IS NULL", {"application": {"Colour": "red"}}),
    ("amqp.mine = 1", {"application": {"amqp.mine": 1}}),
]


@pytest.mark.parametrize(("text", "given"), FIELDS)
def test_fields(text: str, given: dict[str, Any]) -> None:
    assert Selector(text).matches(message(**given))


def test_every_name_can_be_read_of_a_bare_message() -> None:
    for name, read in NAMES.items():
        value = read(message())
        assert value is None or type(value) in (bool, int, float, str), name


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (5, 5),
        (2.5, 2.5),
        ("x", "x"),
        (None, None),
        (Byte(-3), -3),
        (UShort(3), 3),
        (UInt(3), 3),
        (ULong((1 << 64) - 1), (1 << 64) - 1),
        (Timestamp(5), 5),
        (Seconds(5), 5000),
        (Float(0.5), 0.5),
        (Symbol("x"), "x"),
        (Char("x"), "x"),
        (ShortString("x"), "x"),
        (b"text", "text"),
        (b"\xff", None),
        (IDENTIFIER, str(IDENTIFIER)),
        (Decimal("0.1"), 0.1),
        (Decimal64.of(Decimal("0.1")), 0.1),
        (Scaled(2, 150), 1.5),
        (Scaled(255, 1), 1e-255),
        (Decimal("1E6144"), float("inf")),
        ([1], None),
        ({"a": 1}, None),
        (object(), None),
    ],
)
def test_values_are_plain(value: Any, expected: Any) -> None:
    found = plain(value)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize("name", ["NaN", "sNaN", "-sNaN"])
def test_decimals_that_are_no_numbers(name: str) -> None:
    found = plain(Decimal(name))
    assert isinstance(found, float) and found != found


def test_essentials_need_no_decoding() -> None:
    one = message(priority=9, durable=True, ttl=5, user_id=b"u")
    text = "JMSPriority > 5 AND amqp.durable AND amqp.ttl < 9 AND JMSXUserID = 'u'"
    assert Selector(text).matches(one)
    assert isinstance(one.dialect, Given) and one.dialect.reads == 0


def test_unreadable_properties_match_no_selector() -> None:
    one = Message(Given(None), b"?", b"", "", "", Essentials())
    assert not Selector("colour IS NULL").matches(one)
    assert Selector("JMSPriority = 4").matches(one)


def test_unknown_and_no_truth_do_not_match() -> None:
    one = message(application={"n": 1, "s": "TRUE"})
    assert not Selector("n").matches(one)
    assert not Selector("s").matches(one)
    assert not Selector("nothing").matches(one)


def test_selectors_are_equal_if_they_say_the_same() -> None:
    assert Selector("a = 1") == Selector("( a=01 )")
    assert hash(Selector("a = 1")) == hash(Selector("a  = 0x1"))
    assert Selector("a = 1") != Selector("a = 1.0")


def test_a_selector_that_takes_too_many_steps_matches_nothing() -> None:
    piece = "".join(map(chr, range(0x4E00, 0x4E40)))
    fields = {f"f{number}": f"{piece},x" * 240 for number in range(40)}
    text = " OR ".join(f"f{number} LIKE '%_{piece}x%'" for number in range(40))
    long = message(application=fields)
    spent = EFFORT.steps
    assert not Selector(text).matches(long) and not Selector(f"NOT ({text})").matches(long)
    assert EFFORT.steps - spent <= 3 * MOST_STEPS
    assert Selector("f1 LIKE '%_,x%'").matches(long)
