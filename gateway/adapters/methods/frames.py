"""The receive loop and the write side of the class-and-method framing, bound to one geometry.

Theory: a read holds many frames, and most are publish + content header + body. ``_walk`` goes over
the octets by offset, makes no object for a frame, and takes such a triple in one step when all of
it is there. Everything else goes frame by frame to the ``Link``. An unfinished frame is kept as a
list of pieces and not looked at again before it is complete.
"""

import struct
from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Any, Protocol

from gateway.adapters.core.allowance import MOST_VALUES
from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.adapters.core.frame_reader import ALL
from gateway.adapters.core.templates import Templates, template
from gateway.adapters.methods.content import BASIC
from gateway.adapters.methods.essentials import arrived, step_over, value_places
from gateway.adapters.methods.geometry import Version
from gateway.adapters.methods.publish_template import PATIENCE, PublishTemplate, Route
from gateway.errors import Condition, LocalError, PeerError
from gateway.message import LEAST_ON_WIRE, Essentials, Message
from gateway.operations import Deliver, Operation, Outcome, Publish, PublishMany

_ROUTES: dict[bool, BoundedCache[bytes, Route]] = {False: BoundedCache(), True: BoundedCache()}
_ADDRESSES: BoundedCache[bytes, tuple[str, str]] = BoundedCache()
_HEADERS: BoundedCache[bytes, tuple[bytes, Essentials]] = BoundedCache()
_ESSENTIALS_OF: Templates[Essentials] = Templates()
_ALIKE: BoundedCache[tuple[bytes, int, int], PublishTemplate] = BoundedCache(512)
"""Connections share them (one thread). ``_ALIKE`` by the octets before the size of the body, the
size of the header, and octets that are counted beside the body's."""


compiled = cache(Struct)
"""Connections share these, too: there are as many as versions."""


class Link(Protocol):
    """Receiver of all frames that the loop does not handle itself. All raise ``PeerError``."""

    def on_method(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None: ...

    def on_header(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None: ...

    def on_body(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None: ...


class Frames:
    """The framing of one connection, both ways."""

    __slots__ = (
        "_accepted", "_ack", "_acknowledged", "_behind", "_channels", "_content_head",
        "_content_octets", "_counts", "_end_octet", "_gathered", "_geometry", "_hot", "_link",
        "_max_body", "_may_be_immediate", "_method_head", "_needed", "_pieces", "_server",
        "_unpack_head", "addresses", "basic", "body", "end", "header", "headers", "heartbeat",
        "limit", "method", "most_at_once", "overhead", "pack_head", "routes", "unread", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        version: Version,
        server: bool,
        acknowledged: Callable[[int, int, bool, Any], Operation],
        accepted: Outcome | bool,
        channels: dict[int, Any],
        link: Link,
        max_body: int,
    ) -> None:
        """``server``: publishes are expected, else deliveries. An acknowledgement becomes
        ``acknowledged(channel, tag, multiple, accepted)``."""
        geometry, numbers = version.geometry, version.constants
        if geometry.order != (0, 1, 2) or len(geometry.tail) != 1 or geometry.meta:
            raise LocalError(f"{version.name}: no loop for this geometry")
        self._channels = channels
        self._link = link
        self._acknowledged, self._accepted = acknowledged, accepted
        self._server = server
        self._hot = version.by_name["basic.publish" if server else "basic.deliver"].number
        self._ack = version.by_name["basic.ack"].number
        self._may_be_immediate = version.name != "0-9-1"
        self._max_body = max_body
        self._geometry = geometry
        self.method = numbers["frame-method"]
        self.header = numbers["frame-header"]
        self.body = numbers["frame-body"]
        self.heartbeat = numbers["frame-heartbeat"]
        self.overhead = geometry.head.size + len(geometry.tail)
        self.basic = version.by_name["basic.publish"].number >> 16
        head = geometry.head.format
        self.pack_head = geometry.head.pack
        self.end = geometry.tail
        self._end_octet = geometry.tail[0]
        self._counts = len(geometry.tail) if geometry.size_counts_tail else 0
        self._unpack_head = geometry.head.unpack_from
        self._method_head = compiled(head + "I")
        self._content_head = compiled(head + geometry.content.format.lstrip(">"))
        self._content_octets = geometry.content.size
        self.routes = _ROUTES[self._may_be_immediate]
        self.addresses = _ADDRESSES
        self.headers = _HEADERS
        self.limit = 0
        self.most_at_once, self.unread = ALL, False
        self.waiting = False
        """Nothing is looked at until ``resume``."""
        self._behind = b""
        """Octets received meanwhile."""
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._needed = 0

    def feed(self, data: bytes, found: list[Operation]) -> None:
        """All complete frames of the octets. Raises ``PeerError``; ``found`` keeps the operations
        before.

        An unfinished frame is completed with the octets it lacks and no more, so that the rest of
        a large read is not copied for its sake."""
        waiting = self.waiting
        if waiting:
            self._behind += data
            return
        at = 0
        pieces = self._pieces
        while pieces:
            missing = self._needed - self._gathered
            if len(data) - at < missing:
                pieces.append(data[at:])
                self._gathered += len(data) - at
                return
            pieces.append(data[at : at + missing])
            at += missing
            frame = b"".join(pieces)
            pieces.clear()
            if self._walk(frame, 0, found) < len(frame):
                # Only its length is known by now.
                pieces.append(frame)
                self._gathered = len(frame)
            elif self.waiting:
                self._behind = data[at:]
                return
        at = self._walk(data, at, found)
        if self.waiting:
            self._behind = data[at:]
        elif at < len(data):
            pieces.append(data[at:])
            self._gathered = len(data) - at

    def resume(self, found: list[Operation]) -> None:
        """Read the octets that came while ``waiting``."""
        self.waiting = self.unread = False
        data, self._behind = self._behind, b""
        if data:
            self.feed(data, found)

    def stop(self) -> None:
        """Discard octets that have not been read."""
        self._behind = b""
        self._pieces.clear()
        self._gathered = 0

    @property
    def held(self) -> int:
        """Octets of the unfinished frame."""
        return self._gathered if self._pieces else 0

    def _walk(self, buf: bytes, at: int, found: list[Operation]) -> int:
        """Where the first unfinished frame begins. Hot: names are bound once, a triple is three
        ``unpack_from`` and four slices, and two look-ups save the decoding."""
        size = len(buf)
        unpack_head, unpack_method = self._unpack_head, self._method_head.unpack_from
        unpack_content, fixed = self._content_head.unpack_from, self._content_octets
        channels, routes, headers = self._channels, self.routes.get, self.headers.get
        addresses, consumer_octets, consumer = self.addresses.get, b"", ""
        head, method_head = self._geometry.head.size, self._method_head.size
        counts, content_head = self._counts, self._content_head.size
        reach = head - counts  # from the first octet of a frame, past its size, to the end octet
        kind_method, kind_header, kind_body = self.method, self.header, self.body
        hot, ack, basic, end_octet = self._hot, self._ack, self.basic, self._end_octet
        add, server, limit, max_body = found.append, self._server, self.limit, self._max_body
        arguments, properties, octets_at = method_head + 2, 1 + head + fixed, 1 + head
        following = 1 + reach  # from an end octet to the next one, without the size
        usable, current = False, -1
        last_route: Route | None = None
        last_size = 0  # of the header of the last publish
        ahead = self.most_at_once
        while True:
            if not ahead:
                self.waiting = self.unread = True
                return at
            ahead -= 1
            left = size - at
            if left > method_head:
                kind, channel, length, number = unpack_method(buf, at)
            elif left > head:
                kind, channel, length = unpack_head(buf, at)
                number = -1
            else:
                self._needed = head + 1
                return at
            end = at + reach + length
            if length > limit:
                raise PeerError(
                    Condition.FRAME_ERROR, f"a frame of {length} octets, {limit} are negotiated"
                )
            if end >= size:
                self._needed = end + 1 - at
                return at
            if buf[end] != end_octet:
                raise PeerError(Condition.FRAME_ERROR, "the frame end octet is missing")
            if number == hot and kind == kind_method:
                if channel != current:
                    open_channel, current = channels.get(channel), channel
                    usable = open_channel is not None and open_channel.ready
                if usable and size - end > content_head:
                    kind, next_channel, length, group, _, octets = unpack_content(buf, end + 1)
                    last = end + following + length
                    stop = 0  # the last octet of the content, once all of it is there
                    if (
                        last < size
                        and kind == kind_header
                        and next_channel == channel
                        and group == basic
                        and buf[last] == end_octet
                        and length <= limit
                    ):
                        if not octets:
                            body, stop = b"", last
                        elif size - last > head and octets <= max_body:
                            kind, next_channel, length = unpack_head(buf, last + 1)
                            stop = last + following + length
                            if (
                                stop < size
                                and kind == kind_body
                                and next_channel == channel
                                and length == octets + counts
                                and buf[stop] == end_octet
                                and length <= limit
                            ):
                                body = buf[last + octets_at : stop]
                            elif (
                                stop >= size
                                and kind == kind_body
                                and next_channel == channel
                                and length == octets + counts
                                and length <= limit
                            ):
                                # Taken in one step once the rest of the body has come.
                                self._needed = stop + 1 - at
                                return at
                            else:
                                stop = 0
                    if stop:
                        raw = buf[end + properties : last]
                        known = headers(raw) or self.known(raw)
                        if known is not None:
                            header, essentials = known
                            if server:
                                raw = buf[at + arguments : end]
                                route = routes(raw) or self.route(raw)
                                if route is not None:
                                    exchange, key, mandatory, immediate = route
                                    message = Message(
                                        BASIC, header, body, exchange, key, essentials
                                    )
                                    add(Publish(channel, message, mandatory, immediate))
                                    begun, at = at, stop + 1
                                    if route is not last_route or len(header) != last_size:
                                        last_route, last_size = route, len(header)
                                    elif octets and not immediate:
                                        octets_before = buf[begun : stop - octets]
                                        at = self._followers(
                                            buf, at, octets_before, known, route, channel, found
                                        )
                                    continue
                            else:
                                first = at + method_head + 1
                                middle = first + buf[first - 1]  # behind the consumer's tag
                                raw = buf[middle + 9 : end]
                                address = addresses(raw) or self.address(raw)
                                if address is not None and middle + 11 <= end:
                                    tag, bits = _QB.unpack_from(buf, middle)
                                    exchange, key = address
                                    raw = buf[first:middle]
                                    if raw != consumer_octets:
                                        consumer_octets = raw
                                        consumer = raw.decode("utf-8", "surrogateescape")
                                    message = Message(
                                        BASIC, header, body, exchange, key, essentials
                                    )
                                    add(Deliver(channel, consumer, tag, bits & 1 == 1, message))
                                    at = stop + 1
                                    continue
                kind = kind_method
            elif number == ack and kind == kind_method and length == 13 + counts:
                if channel != current:
                    open_channel, current = channels.get(channel), channel
                    usable = open_channel is not None and open_channel.ready
                if usable:
                    tag, bits = _QB.unpack_from(buf, at + method_head)
                    add(self._acknowledged(channel, tag, bits & 1 == 1, self._accepted))
                    at = end + 1
                    continue
            self._frame(kind, channel, buf, at + head, end, found)
            limit, current = self.limit, -1  # it may have changed everything
            at = end + 1
            if self.waiting:
                return at

    def _followers(
        self,
        buf: bytes,
        at: int,
        head: bytes,
        known: tuple[bytes, Essentials],
        route: Route,
        channel: int,
        found: list[Operation],
    ) -> int:
        """Take the publishes from ``at`` on that are like the one before, of which ``head`` is all
        but the body. Where the next frame begins."""
        header, essentials = known
        size = len(header)
        kind = head[: -size - 16], size, self._counts
        template = _ALIKE.get(kind)
        if template is None or template.misses > PATIENCE:
            like = _ESSENTIALS_OF.get(size)
            template = PublishTemplate(head, header, self._counts, route, essentials, like)
            _ALIKE.keep(kind, template)
        messages: list[Message] = []
        begin = at
        at = template.run(buf, at, min(self._max_body, self.limit - self._counts), messages)
        if messages:
            template.misses = 0
            count = len(messages)
            wire = template.wire(buf, begin, at, count) if count >= LEAST_ON_WIRE else None
            found.append(PublishMany(channel, messages, route[2], wire))
        else:
            template.misses += 1
        return at

    def _frame(
        self, kind: int, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """One complete frame that is not part of the usual traffic."""
        if kind == self.method:
            self._link.on_method(channel, buf, at, end, found)
        elif kind == self.header:
            self._link.on_header(channel, buf, at, end, found)
        elif kind == self.body:
            self._link.on_body(channel, buf, at, end, found)
        elif kind == self.heartbeat:
            if channel:
                raise PeerError(Condition.FRAME_ERROR, "a heartbeat on a channel")
        else:
            raise PeerError(Condition.FRAME_ERROR, f"frame type {kind} is unknown")

    def route(self, raw: bytes) -> Route | None:
        """Exchange, key and flags of a publish, from its encoded arguments after the ticket;
        ``None`` if they are not good (the slow path finds the reason)."""
        try:
            middle = 1 + raw[0]
            stop = middle + 1 + raw[middle]
            if stop + 1 != len(raw):
                return None
            bits = raw[stop]
        except IndexError:
            return None
        if bits & 2 and not self._may_be_immediate:
            return None
        route = (
            raw[1:middle].decode("utf-8", "surrogateescape"),
            raw[middle + 1 : stop].decode("utf-8", "surrogateescape"),
            bits & 1 != 0,
            bits & 2 != 0,
        )
        return self.routes.keep(raw, route)

    def address(self, raw: bytes) -> tuple[str, str] | None:
        """Exchange and key at the end of a delivery; ``None`` if they are not good."""
        try:
            middle = 1 + raw[0]
            if middle + 1 + raw[middle] != len(raw):
                return None
        except IndexError:
            return None
        address = (
            raw[1:middle].decode("utf-8", "surrogateescape"),
            raw[middle + 1 :].decode("utf-8", "surrogateescape"),
        )
        return self.addresses.keep(raw, address)

    def known(self, raw: bytes) -> tuple[bytes, Essentials] | None:
        """One shared copy of these properties, and their essentials; ``None`` if it is not good."""
        essentials = _ESSENTIALS_OF.find(raw)
        if essentials is not None:
            return raw, essentials
        try:
            bounded = self._server and len(raw) > MOST_VALUES
            essentials = arrived(raw) if bounded else step_over(raw)
        except (ValueError, struct.error, IndexError):
            return None
        _ESSENTIALS_OF.keep(raw, lambda: template(raw, value_places(raw), essentials))
        return self.headers.keep(raw, (raw, essentials))

    # --- writing ---------------------------------------------------------------------------------

    def frame(self, kind: int, channel: int, payload: bytes) -> bytes:
        """One frame."""
        return self.pack_head(kind, channel, len(payload) + self._counts) + payload + self.end

    def content_header(self, channel: int, group: int, header: bytes, size: int) -> bytes:
        """The frame before a body of so many octets, in a class."""
        head = self._geometry.content.pack(group, 0, size) + header
        return self.frame(self.header, channel, head)

    def content(
        self, channel: int, group: int, header: bytes, body: bytes, largest: int
    ) -> list[bytes]:
        """Content header and body frames; ``largest`` is the room for a body in one frame."""
        pieces = [self.content_header(channel, group, header, len(body))]
        size = len(body)
        if 0 < size <= largest:
            pieces += (self.pack_head(self.body, channel, size + self._counts), body, self.end)
        elif size:
            view = memoryview(body)
            pieces += [
                self.frame(self.body, channel, bytes(view[at : at + largest]))
                for at in range(0, size, largest)
            ]
        return pieces


_QB = Struct(">QB")
