"""Messages from a client: whole messages assembled from fragments, streams, and prepared messages
that are sent in parts (document §3.4.2, §3.5.3, §3.5.13)."""

from collections.abc import Mapping
from struct import Struct
from typing import Any

from gateway.adapters.commands.connection import Connection, PendingReply
from gateway.adapters.commands.content import COMMAND, SIZE_OCTETS
from gateway.adapters.commands.fragments import IncomingMessage
from gateway.adapters.commands.negotiation import TXN_LIMIT
from gateway.adapters.commands.server_channel import ServerChannel, ServerHandle
from gateway.adapters.commands.states import OPEN
from gateway.adapters.commands.streams import Stream
from gateway.adapters.commands.violation import Violation
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import END
from gateway.bodies import Body
from gateway.errors import Lost
from gateway.message import Message
from gateway.operations import Continue, Prepare, PublishMany, SendMany, SendTo, Service

SHA1_DIGITS = 40

SEND = Struct(">HHIBB")
"""Handle, confirm tag, octets of the fragment, bits, octets of the name (§3.5.3)."""
LEAST = SEND.size + 2
"""Octets of the command with its type and end octet and an empty name."""

MOST = 128
"""Messages of one operation."""


class IncomingPublishes:
    """Receives messages over the handles of a connection."""

    def __init__(self, connection: Connection, handles: Mapping[int, ServerHandle]) -> None:
        self._connection = connection
        self._emit = connection.emit
        self._handles = handles

    def on(self, name: str, handle: ServerHandle, m: Any, fragment: bytes) -> None:
        if not (handle.producer or handle.service is Service.PEER):
            raise Violation("access-refused", "the handle is not a producer's", Lost.LINK)
        if name == "handle.prepare":
            self._prepare(handle, m, fragment)
        elif m.out_of_band:
            text = "nothing is agreed about transfer out of band"
            raise Violation("not-implemented", text, Lost.LINK)
        elif m.recovery:
            self._continue(handle, m, fragment)
        elif m.streaming:
            self._stream(handle, m, fragment)
        else:
            self._send(handle, m, fragment)

    def fast_path(self, buf: bytes, start: int, stop: int, end: int) -> int:
        """Take an ordinary message that arrived in one fragment. Returns the end of it, or 0 for
        messages that need the general path. The command's type is at ``start``, its fragment at
        ``stop``. Hot."""
        if stop - start < LEAST:
            return 0
        number, tag, size, bits, length = SEND.unpack_from(buf, start + 1)
        behind: int = stop + size
        handle = self._handles.get(number)
        if (
            handle is None
            or bits
            or stop - start != LEAST + length
            or buf[stop - 1] != END
            or behind > end
            or size > self._connection.frame_max
            or handle.state is not OPEN
            or not (handle.producer or handle.service is Service.PEER)
        ):
            return 0
        channel, octets = handle.channel, int.from_bytes(buf[stop : stop + SIZE_OCTETS], "big")
        body = behind - octets
        if (
            body <= stop + SIZE_OCTETS
            or channel.state is not OPEN
            or channel.transacted
            or channel.incoming is not None
            or channel.recovering is not None
            or channel.streaming_handle is not None
        ):
            return 0
        connection = self._connection
        most, headers = connection.limits.max_message_octets, connection.headers
        if most and octets + connection.incoming_octets > most:
            return 0
        raw = buf[stop + SIZE_OCTETS : body]
        try:
            parsed = headers.from_peer(raw, handle.mime_type, handle.encoding)
        except ValueError:
            return 0
        message = Message(COMMAND, parsed.header, buf[body:behind], "", "", parsed.essentials)
        name = buf[start + LEAST - 1 : stop - 1].decode("utf-8", "surrogateescape")
        found = connection.found_now()
        if tag or parsed.expires is not None:
            token = PendingReply("handle.send", number, tag)
            found.append(
                SendTo(channel.number, token, handle.link, name, message, tag != 0, parsed.expires)
            )
            return behind
        last: Any = found[-1] if found else None
        if (
            last.__class__ is SendMany
            and last.link == handle.link
            and last.name == name
            and len(last.many.messages) < MOST
        ):
            last.many.messages.append(message)
        else:
            token = PendingReply("handle.send", number, 0)
            many = PublishMany(channel.number, [message])
            found.append(SendMany(channel.number, token, handle.link, name, many))
        return behind

    # --- whole messages -------------------------------------------------------------------------

    def _send(self, handle: ServerHandle, m: w.HandleSend, fragment: bytes) -> None:
        channel = handle.channel
        if channel.streaming_handle is not None:
            raise Violation("command-invalid", "a stream occupies the channel", Lost.SESSION)
        if channel.recovering is not None:
            self.need_complete(channel)
        incoming = channel.incoming
        if incoming is None:
            incoming = self._first(handle, fragment)
        elif incoming.handle != handle.number:
            text = f"a message over handle {incoming.handle} is not complete"
            raise Violation("command-invalid", text, Lost.SESSION)
        else:
            incoming.add(fragment, False)
        if m.partial:
            return
        incoming.add(b"", True)
        body = incoming.body()
        channel.abandon()
        self._count(channel)
        message, expires = self._message(incoming.header, body)
        self._emit(
            SendTo(
                channel.number,
                PendingReply("handle.send", handle.number, m.confirm_tag),
                handle.link,
                m.dest_name,
                message,
                m.confirm_tag != 0,
                expires,
            )
        )

    def _first(self, handle: ServerHandle, fragment: bytes) -> IncomingMessage:
        """Begin a message with its first fragment, which holds the header."""
        size, header, start = self._head(handle, fragment)
        connection = self._connection
        most = connection.limits.max_message_octets
        incoming = None
        if not most or size <= most:
            incoming = IncomingMessage(handle.number, header, size, connection.spool)
        if incoming is None or (most and incoming.held + connection.incoming_octets > most):
            text = f"{size} octets are too large for a message now"
            raise Violation("message-too-large", text, Lost.SESSION)
        connection.incoming_octets += incoming.held
        handle.channel.incoming = incoming
        incoming.add(fragment[start:], False)
        return incoming

    def _head(self, handle: ServerHandle, fragment: bytes) -> tuple[int, bytes, int]:
        """Size of the body, header, and offset of the body."""
        try:
            headers = self._connection.headers
            size, parsed, start = headers.first(fragment, handle.mime_type, handle.encoding)
        except ValueError as error:
            raise Violation("invalid-message", str(error), Lost.LINK) from None
        return size, parsed.header, start

    def _message(self, header: bytes, body: Body) -> tuple[Message, int | None]:
        parsed = self._connection.headers.parsed(header)
        return Message(COMMAND, parsed.header, body, "", "", parsed.essentials), parsed.expires

    def _count(self, channel: ServerChannel) -> None:
        channel.publishes += 1
        if channel.transacted and channel.publishes > TXN_LIMIT:
            text = f"more than {TXN_LIMIT} messages in a transaction"
            raise Violation("resource-error", text, Lost.SESSION)

    def need_complete(self, channel: ServerChannel) -> None:
        """Raises ``Violation`` while a message is incomplete: its fragments follow one another on
        their channel (§3.5.3), and only a close may come between."""
        if channel.incoming is not None or channel.recovering is not None:
            raise Violation("command-invalid", "a message is not complete", Lost.SESSION)

    # --- streams --------------------------------------------------------------------------------

    def _stream(self, handle: ServerHandle, m: w.HandleSend, fragment: bytes) -> None:
        """Each fragment is a message of its own, with the header of the first (§3.5.3.1)."""
        channel = handle.channel
        if handle.service is not Service.PEER:
            raise Violation("command-invalid", "only peers are streamed to", Lost.LINK)
        if not m.partial:
            raise Violation("syntax-error", "a stream has no last fragment", Lost.LINK)
        self.need_complete(channel)
        if channel.streaming_handle not in (None, handle):
            raise Violation("command-invalid", "the channel is occupied", Lost.SESSION)
        body = fragment
        if channel.streaming_handle is None:
            size, header, start = self._head(handle, fragment)
            if size:
                raise Violation("syntax-error", "a stream has no body size", Lost.LINK)
            handle.stream = Stream(header)
            channel.streaming_handle = handle
            body = fragment[start:]
        stream = handle.stream
        assert stream is not None
        if not body and stream.part:
            return
        stream.name = m.dest_name
        self._count(channel)
        self._part(handle, stream, body, m.confirm_tag)

    def _part(self, handle: ServerHandle, stream: Stream, body: bytes, tag: int) -> None:
        try:
            header = stream.next(end=not body and stream.part > 0)
        except ValueError as error:
            raise Violation("resource-error", str(error), Lost.LINK) from None
        message, expires = self._message(header, body)
        number, token = handle.channel.number, PendingReply("handle.send", handle.number, tag)
        self._emit(SendTo(number, token, handle.link, stream.name, message, tag != 0, expires))

    def end_stream(self, handle: ServerHandle) -> None:
        """End the stream of a handle that is being closed: its receivers are told."""
        if handle.stream is not None:
            self._part(handle, handle.stream, b"", 0)
            handle.stream = None

    # --- messages in parts ----------------------------------------------------------------------

    def _prepare(self, handle: ServerHandle, m: w.HandlePrepare, fragment: bytes) -> None:
        channel = handle.channel
        if not channel.restartable:
            raise Violation("command-invalid", "the channel is not restartable", Lost.LINK)
        if channel.streaming_handle is not None:
            raise Violation("command-invalid", "a stream occupies the channel", Lost.SESSION)
        self.need_complete(channel)
        digest = m.content_hash.strip().lower()
        if digest and (len(digest) != SHA1_DIGITS or not digest.isalnum()):
            raise Violation("syntax-error", "the hash is no SHA-1 in hexadecimal", Lost.LINK)
        size, header, start = self._head(handle, fragment)
        most = self._connection.limits.max_message_octets
        if most and size > most:
            text = f"{size} octets are too large for a message"
            raise Violation("message-too-large", text, Lost.SESSION)
        message, expires = self._message(header, fragment[start:])
        if len(message.body) > size:
            raise Violation("invalid-message", "more octets than the message has", Lost.LINK)
        handle.preparing = True
        token = PendingReply("handle.prepare", handle.number, 1)
        self._emit(Prepare(channel.number, token, handle.link, message, size, digest, expires))

    def _continue(self, handle: ServerHandle, m: w.HandleSend, fragment: bytes) -> None:
        if m.streaming:
            raise Violation("syntax-error", "a stream is not recovered", Lost.LINK)
        if not handle.preparing:
            raise Violation("command-invalid", "no message was prepared", Lost.LINK)
        last, channel = not m.partial, handle.channel
        if channel.recovering not in (None, handle):
            raise Violation("command-invalid", "a message is not complete", Lost.SESSION)
        channel.recovering = None if last else handle
        if last:
            handle.preparing = False
            self._count(channel)
        token = PendingReply("handle.continue", handle.number, m.confirm_tag)
        wanted = m.confirm_tag != 0
        number, link = channel.number, handle.link
        self._emit(Continue(number, token, link, m.dest_name, fragment, last, wanted))
