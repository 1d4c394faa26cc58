"""Messages of JMS clients over 0-10: header segments that Qpid's client 6.4 wrote, as readers of
1.0 and 0-9-1 get them, and what JMS clients there write, as readers of 0-10 get it."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.segments.content import SEGMENTS, uuid_of
from gateway.adapters.segments.encoding import write_map
from gateway.adapters.segments.splicing import NO_BODY, delivery_properties, message_properties
from gateway.adapters.segments.wire.layouts import DeliveryProperties, MessageProperties, ReplyTo
from gateway.crossing.crossing import Crossing, Fidelity
from gateway.crossing.legacy_forms import form_of
from gateway.crossing.references import MOST
from gateway.crossing.sameness import same
from gateway.message import Dialect, Message, Properties
from gateway.values import Byte, Char, Float, Int, Milliseconds, Symbol, UByte, UInt, ULong, UShort
from tests.crossing.messages import legacy
from tests.crossing.segments import of_0_10, segment
from tests.crossing.test_jms import MAP, STREAM, TEXT, TYPE, crossed, modern, sized, value_of
from tests.drawing import examples

KEY = b"k" * 32
FEW = settings(max_examples=examples(60), deadline=None)
ID = UUID("0f22e357-44c6-d031-97ae-485c2d3538f5")
EXACT = (Fidelity.EXACT, Fidelity.EQUIVALENT)

REQUESTS = {
    "/exchanges/amq.direct/TempQueue0376d7da-56c4-4387-bd14-96611fa57bcf": (
        "00000011040158030402000001a204831fb5000161"
        "0000006b04035b0000000000000000000f22e35744c6d03197ae485c2d3538f5003b03000a616d71"
        "2e6469726563742d54656d70517565756530333736643764612d353663342d343338372d62643134"
        "2d3936363131666135376263660a746578742f706c61696e00056775657374"
    ),
    "a.replies": (
        "00000011040158030402000001a20483221f000161"
        "0000003d04035b0000000000000000058a95a6cb55553b0289591297c8713f9a"
        "000d03000009612e7265706c6965730a746578742f706c61696e00056775657374"
    ),
    "/exchanges/amq.topic/a.topic": (
        "00000011040158030402000001a204832353000161"
        "0000004404035b0000000000000000053301cd4f3ad4372087b0e5d23f7abc91"
        "0014030009616d712e746f70696307612e746f7069630a746578742f706c61696e00056775657374"
    ),
}
"""Requests of the Java client, by the address that 1.0 has for their reply-to."""


def from_0_10(to: Dialect, body: bytes = b"body", crossing: Any = None, **given: Any) -> Message:
    """A message of a JMS client as a reader of another version gets it; it comes back as it was."""
    given = {"message_id": ID, **given}
    header = SEGMENTS.write(Properties(**given))
    return there_and_back(of_0_10(header, body), to, crossing)


def there_and_back(message: Message, to: Dialect, crossing: Any = None) -> Message:
    """The message for a reader of another version. It needs no capsule to be the same again."""
    crossing = crossing or Crossing(KEY)
    there, fidelity = crossed(message, to, crossing)
    assert fidelity in EXACT, crossing.cross(message, to).inexact
    back, _ = crossed(there, message.dialect, crossing)
    home = form_of(message.dialect)
    found, original = (home.dialect.read(home.without_capsule(m.header)) for m in (back, message))
    for each in (found, original):
        for name in ("x-exchange", "x-routing-key"):
            (each.annotations or {}).pop(name, None)
        each.annotations = each.annotations or None
    assert found == original and back.body[:] == message.body[:]
    return there


@pytest.mark.parametrize("address", REQUESTS)
def test_requests_of_the_java_client(address: str) -> None:
    """Replies find their way from every version, and the client knows them by its own id."""
    header = bytes.fromhex(REQUESTS[address])
    uuid = SEGMENTS.read(header).message_id
    there = there_and_back(of_0_10(header), SECTIONS)
    found = SECTIONS.read(there.header)
    assert (found.message_id, found.reply_to) == (uuid, address)
    there = there_and_back(of_0_10(header), BASIC)
    wire = BASIC.read(there.header)
    assert wire.message_id == f"ID:{uuid}" and isinstance(wire.creation_time, Milliseconds)
    if address.startswith("/"):
        kind, key = address.split("/")[2].removeprefix("amq."), address.split("/")[3]
        assert wire.reply_to == f"{kind}://amq.{kind}//?routingkey='{key}'"
    else:
        assert wire.reply_to == address


@pytest.mark.parametrize("to", [BASIC, SECTIONS], ids=lambda each: each.name)
def test_kinds_keep_their_content_type(to: Dialect) -> None:
    for content_type in ("text/plain", "application/octet-stream"):
        there = from_0_10(to, content_type=content_type, type="kind")
        assert to.read(there.header).content_type == content_type
    there = from_0_10(BASIC, content_type="application/java-object-stream")
    assert BASIC.read(there.header).content_type == "application/java-object-stream"
    there = from_0_10(SECTIONS, content_type="application/java-object-stream")
    assert SECTIONS.read(there.header).content_type == "application/x-java-serialized-object"


def test_types_and_subjects() -> None:
    """The JMS client writes a type, those of Python and C++ a subject; 1.0 has a subject."""
    for there in (from_0_10(SECTIONS, type="kind"), from_0_10(SECTIONS, subject="kind")):
        assert SECTIONS.read(there.header).subject == "kind"
    message = modern(0x75, b"", subject="kind", annotations={TYPE: TEXT})
    assert SEGMENTS.read(there_and_back(message, SEGMENTS).header).type == "kind"
    there, fidelity = crossed(modern(0x75, b"", subject="kind"), SEGMENTS, Crossing(KEY))
    assert SEGMENTS.read(there.header).subject == "kind"
    assert fidelity is Fidelity.CAPSULE  # before 1.0 it is the type
    there = from_0_10(BASIC, type="kind")
    assert BASIC.read(there.header).type == "kind"


def test_correlation_ids() -> None:
    for value in ("c-1", b"\0\xff\xfe\n", f"ID:{ID}"):
        found = SECTIONS.read(from_0_10(SECTIONS, correlation_id=value).header)
        assert found.correlation_id == value
    there = from_0_10(BASIC, correlation_id=b"\0\xff")
    assert b"\x02\0\xff" in there.header  # a short string of these octets
    message = modern(0x77, "t", correlation_id=ID, annotations={TYPE: TEXT})
    wire = message_properties(there_and_back(message, SEGMENTS).header)[0]
    assert wire.correlation_id == f"ID:{ID}".encode()


def test_times_of_jms_are_milliseconds() -> None:
    """The Java client reads no others."""
    instant = 1_795_365_203_721
    given: dict[str, Any] = {"creation_time": instant, "absolute_expiry_time": instant + 5}
    for annotations, times in (
        ({TYPE: TEXT}, (instant, instant + 5)),
        (None, (instant // 1000, instant // 1000)),
    ):
        message = modern(0x75, b"", annotations=annotations, **given)
        wire = delivery_properties(there_and_back(message, SEGMENTS).header)[0]
        assert (wire.timestamp, wire.expiration) == times


# --- ids of requests, and the correlation ids of their replies ------------------------------------


def answered(request: Message, correlation: str, crossing: Crossing) -> Any:
    """The correlation id that the sender of a request gets, if a client of 0-10 answers with this
    one."""
    reply = of_0_10(SEGMENTS.write(Properties(correlation_id=correlation, message_id=ID)))
    there, _ = crossed(reply, request.dialect, crossing)
    return request.dialect.read(there.header).correlation_id


@pytest.mark.parametrize("id_", ["ID:1:1:1-1", "m-1", f"ID:{ID}", ID, ULong(7), b"\xff"])
def test_replies_to_1_0(id_: Any) -> None:
    crossing = Crossing(KEY)
    request = modern(0x77, "t", message_id=id_, reply_to="q")
    there, _ = crossed(request, SEGMENTS, crossing)
    uuid = UUID(bytes=message_properties(there.header)[0].message_id or b"")
    assert SEGMENTS.read(there.header).message_id == id_
    for correlation in (f"ID:{uuid}", str(uuid)):
        if id_ != f"ID:{uuid}" or id_ == correlation:
            assert same(answered(request, correlation, crossing), id_)
    assert answered(request, "other", crossing) == "other"


@pytest.mark.parametrize("id_", ["ID:1:1:1-1", "m-1", f"ID:{ID}"])
def test_replies_to_0_9_1(id_: str) -> None:
    crossing = Crossing(KEY)
    request = legacy(BASIC.write(Properties(message_id=id_, reply_to="q")))
    there, _ = crossed(request, SEGMENTS, crossing)
    uuid = UUID(bytes=message_properties(there.header)[0].message_id or b"")
    assert answered(request, f"ID:{uuid}", crossing) == id_


@pytest.mark.parametrize("first", [True, False])
def test_a_uuid_of_another_asker_spoils_no_reply(first: bool) -> None:
    """Another asker has for an id the UUID that this one's id makes in 0-10."""
    crossing = Crossing(KEY)
    request = modern(0x77, "t", message_id="m-1", reply_to="q")
    other = modern(0x77, "t", message_id=uuid_of("m-1"), reply_to="other")
    for message in (other, request) if first else (request, other):
        crossed(message, SEGMENTS, crossing)
    assert answered(request, f"ID:{uuid_of('m-1')}", crossing) == "m-1"


def test_an_id_that_is_sent_again_pushes_no_other_out() -> None:
    crossing = Crossing(KEY)
    request = modern(0x77, "t", message_id="m-1", reply_to="q")
    crossed(request, SEGMENTS, crossing)
    for number in range(MOST - 1):
        other = modern(0x77, "t", message_id=f"o-{number}", reply_to="q")
        crossed(other, SEGMENTS, crossing)
    for number in range(3):  # another header each time: it is converted again
        again = modern(0x77, "t", message_id="o-7", reply_to="q", group_sequence=number)
        crossed(again, SEGMENTS, crossing)
    assert answered(request, f"ID:{uuid_of('m-1')}", crossing) == "m-1"
    assert len(crossing._references) == MOST


def test_ids_that_nobody_answers_are_not_kept() -> None:
    crossing = Crossing(KEY)
    crossed(modern(0x77, "t", message_id="m-1"), SEGMENTS, crossing)
    assert not crossing._references


# --- reply addresses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exchange", "key", "address", "text"),
    [
        ("", "q", "q", "q"),
        ("", "a/b", "/queues/a%2Fb", "a/b"),
        ("", "a b", "a b", "a b"),
        ("amq.topic", "a.b", "/exchanges/amq.topic/a.b", "topic://amq.topic//?routingkey='a.b'"),
        ("x", "a/b", "/exchanges/x/a%2Fb", "direct://x//?routingkey='a/b'"),
        ("x y", "é", "/exchanges/x%20y/%C3%A9", "/exchanges/x%20y/%C3%A9"),
        ("x", "", "/exchanges/x/", "direct://x//?routingkey=''"),
    ],
)
def test_reply_to_structs(exchange: str, key: str, address: str, text: str) -> None:
    message = of_0_10(segment(MessageProperties(reply_to=ReplyTo(exchange, key))))
    assert SECTIONS.read(there_and_back(message, SECTIONS).header).reply_to == address
    assert BASIC.read(there_and_back(message, BASIC).header).reply_to == text


@pytest.mark.parametrize(
    ("address", "exchange", "key"),
    [
        ("q", "", "q"),
        ("/queues/q", "", "q"),
        ("/queues/a%2Fb", "", "a/b"),
        ("/exchanges/amq.topic/a.b", "amq.topic", "a.b"),
        ("amq.topic/a.b", "amq.topic", "a.b"),
        ("/exchanges/x", "x", ""),
    ],
)
def test_addresses_of_1_0(address: str, exchange: str, key: str) -> None:
    message = modern(0x77, "t", reply_to=address, annotations={TYPE: TEXT})
    wire = message_properties(there_and_back(message, SEGMENTS).header)[0]
    assert wire.reply_to == ReplyTo(exchange, key)


@pytest.mark.parametrize(
    ("text", "exchange", "key"),
    [
        ("topic://amq.topic//?routingkey='a'", "amq.topic", "a"),
        ("direct:////q?routingkey='q'", "", "q"),
        ("a/b", "", "a/b"),
    ],
)
def test_reply_texts_of_0_9_1(text: str, exchange: str, key: str) -> None:
    there, _ = crossed(legacy(BASIC.write(Properties(reply_to=text))), SEGMENTS, Crossing(KEY))
    wire = message_properties(there.header)[0]
    assert wire.reply_to == ReplyTo(exchange, key)


# --- typed values, absent bodies ------------------------------------------------------------------

TYPED = (
    True, Byte(-1), UByte(1), UShort(2), Int(-3), UInt(3), 4, ULong(2**63), Float(0.5), 0.25,
    Char("ü"), "text", b"\0\xff", ID, None,
)  # fmt: skip


@pytest.mark.parametrize("value", TYPED, ids=lambda each: type(each).__name__)
def test_properties_and_maps_keep_their_types(value: Any) -> None:
    """No note and no capsule: both versions have the type."""
    message = modern(0x77, {"a": value}, application={"h": value}, annotations={TYPE: MAP})
    there = there_and_back(message, SEGMENTS)
    assert same(SEGMENTS.read(there.header).application, {"h": value})
    assert there.body == sized(write_map({"a": value}))
    back = from_0_10(
        SECTIONS, sized(write_map({"a": value})), application={"h": value}, content_type="amqp/map"
    )
    assert same(value_of(back)[1], {"a": value})
    assert same(SECTIONS.read(back.header).application, {"h": value})


def test_an_absent_body_is_no_body_of_1_0() -> None:
    absent = of_0_10(NO_BODY + segment(DeliveryProperties(priority=4)), b"")
    there = there_and_back(absent, SECTIONS)
    assert SECTIONS.read(there.header).body_kind == "none"
    empty = there_and_back(of_0_10(segment(DeliveryProperties(priority=4)), b""), SECTIONS)
    assert SECTIONS.read(empty.header).body_kind in (None, "data")
    assert there_and_back(there, SEGMENTS).header.startswith(NO_BODY)
    assert not there_and_back(empty, SEGMENTS).header.startswith(NO_BODY)
    assert there_and_back(absent, BASIC).body == b""


@given(st.sampled_from(TYPED), st.sampled_from([STREAM, None]))
@FEW
def test_streams_and_lists(value: Any, code: Any) -> None:
    annotations = None if code is None else {Symbol("x-opt-jms-msg-type"): code}
    message = modern(0x76 if code else 0x77, [value], annotations=annotations)
    crossing = Crossing(KEY, fidelity="bytes")
    there, _ = crossed(message, SEGMENTS, crossing)
    back, _ = crossed(there, SECTIONS, crossing)
    assert back.body[:] == message.body[:]
