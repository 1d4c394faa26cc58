"""Strategies for AMQP 1.0 values, and equality that does not forget types."""

import math
import struct
from typing import Any

from hypothesis import strategies as st

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
)


def whole(kind: Any, bits: int, signed: bool) -> st.SearchStrategy[Any]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    edges = st.sampled_from(
        [v for v in (low, -129, -128, 0, 127, 255, 256, high) if low <= v <= high]
    )
    return st.one_of(edges, st.integers(low, high)).map(kind)


singles = st.floats(width=32, allow_nan=False)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = st.text(st.characters(max_codepoint=127), max_size=20)

BY_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "ubyte": whole(UByte, 8, False),
    "ushort": whole(UShort, 16, False),
    "uint": whole(UInt, 32, False),
    "ulong": whole(ULong, 64, False),
    "byte": whole(Byte, 8, True),
    "short": whole(Short, 16, True),
    "int": whole(Int, 32, True),
    "long": whole(int, 64, True),
    "float": singles.map(Float),
    "double": st.floats(allow_nan=False),
    "decimal32": st.binary(min_size=4, max_size=4).map(Decimal32),
    "decimal64": st.binary(min_size=8, max_size=8).map(Decimal64),
    "decimal128": st.binary(min_size=16, max_size=16).map(Decimal128),
    "char": st.characters(exclude_categories=["Cs"]).map(Char),
    "timestamp": whole(Timestamp, 64, True),
    "uuid": st.uuids(),
    "binary": st.one_of(st.binary(max_size=40), st.just(b"\xff" * 256)),
    "string": st.one_of(text, st.just("\u20ac" * 100)),
    "symbol": names.map(Symbol),
}

scalars = st.one_of(*BY_TYPE.values())


def array_of(items: st.SearchStrategy[Any], *codes: int, size: int = 6) -> st.SearchStrategy[Array]:
    return st.builds(
        Array,
        st.lists(items, max_size=size),
        st.sampled_from(codes),
        st.lists(st.one_of(BY_TYPE["ulong"], BY_TYPE["symbol"]), max_size=2),
    )


def small(bits: int, signed: bool, kind: Any) -> st.SearchStrategy[Any]:
    return whole(kind, bits, signed)


ARRAYS: dict[int, st.SearchStrategy[Any]] = {
    0x40: st.none(), 0x41: st.just(True), 0x42: st.just(False), 0x43: st.just(UInt(0)),
    0x44: st.just(ULong(0)), 0x45: st.builds(list),
    0x50: BY_TYPE["ubyte"], 0x51: BY_TYPE["byte"], 0x52: small(8, False, UInt),
    0x53: small(8, False, ULong), 0x54: small(8, True, Int), 0x55: small(8, True, int),
    0x56: BY_TYPE["boolean"], 0x60: BY_TYPE["ushort"], 0x61: BY_TYPE["short"],
    0x70: BY_TYPE["uint"], 0x71: BY_TYPE["int"], 0x72: BY_TYPE["float"], 0x73: BY_TYPE["char"],
    0x74: BY_TYPE["decimal32"], 0x80: BY_TYPE["ulong"], 0x81: BY_TYPE["long"],
    0x82: BY_TYPE["double"], 0x83: BY_TYPE["timestamp"], 0x84: BY_TYPE["decimal64"],
    0x94: BY_TYPE["decimal128"], 0x98: BY_TYPE["uuid"],
    0xA0: st.binary(max_size=9), 0xA1: text, 0xA3: BY_TYPE["symbol"],
    0xB0: BY_TYPE["binary"], 0xB1: BY_TYPE["string"], 0xB3: BY_TYPE["symbol"],
    0xC0: st.lists(BY_TYPE["ubyte"], max_size=4),
    0xC1: st.dictionaries(names, BY_TYPE["byte"], max_size=3),
    0xD0: st.lists(scalars, max_size=4), 0xD1: st.dictionaries(names, scalars, max_size=3),
    0xE0: array_of(st.integers(-9, 9), 0x55), 0xF0: array_of(BY_TYPE["string"], 0xB1),
}  # fmt: skip
"""What an array of each element constructor may hold."""

arrays = st.one_of(*(array_of(items, code) for code, items in ARRAYS.items()))


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.one_of(names, BY_TYPE["symbol"]), inner, max_size=4),
        st.lists(st.tuples(inner, inner), max_size=4).map(as_map),
        st.builds(Described, st.one_of(BY_TYPE["ulong"], BY_TYPE["symbol"], inner), inner),
    )


def as_map(pairs: list[tuple[Any, Any]]) -> Any:
    """A ``dict``, unless it cannot hold these pairs."""
    try:
        found = dict(pairs)
    except TypeError:
        return Map(pairs)
    return found if len(found) == len(pairs) else Map(pairs)


values = st.recursive(st.one_of(scalars, arrays), compound, max_leaves=12)


def same(a: Any, b: Any) -> bool:
    """Equal in value and in type, all the way down; floats by their bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, Array):
        return (
            a.code == b.code
            and len(a) == len(b)
            and all(map(same, a, b))
            and same(list(a.descriptors), list(b.descriptors))
        )
    if isinstance(a, dict):
        mine, yours = (list(getattr(m, "pairs", m.items())) for m in (a, b))
        return len(mine) == len(yours) and all(map(same, mine, yours))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)
