"""Messages of AMQP 1.0: split without decoding, kept octet by octet, seen as properties."""

import math
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.methods.content import BASIC
from gateway.adapters.performatives import sections as s
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.decoding import (
    ALLOWANCE,
    FieldError,
    TooManyValues,
    decode,
)
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire import tables
from gateway.message import DIALECTS, Essentials, Message, Properties
from gateway.values import Array, Decimal64, Float, Scaled, Short, Symbol, Timestamp, UByte, ULong
from tests import in_memory
from tests.adapters.performatives.amqp_values import BY_TYPE, same, scalars, values
from tests.drawing import examples


def section(code: int, value: Any) -> bytes:
    return b"\x00\x53" + bytes((code,)) + write_value(value)


def long_form(octets: bytes) -> bytes:
    """The same section behind its symbol."""
    return b"\x00" + write_value(Symbol(tables.SECTIONS[octets[2]][1])) + octets[3:]


def longer_form(octets: bytes) -> bytes:
    """The same section behind eight octets of descriptor."""
    return b"\x00\x80" + bytes(7) + octets[2:]


symbols = BY_TYPE["symbol"]
forms = st.sampled_from([lambda o: o, lambda o: o, long_form, longer_form])
maps = st.dictionaries(symbols, values, max_size=3)
data = st.one_of(
    st.binary(max_size=300).map(lambda b: b"\x00\x53\x75" + write_value(b)),
    st.binary(max_size=300).map(lambda b: b"\x00\x53\x75\xb0" + len(b).to_bytes(4, "big") + b),
)
bodies = st.one_of(
    st.lists(data, max_size=4),
    st.lists(st.lists(values, max_size=3).map(lambda v: section(s.SEQUENCE, v)), max_size=3),
    values.map(lambda v: [section(s.VALUE, v)]),
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    head = [
        w.write_header(
            draw(st.builds(w.Header, st.none() | st.booleans(), st.none() | st.just(7)))
        ),
        section(s.DELIVERY, draw(maps)),
        section(s.ANNOTATIONS, draw(maps)),
        w.write_properties(w.Properties(draw(BY_TYPE["ulong"]), b"user", draw(BY_TYPE["string"]))),
        section(s.APPLICATION, draw(st.dictionaries(BY_TYPE["string"], scalars, max_size=3))),
    ]
    pieces = [piece for piece in head if draw(st.booleans())] + draw(bodies)
    if draw(st.booleans()):
        pieces.append(section(s.FOOTER, draw(maps)))
    return b"".join(draw(forms)(piece) for piece in pieces)


@given(messages())
@settings(max_examples=examples(80), deadline=None)
def test_messages_come_back_octet_by_octet(octets: bytes) -> None:
    header, body = s.part(octets)
    assert s.part(b"..." + octets, 3) == (header, body)
    assert in_memory.joined(s.pieces(header, body)) == octets
    SECTIONS.essentials(header)
    SECTIONS.read(header)
    found = s.split(octets)
    spans = sorted([*found.single.values(), *(span for _, span in found.body)])
    assert [span[0] for span in spans] == [0, *(span[2] for span in spans[:-1])][: len(spans)]
    assert not spans or spans[-1][2] == len(octets)


@given(messages(), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_broken_messages_are_refused_or_read(octets: bytes, data: st.DataObject) -> None:
    broken = bytearray(octets or b"\x00")
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(broken[: data.draw(st.integers(0, len(broken)))])
    for attempt in (bytes(broken), cut):
        try:
            header, body = s.part(attempt)
            assert in_memory.joined(s.pieces(header, body)) == attempt
            SECTIONS.essentials(header)
            SECTIONS.read(header)
        except FieldError:
            pass
    try:
        SECTIONS.essentials(attempt)
        SECTIONS.read(attempt)
        s.pieces(attempt, b"x")
    except FieldError:
        pass


def test_an_ordinary_message_is_stored_as_its_octets() -> None:
    octets = w.write_header(w.Header(True)) + section(s.DATA, b"hello")
    assert s.part(octets) == (w.write_header(w.Header(True)), b"hello")
    assert s.is_plain(s.part(octets)[0])
    assert s.part(section(s.DATA, b"")) == (b"", b"")
    assert s.pieces(b"", b"x" * 256)[1] == b"\x00\x53\x75\xb0\x00\x00\x01\x00"


def test_several_data_sections_are_one_payload() -> None:
    octets = section(s.DATA, b"one") + section(s.DATA, b"") + section(s.DATA, b"two")
    header, body = s.part(octets)
    assert body == b"onetwo" and not s.is_plain(header)
    assert SECTIONS.read(header).body_kind == "data"
    assert in_memory.joined(s.pieces(header, body)) == octets
    assert in_memory.joined(s.pieces(header, b"other")) == section(s.DATA, b"other")


@pytest.mark.parametrize(
    ("octets", "kind"),
    [
        (section(s.VALUE, {"a": 1}), "value"),
        (section(s.SEQUENCE, [1]) + section(s.SEQUENCE, []), "sequence"),
        (b"", "none"),
        (section(s.DATA, b""), None),
    ],
)
def test_kinds_of_body(octets: bytes, kind: str | None) -> None:
    header, body = s.part(octets)
    assert SECTIONS.read(header).body_kind == kind
    assert body == (octets if kind in ("value", "sequence") else b"")
    assert SECTIONS.write(Properties(body_kind=kind)) == header


@pytest.mark.parametrize(
    "octets",
    [
        section(s.HEADER, []) * 2,
        section(s.HEADER, []) + section(s.DATA, b"") + section(s.HEADER, []),
        section(s.VALUE, 1) * 2,
        section(s.DATA, b"") + section(s.SEQUENCE, []),
        section(s.DATA, "text"),
        section(s.APPLICATION, []),
        section(s.PROPERTIES, {}),
        section(0x79, []),
        b"\x40",
        b"\x00",
        b"\x00\x53",
        b"\x00\x53\x75\xa0\x05ab",
        b"\x00\xa3\x01x\x45",
    ],
    ids=str,
)
def test_invalid_messages(octets: bytes) -> None:
    with pytest.raises(FieldError):
        s.part(octets)


def test_sections_in_another_order_are_put_in_theirs() -> None:
    """RabbitMQ's client for Python puts an empty body before the properties."""
    properties, body = section(s.PROPERTIES, ["id"]), section(s.VALUE, None)
    assert s.part(body + properties) == s.part(properties + body)
    data, footer = section(s.DATA, b"x"), section(s.FOOTER, {})
    assert s.part(footer + data) == s.part(data + footer)


def test_essentials() -> None:
    header = b"".join(
        [
            w.write_header(w.Header(True, 7, 1500)),
            section(s.ANNOTATIONS, {Symbol("x-opt-a"): 1}),
            w.write_properties(w.Properties("id", b"joe")),
            section(s.APPLICATION, {"a": 1}),
        ]
    )
    assert SECTIONS.essentials(header) == Essentials(True, 7, 1500, "joe", True)
    assert SECTIONS.essentials(b"") == Essentials()
    assert SECTIONS.essentials(section(s.APPLICATION, {})) == Essentials()
    assert DIALECTS["1.0"] is SECTIONS
    for broken in (header[:-1], section(s.DELIVERY, {})[:-1], b"\x00\x53\x70\xc0\x02\x01\x50"):
        with pytest.raises(ValueError):
            SECTIONS.essentials(broken)


FULL = Properties(
    durable=True, priority=9, ttl=60000, first_acquirer=False, delivery_count=2,
    message_id=UUID(int=5), user_id=b"joe", to="/queues/q", subject="s", reply_to="r",
    correlation_id=ULong(1 << 63), content_type="text/plain", content_encoding="gzip",
    absolute_expiry_time=1790000000123, creation_time=-5, group_id="g", group_sequence=4294967295,
    reply_to_group_id="rg", type="t", app_id="a", cluster_id="c",
    application={"a": 1, "b": Float(0.5), "d": Decimal64(bytes(8)), "n": None},
    annotations={Symbol("x-opt-m"): {"deep": [1]}, ULong(7): True},
    delivery_annotations={Symbol("x-d"): "e"}, footer={Symbol("x-f"): b"g"}, body_kind="value",
)  # fmt: skip


def test_properties_come_back() -> None:
    found = SECTIONS.read(SECTIONS.write(FULL))
    assert found == FULL
    assert same(found.annotations, FULL.annotations) and same(found.application, FULL.application)
    assert type(found.message_id) is UUID and type(found.correlation_id) is ULong
    assert SECTIONS.read(b"") == Properties() and SECTIONS.write(Properties()) == b""


@pytest.mark.parametrize("name", Properties.__slots__)
def test_each_property_alone(name: str) -> None:
    one = Properties(**{name: getattr(FULL, name)})
    assert SECTIONS.read(SECTIONS.write(one)).given() == one.given()


NATURAL = {
    "numbers that do not fit": Properties(ttl=1 << 40, priority=300, group_sequence=-1),
    "text that is not UTF-8": Properties(subject="\udcff", content_type="t\u00e9xt"),
    "nested headers": Properties(application={"a": 1, "deep": {"x": [1, "2"]}, "list": [1]}),
    "only nested headers": Properties(application={"deep": [{}]}),
    "a header name that is not UTF-8": Properties(application={"\udcff": 1}),
    "an array among headers": Properties(application={"a": Array([1], 0x55)}),
}


@pytest.mark.parametrize("case", NATURAL)
def test_properties_without_a_field_are_carried_in_annotations(case: str) -> None:
    header = SECTIONS.write(NATURAL[case])
    found = SECTIONS.read(header)
    assert found.given() == NATURAL[case].given()
    sections = s.split_header(header)
    carried = s.section_value(header, sections.single[s.ANNOTATIONS])
    assert set(carried) <= {"x-opt-gateway-headers", "x-opt-gateway-properties"}
    if s.APPLICATION in sections.single:
        simple = s.section_value(header, sections.single[s.APPLICATION])
        assert not any(isinstance(v, list | dict | tuple) for v in simple.values())


def test_natural_values_of_legacy_headers() -> None:
    written = SECTIONS.write(
        Properties(application={"D": Scaled(2, 12345), "s": Short(-5), "x": "\udcff"})
    )
    found = SECTIONS.read(written).application
    assert found is not None and same(found, {"D": "123.45", "s": Short(-5), "x": b"\xff"})
    with pytest.raises(FieldError, match="unsigned number as its key"):
        SECTIONS.write(Properties(annotations={b"k": 1}))


def test_a_clamped_number_is_the_nearest_that_fits() -> None:
    header = SECTIONS.write(Properties(ttl=1 << 40))
    assert SECTIONS.essentials(header).ttl == (1 << 32) - 1


def test_between_the_dialects() -> None:
    plain = Properties(
        durable=True, priority=5, ttl=1000, message_id="m", correlation_id=UUID(int=1),
        content_type="text/plain", reply_to="q", creation_time=1790000000000, type="t", app_id="a",
        user_id=b"joe", application={"n": 5, "b": UByte(1), "t": {"x": 1}, "u": None},
    )  # fmt: skip
    legacy = BASIC.write(plain)
    there = SECTIONS.write(BASIC.read(legacy))
    back = BASIC.write(SECTIONS.read(there))
    assert BASIC.read(back) == BASIC.read(legacy)
    message = Message(SECTIONS, there, b"body", "", "q", SECTIONS.essentials(there))
    assert message.form_for(SECTIONS)[0] is there
    assert BASIC.read(message.form_for(BASIC)[0]).content_type == "text/plain"
    rich = SECTIONS.read(BASIC.write(SECTIONS.read(SECTIONS.write(FULL))) and there)
    assert rich.type == "t"


def test_repeated_keys_do_not_get_lost_on_the_way() -> None:
    raw = b"\x00\x53\x74\xc1\x0b\x04\xa1\x01a\x50\x01\xa1\x01a\x50\x02"
    header, body = s.part(raw + section(s.DATA, b""))
    assert in_memory.joined(s.pieces(header, body))[: len(raw)] == raw
    assert SECTIONS.read(header).application == decode(raw[3:])


def test_times_are_timestamps() -> None:
    header = SECTIONS.write(Properties(creation_time=1))
    assert same(decode(header).value[9], Timestamp(1))


def test_late_delivery_annotations_are_put_where_they_belong() -> None:
    early = [w.write_header(w.Header(True)), section(s.DELIVERY, {Symbol("x-a"): 1})]
    rest = [section(s.APPLICATION, {"a": 1}), section(s.DATA, b"x"), section(s.FOOTER, {})]
    late = b"".join([early[0], *rest[:2], early[1], rest[2]])
    assert s.part(late) == s.part(b"".join(early + rest))
    assert s.part(b"".join([early[0], *rest, early[1]])) == s.part(late)
    with pytest.raises(FieldError):
        s.part(b"".join([*early, *rest, early[1]]))


LISTS = {
    "null": b"\x40",
    "empty list": b"\x45",
    "empty map": b"\xc1\x01\x00",
    "list": b"\xc0\x02\x01\x45",
    "array": b"\xe0\x02\x00\x40",
    "described": b"\x00\x40\x40",
}


@pytest.mark.parametrize("kind", LISTS)
def test_the_values_of_a_message_are_counted(kind: str) -> None:
    """Each takes time, and a message may have millions. No more are read than the limit says."""

    def made(count: int) -> bytes:
        inner = LISTS[kind] * count
        value = b"\xd0" + struct.pack(">II", len(inner) + 4, count) + inner
        items = b"\xa3\x01a" + value
        return b"\x00\x53\x72\xd1" + struct.pack(">II", len(items) + 4, 2) + items

    for octets in (made(MOST_VALUES), made(20 * MOST_VALUES)):
        with pytest.raises(TooManyValues):
            SECTIONS.essentials(octets)
        assert ALLOWANCE.left == math.inf
    few = made(MOST_VALUES // 4)
    assert SECTIONS.essentials(few + b"\x00\x53\x74\xc1\x01\x00") == Essentials()
    # What was kept before there was a limit can still be read.
    assert SECTIONS.read(made(MOST_VALUES)).annotations is not None
