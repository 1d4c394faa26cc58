"""A readable trace of octets of 0-10, one line per frame.

A broken frame is described as broken instead of stopping the reader. A ``Reader`` remembers of one
direction the segments that are split over several frames, and numbers commands from the last
session.command-point on.
"""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from gateway.adapters.core.trace_lines import Line, header_line, preview
from gateway.adapters.record import Record
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.assembly import FIRST_FRAME, LAST_FRAME, LONGEST_SEGMENT
from gateway.adapters.segments.decoding import read_array, read_map
from gateway.adapters.segments.frame_format import HEAD, HEAD_OCTETS, MOST_TRACKS
from gateway.adapters.segments.types import FieldError
from gateway.adapters.segments.wire import layouts as w
from gateway.adapters.segments.wire.tables import OPERATIONS, STRUCTS, SegmentType

MAPS = frozenset(
    ["server_properties", "client_properties", "arguments", "application_headers", "error_info"]
    + ["headers"]
)
ARRAYS = frozenset(["mechanisms", "locales", "capabilities", "known_hosts", "in_doubt"])
SETS = frozenset(["commands", "transfers", "byte_ranges"])
SECRETS = frozenset(["response"])
KINDS = {
    SegmentType.CONTROL: "control",
    SegmentType.COMMAND: "command",
    SegmentType.HEADER: "header",
    SegmentType.BODY: "body",
}


class Reader:
    """Describes one direction of a connection."""

    def __init__(self, version: str = "0-10") -> None:
        self._split: dict[int, bytes] = {}
        """The beginning of a segment, by channel and track."""
        self._next: dict[int, int] = {}
        """The number of the next command, by channel."""

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
            if left < HEAD_OCTETS:
                yield Line(at, left, 0, "cut", "the last frame is cut in its header")
                return
            start, size, track, channel = HEAD.unpack_from(data, at)
            if start > 0x0F03 or start & 0xFF not in KINDS or size < HEAD_OCTETS or track > 15:
                text = f"no frame: flags and type {start:#06x}, {size} octets, track {track}"
                yield Line(at, left, channel, "broken", text)
                return
            if size > left:
                text = f"the last frame is cut: {size - left} octets are missing"
                yield Line(at, left, channel, "cut", text)
                return
            payload = data[at + HEAD_OCTETS : at + size]
            name, text = self._frame(start >> 8, start & 0xFF, track, channel, payload)
            yield Line(at, size, channel, name, text)
            at += size

    def _frame(
        self, flags: int, kind: int, track: int, channel: int, payload: bytes
    ) -> tuple[str, str]:
        name = KINDS[kind]
        if kind == SegmentType.BODY:
            return name, f"{len(payload)} octets: {preview(payload)}"
        key = channel * MOST_TRACKS + track
        segment = payload if flags & FIRST_FRAME else self._split.pop(key, b"") + payload
        if not flags & LAST_FRAME and len(segment) <= LONGEST_SEGMENT:
            self._split[key] = segment
            return name, f"{len(payload)} octets of it, more come: {preview(payload)}"
        try:
            if kind == SegmentType.HEADER:
                return name, header_text(segment)
            if kind == SegmentType.CONTROL:
                return self._control(channel, segment)
            return self._command(channel, segment)
        except FieldError as error:
            return "broken", f"{name}: {error}; {preview(segment)}"

    def _control(self, channel: int, segment: bytes) -> tuple[str, str]:
        code = int.from_bytes(segment[:2], "big")
        kind = OPERATIONS.get(code)
        if kind is None or len(segment) < 2:
            return "unknown", f"control {code >> 8},{code & 0xFF}; {preview(segment[2:])}"
        record = ops.read_fields(kind, segment, ops.CONTROL_START, len(segment))
        if isinstance(record, w.SessionCommandPoint):
            self._next[channel] = record.command_id or 0
        elif isinstance(record, w.SessionAttach | w.SessionAttached):
            self._next.pop(channel, None)
        return "control", " ".join([kind.name, *fields(record)])

    def _command(self, channel: int, segment: bytes) -> tuple[str, str]:
        code, sync = ops.read_command_start(segment, 0, len(segment))
        number = self._next.get(channel)
        notes = [] if number is None else [f"id {number}"]
        if number is not None:
            self._next[channel] = number + 1 & 0xFFFFFFFF
        notes += ["sync"] * sync
        note = f" ({', '.join(notes)})" if notes else ""
        kind = OPERATIONS.get(code)
        if kind is None:
            text = f"command {code >> 8},{code & 0xFF}{note}; {preview(segment[4:])}"
            return "unknown", text
        record = ops.read_fields(kind, segment, ops.COMMAND_START, len(segment))
        return "command", " ".join([kind.name, *fields(record)]) + note


def header_text(segment: bytes) -> str:
    """The structs of a header segment. Raises ``FieldError``."""
    found = []
    for code, at, end in ops.structs(segment):
        kind = STRUCTS.get(code)
        if kind is None:
            found.append(f"(struct {code:#06x}: {preview(segment[at:end])})")
        else:
            record = ops.read_fields(kind, segment, at, end)
            found.append(f"({' '.join([kind.name, *fields(record)])})")
    return " ".join(found)


def fields(record: Record) -> Iterator[str]:
    """The fields that are present. Secrets are counted, not shown. Raises ``FieldError``."""
    for name in record.__slots__:
        value = getattr(record, name)
        if value is not None and value is not False:
            yield name if value is True else f"{name}={field_text(name, value)}"


def field_text(name: str, value: Any) -> str:
    """The value of a field. Raises ``FieldError``."""
    if name in SECRETS:
        return f"<{len(value)} octets>"
    if isinstance(value, Record):
        return f"({' '.join(fields(value))})"
    if not isinstance(value, bytes):
        return ranges_text(value) if name in SETS else repr(value)
    readers: dict[str, Callable[[bytes], str]] = {
        "message_id": lambda octets: str(UUID(bytes=octets)),
        "value": struct_text,
        **dict.fromkeys(MAPS, lambda octets: repr(read_map(octets))),
        **dict.fromkeys(ARRAYS, lambda octets: repr(list(read_array(octets)))),
    }
    return readers.get(name, preview)(value)


def ranges_text(ranges: tuple[tuple[int, int], ...]) -> str:
    """``0-3,5``."""
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges) or "none"


def struct_text(octets: bytes) -> str:
    """A result. Raises ``FieldError``."""
    record = ops.read_struct(octets)
    return preview(octets) if record is None else f"({' '.join([record.NAME, *fields(record)])})"
