"""Strategies for values and records of 0-10. What a field may hold comes from ``specs``."""

from typing import Any
from uuid import UUID

from hypothesis import strategies as some

from gateway.adapters.segments.encoding import write_array, write_list, write_map
from gateway.adapters.segments.types import WIDTHS
from gateway.adapters.segments.wire import tables
from gateway.values import (
    Byte,
    Char,
    CodedOctets,
    CodedText,
    Float,
    Int,
    LongScaled,
    Milliseconds,
    Scaled,
    Seconds,
    Short,
    ShortString,
    TypedArray,
    UByte,
    UInt,
    ULong,
    UShort,
)
from specs.codegen import ir
from specs.codegen.__main__ import ROOT
from specs.codegen.emit_packed import struct_names
from specs.codegen.layouts import camel, snake
from specs.codegen.load import load

PROTOCOL = load(ROOT / "specs" / "amqp-0-10.xml")
STRUCTS = struct_names(PROTOCOL)


def signed(kind: type[int], bits: int) -> some.SearchStrategy[int]:
    return some.integers(-(1 << bits - 1), (1 << bits - 1) - 1).map(kind)


def unsigned(kind: type[int], bits: int) -> some.SearchStrategy[int]:
    return some.integers(0, (1 << bits) - 1).map(kind)


LATIN = some.text(some.characters(codec="iso8859-15"), max_size=20)
WIDE = some.text(some.characters(codec="utf-16-be"), max_size=20)
OPAQUE = [code for code in (*range(0x00, 0xFF), 0x80, 0xAB) if WIDTHS[code] in (1, 2, 9, 16)]
UNKNOWN = [code for code in OPAQUE if code in (0x00, 0x03, 0x13, 0x40, 0x4F, 0xD0)]

SCALARS: some.SearchStrategy[Any] = some.one_of(
    some.none(), some.booleans(), signed(int, 64), signed(Byte, 8), signed(Short, 16),
    signed(Int, 32), unsigned(UByte, 8), unsigned(UShort, 16), unsigned(UInt, 32),
    unsigned(ULong, 64), some.floats(allow_nan=False), some.text(max_size=30),
    some.floats(width=32, allow_nan=False).map(Float), some.binary(max_size=30), some.uuids(),
    some.characters(exclude_categories=["Cs"]).map(Char),
    some.text(max_size=30).map(ShortString), some.integers(0, 10**11).map(Seconds),
    some.integers(10**11 + 1, (1 << 64) - 1).map(Milliseconds),
    some.builds(Scaled, some.integers(0, 255), signed(int, 32)),
    some.builds(LongScaled, some.integers(0, 255), signed(int, 64)),
    LATIN.map(lambda text: CodedText(text, 0x84)), LATIN.map(lambda text: CodedText(text, 0x94)),
    WIDE.map(lambda text: CodedText(text, 0x96)),
    some.sampled_from(UNKNOWN).flatmap(
        lambda code: some.binary(min_size=WIDTHS[code], max_size=WIDTHS[code]).map(
            lambda octets: CodedOctets(octets, code)
        )
    ),
    some.binary(max_size=30).map(lambda octets: CodedOctets(octets, 0x80)),
    some.binary(max_size=30).map(lambda octets: CodedOctets(octets, 0xA0)),
    some.binary(max_size=30).map(lambda octets: CodedOctets(octets, 0xAB)),
)  # fmt: skip
ARRAYS = some.one_of(
    some.lists(some.text(max_size=9), max_size=4).map(lambda texts: TypedArray(texts, 0x95)),
    some.lists(signed(int, 64), max_size=4).map(lambda items: TypedArray(items, 0x31)),
    some.sampled_from([None, 0xF0, 0x95]).map(lambda element: TypedArray((), element)),
)
VALUES = some.recursive(
    SCALARS | ARRAYS,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=9), inner),
    max_leaves=12,
)
MAPS = some.dictionaries(some.text(max_size=9), VALUES, max_size=5)

RANGES = some.lists(
    some.tuples(some.integers(0, (1 << 32) - 1), some.integers(0, (1 << 32) - 1)), max_size=4
).map(tuple)
LONG_RANGES = some.lists(some.tuples(some.integers(0, 1 << 63), some.integers(0, 1 << 63))).map(
    tuple
)
CONTAINERS = {
    "map": MAPS.map(write_map) | some.just(b""),
    "array": ARRAYS.map(write_array),
    "list": some.lists(SCALARS, max_size=3).map(write_list),
    "struct": some.binary(max_size=20),
}


def values(item: ir.Field) -> some.SearchStrategy[Any]:
    """What a field may hold."""
    if item.type in STRUCTS:
        return structs(STRUCTS[item.type][1])
    wire = PROTOCOL.wire_type(item.type)
    if wire.kind == "bit":
        return some.booleans()
    if wire.kind in ("unsigned", "time"):
        return some.integers(0, (1 << 8 * wire.width) - 1)
    if wire.kind == "text":
        return some.text(max_size=40)
    if wire.kind == "octets":
        return some.binary(max_size=40)
    if wire.kind == "uuid":
        return some.uuids().map(lambda uuid: uuid.bytes)
    if wire.kind == "set":
        return RANGES if wire.name == "sequence-set" else LONG_RANGES
    return CONTAINERS[wire.kind]


def fields(given: tuple[ir.Field, ...], optional: bool = True) -> dict[str, Any]:
    """Strategies by the names of a record's fields, each absent or there."""
    return {
        snake(item.name): values(item)
        if not optional or PROTOCOL.wire_type(item.type).kind == "bit"
        else some.none() | values(item)
        for item in given
        if item.type in PROTOCOL.types or item.type in PROTOCOL.domains
    } | {snake(item.name): some.none() | values(item) for item in given if item.type in STRUCTS}


def structs(struct: ir.Struct) -> some.SearchStrategy[Any]:
    from gateway.adapters.segments.wire import layouts

    record = getattr(layouts, camel(struct.name))
    return some.builds(record, **fields(struct.fields, struct.pack > 0))


OPERATIONS = {
    f"{c.name}.{o.name}": some.builds(
        tables.OPERATIONS[c.number << 8 | o.number].record, **fields(o.fields)
    )
    for c in PROTOCOL.classes
    for o in c.operations
}


def same(one: Any, other: Any) -> bool:
    """Equal, and of equal types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, CodedOctets | CodedText) and one.code != other.code:
        return False
    if isinstance(one, UUID):
        return bool(one == other)
    if isinstance(one, list | TypedArray):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
