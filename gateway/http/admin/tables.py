"""Arguments as JSON, and back. Types that JSON lacks are ``{"$type": ..., "value": ...}``."""

import base64
import binascii
from datetime import UTC, datetime
from typing import Any

from gateway.http import problems
from gateway.http.problems import Problem
from gateway.http.typed import READ, BadValue, json_value
from gateway.message import Table

MARK = "$type"
BOUND = 2**63
"""Plain numbers are below it either way; a greater double is written with its type."""


def write_table(table: Table) -> dict[str, Any]:
    shown: dict[str, Any] = mark_great(json_value(table))
    return shown


def mark_great(value: Any) -> Any:
    if isinstance(value, float) and abs(value) >= BOUND:
        return {MARK: "double", "value": repr(value)}
    if isinstance(value, dict):
        return {key: mark_great(each) for key, each in value.items()}
    return [mark_great(each) for each in value] if isinstance(value, list) else value


def read_table(given: dict[str, Any]) -> Table:
    """Raises ``Problem`` (422) for what no AMQP table can carry."""
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
            raise Problem(problems.ARGUMENT, f"argument '{name}' is no Unicode text") from None
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
        if kind == "binary":
            return base64.b64decode(str(inner), validate=True)
        if kind == "timestamp" and isinstance(inner, str):
            moment = datetime.fromisoformat(inner)
            inner = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return READ[kind](inner)
    except (BadValue, KeyError, ValueError, TypeError, binascii.Error) as error:
        text = f"argument '{name}' cannot be read as {kind!r}: {error}"
        raise Problem(problems.ARGUMENT, text) from None
