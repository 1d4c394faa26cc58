"""JSON Schema validation of untrusted bodies, in time proportional to the body.

Patterns are matched with RE2 instead of ``re``, which a single body can block for hours. Unique
items are checked by their text instead of pairwise comparison.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from gateway.selector import Expression, ExpressionError

Check = Callable[[Any], list[dict[str, str]]]
MOST_ERRORS = 20
VALUES = ("const", "enum", "default", "examples")
"""Keywords whose values are not schemas."""


def schema_check(schema: dict[str, Any]) -> Check:
    """A function that lists the errors of a document. Raises ``ValueError`` if the schema is
    invalid, or has a pattern that RE2 does not support. Needs the extra ``schema``;
    ``gateway.config`` reports it if it is missing."""
    from jsonschema import Draft202012Validator, SchemaError, validators  # type: ignore[import-untyped]
    from referencing import Registry

    kind = validators.validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"not a JSON Schema: {error.message}") from None
    expressions = compiled(schema)
    keywords: dict[str, Any] = {"uniqueItems": unique_items}
    if expressions:
        keywords |= pattern_keywords(expressions)
    # A separate registry: references are never fetched.
    validator = validators.extend(kind, keywords)(schema, registry=Registry())

    def check(document: Any) -> list[dict[str, str]]:
        found = []
        for error in validator.iter_errors(document):
            pointer = "".join(f"/{part}" for part in error.absolute_path)
            found.append({"pointer": pointer, "detail": error.message[:200]})
            if len(found) == MOST_ERRORS:
                break
        return found

    return check


def compiled(schema: Any) -> dict[str, Expression]:
    """All patterns anywhere in a schema. Raises ``ValueError``."""
    found: dict[str, Expression] = {}
    waiting = [schema]
    names: set[str] = set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            names.update(one)
            waiting += [inner for name, inner in one.items() if name not in VALUES]
            patterns = [one.get("pattern"), *keys_of(one.get("patternProperties"))]
            for text in patterns:
                if isinstance(text, str) and text not in found:
                    found[text] = expression_of(text)
    if {"patternProperties", "unevaluatedProperties"} <= names:
        raise ValueError("patternProperties beside unevaluatedProperties are not supported")
    return found


def keys_of(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else []


def expression_of(text: str) -> Expression:
    try:
        return Expression(text)
    except ExpressionError as error:
        raise ValueError(f"pattern {text!r}: {error}") from None


def unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if wanted and validator.is_type(instance, "array"):
        seen = {json.dumps(plain(item), sort_keys=True) for item in instance}
        if len(seen) < len(instance):
            yield ValidationError("an array has equal items that must be unique")


def plain(value: Any) -> Any:
    """The value with equal numbers in one form."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def pattern_keywords(expressions: dict[str, Expression]) -> dict[str, Any]:
    """The keywords with patterns, using these expressions instead of Python's."""
    from jsonschema import ValidationError

    def pattern(validator: Any, text: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and not expressions[text].matches(instance):
            yield ValidationError(f"{instance[:100]!r} does not match {text!r}")

    def pattern_properties(validator: Any, given: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        for text, inner in given.items():
            for name, value in instance.items():
                if expressions[text].matches(name):
                    yield from validator.descend(value, inner, path=name, schema_path=text)

    def additional_properties(
        validator: Any, inner: Any, instance: Any, schema: Any
    ) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        known = schema.get("properties", {})
        patterns = [expressions[text] for text in schema.get("patternProperties", {})]
        for name, value in instance.items():
            if name in known or any(one.matches(name) for one in patterns):
                continue
            if isinstance(inner, dict):
                yield from validator.descend(value, inner, path=name)
            elif not inner:
                yield ValidationError(f"additional property {name[:100]!r} is not allowed")

    return {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
    }
