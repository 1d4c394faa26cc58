"""0-10 in recordings: transfers among the commands of both directions."""

import re
from collections.abc import Iterator

from gateway.adapters.core.trace_lines import HEADER_OCTETS
from gateway.adapters.segments import operations as ops
from gateway.adapters.segments.assembly import (
    FIRST_FRAME,
    FIRST_SEGMENT,
    LAST_FRAME,
    LAST_SEGMENT,
    Assembly,
    Parts,
    Room,
)
from gateway.adapters.segments.content import received
from gateway.adapters.segments.essentials import arrived, route
from gateway.adapters.segments.frame_format import HEAD, HEAD_OCTETS, MOST_TRACKS
from gateway.adapters.segments.violation import Violation
from gateway.adapters.segments.wire.tables import OPERATIONS, SegmentType
from gateway.archive.side import MOST_BODY, ODD, Broken, Side, text_of
from gateway.errors import Condition

TRANSFER = 0x0401
TRANSFER_OCTETS = TRANSFER.to_bytes(2, "big")
HEADS = re.compile(rb"[\x00-\x0f][\x00-\x03][\s\S]{2}\x00[\x00-\x0f][\s\S]{2}\0\0\0\0")
WHOLE = 0x0F


class Unfinished:
    """An assembly of which more is to come; a ``message``, if it is known to be one."""

    def __init__(self, offset: int, kind: int, room: Room) -> None:
        self.offset = offset
        self.assembly = Assembly(kind, room)
        self.message = False


class SegmentSide(Side):
    """One direction of a connection."""

    chain = 3

    def __init__(self, from_client: bool) -> None:
        super().__init__(from_client)
        self._room = Room(MOST_BODY, None)
        self._unfinished: dict[int, Unfinished | None] = {}
        """By channel and track; ``None``: its frames are passed over."""

    def size(self, buf: bytes, at: int) -> int | None:
        if buf[at] == 0x41 and b"AMQP".startswith(buf[at : at + 4]):
            return HEADER_OCTETS
        if len(buf) - at < HEAD_OCTETS:
            return None
        start, size, track, _ = HEAD.unpack_from(buf, at)
        if start > 0x0F03 or start & 0xFF > SegmentType.BODY or track >= MOST_TRACKS:
            raise Broken(f"no frame: flags and type {start:#06x}, track {track}")
        if size < HEAD_OCTETS:
            raise Broken(f"a frame of {size} octets")
        return int(size)

    def likely(self, buf: bytes, at: int, end: int) -> bool:
        if buf[at] == 0x41:
            return buf[at : at + 5] == b"AMQP\x01"
        if buf[at + 8 : at + 12] != b"\0\0\0\0":
            return False
        kind = buf[at + 1]
        if kind <= SegmentType.COMMAND and buf[at] & FIRST_FRAME:
            code = int.from_bytes(buf[at + HEAD_OCTETS : at + HEAD_OCTETS + 2], "big")
            return end - at >= HEAD_OCTETS + 2 and code in OPERATIONS
        return True

    def candidates(self, buf: bytes, at: int) -> Iterator[int]:
        while (match := HEADS.search(buf, at)) is not None:
            yield match.start()
            at = match.start() + 1

    def take(self, buf: bytes, at: int, end: int) -> None:
        if buf[at] == 0x41:
            return
        start, _, track, channel = HEAD.unpack_from(buf, at)
        flags, kind = start >> 8, start & 0xFF
        key = channel * MOST_TRACKS + track
        payload = at + HEAD_OCTETS
        offset = self.position(at)
        begins = bool(flags & FIRST_SEGMENT and flags & FIRST_FRAME)
        if begins and kind <= SegmentType.COMMAND:
            self._give_up(key, offset, "message-incomplete", "the rest did not come")
            unfinished = self._unfinished[key] = Unfinished(offset, kind, self._room)
            if kind == SegmentType.COMMAND and buf[payload : payload + 2] == TRANSFER_OCTETS:
                self.messages += 1
                unfinished.message = True
        elif key not in self._unfinished:
            self._unfinished[key] = None
            self.messages += 1
            text = "segments whose command is not there"
            self.failed(offset, offset, "message-beginning-missing", text, buf[at:end])
            return
        held = self._unfinished[key]
        if held is None:
            return
        problem = held.assembly.add(flags, kind, buf, payload, end)
        if problem is None:
            if not (flags & LAST_SEGMENT and flags & LAST_FRAME):
                return
            whole = held.assembly.finish()
            if not isinstance(whole, Violation):
                del self._unfinished[key]
                self._complete(held, whole, offset)
                return
            problem = whole
        large = problem.condition is Condition.CONTENT_TOO_LARGE
        code = "message-too-large" if large else "frame-broken"
        self._give_up(key, offset, code, problem.text, buf[at:end])
        self._unfinished[key] = None

    def _complete(self, held: Unfinished, whole: Parts, offset: int) -> None:
        segment, header, body = whole
        if not held.message:
            if held.assembly.kind == SegmentType.COMMAND:
                code, _ = ops.read_command_start(segment, 0, len(segment))
                start = ops.COMMAND_START
            else:
                code, start = int.from_bytes(segment[:2], "big"), ops.CONTROL_START
            kind = OPERATIONS.get(code)
            if kind is None or len(segment) < start:
                raise ValueError(f"operation {code >> 8},{code & 0xFF} is unknown")
            ops.read_fields(kind, segment, start, len(segment))
            return
        try:
            ops.read_command_start(segment, 0, len(segment))
            destination, *_ = route(segment[ops.COMMAND_START :])
        except ODD as error:
            self.failed(held.offset, held.offset, "method-broken", text_of(error), segment)
            return
        try:
            known = arrived(header)
        except ODD as error:
            self.failed(held.offset, offset, "content-broken", text_of(error), header or b"")
            return
        exchange = destination if self.from_client else known.exchange
        message = received(known, body, exchange)
        self.found(
            held.offset, self.direction, message.dialect, exchange, message.key, message.header,
            message.body,
        )  # fmt: skip

    def _give_up(self, key: int, position: int, code: str, text: str, wire: bytes = b"") -> None:
        held = self._unfinished.pop(key, None)
        if held is None:
            return
        held.assembly.abandon()
        if not held.message:
            self.unreadable += 1
        self.failed(held.offset, position, code, text, wire)

    def abandon(self, position: int, text: str) -> None:
        for key in list(self._unfinished):
            self._give_up(key, position, "message-incomplete", text)
            self._unfinished[key] = None


def sides(version: str) -> tuple[Side, Side]:
    """The directions from the client and from the server."""
    return SegmentSide(True), SegmentSide(False)
