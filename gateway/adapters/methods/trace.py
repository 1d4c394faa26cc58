"""A readable trace of octets of the class-and-method family, one line per frame.

Malformed frames are described as broken instead of stopping the reader. A published version needs
nothing but the frame itself, so either direction may be given. In the drafts contents nest, and old
clients write a wrong class into their headers: the method before a content tells its class, so a
``Reader`` remembers the methods and contents of one direction from call to call.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from gateway.adapters.core.trace_lines import Line, given_fields, header_line, preview
from gateway.adapters.methods import types as fields
from gateway.adapters.methods.contents.dialect import DEEPEST
from gateway.adapters.methods.drafts import types as draft_fields
from gateway.adapters.methods.drafts.frames import EXTENDED
from gateway.adapters.methods.drafts.incoming import FLAGS, SYNCHREQ, THREE_FIELDS, UNREAL
from gateway.adapters.methods.drafts.versions import DRAFTS, is_0_9a0
from gateway.adapters.methods.geometry import Method, Version
from gateway.adapters.methods.transitional import types as transitional_fields
from gateway.adapters.methods.transitional.versions import REVISIONS
from gateway.adapters.methods.unimplemented import complete
from gateway.adapters.methods.wire.transitional import REQUEST_HEAD
from gateway.message import Table

TABLES = frozenset(
    ["arguments", "server_properties", "client_properties", "headers", "details", "filter", "table"]
    + ["application_headers", "in_doubt", "meta_data"]
)
SETS = frozenset(["ranged_execution_set", "seen_frame_set"])
SECRETS = frozenset(["response", "new_secret", "security_token"])
KINDS = (
    "method", "header", "body", "oob-method", "oob-header", "oob-body", "trace", "heartbeat",
    "request", "response",
)  # fmt: skip
"""Types of frames by their names in the tables."""

TRACER = 0x20


class Nesting:
    """Incomplete contents on the channels of one direction of a draft."""

    def __init__(self) -> None:
        self._groups: dict[int, int] = {}
        """Class of the last method with content, by channel."""
        self._open: dict[int, list[list[int]]] = {}
        """By channel, the outermost content first: children and octets that are missing."""

    def method(self, channel: int, method: Method) -> None:
        """A method with content discards an incomplete content before it."""
        if method.content:
            self._groups[channel] = method.number >> 16
            self._open.pop(channel, None)

    def header(self, channel: int, weight: int, size: int) -> int:
        """Depth of the content that this header begins."""
        stack = self._open.setdefault(channel, [])
        depth = len(stack)
        if depth <= DEEPEST:
            stack.append([weight, size])
        self._close(stack)
        return depth

    def body(self, channel: int, size: int) -> int:
        """Depth of the content that these octets belong to."""
        stack = self._open.get(channel, [])
        depth = max(0, len(stack) - 1)
        if stack:
            stack[-1][1] -= size
        self._close(stack)
        return depth

    @staticmethod
    def _close(stack: list[list[int]]) -> None:
        while stack and stack[-1][0] <= 0 and stack[-1][1] <= 0:
            stack.pop()
            if stack:
                stack[-1][0] -= 1

    def group(self, channel: int, named: int) -> int:
        """The class of a content whose header names this one."""
        return self._groups.get(channel, named)


class Reader:
    """Describes one direction of a connection."""

    def __init__(self, version: str) -> None:
        draft = version in DRAFTS
        self._table, self._read_table = decoding_of(version)
        self._nesting = Nesting() if draft else None
        self._is_0_9a6 = draft and not is_0_9a0(version)
        numbers = self._table.constants
        self._kinds = {
            numbers[f"frame-{name}"]: name for name in KINDS if f"frame-{name}" in numbers
        }

    def frames(self, data: bytes) -> Iterator[Line]:
        """Describe everything in ``data``, which begins with a protocol header or a frame."""
        geometry, numbers = self._table.geometry, self._table.constants
        at, head, tail = 0, geometry.head.size, len(geometry.tail)
        counted = tail if geometry.size_counts_tail else 0
        while at < len(data):
            left = len(data) - at
            header = header_line(data, at)
            if header is not None:
                yield header
                at += header.size
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
            if not tail and kind not in self._kinds:
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
            name, text = self._described(kind, channel, data[start:end])
            if announced:
                yield Line(at, head, 0, "meta", "the next frame has a header of 12 octets")
                at += head
            yield Line(at, end + tail - at, channel, name, text)
            at = end + tail

    def _described(self, kind: int, channel: int, payload: bytes) -> tuple[str, str]:
        """Kind and text of a frame's line."""
        name = self._kinds.get(kind, "")
        try:
            if name == "method":
                return self._method(channel, payload)
            if name in ("request", "response"):
                return self._carried(name, channel, payload)
            if name == "header":
                return name, self._header(channel, payload)
        except (ValueError, struct.error, IndexError) as error:
            return "broken", f"frame type {kind}: {error}; {preview(payload)}"
        if name == "body":
            depth = self._nesting.body(channel, len(payload)) if self._nesting else 0
            return name, f"{nested(depth)}{len(payload)} octets: {preview(payload)}"
        if name in ("heartbeat", "trace"):
            return name, preview(payload) if payload else ""
        if name:
            return name, f"out of band, {len(payload)} octets: {preview(payload)}"
        return "broken", f"frame type {kind} is unknown; {preview(payload)}"

    def _method(self, channel: int, payload: bytes) -> tuple[str, str]:
        layout = self._table.geometry.method
        if len(payload) < layout.size:
            raise ValueError("the method is cut short")
        group, number, *rest = layout.unpack_from(payload, 0)
        method = self._table.methods.get(group << 16 | number)
        notes = _flag_notes(rest)
        if method is None:
            return "unknown", f"method {group},{number}{notes}; {preview(payload[layout.size :])}"
        name, record = record_of(self._table, method, payload, layout.size, self._is_0_9a6)
        if self._nesting is not None:
            self._nesting.method(channel, method)
        return "method", f"{name} {self._fields(record)}".rstrip() + notes

    def _carried(self, name: str, channel: int, payload: bytes) -> tuple[str, str]:
        """A method in a request or response frame (transitional 0-10)."""
        if len(payload) < REQUEST_HEAD.size:
            raise ValueError(f"the {name} is cut short")
        identifier, other, batch = REQUEST_HEAD.unpack_from(payload, 0)
        kind, text = self._method(channel, payload[REQUEST_HEAD.size :])
        if name == "request":
            notes = f"request {identifier}, response mark {other}"
            notes += f", reserved {batch}" if batch else ""
        else:
            notes = f"response {identifier} to request {other}"
            notes += f" and {batch} more" if batch else ""
        return name if kind == "method" else kind, f"{text} ({notes})"

    def _header(self, channel: int, payload: bytes) -> str:
        layout = self._table.geometry.content
        named, weight, size = layout.unpack_from(payload, 0)
        nesting = self._nesting
        group = named if nesting is None else nesting.group(channel, named)
        content = self._table.contents.get(group)
        if content is None:
            described, shown = f"class {group}", preview(payload[layout.size :])
        else:
            record, end = content.read(payload, layout.size)
            if end != len(payload):
                raise ValueError(f"the properties end at {end} of {len(payload)} octets")
            described, shown = content.name, self._fields(record)
        if nesting is not None:
            described = nested(nesting.header(channel, weight, size)) + described
            described += f" (says class {named})" if named != group else ""
            described += f", {weight} children" if weight else ""
        return f"{described}, body of {size} octets {shown}".rstrip()

    def _fields(self, record: Any) -> str:
        return given_fields(record, SECRETS, self._value)

    def _value(self, name: str, value: Any) -> str:
        if not isinstance(value, bytes):
            return repr(value)
        if name in TABLES:
            try:
                return repr(self._read_table(value))
            except ValueError as error:
                raise ValueError(f"{name} is not a table: {error}; {preview(value)}") from error
        if name in SETS:
            return repr(list(transitional_fields.read_set(value)))
        if name == "body":
            body = transitional_fields.read_body(value)
            return f"{'reference' if body.is_reference else 'inline'} {preview(body.octets)}"
        return preview(value)


def record_of(
    table: Version, method: Method, payload: bytes, at: int, is_0_9a6: bool
) -> tuple[str, Any]:
    """Name and arguments of a method, in each of the layouts that were in use for 0-9a6. Raises
    ``ValueError``, and ``struct.error`` or ``IndexError`` if it is cut short."""
    arguments = len(payload) - at
    if is_0_9a6:
        if method.name == "connection.close-ok" and arguments:
            method = table.by_name["connection.close"]
        elif method.name == "connection.tune-ok" and arguments == THREE_FIELDS.size:
            channels, frame_max, heartbeat = THREE_FIELDS.unpack_from(payload, at)
            return f"{method.name} frame_max={frame_max}", method.record(channels, heartbeat)
    record, end = method.read(payload, at)
    if end != len(payload) and method.extended is not None:
        record, end = method.extended.read(payload, at)
    if end != len(payload):
        raise ValueError(f"{method.name} ends at {end} of {len(payload)} octets")
    return method.name, record


def decoding_of(version: str) -> tuple[Version, Callable[[bytes], Table]]:
    """The tables of a version, and the function that reads its field tables."""
    if version in DRAFTS:
        return DRAFTS[version], partial(draft_fields.read_table, is_0_9a0=is_0_9a0(version))
    if version in REVISIONS:
        return REVISIONS[version], transitional_fields.read_table
    return complete(version), fields.read_table


def nested(depth: int) -> str:
    """Marks a child content."""
    return "child " * depth


def _flag_notes(rest: list[int]) -> str:
    """Flags, revision and synchtag of a method of 0-9a0, as far as it has any."""
    if not rest:
        return ""
    *octets, tag = rest
    flags = revision = 0
    for octet in octets:
        flags |= octet & FLAGS
        revision |= octet & ~FLAGS
    notes = [
        name
        for bit, name in ((SYNCHREQ, "synchreq"), (UNREAL, "unreal"), (TRACER, "tracer"))
        if flags & bit
    ]
    notes += [f"revision {revision}"] * bool(revision) + [f"synchtag {tag}"] * bool(tag)
    return f" ({', '.join(notes)})" if notes else ""
