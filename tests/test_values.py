"""Values that survive a crossing: decimals keep octets, arrays their type, maps all pairs."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.values import (
    Array,
    Decimal32,
    Decimal64,
    Decimal128,
    IeeeDecimal,
    Map,
    Symbol,
    mapped,
)
from tests.drawing import examples

KINDS = [Decimal32, Decimal64, Decimal128]

KNOWN = [  # IEEE 754-2008, binary integer coding
    (Decimal32, "32800001", "1"),
    (Decimal32, "b2800001", "-1"),
    (Decimal32, "77f8967f", "9.999999E+96"),
    (Decimal32, "6cb8967f", "9999999"),
    (Decimal32, "00000001", "1E-101"),
    (Decimal32, "78000000", "Infinity"),
    (Decimal32, "f8000000", "-Infinity"),
    (Decimal64, "31c0000000000001", "1"),
    (Decimal64, "b180000000003039", "-123.45"),
    (Decimal64, "77fb86f26fc0ffff", "9.999999999999999E+384"),
    (Decimal128, "30400000000000000000000000000001", "1"),
    (Decimal128, "303c0000000000000000000000003039", "123.45"),
]


@pytest.mark.parametrize(("kind", "octets", "number"), KNOWN)
def test_known_decimals(kind: type[IeeeDecimal], octets: str, number: str) -> None:
    assert kind(bytes.fromhex(octets)).decimal() == Decimal(number)
    assert kind.of(Decimal(number)).octets.hex() == octets


@pytest.mark.parametrize("kind", KINDS)
def test_decimals_come_back(kind: type[IeeeDecimal]) -> None:
    limit = 10**kind.DIGITS - 1

    @settings(max_examples=examples(60), deadline=None)
    @given(st.integers(-limit, limit), st.integers(-90, 90))
    def check(digits: int, exponent: int) -> None:
        number = Decimal(digits).scaleb(exponent) if digits else Decimal(0)
        assert kind.of(number).decimal() == number

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_any_octets_are_a_decimal_and_keep_their_bits(kind: type[IeeeDecimal]) -> None:
    @settings(max_examples=examples(60), deadline=None)
    @given(st.binary(min_size=kind.WIDTH, max_size=kind.WIDTH))
    def check(octets: bytes) -> None:
        found = kind(octets)
        found.decimal()
        assert found.octets == octets and found == kind(octets) and str(found)
        if found.decimal().is_finite():
            assert kind.of(found.decimal()).decimal() == found.decimal()

    check()


def test_decimals_that_do_not_fit() -> None:
    for number in (Decimal("12345678"), Decimal("1E200"), Decimal("1E-200")):
        with pytest.raises(ValueError, match="does not fit"):
            Decimal32.of(number)
    with pytest.raises(ValueError, match="4 octets"):
        Decimal32(b"")
    assert Decimal32.of(Decimal("1E+92")).decimal() == Decimal("1E+92")
    assert Decimal32.of(Decimal("12345600")).decimal() == Decimal("12345600")
    assert str(Decimal64.of(Decimal("NaN"))) == "NaN" and Decimal64(
        b"\x7e" + bytes(7)
    ) != Decimal64(b"\x7c" + bytes(7))


def test_arrays_differ_by_type_and_descriptors() -> None:
    assert Array([1], 0x55) == Array([1], 0x55) and Array([1], 0x55) != Array([1], 0x81)
    assert Array([], 0xA1) != Array([], 0xA3) and Array([], 0xA1, ["d"]) != Array([], 0xA1)
    assert len({Array([1], 0x55), Array([1], 0x55)}) == 1
    assert list(Array("ab")) == ["a", "b"] and "0xa1" in repr(Array(["a"], 0xA1))


def test_maps_that_no_dict_can_hold() -> None:
    found = Map([("a", 1), (Symbol("a"), 2), ([], 3)])
    assert found.pairs == (("a", 1), (Symbol("a"), 2), ([], 3))
    assert found["a"] == 2 and len(found) == 1
    assert found == Map(found.pairs) and found != {"a": 2} and "Map" in repr(found)


def test_a_map_is_a_dict_only_if_no_peer_can_make_it_slow() -> None:
    assert type(mapped([(str(number), 1) for number in range(100)])) is dict
    assert type(mapped([(number, 1) for number in range(8)])) is dict
    assert type(mapped([([], 1)])) is Map and type(mapped([(1, 1), (True, 2)])) is Map
    many = mapped([*((number, 1) for number in range(9)), (b"a", 2)])
    assert isinstance(many, Map) and dict(many) == {b"a": 2} and len(many.pairs) == 10
