"""An assembly of which frames are missing: a split control or command, or a command with content
that is still coming. Memory for them is limited over the whole connection; bodies that become large
go to the spool."""

from gateway.adapters.segments.violation import Violation, framing_error
from gateway.adapters.segments.wire import tables
from gateway.adapters.segments.wire.tables import SegmentType
from gateway.bodies import Body, Pieces, Spool, SpooledBody
from gateway.errors import Condition, Lost

FIRST_SEGMENT, LAST_SEGMENT = tables.FIRST_SEGMENT, tables.LAST_SEGMENT
FIRST_FRAME, LAST_FRAME = tables.FIRST_FRAME, tables.LAST_FRAME
"""Flags of a frame."""

BODY_FRAME = SegmentType.BODY

LONGEST_SEGMENT = 1 << 20
"""Octets of a control, command or header segment."""

MOST_HELD = 128 << 20
"""Octets of unfinished assemblies in memory over one connection, or one largest body."""

UNFINISHED = 1024
"""Octets that an unfinished assembly counts for beside its own: a peer may begin one on each track
of each channel."""

Parts = tuple[bytes, bytes | None, Body | None]
"""Command (or control), header, body. A segment that did not come is ``None``."""


class Room:
    """Limits of the unfinished assemblies of one connection. ``held``: octets in memory."""

    __slots__ = ("max_body", "spool", "held", "most")

    def __init__(self, max_body: int, spool: Spool | None) -> None:
        self.max_body = max_body
        self.spool = spool
        self.held = 0
        self.most = max(max_body, MOST_HELD)


class Assembly:
    """One assembly. ``kind``: the type of its first segment."""

    __slots__ = (
        "kind", "_segment", "_open", "_last", "_parts", "_body", "_body_size", "_spooled", "_held",
        "_room",
    )  # fmt: skip

    def __init__(self, kind: int, room: Room) -> None:
        self.kind = kind
        self._segment = -1
        """Type of the segment that is coming, or came last."""
        self._open = False
        self._last = False
        self._parts: dict[int, Pieces] = {}
        self._body: Pieces | None = None
        """Of a body that is in memory."""
        self._body_size = 0
        self._spooled: SpooledBody | None = None
        self._held = UNFINISHED
        self._room = room
        room.held += UNFINISHED

    def add(self, flags: int, kind: int, buf: bytes, at: int, end: int) -> Violation | None:
        """The payload of the next frame."""
        problem = self._place(flags, kind)
        if problem is not None:
            return problem
        self._open = not flags & LAST_FRAME
        octets = buf[at:end]
        if kind == SegmentType.BODY:
            return self._add_body(octets)
        part = self._parts[kind]
        part.add(octets)
        if part.size > LONGEST_SEGMENT:
            return self._refused(f"a segment of more than {LONGEST_SEGMENT} octets")
        return self._hold(len(octets))

    def _place(self, flags: int, kind: int) -> Violation | None:
        """Check that this frame may come now."""
        first, last = flags & FIRST_SEGMENT != 0, flags & LAST_SEGMENT != 0
        if not flags & FIRST_FRAME:
            if not self._open or kind != self._segment:
                return framing_error("a frame continues a segment that is not open")
            if first != (kind == self.kind) or last != self._last:
                return framing_error("the frames of a segment differ in its place")
            return None
        if self._open:
            return framing_error("a segment begins before the last frame of another")
        if first != (self._segment < 0):
            return framing_error("an assembly begins before the last segment of another")
        if not first and (kind <= self._segment or kind < SegmentType.HEADER or not self.kind):
            return framing_error(f"a segment of type {kind} behind one of type {self._segment}")
        self._segment = kind
        self._last = last
        if kind == SegmentType.BODY:
            self._body = Pieces()
        else:
            self._parts[kind] = Pieces()
        return None

    def _add_body(self, octets: bytes) -> Violation | None:
        room = self._room
        self._body_size += len(octets)
        if room.max_body and self._body_size > room.max_body:
            text = f"a message is larger than the configured maximum of {room.max_body} octets"
            return Violation(Condition.CONTENT_TOO_LARGE, text, Lost.SESSION)
        assert self._body is not None
        try:
            if self._spooled is not None:
                self._spooled.add(octets)
                return None
            self._body.add(octets)
            if room.spool is not None and self._body_size >= room.spool.threshold:
                return self._spool(room.spool, len(octets))
        except OSError as error:
            return self._no_room(error)
        return self._hold(len(octets))

    def _spool(self, spool: Spool, fresh: int) -> Violation | None:
        """The body has become large; ``fresh`` octets of it are not counted yet. Raises
        ``OSError``."""
        assert self._body is not None
        filling = spool.start(self._body_size)
        if filling is None:  # too many files are open
            return self._hold(fresh)
        self._spooled = filling
        filling.add(self._body.joined())
        self._body.clear()
        return self._hold(fresh - self._body_size)

    def _hold(self, octets: int) -> Violation | None:
        self._held += octets
        self._room.held += octets
        if self._room.held > self._room.most:
            return self._refused("too many octets of unfinished messages on this connection")
        return None

    def _refused(self, text: str) -> Violation:
        if self.kind == SegmentType.CONTROL:
            return framing_error(text)
        return Violation(Condition.RESOURCE_ERROR, text, Lost.SESSION)

    def _no_room(self, error: OSError) -> Violation:
        text = f"there is no room for a message of {self._body_size} octets: {error.strerror}"
        return Violation(Condition.CONTENT_TOO_LARGE, text, Lost.SESSION)

    def finish(self) -> Parts | Violation:
        """All frames are here."""
        self._release()
        body: Body | None = None
        if self._spooled is not None:
            try:
                body = self._spooled.finish()
            except OSError as error:
                return self._no_room(error)
        elif self._body is not None:
            body = self._body.joined()
        header = self._parts.get(SegmentType.HEADER)
        return self._parts[self.kind].joined(), None if header is None else header.joined(), body

    def abandon(self) -> None:
        """It is not wanted any more."""
        self._release()
        if self._spooled is not None:
            self._spooled.abandon()
            self._spooled = None
        self._parts.clear()
        self._body = None

    def _release(self) -> None:
        self._room.held -= self._held
        self._held = 0
