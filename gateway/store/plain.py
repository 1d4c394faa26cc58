"""Tables of typed values as JSON text. Plain values stay plain; all others are tagged.

A tagged value is ``{"$": tag, "v": value}``. A dict that is not plain (it has keys other than
strings, or a key ``$``) is written as tagged pairs, which makes the form unambiguous. No pickle:
reading can only produce the types listed here.
"""

import json
import math
from collections.abc import Callable
from typing import Any
from uuid import UUID

from gateway.errors import LocalError
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

_INTEGERS: tuple[type[int], ...] = (
    Byte, UByte, Short, UShort, Int, UInt, ULong, Timestamp, Seconds,
)  # fmt: skip
_STRINGS: tuple[type[str], ...] = (Symbol, Char, ShortString)
_DECIMALS = (Decimal32, Decimal64, Decimal128)

_WRITERS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_INTEGERS, int),
    **dict.fromkeys(_STRINGS, str),
    **dict.fromkeys(_DECIMALS, lambda value: value.octets.hex()),
    Float: float.__repr__,
    float: float.__repr__,
    bytes: bytes.hex,
    UUID: str,
    Array: lambda value: [_tagged(list(value)), value.code, _tagged(list(value.descriptors))],
    Map: lambda value: [[_tagged(key), _tagged(item)] for key, item in value.pairs],
    tuple: lambda value: [_tagged(item) for item in value],
    Scaled: lambda value: [value.places, value.value],
    Described: lambda value: [_tagged(value.descriptor), _tagged(value.value)],
    dict: lambda value: [[_tagged(key), _tagged(item)] for key, item in value.items()],
}
_READERS: dict[str, Callable[[Any], Any]] = {
    **{kind.__name__: kind for kind in (*_INTEGERS, *_STRINGS, Float, float, UUID)},
    "Decimal32": lambda text: Decimal32(bytes.fromhex(text)),
    "Decimal64": lambda text: Decimal64(bytes.fromhex(text)),
    "Decimal128": lambda text: Decimal128(bytes.fromhex(text)),
    "Array": lambda parts: Array(*parts),
    "Map": Map,
    "bytes": bytes.fromhex,
    "tuple": tuple,
    "Scaled": lambda value: Scaled(*value),
    "Described": lambda value: Described(*value),
    "dict": dict,
}


def _tagged(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is list:
        return [_tagged(item) for item in value]
    if kind is dict and "$" not in value and all(type(key) is str for key in value):
        return {key: _tagged(item) for key, item in value.items()}
    if kind is float and math.isfinite(value):
        return value
    write = _WRITERS.get(kind)
    if write is None:
        raise LocalError(f"the store cannot keep a value of type {kind.__name__}")
    return {"$": kind.__name__, "v": write(value)}


def _untagged(found: dict[str, Any]) -> Any:
    """Hook of the JSON reader. Inner objects come first, so nested values are already decoded."""
    tag = found.get("$")
    return found if tag is None else _READERS[tag](found["v"])


def write_plain(value: Any) -> str:
    """JSON text of a table. Raises ``LocalError`` for types that no table can hold."""
    return json.dumps(_tagged(value), separators=(",", ":"), allow_nan=False)


def read_plain(text: str | bytes) -> Any:
    """Inverse of ``write_plain``. Raises ``ValueError`` or ``KeyError`` if the text is damaged."""
    return json.loads(text, object_hook=_untagged)
