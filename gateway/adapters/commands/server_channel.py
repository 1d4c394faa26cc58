"""State of channels and handles, server role, and deliveries.

Deliveries are sent as NOTIFY with their fragments. On a restartable channel, a message of several
fragments is prepared first (document §3.3.2.2); until the client is ready for it, other deliveries
of the channel wait.
"""

import hashlib
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from gateway.adapters.commands.connection import MOST_TEMPLATES, Connection, split_around
from gateway.adapters.commands.fragments import HashedBody, IncomingMessage, octets_of
from gateway.adapters.commands.frames import frame
from gateway.adapters.commands.states import CLOSING, OPEN, State
from gateway.adapters.commands.streams import Stream, StreamPart, without_marks
from gateway.adapters.commands.violation import condition_of, reply_text
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import REPLIES, SUCCESS
from gateway.adapters.contract import Outlet
from gateway.adapters.core.bounded_cache import BoundedCache
from gateway.bodies import Body, LargeBody, cut
from gateway.errors import LocalError
from gateway.message import Message
from gateway.operations import (
    CloseDestination,
    Service,
    SessionLost,
    Token,
    Unsent,
)

MOST_NUMBER = (1 << 32) - 1

VARYING = Struct(">IIB")
"""The fields that vary: message number, octets of the fragment, bits (§3.5.11)."""
DELIVERED, REDELIVERED = 8, 16


class PendingDelivery(NamedTuple):
    """A delivery that has not been sent."""

    handle: "ServerHandle"
    name: str
    delivery: int
    redelivered: bool
    message: Message
    consumer: str = ""


class ServerHandle:
    """An open handle. ``name``: its destination; ``names``: the destinations of its consumers by
    tag, "" where each message has its own."""

    __slots__ = (
        "number", "channel", "service", "name", "producer", "consumer", "browser", "mime_type",
        "encoding", "state", "names", "tags", "stream", "preparing", "link",
    )  # fmt: skip

    def __init__(self, channel: "ServerChannel", record: w.HandleOpen, service: Service) -> None:
        self.number = record.handle_id
        self.link = str(record.handle_id)
        self.channel = channel
        self.service = service
        self.name = record.dest_name
        self.producer = record.producer
        self.consumer = record.consumer
        self.browser = record.browser
        self.mime_type = record.mime_type
        self.encoding = record.encoding
        self.state: State = OPEN
        self.names: dict[str, str] = {}
        self.tags = 0
        """The number of consumers started so far."""
        self.stream: Stream | None = None
        """The stream that the client sends over it."""
        self.preparing = False
        """The client has prepared a message and may send the rest of it."""


class ServerChannel:
    """An open channel; its ``Outlet``."""

    allow_deliveries: Callable[[bool], None]

    def __init__(
        self, number: int, table: "ServerChannels", transacted: bool, restartable: bool
    ) -> None:
        self.number = number
        self.connection = table.connection
        self.table = table
        self.transacted = transacted
        self.restartable = restartable
        self.state: State = OPEN
        self.code = 0
        """The reply code of our close."""
        self.handles: dict[int, ServerHandle] = {}
        self.incoming: IncomingMessage | None = None
        self.recovering: ServerHandle | None = None
        """The handle over which the rest of a prepared message comes, until all is here."""
        self.streaming_handle: ServerHandle | None = None
        """The handle over which the client streams: nothing else may be sent here (§3.5.3.1)."""
        self.publishes = 0
        """Messages of the current transaction."""
        self.outgoing_stream: tuple[ServerHandle, str] | None = None
        """The handle, and the stream, over which we stream to the client."""
        self._preparing: tuple[PendingDelivery, Body] | None = None
        """The prepared delivery, and its body in the client's form."""
        self._deferred: deque[PendingDelivery] = deque()
        self._templates: BoundedCache[tuple[int, str], tuple[bytes, bytes]] = BoundedCache(
            MOST_TEMPLATES
        )
        """Encoded commands of deliveries by handle and name, without the fields that vary."""
        self.allow_deliveries = lambda _: None

    # --- the outlet -----------------------------------------------------------------------------

    def deliver(self, consumer: str, delivery: int, redelivered: bool, message: Message) -> None:
        """Send a delivery. One for a closed handle stays unsettled with the channel. Hot."""
        handle = self.handles.get(int(consumer.partition("/")[0]))
        if handle is None or handle.state is not OPEN or self.state is not OPEN:
            return
        name = handle.names.get(consumer, "")
        if handle.service is not Service.QUEUE:
            name = message.key if handle.service is Service.TOPIC else handle.name
        plain = self._preparing is None and self.outgoing_stream is None and delivery <= MOST_NUMBER
        if plain and self._deliver_whole(handle, name, consumer, delivery, redelivered, message):
            return
        due = PendingDelivery(handle, name, delivery, redelivered, message, consumer)
        if self._preparing is not None:
            self._deferred.append(due)
            self.allow_deliveries(False)
        else:
            self._write_delivery(due)

    def _deliver_whole(
        self,
        handle: ServerHandle,
        name: str,
        consumer: str,
        delivery: int,
        redelivered: bool,
        message: Message,
    ) -> bool:
        """Send the delivery if it is in memory and fits one fragment. Hot."""
        connection, limit = self.connection, self.connection.frame_out
        if len(message.body) >= limit or handle.service is Service.PEER:
            return False
        try:
            head, body = connection.headers.for_peer(message, limit)
            size = len(head) + len(body)
            if size > limit:
                return False
            template = self._templates.get((handle.number, name))
            if template is None:
                octets = frame(w.HandleNotify(handle.number, dest_name=name))
                template = split_around(octets, VARYING)
                self._templates.keep((handle.number, name), template)
        except ValueError:
            connection.emit(Unsent(self.number, consumer, delivery, message))
            return True
        bits = DELIVERED | REDELIVERED if redelivered else DELIVERED
        octets = b"".join(
            (template[0], VARYING.pack(delivery, size, bits), template[1], head, octets_of(body))
        )
        connection.put_message(self.number, octets)
        return True

    def divert(self, pending: list[bytes]) -> None:
        """No-op: ``Connection`` looks up the output of a channel for each write."""

    def confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        """No-op: a publish is confirmed by the reply to its tag."""

    def _write_delivery(self, due: PendingDelivery) -> None:
        if due.delivery > MOST_NUMBER:
            self.table.numbers_exhausted(self)
            return
        connection, message = self.connection, due.message
        limit = connection.frame_out
        if self.outgoing_stream is not None or due.handle.service is Service.PEER:
            part = StreamPart(message) if due.handle.service is Service.PEER else None
            if part is not None and part.number and self._deliver_streamed(due, part):
                return
            # Nothing may come in between (§3.5.3.1): the message ends the stream.
            self._end_stream(REPLIES["not-allowed"], "a message came in between")
            if due.handle.state is not OPEN:
                return
        try:
            head, body = connection.headers.for_peer(message, limit)
            # Raises if the name has no form.
            frame(w.HandleNotify(due.handle.number, dest_name=due.name))
        except ValueError:
            self.connection.emit(Unsent(self.number, due.consumer, due.delivery, message))
            return
        if self.restartable and len(head) + len(body) > limit:
            self._prepare(due, head, body)
            return
        self.notify(due, head, body, False)

    def notify(
        self, due: PendingDelivery, head: bytes, body: Body, recovery: bool, delivered: bool = True
    ) -> None:
        """Send all fragments of a message, or of the part that the client lacks."""
        record = w.HandleNotify(
            due.handle.number,
            due.delivery,
            recovery=recovery,
            delivered=delivered,
            redelivered=due.redelivered,
        )
        self.connection.write_message(self, record, due.name, head, body)

    # --- streams --------------------------------------------------------------------------------

    def _deliver_streamed(self, due: PendingDelivery, part: StreamPart) -> bool:
        """Send it as part of a stream; false if it must be sent as a message."""
        here = (due.handle, part.number)
        if self.outgoing_stream is None and part.part == 0 and len(self.handles) == 1:
            self.outgoing_stream = here
            header = b"\0\0\0\0" + without_marks(due.message.header)
            self._write_stream(due, header + octets_of(due.message.body))
            return True
        if self.outgoing_stream != here:
            return False
        if part.end:
            self._end_stream(SUCCESS, "the stream has ended")
        else:
            self._write_stream(due, octets_of(due.message.body))
        return True

    def _write_stream(self, due: PendingDelivery, octets: bytes) -> None:
        record = w.HandleNotify(
            due.handle.number, due.delivery, partial=True, delivered=True, streaming=True
        )
        self.connection.write_parts(self.number, record, octets)

    def _end_stream(self, code: int, text: str) -> None:
        """End our stream, which either side does by closing its handle."""
        if self.outgoing_stream is not None:
            handle, self.outgoing_stream = self.outgoing_stream[0], None
            self.table.lose_handle(handle, code, text)

    # --- restartable ----------------------------------------------------------------------------

    def _prepare(self, due: PendingDelivery, head: bytes, body: Body) -> None:
        first = head + octets_of(cut(body, 0, self.connection.frame_out - len(head)))
        self._preparing = (due, body)

        def make(digest: str) -> bytes:
            return frame(w.HandlePrepare(due.handle.number, len(first), digest)) + first

        if isinstance(body, LargeBody):
            self.connection.write_large(self, HashedBody(make, body))
        else:
            self.connection.buffer.put_on(self.number, make(hashlib.sha1(body).hexdigest()))

    def ready(self, handle: ServerHandle, have: int) -> bool:
        """The client already has this many octets of the body; false if none was prepared."""
        if self._preparing is None or self._preparing[0].handle is not handle:
            return False
        due, body = self._preparing
        if have > len(body):
            return False
        self._preparing = None
        self.notify(due, b"", cut(body, have, len(body)), True)
        self._resume()
        return True

    def forget(self, handle: ServerHandle) -> None:
        """Drop the state of a closed handle, so that its deliveries do not hold up the others."""
        if self._preparing is not None and self._preparing[0].handle is handle:
            self._preparing = None
        if self.streaming_handle is handle:
            self.streaming_handle = None
        if self.outgoing_stream is not None and self.outgoing_stream[0] is handle:
            self.outgoing_stream = None
        self._resume()

    def _resume(self) -> None:
        deferred = self._deferred
        if not deferred:
            return
        while deferred and self._preparing is None:
            due = deferred.popleft()
            if due.handle.state is OPEN and self.state is OPEN:
                self._write_delivery(due)
        if not deferred and self.number not in self.connection.buffer.large.deferred:
            self.allow_deliveries(True)

    def abandon(self, handle: ServerHandle | None = None) -> None:
        """Forget a message that has not come completely: any, or one over this handle."""
        if handle is None or self.recovering is handle:
            self.recovering = None
        incoming = self.incoming
        if incoming is not None and (handle is None or incoming.handle == handle.number):
            self.incoming = None
            self.connection.incoming_octets -= incoming.held
            incoming.abandon()

    def fail(self, code: int) -> None:
        """Close the channel with an error: only the client's close is accepted."""
        self.state = CLOSING
        self.code = code
        self.abandon()
        self._preparing = None
        self._deferred.clear()


class ServerChannels:
    """The channels and handles of a connection. ``handle_errors``: see ``Engine``."""

    def __init__(
        self, connection: Connection, channels: dict[int, ServerChannel], handle_errors: str
    ) -> None:
        self.connection = connection
        self.channels = channels
        self.handles: dict[int, ServerHandle] = connection.handles
        self._handle_errors = handle_errors

    def open(self, number: int, transacted: bool, restartable: bool) -> ServerChannel:
        channel = self.channels[number] = ServerChannel(number, self, transacted, restartable)
        return channel

    def remove_channel(self, channel: ServerChannel) -> None:
        """Forget it: both sides have closed it."""
        self.channels.pop(channel.number, None)
        for number in list(channel.handles):
            del self.handles[number]
        channel.handles.clear()
        channel.state = CLOSING

    def lose_channel(self, channel: ServerChannel, code: int, text: str) -> None:
        """Close it with an error."""
        if channel.state is OPEN:
            self.send_channel_close(channel.number, code, text)
            channel.fail(code)
            condition = condition_of(code)
            assert condition is not None
            self.connection.emit(SessionLost(channel.number, condition, text))

    def send_channel_close(self, number: int, code: int, text: str) -> None:
        self.connection.write(w.ChannelClose(number, code, reply_text(text)))

    def numbers_exhausted(self, channel: ServerChannel) -> None:
        """Close a channel that has used all message numbers."""
        code = REPLIES["resource-error"]
        self.lose_channel(channel, code, "no more message numbers")

    def remove_handle(self, handle: ServerHandle) -> None:
        """Forget it: both sides have closed it."""
        handle.state = CLOSING
        self.handles.pop(handle.number, None)
        handle.channel.handles.pop(handle.number, None)
        handle.channel.forget(handle)

    def lose_handle(self, handle: ServerHandle, code: int, text: str) -> None:
        """Close it with an error, or its channel, if that is the configured scope."""
        if self._handle_errors == "channel" and code != SUCCESS:
            self.lose_channel(handle.channel, code, text)
        elif handle.state is OPEN:
            handle.state = CLOSING
            handle.channel.abandon(handle)
            self.connection.write(w.HandleClose(handle.number, code, reply_text(text)))
            handle.channel.forget(handle)
            self.connection.emit(CloseDestination(handle.channel.number, None, handle.link))

    def outlet(self, number: int) -> Outlet:
        channel = self.channels.get(number)
        if channel is None:
            raise LocalError(f"channel {number} is not open")
        return channel

    # --- the end --------------------------------------------------------------------------------

    def silence(self) -> None:
        """The connection is being closed: nothing more is delivered."""
        for channel in self.channels.values():
            channel.state = CLOSING

    def awaited_tokens(self) -> list[tuple[int, Token]]:
        """Unanswered requests of ours: a server has none."""
        return []

    def abandon(self) -> None:
        """Discard incomplete messages."""
        for channel in self.channels.values():
            channel.abandon()

    def forget(self) -> None:
        self.abandon()
        self.channels.clear()
        self.handles.clear()
