"""Frames of the peer in a draft: dispatched to connection and channels, if they are allowed now.

A ``PeerError`` that costs a channel is settled here; one that costs the connection goes up. Errors
in the classes connection and access cost the connection, all others the channel.
"""

import struct
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Protocol

from gateway.adapters.methods import states
from gateway.adapters.methods.contents import class_test
from gateway.adapters.methods.contents.methods import ContentMethod
from gateway.adapters.methods.contents.outline import Known
from gateway.adapters.methods.dispatch import (
    closed_by_server,
    fail_channel,
    is_discarded,
    is_for_channel,
    read_arguments,
    take_awaited,
)
from gateway.adapters.methods.drafts import types as tables
from gateway.adapters.methods.drafts.channel import Channel, ChannelEngine
from gateway.adapters.methods.drafts.content import CONTENTS
from gateway.adapters.methods.drafts.mapping import MethodMapping
from gateway.adapters.methods.geometry import Method
from gateway.adapters.methods.incoming_content import (
    BodySink,
    ContentReceiver,
    IncomingContent,
)
from gateway.adapters.methods.pending import PendingReply
from gateway.adapters.methods.tags import TooManyValues
from gateway.adapters.options import Limits
from gateway.bodies import Body, incoming_body
from gateway.errors import Condition, Lost, PeerError
from gateway.operations import Done, Operation, PublishMany, Synchronize

SYNCHREQ, UNREAL = 0x80, 0x40
SYNCH = (2, 6)
"""Channel.Synch (0-9a0): the document gives it no number; this is the first one that is free."""
FLAGS = 0xF0
"""The high half of an octet of flags; the low half is the revision (0-9a0)."""

MOST = 128
"""Messages that are published in one operation."""

THREE_FIELDS = Struct(">HIH")
"""tune-ok of 0-9a6 as it was a week later: channel-max, frame-max, heartbeat."""

ASYNCHRONOUS = frozenset(
    ["channel.flow"]
    + [f"{group}.{verb}" for group in ("jms", "file", "stream") for verb in ("publish", "cancel")]
    + [f"{group}.{verb}" for group in ("jms", "file") for verb in ("ack", "reject")]
)
"""Methods that a client may send on a channel of 0-9a0 without being answered."""


class IncomingEngine(ChannelEngine, Protocol):
    """The engine, as far as this part needs it."""

    channels: dict[int, Channel]
    channel_max: int
    limits: Limits

    @property
    def mapping(self) -> MethodMapping: ...


class DraftIncoming:
    """The ``Link`` of the frame loop."""

    def __init__(self, engine: IncomingEngine, server: bool) -> None:
        self._engine = engine
        self._server = server
        self._read_arguments = partial(tables.read_arguments, is_0_9a0=engine.is_0_9a0)
        self._contents = contents = ContentReceiver(engine, self._complete)
        self.on_header, self.on_body = contents.on_header, contents.on_body
        self._published_message = engine.mapping.published_message
        self._many: PublishMany | None = None
        self._like: ContentMethod | None = None
        """The last publishes that others may join, and the method of each of them."""

    # --- methods ---------------------------------------------------------------------------------

    def on_method(
        self, channel: int, buf: bytes, at: int, end: int, found: list[Operation]
    ) -> None:
        """One method frame. Raises ``PeerError`` if the connection dies of it."""
        engine = self._engine
        layout = engine.table.geometry.method
        if end - at < layout.size:
            raise PeerError(Condition.SYNTAX_ERROR, "a method frame is cut short")
        group, name, *rest = layout.unpack_from(buf, at)
        number = group << 16 | name
        flags = 0
        for octet in rest[:-1]:
            flags |= octet & FLAGS
        method = engine.table.methods.get(number)
        if method is None:
            if flags & UNREAL:
                self._unknown(number, rest[-1])
                return
            raise PeerError(Condition.NOT_IMPLEMENTED, f"method {group},{name} is unknown")
        at += layout.size
        open_channel = engine.channels.get(channel)
        usual = (
            open_channel is not None
            and open_channel.state is states.OPEN
            and engine.life.state is states.OPEN
            and not method.name.startswith("connection.")
        )
        if usual:
            record = read_arguments(engine, method, buf, at, end)
        else:
            method = self._alias(method, end - at)
            if is_discarded(engine, open_channel, method, found):
                return
            record = self._read(method, buf, at, end)
        if flags & UNREAL:
            self._echo(channel, method, record)
            return
        if flags & SYNCHREQ and not self._server:
            raise PeerError(Condition.COMMAND_INVALID, "a server may not ask for synch")
        try:
            if usual or is_for_channel(engine, channel, open_channel, method, record, found):
                self._on_channel(channel, open_channel, method, record, found)
            if flags & SYNCHREQ and engine.limits.synch and open_channel is not None:
                self._synch(open_channel, method, record, rest[-1], found)
        except PeerError as error:
            error.method = error.method or number
            fatal = method.name.startswith(("connection.", "access."))
            if fatal or error.lost is not Lost.SESSION or channel not in engine.channels:
                raise
            fail_channel(engine, channel, error, found)
        except TooManyValues as error:
            raise PeerError(Condition.RESOURCE_ERROR, str(error), method=number) from error
        except ValueError as error:
            raise PeerError(Condition.SYNTAX_ERROR, str(error), method=number) from error

    def _unknown(self, number: int, tag: int) -> None:
        """A test of a method that we do not have (0-9a0: connection.unknown)."""
        unknown = self._engine.mapping.layouts.ConnectionUnknown
        code, text, _ = self._engine.table.codes[Condition.NOT_IMPLEMENTED.value]
        self._engine.writer.write(
            0, unknown(number >> 16, number & 0xFFFF, tag & 0xFFFF, code, text)
        )

    def _echo(self, channel: int, method: Method, record: Any) -> None:
        """Answer a method that was only a test: the same, made anew (0-9a0, method flags)."""
        frames = self._engine.frames
        payload = self._engine.writer.head_of(method, UNREAL) + method.write(record)
        self._engine.buffer.put(frames.frame(frames.method, channel, payload))

    def _synch(
        self, channel: Channel, method: Method, m: Any, tag: int, found: list[Operation]
    ) -> None:
        """Answer a method without a reply of its own, once it is done and safe (0-9a0 §3.6.4)."""
        if method.replies or method.name not in ASYNCHRONOUS:
            return
        number = channel.number
        layout = self._engine.table.geometry.method
        flags = (0,) * (layout.size - len(SYNCH) - 4)
        frames = self._engine.frames

        def then(_: Any) -> list[Operation]:
            octets = layout.pack(*SYNCH, *flags, tag)
            self._engine.buffer.put(frames.frame(frames.method, number, octets))
            return []

        done = Synchronize(number, PendingReply(method, m, then))
        if method.content and channel.content is not None:
            channel.content.after = done
        else:
            found.append(done)

    def _alias(self, method: Method, size: int) -> Method:
        """0-9a6: close and close-ok are 9 and 10, or 10 and 11. 10 with fields is a close."""
        if self._engine.is_0_9a0 or method.name != "connection.close-ok" or not size:
            return method
        return self._engine.table.by_name["connection.close"]

    def _read(self, method: Method, buf: bytes, at: int, end: int) -> Any:
        """The method's record."""
        later = method.name == "connection.tune-ok" and end - at == THREE_FIELDS.size
        if later and not self._engine.is_0_9a0:
            channels, _, heartbeat = THREE_FIELDS.unpack_from(buf, at)
            return method.record(channels, heartbeat)
        return read_arguments(self._engine, method, buf, at, end)

    def _on_channel(
        self, number: int, channel: Channel | None, method: Method, m: Any, found: list[Operation]
    ) -> None:
        engine, name = self._engine, method.name
        if channel is None:
            if number > engine.channel_max:
                raise PeerError(
                    Condition.NOT_ALLOWED, f"channel {number} is above {engine.channel_max}"
                )
            channel = engine.channels[number] = Channel(number, engine)
            channel.opened()
            found += engine.mapping.request_handlers[name](channel, m, PendingReply(method, m))
            return
        if channel.content is not None and not name.endswith((".reject", ".ack")):
            raise PeerError(
                Condition.UNEXPECTED_FRAME, f"{name} where the rest of a content was expected"
            )
        if method.content:
            keep: Callable[[int], BodySink] = partial(incoming_body, engine.spool)
            if name == "file.stage":
                keep = channel.files.rest
            channel.content = IncomingContent(method, m, engine.max_message_octets, keep)
        elif name in class_test.REQUESTS:
            longest = (1 << 8 * engine.table.geometry.longstr) - 1
            answer = class_test.REQUESTS[name]
            channel.send(answer(engine.mapping.layouts, m, self._read_arguments, longest))
        elif self._server and name in engine.mapping.request_handlers:
            if name == "channel.open":
                raise PeerError(Condition.CHANNEL_ERROR, "second 'channel.open' seen")
            if name == "channel.close":
                channel.move(name)
            found += engine.mapping.request_handlers[name](channel, m, PendingReply(method, m))
        elif name == "channel.close":
            closed_by_server(engine, channel, m, found)
        else:
            unsolicited = engine.mapping.unsolicited(channel, method, m)
            if unsolicited is not None:
                found += unsolicited
            else:
                self._on_reply(channel, method, m, found)

    def _on_reply(self, channel: Channel, method: Method, m: Any, found: list[Operation]) -> None:
        """The peer's answer to a request of ours."""
        awaited = take_awaited(channel, method.name)
        if method.name == "channel.open-ok":
            channel.opened()
        result = self._engine.mapping.reply_readers.get(method.name)
        value = None if result is None else result(channel, awaited.operation, m)
        if awaited.operation.token is not None:
            found.append(Done(channel.number, awaited.operation.token, value))

    def _content_method(self, method: Method, m: Any) -> ContentMethod:
        engine = self._engine
        dialect = CONTENTS[engine.version, method.number >> 16]
        return ContentMethod(method, m, dialect, engine.mapping.content_handlers.get(method.name))

    def _complete(
        self,
        channel: Channel,
        content: IncomingContent,
        header: bytes,
        body: Body,
        found: list[Operation],
    ) -> None:
        """All of a message is here."""
        engine = self._engine
        content_method = self._content_method(content.method, content.record)
        dialect = content_method.dialect
        known = dialect.arrived(header) if self._server else dialect.known(header)  # may refuse it
        method, m = content_method.method, content_method.record
        if method.name == class_test.CONTENT:
            channel.send(*class_test.echoed(engine.mapping.layouts, method, header, body))
            return
        awaited = channel.awaited[0] if channel.awaited else None
        answers = awaited is not None and method.name in awaited.method.replies
        if content_method.handler is None or (method.name.endswith("browse-ok") and not answers):
            raise PeerError(Condition.COMMAND_INVALID, f"{method.name} answers nothing")
        tag, redelivered = getattr(m, "delivery_tag", 0), getattr(m, "redelivered", False)
        arrived = content_method.handler(channel, content_method, tag, redelivered, known, body)
        if awaited is not None and answers:
            channel.awaited.popleft()
            if awaited.operation.token is not None:
                found.append(Done(channel.number, awaited.operation.token, arrived))
        elif arrived is not None:
            found.append(arrived)
        if content.after is not None:
            found.append(content.after)

    # --- at once ---------------------------------------------------------------------------------

    def read_content_method(self, buf: bytes, at: int, end: int) -> ContentMethod | None:
        """A method that brings a message, without flags; ``None`` if it is not good (frame by frame
        it comes out why)."""
        engine = self._engine
        layout = engine.table.geometry.method
        group, name, *rest = layout.unpack_from(buf, at)
        method = engine.table.methods[group << 16 | name]
        try:
            record, stop = method.read(buf, at + layout.size)
        except (ValueError, struct.error, IndexError):
            return None
        if stop != end or any(octet & FLAGS for octet in rest[:-1]):
            return None
        return self._content_method(method, record)

    def on_message(
        self,
        channel: Channel,
        method: ContentMethod,
        tag: int,
        redelivered: bool,
        known: Known,
        body: bytes,
        found: list[Operation],
    ) -> None:
        """A publish or a delivery, whole. Publishes with one method are one operation. Hot."""
        many = self._many
        if (
            method is self._like
            and many is not None
            and found
            and found[-1] is many
            and many.channel == channel.number
            and len(many.messages) < MOST
        ):
            many.messages.append(self._published_message(method, known, body))
            return
        try:
            operation = method.handler(channel, method, tag, redelivered, known, body)  # type: ignore[misc]
        except (PeerError, ValueError) as error:
            self._contents.failed(channel.number, method.method, error, found)
            return
        if operation.__class__ is PublishMany:
            self._many, self._like = operation, method
        found.append(operation)
