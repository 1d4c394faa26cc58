"""A content from the peer, frame by frame: its header, the contents inside it, its body.

Child contents, which only the drafts have, come whole, each with a header of its own, between the
header and the body of their parent (0-9a0 §3.4.5, 0-9a6 "Content frames").
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, Protocol

from gateway.adapters.methods import states
from gateway.adapters.methods.contents.dialect import DEEPEST, MOST_CHILDREN, child
from gateway.adapters.methods.dispatch import DispatchEngine, fail_channel
from gateway.adapters.methods.essentials import BadExpiration
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.lifecycle import AnyChannel
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


class OuterContent(NamedTuple):
    """A content that waits for ``weight`` children, the innermost of which is being received, and
    then for ``missing`` octets."""

    number: int
    weight: int
    missing: int
    properties: bytes
    children: list[bytes]
    sink: BodySink


class IncomingContent:
    """The content of one method. In octets: ``size`` is announced so far, ``held`` of it will be in
    memory. Everything raises ``PeerError``."""

    __slots__ = (
        "method", "record", "known", "size", "held", "after", "outer", "sink", "_number", "_weight",
        "_missing", "_properties", "_children", "_count", "_limit", "_keep", "_check",
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
        self.sink: BodySink | None = None
        """Of the innermost content, whose other fields these are; ``None`` before its header."""
        self._number = self._weight = self._missing = 0
        self._properties = b""
        self._children: list[bytes] = []
        self.outer: tuple[OuterContent, ...] = ()
        """The contents around it, the outermost first."""
        self._count = 0
        self._limit = limit
        self._keep = keep
        self._check = check

    def on_header(self, layout: Struct, payload: bytes) -> tuple[bytes, Body] | None:
        """Header and body once all is there. ``layout``: class, weight and size of the body."""
        sink = self.sink
        if sink is not None and not self._weight:
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
        if sink is None:
            try:
                sink = self._keep(size)
            except OSError as error:
                raise self._not_kept(error) from error
        else:
            sink = self._child_sink(sink, size)
        self.held += sink.held + (len(properties) if self._check is None else 0)
        self.sink, self._number, self._properties = sink, number, properties
        self._weight, self._missing = weight, size
        return None if size or weight else self._close()

    def _child_sink(self, around: BodySink, size: int) -> BodySink:
        """The sink of a child, which becomes the innermost content."""
        self._count += 1
        if self._count >= MOST_CHILDREN or len(self.outer) >= DEEPEST:
            raise PeerError(Condition.RESOURCE_ERROR, "too many child contents")
        children, self._children = self._children, []
        self.outer += (
            OuterContent(
                self._number, self._weight, self._missing, self._properties, children, around
            ),
        )
        return IncomingBody(size, None)

    def on_body(self, octets: bytes) -> tuple[bytes, Body] | None:
        """As ``on_header``. An empty body frame means nothing."""
        if self.sink is None or self._weight:
            raise PeerError(Condition.UNEXPECTED_FRAME, "a content body where a header is due")
        size = len(octets)
        if size > self._missing:
            text = "the content body is longer than its header says"
            raise PeerError(Condition.FRAME_ERROR, text)
        if size:
            self._missing -= size
            try:
                self.sink.add(octets)
            except OSError as error:
                raise self._not_kept(error) from error
        return None if self._missing else self._close()

    def drop(self) -> None:
        """Discard it."""
        for sink in (self.sink, *(content.sink for content in self.outer)):
            if sink is not None:
                sink.abandon()
        self.sink, self.outer = None, ()

    def _not_kept(self, error: OSError) -> PeerError:
        """The disk is short: larger than we can take at the present time (0-9-1 §1.2, 311)."""
        return PeerError(
            Condition.CONTENT_TOO_LARGE,
            f"there is no room for a message of {self.size} octets: {error.strerror}",
            Lost.SESSION,
        )

    def _close(self) -> tuple[bytes, Body] | None:
        """A complete content becomes a child of the content around it."""
        while not self._weight and not self._missing:
            assert self.sink is not None
            try:
                body = self.sink.finish()
            except OSError as error:
                raise self._not_kept(error) from error
            properties, children = self._properties, self._children
            if not self.outer:
                return properties + b"".join(children), body
            inner = child(self._number, properties, children, body[:])
            around = self.outer[-1]
            self.outer = self.outer[:-1]
            self._number, weight, self._missing, self._properties, *_ = around
            self._weight = weight - 1
            self._children, self.sink = around.children, around.sink
            self._children.append(inner)
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
        self._layout = engine.table.geometry.content

    def on_header(self, number: int, buf: bytes, at: int, end: int, found: list[Operation]) -> None:
        """A content header on the channel ``number``."""
        engine = self._engine
        channel = engine.channels.get(number)
        content = None if channel is None else channel.content
        if content is None:
            self._unexpected(number, channel)
            return
        before = content.held
        try:
            try:
                whole = content.on_header(self._layout, buf[at:end])
            finally:
                engine.announced += content.held - before
            if engine.announced > UNDER_WAY * engine.max_message_octets:
                raise PeerError(
                    Condition.RESOURCE_ERROR,
                    "too many large messages are under way on this connection",
                )
            if whole is not None:
                self._close(channel, content, whole, found)
        except (PeerError, ValueError) as error:
            self.failed(number, content.method, error, found)

    def on_body(self, number: int, buf: bytes, at: int, end: int, found: list[Operation]) -> None:
        """Octets of a body on the channel ``number``."""
        channel = self._engine.channels.get(number)
        content = None if channel is None else channel.content
        if content is None:
            self._unexpected(number, channel)
            return
        try:
            whole = content.on_body(buf[at:end])
            if whole is not None:
                self._close(channel, content, whole, found)
        except (PeerError, ValueError) as error:
            self.failed(number, content.method, error, found)

    def _close(
        self,
        channel: Any,
        content: IncomingContent,
        whole: tuple[bytes, Body],
        found: list[Operation],
    ) -> None:
        """All of a content is here."""
        channel.content = None
        self._engine.announced -= content.held
        self._complete(channel, content, *whole, found)

    def _unexpected(self, number: int, channel: AnyChannel | None) -> None:
        """A frame of a content that no method announced. It is ignored where the channel or the
        connection is being closed."""
        if self._engine.life.state is states.CLOSING:
            return
        if channel is None:
            condition = Condition.CHANNEL_ERROR if number else Condition.UNEXPECTED_FRAME
            raise PeerError(condition, f"content on channel {number}, which is not open")
        if channel.state not in (states.CLOSING, states.FAILED):
            raise PeerError(Condition.UNEXPECTED_FRAME, "content that no method announced")

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
