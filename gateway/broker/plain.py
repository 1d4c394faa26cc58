"""Tables as plain JSON values, and back: how arguments are kept in topology records."""

import json
from base64 import b64decode, b64encode
from typing import Any
from uuid import UUID

from gateway import values
from gateway.message import Table

WIDTHS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        values.Byte, values.UByte, values.Short, values.UShort, values.Int, values.UInt,
        values.ULong, values.Float, values.Timestamp, values.Seconds, values.Symbol, values.Char,
        values.ShortString,
    )
}  # fmt: skip
MARK = "$"


def write_plain(value: Any) -> Any:
    """A table value as JSON. What JSON cannot say becomes ``{"$": type, "value": ...}``."""
    kind = type(value).__name__
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        pairs = value.pairs if isinstance(value, values.Map) else value.items()
        return {MARK: "pairs", "value": [[write_plain(k), write_plain(v)] for k, v in pairs]}
    if isinstance(value, dict):
        inner = {key: write_plain(item) for key, item in value.items()}
        return {MARK: "table", "value": inner} if MARK in inner else inner
    if isinstance(value, bytes | bytearray | memoryview):
        return {MARK: "bytes", "value": b64encode(bytes(value)).decode()}
    if isinstance(value, values.Scaled | values.Described):
        return {MARK: kind, "value": [write_plain(item) for item in value]}
    if isinstance(value, list | tuple):
        return [write_plain(item) for item in value]
    if kind in WIDTHS:
        base = next(base for base in (int, float, str) if isinstance(value, base))
        return {MARK: kind, "value": base(value)}
    if isinstance(value, UUID):
        return {MARK: kind, "value": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {MARK: "text", "value": str(value)}


def read_plain(value: Any) -> Any:
    """The inverse of ``write_plain``."""
    if isinstance(value, list):
        return [read_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(MARK)
    if kind is None:
        return {key: read_plain(item) for key, item in value.items()}
    inner = value["value"]
    if kind == "table":
        return {key: read_plain(item) for key, item in inner.items()}
    if kind == "pairs":
        pairs = [(read_plain(key), read_plain(item)) for key, item in inner]
        try:
            return dict(pairs)
        except TypeError:
            return values.Map(pairs)
    if kind == "bytes":
        return b64decode(inner)
    if kind == "UUID":
        return UUID(inner)
    if kind == "Scaled":
        return values.Scaled(*inner)
    if kind == "Described":
        return values.Described(*(read_plain(item) for item in inner))
    return WIDTHS[kind](inner) if kind in WIDTHS else inner


def read_table(value: Any) -> Table:
    table = read_plain(value)
    return table if isinstance(table, dict) else {}


def fingerprint(table: Table) -> str:
    """One string per set of arguments; empty for none."""
    return json.dumps(write_plain(table), sort_keys=True) if table else ""
