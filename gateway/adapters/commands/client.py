"""The client role: commands of the server become operations (document §3.3.9, §3.5.17). Requests of
ours are sent by ``client_outbound``.

Original servers send a close at any level, which the document does not allow, and replies in any
order.
"""

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any

from gateway.adapters.commands import client_outbound
from gateway.adapters.commands.client_channel import (
    AwaitedReply,
    ClientChannel,
    ClientChannels,
    ClientHandle,
    requests_of,
    tokens_of,
)
from gateway.adapters.commands.client_outbound import TOPICS
from gateway.adapters.commands.command import Command
from gateway.adapters.commands.connection import Connection
from gateway.adapters.commands.content import COMMAND, SIZE_OCTETS
from gateway.adapters.commands.fragments import IncomingMessage, octets_of
from gateway.adapters.commands.states import CLOSING, OPEN
from gateway.adapters.commands.violation import Violation, condition_of, reply_text
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import END, REPLIES, SUCCESS
from gateway.errors import Condition, Lost
from gateway.message import Message
from gateway.operations import (
    Cancelled,
    Confirm,
    Deliver,
    Done,
    Index,
    Looked,
    Refused,
    Service,
    SessionLost,
)

NOTIFY = Struct(">HIIBB")
"""Handle, number of the message, octets of the fragment, bits, octets of the name (§3.5.11)."""
LEAST = NOTIFY.size + 2
"""Octets of the command with its type and end octet and an empty name."""
DELIVERED, REDELIVERED = 8, 16

MOST_NUMBERS = 1 << 16
"""The most message numbers that one index may have."""


class Client:
    """Turns the commands of a server into operations."""

    def __init__(self, connection: Connection, channels: dict[int, ClientChannel]) -> None:
        self.table = table = ClientChannels(connection, channels)
        self.send = partial(client_outbound.send, table)
        self._connection = connection
        self._emit = connection.emit
        self._channels = table.channels
        self._handles = table.handles
        self._on_handle: dict[str, Callable[[ClientHandle, Any, bytes], None]] = {
            "handle.created": self._created,
            "handle.reply": self._reply,
            "handle.index": self._index,
            "handle.notify": self._notify,
            "handle.prepare": self._prepare,
            "handle.ready": self._ready,
        }

    # --- in -------------------------------------------------------------------------------------

    def on(self, command: Command, m: Any, fragment: bytes) -> None:
        """One command of a channel or handle. Raises ``Violation`` if the connection dies of it."""
        name = command.name
        if name.startswith("channel."):
            channel = self._channels.get(m.channel_id)
            if channel is None and name == "channel.close":
                return  # repeated, because a command of ours crossed the first (§3.3.7)
            if channel is None:
                raise Violation("channel-error", f"{name}: channel {m.channel_id} is not open")
            if name == "channel.reply":
                self._channel_reply(channel, m)
            else:
                self._channel_close(channel, m)
            return
        handle = self._handles.get(m.handle_id)
        if handle is None and name == "handle.close":
            return
        if handle is None:
            raise Violation("handle-error", f"{name}: handle {m.handle_id} is not open")
        if name == "handle.close":
            self._close(handle, m)
        elif handle.state is OPEN and handle.channel.state is OPEN:
            try:
                self._on_handle[name](handle, m, fragment)
            except Violation as violation:
                if violation.lost is Lost.CONNECTION:
                    raise
                handle.state = CLOSING
                self._connection.write(
                    w.HandleClose(handle.number, violation.code, reply_text(violation.text))
                )
                condition = condition_of(violation.code) or Condition.INTERNAL_ERROR
                self._fail_awaited(handle, condition, violation.text)

    def _channel_reply(self, channel: ClientChannel, m: w.ChannelReply) -> None:
        reply = channel.awaited.pop(m.confirm_tag, None)
        if reply is None:
            raise Violation("command-invalid", f"channel.reply {m.confirm_tag} answers nothing")
        self._answer(channel.number, reply, m.reply_code, m.reply_text, None)

    def _channel_close(self, channel: ClientChannel, m: w.ChannelClose) -> None:
        """The reply to our close, or a close of the server, which is answered at the same level."""
        closing = channel.state is CLOSING
        condition = condition_of(m.reply_code)
        if not closing:
            self._connection.write(w.ChannelClose(channel.number, SUCCESS))
        self._forget(channel, condition, m.reply_text)
        if closing:
            if channel.closing is not None:
                self._emit(Done(channel.number, channel.closing))
        else:
            why = condition or Condition.CONNECTION_FORCED
            self._emit(SessionLost(channel.number, why, m.reply_text))

    def _forget(self, channel: ClientChannel, condition: Condition | None, text: str) -> None:
        del self._channels[channel.number]
        why = condition or Condition.CHANNEL_ERROR
        for token in tokens_of(channel):
            self._emit(Refused(channel.number, token, why, text, Lost.SESSION))
        for number in channel.handles:
            del self._handles[number]

    def _close(self, handle: ClientHandle, m: w.HandleClose) -> None:
        channel = handle.channel
        ours = handle.state is CLOSING
        condition = condition_of(m.reply_code)
        self._handles.pop(handle.number, None)
        channel.handles.pop(handle.number, None)
        if ours:
            reply = handle.awaited.pop(0, None)
            if reply is not None and reply.token is not None:
                self._emit(Done(channel.number, reply.token, result_of(reply, None)))
            self._fail_awaited(handle, condition or Condition.CHANNEL_ERROR, m.reply_text)
            return
        self._connection.write(w.HandleClose(handle.number, SUCCESS))
        pending = bool(handle.awaited)
        self._fail_awaited(handle, condition or Condition.CHANNEL_ERROR, m.reply_text)
        if not pending or handle.tag != handle.link:
            self._emit(Cancelled(channel.number, handle.tag))

    def _fail_awaited(self, handle: ClientHandle, condition: Condition, text: str) -> None:
        """Requests over the handle will not be answered: refuse them."""
        channel = handle.channel
        for service in [s for s, producer in channel.producers.items() if producer is handle]:
            del channel.producers[service]
        for reply in requests_of(handle):
            if reply.kind == "confirm":
                self._emit(Confirm(channel.number, reply.token, False, False))
            elif reply.token is not None:
                self._emit(Refused(channel.number, reply.token, condition, text, Lost.LINK))
        handle.awaited.clear()
        handle.queries.clear()
        handle.browses.clear()
        handle.prepares.clear()

    def _answer(
        self, number: int, reply: AwaitedReply, code: int, text: str, result: object
    ) -> None:
        good = code == SUCCESS
        if reply.kind == "confirm":
            self._emit(Confirm(number, reply.token, False, good))
        elif reply.token is not None and good:
            self._emit(Done(number, reply.token, result_of(reply, result)))
        elif reply.token is not None:
            why = condition_of(code) or Condition.INTERNAL_ERROR
            self._emit(Refused(number, reply.token, why, text, Lost.NOTHING))

    # --- handles --------------------------------------------------------------------------------

    def _created(self, handle: ClientHandle, m: w.HandleCreated, fragment: bytes) -> None:
        """The document sends it before the reply, the original server after it."""
        handle.created = m.dest_name
        reply = handle.awaited.pop(-1, None)
        if reply is not None:
            self._answer(handle.channel.number, reply, SUCCESS, "", m.dest_name)

    def _reply(self, handle: ClientHandle, m: w.HandleReply, fragment: bytes) -> None:
        gone = m.reply_code == REPLIES["message-not-found"]
        for at, (tag, token) in enumerate(handle.browses):
            if gone and tag == m.confirm_tag:
                del handle.browses[at]
                self._emit(Done(handle.channel.number, token))
                return
        reply = handle.awaited.pop(m.confirm_tag, None)
        if reply is None:
            raise Violation("command-invalid", f"handle.reply {m.confirm_tag} answers nothing")
        if reply.kind == "temporary" and not handle.created and m.reply_code == SUCCESS:
            handle.awaited[-1] = reply  # the name comes after the reply
            return
        number = handle.channel.number
        self._answer(number, reply, m.reply_code, m.reply_text, handle.created)

    def _index(self, handle: ClientHandle, m: w.HandleIndex, fragment: bytes) -> None:
        if not handle.queries:
            raise Violation("command-invalid", "an index without a query")
        token = handle.queries.popleft()
        index = Index(numbers_of(m.message_list), m.message_nbr)
        self._emit(Done(handle.channel.number, token, index))

    def _ready(self, handle: ClientHandle, m: w.HandleReady, fragment: bytes) -> None:
        if not handle.prepares:
            raise Violation("command-invalid", "nothing was prepared")
        self._emit(Done(handle.channel.number, handle.prepares.popleft(), m.message_size))

    # --- messages -------------------------------------------------------------------------------

    def fast_path(self, buf: bytes, start: int, stop: int, end: int) -> int:
        """Take a delivery that arrived in one fragment; see ``IncomingPublishes.fast_path``."""
        if stop - start < LEAST:
            return 0
        number, delivery, size, bits, length = NOTIFY.unpack_from(buf, start + 1)
        behind: int = stop + size
        handle = self._handles.get(number)
        octets = int.from_bytes(buf[stop : stop + SIZE_OCTETS], "big")
        body, most = behind - octets, self._connection.limits.max_message_octets
        if (
            handle is None
            or bits & ~REDELIVERED != DELIVERED
            or stop - start != LEAST + length
            or buf[stop - 1] != END
            or behind > end
            or size > self._connection.frame_max
            or body <= stop + SIZE_OCTETS
            or (most and octets > most)
            or handle.state is not OPEN
            or handle.channel.state is not OPEN
            or handle.channel.incoming is not None
        ):
            return 0
        try:
            parsed = self._connection.headers.from_peer(buf[stop + SIZE_OCTETS : body], "", "")
        except ValueError:
            return 0
        name = buf[start + LEAST - 1 : stop - 1].decode("utf-8", "surrogateescape")
        channel, exchange = handle.channel, TOPICS if handle.service is Service.TOPIC else ""
        message = Message(
            COMMAND, parsed.header, buf[body:behind], exchange, name, parsed.essentials
        )
        self._unsettled(handle, delivery)
        self._connection.found_now().append(
            Deliver(channel.number, handle.tag, delivery, bits & REDELIVERED != 0, message)
        )
        return behind

    def _unsettled(self, handle: ClientHandle, delivery: int) -> None:
        if not handle.settled and handle.service is not Service.PEER:
            handle.channel.unsettled[delivery] = False
            handle.channel.handle_of[delivery] = handle

    def _notify(self, handle: ClientHandle, m: w.HandleNotify, fragment: bytes) -> None:
        if m.out_of_band:
            raise Violation("not-implemented", "nothing is agreed about out of band", Lost.LINK)
        channel = handle.channel
        if m.streaming:
            self._streamed(handle, m, fragment)
            return
        if m.recovery:
            incoming = handle.partial
            if incoming is None:
                raise Violation("command-invalid", "nothing was prepared", Lost.LINK)
            incoming.add(fragment, not m.partial)
            if not m.partial:
                handle.partial = None
                self._complete(handle, m, incoming)
            return
        incoming = channel.incoming
        if incoming is None or incoming.handle != handle.number:
            # An original server may begin a message of another handle in between; it ends
            # the one before.
            incoming = channel.incoming = self._first(handle, fragment)
        else:
            incoming.add(fragment, False)
        if not m.partial:
            channel.incoming = None
            incoming.add(b"", True)
            self._complete(handle, m, incoming)

    def _first(self, handle: ClientHandle, fragment: bytes, digest: str = "") -> IncomingMessage:
        """Begin a message with its first fragment, which holds the header."""
        try:
            size, parsed, start = self._connection.headers.first(fragment, "", "")
        except ValueError as error:
            raise Violation("invalid-message", str(error), Lost.LINK) from None
        most = self._connection.limits.max_message_octets
        if most and size > most:
            raise Violation("message-too-large", f"{size} octets", Lost.LINK)
        incoming = IncomingMessage(
            handle.number, parsed.header, size, self._connection.spool, digest
        )
        incoming.add(fragment[start:], False)
        return incoming

    def _complete(self, handle: ClientHandle, m: w.HandleNotify, incoming: IncomingMessage) -> None:
        channel = handle.channel
        essentials = self._connection.headers.parsed(incoming.header).essentials
        exchange = TOPICS if handle.service is Service.TOPIC else ""
        message = Message(
            COMMAND, incoming.header, incoming.body(), exchange, m.dest_name, essentials
        )
        if not m.delivered:
            # Original servers number browsed messages 0: they answer browses in order.
            if not handle.browses:
                raise Violation("command-invalid", "a message without a browse", Lost.LINK)
            tag, token = handle.browses.popleft()
            looked = Looked(m.message_nbr, m.dest_name, message)
            self._emit(Done(channel.number, token, looked))
            return
        self._unsettled(handle, m.message_nbr)
        self._emit(Deliver(channel.number, handle.tag, m.message_nbr, m.redelivered, message))

    def _streamed(self, handle: ClientHandle, m: w.HandleNotify, fragment: bytes) -> None:
        """Deliver each fragment of a stream as a message with the header of the first."""
        body = fragment
        if handle.streaming is None:
            incoming = self._first(handle, fragment)
            handle.streaming, body = incoming.header, octets_of(incoming.body())
        essentials = self._connection.headers.parsed(handle.streaming).essentials
        message = Message(COMMAND, handle.streaming, body, "", m.dest_name, essentials)
        self._emit(Deliver(handle.channel.number, handle.tag, m.message_nbr, False, message))

    def _prepare(self, handle: ClientHandle, m: w.HandlePrepare, fragment: bytes) -> None:
        """Nothing is kept across connections: ready for all but the first fragment (§3.5.14)."""
        if not handle.channel.restartable:
            raise Violation("command-invalid", "the channel is not restartable", Lost.LINK)
        digest = m.content_hash.strip().lower()
        handle.partial = incoming = self._first(handle, fragment, digest)
        self._connection.write(w.HandleReady(handle.number, incoming.have))


def result_of(reply: AwaitedReply, result: object) -> object:
    return result if reply.make is None else reply.make(result)


def numbers_of(text: bytes) -> list[int]:
    """The numbers of an index: "0 5 9 15-40 80", ranges with both ends (§3.5.12)."""
    found: list[int] = []
    try:
        for word in text.decode("ascii").split():
            first, dash, last = word.partition("-")
            start, stop = int(first), int(last if dash else first)
            if stop < start or stop - start + len(found) > MOST_NUMBERS:
                raise ValueError
            found.extend(range(start, stop + 1))
    except ValueError:
        raise Violation("syntax-error", "this is no list of messages", Lost.LINK) from None
    return found
