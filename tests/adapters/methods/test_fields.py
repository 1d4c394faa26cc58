"""Field tables: exact there and back in every dialect, in agreement with pamqp, never an escape."""

import datetime
import decimal
from typing import Any
from uuid import UUID

import pamqp.decode
import pamqp.encode
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.types import AsciiString, WideString
from gateway.values import (
    Byte,
    Char,
    Described,
    Float,
    Int,
    Scaled,
    Seconds,
    Short,
    ShortString,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)


def entry(raw: bytes) -> bytes:
    return b"\x01a" + raw


COMMON: list[tuple[bytes, object]] = [
    (b"t\x01", True),
    (b"t\x00", False),
    (b"b\xff", Byte(-1)),
    (b"B\xff", UByte(255)),
    (b"u\xff\xff", UShort(65535)),
    (b"I\xff\xff\xff\xff", Int(-1)),
    (b"i\xff\xff\xff\xff", UInt(4294967295)),
    (b"f\x3f\x80\0\0", Float(1.0)),
    (b"d\x3f\xf0\0\0\0\0\0\0", 1.0),
    (b"D\x02\0\0\x30\x39", Scaled(2, 12345)),
    (b"D\x02\xff\xff\xff\xff", Scaled(2, -1)),
    (b"S\0\0\0\x02\xc3\xbc", "ü"),
    (b"S\0\0\0\x01\xff", "\udcff"),
    (b"T\0\0\0\0\0\0\0\x05", Seconds(5)),
    (b"F\0\0\0\x04\x01bt\x01", {"b": True}),
    (b"F\0\0\0\0", {}),
    (b"A\0\0\0\x03t\x01V", [True, None]),
    (b"A\0\0\0\0", []),
    (b"x\0\0\0\x02\0\xff", b"\0\xff"),
    (b"V", None),
]
OWN: dict[str, list[tuple[bytes, object]]] = {
    "rabbitmq": [(b"s\xff\xff", Short(-1)), (b"l" + b"\xff" * 8, -1)],
    "qpid-java": [
        (b"s\xff\xff", Short(-1)),
        (b"l" + b"\xff" * 8, -1),
        (b"c\0\0\0\x01a", AsciiString("a")),
        (b"C\0\0\0\x01a", WideString("a")),
        (b"ka", Char("a")),
    ],
    "spec-0-9-1": [
        (b"s\x01a", ShortString("a")),
        (b"U\xff\xff", Short(-1)),
        (b"l" + b"\xff" * 8, ULong(18446744073709551615)),
        (b"L" + b"\xff" * 8, -1),
    ],
    "spec-0-8": [],
}
NARROW = b"SIDTFV"


@pytest.mark.parametrize(
    ("dialect", "raw", "value"),
    [
        (name, raw, value)
        for name, own in OWN.items()
        for raw, value in COMMON + own
        if name != "spec-0-8" or (raw[0] in NARROW and b"t" not in raw)
    ],
)
def test_values_come_back_exactly(dialect: str, raw: bytes, value: Any) -> None:
    tags = fields.DIALECTS[dialect]
    (found,) = fields.read_table(entry(raw), tags).values()
    assert found == value and type(found) is type(value)
    assert fields.write_table({"a": found}, tags) == entry(raw)


def tables(integers: Any) -> Any:
    leaf = (
        some.booleans()
        | integers
        | some.text(max_size=20)
        | some.binary(max_size=20)
        | some.none()
        | some.floats(allow_nan=False)
        | some.builds(Byte, some.integers(-128, 127))
        | some.builds(UByte, some.integers(0, 255))
        | some.builds(Short, some.integers(-(1 << 15), (1 << 15) - 1))
        | some.builds(UShort, some.integers(0, 65535))
        | some.builds(Int, some.integers(-(1 << 31), (1 << 31) - 1))
        | some.builds(UInt, some.integers(0, (1 << 32) - 1))
        | some.builds(Seconds, some.integers(0, (1 << 64) - 1))
        | some.builds(Scaled, some.integers(0, 255), some.integers(-(1 << 31), (1 << 31) - 1))
    )
    name = some.text(max_size=20)
    return some.dictionaries(
        name,
        some.recursive(
            leaf,
            lambda inner: (
                some.lists(inner, max_size=4) | some.dictionaries(name, inner, max_size=4)
            ),
            max_leaves=12,
        ),
        max_size=6,
    )


LONG = some.integers(-(1 << 63), (1 << 63) - 1)


@given(tables(LONG), some.sampled_from([fields.RABBITMQ, fields.QPID, fields.SPEC_0_9_1]))
def test_tables_come_back(table: dict[str, Any], tags: fields.Tags) -> None:
    raw = fields.write_table(table, tags)
    found = fields.read_table(raw, tags)
    assert found == table
    assert fields.write_table(found, tags) == raw


@given(some.binary(max_size=200), some.sampled_from(list(fields.DIALECTS.values())))
def test_any_octets_are_a_table_or_an_error(raw: bytes, tags: fields.Tags) -> None:
    try:
        table = fields.read_table(raw, tags)
    except fields.FieldError:
        return
    fields.write_table(table, tags)


@given(tables(some.integers(1 << 32, 1 << 62)))
def test_pamqp_agrees_on_tables(table: dict[str, Any]) -> None:
    plain = {
        "text": "ü",
        "flag": True,
        "nothing": None,
        "float": 1.5,
        "when": Seconds(1_700_000_000),
        "list": [1 << 40, "two"],
        "inner": {"x": True},
        **{
            k: v
            for k, v in table.items()
            if type(v) in (str, bool, bytes) and len(k.encode()) < 128
        },
    }
    raw = fields.write_table(plain)
    size, found = pamqp.decode.field_table(len(raw).to_bytes(4) + raw)
    assert size == len(raw) + 4
    expected = dict(plain, when=datetime.datetime.fromtimestamp(1_700_000_000, datetime.UTC))
    assert found == {k: bytes(v) if isinstance(v, bytes) else v for k, v in expected.items()}


def test_what_pamqp_writes_is_understood() -> None:
    table: dict[str, Any] = {
        "a": 1, "b": -(1 << 40), "c": "text", "d": bytearray(b"octets"),
        "e": True, "f": None, "g": 1.5,
        "h": {"x": [1, 2, {"y": "z"}]}, "i": decimal.Decimal("3.14"),
        "j": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    }  # fmt: skip
    raw = pamqp.encode.field_table(table)[4:]
    found = fields.read_table(raw)
    assert found["c"] == "text" and found["d"] == b"octets" and found["e"] is True
    assert found["i"].decimal() == decimal.Decimal("3.14")
    assert found["j"] == Seconds(1767225600) and found["h"]["x"][2] == {"y": "z"}


@pytest.mark.parametrize("dialect", list(fields.DIALECTS))
def test_foreign_values_are_written_somehow(dialect: str) -> None:
    tags = fields.DIALECTS[dialect]
    uuid = UUID(int=5)
    table = {
        "symbol": Symbol("s"), "char": Char("c"), "uuid": uuid, "big": 1 << 80,
        "ulong": ULong((1 << 64) - 1), "described": Described("x", "inner"),
        "time": Timestamp(1_700_000_000_123), "decimal": decimal.Decimal("1e50"),
        "ascii": AsciiString("a"), "short": ShortString("s"), "tuple": (1, 2), "single": Float(1),
        "double": 2.5, "exact": decimal.Decimal("-1.25"), "octets": bytearray(b"x"),
    }  # fmt: skip
    found = fields.read_table(fields.write_table(table, tags), tags)
    assert found.keys() == table.keys()
    assert found["uuid"] == str(uuid) and found["symbol"] == "s" and found["described"] == "inner"
    assert found["time"] == 1_700_000_000 and found["big"] == str(1 << 80)
    assert found["exact"] == Scaled(2, -125)


def test_0_8_knows_five_tags() -> None:
    table = {
        "t": True,
        "l": 1 << 40,
        "i": 5,
        "f": 1.5,
        "b": b"x",
        "n": None,
        "s": "x",
        "u": UInt(7),
    }
    raw = fields.write_table(table, fields.SPEC_0_8)
    assert fields.read_table(raw, fields.SPEC_0_8) == {
        "t": 1, "l": str(1 << 40), "i": 5, "f": "1.5", "b": "x", "n": None, "s": "x", "u": 7,
    }  # fmt: skip


def nested(depth: int) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for _ in range(depth):
        table = {"x": table}
    return table


def test_depth() -> None:
    assert fields.read_table(fields.write_table(nested(64))) == nested(64)
    with pytest.raises(fields.FieldError):
        fields.write_table(nested(65))
    raw = b""
    for _ in range(65):
        raw = b"\x01xF" + len(raw).to_bytes(4) + raw
    with pytest.raises(fields.FieldError):
        fields.read_table(raw)
    raw = b""
    for _ in range(5000):
        raw = b"A" + len(raw).to_bytes(4) + raw
    with pytest.raises(fields.FieldError):
        fields.read_table(entry(raw))


@pytest.mark.parametrize("table", [{"x" * 256: 1}, {"a": Byte(300)}, {"a": Scaled(999, 1)}])
def test_what_cannot_be_written(table: dict[str, Any]) -> None:
    with pytest.raises(fields.FieldError):
        fields.write_table(table)
