"""Describes octets of 1.0 frame by frame. No state, no side, and broken
frames are described as broken."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from gateway.adapters.core.trace_lines import Line, header_line, preview
from gateway.adapters.performatives.composites import read_performative
from gateway.adapters.performatives.decoding import FieldError
from gateway.adapters.performatives.frames import HEAD
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import FRAME_AMQP, FRAME_SASL, VERSION

SECRETS = frozenset(["initial_response", "response"])

COMPOSITE_TYPES = {FRAME_AMQP: "frame", FRAME_SASL: "sasl frame"}

LARGEST = 1 << 30
"""Octets of a frame beyond which it is taken for no frame at all."""


class Reader(NamedTuple):
    """Describes octets of either direction. It remembers nothing."""

    version: str = VERSION

    def frames(self, data: bytes) -> Iterator[Line]:
        """Describe everything in ``data``, which begins with a protocol header or a frame."""
        at = 0
        while at < len(data):
            left = len(data) - at
            header = header_line(data, at)
            if header is not None:
                yield header
                at += header.size
                continue
            if left < HEAD.size:
                yield Line(at, left, 0, "cut", "the last frame is cut in its header")
                return
            size, offset, kind, channel = HEAD.unpack_from(data, at)
            if size < HEAD.size or offset < 2 or offset * 4 > size or size > LARGEST:
                text = f"no frame: {size} octets with the body at word {offset}"
                yield Line(at, left, channel, "broken", text)
                return
            if size > left:
                text = f"the last frame is cut: {size - left} octets are missing"
                yield Line(at, left, channel, "cut", text)
                return
            name, text = _described(data[at + offset * 4 : at + size], kind)
            yield Line(at, size, channel, name, text)
            at += size


def _described(body: bytes, kind: int) -> tuple[str, str]:
    name = COMPOSITE_TYPES.get(kind)
    if name is None:
        return "broken", f"frame type {kind} is unknown; {preview(body)}"
    if not body:
        return "heartbeat", ""
    try:
        record, end = read_performative(body, 0, len(body), kind == FRAME_SASL)
    except FieldError as error:
        return "broken", f"{error}; {preview(body)}"
    payload = body[end:]
    carried = f" with {len(payload)} octets: {preview(payload)}" if payload else ""
    return name, f"{describe(record)}{carried}"


def describe(record: Any) -> str:
    """A record by name, with the fields that are there. Secrets are counted, not shown."""
    fields = []
    for name in record.__slots__:
        value = getattr(record, name)
        if value is not None:
            fields.append(f"{name}={_value(name, value)}")
    return " ".join([record.NAME, *fields])


def _value(name: str, value: Any) -> str:
    if name in SECRETS:
        return f"<{len(value)} octets>"
    if isinstance(value, w.Composite):
        return f"({describe(value)})"
    return preview(value) if isinstance(value, bytes) else repr(value)
