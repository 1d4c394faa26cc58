"""What is wrong with a document, member by member, in words of JSON and not of Python."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from gateway.similar_names import did_you_mean

PYDANTIC_PREFIX = "Value error, "
BRANCH = re.compile(r"[(\[]|^constrained-")
LONGEST_VALUE = 50
OUT_OF_RANGE = frozenset(
    ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "int_parsing")
    + ("literal_error", "bool_type", "bool_parsing", "int_type", "float_type")
)
"""Errors of pydantic about values of numbers, booleans and choices, which are no secrets."""


def mistakes(error: ValidationError, kind: Any, *place: Any) -> list[dict[str, str]]:
    """A pointer and a text for each error of a document that is not of this kind. ``place``: the
    members that lead to the document."""
    found: dict[str, str] = {}
    for one in error.errors(include_url=False, include_context=False):
        pointer = "".join(f"/{part}" for part in (*place, *members_of(one)))
        # Of a union each branch has an error; the first is that of the usual form.
        found.setdefault(pointer, text_of(one, kind))
    return [{"pointer": pointer, "detail": text} for pointer, text in found.items()]


def members_of(one: Any) -> tuple[Any, ...]:
    """The place of an error without the branches of unions that pydantic names in it."""
    location = one["loc"][:-1] if one["type"] == "none_required" else one["loc"]
    return tuple(part for part in location if not BRANCH.search(str(part)))


def summary(errors: list[dict[str, str]]) -> str:
    """The first ones in one line."""
    return "; ".join(f"{one['pointer'] or '/'}: {one['detail']}" for one in errors[:3])


def text_of(one: Any, kind: Any) -> str:
    """The text of one of pydantic's errors."""
    if one["type"] == "extra_forbidden" and one["loc"]:
        return "unknown member" + did_you_mean(str(one["loc"][-1]), members_at(kind, one["loc"]))
    return str(one["msg"]).removeprefix(PYDANTIC_PREFIX) + value_seen(one)


def value_seen(one: Any) -> str:
    """The value that an error is about, if it is short and surely no secret."""
    value = one.get("input")
    told = one["type"] in OUT_OF_RANGE and isinstance(value, str | int | float)
    return f"; it is {json.dumps(value)}" if told and len(str(value)) <= LONGEST_VALUE else ""


def members_at(kind: Any, location: tuple[Any, ...]) -> set[str]:
    """The members of the object that has, or should not have, the last one of a location."""
    models = list(models_of(kind))
    for part in location[:-1]:
        # Numbers are places in lists, and pydantic names the members of unions, too.
        fields = [each.model_fields[part] for each in models if part in each.model_fields]
        models = [each for one in fields for each in models_of(one.annotation)] or models
    return {one.alias or name for each in models for name, one in each.model_fields.items()}


def models_of(kind: Any) -> Iterator[type[BaseModel]]:
    """The models in a type such as ``list[Model] | None``."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from models_of(part)
