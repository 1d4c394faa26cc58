"""Arguments as JSON, and back. Types that JSON lacks are ``{"$type": ..., "value": ...}``."""

import base64
import binascii
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gateway.http import problems
from gateway.http.problems import Problem
from gateway.http.typed import READ, BadValue, json_value
from gateway.message import Table
from gateway.values import (
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    IeeeDecimal,
    Map,
    Scaled,
)

MARK = "$type"
BOUND = 2**63
"""Limit of the magnitude of plain numbers; a larger double is written with its type."""


DECIMALS: dict[str, type[IeeeDecimal]] = {
    kind.__name__.lower(): kind for kind in (Decimal32, Decimal64, Decimal128)
}


def write_table(table: Table) -> dict[str, Any]:
    """The inverse of ``read_table``, except for the widths of integers, which are not kept."""
    return {key: write_argument(value) for key, value in table.items()}


def write_argument(value: Any) -> Any:
    if isinstance(value, Map):
        pairs = [[write_argument(key), write_argument(each)] for key, each in value.pairs]
        return {MARK: "map", "value": pairs}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return write_argument(Map(value.items()))
        inner = {str(key): write_argument(each) for key, each in value.items()}
        return {MARK: "table", "value": inner} if MARK in inner else inner
    if isinstance(value, float) and BOUND <= abs(value) < math.inf:
        return {MARK: "double", "value": repr(value)}
    if isinstance(value, IeeeDecimal):
        return {MARK: type(value).__name__.lower(), "value": value.octets.hex()}
    if isinstance(value, Described):
        parts = [write_argument(value.descriptor), write_argument(value.value)]
        return {MARK: "described", "value": parts}
    if isinstance(value, list | tuple) and not isinstance(value, Scaled):
        return [write_argument(each) for each in value]
    return json_value(value)


def read_table(given: dict[str, Any]) -> Table:
    """The table. Raises ``Problem`` (422) for a value that no AMQP table can hold."""
    return {key: read_argument(key, value) for key, value in given.items() if short(key)}


def short(key: str) -> bool:
    if len(key.encode("utf-8", "surrogatepass")) > 255:
        raise Problem(problems.ARGUMENT, f"the name of argument '{key[:32]}...' is too long")
    return True


def read_argument(name: str, value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float) and not -BOUND <= value < BOUND:
        text = f"argument '{name}' is no 64-bit integer; a great double needs its type"
        raise Problem(problems.ARGUMENT, text)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Problem(problems.ARGUMENT, f"argument '{name}' is not Unicode text") from None
    if isinstance(value, list):
        return [read_argument(name, each) for each in value]
    if isinstance(value, dict):
        if MARK in value:
            return read_typed(name, value)
        return {key: read_argument(name, each) for key, each in value.items() if short(key)}
    return value


def read_typed(name: str, value: dict[str, Any]) -> Any:
    kind, inner = value[MARK], value.get("value")
    try:
        if kind == "table" and isinstance(inner, dict):
            return {key: read_argument(name, each) for key, each in inner.items() if short(key)}
        if kind in ("map", "described") and isinstance(inner, list):
            return read_compound(name, kind, inner)
        if kind == "decimal":
            return scaled(Decimal(str(inner)))
        if kind in DECIMALS:
            return DECIMALS[kind](bytes.fromhex(str(inner)))
        if kind == "binary":
            return base64.b64decode(str(inner), validate=True)
        if kind == "timestamp" and isinstance(inner, str):
            moment = datetime.fromisoformat(inner)
            inner = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return READ[kind](inner)
    except (
        BadValue, KeyError, ValueError, TypeError, ArithmeticError, binascii.Error,
    ) as error:  # fmt: skip
        text = f"argument '{name}' cannot be read as {kind!r}: {error}"
        raise Problem(problems.ARGUMENT, text) from None


def read_compound(name: str, kind: str, inner: list[Any]) -> Any:
    if kind == "described":
        descriptor, value = inner
        return Described(read_argument(name, descriptor), read_argument(name, value))
    pairs = [(read_argument(name, key), read_argument(name, each)) for key, each in inner]
    try:
        made = dict(pairs)
    except TypeError:  # an unhashable key
        return Map(pairs)
    return made if len(made) == len(pairs) else Map(pairs)


def scaled(number: Decimal) -> Scaled:
    """The legacy decimal. Raises ``ValueError`` for a number without such a form."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or not -255 <= exponent <= 0:
        raise ValueError("it has 0 to 255 places")
    value = int("".join(map(str, digits)))
    return Scaled(-exponent, -value if sign else value)
