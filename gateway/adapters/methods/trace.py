"""What octets of the class-and-method family say, frame by frame, for people.

Knows no state and no side: each frame is described by itself, so either direction may be given, and
what is broken is described as broken instead of stopping the reader.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gateway.adapters.methods import types as fields
from gateway.adapters.methods.drafts.frames import EXTENDED
from gateway.adapters.methods.geometry import Version
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.preview import preview
from gateway.message import Table

TABLES = frozenset(
    ["arguments", "server_properties", "client_properties", "headers", "details", "filter", "table"]
)
SECRETS = frozenset(["response", "new_secret"])
HEADER_OCTETS = 8
KINDS = (
    "method", "header", "body", "oob-method", "oob-header", "oob-body", "trace", "heartbeat",
)  # fmt: skip
"""Types of frames by their names in the tables."""


class Line(NamedTuple):
    """One frame. ``offset`` and ``size`` are octets from the beginning; ``kind`` is "protocol
    header", "method", "header", "body", "heartbeat", "meta", "unknown" for a method that there is
    not, "broken", or "cut" for a last frame of which more is to come."""

    offset: int
    size: int
    channel: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.offset:8d}  {self.channel:5d}  {self.kind:<15}  {self.text}"


Describe = Callable[[int, int, bytes], tuple[str, str]]
"""Type, channel and payload of a frame -> kind and text of its line."""


def frames(data: bytes, version: str) -> Iterator[Line]:
    """Describe everything in ``data``, which begins with a protocol header or a frame."""
    table = complete(version)
    return walk(data, table, lambda kind, channel, payload: _describe(table, kind, payload))


def walk(data: bytes, table: Version, describe: Describe) -> Iterator[Line]:
    """The frames of any geometry."""
    geometry, numbers = table.geometry, table.constants
    at, head, tail = 0, geometry.head.size, len(geometry.tail)
    counted = tail if geometry.size_counts_tail else 0
    known = {numbers.get(f"frame-{name}") for name in KINDS}
    while at < len(data):
        left = len(data) - at
        if data[at : at + 4] == b"AMQP"[:left]:
            if left < HEADER_OCTETS:
                yield Line(at, left, 0, "cut", "the last protocol header is cut")
                return
            numerals = ".".join(str(octet) for octet in data[at + 4 : at + 8])
            yield Line(at, HEADER_OCTETS, 0, "protocol header", f"AMQP {numerals}")
            at += HEADER_OCTETS
            continue
        start = at + head
        if left >= head:
            parts = geometry.head.unpack_from(data, at)
            kind, channel, size = (parts[position] for position in geometry.order)
            announced = geometry.meta and kind == numbers["frame-meta"]
            if announced:
                start += EXTENDED.size
        if start > len(data):
            yield Line(at, left, 0, "cut", "the last frame is cut in its header")
            return
        if announced:
            kind, _, channel, size = EXTENDED.unpack_from(data, at + head)
        if not tail and kind not in known:
            yield Line(at, left, channel, "broken", f"frame type {kind} is unknown")
            return
        end = start + size - counted
        if end + tail > len(data):
            text = f"the last frame is cut: {end + tail - len(data)} octets are missing"
            yield Line(at, left, channel, "cut", text)
            return
        if end < start or data[end : end + tail] != geometry.tail:
            text = f"frame type {kind} of {size} octets does not end with the frame end octet"
            yield Line(at, left, channel, "broken", text)
            return
        name, text = describe(kind, channel, data[start:end])
        if announced:
            yield Line(at, head, 0, "meta", "the next frame has a header of 12 octets")
            at += head
        yield Line(at, end + tail - at, channel, name, text)
        at = end + tail


def _describe(table: Version, kind: int, payload: bytes) -> tuple[str, str]:
    numbers = table.constants
    try:
        if kind == numbers["frame-method"]:
            return _method(table, payload)
        if kind == numbers["frame-header"]:
            return "header", _header(table, payload)
    except (ValueError, struct.error, IndexError) as error:
        return "broken", f"frame type {kind}: {error}; {preview(payload)}"
    if kind == numbers["frame-body"]:
        return "body", f"{len(payload)} octets: {preview(payload)}"
    if kind == numbers["frame-heartbeat"]:
        return "heartbeat", preview(payload) if payload else ""
    return "broken", f"frame type {kind} is unknown; {preview(payload)}"


def _method(table: Version, payload: bytes) -> tuple[str, str]:
    number = int.from_bytes(payload[:4], "big")
    method = table.methods.get(number)
    if method is None or len(payload) < 4:
        return "unknown", f"method {number >> 16},{number & 0xFFFF}; {preview(payload[4:])}"
    record, end = method.read(payload, 4)
    if end != len(payload):
        raise ValueError(f"{method.name} ends at {end} of {len(payload)} octets")
    return "method", f"{method.name} {said(record)}".rstrip()


def _header(table: Version, payload: bytes) -> str:
    layout = table.geometry.content
    group, _, size = layout.unpack_from(payload, 0)
    content = table.contents.get(group)
    if content is None:
        return f"class {group}, body of {size} octets; {preview(payload[layout.size :])}"
    record, end = content.read(payload, layout.size)
    if end != len(payload):
        raise ValueError(f"the properties end at {end} of {len(payload)} octets")
    return f"{content.name}, body of {size} octets {said(record)}".rstrip()


def said(record: Any, read: Callable[[bytes], Table] = fields.read_table) -> str:
    """The fields that say something. Secrets are counted, not shown. ``read``: field tables."""
    told = []
    for name, default in record.defaults().items():
        value = getattr(record, name)
        if value is None or value == default:
            continue
        told.append(f"{name}={_value(name, value, read)}")
    return " ".join(told)


def _value(name: str, value: Any, read: Callable[[bytes], Table]) -> str:
    if name in SECRETS:
        return f"<{len(value)} octets>"
    if isinstance(value, bytes):
        if name in TABLES:
            try:
                return repr(read(value))
            except ValueError as error:
                return f"<not a table: {error}; {preview(value)}>"
        return preview(value)
    return repr(value)
