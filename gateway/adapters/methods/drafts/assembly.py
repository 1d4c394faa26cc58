"""A content as it comes in: its header, the contents inside it, its body.

Children come whole, each with a header of its own, between the header and the body of their parent
(0-9a0 §3.4.5, 0-9a6 "Content frames").
"""

from collections.abc import Callable
from typing import Protocol

from gateway.adapters.methods.drafts.content import DEEPEST, MOST_CHILDREN, child
from gateway.adapters.methods.drafts.methods import ContentMethod
from gateway.adapters.methods.geometry import Geometry
from gateway.bodies import Body, Gathering
from gateway.errors import Condition, Lost, PeerError
from gateway.operations import Operation


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


class Assembly:
    """The content of one method. ``size`` is what it has announced so far, octets; ``held``, what
    of that will be in memory. ``keep`` makes the sink of its body, of a known size; children are
    part of the header, and stay in memory. Everything raises ``PeerError``."""

    __slots__ = (
        "said", "method", "size", "held", "after", "_stack", "_count", "_limit", "_keep",
    )  # fmt: skip

    def __init__(self, said: ContentMethod, limit: int, keep: Callable[[int], BodySink]) -> None:
        self.said = said
        self.method = said.method
        self.size = self.held = 0
        self.after: Operation | None = None
        """What is to be done when this is."""
        self._stack: list[Part] = []
        self._count = 0
        self._limit = limit
        self._keep = keep

    def on_header(self, geometry: Geometry, payload: bytes) -> tuple[bytes, Body] | None:
        """Header and body once all is there."""
        layout = geometry.content
        if len(payload) < layout.size + 2:
            raise PeerError(Condition.SYNTAX_ERROR, "the content header is too short")
        if self._stack and not self._stack[-1].weight:
            raise PeerError(Condition.UNEXPECTED_FRAME, "a content header where a body is due")
        number, weight, size = layout.unpack_from(payload, 0)
        properties = payload[layout.size :]
        self.size += size + len(properties)
        self._count += 1
        if self.size - len(properties) > self._limit:
            raise PeerError(
                Condition.CONTENT_TOO_LARGE,
                f"message size {self.size} is larger than configured max size {self._limit}",
                Lost.SESSION,
                self.method.number,
            )
        if self._count > MOST_CHILDREN or len(self._stack) > DEEPEST:
            raise PeerError(
                Condition.RESOURCE_ERROR, "too many child contents", method=self.method.number
            )
        if self._stack:
            sink: BodySink = Gathering(size, None)
        else:
            try:
                sink = self._keep(size)
            except OSError as error:
                raise self._not_kept(error) from error
        self.held += sink.held + len(properties)
        self._stack.append(Part(number, weight, size, properties, sink))
        return self._close()

    def on_body(self, octets: bytes) -> tuple[bytes, Body] | None:
        """As ``on_header``. An empty body frame means nothing."""
        if not self._stack or self._stack[-1].weight:
            raise PeerError(Condition.UNEXPECTED_FRAME, "a content body where a header is due")
        part = self._stack[-1]
        if len(octets) > part.missing:
            raise PeerError(
                Condition.FRAME_ERROR,
                "the content body is longer than its header says",
                method=self.method.number,
            )
        if octets:
            part.missing -= len(octets)
            try:
                part.sink.add(octets)
            except OSError as error:
                raise self._not_kept(error) from error
        return self._close()

    def drop(self) -> None:
        """It is not wanted any more."""
        for part in self._stack:
            part.sink.abandon()
        self._stack.clear()

    def _not_kept(self, error: OSError) -> PeerError:
        return PeerError(
            Condition.CONTENT_TOO_LARGE,
            f"there is no room for a message of {self.size} octets: {error.strerror}",
            Lost.SESSION,
            self.method.number,
        )

    def _close(self) -> tuple[bytes, Body] | None:
        """Whatever is complete becomes a child of what it stands in."""
        stack = self._stack
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
