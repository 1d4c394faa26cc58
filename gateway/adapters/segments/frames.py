"""The receive loop over frames of 12 octets of header, and the writing of them.

Frames make segments, and segments make assemblies: a control; or a command, then perhaps the header
and the body of its content. A read holds many frames. ``feed`` goes over the octets by offset; a
control, a command or a whole transfer that lies in them makes no object for a frame, and is taken
in one step. Frames that are interleaved, and segments of many frames, are gathered per channel and
track (``assembly``). An unfinished frame, or a transfer of which a part of the body is missing, is
kept as a list of pieces, and not looked at again before it is complete.

A mistake of the peer is a ``Violation``: one that costs the connection ends ``feed`` and is its
result; one that costs the session goes to the session.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

from gateway.adapters.core.frame_reader import ALL
from gateway.adapters.core.output import JOINED
from gateway.adapters.segments.assembly import (
    BODY_FRAME,
    FIRST_FRAME,
    FIRST_SEGMENT,
    LAST_FRAME,
    LAST_SEGMENT,
    Assembly,
    Room,
)
from gateway.adapters.segments.frame_format import (
    CLOSING_BODY,
    CLOSING_HEADER,
    COMMAND_TRACK,
    HEAD,
    HEAD_OCTETS,
    LARGEST_FRAME,
    MIDDLE_HEADER,
    MOST_TRACKS,
    OPENING_COMMAND,
    WHOLE_COMMAND,
    WHOLE_CONTROL,
)
from gateway.adapters.segments.transfer_template import TransferTemplate
from gateway.adapters.segments.violation import Violation, command_invalid, framing_error
from gateway.adapters.segments.wire.tables import MIN_MAX_FRAME_SIZE, SegmentType
from gateway.bodies import Body, LargeBody, Spool
from gateway.errors import Condition
from gateway.operations import Operation

TRANSFER = b"\x04\x01\x01"
"""message.transfer, then the size of ``session.header``."""


MOST_VAIN = 4
"""Transfers of one read that none like them followed, after which no more are expected."""


class CommandReceiver(Protocol):
    """A session as the receive loop needs it. Hot: ``on_transfer``, ``on_command``."""

    def on_transfer(
        self,
        sync: bool,
        arguments: bytes,
        header: bytes | None,
        body: Body | None,
        found: list[Operation],
    ) -> None:
        """A message.transfer; ``arguments`` are its presence flags and fields. A segment that did
        not come is ``None``."""
        ...

    def on_run(
        self, arguments: bytes, content: list[tuple[bytes, bytes]], found: list[Operation]
    ) -> None:
        """Transfers with the same ``arguments`` (the same object) as the one before, without sync,
        whose headers differ from its header in the message id at most. ``content``: the header and
        body of each. Hot."""
        ...

    def on_command(
        self,
        code: int,
        sync: bool,
        buf: bytes,
        at: int,
        end: int,
        header: bytes | None,
        body: Body | None,
        found: list[Operation],
    ) -> None:
        """Any other command, whose presence flags stand at ``at``."""
        ...

    def on_violation(self, violation: Violation, found: list[Operation]) -> None:
        """A command was not valid, or its content is not taken. Its remaining frames are
        ignored."""
        ...


class FrameHandler(Protocol):
    """Receiver of frames that belong to no session."""

    def on_control(
        self, channel: int, code: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """A control of either class, whose presence flags stand at ``at``."""
        ...

    def on_unattached(self, channel: int, found: list[Operation]) -> None:
        """A command began on a channel without a session; its frames are ignored."""
        ...


class Frames:
    """The framing of one connection, incoming."""

    def __init__(
        self,
        handler: FrameHandler,
        sessions: Mapping[int, CommandReceiver],
        *,
        max_body: int,
        spool: Spool | None = None,
        limit: int = MIN_MAX_FRAME_SIZE,
        channels: int = 0x10000,
    ) -> None:
        """``sessions``: attached sessions by channel. ``max_body``: octets of the largest body, 0
        is no limit. ``limit``: our max-frame-size; ``channels``: how many were negotiated. Both may
        change at any time."""
        self.limit = limit
        self.channels = channels
        self.most_at_once, self.unread = ALL, False
        self.waiting = False
        """Frames are kept and not looked at: a login is being decided. ``resume`` continues."""
        self._handler = handler
        self._sessions = sessions
        self._room = Room(max_body, spool)
        self._unfinished: dict[int, Assembly | None] = {}
        """By channel << 4 | track; ``None`` if the frames are ignored."""
        self._pieces: list[bytes] = []
        self._held = 0
        self._wanted = 0
        self._stopped = False

    @property
    def held(self) -> int:
        """Octets of unfinished frames and assemblies in memory."""
        return self._held + self._room.held

    def stop(self) -> None:
        """Nothing more is looked at."""
        self._stopped = True
        self._pieces.clear()
        self._held = 0
        for assembly in self._unfinished.values():
            if assembly is not None:
                assembly.abandon()
        self._unfinished.clear()

    def forget(self, channel: int) -> None:
        """The session of a channel is gone: ignore the rest of its unfinished assemblies."""
        for track in range(MOST_TRACKS):
            key = channel << 4 | track
            assembly = self._unfinished.get(key)
            if assembly is not None:
                assembly.abandon()
                self._unfinished[key] = None

    def feed(self, data: bytes, found: list[Operation]) -> Violation | None:
        """All complete frames among these octets. Hot.

        What is unfinished is completed with the octets it lacks and no more, so that the rest of a
        large read is not copied for its sake."""
        at = 0
        pieces = self._pieces
        while self._held and not self.waiting:
            missing = self._wanted - self._held
            if len(data) - at < missing:
                break
            after = at + missing if missing > 0 else len(data)
            pieces.append(data[at:after])
            at = after
            octets = b"".join(pieces)
            pieces.clear()
            self._held = 0
            violation = self._walk(octets, 0, found)
            if violation is not None:
                return violation
        if self._stopped:
            return None
        if not self._held and not self.waiting:
            return self._walk(data, at, found)
        pieces.append(data[at:])
        self._held += len(data) - at
        if self.waiting:
            self._wanted = 0  # what was wanted for the frame before
        return None

    def resume(self, found: list[Operation]) -> Violation | None:
        """Read the octets that came while ``waiting``."""
        self.waiting = self.unread = False
        return self.feed(b"", found)

    def _walk(self, data: bytes, at: int, found: list[Operation]) -> Violation | None:
        """The same for octets that begin with a frame; those of an unfinished one are held."""
        end = len(data)
        unpack, head, wanted = HEAD.unpack_from, HEAD_OCTETS, 0
        sessions, unfinished, handler = self._sessions, self._unfinished, self._handler
        max_body = self._room.max_body or LARGEST_FRAME
        limit = self.limit
        same = arguments = b""
        size = track = channel = vain = 0
        ahead = self.most_at_once
        while end - at >= head:
            if not ahead:
                self.waiting = self.unread = True
                wanted = head  # what is held counts anew when it is read
                break
            ahead -= 1
            alike = same and data.startswith(same, at)
            if alike:  # the command of a transfer like the last one
                kind = OPENING_COMMAND
                stop = at + size
            else:
                kind, size, track, channel = unpack(data, at)
                stop = at + size
                if size < head or size > limit or kind > 0x0F03 or track > 15:
                    return self._stop_at(size, kind, data[at], track, channel)
                if stop > end:
                    break
                same = b""
            if (
                kind == OPENING_COMMAND
                and end - stop > head
                and (not unfinished or channel << 4 | track not in unfinished)
            ):
                # A command with content: taken in one step if all of it is here.
                next_kind, header_size, next_track, next_channel = unpack(data, stop)
                middle = stop + header_size
                body: bytes | None = None
                last = 0
                if next_track == track and next_channel == channel and head <= header_size <= limit:
                    if next_kind == MIDDLE_HEADER and end - middle >= head:
                        next_kind, body_size, next_track, next_channel = unpack(data, middle)
                        last = middle + body_size
                        if (
                            next_kind == CLOSING_BODY
                            and next_track == track
                            and next_channel == channel
                            and head <= body_size <= limit
                            and body_size - head <= max_body
                        ):
                            if last <= end:
                                body = data[middle + head : last]
                            elif channel in sessions:
                                wanted = last - at
                                break
                            else:
                                last = 0
                        else:
                            last = 0
                    elif next_kind == CLOSING_HEADER and middle <= end:
                        last = middle
                session = sessions.get(channel)
                if last and session is not None and size >= head + 4 and data[at + 15] < 2:
                    if not same and data[at + head : at + 15] == TRANSFER:
                        same, arguments = data[at:stop], data[at + 16 : stop]
                    if same:
                        sync = data[at + 15] == 1
                        header = data[stop + head : middle]
                        session.on_transfer(sync, arguments, header, body, found)
                        if alike and body is not None and not sync and vain < MOST_VAIN:
                            like = TransferTemplate(data, at, stop, middle, header)
                            content, after = like.run(data, last, limit, max_body)
                            if content:
                                session.on_run(arguments, content, found)
                                last = after
                                vain = 0
                            else:
                                vain += 1
                        at = last
                        if self._stopped:
                            return None
                        continue
                    if data[at + 14] == 1:
                        session.on_command(
                            data[at + head] << 8 | data[at + 13],
                            data[at + 15] == 1,
                            data,
                            at + 16,
                            stop,
                            data[stop + head : middle],
                            body,
                            found,
                        )
                        at = last
                        if self._stopped:
                            return None
                        continue
            if (
                kind == WHOLE_CONTROL
                and size >= head + 2
                and (not unfinished or channel << 4 | track not in unfinished)
            ):
                code = data[at + head] << 8 | data[at + 13]
                handler.on_control(channel, code, data, at + 14, stop, found)
                limit = self.limit
                if self.waiting:
                    at = stop
                    break
            else:
                violation = self._frame(kind, track, channel, data, at + head, stop, found)
                if violation is not None:
                    self.stop()
                    return violation
            at = stop
            if self._stopped:
                return None
        if at < end:
            self._held = end - at
            if not wanted:
                wanted = unpack(data, at)[1] if self._held >= head else head
            self._wanted = wanted
            self._pieces.append(data[at:])
        return None

    def _stop_at(self, size: int, kind: int, flags: int, track: int, channel: int) -> Violation:
        """Why a frame header is not valid."""
        self.stop()
        if kind > 0x0FFF or track > 15:
            return framing_error(f"frame with reserved bits set ({flags:#04x}, track {track})")
        if kind & 0xFF > SegmentType.BODY:
            return framing_error(f"segment type {kind & 0xFF} is unknown", channel)
        if size < HEAD_OCTETS:
            return framing_error(f"a frame of {size} octets is shorter than its header", channel)
        return framing_error(f"a frame of {size} octets, where {self.limit} are allowed", channel)

    def _frame(
        self,
        kind: int,
        track: int,
        channel: int,
        buf: bytes,
        at: int,
        end: int,
        found: list[Operation],
    ) -> Violation | None:
        """One frame of anything but the usual."""
        flags, kind = kind >> 8, kind & 0xFF
        if kind > SegmentType.BODY:
            return framing_error(f"segment type {kind} is unknown", channel)
        key = channel << 4 | track
        if key in self._unfinished:
            assembly = self._unfinished[key]
            if assembly is None:  # ignored until its end
                if flags & FIRST_SEGMENT and flags & FIRST_FRAME:
                    del self._unfinished[key]
                    return self._frame(flags << 8 | kind, track, channel, buf, at, end, found)
                if flags & (LAST_SEGMENT | LAST_FRAME) == LAST_SEGMENT | LAST_FRAME:
                    del self._unfinished[key]
                return None
        else:
            if flags & (FIRST_SEGMENT | FIRST_FRAME) != FIRST_SEGMENT | FIRST_FRAME:
                return framing_error("a frame continues what has not begun", channel)
            if kind > SegmentType.COMMAND:
                return framing_error("an assembly begins with a control or a command", channel)
            if channel >= self.channels:
                return framing_error(f"channel {channel} of {self.channels}", channel)
            whole = flags & (LAST_SEGMENT | LAST_FRAME) == LAST_SEGMENT | LAST_FRAME
            if kind == SegmentType.COMMAND and channel not in self._sessions:
                if not whole:
                    self._unfinished[key] = None
                self._handler.on_unattached(channel, found)
                return None
            if whole:
                return self._complete(kind, channel, buf, at, end, None, None, found)
            assembly = self._unfinished[key] = Assembly(kind, self._room)
        problem = assembly.add(flags, kind, buf, at, end)
        if problem is not None:
            return self._refuse(problem, assembly, key, channel, flags, found)
        if flags & (LAST_SEGMENT | LAST_FRAME) != LAST_SEGMENT | LAST_FRAME:
            return None
        del self._unfinished[key]
        outcome = assembly.finish()
        if isinstance(outcome, Violation):
            return self._refuse(outcome, assembly, key, channel, flags, found)
        command, header, body = outcome
        return self._complete(assembly.kind, channel, command, 0, len(command), header, body, found)

    def _refuse(
        self,
        problem: Violation,
        assembly: Assembly,
        key: int,
        channel: int,
        flags: int,
        found: list[Operation],
    ) -> Violation | None:
        """An assembly is not taken: end the connection, or tell the session."""
        assembly.abandon()
        self._unfinished.pop(key, None)
        session = self._sessions.get(channel)
        if problem.condition is Condition.FRAME_ERROR or session is None:
            return problem._replace(channel=channel)
        if flags & (LAST_SEGMENT | LAST_FRAME) != LAST_SEGMENT | LAST_FRAME:
            self._unfinished[key] = None
        session.on_violation(problem._replace(channel=channel), found)
        return None

    def _complete(
        self,
        kind: int,
        channel: int,
        buf: bytes,
        at: int,
        end: int,
        header: bytes | None,
        body: Body | None,
        found: list[Operation],
    ) -> Violation | None:
        """A whole assembly."""
        if kind == SegmentType.CONTROL:
            if end - at < 2:
                return framing_error("a control segment without class and code", channel)
            code = buf[at] << 8 | buf[at + 1]
            self._handler.on_control(channel, code, buf, at + 2, end, found)
            return None
        session = self._sessions.get(channel)
        if session is None:  # detached meanwhile
            return None
        if end - at < 4 or buf[at + 2] != 1 or buf[at + 3] > 1:
            text = "a command segment begins with class, code and session.header"
            session.on_violation(command_invalid(text, channel), found)
            return None
        sync = buf[at + 3] == 1
        if buf[at] == 4 and buf[at + 1] == 1:
            session.on_transfer(sync, buf[at + 4 : end], header, body, found)
        else:
            code = buf[at] << 8 | buf[at + 1]
            session.on_command(code, sync, buf, at + 4, end, header, body, found)
        return None


# --- writing --------------------------------------------------------------------------------------


def control(channel: int, segment: bytes, limit: int = LARGEST_FRAME) -> bytes:
    """The frames of a control."""
    size = len(segment) + HEAD_OCTETS
    if size <= limit:
        return HEAD.pack(WHOLE_CONTROL, size, 0, channel) + segment
    return b"".join(frames_of(SegmentType.CONTROL, 0x0C, segment, channel, 0, limit))


def command(
    channel: int,
    segment: bytes,
    header: bytes | None = None,
    body: bytes | None = None,
    limit: int = LARGEST_FRAME,
) -> bytes:
    """The frames of a command and its content. ``limit``: the max-frame-size of the peer."""
    size = len(segment) + HEAD_OCTETS
    if size <= limit:
        if header is not None and body is not None:
            return b"".join(transfer(channel, opening(channel, segment), header, body, limit))
        if header is None and body is None:
            return HEAD.pack(WHOLE_COMMAND, size, COMMAND_TRACK, channel) + segment
    pieces = list(opening_frames(channel, segment, header, body is None, limit))
    if body is not None:
        pieces += frames_of(SegmentType.BODY, LAST_SEGMENT, body, channel, COMMAND_TRACK, limit)
    return b"".join(pieces)


def opening(channel: int, segment: bytes) -> bytes:
    """The frame of a command with content, if one is enough."""
    return HEAD.pack(OPENING_COMMAND, len(segment) + HEAD_OCTETS, COMMAND_TRACK, channel) + segment


def transfer(
    channel: int, opening: bytes, header: bytes, body: bytes, limit: int
) -> tuple[bytes, ...]:
    """The frames of a header and a body behind the frame of their command. A body that is not small
    is a piece of its own and not copied. Hot."""
    header_size, body_size = len(header) + HEAD_OCTETS, len(body) + HEAD_OCTETS
    if header_size <= limit and body_size <= limit:
        middle = HEAD.pack(MIDDLE_HEADER, header_size, COMMAND_TRACK, channel)
        closing = HEAD.pack(CLOSING_BODY, body_size, COMMAND_TRACK, channel)
        if body_size <= JOINED:
            return (b"".join((opening, middle, header, closing, body)),)
        return b"".join((opening, middle, header, closing)), body
    return (
        opening,
        *frames_of(SegmentType.HEADER, 0, header, channel, COMMAND_TRACK, limit),
        *frames_of(SegmentType.BODY, LAST_SEGMENT, body, channel, COMMAND_TRACK, limit),
    )


def opening_frames(
    channel: int, segment: bytes, header: bytes | None, last: bool, limit: int
) -> Iterator[bytes]:
    """The frames of a command and its header. ``last``: no body follows."""
    end = LAST_SEGMENT if last else 0
    place = FIRST_SEGMENT | (end if header is None else 0)
    yield from frames_of(SegmentType.COMMAND, place, segment, channel, COMMAND_TRACK, limit)
    if header is not None:
        yield from frames_of(SegmentType.HEADER, end, header, channel, COMMAND_TRACK, limit)


def frames_of(
    kind: int, place: int, octets: bytes, channel: int, track: int, limit: int
) -> Iterator[bytes]:
    """The frames of one segment; one without octets is an empty frame. ``place``: its flags in the
    assembly."""
    most = limit - HEAD_OCTETS
    size = len(octets)
    for at in range(0, max(size, 1), most):
        part = octets[at : at + most]
        flags = place | (FIRST_FRAME if at == 0 else 0) | (LAST_FRAME if at + most >= size else 0)
        yield HEAD.pack(flags << 8 | kind, len(part) + HEAD_OCTETS, track, channel) + part


class LargeBodyFrames:
    """The frames of a body that is too large for memory, made as the socket takes them: a
    ``BodyWriter`` of ``core.large_bodies``."""

    __slots__ = ("body", "at", "spent", "_channel", "_most")

    def __init__(self, channel: int, body: LargeBody, limit: int) -> None:
        self.body = body
        self.at = self.spent = 0
        self._channel = channel
        self._most = limit - HEAD_OCTETS

    @property
    def over(self) -> bool:
        return self.at >= len(self.body)

    def frame(self) -> bytes:
        """The next frame. Raises ``OSError``."""
        octets = self.body[self.at : self.at + self._most]
        flags = LAST_SEGMENT | (FIRST_FRAME if self.at == 0 else 0)
        self.at += len(octets)
        self.spent = len(octets)
        if self.over:
            flags |= LAST_FRAME
        size = len(octets) + HEAD_OCTETS
        return HEAD.pack(flags << 8 | BODY_FRAME, size, COMMAND_TRACK, self._channel) + octets
