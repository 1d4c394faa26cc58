"""Server-sent events: the fields of the answer, messages as ``data:`` lines, and control events."""

import random
from typing import Any

from gateway.http.message_json import body_json, compact, metadata
from gateway.http.octets import Octets, concatenated
from gateway.message import Message

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
}


def data_line(
    head: bytes, message: Message, redelivered: bool, opaque: bool = False, way: bool = True
) -> Octets:
    """``data: {...}`` and the blank line. ``head`` is the source's ``data: {"source":"..."``;
    ``opaque``: the body is base64 whatever it is; ``way``: exchange and routing key are shown."""
    fields: dict[str, Any]
    try:
        properties = message.properties
        fields = metadata(properties)
        content_type, coding = properties.content_type, properties.content_encoding
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        # Another peer's broken properties must not end the stream of everybody else.
        fields = {"properties_unreadable": True}
        content_type = coding = None
    finally:
        message.forget_properties()
    if way:
        fields["exchange"] = message.exchange
    if way or message.key:
        fields["routing_key"] = message.key
    if redelivered:
        fields["redelivered"] = True
    body = body_json(None if opaque else content_type, coding, message.body)
    if fields:
        head = b"%b,%b" % (head, compact(fields)[1:-1])
    return concatenated(head + b',"body":', body, b"}\n\n")


def data_head(source: str) -> bytes:
    return b'data: {"source":' + compact(source)


def control(
    event: str, data: dict[str, Any], cursor: bytes | None = None, retry_ms: int | None = None
) -> bytes:
    """A control event such as ``bridge.open``. A cursor and a reconnect time always stand in an
    event: simple clients make an empty message of a block without data."""
    retry = b"retry: %d\n" % retry_ms if retry_ms is not None else b""
    line = b"id: " + cursor + b"\n" if cursor is not None else b""
    return b"%b%bevent: %b\ndata: %b\n\n" % (retry, line, event.encode(), compact(data))


def jittered(reconnect_ms: int) -> int:
    """Another reconnect time for each client, so that not all come back at once."""
    return int(reconnect_ms * random.uniform(0.5, 1.5))
