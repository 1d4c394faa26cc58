"""Methods as frames, for both engines of the family: checked, encoded and put into the output."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from gateway.adapters.core.large_bodies import PORTION, BodyFrames, OutputChannel
from gateway.adapters.core.output import OutputBuffer
from gateway.adapters.methods.geometry import Method, Version
from gateway.bodies import LargeBody
from gateway.errors import LocalError, Unwritable


class FrameWriter(Protocol):
    """The writing half of a framing."""

    method: int
    body: int
    limit: int

    def frame(self, kind: int, channel: int, payload: bytes) -> bytes: ...


class MethodWriter:
    """Writes the methods of one connection."""

    def __init__(
        self, table: Version, server: bool, frames: FrameWriter, buffer: OutputBuffer
    ) -> None:
        self._table = table
        self._by_record = table.by_record
        self._server = server
        self._frames = frames
        self._buffer = buffer
        ack = table.by_name.get("basic.ack")
        self._ack = 0 if ack is None else ack.number
        """Sent by either side: a server confirms with it."""
        prefix = len(next(iter(table.methods.values())).prefix)
        self._padding = table.geometry.method.size - prefix

    def write(self, channel: int, record: Any) -> None:
        """One method. Raises ``LocalError`` if it is not ours to send."""
        self._buffer.put_on(channel, self.encoded(channel, record))

    def encoded(self, channel: int, record: Any) -> bytes:
        """The frame of a method. Raises ``LocalError`` if it is not ours to send."""
        method = self._by_record.get(type(record)) or self.method_of(record)
        ours = method.from_server if self._server else method.from_client
        if not ours and method.number != self._ack:
            raise LocalError(f"{record.NAME} is not ours to send")
        frames = self._frames
        head = self.head_of(method) if self._padding else method.prefix
        arguments = method.write(record) if method.extended is None else method.encode(record)
        payload = head + arguments
        if frames.limit and len(payload) > frames.limit:
            raise Unwritable(f"{record.NAME} does not fit a frame of the peer")
        return frames.frame(frames.method, channel, payload)

    def method_of(self, record: Any) -> Method:
        """The method that a record stands for. Raises ``LocalError``."""
        method = self._by_record.get(type(record))
        if method is None:
            raise LocalError(f"{record.NAME} is not in {self._table.name}")
        return method

    def head_of(self, method: Method, flags: int = 0) -> bytes:
        """The octets before a method's arguments. In 0-9a0 the flags are in the octet before the
        synchtag; the tag itself is 0: the document does not require replies to repeat one."""
        if not self._padding:
            return method.prefix
        return method.prefix + bytes(self._padding - 5) + bytes((flags,)) + bytes(4)

    def write_large(self, channel: OutputChannel, body: LargeBody, body_max: int) -> None:
        """The body frames of a large body come next on a channel; ``body_max`` is the room in one
        frame of the peer."""
        frames = self._frames
        make: Callable[[bytes], bytes] = partial(frames.frame, frames.body, channel.number)
        self._buffer.large.add(channel, BodyFrames(make, body, min(body_max, PORTION)))
