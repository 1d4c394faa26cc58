"""Typed values come back as they were, octet by octet, and whatever octets come are refused with
one exception."""

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.methods.types import read_table, write_table
from gateway.adapters.performatives.decoding import decode
from gateway.adapters.performatives.encoding import write_value
from gateway.adapters.segments import decoding, encoding
from gateway.adapters.segments.decoding import check_map, read_array, read_list, read_map
from gateway.adapters.segments.encoding import write_array, write_list, write_map, write_texts
from gateway.adapters.segments.types import ALLOWANCE, DEPTH, FieldError, TooManyValues
from gateway.values import (
    Array,
    CodedOctets,
    CodedText,
    Decimal64,
    Described,
    Int,
    LongScaled,
    Map,
    Milliseconds,
    Scaled,
    Seconds,
    ShortString,
    Symbol,
    Timestamp,
    TypedArray,
    ULong,
)
from tests.adapters.segments.records import MAPS, VALUES, same


@given(MAPS)
def test_maps(table: dict[str, Any]) -> None:
    octets = write_map(table)
    found = read_map(octets)
    assert same(found, table)
    assert write_map(found) == octets
    check_map(octets, 0, len(octets))


@given(some.lists(VALUES, max_size=4))
def test_lists(items: list[Any]) -> None:
    octets = write_list(items)
    assert same(read_list(octets), items)
    assert write_list(read_list(octets)) == octets


def test_a_container_does_not_run_past_the_octets() -> None:
    """An array that announces four gigabytes, and in them an array of 50 million texts."""
    octets = bytes.fromhex("aa00000001 ff010001 84 02ff2200 00020000ff012f0000a8000001")
    with pytest.raises(FieldError, match="runs past"):
        read_array(octets)
    with pytest.raises(FieldError, match="runs past"):
        read_list(b"\0\0\0\1\xaa" + octets[5:])


@given(some.binary(max_size=120))
def test_any_octets(octets: bytes) -> None:
    """Never another exception than ``FieldError``; what can be checked can be read."""
    for reader in (read_map, read_list, read_array):
        for start in (b"", b"\0\0\0\1", b"\0\0\0\1\1k", b"\xa8", b"\xaa\0\0\0\1"):
            try:
                reader(start + octets)
            except FieldError:
                continue
    for start in (b"", b"\0\0\0\1\1k", b"\0\0\0\2\1k\xf0"):
        given_octets = start + octets
        try:
            check_map(given_octets, 0, len(given_octets))
        except (FieldError, IndexError):
            with pytest.raises(FieldError):
                read_map(given_octets)
        else:
            read_map(given_octets)


KNOWN = {
    # Type code and octets -> the value, from the recordings and from the table of types.
    "0173 95 0004 74657874": "text",
    "0169 31 000000000000002a": 42,
    "0174 08 01": True,
    "016e f0": None,
    "0164 38 0000000047868c00": Seconds(1200000000),
    "0164 38 0000019000000000": Milliseconds(0x19000000000),
    "0164 c8 02 fffffffe": Scaled(2, -2),
    "0164 d8 02 fffffffffffffffe": LongScaled(2, -2),
    "0175 48 101112131415161718191a1b1c1d1e1f": UUID("10111213-1415-1617-1819-1a1b1c1d1e1f"),
    "0173 85 01 61": ShortString("a"),
    "0178 3f 0102030405060708": CodedOctets(bytes(range(1, 9)), 0x3F),
    "0178 9f 0002 0102": CodedOctets(b"\1\2", 0x9F),
    "0178 ab 00000003 040100": CodedOctets(b"\4\1\0", 0xAB),
    "0178 04 a4": "\u20ac",
    "0178 96 0002 20ac": "\u20ac",
    "016c a9 00000004 00000000": [],
    "0161 aa 00000005 f0 00000000": TypedArray((), 0xF0),
    "0161 aa 00000005 95 00000000": TypedArray((), 0x95),
    "0161 aa 00000000": TypedArray(),
    "0161 aa 0000000b 95 00000002 000161 000162": TypedArray(("a", "b"), 0x95),
    "0161 aa 0000000d 21 00000002 00000001 ffffffff": TypedArray((Int(1), Int(-1)), 0x21),
    "0166 23 7fa00000": CodedOctets(b"\x7f\xa0\0\0", 0x23),
}


@pytest.mark.parametrize("text", KNOWN)
def test_known_octets(text: str) -> None:
    octets = b"\0\0\0\1" + bytes.fromhex(text)
    check_map(octets, 0, len(octets))
    (value,) = read_map(octets).values()
    assert value == KNOWN[text]
    assert write_map(read_map(octets)) == octets


def test_three_empty_arrays_and_two_empty_maps() -> None:
    """Brokers write each of them (design notes, 4.3)."""
    for octets in (b"", b"\xf0\0\0\0\0", b"\x95\0\0\0\0"):
        assert not read_array(octets) and write_array(read_array(octets)) == octets
    assert write_texts(()) == b"\x95\0\0\0\0"
    assert write_array([]) == b"\xf0\0\0\0\0"
    assert read_map(b"") == read_map(bytes(4)) == {}
    assert write_map({}) == bytes(4)


def test_values_of_other_versions() -> None:
    table = {
        "symbol": Symbol("s"), "decimal": Decimal("1.5"), "ieee": Decimal64.of(Decimal("1.5")),
        "described": Described(ULong(1), "x"), "time": Timestamp(1_700_000_000_123),
        "early": Timestamp(-5000), "long": "x" * 65536, "huge": 1 << 70,
        "array": Array(["a", "b"], 0xA1), "octets": Array([b"a", b"b" * 65536]),
    }  # fmt: skip
    assert read_map(write_map(table)) == {
        "symbol": "s", "decimal": "1.5", "ieee": "1.5", "described": "x",
        "time": Seconds(1_700_000_000), "early": -5, "long": b"x" * 65536,
        "huge": str(1 << 70), "array": TypedArray(["a", "b"], 0x95),
        "octets": TypedArray([b"a", b"b" * 65536], 0xA0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "there", "in_1_0"),
    [
        (CodedOctets(b"ab", 0x80), b"ab", b"ab"),
        (CodedText("x", 0x94), "x", "x"),
        (Milliseconds(10**12), Seconds(10**9), Timestamp(10**12)),
        (LongScaled(2, 5), Scaled(2, 5), "0.05"),
        (TypedArray(["a"], 0x95), ["a"], Array(["a"], 0xA1)),
        (TypedArray([CodedText("a", 0x94)], 0x94), ["a"], Array(["a"], 0xA1)),
    ],
)
def test_values_in_other_versions(value: Any, there: Any, in_1_0: Any) -> None:
    """As what they are a kind of."""
    assert read_table(write_table({"k": value})) == {"k": there}
    assert decode(write_value(value)) == in_1_0


def test_keys_that_come_twice() -> None:
    octets = b"\0\0\0\2" + b"\1k\x08\1" * 2
    found = read_map(octets)
    assert isinstance(found, Map) and found.pairs == (("k", True), ("k", True))
    assert write_map(found) == octets


@pytest.mark.parametrize(
    "table",
    [{1: 2}, {"x" * 256: 1}, {"k": object()}, {"k": Int(1 << 40)}, {"k": Array([1, "a"])},
     {"k": "\ud800"}, {"k": Scaled(300, 1)}],
)  # fmt: skip
def test_values_without_a_form(table: dict[Any, Any]) -> None:
    with pytest.raises(FieldError):
        write_map(table)


def nested(depth: int) -> bytes:
    octets = bytes(4)
    for _ in range(depth):
        octets = b"\0\0\0\1\xa9" + len(octets).to_bytes(4) + octets
    return octets


def test_depth() -> None:
    read_list(nested(DEPTH - 1))
    with pytest.raises(FieldError, match="deeper than 64"):
        read_list(nested(DEPTH))
    deep = b"\0\0\0\1\1k\xa9" + len(nested(DEPTH)).to_bytes(4) + nested(DEPTH)
    with pytest.raises(FieldError, match="deeper than 64"):
        check_map(deep, 0, len(deep))
    value: list[Any] = []
    for _ in range(DEPTH):
        value = [value]
    with pytest.raises(FieldError, match="deeper than 64"):
        write_list(value)


def test_counts() -> None:
    """What takes no octets is announced in small numbers, and a peer may send so many values."""
    for octets in (b"\xf0\0\1\0\0", b"\xf1\xff\xff\xff\xff"):
        with pytest.raises(FieldError, match="less octets than"):
            read_array(octets)
        inside = b"\0\0\0\1\1k\xaa\0\0\0\5" + octets
        with pytest.raises(FieldError, match="less octets than"):
            check_map(inside, 0, len(inside))
    with pytest.raises(FieldError, match="less octets than"):
        read_map(b"\xff\xff\xff\xff")
    many = write_list([None] * (MOST_VALUES + 1))
    assert len(read_list(many)) == MOST_VALUES + 1, "our own may be as large as they are"
    with ALLOWANCE.within(), pytest.raises(TooManyValues):
        read_list(many)
    inside = b"\0\0\0\1\1k\xa9" + len(many).to_bytes(4) + many
    with ALLOWANCE.within(), pytest.raises(TooManyValues):
        check_map(inside, 0, len(inside))


def test_codes_that_are_not_assigned() -> None:
    for code in (0xB0, 0xE5):
        octets = b"\0\0\0\1\1k" + bytes((code, 0, 0))
        with pytest.raises(FieldError, match="is not assigned"):
            read_map(octets)
        with pytest.raises(FieldError, match="is not assigned"):
            check_map(octets, 0, len(octets))
        with pytest.raises(FieldError, match="is not assigned"):
            read_array(bytes((code,)) + bytes(4))
    assert len(decoding.READERS) == 256 and encoding.encoded(CodedOctets(b"x", 0x90))
