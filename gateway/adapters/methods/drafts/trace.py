"""What octets of the drafts say, frame by frame, for people. As in ``methods.trace``, but contents
nest here, and old clients write a wrong class into their headers: what came before says whose a
header is, so something is kept from call to call.
"""

import struct
from collections.abc import Iterator
from typing import Any

from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.drafts.content import DEEPEST
from gateway.adapters.methods.drafts.incoming import FLAGS, SYNCHREQ, THREE_FIELDS, UNREAL
from gateway.adapters.methods.drafts.versions import DRAFTS, is_0_9a0
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.trace import KINDS, Line, said, walk
from gateway.adapters.preview import preview

TRACER = 0x20


class Nesting:
    """What is under way on the channels of one direction."""

    def __init__(self) -> None:
        self._groups: dict[int, int] = {}
        """The class of the last method with content."""
        self._open: dict[int, list[list[int]]] = {}
        """Contents that are not complete, the outermost first: children and octets to come."""

    def method(self, channel: int, method: Method) -> None:
        """A content may follow, and none is under way any more, if this has one."""
        if method.content:
            self._groups[channel] = method.number >> 16
            self._open.pop(channel, None)

    def header(self, channel: int, weight: int, size: int) -> int:
        """How deep this content stands in others."""
        stack = self._open.setdefault(channel, [])
        depth = len(stack)
        if depth <= DEEPEST:
            stack.append([weight, size])
        self._close(stack)
        return depth

    def body(self, channel: int, size: int) -> int:
        """How deep the content stands whose octets these are."""
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
    """Describes one direction of a conversation in one draft."""

    def __init__(self, version: str) -> None:
        self._table = DRAFTS[version]
        self._is_0_9a0 = is_0_9a0(version)
        self._nesting = Nesting()
        numbers = self._table.constants
        self._kinds = {numbers[f"frame-{name}"]: name for name in KINDS}

    def frames(self, data: bytes) -> Iterator[Line]:
        """Describe everything in ``data``, which goes on where the data before were cut."""
        return walk(data, self._table, self._describe)

    def _describe(self, kind: int, channel: int, payload: bytes) -> tuple[str, str]:
        name = self._kinds.get(kind, "")
        try:
            if name == "method":
                return self._method(channel, payload)
            if name == "header":
                return name, self._header(channel, payload)
        except (ValueError, struct.error, IndexError) as error:
            return "broken", f"frame type {kind}: {error}; {preview(payload)}"
        if name == "body":
            depth = self._nesting.body(channel, len(payload))
            return name, f"{nested(depth)}{len(payload)} octets: {preview(payload)}"
        if name in ("heartbeat", "trace"):
            return name, preview(payload) if payload else ""
        if name:
            return name, f"out of band, {len(payload)} octets: {preview(payload)}"
        return "broken", f"frame type {kind} is unknown; {preview(payload)}"

    def _method(self, channel: int, payload: bytes) -> tuple[str, str]:
        layout = self._table.geometry.method
        group, number, *rest = layout.unpack_from(payload, 0)
        method = self._table.methods.get(group << 16 | number)
        notes = _notes(rest)
        if method is None:
            return "unknown", f"method {group},{number}{notes}; {preview(payload[layout.size :])}"
        name, record = self._record(method, payload, layout.size)
        self._nesting.method(channel, method)
        return "method", f"{name} {said(record, self._read)}".rstrip() + notes

    def _record(self, method: Method, payload: bytes, at: int) -> tuple[str, Any]:
        """The arguments; with the two other layouts of 0-9a6 that were about."""
        arguments = len(payload) - at
        if not self._is_0_9a0:
            if method.name == "connection.close-ok" and arguments:
                method = self._table.by_name["connection.close"]
            elif method.name == "connection.tune-ok" and arguments == THREE_FIELDS.size:
                channels, frame_max, heartbeat = THREE_FIELDS.unpack_from(payload, at)
                return f"{method.name} frame_max={frame_max}", method.record(channels, heartbeat)
        record, end = method.read(payload, at)
        if end != len(payload):
            raise ValueError(f"{method.name} ends at {end} of {len(payload)} octets")
        return method.name, record

    def _read(self, entries: bytes) -> dict[str, Any]:
        return tables.read_table(entries, self._is_0_9a0)

    def _header(self, channel: int, payload: bytes) -> str:
        layout = self._table.geometry.content
        named, weight, size = layout.unpack_from(payload, 0)
        group = self._nesting.group(channel, named)
        content = self._table.contents.get(group)
        if content is None:
            described, said_so = f"class {group}", preview(payload[layout.size :])
        else:
            record, end = content.read(payload, layout.size)
            if end != len(payload):
                raise ValueError(f"the properties end at {end} of {len(payload)} octets")
            described, said_so = content.name, said(record, self._read)
        wrong = f" (says class {named})" if named != group else ""
        children = f", {weight} children" if weight else ""
        depth = self._nesting.header(channel, weight, size)
        text = f"{nested(depth)}{described}{wrong}{children}, body of {size} octets {said_so}"
        return text.rstrip()


def nested(depth: int) -> str:
    """Marks what belongs to a child content."""
    return "child " * depth


def _notes(rest: list[int]) -> str:
    """Flags, revision and synchtag of a method of 0-9a0, as far as there are any."""
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
