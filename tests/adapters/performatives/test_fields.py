"""The type system of AMQP 1.0: every type and constructor both ways, and refusals."""

import struct
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.adapters.performatives import decoding as fields
from gateway.adapters.performatives import encoding
from gateway.adapters.performatives.decoding import DEPTH, FieldError, decode, read_value, skip
from gateway.adapters.performatives.encoding import write_value
from gateway.values import (
    Array,
    Char,
    Decimal128,
    Described,
    Float,
    Int,
    Map,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
)
from specs.codegen.__main__ import ROOT, SOURCE_1_0
from specs.codegen.load import load
from tests.adapters.performatives.amqp_values import ARRAYS, BY_TYPE, array_of, same, values
from tests.drawing import examples

PROTOCOL = load(ROOT / "specs" / SOURCE_1_0)
ENCODINGS = [
    pytest.param(kind.name, encoding, id=f"{kind.name}-{encoding.name}")
    for kind in PROTOCOL.types.values()
    for encoding in kind.encodings
]


def test_every_constructor_of_the_specification_is_read() -> None:
    specified = {e.code for t in PROTOCOL.types.values() for e in t.encodings}
    known = {c for c in range(256) if fields.READERS[c] is not fields._unknown}
    assert known == specified | {0}
    assert len(specified) == 39
    assert set(ARRAYS) == specified


@pytest.mark.parametrize(("name", "encoding"), ENCODINGS)
def test_widths_are_those_of_the_specification(name: str, encoding: Any) -> None:
    expected = encoding.width if encoding.category == "fixed" else -encoding.width
    assert fields.WIDTHS[encoding.code] == expected


@pytest.mark.parametrize("name", BY_TYPE)
def test_types_round_trip(name: str) -> None:
    @settings(max_examples=examples(50), deadline=None)
    @given(BY_TYPE[name])
    def check(value: Any) -> None:
        octets = write_value(value)
        assert octets[0] in {e.code for e in PROTOCOL.types[name].encodings}
        assert same(decode(octets), value)
        assert skip(octets, 0, len(octets)) == len(octets)

    check()


@pytest.mark.parametrize("code", ARRAYS, ids=hex)
def test_arrays_of_every_constructor_round_trip(code: int) -> None:
    @settings(max_examples=examples(15), deadline=None)
    @given(array_of(ARRAYS[code], code))
    @example(Array([], code))
    @example(Array([], code, [Symbol("x:y"), ULong(7)]))
    def check(value: Array) -> None:
        octets = write_value(value)
        assert same(decode(octets), value)
        assert write_value(decode(octets)) == octets

    check()


@given(values)
@settings(max_examples=examples(150), deadline=None)
def test_values_round_trip(value: Any) -> None:
    octets = write_value(value)
    found, end = read_value(b"??" + octets + b"rest", 2, 2 + len(octets))
    assert same(found, value) and end == 2 + len(octets)
    assert write_value(found) == octets
    assert skip(octets, 0, len(octets)) == len(octets)


@given(values, st.data())
@settings(max_examples=examples(150), deadline=None)
def test_cut_or_changed_octets_are_read_or_refused(value: Any, data: st.DataObject) -> None:
    octets = bytearray(write_value(value))
    if data.draw(st.booleans()):
        del octets[data.draw(st.integers(0, len(octets) - 1)) :]
    else:
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    check_refusal(bytes(octets))


@given(st.binary(max_size=200))
@settings(max_examples=examples(150), deadline=None)
def test_anything_is_read_or_refused(octets: bytes) -> None:
    check_refusal(octets)


def check_refusal(octets: bytes) -> None:
    """Either a value, whose canonical form is the same value, or a FieldError. Nothing else."""
    try:
        found, end = read_value(octets)
    except FieldError:
        return
    assert end <= len(octets) and skip(octets, 0, len(octets)) == end
    assert same(decode(write_value(found)), found)


@settings(max_examples=examples(30), deadline=None)
@given(values)
def test_every_cut_is_noticed(value: Any) -> None:
    octets = write_value(value)
    for size in range(len(octets)):
        with pytest.raises(FieldError):
            decode(octets[:size])


SMALLEST: dict[str, tuple[Any, str]] = {
    "null": (None, "40"), "true": (True, "41"), "uint0": (UInt(0), "43"),
    "ulong0": (ULong(0), "44"),
    "list0": ([], "45"), "smalluint": (UInt(255), "52ff"), "uint": (UInt(256), "7000000100"),
    "smallulong": (ULong(255), "53ff"), "smallint": (Int(-128), "5480"),
    "int": (Int(128), "7100000080"), "smalllong": (-1, "55ff"),
    "long": (128, "81" + "0" * 14 + "80"),
    "float": (Float(1.0), "723f800000"), "char": (Char("\U0001f600"), "730001f600"),
    "binary": (b"ab", "a0026162"), "string": ("\u20ac", "a103e282ac"),
    "symbol": (Symbol("x"), "a30178"),
    "list8": ([None], "c0020140"), "map8": ({}, "c10100"),
    "array8": (Array([UByte(7)]), "e003015007"),
    "ulong array": (
        Array([ULong(1), ULong(256)]),
        "e0120280" + "0" * 14 + "01" + "0" * 12 + "0100",
    ),
    "described": (Described(Symbol("u"), "v"), "00a30175a10176"),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_encoding_is_written(name: str) -> None:
    value, octets = SMALLEST[name]
    assert write_value(value).hex() == octets


def test_sizes_at_the_edge_of_one_octet() -> None:
    assert write_value("x" * 255)[0] == 0xA1 and write_value("x" * 256)[0] == 0xB1
    fits = [b"x" * 252]
    assert write_value(fits)[0] == 0xC0 and decode(write_value(fits)) == fits
    over = [b"x" * 253]
    assert write_value(over)[0] == 0xD0 and decode(write_value(over)) == over
    assert write_value([None] * 254)[0] == 0xC0 and write_value([None] * 255)[0] == 0xD0


@pytest.mark.parametrize("code", [0xC0, 0xD0, 0xC1, 0xD1, 0xE0, 0xF0])
def test_compounds_of_either_width_are_read(code: int) -> None:
    layout = struct.Struct(">BB" if code in (0xC0, 0xC1, 0xE0) else ">II")
    body = b"\x50\x01\x02" if code in (0xE0, 0xF0) else b"\x50\x01\x50\x02"
    octets = bytes((code,)) + layout.pack(len(body) + layout.size // 2, 2) + body
    found = decode(octets)
    assert found == {0xC: [1, 2], 0xD: [1, 2], 0xE: Array([1, 2], 0x50), 0xF: Array([1, 2], 0x50)}[
        code >> 4
    ] or found == {1: 2}


def test_maps_keep_order_repeated_keys_and_keys_of_any_type() -> None:
    pairs: list[tuple[Any, Any]] = [("a", 1), (Symbol("a"), 2), (1, 3), (True, 4), ([1], 5)]
    octets = write_value(Map(pairs))
    found = decode(octets)
    assert isinstance(found, Map) and same(list(found.pairs), pairs)
    ordered = decode(write_value({"b": 1, "a": 2}))
    assert type(ordered) is dict and list(ordered) == ["b", "a"]


CHOSEN: dict[str, list[Any]] = {
    "uuid": [UUID(int=number * (2**61 - 1)) for number in range(1, 2001)],
    "decimal128": [Decimal128(number.to_bytes(16, "big")) for number in range(2000)],
    "described": [Described(ULong(1), UUID(int=n * (2**61 - 1))) for n in range(1, 2001)],
    "ulong": [ULong(number << 40) for number in range(2000)],
    "timestamp": [Timestamp(number << 40) for number in range(2000)],
    "double": [float(number << 40) for number in range(2000)],
}


@pytest.mark.parametrize("kind", CHOSEN)
def test_keys_of_one_hash_are_not_compared_with_each_other(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hashes of texts and octets are salted; those of all else a peer can choose."""
    pairs = [(key, number) for number, key in enumerate(CHOSEN[kind])]
    octets = write_value(Map(pairs))
    asked = 0
    equal = UUID.__eq__

    def counted(self: UUID, other: object) -> bool:
        nonlocal asked
        asked += 1
        return equal(self, other)

    monkeypatch.setattr(UUID, "__eq__", counted)
    found = decode(octets)
    assert asked <= len(pairs)
    assert type(found) is Map and len(found.pairs) == len(pairs) and not len(found)
    assert write_value(found) == octets


def test_few_keys_of_any_type_are_a_dict_and_texts_always() -> None:
    assert type(decode(write_value({ULong(number): 1 for number in range(8)}))) is dict
    assert type(decode(write_value({f"{number}": 1 for number in range(2000)}))) is dict
    assert type(decode(write_value({Symbol(f"{number}"): 1 for number in range(2000)}))) is dict
    many = decode(write_value(Map([*((number, 1) for number in range(9)), ("a", 2)])))
    assert type(many) is Map and many["a"] == 2 and len(many.pairs) == 10


REFUSED = {
    "nothing": "", "unknown constructor": "46", "boolean 2": "5602", "bad UTF-8": "a101ff",
    "lone surrogate in UTF-8": "a103eda080", "symbol that is not ASCII": "a301e9",
    "char beyond Unicode": "7300110000", "char that is a surrogate": "730000d800",
    "odd map": "c1020140",
    "items beyond the size": "c0020150ff", "size beyond the items": "c003014040",
    "more items than octets": "c00205404040", "array beyond its size": "e004025001",
    "array of unknown": "e0020046", "array of many nothings": "f000000005000001004040",
    "descriptor without value": "00a30178", "octets behind": "4040", "string cut": "a10561",
    "list that lies": "d0ffffffffffffffff40", "string that lies": "b1ffffffff61",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(FieldError):
        decode(bytes.fromhex(REFUSED[name]))


@pytest.mark.parametrize(
    "octets",
    [
        b"\x00" * 100_000,
        b"\xc0\xff\x01" * 50_000,
        b"\xd0\x00\x10\x00\x00\x00\x00\x00\x01" * 50_000,
        b"\xe0\x7f\x01" * 50_000,
        b"\xe0\x7f\x01" + b"\x00" * 100_000,
        b"\xd0\x00\x0f\x42\x40\x00\x0f\x42\x3c" + b"\xb0\x00\x0f\x00\x00" * 200_000,
        b"\xf0\x00\x00\x00\x06\xff\xff\xff\xff\x40" * 20_000,
    ],
    ids=["descriptors", "list8", "list32", "arrays", "descriptors in array", "liars", "nothings"],
)
def test_hostile_input_ends_soon(octets: bytes) -> None:
    begun = time.perf_counter()
    with pytest.raises(FieldError):
        decode(octets)
    with suppress(FieldError):
        skip(octets, 0, len(octets))
    assert time.perf_counter() - begun < 60


def test_cost_grows_with_size_only() -> None:
    value: Any = "x"
    for _ in range(DEPTH):
        value = [value, *range(10)]
    assert decode(write_value(value)) == value
    with pytest.raises(FieldError, match="nest deeper"):
        write_value([value])
    begun = time.perf_counter()
    deep = Array([1])
    for _ in range(DEPTH - 2):
        deep = Array([deep, deep][:1])
    assert len(decode(write_value(deep))) == 1
    decode(write_value(list(range(200_000))))
    keyed: Any = Map([(1, 2)])
    for _ in range(DEPTH - 2):
        keyed = Map([(keyed, 1)])
    assert isinstance(decode(write_value(keyed)), Map)
    assert time.perf_counter() - begun < 60


@pytest.mark.parametrize(
    "value",
    [
        1 << 63, UByte(256), UInt(-1), Symbol("\u20ac"), "\ud800", Char("ab"), ...,
        Array([1, "a"]), Array([UByte(1)], 0x46), Array(["x" * 256], 0xA1), Array([2], 0x41),
        Array([None] * 256),
    ],
    ids=repr,
)  # fmt: skip
def test_what_has_no_encoding_is_refused(value: Any) -> None:
    with pytest.raises(FieldError):
        write_value(value)


def test_text_that_came_as_other_octets_goes_back_as_binary() -> None:
    assert decode(write_value(b"\xff\xfe".decode("utf-8", "surrogateescape"))) == b"\xff\xfe"


def test_elements_are_chosen_by_type() -> None:
    for kind, codes in encoding.ARRAY_CODES.items():
        assert all(
            code in encoding.ELEMENTS or code & 0xEF in encoding.CONTENTS for code in codes
        ), kind
