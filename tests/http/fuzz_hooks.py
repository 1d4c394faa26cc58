"""Loaded by schemathesis (``SCHEMATHESIS_HOOKS``): media types it does not know."""

import json
from typing import Any

import schemathesis


@schemathesis.serializer(
    "application/vnd.amqp-gateway.messages+ndjson", "application/x-ndjson", "application/jsonl"
)
def lines(ctx: Any, value: Any) -> bytes:
    items = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)
