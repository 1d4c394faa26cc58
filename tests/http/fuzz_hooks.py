"""Loaded by schemathesis (``SCHEMATHESIS_HOOKS``): what it cannot know itself."""

import json
from typing import Any
from urllib.parse import unquote

import schemathesis

MOST = 255
"""Of a name: octets for the gateway, code points for JSON Schema, which cannot count octets."""


@schemathesis.serializer(
    "application/vnd.amqp-gateway.messages+ndjson", "application/x-ndjson", "application/jsonl"
)
def lines(ctx: Any, value: Any) -> bytes:
    items = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


@schemathesis.hook
def filter_path_parameters(ctx: Any, path_parameters: dict[str, Any]) -> bool:
    """Leaves out what the schema takes for a name and the gateway does not, and nothing else: names
    that are too long for both are still tried."""
    return not any(
        isinstance(one, str) and in_doubt(unquote(one)) for one in (path_parameters or {}).values()
    )


@schemathesis.hook
def filter_body(ctx: Any, body: Any) -> bool:
    """The same for names in the definition of a policy."""
    definition = body.get("definition") if isinstance(body, dict) else None
    return not isinstance(definition, dict) or not any(map(in_doubt, definition.values()))


def in_doubt(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= MOST < len(name.encode("utf-8", "replace"))


@schemathesis.hook
def after_call(ctx: Any, case: Any, response: Any) -> None:
    """Streams take QUERY, and ``Allow`` says so. OpenAPI 3.1 has no word for it; all other methods
    in ``Allow`` are compared with the description.

    A raw answer to a receive is a message's body, of its own type. Where that is JSON, it is not
    the JSON of other answers."""
    if "amqp-delivery-count" in response.headers:
        response.headers["content-type"] = ["application/octet-stream"]
    for value in response.headers.pop("allow", []):
        kept = [one.strip() for one in value.split(",") if one.strip() != "QUERY"]
        response.headers.setdefault("allow", []).append(", ".join(kept))
