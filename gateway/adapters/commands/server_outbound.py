"""Encodes the operations of a server: replies, closes and deliveries."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gateway import operations as ops
from gateway.adapters.commands.connection import Connection, Opening, PendingReply
from gateway.adapters.commands.server_channel import PendingDelivery, ServerChannels, ServerHandle
from gateway.adapters.commands.states import OPEN
from gateway.adapters.commands.violation import code_of
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import REPLIES, SUCCESS
from gateway.errors import Condition, LocalError, Lost


class ConnectionControl(Protocol):
    """The engine, which answers for the connection itself."""

    def opened(self, token: Opening) -> None:
        """The virtual host is open."""
        ...

    def answer_close(self) -> None:
        """Send the last close."""
        ...

    def send_close(
        self, condition: Condition | None, text: str, code: int = 0, theirs: bool = False
    ) -> None:
        """Begin to close."""
        ...


@dataclass(eq=False)
class Outbound:
    """Encodes the operations of a server."""

    connection: Connection
    table: ServerChannels
    control: ConnectionControl

    def send(self, operation: ops.Operation) -> None:
        """Raises ``LocalError`` for operations that a server does not send."""
        encoder = ENCODERS.get(type(operation))
        if encoder is None:
            raise LocalError(f"{type(operation).__name__} cannot be sent by a server of 0.8a2")
        encoder(self, operation)


# --- answers ------------------------------------------------------------------------------------


def done(out: Outbound, op: ops.Done) -> None:
    token = op.token
    if isinstance(token, Opening):
        out.control.opened(token)
        return
    if token is None:
        return
    if not isinstance(token, PendingReply):
        raise LocalError("this is not a token of ours")
    if token.name == "connection.close":
        out.control.answer_close()
        return
    channel = out.table.channels.get(op.channel)
    if channel is None or (channel.state is not OPEN and token.name != "channel.close"):
        return
    if token.name == "channel.close":
        out.connection.write(w.ChannelClose(op.channel, SUCCESS))
        out.table.remove_channel(channel)
    elif token.handle == 0:
        if token.tag:
            out.connection.write(w.ChannelReply(op.channel, token.tag, SUCCESS))
    else:
        handle = out.table.handles.get(token.handle)
        if handle is not None and handle.state is OPEN:
            REPLY_ENCODERS.get(token.name, reply)(out, handle, token, op.result)


def reply(out: Outbound, handle: ServerHandle, token: PendingReply, result: Any) -> None:
    if token.tag:
        out.connection.write(w.HandleReply(handle.number, token.tag, SUCCESS))


def opened(out: Outbound, handle: ServerHandle, token: PendingReply, result: str) -> None:
    """The name of a temporary destination is sent first (§3.5.2.2)."""
    if result:
        handle.name = result
        out.connection.write(w.HandleCreated(handle.number, result))
    reply(out, handle, token, result)


def consumed(out: Outbound, handle: ServerHandle, token: PendingReply, result: str) -> None:
    handle.names[token.consumer] = result
    reply(out, handle, token, result)


def given_back(out: Outbound, handle: ServerHandle, token: PendingReply, result: bool) -> None:
    if result:
        reply(out, handle, token, result)
        return
    code = REPLIES["message-not-found"]
    out.table.lose_handle(handle, code, "no such message")


def index(out: Outbound, handle: ServerHandle, token: PendingReply, result: ops.Index) -> None:
    """Send the numbers that fit a frame of the peer (§3.5.12)."""
    room = min(out.connection.frame_out, 0x10000) - 16
    text, last = number_ranges(result.numbers, room)
    more = result.more if last is None else last
    out.connection.write(w.HandleIndex(handle.number, more, text.encode()))


def number_ranges(numbers: list[int], room: int) -> tuple[str, int | None]:
    """Numbers as text with ranges, and the last one included if not all of them fit."""
    pieces: list[str] = []
    size, at = 0, 0
    while at < len(numbers):
        first = last = numbers[at]
        while at + 1 < len(numbers) and numbers[at + 1] == last + 1:
            at += 1
            last = numbers[at]
        piece = str(first) if first == last else f"{first}-{last}"
        if size + len(piece) + 1 > room:
            return " ".join(pieces), first - 1
        pieces.append(piece)
        size += len(piece) + 1
        at += 1
    return " ".join(pieces), None


def browsed(
    out: Outbound, handle: ServerHandle, token: PendingReply, result: ops.Looked | None
) -> None:
    """A failed browse is the only failure that closes nothing; it is reported without a tag too
    (§2.2.8.7)."""
    connection = out.connection
    try:
        form = None
        if result is not None:
            form = connection.headers.for_peer(result.message, connection.frame_out)
    except ValueError:
        form = None  # it has no form in this version
    if result is None or form is None:
        code = REPLIES["message-not-found"]
        record = w.HandleReply(handle.number, token.tag, code, "message not found")
        out.connection.write(record)
        return
    due = PendingDelivery(handle, result.name, result.number, False, result.message)
    handle.channel.notify(due, *form, False, delivered=False)


def ready(out: Outbound, handle: ServerHandle, token: PendingReply, result: int) -> None:
    out.connection.write(w.HandleReady(handle.number, result))


def continued(out: Outbound, handle: ServerHandle, token: PendingReply, result: str) -> None:
    if not result:
        reply(out, handle, token, result)
        return
    code = REPLIES["invalid-message"]
    out.table.lose_handle(handle, code, result)


def closed(out: Outbound, handle: ServerHandle, token: PendingReply, result: Any) -> None:
    out.connection.write(w.HandleClose(handle.number, SUCCESS))
    out.table.remove_handle(handle)


REPLY_ENCODERS: dict[str, Callable[[Outbound, ServerHandle, PendingReply, Any], None]] = {
    "handle.open": opened,
    "handle.consume": consumed,
    "handle.unget": given_back,
    "handle.query": index,
    "handle.browse": browsed,
    "handle.prepare": ready,
    "handle.continue": continued,
    "handle.close": closed,
}


# --- refusals -----------------------------------------------------------------------------------


def refused(out: Outbound, op: ops.Refused) -> None:
    token = op.token
    if isinstance(token, Opening) or op.lost is Lost.CONNECTION:
        taken = isinstance(token, Opening) and op.condition is Condition.RESOURCE_LOCKED
        code = REPLIES["client-active"] if taken else code_of(op.condition)
        out.control.send_close(op.condition, op.text, code, theirs=True)
        return
    channel = out.table.channels.get(op.channel)
    if channel is None:
        return
    code = code_of(op.condition)
    handle = out.table.handles.get(token.handle) if isinstance(token, PendingReply) else None
    large = op.condition is Condition.CONTENT_TOO_LARGE
    if op.lost is Lost.LINK and handle is not None and not large:
        out.table.lose_handle(handle, code, op.text)
    else:
        # A message that is too large closes the channel (§3.5.14).
        out.table.lose_channel(channel, code, op.text)


def session_lost(out: Outbound, op: ops.SessionLost) -> None:
    channel = out.table.channels.get(op.channel)
    if channel is not None:
        out.table.lose_channel(channel, code_of(op.condition), op.text)


def cancelled(out: Outbound, op: ops.Cancelled) -> None:
    """The destination that a handle consumes from is gone."""
    handle = out.table.handles.get(int(op.tag.partition("/")[0]))
    if handle is not None:
        code = REPLIES["not-found"]
        out.table.lose_handle(handle, code, "the destination is gone")


def deliver(out: Outbound, op: ops.Deliver) -> None:
    outlet = out.table.outlet(op.channel)
    outlet.deliver(op.consumer, op.delivery, op.redelivered, op.message)


def not_sent(out: Outbound, op: ops.Operation) -> None:
    """No-op: 0.8a2 has no command for it."""


ENCODERS: dict[type[ops.Operation], Callable[[Outbound, Any], None]] = {
    ops.Done: done,
    ops.Refused: refused,
    ops.SessionLost: session_lost,
    ops.Cancelled: cancelled,
    ops.Deliver: deliver,
    **dict.fromkeys((ops.Confirm, ops.Returned, ops.Blocked, ops.Unblocked, ops.Stolen), not_sent),
}
