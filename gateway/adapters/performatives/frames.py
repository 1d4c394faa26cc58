"""The receive loop over frames (§2.3), and the writing of them.

A read holds many frames, whole or cut anywhere. ``feed`` goes over the octets by offset and makes
no object for a frame. An unfinished frame is kept as a list of pieces, and not looked at again
before it is complete.
"""

from struct import Struct
from typing import Any, Protocol

from gateway.adapters.core.frame_reader import ALL
from gateway.adapters.performatives.composite_fields import MissingField
from gateway.adapters.performatives.composites import read_performative
from gateway.adapters.performatives.decoding import FieldError
from gateway.adapters.performatives.transfer_template import (
    PATIENCE,
    TransferTemplate,
    transfer_template,
)
from gateway.adapters.performatives.violation import Violation, framing_error
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import (
    FRAME_AMQP,
    FRAME_SASL,
    AmqpError,
)
from gateway.errors import Lost, PeerError
from gateway.operations import Operation

HEAD = Struct(">IBBH")
"""Size, data offset in words, type, channel."""

EMPTY = HEAD.pack(8, 2, FRAME_AMQP, 0)
"""A frame without a body: a sign of life (§2.4.5)."""

SASL_LIMIT = 8192
"""Octets of a SASL frame. §5.3.1 allows 512, which is too few for the tokens that serve as
passwords; brokers of today read more, and so do we."""


class FrameHandler(Protocol):
    """Receiver of all frames that belong to no session. All methods raise ``PeerError``."""

    def on_sasl(self, record: Any, found: list[Operation]) -> None: ...

    def on_performative(self, channel: int, record: Any, found: list[Operation]) -> None:
        """Open, begin and close; and all performatives on a channel without a session."""
        ...

    def on_empty(self, channel: int) -> None: ...

    def on_violation(self, error: PeerError, channel: int, found: list[Operation]) -> None:
        """A session broke a rule that costs no more than the session."""
        ...


class Frames:
    """The framing of one connection."""

    def __init__(self, handler: FrameHandler, sessions: dict[int, Any], limit: int) -> None:
        """``sessions``: sessions by the peer's channel numbers. ``limit``: our max-frame-size."""
        self.sasl = False
        """Frames are those of the SASL layer."""
        self.changed = False
        """The layer is over: a protocol header follows."""
        self.limit = limit
        self._handler = handler
        self._sessions = sessions
        self._pieces: list[bytes] = []
        self._held = 0
        self._wanted = 0
        self._stopped = False
        self.most_at_once, self.unread = ALL, False
        self._like: TransferTemplate | None = None
        self._unlike = 0
        """Transfers in turn that were like none before."""

    @property
    def held(self) -> bool:
        """Is a frame unfinished?"""
        return self._held > 0

    def stop(self) -> None:
        """Nothing more is looked at."""
        self._stopped = True
        self._like = None
        self._pieces.clear()

    def forget_template(self) -> None:
        """Transfers like one before are read, too."""
        self._like = None

    def feed(self, data: bytes, found: list[Operation]) -> bytes:
        """Octets from the peer; gives back those that are no frames, after the layer changed, or
        that are ``unread``.
        Raises ``PeerError`` for mistakes that cost the connection.

        An unfinished frame is completed with the octets it lacks and no more, so that the rest of
        a large read is not copied for its sake."""
        at = 0
        while self._held:
            missing = self._wanted - self._held
            if len(data) - at < missing:
                self._pieces.append(data[at:])
                self._held += len(data) - at
                return b""
            self._pieces.append(data[at : at + missing])
            at += missing
            frame = b"".join(self._pieces)
            self._pieces.clear()
            self._held = 0
            left = self._walk(frame, 0, found)
            if self._stopped:
                return b""
            if left is not None:
                return left + data[at:]
        return self._walk(data, at, found) or b""

    def _walk(self, data: bytes, at: int, found: list[Operation]) -> bytes | None:
        """The frames from ``at`` on; an unfinished one is kept. Gives back what follows if the
        layer changed, or if it is ``unread``. Hot."""
        end = len(data)
        limit = SASL_LIMIT if self.sasl else self.limit
        sessions, handler = self._sessions, self._handler
        unpack = HEAD.unpack_from
        ahead = self.most_at_once
        while end - at >= 8:
            if not ahead:
                self.unread = True
                return data[at:]
            ahead -= 1
            like = self._like
            if like is not None:
                after = self._run(like, data, at, end, found)
                if after != at:
                    if self._stopped:
                        return None
                    at = after
                    continue
            size, offset, kind, channel = unpack(data, at)
            if size > limit or offset < 2 or offset << 2 > size or kind:
                self._check(size, offset, kind, limit)
            stop = at + size
            if stop > end:
                break
            start, body = at, at + (offset << 2)
            at = stop
            if kind:
                self._sasl_frame(data, body, stop, found)
                if self.changed:
                    self.changed = False
                    return data[at:]
                continue
            if body == stop:
                handler.on_empty(channel)
                continue
            if self.sasl:
                raise framing_error("an AMQP frame came before the end of the SASL dialog")
            try:
                record, payload = read_performative(data, body, stop)
            except FieldError as error:
                raise unreadable(error) from error
            session = sessions.get(channel)
            step = _STEPS.get(record.__class__) if session is not None else None
            try:
                if step is None:
                    handler.on_performative(channel, record, found)
                elif step is _TRANSFER:
                    session.on_transfer(record, data, payload, stop, found)  # type: ignore[union-attr]
                    self._unlike += 1
                    if like is None or self._unlike >= PATIENCE:
                        self._like = self._template(session, record, data[start:payload])
                else:
                    getattr(session, step)(record, found)
            except PeerError as error:
                self._violated(error, channel, found)
            if self._stopped:
                return None
        self._keep(data, at, end)
        return None

    def _violated(self, error: PeerError, channel: int, found: list[Operation]) -> None:
        if error.lost is Lost.CONNECTION:
            raise error
        self._handler.on_violation(error, channel, found)

    def _run(
        self, like: TransferTemplate, data: bytes, at: int, end: int, found: list[Operation]
    ) -> int:
        """Take the transfers from ``at`` on that are like one before. Where the others begin."""
        link = like.link
        most, largest = link.room(like.settled)
        run = like.run(data, at, end, most, min(largest + like.size, self.limit))
        if run is None:
            return at
        self._unlike = 0
        try:
            taken = link.on_run(run, like.settled, data, found)
        except PeerError as error:
            self._violated(error, HEAD.unpack_from(data, at)[3], found)
            taken = 1  # its session is over: the others are discarded there
        return run.spans[taken - 1][1] if taken else at

    def _template(self, session: Any, record: w.Transfer, head: bytes) -> TransferTemplate | None:
        """The template of a transfer that was accepted."""
        self._unlike = 0
        link = session.handles.get(record.handle)
        if link is None or not link.receiver:
            return None
        return transfer_template(link, record, head)

    def _keep(self, data: bytes, at: int, end: int) -> None:
        """Keep an incomplete frame until the rest arrives."""
        if at < end:
            self._held = end - at
            self._wanted = HEAD.unpack_from(data, at)[0] if self._held >= 8 else 8
            self._pieces.append(data[at:])

    def _check(self, size: int, offset: int, kind: int, limit: int) -> None:
        """Raises ``Violation`` for a frame header that is not valid here (§2.3.1)."""
        if size > limit:
            raise framing_error(f"a frame of {size} octets, where {limit} are allowed")
        if size < 8 or offset < 2 or offset << 2 > size:
            raise framing_error(f"a frame of {size} octets with its body at word {offset}")
        if kind != FRAME_SASL:
            raise framing_error(f"frames of type {kind} are not known")
        if not self.sasl:
            raise framing_error("a SASL frame outside of the SASL dialog")

    def _sasl_frame(self, data: bytes, body: int, stop: int, found: list[Operation]) -> None:
        """One frame of the SASL layer, which holds exactly one performative (§5.3.1)."""
        if body == stop:
            raise framing_error("an empty SASL frame")
        try:
            record, end = read_performative(data, body, stop, True)
        except FieldError as error:
            raise unreadable(error) from error
        if end != stop:
            raise Violation(AmqpError.DECODE_ERROR, "a SASL frame holds more than it may")
        self._handler.on_sasl(record, found)


def unreadable(error: FieldError) -> Violation:
    """The violation of a peer whose performative cannot be read."""
    missing = isinstance(error, MissingField)
    symbol = AmqpError.INVALID_FIELD if missing else AmqpError.DECODE_ERROR
    return Violation(symbol, str(error))


_TRANSFER = "on_transfer"
_STEPS: dict[type[Any], str] = {
    w.Transfer: _TRANSFER,
    w.Flow: "on_flow",
    w.Disposition: "on_disposition",
    w.Attach: "on_attach",
    w.Detach: "on_detach",
    w.End: "on_end",
}


def frame(channel: int, body: bytes, kind: int = FRAME_AMQP) -> bytes:
    """A frame without extended header."""
    return HEAD.pack(len(body) + 8, 2, kind, channel) + body
