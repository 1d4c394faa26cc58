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
    names = [unquote(one) for one in (path_parameters or {}).values() if isinstance(one, str)]
    return not any(len(one) <= MOST < len(one.encode("utf-8", "replace")) for one in names)


@schemathesis.hook
def after_call(ctx: Any, case: Any, response: Any) -> None:
    """Streams take QUERY, and ``Allow`` says so. OpenAPI 3.1 has no word for it; all other methods
    in ``Allow`` are compared with the description."""
    for value in response.headers.pop("allow", []):
        kept = [one.strip() for one in value.split(",") if one.strip() != "QUERY"]
        response.headers.setdefault("allow", []).append(", ".join(kept))
