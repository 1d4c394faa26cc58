"""What the server says: answers, closes, and what nobody asked for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.adapters.commands.negotiation import Opening
from gateway.adapters.commands.server_channel import PendingDelivery, ServerHandle
from gateway.adapters.commands.states import OPEN
from gateway.adapters.commands.violation import code_of
from gateway.adapters.commands.wire import layouts as w
from gateway.adapters.commands.wire.tables import REPLIES, SUCCESS
from gateway.errors import Condition, LocalError, Lost
from gateway.operations import (
    Blocked,
    Cancelled,
    Confirm,
    Deliver,
    Done,
    Index,
    Looked,
    Operation,
    Refused,
    Returned,
    SessionLost,
    Stolen,
    Unblocked,
)

if TYPE_CHECKING:
    from gateway.adapters.commands.server import Server


class PendingReply(NamedTuple):
    """The token of a request: the command, its handle (0: none), the confirm tag (0: none)."""

    name: str
    handle: int
    tag: int
    consumer: str = ""


def encode(server: "Server", operation: Operation) -> None:
    """Raises ``LocalError`` for what is not a server's to say."""
    encoder = ENCODERS.get(type(operation))
    if encoder is None:
        raise LocalError(f"{type(operation).__name__} cannot be sent by a server of 0.8a2")
    encoder(server, operation)


# --- answers ------------------------------------------------------------------------------------


def done(server: "Server", op: Done) -> None:
    token = op.token
    if isinstance(token, Opening):
        server.engine.negotiation.opened(token)
        return
    if token is None:
        return
    if not isinstance(token, PendingReply):
        raise LocalError("this is not a token of ours")
    if token.name == "connection.close":
        server.engine.part()
        return
    channel = server.channels.get(op.channel)
    if channel is None or (channel.state is not OPEN and token.name != "channel.close"):
        return
    if token.name == "channel.close":
        server.engine.write(w.ChannelClose(op.channel, SUCCESS))
        server.remove_channel(channel)
    elif token.handle == 0:
        if token.tag:
            server.engine.write(w.ChannelReply(op.channel, token.tag, SUCCESS))
    else:
        handle = server.handles.get(token.handle)
        if handle is not None and handle.state is OPEN:
            REPLY_ENCODERS.get(token.name, reply)(server, handle, token, op.result)


def reply(server: "Server", handle: ServerHandle, token: PendingReply, result: Any) -> None:
    if token.tag:
        server.engine.write(w.HandleReply(handle.number, token.tag, SUCCESS))


def opened(server: "Server", handle: ServerHandle, token: PendingReply, result: str) -> None:
    """The name of a temporary destination comes first (§3.5.2.2)."""
    if result:
        handle.name = result
        server.engine.write(w.HandleCreated(handle.number, result))
    reply(server, handle, token, result)


def consumed(server: "Server", handle: ServerHandle, token: PendingReply, result: str) -> None:
    handle.names[token.consumer] = result
    reply(server, handle, token, result)


def given_back(server: "Server", handle: ServerHandle, token: PendingReply, result: bool) -> None:
    if result:
        reply(server, handle, token, result)
        return
    code = REPLIES["message-not-found"]
    server.lose_handle(handle, code, "no such message", server.engine.found_now())


def index(server: "Server", handle: ServerHandle, token: PendingReply, result: Index) -> None:
    """The list, as far as it fits a frame of the peer (§3.5.12)."""
    room = min(server.engine.frame_out, 0x10000) - 16
    text, last = number_ranges(result.numbers, room)
    more = result.more if last is None else last
    server.engine.write(w.HandleIndex(handle.number, more, text.encode()))


def number_ranges(numbers: list[int], room: int) -> tuple[str, int | None]:
    """Numbers as text with ranges, and the last one in it if not all of them have room."""
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
    server: "Server", handle: ServerHandle, token: PendingReply, result: Looked | None
) -> None:
    """The one failure that closes nothing; it is told without a tag too (§2.2.8.7)."""
    engine = server.engine
    try:
        form = None
        if result is not None:
            form = engine.headers.for_peer(result.message, engine.frame_out)
    except ValueError:
        form = None  # it has no form that this version can read
    if result is None or form is None:
        code = REPLIES["message-not-found"]
        record = w.HandleReply(handle.number, token.tag, code, "message not found")
        server.engine.write(record)
        return
    due = PendingDelivery(handle, result.name, result.number, False, result.message)
    handle.channel.notify(due, *form, False, delivered=False)


def ready(server: "Server", handle: ServerHandle, token: PendingReply, result: int) -> None:
    server.engine.write(w.HandleReady(handle.number, result))


def continued(server: "Server", handle: ServerHandle, token: PendingReply, result: str) -> None:
    if not result:
        reply(server, handle, token, result)
        return
    code = REPLIES["invalid-message"]
    server.lose_handle(handle, code, result, server.engine.found_now())


def closed(server: "Server", handle: ServerHandle, token: PendingReply, result: Any) -> None:
    server.engine.write(w.HandleClose(handle.number, SUCCESS))
    server.remove_handle(handle)


REPLY_ENCODERS: dict[str, Callable[["Server", ServerHandle, PendingReply, Any], None]] = {
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


def refused(server: "Server", op: Refused) -> None:
    token = op.token
    if isinstance(token, Opening) or op.lost is Lost.CONNECTION:
        taken = isinstance(token, Opening) and op.condition is Condition.RESOURCE_LOCKED
        code = REPLIES["client-active"] if taken else code_of(op.condition)
        server.engine.send_close(op.condition, op.text, code, theirs=True)
        return
    channel = server.channels.get(op.channel)
    if channel is None:
        return
    code, found = code_of(op.condition), server.engine.found_now()
    handle = server.handles.get(token.handle) if isinstance(token, PendingReply) else None
    large = op.condition is Condition.CONTENT_TOO_LARGE
    if op.lost is Lost.LINK and handle is not None and not large:
        server.lose_handle(handle, code, op.text, found)
    else:
        # A message that is too large closes the channel (§3.5.14).
        server.lose_channel(channel, code, op.text, found)


def session_lost(server: "Server", op: SessionLost) -> None:
    channel = server.channels.get(op.channel)
    if channel is not None:
        found = server.engine.found_now()
        server.lose_channel(channel, code_of(op.condition), op.text, found)


def cancelled(server: "Server", op: Cancelled) -> None:
    """What a handle listened to is gone."""
    handle = server.handles.get(int(op.tag.partition("/")[0]))
    if handle is not None:
        code = REPLIES["not-found"]
        server.lose_handle(handle, code, "the destination is gone", server.engine.found_now())


def deliver(server: "Server", op: Deliver) -> None:
    outlet = server.outlet(op.channel)
    outlet.deliver(op.consumer, op.delivery, op.redelivered, op.message)


def not_sent(server: "Server", op: Operation) -> None:
    """There is no word for it."""


ENCODERS: dict[type[Operation], Callable[["Server", Any], None]] = {
    Done: done,
    Refused: refused,
    SessionLost: session_lost,
    Cancelled: cancelled,
    Deliver: deliver,
    Confirm: not_sent,
    Returned: not_sent,
    Blocked: not_sent,
    Unblocked: not_sent,
    Stolen: not_sent,
}
