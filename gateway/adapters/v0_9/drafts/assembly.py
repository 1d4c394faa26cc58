"""A content as it comes in: its header, the contents inside it, its body.

Children come whole, each with a header of its own, between the header and the body of their parent
(0-9a0 §3.4.5, 0-9a6 "Content frames").
"""

from gateway.adapters.v0_9.drafts.contents import DEEPEST, MOST_CHILDREN, child
from gateway.adapters.v0_9.drafts.words import Said
from gateway.adapters.v0_9.geometry import Geometry
from gateway.errors import Condition, Lost, PeerError
from gateway.operations import Operation


class Part:
    """One content of which something is missing: ``weight`` children, ``missing`` octets."""

    __slots__ = ("number", "weight", "missing", "properties", "children", "pieces")

    def __init__(self, number: int, weight: int, missing: int, properties: bytes) -> None:
        self.number = number
        self.weight = weight
        self.missing = missing
        self.properties = properties
        self.children: list[bytes] = []
        self.pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


class Assembly:
    """The content of one method. ``size`` is what it has announced so far, octets."""

    __slots__ = ("said", "method", "size", "number", "after", "_stack", "_count", "_limit")

    def __init__(self, said: Said, limit: int) -> None:
        self.said = said
        self.method = said.method
        self.size = 0
        self.number = 0
        """The class its header names, which old clients get wrong."""
        self.after: Operation | None = None
        """What is to be done when this is."""
        self._stack: list[Part] = []
        self._count = 0
        self._limit = limit

    def on_header(self, geometry: Geometry, payload: bytes) -> tuple[bytes, bytes] | None:
        """Header and body once all is there. Raises ``PeerError``."""
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
        if not self._stack:
            self.number = number
        self._stack.append(Part(number, weight, size, properties))
        return self._close()

    def on_body(self, octets: bytes) -> tuple[bytes, bytes] | None:
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
            part.pieces.append(octets)
            part.missing -= len(octets)
        return self._close()

    @property
    def begun(self) -> bytes:
        """What there is of the body."""
        return self._stack[0].body if self._stack else b""

    def _close(self) -> tuple[bytes, bytes] | None:
        """Whatever is complete becomes a child of what it stands in."""
        stack = self._stack
        while stack and not stack[-1].weight and not stack[-1].missing:
            part = stack.pop()
            if not stack:
                return part.properties + b"".join(part.children), part.body
            parent = stack[-1]
            parent.weight -= 1
            parent.children.append(child(part.number, part.properties, part.children, part.body))
        return None
