"""A content from the peer, frame by frame: its header, the contents inside it, its body.

Child contents, which only the drafts have, come whole, each with a header of its own, between the
header and the body of their parent (0-9a0 §3.4.5, 0-9a6 "Content frames").
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from gateway.adapters.methods import states
from gateway.adapters.methods.dispatch import DispatchEngine, fail_channel
from gateway.adapters.methods.drafts.content import DEEPEST, MOST_CHILDREN, child
from gateway.adapters.methods.essentials import BadExpiration
from gateway.adapters.methods.geometry import Geometry, Method
from gateway.adapters.methods.tags import TooManyValues
from gateway.bodies import Body, IncomingBody
from gateway.errors import Condition, Lost, PeerError
from gateway.operations import Operation

UNDER_WAY = 4
"""How many of the largest messages one connection may have half sent, over all its channels."""


class BodySink(Protocol):
    """Where a body goes. ``add`` and ``finish`` raise ``OSError`` if it cannot be kept."""

    @property
    def held(self) -> int:
        """Octets of it that will be in memory."""
        ...

    def add(self, octets: bytes) -> None: ...

    def finish(self) -> Body: ...

    def abandon(self) -> None: ...


class Part:
    """One content of which something is missing: ``weight`` children, ``missing`` octets."""

    __slots__ = ("number", "weight", "missing", "properties", "children", "sink")

    def __init__(
        self, number: int, weight: int, missing: int, properties: bytes, sink: BodySink
    ) -> None:
        self.number = number
        self.weight = weight
        self.missing = missing
        self.properties = properties
        self.children: list[bytes] = []
        self.sink = sink


class IncomingContent:
    """The content of one method. In octets: ``size`` is announced so far, ``held`` of it will be in
    memory. ``parts`` are incomplete, the outermost first. Everything raises ``PeerError``."""

    __slots__ = (
        "method", "record", "known", "size", "held", "after", "parts", "_count",
        "_limit", "_keep", "_check",
    )  # fmt: skip

    def __init__(
        self,
        method: Method,
        record: Any,
        limit: int,
        keep: Callable[[int], BodySink],
        check: Callable[[bytes], Any] | None = None,
    ) -> None:
        """``keep`` makes the sink of its body, of a known size; children are part of the header,
        and stay in memory. ``check`` reads the properties of a content that has no children, which
        are ``known`` then; with ``None`` contents may nest, of any class."""
        self.method = method
        self.record = record
        self.known: Any = None
        self.size = self.held = 0
        self.after: Operation | None = None
        """To be performed behind the operation of this content."""
        self.parts: list[Part] = []
        self._count = 0
        self._limit = limit
        self._keep = keep
        self._check = check

    def on_header(self, geometry: Geometry, payload: bytes) -> tuple[bytes, Body] | None:
        """Header and body once all is there."""
        layout = geometry.content
        if self.parts and not self.parts[-1].weight:
            raise PeerError(Condition.UNEXPECTED_FRAME, "a content header where a body is due")
        if len(payload) < layout.size + 2:
            raise PeerError(Condition.SYNTAX_ERROR, "the content header is too short")
        number, weight, size = layout.unpack_from(payload, 0)
        properties = payload[layout.size :]
        if self._check is not None:
            weight = 0
            if number != self.method.number >> 16:
                text = f"a content header of class {number} for {self.method.name}"
                raise PeerError(Condition.FRAME_ERROR, text)
            self.known = self._check(properties)
        self.size += size
        if self.size > self._limit:
            raise PeerError(
                Condition.CONTENT_TOO_LARGE,
                f"message size {self.size} is larger than configured max size {self._limit}",
                Lost.SESSION,
            )
        self.size += len(properties)
        self._count += 1
        if self._count > MOST_CHILDREN or len(self.parts) > DEEPEST:
            raise PeerError(Condition.RESOURCE_ERROR, "too many child contents")
        if self.parts:
            sink: BodySink = IncomingBody(size, None)
        else:
            try:
                sink = self._keep(size)
            except OSError as error:
                raise self._not_kept(error) from error
        self.held += sink.held + (len(properties) if self._check is None else 0)
        self.parts.append(Part(number, weight, size, properties, sink))
        return None if size or weight else self._close()

    def on_body(self, geometry: Geometry, octets: bytes) -> tuple[bytes, Body] | None:
        """As ``on_header``. An empty body frame means nothing."""
        if not self.parts or self.parts[-1].weight:
            raise PeerError(Condition.UNEXPECTED_FRAME, "a content body where a header is due")
        part = self.parts[-1]
        if len(octets) > part.missing:
            text = "the content body is longer than its header says"
            raise PeerError(Condition.FRAME_ERROR, text)
        if octets:
            part.missing -= len(octets)
            try:
                part.sink.add(octets)
            except OSError as error:
                raise self._not_kept(error) from error
        return None if part.missing else self._close()

    def drop(self) -> None:
        """Discard it."""
        for part in self.parts:
            part.sink.abandon()
        self.parts.clear()

    def _not_kept(self, error: OSError) -> PeerError:
        """The disk is short: larger than we can take at the present time (0-9-1 §1.2, 311)."""
        return PeerError(
            Condition.CONTENT_TOO_LARGE,
            f"there is no room for a message of {self.size} octets: {error.strerror}",
            Lost.SESSION,
        )

    def _close(self) -> tuple[bytes, Body] | None:
        """Complete contents become children of the contents around them."""
        stack = self.parts
        while stack and not stack[-1].weight and not stack[-1].missing:
            part = stack.pop()
            try:
                body = part.sink.finish()
            except OSError as error:
                raise self._not_kept(error) from error
            if not stack:
                return part.properties + b"".join(part.children), body
            parent = stack[-1]
            parent.weight -= 1
            parent.children.append(child(part.number, part.properties, part.children, body[:]))
        return None


class ContentEngine(DispatchEngine, Protocol):
    """The engine, as far as its contents need it."""

    max_message_octets: int
    announced: int
    """Octets of the contents that are under way on all channels, and in memory."""


class ContentReceiver:
    """Takes the content frames of one connection. ``complete`` gets a content with its header and
    body."""

    def __init__(
        self,
        engine: ContentEngine,
        complete: Callable[[Any, IncomingContent, bytes, Body, list[Operation]], None],
    ) -> None:
        self._engine = engine
        self._complete = complete
        self.on_header = partial(self._take, IncomingContent.on_header)
        self.on_body = partial(self._take, IncomingContent.on_body)

    def _take(
        self,
        step: Callable[[IncomingContent, Geometry, bytes], tuple[bytes, Body] | None],
        number: int,
        buf: bytes,
        at: int,
        end: int,
        found: list[Operation],
    ) -> None:
        """One frame on the channel ``number``."""
        engine = self._engine
        if engine.life.state is states.CLOSING:
            return
        channel = engine.channels.get(number)
        if channel is None:
            condition = Condition.CHANNEL_ERROR if number else Condition.UNEXPECTED_FRAME
            raise PeerError(condition, f"content on channel {number}, which is not open")
        if channel.state in (states.CLOSING, states.FAILED):
            return
        content = channel.content
        if content is None:
            raise PeerError(Condition.UNEXPECTED_FRAME, "content that no method announced")
        before = content.held
        try:
            try:
                whole = step(content, engine.table.geometry, buf[at:end])
            finally:
                engine.announced += content.held - before
            if engine.announced > UNDER_WAY * engine.max_message_octets:
                raise PeerError(
                    Condition.RESOURCE_ERROR,
                    "too many large messages are under way on this connection",
                )
            if whole is not None:
                channel.content = None
                engine.announced -= content.held
                self._complete(channel, content, *whole, found)
        except (PeerError, ValueError) as error:
            self.failed(number, content.method, error, found)

    def failed(
        self, channel: int, method: Method, error: PeerError | ValueError, found: list[Operation]
    ) -> None:
        """Something is wrong with a content, or with the arguments of its method."""
        if isinstance(error, TooManyValues):
            error = PeerError(Condition.CONTENT_TOO_LARGE, str(error), Lost.SESSION)
        elif isinstance(error, BadExpiration):
            error = PeerError(Condition.PRECONDITION_FAILED, str(error), Lost.SESSION)
        elif not isinstance(error, PeerError):
            error = PeerError(Condition.SYNTAX_ERROR, str(error))
        error.method = error.method or method.number
        if error.lost is not Lost.SESSION:
            raise error
        fail_channel(self._engine, channel, error, found)
