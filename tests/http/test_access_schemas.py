"""Schemas of declared routes, over bodies that are made to take long."""

from typing import Any

import pytest

pytest.importorskip("jsonschema")
pytest.importorskip("re2")

from gateway.http.access.json_schema import schema_check

NAMED = {
    "properties": {"a": {"type": "integer"}},
    "patternProperties": {"^(x+)+$": {"type": "integer"}},
    "additionalProperties": False,
}


def pointers(schema: dict[str, Any], document: Any) -> list[str]:
    return [error["pointer"] for error in schema_check(schema)(document)]


@pytest.mark.timeout(60)
def test_patterns_do_not_backtrack() -> None:
    """With Python's engine each of these goes on for longer than anyone lives."""
    hard = "a" * 200 + "!"
    assert pointers({"pattern": "^(a+)+$"}, hard) == [""]
    assert pointers({"items": {"pattern": "^(a|aa)*$"}}, ["a" * 200, hard]) == ["/1"]
    assert pointers(NAMED, {"x" * 200 + "!": 1}) == [""]
    inner = {"$defs": {"s": {"pattern": "(a*)*b"}}, "properties": {"s": {"$ref": "#/$defs/s"}}}
    assert pointers(inner, {"s": hard}) == ["/s"]


def test_patterns_keep_their_meaning() -> None:
    assert pointers({"pattern": "b.?d"}, "abcde") == [] and pointers({"pattern": "x"}, 7) == []
    assert pointers(NAMED, {"a": 1, "xx": 2}) == []
    assert pointers(NAMED, {"a": 1, "xx": "2", "b": 3}) == ["/xx", ""]
    open_ones = {**NAMED, "additionalProperties": {"type": "string"}}
    assert pointers(open_ones, {"b": 3, "c": "3", "x": 1}) == ["/b"]


@pytest.mark.timeout(60)
def test_unique_items_are_not_compared_one_by_one() -> None:
    many: list[Any] = [{"n": number} for number in range(50_000)]
    assert pointers({"uniqueItems": True}, [*many, 1, "1", True, None, [1]]) == []
    assert pointers({"uniqueItems": True}, [*many, {"n": 7.0}]) == [""]
    assert pointers({"uniqueItems": True}, [1, 1.0]) == [""]
    assert pointers({"uniqueItems": True}, [1, True, 0, False, "1"]) == []
    assert pointers({"uniqueItems": False}, [1, 1]) == []


@pytest.mark.parametrize("pattern", ["(a)\\1", "(?=a)", "("])
def test_invalid_patterns_are_reported_at_configuration(pattern: str) -> None:
    with pytest.raises(ValueError):
        schema_check({"properties": {"a": {"pattern": pattern}}})
    assert schema_check({"const": {"pattern": pattern}})({"pattern": pattern}) == []
