"""Messages of JMS clients: their bodies, types and reply addresses in both directions."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.decoding import read_value
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.segments.encoding import write_list, write_map
from gateway.crossing.crossing import Crossing, Fidelity
from gateway.crossing.forms import without_hop_by_hop
from gateway.crossing.jms import NULL, from_binding_url, to_binding_url
from gateway.crossing.sameness import same
from gateway.message import Message, Properties
from gateway.values import Byte, Char, Float, Int, Short, Symbol
from tests.crossing.messages import legacy
from tests.drawing import examples

KEY = b"k" * 32
FEW = settings(max_examples=examples(60), deadline=None)
TYPE = Symbol("x-opt-jms-msg-type")
OBJECT, MAP, STREAM, TEXT = map(Byte, (1, 2, 4, 5))

FLOATS = st.floats(width=32, allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
SCALARS = st.one_of(
    st.booleans(), st.integers(-128, 127).map(Byte), st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int), st.integers(-(2**63), 2**63 - 1),
    FLOATS.map(Float), st.floats(allow_nan=False), TEXTS, st.binary(max_size=9),
)  # fmt: skip
MAPS = st.dictionaries(TEXTS.filter(bool), SCALARS, max_size=4)
STREAMS = st.lists(
    SCALARS | st.none() | st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF).map(Char),
    max_size=5,
)


def sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(4) + octets


def typed(value: Any) -> bytes:
    """A value of a stream message, as Qpid's client for 0-x writes it."""
    layouts: dict[Any, str] = {
        bool: ">B?", Byte: ">Bb", Short: ">Bh", Int: ">Bi", int: ">Bq", Float: ">Bf", float: ">Bd",
    }  # fmt: skip
    codes = {bool: 1, Byte: 2, Short: 4, Int: 6, int: 7, Float: 8, float: 9}
    if type(value) in layouts:
        return struct.pack(layouts[type(value)], codes[type(value)], value)
    if value is None:
        return b"\x0b"
    if isinstance(value, Char):
        return b"\x05" + value.encode("utf-16-be")
    if isinstance(value, str):
        return b"\x0a" + value.encode() + b"\0"
    return b"\x03" + sized(value)


def value_of(message: Message) -> tuple[int, Any]:
    """The code of the section that is the body, and its value."""
    body = message.body[:]
    return body[2], read_value(body, 3, len(body))[0]


def crossed(message: Message, to: Any, crossing: Crossing) -> tuple[Message, Fidelity]:
    header, body, fidelity, _ = crossing.cross(message, to)
    return Message(to, header, body, "x", "k", to.essentials(header)), fidelity


def from_basic(body: bytes, precision: Any = "bytes", **properties: Any) -> tuple[Message, Message]:
    """A message of 0-9-1 as a reader of 1.0 gets it, and the message that comes back from there."""
    crossing = Crossing(KEY, fidelity=precision)
    header = BASIC.write(Properties(**properties))
    there, fidelity = crossed(legacy(header, body), SECTIONS, crossing)
    back, _ = crossed(there, BASIC, crossing)
    assert (back.header, back.body[:]) == (header, body)
    assert fidelity is not Fidelity.LOSSY
    return there, back


def modern(code: int, value: Any, **properties: Any) -> Message:
    kind = {0x77: "value", 0x76: "sequence", 0x75: "data"}[code]
    header = SECTIONS.write(Properties(body_kind=kind, **properties))
    body = value if kind == "data" else b"\0\x53" + bytes((code,)) + write_value(value)
    return Message(SECTIONS, header, body, "x", "k", SECTIONS.essentials(header))


def from_sections(message: Message) -> Message:
    """A message of 1.0 as a reader of 0-9-1 gets it; it comes back as it was."""
    crossing = Crossing(KEY, fidelity="bytes")
    there, _ = crossed(message, BASIC, crossing)
    back, _ = crossed(there, SECTIONS, crossing)
    assert (without_hop_by_hop(back.header), back.body[:]) == (message.header, message.body[:])
    return there


@given(MAPS)
@FEW
def test_a_map_becomes_a_map(found: dict[str, Any]) -> None:
    there, _ = from_basic(sized(write_map(found)), content_type="amqp/map")
    code, value = value_of(there)
    assert code == 0x77 and same(value, found)
    properties = SECTIONS.read(there.header)
    assert properties.content_type is None
    assert same(properties.annotations, {TYPE: MAP, Symbol("x-exchange"): "x", Symbol("x-routing-key"): "k"})  # fmt: skip  # noqa: E501


@given(MAPS)
@FEW
def test_a_map_message_of_jms_becomes_a_map(found: dict[str, Any]) -> None:
    entries = (name.encode() + b"\0" + typed(value) for name, value in found.items())
    body = len(found).to_bytes(4) + b"".join(entries)
    there, _ = from_basic(body, content_type="jms/map-message")
    code, value = value_of(there)
    assert code == 0x77 and same(value, found)


@given(STREAMS)
@FEW
def test_a_stream_becomes_a_sequence(found: list[Any]) -> None:
    body = b"".join(map(typed, found))
    there, _ = from_basic(body, content_type="jms/stream-message")
    code, value = value_of(there)
    assert code == 0x76 and same(value, found)
    assert (SECTIONS.read(there.header).annotations or {})[TYPE] == STREAM


@given(st.lists(SCALARS | MAPS, max_size=4))
@FEW
def test_a_list_becomes_a_list(found: list[Any]) -> None:
    there, _ = from_basic(sized(write_list(found)), content_type="amqp/list")
    code, value = value_of(there)
    assert code == 0x77 and same(value, found)


TYPES = ("amqp/map", "amqp/list", "jms/map-message", "jms/stream-message")


@given(st.binary(max_size=30) | MAPS.map(lambda found: sized(write_map(found)) + b"x"))
@FEW
@pytest.mark.parametrize("content_type", TYPES)
def test_other_octets_stay_octets(content_type: str, body: bytes) -> None:
    """``from_basic`` compares the octets that come back, whether or not they happen to be valid."""
    from_basic(body, content_type=content_type)


@given(MAPS, st.sampled_from([MAP, STREAM, TEXT, 2, None]))
@FEW
def test_a_map_of_1_0(found: dict[str, Any], code: Any) -> None:
    annotations = None if code is None else {TYPE: code}
    there = from_sections(modern(0x77, found, annotations=annotations))
    assert BASIC.read(there.header).content_type == "amqp/map"
    assert same(there.body[:], sized(write_map(found)))


@given(STREAMS, st.sampled_from([STREAM, MAP, None]))
@FEW
def test_a_sequence_of_1_0(found: list[Any], code: Any) -> None:
    annotations = None if code is None else {TYPE: code}
    there = from_sections(modern(0x76, found, annotations=annotations))
    if code is STREAM:
        assert BASIC.read(there.header).content_type == "jms/stream-message"
        assert there.body[:] == b"".join(map(typed, found))


@pytest.mark.parametrize("value", [7, Symbol("s"), {"a": Symbol("s")}, {1: 2}, [Symbol("s")]])
def test_values_that_0_10_does_not_have_stay_encoded(value: Any) -> None:
    there = from_sections(modern(0x77, value))
    assert BASIC.read(there.header).content_type == "application/vnd.amqp-gateway.amqp"


def test_objects() -> None:
    there, _ = from_basic(b"\xac\xed", content_type="application/java-object-stream")
    found = SECTIONS.read(there.header)
    assert found.content_type == "application/x-java-serialized-object"
    assert (found.annotations or {})[TYPE] == OBJECT
    back = from_sections(
        modern(0x75, b"\xac\xed", content_type=found.content_type, annotations={TYPE: OBJECT})
    )
    assert BASIC.read(back.header).content_type == "application/java-object-stream"


def test_serialized_objects_of_others_keep_their_content_type() -> None:
    there, _ = from_basic(b"\xac\xed", content_type="application/x-java-serialized-object")
    assert SECTIONS.read(there.header).annotations.keys() == {"x-exchange", "x-routing-key"}  # type: ignore[union-attr]


def test_no_text() -> None:
    there, _ = from_basic(b"", content_type="text/plain", application={NULL: True, "a": 1})
    assert value_of(there) == (0x77, None)
    assert SECTIONS.read(there.header).application == {"a": 1}
    back = from_sections(modern(0x77, None, annotations={TYPE: TEXT}))
    found = BASIC.read(back.header)
    assert (found.content_type, (found.application or {})[NULL]) == ("text/plain", True)


def test_a_correlation_id_of_octets() -> None:
    message = modern(0x77, "t", correlation_id=b"\0\xff", annotations={TYPE: TEXT})
    there = from_sections(message)
    assert b"\x02\0\xff" in there.header  # a short string of these octets
    other = from_sections(modern(0x77, "t", correlation_id=b"\0\xff"))
    assert b"AMQP_BINARY:00ff" in other.header


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("direct://amq.direct/q/q?routingkey='q'", "/exchanges/amq.direct/q"),
        ("direct://amq.direct/Temp-1/Temp-1?routingkey='Temp-1'&exclusive='true'&autodelete='true'",
         "/exchanges/amq.direct/Temp-1"),
        ("direct:////q?routingkey='q'", "q"),
        ("direct:///q/q", "q"),
        ("direct:///a b/a b?routingkey='a b'", "/queues/a%20b"),
        ("topic://amq.topic/a.b/queue?routingkey='a.b'", "/exchanges/amq.topic/a.b"),
        ("topic://amq.topic/a.b", "/exchanges/amq.topic/a.b"),
        ("fanout://x y//?routingkey=''", "/exchanges/x%20y/"),
        ("direct", "direct"),
        ("http://example.com/q", "http://example.com/q"),
        ("q", "q"),
    ],
)  # fmt: skip
def test_binding_urls(url: str, address: str) -> None:
    assert from_binding_url(url) == address
    there, _ = from_basic(b"", reply_to=url)
    assert SECTIONS.read(there.header).reply_to == address


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("/exchanges/amq.topic/a.b", "topic://amq.topic//?routingkey='a.b'"),
        ("/exchanges/amq.direct/k%2Fl", "direct://amq.direct//?routingkey='k/l'"),
        ("amq.topic/a", "topic://amq.topic//?routingkey='a'"),
        ("/exchanges/x/it's", "/exchanges/x/it's"),
        ("/queues/q", "q"),
        ("q", "q"),
        ("a/b", "a/b"),
    ],
)
def test_addresses(address: str, url: str) -> None:
    there = from_sections(modern(0x77, "t", reply_to=address, annotations={TYPE: TEXT}))
    assert BASIC.read(there.header).reply_to == url
    if url.startswith("topic"):
        assert to_binding_url(address) == url
    plain = from_sections(modern(0x77, "t", reply_to=address))
    assert "://" not in str(BASIC.read(plain.header).reply_to)


def test_the_type_is_the_subject() -> None:
    there, _ = from_basic(b"", type="kind")
    assert SECTIONS.read(there.header).subject == "kind"
    back = from_sections(modern(0x75, b"", subject="kind"))
    assert BASIC.read(back.header).type == "kind"


def test_an_edited_map_comes_back_as_edited() -> None:
    """A reader of 0-9-1 has changed a property and sent the rest as it was."""
    crossing = Crossing(KEY)
    symbols = {Symbol("odd"): 5}
    message = modern(0x77, {"a": Int(5)}, annotations={TYPE: MAP}, footer=symbols, subject="\ud7ff")
    there, fidelity = crossed(message, BASIC, crossing)
    found = BASIC.read(there.header)
    found.priority = 9
    edited = legacy(BASIC.write(found), there.body[:])
    back, _ = crossed(edited, SECTIONS, crossing)
    assert SECTIONS.read(back.header).priority == 9
    assert back.body[:] == message.body[:], fidelity
