"""Deliveries to one subscription that differ in the message id and the body alone: what their
frames have in common is made once."""

from gateway.adapters.core.output import JOINED
from gateway.adapters.segments.content import SEGMENTS
from gateway.adapters.segments.essentials import ID_OCTETS, place_of_id
from gateway.adapters.segments.frame_format import CLOSING_BODY, COMMAND_TRACK, HEAD, HEAD_OCTETS
from gateway.adapters.segments.frame_format import MIDDLE_HEADER as HEADER_FRAME
from gateway.bodies import Body
from gateway.message import Message


class Envelope:
    """``cost``: octets of the header segment."""

    __slots__ = (
        "cost", "_exchange", "_key", "_size", "_before", "_behind", "_place", "_after", "_opening",
        "_ending", "_channel", "_limit", "_body_size", "_closing",
    )  # fmt: skip

    def __init__(
        self, message: Message, header: bytes, opening: bytes, channel: int, limit: int
    ) -> None:
        """As this message was delivered: with this header segment behind the frame ``opening``, on
        this channel. ``limit``: the max-frame-size of the peer."""
        self.cost = size = len(header)
        self._exchange, self._key = message.exchange, message.key
        self._channel, self._limit = channel, limit
        own = message.header
        self._place, place = place_of_id(own), place_of_id(header)
        self._after, after = self._place + ID_OCTETS, place + ID_OCTETS
        self._size = len(own)
        if not self._place or own[self._place : self._after] != header[place:after]:
            self._place = self._after = len(own)
            place = after = size
        if message.dialect is not SEGMENTS or message.added_headers or size + HEAD_OCTETS > limit:
            self._size = -1  # no message fits
        self._before, self._behind = own[: self._place], own[self._after :]
        head = HEAD.pack(HEADER_FRAME, size + HEAD_OCTETS & 0xFFFF, COMMAND_TRACK, channel)
        self._opening = b"".join((opening, head, header[:place]))
        self._ending = header[after:]
        self._body_size = -1
        self._closing = b""

    def around(self, message: Message, body: Body) -> bytes:
        """The frames of a delivery that is not a redelivery: with its body if that is small, or
        before it. Nothing if it has to be written in another way. Hot."""
        header = message.header
        if (
            len(header) != self._size
            or not header.startswith(self._before)
            or not header.endswith(self._behind)
            or message.key != self._key
            or message.exchange != self._exchange
            or message.__class__ is not Message
            or message.dialect is not SEGMENTS
            or message.added_headers
            or body.__class__ is not bytes
        ):
            return b""
        size = len(body)
        if size != self._body_size:
            if size + HEAD_OCTETS > self._limit:
                return b""
            self._body_size = size
            closing = HEAD.pack(CLOSING_BODY, size + HEAD_OCTETS, COMMAND_TRACK, self._channel)
            self._closing = self._ending + closing
        id_ = header[self._place : self._after]
        if size > JOINED:
            return b"".join((self._opening, id_, self._closing))
        return b"".join((self._opening, id_, self._closing, body))
