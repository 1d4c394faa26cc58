"""Values of the transitional 0-10: table entries by number and letter, sets, serials, bodies."""

import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.methods.tags import FieldError, TooManyValues
from gateway.adapters.methods.transitional import types
from gateway.adapters.methods.types import DEPTH
from gateway.adapters.methods.wire.transitional import FIELD_TYPES
from gateway.values import (
    Byte,
    Char,
    Float,
    Int,
    Scaled,
    Seconds,
    Short,
    UByte,
    UInt,
    ULong,
    UShort,
)

UUID_OCTETS = bytes(range(16))

NUMERIC: list[tuple[str, Any]] = [
    ("00 ff", b"\xff"),
    ("01 ff", Byte(-1)),
    ("02 ff", UByte(255)),
    ("04 a4", Char("€")),  # ISO 8859-15
    ("08 01", True),
    ("08 00", False),
    ("10 0102", b"\1\2"),
    ("11 ffff", Short(-1)),
    ("12 ffff", UShort(65535)),
    ("20 01020304", b"\1\2\3\4"),
    ("21 ffffffff", Int(-1)),
    ("22 ffffffff", UInt((1 << 32) - 1)),
    ("23 3fc00000", Float(1.5)),
    ("27 0001f600", Char("😀")),
    ("30 0102030405060708", bytes(range(1, 9))),
    ("31 ffffffffffffffff", -1),
    ("32 ffffffffffffffff", ULong((1 << 64) - 1)),
    ("33 3ff8000000000000", 1.5),
    ("38 0000000000000007", Seconds(7)),
    ("40" + UUID_OCTETS.hex(), UUID_OCTETS),
    ("48" + UUID_OCTETS.hex(), UUID(bytes=UUID_OCTETS)),
    ("50" + bytes(32).hex(), bytes(32)),
    ("60" + bytes(64).hex(), bytes(64)),
    ("70" + bytes(128).hex(), bytes(128)),
    ("80 02 0102", b"\1\2"),
    ("84 02 a441", "€A"),
    ("85 03 e282ac", "€"),
    ("86 02 20ac", "€"),
    ("87 04 0001f600", "😀"),
    ("90 0002 0102", b"\1\2"),
    ("94 0001 a4", "€"),
    ("95 0003 e282ac", "€"),
    ("96 0002 20ac", "€"),
    ("97 0004 0001f600", "😀"),
    ("a0 00000002 0102", b"\1\2"),
    ("a4 00000001 a4", "€"),
    ("a5 00000003 e282ac", "€"),
    ("a6 00000002 20ac", "€"),
    ("a7 00000004 0001f600", "😀"),
    ("a8 00000004 0161 0801", {"a": True}),
    ("a9 00000004 0801 02ff", [True, UByte(255)]),
    ("aa 00000007 02 00000002 0102", [UByte(1), UByte(2)]),
    ("aa 00000000", []),
    ("c0 0102030405", b"\1\2\3\4\5"),
    ("c8 02 0000007b", Scaled(2, 123)),
    ("d0" + bytes(9).hex(), bytes(9)),
    ("d8 02 ffffffffffffff85", Decimal("-1.23")),
    ("f0", None),
]

LETTERS: list[tuple[str, Any]] = [
    ("53 00000003 616263", "abc"),
    ("49 ffffffff", Int(-1)),
    ("44 02 0000007b", Scaled(2, 123)),
    ("54 0000000000000007", Seconds(7)),
    ("46 00000007 0161 49 00000001", {"a": Int(1)}),
    ("78 00000002 0102", b"\1\2"),
]


def entry(octets: str) -> bytes:
    return b"\x01k" + bytes.fromhex(octets)


@pytest.mark.parametrize(("octets", "told"), NUMERIC + LETTERS)
def test_values_are_read_by_number_and_by_letter(octets: str, told: Any) -> None:
    (found,) = types.read_table(entry(octets)).values()
    assert (type(found), found) == (type(told), told)


def test_every_declared_type_is_tried() -> None:
    assert {bytes.fromhex(octets)[0] for octets, _ in NUMERIC} == set(FIELD_TYPES)
    assert not {bytes.fromhex(octets)[0] for octets, _ in LETTERS} & set(FIELD_TYPES)


def test_a_numeric_value_inside_a_table_with_a_letter() -> None:
    inner = entry("0801")
    octets = b"\x01tF" + struct.pack(">I", len(inner)) + inner
    assert types.read_table(octets) == {"t": {"k": True}}


def test_a_number_without_a_type_has_the_width_that_it_announces() -> None:
    assert types.read_table(entry("03 ff") + entry("13 0102")) == {"k": b"\1\2"}
    assert types.read_table(entry("81 02 0102")) == {"k": b"\1\2"}


@pytest.mark.parametrize(
    "octets",
    ["b0 00", "e0", "12 ff", "80 02 01", "a8 00000003 0161", "86 01 20", "27 00110000",
     "aa 00000005 02 ffffffff", "aa 00000005 f0 ffffffff", "aa 00000002 02 00", "53 ffffffff",
     "a9 00000003 0801 02", ""],
)  # fmt: skip
def test_what_is_no_table(octets: str) -> None:
    with pytest.raises(FieldError):
        types.read_table(entry(octets))


@pytest.mark.parametrize(("octets", "told"), LETTERS)
def test_letters_are_written(octets: str, told: Any) -> None:
    assert types.write_table({"k": told}) == entry(octets)


def test_what_has_no_letter_is_said_with_one_that_the_programs_read() -> None:
    table = {
        "wide": 1 << 40, "yes": True, "half": 0.5, "none": None, "list": [1], "in": {"none": None},
    }  # fmt: skip
    written = types.write_table(table)
    assert types.read_table(written) == {
        "wide": str(1 << 40), "yes": Int(1), "half": "0.5", "none": "", "list": "[1]",
        "in": {"none": ""},
    }  # fmt: skip


def deep(depth: int, code: bytes) -> bytes:
    inner = entry("0801")
    for _ in range(depth):
        inner = b"\x01k" + code + struct.pack(">I", len(inner)) + inner
    return inner


@pytest.mark.parametrize("code", [b"F", b"\xa8"])
def test_tables_nest_so_deep_and_no_deeper(code: bytes) -> None:
    types.read_table(deep(DEPTH, code))
    with pytest.raises(FieldError, match="deeper"):
        types.read_table(deep(DEPTH + 1, code))


def test_sequences_nest_so_deep_and_no_deeper() -> None:
    inner = b""
    for _ in range(DEPTH + 1):
        inner = b"\xa9" + struct.pack(">I", len(inner)) + inner
    with pytest.raises(FieldError, match="deeper"):
        types.read_table(b"\x01k" + inner)


def test_arguments_hold_so_many_values_and_no_more() -> None:
    def array(count: int) -> bytes:
        octets = b"\x02" + struct.pack(">I", count) + bytes(count)
        return b"\x01k\xaa" + struct.pack(">I", len(octets)) + octets

    types.read_arguments(array(MOST_VALUES - 1))
    with pytest.raises(TooManyValues):
        types.read_arguments(array(MOST_VALUES))
    assert len(types.read_table(array(MOST_VALUES))["k"]) == MOST_VALUES


@given(some.binary(max_size=200))
def test_anything_is_a_table_or_a_field_error(data: bytes) -> None:
    try:
        types.read_table(data)
    except FieldError:
        return
    if not data:
        assert types.read_table(data) == {}


def test_sets() -> None:
    ranges = ((3, 5), (7, 7))
    words = types.write_set(ranges)
    assert words == struct.pack(">IIII", 3, 5, 7, 7) and types.read_set(words) == ranges
    assert types.read_set(b"") == () and types.write_set(()) == b""
    with pytest.raises(ValueError, match="odd"):
        types.read_set(words[:-4])


@given(some.booleans(), some.binary(max_size=20))
def test_bodies(is_reference: bool, octets: bytes) -> None:
    body = types.Body(is_reference, octets)
    assert types.read_body(types.write_body(body)) == body


def test_a_body_is_inline_or_a_reference() -> None:
    with pytest.raises(ValueError, match="neither"):
        types.read_body(b"\x02abc")
