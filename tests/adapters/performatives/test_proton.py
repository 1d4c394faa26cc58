"""Qpid Proton, an independent implementation, agrees with us about AMQP 1.0 both ways."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.adapters.performatives import sections as s
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.decoding import decode
from gateway.adapters.performatives.encoding import write_value
from gateway.message import Properties
from gateway.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Map,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)  # fmt: skip
from tests import in_memory
from tests.adapters.performatives.amqp_values import ARRAYS, BY_TYPE, array_of, same, values
from tests.drawing import examples
from tests.needs import package

proton = package("python-qpid-proton", "proton")

pytestmark = pytest.mark.interop

Data = proton.Data

PUT = {
    bool: "bool", UByte: "ubyte", Byte: "byte", UShort: "ushort", Short: "short", UInt: "uint",
    Int: "int", Char: "char", ULong: "ulong", int: "long", Timestamp: "timestamp", Float: "float",
    float: "double", Decimal32: "decimal32", Decimal64: "decimal64", Decimal128: "decimal128",
    bytes: "binary", str: "string", Symbol: "symbol", UUID: "uuid",
}  # fmt: skip
PLAIN: dict[type, Callable[[Any], Any]] = {
    Decimal32: lambda v: int.from_bytes(v.octets, "big"),
    Decimal64: lambda v: int.from_bytes(v.octets, "big"),
    Decimal128: lambda v: v.octets,
    Char: str, Symbol: str, Float: float, UUID: lambda v: v,
}  # fmt: skip
BY_CODE = {
    0x40: Data.NULL, 0x50: Data.UBYTE, 0x51: Data.BYTE, 0x56: Data.BOOL, 0x60: Data.USHORT,
    0x61: Data.SHORT, 0x70: Data.UINT, 0x71: Data.INT, 0x72: Data.FLOAT, 0x73: Data.CHAR,
    0x74: Data.DECIMAL32, 0x80: Data.ULONG, 0x81: Data.LONG, 0x82: Data.DOUBLE,
    0x83: Data.TIMESTAMP, 0x84: Data.DECIMAL64, 0x94: Data.DECIMAL128, 0x98: Data.UUID,
    0xB0: Data.BINARY, 0xB1: Data.STRING, 0xB3: Data.SYMBOL, 0xD0: Data.LIST, 0xD1: Data.MAP,
    0xF0: Data.ARRAY,
}  # fmt: skip
SHORT = {0x41: 0x56, 0x42: 0x56, 0x43: 0x70, 0x44: 0x80, 0x45: 0xD0, 0x52: 0x70, 0x53: 0x80}
SHORT |= {0x54: 0x71, 0x55: 0x81, **{c: c + 16 for c in (0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0)}}
WIDE = {**SHORT, **{code: code for code in BY_CODE}}
"""The constructor of elements that proton writes for each that may be read."""


def put(data: Any, value: Any) -> None:
    """Build the value in proton's own tree."""
    if value is None:
        data.put_null()
    elif isinstance(value, Described):
        data.put_described()
        inside(data, [value.descriptor, value.value])
    elif isinstance(value, Array):
        data.put_array(bool(value.descriptors), BY_CODE[WIDE[value.code or 0x40]])
        inside(data, [*value.descriptors, *value])
    elif isinstance(value, dict):
        data.put_map()
        pairs = value.pairs if isinstance(value, Map) else value.items()
        inside(data, [each for pair in pairs for each in pair])
    elif isinstance(value, list):
        data.put_list()
        inside(data, value)
    else:
        plain = PLAIN.get(type(value), lambda v: v)(value)
        getattr(data, f"put_{PUT[type(value)]}")(plain)


def inside(data: Any, items: list[Any]) -> None:
    data.enter()
    for item in items:
        put(data, item)
    data.exit()


KINDS = {getattr(Data, name.upper()): (kind, name) for kind, name in PUT.items()}


def get(data: Any) -> Any:
    """The value at proton's cursor, in our types."""
    kind = data.type()
    if kind == Data.NULL:
        return None
    if kind == Data.DESCRIBED:
        return Described(*children(data))
    if kind == Data.ARRAY:
        count, described, inner = data.get_array()
        found = children(data)
        code = next(code for code, known in BY_CODE.items() if known == inner)
        return Array(found[described:], code, found[:described])
    if kind == Data.MAP:
        found = children(data)
        pairs = list(zip(found[::2], found[1::2], strict=True))
        try:
            made = dict(pairs)
        except TypeError:
            return Map(pairs)
        return made if len(made) == len(pairs) else Map(pairs)
    if kind == Data.LIST:
        return children(data)
    ours, name = KINDS[kind]
    value = getattr(data, f"get_{name}")()
    if ours in (Decimal32, Decimal64):
        return ours(int(value).to_bytes(ours.WIDTH, "big"))
    if ours is Char:
        return Char(value if isinstance(value, str) else chr(value))
    return value if ours in (bool, UUID) else ours(bytes(value) if ours is bytes else value)


def children(data: Any) -> list[Any]:
    found = []
    data.enter()
    while data.next():
        found.append(get(data))
    data.exit()
    return found


def widened(value: Any) -> Any:
    """The same value with the element constructors that proton would use."""
    if isinstance(value, Array):
        if value.code == 0x45:
            return Array(value, 0xD0, value.descriptors)
        return Array(map(widened, value), WIDE[value.code or 0x40], map(widened, value.descriptors))
    if isinstance(value, Described):
        return Described(widened(value.descriptor), widened(value.value))
    if isinstance(value, dict):
        pairs = value.pairs if isinstance(value, Map) else value.items()
        made = [(widened(key), widened(each)) for key, each in pairs]
        return Map(made) if isinstance(value, Map) else dict(made)
    return list(map(widened, value)) if isinstance(value, list) else value


def shallow(value: Any) -> bool:
    """What proton 0.40 can hold: one descriptor on an array, descriptors that are scalars. After a
    described value inside a described one it puts what follows in the wrong place."""
    if isinstance(value, Array):
        return len(value.descriptors) < 2 and all(map(shallow, [*value, *value.descriptors]))
    if isinstance(value, Described):
        simple = not isinstance(value.descriptor, Array | Described | dict | list)
        return simple and not isinstance(value.value, Described) and shallow(value.value)
    if isinstance(value, dict):
        pairs = value.pairs if isinstance(value, Map) else value.items()
        return all(shallow(each) for pair in pairs for each in pair)
    return all(map(shallow, value)) if isinstance(value, list) else True


def check(value: Any) -> None:
    octets = write_value(value)
    tree = Data()
    assert tree.decode(octets) == len(octets)
    tree.rewind()
    tree.next()
    assert same(widened(get(tree)), widened(value)), "proton reads what we write"
    built = Data()
    put(built, value)
    assert same(widened(decode(bytes(built.encode()))), widened(value)), "we read what it writes"


@pytest.mark.parametrize("name", BY_TYPE)
def test_types(name: str) -> None:
    @settings(max_examples=examples(50), deadline=None)
    @given(BY_TYPE[name])
    def run(value: Any) -> None:
        check(value)

    run()


@pytest.mark.parametrize("code", ARRAYS, ids=hex)
def test_arrays(code: int) -> None:
    @settings(max_examples=examples(20), deadline=None)
    @given(array_of(ARRAYS[code], code).filter(shallow))
    def run(value: Any) -> None:
        check(value)

    run()


@settings(max_examples=examples(150), deadline=None)
@given(values.filter(shallow))
def test_values(value: Any) -> None:
    check(value)


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
ids = st.one_of(BY_TYPE["ulong"], BY_TYPE["uuid"], BY_TYPE["binary"], text)


@settings(max_examples=examples(100), deadline=None)
@given(
    ids, st.binary(min_size=1, max_size=20), text, st.integers(0, 255), st.integers(1, 1 << 31),
    st.binary(max_size=400), st.dictionaries(text, BY_TYPE["long"], max_size=3),
)  # fmt: skip
def test_messages(
    id: Any, user: bytes, name: str, priority: int, ttl: int, body: bytes, application: Any
) -> None:
    ours = Properties(
        durable=True, priority=priority, ttl=ttl, message_id=id, user_id=user, to=name,
        subject=name, reply_to=name, content_type="text/plain", creation_time=1790000000123,
        group_id=name, group_sequence=5, application=application or None,
        annotations={Symbol("x-opt-a"): name},
    )  # fmt: skip
    theirs = proton.Message()
    theirs.decode(in_memory.joined(s.pieces(SECTIONS.write(ours), body)))
    assert theirs.durable and theirs.priority == priority and round(theirs.ttl * 1000) == ttl
    assert theirs.address == name and theirs.subject == name and theirs.reply_to == name
    assert theirs.id == id and theirs.user_id == user
    assert theirs.content_type == "text/plain" and theirs.group_id == name
    assert round(theirs.creation_time * 1000) == 1790000000123
    assert bytes(theirs.body) == body and (theirs.properties or {}) == application
    assert theirs.annotations == {"x-opt-a": name}
    header, payload = s.part(bytes(theirs.encode()))
    assert payload == body
    found = SECTIONS.read(header)
    assert priority == (4 if found.priority is None else found.priority)
    for field in ("durable", "ttl", "user_id", "to", "subject", "group_id"):
        assert getattr(found, field) == getattr(ours, field)
    assert same(found.message_id, id) and (found.application or {}) == application
