"""Equality of two encodings by names, types and values. The order of headers and the width of an
encoding are ignored."""

import operator
import struct
from collections.abc import Callable
from typing import Any

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.content import read_header as read_basic
from gateway.adapters.performatives.decoding import read_value
from gateway.adapters.performatives.sections import (
    DATA,
    DELIVERY,
    Span,
    read_header,
    split,
    split_header,
)
from gateway.adapters.performatives.wire.tables import SECTIONS
from gateway.bodies import Body, LargeBody
from gateway.values import Array


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in value and type, recursively."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, dict):
        return same_map(one, other)
    if isinstance(one, Array) and (
        one.code != other.code or not same(list(one.descriptors), list(other.descriptors))
    ):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def same_map(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    mine, yours = getattr(one, "pairs", None), getattr(other, "pairs", None)
    if mine is not None and yours is not None:
        return same(list(mine), list(yours))
    if len(one) != len(other):
        return False
    kinds = {key: type(key) for key in other}
    return all(
        key in other and kinds[key] is type(key) and same(value, other[key])
        for key, value in one.items()
    ) and set(map(type, one)) == set(kinds.values())


def same_basic(one: bytes, other: bytes) -> bool:
    """Whether two encoded basic properties are equal. Tables of different sizes are not."""
    if one == other:
        return True
    mine, yours = read_basic(one), read_basic(other)
    tables = mine.headers, yours.headers
    mine.headers = yours.headers = None
    if mine != yours or (tables[0] is None) != (tables[1] is None):
        return False
    if tables[0] is None or tables[1] is None or tables[0] == tables[1]:
        return True
    return len(tables[0]) == len(tables[1]) and same(
        fields.read_table(tables[0]), fields.read_table(tables[1])
    )


def same_sections(one: bytes, other: bytes) -> bool:
    """Whether two stored headers of 1.0 are equal, apart from delivery annotations and empty
    sections. Identical octets are not decoded."""
    if one == other:
        return True
    mine, yours = split_header(one), split_header(other)
    for code in mine.single.keys() | yours.single.keys():
        if code == DELIVERY:
            continue
        octets = [
            each[span[0] : span[2]] if (span := parts.single.get(code)) else b""
            for each, parts in ((one, mine), (other, yours))
        ]
        if octets[0] != octets[1] and not same_section(*(read_section(each) for each in octets)):
            return False
    forms = [parts.body[0] if parts.body else None for parts in (mine, yours)]
    spans = [None if each is None else (each[0], *each[1][1:]) for each in forms]
    return same_form(one, spans[0], other, spans[1])


def read_section(octets: bytes) -> Any:
    """One decoded section; ``None`` if it is absent or empty."""
    found = list(read_header(octets)[0].values())
    return found[0] if found and has_content(found[0]) else None


def sections_of(header: bytes) -> tuple[dict[int, Any], Span | None]:
    """The non-empty sections of a stored header, except delivery annotations."""
    found, form = read_header(header)
    return {c: v for c, v in found.items() if c != DELIVERY and has_content(v)}, form


def has_content(section: Any) -> bool:
    if isinstance(section, dict):
        return bool(section)
    return any(getattr(section, name) is not None for name in section.__slots__)


def same_section(one: Any, other: Any) -> bool:
    if one is None or other is None or isinstance(one, dict):
        return same(one, other)
    return all(same(getattr(one, name), getattr(other, name)) for name in one.__slots__)


def same_form(one: bytes, mine: Span | None, other: bytes, yours: Span | None) -> bool:
    """Whether two bodies have the same form: the same kind, and data sections of the same sizes."""
    return bool(shape(one, mine) == shape(other, yours))


def shape(header: bytes, form: Span | None) -> Any:
    """The kind of a body and the sizes of its sections; ``None`` for one data section in any
    encoding."""
    if form is None:
        return None
    listed, _ = read_value(header, form[1], form[2])
    if form[0] != DATA or listed is None:
        return form[0], None
    sizes = [int(size) for size in listed[1::2]]
    return None if len(sizes) == 1 else (DATA, sizes)


def unequal_basic(one: bytes, other: bytes) -> list[str]:
    """Names of the fields and headers that differ between two encoded basic properties."""
    mine, yours = read_basic(one), read_basic(other)
    found = unequal_slots(mine, yours, operator.eq, "headers")
    tables = [fields.read_table(each.headers or b"") for each in (mine, yours)]
    return [*found, *unequal_keys("headers", *tables)] or ["headers"]


def unequal_sections(one: bytes, other: bytes) -> list[str]:
    """Names of the properties that differ between two stored headers of 1.0."""
    (mine, my_form), (yours, your_form) = sections_of(one), sections_of(other)
    found: list[str] = []
    for code in sorted(mine.keys() | yours.keys()):
        a, b = mine.get(code), yours.get(code)
        name = SECTIONS[code][0]
        if isinstance(a or {}, dict) and isinstance(b or {}, dict):
            found += unequal_keys(name, a or {}, b or {})
        elif a is None or b is None:
            found.append(name)
        else:
            found += unequal_slots(a, b, same)
    return found if same_form(one, my_form, other, your_form) else [*found, "body"]


def unequal_slots(
    one: Any, other: Any, equal: Callable[[Any, Any], bool], but: str = ""
) -> list[str]:
    """Names of the fields that differ between two records, without the field ``but``."""
    return [
        name.replace("_", "-")
        for name in one.__slots__
        if name != but and not equal(getattr(one, name), getattr(other, name))
    ]


def unequal_keys(section: str, one: dict[Any, Any], other: dict[Any, Any]) -> list[str]:
    keys = list(one) + [key for key in other if key not in one]
    absent = object()
    return [
        f"{section}.{str(key)[:64]}"
        for key in keys
        if not same(one.get(key, absent), other.get(key, absent))
    ]


def same_body(one: Body, other: Body, sections: bool) -> bool:
    """Whether two bodies are equal. ``sections`` means that they are encoded sections."""
    if one == other or not sections:
        return one == other
    if isinstance(one, LargeBody) or isinstance(other, LargeBody):
        return False
    mine, yours = split(one).body, split(other).body
    return len(mine) == len(yours) and all(
        a[0] == b[0] and same(read_value(one, *a[1][1:])[0], read_value(other, *b[1][1:])[0])
        for a, b in zip(mine, yours, strict=True)
    )
