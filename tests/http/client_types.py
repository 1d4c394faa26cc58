"""Types of answers for the JavaScript client, made of the schemas of ``/openapi.json``.

``python -m tests.http.client_types > gateway/http/client/answers.js`` writes them.
"""

import json
import re
import sys
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from tests.http.conftest import Rig

ROOTS = (
    "QueueDetail",
    "ExchangeView",
    "BindingView",
    "ConsumerView",
    "Session",
    "Removed",
    "Page",
    "EventMessage",
)
ANY = {"JsonValue": "any", "AmqpValue": "any", "JsonObject": "{ [name: string]: any }"}
"""Schemas of values that only the program knows."""
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
HEAD = """\
// Answers of the HTTP API as types. Made of the schemas of /openapi.json, whose names they have:
// python -m tests.http.client_types > gateway/http/client/answers.js
"""
WIDTH = 100


def expression(schema: dict[str, Any]) -> str:
    """A schema as a type."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return ANY.get(name, name)
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return " | ".join(dict.fromkeys(expression(one) for one in schema[name]))
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(one) for one in schema.get("enum", [schema.get("const")]))
    kind = schema["type"]
    if isinstance(kind, list):
        return " | ".join(expression({"type": one}) for one in kind)
    if kind == "array":
        return f"Array<{expression(schema['items'])}>" if "items" in schema else "any[]"
    if kind == "object":
        return f"{{ [name: string]: {expression(schema['additionalProperties'])} }}"
    return PLAIN.get(kind, str(kind))


def referred(schema: Any) -> Iterator[str]:
    """The names of schemas that one refers to, but for ``ANY``."""
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema)):
        if name not in ANY:
            yield name


def needed(schemas: dict[str, Any]) -> list[str]:
    """``ROOTS``, and all that they refer to."""
    found = list(ROOTS)
    for name in found:
        found += [one for one in dict.fromkeys(referred(schemas[name])) if one not in found]
    return found


def definition(name: str, schema: dict[str, Any]) -> Iterator[str]:
    """A schema as a comment that defines a type."""
    text = " ".join(schema.get("description", "").replace("``", "`").split())
    members = schema.get("properties")
    kind = "object" if members else expression(schema)
    yield "/**"
    yield from (f" * {line}" for line in wrap(text, WIDTH - 3))
    yield f" * @typedef {{{kind}}} {name}"
    for member, told in (members or {}).items():
        shown = member if member in schema.get("required", ()) else f"[{member}]"
        words = f"@property {{{expression(told)}}} {shown}  {told.get('description', '')}".split(
            " "
        )
        line = " ".join(words).rstrip()
        yield from (
            f" * {part}"
            for part in wrap(line, WIDTH - 3, subsequent_indent="  ", break_on_hyphens=False)
        )
    yield " */"
    yield ""


def module() -> str:
    schemas = Rig().app.api.openapi()["components"]["schemas"]
    lines = [HEAD]
    for name in needed(schemas):
        lines += definition(name, schemas[name])
    return "\n".join([*lines, "export {};", ""])


if __name__ == "__main__":
    sys.stdout.write(module())
