"""Patterns of headers: what they give is what the conversion gives, for every header."""

import random
from typing import Any

import pytest

from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.content import received
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.essentials import arrived
from gateway.adapters.segments.wire import layouts as w
from gateway.crossing.crossing import Crossing
from gateway.crossing.patterns import STAND_INS
from gateway.message import Message
from tests.drawing import examples

KEY = b"k" * 32
NOW = 1_763_830_000_000


def header(delivery: dict[str, Any], message: dict[str, Any], swapped: bool = False) -> bytes:
    first = ops.coded(0x0401, w.write_delivery_properties(w.DeliveryProperties(**delivery)))
    second = ops.coded(0x0403, w.write_message_properties(w.MessageProperties(**message)))
    return second + first if swapped else first + second


def kind(chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields that all messages of a kind have."""
    delivery = {
        "priority": chance.choice([None, 4, 9]),
        "delivery_mode": chance.choice([None, 1, 2]),
        "ttl": chance.choice([None, 5000]),
        "exchange": chance.choice([None, "", "amq.direct"]),
        "routing_key": chance.choice([None, "q"]),
    }
    arguments = chance.choice(
        [None, {}, {"a": 1, "b": "x"}, {"qpid.subject": "s"}, {"x-amqp10-creation-time": NOW}]
    )
    message = {
        "content_length": chance.choice([None, 7]),
        "correlation_id": chance.choice([None, b"reply", b"\xff", bytes(16), STAND_INS[0][0]]),
        "content_type": chance.choice([None, "text/plain", "amqp/map", "jms/stream-message"]),
        "content_encoding": chance.choice([None, "gzip"]),
        "reply_to": chance.choice([None, w.ReplyTo("amq.direct", "key")]),
        "user_id": chance.choice([None, b"guest"]),
        "app_id": chance.choice([None, b"app", b"\xff\xfe"]),
        "application_headers": None if arguments is None else write_map(arguments),
    }
    return delivery, message


def one_of(
    chance: random.Random, delivery: dict[str, Any], message: dict[str, Any], fields: set[str]
) -> Message:
    """A message with other values in some fields."""
    delivery, message = dict(delivery), dict(message)
    if "id" in fields:
        message["message_id"] = chance.choice([chance.randbytes(16), STAND_INS[0][0], bytes(16)])
    time = NOW + chance.choice([0, 1, chance.randrange(10**9), -(10**12)])
    seconds = chance.random() < 0.2
    for name in fields - {"id"}:
        delivery[name] = time // 1000 if seconds else time
    octets = header(delivery, message, "swapped" in fields)
    body = chance.choice([None, b"", b"body"])
    return received(arrived(octets), body, chance.choice(["", "amq.direct"]))


def crossed(crossing: Crossing, message: Message) -> object:
    try:
        return crossing(message, SECTIONS)
    except ValueError as error:
        return type(error)


@pytest.mark.parametrize("seed", range(examples(400)))
def test_every_header_is_as_if_it_were_the_only_one(seed: int) -> None:
    chance = random.Random(seed)
    crossing = Crossing(KEY)
    for _ in range(5):
        delivery, message = kind(chance)
        fields = {each for each in ("id", "timestamp", "expiration") if chance.random() < 0.7}
        for _ in range(8):
            one = one_of(chance, delivery, message, fields)
            assert crossed(crossing, one) == crossed(Crossing(KEY), one), one.header.hex()


def counted(crossing: Crossing, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Headers that are converted from now on."""
    found: list[bytes] = []
    convert = crossing._convert

    def counting(source: Any, reader: Any, octets: bytes, *others: Any) -> Any:
        found.append(octets)
        return convert(source, reader, octets, *others)

    monkeypatch.setattr(crossing, "_convert", counting)
    return found


def test_ids_and_times_are_not_converted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    crossing = Crossing(KEY)
    converted = counted(crossing, monkeypatch)
    for number in range(100):
        delivery = {"routing_key": "q", "timestamp": NOW + number, "expiration": NOW + 2 * number}
        octets = header(delivery, {"message_id": number.to_bytes(16), "content_type": "text/plain"})
        made, body = crossing(received(arrived(octets), b"x", ""), SECTIONS)
        properties = SECTIONS.read(made)
        assert properties.message_id is not None and properties.message_id.int == number
        assert properties.creation_time == NOW + number and body == b"x"
        assert properties.absolute_expiry_time == NOW + 2 * number
    assert len(converted) == 3, "the first, and two stand-ins for all others"
    assert sum(crossing.counts.values()) == 100


def test_what_needs_a_capsule_has_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    crossing = Crossing(KEY)
    converted = counted(crossing, monkeypatch)
    for number in range(10):
        octets = header({"routing_key": "q"}, {"message_id": bytes((number,)) * 16})
        octets += ops.coded(0x0402, b"\0\0")  # fragment-properties
        crossing(received(arrived(octets), b"x", ""), SECTIONS)
    assert crossing.counts["0-10", SECTIONS.name, "capsule"] == 10
    assert len(converted) == 10 + 2, "it was looked at once"


def test_the_fields_of_headers_in_turn_are_not_looked_for_again() -> None:
    """Those that differ from the one before in their message id alone."""
    crossing = Crossing(KEY)
    looked: list[bytes] = []
    patterns = crossing._of_segments
    vary = patterns._vary

    def counting(octets: bytes) -> Any:
        looked.append(octets)
        return vary(octets)

    patterns._vary = counting
    for number in range(100):
        fields = {"message_id": number.to_bytes(16), "content_type": "text/plain"}
        one = received(arrived(header({"routing_key": "q"}, fields)), b"x", "")
        assert crossed(crossing, one) == crossed(Crossing(KEY), one)
    assert len(looked) == 3
    for key, exchange, kind_of_text in (
        ("r", "", "text/plain"), ("q", "amq.direct", "text/plain"), ("q", "", "text/other"),
    ):  # fmt: skip
        fields = {"message_id": bytes(16), "content_type": kind_of_text}
        one = received(arrived(header({"routing_key": key}, fields)), b"x", exchange)
        assert crossed(crossing, one) == crossed(Crossing(KEY), one)
    assert len(looked) == 6
