"""1.0 in recordings: the transfers of both directions, put together by link."""

import re
from collections.abc import Iterator
from typing import Any

from gateway.adapters.core.trace_lines import HEADER_OCTETS
from gateway.adapters.performatives.composites import read_performative
from gateway.adapters.performatives.content import SECTIONS
from gateway.adapters.performatives.frames import HEAD
from gateway.adapters.performatives.sections import part
from gateway.adapters.performatives.wire import layouts as w
from gateway.adapters.performatives.wire.tables import FRAME_AMQP, FRAME_SASL
from gateway.archive.side import MOST_BODY, MOST_UNFINISHED, ODD, Broken, Side, text_of

HEADS = re.compile(rb"\x00[\s\S]{3}[\x02-\x05][\x00\x01][\s\S]{2}\x00[\x53\x80\xa3]")
ROLE_SENDER = False
MOST_LINKS = 65_536
"""Links of one direction whose addresses are kept."""


class Delivery:
    """Transfers of one message of which more come. ``number``: its delivery-id."""

    def __init__(self, offset: int, number: int | None) -> None:
        self.offset = offset
        self.number = number
        self.lost = False
        """Its transfers are passed over."""
        self.pieces: list[bytes] = []
        self.size = 0


class PerformativeSide(Side):
    """One direction of a connection."""

    def __init__(self, from_client: bool) -> None:
        super().__init__(from_client)
        self._links: dict[tuple[int, int], str | None] = {}
        """Addresses by channel and handle; ``None``: a coordinator, which gets no messages."""
        self._deliveries: dict[tuple[int, int], Delivery] = {}
        self._open_octets = 0

    def size(self, buf: bytes, at: int) -> int | None:
        if buf[at] == 0x41 and b"AMQP".startswith(buf[at : at + 4]):
            return HEADER_OCTETS
        if len(buf) - at < HEAD.size:
            return None
        size, offset, kind, _ = HEAD.unpack_from(buf, at)
        if size < HEAD.size or offset < 2 or offset * 4 > size or kind > FRAME_SASL:
            raise Broken(f"no frame: {size} octets of type {kind} with the body at word {offset}")
        return int(size)

    def likely(self, buf: bytes, at: int, end: int) -> bool:
        if buf[at] == 0x41:
            return buf[at : at + 4] == b"AMQP"
        start = at + 4 * buf[at + 4]
        return start == end or (buf[start] == 0 and buf[start + 1 : start + 2] in b"\x53\x80\xa3")

    def candidates(self, buf: bytes, at: int) -> Iterator[int]:
        while (match := HEADS.search(buf, at)) is not None:
            yield match.start()
            at = match.start() + 1

    def take(self, buf: bytes, at: int, end: int) -> None:
        if buf[at] == 0x41:
            return
        _, words, kind, channel = HEAD.unpack_from(buf, at)
        start, offset = at + 4 * words, self.position(at)
        if start == end:
            return
        try:
            record, payload = read_performative(buf, start, end, kind == FRAME_SASL)
        except ODD as error:
            if kind != FRAME_AMQP or buf[start : start + 3] != b"\x00\x53\x14":
                raise
            # Of which message it was nobody knows: none of this channel is trusted.
            self._abandon(channel, offset, "a transfer on its channel cannot be read")
            self.messages += 1
            self.failed(offset, offset, "method-broken", text_of(error), buf[at:end])
            return
        if record.__class__ is w.Transfer:
            self._transfer(channel, record, offset, buf[payload:end])
        elif record.__class__ is w.Attach:
            self._attach(channel, record)
        elif record.__class__ is w.Detach:
            self._unfinished(channel, record.handle, offset, "its link ends")
            self._links.pop((channel, record.handle), None)
        elif record.__class__ in (w.End, w.Begin):
            self._abandon(channel, offset, "its session ends")

    def _attach(self, channel: int, record: Any) -> None:
        if record.role is not ROLE_SENDER or len(self._links) >= MOST_LINKS:
            return
        terminus = record.target if self.from_client else record.source
        if isinstance(terminus, w.Coordinator):
            self._links[channel, record.handle] = None
        else:
            address = getattr(terminus, "address", None)
            self._links[channel, record.handle] = address if isinstance(address, str) else ""

    def _transfer(self, channel: int, record: Any, offset: int, payload: bytes) -> None:
        key = channel, record.handle
        address = self._links.get(key, "")
        if address is None:
            return
        delivery = self._deliveries.get(key)
        if delivery is not None and record.delivery_id not in (None, delivery.number):
            self._unfinished(*key, offset, "the rest did not come")
            delivery = None
        if delivery is None:
            self.messages += 1
            delivery = self._deliveries[key] = Delivery(offset, record.delivery_id)
            if record.delivery_id is None:
                text = "its first transfer is not there"
                self._fail(delivery, offset, "message-beginning-missing", text)
        if record.aborted:
            self._drop(key)
            if not delivery.lost:
                self.messages -= 1
            return
        if not delivery.lost:
            delivery.size += len(payload)
            self._open_octets += len(payload)
            delivery.pieces.append(payload)
            if delivery.size > MOST_BODY or self._open_octets > MOST_UNFINISHED:
                text = "too many octets of unfinished messages"
                self._fail(delivery, offset, "message-too-large", text)
        if not record.more:
            self._drop(key)
            if not delivery.lost:
                self._complete(address, delivery, offset)

    def _complete(self, address: str, delivery: Delivery, offset: int) -> None:
        octets = b"".join(delivery.pieces)
        try:
            header, body = part(octets)
            SECTIONS.essentials(header)
        except ODD as error:
            self.failed(delivery.offset, offset, "content-broken", text_of(error), octets)
            return
        self.found(delivery.offset, self.direction, SECTIONS, "", address, header, body)

    def _drop(self, key: tuple[int, int]) -> None:
        delivery = self._deliveries.pop(key)
        self._open_octets -= delivery.size

    def _fail(self, delivery: Delivery, position: int, code: str, text: str) -> None:
        """The rest of its transfers is passed over."""
        self.failed(delivery.offset, position, code, text, b"".join(delivery.pieces[:1]))
        self._open_octets -= delivery.size
        delivery.lost = True
        delivery.size = 0
        delivery.pieces.clear()

    def _unfinished(self, channel: int, handle: int, position: int, text: str) -> None:
        """No more transfers of this message come."""
        delivery = self._deliveries.get((channel, handle))
        if delivery is not None:
            if not delivery.lost:
                self._fail(delivery, position, "message-incomplete", text)
            del self._deliveries[channel, handle]

    def _abandon(self, channel: int, position: int, text: str) -> None:
        for number, handle in list(self._deliveries):
            if number == channel:
                self._unfinished(number, handle, position, text)

    def abandon(self, position: int, text: str) -> None:
        for delivery in self._deliveries.values():
            if not delivery.lost:
                self._fail(delivery, position, "message-incomplete", text)


def sides(version: str) -> tuple[Side, Side]:
    """The directions from the client and from the server."""
    return PerformativeSide(True), PerformativeSide(False)
