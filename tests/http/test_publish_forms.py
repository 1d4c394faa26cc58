"""JSON forms of messages: what is written reads back to the identical values, or is refused."""

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import values
from gateway.adapters.methods.content import BASIC
from gateway.http.publish.form_reader import read_form
from gateway.http.publish.form_writer import write_full, write_simple
from gateway.http.typed_json import DECODER, BadForm, loads, read_json, write_json
from gateway.message import Properties

TEXT = st.text(max_size=20)
ESCAPED = st.binary(max_size=8).map(lambda octets: octets.decode("utf-8", "surrogateescape"))
LONG = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    LONG,
    st.floats(),
    TEXT,
    ESCAPED,
    st.binary(max_size=20),
    st.uuids(),
    st.integers(-128, 127).map(values.Byte),
    st.integers(0, 255).map(values.UByte),
    st.integers(-(2**15), 2**15 - 1).map(values.Short),
    st.integers(0, 2**16 - 1).map(values.UShort),
    st.integers(-(2**31), 2**31 - 1).map(values.Int),
    st.integers(0, 2**32 - 1).map(values.UInt),
    st.integers(0, 2**64 - 1).map(values.ULong),
    st.floats(width=32).map(values.Float),
    LONG.map(values.Timestamp),
    st.integers(0, 2**64 - 1).map(values.Seconds),
    st.text(st.characters(max_codepoint=127), max_size=9).map(values.Symbol),
    st.characters(exclude_categories=["Cs"]).map(values.Char),
    TEXT.map(values.ShortString),
    st.builds(values.Scaled, st.integers(0, 255), st.integers(-(2**32) + 1, 2**32 - 1)),
)
KEYS = st.one_of(TEXT, ESCAPED, LONG, TEXT.map(values.ShortString), st.just("$type"))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
        st.builds(values.Described, inner, inner),
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types all the way down; NaN by its bits, zero by its sign."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        layout = ">f" if isinstance(one, values.Float) else ">d"
        return struct.pack(layout, one) == struct.pack(layout, other)
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(a, b) and same(one[a], other[b]) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@given(VALUES)
def test_every_value_comes_back_identical(value: Any) -> None:
    written = json.dumps(write_json(value), allow_nan=False).encode("ascii")
    assert same(read_json(loads(written)), value), written


SHORT = st.text(max_size=40)
IDS = st.one_of(
    SHORT, st.uuids(), st.binary(max_size=20), st.integers(0, 2**64 - 1).map(values.ULong)
)
APPLICATION = st.dictionaries(st.text(min_size=1, max_size=10), VALUES, max_size=3)
SECTION_KEYS = st.text(st.characters(max_codepoint=127), max_size=8).map(
    values.Symbol
) | st.integers(0, 2**64 - 1).map(values.ULong)
UINTS = st.integers(0, 2**32 - 1)
MOMENTS = st.integers(0, 10**15 - 1)
ASCII = st.text(st.characters(max_codepoint=127), max_size=20)
FIELDS: dict[str, Any] = {
    "durable": st.booleans(),
    "priority": st.integers(0, 255),
    "ttl": UINTS,
    "first_acquirer": st.booleans(),
    "delivery_count": UINTS,
    "message_id": IDS,
    "correlation_id": IDS,
    "user_id": st.binary(max_size=20),
    **dict.fromkeys(("to", "subject", "reply_to", "group_id", "reply_to_group_id"), SHORT),
    **dict.fromkeys(("type", "app_id", "cluster_id"), SHORT),
    **dict.fromkeys(("content_type", "content_encoding"), ASCII),
    **dict.fromkeys(("absolute_expiry_time", "creation_time"), MOMENTS),
    "group_sequence": UINTS,
    "application": APPLICATION,
    "annotations": st.dictionaries(SECTION_KEYS, VALUES, max_size=2),
    "delivery_annotations": st.dictionaries(SECTION_KEYS, VALUES, max_size=2),
    "footer": st.dictionaries(SECTION_KEYS, VALUES, max_size=2),
    "body_kind": st.sampled_from(["value", "sequence"]),
}
PROPERTIES = st.fixed_dictionaries({}, optional=FIELDS).map(lambda given: Properties(**given))
NAMES = st.none() | st.text(max_size=20)


@given(PROPERTIES, st.binary(max_size=40), NAMES, NAMES)
def test_the_full_view_is_the_message(
    properties: Properties, body: bytes, exchange: str | None, key: str | None
) -> None:
    written = json.dumps(write_full(properties, body, exchange, key), allow_nan=False).encode()
    form = read_form(loads(written))
    assert form.body == body
    assert (form.exchange, form.key) == (exchange, key)
    assert form.properties.given().keys() == properties.given().keys()
    for name, value in properties.given().items():
        assert same(getattr(form.properties, name), value), name


SIMPLE = st.fixed_dictionaries(
    {},
    optional={
        name: strategy
        for name, strategy in FIELDS.items()
        if name not in ("first_acquirer", "delivery_count", "delivery_annotations", "footer")
    },
).map(lambda given: Properties(**given))


@given(SIMPLE, st.binary(max_size=40))
def test_the_simple_view_keeps_types_too(properties: Properties, body: bytes) -> None:
    form = read_form(loads(json.dumps(write_simple(properties, body, "x", "k")).encode()))
    assert form.body == body or properties.content_type
    assert (form.exchange, form.key) == ("x", "k")
    assert form.properties.message_id == properties.message_id
    assert form.properties.creation_time == properties.creation_time
    assert same(form.properties.application, properties.application)


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_a_form_never_raises_anything_else(found: dict[str, Any]) -> None:
    for view in ("simple", "full"):
        try:
            read_form(found, view)
        except BadForm as error:
            assert error.text


def test_bodies_as_people_write_them() -> None:
    json_body = read_form({"body": {"json": {"a": [1, "ü"]}}})
    assert json_body.body == '{"a":[1,"ü"]}'.encode()
    assert json_body.properties.content_type == "application/json"
    text = read_form({"body": "grüß"})
    assert text.body == "grüß".encode()
    assert text.properties.content_type == "text/plain; charset=utf-8"
    named = read_form({"body": {"text": "<a/>"}, "content_type": "text/xml"})
    assert named.properties.content_type == "text/xml"
    octets = read_form({"body": {"base64": "AP8="}})
    assert (octets.body, octets.properties.content_type) == (b"\0\xff", None)
    assert read_form({"body": None}).body == b""


@pytest.mark.parametrize(
    ("form", "pointer"),
    [
        ([], ""),
        ({"view": "half"}, "/view"),
        ({"durble": True}, "/durble"),
        ({"view": "full", "haeder": None}, "/haeder"),
        ({"durable": 1}, "/durable"),
        ({"priority": 256}, "/priority"),
        ({"priority": True}, "/priority"),
        ({"ttl_ms": -1}, "/ttl_ms"),
        ({"id": 7}, "/id"),
        ({"type": "x" * 256}, "/type"),
        ({"time": "2026-13-01T00:00:00Z"}, "/time"),
        ({"time": "2026-01-01T00:00:00"}, "/time"),
        ({"properties": {"a": {"$type": "ubyte", "value": 256}}}, "/properties/a/value"),
        ({"properties": {"a/b": {"$type": "decimal256", "value": "1"}}}, "/properties/a~1b/$type"),
        ({"properties": {"a": {"$type": "decimal32", "value": "x"}}}, "/properties/a/value"),
        ({"properties": {"a": {"$type": "array", "of": "list", "value": []}}}, "/properties/a/of"),
        ({"properties": {"a": 2**63}}, "/properties/a"),
        ({"properties": {"a": {"$type": "uuid"}}}, "/properties/a"),
        ({"properties": {"": 1}}, "/properties"),
        ({"properties": {"a": "\ud800"}}, "/properties/a"),
        ({"body": 7}, "/body"),
        ({"body": {"json": 1, "text": "1"}}, "/body"),
        ({"body": {"base64": "?"}}, "/body/base64"),
        ({"body": {"kind": "value", "value": [1]}}, "/body"),
        ({"body": {"text": "\ud800"}}, "/body/text"),
        ({"body": {"json": "\ud800"}}, "/body/json"),
        ({"view": "full", "header": {"colour": 1}}, "/header/colour"),
        ({"view": "full", "properties": {"to": 7}}, "/properties/to"),
        ({"view": "full", "id": "x"}, "/id"),
    ],
)
def test_errors_have_a_pointer(form: Any, pointer: str) -> None:
    with pytest.raises(BadForm) as caught:
        read_form(form)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("text", [b"", b"{", b'{"a":1,"a":2}', b"NaN", b"\xff", b"[" * 100_000])
def test_bodies_that_are_no_json(text: bytes) -> None:
    with pytest.raises(BadForm):
        loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "{}", "{} \n", " {}", '{"a": 1} x', '{"a": 1}\n\t{', "{}]", "{}\x0b", "{}\xa0", "{", "[1] ",
        "", '{"a": 1, "a": 2}', '{"a": NaN}',
    ],
)  # fmt: skip
def test_text_is_read_as_by_the_library(text: str) -> None:
    """With what it says of errors, and where they are."""
    try:
        expected = DECODER.decode(text)
    except ValueError as error:
        with pytest.raises(BadForm) as raised:
            loads(text)
        assert raised.value.text == f"is not JSON: {error}"
    else:
        assert loads(text) == loads(text.encode()) == expected


def test_nesting_ends() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    with pytest.raises(BadForm):
        read_json(deep)


def test_numbers_as_people_write_them() -> None:
    assert same(read_json(loads("1.5")), 1.5)
    assert same(read_json({"$type": "float", "value": 0.1}), values.Float(0.1))
    assert math.isnan(read_json({"$type": "double", "value": "NaN"}))
    assert read_json({"$type": "array", "of": "int", "value": [1, 2]}) == values.Array([1, 2], 0x71)
    with pytest.raises(BadForm):
        read_json(loads("1e400"))


def test_full_view_of_a_message_of_a_legacy_peer() -> None:
    header = BASIC.write(
        Properties(
            durable=True,
            message_id=values.ULong(2**64 - 1),
            creation_time=1_790_000_000_123,
            application={"t": values.Seconds(5), "n": {"x": [values.Short(1)]}},
        )
    )
    properties = BASIC.read(header)
    again = read_form(loads(json.dumps(write_full(properties, b"x"))))
    assert BASIC.write(again.properties) == header
